// fake_cusolver.c — a cuSOLVER of our own for tests: factors matrices in the emulated device's
// memory, and misbehaves on request.
//
// It is as strict as the library's documentation allows it to be: handles, sizes, workspaces,
// memory that was allocated. potrf leaves the other triangle alone, potrfBatched destroys it. What
// breaks a rule answers INVALID_VALUE and says on stderr which. The work is done when the stream
// comes to it; a stream that is captured is refused, as nothing promises that it works.
//
// What it does stands in its own file name, as for fake_cuda.c: NAME-MODE.so. Modes:
//   ok           as it should be
//   old, new     says version 11.1.0, 13.0.0
//   failing      every call fails
//   missing      has no cusolverDnSpotrf (the test renames it in its copy)
#include "backends/gpu/cuda/cusolver.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "backends/gpu/cuda/cublas.h"
#include "tests/plugin/fake_library.h"
#include "tests/plugin/fake_numbers.h"

#define FAKE_NAME "fake_cusolver"
#define FAKE_BROKEN SOLVER_INVALID_VALUE

enum { ROOM = 24 };

struct solver_handle {
  bool open;
  cuda_stream *stream;
};

#define SOLVER_FN(field, symbol, args) EXPORT solver_result symbol args;
#include "backends/gpu/cuda/cusolver.def"
#undef SOLVER_FN

// ---- handles ------------------------------------------------------------------------------------
solver_result cusolverGetVersion(int *version) {
  *version = is("old") ? 11100 : is("new") ? 13000 : 12004;
  return SOLVER_OK;
}

solver_result cusolverDnCreate(solver_handle **handle) {
  *handle = calloc(1, sizeof **handle);
  (*handle)->open = true;
  return SOLVER_OK;
}

solver_result cusolverDnDestroy(solver_handle *handle) { return free(handle), SOLVER_OK; }

solver_result cusolverDnSetStream(solver_handle *handle, cuda_stream *stream) {
  RULE(handle && handle->open && stream);
  handle->stream = stream;
  return SOLVER_OK;
}

// ---- factors ------------------------------------------------------------------------------------
typedef struct work {
  int type, triangle, n, leading, batch;
  u8 *one, *work;
  cuda_ptr *many;
  i32 *info;
} work;

// Element (r, c) of a lower factor; an upper one is its adjoint.
static number *cell(number *a, i64 n, i64 r, i64 c) { return &a[r * n + c]; }

static i32 factor(const work *w, u8 *p) {
  i64 n = w->n;
  bool lower = w->triangle == CUBLAS_LOWER;
  number *a = calloc((size_t)(n * n), sizeof *a);
  i32 bad = 0;
  for (i64 r = 0; r < n; r++)
    for (i64 c = 0; c <= r; c++) {
      number v = get(w->type, p, lower ? c * w->leading + r : r * w->leading + c);
      *cell(a, n, r, c) = lower ? v : conj(v);
    }
  for (i64 r = 0; r < n && !bad; r++)
    for (i64 c = 0; c <= r && !bad; c++) {
      number v = *cell(a, n, r, c);
      for (i64 k = 0; k < c; k++) v -= *cell(a, n, r, k) * conj(*cell(a, n, c, k));
      if (r == c && !(creal(v) > 0)) bad = (i32)r + 1;
      else *cell(a, n, r, c) = r == c ? sqrt(creal(v)) : v / creal(*cell(a, n, c, c));
    }
  for (i64 r = 0; r < n; r++)
    for (i64 c = 0; c < n; c++) {
      i64 at = lower ? c * w->leading + r : r * w->leading + c;
      if (c <= r) put(w->type, p, at, lower ? *cell(a, n, r, c) : conj(*cell(a, n, r, c)));
      else if (w->many) put(w->type, p, at, -77);
    }
  free(a);
  return bad;
}

static void compute(void *arg) {
  const work *w = arg;
  if (w->work) memset(w->work, 0xa5, (size_t)(ROOM * size_of_number(w->type)));
  for (int b = 0; b < w->batch; b++)
    w->info[b] = factor(w, w->many ? (u8 *)(uintptr_t)w->many[b] : w->one);
}

static solver_result room(int type, const solver_handle *h, int triangle, int n, int leading,
                          int *out) {
  RULE(h && h->open && type < 4 && n > 0 && leading >= n);
  RULE(triangle == CUBLAS_LOWER || triangle == CUBLAS_UPPER);
  *out = ROOM;
  return SOLVER_OK;
}

static solver_result start(const solver_handle *h, work w, cuda_ptr info) {
  RULE(h && h->open && h->stream && !is_captured(h->stream));
  RULE(w.n > 0 && w.leading >= w.n && w.batch > 0);
  RULE(w.triangle == CUBLAS_LOWER || w.triangle == CUBLAS_UPPER);
  RULE(on_device(info, 4 * w.batch, 16));
  if (is("failing")) return SOLVER_EXECUTION_FAILED;
  work *own = calloc(1, sizeof *own);  // as long as the process
  *own = w;
  own->info = (i32 *)(uintptr_t)info;
  return enqueue(h->stream, compute, own) ? SOLVER_OK : SOLVER_EXECUTION_FAILED;
}

static solver_result one(int type, const solver_handle *h, int triangle, int n, cuda_ptr a,
                         int leading, cuda_ptr room_at, int elements, cuda_ptr info) {
  RULE(elements >= ROOM && on_device(room_at, ROOM * size_of_number(type), 16));
  RULE(on_device(a, (i64)leading * n * size_of_number(type), 16));
  return start(h,
               (work){type, triangle, n, leading, 1, (u8 *)(uintptr_t)a, (u8 *)(uintptr_t)room_at,
                      NULL, NULL},
               info);
}

static solver_result many(int type, const solver_handle *h, int triangle, int n, cuda_ptr list,
                          int leading, cuda_ptr info, int batch) {
  RULE(on_device(list, 8 * (i64)batch, 16));
  return start(
      h, (work){type, triangle, n, leading, batch, NULL, NULL, (cuda_ptr *)(uintptr_t)list, NULL},
      info);
}

#define FACTORS(t, type)                                                                          \
  solver_result cusolverDn##t##potrf_bufferSize(solver_handle *handle, int triangle, int n,       \
                                                cuda_ptr a, int leading, int *elements) {         \
    (void)a;                                                                                      \
    return room(type, handle, triangle, n, leading, elements);                                    \
  }                                                                                               \
  solver_result cusolverDn##t##potrf(solver_handle *handle, int triangle, int n, cuda_ptr a,      \
                                     int leading, cuda_ptr memory, int elements, cuda_ptr info) { \
    return one(type, handle, triangle, n, a, leading, memory, elements, info);                    \
  }                                                                                               \
  solver_result cusolverDn##t##potrfBatched(solver_handle *handle, int triangle, int n,           \
                                            cuda_ptr matrices, int leading, cuda_ptr info,        \
                                            int batch) {                                          \
    return many(type, handle, triangle, n, matrices, leading, info, batch);                       \
  }
FACTORS(S, 0)
FACTORS(D, 1)
FACTORS(C, 2)
FACTORS(Z, 3)
