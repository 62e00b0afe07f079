// vmath.c — bodies of the transcendental functions, written as LLVM values on scalars or vectors
// of float or double.
//
// Range reduction by Cody and Waite with fused multiply-add, then a polynomial; coefficients are
// those of Cephes (single) and fdlibm (double), but for tanh and erf, which have their own.
// Special values come out of the arithmetic or of selects, never of branches. What has no body
// here, and the arguments of sine and cosine that are too large for the reduction, goes through an
// out-of-line helper over the lanes that calls libm (`slow`). How far each may be off stands in
// vmath.def; tests/unit/backends/emit_ulp.c measures it.
#include "backends/emit/codegen.h"
#include "backends/emit/unit.h"

#include <math.h>
#include <stdio.h>

typedef LLVMValueRef val;
#define B (c->b)

static val k(val like, double v) { return cg_fp(LLVMTypeOf(like), v); }
static val ki(LLVMTypeRef t, i64 v) { return cg_int(t, v); }
static val fma3(cg *c, val a, val b, val d) {
  LLVMTypeRef t = LLVMTypeOf(a);
  return cg_intrinsic(c, "llvm.fma", 1, &t, 3, (val[]){a, b, d});
}
static val add(cg *c, val a, val b) { return LLVMBuildFAdd(B, a, b, ""); }
static val sub(cg *c, val a, val b) { return LLVMBuildFSub(B, a, b, ""); }
static val mul(cg *c, val a, val b) { return LLVMBuildFMul(B, a, b, ""); }
static val dvd(cg *c, val a, val b) { return LLVMBuildFDiv(B, a, b, ""); }
static val neg(cg *c, val a) { return LLVMBuildFNeg(B, a, ""); }
static val fabs_(cg *c, val a) { return cg_unary_intrinsic(c, "llvm.fabs", a); }
static val rint_(cg *c, val a) { return cg_unary_intrinsic(c, "llvm.rint", a); }
static val sel(cg *c, val p, val a, val b) { return LLVMBuildSelect(B, p, a, b, ""); }
static val fcmp(cg *c, LLVMRealPredicate p, val a, val b) { return LLVMBuildFCmp(B, p, a, b, ""); }
static val copysign_(cg *c, val a, val s) {
  LLVMTypeRef t = LLVMTypeOf(a);
  return cg_intrinsic(c, "llvm.copysign", 1, &t, 2, (val[]){a, s});
}
// Keeps NaN: the comparison is false.
static val at_most(cg *c, val x, double hi) {
  return sel(c, fcmp(c, LLVMRealOGT, x, k(x, hi)), k(x, hi), x);
}
static val at_least(cg *c, val x, double lo) {
  return sel(c, fcmp(c, LLVMRealOLT, x, k(x, lo)), k(x, lo), x);
}

static val horner(cg *c, val x, u32 n, const double *p) {  // p[0] is the highest coefficient
  val r = k(x, p[0]);
  for (u32 i = 1; i < n; i++) r = fma3(c, r, x, k(x, p[i]));
  return r;
}
#define POLY(x, ...) \
  horner(c, (x), (u32)(sizeof((double[]){__VA_ARGS__}) / sizeof(double)), (double[]){__VA_ARGS__})

static bool is_double(cg *c, val x) {
  LLVMTypeRef t = LLVMTypeOf(x);
  return cg_scalar_of(t) == c->f64;
}

// ---- through libm -------------------------------------------------------------------------------
// libm looks at the bits of denormals, which count as zero: the factor flushes them.
static const volatile float unit_f32 = 1;
static const volatile double unit_f64 = 1;
#define HELPER1(name, expr)                                     \
  static void name##_f32(float *xs, const float *ys, i64 n) {   \
    (void)ys;                                                   \
    for (i64 i = 0; i < n; i++) {                               \
      float x = xs[i] * unit_f32;                               \
      xs[i] = (float)(expr);                                    \
    }                                                           \
  }                                                             \
  static void name##_f64(double *xs, const double *ys, i64 n) { \
    (void)ys;                                                   \
    for (i64 i = 0; i < n; i++) {                               \
      double x = xs[i] * unit_f64;                              \
      xs[i] = (expr);                                           \
    }                                                           \
  }
#define HELPER2(name, fn, unit32, unit64)                                          \
  static void name##_f32(float *xs, const float *ys, i64 n) {                      \
    for (i64 i = 0; i < n; i++) xs[i] = fn##f(xs[i] * (unit32), ys[i] * (unit32)); \
  }                                                                                \
  static void name##_f64(double *xs, const double *ys, i64 n) {                    \
    for (i64 i = 0; i < n; i++) xs[i] = fn(xs[i] * (unit64), ys[i] * (unit64));    \
  }
// clang-format off
HELPER1(h_exp, exp(x)) HELPER1(h_log, log(x)) HELPER1(h_tanh, tanh(x)) HELPER1(h_erf, erf(x))
HELPER1(h_sin, sin(x)) HELPER1(h_cos, cos(x)) HELPER1(h_tan, tan(x)) HELPER1(h_expm1, expm1(x))
HELPER1(h_log1p, log1p(x)) HELPER1(h_cbrt, cbrt(x)) HELPER1(h_sinh, sinh(x))
HELPER1(h_cosh, cosh(x)) HELPER1(h_asin, asin(x)) HELPER1(h_acos, acos(x))
HELPER1(h_asinh, asinh(x)) HELPER1(h_acosh, acosh(x)) HELPER1(h_atanh, atanh(x))
HELPER2(h_pow, pow, unit_f32, unit_f64) HELPER2(h_atan2, atan2, unit_f32, unit_f64)
HELPER2(h_fmod, fmod, 1, 1)
// clang-format on

static const struct {
  hlo_opcode op;
  void (*f32)(float *, const float *, i64);
  void (*f64)(double *, const double *, i64);
} helpers[] = {
    {HLO_EXP, h_exp_f32, h_exp_f64},       {HLO_LOG, h_log_f32, h_log_f64},
    {HLO_TANH, h_tanh_f32, h_tanh_f64},    {HLO_ERF, h_erf_f32, h_erf_f64},
    {HLO_SIN, h_sin_f32, h_sin_f64},       {HLO_COSINE, h_cos_f32, h_cos_f64},
    {HLO_TAN, h_tan_f32, h_tan_f64},       {HLO_EXPM1, h_expm1_f32, h_expm1_f64},
    {HLO_LOG1P, h_log1p_f32, h_log1p_f64}, {HLO_CBRT, h_cbrt_f32, h_cbrt_f64},
    {HLO_SINH, h_sinh_f32, h_sinh_f64},    {HLO_COSH, h_cosh_f32, h_cosh_f64},
    {HLO_ASIN, h_asin_f32, h_asin_f64},    {HLO_ACOS, h_acos_f32, h_acos_f64},
    {HLO_ASINH, h_asinh_f32, h_asinh_f64}, {HLO_ACOSH, h_acosh_f32, h_acosh_f64},
    {HLO_ATANH, h_atanh_f32, h_atanh_f64}, {HLO_POWER, h_pow_f32, h_pow_f64},
    {HLO_ATAN2, h_atan2_f32, h_atan2_f64}, {HLO_REMAINDER, h_fmod_f32, h_fmod_f64},
};

// "hlosh.exponential.f32"
static void helper_symbol(size_t i, bool d, char out[EMIT_SYMBOL_BYTES]) {
  (void)snprintf(out, EMIT_SYMBOL_BYTES, "hlosh.%s.%s", hlo_op_text(helpers[i].op),
                 d ? "f64" : "f32");
}

void emit_each_helper(void (*with)(void *arg, const char *symbol, u64 address), void *arg) {
  char symbol[EMIT_SYMBOL_BYTES];
  for (size_t i = 0; i < HS_COUNT(helpers); i++) {
    helper_symbol(i, false, symbol);
    with(arg, symbol, (u64)(uintptr_t)helpers[i].f32);
    helper_symbol(i, true, symbol);
    with(arg, symbol, (u64)(uintptr_t)helpers[i].f64);
  }
}

static val call_helper(cg *c, hlo_opcode op, val x, val y) {
  if (c->target->math) return c->target->math(c, op, x, y);
  size_t h = 0;
  while (h < HS_COUNT(helpers) && helpers[h].op != op) h++;
  if (h == HS_COUNT(helpers)) return NULL;
  char symbol[EMIT_SYMBOL_BYTES];
  helper_symbol(h, is_double(c, x), symbol);
  LLVMTypeRef t = LLVMTypeOf(x), params[3] = {c->ptr, c->ptr, c->i64};
  LLVMTypeRef ft = LLVMFunctionType(LLVMVoidTypeInContext(c->ctx), params, 3, false);
  i64 n = cg_is_vector(t) ? (i64)LLVMGetVectorSize(t) : 1;
  val px = cg_slot(c, t), py = y ? cg_slot(c, t) : px, f = LLVMGetNamedFunction(c->mod, symbol);
  if (!f) f = LLVMAddFunction(c->mod, symbol, ft);
  LLVMSetAlignment(LLVMBuildStore(B, x, px), 8);
  if (y) LLVMSetAlignment(LLVMBuildStore(B, y, py), 8);
  (void)LLVMBuildCall2(B, ft, f, (val[]){px, py, LLVMConstInt(c->i64, (u64)n, false)}, 3, "");
  val r = LLVMBuildLoad2(B, t, px, "");
  LLVMSetAlignment(r, 8);
  return r;
}

// `fast`, with the helper's value in the lanes where `bad` is true. The helper is called only when
// there is such a lane.
static val slow(cg *c, hlo_opcode op, val bad, val x, val y, val fast) {
  LLVMTypeRef t = LLVMTypeOf(bad);
  val any = cg_is_vector(t) ? cg_unary_intrinsic(c, "llvm.vector.reduce.or", bad) : bad;
  LLVMBasicBlockRef here = c->ins[c->level],
                    rare = LLVMAppendBasicBlockInContext(c->ctx, c->fn, ""),
                    join = LLVMAppendBasicBlockInContext(c->ctx, c->fn, "");
  LLVMBuildCondBr(B, any, rare, join);
  c->ins[c->level] = rare;
  LLVMPositionBuilderAtEnd(B, rare);
  val r = sel(c, bad, call_helper(c, op, x, y), fast);
  LLVMBuildBr(B, join);
  c->ins[c->level] = join;
  LLVMPositionBuilderAtEnd(B, join);
  val phi = LLVMBuildPhi(B, LLVMTypeOf(x), "");
  LLVMAddIncoming(phi, (val[]){fast, r}, (LLVMBasicBlockRef[]){here, rare}, 2);
  return phi;
}

// ---- exponential and logarithm ------------------------------------------------------------------
// Whether vectors of this machine can be scaled by powers of two at once: AVX-512.
static bool scales_at_once(cg *c, LLVMTypeRef t) {
  if (c->vector_bytes != 64 || emit_vector_bytes() != 64 || !cg_is_vector(t)) return false;
  u32 bits = LLVMGetVectorSize(t) * (cg_scalar_of(t) == c->f64 ? 64 : 32);
  return bits >= 128 && (bits & (bits - 1)) == 0;
}

// Half of a vector's lanes, from lane `from` on; and two halves as one vector.
static val half_of(cg *c, val v, u32 from) {
  val m[64];
  u32 n = LLVMGetVectorSize(LLVMTypeOf(v)) / 2;
  for (u32 k = 0; k < n; k++) m[k] = LLVMConstInt(c->i32, from + k, false);
  return LLVMBuildShuffleVector(B, v, LLVMGetPoison(LLVMTypeOf(v)), LLVMConstVector(m, n), "");
}
static val joined(cg *c, val lo, val hi) {
  val m[64];
  u32 n = 2 * LLVMGetVectorSize(LLVMTypeOf(lo));
  for (u32 k = 0; k < n; k++) m[k] = LLVMConstInt(c->i32, k, false);
  return LLVMBuildShuffleVector(B, lo, hi, LLVMConstVector(m, n), "");
}

// An operation of AVX-512 on a vector: of 512 bits, or part of such a one.
static val at_once(cg *c, const char *name, u32 n, const val *args, val rounding) {
  LLVMTypeRef t = LLVMTypeOf(args[0]);
  bool d = is_double(c, args[0]);
  u32 lanes = LLVMGetVectorSize(t), bits = lanes * (d ? 64 : 32);
  if (bits > 512) {
    val low[4], high[4];
    for (u32 k = 0; k < n; k++)
      low[k] = half_of(c, args[k], 0), high[k] = half_of(c, args[k], lanes / 2);
    return joined(c, at_once(c, name, n, low, rounding), at_once(c, name, n, high, rounding));
  }
  char symbol[64];
  (void)snprintf(symbol, sizeof symbol, "llvm.x86.avx512.%s.p%c.%u", name, d ? 'd' : 's', bits);
  val all[7];
  memcpy(all, args, n * sizeof *args);
  all[n++] = args[0];  // of lanes that are masked: none
  all[n++] = LLVMConstAllOnes(LLVMIntTypeInContext(c->ctx, HS_MAX(lanes, 8)));
  if (rounding && bits == 512) all[n++] = rounding;
  return cg_intrinsic(c, symbol, 0, NULL, n, all);
}

static val scalef(cg *c, val y, val n) {
  return at_once(c, "mask.scalef", 2, (val[]){y, n}, LLVMConstInt(c->i32, 4, false));  // as set
}

// y * 2^n for a whole number n, which is not NaN unless y is. By the exponent bits it takes two
// factors, because n may leave the range of one.
static val scale2(cg *c, val y, val n) {
  if (scales_at_once(c, LLVMTypeOf(y))) return scalef(c, y, n);
  bool d = is_double(c, y);
  val nan = fcmp(c, LLVMRealUNO, n, n);
  n = sel(c, nan, k(n, 0), n);
  LLVMTypeRef it = cg_like(y, d ? c->i64 : c->i32);
  val i = LLVMBuildFPToSI(B, n, it, ""), h = LLVMBuildAShr(B, i, ki(it, 1), ""),
      g = LLVMBuildSub(B, i, h, "");
  i64 bias = d ? 1023 : 127, shift = d ? 52 : 23;
  val a =
      LLVMBuildBitCast(B, LLVMBuildShl(B, LLVMBuildAdd(B, h, ki(it, bias), ""), ki(it, shift), ""),
                       LLVMTypeOf(y), "");
  val b =
      LLVMBuildBitCast(B, LLVMBuildShl(B, LLVMBuildAdd(B, g, ki(it, bias), ""), ki(it, shift), ""),
                       LLVMTypeOf(y), "");
  return mul(c, mul(c, y, a), b);
}

static val exp_(cg *c, val x) {
  bool d = is_double(c, x);
  val t = d ? at_least(c, at_most(c, x, 710), -746) : at_least(c, at_most(c, x, 89), -104.5);
  val n = rint_(c, mul(c, t, k(x, 1.4426950408889634)));
  val r = d ? fma3(c, n, k(x, -1.90821492927058770002e-10),
                   fma3(c, n, k(x, -6.93147180369123816490e-01), t))
            : fma3(c, n, k(x, 2.12194440e-4), fma3(c, n, k(x, -0.693359375), t));
  val p;
  if (d) {
    p = POLY(r, 1.6059043836821613e-10, 2.0876756987868099e-09, 2.5052108385441719e-08,
             2.7557319223985891e-07, 2.7557319223985893e-06, 2.4801587301587302e-05,
             1.9841269841269841e-04, 1.3888888888888889e-03, 8.3333333333333333e-03,
             4.1666666666666664e-02, 1.6666666666666666e-01, 0.5);
  } else {
    p = POLY(r, 1.9875691500e-4, 1.3981999507e-3, 8.3334519073e-3, 4.1665795894e-2, 1.6666665459e-1,
             5.0000001201e-1);
  }
  return scale2(c, add(c, fma3(c, mul(c, r, r), p, r), k(x, 1)), n);
}

// Splits positive normal x into m * 2^e with sqrt(1/2) <= m < sqrt(2).
static void split(cg *c, val x, val *m, val *e) {
  bool d = is_double(c, x);
  LLVMTypeRef it = cg_like(x, d ? c->i64 : c->i32), ft = LLVMTypeOf(x);
  val bits = LLVMBuildBitCast(B, x, it, "");
  i64 half = d ? 0x3fe6a09e667f3bcd : 0x3f3504f3;
  val off = LLVMBuildSub(B, bits, ki(it, half), ""),
      ei = LLVMBuildAShr(B, off, ki(it, d ? 52 : 23), "");
  *e = LLVMBuildSIToFP(B, ei, ft, "");
  *m = LLVMBuildBitCast(B, LLVMBuildSub(B, bits, LLVMBuildShl(B, ei, ki(it, d ? 52 : 23), ""), ""),
                        ft, "");
}

static val log_(cg *c, val x) {
  bool d = is_double(c, x);
  val m, e, r, given = x;
  double tiny = d ? 2.2250738585072014e-308 : 1.17549435e-38;
  val small = fcmp(c, LLVMRealOLT, x, k(x, tiny));
  if (c->keep_denormals) x = sel(c, small, mul(c, x, k(x, 0x1p54)), x);
  split(c, x, &m, &e);
  if (c->keep_denormals) e = sel(c, small, sub(c, e, k(e, 54)), e);
  val f = sub(c, m, k(x, 1));
  if (d) {
    val s = dvd(c, f, add(c, f, k(x, 2))), z = mul(c, s, s), hf = mul(c, mul(c, f, f), k(x, 0.5));
    val p = mul(c, z,
                POLY(z, 1.479819860511658591e-01, 1.531383769920937332e-01,
                     1.818357216161805012e-01, 2.222219843214978396e-01, 2.857142874366239149e-01,
                     3.999999999940941908e-01, 6.666666666666735130e-01));
    val t = fma3(c, e, k(x, 1.90821492927058770002e-10), mul(c, s, add(c, hf, p)));
    r = sub(c, mul(c, e, k(x, 6.93147180369123816490e-01)), sub(c, sub(c, hf, t), f));
  } else {
    val z = mul(c, f, f);
    val p = mul(c, mul(c, f, z),
                POLY(f, 7.0376836292e-2, -1.1514610310e-1, 1.1676998740e-1, -1.2420140846e-1,
                     1.4249322787e-1, -1.6668057665e-1, 2.0000714765e-1, -2.4999993993e-1,
                     3.3333331174e-1));
    p = fma3(c, e, k(x, -2.12194440e-4), p);
    p = fma3(c, z, k(x, -0.5), p);
    r = fma3(c, e, k(x, 0.693359375), add(c, f, p));
  }
  x = given;
  if (c->keep_denormals) {
    r = sel(c, fcmp(c, LLVMRealOEQ, x, k(x, 0)), k(x, -INFINITY), r);
    r = sel(c, fcmp(c, LLVMRealOLT, x, k(x, 0)), k(x, NAN), r);
  } else {  // zero, and denormals, which count as zero
    r = sel(c, small, k(x, -INFINITY), r);
    r = sel(c, fcmp(c, LLVMRealOLE, x, k(x, -tiny)), k(x, NAN), r);
  }
  return sel(c, fcmp(c, LLVMRealULT, x, k(x, INFINITY)), sel(c, fcmp(c, LLVMRealUNO, x, x), x, r),
             x);
}

static val expm1_(cg *c, val x) {
  bool d = is_double(c, x);
  val p = d ? POLY(x, 7.6471637318198164e-13, 1.1470745597729725e-11, 1.6059043836821613e-10,
                   2.0876756987868099e-09, 2.5052108385441719e-08, 2.7557319223985891e-07,
                   2.7557319223985893e-06, 2.4801587301587302e-05, 1.9841269841269841e-04,
                   1.3888888888888889e-03, 8.3333333333333333e-03, 4.1666666666666664e-02,
                   1.6666666666666666e-01, 0.5)
            : POLY(x, 2.7557319e-06, 2.4801587e-05, 1.9841270e-04, 1.3888889e-03, 8.3333333e-03,
                   4.1666667e-02, 1.6666667e-01, 0.5);
  val small = fma3(c, mul(c, x, x), p, x), big = sub(c, exp_(c, x), k(x, 1));
  return sel(c, fcmp(c, LLVMRealOLT, fabs_(c, x), k(x, 0.5)),
             sel(c, fcmp(c, LLVMRealOEQ, x, k(x, 0)), x, small), big);
}

// log(1 + x), corrected to first order for the rounding error of 1 + x
static val log1p_(cg *c, val x) {
  val u = add(c, x, k(x, 1)), l = log_(c, u), lost = sub(c, x, sub(c, u, k(x, 1)));
  val r = add(c, l, dvd(c, lost, u));
  val special =
      LLVMBuildOr(B, fcmp(c, LLVMRealOEQ, u, k(x, 0)), fcmp(c, LLVMRealOEQ, u, k(x, INFINITY)), "");
  r = sel(c, special, l, r);
  return sel(c, fcmp(c, LLVMRealOEQ, x, k(x, 0)), x, r);
}

static val logistic(cg *c, val x) { return dvd(c, k(x, 1), add(c, k(x, 1), exp_(c, neg(c, x)))); }

// Odd in x: a polynomial near zero; 1 - 2 / (exp(2|x|) + 1) farther out, where nothing cancels.
static val tanh_(cg *c, val x) {
  bool d = is_double(c, x);
  val a = at_most(c, fabs_(c, x), d ? 20 : 9.5), z = mul(c, x, x), p;
  if (d)
    p = POLY(z, -2.0289800612514075e-05, 8.465718640250347e-05, -0.00023435314845645768,
             0.0005888400422537283, -0.001455642111220305, 0.0035921078811045905,
             -0.00886323420601293, 0.02186948848524601, -0.05396825396724726, 0.13333333333332556,
             -0.3333333333333333);
  else
    p = POLY(z, -0.0062039600061656545, 0.02102466241850689, -0.05384164147081092,
             0.1333249287071327, -0.33333315113720774);
  val near = fma3(c, mul(c, p, z), x, x),
      far = sub(c, k(x, 1), dvd(c, k(x, 2), add(c, exp_(c, add(c, a, a)), k(x, 1))));
  return copysign_(c, sel(c, fcmp(c, LLVMRealOLT, a, k(x, 0.55)), near, far), x);  // of -0 too
}

// Single precision: a polynomial near zero; 1 - p(|x|)^8 farther out, where p is fitted to the
// eighth root of erfc.
static val erf_(cg *c, val x) {
  val a = at_most(c, fabs_(c, x), 4), z = mul(c, x, x);
  val p =
      POLY(z, -0.000590795651, 0.00497683138, -0.0267554354, 0.112815075, -0.37612465, 0.128379151);
  val q = POLY(a, 0.000137571042, -0.00234363647, 0.0123999678, -0.0102328015, -0.0627847165,
               -0.144217968, 1.0006218);
  q = mul(c, q, q);
  q = mul(c, q, q);
  val far = fma3(c, neg(c, q), q, k(x, 1));
  return sel(c, fcmp(c, LLVMRealOLT, a, k(x, 0.93)), fma3(c, p, x, x), copysign_(c, far, x));
}

// ---- trigonometry -------------------------------------------------------------------------------
// Sine (quadrant 0) or cosine (quadrant 1) of x.
static val sin_cos(cg *c, val x, bool cosine) {
  bool d = is_double(c, x);
  LLVMTypeRef it = cg_like(x, d ? c->i64 : c->i32);
  double limit = d ? 1e5 : 30000;
  val big = fcmp(c, LLVMRealOGE, fabs_(c, x), k(x, limit));
  val t = sel(c, big, k(x, 0), x), n = rint_(c, mul(c, t, k(x, 0.63661977236758134308)));
  val r = fma3(c, n, k(x, d ? -1.57079632673412561417e+00 : -1.5703125), t);
  r = fma3(c, n, k(x, d ? -6.07710050630396597660e-11 : -4.83751296997e-4), r);
  r = fma3(c, n, k(x, d ? -2.02226624871116645580e-21 : -7.54978995489e-8), r);
  if (d) r = fma3(c, n, k(x, -8.47842766036889956997e-32), r);
  val z = mul(c, r, r), s, co;
  if (d) {
    s = POLY(z, 1.58969099521155010221e-10, -2.50507602534068634195e-08, 2.75573137070700676789e-06,
             -1.98412698298579493134e-04, 8.33333333332248946124e-03, -1.66666666666666324348e-01);
    co = POLY(z, -1.13596475577881948265e-11, 2.08757232129817482790e-09,
              -2.75573143513906633035e-07, 2.48015872894767294178e-05, -1.38888888888741095749e-03,
              4.16666666666666019037e-02);
  } else {
    s = POLY(z, -1.9515295891e-4, 8.3321608736e-3, -1.6666654611e-1);
    co = POLY(z, 2.443315711809948e-5, -1.388731625493765e-3, 4.166664568298827e-2);
  }
  s = fma3(c, mul(c, r, z), s, r);
  co = fma3(c, mul(c, z, z), co, fma3(c, z, k(x, -0.5), k(x, 1)));
  val nan = fcmp(c, LLVMRealUNO, n, n);
  val q = LLVMBuildFPToSI(B, sel(c, nan, k(x, 0), n), it, "");
  if (cosine) q = LLVMBuildAdd(B, q, ki(it, 1), "");
  val odd = LLVMBuildICmp(B, LLVMIntNE, LLVMBuildAnd(B, q, ki(it, 1), ""), ki(it, 0), "");
  val flip = LLVMBuildICmp(B, LLVMIntNE, LLVMBuildAnd(B, q, ki(it, 2), ""), ki(it, 0), "");
  val y = sel(c, odd, co, s);
  y = sel(c, flip, neg(c, y), y);
  if (!cosine) y = sel(c, fcmp(c, LLVMRealOEQ, x, k(x, 0)), x, y);  // the sign of -0
  return slow(c, cosine ? HLO_COSINE : HLO_SIN, big, x, NULL, y);
}

static val atan2_(cg *c, val y, val x) {  // single precision
  val ax = fabs_(c, x), ay = fabs_(c, y), swap = fcmp(c, LLVMRealOGT, ay, ax);
  val hi = sel(c, swap, ay, ax), lo = sel(c, swap, ax, ay);
  val q = dvd(c, lo, hi);
  q = sel(c, fcmp(c, LLVMRealOEQ, hi, k(x, 0)), k(x, 0), q);
  q = sel(c, fcmp(c, LLVMRealOEQ, lo, k(x, INFINITY)), k(x, 1), q);
  val far = fcmp(c, LLVMRealOGT, q, k(x, 0.4142135623730950));
  val w = sel(c, far, dvd(c, sub(c, q, k(x, 1)), add(c, q, k(x, 1))), q), z = mul(c, w, w);
  val p = POLY(z, 8.05374449538e-2, -1.38776856032e-1, 1.99777106478e-1, -3.33329491539e-1);
  val r = fma3(c, mul(c, p, z), w, w);
  r = sel(c, far, add(c, r, k(x, 0.78539816339744830962)), r);
  r = sel(c, swap, sub(c, k(x, 1.57079632679489661923), r), r);
  val left = fcmp(c, LLVMRealOLT, copysign_(c, k(x, 1), x), k(x, 0));
  r = sel(c, left, sub(c, k(x, 3.14159265358979323846), r), r);
  r = copysign_(c, r, y);
  return sel(c, fcmp(c, LLVMRealUNO, x, y), add(c, x, y), r);
}

// ---- powers and roots ---------------------------------------------------------------------------
// Sixteen floats by the low bits of sixteen numbers.
static val look_up(cg *c, const float *table, val index) {
  val v[16], args[2];
  for (int k = 0; k < 16; k++) v[k] = LLVMConstReal(c->f32, (double)table[k]);
  args[0] = LLVMConstVector(v, 16);
  args[1] = index;
  return cg_intrinsic(c, "llvm.x86.avx512.permvar.sf.512", 0, NULL, 2, args);
}

// For each of 16 ranges of m from 0.7 to 1.4: the reciprocal of its middle, and minus the binary
// logarithm of that in two parts, the first short enough that adding an exponent is exact. The
// range around 1 has 1 and 0.
#define POW_FROM 0x3f330000
static void pow_tables(float *inverse, float *high, float *low) {
  for (u32 k = 0; k < 16; k++) {
    u32 bits = POW_FROM + (k << 19) + (1 << 18);
    float mid;
    memcpy(&mid, &bits, sizeof mid);
    inverse[k] = fabsf(mid - 1) < 0.01f ? 1 : 1 / mid;
    double l = -log2((double)inverse[k]);
    high[k] = (float)(rint(l * 0x1p14) * 0x1p-14);
    low[k] = (float)(l - (double)high[k]);
  }
}

// 2^(y log2 x) of 16 positive normal floats. The logarithm and the product are sums of two floats:
// the error of a large exponent is that of its last bits.
static val pow_positive(cg *c, val x, val y) {
  float inverse[16], high[16], low[16];
  pow_tables(inverse, high, low);
  LLVMTypeRef it = cg_like(x, c->i32), ft = LLVMTypeOf(x);
  val bits = LLVMBuildBitCast(B, x, it, ""), off = LLVMBuildSub(B, bits, ki(it, POW_FROM), ""),
      index = LLVMBuildLShr(B, off, ki(it, 19), ""), e = LLVMBuildAShr(B, off, ki(it, 23), "");
  val m =
      LLVMBuildBitCast(B, LLVMBuildSub(B, bits, LLVMBuildShl(B, e, ki(it, 23), ""), ""), ft, "");
  val by = look_up(c, inverse, index), p = mul(c, m, by), rest = fma3(c, m, by, neg(c, p)),
      r = sub(c, p, k(x, 1));
  const double log2e = 1.4426950408889634;
  val a = add(c, LLVMBuildSIToFP(B, e, ft, ""), look_up(c, high, index)),
      b = mul(c, r, k(x, (double)(float)log2e)), sum = add(c, a, b),
      lost = sub(c, b, sub(c, sum, a));
  val q = POLY(r, 0.20609929, -0.24044917, 0.28853901, -0.36067376, 0.48089835, -0.72134752);
  val small = fma3(c, r, k(x, (double)(float)log2e), neg(c, b));
  small = fma3(c, r, k(x, log2e - (double)(float)log2e), small);
  small = fma3(c, fma3(c, neg(c, rest), r, rest), k(x, log2e), small);
  small = add(c, small, look_up(c, low, index));
  small = add(c, fma3(c, mul(c, r, r), q, small), lost);
  val l = add(c, sum, small);
  small = sub(c, small, sub(c, l, sum));
  val t = mul(c, y, l), far = fcmp(c, LLVMRealUGE, fabs_(c, t), k(x, 200));
  val tail = sel(c, far, k(x, 0), fma3(c, y, small, fma3(c, y, l, neg(c, t))));
  t = at_least(c, at_most(c, t, 200), -200);
  val n = rint_(c, t), f = add(c, sub(c, t, n), tail);
  val g = POLY(f, 1.5353362e-04, 1.3398874e-03, 9.6184373e-03, 5.5503325e-02, 2.4022651e-01,
               6.9314718e-01);
  return scale2(c, fma3(c, f, g, k(x, 1)), n);
}

// Single precision: of vectors of 16 as above, else through double: exp(y log|x|); then zeros and
// infinities, and what cg_power_cases adds.
static val pow_(cg *c, val x, val y) {
  LLVMTypeRef dt = cg_like(x, c->f64), ft = LLVMTypeOf(x);
  val r, ax = fabs_(c, x);
  if (!c->keep_denormals && scales_at_once(c, ft) && LLVMGetVectorSize(ft) == 16) {
    val zero = fcmp(c, LLVMRealOEQ, ax, k(x, 0)),
        end = LLVMBuildOr(B, zero, fcmp(c, LLVMRealOEQ, ax, k(x, INFINITY)), ""),
        up = LLVMBuildXor(B, zero, fcmp(c, LLVMRealOGT, y, k(x, 0)), "");
    r = sel(c, end, sel(c, up, k(x, INFINITY), k(x, 0)), pow_positive(c, ax, y));
    r = sel(c, fcmp(c, LLVMRealUNO, x, y), add(c, x, y), r);
  } else {
    val xd = LLVMBuildFPExt(B, ax, dt, ""), yd = LLVMBuildFPExt(B, y, dt, "");
    r = LLVMBuildFPTrunc(B, exp_(c, mul(c, yd, log_(c, xd))), ft, "");
  }
  return cg_power_cases(c, x, y, r);
}

val cg_power_cases(cg *c, val x, val y, val r) {
  val whole = fcmp(c, LLVMRealOEQ, rint_(c, y), y), half = mul(c, y, k(y, 0.5));
  val odd = LLVMBuildAnd(B, whole, fcmp(c, LLVMRealUNE, rint_(c, half), half), "");
  odd = LLVMBuildAnd(B, odd, fcmp(c, LLVMRealOLT, fabs_(c, y), k(y, INFINITY)), "");
  val minus = fcmp(c, LLVMRealOLT, copysign_(c, k(x, 1), x), k(x, 0));
  val unit = fcmp(c, LLVMRealOEQ, fabs_(c, x), k(x, 1));
  r = sel(c, LLVMBuildAnd(B, unit, fcmp(c, LLVMRealORD, y, y), ""), k(x, 1), r);
  r = sel(c, LLVMBuildAnd(B, minus, odd, ""), neg(c, r), r);
  val bad = LLVMBuildAnd(B, fcmp(c, LLVMRealOLT, x, k(x, 0)), LLVMBuildNot(B, whole, ""), "");
  bad = LLVMBuildAnd(B, bad, fcmp(c, LLVMRealOGT, x, k(x, -INFINITY)), "");
  bad = LLVMBuildAnd(B, bad, fcmp(c, LLVMRealORD, y, y), "");
  r = sel(c, bad, k(x, NAN), r);
  val one = LLVMBuildOr(B, fcmp(c, LLVMRealOEQ, y, k(y, 0)), fcmp(c, LLVMRealOEQ, x, k(x, 1)), "");
  return sel(c, one, k(x, 1), r);
}

// single: an estimate of 14 bits and a Newton step, whose NaN at 0 and infinity is not taken
static val rsqrt_(cg *c, val x) {
  if (is_double(c, x) || !scales_at_once(c, LLVMTypeOf(x)))
    return dvd(c, k(x, 1), cg_unary_intrinsic(c, "llvm.sqrt", x));
  val y = at_once(c, "rsqrt14", 1, &x, NULL);
  val e = fma3(c, neg(c, mul(c, x, y)), y, k(x, 1));
  val better = fma3(c, mul(c, y, k(x, 0.5)), e, y);
  return sel(c, fcmp(c, LLVMRealORD, e, e), better, y);
}

// single: bits / 3 as a first guess, then three Newton steps
static val cbrt_(cg *c, val x) {
  LLVMTypeRef it = cg_like(x, c->i32);
  val a = fabs_(c, x), t = LLVMBuildBitCast(B, a, it, "");
  t = LLVMBuildBitCast(B,
                       LLVMBuildAdd(B, LLVMBuildUDiv(B, t, ki(it, 3), ""), ki(it, 709921077), ""),
                       LLVMTypeOf(x), "");
  for (int i = 0; i < 3; i++) {
    val q = dvd(c, a, mul(c, t, t));
    t = fma3(c, sub(c, q, t), k(x, 1.0 / 3), t);
  }
  t = copysign_(c, t, x);
  val same =
      LLVMBuildOr(B, fcmp(c, LLVMRealUEQ, a, k(x, INFINITY)), fcmp(c, LLVMRealOEQ, a, k(x, 0)), "");
  return sel(c, same, x, t);
}

val cg_math(cg *c, hlo_opcode op, hlo_dtype t, val x, val y) {
  bool f = t == HLO_F32;
  switch (op) {
  case HLO_EXP: return exp_(c, x);
  case HLO_LOG: return log_(c, x);
  case HLO_EXPM1: return expm1_(c, x);
  case HLO_LOG1P: return log1p_(c, x);
  case HLO_LOGISTIC: return logistic(c, x);
  case HLO_TANH: return tanh_(c, x);
  case HLO_SIN: return sin_cos(c, x, false);
  case HLO_COSINE: return sin_cos(c, x, true);
  case HLO_RSQRT: return rsqrt_(c, x);
  case HLO_ERF: return f ? erf_(c, x) : call_helper(c, op, x, NULL);
  case HLO_CBRT: return f && !c->keep_denormals ? cbrt_(c, x) : call_helper(c, op, x, NULL);
  case HLO_ATAN2: return f ? atan2_(c, x, y) : call_helper(c, op, x, y);
  case HLO_POWER: return f ? pow_(c, x, y) : call_helper(c, op, x, y);
  default: return call_helper(c, op, x, y);
  }
}
