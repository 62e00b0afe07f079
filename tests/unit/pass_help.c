// Unit tests of help.def against the passes themselves: rows, options, and every sample run.
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

static void rows(void **state) {
  (void)state;
  assert_int_equal(pass_help_count, pass_count);
  for (u32 k = 0; k < pass_count; k++) {
    assert_string_equal(pass_help_table[k].name, pass_table[k].name);
    assert_ptr_equal(pass_help_of(pass_find(pass_table[k].name)), &pass_help_table[k]);
  }
  static const pass_info guest = {"guest", "", "", NULL};
  assert_null(pass_help_of(&guest));
}

// ---- samples ------------------------------------------------------------------------------------
static bool run(hlo_module *m, const pass_info *p, pass_option_asked asked) {
  pass_run_options o = pass_run_default();
  o.verify_all = true;
  o.asked = asked;
  pass_result r;
  expect_good(pass_run(m, p, NULL, &o, &r), p->name);
  expect_good(hlo_verify(m, NULL), p->name);
  return r.changed;
}

static void same_value(const char *pass, const hlo_module *before, const hlo_module *after,
                       u64 seed) {
  hlo_literal **args, *x, *y;
  u32 n;
  expect_good(hlo_inputs_random(ctx, before, seed, &args, &n), pass);
  expect_good(hlo_eval_module(before, n, args, NULL, &x), pass);
  expect_good(hlo_eval_module(after, n, args, NULL, &y), pass);
  expect_good(hlo_compare(x, y, (hlo_tolerance){1e-6, 1e-5}), pass);
  hlo_literal_unref(x);
  hlo_literal_unref(y);
  hlo_inputs_free(args, n);
}

// The pass changes its sample into a valid module of the same meaning, and, where the row says so,
// is done then.
static void samples(void **state) {
  (void)state;
  for (u32 k = 0; k < pass_count; k++) {
    const pass_info *p = &pass_table[k];
    hlo_module *before = parse_sample(p->name, pass_help_table[k].sample),
               *after = hlo_module_clone(before, before->name);
    if (!run(after, p, (pass_option_asked){0})) fail_msg("%s leaves its sample as it is", p->name);
    for (u64 seed = 1; seed <= 3; seed++) same_value(p->name, before, after, seed);
    if (!pass_help_table[k].again && run(after, p, (pass_option_asked){0}))
      fail_msg("%s changes its own result", p->name);
    hlo_module_free(after);
    hlo_module_free(before);
  }
}

// What help prints shows the change, and can be pasted.
static void sample_texts(void **state) {
  (void)state;
  for (u32 k = 0; k < pass_count; k++) {
    hs_buf before = {0}, after = {0};
    expect_good(pass_help_sample(&pass_table[k], &before, &after), pass_table[k].name);
    if (strcmp(hs_buf_cstr(&before), hs_buf_cstr(&after)) == 0)
      fail_msg("%s: before and after read alike", pass_table[k].name);
    hlo_module *a = parse_sample(pass_table[k].name, before.p),
               *b = parse_sample(pass_table[k].name, after.p);
    same_value(pass_table[k].name, a, b, 1);
    hlo_module_free(a);
    hlo_module_free(b);
    hs_buf_free(&before);
    hs_buf_free(&after);
  }
}

// ---- options ------------------------------------------------------------------------------------
enum { MOST = 256 };
typedef struct words {
  u32 n;
  char *v[MOST];
} words;

static void add(words *w, char *take) {
  for (u32 k = 0; k < w->n; k++)
    if (strcmp(w->v[k], take) == 0) {
      hs_free(take);
      return;
    }
  assert_true(w->n < MOST);
  w->v[w->n++] = take;
}
static bool has(const words *w, const char *word) {
  for (u32 k = 0; k < w->n; k++)
    if (strcmp(w->v[k], word) == 0) return true;
  return false;
}
static void drop(words *w) {
  while (w->n) hs_free(w->v[--w->n]);
}

static void record(void *arg, const char *key, const char *absent) {
  add(arg, hs_format("%s=%s", key, absent));
}

// A row names, with their defaults, exactly the options that the pass asks for while it changes the
// sample.
static void options(void **state) {
  (void)state;
  for (u32 k = 0; k < pass_count; k++) {
    hs_arena a = {0};
    pass_option_help *v;
    u32 n = pass_help_options(&pass_help_table[k], &a, &v);
    words said = {0}, asked = {0};
    for (u32 j = 0; j < n; j++) {
      assert_true(*v[j].meaning);
      add(&said, hs_format("%s=%s", v[j].name, v[j].choices ? v[j].choices : v[j].absent));
    }
    assert_int_equal(said.n, n);
    hlo_module *m = parse_sample(pass_table[k].name, pass_help_table[k].sample);
    run(m, &pass_table[k], (pass_option_asked){record, &asked});
    for (u32 j = 0; j < said.n; j++)
      if (!has(&asked, said.v[j]))
        fail_msg("%s does not ask for %s", pass_table[k].name, said.v[j]);
    for (u32 j = 0; j < asked.n; j++)
      if (!has(&said, asked.v[j]))
        fail_msg("the row of %s does not name %s", pass_table[k].name, asked.v[j]);
    hlo_module_free(m);
    drop(&said);
    drop(&asked);
    hs_arena_free(&a);
  }
}

// Any other value of an option keeps the meaning, too.
static void option_values(void **state) {
  (void)state;
  for (u32 k = 0; k < pass_count; k++) {
    hs_arena a = {0};
    pass_option_help *v;
    u32 n = pass_help_options(&pass_help_table[k], &a, &v);
    for (u32 j = 0; j < n; j++) {
      const char *value = strcmp(v[j].absent, "true") == 0    ? "false"
                          : strcmp(v[j].absent, "false") == 0 ? "true"
                                                              : "3";
      if (v[j].choices) value = strrchr(v[j].choices, '|') + 1;
      struct pass_option option = {v[j].name, value};
      hlo_module *before = parse_sample(pass_table[k].name, pass_help_table[k].sample),
                 *after = hlo_module_clone(before, before->name);
      pass_run_options o = pass_run_default();
      o.verify_all = true;
      pass_result r;
      expect_good(pass_run(after, &pass_table[k], &(pass_options){1, &option}, &o, &r), v[j].name);
      same_value(v[j].name, before, after, 1);
      hlo_module_free(after);
      hlo_module_free(before);
    }
    hs_arena_free(&a);
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

// A sample may not reach every place where its pass asks for an option: each name in the sources is
// in some row.
static void options_of_sources(void **state) {
  (void)state;
  words named = {0};
  for (u32 k = 0; k < pass_count; k++) {
    hs_arena a = {0};
    pass_option_help *v;
    for (u32 n = pass_help_options(&pass_help_table[k], &a, &v), j = 0; j < n; j++)
      add(&named, hs_strdup(v[j].name));
    hs_arena_free(&a);
  }
  glob_t files;
  assert_int_equal(glob("passes/*.c", 0, NULL, &files), 0);
  u32 calls = 0;
  for (size_t f = 0; f < files.gl_pathc; f++) {
    if (strcmp(files.gl_pathv[f], "passes/registry.c") == 0) continue;  // defines the functions
    char *text = contents(files.gl_pathv[f]);
    for (const char *p = text; (p = strstr(p, "pass_option_"));) {
      p += strlen("pass_option_");
      static const char *const kinds[] = {"bool(", "int(", "float(", "text(", "choice("};
      bool asks = false;
      for (size_t k = 0; k < HS_COUNT(kinds); k++)
        asks |= strncmp(p, kinds[k], strlen(kinds[k])) == 0;
      if (!asks) continue;
      char key[64];
      if (sscanf(p, "%*[a-z](%*[a-z], \"%63[a-z_0-9]\"", key) != 1)
        fail_msg("%s: an option whose name is no literal: %.40s", files.gl_pathv[f], p);
      if (!has(&named, key))
        fail_msg("%s asks for %s, which no row of help.def names", files.gl_pathv[f], key);
      calls++;
    }
    hs_free(text);
  }
  assert_true(calls >= named.n);
  globfree(&files);
  drop(&named);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(rows),          cmocka_unit_test(samples),
      cmocka_unit_test(sample_texts),  cmocka_unit_test(options),
      cmocka_unit_test(option_values), cmocka_unit_test(options_of_sources)};
  return cmocka_run_group_tests(tests, open_context, close_context);
}
