// loops.c — the while loops that the evaluator does not run turn by turn, against plain C that
// does.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "core/eval/eval.h"
#include "core/text/text.h"

static bool holds(i64 direction, int v, int limit) {
  switch (direction) {
  case HLO_DIRECTION_EQ: return v == limit;
  case HLO_DIRECTION_NE: return v != limit;
  case HLO_DIRECTION_GE: return v >= limit;
  case HLO_DIRECTION_GT: return v > limit;
  case HLO_DIRECTION_LE: return v <= limit;
  default: return v < limit;
  }
}

// The counter when the loop ends, or INT_MIN when it has not after going through every value.
static int count_in_c(bool is_signed, i64 direction, int v, int step, int limit) {
  for (int turn = 0; turn < 300; turn++) {
    if (!holds(direction, v, limit)) return v;
    v = is_signed ? (int8_t)(v + step) : (uint8_t)(v + step);
  }
  return INT32_MIN;
}

static hlo_module *read_module(hlo_ctx *ctx, const char *text) {
  hlo_module *m = NULL;
  hs_status st = hlo_parse(ctx, text, strlen(text), NULL, &m);
  if (!hs_ok(st)) print_error("%s\n", st.err->message);
  assert_true(hs_ok(st));
  return m;
}

// Every third start, step and limit of s8 and u8, the counter on either side of the comparison.
static void counters_wrap(void **state) {
  (void)state;
  hlo_ctx *ctx = hlo_ctx_new();
  for (int is_signed = 0; is_signed < 2; is_signed++)
    for (i64 d = 0; d < HLO_DIRECTION_COUNT; d++) {
      const char *t = is_signed ? "s8" : "u8", *order = d % 2 ? "n, i" : "i, n";
      i64 written = d;
      if (d % 2)
        written = d == HLO_DIRECTION_GT   ? HLO_DIRECTION_LT
                  : d == HLO_DIRECTION_LT ? HLO_DIRECTION_GT
                  : d == HLO_DIRECTION_GE ? HLO_DIRECTION_LE
                  : d == HLO_DIRECTION_LE ? HLO_DIRECTION_GE
                                          : d;
      char *text = hs_format(
          "HloModule m\n"
          "b { p = (%s[], %s[], %s[]) parameter(0) i = %s[] get-tuple-element(p), index=0 s = %s[] "
          "get-tuple-element(p), index=1 n = %s[] get-tuple-element(p), index=2\n"
          "  j = %s[] add(i, s) ROOT r = (%s[], %s[], %s[]) tuple(j, s, n) }\n"
          "c { p = (%s[], %s[], %s[]) parameter(0) i = %s[] get-tuple-element(p), index=0 n = %s[] "
          "get-tuple-element(p), index=2 ROOT r = pred[] compare(%s), direction=%s }\n"
          "ENTRY e { i = %s[] parameter(0) s = %s[] parameter(1) n = %s[] parameter(2) t = (%s[], "
          "%s[], %s[]) tuple(i, s, n)\n"
          "  w = (%s[], %s[], %s[]) while(t), condition=c, body=b ROOT r = %s[] "
          "get-tuple-element(w), index=0 }",
          t, t, t, t, t, t, t, t, t, t, t, t, t, t, t, order,
          hlo_enum_text(HLO_AK_ENUM_DIRECTION, written), t, t, t, t, t, t, t, t, t, t);
      hlo_module *m = read_module(ctx, text);
      int low = is_signed ? -128 : 0;
      for (int v = low; v < low + 256; v += 51)
        for (int step = low; step < low + 256; step += 17)
          for (int limit = low; limit < low + 256; limit += 85) {
            int want = count_in_c(is_signed != 0, d, v, step, limit);
            if (want == INT32_MIN) continue;  // endless
            hlo_dtype type = is_signed ? HLO_S8 : HLO_U8;
            hlo_literal *args[3] = {hlo_literal_scalar_i64(ctx, type, v),
                                    hlo_literal_scalar_i64(ctx, type, step),
                                    hlo_literal_scalar_i64(ctx, type, limit)},
                        *got = NULL;
            hs_status st = hlo_eval_module(m, 3, args, NULL, &got);
            assert_true(hs_ok(st));
            if (hlo_literal_i64(got, 0) != want)
              print_error("%s %lld: start %d step %d limit %d: %lld, want %d\n", t, (long long)d, v,
                          step, limit, (long long)hlo_literal_i64(got, 0), want);
            assert_int_equal(hlo_literal_i64(got, 0), want);
            hlo_literal_unref(got);
            for (int k = 0; k < 3; k++) hlo_literal_unref(args[k]);
          }
      hlo_module_free(m);
      hs_free(text);
    }
  hlo_ctx_free(ctx);
}

static i64 value_of(const char *text) {
  hlo_ctx *ctx = hlo_ctx_new();
  hlo_module *m = read_module(ctx, text);
  hlo_literal *got = NULL;
  hs_status st = hlo_eval_module(m, 0, NULL, NULL, &got);
  if (!hs_ok(st)) print_error("%s\n", st.err->message);
  assert_true(hs_ok(st));
  i64 v = hlo_literal_i64(got, 0);
  hlo_literal_unref(got);
  hlo_module_free(m);
  hlo_ctx_free(ctx);
  return v;
}

static void long_and_endless_loops(void **state) {
  (void)state;
  // 2^31 turns downwards until the counter wraps around.
  assert_int_equal(
      value_of(
          "HloModule m\nb { i = s32[] parameter(0) s = s32[] constant(-1) ROOT r = s32[] add(i, s) "
          "}\n"
          "c { i = s32[] parameter(0) n = s32[] constant(100) ROOT r = pred[] compare(i, n), "
          "direction=LT }\n"
          "ENTRY e { i = s32[] constant(42) ROOT w = s32[] while(i), condition=c, body=b }"),
      INT32_MAX);
  // Never ends, but only what passes through is read; the other element is taken from the initial
  // state as well.
  assert_int_equal(
      value_of(
          "HloModule m\nb { p = (pred[], s32[], s32[]) parameter(0) t = pred[] "
          "get-tuple-element(p), index=0 v = s32[] get-tuple-element(p), index=1\n"
          "  u = s32[] get-tuple-element(p), index=2 w = s32[] add(u, v) ROOT r = (pred[], s32[], "
          "s32[]) tuple(t, v, w) }\n"
          "c { p = (pred[], s32[], s32[]) parameter(0) ROOT t = pred[] get-tuple-element(p), "
          "index=0 }\n"
          "ENTRY e { t = pred[] constant(true) v = s32[] constant(7) s = (pred[], s32[], s32[]) "
          "tuple(t, v, v) q = s32[] get-tuple-element(s), index=1\n"
          "  w = (pred[], s32[], s32[]) while(s), condition=c, body=b x = s32[] "
          "get-tuple-element(w), index=1 ROOT r = s32[] add(x, q) }"),
      14);
}

// A state that is only looked at in another type is the same memory in every turn, however many
// there are.
static void views_do_not_pile_up(void **state) {
  (void)state;
  assert_int_equal(
      value_of(
          "HloModule m\n"
          "b { p = (s32[], f32[2]) parameter(0) i = s32[] get-tuple-element(p), index=0 one = "
          "s32[] constant(1) j = s32[] add(i, one) x = f32[2] get-tuple-element(p), index=1\n"
          "  u = u32[2] bitcast(x) y = f32[2] bitcast(u) ROOT r = (s32[], f32[2]) tuple(j, y) }\n"
          "c { p = (s32[], f32[2]) parameter(0) i = s32[] get-tuple-element(p), index=0 n = s32[] "
          "constant(300000) ROOT r = pred[] compare(i, n), direction=LT }\n"
          "ENTRY e { z = s32[] constant(0) x = f32[2] constant({3, 4}) t = (s32[], f32[2]) "
          "tuple(z, x) w = (s32[], f32[2]) while(t), condition=c, body=b\n"
          "  v = f32[2] get-tuple-element(w), index=1 s = f32[1] slice(v), slice={[1:2]} f = f32[] "
          "reshape(s) ROOT r = s32[] convert(f) }"),
      4);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(counters_wrap),
                                     cmocka_unit_test(long_and_endless_loops),
                                     cmocka_unit_test(views_do_not_pile_up)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
