// context.h — what the backends of one session share: the worker process that compiles and runs,
// and the processes that hold plug-ins. Nothing of it is global: two contexts have processes of
// their own, and may be used by two threads at the same time; one context by one thread at a time.
#ifndef BACKEND_CONTEXT_H
#define BACKEND_CONTEXT_H

#include "backends/worker.h"

typedef struct backend_context backend_context;
backend_context *backend_context_new(void);  // starts no process yet
// Ends its processes. Programs compiled in it are released first. NULL is fine.
void backend_context_free(backend_context *);

// The worker of the context; borrowed. Its first call starts it.
worker *backend_context_worker(backend_context *);
// A number that no other program of the context has; never 0.
u64 backend_context_next_id(backend_context *);
// What pjrt keeps with a context: made by it on first use, freed by `release` with the context.
typedef struct backend_hosts backend_hosts;
backend_hosts **backend_context_hosts(backend_context *, void (*release)(backend_hosts *));

#endif
