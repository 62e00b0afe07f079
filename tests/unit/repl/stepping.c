// stepping.c — the runner, the pipelines and the shell's stepping with passes that misbehave:
// planted ones that fail, that leave an invalid module, that undo what others do. And what a long
// history costs.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

#include "backends/worker.h"
#include "repl/debug/bundle.h"
#include "repl/registry.h"

static const char text[] =
    "HloModule m\nENTRY e {\n x = f32[8] parameter(0)\n y = f32[8] parameter(1)\n"
    " dead = f32[8] negate(x)\n a = f32[8] add(x, y)\n"
    " b = f32[8] multiply(a, y)\n c = f32[8] multiply(a, y)\n ROOT r = f32[8] add(b, c)\n}\n";

// ---- a session in a folder of its own -----------------------------------------------------------
typedef struct fixture {
  repl_session *s;
  const pass_info *guest;
  pass_registry planted;  // the guest before the built-in passes
  char dir[32];
  char *home;
} fixture;

static pass_registry registry_with(const pass_info *const *guest) {
  return (pass_registry){.passes = guest, .npasses = *guest != NULL, .next = &pass_builtin};
}

static void open_fixture(fixture *f, const pass_info *guest) {
  strcpy(f->dir, "/tmp/hlosh-unit.XXXXXX");
  f->home = getcwd(NULL, 0);
  assert_non_null(mkdtemp(f->dir));
  assert_int_equal(chdir(f->dir), 0);
  FILE *file = fopen("m.hlo", "w");
  assert_non_null(file);
  fputs(text, file);
  fclose(file);
  f->s = repl_session_new(repl_commands, repl_command_count);
  f->guest = guest;
  f->planted = registry_with(&f->guest);
  f->s->passes = &f->planted;
}

static void close_fixture(fixture *f) {
  repl_session_free(f->s);
  assert_int_equal(chdir(f->home), 0);
  free(f->home);
  bundle_remove(f->dir);
}

// Runs a line with JSON output; the document, in an arena of nobody: freed by the caller. *code:
// its exit code.
static char *document(fixture *f, const char *line, int *code) {
  hs_buf said = {0};
  // behind an expression > is greater
  char *whole = hs_format("%s %s out.json", line, strncmp(line, "until", 5) == 0 ? "-o" : ">");
  f->s->json = true;
  *code = repl_run_line(f->s, whole, strlen(whole));
  f->s->json = false;
  hs_free(whole);
  hs_status_drop(repl_read_file("out.json", 0, &said));
  char *doc = hs_strdup(said.n ? hs_buf_cstr(&said) : "");
  hs_buf_free(&said);
  return doc;
}

static int run(fixture *f, const char *line) { return repl_run_line(f->s, line, strlen(line)); }

static void expect(const char *doc, const char *part) {
  if (!strstr(doc, part)) fail_msg("%s is not in %s", part, doc);
}

// ---- passes that fail ---------------------------------------------------------------------------
// Removes what it can, then gives up: what it did must not stay.
static hs_status failing_pass(pass_ctx *c) {
  hlo_for_each_instr_safe(i, c->m->entry)
    if (!i->nuses && !hlo_is_root(i) && i->opcode != HLO_PARAMETER) hlo_remove(i);
  return pass_option_bool(c, "quiet") ? HS_GOOD : hs_fail(HS_E_INTERNAL, "the planted fault");
}

// Turns the root into one of another shape than its users and the entry's layout know.
static hs_status invalid_pass(pass_ctx *c) {
  hlo_instr *r = c->m->entry->root, *ops[] = {hlo_operand(r, 0), c->m->entry->params[0]};
  const i64 four = 4;
  hlo_replace(r, hlo_add(c->m->entry, HLO_ADD, hlo_shape_array(c->m->ctx, HLO_F32, 1, &four), 2,
                         ops, "wrong"));
  return HS_GOOD;
}

static const pass_option_info failing_options[] = {{"how", PASS_TEXT, "", "no matter how"},
                                                   {"quiet", PASS_BOOL, "false", "does not fail"}};
static const pass_info failing = {.name = "failing",
                                  .summary = "fails",
                                  .run = failing_pass,
                                  .options = failing_options,
                                  .noptions = HS_COUNT(failing_options)},
                       invalid = {.name = "invalid",
                                  .summary = "leaves an invalid module",
                                  .run = invalid_pass};

static void failing_passes_leave_nothing(void **state) {
  (void)state;
  fixture f;
  int code;
  open_fixture(&f, &failing);
  assert_int_equal(run(&f, "load m.hlo"), 0);
  u64 loaded = hlo_text_hash(f.s->current->m);
  char *doc = document(&f, "pass cse,failing{how=badly}", &code);
  assert_int_equal(code, hs_code_exit(HS_E_PASS));
  expect(doc, "pass failing failed");
  expect(doc, "it was pass 2 of 2");
  expect(doc, "the planted fault");
  expect(doc, "\"failed_input\":\"./hlosh-failed-failing.1.hlo\"");
  expect(doc, "hlosh ./hlosh-failed-failing.1.hlo -c 'pass failing{how=badly}' repeats the "
              "failure");
  hs_free(doc);
  // Nothing of the command stays; the file is what the failing pass was given.
  assert_int_equal(hlo_text_hash(f.s->current->m), loaded);
  assert_int_equal(f.s->current->versions.n, 1);
  assert_int_equal(run(&f, "pass cse --quiet"), 0);
  u64 given = hlo_text_hash(f.s->current->m);
  assert_int_equal(run(&f, "load hlosh-failed-failing.1.hlo"), 0);
  assert_int_equal(hlo_text_hash(f.s->current->m), given);
  assert_int_equal(run(&f, "pass failing{how=badly}"), hs_code_exit(HS_E_PASS));
  close_fixture(&f);
}

static void invalid_modules_are_rolled_back(void **state) {
  (void)state;
  fixture f;
  int code;
  open_fixture(&f, &invalid);
  assert_int_equal(run(&f, "load m.hlo"), 0);
  u64 loaded = hlo_text_hash(f.s->current->m);
  char *doc = document(&f, "pipeline fix(invalid)", &code);
  assert_int_equal(code, hs_code_exit(HS_E_PASS));
  expect(doc, "pass invalid left an invalid module");
  hs_free(doc);
  assert_int_equal(hlo_text_hash(f.s->current->m), loaded);
  // Unless it is what is looked for: the walk stops behind it.
  assert_int_equal(run(&f, "next --pipeline=dce,invalid,cse"), 0);
  doc = document(&f, "until verify-fails", &code);
  assert_int_equal(code, 0);
  expect(doc, "\"stopped_at\":\"verify-fails\"");
  expect(doc, "\"next\":\"cse\"");
  hs_free(doc);
  hs_status bad = hlo_verify(f.s->current->m, NULL);
  assert_false(hs_ok(bad));
  hs_status_drop(bad);
  assert_int_equal(run(&f, "back"), 0);
  assert_int_equal(run(&f, "verify"), 0);
  close_fixture(&f);
}

// A debugger stays where the fault is: the steps before it are kept, and the failing pass is next.
static void walks_stop_before_a_failing_pass(void **state) {
  (void)state;
  fixture f;
  int code;
  open_fixture(&f, &failing);
  assert_int_equal(run(&f, "load m.hlo; next --pipeline=cse,failing,dce"), 0);
  char *doc = document(&f, "continue", &code);
  assert_int_equal(code, hs_code_exit(HS_E_PASS));
  expect(doc, "pass failing failed");
  expect(doc, "\"next\":\"failing\"");
  hs_free(doc);
  assert_int_equal(f.s->current->versions.n, 2);
  assert_string_equal(f.s->current->at->label, "next: cse");
  assert_non_null(repl_find_instr(f.s->current->m, "dead"));
  doc = document(&f, "next", &code);
  assert_int_equal(code, hs_code_exit(HS_E_PASS));
  hs_free(doc);
  close_fixture(&f);
}

// ---- bisect -------------------------------------------------------------------------------------
// Of all multiplications the second becomes an addition; before the third it gives up, when it is
// asked to.
static hs_status wrong_pass(pass_ctx *c) {
  u32 n = 0, old = c->m->next_instr_id;
  bool fails = pass_option_bool(c, "fails");
  hlo_for_each_instr_safe(i, c->m->entry) {
    if (i->opcode != HLO_MULTIPLY || i->id >= old) continue;
    if (!pass_may_rewrite(c)) return HS_GOOD;
    if (++n == 2 && fails) return hs_fail(HS_E_INTERNAL, "the planted fault");
    hlo_instr *turned[] = {hlo_operand(i, 1), hlo_operand(i, 0)};
    hlo_replace(
        i, hlo_add(c->m->entry, n == 2 ? HLO_ADD : HLO_MULTIPLY, i->shape, 2, turned, "turned"));
  }
  return HS_GOOD;
}

static const pass_option_info wrong_options[] = {{"fails", PASS_BOOL, "false", "it gives up"}};
static const pass_info wrong = {.name = "planted",
                                .summary = "turns a product into a sum",
                                .run = wrong_pass,
                                .options = wrong_options,
                                .noptions = HS_COUNT(wrong_options)};

static void bisect_shows_the_rewrite(void **state) {
  (void)state;
  static const struct {
    const char *line;
    int code;
    const char *parts[5];
  } cases[] = {{"bisect dce,planted,cse",
                6,
                {"\"position\":2", "\"rewrite\":2,\"rewrites\":2", "\"rewrite_diff\":",
                 "turned.1 = f32[8] add(y, a)", "pass planted --limit=1 is still good"}},
               {"bisect dce,planted{fails=true},cse crash --backend=interp",
                6,
                {"\"position\":2", "\"rewrite\":2", "the planted fault", NULL}},
               {"bisect dce,planted{fails=true} nan",
                5,
                {"it was pass 2 of 2", "condition crash finds the rewrite", NULL}},
               {"bisect dce,planted,cse \"grep -q -v add\"",
                0,
                {"\"pass\":null", "\"checked\":2,\"runs\":3", NULL}}};
  for (size_t k = 0; k < HS_COUNT(cases); k++) {
    fixture f;
    int code;
    open_fixture(&f, &wrong);
    assert_int_equal(run(&f, "load m.hlo"), 0);
    char *doc = document(&f, cases[k].line, &code);
    if (code != cases[k].code)
      fail_msg("%s: exit code %d, not %d: %s", cases[k].line, code, cases[k].code, doc);
    for (u32 j = 0; j < 5 && cases[k].parts[j]; j++) expect(doc, cases[k].parts[j]);
    hs_free(doc);
    close_fixture(&f);
  }
}

// What was dumped while the wrong pass ran is a history in which it is found again.
static void bisect_finds_it_in_a_dump(void **state) {
  (void)state;
  fixture f;
  int code;
  open_fixture(&f, &wrong);
  assert_int_equal(run(&f, "load m.hlo; pipeline dce,planted,cse --dump=d; load d"), 0);
  f.s->passes = &pass_builtin;
  char *doc = document(&f, "bisect", &code);
  assert_int_equal(code, 6);
  expect(doc, "\"pass\":\"planted\",\"version\":2");
  expect(doc, "diff 1 2 shows the changes");
  hs_free(doc);
  doc = document(&f, "until planted", &code);
  assert_int_equal(code, 0);
  expect(doc, "\"version\":1");
  expect(doc, "\"next\":\"after_planted in pipeline\"");
  hs_free(doc);
  close_fixture(&f);
}

// ---- ping-pong ----------------------------------------------------------------------------------
// r becomes r * 1, which algsimp takes back.
static hs_status pong_pass(pass_ctx *c) {
  hlo_computation *e = c->m->entry;
  hlo_instr *r = e->root;
  hlo_instr *one = hlo_add_constant(e, hlo_literal_scalar_f64(c->m->ctx, HLO_F32, 1), "one"),
            *ops[] = {r, hlo_add_broadcast(one, r->shape, 0, NULL)};
  hlo_set_root(e, hlo_add(e, HLO_MULTIPLY, r->shape, 2, ops, "pong"));
  return HS_GOOD;
}

// Turns every addition around, each time it runs.
static hs_status flip_pass(pass_ctx *c) {
  hlo_for_each_instr(i, c->m->entry) {
    if (i->opcode != HLO_ADD) continue;
    hlo_instr *x = hlo_operand(i, 0), *y = hlo_operand(i, 1);
    hlo_set_operand(i, 0, y);
    hlo_set_operand(i, 1, x);
  }
  return HS_GOOD;
}

// Adds another negation of the result every time: no end, and no state twice.
static hs_status growing_pass(pass_ctx *c) {
  hlo_computation *e = c->m->entry;
  hlo_set_root(e, hlo_add(e, HLO_NEGATE, e->root->shape, 1, &e->root, "more"));
  return HS_GOOD;
}

// Makes every instruction of the entry twice.
static hs_status doubling_pass(pass_ctx *c) {
  hlo_computation *e = c->m->entry;
  u32 old = c->m->next_instr_id;
  hlo_for_each_instr_safe(i, e)
    if (i->id < old && i->opcode != HLO_PARAMETER) hlo_add(e, HLO_ABS, i->shape, 1, &i, "twin");
  return HS_GOOD;
}

static void keep(void *arg, const char *warning) { hs_buf_printf(arg, "%s\n", warning); }

static void fixpoints_without_end_are_named(void **state) {
  (void)state;
  static const pass_option_info any[] = {{"a", PASS_TEXT, "", "any text"}};
  static const struct {
    pass_info guest;
    const char *pipeline, *warning;
    u32 most;
  } cases[] = {
      {{.name = "pong", .run = pong_pass},
       "fix(dce, cse, algsimp, pong)",
       "passes undo each other, the fixpoint was ended: algsimp, pong\n",
       30},
      {{.name = "flip", .run = flip_pass, .options = any, .noptions = 1},
       "dce, fix(cse, flip{a=b})",
       "passes undo each other, the fixpoint was ended: flip{a=b}\n",
       20},
      {{.name = "grow", .run = growing_pass},
       "fix(dce, grow)",
       "no fixpoint after 25 rounds, still changing: grow\n",
       60},
      {{.name = "double", .run = doubling_pass}, "fix(double)", "the module grew from 7 to ", 40},
      {{.name = "grow", .run = growing_pass}, "fix(fix(dce, cse), algsimp), grow", "", 60}};
  for (size_t k = 0; k < HS_COUNT(cases); k++) {
    hlo_ctx *ctx = hlo_ctx_new();
    hlo_module *m = NULL;
    hs_buf warnings = {0};
    pass_log log = {0};
    pass_run_options o = pass_run_default();
    o.warn = keep;
    o.warn_arg = &warnings;
    const pass_info *guest = &cases[k].guest;
    const pass_registry planted = registry_with(&guest);
    o.registry = &planted;
    assert_true(hs_ok(hlo_parse(ctx, text, strlen(text), NULL, &m)));
    assert_true(hs_ok(pipeline_run(m, cases[k].pipeline, &o, &log)));
    if (*cases[k].warning ? !strstr(hs_buf_cstr(&warnings), cases[k].warning) : warnings.n > 0)
      fail_msg("%s warns: %s", cases[k].pipeline, hs_buf_cstr(&warnings));
    assert_true(log.n <= cases[k].most);
    assert_true(hs_ok(hlo_verify(m, NULL)));
    hs_vec_free(&log);
    hs_buf_free(&warnings);
    hlo_module_free(m);
    hlo_ctx_free(ctx);
  }
}

int main(int argc, char **argv) {
  int status;
  if (worker_entry(argc, argv, &status)) return status;
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(failing_passes_leave_nothing),
      cmocka_unit_test(invalid_modules_are_rolled_back),
      cmocka_unit_test(walks_stop_before_a_failing_pass),
      cmocka_unit_test(bisect_shows_the_rewrite),
      cmocka_unit_test(bisect_finds_it_in_a_dump),
      cmocka_unit_test(fixpoints_without_end_are_named),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
