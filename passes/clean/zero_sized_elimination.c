// zero_sized_elimination.c — zero_sized_hlo_elimination
// (xla/hlo/transforms/simplifiers/zero_sized_hlo_elimination.cc): arrays without elements become
// constants.
//
// They need no computation. Parameters stay, but their users get a constant. Instructions with side
// effects or control dependencies are left alone.
#include "passes/run/rewrite.h"

// This custom call of Shardy, of arrays, is only a marker: its side effect can be ignored.
static bool is_local_to_global(const hlo_instr *i) {
  for (u32 k = 0; k < i->noperands; k++)
    if (!hlo_shape_is_array(hlo_operand(i, k)->shape)) return false;
  return i->opcode == HLO_CUSTOM_CALL && hs_str_eq(hlo_attr_str(i, HLO_ATTR_CUSTOM_CALL_TARGET),
                                                   HS_STR("xla.sdy.LocalToGlobalShape"));
}

// Fusion bodies and computations without callers are not visited.
static bool skipped(const pass_ctx *c, const hlo_computation *comp, const u32 *counts) {
  return hlo_is_fusion_comp(comp) ||
         (comp != c->m->entry && comp->id < counts[0] && !counts[1 + comp->id]);
}

static hs_status eliminate(pass_ctx *c, hlo_instr *i) {
  bool free = !hlo_is_controlled(i),
       param = i->opcode == HLO_PARAMETER && (i->nuses || hlo_is_root(i)) && free;
  if (i->opcode == HLO_CONSTANT || (i->opcode == HLO_PARAMETER && !param) ||
      !hlo_shape_is_array(i->shape) || i->shape->elements != 0)
    return HS_GOOD;
  if (hlo_shape_is_dynamic(i->shape) || pass_hides_size(i) ||
      (!param && !hlo_is_removable(i) && !(free && is_local_to_global(i))))
    return HS_GOOD;
  if (!pass_may_rewrite(c)) return HS_GOOD;
  pass_note_done(c, i, NULL, "no elements");
  hlo_literal *l;
  HS_TRY(hlo_literal_new(i->shape, &l));
  hlo_instr *k = hlo_add_constant(i->parent, l, NULL);
  if (k->shape != i->shape) hlo_set_shape(k, i->shape);
  hlo_replace(i, k);
  if (!param && !i->dead) hlo_remove(i);
  return HS_GOOD;
}

static hs_status run(pass_ctx *c) {
  u32 *counts = pass_caller_counts(c), n;
  hlo_instr **v;
  if (pass_edited(c, &v, &n)) {
    for (u32 k = 0; k < n; k++)
      if (!v[k]->dead && !skipped(c, v[k]->parent, counts)) HS_TRY(eliminate(c, v[k]));
    return HS_GOOD;
  }
  hlo_for_each_comp(comp, c->m) {
    if (skipped(c, comp, counts)) continue;
    hlo_for_each_instr_safe(i, comp) HS_TRY(eliminate(c, i));
  }
  return HS_GOOD;
}

const pass_info pass_zero_sized_hlo_elimination = {
    .name = "zero_sized_hlo_elimination",
    .summary = "replaces arrays without elements by constants",
    .xla_source = "xla/hlo/transforms/simplifiers/zero_sized_hlo_elimination.cc",
    .run = run,
    .needs_empty = true,
    .sample = "ENTRY e {\n"
              "  x = f32[4] parameter(0)\n"
              "  none = f32[0] slice(x), slice={[2:2]}\n"
              "  root = f32[0] sqrt(none)\n"
              "  ROOT y = f32[4] concatenate(x, root), dimensions={0}\n"
              "}\n",
};
