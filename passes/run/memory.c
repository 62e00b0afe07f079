// memory.c — reshapes that are bitcasts: the groups of dimensions that a reshape merges or
// splits, and whether both layouts keep each group contiguous and in order. The same question as
// ShapeUtil::ReshapeIsBitcast (xla/shape_util.cc).
#include "passes/run/rewrite.h"

u32 pass_dim_groups(const hlo_shape *from, const hlo_shape *to, hlo_dim_group *starts) {
  u32 n = 0, f = 0, t = 0;
  if (!from->elements || !to->elements) return 0;
  while (f < from->rank || t < to->rank) {
    starts[n++] = (hlo_dim_group){f, t};
    i64 pf = f < from->rank ? from->dims[f++] : 1, pt = t < to->rank ? to->dims[t++] : 1;
    while (pf != pt) {
      if (f < from->rank && (pf < pt || t == to->rank)) pf = hs_mul_sat_i64(pf, from->dims[f++]);
      else if (t < to->rank) pt = hs_mul_sat_i64(pt, to->dims[t++]);
      else return 0;
    }
  }
  starts[n] = (hlo_dim_group){f, t};
  return n;
}

bool pass_plain_layout(const hlo_shape *s) {
  const hlo_layout *l = s->layout;
  return l && l->ntiles == 0 && l->element_bits == 0 && l->nsplits == 0 && l->memory_space == 0;
}

u32 pass_physical_order(const hlo_shape *s, u32 *order) {
  u32 n = 0;
  for (u32 k = s->rank; k-- > 0;)
    if (s->dims[s->layout->minor_to_major[k]] != 1) order[n++] = (u32)s->layout->minor_to_major[k];
  return n;
}

bool pass_reshape_is_bitcast(const hlo_shape *from, const hlo_shape *to) {
  if (!pass_plain_layout(from) || !pass_plain_layout(to) || from->dtype != to->dtype ||
      from->elements == 0)
    return false;
  hlo_dim_group g[2 * HLO_MAX_RANK + 2];
  u32 n = pass_dim_groups(from, to, g), fo[HLO_MAX_RANK], ot[HLO_MAX_RANK];
  u32 nf = pass_physical_order(from, fo), nt = pass_physical_order(to, ot), f = 0, t = 0;
  while (f < nf && t < nt) {
    u32 k = 0;
    while (k < n && !(fo[f] >= g[k].from && fo[f] < g[k + 1].from)) k++;
    if (k == n) return false;
    for (u32 d = g[k].from; d < g[k + 1].from; d++)
      if (from->dims[d] != 1 && (f == nf || fo[f++] != d)) return false;
    for (u32 d = g[k].to; d < g[k + 1].to; d++)
      if (to->dims[d] != 1 && (t == nt || ot[t++] != d)) return false;
  }
  return f == nf && t == nt;
}
