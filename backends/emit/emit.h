// emit.h — HLO -> LLVM IR: one HLO instruction (a single operation or a fusion) becomes one
// kernel.
//
// Fusion is an HLO pass; the emitter never re-fuses. A kernel is lowered to a small loop-nest IR
// (emit/nest.h), a schedule is chosen from a table (emit/schedule.c), and explicit vectors are
// written through LLVM's C API (emit/codegen.c). The chunk grid of a kernel depends on its shapes
// only, never on the number of threads: same bits for 1 or N threads. Runs inside the worker
// process only.
#ifndef EMIT_EMIT_H
#define EMIT_EMIT_H

#include "backends/emit/nest/kind.h"
#include "core/ir/ir.h"

// A compiled kernel: fn runs chunk `chunk` of `chunks`; chunks are independent and may run in any
// order on any thread. When finish_chunks > 0, finish runs afterwards in the same way (long
// reductions: partial results first, then their sum). bufs: every leaf buffer of the operands in
// order (tuple operands are flattened), then every leaf of the result; all dense row-major in
// LOGICAL dimension order unless the shape carries another layout, in which case physical order by
// minor_to_major. 64-byte aligned. scratch: one block of scratch_bytes per call of the kernel, the
// same pointer for every chunk and for finish; 64-byte aligned, contents undefined at the start.
// NULL when scratch_bytes is 0.
typedef void emit_entry(void *const *bufs, i64 chunk, void *scratch);

// Before the kernel runs, the buffer of result leaf `out` holds the bytes of operand leaf `in`: it
// is the same buffer, or whoever runs the kernel copies them.
typedef struct emit_update {
  u32 in, out;
} emit_update;

// Result leaf `out` may lie in the storage of operand leaf `in`, of the same type and size.
typedef struct emit_share {
  u32 in, out;
} emit_share;

typedef struct emit_kernel {
  const hlo_instr *instr;
  emit_kind kind;  // of its schedule
  // independent; 1 = serial; 0 = nothing to do (every output is empty)
  i64 chunks;
  i64 finish_chunks;  // of the second phase; 0 = none
  i64 scratch_bytes;  // per call
  u32 nupdates;
  const emit_update *updates;
  u32 nshares;  // of a kernel along rows; others: emit_kind_in_place
  const emit_share *shares;
  // Of a kernel along rows that has shares: chunk k computes rows k * chunk_rows and so on of the
  // result, of row_elements each, and reads no others of what may be shared; 0: not so
  i64 chunk_rows, row_elements;
  emit_entry *fn;                 // set by emit_finish
  emit_entry *finish;             // set by emit_finish when finish_chunks > 0
  size_t fn_bytes, finish_bytes;  // of their code; 0: not known
  struct emit_body *body;         // the function it shares with equal kernels; NULL: nothing to do
} emit_kernel;

typedef struct emit_unit emit_unit;  // kernels compiled together

// True when the emitter can turn this instruction (with everything it calls) into one kernel;
// otherwise `why` (may be NULL) gets "unsupported: OPCODE: reason".
bool emit_supports(const hlo_instr *, hs_buf *why);
typedef struct emit_options {
  u32 vector_bytes;  // width of the vectors written; 0: the widest that pays on this machine
  bool verify;       // run LLVM's verifier over every module (tests)
  // a product that only a sum needs is not rounded before it is added: fused multiply-add
  bool contract;
  bool keep_denormals;  // else they are zero: the threads that run the code flush them
} emit_options;

// An empty unit; options NULL: all zero. The caller frees it with emit_unit_free.
hs_status emit_unit_new(const emit_options *, emit_unit **out);
// Adds a kernel; equal kernels (same structure and shapes) share one function. *out stays valid
// until emit_unit_free.
hs_status emit_add(emit_unit *, const hlo_instr *, const emit_kernel **out);

// Object code as a process before made it, for emit_finish to take instead of compiling. Each part
// says what it is the code of, and what compiled it for which processor: what does not fit is not
// taken.
typedef struct emit_code {
  const char *given;  // NULL: nothing
  size_t n;
  bool wanted;  // `made` is to be filled
  hs_buf made;  // what to give the next time; empty when all of it was taken. The caller frees it
  bool taken;   // nothing had to be compiled
} emit_code;
// What the next emit_finish is to take code from, and to put it into; NULL: neither.
void emit_reuse(emit_unit *, emit_code *);
// Compiles what was added, on `threads` threads; afterwards fn is set. Kernels that regions inline
// (emit/region.h) get a function of their own only if `all`. The time is reported in milliseconds.
hs_status emit_finish(emit_unit *, bool all, u32 threads, double *out_ms);
// "llvm", "asm", "schedule": text of what was made.
hs_status emit_dump(emit_unit *, const char *what, hs_buf *out);
void emit_unit_free(emit_unit *);  // with its code; NULL is fine
// The first use of LLVM in a process costs milliseconds: call this while the process is idle.
void emit_warm_up(void);

#endif
