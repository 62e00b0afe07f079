// sparse.c — operands of a convolution that are stored without their zeros
// (sparsity_config).
//
// Along one dimension every block of `block_size` elements keeps num_non_zero of them; another
// operand, of the same shape as what is kept, says which place in its block each has. A stride
// takes the elements of a block that far apart, so that `stride` blocks interleave.
#include "core/eval/library.h"

static hs_status expand(ev *e, const hlo_instr *i, const hlo_sparsity_side *s,
                        const hlo_literal *kept, const hlo_literal *where, hlo_literal **out) {
  const hlo_shape *k = kept->shape, *dense;
  i64 dims[HLO_MAX_RANK], ks[HLO_MAX_RANK], ds[HLO_MAX_RANK],
      index[HLO_MAX_RANK] = {0}, d = s->dimension, stride = HS_MAX(s->stride, 1);
  if (d < 0 || d >= k->rank || s->num_non_zero < 1 || k->dims[d] % s->num_non_zero ||
      where->shape->elements != k->elements)
    return ev_unsupported(i, "with this sparsity");
  memcpy(dims, k->dims, k->rank * sizeof *dims);
  dims[d] = k->dims[d] / s->num_non_zero * s->block_size;
  HS_TRY(ev_shape(e, k->dtype, k->rank, dims, &dense));
  HS_TRY(ev_new(e, dense, out));
  memset((*out)->data, 0, (*out)->bytes);
  hlo_row_major_strides(k->rank, k->dims, ks);
  hlo_row_major_strides(k->rank, dims, ds);
  size_t w = hlo_dtype_storage(k->dtype);
  for (i64 at = 0; at < k->elements; at++, ev_next(k->rank, k->dims, index)) {
    i64 block = index[d] / s->num_non_zero, place = hlo_literal_i64(where, at), to = 0;
    i64 full = block / stride * (s->block_size * stride) + place * stride + block % stride;
    if (place < 0 || place >= s->block_size || full >= dims[d])
      return hs_fail(HS_E_RUN, "%s: a place of a sparse element is outside of its block", i->name);
    for (u32 q = 0; q < k->rank; q++) to += (q == d ? full : index[q]) * ds[q];
    memcpy((char *)(*out)->data + (size_t)to * w, (const char *)kept->data + (size_t)at * w, w);
  }
  return HS_GOOD;
}

hs_status ev_sparse_operands(ev *e, const hlo_instr *i, hlo_literal *const *ops,
                             hlo_literal *dense[2]) {
  const hlo_sparsity *s = hlo_attr_ptr(i, HLO_ATTR_SPARSITY_CONFIG);
  const hlo_sparsity_side *side[2] = {s ? &s->lhs : NULL, s ? &s->rhs : NULL};
  dense[0] = dense[1] = NULL;
  for (u32 k = 0; k < 2; k++) {
    if (!s || !side[k]->present) {
      dense[k] = hlo_literal_ref(ops[k]);
      continue;
    }
    hs_status st = side[k]->idx >= 2 && side[k]->idx < i->noperands
                       ? expand(e, i, side[k], ops[k], ops[side[k]->idx], &dense[k])
                       : ev_unsupported(i, "with a sparse operand that nothing says the places of");
    if (hs_ok(st)) continue;
    for (u32 q = 0; q < 2; q++) hlo_literal_unref(dense[q]);
    return st;
  }
  return HS_GOOD;
}
