// gpu.h — HLO -> PTX: one HLO instruction (a single operation or a fusion) becomes one kernel of
// a GPU, or two where a long reduction is finished by a second one.
//
// The same lowering as for the CPU (emit.h), other schedules (backends/emit/gpu). Needs LLVM's
// NVPTX code generator, no GPU and nothing of CUDA. Everything about a kernel (grid, scratch, the
// order of what it adds up) follows from shapes: the same bits in every run, no float atomics.
//
// A kernel's parameters are pointers to global memory: every operand leaf in order (tuples are
// flattened), every result leaf, last the scratch block (there even when scratch_bytes is 0; it may
// be NULL then). Buffers are dense in physical order as emit.h says, and each starts at a multiple
// of 256 bytes; a buffer without elements may be anything. Launches are one-dimensional: first
// those of `before`, then, when grid > 0, NAME on `grid` blocks of `block` threads, then, when
// finish_grid > 0, NAME_finish on finish_grid blocks of finish_block threads with the same
// parameters. Launches before have one more, a 64-bit number. Shared memory is static. Warps have
// 32 threads.
//
// What the module of emit_gpu_bitcode contains, so that something else than a GPU can run it:
// - functions of calling convention ptx_kernel (71), and internal ones that they call; parameters
//   and generic pointers in address space 0, constant data as constant globals in address space 1,
//   shared memory as globals in address space 3; addrspacecast from 1 and 3 to 0; allocas.
// - the target-independent intrinsics of LLVM's language reference that come out of arithmetic
//   (llvm.fma, fabs, floor, sqrt, ctpop, ctlz, umax, smin, fptosi.sat, memset, ...), on scalars and
//   on vectors of up to 16 elements, i128 products;
// - llvm.nvvm.read.ptx.sreg.{tid,ntid,ctaid,nctaid}.x;
// - llvm.nvvm.barrier.cta.sync.aligned.all(i32 0), in older LLVM llvm.nvvm.barrier0(), reached by
//   every thread of the block;
// - llvm.nvvm.shfl.sync.{bfly,down,up,idx}.i32(i32 -1, value, lane, i32 clamp) and
//   llvm.nvvm.match.any.sync.i32(i32 -1, value), by whole warps;
// - loads, stores and integer atomicrmw/cmpxchg on global and shared memory.
// Kernels have the attribute "hlo", the name of the first instruction that they compute; their
// parameters have "hlo-bytes", the decimal bytes that may be touched through them.
#ifndef EMIT_GPU_H
#define EMIT_GPU_H

#include "backends/emit/emit.h"

typedef struct emit_gpu_options {
  u32 sm;  // compute capability: 75, 80, 90, 100, 120
  // an AMD chip by LLVM's name ("gfx942"), for which kernels are made as for sm; NULL: NVIDIA's
  const char *chip;
  bool contract;  // as in emit_options
  bool verify;    // run LLVM's verifier over the module (tests)
} emit_gpu_options;

// A launch that comes before the kernel's own: of function NAME and a suffix.
typedef struct emit_gpu_launch {
  const char *suffix;  // one of emit_gpu_suffixes
  u32 part;            // its number there
  u32 grid, block;
  u64 number;  // the last parameter
} emit_gpu_launch;
enum { EMIT_GPU_SUFFIXES = 9 };
extern const char *const emit_gpu_suffixes[EMIT_GPU_SUFFIXES];

typedef struct emit_gpu_kernel {
  const hlo_instr *instr;
  emit_kind kind;    // of its schedule
  const char *name;  // a legal PTX identifier; equal kernels have the same; "" when grid is 0
  u32 nbefore;
  const emit_gpu_launch *before;
  u32 grid, block;  // grid 0: no launch; nothing to do (every output is empty) when nbefore is 0
  u32 finish_grid, finish_block;  // finish_grid 0: no second phase
  u32 shared_bytes;               // static shared memory of the larger phase
  i64 scratch_bytes;              // per launch; contents undefined at the start
  u32 nupdates;
  const emit_update *updates;  // as in emit_kernel
  u32 nshares;
  const emit_share *shares;  // as in emit_kernel
} emit_gpu_kernel;

typedef struct emit_gpu_unit emit_gpu_unit;  // kernels of one module

// True when the emitter can turn this instruction into a kernel; otherwise `why` (may be NULL) gets
// "unsupported: OPCODE: reason".
bool emit_gpu_supports(const hlo_instr *, hs_buf *why);
// An empty unit, to be freed with emit_gpu_unit_free. E_UNSUPPORTED when this LLVM has no code
// generator for NVIDIA's GPUs or does not know the compute capability.
hs_status emit_gpu_unit_new(const emit_gpu_options *, emit_gpu_unit **out);
// Adds a kernel; equal kernels (same structure and shapes) share one function. *out stays valid
// until the unit is freed.
hs_status emit_gpu_add(emit_gpu_unit *, const hlo_instr *, const emit_gpu_kernel **out);
// Generates code for what was added, once, on up to `threads` threads; afterwards the functions
// below answer. The time is reported in milliseconds (out_ms may be NULL).
hs_status emit_gpu_finish(emit_gpu_unit *, u32 threads, double *out_ms);
// "llvm", "ptx" or "asm", "schedule": text of what was made.
hs_status emit_gpu_dump(emit_gpu_unit *, const char *what, hs_buf *out);
hs_status emit_gpu_ptx(emit_gpu_unit *, hs_buf *out);      // one PTX file of all kernels
hs_status emit_gpu_asm(emit_gpu_unit *, hs_buf *out);      // the same of an AMD chip: its assembly
hs_status emit_gpu_bitcode(emit_gpu_unit *, hs_buf *out);  // the module before NVPTX lowering
void emit_gpu_unit_free(emit_gpu_unit *);                  // NULL is fine

// Kernels that set the conditions of CUDA's conditional nodes, one thread each; the first parameter
// is a 64-bit condition. They are a module of their own: PTX, or bitcode for something else than a
// GPU, which then knows cudaGraphSetConditional(i64 condition, i32 value).
//   while(condition, pred *p)                          whether *p
//   either(condition, pred *p, u32 this)               whether branch 0 (*p), 1 (else) is `this`
//   branch(condition, s32 *p, u32 this, u32 last)      whether branch *p, or the last, is `this`
//   times(condition, u64 *left, u64 n), again(condition, u64 *left)    n iterations
enum {
  EMIT_GPU_WHILE,
  EMIT_GPU_EITHER,
  EMIT_GPU_BRANCH,
  EMIT_GPU_TIMES,
  EMIT_GPU_AGAIN,
  EMIT_GPU_CONTROLS
};
extern const char *const emit_gpu_controls[EMIT_GPU_CONTROLS];  // their names
hs_status emit_gpu_control(const emit_gpu_options *, bool bitcode, hs_buf *out);

#endif
