// cut.c: see cut.h. Parts are taken from clones: a clone keeps names, called computations and
// layouts, so that a part is compiled as it would be within the module.
#include "backends/ffi.h"
#include "repl/debug/cut.h"

#include <stdlib.h>

#include "core/verify/verify.h"

void cut_drop_result_attrs(hlo_module *m) {
  static const hlo_attr_id ids[] = {HLO_ATTR_ENTRY_COMPUTATION_LAYOUT, HLO_ATTR_INPUT_OUTPUT_ALIAS,
                                    HLO_ATTR_BUFFER_DONOR};
  for (size_t k = 0; k < HS_COUNT(ids); k++) hlo_remove_module_attr(m, ids[k]);
}

void cut_add_results(hlo_module *m, u32 n, hlo_instr *const *more) {
  hlo_instr **all = hs_calloc(n + 1, sizeof *all);
  all[0] = m->entry->root;
  for (u32 k = 0; k < n; k++) all[k + 1] = more[k];
  hlo_set_root(m->entry, hlo_add_tuple(m->entry, n + 1, all));
  cut_drop_result_attrs(m);
  hs_free(all);
}

void cut_drop_uncalled(hlo_module *m) {
  hs_arena a = {0};
  u32 n;
  bool *called = HS_NEW_ARRAY(&a, bool, m->next_comp_id + 1);
  hlo_computation **order = hlo_comp_callees_first(m, &a, &n);
  called[m->entry->id] = true;
  for (u32 k = n; k-- > 0;) {
    if (!called[order[k]->id]) {
      hlo_remove_computation(order[k]);
      continue;
    }
    hlo_for_each_instr(i, order[k])
      for (u32 j = 0; j < hlo_ncalled(i); j++)
        if (hlo_called(i, j)) called[hlo_called(i, j)->id] = true;
  }
  hs_arena_free(&a);
}

hlo_module *cut_computation(const hlo_module *from, const hlo_computation *comp) {
  hlo_module *m = hlo_module_clone(from, comp->name);
  hlo_journal_disable(m);
  hlo_set_entry(m, hlo_find_comp(m, comp->name));
  cut_drop_result_attrs(m);
  cut_drop_uncalled(m);
  return m;
}

// In called computations only what has no effect.
static void remove_unused(hlo_computation *c) {
  bool entry = c == c->module->entry;
  for (bool again = true; again;) {  // the list need not be in operands-first order
    again = false;
    for (hlo_instr *i = c->last, *p; i; i = p) {
      p = i->prev;
      if (i == c->root || i->opcode == HLO_PARAMETER || i->nuses) continue;
      if (!entry && (!hlo_is_removable(i) || hlo_is_controlled(i))) continue;
      hlo_remove(i);
      again = true;
    }
  }
}

void cut_clean(hlo_module *m) {
  hlo_for_each_comp(k, m) remove_unused(k);
  hlo_keep_parameters(m->entry, NULL);
  cut_drop_uncalled(m);
}

hs_status cut_instructions(const hlo_module *from, u32 n, hlo_instr *const *chosen, bool bare,
                           hlo_module **out, u32 *noperands, const hlo_instr ***operands) {
  hlo_module *m = hlo_module_clone(from, bare && n == 1 ? chosen[0]->name : from->name);
  hlo_journal_disable(m);
  hlo_computation *comp = hlo_find_comp(m, chosen[0]->parent->name);
  HS_VEC(const hlo_instr *) ops = {0};
  hlo_instr **param = hs_calloc(from->next_instr_id + 1, sizeof *param),
            **mine = hs_calloc(n + 1, sizeof *mine);
  u32 old = comp->nparams;
  hlo_for_each_instr(i, comp) hlo_set_ctrl_preds(i, 0, NULL);
  for (u32 k = 0; k < n; k++) mine[k] = hlo_find_instr(m, chosen[k]->name);
  for (u32 k = 0; k < n; k++)
    for (u32 j = 0; j < chosen[k]->noperands; j++) {
      const hlo_instr *d = hlo_operand(chosen[k], j);
      if (d->opcode == HLO_CONSTANT) continue;
      if (!param[d->id]) {
        param[d->id] = hlo_add_parameter(comp, old + (u32)ops.n, d->shape, d->name);
        hlo_move_before(param[d->id], comp->first);
        hs_vec_push(&ops, d);
      }
      hlo_set_operand(mine[k], j, param[d->id]);
    }
  if (comp != m->entry) hlo_set_entry(m, comp);
  cut_drop_result_attrs(m);
  hlo_remove_module_attr(m, HLO_ATTR_IS_SCHEDULED);
  hlo_set_root(comp, bare && n == 1 ? mine[0] : hlo_add_tuple(comp, n, mine));
  hs_free(param);
  hs_free(mine);
  cut_clean(m);
  hs_status s = hlo_verify(m, NULL);
  if (!hs_ok(s)) {
    hs_vec_free(&ops);
    hlo_module_free(m);
    return s;
  }
  *out = m;
  *noperands = (u32)ops.n;
  *operands = ops.v;
  return HS_GOOD;
}

hs_status cut_run(repl_cmd *c, const backend *be, const hlo_module *m, u32 n,
                  hlo_literal *const *args, hlo_literal **out) {
  *out = NULL;
  if (backend_has(be, BACKEND_EVALUATOR)) {
    hlo_eval_options eo = {.peer = &ffi_peer, .keep_denormals = c->s->set.keep_denormals};
    return hlo_eval_module(m, n, args, &eo, out);
  }
  backend_options bo = repl_backend_options(c->s);
  return backend_run_once(be, m, &bo, n, args, out);
}

hs_status cut_capture(repl_cmd *c, repl_exe *x, const watch_options *w, repl_values *kept) {
  hlo_module *m = hlo_module_clone(x->m, x->m->name);
  hlo_journal_disable(m);
  HS_VEC(hlo_instr *) more = {0};
  bool inner = false, any = false;
  hlo_for_each_comp(k, m)
    hlo_for_each_instr(i, k) {
      if (!watch_matches(w->capture, i->name)) continue;
      any = true;
      if (k != m->entry) inner = true;
      else hs_vec_push(&more, i);
    }
  if (!any) repl_note(c->out, "no instruction matches %s", w->capture);
  hs_status s = HS_GOOD;
  if (inner) {
    repl_note(c->out, "values within other computations come from the evaluator");
    hlo_literal *out = NULL;
    watch_options o = {.capture = w->capture, .iteration = w->iteration};
    s = watch_run(c, x->m, &o, kept, &out);
    hlo_literal_unref(out);
  }
  if (hs_ok(s) && more.n) {
    cut_add_results(m, (u32)more.n, more.v);
    hlo_literal *out;
    s = cut_run(c, x->be, m, c->mod->ninputs, c->mod->inputs, &out);
    if (hs_ok(s)) {
      for (u32 k = 0; k < more.n; k++)
        repl_values_keep(kept, more.v[k]->name, out->children[k + 1], "");
      hlo_literal_unref(out);
    }
  }
  hs_vec_free(&more);
  hlo_module_free(m);
  return s;
}
