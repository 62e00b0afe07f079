// gemm.c — one matrix product for dot, ragged-dot and convolution, summed in f64.
//
// Both matrices are seen through offset tables (ev_matrix), so that transposes, batches and
// convolution windows need no copies: element (lane, depth) is at base[lane_offset + depth_offset].
// Blocks are packed as f64 panels and multiplied by a register-tiled micro-kernel in the style of
// BLIS (Van Zee and van de Geijn, 2015). Products of f32 are exact in f64, so the result is the
// correctly accumulated one up to the order of f64 additions, which is fixed by the shape.
#include "core/eval/ops.h"
#include "core/eval/fast.h"

enum { MR = 6, NR = 8, KC = 256, MC = 192, NC = 512 };

// Packs lanes [lane, lane + n) and depths [k0, k0 + nk) as dst[k * width + l]; missing lanes are
// zero.
#define PACK(name, T)                                                                             \
  static void name(const ev_matrix *m, i64 lane, i64 n, i64 width, i64 k0, i64 nk, double *dst) { \
    const T *base = m->base;                                                                      \
    const i64 *depth = m->depth + k0;                                                             \
    if (n < width) memset(dst, 0, (size_t)(nk * width) * sizeof *dst);                            \
    for (i64 l = 0; l < n; l++) {                                                                 \
      const T *p = base + m->lane[lane + l];                                                      \
      for (i64 k = 0; k < nk; k++) dst[k * width + l] = (double)p[depth[k]];                      \
    }                                                                                             \
  }                                                                                               \
  static void name##_dense(const ev_matrix *m, i64 lane, i64 n, i64 width, i64 k0, i64 nk,        \
                           double *dst) {                                                         \
    const T *base = (const T *)m->base + m->lane[lane];                                           \
    for (i64 k = 0; k < nk; k++) {                                                                \
      const T *p = base + m->depth[k0 + k];                                                       \
      i64 l = 0;                                                                                  \
      for (; l < n; l++) dst[k * width + l] = (double)p[l];                                       \
      for (; l < width; l++) dst[k * width + l] = 0;                                              \
    }                                                                                             \
  }
PACK(pack_f32, float)
PACK(pack_f64, double)

static void pack(const ev_matrix *m, i64 lane, i64 n, i64 width, i64 k0, i64 nk, double *dst) {
  bool dense = true;
  for (i64 l = 1; l < n && dense; l++) dense = m->lane[lane + l] == m->lane[lane] + l;
  if (m->type == HLO_F32) (dense ? pack_f32_dense : pack_f32)(m, lane, n, width, k0, nk, dst);
  else (dense ? pack_f64_dense : pack_f64)(m, lane, n, width, k0, nk, dst);
}

typedef double v8 __attribute__((vector_size(64), aligned(8), may_alias));
typedef double v4 __attribute__((vector_size(32), aligned(8), may_alias));
typedef double v2 __attribute__((vector_size(16), aligned(8), may_alias));

// c[MR x NR] += a panel * b panel, `nk` deep; written once per vector width.
#define KERNEL(name, V, W, attributes)                                                        \
  attributes static void name(i64 nk, const double *a, const double *b, double *c, i64 ldc) { \
    V s[MR][NR / W];                                                                          \
    for (int r = 0; r < MR; r++)                                                              \
      for (int q = 0; q < NR / W; q++) s[r][q] = *(const V *)(c + r * ldc + q * W);           \
    for (i64 k = 0; k < nk; k++, a += MR, b += NR) {                                          \
      V x[NR / W];                                                                            \
      for (int q = 0; q < NR / W; q++) x[q] = *(const V *)(b + q * W);                        \
      for (int r = 0; r < MR; r++)                                                            \
        for (int q = 0; q < NR / W; q++) s[r][q] += x[q] * a[r];                              \
    }                                                                                         \
    for (int r = 0; r < MR; r++)                                                              \
      for (int q = 0; q < NR / W; q++) *(V *)(c + r * ldc + q * W) = s[r][q];                 \
  }
KERNEL(kernel_any, v2, 2, )
#if defined(__x86_64__)
KERNEL(kernel_avx2, v4, 4, __attribute__((target("avx2"))))
KERNEL(kernel_avx512, v8, 8, __attribute__((target("avx512f"))))
#endif

typedef void (*kernel_fn)(i64, const double *, const double *, double *, i64);
static kernel_fn choose_kernel(void) {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx512f")) return kernel_avx512;
  if (__builtin_cpu_supports("avx2")) return kernel_avx2;
#endif
  return kernel_any;
}

static void small_product(i64 m, i64 n, i64 k, const ev_matrix *a, const ev_matrix *b, double *c) {
  for (i64 i = 0; i < m; i++)
    for (i64 j = 0; j < n; j++) {
      double s = 0;
      for (i64 q = 0; q < k; q++) {
        i64 ia = a->lane[i] + a->depth[q], ib = b->lane[j] + b->depth[q];
        double x = a->type == HLO_F32 ? (double)((const float *)a->base)[ia]
                                      : ((const double *)a->base)[ia];
        double y = b->type == HLO_F32 ? (double)((const float *)b->base)[ib]
                                      : ((const double *)b->base)[ib];
        s += x * y;
      }
      c[i * n + j] = s;
    }
}

static i64 round_up(i64 v, i64 by) { return (v + by - 1) / by * by; }

hs_status ev_gemm(i64 m, i64 n, i64 k, const ev_matrix *a, const ev_matrix *b, double *c) {
  if (m == 0 || n == 0) return HS_GOOD;
  if (m * n <= 4096 && m * n * k <= 4096) {
    small_product(m, n, k, a, b, c);
    return HS_GOOD;
  }
  i64 mc = HS_MIN(round_up(m, MR), MC), nc = HS_MIN(round_up(n, NR), NC),
      kc = HS_MIN(HS_MAX(k, 1), KC);
  double *space = hs_try_alloc((size_t)(mc * kc + nc * kc + mc * nc) * sizeof(double));
  if (!space) return hs_fail(HS_E_NO_MEMORY, "no memory for the blocks of a matrix product");
  double *pa = space, *pb = pa + mc * kc, *block = pb + nc * kc;
  kernel_fn kernel = choose_kernel();
  hs_status st = HS_GOOD;
  bool b_stays = k <= KC;  // one block of b serves all of a
  for (i64 j0 = 0; j0 < n && hs_ok(st); j0 += nc) {
    i64 nj = HS_MIN(nc, n - j0), pj = round_up(nj, NR);
    for (i64 i0 = 0; i0 < m && hs_ok(st); i0 += mc) {
      i64 ni = HS_MIN(mc, m - i0), pi = round_up(ni, MR);
      memset(block, 0, (size_t)(pi * pj) * sizeof *block);
      for (i64 k0 = 0; k0 < k; k0 += kc) {
        i64 nk = HS_MIN(kc, k - k0);
        if (!b_stays || i0 == 0)
          for (i64 j = 0; j < nj; j += NR)
            pack(b, j0 + j, HS_MIN((i64)NR, nj - j), NR, k0, nk, pb + j * nk);
        for (i64 i = 0; i < ni; i += MR)
          pack(a, i0 + i, HS_MIN((i64)MR, ni - i), MR, k0, nk, pa + i * nk);
        for (i64 j = 0; j < nj; j += NR)
          for (i64 i = 0; i < ni; i += MR)
            kernel(nk, pa + i * nk, pb + j * nk, block + i * pj + j, pj);
      }
      for (i64 i = 0; i < ni; i++)
        memcpy(c + (i0 + i) * n + j0, block + i * pj, (size_t)nj * sizeof *c);
      st = hs_poll();
    }
  }
  hs_free(space);
  return st;
}
