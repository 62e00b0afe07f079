// emit_ulp.c — how far the vector mathematics is off: every row of backends/emit/vmath.def, f32
// and f64, over arguments spread evenly over all bit patterns and more of them where functions
// turn, against the C library in extended precision.
//
// Denormals count as zero, in and out. HLOSH_ULP=1 in the environment prints what was measured.
#if HAVE_LLVM
#include "tests/unit/backends/kernels.h"

enum { SAMPLES = 1 << 18 };

typedef long double wide;
static wide logistic_(wide x) { return 1 / (1 + expl(-x)); }
static wide rsqrt_(wide x) { return 1 / sqrtl(x); }

static wide reference(hlo_opcode op, wide x, wide y) {
  switch (op) {
  case HLO_EXP: return expl(x);
  case HLO_EXPM1: return expm1l(x);
  case HLO_LOG: return logl(x);
  case HLO_LOG1P: return log1pl(x);
  case HLO_LOGISTIC: return logistic_(x);
  case HLO_TANH: return tanhl(x);
  case HLO_SQRT: return sqrtl(x);
  case HLO_RSQRT: return rsqrt_(x);
  case HLO_CBRT: return cbrtl(x);
  case HLO_SIN: return sinl(x);
  case HLO_COSINE: return cosl(x);
  case HLO_TAN: return tanl(x);
  case HLO_ERF: return erfl(x);
  case HLO_POWER: return powl(x, y);
  case HLO_ATAN2: return atan2l(x, y);
  default: fail_msg("no reference for %s", hlo_op_text(op)); return 0;
  }
}

// Argument k of a function: three of four from all bit patterns, the rest within a few units of 0.
static double argument(hlo_dtype t, u32 k, u64 *z) {
  double v;
  for (bool again = false;; again = true) {  // again: it was NaN
    u64 r = rnd(z);
    if (k % 4 == 3) v = ((double)(r >> 11) * 0x1p-53 - 0.5) * (k % 8 == 3 ? 4 : 200);
    else if (t == HLO_F32) {
      u32 step = (u32)(((u64)1 << 32) / SAMPLES), bits = again ? (u32)r : k * step + (u32)r % step;
      float f;
      memcpy(&f, &bits, sizeof f);
      v = (double)f;
    } else memcpy(&v, &r, sizeof v);
    if (!isnan(v)) return t == HLO_F32 ? (double)(float)v : v;
  }
}

static double ulps(hlo_dtype t, double got, wide want) {
  wide least = t == HLO_F32 ? 0x1p-126L : 0x1p-1022L,
       most = t == HLO_F32 ? 0x1p128L : 0x1p1023L * 2;
  if (isnan(want) || isnan(got)) return isnan(want) && isnan(got) ? 0 : INFINITY;
  if (fabsl(want) < 2 * least && fabs(got) < 2 * (double)least) return 0;
  wide eps = t == HLO_F32 ? 0x1p-23L : 0x1p-52L;
  if (isinf(got) || fabsl(want) >= most) {
    // as if the largest number were followed by another
    if (isinf(got) && fabsl(want) >= most * (1 - 4 * eps)) return (got > 0) == (want > 0) ? 0 : 1e9;
    return isinf(want) ? INFINITY : (double)(fabsl((wide)got - want) / (most * eps / 2));
  }
  return (double)(fabsl((wide)got - want) / ldexpl(eps, ilogbl(want)));
}

// By the bits: this thread takes denormals for zeros, too. Those of f32 have become zeros by now.
static bool denormal(double v) {
  u64 bits;
  memcpy(&bits, &v, sizeof bits);
  return bits << 1 && !(bits << 1 >> 53);
}

static bool measure(hlo_opcode op, const char *name, hlo_dtype t, double promised) {
  bool two = op == HLO_POWER || op == HLO_ATAN2, f = t == HLO_F32;
  char shape[32];
  snprintf(shape, sizeof shape, "[%d]", SAMPLES);
  size_t first = cases.n, bytes = (size_t)SAMPLES * (f ? 4 : 8);
  if (two) binary_case(name, f ? "f32" : "f64", f ? "f32" : "f64", shape, "", promised);
  else unary_case(name, f ? "f32" : "f64", f ? "f32" : "f64", shape, "", promised);
  double ms, worst = 0, at[2] = {0}, is = 0;
  assert_true(hs_ok(emit_finish(unit, true, 1, &ms)));
  const emit_kernel *k = cases.v[first].k;
  void *x = aligned(NULL, bytes), *y = aligned(NULL, bytes), *r = aligned(NULL, bytes);
  u64 z = (u64)op * 2 + f;
  for (u32 i = 0; i < SAMPLES; i++) {
    double a = argument(t, i, &z), b = two ? argument(t, (u32)(rnd(&z) % SAMPLES), &z) : 0;
    if (op == HLO_POWER && i % 2) b = (double)((i64)(rnd(&z) % 400) - 200) / 8;
    hlo_elem_from_f64(t, (char *)x + i * (f ? 4 : 8), a);
    hlo_elem_from_f64(t, (char *)y + i * (f ? 4 : 8), b);
  }
  void *bufs[3] = {x, two ? y : r, r};
  for (i64 c = 0; c < k->chunks; c++) k->fn(bufs, c, NULL);
  for (u32 i = 0; i < SAMPLES; i++) {
    double a = hlo_elem_to_f64(t, (char *)x + i * (f ? 4 : 8)),
           b = hlo_elem_to_f64(t, (char *)y + i * (f ? 4 : 8)),
           got = hlo_elem_to_f64(t, (char *)r + i * (f ? 4 : 8));
    if (denormal(a) || denormal(b)) continue;
    double u = ulps(t, got, reference(op, (wide)a, (wide)b));
    if (u > worst) worst = u, at[0] = a, at[1] = b, is = got;
  }
  if (getenv("HLOSH_ULP") || worst > promised)
    print_message("%-24s %s  %6.2f of %g at %.17g %.17g: %.17g\n", name, f ? "f32" : "f64", worst,
                  promised, at[0], at[1], is);
  free(x);
  free(y);
  free(r);
  return worst <= promised;
}

#define VMATH(op, text, f32, f64) {HLO_##op, text, {f32, f64}},
static const struct {
  hlo_opcode op;
  const char *text;
  double promised[2];
} rows[] = {
#include "backends/emit/vmath.def"
};
#undef VMATH

static void as_promised(void **state) {
  (void)state;
  bool good = true;
  for (size_t k = 0; k < HS_COUNT(rows); k++) {
    good &= measure(rows[k].op, rows[k].text, HLO_F32, rows[k].promised[0]);
    good &= measure(rows[k].op, rows[k].text, HLO_F64, rows[k].promised[1]);
  }
  assert_true(good);
}

int main(void) {
  const struct CMUnitTest tests[] = {TEST(as_promised)};
  return cmocka_run_group_tests_name("emit_ulp", tests, NULL, NULL);
}

#else
#include "tests/unit/skip.h"

int main(void) { return skip_all("no LLVM in this build"); }
#endif
