// change.c — changing a module in place: replace, delete, rename, retype. Each is one version,
// and the verifier looks at what it touched before it is kept. See builder.h.
#include "core/infer/infer.h"
#include "core/ir/rename.h"
#include "core/verify/verify.h"
#include "repl/builder/builder.h"
#include "repl/shell/gate.h"
#include "repl/cmd/cmd.h"

static bool is_made(const builder *b, const hlo_instr *i) {
  for (size_t k = 0; k < b->made.n; k++)
    if (b->made.v[k] == i) return true;
  return false;
}

// Uses of `old` become uses of `now`, but for those by what the builder has just made.
static void hand_over(const builder *b, hlo_instr *old, hlo_instr *now) {
  hlo_computation *comp = old->parent;
  HS_VEC(hlo_use *) uses = {0};
  hlo_for_each_use(u, old)
    if (!is_made(b, u->user)) hs_vec_push(&uses, u);
  for (size_t k = 0; k < uses.n; k++) hlo_set_operand(uses.v[k]->user, hlo_slot(uses.v[k]), now);
  hs_vec_free(&uses);
  if (comp->root == old) hlo_set_root(comp, now);
}

// Instructions whose operands have other shapes now get theirs by inference.
static hs_status follow_shapes(builder *b) {
  hlo_computation *comp = b->comp;
  hlo_instr **order = hlo_post_order(comp, b->scratch);
  for (u32 k = 0; k < comp->ninstrs; k++) {
    hlo_instr *i = order[k];
    const hlo_shape *shape;
    if (!i->noperands || (!hlo_ops[i->opcode].inferable && i->opcode != HLO_SLICE)) continue;
    hs_status s = hlo_infer_instr(i, &shape);
    if (!hs_ok(s)) return hs_with_note(s, "%s cannot follow", i->name);
    if (!hlo_shape_compatible(shape, i->shape))
      hlo_set_shape(i, hlo_shape_fill_layout(b->m->ctx, shape));
  }
  return HS_GOOD;
}

void build_follow_entry(hlo_module *m) {
  const hlo_computation *e = m->entry;
  const hlo_attr *at = hlo_attrs_find(m->attrs, HLO_ATTR_ENTRY_COMPUTATION_LAYOUT);
  if (!at || !e->root) return;
  const hlo_program_shape *old = at->v.p;
  hlo_program_shape *now = HS_NEW(&m->arena, hlo_program_shape);
  const hlo_shape **params = HS_NEW_ARRAY(&m->arena, const hlo_shape *, e->nparams + 1);
  bool changed = old->n != e->nparams;
  for (u32 k = 0; k < e->nparams; k++) {
    bool keep = k < old->n && hlo_shape_compatible(old->params[k], e->params[k]->shape);
    params[k] = keep ? old->params[k] : e->params[k]->shape;
    changed |= !keep;
  }
  bool keep = old->result && hlo_shape_compatible(old->result, e->root->shape);
  *now = (hlo_program_shape){e->nparams, params, keep ? old->result : e->root->shape};
  if (changed || (old->result && !keep))
    hlo_set_module_attr(m, (hlo_attr){.id = HLO_ATTR_ENTRY_COMPUTATION_LAYOUT, .v.p = now});
}

static hs_status verify_change(const hlo_computation *c, const hlo_shape *root) {
  HS_TRY(hlo_verify_computation(c, NULL));
  bool called = c != c->module->entry;
  return called && !hlo_shape_compatible(root, c->root->shape) ? hlo_verify(c->module, NULL)
                                                               : HS_GOOD;
}

static hs_status made_of(const builder *b, const hlo_instr *i, const hlo_instr *of, bool *yes) {
  hlo_instr **order = hlo_post_order(b->comp, b->scratch);
  bool *from = hs_arena_alloc(b->scratch, b->m->next_instr_id * sizeof *from);
  memset(from, 0, b->m->next_instr_id * sizeof *from);
  for (u32 k = 0; k < b->comp->ninstrs; k++) {
    from[order[k]->id] = order[k] == of;
    for (u32 j = 0; j < order[k]->noperands; j++)
      from[order[k]->id] |= from[hlo_operand(order[k], j)->id];
  }
  *yes = from[i->id];
  return hs_poll();
}

// ---- replace ------------------------------------------------------------------------------------
// A name for what is replaced but still read: x.1, x.2, ...
static void rename_free(hlo_instr *i) {
  for (u32 k = 1;; k++) {
    char *name = hs_format("%s.%u", i->name, k);
    bool taken = hlo_find_instr(i->parent->module, name) != NULL;
    if (!taken) hlo_take_name(i, name);
    hs_free(name);
    if (!taken) return;
  }
}

static hs_status put_in_place(builder *b, hlo_instr *old, hlo_instr *now) {
  const char *name = old->name;
  const hlo_shape *root = b->comp->root->shape;
  bool made = is_made(b, now), same = hlo_shape_compatible(now->shape, old->shape), cycle = false;
  if (!made) HS_TRY(made_of(b, now, old, &cycle));
  if (cycle)
    return hs_with_note(hs_fail(HS_E_USAGE, "replace: %s is made of %s", now->name, name),
                        "replace %s = NAME(...) may use %s itself", name, name);
  if (same && made && now->shape != old->shape) hlo_set_shape(now, old->shape);
  if (made) hlo_add_provenance(now, old);
  hand_over(b, old, now);
  if (made && !hlo_metadata_of(now) && hlo_metadata_of(old))
    hlo_set_attr_ptr(now, HLO_ATTR_METADATA, hlo_metadata_of(old));
  if (!same) HS_TRY(follow_shapes(b));
  // A parameter keeps its name: arguments go by it.
  bool named = made && !hlo_is(old, HLO_PARAMETER);
  if (!old->nuses && !hlo_is_root(old) && !hlo_is_controlled(old) && hlo_is_removable(old))
    hlo_remove_dead(old);
  else if (named) rename_free(old);
  if (named) hlo_take_name(now, name);
  hlo_put_in_order(b->comp);
  build_follow_entry(b->m);
  return verify_change(b->comp, root);
}

// "x = expression" after `replace`, or "x := expression".
hs_status cmd_replace(repl_cmd *c) {
  HS_TRY(repl_needs_module(c, false));
  const char *text = c->args.raw;
  hs_str word;
  size_t rest;
  if (!build_head(text, strlen(text), &word, &rest))
    return repl_usage_error(c, "an instruction, = and an expression");
  const char *name = hs_arena_strndup(c->scratch, word.p, word.n);
  c->args.npos = 1;
  c->args.pos = &name;
  hlo_instr *old, *now;
  HS_TRY(repl_arg_instr(c, 0, &old));
  builder b = build_on(c, old->parent, text, strlen(text));
  b.p = text + rest;
  hs_status s = build_expression(&b, &now);
  if (hs_ok(s) && b.p < b.end) s = build_ended(&b);
  if (hs_ok(s) && now == old)
    s = hs_fail(HS_E_USAGE, "replace: %s is %s already", old->name, old->name);
  if (hs_ok(s)) s = repl_still_invalid(c, put_in_place(&b, old, now));
  if (hs_ok(s)) build_say(c, &b, now);
  build_free(&b);
  return s;
}

// ---- delete -------------------------------------------------------------------------------------
static hs_status used_by(const hlo_instr *i) {
  hs_buf t = {0};
  u32 n = 0;
  hlo_for_each_use(u, i) {
    if (n < 4) hs_buf_printf(&t, "%s%s", n ? ", " : "", u->user->name);
    n++;
  }
  hs_status s = hs_fail(HS_E_USAGE, "delete: %s is used by %s%s", i->name, hs_buf_cstr(&t),
                        n > 4 ? ", ..." : "");
  hs_buf_free(&t);
  for (u32 k = 0; k < i->noperands; k++)
    if (hlo_shape_compatible(hlo_operand(i, k)->shape, i->shape))
      return hs_with_note(s, "replace %s = %s puts its operand in its place", i->name,
                          hlo_operand(i, k)->name);
  return hs_with_note(s, "replace %s = ... puts something else in its place", i->name);
}

static hs_status delete_instr(repl_cmd *c, hlo_instr *i) {
  hlo_computation *comp = i->parent;
  if (i->nuses) return used_by(i);
  if (hlo_is_root(i))
    return hs_with_note(hs_fail(HS_E_USAGE, "delete: %s is the result of %s", i->name, comp->name),
                        "root NAME makes another instruction the result");
  if (hlo_is_controlled(i))
    return hs_fail(HS_E_USAGE, "delete: %s has control dependencies", i->name);
  if (hlo_is(i, HLO_PARAMETER) && comp != comp->module->entry)
    return hs_fail(HS_E_USAGE, "delete: %s is a parameter of %s, which others call", i->name,
                   comp->name);
  if (hlo_is(i, HLO_PARAMETER) &&
      (hlo_attrs_find(comp->module->attrs, HLO_ATTR_INPUT_OUTPUT_ALIAS) ||
       hlo_attrs_find(comp->module->attrs, HLO_ATTR_BUFFER_DONOR)))
    return hs_with_note(
        hs_fail(HS_E_USAGE, "delete: parameters of %s give their memory away", comp->name),
        "pass dce{remove_dead_parameters_from_entry_computation=true} keeps account of that");
  if (!c->doc) repl_say(c->out, "%s deleted\n", i->name);
  if (hlo_is(i, HLO_PARAMETER)) {
    repl_drop_inputs(c->mod);
    hlo_remove_parameter(comp, hlo_param_number(i));
  } else {
    hlo_remove(i);
  }
  build_follow_entry(comp->module);
  return repl_still_invalid(c, hlo_verify_computation(comp, NULL));
}

static hs_status delete_comp(repl_cmd *c, hlo_computation *comp) {
  if (comp == c->m->entry)
    return hs_fail(HS_E_USAGE, "delete: %s is the entry of the module", comp->name);
  hlo_for_each_comp(from, c->m)
    hlo_for_each_instr(i, from)
      if (hlo_calls(i, comp))
        return hs_fail(HS_E_USAGE, "delete: %s is called by %s", comp->name, i->name);
  if (!c->doc) repl_say(c->out, "%s deleted\n", comp->name);
  hlo_remove_computation(comp);
  return HS_GOOD;
}

hs_status cmd_delete(repl_cmd *c) {
  hlo_instr *i;
  hlo_computation *comp;
  // All names first: looking for one that is not there visits other versions, which a module with
  // edits cannot.
  for (u32 k = 0; k < c->args.npos; k++) HS_TRY(repl_arg_object(c, k, &i, &comp));
  for (u32 k = 0; k < c->args.npos; k++) {
    i = hlo_find_instr(c->m, repl_arg(c, k) + (*repl_arg(c, k) == '%'));
    comp = i ? NULL : repl_find_comp(c->m, repl_arg(c, k));
    if (!i && !comp) i = repl_find_instr(c->m, repl_arg(c, k));
    if (!i && !comp) continue;  // named twice
    HS_TRY(i ? delete_instr(c, i) : delete_comp(c, comp));
  }
  repl_json_int(c->doc, "instructions", hlo_instr_count(c->m));
  return HS_GOOD;
}

// ---- rename -------------------------------------------------------------------------------------
hs_status cmd_rename(repl_cmd *c) {
  hlo_instr *i;
  hlo_computation *comp;
  HS_TRY(repl_arg_object(c, 0, &i, &comp));
  const char *to = repl_arg(c, 1);
  to += *to == '%';
  HS_TRY(build_check_name(to));
  if (i ? hlo_find_instr(c->m, to) != NULL : hlo_find_comp(c->m, to) != NULL)
    return hs_with_note(hs_fail_subject(HS_E_REDEFINED, to, "%s is already defined", to),
                        "rename %s first, or choose another name", to);
  char *from = hs_strdup(i ? i->name : comp->name);
  if (i) hlo_take_name(i, to);
  else hlo_take_computation_name(comp, to);
  repl_json_str(c->doc, "from", from);
  repl_json_str(c->doc, "to", to);
  if (!c->doc) repl_say(c->out, "%s -> %s\n", from, to);
  hs_free(from);
  return HS_GOOD;
}

// ---- retype -------------------------------------------------------------------------------------
// Operands of the old type are converted, and so are computations on its elements.
static hs_status retype_operands(builder *b, hlo_instr *i, hlo_dtype from, hlo_dtype to) {
  for (u32 k = 0; k < i->noperands; k++) {
    hlo_instr *o = hlo_operand(i, k);
    if (!hlo_shape_is_array(o->shape) || o->shape->dtype != from) continue;
    HS_TRY(build_convert(b, b->text, o, to, &o));
    hlo_set_operand(i, k, o);
  }
  hlo_computation *comp = hlo_attr_comp(i, HLO_ATTR_TO_APPLY);
  if (!comp || !i->noperands) return HS_GOOD;
  build_values v = {0};
  for (u32 k = 0; k < i->noperands; k++)
    hs_vec_push(&v, ((build_value){.i = hlo_operand(i, k), .at = b->text}));
  const char *name = NULL;
  build_key key = {"to_apply", comp->name, b->text};
  hs_status s = build_applied(b, i->opcode, &v, &key, &name);
  hs_vec_free(&v);
  if (hs_ok(s)) hlo_set_attr_comp(i, HLO_ATTR_TO_APPLY, hlo_find_comp(b->m, name));
  return s;
}

static hs_status retype(repl_cmd *c, builder *b, hlo_instr *i, hlo_dtype to) {
  hlo_dtype from = i->shape->dtype;
  hlo_instr *now = i, *back;
  if (hlo_is(i, HLO_PARAMETER) && i->parent != c->m->entry)
    return hs_fail(HS_E_USAGE, "retype: %s is a parameter of %s, which others call", i->name,
                   i->parent->name);
  if (hlo_is(i, HLO_PARAMETER)) repl_drop_inputs(c->mod);
  if (hlo_is(i, HLO_CONSTANT)) {
    hlo_literal *value;
    HS_TRY(build_literal_as(b, i, to, &value));
    now = hlo_add_constant(b->comp, value, "constant");
    hs_vec_push(&b->made, now);
    hlo_add_provenance(now, i);
  } else {
    if (!hlo_is(i, HLO_CONVERT)) HS_TRY(retype_operands(b, i, from, to));
    hlo_set_shape(i, hlo_shape_with_dtype(b->m->ctx, i->shape, to));
  }
  HS_TRY(build_convert(b, b->text, now, from, &back));
  hand_over(b, i, back);
  if (now != i) {
    const char *name = i->name;
    hlo_remove(i);
    hlo_take_name(now, name);
  }
  hlo_put_in_order(b->comp);
  build_follow_entry(b->m);
  HS_TRY(repl_still_invalid(c, hlo_verify_computation(b->comp, NULL)));
  build_say(c, b, now);
  return HS_GOOD;
}

hs_status cmd_retype(repl_cmd *c) {
  hlo_instr *i;
  HS_TRY(repl_arg_instr(c, 0, &i));
  const char *text = repl_arg(c, 1);
  hlo_dtype to = hlo_dtype_find(hs_str_of(text));
  if (!hlo_dtype_is_array(to)) return repl_usage_error(c, "%s is no element type", text);
  if (!hlo_shape_is_array(i->shape))
    return repl_usage_error(c, "%s is no array, and has no element type", i->name);
  if (i->shape->dtype == to) return repl_usage_error(c, "%s is %s already", i->name, text);
  builder b = build_on(c, i->parent, c->line, strlen(c->line));
  hs_status s = retype(c, &b, i, to);
  build_free(&b);
  return s;
}
