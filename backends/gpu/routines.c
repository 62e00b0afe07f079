// routines.c — LAPACK's routines that cuSOLVER has: which calls they are, what their operands and
// results have to be, and how cuSOLVER, or cuBLAS for many, is called. See lapack.h.
#include "backends/gpu/lapack.h"

#include "core/analysis/customcall.h"
#include "core/ir/config.h"

#if HAVE_LLVM

// ---- what fits ----------------------------------------------------------------------------------

static bool is_matrices(const hlo_shape *s, hlo_dtype t) {
  if (!hlo_shape_is_array(s) || hlo_shape_is_dynamic(s) || s->rank < 2 || s->dtype != t)
    return false;
  return s->elements > 0 && s->dims[s->rank - 1] <= INT32_MAX &&
         s->dims[s->rank - 2] <= INT32_MAX && (hlo_shape_is_row_major(s) || cpu_by_columns(s));
}

static bool is_vectors(const hlo_shape *s, hlo_dtype t, i64 elements) {
  return hlo_shape_is_array(s) && !hlo_shape_is_dynamic(s) && s->dtype == t &&
         s->elements == elements && elements > 0 && hlo_shape_is_row_major(s);
}

const hlo_shape *gpu_lapack_result(const hlo_instr *i, u32 k) {
  return k < hlo_shape_leaves(i->shape) ? hlo_shape_leaf(i->shape, k) : NULL;
}

static bool lies_wrong(const hlo_shape *s, i64 rows, i64 columns, bool by_rows) {
  return rows > 1 && columns > 1 && hlo_shape_is_row_major(s) != by_rows;
}

// Adds arrays of so many rows and columns; by_rows: as the library has them.
static bool add_array(lapack_call *c, const hlo_instr *i, i64 rows, i64 columns, u32 from, u32 to,
                      bool by_rows) {
  matrices *x = &c->array[c->narrays++];
  *x = (matrices){.rows = rows, .columns = columns, .from = from, .to = to};
  for (u32 k = 0; k < 2; k++) {
    u32 number = k ? to : from;
    if (number == NOWHERE) continue;
    const hlo_shape *s = k                       ? gpu_lapack_result(i, number)
                         : number < i->noperands ? hlo_operand(i, number)->shape
                                                 : NULL;
    if (!s || !is_matrices(s, c->type) || s->elements != c->batch * rows * columns ||
        s->dims[s->rank - 2] != rows || s->dims[s->rank - 1] != columns)
      return false;
    *(k ? &x->turn_to : &x->turn_from) = lies_wrong(s, rows, columns, by_rows);
  }
  return true;
}

static void add_vector(lapack_call *c, u32 leaf, hlo_dtype type, i64 n) {
  c->vector[c->nvectors++] = (vector_set){.leaf = leaf, .bytes = n * (i64)hlo_dtype_storage(type)};
}

// The next vector is result k, of n elements of the type for each matrix.
static bool vector_result(lapack_call *c, const hlo_instr *i, u32 k, hlo_dtype type, i64 n) {
  const hlo_shape *s = gpu_lapack_result(i, k);
  add_vector(c, i->noperands + k, type, n);
  return s && is_vectors(s, type, n * c->batch);
}

// Operand 1 is the scales of reflectors.
static bool takes_scales(lapack_call *c, const hlo_instr *i) {
  const hlo_shape *s = i->noperands > 1 ? hlo_operand(i, 1)->shape : NULL;
  if (!s || s->elements % c->batch) return false;
  c->k = s->elements / c->batch;
  add_vector(c, 1, c->type, c->k);
  return is_vectors(s, c->type, s->elements);
}

static void add_zeros(lapack_call *c, u32 k) { c->zeros[c->nzeros++] = k; }

// Result k tells what became of each matrix; it may be missing.
static bool tells(lapack_call *c, const hlo_instr *i, u32 k) {
  const hlo_shape *s = gpu_lapack_result(i, k);
  c->info = s ? i->noperands + k : NOWHERE;
  return hlo_shape_leaves(i->shape) <= k + 1 && (!s || is_vectors(s, HLO_S32, c->batch));
}

static bool is_one_of(char letter, const char *letters) {
  return letter && strchr(letters, letter) != NULL;
}

static char letter(const hlo_instr *i, const char *key, char absent) {
  double v = hlo_config_number(i, NULL, key, absent);
  return v > 0 && v < 128 ? (char)v : 0;
}

// ---- the calls ----------------------------------------------------------------------------------

// The function of the call's type; all four take the same.
#define OF_TYPE(c, fn)                          \
  ((c)->number == 0   ? (c)->solver->api.fn##_s \
   : (c)->number == 1 ? (c)->solver->api.fn##_d \
   : (c)->number == 2 ? (c)->solver->api.fn##_c \
                      : (c)->solver->api.fn##_z)
static const char asking[] = "asking for a workspace";

static bool lu_fits(lapack_call *c, const hlo_instr *i) {
  return i->noperands == 1 && add_array(c, i, c->m, c->n, 0, 0, false) &&
         vector_result(c, i, 1, HLO_S32, c->k) && gpu_lapack_result(i, 2) && tells(c, i, 2);
}
static hs_status lu_room(lapack_call *c) {
  return solver_check(
      OF_TYPE(c, lu_room)(c->solver->handle, (int)c->m, (int)c->n, 0, (int)c->m, &c->room), asking);
}
static solver_result lu_run(const lapack_call *c, const cuda_ptr *a, const cuda_ptr *pivots,
                            cuda_ptr work, cuda_ptr info) {
  return OF_TYPE(c, lu)(c->solver->handle, (int)c->m, (int)c->n, a[0], (int)c->m, work, pivots[0],
                        info);
}

static bool qr_fits(lapack_call *c, const hlo_instr *i) {
  return i->noperands == 1 && add_array(c, i, c->m, c->n, 0, 0, false) &&
         vector_result(c, i, 1, c->type, c->k) && tells(c, i, 2);
}
static hs_status qr_room(lapack_call *c) {
  return solver_check(
      OF_TYPE(c, qr_room)(c->solver->handle, (int)c->m, (int)c->n, 0, (int)c->m, &c->room), asking);
}
static solver_result qr_run(const lapack_call *c, const cuda_ptr *a, const cuda_ptr *scales,
                            cuda_ptr work, cuda_ptr info) {
  return OF_TYPE(c, qr)(c->solver->handle, (int)c->m, (int)c->n, a[0], (int)c->m, scales[0], work,
                        c->room, info);
}

static bool q_fits(lapack_call *c, const hlo_instr *i) {
  return i->noperands == 2 && takes_scales(c, i) && c->m >= c->n && c->k <= c->n &&
         add_array(c, i, c->m, c->n, 0, 0, false) && tells(c, i, 1);
}
static hs_status q_room(lapack_call *c) {
  return solver_check(OF_TYPE(c, q_room)(c->solver->handle, (int)c->m, (int)c->n, (int)c->k, 0,
                                         (int)c->m, 0, &c->room),
                      asking);
}
static solver_result q_run(const lapack_call *c, const cuda_ptr *a, const cuda_ptr *scales,
                           cuda_ptr work, cuda_ptr info) {
  return OF_TYPE(c, q)(c->solver->handle, (int)c->m, (int)c->n, (int)c->k, a[0], (int)c->m,
                       scales[0], work, c->room, info);
}

// op(Q) X or X op(Q): X becomes the result.
static bool by_q_fits(lapack_call *c, const hlo_instr *i) {
  const hlo_shape *x = i->noperands == 3 ? hlo_operand(i, 2)->shape : NULL;
  c->left = hlo_config_number(i, NULL, "left", 1) != 0;
  c->adjoint = hlo_config_number(i, NULL, "transpose", 0) != 0;
  if (!x || !is_matrices(x, c->type) || !takes_scales(c, i) || c->k > c->n || c->k > c->m)
    return false;
  i64 rows = x->dims[x->rank - 2], columns = x->dims[x->rank - 1];
  return c->m == (c->left ? rows : columns) && add_array(c, i, c->m, c->n, 0, NOWHERE, false) &&
         add_array(c, i, rows, columns, 2, 0, false) && tells(c, i, 1);
}
static int by_q_side(const lapack_call *c) { return c->left ? CUBLAS_LEFT : CUBLAS_RIGHT; }
static int by_q_op(const lapack_call *c) {
  return !c->adjoint                     ? CUBLAS_PLAIN
         : hlo_dtype_is_complex(c->type) ? CUBLAS_ADJOINT
                                         : CUBLAS_TURNED;
}
static hs_status by_q_room(lapack_call *c) {
  const matrices *x = &c->array[1];
  return solver_check(OF_TYPE(c, by_q_room)(c->solver->handle, by_q_side(c), by_q_op(c),
                                            (int)x->rows, (int)x->columns, (int)c->k, 0, (int)c->m,
                                            0, 0, (int)x->rows, &c->room),
                      asking);
}
static solver_result by_q_run(const lapack_call *c, const cuda_ptr *a, const cuda_ptr *scales,
                              cuda_ptr work, cuda_ptr info) {
  const matrices *x = &c->array[1];
  return OF_TYPE(c, by_q)(c->solver->handle, by_q_side(c), by_q_op(c), (int)x->rows,
                          (int)x->columns, (int)c->k, a[0], (int)c->m, scales[0], a[1],
                          (int)x->rows, work, c->room, info);
}

static bool eigen_fits(lapack_call *c, const hlo_instr *i) {
  c->triangle = letter(i, "uplo", 'L');
  c->mode = letter(i, "mode", 'V');
  return i->noperands == 1 && c->m == c->n && is_one_of(c->triangle, "LU") &&
         is_one_of(c->mode, "VN") && add_array(c, i, c->m, c->n, 0, 0, false) &&
         vector_result(c, i, 1, hlo_dtype_real_part(c->type), c->n) && tells(c, i, 2);
}
static int vectors(const lapack_call *c) { return c->mode == 'V' ? SOLVER_VECTORS : SOLVER_VALUES; }
static int triangle(const lapack_call *c) {
  return c->triangle == 'L' ? CUBLAS_LOWER : CUBLAS_UPPER;
}
static hs_status eigen_room(lapack_call *c) {
  return solver_check(OF_TYPE(c, eigen_room)(c->solver->handle, vectors(c), triangle(c), (int)c->n,
                                             0, (int)c->n, 0, &c->room),
                      asking);
}
static solver_result eigen_run(const lapack_call *c, const cuda_ptr *a, const cuda_ptr *values,
                               cuda_ptr work, cuda_ptr info) {
  return OF_TYPE(c, eigen)(c->solver->handle, vectors(c), triangle(c), (int)c->n, a[0], (int)c->n,
                           values[0], work, c->room, info);
}

// A matrix of one row has nothing beside its diagonal, and stays on the host.
static bool tri_fits(lapack_call *c, const hlo_instr *i) {
  c->triangle = letter(i, "uplo", 'L');
  return i->noperands == 1 && c->m == c->n && is_one_of(c->triangle, "LU") &&
         add_array(c, i, c->m, c->n, 0, 0, false) &&
         vector_result(c, i, 1, hlo_dtype_real_part(c->type), c->n) &&
         vector_result(c, i, 2, hlo_dtype_real_part(c->type), c->n - 1) &&
         vector_result(c, i, 3, c->type, c->n - 1) && tells(c, i, 4);
}
static hs_status tri_room(lapack_call *c) {
  return solver_check(OF_TYPE(c, tri_room)(c->solver->handle, triangle(c), (int)c->n, 0, (int)c->n,
                                           0, 0, 0, &c->room),
                      asking);
}
static solver_result tri_run(const lapack_call *c, const cuda_ptr *a, const cuda_ptr *vector,
                             cuda_ptr work, cuda_ptr info) {
  return OF_TYPE(c, tri)(c->solver->handle, triangle(c), (int)c->n, a[0], (int)c->n, vector[0],
                         vector[1], vector[2], work, c->room, info);
}

// (what is left of the matrix, values, U, V^T, info): all of U and V, as many of their columns and
// rows as there are values, or none.
static bool svd_fits(lapack_call *c, const hlo_instr *i) {
  bool wide = c->m < c->n;
  c->mode = letter(i, "mode", 'A');
  if (i->noperands != 1 || !is_one_of(c->mode, "ASN") || !gpu_lapack_result(i, 4)) return false;
  if (!add_array(c, i, c->m, c->n, 0, 0, wide) ||
      !vector_result(c, i, 1, hlo_dtype_real_part(c->type), c->k) || !tells(c, i, 4))
    return false;
  if (c->mode == 'N') add_zeros(c, 2), add_zeros(c, 3);
  return c->mode == 'N' || (add_array(c, i, c->m, c->mode == 'A' ? c->m : c->k, NOWHERE, 2, wide) &&
                            add_array(c, i, c->mode == 'A' ? c->n : c->k, c->n, NOWHERE, 3, wide));
}
static hs_status svd_room(lapack_call *c) {
  return solver_check(
      OF_TYPE(c, svd_room)(c->solver->handle, (int)HS_MAX(c->m, c->n), (int)c->k, &c->room),
      asking);
}
static solver_result svd_run(const lapack_call *c, const cuda_ptr *a, const cuda_ptr *values,
                             cuda_ptr work, cuda_ptr info) {
  bool wide = c->m < c->n, none = c->mode == 'N';
  int rows = (int)HS_MAX(c->m, c->n), columns = (int)c->k;
  cuda_ptr u = none ? 0 : a[wide ? 2 : 1], v = none ? 0 : a[wide ? 1 : 2];
  // V^T of what is tall is square, and U of it has its rows
  return OF_TYPE(c, svd)(c->solver->handle, (signed char)c->mode, (signed char)c->mode, rows,
                         columns, a[0], rows, values[0], u, rows, v, columns, work, c->room, 0,
                         info);
}

// ---- many at once -------------------------------------------------------------------------------

static bool are_many(const lapack_call *c) {
  enum { LARGE = 128 };
  return c->batch > 1 && c->batch <= INT32_MAX && c->m / c->batch <= LARGE &&
         c->n / c->batch <= LARGE;
}

// Of so few rows and columns that Jacobi's method is meant.
static bool are_small(const lapack_call *c) {
  enum { SMALL = 32 };
  return c->m <= SMALL && c->n <= SMALL && are_many(c);
}

// Without cuBLAS they are done one by one.
static hs_status find_cublas(gpu_program *g, lapack_call *c, bool *may) {
  hs_status s = gpu_cublas_find(g->dev, &c->blas);
  *may = hs_ok(s);
  if (g->dev->failed) return s;
  hs_status_drop(s);
  return HS_GOOD;
}

#define OF_BLAS(c, fn)                        \
  ((c)->number == 0   ? (c)->blas->api.fn##_s \
   : (c)->number == 1 ? (c)->blas->api.fn##_d \
   : (c)->number == 2 ? (c)->blas->api.fn##_c \
                      : (c)->blas->api.fn##_z)
static const char factoring[] = "factorizations";

static hs_status qrs_open(gpu_program *g, const hlo_instr *i, lapack_call *c, bool *may) {
  (void)i;
  *may = are_many(c);
  return *may ? find_cublas(g, c, may) : HS_GOOD;
}

static hs_status lus_open(gpu_program *g, const hlo_instr *i, lapack_call *c, bool *may) {
  *may = c->m == c->n;
  return *may ? qrs_open(g, i, c, may) : HS_GOOD;
}
static hs_status lus_run(gpu_program *g, lapack_call *c, const cuda_ptr *a, const cuda_ptr *pivots,
                         cuda_ptr scratch, cuda_ptr info) {
  const cublas_api *api = &c->blas->api;
  cuda_ptr list = scratch + (cuda_ptr)c->list_at;
  i64 bytes = c->n * c->n * (i64)hlo_dtype_storage(c->type);
  HS_TRY(gpu_addresses_put(g, &c->list, 1, a, &bytes, c->batch, list));
  HS_TRY(cublas_check(api->stream(api->handle, g->dev->stream), factoring));
  return cublas_check(
      OF_BLAS(c, lus)(api->handle, (int)c->n, list, (int)c->n, pivots[0], info, (int)c->batch),
      factoring);
}

// A matrix cannot fail: what it answers, to the host, is of its arguments.
static hs_status qrs_run(gpu_program *g, lapack_call *c, const cuda_ptr *a, const cuda_ptr *scales,
                         cuda_ptr scratch, cuda_ptr info) {
  const cublas_api *api = &c->blas->api;
  cuda_ptr list = scratch + (cuda_ptr)c->list_at,
           second = list + (cuda_ptr)c->batch * sizeof(cuda_ptr);
  const cuda_ptr first[] = {a[0], scales[0]};
  const i64 bytes[] = {c->m * c->n * (i64)hlo_dtype_storage(c->type), c->vector[0].bytes};
  int said = 0;
  HS_TRY(gpu_addresses_put(g, &c->list, 2, first, bytes, c->batch, list));
  HS_TRY(cublas_check(api->stream(api->handle, g->dev->stream), factoring));
  HS_TRY(cublas_check(OF_BLAS(c, qrs)(api->handle, (int)c->m, (int)c->n, list, (int)c->m, second,
                                      &said, (int)c->batch),
                      factoring));
  if (said) return cublas_check(BLAS_INVALID_VALUE, factoring);
  return gpu_check(g->dev, g->dev->d.set8(info, 0, (size_t)c->batch * sizeof(i32), g->dev->stream),
                   factoring);
}

// By Jacobi's method, for small ones.
static hs_status eigens_open(gpu_program *g, const hlo_instr *i, lapack_call *c, bool *may) {
  (void)i;
  (void)g;
  *may = are_small(c);
  if (!*may) return HS_GOOD;
  HS_TRY(solver_check(c->solver->api.jacobi_new(&c->jacobi), asking));
  return solver_check(OF_TYPE(c, eigens_room)(c->solver->handle, vectors(c), triangle(c), (int)c->n,
                                              0, (int)c->n, 0, &c->room, c->jacobi, (int)c->batch),
                      asking);
}
static hs_status eigens_run(gpu_program *g, lapack_call *c, const cuda_ptr *a,
                            const cuda_ptr *values, cuda_ptr scratch, cuda_ptr info) {
  static const char what[] = "eigenproblems";
  HS_TRY(solver_check(c->solver->api.stream(c->solver->handle, g->dev->stream), what));
  return solver_check(OF_TYPE(c, eigens)(c->solver->handle, vectors(c), triangle(c), (int)c->n,
                                         a[0], (int)c->n, values[0], scratch, c->room, info,
                                         c->jacobi, (int)c->batch),
                      what);
}

// Result `to` is the library's n x n matrix by columns, or its adjoint, as far as it has them.
static void all_columns(lapack_call *c, const hlo_instr *i, matrices *x, bool adjoint) {
  const hlo_shape *s = gpu_lapack_result(i, x->to);
  i64 kept = adjoint ? x->rows : x->columns, n = adjoint ? x->columns : x->rows;
  *x = (matrices){.rows = n, .columns = n, .from = NOWHERE, .to = x->to, .kept = kept};
  x->conjugate = adjoint && hlo_dtype_is_complex(c->type);
  x->turned = lies_wrong(s, n, kept, adjoint);
  x->turn_to = x->turned || x->conjugate || kept < n;
}

// By Jacobi's method, for small ones, which may be wide. It makes all of U and, by columns, V.
static hs_status svds_open(gpu_program *g, const hlo_instr *i, lapack_call *c, bool *may) {
  (void)g;
  *may = are_small(c);
  if (!*may) return HS_GOOD;
  matrices *a = &c->array[0];
  a->turn_from = lies_wrong(hlo_operand(i, 0)->shape, c->m, c->n, false);
  a->turn_to = lies_wrong(gpu_lapack_result(i, 0), c->m, c->n, false);
  for (u32 k = 1; k < c->narrays; k++) all_columns(c, i, &c->array[k], k == 2);
  HS_TRY(solver_check(c->solver->api.turns_new(&c->turns), asking));
  return solver_check(OF_TYPE(c, svds_room)(c->solver->handle,
                                            c->mode == 'N' ? SOLVER_VALUES : SOLVER_VECTORS,
                                            (int)c->m, (int)c->n, 0, (int)c->m, 0, 0, (int)c->m, 0,
                                            (int)c->n, &c->room, c->turns, (int)c->batch),
                      asking);
}
static hs_status svds_run(gpu_program *g, lapack_call *c, const cuda_ptr *a, const cuda_ptr *values,
                          cuda_ptr scratch, cuda_ptr info) {
  static const char what[] = "singular values";
  bool none = c->mode == 'N';
  HS_TRY(solver_check(c->solver->api.stream(c->solver->handle, g->dev->stream), what));
  return solver_check(OF_TYPE(c, svds)(c->solver->handle, none ? SOLVER_VALUES : SOLVER_VECTORS,
                                       (int)c->m, (int)c->n, a[0], (int)c->m, values[0],
                                       none ? 0 : a[1], (int)c->m, none ? 0 : a[2], (int)c->n,
                                       scratch, c->room, info, c->turns, (int)c->batch),
                      what);
}

// ---- eigenproblems of any matrix ----------------------------------------------------------------

static hlo_dtype complex_of(hlo_dtype t) {
  return t == HLO_F32 ? HLO_C64 : t == HLO_F64 ? HLO_C128 : t;
}

// (values: two parts of real numbers, else one; left vectors, right ones, info), with vectors that
// are complex. Which of them cuSOLVER has is decided here.
static bool geev_fits(lapack_call *c, const hlo_instr *i) {
  bool real = !hlo_dtype_is_complex(c->type);
  u32 left = real ? 2 : 1, right = left + 1;
  c->mode = letter(i, "compute_right", 'N');
  if (i->noperands != 1 || c->m != c->n || letter(i, "compute_left", 'N') != 'N' ||
      !is_one_of(c->mode, "VN") || !gpu_lapack_result(i, right) ||
      !add_array(c, i, c->n, c->n, 0, NOWHERE, false) || !tells(c, i, right + 1))
    return false;
  c->array[0].own = true;  // what is left of it is no result
  for (u32 k = 0; k < left; k++)
    if (!vector_result(c, i, k, c->type, c->n)) return false;
  add_zeros(c, left);
  if (c->mode == 'N') return add_zeros(c, right), true;
  if (!real) return add_array(c, i, c->n, c->n, NOWHERE, right, false);
  const hlo_shape *s = gpu_lapack_result(i, right);
  add_vector(c, i->noperands + right, complex_of(c->type), c->n * c->n);
  (void)add_array(c, i, c->n, c->n, NOWHERE, NOWHERE, false);
  c->array[1].own = true;
  return is_matrices(s, complex_of(c->type)) && s->elements == c->batch * c->n * c->n &&
         s->dims[s->rank - 1] == c->n && s->dims[s->rank - 2] == c->n;
}

// Complex vectors from (packed, imaginary parts of the values). Of two conjugate values the first
// has the positive part; where its vector lies is the real part of both's, and behind it the
// imaginary one of the first's.
static hs_status add_unpack(gpu_program *g, const hlo_instr *i, lapack_call *c) {
  const hlo_shape *right = gpu_lapack_result(i, 3);
  const char *t = hlo_dtype_text(c->type), *z = hlo_dtype_text(complex_of(c->type));
  char *shape =
      hs_format("[%lld,%lld,%lld]", (long long)c->batch, (long long)c->n, (long long)c->n);
  char *values = hs_format("%s[%lld,%lld]", t, (long long)c->batch, (long long)c->n);
  hs_buf b = {0};
  hs_buf_printf(&b, "HloModule unpack\nf { x = %s%s parameter(0)\n w = %s parameter(1)\n", t, shape,
                values);
  hs_buf_printf(&b, " i = %s%s broadcast(w), dimensions={0,1}\n nil = %s[] constant(0)\n", t, shape,
                t);
  hs_buf_printf(&b, " zero = %s%s broadcast(nil), dimensions={}\n", t, shape);
  hs_buf_printf(&b, " after = %s%s pad(x, nil), padding=0_0x-1_1x0_0\n", t, shape);
  hs_buf_printf(&b, " before = %s%s pad(x, nil), padding=0_0x1_-1x0_0\n", t, shape);
  hs_buf_printf(&b, " first = pred%s compare(i, zero), direction=GT\n", shape);
  hs_buf_printf(&b, " second = pred%s compare(i, zero), direction=LT\n", shape);
  hs_buf_printf(&b, " re = %s%s select(second, before, x)\n n = %s%s negate(x)\n", t, shape, t,
                shape);
  hs_buf_printf(&b, " other = %s%s select(second, n, zero)\n", t, shape);
  hs_buf_printf(&b, " im = %s%s select(first, after, other)\n", t, shape);
  hs_buf_printf(&b, " v = %s%s complex(re, im)\n ROOT r = %s%s transpose(v), dimensions={0,%s}}\n",
                z, shape, z, shape, hlo_shape_is_row_major(right) ? "2,1" : "1,2");
  hs_buf_printf(&b, "ENTRY e { x = %s%s parameter(0)\n w = %s parameter(1)\n", t, shape, values);
  hs_buf_printf(&b, " ROOT unpacked = %s%s fusion(x, w), kind=kLoop, calls=f }\n", z, shape);
  c->unpack = c->call.nhelpers;
  hs_status s = gpu_helper_add(g, i->parent->module->ctx, hs_buf_cstr(&b), &c->call);
  hs_buf_free(&b);
  hs_free(values);
  hs_free(shape);
  return s;
}

static int number_type(const lapack_call *c) {
  return (int[]){SOLVER_F32, SOLVER_F64, SOLVER_C64, SOLVER_C128}[c->number];
}

static hs_status geev_open(gpu_program *g, const hlo_instr *i, lapack_call *c, bool *may) {
  const solver_api *api = &c->solver->api;
  int t = number_type(c);
  if (!api->geev || !api->geev_room || !api->params_new || !api->params_free)
    return hs_fail(HS_E_NOT_BUILT, "this cuSOLVER has no cusolverDnXgeev, that of CUDA 12.8 has");
  HS_TRY(solver_check(api->params_new(&c->params), asking));
  HS_TRY(solver_check(api->geev_room(c->solver->handle, c->params, SOLVER_VALUES, vectors(c), c->n,
                                     t, 0, c->n, t, 0, t, 0, c->n, t, 0, c->n, t, &c->device_bytes,
                                     &c->host_bytes),
                      asking));
  if (c->host_bytes)
    GPU_TRY(g->dev, g->dev->d.host_alloc(&c->host, c->host_bytes, CUDA_HOST_PORTABLE),
            "memory for a workspace");
  // the parts of one matrix's values lie behind the workspace
  c->values_at = gpu_aligned((i64)c->device_bytes);
  c->work_bytes = c->values_at + 2 * c->vector[0].bytes;
  *may = true;
  return c->mode == 'V' && !hlo_dtype_is_complex(c->type) ? add_unpack(g, i, c) : HS_GOOD;
}

static hs_status geev_run(gpu_program *g, lapack_call *c, const cuda_ptr *a, const cuda_ptr *vector,
                          cuda_ptr scratch, cuda_ptr info) {
  const solver_api *api = &c->solver->api;
  static const char what[] = "an eigenproblem";
  bool real = !hlo_dtype_is_complex(c->type), some = c->mode == 'V';
  int t = number_type(c);
  size_t bytes = (size_t)c->vector[0].bytes;
  cuda_ptr matrix = (cuda_ptr)c->n * bytes;
  HS_TRY(solver_check(api->stream(c->solver->handle, g->dev->stream), what));
  for (cuda_ptr b = 0; b < (cuda_ptr)c->batch; b++) {
    cuda_ptr parts = scratch + (cuda_ptr)c->values_at;
    HS_TRY(solver_check(api->geev(c->solver->handle, c->params, SOLVER_VALUES, vectors(c), c->n, t,
                                  a[0] + b * matrix, c->n, t, real ? parts : vector[0] + b * bytes,
                                  t, 0, c->n, t, some ? a[1] + b * matrix : 0, c->n, t, scratch,
                                  c->device_bytes, c->host, c->host_bytes, info + b * sizeof(i32)),
                        what));
    for (u32 k = 0; real && k < 2; k++)
      HS_TRY(gpu_copy(g, vector[k] + b * bytes, parts + k * bytes, bytes));
  }
  if (!real || !some) return HS_GOOD;
  return gpu_helper_run(g, &c->call, c->unpack, 4, (cuda_ptr[]){a[1], vector[1], vector[2], 0});
}

// ---- the table ----------------------------------------------------------------------------------

static const together lus = {"cuBLAS", "getrfBatched", lus_open, lus_run},
                      qrs = {"cuBLAS", "geqrfBatched", qrs_open, qrs_run},
                      eigens = {"cuSOLVER", "syevjBatched", eigens_open, eigens_run},
                      svds = {"cuSOLVER", "gesvdjBatched", svds_open, svds_run},
                      geevs = {"cuSOLVER", "Xgeev", geev_open, geev_run};

static const routine routines[] = {
    {"lapack_", "getrf", "getrf", lu_fits, lu_room, lu_run, &lus},
    {"lapack_", "geqrf", "geqrf", qr_fits, qr_room, qr_run, &qrs},
    {"lapack_", "orgqr", "orgqr", q_fits, q_room, q_run, NULL},
    {"lapack_", "ungqr", "ungqr", q_fits, q_room, q_run, NULL},
    {"lapack_", "ormqr", "ormqr", by_q_fits, by_q_room, by_q_run, NULL},
    {"lapack_", "unmqr", "unmqr", by_q_fits, by_q_room, by_q_run, NULL},
    {"lapack_", "syevd", "syevd", eigen_fits, eigen_room, eigen_run, &eigens},
    {"lapack_", "heevd", "heevd", eigen_fits, eigen_room, eigen_run, &eigens},
    {"lapack_", "sytrd", "sytrd", tri_fits, tri_room, tri_run, NULL},
    {"lapack_", "hetrd", "hetrd", tri_fits, tri_room, tri_run, NULL},
    {"lapack_", "geev", "Xgeev", geev_fits, NULL, NULL, &geevs},
    {"lapack_", "gesdd", "gesvd", svd_fits, svd_room, svd_run, &svds},
    {"Qr", "", "geqrf", qr_fits, qr_room, qr_run, &qrs},
    {"ProductOfElementaryHouseholderReflectors", "", "orgqr", q_fits, q_room, q_run, NULL},
};

// ---- which ones ---------------------------------------------------------------------------------

// Whether the call has the routine's target, and takes numbers of the type that this names.
static bool is_call_of(const routine *r, hs_str target, hlo_dtype type) {
  static const char letters[] = "sdcz";
  char *full = !*r->name
                   ? hs_format("%s", r->target)
                   : hs_format("%s%c%s_ffi", r->target, letters[gpu_linear_type(type)], r->name);
  bool same = hs_str_eq(target, hs_str_of(full));
  hs_free(full);
  return same;
}

bool gpu_lapack_describe(const hlo_instr *i, lapack_call *c) {
  if (i->opcode != HLO_CUSTOM_CALL || !i->noperands) return false;
  const hlo_shape *a = hlo_operand(i, 0)->shape;
  hs_str target = hlo_attr_str(i, HLO_ATTR_CUSTOM_CALL_TARGET);
  hlo_custom_id id = hlo_custom_find(target);
  bool known = id == HLO_CUSTOM_LAPACK_GETRF || id == HLO_CUSTOM_LAPACK_GEQRF ||
               id == HLO_CUSTOM_LAPACK_ORGQR || id == HLO_CUSTOM_LAPACK_FFI ||
               id == HLO_CUSTOM_QR || id == HLO_CUSTOM_HOUSEHOLDER;
  if (!known || !hlo_shape_is_array(a)) return false;
  c->type = a->dtype;
  c->number = gpu_linear_type(a->dtype);
  if (!(c->type == HLO_C128 || c->number != 3) || !is_matrices(a, c->type)) return false;
  size_t k = 0;
  while (k < HS_COUNT(routines) && !is_call_of(&routines[k], target, c->type)) k++;
  if (k == HS_COUNT(routines)) return false;
  c->routine = &routines[k];
  c->m = a->dims[a->rank - 2];
  c->n = a->dims[a->rank - 1];
  c->k = HS_MIN(c->m, c->n);
  c->batch = a->elements / (c->m * c->n);
  return c->routine->fits(c, i);
}

#endif
