// rt_dot_loops.c — loops for the dots that nothing faster computes: wide integers, and 16-bit
// ones with 32-bit sums.
//
// The compiler vectorizes them (target_clones: one copy per instruction set, chosen when the worker
// starts). Each chunk computes a block of the result and adds its products in an order that depends
// on the shape only, so that 1 thread and N threads give the same bits.
#include "backends/cpu/rt_dot.h"

// ---- matrix times matrix ------------------------------------------------------------------------

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

void cpu_dot_gemm(const dot *d, const void *a, const void *b, void *c) {
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
