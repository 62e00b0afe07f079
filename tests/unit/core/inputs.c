// inputs.c — random arguments keep what their uses ask for; values by words; the arguments inside
// snapshots.
#include <math.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <cmocka.h>

#include "core/types/ctx.h"
#include "core/eval/inputs.h"
#include "core/types/compare.h"
#include "core/proto/proto.h"
#include "core/proto/wire.h"
#include "core/text/text.h"

static const char text[] =
    "HloModule uses\n"
    "add { a = f32[] parameter(0) b = f32[] parameter(1) ROOT s = f32[] add(a, b) }\n"
    "most { a = f32[] parameter(0) b = f32[] parameter(1) ROOT s = f32[] maximum(a, b) }\n"
    "less { a = s32[] parameter(0) b = s32[] parameter(1) c = f32[] parameter(2) d = f32[] "
    "parameter(3) ROOT l = pred[] compare(a, b), direction=LT }\n"
    "cond { p = (s32[], s32[]) parameter(0) i = s32[] get-tuple-element(p), index=0 n = s32[] "
    "constant(3) ROOT l = pred[] compare(i, n), direction=LT }\n"
    "body { p = (s32[], s32[]) parameter(0) i = s32[] get-tuple-element(p), index=0 at = s32[] "
    "get-tuple-element(p), index=1\n"
    "  x = f32[40] constant({0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23,24,25,"
    "26,27,28,29,30,31,32,33,34,35,36,37,38,39})\n"
    "  y = f32[35] dynamic-slice(x, at), dynamic_slice_sizes={35} one = s32[] constant(1) j = "
    "s32[] add(i, one) ROOT t = (s32[], s32[]) tuple(j, at) }\n"
    "ENTRY e {\n"
    "  x = f32[10,4] parameter(0)\n"
    "  row = s64[] parameter(1) rowc = s32[] convert(row) zero = s32[] constant(0)\n"
    "  ds = f32[3,4] dynamic-slice(x, rowc, zero), dynamic_slice_sizes={3,4}\n"
    "  idx = u8[200] parameter(2) idr = u8[200,1] reshape(idx)\n"
    "  g = f32[200,4] gather(x, idr), offset_dims={1}, collapsed_slice_dims={0}, "
    "start_index_map={0}, index_vector_dim=1, slice_sizes={1,4}, indices_are_sorted=true\n"
    "  init = f32[] parameter(3) r = f32[4] reduce(x, init), dimensions={0}, to_apply=add\n"
    "  least = f32[] parameter(4) r2 = f32[4] reduce(x, least), dimensions={0}, to_apply=most\n"
    "  keys = s32[50] parameter(5) vals = f32[50] parameter(6)\n"
    "  so = (s32[50], f32[50]) sort(keys, vals), dimensions={0}, to_apply=less\n"
    "  inloop = s32[] parameter(7) st = (s32[], s32[]) tuple(zero, inloop) w = (s32[], s32[]) "
    "while(st), condition=cond, body=body\n"
    "  sidx = s32[6] parameter(8) up = f32[6,4] parameter(9)\n"
    "  sc = f32[10,4] scatter(x, sidx, up), update_window_dims={1}, inserted_window_dims={0}, "
    "scatter_dims_to_operand_dims={0}, index_vector_dim=1, unique_indices=true, to_apply=add\n"
    "  free = s16[100] parameter(10) flag = pred[64] parameter(11)\n"
    "  ROOT t = tuple(ds, g, r, r2, so, w, sc, free, flag) }";

static hlo_module *module(hlo_ctx *ctx) {
  hlo_module *m;
  hs_status s = hlo_parse(ctx, text, strlen(text), NULL, &m);
  if (!hs_ok(s)) fail_msg("line %u: %s", s.err->line, s.err->message);
  return m;
}

static void within(const hlo_literal *l, double lo, double hi) {
  for (i64 k = 0; k < l->shape->elements; k++)
    if (!(hlo_literal_f64(l, k) >= lo && hlo_literal_f64(l, k) <= hi))
      fail_msg("%g is not in [%g, %g]", hlo_literal_f64(l, k), lo, hi);
}

static void all_different(const hlo_literal *l) {
  for (i64 k = 0; k < l->shape->elements; k++)
    for (i64 j = 0; j < k; j++) assert_true(hlo_literal_i64(l, k) != hlo_literal_i64(l, j));
}

static void uses_are_minded(void **state) {
  (void)state;
  hlo_ctx *ctx = hlo_ctx_new();
  hlo_module *m = module(ctx);
  for (u64 seed = 0; seed < 20; seed++) {
    hlo_literal **v;
    u32 n;
    assert_true(hs_ok(hlo_inputs_random(ctx, m, seed, &v, &n)));
    assert_int_equal(n, 12);
    within(v[0], -0.1, 0.2);
    within(v[1], 0, 7);  // through a conversion
    within(v[2], 0, 9);  // through a reshape, in order
    for (i64 k = 1; k < 200; k++)
      assert_true(hlo_literal_i64(v[2], k) >= hlo_literal_i64(v[2], k - 1));
    within(v[3], 0, 0);
    assert_true(hlo_literal_f64(v[4], 0) == -INFINITY);
    within(v[5], 0, 49);
    all_different(v[5]);
    within(v[7], 0, 5);  // inside the loop's body
    within(v[8], 0, 9);
    all_different(v[8]);
    hlo_inputs_free(v, n);
  }
  hlo_module_free(m);
  hlo_ctx_free(ctx);
}

static void seeds_decide_and_ranges_are_used(void **state) {
  (void)state;
  hlo_ctx *ctx = hlo_ctx_new();
  hlo_module *m = module(ctx);
  hlo_literal **a, **b, **c;
  u32 n;
  assert_true(hs_ok(hlo_inputs_random(ctx, m, 1, &a, &n)) &&
              hs_ok(hlo_inputs_random(ctx, m, 1, &b, &n)) &&
              hs_ok(hlo_inputs_random(ctx, m, 2, &c, &n)));
  for (u32 k = 0; k < n; k++) assert_true(hlo_literal_equal(a[k], b[k]));
  assert_false(hlo_literal_equal(a[0], c[0]));
  double lo = 0, hi = 0, trues = 0;
  for (i64 k = 0; k < 100; k++)
    lo = fmin(lo, hlo_literal_f64(a[10], k)), hi = fmax(hi, hlo_literal_f64(a[10], k));
  for (i64 k = 0; k < 64; k++) trues += hlo_literal_f64(a[11], k);
  assert_true(lo < -20000 && hi > 20000 && trues > 10 && trues < 54);
  hlo_inputs_free(a, n);
  assert_true(hs_ok(
      hlo_inputs_random_with(m, &(hlo_random_options){.seed = 1, .large_range = true}, &a, &n)));
  double small = INFINITY, large = 0;
  for (i64 k = 0; k < 40; k++)
    small = fmin(small, fabs(hlo_literal_f64(a[0], k))),
    large = fmax(large, fabs(hlo_literal_f64(a[0], k)));
  assert_true(small < 1e-10 && large > 1e10);
  within(a[1], 0, 7);
  hlo_inputs_free(a, n), hlo_inputs_free(b, n), hlo_inputs_free(c, n);
  hlo_module_free(m);
  hlo_ctx_free(ctx);
}

static hlo_literal *words(hlo_ctx *ctx, const char *shape, const char *how) {
  const hlo_shape *s;
  hlo_literal *l;
  assert_true(hs_ok(hlo_parse_shape(ctx, shape, strlen(shape), &s)));
  hs_status st = hlo_input_by_words(s, how, 5, &l);
  hs_status_drop(st);
  return l;
}

// Numbers repeat where that was asked for; what the uses ask for does not.
static void numbers_may_repeat(void **st) {
  (void)st;
  static const char module[] =
      "HloModule m\nless { a = s32[] parameter(0)\n  b = s32[] parameter(1)\n"
      "  c = f32[] parameter(2)\n  d = f32[] parameter(3)\n"
      "  ROOT l = pred[] compare(a, b), direction=LT }\n"
      "ENTRY e {\n  x = f32[1000] parameter(0)\n  keys = s32[1000] parameter(1)\n"
      "  z = bf16[10] parameter(2)\n"
      "  s = (s32[1000], f32[1000]) sort(keys, x), dimensions={0}, to_apply=less\n"
      "  ROOT t = ((s32[1000], f32[1000]), bf16[10]) tuple(s, z)\n}\n";
  hlo_ctx *ctx = hlo_ctx_new();
  hlo_module *m;
  hlo_literal **a, **b;
  u32 n;
  assert_true(hs_ok(hlo_parse(ctx, module, strlen(module), NULL, &m)));
  assert_true(hs_ok(hlo_inputs_random(ctx, m, 1, &a, &n)));
  hlo_random_options o = {.seed = 1, .period = 300};
  assert_true(hs_ok(hlo_inputs_random_with(m, &o, &b, &n)));
  const float *whole = a[0]->data, *x = b[0]->data;
  for (u32 k = 0; k < 1000; k++) assert_true(x[k] == whole[k % 300]);
  assert_memory_equal(a[1]->data, b[1]->data, a[1]->bytes);
  assert_memory_equal(a[2]->data, b[2]->data, a[2]->bytes);
  hlo_inputs_free(a, n);
  hlo_inputs_free(b, n);
  hlo_module_free(m);
  hlo_ctx_free(ctx);
}

static void values_by_words(void **state) {
  (void)state;
  hlo_ctx *ctx = hlo_ctx_new();
  static const struct {
    const char *shape, *how;
    double lo, hi;
  } cases[] = {{"f32[9]", "zeros", 0, 0},
               {"s8[9]", "ones", 1, 1},
               {"u16[9]", "iota", 0, 8},
               {"f32[99]", "random(2,3)", 2, 3},
               {"s32[99]", "random(-3,4)", -3, 3},
               {"bf16[9]", "fill(2)", 2, 2},
               {"f32[500]", "normal(10,1)", 4, 16},
               {"f32[9]", "random", -0.1, 0.2},
               {"f64[2]", "inf", INFINITY, INFINITY}};
  for (size_t k = 0; k < HS_COUNT(cases); k++) {
    hlo_literal *l = words(ctx, cases[k].shape, cases[k].how);
    if (!l) fail_msg("%s", cases[k].how);
    within(l, cases[k].lo, cases[k].hi);
    hlo_literal_unref(l);
  }
  hlo_literal *t = words(ctx, "(f32[2], (s32[3], token[]))", "ones");
  within(t->children[1]->children[0], 1, 1);
  hlo_literal_unref(t);
  static const char *const bad[] = {"random(1)", "random(3,2)", "normal(1",     "fill",
                                    "fill(x)",   "zero",        "random(1,2)x", ""};
  for (size_t k = 0; k < HS_COUNT(bad); k++) assert_null(words(ctx, "f32[2]", bad[k]));
  hlo_ctx_free(ctx);
}

// A snapshot put together by hand: module, two arguments (LiteralProto: shape = 1, s32s = 4, f32s =
// 8), a result.
static void put_literal(hs_buf *b, u32 num, int type, u32 field, const void *data, size_t n,
                        i64 dim) {
  size_t literal = pb_begin(b), shape = pb_begin(b);
  pb_put_int(b, 2, type);
  pb_put_ints(b, 3, &dim, 1);
  pb_end(b, 1, shape);
  pb_put_bytes(b, field, data, n);
  pb_end(b, num, literal);
}

static void snapshots_carry_arguments(void **state) {
  (void)state;
  hlo_ctx *ctx = hlo_ctx_new();
  static const char two[] =
      "HloModule two\nENTRY e { a = f32[2] parameter(0) b = s32[3] parameter(1) ROOT r = f32[2] "
      "negate(a) }";
  hlo_module *m;
  assert_true(hs_ok(hlo_parse(ctx, two, strlen(two), NULL, &m)));
  const float a[2] = {1.5f, -2};
  const u8 s[3] = {7, 8, 9};
  for (int unoptimized = 0; unoptimized < 2; unoptimized++) {
    hs_buf b = {0}, inner = {0};
    assert_true(hs_ok(hlo_proto_write(&inner, m, !unoptimized)));
    pb_put_bytes(&b, 1, inner.p, inner.n);
    for (int part = 0; part < 1 + unoptimized; part++) {
      size_t mark = pb_begin(&b);
      put_literal(&b, unoptimized ? 1 : 2, 11, 8, a, sizeof a, 2);
      put_literal(&b, unoptimized ? 1 : 2, 4, 4, s, sizeof s, 3);
      if (unoptimized) pb_end(&b, 2, mark);
    }
    if (!unoptimized) put_literal(&b, 3, 11, 8, a, sizeof a, 2);
    hlo_literal **v, *result;
    u32 n;
    hs_status st =
        hlo_proto_read_arguments(ctx, b.p, b.n, "test", (u32)unoptimized, &v, &n, &result);
    if (!hs_ok(st)) fail_msg("%s", st.err->message);
    assert_int_equal(n, 2);
    assert_true(hlo_literal_f64(v[0], 1) == -2 && hlo_literal_i64(v[1], 2) == 9);
    assert_true((result != NULL) == !unoptimized);
    hlo_inputs_free(v, n);
    hlo_literal_unref(result);
    hs_status beyond = hlo_proto_read_arguments(ctx, b.p, b.n, "test", 9, &v, &n, NULL);
    assert_true(hs_ok(beyond) == !unoptimized);
    hs_status_drop(beyond);
    if (!unoptimized) hlo_inputs_free(v, n);
    for (size_t cut = 0; cut < b.n; cut++) {  // damaged: an error or nothing, never a crash
      hs_status d = hlo_proto_read_arguments(ctx, b.p, cut, "test", 0, &v, &n, &result);
      if (hs_ok(d)) hlo_inputs_free(v, n), hlo_literal_unref(result);
      hs_status_drop(d);
    }
    hs_buf_free(&b);
    hs_buf_free(&inner);
  }
  hlo_module_free(m);
  hlo_ctx_free(ctx);
}

// Values of any size are made, copied, compared and summed up in a time that Ctrl-C bounds: once
// the flag is up, each of these ends at its next look at it, and says so.
static void large_values_hear_interrupts(void **state) {
  (void)state;
  hlo_ctx *ctx = hlo_ctx_new();
  static const char large[] =
      "HloModule large\n"
      "ENTRY e { x = f32[1000000] parameter(0) i = s32[1000000] parameter(1)\n"
      "  ROOT t = (f32[1000000], s32[1000000]) tuple(x, i) }\n";
  hlo_module *m;
  hlo_literal **v;
  u32 n;
  assert_true(hs_ok(hlo_parse(ctx, large, strlen(large), NULL, &m)));
  assert_true(hs_ok(hlo_inputs_random(ctx, m, 1, &v, &n)));
  hlo_literal *other, *words;
  assert_true(hs_ok(hlo_input_by_words(v[0]->shape, "random", 7, &other)));
  char *to = hs_try_calloc(v[0]->bytes, 1);
  hs_interrupt flag = HS_STOP_INTERRUPT;
  hs_interrupt_watch(&flag);
  hlo_literal **none;
  u32 count;
  hs_status all[] = {
      hlo_inputs_random(ctx, m, 1, &none, &count), hlo_inputs_formula(ctx, m, "", 0, &none, &count),
      hlo_input_by_words(v[0]->shape, "iota", 7, &words), hs_copy(to, v[0]->data, v[0]->bytes),
      hlo_compare(v[0], other, hlo_default_tolerance(HLO_F32))};
  hs_interrupt_watch(NULL);
  for (size_t k = 0; k < HS_COUNT(all); k++) {
    assert_false(hs_ok(all[k]));
    if (all[k].err->code != HS_E_INTERRUPTED) fail_msg("%zu: %s", k, all[k].err->message);
    hs_status_drop(all[k]);
  }
  assert_true(to[v[0]->bytes - 1] == 0);
  assert_true(hs_ok(hs_copy(to, v[0]->data, v[0]->bytes)));
  assert_memory_equal(to, v[0]->data, v[0]->bytes);
  hs_free(to);
  hlo_literal_unref(other);
  hlo_inputs_free(v, n);
  hlo_module_free(m);
  hlo_ctx_free(ctx);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(large_values_hear_interrupts),
                                     cmocka_unit_test(uses_are_minded),
                                     cmocka_unit_test(seeds_decide_and_ranges_are_used),
                                     cmocka_unit_test(values_by_words),
                                     cmocka_unit_test(numbers_may_repeat),
                                     cmocka_unit_test(snapshots_carry_arguments)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
