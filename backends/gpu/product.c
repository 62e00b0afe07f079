// product.c — a dot as a product of two matrices, or of a batch of them, as BLAS knows them. See
// library.h.
//
// The dimensions of a dot are of four sorts: batch, rows (of the left side only), columns (of the
// right side only), and those that are summed over. Each sort must be one loop over memory with
// one stride, in both arrays that have it, whatever their layouts: then there are two matrices. A
// matrix is column-major, or is when turned over: one of its two strides must be 1, the other one
// is its leading dimension. A result with its columns along memory is the turned product: the
// right side then comes first.
#include "backends/gpu/library.h"

#if HAVE_LLVM

enum { MOST_RANK = 16, F8_MULTIPLE = 16 };

typedef struct product_row {
  hlo_dtype a, b, d;
  int compute, scale;
  u32 sm;
  i64 multiple, algorithm;
  bool otherwise;
  gpu_epilogues epilogues;
} product_row;
static const product_row rows[] = {
#define PRODUCT(a, b, d, by, scale, capability, multiple, algorithm, otherwise, epilogues) \
  {HLO_##a,      HLO_##b,                                                                  \
   HLO_##d,      BLAS_##by,                                                                \
   BLAS_##scale, capability,                                                               \
   multiple,     HLO_ALGORITHM_##algorithm,                                                \
   otherwise,    GPU_EPILOGUES_##epilogues},
#include "backends/gpu/products.def"
#undef PRODUCT
};

static const product_row *row_of(const hlo_instr *i, u32 sm) {
  i64 asked = hlo_attr_int(i, HLO_ATTR_ALGORITHM, HLO_ALGORITHM_UNSET);
  for (size_t k = 0; k < HS_COUNT(rows); k++) {
    const product_row *r = &rows[k];
    bool fits = asked == HLO_ALGORITHM_UNSET ? r->otherwise : asked == r->algorithm;
    if (fits && sm >= r->sm && r->a == hlo_operand(i, 0)->shape->dtype &&
        r->b == hlo_operand(i, 1)->shape->dtype && r->d == i->shape->dtype)
      return r;
  }
  return NULL;
}

// ---- strides ------------------------------------------------------------------------------------

// In elements, by dimension. False for what is not dense.
bool gpu_strides(const hlo_shape *s, u32 most_rank, i64 *out) {
  const hlo_layout *l = s->layout;
  if (s->rank > most_rank || hlo_shape_is_dynamic(s)) return false;
  if (!l) return hlo_row_major_strides(s->rank, s->dims, out), true;
  if (l->ntiles || l->nsplits || l->element_bits) return false;
  i64 at = 1;
  for (u32 k = 0; k < s->rank; k++) {
    out[l->minor_to_major[k]] = at;
    at *= s->dims[l->minor_to_major[k]];
  }
  return true;
}

// Dimensions of one sort as one loop, in two arrays.
typedef struct span {
  i64 size, stride[2];
} span;
typedef struct dims {
  u32 n;
  span of[MOST_RANK];
} dims;

static void add_dim(dims *d, i64 size, i64 first, i64 second) {
  if (size == 1) return;  // whatever its strides
  u32 k = d->n++;
  for (; k > 0 && d->of[k - 1].stride[0] < first; k--) d->of[k] = d->of[k - 1];
  d->of[k] = (span){size, {first, second}};
}

static bool join(const dims *d, span *out) {
  *out = (span){1, {0, 0}};
  for (u32 k = 0; k < d->n; k++) {
    const span *x = &d->of[k];
    for (u32 s = 0; s < 2 && k > 0; s++)
      if (d->of[k - 1].stride[s] != x->stride[s] * x->size) return false;
    *out = (span){out->size * x->size, {x->stride[0], x->stride[1]}};
  }
  return true;
}

// A matrix of so many rows and columns with their strides.
static bool matrix(i64 nrows, i64 row, i64 ncolumns, i64 column, i64 batch, gpu_matrix *out) {
  bool plain = (nrows == 1 || row == 1) && (ncolumns == 1 || column >= nrows);
  bool turned = (ncolumns == 1 || column == 1) && (nrows == 1 || row >= ncolumns);
  // of a vector both are true: then it stays as it lies along memory
  if (plain && turned && nrows == 1 && ncolumns > 1 && column == 1) plain = false;
  if (plain) *out = (gpu_matrix){false, ncolumns == 1 ? nrows : column, batch};
  else *out = (gpu_matrix){true, nrows == 1 ? ncolumns : row, batch};
  return plain || turned;
}

// ---- dots ---------------------------------------------------------------------------------------

typedef struct sides {
  span batch[2], rows, columns, steps;  // batch: of result and left, of result and right
} sides;

// A result's dimensions are the batch's, then those of the left side, then those of the right.
static bool find_sides(const hlo_instr *i, sides *out) {
  const hlo_shape *s[3] = {hlo_operand(i, 0)->shape, hlo_operand(i, 1)->shape, i->shape};
  static const hlo_attr_id batch_of[] = {HLO_ATTR_LHS_BATCH_DIMS, HLO_ATTR_RHS_BATCH_DIMS},
                           steps_of[] = {HLO_ATTR_LHS_CONTRACTING_DIMS,
                                         HLO_ATTR_RHS_CONTRACTING_DIMS};
  i64 stride[3][MOST_RANK];
  for (u32 k = 0; k < 3; k++)
    if (!gpu_strides(s[k], MOST_RANK, stride[k])) return false;
  dims batch[2] = {0}, steps = {0}, own[2] = {0};
  hlo_ints b[2], c[2];
  u32 at = 0;
  for (u32 k = 0; k < 2; k++)
    b[k] = hlo_attr_ints(i, batch_of[k]), c[k] = hlo_attr_ints(i, steps_of[k]);
  for (u32 n = 0; n < b[0].n; n++, at++)
    for (u32 k = 0; k < 2; k++)
      add_dim(&batch[k], s[2]->dims[at], stride[2][at], stride[k][b[k].v[n]]);
  for (u32 k = 0; k < 2; k++)
    for (u32 d = 0; d < s[k]->rank; d++)
      if (!hlo_ints_has(b[k], d) && !hlo_ints_has(c[k], d)) {
        add_dim(&own[k], s[k]->dims[d], stride[2][at], stride[k][d]);
        at++;
      }
  for (u32 n = 0; n < c[0].n; n++)
    add_dim(&steps, s[0]->dims[c[0].v[n]], stride[0][c[0].v[n]], stride[1][c[1].v[n]]);
  return join(&batch[0], &out->batch[0]) && join(&batch[1], &out->batch[1]) &&
         join(&own[0], &out->rows) && join(&own[1], &out->columns) && join(&steps, &out->steps);
}

static bool multiples(const gpu_product *p, i64 of) {
  const i64 all[] = {p->m,         p->k,       p->a.leading, p->b.leading,
                     p->d.leading, p->a.batch, p->b.batch,   p->d.batch};
  for (size_t k = 0; k < HS_COUNT(all); k++)
    if (all[k] % of) return false;
  return true;
}

bool gpu_product_of_dot(const hlo_instr *i, u32 sm, gpu_product *out, gpu_epilogues *may) {
  sides x;
  if (i->opcode != HLO_DOT || i->shape->elements == 0) return false;
  const product_row *r = row_of(i, sm);
  if (!r || !find_sides(i, &x) || x.steps.size == 0) return false;
  // 0: the left side comes first
  u32 first = x.columns.size == 1 || x.columns.stride[0] == 1 ? 1 : 0;
  if (first && x.columns.size == 1 && x.rows.stride[0] == 1) first = 0;
  const span *m = first ? &x.columns : &x.rows, *n = first ? &x.rows : &x.columns;
  *out = (gpu_product){.m = m->size, .n = n->size, .k = x.steps.size, .batch = x.batch[0].size};
  out->a_in = first, out->b_in = 1 - first;
  out->type[0] = hlo_operand(i, out->a_in)->shape->dtype;
  out->type[1] = hlo_operand(i, out->b_in)->shape->dtype;
  out->type[2] = i->shape->dtype;
  out->compute = r->compute, out->scale = r->scale;
  *may = r->epilogues;
  if (!matrix(out->m, m->stride[1], out->k, x.steps.stride[first], x.batch[first].stride[1],
              &out->a) ||
      !matrix(out->k, x.steps.stride[1 - first], out->n, n->stride[1], x.batch[1 - first].stride[1],
              &out->b) ||
      !matrix(out->m, m->stride[0], out->n, n->stride[0], x.batch[0].stride[0], &out->d) ||
      out->d.turned)
    return false;
  const i64 sizes[] = {out->m, out->n, out->k, out->batch, out->a.leading, out->b.leading};
  for (size_t k = 0; k < HS_COUNT(sizes); k++)
    if (sizes[k] > INT32_MAX) return false;
  if (r->multiple == F8_MULTIPLE && (!out->a.turned || out->b.turned)) return false;
  return multiples(out, r->multiple);
}

// At most 2^63 - 1, as arrays are not larger than that.
double gpu_product_steps(const gpu_product *p) {
  return (double)p->m * (double)p->n * (double)p->k * (double)p->batch;
}

#endif
