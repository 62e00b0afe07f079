// lapack.c — JAX's LAPACK custom calls through LAPACKE, the only file that includes it.
//
// Literals are row-major whatever the layout, which is what LAPACKE's row-major calls take. Attributes stand in the
// backend_config as an MLIR dictionary ({uplo = 76 : ui8}); matrices are the last two dimensions, the others are batches.
#include "core/lapack.h"

#if HAVE_LAPACKE
#include <complex.h>
#include <lapacke.h>
#include <cblas.h>
#include <stdlib.h>

// The integer of `key = 76 : ui8`; absent: `otherwise`.
static i64 config_int(const hlo_instr *i, const char *key, i64 otherwise) {
  const hlo_backend_config *c = hlo_attr_ptr(i, HLO_ATTR_BACKEND_CONFIG);
  size_t n = strlen(key);
  for (size_t k = 0; c && k + n < c->text.n; k++) {
    if (memcmp(c->text.p + k, key, n) != 0 || (k && (c->text.p[k - 1] == '_' || (c->text.p[k - 1] >= 'a' && c->text.p[k - 1] <= 'z')))) continue;
    size_t j = k + n;
    while (j < c->text.n && (c->text.p[j] == ' ' || c->text.p[j] == '=' || c->text.p[j] == '"' || c->text.p[j] == ':')) j++;
    char digits[24] = {0};
    for (size_t d = 0; d < 23 && j < c->text.n && (c->text.p[j] == '-' || (c->text.p[j] >= '0' && c->text.p[j] <= '9')); d++) digits[d] = c->text.p[j++];
    if (digits[0]) return strtoll(digits, NULL, 10);
  }
  return otherwise;
}

// The result tuple (or array), not filled in.
static hs_status results(ev *e, const hlo_instr *i, u32 want, hlo_literal **r, hlo_literal **out) {
  HS_TRY(ev_new(e, i->shape, out));
  u32 n = hlo_shape_is_tuple(i->shape) ? (*out)->nchildren : 1;
  if (n < want) return ev_unsupported(i, "with so few results");
  for (u32 k = 0; k < n && k < 8; k++) r[k] = hlo_shape_is_tuple(i->shape) ? (*out)->children[k] : *out;
  return HS_GOOD;
}

typedef struct matrix { i64 rows, cols, batches; } matrix;
static matrix matrix_of(const hlo_shape *s) {
  matrix m = {1, 1, 1};
  if (s->rank >= 2) m.rows = s->dims[s->rank - 2], m.cols = s->dims[s->rank - 1], m.batches = ev_product(s->rank - 2, s->dims);
  return m;
}

static hs_status potrf(ev *e, const hlo_instr *i, char t, hlo_literal **ops, hlo_literal **out) {
  hlo_literal *r[8] = {0};
  HS_TRY(results(e, i, 2, r, out));
  matrix m = matrix_of(ops[0]->shape);
  char uplo = (char)config_int(i, "uplo", 'L');
  size_t step = (size_t)(m.rows * m.cols) * hlo_dtype_storage(ops[0]->shape->dtype);
  if (m.rows != m.cols || r[0]->bytes != ops[0]->bytes || r[1]->shape->elements != m.batches) return ev_unsupported(i, "with these shapes");
  memcpy(r[0]->data, ops[0]->data, ops[0]->bytes);
  int n = (int)m.rows;
  for (i64 b = 0; b < m.batches; b++) {
    void *a = (char *)r[0]->data + (size_t)b * step;
    int info = t == 's' ? LAPACKE_spotrf(LAPACK_ROW_MAJOR, uplo, n, a, n) : t == 'd' ? LAPACKE_dpotrf(LAPACK_ROW_MAJOR, uplo, n, a, n)
             : t == 'c' ? LAPACKE_cpotrf(LAPACK_ROW_MAJOR, uplo, n, a, n) : LAPACKE_zpotrf(LAPACK_ROW_MAJOR, uplo, n, a, n);
    hlo_literal_set_i64(r[1], b, info);
  }
  return HS_GOOD;
}

static hs_status trsm(ev *e, const hlo_instr *i, char t, hlo_literal **ops, hlo_literal **out) {
  hlo_literal *r[8] = {0};
  HS_TRY(results(e, i, 1, r, out));
  matrix a = matrix_of(ops[0]->shape), b = matrix_of(ops[1]->shape);
  size_t w = hlo_dtype_storage(ops[0]->shape->dtype);
  if (a.rows != a.cols || r[0]->bytes != ops[1]->bytes || a.batches != b.batches) return ev_unsupported(i, "with these shapes");
  char side_c = (char)config_int(i, "side", 'L'), uplo_c = (char)config_int(i, "uplo", 'L'), trans_c = (char)config_int(i, "trans_x", config_int(i, "trans", 'N')),
       diag_c = (char)config_int(i, "diag", 'N');
  CBLAS_SIDE side = side_c == 'R' ? CblasRight : CblasLeft;
  CBLAS_UPLO uplo = uplo_c == 'U' ? CblasUpper : CblasLower;
  CBLAS_TRANSPOSE trans = trans_c == 'T' ? CblasTrans : trans_c == 'C' ? CblasConjTrans : CblasNoTrans;
  CBLAS_DIAG diag = diag_c == 'U' ? CblasUnit : CblasNonUnit;
  memcpy(r[0]->data, ops[1]->data, ops[1]->bytes);
  int m = (int)b.rows, n = (int)b.cols, lda = (int)a.cols;
  for (i64 k = 0; k < b.batches; k++) {
    const void *pa = (const char *)ops[0]->data + (size_t)(k * a.rows * a.cols) * w;
    void *pb = (char *)r[0]->data + (size_t)(k * b.rows * b.cols) * w;
    static const double one_z[2] = {1, 0};
    static const float one_c[2] = {1, 0};
    if (t == 's') cblas_strsm(CblasRowMajor, side, uplo, trans, diag, m, n, 1, pa, lda, pb, n);
    else if (t == 'd') cblas_dtrsm(CblasRowMajor, side, uplo, trans, diag, m, n, 1, pa, lda, pb, n);
    else if (t == 'c') cblas_ctrsm(CblasRowMajor, side, uplo, trans, diag, m, n, one_c, pa, lda, pb, n);
    else cblas_ztrsm(CblasRowMajor, side, uplo, trans, diag, m, n, one_z, pa, lda, pb, n);
  }
  return HS_GOOD;
}

static hs_status getrf(ev *e, const hlo_instr *i, char t, hlo_literal **ops, hlo_literal **out) {
  hlo_literal *r[8] = {0};
  HS_TRY(results(e, i, 3, r, out));
  matrix m = matrix_of(ops[0]->shape);
  i64 k = HS_MIN(m.rows, m.cols);
  size_t step = (size_t)(m.rows * m.cols) * hlo_dtype_storage(ops[0]->shape->dtype);
  if (r[0]->bytes != ops[0]->bytes || r[1]->shape->elements != k * m.batches || r[2]->shape->elements != m.batches) return ev_unsupported(i, "with these shapes");
  memcpy(r[0]->data, ops[0]->data, ops[0]->bytes);
  int rows = (int)m.rows, cols = (int)m.cols;
  for (i64 b = 0; b < m.batches; b++) {
    void *a = (char *)r[0]->data + (size_t)b * step;
    int *piv = (int *)r[1]->data + b * k;
    int info = t == 's' ? LAPACKE_sgetrf(LAPACK_ROW_MAJOR, rows, cols, a, cols, piv) : t == 'd' ? LAPACKE_dgetrf(LAPACK_ROW_MAJOR, rows, cols, a, cols, piv)
             : t == 'c' ? LAPACKE_cgetrf(LAPACK_ROW_MAJOR, rows, cols, a, cols, piv) : LAPACKE_zgetrf(LAPACK_ROW_MAJOR, rows, cols, a, cols, piv);
    hlo_literal_set_i64(r[2], b, info);
  }
  return HS_GOOD;
}

static hs_status geqrf(ev *e, const hlo_instr *i, char t, hlo_literal **ops, hlo_literal **out) {
  hlo_literal *r[8] = {0};
  HS_TRY(results(e, i, 2, r, out));
  matrix m = matrix_of(ops[0]->shape);
  i64 k = HS_MIN(m.rows, m.cols);
  size_t w = hlo_dtype_storage(ops[0]->shape->dtype), step = (size_t)(m.rows * m.cols) * w;
  if (r[0]->bytes != ops[0]->bytes || r[1]->shape->elements != k * m.batches) return ev_unsupported(i, "with these shapes");
  memcpy(r[0]->data, ops[0]->data, ops[0]->bytes);
  int rows = (int)m.rows, cols = (int)m.cols;
  for (i64 b = 0; b < m.batches; b++) {
    void *a = (char *)r[0]->data + (size_t)b * step, *tau = (char *)r[1]->data + (size_t)(b * k) * w;
    int info = t == 's' ? LAPACKE_sgeqrf(LAPACK_ROW_MAJOR, rows, cols, a, cols, tau) : t == 'd' ? LAPACKE_dgeqrf(LAPACK_ROW_MAJOR, rows, cols, a, cols, tau)
             : t == 'c' ? LAPACKE_cgeqrf(LAPACK_ROW_MAJOR, rows, cols, a, cols, tau) : LAPACKE_zgeqrf(LAPACK_ROW_MAJOR, rows, cols, a, cols, tau);
    if (info < 0) return hs_fail(HS_E_RUN, "%s: geqrf failed with %d", i->name, info);
    if (r[2]) hlo_literal_set_i64(r[2], HS_MIN(b, r[2]->shape->elements - 1), info);
  }
  return HS_GOOD;
}

static hs_status orgqr(ev *e, const hlo_instr *i, char t, hlo_literal **ops, hlo_literal **out) {
  hlo_literal *r[8] = {0};
  HS_TRY(results(e, i, 1, r, out));
  matrix m = matrix_of(ops[0]->shape);
  size_t w = hlo_dtype_storage(ops[0]->shape->dtype), step = (size_t)(m.rows * m.cols) * w;
  if (i->noperands != 2 || r[0]->bytes != ops[0]->bytes || m.rows < m.cols || m.batches < 1) return ev_unsupported(i, "with these shapes");
  i64 k = ops[1]->shape->elements / m.batches;
  memcpy(r[0]->data, ops[0]->data, ops[0]->bytes);
  int rows = (int)m.rows, cols = (int)m.cols, kk = (int)k;
  for (i64 b = 0; b < m.batches; b++) {
    void *a = (char *)r[0]->data + (size_t)b * step;
    const void *tau = (const char *)ops[1]->data + (size_t)(b * k) * w;
    int info = t == 's' ? LAPACKE_sorgqr(LAPACK_ROW_MAJOR, rows, cols, kk, a, cols, tau) : t == 'd' ? LAPACKE_dorgqr(LAPACK_ROW_MAJOR, rows, cols, kk, a, cols, tau)
             : t == 'c' ? LAPACKE_cungqr(LAPACK_ROW_MAJOR, rows, cols, kk, a, cols, tau) : LAPACKE_zungqr(LAPACK_ROW_MAJOR, rows, cols, kk, a, cols, tau);
    if (info < 0) return hs_fail(HS_E_RUN, "%s: orgqr failed with %d", i->name, info);
    if (r[1]) hlo_literal_set_i64(r[1], HS_MIN(b, r[1]->shape->elements - 1), info);
  }
  return HS_GOOD;
}

// Symmetric eigenproblem: (vectors, values, info).
static hs_status syevd(ev *e, const hlo_instr *i, char t, hlo_literal **ops, hlo_literal **out) {
  hlo_literal *r[8] = {0};
  HS_TRY(results(e, i, 3, r, out));
  matrix m = matrix_of(ops[0]->shape);
  char uplo = (char)config_int(i, "uplo", 'L'), mode = (char)config_int(i, "mode", 'V');
  size_t w = hlo_dtype_storage(ops[0]->shape->dtype), ww = hlo_dtype_storage(r[1]->shape->dtype), step = (size_t)(m.rows * m.cols) * w;
  if (m.rows != m.cols || r[0]->bytes != ops[0]->bytes || r[1]->shape->elements != m.rows * m.batches) return ev_unsupported(i, "with these shapes");
  memcpy(r[0]->data, ops[0]->data, ops[0]->bytes);
  int n = (int)m.rows;
  for (i64 b = 0; b < m.batches; b++) {
    void *a = (char *)r[0]->data + (size_t)b * step, *v = (char *)r[1]->data + (size_t)(b * m.rows) * ww;
    int info = t == 's' ? LAPACKE_ssyevd(LAPACK_ROW_MAJOR, mode, uplo, n, a, n, v) : t == 'd' ? LAPACKE_dsyevd(LAPACK_ROW_MAJOR, mode, uplo, n, a, n, v)
             : t == 'c' ? LAPACKE_cheevd(LAPACK_ROW_MAJOR, mode, uplo, n, a, n, v) : LAPACKE_zheevd(LAPACK_ROW_MAJOR, mode, uplo, n, a, n, v);
    hlo_literal_set_i64(r[2], HS_MIN(b, r[2]->shape->elements - 1), info);
  }
  return HS_GOOD;
}

typedef hs_status (*lapack_fn)(ev *, const hlo_instr *, char, hlo_literal **, hlo_literal **);
static const struct routine { const char *name; lapack_fn fn; } routines[] = {
    {"potrf", potrf}, {"trsm", trsm}, {"getrf", getrf}, {"geqrf", geqrf}, {"orgqr", orgqr}, {"ungqr", orgqr}, {"syevd", syevd}, {"heevd", syevd},
};

static const struct routine *find(hs_str target) {         // lapack_<type><routine>_ffi
  for (u32 k = 0; k < HS_COUNT(routines); k++) {
    size_t n = strlen(routines[k].name);
    if (target.n == 8 + n + 4 && memcmp(target.p + 8, routines[k].name, n) == 0 && memcmp(target.p + 8 + n, "_ffi", 4) == 0 && strchr("sdcz", target.p[7]))
      return &routines[k];
  }
  return NULL;
}

bool lapack_covers(hs_str target) { return find(target) != NULL; }

hs_status lapack_call(ev *e, const hlo_instr *i, hlo_literal **ops, hlo_literal **out) {
  hs_str target = hlo_attr_str(i, HLO_ATTR_CUSTOM_CALL_TARGET);
  const struct routine *f = find(target);
  static const hlo_dtype types[] = {HLO_F32, HLO_F64, HLO_C64, HLO_C128};
  const char *all = "sdcz";
  if (!f || i->noperands < 1 || !hlo_shape_is_array(ops[0]->shape) || ops[0]->shape->dtype != types[strchr(all, target.p[7]) - all])
    return ev_unsupported(i, "with these operands");
  return f->fn(e, i, target.p[7], ops, out);
}

#else
bool lapack_covers(hs_str target) { (void)target; return false; }
hs_status lapack_call(ev *e, const hlo_instr *i, hlo_literal **ops, hlo_literal **out) {
  (void)e; (void)ops; (void)out;
  return ev_unsupported(i, "in a build without LAPACKE");
}
#endif
