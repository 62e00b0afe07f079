// module.c — LLVM modules of kernels: building them, passes, PTX.
//
// A few kernels are a module; modules are made on threads (llvm/modules.c). PTX is text, so the
// files of several modules are one file when the header of all but the first is left out; names of
// globals carry the kernel's name.
#include "backends/emit/gpu/module.h"

#include "backends/emit/gpu/code.h"
#include "backends/emit/llvm/modules.h"

#include <llvm-c/BitWriter.h>
#include <llvm-c/Target.h>
#include <pthread.h>
#include <stdio.h>

#define KERNELS_PER_MODULE 8
#define PASSES                                                                      \
  "function(early-cse,instcombine<no-verify-fixpoint>,simplifycfg,loop-mssa(licm)," \
  "loop-unroll<O2;runtime;no-upperbound>,early-cse,instcombine<no-verify-fixpoint>)"

// An LLVM built without a target has none of its functions.
#pragma weak LLVMInitializeAMDGPUTargetInfo
#pragma weak LLVMInitializeAMDGPUTarget
#pragma weak LLVMInitializeAMDGPUTargetMC
#pragma weak LLVMInitializeAMDGPUAsmPrinter
#pragma weak LLVMInitializeNVPTXTargetInfo
#pragma weak LLVMInitializeNVPTXTarget
#pragma weak LLVMInitializeNVPTXTargetMC
#pragma weak LLVMInitializeNVPTXAsmPrinter

static pthread_once_t once = PTHREAD_ONCE_INIT;

static void init(void) {
  (void)emit_vector_bytes();  // the host's initialization, with the handler of fatal errors
  void (*const parts[])(void) = {LLVMInitializeNVPTXTargetInfo,  LLVMInitializeNVPTXTarget,
                                 LLVMInitializeNVPTXTargetMC,    LLVMInitializeNVPTXAsmPrinter,
                                 LLVMInitializeAMDGPUTargetInfo, LLVMInitializeAMDGPUTarget,
                                 LLVMInitializeAMDGPUTargetMC,   LLVMInitializeAMDGPUAsmPrinter};
  for (size_t k = 0; k < HS_COUNT(parts); k++)
    if (parts[k]) parts[k]();
}

// ---- one module ---------------------------------------------------------------------------------
static const gpu_target *target_of(const emit_gpu_options *o) {
  return o->chip ? &gpu_amdgcn : &gpu_nvptx;
}

hs_status gpu_module_target(const void *options, LLVMTargetMachineRef *out) {
  const emit_gpu_options *o = options;
  (void)pthread_once(&once, init);
  LLVMTargetRef t;
  const gpu_target *g = target_of(o);
  char *err = NULL, cpu[16];
  if (LLVMGetTargetFromTriple(g->triple, &t, &err)) {
    LLVMDisposeMessage(err);
    return hs_fail(HS_E_UNSUPPORTED, "this LLVM has no code generator for %s's GPUs", g->vendor);
  }
  if (o->chip) (void)snprintf(cpu, sizeof cpu, "%s", o->chip);
  else (void)snprintf(cpu, sizeof cpu, "sm_%u", o->sm);
  *out = LLVMCreateTargetMachine(t, g->triple, cpu, g->features, LLVMCodeGenLevelDefault,
                                 LLVMRelocDefault, LLVMCodeModelDefault);
  return *out ? HS_GOOD : hs_fail(HS_E_INTERNAL, "LLVM: no target machine for %s", cpu);
}

hs_status gpu_module_check(const emit_gpu_options *o) {
  static const u32 known[] = {50, 52, 53, 60, 61,  62,  70,  72,  75, 80,
                              86, 87, 89, 90, 100, 101, 103, 120, 121};
  // the LLVM that first knew the architecture
  u32 since = o->chip ? 17 : o->sm >= 101 ? 21 : o->sm >= 100 ? 20 : o->sm >= 87 ? 16 : 14;
  bool ok = false;
  for (size_t k = 0; k < HS_COUNT(known); k++) ok |= known[k] == o->sm;
  if (!ok) return hs_fail(HS_E_UNSUPPORTED, "no compute capability sm_%u is known", o->sm);
  if (HLOSH_LLVM_MAJOR < since && o->chip)
    return hs_fail(HS_E_UNSUPPORTED, "%s needs LLVM %u, this is LLVM %d", o->chip, since,
                   HLOSH_LLVM_MAJOR);
  if (HLOSH_LLVM_MAJOR < since)
    return hs_fail(HS_E_UNSUPPORTED, "sm_%u needs LLVM %u, this is LLVM %d", o->sm, since,
                   HLOSH_LLVM_MAJOR);
  emit_llvm c;
  hs_status s = emit_llvm_open(&c, gpu_module_target, o);
  emit_llvm_close(&c);
  return s;
}

static hs_status build(emit_llvm *c, const emit_gpu_options *o, u32 n, gpu_body *const *bodies,
                       LLVMModuleRef *out) {
  LLVMModuleRef m = emit_llvm_module(c);
  hs_status s = HS_GOOD;
  for (u32 k = 0; k < n && hs_ok(s); k++) {
    gpu_body *b = bodies[k];
    const gpu_job j = {target_of(o), b->name, b->of, b->n, b->phases, b->buffers, o->contract};
    emit_llvm_doing(1, &b->of);
    s = gpu_kernel(c->ctx, m, &j, &b->shared_bytes);
  }
  if (hs_ok(s)) {
    const char *names[KERNELS_PER_MODULE];
    u32 some = HS_MIN(n, (u32)KERNELS_PER_MODULE);
    for (u32 k = 0; k < some; k++) names[k] = bodies[k]->of;
    emit_llvm_doing(some, names);
    s = emit_llvm_optimize(c, m, PASSES, o->verify);
  }
  if (!hs_ok(s)) {
    LLVMDisposeModule(m);
    return s;
  }
  *out = m;
  return HS_GOOD;
}

// ---- PTX ----------------------------------------------------------------------------------------
typedef struct job {
  const emit_gpu_options *options;
  u32 n, per;
  gpu_body *const *bodies;
  hs_buf *texts;
} job;

static hs_status text_of(emit_llvm *c, void *arg, u32 k) {
  job *j = arg;
  u32 from = k * j->per, n = HS_MIN(j->per, j->n - from);
  LLVMModuleRef m = NULL;
  LLVMMemoryBufferRef b = NULL;
  HS_TRY(build(c, j->options, n, j->bodies + from, &m));
  hs_status s = emit_llvm_code(c, m, LLVMAssemblyFile, &b);
  if (b) hs_buf_put(&j->texts[k], LLVMGetBufferStart(b), LLVMGetBufferSize(b));
  if (b) LLVMDisposeMemoryBuffer(b);
  LLVMDisposeModule(m);
  return s;
}

// The part behind .version, .target and .address_size.
static const char *behind_header(const char *text) {
  const char *p = strstr(text, ".address_size");
  p = p ? strchr(p, '\n') : NULL;
  return p ? p + 1 : text;
}

hs_status gpu_module_ptx(const emit_gpu_options *o, u32 n, gpu_body *const *bodies, u32 threads,
                         hs_buf *out) {
  threads = o->chip ? 1 : HS_MAX(threads, 1);  // its assembly ends with tables of all kernels
  job j = {.options = o, .n = n, .bodies = bodies};
  j.per =
      o->chip ? HS_MAX(n, 1) : HS_MAX(HS_MIN(KERNELS_PER_MODULE, (n + threads - 1) / threads), 1);
  u32 nmodules = HS_MAX((n + j.per - 1) / j.per, 1);  // without kernels: a header
  j.texts = hs_calloc(nmodules, sizeof *j.texts);
  hs_status s =
      emit_llvm_run(&(emit_llvm_work){nmodules, gpu_module_target, o, text_of, &j}, threads);
  for (u32 k = 0; k < nmodules; k++) {
    const char *text = hs_buf_cstr(&j.texts[k]);
    if (hs_ok(s)) hs_buf_puts(out, k ? behind_header(text) : text);
    hs_buf_free(&j.texts[k]);
  }
  hs_free(j.texts);
  return s;
}

hs_status gpu_module_ir(const emit_gpu_options *o, u32 n, gpu_body *const *bodies, bool bitcode,
                        hs_buf *out) {
  emit_llvm c;
  LLVMModuleRef m = NULL;
  hs_status s = emit_llvm_open(&c, gpu_module_target, o);
  if (hs_ok(s)) s = build(&c, o, n, bodies, &m);
  if (m && bitcode) {
    LLVMMemoryBufferRef b = LLVMWriteBitcodeToMemoryBuffer(m);
    hs_buf_put(out, LLVMGetBufferStart(b), LLVMGetBufferSize(b));
    LLVMDisposeMemoryBuffer(b);
  } else if (m) {
    emit_llvm_text(m, out);
  }
  if (m) LLVMDisposeModule(m);
  emit_llvm_close(&c);
  return s;
}
