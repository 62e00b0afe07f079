// sizes.c — sums of sizes that do not fit an i64: they saturate, and never wrap to something
// small or negative.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <stdio.h>

#include "core/analysis/cost.h"
#include "tests/unit/modules.h"

#define BIG "u8[4611686018427387904]"  // 2^62 bytes

static void saturating_sums(void **state) {
  (void)state;
  assert_true(hs_add_sat_i64(INT64_MAX, 1) == INT64_MAX);
  assert_true(hs_add_sat_i64(INT64_MIN, -1) == INT64_MIN);
  assert_true(hs_add_sat_i64(INT64_MAX, INT64_MIN) == -1);
  assert_true(hs_mul_sat_i64(INT64_MAX, 2) == INT64_MAX);
  assert_true(hs_mul_sat_i64(INT64_MIN, 2) == INT64_MIN);
  assert_true(hs_mul_sat_i64(-3, INT64_MAX) == INT64_MIN);
  assert_true(hs_mul_sat_i64(3, -5) == -15);
}

static const hlo_shape *shape_of(hlo_dtype t, i64 n) { return hlo_shape_array(ctx, t, 1, &n); }

static void shape_bytes(void **state) {
  (void)state;
  assert_true(hlo_shape_bytes(shape_of(HLO_U8, (i64)1 << 62)) == (i64)1 << 62);
  assert_true(hlo_shape_bytes(shape_of(HLO_U8, INT64_MAX)) == INT64_MAX);
  assert_true(hlo_shape_bytes(shape_of(HLO_F32, (i64)1 << 60)) == (i64)1 << 62);
  assert_true(hlo_shape_bytes(shape_of(HLO_F32, (i64)1 << 61)) == INT64_MAX);
  assert_true(hlo_shape_bytes(shape_of(HLO_U8, 13)) == 13);
  const hlo_shape *two[2] = {shape_of(HLO_U8, (i64)1 << 62), shape_of(HLO_U8, (i64)1 << 62)};
  assert_true(hlo_shape_bytes(hlo_shape_tuple(ctx, 2, two)) == INT64_MAX);
  i64 dims[3] = {(i64)1 << 40, (i64)1 << 40, 8}, strides[3];
  assert_true(hlo_shape_array(ctx, HLO_U8, 3, dims)->elements == INT64_MAX);
  hlo_row_major_strides(3, dims, strides);
  assert_true(strides[0] == (i64)1 << 43 && strides[1] == 8 && strides[2] == 1);
}

// Packed elements: bits that are no whole bytes round up once.
static void packed_bytes(void **state) {
  (void)state;
  hlo_module *m =
      parse("HloModule m\nENTRY e { x = s4[13]{0:E(4)} parameter(0) ROOT r = s4[13]{0:E(4)} "
            "copy(x) }");
  assert_int_equal(hlo_shape_bytes(m->entry->root->shape), 7);
  hlo_module_free(m);
}

static void memory_of_four(void **state) {
  (void)state;
  hlo_module *m = parse("HloModule m\nENTRY e { a = " BIG " parameter(0) b = " BIG
                        " parameter(1) c = " BIG " parameter(2) d = " BIG " parameter(3) x = " BIG
                        " add(a, b) y = " BIG " add(c, d) z = " BIG " multiply(x, y) w = " BIG
                        " subtract(x, y) ROOT r = (" BIG ", " BIG ", " BIG ") tuple(z, w, x) }");
  for (int naive = 0; naive < 2; naive++) {
    hlo_memory mem;
    expect_good(hlo_memory_estimate(m, naive, &mem), "memory");
    assert_true(mem.argument_bytes == INT64_MAX);
    assert_true(mem.output_bytes == INT64_MAX);
    assert_true(mem.peak_bytes == INT64_MAX);
    assert_true(mem.temp_bytes >= 0 && mem.alias_bytes >= 0);
  }
  hlo_cost_table t;
  expect_good(hlo_cost_module(m, &t), "cost");
  assert_true(t.total.bytes_read > 3e19 && t.total.flops > 1e19);
  hlo_cost_free(&t);
  hlo_module_free(m);
}

// Dilated windows by closed form, against counting one by one.
static double conv_flops(i64 in, i64 out, i64 size, i64 stride, i64 low, i64 high, i64 lhs,
                         i64 rhs) {
  char text[600];
  snprintf(text, sizeof text,
           "HloModule m\nENTRY e { x = f32[1,%lld,1] parameter(0) k = f32[%lld,1,1] parameter(1) "
           "ROOT r = f32[1,%lld,1] convolution(x, k), window={size=%lld stride=%lld pad=%lld_%lld "
           "lhs_dilate=%lld "
           "rhs_dilate=%lld}, dim_labels=b0f_0io->b0f }",
           (long long)in, (long long)size, (long long)out, (long long)size, (long long)stride,
           (long long)low, (long long)high, (long long)lhs, (long long)rhs);
  hlo_module *m = parse(text);
  double flops = hlo_cost_instr(m->entry->root).flops;
  hlo_module_free(m);
  return flops;
}

static void window_positions(void **state) {
  (void)state;
  for (i64 k = 0; k < 300; k++) {
    i64 in = 1 + k % 7, size = 1 + k % 4, stride = 1 + k % 3, lhs = 1 + k % 5, rhs = 1 + k / 5 % 3,
        low = k / 7 % 4, high = k / 11 % 4;
    i64 wide = (in - 1) * lhs + 1 + low + high, win = (size - 1) * rhs + 1;
    if (win > wide) continue;
    i64 out = (wide - win) / stride + 1;
    double want = 0;
    for (i64 f = 0; f < size; f++)
      for (i64 o = 0; o < out; o++) {
        i64 at = o * stride - low + f * rhs;
        want += at >= 0 && at <= (in - 1) * lhs && at % lhs == 0;
      }
    assert_true(conv_flops(in, out, size, stride, low, high, lhs, rhs) == 2 * want);
  }
  // 2^40 positions, one in 2^20 of them real
  i64 n = (i64)1 << 20, wide = (n - 1) * n + 1;
  assert_true(conv_flops(n, wide, 1, 1, 0, 0, n, 1) == 2.0 * (double)n);
}

// Every third element is a leaf, a pair, or nothing: leaves by number are those of a walk, and all
// of them take no longer than one walk each times a logarithm (by going through the elements, ten
// thousand million steps).
static void leaves_by_number(void **state) {
  (void)state;
  enum { N = 150000 };
  static const u32 before[3] = {0, 1, 3};
  const hlo_shape *leaf[3] = {shape_of(HLO_F32, 2), shape_of(HLO_F32, 3), shape_of(HLO_F32, 4)};
  const hlo_shape *of[3] = {leaf[0], hlo_shape_tuple(ctx, 2, &leaf[1]),
                            hlo_shape_tuple(ctx, 0, NULL)};
  const hlo_shape **e = hs_calloc(N, sizeof *e);
  for (u32 k = 0; k < N; k++) e[k] = of[k % 3];
  const hlo_shape *t = hlo_shape_tuple(ctx, N, e);
  assert_int_equal(hlo_shape_leaves(t), N);
  assert_int_equal(hlo_shape_leaves(hlo_shape_tuple(ctx, 1, &t)), N);
  for (u32 k = 0; k < N; k++) assert_ptr_equal(hlo_shape_leaf(t, k), leaf[k % 3]);
  for (u32 k = 0; k < N; k++)
    assert_int_equal(hlo_shape_leaf_offset(t, k), k / 3 * 3 + before[k % 3]);
  assert_null(hlo_shape_leaf(t, N));
  assert_int_equal(hlo_shape_leaf_offset(t, N + 5), N);
  assert_int_equal(hlo_shape_leaf_offset(t, -1), 0);
  assert_false(hlo_shape_is_dynamic(t));
  bool open[1] = {true};
  e[N - 2] = hlo_shape_dynamic(ctx, HLO_F32, 1, (i64[]){3}, open, NULL);
  assert_true(hlo_shape_is_dynamic(hlo_shape_tuple(ctx, N, e)));
  hs_free(e);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(saturating_sums),  cmocka_unit_test(shape_bytes),
      cmocka_unit_test(packed_bytes),     cmocka_unit_test(memory_of_four),
      cmocka_unit_test(window_positions), cmocka_unit_test(leaves_by_number),
  };
  return cmocka_run_group_tests(tests, open_context, close_context);
}
