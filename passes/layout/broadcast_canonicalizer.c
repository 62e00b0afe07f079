// broadcast_canonicalizer.c — broadcast_canonicalizer (xla/service/broadcast_canonicalizer.cc):
// sorts the dimensions of a broadcast; a transpose of its result restores the original order.
#include "passes/run/rewrite.h"

static hs_status run(pass_ctx *c) {
  hlo_for_each_comp(comp, c->m) {
    if (hlo_is_fusion_comp(comp)) continue;
    hlo_for_each_instr_safe(i, comp) {
      if (i->opcode != HLO_BROADCAST) continue;
      hlo_ints d = hlo_attr_ints(i, HLO_ATTR_DIMENSIONS);
      bool ascending = true;
      for (u32 k = 1; k < d.n; k++) ascending &= d.v[k] > d.v[k - 1];
      if (ascending || hlo_shape_is_dynamic(i->shape)) continue;
      if (!pass_may_rewrite(c)) return HS_GOOD;
      pass_note_done(c, i, NULL, "dimensions sorted");
      i64 sorted[HLO_MAX_RANK], perm[HLO_MAX_RANK], dims[HLO_MAX_RANK];
      for (u32 k = 0; k < d.n; k++) {
        u32 at = k;
        while (at && sorted[at - 1] > d.v[k]) sorted[at] = sorted[at - 1], at--;
        sorted[at] = d.v[k];
      }
      for (u32 k = 0; k < i->shape->rank; k++) perm[k] = k, dims[k] = i->shape->dims[k];
      for (u32 k = 0; k < d.n; k++) {
        dims[sorted[k]] = hlo_operand(i, 0)->shape->dims[k];
        perm[d.v[k]] = sorted[k];
      }
      hlo_instr *b = hlo_build_broadcast(hlo_operand(i, 0), i->shape->rank, dims, sorted),
                *t = hlo_build_transpose(b, perm);
      if (t->shape != i->shape) hlo_set_shape(t, i->shape);
      hlo_replace(i, t);
    }
  }
  return HS_GOOD;
}

const pass_info pass_broadcast_canonicalizer = {
    .name = "broadcast_canonicalizer",
    .summary = "sorts broadcast dimensions",
    .xla_source = "xla/service/broadcast_canonicalizer.cc",
    .run = run,
    .needs = {HLO_BROADCAST},
    .sample = "ENTRY e {\n"
              "  x = f32[2,3] parameter(0)\n"
              "  ROOT y = f32[3,4,2] broadcast(x), dimensions={2,0}\n"
              "}\n",
};
