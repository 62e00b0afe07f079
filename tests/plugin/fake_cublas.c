// fake_cublas.c — a cuBLAS of our own for tests: solves triangular systems in the memory of the
// emulated device, has LAPACK factor many matrices there, where the program that loads it has that,
// and misbehaves on request.
//
// It is as strict as the library's documentation allows it to be: handles, numbers, sizes, memory
// that was allocated. The other triangle is not read, nor a diagonal of ones. What breaks a rule
// answers INVALID_VALUE and says on stderr which. The work is done when the stream comes to it; a
// stream that is captured is refused: products alone are promised to work there.
//
// What it does stands in its own file name, as for fake_cuda.c: NAME-MODE.so. Modes:
//   ok           as it should be
//   old, new     says version 10.2, 14.0
//   failing      every call fails
//   missing      has no cublasStrsm_v2 (the test renames it in its copy)
#include "backends/gpu/cuda/cublas.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "tests/plugin/fake_library.h"
#include "tests/plugin/fake_numbers.h"

#define FAKE_NAME "fake_cublas"
#define FAKE_BROKEN BLAS_INVALID_VALUE

struct cublas_handle {
  bool open;
  cuda_stream *stream;
};

#define CUBLAS_FN(field, symbol, args) EXPORT blas_result symbol args;
#include "backends/gpu/cuda/cublas.def"
#undef CUBLAS_FN

// ---- handles ------------------------------------------------------------------------------------
blas_result cublasCreate_v2(cublas_handle **handle) {
  *handle = calloc(1, sizeof **handle);
  (*handle)->open = true;
  return BLAS_OK;
}

blas_result cublasDestroy_v2(cublas_handle *handle) { return free(handle), BLAS_OK; }

blas_result cublasGetVersion_v2(cublas_handle *handle, int *version) {
  RULE(handle && handle->open);
  *version = is("old") ? 10200 : is("new") ? 140000 : 130100;
  return BLAS_OK;
}

blas_result cublasSetStream_v2(cublas_handle *handle, cuda_stream *stream) {
  RULE(handle && handle->open && stream);
  handle->stream = stream;
  return BLAS_OK;
}

// ---- systems ------------------------------------------------------------------------------------
typedef struct work {
  int type, side, triangle, op, diagonal, m, n, a_leading, x_leading, batch;
  const u8 *a;
  u8 *x;
  const cuda_ptr *as, *xs;
} work;

// Element (r, c) of op(A).
static number factor_at(const work *w, const u8 *a, i64 r, i64 c) {
  bool turned = w->op != CUBLAS_PLAIN;
  i64 row = turned ? c : r, column = turned ? r : c;
  if (row == column && w->diagonal == CUBLAS_UNIT) return 1;
  if (w->triangle == CUBLAS_LOWER ? column > row : column < row) return 0;
  number v = get(w->type, a, column * w->a_leading + row);
  return w->op == CUBLAS_ADJOINT ? conj(v) : v;
}

// One vector: op(A) y = x, or y op(A) = x. x[k] is element k of it.
static void solve_vector(const work *w, const u8 *a, number *x, i64 order) {
  bool left = w->side == CUBLAS_LEFT,
       lower = (w->triangle == CUBLAS_LOWER) == (w->op == CUBLAS_PLAIN);
  bool forward = lower == left;
  for (i64 k = 0; k < order; k++) {
    i64 r = forward ? k : order - 1 - k;
    number v = x[r];
    for (i64 j = 0; j < k; j++) {
      i64 c = forward ? j : order - 1 - j;
      v -= x[c] * (left ? factor_at(w, a, r, c) : factor_at(w, a, c, r));
    }
    x[r] = v / factor_at(w, a, r, r);
  }
}

static void solve(const work *w, const u8 *a, u8 *x) {
  bool left = w->side == CUBLAS_LEFT;
  i64 order = left ? w->m : w->n, vectors = left ? w->n : w->m;
  number *v = calloc((size_t)order, sizeof *v);
  for (i64 k = 0; k < vectors; k++) {
    for (i64 j = 0; j < order; j++)
      v[j] = get(w->type, x, left ? k * w->x_leading + j : j * w->x_leading + k);
    solve_vector(w, a, v, order);
    for (i64 j = 0; j < order; j++)
      put(w->type, x, left ? k * w->x_leading + j : j * w->x_leading + k, v[j]);
  }
  free(v);
}

static void compute(void *arg) {
  const work *w = arg;
  for (int b = 0; b < w->batch; b++)
    solve(w, w->as ? (const u8 *)(uintptr_t)w->as[b] : w->a,
          w->xs ? (u8 *)(uintptr_t)w->xs[b] : w->x);
}

static bool is_one(int type, const void *p) { return get(type, p, 0) == 1; }

static blas_result start(const cublas_handle *h, work w, const void *factor) {
  RULE(h && h->open && h->stream && !is_captured(h->stream));
  RULE(w.side == CUBLAS_LEFT || w.side == CUBLAS_RIGHT);
  RULE(w.triangle == CUBLAS_LOWER || w.triangle == CUBLAS_UPPER);
  RULE(w.op >= CUBLAS_PLAIN && w.op <= CUBLAS_ADJOINT);
  RULE(w.diagonal == CUBLAS_ANY || w.diagonal == CUBLAS_UNIT);
  RULE(w.m > 0 && w.n > 0 && w.batch > 0 && w.x_leading >= w.m);
  RULE(w.a_leading >= (w.side == CUBLAS_LEFT ? w.m : w.n) && is_one(w.type, factor));
  if (is("failing")) return BLAS_EXECUTION_FAILED;
  work *own = calloc(1, sizeof *own);  // as long as the process
  *own = w;
  return enqueue(h->stream, compute, own) ? BLAS_OK : BLAS_EXECUTION_FAILED;
}

#define SYSTEMS(t, number_type)                                                                    \
  blas_result cublas##t##trsm_v2(cublas_handle *handle, int side, int triangle, int op,            \
                                 int diagonal, int m, int n, const void *factor, cuda_ptr a,       \
                                 int a_leading, cuda_ptr x, int x_leading) {                       \
    RULE(on_device(a, (i64)a_leading *(side == CUBLAS_LEFT ? m : n) * size_of_number(number_type), \
                   16));                                                                           \
    RULE(on_device(x, (i64)x_leading *n *size_of_number(number_type), 16));                        \
    return start(handle,                                                                           \
                 (work){number_type, side, triangle, op, diagonal, m, n, a_leading, x_leading, 1,  \
                        (const u8 *)(uintptr_t)a, (u8 *)(uintptr_t)x, NULL, NULL},                 \
                 factor);                                                                          \
  }                                                                                                \
  blas_result cublas##t##trsmBatched(cublas_handle *handle, int side, int triangle, int op,        \
                                     int diagonal, int m, int n, const void *factor, cuda_ptr as,  \
                                     int a_leading, cuda_ptr xs, int x_leading, int batch) {       \
    RULE(on_device(as, 8 * (i64)batch, 8) && xs % 8 == 0);                                         \
    return start(handle,                                                                           \
                 (work){number_type, side, triangle, op, diagonal, m, n, a_leading, x_leading,     \
                        batch, NULL, NULL, (const cuda_ptr *)(uintptr_t)as,                        \
                        (const cuda_ptr *)(uintptr_t)xs},                                          \
                 factor);                                                                          \
  }
SYSTEMS(S, 0)
SYSTEMS(D, 1)
SYSTEMS(C, 2)
SYSTEMS(Z, 3)

// ---- factors of many matrices -------------------------------------------------------------------
#define LAPACK(t)                                                                         \
  extern int LAPACKE_##t##getrf(int, int, int, void *, int, int *) __attribute__((weak)); \
  extern int LAPACKE_##t##geqrf(int, int, int, void *, int, void *) __attribute__((weak));
LAPACK(s)
LAPACK(d)
LAPACK(c)
LAPACK(z)
#define OF_TYPE(type, fn)        \
  ((type) == 0   ? LAPACKE_s##fn \
   : (type) == 1 ? LAPACKE_d##fn \
   : (type) == 2 ? LAPACKE_c##fn \
                 : LAPACKE_z##fn)
enum { COLUMNS = 102 };

typedef struct factors {
  int type, m, n, leading, batch;
  const cuda_ptr *as, *taus;  // taus NULL: LU
  i32 *pivots, *info;
} factors;

static void factor(void *arg) {
  const factors *f = arg;
  for (int b = 0; b < f->batch; b++) {
    void *a = (void *)(uintptr_t)f->as[b], *tau = f->taus ? (void *)(uintptr_t)f->taus[b] : NULL;
    if (tau) (void)OF_TYPE(f->type, geqrf)(COLUMNS, f->m, f->n, a, f->leading, tau);
    else
      f->info[b] =
          OF_TYPE(f->type, getrf)(COLUMNS, f->m, f->n, a, f->leading, f->pivots + (i64)b * f->n);
  }
}

static blas_result start_factors(const cublas_handle *h, factors f) {
  RULE(h && h->open && h->stream && !is_captured(h->stream));
  RULE(f.m > 0 && f.n > 0 && f.batch > 0 && f.leading >= f.m);
  RULE(on_device((cuda_ptr)(uintptr_t)f.as, 8 * (i64)f.batch, 8));
  if (is("failing")) return BLAS_EXECUTION_FAILED;
  if (!LAPACKE_sgetrf) return BLAS_NOT_SUPPORTED;
  factors *own = calloc(1, sizeof *own);  // as long as the process
  *own = f;
  return enqueue(h->stream, factor, own) ? BLAS_OK : BLAS_EXECUTION_FAILED;
}

#define FACTORS(t, number_type)                                                               \
  blas_result cublas##t##getrfBatched(cublas_handle *handle, int n, cuda_ptr as, int leading, \
                                      cuda_ptr pivots, cuda_ptr info, int batch) {            \
    RULE(on_device(pivots, 4 * (i64)n * batch, 4) && on_device(info, 4 * (i64)batch, 4));     \
    return start_factors(handle, (factors){.type = number_type,                               \
                                           .m = n,                                            \
                                           .n = n,                                            \
                                           .leading = leading,                                \
                                           .batch = batch,                                    \
                                           .as = (const cuda_ptr *)(uintptr_t)as,             \
                                           .pivots = (i32 *)(uintptr_t)pivots,                \
                                           .info = (i32 *)(uintptr_t)info});                  \
  }                                                                                           \
  blas_result cublas##t##geqrfBatched(cublas_handle *handle, int m, int n, cuda_ptr as,       \
                                      int leading, cuda_ptr taus, int *info, int batch) {     \
    RULE(info &&on_device(taus, 8 * (i64)batch, 8));                                          \
    *info = 0;                                                                                \
    return start_factors(handle, (factors){.type = number_type,                               \
                                           .m = m,                                            \
                                           .n = n,                                            \
                                           .leading = leading,                                \
                                           .batch = batch,                                    \
                                           .as = (const cuda_ptr *)(uintptr_t)as,             \
                                           .taus = (const cuda_ptr *)(uintptr_t)taus});       \
  }
FACTORS(S, 0)
FACTORS(D, 1)
FACTORS(C, 2)
FACTORS(Z, 3)
