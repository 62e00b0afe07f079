// emu.h — a GPU on the host: runs the LLVM module of a program's kernels, thread by thread, and
// finds what is wrong with them.
//
// The module is the one that NVPTX code is made from: triple and data layout of nvptx64, kernels of
// calling convention ptx_kernel, special registers, barriers, shuffles and votes as LLVM's
// intrinsics (llvm.nvvm.*), shared memory as globals of address space 3. Loading it rewrites the
// intrinsics into calls of the functions here, compiles it for the host and links it (rewrite.c,
// load.c). Running it takes the blocks of a grid one after the other, or a few at a time on as many
// host threads; the threads of a block run one after the other, each to its end, when nothing in
// the kernel waits for another thread, and else as fibers (block.c).
//
// A module that is loaded checked (emu_load_options) has each access to memory looked at first. The
// first fault ends the launch, and its text names kernel, HLO instruction, thread and block:
//   - an access outside of what is registered (emu_device_add), of the shared variable, of the
//     block's shared memory; one at an address that is not a multiple of its alignment;
//   - shared memory that is read before it is written, or by several threads, one of them writing,
//     without a barrier between;
//   - without being asked for: a barrier that not all threads of the block reach, a shuffle or
//     vote whose mask names lanes that do not take part, a trap.
//
// What names an HLO instruction: metadata of kind "hlo" on an LLVM instruction or, for all of a
// function, its attribute "hlo". A pointer parameter with the attribute "hlo-bytes" may be used for
// so many bytes only, though the registered memory goes on: programs have one arena.
//
// Compiled kernels run in this process: in the worker, or in a test.
#ifndef GPU_EMU_H
#define GPU_EMU_H

#include "core/base/diag.h"

#define EMU_HLO "hlo"          // metadata kind and function attribute: an instruction's name
#define EMU_BYTES "hlo-bytes"  // attribute of a pointer parameter: decimal bytes

// ---- a device: the memory that kernels may touch, and stacks to run on --------------------------
typedef struct emu_device emu_device;
emu_device *emu_device_new(void);
void emu_device_free(emu_device *);  // NULL is fine
// Registers n bytes at p, which overlap no others; not while a kernel runs on the device.
void emu_device_add(emu_device *, const void *p, size_t n);
void emu_device_remove(emu_device *, const void *p);  // p as registered
// Who is told when a thread of a kernel calls cudaGraphSetConditional; false: no running graph has
// that condition, which is a fault of the kernel.
typedef bool emu_condition_fn(void *arg, u64 condition, u32 value);
void emu_device_conditions(emu_device *, emu_condition_fn *, void *arg);
// The registered range with p inside, or p just behind its last byte; false: none.
bool emu_device_find(const emu_device *, const void *p, const void **start, size_t *n);

// ---- modules ------------------------------------------------------------------------------------
typedef struct emu_module emu_module;
typedef struct emu_kernel {
  const char *name;
  u32 nparams;
  const u32 *param_bytes, *param_at;  // sizes, and offsets as in a buffer of parameters
  const u64 *declared;                // what may be used through each, in bytes; 0: not said
  u32 static_bytes;                   // shared memory of its own
  u32 max_threads;                    // per block, as the module says; 1024: it says nothing
  bool waits;                         // has barriers, shuffles, votes: threads become fibers
  bool flushes;                       // f32 denormals are zero to it (attribute of the function)
  const emu_module *module;
  void (*entry)(void **params);
  size_t stack_bytes;  // of its arrays on the stack
} emu_kernel;

typedef struct emu_load_options {
  bool checked;  // each access to memory is looked at
} emu_load_options;

// Loads LLVM bitcode, or its text. E_COMPILE: not a valid module; E_UNSUPPORTED: it uses what the
// emulator has no meaning for, which the message names; E_INTERNAL: LLVM's refusal.
hs_status emu_module_load(const void *code, size_t n, const emu_load_options *opt,
                          emu_module **out);
void emu_module_free(emu_module *);                                         // NULL is fine
const emu_kernel *emu_module_kernel(const emu_module *, const char *name);  // NULL: none
// Memory of a global variable that is not shared memory; NULL: none of that name.
void *emu_module_global(const emu_module *, const char *name, size_t *bytes);

// ---- launches -----------------------------------------------------------------------------------
typedef struct emu_grid {
  u32 blocks[3], threads[3];  // x, y, z; of a block at most 1024 threads
  u32 dynamic_bytes;          // shared memory beyond the kernel's own
  u32 host_threads;           // that blocks run on; 0 and 1: this one
} emu_grid;

typedef enum emu_fault_kind {
  EMU_NO_FAULT,
  EMU_OUT_OF_BOUNDS,
  EMU_MISALIGNED,
  EMU_UNINITIALIZED,
  EMU_RACE,
  EMU_DIVERGED,  // barriers, and masks of shuffles and votes
  EMU_TRAPPED,
} emu_fault_kind;

#define EMU_SHARED_MOST (227u << 10)  // bytes of shared memory that a block may have

// Runs a kernel to its end. params: for each parameter, where its value lies. A fault is E_RUN with
// its text and its kind in *out_fault (may be NULL); E_USAGE: a grid or block that cannot be.
// Polls for interrupts between blocks.
hs_status emu_launch(const emu_kernel *, emu_device *, const emu_grid *, void **params,
                     emu_fault_kind *out_fault);

#endif
