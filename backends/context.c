// context.c — a context: a worker for the cpu backend, one for devices, and what pjrt adds to it
// (its hosts), behind an opaque pointer with a function that frees it, so that nothing here depends
// on pjrt.
#include <stdio.h>
#include <sys/stat.h>

#include "backends/block.h"
#include "backends/context.h"
#include "backends/ffi.h"
#include "profiler/model/calibration.h"

#define ROOM ((u64)2 << 30)  // of memory, for compiler and libraries

struct backend_context {
  worker *w, *device;  // device: NULL until it is asked for
  char *exe;           // of both; NULL: this program
  u64 last_id;
  sandbox_mode sandbox;
  bool warned;
  u64 mapped;
  block_kept arguments;
  code_cache code;
  backend_hosts *hosts;
  void (*release_hosts)(backend_hosts *);
};

backend_context *backend_context_new_of(const char *exe) {
  backend_context *c = hs_calloc(1, sizeof *c);
  c->exe = exe ? hs_strdup(exe) : NULL;
  c->w = worker_new(c->exe);
  worker_confine(c->w, SANDBOX_AUTO, 0);
  return c;
}

backend_context *backend_context_new(void) { return backend_context_new_of(NULL); }

void backend_context_confine(backend_context *c, sandbox_mode mode, double limit) {
  u64 memory = limit > 0 && limit < 1e18 ? 2 * (u64)limit + ROOM : 0;
  c->sandbox = mode;
  worker_confine(c->w, mode, memory);
  ffi_confine(mode, memory);
}

bool backend_context_warning(backend_context *c, hs_buf *b) {
  size_t from = b->n;
  if (worker_pid(c->w) && c->sandbox == SANDBOX_AUTO && !c->warned && !SANDBOX_SANITIZED) {
    c->warned = true;
    hs_buf lacks = {0};
    if (sandbox_lacks(&lacks))
      hs_buf_printf(b, "programs run without a full sandbox here: %s", hs_buf_cstr(&lacks));
    hs_buf_free(&lacks);
  }
  hs_buf refused = {0};
  bool compiled = worker_refused(c->w, &refused);
  if (compiled) hs_buf_puts(&refused, ", ");
  bool called = ffi_refused(&refused);
  if (compiled && !called) refused.n -= 2;
  if (compiled || called)
    hs_buf_printf(b, "%sthe sandbox refused the program: %s", b->n > from ? "; " : "",
                  hs_buf_cstr(&refused));
  hs_buf_free(&refused);
  if (c->code.complaint) hs_buf_printf(b, "%s%s", b->n > from ? "; " : "", c->code.complaint);
  hs_free(c->code.complaint);
  c->code.complaint = NULL;
  return b->n > from;
}

void backend_context_free(backend_context *c) {
  if (!c) return;
  if (c->hosts) c->release_hosts(c->hosts);
  block_forget(&c->arguments);
  worker_free(c->w);
  worker_free(c->device);
  hs_free(c->exe);
  hs_free(c->code.complaint);
  hs_free(c);
}

worker *backend_context_worker(backend_context *c) { return c->w; }

worker *backend_context_device_worker(backend_context *c) {
  if (!c->device) c->device = worker_new(c->exe);
  return c->device;
}

block_kept *backend_context_arguments(backend_context *c) { return &c->arguments; }

u64 *backend_context_mapped(backend_context *c) { return &c->mapped; }

code_cache *backend_context_code(backend_context *c) { return &c->code; }

// A program that is built or installed anew is another one, whatever its version says.
void backend_context_compiler(const backend_context *c, hs_buf *b) {
  struct stat st = {0};
  (void)stat(c->exe ? c->exe : "/proc/self/exe", &st);
  hs_buf_printf(b, "%lld bytes, %lld.%09ld", (long long)st.st_size, (long long)st.st_mtim.tv_sec,
                st.st_mtim.tv_nsec);
  char cpu[96];
  prof_processor_name(cpu);
  hs_buf_printf(b, ", %s", cpu);
}

u64 backend_context_next_id(backend_context *c) { return ++c->last_id; }

backend_hosts **backend_context_hosts(backend_context *c, void (*release)(backend_hosts *)) {
  c->release_hosts = release;
  return &c->hosts;
}
