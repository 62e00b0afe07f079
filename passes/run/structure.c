// structure.c — structural equality and hashes of instructions and computations: names,
// annotations and the order of the instruction list do not count.
//
// Two computations are compared by a parallel traversal from their roots, with a table that maps
// each visited instruction of the first to its counterpart in the second. Instructions that the
// root does not reach are dead or have side effects: the dead ones are compared by number only, and
// one with side effects makes the computations different. Equal computations have equal hashes.
//
// Called computations are shared, so following every call would take time exponential in the depth
// of the call graph. A comparison therefore keeps the pairs of computations that must be equal in a
// queue without duplicates, and compares each pair once: the result is the conjunction of all
// pairs, so their order does not matter. Hashes are memoized by computation id and found callees
// first, with an explicit stack. The counterpart in XLA is HloComputation::EqualInternal
// (xla/hlo/ir/hlo_computation.cc).
#include "passes/run/rewrite.h"

// Positions of a computation's instructions in its list: indices for tables of ninstrs entries.
static hlo_positions list_positions(const hlo_computation *c, hs_arena *a) {
  hlo_instr **v = HS_NEW_ARRAY(a, hlo_instr *, c->ninstrs + 1);
  u32 n = 0;
  hlo_for_each_instr(i, c) v[n++] = i;
  return hlo_positions_in(n, v, a);
}

static bool skip_calls(hlo_attr_id id) {
  hlo_attr_kind k = hlo_attr_kind_of(id);
  return hlo_attr_is_annotation(id) || k == HLO_AK_COMP || k == HLO_AK_COMPS;
}
static bool skip_sharding(hlo_attr_id id) { return id == HLO_ATTR_SHARDING || skip_calls(id); }

// Equality of the annotations that count: backend configurations, and shardings where both
// instructions have one.
static bool annotated_alike(const hlo_instr *a, const hlo_instr *b) {
  const hlo_backend_config *x = hlo_attr_ptr(a, HLO_ATTR_BACKEND_CONFIG),
                           *y = hlo_attr_ptr(b, HLO_ATTR_BACKEND_CONFIG);
  if (!hs_str_eq(x ? x->text : (hs_str){0}, y ? y->text : (hs_str){0})) return false;
  const hlo_attr *s = hlo_attr_get(a, HLO_ATTR_SHARDING), *t = hlo_attr_get(b, HLO_ATTR_SHARDING);
  if (s && t && !hlo_attr_equal(s, t)) return false;
  const hs_str *u = pass_frontend(a, "xla.sdy.sharding"), *v = pass_frontend(b, "xla.sdy.sharding");
  return !u || !v || hs_str_eq(*u, *v);
}

// ---- queues of computations ---------------------------------------------------------------------
// The slot of a pair, or the free one where it belongs. All first members are of one module and all
// second members of one module, so ids identify them.
static u32 *pair_slot(const pass_comp_queue *q, const hlo_computation *a,
                      const hlo_computation *b) {
  u32 at = (u32)hs_mix(a->id, b->id) & (q->nslots - 1);
  while (q->slots[at]) {
    const pass_comp_pair *p = &q->v.v[q->slots[at] - 1];
    if (p->a == a && p->b == b) break;
    at = (at + 1) & (q->nslots - 1);
  }
  return &q->slots[at];
}

bool pass_comp_queue_add(pass_comp_queue *q, hlo_computation *a, hlo_computation *b) {
  if (2 * q->v.n >= q->nslots) {
    q->nslots = q->nslots ? 2 * q->nslots : 16;
    hs_free(q->slots);
    q->slots = hs_calloc(q->nslots, sizeof *q->slots);
    for (u32 k = 0; k < q->v.n; k++) *pair_slot(q, q->v.v[k].a, q->v.v[k].b) = k + 1;
  }
  u32 *slot = pair_slot(q, a, b);
  if (*slot) return false;
  pass_comp_pair p = {a, b};
  hs_vec_push(&q->v, p);
  *slot = (u32)q->v.n;
  return true;
}

void pass_comp_queue_free(pass_comp_queue *q) {
  hs_vec_free(&q->v);
  hs_free(q->slots);
  *q = (pass_comp_queue){0};
}

void pass_comp_queue_add_called(pass_comp_queue *q, const hlo_instr *i, hs_arena *scratch) {
  hlo_computation **v;
  u32 n;
  pass_called_all(i, scratch, &v, &n);
  for (u32 k = 0; k < n; k++) pass_comp_queue_add(q, v[k], v[k]);
}

bool pass_comp_any(const hlo_computation *c, bool (*is)(const hlo_instr *), hs_arena *scratch) {
  pass_comp_queue q = {0};
  pass_comp_queue_add(&q, (hlo_computation *)c, (hlo_computation *)c);
  bool any = false;
  for (size_t k = 0; k < q.v.n && !any; k++)
    hlo_for_each_instr(i, q.v.v[k].a) {
      if ((any = is(i))) break;
      pass_comp_queue_add_called(&q, i, scratch);
    }
  pass_comp_queue_free(&q);
  return any;
}

// ---- hashes -------------------------------------------------------------------------------------
static u32 hashed_callees(const hlo_instr *i) {
  return hlo_op_has(i->opcode, HLO_F_CALLS) ? hlo_ncalled(i) : 0;
}

u64 pass_attrs_hash(const hlo_instr *i, u64 seed, u64 *memo) {
  u64 h = hlo_attrs_hash(i->attrs, seed, skip_sharding);
  u32 n = hashed_callees(i);
  for (u32 k = 0; k < n; k++) h = hs_mix(h, pass_comp_hash(hlo_called(i, k), memo));
  return n ? hs_mix(h, n) : h;
}

// The hash of a computation whose callees are in the memo.
static u64 hash_instructions(const hlo_computation *c, u64 *memo) {
  hs_arena a = {0};
  u32 n = c->ninstrs;
  hlo_instr **order = hlo_post_order(c, &a);
  hlo_positions at = hlo_positions_in(n, order, &a);
  u64 *h = hs_arena_alloc(&a, (n + 1) * sizeof *h);
  for (u32 t = 0; t < n; t++) {
    hlo_instr *i = order[t];
    u64 x = hs_mix(i->opcode, i->shape->logical->hash);
    for (u32 k = 0; k < i->noperands; k++)
      x = hs_mix(x, h[hlo_position_of(&at, hlo_operand(i, k))]);
    h[t] = pass_attrs_hash(i, x, memo);
  }
  u64 out = hs_mix(h[hlo_position_of(&at, c->root)], n) | 1;
  hs_arena_free(&a);
  return out;
}

typedef HS_VEC(hlo_computation *) comp_stack;

static void push_unhashed_callees(const hlo_computation *c, const u64 *memo, comp_stack *stack) {
  hlo_for_each_instr(i, c) {
    for (u32 k = 0; k < hashed_callees(i); k++)
      if (!memo[hlo_called(i, k)->id]) hs_vec_push(stack, hlo_called(i, k));
  }
}

u64 pass_comp_hash(hlo_computation *c, u64 *memo) {
  if (memo[c->id]) return memo[c->id];
  comp_stack stack = {0};
  hs_vec_push(&stack, c);
  while (stack.n) {
    hlo_computation *top = stack.v[stack.n - 1];
    size_t n = stack.n;
    if (!memo[top->id]) push_unhashed_callees(top, memo, &stack);
    if (stack.n > n) continue;
    if (!memo[top->id]) memo[top->id] = hash_instructions(top, memo);
    stack.n--;
  }
  hs_vec_free(&stack);
  return memo[c->id];
}

// ---- equality -----------------------------------------------------------------------------------
// The computations that a comparison requires to be equal.
typedef struct comparison {
  bool layouts;
  hs_arena *scratch;
  pass_comp_queue pairs;
} comparison;

static void require_equal(comparison *q, hlo_computation *a, hlo_computation *b) {
  if (a != b) pass_comp_queue_add(&q->pairs, a, b);
}

// Requires that two instructions call equal computations; false when they call different numbers.
static bool require_calls_equal(comparison *q, const hlo_instr *a, const hlo_instr *b) {
  if (!hlo_op_has(a->opcode, HLO_F_CALLS)) return true;
  hlo_computation **va, **vb;
  u32 na, nb;
  pass_called_all(a, q->scratch, &va, &na);
  pass_called_all(b, q->scratch, &vb, &nb);
  for (u32 k = 0; na == nb && k < na; k++) require_equal(q, va[k], vb[k]);
  return na == nb;
}

static bool shapes_equal(const comparison *q, const hlo_shape *a, const hlo_shape *b) {
  return a == b || (!q->layouts && a->logical == b->logical);
}

static bool plain_attrs_equal(const hlo_instr *a, const hlo_instr *b) {
  return a->attrs == b->attrs || hlo_attrs_equal(a->attrs, b->attrs, skip_calls);
}

// Compares two computations but for what they call, which it adds to the required pairs.
static bool instructions_equal(comparison *q, const hlo_computation *a, const hlo_computation *b) {
  if (a->ninstrs != b->ninstrs || a->nparams != b->nparams ||
      !hs_str_eq(a->execution_thread, b->execution_thread))
    return false;
  hlo_positions at = list_positions(a, q->scratch);
  // position in a -> id of the counterpart in b, plus 1; 0: not visited
  u32 *counterpart = HS_NEW_ARRAY(q->scratch, u32, a->ninstrs + 1);
  for (u32 p = 0; p < a->nparams; p++) {
    if (!shapes_equal(q, a->params[p]->shape, b->params[p]->shape)) return false;
    counterpart[hlo_position_of(&at, a->params[p])] = b->params[p]->id + 1;
  }
  HS_VEC(const hlo_instr *) stack = {0};  // pairs: one of a, then one of b
  hs_vec_push(&stack, a->root);
  hs_vec_push(&stack, b->root);
  bool same = true;
  u32 visited = a->nparams;
  while (same && stack.n) {
    const hlo_instr *y = hs_vec_pop(&stack), *x = hs_vec_pop(&stack);
    u32 *known = &counterpart[hlo_position_of(&at, x)];
    if (*known) {
      same = *known == y->id + 1;
      continue;
    }
    *known = y->id + 1;
    visited++;
    same = x->opcode == y->opcode && x->noperands == y->noperands &&
           shapes_equal(q, x->shape, y->shape) && plain_attrs_equal(x, y) &&
           require_calls_equal(q, x, y);
    for (u32 k = 0; same && k < x->noperands; k++) {
      hs_vec_push(&stack, hlo_operand(x, k));
      hs_vec_push(&stack, hlo_operand(y, k));
    }
  }
  hs_vec_free(&stack);
  if (!same || visited >= a->ninstrs) return same;
  hlo_for_each_instr(i, a)
    if (!counterpart[hlo_position_of(&at, i)] && hlo_has_side_effect(i)) return false;
  return true;
}

// Whether all required pairs are equal, those included that the comparison adds.
static bool pairs_equal(comparison *q) {
  bool same = true;
  for (size_t k = 0; same && k < q->pairs.v.n; k++)
    same = instructions_equal(q, q->pairs.v.v[k].a, q->pairs.v.v[k].b);
  pass_comp_queue_free(&q->pairs);
  return same;
}

static bool calls_equal(const hlo_instr *a, const hlo_instr *b, bool layouts, hs_arena *scratch) {
  comparison q = {.layouts = layouts, .scratch = scratch};
  bool same = require_calls_equal(&q, a, b);
  return pairs_equal(&q) && same;
}

bool pass_attrs_equal(const hlo_instr *a, const hlo_instr *b, bool layouts, hs_arena *scratch) {
  return plain_attrs_equal(a, b) && calls_equal(a, b, layouts, scratch);
}

bool pass_attrs_alike(const hlo_instr *a, const hlo_instr *b, bool layouts, hs_arena *scratch) {
  return (a->attrs == b->attrs ||
          (hlo_attrs_equal(a->attrs, b->attrs, skip_sharding) && annotated_alike(a, b))) &&
         calls_equal(a, b, layouts, scratch);
}

bool pass_comp_equal(const hlo_computation *a, const hlo_computation *b, bool layouts,
                     hs_arena *scratch) {
  comparison q = {.layouts = layouts, .scratch = scratch};
  require_equal(&q, (hlo_computation *)a, (hlo_computation *)b);
  return pairs_equal(&q);
}
