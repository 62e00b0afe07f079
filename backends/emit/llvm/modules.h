// modules.h — LLVM's modules, for every target: a context per thread, passes, code, and the loop
// that makes many of them on several threads.
#ifndef EMIT_LLVM_MODULES_H
#define EMIT_LLVM_MODULES_H

#include "core/base/diag.h"
#include <llvm-c/Error.h>
#include <llvm-c/TargetMachine.h>
#include <llvm-c/Types.h>

// What a thread compiles with.
typedef struct emit_llvm {
  LLVMContextRef ctx;
  LLVMTargetMachineRef tm;
  LLVMTargetDataRef layout;
  char *layout_text, *triple;
  char *complaint;  // the first error that LLVM reported; NULL: none
} emit_llvm;

// Makes the target machine that the options ask for; the caller of it owns it.
typedef hs_status emit_llvm_target(const void *options, LLVMTargetMachineRef *out);

hs_status emit_llvm_open(emit_llvm *, emit_llvm_target *, const void *options);
void emit_llvm_close(emit_llvm *);  // also after a failed open

// An empty module of the context's target.
LLVMModuleRef emit_llvm_module(emit_llvm *);
// Runs passes (the text form of opt's -passes) over it, after LLVM's verifier when asked for
// and always under AddressSanitizer. E_INTERNAL, also when LLVM complained of it before.
hs_status emit_llvm_optimize(emit_llvm *, LLVMModuleRef, const char *passes, bool verify);
// Object code or assembly; the caller disposes of the buffer. E_INTERNAL.
hs_status emit_llvm_code(emit_llvm *, LLVMModuleRef, LLVMCodeGenFileType, LLVMMemoryBufferRef *out);
void emit_llvm_text(LLVMModuleRef, hs_buf *out);  // LLVM IR

// What this thread compiles from here on, by the names of instructions: for the worker's last words
// and for failures. n = 0: nothing.
void emit_llvm_doing(u32 n, const char *const *names);

// Modules 0..n-1, each made by `module` with the context of the thread that takes it.
typedef struct emit_llvm_work {
  u32 n;
  emit_llvm_target *target;
  const void *options;
  hs_status (*module)(emit_llvm *, void *arg, u32 k);
  void *arg;
} emit_llvm_work;
// Returns when all are made, or the failure of the first that failed, with what was being compiled.
hs_status emit_llvm_run(const emit_llvm_work *, u32 threads);

// The failure in words, E_INTERNAL; HS_GOOD for NULL.
hs_status emit_llvm_failed(const char *what, LLVMErrorRef);

#endif
