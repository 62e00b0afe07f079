// sort_simplifier.c — simplify-sorts (xla/hlo/transforms/simplifiers/sort_simplifier.cc):
// smaller sorts.
//
// Operands that the comparator does not use and whose results have no users are removed. A sort
// along a dimension of size 1 is replaced by its operands, unless it calls dimensions dynamic: the
// operands may not.
#include "passes/run/rewrite.h"

static bool trivial(const hlo_instr *s) {
  const hlo_shape *x = hlo_operand(s, 0)->shape;
  hlo_ints d = hlo_attr_ints(s, HLO_ATTR_DIMENSIONS);
  return d.n == 1 && d.v[0] < x->rank && x->dims[d.v[0]] <= 1 && !hlo_shape_is_dynamic(x) &&
         !hlo_shape_is_dynamic(s->shape);
}

// Operand k in the precision that the sort states for its result.
static hlo_instr *as_result(const hlo_instr *s, u32 k) {
  hlo_instr *x = hlo_operand(s, k);
  const hlo_shape *to = s->noperands == 1 ? s->shape : s->shape->elems[k];
  return x->shape->dtype == to->dtype ? x : hlo_build_convert(x, to->dtype);
}

static bool replace_trivial(pass_ctx *c, hlo_instr *s) {
  if (!pass_may_rewrite(c)) return false;
  pass_note_done(c, s, NULL, "sorts along a dimension of one element");
  if (s->noperands == 1) {
    hlo_replace(s, as_result(s, 0));
    return true;
  }
  hlo_instr **ops = HS_NEW_ARRAY(c->scratch, hlo_instr *, s->noperands);
  for (u32 k = 0; k < s->noperands; k++) ops[k] = as_result(s, k);
  hlo_replace(s, hlo_add_tuple(s->parent, s->noperands, ops));
  return true;
}

static void drop_unused(pass_ctx *c, hlo_instr *s) {
  if (!hlo_shape_is_tuple(s->shape) || hlo_is_root(s)) return;
  u32 n = s->noperands, kept = 0;
  bool *used = HS_NEW_ARRAY(c->scratch, bool, n);
  hlo_for_each_use(u, s) {
    if (u->user->opcode != HLO_GET_TUPLE_ELEMENT) return;
    i64 k = hlo_attr_int(u->user, HLO_ATTR_INDEX, 0);
    if (u->user->shape->logical != s->shape->elems[k]->logical) return;  // it ends a size
    used[k] = true;
  }
  hlo_computation *cmp = hlo_attr_comp(s, HLO_ATTR_TO_APPLY);
  if (!cmp || cmp->nparams != 2 * n) return;
  for (u32 k = 0; k < n; k++) {
    hlo_instr *a = cmp->params[2 * k], *b = cmp->params[2 * k + 1];
    used[k] |= a->nuses || b->nuses || hlo_is_root(a) || hlo_is_root(b);
    kept += used[k];
  }
  if (kept == n || kept == 0 || !pass_may_rewrite(c)) return;
  pass_note_done(c, s, NULL, "%u of %u operands neither compared nor used", n - kept, n);
  hlo_computation *mine = hlo_clone_computation(cmp, cmp->name, NULL);
  for (u32 k = n; k-- > 0;) {
    if (used[k]) continue;
    hlo_remove_parameter(mine, 2 * k + 1);
    hlo_remove_parameter(mine, 2 * k);
  }
  hlo_instr **ops = HS_NEW_ARRAY(c->scratch, hlo_instr *, kept);
  const hlo_shape **shapes = HS_NEW_ARRAY(c->scratch, const hlo_shape *, kept);
  i64 *number = HS_NEW_ARRAY(c->scratch, i64, n), at = 0;
  for (u32 k = 0; k < n; k++)
    if (used[k]) shapes[at] = s->shape->elems[k], ops[at] = hlo_operand(s, k), number[k] = at++;
  hlo_instr *now = hlo_clone_instr(
      s->parent, s, kept == 1 ? shapes[0] : hlo_shape_tuple(c->m->ctx, kept, shapes), kept, ops);
  hlo_set_attr_comp(now, HLO_ATTR_TO_APPLY, mine);
  hlo_move_before(now, s);
  for (hlo_use *u = s->first_use, *next; u; u = next) {
    next = u->next;
    hlo_instr *g = u->user;
    if (kept == 1) hlo_replace_uses(g, now), hlo_remove(g);
    else
      hlo_set_operand(g, 0, now),
          hlo_set_attr_int(g, HLO_ATTR_INDEX, number[hlo_attr_int(g, HLO_ATTR_INDEX, 0)]);
  }
  hlo_add_provenance(now, s);
  hlo_remove_dead(s);
}

static hs_status run(pass_ctx *c) {
  hlo_for_each_comp(comp, c->m) {
    hlo_instr **v = HS_NEW_ARRAY(c->scratch, hlo_instr *, comp->ninstrs + 1);
    u32 n = 0;
    hlo_for_each_instr(i, comp)
      if (i->opcode == HLO_SORT) v[n++] = i;
    // users first: what they drop may be all that an earlier sort was for
    for (u32 k = n; k-- > 0;) {
      if (v[k]->dead || hlo_is_controlled(v[k])) continue;
      if (trivial(v[k])) replace_trivial(c, v[k]);
      else drop_unused(c, v[k]);
    }
  }
  return HS_GOOD;
}

const pass_info pass_simplify_sorts = {
    .name = "simplify-sorts",
    .summary = "removes unused operands of sorts",
    .xla_source = "xla/hlo/transforms/simplifiers/sort_simplifier.cc",
    .run = run,
    .needs = {HLO_SORT},
    .sample = "less {\n"
              "  a = f32[] parameter(0)\n"
              "  b = f32[] parameter(1)\n"
              "  c = s32[] parameter(2)\n"
              "  d = s32[] parameter(3)\n"
              "  ROOT p = pred[] compare(a, b), direction=LT\n"
              "}\n"
              "ENTRY e {\n"
              "  x = f32[8] parameter(0)\n"
              "  i = s32[8] iota(), iota_dimension=0\n"
              "  both = (f32[8], s32[8]) sort(x, i), dimensions={0}, to_apply=less\n"
              "  ROOT y = f32[8] get-tuple-element(both), index=0\n"
              "}\n",
};
