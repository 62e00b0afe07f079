// worker.h — the child process in which foreign code lives: LLVM, JIT-compiled code, oneDNN, and later CUDA and PJRT.
//
// The shell exec's itself as `hlosh --worker` (never a bare fork: OpenMP does not survive it) and talks over a
// socketpair; large data crosses in shared memory (memfd, passed by descriptor). The worker may crash, hang or be
// killed: the caller gets E_WORKER with the signal and the step, or E_DEADLINE / E_INTERRUPTED, the process is reaped,
// and the next request starts a new one. Nothing in the shell depends on the worker's memory.
#ifndef BACKEND_WORKER_H
#define BACKEND_WORKER_H

#include "core/eval.h"

// ---- shared blobs: a memfd mapped in both processes ---------------------------------------------------------------
typedef struct worker_shm { int fd; void *p; size_t bytes; } worker_shm;
hs_status worker_shm_new(size_t bytes, worker_shm *out);
void worker_shm_free(worker_shm *);

// ---- shell side -----------------------------------------------------------------------------------------------------
typedef struct worker worker;
// One worker per session, started lazily. exe: path of the hlosh binary (NULL: /proc/self/exe).
worker *worker_new(const char *exe);
void worker_free(worker *);
pid_t worker_pid(const worker *);      // 0 when not running
// Sends one request (kind, small payload, descriptors) and waits for its reply; `step` names what is going on in error
// messages ("compiling", "running"). Polls hs_interrupted; deadline 0 = none. The reply payload is malloc'ed.
hs_status worker_call(worker *, const char *step, u32 kind, const void *payload, size_t n, const int *fds, u32 nfds,
                      double deadline_s, void **reply, size_t *reply_n);
// Process-wide worker of the session (backends use it); set once by main.
worker *worker_session(void);

// ---- worker side ------------------------------------------------------------------------------------------------------
// A handler answers one kind of request inside the worker; its reply buffer is sent back. Rows in worker_requests.def.
typedef hs_status worker_handler(const void *payload, size_t n, const int *fds, u32 nfds, hs_buf *reply);
int worker_main(int socket_fd);        // the loop of `hlosh --worker`; returns the exit status

#endif
