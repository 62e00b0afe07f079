// api.c — the emulated driver: itself, its device, contexts, modules, functions. See api.h.

#include "backends/gpu/emu/api_state.h"

#include <stdio.h>
#include <stdlib.h>

api_state api = {.lock = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP};

// ---- entering and leaving -----------------------------------------------------------------------
void api_unlock(int *guard) {
  (void)guard;
  (void)pthread_mutex_unlock(&api.lock);
}

cuda_result api_enter(bool started) {
  (void)pthread_mutex_lock(&api.lock);
  if (!started) return CUDA_OK;
  if (!api.initialized) return CUDA_NOT_INITIALIZED;
  if (api.broken != CUDA_OK) return api.broken;
  return api.context ? CUDA_OK : CUDA_INVALID_CONTEXT;
}

void emu_api_behave(const emu_behaviour *b) {
  API_CALL_ANY();
  api.how = *b;
  api.allocations = api.launches = api.condition_calls = 0;
}

void emu_api_observe(const emu_observer *o) {
  API_CALL_ANY();
  api.observer = o ? *o : (emu_observer){0};
}

const char *emu_api_why(void) {
  API_CALL_ANY();
  return api.why ? api.why : "";
}

// A fault of the device stays: the first one counts.
cuda_result api_fault(cuda_result r, hs_status s) {
  if (api.broken == CUDA_OK) {
    api.broken = r;
    hs_free(api.why);
    api.why = hs_strdup(hs_ok(s) ? "an error that was asked for" : s.err->message);
  }
  hs_status_drop(s);
  return api.how.asynchronous ? CUDA_OK : api.broken;
}

// ---- objects ------------------------------------------------------------------------------------
void *api_new(api_kind kind, size_t bytes) {
  api_object *o = hs_calloc(1, bytes);
  o->kind = kind;
  o->context = api.context;
  o->next = api.objects;
  api.objects = o;
  return o;
}

void api_gone(void *object) {
  api_object *o = object;
  o->kind = API_GONE;
}

bool api_is(const void *object, api_kind kind) {
  const api_object *o = object;
  return (uintptr_t)o > 4096 && o->kind == kind;
}

// ---- the driver ---------------------------------------------------------------------------------
static int version(void) { return api.how.version ? api.how.version : 13000; }

cuda_result emu_cuInit(unsigned flags) {
  API_CALL_ANY();
  if (flags) return CUDA_INVALID_VALUE;
  if (api.how.no_device) return CUDA_NO_DEVICE;
  const char *unchecked = getenv("HLOSH_GPU_UNCHECKED");
  api.unchecked = unchecked && strcmp(unchecked, "1") == 0;
  api.initialized = true;
  return CUDA_OK;
}

cuda_result emu_cuDriverGetVersion(int *out) {
  if (!out) return CUDA_INVALID_VALUE;
  *out = version();
  return CUDA_OK;
}

static const struct {
  const char *symbol, *base;
  int version;
  void *fn;
} functions[] = {
#define CUDA_FN(field, symbol, base, version, need, args) \
  {#symbol, base, version, (void *)(uintptr_t)emu_##symbol},
#include "backends/gpu/cuda/cuda.def"
#include "backends/gpu/emu/api_more.def"
#undef CUDA_FN
};

void *emu_api_symbol(const char *symbol) {
  for (size_t k = 0; k < HS_COUNT(functions); k++)
    if (strcmp(functions[k].symbol, symbol) == 0) return functions[k].fn;
  return NULL;
}

cuda_result emu_cuGetProcAddress_v2(const char *symbol, void **fn, int asked, u64 flags,
                                    int *found) {
  (void)flags;
  if (!symbol || !fn) return CUDA_INVALID_VALUE;
  *fn = NULL;
  bool newer = false, hidden = api.how.missing && strcmp(api.how.missing, symbol) == 0;
  for (size_t k = 0; k < HS_COUNT(functions) && !hidden; k++) {
    if (strcmp(functions[k].base, symbol) != 0) continue;
    newer = functions[k].version > HS_MIN(asked, version());
    if (!newer) *fn = functions[k].fn;
  }
  if (found)
    *found = *fn     ? CUDA_PROC_ADDRESS_FOUND
             : newer ? CUDA_PROC_ADDRESS_TOO_NEW
                     : CUDA_PROC_ADDRESS_MISSING;
  return *fn || found ? CUDA_OK : CUDA_NOT_FOUND;
}

static const struct {
  cuda_result number;
  const char *name;
} errors[] = {
    {CUDA_OK, "CUDA_SUCCESS"},
#define CUDA_ERROR(number, name, scope, code, advice) {number, "CUDA_ERROR_" #name},
#include "backends/gpu/cuda/errors.def"
#undef CUDA_ERROR
};

cuda_result emu_cuGetErrorName(cuda_result error, const char **text) {
  if (!text) return CUDA_INVALID_VALUE;
  *text = NULL;
  for (size_t k = 0; k < HS_COUNT(errors); k++)
    if (errors[k].number == error) *text = errors[k].name;
  return *text ? CUDA_OK : CUDA_INVALID_VALUE;
}

cuda_result emu_cuGetErrorString(cuda_result error, const char **text) {
  API_CALL_ANY();
  cuda_result r = emu_cuGetErrorName(error, text);
  if (r == CUDA_OK && error != CUDA_OK && error == api.broken && api.why) *text = api.why;
  return r;
}

// ---- the device ---------------------------------------------------------------------------------
static u64 device_bytes(void) {
  return api.how.memory_bytes ? api.how.memory_bytes : (u64)hs_memory_machine();
}

static u32 devices(void) { return HS_MIN(HS_MAX(api.how.devices, 1u), (u32)EMU_MOST_DEVICES); }
static bool is_device(cuda_device d) { return d >= 0 && (u32)d < devices(); }

cuda_result emu_cuDeviceGetCount(int *count) {
  API_CALL_ANY();
  if (!api.initialized) return CUDA_NOT_INITIALIZED;
  if (!count) return CUDA_INVALID_VALUE;
  *count = (int)devices();
  return CUDA_OK;
}

cuda_result emu_cuDeviceGet(cuda_device *device, int ordinal) {
  API_CALL_ANY();
  if (!api.initialized) return CUDA_NOT_INITIALIZED;
  if (!device) return CUDA_INVALID_VALUE;
  *device = ordinal;
  return is_device(ordinal) ? CUDA_OK : CUDA_INVALID_DEVICE;
}

cuda_result emu_cuDeviceGetName(char *name, int room, cuda_device device) {
  if (!is_device(device)) return CUDA_INVALID_DEVICE;
  if (!name || room < 1) return CUDA_INVALID_VALUE;
  (void)snprintf(name, (size_t)room, "emulated GPU");
  return CUDA_OK;
}

cuda_result emu_cuDeviceGetPCIBusId(char *id, int room, cuda_device device) {
  if (!is_device(device)) return CUDA_INVALID_DEVICE;
  if (!id || room < 13) return CUDA_INVALID_VALUE;
  (void)snprintf(id, (size_t)room, "0000:%02x:00.0", (unsigned)device);
  return CUDA_OK;
}

// Limits are those of compute capability 9.0; the sizes of the chip are an H100's.
static const struct {
  int attribute, value;
} attributes[] = {
    {CUDA_DEVICE_MAX_THREADS_PER_BLOCK, 1024},
    {CUDA_DEVICE_MAX_BLOCK_X, 1024},
    {CUDA_DEVICE_MAX_BLOCK_Y, 1024},
    {CUDA_DEVICE_MAX_BLOCK_Z, 64},
    {CUDA_DEVICE_MAX_GRID_X, INT32_MAX},
    {CUDA_DEVICE_MAX_GRID_Y, 65535},
    {CUDA_DEVICE_MAX_GRID_Z, 65535},
    {CUDA_DEVICE_SHARED_PER_BLOCK, 48 << 10},
    {CUDA_DEVICE_WARP_SIZE, 32},
    {CUDA_DEVICE_REGISTERS_PER_BLOCK, 65536},
    {CUDA_DEVICE_CLOCK_KHZ, 1980000},
    {CUDA_DEVICE_MULTIPROCESSORS, 132},
    {CUDA_DEVICE_HAS_TIMEOUT, 0},
    {CUDA_DEVICE_INTEGRATED, 0},
    {CUDA_DEVICE_COMPUTE_MODE, 0},
    {CUDA_DEVICE_ECC, 1},
    {CUDA_DEVICE_MEMORY_CLOCK_KHZ, 2619000},
    {CUDA_DEVICE_MEMORY_BUS_BITS, 5120},
    {CUDA_DEVICE_L2_BYTES, 50 << 20},
    {CUDA_DEVICE_THREADS_PER_MULTIPROCESSOR, 2048},
    {CUDA_DEVICE_ASYNC_ENGINES, 3},
    {CUDA_DEVICE_UNIFIED_ADDRESSING, 1},
    {CUDA_DEVICE_MAJOR, 9},
    {CUDA_DEVICE_MINOR, 0},
    {CUDA_DEVICE_SHARED_PER_MULTIPROCESSOR, 228 << 10},
    {CUDA_DEVICE_REGISTERS_PER_MULTIPROCESSOR, 65536},
    {CUDA_DEVICE_COOPERATIVE_LAUNCH, 0},
    {CUDA_DEVICE_SHARED_PER_BLOCK_OPTIN, EMU_SHARED_MOST},
    {CUDA_DEVICE_BLOCKS_PER_MULTIPROCESSOR, 32},
    {CUDA_DEVICE_SHARED_RESERVED, 1024},
    {CUDA_DEVICE_MEMORY_POOLS, 1},
};

cuda_result emu_cuDeviceGetAttribute(int *value, int attribute, cuda_device device) {
  if (!is_device(device)) return CUDA_INVALID_DEVICE;
  for (size_t k = 0; k < HS_COUNT(attributes) && value; k++)
    if (attributes[k].attribute == attribute) {
      *value = attributes[k].value;
      return CUDA_OK;
    }
  return CUDA_INVALID_VALUE;
}

cuda_result emu_cuDeviceTotalMem_v2(size_t *bytes, cuda_device device) {
  if (!is_device(device)) return CUDA_INVALID_DEVICE;
  if (!bytes) return CUDA_INVALID_VALUE;
  *bytes = device_bytes();
  return CUDA_OK;
}

cuda_result emu_cuMemGetInfo_v2(size_t *available, size_t *total) {
  API_CALL();
  if (!available || !total) return CUDA_INVALID_VALUE;
  *total = device_bytes();
  *available = *total - HS_MIN(api.memory_used, *total);
  return CUDA_OK;
}

// ---- contexts -----------------------------------------------------------------------------------
cuda_result emu_cuDevicePrimaryCtxRetain(cuda_context **context, cuda_device device) {
  API_CALL_ANY();
  if (!api.initialized) return CUDA_NOT_INITIALIZED;
  if (!is_device(device)) return CUDA_INVALID_DEVICE;
  if (!context) return CUDA_INVALID_VALUE;
  if (api.broken != CUDA_OK) return api.broken;
  cuda_context *c = api.contexts[device];
  if (!c) {
    cuda_context *current = api.context;
    c = api.contexts[device] = api.context = api_new(API_CONTEXT, sizeof *c);
    c->o.context = c;
    c->number = device;
    c->main = api_new(API_STREAM, sizeof *c->main);
    c->main->is_default = true;
    c->device = emu_device_new();
    emu_device_conditions(c->device, api_condition_set, NULL);
    if (current) api.context = current;
  }
  c->retained++;
  *context = c;
  return CUDA_OK;
}

static u32 left_of(const cuda_context *c, api_kind kind) {
  u32 n = 0;
  for (const api_object *o = api.objects; o; o = o->next) n += o->context == c && o->kind == kind;
  return n;
}

// What is left of the device memory; NULL: nothing.
static const char *leaks(const cuda_context *c, hs_buf *text) {
  static const char *const names[API_KINDS] = {[API_MODULE] = "modules",
                                               [API_STREAM] = "streams",
                                               [API_EVENT] = "events",
                                               [API_GRAPH] = "graphs",
                                               [API_EXEC] = "recorded sequences"};
  text->n = 0;
  for (u32 k = 0; k < API_KINDS; k++) {
    u32 n = names[k] ? left_of(c, (api_kind)k) - (k == API_STREAM) : 0;
    if (n) hs_buf_printf(text, "%u %s ", n, names[k]);
  }
  size_t memory = 0, pinned = 0;
  for (size_t k = 0; k < api.memory.n; k++) memory += api.memory.v[k].context == c;
  for (size_t k = 0; k < api.pinned.n; k++) pinned += api.pinned.v[k].context == c;
  if (memory) hs_buf_printf(text, "%zu allocations ", memory);
  if (pinned) hs_buf_printf(text, "%zu pinned blocks ", pinned);
  return text->n ? hs_buf_cstr(text) : NULL;
}

static void free_object(api_object *o) {
  switch (o->kind) {
  case API_MODULE: emu_module_free(((cuda_module *)(void *)o)->m); break;
  case API_STREAM: api_ops_drop(&((cuda_stream *)(void *)o)->queue); break;
  case API_GRAPH: api_ops_drop(&((cuda_graph *)(void *)o)->ops); break;
  case API_EXEC: api_ops_drop(&((cuda_graph_exec *)(void *)o)->ops); break;
  default: break;
  }
  hs_free(o);
}

static bool is_context(const cuda_context *c) {
  for (u32 k = 0; k < EMU_MOST_DEVICES; k++)
    if (c && api.contexts[k] == c) return true;
  return false;
}

// With all that is in it. When it was the last one, a fault goes too.
static void drop_context(cuda_context *c) {
  api_conditions_disown();
  api_free_memory(c);
  emu_device_free(c->device);
  api.contexts[c->number] = NULL;
  if (api.context == c) api.context = NULL;
  for (api_object **at = &api.objects; *at;) {
    api_object *o = *at;
    if (o->context != c) {
      at = &o->next;
      continue;
    }
    *at = o->next;
    free_object(o);
  }
  for (u32 k = 0; k < EMU_MOST_DEVICES && !api.context; k++) api.context = api.contexts[k];
  if (api.context) return;
  hs_vec_free(&api.conditions);
  api.captures = api.blocking_captures = 0;
  api.broken = CUDA_OK;
  hs_free(api.why);
  api.why = NULL;
}

// The last one to hold the context lets it go, with all that is in it; a fault goes with it.
cuda_result emu_cuDevicePrimaryCtxRelease_v2(cuda_device device) {
  API_CALL_ANY();
  if (!is_device(device)) return CUDA_INVALID_DEVICE;
  cuda_context *c = api.contexts[device];
  if (!c) return CUDA_INVALID_CONTEXT;
  if (--c->retained) return CUDA_OK;
  if (api.broken == CUDA_OK) (void)api_drain_all();
  hs_buf text = {0};
  const char *left = leaks(c, &text);
  if (left && api.how.leaked && api.broken == CUDA_OK) api.how.leaked(left);
  hs_buf_free(&text);
  drop_context(c);
  return CUDA_OK;
}

cuda_result emu_cuCtxSetCurrent(cuda_context *context) {
  API_CALL_ANY();
  if (!api.initialized) return CUDA_NOT_INITIALIZED;
  if (context && !is_context(context)) return CUDA_INVALID_CONTEXT;
  if (context) api.context = context;
  return CUDA_OK;
}

cuda_result emu_cuCtxGetCurrent(cuda_context **context) {
  API_CALL_ANY();
  if (!context) return CUDA_INVALID_VALUE;
  *context = api.context;
  return CUDA_OK;
}

cuda_result emu_cuCtxGetDevice(cuda_device *device) {
  API_CALL();
  if (!device) return CUDA_INVALID_VALUE;
  *device = api.context->number;
  return CUDA_OK;
}

// ---- modules ------------------------------------------------------------------------------------
// Options of cuModuleLoadDataEx: where the log of errors is to go.
static void write_log(unsigned n, const int *options, void *const *values, const char *text) {
  char *at = NULL;
  size_t room = 0;
  for (unsigned k = 0; k < n; k++) {
    if (options[k] == CUDA_JIT_ERROR_LOG) at = values[k];
    if (options[k] == CUDA_JIT_ERROR_LOG_BYTES) room = (uintptr_t)values[k];
  }
  if (at && room) (void)snprintf(at, room, "%s", text);
}

static cuda_result not_an_image(const char *image) {
  return memcmp(image, "\177ELF", 4) == 0 ? CUDA_NO_BINARY_FOR_GPU : CUDA_INVALID_PTX;
}

cuda_result emu_cuModuleLoadDataEx(cuda_module **module, const void *image, unsigned noptions,
                                   int *options, void **values) {
  API_CALL();
  const size_t head = sizeof EMU_IMAGE - 1;
  if (!module || !image || (noptions && (!options || !values))) return CUDA_INVALID_VALUE;
  if (strncmp(image, EMU_IMAGE, head) != 0) {
    write_log(noptions, options, values, "the emulator takes its own images only");
    return not_an_image(image);
  }
  u64 n = hs_load64((const char *)image + head);
  emu_module *m;
  hs_status s = emu_module_load((const char *)image + head + sizeof n, n,
                                &(emu_load_options){.checked = !api.unchecked}, &m);
  if (!hs_ok(s)) {
    write_log(noptions, options, values, s.err->message);
    cuda_result r = s.err->code == HS_E_NO_MEMORY  ? CUDA_OUT_OF_MEMORY
                    : s.err->code == HS_E_INTERNAL ? CUDA_UNKNOWN
                                                   : CUDA_INVALID_IMAGE;
    hs_status_drop(s);
    return r;
  }
  *module = api_new(API_MODULE, sizeof **module);
  (*module)->m = m;
  return CUDA_OK;
}

cuda_result emu_cuModuleLoadData(cuda_module **module, const void *image) {
  return emu_cuModuleLoadDataEx(module, image, 0, NULL, NULL);
}

cuda_result emu_cuModuleUnload(cuda_module *module) {
  API_CALL();
  if (!api_is(module, API_MODULE)) return CUDA_INVALID_HANDLE;
  cuda_result r = api_drain_all();
  for (api_object *o = api.objects; o; o = o->next)
    if (o->kind == API_FUNCTION && ((cuda_function *)(void *)o)->module == module) api_gone(o);
  emu_module_free(module->m);
  module->m = NULL;
  api_gone(module);
  return r;
}

cuda_result emu_cuModuleGetFunction(cuda_function **function, cuda_module *module,
                                    const char *name) {
  API_CALL();
  if (!function || !name) return CUDA_INVALID_VALUE;
  if (!api_is(module, API_MODULE)) return CUDA_INVALID_HANDLE;
  const emu_kernel *k = emu_module_kernel(module->m, name);
  if (!k) return CUDA_NOT_FOUND;
  *function = api_new(API_FUNCTION, sizeof **function);
  **function = (cuda_function){.o = (*function)->o, .k = k, .module = module};
  (*function)->max_dynamic = (48 << 10) - (int)HS_MIN(k->static_bytes, 48u << 10);
  return CUDA_OK;
}

cuda_result emu_cuModuleGetGlobal_v2(cuda_ptr *at, size_t *bytes, cuda_module *module,
                                     const char *name) {
  API_CALL();
  if (!name) return CUDA_INVALID_VALUE;
  if (!api_is(module, API_MODULE)) return CUDA_INVALID_HANDLE;
  size_t n;
  void *p = emu_module_global(module->m, name, &n);
  if (!p) return CUDA_NOT_FOUND;
  if (at) *at = (cuda_ptr)(uintptr_t)p;
  if (bytes) *bytes = n;
  return CUDA_OK;
}

// A library is a module here: there is one context that it can be loaded into.
cuda_result emu_cuLibraryLoadData(cuda_module **library, const void *image, int *options,
                                  void **values, unsigned noptions, int *library_options,
                                  void **library_values, unsigned nlibrary_options) {
  (void)library_options, (void)library_values;
  if (nlibrary_options) return CUDA_NOT_SUPPORTED;
  return emu_cuModuleLoadDataEx(library, image, noptions, options, values);
}

cuda_result emu_cuLibraryGetKernel(cuda_function **kernel, cuda_module *library, const char *name) {
  return emu_cuModuleGetFunction(kernel, library, name);
}

cuda_result emu_cuKernelGetFunction(cuda_function **function, cuda_function *kernel) {
  API_CALL();
  if (!function) return CUDA_INVALID_VALUE;
  if (!api_is(kernel, API_FUNCTION)) return CUDA_INVALID_HANDLE;
  *function = kernel;
  return CUDA_OK;
}

cuda_result emu_cuLibraryUnload(cuda_module *library) { return emu_cuModuleUnload(library); }

// ---- functions ----------------------------------------------------------------------------------
cuda_result emu_cuFuncGetAttribute(int *value, int attribute, cuda_function *f) {
  API_CALL();
  if (!value) return CUDA_INVALID_VALUE;
  if (!api_is(f, API_FUNCTION)) return CUDA_INVALID_HANDLE;
  switch (attribute) {
  case CUDA_FUNCTION_MAX_THREADS: *value = (int)f->k->max_threads; return CUDA_OK;
  case CUDA_FUNCTION_SHARED_BYTES: *value = (int)f->k->static_bytes; return CUDA_OK;
  case CUDA_FUNCTION_CONST_BYTES: *value = 0; return CUDA_OK;
  case CUDA_FUNCTION_LOCAL_BYTES: *value = (int)(f->k->stack_bytes / 2); return CUDA_OK;
  case CUDA_FUNCTION_REGISTERS: *value = 32; return CUDA_OK;
  case CUDA_FUNCTION_PTX_VERSION:
  case CUDA_FUNCTION_BINARY_VERSION: *value = 90; return CUDA_OK;
  case CUDA_FUNCTION_MAX_DYNAMIC_SHARED: *value = f->max_dynamic; return CUDA_OK;
  default: return CUDA_INVALID_VALUE;
  }
}

cuda_result emu_cuFuncSetAttribute(cuda_function *f, int attribute, int value) {
  API_CALL();
  if (!api_is(f, API_FUNCTION)) return CUDA_INVALID_HANDLE;
  if (attribute != CUDA_FUNCTION_MAX_DYNAMIC_SHARED) return CUDA_OK;
  if (value < 0 || (u32)value + f->k->static_bytes > EMU_SHARED_MOST) return CUDA_INVALID_VALUE;
  f->max_dynamic = value;
  return CUDA_OK;
}

cuda_result emu_cuFuncGetName(const char **name, cuda_function *f) {
  API_CALL();
  if (!name) return CUDA_INVALID_VALUE;
  if (!api_is(f, API_FUNCTION)) return CUDA_INVALID_HANDLE;
  *name = f->k->name;
  return CUDA_OK;
}

cuda_result emu_cuFuncGetParamInfo(cuda_function *f, size_t index, size_t *offset, size_t *bytes) {
  API_CALL();
  if (!api_is(f, API_FUNCTION)) return CUDA_INVALID_HANDLE;
  if (!offset || index >= f->k->nparams) return CUDA_INVALID_VALUE;
  *offset = f->k->param_at[index];
  if (bytes) *bytes = f->k->param_bytes[index];
  return CUDA_OK;
}

cuda_result emu_cuOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks, cuda_function *f,
                                                            int threads, size_t shared) {
  API_CALL();
  if (!blocks || threads < 1 || threads > 1024) return CUDA_INVALID_VALUE;
  if (!api_is(f, API_FUNCTION)) return CUDA_INVALID_HANDLE;
  int by_threads = 2048 / ((threads + 31) / 32 * 32);
  size_t bytes = f->k->static_bytes + shared + 1024;  // what the system keeps of each block's
  *blocks = HS_MIN(HS_MIN(by_threads, 32), (int)((228u << 10) / bytes));
  return CUDA_OK;
}
