// linalg.c — cholesky, triangular-solve, and the custom calls of JAX (LAPACK, TopK) with the
// same meaning, LU and QR: batches of what triangular.c does for one matrix. A matrix that is not
// positive definite gives NaN, as in XLA. A factor that lies by columns where its matrix lies by
// rows, or the other way round, as LAPACK's calls of JAX have it, is turned as it is copied to its
// place.
#include <math.h>

#include "backends/cpu/rt/triangular.h"
#include "core/ir/config.h"
#include "core/analysis/customcall.h"

typedef cpu_linalg linalg;

typedef struct job job;
struct job {
  const linalg *p;
  void *const *bufs;
  hs_status (*one)(const job *, i64 matrix);
  bool failed;
};

// Of complex numbers the real part is NaN, as XLA's constant is.
static void fill_nan(void *p, hlo_dtype t, i64 n) {
  const bool wide = t == HLO_F64 || t == HLO_C128, complex = hlo_dtype_is_complex(t);
  for (i64 k = 0; k < (complex ? 2 * n : n); k++) {
    bool imaginary = complex && k % 2;
    if (wide) ((double *)p)[k] = imaginary ? 0 : (double)NAN;
    else ((float *)p)[k] = imaginary ? 0 : NAN;
  }
}

// The matrix that begins at p, n columns wide; what is right or upper is seen transposed.
static tri_matrix view(char *p, i64 n, bool turned) {
  tri_matrix a = {p, n, 1};
  return turned ? tri_transposed(a) : a;
}

// The matrix at `from`, `lines` of n elements, to where it is worked on; `turned`: to the other
// order.
static void take_matrix(char *to, const char *from, i64 lines, i64 n, size_t e, bool turned) {
  const i64 as_it_lies[] = {n, 1}, other[] = {1, lines}, dims[] = {lines, n};
  if (turned) cpu_relayout(to, other, from, as_it_lies, 2, dims, e);
  else if (lines && n && to != from) memcpy(to, from, (size_t)(lines * n) * e);
}

static hs_status factor(const job *j, i64 b) {
  const linalg *p = j->p;
  size_t e = hlo_dtype_storage(p->type), bytes = (size_t)(p->n * p->n) * e;
  char *a = (char *)j->bufs[1] + (size_t)b * bytes;
  bool lower = p->lower != p->a_columns;  // in memory
  take_matrix(a, (char *)j->bufs[0] + (size_t)b * bytes, p->n, p->n, e, p->turns);
  i64 bad;
  HS_TRY(cpu_cholesky(p->type, view(a, p->n, !lower), p->n, &bad));
  if (!p->keep_other) {
    if (bad) fill_nan(a, p->type, p->n * p->n);
    for (i64 r = 0; r < p->n && !bad; r++) {
      i64 from = lower ? r + 1 : 0, to = lower ? p->n : r;
      memset(a + (size_t)(r * p->n + from) * e, 0, (size_t)(to - from) * e);
    }
  }
  if (p->info) ((i32 *)j->bufs[2])[b] = (i32)bad;
  return HS_GOOD;
}

// A matrix of m by n.
static void take_general(const linalg *p, char *to, const char *from) {
  bool from_columns = p->a_columns != p->turns;
  take_matrix(to, from, from_columns ? p->n : p->m, from_columns ? p->m : p->n,
              hlo_dtype_storage(p->type), p->turns);
}

static hs_status factor_lu(const job *j, i64 b) {
  const linalg *p = j->p;
  size_t e = hlo_dtype_storage(p->type), bytes = (size_t)(p->m * p->n) * e;
  char *a = (char *)j->bufs[1] + (size_t)b * bytes;
  take_general(p, a, (char *)j->bufs[0] + (size_t)b * bytes);
  tri_matrix lies = view(a, p->a_columns ? p->m : p->n, p->a_columns);
  i32 *pivots = (i32 *)j->bufs[2] + b * HS_MIN(p->m, p->n);
  i64 bad;
  HS_TRY(cpu_lu(p->type, lies, p->m, p->n, pivots, &bad));
  ((i32 *)j->bufs[3])[b] = (i32)bad;
  return HS_GOOD;
}

static hs_status factor_qr(const job *j, i64 b) {
  const linalg *p = j->p;
  size_t e = hlo_dtype_storage(p->type), bytes = (size_t)(p->m * p->n) * e;
  char *a = (char *)j->bufs[1] + (size_t)b * bytes;
  take_general(p, a, (char *)j->bufs[0] + (size_t)b * bytes);
  return cpu_qr(p->type, view(a, p->a_columns ? p->m : p->n, p->a_columns), p->m, p->n,
                (char *)j->bufs[2] + (size_t)(b * p->k) * e);
}

static hs_status multiply_reflectors(const job *j, i64 b) {
  const linalg *p = j->p;
  size_t e = hlo_dtype_storage(p->type), bytes = (size_t)(p->m * p->n) * e;
  char *q = (char *)j->bufs[2] + (size_t)b * bytes;
  take_general(p, q, (char *)j->bufs[0] + (size_t)b * bytes);
  return cpu_qr_product(p->type, view(q, p->a_columns ? p->m : p->n, p->a_columns), p->m, p->n,
                        p->k, (char *)j->bufs[1] + (size_t)(b * p->k) * e);
}

// op(A) X = B, or X op(A) = B: then op(A)^T X^T = B^T.
static hs_status solve(const job *j, i64 b) {
  const linalg *p = j->p;
  size_t e = hlo_dtype_storage(p->type), bytes = (size_t)(p->m * p->k) * e;
  char *a = (char *)j->bufs[0] + (size_t)(b * p->n * p->n) * e;
  char *x = (char *)j->bufs[2] + (size_t)b * bytes;
  if (bytes && j->bufs[1] != j->bufs[2]) memcpy(x, (char *)j->bufs[1] + (size_t)b * bytes, bytes);
  bool turned = p->trans == p->left;
  tri t = {.m = view(a, p->n, turned != p->a_columns),
           .lower = p->lower != turned,
           .unit = p->unit,
           .conj = p->conj};
  tri_matrix m = p->x_columns ? view(x, p->m, p->left) : view(x, p->k, !p->left);
  return cpu_triangular_solve(p->type, t, p->n, m, p->left ? p->k : p->m);
}

static void one_chunk(void *ctx, i64 b, u32 thread) {
  (void)thread;
  job *j = ctx;
  hs_status s = j->one(j, b);
  if (hs_ok(s)) return;
  hs_status_drop(s);  // it can only be for lack of memory
  __atomic_store_n(&j->failed, true, __ATOMIC_RELAXED);
}

// Many matrices are shared among the threads, or the threads share each of a few.
static hs_status run(job *j) {
  enum { MANY = 8 };
  const linalg *p = j->p;
  if (p->batch < MANY) {
    for (i64 b = 0; b < p->batch; b++) HS_TRY(j->one(j, b));
    return HS_GOOD;
  }
  cpu_par_for(one_chunk, j, p->batch);
  return j->failed ? hs_fail(HS_E_NO_MEMORY, "no memory for parts of matrices of %lld rows",
                             (long long)p->n)
                   : HS_GOOD;
}

static hs_status run_cholesky(void *state, void *const *bufs, void *scratch) {
  (void)scratch;
  return run(&(job){.p = state, .bufs = bufs, .one = factor});
}

static hs_status run_solve(void *state, void *const *bufs, void *scratch) {
  (void)scratch;
  return run(&(job){.p = state, .bufs = bufs, .one = solve});
}

static hs_status run_lu(void *state, void *const *bufs, void *scratch) {
  (void)scratch;
  return run(&(job){.p = state, .bufs = bufs, .one = factor_lu});
}

static hs_status run_qr(void *state, void *const *bufs, void *scratch) {
  (void)scratch;
  return run(&(job){.p = state, .bufs = bufs, .one = factor_qr});
}

static hs_status run_product(void *state, void *const *bufs, void *scratch) {
  (void)scratch;
  return run(&(job){.p = state, .bufs = bufs, .one = multiply_reflectors});
}

static bool matrix_type(hlo_dtype t) {
  return t == HLO_F32 || t == HLO_F64 || t == HLO_C64 || t == HLO_C128;
}

static i64 batch_of(const hlo_shape *s) {
  i64 b = 1;
  for (u32 k = 0; k + 2 < s->rank; k++) b = hs_mul_sat_i64(b, s->dims[k]);
  return b;
}
// The matrices to go over: of those of nothing there may be more than anyone can count.
static i64 matrices_of(const hlo_shape *s) { return s->elements ? batch_of(s) : 0; }

bool cpu_by_columns(const hlo_shape *s) {
  i64 strides[HLO_MAX_RANK];
  cpu_strides(s, strides);
  const u32 r = s->rank;
  if (strides[r - 2] != 1 || strides[r - 1] != s->dims[r - 2]) return false;
  i64 next = s->dims[r - 2] * s->dims[r - 1];
  for (u32 k = r - 2; k-- > 0; next *= s->dims[k])
    if (strides[k] != next) return false;
  return true;
}

// Matrices by rows and by columns are taken as they lie; what overwrites b must lie as b does.
static void take_layouts(linalg *p, const hlo_shape *a, const hlo_shape *b,
                         const hlo_shape *result) {
  bool rows_a = hlo_shape_is_row_major(a), rows = hlo_shape_is_row_major(result);
  if (rows ? !hlo_shape_is_row_major(b) : !cpu_by_columns(b) || !cpu_by_columns(result)) return;
  if (!rows_a && !cpu_by_columns(a)) return;
  p->as_they_lie = true;
  p->a_columns = !rows_a;
  p->x_columns = !rows;
}

// A factor is computed where it will lie, so that is what counts; the matrix is copied there,
// turned where it lies the other way.
static void take_order(linalg *p, const hlo_shape *a, const hlo_shape *result) {
  take_layouts(p, a, a, result);
  bool rows_a = hlo_shape_is_row_major(a), rows = hlo_shape_is_row_major(result);
  p->turns = !p->as_they_lie && (rows_a ? cpu_by_columns(result) : rows && cpu_by_columns(a));
  if (p->turns) p->a_columns = p->x_columns = !rows;
}

bool cpu_cholesky_supports(const hlo_instr *i) {
  return matrix_type(i->shape->dtype) && i->shape->rank >= 2 &&
         hlo_operand(i, 0)->shape->dtype == i->shape->dtype;
}
static void describe_cholesky(const hlo_instr *i, linalg *p) {
  *p = (linalg){.kind = CPU_LINALG_CHOLESKY,
                .type = i->shape->dtype,
                .batch = matrices_of(i->shape),
                .n = i->shape->dims[i->shape->rank - 1],
                .lower = hlo_attr_int(i, HLO_ATTR_LOWER, 0) != 0};
  take_order(p, hlo_operand(i, 0)->shape, i->shape);
}
hs_status cpu_cholesky_prepare(const hlo_instr *i, cpu_rt *out) {
  linalg *p = hs_calloc(1, sizeof *p);
  describe_cholesky(i, p);
  *out = (cpu_rt){.kind = "cholesky",
                  .state = p,
                  .run = run_cholesky,
                  .inplace = !p->turns,
                  .strided = p->as_they_lie || p->turns};
  return HS_GOOD;
}

bool cpu_triangular_solve_supports(const hlo_instr *i) {
  return matrix_type(i->shape->dtype) && i->shape->rank >= 2 &&
         hlo_operand(i, 0)->shape->dtype == i->shape->dtype;
}
static void describe_triangular(const hlo_instr *i, linalg *p) {
  const hlo_shape *s = i->shape;
  i64 tr = hlo_attr_int(i, HLO_ATTR_TRANSPOSE_A, HLO_TRANSPOSE_NO_TRANSPOSE);
  *p = (linalg){.kind = CPU_LINALG_TRIANGULAR,
                .type = s->dtype,
                .batch = matrices_of(s),
                .n = hlo_operand(i, 0)->shape->dims[s->rank - 1],
                .m = s->dims[s->rank - 2],
                .k = s->dims[s->rank - 1],
                .lower = hlo_attr_int(i, HLO_ATTR_LOWER, 0) != 0,
                .left = hlo_attr_int(i, HLO_ATTR_LEFT_SIDE, 0) != 0,
                .unit = hlo_attr_int(i, HLO_ATTR_UNIT_DIAGONAL, 0) != 0,
                .trans = tr == HLO_TRANSPOSE_TRANSPOSE || tr == HLO_TRANSPOSE_ADJOINT,
                .conj = tr == HLO_TRANSPOSE_ADJOINT};
  take_layouts(p, hlo_operand(i, 0)->shape, hlo_operand(i, 1)->shape, s);
}
hs_status cpu_triangular_solve_prepare(const hlo_instr *i, cpu_rt *out) {
  linalg *p = hs_calloc(1, sizeof *p);
  describe_triangular(i, p);
  *out =
      (cpu_rt){.kind = "triangular-solve", .state = p, .run = run_solve, .strided = p->as_they_lie};
  return HS_GOOD;
}

// ---- custom calls -------------------------------------------------------------------------------

typedef enum custom {
  CUSTOM_NONE,
  CUSTOM_POTRF,
  CUSTOM_TRSM,
  CUSTOM_GETRF,
  CUSTOM_GEQRF,
  CUSTOM_ORGQR,
  CUSTOM_TOPK
} custom;

static custom which_custom(const hlo_instr *i) {
  switch (hlo_custom_find(hlo_attr_str(i, HLO_ATTR_CUSTOM_CALL_TARGET))) {
  case HLO_CUSTOM_TOPK: return CUSTOM_TOPK;
  case HLO_CUSTOM_LAPACK_POTRF: return CUSTOM_POTRF;
  case HLO_CUSTOM_LAPACK_TRSM: return CUSTOM_TRSM;
  case HLO_CUSTOM_LAPACK_GETRF: return CUSTOM_GETRF;
  case HLO_CUSTOM_LAPACK_GEQRF: return CUSTOM_GEQRF;
  case HLO_CUSTOM_LAPACK_ORGQR: return CUSTOM_ORGQR;
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

// Larger complex ones are LAPACK's own, whose products of those are faster than ours.
static bool getrf_supports(const hlo_instr *i) {
  const hlo_shape *s = i->shape, *a = i->noperands == 1 ? hlo_operand(i, 0)->shape : NULL;
  if (!a || !has_matrices(a) || !hlo_shape_is_tuple(s) || s->nelems != 3) return false;
  i64 m = a->dims[a->rank - 2], n = a->dims[a->rank - 1];
  const hlo_shape *pivots = s->elems[1], *info = s->elems[2];
  if (hlo_dtype_is_complex(a->dtype) && HS_MAX(m, n) > CPU_TRI_BASE) return false;
  return m > 0 && n > 0 && s->elems[0]->logical == a->logical && pivots->dtype == HLO_S32 &&
         hlo_shape_is_row_major(pivots) && hlo_shape_is_row_major(info) &&
         pivots->elements == batch_of(a) * HS_MIN(m, n) && info->dtype == HLO_S32 &&
         info->elements == batch_of(a);
}

// Complex ones are LAPACK's own.
static bool takes_reflectors(const hlo_shape *a, const hlo_shape *tau, i64 *k) {
  if (!has_matrices(a) || hlo_dtype_is_complex(a->dtype) || !hlo_shape_is_array(tau)) return false;
  i64 m = a->dims[a->rank - 2], n = a->dims[a->rank - 1], batch = batch_of(a);
  if (m <= 0 || n <= 0 || batch <= 0) return false;
  *k = tau->elements / batch;
  return tau->dtype == a->dtype && hlo_shape_is_row_major(tau) && tau->elements == *k * batch;
}
static bool geqrf_supports(const hlo_instr *i) {
  const hlo_shape *s = i->shape, *a = i->noperands == 1 ? hlo_operand(i, 0)->shape : NULL;
  i64 k;
  return a && hlo_shape_is_tuple(s) && s->nelems == 2 && takes_reflectors(a, s->elems[1], &k) &&
         s->elems[0]->logical == a->logical &&
         k == HS_MIN(a->dims[a->rank - 2], a->dims[a->rank - 1]);
}
static bool orgqr_supports(const hlo_instr *i) {
  const hlo_shape *s = i->shape, *a = i->noperands == 2 ? hlo_operand(i, 0)->shape : NULL;
  i64 k;
  return a && hlo_shape_is_array(s) && takes_reflectors(a, hlo_operand(i, 1)->shape, &k) &&
         s->logical == a->logical && a->dims[a->rank - 2] >= a->dims[a->rank - 1] &&
         k <= a->dims[a->rank - 1];
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
  case CUSTOM_GETRF: return getrf_supports(i);
  case CUSTOM_GEQRF: return geqrf_supports(i);
  case CUSTOM_ORGQR: return orgqr_supports(i);
  case CUSTOM_NONE: break;
  }
  return false;
}

static void describe_custom(const hlo_instr *i, custom w, linalg *p) {
  const hlo_shape *s = w == CUSTOM_POTRF ? i->shape->elems[0] : i->shape;
  *p = (linalg){.kind = w == CUSTOM_POTRF ? CPU_LINALG_CHOLESKY : CPU_LINALG_TRIANGULAR,
                .type = s->dtype,
                .batch = w == CUSTOM_POTRF ? batch_of(s) : matrices_of(s),
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
  if (w == CUSTOM_POTRF) take_order(p, hlo_operand(i, 0)->shape, s);
  else take_layouts(p, hlo_operand(i, 0)->shape, hlo_operand(i, 1)->shape, s);
}

static void describe_general(const hlo_instr *i, custom w, linalg *p) {
  const hlo_shape *a = hlo_operand(i, 0)->shape;
  *p = (linalg){.kind = w == CUSTOM_GETRF   ? CPU_LINALG_LU
                        : w == CUSTOM_GEQRF ? CPU_LINALG_QR
                                            : CPU_LINALG_QR_PRODUCT,
                .type = a->dtype,
                .batch = batch_of(a),
                .m = a->dims[a->rank - 2],
                .n = a->dims[a->rank - 1]};
  p->k = HS_MIN(p->m, p->n);
  if (w == CUSTOM_ORGQR) p->k = hlo_operand(i, 1)->shape->elements / p->batch;
  take_order(p, a, w == CUSTOM_ORGQR ? i->shape : i->shape->elems[0]);
}

hs_status cpu_custom_call_prepare(const hlo_instr *i, cpu_rt *out) {
  custom w = which_custom(i);
  if (w == CUSTOM_TOPK) return cpu_topk_prepare(i, out);
  linalg *p = hs_calloc(1, sizeof *p);
  if (w == CUSTOM_GETRF || w == CUSTOM_GEQRF || w == CUSTOM_ORGQR) describe_general(i, w, p);
  else describe_custom(i, w, p);
  if (w == CUSTOM_GETRF)
    *out = (cpu_rt){.kind = "lu (lapack call)", .state = p, .run = run_lu, .inplace = !p->turns};
  else if (w == CUSTOM_GEQRF)
    *out = (cpu_rt){.kind = "qr (lapack call)", .state = p, .run = run_qr, .inplace = !p->turns};
  else if (w == CUSTOM_ORGQR)
    *out = (cpu_rt){
        .kind = "reflectors (lapack call)", .state = p, .run = run_product, .inplace = !p->turns};
  else if (w == CUSTOM_POTRF)
    *out = (cpu_rt){
        .kind = "cholesky (lapack call)", .state = p, .run = run_cholesky, .inplace = !p->turns};
  else *out = (cpu_rt){.kind = "triangular-solve (lapack call)", .state = p, .run = run_solve};
  out->strided = p->as_they_lie || p->turns;
  return HS_GOOD;
}

bool cpu_linalg_of(const hlo_instr *i, cpu_linalg *out) {
  custom w = i->opcode == HLO_CUSTOM_CALL ? which_custom(i) : CUSTOM_NONE;
  if (i->opcode == HLO_CHOLESKY && cpu_cholesky_supports(i)) describe_cholesky(i, out);
  else if (i->opcode == HLO_TRIANGULAR_SOLVE && cpu_triangular_solve_supports(i))
    describe_triangular(i, out);
  else if ((w == CUSTOM_POTRF || w == CUSTOM_TRSM) && cpu_custom_call_supports(i))
    describe_custom(i, w, out);
  else return false;
  return true;
}
