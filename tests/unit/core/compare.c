// compare.c — the rule of agreement and the figures of its report, on small arrays worked out by
// hand.
#include "core/types/compare.h"

#include <math.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <cmocka.h>

#include "core/types/ctx.h"
#include "core/text/text.h"

static hlo_literal *value(hlo_ctx *ctx, const char *shape, const char *text) {
  const hlo_shape *s;
  hlo_literal *l = NULL;
  if (!hs_ok(hlo_parse_shape(ctx, shape, strlen(shape), &s)) ||
      !hs_ok(hlo_parse_literal(ctx, s, text, strlen(text), &l)))
    fail_msg("bad literal %s", text);
  return l;
}

// Compares two literals of one shape; the only leaf's figures.
static hlo_comparison leaf(hlo_ctx *ctx, const char *shape, const char *want, const char *got,
                           double abs, double rel) {
  hlo_literal *a = value(ctx, shape, want), *b = value(ctx, shape, got);
  hlo_comparisons list;
  assert_true(hs_ok(hlo_compare_leaves(a, b, hlo_near(abs, rel), &list)));
  assert_int_equal(list.n, 1);
  hlo_comparison c = list.v[0];
  assert_string_equal(c.path, "result");
  hlo_comparisons_free(&list);
  hlo_literal_unref(a);
  hlo_literal_unref(b);
  return c;
}

static void a_mismatch_exceeds_both_bounds(void **state) {
  (void)state;
  hlo_ctx *ctx = hlo_ctx_new();
  // abs 0.5 of 1000: rel 0.0005; abs 0.001 of 0.001: rel 1; abs 0.5 of 1: both.
  hlo_comparison c = leaf(ctx, "f32[3]", "{1000, 0.001, 1}", "{1000.5, 0.002, 1.5}", 0.01, 0.01);
  assert_int_equal(c.mismatches, 1);
  assert_int_equal(c.over_abs, 2);
  assert_int_equal(c.over_rel, 2);
  assert_int_equal(c.first[0].at, 2);
  assert_true(fabs(c.top[0].rel - 0.5) < 1e-6);
  assert_int_equal(
      leaf(ctx, "f32[3]", "{1000, 0.001, 1}", "{1000.5, 0.002, 1.5}", 0.01, 0.6).mismatches, 0);
  // zero expected: the absolute bound decides
  assert_int_equal(leaf(ctx, "f32[1]", "{0}", "{1e-5}", 1e-4, 1e-4).mismatches, 0);
  assert_int_equal(leaf(ctx, "f32[1]", "{0}", "{1e-3}", 1e-4, 1e9).mismatches, 1);
  // integers are exact
  assert_int_equal(leaf(ctx, "s32[2]", "{5, 7}", "{5, 8}", 100, 100).mismatches, 1);
  assert_int_equal(leaf(ctx, "pred[2]", "{true, false}", "{true, true}", 100, 100).mismatches, 1);
  // two parts, one element
  assert_int_equal(leaf(ctx, "c64[1]", "{(1, 2)}", "{(3, 5)}", 0, 0).mismatches, 1);
  hlo_ctx_free(ctx);
}

static void values_that_are_no_numbers(void **state) {
  (void)state;
  hlo_ctx *ctx = hlo_ctx_new();
  assert_int_equal(
      leaf(ctx, "f32[4]", "{nan, inf, -inf, -0}", "{nan, inf, -inf, 0}", 0, 0).mismatches, 0);
  hlo_comparison c = leaf(ctx, "f32[3]", "{nan, 1, inf}", "{1, nan, -inf}", 1e30, 1e30);
  assert_int_equal(c.mismatches, 3);
  assert_int_equal(c.nan_mismatches, 2);
  assert_int_equal(c.nfixes, 0);
  hs_buf b = {0};
  c = leaf(ctx, "f32[2]", "{1, 2}", "{1, inf}", 1, 1);
  c.path = (char *)(uintptr_t) "result";
  hlo_comparison_print(&b, &c, true);
  assert_non_null(strstr(hs_buf_cstr(&b), "no tolerance would pass"));
  hs_buf_free(&b);
  assert_int_equal(leaf(ctx, "f32[0]", "{}", "{}", 0, 0).mismatches, 0);
  hlo_ctx_free(ctx);
}

// What is suggested passes, and is no looser than needed.
static void suggested_tolerances_pass(void **state) {
  (void)state;
  hlo_ctx *ctx = hlo_ctx_new();
  const char *want = "{1, 10, 100, 0, 0.001}", *got = "{1.02, 10.5, 100.3, 0.004, 0.0017}";
  hlo_comparison c = leaf(ctx, "f32[5]", want, got, 0, 0);
  assert_int_equal(c.mismatches, 5);
  assert_true(c.nfixes >= 2);
  for (u32 k = 0; k < c.nfixes; k++) {
    assert_int_equal(leaf(ctx, "f32[5]", want, got, c.fixes[k].abs, c.fixes[k].rel).mismatches, 0);
    if (k) assert_true(c.fixes[k].abs < c.fixes[k - 1].abs && c.fixes[k].rel > c.fixes[k - 1].rel);
  }
  assert_true(c.fixes[0].abs > 0.49 && c.fixes[0].abs < 0.61);
  hlo_ctx_free(ctx);
}

static void distances_count_representable_numbers(void **state) {
  (void)state;
  float a = 1, b = nextafterf(nextafterf(1, 2), 2), z = 0, nz = -0.0f, tiny = 1e-45f;
  assert_int_equal(hlo_ulp_distance(HLO_F32, &a, &b), 2);
  assert_int_equal(hlo_ulp_distance(HLO_F32, &z, &nz), 0);
  tiny = -tiny;
  assert_int_equal(hlo_ulp_distance(HLO_F32, &z, &tiny), 1);
  double da = -1, db = nextafter(-1, -2);
  assert_int_equal(hlo_ulp_distance(HLO_F64, &da, &db), 1);
  double most = HUGE_VAL, least = -HUGE_VAL;
  assert_true(hlo_ulp_distance(HLO_F64, &most, &least) > (u64)INT64_MAX);
  u16 x = hlo_f32_to_bf16(1), y = (u16)(x + 3);
  assert_int_equal(hlo_ulp_distance(HLO_BF16, &x, &y), 3);
  u8 p = 0x38, q = 0x3a;
  assert_int_equal(hlo_ulp_distance(HLO_F8E4M3FN, &p, &q), 2);
  u64 big = UINT64_MAX, nought = 0;
  assert_true(hlo_ulp_distance(HLO_U64, &big, &nought) == UINT64_MAX);
}

static void histograms_add_up(void **state) {
  (void)state;
  hlo_ctx *ctx = hlo_ctx_new();
  hlo_comparison c =
      leaf(ctx, "f32[6]", "{1, 2, 0.05, 1e-5, 0.5, 3}", "{1, 2.5, 0.05, 2e-5, 0.6, 3}", 1e-3, 1e-3);
  i64 all = 0, ulps = 0, bad = 0;
  for (u32 k = 0; k < HLO_COMPARE_MAGNITUDES; k++)
    all += c.magnitudes[k], bad += c.magnitude_mismatches[k];
  for (u32 k = 0; k < HLO_COMPARE_ULPS; k++) ulps += c.ulps[k];
  assert_int_equal(all, 6);
  assert_int_equal(ulps, 6);
  assert_int_equal(bad, c.mismatches);
  assert_int_equal(c.mismatches, 2);
  assert_int_equal(c.over_rel, 3);  // 2e-5 for 1e-5 too
  // at least 0.1, to which 0.6f - 0.5f is a little more
  assert_int_equal(c.abs_errors[3], 2);
  hlo_ctx_free(ctx);
}

// The bounds of the type, unless the caller has some: one unit in the last place of bf16 is 2^-7.
static void types_have_bounds_of_their_own(void **state) {
  (void)state;
  hlo_ctx *ctx = hlo_ctx_new();
  const double own = HLO_TYPES_OWN;
  assert_true(hlo_default_tolerance(HLO_BF16).rel == 0x1p-7);
  assert_true(hlo_default_tolerance(HLO_F8E5M2).rel == 0x1p-2);
  assert_true(hlo_default_tolerance(HLO_F32).rel == 1e-3);
  assert_true(hlo_default_tolerance(HLO_C64).rel == hlo_default_tolerance(HLO_F32).rel);
  // neighbours, and the ones after them
  assert_int_equal(leaf(ctx, "bf16[1]", "{1}", "{1.0078125}", own, own).mismatches, 0);
  assert_int_equal(leaf(ctx, "bf16[1]", "{1}", "{1.0078125}", 1e-3, 1e-3).mismatches, 1);
  assert_int_equal(leaf(ctx, "bf16[1]", "{1}", "{1.0078125}", own, 1e-3).mismatches, 1);
  assert_int_equal(leaf(ctx, "bf16[1]", "{1}", "{1.015625}", own, own).mismatches, 1);
  assert_int_equal(leaf(ctx, "f32[1]", "{1}", "{1.0078125}", own, own).mismatches, 1);
  hlo_comparison c = leaf(ctx, "bf16[1]", "{1}", "{1}", own, own);
  assert_true(c.tol.abs == 1e-3 && c.tol.rel == 0x1p-7);
  hlo_ctx_free(ctx);
}

static void complex_numbers_by_modulus(void **state) {
  (void)state;
  hlo_ctx *ctx = hlo_ctx_new();
  // a part that is all error, small beside the whole
  assert_int_equal(leaf(ctx, "c64[1]", "{(100, 0)}", "{(100, 0.05)}", 0, 1e-3).mismatches, 0);
  hlo_comparison c = leaf(ctx, "c64[1]", "{(3, 4)}", "{(6, 8)}", 0, 0.5);
  assert_int_equal(c.mismatches, 1);
  assert_int_equal(c.elements, 1);
  assert_true(fabs(c.top[0].abs - 5) < 1e-12 && fabs(c.top[0].rel - 1) < 1e-12);
  assert_true(c.top[0].want == 4 && c.top[0].got == 8);
  assert_int_equal(leaf(ctx, "c64[1]", "{(inf, 1)}", "{(inf, 1)}", 0, 0).mismatches, 0);
  assert_int_equal(leaf(ctx, "c64[1]", "{(inf, 1)}", "{(-inf, 1)}", 1e9, 1e9).mismatches, 1);
  assert_int_equal(leaf(ctx, "c64[1]", "{(nan, 1)}", "{(nan, 1)}", 0, 0).mismatches, 0);
  assert_int_equal(leaf(ctx, "c64[1]", "{(1, 1)}", "{(nan, 1)}", 1e9, 1e9).mismatches, 1);
  hlo_ctx_free(ctx);
}

// The second leaf cannot be compared: the list that the first one is in is nobody's to free.
static void nothing_is_left_of_what_cannot_be_compared(void **state) {
  (void)state;
  hlo_ctx *ctx = hlo_ctx_new();
  hlo_literal *a = value(ctx, "f32[1]", "{1}"), *b = value(ctx, "f32[2]", "{1, 2}"),
              *aa[2] = {a, hlo_literal_ref(a)}, *ab[2] = {hlo_literal_ref(a), b};
  const hlo_shape *of_aa[2] = {a->shape, a->shape}, *of_ab[2] = {a->shape, b->shape};
  hlo_literal *want = hlo_literal_tuple(hlo_shape_tuple(ctx, 2, of_aa), 2, aa),
              *got = hlo_literal_tuple(hlo_shape_tuple(ctx, 2, of_ab), 2, ab);
  hlo_comparisons list;
  hs_status s = hlo_compare_leaves(want, got, hlo_near(0, 0), &list);
  assert_false(hs_ok(s));
  assert_int_equal(s.err->code, HS_E_DIFFER);
  assert_true(list.n == 0 && !list.v);
  hs_status_drop(s);
  hlo_literal_unref(want);
  hlo_literal_unref(got);
  hlo_ctx_free(ctx);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(a_mismatch_exceeds_both_bounds),
                                     cmocka_unit_test(types_have_bounds_of_their_own),
                                     cmocka_unit_test(complex_numbers_by_modulus),
                                     cmocka_unit_test(values_that_are_no_numbers),
                                     cmocka_unit_test(nothing_is_left_of_what_cannot_be_compared),
                                     cmocka_unit_test(suggested_tolerances_pass),
                                     cmocka_unit_test(distances_count_representable_numbers),
                                     cmocka_unit_test(histograms_add_up)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
