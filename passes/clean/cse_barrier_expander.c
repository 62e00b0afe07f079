// cse_barrier_expander.c — cse_barrier_expander
// (xla/hlo/transforms/expanders/optimization_barrier_expander.cc): removes optimization
// barriers.
//
// Barriers have no purpose after scheduling. Each is replaced by its operand; its control
// dependencies pass to its neighbours.
#include "passes/run/rewrite.h"

static hs_status run(pass_ctx *c) {
  hlo_for_each_comp(comp, c->m) {
    if (hlo_is_fusion_comp(comp)) continue;
    hlo_for_each_instr_safe(i, comp) {
      if (i->opcode != HLO_OPT_BARRIER) continue;
      const hlo_instr *x = hlo_operand(i, 0);
      if (pass_hides_size(x) || x->shape->logical != i->shape->logical) {
        pass_note_declined(c, i, NULL, "it ends a size of its operand");
        continue;
      }
      if (!pass_may_rewrite(c)) return HS_GOOD;
      pass_note_done(c, i, NULL, "barrier removed");
      pass_relay_control(i);
      hlo_replace(i, hlo_operand(i, 0));
    }
  }
  return HS_GOOD;
}

const pass_info pass_cse_barrier_expander = {
    .name = "cse_barrier_expander",
    .summary = "removes optimization barriers",
    .xla_source = "xla/hlo/transforms/expanders/optimization_barrier_expander.cc",
    .run = run,
    .needs = {HLO_OPT_BARRIER},
    .sample = "ENTRY e {\n"
              "  x = f32[4] parameter(0)\n"
              "  y = f32[4] exponential(x)\n"
              "  kept = f32[4] opt-barrier(y)\n"
              "  ROOT z = f32[4] add(kept, x)\n"
              "}\n",
};
