// fake_cudnn.c — a cuDNN of our own for tests: its graph API for forward convolutions and chains
// of sums, relu and gelu behind them, computed in the emulated device's memory, and misbehaving on
// request.
//
// It is as strict as the library's documentation allows it to be: attributes that a descriptor has,
// their types and numbers, nothing set or used out of turn, sizes that follow from one another,
// memory that was allocated, a workspace where a plan needs one. What breaks a rule answers
// BAD_PARAM and says on stderr which. Convolutions are computed when the stream comes to them, so
// they are part of what is recorded.
//
// Where NVIDIA's own is installed, it is asked for its opinion too: what a descriptor is that needs
// no handle is made there as well, graphs for an H100 that is not here, and has to be good there
// when it is here; and it has to name engines for it.
//
// What it does stands in its own file name, as for fake_cuda.c: NAME-MODE.so. Modes:
//   ok           six engines (below), of which number 3 is the fastest that may be used, as it is
//                set up the second time that it is named; and it is named last, as real ones that
//                do not round f32 are
//   old, new     says version 8.9, 10.0
//   unsupported  its heuristic knows no engine
//   failing      every execution fails
//   fussy        engine 3 fails
//   ways         engine 3 fails as it is set up the first time that it is named
//   missing      has no cudnnBackendExecute (the test renames it in its copy)
#include "backends/gpu/cuda/cudnn.h"

#include <dlfcn.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "backends/sandbox.h"
#include "core/types/literal.h"
#include "tests/plugin/fake_library.h"

#define FAKE_NAME "fake_cudnn"
#define FAKE_BROKEN DNN_BAD_PARAM

enum { VALUES = 16, ATTRIBUTES = 12, ENGINES = 6, WORK = 4096, MOST_RANK = 5 };
enum { MOST_OPS = 4, MOST_IDS = 5 };

static const struct engine {
  int note;  // -1: none
  i64 workspace;
  bool fast;
} engines[ENGINES] = {{DNN_NOTE_DOWN_CONVERT, 0, true}, {-1, 0, false},
                      {DNN_NOTE_TENSOR_CORE, 0, true},  {-1, WORK, true},
                      {DNN_NOTE_WINOGRAD, 0, true},     {-1, (i64)1 << 40, true}};

// The heuristic's: engine 2 in many ways, then the others; engine 3 in a slow way, then in a fast
// one.
enum { WAYS = 28, CONFIGS = WAYS + ENGINES };
static int engine_of_config(int k) {
  static const int behind[ENGINES] = {0, 1, 3, 3, 4, 5};
  return k < WAYS ? 2 : behind[k - WAYS];
}
static bool is_slow_way(int k) { return k == WAYS + 2; }

typedef struct attribute {
  int name, type;
  i64 n;
  u64 value[VALUES];  // each as wide as its type
} attribute;
struct dnn_desc {
  int kind;
  bool ready;
  int engine;             // of a configuration, an engine, a plan
  bool slow;              // of a configuration, a plan
  const dnn_desc *about;  // of a configuration, a plan: the graph, which stays until it goes
  u32 n;
  attribute a[ATTRIBUTES];
  dnn_desc *real;  // the same in NVIDIA's library; NULL: there is none
};
struct dnn_handle {
  bool open;
  cuda_stream *stream;
};

EXPORT size_t cudnnGetVersion(void);
size_t cudnnGetVersion(void) { return is("old") ? 8900 : is("new") ? 100000 : 91900; }

#define DNN_FN(field, symbol, args) EXPORT dnn_result symbol args;
#include "backends/gpu/cuda/cudnn.def"
#undef DNN_FN

// ---- handles ------------------------------------------------------------------------------------
dnn_result cudnnCreate(dnn_handle **handle) {
  *handle = calloc(1, sizeof **handle);
  (*handle)->open = true;
  return DNN_OK;
}

dnn_result cudnnDestroy(dnn_handle *handle) { return free(handle), DNN_OK; }

dnn_result cudnnSetStream(dnn_handle *handle, cuda_stream *stream) {
  RULE(handle && handle->open && stream);
  handle->stream = stream;
  return DNN_OK;
}

// ---- NVIDIA's opinion ---------------------------------------------------------------------------
// Its functions that need no device; NULL: it is not here, or must not be loaded by this program.
static const dnn_api *real_library(void) {
  if (SANDBOX_SANITIZED) return NULL;  // it would end what the library loads
  static dnn_api nvidia;
  static const char *const places[] = {"libcudnn.so.9", "/usr/local/cuda/lib64/libcudnn.so.9"};
  static bool asked;
  for (size_t k = 0; k < HS_COUNT(places) && !asked && !nvidia.library; k++)
    nvidia.library = dlopen(places[k], RTLD_NOW | RTLD_LOCAL);
  if (!asked && nvidia.library) {
#define DNN_FN(field, symbol, args) \
  *(void **)(void *)&nvidia.field = dlsym(nvidia.library, #symbol);
#include "backends/gpu/cuda/cudnn.def"
#undef DNN_FN
  }
  asked = true;
  return nvidia.library ? &nvidia : NULL;
}

// Its numbers that only this file uses; from version 9.8 on it plans for a device that is not here.
enum { DEVICE = 38, DEVICE_JSON = 2702, OF_CHAR = 24, HEURISTIC_DEVICE = 204 };
static const char h100[] =
    "{\"deviceName\":\"H100\",\"deviceVer\":900,\"driverVer\":13000,\"cudaDeviceId\":0,"
    "\"multiProcessorCount\":132,"
    "\"warpSize\":32,\"maxGridSize\":[2147483647,65535,65535],\"maxBlockSize\":[1024,1024,64],"
    "\"maxThreadsPerBlock\":1024,\"maxThreadsPerSM\":2048,\"maxCtasPerSM\":32,"
    "\"regsPerBlock\":65536,\"maxRegistersPerSM\":65536,\"maxSharedMemoryPerBlock\":49152,"
    "\"maxSharedMemoryPerBlockOptin\":232448,\"reservedSharedMemoryPerBlock\":1024,"
    "\"l2CacheSize\":52428800,\"totalGlobalMem\":85000000000,\"smClockRateKHz\":1980000,"
    "\"memClockRateKHz\":2619000,\"pciDeviceId\":9008,\"isTccDriver\":0,\"supportCoopLaunch\":1}";

// NULL: this one does not know devices that are not here.
static dnn_desc *real_device(void) {
  static dnn_desc *device;
  static bool asked;
  const dnn_api *real = real_library();
  bool first = !asked;
  asked = true;
  if (!first || !real || real->desc_new(DEVICE, &device) != DNN_OK) return device;
  dnn_result r = real->desc_set(device, DEVICE_JSON, OF_CHAR, (i64)strlen(h100), h100);
  if (r != DNN_OK || real->desc_ready(device) != DNN_OK) device = NULL;
  return device;
}

static void make_real(dnn_desc *d) {
  static const int alone[] = {DNN_TENSOR, DNN_CONVOLUTION, DNN_POINTWISE, DNN_FORWARD,
                              DNN_APPLY,  DNN_PACK,        DNN_GRAPH,     DNN_HEURISTIC};
  bool needs = d->kind == DNN_GRAPH || d->kind == DNN_HEURISTIC;
  for (size_t k = 0; k < HS_COUNT(alone); k++)
    if (d->kind == alone[k] && real_library() && (!needs || real_device()))
      (void)real_library()->desc_new(d->kind, &d->real);
  dnn_desc *device = real_device();
  if (d->real && d->kind == DNN_HEURISTIC)
    (void)real_library()->desc_set(d->real, HEURISTIC_DEVICE, DNN_OF_DESC, 1, &device);
}

// How many configurations it names for an H100; -1: it was not asked. What it says when it is asked
// for none is more, as it looks at them only when they are fetched.
static i64 real_names(const dnn_desc *heuristic) {
  enum { MOST = 64 };
  dnn_desc *configs[MOST] = {0};
  const dnn_api *real = real_library();
  i64 all = 0, n = 0;
  if (!heuristic->real) return -1;
#define NAMES(most, n, to) \
  real->desc_get(heuristic->real, DNN_HEURISTIC_RESULTS, DNN_OF_DESC, (most), (n), (to))
  bool good = NAMES(0, &all, NULL) == DNN_OK && all > 0;
  for (u32 k = 0; k < MOST; k++) (void)real->desc_new(DNN_CONFIG, &configs[k]);
  good = good && NAMES(HS_MIN(all, (i64)MOST), &n, configs) == DNN_OK;
#undef NAMES
  for (u32 k = 0; k < MOST; k++) (void)real->desc_free(configs[k]);
  return good ? n : 0;
}

// What the library says of an attribute, whose descriptors are replaced by its own.
static dnn_result set_real(dnn_desc *d, int name, int type, i64 n, const void *values) {
  dnn_desc *theirs[MOST_OPS];
  if (!d->real || name == DNN_GRAPH_HANDLE) return DNN_OK;
  for (i64 k = 0; k < n && type == DNN_OF_DESC; k++)
    theirs[k] = ((dnn_desc *const *)values)[k]->real;
  return real_library()->desc_set(d->real, name, type, n, type == DNN_OF_DESC ? theirs : values);
}

// ---- descriptors --------------------------------------------------------------------------------
// What each has, of which type, how many values at most.
static const struct known {
  int kind, name, type;
  i64 most;
} known[] = {
    {DNN_TENSOR, DNN_TENSOR_TYPE, DNN_OF_TYPE, 1},
    {DNN_TENSOR, DNN_TENSOR_DIMS, DNN_OF_I64, MOST_RANK},
    {DNN_TENSOR, DNN_TENSOR_STRIDES, DNN_OF_I64, MOST_RANK},
    {DNN_TENSOR, DNN_TENSOR_ID, DNN_OF_I64, 1},
    {DNN_TENSOR, DNN_TENSOR_ALIGNMENT, DNN_OF_I64, 1},
    {DNN_TENSOR, DNN_TENSOR_VIRTUAL, DNN_OF_BOOL, 1},
    {DNN_POINTWISE, DNN_POINTWISE_MODE, DNN_OF_POINTWISE, 1},
    {DNN_POINTWISE, DNN_POINTWISE_TYPE, DNN_OF_TYPE, 1},
    {DNN_APPLY, DNN_APPLY_POINTWISE, DNN_OF_DESC, 1},
    {DNN_APPLY, DNN_APPLY_X, DNN_OF_DESC, 1},
    {DNN_APPLY, DNN_APPLY_B, DNN_OF_DESC, 1},
    {DNN_APPLY, DNN_APPLY_Y, DNN_OF_DESC, 1},
    {DNN_CONVOLUTION, DNN_CONVOLUTION_TYPE, DNN_OF_TYPE, 1},
    {DNN_CONVOLUTION, DNN_CONVOLUTION_MODE, DNN_OF_MODE, 1},
    {DNN_CONVOLUTION, DNN_CONVOLUTION_RANK, DNN_OF_I64, 1},
    {DNN_CONVOLUTION, DNN_CONVOLUTION_DILATIONS, DNN_OF_I64, 3},
    {DNN_CONVOLUTION, DNN_CONVOLUTION_STRIDES, DNN_OF_I64, 3},
    {DNN_CONVOLUTION, DNN_CONVOLUTION_BEFORE, DNN_OF_I64, 3},
    {DNN_CONVOLUTION, DNN_CONVOLUTION_AFTER, DNN_OF_I64, 3},
    {DNN_FORWARD, DNN_FORWARD_CONVOLUTION, DNN_OF_DESC, 1},
    {DNN_FORWARD, DNN_FORWARD_X, DNN_OF_DESC, 1},
    {DNN_FORWARD, DNN_FORWARD_W, DNN_OF_DESC, 1},
    {DNN_FORWARD, DNN_FORWARD_Y, DNN_OF_DESC, 1},
    {DNN_FORWARD, DNN_FORWARD_ALPHA, DNN_OF_F32, 1},
    {DNN_FORWARD, DNN_FORWARD_BETA, DNN_OF_F32, 1},
    {DNN_FORWARD, DNN_FORWARD_ALPHA, DNN_OF_F64, 1},
    {DNN_FORWARD, DNN_FORWARD_BETA, DNN_OF_F64, 1},
    {DNN_GRAPH, DNN_GRAPH_HANDLE, DNN_OF_HANDLE, 1},
    {DNN_GRAPH, DNN_GRAPH_OPS, DNN_OF_DESC, MOST_OPS},
    {DNN_HEURISTIC, DNN_HEURISTIC_GRAPH, DNN_OF_DESC, 1},
    {DNN_HEURISTIC, DNN_HEURISTIC_MODE, DNN_OF_HEURISTIC, 1},
    {DNN_PLAN, DNN_PLAN_HANDLE, DNN_OF_HANDLE, 1},
    {DNN_PLAN, DNN_PLAN_CONFIG, DNN_OF_DESC, 1},
    {DNN_PACK, DNN_PACK_IDS, DNN_OF_I64, MOST_IDS},
    {DNN_PACK, DNN_PACK_POINTERS, DNN_OF_POINTER, MOST_IDS},
    {DNN_PACK, DNN_PACK_WORKSPACE, DNN_OF_POINTER, 1},
};

static bool is_optional(int name) { return name == DNN_TENSOR_VIRTUAL || name == DNN_APPLY_B; }

static size_t width(int type) {
  if (type == DNN_OF_BOOL) return 1;
  return type == DNN_OF_I64 || type == DNN_OF_F64 || type == DNN_OF_POINTER ||
                 type == DNN_OF_HANDLE || type == DNN_OF_DESC
             ? 8
             : 4;
}

static const attribute *find(const dnn_desc *d, int name) {
  for (u32 k = 0; d && k < d->n; k++)
    if (d->a[k].name == name) return &d->a[k];
  return NULL;
}

static i64 number(const dnn_desc *d, int name, i64 k) {
  const attribute *a = find(d, name);
  const char *p = (const char *)a->value + (size_t)k * width(a->type);
  i64 wide;
  i32 narrow;
  if (width(a->type) == 8) return memcpy(&wide, p, 8), wide;
  if (width(a->type) == 1) return *p;
  return memcpy(&narrow, p, 4), narrow;
}

static const dnn_desc *desc_of(const dnn_desc *d, int name, i64 k) {
  return (const dnn_desc *)(uintptr_t)number(d, name, k);
}
static const dnn_desc *desc_at(const dnn_desc *d, int name) { return desc_of(d, name, 0); }
static bool is_virtual(const dnn_desc *tensor) {
  return find(tensor, DNN_TENSOR_VIRTUAL) && number(tensor, DNN_TENSOR_VIRTUAL, 0);
}

dnn_result cudnnBackendCreateDescriptor(int kind, dnn_desc **desc) {
  *desc = calloc(1, sizeof **desc);
  (*desc)->kind = kind;
  make_real(*desc);
  return DNN_OK;
}

dnn_result cudnnBackendDestroyDescriptor(dnn_desc *desc) {
  if (desc && desc->real) (void)real_library()->desc_free(desc->real);
  return free(desc), DNN_OK;
}

dnn_result cudnnBackendSetAttribute(dnn_desc *d, int name, int type, i64 n, const void *values) {
  RULE(d && !d->ready && values && n > 0 && d->n < ATTRIBUTES && !find(d, name));
  size_t k = 0;
  while (k < HS_COUNT(known) &&
         (known[k].kind != d->kind || known[k].name != name || known[k].type != type))
    k++;
  RULE(k < HS_COUNT(known) && n <= known[k].most);
  attribute *a = &d->a[d->n++];
  *a = (attribute){.name = name, .type = type, .n = n};
  memcpy(a->value, values, (size_t)n * width(type));
  if (type == DNN_OF_DESC) {
    for (i64 j = 0; j < n; j++) {
      const dnn_desc *to = desc_of(d, name, j);
      RULE(to && to->ready);
    }
  }
  dnn_result nvidia_says = set_real(d, name, type, n, values);
  RULE(nvidia_says == DNN_OK);
  return DNN_OK;
}

static dnn_result check_tensor(const dnn_desc *d) {
  const attribute *dims = find(d, DNN_TENSOR_DIMS);
  RULE(dims->n >= 4 && dims->n == find(d, DNN_TENSOR_STRIDES)->n);
  for (i64 k = 0; k < dims->n; k++)
    RULE(number(d, DNN_TENSOR_DIMS, k) > 0 && number(d, DNN_TENSOR_STRIDES, k) > 0);
  return DNN_OK;
}

static dnn_result check_convolution(const dnn_desc *d) {
  i64 n = number(d, DNN_CONVOLUTION_RANK, 0);
  RULE(n >= 2 && n <= 3);
  static const int each[] = {DNN_CONVOLUTION_DILATIONS, DNN_CONVOLUTION_STRIDES,
                             DNN_CONVOLUTION_BEFORE, DNN_CONVOLUTION_AFTER};
  for (size_t k = 0; k < HS_COUNT(each); k++) {
    RULE(find(d, each[k])->n == n);
    for (i64 j = 0; j < n; j++) RULE(number(d, each[k], j) >= (k < 2 ? 1 : 0));
  }
  return DNN_OK;
}

static dnn_result check_forward(const dnn_desc *d) {
  const dnn_desc *c = desc_at(d, DNN_FORWARD_CONVOLUTION), *x = desc_at(d, DNN_FORWARD_X),
                 *w = desc_at(d, DNN_FORWARD_W), *y = desc_at(d, DNN_FORWARD_Y);
  RULE(c->kind == DNN_CONVOLUTION && x->kind == DNN_TENSOR && w->kind == DNN_TENSOR &&
       y->kind == DNN_TENSOR);
#define DIM(t, k) number(t, DNN_TENSOR_DIMS, k)
  RULE(DIM(x, 0) == DIM(y, 0) && DIM(w, 0) == DIM(y, 1) && DIM(x, 1) % DIM(w, 1) == 0);
  RULE(DIM(w, 0) % (DIM(x, 1) / DIM(w, 1)) == 0);
  i64 type = number(x, DNN_TENSOR_TYPE, 0), n = number(c, DNN_CONVOLUTION_RANK, 0);
  RULE(number(w, DNN_TENSOR_TYPE, 0) == type && !is_virtual(x) && !is_virtual(w));
  RULE(number(y, DNN_TENSOR_TYPE, 0) ==
       (is_virtual(y) ? number(c, DNN_CONVOLUTION_TYPE, 0) : type));
  RULE(number(c, DNN_CONVOLUTION_TYPE, 0) == (type == DNN_F64 ? DNN_F64 : DNN_F32));
  RULE(find(d, DNN_FORWARD_ALPHA)->type == (type == DNN_F64 ? DNN_OF_F64 : DNN_OF_F32));
  RULE(find(x, DNN_TENSOR_DIMS)->n == n + 2 && find(w, DNN_TENSOR_DIMS)->n == n + 2);
  for (i64 k = 0; k < n; k++) {
    i64 room = DIM(x, 2 + k) + number(c, DNN_CONVOLUTION_BEFORE, k) +
               number(c, DNN_CONVOLUTION_AFTER, k) -
               (DIM(w, 2 + k) - 1) * number(c, DNN_CONVOLUTION_DILATIONS, k) - 1;
    RULE(DIM(y, 2 + k) == room / number(c, DNN_CONVOLUTION_STRIDES, k) + 1);
  }
  return DNN_OK;
}

// Of what a pointwise operation takes: as large as its result, or 1.
static dnn_result check_apply(const dnn_desc *d) {
  const dnn_desc *p = desc_at(d, DNN_APPLY_POINTWISE), *x = desc_at(d, DNN_APPLY_X),
                 *y = desc_at(d, DNN_APPLY_Y);
  RULE(p->kind == DNN_POINTWISE && x->kind == DNN_TENSOR && y->kind == DNN_TENSOR);
  i64 mode = number(p, DNN_POINTWISE_MODE, 0), n = find(y, DNN_TENSOR_DIMS)->n;
  RULE(mode == DNN_ADD || mode == DNN_RELU || mode == DNN_GELU);
  RULE((mode == DNN_ADD) == (find(d, DNN_APPLY_B) != NULL));
  RULE(find(x, DNN_TENSOR_DIMS)->n == n);
  for (i64 k = 0; k < n; k++) RULE(DIM(x, k) == DIM(y, k));
  if (mode != DNN_ADD) return DNN_OK;
  const dnn_desc *b = desc_at(d, DNN_APPLY_B);
  RULE(b->kind == DNN_TENSOR && !is_virtual(b) && find(b, DNN_TENSOR_DIMS)->n == n);
  for (i64 k = 0; k < n; k++) RULE(DIM(b, k) == DIM(y, k) || DIM(b, k) == 1);
  return DNN_OK;
}

// A convolution, and a chain behind it whose inner tensors are virtual. Chains are for numbers of
// 16 and 32 bits.
static dnn_result check_graph(const dnn_desc *d) {
  i64 n = find(d, DNN_GRAPH_OPS)->n;
  const dnn_desc *op = desc_at(d, DNN_GRAPH_OPS);
  RULE(op->kind == DNN_FORWARD);
  const dnn_desc *y = desc_at(op, DNN_FORWARD_Y), *type = desc_at(op, DNN_FORWARD_X);
  if (n > 1 && number(type, DNN_TENSOR_TYPE, 0) == DNN_F64) return DNN_NOT_SUPPORTED;
  for (i64 k = 1; k < n; k++) {
    op = desc_of(d, DNN_GRAPH_OPS, k);
    RULE(op->kind == DNN_APPLY && desc_at(op, DNN_APPLY_X) == y && is_virtual(y));
    RULE(number(desc_at(op, DNN_APPLY_POINTWISE), DNN_POINTWISE_TYPE, 0) == DNN_F32);
    y = desc_at(op, DNN_APPLY_Y);
    RULE(!is_virtual(y) || number(y, DNN_TENSOR_TYPE, 0) == DNN_F32);
  }
  RULE(!is_virtual(y) && number(y, DNN_TENSOR_TYPE, 0) == number(type, DNN_TENSOR_TYPE, 0));
  return DNN_OK;
}

dnn_result cudnnBackendFinalize(dnn_desc *d) {
  RULE(d && !d->ready);
  for (size_t k = 0; k < HS_COUNT(known); k++)
    if (known[k].kind == d->kind && !is_optional(known[k].name)) RULE(find(d, known[k].name));
  dnn_result r = d->kind == DNN_TENSOR        ? check_tensor(d)
                 : d->kind == DNN_CONVOLUTION ? check_convolution(d)
                 : d->kind == DNN_FORWARD     ? check_forward(d)
                 : d->kind == DNN_APPLY       ? check_apply(d)
                 : d->kind == DNN_GRAPH       ? check_graph(d)
                                              : DNN_OK;
  if (d->kind == DNN_PLAN) {
    d->engine = desc_at(d, DNN_PLAN_CONFIG)->engine;
    d->slow = desc_at(d, DNN_PLAN_CONFIG)->slow;
    d->about = desc_at(d, DNN_PLAN_CONFIG)->about;
  }
  if (r == DNN_OK && d->real) {
    dnn_result nvidia_says = real_library()->desc_ready(d->real);
    RULE(nvidia_says == DNN_OK);
  }
  d->ready = r == DNN_OK;
  return r;
}

// ---- engines ------------------------------------------------------------------------------------
static bool has_gelu(const dnn_desc *graph) {
  for (i64 k = 1; k < find(graph, DNN_GRAPH_OPS)->n; k++) {
    const dnn_desc *p = desc_at(desc_of(graph, DNN_GRAPH_OPS, k), DNN_APPLY_POINTWISE);
    if (number(p, DNN_POINTWISE_MODE, 0) == DNN_GELU) return true;
  }
  return false;
}

static bool needs_tensor_cores(const dnn_desc *graph) {
  i64 n = find(graph, DNN_GRAPH_OPS)->n;
  const dnn_desc *x = desc_at(desc_at(graph, DNN_GRAPH_OPS), DNN_FORWARD_X);
  if (n == 1 || number(x, DNN_TENSOR_TYPE, 0) != DNN_F32) return false;
  for (i64 k = 1; k < n; k++) {
    const dnn_desc *op = desc_of(graph, DNN_GRAPH_OPS, k);
    const dnn_desc *b = find(op, DNN_APPLY_B) ? desc_at(op, DNN_APPLY_B) : NULL;
    if (b && DIM(b, 0) == 1 && DIM(b, 2) == 1 && DIM(b, 3) == 1) return false;
  }
  return true;
}

dnn_result cudnnBackendGetAttribute(dnn_desc *d, int name, int type, i64 asked, i64 *n,
                                    void *values) {
  bool counts = d && d->kind == DNN_HEURISTIC && asked == 0;  // how many there are
  RULE(d && d->ready && n && (counts || (values && asked > 0)));
  *n = 1;
  if (d->kind == DNN_HEURISTIC) {
    RULE(name == DNN_HEURISTIC_RESULTS && type == DNN_OF_DESC);
    if (is("unsupported")) return DNN_NOT_SUPPORTED;
    // of f32 only tensor cores do what has no bias, in some of engine 2's ways
    i64 all = needs_tensor_cores(desc_at(d, DNN_HEURISTIC_GRAPH)) ? WAYS : CONFIGS;
    // what is compiled when it is planned the real one names beside a driver only: not gelu
    if (!has_gelu(desc_at(d, DNN_HEURISTIC_GRAPH))) RULE(real_names(d) != 0);
    if (counts) return *n = all, DNN_OK;
    dnn_desc **to = values;
    for (*n = 0; *n < HS_MIN(asked, all); ++*n) {
      RULE(to[*n]->kind == DNN_CONFIG);
      to[*n]->engine = engine_of_config((int)*n), to[*n]->ready = true;
      to[*n]->slow = is_slow_way((int)*n);
      to[*n]->about = desc_at(d, DNN_HEURISTIC_GRAPH);
    }
    return DNN_OK;
  }
  if (d->kind == DNN_CONFIG) {
    RULE(name == DNN_CONFIG_ENGINE && type == DNN_OF_DESC);
    dnn_desc *e = *(dnn_desc **)values;
    RULE(e->kind == DNN_ENGINE);
    return e->engine = d->engine, e->ready = true, DNN_OK;
  }
  if (d->kind == DNN_ENGINE && name == DNN_ENGINE_NOTES) {
    RULE(type == DNN_OF_NOTE);
    *n = engines[d->engine].note >= 0;
    if (*n) *(int *)values = engines[d->engine].note;
    return DNN_OK;
  }
  bool of_plan = d->kind == DNN_PLAN && name == DNN_PLAN_WORKSPACE;
  RULE(type == DNN_OF_I64 && (of_plan || (d->kind == DNN_ENGINE && name == DNN_ENGINE_NUMBER)));
  *(i64 *)values = of_plan ? engines[d->engine].workspace : d->engine;
  return DNN_OK;
}

// ---- convolutions -------------------------------------------------------------------------------
// All that is known when it is asked for: descriptors may go before it is computed.
typedef struct side {
  i64 dims[MOST_RANK], strides[MOST_RANK];
  u8 *at;
} side;
typedef struct work {
  hlo_dtype type;
  i64 rank, dilation[3], stride[3], before[3];
  bool reversed, slow;
  side x, w, y;
  u8 *memory;
  i64 nsteps;  // of the chain
  struct {
    i64 mode;
    side b;
  } step[MOST_OPS];
} work;

static hlo_dtype type_of(i64 number) {
  return number == DNN_F64    ? HLO_F64
         : number == DNN_F16  ? HLO_F16
         : number == DNN_BF16 ? HLO_BF16
                              : HLO_F32;
}

static side side_of(const dnn_desc *t, u64 at) {
  side s = {.at = (u8 *)(uintptr_t)at};
  for (i64 k = 0; k < find(t, DNN_TENSOR_DIMS)->n; k++)
    s.dims[k] = DIM(t, k), s.strides[k] = number(t, DNN_TENSOR_STRIDES, k);
  return s;
}

static double element(const work *w, const side *s, const i64 *at) {
  i64 k = 0;
  for (i64 d = 0; d < w->rank + 2; d++) k += at[d] * s->strides[d];
  return hlo_elem_to_f64(w->type, s->at + k * (i64)hlo_dtype_storage(w->type));
}

static bool next(i64 n, const i64 *dims, i64 *at) {
  for (i64 k = n; k-- > 0;) {
    if (++at[k] < dims[k]) return true;
    at[k] = 0;
  }
  return false;
}

static double point(const work *w, const i64 *to) {
  i64 per_group = w->w.dims[0] / (w->x.dims[1] / w->w.dims[1]);
  i64 at[MOST_RANK] = {0};  // feature, places in the window
  double sum = 0;
  do {
    i64 from[MOST_RANK] = {to[0], to[1] / per_group * w->w.dims[1] + at[0]},
        of[MOST_RANK] = {to[1], at[0]};
    bool inside = true;
    for (i64 k = 0; k < w->rank; k++) {
      i64 p = w->reversed ? w->w.dims[2 + k] - 1 - at[1 + k] : at[1 + k];
      of[2 + k] = p;
      from[2 + k] = to[2 + k] * w->stride[k] + at[1 + k] * w->dilation[k] - w->before[k];
      inside &= from[2 + k] >= 0 && from[2 + k] < w->x.dims[2 + k];
    }
    if (inside) sum += element(w, &w->x, from) * element(w, &w->w, of);
  } while (next(w->rank + 1, &w->w.dims[1], at));
  return sum;
}

static double behind(const work *w, double v, const i64 *to) {
  for (i64 k = 0; k < w->nsteps; k++) {
    const side *b = &w->step[k].b;
    i64 at[MOST_RANK] = {0};
    for (i64 d = 0; b->at && d < w->rank + 2; d++) at[d] = b->dims[d] == 1 ? 0 : to[d];
    if (w->step[k].mode == DNN_ADD) v += element(w, b, at);
    else if (w->step[k].mode == DNN_RELU) v = v > 0 ? v : 0;
    else v = v / 2 * (1 + tanh(0.7978845608028654 * (v + 0.044715 * v * v * v)));
  }
  return v;
}

// A slow engine takes four times as long, and more than clocks and other work here differ by.
static void convolve(void *arg) {
  enum { LEAST_US = 3000 };
  const work *w = arg;
  u64 begun = hs_now_ns();
  i64 to[MOST_RANK] = {0}, size = (i64)hlo_dtype_storage(w->type);
  if (w->memory) memset(w->memory, 0xa5, WORK);
  do {
    i64 k = 0;
    for (i64 d = 0; d < w->rank + 2; d++) k += to[d] * w->y.strides[d];
    hlo_elem_from_f64(w->type, w->y.at + k * size, behind(w, point(w, to), to));
  } while (next(w->rank + 2, w->y.dims, to));
  if (w->slow) (void)usleep(LEAST_US + (useconds_t)((hs_now_ns() - begun) * 3 / 1000));
}

static bool is_memory(const dnn_desc *t, u64 at) {
  i64 last = 0;
  for (i64 k = 0; k < find(t, DNN_TENSOR_DIMS)->n; k++)
    last += (DIM(t, k) - 1) * number(t, DNN_TENSOR_STRIDES, k);
  i64 size = (i64)hlo_dtype_storage(type_of(number(t, DNN_TENSOR_TYPE, 0)));
  return on_device(at, (last + 1) * size, (u64)number(t, DNN_TENSOR_ALIGNMENT, 0));
}

static u64 pointer_of(const dnn_desc *pack, const dnn_desc *t) {
  for (i64 k = 0; k < find(pack, DNN_PACK_IDS)->n; k++)
    if (number(pack, DNN_PACK_IDS, k) == number(t, DNN_TENSOR_ID, 0))
      return (u64)number(pack, DNN_PACK_POINTERS, k);
  return 0;
}

static const dnn_desc *last_result(const dnn_desc *graph) {
  i64 n = find(graph, DNN_GRAPH_OPS)->n;
  const dnn_desc *op = desc_of(graph, DNN_GRAPH_OPS, n - 1);
  return desc_at(op, n > 1 ? DNN_APPLY_Y : DNN_FORWARD_Y);
}

static dnn_result take_chain(const dnn_desc *graph, const dnn_desc *pack, work *own) {
  own->nsteps = find(graph, DNN_GRAPH_OPS)->n - 1;
  for (i64 k = 0; k < own->nsteps; k++) {
    const dnn_desc *op = desc_of(graph, DNN_GRAPH_OPS, k + 1);
    own->step[k].mode = number(desc_at(op, DNN_APPLY_POINTWISE), DNN_POINTWISE_MODE, 0);
    if (!find(op, DNN_APPLY_B)) continue;
    const dnn_desc *b = desc_at(op, DNN_APPLY_B);
    RULE(is_memory(b, pointer_of(pack, b)));
    own->step[k].b = side_of(b, pointer_of(pack, b));
  }
  return DNN_OK;
}

dnn_result cudnnBackendExecute(dnn_handle *handle, dnn_desc *plan, dnn_desc *pack) {
  RULE(handle && handle->open && handle->stream && plan && plan->ready && pack && pack->ready);
  RULE(plan->kind == DNN_PLAN && pack->kind == DNN_PACK);
  const dnn_desc *op = desc_at(plan->about, DNN_GRAPH_OPS);
  const dnn_desc *c = desc_at(op, DNN_FORWARD_CONVOLUTION), *x = desc_at(op, DNN_FORWARD_X),
                 *w = desc_at(op, DNN_FORWARD_W), *y = last_result(plan->about);
  RULE(is_memory(x, pointer_of(pack, x)) && is_memory(w, pointer_of(pack, w)) &&
       is_memory(y, pointer_of(pack, y)));
  const struct engine *e = &engines[plan->engine];
  RULE(e->workspace == 0 || number(pack, DNN_PACK_WORKSPACE, 0) != 0);
  if (is("failing") || (is("fussy") && plan->engine == 3) || (is("ways") && plan->slow))
    return DNN_EXECUTION_FAILED;
  work *own = calloc(1, sizeof *own);  // as long as the process: it may be recorded
  *own =
      (work){.type = type_of(number(x, DNN_TENSOR_TYPE, 0)),
             .rank = number(c, DNN_CONVOLUTION_RANK, 0),
             .reversed = number(c, DNN_CONVOLUTION_MODE, 0) == DNN_MODE_REVERSED,
             .slow = !e->fast || plan->slow,
             .x = side_of(x, pointer_of(pack, x)),
             .w = side_of(w, pointer_of(pack, w)),
             .y = side_of(y, pointer_of(pack, y)),
             .memory = e->workspace ? (u8 *)(uintptr_t)number(pack, DNN_PACK_WORKSPACE, 0) : NULL};
  for (i64 k = 0; k < own->rank; k++) {
    own->dilation[k] = number(c, DNN_CONVOLUTION_DILATIONS, k);
    own->stride[k] = number(c, DNN_CONVOLUTION_STRIDES, k);
    own->before[k] = number(c, DNN_CONVOLUTION_BEFORE, k);
  }
  if (take_chain(plan->about, pack, own) != DNN_OK) return DNN_BAD_PARAM;
  return enqueue(handle->stream, convolve, own) ? DNN_OK : DNN_EXECUTION_FAILED;
}
