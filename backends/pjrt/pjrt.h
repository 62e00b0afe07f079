// pjrt.h — the parts of the pjrt backend, private to backends/pjrt (the shell also reads the list
// of find.c).
//
//   find.c       shell side: which plug-ins this machine has
//   entry.c      shell side: plug-ins named by a .json file
//   host.c       shell side: the worker processes that hold plug-ins, their captured stderr, the
//                cause when one of them dies
//   prepare.c    shell side: a module in the form that plug-ins accept: flat parameters and results
//   options.c    shell side: compile options as protocol buffer
//   trace.c      shell side: the plug-in's log of its passes
//   kernels.c    shell side: the launches and PTX that XLA:GPU made
//   shard.c      shell side: arguments split among, results joined from, several devices
//   pjrt.c       shell side: the backend
//   plugin.c     worker side: one loaded plug-in
//   serve_state.c  worker side: the open plug-in and the compiled programs
//   serve.c      worker side: opening, compiling, querying
//   serve_run.c  worker side: buffers, running, measuring
//   serve_calls.c  worker side: custom calls that the plug-in has no handler for
//   serve_cubin.c, records.c  worker side: registers and stack of kernels, from the machine code in
//                the serialized executable
//
// Calls go one way: pjrt.c calls the other files of the shell side, host.c calls entry.c; serve.c
// calls serve_calls.c and serve_cubin.c, and all handlers call plugin.c and serve_state.c.
//
// The shell never loads a plug-in. A worker holds one plug-in and at most one client; another
// plug-in, or another number of threads or devices, needs another worker (host.c). Compiled
// programs have numbers; when a worker has died, its programs are compiled again before their next
// run.
#ifndef PJRT_PJRT_H
#define PJRT_PJRT_H

#include "backends/backend.h"
#include "backends/block.h"
#include "core/eval/eval.h"

// ---- find.c -------------------------------------------------------------------------------------
typedef struct pjrt_plugin {
  char *name, *path;
  char *from;  // where it was found: "PJRT_NAMES_AND_LIBRARY_PATHS", "build/peers", ...
} pjrt_plugin;
typedef HS_VEC(pjrt_plugin) pjrt_plugins;
// All plug-ins of this machine, in order of preference, each file once.
void pjrt_find_all(pjrt_plugins *out);
// Calls with the prefix of each place where the packages of `make peers` may be: "peers" in the
// folder of this program and in the two above it, and build/peers of the current folder. What is
// not there is not left out; the text is the callee's for the call only.
void pjrt_each_peers(void (*add)(void *arg, const char *prefix), void *arg);
void pjrt_plugins_free(pjrt_plugins *);  // its entries, not the struct
// By path, or by name or a part of it that only one has; NULL or "": the first whose name contains
// "cpu", else the first. *path is malloc'ed. E_NOT_BUILT or E_INPUT when there is none.
hs_status pjrt_find(const char *name_or_path, char **path);
// The preferred one (name or path; may be NULL) when it is for GPUs, else the first that is. *path
// is malloc'ed; errors as above.
hs_status pjrt_find_gpu(const char *preferred, char **path);

// ---- entry.c ------------------------------------------------------------------------------------
// A plug-in's file, or a .json file that names one with the options for its client. options:
// noptions times a name, a PJ_ type and the value, as wire.h writes them.
typedef struct pjrt_entry {
  char *library;
  u32 noptions;
  hs_buf options;
} pjrt_entry;
// E_IO or E_INPUT when a .json file cannot be read.
hs_status pjrt_entry_read(const char *path, pjrt_entry *out);
void pjrt_entry_free(pjrt_entry *);

// ---- host.c -------------------------------------------------------------------------------------
// A process that answers for a plug-in in place of hlosh's worker: a Python (backends/jax) whose
// path is the configuration's. It is started as PATH -c PROGRAM KEY=NUMBER..., the numbers being
// those of the requests and of the errors.
typedef struct pjrt_child {
  const char *what;        // names it in messages: "the Python of jaxlib"
  const char *program;     // text
  const char *setting;     // one word that tells it from others with the same program: "tuned"
  const char *const *env;  // NAME=VALUE, ends with NULL
} pjrt_child;
// What a worker is asked to hold; workers are shared by equal configurations.
typedef struct pjrt_config {
  const char *path;
  const pjrt_child *child;  // static; NULL: hlosh's worker, which loads the plug-in at `path`
  u32 threads, devices;     // 0: the plug-in's default
  // text of a GpuTargetConfigProto: compile for it without a device; NULL: a client
  const char *target;
  bool trace;         // the plug-in logs its passes (TF_CPP_VMODULE)
  const char *flags;  // appended to XLA_FLAGS, which the plug-in reads once; NULL
} pjrt_config;
// What a plug-in reports about itself.
typedef struct pjrt_about {
  int major, minor;
  u32 functions;
  char stablehlo[64], stablehlo_minimum[64];
  char *attributes, *extensions;  // one line each
} pjrt_about;
void pjrt_about_free(pjrt_about *);
typedef struct pjrt_host pjrt_host;
// A running worker of the context with that plug-in open; borrowed until the context is freed.
hs_status pjrt_host_get(backend_context *, const pjrt_config *, pjrt_host **out);
worker *pjrt_host_worker(pjrt_host *);
// One request, see worker_call. When the process died, the error names the failed check that the
// plug-in logged last.
hs_status pjrt_host_call(pjrt_host *, const char *step, u32 kind, const hs_buf *request,
                         const int *fds, u32 nfds, double deadline_s, void **reply,
                         size_t *reply_n);
// What the plug-in wrote to stderr during the last call; valid until the next.
const char *pjrt_host_log(pjrt_host *, size_t *n);
// Opens the plug-in in a worker of its own, which is ended afterwards. *out is to be freed, also
// after an error.
hs_status pjrt_describe(const char *path, pjrt_about *out);
// What a host of the context with that file and child reports about itself, whatever else it was
// made for; when there is none, one like `c` is started. Borrowed until the context is freed.
hs_status pjrt_host_describe(backend_context *, const pjrt_config *c, const pjrt_about **out);

// ---- prepare.c ----------------------------------------------------------------------------------
typedef struct pjrt_ready {
  // owned: parameters are arrays, the result is an array or a flat tuple of arrays
  hlo_module *m;
  u32 nargs, nouts;                                   // leaves, tokens left out
  const hlo_shape **arg, **out;                       // with layouts; in the arena
  const hlo_sharding **arg_sharding, **out_sharding;  // NULL entries: whole on every device
  bool *donated;  // per argument: an output takes over its memory
  u32 replicas, partitions;
  bool shardy;
  hs_arena arena;
} pjrt_ready;
// A copy of the module in that form; freed by pjrt_ready_free. backend_only: for a code generator
// without passes; the schedule is kept. dissolve: inlines fusions, as is always done for
// partitioned modules. E_UNSUPPORTED names a parameter or result that PJRT has no form for.
hs_status pjrt_prepare(const hlo_module *, bool backend_only, bool dissolve, pjrt_ready *out);
void pjrt_ready_free(pjrt_ready *);

// ---- options.c ----------------------------------------------------------------------------------
// Appends a CompileOptionsProto. Flags are sent as env_option_overrides, on top of the plug-in's
// defaults.
void pjrt_options(hs_buf *out, const pjrt_ready *, bool backend_only, u32 nflags,
                  const backend_flag *flags);

// ---- trace.c ------------------------------------------------------------------------------------
// One run of a pass inside the plug-in's compiler.
typedef struct pjrt_step {
  const char *pass, *pipeline;
  double us;            // wall time, nested runs included
  u32 depth;            // number of enclosing runs
  u32 before, after;    // instructions
  u64 hash;             // of the module before it
  bool changed, whole;  // whole: a pipeline run as a pass
  u32 begun;            // number of runs that had ended when it began
  u32 pipelines[2];     // number of pipelines that had started when it began, and when it ended
} pjrt_step;
typedef struct pjrt_steps {
  pjrt_step *v;
  size_t n, cap;         // in order of their ends
  double cumulative_us;  // as XLA sums it
  u32 pipelines;         // number that started
  // the innermost run that did not end (its process did), or NULL
  const char *open, *open_pipeline;
  hs_arena arena;
} pjrt_steps;
// Reads the runs from a log; what it does not know it skips. Freed by pjrt_steps_free.
void pjrt_read_steps(const char *log, pjrt_steps *out);
void pjrt_steps_free(pjrt_steps *);

// ---- kernels.c ----------------------------------------------------------------------------------
// One step of a program for a GPU. A launch has a grid; copies, library calls and loops have none.
typedef struct pjrt_kernel {
  // the kernel's (the thunk's where nothing is launched); XLA's name of the kind
  const char *name, *thunk;
  const char *instr;          // that it computes, of the optimized module; NULL: unknown
  u32 depth;                  // number of enclosing loops and branches
  i64 grid[3], block[3];      // grid[0] 0: no launch
  i64 shared, static_shared;  // bytes per block: requested at the launch, declared in the code
  i64 registers, frame;       // of a thread: number, bytes of stack; -1: unknown
  i64 code_bytes;             // of the machine code; -1: unknown
  const char *ptx;            // text of the file that has the kernel; NULL
} pjrt_kernel;
typedef HS_VEC(pjrt_kernel) pjrt_kernels;
// Reads the folder that the plug-in dumped to (NULL: none), and the worker's list of machine code.
// Strings live in the arena.
void pjrt_read_kernels(const char *dir, wire_reader *code, hs_arena *, pjrt_kernels *out);
// The instructions of the entry and of what it calls that are launched, fusions whole, named also
// in the module `m` where it has them. *n of them, in the arena.
const backend_kernel *pjrt_list_launched(const hlo_module *optimized, const hlo_module *m,
                                         hs_arena *, u32 *n);
void pjrt_remove_dumps(char *dir);  // removes the folder, frees its name; NULL is fine

// ---- shard.c ------------------------------------------------------------------------------------
// How an array is distributed over the devices of a partitioned program. `part` is the shape on
// each of them. coord: see hlo_sharding_tiles; sharding: borrowed.
typedef struct pjrt_tiles {
  const hlo_shape *whole, *part;
  u32 ndevices;
  i64 *coord;
  hlo_share *share;
  bool sum;  // the array is the sum of what devices have: it is zero where they are joined
  const hlo_sharding *sharding;
} pjrt_tiles;
// E_UNSUPPORTED when the sharding is no tiling of the devices.
hs_status pjrt_tiles_make(hlo_ctx *, const hlo_shape *whole, const hlo_sharding *, u32 ndevices,
                          pjrt_tiles *out);
void pjrt_tiles_free(pjrt_tiles *);
// Whether every device holds all of the array.
static inline bool pjrt_tiles_whole(const pjrt_tiles *t) { return t->part == t->whole && !t->sum; }
// Copy the tile of one device out of the whole array, or into it; both dense and row-major. Padding
// of a tile is left as it is.
void pjrt_tiles_cut(const pjrt_tiles *, u32 device, const void *whole, void *part);
void pjrt_tiles_join(const pjrt_tiles *, u32 device, const void *part, void *whole);
// A module that takes and gives whole arrays, from one that takes and gives either these or one
// device's tiles: a copy, or the tiles' program called between SPMDFullToShardShape and
// SPMDShardToFullShape. The caller's to free. E_UNSUPPORTED when the module's shapes are neither.
hs_status pjrt_whole(const hlo_module *, u32 nargs, const pjrt_tiles *arg, u32 nouts,
                     const pjrt_tiles *out, hlo_module **whole);

// ---- pjrt.c -------------------------------------------------------------------------------------
typedef struct pjrt_property {
  const char *name;
  double value;
} pjrt_property;
// Bytes, as the plug-in reports them.
typedef struct pjrt_memory {
  i64 code, arguments, outputs, alias, temp, peak;
  bool known;
} pjrt_memory;
typedef struct pjrt_result {
  hlo_module *optimized;   // the module after the plug-in's passes; NULL: not available
  const char *unreadable;  // why it could not be read; NULL
  const pjrt_property *cost;
  u32 ncost;
  pjrt_memory memory;
  const char *fingerprint;
  pjrt_kernels kernels;  // of a GPU; empty elsewhere
  // names of custom calls without code for the device, which fail when they run there; "": none
  const char *refused;
  // fields of the target's description that the plug-in does not know; NULL: none
  const char *dropped;
} pjrt_result;
const pjrt_result *pjrt_compiled_result(const backend_exe *);  // borrowed from the program
// The functions of the backend, for a plug-in or child at that path. XLA:GPU accepts no fusions
// from outside, XLA:CPU most of them: where its passes stop because of a layout inside of one, or
// the way through StableHLO has no form for one, the module is sent once more without fusions.
hs_status pjrt_compile_in(const hlo_module *, const backend_options *, const char *path,
                          const pjrt_child *, backend_exe **out);
const backend_compiled *pjrt_compiled(const backend_exe *);
// True: only XLA's compiler knows, and compile reports what it refuses.
bool pjrt_supports(const hlo_instr *, hs_buf *why);
hs_status pjrt_run(backend_exe *, u32 nargs, hlo_literal *const *args, const backend_run_options *,
                   backend_result *out);
void pjrt_release(backend_exe *);
// Gives a program another process, with other settings: the first run that measures finds which of
// the two is faster, and the program stays there.
void pjrt_set_rival(backend_exe *, const pjrt_child *);
// The child that runs it; NULL: none, or not decided between it and its rival.
const pjrt_child *pjrt_compiled_child(const backend_exe *);
// pjrt_whole for a state of the program's module inside the plug-in, such as the optimized one. Its
// parameters are the arrays among the program's arguments (tuples flat, tokens left out), its
// result is those among the program's results.
hs_status pjrt_compiled_whole(const backend_exe *, const hlo_module *state, hlo_module **whole);

#endif
