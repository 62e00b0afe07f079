// loop.c — while loops, and the two kinds of them that need not be run iteration by iteration.
//
// An element of the state that the body passes on unchanged, or makes the constant that it is at
// the start, leaves the loop as it entered. A loop
// of which nothing else is read has no influence on the result, whether it ends or not (XLA removes
// such loops too), so its readers read the initial state. And a loop that does nothing but count
// has a closed form: the counter moves by a constant, wraps around in its own type, and stops at
// the first value that fails the comparison.
#include "core/eval/ops.h"

// ---- elements that pass through -----------------------------------------------------------------
static const hlo_instr *through_copies(const hlo_instr *v) {
  while (v->opcode == HLO_COPY || v->opcode == HLO_OPT_BARRIER) v = hlo_operand(v, 0);
  return v;
}

// The state element that v reads directly in the body or condition c; 0 for a state that is no
// tuple; -1: none.
static i64 element_read(const hlo_instr *v, const hlo_computation *c) {
  v = through_copies(v);
  if (c->nparams != 1) return -1;
  if (v == c->params[0]) return hlo_shape_is_array(v->shape) ? 0 : -1;
  return v->opcode == HLO_GET_TUPLE_ELEMENT && hlo_operand(v, 0) == c->params[0]
             ? hlo_attr_int(v, HLO_ATTR_INDEX, -1)
             : -1;
}

// What the body makes of element k; NULL when its result is not put together in plain sight.
static const hlo_instr *element_made(const hlo_computation *body, i64 k) {
  const hlo_instr *r = body->root;
  if (hlo_shape_is_array(r->shape)) return k == 0 ? r : NULL;
  return r->opcode == HLO_TUPLE && k >= 0 && (u64)k < r->noperands ? hlo_operand(r, (u32)k) : NULL;
}

// The body makes the same constant of element k that the loop starts with.
static bool stays_constant(const hlo_instr *loop, const hlo_instr *made, i64 k) {
  const hlo_instr *init = through_copies(hlo_operand(loop, 0));
  if (hlo_shape_is_tuple(init->shape))
    init = init->opcode == HLO_TUPLE && (u64)k < init->noperands
               ? through_copies(hlo_operand(init, (u32)k))
               : NULL;
  made = through_copies(made);
  if (!init || init->opcode != HLO_CONSTANT || made->opcode != HLO_CONSTANT) return false;
  const hlo_literal *a = hlo_constant_value(init), *b = hlo_constant_value(made);
  return a && b && !a->elided && !b->elided && hlo_literal_equal(a, b);
}

// Types that state other dynamic dimensions give sizes to the state on its way, or end them.
static bool is_of_one_type(const hlo_instr *loop, const hlo_computation *body) {
  const hlo_shape *s = loop->shape->logical;
  return hlo_operand(loop, 0)->shape->logical == s && body->root->shape->logical == s &&
         body->nparams == 1 && body->params[0]->shape->logical == s;
}

static bool passes_through(const hlo_instr *loop, i64 k) {
  const hlo_computation *body = hlo_attr_comp(loop, HLO_ATTR_BODY);
  if (!body || k < 0 || !is_of_one_type(loop, body)) return false;
  const hlo_instr *made = element_made(body, k);
  return made && (element_read(made, body) == k || stays_constant(loop, made, k));
}

bool ev_loop_is_idle(const hlo_instr *loop) {
  if (loop->opcode != HLO_WHILE || hlo_is_root(loop)) return false;
  hlo_for_each_use(u, loop)
    if (u->user->opcode != HLO_GET_TUPLE_ELEMENT ||
        !passes_through(loop, hlo_attr_int(u->user, HLO_ATTR_INDEX, -1)))
      return false;
  return !hlo_has_side_effect(loop);
}

// All of its state passes through: the result is the initial state, however often it runs.
static bool changes_nothing(const hlo_instr *loop) {
  u32 n = hlo_shape_is_tuple(loop->shape) ? loop->shape->nelems : 1;
  for (u32 k = 0; k < n; k++)
    if (!passes_through(loop, k)) return false;
  return !hlo_has_side_effect(loop);
}

// ---- counting loops -----------------------------------------------------------------------------
typedef struct counting {
  i64 counter;
  hlo_dtype type;
  i128 start, step, limit;
  i64 direction;
} counting;

static const hlo_literal *state_part(const hlo_literal *state, i64 k) {
  if (!state->children) return k == 0 ? state : NULL;
  return (u64)k < state->nchildren ? state->children[k] : NULL;
}

// A scalar that does not change between iterations: a constant, or an element other than the
// counter.
static bool steady_value(const hlo_instr *v, const hlo_computation *c, const hlo_literal *state,
                         i64 counter, i128 *out) {
  v = through_copies(v);
  i64 k = element_read(v, c);
  const hlo_literal *l = v->opcode == HLO_CONSTANT ? hlo_constant_value(v)
                         : k >= 0 && k != counter  ? state_part(state, k)
                                                   : NULL;
  if (!l || l->elided || !hlo_shape_is_array(l->shape) || l->shape->elements != 1 ||
      !hlo_dtype_is_integer(l->shape->dtype))
    return false;
  i64 value = hlo_literal_i64(l, 0);
  *out = l->shape->dtype == HLO_U64 ? (i128)(u64)value : (i128)value;
  return true;
}

static i64 mirrored(i64 direction) {
  switch (direction) {
  case HLO_DIRECTION_GE: return HLO_DIRECTION_LE;
  case HLO_DIRECTION_GT: return HLO_DIRECTION_LT;
  case HLO_DIRECTION_LE: return HLO_DIRECTION_GE;
  case HLO_DIRECTION_LT: return HLO_DIRECTION_GT;
  default: return direction;
  }
}

static bool is_counting(const hlo_instr *loop, const hlo_literal *state, counting *c) {
  const hlo_computation *cond = hlo_attr_comp(loop, HLO_ATTR_CONDITION),
                        *body = hlo_attr_comp(loop, HLO_ATTR_BODY);
  const hlo_instr *test = through_copies(cond->root);
  if (test->opcode != HLO_COMPARE || hlo_has_side_effect(loop)) return false;
  const hlo_instr *limit = hlo_operand(test, 1);
  c->direction = hlo_attr_int(test, HLO_ATTR_DIRECTION, -1);
  c->counter = element_read(hlo_operand(test, 0), cond);
  if (c->counter < 0 || passes_through(loop, c->counter)) {
    c->counter = element_read(hlo_operand(test, 1), cond);
    c->direction = mirrored(c->direction);
    limit = hlo_operand(test, 0);
  }
  const hlo_instr *next = c->counter >= 0 ? element_made(body, c->counter) : NULL;
  const hlo_literal *first = next ? state_part(state, c->counter) : NULL;
  if (!first || !hlo_shape_is_array(first->shape) || first->shape->elements != 1 ||
      !hlo_dtype_is_integer(first->shape->dtype))
    return false;
  for (u32 k = 0; k < state->nchildren; k++)
    if (k != c->counter && !passes_through(loop, k)) return false;
  next = through_copies(next);
  if (next->opcode != HLO_ADD && next->opcode != HLO_SUBTRACT) return false;
  bool swapped = next->opcode == HLO_ADD && element_read(hlo_operand(next, 0), body) != c->counter;
  if (element_read(hlo_operand(next, swapped), body) != c->counter) return false;
  if (!steady_value(hlo_operand(next, !swapped), body, state, c->counter, &c->step)) return false;
  if (!steady_value(limit, cond, state, c->counter, &c->limit)) return false;
  if (next->opcode == HLO_SUBTRACT) c->step = -c->step;
  c->type = first->shape->dtype;
  i64 start = hlo_literal_i64(first, 0);
  c->start = c->type == HLO_U64 ? (i128)(u64)start : (i128)start;
  return true;
}

// The value that a counter not equal to its limit reaches it by, if ever: start + n * step = limit
// modulo 2^bits has a solution exactly when the step's power of two divides the distance.
static bool reaches(i128 distance, i128 step, i128 modulus) {
  u64 d = (u64)(distance & (modulus - 1)), s = (u64)(step & (modulus - 1));
  return s && (d & ((s & (~s + 1)) - 1)) == 0;
}

// The counter's value after the last iteration; *ends is false when there is none.
static hs_status last_value(const counting *c, bool *ends, i128 *out) {
  int bits = hlo_dtype_bits(c->type);
  i128 modulus = (i128)1 << bits, min = hlo_dtype_is_signed(c->type) ? -(modulus / 2) : 0,
       max = min + modulus - 1;
  i128 v = c->start, step = c->step, lo = min, hi = max;
  while (step > modulus / 2) step -= modulus;  // the short way around
  while (step <= -(modulus / 2)) step += modulus;
  *ends = step != 0;
  switch (c->direction) {
  case HLO_DIRECTION_NE:
    *ends = v == c->limit || reaches(c->limit - v, step, modulus);
    *out = c->limit;
    return HS_GOOD;
  case HLO_DIRECTION_EQ: lo = hi = c->limit; break;
  case HLO_DIRECTION_LT: hi = c->limit - 1; break;
  case HLO_DIRECTION_LE: hi = c->limit; break;
  case HLO_DIRECTION_GT: lo = c->limit + 1; break;
  case HLO_DIRECTION_GE: lo = c->limit; break;
  default: *ends = false; break;
  }
  // Each round leaves [lo, hi] at one of its sides, perhaps to come back in at the other.
  for (u32 rounds = 0; v >= lo && v <= hi && *ends; rounds++) {
    if (step > 0) v += ((hi - v) / step + 1) * step;
    else v -= ((v - lo) / -step + 1) * -step;
    if (v > max) v -= modulus;
    if (v < min) v += modulus;
    if ((rounds & 0xffff) == 0xffff) HS_TRY(hs_poll());
    if (lo == min && hi == max) *ends = false;
  }
  *out = v;
  return HS_GOOD;
}

// Takes the state and gives the final one when the loop only counts, and ends.
static hs_status count(ev *e, const hlo_instr *loop, hlo_literal **state, bool *done) {
  counting c;
  i128 last = 0;
  *done = false;
  if (!is_counting(loop, *state, &c)) return HS_GOOD;
  HS_TRY(last_value(&c, done, &last));
  // an endless loop is run as one: Ctrl-C ends it
  if (!*done) return HS_GOOD;
  hlo_literal *value;
  HS_TRY(ev_new(e, state_part(*state, c.counter)->shape, &value));
  hlo_literal_set_i64(value, 0, (i64)last);
  if ((*state)->children) {
    u32 n = (*state)->nchildren;
    hlo_literal **part = hs_calloc(n + 1, sizeof *part);
    for (u32 k = 0; k < n; k++)
      part[k] = k == c.counter ? value : hlo_literal_ref((*state)->children[k]);
    value = hlo_literal_tuple((*state)->shape, n, part);
    hs_free(part);
  }
  hlo_literal_unref(*state);
  *state = value;
  return HS_GOOD;
}

static hs_status truth(const hlo_literal *l, bool *out) {
  if (!l || !l->data || l->bytes < 1) return hs_fail(HS_E_RUN, "a condition has no value");
  *out = *(const u8 *)l->data != 0;
  return HS_GOOD;
}

hs_status hlo_eval_while(ev *e, const hlo_instr *i, hlo_literal **ops, hlo_literal **out) {
  const hlo_computation *cond = hlo_attr_comp(i, HLO_ATTR_CONDITION),
                        *body = hlo_attr_comp(i, HLO_ATTR_BODY);
  hlo_literal *state = ops[0];
  ops[0] = NULL;
  bool more = true;
  if (changes_nothing(i)) return *out = state, HS_GOOD;
  hs_status st = count(e, i, &state, &more);
  if (hs_ok(st) && more) {
    *out = state;
    return HS_GOOD;
  }
  for (i64 round = 0; hs_ok(st); round++) {
    if (e->site) e->site->iteration = round;
    hlo_literal *arg = hlo_literal_ref(state), *go = NULL, *next = NULL;
    st = ev_enter(e, cond, &arg, &go);
    if (hs_ok(st)) st = truth(go, &more);
    hlo_literal_unref(go);
    if (!hs_ok(st)) break;
    if (!more) {
      *out = state;
      return HS_GOOD;
    }
    st = ev_enter(e, body, &state, &next);
    state = next;
  }
  hlo_literal_unref(state);
  return st;
}
