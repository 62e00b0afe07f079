// graph_diff.c — instructions are matched by what they compute: renamed, fused and changed ones.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "core/diff/graph_diff.h"
#include "tests/unit/modules.h"

static const char BEFORE[] =
    "HloModule m\nENTRY e {\n x = f32[8] parameter(0)\n y = f32[8] parameter(1)\n"
    " a = f32[8] add(x, y)\n b = f32[8] exponential(a)\n"
    " c = f32[8] multiply(b, y)\n ROOT d = f32[8] negate(c)\n}\n";

// BEFORE beside a later version of it, and how they differ.
typedef struct comparison {
  hlo_module *a, *b;
  hs_arena arena;
  hlo_graph_diff d;
} comparison;

static void compare_with(comparison *c, const char *before, const char *after) {
  *c = (comparison){.a = parse(before), .b = parse(after)};
  hlo_graph_diff_make(c->a, c->b, &c->arena, &c->d);
}
static void compare(comparison *c, const char *after) { compare_with(c, BEFORE, after); }

static void comparison_free(comparison *c) {
  hs_arena_free(&c->arena);
  hlo_module_free(c->a);
  hlo_module_free(c->b);
}

static void renamed(void **state) {
  (void)state;
  comparison c;
  compare(&c, "HloModule m\nENTRY q {\n p0 = f32[8] parameter(0)\n p1 = f32[8] parameter(1)\n"
              " s = f32[8] add(p0, p1)\n t = f32[8] exponential(s)\n"
              " u = f32[8] multiply(t, p1)\n ROOT v = f32[8] negate(u)\n}\n");
  const hlo_graph_diff *d = &c.d;
  assert_int_equal(d->same, 6);
  assert_int_equal(d->moved + d->changed + d->added + d->removed, 0);
  comparison_free(&c);
}

static void fused_and_changed(void **state) {
  (void)state;
  comparison c;
  // a and b went into a fusion; c is an addition of the same operands now, which makes d's operand
  // another instruction.
  compare(&c, "HloModule m\nf {\n p0 = f32[8] parameter(0)\n p1 = f32[8] parameter(1)\n"
              " s = f32[8] add(p0, p1)\n ROOT t = f32[8] exponential(s)\n}\n"
              "ENTRY q {\n x = f32[8] parameter(0)\n y = f32[8] parameter(1)\n"
              " g = f32[8] fusion(x, y), kind=kLoop, calls=f\n"
              " u = f32[8] subtract(g, y)\n ROOT v = f32[8] negate(u)\n}\n");
  const hlo_graph_diff *d = &c.d;
  const hlo_instr *s = hlo_find_instr(c.b, "s"), *v = hlo_find_instr(c.b, "v"),
                  *u = hlo_find_instr(c.b, "u");
  assert_string_equal(d->of_b[s->id]->name, "a");
  assert_int_equal(d->change[s->id], HLO_DIFF_MOVED);
  assert_string_equal(d->of_b[v->id]->name, "d");
  assert_int_equal(d->change[v->id], HLO_DIFF_OPERANDS);
  assert_null(d->of_b[u->id]);
  assert_int_equal(d->same, 2);  // the parameters
  assert_int_equal(d->moved, 2);
  assert_int_equal(d->changed, 1);
  assert_int_equal(d->removed, 1);  // c
  assert_int_equal(d->added, 2);    // g, u
  comparison_free(&c);
}

// A constant that a fusion has of its own is no other operand.
static void own_constants(void **state) {
  (void)state;
  comparison c;
  compare_with(&c,
               "HloModule m\nENTRY e {\n x = f32[] parameter(0)\n k = f32[] constant(2)\n"
               " a = f32[] multiply(x, k)\n b = f32[] exponential(a)\n"
               " ROOT d = f32[] add(b, k)\n}\n",
               "HloModule m\nf {\n p = f32[] parameter(0)\n q = f32[] constant(2)\n"
               " s = f32[] multiply(p, q)\n ROOT t = f32[] exponential(s)\n}\n"
               "ENTRY e {\n x = f32[] parameter(0)\n k = f32[] constant(2)\n"
               " g = f32[] fusion(x), kind=kLoop, calls=f\n ROOT d = f32[] add(g, k)\n}\n");
  const hlo_instr *s = hlo_find_instr(c.b, "s"), *d = hlo_find_instr(c.b, "d");
  assert_string_equal(c.d.of_b[s->id]->name, "a");
  assert_int_equal(c.d.change[s->id], HLO_DIFF_MOVED);
  assert_int_equal(c.d.change[d->id], 0);
  assert_int_equal(c.d.changed, 0);
  comparison_free(&c);
}

// Reducers that are alike stay with their reductions, however these have changed and whichever
// comes first; those whose reductions are gone are paired whole.
static void alike_reducers(void **state) {
  (void)state;
#define SUM(name, l, r, sum)                                                      \
  name " {\n " l " = f32[] parameter(0)\n " r " = f32[] parameter(1)\n ROOT " sum \
       " = f32[] add(" l ", " r ")\n}\n"
  comparison c;
  compare_with(&c,
               "HloModule m\n" SUM("f", "fa", "fb", "fs") SUM("g", "ga", "gb", "gs")
                   SUM("h", "ha", "hb",
                       "hs") "ENTRY e {\n x = f32[8,4] parameter(0)\n z = f32[] constant(0)\n"
                             " r = f32[8] reduce(x, z), dimensions={1}, to_apply=f\n"
                             " s = f32[4] reduce(x, z), dimensions={0}, to_apply=g\n"
                             " w = f32[] reduce(x, z), dimensions={0,1}, to_apply=h\n"
                             " ROOT t = (f32[8], f32[4], f32[]) tuple(r, s, w)\n}\n",
               "HloModule m\n" SUM("p", "pa", "pb", "ps") SUM("q", "qa", "qb", "qs")
                   SUM("o", "oa", "ob",
                       "os") "ENTRY e {\n x = f32[8,4] parameter(0)\n z = f32[] constant(0)\n"
                             " n = f32[8,4] negate(x)\n"
                             " t2 = f32[4] reduce(n, z), dimensions={0}, to_apply=p\n"
                             " r2 = f32[8] reduce(n, z), dimensions={1}, to_apply=q\n"
                             " w2 = f32[7,4] reduce-window(n, z), window={size=2x1}, to_apply=o\n"
                             " ROOT t = (f32[8], f32[4], f32[7,4]) tuple(r2, t2, w2)\n}\n");
  static const char *const same[][2] = {{"fs", "qs"}, {"gs", "ps"}, {"hs", "os"}};
  for (u32 k = 0; k < HS_COUNT(same); k++) {
    const hlo_instr *x = hlo_find_instr(c.a, same[k][0]), *y = hlo_find_instr(c.b, same[k][1]);
    assert_ptr_equal(c.d.of_a[x->id], y);
    assert_int_equal(c.d.change[y->id], 0);
  }
  comparison_free(&c);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(renamed), cmocka_unit_test(fused_and_changed),
                                     cmocka_unit_test(own_constants),
                                     cmocka_unit_test(alike_reducers)};
  return cmocka_run_group_tests(tests, open_context, close_context);
}
