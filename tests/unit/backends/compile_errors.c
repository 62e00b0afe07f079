// When LLVM ends the worker, by a fatal error, an assertion or a crash, the message names what was
// compiled; what it only complains of is an error of the call.
#include "tests/unit/skip.h"

#if HAVE_LLVM
#include <llvm-c/Core.h>
#include <llvm-c/IRReader.h>
#include <llvm-c/Target.h>
#include <llvm-c/TargetMachine.h>

#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#include "backends/backend.h"
#include "backends/emit/emit.h"
#include "tests/unit/modules.h"

// ---- a fatal error of LLVM ----------------------------------------------------------------------
// An instruction of a processor that this one is not: LLVM cannot select it.
static void compile_the_impossible(void) {
#if defined(__aarch64__)
  static const char text[] = "declare void @llvm.x86.sse2.lfence()\n"
                             "define void @f() { call void @llvm.x86.sse2.lfence() ret void }\n";
#else
  static const char text[] = "declare void @llvm.aarch64.dmb(i32)\n"
                             "define void @f() { call void @llvm.aarch64.dmb(i32 1) ret void }\n";
#endif
  LLVMContextRef c = LLVMContextCreate();
  LLVMModuleRef m = NULL;
  LLVMTargetRef t = NULL;
  LLVMMemoryBufferRef b = NULL;
  char *why = NULL, *triple = LLVMGetDefaultTargetTriple();
  LLVMMemoryBufferRef ir = LLVMCreateMemoryBufferWithMemoryRangeCopy(text, sizeof text - 1, "f");
  if (LLVMParseIRInContext(c, ir, &m, &why) || LLVMGetTargetFromTriple(triple, &t, &why)) return;
  LLVMTargetMachineRef tm = LLVMCreateTargetMachine(
      t, triple, "generic", "", LLVMCodeGenLevelDefault, LLVMRelocPIC, LLVMCodeModelDefault);
  (void)LLVMTargetMachineEmitToMemoryBuffer(tm, m, LLVMObjectFile, &why, &b);
}

// In the worker, on a thread beside the one that answers requests.
static void *fail_later(void *arg) {
  usleep(200 * 1000);
  worker_doing_here = "compiling kernel.7";
  compile_the_impossible();
  return arg;
}

static void fatal_error_names_the_kernel(void **st) {
  (void)st;
  setenv("HLOSH_TEST_WORKER", "fatal", 1);
  worker *w = worker_new(NULL);
  double seconds = 30;
  hs_status s = worker_call(w, "compiling", WORKER_REQ_SLEEP, &seconds, sizeof seconds, NULL, 0, 10,
                            NULL, NULL);
  unsetenv("HLOSH_TEST_WORKER");
  assert_false(hs_ok(s));
  assert_int_equal(s.err->code, HS_E_WORKER);
  assert_non_null(strstr(s.err->message, "SIGABRT"));
  assert_non_null(strstr(s.err->note, "in compiling kernel.7: "));
  assert_non_null(strstr(s.err->note, "elect"));  // "Cannot select"
  hs_status_drop(s);
  worker_free(w);
}

// ---- death while compiling ----------------------------------------------------------------------
// A module of many kernels, none like another.
static char *large_module(u32 n) {
  hs_buf b = {0};
  hs_buf_puts(&b, "HloModule m\nENTRY e {\n x.0 = f32[64] parameter(0)\n");
  for (u32 k = 1; k <= n; k++)
    hs_buf_printf(&b, " c.%u = f32[%u] iota(), iota_dimension=0\n s.%u = f32[%u] sine(c.%u)\n", k,
                  k + 64, k, k + 64, k);
  hs_buf_puts(&b, " ROOT t = (f32[64]");
  for (u32 k = 1; k <= n; k++) hs_buf_printf(&b, ", f32[%u]", k + 64);
  hs_buf_puts(&b, ") tuple(x.0");
  for (u32 k = 1; k <= n; k++) hs_buf_printf(&b, ", s.%u", k);
  hs_buf_puts(&b, ")\n}\n");
  char *text = hs_strdup(hs_buf_cstr(&b));
  hs_buf_free(&b);
  return text;
}

typedef struct later {
  worker *w;
  int sig;
  u32 ms;
} later;
static void *signal_later(void *p) {
  const later *l = p;
  while (!worker_pid(l->w)) usleep(1000);
  usleep(l->ms * 1000);
  kill(worker_pid(l->w), l->sig);
  return NULL;
}

static void death_names_the_kernel(void **st) {
  (void)st;
  const backend *cpu = backend_find("cpu");
  char *text = large_module(3000);
  hlo_module *m = parse(text);
  hs_free(text);
  static const int signals[] = {SIGABRT, SIGSEGV};
  // the moment when LLVM is at work depends on the machine: later ones are tried, and where it was
  // done already, earlier ones
  u32 ms = 50, step = 25;
  for (size_t k = 0; k < HS_COUNT(signals);) {
    backend_context *c = backend_context_new();
    later l = {backend_context_worker(c), signals[k], ms};
    pthread_t t;
    pthread_create(&t, NULL, signal_later, &l);
    backend_exe *e = NULL;
    hs_status s = cpu->compile(m, &(backend_options){.context = c, .per_instruction = true}, &e);
    pthread_join(t, NULL);
    if (hs_ok(s)) {
      cpu->release(e);
      backend_context_free(c);
      ms = HS_MAX(ms / 3, 10u), step = HS_MAX(step / 3, 2u);
      continue;
    }
    assert_int_equal(s.err->code, HS_E_WORKER);
    const char *kernel = s.err->note ? strstr(s.err->note, "in compiling ") : NULL;
    assert_true(!kernel || (strstr(kernel, "s.") && strstr(s.err->message, "while compiling")));
    hs_status_drop(s);
    if (kernel) k++;
    else ms += step, step += step / 4;
    backend_context_free(c);
  }
  hlo_module_free(m);
}

int main(int argc, char **argv) {
  int status;
  if (argc == 3 && getenv("HLOSH_TEST_WORKER")) {
    pthread_t t;
    emit_warm_up();
    pthread_create(&t, NULL, fail_later, NULL);
  }
  if (worker_entry(argc, argv, &status)) return status;
  ctx = hlo_ctx_new();
  const struct CMUnitTest tests[] = {cmocka_unit_test(fatal_error_names_the_kernel),
                                     cmocka_unit_test(death_names_the_kernel)};
  int bad = cmocka_run_group_tests(tests, NULL, NULL);
  hlo_ctx_free(ctx);
  return bad;
}
#else
int main(void) { return skip_all("no LLVM"); }
#endif
