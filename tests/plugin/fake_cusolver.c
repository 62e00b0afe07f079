// fake_cusolver.c — a cuSOLVER of our own for tests: factors matrices in the emulated device's
// memory, and misbehaves on request. Cholesky factors are its own; LU, QR, eigenvalues and singular
// values are LAPACK's, where the program that loads it has that.
//
// It is as strict as the library's documentation allows it to be: handles, sizes, workspaces,
// memory that was allocated, no more columns than rows where it has no others. potrf leaves the
// other triangle alone, potrfBatched destroys it; workspaces are overwritten. What breaks a rule
// answers INVALID_VALUE and says on stderr which. The work is done when the stream
// comes to it; a stream that is captured is refused, as nothing promises that it works.
//
// What it does stands in its own file name, as for fake_cuda.c: NAME-MODE.so. Modes:
//   ok           as it should be
//   old, new     says version 11.1.0, 13.0.0
//   failing      every call fails
//   huge         has more elements in its workspaces than an int holds, and says what is left
//   missing      has no cusolverDnSpotrf (the test renames it in its copy)
//   early        has no cusolverDnXgeev (the same)
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

#define SOLVER_FN(field, symbol, need, args) EXPORT solver_result symbol args;
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
  *out = is("huge") ? INT32_MIN + 7 : ROOM;
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

// ---- LU, QR, eigenvalues, singular values -------------------------------------------------------
// LAPACKE's functions, by columns; of complex numbers they have other names for the same.
#define LAPACK(t, orgqr, ormqr, syevd, sytrd)                                                     \
  extern int LAPACKE_##t##getrf(int, int, int, void *, int, int *) __attribute__((weak));         \
  extern int LAPACKE_##t##geqrf(int, int, int, void *, int, void *) __attribute__((weak));        \
  extern int LAPACKE_##t##orgqr(int, int, int, int, void *, int, const void *)                    \
      __attribute__((weak));                                                                      \
  extern int LAPACKE_##t##ormqr(int, char, char, int, int, int, const void *, int, const void *,  \
                                void *, int) __attribute__((weak));                               \
  extern int LAPACKE_##t##syevd(int, char, char, int, void *, int, void *) __attribute__((weak)); \
  extern int LAPACKE_##t##sytrd(int, char, int, void *, int, void *, void *, void *)              \
      __attribute__((weak));                                                                      \
  extern int LAPACKE_##t##gesvd(int, char, char, int, int, void *, int, void *, void *, int,      \
                                void *, int, void *) __attribute__((weak));
LAPACK(s, orgqr, ormqr, syevd, sytrd)
LAPACK(d, orgqr, ormqr, syevd, sytrd)
LAPACK(c, ungqr, unmqr, heevd, hetrd)
LAPACK(z, ungqr, unmqr, heevd, hetrd)
#define GEEV(t, ...)                                                                               \
  extern int LAPACKE_##t##geev(int, char, char, int, void *, int, void *, __VA_ARGS__ void *, int, \
                               void *, int) __attribute__((weak));
#define PARTS void *,
GEEV(s, PARTS)
GEEV(d, PARTS)
GEEV(c)
GEEV(z)
#define OF_TYPE(type, real, complex)  \
  ((type) == 0   ? LAPACKE_s##real    \
   : (type) == 1 ? LAPACKE_d##real    \
   : (type) == 2 ? LAPACKE_c##complex \
                 : LAPACKE_z##complex)

typedef enum sort { LU, QR, Q, BY_Q, EIGEN, SVD, TRIDIAGONAL, GENERAL, SVDS } sort;
struct solver_jacobi {
  bool open;
};
typedef struct job {
  sort sort;
  int type, m, n, k, leading;
  cuda_ptr a, vector, work;
  int elements;
  cuda_ptr info;
  char jobs[2], triangle;              // of eigenproblems and singular values
  int side, op, x_leading, v_leading;  // by Q; of singular values: of U and V
  cuda_ptr x, v;                       // of a tridiagonal form: beside the diagonal, the scales
  int more;                            // matrices behind the first one
} job;

enum { COLUMNS = 102 };

static void *at(cuda_ptr p) { return (void *)(uintptr_t)p; }

// Of real numbers the imaginary parts of the values lie behind the real ones.
static int eigen_of_any(const job *j) {
  void *a = at(j->a), *w = at(j->vector), *v = at(j->x);
  char want = j->jobs[0];
  int n = j->n;
  switch (j->type) {
  case 0:
    return LAPACKE_sgeev(COLUMNS, 'N', want, n, a, j->leading, w, (float *)w + n, NULL, n, v, n);
  case 1:
    return LAPACKE_dgeev(COLUMNS, 'N', want, n, a, j->leading, w, (double *)w + n, NULL, n, v, n);
  case 2: return LAPACKE_cgeev(COLUMNS, 'N', want, n, a, j->leading, w, NULL, n, v, n);
  default: return LAPACKE_zgeev(COLUMNS, 'N', want, n, a, j->leading, w, NULL, n, v, n);
  }
}

// Each becomes the other's conjugate: V is made of V^H.
static void exchange(int type, void *p, i64 k, i64 l) {
  number was = get(type, p, k);
  put(type, p, k, conj(get(type, p, l)));
  put(type, p, l, conj(was));
}

static int by_lapack(const job *j) {
  void *a = at(j->a), *vector = at(j->vector);
  char side = j->side == CUBLAS_LEFT ? 'L' : 'R', op = j->op == CUBLAS_PLAIN    ? 'N'
                                                       : j->op == CUBLAS_TURNED ? 'T'
                                                                                : 'C';
  switch (j->sort) {
  case LU: return OF_TYPE(j->type, getrf, getrf)(COLUMNS, j->m, j->n, a, j->leading, vector);
  case QR: return OF_TYPE(j->type, geqrf, geqrf)(COLUMNS, j->m, j->n, a, j->leading, vector);
  case Q: return OF_TYPE(j->type, orgqr, ungqr)(COLUMNS, j->m, j->n, j->k, a, j->leading, vector);
  case BY_Q:
    return OF_TYPE(j->type, ormqr, unmqr)(COLUMNS, side, op, j->m, j->n, j->k, a, j->leading,
                                          vector, at(j->x), j->x_leading);
  case EIGEN:
    return OF_TYPE(j->type, syevd, heevd)(COLUMNS, j->jobs[0], j->triangle, j->n, a, j->leading,
                                          vector);
  case TRIDIAGONAL:
    return OF_TYPE(j->type, sytrd, hetrd)(COLUMNS, j->triangle, j->n, a, j->leading, vector,
                                          at(j->x), at(j->v));
  case GENERAL: return eigen_of_any(j);
  default: break;
  }
  void *rest = calloc((size_t)j->n, sizeof(double));
  int r =
      OF_TYPE(j->type, gesvd, gesvd)(COLUMNS, j->jobs[0], j->jobs[1], j->m, j->n, a, j->leading,
                                     vector, at(j->x), j->x_leading, at(j->v), j->v_leading, rest);
  for (int c = 0; c < j->n && j->sort == SVDS && j->jobs[0] != 'N'; c++)
    for (int row = 0; row <= c; row++) exchange(j->type, at(j->v), c * j->n + row, row * j->n + c);
  return free(rest), r;
}

static i64 columns_bytes(const job *j, int leading, int columns) {
  return (i64)leading * columns * size_of_number(j->type);
}
static i64 real_bytes(const job *j) { return j->type % 2 ? 8 : 4; }

static void run_job(void *arg) {
  const job *j = arg;
  memset(at(j->work), 0xa5, (size_t)(j->elements * size_of_number(j->type)));
  job one = *j;
  for (int b = 0; b <= j->more; b++) {
    *(i32 *)at(one.info) = by_lapack(&one);
    one.a += (cuda_ptr)columns_bytes(j, j->leading, j->n);
    one.vector += (cuda_ptr)(HS_MIN(j->m, j->n) * real_bytes(j));
    one.x += (cuda_ptr)columns_bytes(j, j->x_leading, j->m);
    one.v += (cuda_ptr)columns_bytes(j, j->v_leading, j->n);
    one.info += sizeof(i32);
  }
}

static bool is_job(char c) { return c == 'A' || c == 'S' || c == 'N'; }

// What the documentation asks of sizes, and which memory is touched.
static solver_result rules(const job *j) {
  i64 real = real_bytes(j), least = j->m < j->n ? j->m : j->n;
  RULE(j->m > 0 && j->n > 0 && j->k >= 0 && j->type < 4);
  if (j->sort == BY_Q) {
    int order = j->side == CUBLAS_LEFT ? j->m : j->n;
    RULE(j->side == CUBLAS_LEFT || j->side == CUBLAS_RIGHT);
    RULE(j->op == CUBLAS_PLAIN || j->op == (j->type < 2 ? CUBLAS_TURNED : CUBLAS_ADJOINT));
    RULE(j->k <= order && j->leading >= order && j->x_leading >= j->m);
    if (!j->work) return SOLVER_OK;
    RULE(on_device(j->a, columns_bytes(j, j->leading, j->k), 4));
    RULE(on_device(j->x, columns_bytes(j, j->x_leading, j->n), 4));
    RULE(on_device(j->vector, j->k * size_of_number(j->type), 4));
    return SOLVER_OK;
  }
  RULE(j->leading >= j->m);
  if (j->sort == Q) RULE(j->n <= j->m && j->k <= j->n);
  if (j->sort == EIGEN) RULE(j->triangle && j->jobs[0]);
  if (j->sort == TRIDIAGONAL) RULE(j->triangle);
  if (j->sort == GENERAL) RULE(j->jobs[0]);
  if (j->sort == SVD) RULE(j->m >= j->n);
  if (j->sort == SVDS)
    RULE(j->jobs[0] && j->m <= 32 && j->n <= 32 && j->x_leading >= j->m && j->v_leading >= j->n);
  if (!j->work) return SOLVER_OK;
  RULE(on_device(j->a, (1 + j->more) * columns_bytes(j, j->leading, j->n), 4));
  RULE(j->more == 0 || j->leading == j->m);
  i64 vector = j->sort == LU                                                ? 4 * least
               : j->sort == EIGEN || (j->sort >= SVD && j->sort != GENERAL) ? real * least
               : j->sort == GENERAL ? (j->type < 2 ? 2 : 1) * least * size_of_number(j->type)
                                    : (j->sort == Q ? j->k : least) * size_of_number(j->type);
  RULE(on_device(j->vector, (1 + j->more) * vector, 4));
  if (j->sort == TRIDIAGONAL)
    RULE(on_device(j->x, real * (j->n - 1), 4) &&
         on_device(j->v, (j->n - 1) * size_of_number(j->type), 4));
  if (j->sort == GENERAL && j->jobs[0] == 'V')
    RULE(j->x_leading >= j->n && on_device(j->x, columns_bytes(j, j->x_leading, j->n), 4));
  if (j->sort == SVDS && j->jobs[0] != 'N')
    RULE(on_device(j->x, (1 + j->more) * columns_bytes(j, j->x_leading, j->m), 4) &&
         on_device(j->v, (1 + j->more) * columns_bytes(j, j->v_leading, j->n), 4));
  if (j->sort != SVD) return SOLVER_OK;
  RULE(is_job(j->jobs[0]) && is_job(j->jobs[1]));
  if (j->jobs[0] != 'N')
    RULE(j->x_leading >= j->m &&
         on_device(j->x, columns_bytes(j, j->x_leading, j->jobs[0] == 'A' ? j->m : j->n), 4));
  if (j->jobs[1] != 'N')
    RULE(j->v_leading >= j->n && on_device(j->v, columns_bytes(j, j->v_leading, j->n), 4));
  return SOLVER_OK;
}

static solver_result job_room(const solver_handle *h, job j, int *out) {
  RULE(h && h->open);
  *out = is("huge") ? INT32_MIN + 7 : ROOM + j.n;
  return rules(&j);
}

static solver_result job_start(const solver_handle *h, job j) {
  RULE(h && h->open && h->stream && !is_captured(h->stream));
  RULE(j.elements >= ROOM + j.n && on_device(j.work, j.elements * size_of_number(j.type), 16));
  RULE(on_device(j.info, 4 * (1 + (i64)j.more), 4));
  if (rules(&j) != SOLVER_OK) return SOLVER_INVALID_VALUE;
  if (is("failing")) return SOLVER_EXECUTION_FAILED;
  if (!LAPACKE_sgesvd) return SOLVER_NOT_SUPPORTED;
  job *own = calloc(1, sizeof *own);  // as long as the process
  *own = j;
  return enqueue(h->stream, run_job, own) ? SOLVER_OK : SOLVER_EXECUTION_FAILED;
}

static char triangle_letter(int t) { return t == CUBLAS_LOWER ? 'L' : t == CUBLAS_UPPER ? 'U' : 0; }
static char vectors_letter(int v) {
  return v == SOLVER_VECTORS ? 'V' : v == SOLVER_VALUES ? 'N' : 0;
}

struct solver_turns {
  bool open;
};

solver_result cusolverDnCreateGesvdjInfo(solver_turns **p) {
  *p = calloc(1, sizeof **p);
  (*p)->open = true;
  return SOLVER_OK;
}

solver_result cusolverDnDestroyGesvdjInfo(solver_turns *p) {
  RULE(p && p->open);
  return free(p), SOLVER_OK;
}

static job svds(int type, int vectors, int m, int n, cuda_ptr a, int leading, cuda_ptr values,
                cuda_ptr u, int u_leading, cuda_ptr v, int v_leading, int batch) {
  char all = vectors_letter(vectors) == 'V' ? 'A' : vectors_letter(vectors);
  return (job){SVDS,
               type,
               m,
               n,
               0,
               leading,
               a,
               values,
               .x = u,
               .x_leading = u_leading,
               .v = v,
               .v_leading = v_leading,
               .jobs = {all, all},
               .more = batch - 1};
}

solver_result cusolverDnCreateSyevjInfo(solver_jacobi **p) {
  *p = calloc(1, sizeof **p);
  (*p)->open = true;
  return SOLVER_OK;
}

solver_result cusolverDnDestroySyevjInfo(solver_jacobi *p) {
  RULE(p && p->open);
  return free(p), SOLVER_OK;
}

struct solver_params {
  bool open;
};

solver_result cusolverDnCreateParams(solver_params **p) {
  *p = calloc(1, sizeof **p);
  (*p)->open = true;
  return SOLVER_OK;
}

solver_result cusolverDnDestroyParams(solver_params *p) {
  RULE(p && p->open);
  return free(p), SOLVER_OK;
}

// Left vectors it has none of; all types are one.
static solver_result geev_rules(const solver_params *p, int left, int right, const int types[5]) {
  RULE(p && p->open && left == SOLVER_VALUES && vectors_letter(right));
  RULE(types[0] == SOLVER_F32 || types[0] == SOLVER_F64 || types[0] == SOLVER_C64 ||
       types[0] == SOLVER_C128);
  for (int k = 1; k < 5; k++) RULE(types[k] == types[0]);
  return SOLVER_OK;
}

static int row_of(int type) { return type < SOLVER_C64 ? type : type - SOLVER_C64 + 2; }
static size_t geev_bytes(i64 n, int type) {
  return (size_t)((ROOM + n) * size_of_number(row_of(type)));
}

solver_result cusolverDnXgeev_bufferSize(solver_handle *h, solver_params *p, int left, int right,
                                         i64 n, int type, cuda_ptr a, i64 leading, int values_type,
                                         cuda_ptr values, int left_type, cuda_ptr lefts,
                                         i64 lefts_leading, int right_type, cuda_ptr rights,
                                         i64 rights_leading, int compute, size_t *device_bytes,
                                         size_t *host_bytes) {
  (void)a, (void)values, (void)lefts, (void)rights;
  RULE(h && h->open && n > 0 && leading >= n && lefts_leading > 0 && rights_leading >= n);
  *device_bytes = geev_bytes(n, type);
  *host_bytes = (size_t)n + 13;
  return geev_rules(p, left, right, (int[]){type, values_type, left_type, right_type, compute});
}

solver_result cusolverDnXgeev(solver_handle *h, solver_params *p, int left, int right, i64 n,
                              int type, cuda_ptr a, i64 leading, int values_type, cuda_ptr values,
                              int left_type, cuda_ptr lefts, i64 lefts_leading, int right_type,
                              cuda_ptr rights, i64 rights_leading, int compute, cuda_ptr memory,
                              size_t device_bytes, void *host, size_t host_bytes, cuda_ptr info) {
  const int types[] = {type, values_type, left_type, right_type, compute};
  if (geev_rules(p, left, right, types) != SOLVER_OK) return SOLVER_INVALID_VALUE;
  RULE(!lefts && lefts_leading > 0 && host && host_bytes >= (size_t)n + 13);
  RULE(device_bytes >= geev_bytes(n, type));
  memset(host, 0xa5, host_bytes);
  return job_start(h, (job){GENERAL, row_of(type), (int)n, (int)n, 0, (int)leading, a, values,
                            memory, ROOM + (int)n, info, .jobs = {vectors_letter(right)},
                            .x = rights, .x_leading = (int)rights_leading});
}

// getrf is not told how large its workspace is
#define JOBS(t, number_type, orgqr, ormqr, syevd, sytrd)                                           \
  solver_result cusolverDn##t##getrf_bufferSize(solver_handle *h, int m, int n, cuda_ptr a,        \
                                                int leading, int *elements) {                      \
    return job_room(h, (job){LU, number_type, m, n, .a = a, .leading = leading}, elements);        \
  }                                                                                                \
  solver_result cusolverDn##t##getrf(solver_handle *h, int m, int n, cuda_ptr a, int leading,      \
                                     cuda_ptr memory, cuda_ptr pivots, cuda_ptr info) {            \
    return job_start(                                                                              \
        h, (job){LU, number_type, m, n, 0, leading, a, pivots, memory, ROOM + n, .info = info});   \
  }                                                                                                \
  solver_result cusolverDn##t##geqrf_bufferSize(solver_handle *h, int m, int n, cuda_ptr a,        \
                                                int leading, int *elements) {                      \
    return job_room(h, (job){QR, number_type, m, n, .a = a, .leading = leading}, elements);        \
  }                                                                                                \
  solver_result cusolverDn##t##geqrf(solver_handle *h, int m, int n, cuda_ptr a, int leading,      \
                                     cuda_ptr tau, cuda_ptr memory, int elements, cuda_ptr info) { \
    return job_start(                                                                              \
        h, (job){QR, number_type, m, n, 0, leading, a, tau, memory, elements, .info = info});      \
  }                                                                                                \
  solver_result cusolverDn##t##orgqr##_bufferSize(solver_handle *h, int m, int n, int k,           \
                                                  cuda_ptr a, int leading, cuda_ptr tau,           \
                                                  int *elements) {                                 \
    return job_room(h, (job){Q, number_type, m, n, k, leading, a, .vector = tau}, elements);       \
  }                                                                                                \
  solver_result cusolverDn##t##orgqr(solver_handle *h, int m, int n, int k, cuda_ptr a,            \
                                     int leading, cuda_ptr tau, cuda_ptr memory, int elements,     \
                                     cuda_ptr info) {                                              \
    return job_start(                                                                              \
        h, (job){Q, number_type, m, n, k, leading, a, tau, memory, elements, .info = info});       \
  }                                                                                                \
  solver_result cusolverDn##t##ormqr##_bufferSize(                                                 \
      solver_handle *h, int side, int op, int m, int n, int k, cuda_ptr a, int leading,            \
      cuda_ptr tau, cuda_ptr x, int x_leading, int *elements) {                                    \
    return job_room(h,                                                                             \
                    (job){BY_Q, number_type, m, n, k, leading, a, tau, .x = x, .side = side,       \
                          .op = op, .x_leading = x_leading},                                       \
                    elements);                                                                     \
  }                                                                                                \
  solver_result cusolverDn##t##ormqr(                                                              \
      solver_handle *h, int side, int op, int m, int n, int k, cuda_ptr a, int leading,            \
      cuda_ptr tau, cuda_ptr x, int x_leading, cuda_ptr memory, int elements, cuda_ptr info) {     \
    return job_start(h, (job){BY_Q, number_type, m, n, k, leading, a, tau, memory, elements, info, \
                              .x = x, .side = side, .op = op, .x_leading = x_leading});            \
  }                                                                                                \
  solver_result cusolverDn##t##syevd##_bufferSize(solver_handle *h, int vectors, int triangle,     \
                                                  int n, cuda_ptr a, int leading, cuda_ptr values, \
                                                  int *elements) {                                 \
    return job_room(h,                                                                             \
                    (job){EIGEN, number_type, n, n, 0, leading, a, values,                         \
                          .jobs = {vectors_letter(vectors)},                                       \
                          .triangle = triangle_letter(triangle)},                                  \
                    elements);                                                                     \
  }                                                                                                \
  solver_result cusolverDn##t##syevd(solver_handle *h, int vectors, int triangle, int n,           \
                                     cuda_ptr a, int leading, cuda_ptr values, cuda_ptr memory,    \
                                     int elements, cuda_ptr info) {                                \
    return job_start(h, (job){EIGEN, number_type, n, n, 0, leading, a, values, memory, elements,   \
                              info, .jobs = {vectors_letter(vectors)},                             \
                              .triangle = triangle_letter(triangle)});                             \
  }                                                                                                \
  solver_result cusolverDn##t##sytrd##_bufferSize(solver_handle *h, int triangle, int n,           \
                                                  cuda_ptr a, int leading, cuda_ptr d, cuda_ptr e, \
                                                  cuda_ptr tau, int *elements) {                   \
    return job_room(h,                                                                             \
                    (job){TRIDIAGONAL, number_type, n, n, 0, leading, a, d, .x = e, .v = tau,      \
                          .triangle = triangle_letter(triangle)},                                  \
                    elements);                                                                     \
  }                                                                                                \
  solver_result cusolverDn##t##sytrd(solver_handle *h, int triangle, int n, cuda_ptr a,            \
                                     int leading, cuda_ptr d, cuda_ptr e, cuda_ptr tau,            \
                                     cuda_ptr memory, int elements, cuda_ptr info) {               \
    return job_start(h, (job){TRIDIAGONAL, number_type, n, n, 0, leading, a, d, memory, elements,  \
                              info, .triangle = triangle_letter(triangle), .x = e, .v = tau});     \
  }                                                                                                \
  solver_result cusolverDn##t##gesvd_bufferSize(solver_handle *h, int m, int n, int *elements) {   \
    return job_room(h, (job){SVD, number_type, m, n, .leading = m}, elements);                     \
  }                                                                                                \
  solver_result cusolverDn##t##gesvd(                                                              \
      solver_handle *h, signed char u_job, signed char v_job, int m, int n, cuda_ptr a,            \
      int leading, cuda_ptr s, cuda_ptr u, int u_leading, cuda_ptr v, int v_leading,               \
      cuda_ptr memory, int elements, cuda_ptr rest, cuda_ptr info) {                               \
    RULE(rest == 0 || on_device(rest, (n - 1) * 4, 4));                                            \
    return job_start(h, (job){SVD, number_type, m, n, 0, leading, a, s, memory, elements, info,    \
                              .jobs = {(char)u_job, (char)v_job}, .x = u, .x_leading = u_leading,  \
                              .v = v, .v_leading = v_leading});                                    \
  }
#define MANY(t, number_type, syevj)                                                               \
  solver_result cusolverDn##t##syevj##Batched_bufferSize(                                         \
      solver_handle *h, int vectors, int triangle, int n, cuda_ptr a, int leading,                \
      cuda_ptr values, int *elements, solver_jacobi *p, int batch) {                              \
    RULE(p && p->open && batch > 0);                                                              \
    return job_room(h,                                                                            \
                    (job){EIGEN, number_type, n, n, 0, leading, a, values,                        \
                          .jobs = {vectors_letter(vectors)},                                      \
                          .triangle = triangle_letter(triangle)},                                 \
                    elements);                                                                    \
  }                                                                                               \
  solver_result cusolverDn##t##syevj##Batched(solver_handle *h, int vectors, int triangle, int n, \
                                              cuda_ptr a, int leading, cuda_ptr values,           \
                                              cuda_ptr memory, int elements, cuda_ptr info,       \
                                              solver_jacobi *p, int batch) {                      \
    RULE(p && p->open && batch > 0);                                                              \
    return job_start(h, (job){EIGEN, number_type, n, n, 0, leading, a, values, memory, elements,  \
                              info, .jobs = {vectors_letter(vectors)},                            \
                              .triangle = triangle_letter(triangle), .more = batch - 1});         \
  }
#define MANY_SVDS(t, number_type)                                                                \
  solver_result cusolverDn##t##gesvdjBatched_bufferSize(                                         \
      solver_handle *h, int vectors, int m, int n, cuda_ptr a, int leading, cuda_ptr values,     \
      cuda_ptr u, int u_leading, cuda_ptr v, int v_leading, int *elements, solver_turns *p,      \
      int batch) {                                                                               \
    RULE(p && p->open && batch > 0);                                                             \
    return job_room(                                                                             \
        h,                                                                                       \
        svds(number_type, vectors, m, n, a, leading, values, u, u_leading, v, v_leading, batch), \
        elements);                                                                               \
  }                                                                                              \
  solver_result cusolverDn##t##gesvdjBatched(                                                    \
      solver_handle *h, int vectors, int m, int n, cuda_ptr a, int leading, cuda_ptr values,     \
      cuda_ptr u, int u_leading, cuda_ptr v, int v_leading, cuda_ptr memory, int elements,       \
      cuda_ptr info, solver_turns *p, int batch) {                                               \
    RULE(p && p->open && batch > 0);                                                             \
    job j =                                                                                      \
        svds(number_type, vectors, m, n, a, leading, values, u, u_leading, v, v_leading, batch); \
    j.work = memory;                                                                             \
    j.elements = elements;                                                                       \
    j.info = info;                                                                               \
    return job_start(h, j);                                                                      \
  }
MANY_SVDS(S, 0)
MANY_SVDS(D, 1)
MANY_SVDS(C, 2)
MANY_SVDS(Z, 3)
MANY(S, 0, syevj)
MANY(D, 1, syevj)
MANY(C, 2, heevj)
MANY(Z, 3, heevj)
JOBS(S, 0, orgqr, ormqr, syevd, sytrd)
JOBS(D, 1, orgqr, ormqr, syevd, sytrd)
JOBS(C, 2, ungqr, unmqr, heevd, hetrd)
JOBS(Z, 3, ungqr, unmqr, heevd, hetrd)
