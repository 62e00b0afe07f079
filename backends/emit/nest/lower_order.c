// lower_order.c — lowering of scatter, sort and topk: elements go to places that data decides.
//
// For targets whose threads must not meet in memory (nest_lower_all). A sort becomes an order of
// the nest, which the target has a way for. A scatter puts its updates in the order of the places
// that they go to (an order too: of numbers whose high half is the place and whose low half the
// update), and each element of the result takes those between two bounds, in their own order:
// deterministic with any combiner, and nobody writes what another one writes. Where windows reach
// over several places, and where little is to be done, an element looks through all indices
// instead, which is refused where it would take minutes.
#include "backends/emit/nest/lower.h"

#include "core/analysis/sort_keys.h"

#include "core/analysis/sort_keys.h"

enum { SHARED_UPDATES = 64 };
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

// Where update number `number` lies: the dimensions of the updates that are no part of a window,
// and the indices' dimensions beside them; extents of one are left out.
static void update_place(nest *n, const scatter *s, const nest_expr *number, const nest_expr **up,
                         const nest_expr **id) {
  i64 below = 1;
  for (u32 d = s->updates->rank; d-- > 0;)
    if (!hlo_ints_has(s->window, d)) {
      i64 e = s->updates->dims[d];
      up[d] = e == 1 ? nest_const(n, 0) : nest_mod(n, nest_div(n, number, below), e);
      below *= e;
    }
  for (u32 d = 0, at = 0; d < s->updates->rank; d++) {
    if (hlo_ints_has(s->window, d)) continue;
    if ((i64)at == s->vector) at++;
    if (at < s->ids->rank) id[at++] = up[d];
  }
}

static i64 starts_in(const scatter *s, i64 d) { return s->to->dims[d] - s->size[d] + 1; }

// The place of an element, or of an update with those values as indices: row-major over the batch
// dimensions and those that the indices say.
static const nest_expr *place_of(nest *n, const scatter *s, const nest_expr *const *idx) {
  const nest_expr *e = nest_const(n, 0);
  for (u32 b = 0; b < s->batch.n; b++)
    e = nest_add(n, nest_mul(n, e, s->to->dims[s->batch.v[b]]), idx[s->batch.v[b]]);
  for (u32 q = 0; q < s->map.n; q++) {
    i64 most = starts_in(s, s->map.v[q]);
    e = nest_mul(n, e, most);
    if (most > 1) e = nest_add(n, e, idx[s->map.v[q]]);
  }
  return e;
}

static u32 u32_const(nest *n, u32 v) { return nest_const_f64(n, HLO_U32, (double)v); }

// Whether windows can be put in order: each covers one place of each dimension that is indexed, or
// all of it.
static bool can_order(const lowering *l, const hlo_instr *i, const scatter *s, i64 *places,
                      i64 *updates) {
  *places = *updates = 1;
  for (u32 b = 0; b < s->batch.n; b++)
    if (!hs_mul_ok(*places, s->to->dims[s->batch.v[b]], places)) return false;
  for (u32 q = 0; q < s->map.n; q++) {
    i64 most = starts_in(s, s->map.v[q]);
    if (most < 1 || (most > 1 && s->size[s->map.v[q]] != 1) || !hs_mul_ok(*places, most, places))
      return false;
  }
  for (u32 d = 0; d < s->updates->rank; d++)
    if (!hlo_ints_has(s->window, d)) *updates *= s->updates->dims[d];
  return (!l->n->order || l->ordered == i) && *places < UINT32_MAX && *updates < INT32_MAX &&
         elements(s->to) * (double)*updates > 1 << 14;
}

static nest_order *new_order(nest *n) {
  nest_order *o = HS_NEW(n->a, nest_order);
  o->counts = NEST_NONE;
  return o;
}

// The computation of an order: placeholders for two elements, ACCs before ELEMs.
static void placeholders(nest *n, nest_group *g, u32 nvalues, const u32 *values) {
  u32 *all = hs_arena_zalloc(n->a, (2 * (size_t)nvalues + 1) * sizeof *all);
  *g = (nest_group){.nacc = 1, .acc = all, .elem = all + nvalues, .next = all + 2 * nvalues};
  for (u32 k = 0; k < nvalues; k++) {
    hlo_dtype t = n->nodes.v[values[k]].dtype;
    g->acc[k] = nest_node_add(n, &(nest_node){.kind = NEST_ACC, .dtype = t, .k = k});
    g->elem[k] = nest_node_add(n, &(nest_node){.kind = NEST_ELEM, .dtype = t, .k = k});
  }
}

// The order of the updates: place in the high half, number in the low half. Those that go nowhere
// come last.
static bool order_updates(lowering *l, lower_frame *f, const hlo_instr *i, const scatter *s,
                          i64 places, i64 updates) {
  nest *n = l->n;
  u32 nv = (i->noperands - 1) / 2, loop, own = NEST_NONE, place = u32_const(n, 0);
  const nest_expr *up[HLO_MAX_RANK], *id[HLO_MAX_RANK];
  if (!nest_new_loop(n, updates, &loop)) return (void)lower_refuse(l, i, "too many loops"), false;
  const nest_expr *number = nest_of_var(n, loop, 1);
  update_place(n, s, number, up, id);
  for (u32 b = 0; b < s->batch.n; b++) {
    u32 at = nest_node_add(
        n, &(nest_node){.kind = NEST_INDEX, .dtype = HLO_S64, .e = id[s->id_batch.v[b]]});
    place =
        nest_op2(n, HLO_MULTIPLY, HLO_U32, place, u32_const(n, (u32)s->to->dims[s->batch.v[b]]));
    place = nest_op2(n, HLO_ADD, HLO_U32, place, nest_op1(n, HLO_CONVERT, HLO_U32, at));
  }
  for (u32 q = 0; q < s->map.n; q++) {
    i64 most = starts_in(s, s->map.v[q]);
    if (s->vector < (i64)s->ids->rank) id[s->vector] = nest_const(n, q);
    nest_val v = lower_value(l, f, hlo_operand(i, nv), 0, s->ids->rank, id, NEST_NONE);
    if (lower_failed(l)) return false;
    own = both(n, own, between(l, v.re, most - 1));
    place = nest_op2(n, HLO_MULTIPLY, HLO_U32, place, u32_const(n, (u32)most));
    place = nest_op2(n, HLO_ADD, HLO_U32, place,
                     n->nodes.v[v.re].dtype == HLO_U32 ? v.re
                                                       : nest_op1(n, HLO_CONVERT, HLO_U32, v.re));
  }
  if (own != NEST_NONE) place = nest_select(n, HLO_U32, own, place, u32_const(n, UINT32_MAX));
  u32 key = nest_op1(n, HLO_CONVERT, HLO_U64, place),
      last = nest_op1(
          n, HLO_CONVERT, HLO_U64,
          nest_node_add(n, &(nest_node){.kind = NEST_INDEX, .dtype = HLO_S64, .e = number}));
  key = nest_op2(n, HLO_SHIFT_LEFT, HLO_U64, key, nest_const_f64(n, HLO_U64, 32));
  key = nest_op2(n, HLO_OR, HLO_U64, key, last);
  nest_order *o = new_order(n);
  nest_val less;
  o->along = loop;
  o->stage.loops[o->stage.nloops++] = loop;
  u32 keys = nest_scratch(n, HLO_U64, updates);
  hs_vec_push(&o->stage.stores, ((nest_store){keys, number, key}));
  placeholders(n, &o->less, 1, &key);
  (void)nest_compare(n, HLO_DIRECTION_LT, false, HLO_U64, (nest_val){o->less.acc[0], NEST_NONE},
                     (nest_val){o->less.elem[0], NEST_NONE}, &less);
  o->less.next[0] = less.re;
  o->key = o->less;
  o->key.next = hs_arena_zalloc(n->a, sizeof *o->key.next);
  // those that go nowhere are one more place; equal ones lie in the order of their numbers already
  u32 to =
      nest_op2(n, HLO_SHIFT_RIGHT_LOGICAL, HLO_U64, o->less.acc[0], nest_const_f64(n, HLO_U64, 32));
  to = nest_op2(n, HLO_MINIMUM, HLO_U32, nest_op1(n, HLO_CONVERT, HLO_U32, to),
                u32_const(n, (u32)places));
  o->key.next[0] = to;
  while (o->key_bits < 32 && places >> o->key_bits) o->key_bits++;
  o->unique = true;
  o->places = NEST_NONE;
  o->starts = nest_scratch(n, HLO_U32, places + 1);
  o->limits = places;
  n->order = o;
  l->ordered = i;
  return true;
}

static u32 load_at(nest *n, u32 buf, const nest_expr *e) {
  return nest_node_add(n, &(nest_node){.kind = NEST_LOAD,
                                       .dtype = n->bufs.v[buf].dtype,
                                       .e = e,
                                       .buf = buf,
                                       .guard = NEST_NONE});
}

// An element takes its updates from those in order.
static nest_val ordered_scatter(lowering *l, lower_frame *f, const hlo_instr *i, u32 leaf, u32 rank,
                                const nest_expr *const *idx, u32 guard, const scatter *s,
                                nest_val *in, const nest_val *init, const hlo_dtype *types,
                                i64 updates) {
  nest *n = l->n;
  u32 nv = (i->noperands - 1) / 2, loop, own = NEST_NONE;
  const nest_expr *up[HLO_MAX_RANK], *id[HLO_MAX_RANK], *place = place_of(n, s, idx);
  nest_val *out = HS_NEW_ARRAY(l->a, nest_val, nv);
  if (!nest_new_loop(n, updates, &loop)) return lower_refuse(l, i, "too many loops");
  u32 keys = n->order->stage.stores.v[0].buf, from = load_at(n, n->order->starts, place),
      to = load_at(n, n->order->starts, nest_add(n, place, nest_const(n, 1))),
      number = nest_op2(n, HLO_AND, HLO_U64, load_at(n, keys, nest_of_var(n, loop, 1)),
                        nest_const_f64(n, HLO_U64, (double)UINT32_MAX));
  number = nest_op1(n, HLO_CONVERT, HLO_U32, number);
  update_place(n, s, nest_of_var(n, nest_new_value(n, number, 0, updates - 1), 1), up, id);
  for (u32 d = 0, k = 0; d < s->to->rank; d++) {
    if (hlo_ints_has(s->batch, d) || hlo_ints_has(s->inserted, d)) continue;
    bool indexed = hlo_ints_has(s->map, d) && starts_in(s, d) > 1;
    if (!indexed) own = nest_guard(n, idx[d], 0, s->size[d], own);
    up[s->window.v[k++]] = indexed || s->size[d] == 1 ? nest_const(n, 0) : idx[d];
  }
  for (u32 k = 0; k < nv && !lower_failed(l); k++)
    in[k] =
        lower_value(l, f, hlo_operand(i, nv + 1 + k), 0, s->updates->rank, up, both(n, guard, own));
  if (lower_failed(l)) return LOWER_NONE;
  lower_group(l, i, hlo_attr_comp(i, HLO_ATTR_TO_APPLY), 1, &loop, NEST_NONE, own, nv, in, init,
              types, out);
  if (lower_failed(l)) return LOWER_NONE;
  // what the results are made of begins with the group: of types that are added up wide, they are
  // conversions of it
  for (size_t k = 0; k < n->groups.n; k++)
    if (n->groups.v[k].nloops == 1 && n->groups.v[k].loops[0] == loop) {
      n->groups.v[k].from = from + 1, n->groups.v[k].to = to + 1;
      // many updates for few places: shared among threads, in an order that follows from shapes
      n->groups.v[k].free_order &= updates / n->order->limits >= SHARED_UPDATES;
    }
  for (size_t k = 0; k < n->nodes.n; k++) n->nodes.v[k].deps = nest_node_deps(n, &n->nodes.v[k]);
  for (u32 k = 0; k < nv; k++) lower_put(l, f, i, k, rank, idx, guard, out[k]);
  return out[leaf];
}

nest_val lower_scatter(lowering *l, lower_frame *f, const hlo_instr *i, u32 leaf, u32 rank,
                       const nest_expr *const *idx, u32 guard) {
  nest *n = l->n;
  u32 nv = (i->noperands - 1) / 2, loops[NEST_MAX_LOOPS], nloops = 0, own = NEST_NONE;
  scatter s;
  if (!as_is(i, nv) || !describe(i, nv, &s)) return lower_refuse(l, i, "of several precisions");
  i64 places, updates;
  nest_val *in = HS_NEW_ARRAY(l->a, nest_val, 3 * nv), *init = in + nv, *out = in + 2 * nv;
  hlo_dtype *types = HS_NEW_ARRAY(l->a, hlo_dtype, nv);
  const nest_expr *up[HLO_MAX_RANK], *id[HLO_MAX_RANK];
  for (u32 k = 0; k < nv && !lower_failed(l); k++) {
    types[k] = hlo_operand(i, k)->shape->dtype;
    init[k] = lower_value(l, f, hlo_operand(i, k), 0, rank, idx, guard);
  }
  if (lower_failed(l)) return LOWER_NONE;
  if (s.updates->elements == 0) return init[leaf];
  if (can_order(l, i, &s, &places, &updates)) {
    if (!l->n->order && !order_updates(l, f, i, &s, places, updates)) return LOWER_NONE;
    return ordered_scatter(l, f, i, leaf, rank, idx, guard, &s, in, init, types, updates);
  }
  if (elements(s.to) * elements(s.ids) > MOST_STEPS) return lower_refuse(l, i, "too large");
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

// Whether elements that neither come before the other have the same bits, for integers.
static bool plain_compare(const hlo_computation *c) {
  const hlo_instr *r = c->root;
  return r->opcode == HLO_COMPARE && hlo_operand(r, 0)->opcode == HLO_PARAMETER &&
         hlo_operand(r, 1)->opcode == HLO_PARAMETER && hlo_operand(r, 0) != hlo_operand(r, 1) &&
         (hlo_attr_int(r, HLO_ATTR_DIRECTION, 0) == HLO_DIRECTION_LT ||
          hlo_attr_int(r, HLO_ATTR_DIRECTION, 0) == HLO_DIRECTION_GT);
}

// The bits of a value as a number that grows with it.
static u32 key_of(nest *n, u32 v, const hlo_sort_key *k) {
  hlo_dtype t = n->nodes.v[v].dtype;
  if (t == HLO_PRED) t = HLO_U8, v = nest_op1(n, HLO_CONVERT, HLO_U8, v);
  int bits = hlo_dtype_bits(t);
  hlo_dtype u = nest_uint_of(bits);
  u64 sign = (u64)1 << (bits - 1);
  u32 b = nest_bitcast(n, (nest_val){v, NEST_NONE}, t, u).re, top = nest_const_bits(n, u, &sign),
      nan = NEST_NONE, none = nest_const_bits(n, u, &(u64){~(u64)0}), all = none;
  nest_val out;
  if (k->canonical) {
    nest_val x = {v, NEST_NONE}, zero = {nest_const_f64(n, t, 0), NEST_NONE};
    u64 first = (u64)(bits == 64     ? 0x7ff0000000000001ull
                      : bits == 32   ? 0x7f800001ull
                      : t == HLO_F16 ? 0x7c01ull
                                     : 0x7f81ull);
    (void)nest_compare(n, HLO_DIRECTION_EQ, false, t, x, zero, &out);
    b = nest_select(n, u, out.re, nest_const_bits(n, u, &(u64){0}), b);
    (void)nest_compare(n, HLO_DIRECTION_NE, false, t, x, x, &out);
    nan = out.re;
    b = nest_select(n, u, nan, nest_const_bits(n, u, &first), b);
  }
  if (hlo_dtype_is_float(t)) {
    (void)nest_compare(n, HLO_DIRECTION_GE, false, u, (nest_val){b, NEST_NONE},
                       (nest_val){top, NEST_NONE}, &out);
    b = nest_op2(n, HLO_XOR, u, b, nest_select(n, u, out.re, all, top));
  } else if (hlo_dtype_is_signed(t)) b = nest_op2(n, HLO_XOR, u, b, top);
  if (k->descending) b = nest_op2(n, HLO_XOR, u, b, all);
  return k->partial ? nest_select(n, u, nan, none, b) : b;  // NaN last in either direction
}

// The key of a sort's elements, where its comparator is known, and has one of 64 bits.
static void add_key(nest *n, const hlo_instr *i, const nest_val *first, nest_order *o) {
  hlo_sort_key keys[HLO_SORT_KEYS];
  u32 nkeys = hlo_sort_keys(hlo_attr_comp(i, HLO_ATTR_TO_APPLY), keys), bits = 0;
  for (u32 k = 0; k < nkeys; k++) {
    hlo_dtype t = hlo_operand(i, keys[k].operand)->shape->dtype;
    int own = t == HLO_PRED ? 8 : hlo_dtype_bits(t);
    // where a NaN goes that is no first key's, `less` alone says
    if (own < 8 || (keys[k].partial && (nkeys > 1 || keys[k].operand > 0))) return;
    bits += (u32)own;
  }
  if (!nkeys || bits > 64) return;
  hlo_dtype all = nest_uint_of((int)(bits > 32 ? 64 : 32));
  u32 key = NEST_NONE;
  for (u32 k = 0; k < nkeys; k++) {
    u32 x = key_of(n, first[keys[k].operand].re, &keys[k]);
    hlo_dtype t = n->nodes.v[x].dtype;
    if (t != all) x = nest_op1(n, HLO_CONVERT, all, x);
    if (key != NEST_NONE) {
      u32 by = nest_const_f64(n, all, (double)hlo_dtype_bits(t));
      key = nest_op2(n, HLO_OR, all, nest_op2(n, HLO_SHIFT_LEFT, all, key, by), x);
    } else key = x;
  }
  o->key = o->less;
  o->key.next = hs_arena_zalloc(n->a, sizeof *o->key.next);
  o->key.next[0] = key;
  o->key_bits = bits;
}

bool lower_sort(lowering *l, lower_frame *f, const hlo_instr *i) {
  nest *n = l->n;
  if (i->opcode != HLO_SORT) return false;
  const hlo_shape *s = hlo_operand(i, 0)->shape;
  hlo_ints dims = hlo_attr_ints(i, HLO_ATTR_DIMENSIONS);
  u32 d = dims.n ? (u32)dims.v[0] : s->rank - 1;
  const hlo_computation *c = hlo_attr_comp(i, HLO_ATTR_TO_APPLY);
  if (s->elements == 0) return true;
  if (!c || c->nparams != 2 * i->noperands || s->rank == 0)
    return (void)lower_refuse(l, i, "with this computation"), true;
  if (s->dims[d] > INT32_MAX || elements(s) > 0x1p36)
    return (void)lower_refuse(l, i, "too large"), true;
  const nest_expr **idx;
  size_t stage;
  if (!lower_stage(l, hlo_shape_leaf(i->shape, 0), &stage, &idx)) return true;
  u32 nvalues = 0, values[2 * NEST_MAX_ACCS];
  nest_val *a = HS_NEW_ARRAY(l->a, nest_val, 3 * i->noperands), *first = a + i->noperands,
           *second = first + i->noperands;
  if (i->noperands > NEST_MAX_ACCS) return (void)lower_refuse(l, i, "too many values"), true;
  for (u32 k = 0; k < i->noperands && !lower_failed(l); k++) {
    if (hlo_operand(i, k)->shape->dtype != hlo_shape_leaf(i->shape, k)->dtype)
      (void)lower_refuse(l, i, "of several precisions");
    else a[k] = lower_value(l, f, hlo_operand(i, k), 0, s->rank, idx, NEST_NONE);
    if (lower_failed(l)) return true;
    values[nvalues++] = a[k].re;
    if (a[k].im != NEST_NONE) values[nvalues++] = a[k].im;
  }
  for (u32 k = 0; k < i->noperands; k++) lower_store(l, stage, k, idx, a[k]);
  if (s->dims[d] <= 1) return true;
  nest_order *o = new_order(n);
  placeholders(n, &o->less, nvalues, values);
  for (u32 k = 0, at = 0; k < i->noperands; k++) {
    first[k] = (nest_val){o->less.acc[at], NEST_NONE};
    second[k] = (nest_val){o->less.elem[at++], NEST_NONE};
    if (a[k].im == NEST_NONE) continue;
    first[k].im = o->less.acc[at], second[k].im = o->less.elem[at++];
  }
  size_t groups = n->groups.n;
  o->less.next[0] = less(l, i, first, second);
  if (lower_failed(l)) return true;
  // a group of its own would stand inside of the comparison
  if (n->groups.n != groups) return (void)lower_refuse(l, i, "with a reduction"), true;
  add_key(n, i, first, o);
  o->along = idx[d]->t[0].var;
  o->unique = i->noperands == 1 && hlo_dtype_is_integer(s->dtype) && plain_compare(c);
  o->places = o->unique ? NEST_NONE : nest_scratch(n, HLO_U32, s->elements);
  o->starts = NEST_NONE;
  o->stage = n->stages.v[stage];
  n->stages.n--;  // its stores go with the order
  n->order = o;
  return true;
}

// ---- topk ---------------------------------------------------------------------------------------
// Rows along the last dimension, in scratch in their order: of them the first ones are the result.
// Greatest or least first in the total order, equal ones by their places.
static const nest_expr *row_major(nest *n, const hlo_shape *s, const nest_expr *const *idx) {
  const nest_expr *e = nest_const(n, 0);
  for (u32 d = 0; d < s->rank; d++) e = nest_add(n, nest_mul(n, e, s->dims[d]), idx[d]);
  return e;
}

static nest_order *best_first(nest *n, hlo_dtype t, bool largest, u32 value, u32 number) {
  nest_order *o = new_order(n);
  nest_val before;
  placeholders(n, &o->less, 2, (u32[]){value, number});
  (void)nest_compare(n, largest ? HLO_DIRECTION_GT : HLO_DIRECTION_LT, hlo_dtype_is_float(t), t,
                     (nest_val){o->less.acc[0], NEST_NONE}, (nest_val){o->less.elem[0], NEST_NONE},
                     &before);
  o->less.next[0] = before.re;
  u32 key = key_of(n, o->less.acc[0], &(hlo_sort_key){.descending = largest});
  o->key_bits = (u32)hlo_dtype_bits(n->nodes.v[key].dtype);
  if (o->key_bits < 32) key = nest_op1(n, HLO_CONVERT, HLO_U32, key);
  o->key = o->less;
  o->key.next = hs_arena_zalloc(n->a, sizeof *o->key.next);
  o->key.next[0] = key;
  return o;
}

bool lower_topk(lowering *l, lower_frame *f, const hlo_instr *i) {
  nest *n = l->n;
  if (i->opcode != HLO_TOPK) return false;
  const hlo_shape *s = hlo_operand(i, 0)->shape, *to = hlo_shape_leaf(i->shape, 0);
  u32 last = s->rank - 1;
  if (to->elements == 0) return true;
  bool known = hlo_dtype_is_integer(s->dtype) || s->dtype == HLO_F16 || s->dtype == HLO_BF16 ||
               s->dtype == HLO_F32 || s->dtype == HLO_F64;
  if (!known || hlo_dtype_bits(s->dtype) < 8 || to->dtype != s->dtype || s->dims[last] <= 1 ||
      s->dims[last] > INT32_MAX || elements(s) > 0x1p36)
    return (void)lower_refuse(l, i, "of such rows"), true;
  const nest_expr **idx;
  size_t stage;
  if (!lower_stage(l, s, &stage, &idx)) return true;
  nest_val v = lower_value(l, f, hlo_operand(i, 0), 0, s->rank, idx, NEST_NONE);
  if (lower_failed(l)) return true;
  u32 number = nest_op1(
      n, HLO_CONVERT, HLO_S32,
      nest_node_add(n, &(nest_node){.kind = NEST_INDEX, .dtype = HLO_S64, .e = idx[last]}));
  bool largest = hlo_attr_int(i, HLO_ATTR_LARGEST, 1) != 0;
  nest_order *o = best_first(n, s->dtype, largest, v.re, number);
  u32 values = nest_scratch(n, s->dtype, s->elements),
      numbers = nest_scratch(n, HLO_S32, s->elements);
  const nest_expr *at = row_major(n, s, idx);
  o->along = idx[last]->t[0].var;
  o->places = nest_scratch(n, HLO_U32, s->elements);
  o->starts = NEST_NONE;
  o->wanted = to->dims[last];
  o->stage = n->stages.v[stage];
  n->stages.n--;
  hs_vec_push(&o->stage.stores, ((nest_store){values, at, v.re}));
  hs_vec_push(&o->stage.stores, ((nest_store){numbers, at, number}));
  n->order = o;
  if (!lower_stage(l, to, &stage, &idx)) return true;
  at = row_major(n, s, idx);
  lower_store(l, stage, 0, idx, (nest_val){load_at(n, values, at), NEST_NONE});
  lower_store(l, stage, 1, idx, (nest_val){load_at(n, numbers, at), NEST_NONE});
  return true;
}
