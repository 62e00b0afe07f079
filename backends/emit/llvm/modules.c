// modules.c — LLVM's modules on several threads. See modules.h.
//
// Each thread has a context and a target machine, and takes one module at a time until none is
// left; the caller's own thread is one of them. LLVM reports some errors to the context's handler
// and goes on, so that each step asks for complaints before its result counts.
#include "backends/emit/llvm/modules.h"

#include "backends/worker.h"

#include <llvm-c/Analysis.h>
#include <llvm-c/Core.h>
#include <llvm-c/Target.h>
#include <llvm-c/Transforms/PassBuilder.h>
#include <pthread.h>
#include <stdio.h>

enum { MOST_THREADS = 64 };

// ---- one context --------------------------------------------------------------------------------
// LLVM's own handler would end the process at an error.
static void on_diagnostic(LLVMDiagnosticInfoRef d, void *arg) {
  emit_llvm *c = arg;
  if (LLVMGetDiagInfoSeverity(d) != LLVMDSError || c->complaint) return;
  char *text = LLVMGetDiagInfoDescription(d);
  c->complaint = hs_strdup(text);
  LLVMDisposeMessage(text);
}

// The status, or else what LLVM complained of meanwhile.
static hs_status complained(emit_llvm *c, hs_status s) {
  if (c->complaint && hs_ok(s)) s = hs_fail(HS_E_INTERNAL, "LLVM: %s", c->complaint);
  hs_free(c->complaint);
  c->complaint = NULL;
  return s;
}

hs_status emit_llvm_failed(const char *what, LLVMErrorRef e) {
  if (!e) return HS_GOOD;
  char *m = LLVMGetErrorMessage(e);
  hs_status s = hs_fail(HS_E_INTERNAL, "LLVM: %s: %s", what, m);
  LLVMDisposeErrorMessage(m);
  return s;
}

// "compiling dot.3", or "compiling one of dot.3, add.4, ..." where LLVM has several at a time.
static _Thread_local char doing[400];

void emit_llvm_doing(u32 n, const char *const *names) {
  size_t at = 0;
  for (u32 k = 0; k < n && at < sizeof doing; k++) {
    const char *before = k ? ", " : n > 1 ? "compiling one of " : "compiling ";
    at += (size_t)snprintf(doing + at, sizeof doing - at, "%s%s", before, names[k]);
  }
  worker_doing_here = n ? doing : NULL;
}

hs_status emit_llvm_open(emit_llvm *c, emit_llvm_target *target, const void *options) {
  *c = (emit_llvm){0};
  HS_TRY(target(options, &c->tm));
  c->ctx = LLVMContextCreate();
  LLVMContextSetDiscardValueNames(c->ctx, true);
  LLVMContextSetDiagnosticHandler(c->ctx, on_diagnostic, c);
  c->layout = LLVMCreateTargetDataLayout(c->tm);
  c->layout_text = LLVMCopyStringRepOfTargetData(c->layout);
  c->triple = LLVMGetTargetMachineTriple(c->tm);
  return HS_GOOD;
}

void emit_llvm_close(emit_llvm *c) {
  emit_llvm_doing(0, NULL);
  if (c->layout_text) LLVMDisposeMessage(c->layout_text);
  if (c->triple) LLVMDisposeMessage(c->triple);
  if (c->layout) LLVMDisposeTargetData(c->layout);
  if (c->tm) LLVMDisposeTargetMachine(c->tm);
  if (c->ctx) LLVMContextDispose(c->ctx);
  hs_free(c->complaint);
}

LLVMModuleRef emit_llvm_module(emit_llvm *c) {
  LLVMModuleRef m = LLVMModuleCreateWithNameInContext("hlosh", c->ctx);
  LLVMSetDataLayout(m, c->layout_text);
  LLVMSetTarget(m, c->triple);
  return m;
}

// Under AddressSanitizer, where time matters less, invalid code is found where it is made.
#ifdef HS_ASAN
#define VERIFY_ALWAYS true
#else
#define VERIFY_ALWAYS false
#endif

hs_status emit_llvm_optimize(emit_llvm *c, LLVMModuleRef m, const char *passes, bool verify) {
  char *wrong = NULL;
  hs_status s = HS_GOOD;
  if ((verify || VERIFY_ALWAYS) && LLVMVerifyModule(m, LLVMReturnStatusAction, &wrong))
    s = hs_fail(HS_E_INTERNAL, "LLVM: invalid code: %s", wrong);
  LLVMDisposeMessage(wrong);
  if (hs_ok(s)) {
    LLVMPassBuilderOptionsRef po = LLVMCreatePassBuilderOptions();
    s = emit_llvm_failed("passes", LLVMRunPasses(m, passes, c->tm, po));
    LLVMDisposePassBuilderOptions(po);
  }
  return complained(c, s);
}

hs_status emit_llvm_code(emit_llvm *c, LLVMModuleRef m, LLVMCodeGenFileType type,
                         LLVMMemoryBufferRef *out) {
  char *err = NULL;
  *out = NULL;
  hs_status s = HS_GOOD;
  if (LLVMTargetMachineEmitToMemoryBuffer(c->tm, m, type, &err, out)) {
    s = hs_fail(HS_E_INTERNAL, "LLVM: %s", err);
    LLVMDisposeMessage(err);
    *out = NULL;
  }
  s = complained(c, s);
  if (!hs_ok(s) && *out) {
    LLVMDisposeMemoryBuffer(*out);
    *out = NULL;
  }
  return s;
}

void emit_llvm_text(LLVMModuleRef m, hs_buf *out) {
  char *text = LLVMPrintModuleToString(m);
  hs_buf_puts(out, text);
  LLVMDisposeMessage(text);
}

// ---- threads ------------------------------------------------------------------------------------
typedef struct job {
  const emit_llvm_work *w;
  hs_status *status;  // per module
  u32 next;           // atomic
  hs_interrupt *interrupt;
} job;

static void *work(void *arg) {
  job *j = arg;
  hs_interrupt_watch(j->interrupt);
  emit_llvm c;
  hs_status opened = emit_llvm_open(&c, j->w->target, j->w->options);
  for (u32 k; (k = __atomic_fetch_add(&j->next, 1, __ATOMIC_RELAXED)) < j->w->n;) {
    if (!hs_ok(opened)) {
      j->status[k] = hs_fail(HS_E_INTERNAL, "LLVM: no target machine");
      continue;
    }
    hs_status s = j->w->module(&c, j->w->arg, k);
    j->status[k] = hs_ok(s) || !worker_doing_here ? s : hs_with_note(s, "%s", worker_doing_here);
  }
  hs_status_drop(opened);
  emit_llvm_close(&c);
  return NULL;
}

static void *work_apart(void *arg) {
  void *stack = worker_thread_begin();
  (void)work(arg);
  worker_thread_end(stack);
  return NULL;
}

hs_status emit_llvm_run(const emit_llvm_work *w, u32 threads) {
  job j = {.w = w, .interrupt = hs_interrupt_watched()};
  j.status = hs_calloc(w->n, sizeof *j.status);
  threads = HS_MIN(HS_MIN(threads, w->n), (u32)MOST_THREADS);
  pthread_t th[MOST_THREADS];
  u32 started = 0;
  for (u32 k = 1; k < threads; k++)
    if (pthread_create(&th[started], NULL, work_apart, &j) == 0) started++;
  (void)work(&j);
  for (u32 k = 0; k < started; k++) (void)pthread_join(th[k], NULL);
  hs_status s = HS_GOOD;
  for (u32 k = 0; k < w->n; k++) {
    if (hs_ok(s)) s = j.status[k];
    else hs_status_drop(j.status[k]);
  }
  hs_free(j.status);
  return s;
}
