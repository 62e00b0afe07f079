// conditionals.c — the passes on conditionals.
//
// - simplify-conditional (xla/service/conditional_simplifier.cc): equal result elements are merged,
//   unused ones removed; a constant predicate or equal branches select one branch; two cheap
//   branches are both computed, followed by select; operand elements that a branch does not use are
//   removed.
// - conditional-to-select (xla/service/conditional_to_select.cc): in computations applied to
//   scalars (map, reduce, sort ...) both branches are computed, followed by select.
// - conditional-canonicalizer (xla/service/conditional_canonicalizer.cc): operands and results of
//   branches become tuples.
// Origins follow the elements of operands and results; what comes out of a branch has the
// conditional's origin as a prefix, and none where both branches are computed.
#include "passes/control/calls.h"

static void set_origin(hlo_instr *i, const hlo_origin *o) {
  if (o) hlo_set_attr_ptr(i, HLO_ATTR_ORIGIN, o);
  else hlo_remove_attr(i, HLO_ATTR_ORIGIN);
}

// `to` has n elements, of which element k is element index[k] of what `from` is the origin of.
static void choose_origin(hlo_instr *to, const hlo_attr *from, u32 n, const i64 *index) {
  set_origin(to, pass_origin_of_elements(&to->parent->module->arena, from, n, index));
}

static hlo_instr *first_after(const hlo_instr *before, const hlo_instr *i) {
  return before ? before->next : i->parent->first;
}

// Index of the branch that a constant predicate selects, or -1. Out of range: the last one.
static i64 constant_branch(const hlo_instr *i, u32 nbranches) {
  i64 v;
  if (!pass_const_i64(hlo_operand(i, 0), &v)) return -1;
  if (hlo_operand(i, 0)->shape->dtype == HLO_PRED) return v ? 0 : 1;
  return v < 0 || v >= (i64)nbranches ? (i64)nbranches - 1 : v;
}

static bool is_pure(const hlo_computation *c) {
  hlo_for_each_instr(i, c)
    if (hlo_has_side_effect(i) || i->ctrl_preds) return false;
  return true;
}

static bool only_elementwise(const hlo_computation *c) {
  hlo_for_each_instr(i, c)
    if (i->opcode != HLO_PARAMETER && i->opcode != HLO_CONSTANT && i->opcode != HLO_MAP &&
        !hlo_op_has(i->opcode, HLO_F_ELEMENTWISE))
      return false;
  return true;
}

// Cheap enough to compute although the branch may not be taken.
static bool is_cheap(const hlo_instr *i) {
  switch (i->opcode) {
  case HLO_BROADCAST:
  case HLO_CONCATENATE:
  case HLO_DYNAMIC_SLICE:
  case HLO_GET_TUPLE_ELEMENT:
  case HLO_REDUCE:
  case HLO_RESHAPE:
  case HLO_PAD:
  case HLO_PARAMETER:
  case HLO_SLICE:
  case HLO_TUPLE:
  case HLO_CONSTANT: return true;
  case HLO_FUSION: return hlo_fusion_comp(i) && only_elementwise(hlo_fusion_comp(i));
  case HLO_MAP: return true;
  default: return hlo_op_has(i->opcode, HLO_F_ELEMENTWISE);
  }
}
static bool all_cheap(const hlo_computation *c) {
  hlo_for_each_instr(i, c)
    if (!is_cheap(i)) return false;
  return true;
}

// These go through the nested tuples of a shape, HLO_MAX_TUPLE_DEPTH deep at most; not through
// those of nothing, which leaves do not bound.
static bool has_array(const hlo_shape *s) {
  if (!hlo_shape_is_tuple(s) || s->leaves == 0) return hlo_shape_is_array(s);
  for (u32 k = 0; k < s->nelems; k++)
    if (has_array(s->elems[k])) return true;
  return false;
}

// Returns arrays of its operand: running the conditional is faster than a select.
static bool only_passes_arrays(const hlo_computation *c) {
  hlo_for_each_instr(i, c)
    if (i->opcode != HLO_PARAMETER && i->opcode != HLO_TUPLE && i->opcode != HLO_GET_TUPLE_ELEMENT)
      return false;
  return has_array(c->root->shape);
}

// Collectives and transfers: their participants must run them the same number of times.
static bool has_channel(const hlo_instr *i) {
  return hlo_op_has(i->opcode, HLO_F_COLLECTIVE | HLO_F_SEND_RECEIVE) ||
         hlo_attr_get(i, HLO_ATTR_CHANNEL_ID);
}

static hlo_instr *select_tree(hlo_instr *pred, hlo_instr *t, hlo_instr *f, hs_arena *a) {
  if (t == f || t->shape->leaves == 0) return t;
  if (t->shape->dtype == HLO_TOKEN) {
    hlo_instr *both[] = {t, f};
    return hlo_add(pred->parent, HLO_AFTER_ALL, t->shape, 2, both, NULL);
  }
  if (hlo_shape_is_tuple(t->shape)) {
    u32 n = t->shape->nelems;
    hlo_instr **e = HS_NEW_ARRAY(a, hlo_instr *, n + 1);
    for (u32 k = 0; k < n; k++) e[k] = select_tree(pred, hlo_add_gte(t, k), hlo_add_gte(f, k), a);
    return hlo_add_tuple(pred->parent, n, e);
  }
  hlo_instr *p = pred;
  if (t->shape->rank) {
    p = hlo_add_broadcast(pred, hlo_shape_with_dtype(pred->parent->module->ctx, t->shape, HLO_PRED),
                          0, NULL);
  }
  hlo_instr *ops[] = {p, t, f};
  return hlo_add(pred->parent, HLO_SELECT, t->shape, 3, ops, NULL);
}

static bool selectable(const hlo_shape *s) {
  if (!hlo_shape_is_tuple(s)) return hlo_shape_is_array(s) || s->dtype == HLO_TOKEN;
  if (s->leaves == 0) return true;
  for (u32 k = 0; k < s->nelems; k++)
    if (!selectable(s->elems[k])) return false;
  return true;
}

// Inlines both branches and selects between their results.
static bool to_select(pass_ctx *c, hlo_instr *i, hlo_computation *const *branches) {
  if (hlo_operand(i, 0)->shape->dtype != HLO_PRED || !selectable(i->shape) || hlo_is_controlled(i))
    return false;
  if (!pass_may_rewrite(c)) return false;
  hlo_instr *t_arg = hlo_operand(i, 1), *f_arg = hlo_operand(i, 2), *before = i->prev;
  hlo_instr *t = pass_inline_at(i, branches[0], &t_arg, c->scratch),
            *f = pass_inline_at(i, branches[1], &f_arg, c->scratch),
            *first = first_after(before, i);
  pass_inherit_from_call(first, i, NULL, c->scratch);
  for (hlo_instr *x = first; x != i; x = x->next) set_origin(x, NULL);
  hlo_replace(i, select_tree(hlo_operand(i, 0), t, f, c->scratch));
  return true;
}

// All users are get-tuple-element, and there are users.
static bool read_by_element(const hlo_instr *i) {
  if (!hlo_shape_is_tuple(i->shape) || hlo_is_root(i) || !i->nuses) return false;
  hlo_for_each_use(u, i)
    if (u->user->opcode != HLO_GET_TUPLE_ELEMENT) return false;
  return true;
}

// Removes unused result elements.
static void trim_results(pass_ctx *c, hlo_instr *i, u32 *counts) {
  if (!read_by_element(i)) return;
  u32 n = i->shape->nelems, live = 0;
  bool *used = HS_NEW_ARRAY(c->scratch, bool, n + 1);
  hlo_for_each_use(u, i) {
    i64 k = hlo_attr_int(u->user, HLO_ATTR_INDEX, 0);
    if (!used[k]) used[k] = true, live++;
  }
  if (live == n || !pass_may_rewrite(c)) return;
  pass_note_done(c, i, NULL, "%u of %u result elements unused", n - live, n);
  hlo_computation **b;
  u32 nb;
  pass_called_all(i, c->scratch, &b, &nb);
  i64 *number = HS_NEW_ARRAY(c->scratch, i64, n), *index = HS_NEW_ARRAY(c->scratch, i64, n + 1),
      at = 0;
  for (u32 k = 0; k < n; k++) {
    number[k] = used[k] ? at++ : -1;
    if (used[k]) index[number[k]] = k;
  }
  hlo_instr *root = NULL;
  for (u32 k = 0; k < nb; k++) {
    b[k] = pass_own_called(i, k, counts, c->scratch);
    hlo_instr *old = b[k]->root, **e = HS_NEW_ARRAY(c->scratch, hlo_instr *, n);
    for (u32 j = 0; j < n; j++)
      if (used[j]) e[number[j]] = pass_element(old, j);
    root = hlo_add_tuple(b[k], live, e);
    choose_origin(root, hlo_attr_get(old, HLO_ATTR_ORIGIN), live, index);
    hlo_set_root(b[k], root);
    hlo_remove_dead(old);
  }
  pass_set_tuple_shape(i, root->shape);
  choose_origin(i, hlo_attr_get(i, HLO_ATTR_ORIGIN), live, index);
  hlo_for_each_use(u, i)
    hlo_set_attr_int(u->user, HLO_ATTR_INDEX, number[hlo_attr_int(u->user, HLO_ATTR_INDEX, 0)]);
}

// Replaces an unused result (the conditional has side effects) by an empty tuple.
static void drop_result(pass_ctx *c, hlo_instr *i, u32 *counts) {
  if (i->nuses || hlo_is_root(i) || (hlo_shape_is_tuple(i->shape) && !i->shape->nelems) ||
      !pass_may_rewrite(c))
    return;
  pass_note_done(c, i, NULL, "its result is unused");
  hlo_computation **b;
  u32 nb;
  pass_called_all(i, c->scratch, &b, &nb);
  for (u32 k = 0; k < nb; k++) {
    b[k] = pass_own_called(i, k, counts, c->scratch);
    hlo_set_root(b[k], hlo_add_tuple(b[k], 0, NULL));
  }
  pass_set_tuple_shape(i, hlo_shape_tuple(c->m->ctx, 0, NULL));
  set_origin(i, NULL);
}

// Redirects users of a result element to an earlier one that is equal in every branch.
static void merge_results(pass_ctx *c, hlo_instr *i, hlo_computation *const *b, u32 nb) {
  if (!read_by_element(i) || i->shape->nelems > 256) return;
  for (u32 x = 0; x < nb; x++)
    if (b[x]->root->opcode != HLO_TUPLE) return;
  for (u32 k = 1; k < i->shape->nelems; k++) {
    u32 j = 0;
    for (; j < k; j++) {
      bool same = true;
      for (u32 x = 0; same && x < nb; x++)
        same = hlo_operand(b[x]->root, j) == hlo_operand(b[x]->root, k);
      if (same) break;
    }
    if (j == k) continue;
    for (hlo_use *u = i->first_use, *next; u; u = next) {
      next = u->next;
      if (hlo_attr_int(u->user, HLO_ATTR_INDEX, -1) != (i64)k || !pass_may_rewrite(c)) continue;
      pass_note_done(c, u->user, i, "element %u always equals element %u", k, j);
      hlo_set_attr_int(u->user, HLO_ATTR_INDEX, j);
    }
  }
}

// Removes operand elements that a branch does not use.
static void trim_operand(pass_ctx *c, hlo_instr *i, u32 which, u32 *counts) {
  hlo_computation **b;
  u32 nb;
  pass_called_all(i, c->scratch, &b, &nb);
  hlo_instr *p = b[which]->params[0], *arg = hlo_operand(i, which + 1);
  if (!hlo_shape_is_tuple(p->shape) || hlo_is_root(p)) return;
  u32 n = p->shape->nelems, live = 0;
  bool *used = HS_NEW_ARRAY(c->scratch, bool, n + 1);
  hlo_for_each_use(u, p) {
    if (u->user->opcode != HLO_GET_TUPLE_ELEMENT) return;
    i64 k = hlo_attr_int(u->user, HLO_ATTR_INDEX, 0);
    if (!used[k]) used[k] = true, live++;
  }
  if (live == n || !pass_may_rewrite(c)) return;
  pass_note_done(c, i, NULL, "branch %u reads %u of %u operand elements", which, live, n);
  p = pass_own_called(i, which, counts, c->scratch)->params[0];
  hlo_instr **e = HS_NEW_ARRAY(c->scratch, hlo_instr *, n + 1);
  i64 *number = HS_NEW_ARRAY(c->scratch, i64, n + 1), *index = HS_NEW_ARRAY(c->scratch, i64, n + 1),
      at = 0;
  for (u32 k = 0; k < n; k++)
    if (used[k]) e[at] = pass_element(arg, k), index[at] = k, number[k] = at++;
  hlo_instr *t = hlo_add_tuple(i->parent, live, e);
  choose_origin(t, hlo_attr_get(arg, HLO_ATTR_ORIGIN), live, index);
  hlo_set_operand(i, which + 1, t);
  pass_set_tuple_shape(p, t->shape);
  choose_origin(p, hlo_attr_get(p, HLO_ATTR_ORIGIN), live, index);
  hlo_for_each_use(u, p)
    hlo_set_attr_int(u->user, HLO_ATTR_INDEX, number[hlo_attr_int(u->user, HLO_ATTR_INDEX, 0)]);
  hlo_remove_dead(arg);
}

static bool in_scheduling_group(const hlo_instr *i) {
  return pass_frontend(i, "_scheduling_group_id") != NULL;
}

// Sizes begin and end where the types of a branch's parameter and result say so: one that states
// other dynamic dimensions than the conditional is no plain copy of its body.
static bool states_sizes(pass_ctx *c, const hlo_instr *i) {
  bool same = !pass_reads_hidden(i);
  for (u32 k = 0, n = hlo_ncalled(i); k < n && same; k++) {
    const hlo_computation *b = hlo_called(i, k);
    same = k + 1 < i->noperands && b->nparams == 1 &&
           hlo_operand(i, k + 1)->shape->logical == b->params[0]->shape->logical &&
           b->root->shape->logical == i->shape->logical && !pass_hides_size(b->root);
  }
  if (!same) pass_note_declined(c, i, NULL, "its branches state other sizes than it has");
  return !same;
}

// Replaces the conditional by a branch, or by both and selects; true when it did.
static bool remove_conditional(pass_ctx *c, hlo_instr *i, hlo_computation *const *b, u32 n) {
  if (hlo_is_controlled(i)) {
    pass_note_declined(c, i, NULL, "it has control dependencies");
    return false;
  }
  if (hlo_has_side_effect(i)) {
    pass_note_declined(c, i, NULL, "a branch has a side effect");
    return false;
  }
  if (in_scheduling_group(i)) {
    pass_note_declined(c, i, NULL, "it is in a scheduling group");
    return false;
  }
  i64 taken = n == 1 ? 0 : constant_branch(i, n);
  bool same = n > 1 && taken < 0;
  for (u32 k = 1; same && k < n; k++)
    same =
        hlo_operand(i, k + 1) == hlo_operand(i, 1) && pass_comp_equal(b[0], b[k], true, c->scratch);
  if (taken >= 0 || (same && is_pure(b[0]))) {
    if (!pass_may_rewrite(c)) return false;
    if (taken >= 0) pass_note_done(c, i, NULL, "always takes branch %lld", (long long)taken);
    else pass_note_done(c, i, NULL, "its branches are equal");
    u32 k = taken >= 0 ? (u32)taken : 0;
    hlo_instr *arg = hlo_operand(i, k + 1), *before = i->prev,
              *root = pass_inline_at(i, b[k], &arg, c->scratch);
    pass_inherit_from_call(first_after(before, i), i, root, c->scratch);
    hlo_replace(i, root);
    return true;
  }
  if (n != 2 || !all_cheap(b[0]) || !all_cheap(b[1])) {
    pass_note_declined(c, i, NULL, "its branches are too expensive to compute both");
    return false;
  }
  if (only_passes_arrays(b[0]) || only_passes_arrays(b[1])) {
    pass_note_declined(c, i, NULL,
                       "a branch returns its operands: running it is faster than a select");
    return false;
  }
  if (!to_select(c, i, b)) return false;
  pass_note_done(c, i, NULL, "both branches computed, then selected");
  return true;
}

static void simplify(pass_ctx *c, hlo_instr *i, u32 *counts) {
  hlo_computation **b;
  u32 n;
  pass_called_all(i, c->scratch, &b, &n);
  if (n == 0 || i->noperands != n + 1) return;
  if (hlo_attr_get(i, HLO_ATTR_SHARDING)) {
    pass_note_declined(c, i, NULL, "it is sharded");
    return;
  }
  for (u32 k = 0; k < n; k++)
    if (pass_comp_any(b[k], has_channel, c->scratch)) {
      pass_note_declined(c, i, NULL, "a branch uses a channel");
      return;
    }
  if (states_sizes(c, i)) return;
  merge_results(c, i, b, n);
  trim_results(c, i, counts);
  drop_result(c, i, counts);
  pass_called_all(i, c->scratch, &b, &n);
  if (remove_conditional(c, i, b, n)) return;
  for (u32 k = 0; k < n; k++) trim_operand(c, i, k, counts);
}

static hs_status for_each_conditional(pass_ctx *c, hlo_computation *comp, u32 *counts,
                                      void (*f)(pass_ctx *, hlo_instr *, u32 *)) {
  u32 n;
  hlo_instr **v = pass_of_op(c, comp, HLO_CONDITIONAL, HLO_CONDITIONAL, &n);
  for (u32 k = 0; k < n; k++) {
    HS_TRY(hs_poll());
    if (!v[k]->dead) f(c, v[k], counts);
  }
  return HS_GOOD;
}

static hs_status run_simplify_conditional(pass_ctx *c) {
  u32 n, *counts = pass_caller_counts(c);
  hlo_computation **comps = pass_comp_post_order(c, &n);
  for (u32 x = 0; x < n; x++) HS_TRY(for_each_conditional(c, comps[x], counts, simplify));
  return HS_GOOD;
}

const pass_info pass_simplify_conditional = {
    .name = "simplify-conditional",
    .summary = "removes conditionals with a known predicate or equal branches",
    .xla_source = "xla/service/conditional_simplifier.cc",
    .run = run_simplify_conditional,
    .needs = {HLO_CONDITIONAL},
    .again = true,
    .sample = "yes {\n"
              "  a = f32[4] parameter(0)\n"
              "  ROOT b = f32[4] negate(a)\n"
              "}\n"
              "no {\n"
              "  c = f32[4] parameter(0)\n"
              "  ROOT d = f32[4] exponential(c)\n"
              "}\n"
              "ENTRY e {\n"
              "  x = f32[4] parameter(0)\n"
              "  decided = pred[] constant(true)\n"
              "  ROOT y = f32[4] conditional(decided, x, x), true_computation=yes, "
              "false_computation=no\n"
              "}\n",
};

static void embedded_to_select(pass_ctx *c, hlo_instr *i, u32 *counts) {
  (void)counts;
  hlo_computation **b;
  u32 n;
  pass_called_all(i, c->scratch, &b, &n);
  if (n != 2 || i->noperands != 3) {
    pass_note_declined(c, i, NULL, "it has %u branches", n);
    return;
  }
  if (hlo_has_side_effect(i)) {
    pass_note_declined(c, i, NULL, "a branch has a side effect");
    return;
  }
  if (states_sizes(c, i)) return;
  if (to_select(c, i, b)) pass_note_done(c, i, NULL, "both branches computed, then selected");
}

static hs_status run_conditional_to_select(pass_ctx *c) {
  enum { RUN = 1, APPLIED = 2 };  // called by control flow, as a function of elements
  u32 n;
  hlo_computation **comps = pass_comp_callees_first(c, &n);
  u8 *how = HS_NEW_ARRAY(c->scratch, u8, c->m->next_comp_id + 1);
  how[c->m->entry->id] = RUN;
  for (u32 x = n; x-- > 0;) {  // callers first: what an applied function calls is applied too
    hlo_for_each_instr(i, comps[x]) {
      if (!hlo_op_has(i->opcode, HLO_F_CALLS)) continue;
      bool control = i->opcode == HLO_CALL || i->opcode == HLO_WHILE ||
                     i->opcode == HLO_CONDITIONAL || hlo_op_has(i->opcode, HLO_F_ASYNC);
      hlo_computation **b;
      u32 nb;
      pass_called_all(i, c->scratch, &b, &nb);
      for (u32 k = 0; k < nb; k++) how[b[k]->id] |= control ? how[comps[x]->id] : APPLIED;
    }
  }
  for (u32 x = 0; x < n; x++)
    if (how[comps[x]->id] == APPLIED)
      HS_TRY(for_each_conditional(c, comps[x], NULL, embedded_to_select));
  return HS_GOOD;
}

const pass_info pass_conditional_to_select = {
    .name = "conditional-to-select",
    .summary = "replaces conditionals in scalar functions by selects",
    .xla_source = "xla/service/conditional_to_select.cc",
    .run = run_conditional_to_select,
    .needs = {HLO_CONDITIONAL},
    .again = true,
    .sample = "yes {\n"
              "  a = f32[] parameter(0)\n"
              "  ROOT b = f32[] negate(a)\n"
              "}\n"
              "no {\n"
              "  c = f32[] parameter(0)\n"
              "  ROOT d = f32[] exponential(c)\n"
              "}\n"
              "f {\n"
              "  v = f32[] parameter(0)\n"
              "  zero = f32[] constant(0)\n"
              "  p = pred[] compare(v, zero), direction=LT\n"
              "  ROOT w = f32[] conditional(p, v, v), true_computation=yes, false_computation=no\n"
              "}\n"
              "ENTRY e {\n"
              "  x = f32[4] parameter(0)\n"
              "  ROOT y = f32[4] map(x), dimensions={0}, to_apply=f\n"
              "}\n",
};

// The sharding of a value that was wrapped in a tuple belongs to the element.
static void move_sharding(hlo_instr *tuple, hlo_instr *element) {
  const hlo_attr *sharding = hlo_attr_get(tuple, HLO_ATTR_SHARDING);
  if (!sharding) return;
  hlo_set_attr(element, *sharding);
  hlo_remove_attr(tuple, HLO_ATTR_SHARDING);
}

// So does its origin; the tuple's is one of that element.
static void move_origin(hlo_instr *tuple, hlo_instr *element) {
  const hlo_attr *had = hlo_attr_get(tuple, HLO_ATTR_ORIGIN);
  const hlo_origin *old = had ? had->v.p : NULL;
  hs_arena *a = &tuple->parent->module->arena;
  if (!old) return;
  hlo_set_attr(element, *had);
  if (old->synthetic || !old->root) return;
  const hlo_origin_node **v = HS_NEW_ARRAY(a, const hlo_origin_node *, 1);
  hlo_origin_node *root = HS_NEW(a, hlo_origin_node);
  hlo_origin *now = HS_NEW(a, hlo_origin);
  v[0] = old->root;
  *root = (hlo_origin_node){.tuple = true, .nchildren = 1, .children = v};
  *now = (hlo_origin){.root = root};
  hlo_set_attr_ptr(tuple, HLO_ATTR_ORIGIN, now);
}

static void wrap_parameter(hlo_computation *b, hs_arena *a) {
  hlo_instr *p = b->params[0];
  hlo_use **uses = HS_NEW_ARRAY(a, hlo_use *, p->nuses + 1);
  u32 n = 0;
  hlo_for_each_use(u, p) uses[n++] = u;
  const bool root = hlo_is_root(p);
  const hlo_shape *was = p->shape;
  hlo_set_shape(p, hlo_shape_tuple(b->module->ctx, 1, &was));
  hlo_instr *g = hlo_add_gte(p, 0);
  move_sharding(p, g);
  move_origin(p, g);
  for (u32 k = 0; k < n; k++) hlo_set_operand(uses[k]->user, hlo_slot(uses[k]), g);
  if (root) hlo_set_root(b, g);
}

static void canonicalize(pass_ctx *c, hlo_instr *i, u32 *counts) {
  hlo_computation **b;
  u32 n;
  pass_called_all(i, c->scratch, &b, &n);
  bool wrap_result = !hlo_shape_is_tuple(i->shape), wrap_any = wrap_result;
  // branches may be shared, so operands are tested rather than their parameters
  for (u32 k = 0; k < n && k + 1 < i->noperands; k++)
    wrap_any |= !hlo_shape_is_tuple(hlo_operand(i, k + 1)->shape);
  if (!wrap_any || i->noperands != n + 1) return;
  if (!pass_may_rewrite(c)) return;
  pass_note_done(c, i, NULL, "operands and results wrapped in tuples");
  for (u32 k = 0; k < n; k++) {
    b[k] = pass_own_called(i, k, counts, c->scratch);
    hlo_instr *arg = hlo_operand(i, k + 1);
    if (!hlo_shape_is_tuple(arg->shape)) {
      hlo_instr *t = hlo_add_tuple(i->parent, 1, &arg);
      hlo_move_before(t, i);
      hlo_set_operand(i, k + 1, t);
    }
    if (!hlo_shape_is_tuple(b[k]->params[0]->shape)) wrap_parameter(b[k], c->scratch);
    if (!hlo_shape_is_tuple(b[k]->root->shape))
      hlo_set_root(b[k], hlo_add_tuple(b[k], 1, &b[k]->root));
  }
  if (!wrap_result) return;
  hlo_use **uses = HS_NEW_ARRAY(c->scratch, hlo_use *, i->nuses + 1);
  u32 nu = 0;
  hlo_for_each_use(u, i) uses[nu++] = u;
  const hlo_shape *old = i->shape;
  hlo_set_shape(i, hlo_shape_tuple(c->m->ctx, 1, &old));
  hlo_instr *g = hlo_add_gte(i, 0);
  move_sharding(i, g);
  move_origin(i, g);
  for (u32 k = 0; k < nu; k++) hlo_set_operand(uses[k]->user, hlo_slot(uses[k]), g);
  if (hlo_is_root(i)) hlo_set_root(i->parent, g);
}

// Branches that only conditionals call stay shared: they need the same change for each.
static hs_status run_conditional_canonicalizer(pass_ctx *c) {
  u32 n, known = c->m->next_comp_id, *counts = HS_NEW_ARRAY(c->scratch, u32, known + 2);
  counts[0] = known;
  hlo_for_each_comp(x, c->m)
    hlo_for_each_instr(i, x) {
      if (!hlo_op_has(i->opcode, HLO_F_CALLS)) continue;
      hlo_computation **b;
      u32 nb;
      pass_called_all(i, c->scratch, &b, &nb);
      for (u32 k = 0; k < nb; k++)
        counts[1 + b[k]->id] =
            i->opcode == HLO_CONDITIONAL ? HS_MAX(counts[1 + b[k]->id], 1u) : UINT32_MAX;
    }
  hlo_computation **comps = pass_comp_post_order(c, &n);
  for (u32 x = 0; x < n; x++) HS_TRY(for_each_conditional(c, comps[x], counts, canonicalize));
  return HS_GOOD;
}

const pass_info pass_conditional_canonicalizer = {
    .name = "conditional-canonicalizer",
    .summary = "gives branches tuples as operand and result",
    .xla_source = "xla/service/conditional_canonicalizer.cc",
    .run = run_conditional_canonicalizer,
    .needs = {HLO_CONDITIONAL},
    .sample = "yes {\n"
              "  a = f32[4] parameter(0)\n"
              "  ROOT b = f32[4] negate(a)\n"
              "}\n"
              "no {\n"
              "  c = f32[4] parameter(0)\n"
              "  ROOT d = f32[4] exponential(c)\n"
              "}\n"
              "ENTRY e {\n"
              "  p = pred[] parameter(0)\n"
              "  x = f32[4] parameter(1)\n"
              "  ROOT y = f32[4] conditional(p, x, x), true_computation=yes, false_computation=no\n"
              "}\n",
};
