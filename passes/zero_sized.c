// zero_sized.c — arrays without elements need no computing: a constant takes their place, and that of the uses of parameters
// (xla/hlo/transforms/simplifiers/zero_sized_hlo_elimination.cc).
#include "passes/util.h"

// Shardy's marker has a side effect in name only.
static bool is_local_to_global(const hlo_instr *i) {
  return i->opcode == HLO_CUSTOM_CALL && hs_str_eq(hlo_attr_str(i, HLO_ATTR_CUSTOM_CALL_TARGET), HS_STR("xla.sdy.LocalToGlobalShape"));
}

hs_status pass_zero_sized_hlo_elimination(pass_ctx *c) {
  u32 *counts = pass_caller_counts(c);
  hlo_for_each_comp(comp, c->m) {
    // The body of a fusion that went is nobody's, and stays as it is.
    if (hlo_is_fusion_comp(comp) || (comp != c->m->entry && !counts[1 + comp->id])) continue;
    hlo_for_each_instr_safe(i, comp) {
      bool free = !i->ctrl_preds && !i->nctrl_succs, param = i->opcode == HLO_PARAMETER && (i->nuses || hlo_is_root(i)) && free;
      if (i->opcode == HLO_CONSTANT || (i->opcode == HLO_PARAMETER && !param) || !hlo_shape_is_array(i->shape) || i->shape->elements != 0) continue;
      if (hlo_shape_is_dynamic(i->shape) || (!param && !hlo_is_removable(i) && !(free && is_local_to_global(i)))) continue;
      if (!pass_may_rewrite(c)) return HS_GOOD;
      pass_note_done(c, i, NULL, "no elements");
      hlo_literal *l;
      HS_TRY(hlo_literal_new(i->shape, &l));
      hlo_instr *k = hlo_add_constant(comp, l, NULL);
      if (k->shape != i->shape) hlo_set_shape(k, i->shape);
      hlo_replace(i, k);
      if (!param && !i->dead) hlo_remove(i);
    }
  }
  return HS_GOOD;
}
