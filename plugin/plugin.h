// plugin.h — hlosh as a PJRT plug-in: what stands behind the handles of the interface. Private to
// plugin/.
//
// A library in its user's process: no signal handlers, no exit, no state but the client's and what
// backends/cpu/local.c keeps. Everything may be called from any thread: what changes after it was
// made is atomic or under a lock. Programs run where they are called, one after the other, so that
// every event is ready when it is handed out.
//
//   table.c      the table of functions; those that are not there say so: UNIMPLEMENTED
//   client.c     errors, events, client, devices, memories
//   buffer.c     buffers
//   options.c    the compile options that a caller sends
//   compile.c    programs: read, optimized, compiled
//   query.c      what is asked about programs; programs written and read again
//   execute.c    running: arguments to devices, results to buffers
//   journal.c    HLOSH_JOURNAL: every compiled module as a session
#ifndef PLUGIN_PLUGIN_H
#define PLUGIN_PLUGIN_H

#include "plugin/abi.h"

#include "backends/cpu/local.h"
#include "backends/pjrt/pjrt.h"
#include "core/text/text.h"

#include <pthread.h>
#include <stdatomic.h>

#define PLUG_NAME "hlosh"
#define PLUG_MEMORY_KIND "device"
#define PLUG_SERIALIZED "hlosh executable 1\n"  // what a serialized program begins with
enum { PLUG_API_MAJOR = 0, PLUG_API_MINOR = 81 };
enum { PLUG_MOST_DEVICES = 256 };

struct pj_error {
  int code;
  char *text;
};
struct pj_event {
  int unused;
};
struct pj_description {
  int id;
  char text[32], debug[48];
};
struct pj_memory {
  pj_device *device;
  char text[32];
};
struct pj_device {
  pj_client *client;
  struct pj_description description;
  pj_description *described;
  struct pj_memory memory;
  pj_memory *memories[1];
  pj_device *self[1];
};
struct pj_topology {
  pj_client *client;
};
struct pj_client {
  u32 n;
  pj_device *devices;
  pj_device **list;
  pj_memory **memories;
  pj_description **descriptions;
  struct pj_topology topology;
  _Atomic i64 bytes, peak, allocations;  // of buffers
  _Atomic u32 serial;                    // of compiled modules, for the journal
  char *journal;                         // NULL
};

// ---- client.c -----------------------------------------------------------------------------------
pj_error *plug_fail(int code, const char *fmt, ...) HS_PRINTF(2, 3);
pj_error *plug_status(hs_status);  // NULL when ok; drops it
pj_event *plug_event(void);        // a ready one
// An argument struct that is too short for what is read of it.
pj_error *plug_check_size_(const char *name, size_t got, size_t want);
#define PLUG_CHECK(a, last)                                                                   \
  do {                                                                                        \
    size_t want_ = offsetof(__typeof__(*(a)), last) + sizeof((a)->last);                      \
    if ((a)->struct_size < want_) return plug_check_size_(__func__, (a)->struct_size, want_); \
  } while (0)

// ---- buffer.c -----------------------------------------------------------------------------------
// Bytes that buffers share: dense and row-major. NULL: not that much memory.
typedef struct plug_bytes plug_bytes;
struct plug_bytes {
  _Atomic u32 refs;
  pj_client *client;
  void *p;
  size_t n;
  void (*gone)(void *p, void *arg);  // of borrowed ones, when the last holder is gone
  void *gone_arg;
};
plug_bytes *plug_bytes_new(pj_client *, size_t n);
void plug_bytes_drop(plug_bytes *);

struct pj_buffer {
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
} plug_leaf;

struct pj_executable {
  _Atomic u32 refs;
  pj_client *client;
  pthread_mutex_t lock;  // of what is made when it is asked for, and of the evaluator
  hlo_ctx *ctx;
  hlo_module *given, *optimized;  // as compiled; as it was sent
  cpu_local *program;             // NULL: the evaluator runs it
  u32 replicas, partitions;
  u32 *devices;  // by replica, then partition
  u32 nargs, nouts;
  plug_leaf *args, *outs;
  hs_buf source;  // serialized: options and the module as it was sent
  hs_buf proto, assignment;
  char fingerprint[40];
  // for queries
  int *out_types;
  size_t *out_ranks;
  i64 *out_dims;
  const char **kinds;
  size_t *kind_sizes;
  pj_named *costs;
  size_t ncosts;
};
struct pj_loaded {
  pj_executable *e;
  _Atomic bool deleted;
  pj_device **devices;
};
void plug_executable_drop(pj_executable *);
static inline u32 plug_ndevices(const pj_executable *e) { return e->replicas * e->partitions; }
// Reads, optimizes and compiles; journal: HLOSH_JOURNAL gets it.
pj_error *plug_build(pj_client *, hs_str code, hs_str format, hs_str options, bool journal,
                     pj_loaded **out);

// ---- journal.c ----------------------------------------------------------------------------------
// Writes the module into the journal's folder, when there is one; failures are ignored.
void plug_journal(pj_client *, const hlo_module *, const char *source, size_t n);

// ---- every function that is there, in the table's order -----------------------------------------
#define PLUG(name) pj_error *plug_##name(void *args);
#include "plugin/functions.def"
#undef PLUG

#endif
