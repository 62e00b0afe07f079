// worker_loop.c — the worker's side: read a request, hand it to its handler
// (worker_requests.def), send the reply.
//
// The loop ends when the shell closes the socket; if the shell dies while a handler is busy, the
// kernel kills the worker (PR_SET_PDEATHSIG). On a fatal signal the worker prints what it was doing
// and dies of that same signal, so that the shell sees the real cause. SIGINT is ignored: the shell
// decides what Ctrl-C means.
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "backends/worker_wire.h"

#define WORKER_REQUEST(id, handler) worker_handler handler;
#include "backends/worker_requests.def"
#undef WORKER_REQUEST

static worker_handler *const handlers[] = {
#define WORKER_REQUEST(id, handler) handler,
#include "backends/worker_requests.def"
#undef WORKER_REQUEST
};

const char *volatile worker_doing;

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

static void on_fatal(int sig) {
  const char *what = worker_doing;
  if (what) {
    static const char head[] = "in ";
    (void)!write(2, head, sizeof head - 1);
    (void)!write(2, what, strlen(what));
    (void)!write(2, "\n", 1);
  }
  signal(sig, SIG_DFL);
  raise(sig);
}

static void set_signals(void) {
  static char stack[64 << 10];
  stack_t alt = {.ss_sp = stack, .ss_size = sizeof stack};
  sigaltstack(&alt, NULL);
  static const int fatal[] = {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT};
  for (size_t k = 0; k < HS_COUNT(fatal); k++) {
    struct sigaction a = {.sa_handler = on_fatal, .sa_flags = SA_ONSTACK | SA_NODEFER};
    sigaction(fatal[k], &a, NULL);
  }
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

int worker_main(int sock) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
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
    hs_status s = f.kind < HS_COUNT(handlers)
                      ? handlers[f.kind](body, f.bytes, fds, nfds, &reply)
                      : hs_fail(HS_E_INTERNAL, "the worker knows no request %u", f.kind);
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
  return true;
}
