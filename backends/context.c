// context.c — a context: one worker for the cpu backend, and what pjrt adds to it (its hosts),
// behind an opaque pointer with a function that frees it, so that nothing here depends on pjrt.
#include "backends/context.h"

struct backend_context {
  worker *w;
  u64 last_id;
  backend_hosts *hosts;
  void (*release_hosts)(backend_hosts *);
};

backend_context *backend_context_new(void) {
  backend_context *c = hs_calloc(1, sizeof *c);
  c->w = worker_new(NULL);
  return c;
}

void backend_context_free(backend_context *c) {
  if (!c) return;
  if (c->hosts) c->release_hosts(c->hosts);
  worker_free(c->w);
  hs_free(c);
}

worker *backend_context_worker(backend_context *c) { return c->w; }
u64 backend_context_next_id(backend_context *c) { return ++c->last_id; }

backend_hosts **backend_context_hosts(backend_context *c, void (*release)(backend_hosts *)) {
  c->release_hosts = release;
  return &c->hosts;
}
