// algsimp_logic.c — bitwise and logical operations, comparisons, select and clamp.
#include "passes/simplify/algsimp.h"

#define X hlo_operand(i, 0)
#define Y hlo_operand(i, 1)

// ---- and, or, xor, not --------------------------------------------------------------------------
ALG_RULE(and_simple) {
  (void)a;
  if (pass_alg_same(X, Y)) return X;
  for (u32 k = 0; k < 2; k++) {
    hlo_instr *c = hlo_operand(i, k), *v = hlo_operand(i, 1 - k);
    if (pass_alg_is_identity(HLO_AND, c)) return v;
    if (pass_alg_all(c, 0)) return c;
  }
  return NULL;
}

ALG_RULE(or_simple) {
  (void)a;
  if (pass_alg_same(X, Y)) return X;
  for (u32 k = 0; k < 2; k++) {
    hlo_instr *c = hlo_operand(i, k), *v = hlo_operand(i, 1 - k);
    if (pass_alg_all(c, 0)) return v;
    if (pass_alg_is_identity(HLO_AND, c)) return c;
  }
  return NULL;
}

// The same operation on the same operands, which gives the same again.
static bool twins(alg *a, const hlo_instr *x, const hlo_instr *y) {
  if (x->opcode != y->opcode || x->shape != y->shape || x->noperands != y->noperands ||
      x->noperands == 0)
    return false;
  for (u32 k = 0; k < x->noperands; k++)
    if (hlo_operand(x, k) != hlo_operand(y, k)) return false;
  return !hlo_has_side_effect(x) && x->opcode != HLO_RNG &&
         pass_attrs_equal(x, y, true, a->p->scratch);
}

ALG_RULE(xor_simple) {
  if (pass_alg_all(Y, 0)) return X;
  if (pass_alg_all(X, 0)) return Y;
  return pass_alg_same(X, Y) || twins(a, X, Y) ? pass_alg_full_int(a, i->shape, 0) : NULL;
}

// (x < c1) and (x < c2) = x < min(c1, c2), reversed comparisons too
ALG_RULE(and_compares) {
  hlo_instr *p = X, *q = Y;
  if (p->opcode != HLO_COMPARE || q->opcode != HLO_COMPARE) return NULL;
  hlo_instr *v[2], *c[2];
  i64 k[2];
  hlo_instr *cmp[2] = {p, q};
  for (u32 n = 0; n < 2; n++) {
    v[n] = hlo_operand(cmp[n], 0), c[n] = hlo_operand(cmp[n], 1);
    bool lt = hlo_attr_int(cmp[n], HLO_ATTR_DIRECTION, 0) == HLO_DIRECTION_LT &&
              pass_alg_splat_int(c[n], &k[n]);
    if (!lt) {
      v[n] = hlo_operand(cmp[n], 1), c[n] = hlo_operand(cmp[n], 0);
      if (hlo_attr_int(cmp[n], HLO_ATTR_DIRECTION, 0) != HLO_DIRECTION_GT ||
          !pass_alg_splat_int(c[n], &k[n]))
        return NULL;
    }
  }
  if (v[0] != v[1] || !hlo_dtype_is_signed(v[0]->shape->dtype)) return NULL;
  u32 least = k[0] <= k[1] ? 0 : 1;
  if (hlo_operand(cmp[least], 0) == v[least]) return cmp[least];
  return pass_alg_compare(a, HLO_DIRECTION_LT, v[least], c[least]);
}

ALG_RULE(not_not) {
  (void)a;
  return X->opcode == HLO_NOT ? hlo_operand(X, 0) : NULL;
}

static int inverse(int d) {
  static const int inv[] = {
      [HLO_DIRECTION_EQ] = HLO_DIRECTION_NE, [HLO_DIRECTION_NE] = HLO_DIRECTION_EQ,
      [HLO_DIRECTION_GE] = HLO_DIRECTION_LT, [HLO_DIRECTION_GT] = HLO_DIRECTION_LE,
      [HLO_DIRECTION_LE] = HLO_DIRECTION_GT, [HLO_DIRECTION_LT] = HLO_DIRECTION_GE};
  return inv[d];
}

// not(A < B) = A >= B; with floats only for = and !=, the others differ at NaN
ALG_RULE(not_compare) {
  if (X->opcode != HLO_COMPARE || !alg_one_use(X)) return NULL;
  int d = (int)hlo_attr_int(X, HLO_ATTR_DIRECTION, 0);
  hlo_dtype t = hlo_operand(X, 0)->shape->dtype;
  if (!(hlo_dtype_is_integer(t) || t == HLO_PRED || d == HLO_DIRECTION_EQ || d == HLO_DIRECTION_NE))
    return NULL;
  hlo_instr *c = pass_alg_compare(a, inverse(d), hlo_operand(X, 0), hlo_operand(X, 1));
  const hlo_attr *type = hlo_attr_get(X, HLO_ATTR_COMPARE_TYPE);
  if (type) hlo_set_attr(c, *type);
  return c;
}

ALG_RULE(shift_zero) {
  (void)a;
  return pass_alg_all(Y, 0) ? X : NULL;
}

// ---- compare ------------------------------------------------------------------------------------
// Operands equal: known for everything without NaN
ALG_RULE(compare_self) {
  if (!pass_alg_same(X, Y)) return NULL;
  if (!alg_is_int(X) && !alg_is_pred(X)) return NULL;
  i64 d = hlo_attr_int(i, HLO_ATTR_DIRECTION, 0);
  return pass_alg_full_int(a, i->shape,
                           d == HLO_DIRECTION_EQ || d == HLO_DIRECTION_GE || d == HLO_DIRECTION_LE);
}

// Unsigned x < 0 is false, x >= 0 true, and the same written the other way round
ALG_RULE(compare_unsigned_zero) {
  if (!hlo_dtype_is_unsigned(X->shape->dtype)) return NULL;
  i64 d = hlo_attr_int(i, HLO_ATTR_DIRECTION, 0);
  if (pass_alg_all(Y, 0) && (d == HLO_DIRECTION_LT || d == HLO_DIRECTION_GE))
    return pass_alg_full_int(a, i->shape, d == HLO_DIRECTION_GE);
  if (pass_alg_all(X, 0) && (d == HLO_DIRECTION_GT || d == HLO_DIRECTION_LE))
    return pass_alg_full_int(a, i->shape, d == HLO_DIRECTION_LE);
  return NULL;
}

// A value that is never negative: A < 0 is false, A >= 0 is true (of floats only where no NaN can
// come from)
ALG_RULE(compare_nonnegative) {
  i64 d = hlo_attr_int(i, HLO_ATTR_DIRECTION, 0);
  for (u32 k = 0; k < 2; k++) {
    hlo_instr *v = hlo_operand(i, k);
    if (d != (k ? HLO_DIRECTION_GT : HLO_DIRECTION_LT) &&
        d != (k ? HLO_DIRECTION_LE : HLO_DIRECTION_GE))
      continue;
    bool holds = d == HLO_DIRECTION_LE || d == HLO_DIRECTION_GE;
    if (!pass_alg_all(hlo_operand(i, 1 - k), 0) || !pass_alg_nonnegative(a, v) ||
        (holds && alg_is_float(v) && !a->fast_math))
      continue;
    return pass_alg_full_int(a, i->shape, holds);
  }
  return NULL;
}

// A value that is never negative: iota >= 0 is true, iota < 0 false, iota < extent true
ALG_RULE(compare_iota) {
  i64 c, d = hlo_attr_int(i, HLO_ATTR_DIRECTION, 0);
  if (X->opcode != HLO_IOTA || !alg_is_int(X) || !pass_alg_splat_int(Y, &c)) return NULL;
  i64 n = X->shape->dims[hlo_attr_int(X, HLO_ATTR_IOTA_DIMENSION, 0)];
  i64 top = hlo_dtype_bits(X->shape->dtype) >= 64
                ? INT64_MAX
                : ((i64)1 << (hlo_dtype_bits(X->shape->dtype) - 1)) - 1;
  if (n - 1 > top || n < 1 || c < 0 - top) return NULL;
  bool always, never;
  switch (d) {
  case HLO_DIRECTION_LT: always = n - 1 < c, never = c <= 0; break;
  case HLO_DIRECTION_LE: always = n - 1 <= c, never = c < 0; break;
  case HLO_DIRECTION_GT: always = c < 0, never = c >= n - 1; break;
  case HLO_DIRECTION_GE: always = c <= 0, never = c > n - 1; break;
  default:
    always = false, never = c < 0 || c >= n;
    if (d == HLO_DIRECTION_NE) always = never, never = false;
  }
  return always || never ? pass_alg_full_int(a, i->shape, always) : NULL;
}

// p != false is p, p = true is p; p = false and p != true are not p
ALG_RULE(compare_pred) {
  if (X->shape->dtype != HLO_PRED) return NULL;
  i64 d = hlo_attr_int(i, HLO_ATTR_DIRECTION, 0);
  if (d != HLO_DIRECTION_NE && d != HLO_DIRECTION_EQ) return NULL;
  for (u32 k = 0; k < 2; k++) {
    hlo_instr *c = hlo_operand(i, k), *v = hlo_operand(i, 1 - k);
    bool t = pass_alg_all(c, 1), f = pass_alg_all(c, 0);
    if (!t && !f) continue;
    return t == (d == HLO_DIRECTION_EQ) ? v : pass_alg_un(a, HLO_NOT, v);
  }
  return NULL;
}

// A comparison of the same kind (total order or not) as another.
static hlo_instr *compare_like(alg *a, const hlo_instr *like, int direction, hlo_instr *x,
                               hlo_instr *y) {
  hlo_instr *c = pass_alg_compare(a, direction, x, y);
  const hlo_attr *type = hlo_attr_get(like, HLO_ATTR_COMPARE_TYPE);
  if (type) hlo_set_attr(c, *type);
  return c;
}

// max(a, b) > a is b > a; a > min(a, b) is a > b; with the operands swapped too. True of floats as
// well: a NaN on either side makes both forms false
ALG_RULE(compare_minmax) {
  int d = (int)hlo_attr_int(i, HLO_ATTR_DIRECTION, 0);
  hlo_instr *x = X, *y = Y;
  if (d == HLO_DIRECTION_LT) x = Y, y = X, d = HLO_DIRECTION_GT;
  if (d != HLO_DIRECTION_GT) return NULL;
  if (x->opcode == HLO_MAXIMUM && (hlo_operand(x, 0) == y || hlo_operand(x, 1) == y)) {
    hlo_instr *b = hlo_operand(x, 0) == y ? hlo_operand(x, 1) : hlo_operand(x, 0);
    return compare_like(a, i, d, b, y);
  }
  if (y->opcode == HLO_MINIMUM && (hlo_operand(y, 0) == x || hlo_operand(y, 1) == x)) {
    hlo_instr *b = hlo_operand(y, 0) == x ? hlo_operand(y, 1) : hlo_operand(y, 0);
    return compare_like(a, i, d, x, b);
  }
  return NULL;
}

// compare(select(p, c1, c2), c2) != is p when c1 != c2
ALG_RULE(compare_select) {
  hlo_instr *s = X;
  i64 d = hlo_attr_int(i, HLO_ATTR_DIRECTION, 0);
  double t, f, c;
  if (s->opcode != HLO_SELECT || (d != HLO_DIRECTION_NE && d != HLO_DIRECTION_EQ)) return NULL;
  if (!pass_alg_splat(hlo_operand(s, 1), &t) || !pass_alg_splat(hlo_operand(s, 2), &f) ||
      !pass_alg_splat(Y, &c))
    return NULL;
  if (!hlo_shape_compatible(hlo_operand(s, 0)->shape, i->shape) || t == f || (c != t && c != f))
    return NULL;
  bool direct = (c == t) == (d == HLO_DIRECTION_EQ);
  return direct ? hlo_operand(s, 0) : pass_alg_un(a, HLO_NOT, hlo_operand(s, 0));
}

// ---- select -------------------------------------------------------------------------------------
ALG_RULE(select_constant) {
  (void)a;
  hlo_instr *t = hlo_operand(i, 1), *f = hlo_operand(i, 2);
  if (pass_alg_same(t, f)) return t;
  if (pass_alg_all(X, 1)) return t;
  return pass_alg_all(X, 0) ? f : NULL;
}

ALG_RULE(select_not) {
  if (X->opcode != HLO_NOT) return NULL;
  return pass_alg_select(a, hlo_operand(X, 0), hlo_operand(i, 2), hlo_operand(i, 1));
}

// select(p, true, false) = p, select(p, false, true) = not p; with one constant: and, or
ALG_RULE(select_pred) {
  hlo_instr *p = X, *t = hlo_operand(i, 1), *f = hlo_operand(i, 2);
  if (i->shape->dtype != HLO_PRED || !hlo_shape_compatible(p->shape, i->shape)) return NULL;
  bool t1 = pass_alg_all(t, 1), t0 = pass_alg_all(t, 0), f1 = pass_alg_all(f, 1),
       f0 = pass_alg_all(f, 0);
  if (t1 && f0) return p;
  if (t0 && f1) return pass_alg_un(a, HLO_NOT, p);
  if (t1) return pass_alg_bin(a, HLO_OR, p, f);
  if (f0) return pass_alg_bin(a, HLO_AND, p, t);
  return NULL;
}

// select(p op q, p, q) over predicates: what the comparison already says
ALG_RULE(select_compare_pred) {
  hlo_instr *c = X, *t = hlo_operand(i, 1), *f = hlo_operand(i, 2);
  if (i->shape->dtype != HLO_PRED || c->opcode != HLO_COMPARE || hlo_operand(c, 0) != t ||
      hlo_operand(c, 1) != f)
    return NULL;
  switch (hlo_attr_int(c, HLO_ATTR_DIRECTION, 0)) {
  case HLO_DIRECTION_GT:
  case HLO_DIRECTION_GE: return pass_alg_bin(a, HLO_OR, t, f);
  case HLO_DIRECTION_LT:
  case HLO_DIRECTION_LE: return pass_alg_bin(a, HLO_AND, t, f);
  case HLO_DIRECTION_EQ: return f;
  default: return t;
  }
}

// select(p, select(p, a, b), c) = select(p, a, c), and on the other side
ALG_RULE(select_select) {
  hlo_instr *p = X, *t = hlo_operand(i, 1), *f = hlo_operand(i, 2);
  if (t->opcode == HLO_SELECT && hlo_operand(t, 0) == p)
    return pass_alg_select(a, p, hlo_operand(t, 1), f);
  if (f->opcode == HLO_SELECT && hlo_operand(f, 0) == p)
    return pass_alg_select(a, p, t, hlo_operand(f, 2));
  return NULL;
}

// ---- clamp --------------------------------------------------------------------------------------
// clamp(lo, clamp(lo, x, hi), hi) = clamp(lo, x, hi)
ALG_RULE(clamp_clamp) {
  (void)a;
  hlo_instr *in = hlo_operand(i, 1);
  if (in->opcode != HLO_CLAMP || !pass_alg_same(hlo_operand(in, 0), X) ||
      !pass_alg_same(hlo_operand(in, 2), hlo_operand(i, 2)))
    return NULL;
  return in;
}

// clamp(0, replica-id, C): the id is below the number of devices
ALG_RULE(clamp_device_id) {
  hlo_instr *id = hlo_operand(i, 1);
  i64 lo, hi;
  if ((id->opcode != HLO_REPLICA_ID && id->opcode != HLO_PARTITION_ID) ||
      !pass_alg_splat_int(X, &lo) || lo != 0 || !pass_alg_splat_int(hlo_operand(i, 2), &hi))
    return NULL;
  bool replicas = id->opcode == HLO_REPLICA_ID;
  i64 n = hlo_module_int(a->m, replicas ? HLO_ATTR_REPLICA_COUNT : HLO_ATTR_NUM_PARTITIONS, 1);
  return n > 1 && n <= hi + 1 ? id : NULL;
}
