// clone.c — copies of computations and modules. Two passes each: make every instruction, then
// link the operands, because list order need not put definitions first.
#include "core/ir/journal.h"

// by id of the source
typedef struct comp_map {
  const hlo_module *from;
  hlo_module *into;
  hlo_computation **to;
} comp_map;

static hlo_computation *map_comp(void *arg, hlo_computation *c) {
  comp_map *map = arg;
  if (!map->to[c->id]) map->to[c->id] = hlo_clone_computation_into(map->into, c, c->name);
  return map->to[c->id];
}

// Copies the instructions of `from` into the empty `to`. `made` receives source id - low -> copy.
static void copy_body(hlo_computation *to, const hlo_computation *from, comp_map *map,
                      hlo_instr **made, u32 low) {
  hlo_module *m = to->module;
  bool same = from->module == m;
  HS_VEC(hlo_attr) set = {0};
  hlo_for_each_instr(i, from) {
    hlo_instr *r = hlo_add(to, i->opcode, i->shape, 0, NULL, i->name);
    made[i->id - low] = r;
    if (same) {
      hlo_copy_attrs(r, i);
    } else {
      set.n = 0;
      for (u32 k = 0; i->attrs && k < i->attrs->n; k++)
        hs_vec_push(&set, hlo_attr_clone(&m->arena, &i->attrs->v[k], map_comp, map));
      if (set.n) hlo_set_attrs(r, (u32)set.n, set.v);
    }
    r->provenance = i->provenance;
    r->source = i->source;
  }
  hs_vec_free(&set);
  HS_VEC(hlo_instr *) ops = {0};
  hlo_for_each_instr(i, from) {
    ops.n = 0;
    for (u32 k = 0; k < i->noperands; k++) hs_vec_push(&ops, made[hlo_operand(i, k)->id - low]);
    if (ops.n) hlo_set_operands(made[i->id - low], (u32)ops.n, ops.v);
    ops.n = 0;
    for (u32 k = 0; i->ctrl_preds && k < i->ctrl_preds->n; k++)
      hs_vec_push(&ops, made[i->ctrl_preds->v[k]->id - low]);
    if (ops.n) hlo_set_ctrl_preds(made[i->id - low], (u32)ops.n, ops.v);
  }
  hs_vec_free(&ops);
  if (from->nparams) {
    u32 cap = 1;  // power of two: hlo_add_parameter appends in place
    while (cap < from->nparams) cap *= 2;
    hlo_instr **params = HS_NEW_ARRAY(&m->arena, hlo_instr *, cap);
    for (u32 k = 0; k < from->nparams; k++)
      params[k] = from->params[k] ? made[from->params[k]->id - low] : NULL;
    hlo_set_params_(to, from->nparams, params);
  }
  if (from->root) hlo_set_root(to, made[from->root->id - low]);
  if (from->execution_thread.n) hlo_set_execution_thread(to, from->execution_thread);
}

// A table for the ids of a computation, from its lowest one on. Not cleared: it is only read where
// it was written. A small computation may span many ids, and be one of very many.
static hlo_instr **table_for(const hlo_computation *c, u32 *low) {
  u32 high = 0;
  *low = UINT32_MAX;
  hlo_for_each_instr(i, c) *low = HS_MIN(*low, i->id), high = HS_MAX(high, i->id);
  return hs_alloc((high - HS_MIN(*low, high) + 1) * sizeof(hlo_instr *));
}

hlo_computation *hlo_clone_computation(hlo_computation *c, const char *name, hlo_instr **map) {
  u32 low = 0;
  hlo_instr **made = map ? map : table_for(c, &low);
  hlo_computation *r = hlo_add_computation(c->module, name ? name : c->name);
  copy_body(r, c, NULL, made, low);
  if (!map) hs_free(made);
  return r;
}

hlo_computation *hlo_clone_computation_into(hlo_module *m, const hlo_computation *c,
                                            const char *name) {
  comp_map map = {c->module, m, hs_calloc(c->module->next_comp_id, sizeof *map.to)};
  u32 low;
  hlo_instr **made = table_for(c, &low);
  hlo_computation *r = hlo_add_computation(m, name ? name : c->name);
  map.to[c->id] = r;
  copy_body(r, c, &map, made, low);
  hs_free(made);
  hs_free(map.to);
  return r;
}

const hlo_stack_frames *hlo_stack_frames_clone_(hlo_module *into, const hlo_stack_frames *from) {
  hs_arena *a = &into->arena;
  hlo_stack_frames *f = hs_arena_dup(a, from, sizeof *f);
  hs_str *files = hs_arena_dup(a, f->files, f->nfiles * sizeof *files),
         *functions = hs_arena_dup(a, f->functions, f->nfunctions * sizeof *functions);
  for (u32 k = 0; k < f->nfiles; k++) files[k].p = hs_arena_strndup(a, files[k].p, files[k].n);
  for (u32 k = 0; k < f->nfunctions; k++)
    functions[k].p = hs_arena_strndup(a, functions[k].p, functions[k].n);
  f->files = files;
  f->functions = functions;
  f->locations = hs_arena_dup(a, f->locations, f->nlocations * sizeof *f->locations);
  f->frames = hs_arena_dup(a, f->frames, f->nframes * sizeof *f->frames);
  return f;
}

hlo_module *hlo_module_clone(const hlo_module *m, const char *name) {
  hlo_module *r = hlo_module_new(m->ctx, name ? name : m->name);
  r->journal->off = true;  // nobody undoes the making of a copy
  hlo_names_reserve(r, hlo_instr_count(m) + m->ncomputations);
  comp_map map = {m, r, hs_calloc(m->next_comp_id + 1, sizeof *map.to)};
  hlo_instr **made = hs_calloc(m->next_instr_id + 1, sizeof *made);
  hlo_for_each_comp(c, m) map.to[c->id] = hlo_add_computation(r, c->name);
  hlo_for_each_comp(c, m) copy_body(map.to[c->id], c, &map, made, 0);
  if (m->entry) r->entry = map.to[m->entry->id];
  for (u32 k = 0; m->attrs && k < m->attrs->n; k++)
    hlo_set_module_attr(r, hlo_attr_clone(&r->arena, &m->attrs->v[k], map_comp, &map));
  if (m->frames) r->frames = hlo_stack_frames_clone_(r, m->frames);
  if (m->copy_kept) m->copy_kept(r, m, made, map.to);
  hs_free(made);
  hs_free(map.to);
  r->journal->off = false;
  hlo_mark_invalid(r, hlo_known_invalid(m));
  return r;
}
