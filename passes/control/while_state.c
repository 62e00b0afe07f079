// while_state.c — rewrites of simplify-while-loops that change the loop state: flattening nested
// tuples and merging induction variables (xla/service/while_loop_simplifier.cc).
//
// Flattening: the state becomes one tuple of all leaves; users in body, condition and after the
// loop get the nested tuple rebuilt from it, which tuple-simplifier removes. Merging: an element
// that each iteration increments by a constant becomes start + counter * constant, where `counter`
// is the first element that starts at 0 with increment 1, or a new one. Such elements stay in the
// state as invariants. This pays where every scalar operation is a kernel.
#include "passes/control/while_state.h"

// ---- nested tuples ------------------------------------------------------------------------------
// Appends the leaves of a value, each read by get-tuple-element, to out.
static void push_leaves(hlo_instr *x, hlo_instr **out, u32 *n) {
  if (!hlo_shape_is_tuple(x->shape)) {
    out[(*n)++] = x;
    return;
  }
  for (u32 k = 0; k < x->shape->nelems; k++) push_leaves(pass_element(x, k), out, n);
}

// Rebuilds a value of a nested shape from the elements *at.. of a flat tuple.
static hlo_instr *nested(hlo_instr *flat, const hlo_shape *s, u32 *at, hs_arena *a) {
  if (!hlo_shape_is_tuple(s)) return hlo_add_gte(flat, (*at)++);
  hlo_instr **e = HS_NEW_ARRAY(a, hlo_instr *, s->nelems + 1);
  for (u32 k = 0; k < s->nelems; k++) e[k] = nested(flat, s->elems[k], at, a);
  hlo_instr *t = hlo_add_tuple(flat->parent, s->nelems, e);
  if (t->shape != s) hlo_set_shape(t, s);
  return t;
}

// Redirects the users of `flat`, which had the nested shape `was`, to a rebuilt nested tuple.
static void read_nested(hlo_instr *flat, const hlo_shape *was, hs_arena *a) {
  hlo_use **uses = HS_NEW_ARRAY(a, hlo_use *, flat->nuses + 1);
  u32 n = 0, at = 0;
  hlo_for_each_use(u, flat) uses[n++] = u;
  bool root = hlo_is_root(flat);
  hlo_instr *t = nested(flat, was, &at, a);
  for (u32 k = 0; k < n; k++) hlo_set_operand(uses[k]->user, hlo_slot(uses[k]), t);
  if (root) hlo_set_root(flat->parent, t);
}

static hlo_instr *flat_tuple(hlo_instr *x, u32 leaves, hs_arena *a) {
  hlo_instr **e = HS_NEW_ARRAY(a, hlo_instr *, leaves + 1);
  u32 n = 0;
  push_leaves(x, e, &n);
  return hlo_add_tuple(x->parent, n, e);
}

// The leaves of an origin tree, at most `cap`.
static void push_origins(const hlo_origin_node *x, const hlo_origin_node **out, u32 *n, u32 cap) {
  for (u32 k = 0; x->tuple && k < x->nchildren; k++) push_origins(x->children[k], out, n, cap);
  if (!x->tuple && *n < cap) out[(*n)++] = x;
}

static const hlo_origin *flat_origin(hlo_instr *i, u32 leaves) {
  hs_arena *a = &i->parent->module->arena;
  const hlo_origin *old = hlo_attr_ptr(i, HLO_ATTR_ORIGIN);
  if (!old || !old->root || !old->root->tuple) return NULL;
  const hlo_origin_node **v = HS_NEW_ARRAY(a, const hlo_origin_node *, leaves + 1);
  u32 n = 0;
  push_origins(old->root, v, &n, leaves);
  hlo_origin_node *root = HS_NEW(a, hlo_origin_node);
  *root = (hlo_origin_node){.tuple = true, .nchildren = n, .children = v};
  hlo_origin *now = HS_NEW(a, hlo_origin);
  *now = (hlo_origin){old->synthetic, root};
  return n == leaves ? now : NULL;
}

bool pass_is_unfinished(const hlo_instr *i) {
  return hlo_op_has(i->opcode, HLO_F_ASYNC) || i->opcode == HLO_SEND || i->opcode == HLO_RECV;
}

static bool carries_async(const hlo_instr *tuple) {
  for (u32 k = 0; k < tuple->noperands; k++)
    if (pass_is_unfinished(hlo_operand(tuple, k))) return true;
  return false;
}
// Whether an element of the loop's state, wherever it comes from, is one to an update or a done.
static bool reads_async(const hlo_instr *state) {
  hlo_for_each_use(e, state) {
    if (e->user->opcode != HLO_GET_TUPLE_ELEMENT || !hlo_shape_is_tuple(e->user->shape)) continue;
    hlo_for_each_use(u, e->user)
      if (pass_is_unfinished(u->user) && u->user->opcode != HLO_ASYNC_START) return true;
  }
  return false;
}

bool pass_loop_flatten(pass_ctx *c, pass_loop *l) {
  bool any = false;
  for (u32 k = 0; k < l->n; k++) any |= hlo_shape_is_tuple(l->w->shape->elems[k]);
  if (any && l->in &&
      (carries_async(l->in) || carries_async(l->body->root) || reads_async(l->body->params[0]) ||
       reads_async(l->cond->params[0]) || reads_async(l->w))) {
    pass_note_declined(c, l->w, NULL, "its state holds an unfinished asynchronous operation");
    return false;
  }
  if (!any || !l->in || l->body->root->opcode != HLO_TUPLE || !pass_may_rewrite(c)) return false;
  const hlo_shape *was = l->w->shape, *body_was = l->body->params[0]->shape,
                  *cond_was = l->cond->params[0]->shape;
  u32 leaves = hlo_shape_leaves(was), at = 0;
  pass_note_done(c, l->w, NULL, "its state of nested tuples became one of %u elements", leaves);
  hlo_instr *in = flat_tuple(l->in, leaves, c->scratch), *old_root = l->body->root,
            *root = flat_tuple(old_root, leaves, c->scratch);
  pass_drop_control(old_root);
  const hlo_origin *first = flat_origin(l->in, leaves), *origin = flat_origin(l->w, leaves);
  hlo_set_root(l->body, root);
  hlo_remove_dead(old_root);
  hlo_instr *old = l->w, *now = hlo_add_before(old, HLO_WHILE, in->shape, 1, &in, NULL);
  hlo_copy_attrs(now, old);
  hlo_remove_attr(now, HLO_ATTR_ORIGIN);
  if (origin) hlo_set_attr_ptr(now, HLO_ATTR_ORIGIN, origin);
  if (first) hlo_set_attr_ptr(in, HLO_ATTR_ORIGIN, first);
  l->w = now;
  pass_loop_set_state(l, in);
  read_nested(l->body->params[0], body_was, c->scratch);
  read_nested(l->cond->params[0], cond_was, c->scratch);
  hlo_instr *whole = nested(now, was, &at, c->scratch);
  if (hlo_attr_get(old, HLO_ATTR_ORIGIN)) hlo_set_attr(whole, *hlo_attr_get(old, HLO_ATTR_ORIGIN));
  hlo_replace(old, whole);
  return true;
}

// ---- counters -----------------------------------------------------------------------------------
// The scalar constant by which each iteration increments element k, or NULL.
static hlo_instr *increment(const pass_loop *l, u32 k, hlo_dtype t) {
  const hlo_instr *r = hlo_operand(l->body->root, k);
  if (r->opcode != HLO_ADD || r->shape->dtype != t) return NULL;
  for (u32 o = 0; o < 2; o++) {
    hlo_instr *x = hlo_operand(r, 1 - o);
    if (pass_loop_reads_element(l, hlo_operand(r, o), k) && x->opcode == HLO_CONSTANT &&
        !x->shape->rank && !hlo_literal_has_elided(hlo_constant_value(x)))
      return x;
  }
  return NULL;
}

static bool starts_as(const pass_loop *l, u32 k, i64 v) {
  i64 x;
  return hlo_operand(l->in, k)->opcode == HLO_CONSTANT &&
         pass_const_i64(hlo_operand(l->in, k), &x) && x == v;
}

// start + counter * constant, in the computation of `tuple`.
static hlo_instr *counted(hlo_instr *tuple, u32 k, u32 counter, const hlo_instr *constant) {
  hlo_instr *n = hlo_add_gte(tuple, counter),
            *factor = hlo_clone_instr(tuple->parent, constant, NULL, 0, NULL);
  return hlo_build_binary(HLO_ADD, hlo_add_gte(tuple, k),
                          hlo_build_binary(HLO_MULTIPLY, n, factor));
}

// Redirects the users of element k of `tuple` to start + counter * constant. `origin` (may be NULL)
// becomes its ORIGIN attribute.
static void read_counted(hlo_instr *tuple, u32 k, u32 counter, const hlo_instr *constant,
                         const hlo_attr *origin, hs_arena *a) {
  hlo_instr **readers = HS_NEW_ARRAY(a, hlo_instr *, tuple->nuses + 1), *now = NULL;
  u32 n = 0;
  hlo_for_each_use(u, tuple)
    if (u->user->opcode == HLO_GET_TUPLE_ELEMENT &&
        hlo_attr_int(u->user, HLO_ATTR_INDEX, -1) == (i64)k)
      readers[n++] = u->user;
  for (u32 r = 0; r < n; r++) {
    if (!now) now = counted(tuple, k, counter, constant);
    if (origin) hlo_set_attr(now, *origin);
    hlo_replace_uses(readers[r], now);
    hlo_remove_dead(readers[r]);
  }
}

static bool merge_counters_of(pass_ctx *c, pass_loop *l, hlo_dtype t) {
  if (!l->in || l->body->root->opcode != HLO_TUPLE) return false;
  hs_arena *a = c->scratch;
  u32 n = l->n, found = 0, counter = n;
  hlo_instr **step_of = HS_NEW_ARRAY(a, hlo_instr *, n + 1);
  for (u32 k = 0; k < n; k++) {
    step_of[k] = increment(l, k, t);
    i64 step;
    if (step_of[k] && counter == n && pass_const_i64(step_of[k], &step) && step == 1 &&
        starts_as(l, k, 0))
      counter = k, step_of[k] = NULL;
    found += step_of[k] != NULL;
  }
  bool add_counter = counter == n;
  if (found + !add_counter < 2 || !pass_may_rewrite(c)) return false;
  pass_note_done(c, l->w, NULL, "%u elements computed from %s counter", found,
                 add_counter ? "a new" : "an existing");
  const hlo_attr *first = hlo_attr_get(l->in, HLO_ATTR_ORIGIN),
                 **origins = HS_NEW_ARRAY(a, const hlo_attr *, n + 1);
  pass_loop_normalize(l, a);
  pass_read_by_element(l->w, a);
  for (u32 k = 0; k < n; k++)
    origins[k] = step_of[k] ? hlo_attr_get(hlo_operand(l->body->root, k), HLO_ATTR_ORIGIN) : NULL;
  if (add_counter) {
    hlo_instr *zero = hlo_build_scalar_i64(l->w->parent, t, 0), *reader;
    pass_loop_widen(l, 1, &zero, &reader, a);
    hlo_set_operand(l->body->root, counter,
                    hlo_build_binary(HLO_ADD, reader, hlo_build_scalar_i64(l->body, t, 1)));
  }
  for (u32 k = 0; k < n; k++) {
    if (!step_of[k]) continue;
    read_counted(l->body->params[0], k, counter, step_of[k], NULL, a);
    read_counted(l->cond->params[0], k, counter, step_of[k], NULL, a);
    read_counted(l->w, k, counter, step_of[k], origins[k], a);
    hlo_instr *next = hlo_operand(l->body->root, k);
    hlo_set_operand(l->body->root, k, hlo_add_gte(l->body->params[0], k));
    hlo_remove_dead(next);
  }
  i64 *index = HS_NEW_ARRAY(a, i64, l->n + 1);
  for (u32 k = 0; k < l->n; k++) index[k] = k < n ? (i64)k : -1;
  pass_loop_renew(l, l->n, index, first);
  return true;
}

bool pass_loop_merge_counters(pass_ctx *c, pass_loop *l) {
  static const hlo_dtype types[] = {HLO_S8, HLO_U8, HLO_S32, HLO_U32, HLO_S64, HLO_U64};
  bool any = false;
  for (size_t k = 0; k < HS_COUNT(types); k++) any |= merge_counters_of(c, l, types[k]);
  return any;
}
