// sizes.c — what dynamic_padder knows of values: the table of sizes, arithmetic of sizes, masks.
#include "passes/dynamic/dynamic.h"

// Sizes of all leaves, one behind the other: leaf k's begin at first[k].
struct dyn_value {
  bool kept;
  u64 hidden;  // dimensions of an array along which a size is set that its type does not state
  u32 nleaves;
  u32 *first;
  hlo_instr **size;
};

static dyn_value *value_of(const dyn *d, const hlo_instr *i) {
  return i->id < d->values.n ? d->values.v[i->id] : NULL;
}

static dyn_value *value_new(dyn *d, const hlo_instr *i) {
  while (d->values.n <= i->id) hs_vec_push(&d->values, NULL);
  dyn_value *v = d->values.v[i->id];
  if (v) return v;
  v = d->values.v[i->id] = HS_NEW(d->c->scratch, dyn_value);
  v->nleaves = hlo_shape_leaves(i->shape);
  v->first = HS_NEW_ARRAY(d->c->scratch, u32, v->nleaves + 1);
  for (u32 k = 0; k < v->nleaves; k++)
    v->first[k + 1] = v->first[k] + hlo_shape_leaf(i->shape, k)->rank;
  v->size = HS_NEW_ARRAY(d->c->scratch, hlo_instr *, v->first[v->nleaves] + 1);
  return v;
}

void dyn_free(dyn *d) {
  hs_vec_free(&d->values);
  hs_vec_free(&d->views);
  hs_vec_free(&d->replaced);
  hs_vec_free(&d->done);
  hs_vec_free(&d->callers);
}

void dyn_keep(dyn *d, const hlo_instr *i) { value_new(d, i)->kept = true; }

bool dyn_is_kept(const dyn *d, const hlo_instr *i) {
  const dyn_value *v = value_of(d, i);
  return v && v->kept;
}

hlo_instr *dyn_size(const dyn *d, const hlo_instr *i, u32 leaf, u32 dim) {
  const dyn_value *v = value_of(d, i);
  return v && leaf < v->nleaves ? v->size[v->first[leaf] + dim] : NULL;
}

void dyn_set_size(dyn *d, hlo_instr *i, u32 leaf, u32 dim, hlo_instr *size) {
  if (!size && !value_of(d, i)) return;
  dyn_value *v = value_new(d, i);
  v->size[v->first[leaf] + dim] = size;
}

bool dyn_has(const dyn *d, const hlo_instr *i) {
  const dyn_value *v = value_of(d, i);
  for (u32 k = 0; v && k < v->first[v->nleaves]; k++)
    if (v->size[k]) return true;
  return false;
}

bool dyn_has_operand(const dyn *d, const hlo_instr *i) {
  for (u32 k = 0; k < i->noperands; k++)
    if (dyn_has(d, hlo_operand(i, k))) return true;
  return false;
}

hlo_instr *dyn_used(const dyn *d, hlo_instr *i, u32 leaf, u32 dim) {
  hlo_instr *s = dyn_size(d, i, leaf, dim);
  return s ? s : dyn_const(i->parent, hlo_shape_leaf(i->shape, leaf)->dims[dim]);
}

hlo_instr *dyn_stated(const dyn *d, hlo_instr *i, u32 leaf, u32 dim) {
  const dyn_value *v = value_of(d, i);
  bool hidden = v && v->hidden >> dim & 1;
  return hidden ? dyn_const(i->parent, i->shape->dims[dim]) : dyn_used(d, i, leaf, dim);
}

void dyn_hide(dyn *d, const hlo_instr *i, u32 dim) { value_new(d, i)->hidden |= (u64)1 << dim; }

bool dyn_states(const hlo_shape *s, u32 leaf, u32 dim) {
  return hlo_dim_is_dynamic(hlo_shape_leaf(s, leaf), dim);
}

void dyn_give(dyn *d, const hlo_instr *i, hlo_instr *now, u32 leaf, u32 dim, hlo_instr *size) {
  if (dyn_states(i->shape, leaf, dim)) dyn_set_size(d, now, leaf, dim, size);
}

void dyn_give_leaf(dyn *d, const hlo_instr *i, hlo_instr *now, u32 leaf, const hlo_instr *from,
                   u32 from_leaf) {
  for (u32 k = 0, n = hlo_shape_leaf(i->shape, leaf)->rank; k < n; k++)
    dyn_give(d, i, now, leaf, k, dyn_size(d, from, from_leaf, k));
}

const hlo_shape *dyn_static(hlo_ctx *ctx, const hlo_shape *s) {
  if (!hlo_shape_is_dynamic(s)) return s;
  if (!hlo_shape_is_tuple(s))
    return hlo_shape_dynamic(ctx, s->dtype, s->rank, s->dims, NULL, s->layout);
  const hlo_shape **e = hs_calloc(s->nelems + 1, sizeof *e);
  for (u32 k = 0; k < s->nelems; k++) e[k] = dyn_static(ctx, s->elems[k]);
  const hlo_shape *t = hlo_shape_tuple(ctx, s->nelems, e);
  hs_free(e);
  return t;
}

// ---- scalars ------------------------------------------------------------------------------------
// Sizes are numbers of 32 bits, bounds are not.
hlo_instr *dyn_const(hlo_computation *c, i64 v) {
  return hlo_build_scalar_i64(c, HLO_S32, HS_MAX(HS_MIN(v, INT32_MAX), INT32_MIN));
}

bool dyn_same(const hlo_instr *a, const hlo_instr *b) {
  i64 x, y;
  if (a == b) return true;
  if (pass_const_i64(a, &x) && pass_const_i64(b, &y)) return x == y;
  return a->opcode == b->opcode && a->noperands && a->noperands == b->noperands &&
         (a->opcode == HLO_MAXIMUM || a->opcode == HLO_MINIMUM || a->opcode == HLO_CONVERT) &&
         a->shape == b->shape && dyn_same(hlo_operand(a, 0), hlo_operand(b, 0)) &&
         dyn_same(hlo_operand(a, a->noperands - 1), hlo_operand(b, b->noperands - 1));
}

static bool folds(hlo_opcode op, i64 x, i64 y, i64 *r) {
  switch (op) {
  case HLO_ADD: *r = x + y; return true;
  case HLO_SUBTRACT: *r = x - y; return true;
  case HLO_MULTIPLY: *r = hs_mul_sat_i64(x, y); return true;
  case HLO_DIVIDE: *r = y ? x / y : 0; return true;
  case HLO_MAXIMUM: *r = HS_MAX(x, y); return true;
  case HLO_MINIMUM: *r = HS_MIN(x, y); return true;
  default: return false;
  }
}

hlo_instr *dyn_op(hlo_opcode op, hlo_instr *a, hlo_instr *b) {
  i64 x = 0, y = 0, r;
  bool cx = pass_const_i64(a, &x), cy = pass_const_i64(b, &y);
  if (cx && cy && folds(op, x, y, &r)) return dyn_const(a->parent, r);
  if (cy && y == 1 && (op == HLO_MULTIPLY || op == HLO_DIVIDE)) return a;
  if (cx && x == 1 && op == HLO_MULTIPLY) return b;
  if (cy && y == 0 && (op == HLO_ADD || op == HLO_SUBTRACT)) return a;
  if (cx && x == 0 && op == HLO_ADD) return b;
  if ((op == HLO_MAXIMUM || op == HLO_MINIMUM) && dyn_same(a, b)) return a;
  if (op == HLO_DIVIDE && !cy) b = dyn_op(HLO_MAXIMUM, b, dyn_const(b->parent, 1));
  return hlo_build_binary(op, a, b);
}

hlo_instr *dyn_clamped(hlo_instr *size, i64 bound) {
  if (size->shape->dtype != HLO_S32) size = hlo_build_convert(size, HLO_S32);
  size = dyn_op(HLO_MAXIMUM, size, dyn_const(size->parent, 0));
  return dyn_op(HLO_MINIMUM, size, dyn_const(size->parent, bound));
}

// ---- arrays -------------------------------------------------------------------------------------
hlo_instr *dyn_iota(const hlo_instr *like, i64 dim) {
  hlo_instr *i = hlo_add(like->parent, HLO_IOTA, pass_shape_as(like, HLO_S32), 0, NULL, NULL);
  hlo_set_attr_int(i, HLO_ATTR_IOTA_DIMENSION, dim);
  return i;
}

hlo_instr *dyn_spread(hlo_instr *scalar, const hlo_instr *like) {
  return hlo_add_broadcast(scalar, pass_shape_as(like, scalar->shape->dtype), 0, NULL);
}

hlo_instr *dyn_in_use(const hlo_instr *like, i64 dim, hlo_instr *size) {
  return hlo_build_compare(dyn_iota(like, dim), dyn_spread(size, like), HLO_DIRECTION_LT);
}

hlo_instr *dyn_mask(hlo_instr *x, i64 dim, hlo_instr *size, hlo_instr *fill) {
  if (!size || x->shape->elements == 0) return x;
  return hlo_build_select(dyn_in_use(x, dim, size), x, dyn_spread(fill, x));
}
