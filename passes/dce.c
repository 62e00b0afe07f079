// dce.c — dead code elimination: instructions without users, then computations that nothing calls.
//
// One walk from the end of each list removes all dead chains, for users come after their operands. Callers go before
// callees, so that a dead call's callee is seen as unreachable in the same run. Outputs of multi-output fusions that
// nobody reads go too. Control edges hold an instruction in place, and so do side effects.
#include "passes/util.h"

static hs_status sweep(pass_ctx *c, hlo_computation *comp) {
  for (hlo_instr *i = comp->last, *prev; i; i = prev) {
    prev = i->prev;
    if (i->nuses || hlo_is_root(i) || i->nctrl_succs || i->ctrl_preds || !hlo_is_removable(i)) continue;
    if (!pass_may_rewrite(c)) return HS_GOOD;
    pass_note_done(c, i, NULL, "removed %s: unused", hlo_op_text(i->opcode));
    if (i->opcode == HLO_PARAMETER) continue;
    hlo_remove(i);
  }
  return HS_GOOD;
}

// Marks what the entry reaches, callers first in `order`.
static void reach(hlo_computation *comp, bool *seen, hs_arena *a) {
  HS_VEC(hlo_computation *) work = {0};
  hs_vec_push(&work, comp);
  seen[comp->id] = true;
  while (work.n) {
    hlo_computation *c = hs_vec_pop(&work);
    u32 left = c->ncalls;
    for (const hlo_instr *i = c->first; left; i = i->next) {
      if (!hlo_op_has(i->opcode, HLO_F_CALLS)) continue;
      hlo_computation **v;
      u32 n;
      left--;
      pass_called_all(i, a, &v, &n);
      for (u32 k = 0; k < n; k++)
        if (!seen[v[k]->id]) seen[v[k]->id] = true, hs_vec_push(&work, v[k]);
    }
  }
  hs_vec_free(&work);
}

static bool owns_body(const hlo_instr *f, const u32 *counts) {
  const hlo_computation *body = hlo_fusion_comp(f);
  return body && body->id < counts[0] && counts[1 + body->id] == 1;
}

// A fusion whose tuple has elements that nobody reads gets a smaller tuple; one that is left alone loses the tuple.
static void trim_fusion_outputs(pass_ctx *c, hlo_instr *f) {
  hlo_computation *body = hlo_fusion_comp(f);
  if (!body || body->root->opcode != HLO_TUPLE || hlo_is_root(f) || f->nuses == 0 || hlo_attr_get(f, HLO_ATTR_OUTPUT_TO_OPERAND_ALIASING))
    return;
  u32 n = body->root->noperands, live = 0;
  bool *used = HS_NEW_ARRAY(c->scratch, bool, n + 1);
  hlo_for_each_use(u, f) {
    if (u->user->opcode != HLO_GET_TUPLE_ELEMENT) return;
    i64 k = hlo_attr_int(u->user, HLO_ATTR_INDEX, 0);
    if (!used[k]) used[k] = true, live++;
  }
  if (live == n || live == 0 || !pass_may_rewrite(c)) return;
  pass_note_done(c, f, NULL, "%u of %u fusion outputs unused", n - live, n);
  hlo_instr **kept = HS_NEW_ARRAY(c->scratch, hlo_instr *, n);
  i64 *renumber = HS_NEW_ARRAY(c->scratch, i64, n);
  u32 nk = 0;
  for (u32 k = 0; k < n; k++)
    if (used[k]) renumber[k] = nk, kept[nk++] = hlo_operand(body->root, k);
  hlo_instr *old_root = body->root;
  hlo_instr *root = nk == 1 ? kept[0] : hlo_add_tuple(body, nk, kept);
  hlo_set_root(body, root);
  hlo_remove_dead(old_root);
  if (nk > 1) {
    hlo_set_shape(f, root->shape);
    hlo_for_each_use(u, f) hlo_set_attr_int(u->user, HLO_ATTR_INDEX, renumber[hlo_attr_int(u->user, HLO_ATTR_INDEX, 0)]);
    return;
  }
  hlo_instr **gtes = HS_NEW_ARRAY(c->scratch, hlo_instr *, f->nuses);
  u32 ng = 0;
  hlo_for_each_use(u, f) gtes[ng++] = u->user;
  hlo_set_shape(f, root->shape);
  for (u32 k = 0; k < ng; k++) hlo_replace(gtes[k], f);
}

// Operands that the body of a fusion or call no longer reads.
static void trim_operands(pass_ctx *c, hlo_instr *f) {
  hlo_computation *body = hlo_fusion_comp(f);
  if (!body || body->nparams != f->noperands || hlo_attr_get(f, HLO_ATTR_OUTPUT_TO_OPERAND_ALIASING)) return;
  u32 live = 0;
  for (u32 k = 0; k < body->nparams; k++) live += body->params[k]->nuses || hlo_is_root(body->params[k]);
  if (live == f->noperands || !pass_may_rewrite(c)) return;
  pass_note_done(c, f, NULL, "%u operands unused inside", f->noperands - live);
  hlo_instr **ops = HS_NEW_ARRAY(c->scratch, hlo_instr *, live + 1);
  u32 n = 0, was = f->noperands;
  for (u32 k = 0; k < was; k++)
    if (body->params[k]->nuses || hlo_is_root(body->params[k])) ops[n++] = hlo_operand(f, k);
  for (u32 k = was; k-- > 0;)
    if (!body->params[k]->nuses && !hlo_is_root(body->params[k])) hlo_remove_parameter(body, k);
  hlo_set_operands(f, n, ops);
}

hs_status pass_remove_unused(pass_ctx *c, bool calls) {
  hlo_module *m = c->m;
  u32 n;
  hlo_computation **order = hlo_comp_post_order(m, c->scratch, &n);
  u32 *counts = pass_caller_counts(m, c->scratch);
  for (u32 k = n; k-- > 0;) {
    HS_TRY(hs_poll());
    HS_TRY(sweep(c, order[k]));
    if (!order[k]->ncalls || (!m->nops[HLO_FUSION] && !(calls && m->nops[HLO_CALL]))) continue;
    u64 swept = m->generation;
    hlo_for_each_instr(i, order[k]) {
      if (calls && i->opcode == HLO_CALL && owns_body(i, counts)) {
        HS_TRY(sweep(c, hlo_fusion_comp(i)));
        trim_operands(c, i);
      }
      if (i->opcode != HLO_FUSION || !owns_body(i, counts)) continue;
      trim_fusion_outputs(c, i);
      trim_operands(c, i);
    }
    if (m->generation != swept) HS_TRY(sweep(c, order[k]));
  }
  bool *seen = HS_NEW_ARRAY(c->scratch, bool, m->next_comp_id);
  reach(m->entry, seen, c->scratch);
  for (u32 k = n; k-- > 0;)
    if (!seen[order[k]->id] && pass_may_rewrite(c)) hlo_remove_computation(order[k]);
  return HS_GOOD;
}

hs_status pass_dce(pass_ctx *c) { return pass_remove_unused(c, pass_option_bool(c, "use_call_analysis", false)); }
