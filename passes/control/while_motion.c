// while_motion.c — moving instructions out of while loops, and constants into them.
//
// - while-loop-invariant-code-motion (xla/service/while_loop_invariant_code_motion.cc): what a body
//   computes from invariant state alone is computed once, before the loop, and passed in as a new
//   invariant element of the state. Data movement and constants are not worth a state element on
//   their own; they are cloned when a hoisted instruction depends on them.
// - while-loop-constant-sinking (xla/service/while_loop_constant_sinking.cc): an invariant element
//   that starts as a constant, or as a broadcast of one, is replaced by that constant inside the
//   loop, where other passes can use it.
#include "passes/clean/clean.h"
#include "passes/control/while_state.h"

// inflation: maximal ratio of result to operand bytes; below 0: no limit
typedef struct motion {
  pass_ctx *c;
  bool constants, reshapes, others;
  double inflation;
} motion;

static bool is_target(const hlo_instr *i, const char *const *names, size_t n) {
  hs_str t =
      i->opcode == HLO_CUSTOM_CALL ? hlo_attr_str(i, HLO_ATTR_CUSTOM_CALL_TARGET) : (hs_str){0};
  for (size_t k = 0; k < n; k++)
    if (t.n && hs_str_eq(t, hs_str_of(names[k]))) return true;
  return false;
}

static bool worth_hoisting_alone(const motion *o, const hlo_instr *i) {
  static const char *const sharding[] = {"Sharding"};
  if (pass_hides_size(i)) return false;  // an element of the state would end it
  switch (i->opcode) {
  case HLO_BITCAST:
  case HLO_BROADCAST:
  case HLO_IOTA:
  case HLO_REVERSE:
  case HLO_SLICE:
  case HLO_TRANSPOSE:
  case HLO_TUPLE: return false;
  case HLO_GET_TUPLE_ELEMENT: return hlo_operand(i, 0)->opcode != HLO_PARAMETER;
  case HLO_RESHAPE: return o->reshapes;
  case HLO_CONSTANT: return o->constants;
  default: return !is_target(i, sharding, HS_COUNT(sharding));
  }
}

static bool may_move(const motion *o, const hlo_instr *i) {
  if (!o->others && i->opcode != HLO_CONSTANT && i->opcode != HLO_RESHAPE) return false;
  return i->opcode != HLO_PARAMETER && !hlo_is_controlled(i) &&
         !hlo_op_has(i->opcode, HLO_F_ASYNC) && !hlo_has_side_effect(i) &&
         i->opcode != HLO_AFTER_ALL;
}

// Whether the body has annotations that must not be separated from it.
static bool has_pinned_annotation(const hlo_computation *body) {
  static const char *const names[] = {"SPMDFullToShardShape", "SPMDShardShapeToFull",
                                      "annotate_device_placement", "MoveToHost", "MoveToDevice"};
  hlo_for_each_instr(i, body)
    if (i->opcode == HLO_DOMAIN || is_target(i, names, HS_COUNT(names))) return true;
  return false;
}

static bool inflates(const motion *o, const hlo_instr *i) {
  if (o->inflation < 0 || i->opcode == HLO_CONSTANT) return false;
  double in = 0;
  for (u32 k = 0; k < i->noperands; k++) in += (double)hlo_shape_bytes(hlo_operand(i, k)->shape);
  return (double)hlo_shape_bytes(i->shape) > in * o->inflation;
}

typedef struct mover {
  pass_ctx *c;
  pass_loop *l;
  const hlo_positions *at;  // of the body's instructions
  hlo_instr **out;          // by position: the clone before the loop
} mover;

static hlo_instr **copy_of(const mover *m, const hlo_instr *i) {
  return &m->out[hlo_position_of(m->at, i)];
}

// Clones an invariant instruction and its operands before the loop.
static hlo_instr *hoist(mover *m, hlo_instr *top) {
  HS_VEC(hlo_instr *) stack = {0};
  hs_vec_push(&stack, top);
  while (stack.n) {
    hlo_instr *i = stack.v[stack.n - 1];
    if (*copy_of(m, i)) {
      (void)hs_vec_pop(&stack);
      continue;
    }
    if (i->opcode == HLO_GET_TUPLE_ELEMENT && hlo_operand(i, 0)->opcode == HLO_PARAMETER) {
      *copy_of(m, i) = pass_element(hlo_operand(m->l->w, 0), hlo_attr_int(i, HLO_ATTR_INDEX, 0));
      continue;
    }
    bool ready = true;
    for (u32 k = 0; k < i->noperands; k++)
      if (!*copy_of(m, hlo_operand(i, k))) {
        hs_vec_push(&stack, hlo_operand(i, k));
        ready = false;
      }
    if (!ready) continue;
    hlo_instr **ops = HS_NEW_ARRAY(m->c->scratch, hlo_instr *, i->noperands + 1);
    for (u32 k = 0; k < i->noperands; k++) ops[k] = *copy_of(m, hlo_operand(i, k));
    *copy_of(m, i) = hlo_clone_instr(m->l->w->parent, i, NULL, i->noperands, ops);
    hlo_move_before(*copy_of(m, i), m->l->w);
    pass_origin_leaves(*copy_of(m, i), m->l->w, "#*");  // of any iteration
  }
  hs_vec_free(&stack);
  return *copy_of(m, top);
}

static bool is_hoisting_disabled(const hlo_instr *w) {
  return pass_frontend(w, "_xla_disable_loop_instr_hoisting") != NULL;
}

static bool has_invariant(const pass_loop *l) {
  for (u32 k = 0; k < l->n; k++)
    if (hlo_shape_is_array(l->w->shape->elems[k]) && pass_loop_invariant(l, k)) return true;
  return false;
}

static hs_status hoist_loop(const motion *o, hlo_instr *w, u32 *counts) {
  pass_ctx *c = o->c;
  pass_loop l;
  if (!pass_loop_of(c, w, &l)) return HS_GOOD;
  if (l.body->root->opcode != HLO_TUPLE) {
    pass_note_declined(c, w, NULL, "the root of its body is not a tuple");
    return HS_GOOD;
  }
  if (is_hoisting_disabled(w) || has_pinned_annotation(l.body)) {
    pass_note_declined(c, w, NULL, "attributes or annotations forbid hoisting");
    return HS_GOOD;
  }
  if (!o->constants && !has_invariant(&l)) {
    pass_note_declined(c, w, NULL, "no element of its state is invariant");
    return HS_GOOD;
  }
  i64 trips = HS_MAX(hlo_trip_count(w), pass_loop_trips(w, 1, c->scratch));
  if (trips >= 0 && trips <= 1) {
    pass_note_declined(c, w, NULL, "it runs %lld times", (long long)trips);
    return HS_GOOD;
  }
  if (pass_loop_runs_once(&l)) {
    pass_note_declined(c, w, NULL, "it runs at most once");
    return HS_GOOD;
  }
  u32 n = l.body->ninstrs, nfound = 0;
  hlo_instr **order = pass_post_order(c, l.body),
            **found = HS_NEW_ARRAY(c->scratch, hlo_instr *, n + 1);
  hlo_positions at = hlo_positions_in(n, order, c->scratch);
  bool *invariant = HS_NEW_ARRAY(c->scratch, bool, n + 1);
  for (u32 t = 0; t < n; t++) {
    hlo_instr *i = order[t];
    if (i->opcode == HLO_GET_TUPLE_ELEMENT && hlo_operand(i, 0)->opcode == HLO_PARAMETER) {
      invariant[t] = pass_loop_invariant(&l, (u32)hlo_attr_int(i, HLO_ATTR_INDEX, 0)) &&
                     hlo_shape_is_array(i->shape);
      continue;
    }
    if (!may_move(o, i)) continue;
    bool all = true;
    for (u32 k = 0; k < i->noperands; k++)
      all &= invariant[hlo_position_of(&at, hlo_operand(i, k))];
    invariant[t] = all && !inflates(o, i);
  }
  // The frontier: invariant values with a user that stays in the loop.
  for (u32 t = 0; t < n; t++) {
    hlo_instr *i = order[t];
    if (!invariant[t] || !worth_hoisting_alone(o, i)) continue;
    bool needed = false;
    hlo_for_each_use(u, i)
      needed |= !invariant[hlo_position_of(&at, u->user)] || !worth_hoisting_alone(o, u->user);
    if (needed) found[nfound++] = i;
  }
  if (!nfound) return HS_GOOD;
  u32 take = 0;
  while (take < nfound && pass_may_rewrite(c)) take++;
  if (!take) return HS_GOOD;
  hlo_computation *shared = l.body;
  pass_loop_own(&l, counts);
  if (shared != l.body) return hoist_loop(o, w, counts);  // the clone has other ids
  mover m = {c, &l, &at, HS_NEW_ARRAY(c->scratch, hlo_instr *, n + 1)};
  hlo_instr **values = HS_NEW_ARRAY(c->scratch, hlo_instr *, take),
            **in = HS_NEW_ARRAY(c->scratch, hlo_instr *, take);
  for (u32 k = 0; k < take; k++) {
    values[k] = hoist(&m, found[k]);
    pass_note_done(c, found[k], w, "invariant, computed before the loop");
  }
  pass_loop_widen(&l, take, values, in, c->scratch);
  for (u32 k = 0; k < take; k++) hlo_replace(found[k], in[k]);
  pass_loop_rename(&l, PASS_LOOP_BODY | PASS_LOOP_COND, "wide.", "");

  return HS_GOOD;
}

static hs_status run_while_loop_invariant_code_motion(pass_ctx *c) {
  motion o = {c, pass_option_bool(c, "hoist_constants"), pass_option_bool(c, "hoist_reshapes"),
              pass_option_bool(c, "hoist_other"),
              pass_option_float(c, "hoist_size_inflation_ratio")};
  u32 n, *counts = pass_caller_counts(c);
  u64 generation = c->m->generation;
  hlo_computation **comps = pass_comp_post_order(c, &n);
  for (u32 k = 0; k < n; k++) {
    u32 nloops;
    hlo_instr **loops = pass_of_op(c, comps[k], HLO_WHILE, HLO_WHILE, &nloops);
    for (u32 j = 0; j < nloops; j++) {
      if (!loops[j]->dead) HS_TRY(hoist_loop(&o, loops[j], counts));
      HS_TRY(hs_poll());
    }
  }
  if (generation == c->m->generation) return HS_GOOD;
  HS_TRY(pass_remove_unused(c));
  return pass_simplify_tuples(c, false);
}

static const pass_option_info while_loop_invariant_code_motion_options[] = {
    {"hoist_constants", PASS_BOOL, "false", "also hoist constants that nothing hoisted depends on"},
    {"hoist_reshapes", PASS_BOOL, "false", "also hoist reshapes that nothing hoisted depends on"},
    {"hoist_other", PASS_BOOL, "true", "false: hoist constants and reshapes only"},
    {"hoist_size_inflation_ratio", PASS_FLOAT, "-1.0",
     "maximal ratio of result bytes to operand bytes of a hoisted instruction; below 0: no limit"},
};

const pass_info pass_while_loop_invariant_code_motion = {
    .name = "while-loop-invariant-code-motion",
    .summary = "moves loop-invariant instructions before the loop",
    .xla_source = "xla/service/while_loop_invariant_code_motion.cc",
    .run = run_while_loop_invariant_code_motion,
    .needs = {HLO_WHILE},
    .again = true,
    .options = while_loop_invariant_code_motion_options,
    .noptions = HS_COUNT(while_loop_invariant_code_motion_options),
    .sample = "body {\n"
              "  s = (s32[], f32[4], f32[4]) parameter(0)\n"
              "  i = s32[] get-tuple-element(s), index=0\n"
              "  one = s32[] constant(1)\n"
              "  next = s32[] add(i, one)\n"
              "  x = f32[4] get-tuple-element(s), index=1\n"
              "  k = f32[4] get-tuple-element(s), index=2\n"
              "  same = f32[4] exponential(k)\n"
              "  y = f32[4] add(x, same)\n"
              "  ROOT t = (s32[], f32[4], f32[4]) tuple(next, y, k)\n"
              "}\n"
              "cond {\n  seen = (s32[], f32[4], f32[4]) parameter(0)\n"
              "  count = s32[] get-tuple-element(seen), index=0\n"
              "  times = s32[] constant(5)\n"
              "  ROOT go = pred[] compare(count, times), direction=LT\n}\n"
              "ENTRY e {\n"
              "  v = f32[4] parameter(0)\n"
              "  u = f32[4] parameter(1)\n"
              "  zero = s32[] constant(0)\n"
              "  start = (s32[], f32[4], f32[4]) tuple(zero, v, u)\n"
              "  w = (s32[], f32[4], f32[4]) while(start), condition=cond, body=body\n"
              "  ROOT r = f32[4] get-tuple-element(w), index=1\n"
              "}\n",
};

static hs_status run_while_loop_constant_sinking(pass_ctx *c) {
  u32 n, *counts = pass_caller_counts(c);
  bool broadcasts = pass_option_bool(c, "sink_broadcast_of_constants"),
       scalars = pass_option_bool(c, "sink_only_scalar_constants");
  hlo_computation **comps = pass_comp_post_order(c, &n);
  // Outer loops first: their constants reach the inner loops' initial values.
  for (u32 x = n; x-- > 0;) {
    u32 nloops;
    hlo_instr **loops = pass_of_op(c, comps[x], HLO_WHILE, HLO_WHILE, &nloops);
    for (u32 j = 0; j < nloops; j++) {
      hlo_instr *w = loops[j];
      if (w->dead || hlo_operand(w, 0)->opcode != HLO_TUPLE) continue;
      // Nothing here changes the state, so control edges do not matter.
      pass_loop l = {.w = w,
                     .body = hlo_attr_comp(w, HLO_ATTR_BODY),
                     .cond = hlo_attr_comp(w, HLO_ATTR_CONDITION),
                     .in = hlo_operand(w, 0),
                     .n = hlo_operand(w, 0)->noperands};
      if (l.body->nparams != 1 || l.cond->nparams != 1 || l.body->root->opcode != HLO_TUPLE)
        continue;
      u32 changed = 0;
      for (u32 k = 0; k < l.n; k++) {
        hlo_instr *constant = pass_loop_constant(&l, k);
        // constants of tuple shape
        if (!constant && hlo_operand(l.in, k)->opcode == HLO_CONSTANT)
          constant = hlo_operand(l.in, k);
        if (!constant || (!broadcasts && constant->opcode == HLO_BROADCAST) ||
            (scalars && !hlo_shape_is_scalar(constant->shape)) || !pass_loop_invariant(&l, k))
          continue;
        if (!pass_loop_reads(&l, k)) continue;
        if (!pass_may_rewrite(c)) return HS_GOOD;
        pass_loop_own(&l, counts);
        pass_note_done(c, w, constant, "element %u is the constant %s inside the loop", k,
                       constant->name);
        changed |= pass_loop_sink(&l, k, constant);
      }
      if (changed) pass_loop_rename(&l, changed, "", ".sunk");
    }
  }
  return HS_GOOD;
}

static const pass_option_info while_loop_constant_sinking_options[] = {
    {"sink_broadcast_of_constants", PASS_BOOL, "true", "also sink broadcasts of constants"},
    {"sink_only_scalar_constants", PASS_BOOL, "false", "sink only constants of rank 0"},
};

const pass_info pass_while_loop_constant_sinking = {
    .name = "while-loop-constant-sinking",
    .summary = "moves constants in the loop state into the loop",
    .xla_source = "xla/service/while_loop_constant_sinking.cc",
    .run = run_while_loop_constant_sinking,
    .needs = {HLO_WHILE},
    .again = true,
    .options = while_loop_constant_sinking_options,
    .noptions = HS_COUNT(while_loop_constant_sinking_options),
    .sample = "body {\n"
              "  s = (s32[], f32[], f32[]) parameter(0)\n"
              "  i = s32[] get-tuple-element(s), index=0\n"
              "  one = s32[] constant(1)\n"
              "  next = s32[] add(i, one)\n"
              "  x = f32[] get-tuple-element(s), index=1\n"
              "  k = f32[] get-tuple-element(s), index=2\n"
              "  y = f32[] multiply(x, k)\n"
              "  ROOT t = (s32[], f32[], f32[]) tuple(next, y, k)\n"
              "}\n"
              "cond {\n  seen = (s32[], f32[], f32[]) parameter(0)\n"
              "  count = s32[] get-tuple-element(seen), index=0\n"
              "  times = s32[] constant(5)\n"
              "  ROOT go = pred[] compare(count, times), direction=LT\n}\n"
              "ENTRY e {\n"
              "  v = f32[] parameter(0)\n"
              "  zero = s32[] constant(0)\n"
              "  half = f32[] constant(0.5)\n"
              "  start = (s32[], f32[], f32[]) tuple(zero, v, half)\n"
              "  w = (s32[], f32[], f32[]) while(start), condition=cond, body=body\n"
              "  ROOT r = f32[] get-tuple-element(w), index=1\n"
              "}\n",
};
