// backend.h — the interface of a backend: compile a module, run it, report what was measured.
// Each has a row in backends.def and a folder of its own; backends/null is a skeleton to copy.
#ifndef BACKEND_H
#define BACKEND_H

#include "backends/context.h"
#include "core/analysis/cost.h"
#include "core/eval/eval.h"
#include "profiler/memory.h"
#include "profiler/record.h"

typedef struct backend_exe backend_exe;  // opaque, one per backend

// A flag of the plug-in's compiler, spelled as in XLA_FLAGS but without the dashes.
typedef struct backend_flag {
  const char *name, *value;
} backend_flag;

// How the C library of the process that runs a program allocates: XLA:CPU takes fresh memory for
// its results in every run.
typedef enum backend_malloc {
  BACKEND_MALLOC_BEST,     // both are measured, the faster is kept
  BACKEND_MALLOC_DEFAULT,  // as it is installed
  BACKEND_MALLOC_TUNED,    // large blocks stay with the process
} backend_malloc;

// Whether NVIDIA's libraries compute what they can (docs/GPU.md).
typedef enum backend_libraries {
  BACKEND_LIBRARIES_AUTO,  // what is large enough, where they are found and faster
  BACKEND_LIBRARIES_ON,    // all that they do; it is an error when one is not found
  BACKEND_LIBRARIES_OFF,
} backend_libraries;

typedef struct backend_options {
  // whose processes compile and run; borrowed, outlives the program. NULL: the program gets a
  // context of its own, with processes that end when it is released
  backend_context *context;
  u32 threads;  // 0 = all cores
  // the baseline: every instruction is a kernel, and values share no buffers
  bool per_instruction;
  double deadline_s;      // 0 = none
  const char *plugin;     // pjrt: name or path of the plug-in; NULL: the first one found
  const char *python;     // jax: path of the Python; NULL: the first one found that has jaxlib
  backend_malloc malloc;  // jax
  u32 nflags;
  const backend_flag *flags;
  // pjrt: the plug-in generates code for the module as it is, without passes of its own
  bool backend_only;
  // pjrt: text of a GpuTargetConfigProto: compile for that device, which need not be here; NULL
  const char *target;
  // pjrt: the log of the plug-in's passes, appended also when compiling fails; NULL
  hs_buf *trace;
  // pjrt: XLA_FLAGS for what cannot be set per compilation; programs with equal flags share a
  // process; NULL
  const char *process_flags;
  // cpu: plan steps and buffers as for running, but make no code: the program can say its figures
  // and its plan, and not run
  bool plan_only;
  // gpu: the device to compile for, a name of profiler/model/devices.def, which need not be
  // here. NULL: the one that is here; for gpu-emulated an H200
  const char *device;
  const char *driver;  // gpu: path of the CUDA driver's library; NULL: the one that is installed
  backend_libraries libraries;  // gpu
  bool one_device;              // interp, cpu: run as the only device, whatever the module says
  // cpu: products are rounded before they are added; otherwise both may be one fused operation, as
  // XLA:CPU compiles them
  bool no_contract;
  // interp, cpu: denormals are numbers like others; otherwise they count as zero, as operands and
  // as results, as XLA:CPU compiles it
  bool keep_denormals;
  // interp: hlo_eval_options has it
  bool round_each_term;
  // cpu: where the kernels' code lies is appended to /tmp/perf-PID.map, PID the worker's, which
  // `perf report` reads names from
  bool perf_map;
  // cpu: object code is taken from the context's folder on disk, and kept there. Not where the time
  // of compiling is measured
  bool keep_code;
} backend_options;

// One kernel (or library call, or loop) of a compiled module.
typedef struct backend_kernel {
  const char *name;     // instruction it computes
  const char *kind;     // "loop", "row-reduce", "dot (oneDNN)", "while", ...
  u32 instr;            // id in the module given to compile
  double flops, bytes;  // estimated
  u32 launches;         // on a device, of one execution; a library's call is one; 0: not known
  i64 scratch_bytes;    // of its own, between its launches or threads
} backend_kernel;

typedef struct backend_compiled {
  double compile_ms;  // wall, JIT and library set-up included
  double compile_cpu_ms;
  i64 compile_peak_bytes;
  bool kept_code;  // no code was generated: a process before had done that
  u32 nkernels;
  const backend_kernel *kernels;
  // as allocated, for each device; -1: not known
  i64 argument_bytes, output_bytes, alias_bytes, temp_bytes, peak_bytes;
  u32 devices;    // that it runs on, each with memory of its own; 0: one
  u32 fallbacks;  // instructions run by the evaluator
} backend_compiled;

typedef struct backend_run_options {
  u32 warmup, min_runs, max_runs;  // steady-state measurement: 0,1,1 = just run
  double min_seconds, max_seconds;
  bool want_outputs;
  bool want_kernel_times;  // a recording of single kernels, made in runs of their own
  bool want_counters;      // and what the device's counters say of each, in more runs (gpu)
  // cpu: the program's memory is given back first and taken anew, as a new process would get it:
  // on which pages its buffers lie is part of its speed
  bool fresh_memory;
  // The arguments are kept for the next call that says so with the same literals, and not copied
  // again then but for those that the program overwrote. What is copied counts into the seconds.
  bool keep_arguments;
  // what infeed, outfeed and host transfers use (interp); NULL: nothing
  hlo_host *host;
} backend_run_options;
// One run, with its outputs: what `run` does when it is given NULL.
extern const backend_run_options backend_once;

// What a device's own counters say of the runs that were timed, all of them together. The energy
// counter is that of the whole device, whoever uses it, and is up to BACKEND_POWER_LATE behind.
typedef struct backend_power {
  double seconds;   // between its two readings; 0: there is no counter that can be read
  double joules;    // that it counted between them
  u32 runs;         // that were between them
  u32 mhz;          // clock of the device's processors behind the runs; 0: not known
  char slowed[96];  // why that is not higher: "power cap, temperature"; "": no reason is known
} backend_power;
#define BACKEND_POWER_LATE 0.1  // seconds; drivers update it every 20 to 100 ms
// The part of `joules` that the counter's delay may have added or left out, where the device takes
// as much before the readings as between them; infinity without a counter.
double backend_power_error(const backend_power *);
// Joules of one run; < 0 where that may be wrong by more than a quarter, or nothing was counted.
double backend_power_of_run(const backend_power *);

typedef struct backend_timing {
  double first_ms;  // first run after compile, inputs in place
  u32 runs;
  double *samples_ms;  // steady runs, each one execution
  // time between kernels, estimated by an empty-kernel run; -1 unknown
  double dispatch_ms;
  // moving arguments and results to and from the device; 0 on the host
  double transfer_ms;
  backend_power power;
  prof_recording *kernels;  // when asked for, and measured; else NULL
} backend_timing;

typedef struct backend_result {
  hlo_literal *outputs;  // NULL unless want_outputs
  backend_timing timing;
} backend_result;
void backend_result_free(backend_result *);  // what it points to; NULL and a zeroed one are fine

// What a backend can do beyond compiling and running. Callers test these bits, never the name.
typedef enum backend_caps {
  // The reference evaluator: it runs in this process, keeps every value of a computation at once,
  // and can show each of them (watch, traps, captures).
  BACKEND_EVALUATOR = 1 << 0,
  // Modules are compiled by a plug-in that the user may choose (find.c in its folder); its probe
  // reports the plug-in that is found without one. It can leave out the plug-in's passes, and
  // compile for a device that is not here.
  BACKEND_PLUGIN = 1 << 1,
  // Modules are compiled by XLA, which says what it made (pjrt_compiled_result) and takes flags.
  BACKEND_XLA = 1 << 2,
  // XLA is that of a Python, which the user may choose.
  BACKEND_PYTHON = 1 << 3,
  // Programs run on a device through its driver, in a worker that may use devices. They can be
  // compiled for a named one without any (backend_options.device).
  BACKEND_DEVICE = 1 << 4,
  // Schedules by hand (core/analysis/tuning.h) are obeyed.
  BACKEND_TUNED_BY_HAND = 1 << 5,
} backend_caps;

typedef struct backend {
  const char *name, *summary;
  u32 caps;  // of backend_caps
  // ok when usable on this machine; otherwise the reason, with a note that says how to fix it.
  hs_status (*probe)(void);
  // Whether one instruction, with its types and attributes, is done without the evaluator;
  // otherwise `why` (may be NULL) gets "unsupported: <opcode> ...".
  bool (*supports)(const hlo_instr *, hs_buf *why);
  // Of an instruction that it supports: whether that is done by other code than the backend is
  // about, on the host of a device, say. NULL: none is.
  bool (*falls_back)(const hlo_instr *);
  // The name of the library by which the backend does it after all, where that is found; NULL: none
  // does. NULL: there is no such library.
  const char *(*library)(const hlo_instr *);
  // What it can use but does not need: says what of it is here and what is not, and how to get
  // that. False: some is not here. NULL: there is nothing of the sort.
  bool (*extras)(hs_buf *text, hs_buf *fix);
  // A program, released by the caller; options NULL: all zero. It keeps no pointer into the module.
  // Modules need not be supported: E_UNSUPPORTED, E_COMPILE, E_NO_MEMORY, ... say why not.
  hs_status (*compile)(const hlo_module *, const backend_options *, backend_exe **out);
  const backend_compiled *(*compiled)(const backend_exe *);  // borrowed from the program
  // Arguments: one literal per parameter, borrowed; E_INPUT when they do not fit. Options NULL:
  // backend_once. *out is the caller's to free with backend_result_free, also after an error.
  hs_status (*run)(backend_exe *, u32 nargs, hlo_literal *const *args, const backend_run_options *,
                   backend_result *out);
  // Appends "llvm", "asm", "ptx", "sass", "resources", "buffers", "schedule" or "addresses" (where
  // the code of each kernel lies: address and bytes in hexadecimal, name) as text; E_USAGE for
  // those that it does not have. May be NULL.
  hs_status (*dump)(backend_exe *, const char *what, hs_buf *out);
  // The program's buffers, each with its place; the caller's to free. May be NULL.
  hs_status (*plan)(backend_exe *, prof_memory *out);
  void (*release)(backend_exe *);  // NULL is fine
} backend;

extern const backend *const backend_table[];
extern const u32 backend_count;
const backend *backend_find(const char *name);  // NULL when unknown
// Whether it has all of the bits of backend_caps.
static inline bool backend_has(const backend *b, u32 caps) { return (b->caps & caps) == caps; }
// The first row of the table that has all of them; NULL when none has.
const backend *backend_with(u32 caps);
// How programs run on it, in words: "in the sandbox", "not in a sandbox: ..."; NULL when they are
// not machine code.
const char *backend_confined(const backend *, sandbox_mode);
// Computations that call each other (calls, loops, branches) may be nested this deep in what a
// backend compiles: it walks them recursively.
enum { BACKEND_MOST_NESTED = 2000 };
hs_status backend_too_nested(void);  // E_LIMIT, naming that
// E_UNSUPPORTED naming the first instruction of the module that the backend cannot do, or ok.
hs_status backend_check_module(const backend *, const hlo_module *);

// Compiles, runs once and releases the program. *out is a new reference; NULL after an error.
hs_status backend_run_once(const backend *, const hlo_module *, const backend_options *, u32 nargs,
                           hlo_literal *const *args, hlo_literal **out);

#endif
