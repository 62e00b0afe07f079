// while_trips.c — induction variables and trip counts of while loops
// (xla/hlo/analysis/while_loop_analysis.cc), and the pass that records them
// (xla/hlo/transforms/while_loop_trip_count_annotator.cc).
//
// The induction variable is the only state element that the condition depends on, through scalar
// operations, if its next value depends on nothing else either. The trip count comes from the
// pattern of a counted loop (core/analysis/trip_count.c), or from evaluating condition and update.
// while-loop-trip-count-annotator replaces backend_config by: the induction variable, the trip
// count, start and step of one that counts up from at least 0, and, for bodies that move slices to
// and from the host, the elements that the slices' indices depend on. Users of the induction
// variable after the loop get its final value.
#include "core/eval/eval.h"
#include "passes/control/while_state.h"

// ---- dependencies of scalars --------------------------------------------------------------------
// The call through which a called computation was entered, and the enclosing ones.
typedef struct site {
  const hlo_instr *caller;
  const struct site *outer;
} site;
typedef struct tracer {
  const hlo_instr *state;
  i64 found;
  u32 steps;
  hs_arena *a;
} tracer;

static bool simple_scalar(const hlo_instr *i) {
  return hlo_shape_is_scalar(i->shape) && !hlo_op_has(i->opcode, HLO_F_COLLECTIVE) &&
         !hlo_op_has(i->opcode, HLO_F_CALLS) && !hlo_has_side_effect(i) &&
         i->opcode != HLO_CUSTOM_CALL && i->opcode != HLO_PARTITION_ID &&
         i->opcode != HLO_REPLICA_ID;
}

// Follows element e of i (-1: i itself, a scalar) back to the state; false when it depends on more
// than one element of it, or on something else. t->found: that element, -1 while there is none.
static bool trace(tracer *t, const hlo_instr *i, i64 e, const site *at) {
  enum { MOST_STEPS = 1000 };
  if (t->steps++ >= MOST_STEPS) return false;
  if (e < 0 && !hlo_shape_is_scalar(i->shape)) return false;
  if (i == t->state) {
    bool same = e >= 0 && (t->found < 0 || t->found == e);
    if (same) t->found = e;
    return same;
  }
  switch (i->opcode) {
  case HLO_PARAMETER:
    return at && (u64)hlo_param_number(i) < at->caller->noperands &&
           trace(t, hlo_operand(at->caller, (u32)hlo_param_number(i)), e, at->outer);
  case HLO_GET_TUPLE_ELEMENT:
    return e < 0 && trace(t, hlo_operand(i, 0), hlo_attr_int(i, HLO_ATTR_INDEX, -1), at);
  case HLO_TUPLE:
    return e >= 0 && (u64)e < i->noperands && trace(t, hlo_operand(i, (u32)e), -1, at);
  case HLO_COPY: return trace(t, hlo_operand(i, 0), e, at);
  case HLO_FUSION:
  case HLO_CALL: {
    site *inner = HS_NEW(t->a, site);
    *inner = (site){i, at};
    const hlo_computation *c = hlo_fusion_comp(i);
    return c && trace(t, c->root, e, inner);
  }
  default: break;
  }
  if (e >= 0 || !simple_scalar(i)) return false;
  for (u32 k = 0; k < i->noperands; k++)
    if (!trace(t, hlo_operand(i, k), -1, at)) return false;
  return true;
}

static i64 depends_on(const hlo_instr *i, const hlo_instr *state, hs_arena *a) {
  tracer t = {.state = state, .found = -1, .a = a};
  return hlo_shape_is_tuple(state->shape) && trace(&t, i, -1, NULL) ? t.found : -1;
}

i64 pass_loop_counter(const hlo_instr *w, hs_arena *a) {
  const hlo_computation *cond = hlo_attr_comp(w, HLO_ATTR_CONDITION),
                        *body = hlo_attr_comp(w, HLO_ATTR_BODY);
  if (cond->nparams != 1 || body->nparams != 1 || hlo_operand(w, 0)->opcode != HLO_TUPLE ||
      body->root->opcode != HLO_TUPLE)
    return -1;
  i64 k = depends_on(cond->root, cond->params[0], a);
  return k >= 0 && (u64)k < body->root->noperands &&
                 depends_on(hlo_operand(body->root, (u32)k), body->params[0], a) == k
             ? k
             : -1;
}

// ---- trip counts by evaluation ------------------------------------------------------------------
static hlo_literal *computed(const hlo_instr *i, u32 n, hlo_literal *const *ops) {
  hlo_literal *out = NULL;
  hlo_computation *c = hlo_op_has(i->opcode, HLO_F_CALLS) ? hlo_fusion_comp(i) : NULL;
  bool calls = i->opcode == HLO_FUSION || i->opcode == HLO_CALL;
  if (!hlo_shape_is_array(i->shape) || (c && !calls) || hlo_has_side_effect(i)) return NULL;
  hs_status s =
      c ? hlo_eval_computation(c, n, ops, NULL, &out) : hlo_eval_instr(i, n, ops, NULL, &out);
  if (!hs_ok(s)) hs_status_drop(s);
  return hs_ok(s) ? out : NULL;
}

// The value of `i` when its operands are constants and element k of the state, whose value is `at`;
// else NULL.
static hlo_literal *value_at(const hlo_instr *i, const hlo_instr *state, u32 k, hlo_literal *at) {
  hlo_literal *ops[8];
  if (i->noperands > HS_COUNT(ops) || !i->noperands) return NULL;
  for (u32 o = 0; o < i->noperands; o++) {
    const hlo_instr *x = hlo_operand(i, o);
    bool element = state && x->opcode == HLO_GET_TUPLE_ELEMENT && hlo_operand(x, 0) == state &&
                   hlo_attr_int(x, HLO_ATTR_INDEX, -1) == (i64)k;
    if (!element && (x->opcode != HLO_CONSTANT || hlo_literal_has_elided(hlo_constant_value(x))))
      return NULL;
    ops[o] = element ? at : (hlo_literal *)hlo_constant_value(x);
  }
  return computed(i, i->noperands, ops);
}

// The initial value of a state element: a constant, or computed from constants; NULL: unknown.
static hlo_literal *first_value(const hlo_instr *i) {
  for (;;) {
    if (i->opcode == HLO_COPY) i = hlo_operand(i, 0);
    else if (i->opcode == HLO_GET_TUPLE_ELEMENT && hlo_operand(i, 0)->opcode == HLO_TUPLE)
      i = hlo_operand(hlo_operand(i, 0), (u32)hlo_attr_int(i, HLO_ATTR_INDEX, 0));
    else break;
  }
  if (i->opcode != HLO_CONSTANT) return value_at(i, NULL, 0, NULL);
  return hlo_literal_has_elided(hlo_constant_value(i)) ? NULL
                                                       : hlo_literal_ref(hlo_constant_value(i));
}

static i64 evaluated_trips(const hlo_instr *w, i64 k, i64 most) {
  const hlo_computation *cond = hlo_attr_comp(w, HLO_ATTR_CONDITION),
                        *body = hlo_attr_comp(w, HLO_ATTR_BODY);
  i64 trips = -1;
  hlo_literal *at = first_value(hlo_operand(hlo_operand(w, 0), (u32)k));
  for (i64 n = 0; at && n <= most && trips < 0; n++) {
    hlo_literal *go = value_at(cond->root, cond->params[0], (u32)k, at);
    hlo_literal *next = go && hlo_literal_i64(go, 0)
                            ? value_at(hlo_operand(body->root, (u32)k), body->params[0], (u32)k, at)
                            : NULL;
    if (go && !hlo_literal_i64(go, 0)) trips = n;
    hlo_literal_unref(go);
    hlo_literal_unref(at);
    at = next;
  }
  hlo_literal_unref(at);
  return trips;
}

i64 pass_loop_trips(const hlo_instr *w, i64 most, hs_arena *a) {
  i64 trips = hlo_trip_count_pattern(w, NULL, NULL, NULL),
      k = trips < 0 ? pass_loop_counter(w, a) : -1;
  return k >= 0 ? evaluated_trips(w, k, most) : trips;
}

bool pass_loop_runs_once(const pass_loop *l) {
  const hlo_instr *param = l->cond->params[0], *root = l->body->root;
  if (param->nuses != 1 || param->first_use->user->opcode != HLO_GET_TUPLE_ELEMENT ||
      root->opcode != HLO_TUPLE)
    return false;
  const hlo_instr *read = param->first_use->user,
                  *set = hlo_operand(root, (u32)hlo_attr_int(read, HLO_ATTR_INDEX, 0));
  if (set->opcode != HLO_CONSTANT || hlo_literal_has_elided(hlo_constant_value(set))) return false;
  hs_arena a = {0};
  hlo_instr **order = hlo_post_order(l->cond, &a);
  hlo_positions position = hlo_positions_in(l->cond->ninstrs, order, &a);
  hlo_literal **value = HS_NEW_ARRAY(&a, hlo_literal *, l->cond->ninstrs + 1);
  for (u32 t = 0; t < l->cond->ninstrs; t++) {
    const hlo_instr *i = order[t];
    hlo_literal **ops = HS_NEW_ARRAY(&a, hlo_literal *, i->noperands + 1);
    bool known = i != param;
    for (u32 k = 0; k < i->noperands && i != read; k++)
      known &= (ops[k] = value[hlo_position_of(&position, hlo_operand(i, k))]) != NULL;
    if (i == read) value[t] = hlo_literal_ref(hlo_constant_value(set));
    else if (i->opcode == HLO_CONSTANT && !hlo_literal_has_elided(hlo_constant_value(i)))
      value[t] = hlo_literal_ref(hlo_constant_value(i));
    else if (known && i->noperands) value[t] = computed(i, i->noperands, ops);
  }
  const hlo_literal *again = value[hlo_position_of(&position, l->cond->root)];
  bool once = again && !hlo_literal_i64(again, 0);
  for (u32 t = 0; t < l->cond->ninstrs; t++) hlo_literal_unref(value[t]);
  hs_arena_free(&a);
  return once;
}

// ---- slices in host memory ----------------------------------------------------------------------
static bool is_target(const hlo_instr *i, const char *name) {
  return i->opcode == HLO_CUSTOM_CALL &&
         hs_str_eq(hlo_attr_str(i, HLO_ATTR_CUSTOM_CALL_TARGET), hs_str_of(name));
}
static bool reorders(const hlo_instr *i) {
  return i->opcode == HLO_RESHAPE || i->opcode == HLO_BROADCAST || i->opcode == HLO_TRANSPOSE;
}

static bool written_to_host(const hlo_instr *i, u32 depth) {
  hlo_for_each_use(u, i) {
    if (u->user->opcode == HLO_DYNAMIC_UPDATE_SLICE) return true;
    if (depth && reorders(u->user) && written_to_host(u->user, depth - 1)) return true;
  }
  return false;
}

static bool read_from_host(const hlo_instr *i, u32 depth) {
  for (u32 k = 0; k < i->noperands; k++) {
    const hlo_instr *x = hlo_operand(i, k);
    if (x->opcode == HLO_DYNAMIC_SLICE || (depth && reorders(x) && read_from_host(x, depth - 1)))
      return true;
  }
  return false;
}

static bool moves_slices(const hlo_computation *body) {
  enum { DEEP = 32 };
  hlo_for_each_instr(i, body)
    if ((is_target(i, "MoveToHost") && written_to_host(i, DEEP)) ||
        (is_target(i, "MoveToDevice") && read_from_host(i, DEEP)))
      return true;
  return false;
}

static void mark_elements(const hlo_instr *i, bool *marked, u32 n, u32 depth) {
  bool sum = i->opcode == HLO_ADD || i->opcode == HLO_SUBTRACT || i->opcode == HLO_MULTIPLY ||
             i->opcode == HLO_DIVIDE;
  i64 k = i->opcode == HLO_GET_TUPLE_ELEMENT ? hlo_attr_int(i, HLO_ATTR_INDEX, -1) : -1;
  if (k >= 0 && (u64)k < n) marked[k] = true;
  for (u32 o = 0; depth && (sum || i->opcode == HLO_COPY) && o < i->noperands; o++)
    mark_elements(hlo_operand(i, o), marked, n, depth - 1);
}

// Matches element + step; element -1: a constant.
static bool linear(const hlo_instr *i, const hlo_instr *state, i64 *element, i64 *step, u32 depth) {
  *element = -1, *step = 0;
  if (i->opcode == HLO_GET_TUPLE_ELEMENT && hlo_operand(i, 0) == state)
    return (*element = hlo_attr_int(i, HLO_ATTR_INDEX, -1)) >= 0;
  if (i->opcode == HLO_CONSTANT) return pass_const_i64(i, step);
  bool minus = i->opcode == HLO_SUBTRACT;
  i64 other, more;
  if ((!minus && i->opcode != HLO_ADD) || !depth ||
      !linear(hlo_operand(i, 0), state, element, step, depth - 1) ||
      !linear(hlo_operand(i, 1), state, &other, &more, depth - 1))
    return false;
  if (other >= 0 && (*element >= 0 || minus)) return false;
  if (other >= 0) *element = other;
  return minus ? more != INT64_MIN && hs_add_ok(*step, -more, step) : hs_add_ok(*step, more, step);
}

// ---- annotation ---------------------------------------------------------------------------------
// range: start and step are known, and the loop counts up from at least 0
typedef struct counted {
  i64 element, trips, start, step;
  bool range;
} counted;

// Matches start + iteration * step for element k: its own, or the counter's, one iteration behind.
static bool progress(const hlo_instr *w, const counted *n, i64 k, i64 *start, i64 *step) {
  const hlo_computation *body = hlo_attr_comp(w, HLO_ATTR_BODY);
  i64 from;
  if (!linear(hlo_operand(body->root, (u32)k), body->params[0], &from, step, 32) || from < 0 ||
      !pass_const_i64(hlo_operand(hlo_operand(w, 0), (u32)k), start))
    return false;
  if (from == k) return true;
  i64 trailed;
  if (!n->range || from != n->element || !hs_add_ok(n->start - n->step, *step, &trailed) ||
      trailed != *start)
    return false;
  *step = n->step;
  return true;
}

static void put_dynamic_variables(hs_buf *b, const hlo_instr *w, const counted *n, hs_arena *a) {
  const hlo_computation *body = hlo_attr_comp(w, HLO_ATTR_BODY);
  u32 elements = body->root->noperands;
  bool *marked = HS_NEW_ARRAY(a, bool, elements + 1), any = false;
  if (!moves_slices(body)) return;
  hlo_for_each_instr(i, body) {
    u32 first = i->opcode == HLO_DYNAMIC_SLICE          ? 1
                : i->opcode == HLO_DYNAMIC_UPDATE_SLICE ? 2
                                                        : i->noperands;
    for (u32 k = first; k < i->noperands; k++)
      mark_elements(hlo_operand(i, k), marked, elements, 32);
  }
  for (u32 k = 0; k < elements; k++) {
    i64 start, step;
    if (!marked[k]) continue;
    hs_buf_printf(b, "%s{\"tuple_index\":\"%u\"", any ? "," : ",\"dynamic_variables\":[", k);
    if (progress(w, n, k, &start, &step))
      hs_buf_printf(b, ",\"init\":\"%lld\",\"step\":\"%lld\"", (long long)start, (long long)step);
    hs_buf_puts(b, "}");
    any = true;
  }
  if (any) hs_buf_puts(b, "]");
}

// Whether the condition is an order comparison, not an equality.
static bool goes_up_to(const hlo_instr *w) {
  const hlo_instr *i = hlo_attr_comp(w, HLO_ATTR_CONDITION)->root;
  if ((i->opcode == HLO_FUSION || i->opcode == HLO_CALL) && hlo_fusion_comp(i))
    i = hlo_fusion_comp(i)->root;
  i64 d = i->opcode == HLO_COMPARE ? hlo_attr_int(i, HLO_ATTR_DIRECTION, -1) : -1;
  return d == HLO_DIRECTION_LT || d == HLO_DIRECTION_LE || d == HLO_DIRECTION_GT ||
         d == HLO_DIRECTION_GE;
}

static counted count_loop(const hlo_instr *w, hs_arena *a) {
  enum { MOST_TRIED = 128 };
  i64 by = -1, last;
  counted c = {.element = pass_loop_counter(w, a), .trips = -1};
  if (c.element < 0) return c;
  c.trips = hlo_trip_count_pattern(w, &by, &c.start, &c.step);
  c.range = c.trips >= 0 && goes_up_to(w) && by == c.element && c.start >= 0 && c.step > 0 &&
            hs_mul_ok(c.step, c.trips, &last) && hs_add_ok(c.start, last, &last) &&
            last - c.step >= 0;
  if (c.trips < 0) c.trips = evaluated_trips(w, c.element, MOST_TRIED);
  return c;
}

// Redirects users of the counter after the loop to its final value.
static void forward_counter(pass_ctx *c, hlo_instr *w, const counted *n) {
  for (hlo_use *u = w->first_use, *next; u; u = next) {
    next = u->next;
    hlo_instr *g = u->user;
    if (g->opcode != HLO_GET_TUPLE_ELEMENT || hlo_attr_int(g, HLO_ATTR_INDEX, -1) != n->element ||
        !hlo_shape_is_scalar(g->shape) || (!g->nuses && !hlo_is_root(g)))
      continue;
    if (!pass_may_rewrite(c)) return;
    pass_note_done(c, g, w, "its final value is %lld", (long long)(n->start + n->step * n->trips));
    hlo_replace_uses(
        g, hlo_build_scalar_i64(g->parent, g->shape->dtype, n->start + n->step * n->trips));
  }
}

static void annotate(pass_ctx *c, hlo_instr *w, const counted *n) {
  hs_buf b = {0};
  hs_buf_puts(&b, "{");
  if (n->trips >= 0)
    hs_buf_printf(&b, "\"known_trip_count\":{\"n\":\"%lld\"},", (long long)n->trips);
  if (n->range)
    hs_buf_printf(&b, "\"known_init_step\":{\"init\":\"%lld\",\"step\":\"%lld\"},",
                  (long long)n->start, (long long)n->step);
  hs_buf_printf(&b, "\"known_induction_variable\":{\"tuple_index\":\"%lld\"}",
                (long long)n->element);
  put_dynamic_variables(&b, w, n, c->scratch);
  hs_buf_puts(&b, "}");
  const hlo_backend_config *old = hlo_attr_ptr(w, HLO_ATTR_BACKEND_CONFIG);
  if ((!old || !hs_str_eq(old->text, (hs_str){b.p, b.n})) && pass_may_rewrite(c)) {
    pass_note_done(c, w, NULL,
                   n->trips < 0 ? "induction variable: element %lld" : "runs %lld times",
                   (long long)(n->trips < 0 ? n->element : n->trips));
    hlo_backend_config *now = HS_NEW(&c->m->arena, hlo_backend_config);
    *now = (hlo_backend_config){{hs_arena_strndup(&c->m->arena, b.p, b.n), b.n}, true};
    hlo_set_attr_ptr(w, HLO_ATTR_BACKEND_CONFIG, now);
  }
  hs_buf_free(&b);
}

static hs_status run(pass_ctx *c) {
  hlo_for_each_comp(comp, c->m) {
    hlo_for_each_instr(w, comp) {
      if (w->opcode != HLO_WHILE) continue;
      counted n = count_loop(w, c->scratch);
      if (n.element < 0) {
        pass_note_declined(c, w, NULL, "its trip count depends on data");
        continue;
      }
      if (n.range) forward_counter(c, w, &n);
      annotate(c, w, &n);
      HS_TRY(hs_poll());
    }
  }
  return HS_GOOD;
}

const pass_info pass_while_loop_trip_count_annotator = {
    .name = "while-loop-trip-count-annotator",
    .summary = "annotates loops with their trip counts",
    .xla_source = "xla/hlo/transforms/while_loop_trip_count_annotator.cc",
    .run = run,
    .needs = {HLO_WHILE},
    .sample = "body {\n"
              "  s = (s32[], f32[4]) parameter(0)\n"
              "  i = s32[] get-tuple-element(s), index=0\n"
              "  one = s32[] constant(1)\n"
              "  next = s32[] add(i, one)\n"
              "  x = f32[4] get-tuple-element(s), index=1\n"
              "  y = f32[4] add(x, x)\n"
              "  ROOT t = (s32[], f32[4]) tuple(next, y)\n"
              "}\n"
              "cond {\n  seen = (s32[], f32[4]) parameter(0)\n"
              "  count = s32[] get-tuple-element(seen), index=0\n"
              "  times = s32[] constant(5)\n"
              "  ROOT go = pred[] compare(count, times), direction=LT\n}\n"
              "ENTRY e {\n"
              "  v = f32[4] parameter(0)\n"
              "  zero = s32[] constant(0)\n"
              "  start = (s32[], f32[4]) tuple(zero, v)\n"
              "  w = (s32[], f32[4]) while(start), condition=cond, body=body\n"
              "  ROOT r = f32[4] get-tuple-element(w), index=1\n"
              "}\n",
};
