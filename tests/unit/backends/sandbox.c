// The sandbox: a hostile library of custom calls gets nothing it tries, and without the sandbox it
// gets it, so that the test would notice. Workers that crash, flood, exhaust memory, answer for
// ever or never end are ended, with a message that names what ran.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "backends/backend.h"
#include "backends/ffi.h"
#include "backends/worker_wire.h"
#include "tests/unit/modules.h"
#include "tests/unit/skip.h"

static const struct {
  const char *name;
  bool sure;
  const char *what;
} attacks[] = {
#define ATTACK(id, sure, what) {#id, sure, what},
#include "tests/plugin/attacks.def"
#undef ATTACK
};

static char home[] = "/tmp/hlosh-sandbox-XXXXXX";
static char *library;

static char *in_home(const char *name) { return hs_format("%s/%s", home, name); }
static void write_file(const char *name) {
  char *path = in_home(name);
  FILE *f = fopen(path, "w");
  assert_non_null(f);
  fputs("secret\n", f);
  fclose(f);
  hs_free(path);
}

// ---- custom calls of the hostile library --------------------------------------------------------
static hs_status call(const char *target, const char *shape, int argument, hlo_literal **out) {
  char *text =
      hs_format("HloModule m\nENTRY e { x = s32[1] constant({%d}) ROOT r = %s custom-call(x), "
                "custom_call_target=\"%s\", api_version=API_VERSION_TYPED_FFI }\n",
                argument, shape, target);
  hlo_module *m = parse(text);
  hs_free(text);
  hs_status s = backend_run_once(backend_find("interp"), m, NULL, 0, NULL, out);
  hlo_module_free(m);
  return s;
}

static i32 one(const char *target) {
  hlo_literal *out = NULL;
  expect_good(call(target, "s32[1]", 0, &out), target);
  i32 v;
  memcpy(&v, out->data, sizeof v);
  hlo_literal_unref(out);
  return v;
}

static void load(sandbox_mode mode, u64 memory) {
  ffi_unload_all();
  ffi_confine(mode, memory);
  expect_good(ffi_load(library, 0, NULL), "the hostile library");
}

// A port of this machine that somebody listens on.
static int listener(int *port) {
  int s = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  socklen_t n = sizeof at;
  assert_int_equal(bind(s, (struct sockaddr *)&at, sizeof at), 0);
  assert_int_equal(listen(s, 8), 0);
  assert_int_equal(getsockname(s, (struct sockaddr *)&at, &n), 0);
  *port = ntohs(at.sin_port);
  return s;
}

static void attack(i32 results[HS_COUNT(attacks)]) {
  int port, s = listener(&port);
  char shape[32];
  snprintf(shape, sizeof shape, "s32[%zu]", HS_COUNT(attacks));
  write_file("precious");
  hlo_literal *out = NULL;
  expect_good(call("attack", shape, port, &out), "attack");
  memcpy(results, out->data, sizeof(i32) * HS_COUNT(attacks));
  hlo_literal_unref(out);
  close(s);
}

static void nothing_succeeds(void **st) {
  (void)st;
  sandbox_support has = sandbox_probe();
  if (has.no_seccomp) SKIP_TEST(has.no_seccomp);
  if (has.no_landlock) SKIP_TEST(has.no_landlock);
  i32 got[HS_COUNT(attacks)];
  load(SANDBOX_ON, 0);
  attack(got);
  for (size_t k = 0; k < HS_COUNT(attacks); k++)
    if (got[k]) fail_msg("%s: it %s", attacks[k].name, attacks[k].what);
  hs_buf b = {0};
  assert_true(ffi_refused(&b));
  static const char *const named[] = {"socket (the network)", "execve (another program)",
                                      "ptrace (other processes' memory)",
                                      "openat (a file to write)", "kill "};
  for (size_t k = 0; k < HS_COUNT(named); k++)
    if (!strstr(hs_buf_cstr(&b), named[k])) fail_msg("no %s in: %s", named[k], hs_buf_cstr(&b));
  b.n = 0;
  assert_false(ffi_refused(&b));  // told once
  hs_buf_free(&b);
}

static void everything_succeeds_without(void **st) {
  (void)st;
  i32 got[HS_COUNT(attacks)];
  load(SANDBOX_OFF, 0);
  attack(got);
  for (size_t k = 0; k < HS_COUNT(attacks); k++) {
    if (got[k]) continue;
    if (attacks[k].sure) fail_msg("%s failed without a sandbox", attacks[k].name);
    print_message("nobody %s here, with a sandbox or without\n", attacks[k].what);
  }
}

// Threads that a library starts by the user's own setting would be there before the sandbox is.
static void confined_whatever_the_user_set(void **st) {
  (void)st;
  sandbox_support has = sandbox_probe();
  if (has.no_seccomp) SKIP_TEST(has.no_seccomp);
  if (has.no_landlock) SKIP_TEST(has.no_landlock);
  assert_int_equal(setenv("OPENBLAS_NUM_THREADS", "2", 1), 0);
  worker *w = worker_new(NULL);
  worker_confine(w, SANDBOX_ON, 0);
  hs_status s = worker_start(w);
  worker_free(w);
  assert_int_equal(unsetenv("OPENBLAS_NUM_THREADS"), 0);
  expect_good(s, "a worker where OpenBLAS was given two threads");
}

// int 0x80 goes around the numbers of the filter, and so must not work at all.
static void other_numbers_are_the_end(void **st) {
  (void)st;
  load(SANDBOX_OFF, 0);
  hlo_literal *out = NULL;
  hs_status s = call("other_calls", "s32[1]", 0, &out);
  bool works = hs_ok(s) && *(const i32 *)out->data == 1;
  hs_status_drop(s);
  hlo_literal_unref(out);
  if (!works) SKIP_TEST("the kernel has no calls of another architecture");
  if (sandbox_probe().no_seccomp) SKIP_TEST(sandbox_probe().no_seccomp);
  load(SANDBOX_ON, 0);
  s = call("other_calls", "s32[1]", 0, &out);
  assert_int_equal(s.err->code, HS_E_WORKER);
  assert_non_null(strstr(s.err->message, "SIGSYS"));
  hs_status_drop(s);
}

static void memory_is_limited(void **st) {
  (void)st;
  if (SANDBOX_SANITIZED) SKIP_TEST("a build with a sanitizer is not confined");
  load(SANDBOX_AUTO, (u64)512 << 20);
  i32 with = one("hog");
  assert_true(with > 16 && with < 512);
  load(SANDBOX_AUTO, 0);
  assert_true(one("hog") > 512);
}

// Results stay what they were when the worker answered, and arguments cannot be written to.
static i32 after_a_while(sandbox_mode mode) {
  load(mode, 0);
  hlo_literal *out = NULL;
  expect_good(call("linger", "s32[1]", 0, &out), "linger");
  usleep(1000 * 1000);
  i32 v = 0;
  for (u32 k = 0; k < 100; k++) {  // the writer may be late; without it, this is a wait of a second
    memcpy(&v, out->data, sizeof v);
    if (v == 99) break;
    usleep(10 * 1000);
  }
  hlo_literal_unref(out);
  return v;
}

static void results_stay(void **st) {
  (void)st;
  if (SANDBOX_SANITIZED) SKIP_TEST("a build with a sanitizer is not confined");
  assert_int_equal(after_a_while(SANDBOX_OFF), 99);
  i32 v = after_a_while(SANDBOX_AUTO);
  for (u32 k = 0; k < 5 && v == 99; k++) v = after_a_while(SANDBOX_AUTO);  // the answer came late
  assert_int_equal(v, 1);
}

// ---- last words ---------------------------------------------------------------------------------
static void expect_note(hs_status s, hs_code code, const char *message, const char *note) {
  assert_false(hs_ok(s));
  assert_int_equal(s.err->code, code);
  if (!strstr(s.err->message, message)) fail_msg("no %s in: %s", message, s.err->message);
  if (!s.err->note || !strstr(s.err->note, note))
    fail_msg("no %s in: %s", note, s.err->note ? s.err->note : "no note");
  hs_status_drop(s);
}

static void crash_names_the_call(void **st) {
  (void)st;
  load(SANDBOX_AUTO, 0);
  hlo_literal *out = NULL;
  expect_note(call("crash", "s32[1]", 0, &out), HS_E_WORKER, "SIGSEGV", "in custom call crash of");
}

static hs_interrupt interrupt;
static void *interrupt_later(void *p) {
  usleep(500 * 1000);
  interrupt = 1;
  return p;
}

static void flood_is_stopped(void **st) {
  (void)st;
  load(SANDBOX_AUTO, 0);
  hs_interrupt_watch(&interrupt);
  pthread_t t;
  pthread_create(&t, NULL, interrupt_later, NULL);
  u64 t0 = hs_now_ns();
  hlo_literal *out = NULL;
  hs_status s = call("flood", "s32[1]", 0, &out);
  pthread_join(t, NULL);
  interrupt = 0;
  hs_interrupt_watch(NULL);
  assert_int_equal(s.err->code, HS_E_INTERRUPTED);
  assert_true(hs_now_ns() - t0 < 5000000000u);
  hs_status_drop(s);
}

// A loop without an end: the kernel that ran when the time was up is named.
static void deadline_names_the_kernel(void **st) {
  (void)st;
  const backend *cpu = backend_find("cpu");
  hs_status s = cpu->probe();
  bool usable = hs_ok(s);
  hs_status_drop(s);
  if (!usable) SKIP_TEST("no cpu backend");
  hlo_module *m = parse(
      "HloModule m\nb { p = (s32[], f32[8]) parameter(0) i = s32[] get-tuple-element(p), index=0\n"
      " v = f32[8] get-tuple-element(p), index=1 busy = f32[8] sine(v)\n"
      " ROOT t = (s32[], f32[8]) tuple(i, busy) }\n"
      "c { p = (s32[], f32[8]) parameter(0) i = s32[] get-tuple-element(p), index=0\n"
      " z = s32[] constant(0) ROOT r = pred[] compare(i, z), direction=EQ }\n"
      "ENTRY e { z = s32[] constant(0) v = f32[8] parameter(0) t = (s32[], f32[8]) tuple(z, v)\n"
      " ROOT w = (s32[], f32[8]) while(t), condition=c, body=b }\n");
  hlo_literal **args = NULL;
  u32 n = 0;
  expect_good(hlo_inputs_formula(ctx, m, NULL, 0, &args, &n), "arguments");
  backend_exe *e = NULL;
  const backend_options o = {.deadline_s = 3, .threads = 1};
  expect_good(cpu->compile(m, &o, &e), "compile");
  backend_result r = {0};
  s = cpu->run(e, n, args, NULL, &r);
  assert_false(hs_ok(s));
  assert_non_null(s.err->note);
  assert_true(strstr(s.err->note, "in busy") || strstr(s.err->note, "in r") ||
              strstr(s.err->note, "in w"));
  expect_note(s, HS_E_DEADLINE, "running", "in ");
  backend_result_free(&r);
  cpu->release(e);
  hlo_inputs_free(args, n);
  hlo_module_free(m);
}

// ---- workers that misbehave on their own --------------------------------------------------------
// The program of the worker is this test, which plays the worker named by HLOSH_TEST_WORKER.
static bool receive(int sock, void *p, size_t n) {
  while (n) {
    ssize_t k = recv(sock, p, n, 0);
    if (k <= 0) return false;
    p = (char *)p + k;
    n -= (size_t)k;
  }
  return true;
}

static int bad_worker(int sock, const char *how) {
  for (bool first = true;; first = false) {
    worker_frame f, answer = {.magic = WORKER_MAGIC, .kind = HS_OK};
    char body[4096], drip = 'x';
    if (!receive(sock, &f, sizeof f) || f.bytes > sizeof body || !receive(sock, body, f.bytes))
      return 0;
    if (!first && !strcmp(how, "endless")) answer.bytes = (u64)1 << 39;
    if (!first && !strcmp(how, "drip")) answer.bytes = 1 << 20;
    (void)!send(sock, &answer, sizeof answer, MSG_NOSIGNAL);
    if (answer.bytes)
      while (send(sock, &drip, 1, MSG_NOSIGNAL) == 1) usleep(10000);
  }
}

static worker *bad_worker_new(const char *how) {
  setenv("HLOSH_TEST_WORKER", how, 1);
  worker *w = worker_new(NULL);
  expect_good(worker_start(w), how);
  unsetenv("HLOSH_TEST_WORKER");
  return w;
}

// A reply that comes byte by byte, for ever, is over at the deadline.
static void slow_reply(void **st) {
  (void)st;
  worker *w = bad_worker_new("drip");
  u64 t0 = hs_now_ns();
  hs_status s = worker_call(w, "asking", WORKER_REQ_PING, NULL, 0, NULL, 0, 0.5, NULL, NULL);
  assert_int_equal(s.err->code, HS_E_DEADLINE);
  assert_true(hs_now_ns() - t0 < 5000000000u);
  hs_status_drop(s);
  worker_free(w);
}

static void reply_larger_than_memory(void **st) {
  (void)st;
  worker *w = bad_worker_new("endless");
  hs_status s = worker_call(w, "asking", WORKER_REQ_PING, NULL, 0, NULL, 0, 5, NULL, NULL);
  assert_int_equal(s.err->code, HS_E_WORKER);
  hs_status_drop(s);
  worker_free(w);
}

// Starts this program as a worker by hand; gives our end of its socket.
static pid_t start_by_hand(const char *how, int *sock) {
  int sv[2];
  assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sv), 0);
  setenv("HLOSH_TEST_WORKER", how, 1);
  pid_t pid = fork();
  if (pid == 0) {
    dup2(sv[1], WORKER_FD == sv[1] ? dup(sv[1]) : WORKER_FD);
    char arg0[] = "worker", arg1[] = "--worker", arg2[] = "3";
    char *args[] = {arg0, arg1, arg2, NULL};
    execv("/proc/self/exe", args);
    _exit(127);
  }
  unsetenv("HLOSH_TEST_WORKER");
  close(sv[1]);
  *sock = sv[0];
  return pid;
}

static void loop_for_ever(void) {
  for (;;) usleep(1000);
}

// The shell has closed the socket; a library's exit hangs. The worker ends all the same.
static void exit_that_hangs(void **st) {
  (void)st;
  int sock, status = 0;
  pid_t pid = start_by_hand("hanging exit", &sock), got = 0;
  close(sock);
  for (int k = 0; k < 1000 && got == 0; k++) {
    got = waitpid(pid, &status, WNOHANG);
    if (!got) usleep(10000);
  }
  if (!got) kill(pid, SIGKILL);
  assert_int_equal(got, pid);
  assert_true(WIFSIGNALED(status));
  assert_int_equal(WTERMSIG(status), SIGALRM);
}

// A confined worker, busy, does not outlive the shell that is killed.
static void dies_with_the_shell(void **st) {
  (void)st;
  prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
  int to[2], status = 0;
  assert_int_equal(pipe(to), 0);
  pid_t shell = fork(), pid = 0;
  if (shell == 0) {
    worker *w = worker_new(NULL);
    worker_confine(w, SANDBOX_AUTO, 0);
    hs_status s = worker_start(w);
    pid = worker_pid(w);
    (void)!write(to[1], &pid, sizeof pid);
    double seconds = 60;
    hs_status_drop(s);
    hs_status_drop(worker_call(w, "sleeping", WORKER_REQ_SLEEP, &seconds, sizeof seconds, NULL, 0,
                               60, NULL, NULL));
    _exit(1);
  }
  assert_int_equal(read(to[0], &pid, sizeof pid), sizeof pid);
  assert_true(pid > 0);
  usleep(200 * 1000);
  kill(shell, SIGKILL);
  waitpid(shell, NULL, 0);
  pid_t got = 0;
  for (int k = 0; k < 1000 && got == 0; k++) {
    got = waitpid(pid, &status, WNOHANG);
    if (!got) usleep(10000);
  }
  if (!got) kill(pid, SIGKILL);
  assert_int_equal(got, pid);
  assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
  close(to[0]);
  close(to[1]);
}

// A file in the library's place that needs what it may not read.
static void names_what_it_may_not_read(void **st) {
  (void)st;
  if (SANDBOX_SANITIZED) SKIP_TEST("a build with a sanitizer is not confined");
  ffi_unload_all();
  ffi_confine(SANDBOX_AUTO, 0);
  char *path = in_home("precious");
  write_file("precious");
  hs_status s = ffi_load(path, 0, NULL);
  assert_int_equal(s.err->code, HS_E_INPUT);
  assert_non_null(strstr(s.err->note, "in the sandbox"));
  hs_status_drop(s);
  hs_free(path);
}

int main(int argc, char **argv) {
  int status;
  const char *how = getenv("HLOSH_TEST_WORKER"), *build = getenv("HLOSH_BUILD");
  if (argc == 3 && how && !strcmp(how, "hanging exit")) atexit(loop_for_ever);
  else if (argc == 3 && how) return bad_worker(atoi(argv[2]), how);
  if (worker_entry(argc, argv, &status)) return status;
  if (!mkdtemp(home)) return 1;
  setenv("HOME", home, 1);
  char *ssh = in_home(".ssh");
  if (mkdir(ssh, 0700) != 0) return 1;
  hs_free(ssh);
  write_file(".ssh/id_test");
  library = hs_format("%s/tests/libhostile.so", build ? build : "build");
  ctx = hlo_ctx_new();
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(nothing_succeeds),
      cmocka_unit_test(everything_succeeds_without),
      cmocka_unit_test(confined_whatever_the_user_set),
      cmocka_unit_test(other_numbers_are_the_end),
      cmocka_unit_test(memory_is_limited),
      cmocka_unit_test(results_stay),
      cmocka_unit_test(crash_names_the_call),
      cmocka_unit_test(flood_is_stopped),
      cmocka_unit_test(deadline_names_the_kernel),
      cmocka_unit_test(slow_reply),
      cmocka_unit_test(reply_larger_than_memory),
      cmocka_unit_test(exit_that_hangs),
      cmocka_unit_test(dies_with_the_shell),
      cmocka_unit_test(names_what_it_may_not_read),
  };
  int bad = cmocka_run_group_tests(tests, NULL, NULL);
  ffi_unload_all();
  hlo_ctx_free(ctx);
  hs_free(library);
  char *clean = hs_format("rm -rf '%s'", home);
  if (system(clean) != 0) bad++;
  hs_free(clean);
  return bad;
}
