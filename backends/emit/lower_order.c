// lower_order.c — lowering of scatter and sort, where elements go to places that data decides.
//
// For targets whose threads must not meet in memory (nest_lower_all). An element of a scatter's
// result looks through all indices, in order, for the updates that are its own: deterministic with
// any combiner, and nobody writes what another one writes. An element of a sort counts those that
// come before it, which is its place: stable, and right for any comparator that is an order. Both
// are quadratic, so they are refused where that would take minutes.
#include "backends/emit/lower.h"

static const double MOST_STEPS = 0x1p38;

static u32 both(nest *n, u32 a, u32 b) {
  return a == NEST_NONE ? b : b == NEST_NONE ? a : nest_op2(n, HLO_AND, HLO_PRED, a, b);
}

static double elements(const hlo_shape *s) { return (double)s->elements; }

// ---- scatter ------------------------------------------------------------------------------------
typedef struct scatter {
  hlo_ints window, inserted, map, batch, id_batch;
  i64 vector;
  const hlo_shape *to, *ids, *updates;
  i64 size[HLO_MAX_RANK];  // of the window, per dimension of the operand
} scatter;

static bool describe(const hlo_instr *i, u32 nv, scatter *s) {
  *s = (scatter){hlo_attr_ints(i, HLO_ATTR_UPDATE_WINDOW_DIMS),
                 hlo_attr_ints(i, HLO_ATTR_INSERTED_WINDOW_DIMS),
                 hlo_attr_ints(i, HLO_ATTR_SCATTER_DIMS_TO_OPERAND_DIMS),
                 hlo_attr_ints(i, HLO_ATTR_INPUT_BATCHING_DIMS),
                 hlo_attr_ints(i, HLO_ATTR_SCATTER_INDICES_BATCHING_DIMS),
                 0,
                 hlo_operand(i, 0)->shape,
                 hlo_operand(i, nv)->shape,
                 hlo_operand(i, nv + 1)->shape,
                 {0}};
  s->vector = hlo_attr_int(i, HLO_ATTR_INDEX_VECTOR_DIM, s->ids->rank);
  u32 k = 0;
  for (u32 d = 0; d < s->to->rank; d++) {
    s->size[d] = 1;
    if (hlo_ints_has(s->inserted, d) || hlo_ints_has(s->batch, d)) continue;
    if (k >= s->window.n) return false;
    s->size[d] = s->updates->dims[s->window.v[k++]];
  }
  return k == s->window.n && s->map.n <= s->to->rank;
}

// Whether the computation takes and gives the operands' types.
static bool as_is(const hlo_instr *i, u32 nv) {
  const hlo_computation *c = hlo_attr_comp(i, HLO_ATTR_TO_APPLY);
  if (!c || c->nparams != 2 * nv) return false;
  for (u32 k = 0; k < nv; k++) {
    hlo_dtype t = hlo_operand(i, k)->shape->dtype;
    if (c->params[k]->shape->dtype != t || c->params[nv + k]->shape->dtype != t ||
        hlo_operand(i, nv + 1 + k)->shape->dtype != t ||
        hlo_shape_leaf(c->root->shape, k)->dtype != t || hlo_shape_leaf(i->shape, k)->dtype != t)
      return false;
  }
  return true;
}

// The predicate lo <= v <= hi for a value of an integer type; bounds outside of the type are left
// out. NEST_NONE: always.
static u32 between(lowering *l, u32 v, i64 hi) {
  nest *n = l->n;
  hlo_dtype t = n->nodes.v[v].dtype;
  nest_val out;
  u32 ok = NEST_NONE;
  int bits = hlo_dtype_bits(t) - (hlo_dtype_is_signed(t) ? 1 : 0);
  for (int upper = 0; upper < 2; upper++) {
    if (upper ? bits < 63 && hi >= ((i64)1 << bits) - 1 : !hlo_dtype_is_signed(t)) continue;
    u8 raw[8] = {0};
    hlo_elem_from_i64(t, raw, upper ? hi : 0);
    nest_val bound = {nest_const_bits(n, t, raw), NEST_NONE};
    (void)nest_compare(n, upper ? HLO_DIRECTION_LE : HLO_DIRECTION_GE, false, t,
                       (nest_val){v, NEST_NONE}, bound, &out);
    ok = both(n, ok, out.re);
  }
  return ok;
}

nest_val lower_scatter(lowering *l, lower_frame *f, const hlo_instr *i, u32 leaf, u32 rank,
                       const nest_expr *const *idx, u32 guard) {
  nest *n = l->n;
  u32 nv = (i->noperands - 1) / 2, loops[NEST_MAX_LOOPS], nloops = 0, own = NEST_NONE;
  scatter s;
  if (!as_is(i, nv) || !describe(i, nv, &s)) return lower_refuse(l, i, "of several precisions");
  if (elements(s.to) * elements(s.ids) > MOST_STEPS) return lower_refuse(l, i, "too large");
  nest_val *in = HS_NEW_ARRAY(l->a, nest_val, 3 * nv), *init = in + nv, *out = in + 2 * nv;
  hlo_dtype *types = HS_NEW_ARRAY(l->a, hlo_dtype, nv);
  const nest_expr *up[HLO_MAX_RANK], *id[HLO_MAX_RANK];
  for (u32 k = 0; k < nv && !lower_failed(l); k++) {
    types[k] = hlo_operand(i, k)->shape->dtype;
    init[k] = lower_value(l, f, hlo_operand(i, k), 0, rank, idx, guard);
  }
  if (lower_failed(l)) return LOWER_NONE;
  if (s.updates->elements == 0) return init[leaf];
  // dimensions of the updates that are no part of a window
  for (u32 d = 0, at = 0; d < s.updates->rank; d++) {
    if (hlo_ints_has(s.window, d)) continue;
    if ((i64)at == s.vector) at++;
    up[d] = nest_const(n, 0);
    bool batch = false;
    for (u32 b = 0; b < s.id_batch.n; b++)
      if (s.id_batch.v[b] == (i64)at) up[d] = idx[s.batch.v[b]], batch = true;
    if (!batch && s.updates->dims[d] > 1) {
      if (!nest_new_loop(n, s.updates->dims[d], &loops[nloops]))
        return lower_refuse(l, i, "too many loops");
      up[d] = nest_of_var(n, loops[nloops++], 1);
    }
    if (at < s.ids->rank) id[at] = up[d];
    at++;
  }
  const nest_expr *offset[HLO_MAX_RANK];
  for (u32 d = 0; d < s.to->rank; d++) offset[d] = idx[d];
  for (u32 q = 0; q < s.map.n; q++) {
    i64 d = s.map.v[q], most = s.to->dims[d] - s.size[d];
    if (most < 0) return init[leaf];  // no window fits
    if (s.vector < (i64)s.ids->rank) id[s.vector] = nest_const(n, q);
    nest_val v = lower_value(l, f, hlo_operand(i, nv), 0, s.ids->rank, id, guard);
    if (lower_failed(l)) return LOWER_NONE;
    own = both(n, own, between(l, v.re, most));
    if (most > 0)
      offset[d] = nest_add(n, offset[d],
                           nest_mul(n, nest_of_var(n, nest_new_value(n, v.re, 0, most), 1), -1));
  }
  for (u32 d = 0, k = 0; d < s.to->rank; d++) {
    if (hlo_ints_has(s.batch, d)) continue;
    own = nest_guard(n, offset[d], 0, s.size[d], own);
    if (!hlo_ints_has(s.inserted, d))
      up[s.window.v[k++]] = s.size[d] == 1 ? nest_const(n, 0) : offset[d];
  }
  for (u32 k = 0; k < nv && !lower_failed(l); k++)
    in[k] =
        lower_value(l, f, hlo_operand(i, nv + 1 + k), 0, s.updates->rank, up, both(n, guard, own));
  if (lower_failed(l)) return LOWER_NONE;
  lower_group(l, i, hlo_attr_comp(i, HLO_ATTR_TO_APPLY), nloops, loops, NEST_NONE, own, nv, in,
              init, types, out);
  for (u32 k = 0; k < nv && !lower_failed(l); k++) lower_put(l, f, i, k, rank, idx, guard, out[k]);
  return lower_failed(l) ? LOWER_NONE : out[leaf];
}

// ---- sort ---------------------------------------------------------------------------------------
// A plain comparison of floats puts NaN nowhere; it comes last, in either direction.
static u32 nan_last(nest *n, const hlo_computation *c, u32 less, nest_val a, nest_val b) {
  const hlo_instr *r = c->root;
  nest_val na, nb;
  if (r->opcode != HLO_COMPARE || !hlo_dtype_is_float(n->nodes.v[a.re].dtype) ||
      hlo_attr_int(r, HLO_ATTR_COMPARE_TYPE, -1) == HLO_COMPARE_TYPE_TOTALORDER)
    return less;
  u32 x = NEST_NONE;
  for (u32 k = 0; k < 2; k++)
    if (hlo_operand(r, k)->opcode == HLO_PARAMETER) x = (u32)hlo_param_number(hlo_operand(r, k));
  if (x > 1) return less;
  hlo_dtype t = n->nodes.v[a.re].dtype;
  (void)nest_compare(n, HLO_DIRECTION_EQ, false, t, a, a, &na);
  (void)nest_compare(n, HLO_DIRECTION_NE, false, t, b, b, &nb);
  return nest_op2(n, HLO_OR, HLO_PRED, less, nest_op2(n, HLO_AND, HLO_PRED, na.re, nb.re));
}

// less(a, b) by the comparator.
static u32 less(lowering *l, const hlo_instr *i, const nest_val *a, const nest_val *b) {
  const hlo_computation *c = hlo_attr_comp(i, HLO_ATTR_TO_APPLY);
  nest_val *args = HS_NEW_ARRAY(l->n->a, nest_val, 2 * i->noperands);
  for (u32 k = 0; k < i->noperands; k++) args[2 * k] = a[k], args[2 * k + 1] = b[k];
  lower_frame *fr = HS_NEW(l->n->a, lower_frame);
  *fr = (lower_frame){.caller = i, .vals = args};
  nest_val v = lower_value(l, fr, c->root, 0, 0, NULL, NEST_NONE);
  return lower_failed(l) ? NEST_NONE : nan_last(l->n, c, v.re, a[0], b[0]);
}

bool lower_sort(lowering *l, lower_frame *f, const hlo_instr *i) {
  nest *n = l->n;
  if (i->opcode != HLO_SORT) return false;
  const hlo_shape *s = hlo_operand(i, 0)->shape;
  hlo_ints dims = hlo_attr_ints(i, HLO_ATTR_DIMENSIONS);
  u32 d = dims.n ? (u32)dims.v[0] : s->rank - 1, loop;
  const hlo_computation *c = hlo_attr_comp(i, HLO_ATTR_TO_APPLY);
  if (s->elements == 0) return true;
  if (!c || c->nparams != 2 * i->noperands || s->rank == 0)
    return (void)lower_refuse(l, i, "with this computation"), true;
  i64 size = s->dims[d];
  if (elements(s) * (double)size > MOST_STEPS) return (void)lower_refuse(l, i, "too large"), true;
  const nest_expr **idx, *other[HLO_MAX_RANK], *to[HLO_MAX_RANK];
  size_t stage;
  if (!lower_stage(l, hlo_shape_leaf(i->shape, 0), &stage, &idx)) return true;
  memcpy(other, idx, s->rank * sizeof *idx);
  memcpy(to, idx, s->rank * sizeof *idx);
  nest_val *a = HS_NEW_ARRAY(l->a, nest_val, 2 * i->noperands), *b = a + i->noperands;
  for (u32 k = 0; k < i->noperands && !lower_failed(l); k++) {
    if (hlo_operand(i, k)->shape->dtype != hlo_shape_leaf(i->shape, k)->dtype)
      (void)lower_refuse(l, i, "of several precisions");
    else a[k] = lower_value(l, f, hlo_operand(i, k), 0, s->rank, idx, NEST_NONE);
  }
  if (size > 1 && !lower_failed(l)) {
    if (!nest_new_loop(n, size, &loop)) return (void)lower_refuse(l, i, "too many loops"), true;
    other[d] = nest_of_var(n, loop, 1);
    for (u32 k = 0; k < i->noperands && !lower_failed(l); k++)
      b[k] = lower_value(l, f, hlo_operand(i, k), 0, s->rank, other, NEST_NONE);
    if (lower_failed(l)) return true;
    u32 before = less(l, i, b, a), after = less(l, i, a, b);
    if (lower_failed(l)) return true;
    const nest_expr *apart = nest_add(n, other[d], nest_mul(n, idx[d], -1));
    u32 earlier = nest_guard(n, apart, -size, 0, NEST_NONE),
        tie = nest_op2(n, HLO_AND, HLO_PRED, nest_op1(n, HLO_NOT, HLO_PRED, after), earlier);
    before = nest_op2(n, HLO_OR, HLO_PRED, before, tie);
    hlo_dtype count = HLO_S32;
    nest_val in = {nest_op1(n, HLO_CONVERT, count, before), NEST_NONE},
             zero = {nest_const_f64(n, count, 0), NEST_NONE}, place;
    lower_group(l, i, NULL, 1, &loop, NEST_NONE, NEST_NONE, 1, &in, &zero, &count, &place);
    if (lower_failed(l)) return true;
    to[d] = nest_of_var(n, nest_new_value(n, place.re, 0, size - 1), 1);
  }
  for (u32 k = 0; k < i->noperands && !lower_failed(l); k++) lower_store(l, stage, k, to, a[k]);
  return true;
}
