// region.h — functions made of kernels: part of a program, with its loops and branches, becomes
// one function, so that nothing is dispatched inside it.
//
// A region is a list of operations over slots: pieces of memory with a number. The pointers of all
// slots lie in one table, which the function gets; it keeps them in registers. Small kernels are
// inlined, others are called directly, and what is no kernel goes back to the caller. Slots that
// nobody outside sees become registers where they are small: loop counters, carried scalars.
#ifndef EMIT_REGION_H
#define EMIT_REGION_H

#include "backends/emit/emit.h"

#define EMIT_NO_SLOT UINT32_MAX

typedef enum emit_op_kind {
  EMIT_OP_KERNEL,  // all of a kernel's only chunk, and of its second phase
  EMIT_OP_CALL,    // back to the caller
  EMIT_OP_COPY,
  EMIT_OP_SWAP,  // two slots exchange their memory
  EMIT_OP_LOOP,  // blocks: condition, body
  EMIT_OP_SWITCH
} emit_op_kind;

typedef struct emit_op emit_op;
typedef HS_VEC(emit_op) emit_ops;
struct emit_op {
  emit_op_kind kind;
  const emit_kernel *kernel;  // KERNEL
  bool inlined;               // KERNEL: its code is written here; else it is called
  u32 nin, n;                 // KERNEL, CALL: arguments that it reads, then those that it writes
  const u32 *slots;           // of the arguments, in order; EMIT_NO_SLOT: NULL
  u32 scratch;                // KERNEL: slot, or EMIT_NO_SLOT
  u32 number;                 // CALL: what the caller is told
  u32 to, from;               // COPY, SWAP: slots
  size_t bytes;               // COPY
  u32 pred;                   // LOOP: slot of the condition's result; SWITCH: slot of the selector
  bool predicate;             // SWITCH: the selector is a pred, true for the first block; else s32
  u32 nblocks;                // LOOP, SWITCH
  emit_ops *blocks;
};

typedef struct emit_slot {
  size_t bytes;
  // Small: it lives on the function's stack or in registers, and its memory is read when the
  // function begins (in) and written when it ends (out).
  bool local, in, out;
  bool exchanged;    // by an EMIT_OP_SWAP
  const void *data;  // what it always holds, where that is known; else NULL
} emit_slot;

// A kernel that a region calls instead of inlining it.
typedef struct emit_calls {
  emit_entry *fn, *finish;
} emit_calls;

// What a region needs while it runs.
typedef struct emit_env {
  i32 (*call)(void *ctx, u32 number, void *const *bufs);  // not 0: the region ends
  void *ctx;
  const emit_calls *fns;  // emit_region.fns
} emit_env;

typedef struct emit_region {
  emit_ops ops;
  u32 nslots;
  emit_slot *slots;
  const char *of;  // for messages
  // by emit_add_region
  char name[24];
  HS_VEC(const emit_kernel *) called;  // kernels that are called, not inlined
  emit_calls *fns;                     // of `called`; filled by emit_finish
  // Runs it: slots is the table of pointers. 0, or what `call` returned when that is not 0. Set by
  // emit_finish.
  i32 (*fn)(void **slots, const emit_env *);
  size_t fn_bytes;  // of its code; 0: not known
} emit_region;

// Adds a region, whose kernels were added before; it is compiled by the next emit_finish and has
// its function then. It must stay where it is until the unit is freed.
void emit_add_region(emit_unit *, emit_region *);
void emit_region_free(emit_region *);  // what its vectors hold, not itself

#endif
