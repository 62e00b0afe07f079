// worker.c — HLOSH_WORKER=1: programs run in a worker process, as the shell's do. A crash of what
// runs there is an error of the run that met it, and the next run starts another worker; arguments
// and results are copied, through shared memory.
//
// The worker is the program `hlosh`: what HLOSH names, or that beside the library or in the bin
// folder next to its own. Programs of several devices, and those that call functions of this
// process, run here all the same.
#include "plugin/plugin.h"

#include "backends/context.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <unistd.h>

extern const backend backend_cpu;

struct plug_worker {
  pthread_mutex_t lock;  // a context is for one thread at a time
  backend_context *context;
};

// The caller's to free; NULL: there is none.
static char *find_program(void) {
  static const char *const places[] = {"%.*s/hlosh", "%.*s/../bin/hlosh", "%.*s/../../bin/hlosh"};
  const char *named = getenv("HLOSH");
  Dl_info self;
  if (named && *named) return access(named, X_OK) ? NULL : hs_strdup(named);
  if (!dladdr(&backend_cpu, &self) || !self.dli_fname) return NULL;
  const char *end = strrchr(self.dli_fname, '/');
  int n = end ? (int)(end - self.dli_fname) : 1;
  for (size_t k = 0; k < HS_COUNT(places); k++) {
    char *path = hs_format(places[k], n, end ? self.dli_fname : ".");
    if (!access(path, X_OK)) return path;
    hs_free(path);
  }
  return NULL;
}

pj_error *plug_worker_new(plug_worker **out) {
  const char *wanted = getenv("HLOSH_WORKER");
  *out = NULL;
  if (!wanted || !*wanted || !strcmp(wanted, "0")) return NULL;
  if (strcmp(wanted, "1") != 0)
    return plug_fail(PJ_INVALID_ARGUMENT, "hlosh: HLOSH_WORKER is 0 or 1");
  char *program = find_program();
  if (!program)
    return plug_fail(PJ_FAILED_PRECONDITION,
                     "hlosh: there is no program hlosh beside the library for HLOSH_WORKER=1; "
                     "HLOSH can name one");
  plug_worker *w = hs_calloc(1, sizeof *w);
  pthread_mutex_init(&w->lock, NULL);
  w->context = backend_context_new_of(program);
  hs_free(program);
  return *out = w, NULL;
}

void plug_worker_free(plug_worker *w) {
  if (!w) return;
  backend_context_free(w->context);
  pthread_mutex_destroy(&w->lock);
  hs_free(w);
}

bool plug_worker_takes(const plug_exe *e) {
  return e->client->worker && plug_ndevices(e) == 1 && !e->calls_out;
}

hs_status plug_worker_compile(plug_exe *e) {
  plug_worker *w = e->client->worker;
  const backend_options o = {.context = w->context, .one_device = true};
  pthread_mutex_lock(&w->lock);
  hs_status s = backend_cpu.compile(e->optimized, &o, &e->remote);
  pthread_mutex_unlock(&w->lock);
  return s;
}

const backend_compiled *plug_worker_figures(const plug_exe *e) {
  return backend_cpu.compiled(e->remote);
}

hs_status plug_worker_run(plug_exe *e, u32 nargs, hlo_literal *const *args, hlo_literal **out) {
  plug_worker *w = e->client->worker;
  backend_result r = {0};
  pthread_mutex_lock(&w->lock);
  hs_status s = backend_cpu.run(e->remote, nargs, args, &backend_once, &r);
  pthread_mutex_unlock(&w->lock);
  if (hs_ok(s)) *out = hlo_literal_ref(r.outputs);
  backend_result_free(&r);
  return s;
}

void plug_worker_release(plug_exe *e) {
  if (!e->remote) return;
  pthread_mutex_lock(&e->client->worker->lock);
  backend_cpu.release(e->remote);
  pthread_mutex_unlock(&e->client->worker->lock);
}
