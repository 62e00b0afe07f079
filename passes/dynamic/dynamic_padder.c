// dynamic_padder.c — dynamic_padder (xla/service/dynamic_padder.cc, with the rules of
// dynamic_dimension_inference.cc): dimensions whose size is known at run time become static ones.
//
// Values get the size of their bounds, and how many elements are in use is computed beside them, as
// s32 scalars. Rules say for each operation how its result's sizes follow, and what must be masked
// so that elements that are not in use do not show (dynamic.h). The types of the entry's parameters
// and results stay dynamic (edges.c). A module with an operation that has no rule, or whose rule
// does not cover what it does, is left as it was, and a note says which it is.
//
// Unlike XLA's, the pass works on loops, branches and calls itself, without expanding their tuples
// first, moves elements by one gather instead of a sort, and reads sizes of reshapes off the types
// of their results.
#include "passes/dynamic/arguments.h"
#include "passes/dynamic/dynamic.h"

static bool always(const hlo_instr *i) {
  switch (i->opcode) {
  case HLO_SET_DIMENSION_SIZE:
  case HLO_GET_DIMENSION_SIZE:
  case HLO_DYNAMIC_RESHAPE:
  case HLO_WHILE:
  case HLO_CONDITIONAL:
  case HLO_CALL: return true;
  default: return false;
  }
}

static bool visit(dyn *d, hlo_instr *i) {
  bool dynamic = hlo_shape_is_dynamic(i->shape);
  if (!(dynamic || always(i) || dyn_has_operand(d, i)) || dyn_is_kept(d, i)) return true;
  dyn_rule *rule = dyn_rule_of(i);
  if (!rule) return dyn_refuse(d, i, "there is no rule for it");
  if (!rule(d, i)) return false;
  if (dynamic && !dyn_is_kept(d, i)) hlo_set_shape(i, dyn_static(d->c->m->ctx, i->shape));
  return true;
}

bool dyn_computation(dyn *d, hlo_computation *c) {
  for (size_t k = 0; k < d->done.n; k++)
    if (d->done.v[k] == c) return true;
  hs_vec_push(&d->done, c);
  u32 n = c->ninstrs;
  hlo_instr **order = hlo_post_order(c, d->c->scratch);
  for (u32 k = 0; k < n; k++)
    if (!visit(d, order[k])) return false;
  return true;
}

// ---- when there is something to do --------------------------------------------------------------
static bool is_unknown_call(const hlo_instr *i) {
  return i->opcode == HLO_CUSTOM_CALL && !dyn_knows_call(i);
}

// Whether a value of dynamic type is one that the pass leaves: a parameter or result of the entry
// or of a call that only its library knows, on its way to PadToStatic or from SliceToDynamic.
static bool settled(const hlo_module *m, const hlo_instr *i) {
  bool entry = i->parent == m->entry, from = entry && i->opcode == HLO_PARAMETER,
       to = dyn_is_target(i, "SliceToDynamic");
  if (is_unknown_call(i)) from = true;
  if (i->opcode == HLO_GET_TUPLE_ELEMENT) from = settled(m, hlo_operand(i, 0));
  if (i->opcode == HLO_TUPLE) to = entry;
  if (!from && !to) return false;
  hlo_for_each_use(u, i) {
    const hlo_instr *user = u->user;
    bool pads =
        from && (dyn_is_target(user, "PadToStatic") || user->opcode == HLO_GET_TUPLE_ELEMENT);
    if (!pads && !(entry && user->opcode == HLO_TUPLE) && !is_unknown_call(user)) return false;
  }
  return true;
}

static bool is_done(const hlo_module *m) {
  if (m->nops[HLO_SET_DIMENSION_SIZE] || m->nops[HLO_GET_DIMENSION_SIZE] ||
      m->nops[HLO_DYNAMIC_RESHAPE])
    return false;
  hlo_for_each_comp(c, m)
    hlo_for_each_instr(i, c)
      if (hlo_shape_is_dynamic(i->shape) && !settled(m, i)) return false;
  return true;
}

static bool has_dynamic_edge(const hlo_module *m) {
  bool any = hlo_shape_is_dynamic(m->entry->root->shape);
  for (u32 k = 0; k < m->entry->nparams; k++)
    any |= hlo_shape_is_dynamic(m->entry->params[k]->shape);
  return any;
}

bool pass_dynamic_covers(const hlo_instr *i) {
  if (i->opcode == HLO_CUSTOM_CALL) return dyn_knows_call(i);
  return i->opcode == HLO_FUSION || dyn_rule_of(i);
}

// ---- the pass -----------------------------------------------------------------------------------
// What stood for operands goes, and all that is new or replaced and unused.
static void sweep(dyn *d, u32 known) {
  for (size_t k = 0; k < d->views.n; k++) {
    hlo_instr *v = d->views.v[k], *x = hlo_operand(v, 0);
    bool same = x->shape->dtype == v->shape->dtype;  // precisions may differ
    hlo_replace_uses(v, same ? x : hlo_build_convert(x, v->shape->dtype));
  }
  HS_VEC(hlo_instr *) unused = {0};
  for (size_t k = 0; k < d->done.n; k++)
    for (hlo_instr *i = d->done.v[k]->last; i; i = i->prev)
      if (!i->nuses && i->id >= known && i->opcode != HLO_PARAMETER) hs_vec_push(&unused, i);
  for (size_t k = 0; k < d->replaced.n; k++) hs_vec_push(&unused, d->replaced.v[k]);
  for (size_t k = 0; k < d->views.n; k++) hs_vec_push(&unused, d->views.v[k]);
  for (size_t k = 0; k < unused.n; k++)
    if (!unused.v[k]->dead) hlo_remove_dead(unused.v[k]);
  hs_vec_free(&unused);
}

static bool pad(dyn *d, const hlo_shape *stated, bool dynamic, u32 known) {
  dyn_open_entry(d);
  if (!dyn_computation(d, d->c->m->entry)) return false;
  dyn_close_entry(d, stated, dynamic);
  sweep(d, known);
  dyn_remove_uncalled(d->c);
  return true;
}

static hs_status make_static(pass_ctx *c, bool dynamic, bool equal, bool arguments) {
  hlo_module *m = c->m;
  if (is_done(m) && !(arguments && has_dynamic_edge(m))) return HS_GOOD;
  if (!pass_may_rewrite(c)) return HS_GOOD;
  size_t mark = hlo_journal_mark(m);
  u32 known = m->next_instr_id;
  HS_TRY(dyn_inline(c));
  dyn d = {.c = c, .equal_sizes = equal, .as_arguments = arguments};
  dyn_count_callers(&d);
  bool fine = pad(&d, m->entry->root->shape, dynamic, known);
  hs_status s = HS_GOOD;
  if (fine) pass_note_done(c, m->entry->root, NULL, "dynamic dimensions became static ones");
  else if (d.fails) s = hs_fail(HS_E_VERIFY, "%%%s: %s", d.at->name, d.why);
  else {
    char *name = hs_strdup(d.at->name);
    hlo_opcode op = d.at->opcode;
    hlo_journal_rollback(m, mark);
    const hlo_instr *at = hlo_find_instr(m, name);
    pass_note_declined(c, at ? at : m->entry->root, NULL, "%s %%%s: %s", hlo_op_text(op), name,
                       d.why);
    hs_free(name);
  }
  dyn_free(&d);
  return s;
}

static hs_status run(pass_ctx *c) {
  bool dynamic = pass_option_bool(c, "slice_dynamic_output"),
       equal = pass_option_bool(c, "require_equal_sizes");
  return make_static(c, dynamic, equal, false);
}

static hs_status run_arguments(pass_ctx *c) { return make_static(c, true, false, true); }

static const pass_option_info options[] = {
    {"slice_dynamic_output", PASS_BOOL, "true",
     "keep dynamic dimensions in the type of the entry's result"},
    {"require_equal_sizes", PASS_BOOL, "false",
     "fail when an elementwise operation's operands are not known to have equal sizes (XLA's "
     "shape_check_mode kCompileTime)"},
};

const pass_info pass_dynamic_arguments = {
    .name = "dynamic_arguments",
    .summary = "dynamic_padder, with sizes at the entry as parameters and results",
    .xla_source = "xla/service/dynamic_padder.cc",
    .run = run_arguments,
    .sample = "",
};

const pass_info pass_dynamic_padder = {
    .name = "dynamic_padder",
    .summary = "makes dynamic dimensions static, with their sizes as values beside them",
    .xla_source = "xla/service/dynamic_padder.cc",
    .run = run,
    .options = options,
    .noptions = HS_COUNT(options),
    .sample = PASS_SUM "ENTRY e {\n"
                       "  x = f32[4] parameter(0)\n"
                       "  n = s32[] parameter(1)\n"
                       "  zero = f32[] constant(0)\n"
                       "  used = f32[<=4] set-dimension-size(x, n), dimensions={0}\n"
                       "  twice = f32[<=4] add(used, used)\n"
                       "  ROOT y = f32[] reduce(twice, zero), dimensions={0}, to_apply=sum\n"
                       "}\n",
};
