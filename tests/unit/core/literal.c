// literal.c — conversions of every element type. Expected codes were computed with NumPy and
// ml_dtypes.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <math.h>

#include "core/types/ctx.h"
#include "core/types/float.h"
#include "core/types/literal.h"
#include "core/types/stats.h"

static const float values[12] = {1.0f,   -1.0f,  0.3f, 1.5f,  -2.75f, 3.3f,
                                 100.0f, 447.9f, 1e9f, 1e-3f, 0.0f,   -0.0f};
static const struct codes {
  hlo_dtype type;
  u16 code[12];
} codes[] = {
    {HLO_F8E5M2, {0x3c, 0xbc, 0x35, 0x3e, 0xc2, 0x43, 0x56, 0x5f, 0x7c, 0x14, 0x00, 0x80}},
    {HLO_F8E4M3, {0x38, 0xb8, 0x2a, 0x3c, 0xc3, 0x45, 0x6c, 0x78, 0x78, 0x01, 0x00, 0x80}},
    {HLO_F8E4M3FN, {0x38, 0xb8, 0x2a, 0x3c, 0xc3, 0x45, 0x6c, 0x7e, 0x7f, 0x01, 0x00, 0x80}},
    {HLO_F8E4M3B11FNUZ, {0x58, 0xd8, 0x4a, 0x5c, 0xe3, 0x65, 0x80, 0x80, 0x80, 0x08, 0x00, 0x00}},
    {HLO_F8E3M4, {0x30, 0xb0, 0x13, 0x38, 0xc6, 0x4a, 0x70, 0x70, 0x70, 0x00, 0x00, 0x80}},
    {HLO_F8E5M2FNUZ, {0x40, 0xc0, 0x39, 0x42, 0xc6, 0x47, 0x5a, 0x63, 0x80, 0x18, 0x00, 0x00}},
    {HLO_F8E4M3FNUZ, {0x40, 0xc0, 0x32, 0x44, 0xcb, 0x4d, 0x74, 0x80, 0x80, 0x01, 0x00, 0x00}},
    {HLO_F4E2M1FN, {0x02, 0x0a, 0x01, 0x03, 0x0d, 0x05, 0x07, 0x07, 0x07, 0x00, 0x00, 0x08}},
    {HLO_F8E8M0FNU, {0x7f, 0xff, 0x7d, 0x80, 0xff, 0x81, 0x86, 0x88, 0x9d, 0x75, 0xff, 0xff}},
    {HLO_F6E3M2FN, {0x0c, 0x2c, 0x05, 0x0e, 0x32, 0x13, 0x1f, 0x1f, 0x1f, 0x00, 0x00, 0x20}},
    {HLO_F6E2M3FN, {0x08, 0x28, 0x02, 0x0c, 0x33, 0x15, 0x1f, 0x1f, 0x1f, 0x00, 0x00, 0x20}},
    {HLO_F16,
     {0x3c00, 0xbc00, 0x34cd, 0x3e00, 0xc180, 0x429a, 0x5640, 0x5f00, 0x7c00, 0x1419, 0x0000,
      0x8000}},
    {HLO_BF16,
     {0x3f80, 0xbf80, 0x3e9a, 0x3fc0, 0xc030, 0x4053, 0x42c8, 0x43e0, 0x4e6e, 0x3a83, 0x0000,
      0x8000}},
};

static void narrow_floats_round_as_ml_dtypes(void **state) {
  (void)state;
  for (u32 k = 0; k < HS_COUNT(codes); k++)
    for (u32 j = 0; j < 12; j++) {
      u8 out[2] = {0, 0};
      hlo_elem_from_f64(codes[k].type, out, (double)values[j]);
      u16 got = (u16)(out[0] | out[1] << 8);
      if (got != codes[k].code[j])
        print_error("%s of %g: 0x%x, want 0x%x\n", hlo_dtype_text(codes[k].type), (double)values[j],
                    got, codes[k].code[j]);
      assert_int_equal(got, codes[k].code[j]);
    }
}

static void every_code_survives_a_round_trip(void **state) {
  (void)state;
  for (hlo_dtype t = 1; t < HLO_DTYPE_COUNT; t++) {
    const hlo_float_format *f = hlo_float_format_of(t);
    if (!f) continue;
    u32 n = 1u << hlo_dtype_bits(t);
    for (u32 c = 0; c < n; c++) {
      double v = hlo_float_decode(f, c);
      u32 back = hlo_float_encode(f, v);
      if (v != v) assert_true(hlo_float_decode(f, back) != hlo_float_decode(f, back));
      else assert_int_equal(back, c);
    }
  }
  for (u32 c = 0; c < 0x10000; c++) {
    float v = hlo_f16_to_f32((u16)c), w = hlo_bf16_to_f32((u16)c);
    if (v == v) assert_int_equal(hlo_f32_to_f16(v), c);
    if (w == w) assert_int_equal(hlo_f32_to_bf16(w), c);
  }
}

// Arrays take another way than single numbers do.
static void arrays_round_as_single_numbers(void **state) {
  (void)state;
  enum { N = 4096 };
  static u32 bits[N];
  static float from[N];
  static u8 to[N];
  for (hlo_dtype t = 1; t < HLO_DTYPE_COUNT; t++) {
    const hlo_float_format *f = hlo_float_format_of(t);
    if (!f || hlo_dtype_storage(t) != 1) continue;
    for (u32 run = 0; run < 100; run++) {
      // every exponent, with ties and their neighbours
      for (u32 k = 0; k < N; k++)
        bits[k] =
            k << 20 ^ (run < 34 ? (1u << run % 23) + run / 23 - 1 : run * k * 40503u % 0xfffff);
      memcpy(from, bits, sizeof from);
      hlo_floats_from_f32(t, from, to, N);
      for (u32 k = 0; k < N; k++)
        if (from[k] == from[k]) assert_int_equal(to[k], hlo_float_encode(f, (double)from[k]));
    }
  }
}

static void halves_round_to_even(void **state) {
  (void)state;
  assert_int_equal(hlo_f32_to_bf16(1.00390625f), 0x3f80);  // 1 + 2^-8: a tie, down
  assert_int_equal(hlo_f32_to_bf16(1.01171875f), 0x3f82);  // 1 + 3 * 2^-8: a tie, up
  assert_int_equal(hlo_f32_to_f16(2049.0f), 0x6800);
  assert_int_equal(hlo_f32_to_f16(2051.0f), 0x6802);
  assert_int_equal(hlo_f32_to_f16(65520.0f), 0x7c00);
  assert_int_equal(hlo_f32_to_f16(0x1p-25f), 0);  // half of the least subnormal
  assert_int_equal(hlo_f32_to_f16(0x1.8p-25f), 1);
}

static void integers_clamp_and_wrap(void **state) {
  (void)state;
  i8 s = 0;
  u8 u = 0;
  i64 w = 0;
  hlo_elem_from_f64(HLO_S8, &s, 300.7);
  assert_int_equal(s, 127);
  hlo_elem_from_f64(HLO_S8, &s, -1e30);
  assert_int_equal(s, -128);
  hlo_elem_from_f64(HLO_S8, &s, (double)NAN);
  assert_int_equal(s, 0);
  hlo_elem_from_f64(HLO_U8, &u, -3);
  assert_int_equal(u, 0);
  hlo_elem_from_f64(HLO_S64, &w, 1e300);
  assert_true(w == INT64_MAX);
  hlo_elem_from_i64(HLO_S4, &s, 9);
  assert_int_equal(s, -7);
  hlo_elem_from_i64(HLO_U4, &u, 17);
  assert_int_equal(u, 1);
  hlo_elem_from_i64(HLO_S2, &s, 2);
  assert_int_equal(s, -2);
  hlo_elem_from_i64(HLO_PRED, &u, 4);
  assert_int_equal(u, 1);
}

static void literals_are_counted(void **state) {
  (void)state;
  hlo_ctx *ctx = hlo_ctx_new();
  const i64 dims[2] = {2, 3};
  const hlo_shape *a = hlo_shape_array(ctx, HLO_F32, 2, dims),
                  *two[2] = {a, hlo_shape_scalar(ctx, HLO_S32)};
  hlo_literal *t = NULL;
  hs_status st = hlo_literal_new(hlo_shape_tuple(ctx, 2, two), &t);
  assert_true(hs_ok(st));
  assert_int_equal(t->nchildren, 2);
  assert_true(hlo_literal_is_all_f64(t->children[0], 0) && hlo_literal_is_splat(t->children[0]));
  hlo_literal *child = hlo_literal_ref(t->children[0]);
  hlo_literal_unref(t);
  hlo_literal_set_f64(child, 5, 2.5);
  assert_true(hlo_literal_f64(child, 5) == 2.5 && hlo_literal_i64(child, 5) == 2);
  assert_false(hlo_literal_is_splat(child));
  hlo_literal_unref(child);
  const i64 huge[3] = {(i64)1 << 40, (i64)1 << 40, 1};
  st = hlo_shape_check_limits(HLO_F32, 3, huge);
  assert_false(hs_ok(st));
  hs_status_drop(st);
  hlo_ctx_free(ctx);
}

// f32[<=3,2,<=4] with sizes (2,2,3): element k of the packed ones is k; beyond them lies NaN.
static void sizes_bound_what_has_a_value(void **state) {
  (void)state;
  hlo_ctx *ctx = hlo_ctx_new();
  const i64 dims[3] = {3, 2, 4}, sizes[3] = {2, 2, 3}, wide[3] = {2, 1, 3}, large[3] = {2, 2, 5};
  const bool dynamic[3] = {true, false, true};
  const hlo_shape *shape = hlo_shape_dynamic(ctx, HLO_F32, 3, dims, dynamic, NULL);
  assert_true(hlo_shape_takes_sizes(shape, 3, sizes) && hlo_shape_takes_sizes(shape, 3, dims));
  assert_false(hlo_shape_takes_sizes(shape, 3, wide) || hlo_shape_takes_sizes(shape, 3, large) ||
               hlo_shape_takes_sizes(shape, 2, sizes));
  float packed[12];
  for (int k = 0; k < 12; k++) packed[k] = (float)k;
  hlo_literal *l, *used, *all;
  assert_true(hs_ok(hlo_literal_of_sizes(shape, sizes, packed, &l)));
  i64 strides[3], have[3];
  hlo_row_major_strides(3, dims, strides);
  for (i64 k = 0; k < 24; k++)
    if (!hlo_literal_has_at(l, strides, k)) hlo_literal_set_f64(l, k, NAN);
  assert_int_equal(hlo_literal_sizes(l, have), 12);
  assert_memory_equal(have, sizes, sizeof sizes);
  assert_true(hlo_literal_f64(l, 1 * 8 + 1 * 4 + 2) == 11);
  hlo_stats st = hlo_literal_stats(l);
  assert_int_equal(st.values, 12);
  assert_true(st.nan == 0 && st.max == 11 && st.mean == 5.5);
  assert_int_equal(hlo_literal_specials(l), 0);
  assert_int_equal(hlo_literal_find_special(l, HLO_HAS_NAN), -1);
  i64 counts[2];
  hlo_literal_histogram(l, &st, 2, counts);
  assert_true(counts[0] == 6 && counts[1] == 6);
  assert_true(hs_ok(hlo_literal_in_use(ctx, l, &used)));
  assert_ptr_equal(used->shape->logical, hlo_shape_array(ctx, HLO_F32, 3, sizes)->logical);
  assert_memory_equal(used->data, packed, sizeof packed);
  hs_buf b = {0};
  hlo_literal_put(&b, l);
  assert_int_equal(b.n, sizeof packed);
  assert_memory_equal(b.p, packed, sizeof packed);
  hs_buf_free(&b);
  l->dynamic_sizes[0] = 0;
  assert_true(hs_ok(hlo_literal_in_use(ctx, l, &all)));
  assert_int_equal(all->bytes, 0);
  hlo_literal_unref(all);
  hlo_literal_unref(used);
  hlo_literal_unref(l);
  hlo_ctx_free(ctx);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(narrow_floats_round_as_ml_dtypes),
      cmocka_unit_test(every_code_survives_a_round_trip),
      cmocka_unit_test(arrays_round_as_single_numbers),
      cmocka_unit_test(halves_round_to_even),
      cmocka_unit_test(integers_clamp_and_wrap),
      cmocka_unit_test(literals_are_counted),
      cmocka_unit_test(sizes_bound_what_has_a_value),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
