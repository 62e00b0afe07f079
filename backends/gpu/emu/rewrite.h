// rewrite.h — from a module for the GPU to one for the host (rewrite.c and its kind).
#ifndef GPU_EMU_REWRITE_H
#define GPU_EMU_REWRITE_H

#include "backends/gpu/emu/run.h"

#include <llvm-c/Core.h>
#include <llvm-c/Target.h>

// A variable in shared memory.
typedef struct shared_var {
  LLVMValueRef global;
  const char *name;
  u64 bytes, offset;
  u32 align;
  bool dynamic;        // sized by the launch
  LLVMValueRef owner;  // the only function with uses of it; NULL: several
} shared_var;

typedef struct rewrite {
  LLVMContextRef ctx;
  LLVMModuleRef m;
  LLVMBuilderRef b;
  LLVMTargetDataRef layout;  // the host's
  LLVMTypeRef ptr, i8, i32, i64, nothing;
  emu_module *out;
  unsigned hlo;  // metadata kind
  HS_VEC(shared_var) shared;
  HS_VEC(LLVMValueRef) waiting;  // functions in which threads wait for others
  // The function at hand, and the instruction; what was computed at its start.
  LLVMValueRef fn, at, first;
  const char *fn_name, *fn_hlo;
  LLVMValueRef self, block, shared_base, dynamic_base;
  LLVMValueRef within;  // a function of the module: looks at an access through a parameter
  struct {
    LLVMValueRef *v;  // constants, each with its value behind it
    size_t n, cap;
  } known;
} rewrite;

// Rewrites all of m; fills kernels and globals of *out but for their addresses. stack_bytes: of
// each kernel. E_UNSUPPORTED names what has no meaning here.
hs_status emu_rewrite(LLVMContextRef, LLVMModuleRef, LLVMTargetDataRef, emu_module *out);

// ---- between its files --------------------------------------------------------------------------
// The thread, at the start of the function; the builder stands before r->at afterwards.
LLVMValueRef rw_self(rewrite *);
// The value of a constant that names shared memory, at the start of the function; NULL: one of a
// kind that is not known.
LLVMValueRef rw_constant(rewrite *, LLVMValueRef);
const shared_var *rw_shared(const rewrite *, LLVMValueRef global);  // NULL: no shared variable
LLVMValueRef rw_field(rewrite *, LLVMTypeRef, LLVMValueRef base, size_t offset);
// A call of a function of this process.
LLVMValueRef rw_call(rewrite *, const void *fn, LLVMTypeRef type, LLVMValueRef *args, u32 n);
LLVMValueRef rw_pointer(rewrite *, const void *);  // a constant
LLVMValueRef rw_u32(rewrite *, u64);
// A site for r->at, in the module's arena.
emu_site *rw_site(rewrite *);
// r->at calls an intrinsic or a function that is not defined: rewrites the call. *gone: it was
// replaced and is to be erased.
hs_status rw_call_of(rewrite *, LLVMValueRef callee, const char *name, bool *gone);
// Puts the calls that look at r->at's accesses to memory before it.
void rw_check(rewrite *);
u64 rw_alloca_bytes(const rewrite *, LLVMValueRef);  // 0: not known
// What parameter k of a function declares (EMU_BYTES); 0: nothing.
u64 rw_declared_bytes(LLVMValueRef fn, u32 k);
bool rw_is_kernel(LLVMValueRef fn);

#endif
