// values.c — nodes of elementwise operations, complex ones included.
//
// A complex value is a pair of real nodes, and its operations are written out as operations on the
// parts, so that schedules and code generation see real scalars only. The formulas are the textbook
// ones that XLA's elemental IR emitter uses (elemental_ir_emitter.cc); division is Smith's (1962),
// with the infinities of annex G of the C standard, which XLA has too.
#include "backends/emit/nest/nest.h"

#include <math.h>

hlo_dtype nest_uint_of(int bits) {
  switch (bits) {
  case 1: return HLO_U1;
  case 2: return HLO_U2;
  case 4: return HLO_U4;
  case 8: return HLO_U8;
  case 16: return HLO_U16;
  case 32: return HLO_U32;
  default: return HLO_U64;
  }
}

static const nest_val none = {NEST_NONE, NEST_NONE};
static nest_val real(u32 v) { return (nest_val){v, NEST_NONE}; }

static u32 op_with(nest *n, hlo_opcode op, hlo_dtype t, hlo_dtype in, u32 k, const nest_val *a) {
  nest_node x = {.kind = NEST_OP, .dtype = t, .op = op, .in = in, .nargs = k};
  for (u32 j = 0; j < k; j++) x.args[j] = a[j].re;
  return nest_node_add(n, &x);
}

nest_val nest_convert(nest *n, nest_val v, hlo_dtype from, hlo_dtype to) {
  if (from == to) return v;
  hlo_dtype rf = hlo_dtype_real_part(from), rt = hlo_dtype_real_part(to);
  nest_val r = {rf == rt ? v.re : nest_op1(n, HLO_CONVERT, rt, v.re), NEST_NONE};
  if (hlo_dtype_is_complex(to))
    r.im = v.im == NEST_NONE ? nest_const_f64(n, rt, 0)
           : rf == rt        ? v.im
                             : nest_op1(n, HLO_CONVERT, rt, v.im);
  return r;
}

nest_val nest_bitcast(nest *n, nest_val v, hlo_dtype from, hlo_dtype to) {
  if (from == to) return v;
  if (!hlo_dtype_is_complex(from) && !hlo_dtype_is_complex(to))
    return real(nest_op1(n, HLO_BITCAST_CONVERT, to, v.re));
  if (from == HLO_C64) {  // two halves of 32 bits make one of 64
    u8 bits[8] = {32};
    u32 re = nest_op1(n, HLO_CONVERT, HLO_U64, nest_op1(n, HLO_BITCAST_CONVERT, HLO_U32, v.re));
    u32 im = nest_op1(n, HLO_CONVERT, HLO_U64, nest_op1(n, HLO_BITCAST_CONVERT, HLO_U32, v.im));
    u32 w = nest_op2(n, HLO_OR, HLO_U64, re,
                     nest_op2(n, HLO_SHIFT_LEFT, HLO_U64, im, nest_const_bits(n, HLO_U64, bits)));
    return to == HLO_U64 ? real(w) : real(nest_op1(n, HLO_BITCAST_CONVERT, to, w));
  }
  u8 bits[8] = {32};
  u32 w = from == HLO_U64 ? v.re : nest_op1(n, HLO_BITCAST_CONVERT, HLO_U64, v.re);
  u32 hi = nest_op2(n, HLO_SHIFT_RIGHT_LOGICAL, HLO_U64, w, nest_const_bits(n, HLO_U64, bits));
  u32 re = nest_op1(n, HLO_BITCAST_CONVERT, HLO_F32, nest_op1(n, HLO_CONVERT, HLO_U32, w));
  return (nest_val){
      re, nest_op1(n, HLO_BITCAST_CONVERT, HLO_F32, nest_op1(n, HLO_CONVERT, HLO_U32, hi))};
}

bool nest_compare(nest *n, i64 dir, bool total, hlo_dtype in, nest_val a, nest_val b,
                  nest_val *out) {
  nest_node x = {.kind = NEST_OP,
                 .dtype = HLO_PRED,
                 .op = HLO_COMPARE,
                 .in = hlo_dtype_real_part(in),
                 .nargs = 2,
                 .args = {a.re, b.re},
                 .attr = {dir, total}};
  *out = real(nest_node_add(n, &x));
  if (a.im == NEST_NONE) return true;
  if (dir != HLO_DIRECTION_EQ && dir != HLO_DIRECTION_NE) return false;
  x.args[0] = a.im;
  x.args[1] = b.im;
  u32 im = nest_node_add(n, &x);
  *out = real(nest_op2(n, dir == HLO_DIRECTION_EQ ? HLO_AND : HLO_OR, HLO_PRED, out->re, im));
  return true;
}

// ---- complex arithmetic: textbook formulas, as XLA's elemental emitter uses them ----------------
typedef struct cx {
  nest *n;
  hlo_dtype t;
} cx;
static u32 add(cx c, u32 a, u32 b) { return nest_op2(c.n, HLO_ADD, c.t, a, b); }
static u32 sub(cx c, u32 a, u32 b) { return nest_op2(c.n, HLO_SUBTRACT, c.t, a, b); }
static u32 mul(cx c, u32 a, u32 b) { return nest_op2(c.n, HLO_MULTIPLY, c.t, a, b); }
static u32 dvd(cx c, u32 a, u32 b) { return nest_op2(c.n, HLO_DIVIDE, c.t, a, b); }
static u32 one(cx c, hlo_opcode op, u32 a) { return nest_op1(c.n, op, c.t, a); }
static u32 num(cx c, double v) { return nest_const_f64(c.n, c.t, v); }
static u32 cmp(cx c, i64 dir, u32 a, u32 b) {
  nest_val v;
  (void)nest_compare(c.n, dir, false, c.t, real(a), real(b), &v);
  return v.re;
}
static u32 sel(cx c, u32 p, u32 a, u32 b) { return nest_select(c.n, c.t, p, a, b); }

static nest_val cx_mul(cx c, nest_val a, nest_val b) {
  return (nest_val){sub(c, mul(c, a.re, b.re), mul(c, a.im, b.im)),
                    add(c, mul(c, a.re, b.im), mul(c, a.im, b.re))};
}

// |a + bi| without overflow: max * sqrt(1 + (min/max)^2); infinite when either part is.
static u32 cx_abs(cx c, nest_val v) {
  u32 a = one(c, HLO_ABS, v.re), b = one(c, HLO_ABS, v.im);
  u32 hi = nest_op2(c.n, HLO_MAXIMUM, c.t, a, b), lo = nest_op2(c.n, HLO_MINIMUM, c.t, a, b),
      q = dvd(c, lo, hi);
  u32 r = mul(c, hi, one(c, HLO_SQRT, add(c, num(c, 1), mul(c, q, q))));
  u32 inf = nest_op2(c.n, HLO_OR, HLO_PRED, cmp(c, HLO_DIRECTION_EQ, a, num(c, __builtin_inf())),
                     cmp(c, HLO_DIRECTION_EQ, b, num(c, __builtin_inf())));
  r = sel(c, cmp(c, HLO_DIRECTION_EQ, hi, num(c, 0)), num(c, 0), r);
  return sel(c, inf, num(c, __builtin_inf()), r);
}

static u32 is_inf(cx c, u32 v) {
  return cmp(c, HLO_DIRECTION_EQ, one(c, HLO_ABS, v), num(c, __builtin_inf()));
}
static u32 is_nan(cx c, u32 v) { return cmp(c, HLO_DIRECTION_NE, v, v); }
static u32 is_finite(cx c, u32 v) {
  return cmp(c, HLO_DIRECTION_LT, one(c, HLO_ABS, v), num(c, __builtin_inf()));
}
static u32 both(cx c, u32 p, u32 q) { return nest_op2(c.n, HLO_AND, HLO_PRED, p, q); }
static u32 either(cx c, u32 p, u32 q) { return nest_op2(c.n, HLO_OR, HLO_PRED, p, q); }
// The magnitude with the sign of v, zeros and NaNs included.
static u32 with_sign(cx c, u32 magnitude, u32 v) {
  hlo_dtype it = c.t == HLO_F64 ? HLO_S64 : HLO_S32;
  nest_val negative;
  (void)nest_compare(c.n, HLO_DIRECTION_LT, false, it,
                     real(nest_op1(c.n, HLO_BITCAST_CONVERT, it, v)),
                     real(nest_const_f64(c.n, it, 0)), &negative);
  return sel(c, negative.re, one(c, HLO_NEGATE, magnitude), magnitude);
}
// +-1 of an infinity, +-0 of anything else
static u32 boxed(cx c, u32 v) {
  return with_sign(c, sel(c, is_inf(c, v), num(c, 1), num(c, 0)), v);
}

// Smith's division: scales by the larger part of the divisor. Where that gives NaN twice, annex G
// of the C standard: infinite by finite is infinite, finite by infinite is zero.
static nest_val cx_smith(cx c, nest_val a, nest_val b) {
  u32 wide = cmp(c, HLO_DIRECTION_GE, one(c, HLO_ABS, b.re), one(c, HLO_ABS, b.im));
  u32 big = sel(c, wide, b.re, b.im), small = sel(c, wide, b.im, b.re), r = dvd(c, small, big),
      d = add(c, big, mul(c, small, r));
  u32 x = sel(c, wide, a.re, a.im), y = sel(c, wide, a.im, a.re);
  // not the negation of one difference: that of equal products would be -0
  u32 re = dvd(c, add(c, x, mul(c, y, r)), d), xr = mul(c, x, r);
  u32 im = dvd(c, sel(c, wide, sub(c, y, xr), sub(c, xr, y)), d);
  u32 zero =
      both(c, cmp(c, HLO_DIRECTION_EQ, b.re, num(c, 0)), cmp(c, HLO_DIRECTION_EQ, b.im, num(c, 0)));
  u32 above = both(c, either(c, is_inf(c, a.re), is_inf(c, a.im)),
                   both(c, is_finite(c, b.re), is_finite(c, b.im))),
      below = both(c, either(c, is_inf(c, b.re), is_inf(c, b.im)),
                   both(c, is_finite(c, a.re), is_finite(c, a.im)));
  nest_val p = {sel(c, above, boxed(c, a.re), a.re), sel(c, above, boxed(c, a.im), a.im)},
           q = {sel(c, below, boxed(c, b.re), b.re), sel(c, below, boxed(c, b.im), b.im)};
  u32 k = sel(c, above, num(c, __builtin_inf()), num(c, 0)),
      lost = both(c, both(c, is_nan(c, re), is_nan(c, im)), either(c, above, below));
  re = sel(c, lost, mul(c, k, add(c, mul(c, p.re, q.re), mul(c, p.im, q.im))), re);
  im = sel(c, lost, mul(c, k, sub(c, mul(c, p.im, q.re), mul(c, p.re, q.im))), im);
  return (nest_val){sel(c, zero, dvd(c, a.re, big), re), sel(c, zero, dvd(c, a.im, big), im)};
}
static nest_val cx_exp(cx c, nest_val v) {
  u32 e = one(c, HLO_EXP, v.re), real_only = cmp(c, HLO_DIRECTION_EQ, v.im, num(c, 0));
  return (nest_val){mul(c, e, one(c, HLO_COSINE, v.im)),
                    sel(c, real_only, num(c, 0), mul(c, e, one(c, HLO_SIN, v.im)))};
}
static nest_val cx_exp_of(cx c, const nest_val *a) { return cx_exp(c, a[0]); }
static nest_val cx_log(cx c, nest_val v) {
  return (nest_val){one(c, HLO_LOG, cx_abs(c, v)), nest_op2(c.n, HLO_ATAN2, c.t, v.im, v.re)};
}
static nest_val cx_neg(cx c, nest_val v) {
  return (nest_val){one(c, HLO_NEGATE, v.re), one(c, HLO_NEGATE, v.im)};
}
static nest_val cx_sqrt(cx c, nest_val v) {  // via the half-angle: sqrt((|z| + |re|) / 2)
  u32 half = num(c, 0.5), inf = is_inf(c, v.im),
      h = one(c, HLO_SQRT, add(c, mul(c, half, cx_abs(c, v)), mul(c, half, one(c, HLO_ABS, v.re)))),
      o = dvd(c, mul(c, half, v.im), h);
  // an infinite imaginary part makes both parts infinite, whatever the other
  h = sel(c, inf, num(c, __builtin_inf()), h);
  o = sel(c, inf, v.im, o);
  u32 pos = cmp(c, HLO_DIRECTION_GE, v.re, num(c, 0)), nil = cmp(c, HLO_DIRECTION_EQ, h, num(c, 0));
  nest_val r = {sel(c, pos, h, one(c, HLO_ABS, o)), sel(c, pos, o, with_sign(c, h, v.im))};
  return (nest_val){sel(c, nil, num(c, 0), r.re), sel(c, nil, v.im, r.im)};
}

// Kahan's formula in tan(y) and sinh(x); far out the real part has become +-1, and the imaginary
// part is 4 sin(y) cos(y) e^(-2 |x|).
static nest_val cx_tanh(cx c, nest_val v) {
  u32 t = one(c, HLO_TAN, v.im), s = one(c, HLO_SINH, v.re), s2 = mul(c, s, s), k = num(c, 1);
  u32 beta = add(c, k, mul(c, t, t)), den = add(c, k, mul(c, beta, s2)), nil = num(c, 0);
  u32 re = dvd(c, mul(c, mul(c, beta, one(c, HLO_SQRT, add(c, k, s2))), s), den),
      im = dvd(c, t, den);
  u32 far = both(c, cmp(c, HLO_DIRECTION_GT, one(c, HLO_ABS, v.re), num(c, 20)),
                 either(c, is_finite(c, v.im), is_inf(c, v.re)));
  u32 fade = one(c, HLO_EXP, mul(c, num(c, -2), one(c, HLO_ABS, v.re))),
      rest = mul(c, mul(c, num(c, 4), dvd(c, t, beta)), fade);
  re = sel(c, far, one(c, HLO_SIGN, v.re), re);
  im = sel(c, far, sel(c, is_finite(c, v.im), rest, nil), im);
  return (nest_val){sel(c, cmp(c, HLO_DIRECTION_EQ, v.re, nil), v.re, re),
                    sel(c, cmp(c, HLO_DIRECTION_EQ, v.im, nil), v.im, im)};
}
static nest_val cx_tanh_of(cx c, const nest_val *a) { return cx_tanh(c, a[0]); }
// -i tanh(iz)
static nest_val cx_tan(cx c, const nest_val *a) {
  nest_val v = a[0];
  nest_val w = cx_tanh(c, (nest_val){one(c, HLO_NEGATE, v.im), v.re});
  return (nest_val){w.im, one(c, HLO_NEGATE, w.re)};
}

// exp(z) - 1 and its inverse, without cancellation near zero.
static nest_val cx_expm1(cx c, const nest_val *a) {
  nest_val v = a[0];
  u32 e = one(c, HLO_EXPM1, v.re), h = one(c, HLO_SIN, mul(c, num(c, 0.5), v.im));
  u32 re = sub(c, mul(c, e, one(c, HLO_COSINE, v.im)), mul(c, num(c, 2), mul(c, h, h))),
      im = mul(c, one(c, HLO_EXP, v.re), one(c, HLO_SIN, v.im));
  return (nest_val){re, sel(c, cmp(c, HLO_DIRECTION_EQ, v.im, num(c, 0)), v.im, im)};
}
static nest_val cx_log1p(cx c, const nest_val *a) {
  nest_val v = a[0];
  u32 up = add(c, num(c, 1), v.re), half = num(c, 0.5);
  u32 near = both(c, cmp(c, HLO_DIRECTION_LT, one(c, HLO_ABS, v.re), half),
                  cmp(c, HLO_DIRECTION_LT, one(c, HLO_ABS, v.im), half));
  u32 square = add(c, mul(c, v.re, add(c, num(c, 2), v.re)), mul(c, v.im, v.im));
  return (nest_val){sel(c, near, mul(c, half, one(c, HLO_LOG1P, square)),
                        one(c, HLO_LOG, cx_abs(c, (nest_val){up, v.im}))),
                    nest_op2(c.n, HLO_ATAN2, c.t, v.im, up)};
}

// exp(b log a); of zero 1 for the exponent zero, else 0.
static nest_val cx_power(cx c, const nest_val *args) {
  nest_val a = args[0], b = args[1];
  nest_val r = cx_exp(c, cx_mul(c, b, cx_log(c, a)));
  u32 nil = num(c, 0),
      zero = both(c, cmp(c, HLO_DIRECTION_EQ, a.re, nil), cmp(c, HLO_DIRECTION_EQ, a.im, nil)),
      flat = both(c, cmp(c, HLO_DIRECTION_EQ, b.re, nil), cmp(c, HLO_DIRECTION_EQ, b.im, nil));
  return (nest_val){sel(c, zero, sel(c, flat, num(c, 1), nil), r.re), sel(c, zero, nil, r.im)};
}
// -i log((b + i a) / sqrt(b b + a a)), as XLA expands it. Where a is 0 the quotient is 1 or -1;
// what rounding would leave of its imaginary part chose between pi and -pi. Of an imaginary b the
// root lies on its cut: the side is that of the zero that b b + a a has as its imaginary part.
static nest_val cx_atan2(cx c, const nest_val *args) {
  nest_val a = args[0], b = args[1];
  nest_val aa = cx_mul(c, a, a), bb = cx_mul(c, b, b),
           root = cx_sqrt(c, (nest_val){add(c, aa.re, bb.re), add(c, aa.im, bb.im)}),
           z = cx_log(c, cx_smith(c, (nest_val){sub(c, b.re, a.im), add(c, b.im, a.re)}, root));
  u32 nil = num(c, 0),
      flat = both(c, cmp(c, HLO_DIRECTION_EQ, a.re, nil), cmp(c, HLO_DIRECTION_EQ, a.im, nil));
  flat = both(c, flat, both(c, is_finite(c, b.re), is_finite(c, b.im)));
  flat = both(c, flat, cmp(c, HLO_DIRECTION_NE, b.im, nil));
  u32 side = with_sign(c, num(c, 1), add(c, mul(c, a.re, a.im), mul(c, b.re, b.im))),
      turned = nest_op2(c.n, HLO_XOR, HLO_PRED, cmp(c, HLO_DIRECTION_LT, side, nil),
                        cmp(c, HLO_DIRECTION_LT, b.im, nil)),
      before = cmp(c, HLO_DIRECTION_LT, b.re, nil),
      left = nest_select(c.n, HLO_PRED, cmp(c, HLO_DIRECTION_EQ, b.re, nil), turned, before),
      angle = sel(c, left, num(c, M_PI), nil);
  return (nest_val){sel(c, flat, angle, z.im), sel(c, flat, nil, one(c, HLO_NEGATE, z.re))};
}

static nest_val cx_sincos(cx c, nest_val v, bool cosine) {
  u32 s = one(c, HLO_SIN, v.re), k = one(c, HLO_COSINE, v.re), sh = one(c, HLO_SINH, v.im),
      ch = one(c, HLO_COSH, v.im);
  if (cosine) return (nest_val){mul(c, k, ch), one(c, HLO_NEGATE, mul(c, s, sh))};
  return (nest_val){mul(c, s, ch), mul(c, k, sh)};
}

static nest_val cx_div(cx c, const nest_val *a) { return cx_smith(c, a[0], a[1]); }
static nest_val cx_inverse(cx c, nest_val v) {
  return cx_smith(c, (nest_val){num(c, 1), num(c, 0)}, v);
}
static nest_val cx_logistic(cx c, const nest_val *a) {
  nest_val e = cx_exp(c, cx_neg(c, a[0]));
  return cx_inverse(c, (nest_val){add(c, e.re, num(c, 1)), e.im});
}
static nest_val cx_log_of(cx c, const nest_val *a) { return cx_log(c, a[0]); }
static nest_val cx_sqrt_of(cx c, const nest_val *a) { return cx_sqrt(c, a[0]); }
static nest_val cx_rsqrt(cx c, const nest_val *a) { return cx_inverse(c, cx_sqrt(c, a[0])); }
static nest_val cx_sin(cx c, const nest_val *a) { return cx_sincos(c, a[0], false); }
static nest_val cx_cos(cx c, const nest_val *a) { return cx_sincos(c, a[0], true); }
// Those whose intermediate values have another range than the result: of f32 they are done in f64.
static const struct {
  hlo_opcode op;
  nest_val (*fn)(cx, const nest_val *);
} wide_ops[] = {{HLO_DIVIDE, cx_div},  {HLO_EXP, cx_exp_of},       {HLO_EXPM1, cx_expm1},
                {HLO_LOG1P, cx_log1p}, {HLO_RSQRT, cx_rsqrt},      {HLO_TANH, cx_tanh_of},
                {HLO_TAN, cx_tan},     {HLO_SIN, cx_sin},          {HLO_COSINE, cx_cos},
                {HLO_POWER, cx_power}, {HLO_LOG, cx_log_of},       {HLO_SQRT, cx_sqrt_of},
                {HLO_ATAN2, cx_atan2}, {HLO_LOGISTIC, cx_logistic}};

static bool cx_wide_op(cx c, hlo_opcode op, u32 k, const nest_val *a, nest_val *out) {
  for (size_t j = 0; j < HS_COUNT(wide_ops); j++) {
    if (wide_ops[j].op != op) continue;
    nest_val wide[2];
    for (u32 i = 0; i < k; i++)
      wide[i] = c.t == HLO_F32 ? nest_convert(c.n, a[i], HLO_C64, HLO_C128) : a[i];
    *out = wide_ops[j].fn((cx){c.n, HLO_F64}, wide);
    if (c.t == HLO_F32) *out = nest_convert(c.n, *out, HLO_C128, HLO_C64);
    return true;
  }
  return false;
}

static bool cx_op(cx c, hlo_opcode op, u32 k, const nest_val *a, nest_val *out) {
  if (cx_wide_op(c, op, k, a, out)) return true;
  nest_val v = a[0];
  switch (op) {
  case HLO_ADD: *out = (nest_val){add(c, v.re, a[1].re), add(c, v.im, a[1].im)}; return true;
  case HLO_SUBTRACT: *out = (nest_val){sub(c, v.re, a[1].re), sub(c, v.im, a[1].im)}; return true;
  case HLO_MULTIPLY: *out = cx_mul(c, v, a[1]); return true;
  case HLO_NEGATE: *out = cx_neg(c, v); return true;
  case HLO_ABS: *out = real(cx_abs(c, v)); return true;
  case HLO_REAL: *out = real(v.re); return true;
  case HLO_IMAG: *out = real(v.im); return true;
  case HLO_SIGN: {
    u32 m = cx_abs(c, v), z = cmp(c, HLO_DIRECTION_EQ, m, num(c, 0));
    *out = (nest_val){sel(c, z, num(c, 0), dvd(c, v.re, m)), sel(c, z, num(c, 0), dvd(c, v.im, m))};
    return true;
  }
  case HLO_SELECT:
    *out = (nest_val){sel(c, v.re, a[1].re, a[2].re), sel(c, v.re, a[1].im, a[2].im)};
    return true;
  default: return false;
  }
}

// ---- real ---------------------------------------------------------------------------------------
bool nest_elementwise(nest *n, hlo_opcode op, hlo_dtype t, hlo_dtype in, u32 k, const nest_val *a,
                      nest_val *out) {
  *out = none;
  if (op == HLO_COMPLEX) {
    *out = (nest_val){a[0].re, a[1].re};
    return true;
  }
  if (op == HLO_STOCHASTIC_CONVERT) return false;
  if (hlo_dtype_is_complex(in)) return cx_op((cx){n, hlo_dtype_real_part(in)}, op, k, a, out);
  if (op == HLO_REAL) {
    *out = a[0];
    return true;
  }
  if (op == HLO_IMAG) {
    *out = real(nest_const_f64(n, t, 0));
    return true;
  }
  if (op == HLO_SELECT) {
    *out = real(nest_select(n, t, a[0].re, a[1].re, a[2].re));
    return true;
  }
  *out = real(op_with(n, op, t, in, k, a));
  return true;
}
