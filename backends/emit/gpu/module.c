// module.c — LLVM modules of kernels: building them, passes, PTX.
//
// Each thread has an LLVM context and a target machine, and takes a few kernels at a time. PTX is
// text, so the files of several modules are one file when the header of all but the first is left
// out; names of globals carry the kernel's name.
#include "backends/emit/gpu/module.h"

#include "backends/emit/gpu/code.h"
#include "backends/worker.h"

#include <llvm-c/Analysis.h>
#include <llvm-c/BitWriter.h>
#include <llvm-c/Error.h>
#include <llvm-c/Target.h>
#include <llvm-c/TargetMachine.h>
#include <llvm-c/Transforms/PassBuilder.h>
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

// ---- one context --------------------------------------------------------------------------------
typedef struct context {
  LLVMContextRef ctx;
  LLVMTargetMachineRef tm;
  LLVMTargetDataRef layout;
  char *complaint;  // the first error that LLVM reported; NULL: none
} context;

static void on_diagnostic(LLVMDiagnosticInfoRef d, void *arg) {
  context *c = arg;
  if (LLVMGetDiagInfoSeverity(d) != LLVMDSError || c->complaint) return;
  char *text = LLVMGetDiagInfoDescription(d);
  c->complaint = hs_strdup(text);
  LLVMDisposeMessage(text);
}

static hs_status complained(context *c, hs_status s) {
  if (c->complaint && hs_ok(s)) s = hs_fail(HS_E_INTERNAL, "LLVM: %s", c->complaint);
  hs_free(c->complaint);
  c->complaint = NULL;
  return s;
}

static const gpu_target *target_of(const emit_gpu_options *o) {
  return o->chip ? &gpu_amdgcn : &gpu_nvptx;
}

static hs_status context_open(context *c, const emit_gpu_options *o) {
  *c = (context){0};
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
  c->tm = LLVMCreateTargetMachine(t, g->triple, cpu, g->features, LLVMCodeGenLevelDefault,
                                  LLVMRelocDefault, LLVMCodeModelDefault);
  if (!c->tm) return hs_fail(HS_E_INTERNAL, "LLVM: no target machine for %s", cpu);
  c->ctx = LLVMContextCreate();
  LLVMContextSetDiscardValueNames(c->ctx, true);
  LLVMContextSetDiagnosticHandler(c->ctx, on_diagnostic, c);
  c->layout = LLVMCreateTargetDataLayout(c->tm);
  return HS_GOOD;
}

static void context_close(context *c) {
  if (c->layout) LLVMDisposeTargetData(c->layout);
  if (c->tm) LLVMDisposeTargetMachine(c->tm);
  if (c->ctx) LLVMContextDispose(c->ctx);
  hs_free(c->complaint);
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
  context c;
  hs_status s = context_open(&c, o);
  context_close(&c);
  return s;
}

static hs_status build(context *c, const emit_gpu_options *o, u32 n, gpu_body *const *bodies,
                       LLVMModuleRef *out) {
  LLVMModuleRef m = LLVMModuleCreateWithNameInContext("hlosh", c->ctx);
  char *layout = LLVMCopyStringRepOfTargetData(c->layout);
  LLVMSetDataLayout(m, layout);
  LLVMDisposeMessage(layout);
  LLVMSetTarget(m, target_of(o)->triple);
  hs_status s = HS_GOOD;
  char doing[200];
  for (u32 k = 0; k < n && hs_ok(s); k++) {
    gpu_body *b = bodies[k];
    const gpu_job j = {target_of(o), b->name, b->of, b->n, b->phases, b->buffers, o->contract};
    (void)snprintf(doing, sizeof doing, "compiling %.180s", b->of);
    worker_doing_here = doing;
    s = gpu_kernel(c->ctx, m, &j, &b->shared_bytes);
    if (!hs_ok(s)) s = hs_with_note(s, "%s", doing);
  }
  if (hs_ok(s) && o->verify) {
    char *msg = NULL;
    if (LLVMVerifyModule(m, LLVMReturnStatusAction, &msg))
      s = hs_fail(HS_E_INTERNAL, "LLVM: invalid code: %s", msg);
    LLVMDisposeMessage(msg);
  }
  if (hs_ok(s)) {
    LLVMPassBuilderOptionsRef po = LLVMCreatePassBuilderOptions();
    LLVMErrorRef e = LLVMRunPasses(m, PASSES, c->tm, po);
    LLVMDisposePassBuilderOptions(po);
    if (e) {
      char *text = LLVMGetErrorMessage(e);
      s = hs_fail(HS_E_INTERNAL, "LLVM: passes: %s", text);
      LLVMDisposeErrorMessage(text);
    }
  }
  s = complained(c, s);
  worker_doing_here = NULL;
  if (!hs_ok(s)) {
    LLVMDisposeModule(m);
    return s;
  }
  *out = m;
  return HS_GOOD;
}

// ---- PTX ----------------------------------------------------------------------------------------
static hs_status generate(context *c, LLVMModuleRef m, const char *of, hs_buf *out) {
  char *err = NULL, doing[220];
  LLVMMemoryBufferRef b = NULL;
  (void)snprintf(doing, sizeof doing, "compiling %.180s and others", of);
  worker_doing_here = doing;
  bool failed = LLVMTargetMachineEmitToMemoryBuffer(c->tm, m, LLVMAssemblyFile, &err, &b);
  worker_doing_here = NULL;
  hs_status s = failed ? hs_fail(HS_E_INTERNAL, "LLVM: %s", err) : complained(c, HS_GOOD);
  if (failed) LLVMDisposeMessage(err);
  if (!failed && hs_ok(s)) hs_buf_put(out, LLVMGetBufferStart(b), LLVMGetBufferSize(b));
  if (b) LLVMDisposeMemoryBuffer(b);
  return s;
}

typedef struct job {
  const emit_gpu_options *options;
  u32 n, per, nmodules;
  gpu_body *const *bodies;
  hs_buf *texts;
  hs_status *status;
  u32 next;  // atomic
  hs_interrupt *interrupt;
} job;

static void *work(void *arg) {
  job *j = arg;
  hs_interrupt_watch(j->interrupt);
  context c;
  hs_status s = context_open(&c, j->options);
  for (;;) {
    u32 k = __atomic_fetch_add(&j->next, 1, __ATOMIC_RELAXED);
    if (k >= j->nmodules) break;
    if (!hs_ok(s)) {
      j->status[k] = hs_fail(HS_E_INTERNAL, "LLVM: no target machine");
      continue;
    }
    u32 from = k * j->per, n = HS_MIN(j->per, j->n - from);
    LLVMModuleRef m = NULL;
    j->status[k] = build(&c, j->options, n, j->bodies + from, &m);
    if (!m) continue;
    j->status[k] = generate(&c, m, n ? j->bodies[from]->of : "nothing", &j->texts[k]);
    LLVMDisposeModule(m);
  }
  hs_status_drop(s);
  context_close(&c);
  return NULL;
}

static void *work_apart(void *arg) {
  void *stack = worker_thread_begin();
  (void)work(arg);
  worker_thread_end(stack);
  return NULL;
}

// The part behind .version, .target and .address_size.
static const char *behind_header(const char *text) {
  const char *p = strstr(text, ".address_size");
  p = p ? strchr(p, '\n') : NULL;
  return p ? p + 1 : text;
}

hs_status gpu_module_ptx(const emit_gpu_options *o, u32 n, gpu_body *const *bodies, u32 threads,
                         hs_buf *out) {
  threads = HS_MIN(HS_MAX(threads, 1), 64);
  job j = {.options = o, .n = n, .bodies = bodies, .interrupt = hs_interrupt_watched()};
  if (o->chip) threads = 1;  // its assembly ends with tables of all kernels: one module
  j.per =
      o->chip ? HS_MAX(n, 1) : HS_MAX(HS_MIN(KERNELS_PER_MODULE, (n + threads - 1) / threads), 1);
  j.nmodules = HS_MAX((n + j.per - 1) / j.per, 1);  // without kernels: a header
  j.texts = hs_calloc(j.nmodules, sizeof *j.texts);
  j.status = hs_calloc(j.nmodules, sizeof *j.status);
  threads = HS_MIN(threads, j.nmodules);
  pthread_t th[64];
  u32 started = 0;
  for (u32 k = 1; k < threads; k++)
    if (pthread_create(&th[started], NULL, work_apart, &j) == 0) started++;
  (void)work(&j);
  for (u32 k = 0; k < started; k++) (void)pthread_join(th[k], NULL);
  hs_status s = HS_GOOD;
  for (u32 k = 0; k < j.nmodules; k++) {
    if (hs_ok(s)) s = j.status[k];
    else hs_status_drop(j.status[k]);
    if (hs_ok(s)) {
      const char *text = hs_buf_cstr(&j.texts[k]);
      hs_buf_puts(out, k ? behind_header(text) : text);
    }
    hs_buf_free(&j.texts[k]);
  }
  hs_free(j.texts);
  hs_free(j.status);
  return s;
}

hs_status gpu_module_ir(const emit_gpu_options *o, u32 n, gpu_body *const *bodies, bool bitcode,
                        hs_buf *out) {
  context c;
  LLVMModuleRef m = NULL;
  hs_status s = context_open(&c, o);
  if (hs_ok(s)) s = build(&c, o, n, bodies, &m);
  if (m && bitcode) {
    LLVMMemoryBufferRef b = LLVMWriteBitcodeToMemoryBuffer(m);
    hs_buf_put(out, LLVMGetBufferStart(b), LLVMGetBufferSize(b));
    LLVMDisposeMemoryBuffer(b);
  } else if (m) {
    char *text = LLVMPrintModuleToString(m);
    hs_buf_puts(out, text);
    LLVMDisposeMessage(text);
  }
  if (m) LLVMDisposeModule(m);
  context_close(&c);
  return s;
}
