// factor.c — Cholesky factors by cuSOLVER: the operation, and LAPACK's calls. See library.h.
//
// The operand is copied to the result's place and factored there: one matrix by potrf, several by
// potrfBatched, which takes their addresses from memory. A matrix by rows is its own transpose by
// columns, so the other triangle is named; of complex numbers that is the conjugate matrix, whose
// factor read by rows is the one that is wanted.
//
// The operation has zeros in the other triangle, and NaN where a matrix is not positive definite;
// a call keeps what was there, which potrfBatched destroys. A helper sees to both.
//
// Nothing says that calls of cuSOLVER may be recorded, so they are not.
#include "backends/gpu/library.h"

#include <stdio.h>

#if HAVE_LLVM

typedef struct factor_call {
  gpu_call call;
  cpu_linalg p;
  const gpu_solver *solver;
  u32 type;  // row of the tables of functions
  int room;  // elements of its workspace
  bool helped;
  i64 info_at, list_at;  // in the scratch block
  gpu_addresses list;
} factor_call;

static hs_status open_solver(gpu_library *l) {
  gpu_solver *x = (gpu_solver *)l;
  HS_TRY(solver_open(NULL, &x->api));
  return solver_check(x->api.create(&x->handle), "starting cuSOLVER");
}

static const gpu_library_kind cusolver = {
    .bytes = sizeof(gpu_solver),
    .name = "cuSOLVER",
    .variable = "HLOSH_LIBCUSOLVER",
    .open = open_solver,
};

hs_status gpu_solver_find(gpu_device *dev, const gpu_solver **out) {
  gpu_library *l;
  hs_status s = gpu_library_find(dev, &dev->library[GPU_CUSOLVER], &cusolver, &l);
  *out = (const gpu_solver *)l;
  return s;
}

hs_status gpu_solver_room(int elements) {
  return elements < 0 ? solver_check(SOLVER_NOT_SUPPORTED, "a workspace of so many elements")
                      : HS_GOOD;
}

bool gpu_factor_is(const hlo_instr *i) {
  cpu_linalg p;
  return cpu_linalg_of(i, &p) && p.kind == CPU_LINALG_CHOLESKY && p.as_they_lie && p.n > 0 &&
         p.batch > 0 && p.n <= INT32_MAX && p.batch <= INT32_MAX;
}

static bool is_lower(const cpu_linalg *p) { return p->lower != p->a_columns; }  // by rows
static int triangle(const cpu_linalg *p) { return is_lower(p) ? CUBLAS_UPPER : CUBLAS_LOWER; }

// ---- the helper ---------------------------------------------------------------------------------

// What the operation has of x and info: zeros in the other triangle, all NaN where there is no
// factor. The imaginary part of XLA's complex NaN is 0, which no constant says.
static void print_outcome(hs_buf *b, const cpu_linalg *p, const char *t, const char *shape) {
  bool complex = hlo_dtype_is_complex(p->type);
  const char *part = hlo_dtype_text(complex ? hlo_dtype_real_part(p->type) : p->type);
  hs_buf_printf(b, " q = %s[] constant(nan)\n nil = %s[] constant(0)\n", part, part);
  hs_buf_printf(b, " none = %s[] %s\n", t, complex ? "complex(q, nil)" : "copy(q)");
  hs_buf_printf(b, " zero = %s[] %s\n", t, complex ? "complex(nil, nil)" : "copy(nil)");
  hs_buf_printf(b, " nones = %s%s broadcast(none), dimensions={}\n", t, shape);
  hs_buf_printf(b, " zeros = %s%s broadcast(zero), dimensions={}\n", t, shape);
  hs_buf_printf(b, " good = s32[] constant(0)\n goods = s32[%lld] broadcast(good), dimensions={}\n",
                (long long)p->batch);
  hs_buf_printf(b, " ok = pred[%lld] compare(y, goods), direction=EQ\n", (long long)p->batch);
  hs_buf_printf(b, " oks = pred%s broadcast(ok), dimensions={0}\n", shape);
  hs_buf_printf(b, " kept = %s%s select(in, x, zeros)\n", t, shape);
  hs_buf_printf(b, " ROOT r = %s%s select(oks, kept, nones) }\n", t, shape);
}

// The other triangle from what was there: (x, old), or as the operation has it: (x, info).
static hs_status add_helper(gpu_program *g, hlo_ctx *ctx, factor_call *c) {
  const cpu_linalg *p = &c->p;
  const char *t = hlo_dtype_text(p->type);
  long long batch = p->batch, n = p->n;
  char *shape = hs_format("[%lld,%lld,%lld]", batch, n, n);
  char *second = p->keep_other ? hs_format("%s%s", t, shape) : hs_format("s32[%lld]", batch);
  hs_buf b = {0};
  hs_buf_printf(&b, "HloModule other\nf { x = %s%s parameter(0)\n y = %s parameter(1)\n", t, shape,
                second);
  for (int k = 0; k < 2; k++)
    hs_buf_printf(&b, " i%d = s32%s iota(), iota_dimension=%d\n", k, shape, k + 1);
  hs_buf_printf(&b, " in = pred%s compare(i1, i0), direction=%s\n", shape,
                is_lower(p) ? "LE" : "GE");
  if (p->keep_other) hs_buf_printf(&b, " ROOT r = %s%s select(in, x, y) }\n", t, shape);
  else print_outcome(&b, p, t, shape);
  hs_buf_printf(&b, "ENTRY e { x = %s%s parameter(0)\n y = %s parameter(1)\n", t, shape, second);
  hs_buf_printf(&b, " ROOT other_triangle = %s%s fusion(x, y), kind=kLoop, calls=f }\n", t, shape);
  hs_status s = gpu_helper_add(g, ctx, hs_buf_cstr(&b), &c->call);
  hs_buf_free(&b);
  hs_free(second);
  hs_free(shape);
  return s;
}

// ---- calls --------------------------------------------------------------------------------------

static hs_status factor(gpu_program *g, factor_call *c, cuda_ptr at, cuda_ptr scratch,
                        cuda_ptr info) {
  const solver_api *api = &c->solver->api;
  typedef solver_result one_fn(solver_handle *, int, int, cuda_ptr, int, cuda_ptr, int, cuda_ptr);
  typedef solver_result all_fn(solver_handle *, int, int, cuda_ptr, int, cuda_ptr, int);
  one_fn *const one[] = {api->factor_s, api->factor_d, api->factor_c, api->factor_z};
  all_fn *const all[] = {api->factors_s, api->factors_d, api->factors_c, api->factors_z};
  int n = (int)c->p.n;
  HS_TRY(solver_check(api->stream(c->solver->handle, g->dev->stream), "a factorization"));
  g->launches++;
  if (c->p.batch == 1)
    return solver_check(
        one[c->type](c->solver->handle, triangle(&c->p), n, at, n, scratch, c->room, info),
        "a factorization");
  i64 bytes = c->p.n * c->p.n * (i64)hlo_dtype_storage(c->p.type);
  cuda_ptr list = scratch + (cuda_ptr)c->list_at;
  HS_TRY(gpu_addresses_put(g, &c->list, 1, &at, &bytes, c->p.batch, list));
  return solver_check(
      all[c->type](c->solver->handle, triangle(&c->p), n, list, n, info, (int)c->p.batch),
      "factorizations");
}

static hs_status run_call(gpu_program *g, const cpu_step *s, gpu_call *x) {
  factor_call *c = (factor_call *)x;
  cuda_ptr from = gpu_address(g, s->vals[0]), to = gpu_address(g, s->vals[s->nin]),
           scratch = g->addr[s->scratch_slot],
           info = c->p.info ? gpu_address(g, s->vals[s->nin + 1]) : scratch + (cuda_ptr)c->info_at;
  HS_TRY(gpu_copy(g, to, from, g->p->values.v[s->vals[0]].bytes));
  HS_TRY(factor(g, c, to, scratch, info));
  if (!c->helped) return HS_GOOD;
  return gpu_helper_run(g, x, 0, 4, (cuda_ptr[]){to, c->p.keep_other ? from : info, to, 0});
}

static void print_call(const gpu_call *x, hs_buf *out) {
  const cpu_linalg *p = &((const factor_call *)x)->p;
  hs_buf_printf(out, "%lld of %lld x %lld", (long long)p->batch, (long long)p->n, (long long)p->n);
}

static void free_call(gpu_program *g, gpu_call *x) {
  gpu_addresses_free(g, &((factor_call *)x)->list);
}

static const gpu_call_kind factors = {
    .unrecorded = true, .run = run_call, .print = print_call, .free = free_call};

// ---- which ones ---------------------------------------------------------------------------------

static hs_status ask_room(factor_call *c) {
  const solver_api *api = &c->solver->api;
  typedef solver_result room_fn(solver_handle *, int, int, cuda_ptr, int, int *);
  room_fn *const room[] = {api->room_s, api->room_d, api->room_c, api->room_z};
  if (c->p.batch > 1) return HS_GOOD;
  return solver_check(
      room[c->type](c->solver->handle, triangle(&c->p), (int)c->p.n, 0, (int)c->p.n, &c->room),
      "asking for a workspace");
}

static hs_status make(gpu_program *g, const hlo_instr *i, factor_call *c, i64 *scratch) {
  HS_TRY(ask_room(c));
  HS_TRY(gpu_solver_room(c->room));
  c->info_at = gpu_aligned(c->room * (i64)hlo_dtype_storage(c->p.type));
  c->list_at = c->info_at + gpu_aligned(c->p.batch * (i64)sizeof(i32));
  *scratch = c->list_at + (c->p.batch > 1 ? c->p.batch * (i64)sizeof(cuda_ptr) : 0);
  c->helped = !c->p.keep_other || c->p.batch > 1;
  if (c->helped) HS_TRY(add_helper(g, i->parent->module->ctx, c));
  gpu_call_stands(g, &c->call, i);
  (void)snprintf(c->call.text, sizeof c->call.text, "cuSOLVER");
  (void)snprintf(c->call.note, sizeof c->call.note, "cuSOLVER %s",
                 c->p.batch > 1 ? "potrfBatched" : "potrf");
  return HS_GOOD;
}

hs_status gpu_factor_add(gpu_program *g, const hlo_instr *i, gpu_call **out, i64 *scratch) {
  factor_call *c = HS_NEW(&g->arena, factor_call);
  *c = (factor_call){.call.kind = &factors};
  HS_TRY(gpu_solver_find(g->dev, &c->solver));
  HS_REQUIRE(cpu_linalg_of(i, &c->p));
  c->type = gpu_linear_type(c->p.type);
  gpu_call_add(g, &c->call);
  HS_TRY(make(g, i, c, scratch));
  *out = &c->call;
  return HS_GOOD;
}

#endif
