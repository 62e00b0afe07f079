// worker_loop.c — the worker's side: read a request, hand it to its handler
// (worker_requests.def), send the reply.
//
// The loop ends when the shell closes the socket; if the shell dies while a handler is busy, the
// kernel kills the worker (PR_SET_PDEATHSIG). On a fatal signal the worker prints what it was doing
// and dies of that same signal, so that the shell sees the real cause. SIGINT is ignored: the shell
// decides what Ctrl-C means.
//
// The report is memory shared with the shell (worker_wire.h): the handlers of signals write there
// what the worker was doing, with nothing but stores.
#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "backends/serve.h"
#include "backends/wire.h"
#include "backends/worker_wire.h"

#define WORKER_REQUEST(id, handler) worker_handler handler;
#include "backends/worker_requests.def"
#undef WORKER_REQUEST

static worker_handler *const handlers[] = {
#define WORKER_REQUEST(id, handler) handler,
#include "backends/worker_requests.def"
#undef WORKER_REQUEST
};

enum { EXIT_S = 3, SIGNAL_STACK = 64 << 10 };

const char *volatile worker_doing;
_Thread_local const char *volatile worker_doing_here;
static worker_report *report;  // NULL before the request ENTER

hs_status worker_serve_ping(const void *payload, size_t n, const int *fds, u32 nfds,
                            hs_buf *reply) {
  (void)fds;
  (void)nfds;
  if (n) hs_buf_put(reply, payload, n);
  return HS_GOOD;
}

// Busy for the given seconds (a double): the tests kill, stop and interrupt the worker meanwhile.
hs_status worker_serve_sleep(const void *payload, size_t n, const int *fds, u32 nfds,
                             hs_buf *reply) {
  (void)fds;
  (void)nfds;
  (void)reply;
  double s = 0;
  if (n == sizeof s) memcpy(&s, payload, n);
  worker_doing = "sleeping";
  struct timespec t = {(time_t)s, (long)((s - (double)(time_t)s) * 1e9)};
  while (nanosleep(&t, &t) != 0 && errno == EINTR) {}
  worker_doing = NULL;
  return HS_GOOD;
}

// The first request to every worker: u32 whether to confine it, i64 bytes of memory, u32 number of
// files to read, their paths; the report as descriptor. From here on nothing that the shell did not
// name can be reached.
hs_status worker_serve_enter(const void *payload, size_t n, const int *fds, u32 nfds,
                             hs_buf *reply) {
  (void)reply;
  wire_reader r = {payload, n, false};
  bool confine = wire_get_u32(&r);
  sandbox_policy p = {0};
  p.memory = (u64)wire_get_i64(&r);
  p.nfiles = wire_get_u32(&r);
  if (r.bad || nfds != 1 || p.nfiles > n / sizeof(i64))
    return hs_fail(HS_E_INTERNAL, "bad request to enter the sandbox");
  serve_map m = {0};
  if (!report) HS_TRY(serve_map_fd(fds[0], true, &m));
  if (m.n >= sizeof *report) report = (void *)m.p;
  char **files = hs_calloc(p.nfiles + 1, sizeof *files);
  for (u32 k = 0; k < p.nfiles; k++) {
    hs_str path = wire_get_str(&r);
    files[k] = hs_format("%.*s", (int)path.n, path.p);
  }
  p.files = (const char *const *)files;
  hs_status s = HS_GOOD;
  if (confine) s = sandbox_enter(&p, report ? &report->refused : NULL);
  for (u32 k = 0; k < p.nfiles; k++) hs_free(files[k]);
  hs_free(files);
  return s;
}

// ---- last words ---------------------------------------------------------------------------------
// What comes first stays: a handler of LLVM's errors names them, and then ends by a signal.
void worker_last_words(const char *what, const char *why) {
  static atomic_flag taken = ATOMIC_FLAG_INIT;
  if (!report || !what || atomic_flag_test_and_set(&taken)) return;
  size_t at = 0;
  const char *parts[] = {what, why ? ": " : "", why ? why : ""};
  for (size_t k = 0; k < HS_COUNT(parts); k++)
    for (const char *p = parts[k]; *p && at < sizeof report->doing - 1;) report->doing[at++] = *p++;
  report->doing[at] = 0;
  atomic_store(&report->told, 1);
}

static void tell(void) {
  const char *here = worker_doing_here;
  worker_last_words(here ? here : worker_doing, NULL);
}

static void on_asked(int sig) {  // its time is up
  (void)sig;
  tell();
}

static void on_fatal(int sig) {
  tell();
  signal(sig, SIG_DFL);
  raise(sig);
}

void *worker_thread_begin(void) {
  stack_t alt = {.ss_sp = hs_alloc(SIGNAL_STACK), .ss_size = SIGNAL_STACK};
  sigaltstack(&alt, NULL);
  return alt.ss_sp;
}

void worker_thread_end(void *stack) {
  stack_t none = {.ss_flags = SS_DISABLE};
  sigaltstack(&none, NULL);
  hs_free(stack);
}

static void set_signals(void) {
  static char stack[SIGNAL_STACK];
  stack_t alt = {.ss_sp = stack, .ss_size = sizeof stack};
  sigaltstack(&alt, NULL);
  static const int fatal[] = {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT};
  for (size_t k = 0; k < HS_COUNT(fatal); k++) {
    struct sigaction a = {.sa_handler = on_fatal, .sa_flags = SA_ONSTACK | SA_NODEFER};
    sigaction(fatal[k], &a, NULL);
  }
  struct sigaction asked = {.sa_handler = on_asked, .sa_flags = SA_ONSTACK | SA_RESTART};
  sigaction(SIGUSR1, &asked, NULL);
  signal(SIGINT, SIG_IGN);
  signal(SIGPIPE, SIG_IGN);
}

static bool read_all(int sock, void *p, size_t n) {
  char *at = p;
  while (n) {
    ssize_t k = recv(sock, at, n, 0);
    if (k < 0 && errno == EINTR) continue;
    if (k <= 0) return false;
    at += k;
    n -= (size_t)k;
  }
  return true;
}

static bool write_all(int sock, const void *p, size_t n) {
  const char *at = p;
  while (n) {
    ssize_t k = send(sock, at, n, MSG_NOSIGNAL);
    if (k < 0 && errno == EINTR) continue;
    if (k <= 0) return false;
    at += k;
    n -= (size_t)k;
  }
  return true;
}

// The header, with the descriptors that came along.
static bool read_frame(int sock, worker_frame *f, int *fds, u32 *nfds) {
  union {
    char b[CMSG_SPACE(sizeof(int) * WORKER_MAX_FDS)];
    struct cmsghdr align;
  } ctl;
  struct iovec io = {.iov_base = f, .iov_len = sizeof *f};
  struct msghdr msg = {
      .msg_iov = &io, .msg_iovlen = 1, .msg_control = ctl.b, .msg_controllen = sizeof ctl};
  ssize_t k;
  do k = recvmsg(sock, &msg, MSG_CMSG_CLOEXEC);
  while (k < 0 && errno == EINTR);
  *nfds = 0;
  if (k <= 0) return false;
  for (struct cmsghdr *h = CMSG_FIRSTHDR(&msg); h; h = CMSG_NXTHDR(&msg, h)) {
    if (h->cmsg_level != SOL_SOCKET || h->cmsg_type != SCM_RIGHTS) continue;
    *nfds = (u32)((h->cmsg_len - CMSG_LEN(0)) / sizeof(int));
    memcpy(fds, CMSG_DATA(h), *nfds * sizeof(int));
  }
  return (size_t)k == sizeof *f || read_all(sock, (char *)f + k, sizeof *f - (size_t)k);
}

static bool send_reply(int sock, hs_status s, const hs_buf *reply) {
  worker_frame f = {.magic = WORKER_MAGIC, .kind = hs_ok(s) ? HS_OK : s.err->code};
  const char *t[3] = {0};
  if (!hs_ok(s)) {
    t[0] = s.err->message;
    t[1] = s.err->note;
    t[2] = s.err->subject;
  }
  for (int k = 0; k < 3; k++) f.text[k] = t[k] ? (u32)strlen(t[k]) : 0;
  f.bytes = (u64)f.text[0] + f.text[1] + f.text[2] + (hs_ok(s) ? reply->n : 0);
  bool ok = write_all(sock, &f, sizeof f);
  for (int k = 0; k < 3 && ok; k++)
    if (f.text[k]) ok = write_all(sock, t[k], f.text[k]);
  return hs_ok(s) && reply->n && ok ? write_all(sock, reply->p, reply->n) : ok;
}

// Beside other processes a core goes around in turns of some milliseconds, and a loop of kernels
// waits for one where a thread of the pool lost its core. Linux since 6.12 lets a thread ask for
// shorter turns (sched_attr's runtime): its share stays the same, it waits less for each. Threads
// inherit this. Older kernels take no notice, and where it is refused all is as it was.
static void ask_for_short_turns(void) {
  enum { TURN_NS = 100000 };  // the shortest that the kernel grants
  struct {
    u32 size, policy;
    u64 flags;
    i32 nice;
    u32 priority;
    u64 runtime, deadline, period;
  } a = {0};
  if (syscall(SYS_sched_getattr, 0, &a, sizeof a, 0) != 0 || a.policy != SCHED_OTHER) return;
  a.runtime = TURN_NS;
  (void)syscall(SYS_sched_setattr, 0, &a, 0);
}

int worker_main(int sock) {
  static hs_interrupt stop;  // only a lack of memory sets it
  enum { RESERVE = 64 << 20 };
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  sandbox_limit();
  ask_for_short_turns();
  hs_interrupt_watch(&stop);
  hs_memory_limit(hs_memory_machine());
  set_signals();
  setvbuf(stderr, NULL, _IOLBF, 0);
  for (;;) {
    worker_frame f;
    int fds[WORKER_MAX_FDS];
    u32 nfds;
    if (!read_frame(sock, &f, fds, &nfds)) return 0;
    char *body = f.magic == WORKER_MAGIC ? hs_try_alloc(f.bytes + 1) : NULL;
    if (!body || !read_all(sock, body, f.bytes)) return 1;
    hs_buf reply = {0};
    stop = HS_STOP_NONE;
    hs_memory_ready(RESERVE);
    hs_status s = f.kind < HS_COUNT(handlers)
                      ? handlers[f.kind](body, f.bytes, fds, nfds, &reply)
                      : hs_fail(HS_E_INTERNAL, "the worker knows no request %u", f.kind);
    if (hs_ok(s)) s = hs_poll();
    bool sent = send_reply(sock, s, &reply);
    hs_status_drop(s);
    for (u32 k = 0; k < nfds; k++) close(fds[k]);
    hs_buf_free(&reply);
    hs_free(body);
    worker_doing = NULL;
    if (!sent) return 0;
  }
}

bool worker_entry(int argc, char **argv, int *status) {
  if (argc != 3 || strcmp(argv[1], "--worker") != 0) return false;
  *status = worker_main(atoi(argv[2]));
  // libraries that wait for their threads, at exit, may wait for ever
  signal(SIGALRM, SIG_DFL);
  (void)alarm(EXIT_S);
  return true;
}
