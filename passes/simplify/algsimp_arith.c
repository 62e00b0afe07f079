// algsimp_arith.c — addition, subtraction, multiplication, signs, minimum and maximum.
//
// Constants are moved to the right operand and combined, so that constant folding applies to them.
// Floating-point results change only by reassociation of constants and by factoring out powers of
// two, as in XLA.
#include "passes/simplify/algsimp.h"

#define X hlo_operand(i, 0)
#define Y hlo_operand(i, 1)

static bool const_like(const hlo_instr *i) {
  return i->opcode == HLO_CONSTANT ||
         (i->opcode == HLO_BROADCAST && hlo_operand(i, 0)->opcode == HLO_CONSTANT);
}

// A constant, or a broadcast of a scalar one.
static bool plain_const(const hlo_instr *i) {
  return i->opcode == HLO_CONSTANT || (const_like(i) && hlo_operand(i, 0)->shape->rank == 0);
}

static hlo_instr *merged(alg *a, hlo_instr *i) {
  while (a->merged.n <= i->id - a->born) hs_vec_push(&a->merged, 0);
  a->merged.v[i->id - a->born] = 1;
  return i;
}

// Whether it was created by merging constants in this run: merging it again need not wait for
// constant folding, so a chain of n constants takes one run instead of log n.
static bool is_merged(const alg *a, const hlo_instr *i) {
  if (i->opcode == HLO_BROADCAST) i = hlo_operand(i, 0);
  return i->id >= a->born && i->id - a->born < a->merged.n && a->merged.v[i->id - a->born];
}

// op(c1, c2) of two constants or broadcasts of scalar constants: computed before it is broadcast.
static hlo_instr *merge_constants(alg *a, hlo_opcode op, hlo_instr *c1, hlo_instr *c2) {
  const hlo_shape *shape = c1->shape;
  if (c1->opcode == HLO_BROADCAST && c2->opcode == HLO_BROADCAST &&
      hlo_operand(c1, 0)->shape->rank == 0 && hlo_operand(c2, 0)->shape->rank == 0)
    return pass_alg_spread(
        a, merged(a, pass_alg_bin(a, op, hlo_operand(c1, 0), hlo_operand(c2, 0))), shape);
  return merged(a, pass_alg_bin(a, op, c1, c2));
}

static bool mergeable(const alg *a, const hlo_instr *c1, const hlo_instr *c2) {
  return !alg_is_tiny(c1) && (plain_const(c1) || is_merged(a, c1)) &&
         (plain_const(c2) || is_merged(a, c2)) && c1->shape->dtype == c2->shape->dtype;
}

// ---- add ----------------------------------------------------------------------------------------
ALG_RULE(add_zero) {
  (void)a;
  return pass_alg_all(Y, 0) ? X : pass_alg_all(X, 0) ? Y : NULL;
}

ALG_RULE(constant_right) {
  (void)a;
  if (X->opcode != HLO_CONSTANT || Y->opcode == HLO_CONSTANT) return NULL;
  hlo_set_operands(i, 2, (hlo_instr *[]){Y, X});
  return i;
}

// (A op C1) op C2 = A op (C1 op C2), for add and multiply, with the constants on whichever side
ALG_RULE(regroup_constants) {
  for (u32 k = 2; k-- > 0;) {
    hlo_instr *c2 = hlo_operand(i, k), *in = hlo_operand(i, 1 - k);
    for (u32 j = 2; j-- > 0 && in->opcode == i->opcode;) {
      hlo_instr *c1 = hlo_operand(in, j), *v = hlo_operand(in, 1 - j);
      if (!mergeable(a, c1, c2) || is_merged(a, v) ||
          (const_like(v) && (c1->opcode == HLO_CONSTANT || c2->opcode == HLO_CONSTANT)))
        continue;
      return pass_alg_bin(a, i->opcode, v, merge_constants(a, i->opcode, c1, c2));
    }
  }
  return NULL;
}

// (C1 - A) + C2 = (C1 + C2) - A
ALG_RULE(add_sub_constants) {
  for (u32 k = 2; k-- > 0;) {
    hlo_instr *in = hlo_operand(i, 1 - k), *c = hlo_operand(i, k);
    if (in->opcode != HLO_SUBTRACT || const_like(hlo_operand(in, 1)) ||
        !mergeable(a, hlo_operand(in, 0), c))
      continue;
    return pass_alg_bin(a, HLO_SUBTRACT, merge_constants(a, HLO_ADD, hlo_operand(in, 0), c),
                        hlo_operand(in, 1));
  }
  return NULL;
}

// A + C with one user, C on whichever side (*at). Not C1 + C2, nor (C1 + C2) + C3: such a sum is a
// constant that regroup_constants has just made.
static bool plus_constant(const alg *a, const hlo_instr *i, u32 *at) {
  if (i->opcode != HLO_ADD || i->nuses != 1 || is_merged(a, i)) return false;
  *at = const_like(hlo_operand(i, 1));
  return const_like(hlo_operand(i, *at)) && !const_like(hlo_operand(i, 1 - *at));
}

// (A + C) + B = (A + B) + C: constants travel outwards
ALG_RULE(add_constant_outwards) {
  hlo_instr *in = X, *other = Y;
  u32 at;
  if (!alg_is_int(i)) return NULL;
  if (!plus_constant(a, in, &at)) in = Y, other = X;
  if (!plus_constant(a, in, &at) || const_like(other)) return NULL;
  return pass_alg_bin(a, HLO_ADD, pass_alg_bin(a, HLO_ADD, hlo_operand(in, 1 - at), other),
                      hlo_operand(in, at));
}

// (A - B) + B = A; exact for integers only
ALG_RULE(add_sub_same) {
  if (!(alg_is_int(i) || (a->fast_math && !alg_is_pred(i)))) return NULL;
  hlo_instr *x = X, *y = Y;
  if (x->opcode == HLO_SUBTRACT && pass_alg_same(hlo_operand(x, 1), y)) return hlo_operand(x, 0);
  if (y->opcode == HLO_SUBTRACT && pass_alg_same(hlo_operand(y, 1), x)) return hlo_operand(y, 0);
  return NULL;
}

static bool power_of_two(const hlo_instr *c) {
  double v;
  int e;
  return pass_alg_splat(c, &v) && v != 0 && isfinite(v) && fabs(frexp(v, &e)) == 0.5;
}

// A*C + B*C = (A + B)*C where that is exact: integers, or C a power of two
ALG_RULE(factor_sum) {
  hlo_instr *x = X, *y = Y;
  if (x->opcode != HLO_MULTIPLY || y->opcode != HLO_MULTIPLY || !alg_one_use(x) ||
      !alg_one_use(y) || x == y)
    return NULL;
  if (alg_is_complex(i) || alg_is_tiny(i) || i->opcode == HLO_XOR) return NULL;
  for (u32 p = 0; p < 2; p++)
    for (u32 q = 0; q < 2; q++) {
      hlo_instr *c = hlo_operand(x, p);
      if (!pass_alg_same(c, hlo_operand(y, q)) ||
          !(alg_is_int(i) || a->floats_are_real || power_of_two(c)))
        continue;
      hlo_instr *sum = pass_alg_bin(a, i->opcode, hlo_operand(x, 1 - p), hlo_operand(y, 1 - q));
      return pass_alg_bin(a, HLO_MULTIPLY, sum, c);
    }
  return NULL;
}

// A + (-B) = A - B
ALG_RULE(add_negate) {
  if (!alg_is_float(i) && !alg_is_int(i)) return NULL;
  if (Y->opcode == HLO_NEGATE && alg_one_use(Y) && !const_like(hlo_operand(Y, 0)))
    return pass_alg_bin(a, HLO_SUBTRACT, X, hlo_operand(Y, 0));
  return NULL;
}

// ---- subtract -----------------------------------------------------------------------------------
ALG_RULE(sub_zero) {
  (void)a;
  return pass_alg_all(Y, 0) ? X : NULL;
}

ALG_RULE(sub_self) {
  if (!pass_alg_same(X, Y) || !(alg_is_int(i) || a->fast_math)) return NULL;
  return alg_is_complex(i) ? NULL : pass_alg_full(a, i->shape, 0);
}

// A - C = A + (-C)
ALG_RULE(sub_constant) {
  if (const_like(X) || !const_like(Y) || alg_is_pred(i)) return NULL;
  hlo_instr *c = Y, *inner = c->opcode == HLO_BROADCAST ? hlo_operand(c, 0) : c;
  hlo_instr *minus = pass_alg_un(a, HLO_NEGATE, inner);
  if (c->opcode == HLO_BROADCAST) {
    hlo_ints d = alg_dims(c);
    minus = pass_alg_broadcast(a, minus, c->shape, d.n, d.v);
  }
  return pass_alg_bin(a, HLO_ADD, X, minus);
}

// (A + B) - A = B, A - (A + B) = -B, A - (A - B) = B; exact for integers only
ALG_RULE(sub_add_same) {
  if (!(alg_is_int(i) || (a->fast_math && !alg_is_pred(i)))) return NULL;
  for (u32 k = 0; X->opcode == HLO_ADD && k < 2; k++)
    if (pass_alg_same(hlo_operand(X, k), Y)) return hlo_operand(X, 1 - k);
  for (u32 k = 0; Y->opcode == HLO_ADD && k < 2; k++)
    if (pass_alg_same(hlo_operand(Y, k), X))
      return pass_alg_un(a, HLO_NEGATE, hlo_operand(Y, 1 - k));
  return Y->opcode == HLO_SUBTRACT && pass_alg_same(hlo_operand(Y, 0), X) ? hlo_operand(Y, 1)
                                                                          : NULL;
}

// A - (-B) = A + B
ALG_RULE(sub_negate) {
  return Y->opcode == HLO_NEGATE ? pass_alg_bin(a, HLO_ADD, X, hlo_operand(Y, 0)) : NULL;
}

// ---- multiply -----------------------------------------------------------------------------------
ALG_RULE(mul_one) {
  (void)a;
  return pass_alg_all(Y, 1) ? X : pass_alg_all(X, 1) ? Y : NULL;
}

ALG_RULE(mul_zero) {
  if (!alg_is_int(i) && !a->fast_math) return NULL;
  return pass_alg_all(Y, 0) ? Y : pass_alg_all(X, 0) ? X : NULL;
}

// A * -1 = -A
ALG_RULE(mul_minus_one) {
  i64 v;
  for (u32 k = 0; k < 2; k++) {
    hlo_instr *c = hlo_operand(i, k);
    if ((alg_is_float(i) && pass_alg_all(c, -1)) ||
        (hlo_dtype_is_signed(i->shape->dtype) && pass_alg_splat_int(c, &v) && v == -1))
      return pass_alg_un(a, HLO_NEGATE, hlo_operand(i, 1 - k));
  }
  return NULL;
}

// (-A) * (-B) = A * B
ALG_RULE(mul_negatives) {
  if (X->opcode != HLO_NEGATE || Y->opcode != HLO_NEGATE) return NULL;
  return pass_alg_bin(a, HLO_MULTIPLY, hlo_operand(X, 0), hlo_operand(Y, 0));
}

// |A| * |A| = A * A
ALG_RULE(mul_abs_self) {
  if (X != Y || X->opcode != HLO_ABS || hlo_dtype_is_complex(hlo_operand(X, 0)->shape->dtype))
    return NULL;
  return pass_alg_bin(a, HLO_MULTIPLY, hlo_operand(X, 0), hlo_operand(X, 0));
}

// sqrt(A) * sqrt(A) = A and rsqrt(A) * rsqrt(A) = 1/A for A >= 0
ALG_RULE(mul_sqrt_self) {
  if (X->opcode != Y->opcode || !alg_is_float(i) ||
      (X->opcode != HLO_SQRT && X->opcode != HLO_RSQRT))
    return NULL;
  hlo_instr *v = hlo_operand(X, 0);
  if (v != hlo_operand(Y, 0) || !pass_alg_nonnegative(a, v)) return NULL;
  return X->opcode == HLO_SQRT ? v : pass_alg_bin(a, HLO_DIVIDE, pass_alg_full(a, i->shape, 1), v);
}

// exp(A) * exp(B) = exp(A + B)
ALG_RULE(mul_exp) {
  if (X->opcode != HLO_EXP || Y->opcode != HLO_EXP || alg_is_tiny(i)) return NULL;
  return pass_alg_un(a, HLO_EXP, pass_alg_bin(a, HLO_ADD, hlo_operand(X, 0), hlo_operand(Y, 0)));
}

// The constant of A * C, whichever side it is on, with A in *rest; NULL when there is none, or only
// constants.
static hlo_instr *constant_factor(const hlo_instr *m, hlo_instr **rest) {
  if (m->opcode != HLO_MULTIPLY) return NULL;
  for (u32 k = 2; k-- > 0;) {
    *rest = hlo_operand(m, 1 - k);
    if (plain_const(hlo_operand(m, k)) && !const_like(*rest)) return hlo_operand(m, k);
  }
  return NULL;
}

// (A * C1) * (B * C2) = (A * B) * (C1 * C2)
ALG_RULE(mul_chain) {
  hlo_instr *x = X, *y = Y, *v, *w;
  if (x == y || !alg_one_use(x) || !alg_one_use(y)) return NULL;
  hlo_instr *c1 = constant_factor(x, &v), *c2 = constant_factor(y, &w);
  if (!c1 || !c2 || !mergeable(a, c1, c2)) return NULL;
  hlo_instr *ab = pass_alg_bin(a, HLO_MULTIPLY, v, w);
  return pass_alg_bin(a, HLO_MULTIPLY, ab, merge_constants(a, HLO_MULTIPLY, c1, c2));
}

// (A * C) * broadcast(B) = A * broadcast(B * C) for a scalar constant C: the smaller array takes
// the factor
ALG_RULE(mul_broadcast_constant) {
  if (alg_is_tiny(i)) return NULL;
  for (u32 k = 0; k < 2; k++) {
    hlo_instr *m = hlo_operand(i, k), *b = hlo_operand(i, 1 - k);
    if (m->opcode != HLO_MULTIPLY || b->opcode != HLO_BROADCAST || const_like(b)) continue;
    for (u32 j = 0; j < 2; j++) {
      hlo_instr *c = hlo_operand(m, j), *v = hlo_operand(m, 1 - j),
                *scalar = c->opcode == HLO_BROADCAST ? hlo_operand(c, 0) : c,
                *s = hlo_operand(b, 0);
      if (scalar->opcode != HLO_CONSTANT || scalar->shape->rank != 0 || v->opcode == HLO_CONSTANT ||
          scalar->shape->dtype != s->shape->dtype)
        continue;
      hlo_instr *p = pass_alg_bin(a, HLO_MULTIPLY, s, pass_alg_spread(a, scalar, s->shape));
      hlo_ints d = alg_dims(b);
      return pass_alg_bin(a, HLO_MULTIPLY, v, pass_alg_broadcast(a, p, b->shape, d.n, d.v));
    }
  }
  return NULL;
}

// A * convert(pred) = select(pred, A, 0); with a float A this drops a NaN or infinity times zero,
// as XLA does
ALG_RULE(mul_pred) {
  for (u32 k = 0; k < 2; k++) {
    hlo_instr *c = hlo_operand(i, k), *v = hlo_operand(i, 1 - k);
    if (c->opcode != HLO_CONVERT || hlo_operand(c, 0)->shape->dtype != HLO_PRED ||
        alg_is_complex(i))
      continue;
    return pass_alg_select(a, hlo_operand(c, 0), v, pass_alg_full(a, i->shape, 0));
  }
  return NULL;
}

// ---- signs --------------------------------------------------------------------------------------
ALG_RULE(negate_negate) {
  (void)a;
  return X->opcode == HLO_NEGATE ? hlo_operand(X, 0) : NULL;
}

// -(A - B) = B - A; not for floats, where it turns -0 into +0
ALG_RULE(negate_sub) {
  if (!alg_is_int(i) || X->opcode != HLO_SUBTRACT || !alg_one_use(X)) return NULL;
  return pass_alg_bin(a, HLO_SUBTRACT, hlo_operand(X, 1), hlo_operand(X, 0));
}

ALG_RULE(abs_nonnegative) {
  return hlo_dtype_is_unsigned(i->shape->dtype) || pass_alg_nonnegative(a, X) ? X : NULL;
}

ALG_RULE(abs_negate) {
  return X->opcode == HLO_NEGATE
             ? pass_alg_add(a, HLO_ABS, i->shape, 1, (hlo_instr *[]){hlo_operand(X, 0)})
             : NULL;
}

// Rounding an integral value.
ALG_RULE(round_twice) {
  (void)a;
  switch (X->opcode) {
  case HLO_FLOOR:
  case HLO_CEIL:
  case HLO_ROUND_AFZ:
  case HLO_ROUND_EVEN: return X;
  default: return NULL;
  }
}

// ---- minimum, maximum ---------------------------------------------------------------------------
ALG_RULE(minmax_self) {
  (void)a;
  return pass_alg_same(X, Y) ? X : NULL;
}

// max(max(A, B), B) = max(A, B), any order
ALG_RULE(minmax_nested) {
  for (u32 k = 0; k < 2; k++) {
    hlo_instr *in = hlo_operand(i, k), *o = hlo_operand(i, 1 - k);
    if (in->opcode != i->opcode || (hlo_operand(in, 0) != o && hlo_operand(in, 1) != o)) continue;
    if (k == 0 || hlo_operand(in, 0) == o) return in;
    // in this order: it decides which of two NaNs is taken
    return pass_alg_bin(a, i->opcode, o, hlo_operand(in, 0));
  }
  return NULL;
}

// max(A, lowest) = A and max(A, highest) = highest (the latter not for floats: NaN); the same for
// min
ALG_RULE(minmax_bound) {
  if (alg_is_float(i) && !a->minmax_nan) return NULL;
  hlo_opcode other = i->opcode == HLO_MAXIMUM ? HLO_MINIMUM : HLO_MAXIMUM;
  for (u32 k = 0; k < 2; k++) {
    hlo_instr *c = hlo_operand(i, k), *v = hlo_operand(i, 1 - k);
    if (pass_alg_is_identity(i->opcode, c)) return v;
    if (!alg_is_float(i) && pass_alg_is_identity(other, c)) return c;
  }
  return NULL;
}

// max(min(A, C1), C2) with C2 < C1 repeated is clamp(C2, A, C1); so is min(max(A, C2), C1)
ALG_RULE(minmax_clamp) {
  bool max_outside = i->opcode == HLO_MAXIMUM;
  hlo_opcode inner = max_outside ? HLO_MINIMUM : HLO_MAXIMUM;
  hlo_instr *in = X->opcode == inner ? X : Y, *c = in == X ? Y : X;
  if (in->opcode != inner || alg_is_complex(i) || alg_is_pred(i)) return NULL;
  // neither a double nor an i64 tells all of them apart
  if (i->shape->dtype == HLO_U64) return NULL;
  double l, h;
  i64 il, ih;
  for (u32 k = 0; k < 2; k++) {
    hlo_instr *v = hlo_operand(in, k), *d = hlo_operand(in, 1 - k), *lo = max_outside ? c : d,
              *hi = max_outside ? d : c;
    if (lo->opcode != HLO_BROADCAST || hi->opcode != HLO_BROADCAST || !pass_alg_splat(lo, &l) ||
        !pass_alg_splat(hi, &h) || !(l <= h))
      continue;
    if (pass_alg_splat_int(lo, &il) && pass_alg_splat_int(hi, &ih) ? il >= ih : l == h) continue;
    return pass_alg_add(a, HLO_CLAMP, i->shape, 3, (hlo_instr *[]){lo, v, hi});
  }
  return NULL;
}

// max(clamp(lo, A, hi), lo) = clamp(lo, A, hi)
ALG_RULE(max_of_clamp) {
  (void)a;
  for (u32 k = 0; k < 2; k++) {
    hlo_instr *c = hlo_operand(i, k);
    if (c->opcode == HLO_CLAMP && hlo_operand(c, 0) == hlo_operand(i, 1 - k)) return c;
  }
  return NULL;
}

// max(f(A), f(B)) = f(max(A, B)) for monotonic f that never exceeds its argument, so that
// nothing overflows
ALG_RULE(max_sink) {
  switch (X->opcode) {
  case HLO_CBRT:
  case HLO_ERF:
  case HLO_LOGISTIC:
  case HLO_TANH: break;
  default: return NULL;
  }
  if (X->opcode != Y->opcode || !alg_is_float(i) ||
      hlo_operand(X, 0)->shape != hlo_operand(Y, 0)->shape)
    return NULL;
  hlo_instr *m = pass_alg_bin(a, HLO_MAXIMUM, hlo_operand(X, 0), hlo_operand(Y, 0));
  return pass_alg_like(a, X, i->shape, 1, &m);
}

// ---- complex ------------------------------------------------------------------------------------
ALG_RULE(complex_parts) {
  (void)a;
  if (X->opcode != HLO_REAL || Y->opcode != HLO_IMAG || hlo_operand(X, 0) != hlo_operand(Y, 0))
    return NULL;
  return hlo_operand(X, 0);
}

ALG_RULE(real_of) {
  (void)a;
  if (X->opcode == HLO_COMPLEX) return hlo_operand(X, 0);
  return alg_is_complex(X) ? NULL : X;
}

ALG_RULE(imag_of) {
  if (X->opcode == HLO_COMPLEX) return hlo_operand(X, 1);
  return alg_is_complex(X) ? NULL : pass_alg_full(a, i->shape, 0);
}
