// become.c — a module turned into another one by edits is that module to the letter, and undo
// brings the first one back.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <dirent.h>
#include <stdlib.h>

#include "core/text/text.h"
#include "passes/passes.h"

static char *text_of(const hlo_module *m) {
  hlo_print_options o = hlo_print_full();
  hs_buf b = {0};
  hlo_print_module(&b, m, &o);
  (void)hs_buf_cstr(&b);
  return b.p;
}

static void check(hlo_module *m, const hlo_module *target) {
  char *before = text_of(m), *want = text_of(target);
  hlo_module_become(m, target);
  char *got = text_of(m);
  assert_string_equal(got, want);
  hs_status s = hlo_verify(m, NULL);
  assert_true(hs_ok(s));
  hlo_delta *d = hlo_commit(m);
  assert_true(d || strcmp(before, want) == 0);
  if (d) {
    hlo_delta_undo(m, d);
    char *back = text_of(m);
    assert_string_equal(back, before);
    hlo_delta_redo(m, d);
    char *again = text_of(m);
    assert_string_equal(again, want);
    hlo_delta_undo(m, d);
    hs_free(back);
    hs_free(again);
    hlo_delta_free(m, d);
  }
  hs_free(before);
  hs_free(want);
  hs_free(got);
}

static hlo_module *load(hlo_ctx *ctx, const char *path) {
  hlo_module *m = NULL;
  hs_status s = hlo_load_file(ctx, path, NULL, &m);
  assert_true(hs_ok(s));
  return m;
}

// Every example as each pipeline leaves it.
static void examples_become_their_optimized_forms(void **state) {
  (void)state;
  DIR *d = opendir("examples");
  assert_non_null(d);
  u32 n = 0;
  for (struct dirent *e; (e = readdir(d)) != NULL;) {
    size_t len = strlen(e->d_name);
    if (len < 4 || strcmp(e->d_name + len - 4, ".hlo") != 0) continue;
    hlo_ctx *ctx = hlo_ctx_new();
    char *path = hs_format("examples/%s", e->d_name);
    hlo_module *m = load(ctx, path);
    for (u32 p = 0; p < pass_builtin.npipelines; p++) {
      hlo_module *target = hlo_module_clone(m, m->name);
      pass_run_options o = pass_run_default();
      o.measure = false;
      assert_true(hs_ok(pipeline_run(target, pass_builtin.pipelines[p].name, &o, NULL)));
      check(m, target);
      hlo_module_free(target);
      n++;
    }
    hlo_module_free(m);
    hlo_ctx_free(ctx);
    hs_free(path);
  }
  closedir(d);
  assert_true(n > 10);
}

static hlo_module *parse(hlo_ctx *ctx, const char *text) {
  hlo_module *m = NULL;
  assert_true(hs_ok(hlo_parse(ctx, text, strlen(text), NULL, &m)));
  return m;
}

// Opcode, computation, order, control edges and parameters of one name may all be others.
static void keeps_what_it_can(void **state) {
  (void)state;
  hlo_ctx *ctx = hlo_ctx_new();
  hlo_module *a = parse(
      ctx,
      "HloModule m\nf {\n p = f32[4] parameter(0)\n ROOT n = f32[4] negate(p)\n}\n"
      "ENTRY e {\n x = f32[4] parameter(0)\n y = f32[4] add(x, x)\n"
      " z = f32[4] multiply(y, x), control-predecessors={y}\n ROOT c = f32[4] call(z), to_apply=f\n"
      "}\n");
  hlo_module *b = parse(
      ctx,
      "HloModule m, is_scheduled=true\nf {\n p = f32[4] parameter(0)\n q = f32[4] parameter(1)\n"
      " ROOT n = f32[4] add(q, p)\n}\n"
      "ENTRY e {\n x = f32[4] parameter(0)\n z = f32[4] multiply(x, x)\n"
      " y = f32[4] subtract(x, z)\n w = f32[4] sine(y), control-predecessors={z}\n"
      " ROOT c = f32[4] fusion(w, z), kind=kLoop, calls=f\n}\n");
  const hlo_instr *z = hlo_find_instr(a, "z"), *y = hlo_find_instr(a, "y");
  u32 id = z->id;
  hlo_module_become(a, b);
  assert_int_equal(hlo_find_instr(a, "z")->id, id);  // edited
  assert_ptr_not_equal(hlo_find_instr(a, "y"), y);   // another opcode: made
  hlo_abort(a);
  check(a, b);
  hlo_module_free(a);
  hlo_module_free(b);
  hlo_ctx_free(ctx);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(examples_become_their_optimized_forms),
                                     cmocka_unit_test(keeps_what_it_can)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
