// buffers.c — who may write where.
//
// optimize_input_output_buffer_alias (xla/hlo/transforms/simplifiers/optimize_input_output_buffer_alias.cc): an argument
//   that the module declares as a donor may hold an output of the same shape (no other argument, as in XLA:CPU); the pairs are
//   written into input_output_alias.
// copy-insertion (xla/service/copy_insertion.cc, without its search over live ranges): values that two owners would write
//   get a copy. The outputs of the entry own their buffers, so a parameter, a constant or a value that is returned twice is
//   copied; the state of a while loop is written in place, so what goes in and is used elsewhere, too, is copied; and so is
//   what an operation writes over (dynamic-update-slice, scatter, a fusion that ends in one, a custom call that says so)
//   unless every other reader is known to come before. Elements that a loop passes through unchanged are not written and
//   need none.
#include "passes/loops.h"

// ---- aliases --------------------------------------------------------------------------------------------------------
hs_status pass_optimize_input_output_buffer_alias(pass_ctx *c) {
  hlo_module *m = c->m;
  const hlo_attr *da = hlo_attrs_find(m->attrs, HLO_ATTR_BUFFER_DONOR), *aa = hlo_attrs_find(m->attrs, HLO_ATTR_INPUT_OUTPUT_ALIAS);
  const hlo_aliases *donors = da ? da->v.p : NULL, *have = aa ? aa->v.p : NULL;
  if (!donors || !donors->n) return HS_GOOD;
  const hlo_shape *out = m->entry->root->shape;
  u32 nout = hlo_shape_is_tuple(out) ? out->nelems : 1, n = have ? have->n : 0;
  hlo_alias_entry *v = HS_NEW_ARRAY(&m->arena, hlo_alias_entry, n + nout);
  if (n) memcpy(v, have->v, n * sizeof *v);
  u32 nd = 0;
  hlo_alias_entry *rest = HS_NEW_ARRAY(&m->arena, hlo_alias_entry, donors->n);
  bool *taken = HS_NEW_ARRAY(c->scratch, bool, nout + 1);
  for (u32 k = 0; k < n; k++) {
    i64 at = v[k].out_index.n ? v[k].out_index.v[0] : 0;
    if (at >= 0 && at < (i64)nout) taken[at] = true;
  }
  u32 before = n;
  for (u32 d = 0; d < donors->n; d++) {
    const hlo_alias_entry *e = &donors->v[d];
    const hlo_shape *s = e->param >= 0 && e->param < (i64)m->entry->nparams ? m->entry->params[e->param]->shape : NULL;
    for (u32 k = 0; s && k < e->param_index.n; k++) s = e->param_index.v[k] >= 0 && (u32)e->param_index.v[k] < s->nelems ? s->elems[e->param_index.v[k]] : NULL;
    bool used = false;
    for (u32 o = 0; s && o < nout && !used; o++) {
      const hlo_shape *os = hlo_shape_is_tuple(out) ? out->elems[o] : out;
      if (taken[o] || os != s || !hlo_shape_is_array(s) || !pass_may_rewrite(c)) continue;
      taken[o] = used = true;
      i64 at = o;
      v[n] = *e;
      v[n].out_index = hlo_shape_is_tuple(out) ? (hlo_ints){1, hs_arena_dup(&m->arena, &at, sizeof at)} : (hlo_ints){0, NULL};
      v[n++].must = false;
    }
    if (!used) rest[nd++] = *e;
  }
  if (n == before) return HS_GOOD;
  pass_note_done(c, m->entry->root, NULL, "%u outputs written over donated arguments", n - before);
  hlo_aliases *now = HS_NEW(&m->arena, hlo_aliases), *left = HS_NEW(&m->arena, hlo_aliases);
  *now = (hlo_aliases){n, v};
  *left = (hlo_aliases){nd, rest};
  hlo_set_module_attr(m, (hlo_attr){.id = HLO_ATTR_INPUT_OUTPUT_ALIAS, .v.p = now});
  if (nd) hlo_set_module_attr(m, (hlo_attr){.id = HLO_ATTR_BUFFER_DONOR, .v.p = left});
  else hlo_remove_module_attr(m, HLO_ATTR_BUFFER_DONOR);
  return HS_GOOD;
}

// ---- copies -----------------------------------------------------------------------------------------------------------
// The instruction that made the memory of a value.
static hlo_instr *origin(hlo_instr *i) {
  for (;;) {
    if (i->opcode == HLO_BITCAST || i->opcode == HLO_OPT_BARRIER || i->opcode == HLO_DOMAIN || i->opcode == HLO_ADD_DEPENDENCY) i = hlo_operand(i, 0);
    else if (i->opcode == HLO_GET_TUPLE_ELEMENT && hlo_operand(i, 0)->opcode == HLO_TUPLE) i = hlo_operand(hlo_operand(i, 0), (u32)hlo_attr_int(i, HLO_ATTR_INDEX, 0));
    else return i;
  }
}

static bool not_owned(const hlo_instr *o) {
  if (o->opcode == HLO_GET_TUPLE_ELEMENT && hlo_operand(o, 0)->opcode == HLO_PARAMETER) return true;
  return o->opcode == HLO_PARAMETER || o->opcode == HLO_CONSTANT || o->opcode == HLO_IOTA;
}

static hlo_instr *copy_of(hlo_instr *x, hlo_instr *before) {
  hlo_instr *k = hlo_add(x->parent, HLO_COPY, x->shape, 1, &x, NULL);
  hlo_add_provenance(k, x);
  if (before) hlo_move_before(k, before);
  return k;
}

static bool aliased_output(const hlo_module *m, u32 out, const hlo_instr *o) {
  const hlo_attr *a = hlo_attrs_find(m->attrs, HLO_ATTR_INPUT_OUTPUT_ALIAS);
  const hlo_aliases *v = a ? a->v.p : NULL;
  for (u32 k = 0; v && k < v->n; k++)
    if ((v->v[k].out_index.n ? v->v[k].out_index.v[0] : 0) == (i64)out && o->opcode == HLO_PARAMETER && v->v[k].param == hlo_param_number(o)) return true;
  return false;
}

// x with every array in it copied.
static hlo_instr *deep_copy(pass_ctx *c, hlo_instr *x) {
  if (hlo_shape_is_array(x->shape)) return copy_of(x, NULL);
  if (!hlo_shape_is_tuple(x->shape)) return x;
  hlo_instr **e = HS_NEW_ARRAY(c->scratch, hlo_instr *, x->shape->nelems + 1);
  for (u32 k = 0; k < x->shape->nelems; k++) e[k] = deep_copy(c, pass_element(x, k));
  return hlo_add_tuple(x->parent, x->shape->nelems, e);
}

static void copy_outputs(pass_ctx *c) {
  hlo_computation *e = c->m->entry;
  hlo_instr *root = e->root;
  if (root->opcode == HLO_TUPLE) {
    hlo_instr **order = hlo_post_order(e, c->scratch);
    hlo_numbers at = hlo_number_instrs(e, e->ninstrs, order, c->scratch);
    bool *returned = HS_NEW_ARRAY(c->scratch, bool, e->ninstrs + 1);
    for (u32 k = 0; k < root->noperands; k++) {
      hlo_instr *x = hlo_operand(root, k), *o = origin(x);
      bool *mine = &returned[hlo_number_of(&at, o)], twice = *mine;
      *mine = true;
      if (!hlo_shape_is_array(x->shape)) continue;
      if ((!not_owned(o) && !twice) || aliased_output(c->m, k, o) || o->opcode == HLO_IOTA || !pass_may_rewrite(c)) continue;
      pass_note_done(c, x, root, twice ? "returned twice" : "an output may not be a parameter or constant");
      hlo_set_operand(root, k, copy_of(x, root));
    }
  } else if (hlo_shape_is_tuple(root->shape) && root->opcode == HLO_PARAMETER && root->shape->nelems && !hlo_attrs_find(c->m->attrs, HLO_ATTR_INPUT_OUTPUT_ALIAS) &&
             pass_may_rewrite(c)) {
    pass_note_done(c, root, NULL, "an output may not be a parameter");
    hlo_set_root(e, deep_copy(c, root));
  } else if (hlo_shape_is_array(root->shape) && not_owned(origin(root)) && origin(root)->opcode != HLO_IOTA && !aliased_output(c->m, 0, origin(root)) && pass_may_rewrite(c)) {
    pass_note_done(c, root, NULL, "an output may not be a parameter or constant");
    hlo_set_root(e, copy_of(root, NULL));
  }
}

// ---- loops ------------------------------------------------------------------------------------------------------------------
// A loop over one array: what it writes must be its own.
static void copy_array_state(pass_ctx *c, hlo_instr *w) {
  hlo_instr *x = hlo_operand(w, 0), *o = origin(x);
  hlo_computation *body = hlo_attr_comp(w, HLO_ATTR_BODY);
  if (body->root->opcode == HLO_PARAMETER) return;   // passed through
  bool entry_value = not_owned(o) && (o->opcode != HLO_PARAMETER || w->parent == c->m->entry);
  if (!entry_value && o->nuses <= 1 && !hlo_is_root(o)) return;
  if (!pass_may_rewrite(c)) return;
  pass_note_done(c, x, w, "written by the loop and used elsewhere");
  hlo_set_operand(w, 0, copy_of(x, w));
}

// A loop whose state is some tuple that is not put together here: elements that others read, too, are copied.
static void copy_whole_state(pass_ctx *c, pass_loop *l) {
  hlo_instr *t = hlo_operand(l->w, 0), **e = HS_NEW_ARRAY(c->scratch, hlo_instr *, l->n + 1);
  bool *need = HS_NEW_ARRAY(c->scratch, bool, l->n + 1), any = false, whole = hlo_is_root(t);
  hlo_for_each_use(u, t)
    if (u->user != l->w && u->user->opcode != HLO_GET_TUPLE_ELEMENT) whole = true;
  for (u32 k = 0; k < l->n; k++) {
    if (!hlo_shape_is_array(t->shape->elems[k]) || pass_loop_invariant(l, k)) continue;
    need[k] = whole || (t->opcode == HLO_PARAMETER && t->parent == c->m->entry);
    hlo_for_each_use(u, t)
      if (u->user->opcode == HLO_GET_TUPLE_ELEMENT && hlo_attr_int(u->user, HLO_ATTR_INDEX, -1) == (i64)k && (u->user->nuses || hlo_is_root(u->user))) need[k] = true;
    any |= need[k];
  }
  if (!any || !pass_may_rewrite(c)) return;
  for (u32 k = 0; k < l->n; k++) {
    e[k] = hlo_add_gte(t, k);
    if (need[k]) e[k] = copy_of(e[k], NULL);
  }
  pass_note_done(c, t, l->w, "written by the loop and used elsewhere");
  hlo_instr *now = hlo_add_tuple(l->w->parent, l->n, e);
  hlo_set_operand(l->w, 0, now);
}

static void copy_loop_state(pass_ctx *c, hlo_instr *w) {
  pass_loop l;
  if (hlo_shape_is_array(hlo_operand(w, 0)->shape)) { copy_array_state(c, w); return; }
  if (!pass_loop_of(c, w, &l)) return;
  if (!l.in) { copy_whole_state(c, &l); return; }
  for (u32 k = 0; k < l.n; k++) {
    hlo_instr *x = hlo_operand(l.in, k), *o = origin(x);
    if (!hlo_shape_is_array(x->shape) || pass_loop_invariant(&l, k)) continue;
    u32 readers = o->nuses;
    bool twice = false;
    for (u32 j = 0; j < l.n; j++) twice |= j != k && origin(hlo_operand(l.in, j)) == o;
    if (!not_owned(o) && !twice && readers <= 1) continue;
    if (!pass_may_rewrite(c)) return;
    pass_note_done(c, x, w, "written by the loop and used elsewhere");
    hlo_instr *k2 = copy_of(x, w);
    if (l.in->nuses > 1) {
      hlo_instr **e = HS_NEW_ARRAY(c->scratch, hlo_instr *, l.n);
      for (u32 j = 0; j < l.n; j++) e[j] = hlo_operand(l.in, j);
      l.in = hlo_add_tuple(w->parent, l.n, e);
      hlo_set_shape(l.in, w->shape);
      hlo_set_operand(w, 0, l.in);
    }
    hlo_set_operand(l.in, k, k2);
  }
}

// ---- operations in place ----------------------------------------------------------------------------------------------------
// Whether result of i is written over operand `k`.
static bool in_place(const hlo_instr *i, u32 k) {
  if (i->opcode == HLO_DYNAMIC_UPDATE_SLICE) return k == 0;
  if (i->opcode == HLO_SCATTER) return k < i->noperands / 2;
  if (i->opcode == HLO_CUSTOM_CALL) {
    const hlo_aliases *v = hlo_attr_ptr(i, HLO_ATTR_OUTPUT_TO_OPERAND_ALIASING);
    for (u32 j = 0; v && j < v->n; j++)
      if (v->v[j].param == (i64)k && v->v[j].param_index.n == 0) return true;
    return false;
  }
  if (i->opcode != HLO_FUSION) return false;
  const hlo_computation *body = hlo_fusion_comp(i);
  const hlo_instr *r = body->root, *p = k < body->nparams ? body->params[k] : NULL;
  while (r->opcode == HLO_BITCAST) r = hlo_operand(r, 0);
  if (!p || (r->opcode != HLO_DYNAMIC_UPDATE_SLICE && r->opcode != HLO_SCATTER) || p->nuses != 1) return false;
  const hlo_instr *x = hlo_operand(r, 0);
  while (x->opcode == HLO_BITCAST) x = hlo_operand(x, 0);
  return x == p;
}

enum { ANCESTOR_LIMIT = 20000 };
// Marks what must run before i, as far as it is found in bounded time.
static bool *ancestors(pass_ctx *c, hlo_instr *i) {
  bool *mark = HS_NEW_ARRAY(c->scratch, bool, c->m->next_instr_id + 1);
  HS_VEC(hlo_instr *) todo = {0};
  u32 n = 0;
  hs_vec_push(&todo, i);
  while (todo.n && n++ < ANCESTOR_LIMIT) {
    hlo_instr *x = hs_vec_pop(&todo);
    for (u32 k = 0; k < x->noperands + (x->ctrl_preds ? x->ctrl_preds->n : 0); k++) {
      hlo_instr *o = k < x->noperands ? hlo_operand(x, k) : x->ctrl_preds->v[k - x->noperands];
      if (o->id < c->m->next_instr_id && !mark[o->id]) mark[o->id] = true, hs_vec_push(&todo, o);
    }
  }
  hs_vec_free(&todo);
  return mark;
}

// Whether someone may read x, or what only hands it on, when i has written it.
static bool read_later(const hlo_instr *x, const hlo_instr *i, const bool *before, u32 depth) {
  if (hlo_is_root(x) || depth > 64) return true;
  hlo_for_each_use(u, x) {
    const hlo_instr *user = u->user;
    if (user == i) continue;
    bool hands_on = user->opcode == HLO_BITCAST || user->opcode == HLO_TUPLE || user->opcode == HLO_OPT_BARRIER || user->opcode == HLO_GET_TUPLE_ELEMENT;
    if (hands_on ? read_later(user, i, before, depth + 1) : !before[user->id]) return true;
  }
  return false;
}

static void copy_written(pass_ctx *c, hlo_instr *i) {
  bool *before = NULL;
  for (u32 k = 0; k < i->noperands; k++) {
    hlo_instr *x = hlo_operand(i, k), *o = origin(x);
    if (!hlo_shape_is_array(x->shape) || !in_place(i, k)) continue;
    bool copy = o->opcode == HLO_CONSTANT || (i->parent == c->m->entry && not_owned(o) && o->opcode != HLO_IOTA && !hlo_attrs_find(c->m->attrs, HLO_ATTR_INPUT_OUTPUT_ALIAS));
    for (u32 j = 0; j < k; j++) copy |= origin(hlo_operand(i, j)) == o;
    if (!copy && (o->nuses > 1 || x->nuses > 1 || hlo_is_root(o))) {
      if (!before) before = ancestors(c, i);
      copy = read_later(o, i, before, 0);
    }
    if (!copy || !pass_may_rewrite(c)) continue;
    pass_note_done(c, x, i, "written over and read elsewhere");
    hlo_set_operand(i, k, copy_of(x, i));
  }
}

hs_status pass_copy_insertion(pass_ctx *c) {
  hlo_for_each_comp(comp, c->m) {
    if (hlo_is_fusion_comp(comp)) continue;
    hlo_instr **order = hlo_post_order(comp, c->scratch);
    for (u32 k = 0, n = comp->ninstrs; k < n; k++) {
      hlo_opcode op = order[k]->opcode;
      if (op == HLO_DYNAMIC_UPDATE_SLICE || op == HLO_SCATTER || op == HLO_CUSTOM_CALL || op == HLO_FUSION) copy_written(c, order[k]);
    }
  }
  hlo_for_each_comp(comp, c->m) {
    if (hlo_is_fusion_comp(comp)) continue;
    hlo_instr **v = HS_NEW_ARRAY(c->scratch, hlo_instr *, comp->ninstrs + 1);
    u32 n = 0;
    hlo_for_each_instr(i, comp) if (i->opcode == HLO_WHILE) v[n++] = i;
    for (u32 k = 0; k < n; k++) copy_loop_state(c, v[k]);
  }
  copy_outputs(c);
  return HS_GOOD;
}
