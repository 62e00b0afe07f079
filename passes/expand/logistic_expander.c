// logistic_expander.c — logistic-expander (xla/hlo/transforms/expanders/logistic_expander.cc):
// logistic(x) becomes 1 / (1 + exp(-x)), in the element type of the result, or where that has less
// than 16 bits in f32: it may have no sign, or no number as large as exp(-x).
#include "passes/run/rewrite.h"

static hs_status run(pass_ctx *c) {
  hlo_for_each_comp(comp, c->m) {
    if (hlo_is_fusion_comp(comp)) continue;
    hlo_for_each_instr_safe(i, comp) {
      if (i->opcode != HLO_LOGISTIC) continue;
      if (!pass_may_rewrite(c)) return HS_GOOD;
      pass_note_done(c, i, NULL, "expanded to 1 / (1 + exp(-x))");
      const hlo_shape *wide = i->shape;
      if (hlo_dtype_bits(wide->dtype) < 16) wide = hlo_shape_with_dtype(c->m->ctx, wide, HLO_F32);
      // in the stated type from the first step on: the operand's may hide a size
      hlo_instr *x = hlo_operand(i, 0);
      if (x->shape->dtype != wide->dtype) x = hlo_add(comp, HLO_CONVERT, wide, 1, &x, NULL);
      x = hlo_add(comp, HLO_NEGATE, wide, 1, &x, NULL);
      hlo_instr *one = hlo_build_full(comp, wide, 1.0), *e = hlo_build_unary(HLO_EXP, x),
                *y = hlo_build_binary(HLO_DIVIDE, one, hlo_build_binary(HLO_ADD, one, e));
      hlo_replace(i, pass_as_stated(y, i->shape));
    }
  }
  return HS_GOOD;
}

const pass_info pass_logistic_expander = {
    .name = "logistic-expander",
    .summary = "expands logistic into exponentials",
    .xla_source = "xla/hlo/transforms/expanders/logistic_expander.cc",
    .run = run,
    .needs = {HLO_LOGISTIC},
    .sample = "ENTRY e {\n"
              "  x = f32[4] parameter(0)\n"
              "  ROOT y = f32[4] logistic(x)\n"
              "}\n",
};
