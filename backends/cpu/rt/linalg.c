// linalg.c — cholesky, triangular-solve, and the custom calls of JAX (LAPACK, TopK) with the
// same meaning.
//
// Matrices are small and batched: one matrix per chunk, plain loops over rows that the compiler
// vectorizes, the same code for real and complex types (Cholesky-Banachiewicz, substitution). A
// matrix that is not positive definite gives NaN, as in XLA.
#include <complex.h>
#include <math.h>

#include "backends/cpu/rt/rt.h"
#include "core/ir/config.h"
#include "core/analysis/customcall.h"

typedef struct linalg {
  hlo_dtype type;
  i64 batch, n, m, k;  // triangular-solve: A is n x n; X is m x k
  // keep_other: the other triangle keeps the input (LAPACK)
  bool lower, left, unit, trans, conj, keep_other;
  bool info;  // a second result per matrix: 0, or the order of the failing minor
} linalg;

typedef struct job {
  const linalg *p;
  void *const *bufs;
} job;

static float conj_float(float x) { return x; }
static double conj_double(double x) { return x; }
static float real_float(float x) { return x; }
static double real_double(double x) { return x; }

// L row by row: L[i][j] = (A[i][j] - L[i][:j] . conj(L[j][:j])) / L[j][j]; the upper form works on
// the transposed index.
#define DEFINE_CHOLESKY(name, T, R, CONJ, REAL, SQRT)                           \
  static i64 name(T *a, i64 n, bool lower) {                                    \
    const i64 rs = lower ? n : 1, cs = lower ? 1 : n;                           \
    for (i64 i = 0; i < n; i++)                                                 \
      for (i64 j = 0; j <= i; j++) {                                            \
        T s = lower ? a[i * rs + j * cs] : CONJ(a[i * rs + j * cs]);            \
        if (lower) {                                                            \
          for (i64 k = 0; k < j; k++) s -= a[i * rs + k] * CONJ(a[j * rs + k]); \
        } else                                                                  \
          for (i64 k = 0; k < j; k++) s -= CONJ(a[i + k * cs]) * a[j + k * cs]; \
        if (i == j) {                                                           \
          R d = REAL(s);                                                        \
          if (!(d > 0)) return i + 1;                                           \
          a[i * rs + j * cs] = SQRT(d);                                         \
        } else {                                                                \
          s /= a[j * rs + j * cs];                                              \
          a[i * rs + j * cs] = lower ? s : CONJ(s);                             \
        }                                                                       \
      }                                                                         \
    return 0;                                                                   \
  }
DEFINE_CHOLESKY(chol_f32, float, float, conj_float, real_float, sqrtf)
DEFINE_CHOLESKY(chol_f64, double, double, conj_double, real_double, sqrt)
DEFINE_CHOLESKY(chol_c64, float complex, float, conjf, crealf, sqrtf)
DEFINE_CHOLESKY(chol_c128, double complex, double, conj, creal, sqrt)

static void fill_nan(void *p, hlo_dtype t, i64 n) {
  bool wide = t == HLO_F64 || t == HLO_C128;
  i64 count = hlo_dtype_is_complex(t) ? 2 * n : n;
  for (i64 k = 0; k < count; k++) {
    if (wide) ((double *)p)[k] = (double)NAN;
    else ((float *)p)[k] = NAN;
  }
}

static void cholesky_chunk(void *ctx, i64 b, u32 thread) {
  (void)thread;
  const job *j = ctx;
  const linalg *p = j->p;
  size_t e = hlo_dtype_storage(p->type), bytes = (size_t)(p->n * p->n) * e;
  char *a = (char *)j->bufs[1] + (size_t)b * bytes;
  if (j->bufs[0] != j->bufs[1]) memcpy(a, (char *)j->bufs[0] + (size_t)b * bytes, bytes);
  i64 bad;
  switch (p->type) {
  case HLO_F32: bad = chol_f32((float *)(void *)a, p->n, p->lower); break;
  case HLO_F64: bad = chol_f64((double *)(void *)a, p->n, p->lower); break;
  case HLO_C64: bad = chol_c64((float complex *)(void *)a, p->n, p->lower); break;
  default: bad = chol_c128((double complex *)(void *)a, p->n, p->lower); break;
  }
  if (!p->keep_other) {
    if (bad) fill_nan(a, p->type, p->n * p->n);
    for (i64 r = 0; r < p->n && !bad; r++)
      for (i64 c = 0; c < p->n; c++)
        if (p->lower ? c > r : c < r) memset(a + (size_t)(r * p->n + c) * e, 0, e);
  }
  if (p->info) ((i32 *)j->bufs[2])[b] = (i32)bad;
}

static hs_status run_cholesky(void *state, void *const *bufs, void *scratch) {
  (void)scratch;
  job j = {state, bufs};
  cpu_par_for(cholesky_chunk, &j, j.p->batch);
  return HS_GOOD;
}

// op(A) X = B (left) row by row of X, or X op(A) = B column by column; op(A)[i][j] is A[i][j] or
// A[j][i].
#define DEFINE_SOLVE(name, T, CONJ)                                                \
  static void name(const linalg *p, const T *a, T *x) {                            \
    const i64 n = p->n, rs = p->trans ? 1 : n, cs = p->trans ? n : 1;              \
    bool low = p->lower != p->trans;                                               \
    if (p->left) {                                                                 \
      for (i64 s = 0; s < n; s++) {                                                \
        i64 i = low ? s : n - 1 - s;                                               \
        T *row = x + i * p->k;                                                     \
        for (i64 q = low ? 0 : i + 1, end = low ? i : n; q < end; q++) {           \
          T f = p->conj ? CONJ(a[i * rs + q * cs]) : a[i * rs + q * cs];           \
          const T *other = x + q * p->k;                                           \
          for (i64 c = 0; c < p->k; c++) row[c] -= f * other[c];                   \
        }                                                                          \
        if (p->unit) continue;                                                     \
        T d = p->conj ? CONJ(a[i * n + i]) : a[i * n + i];                         \
        for (i64 c = 0; c < p->k; c++) row[c] /= d;                                \
      }                                                                            \
      return;                                                                      \
    }                                                                              \
    for (i64 r = 0; r < p->m; r++) {                                               \
      T *row = x + r * n;                                                          \
      for (i64 s = 0; s < n; s++) {                                                \
        i64 c = low ? n - 1 - s : s;                                               \
        T v = row[c];                                                              \
        for (i64 q = low ? c + 1 : 0, end = low ? n : c; q < end; q++)             \
          v -= row[q] * (p->conj ? CONJ(a[q * rs + c * cs]) : a[q * rs + c * cs]); \
        row[c] = p->unit ? v : v / (p->conj ? CONJ(a[c * n + c]) : a[c * n + c]);  \
      }                                                                            \
    }                                                                              \
  }
DEFINE_SOLVE(solve_f32, float, conj_float)
DEFINE_SOLVE(solve_f64, double, conj_double)
DEFINE_SOLVE(solve_c64, float complex, conjf)
DEFINE_SOLVE(solve_c128, double complex, conj)

static void solve_chunk(void *ctx, i64 b, u32 thread) {
  (void)thread;
  const job *j = ctx;
  const linalg *p = j->p;
  size_t e = hlo_dtype_storage(p->type), bytes = (size_t)(p->m * p->k) * e;
  const void *a = (char *)j->bufs[0] + (size_t)(b * p->n * p->n) * e;
  void *x = (char *)j->bufs[2] + (size_t)b * bytes;
  if (j->bufs[1] != j->bufs[2]) memcpy(x, (char *)j->bufs[1] + (size_t)b * bytes, bytes);
  switch (p->type) {
  case HLO_F32: solve_f32(p, a, x); break;
  case HLO_F64: solve_f64(p, a, x); break;
  case HLO_C64: solve_c64(p, a, x); break;
  default: solve_c128(p, a, x); break;
  }
}

static hs_status run_solve(void *state, void *const *bufs, void *scratch) {
  (void)scratch;
  job j = {state, bufs};
  cpu_par_for(solve_chunk, &j, j.p->batch);
  return HS_GOOD;
}

static bool matrix_type(hlo_dtype t) {
  return t == HLO_F32 || t == HLO_F64 || t == HLO_C64 || t == HLO_C128;
}

static i64 batch_of(const hlo_shape *s) {
  i64 b = 1;
  for (u32 k = 0; k + 2 < s->rank; k++) b *= s->dims[k];
  return b;
}

bool cpu_cholesky_supports(const hlo_instr *i) {
  return matrix_type(i->shape->dtype) && i->shape->rank >= 2 &&
         hlo_operand(i, 0)->shape->dtype == i->shape->dtype;
}
hs_status cpu_cholesky_prepare(const hlo_instr *i, cpu_rt *out) {
  linalg *p = hs_calloc(1, sizeof *p);
  *p = (linalg){.type = i->shape->dtype,
                .batch = batch_of(i->shape),
                .n = i->shape->dims[i->shape->rank - 1],
                .lower = hlo_attr_int(i, HLO_ATTR_LOWER, 0) != 0};
  *out = (cpu_rt){.kind = "cholesky", .state = p, .run = run_cholesky, .inplace = 1};
  return HS_GOOD;
}

bool cpu_triangular_solve_supports(const hlo_instr *i) {
  return matrix_type(i->shape->dtype) && i->shape->rank >= 2 &&
         hlo_operand(i, 0)->shape->dtype == i->shape->dtype;
}
hs_status cpu_triangular_solve_prepare(const hlo_instr *i, cpu_rt *out) {
  const hlo_shape *s = i->shape;
  i64 tr = hlo_attr_int(i, HLO_ATTR_TRANSPOSE_A, HLO_TRANSPOSE_NO_TRANSPOSE);
  linalg *p = hs_calloc(1, sizeof *p);
  *p = (linalg){.type = s->dtype,
                .batch = batch_of(s),
                .n = hlo_operand(i, 0)->shape->dims[s->rank - 1],
                .m = s->dims[s->rank - 2],
                .k = s->dims[s->rank - 1],
                .lower = hlo_attr_int(i, HLO_ATTR_LOWER, 0) != 0,
                .left = hlo_attr_int(i, HLO_ATTR_LEFT_SIDE, 0) != 0,
                .unit = hlo_attr_int(i, HLO_ATTR_UNIT_DIAGONAL, 0) != 0,
                .trans = tr == HLO_TRANSPOSE_TRANSPOSE || tr == HLO_TRANSPOSE_ADJOINT,
                .conj = tr == HLO_TRANSPOSE_ADJOINT};
  *out = (cpu_rt){.kind = "triangular-solve", .state = p, .run = run_solve};
  return HS_GOOD;
}

// ---- custom calls -------------------------------------------------------------------------------

typedef enum custom { CUSTOM_NONE, CUSTOM_POTRF, CUSTOM_TRSM, CUSTOM_TOPK } custom;

static custom which_custom(const hlo_instr *i) {
  switch (hlo_custom_find(hlo_attr_str(i, HLO_ATTR_CUSTOM_CALL_TARGET))) {
  case HLO_CUSTOM_TOPK: return CUSTOM_TOPK;
  case HLO_CUSTOM_LAPACK_POTRF: return CUSTOM_POTRF;
  case HLO_CUSTOM_LAPACK_TRSM: return CUSTOM_TRSM;
  default: return CUSTOM_NONE;
  }
}

// -1 when absent.
static i64 config_int(const hlo_instr *i, const char *key) {
  return (i64)hlo_config_number(i, NULL, key, -1);
}

// A letter of LAPACK's, one of these; or absent, where that has a meaning.
static bool is_letter(const hlo_instr *i, const char *key, const char *letters, bool absent) {
  i64 v = config_int(i, key);
  return v < 0 ? absent : v > 0 && v < 128 && strchr(letters, (int)v) != NULL;
}
static bool has_matrices(const hlo_shape *s) {
  return hlo_shape_is_array(s) && s->rank >= 2 && matrix_type(s->dtype);
}
static bool is_square(const hlo_shape *s) { return s->dims[s->rank - 1] == s->dims[s->rank - 2]; }

static bool trsm_supports(const hlo_instr *i) {
  if (i->noperands != 2 || !is_letter(i, "uplo", "LU", false) ||
      !is_letter(i, "side", "LR", false) || !is_letter(i, "diag", "NU", true) ||
      !is_letter(i, "trans_x", "NTC", true))
    return false;
  const hlo_shape *s = i->shape, *a = hlo_operand(i, 0)->shape, *b = hlo_operand(i, 1)->shape;
  if (!has_matrices(s) || !has_matrices(a) || !is_square(a) || b->logical != s->logical ||
      a->dtype != s->dtype || batch_of(a) != batch_of(s))
    return false;
  return a->dims[a->rank - 1] == s->dims[s->rank - (config_int(i, "side") == 'L' ? 2 : 1)];
}

bool cpu_custom_call_supports(const hlo_instr *i) {
  switch (which_custom(i)) {
  case CUSTOM_TOPK: return cpu_topk_supports(i);
  case CUSTOM_POTRF:
    return i->noperands == 1 && hlo_shape_is_tuple(i->shape) && i->shape->nelems == 2 &&
           i->shape->elems[1]->dtype == HLO_S32 && has_matrices(hlo_operand(i, 0)->shape) &&
           i->shape->elems[0]->logical == hlo_operand(i, 0)->shape->logical &&
           i->shape->elems[1]->elements == batch_of(hlo_operand(i, 0)->shape) &&
           is_square(hlo_operand(i, 0)->shape) && is_letter(i, "uplo", "LU", false);
  case CUSTOM_TRSM: return trsm_supports(i);
  case CUSTOM_NONE: break;
  }
  return false;
}

hs_status cpu_custom_call_prepare(const hlo_instr *i, cpu_rt *out) {
  custom w = which_custom(i);
  if (w == CUSTOM_TOPK) return cpu_topk_prepare(i, out);
  const hlo_shape *s = w == CUSTOM_POTRF ? i->shape->elems[0] : i->shape;
  linalg *p = hs_calloc(1, sizeof *p);
  *p = (linalg){.type = s->dtype,
                .batch = batch_of(s),
                .n = hlo_operand(i, 0)->shape->dims[s->rank - 1],
                .m = s->dims[s->rank - 2],
                .k = s->dims[s->rank - 1],
                .lower = config_int(i, "uplo") == 'L',
                .left = config_int(i, "side") == 'L',
                .unit = config_int(i, "diag") == 'U',
                .trans = config_int(i, "trans_x") == 'T' || config_int(i, "trans_x") == 'C',
                .conj = config_int(i, "trans_x") == 'C',
                .keep_other = true,
                .info = w == CUSTOM_POTRF};
  if (w == CUSTOM_POTRF)
    *out =
        (cpu_rt){.kind = "cholesky (lapack call)", .state = p, .run = run_cholesky, .inplace = 1};
  else *out = (cpu_rt){.kind = "triangular-solve (lapack call)", .state = p, .run = run_solve};
  return HS_GOOD;
}
