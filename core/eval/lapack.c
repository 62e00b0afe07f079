// lapack.c — JAX's LAPACK custom calls through LAPACKE, the only file that includes it.
//
// Literals are row-major whatever the layout, which is what LAPACKE's row-major calls take.
// Matrices are the last two dimensions, the others are batches. Calls through XLA's FFI
// ("lapack_spotrf_ffi") have their attributes in the backend_config as an MLIR dictionary ({uplo =
// 76 : ui8}); the older ones ("lapack_spotrf", "blas_strsm") pass them, and sizes, as scalar
// operands in front, and want work space among their results, which stays zero.
#include "core/ir/config.h"
#include "core/eval/library.h"

#if HAVE_LAPACKE
#include <complex.h>
#include <lapacke.h>
#include <lapacke_utils.h>
#include <cblas.h>
#include <stdlib.h>

enum { MAX_RESULTS = 12, MAX_SCALARS = 10 };

typedef struct call {
  ev *e;
  const hlo_instr *i;
  char t;  // s, d, c, z
  bool old;
  u32 nops, nr, nscalars;
  hlo_literal **ops, *r[MAX_RESULTS];  // r: borrowed from the result
  i64 scalar[MAX_SCALARS];
  size_t w;                 // bytes of an element
  i64 rows, cols, batches;  // of the first matrix
  i64 from, to;             // the batches at hand
} call;

static hs_status refuse(const call *c, const char *why) { return ev_unsupported(c->i, why); }
// An attribute of the FFI form, or the old form's scalar operand number k; -1: it has none.
static i64 option(const call *c, const char *key, int k, i64 absent) {
  if (c->old) return k >= 0 && (u32)k < c->nscalars ? c->scalar[k] : absent;
  return (i64)hlo_config_number(c->i, NULL, key, (double)absent);
}
static char letter_arg(const call *c, const char *key, int k, char absent, char if_set,
                       char if_not) {
  i64 v = option(c, key, k, absent);
  return c->old ? (v ? if_set : if_not) : (char)v;
}
static bool one_of(i64 v, const char *letters) {
  return v > 0 && v < 128 && strchr(letters, (int)v) != NULL;
}
static void *at(const call *c, void *base, i64 b, i64 elements) {
  return (char *)base + (size_t)(b * elements) * c->w;
}
static bool real(const call *c) { return c->t == 's' || c->t == 'd'; }
static bool has(const call *c, u32 k, i64 elements) {
  return k < c->nr && hlo_shape_is_array(c->r[k]->shape) && c->r[k]->shape->elements == elements;
}
static void set_info(const call *c, u32 k, i64 b, int info) {
  if (k < c->nr && b < c->r[k]->shape->elements && hlo_dtype_is_integer(c->r[k]->shape->dtype))
    hlo_literal_set_i64(c->r[k], b, info);
}
// The operand becomes the result it is overwritten in, as far as it is of the batches at hand.
static bool carry(const call *c, u32 op, u32 result) {
  if (op >= c->nops || result >= c->nr || c->r[result]->bytes != c->ops[op]->bytes) return false;
  size_t n = c->ops[op]->bytes, one = c->batches ? n / (size_t)c->batches : 0,
         from = one * (size_t)c->from, to = c->to == c->batches ? n : one * (size_t)c->to;
  memcpy((char *)c->r[result]->data + from, (const char *)c->ops[op]->data + from, to - from);
  return true;
}

#define ROUTINE_BY(order, name, ...)                   \
  (c->t == 's'   ? LAPACKE_s##name(order, __VA_ARGS__) \
   : c->t == 'd' ? LAPACKE_d##name(order, __VA_ARGS__) \
   : c->t == 'c' ? LAPACKE_c##name(order, __VA_ARGS__) \
                 : LAPACKE_z##name(order, __VA_ARGS__))
#define ROUTINE(name, ...) ROUTINE_BY(LAPACK_ROW_MAJOR, name, __VA_ARGS__)
#define ROUTINE2(rname, cname, ...)                                \
  (c->t == 's'   ? LAPACKE_s##rname(LAPACK_ROW_MAJOR, __VA_ARGS__) \
   : c->t == 'd' ? LAPACKE_d##rname(LAPACK_ROW_MAJOR, __VA_ARGS__) \
   : c->t == 'c' ? LAPACKE_c##cname(LAPACK_ROW_MAJOR, __VA_ARGS__) \
                 : LAPACKE_z##cname(LAPACK_ROW_MAJOR, __VA_ARGS__))

// The working forms of routines are called where there are any that end on each input: LAPACKE's
// others refuse a matrix with a NaN, which XLA's calls factor like any. answer: what one said to
// need, asked with -1.
static hs_status take_work(const call *c, const double complex *answer, void **work, int *n) {
  const float *narrow = (const void *)answer;
  const double *wide = (const void *)answer;
  *n = HS_MAX((int)(c->t == 's' || c->t == 'c' ? *narrow : *wide), 1);
  *work = hs_try_alloc((size_t)*n * c->w);
  return *work ? HS_GOOD : hs_fail(HS_E_NO_MEMORY, "no memory to factor a matrix in");
}

static hs_status potrf(const call *c) {
  char uplo = letter_arg(c, "uplo", 0, 'L', 'L', 'U');
  if (!one_of(uplo, "LU")) return refuse(c, "with these options");
  if (c->rows != c->cols || !carry(c, 0, 0) || !has(c, 1, c->batches))
    return refuse(c, "with these shapes");
  int n = (int)c->rows;
  for (i64 b = c->from; b < c->to; b++)
    set_info(
        c, 1, b,
        ROUTINE(potrf_work, uplo, n, at(c, c->r[0]->data, b, c->rows * c->cols), HS_MAX(n, 1)));
  return HS_GOOD;
}

static hs_status trsm(const call *c) {
  char side_c = letter_arg(c, "side", 0, 'L', 'L', 'R'),
       uplo_c = letter_arg(c, "uplo", 1, 'L', 'L', 'U'),
       diag_c = letter_arg(c, "diag", 3, 'N', 'U', 'N');
  i64 trans = option(c, "trans_x", 2, option(c, "trans", 2, 'N'));
  if (!one_of(side_c, "LR") || !one_of(uplo_c, "LU") || !one_of(diag_c, "NU") ||
      (!c->old && !one_of(trans, "NTC")))
    return refuse(c, "with these options");
  if (c->nops < 2 || c->rows != c->cols || c->ops[1]->shape->rank < 2 || !carry(c, 1, 0))
    return refuse(c, "with these shapes");
  const hlo_shape *s = c->ops[1]->shape;
  i64 m = s->dims[s->rank - 2], n = s->dims[s->rank - 1];
  if (m * n * c->batches != s->elements || (side_c == 'R' ? n : m) != c->rows)
    return refuse(c, "with these shapes");
  CBLAS_SIDE side = side_c == 'R' ? CblasRight : CblasLeft;
  CBLAS_UPLO uplo = uplo_c == 'U' ? CblasUpper : CblasLower;
  CBLAS_TRANSPOSE op = trans == 'T' || trans == 1   ? CblasTrans
                       : trans == 'C' || trans == 2 ? CblasConjTrans
                                                    : CblasNoTrans;
  CBLAS_DIAG diag = diag_c == 'U' ? CblasUnit : CblasNonUnit;
  static const double one_z[2] = {1, 0};
  static const float one_c[2] = {1, 0};
  int rows = (int)m, cols = (int)n, lda = (int)HS_MAX(c->cols, 1), ldb = (int)HS_MAX(n, 1);
  for (i64 b = c->from; b < c->to && s->elements; b++) {
    const void *pa = at(c, c->ops[0]->data, b, c->rows * c->cols);
    void *pb = at(c, c->r[0]->data, b, m * n);
    if (c->t == 's')
      cblas_strsm(CblasRowMajor, side, uplo, op, diag, rows, cols, 1, pa, lda, pb, ldb);
    else if (c->t == 'd')
      cblas_dtrsm(CblasRowMajor, side, uplo, op, diag, rows, cols, 1, pa, lda, pb, ldb);
    else if (c->t == 'c')
      cblas_ctrsm(CblasRowMajor, side, uplo, op, diag, rows, cols, one_c, pa, lda, pb, ldb);
    else cblas_ztrsm(CblasRowMajor, side, uplo, op, diag, rows, cols, one_z, pa, lda, pb, ldb);
  }
  return HS_GOOD;
}

static hs_status getrf(const call *c) {
  i64 k = HS_MIN(c->rows, c->cols);
  if (!carry(c, 0, 0) || !has(c, 1, k * c->batches) || c->r[1]->shape->dtype != HLO_S32 ||
      !has(c, 2, c->batches))
    return refuse(c, "with these shapes");
  int m = (int)c->rows, n = (int)c->cols;
  for (i64 b = c->from; b < c->to; b++)
    set_info(c, 2, b,
             ROUTINE(getrf_work, m, n, at(c, c->r[0]->data, b, c->rows * c->cols), HS_MAX(n, 1),
                     (int *)c->r[1]->data + b * k));
  return HS_GOOD;
}

static hs_status geqrf(const call *c) {
  i64 k = HS_MIN(c->rows, c->cols);
  if (!carry(c, 0, 0) || !has(c, 1, k * c->batches)) return refuse(c, "with these shapes");
  int m = (int)c->rows, n = (int)c->cols, ld = HS_MAX(n, 1), nwork;
  double complex need = 0;
  void *work;
  ROUTINE(geqrf_work, m, n, c->r[0]->data, ld, c->r[1]->data, (void *)&need, -1);
  HS_TRY(take_work(c, &need, &work, &nwork));
  for (i64 b = c->from; b < c->to; b++)
    set_info(c, 2, b,
             ROUTINE(geqrf_work, m, n, at(c, c->r[0]->data, b, c->rows * c->cols), ld,
                     at(c, c->r[1]->data, b, k), work, nwork));
  hs_free(work);
  return HS_GOOD;
}

// (matrix, columns that are fixed in front) -> (factors, permutation, tau).
static hs_status geqp3(const call *c) {
  i64 k = HS_MIN(c->rows, c->cols);
  if (c->nops < 2 || !carry(c, 0, 0) || !carry(c, 1, 1) || c->r[1]->shape->dtype != HLO_S32 ||
      !has(c, 1, c->cols * c->batches) || !has(c, 2, k * c->batches))
    return refuse(c, "with these shapes");
  int m = (int)c->rows, n = (int)c->cols;
  for (i64 b = c->from; b < c->to; b++) {
    int info = ROUTINE(geqp3, m, n, at(c, c->r[0]->data, b, c->rows * c->cols), HS_MAX(n, 1),
                       (int *)c->r[1]->data + b * c->cols, at(c, c->r[2]->data, b, k));
    set_info(c, 3, b, info);
  }
  return HS_GOOD;
}

static hs_status orgqr(const call *c) {
  i64 k = c->nops > 1 && c->batches ? c->ops[1]->shape->elements / c->batches : 0;
  if (c->nops != 2 || c->rows < c->cols || k > c->cols || !carry(c, 0, 0))
    return refuse(c, "with these shapes");
  int m = (int)c->rows, n = (int)c->cols, ld = HS_MAX(n, 1), nwork;
  double complex need = 0;
  void *work;
  ROUTINE2(orgqr_work, ungqr_work, m, n, (int)k, c->r[0]->data, ld, c->ops[1]->data, (void *)&need,
           -1);
  HS_TRY(take_work(c, &need, &work, &nwork));
  for (i64 b = c->from; b < c->to; b++)
    set_info(c, 1, b,
             ROUTINE2(orgqr_work, ungqr_work, m, n, (int)k,
                      at(c, c->r[0]->data, b, c->rows * c->cols), ld, at(c, c->ops[1]->data, b, k),
                      work, nwork));
  hs_free(work);
  return HS_GOOD;
}

// (factors, tau, c) -> op(q) c or c op(q).
static hs_status ormqr(const call *c) {
  bool left = option(c, "left", -1, 1) != 0, trans = option(c, "transpose", -1, 0) != 0;
  if (c->nops != 3 || c->ops[2]->shape->rank < 2 || !carry(c, 2, 0))
    return refuse(c, "with these shapes");
  const hlo_shape *s = c->ops[2]->shape;
  i64 m = s->dims[s->rank - 2], n = s->dims[s->rank - 1],
      k = c->batches ? c->ops[1]->shape->elements / c->batches : 0;
  if (m * n * c->batches != s->elements || c->rows != (left ? m : n) || k > c->cols)
    return refuse(c, "with these shapes");
  char side = left ? 'L' : 'R', op = !trans ? 'N' : real(c) ? 'T' : 'C';
  int rows = (int)m, cols = (int)n, lda = (int)HS_MAX(c->cols, 1), ldc = HS_MAX(cols, 1), nwork;
  double complex need = 0;
  void *work;
  ROUTINE2(ormqr_work, unmqr_work, side, op, rows, cols, (int)k, c->ops[0]->data, lda,
           c->ops[1]->data, c->r[0]->data, ldc, (void *)&need, -1);
  HS_TRY(take_work(c, &need, &work, &nwork));
  for (i64 b = c->from; b < c->to; b++)
    set_info(c, 1, b,
             ROUTINE2(ormqr_work, unmqr_work, side, op, rows, cols, (int)k,
                      at(c, c->ops[0]->data, b, c->rows * c->cols), lda,
                      at(c, c->ops[1]->data, b, k), at(c, c->r[0]->data, b, m * n), ldc, work,
                      nwork));
  hs_free(work);
  return HS_GOOD;
}

// Hermitian eigenproblem: (vectors, values, info).
static hs_status syevd(const call *c) {
  char uplo = letter_arg(c, "uplo", 0, 'L', 'L', 'U'),
       mode = c->old ? 'V' : (char)option(c, "mode", -1, 'V');
  if (c->rows != c->cols || !carry(c, 0, 0) || !has(c, 1, c->rows * c->batches))
    return refuse(c, "with these shapes");
  int n = (int)c->rows;
  size_t half = c->w / (real(c) ? 1 : 2);
  for (i64 b = c->from; b < c->to; b++) {
    void *v = (char *)c->r[1]->data + (size_t)(b * c->rows) * half;
    set_info(c, 2, b,
             ROUTINE2(syevd, heevd, mode, uplo, n, at(c, c->r[0]->data, b, c->rows * c->cols),
                      HS_MAX(n, 1), v));
  }
  return HS_GOOD;
}

// Singular values: (what is left of the matrix, values, u, v^T, info). By columns, as LAPACKE would
// do it too, in memory of its own: of wide complex matrices OpenBLAS's products (cgemv, called by
// cunglq) read beyond the last row, of which LAPACKE's copies have none to spare.
static hs_status gesdd(const call *c) {
  char mode = c->old ? (!c->scalar[0]  ? 'N'
                        : c->scalar[1] ? 'A'
                                       : 'S')
                     : (char)option(c, "mode", -1, 'A');
  i64 k = HS_MIN(c->rows, c->cols);
  if (!carry(c, 0, 0) || !has(c, 1, k * c->batches) || c->nr < 5)
    return refuse(c, "with these shapes");
  i64 ucols = mode == 'A'   ? c->rows
              : mode == 'S' ? k
                            : 0,
      vrows = mode == 'A'   ? c->cols
              : mode == 'S' ? k
                            : 0;
  if ((ucols && !has(c, 2, c->rows * ucols * c->batches)) ||
      (vrows && !has(c, 3, vrows * c->cols * c->batches)))
    return refuse(c, "with these shapes");
  size_t half = c->w / (real(c) ? 1 : 2);
  int m = (int)c->rows, n = (int)c->cols, lda = HS_MAX(m, 1), ldown = HS_MAX(n, 1),
      ldv = (int)HS_MAX(vrows, 1);
  i64 size = c->rows * c->cols, spare = 8 * (c->rows + c->cols);
  i64 usize = c->rows * ucols, vsize = vrows * c->cols;
  char *a = hs_try_alloc((size_t)(size + usize + vsize + spare) * c->w);
  if (!a) return hs_fail(HS_E_NO_MEMORY, "no memory for the copies of a matrix");
  char *u = a + (size_t)size * c->w, *v = u + (size_t)usize * c->w;
  memset(v + (size_t)vsize * c->w, 0, (size_t)spare * c->w);
  for (i64 b = c->from; b < c->to; b++) {
    char *own = at(c, c->r[0]->data, b, size);
    ROUTINE(ge_trans, m, n, (void *)own, ldown, (void *)a, lda);
    int info = ROUTINE_BY(LAPACK_COL_MAJOR, gesdd, mode, m, n, (void *)a, lda,
                          (void *)((char *)c->r[1]->data + (size_t)(b * k) * half), (void *)u, lda,
                          (void *)v, ldv);
    set_info(c, 4, b, info);
    if (info < 0) continue;  // a NaN: nothing was computed
    ROUTINE_BY(LAPACK_COL_MAJOR, ge_trans, m, n, (void *)a, lda, (void *)own, ldown);
    if (ucols)
      ROUTINE_BY(LAPACK_COL_MAJOR, ge_trans, m, (int)ucols, (void *)u, lda,
                 at(c, c->r[2]->data, b, usize), (int)ucols);
    if (vrows)
      ROUTINE_BY(LAPACK_COL_MAJOR, ge_trans, (int)vrows, n, (void *)v, ldv,
                 at(c, c->r[3]->data, b, vsize), ldown);
  }
  hs_free(a);
  return HS_GOOD;
}

// The real routines pack the complex vectors of a conjugate pair into two columns.
static void unpack_vectors(const call *c, const void *packed, const void *imag, void *out) {
  i64 n = c->rows;
  for (i64 col = 0; col < n; col++) {
    double im = c->t == 's' ? (double)((const float *)imag)[col] : ((const double *)imag)[col];
    for (i64 r = 0; r < n; r++) {
      i64 k = r * n + col;
#define UNPACK(T)                                                      \
  {                                                                    \
    const T *p = packed;                                               \
    T *o = out;                                                        \
    bool pair = im != 0 && col + 1 < n;                                \
    if (!pair) o[2 * k] = p[k], o[2 * k + 1] = 0;                      \
    else                                                               \
      o[2 * k] = p[k], o[2 * k + 1] = p[k + 1], o[2 * (k + 1)] = p[k], \
            o[2 * (k + 1) + 1] = -p[k + 1];                            \
  }
      if (c->t == 's') UNPACK(float) else UNPACK(double)
#undef UNPACK
    }
    if (im != 0) col++;
  }
}

// Eigenproblem: real (re, im, left, right, info), complex (values, left, right, info); vectors are
// complex in both.
static hs_status geev(const call *c) {
  i64 n = c->rows, nn = n * n;
  u32 first = real(c) ? 2 : 1;
  char left = c->old ? (c->scalar[c->nscalars > 3 ? c->nscalars - 2 : 0] ? 'V' : 'N')
                     : (char)option(c, "compute_left", -1, 'N');
  char right = c->old ? (c->scalar[c->nscalars > 3 ? c->nscalars - 1 : 0] ? 'V' : 'N')
                      : (char)option(c, "compute_right", -1, 'N');
  if (c->old) return refuse(c, "in its old form");
  for (u32 k = 0; k < first; k++)
    if (!has(c, k, n * c->batches)) return refuse(c, "with these shapes");
  for (u32 k = 0; k < 2; k++)
    if ((k ? right : left) == 'V' && (!has(c, first + k, nn * c->batches) ||
                                      !hlo_dtype_is_complex(c->r[first + k]->shape->dtype)))
      return refuse(c, "with these shapes");
  size_t z = real(c) ? 2 * c->w : c->w;
  char *a = hs_try_alloc((size_t)HS_MAX(nn, 1) * c->w),
       *vl = hs_try_alloc((size_t)HS_MAX(nn, 1) * z), *vr = hs_try_alloc((size_t)HS_MAX(nn, 1) * z);
  hs_status st = a && vl && vr ? HS_GOOD : hs_fail(HS_E_NO_MEMORY, "no memory for an eigenproblem");
  int ni = (int)n, ld = HS_MAX(ni, 1);
  for (i64 b = c->from; b < c->to && hs_ok(st); b++) {
    memcpy(a, at(c, c->ops[0]->data, b, nn), (size_t)nn * c->w);
    void *w0 = at(c, c->r[0]->data, b, n), *w1 = first == 2 ? at(c, c->r[1]->data, b, n) : NULL;
    int info = c->t == 's' ? LAPACKE_sgeev(LAPACK_ROW_MAJOR, left, right, ni, (void *)a, ld, w0, w1,
                                           (void *)vl, ld, (void *)vr, ld)
               : c->t == 'd' ? LAPACKE_dgeev(LAPACK_ROW_MAJOR, left, right, ni, (void *)a, ld, w0,
                                             w1, (void *)vl, ld, (void *)vr, ld)
               : c->t == 'c' ? LAPACKE_cgeev(LAPACK_ROW_MAJOR, left, right, ni, (void *)a, ld, w0,
                                             (void *)vl, ld, (void *)vr, ld)
                             : LAPACKE_zgeev(LAPACK_ROW_MAJOR, left, right, ni, (void *)a, ld, w0,
                                             (void *)vl, ld, (void *)vr, ld);
    for (u32 k = 0; k < 2; k++) {
      if ((k ? right : left) != 'V') continue;
      char *to = (char *)c->r[first + k]->data + (size_t)(b * nn) * z;
      if (real(c)) unpack_vectors(c, k ? vr : vl, w1, to);
      else memcpy(to, k ? vr : vl, (size_t)nn * z);
    }
    set_info(c, first + 2, b, info);
  }
  hs_free(a);
  hs_free(vl);
  hs_free(vr);
  return st;
}

// Schur form: (T, vectors, values: re and im or complex, how many were selected, info). Nothing is
// sorted.
static hs_status gees(const call *c) {
  i64 n = c->rows, nn = n * n;
  char mode = (char)option(c, "mode", -1, 'V');
  u32 values = real(c) ? 2 : 1, selected = 2 + values;
  if (c->old || (char)option(c, "sort", -1, 'N') != 'N' || c->rows != c->cols || !carry(c, 0, 0) ||
      (mode == 'V' && !has(c, 1, nn * c->batches)) || !has(c, 2, n * c->batches) ||
      !has(c, selected - 1, n * c->batches))
    return refuse(c, "with these shapes");
  int ni = (int)n, ld = HS_MAX(ni, 1), sdim = 0;
  for (i64 b = c->from; b < c->to; b++) {
    void *a = at(c, c->r[0]->data, b, nn), *v = mode == 'V' ? at(c, c->r[1]->data, b, nn) : a,
         *w0 = at(c, c->r[2]->data, b, n), *w1 = real(c) ? at(c, c->r[3]->data, b, n) : NULL;
    int info =
        c->t == 's'
            ? LAPACKE_sgees(LAPACK_ROW_MAJOR, mode, 'N', NULL, ni, a, ld, &sdim, w0, w1, v, ld)
        : c->t == 'd'
            ? LAPACKE_dgees(LAPACK_ROW_MAJOR, mode, 'N', NULL, ni, a, ld, &sdim, w0, w1, v, ld)
        : c->t == 'c'
            ? LAPACKE_cgees(LAPACK_ROW_MAJOR, mode, 'N', NULL, ni, a, ld, &sdim, w0, v, ld)
            : LAPACKE_zgees(LAPACK_ROW_MAJOR, mode, 'N', NULL, ni, a, ld, &sdim, w0, v, ld);
    set_info(c, selected, b, sdim);
    set_info(c, selected + 1, b, info);
  }
  return HS_GOOD;
}

static hs_status gehrd(const call *c) {
  i64 n = c->rows, k = HS_MAX(n - 1, 0);
  if (c->old || c->rows != c->cols || !carry(c, 0, 0) || !has(c, 1, k * c->batches))
    return refuse(c, "with these shapes");
  int ni = (int)n, low = (int)option(c, "low", -1, 1), high = (int)option(c, "high", -1, n);
  for (i64 b = c->from; b < c->to; b++)
    set_info(c, 2, b,
             ROUTINE(gehrd, ni, low, high, at(c, c->r[0]->data, b, n * n), HS_MAX(ni, 1),
                     at(c, c->r[1]->data, b, k)));
  return HS_GOOD;
}

// Tridiagonal form: (factors, diagonal, off-diagonal, tau, info).
static hs_status sytrd(const call *c) {
  i64 n = c->rows, k = HS_MAX(n - 1, 0);
  if (c->old || c->rows != c->cols || !carry(c, 0, 0) || !has(c, 1, n * c->batches) ||
      !has(c, 2, k * c->batches) || !has(c, 3, k * c->batches))
    return refuse(c, "with these shapes");
  char uplo = (char)option(c, "uplo", -1, 'L');
  size_t half = c->w / (real(c) ? 1 : 2);
  int ni = (int)n;
  for (i64 b = c->from; b < c->to; b++) {
    void *d = (char *)c->r[1]->data + (size_t)(b * n) * half,
         *off = (char *)c->r[2]->data + (size_t)(b * k) * half;
    set_info(c, 4, b,
             ROUTINE2(sytrd, hetrd, uplo, ni, at(c, c->r[0]->data, b, n * n), HS_MAX(ni, 1), d, off,
                      at(c, c->r[3]->data, b, k)));
  }
  return HS_GOOD;
}

// Tridiagonal systems: (below, diagonal, above, right sides), all as long as the diagonal: JAX pads
// the outer two. LAPACK's below starts at the second row.
static hs_status gtsv(const call *c) {
  if (c->nops != 4 || c->ops[3]->shape->rank < 2 || !carry(c, 0, 0) || !carry(c, 1, 1) ||
      !carry(c, 2, 2) || !carry(c, 3, 3))
    return refuse(c, "with these shapes");
  const hlo_shape *s = c->ops[3]->shape;
  i64 n = s->dims[s->rank - 2], rhs = s->dims[s->rank - 1],
      batches = n && rhs ? s->elements / (n * rhs) : 0;
  for (u32 k = 0; k < 3; k++)
    if (c->ops[k]->shape->elements != n * batches) return refuse(c, "with these shapes");
  for (i64 b = 0; b < batches; b++)
    set_info(c, 4, b,
             ROUTINE(gtsv, (int)n, (int)rhs,
                     n > 1 ? at(c, c->r[0]->data, b * n + 1, 1) : at(c, c->r[0]->data, b * n, 1),
                     at(c, c->r[1]->data, b, n), at(c, c->r[2]->data, b, n),
                     at(c, c->r[3]->data, b, n * rhs), (int)HS_MAX(rhs, 1)));
  return HS_GOOD;
}

// ---- calls --------------------------------------------------------------------------------------

typedef hs_status (*lapack_fn)(const call *);
static const struct routine {
  const char *name;
  lapack_fn fn;
} routines[] = {
    {"potrf", potrf}, {"trsm", trsm},   {"getrf", getrf}, {"geqrf", geqrf}, {"geqp3", geqp3},
    {"orgqr", orgqr}, {"ungqr", orgqr}, {"ormqr", ormqr}, {"unmqr", ormqr}, {"syevd", syevd},
    {"heevd", syevd}, {"gesdd", gesdd}, {"geev", geev},   {"gees", gees},   {"gehrd", gehrd},
    {"sytrd", sytrd}, {"hetrd", sytrd}, {"gtsv", gtsv},
};

// lapack_<type><routine>_ffi, lapack_<type><routine>, blas_<type><routine>.
static const struct routine *find(hs_str target, char *type, bool *old) {
  size_t from = target.n > 5 && memcmp(target.p, "blas_", 5) == 0 ? 5 : 7;
  if (target.n <= from + 1) return NULL;
  hs_str rest = {target.p + from + 1, target.n - from - 1};
  *type = target.p[from];
  *old = !(rest.n > 4 && memcmp(rest.p + rest.n - 4, "_ffi", 4) == 0);
  if (!*old) rest.n -= 4;
  for (u32 k = 0; k < HS_COUNT(routines); k++)
    if (hs_str_eq(rest, hs_str_of(routines[k].name))) return &routines[k];
  return NULL;
}

// Some batches by each thread.
typedef struct shared {
  const call *c;
  const struct routine *f;
  i64 chunks;
  hs_status *said;  // of each chunk
} shared;

static void one_chunk(void *ctx, i64 k, u32 thread) {
  (void)thread;
  const shared *x = ctx;
  call mine = *x->c;
  mine.from = x->c->batches * k / x->chunks;
  mine.to = x->c->batches * (k + 1) / x->chunks;
  x->said[k] = x->f->fn(&mine);
}

static hs_status run(const call *c, const struct routine *f) {
  enum { MOST_CHUNKS = 64, LEAST_SHARED = 1 << 12 };  // elements
  i64 elements = c->ops[0]->shape->elements;
  bool whole = f->fn == gtsv;  // its first operand is no matrix: it counts batches itself
  if (!c->e->opt.share || whole || c->batches < 2 || elements < LEAST_SHARED) return f->fn(c);
  hs_status said[MOST_CHUNKS], s = HS_GOOD;
  shared x = {c, f, HS_MIN(c->batches, (i64)MOST_CHUNKS), said};
  c->e->opt.share(one_chunk, &x, x.chunks);
  for (i64 k = 0; k < x.chunks; k++)
    if (hs_ok(s)) s = said[k];
    else hs_status_drop(said[k]);
  return s;
}

bool lapack_covers(hs_str target) {
  char t;
  bool old;
  return find(target, &t, &old) != NULL;
}

hs_status ev_custom_lapack(ev *e, const hlo_instr *i, hlo_literal **ops, hlo_literal **out) {
  call c = {.e = e, .i = i};
  const struct routine *f = find(hlo_attr_str(i, HLO_ATTR_CUSTOM_CALL_TARGET), &c.t, &c.old);
  static const hlo_dtype types[] = {HLO_F32, HLO_F64, HLO_C64, HLO_C128};
  static const char letters[] = "sdcz";
  u32 skip = 0;
  for (; c.old && skip < i->noperands && hlo_shape_is_scalar(ops[skip]->shape); skip++)
    if (c.nscalars < MAX_SCALARS)
      c.scalar[c.nscalars++] =
          hlo_dtype_is_integer(ops[skip]->shape->dtype) ? hlo_literal_i64(ops[skip], 0) : 0;
  c.ops = ops + skip;
  c.nops = i->noperands - skip;
  if (!f || c.nops < 1) return refuse(&c, "with these operands");
  const hlo_shape *s = c.ops[0]->shape;
  if (!hlo_shape_is_array(s) || s->dtype != types[strchr(letters, c.t) - letters])
    return refuse(&c, "with these operands");
  c.w = hlo_dtype_storage(s->dtype);
  c.rows = s->rank >= 2 ? s->dims[s->rank - 2] : 1;
  c.cols = s->rank >= 1 ? s->dims[s->rank - 1] : 1;
  c.batches = s->rank >= 2 ? ev_product(s->rank - 2, s->dims) : 1;
  hlo_literal *all;
  HS_TRY(hlo_literal_new(i->shape, &all));
  c.nr = hlo_shape_is_tuple(i->shape) ? all->nchildren : 1;
  c.nr = HS_MIN(c.nr, (u32)MAX_RESULTS);
  for (u32 k = 0; k < c.nr; k++) c.r[k] = hlo_shape_is_tuple(i->shape) ? all->children[k] : all;
  c.to = c.batches;
  hs_status st = run(&c, f);
  if (hs_ok(st)) *out = all;
  else hlo_literal_unref(all);
  return st;
}

#else
bool lapack_covers(hs_str target) {
  (void)target;
  return false;
}
hs_status ev_custom_lapack(ev *e, const hlo_instr *i, hlo_literal **ops, hlo_literal **out) {
  (void)e;
  (void)ops;
  (void)out;
  return ev_unsupported(i, "in a build without LAPACKE");
}
#endif
