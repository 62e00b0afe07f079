// broadcast_canonicalizer.c — broadcast_canonicalizer (xla/service/broadcast_canonicalizer.cc):
// sorts the dimensions of a broadcast; a transpose of its operand, which is the smaller of the two,
// puts that in the order in which the dimensions then come.
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
      // perm[k]: the operand's dimension that becomes the k-th of the result's that are its
      i64 sorted[HLO_MAX_RANK], perm[HLO_MAX_RANK];
      for (u32 k = 0; k < d.n; k++) {
        u32 at = k;
        while (at && sorted[at - 1] > d.v[k])
          sorted[at] = sorted[at - 1], perm[at] = perm[at - 1], at--;
        sorted[at] = d.v[k], perm[at] = k;
      }
      hlo_instr *t = hlo_build_transpose(hlo_operand(i, 0), perm),
                *b = hlo_build_broadcast(t, i->shape->rank, i->shape->dims, sorted);
      if (b->shape != i->shape) hlo_set_shape(b, i->shape);
      hlo_replace(i, b);
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
