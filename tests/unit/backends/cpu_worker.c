// cpu_worker.c — what a run on the cpu backend survives: its worker is killed or stopped,
// Ctrl-C, a deadline. Each is an error of that run, and the next run works.
#include <pthread.h>
#include <unistd.h>

#include "core/base/file.h"
#include "tests/unit/backends/cpu.h"

#define SPIN                                                                           \
  "cond { s = (s32[], f32[]) parameter(0)\n i = s32[] get-tuple-element(s), index=0\n" \
  " n = s32[] constant(0)\n ROOT c = pred[] compare(i, n), direction=GE }\n"           \
  "body { s = (s32[], f32[]) parameter(0)\n i = s32[] get-tuple-element(s), index=0\n" \
  " x = f32[] get-tuple-element(s), index=1\n k = f32[] constant(0.5)\n"               \
  " y = f32[] multiply(x, k)\nz = f32[] add(y, k)\n m = s32[] constant(1)\n"           \
  " j = s32[] and(i, m)\n ROOT t = (s32[], f32[]) tuple(j, z) }\n"                     \
  "ENTRY e { x = f32[] parameter(0)\n i = s32[] constant(0)\n"                         \
  " t = (s32[], f32[]) tuple(i, x)\n"                                                  \
  " ROOT w = (s32[], f32[]) while(t), condition=cond, body=body }"
static int disturb_signal;
static hs_interrupt interrupt;
static void *disturb(void *p) {
  (void)p;
  usleep(500000);
  if (disturb_signal) kill(worker_pid(backend_context_worker(backends)), disturb_signal);
  else interrupt = 1;
  return NULL;
}

// A loop without end is running when it happens; afterwards the same program of another module runs
// again.
static void survives(int sig, double deadline, hs_code want) {
  hlo_module *endless = parse(MODULE(SPIN)),
             *good =
                 parse(MODULE("ENTRY e { x = f32[5] parameter(0)\n ROOT y = f32[5] negate(x) }"));
  backend_options o = {.context = backends, .deadline_s = deadline};
  backend_exe *bad = NULL, *ok = NULL;
  hlo_literal **args = NULL;
  u32 n = 0;
  backend_result r;
  explain(cpu->compile(good, &(backend_options){.context = backends}, &ok));
  explain(cpu->compile(endless, &o, &bad));
  explain(hlo_inputs_formula(ctx, endless, NULL, 0, &args, &n));
  pthread_t t;
  hs_interrupt_watch(&interrupt);
  disturb_signal = sig;
  if (deadline == 0) pthread_create(&t, NULL, disturb, NULL);
  hs_status s = cpu->run(bad, n, args, NULL, &r);
  if (deadline == 0) pthread_join(t, NULL);
  interrupt = 0;
  assert_false(hs_ok(s));
  assert_int_equal(s.err->code, want);
  assert_non_null(strstr(s.err->message, "running"));
  hs_status_drop(s);
  hlo_inputs_free(args, n);
  explain(hlo_inputs_formula(ctx, good, NULL, 0, &args, &n));
  explain(cpu->run(ok, n, args, NULL, &r));
  assert_true(hlo_literal_f64(r.outputs, 0) == -hlo_literal_f64(args[0], 0));
  backend_result_free(&r);
  hlo_inputs_free(args, n);
  cpu->release(bad);
  cpu->release(ok);
  hlo_module_free(endless);
  hlo_module_free(good);
}

static void survives_segv(void **st) {
  (void)st;
  survives(SIGSEGV, 0, HS_E_WORKER);
}
static void survives_kill(void **st) {
  (void)st;
  survives(SIGKILL, 0, HS_E_WORKER);
}
static void survives_stop(void **st) {
  (void)st;
  survives(SIGSTOP, 0, HS_E_DEADLINE);
}
static void survives_ctrl_c(void **st) {
  (void)st;
  survives(0, 0, HS_E_INTERRUPTED);
}
static void survives_deadline(void **st) {
  (void)st;
  survives(0, 2, HS_E_DEADLINE);
}

// A worker's map begins anew and then grows by each program; one that was compiled without is not
// in it.
static void maps_for_perf(void **st) {
  (void)st;
  static const char *const texts[] = {
      MODULE("ENTRY e { x = f32[300] parameter(0)\n ROOT first = f32[300] tan(x) }"),
      MODULE("ENTRY e { x = f32[300] parameter(0)\n ROOT second = f32[300] tanh(x) }"),
      MODULE("ENTRY e { x = f32[300] parameter(0)\n ROOT third = f32[300] cosine(x) }")};
  worker *w = backend_context_worker(backends);
  explain(worker_start(w));
  char *path = hs_format("/tmp/perf-%ld.map", (long)worker_pid(w));
  explain(hs_write_file(path, "of another process\n", 19, false));
  for (u32 k = 0; k < 3; k++) {
    hlo_module *m = parse(texts[k]);
    backend_result r =
        run_on(cpu, m, &(backend_options){.perf_map = k < 2, .threads = 1}, NULL, NULL);
    backend_result_free(&r);
    hlo_module_free(m);
  }
  hs_view v;
  explain(hs_view_file(path, 1 << 20, false, &v));
  char *text = hs_format("%.*s", (int)v.n, v.p);
  unsigned long long at, bytes;
  char name[32];
  assert_int_equal(sscanf(text, "%llx %llx %31s", &at, &bytes, name), 3);
  assert_true(at > 0 && bytes > 0);
  assert_string_equal(name, "first");
  assert_non_null(strstr(text, " second\n"));
  assert_null(strstr(text, "third"));
  assert_null(strstr(text, "another"));
  hs_free(text);
  hs_view_drop(&v);
  unlink(path);
  hs_free(path);
}

// Programs one after the other, of many sizes, find what others left in their memory: each computes
// what it does in a new worker, and the worker holds no more than it is to keep.
static void memory_is_used_again(void **st) {
  (void)st;
  i64 least = -1, most = 0;
  for (u32 k = 0; k < 60; k++) {
    u32 n = 40000 + 70000 * (k * 7 % 11);
    char *text =
        hs_format("HloModule t\nENTRY e { x = f32[%u] parameter(0)\n one = f32[] constant(1)\n"
                  " p = f32[%u] pad(x, one), padding=3_5\n ROOT r = f32[%u] negate(p) }",
                  n, n + 8, n + 8);
    hlo_module *m = parse(text);
    backend_result want = run_on(backend_find("interp"), m, NULL, NULL, NULL);
    backend_result got = run_on(cpu, m, &(backend_options){.threads = 2}, NULL, NULL);
    explain(hlo_compare(want.outputs, got.outputs, hlo_near(0, 0)));
    backend_result_free(&want);
    backend_result_free(&got);
    hlo_module_free(m);
    hs_free(text);
    i64 holds = worker_resident(backend_context_worker(backends));
    if (k == 29) least = holds;
    most = HS_MAX(most, holds);
  }
#ifdef HS_ASAN
  (void)least, (void)most;  // it keeps what is freed
#else
  // 16 areas of at most 6 MB; the second half of the programs has the sizes of the first
  if (least >= 0) assert_in_range(most, 0, least + (32 << 20));
#endif
}

int main(int argc, char **argv) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(survives_segv),        cmocka_unit_test(survives_kill),
      cmocka_unit_test(survives_stop),        cmocka_unit_test(survives_ctrl_c),
      cmocka_unit_test(survives_deadline),    cmocka_unit_test(maps_for_perf),
      cmocka_unit_test(memory_is_used_again),
  };
  return run_cpu_tests(argc, argv, "cpu_worker", tests, HS_COUNT(tests));
}
