// copy_insertion.c — copy-insertion (xla/service/copy_insertion.cc): inserts copies so that
// values with overlapping live ranges do not share a buffer.
//
// Three steps, as in XLA. First, copies are inserted wherever live ranges might overlap in a shared
// buffer: around the changing elements of a loop's state (before the loop, at the start and end of
// its body), at the results of conditionals' branches, at operands that are written in place, and
// at arguments and results that input_output_alias pairs. Second, copies that the live ranges do
// not require are removed (copies_remove.c), including those the module had before. Third, copies
// ensure that an output is not an argument, a constant or the buffer of another output, and that
// read-only memory is not shared.
//
// The state of an asynchronous operation that a loop starts in one iteration and finishes in the
// next must not be copied. For send, recv and copy-start the operand and the result are copied
// instead, with control edges that separate consecutive operations.
#include "passes/buffer/copies.h"
#include "passes/clean/clean.h"
#include "passes/control/calls.h"

typedef struct reason {
  hlo_instr *copy;
  const char *text;
} reason;
typedef struct inserter {
  pass_ctx *c;
  cp_flow f;
  HS_VEC(reason) why;
  const char *text;
} inserter;

// ---- copies of parts of a value -----------------------------------------------------------------
static bool any(const bool *need, u32 from, u32 n) {
  for (u32 k = from; k < from + n; k++)
    if (need[k]) return true;
  return false;
}

static hlo_instr *copy_of(inserter *t, hlo_instr *x) {
  hlo_instr *k = hlo_add(x->parent, HLO_COPY, x->shape, 1, &x, NULL);
  hlo_add_provenance(k, x);
  reason w = {k, t->text};
  hs_vec_push(&t->why, w);
  return k;
}

static bool is_transfer_start(hlo_opcode op) {
  return op == HLO_SEND || op == HLO_RECV || op == HLO_COPY_START;
}
// its result is its state, which must not be copied
static bool has_async_state(hlo_opcode op) {
  return is_transfer_start(op) || op == HLO_ASYNC_START || op == HLO_ASYNC_UPDATE;
}

static bool all_state(inserter *t, const hlo_instr *x, const bool *need) {
  bool yes = true;
  for (u32 k = 0, n = hlo_shape_leaves(x->shape); k < n && yes; k++)
    yes = !need[k] || cp_state_at(&t->f, x, k) != CP_NO_STATE;
  return yes;
}

// x with the leaves that `need` marks copied; `made` (may be NULL) receives the copies. Elements
// are read by new get-tuple-elements. Of an asynchronous operation's state nothing may be read:
// what it shares is its operands, and they are copied where the start is in sight.
static hlo_instr *copied(inserter *t, hlo_instr *x, const bool *need, hlo_instr **made) {
  if (!any(need, 0, hlo_shape_leaves(x->shape))) return x;
  if (has_async_state(x->opcode)) {
    for (u32 k = 0; k < x->noperands; k++)
      if (cp_copyable(hlo_operand(x, k)->shape))
        hlo_set_operand(x, k, copy_of(t, hlo_operand(x, k)));
    return x;
  }
  if (all_state(t, x, need)) return x;
  if (!hlo_shape_is_tuple(x->shape)) {
    if (!cp_copyable(x->shape)) return x;
    hlo_instr *k = copy_of(t, x);
    if (made) *made = k;
    return k;
  }
  hlo_instr **e = HS_NEW_ARRAY(t->c->scratch, hlo_instr *, x->shape->nelems + 1);
  for (u32 k = 0, at = 0; k < x->shape->nelems; k++) {
    e[k] = copied(t, pass_element(x, k), need + at, made ? made + at : NULL);
    at += hlo_shape_leaves(x->shape->elems[k]);
  }
  hlo_instr *tuple = hlo_add_tuple(x->parent, x->shape->nelems, e);
  // a tuple may call dimensions dynamic that its operands do not
  if (x->opcode == HLO_TUPLE) hlo_set_shape(tuple, x->shape);
  return tuple;
}

static void copy_operand(inserter *t, hlo_instr *user, u32 slot, const bool *need) {
  hlo_instr *now = copied(t, hlo_operand(user, slot), need, NULL);
  if (now != hlo_operand(user, slot)) hlo_set_operand(user, slot, now);
}

// Redirects all users of x, and the root if it is x, to the copies.
typedef struct use {
  hlo_instr *user;
  u32 slot;
} use;
static void copy_for_users(inserter *t, hlo_instr *x, const bool *need, hlo_instr **made) {
  HS_VEC(use) v = {0};
  hlo_for_each_use(u, x) {
    use r = {u->user, hlo_slot(u)};
    hs_vec_push(&v, r);
  }
  bool root = hlo_is_root(x);
  hlo_instr *now = copied(t, x, need, made);
  for (u32 k = 0; now != x && k < v.n; k++) hlo_set_operand(v.v[k].user, v.v[k].slot, now);
  if (root && now != x) hlo_set_root(x->parent, now);
  hs_vec_free(&v);
}

static void order(inserter *t, hlo_instr *first, hlo_instr *then) {
  const hlo_instr_list *l = then->ctrl_preds;
  u32 n = l ? l->n : 0;
  hlo_instr **v = HS_NEW_ARRAY(t->c->scratch, hlo_instr *, n + 1);
  for (u32 k = 0; k < n; k++) {
    if (l->v[k] == first) return;
    v[k] = l->v[k];
  }
  v[n] = first;
  hlo_set_ctrl_preds(then, n + 1, v);
}

// ---- where live ranges might overlap ------------------------------------------------------------
static bool is_transfer_done(hlo_opcode op) {
  return op == HLO_SEND_DONE || op == HLO_RECV_DONE || op == HLO_COPY_DONE;
}

static bool *changing_leaves(inserter *t, const hlo_instr *i) {
  u32 n = hlo_shape_leaves(i->shape), at = t->f.base[i->id];
  bool *need = HS_NEW_ARRAY(t->c->scratch, bool, n + 1);
  for (u32 k = 0; k < n; k++)
    need[k] =
        t->f.phi[at + k] && t->f.at[at + k] == at + k && cp_copyable(hlo_shape_leaf(i->shape, k));
  return need;
}

static void copy_state(inserter *t, hlo_instr *w) {
  bool *need = changing_leaves(t, w);
  hlo_computation *body = hlo_attr_comp(w, HLO_ATTR_BODY);
  u32 n = hlo_shape_leaves(w->shape);
  for (u32 k = 0; k < n; k++) need[k] = need[k] && cp_state_at(&t->f, w, k) == CP_NO_STATE;
  if (!any(need, 0, n)) return;
  hlo_instr **first = HS_NEW_ARRAY(t->c->scratch, hlo_instr *, n + 1),
            **last = HS_NEW_ARRAY(t->c->scratch, hlo_instr *, n + 1);
  t->text = "the loop overwrites a value with other uses";
  copy_operand(t, w, 0, need);
  copy_for_users(t, body->params[0], need, first);
  copy_for_users(t, body->root, need, last);
  for (u32 k = 0; k < n; k++)
    if (first[k] && last[k]) order(t, first[k], last[k]);
}

static void copy_branches(inserter *t, hlo_instr *i) {
  bool *need = changing_leaves(t, i);
  hlo_computation **v;
  u32 n;
  if (!any(need, 0, hlo_shape_leaves(i->shape))) return;
  pass_called_all(i, t->c->scratch, &v, &n);
  t->text = "the branches must return it in one buffer";
  for (u32 k = 0; k < n; k++) copy_for_users(t, v[k]->root, need, NULL);
}

static bool *all_leaves(inserter *t, const hlo_shape *s) {
  u32 n = hlo_shape_leaves(s);
  bool *need = HS_NEW_ARRAY(t->c->scratch, bool, n + 1);
  memset(need, 1, n);
  return need;
}

static void copy_in_place_operands(inserter *t, hlo_instr *i) {
  cp_pairs v = {0};
  cp_in_place(i, &v);
  if (i->id < t->f.nids) t->f.writes[i->id] = v.n > 0;
  bool *done = HS_NEW_ARRAY(t->c->scratch, bool, i->noperands + 1);
  if (v.n) t->text = "overwritten in place, with other uses";
  for (u32 k = 0; k < v.n; k++) {
    u32 o = v.v[k].operand;
    if (!done[o]) copy_operand(t, i, o, all_leaves(t, hlo_operand(i, o)->shape));
    done[o] = true;
  }
  hs_vec_free(&v);
}

// The done, in the loop's next iteration, of an operation that is started in this one.
static hlo_instr *done_in_next_iteration(const hlo_instr *start) {
  const hlo_instr *root = start->first_use->user;
  if (start->nuses != 1 || root->opcode != HLO_TUPLE || !hlo_is_root(root)) return NULL;
  hlo_for_each_use(u, start->parent->params[0]) {
    const hlo_instr *g = u->user;
    if (g->opcode != HLO_GET_TUPLE_ELEMENT ||
        hlo_attr_int(g, HLO_ATTR_INDEX, -1) != (i64)hlo_slot(start->first_use))
      continue;
    return g->nuses == 1 && is_transfer_done(g->first_use->user->opcode) ? g->first_use->user
                                                                         : NULL;
  }
  return NULL;
}

static void copy_around_start(inserter *t, hlo_instr *start) {
  if (start->nuses != 1 || is_transfer_done(start->first_use->user->opcode)) return;
  const hlo_instr *user = start->first_use->user, *caller = t->f.caller[start->parent->id];
  bool reads = start->noperands > 0 && cp_copyable(hlo_operand(start, 0)->shape);
  t->text = "an unfinished asynchronous operation uses it";
  if (reads && user->opcode == HLO_TUPLE && user->nuses == 1 &&
      user->first_use->user->opcode == HLO_WHILE) {
    hlo_set_operand(start, 0, copy_of(t, hlo_operand(start, 0)));
    return;
  }
  hlo_instr *end = caller && caller->opcode == HLO_WHILE ? done_in_next_iteration(start) : NULL;
  if (!end) return;
  if (reads) {
    hlo_instr *k = copy_of(t, hlo_operand(start, 0));
    hlo_set_operand(start, 0, k);
    order(t, end, k);
  }
  order(t, end, start);
  if (!end->nuses) return;
  u32 n = hlo_shape_leaves(end->shape);
  hlo_instr **made = HS_NEW_ARRAY(t->c->scratch, hlo_instr *, n + 1);
  copy_for_users(t, end, all_leaves(t, end->shape), made);
  for (u32 k = 0; k < n; k++)
    if (made[k]) order(t, made[k], start);
}

// The operation that writes value `from` in place, and the value that it defines; CP_NONE: none.
static u32 overwriting_value(const cp_flow *f, u32 from, hlo_instr **by) {
  u32 to = CP_NONE;
  for (u32 u = f->first_use[from]; u != CP_NONE && to == CP_NONE; u = f->uses.v[u].next) {
    const cp_use *x = &f->uses.v[u];
    cp_pairs v = {0};
    cp_in_place(x->user, &v);
    for (u32 k = 0; k < v.n; k++)
      if (v.v[k].operand == x->operand && v.v[k].in_leaf == x->leaf && v.v[k].out_leaf != CP_NONE)
        to = f->base[x->user->id] + v.v[k].out_leaf, *by = x->user;
    hs_vec_free(&v);
  }
  return to;
}

// The value that was written in place to define `to`, and the operation.
static u32 overwritten_value(const cp_flow *f, u32 to, hlo_instr **by) {
  hlo_instr *i = f->definer[to];
  cp_pairs v = {0};
  u32 from = CP_NONE;
  cp_in_place(i, &v);
  for (u32 k = 0; k < v.n; k++)
    if (v.v[k].out_leaf == to - f->base[i->id] && hlo_operand(i, v.v[k].operand)->id < f->nids)
      from = f->at[f->base[hlo_operand(i, v.v[k].operand)->id] + v.v[k].in_leaf];
  hs_vec_free(&v);
  *by = i;
  return from;
}

static bool depends_on(inserter *t, const hlo_instr *i, const hlo_instr *what) {
  HS_VEC(const hlo_instr *) stack = {0};
  bool *seen = HS_NEW_ARRAY(t->c->scratch, bool, t->c->m->next_instr_id + 1), yes = false;
  hs_vec_push(&stack, i);
  while (stack.n && !yes) {
    const hlo_instr *x = hs_vec_pop(&stack);
    yes = x == what;
    for (u32 k = 0, n = x->ctrl_preds ? x->ctrl_preds->n : 0; k < x->noperands + n; k++) {
      const hlo_instr *o =
          k < x->noperands ? hlo_operand(x, k) : x->ctrl_preds->v[k - x->noperands];
      if (!seen[o->id]) seen[o->id] = true, hs_vec_push(&stack, o);
    }
  }
  hs_vec_free(&stack);
  return yes;
}

// Values of buffer type in a loop's state are not copied. Instead the value read from one is
// copied, and a control edge makes the next write come after that copy.
static void copy_around_buffers(inserter *t, const hlo_instr *w) {
  cp_flow *f = &t->f;
  const hlo_computation *body = hlo_attr_comp(w, HLO_ATTR_BODY);
  t->text = "the buffer is overwritten by the next iteration";
  for (u32 k = 0, n = hlo_shape_leaves(w->shape); k < n; k++) {
    u32 in = f->base[body->params[0]->id] + k, out = f->at[f->base[body->root->id] + k];
    if (!f->phi[in] || hlo_shape_leaf(w->shape, k)->dtype != HLO_BUFFER) continue;
    hlo_instr *end = NULL, *start = NULL;
    while (in != CP_NONE &&
           !cp_copyable(hlo_shape_leaf(f->definer[in]->shape, in - f->base[f->definer[in]->id])))
      in = overwriting_value(f, in, &end);
    while (out != CP_NONE &&
           !cp_copyable(hlo_shape_leaf(f->definer[out]->shape, out - f->base[f->definer[out]->id])))
      out = overwritten_value(f, out, &start);
    if (in == CP_NONE || out == CP_NONE || !end || !start || end->parent != body ||
        start->parent != body || depends_on(t, end, start) || !hlo_shape_is_array(end->shape))
      continue;
    hlo_instr *made = NULL;
    copy_for_users(t, end, all_leaves(t, end->shape), &made);
    if (made && !depends_on(t, made, start)) order(t, made, start);
  }
}

static void copy_aliased(inserter *t) {
  const hlo_attr *a = hlo_attrs_find(t->c->m->attrs, HLO_ATTR_INPUT_OUTPUT_ALIAS);
  const hlo_aliases *v = a ? a->v.p : NULL;
  hlo_computation *e = t->c->m->entry;
  if (!v || !v->n) return;
  u32 nout = hlo_shape_leaves(e->root->shape);
  bool *out = HS_NEW_ARRAY(t->c->scratch, bool, nout + 1);
  hlo_instr **last = HS_NEW_ARRAY(t->c->scratch, hlo_instr *, nout + 1),
            **first = HS_NEW_ARRAY(t->c->scratch, hlo_instr *, nout + 1);
  t->text = "argument and result share memory";
  for (u32 p = 0; p < e->nparams; p++) {
    u32 n = hlo_shape_leaves(e->params[p]->shape);
    bool *need = HS_NEW_ARRAY(t->c->scratch, bool, n + 1);
    hlo_instr **made = HS_NEW_ARRAY(t->c->scratch, hlo_instr *, n + 1);
    for (u32 k = 0; k < v->n; k++) {
      u32 in = v->v[k].param == (i64)p ? cp_leaf_at(e->params[p]->shape, v->v[k].param_index)
                                       : CP_NONE,
          to = cp_leaf_at(e->root->shape, v->v[k].out_index);
      if (in != CP_NONE && to != CP_NONE) need[in] = out[to] = true;
    }
    copy_for_users(t, e->params[p], need, made);
    for (u32 k = 0; k < v->n; k++) {
      u32 in = v->v[k].param == (i64)p ? cp_leaf_at(e->params[p]->shape, v->v[k].param_index)
                                       : CP_NONE,
          to = cp_leaf_at(e->root->shape, v->v[k].out_index);
      if (in != CP_NONE && to != CP_NONE) first[to] = made[in];
    }
  }
  copy_for_users(t, e->root, out, last);
  for (u32 k = 0; k < nout; k++)
    if (first[k] && last[k]) order(t, first[k], last[k]);
}

static bool holds_buffers(const cp_flow *f) {
  for (u32 c = 0; c < f->comps.n; c++) {
    const hlo_instr *w = f->caller[f->comps.v[c]->id];
    for (u32 k = 0, n = w && w->opcode == HLO_WHILE ? hlo_shape_leaves(w->shape) : 0; k < n; k++)
      if (hlo_shape_leaf(w->shape, k)->dtype == HLO_BUFFER) return true;
  }
  return false;
}

static void add_copies(inserter *t) {
  bool buffers = holds_buffers(&t->f);
  cp_find_states(&t->f);
  if (buffers) cp_find_uses(&t->f);  // requires the unedited module
  for (u32 c = 0; buffers && c < t->f.comps.n; c++) {
    const hlo_computation *comp = t->f.comps.v[c];
    const hlo_instr *w = t->f.caller[comp->id];
    if (w && w->opcode == HLO_WHILE && hlo_attr_comp(w, HLO_ATTR_BODY) == comp)
      copy_around_buffers(t, w);
  }
  for (u32 c = 0; c < t->f.comps.n; c++) {
    hlo_computation *comp = t->f.comps.v[c];
    hlo_instr **v = t->f.order[comp->id];
    const hlo_instr *caller = t->f.caller[comp->id];
    if (caller && hlo_op_has(caller->opcode, HLO_F_ASYNC)) continue;
    for (u32 k = 0, n = comp->ninstrs; k < n && v[k]; k++) {
      if (v[k]->opcode == HLO_WHILE) copy_state(t, v[k]);
      else if (v[k]->opcode == HLO_CONDITIONAL) copy_branches(t, v[k]);
      else if (is_transfer_start(v[k]->opcode)) copy_around_start(t, v[k]);
      // updates and dones have the operation's state as operand
      else if (v[k]->opcode != HLO_ASYNC_UPDATE && v[k]->opcode != HLO_ASYNC_DONE)
        copy_in_place_operands(t, v[k]);
    }
  }
  copy_aliased(t);
}

// ---- copies for other reasons than live ranges --------------------------------------------------
typedef struct marks {
  bool **need;
  HS_VEC(hlo_instr *) v;
} marks;  // need: by instruction id

static void mark(inserter *t, marks *k, hlo_instr *i, u32 leaf) {
  if (!cp_copyable(hlo_shape_leaf(i->shape, leaf)) || cp_state_at(&t->f, i, leaf) == CP_CALL_STATE)
    return;
  if (!k->need[i->id]) {
    k->need[i->id] = HS_NEW_ARRAY(t->c->scratch, bool, hlo_shape_leaves(i->shape) + 1);
    hs_vec_push(&k->v, i);
  }
  k->need[i->id][leaf] = true;
}

static bool aliased(const cp_flow *f, const hlo_instr *param, u32 leaf) {
  const hlo_attr *a = hlo_attrs_find(f->m->attrs, HLO_ATTR_INPUT_OUTPUT_ALIAS);
  const hlo_aliases *v = a ? a->v.p : NULL;
  for (u32 k = 0; v && k < v->n; k++)
    if (v->v[k].param == hlo_param_number(param) &&
        cp_leaf_at(param->shape, v->v[k].param_index) == leaf)
      return true;
  return false;
}

static bool aliased_out(const cp_flow *f, u32 leaf) {
  const hlo_attr *a = hlo_attrs_find(f->m->attrs, HLO_ATTR_INPUT_OUTPUT_ALIAS);
  const hlo_aliases *v = a ? a->v.p : NULL;
  for (u32 k = 0; v && k < v->n; k++)
    if (cp_leaf_at(f->m->entry->root->shape, v->v[k].out_index) == leaf) return true;
  return false;
}

static bool read_only(const cp_flow *f, u32 value) {
  const hlo_instr *i = f->definer[value];
  if (i->opcode == HLO_CONSTANT) return true;
  return i->opcode == HLO_PARAMETER && i->parent == f->m->entry &&
         !aliased(f, i, value - f->base[i->id]);
}

static void copy_read_only_and_outputs(inserter *t) {
  cp_flow *f = &t->f;
  marks k = {.need = HS_NEW_ARRAY(t->c->scratch, bool *, t->c->m->next_instr_id + 1)};
  cp_find_states(f);
  u32 *size = HS_NEW_ARRAY(t->c->scratch, u32, f->npositions + 1);
  for (u32 v = 0; v < f->npositions; v++)
    if (f->at[v] == v) size[cp_group(f, v)]++;
  for (u32 v = 0; v < f->npositions; v++) {
    if (f->at[v] != v || size[cp_group(f, v)] < 2) continue;
    if (read_only(f, v)) mark(t, &k, f->definer[v], v - f->base[f->definer[v]->id]);
    // results that may not share the buffer of their operand
    for (u32 u = f->first_use[v]; u != CP_NONE; u = f->uses.v[u].next) {
      hlo_instr *user = f->uses.v[u].user;
      for (u32 j = 0, n = hlo_shape_leaves(user->shape), at = f->base[user->id]; j < n; j++)
        if (f->at[at + j] == at + j && at + j != v && cp_group(f, at + j) == cp_group(f, v) &&
            user->opcode != HLO_CONDITIONAL && user->opcode != HLO_CALL &&
            !hlo_op_has(user->opcode, HLO_F_ASYNC) &&
            !cp_share(f, user, f->uses.v[u].operand, f->uses.v[u].leaf, j))
          mark(t, &k, hlo_operand(user, f->uses.v[u].operand), f->uses.v[u].leaf);
    }
  }
  hlo_instr *root = f->m->entry->root;
  u32 n = hlo_shape_leaves(root->shape), at = f->base[root->id],
      *seen = HS_NEW_ARRAY(t->c->scratch, u32, f->npositions + 1);
  for (u32 j = 0; j < n; j++) {
    u32 g = cp_group(f, f->at[at + j]);
    if (seen[g]) mark(t, &k, root, aliased_out(f, j) ? seen[g] - 1 : j);
    else seen[g] = j + 1;
    if (read_only(f, f->at[at + j])) mark(t, &k, root, j);
  }
  t->text =
      "an output may not be a parameter, a constant or another output, and read-only memory is not "
      "shared";
  for (u32 j = 0; j < k.v.n; j++) copy_for_users(t, k.v.v[j], k.need[k.v.v[j]->id], NULL);
  hs_vec_free(&k.v);
}

// ---- the pass -----------------------------------------------------------------------------------
// A context for passes run as part of this one: without notes and rewrite limit.
static pass_ctx sub_context(const pass_ctx *c) {
  pass_ctx sub = *c;
  sub.notes = NULL, sub.rewrite_limit = -1;
  return sub;
}

static hs_status clean(pass_ctx *c) {
  pass_ctx sub = sub_context(c);
  HS_TRY(pass_simplify_tuples(&sub, false));
  return pass_remove_unused(&sub);
}

// Finds flow and uses, again if the module was edited.
static void find_flow(inserter *t, u64 *known, bool post_order) {
  if (*known != t->c->m->generation || (post_order && t->f.any_order)) {
    cp_flow before = t->f;
    cp_flow_free(&t->f);
    cp_flow_of(t->c, &t->f, &before);
    *known = t->c->m->generation;
  }
  if (!t->f.definer) cp_find_uses(&t->f);
}

static hs_status run(pass_ctx *c) {
  inserter t = {.c = c};
  hs_status st = HS_GOOD;
  if (!pass_may_rewrite(c)) return HS_GOOD;
  if (!cp_flow_of(c, &t.f, NULL)) {
    pass_ctx sub = sub_context(c);
    HS_TRY(pass_flatten_calls(&sub, false, false));
    if (!cp_flow_of(c, &t.f, NULL))
      return hs_fail(HS_E_INTERNAL, "copy-insertion: a computation is called twice");
  }
  u64 known = c->m->generation;  // generation that the flow describes
  add_copies(&t);
  st = clean(c);
  u64 cleaned = c->m->generation;
  if (hs_ok(st) && c->m->nops[HLO_COPY]) {
    find_flow(&t, &known, true);
    cp_find_order(&t.f);
    if (cp_remove_copies(c, &t.f)) known = c->m->generation;
  }
  if (hs_ok(st)) {
    find_flow(&t, &known, false);
    copy_read_only_and_outputs(&t);
    if (c->m->generation != cleaned) st = clean(c);
  }
  cp_flow_free(&t.f);
  for (u32 k = 0; k < t.why.n; k++)
    if (!t.why.v[k].copy->dead)
      pass_note_done(c, hlo_operand(t.why.v[k].copy, 0), t.why.v[k].copy, "copied: %s",
                     t.why.v[k].text);
  hs_vec_free(&t.why);
  return st;
}

static const pass_option_info options[] = {
    {"use_region_based_live_range_analysis", PASS_INT, "0",
     "compare live ranges as regions, up to this product of their sizes (-1: always)"},
};

const pass_info pass_copy_insertion = {
    .name = "copy-insertion",
    .summary = "inserts copies where live ranges overlap in a shared buffer",
    .xla_source = "xla/service/copy_insertion.cc",
    .run = run,
    .again = true,
    .options = options,
    .noptions = HS_COUNT(options),
    .sample = "ENTRY e {\n"
              "  x = f32[8] parameter(0)\n"
              "  part = f32[2] parameter(1)\n"
              "  at = s32[] parameter(2)\n"
              "  before = f32[8] exponential(x)\n"
              "  after = f32[8] dynamic-update-slice(before, part, at)\n"
              "  ROOT r = f32[8] subtract(after, before)\n"
              "}\n",
};
