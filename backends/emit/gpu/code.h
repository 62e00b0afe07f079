// code.h — LLVM IR of a kernel for a GPU: what the files of code generation share. They stand on
// codegen.h: the code of one thread is the same as a CPU's scalar code, with vectors only where 16
// bytes are loaded or stored at once.
//
// A target is a row of targets.c: the names of its registers and of what its threads do together,
// its address spaces, how a function becomes a kernel. Everything else knows no vendor.
#ifndef EMIT_GPU_CODE_H
#define EMIT_GPU_CODE_H

#include "backends/emit/codegen.h"
#include "backends/emit/gpu/plan.h"

typedef struct gpu_target {
  const char *vendor, *triple, *features;
  u32 constant_space, shared_space;
  u32 calling_convention;      // of kernels
  const char *thread, *block;  // intrinsics: numbers in the block, of the block
  void (*barrier)(cg *);       // of the block
  LLVMValueRef (*exchange)(cg *, LLVMValueRef i32, u32 with);  // of lane ^ with, in a warp
  LLVMValueRef (*same)(cg *, LLVMValueRef i32);  // a bit for each lane of 32 that has this number
  void (*kernel)(cg *, LLVMValueRef fn, u32 block);  // marks fn as a kernel
  // Tensor cores, of a warp, on 32-bit words that hold neighbours along the reduction. fragment:
  // squares of 8 rows of 16 bytes, 2 or 4 of them, whose rows the lanes' pointers name in turn; a
  // word of each. turned: of 16-bit numbers, with rows and columns exchanged. multiply: 16 rows by
  // 32 bytes with as many by 8 columns, added to acc.
  void (*fragment)(cg *, LLVMValueRef at, u32 squares, bool turned, LLVMValueRef *words);
  void (*multiply)(cg *, const gpu_unit *, const LLVMValueRef *a, const LLVMValueRef *b,
                   LLVMValueRef *acc);
} gpu_target;

extern const gpu_target gpu_nvptx, gpu_amdgcn;

typedef struct gpu_held {  // an element per thread of a tile's square
  u32 node;
  LLVMValueRef array;
} gpu_held;

typedef struct gpu_code {  // cg.of_target
  const gpu_target *target;
  const char *name, *of;  // of the kernel, for the names of its globals; of the instruction
  const gpu_phase *phase;
  const gpu_stage *stage;
  LLVMValueRef thread, block;  // numbers, of the index type; block: from the stage's first on
  LLVMValueRef lane, team;     // ROWS: number in the team, of the team in the block
  u32 shared_bytes, nshared;
  u32 unroll;  // steps at a time of the loop that closes next; 0: four, 1: it stays as it is
  // TILES: loads that come from shared memory now, and the place there
  u32 nheld;
  gpu_held held[16];
  bool holding;
  LLVMValueRef place;
} gpu_code;

static inline gpu_code *gpu_of(cg *c) { return c->of_target; }

// ---- targets.c ----------------------------------------------------------------------------------
LLVMValueRef gpu_exchange(cg *, LLVMValueRef v, u32 with);  // of any scalar

// ---- access.c -----------------------------------------------------------------------------------
// An array in shared memory of n elements; its bytes are counted.
LLVMValueRef gpu_shared(cg *, LLVMTypeRef element, u32 bytes, u64 n);
hs_status gpu_load(cg *, const nest_node *, u32 copies, LLVMValueRef *out);  // cg_target
hs_status gpu_store(cg *, const nest_store *, u32 level);
bool gpu_load_held(cg *, const nest_node *, LLVMValueRef *out);
// Sets the loops to the digits of number q, the last one counting in steps of `lanes`; the code and
// their level is where the builder stands. skip: mask of loops to leave alone.
void gpu_set_loops(cg *, LLVMValueRef q, u32 nloops, const u32 *loops, u64 skip, u32 lanes);
void gpu_unset_loops(cg *, u32 nloops, const u32 *loops, u64 skip);

// ---- team.c: reductions by several threads ------------------------------------------------------
bool gpu_team(cg *, const nest_group *, u64 deps);
hs_status gpu_team_open(cg *, const nest_group *, u32 ncarry, LLVMValueRef *carry);
void gpu_team_close(cg *, const nest_group *, LLVMValueRef *carry);
hs_status gpu_team_fold(cg *, const nest_group *, LLVMValueRef *acc);
void gpu_unroll(cg *, LLVMValueRef branch);

// ---- scan.c -------------------------------------------------------------------------------------
// The points of one segment, by its team; all loops but the last stand. valid: false in teams that
// have none, NULL if there are no such.
hs_status gpu_scan(cg *, const nest_stage *, LLVMValueRef valid);

// ---- sort.c, radix.c ----------------------------------------------------------------------------
#define GPU_SORT_VALUES (2 * NEST_MAX_ACCS + 1)
typedef struct gpu_sorter {
  const nest_order *o;
  gpu_order p;
  u32 log;  // of a tile
  u32 n;    // values of an element; behind them, unless they are unique, its place
  LLVMTypeRef type[GPU_SORT_VALUES];
  LLVMValueRef array[GPU_SORT_VALUES];
  LLVMValueRef row, first;  // of the tile: its first row, its first element in the row
} gpu_sorter;
// The element as it is computed from the kernel's operands; into its place among the results.
hs_status gpu_sort_compute(cg *, const gpu_sorter *, LLVMValueRef row, LLVMValueRef element,
                           LLVMValueRef *v);
hs_status gpu_sort_store(cg *, const gpu_sorter *, LLVMValueRef row, LLVMValueRef element,
                         const LLVMValueRef *v);
// A part of a sort by digits.
hs_status gpu_radix_part(cg *, const gpu_sorter *, gpu_order_part, LLVMValueRef number);
// The functions of the nest's order, if it has one, named NAME and emit_gpu_suffixes; *shared: the
// bytes of shared memory of the largest.
hs_status gpu_order_parts(cg *, const char *name, u32 buffers, u32 *shared);

// ---- dot.c --------------------------------------------------------------------------------------
hs_status gpu_squares(cg *, const nest_stage *, const gpu_stage *);  // DOT

// ---- math.c -------------------------------------------------------------------------------------
LLVMValueRef gpu_math(cg *, hlo_opcode, LLVMValueRef x, LLVMValueRef y);

// ---- kernel.c, used by sort.c -------------------------------------------------------------------
// Begins a function of a kernel: parameters (numbered: a 64-bit number behind the scratch block),
// attributes, its thread and block.
void gpu_begin(cg *, const char *name, u32 buffers, u32 block, bool numbered);

// ---- kernel.c -----------------------------------------------------------------------------------
typedef struct gpu_job {
  const gpu_target *target;
  const char *name, *of;  // of the kernel, of the instruction
  nest *n;
  const gpu_phase *phases;  // two
  u32 buffers;              // parameters before the scratch block
  bool contract;
} gpu_job;
// Adds function NAME, and NAME_finish when there is a second phase. *shared: bytes of shared memory
// of the larger one. E_UNSUPPORTED names an operation without code; the module is then lost.
hs_status gpu_kernel(LLVMContextRef, LLVMModuleRef, const gpu_job *, u32 *shared);

#endif
