// profile.c — the profiler extension: while a profile is taken (jax.profiler), runs are made with
// probes around their kernels, and what was recorded is handed out as XSpace, with the modules.
//
// A profile belongs to the process, as in XLA, and one is taken at a time. What it records it
// keeps until it is destroyed, with the programs that ran; beyond MOST_EVENTS executions of kernels
// only whole runs. Loops run kernel by kernel meanwhile, and a program's first recorded run makes
// the code for that. The functions have arguments and errors of their own (profiler_c_api.h of
// XLA): structs that begin with a size, which the tracer of JAX 0.10.2 leaves undefined, so that
// nobody reads it.
#include "plugin/plugin.h"

#include <time.h>

#include "core/proto/write.h"
#include "profiler/xplane.h"

enum { MOST_EVENTS = 1 << 22 };

// A program as it ran: the runs refer to it by its place.
typedef struct profiled {
  plug_exe *e;
  u32 runs;
} profiled;
struct pj_profiler {
  plug_handle h;
  u64 begin_ns, start_ns;  // of the process's clock, and since 1970
  HS_VEC(profiled) programs;
  HS_VEC(prof_xrun) runs;
  u64 nevents;
  hs_buf bytes;  // what was handed out
};

static struct {
  pthread_mutex_t lock;  // of it and of what is recorded
  pj_profiler *taken;    // NULL: no profile is taken
  _Atomic bool on;
} now = {.lock = PTHREAD_MUTEX_INITIALIZER};

// ---- recording ----------------------------------------------------------------------------------
static u32 place_of_program(pj_profiler *p, plug_exe *e) {
  for (size_t k = 0; k < p->programs.n; k++)
    if (p->programs.v[k].e == e) return (u32)k;
  hs_vec_push(&p->programs, ((profiled){plug_exe_share(e), 0}));
  return (u32)p->programs.n - 1;
}

static void keep_run(pj_profiler *p, plug_exe *e, cpu_local_times *t) {
  if (t->begin_ns < p->begin_ns) return;  // it began before
  bool room = p->nevents + t->nevents <= MOST_EVENTS;
  u32 at = place_of_program(p, e);
  prof_xrun r = {.program = at,
                 .number = ++p->programs.v[at].runs,
                 .begin_ns = t->begin_ns - p->begin_ns,
                 .ns = t->ns,
                 .nevents = room ? t->nevents : 0};
  if (r.nevents) {
    prof_event *kept = hs_alloc(r.nevents * sizeof *kept);
    memcpy(kept, t->events, r.nevents * sizeof *kept);
    r.events = kept;
    p->nevents += r.nevents;
  }
  hs_vec_push(&p->runs, r);
}

hs_status plug_profiled_run(plug_exe *e, const void *const *args, void *const *results) {
  if (!atomic_load_explicit(&now.on, memory_order_relaxed))
    return cpu_local_run(e->program, args, results, NULL);
  cpu_local_times t = {.events = hs_alloc(PROF_MOST_EVENTS * sizeof *t.events)};
  hs_status s = cpu_local_run(e->program, args, results, &t);
  pthread_mutex_lock(&now.lock);
  if (hs_ok(s) && now.taken) keep_run(now.taken, e, &t);
  pthread_mutex_unlock(&now.lock);
  hs_free(t.events);
  return s;
}

// ---- as XSpace ----------------------------------------------------------------------------------
typedef struct program_text {
  const char **names, **kinds;
  double *flops, *bytes;
  hs_buf proto;
} program_text;

static hs_status describe(const plug_exe *e, u64 id, program_text *t, prof_xwritten *out) {
  u32 n = cpu_local_figures(e->program)->nkernels;
  t->names = hs_calloc(n + 1, sizeof *t->names);
  t->kinds = hs_calloc(n + 1, sizeof *t->kinds);
  t->flops = hs_calloc(n + 1, sizeof *t->flops);
  t->bytes = hs_calloc(n + 1, sizeof *t->bytes);
  for (u32 k = 0; k < n; k++) {
    backend_kernel one = cpu_local_kernel(e->program, k);
    t->names[k] = one.name, t->kinds[k] = one.kind;
    t->flops[k] = one.flops, t->bytes[k] = one.bytes;
  }
  HS_TRY(hlo_proto_write(&t->proto, e->optimized, true));
  *out = (prof_xwritten){.module = e->optimized->name,
                         .id = id,
                         .nkernels = n,
                         .kernels = t->names,
                         .kinds = t->kinds,
                         .flops = t->flops,
                         .bytes = t->bytes,
                         .proto = t->proto.p,
                         .nproto = t->proto.n};
  return HS_GOOD;
}

static hs_status write_space(pj_profiler *p) {
  size_t n = p->programs.n;
  program_text *texts = hs_calloc(n + 1, sizeof *texts);
  prof_xwritten *programs = hs_calloc(n + 1, sizeof *programs);
  hs_status s = HS_GOOD;
  for (size_t k = 0; k < n && hs_ok(s); k++)
    s = describe(p->programs.v[k].e, k + 1, &texts[k], &programs[k]);
  const prof_xtrace x = {.device = "/device:CUSTOM:" PLUG_NAME,
                         .start_ns = p->start_ns,
                         .nprograms = (u32)n,
                         .programs = programs,
                         .nruns = (u32)p->runs.n,
                         .runs = p->runs.v};
  p->bytes.n = 0;
  if (hs_ok(s)) prof_xspace_write(&x, &p->bytes);
  for (size_t k = 0; k < n; k++) {
    hs_free(texts[k].names);
    hs_free(texts[k].kinds);
    hs_free(texts[k].flops);
    hs_free(texts[k].bytes);
    hs_buf_free(&texts[k].proto);
  }
  hs_free(texts);
  hs_free(programs);
  return s;
}

static void forget(pj_profiler *p) {
  for (size_t k = 0; k < p->programs.n; k++) plug_exe_drop(p->programs.v[k].e);
  for (size_t k = 0; k < p->runs.n; k++) hs_free((void *)(uintptr_t)p->runs.v[k].events);
  p->programs.n = p->runs.n = 0;
  p->nevents = 0;
}

// ---- the functions ------------------------------------------------------------------------------
static bool is_profiler(const pj_profiler_arg *a) {
  return a && plug_is(a->profiler, PLUG_PROFILER);
}
static pj_error *no_profiler(void) {
  return plug_fail(PJ_INVALID_ARGUMENT, "hlosh: no arguments, or no profiler");
}

static pj_error *profiler_create(pj_profiler_create *a) {
  if (!a) return no_profiler();
  a->profiler = plug_handle_new(PLUG_PROFILER, sizeof *a->profiler);
  return NULL;
}

static void set_taken(pj_profiler *p) {
  now.taken = p;
  atomic_store(&now.on, p != NULL);
}

static pj_error *profiler_start(pj_profiler_arg *a) {
  if (!is_profiler(a)) return no_profiler();
  pj_profiler *p = a->profiler;
  struct timespec t;
  pthread_mutex_lock(&now.lock);
  bool other = now.taken && now.taken != p;
  if (!now.taken) {
    forget(p);
    clock_gettime(CLOCK_REALTIME, &t);
    p->start_ns = (u64)t.tv_sec * 1000000000u + (u64)t.tv_nsec;
    p->begin_ns = hs_now_ns();
    set_taken(p);
  }
  pthread_mutex_unlock(&now.lock);
  return other ? plug_fail(PJ_FAILED_PRECONDITION, "hlosh: another profile is being taken") : NULL;
}

static void stop(pj_profiler *p) {
  pthread_mutex_lock(&now.lock);
  if (now.taken == p) set_taken(NULL);
  pthread_mutex_unlock(&now.lock);
}

static pj_error *profiler_stop(pj_profiler_arg *a) {
  if (!is_profiler(a)) return no_profiler();
  stop(a->profiler);
  return NULL;
}

// Hands out its own memory; into the caller's where there is a place, which has the size that was
// said before.
static pj_error *profiler_collect(pj_profiler_collect *a) {
  if (!a || !plug_is(a->profiler, PLUG_PROFILER)) return no_profiler();
  pj_profiler *p = a->profiler;
  pj_error *bad = NULL;
  stop(p);
  if (!a->buffer) {
    bad = plug_status(write_space(p));
    a->buffer = (u8 *)p->bytes.p;
  } else if (p->bytes.n) {
    memcpy(a->buffer, p->bytes.p, p->bytes.n);
  }
  a->n = p->bytes.n;
  return bad;
}

static pj_error *profiler_destroy(pj_profiler_arg *a) {
  if (!is_profiler(a)) return no_profiler();
  pj_profiler *p = a->profiler;
  stop(p);
  forget(p);
  hs_vec_free(&p->programs);
  hs_vec_free(&p->runs);
  hs_buf_free(&p->bytes);
  plug_handle_free(PLUG_PROFILER, p);
  return NULL;
}

// ---- its errors ---------------------------------------------------------------------------------
static void error_destroy(pj_error_destroy *a) {
  if (a && plug_is(a->error, PLUG_ERROR)) plug_error_free(a->error);
}
static void error_message(pj_error_message *a) {
  if (a && plug_is(a->error, PLUG_ERROR)) plug_Error_Message(a);
}
static pj_error *error_code(pj_error_code *a) {
  if (a && plug_is(a->error, PLUG_ERROR)) a->code = a->error->code;
  return NULL;
}

pj_extension *plug_profiler_extension(void) {
  static pj_profiler_api api = {.struct_size = sizeof api};
  static pj_ext_profiler ext = {.base = {.struct_size = sizeof ext, .type = PJ_EXT_PROFILER},
                                .api = &api};
  api.error_destroy = (void *)(uintptr_t)error_destroy;
  api.error_message = (void *)(uintptr_t)error_message;
  api.error_code = (void *)(uintptr_t)error_code;
  api.create = (void *)(uintptr_t)profiler_create;
  api.destroy = (void *)(uintptr_t)profiler_destroy;
  api.start = (void *)(uintptr_t)profiler_start;
  api.stop = (void *)(uintptr_t)profiler_stop;
  api.collect = (void *)(uintptr_t)profiler_collect;
  return &ext.base;
}
