// sort_keys.c — what a sort's comparator compares. See sort_keys.h.
//
// Known forms: a comparison of two parameters; of both made canonical, as JAX has it (zeros made
// +0, NaNs made one NaN, then total order); of the integers that XLA makes of floats for their
// total order; and several of these, the next one where the one before says equal.
#include "core/analysis/sort_keys.h"

#include "core/types/literal.h"

static bool has_order(hlo_dtype t) {
  return t == HLO_F32 || t == HLO_F64 || t == HLO_F16 || t == HLO_BF16 || hlo_dtype_is_integer(t) ||
         t == HLO_PRED;
}

static bool const_is(const hlo_instr *i, double v) {
  if (i->opcode != HLO_CONSTANT || !hlo_shape_is_scalar(i->shape) || !hlo_constant_value(i)->data)
    return false;
  double x = hlo_literal_f64(hlo_constant_value(i), 0);
  return v != v ? x != x : x == v;
}

static bool is_compare(const hlo_instr *i, i64 dir, const hlo_instr *a) {
  return i->opcode == HLO_COMPARE && hlo_attr_int(i, HLO_ATTR_DIRECTION, -1) == dir &&
         hlo_operand(i, 0) == a;
}

// x as it is, or select(x != x, nan, select(x == 0, 0, x)): gives x.
static const hlo_instr *strip(const hlo_instr *i, bool *canonical) {
  *canonical = false;
  if (i->opcode != HLO_SELECT) return i;
  const hlo_instr *p = hlo_operand(i, 0), *nan = hlo_operand(i, 1), *in = hlo_operand(i, 2);
  if (in->opcode != HLO_SELECT || !const_is(nan, __builtin_nan(""))) return i;
  const hlo_instr *x = hlo_operand(in, 2), *q = hlo_operand(in, 0);
  if (!is_compare(p, HLO_DIRECTION_NE, x) || hlo_operand(p, 1) != x) return i;
  if (!is_compare(q, HLO_DIRECTION_EQ, x) || !const_is(hlo_operand(q, 1), 0) ||
      !const_is(hlo_operand(in, 1), 0))
    return i;
  *canonical = true;
  return x;
}

static bool const_is_i64(const hlo_instr *i, i64 v) {
  return i->opcode == HLO_CONSTANT && hlo_shape_is_scalar(i->shape) &&
         hlo_constant_value(i)->data && hlo_literal_i64(hlo_constant_value(i), 0) == v;
}

// XLA's integers for the total order of floats (comparison_expander.cc): select(b < 0, xor(b, the
// largest), b) of b, the bits of x: gives x. NULL when it is not that.
static const hlo_instr *ordered_bits(const hlo_instr *i) {
  if (i->opcode != HLO_SELECT || !hlo_dtype_is_signed(i->shape->dtype)) return NULL;
  const hlo_instr *p = hlo_operand(i, 0), *x = hlo_operand(i, 1), *b = hlo_operand(i, 2);
  if (b->opcode != HLO_BITCAST && b->opcode != HLO_BITCAST_CONVERT) return NULL;
  if (!is_compare(p, HLO_DIRECTION_LT, b) || !const_is_i64(hlo_operand(p, 1), 0)) return NULL;
  if (x->opcode != HLO_XOR) return NULL;
  bool second = hlo_operand(x, 1) == b;
  i64 largest = (i64)(~(u64)0 >> (65 - hlo_dtype_bits(i->shape->dtype)));
  if (hlo_operand(x, second) != b || !const_is_i64(hlo_operand(x, !second), largest)) return NULL;
  const hlo_instr *f = hlo_operand(b, 0);
  return hlo_dtype_is_float(f->shape->dtype) && hlo_shape_is_scalar(f->shape) ? f : NULL;
}

// A comparison of an operand's two elements: its key; `dir` is that of the comparison with the
// first element on the left.
static bool compared(const hlo_instr *r, hlo_sort_key *k, i64 *dir) {
  if (r->opcode != HLO_COMPARE) return false;
  bool ca, cb;
  const hlo_instr *a = hlo_operand(r, 0), *b = hlo_operand(r, 1);
  const hlo_instr *float_a = ordered_bits(a), *float_b = ordered_bits(b);
  bool expanded = float_a && float_b;
  a = strip(expanded ? float_a : a, &ca);
  b = strip(expanded ? float_b : b, &cb);
  if (a->opcode != HLO_PARAMETER || b->opcode != HLO_PARAMETER || ca != cb) return false;
  i64 pa = hlo_param_number(a), pb = hlo_param_number(b);
  if (pa / 2 != pb / 2 || pa == pb || !has_order(a->shape->dtype)) return false;
  bool total = expanded || hlo_attr_int(r, HLO_ATTR_COMPARE_TYPE, HLO_COMPARE_TYPE_FLOAT) ==
                               HLO_COMPARE_TYPE_TOTALORDER;
  *dir = hlo_attr_int(r, HLO_ATTR_DIRECTION, -1);
  if (pa > pb && *dir == HLO_DIRECTION_LT) *dir = HLO_DIRECTION_GT;
  else if (pa > pb && *dir == HLO_DIRECTION_GT) *dir = HLO_DIRECTION_LT;
  bool partial = !ca && hlo_dtype_is_float(a->shape->dtype) && !total;
  *k = (hlo_sort_key){(u32)(pa / 2), *dir == HLO_DIRECTION_GT, ca || partial, partial};
  return true;
}

// a < b, or or(a0 < b0, and(a0 == b0, rest)).
u32 hlo_sort_keys(const hlo_computation *c, hlo_sort_key keys[HLO_SORT_KEYS]) {
  const hlo_instr *r = c->root;
  hlo_sort_key k, same;
  i64 dir;
  u32 n = 0;
  for (; r->opcode == HLO_OR && n + 1 < HLO_SORT_KEYS; n++) {
    const hlo_instr *less = hlo_operand(r, 0), *rest = hlo_operand(r, 1);
    if (!compared(less, &k, &dir) || (dir != HLO_DIRECTION_LT && dir != HLO_DIRECTION_GT)) return 0;
    if (rest->opcode != HLO_AND || !compared(hlo_operand(rest, 0), &same, &dir) ||
        dir != HLO_DIRECTION_EQ || same.operand != k.operand || same.canonical != k.canonical)
      return 0;
    keys[n] = k;
    r = hlo_operand(rest, 1);
  }
  if (!compared(r, &k, &dir) || (dir != HLO_DIRECTION_LT && dir != HLO_DIRECTION_GT)) return 0;
  keys[n] = k;
  return n + 1;
}
