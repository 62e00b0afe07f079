// dot.c — dot: collapsed to a batched matrix product, then oneDNN or our own loops.
//
// Every dot is first brought to the form C[b,m,n] = sum over k of A[b,m,k] B[b,k,n]: the batch,
// free and contracted dims of each operand merge into one dim each when their strides nest, which
// covers nearly everything that occurs without moving data. What does not merge is packed into
// scratch; the batch may run over several dims that do not merge. Then, by type and size:
//   few rows or columns   rows times the matrix at memory speed: oneDNN is 2.5 to 4 times slower
//   f32, bf16             large: oneDNN matmul (f32 accumulation); else tiles of our own
//   f64, complex, f16     tiles of our own, which widen as they pack
//   8 bits                tiles with VNNI's exact sums; without it loops that widen to 16 bits and
//                         add pairs of products in 32, or oneDNN where it is exact
//   other integers        plain loops over u32 (all narrow integers wrap alike) or u64
//
// The choice depends on shapes, types and the machine's instruction set, never on the threads.
#include "backends/cpu/rt/dot.h"

static bool is_small_float(hlo_dtype t) { return hlo_dtype_is_float(t) && t != HLO_F64; }

bool cpu_dot_supports(const hlo_instr *i) {
  hlo_dtype a = hlo_operand(i, 0)->shape->dtype, b = hlo_operand(i, 1)->shape->dtype,
            c = i->shape->dtype;
  if (hlo_attr_get(i, HLO_ATTR_SPARSITY_CONFIG)) return false;
  if (!hlo_dtype_is_array(a) || !hlo_dtype_is_array(b) || !hlo_dtype_is_array(c)) return false;
  bool ca = hlo_dtype_is_complex(a), cb = hlo_dtype_is_complex(b), cc = hlo_dtype_is_complex(c);
  if (ca != cb || cb != cc) return false;
  bool fa = hlo_dtype_is_float(a) || ca, fb = hlo_dtype_is_float(b) || cb,
       fc = hlo_dtype_is_float(c) || cc;
  return fa == fb && fb == fc;
}

static dot_compute compute_type(hlo_dtype a, hlo_dtype b, hlo_dtype c) {
  if (c == HLO_C64 && a == HLO_C64 && b == HLO_C64) return DOT_C64;
  if (hlo_dtype_is_complex(c)) return DOT_C128;
  if (is_small_float(a) && is_small_float(b) && is_small_float(c)) return DOT_F32;
  if (hlo_dtype_is_float(c)) return DOT_F64;
  return hlo_dtype_storage(c) == 8 ? DOT_U64 : DOT_U32;
}

// For operands whose sums are u32, hence integers: one byte holds values within [-128, 255].
static bool fits_s16(hlo_dtype t) { return t == HLO_S16 || hlo_dtype_storage(t) == 1; }
static bool fits_s8(hlo_dtype t) { return hlo_dtype_storage(t) == 1 && t != HLO_U8; }

static dot_compute operand_type(hlo_dtype a, hlo_dtype b, dot_compute sums) {
  if (sums != DOT_U32 || !fits_s16(a) || !fits_s16(b)) return sums;
  bool bytes = a != HLO_S16 && b != HLO_S16 && (fits_s8(a) || fits_s8(b));
  return bytes && cpu_dot_micro(DOT_S8) ? DOT_S8 : DOT_S16;
}

// ---- plain loops --------------------------------------------------------------------------------
// For what nothing faster computes: wide integers, and 16-bit ones with 32-bit sums. The compiler
// vectorizes them (target_clones: one copy per instruction set). Each chunk computes a block of the
// result and adds its products in an order that depends on the shape only.

typedef struct gemm_job {
  const dot *d;
  const char *a, *b;
  char *c;
  i64 rows, cols;  // of a chunk
} gemm_job;

enum { NB = 64 };

// Rows [m0, m1) of one batch. B's columns contiguous: accumulate whole rows of C; else dot products
// along k.
#define DEFINE_GEMM(name, T)                                                                   \
  __attribute__((target_clones("default", "avx2", "avx512f"))) static void name(               \
      const T *restrict a, const T *restrict b, T *restrict c, const dot *d, i64 m0, i64 m1) { \
    const i64 N = d->N, K = d->K;                                                              \
    if (d->b.c == 1 && N > 1) {                                                                \
      for (i64 m = m0; m < m1; m++)                                                            \
        for (i64 n0 = 0; n0 < N; n0 += NB) {                                                   \
          T acc[NB] = {0};                                                                     \
          i64 nn = HS_MIN(N - n0, (i64)NB);                                                    \
          for (i64 k = 0; k < K; k++) {                                                        \
            T x = a[m * d->a.r + k * d->a.c];                                                  \
            const T *row = b + k * d->b.r + n0;                                                \
            if (nn == NB)                                                                      \
              for (i64 n = 0; n < NB; n++) acc[n] += x * row[n];                               \
            else                                                                               \
              for (i64 n = 0; n < nn; n++) acc[n] += x * row[n];                               \
          }                                                                                    \
          for (i64 n = 0; n < nn; n++) c[m * d->c.r + (n0 + n) * d->c.c] = acc[n];             \
        }                                                                                      \
      return;                                                                                  \
    }                                                                                          \
    for (i64 m = m0; m < m1; m++)                                                              \
      for (i64 n = 0; n < N; n++) {                                                            \
        T acc[16] = {0}, s = 0;                                                                \
        i64 k = 0;                                                                             \
        if (d->a.c == 1 && d->b.r == 1)                                                        \
          for (const T *x = a + m * d->a.r, *y = b + n * d->b.c; k + 16 <= K; k += 16)         \
            for (int u = 0; u < 16; u++) acc[u] += x[k + u] * y[k + u];                        \
        for (; k < K; k++) s += a[m * d->a.r + k * d->a.c] * b[k * d->b.r + n * d->b.c];       \
        for (int w = 8; w; w /= 2)                                                             \
          for (int u = 0; u < w; u++) acc[u] += acc[u + w];                                    \
        c[m * d->c.r + n * d->c.c] = s + acc[0];                                               \
      }                                                                                        \
  }
DEFINE_GEMM(gemm_u32, u32)
DEFINE_GEMM(gemm_u64, u64)

// Dot products of 16-bit values, contiguous along k, in tiles of 4 x 2: a multiply-add of pairs
// (vpmaddwd) per 16 of them. A tile at the edge computes its last row or column again. The products
// of 8-bit values and the sums of two of them are exact.
__attribute__((target_clones("default", "avx2"))) static void gemm_s16(const i16 *restrict a,
                                                                       const i16 *restrict b,
                                                                       u32 *restrict c,
                                                                       const dot *d, i64 m0, i64 m1,
                                                                       i64 n0, i64 n1) {
  enum { TM = 4, TN = 2 };
  const i64 K = d->K;
  for (i64 n = n0; n < n1; n += TN)
    for (i64 m = m0; m < m1; m += TM) {
      i64 row[TM], col[TN];
      u32 s[TM][TN] = {0};
      for (int i = 0; i < TM; i++) row[i] = HS_MIN(m + i, m1 - 1);
      for (int j = 0; j < TN; j++) col[j] = HS_MIN(n + j, n1 - 1);
      for (i64 k = 0; k < K; k++)
        for (int i = 0; i < TM; i++)
          for (int j = 0; j < TN; j++)
            s[i][j] += (u32)(a[row[i] * d->a.r + k] * b[col[j] * d->b.c + k]);
      for (int i = 0; i < TM; i++)
        for (int j = 0; j < TN; j++) c[row[i] * d->c.r + col[j] * d->c.c] = s[i][j];
    }
}

static void gemm_chunk(void *ctx, i64 chunk, u32 thread) {
  (void)thread;
  const gemm_job *j = ctx;
  const dot *d = j->d;
  i64 across = (d->N + j->cols - 1) / j->cols, down = (d->M + j->rows - 1) / j->rows,
      batch = chunk / (across * down);
  i64 m0 = chunk / across % down * j->rows, m1 = HS_MIN(d->M, m0 + j->rows),
      n0 = chunk % across * j->cols, n1 = HS_MIN(d->N, n0 + j->cols);
  size_t e = cpu_dot_compute_size(d->operand_type);
  i64 ba, bb, bc;
  cpu_dot_batch(d, batch, &ba, &bb, &bc);
  const void *a = j->a + (size_t)ba * e, *b = j->b + (size_t)bb * e;
  void *c = j->c + (size_t)bc * cpu_dot_compute_size(d->sum_type);
  switch (d->operand_type) {
  case DOT_U32: gemm_u32(a, b, c, d, m0, m1); break;
  case DOT_U64: gemm_u64(a, b, c, d, m0, m1); break;
  case DOT_S16: gemm_s16(a, b, c, d, m0, m1, n0, n1); break;
  default: break;  // tiles
  }
}

static void plain_gemm(const dot *d, const void *a, const void *b, void *c) {
  i64 work = HS_MAX(d->N * d->K, (i64)1);
  gemm_job j = {d, a, b, c, HS_MAX((i64)1, HS_MIN(d->M, (i64)65536 / work)), HS_MAX(d->N, (i64)1)};
  // the rows stay in the first cache while the columns go by
  if (d->operand_type == DOT_S16) {
    j.rows = HS_MAX((i64)8, HS_MIN((i64)64, 16384 / HS_MAX(d->K, (i64)1) / 4 * 4));
    j.cols = 128;
  }
  i64 chunks = d->B * ((d->M + j.rows - 1) / j.rows) * ((d->N + j.cols - 1) / j.cols);
  if (d->B * d->M * work < 65536)
    for (i64 k = 0; k < chunks; k++) gemm_chunk(&j, k, 0);
  else cpu_par_for(gemm_chunk, &j, chunks);
}

// ---- running ------------------------------------------------------------------------------------

static void free_dot(void *state) {
  dot *d = state;
  cpu_dot_dnnl_free(d->dnnl);
  cpu_kept_free(&d->kept);
  hs_free(d->tiles);
  hs_free(d);
}

// Sums of nothing: zeros, which not every type has.
static void fill_zero(hlo_dtype t, void *c, i64 count) {
  char zero[16] = {0};
  size_t w = hlo_dtype_storage(t);
  if (hlo_dtype_is_float(t)) hlo_elem_from_f64(t, zero, 0);
  for (i64 k = 0; k < count; k++) memcpy((char *)c + (size_t)k * w, zero, w);
}

static hs_status run_dot(void *state, void *const *bufs, void *scratch) {
  dot *d = state;
  char *s = scratch;
  void *a = bufs[d->swapped], *b = bufs[!d->swapped], *c = bufs[2];
  bool fill;
  if (d->K == 0) fill_zero(d->tc, c, d->B * d->M * d->N);
  if (d->B * d->M * d->N * d->K == 0) return HS_GOOD;
  HS_TRY(cpu_kept_open(&d->kept, &fill));
  if (d->pack_a && !d->each_a) {
    char *to = (d->keep_a ? d->kept.at : s) + d->at_a;
    if (fill || !(d->keep_a || d->panels_a))
      cpu_dot_pack(to, a, d->ta, d->operand_type, d->ra, d->da, d->sa, false);
    a = to;
  }
  if (d->pack_b) {
    char *to = (d->keep_b ? d->kept.at : s) + d->at_b;
    if (fill || !(d->keep_b || d->panels_b))
      cpu_dot_pack(to, b, d->tb, d->operand_type, d->rb, d->db, d->sb, false);
    b = to;
  }
  if (fill && d->tiles) cpu_dot_tiles_fill(d, a, b);
  d->kept.filled |= fill;
  if (d->pack_c) c = s + d->at_c;
  if (d->rows) HS_TRY(cpu_dot_rows(d, a, b, c, s + d->at_parts));
  else if (d->tiles) HS_TRY(cpu_dot_tiles_run(d, a, b, c));
  else if (d->dnnl) HS_TRY(cpu_dot_dnnl_run(d, a, b, c));
  else plain_gemm(d, a, b, c);
  if (d->pack_c) cpu_dot_pack(c, bufs[2], d->tc, d->sum_type, d->rc, d->dc, d->sc, true);
  return HS_GOOD;
}

// ---- bringing a dot to the collapsed form -------------------------------------------------------

// Merges n dims into one: true when their strides nest; *extent and *stride are those of the merged
// dim. Dims of extent 1 do not matter.
static bool collapse(u32 n, const i64 *dims, const i64 *strides, i64 *extent, i64 *stride) {
  i64 e = 1, s = 1;
  bool any = false, ok = true;
  for (u32 k = n; k-- > 0;) {
    if (dims[k] == 1) continue;
    if (!any) {
      s = strides[k];
      any = true;
    } else if (strides[k] != s * e) ok = false;
    e *= dims[k];
  }
  *extent = e;
  *stride = any ? s : 1;
  return ok;
}

// How many dims each of the three groups has: batch, then row and column.
typedef struct groups {
  u32 n[3];
} groups;

// Extents and strides of rows and columns; false when one of them does not nest: then the array has
// to be packed.
static bool side_of(const i64 *dims, const i64 *strides, groups g, dot_side *out, i64 *rows,
                    i64 *cols) {
  u32 r = g.n[0], c = r + g.n[1];
  bool ok = collapse(g.n[1], dims + r, strides + r, rows, &out->r);
  return collapse(g.n[2], dims + c, strides + c, cols, &out->c) && ok;
}

// The batch dims, merged where they nest in all three arrays.
static void arrange_batch(dot *d, u32 n) {
  d->B = 1;
  for (u32 k = 0; k < n; k++) {
    i64 e = d->da[k];
    d->B *= e;
    if (e == 1) continue;
    if (d->nbatch && d->step_a[d->nbatch - 1] == d->sa[k] * e &&
        d->step_b[d->nbatch - 1] == d->sb[k] * e && d->step_c[d->nbatch - 1] == d->sc[k] * e)
      d->batch[d->nbatch - 1] *= e;
    else d->batch[d->nbatch++] = e;
    d->step_a[d->nbatch - 1] = d->sa[k];
    d->step_b[d->nbatch - 1] = d->sb[k];
    d->step_c[d->nbatch - 1] = d->sc[k];
  }
}

// Appends the listed dims of s, with their strides, at position n of both arrays; the new length.
static u32 put_dims(const hlo_shape *s, const i64 *strides, hlo_ints which, i64 *dims, i64 *out,
                    u32 n) {
  for (u32 k = 0; k < which.n; k++) {
    dims[n] = s->dims[which.v[k]];
    out[n++] = strides[which.v[k]];
  }
  return n;
}

// The same for the dims that are neither batch nor contracted.
static u32 put_free(const hlo_shape *s, const i64 *strides, hlo_ints batch, hlo_ints contract,
                    i64 *dims, i64 *out, u32 n) {
  for (u32 k = 0; k < s->rank; k++)
    if (!hlo_ints_has(batch, k) && !hlo_ints_has(contract, k)) {
      dims[n] = s->dims[k];
      out[n++] = strides[k];
    }
  return n;
}

// Where the rows of A do not nest: the outer ones become batch dims, over which B stays where it
// is, when those that remain nest and are enough for a product of their own, and B is small, for it
// is read again for each of them. Else A has to be packed.
static void rows_as_batch(dot *d, groups *ga, groups *gb) {
  enum { LEAST_ROWS = 16, MOST_BYTES = 128 << 10 };
  groups rest = *ga;
  dot_side side;
  i64 rows, cols;
  if (!cpu_dot_stored_as(d->ta, d->operand_type) || !cpu_dot_stored_as(d->tb, d->operand_type) ||
      d->K * d->N > MOST_BYTES / (i64)hlo_dtype_storage(d->tb))
    return;
  do {
    if (rest.n[1] < 2 || d->rb + (rest.n[0] - ga->n[0]) + 1 >= HLO_MAX_RANK) return;
    rest.n[0]++, rest.n[1]--;
  } while (!side_of(d->da, d->sa, rest, &side, &rows, &cols));
  if (rows < LEAST_ROWS) return;
  u32 at0 = gb->n[0], more = rest.n[0] - ga->n[0];
  memmove(d->db + at0 + more, d->db + at0, (d->rb - at0) * sizeof *d->db);
  memmove(d->sb + at0 + more, d->sb + at0, (d->rb - at0) * sizeof *d->sb);
  for (u32 k = 0; k < more; k++) d->db[at0 + k] = d->da[ga->n[0] + k], d->sb[at0 + k] = 0;
  d->rb += more, gb->n[0] += more;
  *ga = rest;
  d->a = side, d->M = rows;
  d->pack_a = false;
}

// Groups the dims of both operands and of the result, and collapses each group.
static void arrange(dot *d, const hlo_instr *i) {
  // 16-bit dot products run along k: the right operand is packed with k fastest
  const bool by_k = d->operand_type == DOT_S16;
  const hlo_shape *a = hlo_operand(i, 0)->shape, *b = hlo_operand(i, 1)->shape, *c = i->shape;
  hlo_ints ab = hlo_attr_ints(i, HLO_ATTR_LHS_BATCH_DIMS),
           ac = hlo_attr_ints(i, HLO_ATTR_LHS_CONTRACTING_DIMS);
  hlo_ints bb = hlo_attr_ints(i, HLO_ATTR_RHS_BATCH_DIMS),
           bc = hlo_attr_ints(i, HLO_ATTR_RHS_CONTRACTING_DIMS);
  i64 st[HLO_MAX_RANK], k;
  cpu_strides(a, st);
  u32 n1 = put_dims(a, st, ab, d->da, d->sa, 0), n2 = put_free(a, st, ab, ac, d->da, d->sa, n1);
  d->ra = put_dims(a, st, ac, d->da, d->sa, n2);
  groups ga = {{n1, n2 - n1, d->ra - n2}};
  d->pack_a = !side_of(d->da, d->sa, ga, &d->a, &d->M, &d->K);
  cpu_strides(b, st);
  n1 = put_dims(b, st, bb, d->db, d->sb, 0);
  n2 = by_k ? put_free(b, st, bb, bc, d->db, d->sb, n1) : put_dims(b, st, bc, d->db, d->sb, n1);
  d->rb = by_k ? put_dims(b, st, bc, d->db, d->sb, n2) : put_free(b, st, bb, bc, d->db, d->sb, n2);
  groups gb = {{n1, n2 - n1, d->rb - n2}};
  d->pack_b = !side_of(d->db, d->sb, gb, &d->b, by_k ? &d->N : &k, by_k ? &k : &d->N);
  if (d->pack_a && !d->pack_b && !by_k) rows_as_batch(d, &ga, &gb);
  if (by_k) d->b = (dot_side){.r = d->b.c, .c = d->b.r};
  cpu_strides(c, st);
  d->rc = c->rank;
  for (u32 q = 0; q < c->rank; q++) {
    d->dc[q] = c->dims[q];
    d->sc[q] = st[q];
  }
  groups gc = {{ga.n[0], ga.n[1], gb.n[by_k ? 1 : 2]}};
  i64 m, n;
  d->pack_c = !side_of(d->dc, d->sc, gc, &d->c, &m, &n);
  arrange_batch(d, ga.n[0]);
  d->groups[0] = ga.n[0];
  d->groups[1] = ga.n[1];
  d->groups[2] = ga.n[2];
  d->free_b = gb.n[by_k ? 1 : 2];
}

// Exchanges two neighbouring runs of dims: n dims from `at`, and the m behind them.
static void exchange(i64 *dims, i64 *strides, u32 at, u32 n, u32 m) {
  i64 d[HLO_MAX_RANK], s[HLO_MAX_RANK];
  for (u32 k = 0; k < n + m; k++) {
    u32 from = at + (k < m ? n + k : k - m);
    d[k] = dims[from];
    s[k] = strides[from];
  }
  memcpy(dims + at, d, (n + m) * sizeof *d);
  memcpy(strides + at, s, (n + m) * sizeof *s);
}

#define EXCHANGE(T, x, y) \
  do {                    \
    T t_ = x;             \
    x = y;                \
    y = t_;               \
  } while (0)

// The same product transposed, C' = B' A': what was the right operand is now the left one.
static void transpose(dot *d) {
  const u32 nb = d->groups[0], m = d->groups[1], k = d->groups[2], n = d->free_b;
  if (d->operand_type != DOT_S16) {  // there both operands have k last
    exchange(d->da, d->sa, nb, m, k);
    exchange(d->db, d->sb, nb, k, n);
  }
  exchange(d->dc, d->sc, nb, m, n);
  for (u32 q = 0; q < HLO_MAX_RANK; q++) {
    EXCHANGE(i64, d->da[q], d->db[q]);
    EXCHANGE(i64, d->sa[q], d->sb[q]);
    EXCHANGE(i64, d->step_a[q], d->step_b[q]);
  }
  d->groups[1] = n;
  d->free_b = m;
  dot_side a = d->a;
  d->a = (dot_side){.r = d->b.c, .c = d->b.r};
  d->b = (dot_side){.r = a.c, .c = a.r};
  d->c = (dot_side){.r = d->c.c, .c = d->c.r};
  EXCHANGE(u32, d->ra, d->rb);
  EXCHANGE(bool, d->pack_a, d->pack_b);
  EXCHANGE(bool, d->fixed_a, d->fixed_b);
  EXCHANGE(hlo_dtype, d->ta, d->tb);
  EXCHANGE(i64, d->M, d->N);
  d->swapped = !d->swapped;
}

// ---- choosing -----------------------------------------------------------------------------------

// Whether A lies as a packed copy of it would: batch, rows and k dense in this order.
static bool is_dense(const dot *d) {
  i64 extent, stride;
  return collapse(d->ra, d->da, d->sa, &extent, &stride) && stride == 1;
}

// Few rows times a matrix that is read in place? Or few columns: then it is turned.
static bool as_rows(dot *d) {
  enum { MATRIX = 1 << 12 };  // elements: below it tiles are as fast
  for (int turn = 0; turn < 2; turn++, transpose(d)) {
    bool one = d->M == 1;
    if (d->M > DOT_FEW_ROWS || d->pack_b || !cpu_dot_rows_supports(d->tb, d->sum_type)) continue;
    if (!one && (d->N <= DOT_FEW_ROWS || d->N * d->K < MATRIX)) continue;
    if (!one && d->b.c != 1 && d->b.r != 1) continue;
    d->rows = true;
    d->operand_type = d->sum_type;
    d->pack_a = !cpu_dot_stored_as(d->ta, d->sum_type) || !is_dense(d);
    d->pack_c |= !cpu_dot_stored_as(d->tc, d->sum_type);
    return true;
  }
  return false;
}

// Whether a group of dims has the one whose elements are neighbours in memory.
static bool has_unit(const i64 *dims, const i64 *strides, u32 from, u32 n) {
  for (u32 k = from; k < from + n; k++)
    if (dims[k] > 1 && strides[k] == 1) return true;
  return false;
}

// Operands that are packed keep what lies next to each other next to each other: A goes by columns,
// B by rows, where that is how they are read in runs.
static void orient(dot *d) {
  const u32 nb = d->groups[0], m = d->groups[1], k = d->groups[2], n = d->free_b;
  if (d->operand_type == DOT_S16) return;  // k has to be last
  d->turned_a = d->pack_a && has_unit(d->da, d->sa, nb, m);
  d->turned_b = d->pack_b && has_unit(d->db, d->sb, nb, k);
  if (d->turned_a) exchange(d->da, d->sa, nb, m, k);
  if (d->turned_b) exchange(d->db, d->sb, nb, k, n);
}

// Whether oneDNN is faster where both could do it: for bf16 where the machine is fast at it,
// and for f32 by a little where there are many products or very large ones.
static bool is_for_dnnl(const dot *d) {
  const i64 LARGE = 1 << 18, HUGE_F32 = 1 << 28;  // multiplications of one product
  i64 one = hs_mul_sat_i64(d->M * d->N, d->K);
  if (d->ta != d->tb || d->M < 16 || d->N < 16 || one < LARGE) return false;
  return (d->ta == HLO_BF16 && cpu_dnnl_fast_bf16()) ||
         (d->ta == HLO_F32 && (d->B >= 16 || one >= HUGE_F32));
}

static void choose(dot *d, cpu_rt *out) {
  if (d->B * d->M * d->N * d->K == 0) return;
  if (as_rows(d)) {
    out->kind = d->M == 1 ? "dot (vector)" : "dot (rows)";
    return;
  }
  // columns that are neighbours in memory are written at once; and the 8-bit kernel wants the
  // unsigned operand on the left
  bool bytes = d->operand_type == DOT_S8;
  if (bytes ? d->tb == HLO_U8 : d->c.c != 1 && d->c.r == 1 && !d->pack_c) transpose(d);
  orient(d);
  if (is_for_dnnl(d) && cpu_dot_dnnl_prepare(d)) {
    out->kind = "dot (oneDNN)";
    return;
  }
  if (cpu_dot_tiles_prepare(d)) {
    out->kind = "dot (tiles)";
    return;
  }
  if (cpu_dot_dnnl_prepare(d)) {
    out->kind = "dot (oneDNN)";
    return;
  }
  bool by_k = d->operand_type == DOT_S16;
  d->pack_a |= !cpu_dot_stored_as(d->ta, d->operand_type) || (by_k && d->a.c != 1);
  d->pack_b |= !cpu_dot_stored_as(d->tb, d->operand_type) || (by_k && d->b.r != 1);
  d->pack_c |= !cpu_dot_stored_as(d->tc, d->sum_type);
}

void cpu_dot_read(const hlo_instr *i, dot *d) {
  *d = (dot){.ta = hlo_operand(i, 0)->shape->dtype,
             .tb = hlo_operand(i, 1)->shape->dtype,
             .tc = i->shape->dtype};
  d->sum_type = compute_type(d->ta, d->tb, d->tc);
  d->operand_type = operand_type(d->ta, d->tb, d->sum_type);
  arrange(d, i);
}

// Where so many bytes lie: in what is kept, or behind the *scratch bytes before them.
static i64 place(dot *d, bool keep, i64 bytes, i64 *scratch) {
  i64 at = *scratch;
  if (keep) return cpu_keep(&d->kept, bytes);
  *scratch += cpu_align(bytes);
  return at;
}

hs_status cpu_dot_prepare(const hlo_instr *i, cpu_rt *out) {
  dot *d = hs_calloc(1, sizeof *d);
  cpu_dot_read(i, d);
  d->fixed_a = out->fixed & 1;
  d->fixed_b = out->fixed & 2;
  *out = (cpu_rt){.kind = "dot", .state = d, .run = run_dot, .release = free_dot};
  choose(d, out);
  cpu_dot_pack_strides(d);
  i64 e = (i64)cpu_dot_compute_size(d->operand_type), at = 0;
  d->keep_a = d->pack_a && d->fixed_a && !d->panels_a;
  d->keep_b = d->pack_b && d->fixed_b && !d->panels_b;
  d->each_a = d->rows && d->pack_a && !d->keep_a && cpu_dot_rows_packs(d);
  if (d->pack_a && !d->each_a) d->at_a = place(d, d->keep_a, d->B * d->M * d->K * e, &at);
  if (d->pack_b) d->at_b = place(d, d->keep_b, d->B * d->K * d->N * e, &at);
  if (d->pack_c) {
    d->at_c = at;
    at += cpu_align(d->B * d->M * d->N * (i64)cpu_dot_compute_size(d->sum_type));
  }
  if (d->rows) {
    d->at_parts = at;
    at += cpu_align(cpu_dot_rows_prepare(d));
  }
  out->scratch_bytes = at;
  out->kept_bytes = d->kept.bytes;
  return HS_GOOD;
}
