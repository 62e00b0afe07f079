// agree.c — the rule by which results agree: its bounds, complex numbers, vectors up to a factor,
// and which results have such vectors.
#include "core/analysis/agree.h"

#include "tests/unit/modules.h"

#include <math.h>

static hlo_literal *value(const char *shape, const char *text) {
  const hlo_shape *s;
  hlo_literal *l = NULL;
  expect_good(hlo_parse_shape(ctx, shape, strlen(shape), &s), shape);
  expect_good(hlo_parse_literal(ctx, s, text, strlen(text), &l), text);
  return l;
}

static void bounds(void **state) {
  (void)state;
  double abs, rel;
  // within either
  assert_true(hlo_close(HLO_F32, 1000, 1001, hlo_near(0.5, 0.01), &abs, &rel));
  assert_true(abs == 1 && rel == 1e-3);
  assert_true(hlo_close(HLO_F32, 0.001, 0.002, hlo_near(0.01, 0), NULL, NULL));
  assert_false(hlo_close(HLO_F32, 1, 1.5, hlo_near(0.4, 0.4), NULL, NULL));
  // the sum of both
  assert_true(hlo_close(HLO_F32, 1, 1.5, hlo_within(0.3, 0.3), NULL, NULL));
  assert_false(hlo_close(HLO_F32, 1, 1.7, hlo_within(0.3, 0.3), NULL, NULL));
  // units in the last place, at zero those of the smallest numbers
  const hlo_tolerance two = {.ulps = 2};
  assert_true(hlo_close(HLO_BF16, 1, 1 + 0x1p-6, two, NULL, NULL));
  assert_false(hlo_close(HLO_BF16, 1, 1 + 0x1p-5, two, NULL, NULL));
  assert_true(hlo_close(HLO_F32, 0, 0x1p-148, two, NULL, NULL));
  assert_false(hlo_close(HLO_F32, 0, 0x1p-140, two, NULL, NULL));
  // what has no distance
  assert_true(hlo_close(HLO_F32, (double)NAN, (double)NAN, hlo_near(0, 0), NULL, NULL));
  assert_false(hlo_close(HLO_F32, (double)NAN, 1, hlo_near(9, 9), &abs, &rel));
  assert_true(isinf(abs) && isinf(rel));
  assert_false(hlo_close(HLO_F32, (double)INFINITY, 1e38, hlo_near(9, 9), NULL, NULL));
  assert_true(hlo_tolerance_of(HLO_C128).function_abs == 0x1p-50);
  assert_true(hlo_tolerance_of(HLO_F8E5M2).function_ulps == 1);
}

static i64 mismatches(const char *shape, const char *want, const char *got, hlo_tolerance tol,
                      i32 along) {
  hlo_literal *a = value(shape, want), *b = value(shape, got);
  hlo_comparisons list;
  expect_good(hlo_compare_phases(a, b, tol, &(hlo_phases){1, &along}, &list), shape);
  i64 n = list.v[0].mismatches;
  hlo_comparisons_free(&list);
  hlo_literal_unref(a);
  hlo_literal_unref(b);
  return n;
}

// A small part beside a large one may be off by as much as the number as a whole allows.
static void complex_by_modulus(void **state) {
  (void)state;
  const hlo_tolerance tol = hlo_within(0, 1e-6);
  assert_int_equal(mismatches("c64[1]", "{(1000, 0.001)}", "{(1000, 0.0015)}", tol, -1), 0);
  assert_int_equal(mismatches("c64[1]", "{(1000, 0.001)}", "{(1000, 0.0035)}", tol, -1), 1);
  assert_int_equal(mismatches("c64[1]", "{(nan, 1)}", "{(1, 1)}", tol, -1), 1);
}

static void vectors_up_to_a_factor(void **state) {
  (void)state;
  const hlo_tolerance tol = hlo_near(1e-6, 1e-6);
  // columns, the second one negated; rows; a column that is another one
  const char *want = "{{1,2},{3,4}}";
  assert_int_equal(mismatches("f32[2,2]", want, "{{1,-2},{3,-4}}", tol, 0), 0);
  assert_int_equal(mismatches("f32[2,2]", want, "{{1,-2},{3,-4}}", tol, 1), 2);
  assert_int_equal(mismatches("f32[2,2]", want, "{{-1,-2},{3,4}}", tol, 1), 0);
  assert_int_equal(mismatches("f32[2,2]", want, "{{1,-2},{3,4}}", tol, 0), 1);
  assert_int_equal(mismatches("f32[2,2]", want, "{{1,-2},{3,-4}}", tol, -1), 2);
  // times i, and times 2i, which is no factor of modulus 1
  assert_int_equal(mismatches("c64[2]", "{(1,2),(3,-1)}", "{(-2,1),(1,3)}", tol, 0), 0);
  assert_int_equal(mismatches("c64[2]", "{(1,2),(3,-1)}", "{(-4,2),(2,6)}", tol, 0), 2);
}

static i32 along(const char *body, u32 leaf) {
  char *text = hs_format("HloModule t\n%s", body);
  hlo_module *m = parse(text);
  hs_arena a = {0};
  hlo_phases p = hlo_phases_of(m->entry->root, &a);
  i32 d = leaf < p.n ? p.along[leaf] : -2;
  hs_arena_free(&a);
  hlo_module_free(m);
  hs_free(text);
  return d;
}

#define EIGH                                                                                       \
  " c = (f32[3,4,4], f32[3,4], s32[3]) custom-call(x), custom_call_target=\"lapack_ssyevd_ffi\"\n" \
  " v = f32[3,4,4] get-tuple-element(c), index=0\n w = f32[3,4] get-tuple-element(c), index=1\n"

static void which_results(void **state) {
  (void)state;
  const char *head = "ENTRY e { x = f32[3,4,4] parameter(0)\n" EIGH;
  char *t = hs_format("%s ROOT r = (f32[3,4], f32[3,4,4]) tuple(w, v) }", head);
  assert_int_equal(along(t, 0), -1);
  assert_int_equal(along(t, 1), 1);
  hs_free(t);
  t = hs_format("%s ROOT r = f32[4,3,4] transpose(v), dimensions={2,0,1} }", head);
  assert_int_equal(along(t, 0), 2);
  hs_free(t);
  // NaN where it failed
  t = hs_format(
      "%s p = pred[3,4,4] constant({...})\n n = f32[] constant(nan)\n"
      " b = f32[3,4,4] broadcast(n), dimensions={}\n ROOT r = f32[3,4,4] select(p, v, b) }",
      head);
  assert_int_equal(along(t, 0), 1);
  hs_free(t);
  // what is computed with them is determined
  t = hs_format("%s ROOT r = f32[3,4,4] multiply(v, v) }", head);
  assert_int_equal(along(t, 0), -1);
  hs_free(t);
  // through a call
  assert_int_equal(along("f { x = f32[3,4,4] parameter(0)\n" EIGH
                         " ROOT r = (f32[3,4], f32[3,4,4]) tuple(w, v)"
                         " }\nENTRY e { x = f32[3,4,4] parameter(0)\n"
                         " q = (f32[3,4], f32[3,4,4]) call(x), to_apply=f\n"
                         " ROOT v = f32[3,4,4] get-tuple-element(q), index=1 }",
                         0),
                   1);
  // rows of v^T
  assert_int_equal(along("ENTRY e { x = f64[5,3] parameter(0)\n"
                         " c = (f64[5,3], f64[3], f64[5,3], f64[3,3], s32[]) custom-call(x),"
                         " custom_call_target=\"lapack_dgesdd_ffi\"\n"
                         " ROOT v = f64[3,3] get-tuple-element(c), index=3 }",
                         0),
                   1);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(bounds), cmocka_unit_test(complex_by_modulus),
                                     cmocka_unit_test(vectors_up_to_a_factor),
                                     cmocka_unit_test(which_results)};
  return cmocka_run_group_tests(tests, open_context, close_context);
}
