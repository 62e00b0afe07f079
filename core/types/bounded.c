// bounded.c — arrays with dynamic dimensions: which part of one is in use.
//
// Such an array has memory for the bounds of its type, in the order of these; its dynamic sizes say
// how many indices of each dimension have a value. What lies beyond has none: it is not shown,
// written, counted or compared. Packed, the elements in use lie side by side, as those of an array
// of a static type with these sizes do.
#include "core/types/literal.h"

i64 hlo_literal_sizes(const hlo_literal *l, i64 *sizes) {
  i64 n = 1;
  for (u32 d = 0; d < l->shape->rank; d++) {
    sizes[d] = l->dynamic_sizes ? l->dynamic_sizes[d] : l->shape->dims[d];
    n *= sizes[d];
  }
  return n;
}

bool hlo_literal_has_at(const hlo_literal *l, const i64 *strides, i64 at) {
  if (!l->dynamic_sizes) return true;
  for (u32 d = 0; d < l->shape->rank; d++)
    if (at / strides[d] % l->shape->dims[d] >= l->dynamic_sizes[d]) return false;
  return true;
}

bool hlo_shape_takes_sizes(const hlo_shape *s, u32 rank, const i64 *sizes) {
  if (rank != s->rank) return false;
  for (u32 d = 0; d < rank; d++)
    if (hlo_dim_is_dynamic(s, d) ? sizes[d] > s->dims[d] : sizes[d] != s->dims[d]) return false;
  return true;
}

// Calls `row` for each row in use: its first element and its bytes.
static void for_rows(const hlo_literal *l, void (*row)(void *, char *, size_t), void *arg) {
  u32 rank = l->shape->rank;
  i64 sizes[HLO_MAX_RANK], strides[HLO_MAX_RANK], index[HLO_MAX_RANK] = {0};
  if (!hlo_literal_sizes(l, sizes)) return;
  hlo_row_major_strides(rank, l->shape->dims, strides);
  size_t w = hlo_dtype_storage(l->shape->dtype), bytes = w * (size_t)(rank ? sizes[rank - 1] : 1);
  for (u32 d = 1; d;) {
    i64 at = 0;
    for (u32 k = 0; k + 1 < rank; k++) at += index[k] * strides[k];
    row(arg, (char *)l->data + (size_t)at * w, bytes);
    for (d = rank ? rank - 1 : 0; d && ++index[d - 1] == sizes[d - 1]; d--) index[d - 1] = 0;
  }
}

static void pack_row(void *arg, char *row, size_t bytes) {
  char **packed = arg;
  memcpy(*packed, row, bytes);
  *packed += bytes;
}
static void unpack_row(void *arg, char *row, size_t bytes) {
  const char **packed = arg;
  memcpy(row, *packed, bytes);
  *packed += bytes;
}
static void put_row(void *arg, char *row, size_t bytes) { hs_buf_put(arg, row, bytes); }

void hlo_literal_put(hs_buf *b, const hlo_literal *l) {
  if (l->dynamic_sizes) for_rows(l, put_row, b);
  else if (l->bytes) hs_buf_put(b, l->data, l->bytes);
}

hs_status hlo_literal_of_sizes(const hlo_shape *s, const i64 *sizes, const void *packed,
                               hlo_literal **out) {
  HS_TRY(hlo_literal_new(s, out));
  for (u32 d = 0; (*out)->dynamic_sizes && d < s->rank; d++)
    (*out)->dynamic_sizes[d] = (i32)sizes[d];
  for_rows(*out, unpack_row, &packed);
  return HS_GOOD;
}

hs_status hlo_literal_in_use(hlo_ctx *ctx, const hlo_literal *l, hlo_literal **out) {
  *out = NULL;
  if (!l->dynamic_sizes) {
    *out = hlo_literal_ref(l);
    return HS_GOOD;
  }
  i64 sizes[HLO_MAX_RANK];
  hlo_literal_sizes(l, sizes);
  HS_TRY(hlo_literal_new(hlo_shape_array(ctx, l->shape->dtype, l->shape->rank, sizes), out));
  char *packed = (*out)->data;
  for_rows(l, pack_row, &packed);
  return HS_GOOD;
}

// ---- the groups of a reshape --------------------------------------------------------------------
// Dimensions of both sides of a reshape, paired in groups whose products are equal: i and j are the
// next ones, pi and pj the products of those of the group so far.
typedef struct pairing {
  const hlo_shape *from, *to;
  u32 i, j;
  i64 pi, pj;
} pairing;

// 0 counts as more than any other product: the other side goes on until it has its 0.
static bool is_less(i64 a, i64 b) { return a && (!b || a < b); }

// Which next dimensions join the group: of the side with the smaller product, or of equal products
// the smaller dimension. A dynamic one of size 1 waits for one of the other side.
static void next_of(const pairing *g, bool *take_i, bool *take_j) {
  const hlo_shape *from = g->from, *to = g->to;
  bool more_i = g->i < from->rank, more_j = g->j < to->rank, both = more_i && more_j,
       even = both && g->pi == g->pj;
  i64 di = more_i ? from->dims[g->i] : 1, dj = more_j ? to->dims[g->j] : 1;
  *take_i = more_i && (!both || is_less(g->pi, g->pj) || (even && !is_less(dj, di)));
  *take_j = more_j && (!both || is_less(g->pj, g->pi) || (even && !is_less(di, dj)));
  if (!even || di != 1 || dj != 1) return;
  bool cut_i = hlo_dim_is_dynamic(from, g->i), cut_j = hlo_dim_is_dynamic(to, g->j);
  *take_i &= cut_j || !cut_i;
  *take_j &= cut_i || !cut_j;
}

// Whether the group goes on: its products differ, a side that has dimensions left gave none, or
// what is left of the operand, and the result has nothing for, is of size 1. One of nothing takes
// all that is left of one side alone.
static bool is_open(const pairing *g, u32 first_i, u32 first_j) {
  bool more_i = g->i < g->from->rank, more_j = g->j < g->to->rank;
  return g->pi != g->pj || (more_i && g->i == first_i) || (more_j && g->j == first_j) ||
         (more_i && !more_j && g->from->dims[g->i] == 1) || (!g->pi && more_i != more_j);
}

u32 hlo_size_groups(const hlo_shape *from, const hlo_shape *to, hlo_dim_group *starts) {
  pairing g = {.from = from, .to = to};
  u32 n = 0;
  while (g.i < from->rank || g.j < to->rank) {
    const u32 first_i = g.i, first_j = g.j;
    starts[n++] = (hlo_dim_group){first_i, first_j};
    g.pi = g.pj = 1;
    do {
      bool take_i, take_j;
      next_of(&g, &take_i, &take_j);
      if (!take_i && !take_j) return 0;
      if (take_i) g.pi = hs_mul_sat_i64(g.pi, from->dims[g.i++]);
      if (take_j) g.pj = hs_mul_sat_i64(g.pj, to->dims[g.j++]);
    } while (is_open(&g, first_i, first_j));
  }
  starts[n] = (hlo_dim_group){g.i, g.j};
  return n;
}
