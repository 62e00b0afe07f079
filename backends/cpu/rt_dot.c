// rt_dot.c — dot: oneDNN's matmul where it is good at it, own loops where it is not.
//
// Every dot is first brought to the form C[b,m,n] = sum over k of A[b,m,k] B[b,k,n] by grouping
// dims: batch, free and contracted dims of each operand merge into one dim each when their strides
// nest, which covers nearly everything that occurs without moving data. What does not merge is
// packed into scratch. Then, by type and size:
//   f32, bf16, f16   oneDNN matmul (f32 accumulation); bf16/f16 that it lacks here are widened to
//                    f32 first
//   M = 1 or N = 1   own loops at memory speed: the library is 2.5-4 times slower there
//   small            own loops: a primitive costs more to call than the work
//   8 and 16 bits    own loops that widen to 16 bits and add pairs of products in 32; s8 by oneDNN
//                    where that is exact
//   other types      own loops over a compute type: f64, u32 (all narrow integers wrap alike), u64,
//                    c64, c128
#include <complex.h>

#include "backends/cpu/cpu.h"

#if HAVE_DNNL
#include <dnnl.h>
#endif

// One operand (or the result) in the collapsed form.
// strides of batch, row, column in elements
typedef struct side {
  i64 b, r, c;
  bool packed;
} side;

// C_S16: operands only, sums are C_U32
typedef enum compute { C_F32, C_F64, C_U32, C_U64, C_C64, C_C128, C_S16 } compute;

typedef struct dot {
  i64 B, M, N, K;
  side a, b, c;
  hlo_dtype ta, tb, tc, vt;  // vt: type of the right operand, before any exchange
  compute ct, from;          // of the sums and of the operands; they differ for C_S16 only
  // how to pack an operand or store the result when it does not collapse: dims and strides, grouped
  u32 ra, rb, rc;
  i64 da[HLO_MAX_RANK], sa[HLO_MAX_RANK], db[HLO_MAX_RANK], sb[HLO_MAX_RANK], dc[HLO_MAX_RANK],
      sc[HLO_MAX_RANK];
  bool pack_a, pack_b, pack_c;  // through scratch, in their compute type
  i64 at_a, at_b, at_c;         // scratch offsets
  bool vector;                  // M = 1: see "matrix times vector"
  // the operands are exchanged: N was 1, or the result is stored by columns
  bool swapped;
#if HAVE_DNNL
  dnnl_primitive_t prim;
  dnnl_memory_t ma, mb, mc;
#endif
} dot;

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

static compute compute_type(hlo_dtype a, hlo_dtype b, hlo_dtype c) {
  if (c == HLO_C64 && a == HLO_C64 && b == HLO_C64) return C_C64;
  if (hlo_dtype_is_complex(c)) return C_C128;
  if (is_small_float(a) && is_small_float(b) && is_small_float(c)) return C_F32;
  if (hlo_dtype_is_float(c)) return C_F64;
  return hlo_dtype_storage(c) == 8 ? C_U64 : C_U32;
}

// What sums in u32 is no float: what is stored in a byte lies within [-128, 255].
static bool fits_s16(hlo_dtype t) { return t == HLO_S16 || hlo_dtype_storage(t) == 1; }

static compute operand_type(hlo_dtype a, hlo_dtype b, compute sums) {
  return sums == C_U32 && fits_s16(a) && fits_s16(b) ? C_S16 : sums;
}

static size_t compute_size(compute c) {
  static const size_t n[] = {4, 8, 4, 8, 8, 16, 2};
  return n[c];
}

static hlo_dtype compute_dtype(compute c) {
  static const hlo_dtype t[] = {HLO_F32, HLO_F64, HLO_U32, HLO_U64, HLO_C64, HLO_C128, HLO_S16};
  return t[c];
}

// ---- packing: strided elements of any type to a dense array of the compute type, and back -------

static void widen(void *to, compute ct, const void *from, hlo_dtype t, i64 stride, i64 n) {
  const char *f = from;
  size_t e = hlo_dtype_storage(t);
  for (i64 k = 0; k < n; k++, f += (size_t)stride * e) {
    switch (ct) {
    case C_F32:
      ((float *)to)[k] = t == HLO_F32    ? *(const float *)f
                         : t == HLO_BF16 ? hlo_bf16_to_f32(*(const u16 *)f)
                                         : (float)hlo_elem_to_f64(t, f);
      break;
    case C_F64: ((double *)to)[k] = hlo_elem_to_f64(t, f); break;
    case C_U32: ((u32 *)to)[k] = (u32)hlo_elem_to_i64(t, f); break;
    case C_U64: ((u64 *)to)[k] = (u64)hlo_elem_to_i64(t, f); break;
    case C_S16:
      ((i16 *)to)[k] = t == HLO_S8   ? *(const i8 *)f
                       : t == HLO_U8 ? *(const u8 *)f
                                     : (i16)hlo_elem_to_i64(t, f);
      break;
    case C_C64: memcpy((char *)to + k * 8, f, 8); break;
    case C_C128:
      if (t == HLO_C128) memcpy((char *)to + k * 16, f, 16);
      else {
        ((double *)to)[2 * k] = ((const float *)f)[0];
        ((double *)to)[2 * k + 1] = ((const float *)f)[1];
      }
      break;
    }
  }
}

static void narrow(void *to, hlo_dtype t, i64 stride, const void *from, compute ct, i64 n) {
  char *p = to;
  size_t e = hlo_dtype_storage(t);
  for (i64 k = 0; k < n; k++, p += (size_t)stride * e) {
    switch (ct) {
    case C_F32:
      if (t == HLO_F32) *(float *)p = ((const float *)from)[k];
      else if (t == HLO_BF16) *(u16 *)p = hlo_f32_to_bf16(((const float *)from)[k]);
      else hlo_elem_from_f64(t, p, (double)((const float *)from)[k]);
      break;
    case C_F64: hlo_elem_from_f64(t, p, ((const double *)from)[k]); break;
    case C_U32: hlo_elem_from_i64(t, p, (i64)(i32)((const u32 *)from)[k]); break;
    case C_U64: hlo_elem_from_i64(t, p, (i64)((const u64 *)from)[k]); break;
    case C_S16: break;  // no result is
    case C_C64: memcpy(p, (const char *)from + k * 8, 8); break;
    case C_C128:
      if (t == HLO_C128) memcpy(p, (const char *)from + k * 16, 16);
      else {
        ((float *)p)[0] = (float)((const double *)from)[2 * k];
        ((float *)p)[1] = (float)((const double *)from)[2 * k + 1];
      }
      break;
    }
  }
}

typedef struct pack_job {
  char *dense;
  char *array;
  hlo_dtype t;
  compute ct;
  u32 rank;
  const i64 *dims, *strides;
  bool store;
  i64 inner, rows, group;
} pack_job;

// A group of rows. Where neighbours share cache lines of the array they go a few elements at a
// time: the first cache holds no more lines when the stride is a power of two.
static void pack_rows(void *ctx, i64 chunk, u32 thread) {
  (void)thread;
  const pack_job *j = ctx;
  i64 first = chunk * j->group, n = HS_MIN(j->group, j->rows - first),
      stride = j->strides[j->rank - 1], at[64];
  for (i64 i = 0; i < n; i++) {
    i64 r = first + i;
    at[i] = 0;
    for (u32 d = j->rank - 1; d-- > 0;) {
      at[i] += r % j->dims[d] * j->strides[d];
      r /= j->dims[d];
    }
  }
  for (i64 k = 0, piece = j->group == 1 ? j->inner : 8; k < j->inner; k += piece)
    for (i64 i = 0; i < n; i++) {
      char *dense = j->dense + (size_t)((first + i) * j->inner + k) * compute_size(j->ct),
           *array = j->array + (size_t)(at[i] + k * stride) * hlo_dtype_storage(j->t);
      if (j->store) narrow(array, j->t, stride, dense, j->ct, HS_MIN(piece, j->inner - k));
      else widen(dense, j->ct, array, j->t, stride, HS_MIN(piece, j->inner - k));
    }
}

static void pack(void *dense, void *array, hlo_dtype t, compute ct, u32 rank, const i64 *dims,
                 const i64 *strides, bool store) {
  if (rank == 0) {
    if (store) narrow(array, t, 1, dense, ct, 1);
    else widen(dense, ct, array, t, 1, 1);
    return;
  }
  i64 rows = 1;
  for (u32 d = 0; d + 1 < rank; d++) rows *= dims[d];
  if (rows * dims[rank - 1] == 0) return;
  pack_job j = {dense, array, t, ct, rank, dims, strides, store, dims[rank - 1], rows, 1};
  if (rank > 1 && strides[rank - 2] == 1 && strides[rank - 1] != 1)
    j.group = HS_MAX((i64)1, HS_MIN(64 / (i64)hlo_dtype_storage(t), rows / 16));
  i64 chunks = (rows + j.group - 1) / j.group;
  if (rows * dims[rank - 1] < 16384)
    for (i64 k = 0; k < chunks; k++) pack_rows(&j, k, 0);
  else cpu_par_for(pack_rows, &j, chunks);
}

// ---- own loops ----------------------------------------------------------------------------------

// rows and columns of a chunk
typedef struct gemm_job {
  const dot *d;
  const char *a, *b;
  char *c;
  i64 rows, cols;
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
#define DEFINE_GEMM_PLAIN(name, T)                                               \
  static void name(const T *a, const T *b, T *c, const dot *d, i64 m0, i64 m1) { \
    for (i64 m = m0; m < m1; m++)                                                \
      for (i64 n = 0; n < d->N; n++) {                                           \
        T s = 0;                                                                 \
        for (i64 k = 0; k < d->K; k++)                                           \
          s += a[m * d->a.r + k * d->a.c] * b[k * d->b.r + n * d->b.c];          \
        c[m * d->c.r + n * d->c.c] = s;                                          \
      }                                                                          \
  }
DEFINE_GEMM_PLAIN(gemm_c64, float complex)
DEFINE_GEMM_PLAIN(gemm_c128, double complex)

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
  size_t e = compute_size(d->from);
  const void *a = j->a + (size_t)(batch * d->a.b) * e, *b = j->b + (size_t)(batch * d->b.b) * e;
  void *c = j->c + (size_t)(batch * d->c.b) * compute_size(d->ct);
  switch (d->from) {
  case C_F32: gemm_f32(a, b, c, d, m0, m1); break;
  case C_F64: gemm_f64(a, b, c, d, m0, m1); break;
  case C_U32: gemm_u32(a, b, c, d, m0, m1); break;
  case C_U64: gemm_u64(a, b, c, d, m0, m1); break;
  case C_C64: gemm_c64(a, b, c, d, m0, m1); break;
  case C_C128: gemm_c128(a, b, c, d, m0, m1); break;
  case C_S16: gemm_s16(a, b, c, d, m0, m1, n0, n1); break;
  }
}

static void own_gemm(const dot *d, const void *a, const void *b, void *c) {
  i64 work = HS_MAX(d->N * d->K, (i64)1);
  gemm_job j = {d, a, b, c, HS_MAX((i64)1, HS_MIN(d->M, (i64)65536 / work)), HS_MAX(d->N, (i64)1)};
  // the rows stay in the first cache while the columns go by
  if (d->from == C_S16) {
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
  size_t e = compute_size(d->ct);
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

static void vector_product(const dot *d, const void *x, const void *b, void *c) {
  // Columns per chunk: about 32 KB of the matrix at least, whole cache lines.
  i64 cols = HS_MAX((i64)64, 16384 / HS_MAX(d->K, (i64)1));
  if (d->b.c == 1) cols = HS_MAX(cols, HS_MIN((i64)256, d->N));
  cols = HS_MIN((i64)VCOLS, (cols + 63) / 64 * 64);
  vector_job j = {d, x, b, c, cols, (d->N + cols - 1) / cols};
  if (d->B * d->N * d->K < 16384)
    for (i64 k = 0; k < d->B * j.per; k++) vector_chunk(&j, k, 0);
  else cpu_par_for(vector_chunk, &j, d->B * j.per);
}

// ---- oneDNN -------------------------------------------------------------------------------------

#if HAVE_DNNL
// Are its sums of s8 products exact? Without VNNI it adds pairs of products in 16 bits, which
// saturate. With VNNI it multiplies unsigned by signed values: it adds 128 to the left operand and
// takes that back in f32, where 255 * 128 * K has to be below 2^24. AMX multiplies signed values as
// they are.
static bool exact_s8(const char *impl, i64 K) {
  return strstr(impl, "amx") ||
         (K <= 512 && (dnnl_get_effective_cpu_isa() & dnnl_cpu_isa_avx512_core_vnni) ==
                          dnnl_cpu_isa_avx512_core_vnni);
}

static bool dnnl_setup(dot *d, dnnl_data_type_t ta, dnnl_data_type_t tb, dnnl_data_type_t tc) {
  dnnl_engine_t eng = cpu_dnnl_engine();
  if (!eng) return false;
  dnnl_memory_desc_t a, b, c;
  dnnl_dims_t da = {d->B, d->M, d->K}, db = {d->B, d->K, d->N}, dc = {d->B, d->M, d->N};
  dnnl_dims_t sa = {d->a.b, d->a.r, d->a.c}, sb = {d->b.b, d->b.r, d->b.c},
              sc = {d->c.b, d->c.r, d->c.c};
  int r = d->B == 1 ? 2 : 3, o = 3 - r;
  if (dnnl_memory_desc_init_by_strides(&a, r, da + o, ta, sa + o) ||
      dnnl_memory_desc_init_by_strides(&b, r, db + o, tb, sb + o) ||
      dnnl_memory_desc_init_by_strides(&c, r, dc + o, tc, sc + o))
    return false;
  dnnl_matmul_desc_t md;
  dnnl_primitive_desc_t pd = NULL;
  if (dnnl_matmul_desc_init(&md, &a, &b, NULL, &c)) return false;
  if (dnnl_primitive_desc_create(&pd, &md, NULL, eng, NULL)) return false;
  const char *impl = NULL;
  dnnl_primitive_desc_query(pd, dnnl_query_impl_info_str, 0, &impl);
  bool ok = impl && !strstr(impl, "ref") && (ta != dnnl_s8 || exact_s8(impl, d->K)) &&
            dnnl_primitive_create(&d->prim, pd) == dnnl_success;
  dnnl_primitive_desc_destroy(pd);
  if (!ok) return false;
  dnnl_memory_create(&d->ma, &a, eng, DNNL_MEMORY_NONE);
  dnnl_memory_create(&d->mb, &b, eng, DNNL_MEMORY_NONE);
  dnnl_memory_create(&d->mc, &c, eng, DNNL_MEMORY_NONE);
  return true;
}

static hs_status library_gemm(const dot *d, const void *a, const void *b, void *c) {
  dnnl_memory_set_data_handle(d->ma, (void *)(uintptr_t)a);
  dnnl_memory_set_data_handle(d->mb, (void *)(uintptr_t)b);
  dnnl_memory_set_data_handle(d->mc, c);
  dnnl_exec_arg_t args[] = {
      {DNNL_ARG_SRC, d->ma}, {DNNL_ARG_WEIGHTS, d->mb}, {DNNL_ARG_DST, d->mc}};
  dnnl_status_t st = dnnl_primitive_execute(d->prim, cpu_dnnl_stream(), 3, args);
  return st == dnnl_success ? HS_GOOD
                            : hs_fail(HS_E_RUN, "oneDNN matmul failed with status %d", (int)st);
}

static bool dnnl_type(hlo_dtype t, dnnl_data_type_t *out) {
  switch (t) {
  case HLO_F32: *out = dnnl_f32; return true;
  case HLO_BF16: *out = dnnl_bf16; return true;
  case HLO_S8: *out = dnnl_s8; return true;
  case HLO_S32: *out = dnnl_s32; return true;
  default: return false;
  }
}
#endif

static void free_dot(void *state) {
  dot *d = state;
#if HAVE_DNNL
  if (d->prim) dnnl_primitive_destroy(d->prim);
  if (d->ma) dnnl_memory_destroy(d->ma);
  if (d->mb) dnnl_memory_destroy(d->mb);
  if (d->mc) dnnl_memory_destroy(d->mc);
#endif
  hs_free(d);
}

static hs_status run_dot(void *state, void *const *bufs, void *scratch) {
  const dot *d = state;
  char *s = scratch;
  const void *a = bufs[d->swapped], *b = bufs[!d->swapped];
  void *c = bufs[2];
  if (d->vector) {
    pack(s + d->at_a, bufs[d->swapped], d->ta, d->ct, d->ra, d->da, d->sa, false);
    if (d->pack_c) c = s + d->at_c;
    vector_product(d, s + d->at_a, bufs[!d->swapped], c);
    if (d->pack_c) pack(c, bufs[2], d->tc, d->ct, d->rc, d->dc, d->sc, true);
    return HS_GOOD;
  }
  if (d->pack_a) {
    pack(s + d->at_a, bufs[0], d->ta, d->from, d->ra, d->da, d->sa, false);
    a = s + d->at_a;
  }
  if (d->pack_b) {
    pack(s + d->at_b, bufs[1], d->tb, d->from, d->rb, d->db, d->sb, false);
    b = s + d->at_b;
  }
  if (d->pack_c) c = s + d->at_c;
#if HAVE_DNNL
  if (d->prim) HS_TRY(library_gemm(d, a, b, c));
  else
#endif
    own_gemm(d, a, b, c);
  if (d->pack_c) pack(c, bufs[2], d->tc, d->ct, d->rc, d->dc, d->sc, true);
  return HS_GOOD;
}

// ---- bringing a dot to the collapsed form -------------------------------------------------------

// Merges dims g[0..n) of strides into one: true with its extent and stride when they nest.
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

typedef struct groups {
  u32 n[3];
} groups;  // how many dims each of the three groups has

// Strides of the three groups; false when some group does not nest (the caller then packs).
static bool side_of(const i64 *dims, const i64 *strides, groups g, side *out, i64 *extents) {
  bool ok = collapse(g.n[0], dims, strides, &extents[0], &out->b);
  ok = collapse(g.n[1], dims + g.n[0], strides + g.n[0], &extents[1], &out->r) && ok;
  return collapse(g.n[2], dims + g.n[0] + g.n[1], strides + g.n[0] + g.n[1], &extents[2],
                  &out->c) &&
         ok;
}

static bool listed(hlo_ints v, i64 x) {
  for (u32 k = 0; k < v.n; k++)
    if (v.v[k] == x) return true;
  return false;
}

static u32 put_dims(const hlo_shape *s, const i64 *strides, hlo_ints which, i64 *dims, i64 *out,
                    u32 n) {
  for (u32 k = 0; k < which.n; k++) {
    dims[n] = s->dims[which.v[k]];
    out[n++] = strides[which.v[k]];
  }
  return n;
}

static u32 put_free(const hlo_shape *s, const i64 *strides, hlo_ints batch, hlo_ints contract,
                    i64 *dims, i64 *out, u32 n) {
  for (u32 k = 0; k < s->rank; k++)
    if (!listed(batch, k) && !listed(contract, k)) {
      dims[n] = s->dims[k];
      out[n++] = strides[k];
    }
  return n;
}

static side turned(side s) { return (side){.b = s.b, .r = s.c, .c = s.r}; }

static void arrange(dot *d, const hlo_instr *i) {
  // the right operand is packed with k running fastest
  const bool by_k = d->from == C_S16;
  const hlo_shape *a = hlo_operand(i, 0)->shape, *b = hlo_operand(i, 1)->shape, *c = i->shape;
  hlo_ints ab = hlo_attr_ints(i, HLO_ATTR_LHS_BATCH_DIMS),
           ac = hlo_attr_ints(i, HLO_ATTR_LHS_CONTRACTING_DIMS);
  hlo_ints bb = hlo_attr_ints(i, HLO_ATTR_RHS_BATCH_DIMS),
           bc = hlo_attr_ints(i, HLO_ATTR_RHS_CONTRACTING_DIMS);
  i64 st[HLO_MAX_RANK], e[3];
  cpu_strides(a, st);
  u32 n1 = put_dims(a, st, ab, d->da, d->sa, 0), n2 = put_free(a, st, ab, ac, d->da, d->sa, n1);
  d->ra = put_dims(a, st, ac, d->da, d->sa, n2);
  groups ga = {{n1, n2 - n1, d->ra - n2}};
  d->pack_a = !side_of(d->da, d->sa, ga, &d->a, e);
  d->B = e[0];
  d->M = e[1];
  d->K = e[2];
  cpu_strides(b, st);
  n1 = put_dims(b, st, bb, d->db, d->sb, 0);
  n2 = by_k ? put_free(b, st, bb, bc, d->db, d->sb, n1) : put_dims(b, st, bc, d->db, d->sb, n1);
  d->rb = by_k ? put_dims(b, st, bc, d->db, d->sb, n2) : put_free(b, st, bb, bc, d->db, d->sb, n2);
  groups gb = {{n1, n2 - n1, d->rb - n2}};
  d->pack_b = !side_of(d->db, d->sb, gb, &d->b, e);
  d->N = e[by_k ? 1 : 2];
  if (by_k) d->b = turned(d->b);
  cpu_strides(c, st);
  d->rc = c->rank;
  for (u32 k = 0; k < c->rank; k++) {
    d->dc[k] = c->dims[k];
    d->sc[k] = st[k];
  }
  groups gc = {{ab.n, ga.n[1], gb.n[by_k ? 1 : 2]}};
  d->pack_c = !side_of(d->dc, d->sc, gc, &d->c, e);
}

// Are values of the type in memory as the loops over a compute type read them?
static bool stands_as(hlo_dtype t, compute c) {
  return t == compute_dtype(c) || (c == C_U32 && t == HLO_S32) || (c == C_U64 && t == HLO_S64);
}

static void dense_sides(dot *d) {
  if (d->pack_a) d->a = (side){.b = d->M * d->K, .r = d->K, .c = 1};
  if (d->pack_b)
    d->b = d->from == C_S16 ? (side){.b = d->N * d->K, .r = 1, .c = d->K}
                            : (side){.b = d->K * d->N, .r = d->N, .c = 1};
  if (d->pack_c) d->c = (side){.b = d->M * d->N, .r = d->N, .c = 1};
}

// Turns a product with M = 1 or N = 1 into vector times matrix with the vector first; false when it
// is not one.
static bool as_vector(dot *d) {
  if ((d->M != 1 && d->N != 1) || d->B * d->M * d->N * d->K == 0) return false;
  bool swap = d->M != 1;
  if (swap ? d->pack_a : d->pack_b) return false;
  hlo_dtype matrix = swap ? d->ta : d->tb;
  if (d->ct == C_F32 ? matrix != HLO_F32 && matrix != HLO_BF16
                     : d->ct != C_U32 || (matrix != HLO_S8 && matrix != HLO_U8))
    return false;
  if (swap) {
    side a = d->a;
    d->b = (side){.b = a.b, .r = a.c, .c = a.r};
    d->c = (side){.b = d->c.b, .r = d->c.c, .c = d->c.r};
    d->tb = matrix;
    d->ta = d->vt;
    memcpy(d->da, d->db, sizeof d->da);
    memcpy(d->sa, d->sb, sizeof d->sa);
    d->ra = d->rb;
    d->N = d->M;
    d->M = 1;
  }
  d->vector = true;
  d->swapped = swap;
  d->pack_c |= !stands_as(d->tc, d->ct);
  if (d->pack_c) d->c = (side){.b = d->N, .r = d->N, .c = 1};
  return true;
}

// A result stored column by column is the row-major result of the transposed product: C' = B' A'.
// Saves packing it.
static void as_transposed(dot *d) {
  if (d->c.c == 1 || d->c.r != 1 || d->pack_a || d->pack_b || d->pack_c) return;
  // Nothing may need packing, which works in the order of the operands as written.
  if (d->ta != HLO_F32 || d->tb != HLO_F32 || d->tc != HLO_F32) return;
  if ((d->a.r != 1 && d->a.c != 1) || (d->b.r != 1 && d->b.c != 1)) return;
  side a = d->a;
  d->a = turned(d->b);
  d->b = turned(a);
  d->c = turned(d->c);
  i64 m = d->M;
  d->M = d->N;
  d->N = m;
  d->swapped = true;
}

#if HAVE_DNNL
// The library wants one of the two matrix strides to be 1; a dim of extent 1 may pretend.
static bool library_side(side *s, i64 rows, i64 cols) {
  if (cols == 1 && s->r != 1) s->c = 1;
  else if (rows == 1 && s->c != 1) s->r = 1;
  if (cols == 1 && s->c == 1 && s->r < 1) s->r = 1;
  if (rows == 1 && s->c == 1) s->r = HS_MAX(s->r, cols);
  return s->r == 1 || s->c == 1;
}

static bool use_library(const dot *d) {
  if (d->ct != C_F32 && !(d->ta == HLO_S8 && d->tb == HLO_S8 && d->tc == HLO_S32)) return false;
  if (d->M == 1 || d->N == 1) return false;
  return d->B > 0 && d->M * d->N * d->K >= 8192;
}
#endif

static i64 align64(i64 n) { return (n + 63) & ~(i64)63; }

hs_status cpu_dot_prepare(const hlo_instr *i, cpu_rt *out) {
  dot *d = hs_calloc(1, sizeof *d);
  d->ta = hlo_operand(i, 0)->shape->dtype;
  d->tb = hlo_operand(i, 1)->shape->dtype;
  d->tc = i->shape->dtype;
  d->vt = d->tb;
  d->ct = compute_type(d->ta, d->tb, d->tc);
  d->from = operand_type(d->ta, d->tb, d->ct);
  arrange(d, i);
  *out = (cpu_rt){.kind = "dot", .state = d, .run = run_dot, .release = free_dot};
  if (as_vector(d)) {
    out->kind = "dot (vector)";
    d->at_c = align64(d->B * d->K * 4);
    out->scratch_bytes = d->at_c + (d->pack_c ? align64(d->B * d->N * 4) : 0);
    return HS_GOOD;
  }
  as_transposed(d);
  bool library = false;
#if HAVE_DNNL
  dnnl_data_type_t ta = dnnl_f32, tb = dnnl_f32, tc = dnnl_f32;
  if (use_library(d)) {
    dot try = *d;
    bool narrow_ok = dnnl_type(d->ta, &ta) && dnnl_type(d->tb, &tb) && dnnl_type(d->tc, &tc) &&
                     ta == tb && !d->pack_a && !d->pack_b && !d->pack_c;
    if (narrow_ok && library_side(&try.a, d->M, d->K) && library_side(&try.b, d->K, d->N) &&
        try.c.c == 1 && dnnl_setup(&try, ta, tb, tc)) {
      *d = try;
      library = true;
    } else if (d->ct == C_F32) {  // in f32, through packed copies where needed
      d->pack_a |= d->ta != HLO_F32 || !library_side(&d->a, d->M, d->K);
      d->pack_b |= d->tb != HLO_F32 || !library_side(&d->b, d->K, d->N);
      d->pack_c |= d->tc != HLO_F32 || d->c.c != 1;
      dense_sides(d);
      library = dnnl_setup(d, dnnl_f32, dnnl_f32, dnnl_f32);
    }
    if (library) out->kind = "dot (oneDNN)";
  }
#endif
  if (!library) {
    bool by_k = d->from == C_S16;
    d->pack_a |= !stands_as(d->ta, d->from) || (by_k && d->a.c != 1);
    d->pack_b |= !stands_as(d->tb, d->from) || (by_k && d->b.r != 1);
    d->pack_c |= !stands_as(d->tc, d->ct);
    dense_sides(d);
  }
  i64 e = (i64)compute_size(d->from), at = 0;
  if (d->pack_a) {
    d->at_a = at;
    at += align64(d->B * d->M * d->K * e);
  }
  if (d->pack_b) {
    d->at_b = at;
    at += align64(d->B * d->K * d->N * e);
  }
  if (d->pack_c) {
    d->at_c = at;
    at += align64(d->B * d->M * d->N * (i64)compute_size(d->ct));
  }
  out->scratch_bytes = at;
  return HS_GOOD;
}
