// algsimp_power.c — division, remainder, powers, exponentials, logarithms and roots.
#include "passes/simplify/algsimp.h"

#define X hlo_operand(i, 0)
#define Y hlo_operand(i, 1)

// ---- divide -------------------------------------------------------------------------------------
ALG_RULE(div_one) {
  (void)a;
  return pass_alg_all(Y, 1) ? X : NULL;
}

// The exponent when an integer constant is 2**k, else -1.
static int log2_exact(const hlo_instr *c) {
  i64 v;
  if (!pass_alg_splat_int(c, &v) || v <= 0 || (v & (v - 1))) return -1;
  return __builtin_ctzll((u64)v);
}

// Integers by 2**k: a shift when unsigned; signed rounds towards zero: divide the magnitude, then
// put the sign back
ALG_RULE(div_power_of_two) {
  if (!alg_is_int(i)) return NULL;
  int k = log2_exact(Y);
  if (k <= 0) return NULL;
  hlo_instr *shift = pass_alg_full_int(a, i->shape, k);
  if (hlo_dtype_is_unsigned(i->shape->dtype))
    return pass_alg_bin(a, HLO_SHIFT_RIGHT_LOGICAL, X, shift);
  hlo_instr *neg = pass_alg_compare(a, HLO_DIRECTION_LT, X, pass_alg_full_int(a, i->shape, 0));
  hlo_instr *mag = pass_alg_select(a, neg, pass_alg_un(a, HLO_NEGATE, X), X);
  hlo_instr *q = pass_alg_bin(a, HLO_SHIFT_RIGHT_LOGICAL, mag, shift);
  return pass_alg_select(a, neg, pass_alg_un(a, HLO_NEGATE, q), q);
}

// 1 / (one element of l), at the same place of `to`.
static void invert(const hlo_literal *l, i64 k, hlo_literal *to) {
  if (l->shape->dtype == HLO_C64) {
    float _Complex z, one = 1;
    memcpy(&z, (const char *)l->data + k * (i64)sizeof z, sizeof z);
    z = one / z;
    memcpy((char *)to->data + k * (i64)sizeof z, &z, sizeof z);
  } else if (l->shape->dtype == HLO_C128) {
    double _Complex z, one = 1;
    memcpy(&z, (const char *)l->data + k * (i64)sizeof z, sizeof z);
    z = one / z;
    memcpy((char *)to->data + k * (i64)sizeof z, &z, sizeof z);
  } else {
    hlo_literal_set_f64(to, k, 1.0 / hlo_literal_f64(l, k));
  }
}

// A / C = A * (1/C) for constants of real and complex numbers, scalar or array
static bool powers_of_two(const hlo_literal *l) {
  for (i64 k = 0; k < l->shape->elements; k++) {
    int e;
    if (fabs(frexp(hlo_literal_f64(l, k), &e)) != 0.5) return false;
  }
  return true;
}

// In a type of few digits the reciprocal must be exact: XLA takes a rounded one too, and what is
// quantized after it, say, comes out as the neighbour in every fourth element.
// Whether the inverses stand for the divisors: a normal number must have a normal inverse. That of
// 3e38 is a denormal of f32, which counts as zero where it is used; that of a denormal is infinite.
static bool all_keep(const hlo_literal *l, const hlo_literal *inv) {
  hlo_dtype t = l->shape->dtype;
  double least = ldexp(1, 1 - hlo_dtypes[t].format.bias);
  if (!hlo_dtype_is_float(t)) return true;
  for (i64 k = 0; k < l->shape->elements; k++) {
    double c = fabs(hlo_literal_f64(l, k)), r = fabs(hlo_literal_f64(inv, k));
    if (c == 0 || !isfinite(c)) continue;  // exact either way
    if (c < least || r < least || !isfinite(r)) return false;
  }
  return true;
}

ALG_RULE(div_constant) {
  hlo_instr *c = Y->opcode == HLO_BROADCAST ? hlo_operand(Y, 0) : Y;
  hlo_dtype t = i->shape->dtype;
  if (c->opcode != HLO_CONSTANT || X->opcode == HLO_CONSTANT || c->shape->dtype != t) return NULL;
  if (t != HLO_F16 && t != HLO_BF16 && t != HLO_F32 && t != HLO_F64 && !alg_is_complex(i))
    return NULL;
  const hlo_literal *l = hlo_constant_value(c);
  if (!l || l->elided || c->shape->elements == 0) return NULL;
  if ((t == HLO_F16 || t == HLO_BF16) && !powers_of_two(l)) return NULL;
  hlo_literal *inv;
  hs_status s = hlo_literal_new(l->shape, &inv);
  if (!hs_ok(s)) {
    hs_status_drop(s);
    return NULL;
  }
  for (i64 k = 0; k < c->shape->elements; k++) invert(l, k, inv);
  if (!all_keep(l, inv)) return hlo_literal_unref(inv), NULL;
  hlo_instr *r = pass_alg_literal(a, inv);
  if (c != Y) {
    hlo_ints d = alg_dims(Y);
    r = pass_alg_broadcast(a, r, Y->shape, d.n, d.v);
  }
  return pass_alg_bin(a, HLO_MULTIPLY, X, r);
}

// (A/B)/(C/D) = (A*D)/(B*C), (A/B)/C = A/(B*C), A/(B/C) = (A*C)/B; of f16, products of common
// numbers would leave the range
ALG_RULE(div_div) {
  if (alg_is_int(i) || alg_is_pred(i) || alg_is_tiny(i) || i->shape->dtype == HLO_F16) return NULL;
  hlo_instr *x = X, *y = Y;
  bool xd = x->opcode == HLO_DIVIDE, yd = y->opcode == HLO_DIVIDE;
  if (!xd && !yd) return NULL;
  hlo_instr *num = xd ? hlo_operand(x, 0) : x, *den = yd ? hlo_operand(y, 0) : y;
  hlo_instr *num2 = yd ? hlo_operand(y, 1) : NULL, *den2 = xd ? hlo_operand(x, 1) : NULL;
  if (num2) num = pass_alg_bin(a, HLO_MULTIPLY, num, num2);
  if (den2) den = pass_alg_bin(a, HLO_MULTIPLY, den2, den);
  return pass_alg_bin(a, HLO_DIVIDE, num, den);
}

// exp(A)/exp(B) = exp(A-B), A/exp(B) = A*exp(-B)
ALG_RULE(div_exp) {
  hlo_instr *x = X, *y = Y;
  if (y->opcode != HLO_EXP || alg_is_tiny(i)) return NULL;
  if (x->opcode == HLO_EXP)
    return pass_alg_un(a, HLO_EXP,
                       pass_alg_bin(a, HLO_SUBTRACT, hlo_operand(x, 0), hlo_operand(y, 0)));
  return pass_alg_bin(a, HLO_MULTIPLY, x,
                      pass_alg_un(a, HLO_EXP, pass_alg_un(a, HLO_NEGATE, hlo_operand(y, 0))));
}

// A/pow(B, C) = A*pow(B, -C); the power may hide behind a broadcast
ALG_RULE(div_pow) {
  hlo_instr *p = Y->opcode == HLO_BROADCAST ? hlo_operand(Y, 0) : Y;
  if (p->opcode != HLO_POWER || alg_is_int(i) || alg_is_tiny(i)) return NULL;
  hlo_instr *q =
      pass_alg_bin(a, HLO_POWER, hlo_operand(p, 0), pass_alg_un(a, HLO_NEGATE, hlo_operand(p, 1)));
  if (p != Y) {
    hlo_ints d = alg_dims(Y);
    q = pass_alg_broadcast(a, q, Y->shape, d.n, d.v);
  }
  return pass_alg_bin(a, HLO_MULTIPLY, X, q);
}

// A/sqrt(B) = A*rsqrt(B), A/rsqrt(B) = A*sqrt(B)
ALG_RULE(div_sqrt) {
  if (!alg_one_use(Y) || alg_is_tiny(i)) return NULL;
  if (Y->opcode == HLO_RSQRT)
    return pass_alg_bin(a, HLO_MULTIPLY, X, pass_alg_un(a, HLO_SQRT, hlo_operand(Y, 0)));
  if (Y->opcode != HLO_SQRT || alg_is_complex(i)) return NULL;
  return pass_alg_bin(a, HLO_MULTIPLY, X, pass_alg_un(a, HLO_RSQRT, hlo_operand(Y, 0)));
}

// A / broadcast(B) = A * broadcast(1/B): fewer divisions
static hlo_instr *times_reciprocal(alg *a, hlo_instr *i, bool reciprocal_first) {
  hlo_instr *b = hlo_operand(Y, 0);
  hlo_instr *r = pass_alg_bin(
      a, HLO_DIVIDE,
      pass_alg_full(a, hlo_shape_with_dtype(a->m->ctx, b->shape, i->shape->dtype), 1), b);
  hlo_ints d = alg_dims(Y);
  hlo_instr *x = X, *wide = pass_alg_broadcast(a, r, Y->shape, d.n, d.v);
  return reciprocal_first ? pass_alg_bin(a, HLO_MULTIPLY, wide, x)
                          : pass_alg_bin(a, HLO_MULTIPLY, x, wide);
}

ALG_RULE(div_broadcast) {
  if (!a->on_cpu || !a->sink_broadcast || Y->opcode != HLO_BROADCAST || alg_is_int(i) ||
      alg_is_pred(i))
    return NULL;
  const hlo_instr *b = hlo_operand(Y, 0);
  // as for constants: two roundings in few digits show
  if (alg_is_float(i) && hlo_dtype_bits(i->shape->dtype) < 32) return NULL;
  // a division more, which nothing takes in
  if (b->shape->rank != 0 && b->opcode == HLO_REDUCE) return NULL;
  // of complex numbers an infinity would be lost
  if ((alg_is_complex(i) && !a->fast_math) || b->nuses != 1 || b->shape->dtype != i->shape->dtype)
    return NULL;
  return times_reciprocal(a, i, false);
}

// convert(p) / broadcast(s) = broadcast(1/s) * convert(p), which can become a select
ALG_RULE(div_pred) {
  if (X->opcode != HLO_CONVERT || hlo_operand(X, 0)->shape->dtype != HLO_PRED || !alg_is_float(i) ||
      alg_is_tiny(i))
    return NULL;
  if (Y->opcode != HLO_BROADCAST || hlo_operand(Y, 0)->shape->rank != 0 ||
      Y->shape->dtype != i->shape->dtype)
    return NULL;
  return times_reciprocal(a, i, true);
}

ALG_RULE(div_self) {
  return alg_is_float(i) && a->fast_math && pass_alg_same(X, Y) ? pass_alg_full(a, i->shape, 1)
                                                                : NULL;
}

// ---- remainder ----------------------------------------------------------------------------------
// Unsigned by 2**k is a mask; signed takes the sign of the dividend
ALG_RULE(rem_power_of_two) {
  i64 v;
  if (!alg_is_int(i) || log2_exact(Y) < 0 || !pass_alg_splat_int(Y, &v)) return NULL;
  hlo_instr *mask = pass_alg_full_int(a, i->shape, v - 1);
  if (hlo_dtype_is_unsigned(i->shape->dtype)) return pass_alg_bin(a, HLO_AND, X, mask);
  hlo_instr *neg = pass_alg_compare(a, HLO_DIRECTION_LT, X, pass_alg_full_int(a, i->shape, 0));
  hlo_instr *mag = pass_alg_select(a, neg, pass_alg_un(a, HLO_NEGATE, X), X);
  hlo_instr *r = pass_alg_bin(a, HLO_AND, mag, mask);
  return pass_alg_select(a, neg, pass_alg_un(a, HLO_NEGATE, r), r);
}

// (A % B) % B = A % B
ALG_RULE(rem_rem) {
  (void)a;
  return X->opcode == HLO_REMAINDER && hlo_operand(X, 1) == Y ? X : NULL;
}

static bool iota_below(const hlo_instr *i, i64 limit) {
  return i->opcode == HLO_IOTA && alg_is_int(i) &&
         i->shape->dims[hlo_attr_int(i, HLO_ATTR_IOTA_DIMENSION, 0)] <= limit;
}

// iota % N = iota when the iota stays below N; (iota + N) % N = iota % N when the sum cannot wrap
ALG_RULE(rem_iota) {
  i64 n, c;
  if (!alg_is_int(i) || !pass_alg_splat_int(Y, &n) || n <= 0) return NULL;
  if (iota_below(X, n)) return X;
  if (X->opcode != HLO_ADD) return NULL;
  hlo_instr *io = hlo_operand(X, 0), *other = hlo_operand(X, 1);
  if (io->opcode != HLO_IOTA) io = other, other = hlo_operand(X, 0);
  if (io->opcode != HLO_IOTA || !pass_alg_splat_int(other, &c) || c != n ||
      !iota_below(io, pass_alg_top_of(i->shape->dtype) - n))
    return NULL;
  return pass_alg_bin(a, HLO_REMAINDER, io, Y);
}

// ---- power, exp, log, roots ---------------------------------------------------------------------
ALG_RULE(pow_simple) {
  double e;
  if (!pass_alg_splat(Y, &e)) return NULL;
  hlo_instr *x = X;
  if (e == 0) return alg_is_complex(i) ? NULL : pass_alg_full(a, i->shape, 1);
  if (e == 1) return x;
  if (x->opcode == HLO_EXP) return NULL;  // pow_exp does better
  if (e == 2) return pass_alg_bin(a, HLO_MULTIPLY, x, x);
  if (e == 3) return pass_alg_bin(a, HLO_MULTIPLY, x, pass_alg_bin(a, HLO_MULTIPLY, x, x));
  if (e == -1 && !alg_is_complex(i) && !alg_is_int(i))
    return pass_alg_bin(a, HLO_DIVIDE, pass_alg_full(a, i->shape, 1), x);
  return NULL;
}

// pow(A, 0.5) = sqrt(A) for A known to be >= 0
ALG_RULE(pow_half) {
  return alg_is_float(i) && pass_alg_all(Y, 0.5) && pass_alg_nonnegative(a, X)
             ? pass_alg_un(a, HLO_SQRT, X)
             : NULL;
}

// pow(exp(A), B) = exp(A*B)
ALG_RULE(pow_exp) {
  if (X->opcode != HLO_EXP || alg_is_tiny(i)) return NULL;
  return pass_alg_un(a, HLO_EXP, pass_alg_bin(a, HLO_MULTIPLY, hlo_operand(X, 0), Y));
}

// pow(pow(A, B), C) = pow(A, B*C) for real A known to be >= 0
ALG_RULE(pow_pow) {
  if (!alg_is_float(i) || alg_is_tiny(i) || X->opcode != HLO_POWER ||
      !pass_alg_nonnegative(a, hlo_operand(X, 0)))
    return NULL;
  return pass_alg_bin(a, HLO_POWER, hlo_operand(X, 0),
                      pass_alg_bin(a, HLO_MULTIPLY, hlo_operand(X, 1), Y));
}

ALG_RULE(exp_zero) { return pass_alg_all(X, 0) ? pass_alg_full(a, i->shape, 1) : NULL; }

// ln(exp(A)) = A; infinite where exp overflows, hence fast math
ALG_RULE(log_exp) { return a->fast_math && X->opcode == HLO_EXP ? hlo_operand(X, 0) : NULL; }

// ln(pow(A, B)) = B*ln|A|, and 0 where B = 0 (also for A = 0)
ALG_RULE(log_pow) {
  if (X->opcode != HLO_POWER || alg_is_complex(i) || alg_is_tiny(i)) return NULL;
  hlo_instr *x = hlo_operand(X, 0), *e = hlo_operand(X, 1);
  hlo_instr *zero = pass_alg_full(a, i->shape, 0);
  hlo_instr *l =
      pass_alg_un(a, HLO_LOG, pass_alg_nonnegative(a, x) ? x : pass_alg_un(a, HLO_ABS, x));
  hlo_instr *prod = pass_alg_bin(a, HLO_MULTIPLY, l, e);
  return pass_alg_select(a, pass_alg_compare(a, HLO_DIRECTION_EQ, e, zero), zero, prod);
}

// ln(sqrt(A)) = ln(A)/2, ln(rsqrt(A)) = -ln(A)/2; true of the principal values of complex numbers,
// too
ALG_RULE(log_sqrt) {
  if (X->opcode != HLO_SQRT && X->opcode != HLO_RSQRT) return NULL;
  double f = X->opcode == HLO_SQRT ? 0.5 : -0.5;
  return pass_alg_bin(a, HLO_MULTIPLY, pass_alg_un(a, HLO_LOG, hlo_operand(X, 0)),
                      pass_alg_full(a, i->shape, f));
}

// sqrt(A*A) = |A|; wrong where A*A overflows, hence fast math
ALG_RULE(sqrt_square) {
  if (!a->fast_math || !alg_is_float(i) || X->opcode != HLO_MULTIPLY ||
      hlo_operand(X, 0) != hlo_operand(X, 1))
    return NULL;
  return pass_alg_un(a, HLO_ABS, hlo_operand(X, 0));
}

// rsqrt(pow(A, -2)) = A for A known to be >= 0
ALG_RULE(rsqrt_power) {
  if (!alg_is_float(i) || alg_is_tiny(i) || X->opcode != HLO_POWER ||
      !pass_alg_all(hlo_operand(X, 1), -2))
    return NULL;
  return pass_alg_nonnegative(a, hlo_operand(X, 0)) ? hlo_operand(X, 0) : NULL;
}

// rsqrt(1/A) = sqrt(A) for A known to be >= 0
ALG_RULE(rsqrt_reciprocal) {
  if (!alg_is_float(i) || alg_is_tiny(i) || X->opcode != HLO_DIVIDE ||
      !pass_alg_all(hlo_operand(X, 0), 1) || !pass_alg_nonnegative(a, hlo_operand(X, 1)))
    return NULL;
  return pass_alg_un(a, HLO_SQRT, hlo_operand(X, 1));
}
