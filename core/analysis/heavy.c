// heavy.c — fusions that are too much for one kernel of loops over their results.
//
// Modules that XLA has optimized hold fusions made for its own libraries: a dot with what follows
// it, a whole attention. Loops over the result would compute such a dot element by element, without
// blocks that stay in cache. A CPU runs the body's instructions instead, each dot, convolution and
// long window with a kernel of its own; the code generator and the estimator ask here which fusions
// these are.
#include "core/analysis/cost.h"

// Whether its own kernel is so much faster than loops within a fusion that it is worth a pass
// through memory.
static bool is_heavy(const hlo_instr *i) {
  enum { FEW_FLOPS = 1 << 15, LONG_WINDOW = 64 };
  switch (i->opcode) {
  case HLO_DOT:
  case HLO_CONVOLUTION: return hlo_cost_instr(i).flops > FEW_FLOPS;
  case HLO_REDUCE_WINDOW:
    return hlo_shape_is_array(i->shape) &&
           hlo_cost_instr(i).flops > HS_MAX(FEW_FLOPS, LONG_WINDOW * (double)i->shape->elements);
  default: return false;
  }
}

bool *hlo_heavy_bodies(const hlo_module *m, hs_arena *a) {
  u32 n;
  hlo_computation **order = hlo_comp_callees_first(m, a, &n);
  bool *heavy = HS_NEW_ARRAY(a, bool, m->next_comp_id + 1);
  for (u32 k = 0; k < n; k++) {
    hlo_for_each_instr(i, order[k])
      heavy[order[k]->id] |= i->opcode == HLO_FUSION ? heavy[hlo_fusion_comp(i)->id] : is_heavy(i);
  }
  return heavy;
}
