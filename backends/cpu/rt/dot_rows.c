// dot_rows.c — a few rows times a matrix: the matrix is read once, in place, in its own type,
// at the speed of memory, and the rows wait in cache.
//
// Where columns are neighbours in memory, some rows of the matrix stream by and a block of columns
// accumulates in the first cache; where k is, each column gives its dot products with all rows. One
// chunk computes a block of columns. A product with too few columns for all threads is also split
// along k, by its shape; the sums of the parts are then added in order. Vectors are written out as
// GCC's vector types and compiled once per instruction set.
#include "backends/cpu/rt/dot.h"

enum {
  MOST_SUMS = 4096,        // of a chunk: they stay in the first cache
  CHUNK_ELEMENTS = 16384,  // of the matrix, at least
};

// A vector's worth of the matrix at p, in the sum type.
#define SAME_V(p, V, U) (*(p))
#define BF16_V(p, V, U) ((V)(__builtin_convertvector(*(p), U) << 16))
#define WIDE_V(p, V, U) __builtin_convertvector(*(p), U)
// One element.
#define SAME(v) (v)
static inline u32 from_s8(i8 v) { return (u32)v; }
static inline u32 from_u8(u8 v) { return v; }
static inline float from_bf16(u16 v) {
  u32 b = (u32)v << 16;
  float f;
  memcpy(&f, &b, sizeof f);
  return f;
}

// Sums over the lanes of several vectors at once. JOIN_W_h, of vectors of W lanes: in each run of
// 2 h lanes, half of them sums of two of a's, the other half of b's. FOLD_W: the n vectors of v
// become max(1, n / W); a vector has the sums of as many vectors in their order, each in parts in
// W / n lanes next to each other where n < W. n: a power of two.
#define JOIN(a, b, low, high) \
  (__builtin_shufflevector(a, b, UNPACK low) + __builtin_shufflevector(a, b, UNPACK high))
#define UNPACK(...) __VA_ARGS__
#define JOIN_2_1(a, b) JOIN(a, b, (0, 2), (1, 3))
#define JOIN_4_2(a, b) JOIN(a, b, (0, 1, 4, 5), (2, 3, 6, 7))
#define JOIN_4_1(a, b) JOIN(a, b, (0, 4, 2, 6), (1, 5, 3, 7))
#define JOIN_8_4(a, b) JOIN(a, b, (0, 1, 2, 3, 8, 9, 10, 11), (4, 5, 6, 7, 12, 13, 14, 15))
#define JOIN_8_2(a, b) JOIN(a, b, (0, 1, 8, 9, 4, 5, 12, 13), (2, 3, 10, 11, 6, 7, 14, 15))
#define JOIN_8_1(a, b) JOIN(a, b, (0, 8, 2, 10, 4, 12, 6, 14), (1, 9, 3, 11, 5, 13, 7, 15))
#define JOIN_16_8(a, b)                                                \
  JOIN(a, b, (0, 1, 2, 3, 4, 5, 6, 7, 16, 17, 18, 19, 20, 21, 22, 23), \
       (8, 9, 10, 11, 12, 13, 14, 15, 24, 25, 26, 27, 28, 29, 30, 31))
#define JOIN_16_4(a, b)                                                  \
  JOIN(a, b, (0, 1, 2, 3, 16, 17, 18, 19, 8, 9, 10, 11, 24, 25, 26, 27), \
       (4, 5, 6, 7, 20, 21, 22, 23, 12, 13, 14, 15, 28, 29, 30, 31))
#define JOIN_16_2(a, b)                                                  \
  JOIN(a, b, (0, 1, 16, 17, 4, 5, 20, 21, 8, 9, 24, 25, 12, 13, 28, 29), \
       (2, 3, 18, 19, 6, 7, 22, 23, 10, 11, 26, 27, 14, 15, 30, 31))
#define JOIN_16_1(a, b)                                                   \
  JOIN(a, b, (0, 16, 2, 18, 4, 20, 6, 22, 8, 24, 10, 26, 12, 28, 14, 30), \
       (1, 17, 3, 19, 5, 21, 7, 23, 9, 25, 11, 27, 13, 29, 15, 31))
#define FOLD_STEP(v, n, join)                                         \
  if ((n) > 1) {                                                      \
    (n) /= 2;                                                         \
    _Pragma("GCC unroll 8") for (int k_ = 0; k_ < (n); k_++)(v)[k_] = \
        join((v)[k_], (v)[k_ + (n)]);                                 \
  }
#define FOLD_2(v, n) FOLD_STEP(v, n, JOIN_2_1)
#define FOLD_4(v, n)        \
  FOLD_STEP(v, n, JOIN_4_2) \
  FOLD_STEP(v, n, JOIN_4_1)
#define FOLD_8(v, n)        \
  FOLD_STEP(v, n, JOIN_8_4) \
  FOLD_STEP(v, n, JOIN_8_2) \
  FOLD_STEP(v, n, JOIN_8_1)
#define FOLD_16(v, n)        \
  FOLD_STEP(v, n, JOIN_16_8) \
  FOLD_STEP(v, n, JOIN_16_4) \
  FOLD_STEP(v, n, JOIN_16_2) \
  FOLD_STEP(v, n, JOIN_16_1)

typedef struct rows_job {
  const dot *d;
  char *x;
  const char *b;
  char *c, *parts;
  i64 cols, across;               // columns of a chunk; chunks along them
  bool packed[CPU_MOST_THREADS];  // whether the thread's memory has x
  bool failed;                    // set by any thread that had none
} rows_job;

// What one chunk computes: rows of x, xr apart, from k0 to k1; columns n0 to n1; rows of the result
// cr apart, columns cc.
typedef struct span {
  i64 M, k0, k1, n0, n1, rs, cs, xr, cr, cc;
} span;

// R: rows of the kernel, of which M are stored; the others repeat the last. U: rows of the matrix
// at a time. C: columns at a time where k is contiguous.
#define DEFINE_ROWS(name, TARGET, BYTES, FOLD, S, T, LOADV, LOAD)                                 \
  typedef S name##_v __attribute__((vector_size(BYTES), aligned(sizeof(S)), may_alias));          \
  typedef u32 name##_u __attribute__((vector_size(BYTES), aligned(4), may_alias));                \
  typedef T name##_t                                                                              \
      __attribute__((vector_size(BYTES / sizeof(S) * sizeof(T)), aligned(sizeof(T)), may_alias)); \
  TARGET static inline __attribute__((always_inline)) void name##_body(                           \
      const S *restrict x, const T *restrict b, S *restrict c, const span *s, const int R,        \
      const int U, const int C) {                                                                 \
    enum { W = BYTES / sizeof(S) };                                                               \
    const i64 n = s->n1 - s->n0, rs = s->rs, cs = s->cs;                                          \
    const S *row[DOT_FEW_ROWS];                                                                   \
    for (int r = 0; r < R; r++) row[r] = x + HS_MIN((i64)r, s->M - 1) * s->xr;                    \
    if (cs == 1) {                                                                                \
      const i64 nv = n / W;                                                                       \
      name##_v acc[MOST_SUMS / W];                                                                \
      S tail[DOT_FEW_ROWS * W];                                                                   \
      for (i64 j = 0; j < R * nv; j++) acc[j] = (name##_v){0};                                    \
      for (int j = 0; j < R * W; j++) tail[j] = 0;                                                \
      i64 k = s->k0;                                                                              \
      for (; k + U <= s->k1; k += U) {                                                            \
        const T *p[4];                                                                            \
        S f[DOT_FEW_ROWS][4];                                                                     \
        _Pragma("GCC unroll 4") for (int u = 0; u < U; u++) {                                     \
          p[u] = b + (k + u) * rs + s->n0;                                                        \
          _Pragma("GCC unroll 8") for (int r = 0; r < R; r++) f[r][u] = row[r][k + u];            \
        }                                                                                         \
        for (i64 j = 0; j < nv; j++) {                                                            \
          name##_v y[4];                                                                          \
          _Pragma("GCC unroll 4") for (int u = 0; u < U; u++) y[u] =                              \
              LOADV((const name##_t *)(const void *)(p[u] + j * W), name##_v, name##_u);          \
          _Pragma("GCC unroll 8") for (int r = 0; r < R; r++) {                                   \
            name##_v t = acc[j * R + r];                                                          \
            _Pragma("GCC unroll 4") for (int u = 0; u < U; u++) t += f[r][u] * y[u];              \
            acc[j * R + r] = t;                                                                   \
          }                                                                                       \
        }                                                                                         \
        for (i64 j = nv * W; j < n; j++)                                                          \
          for (int r = 0; r < R; r++)                                                             \
            for (int u = 0; u < U; u++) tail[(j - nv * W) * R + r] += f[r][u] * LOAD(p[u][j]);    \
      }                                                                                           \
      for (; k < s->k1; k++) {                                                                    \
        const T *p = b + k * rs + s->n0;                                                          \
        for (i64 j = 0; j < nv; j++)                                                              \
          for (int r = 0; r < R; r++)                                                             \
            acc[j * R + r] += row[r][k] * LOADV((const name##_t *)(const void *)(p + j * W),      \
                                                name##_v, name##_u);                              \
        for (i64 j = nv * W; j < n; j++)                                                          \
          for (int r = 0; r < R; r++) tail[(j - nv * W) * R + r] += row[r][k] * LOAD(p[j]);       \
      }                                                                                           \
      for (int r = 0; r < R && r < s->M; r++)                                                     \
        for (i64 j = 0; j < n; j++)                                                               \
          c[r * s->cr + (s->n0 + j) * s->cc] =                                                    \
              j < nv * W ? acc[j / W * R + r][j % W] : tail[(j - nv * W) * R + r];                \
      return;                                                                                     \
    }                                                                                             \
    for (i64 j = s->n0; j < s->n1; j += C) {                                                      \
      enum { MOST = DOT_FEW_ROWS * 4 };                                                           \
      const int all = R * C, some = HS_MIN(all, (int)W), parts = W / some;                        \
      name##_v acc[MOST];                                                                         \
      S sum[MOST] = {0};                                                                          \
      const T *col[4];                                                                            \
      _Pragma("GCC unroll 4") for (int q = 0; q < C; q++) {                                       \
        col[q] = b + HS_MIN(j + q, s->n1 - 1) * cs;                                               \
        _Pragma("GCC unroll 8") for (int r = 0; r < R; r++) acc[q * R + r] = (name##_v){0};       \
      }                                                                                           \
      i64 k = s->k0;                                                                              \
      if (rs == 1)                                                                                \
        for (; k + W <= s->k1; k += W) {                                                          \
          name##_v y[4];                                                                          \
          _Pragma("GCC unroll 4") for (int q = 0; q < C; q++) y[q] =                              \
              LOADV((const name##_t *)(const void *)(col[q] + k), name##_v, name##_u);            \
          _Pragma("GCC unroll 4") for (int q = 0; q < C; q++)                                     \
              __builtin_prefetch(col[q] + C * cs + k);                                            \
          _Pragma("GCC unroll 8") for (int r = 0; r < R; r++) {                                   \
            name##_v v = *(const name##_v *)(const void *)(row[r] + k);                           \
            _Pragma("GCC unroll 4") for (int q = 0; q < C; q++) acc[q * R + r] += v * y[q];       \
          }                                                                                       \
        }                                                                                         \
      for (; k < s->k1; k++)                                                                      \
        for (int q = 0; q < C; q++)                                                               \
          for (int r = 0; r < R; r++) sum[q * R + r] += row[r][k] * LOAD(col[q][k * rs]);         \
      _Pragma("GCC unroll 16") for (int at = 0; at < all; at += some) {                           \
        int left = some;                                                                          \
        FOLD(acc + at, left)                                                                      \
        if (parts == 1) {                                                                         \
          *(name##_v *)(void *)(sum + at) += acc[at];                                             \
          continue;                                                                               \
        }                                                                                         \
        for (int e = 0; e < (int)W; e++) sum[at + e / parts] += acc[at][e];                       \
      }                                                                                           \
      if (s->M == R && s->cr == 1 && s->cc == R && j + C <= s->n1) {                              \
        memcpy(c + j * R, sum, (size_t)all * sizeof(S));                                          \
        continue;                                                                                 \
      }                                                                                           \
      for (int q = 0; q < C && j + q < s->n1; q++)                                                \
        for (int r = 0; r < R && r < s->M; r++) c[r * s->cr + (j + q) * s->cc] = sum[q * R + r];  \
    }                                                                                             \
  }                                                                                               \
  ROWS_FOR(name, TARGET, S, T, 1, 4, 4)                                                           \
  ROWS_FOR(name, TARGET, S, T, 2, 4, 4)                                                           \
  ROWS_FOR(name, TARGET, S, T, 4, 4, 4)                                                           \
  ROWS_FOR(name, TARGET, S, T, 8, 2, 2)                                                           \
  static void name(const void *x, const void *b, void *c, const span *s) {                        \
    if (s->M == 1) name##_1(x, b, c, s);                                                          \
    else if (s->M == 2) name##_2(x, b, c, s);                                                     \
    else if (s->M <= 4) name##_4(x, b, c, s);                                                     \
    else name##_8(x, b, c, s);                                                                    \
  }
#define ROWS_FOR(name, TARGET, S, T, R, U, C)                                  \
  TARGET static void name##_##R(const S *x, const T *b, S *c, const span *s) { \
    name##_body(x, b, c, s, R, U, C);                                          \
  }
#define DEFINE_ALL(set, TARGET, BYTES, FOLD4, FOLD8)                           \
  DEFINE_ROWS(f32_##set, TARGET, BYTES, FOLD4, float, float, SAME_V, SAME)     \
  DEFINE_ROWS(f64_##set, TARGET, BYTES, FOLD8, double, double, SAME_V, SAME)   \
  DEFINE_ROWS(bf16_##set, TARGET, BYTES, FOLD4, float, u16, BF16_V, from_bf16) \
  DEFINE_ROWS(s8_##set, TARGET, BYTES, FOLD4, u32, i8, WIDE_V, from_s8)        \
  DEFINE_ROWS(u8_##set, TARGET, BYTES, FOLD4, u32, u8, WIDE_V, from_u8)        \
  static const kernels set##_kernels = {f32_##set, f64_##set, bf16_##set, s8_##set, u8_##set};

typedef void rows_fn(const void *x, const void *b, void *c, const span *);
typedef struct kernels {
  rows_fn *f32, *f64, *bf16, *s8, *u8;
} kernels;
DEFINE_ALL(base, , 16, FOLD_4, FOLD_2)
#if defined(__x86_64__)
DEFINE_ALL(avx2, __attribute__((target("avx2,fma"))), 32, FOLD_8, FOLD_4)
DEFINE_ALL(avx512, __attribute__((target("avx512f,avx512vl,avx512bw,avx512dq,fma"))), 64, FOLD_16,
           FOLD_8)
#endif

static const kernels *of_machine(void) {
#if defined(__x86_64__)
  if (cpu_vectors() == CPU_AVX512) return &avx512_kernels;
  if (cpu_vectors() == CPU_AVX2) return &avx2_kernels;
#endif
  return &base_kernels;
}

static rows_fn *find(hlo_dtype t, dot_compute sums) {
  const kernels *k = of_machine();
  if (sums == DOT_F64) return t == HLO_F64 ? k->f64 : NULL;
  if (sums == DOT_F32) return t == HLO_F32 ? k->f32 : t == HLO_BF16 ? k->bf16 : NULL;
  if (sums == DOT_U32) return t == HLO_S8 ? k->s8 : t == HLO_U8 ? k->u8 : NULL;
  return NULL;
}

bool cpu_dot_rows_supports(hlo_dtype t, dot_compute sums) { return find(t, sums) != NULL; }

// Between columns. A single one has no next: it is read along k, in vectors, where k runs along
// memory.
static i64 column_step(const dot *d) { return d->N == 1 && d->b.r == 1 ? d->K : d->b.c; }

// Columns of a chunk: where they are neighbours as many as there are sums for, so that memory is
// read in long runs; else CHUNK_ELEMENTS of the matrix at least.
static i64 columns(const dot *d) {
  i64 rows = d->M <= 2 ? d->M : d->M <= 4 ? 4 : DOT_FEW_ROWS;
  if (column_step(d) == 1) return MOST_SUMS / rows;
  return (HS_MAX((i64)64, CHUNK_ELEMENTS / HS_MAX(d->K, (i64)1)) + 63) / 64 * 64;
}

i64 cpu_dot_rows_prepare(dot *d) {
  enum { ENOUGH = 16 };
  i64 cols = columns(d), chunks = d->B * ((d->N + cols - 1) / cols),
      most = d->K * HS_MIN(d->N, cols) / CHUNK_ELEMENTS;
  d->parts = HS_MAX((i64)1, HS_MIN(most, ENOUGH / chunks));
  if (d->parts == 1) return 0;
  return d->parts * d->B * d->M * d->N * (i64)cpu_dot_compute_size(d->sum_type);
}

static size_t bytes_of_x(const dot *d) {
  return (size_t)(d->B * d->M * d->K) * cpu_dot_compute_size(d->operand_type);
}

bool cpu_dot_rows_packs(const dot *d) {
  enum { FIRST_CACHE = 32 << 10 };
  return bytes_of_x(d) <= FIRST_CACHE && d->N >= 16 * d->M;
}

// The rows of A, dense; NULL: there is no memory.
static const char *rows_of(rows_job *j, u32 thread) {
  const dot *d = j->d;
  if (!d->each_a) return j->x;
  char *mine = cpu_par_memory(bytes_of_x(d));
  if (mine && !j->packed[thread])
    cpu_dot_pack(mine, j->x, d->ta, d->operand_type, d->ra, d->da, d->sa, false);
  j->packed[thread] = true;
  return mine;
}

static void rows_chunk(void *ctx, i64 chunk, u32 thread) {
  rows_job *j = ctx;
  const dot *d = j->d;
  const char *x = rows_of(j, thread);
  if (!x) return __atomic_store_n(&j->failed, true, __ATOMIC_RELAXED);
  i64 part = chunk % d->parts, at = chunk / d->parts % j->across,
      batch = chunk / d->parts / j->across, ba, bb, bc;
  cpu_dot_batch(d, batch, &ba, &bb, &bc);
  size_t e = cpu_dot_compute_size(d->sum_type);
  span s = {.M = d->M,
            .k0 = d->K * part / d->parts,
            .k1 = d->K * (part + 1) / d->parts,
            .n0 = at * j->cols,
            .n1 = HS_MIN(d->N, (at + 1) * j->cols),
            .rs = d->b.r,
            .cs = column_step(d),
            .xr = d->K,
            .cr = d->c.r,
            .cc = d->c.c};
  char *c = j->c + (size_t)bc * e;
  if (d->parts > 1) {
    c = j->parts + (size_t)((batch * d->parts + part) * d->M * d->N) * e;
    s.cr = d->N;
    s.cc = 1;
  }
  find(d->tb, d->sum_type)(x + (size_t)(batch * d->M * d->K) * e,
                           j->b + (size_t)bb * hlo_dtype_storage(d->tb), c, &s);
}

// The sums of the parts, in order.
#define DEFINE_ADD(name, T)                                                                 \
  static void name(const dot *d, const T *parts, T *c) {                                    \
    for (i64 m = 0; m < d->M; m++)                                                          \
      for (i64 k = 0; k < d->parts; k++) {                                                  \
        const T *restrict p = parts + (k * d->M + m) * d->N;                                \
        T *restrict to = c + m * d->c.r;                                                    \
        if (d->c.c == 1 && k)                                                               \
          for (i64 j = 0; j < d->N; j++) to[j] += p[j];                                     \
        else                                                                                \
          for (i64 j = 0; j < d->N; j++) to[j * d->c.c] = k ? to[j * d->c.c] + p[j] : p[j]; \
      }                                                                                     \
  }
DEFINE_ADD(add_f32, float)
DEFINE_ADD(add_f64, double)
DEFINE_ADD(add_u32, u32)

static void add_parts(const dot *d, char *parts, char *c) {
  size_t e = cpu_dot_compute_size(d->sum_type);
  i64 ba, bb, bc;
  for (i64 b = 0; b < d->B; b++) {
    cpu_dot_batch(d, b, &ba, &bb, &bc);
    void *from = parts + (size_t)(b * d->parts * d->M * d->N) * e, *to = c + (size_t)bc * e;
    if (d->sum_type == DOT_F32) add_f32(d, from, to);
    else if (d->sum_type == DOT_F64) add_f64(d, from, to);
    else add_u32(d, from, to);
  }
}

hs_status cpu_dot_rows(const dot *d, void *x, const void *b, void *c, void *parts) {
  i64 cols = columns(d);
  rows_job j = {.d = d,
                .x = x,
                .b = b,
                .c = c,
                .parts = parts,
                .cols = cols,
                .across = (d->N + cols - 1) / cols};
  i64 chunks = d->B * j.across * d->parts;
  if (d->B * d->N * d->K < CHUNK_ELEMENTS)
    for (i64 k = 0; k < chunks; k++) rows_chunk(&j, k, 0);
  else cpu_par_for(rows_chunk, &j, chunks);
  if (j.failed) return hs_fail(HS_E_NO_MEMORY, "no memory for the rows of a product");
  if (d->parts > 1) add_parts(d, parts, c);
  return HS_GOOD;
}
