// Unit tests of the descriptors against the passes themselves: every sample run, every option read.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "core/eval/eval.h"
#include "tests/unit/modules.h"

#include <glob.h>
#include <stdio.h>

static hlo_module *parse_sample(const char *pass, const char *text) {
  hlo_module *m = NULL;
  expect_good(hlo_parse(ctx, text, strlen(text), NULL, &m), pass);
  expect_good(hlo_verify(m, NULL), pass);
  return m;
}

// The pass of that position in passes.def.
static const pass_info *nth(u32 k) { return pass_builtin.passes[k]; }

// A descriptor says all that the shell shows; names are found by their exact spelling.
static void descriptors(void **state) {
  (void)state;
  for (u32 k = 0; k < pass_builtin.npasses; k++) {
    const pass_info *p = nth(k);
    if (!p->name || !p->summary || !p->xla_source || !p->run || !p->sample || !*p->summary ||
        strncmp(p->xla_source, "xla/", 4) != 0)
      fail_msg("%s: name, summary, xla_source, run and sample are needed", p->name);
    assert_ptr_equal(pass_find(&pass_builtin, p->name), p);
    assert_true(p->noptions <= 64);
    for (u32 j = 0; j < p->noptions; j++) {
      const pass_option_info *o = &p->options[j];
      if (!o->name || !o->value || !o->meaning || !*o->meaning)
        fail_msg("%s: option %u says too little", p->name, j);
      for (u32 i = 0; i < j; i++) assert_string_not_equal(p->options[i].name, o->name);
      if (o->type == PASS_CHOICE) {
        assert_non_null(strchr(o->value, '|'));
        continue;
      }
      struct pass_option given = {o->name, o->value};
      expect_good(pass_check_options(p, &(pass_options){1, &given}), p->name);
    }
  }
}

// ---- samples ------------------------------------------------------------------------------------
static pass_result run(hlo_module *m, const pass_info *p) {
  pass_run_options o = pass_run_default();
  o.verify_all = true;
  pass_result r;
  expect_good(pass_run(m, p, NULL, &o, &r), p->name);
  expect_good(hlo_verify(m, NULL), p->name);
  return r;
}

static void same_value(const char *pass, const hlo_module *before, const hlo_module *after,
                       u64 seed) {
  hlo_literal **args, *x, *y;
  u32 n;
  expect_good(hlo_inputs_random(ctx, before, seed, &args, &n), pass);
  expect_good(hlo_eval_module(before, n, args, NULL, &x), pass);
  expect_good(hlo_eval_module(after, n, args, NULL, &y), pass);
  expect_good(hlo_compare(x, y, hlo_near(1e-6, 1e-5)), pass);
  hlo_literal_unref(x);
  hlo_literal_unref(y);
  hlo_inputs_free(args, n);
}

// The pass changes its sample into a valid module of the same meaning, and, where the descriptor
// says so, is done then.
static void samples(void **state) {
  (void)state;
  for (u32 k = 0; k < pass_builtin.npasses; k++) {
    const pass_info *p = nth(k);
    hlo_module *before = parse_sample(p->name, p->sample),
               *after = hlo_module_clone(before, before->name);
    if (!run(after, p).changed) fail_msg("%s leaves its sample as it is", p->name);
    for (u64 seed = 1; seed <= 3; seed++) same_value(p->name, before, after, seed);
    if (!p->again && run(after, p).changed) fail_msg("%s changes its own result", p->name);
    hlo_module_free(after);
    hlo_module_free(before);
  }
}

// What help prints shows the change, and can be pasted.
static void sample_texts(void **state) {
  (void)state;
  for (u32 k = 0; k < pass_builtin.npasses; k++) {
    hs_buf before = {0}, after = {0};
    expect_good(pass_sample(nth(k), &before, &after), nth(k)->name);
    if (strcmp(hs_buf_cstr(&before), hs_buf_cstr(&after)) == 0)
      fail_msg("%s: before and after read alike", nth(k)->name);
    hlo_module *a = parse_sample(nth(k)->name, before.p), *b = parse_sample(nth(k)->name, after.p);
    same_value(nth(k)->name, a, b, 1);
    hlo_module_free(a);
    hlo_module_free(b);
    hs_buf_free(&before);
    hs_buf_free(&after);
  }
}

// ---- options ------------------------------------------------------------------------------------
// A pass reads each of its options while it changes its sample.
static void options(void **state) {
  (void)state;
  for (u32 k = 0; k < pass_builtin.npasses; k++) {
    const pass_info *p = nth(k);
    hlo_module *m = parse_sample(p->name, p->sample);
    u64 read = run(m, p).options_read;
    for (u32 j = 0; j < p->noptions; j++)
      if (!(read >> j & 1)) fail_msg("%s does not read %s", p->name, p->options[j].name);
    hlo_module_free(m);
  }
}

// Any other value of an option keeps the meaning, too.
static void option_values(void **state) {
  (void)state;
  for (u32 k = 0; k < pass_builtin.npasses; k++) {
    const pass_info *p = nth(k);
    for (u32 j = 0; j < p->noptions; j++) {
      const pass_option_info *v = &p->options[j];
      const char *value = v->type == PASS_CHOICE           ? strrchr(v->value, '|') + 1
                          : strcmp(v->value, "true") == 0  ? "false"
                          : strcmp(v->value, "false") == 0 ? "true"
                                                           : "3";
      struct pass_option option = {v->name, value};
      hlo_module *before = parse_sample(p->name, p->sample),
                 *after = hlo_module_clone(before, before->name);
      pass_run_options o = pass_run_default();
      o.verify_all = true;
      pass_result r;
      expect_good(pass_run(after, p, &(pass_options){1, &option}, &o, &r), v->name);
      same_value(v->name, before, after, 1);
      hlo_module_free(after);
      hlo_module_free(before);
    }
  }
}

// What a pass does not have, or cannot mean, is an error that names it, whoever runs the pass.
static void wrong_options(void **state) {
  (void)state;
  static const struct {
    const char *pass, *key, *value, *message, *note;
  } cases[] = {
      {"dce", "x", "1", "pass dce has no option 'x'", "its options are use_call_analysis, "},
      {"cse", "layout_sensitiv", "true", "has no option 'layout_sensitiv'", "'layout_sensitive'?"},
      {"gather_expander", "simple", "true", "pass gather_expander has no option 'simple'", "mode"},
      {"logistic-expander", "simple", "true", "has no option 'simple'", "it takes none"},
      {"cse", "only_scalars", "yes", "only_scalars is true or false, not 'yes'", NULL},
      {"fusion", "mode", "fast", "mode is one of cost|greedy|greedy_cpu, not 'fast'", NULL},
      {"tree_reduction_rewriter", "reduce_window_size", "many", "is a whole number", NULL},
      {"tree_reduction_rewriter", "reduce_window_size", "", "is a whole number", NULL},
      {"dot-merger", "max_size_to_merge", "99999999999999999999", "is a whole number", NULL},
      {"algsimp", "associative-reordering-threshold", "two", "is a number", NULL},
  };
  for (size_t k = 0; k < HS_COUNT(cases); k++) {
    const pass_info *p = pass_find(&pass_builtin, cases[k].pass);
    struct pass_option option = {cases[k].key, cases[k].value};
    hlo_module *m = parse_sample(p->name, p->sample);
    pass_run_options o = pass_run_default();
    pass_result r;
    hs_status s = pass_run(m, p, &(pass_options){1, &option}, &o, &r);
    assert_false(hs_ok(s));
    assert_int_equal(s.err->code, HS_E_USAGE);
    hs_buf text = {0};
    hs_status_render(s, &text, false);
    if (!strstr(hs_buf_cstr(&text), cases[k].message) ||
        (cases[k].note && !strstr(hs_buf_cstr(&text), cases[k].note)))
      fail_msg("%s{%s=%s}: %s", p->name, cases[k].key, cases[k].value, hs_buf_cstr(&text));
    hs_buf_free(&text);
    hs_status_drop(s);
    hlo_module_free(m);
  }
}

static hs_status reads_too_much(pass_ctx *c) {
  if (pass_option_bool(c, "declared")) (void)pass_option_int(c, "declared");
  return HS_GOOD;
}

// A pass that reads an option which it does not declare, or as another type, fails.
static void undeclared_options(void **state) {
  (void)state;
  static const pass_option_info declared[] = {{"declared", PASS_BOOL, "true", "as it says"}};
  const pass_info guests[] = {
      {.name = "none", .run = reads_too_much},
      {.name = "one", .run = reads_too_much, .options = declared, .noptions = 1}};
  for (size_t k = 0; k < HS_COUNT(guests); k++) {
    hlo_module *m = parse_sample("guest", nth(0)->sample);
    pass_run_options o = pass_run_default();
    pass_result r;
    hs_status s = pass_run(m, &guests[k], NULL, &o, &r);
    assert_false(hs_ok(s));
    assert_int_equal(s.err->code, HS_E_PASS);
    hs_status_drop(s);
    hlo_module_free(m);
  }
}

static char *contents(const char *path) {
  FILE *f = fopen(path, "rb");
  if (!f) fail_msg("%s cannot be read", path);
  hs_buf b = {0};
  char part[4096];
  for (size_t n; (n = fread(part, 1, sizeof part, f)) > 0;) hs_buf_put(&b, part, n);
  fclose(f);
  char *text = hs_strdup(hs_buf_cstr(&b));
  hs_buf_free(&b);
  return text;
}

static bool declares(const char *key) {
  for (u32 k = 0; k < pass_builtin.npasses; k++)
    for (u32 j = 0; j < nth(k)->noptions; j++)
      if (strcmp(nth(k)->options[j].name, key) == 0) return true;
  return false;
}

// The name in a call of one of the functions that read options; false: `p` is none.
static bool reads_option(const char *p, char key[64]) {
  static const char *const kinds[] = {"bool(", "int(", "float(", "text(", "choice("};
  for (size_t k = 0; k < HS_COUNT(kinds); k++)
    if (strncmp(p, kinds[k], strlen(kinds[k])) == 0)
      return sscanf(p, "%*[a-z](%*[a-z], \"%63[a-z_0-9]\"", key) == 1;
  return false;
}

// A sample may not reach every place where its pass reads an option: each name in the sources is
// declared by some pass.
static void options_of_sources(void **state) {
  (void)state;
  glob_t files;
  assert_int_equal(glob("passes/*/*.c", 0, NULL, &files), 0);
  u32 reads = 0;
  for (size_t f = 0; f < files.gl_pathc; f++) {
    char *text = contents(files.gl_pathv[f]), key[64];
    for (const char *p = text; (p = strstr(p, "pass_option_"));) {
      p += strlen("pass_option_");
      if (!reads_option(p, key)) continue;
      if (!declares(key)) fail_msg("%s reads %s, which no pass declares", files.gl_pathv[f], key);
      reads++;
    }
    hs_free(text);
  }
  assert_true(reads > 40);  // the simplifier's come from its table
  globfree(&files);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(descriptors),        cmocka_unit_test(samples),
      cmocka_unit_test(sample_texts),       cmocka_unit_test(options),
      cmocka_unit_test(option_values),      cmocka_unit_test(wrong_options),
      cmocka_unit_test(undeclared_options), cmocka_unit_test(options_of_sources)};
  return cmocka_run_group_tests(tests, open_context, close_context);
}
