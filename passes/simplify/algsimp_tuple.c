// algsimp_tuple.c — barriers and conditionals on tuples, degenerate scatters, gathers and maps,
// and collectives of constants.
#include "passes/simplify/algsimp.h"

#define X hlo_operand(i, 0)

ALG_RULE(gte_tuple) {
  (void)a;
  return X->opcode == HLO_TUPLE && pass_may_forward(i)
             ? hlo_operand(X, (u32)hlo_attr_int(i, HLO_ATTR_INDEX, 0))
             : NULL;
}

// SliceToDynamic(PadToStatic(A)) with A's own sizes is A
ALG_RULE(slice_to_dynamic) {
  (void)a;
  if (!hs_str_eq(hlo_attr_str(i, HLO_ATTR_CUSTOM_CALL_TARGET), HS_STR("SliceToDynamic")) ||
      i->noperands == 0 || X->opcode != HLO_GET_TUPLE_ELEMENT)
    return NULL;
  hlo_instr *p = hlo_operand(X, 0);
  if (p->opcode != HLO_CUSTOM_CALL ||
      !hs_str_eq(hlo_attr_str(p, HLO_ATTR_CUSTOM_CALL_TARGET), HS_STR("PadToStatic")) ||
      p->noperands == 0)
    return NULL;
  for (u32 k = 0; k < i->noperands; k++) {
    hlo_instr *g = hlo_operand(i, k);
    if (g->opcode != HLO_GET_TUPLE_ELEMENT || hlo_operand(g, 0) != p ||
        hlo_attr_int(g, HLO_ATTR_INDEX, -1) != k)
      return NULL;
  }
  return hlo_operand(p, 0)->shape == i->shape ? hlo_operand(p, 0) : NULL;
}

// A scatter without updates leaves its operand
ALG_RULE(scatter_empty) {
  // arrays scattered into, the indices, as many updates
  u32 n = i->noperands / 2;
  for (u32 k = n + 1; k < i->noperands; k++)
    if (hlo_operand(i, k)->shape->elements != 0) return NULL;
  if (n == 1 && !hlo_shape_is_tuple(i->shape)) return X;
  hlo_instr **ops = HS_NEW_ARRAY(a->p->scratch, hlo_instr *, n);
  for (u32 k = 0; k < n; k++) {
    const hlo_shape *stated = i->shape->elems[k];
    ops[k] = hlo_operand(i, k);
    if (!hlo_shape_compatible(ops[k]->shape, stated))  // another precision
      ops[k] = pass_alg_add(a, HLO_CONVERT, stated, 1, &ops[k]);
  }
  return pass_alg_add(a, HLO_TUPLE, i->shape, n, ops);
}

static hlo_instr *combined(alg *a, const hlo_instr *scatter, hlo_instr *old, hlo_instr *update) {
  hlo_instr *m = pass_alg_add(a, HLO_MAP, old->shape, 2, (hlo_instr *[]){old, update});
  i64 *dims = pass_alg_dims_new(a, old->shape->rank);
  for (u32 k = 0; k < old->shape->rank; k++) dims[k] = k;
  hlo_set_attr_ints(m, HLO_ATTR_DIMENSIONS, old->shape->rank, dims);
  hlo_set_attr_comp(m, HLO_ATTR_TO_APPLY, hlo_attr_comp(scatter, HLO_ATTR_TO_APPLY));
  return m;
}

// One update of everything at no index: the computation over both arrays
ALG_RULE(scatter_whole) {
  if (i->noperands != 3 || hlo_operand(i, 1)->shape->elements != 0 ||
      hlo_operand(i, 2)->shape->logical != i->shape->logical)
    return NULL;
  return combined(a, i, X, hlo_operand(i, 2));
}

// The place of a scatter's only window, where that is constant and within the operand, and the
// window's extents in all of the operand's dimensions.
static bool one_window(const hlo_instr *i, i64 *start, i64 *size) {
  hlo_ints map = hlo_attr_ints(i, HLO_ATTR_SCATTER_DIMS_TO_OPERAND_DIMS),
           windows = hlo_attr_ints(i, HLO_ATTR_UPDATE_WINDOW_DIMS),
           inserted = hlo_attr_ints(i, HLO_ATTR_INSERTED_WINDOW_DIMS);
  const hlo_instr *at = hlo_operand(i, 1);
  const hlo_shape *whole = X->shape, *part = hlo_operand(i, 2)->shape;
  if (at->shape->elements != map.n || hlo_attr_ints(i, HLO_ATTR_INPUT_BATCHING_DIMS).n)
    return false;
  const hlo_literal *l = hlo_constant_value(at);
  u32 w = 0;
  for (u32 d = 0; d < whole->rank; d++) {
    start[d] = 0;
    size[d] = pass_alg_has(inserted, d) ? 1 : part->dims[windows.v[w++]];
  }
  for (u32 k = 0; k < map.n; k++) {
    i64 v;
    if (l && !l->elided) v = hlo_literal_i64(l, k);
    else if (!pass_alg_splat_int(at, &v)) return false;
    if (v < 0 || v > whole->dims[map.v[k]] - size[map.v[k]]) return false;
    start[map.v[k]] = v;
  }
  return true;
}

// One window at constant indices: the computation over it and what was there, put in its place. As
// such it fuses with what makes the window, and can be done in place.
ALG_RULE(scatter_at_constant) {
  if (!a->scatter_to_update || a->layout_sensitive || i->noperands != 3 ||
      !hlo_shape_is_array(i->shape))
    return NULL;
  u32 rank = i->shape->rank;
  i64 *start = pass_alg_dims_new(a, rank), *size = pass_alg_dims_new(a, rank);
  hlo_dtype t = i->shape->dtype, wide = HLO_S32;
  if (X->shape->logical != i->shape->logical || hlo_operand(i, 2)->shape->dtype != t ||
      hlo_attr_comp(i, HLO_ATTR_TO_APPLY)->root->shape->dtype != t || !one_window(i, start, size))
    return NULL;
  hlo_slice_dim *window = HS_NEW_ARRAY(a->p->scratch, hlo_slice_dim, rank + 1);
  hlo_instr **ops = HS_NEW_ARRAY(a->p->scratch, hlo_instr *, rank + 2);
  for (u32 k = 0; k < rank; k++) {
    window[k] = (hlo_slice_dim){start[k], start[k] + size[k], 1};
    if (start[k] > INT32_MAX) wide = HLO_S64;
  }
  ops[0] = X;
  ops[1] = combined(a, i, pass_alg_slice(a, X, window),
                    pass_alg_reshape(a, hlo_operand(i, 2), rank, size));
  for (u32 k = 0; k < rank; k++) ops[k + 2] = pass_alg_scalar_int(a, wide, start[k]);
  return pass_alg_add(a, HLO_DYNAMIC_UPDATE_SLICE, i->shape, rank + 2, ops);
}

// ---- called computations ------------------------------------------------------------------------
// A map whose computation is a parameter, a constant, or one elementwise operation on parameters
ALG_RULE(map_simple) {
  const hlo_computation *f = hlo_attr_comp(i, HLO_ATTR_TO_APPLY);
  const hlo_instr *r = f->root;
  if (r->opcode == HLO_PARAMETER) return hlo_operand(i, (u32)hlo_param_number(r));
  if (r->opcode == HLO_CONSTANT) {
    const hlo_literal *l = hlo_constant_value(r);
    return r->shape->rank == 0 && l && !l->elided
               ? pass_alg_spread(a, pass_alg_literal(a, hlo_literal_ref(l)), i->shape)
               : NULL;
  }
  if (!hlo_op_has(r->opcode, HLO_F_ELEMENTWISE) || r->noperands == 0) return NULL;
  hlo_instr **ops = HS_NEW_ARRAY(a->p->scratch, hlo_instr *, r->noperands);
  for (u32 k = 0; k < r->noperands; k++) {
    if (hlo_operand(r, k)->opcode != HLO_PARAMETER) return NULL;
    ops[k] = hlo_operand(i, (u32)hlo_param_number(hlo_operand(r, k)));
  }
  return pass_alg_like(a, r, i->shape, r->noperands, ops);
}

// conditional(convert(p), A, B) over two branches by number = conditional(p, B, A)
ALG_RULE(conditional_convert) {
  if (!a->conditionals || X->opcode != HLO_CONVERT || hlo_operand(X, 0)->shape->dtype != HLO_PRED ||
      hlo_ncalled(i) != 2)
    return NULL;
  hlo_instr *n =
      pass_alg_add(a, HLO_CONDITIONAL, i->shape, 3,
                   (hlo_instr *[]){hlo_operand(X, 0), hlo_operand(i, 2), hlo_operand(i, 1)});
  hlo_copy_attrs(n, i);
  hlo_remove_attr(n, HLO_ATTR_BRANCH_COMPUTATIONS);
  hlo_set_attr_comp(n, HLO_ATTR_TRUE_COMPUTATION, hlo_called(i, 1));
  hlo_set_attr_comp(n, HLO_ATTR_FALSE_COMPUTATION, hlo_called(i, 0));
  return n;
}

// A gather from zeros, or any one repeated value
ALG_RULE(gather_splat) {
  if (X->opcode != HLO_BROADCAST || hlo_operand(X, 0)->shape->rank != 0) return NULL;
  return pass_alg_spread(a, hlo_operand(X, 0), i->shape);
}

// Removes unused elements of an opt-barrier; operands with other users stay, because the barrier
// orders them
ALG_RULE(barrier_unused) {
  hlo_instr *t = X;
  if (!hlo_shape_is_tuple(i->shape) || hlo_is_root(i) || i->nuses == 0) return NULL;
  bool made = t->opcode == HLO_TUPLE;
  u32 n = i->shape->nelems, kept = 0;
  i64 *at = pass_alg_dims_new(a, n);
  for (u32 k = 0; k < n; k++) {
    const hlo_instr *e = made ? hlo_operand(t, k) : NULL;
    at[k] = i->shape->elems[k]->dtype == HLO_TOKEN ||
                    (e && (e->nuses > 1 || hlo_is_root(e) || hlo_has_side_effect(e)))
                ? 0
                : -1;
  }
  hlo_for_each_use(u, i) {
    if (u->user->opcode != HLO_GET_TUPLE_ELEMENT) return NULL;
    at[hlo_attr_int(u->user, HLO_ATTR_INDEX, 0)] = 0;
  }
  hlo_instr **ops = HS_NEW_ARRAY(a->p->scratch, hlo_instr *, n);
  const hlo_shape **shapes = HS_NEW_ARRAY(a->p->scratch, const hlo_shape *, n);
  for (u32 k = 0; k < n; k++)
    if (at[k] == 0) shapes[kept] = i->shape->elems[k], at[k] = kept++;
  if (kept == n) return NULL;
  for (u32 k = 0; k < n; k++) {
    if (at[k] < 0) continue;
    hlo_instr *e = made ? hlo_operand(t, k)
                        : pass_alg_add(a, HLO_GET_TUPLE_ELEMENT, i->shape->elems[k], 1, &t);
    if (!made) hlo_set_attr_int(e, HLO_ATTR_INDEX, k);
    ops[at[k]] = e;
  }
  const hlo_shape *s = hlo_shape_tuple(a->m->ctx, kept, shapes);
  hlo_instr *nt = pass_alg_add(a, HLO_TUPLE, s, kept, ops);
  hlo_set_operand(i, 0, nt);
  hlo_set_shape(i, s);
  i64 *from = pass_alg_dims_new(a, kept);
  for (u32 k = 0; k < n; k++)
    if (at[k] >= 0) from[at[k]] = k;
  const hlo_origin *of_tuple =
      pass_origin_of_elements(&a->m->arena, hlo_attr_get(t, HLO_ATTR_ORIGIN), kept, from);
  const hlo_origin *of_barrier =
      pass_origin_of_elements(&a->m->arena, hlo_attr_get(i, HLO_ATTR_ORIGIN), kept, from);
  if (of_tuple) hlo_set_attr_ptr(nt, HLO_ATTR_ORIGIN, of_tuple);
  if (of_barrier) hlo_set_attr_ptr(i, HLO_ATTR_ORIGIN, of_barrier);
  else hlo_remove_attr(i, HLO_ATTR_ORIGIN);
  hlo_for_each_use(u, i)
    hlo_set_attr_int(u->user, HLO_ATTR_INDEX, at[hlo_attr_int(u->user, HLO_ATTR_INDEX, 0)]);
  hlo_remove_dead(t);
  return i;
}

// ---- collectives of one repeated value ----------------------------------------------------------
// How many devices meet in each group of a collective that counts replicas; 0 when they are not as
// many in all.
static i64 group_size(const alg *a, const hlo_instr *i) {
  const hlo_replica_groups *g = hlo_attr_ptr(i, HLO_ATTR_REPLICA_GROUPS);
  i64 n = hlo_module_int(a->m, HLO_ATTR_REPLICA_COUNT, 1),
      partitions = hlo_module_int(a->m, HLO_ATTR_NUM_PARTITIONS, 1);
  bool channel = hlo_attr_get(i, HLO_ATTR_CHANNEL_ID) != NULL,
       flat = channel && hlo_attr_int(i, HLO_ATTR_USE_GLOBAL_DEVICE_IDS, 0);
  if (g && g->form == HLO_GROUPS_IOTA) {
    if (g->dims.n != 2) return 0;
    n = g->dims.v[1];
  } else if (g && (g->form != HLO_GROUPS_LIST || g->groups.n)) {
    if (g->form != HLO_GROUPS_LIST) return 0;
    for (u32 k = 1; k < g->groups.n; k++)
      if (g->groups.v[k].n != g->groups.v[0].n) return 0;
    if (g->groups.v[0].n) n = g->groups.v[0].n;
  }
  return channel && !flat ? n * partitions : n;
}

static hlo_instr *repeated_scalar(const hlo_instr *i) {
  if (i->noperands != 1 || !hlo_shape_is_array(i->shape) || X->opcode != HLO_BROADCAST) return NULL;
  hlo_instr *c = hlo_operand(X, 0);
  return c->opcode == HLO_CONSTANT && c->shape->rank == 0 ? c : NULL;
}

ALG_RULE(gather_of_splat) {
  hlo_instr *c = repeated_scalar(i);
  return c ? pass_alg_spread(a, c, i->shape) : NULL;
}

// The sum, the greatest or the least over a group of a constant that all devices have
ALG_RULE(all_reduce_splat) {
  hlo_instr *c = repeated_scalar(i);
  double v;
  i64 k;
  if (!c) return NULL;
  switch (pass_alg_reducer(hlo_attr_comp(i, HLO_ATTR_TO_APPLY))) {
  case HLO_AND:
  case HLO_OR:
    if (!alg_is_pred(i)) return NULL;
    return pass_alg_spread(a, c, i->shape);
  case HLO_MAXIMUM:
  case HLO_MINIMUM: return pass_alg_spread(a, c, i->shape);
  case HLO_ADD: break;
  default: return NULL;
  }
  i64 n = group_size(a, i);
  if (n < 1) return NULL;
  if (alg_is_int(i))
    return pass_alg_splat_int(c, &k) ? pass_alg_full_int(a, i->shape, (i64)((u64)k * (u64)n))
                                     : NULL;
  return alg_is_float(i) && pass_alg_splat(c, &v) ? pass_alg_full(a, i->shape, v * (double)n)
                                                  : NULL;
}
