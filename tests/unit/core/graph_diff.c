// graph_diff.c — instructions are matched by what they compute: renamed, fused and changed ones.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "core/diff/graph_diff.h"
#include "core/text/text.h"

static hlo_module *parse(hlo_ctx *ctx, const char *text) {
  hlo_module *m = NULL;
  hs_status s = hlo_parse(ctx, text, strlen(text), NULL, &m);
  assert_true(hs_ok(s));
  return m;
}

static const char BEFORE[] =
    "HloModule m\nENTRY e {\n x = f32[8] parameter(0)\n y = f32[8] parameter(1)\n"
    " a = f32[8] add(x, y)\n b = f32[8] exponential(a)\n"
    " c = f32[8] multiply(b, y)\n ROOT d = f32[8] negate(c)\n}\n";

static void test_renamed(void **state) {
  (void)state;
  hlo_ctx *ctx = hlo_ctx_new();
  hs_arena ar = {0};
  hlo_graph_diff d;
  hlo_module *a = parse(ctx, BEFORE);
  hlo_module *b =
      parse(ctx, "HloModule m\nENTRY q {\n p0 = f32[8] parameter(0)\n p1 = f32[8] parameter(1)\n"
                 " s = f32[8] add(p0, p1)\n t = f32[8] exponential(s)\n"
                 " u = f32[8] multiply(t, p1)\n ROOT v = f32[8] negate(u)\n}\n");
  hlo_graph_diff_make(a, b, &ar, &d);
  assert_int_equal(d.same, 6);
  assert_int_equal(d.moved + d.changed + d.added + d.removed, 0);
  hs_arena_free(&ar);
  hlo_module_free(a);
  hlo_module_free(b);
  hlo_ctx_free(ctx);
}

static void test_fused_and_changed(void **state) {
  (void)state;
  hlo_ctx *ctx = hlo_ctx_new();
  hs_arena ar = {0};
  hlo_graph_diff d;
  hlo_module *a = parse(ctx, BEFORE);
  // a and b went into a fusion; c is an addition of the same operands now, which makes d's operand
  // another instruction.
  hlo_module *b =
      parse(ctx, "HloModule m\nf {\n p0 = f32[8] parameter(0)\n p1 = f32[8] parameter(1)\n"
                 " s = f32[8] add(p0, p1)\n ROOT t = f32[8] exponential(s)\n}\n"
                 "ENTRY q {\n x = f32[8] parameter(0)\n y = f32[8] parameter(1)\n"
                 " g = f32[8] fusion(x, y), kind=kLoop, calls=f\n"
                 " u = f32[8] subtract(g, y)\n ROOT v = f32[8] negate(u)\n}\n");
  hlo_graph_diff_make(a, b, &ar, &d);
  const hlo_instr *s = hlo_find_instr(b, "s"), *v = hlo_find_instr(b, "v"),
                  *u = hlo_find_instr(b, "u");
  assert_string_equal(d.of_b[s->id]->name, "a");
  assert_int_equal(d.change[s->id], HLO_DIFF_MOVED);
  assert_string_equal(d.of_b[v->id]->name, "d");
  assert_int_equal(d.change[v->id], HLO_DIFF_OPERANDS);
  assert_null(d.of_b[u->id]);
  assert_int_equal(d.same, 2);  // the parameters
  assert_int_equal(d.moved, 2);
  assert_int_equal(d.changed, 1);
  assert_int_equal(d.removed, 1);  // c
  assert_int_equal(d.added, 2);    // g, u
  hs_arena_free(&ar);
  hlo_module_free(a);
  hlo_module_free(b);
  hlo_ctx_free(ctx);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_renamed),
                                     cmocka_unit_test(test_fused_and_changed)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
