// inline.c — calls, maps and shared control-flow computations.
//
// call-inliner (xla/service/call_inliner.cc): a call's body replaces it, callees first, so that nested calls are copied
//   already flat. Options: single_call_site.
// map-inline (xla/service/map_inliner.cc): a map of a scalar elementwise function becomes that function on whole arrays.
// flatten-call-graph (xla/service/flatten_call_graph.cc): a computation that several calls, whiles or conditionals share
//   is copied, one for each, so that later passes may edit it for its one caller.
#include "passes/util.h"

static bool may_inline(const hlo_instr *call) {
  const hlo_frontend *f = hlo_attr_ptr(call, HLO_ATTR_FRONTEND_ATTRIBUTES);
  for (u32 k = 0; f && k < f->n; k++)
    if (hs_str_eq(f->v[k].key, HS_STR("inlineable")) && (hs_str_eq(f->v[k].value, HS_STR("false")) || hs_str_eq(f->v[k].value, HS_STR("xla_late")))) return false;
  return true;
}

hs_status pass_call_inliner(pass_ctx *c) {
  bool single = pass_option_bool(c, "single_call_site", false);
  u64 before = c->m->generation;
  u32 n, *counts = pass_caller_counts(c->m, c->scratch);
  hlo_computation **order = hlo_comp_post_order(c->m, c->scratch, &n);
  for (u32 k = 0; k < n; k++) {
    hlo_for_each_instr_safe(i, order[k]) {
      if (i->opcode != HLO_CALL) continue;
      hlo_computation *body = hlo_attr_comp(i, HLO_ATTR_TO_APPLY);
      if (!body) continue;
      if (!may_inline(i)) { pass_note_declined(c, i, NULL, "marked as not inlineable"); continue; }
      if (single && counts[1 + body->id] > 1) { pass_note_declined(c, i, NULL, "%s has %u call sites", body->name, counts[1 + body->id]); continue; }
      if (!hs_str_eq(body->execution_thread, order[k]->execution_thread)) {
        pass_note_declined(c, i, NULL, "%s runs on another execution thread", body->name);
        continue;
      }
      if (!pass_may_rewrite(c)) return HS_GOOD;
      hlo_instr **args = HS_NEW_ARRAY(c->scratch, hlo_instr *, i->noperands + 1);
      for (u32 a = 0; a < i->noperands; a++) args[a] = hlo_operand(i, a);
      pass_note_done(c, i, NULL, "inlined %s (%u instructions)", body->name, body->ninstrs);
      pass_inline_call(i, body, args, c->scratch);
      if (counts[1 + body->id]) counts[1 + body->id]--;
    }
    HS_TRY(hs_poll());
  }
  if (c->m->generation != before) return pass_dce(c);   // bodies that lost their last caller
  return HS_GOOD;
}

// Whether a scalar function can be written on arrays instruction by instruction.
static const hlo_instr *not_liftable(const hlo_computation *f) {
  hlo_for_each_instr(i, f) {
    bool ok = hlo_shape_is_scalar(i->shape) && !i->ctrl_preds &&
              (i->opcode == HLO_PARAMETER || i->opcode == HLO_CONSTANT || hlo_op_has(i->opcode, HLO_F_ELEMENTWISE) || i->opcode == HLO_BITCAST_CONVERT);
    if (!ok) return i;
  }
  return NULL;
}

static void lift_map(pass_ctx *c, hlo_instr *map, const hlo_computation *f) {
  hlo_instr **order = hlo_post_order(f, c->scratch), **made = HS_NEW_ARRAY(c->scratch, hlo_instr *, f->ninstrs + 1);
  u32 n = f->ninstrs;
  u32 *place = HS_NEW_ARRAY(c->scratch, u32, c->m->next_instr_id + 1);
  for (u32 t = 0; t < n; t++) {
    hlo_instr *i = order[t];
    place[i->id] = t;
    if (i->opcode == HLO_PARAMETER) {
      made[t] = hlo_operand(map, (u32)hlo_param_number(i));
    } else {
      hlo_instr *ops[3];
      for (u32 k = 0; k < i->noperands && k < 3; k++) ops[k] = made[place[hlo_operand(i, k)->id]];
      const hlo_shape *s = i->opcode == HLO_CONSTANT ? NULL : pass_shape_as(map, i->shape->dtype);
      made[t] = hlo_clone_instr(map->parent, i, s, i->noperands, ops);
      if (i->opcode == HLO_CONSTANT && map->shape->rank) made[t] = hlo_add_broadcast(made[t], pass_shape_as(map, i->shape->dtype), 0, NULL);
    }
  }
  hlo_replace(map, made[place[f->root->id]]);
}

hs_status pass_map_inline(pass_ctx *c) {
  hlo_for_each_comp(comp, c->m) {
    hlo_for_each_instr_safe(i, comp) {
      if (i->opcode != HLO_MAP) continue;
      const hlo_computation *f = hlo_attr_comp(i, HLO_ATTR_TO_APPLY);
      const hlo_instr *bad = f ? not_liftable(f) : i;
      if (bad || !hlo_shape_is_array(i->shape)) {
        pass_note_declined(c, i, NULL, "%s is not elementwise", bad ? hlo_op_text(bad->opcode) : "its result");
        continue;
      }
      if (!pass_may_rewrite(c)) return HS_GOOD;
      pass_note_done(c, i, NULL, "applied %s to whole arrays", f->name);
      lift_map(c, i, f);
    }
  }
  return HS_GOOD;
}

static bool control_flow(const hlo_instr *i) {
  return i->opcode == HLO_CALL || i->opcode == HLO_WHILE || i->opcode == HLO_CONDITIONAL || i->opcode == HLO_ASYNC_START;
}

hs_status pass_flatten_call_graph(pass_ctx *c) {
  hlo_module *m = c->m;
  u32 n;
  hlo_computation **order = hlo_comp_post_order(m, c->scratch, &n);
  u32 limit = m->next_comp_id;
  u32 *seen = HS_NEW_ARRAY(c->scratch, u32, limit + 1);   // control-flow call sites met so far
  HS_VEC(hlo_computation *) work = {0};
  // Callers before callees: when a computation is copied, the call sites inside the copy are met after it.
  for (u32 k = n; k-- > 0;) {
    work.n = 0;
    hs_vec_push(&work, order[k]);
    while (work.n) {
      hlo_computation *x = hs_vec_pop(&work);
      hlo_for_each_instr(i, x) {
        if (!control_flow(i)) continue;
        hlo_computation **v;
        u32 nv;
        pass_called_all(i, c->scratch, &v, &nv);
        for (u32 j = 0; j < nv; j++) {
          if (v[j]->id >= limit || seen[v[j]->id]++ == 0) continue;
          if (!pass_may_rewrite(c)) { hs_vec_free(&work); return HS_GOOD; }
          hlo_computation *copy = hlo_clone_computation(v[j], v[j]->name, NULL);
          pass_note_done(c, i, NULL, "%s copied for this caller", v[j]->name);
          pass_set_called(i, j, copy);
          hs_vec_push(&work, copy);
        }
      }
    }
    HS_TRY(hs_poll());
  }
  hs_vec_free(&work);
  return HS_GOOD;
}
