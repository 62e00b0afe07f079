// algsimp_convert.c — convert, bitcast-convert and reduce-precision.
#include "passes/simplify/algsimp.h"

#include "core/eval/eval.h"
#include "core/types/float.h"

#define X hlo_operand(i, 0)

// The same for a float type of at most 8 bits: tests the round trip of every value.
static bool narrow_fits(hlo_dtype from, hlo_dtype to) {
  const hlo_float_format *f = hlo_float_format_of(from);
  u64 cell[2] = {0};
  for (u32 code = 0; code < 1u << hlo_dtype_bits(from); code++) {
    double v = hlo_float_decode(f, code);
    hlo_elem_from_f64(to, cell, v);
    double w = hlo_elem_to_f64(to, cell);
    if (isnan(v) != isnan(w) || (!isnan(v) && (v != w || !signbit(v) != !signbit(w)))) return false;
  }
  return true;
}

// Of the least positive value of an IEEE type.
static int least_exponent(hlo_dtype t) {
  const hlo_float_format *f = &hlo_dtypes[t].format;
  return 1 - f->bias - f->mbits;
}

// Every value of `from` exists in `to`.
static bool widening(hlo_dtype from, hlo_dtype to) {
  if (from == to) return true;
  if (hlo_dtype_is_complex(from) && !hlo_dtype_is_complex(to)) return false;
  if (hlo_dtype_is_complex(from)) from = from == HLO_C64 ? HLO_F32 : HLO_F64;
  if (hlo_dtype_is_complex(to)) to = to == HLO_C64 ? HLO_F32 : HLO_F64;
  if (from == to) return true;
  int bf = hlo_dtype_bits(from), bt = hlo_dtype_bits(to);
  // true is no value of s1, which has -1, and zero none of E8M0
  if (from == HLO_PRED)
    return (hlo_dtype_is_integer(to) && to != HLO_S1) ||
           (hlo_dtype_is_float(to) && hlo_dtypes[to].format.top != HLO_TOP_E8M0);
  if (hlo_dtype_is_integer(from) && hlo_dtype_is_integer(to)) {
    if (hlo_dtype_is_signed(from)) return hlo_dtype_is_signed(to) && bt >= bf;
    return hlo_dtype_is_signed(to) ? bt > bf : bt >= bf;
  }
  if (hlo_dtype_is_float(from) && bf <= 8) return hlo_dtype_is_float(to) && narrow_fits(from, to);
  if (!hlo_dtype_is_float(to) || bt < 16) return false;
  int most = hlo_dtype_max_exponent(to), digits = hlo_dtype_significand(to);
  if (hlo_dtype_is_integer(from)) return bf - hlo_dtype_is_signed(from) <= digits && bf < most;
  return hlo_dtype_is_float(from) && digits >= hlo_dtype_significand(from) &&
         least_exponent(to) <= least_exponent(from) && most >= hlo_dtype_max_exponent(from);
}

bool pass_alg_widens_operands(const hlo_instr *i) {
  hlo_dtype t = i->shape->dtype;
  return widening(X->shape->dtype, t) && widening(hlo_operand(i, 1)->shape->dtype, t);
}

// convert of a constant, when asked to fold it here, to a type no wider: kernels need not hold both
// types
ALG_RULE(convert_constant) {
  int to = hlo_dtype_bits(i->shape->dtype);
  if (!a->fold_converts || X->opcode != HLO_CONSTANT || X->nuses != 1 || to < 8 ||
      to > hlo_dtype_bits(X->shape->dtype))
    return NULL;
  const hlo_literal *value = hlo_constant_value(X);
  if (!value || value->elided) return NULL;
  hlo_literal *l = hlo_literal_ref(value), *out;
  hs_status s = hlo_eval_instr(i, 1, &l, NULL, &out);
  hlo_literal_unref(l);
  return hs_ok(s) ? pass_alg_literal(a, out) : (hs_status_drop(s), NULL);
}

ALG_RULE(convert_same) {
  (void)a;
  return X->shape->dtype == i->shape->dtype ? X : NULL;
}

// convert(convert(A, T), U): A when U is A's type and T holds all of it; one conversion when T only
// widens
ALG_RULE(convert_pair) {
  if (X->opcode != HLO_CONVERT) return NULL;
  hlo_instr *src = hlo_operand(X, 0);
  hlo_dtype s = src->shape->dtype, mid = X->shape->dtype, to = i->shape->dtype;
  if (!widening(s, mid)) return NULL;
  // from integers by way of floats to integers: the way stops at the ends of the range, where the
  // direct conversion wraps around
  bool whole = hlo_dtype_is_integer(s) || s == HLO_PRED;
  if (whole && !hlo_dtype_is_integer(mid) && hlo_dtype_is_integer(to) && !widening(s, to))
    return NULL;
  if (s == to) return src;
  // pred and integers to anything go through one step; a float cast to an integer type must not
  // change its rounding.
  return pass_alg_add(a, HLO_CONVERT, i->shape, 1, &src);
}

// convert(op(convert(A), convert(B))) back to A's integer type: op on the narrow type gives the
// same low bits. Quotients only of unsigned types, where they fit.
ALG_RULE(convert_around_binary) {
  hlo_instr *op = X;
  if (op->noperands != 2 || !alg_one_use(op)) return NULL;
  bool wraps = op->opcode == HLO_ADD || op->opcode == HLO_SUBTRACT || op->opcode == HLO_MULTIPLY;
  bool divides = (op->opcode == HLO_DIVIDE || op->opcode == HLO_REMAINDER) &&
                 hlo_dtype_is_unsigned(op->shape->dtype);
  hlo_instr *l = hlo_operand(op, 0), *r = hlo_operand(op, 1);
  hlo_dtype t = i->shape->dtype, wide = op->shape->dtype;
  u32 uses = l == r ? 2 : 1;
  if ((!wraps && !divides) || l->opcode != HLO_CONVERT || r->opcode != HLO_CONVERT ||
      l->nuses != uses || r->nuses != uses)
    return NULL;
  if (hlo_operand(l, 0)->shape->dtype != t || hlo_operand(r, 0)->shape->dtype != t) return NULL;
  if (!hlo_dtype_is_integer(t) || !hlo_dtype_is_integer(wide) || hlo_dtype_bits(t) < 8 ||
      hlo_dtype_is_signed(t) != hlo_dtype_is_signed(wide) || !widening(t, wide))
    return NULL;
  return pass_alg_like(a, op, i->shape, 2, (hlo_instr *[]){hlo_operand(l, 0), hlo_operand(r, 0)});
}

ALG_RULE(bitcast_convert_same) {
  (void)a;
  return X->shape->dtype == i->shape->dtype ? X : NULL;
}

ALG_RULE(bitcast_convert_pair) {
  if (X->opcode != HLO_BITCAST_CONVERT) return NULL;
  hlo_instr *src = hlo_operand(X, 0);
  return pass_alg_add(a, HLO_BITCAST_CONVERT, i->shape, 1, &src);
}

// bitcast-convert(concatenate(bitcast-convert(A), ...)) back to A's type = concatenate(A, ...)
ALG_RULE(bitcast_convert_concat) {
  hlo_instr *c = X;
  if (c->opcode != HLO_CONCATENATE) return NULL;
  hlo_instr **parts = HS_NEW_ARRAY(a->p->scratch, hlo_instr *, c->noperands);
  for (u32 k = 0; k < c->noperands; k++) {
    hlo_instr *o = hlo_operand(c, k);
    if (o->opcode != HLO_BITCAST_CONVERT || hlo_operand(o, 0)->shape->dtype != i->shape->dtype)
      return NULL;
    parts[k] = hlo_operand(o, 0);
    if (!hlo_shape_same_dims(parts[k]->shape, o->shape)) return NULL;
  }
  return pass_alg_concat(a, c->noperands, parts, alg_dims(c).v[0]);
}

// reduce-precision to the type's own width changes nothing
ALG_RULE(reduce_precision_noop) {
  if (!a->no_op_reduce_precision) return NULL;
  i64 e = hlo_attr_int(i, HLO_ATTR_EXPONENT_BITS, 0),
      m = hlo_attr_int(i, HLO_ATTR_MANTISSA_BITS, 0);
  const hlo_dtype_info *t = &hlo_dtypes[i->shape->dtype];
  return t->bits >= 16 && e == t->format.ebits && m == t->format.mbits ? X : NULL;
}
