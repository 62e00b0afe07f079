// while_unroll.c — while_loop_unroller: a counted loop becomes its iterations, one after another
// (xla/service/while_loop_unroller.cc, which unrolls fully within the same two limits).
//
// What a loop costs beside its work is that each iteration writes its state to memory and the next
// one reads it. Unrolled, a chain of elementwise operations is one kernel that keeps it in
// registers: the five iterations of JAX's random bits (threefry) are what nearly every program
// has. With `pointwise` only such loops are unrolled, and only over arrays large enough that
// the memory matters; the others gain little and make code long.
#include "passes/control/while_state.h"

typedef struct unroller {
  pass_ctx *c;
  i64 most_trips, most_instructions, least_elements;
  bool pointwise;
} unroller;

// Whether a kernel can compute it element by element, together with what it reads.
static bool is_pointwise(const hlo_instr *i) {
  switch (i->opcode) {
  case HLO_PARAMETER:
  case HLO_CONSTANT:
  case HLO_TUPLE:
  case HLO_GET_TUPLE_ELEMENT:
  case HLO_BROADCAST:
  case HLO_RESHAPE:
  case HLO_SLICE:
  case HLO_IOTA: return true;
  default: return hlo_op_has(i->opcode, HLO_F_ELEMENTWISE) && !hlo_op_has(i->opcode, HLO_F_CALLS);
  }
}

// An element of the state that changes and is so large that writing and reading it matters.
static bool moves_much(const unroller *u, const pass_loop *l) {
  for (u32 k = 0; k < l->body->root->noperands; k++) {
    const hlo_instr *next = hlo_operand(l->body->root, k);
    if (hlo_shape_is_array(next->shape) && next->shape->elements >= u->least_elements &&
        next->opcode != HLO_GET_TUPLE_ELEMENT)
      return true;
  }
  return false;
}

// Why the loop stays; NULL: it is unrolled. *at: the instruction that is the reason, if one is.
static const char *refusal(const unroller *u, const pass_loop *l, i64 trips, const hlo_instr **at) {
  *at = NULL;
  if (trips < 0) return "how often it runs is not known";
  if (trips > u->most_trips) return "more iterations than max_trips";
  if (trips * l->body->ninstrs > u->most_instructions) return "more code than max_instructions";
  if (l->body->root->opcode != HLO_TUPLE) return "the state is not built by a tuple";
  hlo_for_each_instr(i, l->cond) {
    *at = i;
    if (hlo_has_side_effect(i)) return "its condition has a side effect";
  }
  hlo_for_each_instr(i, l->body) {
    *at = i;
    if (hlo_has_side_effect(i)) return "its body has a side effect";
    if (hlo_op_has(i->opcode, HLO_F_CONTROL) || i->opcode == HLO_FUSION)
      return "its body runs other computations";
    if (hlo_op_has(i->opcode, HLO_F_COLLECTIVE)) return "its body exchanges data";
    if (u->pointwise && !is_pointwise(i)) return "its body is more than elementwise";
  }
  *at = NULL;
  if (u->pointwise && !moves_much(u, l)) return "its state is small";
  return NULL;
}

static void unroll(const unroller *u, hlo_instr *w) {
  pass_ctx *c = u->c;
  const hlo_instr *at;
  pass_loop l;
  if (!pass_loop_of(c, w, &l) || l.held) return;
  i64 trips = pass_loop_trips(w, u->most_trips, c->scratch);
  const char *why = refusal(u, &l, trips, &at);
  if (why) pass_note_declined(c, w, at, "%s", why);
  if (why || !pass_may_rewrite(c)) return;
  pass_note_done(c, w, NULL, "unrolled: %lld iterations of %u instructions", (long long)trips,
                 l.body->ninstrs);
  pass_loop_unroll(&l, trips, c->scratch);
}

static hs_status run(pass_ctx *c) {
  unroller u = {.c = c,
                .most_trips = pass_option_int(c, "max_trips"),
                .most_instructions = pass_option_int(c, "max_instructions"),
                .least_elements = pass_option_int(c, "min_elements"),
                .pointwise = pass_option_bool(c, "pointwise")};
  u32 n;
  hlo_computation **order = pass_comp_post_order(c, &n);
  // inner loops first: what they become counts for the outer ones
  for (u32 x = 0; x < n; x++) {
    u32 nloops;
    hlo_instr **loops = pass_of_op(c, order[x], HLO_WHILE, HLO_WHILE, &nloops);
    for (u32 j = 0; j < nloops; j++)
      if (!loops[j]->dead) unroll(&u, loops[j]);
    HS_TRY(hs_poll());
  }
  return HS_GOOD;
}

static const pass_option_info options[] = {
    {"max_trips", PASS_INT, "64", "loops of more iterations stay"},
    {"max_instructions", PASS_INT, "800", "loops that would become more instructions stay"},
    {"pointwise", PASS_BOOL, "false", "only elementwise loops over large arrays"},
    {"min_elements", PASS_INT, "4096", "with pointwise: elements of a large array"},
};

const pass_info pass_while_loop_unroller = {
    .name = "while_loop_unroller",
    .summary = "replaces loops of few iterations by these, one after the other",
    .xla_source = "xla/service/while_loop_unroller.cc",
    .run = run,
    .needs = {HLO_WHILE},
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
              "  times = s32[] constant(3)\n"
              "  ROOT go = pred[] compare(count, times), direction=LT\n}\n"
              "ENTRY e {\n"
              "  v = f32[4] parameter(0)\n"
              "  zero = s32[] constant(0)\n"
              "  start = (s32[], f32[4]) tuple(zero, v)\n"
              "  w = (s32[], f32[4]) while(start), condition=cond, body=body\n"
              "  ROOT r = f32[4] get-tuple-element(w), index=1\n"
              "}\n",
};
