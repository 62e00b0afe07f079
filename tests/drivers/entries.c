// entries.c — the plug-in's C entry points called as no client should: with arguments that are
// NULL, too short, of another kind or destroyed, with changed programs, options and serialized
// executables, and from several threads. It runs in its user's process, so every such call must
// give an error or an answer, and never a crash, a hang, a leak or a report of the sanitizers.
//
// usage: entries [--library libpjrt_hlosh.so] [--seed S] [--count N] [--seconds N]
//                [--only threads] [-j N] PROGRAM|DIR...
//
// Programs are StableHLO, as bytecode or text, of at most 16 KB. Case 0 calls every slot with every
// wrong first argument, and the extensions' functions, case 1 with handles that were destroyed;
// every tenth case, or all of them, uses four threads, which take profiles too; the others make ten
// changed programs each, compile them, ask all there is to ask, and run those that compile, are
// small and have no loop (a changed loop may never end). Cases run in children; the same seed and
// files give the same cases. Prints "FAIL CASE: reason", and last the totals; exit 0 when nothing
// failed. With --seconds, seeds S, S + 1, ... follow until the time is over.
#include <dlfcn.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/proto/proto.h"
#include "core/types/literal.h"
#include "plugin/abi.h"
#include "profiler/xplane.h"
#include "tests/harness/driver.h"
#include "tests/harness/mutate.h"

#ifdef HS_ASAN
#include <sanitizer/lsan_interface.h>
// A program may ask for more than there is: that is an error, not the end.
const char *__asan_default_options(void);
const char *__asan_default_options(void) {
  return "exitcode=99:malloc_context_size=12:quarantine_size_mb=16:allocator_may_return_null=1";
}
#endif

#ifdef __SANITIZE_THREAD__
// The C library keeps stacks of threads that have ended, and frees what a thread had when the next
// one gets its stack: TSan sees no order in that.
const char *__tsan_default_suppressions(void);
const char *__tsan_default_suppressions(void) { return "race:_dl_deallocate_tls\n"; }
#endif

enum { MOST_BYTES = 16384, PER_CASE = 10, ROOM = 512, MOST_RUN = 64 << 20, MOST_LEAVES = 64 };
typedef struct source {
  char *path;
  hs_buf bytes;
} source;
typedef struct run {
  const char *library;
  u64 seed;
  HS_VEC(source) sources;
  u64 *counts;  // shared by the children
  u64 failures;
  bool only_threads;
} run;
enum { CALLS, COMPILED, RUN, COUNTS };

typedef struct host {
  const run *r;
  const pj_api *api;
  pj_client *client;
  pj_device *device;
  u64 state;
} host;

static const char *const names[] = {
#define FN(name) #name,
#include "backends/pjrt/functions.def"
#undef FN
};

// ---- calls --------------------------------------------------------------------------------------
static void broken(const char *what, const char *of) {
  fprintf(stderr, "%s: %s\n", of, what);
  abort();
}

// A call as it is; the three functions of errors are called by their names below.
static pj_error *call(const host *h, pj_fn f, void *args) {
  pj_call *fn;
  memcpy(&fn, &h->api->fn[f], sizeof fn);
  __atomic_fetch_add(&h->r->counts[CALLS], 1, __ATOMIC_RELAXED);
  if (f == PJ_Error_Destroy || f == PJ_Error_Message) return (void)fn(args), NULL;
  return fn(args);
}

// The code of an error that is dropped, 0 for none. Every error has a text.
static int code_of(const host *h, pj_error *e, const char *of) {
  if (!e) return 0;
  pj_error_message m = {.struct_size = sizeof m, .error = e};
  pj_error_code c = {.struct_size = sizeof c, .error = e};
  (void)call(h, PJ_Error_Message, &m);
  if (!m.text || !m.n) broken("an error without a text", of);
  if (call(h, PJ_Error_GetCode, &c)) broken("an error of an error", of);
  (void)call(h, PJ_Error_Destroy, &(pj_error_destroy){sizeof(pj_error_destroy), NULL, e});
  return c.code;
}
#define TRY(h, f, ...) (code_of(h, call(h, PJ_##f, __VA_ARGS__), #f) == 0)

static void drop(const host *h, pj_fn f, void *handle) {
  struct {
    PJ_HEAD;
    void *handle;
  } a = {sizeof a, NULL, handle};
  if (code_of(h, call(h, f, &a), names[f])) broken("a handle that cannot be destroyed", names[f]);
}

static void wait_and_drop(const host *h, pj_event *e) {
  if (!e) return;
  pj_event_arg a = {sizeof a, NULL, e};
  (void)TRY(h, Event_Await, &a);
  (void)TRY(h, Event_Error, &a);
  drop(h, PJ_Event_Destroy, e);
}

static void open_host(host *h, const run *r, u64 state) {
  *h = (host){.r = r, .state = state};
  void *lib = dlopen(r->library, RTLD_NOW | RTLD_LOCAL);
  void *p = lib ? dlsym(lib, "GetPjrtApi") : NULL;
  if (!p) broken("no GetPjrtApi", r->library);
  pj_get_api *get;
  memcpy(&get, &p, sizeof get);
  h->api = get();
  pj_client_create c = {.struct_size = sizeof c};
  pj_named four = {.struct_size = sizeof four,
                   .name = "devices",
                   .name_n = 7,
                   .type = PJ_INT64,
                   .v.i = 4,
                   .n = 1};
  c.options = &four, c.noptions = 1;
  if (!TRY(h, Client_Create, &c)) broken("no client", r->library);
  h->client = c.client;
  pj_client_devices d = {.struct_size = sizeof d, .client = h->client};
  (void)TRY(h, Client_Devices, &d);
  h->device = d.v[0];
}

// ---- programs -----------------------------------------------------------------------------------
static const char options_of_one[] = "\x1a\x04\x20\x01\x28\x01";

static pj_loaded *compile(const host *h, const hs_buf *code, const char *options, size_t n) {
  // exactly as long as they are, so that reads past the end are seen
  char *exact = hs_alloc(HS_MAX(code->n, 1u)), *o = hs_alloc(HS_MAX(n, 1u));
  if (code->n) memcpy(exact, code->p, code->n);
  if (n) memcpy(o, options, n);
  pj_program p = {
      .struct_size = sizeof p, .code = exact, .code_n = code->n, .format = "mlir", .format_n = 4};
  pj_client_compile c = {
      .struct_size = sizeof c, .client = h->client, .program = &p, .options = o, .options_n = n};
  bool ok = TRY(h, Client_Compile, &c);
  hs_free(exact);
  hs_free(o);
  if (ok) __atomic_fetch_add(&h->r->counts[COMPILED], 1, __ATOMIC_RELAXED);
  return ok ? c.executable : NULL;
}

// The module that the program was made of; NULL when that cannot be had.
static hlo_module *module_of(const host *h, pj_executable *e, hlo_ctx *ctx) {
  pj_program p = {.struct_size = sizeof p};
  pj_optimized a = {.struct_size = sizeof a, .executable = e, .program = &p};
  if (!TRY(h, Executable_OptimizedProgram, &a)) return NULL;
  p.code = hs_alloc(p.code_n + 1);
  hlo_module *m = NULL;
  if (TRY(h, Executable_OptimizedProgram, &a))
    hs_status_drop(hlo_proto_read(ctx, p.code, p.code_n, "program", &m));
  hs_free(p.code);
  return m;
}

// Loops end, and arrays and work are small.
static bool may_run(const host *h, pj_executable *e, const hlo_module *m, bool changed) {
  hlo_for_each_comp(c, m)
    hlo_for_each_instr(i, c)
      if (changed && i->opcode == HLO_WHILE) return false;
  pj_memory_stats s = {.struct_size = sizeof s, .executable = e};
  pj_cost c = {.struct_size = sizeof c, .executable = e};
  bool ok = TRY(h, Executable_GetCompiledMemoryStats, &s) && s.temp < MOST_RUN &&
            s.arguments < MOST_RUN && s.outputs < MOST_RUN &&
            TRY(h, Executable_GetCostAnalysis, &c);
  for (size_t k = 0; ok && k < c.n; k++) ok = c.v[k].v.f >= 0 && c.v[k].v.f < 1e9f;
  return ok;
}

// One of no known type when it cannot be made.
static pj_buffer *make_buffer(const host *h, const hlo_shape *s) {
  static char zeros[MOST_RUN];
  pj_from_host f = {.struct_size = sizeof f,
                    .client = h->client,
                    .data = zeros,
                    .type = pj_type((int)s->dtype),
                    .dims = s->dims,
                    .rank = s->rank,
                    .device = h->device};
  i64 n = (i64)hlo_dtype_storage(s->dtype);
  for (u32 d = 0; d < s->rank; d++)
    if (__builtin_mul_overflow(n, s->dims[d], &n) || n > MOST_RUN) return NULL;
  if (!TRY(h, Client_BufferFromHostBuffer, &f)) return NULL;
  wait_and_drop(h, f.done);
  return f.buffer;
}

// A result: asked about, read, copied, destroyed; sometimes deleted before it is ready.
static void use_result(host *h, pj_buffer *b) {
  pj_buffer_arg one = {sizeof one, NULL, b};
  if (mutate_below(&h->state, 4) == 0) (void)TRY(h, Buffer_Delete, &one);
  pj_to_host t = {.struct_size = sizeof t, .src = b};
  void *to = NULL;
  if (TRY(h, Buffer_ToHostBuffer, &t)) {
    to = t.dst = hs_alloc(t.n + 1);
    if (TRY(h, Buffer_ToHostBuffer, &t)) wait_and_drop(h, t.event);
  }
  hs_free(to);
  pj_copy_to_device c = {.struct_size = sizeof c, .buffer = b, .device = h->device};
  if (TRY(h, Buffer_CopyToDevice, &c)) drop(h, PJ_Buffer_Destroy, c.out);
  pj_buffer_event e = {.struct_size = sizeof e, .buffer = b};
  if (TRY(h, Buffer_ReadyEvent, &e)) wait_and_drop(h, e.event);
  drop(h, PJ_Buffer_Destroy, b);
}

static void execute(host *h, pj_loaded *l, const hlo_module *m, size_t nouts) {
  pj_buffer *args[MOST_LEAVES], *outs[MOST_LEAVES], *const *lists[] = {args}, **places[] = {outs};
  pj_event *done[1] = {0};
  u32 n = 0;
  const hlo_computation *c = m->entry;
  for (u32 p = 0; p < c->nparams; p++)
    for (u32 k = 0; k < hlo_shape_leaves(c->params[p]->shape) && n < MOST_LEAVES; k++)
      args[n++] = make_buffer(h, hlo_shape_leaf(c->params[p]->shape, k));
  bool early = mutate_below(&h->state, 2);
  pj_execute x = {.struct_size = sizeof x,
                  .executable = l,
                  .arguments = lists,
                  .ndevices = 1,
                  .nargs = n,
                  .outputs = places,
                  .done = done};
  bool ok = nouts <= MOST_LEAVES && TRY(h, LoadedExecutable_Execute, &x);
  // arguments may go as soon as the call is back
  for (u32 k = 0; early && k < n; k++)
    if (args[k]) drop(h, PJ_Buffer_Destroy, args[k]);
  if (ok) {
    __atomic_fetch_add(&h->r->counts[RUN], 1, __ATOMIC_RELAXED);
    for (size_t k = 0; k < nouts; k++) use_result(h, outs[k]);
    wait_and_drop(h, done[0]);
  }
  for (u32 k = 0; !early && k < n; k++)
    if (args[k]) drop(h, PJ_Buffer_Destroy, args[k]);
}

static void ask_layouts(const host *, pj_executable *);

// All that can be asked about a program; then it is run, when it may be.
static void use_program(host *h, pj_loaded *l, bool changed) {
  static const pj_fn texts[] = {PJ_Executable_Name,
                                PJ_Executable_Fingerprint,
                                PJ_Executable_NumReplicas,
                                PJ_Executable_NumPartitions,
                                PJ_Executable_OutputElementTypes,
                                PJ_Executable_OutputDimensions,
                                PJ_Executable_OutputMemoryKinds};
  pj_get_executable g = {.struct_size = sizeof g, .loaded = l};
  if (!TRY(h, LoadedExecutable_GetExecutable, &g)) broken("no executable", "GetExecutable");
  for (size_t k = 0; k < HS_COUNT(texts); k++) {
    struct {
      PJ_HEAD;
      void *handle, *out[8];
    } a = {sizeof a, NULL, g.executable, {0}};
    (void)code_of(h, call(h, texts[k], &a), names[texts[k]]);
  }
  ask_layouts(h, g.executable);
  pj_executable_size n = {.struct_size = sizeof n, .executable = g.executable};
  pj_assignment where = {.struct_size = sizeof where, .executable = l};
  if (TRY(h, LoadedExecutable_GetDeviceAssignment, &where)) where.free(where.handle);
  hlo_ctx *ctx = hlo_ctx_new();
  hlo_module *m = module_of(h, g.executable, ctx);
  if (TRY(h, Executable_NumOutputs, &n) && m && may_run(h, g.executable, m, changed))
    for (u32 k = 0; k < 2; k++) execute(h, l, m, n.n);
  hlo_module_free(m);
  hlo_ctx_free(ctx);
  drop(h, PJ_Executable_Destroy, g.executable);
}

// Written, changed and read again.
static void reload(host *h, pj_loaded *l) {
  pj_get_executable g = {.struct_size = sizeof g, .loaded = l};
  if (!TRY(h, LoadedExecutable_GetExecutable, &g)) return;
  pj_serialize s = {.struct_size = sizeof s, .executable = g.executable};
  if (TRY(h, Executable_Serialize, &s)) {
    hs_buf b = {0};
    hs_buf_put(&b, s.bytes, s.n);
    s.free(s.handle);
    for (u32 k = (u32)mutate_below(&h->state, 3); k-- > 0;) mutate_bytes(&h->state, &b);
    char *exact = hs_alloc(HS_MAX(b.n, 1u));
    if (b.n) memcpy(exact, b.p, b.n);
    pj_deserialize d = {.struct_size = sizeof d, .client = h->client, .bytes = exact, .n = b.n};
    if (TRY(h, Executable_DeserializeAndLoad, &d))
      drop(h, PJ_LoadedExecutable_Destroy, d.executable);
    hs_free(exact);
    hs_buf_free(&b);
  }
  drop(h, PJ_Executable_Destroy, g.executable);
}

static void one_program(host *h) {
  const run *r = h->r;
  const source *s = &r->sources.v[mutate_below(&h->state, r->sources.n)],
               *t = &r->sources.v[mutate_below(&h->state, r->sources.n)];
  hs_buf code = {0}, options = {0};
  hs_buf_put(&code, s->bytes.p, s->bytes.n);
  hs_buf_put(&options, options_of_one, sizeof options_of_one - 1);
  u32 edits = (u32)mutate_below(&h->state, 4);
  bool bytecode = code.n > 4 && !memcmp(code.p, "ML\xefR", 4);
  for (u32 k = 0; bytecode && k < edits; k++) mutate_bytes(&h->state, &code);
  if (!bytecode) mutate_text(&h->state, &code, t->bytes.p, t->bytes.n, edits);
  if (mutate_below(&h->state, 8) == 0) mutate_bytes(&h->state, &options), edits++;
  pj_loaded *l = compile(h, &code, options.p, options.n);
  if (l) {
    use_program(h, l, edits > 0);
    if (mutate_below(&h->state, 4) == 0) reload(h, l);
    drop(h, PJ_LoadedExecutable_Destroy, l);
  }
  hs_buf_free(&code);
  hs_buf_free(&options);
}

// ---- every slot ---------------------------------------------------------------------------------
typedef struct handle {
  pj_fn destroy;  // PJ_FN_COUNT: it belongs to another one
  void *p;
} handle;
enum { KINDS = 10 };

// One of each kind. Some of the source files must compile.
static void make_handles(host *h, handle *v) {
  pj_loaded *l = NULL;
  for (size_t k = 0; k < h->r->sources.n && !l; k++)
    l = compile(h, &h->r->sources.v[k].bytes, options_of_one, 6);
  if (!l) broken("no program compiles", h->r->sources.v[0].path);
  pj_get_executable g = {.struct_size = sizeof g, .loaded = l};
  (void)TRY(h, LoadedExecutable_GetExecutable, &g);
  pj_device_description dd = {.struct_size = sizeof dd, .device = h->device};
  (void)TRY(h, Device_GetDescription, &dd);
  pj_device_memory dm = {.struct_size = sizeof dm, .device = h->device};
  (void)TRY(h, Device_DefaultMemory, &dm);
  pj_client_topology t = {.struct_size = sizeof t, .client = h->client};
  (void)TRY(h, Client_TopologyDescription, &t);
  pj_context_arg c = {.struct_size = sizeof c};
  (void)TRY(h, ExecuteContext_Create, &c);
  float one = 1;
  pj_from_host f = {.struct_size = sizeof f,
                    .client = h->client,
                    .data = &one,
                    .type = pj_type(HLO_F32),
                    .device = h->device};
  (void)TRY(h, Client_BufferFromHostBuffer, &f);
  const handle all[KINDS] = {
      {PJ_LoadedExecutable_Destroy, l}, {PJ_Executable_Destroy, g.executable},
      {PJ_FN_COUNT, dd.description},    {PJ_FN_COUNT, dm.memory},
      {PJ_FN_COUNT, t.topology},        {PJ_ExecuteContext_Destroy, c.context},
      {PJ_Event_Destroy, f.done},       {PJ_Buffer_Destroy, f.buffer},
      {PJ_FN_COUNT, h->device},         {PJ_Client_Destroy, h->client}};
  memcpy(v, all, sizeof all);
}

// A call with `size` bytes of arguments, zero but for their size and first field.
static int call_short(const host *h, pj_fn f, size_t size, void *first) {
  char *a = hs_calloc(1, size ? size : 1);
  if (size >= sizeof size) memcpy(a, &size, sizeof size);
  if (size >= 24) memcpy(a + 16, &first, sizeof first);
  int code = code_of(h, call(h, f, a), names[f]);
  hs_free(a);
  return code;
}

static bool ends_something(pj_fn f) {
  return strstr(names[f], "_Destroy") || strstr(names[f], "_Delete");
}

static void every_slot(host *h) {
  handle v[KINDS];
  make_handles(h, v);
  for (int f = 0; f < PJ_FN_COUNT; f++) {
    (void)code_of(h, call(h, (pj_fn)f, NULL), names[f]);
    for (size_t size = 8; size <= ROOM; size += 8)
      if (f != PJ_Client_Create || size < 64) (void)call_short(h, (pj_fn)f, size, NULL);
    for (u32 k = 0; k < KINDS; k++)
      if (!ends_something((pj_fn)f) || strncmp(names[f], names[v[k].destroy % PJ_FN_COUNT], 5) != 0)
        if (f != PJ_Client_Create) (void)call_short(h, (pj_fn)f, ROOM, v[k].p);
  }
}

// Every function that takes a handle refuses one that is no more.
static void ended_handles(host *h) {
  handle v[KINDS];
  make_handles(h, v);
  for (u32 k = 0; k < KINDS; k++)
    if (v[k].destroy != PJ_FN_COUNT) drop(h, v[k].destroy, v[k].p);
  for (int f = PJ_Event_Destroy; f < PJ_FN_COUNT; f++)
    for (u32 k = 0; k < KINDS; k++) {
      if (f == PJ_Client_Create || f == PJ_ExecuteContext_Create) continue;
      if (call_short(h, (pj_fn)f, ROOM, v[k].p) == 0)
        broken("took a handle that is no more", names[f]);
    }
}

// ---- extensions ---------------------------------------------------------------------------------
static const void *extension(const host *h, int type) {
  const pj_extension *e = h->api->ext;
  while (e && e->type != type) e = e->next;
  if (!e) broken("no extension", type == PJ_EXT_LAYOUTS ? "layouts" : "profiler");
  return e;
}

static int call_by(const host *h, void *fn, void *args, const char *of) {
  pj_call *f;
  memcpy(&f, &fn, sizeof f);
  __atomic_fetch_add(&h->r->counts[CALLS], 1, __ATOMIC_RELAXED);
  return code_of(h, f(args), of);
}

// Every function with no arguments, ones that say that they are too short, and with handles that
// are none: the handle stands at byte `at`.
static void refuses(const host *h, void *fn, size_t at, void *wrong, const char *of) {
  (void)call_by(h, fn, NULL, of);
  for (size_t size = 8; size <= 64; size += 8) {
    struct {
      size_t size;
      void *rest[8];
    } a = {.size = size};
    (void)call_by(h, fn, &a, of);
    a.rest[at / 8 - 1] = wrong;
    if (call_by(h, fn, &a, of) == 0) broken("took a handle of another kind", of);
  }
}

static void every_extension(host *h) {
  const pj_ext_layouts *l = extension(h, PJ_EXT_LAYOUTS);
  const pj_profiler_api *p = ((const pj_ext_profiler *)extension(h, PJ_EXT_PROFILER))->api;
  handle v[KINDS];
  make_handles(h, v);
  void *event = v[6].p;
  void *const layouts[] = {l->destroy,          l->serialize,        l->client_default,
                           l->buffer_layout,    l->topology_default, l->output_layouts,
                           l->parameter_layouts};
  for (size_t k = 0; k < HS_COUNT(layouts); k++) refuses(h, layouts[k], 16, event, "layouts");
  void *const profiler[] = {p->destroy, p->start, p->stop, p->collect};
  for (size_t k = 0; k < HS_COUNT(profiler); k++) refuses(h, profiler[k], 8, event, "profiler");
}

// What is said of the layouts of a program's results and arguments.
static void ask_layouts(const host *h, pj_executable *e) {
  const pj_ext_layouts *l = extension(h, PJ_EXT_LAYOUTS);
  void *const of[] = {l->output_layouts, l->parameter_layouts};
  for (size_t k = 0; k < HS_COUNT(of); k++) {
    pj_layouts_of_executable a = {.struct_size = sizeof a, .executable = e};
    if (call_by(h, of[k], &a, "layouts")) broken("no layouts", "an executable");
    for (size_t j = 0; j < a.n; j++) {
      pj_layout_serialize s = {.struct_size = sizeof s, .layout = a.v[j]};
      if (call_by(h, l->serialize, &s, "layouts") || !s.n || s.bytes[0] != '{')
        broken("a layout without a text", "an executable");
      s.free(s.handle);
    }
  }
}

// A profile is begun, unless another thread takes one; NULL then.
static pj_profiler *begin_profile(const host *h) {
  const pj_profiler_api *p = ((const pj_ext_profiler *)extension(h, PJ_EXT_PROFILER))->api;
  pj_profiler_create c = {.struct_size = sizeof c};
  if (call_by(h, p->create, &c, "profiler")) broken("no profiler", "Create");
  pj_profiler_arg a = {sizeof a, c.profiler};
  if (call_by(h, p->start, &a, "profiler") == 0) return c.profiler;
  (void)call_by(h, p->destroy, &a, "profiler");
  return NULL;
}

static void end_profile(const host *h, pj_profiler *profile) {
  const pj_profiler_api *p = ((const pj_ext_profiler *)extension(h, PJ_EXT_PROFILER))->api;
  pj_profiler_arg a = {sizeof a, profile};
  pj_profiler_collect c = {.struct_size = sizeof c, .profiler = profile};
  if (call_by(h, p->stop, &a, "profiler") || call_by(h, p->collect, &c, "profiler") || !c.n ||
      !prof_is_xspace(c.buffer, c.n))
    broken("a profile that is none", "CollectData");
  c.buffer = hs_alloc(c.n);
  if (call_by(h, p->collect, &c, "profiler") || !prof_is_xspace(c.buffer, c.n))
    broken("a profile that is none", "CollectData");
  hs_free(c.buffer);
  (void)call_by(h, p->destroy, &a, "profiler");
}

// ---- threads ------------------------------------------------------------------------------------
typedef struct crew {
  host h;
  pj_loaded *shared;
} crew;

static void *work(void *arg) {
  crew *c = arg;
  for (u32 k = 0; k < PER_CASE; k++) {
    pj_profiler *p = mutate_below(&c->h.state, 4) == 0 ? begin_profile(&c->h) : NULL;
    if (mutate_below(&c->h.state, 3) == 0) one_program(&c->h);
    else use_program(&c->h, c->shared, false);
    if (p) end_profile(&c->h, p);
  }
  return NULL;
}

static void threads(host *h) {
  enum { THREADS = 4 };
  pthread_t t[THREADS];
  crew c[THREADS];
  const source *s = &h->r->sources.v[mutate_below(&h->state, h->r->sources.n)];
  pj_loaded *l = compile(h, &s->bytes, options_of_one, 6);
  if (!l) return;
  for (u32 k = 0; k < THREADS; k++) {
    c[k] = (crew){*h, l};
    c[k].h.state = mutate_next(&h->state);
    pthread_create(&t[k], NULL, work, &c[k]);
  }
  for (u32 k = 0; k < THREADS; k++) pthread_join(t[k], NULL);
  drop(h, PJ_LoadedExecutable_Destroy, l);
}

// ---- cases --------------------------------------------------------------------------------------
static int run_case(void *arg, u32 k, FILE *out) {
  const run *r = arg;
  host h;
  dup2(fileno(out), 2);
#ifdef HS_ASAN
  __lsan_enable();
#endif
  open_host(&h, r, hs_mix(r->seed, k));
  if (r->only_threads) k = 9;
  if (k == 0) every_slot(&h), every_extension(&h);
  else if (k == 1) ended_handles(&h);
  else if (k % 10 == 9 || r->only_threads) threads(&h);
  else
    for (u32 n = 0; n < PER_CASE; n++) one_program(&h);
  if (k < 2) return 0;  // whose calls leave things behind
  drop(&h, PJ_Client_Destroy, h.client);
#ifdef HS_ASAN
  if (__lsan_do_recoverable_leak_check()) return 1;
#endif
  return 0;
}

static void done_case(void *arg, u32 k, drv_result *res) {
  run *r = arg;
  if (res->verdict == 0) return;
  r->failures++;
  printf("FAIL %u: %s\n", k, drv_reason(res));
  fflush(stdout);
}

static void add_path(run *r, const char *path) {
  struct stat st;
  drv_names in = {0};
  if (stat(path, &st) == 0 && S_ISDIR(st.st_mode)) {
    drv_list(path, "", &in);
    for (size_t k = 0; k < in.n; k++) {
      char *inside = hs_format("%s/%s", path, in.v[k]);
      if (in.v[k][0] != '.') add_path(r, inside);
      hs_free(inside);
    }
    drv_names_free(&in);
    return;
  }
  size_t n;
  char *p = drv_read(path, &n);
  source s = {.path = hs_strdup(path)};
  bool good =
      p && n <= MOST_BYTES &&
      (drv_ends_in(path, ".mlir") || drv_ends_in(path, ".mlirbc") || drv_ends_in(path, ".bc"));
  if (good) hs_buf_put(&s.bytes, p, n);
  if (good) hs_vec_push(&r->sources, s);
  else hs_free(s.path);
  hs_free(p);
}

int main(int argc, char **argv) {
  static const char *const options[] = {"library", "seed", "count", "seconds", "only", NULL};
  drv_args a;
  run r = {0};
#ifdef HS_ASAN
  __lsan_disable();  // what the cases leave counts, not what they start from
#endif
  if (!drv_parse(argc, argv, options, &a) || a.n == 0) {
    fprintf(stderr, "usage: entries [--library FILE] [--seed S] [--count N] [--seconds N] "
                    "[--only threads] [-j N] PROGRAM|DIR...\n");
    return 2;
  }
  const char *library = drv_option(&a, "library"), *seed = drv_option(&a, "seed"),
             *count = drv_option(&a, "count"), *seconds = drv_option(&a, "seconds"),
             *only = drv_option(&a, "only");
  r.library = library ? library : "build/libpjrt_hlosh.so";
  r.only_threads = only && !strcmp(only, "threads");
  r.seed = seed ? strtoull(seed, NULL, 10) : 1;
  u32 n = count ? (u32)strtoul(count, NULL, 10) : 20;
  for (u32 k = 0; k < a.n; k++) add_path(&r, a.v[k]);
  if (r.sources.n == 0) return fprintf(stderr, "entries: no programs\n"), 2;
  r.counts = mmap(NULL, COUNTS * sizeof *r.counts, PROT_READ | PROT_WRITE,
                  MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (r.counts == MAP_FAILED) return perror("entries"), 2;
  u64 begun = hs_now_ns(), cases = 0;
  double limit = seconds ? strtod(seconds, NULL) : 0;
  do {
    drv_run(n, a.jobs, 120, run_case, done_case, &r);
    cases += n;
    r.seed++;
  } while ((double)(hs_now_ns() - begun) * 1e-9 < limit);
  printf("entries: %llu cases of %zu programs, %llu calls, %llu compiled, %llu run, %llu failures; "
         "%.0f s\n",
         (unsigned long long)cases, r.sources.n, (unsigned long long)r.counts[CALLS],
         (unsigned long long)r.counts[COMPILED], (unsigned long long)r.counts[RUN],
         (unsigned long long)r.failures, (double)(hs_now_ns() - begun) * 1e-9);
  return r.failures != 0;
}
