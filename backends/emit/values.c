// values.c — nodes of elementwise operations, complex ones included.
//
// A complex value is a pair of real nodes, and its operations are written out as operations on the
// parts, so that schedules and code generation see real scalars only. The formulas are the textbook
// ones that XLA's elemental IR emitter uses (elemental_ir_emitter.cc); division is Smith's (1962).
#include "backends/emit/nest.h"

hlo_dtype nest_uint_of(int bits) {
  return bits == 8 ? HLO_U8 : bits == 16 ? HLO_U16 : bits == 32 ? HLO_U32 : HLO_U64;
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
  if (to == HLO_PRED && v.im != NEST_NONE) {
    u32 a = nest_op1(n, HLO_CONVERT, HLO_PRED, v.re), b = nest_op1(n, HLO_CONVERT, HLO_PRED, v.im);
    return real(nest_op2(n, HLO_OR, HLO_PRED, a, b));
  }
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

// Smith's division: scales by the larger part of the divisor.
static nest_val cx_div(cx c, nest_val a, nest_val b) {
  u32 wide = cmp(c, HLO_DIRECTION_GE, one(c, HLO_ABS, b.re), one(c, HLO_ABS, b.im));
  u32 big = sel(c, wide, b.re, b.im), small = sel(c, wide, b.im, b.re), r = dvd(c, small, big),
      d = add(c, big, mul(c, small, r));
  u32 x = sel(c, wide, a.re, a.im), y = sel(c, wide, a.im, a.re);
  u32 re = dvd(c, add(c, x, mul(c, y, r)), d), s = sub(c, y, mul(c, x, r));
  u32 im = dvd(c, sel(c, wide, s, one(c, HLO_NEGATE, s)), d);
  u32 zero = nest_op2(c.n, HLO_AND, HLO_PRED, cmp(c, HLO_DIRECTION_EQ, b.re, num(c, 0)),
                      cmp(c, HLO_DIRECTION_EQ, b.im, num(c, 0)));
  return (nest_val){sel(c, zero, dvd(c, a.re, big), re), sel(c, zero, dvd(c, a.im, big), im)};
}

static nest_val cx_exp(cx c, nest_val v) {
  u32 e = one(c, HLO_EXP, v.re), real_only = cmp(c, HLO_DIRECTION_EQ, v.im, num(c, 0));
  return (nest_val){mul(c, e, one(c, HLO_COSINE, v.im)),
                    sel(c, real_only, num(c, 0), mul(c, e, one(c, HLO_SIN, v.im)))};
}
static nest_val cx_log(cx c, nest_val v) {
  return (nest_val){one(c, HLO_LOG, cx_abs(c, v)), nest_op2(c.n, HLO_ATAN2, c.t, v.im, v.re)};
}
static nest_val cx_neg(cx c, nest_val v) {
  return (nest_val){one(c, HLO_NEGATE, v.re), one(c, HLO_NEGATE, v.im)};
}
static nest_val cx_scale(cx c, nest_val v, double k) {
  return (nest_val){mul(c, v.re, num(c, k)), mul(c, v.im, num(c, k))};
}

static nest_val cx_sqrt(cx c, nest_val v) {  // via the half-angle: sqrt((|z| + |re|) / 2)
  u32 h = one(c, HLO_SQRT, mul(c, num(c, 0.5), add(c, cx_abs(c, v), one(c, HLO_ABS, v.re)))),
      o = dvd(c, mul(c, num(c, 0.5), v.im), h);
  u32 pos = cmp(c, HLO_DIRECTION_GE, v.re, num(c, 0)), nil = cmp(c, HLO_DIRECTION_EQ, h, num(c, 0));
  u32 neg = cmp(c, HLO_DIRECTION_LT, v.im, num(c, 0));
  nest_val r = {sel(c, pos, h, one(c, HLO_ABS, o)),
                sel(c, pos, o, sel(c, neg, one(c, HLO_NEGATE, h), h))};
  return (nest_val){sel(c, nil, num(c, 0), r.re), sel(c, nil, v.im, r.im)};
}

// sinh(2x) + i sin(2y) over cosh(2x) + cos(2y), saturated
static nest_val cx_tanh(cx c, nest_val v) {
  nest_val d = cx_scale(c, v, 2);
  u32 den = add(c, one(c, HLO_COSH, d.re), one(c, HLO_COSINE, d.im));
  u32 big = cmp(c, HLO_DIRECTION_GT, one(c, HLO_ABS, v.re), num(c, 20));
  u32 re = sel(c, big, one(c, HLO_SIGN, v.re), dvd(c, one(c, HLO_SINH, d.re), den));
  return (nest_val){re, sel(c, big, num(c, 0), dvd(c, one(c, HLO_SIN, d.im), den))};
}

static nest_val cx_sincos(cx c, nest_val v, bool cosine) {
  u32 s = one(c, HLO_SIN, v.re), k = one(c, HLO_COSINE, v.re), sh = one(c, HLO_SINH, v.im),
      ch = one(c, HLO_COSH, v.im);
  if (cosine) return (nest_val){mul(c, k, ch), one(c, HLO_NEGATE, mul(c, s, sh))};
  return (nest_val){mul(c, s, ch), mul(c, k, sh)};
}

static bool cx_op(cx c, hlo_opcode op, u32 k, const nest_val *a, nest_val *out) {
  nest_val v = a[0];
  switch (op) {
  case HLO_ADD: *out = (nest_val){add(c, v.re, a[1].re), add(c, v.im, a[1].im)}; return true;
  case HLO_SUBTRACT: *out = (nest_val){sub(c, v.re, a[1].re), sub(c, v.im, a[1].im)}; return true;
  case HLO_MULTIPLY: *out = cx_mul(c, v, a[1]); return true;
  case HLO_DIVIDE: *out = cx_div(c, v, a[1]); return true;
  case HLO_NEGATE: *out = cx_neg(c, v); return true;
  case HLO_ABS: *out = real(cx_abs(c, v)); return true;
  case HLO_REAL: *out = real(v.re); return true;
  case HLO_IMAG: *out = real(v.im); return true;
  case HLO_EXP: *out = cx_exp(c, v); return true;
  case HLO_LOG: *out = cx_log(c, v); return true;
  case HLO_SQRT: *out = cx_sqrt(c, v); return true;
  case HLO_RSQRT: {
    nest_val s = cx_sqrt(c, v);
    *out = cx_div(c, (nest_val){num(c, 1), num(c, 0)}, s);
    return true;
  }
  case HLO_TANH: *out = cx_tanh(c, v); return true;
  case HLO_SIN:
  case HLO_COSINE: *out = cx_sincos(c, v, op == HLO_COSINE); return true;
  case HLO_LOGISTIC: {
    nest_val e = cx_exp(c, cx_neg(c, v));
    *out = cx_div(c, (nest_val){num(c, 1), num(c, 0)}, (nest_val){add(c, e.re, num(c, 1)), e.im});
    return true;
  }
  case HLO_SIGN: {
    u32 m = cx_abs(c, v), z = cmp(c, HLO_DIRECTION_EQ, m, num(c, 0));
    *out = (nest_val){sel(c, z, num(c, 0), dvd(c, v.re, m)), sel(c, z, num(c, 0), dvd(c, v.im, m))};
    return true;
  }
  case HLO_SELECT:
    *out = (nest_val){sel(c, v.re, a[1].re, a[2].re), sel(c, v.re, a[1].im, a[2].im)};
    return true;
  default: (void)k; return false;
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
