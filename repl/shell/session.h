// session.h — what the shell remembers: modules, the tree of versions of each, inputs, settings.
//
// A module is edited in place; its versions are the edits between them (ir.h). Version 0 is the
// module as loaded; every mutating command that changes something adds a child of the current
// version. undo goes to the parent, redo to the child that was current last, goto to any version
// (up to the common ancestor, then down). Branches are kept until the module goes.
#ifndef REPL_SESSION_H
#define REPL_SESSION_H

#include "backends/backend.h"
#include "core/analysis/cost.h"
#include "passes/passes.h"
#include "profiler/model/prof.h"

typedef struct repl_command repl_command;  // command.h
typedef struct repl_version repl_version;
// What the verifier said of a version. Unknown until somebody asks (gate.h).
typedef enum repl_verdict { REPL_UNKNOWN, REPL_VALID, REPL_INVALID } repl_verdict;
struct repl_version {
  u32 number;
  repl_version *parent, *redo;  // redo: the child that `redo` goes to
  hlo_delta *delta;             // edits from the parent; NULL for version 0
  char *label;                  // the command that made it
  char *mark;                   // name given by `mark`, or NULL
  // where `next` stood in which of the module's pipelines; NULL: at its start
  pipeline_cursor *cursor;
  u32 cursor_of;
  // by next, until or continue, or a state of a dump: `back` goes back over it
  bool stepped;
  pass_log log;      // passes that ran to make it
  pass_notes notes;  // why they did what they did
  repl_verdict verdict;
  u64 takes;  // hash of the types of the entry's parameters: equal where the same arguments fit
  // what a run needs, by the evaluator's ways [1] or not [0], once somebody asked (exec.h)
  hlo_memory memory[2];
  bool memory_known[2];
};

// The value that an instruction had in the last run: of several executions the latest.
typedef struct repl_kept {
  char *name, *place;
  hlo_literal *value;
  u32 times;
} repl_kept;
typedef HS_VEC(repl_kept) repl_values;

// A compiled module kept for the next run of the same version. `m` is a private copy: the session's
// moves on.
typedef struct repl_exe {
  const backend *be;
  backend_exe *exe;
  hlo_module *m;
  u32 version;
  backend_options options;  // but what they point to, which may be gone
  u64 fill_key;             // how elided constants were filled
  u64 plugin_epoch;         // plug-in and flags as they were
} repl_exe;

// What the last `speedup` of a module found; times in ms.
typedef struct repl_measurement {
  bool known, estimated;
  char device[32], what[64];  // what: "baseline -> optimized"
  double ms, opt_ms;
  prof_interval ratio;  // ms / opt_ms
  double extra_ms;      // what optimizing and compiling took longer, once; < 0: not known
  i64 peak, opt_peak;
} repl_measurement;

// A profile of another process, maybe of another machine, joined to a module
// (repl/debug/recorded.h).
typedef struct repl_recorded {
  hs_arena arena;  // of the texts and kernels
  const char *file, *device;
  u64 program;              // its id in the file; 0: not said
  u32 version;              // of the module, that the kernels' names are of
  backend_kernel *kernels;  // as many as the recording has
  prof_recording *rec;      // owned
  u32 left_out;             // runs that are not whole
  double joined;            // part of the kernels' time that is of instructions of the module
} repl_recorded;
void repl_recorded_free(repl_recorded *);  // NULL is fine; frees the struct too

// What a kernel took in the last recording (`profile` and others that record), all its executions
// in one run.
typedef struct repl_kernel_time {
  char *name;
  double ms;
} repl_kernel_time;
typedef HS_VEC(repl_kernel_time) repl_kernel_times;

typedef struct repl_module {
  u32 number;  // 1, 2, ... as `modules` shows
  hlo_module *m;
  char *path;                       // file it came from; NULL when built by hand
  bool elided;                      // has {...} constants
  HS_VEC(repl_version *) versions;  // by number
  repl_version *at;
  hlo_literal **inputs;
  u32 ninputs;
  char *inputs_from;  // NULL until asked for
  repl_values values;
  u32 values_version;  // of the last run, and the version it was of
  repl_kernel_times kernel_times;
  u32 kernel_times_version;  // that was recorded
  repl_exe exe, xla;         // xla: of the xla commands, which may be for another device
  // for next, until, continue: NULL until asked for; how many there were
  pipeline_program *stepping;
  pipeline_cursor cursor;
  u32 steppings;
  u32 xla_of, xla_of_version;  // what `xla module` made this of, by module number; 0: nothing
  bool imported;               // its versions were read from a dump: next and back move along them
  bool built;                  // made by `new`: version 0 is empty
  repl_measurement measured;
  repl_recorded *recorded;  // NULL: none
  bool unchecked;           // by load --unchecked: the worker may have it unverified
  hs_buf findings;          // what bisect and shrink found, a list in Markdown, for report
  // computation that NAME = op(...) adds to; NULL unless `new` made the module
  hlo_computation *building;
} repl_module;

typedef enum repl_elided { REPL_ELIDED_ASK, REPL_ELIDED_RANDOM, REPL_ELIDED_ZEROS } repl_elided;

typedef struct repl_settings {
  u32 threads;  // 0: all cores
  u64 seed;
  double deadline;  // seconds for one compile or run; 0: none
  double abs_error, rel_error;
  bool verify;  // after every pass
  bool keep_denormals, allow_fallback;
  bool keep_going;
  bool perf_map;  // names of kernels for perf
  bool contract;  // fused multiply-add in the cpu backend
  repl_elided elided;
  u32 vintage;  // hlo_vintage of what print writes
  bool metadata, backend_config, show_fusions;
  bool pager;
  bool infer;  // expressions at the prompt: types and broadcasts (repl/builder)
  backend_malloc jax_malloc;
  double memory_limit;  // bytes that the session or a run may use; 0: what the machine has
  double load_limit;    // bytes of one file, unpacked; 0: hs_load_limit_default
  sandbox_mode sandbox;
  bool cache;         // code on disk
  double cache_size;  // bytes
  backend_libraries gpu_libraries;
  char gpu_driver[240];  // path of the CUDA driver's library; "": the installed one
  char capture[120];     // instructions whose values every run keeps; "": none
} repl_settings;

typedef struct repl_alias {
  char *name, *text;
} repl_alias;

// A breakpoint as typed after `break`: before a pass, when an instruction changes, when the
// verifier reports an error, or when an expression holds. A watch only reports changes of an
// instruction.
typedef struct repl_stop {
  u32 number;
  bool watch;
  char *when;
} repl_stop;

// Bytes that a command may still use, to end in good order, when the system has no more (base.h).
#define REPL_RESERVE ((size_t)64 << 20)

// Set by the SIGINT handler (main.c), cleared before each line; the main thread watches it.
extern hs_interrupt repl_interrupt;

typedef struct repl_session {
  hlo_ctx *ctx;
  const repl_command *commands;  // borrowed
  u32 ncommands;
  HS_VEC(repl_module *) modules;
  repl_module *current;  // NULL: none
  u32 next_number;
  repl_settings set;
  backend_context *backends;  // the processes in which they work
  const backend *be;
  // of the backend pjrt, by name or path; NULL: the first one found
  char *plugin;
  char *python;        // of the backend jax, its path; NULL: the first one found
  const backend *xla;  // that with real XLA chosen last; NULL: none yet
  // of the plug-in's compiler, set by `set xla.FLAG`; strings owned
  HS_VEC(backend_flag) flags;
  // description of the device that the plug-in compiles for without having it; NULL: its own
  char *plugin_target;
  u64 plugin_epoch;  // grows with every change of the two above
  const prof_device *target;
  prof_device here;               // this machine: as calibrated, else as it is typical
  prof_calibration *calibration;  // that `here` borrows; NULL: none
  char *calibration_problem;      // why the file of this machine is not used; NULL
  char calibration_of[48];        // what it was looked for: repl_calibration_name
  const backend *calibration_be;  // backend and plugin_epoch as they were then
  u64 calibration_epoch;
  prof_device target_own;
  hs_arena target_names;  // the target when it was read from a file
  // the target's description for XLA's compiler; NULL: it is no GPU
  char *target_text;
  HS_VEC(repl_alias) aliases;
  struct repl_xla_flags *xla_flags;  // repl/debug/xla_flags.h; borrowed; NULL: none
  const pass_registry *passes;       // pass_builtin, or in tests one with more before it
  pass_pipelines pipelines;          // defined by the user; names and texts are interned
  HS_VEC(repl_stop) stops;
  u32 next_stop;  // breakpoints and watches
  bool json, color, color_err, interactive;
  u32 graphics;          // 1 + viz_graphics of the terminal; 0: not asked yet
  struct repl_out *out;  // of the running command
  bool quit;
  int exit_code;  // of the first failed command
  u32 depth;      // nesting of source and alias
} repl_session;

// A session with default settings, the first usable backend and no module. `commands` is borrowed:
// the table of registry.h.
repl_session *repl_session_new(const repl_command *commands, u32 ncommands);
// Frees the session with its modules and ends its worker processes.
void repl_session_free(repl_session *);
// Adds a module, which the session owns from then on, and makes it current. Cannot fail. path: the
// file it came from; NULL for none.
repl_module *repl_session_add(repl_session *, hlo_module *take, const char *path);
// Frees a module with its versions; another one becomes current if it was.
void repl_session_remove(repl_session *, repl_module *);
// A module by number or name; NULL when unknown.
repl_module *repl_session_find(repl_session *, const char *number_or_name);

// Ends a transaction: the uncommitted edits become a version labelled `label` (NULL when nothing
// changed).
repl_version *repl_commit(repl_module *, const char *label);
// The version that "as loaded" refers to: version 0, or, for a module built at the prompt, or one
// that was loaded invalid, the last one before any pass ran; the current one if that is invalid.
// Where the arguments of the current version do not fit that one (resize, or a dump's state before
// it was partitioned), it is the first since when they fit.
repl_version *repl_base(const repl_module *);
// Moves the module to one of its versions: undoes edits up to the common ancestor, then redoes
// edits down to it.
void repl_goto(repl_module *, repl_version *);
// Moves to another version temporarily: repl_return, given what repl_visit returned, restores
// everything, also where redo goes and where stepping stands.
typedef struct repl_visit_state {
  repl_version *here, *redo;
  pipeline_cursor cursor;
} repl_visit_state;
repl_visit_state repl_visit(repl_module *, repl_version *);
void repl_return(repl_module *, const repl_visit_state *);
// The version that a text names: "3", "@3" or a mark; NULL when unknown. Borrowed.
repl_version *repl_version_find(repl_module *, const char *number_or_mark);
// The nearest earlier version that has an instruction of that name (with or without '%'); NULL when
// there is none. *id, *found (either may be NULL): the instruction's id, and its name, which lives
// as long as the module's context.
const repl_version *repl_version_with(repl_module *, const char *name, u32 *id, const char **found);
// An independent copy of a version, the caller's to free (hlo_module_free); the module's own
// current version does not change.
hlo_module *repl_module_at(repl_module *, repl_version *);
// Free what a compiled program, a module's arguments, a set of values hold, and empty it.
void repl_drop_exe(repl_exe *);
void repl_drop_inputs(repl_module *);
void repl_values_free(repl_values *);
void repl_kernel_times_free(repl_kernel_times *);
// Replaces the values of the last run by those of a run of the current version; takes *take and
// empties it.
void repl_keep_values(repl_module *, repl_values *take);

// Instructions and computations by what users type: with or without '%', exact first, then ignoring
// case; "entry" is the entry computation and "root" its result where nothing has that name.
// Borrowed; NULL when there is none.
hlo_instr *repl_find_instr(const hlo_module *, const char *name);
hlo_computation *repl_find_comp(const hlo_module *, const char *name);
// E_NO_OBJECT with the nearest names.
hs_status repl_no_object(const hlo_module *, const char *name);

#endif
