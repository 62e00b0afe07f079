// unfuse.c — fusions that are several kernels here (hlo_heavy_bodies) are lowered like calls: the
// instructions of the body become steps.
//
// Before that the body is fused anew, by our cost model, so that what lies around its dots is few
// kernels. A kernel has the name of the instruction whose value it computes: the shell's module,
// where the body is as it was, has that too.
#include "backends/cpu/cpu.h"
#include "core/analysis/cost.h"
#include "passes/fuse/fuse.h"

hs_status cpu_unfuse(hlo_module *m) {
  hs_arena a = {0};
  const bool *heavy = hlo_heavy_bodies(m, &a);
  bool *body = HS_NEW_ARRAY(&a, bool, m->next_comp_id + 1);
  HS_VEC(hlo_computation *) bodies = {0};
  hlo_for_each_comp(c, m)
    hlo_for_each_instr(i, c) {
      hlo_computation *b = i->opcode == HLO_FUSION ? hlo_fusion_comp(i) : NULL;
      if (!b || !heavy[b->id] || body[b->id]) continue;
      body[b->id] = true;
      hs_vec_push(&bodies, b);
    }
  hs_status s = HS_GOOD;
  for (size_t k = 0; k < bodies.n && hs_ok(s); k++) s = pass_fuse_body(bodies.v[k]);
  hs_vec_free(&bodies);
  hs_arena_free(&a);
  return s;
}
