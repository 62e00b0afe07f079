// cpu.h — the parts of the cpu backend, private to backends/cpu.
//
// In the worker, lowest first; each calls only those above it in this list, and the handlers of
// serve.c call them all:
//
//   rt         kernels in C and library calls for what is not emitted (rt/rt.h)
//   called.c   what functions of core/eval do: libraries, and what happens between devices
//   buffers.c  buffer assignment: in-place results, live ranges, heap simulation
//   chain.c    products that become one step with what lies between them
//   region.c   which parts become one function
//   in_step.c  loops and branches of several devices that run in step
//   exec.c     runs steps; control flow without round trips
//   bind.c     a run in its caller's memory instead of the program's
//   program.c  lowering: HLO -> steps over values, placed and made ready to run
//   plan.c     the buffers of a program as a plan of memory, for the shell
//   local.c    the same without a worker, for a process that is a library's user
//   serve.c    the request handlers, compiled programs by id, measuring
//
// In the shell: cpu.c sends text, constants and arguments and receives results. It asks rt/rt.c and
// program.c what can be compiled, and calls no foreign code.
//
// Recursion follows the nesting of computations: lower_computation in program.c, run_block in
// exec.c. No file calls one that comes later in the list.
//
// A *value* is one leaf array that some step writes; tuples are lists of values and never exist in
// memory. A *slot* is the storage of one or more values (several when computed in place). Steps are
// numbered in execution order, loop bodies included, so that a live range is an interval of step
// numbers.
#ifndef CPU_CPU_H
#define CPU_CPU_H

#include "backends/cpu/rt/rt.h"
#include "backends/emit/emit.h"
#include "profiler/memory.h"

#define CPU_NONE 0xffffffffu

// ---- called.c -----------------------------------------------------------------------------------
typedef enum cpu_called {
  CPU_CALLED_NOT,
  CPU_CALLED_LIBRARY,    // the meaning of a custom call
  CPU_CALLED_DEVICES,    // a collective, a device's number, the ends of manual regions
  CPU_CALLED_EVALUATOR,  // what this backend has no code for: counted as a fallback
} cpu_called;
cpu_called cpu_called_of(const hlo_instr *);
// Whether it is a custom call for its effect. A kernel of no elements does nothing, which is not
// what such a call does.
bool cpu_is_effect(const hlo_instr *);
// Who computes custom calls that hlosh does not know, in this process; NULL: nobody. Must outlive
// every program. Only a process that is a library's user has one (local.h).
void cpu_called_by(const hlo_eval_peer *);
const char *cpu_called_text(cpu_called);
// Runs it on all devices that are `here` (NULL: all): bufs[d] are device d's operand leaves, then
// its result leaves, in the layouts of their shapes. rng: hlo_eval_options.rng, of a single device.
hs_status cpu_called_run(const hlo_instr *, u32 replicas, u32 partitions, const bool *here,
                         void *const *const *bufs, u64 *rng);

// ---- program ------------------------------------------------------------------------------------
typedef enum cpu_value_kind { CPU_TEMP, CPU_ARG, CPU_CONST } cpu_value_kind;
typedef struct cpu_value {
  cpu_value_kind kind;
  const hlo_instr *instr;  // whose leaf `leaf` it is; of several, the first
  u32 leaf;
  const hlo_shape *shape;
  size_t bytes;
  u32 slot;
  u32 loop;  // innermost loop that defines it (index + 1; 0: none)
  // step numbers; last_use: of the last reader, extended to the end of loops that hold one
  i32 def, last_use;
  i32 live_end;  // last step at which the storage is needed
  // value whose storage it should take over when that is dead by then (loop state, output);
  // CPU_NONE
  u32 target;
  bool fresh;        // result of a conditional: has no old content when a branch writes it
  u32 index;         // CPU_ARG: argument leaf
  const void *data;  // CPU_CONST
} cpu_value;

// Where the times of kernels go during one run.
typedef struct cpu_probes {
  u64 *ns, *calls;  // by kernel
  u64 start;        // of the run
  prof_event *events;
  u32 nevents;  // PROF_MOST_EVENTS at most; the rest is counted in `dropped`
  u64 dropped;
} cpu_probes;

typedef struct cpu_move {
  u32 src, dst;
  bool swap, through_temp;
  u32 temp;
} cpu_move;  // values
typedef HS_VEC(cpu_move) cpu_moves;

typedef enum cpu_step_kind {
  CPU_STEP_EMIT,
  CPU_STEP_RT,
  CPU_STEP_CALLED,
  CPU_STEP_WHILE,
  CPU_STEP_COND
} cpu_step_kind;
typedef struct cpu_step cpu_step;
typedef struct cpu_region cpu_region;
// moves: run at the end, in parallel
typedef struct cpu_block {
  HS_VEC(cpu_step) steps;
  cpu_moves moves;
} cpu_block;
struct cpu_step {
  cpu_step_kind kind;
  const hlo_instr *instr;
  i32 pos;
  u32 nin, nvals;  // values: nin operand leaves, then result leaves
  u32 *vals;
  void **bufs;                 // nvals pointers, filled before it runs
  const emit_kernel *kernel;   // EMIT
  const void *device;          // EMIT: the kernel of a maker; NULL: this backend's own code
  cpu_rt rt;                   // RT
  const hlo_instr *joined[2];  // RT: what else it computes on the way (chain.h); NULL: nothing
  cpu_called called;           // CALLED
  cpu_block *blocks;
  u32 nblocks;       // WHILE: condition, body; COND: branches
  u32 pred;          // WHILE: the condition's result; COND: the selector
  u32 kernel_index;  // row in the kernel table, CPU_NONE for control flow
  u32 scratch_slot;
  size_t scratch_bytes;
  u32 kept_slot;       // RT: what its kernel keeps of constants, in memory of its own; + 1, 0: none
  cpu_region *region;  // the function that does the same; NULL: there is none
};

typedef struct cpu_slot {
  size_t bytes;
  i32 start, end;
  cpu_value_kind kind;  // CPU_TEMP: in the arena; CPU_ARG: in the argument area; CPU_CONST
  bool output;          // holds a result: outlives the run
  u32 index;            // CPU_ARG: argument leaf
  const void *data;     // CPU_CONST
  u32 host;             // a result's slot + 1 that it lies in until that is written; 0: none
  size_t offset;        // in its area, or in its host
} cpu_slot;

// A step's pointer to a slot.
typedef struct cpu_pointer {
  void **at;
  u32 slot;
} cpu_pointer;

typedef struct cpu_loop {
  i32 start, end;  // step numbers
  u32 parent;      // index + 1; 0: none
} cpu_loop;

typedef struct cpu_program {
  const hlo_module *m;
  hs_arena arena;
  bool per_instruction, keep_denormals;
  // The devices that the program stands for: each runs the same steps on areas of its own, the
  // areas of device d following those of d - 1. All have the same arguments; the results are the
  // first one's.
  u32 replicas, partitions, ndevices;
  HS_VEC(cpu_value) values;
  HS_VEC(cpu_slot) slots;
  HS_VEC(cpu_loop) loops;
  cpu_block entry;
  i32 npos;
  u32 nargs;
  u32 *arg_value;  // argument leaves
  size_t *arg_offset;
  bool *arg_donated;  // a result may lie in its memory: a run overwrites it
  const hlo_shape **arg_shape;
  u32 nouts;
  u32 *out_value;  // result leaves
  const hlo_shape **out_shape;
  HS_VEC(cpu_step *) kernels;  // kernel table
  u32 fallbacks;
  // values lie in the memory of another device, at multiples of `align` bytes; what it has no
  // kernel for runs here, on copies. No regions, areas or addresses are made
  bool away;
  size_t align;
  // some loop exchanges buffers: pointers are looked up at every step
  bool swaps;
  emit_unit *unit;
  size_t temp_bytes, arg_bytes, out_bytes, alias_bytes, temp_live_bytes, kept_bytes;
  // execution
  void *area[3];
  size_t area_bytes[3];   // temporaries, arguments, results: of all devices
  size_t area_stride[3];  // from one device's to the next one's
  void **addr;            // per slot, of the device whose turn it is
  void ***addr_of;        // of each device
  bool *here;             // devices that run the block that is running; NULL: one device
  u64 (*rng)[2];          // of each device: hlo_eval_options.rng
  u32 device;             // whose turn it is
  cpu_probes *probes;     // while kernels are timed; NULL otherwise
  // bind.c: steps' pointers to arguments and results; which of those are dense and row-major; the
  // result that takes over an argument's storage, CPU_NONE
  HS_VEC(cpu_pointer) pointers;
  u32 *guests, nguests;  // slots that lie in others
  bool *arg_in_order, *out_in_order;
  u32 *arg_result;
} cpu_program;

// Who makes the kernels of a program that another device runs.
typedef struct cpu_maker {
  void *ctx;
  // Sets s->kernel and s->device; leaves the kernel NULL where it makes none: then the step gets
  // what this backend has, and counts as a fallback.
  hs_status (*add)(void *ctx, const hlo_instr *, cpu_step *s);
  size_t align;  // of every buffer: a power of two, at least that of the heap
} cpu_maker;

typedef struct cpu_lower_options {
  bool per_instruction;
  bool plan_only;          // steps and buffers as ever, but no code and no areas: it cannot run
  bool one_device;         // whatever the module says
  bool no_contract;        // no fused multiply-add
  bool keep_denormals;     // in code; the threads' mode is the runner's
  u32 threads;             // of the code generator
  const cpu_maker *maker;  // NULL: this backend's own code
  emit_code *code;         // to take object code from, and to put it into; NULL: neither
} cpu_lower_options;
// Lowers, compiles, assigns buffers and allocates the areas: a program that is ready to run, freed
// by cpu_program_free. The module must outlive it. E_UNSUPPORTED, E_LIMIT, E_NO_MEMORY, ...
hs_status cpu_lower(const hlo_module *, const cpu_lower_options *, cpu_program **out);
// unfuse.c: which bodies, by id, are several kernels (hlo_heavy_bodies); on a device fewer are.
const bool *cpu_heavy_bodies(const hlo_module *, bool device, hs_arena *);
// Fuses anew what lies within such fusions. For a module that nobody else has.
hs_status cpu_unfuse(hlo_module *, bool device);
// Compiles what only runs inside of regions: afterwards every step can be run by itself. Does
// nothing the second time.
hs_status cpu_complete(cpu_program *, u32 threads);
// buffers.c: gives every value a slot and every slot an offset in its area. E_NO_MEMORY when an
// area would be larger than CPU_MAX_BYTES.
hs_status cpu_assign(cpu_program *);
void cpu_program_free(cpu_program *);
// plan.c: the buffers as a plan, the caller's to free; and plans in messages. The shell's side
// takes nothing for granted: E_WORKER for a plan that is damaged.
void cpu_plan_of(const cpu_program *, prof_memory *out);
void cpu_plan_put(const prof_memory *, hs_buf *);
hs_status cpu_plan_get(const void *payload, size_t n, prof_memory *out);
// Appends the steps as text.
void cpu_dump_schedule(const cpu_program *, hs_buf *);
// Whether result leaf `out` of the instruction may be computed in the storage of operand leaf `in`.
bool cpu_may_share(const cpu_step *, u32 in, u32 out);
// Whether the program can be lowered with the instruction in it.
bool cpu_lowers(const hlo_instr *, hs_buf *why);
// Whether it only renames data: tuple, get-tuple-element, bitcast, a copy that keeps the layout,
// ...
bool cpu_instr_is_alias(const hlo_instr *);

hs_status cpu_exec_prepare(cpu_program *);  // allocates the areas; E_NO_MEMORY
void cpu_exec_free(cpu_program *);          // the areas
// From now on this process keeps memory of programs that are freed, up to 256 MiB, for the next.
void cpu_exec_keep_memory(void);
// Gives the pages of the areas back: the next run gets others, of zeros.
void cpu_exec_renew(const cpu_program *);
// What an area of so many bytes takes: large ones are whole huge pages.
size_t cpu_mapped_bytes(size_t bytes);
// How much of its areas the kernel holds memory for; -1: not known.
i64 cpu_resident_bytes(const cpu_program *);
// What timing one kernel adds to a run, measured on this machine; ns.
double cpu_probe_ns(void);
// Random numbers begin with the seed, as in the evaluator: each cpu_exec_run does so, for its runs
// are compared. A program placed in its user's process goes on from run to run, as in XLA:CPU.
void cpu_exec_seed(cpu_program *);
// Runs one step without control flow on buffers of the host: operand leaves, then result leaves.
// Where the kernel updates an operand in another place, that is copied first.
hs_status cpu_step_run(const cpu_program *, const cpu_step *, void *const *bufs, void *scratch);
// One execution: arguments are in their area before it, results in theirs after it.
hs_status cpu_exec_run(cpu_program *);
// The same, with every device's arguments where its addresses say.
hs_status cpu_exec_placed(cpu_program *);
void cpu_exec_reset(cpu_program *);  // every slot's address is that in its area again
void *cpu_slot_address(const cpu_program *, const cpu_slot *, u32 device);  // in its area
// bind.c: before and after cpu_exec_placed. args[d * n + k] and results likewise are leaves of
// device d, dense and row-major; results may be NULL. in_place: these stay as they are until the
// run has ended, and overlap nowhere but where a result is the argument whose storage it takes
// over; else all is copied.
void cpu_bind_prepare(cpu_program *);  // once
void cpu_bind(cpu_program *, bool in_place, const void *const *args, void *const *results);
void cpu_bind_collect(const cpu_program *, void *const *results);
// The argument leaf whose storage result leaf `out` takes over; CPU_NONE.
u32 cpu_bind_argument_of(const cpu_program *, u32 out);
// One leaf between dense row-major bytes and the physical order of its shape.
void cpu_place(const hlo_shape *, void *to, const void *row_major);
void cpu_fetch(const hlo_shape *, void *row_major, const void *from);

#endif
