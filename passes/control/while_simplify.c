// while_simplify.c — simplify-while-loops (xla/service/while_loop_simplifier.cc).
//
// For each loop whose body and condition have no other caller, the first of these rewrites that
// applies is done:
//   1. state elements with equal initial values that are passed through, or updated by the same
//      slices, are merged;
//   2. nested tuples in the state are flattened;
//   3. dead elements are removed; users of an invariant one get its initial value;
//   4. elements that the body sets to their constant initial value are removed; then (not in XLA)
//      elements with equal initial values that are set to one value are merged;
//   5. (simplify_compare_instrs) comparisons that the counter's range decides are folded;
//   6. invariant scalar constants are propagated into the loop, a loop with trip count 0 is
//      replaced by its initial state, and one with trip count 1 by its body;
//   7. induction variables are merged (while_state.c).
// The others are left to the next run, as in XLA, so a pipeline's fixpoint does all of them. Loops
// with control dependencies, or pinned by XLA's frontend attributes, are not replaced.
#include "passes/control/while_state.h"
#include "passes/clean/clean.h"

// ---- preconditions ------------------------------------------------------------------------------
static bool is_transfer(const hlo_instr *i) { return hlo_op_has(i->opcode, HLO_F_SEND_RECEIVE); }
static bool is_domain(const hlo_instr *i) { return i->opcode == HLO_DOMAIN; }

// The state is used by get-tuple-element only, and the body's root is a tuple.
static bool by_elements(const pass_loop *l) {
  hlo_for_each_use(u, l->body->params[0])
    if (u->user->opcode != HLO_GET_TUPLE_ELEMENT) return false;
  hlo_for_each_use(u, l->cond->params[0])
    if (u->user->opcode != HLO_GET_TUPLE_ELEMENT) return false;
  return l->body->root->opcode == HLO_TUPLE && !hlo_is_root(l->body->params[0]);
}

// ---- trip counts zero and one -------------------------------------------------------------------
static bool unroll_trivial(pass_ctx *c, const pass_loop *l) {
  hlo_instr *w = l->w;
  i64 trips = pass_loop_trips(w, 1, c->scratch);
  if (trips != 0 && trips != 1) return false;
  hlo_for_each_instr(i, l->cond)
    if (hlo_has_side_effect(i)) {
      pass_note_declined(c, w, i, "its condition has a side effect");
      return false;
    }
  const hs_str *inlineable = trips == 1 ? pass_frontend(w, "inlineable") : NULL;
  if (inlineable &&
      (hs_str_eq(*inlineable, HS_STR("false")) || hs_str_eq(*inlineable, HS_STR("xla_late")))) {
    pass_note_declined(c, w, NULL, "marked as not inlineable");
    return false;
  }
  if (trips == 1 && pass_frontend_true(w, "skip-simplify-while-loops_trip-count-one")) return false;
  hlo_for_each_instr(i, l->body) {
    if (trips == 1 && hlo_has_side_effect(i)) {
      pass_note_declined(c, w, i, "its body has a side effect");
      return false;
    }
  }
  if (!pass_may_rewrite(c)) return false;
  pass_note_done(c, w, NULL,
                 trips ? "trip count 1: replaced by its body"
                       : "trip count 0: replaced by its initial state");
  pass_loop_unroll(l, trips, c->scratch);
  return true;
}

// ---- dead elements ------------------------------------------------------------------------------
// Traversal from `top` up to the parameter; pushes the elements that it depends on. Visits each
// instruction once.
typedef struct liveness {
  const hlo_instr *param;
  hlo_positions at;
  bool *live, *seen;
} liveness;
typedef HS_VEC(u32) indices;

static void mark_dependencies(liveness *r, const hlo_instr *top, indices *work) {
  HS_VEC(const hlo_instr *) stack = {0};
  hs_vec_push(&stack, top);
  while (stack.n) {
    const hlo_instr *i = hs_vec_pop(&stack);
    u32 at = hlo_position_of(&r->at, i);
    if (r->seen[at]) continue;
    r->seen[at] = true;
    if (i->opcode == HLO_GET_TUPLE_ELEMENT && hlo_operand(i, 0) == r->param) {
      u32 k = (u32)hlo_attr_int(i, HLO_ATTR_INDEX, 0);
      if (!r->live[k]) r->live[k] = true, hs_vec_push(work, k);
      continue;
    }
    for (u32 k = 0; k < i->noperands; k++) hs_vec_push(&stack, hlo_operand(i, k));
  }
  hs_vec_free(&stack);
}

static liveness liveness_of(pass_ctx *c, const hlo_computation *x, bool *live) {
  hlo_instr **order = pass_post_order(c, x);
  return (liveness){x->params[0], hlo_positions_in(x->ninstrs, order, c->scratch), live,
                    HS_NEW_ARRAY(c->scratch, bool, x->ninstrs + 1)};
}

// Removes the control dependencies of dead instructions; the order among the others is preserved.
static void release_dead(hlo_computation *x, const liveness *r) {
  hlo_for_each_instr(i, x)
    if ((hlo_is_controlled(i)) && i != r->param && !r->seen[hlo_position_of(&r->at, i)])
      pass_drop_control(i);
}

// Marks the elements on which the condition, a side effect or a user of the loop depends, and those
// that hold what is unfinished, and transitively the elements that their updates depend on; returns
// how many.
static u32 find_live(const pass_loop *l, bool *live, liveness *body, liveness *cond) {
  indices work = {0};
  hlo_for_each_instr(i, l->cond)
    if (hlo_is_root(i) || hlo_has_side_effect(i)) mark_dependencies(cond, i, &work);
  hlo_for_each_instr(i, l->body)
    if (hlo_has_side_effect(i)) mark_dependencies(body, i, &work);
  for (u32 k = 0; k < l->n; k++)
    if (!live[k] && (pass_is_unfinished(hlo_operand(l->body->root, k)) ||
                     (l->in && pass_is_unfinished(hlo_operand(l->in, k)))))
      live[k] = true, hs_vec_push(&work, k);
  bool whole = hlo_is_root(l->w);
  hlo_for_each_use(u, l->w) whole |= u->user->opcode != HLO_GET_TUPLE_ELEMENT;
  hlo_for_each_use(u, l->w) {
    if (u->user->opcode != HLO_GET_TUPLE_ELEMENT) continue;
    u32 k = (u32)hlo_attr_int(u->user, HLO_ATTR_INDEX, 0);
    // An invariant element's users read the initial value instead.
    bool tied = hlo_is_controlled(u->user);
    if (!live[k] && (tied || !pass_loop_invariant(l, k))) live[k] = true, hs_vec_push(&work, k);
  }
  for (u32 k = 0; whole && k < l->n; k++)
    if (!live[k] && !pass_loop_invariant(l, k)) live[k] = true, hs_vec_push(&work, k);
  while (work.n) mark_dependencies(body, hlo_operand(l->body->root, hs_vec_pop(&work)), &work);
  hs_vec_free(&work);
  u32 n = 0;
  for (u32 k = 0; k < l->n; k++) n += live[k];
  return n;
}

// Redirects the users of invariant elements to the initial value: of elements with !keep[k], or of
// all (NULL).
static bool bypass_invariants(pass_ctx *c, pass_loop *l, const bool *keep) {
  bool any = false;
  for (hlo_use *u = l->w->first_use, *next; u; u = next) {
    next = u->next;
    hlo_instr *g = u->user;
    if (g->opcode != HLO_GET_TUPLE_ELEMENT || hlo_is_controlled(g) || g->dead) continue;
    u32 k = (u32)hlo_attr_int(g, HLO_ATTR_INDEX, 0);
    if (!pass_loop_invariant(l, k) || (keep && keep[k])) continue;
    hlo_instr *in = pass_element(hlo_operand(l->w, 0), k);
    if (in->shape != g->shape && in->shape->logical != g->shape->logical) continue;
    if (!g->nuses && !hlo_is_root(g)) continue;
    if (!keep && !pass_may_rewrite(c)) return any;
    pass_note_done(c, g, l->w, "element %u is invariant", k);
    hlo_replace_uses(g, in);
    any = true;
  }
  for (hlo_use *u = l->w->first_use, *next; u; u = next) {
    next = u->next;
    if (u->user->opcode == HLO_GET_TUPLE_ELEMENT && !u->user->nuses && !hlo_is_root(u->user) &&
        hlo_is_removable(u->user))
      hlo_remove(u->user);
  }
  return any;
}

static bool drop_dead_elements(pass_ctx *c, pass_loop *l) {
  if (!by_elements(l)) {
    pass_note_declined(c, l->w, NULL, "its state is read as a whole");
    return false;
  }
  bool *live = HS_NEW_ARRAY(c->scratch, bool, l->n + 1);
  liveness body = liveness_of(c, l->body, live), cond = liveness_of(c, l->cond, live);
  u32 n = find_live(l, live, &body, &cond);
  if (n == l->n || !pass_may_rewrite(c)) return false;
  release_dead(l->body, &body);
  release_dead(l->cond, &cond);
  pass_note_done(c, l->w, NULL, "%u of %u state elements dropped", l->n - n, l->n);
  pass_read_by_element(l->w, c->scratch);
  bypass_invariants(c, l, live);
  pass_loop_narrow(l, live, c->scratch);
  return true;
}

// ---- repeated elements --------------------------------------------------------------------------
// Whether the body updates elements j and k by the same slice at the same indices.
static bool same_update(const pass_loop *l, const hlo_instr *a, u32 j, const hlo_instr *b, u32 k) {
  if (a->opcode != HLO_DYNAMIC_UPDATE_SLICE || b->opcode != HLO_DYNAMIC_UPDATE_SLICE ||
      a->noperands != b->noperands)
    return false;
  if (!pass_loop_reads_element(l, hlo_operand(a, 0), j) ||
      !pass_loop_reads_element(l, hlo_operand(b, 0), k))
    return false;
  for (u32 o = 1; o < a->noperands; o++)
    if (hlo_operand(a, o) != hlo_operand(b, o)) return false;
  return true;
}

// Whether elements j < k have equal initial values and equal updates: both passed through or
// written with the same slices, or (computed) both set to one value.
static bool always_equal(const pass_loop *l, u32 j, u32 k, bool computed) {
  if (hlo_operand(l->in, j) != hlo_operand(l->in, k)) return false;
  const hlo_instr *a = hlo_operand(l->body->root, j), *b = hlo_operand(l->body->root, k);
  return computed ? a == b
                  : (pass_loop_invariant(l, j) && pass_loop_invariant(l, k)) ||
                        same_update(l, a, j, b, k);
}

static void redirect_element(hlo_instr *tuple, const u32 *to) {
  for (hlo_use *u = tuple->first_use, *next; u; u = next) {
    next = u->next;
    u32 k = u->user->opcode == HLO_GET_TUPLE_ELEMENT ? (u32)hlo_attr_int(u->user, HLO_ATTR_INDEX, 0)
                                                     : 0;
    if (u->user->opcode == HLO_GET_TUPLE_ELEMENT && to[k] != k)
      hlo_set_attr_int(u->user, HLO_ATTR_INDEX, to[k]);
  }
}

static bool merge_repeated(pass_ctx *c, pass_loop *l, bool computed) {
  if (!l->in || !by_elements(l) || l->n > 512) return false;
  u32 *to = HS_NEW_ARRAY(c->scratch, u32, l->n + 1), found = 0;
  bool *keep = HS_NEW_ARRAY(c->scratch, bool, l->n + 1);
  for (u32 k = 0; k < l->n; k++) {
    u32 j = 0;
    while (j < k && !(to[j] == j && always_equal(l, j, k, computed))) j++;
    to[k] = j, keep[k] = j == k, found += j != k;
    if (j != k) pass_note_done(c, l->w, NULL, "state element %u always equals element %u", k, j);
  }
  if (!found || !pass_may_rewrite(c)) return false;
  pass_read_by_element(l->w, c->scratch);
  bypass_invariants(c, l, keep);
  redirect_element(l->w, to);
  redirect_element(l->cond->params[0], to);
  redirect_element(l->body->params[0], to);
  pass_loop_narrow(l, keep, c->scratch);
  return true;
}

// ---- constants ----------------------------------------------------------------------------------
static void read_constant(hlo_computation *comp, hlo_instr *tuple, u32 k,
                          const hlo_instr *constant) {
  hlo_instr *copy = NULL;
  for (hlo_use *u = tuple->first_use, *next; u; u = next) {
    next = u->next;
    hlo_instr *g = u->user;
    if (g->opcode != HLO_GET_TUPLE_ELEMENT || hlo_attr_int(g, HLO_ATTR_INDEX, -1) != (i64)k ||
        (!g->nuses && !hlo_is_root(g)))
      continue;
    if (!copy) copy = hlo_clone_instr(comp, constant, NULL, 0, NULL);
    hlo_replace_uses(g, copy);
  }
}

// Removes elements that start as a constant and that the body sets to the same constant.
static bool drop_constant_elements(pass_ctx *c, pass_loop *l) {
  if (!l->in || l->body->root->opcode != HLO_TUPLE) return false;
  bool *keep = HS_NEW_ARRAY(c->scratch, bool, l->n + 1);
  u32 n = 0;
  for (u32 k = 0; k < l->n; k++) {
    const hlo_instr *a = hlo_operand(l->in, k), *b = hlo_operand(l->body->root, k);
    keep[k] = a->opcode != HLO_CONSTANT || b->opcode != HLO_CONSTANT ||
              hlo_literal_has_elided(hlo_constant_value(a)) ||
              !hlo_literal_equal(hlo_constant_value(a), hlo_constant_value(b));
    n += keep[k];
  }
  if (n == l->n || !pass_may_rewrite(c)) return false;
  pass_note_done(c, l->w, NULL, "%u of %u state elements are constants", l->n - n, l->n);
  if (n == 0) {
    hlo_replace(l->w, l->in);
    return true;
  }
  pass_loop_normalize(l, c->scratch);
  pass_read_by_element(l->w, c->scratch);
  for (u32 k = 0; k < l->n; k++) {
    if (keep[k]) continue;
    const hlo_instr *constant = hlo_operand(l->in, k);
    read_constant(l->body, l->body->params[0], k, constant);
    read_constant(l->cond, l->cond->params[0], k, constant);
    read_constant(l->w->parent, l->w, k, constant);
  }
  pass_loop_narrow(l, keep, c->scratch);
  return true;
}

// Propagates invariant scalar constants into body and condition. The body sets their elements to
// them as well, so that the next run removes those (drop_constant_elements).
static void propagate_constants(pass_ctx *c, pass_loop *l) {
  if (l->body->root->opcode != HLO_TUPLE) return;
  for (u32 k = 0; k < l->n; k++) {
    hlo_instr *constant = pass_loop_constant(l, k);
    if (!constant || constant->opcode != HLO_CONSTANT || constant->shape->rank ||
        !pass_loop_invariant(l, k))
      continue;
    if (!pass_may_rewrite(c)) return;
    pass_note_done(c, l->w, constant, "element %u is the constant %s", k, constant->name);
    read_constant(l->body, l->body->params[0], k, constant);
    read_constant(l->cond, l->cond->params[0], k, constant);
  }
}

// Folds a comparison of the counter with a constant that has one result over the counter's range.
static bool drop_comparison(pass_ctx *c, pass_loop *l) {
  i64 k = -1, start = 0, step = 0, trips = hlo_trip_count_pattern(l->w, &k, &start, &step), at;
  if (trips < 1) return false;
  i64 last;
  if (!hs_mul_ok(step, trips - 1, &last) || !hs_add_ok(start, last, &last)) return false;
  i64 low = HS_MIN(start, last), high = HS_MAX(start, last);
  hlo_for_each_instr(i, l->body) {
    if (i->opcode != HLO_COMPARE || !pass_loop_reads_element(l, hlo_operand(i, 0), (u32)k) ||
        hlo_operand(i, 1)->opcode != HLO_CONSTANT || i->shape->rank)
      continue;
    i64 direction = hlo_attr_int(i, HLO_ATTR_DIRECTION, -1);
    if (!pass_const_i64(hlo_operand(i, 1), &at) ||
        (direction != HLO_DIRECTION_LT && direction != HLO_DIRECTION_GT))
      continue;
    bool less = direction == HLO_DIRECTION_LT, always = less ? high < at : low > at,
         never = less ? low >= at : high <= at;
    if ((!always && !never) || !pass_may_rewrite(c)) continue;
    pass_note_done(c, i, l->w, "the counter goes from %lld to %lld", (long long)low,
                   (long long)high);
    hlo_replace(i, hlo_build_scalar_i64(l->body, HLO_PRED, always));
    return true;
  }
  return false;
}

// ---- the pass -----------------------------------------------------------------------------------
typedef struct while_options {
  bool compare, merge, bypass;
} while_options;

// Does the first rewrite that applies.
static void simplify_loop(pass_ctx *c, hlo_instr *w, const while_options *o) {
  pass_loop l;
  if (!pass_loop_of(c, w, &l)) return;
  if (o->bypass) bypass_invariants(c, &l, NULL);
  if (l.held) pass_note_declined(c, w, NULL, "it has control dependencies");
  if (!l.held &&
      (merge_repeated(c, &l, false) || pass_loop_flatten(c, &l) || drop_dead_elements(c, &l) ||
       drop_constant_elements(c, &l) || merge_repeated(c, &l, true)))
    return;
  if (o->compare && drop_comparison(c, &l)) return;
  if (pass_comp_any(l.body, is_transfer, c->scratch) ||
      pass_comp_any(l.cond, is_transfer, c->scratch)) {
    pass_note_declined(c, w, NULL, "it sends or receives");
    return;
  }
  bool domains =
      pass_comp_any(l.body, is_domain, c->scratch) || pass_comp_any(l.cond, is_domain, c->scratch);
  propagate_constants(c, &l);
  if (l.held || unroll_trivial(c, &l) || !o->merge) return;
  if (domains) {
    pass_note_declined(c, w, NULL, "a domain instruction uses its state");
    return;
  }
  pass_loop_merge_counters(c, &l);
}

static hs_status run(pass_ctx *c) {
  while_options o = {pass_option_bool(c, "simplify_compare_instrs"),
                     pass_option_bool(c, "merge_induction_variables"),
                     pass_option_bool(c, "bypass_invariants")};
  u32 *counts = pass_caller_counts(c);
  u64 generation = c->m->generation;
  // Inner loops first: the counts would not know of the callers that a body's inlining adds.
  u32 n;
  hlo_computation **comps = pass_comp_callees_first(c, &n);
  HS_VEC(hlo_instr *) whiles = {0};
  for (u32 x = 0; x < n; x++)
    hlo_for_each_instr(i, comps[x])
      if (i->opcode == HLO_WHILE) hs_vec_push(&whiles, i);
  hs_status s = HS_GOOD;
  for (size_t k = 0; hs_ok(s) && k < whiles.n; k++) {
    hlo_instr *w = whiles.v[k];
    s = hs_poll();
    if (!hs_ok(s) || w->dead || w->parent->dead) continue;
    const hlo_computation *body = hlo_attr_comp(w, HLO_ATTR_BODY),
                          *cond = hlo_attr_comp(w, HLO_ATTR_CONDITION);
    bool shared = (body->id < counts[0] && counts[1 + body->id] > 1) ||
                  (cond->id < counts[0] && counts[1 + cond->id] > 1);
    if (shared) pass_note_declined(c, w, NULL, "its body or condition has other callers");
    else if (pass_loop_is_pinned(w))
      pass_note_declined(c, w, NULL, "its frontend attributes forbid changes");
    else simplify_loop(c, w, &o);
  }
  hs_vec_free(&whiles);
  HS_TRY(s);
  return generation != c->m->generation ? pass_remove_unused(c) : HS_GOOD;
}

static const pass_option_info options[] = {
    {"simplify_compare_instrs", PASS_BOOL, "false",
     "fold comparisons in the body that the counter's range decides"},
    {"merge_induction_variables", PASS_BOOL, "true",
     "compute elements with a constant increment from one counter"},
    {"bypass_invariants", PASS_BOOL, "false",
     "redirect users of invariant elements to their initial values"},
};

const pass_info pass_simplify_while_loops = {
    .name = "simplify-while-loops",
    .summary = "removes trivial loops and dead loop state",
    .xla_source = "xla/service/while_loop_simplifier.cc",
    .run = run,
    .needs = {HLO_WHILE},
    .again = true,
    .options = options,
    .noptions = HS_COUNT(options),
    .sample = "body {\n"
              "  s = (s32[], f32[4]) parameter(0)\n"
              "  i = s32[] get-tuple-element(s), index=0\n"
              "  one = s32[] constant(1)\n"
              "  next = s32[] add(i, one)\n"
              "  x = f32[4] get-tuple-element(s), index=1\n"
              "  y = f32[4] exponential(x)\n"
              "  ROOT t = (s32[], f32[4]) tuple(next, y)\n"
              "}\n"
              "cond {\n  seen = (s32[], f32[4]) parameter(0)\n"
              "  count = s32[] get-tuple-element(seen), index=0\n"
              "  times = s32[] constant(1)\n"
              "  ROOT go = pred[] compare(count, times), direction=LT\n}\n"
              "ENTRY e {\n"
              "  v = f32[4] parameter(0)\n"
              "  zero = s32[] constant(0)\n"
              "  start = (s32[], f32[4]) tuple(zero, v)\n"
              "  w = (s32[], f32[4]) while(start), condition=cond, body=body\n"
              "  ROOT r = f32[4] get-tuple-element(w), index=1\n"
              "}\n",
};
