// cpu.h — the parts of the cpu backend, private to backends/cpu.
//
// In the worker, lowest first; each calls only those above it in this list, and the handlers of
// serve.c call them all:
//
//   par.c      the parallel loop over chunks
//   layout.c   strides, and copies from one order of elements to another
//   scalar.c   comparators and combiners of runtime kernels
//   rt_*.c     kernels in C and library calls for what is not emitted; one row each in rt.def
//   rt.c       their table, and relayouts around those that want row-major arrays
//   called.c   what functions of core/eval do: libraries, and what happens between devices
//   buffers.c  buffer assignment: in-place results, live ranges, heap simulation
//   region.c   which parts become one function
//   exec.c     runs steps; control flow without round trips
//   program.c  lowering: HLO -> steps over values, placed and made ready to run
//   plan.c     the buffers of a program as a plan of memory, for the shell
//   serve.c    the request handlers, compiled programs by id, measuring
//
// In the shell: cpu.c sends text, constants and arguments and receives results. It asks rt.c and
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

#include "backends/block.h"
#include "backends/emit/emit.h"
#include "profiler/memory.h"

#define CPU_NONE 0xffffffffu
// Most bytes that one array, or one area of a program (arguments, results, temporaries), may take:
// what a process can address. Larger programs are refused by name; below it no sum overflows.
#define CPU_MAX_BYTES ((size_t)1 << 47)

// ---- par.c --------------------------------------------------------------------------------------
// Calls fn(ctx, chunk, thread) for every chunk, each once, on the threads set; returns when all are
// done. The number of chunks must come from shapes, never from the number of threads.
typedef void cpu_par_fn(void *ctx, i64 chunk, u32 thread);
void cpu_par_for(cpu_par_fn *fn, void *ctx, i64 chunks);
// Before a run: sets the number of threads (0 = all); each of them flushes denormals.
void cpu_par_begin(u32 threads);
void cpu_par_end(void);     // after a run: the pool sleeps
u32 cpu_par_threads(void);  // as set by cpu_par_begin
// Memory of the calling thread, aligned for vectors, which it keeps for the next caller: at least
// so many bytes with any content. NULL when there is none. One user at a time.
void *cpu_par_memory(size_t bytes);
// Around calls of a library that brings its own threads (OpenMP's), and around what it prepares for
// them: while the work is `away` the library has all of the threads and the pool sleeps; else it
// has one.
void cpu_par_hand_over(bool away);

// ---- runtime kernels ----------------------------------------------------------------------------
// A prepared runtime kernel. bufs: operand leaves, then result leaves (physical order by each
// shape's layout).
typedef struct cpu_rt {
  const char *kind;  // for the kernel table: "dot (oneDNN)", "sort (radix)"
  void *state;
  hs_status (*run)(void *state, void *const *bufs, void *scratch);
  void (*release)(void *state);  // NULL: hs_free
  i64 scratch_bytes;
  // bit k: result leaf k may share the storage of operand leaf k
  u32 inplace;
  // in the state: a computation that is to be compiled with the program (scalar.h); NULL: none
  struct cpu_lanes *compiled;
} cpu_rt;
typedef hs_status cpu_rt_prepare(const hlo_instr *, cpu_rt *out);
typedef bool cpu_rt_supports(const hlo_instr *);
// any_layout: reads strides itself; otherwise cpu_rt_make puts relayouts around it. first:
// preferred to the emitter.
typedef struct cpu_rt_kind {
  hlo_opcode opcode;
  cpu_rt_supports *supports;
  cpu_rt_prepare *prepare;
  bool any_layout, first;
} cpu_rt_kind;
const cpu_rt_kind *cpu_rt_find(const hlo_instr *);  // NULL: there is no runtime kernel for it
// A prepared kernel, freed by cpu_rt_free, with relayouts around it where it needs row-major
// arrays. E_UNSUPPORTED when there is none.
hs_status cpu_rt_make(const hlo_instr *, cpu_rt *out);
void cpu_rt_free(cpu_rt *);
#define RT(OPCODE, name, any_layout, first) \
  cpu_rt_supports cpu_##name##_supports;    \
  cpu_rt_prepare cpu_##name##_prepare;
#include "backends/cpu/rt.def"
#undef RT

// The batch dims of gather and scatter, outermost first: along each, the steps in the array of
// indices, in the operand, and in the third array (a gather's result, a scatter's updates).
typedef struct cpu_batch {
  u32 n;
  i64 dims[HLO_MAX_RANK], index[HLO_MAX_RANK], operand[HLO_MAX_RANK], third[HLO_MAX_RANK];
} cpu_batch;

// Offsets of the k-th batch element, in the units of the steps.
static inline void cpu_batch_at(const cpu_batch *b, i64 k, i64 *index, i64 *operand, i64 *third) {
  *index = *operand = *third = 0;
  for (u32 d = b->n; d-- > 0;) {
    i64 c = k % b->dims[d];
    k /= b->dims[d];
    *index += c * b->index[d];
    *operand += c * b->operand[d];
    *third += c * b->third[d];
  }
}

// ---- rt_dot_pack.c ------------------------------------------------------------------------------
// The instruction sets that kernels are written for, and the widest that this machine has.
typedef enum cpu_vector_set { CPU_BASE, CPU_AVX2, CPU_AVX512 } cpu_vector_set;
cpu_vector_set cpu_vectors(void);
// n elements of a floating-point type of 32 bits or less to f32, exactly, and back, rounded to
// nearest even.
void cpu_to_f32(float *to, const void *from, hlo_dtype, i64 n);
void cpu_from_f32(void *to, hlo_dtype, const float *from, i64 n);

#if HAVE_DNNL
// rt_dot_dnnl.c: the process's engine and stream; NULL when they cannot be made.
struct dnnl_engine *cpu_dnnl_engine(void);
struct dnnl_stream *cpu_dnnl_stream(void);
#endif

// ---- layout.c -----------------------------------------------------------------------------------
// strides[d]: elements between neighbours along logical dimension d; room for leaf->rank of them.
void cpu_strides(const hlo_shape *leaf, i64 *strides);
// Whether two arrays have the same dims and the same strides along those longer than 1.
bool cpu_same_order(const hlo_shape *, const hlo_shape *);
// Whether the value of one is that of the other byte for byte, where both hold the same elements in
// logical row-major order (as across a reshape or a copy).
bool cpu_same_bytes(const hlo_shape *, const hlo_shape *);
// Copies one array to another element order: both described by strides (in elements) over the same
// `rank` dims; elem: bytes of an element (1, 2, 4, 8 or 16). The arrays do not overlap. Runs on all
// threads when it is large.
void cpu_relayout(void *dst, const i64 *dst_strides, const void *src, const i64 *src_strides,
                  u32 rank, const i64 *dims, size_t elem);

// ---- called.c -----------------------------------------------------------------------------------
typedef enum cpu_called {
  CPU_CALLED_NOT,
  CPU_CALLED_LIBRARY,    // the meaning of a custom call
  CPU_CALLED_DEVICES,    // a collective, a device's number, the ends of manual regions
  CPU_CALLED_EVALUATOR,  // what this backend has no code for: counted as a fallback
} cpu_called;
cpu_called cpu_called_of(const hlo_instr *);
const char *cpu_called_text(cpu_called);
// Runs it on all devices that are `here` (NULL: all): bufs[d] are device d's operand leaves, then
// its result leaves, in the layouts of their shapes.
hs_status cpu_called_run(const hlo_instr *, u32 replicas, u32 partitions, const bool *here,
                         void *const *const *bufs);

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
  void **bufs;                // nvals pointers, filled before it runs
  const emit_kernel *kernel;  // EMIT
  cpu_rt rt;                  // RT
  cpu_called called;          // CALLED
  cpu_block *blocks;
  u32 nblocks;       // WHILE: condition, body; COND: branches
  u32 pred;          // WHILE: the condition's result; COND: the selector
  u32 kernel_index;  // row in the kernel table, CPU_NONE for control flow
  u32 scratch_slot;
  size_t scratch_bytes;
  cpu_region *region;  // the function that does the same; NULL: there is none
};

typedef struct cpu_slot {
  size_t bytes;
  i32 start, end;
  cpu_value_kind kind;  // CPU_TEMP: in the arena; CPU_ARG: in the argument area; CPU_CONST
  bool output;          // holds a result: outlives the run
  u32 index;            // CPU_ARG: argument leaf
  const void *data;     // CPU_CONST
  size_t offset;        // in its area
} cpu_slot;

typedef struct cpu_loop {
  i32 start, end;  // step numbers
  u32 parent;      // index + 1; 0: none
} cpu_loop;

typedef struct cpu_program {
  const hlo_module *m;
  hs_arena arena;
  bool per_instruction;
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
  bool *arg_donated;
  const hlo_shape **arg_shape;
  u32 nouts;
  u32 *out_value;  // result leaves
  const hlo_shape **out_shape;
  HS_VEC(cpu_step *) kernels;  // kernel table
  u32 fallbacks;
  // some loop exchanges buffers: pointers are looked up at every step
  bool swaps;
  emit_unit *unit;
  size_t temp_bytes, arg_bytes, out_bytes, alias_bytes, temp_live_bytes;
  // execution
  void *area[3];
  size_t area_bytes[3];   // temporaries, arguments, results: of all devices
  size_t area_stride[3];  // from one device's to the next one's
  void **addr;            // per slot, of the device whose turn it is
  void ***addr_of;        // of each device
  bool *here;             // devices that run the block that is running; NULL: one device
  cpu_probes *probes;     // while kernels are timed; NULL otherwise
} cpu_program;

typedef struct cpu_lower_options {
  bool per_instruction;
  bool plan_only;    // steps and buffers as ever, but no code and no areas: it cannot run
  bool one_device;   // whatever the module says
  bool no_contract;  // no fused multiply-add
  u32 threads;       // of the code generator
} cpu_lower_options;
// Lowers, compiles, assigns buffers and allocates the areas: a program that is ready to run, freed
// by cpu_program_free. The module must outlive it. E_UNSUPPORTED, E_LIMIT, E_NO_MEMORY, ...
hs_status cpu_lower(const hlo_module *, const cpu_lower_options *, cpu_program **out);
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
// What an area of so many bytes takes: large ones are whole huge pages.
size_t cpu_mapped_bytes(size_t bytes);
// What timing one kernel adds to a run, measured on this machine; ns.
double cpu_probe_ns(void);
// One execution: arguments are in their area before it, results in theirs after it.
hs_status cpu_exec_run(cpu_program *);

#endif
