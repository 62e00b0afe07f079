// The worker process: death by each signal, stop, Ctrl-C, deadline, restart; no descriptor and no
// zombie is left.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <dirent.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "backends/worker.h"
#include "tests/unit/skip.h"

static int count_fds(void) {
  int n = 0;
  DIR *d = opendir("/proc/self/fd");
  while (d && readdir(d)) n++;
  if (d) closedir(d);
  return n;
}

static hs_interrupt interrupt;
typedef struct later {
  worker *w;
  int sig;
  bool self;
  unsigned ms;
} later;
static void *signal_later(void *p) {
  later *l = p;
  usleep(l->ms * 1000);
  if (l->self) interrupt = 1;
  else kill(worker_pid(l->w), l->sig);
  return NULL;
}

// One long call that is disturbed after 200 ms; gives its status.
static hs_status disturbed(worker *w, int sig, bool self, double seconds, double limit) {
  later l = {w, sig, self, 200};
  pthread_t t;
  assert_true(hs_ok(worker_start(w)));
  pthread_create(&t, NULL, signal_later, &l);
  hs_status s = worker_call(w, "running", WORKER_REQ_SLEEP, &seconds, sizeof seconds, NULL, 0,
                            limit, NULL, NULL);
  pthread_join(t, NULL);
  return s;
}

static void assert_answers(worker *w) {
  void *r;
  size_t n;
  assert_true(hs_ok(worker_call(w, "echo", WORKER_REQ_PING, "abc", 3, NULL, 0, 10, &r, &n)));
  assert_int_equal(n, 3);
  assert_memory_equal(r, "abc", 3);
  hs_free(r);
}

static void expect_death(int sig, const char *name) {
  worker *w = worker_new(NULL);
  assert_answers(w);
  int before = count_fds();
  u64 gen = worker_generation(w);
  hs_status s = disturbed(w, sig, false, 30, 0);
  assert_false(hs_ok(s));
  assert_int_equal(s.err->code, HS_E_WORKER);
  assert_non_null(strstr(s.err->message, name));
  assert_non_null(strstr(s.err->message, "running"));
  hs_status_drop(s);
  assert_int_equal(worker_pid(w), 0);
  assert_answers(w);
  assert_true(worker_generation(w) > gen);
  assert_int_equal(count_fds(), before);
  worker_free(w);
  assert_int_equal(waitpid(-1, NULL, WNOHANG), -1);  // no child left
}

static void dies_of_segv(void **st) {
  (void)st;
  expect_death(SIGSEGV, "SIGSEGV");
}
static void dies_of_kill(void **st) {
  (void)st;
  expect_death(SIGKILL, "SIGKILL");
}
static void dies_of_abort(void **st) {
  (void)st;
  expect_death(SIGABRT, "SIGABRT");
}

static void crash_names_the_step(void **st) {
  (void)st;
  worker *w = worker_new(NULL);
  hs_status s = disturbed(w, SIGSEGV, false, 30, 0);
  assert_non_null(s.err->note);
  assert_non_null(strstr(s.err->note, "in sleeping"));
  hs_status_drop(s);
  worker_free(w);
}

static void stopped_is_a_hang(void **st) {
  (void)st;
  worker *w = worker_new(NULL);
  hs_status s = disturbed(w, SIGSTOP, false, 60, 0);
  assert_int_equal(s.err->code, HS_E_DEADLINE);
  hs_status_drop(s);
  assert_answers(w);
  worker_free(w);
}

static void stopped_under_deadline(void **st) {
  (void)st;
  worker *w = worker_new(NULL);
  hs_status s = disturbed(w, SIGSTOP, false, 60, 0.5);
  assert_int_equal(s.err->code, HS_E_DEADLINE);
  hs_status_drop(s);
  worker_free(w);
}

static void ctrl_c(void **st) {
  (void)st;
  worker *w = worker_new(NULL);
  hs_interrupt_watch(&interrupt);
  u64 t0 = hs_now_ns();
  hs_status s = disturbed(w, 0, true, 60, 0);
  interrupt = 0;
  assert_int_equal(s.err->code, HS_E_INTERRUPTED);
  assert_true(hs_now_ns() - t0 < 5000000000u);
  hs_status_drop(s);
  assert_answers(w);
  worker_free(w);
}

static void deadline(void **st) {
  (void)st;
  worker *w = worker_new(NULL);
  double seconds = 60;
  hs_status s = worker_call(w, "running", WORKER_REQ_SLEEP, &seconds, sizeof seconds, NULL, 0, 0.3,
                            NULL, NULL);
  assert_int_equal(s.err->code, HS_E_DEADLINE);
  assert_int_equal(hs_code_exit(s.err->code), 124);
  hs_status_drop(s);
  assert_answers(w);
  worker_free(w);
}

static void large_payload(void **st) {
  (void)st;
  worker *w = worker_new(NULL);
  size_t n = 5u << 20, rn;
  char *p = hs_alloc(n);
  for (size_t k = 0; k < n; k++) p[k] = (char)(k * 7);
  void *r;
  assert_true(hs_ok(worker_call(w, "echo", WORKER_REQ_PING, p, n, NULL, 0, 20, &r, &rn)));
  assert_int_equal(rn, n);
  assert_memory_equal(r, p, n);
  hs_free(r);
  hs_free(p);
  worker_free(w);
}

static void bad_executable(void **st) {
  (void)st;
  worker *w = worker_new("/nonexistent/hlosh");
  hs_status s = worker_start(w);
  assert_int_equal(s.err->code, HS_E_WORKER);
  hs_status_drop(s);
  worker_free(w);
  w = worker_new("/bin/true");
  s = worker_start(w);
  assert_int_equal(s.err->code, HS_E_WORKER);
  hs_status_drop(s);
  worker_free(w);
}

// How the kernel schedules a process (0: this one): the head of sched_attr.
typedef struct scheduled {
  u32 size, policy;
  u64 flags;
  i32 nice;
  u32 priority;
  u64 turn_ns, deadline, period;  // turn_ns: 0 where turns have no length of their own
} scheduled;

static bool how_scheduled(pid_t pid, scheduled *out) {
  return syscall(SYS_sched_getattr, pid, out, sizeof *out, 0) == 0;
}

// Changes how nice this process is, so it comes last.
static void short_turns(void **st) {
  (void)st;
  scheduled mine = {0}, its = {0};
  if (!how_scheduled(0, &mine) || mine.policy != 0 || !mine.turn_ns)
    SKIP_TEST("the kernel has no turns of a length of their own (Linux 6.12)");
  setpriority(PRIO_PROCESS, 0, mine.nice + 1);
  assert_true(how_scheduled(0, &mine));
  worker *w = worker_new(NULL);
  assert_true(hs_ok(worker_start(w)));
  assert_answers(w);
  assert_true(how_scheduled(worker_pid(w), &its));
  assert_int_equal(its.turn_ns, HS_MIN(mine.turn_ns, (u64)100000));
  assert_int_equal(its.policy, mine.policy);
  assert_int_equal(its.nice, mine.nice);
  worker_free(w);
}

// Whether the environment of the running worker has the variable.
static bool has_variable(const worker *w, const char *variable) {
  char path[64], all[65536];
  (void)snprintf(path, sizeof path, "/proc/%ld/environ", (long)worker_pid(w));
  FILE *f = fopen(path, "r");
  assert_non_null(f);
  size_t n = fread(all, 1, sizeof all - 1, f);
  fclose(f);
  all[n] = 0;
  for (size_t at = 0; at < n; at += strlen(all + at) + 1)
    if (strcmp(all + at, variable) == 0) return true;
  return false;
}

// A processor that OpenBLAS does not know yet has its newer kernels, too; the user's choice counts.
static void names_the_kernels_of_blas(void **state) {
  (void)state;
#if defined(__x86_64__)
  assert_int_equal(unsetenv("OPENBLAS_CORETYPE"), 0);
  worker *w = worker_new(NULL);
  assert_true(hs_ok(worker_start(w)));
  if (__builtin_cpu_supports("avx2"))
    assert_true(has_variable(w, "OPENBLAS_CORETYPE=SkylakeX") ||
                has_variable(w, "OPENBLAS_CORETYPE=Haswell"));
  worker_free(w);
  assert_int_equal(setenv("OPENBLAS_CORETYPE", "Nehalem", 1), 0);
  w = worker_new(NULL);
  assert_true(hs_ok(worker_start(w)));
  assert_true(has_variable(w, "OPENBLAS_CORETYPE=Nehalem"));
  assert_answers(w);
  worker_free(w);
  assert_int_equal(unsetenv("OPENBLAS_CORETYPE"), 0);
#endif
}

int main(int argc, char **argv) {
  int status;
  if (worker_entry(argc, argv, &status)) return status;
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(names_the_kernels_of_blas),
      cmocka_unit_test(dies_of_segv),
      cmocka_unit_test(dies_of_kill),
      cmocka_unit_test(dies_of_abort),
      cmocka_unit_test(crash_names_the_step),
      cmocka_unit_test(stopped_is_a_hang),
      cmocka_unit_test(stopped_under_deadline),
      cmocka_unit_test(ctrl_c),
      cmocka_unit_test(deadline),
      cmocka_unit_test(large_payload),
      cmocka_unit_test(bad_executable),
      cmocka_unit_test(short_turns),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
