// rules_move.c — rules of dynamic_padder for operations that move elements.
//
// Most carry sizes along. A reshape moves elements in use when a dynamic dimension is not the
// major one among those that it is joined with or split into: then the number of an element among
// those in use, which both sides have in common, says where it is taken from (a gather).
// Concatenation writes each part over what is not in use of the one before; a reverse is followed
// by a shift.
//
// Which sizes a reshape's result has (xla/service/dynamic_dimension_inference.cc): dimensions are
// grouped where the products of both sides are equal, and in each group the last dynamic one of
// the result takes what the others leave; all of it, where they leave no element.
#include "passes/dynamic/dynamic.h"

static bool holds(hlo_ints v, i64 x) {
  for (u32 k = 0; k < v.n; k++)
    if (v.v[k] == x) return true;
  return false;
}

static hlo_instr *zero_of(const hlo_instr *x) {
  return hlo_build_scalar_f64(x->parent, x->shape->dtype, 0);
}

static hlo_instr *dynamic_slice(hlo_instr *x, hlo_instr *const *start, const i64 *size) {
  hlo_ctx *ctx = x->parent->module->ctx;
  u32 rank = x->shape->rank;
  hlo_instr *ops[HLO_MAX_RANK + 1] = {x};
  memcpy(ops + 1, start, rank * sizeof *start);
  const hlo_shape *s = hlo_shape_array(ctx, x->shape->dtype, rank, size);
  if (x->shape->layout) s = hlo_shape_with_layout(ctx, s, x->shape->layout);
  hlo_instr *r = hlo_add(x->parent, HLO_DYNAMIC_SLICE, s, rank + 1, ops, NULL);
  hlo_set_attr_ints(r, HLO_ATTR_DYNAMIC_SLICE_SIZES, rank, size);
  return r;
}

static hlo_instr *padded(hlo_instr *x, hlo_instr *value, const i64 *high) {
  hlo_pad_dim p[HLO_MAX_RANK];
  for (u32 k = 0; k < x->shape->rank; k++) p[k] = (hlo_pad_dim){.high = high[k]};
  return hlo_build_pad(x, value, p);
}

// ---- sizes go along -----------------------------------------------------------------------------
bool dyn_broadcast(dyn *d, hlo_instr *i) {
  hlo_ints to = hlo_attr_ints(i, HLO_ATTR_DIMENSIONS);
  for (u32 k = 0; k < to.n; k++)
    dyn_give(d, i, i, 0, (u32)to.v[k], dyn_size(d, hlo_operand(i, 0), 0, k));
  return true;
}

bool dyn_transpose(dyn *d, hlo_instr *i) {
  hlo_ints perm = hlo_attr_ints(i, HLO_ATTR_DIMENSIONS);
  for (u32 k = 0; k < perm.n; k++)
    dyn_give(d, i, i, 0, k, dyn_size(d, hlo_operand(i, 0), 0, (u32)perm.v[k]));
  return true;
}

bool dyn_slice(dyn *d, hlo_instr *i) {
  const hlo_shape *s = i->shape;
  for (u32 k = 0; k < s->rank; k++) {
    hlo_instr *n = dyn_size(d, hlo_operand(i, 0), 0, k);
    if (n) dyn_give(d, i, i, 0, k, dyn_clamped(n, s->dims[k]));
  }
  return true;
}

// The elements in use end up at the end of what was reversed.
bool dyn_reverse(dyn *d, hlo_instr *i) {
  hlo_instr *x = hlo_operand(i, 0), *start[HLO_MAX_RANK], *zero = dyn_const(i->parent, 0);
  const hlo_shape *s = x->shape;
  hlo_ints dims = hlo_attr_ints(i, HLO_ATTR_DIMENSIONS);
  i64 high[HLO_MAX_RANK] = {0};
  bool any = false;
  for (u32 k = 0; k < s->rank; k++) {
    hlo_instr *n = dyn_size(d, x, 0, k);
    bool moves = n && holds(dims, k);
    start[k] = moves ? dyn_op(HLO_SUBTRACT, dyn_const(i->parent, s->dims[k]), n) : zero;
    high[k] = moves ? s->dims[k] : 0;
    any |= moves;
  }
  if (!any) return dyn_give_leaf(d, i, i, 0, x, 0), true;
  hlo_instr *reversed = hlo_build_reverse(x, dims.n, dims.v),
            *now = dynamic_slice(padded(reversed, zero_of(x), high), start, s->dims);
  dyn_give_leaf(d, i, now, 0, x, 0);
  return dyn_replace(d, i, now);
}

bool dyn_pad(dyn *d, hlo_instr *i) {
  hlo_instr *x = hlo_operand(i, 0), *masked = x;
  const hlo_padding *p = hlo_attr_ptr(i, HLO_ATTR_PADDING);
  for (u32 k = 0; k < x->shape->rank; k++) {
    hlo_instr *n = dyn_size(d, x, 0, k);
    if (!n) continue;
    masked = dyn_mask(masked, k, n, hlo_operand(i, 1));
    // n + (n - 1) * interior + low + high
    hlo_computation *c = i->parent;
    hlo_instr *holes = dyn_op(HLO_SUBTRACT, n, dyn_const(c, 1));
    holes = dyn_op(HLO_MAXIMUM, holes, dyn_const(c, 0));
    holes = dyn_op(HLO_MULTIPLY, holes, dyn_const(c, p->v[k].interior));
    hlo_instr *size =
        dyn_op(HLO_ADD, dyn_op(HLO_ADD, n, holes), dyn_const(c, p->v[k].low + p->v[k].high));
    dyn_give(d, i, i, 0, k, dyn_clamped(size, i->shape->dims[k]));
  }
  hlo_set_operand(i, 0, masked);
  return true;
}

bool dyn_concatenate(dyn *d, hlo_instr *i) {
  u32 dim = (u32)hlo_attr_ints(i, HLO_ATTR_DIMENSIONS).v[0], rank = i->shape->rank;
  hlo_instr *now = i, *at = dyn_used(d, hlo_operand(i, 0), 0, dim), *zero = dyn_const(i->parent, 0);
  bool moves = false;
  bool varies = dyn_states(i->shape, 0, dim);  // else parts are used whole
  for (u32 k = 0; k < i->noperands && varies; k++)
    moves |= dyn_size(d, hlo_operand(i, k), 0, dim) != NULL;
  if (moves && i->noperands > 1) {
    hlo_instr *first = hlo_operand(i, 0);
    i64 high[HLO_MAX_RANK] = {0};
    high[dim] = i->shape->dims[dim] - first->shape->dims[dim];
    now = padded(first, zero_of(first), high);
  }
  for (u32 k = 1; k < i->noperands; k++) {
    hlo_instr *part = hlo_operand(i, k), *ops[HLO_MAX_RANK + 2] = {now, part};
    for (u32 j = 0; j < rank; j++) ops[2 + j] = j == dim ? at : zero;
    if (moves) now = hlo_add(i->parent, HLO_DYNAMIC_UPDATE_SLICE, now->shape, rank + 2, ops, NULL);
    at = dyn_op(HLO_ADD, at, dyn_used(d, part, 0, dim));
  }
  for (u32 k = 0; k < i->noperands; k++)
    for (u32 j = 0; j < rank; j++) {
      hlo_instr *n = dyn_size(d, hlo_operand(i, k), 0, j);
      if (n && j != dim) dyn_give(d, i, now, 0, j, n);
    }
  if (moves) dyn_give(d, i, now, 0, dim, at);
  return now == i ? true : dyn_replace(d, i, now);
}

// ---- reshapes -----------------------------------------------------------------------------------
// The product of sizes along dims from .. to, without dimension `but`; static ones as a constant.
static hlo_instr *product(hlo_computation *c, const hlo_shape *s, hlo_instr *const *size, u32 from,
                          u32 to, i64 but) {
  i64 fixed = 1;
  hlo_instr *p = NULL;
  for (u32 k = from; k < to; k++) {
    if (k == but) continue;
    if (!size[k]) fixed = hs_mul_sat_i64(fixed, s->dims[k]);
    else p = p ? dyn_op(HLO_MULTIPLY, p, size[k]) : size[k];
  }
  hlo_instr *f = dyn_const(c, fixed);
  return p ? dyn_op(HLO_MULTIPLY, p, f) : f;
}

// used / fixed, by constants where one divides the other; NULL, all of it: of a group of nothing.
static hlo_instr *share(const hlo_shape *a, hlo_instr *const *fn, hlo_dim_group from,
                        hlo_dim_group to, const hlo_shape *r, i64 dim, hlo_computation *c) {
  i64 whole = 1, fixed = 1;
  hlo_instr *p = NULL;
  for (u32 k = from.from; k < to.from; k++) {
    if (!fn[k]) whole = hs_mul_sat_i64(whole, a->dims[k]);
    else p = p ? dyn_op(HLO_MULTIPLY, p, fn[k]) : fn[k];
  }
  for (u32 k = from.to; k < to.to; k++)
    if (k != dim) fixed = hs_mul_sat_i64(fixed, r->dims[k]);
  if (!fixed) return NULL;
  if (!p) return dyn_const(c, whole / fixed);
  if (whole % fixed == 0) return dyn_op(HLO_MULTIPLY, p, dyn_const(c, whole / fixed));
  if (whole && fixed % whole == 0) return dyn_op(HLO_DIVIDE, p, dyn_const(c, fixed / whole));
  return dyn_op(HLO_DIVIDE, dyn_op(HLO_MULTIPLY, p, dyn_const(c, whole)), dyn_const(c, fixed));
}

// The first dimension of from .. to that has more than one element.
static u32 major_of(const hlo_shape *s, u32 from, u32 to) {
  while (from < to && s->dims[from] == 1) from++;
  return from;
}

// The sizes of a reshape's result, tn, where it has any; false when elements in use stay where they
// are. Of a group without a dynamic dimension in the result all are, and fn loses its sizes.
static bool reshaped(const hlo_shape *a, hlo_instr **fn, const hlo_shape *r, hlo_computation *c,
                     hs_arena *mem, hlo_instr **tn) {
  hlo_dim_group *g = HS_NEW_ARRAY(mem, hlo_dim_group, a->rank + r->rank + 3);
  u32 n = hlo_size_groups(a, r, g);
  bool moves = false;
  for (u32 k = 0; k < n; k++) {
    i64 dim = -1, sized = -1;
    u32 nsized = 0;
    for (u32 j = g[k].from; j < g[k + 1].from; j++)
      if (fn[j]) sized = j, nsized++;
    if (!nsized) continue;
    for (u32 j = g[k].to; j < g[k + 1].to; j++)
      if (hlo_dim_is_dynamic(r, j) && (dim < 0 || r->dims[j] > 1)) dim = j;
    for (u32 j = g[k].from; dim < 0 && j < g[k + 1].from; j++) fn[j] = NULL;
    if (dim < 0) continue;
    tn[dim] = share(a, fn, g[k], g[k + 1], r, dim, c);
    bool major = nsized == 1 && sized <= major_of(a, g[k].from, g[k + 1].from) &&
                 dim <= major_of(r, g[k].to, g[k + 1].to);
    moves |= !major;
  }
  return moves;
}

// An array of `like`'s dimensions: where in x (its elements in row-major order) the element in use
// with the same number lies; fn and tn are the sizes of x and of the result, NULL: the bound.
static hlo_instr *sources(const hlo_shape *x, hlo_instr *const *fn, const hlo_instr *like,
                          hlo_instr *const *tn) {
  hlo_computation *c = like->parent;
  const hlo_shape *r = like->shape;
  hlo_instr *number = NULL, *at = NULL;
  i64 stride[HLO_MAX_RANK];
  hlo_row_major_strides(x->rank, x->dims, stride);
  for (u32 k = 0; k < r->rank; k++) {
    if (r->dims[k] == 1) continue;
    hlo_instr *step = dyn_spread(product(c, r, tn, k + 1, r->rank, -1), like),
              *part = hlo_build_binary(HLO_MULTIPLY, dyn_iota(like, k), step);
    number = number ? hlo_build_binary(HLO_ADD, number, part) : part;
  }
  if (!number) number = dyn_spread(dyn_const(c, 0), like);
  for (u32 k = x->rank; k-- > 0;) {
    if (x->dims[k] == 1) continue;
    hlo_instr *n = fn[k] ? fn[k] : dyn_const(c, x->dims[k]);
    n = dyn_spread(dyn_op(HLO_MAXIMUM, n, dyn_const(c, 1)), like);
    hlo_instr *index = hlo_build_binary(HLO_REMAINDER, number, n),
              *step = dyn_spread(dyn_const(c, stride[k]), like),
              *part = hlo_build_binary(HLO_MULTIPLY, index, step);
    number = hlo_build_binary(HLO_DIVIDE, number, n);
    at = at ? hlo_build_binary(HLO_ADD, at, part) : part;
  }
  return at ? at : dyn_spread(dyn_const(c, 0), like);
}

static hlo_instr *gathered(hlo_instr *x, hlo_instr *at) {
  const i64 total[] = {x->shape->elements}, column[] = {at->shape->elements, 1}, zero[] = {0},
            one[] = {1};
  hlo_instr *ops[] = {hlo_build_reshape(x, 1, total), hlo_build_reshape(at, 2, column)};
  const hlo_shape *s = hlo_shape_array(x->parent->module->ctx, x->shape->dtype, 1, column);
  if (x->shape->layout) s = hlo_shape_fill_layout(x->parent->module->ctx, s);
  hlo_instr *g = hlo_add(x->parent, HLO_GATHER, s, 2, ops, NULL);
  hlo_set_attr_ints(g, HLO_ATTR_OFFSET_DIMS, 0, zero);
  hlo_set_attr_ints(g, HLO_ATTR_COLLAPSED_SLICE_DIMS, 1, zero);
  hlo_set_attr_ints(g, HLO_ATTR_START_INDEX_MAP, 1, zero);
  hlo_set_attr_int(g, HLO_ATTR_INDEX_VECTOR_DIM, 1);
  hlo_set_attr_ints(g, HLO_ATTR_SLICE_SIZES, 1, one);
  return hlo_build_reshape(g, at->shape->rank, at->shape->dims);
}

// The elements of x that are in use, in order, as those of an array of i's dimensions with sizes
// tn.
static bool pour(dyn *d, hlo_instr *i, hlo_instr *const *fn, hlo_instr **tn) {
  hlo_instr *x = hlo_operand(i, 0);
  const hlo_shape *s = dyn_static(d->c->m->ctx, i->shape);
  if (x->shape->elements > INT32_MAX || s->elements > INT32_MAX)
    return dyn_refuse(d, i, "it has more elements than s32 can count");
  hlo_instr *now;
  if (!s->elements || !x->shape->elements) now = hlo_build_full(i->parent, s, 0);
  else {
    hlo_instr *like = hlo_build_reshape(x, s->rank, s->dims);
    if (s->elements != x->shape->elements) like = hlo_build_full(i->parent, s, 0);
    now = gathered(x, sources(x->shape, fn, like, tn));
  }
  for (u32 k = 0; k < s->rank; k++) dyn_give(d, i, now, 0, k, tn[k]);
  return dyn_replace(d, i, now);
}

static void sizes_of(const dyn *d, const hlo_instr *x, hlo_instr **n) {
  for (u32 k = 0; k < x->shape->rank; k++) n[k] = dyn_size(d, x, 0, k);
}

bool dyn_reshape(dyn *d, hlo_instr *i) {
  hlo_instr *x = hlo_operand(i, 0), *fn[HLO_MAX_RANK], *tn[HLO_MAX_RANK] = {0};
  sizes_of(d, x, fn);
  // of a static type all elements are in use, wherever they lie
  bool moves = i->shape->dynamic && dyn_has(d, x) &&
               reshaped(x->shape, fn, i->shape, i->parent, d->c->scratch, tn);
  if (moves) return pour(d, i, fn, tn);
  for (u32 k = 0; k < i->shape->rank; k++) dyn_give(d, i, i, 0, k, tn[k]);
  return true;
}

bool dyn_dynamic_reshape(dyn *d, hlo_instr *i) {
  const hlo_shape *s = i->shape;
  hlo_instr *x = hlo_operand(i, 0), *fn[HLO_MAX_RANK], *tn[HLO_MAX_RANK];
  sizes_of(d, x, fn);
  for (u32 k = 0; k < s->rank; k++)  // a static dimension has its size, whatever the operand says
    tn[k] = hlo_dim_is_dynamic(s, k) ? dyn_clamped(hlo_operand(i, k + 1), s->dims[k]) : NULL;
  return pour(d, i, fn, tn);
}

// ---- parts and indices --------------------------------------------------------------------------
bool dyn_dynamic_slice(dyn *d, hlo_instr *i) {
  hlo_instr *x = hlo_operand(i, 0);
  for (u32 k = 0; k < i->shape->rank; k++)
    if (i->shape->dims[k] == x->shape->dims[k]) dyn_give(d, i, i, 0, k, dyn_size(d, x, 0, k));
  return true;
}

// What is not in use of the update leaves the operand as it is.
bool dyn_dynamic_update_slice(dyn *d, hlo_instr *i) {
  hlo_instr *x = hlo_operand(i, 0), *update = hlo_operand(i, 1), *start[HLO_MAX_RANK];
  u32 rank = i->shape->rank;
  if (i->noperands != rank + 2 && dyn_has(d, update))
    return dyn_refuse(d, i, "its indices are one array");
  hlo_instr *old = NULL;
  for (u32 k = 0; k < rank; k++) {
    hlo_instr *n = dyn_size(d, hlo_operand(i, 1), 0, k);
    if (!n) continue;
    for (u32 j = 0; j < rank && !old; j++) start[j] = hlo_operand(i, j + 2);
    if (!old) old = dynamic_slice(x, start, update->shape->dims);
    update = hlo_build_select(dyn_in_use(update, k, n), update, old);
  }
  hlo_set_operand(i, 1, update);
  dyn_give_leaf(d, i, i, 0, x, 0);
  return true;
}

bool dyn_gather(dyn *d, hlo_instr *i) {
  hlo_instr *x = hlo_operand(i, 0), *ids = hlo_operand(i, 1);
  hlo_ints offset = hlo_attr_ints(i, HLO_ATTR_OFFSET_DIMS),
           collapsed = hlo_attr_ints(i, HLO_ATTR_COLLAPSED_SLICE_DIMS),
           batch = hlo_attr_ints(i, HLO_ATTR_OPERAND_BATCHING_DIMS),
           size = hlo_attr_ints(i, HLO_ATTR_SLICE_SIZES);
  i64 vector = hlo_attr_int(i, HLO_ATTR_INDEX_VECTOR_DIM, ids->shape->rank);
  u32 k = 0, id = 0;
  for (u32 j = 0; j < x->shape->rank; j++) {
    if (holds(collapsed, j) || holds(batch, j)) continue;
    u32 r = (u32)offset.v[k++];
    if (size.v[j] == x->shape->dims[j]) dyn_give(d, i, i, 0, r, dyn_size(d, x, 0, j));
  }
  for (u32 r = 0; r < i->shape->rank; r++) {
    if (holds(offset, r)) continue;
    if (id == vector) id++;
    dyn_give(d, i, i, 0, r, dyn_size(d, ids, 0, id++));
  }
  return true;
}

// Updates that are not in use get indices outside of the operand, and so do nothing. Of windows
// nothing is left out: where they have dynamic dimensions, so has the operand.
bool dyn_scatter(dyn *d, hlo_instr *i) {
  u32 n = (i->noperands - 1) / 2;
  hlo_instr *ids = hlo_operand(i, n), *updates = hlo_operand(i, n + 1), *masked = ids;
  hlo_ints window = hlo_attr_ints(i, HLO_ATTR_UPDATE_WINDOW_DIMS);
  i64 vector = hlo_attr_int(i, HLO_ATTR_INDEX_VECTOR_DIM, ids->shape->rank);
  hlo_instr *outside = NULL;
  hlo_dtype t = ids->shape->dtype;
  u32 u = 0;
  for (u32 k = 0; k < ids->shape->rank; k++) {
    if (k == vector) continue;
    while (u < updates->shape->rank && holds(window, u)) u++;
    hlo_instr *size = dyn_size(d, ids, 0, k);
    if (!size) size = dyn_size(d, updates, 0, u);
    u++;
    if (!size) continue;
    if (!hlo_attr_ints(i, HLO_ATTR_SCATTER_DIMS_TO_OPERAND_DIMS).n)
      return dyn_refuse(d, i, "its updates have no indices");
    // the largest number of a short type without sign may lie inside
    if (hlo_dtype_is_unsigned(t) && hlo_dtype_bits(t) < 64)
      masked = hlo_build_convert(masked, t = hlo_dtype_bits(t) < 32 ? HLO_S32 : HLO_S64);
    if (!outside) outside = hlo_build_scalar_i64(i->parent, t, -1);
    masked = dyn_mask(masked, k, size, outside);
  }
  hlo_set_operand(i, n, masked);
  for (u32 k = 0; k < n; k++) dyn_give_leaf(d, i, i, k, hlo_operand(i, k), 0);
  return true;
}
