// edit.c — building and changing the IR. Every change goes through the journal (journal.h),
// so that it can be undone.
//
// Invariants kept here: an operand edge is in its definition's use list exactly once; nctrl_succs
// counts the live instructions that name one as control predecessor; params[] lists the parameter
// instructions by number; a removed instruction has no edges left.
#include "core/ir/journal.h"
#include "core/ir/load.h"

static hlo_module *module_of(const hlo_instr *i) { return i->parent->module; }

// ---- modules and computations -------------------------------------------------------------------

hlo_module *hlo_module_new(hlo_ctx *ctx, const char *name) {
  static _Atomic u64 modules;
  hlo_module *m = hs_calloc(1, sizeof *m);
  m->ctx = ctx;
  m->arena.pool = m->instrs.pool = m->comps.pool = hlo_ctx_pool(ctx);
  m->uses.pool = m->sets.pool = hlo_ctx_pool(ctx);
  m->serial = ++modules;
  m->name = hlo_intern_str(ctx, name);
  m->journal = hs_calloc(1, sizeof *m->journal);
  m->names = hlo_names_new_();
  return m;
}

void hlo_module_free(hlo_module *m) {
  if (!m) return;
  for (size_t k = 0; k < m->journal->literals.n; k++) hlo_literal_unref(m->journal->literals.v[k]);
  hs_vec_free(&m->journal->literals);
  hlo_log_free_(&m->journal->log);
  hs_free(m->journal);
  hlo_names_free_(m->names);
  hs_arena_free(&m->instrs);
  hs_arena_free(&m->comps);
  hs_arena_free(&m->uses);
  hs_arena_free(&m->sets);
  hs_arena_free(&m->arena);
  hs_free(m);
}

hlo_computation *hlo_add_computation(hlo_module *m, const char *name) {
  hlo_computation *c = HS_NEW(&m->comps, hlo_computation);
  c->id = m->next_comp_id++;
  c->module = m;
  c->name = hlo_claim_name_(m, hs_str_of(name && *name ? name : "computation"), NULL, c)->text;
  hlo_rec_link_comp_(m, c, NULL);
  return c;
}

void hlo_remove_computation(hlo_computation *c) {
  // Its instructions keep their edges among themselves: nothing outside points at them, and undo
  // brings all back.
  hlo_rec_unlink_comp_(c->module, c);
}

void hlo_set_computation_name(hlo_computation *c, const char *name) {
  if (strcmp(c->name, name))
    SET_PTR(c->module, c, c->name, hlo_claim_name_(c->module, hs_str_of(name), NULL, c)->text);
}

void hlo_set_entry(hlo_module *m, hlo_computation *c) { SET_PTR(m, NULL, m->entry, c); }
void hlo_set_stack_frames(hlo_module *m, const hlo_stack_frames *f) {
  SET_PTR(m, NULL, m->frames, f);
}

static void hold_literal(hlo_module *m, const hlo_attr *a) {
  if (hlo_attr_kind_of(a->id) == HLO_AK_LITERAL && a->v.literal)
    hs_vec_push(&m->journal->literals, hlo_literal_ref(a->v.literal));
}

void hlo_set_module_attr(hlo_module *m, hlo_attr a) {
  hold_literal(m, &a);
  SET_PTR(m, NULL, m->attrs, hlo_attrs_with(&m->sets, m->attrs, &a));
}

static const hlo_attrs *attr_set(hlo_module *m, u32 n, const hlo_attr *sorted) {
  hlo_attrs *a = hs_arena_alloc(&m->sets, sizeof *a + n * sizeof *a->v);
  a->n = n;
  memcpy(a->v, sorted, n * sizeof *sorted);
  for (u32 k = 0; k < n; k++) hold_literal(m, &a->v[k]);
  return a;
}

void hlo_remove_module_attr(hlo_module *m, hlo_attr_id id) {
  SET_PTR(m, NULL, m->attrs, hlo_attrs_without(&m->sets, m->attrs, id));
}

void hlo_set_execution_thread(hlo_computation *c, hs_str s) {
  hs_arena *a = &c->module->arena;
  SET_PTR(c->module, c, c->execution_thread.p, hs_arena_strndup(a, s.p, s.n));
  size_t n = s.n;
  void *word;  // the length is a word like any other to the journal
  memcpy(&word, &n, sizeof word);
  SET_PTR(c->module, c, c->execution_thread.n, word);
}

// ---- instructions -------------------------------------------------------------------------------

static hlo_use *make_uses(hlo_module *m, hlo_instr *user, u32 n, hlo_instr *const *defs) {
  hlo_use *u = hs_arena_alloc(&m->uses, n * sizeof *u);
  for (u32 k = 0; k < n; k++) u[k] = (hlo_use){.def = defs[k], .user = user};
  return u;
}

// like: the instruction whose name is wanted, NULL: `name` is.
static hlo_instr *add(hlo_computation *c, hlo_instr *before, hlo_opcode op, const hlo_shape *shape,
                      u32 n, hlo_instr *const *operands, const char *name, const hlo_instr *like) {
  hlo_module *m = c->module;
  hlo_instr *i = HS_NEW(&m->instrs, hlo_instr);
  i->id = m->next_instr_id++;
  i->opcode = op;
  i->shape = shape;
  i->parent = c;
  i->name = (like ? hlo_claim_like_(m, like, i)
                  : hlo_claim_name_(m, hs_str_of(name && *name ? name : hlo_op_text(op)), i, NULL))
                ->text;
  i->noperands = n;
  i->operands = n ? make_uses(m, i, n, operands) : NULL;
  hlo_rec_insert_(m, i, before);
  return i;
}

hlo_instr *hlo_add(hlo_computation *c, hlo_opcode op, const hlo_shape *shape, u32 n,
                   hlo_instr *const *operands, const char *name) {
  return add(c, NULL, op, shape, n, operands, name, NULL);
}

hlo_instr *hlo_add_before(hlo_instr *before, hlo_opcode op, const hlo_shape *shape, u32 n,
                          hlo_instr *const *operands, const char *name) {
  return add(before->parent, before, op, shape, n, operands, name, NULL);
}

hlo_instr *hlo_add_constant(hlo_computation *c, hlo_literal *take, const char *name) {
  const hlo_shape *s = hlo_shape_fill_layout(c->module->ctx, take->shape);
  hlo_instr *i = hlo_add(c, HLO_CONSTANT, s, 0, NULL, name);
  hlo_set_attr(i, (hlo_attr){.id = HLO_ATTR_LITERAL, .v.literal = take});
  hlo_literal_unref(take);  // the module holds its own reference now
  return i;
}

// Arrays of parameters have room for the next power of two, so that appending is cheap.
static hlo_instr **params_array(hlo_computation *c, u32 n) {
  u32 cap = 1;
  while (cap < n) cap *= 2;
  hlo_instr **params = HS_NEW_ARRAY(&c->module->arena, hlo_instr *, cap);
  if (c->nparams) memcpy(params, c->params, HS_MIN(n, c->nparams) * sizeof *params);
  return params;
}

void hlo_set_params_(hlo_computation *c, u32 n, hlo_instr *const *params) {
  SET_PTR(c->module, c, c->params, params);
  hlo_rec_u32_(c->module, c, &c->nparams, n);
}

static void place_parameter(hlo_computation *c, i64 number, hlo_instr *i) {
  if (HS_NEVER(number < 0 || number >= (i64)1 << 24)) return;
  u32 n = HS_MAX(c->nparams, (u32)number + 1);
  bool room = c->nparams && n == c->nparams + 1 && (c->nparams & (c->nparams - 1)) != 0;
  hlo_instr **params =
      room || n == c->nparams ? (hlo_instr **)(uintptr_t)c->params : params_array(c, n);
  SET_PTR(c->module, c, params[number], i);  // journaled: other versions share the array
  hlo_set_params_(c, n, params);
}

hlo_instr *hlo_add_parameter(hlo_computation *c, i64 number, const hlo_shape *shape,
                             const char *name) {
  hlo_instr *i = hlo_add(c, HLO_PARAMETER, shape, 0, NULL, name && *name ? name : "param");
  hlo_set_attr_int(i, HLO_ATTR_PARAMETER_NUMBER, number);
  place_parameter(c, number, i);
  return i;
}

hlo_instr *hlo_load_instr_(hlo_computation *c, hlo_opcode op, const hlo_shape *shape, u32 n,
                           hlo_instr *const *operands, hs_str name, u32 nattrs,
                           const hlo_attr *attrs, bool source) {
  hlo_module *m = c->module;
  hlo_instr *i = HS_NEW(&m->instrs, hlo_instr);
  i->id = m->next_instr_id++;
  i->opcode = op;
  i->noperands = n;
  i->shape = shape;
  i->parent = c;
  i->name = hlo_claim_name_(m, name, i, NULL)->text;
  if (n) i->operands = make_uses(m, i, n, operands);
  if (nattrs) i->attrs = attr_set(m, nattrs, attrs);
  hlo_rec_insert_(m, i, NULL);
  if (source) hlo_mark_source(i);
  if (op == HLO_PARAMETER) place_parameter(c, hlo_param_number(i), i);
  return i;
}

void hlo_keep_parameters(hlo_computation *c, const bool *keep) {
  u32 was = c->nparams, n = 0;
  hlo_instr *const *old = c->params, **params = params_array(c, was);
  for (u32 k = 0; k < was; k++)
    if (keep ? keep[k] : old[k]->nuses || hlo_is_root(old[k])) params[n++] = old[k];
  if (n == was) return;
  hlo_set_params_(c, n, params);
  for (u32 k = 0, left = 0; k < was; k++) {
    if (left == n || params[left] != old[k]) {
      hlo_remove(old[k]);
      continue;
    }
    if (left != k) hlo_set_attr_int(old[k], HLO_ATTR_PARAMETER_NUMBER, left);
    left++;
  }
}

void hlo_remove_parameter(hlo_computation *c, i64 number) {
  bool *keep = hs_alloc(c->nparams);
  for (u32 k = 0; k < c->nparams; k++) keep[k] = k != number;
  hlo_keep_parameters(c, keep);
  hs_free(keep);
}

hlo_instr *hlo_add_gte(hlo_instr *tuple, i64 index) {
  hlo_instr *i =
      hlo_add(tuple->parent, HLO_GET_TUPLE_ELEMENT, tuple->shape->elems[index], 1, &tuple, NULL);
  hlo_set_attr_int(i, HLO_ATTR_INDEX, index);
  return i;
}

hlo_instr *hlo_add_tuple(hlo_computation *c, u32 n, hlo_instr *const *elems) {
  const hlo_shape **shapes = hs_alloc((n + 1) * sizeof *shapes);
  for (u32 k = 0; k < n; k++) shapes[k] = elems[k]->shape;
  hlo_instr *i = hlo_add(c, HLO_TUPLE, hlo_shape_tuple(c->module->ctx, n, shapes), n, elems, NULL);
  hs_free(shapes);
  return i;
}

hlo_instr *hlo_add_broadcast(hlo_instr *operand, const hlo_shape *shape, u32 n, const i64 *dims) {
  hlo_instr *i = hlo_add(operand->parent, HLO_BROADCAST, shape, 1, &operand, NULL);
  hlo_set_attr_ints(i, HLO_ATTR_DIMENSIONS, n, dims);
  return i;
}

hlo_instr *hlo_add_call(hlo_computation *c, hlo_opcode op, const hlo_shape *shape,
                        hlo_attr_id which, hlo_computation *callee, u32 n,
                        hlo_instr *const *operands) {
  hlo_instr *i = hlo_add(c, op, shape, n, operands, NULL);
  hlo_set_attr_comp(i, which, callee);
  return i;
}

hlo_instr *hlo_clone_instr(hlo_computation *into, const hlo_instr *i, const hlo_shape *shape, u32 n,
                           hlo_instr *const *operands) {
  hlo_instr *r;
  if (i->opcode == HLO_PARAMETER)
    r = hlo_add_parameter(into, hlo_param_number(i), shape ? shape : i->shape, i->name);
  else r = add(into, NULL, i->opcode, shape ? shape : i->shape, n, operands, NULL, i);
  hlo_copy_attrs(r, i);
  // A sharding speaks of the dimensions that there were.
  if (shape && hlo_attr_get(r, HLO_ATTR_SHARDING) &&
      (!hlo_shape_is_array(shape) || !hlo_shape_is_array(i->shape) ||
       !hlo_shape_same_dims(shape, i->shape)) &&
      shape->logical != i->shape->logical)
    hlo_remove_attr(r, HLO_ATTR_SHARDING);
  r->source = i->source;  // no edit: r is new
  SET_FIELD(r, provenance, i->provenance);
  return r;
}

// ---- edges and fields ---------------------------------------------------------------------------

void hlo_set_operand(hlo_instr *user, u32 slot, hlo_instr *def) {
  hlo_rec_edge_(module_of(user), &user->operands[slot], def);
}

void hlo_set_operands(hlo_instr *user, u32 n, hlo_instr *const *defs) {
  hlo_module *m = module_of(user);
  // first: defs may point into the old edges
  hlo_use *fresh = n ? make_uses(m, user, n, defs) : NULL;
  // its edges are taken out one by one: the field that lists them must follow
  m->journal->fresh = NULL;
  for (u32 k = 0; k < user->noperands; k++) hlo_rec_unlink_edge_(m, &user->operands[k]);
  SET_FIELD(user, operands, fresh);
  hlo_rec_u32_(m, user->parent, &user->noperands, n);
  for (u32 k = 0; k < n; k++) hlo_rec_link_edge_(m, &user->operands[k]);
}

void hlo_set_shape(hlo_instr *i, const hlo_shape *s) { SET_FIELD(i, shape, s); }

void hlo_set_name(hlo_instr *i, const char *name) {
  if (!strcmp(i->name, name)) return;
  // undoing a creation gives back the name that it claimed: recorded even right after it
  module_of(i)->journal->fresh = NULL;
  SET_FIELD(i, name, hlo_claim_name_(module_of(i), hs_str_of(name), i, NULL)->text);
}

void hlo_set_root(hlo_computation *c, hlo_instr *i) { SET_PTR(c->module, c, c->root, i); }

void hlo_set_attr(hlo_instr *i, hlo_attr a) {
  hlo_module *m = module_of(i);
  hold_literal(m, &a);
  hlo_rec_attrs_(i, hlo_attrs_with(&m->sets, i->attrs, &a));
}

void hlo_set_attrs(hlo_instr *i, u32 n, const hlo_attr *sorted) {
  hlo_module *m = module_of(i);
  hlo_rec_attrs_(i, n ? attr_set(m, n, sorted) : NULL);
}

void hlo_set_attr_int(hlo_instr *i, hlo_attr_id id, i64 v) {
  hlo_set_attr(i, (hlo_attr){.id = id, .v.i = v});
}

void hlo_set_attr_ints(hlo_instr *i, hlo_attr_id id, u32 n, const i64 *v) {
  hlo_set_attr(
      i, (hlo_attr){.id = id, .v.ints = {n, hs_arena_dup(&module_of(i)->arena, v, n * sizeof *v)}});
}

void hlo_set_attr_str(hlo_instr *i, hlo_attr_id id, hs_str s) {
  hlo_set_attr(
      i, (hlo_attr){.id = id, .v.s = {hs_arena_strndup(&module_of(i)->arena, s.p, s.n), s.n}});
}

void hlo_set_attr_comp(hlo_instr *i, hlo_attr_id id, hlo_computation *c) {
  hlo_set_attr(i, (hlo_attr){.id = id, .v.comp = c});
}
void hlo_set_attr_ptr(hlo_instr *i, hlo_attr_id id, const void *p) {
  hlo_set_attr(i, (hlo_attr){.id = id, .v.p = p});
}
void hlo_remove_attr(hlo_instr *i, hlo_attr_id id) {
  hlo_rec_attrs_(i, hlo_attrs_without(&module_of(i)->sets, i->attrs, id));
}

void hlo_set_frontend(hlo_instr *i, const char *key, hs_str text) {
  const hlo_frontend *old = hlo_attr_ptr(i, HLO_ATTR_FRONTEND_ATTRIBUTES);
  hs_arena *a = &i->parent->module->arena;
  u32 n = 0, had = old ? old->n : 0;
  hlo_frontend_entry *v = HS_NEW_ARRAY(a, hlo_frontend_entry, had + 1);
  bool missing = text.n > 0;
  for (u32 k = 0; k <= had; k++) {
    // sorted by key
    if (missing && (k == had || strcmp(key, old->v[k].key.p) <= 0)) {
      hs_str own = {hs_arena_strndup(a, key, strlen(key)), (u32)strlen(key)};
      v[n++] = (hlo_frontend_entry){own, {hs_arena_strndup(a, text.p, text.n), text.n}};
      missing = false;
    }
    if (k < had && !hs_str_eq(old->v[k].key, hs_str_of(key))) v[n++] = old->v[k];
  }
  if (!n) {
    hlo_remove_attr(i, HLO_ATTR_FRONTEND_ATTRIBUTES);
    return;
  }
  hlo_frontend *f = HS_NEW(a, hlo_frontend);
  *f = (hlo_frontend){n, v};
  hlo_set_attr_ptr(i, HLO_ATTR_FRONTEND_ATTRIBUTES, f);
}
void hlo_copy_attrs(hlo_instr *to, const hlo_instr *from) { hlo_rec_attrs_(to, from->attrs); }

void hlo_set_ctrl_preds(hlo_instr *i, u32 n, hlo_instr *const *preds) {
  hlo_module *m = module_of(i);
  hlo_instr_list *fresh = NULL;
  if (n) {
    fresh = hs_arena_alloc(&m->arena, sizeof *fresh + n * sizeof *fresh->v);
    fresh->n = n;
    memcpy(fresh->v, preds, n * sizeof *preds);
  }
  for (u32 k = 0; i->ctrl_preds && k < i->ctrl_preds->n; k++)
    hlo_rec_u32_(m, i->parent, &i->ctrl_preds->v[k]->nctrl_succs,
                 i->ctrl_preds->v[k]->nctrl_succs - 1);
  SET_FIELD(i, ctrl_preds, fresh);
  i->parent->unsorted = true;
  for (u32 k = 0; k < n; k++)
    hlo_rec_u32_(m, i->parent, &fresh->v[k]->nctrl_succs, fresh->v[k]->nctrl_succs + 1);
}

void hlo_move_before(hlo_instr *i, hlo_instr *before) {
  if (i == before || i->next == before) return;
  hlo_rec_move_(module_of(i), i, before);
}

void hlo_reorder(hlo_computation *c, hlo_instr *const *order) {
  u32 k = 0;
  for (const hlo_instr *i = c->first; i && i == order[k]; i = i->next) k++;
  if (k < c->ninstrs) hlo_rec_order_(c, order);
}

// ---- provenance ---------------------------------------------------------------------------------
// Nodes live in the context's arena, so clones share them.

void hlo_mark_source(hlo_instr *i) {
  if (!i->provenance && !i->source) i->source = i->id + 1;  // not an edit: this completes loading
}

void hlo_mark_sources(hlo_module *m) {
  hlo_for_each_comp(c, m)
    hlo_for_each_instr(i, c) hlo_mark_source(i);
}

// The set of an instruction, made into a leaf when it is only a number. That says nothing new, so
// it is no edit.
static const hlo_provenance *provenance_of(const hlo_instr *i) {
  if (i->provenance || !i->source) return i->provenance;
  hlo_provenance *p = HS_NEW(hlo_ctx_arena(module_of(i)->ctx), hlo_provenance);
  p->source = i->source - 1;
  return ((hlo_instr *)(uintptr_t)i)->provenance = p;
}

void hlo_add_provenance(hlo_instr *to, const hlo_instr *from) {
  const hlo_provenance *a = provenance_of(to), *b = provenance_of(from);
  if (!b || a == b || (a && a->a && (a->a == b || a->b == b))) return;
  const hlo_provenance *joined = b;
  if (a) {
    hlo_provenance *p = HS_NEW(hlo_ctx_arena(module_of(to)->ctx), hlo_provenance);
    p->a = a;
    p->b = b;
    joined = p;
  }
  SET_FIELD(to, provenance, joined);
}

// ---- replacing and removing ---------------------------------------------------------------------

// Control edges of `old` become control edges of `now`.
static void move_control(hlo_instr *old, hlo_instr *now) {
  if (old->nctrl_succs) {
    hlo_for_each_instr(s, old->parent) {
      if (!s->ctrl_preds || s == now) continue;
      bool hit = false;
      for (u32 k = 0; k < s->ctrl_preds->n; k++) hit |= s->ctrl_preds->v[k] == old;
      if (!hit) continue;
      hlo_instr **preds = hs_alloc(s->ctrl_preds->n * sizeof *preds);
      for (u32 k = 0; k < s->ctrl_preds->n; k++)
        preds[k] = s->ctrl_preds->v[k] == old ? now : s->ctrl_preds->v[k];
      hlo_set_ctrl_preds(s, s->ctrl_preds->n, preds);
      hs_free(preds);
    }
  }
  if (old->ctrl_preds) {
    u32 had = now->ctrl_preds ? now->ctrl_preds->n : 0, n = had;
    hlo_instr **preds = hs_alloc((had + old->ctrl_preds->n) * sizeof *preds);
    for (u32 k = 0; k < had; k++) preds[k] = now->ctrl_preds->v[k];
    for (u32 k = 0; k < old->ctrl_preds->n; k++) {
      bool known = old->ctrl_preds->v[k] == now;
      for (u32 j = 0; j < had && !known; j++) known = preds[j] == old->ctrl_preds->v[k];
      if (!known) preds[n++] = old->ctrl_preds->v[k];
    }
    hlo_set_ctrl_preds(now, n, preds);
    hlo_set_ctrl_preds(old, 0, NULL);
    hs_free(preds);
  }
}

void hlo_replace_uses(hlo_instr *old, hlo_instr *now) {
  if (old == now) return;
  hlo_module *m = module_of(old);
  for (hlo_use *u = old->first_use, *next; u; u = next) {
    next = u->next;
    if (u->user != now) hlo_rec_edge_(m, u, now);
  }
  if (old->parent->root == old) hlo_set_root(old->parent, now);
  move_control(old, now);
  hlo_add_provenance(now, old);
  const hlo_attr *md = hlo_attr_get(old, HLO_ATTR_METADATA);
  if (md && !hlo_attr_get(now, HLO_ATTR_METADATA) && now->opcode != HLO_CONSTANT &&
      now->opcode != HLO_PARAMETER)
    hlo_set_attr(now, *md);
}

void hlo_remove(hlo_instr *i) {
  hlo_module *m = module_of(i);
  if (HS_NEVER(i->nuses || i->parent->root == i)) return;
  if (i->ctrl_preds) hlo_set_ctrl_preds(i, 0, NULL);
  hlo_rec_remove_(m, i);
}

typedef HS_VEC(hlo_instr *) instr_stack;

// Pushes x and, above it, the updates of the asynchronous call that it may be: where nobody reads
// them, they go with what ended the call.
static void push_chain(instr_stack *stack, hlo_instr *x) {
  size_t at = stack->n;
  hs_vec_push(stack, x);
  if (x->opcode != HLO_ASYNC_START && x->opcode != HLO_ASYNC_UPDATE) return;
  for (; at < stack->n; at++)
    hlo_for_each_use(u, stack->v[at])
      if (u->user->opcode == HLO_ASYNC_UPDATE && hlo_slot(u) == 0) hs_vec_push(stack, u->user);
}

void hlo_remove_dead(hlo_instr *first) {
  instr_stack stack = {0};
  hs_vec_push(&stack, first);
  while (stack.n) {
    hlo_instr *i = hs_vec_pop(&stack);
    if (i->dead || i->nuses || i->parent->root == i || !hlo_is_removable(i)) continue;
    hlo_remove(i);
    for (u32 k = 0; k < i->noperands; k++) push_chain(&stack, i->operands[k].def);
  }
  hs_vec_free(&stack);
}

// What is said of `old` is said of `now` where that says nothing itself, as XLA's
// ReplaceInstruction has it.
static void hand_over(const hlo_instr *old, hlo_instr *now) {
  static const hlo_attr_id said[] = {HLO_ATTR_FRONTEND_ATTRIBUTES, HLO_ATTR_SHARDING,
                                     HLO_ATTR_ORIGIN};
  for (size_t k = 0; k < HS_COUNT(said); k++) {
    const hlo_attr *a = hlo_attr_get(old, said[k]);
    if (a && !hlo_attr_get(now, said[k]) && now->shape->logical == old->shape->logical)
      hlo_set_attr(now, *a);
  }
}

void hlo_replace(hlo_instr *old, hlo_instr *now) {
  if (old != now) hand_over(old, now);
  hlo_replace_uses(old, now);
  hlo_remove_dead(old);
}
