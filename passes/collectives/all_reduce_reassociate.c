// all_reduce_reassociate.c — all-reduce-reassociate (xla/service/all_reduce_reassociate.cc): two
// all-reduces whose results are added become one all-reduce of the sum: ar(x) + ar(y) = ar(x + y),
// and so for every operation that combines two values as the all-reduces combine those of the
// devices. Half of the traffic is saved.
//
// Reshapes and slices between an all-reduce and the sum are done before it then, on each device's
// own values; equal dynamic slices of both stay behind it, as in XLA, where what reduce-scatter is
// made of is looked for. Operands come first in the walk, so trees and chains collapse in one run.
//
// Both must be of the same groups, with or without channels, and nobody else may read what is in
// between: else it would be reduced a second time.
#include "passes/simplify/algsimp.h"

static bool is_read_by(const hlo_instr *i, const hlo_instr *user) {
  if (hlo_is_root(i) || hlo_is_controlled(i)) return false;
  hlo_for_each_use(u, i)
    if (u->user != user) return false;
  return true;
}

static bool is_moved(hlo_opcode op) { return op == HLO_RESHAPE || op == HLO_SLICE; }

// The all-reduce that operand k of `sum` is, seen through moved operations, or through one dynamic
// slice (*slice); NULL: none that may be merged.
static hlo_instr *reduced(const hlo_instr *sum, u32 k, hlo_instr **slice) {
  hlo_instr *i = hlo_operand(sum, k);
  const hlo_instr *user = sum;
  *slice = i->opcode == HLO_DYNAMIC_SLICE ? i : NULL;
  while ((is_moved(i->opcode) || i == *slice) && is_read_by(i, user))
    user = i, i = hlo_operand(i, 0);
  bool fits = i->opcode == HLO_ALL_REDUCE && i->noperands == 1 && hlo_shape_is_array(i->shape) &&
              !hlo_shape_is_dynamic(i->shape) && is_read_by(i, user) &&
              (!*slice || user == *slice) && !hlo_attr_int(i, HLO_ATTR_CONSTRAIN_LAYOUT, 0) &&
              i->shape->dtype == sum->shape->dtype &&
              pass_alg_reducer(hlo_called(i, 0)) == sum->opcode;
  return fits ? i : NULL;
}

// Names of channels and of the computations may differ.
static bool may_differ(hlo_attr_id id) {
  return id == HLO_ATTR_CHANNEL_ID || id == HLO_ATTR_TO_APPLY || hlo_attr_is_annotation(id);
}

static bool agree(const hlo_instr *a, const hlo_instr *b) {
  static const char key[] = "collective_group_key";
  const hs_str *x = pass_frontend(a, key), *y = pass_frontend(b, key);
  return hlo_attrs_equal(a->attrs, b->attrs, may_differ) &&
         !hlo_attr_get(a, HLO_ATTR_CHANNEL_ID) == !hlo_attr_get(b, HLO_ATTR_CHANNEL_ID) &&
         !x == !y && (!x || hs_str_eq(*x, *y));
}

static bool slices_agree(const hlo_instr *a, const hlo_instr *b) {
  if (!a || !b) return a == b;
  if (hlo_operand(a, 0)->shape != hlo_operand(b, 0)->shape || a->shape != b->shape ||
      a->noperands != b->noperands)
    return false;
  for (u32 k = 1; k < a->noperands; k++)
    if (hlo_operand(a, k) != hlo_operand(b, k)) return false;
  return true;
}

// The moved operations from `i` down to the all-reduce, done on what it reduces.
static hlo_instr *moved(hlo_instr *i, const hlo_instr *ar) {
  if (i == ar) return hlo_operand(ar, 0);
  hlo_instr *x = moved(hlo_operand(i, 0), ar);
  return hlo_clone_instr(i->parent, i, NULL, 1, &x);
}

static void merge(hlo_instr *sum, hlo_instr *const ar[2], hlo_instr *slice) {
  hlo_instr *x[2];
  for (u32 k = 0; k < 2; k++)
    x[k] = slice ? hlo_operand(ar[k], 0) : moved(hlo_operand(sum, k), ar[k]);
  hlo_computation *c = sum->parent;
  const hlo_shape *s = slice ? ar[0]->shape : sum->shape;
  hlo_instr *inner = hlo_clone_instr(c, sum, s, 2, x),
            *all = hlo_clone_instr(c, ar[0], s, 1, &inner), *now = all;
  if (ar[1] != ar[0]) hlo_add_provenance(all, ar[1]);
  if (slice) {
    hlo_instr *ops[HLO_MAX_RANK + 1] = {all};
    for (u32 k = 1; k < slice->noperands; k++) ops[k] = hlo_operand(slice, k);
    now = hlo_clone_instr(c, slice, sum->shape, slice->noperands, ops);
  }
  hlo_replace(sum, now);
  // with a channel it has an effect, and stays unless it is removed
  for (u32 k = 0; k < 2; k++)
    if (!ar[k]->dead && ar[k]->nuses == 0) hlo_remove(ar[k]);
}

static hs_status visit(pass_ctx *p, hlo_computation *c) {
  static const hlo_opcode combining[] = {HLO_ADD,     HLO_MULTIPLY, HLO_MINIMUM,
                                         HLO_MAXIMUM, HLO_AND,      HLO_OR};
  hlo_instr **order = hlo_post_order(c, p->scratch);
  for (u32 k = 0, n = c->ninstrs; k < n; k++) {
    hlo_instr *sum = order[k], *ar[2], *slice[2];
    bool combines = false;
    for (u32 j = 0; j < HS_COUNT(combining) && !sum->dead; j++)
      combines |= sum->opcode == combining[j];
    if (!combines || !(ar[0] = reduced(sum, 0, &slice[0])) || !(ar[1] = reduced(sum, 1, &slice[1])))
      continue;
    HS_TRY(hs_poll());
    if (hlo_is_controlled(sum) || !agree(ar[0], ar[1]) || !slices_agree(slice[0], slice[1])) {
      pass_note_declined(p, ar[0], ar[1],
                         "of other groups, channels or slices, or in a fixed order");
      continue;
    }
    if (!pass_may_rewrite(p)) return HS_GOOD;
    pass_note_done(p, ar[0], ar[1], "one all-reduce of both");
    merge(sum, ar, slice[0]);
  }
  return HS_GOOD;
}

static hs_status run(pass_ctx *p) {
  hlo_for_each_comp(c, p->m)
    if (!hlo_is_fusion_comp(c)) HS_TRY(visit(p, c));
  return HS_GOOD;
}

const pass_info pass_all_reduce_reassociate = {
    .name = "all-reduce-reassociate",
    .summary = "makes a sum of two all-reduces one all-reduce of the sum",
    .xla_source = "xla/service/all_reduce_reassociate.cc",
    .run = run,
    .needs = {HLO_ALL_REDUCE},
    .sample = PASS_SUM "ENTRY e {\n"
                       "  x = f32[8] parameter(0)\n"
                       "  y = f32[8] parameter(1)\n"
                       "  rx = f32[8] all-reduce(x), replica_groups={}, to_apply=sum\n"
                       "  ry = f32[8] all-reduce(y), replica_groups={}, to_apply=sum\n"
                       "  ROOT s = f32[8] add(rx, ry)\n"
                       "}\n",
};
