// ragged.c — ragged-dot by its definition, for the forms that are not plain slices of a
// matrix (dot.c): batches, ragged dimensions further in, group sizes that differ from batch to
// batch.
//
// One lhs dimension is divided into groups of given sizes. When it is free, each row is multiplied
// with the rhs of its group (rows behind the last group give zero); when it is contracted, each
// group gives a result of its own. Sizes may depend on the lhs dimensions in front: the batches,
// and the free or contracted ones before the ragged one.
#include "core/eval/library.h"

typedef struct ragged {
  const hlo_shape *a, *b, *sizes;
  hlo_ints lb, lc, rb, rc;
  // ragged dimension of the lhs; group dimension of the rhs or -1
  i64 dim, group;
  bool contracted;
  u32 nfront;
  i64 front[HLO_MAX_RANK];  // lhs dimensions that group sizes depend on
  u32 nfree_a, nfree_b;
  i64 free_a[HLO_MAX_RANK], free_b[HLO_MAX_RANK];
  i64 as[HLO_MAX_RANK], bs[HLO_MAX_RANK], ss[HLO_MAX_RANK];
} ragged;

static bool holds(hlo_ints v, i64 x) {
  for (u32 k = 0; k < v.n; k++)
    if (v.v[k] == x) return true;
  return false;
}

static bool ragged_init(const hlo_instr *i, hlo_literal *const *ops, ragged *r) {
  hlo_ints group = hlo_attr_ints(i, HLO_ATTR_RHS_GROUP_DIMS);
  *r = (ragged){.a = ops[0]->shape,
                .b = ops[1]->shape,
                .sizes = ops[2]->shape,
                .lb = hlo_attr_ints(i, HLO_ATTR_LHS_BATCH_DIMS),
                .rb = hlo_attr_ints(i, HLO_ATTR_RHS_BATCH_DIMS),
                .lc = hlo_attr_ints(i, HLO_ATTR_LHS_CONTRACTING_DIMS),
                .rc = hlo_attr_ints(i, HLO_ATTR_RHS_CONTRACTING_DIMS),
                .dim = hlo_attr_ints(i, HLO_ATTR_LHS_RAGGED_DIMS).v[0],
                .group = group.n ? group.v[0] : -1};
  r->contracted = holds(r->lc, r->dim);
  for (u32 k = 0; k < r->lb.n; k++) r->front[r->nfront++] = r->lb.v[k];
  for (u32 d = 0; d < r->a->rank; d++) {
    if (holds(r->lb, d) || holds(r->lc, d)) continue;
    r->free_a[r->nfree_a++] = d;
    if (!r->contracted && d < r->dim) r->front[r->nfront++] = d;
  }
  for (u32 k = 0; k < r->lc.n && r->contracted && r->lc.v[k] != r->dim; k++)
    r->front[r->nfront++] = r->lc.v[k];
  for (u32 d = 0; d < r->b->rank; d++)
    if (!holds(r->rb, d) && !holds(r->rc, d) && d != r->group) r->free_b[r->nfree_b++] = d;
  hlo_row_major_strides(r->a->rank, r->a->dims, r->as);
  hlo_row_major_strides(r->b->rank, r->b->dims, r->bs);
  hlo_row_major_strides(r->sizes->rank, r->sizes->dims, r->ss);
  return r->sizes->rank == 1 || r->sizes->rank == r->nfront + 1;
}

// First row of group g, and how many it has, at this position of the lhs.
static i64 group_start(const ragged *r, const hlo_literal *sizes, const i64 *at, i64 g, i64 *size) {
  i64 base = 0, start = 0;
  for (u32 k = 0; k < r->nfront && r->sizes->rank > 1; k++) base += at[r->front[k]] * r->ss[k];
  for (i64 k = 0; k < g; k++) start += HS_MAX(hlo_literal_i64(sizes, base + k), 0);
  *size = HS_MAX(hlo_literal_i64(sizes, base + g), 0);
  return start;
}

// The sum over the contracted dimensions at one position of lhs (`at`) and rhs (offset ob); group
// g's part when contracted.
static double sum_at(const ragged *r, const double *a, const double *b, const hlo_literal *sizes,
                     i64 *at, i64 ob, i64 g) {
  i64 kn[HLO_MAX_RANK], index[HLO_MAX_RANK] = {0};
  double sum = 0;
  for (u32 k = 0; k < r->lc.n; k++) {
    kn[k] = r->a->dims[r->lc.v[k]];
    if (kn[k] == 0) return 0;
  }
  do {
    i64 oa = 0, o = ob, size;
    for (u32 k = 0; k < r->lc.n; k++) at[r->lc.v[k]] = index[k], o += index[k] * r->bs[r->rc.v[k]];
    if (r->contracted) {
      i64 start = group_start(r, sizes, at, g, &size);
      if (at[r->dim] < start || at[r->dim] >= start + size) continue;
    }
    for (u32 d = 0; d < r->a->rank; d++) oa += at[d] * r->as[d];
    sum += a[oa] * b[o];
  } while (ev_next(r->lc.n, kn, index));
  return sum;
}

static hs_status ragged_sums(const ragged *r, const hlo_shape *to, const double *a, const double *b,
                             const hlo_literal *sizes, double *out) {
  i64 index[HLO_MAX_RANK] = {0}, at[HLO_MAX_RANK] = {0},
      ngroups = r->sizes->dims[r->sizes->rank - 1];
  for (i64 k = 0; k < to->elements; k++, ev_next(to->rank, to->dims, index)) {
    const i64 *x = index;
    i64 ob = 0, g = r->contracted ? *x++ : 0;
    for (u32 q = 0; q < r->lb.n; q++, x++) at[r->lb.v[q]] = *x, ob += *x * r->bs[r->rb.v[q]];
    for (u32 q = 0; q < r->nfree_a; q++) at[r->free_a[q]] = *x++;
    for (u32 q = 0; q < r->nfree_b; q++) ob += *x++ * r->bs[r->free_b[q]];
    if (!r->contracted) {
      i64 size = 0;
      for (g = 0; g < ngroups; g++) {
        i64 start = group_start(r, sizes, at, g, &size);
        if (at[r->dim] < start + size) break;
      }
      if (g == ngroups) {
        out[k] = 0;
        continue;
      }
      ob += g * r->bs[r->group];
    }
    out[k] = sum_at(r, a, b, sizes, at, ob, g);
    if ((k & 1023) == 0) HS_TRY(hs_poll());
  }
  return HS_GOOD;
}

hs_status ev_ragged_dot(ev *e, const hlo_instr *i, hlo_literal *const *ops, hlo_literal **out) {
  ragged r;
  if (!ragged_init(i, ops, &r)) return ev_unsupported(i, "with these group sizes");
  if (hlo_dtype_is_complex(i->shape->dtype))
    return ev_unsupported(i, "of complex numbers in this form");
  double *v[3] = {NULL, NULL, NULL};
  hs_status st = HS_GOOD;
  for (u32 k = 0; k < 3; k++) {
    const hlo_shape *s = k < 2 ? ops[k]->shape : i->shape;
    v[k] = hs_try_alloc((size_t)HS_MAX(s->elements, 1) * sizeof(double));
    if (!v[k]) st = hs_chain(st, hs_fail(HS_E_NO_MEMORY, "no memory for a ragged dot"));
    else if (k < 2) ev_convert(s->dtype, ops[k]->data, HLO_F64, v[k], s->elements);
  }
  if (hs_ok(st)) st = ragged_sums(&r, i->shape, v[0], v[1], ops[2], v[2]);
  if (hs_ok(st)) st = ev_new(e, i->shape, out);
  if (hs_ok(st)) ev_convert(HLO_F64, v[2], i->shape->dtype, (*out)->data, i->shape->elements);
  for (u32 k = 0; k < 3; k++) hs_free(v[k]);
  return st;
}
