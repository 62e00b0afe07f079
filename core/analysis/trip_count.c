// trip_count.c — how often a while loop runs, when its text says so.
//
// Two sources: the known_trip_count that XLA (and our own annotator pass) leaves in backend_config,
// and the pattern that every counted loop has: one element of the state starts at a constant, the
// body adds a constant to it, and the condition compares it with a constant or with an element that
// the body passes through (XLA: ComputeWhileLoopTripCount, MatchTrivialLoopTripCount). The
// arithmetic is done in 128 bits, so that a wrapping counter is never miscounted. What a loop over
// data does is not in its text; for it a number can be stated, which only figures believe.
#include "core/analysis/cost.h"

#include <math.h>
#include <stdlib.h>

// A value seen through the fusions and calls that wrap it: the instruction and, when it lies inside
// such a computation, the caller that feeds its parameters (one level: what XLA's own fusion of
// conditions produces).
typedef struct seen {
  const hlo_instr *i, *caller;
} seen;

static seen resolve(seen s) {
  for (int guard = 0; guard < 64; guard++) {
    switch (s.i->opcode) {
    case HLO_COPY:
    case HLO_BITCAST:
    case HLO_OPT_BARRIER: s.i = hlo_operand(s.i, 0); continue;
    case HLO_PARAMETER:
      if (!s.caller || (u32)hlo_param_number(s.i) >= s.caller->noperands) return s;
      s = (seen){hlo_operand(s.caller, (u32)hlo_param_number(s.i)), NULL};
      continue;
    case HLO_FUSION:
    case HLO_CALL: {
      const hlo_computation *c = hlo_fusion_comp(s.i);
      if (!c || s.caller) return s;
      s = (seen){c->root, s.i};
      continue;
    }
    case HLO_GET_TUPLE_ELEMENT: {
      const hlo_instr *t = hlo_operand(s.i, 0);
      i64 k = hlo_attr_int(s.i, HLO_ATTR_INDEX, 0);
      if (t->opcode != HLO_TUPLE || k < 0 || (u32)k >= t->noperands) return s;
      s.i = hlo_operand(t, (u32)k);
      continue;
    }
    default: return s;
    }
  }
  return s;
}

// Whether the type holds the value.
static bool holds(hlo_dtype t, i128 v) {
  int bits = hlo_dtype_bits(t);
  if (bits <= 0) return false;  // a token or an opaque value holds none
  if (hlo_dtype_is_unsigned(t))
    return v >= 0 && v <= INT64_MAX && (bits >= 63 || v < ((i128)1 << bits));
  return v >= -((i128)1 << (bits - 1)) && v < ((i128)1 << (bits - 1));
}

// An integer that constants say, by themselves or by a sum, a product or a conversion of them that
// does not wrap.
static bool folded_value(seen s, i64 *out, int depth) {
  s = resolve(s);
  hlo_opcode op = s.i->opcode;
  const hlo_literal *l = op == HLO_CONSTANT ? hlo_constant_value(s.i) : NULL;
  if (l) {
    if (l->elided || l->shape->elements != 1 ||
        (!hlo_dtype_is_integer(l->shape->dtype) && l->shape->dtype != HLO_PRED))
      return false;
    *out = hlo_literal_i64(l, 0);
    return true;
  }
  bool two = op == HLO_ADD || op == HLO_SUBTRACT || op == HLO_MULTIPLY,
       one = op == HLO_CONVERT || op == HLO_NEGATE || op == HLO_BROADCAST || op == HLO_RESHAPE;
  if ((!one && !two) || depth == 0 || s.i->shape->elements != 1 ||
      !hlo_dtype_is_integer(s.i->shape->dtype))
    return false;
  i64 a, b = 0;
  if (!folded_value((seen){hlo_operand(s.i, 0), s.caller}, &a, depth - 1) ||
      (two && !folded_value((seen){hlo_operand(s.i, 1), s.caller}, &b, depth - 1)))
    return false;
  i128 v = op == HLO_ADD        ? (i128)a + b
           : op == HLO_SUBTRACT ? (i128)a - b
           : op == HLO_MULTIPLY ? (i128)a * b
           : op == HLO_NEGATE   ? -(i128)a
                                : a;
  if (!holds(s.i->shape->dtype, v)) return false;
  *out = (i64)v;
  return true;
}

static bool scalar_value(seen s, i64 *out) { return folded_value(s, out, 8); }

// Element number of the state that `s` reads directly, or -1.
static i64 state_element(seen s, const hlo_computation *loop) {
  s = resolve(s);
  if (s.i->opcode == HLO_PARAMETER && s.i->parent == loop) return 0;
  if (s.i->opcode != HLO_GET_TUPLE_ELEMENT || s.i->parent != loop ||
      hlo_operand(s.i, 0)->opcode != HLO_PARAMETER)
    return -1;
  return hlo_attr_int(s.i, HLO_ATTR_INDEX, -1);
}

static seen element_of(const hlo_instr *tuple, i64 k) {
  const hlo_instr *t = tuple;
  while (t->opcode == HLO_COPY || t->opcode == HLO_OPT_BARRIER) t = hlo_operand(t, 0);
  if (t->opcode == HLO_TUPLE && k >= 0 && (u32)k < t->noperands)
    return (seen){hlo_operand(t, (u32)k), NULL};
  return (seen){t, NULL};
}

// The constant that one iteration adds to element k; false when it does something else.
static bool step_of(const hlo_computation *body, i64 k, i64 *step) {
  seen r = resolve(element_of(body->root, k));
  if ((r.i->opcode != HLO_ADD && r.i->opcode != HLO_SUBTRACT) || r.i->noperands != 2) return false;
  seen a = {hlo_operand(r.i, 0), r.caller}, b = {hlo_operand(r.i, 1), r.caller};
  if (state_element(a, body) == k && scalar_value(b, step)) {
    if (r.i->opcode == HLO_SUBTRACT) *step = -*step;
    return *step != INT64_MIN;
  }
  return r.i->opcode == HLO_ADD && state_element(b, body) == k && scalar_value(a, step);
}

static i64 annotated(const hlo_instr *w) {
  const hlo_backend_config *c = hlo_attr_ptr(w, HLO_ATTR_BACKEND_CONFIG);
  if (!c || !c->text.p) return -1;
  const char *p = memmem(c->text.p, c->text.n, "known_trip_count", 16),
             *end = c->text.p + c->text.n;
  if (!p) return -1;
  while (p < end && (*p < '0' || *p > '9') && *p != '}') p++;
  i64 n = 0;
  bool any = false;
  for (; p < end && *p >= '0' && *p <= '9'; p++) {
    if (!hs_mul_ok(n, 10, &n) || !hs_add_ok(n, *p - '0', &n)) return -1;
    any = true;
  }
  return any ? n : -1;
}

static i64 count(i64 init, i64 limit, i64 step, i64 direction) {
  i128 d = (i128)limit - init, s = step, n = -1;
  switch (direction) {
  case HLO_DIRECTION_LT: n = d <= 0 ? 0 : s > 0 ? (d + s - 1) / s : -1; break;
  case HLO_DIRECTION_LE: n = d < 0 ? 0 : s > 0 ? d / s + 1 : -1; break;
  case HLO_DIRECTION_GT: n = d >= 0 ? 0 : s < 0 ? (-d + -s - 1) / -s : -1; break;
  case HLO_DIRECTION_GE: n = d > 0 ? 0 : s < 0 ? -d / -s + 1 : -1; break;
  case HLO_DIRECTION_NE: n = d == 0 ? 0 : s != 0 && d % s == 0 && d / s > 0 ? d / s : -1; break;
  default: break;
  }
  return n >= 0 && n <= INT64_MAX ? (i64)n : -1;
}

// The last value compared must not have wrapped around in the counter's own type.
static bool fits(hlo_dtype t, i64 init, i64 step, i64 n) {
  i128 last = (i128)init + (i128)step * n;
  return hlo_dtype_is_unsigned(t) && hlo_dtype_bits(t) >= 63 ? last >= 0 : holds(t, last);
}

i64 hlo_trip_count_pattern(const hlo_instr *w, i64 *element, i64 *start, i64 *stride) {
  const hlo_computation *cond = hlo_attr_comp(w, HLO_ATTR_CONDITION),
                        *body = hlo_attr_comp(w, HLO_ATTR_BODY);
  if (!cond || !body || !w->noperands || !cond->nparams || !body->nparams) return -1;
  seen root = resolve((seen){cond->root, NULL});
  i64 always;
  if (root.i->opcode == HLO_CONSTANT && scalar_value(root, &always)) return always ? -1 : 0;
  if (root.i->opcode != HLO_COMPARE) return -1;
  seen a = {hlo_operand(root.i, 0), root.caller}, b = {hlo_operand(root.i, 1), root.caller};
  i64 direction = hlo_attr_int(root.i, HLO_ATTR_DIRECTION, -1), init, limit, step;
  for (int swapped = 0; swapped < 2; swapped++) {
    i64 k = state_element(a, cond);
    if (k >= 0 && step_of(body, k, &step) &&
        scalar_value(element_of(hlo_operand(w, 0), k), &init)) {
      i64 j = state_element(b, cond);
      bool known = scalar_value(b, &limit) ||
                   (j >= 0 && state_element(element_of(body->root, j), body) == j &&
                    scalar_value(element_of(hlo_operand(w, 0), j), &limit));
      i64 n = known ? count(init, limit, step, direction) : -1;
      if (element) *element = k;
      if (n < 0 || !fits(hlo_operand(root.i, 0)->shape->dtype, init, step, n)) return -1;
      if (start) *start = init;
      if (stride) *stride = step;
      return n;
    }
    seen t = a;
    a = b, b = t;
    static const i64 mirrored[] = {
        [HLO_DIRECTION_EQ] = HLO_DIRECTION_EQ, [HLO_DIRECTION_NE] = HLO_DIRECTION_NE,
        [HLO_DIRECTION_GE] = HLO_DIRECTION_LE, [HLO_DIRECTION_GT] = HLO_DIRECTION_LT,
        [HLO_DIRECTION_LE] = HLO_DIRECTION_GE, [HLO_DIRECTION_LT] = HLO_DIRECTION_GT};
    if (direction < 0 || direction >= (i64)HS_COUNT(mirrored)) return -1;
    direction = mirrored[direction];
  }
  return -1;
}

i64 hlo_trip_count(const hlo_instr *w) {
  i64 n = annotated(w);
  return n >= 0 ? n : hlo_trip_count_pattern(w, NULL, NULL, NULL);
}

// What is stated of a loop; NULL: nothing.
static const hs_str *stated_trips(const hlo_instr *w) {
  return hlo_frontend_find(hlo_attr_get(w, HLO_ATTR_FRONTEND_ATTRIBUTES), HLO_TRIPS_KEY);
}

double hlo_expected_trips(const hlo_instr *w) {
  i64 n = hlo_trip_count(w);
  if (n >= 0) return (double)n;
  const hs_str *text = stated_trips(w);
  char number[32], *end;
  if (!text || !text->n || text->n >= sizeof number) return -1;
  memcpy(number, text->p, text->n);
  number[text->n] = 0;
  double stated = strtod(number, &end);
  return !*end && isfinite(stated) && stated >= 0 ? stated : -1;
}

void hlo_state_trips(hlo_module *to, const hlo_module *from) {
  hlo_for_each_comp(comp, from)
    hlo_for_each_instr(i, comp) {
      const hs_str *text = i->opcode == HLO_WHILE ? stated_trips(i) : NULL;
      hlo_instr *other = text ? hlo_find_instr(to, i->name) : NULL;
      if (other && other->opcode == HLO_WHILE && !stated_trips(other))
        hlo_set_frontend(other, HLO_TRIPS_KEY, *text);
    }
}
