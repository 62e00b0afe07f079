// tuple_simplifier.c — tuple-simplifier (xla/hlo/transforms/simplifiers/tuple_simplifier.cc):
// get-tuple-element of a tuple is the element; a tuple of all elements of one tuple, in order,
// is that tuple.
//
// One traversal suffices when operands precede users in the list, several when they do not. Control
// dependencies are preserved without creating a cycle; a sharding is copied to the replacement
// unless that has another one.
#include "passes/clean/clean.h"

static hlo_instr *whole_tuple(const hlo_instr *t) {
  hlo_instr *source = NULL;
  for (u32 k = 0; k < t->noperands; k++) {
    const hlo_instr *g = hlo_operand(t, k);
    if (g->opcode != HLO_GET_TUPLE_ELEMENT || hlo_attr_int(g, HLO_ATTR_INDEX, -1) != (i64)k)
      return NULL;
    if (source && hlo_operand(g, 0) != source) return NULL;
    source = hlo_operand(g, 0);
  }
  return source && hlo_shape_compatible(source->shape, t->shape) ? source : NULL;
}

static bool shardings_agree(const hlo_instr *a, const hlo_instr *b) {
  const hlo_attr *x = hlo_attr_get(a, HLO_ATTR_SHARDING), *y = hlo_attr_get(b, HLO_ATTR_SHARDING);
  return !x || !y || hlo_attr_equal(x, y);
}

// False once the rewrite limit is reached.
static bool simplify(pass_ctx *c, hlo_instr *i, bool *changed) {
  hlo_instr *now = NULL;
  if (i->dead) return true;
  if (i->opcode == HLO_GET_TUPLE_ELEMENT && hlo_operand(i, 0)->opcode == HLO_TUPLE)
    now = hlo_operand(hlo_operand(i, 0), (u32)hlo_attr_int(i, HLO_ATTR_INDEX, 0));
  else if (i->opcode == HLO_TUPLE) now = whole_tuple(i);
  if (!now || !hlo_shape_compatible(now->shape, i->shape)) return true;
  if (i->opcode == HLO_GET_TUPLE_ELEMENT && !pass_may_forward(i)) {
    pass_note_declined(c, i, now, "it is under way, and the tuple has other uses, or hides a size");
    return true;
  }
  if (!shardings_agree(i, now)) {
    pass_note_declined(c, i, now, "their shardings differ");
    return true;
  }
  if (!pass_may_rewrite(c)) return false;
  pass_note_done(c, i, now, i->opcode == HLO_TUPLE ? "rebuilds %s" : "is the tuple's element %s",
                 now->name);
  const hlo_attr *sharding = hlo_attr_get(i, HLO_ATTR_SHARDING);
  if (sharding && !hlo_attr_get(now, HLO_ATTR_SHARDING)) hlo_set_attr(now, *sharding);
  pass_relay_control(i);
  hlo_replace(i, now);
  *changed |= i->dead;  // one that stays would keep the loop going
  return true;
}

hs_status pass_simplify_tuples(pass_ctx *c, bool skip_entry) {
  if (!c->m->nops[HLO_TUPLE]) return HS_GOOD;
  u32 ncomps = 0, n;
  hlo_computation **comps = hs_arena_alloc(c->scratch, c->m->ncomputations * sizeof *comps);
  hlo_for_each_comp(comp, c->m)
    if (!(skip_entry && comp == c->m->entry)) comps[ncomps++] = comp;
  for (u32 x = 0; x < ncomps; x++) {
    hlo_computation *comp = comps[x];
    hlo_instr **v = pass_of_op(c, comp, HLO_TUPLE, HLO_GET_TUPLE_ELEMENT, &n);
    // one iteration if operands come first, a few if not
    for (bool changed = true; changed;) {
      changed = false;
      for (u32 k = 0; k < n; k++)
        if (!simplify(c, v[k], &changed)) return HS_GOOD;
    }
  }
  return HS_GOOD;
}

static hs_status run(pass_ctx *c) {
  return pass_simplify_tuples(c, pass_option_bool(c, "exclude_entry_computation"));
}

static const pass_option_info options[] = {
    {"exclude_entry_computation", PASS_BOOL, "false", "leave the entry computation unchanged"},
};

const pass_info pass_tuple_simplifier = {
    .name = "tuple-simplifier",
    .summary = "replaces elements of tuples by what went into the tuple",
    .xla_source = "xla/hlo/transforms/simplifiers/tuple_simplifier.cc",
    .run = run,
    .needs = {HLO_TUPLE},
    .options = options,
    .noptions = HS_COUNT(options),
    .sample = "ENTRY e {\n"
              "  x = f32[4] parameter(0)\n"
              "  y = f32[2] parameter(1)\n"
              "  t = (f32[4], f32[2]) tuple(x, y)\n"
              "  first = f32[4] get-tuple-element(t), index=0\n"
              "  ROOT n = f32[4] negate(first)\n"
              "}\n",
};
