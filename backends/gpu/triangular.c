// triangular.c — triangular systems by cuBLAS: the operation, and LAPACK's calls. See library.h.
//
// The right sides are copied to the result's place and solved there: one system by trsm, several by
// trsmBatched, which takes the addresses of matrices from memory. What lies by rows is its own
// transpose by columns: a system by rows is the transposed one, with the matrix on the other side.
#include "backends/gpu/library.h"

#include <stdio.h>

#if HAVE_LLVM

typedef struct triangular_call {
  gpu_call call;
  cpu_linalg p;
  int side, triangle, op, diagonal;
  const gpu_cublas *blas;
  u32 type;  // row of the tables of functions
  gpu_addresses list;
} triangular_call;

static hs_status open_cublas(gpu_library *l) { return cublas_open(NULL, &((gpu_cublas *)l)->api); }

static const gpu_library_kind cublas = {
    .bytes = sizeof(gpu_cublas),
    .name = "cuBLAS",
    .variable = "HLOSH_LIBCUBLAS",
    .open = open_cublas,
};

hs_status gpu_cublas_find(gpu_device *dev, const gpu_cublas **out) {
  gpu_library *l;
  hs_status s = gpu_library_find(dev, &dev->library[GPU_CUBLAS], &cublas, &l);
  *out = (const gpu_cublas *)l;
  return s;
}

// ---- which systems ------------------------------------------------------------------------------

// What the system is to BLAS; false: it has no name for it (the conjugate of what is not turned).
static bool describe(const cpu_linalg *p, triangular_call *c) {
  bool turned = p->trans != (p->a_columns != p->x_columns),
       conj = p->conj && hlo_dtype_is_complex(p->type);
  if (conj && !turned) return false;
  c->side = p->left == p->x_columns ? CUBLAS_LEFT : CUBLAS_RIGHT;
  c->triangle = p->lower == p->a_columns ? CUBLAS_LOWER : CUBLAS_UPPER;
  c->op = conj ? CUBLAS_ADJOINT : turned ? CUBLAS_TURNED : CUBLAS_PLAIN;
  c->diagonal = p->unit ? CUBLAS_UNIT : CUBLAS_ANY;
  return true;
}

bool gpu_triangular_is(const hlo_instr *i) {
  cpu_linalg p;
  triangular_call c;
  return cpu_linalg_of(i, &p) && p.kind == CPU_LINALG_TRIANGULAR && p.as_they_lie && p.n > 0 &&
         p.m > 0 && p.k > 0 && p.batch > 0 && p.m <= INT32_MAX && p.k <= INT32_MAX &&
         p.batch <= INT32_MAX && describe(&p, &c);
}

// ---- calls --------------------------------------------------------------------------------------

static hs_status solve(gpu_program *g, triangular_call *c, cuda_ptr a, cuda_ptr x,
                       cuda_ptr scratch) {
  const cublas_api *api = &c->blas->api;
  typedef blas_result one_fn(cublas_handle *, int, int, int, int, int, int, const void *, cuda_ptr,
                             int, cuda_ptr, int);
  typedef blas_result all_fn(cublas_handle *, int, int, int, int, int, int, const void *, cuda_ptr,
                             int, cuda_ptr, int, int);
  one_fn *const one[] = {api->solve_s, api->solve_d, api->solve_c, api->solve_z};
  all_fn *const all[] = {api->solves_s, api->solves_d, api->solves_c, api->solves_z};
  static const float narrow[2] = {1, 0};
  static const double wide[2] = {1, 0};
  const cpu_linalg *p = &c->p;
  i64 size = (i64)hlo_dtype_storage(p->type), bytes[] = {p->n * p->n * size, p->m * p->k * size};
  const void *factor = p->type == HLO_F64 || p->type == HLO_C128 ? (const void *)wide : narrow;
  int n = (int)p->n, rows = (int)(p->x_columns ? p->m : p->k),
      columns = (int)(p->x_columns ? p->k : p->m);
  HS_TRY(cublas_check(api->stream(api->handle, g->dev->stream), "a triangular system"));
  g->launches++;
  if (p->batch == 1)
    return cublas_check(one[c->type](api->handle, c->side, c->triangle, c->op, c->diagonal, rows,
                                     columns, factor, a, n, x, rows),
                        "a triangular system");
  const cuda_ptr first[] = {a, x};
  HS_TRY(gpu_addresses_put(g, &c->list, 2, first, bytes, p->batch, scratch));
  cuda_ptr second = scratch + (cuda_ptr)p->batch * sizeof(cuda_ptr);
  return cublas_check(all[c->type](api->handle, c->side, c->triangle, c->op, c->diagonal, rows,
                                   columns, factor, scratch, n, second, rows, (int)p->batch),
                      "triangular systems");
}

static hs_status run_call(gpu_program *g, const cpu_step *s, gpu_call *x) {
  cuda_ptr to = gpu_address(g, s->vals[s->nin]),
           scratch = s->scratch_slot == CPU_NONE ? 0 : g->addr[s->scratch_slot];
  HS_TRY(gpu_copy(g, to, gpu_address(g, s->vals[1]), g->p->values.v[s->vals[1]].bytes));
  return solve(g, (triangular_call *)x, gpu_address(g, s->vals[0]), to, scratch);
}

static void print_call(const gpu_call *x, hs_buf *out) {
  const cpu_linalg *p = &((const triangular_call *)x)->p;
  hs_buf_printf(out, "%lld of %lld x %lld, for %lld", (long long)p->batch, (long long)p->n,
                (long long)p->n, (long long)(p->left ? p->k : p->m));
}

static void free_call(gpu_program *g, gpu_call *x) {
  gpu_addresses_free(g, &((triangular_call *)x)->list);
}

static const gpu_call_kind systems = {
    .unrecorded = true, .run = run_call, .print = print_call, .free = free_call};

hs_status gpu_triangular_add(gpu_program *g, const hlo_instr *i, gpu_call **out, i64 *scratch) {
  triangular_call *c = HS_NEW(&g->arena, triangular_call);
  *c = (triangular_call){.call.kind = &systems};
  HS_TRY(gpu_cublas_find(g->dev, &c->blas));
  HS_REQUIRE(cpu_linalg_of(i, &c->p) && describe(&c->p, c));
  c->type = gpu_linear_type(c->p.type);
  *scratch = c->p.batch > 1 ? 2 * c->p.batch * (i64)sizeof(cuda_ptr) : 0;
  gpu_call_add(g, &c->call);
  gpu_call_stands(g, &c->call, i);
  (void)snprintf(c->call.text, sizeof c->call.text, "cuBLAS");
  (void)snprintf(c->call.note, sizeof c->call.note, "cuBLAS %s",
                 c->p.batch > 1 ? "trsmBatched" : "trsm");
  *out = &c->call;
  return HS_GOOD;
}

#endif
