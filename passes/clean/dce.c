// dce.c — dce (xla/hlo/transforms/simplifiers/hlo_dce.cc): removes instructions without users,
// then computations that nothing calls.
//
// One backward traversal of each list removes all dead chains, because users come after their
// operands. Callers are visited before callees, so that the callee of a dead call is found
// unreachable in the same run. Unused outputs of multi-output fusions and unused operands of calls
// are removed as well. An instruction with control dependencies or side effects stays, unless XLA's
// frontend attribute xla_allow_dce_side_effecting_op or an option permits its removal.
#include "passes/clean/clean.h"

typedef struct dce {
  pass_ctx *c;
  bool calls, collectives;
} dce;

static bool is_target(const hlo_instr *i, const char *name) {
  return i->opcode == HLO_CUSTOM_CALL &&
         hs_str_eq(hlo_attr_str(i, HLO_ATTR_CUSTOM_CALL_TARGET), hs_str_of(name));
}

static bool is_async(const hlo_instr *i) { return hlo_op_has(i->opcode, HLO_F_ASYNC_WRAPPER); }

// XLA's "xla_allow_dce_side_effecting_op" of the instruction, or of the start of its asynchronous
// chain.
static bool has_dce_mark(const hlo_instr *i, const char *value) {
  for (;; i = hlo_operand(i, 0)) {
    const hs_str *v = pass_frontend(i, "xla_allow_dce_side_effecting_op");
    if (v && hs_str_eq(*v, hs_str_of(value))) return true;
    if (!is_async(i) || i->opcode == HLO_ASYNC_START || !i->noperands) return false;
  }
}

// Collectives, whose only side effect is the synchronization with other devices.
static bool removable_collective(const dce *d, const hlo_instr *i) {
  return d->collectives && hlo_op_has(i->opcode, HLO_F_COLLECTIVE) &&
         !hlo_attr_int(i, HLO_ATTR_CONSTRAIN_LAYOUT, 0);
}

static bool removable_loop(const dce *d, const hlo_instr *w) {
  if (!d->collectives || w->opcode != HLO_WHILE) return false;
  for (u32 k = 0; k < hlo_ncalled(w); k++)
    hlo_for_each_instr(i, hlo_called(w, k))
      if (hlo_has_side_effect(i) && !removable_collective(d, i)) return false;
  return true;
}

static bool removable(const dce *d, const hlo_instr *i) {
  if (i->nuses || hlo_is_root(i) || hlo_is_controlled(i) ||
      hlo_op_has(i->opcode, HLO_F_NEVER_REMOVED) || pass_loop_is_pinned(i))
    return false;
  if (is_target(i, "Sharding") && i->noperands) {
    const hlo_instr *x = hlo_operand(i, 0);
    if (hlo_is_root(x) || x->opcode == HLO_PARAMETER || x->nuses != 1) return false;
  }
  if (has_dce_mark(i, "false")) return false;
  return !hlo_has_side_effect(i) || removable_collective(d, i) || removable_loop(d, i) ||
         ((is_target(i, "tpu_custom_call") || is_async(i)) && has_dce_mark(i, "true"));
}

static hs_status sweep(const dce *d, hlo_computation *comp) {
  for (hlo_instr *i = comp->last, *prev; i; i = prev) {
    prev = i->prev;
    if (i->opcode == HLO_PARAMETER || !removable(d, i)) continue;
    if (!pass_may_rewrite(d->c)) return HS_GOOD;
    pass_note_done(d->c, i, NULL, "removed %s: unused", hlo_op_text(i->opcode));
    hlo_remove(i);
  }
  return HS_GOOD;
}

// Removes uncalled computations, and those that only they called. `order`: callees first.
static void remove_uncalled(pass_ctx *c, u32 n, hlo_computation *const *order) {
  u32 *counts = pass_caller_counts(c);
  for (u32 k = n; k-- > 0;) {
    if (counts[1 + order[k]->id] || order[k] == c->m->entry || order[k]->dead ||
        !pass_may_rewrite(c))
      continue;
    hlo_for_each_instr(i, order[k]) {
      if (!hlo_op_has(i->opcode, HLO_F_CALLS)) continue;
      hlo_computation **v;
      u32 called;
      pass_called_all(i, c->scratch, &v, &called);
      for (u32 t = 0; t < called; t++) counts[1 + v[t]->id]--;
    }
    hlo_remove_computation(order[k]);
  }
}

static bool owns_body(const hlo_instr *f, const u32 *counts) {
  const hlo_computation *body = hlo_fusion_comp(f);
  return body && body->id < counts[0] && counts[1 + body->id] == 1;
}

// Removes outputs of a multi-output fusion that have no users; a single remaining output needs no
// tuple.
static void trim_fusion_outputs(pass_ctx *c, hlo_instr *f) {
  hlo_computation *body = hlo_fusion_comp(f);
  if (!body || body->root->opcode != HLO_TUPLE || hlo_is_root(f) || f->nuses == 0 ||
      hlo_is_controlled(f) || hlo_attr_get(f, HLO_ATTR_OUTPUT_TO_OPERAND_ALIASING) ||
      hlo_attr_get(body->root, HLO_ATTR_SHARDING) ||
      hlo_attr_int(f, HLO_ATTR_KIND, HLO_FUSION_KIND_LOOP) == HLO_FUSION_KIND_CUSTOM)
    return;
  u32 n = body->root->noperands, live = 0;
  bool *used = HS_NEW_ARRAY(c->scratch, bool, n + 1);
  hlo_for_each_use(u, f) {
    if (u->user->opcode != HLO_GET_TUPLE_ELEMENT) return;
    i64 k = hlo_attr_int(u->user, HLO_ATTR_INDEX, 0);
    if (!used[k]) used[k] = true, live++;
  }
  for (u32 k = 0; k < n; k++)
    if (!used[k] && hlo_has_side_effect(hlo_operand(body->root, k))) used[k] = true, live++;
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
    pass_set_tuple_shape(f, root->shape);
    hlo_for_each_use(u, f)
      hlo_set_attr_int(u->user, HLO_ATTR_INDEX, renumber[hlo_attr_int(u->user, HLO_ATTR_INDEX, 0)]);
    return;
  }
  hlo_instr **gtes = HS_NEW_ARRAY(c->scratch, hlo_instr *, f->nuses);
  u32 ng = 0;
  hlo_for_each_use(u, f) gtes[ng++] = u->user;
  pass_set_tuple_shape(f, root->shape);
  for (u32 k = 0; k < ng; k++) hlo_replace(gtes[k], f);
}

// Removes operands that the fusion's body does not use.
static void trim_operands(pass_ctx *c, hlo_instr *f) {
  hlo_computation *body = hlo_fusion_comp(f);
  if (!body || body->nparams != f->noperands ||
      hlo_attr_get(f, HLO_ATTR_OUTPUT_TO_OPERAND_ALIASING))
    return;
  u32 live = 0;
  for (u32 k = 0; k < body->nparams; k++)
    live += body->params[k]->nuses || hlo_is_root(body->params[k]);
  if (live == f->noperands || !pass_may_rewrite(c)) return;
  pass_note_done(c, f, NULL, "%u operands unused in the body", f->noperands - live);
  hlo_instr **ops = HS_NEW_ARRAY(c->scratch, hlo_instr *, live + 1);
  u32 n = 0, was = f->noperands;
  for (u32 k = 0; k < was; k++)
    if (body->params[k]->nuses || hlo_is_root(body->params[k])) ops[n++] = hlo_operand(f, k);
  hlo_keep_parameters(body, NULL);
  hlo_set_operands(f, n, ops);
}

// Sets the operand shapes in the shapes of an asynchronous start and its updates, where they are
// the first element.
static void set_async_operands(hlo_instr *start, u32 n, hlo_instr *const *ops, hs_arena *a) {
  hlo_ctx *ctx = start->parent->module->ctx;
  const hlo_shape **o = HS_NEW_ARRAY(a, const hlo_shape *, n + 1),
                  **e = HS_NEW_ARRAY(a, const hlo_shape *, start->shape->nelems + 1);
  for (u32 k = 0; k < n; k++) o[k] = ops[k]->shape;
  memcpy(e, start->shape->elems, start->shape->nelems * sizeof *e);
  e[0] = hlo_shape_tuple(ctx, n, o);
  for (hlo_instr *i = start; i;) {
    hlo_set_shape(i, hlo_shape_tuple(ctx, start->shape->nelems, e));
    hlo_instr *next = NULL;
    hlo_for_each_use(u, i)
      if (u->user->opcode == HLO_ASYNC_UPDATE) next = u->user;
    i = next;
  }
}

// Call sites whose operands can be removed: calls, fusions and asynchronous starts; updates and
// dones have no operands of the computation.
static bool can_drop_operands(const hlo_instr *i) {
  return !i->dead && !hlo_attr_get(i, HLO_ATTR_OUTPUT_TO_OPERAND_ALIASING) &&
         (i->opcode == HLO_CALL || i->opcode == HLO_FUSION || is_async(i));
}

// Whether an asynchronous call gets its operands one after the other, from its start and updates.
static bool binds_late(const hlo_instr *i, const hlo_computation *x) {
  return (i->opcode == HLO_ASYNC_START && i->noperands != x->nparams) ||
         (i->opcode == HLO_ASYNC_UPDATE && i->noperands > 1);
}

// Removes the unused parameters of a computation and the operands at all its call sites, if all of
// these permit it.
static hs_status trim_called(const dce *d, hlo_computation *x, const pass_call_sites *sites) {
  u32 from = sites->start[x->id], to = sites->start[x->id + 1];
  for (u32 k = from; k < to; k++)
    if (!can_drop_operands(sites->sites[k].i) || binds_late(sites->sites[k].i, x)) return HS_GOOD;
  HS_TRY(sweep(d, x));
  u32 nparams = x->nparams, live = 0;
  bool *used = HS_NEW_ARRAY(d->c->scratch, bool, nparams + 1);
  for (u32 k = 0; k < nparams; k++)
    live += used[k] = x->params[k]->nuses || hlo_is_root(x->params[k]);
  if (live == nparams || from == to || !pass_may_rewrite(d->c)) return HS_GOOD;
  pass_note_done(d->c, sites->sites[from].i, NULL, "%u operands unused in %s", nparams - live,
                 x->name);
  hlo_keep_parameters(x, used);
  for (u32 s = from; s < to; s++) {
    if (is_async(sites->sites[s].i) && sites->sites[s].i->opcode != HLO_ASYNC_START) continue;
    hlo_instr *call = sites->sites[s].i, **ops = HS_NEW_ARRAY(d->c->scratch, hlo_instr *, live + 1),
              **dropped = HS_NEW_ARRAY(d->c->scratch, hlo_instr *, nparams + 1);
    u32 n = 0, ndropped = 0;
    for (u32 k = 0; k < nparams; k++)
      *(used[k] ? &ops[n++] : &dropped[ndropped++]) = hlo_operand(call, k);
    hlo_set_operands(call, n, ops);
    if (call->opcode == HLO_ASYNC_START) set_async_operands(call, n, ops, d->c->scratch);
    for (u32 k = 0; k < ndropped; k++) hlo_remove_dead(dropped[k]);
  }
  return HS_GOOD;
}

static hs_status remove_unused(const dce *d) {
  pass_ctx *c = d->c;
  hlo_module *m = c->m;
  u32 n;
  hlo_computation **order = pass_comp_post_order(c, &n);
  u32 *counts = pass_caller_counts(c);
  pass_call_sites sites = {0};
  HS_TRY(hs_poll());  // of a large module, what follows takes as long as what was before
  bool calls = d->calls && (m->nops[HLO_CALL] || m->nops[HLO_ASYNC_START]);
  bool fusions = m->nops[HLO_FUSION] != 0;
  hlo_call_list all = fusions ? pass_calls(c) : (hlo_call_list){0};
  if (calls) sites = pass_find_sites(c);
  for (u32 k = n; k-- > 0;) {
    HS_TRY(hs_poll());
    HS_TRY(sweep(d, order[k]));
    if (calls && order[k] != m->entry) HS_TRY(trim_called(d, order[k], &sites));
    u64 swept = m->generation;
    u32 from = fusions ? all.first[order[k]->id] : 0, end = fusions ? all.end[order[k]->id] : 0;
    for (u32 j = from; j < end; j++) {
      if (all.v[j]->opcode != HLO_FUSION || all.v[j]->dead || !owns_body(all.v[j], counts))
        continue;
      trim_fusion_outputs(c, all.v[j]);
      trim_operands(c, all.v[j]);
    }
    if (m->generation != swept) HS_TRY(sweep(d, order[k]));
  }
  remove_uncalled(c, n, order);
  return HS_GOOD;
}

// ---- parameters of the entry --------------------------------------------------------------------
// The aliases without those of removed parameters, renumbered: number[old] is the new number, -1:
// removed. Allocated in `a`.
static const hlo_aliases *renumbered(hs_arena *a, const hlo_aliases *old, const i64 *number) {
  hlo_aliases *now = HS_NEW(a, hlo_aliases);
  hlo_alias_entry *v = HS_NEW_ARRAY(a, hlo_alias_entry, old->n + 1);
  for (u32 k = 0; k < old->n; k++) {
    if (number[old->v[k].param] < 0) continue;
    v[now->n] = old->v[k];
    v[now->n++].param = number[old->v[k].param];
  }
  now->v = v;
  return now;
}

// Removes unused parameters of the entry, and what the module's attributes say about them. One that
// is aliased with an output stays.
static void trim_entry(pass_ctx *c) {
  hlo_module *m = c->m;
  hlo_computation *e = m->entry;
  u32 n = e->nparams, live = 0;
  const hlo_attr *aliases = hlo_attrs_find(m->attrs, HLO_ATTR_INPUT_OUTPUT_ALIAS),
                 *donors = hlo_attrs_find(m->attrs, HLO_ATTR_BUFFER_DONOR),
                 *layout = hlo_attrs_find(m->attrs, HLO_ATTR_ENTRY_COMPUTATION_LAYOUT);
  bool *used = HS_NEW_ARRAY(c->scratch, bool, n + 1);
  for (u32 k = 0; k < n; k++)
    used[k] = e->params[k]->nuses || hlo_is_root(e->params[k]) || hlo_is_controlled(e->params[k]);
  const hlo_aliases *written = aliases ? aliases->v.p : NULL;
  for (u32 k = 0; written && k < written->n; k++) used[written->v[k].param] = true;
  i64 *number = HS_NEW_ARRAY(c->scratch, i64, n + 1);
  for (u32 k = 0; k < n; k++) number[k] = used[k] ? (i64)live++ : -1;
  if (live == n || !pass_may_rewrite(c)) return;
  pass_note_done(c, e->root, NULL, "%u of %u parameters of the entry unused", n - live, n);
  if (layout) {
    const hlo_program_shape *old = layout->v.p;
    hlo_program_shape *now = HS_NEW(&m->arena, hlo_program_shape);
    const hlo_shape **p = HS_NEW_ARRAY(&m->arena, const hlo_shape *, live + 1);
    for (u32 k = 0; k < n && k < old->n; k++)
      if (used[k]) p[number[k]] = old->params[k];
    *now = (hlo_program_shape){live, p, old->result};
    hlo_set_module_attr(m, (hlo_attr){.id = HLO_ATTR_ENTRY_COMPUTATION_LAYOUT, .v.p = now});
  }
  if (aliases)
    hlo_set_module_attr(m, (hlo_attr){.id = HLO_ATTR_INPUT_OUTPUT_ALIAS,
                                      .v.p = renumbered(&m->arena, aliases->v.p, number)});
  if (donors) {
    const hlo_aliases *left = renumbered(&m->arena, donors->v.p, number);
    if (left->n) hlo_set_module_attr(m, (hlo_attr){.id = HLO_ATTR_BUFFER_DONOR, .v.p = left});
    else hlo_remove_module_attr(m, HLO_ATTR_BUFFER_DONOR);
  }
  hlo_keep_parameters(e, used);
}

hs_status pass_remove_unused(pass_ctx *c) { return remove_unused(&(dce){.c = c}); }

static hs_status run(pass_ctx *c) {
  dce d = {c, pass_option_bool(c, "use_call_analysis"),
           pass_option_bool(c, "remove_cross_partition_collective_ops")};
  bool entry = pass_option_bool(c, "remove_dead_parameters_from_entry_computation");
  HS_TRY(remove_unused(&d));
  if (entry) trim_entry(c);
  return HS_GOOD;
}

static const pass_option_info options[] = {
    {"use_call_analysis", PASS_BOOL, "false",
     "also remove operands of calls and asynchronous starts that the callees do not use"},
    {"remove_cross_partition_collective_ops", PASS_BOOL, "false",
     "also remove unused collectives, and loops whose only side effects are such"},
    {"remove_dead_parameters_from_entry_computation", PASS_BOOL, "false",
     "remove unused parameters of the entry computation"},
};

const pass_info pass_dce = {
    .name = "dce",
    .summary = "removes instructions and computations that nothing uses",
    .xla_source = "xla/hlo/transforms/simplifiers/hlo_dce.cc",
    .run = run,
    .again = true,
    .options = options,
    .noptions = HS_COUNT(options),
    .sample = "ENTRY e {\n"
              "  x = f32[4] parameter(0)\n"
              "  unused = f32[4] exponential(x)\n"
              "  unused_too = f32[4] negate(unused)\n"
              "  ROOT y = f32[4] add(x, x)\n"
              "}\n",
};
