// control.c — kernels that say how a recorded launch sequence goes on: they set the conditions of
// CUDA's conditional nodes from what other kernels computed.
//
// cudaGraphSetConditional is in no library: code that calls it is assembled with the symbol left
// open, and the driver has it when it loads the module (CUDA 12.3 and up). So these kernels are a
// module of their own, which an older driver is not given. Each is launched as one thread.
#include "backends/emit/gpu/module.h"

#include <llvm-c/BitWriter.h>
#include <llvm-c/Core.h>
#include <llvm-c/IRReader.h>

const char *const emit_gpu_controls[EMIT_GPU_CONTROLS] = {
    "hlosh_while", "hlosh_either", "hlosh_branch", "hlosh_times", "hlosh_again"};

// A thread reads one byte or word, and sets one condition. Pointers say how much may be touched.
static const char source[] =
    "declare void @cudaGraphSetConditional(i64, i32)\n"
    // again while *p is true
    "define ptx_kernel void @hlosh_while(i64 %c, ptr \"hlo-bytes\"=\"1\" %p) {\n"
    "  %v = load i8, ptr %p, align 1\n"
    "  %is = icmp ne i8 %v, 0\n"
    "  %x = zext i1 %is to i32\n"
    "  call void @cudaGraphSetConditional(i64 %c, i32 %x)\n"
    "  ret void\n}\n"
    // branch 0 where *p is true, else branch 1: whether this is the one
    "define ptx_kernel void @hlosh_either(i64 %c, ptr \"hlo-bytes\"=\"1\" %p, i32 %this) {\n"
    "  %v = load i8, ptr %p, align 1\n"
    "  %no = icmp eq i8 %v, 0\n"
    "  %branch = zext i1 %no to i32\n"
    "  %is = icmp eq i32 %branch, %this\n"
    "  %x = zext i1 %is to i32\n"
    "  call void @cudaGraphSetConditional(i64 %c, i32 %x)\n"
    "  ret void\n}\n"
    // branch *p, the last one where there is none of that number
    "define ptx_kernel void @hlosh_branch(i64 %c, ptr \"hlo-bytes\"=\"4\" %p, i32 %this, i32 %last)"
    " {\n"
    "  %v = load i32, ptr %p, align 4\n"
    "  %known = icmp ult i32 %v, %last\n"
    "  %branch = select i1 %known, i32 %v, i32 %last\n"
    "  %is = icmp eq i32 %branch, %this\n"
    "  %x = zext i1 %is to i32\n"
    "  call void @cudaGraphSetConditional(i64 %c, i32 %x)\n"
    "  ret void\n}\n"
    // n iterations, counted down in *p
    "define ptx_kernel void @hlosh_times(i64 %c, ptr \"hlo-bytes\"=\"8\" %p, i64 %n) {\n"
    "  store i64 %n, ptr %p, align 8\n"
    "  %is = icmp ne i64 %n, 0\n"
    "  %x = zext i1 %is to i32\n"
    "  call void @cudaGraphSetConditional(i64 %c, i32 %x)\n"
    "  ret void\n}\n"
    "define ptx_kernel void @hlosh_again(i64 %c, ptr \"hlo-bytes\"=\"8\" %p) {\n"
    "  %v = load i64, ptr %p, align 8\n"
    "  %n = sub i64 %v, 1\n"
    "  store i64 %n, ptr %p, align 8\n"
    "  %is = icmp ne i64 %n, 0\n"
    "  %x = zext i1 %is to i32\n"
    "  call void @cudaGraphSetConditional(i64 %c, i32 %x)\n"
    "  ret void\n}\n";

static hs_status read_source(emit_llvm *c, LLVMModuleRef *out) {
  char *why = NULL;
  LLVMContextSetDiscardValueNames(c->ctx, false);  // text has them
  LLVMMemoryBufferRef text =
      LLVMCreateMemoryBufferWithMemoryRangeCopy(source, sizeof source - 1, "control");
  if (LLVMParseIRInContext(c->ctx, text, out, &why)) {
    hs_status s = hs_fail(HS_E_INTERNAL, "LLVM: %s", why ? why : "no reason given");
    LLVMDisposeMessage(why);
    *out = NULL;
    return s;
  }
  LLVMSetDataLayout(*out, c->layout_text);
  LLVMSetTarget(*out, c->triple);
  return HS_GOOD;
}

static hs_status make(emit_llvm *c, bool bitcode, hs_buf *out) {
  LLVMModuleRef m = NULL;
  LLVMMemoryBufferRef b = NULL;
  HS_TRY(read_source(c, &m));
  hs_status s = HS_GOOD;
  if (bitcode) b = LLVMWriteBitcodeToMemoryBuffer(m);
  else s = emit_llvm_code(c, m, LLVMAssemblyFile, &b);
  if (b) hs_buf_put(out, LLVMGetBufferStart(b), LLVMGetBufferSize(b));
  if (b) LLVMDisposeMemoryBuffer(b);
  LLVMDisposeModule(m);
  return s;
}

hs_status emit_gpu_control(const emit_gpu_options *o, bool bitcode, hs_buf *out) {
  emit_llvm c;
  hs_status s = emit_llvm_open(&c, gpu_module_target, o);
  if (hs_ok(s)) s = make(&c, bitcode, out);
  emit_llvm_close(&c);
  return s;
}
