// constant_folding.c — evaluates what depends on constants only (xla/hlo/transforms/simplifiers/hlo_constant_folding.cc).
//
// Broadcast and iota stay: they are the small form of a large constant. An operand may be a broadcast of a constant as
// long as one operand is a constant proper. Results are bounded in size (larger than the operands and than 45M elements is
// refused) and in work, so that folding never costs what the program itself would; what is refused is noted.
#include "core/eval.h"
#include "passes/util.h"

#define MAX_ELEMENTS (45 * 1000 * 1000)
#define MAX_WORK 2e7

static bool constant_like(const hlo_instr *i) {
  return i->opcode == HLO_CONSTANT || (i->opcode == HLO_BROADCAST && hlo_operand(i, 0)->opcode == HLO_CONSTANT);
}

static bool candidate(const hlo_instr *i) {
  switch (i->opcode) {
    case HLO_CONSTANT: case HLO_PARAMETER: case HLO_TUPLE: case HLO_BROADCAST: case HLO_IOTA: case HLO_FFT: case HLO_AFTER_ALL:
    case HLO_WHILE: case HLO_CUSTOM_CALL: case HLO_RNG: case HLO_FUSION: case HLO_CALL: case HLO_OPT_BARRIER:
    case HLO_ADD_DEPENDENCY: case HLO_DOMAIN: case HLO_CONDITIONAL: return false;
    default: break;
  }
  if (!i->noperands || !hlo_shape_is_array(i->shape) || hlo_shape_is_dynamic(i->shape)) return false;
  if (hlo_op_has(i->opcode, HLO_F_ASYNC | HLO_F_COLLECTIVE) || i->ctrl_preds || i->nctrl_succs || hlo_has_side_effect(i)) return false;
  if (i->opcode == HLO_PAD && hlo_operand(i, 0)->opcode == HLO_BROADCAST) return false;   // small as it is
  bool any = false;
  for (u32 k = 0; k < i->noperands; k++) {
    const hlo_instr *o = hlo_operand(i, k);
    if (!constant_like(o)) return false;
    any |= o->opcode == HLO_CONSTANT;
  }
  return any;
}

static bool small_enough(pass_ctx *c, const hlo_instr *i) {
  i64 in = 0;
  for (u32 k = 0; k < i->noperands; k++)
    if (hlo_operand(i, k)->opcode == HLO_CONSTANT) in += hlo_operand(i, k)->shape->elements;
  if (i->shape->elements > in && i->shape->elements > MAX_ELEMENTS) {
    pass_note_declined(c, i, NULL, "result of %lld elements is too large to fold", (long long)i->shape->elements);
    return false;
  }
  hlo_cost cost = hlo_cost_instr(i);
  double work = cost.flops + cost.transcendentals + (double)i->shape->elements;
  if (work > MAX_WORK) {
    pass_note_declined(c, i, NULL, "evaluating it takes %.3g operations", work);
    return false;
  }
  return true;
}

// The value of a constant or of a broadcast of one; a new reference.
static hs_status value_of(const hlo_instr *i, hlo_literal **out) {
  if (i->opcode == HLO_CONSTANT) {
    *out = hlo_literal_ref(hlo_constant_value(i));
    return HS_GOOD;
  }
  hlo_literal *in = hlo_literal_ref(hlo_constant_value(hlo_operand(i, 0)));
  hs_status s = hlo_eval_instr(i, 1, &in, NULL, out);
  hlo_literal_unref(in);
  return s;
}

static hs_status fold(pass_ctx *c, hlo_instr *i) {
  u32 n = i->noperands, got = 0;
  hlo_literal **ops = HS_NEW_ARRAY(c->scratch, hlo_literal *, n), *value = NULL;
  hs_status s = HS_GOOD;
  while (got < n && hs_ok(s)) {
    s = value_of(hlo_operand(i, got), &ops[got]);
    if (hs_ok(s)) got++;
  }
  hlo_eval_options o = {.keep_denormals = false, .max_bytes = (i64)1 << 31};
  if (hs_ok(s)) s = hlo_eval_instr(i, n, ops, &o, &value);
  for (u32 k = 0; k < got; k++) hlo_literal_unref(ops[k]);
  if (!hs_ok(s)) {
    if (s.err->code == HS_E_INTERRUPTED) return s;
    pass_note_declined(c, i, NULL, "not evaluated: %s", s.err->message);
    hs_status_drop(s);
    return HS_GOOD;
  }
  if (!pass_may_rewrite(c)) {
    hlo_literal_unref(value);
    return HS_GOOD;
  }
  pass_note_done(c, i, NULL, "%s of constants folded", hlo_op_text(i->opcode));
  hlo_instr *k = hlo_add_constant(i->parent, value, NULL);
  if (k->shape != i->shape) hlo_set_shape(k, i->shape);
  hlo_replace(i, k);
  return HS_GOOD;
}

hs_status pass_constant_folding(pass_ctx *c) {
  hlo_for_each_comp(comp, c->m) {
    if (hlo_is_fusion_comp(comp)) continue;
    u32 n = comp->ninstrs;
    hlo_instr **order = hlo_post_order(comp, c->scratch);
    for (u32 k = 0; k < n; k++) {
      hlo_instr *i = order[k];
      if (i->dead || !candidate(i)) continue;
      bool elided = false;
      for (u32 o = 0; o < i->noperands; o++) {
        const hlo_instr *x = hlo_operand(i, o);
        elided |= hlo_literal_has_elided(hlo_constant_value(x->opcode == HLO_CONSTANT ? x : hlo_operand(x, 0)));
      }
      if (elided) { pass_note_declined(c, i, NULL, "a constant operand is elided"); continue; }
      if (!small_enough(c, i)) continue;
      HS_TRY(fold(c, i));
      HS_TRY(hs_poll());
    }
  }
  return HS_GOOD;
}
