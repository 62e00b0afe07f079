// unfuse.c — fusions that are several kernels here (hlo_heavy_bodies) are lowered like calls: the
// instructions of the body become steps. On a device a dot with its epilogue stays one: what it is
// computed by there stores such results as it goes (passes/fuse/dot_epilogue.h).
//
// Before that the body is fused anew, by our cost model, so that what lies around its dots is few
// kernels. A kernel has the name of the instruction whose value it computes: the shell's module,
// where the body is as it was, has that too.
#include "backends/cpu/cpu.h"
#include "core/analysis/cost.h"
#include "passes/fuse/dot_epilogue.h"
#include "passes/fuse/fuse.h"

const bool *cpu_heavy_bodies(const hlo_module *m, bool device, hs_arena *a) {
  bool *heavy = hlo_heavy_bodies(m, a);
  dot_epilogue e;
  bool both;
  hlo_for_each_comp(c, m)
    if (device && heavy[c->id] && c->nfusion_callers && pass_dot_epilogue_body(c, &e, &both))
      heavy[c->id] = false;
  return heavy;
}

hs_status cpu_unfuse(hlo_module *m, bool device) {
  hs_arena a = {0};
  const bool *heavy = cpu_heavy_bodies(m, device, &a);
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
