// lapack.c — LU and QR factors, eigenvalues and singular values by cuSOLVER: LAPACK's calls of
// JAX, and XLA's own two of QR. See library.h.
//
// A call is a row of `routines`: what its operands and results have to be, what workspace cuSOLVER
// wants, how it is called for one matrix. Matrices of a batch are done one after the other, or,
// where they are small or many (by JAX's rule), by one call for all: of cuBLAS, if it is here, or
// of cuSOLVER. What is overwritten is copied to its result's place and worked on there.
//
// cuSOLVER has matrices by columns. Those by rows are worked on in the scratch block, and helpers
// turn them there and back. It has singular values of matrices with at least as many rows as
// columns only: of a wide one it gets the transpose, whose factors are the wanted ones exchanged
// and transposed; so there the matrices by rows are those that stay where they lie. It has right
// eigenvectors of any matrix (geev), of real numbers packed as by LAPACK, which a helper unpacks;
// calls that ask for left ones are the host's, as all are where cuSOLVER is older than CUDA 12.8's.
//
// Vectors of eigenproblems and of singular values have the signs that cuSOLVER gives them, which
// need not be LAPACK's; what LAPACK destroys (the matrix, where singular values are asked for) is
// something else here. NaN is computed with, where LAPACKE looks for it first and refuses.
#include "backends/gpu/lapack.h"

#include <stdio.h>

#if HAVE_LLVM

bool gpu_lapack_is(const hlo_instr *i) {
  lapack_call c = {0};
  return gpu_lapack_describe(i, &c);
}

// ---- running ------------------------------------------------------------------------------------

static i64 bytes_of(const lapack_call *c, const matrices *x) {
  return x->rows * x->columns * (i64)hlo_dtype_storage(c->type);
}

// Whether the library works on them in the scratch block.
static bool is_apart(const matrices *x) {
  return x->own || x->turn_to || (x->turn_from && x->to == NOWHERE);
}

// Where the library works on them, with the operand's there.
static hs_status bring(gpu_program *g, const cpu_step *s, lapack_call *c, const matrices *x,
                       cuda_ptr *at) {
  cuda_ptr from = x->from == NOWHERE ? 0 : gpu_address(g, s->vals[x->from]);
  *at = is_apart(x)        ? g->addr[s->scratch_slot] + (cuda_ptr)x->at
        : x->to == NOWHERE ? from
                           : gpu_address(g, s->vals[s->nin + x->to]);
  if (x->from == NOWHERE) return HS_GOOD;
  if (x->turn_from)
    return gpu_helper_run(g, &c->call, x->helper_from, 3, (cuda_ptr[]){from, *at, 0});
  return gpu_copy(g, *at, from, (size_t)(c->batch * bytes_of(c, x)));
}

static hs_status compute(gpu_program *g, const cpu_step *s, lapack_call *c, const cuda_ptr *at) {
  cuda_ptr scratch = g->addr[s->scratch_slot], vector[MOST_VECTORS] = {0},
           info = c->info == NOWHERE ? scratch + (cuda_ptr)c->info_at
                                     : gpu_address(g, s->vals[c->info]);
  for (u32 k = 0; k < c->nvectors; k++) vector[k] = gpu_address(g, s->vals[c->vector[k].leaf]);
  if (c->all) {
    g->launches++;
    return c->all->run(g, c, at, vector, scratch, info);
  }
  HS_TRY(solver_check(c->solver->api.stream(c->solver->handle, g->dev->stream), c->routine->call));
  for (i64 b = 0; b < c->batch; b++) {
    cuda_ptr one[MOST_ARRAYS] = {0};
    for (u32 k = 0; k < c->narrays; k++) one[k] = at[k] + (cuda_ptr)(b * bytes_of(c, &c->array[k]));
    g->launches++;
    HS_TRY(solver_check(c->routine->run(c, one, vector, scratch, info + (cuda_ptr)b * sizeof(i32)),
                        c->routine->call));
    for (u32 k = 0; k < c->nvectors; k++) vector[k] += (cuda_ptr)c->vector[k].bytes;
  }
  return HS_GOOD;
}

static hs_status run_call(gpu_program *g, const cpu_step *s, gpu_call *x) {
  lapack_call *c = (lapack_call *)x;
  cuda_ptr at[MOST_ARRAYS] = {0};
  for (u32 k = 0; k < c->narrays; k++) HS_TRY(bring(g, s, c, &c->array[k], &at[k]));
  HS_TRY(compute(g, s, c, at));
  for (u32 k = 0; k < c->narrays; k++)
    if (c->array[k].turn_to)
      HS_TRY(
          gpu_helper_run(g, x, c->array[k].helper_to, 3,
                         (cuda_ptr[]){at[k], gpu_address(g, s->vals[s->nin + c->array[k].to]), 0}));
  for (u32 k = 0; k < c->nzeros; k++) {
    u32 value = s->vals[s->nin + c->zeros[k]];
    GPU_TRY(g->dev,
            g->dev->d.set8(gpu_address(g, value), 0, g->p->values.v[value].bytes, g->dev->stream),
            "zeros");
  }
  return HS_GOOD;
}

static void print_call(const gpu_call *x, hs_buf *out) {
  const lapack_call *c = (const lapack_call *)x;
  hs_buf_printf(out, "%lld of %lld x %lld", (long long)c->batch, (long long)c->m, (long long)c->n);
}

static void free_call(gpu_program *g, gpu_call *x) {
  lapack_call *c = (lapack_call *)x;
  gpu_addresses_free(g, &c->list);
  if (c->jacobi) (void)c->solver->api.jacobi_free(c->jacobi);
  if (c->turns) (void)c->solver->api.turns_free(c->turns);
  if (c->params) (void)c->solver->api.params_free(c->params);
  if (c->host) (void)g->dev->d.host_free(c->host);
}

static const gpu_call_kind calls = {
    .unrecorded = true, .run = run_call, .print = print_call, .free = free_call};

// ---- making -------------------------------------------------------------------------------------

// A helper from matrices of `rows` lines to ones with the first `kept` of them as lines or, turned,
// as columns.
static hs_status add_turn(gpu_program *g, hlo_ctx *ctx, lapack_call *c, i64 rows, i64 columns,
                          i64 kept, bool turned, bool conjugate) {
  const char *t = hlo_dtype_text(c->type), *part = hlo_dtype_text(hlo_dtype_real_part(c->type));
  long long b = c->batch, r = rows, n = columns, k = kept;
  char *from = hs_format("[%lld,%lld,%lld]", b, r, n),
       *some = hs_format("[%lld,%lld,%lld]", b, k, n),
       *to = turned ? hs_format("[%lld,%lld,%lld]", b, n, k) : hs_strdup(some);
  hs_buf out = {0};
  hs_buf_printf(&out, "HloModule turn\nf { x = %s%s parameter(0)\n", t, from);
  if (kept < rows)
    hs_buf_printf(&out, " s = %s%s slice(x), slice={[0:%lld], [0:%lld], [0:%lld]}\n", t, some, b, k,
                  n);
  const char *last = kept < rows ? "s" : "x";
  if (conjugate) {
    hs_buf_printf(&out, " re = %s%s real(%s)\n im = %s%s imag(%s)\n", part, some, last, part, some,
                  last);
    hs_buf_printf(&out, " n = %s%s negate(im)\n c = %s%s complex(re, n)\n", part, some, t, some);
    last = "c";
  }
  hs_buf_printf(&out, " ROOT t = %s%s %s(%s)%s }\n", t, to, turned ? "transpose" : "copy", last,
                turned ? ", dimensions={0,2,1}" : "");
  hs_buf_printf(&out, "ENTRY e { x = %s%s parameter(0)\n", t, from);
  hs_buf_printf(&out, " ROOT turned = %s%s fusion(x), kind=kLoop, calls=f }\n", t, to);
  hs_status s = gpu_helper_add(g, ctx, hs_buf_cstr(&out), &c->call);
  hs_buf_free(&out);
  hs_free(to);
  hs_free(some);
  hs_free(from);
  return s;
}

// What lies wrong gets a place in the scratch block, and helpers.
static hs_status place(gpu_program *g, hlo_ctx *ctx, lapack_call *c, const hlo_instr *i, u32 k,
                       i64 *scratch) {
  matrices *x = &c->array[k];
  if (is_apart(x)) {
    x->at = *scratch;
    *scratch += gpu_aligned(c->batch * bytes_of(c, x));
  }
  if (x->turn_from) {
    bool by_rows = hlo_shape_is_row_major(hlo_operand(i, x->from)->shape);
    x->helper_from = c->call.nhelpers;
    i64 lines = by_rows ? x->rows : x->columns;
    HS_TRY(add_turn(g, ctx, c, lines, by_rows ? x->columns : x->rows, lines, true, false));
  }
  if (!x->turn_to) return HS_GOOD;
  x->helper_to = c->call.nhelpers;
  if (x->kept) return add_turn(g, ctx, c, x->columns, x->rows, x->kept, x->turned, x->conjugate);
  bool by_rows = hlo_shape_is_row_major(gpu_lapack_result(i, x->to));
  i64 lines = by_rows ? x->columns : x->rows;
  return add_turn(g, ctx, c, lines, by_rows ? x->rows : x->columns, lines, true, false);
}

static hs_status make(gpu_program *g, const hlo_instr *i, lapack_call *c, i64 *scratch) {
  const together *all = c->routine->all;
  bool may = false;
  if (all) HS_TRY(all->open(g, i, c, &may));
  if (may) c->all = all;
  else HS_TRY(c->routine->room(c));
  HS_TRY(gpu_solver_room(c->room));
  if (!c->work_bytes) c->work_bytes = c->room * (i64)hlo_dtype_storage(c->type);
  c->info_at = gpu_aligned(c->work_bytes);
  c->list_at = c->info_at + gpu_aligned(c->batch * (i64)sizeof(i32));
  *scratch = c->list_at + gpu_aligned(may ? 2 * c->batch * (i64)sizeof(cuda_ptr) : 0);
  for (u32 k = 0; k < c->narrays; k++) HS_TRY(place(g, i->parent->module->ctx, c, i, k, scratch));
  gpu_call_stands(g, &c->call, i);
  const char *library = may ? all->library : "cuSOLVER";
  (void)snprintf(c->call.text, sizeof c->call.text, "%s", library);
  (void)snprintf(c->call.note, sizeof c->call.note, "%s %s", library,
                 may ? all->call : c->routine->call);
  return HS_GOOD;
}

hs_status gpu_lapack_add(gpu_program *g, const hlo_instr *i, gpu_call **out, i64 *scratch) {
  lapack_call *c = HS_NEW(&g->arena, lapack_call);
  *c = (lapack_call){.call.kind = &calls};
  HS_TRY(gpu_solver_find(g->dev, &c->solver));
  HS_REQUIRE(gpu_lapack_describe(i, c));
  gpu_call_add(g, &c->call);
  HS_TRY(make(g, i, c, scratch));
  *out = &c->call;
  return HS_GOOD;
}

#endif
