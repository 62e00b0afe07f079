// rt_dot_loops.c — loops for the dots that oneDNN does not compute: matrix times matrix over any
// compute type, 16-bit integers with 32-bit sums, and matrix times vector at memory speed.
//
// The compiler vectorizes them (target_clones: one copy per instruction set, chosen when the worker
// starts). Each chunk computes a block of the result and adds its products in an order that depends
// on the shape only, so that 1 thread and N threads give the same bits.
#include "backends/cpu/cx.h"

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
DEFINE_GEMM(gemm_f32, float)
DEFINE_GEMM(gemm_f64, double)
DEFINE_GEMM(gemm_u32, u32)
DEFINE_GEMM(gemm_u64, u64)
#define DEFINE_GEMM_PLAIN(name, T, times)                                        \
  static void name(const T *a, const T *b, T *c, const dot *d, i64 m0, i64 m1) { \
    for (i64 m = m0; m < m1; m++)                                                \
      for (i64 n = 0; n < d->N; n++) {                                           \
        T s = 0;                                                                 \
        for (i64 k = 0; k < d->K; k++)                                           \
          s += times(a[m * d->a.r + k * d->a.c], b[k * d->b.r + n * d->b.c]);    \
        c[m * d->c.r + n * d->c.c] = s;                                          \
      }                                                                          \
  }
DEFINE_GEMM_PLAIN(gemm_c64, float complex, cpu_times_c64)
DEFINE_GEMM_PLAIN(gemm_c128, double complex, cpu_times_c128)

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
  const void *a = j->a + (size_t)(batch * d->a.b) * e, *b = j->b + (size_t)(batch * d->b.b) * e;
  void *c = j->c + (size_t)(batch * d->c.b) * cpu_dot_compute_size(d->sum_type);
  switch (d->operand_type) {
  case DOT_F32: gemm_f32(a, b, c, d, m0, m1); break;
  case DOT_F64: gemm_f64(a, b, c, d, m0, m1); break;
  case DOT_U32: gemm_u32(a, b, c, d, m0, m1); break;
  case DOT_U64: gemm_u64(a, b, c, d, m0, m1); break;
  case DOT_C64: gemm_c64(a, b, c, d, m0, m1); break;
  case DOT_C128: gemm_c128(a, b, c, d, m0, m1); break;
  case DOT_S16: gemm_s16(a, b, c, d, m0, m1, n0, n1); break;
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

// ---- matrix times vector ------------------------------------------------------------------------

// c[n] = sum over k of x[k] b[k][n]: x is packed, in the compute type; the matrix is read once, in
// place, as it is. Contiguous columns: rows of the matrix stream by and a block of columns
// accumulates in L1; contiguous k: one dot product per column.
static inline float from_f32(float v) { return v; }
static inline float from_bf16(u16 v) {
  u32 b = (u32)v << 16;
  float f;
  memcpy(&f, &b, sizeof f);
  return f;
}
static inline u32 from_s8(i8 v) { return (u32)v; }
static inline u32 from_u8(u8 v) { return v; }

enum { VCOLS = 1024 };
#define DEFINE_VECTOR(name, S, T, LOAD)                                                        \
  __attribute__((target_clones("default", "avx2", "avx512f"))) static void name(               \
      const S *restrict x, const T *restrict b, S *restrict c, const dot *d, i64 n0, i64 n1) { \
    const i64 K = d->K, rs = d->b.r, cs = d->b.c, n = n1 - n0;                                 \
    if (cs == 1) {                                                                             \
      S acc[VCOLS] = {0};                                                                      \
      i64 k = 0;                                                                               \
      for (; k + 4 <= K; k += 4) {                                                             \
        const T *r0 = b + k * rs + n0, *r1 = r0 + rs, *r2 = r1 + rs, *r3 = r2 + rs;            \
        const S x0 = x[k], x1 = x[k + 1], x2 = x[k + 2], x3 = x[k + 3];                        \
        for (i64 j = 0; j < n; j++)                                                            \
          acc[j] += x0 * LOAD(r0[j]) + x1 * LOAD(r1[j]) + x2 * LOAD(r2[j]) + x3 * LOAD(r3[j]); \
      }                                                                                        \
      for (; k < K; k++)                                                                       \
        for (i64 j = 0; j < n; j++) acc[j] += x[k] * LOAD(b[k * rs + n0 + j]);                 \
      for (i64 j = 0; j < n; j++) c[(n0 + j) * d->c.c] = acc[j];                               \
      return;                                                                                  \
    }                                                                                          \
    for (i64 j = n0; j < n1; j++) {                                                            \
      const T *col = b + j * cs;                                                               \
      S acc[64] = {0}, s = 0;                                                                  \
      i64 k = 0;                                                                               \
      if (rs == 1)                                                                             \
        for (; k + 64 <= K; k += 64)                                                           \
          for (int u = 0; u < 64; u++) acc[u] += x[k + u] * LOAD(col[k + u]);                  \
      for (; k < K; k++) s += x[k] * LOAD(col[k * rs]);                                        \
      for (int w = 32; w; w /= 2)                                                              \
        for (int u = 0; u < w; u++) acc[u] += acc[u + w];                                      \
      c[j * d->c.c] = s + acc[0];                                                              \
    }                                                                                          \
  }
DEFINE_VECTOR(vector_f32, float, float, from_f32)
DEFINE_VECTOR(vector_bf16, float, u16, from_bf16)
DEFINE_VECTOR(vector_s8, u32, i8, from_s8)
DEFINE_VECTOR(vector_u8, u32, u8, from_u8)

typedef struct vector_job {
  const dot *d;
  const char *x, *b;
  char *c;
  i64 cols, per;
} vector_job;

static void vector_chunk(void *ctx, i64 chunk, u32 thread) {
  (void)thread;
  const vector_job *j = ctx;
  const dot *d = j->d;
  i64 batch = chunk / j->per, n0 = chunk % j->per * j->cols, n1 = HS_MIN(d->N, n0 + j->cols);
  size_t e = cpu_dot_compute_size(d->sum_type);
  const void *x = j->x + (size_t)(batch * d->K) * e,
             *b = j->b + (size_t)(batch * d->b.b) * hlo_dtype_storage(d->tb);
  void *c = j->c + (size_t)(batch * d->c.b) * e;
  switch (d->tb) {
  case HLO_F32: vector_f32(x, b, c, d, n0, n1); break;
  case HLO_BF16: vector_bf16(x, b, c, d, n0, n1); break;
  case HLO_S8: vector_s8(x, b, c, d, n0, n1); break;
  default: vector_u8(x, b, c, d, n0, n1);
  }
}

void cpu_dot_vector(const dot *d, const void *x, const void *b, void *c) {
  // Columns per chunk: about 32 KB of the matrix at least, whole cache lines.
  i64 cols = HS_MAX((i64)64, 16384 / HS_MAX(d->K, (i64)1));
  if (d->b.c == 1) cols = HS_MAX(cols, HS_MIN((i64)256, d->N));
  cols = HS_MIN((i64)VCOLS, (cols + 63) / 64 * 64);
  vector_job j = {d, x, b, c, cols, (d->N + cols - 1) / cols};
  if (d->B * d->N * d->K < 16384)
    for (i64 k = 0; k < d->B * j.per; k++) vector_chunk(&j, k, 0);
  else cpu_par_for(vector_chunk, &j, d->B * j.per);
}
