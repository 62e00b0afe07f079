// plugin.h — hlosh as a PJRT plug-in: what stands behind the handles of the interface. Private to
// plugin/.
//
// A library in its user's process: no signal handlers, no exit, no state but the client's and what
// backends/cpu/local.c keeps. Everything may be called from any thread: what changes after it was
// made is atomic or under a lock. Programs run one after the other: a short one where it is called,
// others on the client's queue, and what they make is handed out before it is ready.
//
//   handle.c     handles: alive, of the right kind; the gate before every function
//   table.c      the table of functions; those that are not there say so: UNIMPLEMENTED
//   event.c      errors, events, what is not ready yet
//   queue.c      the thread that runs what was asked for
//   client.c     client, devices, memories
//   memory.c     the memory of buffers, kept for the next ones
//   buffer.c     buffers
//   options.c    the compile options that a caller sends
//   compile.c    programs: read, optimized, compiled
//   sharding.c   shardings of results of which the program says nothing
//   layout.c     what results are computed from, made row-major
//   layouts.c    the layouts of buffers, results and arguments, for who asks
//   profile.c    profiles: runs with the times of their kernels
//   query.c      what is asked about programs; programs written and read again
//   execute.c    running: arguments to devices, results to buffers
//   ffi.c        handlers of custom calls that the user registers
//   journal.c    HLOSH_JOURNAL: every compiled module as a session
#ifndef PLUGIN_PLUGIN_H
#define PLUGIN_PLUGIN_H

#include "plugin/abi.h"

#include "backends/cpu/local.h"
#include "backends/pjrt/pjrt.h"
#include "core/base/sha256.h"
#include "core/text/text.h"

#include <pthread.h>
#include <stdatomic.h>

#define PLUG_NAME "hlosh"
#define PLUG_MEMORY_KIND "device"
#define PLUG_SERIALIZED "hlosh executable 2\n"  // what a serialized program begins with
enum { PLUG_API_MAJOR = 0, PLUG_API_MINOR = 81 };
enum { PLUG_MOST_DEVICES = 256 };

// ---- handle.c -----------------------------------------------------------------------------------
// KIND(id, what it is called in messages)
#define PLUG_KIND_LIST(KIND)              \
  KIND(NONE, "nothing")                   \
  KIND(ERROR, "error")                    \
  KIND(EVENT, "event")                    \
  KIND(CLIENT, "client")                  \
  KIND(DEVICE, "device")                  \
  KIND(DESCRIPTION, "device description") \
  KIND(MEMORY, "memory")                  \
  KIND(TOPOLOGY, "topology")              \
  KIND(EXECUTABLE, "executable")          \
  KIND(LOADED, "loaded executable")       \
  KIND(BUFFER, "buffer")                  \
  KIND(CONTEXT, "execute context")        \
  KIND(LAYOUT, "memory layout")           \
  KIND(PROFILER, "profiler")
typedef enum plug_kind {
#define KIND(id, text) PLUG_##id,
  PLUG_KIND_LIST(KIND)
#undef KIND
      PLUG_KINDS
} plug_kind;
enum { PLUG_OR_NULL = 64 };  // in functions.def: the handle may be NULL
// What every handle begins with.
typedef struct plug_handle {
  _Atomic u32 mark;
} plug_handle;
// What the arguments of every function but those of no handle begin with.
typedef struct plug_first {
  PJ_HEAD;
  const void *handle;
} plug_first;
void plug_handle_init(plug_handle *, plug_kind);  // of one inside of another one's memory
void *plug_handle_new(plug_kind, size_t size);    // zeroed
void plug_handle_end(plug_handle *);              // from now on it is refused
void plug_handle_free(plug_kind, void *);         // that, and its memory goes back later
bool plug_is(const void *handle, plug_kind);
// Whether arguments are there, as long as `size`, and their handle is of the kind; the error when
// they are not.
bool plug_sound(const void *args, size_t size, u32 kind);
pj_error *plug_unsound(const char *function, const void *args, size_t size, u32 kind);
// The error about a handle that is not of the kind.
pj_error *plug_not_a(const char *function, const void *handle, plug_kind);
// Returns it from a function, for a handle further down in its arguments.
#define PLUG_WANT(handle, kind) \
  if (!plug_is(handle, PLUG_##kind)) return plug_not_a(__func__, handle, PLUG_##kind)

// ---- event.c ------------------------------------------------------------------------------------
struct pj_error {
  plug_handle h;
  int code;
  char *text;
};
pj_error *plug_fail(int code, const char *fmt, ...) HS_PRINTF(2, 3);
pj_error *plug_status(hs_status);  // NULL when ok; drops it
void plug_error_free(pj_error *);
// What is not there yet: set once, NULL for what is there from the start.
typedef struct plug_ready plug_ready;
plug_ready *plug_ready_new(void);
plug_ready *plug_ready_share(plug_ready *);
void plug_ready_drop(plug_ready *);
bool plug_ready_is(const plug_ready *);
void plug_ready_set(plug_ready *, const pj_error *);  // NULL: it went well
pj_error *plug_ready_wait(plug_ready *);              // a copy of its error
struct pj_event {
  plug_handle h;
  plug_ready *ready;
};
pj_event *plug_event(plug_ready *);

// ---- queue.c ------------------------------------------------------------------------------------
typedef struct plug_queue plug_queue;
plug_queue *plug_queue_new(void);
// Runs it after all that was added before, on the queue's thread; at once when that has ended.
void plug_queue_add(plug_queue *, void (*run)(void *take), void *arg);
bool plug_queue_is_idle(plug_queue *);  // nothing runs and nothing waits
bool plug_queue_is_here(plug_queue *);  // the calling thread is the queue's
void plug_queue_close(plug_queue *);    // when all of it is done
void plug_queue_drop(plug_queue *);

// ---- memory.c -----------------------------------------------------------------------------------
typedef struct plug_memory plug_memory;
plug_memory *plug_memory_new(void);
void plug_memory_free(plug_memory *);
// n bytes, aligned for what computes on them; NULL: not that much memory.
void *plug_memory_take(plug_memory *, size_t n);
void plug_memory_drop(plug_memory *, void *, size_t n);

// ---- client.c -----------------------------------------------------------------------------------
struct pj_description {
  plug_handle h;
  int id;
  char text[32], debug[48];
};
struct pj_memory {
  plug_handle h;
  pj_device *device;
  char text[32];
};
struct pj_device {
  plug_handle h;
  pj_client *client;
  struct pj_description description;
  struct pj_memory memory;
  pj_memory *memories[1];
  pj_device *self[1];
};
struct pj_topology {
  plug_handle h;
  pj_client *client;
};
struct pj_context {
  plug_handle h;
};
// One block of memory, devices and lists included.
struct pj_client {
  plug_handle h;
  _Atomic u32 refs;  // the caller's, and one of each buffer, its bytes and program
  u32 n;
  pj_device *devices;
  pj_device **list;
  pj_memory **memories;
  pj_description **descriptions;
  struct pj_topology topology;
  plug_queue *queue;
  plug_memory *memory;
  _Atomic i64 bytes, peak, allocations;  // of buffers
  _Atomic u32 serial;                    // of compiled modules, for the journal
  char *journal;                         // NULL
  struct plug_worker *worker;            // NULL: programs run in this process
};
pj_client *plug_client_share(pj_client *);
void plug_client_drop(pj_client *);

// A function that cannot fail: its arguments and what it sets in them.
#define ANSWER(name, type, set)    \
  pj_error *plug_##name(type *a) { \
    set;                           \
    return NULL;                   \
  }
// A text that ends with a NUL.
#define SAY(s) a->text = (s), a->n = strlen(a->text)

// ---- buffer.c -----------------------------------------------------------------------------------
// Bytes that buffers share: dense and row-major.
typedef struct plug_bytes plug_bytes;
struct plug_bytes {
  _Atomic u32 refs;
  pj_client *client;
  void *p;  // NULL: promised, or given away
  size_t n;
  void (*gone)(void *p, void *arg);  // of borrowed ones, when the last holder is gone
  void *gone_arg;
  plug_ready *ready;  // NULL: they are there
};
plug_bytes *plug_bytes_promised(pj_client *, size_t n);
bool plug_bytes_make(plug_bytes *);  // gives promised ones their memory; false: there is none
// Gives promised ones the memory of others of the same size that have just these references, all
// the caller's, and that nobody reads any more; false: they do not fit or others have them too.
bool plug_bytes_take_over(plug_bytes *, plug_bytes *from, u32 refs);
void plug_bytes_drop(plug_bytes *);

struct pj_buffer {
  plug_handle h;
  pj_device *device;
  hlo_dtype type;
  u32 rank;
  i64 dims[HLO_MAX_RANK], minor_to_major[HLO_MAX_RANK];
  pthread_mutex_t lock;
  plug_bytes *bytes;  // NULL: deleted or given away
  u32 external;       // holders of the pointer
  plug_bytes *held;   // while there are any
};
// A buffer of a shape's type and sizes; takes the bytes.
pj_buffer *plug_buffer_new(pj_device *, hlo_dtype, u32 rank, const i64 *dims, plug_bytes *take);
// The bytes with one more reference; NULL when they are gone.
plug_bytes *plug_buffer_bytes(pj_buffer *);
void plug_buffer_delete(pj_buffer *);
hlo_dtype plug_dtype(int pj_type);  // HLO_DT_INVALID when the interface's type is not ours

// ---- options.c ----------------------------------------------------------------------------------
typedef struct plug_options {
  u32 replicas, partitions;
  bool tupled;
  // devices by replica, then partition; NULL: the first ones
  u32 *devices;
} plug_options;
// CompileOptionsProto. The caller frees `devices`.
pj_error *plug_options_read(const char *p, size_t n, const pj_client *, plug_options *out);

// ---- compile.c ----------------------------------------------------------------------------------
// An array of the program's arguments or results.
typedef struct plug_leaf {
  const hlo_shape *shape;  // of all devices together
  pjrt_tiles tiles;        // what each partition has of it
  bool donated;            // an argument's
  u32 in_place_of;         // a result's: the argument whose memory it can have; UINT32_MAX: none
} plug_leaf;

// A program, behind the handles to it.
typedef struct plug_exe {
  _Atomic u32 refs;
  pj_client *client;
  pthread_mutex_t lock;  // of what is made when it is asked for, and of the evaluator
  hlo_ctx *ctx;
  hlo_module *given, *optimized;  // as compiled; as it was sent
  cpu_local *program;             // NULL: the worker or the evaluator runs it
  backend_exe *remote;            // in the worker; NULL
  u32 replicas, partitions;
  u32 *devices;  // by replica, then partition
  u32 nargs, nouts;
  plug_leaf *args, *outs;
  hs_buf source;  // serialized: options, the module as it was sent, object code with its digest
  hs_buf proto, assignment;
  char fingerprint[40];
  bool calls_out;       // runs custom calls of the user's, where it is called
  _Atomic u64 last_ns;  // that its last run took; 0: none yet
  // for questions
  int *out_types;
  size_t *out_ranks;
  i64 *out_dims;
  const char **kinds;
  size_t *kind_sizes;
  pj_named *costs;
  size_t ncosts;
  pj_memory_layout **arg_layouts, **out_layouts;
} plug_exe;
struct pj_executable {
  plug_handle h;
  plug_exe *e;
};
struct pj_loaded {
  plug_handle h;
  plug_exe *e;
  _Atomic bool deleted;
  pj_device **devices;
};
plug_exe *plug_exe_share(plug_exe *);
void plug_exe_drop(plug_exe *);
static inline u32 plug_ndevices(const plug_exe *e) { return e->replicas * e->partitions; }
// What is asked about its results: in query.c.
void plug_describe_results(plug_exe *);
// A program as a caller sends it; objects: code that another process made of it, or nothing.
typedef struct plug_sent {
  hs_str code, format, options, objects;
} plug_sent;
// Reads, optimizes and compiles; journal: HLOSH_JOURNAL gets it.
pj_error *plug_build(pj_client *, const plug_sent *, bool journal, pj_loaded **out);
// What a program's object code is told by, when it is read again.
void plug_digest(hs_str objects, u8 out[HS_SHA256_BYTES]);

// ---- sharding.c ---------------------------------------------------------------------------------
// Gives the entry's root a sharding when it has none, and there are partitions.
void plug_state_result_shardings(hlo_module *, u32 partitions);

// ---- layout.c -----------------------------------------------------------------------------------
void plug_order_results(hlo_module *);  // of a module that StableHLO was converted to

// ---- layouts.c ----------------------------------------------------------------------------------
pj_extension *plug_layouts_extension(void);  // called once
void plug_layouts_free(pj_memory_layout **, size_t n);

// ---- profile.c ----------------------------------------------------------------------------------
pj_extension *plug_profiler_extension(void);  // called once
// Runs the program; while a profile is taken, with the times of its kernels.
hs_status plug_profiled_run(plug_exe *, const void *const *args, void *const *results);

// ---- ffi.c --------------------------------------------------------------------------------------
extern const hlo_eval_peer plug_peer;    // custom calls that the user has registered handlers for
pj_extension *plug_ffi_extension(void);  // called once

// ---- worker.c -----------------------------------------------------------------------------------
typedef struct plug_worker plug_worker;
// What HLOSH_WORKER asks for; NULL: nothing.
pj_error *plug_worker_new(plug_worker **);
void plug_worker_free(plug_worker *);
// Whether a program's client has one, and it can run the program.
bool plug_worker_takes(const plug_exe *);
hs_status plug_worker_compile(plug_exe *);
const backend_compiled *plug_worker_figures(const plug_exe *);
// Arguments are borrowed, *out is a new reference. E_WORKER for a crash.
hs_status plug_worker_run(plug_exe *, u32 nargs, hlo_literal *const *args, hlo_literal **out);
void plug_worker_release(plug_exe *);

// ---- journal.c ----------------------------------------------------------------------------------
// Writes the module into the journal's folder, when there is one; failures are ignored.
void plug_journal(pj_client *, const hlo_module *, const char *source, size_t n);

// ---- every function that is there, in the table's order -----------------------------------------
#define PLUG(name, type, last, kind) pj_error *plug_##name(type *);
#define PLUG_VOID(name, type, last, kind) void plug_##name(type *);
#include "plugin/functions.def"
#undef PLUG
#undef PLUG_VOID

#endif
