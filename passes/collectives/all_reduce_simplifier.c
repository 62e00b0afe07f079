// all_reduce_simplifier.c — all-reduce-simplifier (xla/service/all_reduce_simplifier.cc): a
// collective whose result every device knows already.
//
//   sum of a value that is the same on all replicas   ->  the value times their number
//   and, or, min, max of one                          ->  the value
//   an all-reduce, all-gather or reduce-scatter in groups of one   ->  the value
//
// What is the same on all replicas (XLA's HloReplicationAnalysis, for replicas only): constants,
// parameters that the module marks so (parameter_replication), results of all-reduces over all
// replicas, and what is computed from those without an effect. Ids, random numbers and what other
// computations give are not, which may leave out some.
#include "passes/simplify/algsimp.h"
#include "passes/collectives/groups.h"

// ---- what all replicas have ---------------------------------------------------------------------

static bool is_marked(const hlo_instr *parameter) {
  hlo_ints r = hlo_attr_ints(parameter, HLO_ATTR_PARAMETER_REPLICATION);
  for (u32 k = 0; k < r.n; k++)
    if (!r.v[k]) return false;
  return r.n && parameter->parent == parameter->parent->module->entry;
}

static bool is_over_all_replicas(const hlo_instr *i, hs_arena *a) {
  hlo_int_lists g;
  return i->opcode == HLO_ALL_REDUCE && !hlo_attr_get(i, HLO_ATTR_CHANNEL_ID) &&
         pass_group_ids(i, a, &g) && g.n <= 1;
}

// Whether operands that are the same give the same result.
static bool is_function(const hlo_instr *i) {
  switch (i->opcode) {
  case HLO_CONSTANT:
  case HLO_IOTA:
  case HLO_REDUCE:
  case HLO_BROADCAST:
  case HLO_RESHAPE:
  case HLO_BITCAST:
  case HLO_TRANSPOSE:
  case HLO_COPY:
  case HLO_SLICE:
  case HLO_REVERSE:
  case HLO_PAD:
  case HLO_CONCATENATE:
  case HLO_DYNAMIC_SLICE:
  case HLO_DYNAMIC_UPDATE_SLICE:
  case HLO_GATHER:
  case HLO_DOT:
  case HLO_TUPLE:
  case HLO_GET_TUPLE_ELEMENT: return true;
  default: return hlo_op_has(i->opcode, HLO_F_ELEMENTWISE);
  }
}

// By position in the order: whether the operands are the same on all replicas.
static const bool *find_same(const hlo_computation *c, hlo_instr *const *order, hs_arena *a) {
  hlo_positions at = hlo_positions_in(c->ninstrs, order, a);
  bool *same = HS_NEW_ARRAY(a, bool, c->ninstrs + 1),
       *operands = HS_NEW_ARRAY(a, bool, c->ninstrs + 1);
  for (u32 j = 0; j < c->ninstrs; j++) {
    const hlo_instr *i = order[j];
    operands[j] = true;
    for (u32 o = 0; o < i->noperands; o++)
      operands[j] &= same[hlo_position_of(&at, hlo_operand(i, o))];
    same[j] = (is_function(i) && operands[j]) || (i->opcode == HLO_PARAMETER && is_marked(i)) ||
              is_over_all_replicas(i, a);
  }
  return operands;
}

// ---- rewriting ----------------------------------------------------------------------------------

// A module that does not say how many replicas it is for may run on any number.
static bool counts_replicas(const hlo_module *m) {
  return hlo_attrs_find(m->attrs, HLO_ATTR_REPLICA_COUNT) != NULL;
}

// Devices in each group, 0: not as many in all, or not known. With a channel only where the ids are
// those of devices: else a group has partitions in it that the module need not know.
static u32 size_of_groups(const hlo_instr *i, hs_arena *a) {
  hlo_int_lists g;
  bool channel = hlo_attr_get(i, HLO_ATTR_CHANNEL_ID) != NULL;
  if (channel && !hlo_attr_int(i, HLO_ATTR_USE_GLOBAL_DEVICE_IDS, 0)) return 0;
  if (!pass_group_ids(i, a, &g)) return 0;
  const hlo_module *m = i->parent->module;
  if (!g.n) return channel || !counts_replicas(m) ? 0 : pass_devices_of(m).replicas;
  for (u32 k = 1; k < g.n; k++)
    if (g.v[k].n != g.v[0].n) return 0;
  return g.v[0].n;
}

static hlo_instr *times(hlo_instr *x, i64 n) {
  i64 none = 0;
  hlo_instr *k = hlo_build_convert(hlo_build_scalar_i64(x->parent, HLO_S32, n), x->shape->dtype);
  if (x->shape->rank) k = hlo_build_broadcast(k, x->shape->rank, x->shape->dims, &none);
  return hlo_build_binary(HLO_MULTIPLY, x, k);
}

static bool is_collective(const hlo_instr *i) {
  return i->opcode == HLO_ALL_REDUCE || i->opcode == HLO_ALL_GATHER ||
         i->opcode == HLO_REDUCE_SCATTER;
}

// What the collective i of x gives, when x is the same on all its devices; NULL: not known.
static hlo_instr *of_same(const hlo_instr *i, hlo_instr *x, u32 size) {
  switch (pass_alg_reducer(hlo_attr_comp(i, HLO_ATTR_TO_APPLY))) {
  case HLO_ADD: return size < 1 ? NULL : times(x, size);
  case HLO_AND:
  case HLO_OR:
  case HLO_MAXIMUM:
  case HLO_MINIMUM: return x;
  default: return NULL;
  }
}

// The all-gather of its own operand that an asynchronous computation does, up to its end.
static bool is_idle_async(const hlo_instr *done, hs_arena *a) {
  if (done->opcode != HLO_ASYNC_DONE || hlo_operand(done, 0)->opcode != HLO_ASYNC_START)
    return false;
  const hlo_instr *start = hlo_operand(done, 0);
  const hlo_computation *c = hlo_called(start, 0);
  return start->noperands == 1 && start->nuses == 1 && c && is_collective(c->root) &&
         c->root->noperands == 1 && hlo_operand(c->root, 0)->opcode == HLO_PARAMETER &&
         c->root->shape == hlo_operand(start, 0)->shape && done->shape == c->root->shape &&
         size_of_groups(c->root, a) == 1;
}

static hs_status visit(pass_ctx *p, hlo_computation *c) {
  hlo_instr **order = hlo_post_order(c, p->scratch);
  const bool *was_same = find_same(c, order, p->scratch);
  for (u32 k = 0, n = c->ninstrs; k < n; k++) {
    hlo_instr *i = order[k];
    if (i->dead || hlo_is_controlled(i)) continue;
    HS_TRY(hs_poll());
    if (is_idle_async(i, p->scratch)) {
      hlo_instr *start = hlo_operand(i, 0);
      if (hlo_is_controlled(start)) continue;
      if (!pass_may_rewrite(p)) return HS_GOOD;
      pass_note_done(p, i, NULL, "its groups are of one");
      hlo_computation *idle = hlo_called(start, 0);
      hlo_replace(i, hlo_operand(start, 0));
      if (!start->dead) hlo_remove(start);
      if (!pass_caller_counts(p)[1 + idle->id]) hlo_remove_computation(idle);
      continue;
    }
    if (!is_collective(i) || i->noperands != 1 || !hlo_shape_is_array(i->shape) ||
        hlo_shape_is_dynamic(i->shape))
      continue;
    hlo_instr *x = hlo_operand(i, 0);
    u32 size = size_of_groups(i, p->scratch);
    bool one = size == 1 && x->shape == i->shape,
         same = i->opcode == HLO_ALL_REDUCE && x->shape == i->shape &&
                !hlo_attr_get(i, HLO_ATTR_CHANNEL_ID) && was_same[k];
    if (!one && !same) continue;
    if (!pass_may_rewrite(p)) return HS_GOOD;
    hlo_instr *now = one ? x : of_same(i, x, size);
    if (!now) continue;
    pass_note_done(p, i, NULL, one ? "its groups are of one" : "all devices have the same value");
    hlo_replace(i, now);
    if (!i->dead) hlo_remove(i);
  }
  return HS_GOOD;
}

// What an asynchronous start calls is one operation, whatever it gives.
static hs_status run(pass_ctx *p) {
  bool *async = HS_NEW_ARRAY(p->scratch, bool, p->m->next_comp_id + 1);
  hlo_for_each_comp(c, p->m)
    hlo_for_each_instr(i, c)
      for (u32 k = 0; i->opcode == HLO_ASYNC_START && k < hlo_ncalled(i); k++)
        async[hlo_called(i, k)->id] = true;
  hlo_for_each_comp(c, p->m)
    if (!hlo_is_fusion_comp(c) && !async[c->id]) HS_TRY(visit(p, c));
  return HS_GOOD;
}

const pass_info pass_all_reduce_simplifier = {
    .name = "all-reduce-simplifier",
    .summary = "removes collectives of values that all devices have, or of one device",
    .xla_source = "xla/service/all_reduce_simplifier.cc",
    .run = run,
    .sample = PASS_SUM "ENTRY e {\n"
                       "  x = f32[8] parameter(0), parameter_replication={true}\n"
                       "  ROOT s = f32[8] all-reduce(x), replica_groups={{0,1}}, to_apply=sum\n"
                       "}\n",
};
