// api_state.h — the objects behind the handles of the emulated driver, and what its files share.
#ifndef GPU_EMU_API_STATE_H
#define GPU_EMU_API_STATE_H

#include <pthread.h>

#include "backends/gpu/emu/api.h"
#include "backends/gpu/emu/emu.h"

// As cuda.h's CUlaunchConfig.
typedef struct emu_launch_config {
  unsigned grid[3], block[3], shared;
  cuda_stream *stream;
  void *attributes;
  unsigned nattributes;
} emu_launch_config;

#define CUDA_FN(field, symbol, base, version, need, args) cuda_result emu_##symbol args;
#include "backends/gpu/cuda/cuda.def"
#include "backends/gpu/emu/api_more.def"
#undef CUDA_FN

// ---- objects ------------------------------------------------------------------------------------
// Freed ones stay until the context goes, marked as gone: a handle used too long is refused.
typedef enum api_kind {
  API_GONE,
  API_CONTEXT,
  API_MODULE,
  API_FUNCTION,
  API_STREAM,
  API_EVENT,
  API_GRAPH,
  API_EXEC,
  API_NODE,
  API_KINDS
} api_kind;

typedef struct api_object {
  api_kind kind;
  cuda_context *context;
  struct api_object *next;  // all of them
} api_object;

struct cuda_context {  // of a device: its primary one
  api_object o;
  cuda_device number;
  u32 retained;
  emu_device *device;
  cuda_stream *main;  // the default stream
};
struct cuda_module {
  api_object o;
  emu_module *m;
};
struct cuda_function {
  api_object o;
  const emu_kernel *k;
  cuda_module *module;
  int max_dynamic;
};

// Work in a stream or a graph.
typedef enum api_op_kind {
  OP_KERNEL,
  OP_COPY,
  OP_SET,
  OP_RECORD,
  OP_WAIT,
  OP_HOST,
  OP_FREE,
  OP_GRAPH,
  OP_CONDITION
} api_op_kind;
typedef struct api_condition api_condition;
typedef struct api_op {
  api_op_kind kind;
  u32 correlation, copy;  // copy: its direction, as emu_work has it
  cuda_function *fn;
  emu_grid grid;
  u8 *params;  // values, at the kernel's offsets
  u8 *to;
  const u8 *from;
  u64 bytes;
  u32 value, width;  // OP_SET
  cuda_event *event;
  u64 sequence;  // of the event
  cuda_host_fn *host;
  void *arg;
  bool of_library;  // OP_HOST: stands for a kernel
  cuda_graph_exec *exec;
  api_condition *condition;
} api_op;
typedef HS_VEC(api_op) api_ops;

struct cuda_graph {
  api_object o;
  api_ops ops;
  bool broken;         // a call came that capturing does not allow
  bool blocking;       // captured in a stream that waits for the default one
  bool is_body, open;  // of a conditional node; while a stream is captured into it
  bool apart;          // a node was added that nothing captured comes after yet
};
struct cuda_graph_node {
  api_object o;
  cuda_graph *graph;
  size_t place;
};
// A conditional node: its bodies in a graph, or what is run of them in what is made of one.
struct api_condition {
  u64 condition;
  int kind;
  unsigned nbodies;
  cuda_graph *bodies[2];
  api_ops ops[2];
};
// A condition as cuGraphConditionalHandleCreate made it.
typedef struct api_condition_value {
  cuda_graph *graph;
  bool used, assigned;
  u32 at_launch, flags, value;
} api_condition_value;
struct cuda_graph_exec {
  api_object o;
  api_ops ops;
  u32 pending;  // launches that have not run yet
};
struct cuda_stream {
  api_object o;
  u32 number;
  cuda_graph *capture;  // NULL: not captured
  bool origin;          // the capture began here
  bool apart;           // does not wait for the default stream
  bool is_default;
  cuda_graph_node *after;  // as cuStreamGetCaptureInfo gave it
  api_ops queue;           // waiting, from `done` on
  size_t done;
};
struct cuda_event {
  api_object o;
  bool untimed;
  cuda_stream *stream;    // of the latest recording
  cuda_graph *capture;    // recorded in a captured stream
  u64 recorded, reached;  // numbers of recordings; 0: none
  u64 at_ns;
};

typedef struct api_memory {
  cuda_context *context;
  u8 *p;
  size_t n, mapped;
} api_memory;

// ---- the driver ---------------------------------------------------------------------------------
typedef struct api_state {
  pthread_mutex_t lock;
  emu_behaviour how;
  emu_observer observer;
  bool initialized, unchecked;
  cuda_context *context;  // the current one
  cuda_context *contexts[EMU_MOST_DEVICES];
  api_object *objects;
  HS_VEC(api_memory) memory, pinned;
  u64 memory_used;
  u32 correlation, streams;
  u32 allocations, launches;        // so far
  u32 captures, blocking_captures;  // under way; of streams that wait for the default one
  u64 sequence;
  HS_VEC(api_condition_value) conditions;
  u32 condition_calls;  // of the functions that make conditional nodes, so far
  u32 running;          // graphs
  cuda_result broken;   // what every call answers after a fault; CUDA_OK before
  char *why;
} api_state;
extern api_state api;

// Each function of the API begins with one of these: holds the lock until it returns.
void api_unlock(int *);
cuda_result api_enter(bool started);
#define API_CALL_ANY()                                               \
  HS_UNUSED __attribute__((cleanup(api_unlock))) int api_guard_ = 0; \
  (void)api_enter(false)
// ... and fails when the driver is not started, there is no context or a fault was before.
#define API_CALL()                                                   \
  HS_UNUSED __attribute__((cleanup(api_unlock))) int api_guard_ = 0; \
  do {                                                               \
    cuda_result api_r_ = api_enter(true);                            \
    if (api_r_ != CUDA_OK) return api_r_;                            \
  } while (0)

void *api_new(api_kind, size_t bytes);
void api_gone(void *object);
bool api_is(const void *object, api_kind);  // a live object of that kind

// ---- between the files --------------------------------------------------------------------------
cuda_result api_fault(cuda_result, hs_status);  // takes the status; CUDA_OK where it shows later
// Puts work into a stream (NULL, 1 and 2: the default one): into its graph, its queue, or runs it.
// Takes what op owns, also when it fails.
cuda_result api_submit(cuda_stream *, api_op);
cuda_result api_drain(cuda_stream *);  // runs all that waits in it
cuda_result api_drain_all(void);
// What captures work: its place in the graph.
cuda_result api_captured(cuda_stream *, api_op);
cuda_result api_run(const api_op *, u32 correlation, bool of_graph);
cuda_result api_condition_run(const api_op *, u32 correlation);
void api_condition_free(api_condition *);
void api_conditions_disown(void);  // bodies are objects like others, when all of them go
api_condition *api_condition_copy(const api_condition *);
void api_conditions_begin(const api_ops *);  // a graph starts: defaults are assigned
bool api_can_be_instantiated(const api_ops *, bool of_body);
bool api_condition_set(void *, u64 condition, u32 value);
void api_ops_drop(api_ops *);
api_op api_op_copy(const api_op *);
cuda_result api_stream_of(cuda_stream *, cuda_stream **out);
// A call that would wait for the device, or that capturing does not allow: breaks captures.
cuda_result api_no_capture(void);
bool api_on_device(const void *p, size_t n);  // within one allocation
cuda_result api_release(cuda_ptr at);         // frees device memory
void api_free_memory(const cuda_context *);   // all that is left of it

#endif
