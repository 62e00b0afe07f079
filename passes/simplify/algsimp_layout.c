// algsimp_layout.c — rules for final layouts: copies and reshapes that are bitcasts; and
// constants that can be written as broadcast or iota.
#include "passes/simplify/algsimp.h"

#define X hlo_operand(i, 0)

// ---- is it a bitcast? ---------------------------------------------------------------------------
static bool transpose_is_bitcast(const hlo_instr *i) {
  const hlo_shape *from = X->shape, *to = i->shape;
  if (!pass_plain_layout(from) || !pass_plain_layout(to) || from->dtype != to->dtype) return false;
  u32 fo[HLO_MAX_RANK], ot[HLO_MAX_RANK], nf = pass_physical_order(from, fo),
                                          nt = pass_physical_order(to, ot);
  hlo_ints p = alg_dims(i);
  if (nf != nt) return false;
  for (u32 k = 0; k < nf; k++)
    if (p.v[ot[k]] != fo[k]) return false;
  return true;
}

// Searches through copies and reshapes for a value of which i is a bitcast.
static hlo_instr *viewed(hlo_instr *i) {
  for (hlo_instr *o = X;; o = hlo_operand(o, 0)) {
    if (hlo_shape_is_array(o->shape) && pass_reshape_is_bitcast(o->shape, i->shape)) return o;
    if ((o->opcode != HLO_RESHAPE && o->opcode != HLO_COPY) || hlo_is_controlled(o) ||
        o->shape->dtype != hlo_operand(o, 0)->shape->dtype)
      return NULL;
  }
}

ALG_RULE(view_is_bitcast) {
  if (!a->layout_sensitive || !a->bitcasts || !hlo_shape_is_array(i->shape)) return NULL;
  if (i->opcode == HLO_COPY && i->shape->layout && X->shape->layout &&
      i->shape->layout->memory_space != X->shape->layout->memory_space)
    return NULL;
  hlo_instr *o = viewed(i);
  return o ? pass_alg_add(a, HLO_BITCAST, i->shape, 1, &o) : NULL;
}

ALG_RULE(transpose_bitcast) {
  if (!a->layout_sensitive || !a->bitcasts || !transpose_is_bitcast(i)) return NULL;
  hlo_instr *o = X;
  return pass_alg_add(a, HLO_BITCAST, i->shape, 1, &o);
}

// copy(reshape(A)) where either alone moves nothing: reshape straight to the copy's layout
ALG_RULE(copy_reshape) {
  if (!a->layout_sensitive || X->opcode != HLO_RESHAPE || !alg_one_use(X)) return NULL;
  hlo_instr *o = hlo_operand(X, 0);
  if (!pass_reshape_is_bitcast(o->shape, X->shape) && !pass_reshape_is_bitcast(X->shape, i->shape))
    return NULL;
  return pass_alg_add(a, HLO_RESHAPE, i->shape, 1, &o);
}

// bitcast-convert between types that take the same place
ALG_RULE(bitcast_convert_noop) {
  hlo_instr *o = X;
  if (!a->layout_sensitive || !a->no_op_bitcast_convert || o->shape->layout != i->shape->layout ||
      !hlo_shape_same_dims(o->shape, i->shape))
    return NULL;
  return hlo_dtype_bits(o->shape->dtype) == hlo_dtype_bits(i->shape->dtype)
             ? pass_alg_add(a, HLO_BITCAST, i->shape, 1, &o)
             : NULL;
}

// Whether elements lie side by side: those below a byte only where the layout packs them.
static bool fills_its_place(const hlo_shape *s) {
  int bits = s->dtype == HLO_PRED ? 8 : hlo_dtype_bits(s->dtype);
  return s->layout->element_bits ? s->layout->element_bits == bits : bits % 8 == 0;
}

// bitcast-convert between widths, where the narrow elements of a wide one lie next to each other
ALG_RULE(bitcast_convert_widths) {
  const hlo_shape *from = X->shape, *to = i->shape;
  bool narrower = to->rank == from->rank + 1;
  const hlo_shape *more = narrower ? to : from, *less = narrower ? from : to;
  if (more->rank != less->rank + 1 || !more->layout || !less->layout || more->layout->ntiles ||
      less->layout->ntiles)
    return NULL;
  if (more->layout->minor_to_major[0] != more->rank - 1 || !fills_its_place(more)) return NULL;
  for (u32 k = 0; k < less->rank; k++)
    if (less->layout->minor_to_major[k] != more->layout->minor_to_major[k + 1]) return NULL;
  hlo_instr *o = X;
  return pass_alg_add(a, HLO_BITCAST, i->shape, 1, &o);
}

ALG_RULE(layout_constraint) {
  if (!a->layout_sensitive ||
      !hs_str_eq(hlo_attr_str(i, HLO_ATTR_CUSTOM_CALL_TARGET), HS_STR("LayoutConstraint")) ||
      i->noperands != 1)
    return NULL;
  hlo_instr *o = X;
  if (o->shape == i->shape) return o;
  if (!hlo_shape_compatible(o->shape, i->shape)) return NULL;  // nothing holds a custom call to it
  return pass_alg_add(a, HLO_COPY, i->shape, 1, &o);
}

// ---- constants ----------------------------------------------------------------------------------
// An array of equal elements is the broadcast of one
ALG_RULE(constant_splat) {
  const hlo_literal *l = hlo_constant_value(i);
  if (!hlo_shape_is_array(i->shape) || i->shape->elements < 2 || !l || l->elided ||
      !hlo_literal_is_splat(l))
    return NULL;
  hlo_literal *one;
  hs_status s = hlo_literal_new(hlo_shape_scalar(a->m->ctx, i->shape->dtype), &one);
  if (!hs_ok(s)) {
    hs_status_drop(s);
    return NULL;
  }
  memcpy(one->data, l->data, HS_MIN(one->bytes, hlo_dtype_storage(i->shape->dtype)));
  return pass_alg_spread(a, pass_alg_literal(a, one), i->shape);
}

// {0, 1, 2, ...} is an iota
ALG_RULE(constant_iota) {
  const hlo_literal *l = hlo_constant_value(i);
  if (!hlo_shape_is_array(i->shape) || i->shape->rank != 1 || i->shape->elements < 2 || !l ||
      l->elided)
    return NULL;
  if (!alg_is_int(i) && !alg_is_float(i)) return NULL;
  for (i64 k = 0; k < i->shape->elements; k++)
    if (hlo_literal_f64(l, k) != (double)k) return NULL;
  hlo_instr *n = pass_alg_add(a, HLO_IOTA, i->shape, 0, NULL);
  hlo_set_attr_int(n, HLO_ATTR_IOTA_DIMENSION, 0);
  return n;
}

// {0, s, 2s, ...} is an iota times s
ALG_RULE(constant_strided) {
  const hlo_literal *l = hlo_constant_value(i);
  if (!hlo_shape_is_array(i->shape) || i->shape->rank != 1 || i->shape->elements < 2 || !l ||
      l->elided || !alg_is_int(i))
    return NULL;
  i64 step = pass_alg_multiples(l);
  if (step == 0) return NULL;
  hlo_instr *n = pass_alg_add(a, HLO_IOTA, i->shape, 0, NULL);
  hlo_set_attr_int(n, HLO_ATTR_IOTA_DIMENSION, 0);
  return pass_alg_bin(a, HLO_MULTIPLY, n, pass_alg_full_int(a, i->shape, step));
}

static hlo_instr *tuple_of(alg *a, const hlo_literal *l) {
  if (!hlo_shape_is_tuple(l->shape)) return pass_alg_literal(a, hlo_literal_ref(l));
  hlo_instr **parts = HS_NEW_ARRAY(a->p->scratch, hlo_instr *, l->nchildren + 1);
  for (u32 k = 0; k < l->nchildren; k++) parts[k] = tuple_of(a, l->children[k]);
  return pass_alg_add(a, HLO_TUPLE, l->shape, l->nchildren, parts);
}

// A constant tuple is a tuple of constants
ALG_RULE(constant_tuple) {
  const hlo_literal *l = hlo_constant_value(i);
  if (!hlo_shape_is_tuple(i->shape) || !l || hlo_literal_has_elided(l)) return NULL;
  hlo_instr *t = tuple_of(a, l);
  hlo_set_shape(t, i->shape);
  return t;
}
