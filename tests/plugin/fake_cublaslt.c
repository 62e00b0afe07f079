// fake_cublaslt.c — a cuBLASLt of our own for tests: multiplies in the emulated device's memory,
// and misbehaves on request.
//
// It is as strict as the library's documentation allows it to be: types that go together, sizes
// of attributes, leading dimensions, strides of batches that do not overlap, alignment, memory
// that was allocated, an algorithm that its heuristic has named for these very descriptors, an
// epilogue with all that it reads and writes. What breaks a rule answers INVALID_VALUE and says on
// stderr which. Products are computed when the stream comes to them, so they are part of what is
// recorded.
//
// What it does stands in its own file name, as for fake_cuda.c: NAME-MODE.so. Modes:
//   ok           three algorithms, of which number 2 is the fastest
//   old, new     says version 10.2, 14.0
//   unsupported  its heuristic knows nothing
//   nomemory     does not start for want of memory
//   failing      every product fails
//   fussy        algorithms 1 and 2 fail
//   slow         all algorithms are slow
//   missing      has no cublasLtMatmul (the test renames it in its copy)
#include "backends/gpu/cuda/cublaslt.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "core/types/literal.h"
#include "tests/plugin/fake_library.h"

#define FAKE_NAME "fake_cublaslt"
#define FAKE_BROKEN BLAS_INVALID_VALUE

enum { ALGORITHMS = 3, FASTEST = 2, SMALL_WORKSPACE = 4096, ALIGN = 16 };

struct blas_handle {
  bool open;
};
struct blas_desc {
  int compute, scale;
  i32 turn[2];
  u32 epilogue;  // 0: none was set
  cuda_ptr bias, both;
  i64 both_leading, both_stride;
};
struct blas_layout {
  int type;
  i32 batch;
  u64 rows, columns;
  i64 leading, batch_stride;
};
struct blas_preference {
  size_t workspace;
};

// ---- descriptors --------------------------------------------------------------------------------
EXPORT size_t cublasLtGetVersion(void);
size_t cublasLtGetVersion(void) { return is("old") ? 10200 : is("new") ? 140000 : 130100; }

#define BLAS_FN(field, symbol, need, args) EXPORT blas_result symbol args;
#include "backends/gpu/cuda/cublaslt.def"
#undef BLAS_FN

blas_result cublasLtCreate(blas_handle **handle) {
  if (is("nomemory")) return BLAS_ALLOC_FAILED;
  *handle = calloc(1, sizeof **handle);
  (*handle)->open = true;
  return BLAS_OK;
}

blas_result cublasLtDestroy(blas_handle *handle) { return free(handle), BLAS_OK; }

blas_result cublasLtMatmulDescCreate(blas_desc **desc, int compute, int scale) {
  bool known = (scale == BLAS_F32 && (compute == BLAS_BY_F32 || compute == BLAS_BY_TF32)) ||
               (scale == BLAS_F64 && compute == BLAS_BY_F64) ||
               (scale == BLAS_S32 && compute == BLAS_BY_S32);
  RULE(known);
  *desc = calloc(1, sizeof **desc);
  **desc = (blas_desc){.compute = compute, .scale = scale};
  return BLAS_OK;
}

blas_result cublasLtMatmulDescSetAttribute(blas_desc *d, int attribute, const void *value,
                                           size_t bytes) {
  const struct {
    int attribute;
    void *at;
    size_t bytes;
  } own[] = {{BLAS_DESC_EPILOGUE, &d->epilogue, sizeof d->epilogue},
             {BLAS_DESC_BIAS, &d->bias, sizeof d->bias},
             {BLAS_DESC_BOTH, &d->both, sizeof d->both},
             {BLAS_DESC_BOTH_LEADING, &d->both_leading, sizeof d->both_leading},
             {BLAS_DESC_BOTH_STRIDE, &d->both_stride, sizeof d->both_stride}};
  for (size_t k = 0; k < HS_COUNT(own); k++) {
    if (own[k].attribute != attribute) continue;
    RULE(bytes == own[k].bytes);
    return memcpy(own[k].at, value, bytes), BLAS_OK;
  }
  RULE(attribute == BLAS_DESC_TURN_A || attribute == BLAS_DESC_TURN_B);
  RULE(bytes == sizeof(i32));
  i32 *to = &d->turn[attribute == BLAS_DESC_TURN_B];
  memcpy(to, value, sizeof *to);
  RULE(*to == BLAS_OP_PLAIN || *to == BLAS_OP_TURNED);
  return BLAS_OK;
}

blas_result cublasLtMatmulDescDestroy(blas_desc *d) { return free(d), BLAS_OK; }

blas_result cublasLtMatrixLayoutCreate(blas_layout **l, int type, u64 rows, u64 columns,
                                       i64 leading) {
  RULE(rows > 0 && columns > 0 && leading >= (i64)rows);
  *l = calloc(1, sizeof **l);
  **l =
      (blas_layout){.type = type, .batch = 1, .rows = rows, .columns = columns, .leading = leading};
  return BLAS_OK;
}

blas_result cublasLtMatrixLayoutSetAttribute(blas_layout *l, int attribute, const void *value,
                                             size_t bytes) {
  if (attribute == BLAS_LAYOUT_BATCH) {
    RULE(bytes == sizeof l->batch);
    memcpy(&l->batch, value, bytes);
    RULE(l->batch > 0);
    return BLAS_OK;
  }
  RULE(attribute == BLAS_LAYOUT_STRIDE && bytes == sizeof l->batch_stride);
  memcpy(&l->batch_stride, value, bytes);
  return BLAS_OK;
}

blas_result cublasLtMatrixLayoutDestroy(blas_layout *l) { return free(l), BLAS_OK; }

blas_result cublasLtMatmulPreferenceCreate(blas_preference **p) {
  *p = calloc(1, sizeof **p);
  return BLAS_OK;
}

blas_result cublasLtMatmulPreferenceSetAttribute(blas_preference *p, int attribute,
                                                 const void *value, size_t bytes) {
  RULE(attribute == BLAS_PREFER_WORKSPACE && bytes == sizeof(u64));
  memcpy(&p->workspace, value, bytes);
  return BLAS_OK;
}

blas_result cublasLtMatmulPreferenceDestroy(blas_preference *p) { return free(p), BLAS_OK; }

// ---- rules of a product -------------------------------------------------------------------------
static const struct {
  int number;
  hlo_dtype type;
} types[] = {{BLAS_F32, HLO_F32},           {BLAS_F64, HLO_F64},      {BLAS_F16, HLO_F16},
             {BLAS_BF16, HLO_BF16},         {BLAS_S8, HLO_S8},        {BLAS_S32, HLO_S32},
             {BLAS_F8E4M3FN, HLO_F8E4M3FN}, {BLAS_F8E5M2, HLO_F8E5M2}};

static hlo_dtype type_of(const blas_layout *l) {
  for (size_t k = 0; k < HS_COUNT(types); k++)
    if (types[k].number == l->type) return types[k].type;
  return HLO_DT_INVALID;
}

static bool is_f8(const blas_layout *l) {
  return l->type == BLAS_F8E4M3FN || l->type == BLAS_F8E5M2;
}

static bool go_together(const blas_desc *x, const blas_layout *a, const blas_layout *b,
                        const blas_layout *d) {
  bool half = a->type == BLAS_F16 || a->type == BLAS_BF16;
  if (x->compute == BLAS_BY_F64)
    return a->type == BLAS_F64 && b->type == BLAS_F64 && d->type == a->type;
  if (x->compute == BLAS_BY_S32)
    return a->type == BLAS_S8 && b->type == BLAS_S8 && d->type == BLAS_S32;
  if (is_f8(a) && is_f8(b))
    return !(a->type == BLAS_F8E5M2 && b->type == BLAS_F8E5M2) &&
           (d->type == BLAS_F32 || d->type == BLAS_F16 || d->type == BLAS_BF16);
  return a->type == b->type && (half || a->type == BLAS_F32) &&
         (d->type == a->type || d->type == BLAS_F32);
}

static bool is_multiple(const blas_layout *l, i64 of) {
  return (i64)l->rows % of == 0 && l->leading % of == 0 && l->batch_stride % of == 0;
}

// What an epilogue consists of, by its number.
typedef struct finishing {
  bool bias, relu, gelu, both;
} finishing;

static bool finishing_of(u32 epilogue, finishing *out) {
  static const struct {
    u32 number;
    finishing s;
  } all[] = {{0, {false, false, false, false}},
             {BLAS_BIAS, {true, false, false, false}},
             {BLAS_RELU, {false, true, false, false}},
             {BLAS_RELU_BIAS, {true, true, false, false}},
             {BLAS_GELU, {false, false, true, false}},
             {BLAS_GELU_BIAS, {true, false, true, false}},
             {BLAS_GELU_BOTH, {false, false, true, true}},
             {BLAS_GELU_BOTH_BIAS, {true, false, true, true}}};
  for (size_t k = 0; k < HS_COUNT(all); k++)
    if (all[k].number == epilogue) return *out = all[k].s, true;
  return false;
}

static blas_result check_epilogue(const blas_desc *x, const blas_layout *d) {
  finishing s = {0};
  RULE(finishing_of(x->epilogue, &s));
  if (x->epilogue) RULE(x->compute != BLAS_BY_F64 && x->compute != BLAS_BY_S32);
  if (s.bias) RULE(x->bias && x->bias % ALIGN == 0);
  if (!s.both) return BLAS_OK;
  RULE(x->both && x->both % ALIGN == 0);
  RULE(x->both_leading >= (i64)d->rows && x->both_leading % 8 == 0 && x->both_stride % 8 == 0);
  RULE(d->batch == 1 || x->both_stride >= x->both_leading * (i64)d->columns);
  return BLAS_OK;
}

static blas_result check(const blas_desc *x, const blas_layout *a, const blas_layout *b,
                         const blas_layout *c, const blas_layout *d) {
  u64 a_rows = x->turn[0] ? a->columns : a->rows, a_columns = x->turn[0] ? a->rows : a->columns,
      b_rows = x->turn[1] ? b->columns : b->rows, b_columns = x->turn[1] ? b->rows : b->columns;
  RULE(a_rows == d->rows && b_columns == d->columns && a_columns == b_rows);
  RULE(c->type == d->type && c->rows == d->rows && c->columns == d->columns);
  RULE(a->batch == d->batch && b->batch == d->batch && c->batch == d->batch);
  RULE(go_together(x, a, b, d));
  RULE(d->batch == 1 || d->batch_stride != 0);
  RULE(d->batch == 1 || d->leading >= (i64)d->rows + (d->batch - 1) * d->batch_stride ||
       d->batch_stride >= d->leading * (i64)(d->columns - 1) + (i64)d->rows);
  if (a->type == BLAS_S8) RULE(is_multiple(a, 4) && is_multiple(b, 4) && is_multiple(d, 4));
  if (is_f8(a)) RULE(x->turn[0] == BLAS_OP_TURNED && x->turn[1] == BLAS_OP_PLAIN);
  if (is_f8(a)) RULE(is_multiple(a, 16) && is_multiple(b, 16) && is_multiple(d, 16));
  if (x->epilogue && is_f8(a)) RULE(d->type != BLAS_F32);  // its bias would be bf16
  return check_epilogue(x, d);
}

// ---- algorithms ---------------------------------------------------------------------------------
static u64 mark_of(const blas_desc *x, const blas_layout *a, const blas_layout *b,
                   const blas_layout *d) {
  blas_desc y = *x;
  y.bias = y.both = 0;  // only their alignment matters
  u64 h = hs_hash_bytes(&y, sizeof y, 0);
  h = hs_hash_bytes(a, sizeof *a, h);
  h = hs_hash_bytes(b, sizeof *b, h);
  return hs_hash_bytes(d, sizeof *d, h);
}

static size_t workspace_of(u64 algorithm) { return algorithm == 1 ? 0 : SMALL_WORKSPACE; }

blas_result cublasLtMatmulAlgoGetHeuristic(blas_handle *handle, blas_desc *x, blas_layout *a,
                                           blas_layout *b, blas_layout *c, blas_layout *d,
                                           blas_preference *p, int asked, blas_choice *out,
                                           int *found) {
  RULE(handle && handle->open && asked > 0);
  *found = 0;
  if (is("unsupported")) return BLAS_NOT_SUPPORTED;
  blas_result r = check(x, a, b, c, d);
  for (u64 k = 1; r == BLAS_OK && k <= ALGORITHMS && *found < asked; k++)
    if (workspace_of(k) <= p->workspace)
      out[(*found)++] = (blas_choice){
          .algorithm = {{k, mark_of(x, a, b, d)}}, .workspace_bytes = workspace_of(k), .waves = 1};
  return r;
}

blas_result cublasLtMatmulAlgoConfigGetAttribute(const blas_algorithm *x, int attribute,
                                                 void *value, size_t bytes, size_t *written) {
  RULE(bytes == sizeof(u32));
  u32 v = attribute == BLAS_ALGORITHM_ID       ? (u32)x->data[0]
          : attribute == BLAS_ALGORITHM_TILE   ? 10 + (u32)x->data[0]
          : attribute == BLAS_ALGORITHM_SPLITS ? 1
                                               : 0;
  memcpy(value, &v, sizeof v);
  return *written = sizeof v, BLAS_OK;
}

// ---- products -----------------------------------------------------------------------------------
typedef struct work {
  blas_desc x;
  blas_layout a, b, d;
  const u8 *at_a, *at_b;
  u8 *at_d, *workspace;
  size_t workspace_bytes;
  u64 algorithm;
} work;

static double number_at(const blas_layout *l, const u8 *p, i64 index) {
  hlo_dtype t = type_of(l);
  return hlo_elem_to_f64(t, p + index * (i64)hlo_dtype_storage(t));
}

static i64 place(const blas_layout *l, i32 turned, i64 batch, i64 row, i64 column) {
  return batch * l->batch_stride + (turned ? row * l->leading + column : column * l->leading + row);
}

// As the library documents them: the numbers before it are not rounded, and its relu is x > 0.
static double finish(const work *w, const finishing *s, i64 batch, i64 row, i64 column, double x) {
  hlo_dtype t = type_of(&w->d);
  i64 bytes = (i64)hlo_dtype_storage(t);
  if (s->bias) x += hlo_elem_to_f64(t, (const u8 *)(uintptr_t)w->x.bias + row * bytes);
  if (s->both) {
    i64 at = batch * w->x.both_stride + column * w->x.both_leading + row;
    hlo_elem_from_f64(t, (u8 *)(uintptr_t)w->x.both + at * bytes, x);
  }
  if (s->relu) x = x > 0 ? x : 0;
  if (s->gelu) x = 0.5 * x * (1 + tanh(0.7978845608028654 * (x + 0.044715 * x * x * x)));
  return x;
}

static void multiply(void *arg) {
  const work *w = arg;
  i64 steps = (i64)(w->x.turn[0] ? w->a.rows : w->a.columns);
  hlo_dtype t = type_of(&w->d);
  finishing s = {0};
  (void)finishing_of(w->x.epilogue, &s);
  if (w->workspace) memset(w->workspace, 0xa5, w->workspace_bytes);
  for (i64 g = 0; g < w->d.batch; g++)
    for (i64 n = 0; n < (i64)w->d.columns; n++)
      for (i64 m = 0; m < (i64)w->d.rows; m++) {
        double sum = 0;
        for (i64 k = 0; k < steps; k++)
          sum += number_at(&w->a, w->at_a, place(&w->a, w->x.turn[0], g, m, k)) *
                 number_at(&w->b, w->at_b, place(&w->b, w->x.turn[1], g, k, n));
        hlo_elem_from_f64(t, w->at_d + place(&w->d, 0, g, m, n) * (i64)hlo_dtype_storage(t),
                          finish(w, &s, g, m, n, sum));
      }
  if (w->algorithm != FASTEST) (void)usleep(20000);
  if (is("slow")) (void)sleep(1);
}

static bool is_memory(const blas_layout *l, cuda_ptr p) {
  i64 n = (l->batch - 1) * l->batch_stride + (i64)(l->columns - 1) * l->leading + (i64)l->rows;
  return on_device(p, n * (i64)hlo_dtype_storage(type_of(l)), ALIGN);
}

// What an epilogue reads and writes is memory of its own.
static bool is_epilogue_memory(const blas_desc *x, const blas_layout *l, cuda_ptr d) {
  finishing s = {0};
  i64 bytes = (i64)hlo_dtype_storage(type_of(l)),
      whole = bytes * ((l->batch - 1) * x->both_stride + (i64)(l->columns - 1) * x->both_leading +
                       (i64)l->rows);
  return finishing_of(x->epilogue, &s) &&
         (!s.bias || on_device(x->bias, (i64)l->rows * bytes, ALIGN)) &&
         (!s.both || (x->both != d && on_device(x->both, whole, ALIGN)));
}

static bool is_factor(const blas_desc *x, const void *p, int value) {
  double v = x->scale == BLAS_F64   ? *(const double *)p
             : x->scale == BLAS_S32 ? *(const i32 *)p
                                    : (double)*(const float *)p;
  return v == value;
}

blas_result cublasLtMatmul(blas_handle *handle, blas_desc *x, const void *alpha, cuda_ptr a,
                           blas_layout *la, cuda_ptr b, blas_layout *lb, const void *beta,
                           cuda_ptr c, blas_layout *lc, cuda_ptr d, blas_layout *ld,
                           const blas_algorithm *algorithm, cuda_ptr workspace,
                           size_t workspace_bytes, cuda_stream *stream) {
  RULE(handle && handle->open);
  blas_result r = check(x, la, lb, lc, ld);
  if (r != BLAS_OK) return r;
  u64 k = algorithm->data[0];
  RULE(k >= 1 && k <= ALGORITHMS && algorithm->data[1] == mark_of(x, la, lb, ld));
  RULE(is_factor(x, alpha, 1) && is_factor(x, beta, 0));
  RULE(is_memory(la, a) && is_memory(lb, b) && is_memory(ld, d) && c == d);
  RULE(is_epilogue_memory(x, ld, d));
  RULE(workspace_bytes >= workspace_of(k) && workspace % ALIGN == 0);
  RULE(workspace_bytes == 0 || workspace != 0);
  if (is("failing") || (is("fussy") && k < 3)) return BLAS_EXECUTION_FAILED;
  work *w = calloc(1, sizeof *w);  // as long as the process: it may be recorded
  *w = (work){*x,
              *la,
              *lb,
              *ld,
              (const u8 *)(uintptr_t)a,
              (const u8 *)(uintptr_t)b,
              (u8 *)(uintptr_t)d,
              (u8 *)(uintptr_t)workspace,
              workspace_bytes,
              k};
  return enqueue(stream, multiply, w) ? BLAS_OK : BLAS_EXECUTION_FAILED;
}
