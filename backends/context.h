// context.h — what the backends of one session share: the worker process that compiles and runs,
// and the processes that hold plug-ins. None of it is global: each context has processes of its
// own. Two threads may use two contexts at the same time, but not the same one.
#ifndef BACKEND_CONTEXT_H
#define BACKEND_CONTEXT_H

#include "backends/code_cache.h"
#include "backends/worker.h"

typedef struct backend_context backend_context;
backend_context *backend_context_new(void);  // starts no process yet
// Its workers are another program than this one: a path of an executable (see worker_new).
backend_context *backend_context_new_of(const char *exe);
// Ends its processes. Programs compiled in it are released first. NULL is fine.
void backend_context_free(backend_context *);

// How the worker of the context, and that of loaded custom calls, are confined; auto and without a
// limit until called. limit: bytes that the buffers of a run may take (0: no limit); a worker gets
// twice that, for copies of arguments and constants, and room for compiler and libraries. The
// processes of plug-ins are never confined. See worker_confine.
void backend_context_confine(backend_context *, sandbox_mode, double limit);
// Appends what the sandbox refused to programs since the last call, and, once per context, what it
// cannot refuse on this kernel; what was wrong with code that is kept on disk. False when there is
// nothing to say.
bool backend_context_warning(backend_context *, hs_buf *);
// The worker of the context; borrowed. Its first call starts it.
worker *backend_context_worker(backend_context *);
// Another one, for programs that run on a device. It is limited but not confined: the driver of a
// device opens files of its own and talks to its kernel module.
worker *backend_context_device_worker(backend_context *);
// Arguments that are kept for programs of this context (block.h); borrowed.
struct block_kept *backend_context_arguments(backend_context *);
// The generation of that worker for which perf's map was begun (perf_map of the options); borrowed.
u64 *backend_context_mapped(backend_context *);
// Code that is kept on disk for programs of this context (backend_options.keep_code): off until its
// owner turns it on; borrowed.
code_cache *backend_context_code(backend_context *);
// What of this machine decides about the code that its workers generate, in bytes for a key: their
// program and the processor.
void backend_context_compiler(const backend_context *, hs_buf *);
// A new number for a program, unique within the context; never 0.
u64 backend_context_next_id(backend_context *);
// The place where pjrt keeps its hosts: NULL until pjrt sets it; `release` frees them with the
// context.
typedef struct backend_hosts backend_hosts;
backend_hosts **backend_context_hosts(backend_context *, void (*release)(backend_hosts *));

#endif
