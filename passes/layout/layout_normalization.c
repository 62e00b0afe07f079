// layout_normalization.c — layout_normalization (xla/service/layout_normalization.cc): an array
// whose layout is not row-major is replaced by the row-major array of its physical dimensions, and
// bitcasts connect the two views, so that code generators see one layout only.
//
// Every operation whose meaning survives a permutation of dimensions moves between the views: its
// attributes are permuted, it reads the normalized view of its operands and a bitcast gives its
// users the old shape. All other operations are unchanged, and use the bitcasts. Parameters and
// the root keep their shapes. Reshapes must be bitcasts already (reshape-decomposer), operands of
// elementwise operations must share one layout (layout-assignment).
#include "passes/run/rewrite.h"

// ---- views --------------------------------------------------------------------------------------
static bool descending(const hlo_shape *s) {
  for (u32 k = 0; s->layout && k < s->rank; k++)
    if (s->layout->minor_to_major[k] != (i64)(s->rank - 1 - k)) return false;
  return true;
}
static bool normal(const hlo_instr *i) {
  return hlo_shape_is_array(i->shape) && descending(i->shape);
}

// out[k]: the dimension of s that comes k-th in memory, major first; inverse: where a dimension of
// s goes.
static void order_of(const hlo_shape *s, i64 *out, i64 *inverse) {
  for (u32 k = 0; k < s->rank; k++) {
    i64 d = s->layout ? s->layout->minor_to_major[s->rank - 1 - k] : (i64)k;
    if (out) out[k] = d;
    if (inverse) inverse[d] = k;
  }
}

static const hlo_shape *normalized(hlo_ctx *ctx, const hlo_shape *s) {
  i64 order[HLO_MAX_RANK], dims[HLO_MAX_RANK], minor[HLO_MAX_RANK];
  bool dynamic[HLO_MAX_RANK];
  order_of(s, order, NULL);
  for (u32 k = 0; k < s->rank; k++) {
    dims[k] = s->dims[order[k]];
    dynamic[k] = hlo_dim_is_dynamic(s, order[k]);
    minor[k] = s->rank - 1 - k;
  }
  hlo_layout l = *s->layout;
  l.minor_to_major = minor;
  return hlo_shape_dynamic(ctx, s->dtype, s->rank, dims, s->dynamic ? dynamic : NULL,
                           hlo_layout_intern(ctx, &l));
}

static hlo_instr *view(hlo_instr *x, const hlo_shape *s, hlo_instr *before) {
  if (x->shape == s) return x;
  hlo_instr *b = hlo_add_before(before, HLO_BITCAST, s, 1, &x, NULL);
  hlo_add_provenance(b, x);
  return b;
}

// The row-major view of an operand.
static hlo_instr *input(hlo_instr *x, hlo_instr *at) {
  if (normal(x)) return x;
  const hlo_shape *s = normalized(at->parent->module->ctx, x->shape);
  return x->opcode == HLO_BITCAST && hlo_operand(x, 0)->shape == s ? hlo_operand(x, 0)
                                                                   : view(x, s, at);
}

// the order alone: element sizes may differ
static bool same_layout(const hlo_shape *a, const hlo_shape *b) {
  return a->rank == b->rank && a->layout && b->layout &&
         memcmp(a->layout->minor_to_major, b->layout->minor_to_major, a->rank * sizeof(i64)) == 0;
}

// ---- operations ---------------------------------------------------------------------------------
// Each returns the operation in the row-major view, or NULL where it must stay as it is.
static hlo_instr *again(hlo_instr *i, u32 n, hlo_instr *const *operands) {
  hlo_instr *x =
      hlo_clone_instr(i->parent, i, normalized(i->parent->module->ctx, i->shape), n, operands);
  hlo_move_before(x, i);
  return x;
}

static hlo_instr *elementwise(hlo_instr *i) {
  hlo_instr *v[4];
  if (i->noperands > HS_COUNT(v)) return NULL;
  for (u32 k = 0; k < i->noperands; k++) {  // scalars stand for every element in select and clamp
    const hlo_shape *s = hlo_operand(i, k)->shape;
    if (s->rank == 0 ? i->shape->rank != 0 && i->opcode != HLO_SELECT && i->opcode != HLO_CLAMP
                     : !same_layout(s, i->shape))
      return NULL;
  }
  for (u32 k = 0; k < i->noperands; k++) v[k] = input(hlo_operand(i, k), i);
  return again(i, i->noperands, v);
}

// bitcast-convert that changes the rank adds or takes the last dimension, which must be the minor
// one; the others must have the same order on both sides.
static hlo_instr *bitcast_convert(hlo_instr *i) {
  hlo_instr *x = hlo_operand(i, 0);
  if (x->shape->rank == i->shape->rank) return elementwise(i);
  const hlo_shape *wide = x->shape->rank > i->shape->rank ? x->shape : i->shape,
                  *narrow = wide == x->shape ? i->shape : x->shape;
  if (wide->layout->minor_to_major[0] != (i64)wide->rank - 1) return NULL;
  for (u32 k = 0; k < narrow->rank; k++)
    if (narrow->layout->minor_to_major[k] != wide->layout->minor_to_major[k + 1]) return NULL;
  x = input(x, i);
  return again(i, 1, &x);
}

static hlo_instr *constant(hlo_instr *i) {
  const hlo_literal *l = hlo_constant_value(i);
  if (!l || l->elided || !i->shape->elements) return NULL;
  const hlo_shape *s = normalized(i->parent->module->ctx, i->shape);
  hlo_literal *now = NULL;
  hs_status st = hlo_literal_new(s, &now);
  if (!hs_ok(st)) return hs_status_drop(st), NULL;
  i64 inverse[HLO_MAX_RANK], from[HLO_MAX_RANK] = {0}, strides[HLO_MAX_RANK];
  order_of(i->shape, NULL, inverse);
  hlo_row_major_strides(s->rank, s->dims, strides);
  size_t size = hlo_dtype_storage(s->dtype);
  for (i64 k = 0; k < i->shape->elements; k++) {
    i64 to = 0;
    for (u32 d = 0; d < s->rank; d++) to += from[d] * strides[inverse[d]];
    memcpy((char *)now->data + (size_t)to * size, (const char *)l->data + (size_t)k * size, size);
    for (u32 d = s->rank; d-- > 0;) {
      if (++from[d] < i->shape->dims[d]) break;
      from[d] = 0;
    }
  }
  hlo_instr *x = hlo_add_constant(i->parent, now, NULL);
  hlo_move_before(x, i);
  return x;
}

// Permutes an attribute with an entry per dimension to the order of the row-major view.
static void *by_place(const hlo_instr *i, u32 n, const void *v, size_t size) {
  i64 order[HLO_MAX_RANK];
  char *now = HS_NEW_ARRAY(&i->parent->module->arena, char, (n + 1) * size);
  order_of(i->shape, order, NULL);
  for (u32 k = 0; k < n; k++)
    memcpy(now + k * size, (const char *)v + (size_t)order[k] * size, size);
  return now;
}

static hlo_instr *slice(hlo_instr *i) {
  hlo_instr *x = hlo_operand(i, 0);
  if (!same_layout(x->shape, i->shape)) return NULL;
  const hlo_slices *old = hlo_attr_ptr(i, HLO_ATTR_SLICE);
  hlo_slices *now = HS_NEW(&i->parent->module->arena, hlo_slices);
  *now = (hlo_slices){old->n, by_place(i, old->n, old->v, sizeof *old->v)};
  x = input(x, i);
  hlo_instr *s = again(i, 1, &x);
  hlo_set_attr_ptr(s, HLO_ATTR_SLICE, now);
  return s;
}

// pad and reduce-window: an array in its row-major view, a scalar, and an attribute with an entry
// for each dimension.
static hlo_instr *with_scalar(hlo_instr *i, hlo_attr_id id, const void *now) {
  hlo_instr *v[] = {input(hlo_operand(i, 0), i), hlo_operand(i, 1)};
  hlo_instr *s = again(i, 2, v);
  hlo_set_attr_ptr(s, id, now);
  return s;
}

static hlo_instr *pad(hlo_instr *i) {
  if (!same_layout(hlo_operand(i, 0)->shape, i->shape)) return NULL;
  const hlo_padding *old = hlo_attr_ptr(i, HLO_ATTR_PADDING);
  hlo_padding *now = HS_NEW(&i->parent->module->arena, hlo_padding);
  *now = (hlo_padding){old->n, by_place(i, old->n, old->v, sizeof *old->v)};
  return with_scalar(i, HLO_ATTR_PADDING, now);
}

static hlo_instr *reduce_window(hlo_instr *i) {
  if (i->noperands != 2 || !same_layout(hlo_operand(i, 0)->shape, i->shape)) return NULL;
  const hlo_window *old = hlo_attr_ptr(i, HLO_ATTR_WINDOW);
  hlo_window *now = HS_NEW(&i->parent->module->arena, hlo_window);
  *now = (hlo_window){old->n, by_place(i, old->n, old->v, sizeof *old->v)};
  return with_scalar(i, HLO_ATTR_WINDOW, now);
}

static hlo_instr *concatenate(hlo_instr *i) {
  hlo_instr **v = HS_NEW_ARRAY(&i->parent->module->arena, hlo_instr *, i->noperands);
  i64 inverse[HLO_MAX_RANK];
  order_of(i->shape, NULL, inverse);
  for (u32 k = 0; k < i->noperands; k++)
    if (!same_layout(hlo_operand(i, k)->shape, i->shape)) return NULL;
  for (u32 k = 0; k < i->noperands; k++) v[k] = input(hlo_operand(i, k), i);
  i64 dim = inverse[hlo_attr_ints(i, HLO_ATTR_DIMENSIONS).v[0]];
  hlo_instr *s = again(i, i->noperands, v);
  hlo_set_attr_ints(s, HLO_ATTR_DIMENSIONS, 1, &dim);
  return s;
}

// Operand and result may differ in where dimensions of size 1 are; the operand's view is used.
static hlo_instr *reverse(hlo_instr *i) {
  hlo_instr *x = hlo_operand(i, 0);
  u32 p[HLO_MAX_RANK], q[HLO_MAX_RANK], n = pass_physical_order(x->shape, p),
                                        m = pass_physical_order(i->shape, q);
  if (n != m || memcmp(p, q, n * sizeof *p) != 0) return NULL;
  bool at[HLO_MAX_RANK] = {false};
  i64 inverse[HLO_MAX_RANK], dims[HLO_MAX_RANK];
  order_of(x->shape, NULL, inverse);
  hlo_ints d = hlo_attr_ints(i, HLO_ATTR_DIMENSIONS);
  for (u32 k = 0; k < d.n; k++) at[inverse[d.v[k]]] = true;
  n = 0;
  for (u32 k = 0; k < i->shape->rank; k++)
    if (at[k]) dims[n++] = k;
  x = input(x, i);
  const hlo_shape *now = hlo_shape_with_dtype(i->parent->module->ctx, x->shape, i->shape->dtype);
  hlo_instr *s = hlo_clone_instr(i->parent, i, now, 1, &x);
  hlo_move_before(s, i);
  hlo_set_attr_ints(s, HLO_ATTR_DIMENSIONS, n, dims);
  return s;
}

static hlo_instr *broadcast(hlo_instr *i) {
  hlo_instr *x = hlo_operand(i, 0);
  i64 order[HLO_MAX_RANK], inverse[HLO_MAX_RANK], dims[HLO_MAX_RANK];
  order_of(x->shape, order, NULL);
  order_of(i->shape, NULL, inverse);
  hlo_ints d = hlo_attr_ints(i, HLO_ATTR_DIMENSIONS);
  for (u32 k = 0; k < d.n; k++) dims[k] = inverse[d.v[order[k]]];
  x = input(x, i);
  hlo_instr *s = again(i, 1, &x);
  if (d.n) hlo_set_attr_ints(s, HLO_ATTR_DIMENSIONS, d.n, dims);
  return s;
}

static hlo_instr *iota(hlo_instr *i) {
  i64 inverse[HLO_MAX_RANK];
  order_of(i->shape, NULL, inverse);
  hlo_instr *s = again(i, 0, NULL);
  hlo_set_attr_int(s, HLO_ATTR_IOTA_DIMENSION,
                   inverse[hlo_attr_int(i, HLO_ATTR_IOTA_DIMENSION, 0)]);
  return s;
}

static hlo_instr *reshape(hlo_instr *i) {
  hlo_instr *x = hlo_operand(i, 0);
  if (!pass_reshape_is_bitcast(x->shape, i->shape)) return NULL;
  x = input(x, i);
  return again(i, 1, &x);
}

// transpose, and copy, which is one without logical dimensions: what remains is the movement in
// memory.
static hlo_instr *transpose(hlo_instr *i) {
  hlo_instr *x = hlo_operand(i, 0);
  hlo_ints d = hlo_attr_ints(i, HLO_ATTR_DIMENSIONS);
  i64 where[HLO_MAX_RANK], order[HLO_MAX_RANK], dims[HLO_MAX_RANK];
  order_of(x->shape, NULL, where);
  order_of(i->shape, order, NULL);
  bool identity = true;
  for (u32 k = 0; k < i->shape->rank; k++) {
    dims[k] = where[i->opcode == HLO_TRANSPOSE ? d.v[order[k]] : order[k]];
    identity &= dims[k] == (i64)k;
  }
  x = input(x, i);
  const hlo_shape *s = normalized(i->parent->module->ctx, i->shape);
  // one that converts stays
  if (identity && i->opcode == HLO_TRANSPOSE && x->shape->dtype == s->dtype) return x;
  hlo_instr *t = hlo_add_before(i, HLO_TRANSPOSE, s, 1, &x, NULL);
  hlo_set_attr_ints(t, HLO_ATTR_DIMENSIONS, s->rank, dims);
  hlo_add_provenance(t, i);
  return t;
}

static hlo_instr *dynamic_slice(hlo_instr *i) {
  u32 first = i->opcode == HLO_DYNAMIC_SLICE ? 1 : 2, rank = i->shape->rank;
  hlo_instr *v[HLO_MAX_RANK + 2];
  if (i->noperands != first + rank || !same_layout(hlo_operand(i, 0)->shape, i->shape) ||
      !same_layout(hlo_operand(i, first - 1)->shape, i->shape))
    return NULL;
  i64 order[HLO_MAX_RANK], sizes[HLO_MAX_RANK];
  order_of(i->shape, order, NULL);
  for (u32 k = 0; k < first; k++) v[k] = input(hlo_operand(i, k), i);
  for (u32 k = 0; k < rank; k++)
    v[first + k] = hlo_operand(i, first + (u32)order[k]), sizes[k] = i->shape->dims[order[k]];
  hlo_instr *s = again(i, i->noperands, v);
  if (first == 1) hlo_set_attr_ints(s, HLO_ATTR_DYNAMIC_SLICE_SIZES, rank, sizes);
  return s;
}

static void relabel(i64 *d, const i64 *inverse) { *d = inverse[*d]; }
static const i64 *relabel_all(hs_arena *a, u32 n, const i64 *d, const i64 *inverse) {
  i64 *x = HS_NEW_ARRAY(a, i64, n + 1);
  for (u32 k = 0; k < n; k++) x[k] = inverse[d[k]];
  return x;
}

static hlo_instr *convolution(hlo_instr *i) {
  hlo_instr *v[] = {hlo_operand(i, 0), hlo_operand(i, 1)};
  hs_arena *a = &i->parent->module->arena;
  i64 l[HLO_MAX_RANK], r[HLO_MAX_RANK], o[HLO_MAX_RANK];
  order_of(v[0]->shape, NULL, l);
  order_of(v[1]->shape, NULL, r);
  order_of(i->shape, NULL, o);
  const hlo_dim_labels *old = hlo_attr_ptr(i, HLO_ATTR_DIM_LABELS);
  hlo_dim_labels *now = HS_NEW(a, hlo_dim_labels);
  *now = *old;
  now->text = NULL;
  relabel(&now->lhs_batch, l), relabel(&now->lhs_feature, l);
  relabel(&now->rhs_input_feature, r), relabel(&now->rhs_output_feature, r);
  relabel(&now->out_batch, o), relabel(&now->out_feature, o);
  now->lhs_spatial = relabel_all(a, old->nspatial, old->lhs_spatial, l);
  now->rhs_spatial = relabel_all(a, old->nspatial, old->rhs_spatial, r);
  now->out_spatial = relabel_all(a, old->nspatial, old->out_spatial, o);
  for (u32 k = 0; k < 2; k++) v[k] = input(v[k], i);
  hlo_instr *s = again(i, 2, v);
  hlo_set_attr_ptr(s, HLO_ATTR_DIM_LABELS, now);
  return s;
}

// The window dimensions of the updates must ascend: where the permutation put them in another
// order, the updates are transposed (XLA leaves that to scatter_simplifier and the module invalid
// until then).
static hlo_instr *sorted_updates(hlo_instr *x, hlo_instr *at, u32 n, i64 *windows) {
  i64 sorted[HLO_MAX_RANK], perm[HLO_MAX_RANK], dims[HLO_MAX_RANK];
  u32 rank = x->shape->rank;
  bool ascending = true, is_window[HLO_MAX_RANK] = {false};
  for (u32 k = 0; k < n; k++)
    is_window[windows[k]] = true, ascending &= !k || windows[k] > windows[k - 1];
  if (ascending) return x;
  for (u32 d = 0, k = 0; d < rank; d++)
    if (is_window[d]) sorted[k++] = d;
  for (u32 d = 0; d < rank; d++) perm[d] = d;
  for (u32 k = 0; k < n; k++) perm[sorted[k]] = windows[k];
  for (u32 d = 0; d < rank; d++) dims[d] = x->shape->dims[perm[d]];
  memcpy(windows, sorted, n * sizeof *windows);
  hlo_ctx *ctx = at->parent->module->ctx;
  const hlo_shape *s = hlo_shape_with_layout(ctx, hlo_shape_array(ctx, x->shape->dtype, rank, dims),
                                             x->shape->layout);
  hlo_instr *t = hlo_add_before(at, HLO_TRANSPOSE, s, 1, &x, NULL);
  hlo_set_attr_ints(t, HLO_ATTR_DIMENSIONS, rank, perm);
  hlo_add_provenance(t, x);
  return t;
}

// One array, one scatter dimension at most (scatter_simplifier sees to it): with more, their order
// in the updates and in the indices would have to agree after the permutation.
static hlo_instr *scatter(hlo_instr *i) {
  if (i->noperands != 3 || !same_layout(hlo_operand(i, 0)->shape, i->shape)) return NULL;
  if (hlo_attr_ints(i, HLO_ATTR_INPUT_BATCHING_DIMS).n) return NULL;
  hlo_instr *v[] = {hlo_operand(i, 0), hlo_operand(i, 1), hlo_operand(i, 2)};
  hlo_ints windows = hlo_attr_ints(i, HLO_ATTR_UPDATE_WINDOW_DIMS),
           inserted = hlo_attr_ints(i, HLO_ATTR_INSERTED_WINDOW_DIMS),
           to = hlo_attr_ints(i, HLO_ATTR_SCATTER_DIMS_TO_OPERAND_DIMS);
  if (v[2]->shape->rank - windows.n > 1) return NULL;
  i64 order[HLO_MAX_RANK], where[HLO_MAX_RANK], index[HLO_MAX_RANK + 1], update[HLO_MAX_RANK],
      window_of[HLO_MAX_RANK], nw[HLO_MAX_RANK], ni[HLO_MAX_RANK], nt[HLO_MAX_RANK];
  u32 rank = i->shape->rank, n = 0, m = 0;
  order_of(i->shape, order, where);
  // the index vector may be an implied last dimension
  index[v[1]->shape->rank] = v[1]->shape->rank;
  order_of(v[1]->shape, NULL, index);
  order_of(v[2]->shape, NULL, update);
  for (u32 d = 0, k = 0; d < rank; d++)
    window_of[d] = hlo_ints_has(inserted, d) ? -1 : update[windows.v[k++]];
  for (u32 k = 0; k < rank; k++) {
    if (window_of[order[k]] < 0) ni[m++] = k;
    else nw[n++] = window_of[order[k]];
  }
  for (u32 k = 0; k < to.n; k++) nt[k] = where[to.v[k]];
  i64 vector = index[hlo_attr_int(i, HLO_ATTR_INDEX_VECTOR_DIM, 0)];
  for (u32 k = 0; k < 3; k++) v[k] = input(v[k], i);
  v[2] = sorted_updates(v[2], i, n, nw);
  hlo_instr *s = again(i, 3, v);
  hlo_set_attr_ints(s, HLO_ATTR_UPDATE_WINDOW_DIMS, n, nw);
  hlo_set_attr_ints(s, HLO_ATTR_INSERTED_WINDOW_DIMS, m, ni);
  hlo_set_attr_ints(s, HLO_ATTR_SCATTER_DIMS_TO_OPERAND_DIMS, to.n, nt);
  hlo_set_attr_int(s, HLO_ATTR_INDEX_VECTOR_DIM, vector);
  return s;
}

static hlo_instr *row_major(hlo_instr *i) {
  switch (i->opcode) {
  case HLO_CONSTANT: return constant(i);
  case HLO_SLICE: return slice(i);
  case HLO_PAD: return pad(i);
  case HLO_REDUCE_WINDOW: return reduce_window(i);
  case HLO_CONCATENATE: return concatenate(i);
  case HLO_REVERSE: return reverse(i);
  case HLO_BROADCAST: return broadcast(i);
  case HLO_IOTA: return iota(i);
  case HLO_RESHAPE: return reshape(i);
  case HLO_TRANSPOSE:
  case HLO_COPY: return transpose(i);
  case HLO_DYNAMIC_SLICE:
  case HLO_DYNAMIC_UPDATE_SLICE: return dynamic_slice(i);
  case HLO_CONVOLUTION: return convolution(i);
  case HLO_SCATTER: return scatter(i);
  case HLO_BITCAST_CONVERT: return bitcast_convert(i);
  default:
    return i->noperands && hlo_op_has(i->opcode, HLO_F_ELEMENTWISE) && i->opcode != HLO_MAP &&
                   i->opcode != HLO_FUSION
               ? elementwise(i)
               : NULL;
  }
}

// ---- the pass -----------------------------------------------------------------------------------
static bool skipped(const hlo_instr *i) {
  if (!hlo_shape_is_array(i->shape)) return true;
  if (!i->shape->layout) return true;
  bool plain = descending(i->shape);
  for (u32 k = 0; k < i->noperands; k++) {
    const hlo_shape *s = hlo_operand(i, k)->shape;
    if (hlo_shape_is_array(s) && !s->layout) return true;
    plain &= hlo_shape_is_array(s) && descending(s);
  }
  return plain;
}

static void normalize(pass_ctx *c, hlo_instr *i) {
  const hlo_shape *s = i->shape;
  bool was_plain = descending(s);
  hlo_instr *now = row_major(i);
  if (now) {
    pass_note_done(c, i, now, "computed as a row-major array");
    hlo_replace(i, view(now, s, i));
    return;
  }
  if (was_plain ||
      (i->opcode == HLO_BITCAST && hlo_operand(i, 0)->shape == normalized(c->m->ctx, s)))
    return;
  // Its users read a view of the row-major view, which they will look through; a bitcast looks by
  // itself.
  hlo_instr **users = HS_NEW_ARRAY(c->scratch, hlo_instr *, i->nuses + 1);
  u32 *slots = HS_NEW_ARRAY(c->scratch, u32, i->nuses + 1), n = 0;
  hlo_for_each_use(u, i)
    if (u->user->opcode != HLO_BITCAST) users[n] = u->user, slots[n++] = hlo_slot(u);
  if (!n) return;
  hlo_instr *b = hlo_add(i->parent, HLO_BITCAST, normalized(c->m->ctx, s), 1, &i, NULL),
            *back = hlo_add(i->parent, HLO_BITCAST, s, 1, &b, NULL);
  hlo_add_provenance(b, i);
  hlo_add_provenance(back, i);
  for (u32 k = 0; k < n; k++) hlo_set_operand(users[k], slots[k], back);
}

static hs_status run(pass_ctx *c) {
  hlo_for_each_comp(comp, c->m) {
    if (hlo_is_fusion_comp(comp)) continue;
    hlo_instr **order = pass_post_order(c, comp);
    u32 n = comp->ninstrs;
    for (u32 k = 0; k < n; k++) {
      if (order[k]->dead || skipped(order[k])) continue;
      if (!pass_may_rewrite(c)) return HS_GOOD;
      normalize(c, order[k]);
    }
  }
  return HS_GOOD;
}

const pass_info pass_layout_normalization = {
    .name = "layout_normalization",
    .summary = "makes every array row-major: layouts become part of the shapes",
    .xla_source = "xla/service/layout_normalization.cc",
    .run = run,
    .sample = "ENTRY e {\n"
              "  x = f32[2,3]{0,1} parameter(0)\n"
              "  y = f32[2,3]{0,1} parameter(1)\n"
              "  s = f32[2,3]{0,1} add(x, y)\n"
              "  ROOT z = f32[4,3]{0,1} concatenate(s, y), dimensions={0}\n"
              "}\n",
};
