// fusion_update.c — which dynamic-update-slices become the end of a kernel that computes the new
// part where it goes.
//
// Such a kernel works in the memory of the array that it updates, when nothing else reads that
// later. What it reads of this array must therefore be the part that it replaces, element by
// element.
#include "passes/fuse/fusion.h"
#include "core/analysis/live.h"

bool pass_fusion_update(const hlo_instr *i) {
  return i->opcode == HLO_DYNAMIC_UPDATE_SLICE && !hlo_is_controlled(i) &&
         !hlo_shape_is_dynamic(i->shape) && !hlo_shape_is_dynamic(hlo_operand(i, 1)->shape);
}

// Whether another update writes over much more of the array than this one's part: who reads the
// array together with the update must then run first, or all of the array is copied.
static bool updated_elsewhere(const hlo_instr *array, const hlo_instr *update) {
  enum { MOST_USES = 64 };
  u32 n = 0;
  hlo_for_each_use(u, array)
    if (++n > MOST_USES ||
        (u->user != update && u->user->opcode == HLO_DYNAMIC_UPDATE_SLICE && hlo_slot(u) == 0 &&
         hlo_shape_bytes(array->shape) / 2 > hlo_shape_bytes(hlo_operand(update, 1)->shape)))
      return true;
  return false;
}

bool pass_fusion_reads_beside(const hlo_instr *update) {
  const hlo_instr *seen[FUSION_MAX_OPS];
  u32 n = 1;
  seen[0] = hlo_operand(update, 1);
  for (u32 k = 0; k < n; k++) {
    const hlo_instr *i = seen[k];
    if (pass_fusion_role(i) != FUSION_POINT) continue;
    for (u32 o = 0; o < i->noperands; o++) {
      const hlo_instr *d = hlo_operand(i, o);
      if (updated_elsewhere(d, update) ||
          (d == hlo_operand(update, 0) && !hlo_is_replaced_part(i, update)))
        return true;
      u32 t = 0;
      while (t < n && seen[t] != d) t++;
      if (t < n) continue;
      if (n == FUSION_MAX_OPS) return true;
      seen[n++] = d;
    }
  }
  return false;
}
