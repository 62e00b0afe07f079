// loops.c — the loop edits that loops.h declares. All edits are in place: body and condition stay
// the same computations, and only the while itself is replaced where its type changes. Every
// function keeps the shapes of operand, parameters and body root equal. XLA does the same in
// xla/service/while_util.cc.
#include "passes/control/loops.h"

// An element may be read under a type that states other dynamic dimensions, which ends a size.
static bool reads_as_stated(const hlo_instr *tuple) {
  hlo_for_each_use(u, tuple) {
    const hlo_instr *g = u->user;
    if (g->opcode != HLO_GET_TUPLE_ELEMENT) continue;
    if (g->shape->logical != tuple->shape->elems[hlo_attr_int(g, HLO_ATTR_INDEX, 0)]->logical)
      return false;
  }
  return true;
}

bool pass_loop_of(pass_ctx *c, hlo_instr *w, pass_loop *out) {
  *out = (pass_loop){.w = w,
                     .body = hlo_attr_comp(w, HLO_ATTR_BODY),
                     .cond = hlo_attr_comp(w, HLO_ATTR_CONDITION)};
  if (!out->body || !out->cond || out->body->nparams != 1 || out->cond->nparams != 1) return false;
  if (!hlo_shape_is_tuple(w->shape)) {
    pass_note_declined(c, w, NULL, "its state is not a tuple");
    return false;
  }
  // An invalid module is left alone.
  const hlo_shape *state = w->shape->logical;
  if (hlo_operand(w, 0)->shape->logical != state || out->body->params[0]->shape->logical != state ||
      out->cond->params[0]->shape->logical != state || out->body->root->shape->logical != state)
    return false;
  if (!reads_as_stated(w) || !reads_as_stated(out->body->params[0]) ||
      !reads_as_stated(out->cond->params[0])) {
    pass_note_declined(c, w, NULL, "its state is read with other sizes");
    return false;
  }
  out->held = hlo_is_controlled(w);
  out->n = w->shape->nelems;
  hlo_instr *in = hlo_operand(w, 0);
  out->in = in->opcode == HLO_TUPLE ? in : NULL;
  return true;
}

void pass_loop_own(pass_loop *l, u32 *counts) {
  l->body = pass_own_callee(l->w, HLO_ATTR_BODY, counts);
  l->cond = pass_own_callee(l->w, HLO_ATTR_CONDITION, counts);
}

bool pass_loop_reads_element(const pass_loop *l, const hlo_instr *i, u32 k) {
  return i->opcode == HLO_GET_TUPLE_ELEMENT && hlo_operand(i, 0) == l->body->params[0] &&
         hlo_attr_int(i, HLO_ATTR_INDEX, -1) == (i64)k;
}

bool pass_loop_invariant(const pass_loop *l, u32 k) {
  const hlo_instr *r = l->body->root;
  if (r->opcode == HLO_PARAMETER) return true;
  return r->opcode == HLO_TUPLE && k < r->noperands &&
         pass_loop_reads_element(l, hlo_operand(r, k), k);
}

void pass_loop_renew(pass_loop *l, u32 n, const i64 *index, const hlo_attr *init_origin) {
  hlo_instr *old = l->w, *in = hlo_operand(old, 0),
            *now = hlo_add_before(old, HLO_WHILE, in->shape, 1, &in, NULL);
  hs_arena *a = &old->parent->module->arena;
  hlo_copy_attrs(now, old);
  const hlo_origin *origin =
                       pass_origin_of_elements(a, hlo_attr_get(old, HLO_ATTR_ORIGIN), n, index),
                   *first = pass_origin_of_elements(a, init_origin, n, index);
  if (origin) hlo_set_attr_ptr(now, HLO_ATTR_ORIGIN, origin);
  if (first) hlo_set_attr_ptr(in, HLO_ATTR_ORIGIN, first);
  hlo_replace_uses(old, now);
  hlo_remove(old);
  l->w = now;
}

void pass_read_by_element(hlo_instr *tuple, hs_arena *a) {
  bool whole = hlo_is_root(tuple);
  hlo_for_each_use(u, tuple) whole |= u->user->opcode != HLO_GET_TUPLE_ELEMENT;
  if (!whole) return;
  u32 n = tuple->shape->nelems, nu = 0;
  hlo_use **uses = HS_NEW_ARRAY(a, hlo_use *, tuple->nuses + 1);
  hlo_for_each_use(u, tuple)
    if (u->user->opcode != HLO_GET_TUPLE_ELEMENT) uses[nu++] = u;
  hlo_instr **elems = HS_NEW_ARRAY(a, hlo_instr *, n + 1);
  for (u32 k = 0; k < n; k++) elems[k] = hlo_add_gte(tuple, k);
  hlo_instr *t = hlo_add_tuple(tuple->parent, n, elems);
  if (t->shape != tuple->shape) hlo_set_shape(t, tuple->shape);
  static const hlo_attr_id copied[] = {HLO_ATTR_METADATA, HLO_ATTR_ORIGIN};
  for (size_t k = 0; k < HS_COUNT(copied); k++)
    if (hlo_attr_get(tuple, copied[k])) hlo_set_attr(t, *hlo_attr_get(tuple, copied[k]));
  for (u32 k = 0; k < nu; k++) hlo_set_operand(uses[k]->user, hlo_slot(uses[k]), t);
  if (hlo_is_root(tuple)) hlo_set_root(tuple->parent, t);
}

hlo_instr *pass_loop_normalize(pass_loop *l, hs_arena *a) {
  pass_read_by_element(l->body->params[0], a);
  pass_read_by_element(l->cond->params[0], a);
  hlo_instr *root = l->body->root;
  pass_drop_control(root);  // it is about to be replaced
  if (root->opcode == HLO_TUPLE) return root;
  hlo_instr **elems = HS_NEW_ARRAY(a, hlo_instr *, l->n + 1);
  for (u32 k = 0; k < l->n; k++) elems[k] = hlo_add_gte(root, k);
  root = hlo_add_tuple(l->body, l->n, elems);
  hlo_set_root(l->body, root);
  return root;
}

hlo_instr *pass_loop_initial(pass_loop *l, hs_arena *a) {
  if (l->in) return l->in;
  hlo_instr *in = hlo_operand(l->w, 0), **elems = HS_NEW_ARRAY(a, hlo_instr *, l->n + 1);
  for (u32 k = 0; k < l->n; k++) elems[k] = hlo_add_gte(in, k);
  return l->in = hlo_add_tuple(l->w->parent, l->n, elems);
}

void pass_loop_set_state(pass_loop *l, hlo_instr *in) {
  hlo_set_operand(l->w, 0, in);
  pass_set_tuple_shape(l->w, in->shape);
  pass_set_tuple_shape(l->body->params[0], in->shape);
  pass_set_tuple_shape(l->cond->params[0], in->shape);
  l->in = in;
  l->n = in->shape->nelems;
}

static hlo_instr *extended(const hlo_instr *tuple, u32 n, hlo_instr *const *more, hs_arena *a) {
  hlo_instr **elems = HS_NEW_ARRAY(a, hlo_instr *, tuple->noperands + n + 1);
  for (u32 k = 0; k < tuple->noperands; k++) elems[k] = hlo_operand(tuple, k);
  memcpy(elems + tuple->noperands, more, n * sizeof *more);
  return hlo_add_tuple(tuple->parent, tuple->noperands + n, elems);
}

void pass_loop_widen(pass_loop *l, u32 n, hlo_instr *const *values, hlo_instr **in, hs_arena *a) {
  hlo_instr *root = pass_loop_normalize(l, a), *old_in = pass_loop_initial(l, a);
  pass_read_by_element(l->w, a);
  u32 at = l->n;
  hlo_instr *wide = extended(old_in, n, values, a);
  hs_arena *kept = &l->w->parent->module->arena;
  const hlo_origin *origin = pass_origin_with(kept, hlo_attr_get(l->w, HLO_ATTR_ORIGIN), n, values),
                   *first =
                       pass_origin_with(kept, hlo_attr_get(old_in, HLO_ATTR_ORIGIN), n, values);
  hlo_move_before(wide, l->w);
  pass_loop_set_state(l, wide);
  if (origin) hlo_set_attr_ptr(l->w, HLO_ATTR_ORIGIN, origin);
  if (first) hlo_set_attr_ptr(wide, HLO_ATTR_ORIGIN, first);
  for (u32 k = 0; k < n; k++) in[k] = hlo_add_gte(l->body->params[0], at + k);
  hlo_instr *now = extended(root, n, in, a);
  hlo_set_root(l->body, now);
  hlo_remove_dead(root);
  hlo_remove_dead(old_in);
}

static hlo_instr *reduced(hlo_instr *tuple, const bool *keep, hs_arena *a) {
  hlo_instr **elems = HS_NEW_ARRAY(a, hlo_instr *, tuple->noperands + 1);
  u32 n = 0;
  for (u32 k = 0; k < tuple->noperands; k++)
    if (keep[k]) elems[n++] = hlo_operand(tuple, k);
  return hlo_add_tuple(tuple->parent, n, elems);
}

static void renumber_readers(hlo_instr *tuple, const i64 *number) {
  for (hlo_use *u = tuple->first_use, *next; u; u = next) {
    next = u->next;
    i64 k = hlo_attr_int(u->user, HLO_ATTR_INDEX, 0);
    if (number[k] < 0) {
      if (!u->user->nuses && !hlo_is_root(u->user)) hlo_remove(u->user);
    } else if (number[k] != k) {
      hlo_set_attr_int(u->user, HLO_ATTR_INDEX, number[k]);
    }
  }
}

void pass_loop_narrow(pass_loop *l, const bool *keep, hs_arena *a) {
  hlo_instr *root = pass_loop_normalize(l, a), *old_in = pass_loop_initial(l, a);
  pass_read_by_element(l->w, a);
  i64 *number = HS_NEW_ARRAY(a, i64, l->n + 1), *index = HS_NEW_ARRAY(a, i64, l->n + 1), n = 0;
  for (u32 k = 0; k < l->n; k++) {
    number[k] = keep[k] ? n : -1;
    if (keep[k]) index[n++] = k;
  }
  const hlo_attr *origin = hlo_attr_get(old_in, HLO_ATTR_ORIGIN);
  hlo_instr *in = reduced(old_in, keep, a);
  hlo_move_before(in, l->w);
  hlo_instr *now = reduced(root, keep, a);
  hlo_set_root(l->body, now);
  hlo_remove_dead(root);
  pass_loop_set_state(l, in);
  renumber_readers(l->body->params[0], number);
  renumber_readers(l->cond->params[0], number);
  renumber_readers(l->w, number);
  pass_loop_renew(l, (u32)n, index, origin);
  hlo_remove_dead(old_in);
}

// ---- constants in the state ---------------------------------------------------------------------
hlo_instr *pass_loop_constant(const pass_loop *l, u32 k) {
  hlo_instr *i = l->in ? hlo_operand(l->in, k) : NULL;
  if (!i || !hlo_shape_is_array(i->shape)) return NULL;
  if (i->opcode == HLO_CONSTANT) return i;
  return i->opcode == HLO_BROADCAST && hlo_operand(i, 0)->opcode == HLO_CONSTANT ? i : NULL;
}

static hlo_instr *copy_constant(hlo_computation *into, const hlo_instr *k) {
  if (k->opcode == HLO_CONSTANT) return hlo_clone_instr(into, k, NULL, 0, NULL);
  hlo_instr *scalar = hlo_clone_instr(into, hlo_operand(k, 0), NULL, 0, NULL);
  return hlo_clone_instr(into, k, NULL, 1, &scalar);
}

// Counts (count_only) or replaces the users of element k in one computation, except where the root
// passes it through.
static u32 sink_into(hlo_computation *comp, u32 k, const hlo_instr *constant, bool count_only) {
  u32 n = 0;
  hlo_instr *copy = NULL;
  hlo_instr *root = comp->root;
  for (hlo_use *u = comp->params[0]->first_use, *next; u; u = next) {
    next = u->next;
    hlo_instr *g = u->user;
    if (g->opcode != HLO_GET_TUPLE_ELEMENT || hlo_attr_int(g, HLO_ATTR_INDEX, -1) != (i64)k)
      continue;
    bool computes = false;  // passing it through, at any index, needs no constant
    hlo_for_each_use(v, g) computes |= v->user != root || root->opcode != HLO_TUPLE;
    for (hlo_use *v = g->first_use, *after; v && computes; v = after) {
      after = v->next;
      if (v->user == root && root->opcode == HLO_TUPLE && hlo_slot(v) == k) continue;
      n++;
      if (count_only) continue;
      if (!copy) {
        copy = copy_constant(comp, constant);
        hlo_move_before(copy, comp->first);
        if (copy->opcode == HLO_BROADCAST) hlo_move_before(hlo_operand(copy, 0), copy);
        hlo_add_provenance(copy, g);
      }
      hlo_set_operand(v->user, hlo_slot(v), copy);
    }
    if (hlo_is_root(g)) {
      n++;
      if (!count_only) {
        if (!copy) copy = copy_constant(comp, constant);
        hlo_set_root(comp, copy);
      }
    }
  }
  return n;
}

u32 pass_loop_reads(const pass_loop *l, u32 k) {
  return sink_into(l->body, k, NULL, true) + sink_into(l->cond, k, NULL, true);
}

u32 pass_loop_sink(pass_loop *l, u32 k, const hlo_instr *constant) {
  u32 body = sink_into(l->body, k, constant, false), cond = sink_into(l->cond, k, constant, false);
  return (body ? PASS_LOOP_BODY : 0) | (cond ? PASS_LOOP_COND : 0);
}

void pass_loop_rename(pass_loop *l, u32 which, const char *prefix, const char *suffix) {
  hlo_computation *both[] = {l->body, l->cond};
  for (int k = 0; k < 2; k++) {
    if (!(which >> k & 1)) continue;
    const char *old = both[k]->name;
    size_t n = strlen(old), np = strlen(prefix), ns = strlen(suffix);
    if ((np && strncmp(old, prefix, np) == 0) ||
        (ns && n >= ns && strcmp(old + n - ns, suffix) == 0))
      continue;
    char *name = hs_format("%s%s%s", prefix, old, suffix);
    hlo_set_computation_name(both[k], name);
    hs_free(name);
  }
}

void pass_loop_unroll(const pass_loop *l, i64 trips, hs_arena *a) {
  hlo_instr *w = l->w, *state = hlo_operand(w, 0), *before = w->prev;
  for (i64 k = 0; k < trips; k++) state = pass_inline_at(w, l->body, &state, a);
  for (hlo_instr *i = before ? before->next : w->parent->first; i != w; i = i->next)
    pass_origin_leaves(i, w, "");
  bool known = !trips || hlo_attr_get(state, HLO_ATTR_ORIGIN);
  hlo_replace(w, state);
  // hlo_replace copied the loop's origin, which is not that of its iterations
  if (!known && hlo_attr_get(state, HLO_ATTR_ORIGIN)) hlo_remove_attr(state, HLO_ATTR_ORIGIN);
}

// ---- counted loops ------------------------------------------------------------------------------
void pass_counted_open(pass_counted *l, hlo_computation *c, i32 trips, u32 n,
                       hlo_instr *const *init, hs_arena *a) {
  hlo_instr **in = HS_NEW_ARRAY(a, hlo_instr *, n + 1);
  in[0] = hlo_build_scalar_i64(c, HLO_S32, 0);
  memcpy(in + 1, init, n * sizeof *in);
  *l = (pass_counted){
      .init = hlo_add_tuple(c, n + 1, in), .state = HS_NEW_ARRAY(a, hlo_instr *, n + 1), .n = n};
  l->cond = hlo_add_computation(c->module, "while_cond");
  hlo_instr *seen = hlo_add_gte(hlo_add_parameter(l->cond, 0, l->init->shape, "param"), 0);
  hlo_set_root(l->cond, hlo_build_compare(seen, hlo_build_scalar_i64(l->cond, HLO_S32, trips),
                                          HLO_DIRECTION_LT));
  l->body = hlo_add_computation(c->module, "while_body");
  hlo_instr *p = hlo_add_parameter(l->body, 0, l->init->shape, "param");
  l->index = hlo_add_gte(p, 0);
  l->next_index = hlo_build_binary(HLO_ADD, l->index, hlo_build_scalar_i64(l->body, HLO_S32, 1));
  for (u32 k = 0; k < n; k++) l->state[k] = hlo_add_gte(p, k + 1);
}

hlo_instr *pass_counted_close(pass_counted *l, hlo_instr *const *next, hs_arena *a) {
  hlo_instr **out = HS_NEW_ARRAY(a, hlo_instr *, l->n + 1);
  out[0] = l->next_index;
  memcpy(out + 1, next, l->n * sizeof *out);
  hlo_set_root(l->body, hlo_add_tuple(l->body, l->n + 1, out));
  hlo_instr **order = hlo_post_order(l->body, a);  // for readable text
  for (u32 k = 0, n = l->body->ninstrs; k < n; k++) hlo_move_before(order[k], NULL);
  hlo_instr *w = hlo_add(l->init->parent, HLO_WHILE, l->init->shape, 1, &l->init, NULL);
  hlo_set_attr_comp(w, HLO_ATTR_CONDITION, l->cond);
  hlo_set_attr_comp(w, HLO_ATTR_BODY, l->body);
  return w;
}
