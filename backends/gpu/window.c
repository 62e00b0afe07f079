// window.c — convolutions by cuDNN's graph API, with what is added and applied to their results:
// which ones, by which of its engines, and how they are run. See library.h.
//
// Any layouts will do, as every tensor has a stride for each dimension; there are two spatial
// dimensions or three, one more of size 1 in front where there is one. What has holes between the
// elements of its operand, or groups of a batch, stays our kernel's.
//
// An epilogue (passes/fuse/dot_epilogue.h) is a chain of pointwise operations behind the
// convolution, with numbers of the computing type between them: of 16 bits they are rounded once,
// at the end, and nothing says that a NaN passes relu, as in XLA. Of f32 the library does without
// tensor cores, which round to tf32, only chains with a bias: zeros in the scratch block are one
// where there is none.
//
// When the program is on the device, the library's heuristic names engines; those that round more
// than the types say, or add up in no fixed order, or by transforms that spread an infinity, are
// left out by their notes. A few are timed there, as algorithms of dots are (blas.c).
#include "backends/gpu/library.h"

#include <stdio.h>

#include "passes/fuse/dot_epilogue.h"

#if HAVE_LLVM

enum {
  MOST_RANK = 5,
  MOST_SPATIAL = 3,
  MOST_CONFIGS = 512,     // of the heuristic
  TRIED = 4,              // of those that will do
  PLANNED = 16,           // so many at most: some engines are compiled for it
  NOTES = 16,             // of an engine
  LEAST_STEPS = 1 << 21,  // multiplications of one that is worth a library's choice
  ALIGNMENT = 16,
};
#define MOST_WORKSPACE ((i64)64 << 20)

typedef struct tensor {
  i64 dims[MOST_RANK], strides[MOST_RANK];
} tensor;

// Operands of the instruction, by what the library does with them.
typedef enum part { PART_X, PART_W, PART_SIDE, PART_BIAS, PARTS } part;
enum { NO_OPERAND = UINT32_MAX };

typedef struct window {
  int type, compute;
  u32 spatial;
  u32 operand[PARTS];  // NO_OPERAND: nothing is added
  dot_activation activation;
  tensor x, w, y, side;
  i64 stride[MOST_SPATIAL], dilation[MOST_SPATIAL], before[MOST_SPATIAL], after[MOST_SPATIAL];
  bool reversed;
} window;

// What was chosen for a convolution: as long as the library is open, no other program times it
// again.
typedef struct found {
  window w;
  backend_libraries libraries;
  i64 engine, config, workspace;  // config: its place among the heuristic's
  bool chosen;
  char text[64], note[200];
} found;

typedef struct gpu_dnn {
  gpu_library l;
  dnn_api api;
  dnn_handle *handle;
  HS_VEC(found) found;
} gpu_dnn;

enum {
  MOST_STEPS = 3,  // of an epilogue
  // x, w, y; convolution, operation, graph; an operand, a result, what is done and the operation
  DESCS = 6 + 4 * MOST_STEPS,
};
typedef struct window_call {
  gpu_call call;
  window w;
  const gpu_dnn *dnn;
  u32 ndescs;
  dnn_desc *desc[DESCS], *graph, *plan;  // graph: one of desc
  i64 workspace;
} window_call;

static hs_status open_dnn(gpu_library *l) {
  gpu_dnn *x = (gpu_dnn *)l;
  HS_TRY(dnn_open(NULL, &x->api));
  return dnn_check(x->api.create(&x->handle), "starting cuDNN");
}

static const gpu_library_kind cudnn = {
    .bytes = sizeof(gpu_dnn), .name = "cuDNN", .variable = "HLOSH_LIBCUDNN", .open = open_dnn};

// ---- which convolutions -------------------------------------------------------------------------

static bool type_of(hlo_dtype t, int *type, int *compute) {
  static const struct {
    hlo_dtype dtype;
    int type, compute;
  } types[] = {{HLO_F32, DNN_F32, DNN_F32},
               {HLO_F64, DNN_F64, DNN_F64},
               {HLO_F16, DNN_F16, DNN_F32},
               {HLO_BF16, DNN_BF16, DNN_F32}};
  for (size_t k = 0; k < HS_COUNT(types); k++)
    if (types[k].dtype == t) return *type = types[k].type, *compute = types[k].compute, true;
  return false;
}

// Dimensions as the library has them: two of the labels, then `n` spatial ones.
static bool tensor_of(const hlo_shape *s, i64 first, i64 second, const i64 *spatial, u32 n,
                      tensor *out) {
  i64 strides[MOST_RANK];
  if (!gpu_strides(s, MOST_RANK, strides)) return false;
  u32 extra = n == 1;
  out->dims[0] = s->dims[first], out->strides[0] = strides[first];
  out->dims[1] = s->dims[second], out->strides[1] = strides[second];
  for (u32 k = 0; k < n; k++) {
    out->dims[2 + extra + k] = s->dims[spatial[k]];
    out->strides[2 + extra + k] = strides[spatial[k]];
  }
  if (extra) out->dims[2] = 1, out->strides[2] = out->strides[3] * out->dims[3];
  for (u32 k = 0; k < 2 + extra + n; k++)
    if (out->dims[k] > INT32_MAX || out->strides[k] > INT32_MAX) return false;
  return true;
}

static bool windows_of(const hlo_window *v, window *out) {
  u32 extra = v->n == 1;
  if (extra) out->stride[0] = out->dilation[0] = 1;
  for (u32 k = 0; k < v->n; k++) {
    const hlo_window_dim *d = &v->v[k];
    if (d->lhs_dilate != 1 || d->pad_low < 0 || d->pad_high < 0 || d->reversal != v->v[0].reversal)
      return false;
    out->stride[extra + k] = d->stride, out->dilation[extra + k] = d->rhs_dilate;
    out->before[extra + k] = d->pad_low, out->after[extra + k] = d->pad_high;
  }
  out->reversed = v->v[0].reversal;
  out->spatial = v->n + extra;
  return true;
}

static bool window_of_convolution(const hlo_instr *i, window *out) {
  *out = (window){.operand = {[PART_X] = 0, 1, NO_OPERAND, NO_OPERAND}};
  if (i->opcode != HLO_CONVOLUTION || i->shape->elements == 0) return false;
  const hlo_shape *x = hlo_operand(i, 0)->shape, *w = hlo_operand(i, 1)->shape, *y = i->shape;
  const hlo_dim_labels *l = hlo_attr_ptr(i, HLO_ATTR_DIM_LABELS);
  const hlo_window *v = hlo_attr_ptr(i, HLO_ATTR_WINDOW);
  return l && v && v->n == l->nspatial && v->n >= 1 && v->n <= MOST_SPATIAL &&
         x->dtype == y->dtype && w->dtype == y->dtype && x->elements > 0 && w->elements > 0 &&
         hlo_attr_int(i, HLO_ATTR_BATCH_GROUP_COUNT, 1) == 1 &&
         type_of(y->dtype, &out->type, &out->compute) && windows_of(v, out) &&
         tensor_of(x, l->lhs_batch, l->lhs_feature, l->lhs_spatial, v->n, &out->x) &&
         tensor_of(w, l->rhs_output_feature, l->rhs_input_feature, l->rhs_spatial, v->n, &out->w) &&
         tensor_of(y, l->out_batch, l->out_feature, l->out_spatial, v->n, &out->y);
}

static bool parameter_of(const hlo_instr *i, u32 *out) {
  if (i->opcode != HLO_PARAMETER) return false;
  *out = (u32)hlo_param_number(i);
  return true;
}

// A convolution with an epilogue, all of whose operands are the fusion's.
static bool window_of_fusion(const hlo_instr *i, window *out) {
  dot_epilogue e;
  bool both;
  for (u32 k = 0; k < i->noperands; k++)
    if (!hlo_shape_is_array(hlo_operand(i, k)->shape)) return false;
  if (!pass_dot_epilogue_body(hlo_fusion_comp(i), &e, &both) || both ||
      !window_of_convolution(e.dot, out) || out->type == DNN_F64 ||
      !parameter_of(hlo_operand(e.dot, 0), &out->operand[PART_X]) ||
      !parameter_of(hlo_operand(e.dot, 1), &out->operand[PART_W]))
    return false;
  const hlo_dim_labels *l = hlo_attr_ptr(e.dot, HLO_ATTR_DIM_LABELS);
  const hlo_shape *y = i->shape;
  u32 n = l->nspatial;
  out->activation = e.activation;
  if (e.activation == DOT_GELU && out->type == DNN_F32) return false;
  if (!hlo_shape_same_dims(y, e.dot->shape) ||
      !tensor_of(y, l->out_batch, l->out_feature, l->out_spatial, n, &out->y))
    return false;
  if (e.side &&
      (!parameter_of(e.side, &out->operand[PART_SIDE]) || e.side->shape->dtype != y->dtype ||
       !hlo_shape_same_dims(e.side->shape, y) ||
       !tensor_of(e.side->shape, l->out_batch, l->out_feature, l->out_spatial, n, &out->side)))
    return false;
  if (!e.bias) return true;
  hlo_ints to = hlo_attr_ints(e.bias, HLO_ATTR_DIMENSIONS);
  const hlo_instr *vector = hlo_operand(e.bias, 0);
  return to.n == 1 && to.v[0] == l->out_feature && vector->shape->dtype == y->dtype &&
         parameter_of(vector, &out->operand[PART_BIAS]);
}

// Bytes of zeros that are a bias, at the beginning of the scratch block.
static i64 zeros_of(const window *w) {
  bool chain = w->operand[PART_SIDE] != NO_OPERAND || w->activation;
  if (!chain || w->type != DNN_F32 || w->operand[PART_BIAS] != NO_OPERAND) return 0;
  return gpu_aligned(w->y.dims[1] * (i64)sizeof(float));
}

static bool window_of(const hlo_instr *i, window *out) {
  return i->opcode == HLO_FUSION ? window_of_fusion(i, out) : window_of_convolution(i, out);
}

static double steps_of(const hlo_instr *i, const window *w) {
  double n = (double)i->shape->elements * (double)w->w.dims[1];
  for (u32 k = 0; k < w->spatial; k++) n *= (double)w->w.dims[2 + k];
  return n;
}

static bool is_meant(const gpu_program *g, const hlo_instr *i, window *w) {
  return g->dev && g->libraries != BACKEND_LIBRARIES_OFF && window_of(i, w) &&
         (w->type != DNN_BF16 || g->sm >= 80) &&
         (g->libraries == BACKEND_LIBRARIES_ON || steps_of(i, w) >= LEAST_STEPS);
}

hs_status gpu_window_wants(gpu_program *g, const hlo_instr *i, i64 *workspace) {
  window w;
  gpu_library *l;
  *workspace = -1;
  if (!is_meant(g, i, &w)) return HS_GOOD;
  hs_status s = gpu_library_find(g->dev, &g->dev->library[GPU_CUDNN], &cudnn, &l);
  i64 bytes = hlo_shape_bytes(i->shape);
  if (hs_ok(s)) *workspace = zeros_of(&w) + HS_MIN(4 * gpu_aligned(bytes), MOST_WORKSPACE);
  else if (g->libraries == BACKEND_LIBRARIES_ON) return s;
  hs_status_drop(s);
  return HS_GOOD;
}

// ---- descriptors --------------------------------------------------------------------------------

typedef struct attribute {
  int name, type;
  i64 n;
  const void *values;
} attribute;

static hs_status make(const dnn_api *api, int kind, u32 n, const attribute *a, dnn_desc **out) {
  static const char what[] = "describing a convolution";
  HS_TRY(dnn_check(api->desc_new(kind, out), what));
  for (u32 k = 0; k < n; k++)
    HS_TRY(dnn_check(api->desc_set(*out, a[k].name, a[k].type, a[k].n, a[k].values), what));
  return dnn_check(api->desc_ready(*out), what);
}
#define MAKE(api, kind, list, out) make((api), (kind), (u32)HS_COUNT(list), (list), (out))

// The call's next descriptor, which it frees.
static dnn_desc **next_of(window_call *c) { return &c->desc[c->ndescs++]; }

// Tensors that lie in memory have the number of their operand's part, and y the next one; virtual
// ones, of the computing type, are between two operations.
static hs_status make_tensor(window_call *c, const tensor *t, i64 id, bool is_virtual,
                             dnn_desc **out) {
  i64 alignment = ALIGNMENT, rank = 2 + c->w.spatial;
  const attribute a[] = {{DNN_TENSOR_TYPE, DNN_OF_TYPE, 1, is_virtual ? &c->w.compute : &c->w.type},
                         {DNN_TENSOR_DIMS, DNN_OF_I64, rank, t->dims},
                         {DNN_TENSOR_STRIDES, DNN_OF_I64, rank, t->strides},
                         {DNN_TENSOR_ID, DNN_OF_I64, 1, &id},
                         {DNN_TENSOR_ALIGNMENT, DNN_OF_I64, 1, &alignment},
                         {DNN_TENSOR_VIRTUAL, DNN_OF_BOOL, 1, &is_virtual}};
  dnn_desc **d = next_of(c);
  hs_status s = make(&c->dnn->api, DNN_TENSOR, (u32)HS_COUNT(a) - !is_virtual, a, d);
  *out = *d;
  return s;
}

static hs_status make_convolution(const window_call *c, dnn_desc **out) {
  const window *w = &c->w;
  i64 n = w->spatial;
  int mode = w->reversed ? DNN_MODE_REVERSED : DNN_MODE_PLAIN;
  const attribute a[] = {{DNN_CONVOLUTION_RANK, DNN_OF_I64, 1, &n},
                         {DNN_CONVOLUTION_TYPE, DNN_OF_TYPE, 1, &w->compute},
                         {DNN_CONVOLUTION_MODE, DNN_OF_MODE, 1, &mode},
                         {DNN_CONVOLUTION_STRIDES, DNN_OF_I64, n, w->stride},
                         {DNN_CONVOLUTION_DILATIONS, DNN_OF_I64, n, w->dilation},
                         {DNN_CONVOLUTION_BEFORE, DNN_OF_I64, n, w->before},
                         {DNN_CONVOLUTION_AFTER, DNN_OF_I64, n, w->after}};
  return MAKE(&c->dnn->api, DNN_CONVOLUTION, a, out);
}

static hs_status make_forward(window_call *c, dnn_desc *x, dnn_desc *w, dnn_desc *y,
                              dnn_desc **out) {
  const double wide[] = {1, 0};
  const float narrow[] = {1, 0};
  bool f64 = c->w.type == DNN_F64;
  int of = f64 ? DNN_OF_F64 : DNN_OF_F32;
  dnn_desc **convolution = next_of(c), **d = next_of(c);
  HS_TRY(make_convolution(c, convolution));
  const attribute a[] = {{DNN_FORWARD_CONVOLUTION, DNN_OF_DESC, 1, convolution},
                         {DNN_FORWARD_X, DNN_OF_DESC, 1, &x},
                         {DNN_FORWARD_W, DNN_OF_DESC, 1, &w},
                         {DNN_FORWARD_Y, DNN_OF_DESC, 1, &y},
                         {DNN_FORWARD_ALPHA, of, 1, f64 ? (const void *)&wide[0] : &narrow[0]},
                         {DNN_FORWARD_BETA, of, 1, f64 ? (const void *)&wide[1] : &narrow[1]}};
  HS_TRY(MAKE(&c->dnn->api, DNN_FORWARD, a, d));
  *out = *d;
  return HS_GOOD;
}

// What an epilogue does, one after the other: with an operand, or without.
typedef struct step {
  int mode;
  part with;  // PARTS: nothing
} step;

static u32 steps_behind(const window *w, step *out) {
  static const int modes[] = {[DOT_RELU] = DNN_RELU, [DOT_GELU] = DNN_GELU};
  u32 n = 0;
  if (w->operand[PART_SIDE] != NO_OPERAND) out[n++] = (step){DNN_ADD, PART_SIDE};
  if (w->operand[PART_BIAS] != NO_OPERAND || zeros_of(w)) out[n++] = (step){DNN_ADD, PART_BIAS};
  if (w->activation) out[n++] = (step){modes[w->activation], PARTS};
  return n;
}

// One number for each feature.
static tensor bias_of(const window *w) {
  tensor t = {{1, w->y.dims[1]}, {w->y.dims[1], 1}};
  for (u32 k = 0; k < w->spatial; k++) t.dims[2 + k] = 1, t.strides[2 + k] = w->y.dims[1];
  return t;
}

static hs_status make_step(window_call *c, const step *s, dnn_desc *x, dnn_desc *y,
                           dnn_desc **out) {
  const tensor t = s->with == PART_BIAS ? bias_of(&c->w) : c->w.side;
  dnn_desc *b = NULL;
  if (s->with != PARTS) HS_TRY(make_tensor(c, &t, (i64)s->with + 1, false, &b));
  const attribute p[] = {{DNN_POINTWISE_MODE, DNN_OF_POINTWISE, 1, &s->mode},
                         {DNN_POINTWISE_TYPE, DNN_OF_TYPE, 1, &c->w.compute}};
  dnn_desc **pointwise = next_of(c), **d = next_of(c);
  HS_TRY(MAKE(&c->dnn->api, DNN_POINTWISE, p, pointwise));
  const attribute a[] = {{DNN_APPLY_POINTWISE, DNN_OF_DESC, 1, pointwise},
                         {DNN_APPLY_X, DNN_OF_DESC, 1, &x},
                         {DNN_APPLY_Y, DNN_OF_DESC, 1, &y},
                         {DNN_APPLY_B, DNN_OF_DESC, 1, &b}};
  HS_TRY(make(&c->dnn->api, DNN_APPLY, b ? 4 : 3, a, d));
  *out = *d;
  return HS_GOOD;
}

enum { ID_Y = PARTS + 1, ID_VIRTUAL };

static hs_status describe(window_call *c) {
  dnn_desc *x, *w, *y, *from, *ops[1 + MOST_STEPS];
  step steps[MOST_STEPS];
  u32 n = steps_behind(&c->w, steps);
  HS_TRY(make_tensor(c, &c->w.x, PART_X + 1, false, &x));
  HS_TRY(make_tensor(c, &c->w.w, PART_W + 1, false, &w));
  HS_TRY(make_tensor(c, &c->w.y, ID_Y, false, &y));
  from = y;
  if (n) HS_TRY(make_tensor(c, &c->w.y, ID_VIRTUAL, true, &from));
  HS_TRY(make_forward(c, x, w, from, &ops[0]));
  for (u32 k = 0; k < n; k++) {
    dnn_desc *to = y;
    if (k + 1 < n) HS_TRY(make_tensor(c, &c->w.y, ID_VIRTUAL + 1 + k, true, &to));
    HS_TRY(make_step(c, &steps[k], from, to, &ops[1 + k]));
    from = to;
  }
  const attribute g[] = {{DNN_GRAPH_HANDLE, DNN_OF_HANDLE, 1, &c->dnn->handle},
                         {DNN_GRAPH_OPS, DNN_OF_DESC, 1 + n, ops}};
  dnn_desc **graph = next_of(c);
  HS_TRY(MAKE(&c->dnn->api, DNN_GRAPH, g, graph));
  c->graph = *graph;
  return HS_GOOD;
}

static void drop(const dnn_api *api, dnn_desc **d) {
  if (*d) (void)api->desc_free(*d);
  *d = NULL;
}

// ---- running ------------------------------------------------------------------------------------

typedef struct trial {
  const window_call *c;
  dnn_desc *plan;
  i64 workspace;
} trial;

static hs_status run_plan(gpu_program *g, const cpu_step *s, const void *arg) {
  const trial *t = arg;
  const dnn_api *api = &t->c->dnn->api;
  i64 ids[PARTS + 1], n = 0, zeros = zeros_of(&t->c->w);
  cuda_ptr at[PARTS + 1], scratch = s->scratch_slot == CPU_NONE ? 0 : g->addr[s->scratch_slot],
                          work = t->workspace ? scratch + (cuda_ptr)zeros : 0;
  for (u32 k = 0; k < PARTS; k++) {
    u32 operand = t->c->w.operand[k];
    bool is_zeros = zeros && k == PART_BIAS;
    if (operand == NO_OPERAND && !is_zeros) continue;
    ids[n] = k + 1;
    at[n++] = is_zeros ? scratch : gpu_address(g, s->vals[operand]);
  }
  if (zeros)
    GPU_TRY(g->dev, g->dev->d.set8(scratch, 0, (size_t)zeros, g->dev->stream), "a bias of zeros");
  ids[n] = ID_Y;
  at[n++] = gpu_address(g, s->vals[s->nin]);
  const attribute a[] = {{DNN_PACK_IDS, DNN_OF_I64, n, ids},
                         {DNN_PACK_POINTERS, DNN_OF_POINTER, n, at},
                         {DNN_PACK_WORKSPACE, DNN_OF_POINTER, 1, &work}};
  dnn_desc *pack = NULL;
  HS_TRY(dnn_check(api->stream(t->c->dnn->handle, g->dev->stream), s->instr->name));
  hs_status st = MAKE(api, DNN_PACK, a, &pack);
  g->launches++;
  if (hs_ok(st)) st = dnn_check(api->execute(t->c->dnn->handle, t->plan, pack), s->instr->name);
  drop(api, &pack);
  return st;
}

static hs_status run_call(gpu_program *g, const cpu_step *s, gpu_call *x) {
  const window_call *c = (const window_call *)x;
  return run_plan(g, s, &(trial){c, c->plan, c->workspace});
}

static void print_dims(hs_buf *out, const char *name, u32 n, const i64 *dims) {
  hs_buf_puts(out, name);
  for (u32 k = 0; k < n; k++) hs_buf_printf(out, "%s%lld", k ? " x " : " ", (long long)dims[k]);
}

static void print_call(const gpu_call *x, hs_buf *out) {
  const window *w = &((const window_call *)x)->w;
  print_dims(out, "of", 2 + w->spatial, w->x.dims);
  print_dims(out, " by", 2 + w->spatial, w->w.dims);
  static const char *const activations[] = {
      [DOT_PLAIN] = "", [DOT_RELU] = ", relu", [DOT_GELU] = ", gelu"};
  hs_buf_printf(out, "%s%s%s", w->operand[PART_SIDE] != NO_OPERAND ? ", added" : "",
                w->operand[PART_BIAS] != NO_OPERAND ? ", bias" : "", activations[w->activation]);
}

static void free_call(gpu_program *g, gpu_call *x) {
  window_call *c = (window_call *)x;
  (void)g;
  drop(&c->dnn->api, &c->plan);
  for (u32 k = DESCS; k-- > 0;) drop(&c->dnn->api, &c->desc[k]);
}

static const gpu_call_kind windows = {.run = run_call, .print = print_call, .free = free_call};

// ---- choosing -----------------------------------------------------------------------------------

static bool is_good(const window *w, i64 n, const int *notes) {
  bool half = w->type == DNN_F16 || w->type == DNN_BF16;
  static const int never[] = {DNN_NOTE_REDUCED,     DNN_NOTE_FFT,         DNN_NOTE_NONDETERMINISTIC,
                              DNN_NOTE_WINOGRAD,    DNN_NOTE_WINOGRAD_4,  DNN_NOTE_WINOGRAD_6,
                              DNN_NOTE_WINOGRAD_13, DNN_NOTE_DOWN_CONVERT};
  for (i64 k = 0; k < n; k++) {
    if (!half && notes[k] == DNN_NOTE_TENSOR_CORE) return false;
    for (size_t j = 0; j < HS_COUNT(never); j++)
      if (notes[k] == never[j]) return false;
  }
  return true;
}

// The number of a configuration's engine; -1: it will not do.
static i64 engine_of(const window_call *c, dnn_desc *config) {
  const dnn_api *api = &c->dnn->api;
  dnn_desc *engine = NULL;
  int notes[NOTES];
  i64 n = 0, number = -1, one;
  dnn_result r = api->desc_new(DNN_ENGINE, &engine);
  if (r == DNN_OK) r = api->desc_get(config, DNN_CONFIG_ENGINE, DNN_OF_DESC, 1, &one, &engine);
  if (r == DNN_OK) r = api->desc_get(engine, DNN_ENGINE_NOTES, DNN_OF_NOTE, NOTES, &n, notes);
  if (r == DNN_OK) r = api->desc_get(engine, DNN_ENGINE_NUMBER, DNN_OF_I64, 1, &one, &number);
  drop(api, &engine);
  return r == DNN_OK && n <= NOTES && is_good(&c->w, n, notes) ? number : -1;
}

// A plan of the configuration, with the workspace that it needs.
static hs_status plan_of(const window_call *c, dnn_desc *config, dnn_desc **out, i64 *workspace) {
  i64 one;
  const attribute a[] = {{DNN_PLAN_HANDLE, DNN_OF_HANDLE, 1, &c->dnn->handle},
                         {DNN_PLAN_CONFIG, DNN_OF_DESC, 1, &config}};
  HS_TRY(MAKE(&c->dnn->api, DNN_PLAN, a, out));
  return dnn_check(c->dnn->api.desc_get(*out, DNN_PLAN_WORKSPACE, DNN_OF_I64, 1, &one, workspace),
                   "planning a convolution");
}

// What the heuristic names, the fastest first as it thinks: for f32 dozens that round to tf32 may
// come before the first one that does not. An engine is named once for each way to set it up.
typedef struct configs {
  dnn_desc *heuristic, **v;
  i64 n, room;
} configs;

static hs_status ask(const window_call *c, configs *out) {
  static const char what[] = "its heuristic";
  const dnn_api *api = &c->dnn->api;
  int mode = DNN_HEURISTIC_A;
  const attribute a[] = {{DNN_HEURISTIC_GRAPH, DNN_OF_DESC, 1, &c->graph},
                         {DNN_HEURISTIC_MODE, DNN_OF_HEURISTIC, 1, &mode}};
  HS_TRY(MAKE(api, DNN_HEURISTIC, a, &out->heuristic));
#define RESULTS(most, to) \
  api->desc_get(out->heuristic, DNN_HEURISTIC_RESULTS, DNN_OF_DESC, (most), &out->n, (to))
  HS_TRY(dnn_check(RESULTS(0, NULL), what));
  out->room = HS_MIN(out->n, (i64)MOST_CONFIGS);
  if (out->room <= 0) return dnn_check(DNN_NOT_SUPPORTED, what);
  out->v = hs_calloc((size_t)out->room, sizeof(dnn_desc *));
  for (i64 k = 0; k < out->room; k++)
    HS_TRY(dnn_check(api->desc_new(DNN_CONFIG, &out->v[k]), what));
  HS_TRY(dnn_check(RESULTS(out->room, out->v), what));
#undef RESULTS
  out->n = HS_MIN(out->n, out->room);
  return HS_GOOD;
}

static void free_configs(const dnn_api *api, configs *x) {
  for (i64 k = 0; x->v && k < x->room; k++) drop(api, &x->v[k]);
  drop(api, &x->heuristic);
  hs_free(x->v);
}

static bool is_same(const window *a, const window *b) {
#define SAME(field) (memcmp(&a->field, &b->field, sizeof a->field) == 0)
  for (u32 k = PART_SIDE; k < PARTS; k++)  // which operand it is does not matter
    if ((a->operand[k] == NO_OPERAND) != (b->operand[k] == NO_OPERAND)) return false;
  return SAME(activation) && SAME(side) && SAME(type) && SAME(compute) && SAME(spatial) &&
         SAME(reversed) && SAME(x) && SAME(w) && SAME(y) && SAME(stride) && SAME(dilation) &&
         SAME(before) && SAME(after);
#undef SAME
}

static const found *find_before(const gpu_dnn *x, backend_libraries libraries, i64 room,
                                const window *w) {
  for (size_t k = 0; k < x->found.n; k++)
    if (is_same(&x->found.v[k].w, w) && x->found.v[k].libraries == libraries &&
        x->found.v[k].workspace <= room)
      return &x->found.v[k];
  return NULL;
}

static void remember(gpu_dnn *x, backend_libraries libraries, i64 engine, i64 config,
                     const window_call *c) {
  found f = {.w = c->w,
             .libraries = libraries,
             .engine = engine,
             .config = config,
             .workspace = c->workspace,
             .chosen = c->call.chosen};
  memcpy(f.text, c->call.text, sizeof f.text);
  memcpy(f.note, c->call.note, sizeof f.note);
  hs_vec_push(&x->found, f);
}

typedef struct race {
  u32 tried, planned;
  double best;
  i64 engine, config;
  hs_status last;
  const found *before;  // its configuration alone is planned, and not timed; NULL: all are
} race;

// An engine that fails is left out, unless the device goes with it.
static hs_status enter(gpu_program *g, const cpu_step *s, window_call *c, const configs *x, i64 k,
                       i64 room, race *r) {
  i64 engine = r->before && r->before->config != k ? -1 : engine_of(c, x->v[k]), workspace = 0;
  dnn_desc *plan = NULL;
  double ms = 0;
  if (engine < 0 || (r->before && engine != r->before->engine)) return HS_GOOD;
  r->planned++;
  hs_status st = plan_of(c, x->v[k], &plan, &workspace);
  bool fits = hs_ok(st) && workspace <= room;
  if (fits && !r->before) st = gpu_library_time(g, s, run_plan, &(trial){c, plan, workspace}, &ms);
  r->tried += fits && hs_ok(st);
  if (fits && hs_ok(st) && (!c->plan || ms < r->best)) {
    drop(&c->dnn->api, &c->plan);
    c->plan = plan, c->workspace = workspace;
    r->best = ms, r->engine = engine, r->config = k;
    plan = NULL;
  }
  drop(&c->dnn->api, &plan);
  if (hs_ok(st) || g->dev->failed) return st;
  hs_status_drop(r->last);
  r->last = st;
  return HS_GOOD;
}

static hs_status plan_best(gpu_program *g, const cpu_step *s, window_call *c, i64 room, race *r) {
  configs x = {0};
  hs_status st = describe(c);
  if (hs_ok(st)) st = ask(c, &x);
  for (i64 k = 0; k < x.n && r->tried < TRIED && r->planned < PLANNED && hs_ok(st); k++)
    st = enter(g, s, c, &x, k, room, r);
  free_configs(&c->dnn->api, &x);
  if (hs_ok(st) && !c->plan)
    return hs_ok(r->last) ? dnn_check(DNN_NOT_SUPPORTED, "its engines") : r->last;
  hs_status_drop(r->last);
  return st;
}

static hs_status choose_as_before(gpu_program *g, const cpu_step *s, window_call *c, i64 room,
                                  const found *f) {
  race r = {.last = HS_GOOD, .before = f};
  memcpy(c->call.text, f->text, sizeof c->call.text);
  memcpy(c->call.note, f->note, sizeof c->call.note);
  size_t n = strlen(c->call.note);
  (void)snprintf(c->call.note + n, sizeof c->call.note - n, ", found before");
  if (f->chosen) HS_TRY(plan_best(g, s, c, room, &r));
  c->call.chosen = f->chosen;
  return HS_GOOD;
}

static hs_status choose(gpu_program *g, const cpu_step *s, window_call *c) {
  gpu_dnn *x = (gpu_dnn *)g->first->dev->library[GPU_CUDNN];  // all devices do the same
  i64 room = s->scratch_slot == CPU_NONE ? 0 : (i64)g->p->slots.v[s->scratch_slot].bytes;
  room -= zeros_of(&c->w);
  const found *f = find_before(x, g->libraries, room, &c->w);
  if (f) return choose_as_before(g, s, c, room, f);
  race r = {.last = HS_GOOD};
  double ours = -1;
  HS_TRY(plan_best(g, s, c, room, &r));
  if (g->libraries == BACKEND_LIBRARIES_AUTO) HS_TRY(gpu_library_time(g, s, NULL, NULL, &ours));
  gpu_call *call = &c->call;
  call->chosen = ours < 0 || r.best <= ours;
  (void)snprintf(call->text, sizeof call->text, "cuDNN engine %lld", (long long)r.engine);
  int at = snprintf(call->note, sizeof call->note,
                    "%s engine %lld, workspace %lld B; %.4g ms, the best of %u",
                    call->chosen ? "cuDNN," : "our kernel, not cuDNN's", (long long)r.engine,
                    (long long)c->workspace, r.best, r.tried);
  if (ours >= 0)
    (void)snprintf(call->note + at, sizeof call->note - (size_t)at, "; our kernel %.4g ms", ours);
  remember(x, g->libraries, r.engine, r.config, c);
  return HS_GOOD;
}

hs_status gpu_window_prepare(gpu_program *g, u32 kernel) {
  const cpu_step *s = g->p->kernels.v[kernel];
  const gpu_library *l = g->dev->library[GPU_CUDNN];
  window w;
  if (!l || !l->open || !is_meant(g, s->instr, &w)) return HS_GOOD;
  HS_TRY(gpu_library_fill(g));
  window_call *c = HS_NEW(&g->arena, window_call);
  *c = (window_call){.call.kind = &windows, .w = w, .dnn = (const gpu_dnn *)l};
  g->kernels[kernel].call = &c->call;
  gpu_call_add(g, &c->call);
  hs_status st = choose(g, s, c);
  if (hs_ok(st) || g->dev->failed) return st;
  (void)snprintf(c->call.note, sizeof c->call.note, "our kernel: %s", st.err->message);
  hs_status_drop(st);
  return HS_GOOD;
}

#endif
