// worker.h — the child process in which foreign code lives: LLVM, JIT-compiled code, oneDNN, and
// later CUDA and PJRT.
//
// The shell exec's itself as `hlosh --worker` (never a bare fork: OpenMP does not survive it) and
// talks over a socketpair; large data crosses in shared memory (memfd, passed by descriptor). The
// worker may crash, hang or be killed: the caller gets E_WORKER with the signal and the step, or
// E_DEADLINE / E_INTERRUPTED, the process is reaped, and the next request starts a new one. Nothing
// in the shell depends on the worker's memory.
#ifndef BACKEND_WORKER_H
#define BACKEND_WORKER_H

#include <sys/types.h>

#include "backends/sandbox.h"
#include "core/eval/eval.h"

// ---- shared blobs: a memfd mapped in both processes ---------------------------------------------
typedef struct worker_shm {
  int fd;
  void *p;
  size_t bytes;
} worker_shm;
// A sealed memfd of that size, mapped for reading and writing; E_NO_MEMORY or E_IO.
hs_status worker_shm_new(size_t bytes, worker_shm *out);
void worker_shm_free(worker_shm *);  // unmaps and closes; zeroed ones too
// From now on nobody can map it for writing; this mapping can still be written to. For what a
// worker is to read and not to change.
hs_status worker_shm_seal(worker_shm *);

#define WORKER_FD 3  // of the socket in the child
#define WORKER_FD_TEXT "3"

// ---- shell side ---------------------------------------------------------------------------------
typedef struct worker worker;
// Kinds of requests: WORKER_REQ_<id>, one row each in worker_requests.def.
enum {
#define WORKER_REQUEST(id, handler) WORKER_REQ_##id,
#include "backends/worker_requests.def"
#undef WORKER_REQUEST
  WORKER_REQ_COUNT
};

// One worker per session, started lazily. exe: a binary whose main begins with worker_entry (NULL:
// /proc/self/exe). It is limited but not confined (sandbox.h) unless worker_confine is called.
worker *worker_new(const char *exe);
// How it is confined, and how many bytes of private memory it may have (0: no limit), from its next
// start on; one that runs otherwise is ended.
void worker_confine(worker *, sandbox_mode, u64 memory);
bool worker_confined(const worker *);  // as far as the kernel can
// A confined worker may read this file, by an absolute path; one that runs and may not is ended.
void worker_may_read(worker *, const char *path);
// Appends what the sandbox has refused since the last call, as sandbox_refused does.
bool worker_refused(worker *, hs_buf *);
// Another program in its place, which answers some of the requests. It is started with the socket
// as descriptor WORKER_FD, its output and errors captured, and leads a process group of its own.
typedef struct worker_program {
  const char *exe;           // path
  const char *what;          // names it in messages: "the worker"
  const char *const *argv;   // ends with NULL
  const char *const *env;    // NAME=VALUE for what the user has not set; ends with NULL; or NULL
  const char *const *fixed;  // the same, in place of what the user has set
} worker_program;
worker *worker_new_of(const worker_program *);  // copies all of it
void worker_free(worker *);                     // ends the process; NULL is fine
pid_t worker_pid(const worker *);               // 0 when not running
// Bytes of memory of its own (not shared, not of files) that the worker has touched and still
// holds; -1 when it does not run or the system does not say.
i64 worker_resident(const worker *);
// Seconds of processor time that the worker has used since it was started, all threads; 0 when it
// does not run. Readable while it works, so that two readings bound a run.
double worker_cpu_s(const worker *);
// Grows with every start: programs compiled in an older generation are gone.
u64 worker_generation(const worker *);
hs_status worker_start(worker *);  // starts it now, unless it runs
void worker_kill(worker *);        // ends and reaps it; the next call starts a new one
// Sends one request (kind, small payload, descriptors) and waits for its reply; `step` names what
// is going on in error messages ("compiling", "running"). Polls for interrupts; deadline 0 = none.
// The reply payload is malloc'ed.
hs_status worker_call(worker *, const char *step, u32 kind, const void *payload, size_t n,
                      const int *fds, u32 nfds, double deadline_s, void **reply, size_t *reply_n);
// ---- worker side --------------------------------------------------------------------------------
// The first line of every main() that uses backends: when the arguments are `--worker FD`, runs the
// worker loop, stores its exit status and returns true.
bool worker_entry(int argc, char **argv, int *status);
// What the worker is doing, and what this thread of it is: when a signal kills it, or its time is
// up, the shell's message names that. Text that lives longer than the request; NULL: nothing.
extern const char *volatile worker_doing;
extern _Thread_local const char *volatile worker_doing_here;
// Signal handlers of the calling thread get a stack of their own, so that an overflow of its stack
// is named too. What it returns goes to worker_thread_end.
void *worker_thread_begin(void);
void worker_thread_end(void *);
// Notes why the worker is about to die, for the shell's message; safe in signal handlers. Text that
// was noted before stays.
void worker_last_words(const char *what, const char *why);
// A handler answers one kind of request inside the worker; its reply buffer is sent back. Rows in
// worker_requests.def.
typedef hs_status worker_handler(const void *payload, size_t n, const int *fds, u32 nfds,
                                 hs_buf *reply);
int worker_main(int socket_fd);  // the loop of `hlosh --worker`; returns the exit status

#endif
