// ew.c — kernels of elementwise operations: one loop per operation and host type, and the tables
// that pick the loop. ew_run.c applies them.
//
// Kernels work on contiguous blocks; out may be one of the inputs. The host types are the C types
// of the wide formats; narrow floats are computed as f32 and rounded after each operation, integers
// below a byte as 8-bit ones and cut to their width afterwards. Integer arithmetic wraps, division
// by zero gives all ones and a remainder by zero the dividend, a shift by the width or more shifts
// everything out: the rules of XLA's evaluator (hlo_evaluator_typed_visitor.h) and of its CPU
// backend (elemental_ir_emitter.cc).
#include <complex.h>
#include <math.h>
#include "core/eval/ops.h"
#include "core/eval/fast.h"

typedef struct c64 {
  float re, im;
} c64;
typedef struct c128 {
  double re, im;
} c128;
enum {
  K_NONE,
  K_PRED,
  K_S8,
  K_S16,
  K_S32,
  K_S64,
  K_U8,
  K_U16,
  K_U32,
  K_U64,
  K_F32,
  K_F64,
  K_C64,
  K_C128,
  K_COUNT
};

// S(kind, C type, unsigned type wide enough to wrap without promotion), likewise U; F(kind, C type,
// libm suffix).
#define SIGNED_TYPES(X) X(S8, i8, u32) X(S16, i16, u32) X(S32, i32, u32) X(S64, i64, u64)
#define UNSIGNED_TYPES(X) X(U8, u8, u32) X(U16, u16, u32) X(U32, u32, u32) X(U64, u64, u64)
#define INT_TYPES(X) \
  SIGNED_TYPES(X)    \
  UNSIGNED_TYPES(X)
#define REAL_TYPES(X) \
  INT_TYPES(X)        \
  X(F32, float, u32) X(F64, double, u64)

#define BINARY(name, R, T, expr)                              \
  static void name(void *out, const void *const *in, i64 n) { \
    R *r = out;                                               \
    const T *pa = in[0], *pb = in[1];                         \
    LOOP for (i64 i = 0; i < n; i++) {                        \
      T a = pa[i], b = pb[i];                                 \
      r[i] = (R)(expr);                                       \
    }                                                         \
  }
#define UNARY(name, R, T, expr)                               \
  static void name(void *out, const void *const *in, i64 n) { \
    R *r = out;                                               \
    const T *pa = in[0];                                      \
    LOOP for (i64 i = 0; i < n; i++) {                        \
      T a = pa[i];                                            \
      r[i] = (R)(expr);                                       \
    }                                                         \
  }

// ---- integers -----------------------------------------------------------------------------------
// clang-format off
#define X(K, T, W)                                                                                 \
  BINARY(add_##K, T, T, (W)a + (W)b) BINARY(sub_##K, T, T, (W)a - (W)b)                            \
  BINARY(mul_##K, T, T, (W)a * (W)b)                                                               \
  BINARY(and_##K, T, T, a & b) BINARY(or_##K, T, T, a | b) BINARY(xor_##K, T, T, a ^ b)            \
  BINARY(max_##K, T, T, a > b ? a : b) BINARY(min_##K, T, T, a < b ? a : b)                        \
  BINARY(shl_##K, T, T, (u64)b >= 8 * sizeof(T) ? 0 : (W)a << (W)b)                                \
  UNARY(not_##K, T, T, ~a) UNARY(neg_##K, T, T, 0 - (W)a)                                          \
  UNARY(popcnt_##K, T, T, __builtin_popcountll((u64)a & (~(u64)0 >> (64 - 8 * sizeof(T)))))
// clang-format on
INT_TYPES(X)
#undef X
// clang-format off
#define X(K, T, W)                                                                                 \
  BINARY(div_##K, T, T, b == 0 ? (T)-1 : b == -1 ? (T)(0 - (W)a) : (T)(a / b))                     \
  BINARY(rem_##K, T, T, b == 0 ? a : b == -1 ? (T)0 : (T)(a % b))                                  \
  BINARY(sra_##K, T, T, (u64)b >= 8 * sizeof(T) ? (a < 0 ? -1 : 0) : a >> b)                       \
  UNARY(abs_##K, T, T, a < 0 ? 0 - (W)a : (W)a) UNARY(sign_##K, T, T, (a > 0) - (a < 0))
// clang-format on
SIGNED_TYPES(X)
#undef X
// clang-format off
#define X(K, T, W)                                                                                 \
  BINARY(div_##K, T, T, b == 0 ? (T) ~(T)0 : (T)(a / b))                                           \
  BINARY(rem_##K, T, T, b == 0 ? a : (T)(a % b))                                                   \
  UNARY(abs_##K, T, T, a) UNARY(sign_##K, T, T, a > 0)                                             \
  BINARY(sra_##K, T, T, (u64)b >= 8 * sizeof(T) ? ((a >> (8 * sizeof(T) - 1)) ? ~(W)0 : 0) :       \
         (W)(a >> b) | ((a >> (8 * sizeof(T) - 1)) && b ? ~(W)0 << (8 * sizeof(T) - b) : 0))
// clang-format on
UNSIGNED_TYPES(X)
#undef X
// Logical right shift and leading zeros take the bits as unsigned.
// clang-format off
#define BITS(K, T, V)                                                                              \
  BINARY(shr_##K, T, T, (u64)b >= 8 * sizeof(T) ? 0 : (V)a >> (V)b)                                \
  UNARY(clz_##K, T, T, (V)a == 0 ? (int)(8 * sizeof(T))                                            \
                                 : __builtin_clzll((u64)(V)a) - (int)(64 - 8 * sizeof(T)))
BITS(S8, i8, u8) BITS(S16, i16, u16) BITS(S32, i32, u32) BITS(S64, i64, u64) BITS(U8, u8, u8)
BITS(U16, u16, u16) BITS(U32, u32, u32) BITS(U64, u64, u64)
// clang-format on
#define MULHI(K, T, L) BINARY(mulhi_##K, T, T, (L)a *(L)b >> (8 * sizeof(T)))
// clang-format off
MULHI(S8, i8, i32) MULHI(S16, i16, i32) MULHI(S32, i32, i64) MULHI(S64, i64, __int128)
MULHI(U8, u8, u32) MULHI(U16, u16, u32) MULHI(U32, u32, u64) MULHI(U64, u64, unsigned __int128)
// clang-format on

// As XLA does it: six steps of squaring, whatever the width, so that exponents count modulo 64.
static u64 ipow(u64 base, u64 e) {
  u64 r = 1;
  for (e &= 63; e; e >>= 1, base *= base)
    if (e & 1) r *= base;
  return r;
}
// Negative exponents: 1 and -1 have powers, everything else truncates to 0.
static i64 spow(i64 a, i64 b) {
  return b >= 0 ? (i64)ipow((u64)a, (u64)b) : a == 1 ? 1 : a == -1 ? (b & 1 ? -1 : 1) : 0;
}
#define X(K, T, W) BINARY(pow_##K, T, T, spow((i64)a, (i64)b))
SIGNED_TYPES(X)
#undef X
// XLA takes unsigned operands for signed ones here: exponents with the top bit set are negative.
static i64 sign_extend(u64 v, size_t bytes) {
  return (i64)(v << (64 - 8 * bytes)) >> (64 - 8 * bytes);
}
#define X(K, T, W) BINARY(pow_##K, T, T, spow(sign_extend(a, sizeof(T)), sign_extend(b, sizeof(T))))
UNSIGNED_TYPES(X)
#undef X
// clang-format off
BINARY(and_PRED, u8, u8, a & b) BINARY(or_PRED, u8, u8, a | b) BINARY(xor_PRED, u8, u8, a ^ b)
UNARY(not_PRED, u8, u8, a ^ 1) UNARY(copy_PRED, u8, u8, a)

// ---- floats -------------------------------------------------------------------------------------
// The C library looks at the bits of its arguments, so it would see denormals that arithmetic takes
// for zero. A multiplication by one settles it: it flushes where the mode says so. A remainder is
// left as it is: it is exact.
static const volatile float unit_float = 1;
static const volatile double unit_double = 1;
// clang-format on
#define LIBM(name, T, expr)                                   \
  static void name(void *out, const void *const *in, i64 n) { \
    T *r = out, one = unit_##T;                               \
    const T *pa = in[0];                                      \
    LOOP for (i64 i = 0; i < n; i++) {                        \
      T a = pa[i] * one;                                      \
      r[i] = (T)(expr);                                       \
    }                                                         \
  }
#define LIBM2(name, T, expr)                                  \
  static void name(void *out, const void *const *in, i64 n) { \
    T *r = out, one = unit_##T;                               \
    const T *pa = in[0], *pb = in[1];                         \
    LOOP for (i64 i = 0; i < n; i++) {                        \
      T a = pa[i] * one, b = pb[i] * one;                     \
      r[i] = (T)(expr);                                       \
    }                                                         \
  }
// clang-format off
#define FLOATS(K, T, f)                                                                            \
  BINARY(add_##K, T, T, a + b) BINARY(sub_##K, T, T, a - b) BINARY(mul_##K, T, T, a * b)           \
  BINARY(div_##K, T, T, a / b)                                                                     \
  BINARY(rem_##K, T, T, fmod##f(a, b)) LIBM2(pow_##K, T, pow##f(a, b))                             \
  LIBM2(atan2_##K, T, atan2##f(a, b))                                                              \
  BINARY(max_##K, T, T, b > a || b != b ? b : a) BINARY(min_##K, T, T, b < a || b != b ? b : a)    \
  UNARY(abs_##K, T, T, fabs##f(a)) UNARY(neg_##K, T, T, -a)                                        \
  UNARY(sign_##K, T, T, a > 0 ? 1 : a < 0 ? -1 : a * 0)                                            \
  UNARY(floor_##K, T, T, floor##f(a)) UNARY(ceil_##K, T, T, ceil##f(a))                            \
  UNARY(rne_##K, T, T, nearbyint##f(a))                                                            \
  UNARY(rafz_##K, T, T, round((double)a)) LIBM(exp_##K, T, exp##f(a))                       \
  LIBM(expm1_##K, T, expm1##f(a))                                                              \
  LIBM(log_##K, T, log##f(a)) LIBM(log1p_##K, T, log1p##f(a))                              \
  LIBM(tanh_##K, T, tanh##f(a))                                                                \
  LIBM(logistic_##K, T, 1 / (1 + exp##f(-a))) UNARY(sqrt_##K, T, T, sqrt##f(a))                \
  UNARY(rsqrt_##K, T, T, 1 / sqrt##f(a))                                                           \
  LIBM(cbrt_##K, T, cbrt##f(a)) LIBM(sin_##K, T, sin##f(a))                                \
  LIBM(cos_##K, T, cos##f(a))                                                                  \
  LIBM(tan_##K, T, tan##f(a)) LIBM(erf_##K, T, erf##f(a))                                  \
  LIBM(acos_##K, T, acos##f(a))                                                                \
  LIBM(asin_##K, T, asin##f(a)) LIBM(acosh_##K, T, acosh##f(a))                            \
  LIBM(asinh_##K, T, asinh##f(a))                                                              \
  LIBM(atanh_##K, T, atanh##f(a)) LIBM(sinh_##K, T, sinh##f(a))                            \
  LIBM(cosh_##K, T, cosh##f(a))                                                                \
  UNARY(finite_##K, u8, T, a - a == 0) UNARY(real_##K, T, T, a)                                    \
  UNARY(imag_##K, T, T, ((void)a, (T)0))
// clang-format on
FLOATS(F32, float, f)
FLOATS(F64, double, )

// ---- complex: sums and products in the type itself, as XLA's emitter; the rest of c64 in double,
// rounded once. Division recovers infinities as annex G of the C standard says, which is what XLA
// does; exp, sin and cos are the textbook products, also where a factor is infinite. -------------
static double _Complex zc(double re, double im) {
  union {
    double v[2];
    double _Complex z;
  } u = {.v = {re, im}};
  return u.z;
}
static double _Complex zmul(double _Complex a, double _Complex b) {
  double x = creal(a), y = cimag(a), u = creal(b), v = cimag(b);
  return zc(x * u - y * v, x * v + y * u);
}
static double _Complex zexp(double _Complex a) {
  double x = creal(a), y = cimag(a), e = exp(x);
  return zc(e * cos(y), y == 0 ? 0 : e * sin(y));
}
static double _Complex zsin(double _Complex a) {
  double x = creal(a), y = cimag(a);
  return zc(sin(x) * cosh(y), cos(x) * sinh(y));
}
static double _Complex zcos(double _Complex a) {
  double x = creal(a), y = cimag(a);
  return zc(cos(x) * cosh(y), -(sin(x) * sinh(y)));
}
// exp(z) - 1 without cancellation near zero, and its inverse.
static double _Complex zexpm1(double _Complex a) {
  double x = creal(a), y = cimag(a), s = sin(y / 2), e = expm1(x);
  return zc(e * cos(y) - 2 * s * s, y == 0 ? y : exp(x) * sin(y));
}
static double _Complex zlog1p(double _Complex a) {
  double x = creal(a), y = cimag(a),
         h = fabs(x) < 0.5 && fabs(y) < 0.5 ? 0.5 * log1p(x * (2 + x) + y * y)
                                            : log(hypot(1 + x, y));
  return zc(h, atan2(y, 1 + x));
}
static double _Complex zsign(double _Complex a) {
  double m = cabs(a);
  return m == 0 ? a : m != m ? zc(NAN, NAN) : zc(creal(a) / m, cimag(a) / m);
}
static double _Complex zpow(double _Complex a, double _Complex b) {
  if (creal(a) == 0 && cimag(a) == 0) return creal(b) == 0 && cimag(b) == 0 ? zc(1, 0) : zc(0, 0);
  return zexp(zmul(b, clog(a)));
}
// The angle of (b, a), continued to complex arguments: -i log((b + i a) / sqrt(b b + a a)), as XLA
// expands it. Where a is 0 the quotient is 1 or -1; what rounding would leave of its imaginary part
// chose between pi and -pi. Of an imaginary b the root lies on its cut: the side is that of the
// zero that b b + a a has as its imaginary part.
static double _Complex zatan2(double _Complex a, double _Complex b) {
  double u = creal(b), v = cimag(b);
  if (a == 0 && v != 0 && isfinite(u) && isfinite(v)) {
    double side = creal(a) * cimag(a) + u * v;
    return (u == 0 ? !signbit(side) == (v < 0) : u < 0) ? M_PI : 0;
  }
  double _Complex sum = zc(creal(b) - cimag(a), cimag(b) + creal(a)),
                  z = clog(sum / csqrt(zmul(a, a) + zmul(b, b)));
  return zc(cimag(z), -creal(z));
}
static double _Complex zlogistic(double _Complex a) { return 1 / (1 + zexp(-a)); }
static double _Complex zcbrt(double _Complex a) { return zpow(a, zc(1.0 / 3, 0)); }

// max * sqrt(1 + (min / max)^2) in the type itself, as XLA computes it.
#define CABS(T, f)                                                                           \
  static T T##_abs(T re, T im) {                                                             \
    T a = fabs##f(re), b = fabs##f(im), hi = a > b ? a : b, lo = a > b ? b : a, q = lo / hi; \
    if (isinf(hi) || isinf(lo)) return (T)INFINITY;                                          \
    return hi == 0 ? lo : hi * sqrt##f(1 + q * q);                                           \
  }
CABS(float, f)
CABS(double, )

#define ZBINARY(name, C, F, expr)                                             \
  static void name(void *out, const void *const *in, i64 n) {                 \
    C *r = out;                                                               \
    const C *pa = in[0], *pb = in[1];                                         \
    for (i64 i = 0; i < n; i++) {                                             \
      double _Complex a = zc((double)pa[i].re, (double)pa[i].im),             \
                      b = zc((double)pb[i].re, (double)pb[i].im), z = (expr); \
      r[i] = (C){(F)creal(z), (F)cimag(z)};                                   \
    }                                                                         \
  }
#define ZUNARY(name, C, F, expr)                                              \
  static void name(void *out, const void *const *in, i64 n) {                 \
    C *r = out;                                                               \
    const C *pa = in[0];                                                      \
    for (i64 i = 0; i < n; i++) {                                             \
      double _Complex a = zc((double)pa[i].re, (double)pa[i].im), z = (expr); \
      r[i] = (C){(F)creal(z), (F)cimag(z)};                                   \
    }                                                                         \
  }
#define PARTS(name, C, real, imag)                            \
  static void name(void *out, const void *const *in, i64 n) { \
    C *r = out;                                               \
    const C *pa = in[0], *pb = in[1];                         \
    LOOP for (i64 i = 0; i < n; i++) {                        \
      C a = pa[i], b = pb[i];                                 \
      r[i] = (C){real, imag};                                 \
    }                                                         \
  }
#define PARTS1(name, C, real, imag)                           \
  static void name(void *out, const void *const *in, i64 n) { \
    C *r = out;                                               \
    const C *pa = in[0];                                      \
    LOOP for (i64 i = 0; i < n; i++) {                        \
      C a = pa[i];                                            \
      r[i] = (C){real, imag};                                 \
    }                                                         \
  }
#define ZREAL(name, C, R, expr)                               \
  static void name(void *out, const void *const *in, i64 n) { \
    R *r = out;                                               \
    const C *pa = in[0];                                      \
    for (i64 i = 0; i < n; i++) {                             \
      double re = (double)pa[i].re, im = (double)pa[i].im;    \
      (void)re;                                               \
      (void)im;                                               \
      r[i] = (R)(expr);                                       \
    }                                                         \
  }
// clang-format off
#define COMPLEXES(K, C, F)                                                                         \
  PARTS(add_##K, C, a.re + b.re, a.im + b.im) PARTS(sub_##K, C, a.re - b.re, a.im - b.im)          \
  PARTS(mul_##K, C, a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re)                          \
  ZBINARY(div_##K, C, F, a / b)                                                                    \
  ZBINARY(pow_##K, C, F, zpow(a, b)) ZBINARY(atan2_##K, C, F, zatan2(a, b))                        \
  PARTS1(neg_##K, C, -a.re, -a.im) ZUNARY(sign_##K, C, F, zsign(a))                                \
  ZUNARY(exp_##K, C, F, zexp(a))                                                                   \
  ZUNARY(expm1_##K, C, F, zexpm1(a)) ZUNARY(log_##K, C, F, clog(a))                                \
  ZUNARY(log1p_##K, C, F, zlog1p(a))                                                               \
  ZUNARY(tanh_##K, C, F, ctanh(a)) ZUNARY(logistic_##K, C, F, zlogistic(a))                        \
  ZUNARY(sqrt_##K, C, F, csqrt(a))                                                                 \
  ZUNARY(rsqrt_##K, C, F, 1 / csqrt(a)) ZUNARY(cbrt_##K, C, F, zcbrt(a))                           \
  ZUNARY(sin_##K, C, F, zsin(a))                                                                   \
  ZUNARY(cos_##K, C, F, zcos(a)) ZUNARY(tan_##K, C, F, ctan(a)) ZUNARY(acos_##K, C, F, cacos(a))   \
  ZUNARY(asin_##K, C, F, casin(a))                                                                 \
  ZUNARY(acosh_##K, C, F, cacosh(a)) ZUNARY(asinh_##K, C, F, casinh(a))                            \
  ZUNARY(atanh_##K, C, F, catanh(a))                                                               \
  ZUNARY(sinh_##K, C, F, csinh(a)) ZUNARY(cosh_##K, C, F, ccosh(a))                                \
  ZREAL(abs_##K, C, F, F##_abs((F)re, (F)im)) ZREAL(real_##K, C, F, re) ZREAL(imag_##K, C, F, im)  \
  ZREAL(finite_##K, C, u8, re - re == 0 && im - im == 0)                                           \
  static void complex_##K(void *out, const void *const *in, i64 n) {                               \
    C *r = out; const F *pa = in[0], *pb = in[1];                                                  \
    for (i64 i = 0; i < n; i++) r[i] = (C){pa[i], pb[i]};                                          \
  }                                                                                                \
  BINARY(eq_##K, u8, C, a.re == b.re && a.im == b.im)                                              \
  BINARY(ne_##K, u8, C, a.re != b.re || a.im != b.im)
// clang-format on
COMPLEXES(C64, c64, float)
COMPLEXES(C128, c128, double)

// ---- comparisons, selections --------------------------------------------------------------------
// clang-format off
#define X(K, T, W)                                                                                 \
  BINARY(eq_##K, u8, T, a == b) BINARY(ne_##K, u8, T, a != b) BINARY(ge_##K, u8, T, a >= b)        \
  BINARY(gt_##K, u8, T, a > b)                                                                     \
  BINARY(le_##K, u8, T, a <= b) BINARY(lt_##K, u8, T, a < b)
// clang-format on
REAL_TYPES(X)
#undef X
// Total order of floats: their bits as sign and magnitude.
static i32 order32(u32 b) { return (i32)(b ^ (b >> 31 ? 0x7fffffffu : 0)); }
static i64 order64(u64 b) { return (i64)(b ^ (b >> 63 ? ~(u64)0 >> 1 : 0)); }
// clang-format off
#define TOTAL(K, T, f)                                                                             \
  BINARY(teq_##K, u8, T, a == b) BINARY(tne_##K, u8, T, a != b)                                    \
  BINARY(tge_##K, u8, T, f(a) >= f(b))                                                             \
  BINARY(tgt_##K, u8, T, f(a) > f(b)) BINARY(tle_##K, u8, T, f(a) <= f(b))                         \
  BINARY(tlt_##K, u8, T, f(a) < f(b))
TOTAL(F32, u32, order32) TOTAL(F64, u64, order64)
// clang-format on

typedef struct u128 {
  u64 a, b;
} u128;
#define SELECT(size, T)                                                \
  static void select_##size(void *out, const void *const *in, i64 n) { \
    T *r = out;                                                        \
    const u8 *p = in[0];                                               \
    const T *a = in[1], *b = in[2];                                    \
    LOOP for (i64 i = 0; i < n; i++) {                                 \
      T m = (T)(0 - (T)p[i]); /* all ones or none: pred is 0 or 1 */   \
      r[i] = (T)((a[i] & m) | (b[i] & (T)~m));                         \
    }                                                                  \
  }
// clang-format off
SELECT(1, u8) SELECT(2, u16) SELECT(4, u32) SELECT(8, u64)
// clang-format on
static void select_16(void *out, const void *const *in, i64 n) {
  u128 *r = out;
  const u8 *p = in[0];
  const u128 *a = in[1], *b = in[2];
  for (i64 i = 0; i < n; i++) r[i] = p[i] ? a[i] : b[i];
}
#define X(K, T, W)                                                 \
  static void clamp_##K(void *out, const void *const *in, i64 n) { \
    T *r = out;                                                    \
    const T *lo = in[0], *x = in[1], *hi = in[2];                  \
    LOOP for (i64 i = 0; i < n; i++) {                             \
      T a = x[i] > lo[i] || x[i] != x[i] ? x[i] : lo[i];           \
      r[i] = a < hi[i] || a != a ? a : hi[i];                      \
    }                                                              \
  }
REAL_TYPES(X)
#undef X

// ---- the table ----------------------------------------------------------------------------------
#define ALL_INTS(f)                                                                          \
  [K_S8] = f##_S8, [K_S16] = f##_S16, [K_S32] = f##_S32, [K_S64] = f##_S64, [K_U8] = f##_U8, \
  [K_U16] = f##_U16, [K_U32] = f##_U32, [K_U64] = f##_U64
#define ALL_FLOATS(f) [K_F32] = f##_F32, [K_F64] = f##_F64
#define ALL_COMPLEX(f) [K_C64] = f##_C64, [K_C128] = f##_C128
#define PREDS(f) [K_PRED] = f

static const ew_fn table[HLO_OPCODE_COUNT][K_COUNT] = {
    [HLO_ADD] = {ALL_INTS(add), ALL_FLOATS(add), ALL_COMPLEX(add), PREDS(or_PRED)},
    [HLO_SUBTRACT] = {ALL_INTS(sub), ALL_FLOATS(sub), ALL_COMPLEX(sub), PREDS(xor_PRED)},
    [HLO_MULTIPLY] = {ALL_INTS(mul), ALL_FLOATS(mul), ALL_COMPLEX(mul), PREDS(and_PRED)},
    [HLO_DIVIDE] = {ALL_INTS(div), ALL_FLOATS(div), ALL_COMPLEX(div)},
    [HLO_REMAINDER] = {ALL_INTS(rem), ALL_FLOATS(rem)},
    [HLO_POWER] = {ALL_INTS(pow), ALL_FLOATS(pow), ALL_COMPLEX(pow)},
    [HLO_MAXIMUM] = {ALL_INTS(max), ALL_FLOATS(max), PREDS(or_PRED)},
    [HLO_MINIMUM] = {ALL_INTS(min), ALL_FLOATS(min), PREDS(and_PRED)},
    [HLO_AND] = {ALL_INTS(and), PREDS(and_PRED)},
    [HLO_OR] = {ALL_INTS(or), PREDS(or_PRED)},
    [HLO_XOR] = {ALL_INTS(xor), PREDS(xor_PRED)},
    [HLO_SHIFT_LEFT] = {ALL_INTS(shl)},
    [HLO_SHIFT_RIGHT_ARITH] = {ALL_INTS(sra)},
    [HLO_SHIFT_RIGHT_LOGICAL] = {ALL_INTS(shr)},
    [HLO_MULHI] = {ALL_INTS(mulhi)},
    [HLO_ATAN2] = {ALL_FLOATS(atan2), ALL_COMPLEX(atan2)},
    [HLO_ABS] = {ALL_INTS(abs), ALL_FLOATS(abs), ALL_COMPLEX(abs)},
    [HLO_NEGATE] = {ALL_INTS(neg), ALL_FLOATS(neg), ALL_COMPLEX(neg)},
    [HLO_SIGN] = {ALL_INTS(sign), ALL_FLOATS(sign), ALL_COMPLEX(sign)},
    [HLO_NOT] = {ALL_INTS(not ), PREDS(not_PRED)},
    [HLO_POPCNT] = {ALL_INTS(popcnt), PREDS(copy_PRED)},
    [HLO_CLZ] = {ALL_INTS(clz), PREDS(not_PRED)},
    [HLO_FLOOR] = {ALL_FLOATS(floor)},
    [HLO_CEIL] = {ALL_FLOATS(ceil)},
    [HLO_ROUND_EVEN] = {ALL_FLOATS(rne)},
    [HLO_ROUND_AFZ] = {ALL_FLOATS(rafz)},
    [HLO_EXP] = {ALL_FLOATS(exp), ALL_COMPLEX(exp)},
    [HLO_EXPM1] = {ALL_FLOATS(expm1), ALL_COMPLEX(expm1)},
    [HLO_LOG] = {ALL_FLOATS(log), ALL_COMPLEX(log)},
    [HLO_LOG1P] = {ALL_FLOATS(log1p), ALL_COMPLEX(log1p)},
    [HLO_TANH] = {ALL_FLOATS(tanh), ALL_COMPLEX(tanh)},
    [HLO_LOGISTIC] = {ALL_FLOATS(logistic), ALL_COMPLEX(logistic)},
    [HLO_SQRT] = {ALL_FLOATS(sqrt), ALL_COMPLEX(sqrt)},
    [HLO_RSQRT] = {ALL_FLOATS(rsqrt), ALL_COMPLEX(rsqrt)},
    [HLO_CBRT] = {ALL_FLOATS(cbrt), ALL_COMPLEX(cbrt)},
    [HLO_SIN] = {ALL_FLOATS(sin), ALL_COMPLEX(sin)},
    [HLO_COSINE] = {ALL_FLOATS(cos), ALL_COMPLEX(cos)},
    [HLO_TAN] = {ALL_FLOATS(tan), ALL_COMPLEX(tan)},
    [HLO_ERF] = {ALL_FLOATS(erf)},
    [HLO_ACOS] = {ALL_FLOATS(acos), ALL_COMPLEX(acos)},
    [HLO_ASIN] = {ALL_FLOATS(asin), ALL_COMPLEX(asin)},
    [HLO_ACOSH] = {ALL_FLOATS(acosh), ALL_COMPLEX(acosh)},
    [HLO_ASINH] = {ALL_FLOATS(asinh), ALL_COMPLEX(asinh)},
    [HLO_ATANH] = {ALL_FLOATS(atanh), ALL_COMPLEX(atanh)},
    [HLO_SINH] = {ALL_FLOATS(sinh), ALL_COMPLEX(sinh)},
    [HLO_COSH] = {ALL_FLOATS(cosh), ALL_COMPLEX(cosh)},
    [HLO_IS_FINITE] = {ALL_FLOATS(finite), ALL_COMPLEX(finite)},
    [HLO_REAL] = {ALL_FLOATS(real), ALL_COMPLEX(real)},
    [HLO_IMAG] = {ALL_FLOATS(imag), ALL_COMPLEX(imag)},
    [HLO_CLAMP] = {ALL_INTS(clamp), ALL_FLOATS(clamp)},
    [HLO_COMPLEX] = {[K_F32] = complex_C64, [K_F64] = complex_C128},
};
static const ew_fn compare_table[HLO_DIRECTION_COUNT][K_COUNT] = {
    [HLO_DIRECTION_EQ] = {ALL_INTS(eq), ALL_FLOATS(eq), ALL_COMPLEX(eq), [K_PRED] = eq_U8},
    [HLO_DIRECTION_NE] = {ALL_INTS(ne), ALL_FLOATS(ne), ALL_COMPLEX(ne), [K_PRED] = ne_U8},
    [HLO_DIRECTION_GE] = {ALL_INTS(ge), ALL_FLOATS(ge), [K_PRED] = ge_U8},
    [HLO_DIRECTION_GT] = {ALL_INTS(gt), ALL_FLOATS(gt), [K_PRED] = gt_U8},
    [HLO_DIRECTION_LE] = {ALL_INTS(le), ALL_FLOATS(le), [K_PRED] = le_U8},
    [HLO_DIRECTION_LT] = {ALL_INTS(lt), ALL_FLOATS(lt), [K_PRED] = lt_U8},
};
static const ew_fn total_table[HLO_DIRECTION_COUNT][2] = {
    [HLO_DIRECTION_EQ] = {teq_F32, teq_F64}, [HLO_DIRECTION_NE] = {tne_F32, tne_F64},
    [HLO_DIRECTION_GE] = {tge_F32, tge_F64}, [HLO_DIRECTION_GT] = {tgt_F32, tgt_F64},
    [HLO_DIRECTION_LE] = {tle_F32, tle_F64}, [HLO_DIRECTION_LT] = {tlt_F32, tlt_F64},
};

// The host type an element type is computed in.
static int kind_of(hlo_dtype t) {
  switch (t) {
  case HLO_PRED: return K_PRED;
  case HLO_S16: return K_S16;
  case HLO_S32: return K_S32;
  case HLO_S64: return K_S64;
  case HLO_U16: return K_U16;
  case HLO_U32: return K_U32;
  case HLO_U64: return K_U64;
  case HLO_F64: return K_F64;
  case HLO_C64: return K_C64;
  case HLO_C128: return K_C128;
  default: break;
  }
  if (hlo_dtype_is_float(t)) return K_F32;
  return hlo_dtype_is_signed(t) ? K_S8 : hlo_dtype_is_unsigned(t) ? K_U8 : K_NONE;
}

static ew_fn select_fn(size_t size) {
  switch (size) {
  case 1: return select_1;
  case 2: return select_2;
  case 4: return select_4;
  case 8: return select_8;
  case 16: return select_16;
  default: return NULL;
  }
}

// Kernels read every operand as the type of the first and write the type that belongs to it.
static bool types_fit(hlo_opcode op, u32 nin, const hlo_dtype *in, hlo_dtype out) {
  for (u32 j = 1; j < nin; j++)
    if (kind_of(in[j]) != kind_of(in[0])) return false;
  switch (op) {
  case HLO_COMPARE:
  case HLO_IS_FINITE: return out == HLO_PRED;
  case HLO_COMPLEX: return hlo_dtype_is_complex(out) && hlo_dtype_real_part(out) == in[0];
  case HLO_ABS:
  case HLO_REAL:
  case HLO_IMAG: return kind_of(out) == kind_of(hlo_dtype_real_part(in[0]));
  default: return kind_of(out) == kind_of(in[0]);
  }
}

bool ew_compile_types(hlo_opcode op, const hlo_instr *i, u32 nin, const hlo_dtype *in,
                      hlo_dtype out, ew *k) {
  *k = (ew){.nin = nin, .out = out};
  if (nin < 1 || nin > 3) return false;
  for (u32 j = 0; j < nin; j++) {
    k->in[j] = in[j];
    if (!hlo_dtype_is_array(in[j])) return false;
  }
  int kind = kind_of(in[0]);
  switch (op) {
  case HLO_CONVERT: k->mode = EW_CONVERT; return nin == 1 && hlo_dtype_is_array(out);
  case HLO_REDUCE_PRECISION:
    k->mode = EW_REDUCE_PRECISION;
    k->ebits = (int)hlo_attr_int(i, HLO_ATTR_EXPONENT_BITS, 8);
    k->mbits = (int)hlo_attr_int(i, HLO_ATTR_MANTISSA_BITS, 23);
    return hlo_dtype_is_float(in[0]) && k->ebits >= 1 && k->ebits <= 11 && k->mbits >= 0 &&
           k->mbits <= 52;
  case HLO_SELECT:
    k->fn = select_fn(hlo_dtype_storage(out));
    return k->fn != NULL && nin == 3 && in[0] == HLO_PRED && in[1] == out && in[2] == out;
  case HLO_CLAMP: k->fn = table[op][kind]; break;
  case HLO_COMPARE: {
    i64 dir = hlo_attr_int(i, HLO_ATTR_DIRECTION, 0);
    if (nin != 2 || dir < 0 || dir >= HLO_DIRECTION_COUNT) return false;
    bool total = hlo_dtype_is_float(in[0]) &&
                 hlo_attr_int(i, HLO_ATTR_COMPARE_TYPE, HLO_COMPARE_TYPE_FLOAT) ==
                     HLO_COMPARE_TYPE_TOTALORDER;
    k->fn = total ? total_table[dir][kind == K_F64] : compare_table[dir][kind];
    break;
  }
  default: k->fn = table[op][kind]; break;
  }
  if (!k->fn || !types_fit(op, nin, in, out)) return false;
  bool narrow = ev_is_narrow(out);
  for (u32 j = 0; j < nin; j++) narrow |= ev_is_narrow(in[j]);
  if (narrow) k->mode = EW_NARROW;
  else if (ev_is_subbyte(out)) k->mode = EW_SUBBYTE;
  // Logical operations on the bits of a sub-byte value need it without its sign extension.
  if (ev_is_subbyte(in[0]) && (op == HLO_SHIFT_RIGHT_LOGICAL || op == HLO_SHIFT_RIGHT_ARITH ||
                               op == HLO_CLZ || op == HLO_POPCNT || op == HLO_MULHI)) {
    k->bitwise = op;
    return in[0] == out;
  }
  return true;
}

bool ew_compile(const hlo_instr *i, ew *k) {
  hlo_dtype in[3];
  if (i->noperands < 1 || i->noperands > 3 || !hlo_shape_is_array(i->shape)) return false;
  for (u32 j = 0; j < i->noperands; j++) in[j] = hlo_operand(i, j)->shape->dtype;
  return ew_compile_types(i->opcode, i, i->noperands, in, i->shape->dtype, k);
}
