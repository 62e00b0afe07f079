// worker.c — shell side of the worker process: start, talk, watch, reap.
//
// The worker is this same program exec'ed with `--worker FD`: a fresh process image, because OpenMP
// and LLVM do not survive a bare fork. Any other program that speaks the protocol may take its
// place (worker_new_of). It gets one end of a stream socket, a pipe for its stderr, and nothing
// else: every other descriptor is closed. It leads its own process group, so Ctrl-C reaches the
// shell alone, which then decides. The first request confines it, if it is to be (sandbox.h),
// before anything foreign runs in it.
//
// A call is one frame out and one frame back. While it is under way the shell polls four things:
// the socket, the worker's stderr (its last lines go into error notes), Ctrl-C with the deadline,
// and the state of the process: a worker stopped by a signal (SIGSTOP) for longer than STOPPED_MS
// counts as hung. When a call is given up, the worker is killed with SIGKILL (which works on
// stopped processes too) and reaped, so there are neither zombies nor late replies.
//
// The worker is not believed: whatever it sends, however much and however slowly, the call ends in
// a status, and no loop here waits for it to fall silent.
#include "backends/worker.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "backends/wire.h"
#include "backends/worker_wire.h"
#include "core/base/file.h"

enum {
  STOPPED_MS = 2000,
  HELLO_S = 20,
  POLL_MS = 50,
  TAIL = 4096,
  DRAINS = 64,    // reads of its stderr at a time: it may write faster than that is read
  ANSWER_MS = 50  // what it is doing, when its time is up
};
#define REPLY_STEP ((size_t)64 << 20)  // of memory, for a reply that is not here yet

struct worker {
  char *exe, *what;
  char **argv, **env, **fixed;  // NULL-terminated; env and fixed: as worker_program has them
  bool ours;                    // this program: it can be confined, and reports
  pid_t pid;
  int sock, errpipe;
  u64 generation;
  u64 stopped_since;  // ns; 0: not stopped
  int exit_status;    // of waitpid, once reaped
  char tail[TAIL];
  size_t ntail;  // last bytes of its stderr
  sandbox_mode sandbox;
  u64 memory;
  HS_VEC(char *) files;     // that it may read
  worker_shm report;        // a worker_report
  u32 seen[SANDBOX_CALLS];  // refusals that worker_refused has told
};

// ---- shared memory ------------------------------------------------------------------------------

hs_status worker_shm_new(size_t bytes, worker_shm *out) {
  *out = (worker_shm){.fd = -1};
  int fd = memfd_create("hlosh", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  if (fd < 0) return hs_fail_errno(HS_E_IO, "shared memory");
  size_t n = bytes ? bytes : 1;
  // sealed, so that a worker that shrinks it does not end the shell by SIGBUS
  if (ftruncate(fd, (off_t)n) != 0 || fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW) != 0) {
    hs_status s = hs_with_note(hs_fail_errno(HS_E_NO_MEMORY, "shared memory"), "%zu bytes", n);
    close(fd);
    return s;
  }
  void *p = mmap(NULL, n, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (p == MAP_FAILED) {
    hs_status s = hs_with_note(hs_fail_errno(HS_E_NO_MEMORY, "shared memory"), "%zu bytes", n);
    close(fd);
    return s;
  }
  *out = (worker_shm){.fd = fd, .p = p, .bytes = n};
  return HS_GOOD;
}

void worker_shm_free(worker_shm *m) {
  if (m->p) munmap(m->p, m->bytes);
  if (m->p && m->fd >= 0) close(m->fd);
  *m = (worker_shm){.fd = -1};
}

hs_status worker_shm_seal(worker_shm *m) {
#ifdef F_SEAL_FUTURE_WRITE
  if (fcntl(m->fd, F_ADD_SEALS, F_SEAL_FUTURE_WRITE) != 0 && errno != EINVAL)  // Linux 5.1
    return hs_fail_errno(HS_E_IO, "shared memory");
#endif
  return HS_GOOD;
}

// ---- life ---------------------------------------------------------------------------------------

static char **copy_list(const char *const *v) {
  size_t n = 0;
  while (v && v[n]) n++;
  char **copy = hs_calloc(n + 1, sizeof *copy);
  for (size_t k = 0; k < n; k++) copy[k] = hs_strdup(v[k]);
  return copy;
}

static void free_list(char **v) {
  for (size_t k = 0; v[k]; k++) hs_free(v[k]);
  hs_free(v);
}

worker *worker_new_of(const worker_program *p) {
  worker *w = hs_calloc(1, sizeof *w);
  w->exe = hs_strdup(p->exe);
  w->what = hs_strdup(p->what);
  w->argv = copy_list(p->argv);
  w->env = copy_list(p->env);
  w->fixed = copy_list(p->fixed);
  w->sock = w->errpipe = -1;
  w->sandbox = SANDBOX_OFF;
  w->report.fd = -1;
  return w;
}

void worker_confine(worker *w, sandbox_mode mode, u64 memory) {
  if (w->sandbox != mode || w->memory != memory) worker_kill(w);
  w->sandbox = mode;
  w->memory = memory;
}

bool worker_confined(const worker *w) { return w->sandbox != SANDBOX_OFF; }

void worker_may_read(worker *w, const char *path) {
  for (size_t k = 0; k < w->files.n; k++)
    if (strcmp(w->files.v[k], path) == 0) return;
  hs_vec_push(&w->files, hs_strdup(path));
  if (w->sandbox != SANDBOX_OFF) worker_kill(w);
}

// Names OpenBLAS's kernels: left to itself it takes its oldest ones for a processor that is newer
// than it.
static const char *blas_kernels(void) {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
      __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl") &&
      __builtin_cpu_supports("avx512cd"))
    return "OPENBLAS_CORETYPE=SkylakeX";
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
    return "OPENBLAS_CORETYPE=Haswell";
#endif
  return NULL;
}

worker *worker_new(const char *exe) {
  // The thread pools' settings must be in the environment before the libraries load. OpenMP's
  // threads (oneDNN) spin for some 0.1 ms and then sleep: its barriers do not yield the core, and
  // where another process runs, each would wait for a time slice. BLAS stays on the calling
  // thread, whatever the user has set for other programs: threads that a library starts when it is
  // loaded would be there before the sandbox is, and the worker would not be confined.
  const char *const env[] = {"GOMP_SPINCOUNT=2000", "OMP_DYNAMIC=FALSE", blas_kernels(), NULL};
  static const char *const fixed[] = {"OPENBLAS_NUM_THREADS=1", NULL};
  static const char *const argv[] = {"hlosh", "--worker", WORKER_FD_TEXT, NULL};
  worker *w = worker_new_of(&(worker_program){.exe = exe ? exe : "/proc/self/exe",
                                              .what = "the worker",
                                              .argv = argv,
                                              .env = env,
                                              .fixed = fixed});
  w->ours = true;
  return w;
}

pid_t worker_pid(const worker *w) { return w->pid; }
u64 worker_generation(const worker *w) { return w->generation; }

i64 worker_resident(const worker *w) {
  char path[64], line[256];
  long kb = -1;
  if (!w->pid) return -1;
  (void)snprintf(path, sizeof path, "/proc/%ld/status", (long)w->pid);
  FILE *f = fopen(path, "r");
  while (f && fgets(line, sizeof line, f))
    if (sscanf(line, "RssAnon: %ld", &kb) == 1) break;
  if (f) fclose(f);
  return kb < 0 ? -1 : (i64)kb * 1024;
}

double worker_cpu_s(const worker *w) {
  clockid_t clock;
  struct timespec t = {0};
  if (w->pid > 0 && clock_getcpuclockid(w->pid, &clock) == 0) (void)clock_gettime(clock, &t);
  return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

// Keeps the last TAIL bytes of what the worker writes to stderr.
static void drain_stderr(worker *w) {
  char buf[1024];
  ssize_t n;
  for (int times = 0;
       times < DRAINS && w->errpipe >= 0 && (n = read(w->errpipe, buf, sizeof buf)) > 0; times++) {
    size_t k = (size_t)n;
    if (w->ntail + k > TAIL) {
      size_t drop = HS_MIN(w->ntail, w->ntail + k - TAIL);
      memmove(w->tail, w->tail + drop, w->ntail - drop);
      w->ntail -= drop;
    }
    memcpy(w->tail + w->ntail, buf, k);
    w->ntail += k;
  }
}

void worker_kill(worker *w) {
  if (w->pid > 0) {
    kill(-w->pid, SIGKILL);  // and what it has started, if it could
    kill(w->pid, SIGKILL);
    while (waitpid(w->pid, &w->exit_status, 0) < 0 && errno == EINTR) {}
    drain_stderr(w);
  }
  if (w->sock >= 0) close(w->sock);
  if (w->errpipe >= 0) close(w->errpipe);
  w->sock = w->errpipe = -1;
  w->pid = 0;
  w->stopped_since = 0;
}

void worker_free(worker *w) {
  if (!w) return;
  worker_kill(w);
  worker_shm_free(&w->report);
  for (size_t k = 0; k < w->files.n; k++) hs_free(w->files.v[k]);
  hs_vec_free(&w->files);
  free_list(w->argv);
  free_list(w->env);
  free_list(w->fixed);
  hs_free(w->exe);
  hs_free(w->what);
  hs_free(w);
}

// Has the list a variable of this one's name?
static bool has_name(char *const *list, const char *variable) {
  size_t key = strcspn(variable, "=");
  for (size_t k = 0; list[k]; k++)
    if (strncmp(list[k], variable, key + 1) == 0) return true;
  return false;
}

// The shell's environment with what the program wants; a variable that the user has set stays,
// unless it is one of `fixed`. The entries belong to environ and to w.
static char **make_env(const worker *w) {
  HS_VEC(char *) env = {0};
  for (size_t k = 0; environ[k]; k++)
    if (!has_name(w->fixed, environ[k])) hs_vec_push(&env, environ[k]);
  for (size_t k = 0; w->env[k]; k++)
    if (!has_name(environ, w->env[k])) hs_vec_push(&env, w->env[k]);
  for (size_t k = 0; w->fixed[k]; k++) hs_vec_push(&env, w->fixed[k]);
  hs_vec_push(&env, NULL);
  return env.v;
}

// Descriptors in the child: 0 /dev/null, 1 and 2 the stderr pipe, 3 the socket, everything above
// closed.
static hs_status spawn(worker *w, int child_sock, int child_err) {
  posix_spawn_file_actions_t fa;
  posix_spawnattr_t at;
  posix_spawn_file_actions_init(&fa);
  posix_spawnattr_init(&at);
  posix_spawn_file_actions_addopen(&fa, 0, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_adddup2(&fa, child_err, 1);
  posix_spawn_file_actions_adddup2(&fa, child_err, 2);
  posix_spawn_file_actions_adddup2(&fa, child_sock, WORKER_FD);
  posix_spawn_file_actions_addclosefrom_np(&fa, WORKER_FD + 1);
  sigset_t none, dfl;
  sigemptyset(&none);
  sigemptyset(&dfl);
  sigaddset(&dfl, SIGINT);
  sigaddset(&dfl, SIGPIPE);
  sigaddset(&dfl, SIGTERM);
  posix_spawnattr_setsigmask(&at, &none);
  posix_spawnattr_setsigdefault(&at, &dfl);
  posix_spawnattr_setpgroup(&at, 0);
  posix_spawnattr_setflags(&at,
                           POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETPGROUP);
  char **env = make_env(w);
  pid_t pid;
  int e = posix_spawn(&pid, w->exe, &fa, &at, w->argv, env);
  hs_free(env);
  posix_spawn_file_actions_destroy(&fa);
  posix_spawnattr_destroy(&at);
  if (e)
    return hs_fail(HS_E_WORKER, "%s could not be started: %s: %s", w->what, w->exe, strerror(e));
  w->pid = pid;
  w->generation++;
  w->ntail = 0;
  w->exit_status = 0;
  return HS_GOOD;
}

// A descriptor below 5 would be overwritten by the dup2 calls of the child; move it out of the way.
static int above_4(int fd) {
  if (fd < 0 || fd > 4) return fd;
  int up = fcntl(fd, F_DUPFD_CLOEXEC, 5);
  close(fd);
  return up;
}

// A new report, and the request that hands it over and says how to confine the worker.
static hs_status enter(worker *w) {
  worker_shm_free(&w->report);
  memset(w->seen, 0, sizeof w->seen);
  HS_TRY(worker_shm_new(sizeof(worker_report), &w->report));
  hs_buf b = {0};
  wire_put_u32(&b, w->sandbox != SANDBOX_OFF);
  wire_put_i64(&b, (i64)w->memory);
  wire_put_u32(&b, (u32)w->files.n);
  for (size_t k = 0; k < w->files.n; k++) wire_put_str(&b, w->files.v[k]);
  hs_status s =
      worker_call(w, "starting", WORKER_REQ_ENTER, b.p, b.n, &w->report.fd, 1, HELLO_S, NULL, NULL);
  hs_buf_free(&b);
  if (!hs_ok(s)) worker_kill(w);
  return s;
}

// `set sandbox on` insists.
static hs_status check_sandbox(const worker *w) {
  hs_buf why = {0};
  hs_status s = HS_GOOD;
  if (w->sandbox == SANDBOX_ON && sandbox_lacks(&why))
    s = hs_with_note(hs_fail(HS_E_UNSUPPORTED, "no sandbox here: %s", hs_buf_cstr(&why)),
                     "set sandbox auto does without");
  hs_buf_free(&why);
  return s;
}

hs_status worker_start(worker *w) {
  if (w->pid > 0) return HS_GOOD;
  HS_TRY(check_sandbox(w));
  int sv[2], pp[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sv) != 0)
    return hs_fail_errno(HS_E_WORKER, "socketpair");
  if (pipe2(pp, O_CLOEXEC) != 0) {
    hs_status s = hs_fail_errno(HS_E_WORKER, "pipe");
    close(sv[0]);
    close(sv[1]);
    return s;
  }
  sv[1] = above_4(sv[1]);
  pp[1] = above_4(pp[1]);
  w->sock = sv[0];
  w->errpipe = pp[0];
  fcntl(w->sock, F_SETFL, O_NONBLOCK);
  fcntl(w->errpipe, F_SETFL, O_NONBLOCK);
  hs_status s = spawn(w, sv[1], pp[1]);
  close(sv[1]);
  close(pp[1]);
  if (!hs_ok(s)) {
    worker_kill(w);
    return s;
  }
  if (w->ours) return enter(w);
  return worker_call(w, "starting", WORKER_REQ_PING, NULL, 0, NULL, 0, HELLO_S, NULL, NULL);
}

// ---- a call -------------------------------------------------------------------------------------

typedef struct call {
  worker *w;
  const char *step;
  u64 deadline_ns;  // absolute; 0: none
  double deadline_s;
} call;

bool worker_refused(worker *w, hs_buf *b) {
  const worker_report *r = w->report.p;
  u32 fresh[SANDBOX_CALLS];
  for (u32 k = 0; k < SANDBOX_CALLS; k++) {
    u32 n = r ? atomic_load(&r->refused[k]) : 0;
    fresh[k] = n - w->seen[k];
    w->seen[k] = n;
  }
  return sandbox_refused(fresh, b);
}

// What the worker was doing at its end, as it said.
static hs_status with_last_words(worker *w, hs_status s) {
  const worker_report *r = w->report.p;
  if (!r || !atomic_load(&r->told)) return s;
  char doing[sizeof r->doing];
  memcpy(doing, r->doing, sizeof doing);
  return hs_with_note(s, "in %.*s", (int)strnlen(doing, sizeof doing), doing);
}

// What it was doing, what the sandbox refused, and the last lines of its stderr, as notes.
static hs_status with_tail(worker *w, hs_status s) {
  s = with_last_words(w, s);
  hs_buf refused = {0};
  if (worker_refused(w, &refused))
    s = hs_with_note(s, "the sandbox refused it: %s", hs_buf_cstr(&refused));
  hs_buf_free(&refused);
  size_t n = w->ntail;
  while (n && (w->tail[n - 1] == '\n' || w->tail[n - 1] == ' ')) n--;
  if (!n) return s;
  size_t from = n, lines = 0;
  while (from > 0 && lines < 6)
    if (w->tail[--from] == '\n') lines++;
  if (lines == 6) from++;
  return hs_with_note(s, "it last wrote: %.*s", (int)(n - from), w->tail + from);
}

// The socket is closed: the process has ended or is about to. Says how.
static hs_status died(call *c) {
  worker *w = c->w;
  int st = 0;
  pid_t r = 0;
  for (int k = 0; k < 100 && r == 0; k++) {
    r = waitpid(w->pid, &st, WNOHANG);
    if (r == 0) poll(NULL, 0, 10);
  }
  if (r == w->pid) {
    drain_stderr(w);
    w->pid = 0;
  }
  worker_kill(w);
  if (r != 0 && WIFSIGNALED(st)) {
    const char *name = sigabbrev_np(WTERMSIG(st));
    return with_tail(w, hs_fail(HS_E_WORKER, "%s died of SIG%s (%s) while %s", w->what,
                                name ? name : "?", strsignal(WTERMSIG(st)), c->step));
  }
  if (r != 0 && WIFEXITED(st))
    return with_tail(w, hs_fail(HS_E_WORKER, "%s ended with status %d while %s", w->what,
                                WEXITSTATUS(st), c->step));
  return with_tail(w, hs_fail(HS_E_WORKER, "%s closed its connection while %s and was killed",
                              w->what, c->step));
}

// Notices a stopped worker; a stop shorter than STOPPED_MS is forgiven.
static bool stopped_too_long(worker *w) {
  siginfo_t si = {0};
  if (waitid(P_PID, (id_t)w->pid, &si, WSTOPPED | WCONTINUED | WNOHANG) == 0 && si.si_pid == w->pid)
    w->stopped_since = si.si_code == CLD_STOPPED ? hs_now_ns() : 0;
  return w->stopped_since && hs_now_ns() - w->stopped_since > (u64)STOPPED_MS * 1000000u;
}

// Its time is up: asks it what it is doing, and ends it.
static void ask_and_kill(worker *w) {
  const worker_report *r = w->report.p;
  if (r && kill(w->pid, SIGUSR1) == 0)
    for (int ms = 0; ms < ANSWER_MS && !atomic_load(&r->told); ms++) poll(NULL, 0, 1);
  worker_kill(w);
}

// Waits until the socket is ready for `events`; every reason to give up ends the worker.
static hs_status await(call *c, short events) {
  worker *w = c->w;
  for (;;) {
    struct pollfd p[2] = {{.fd = w->sock, .events = events}, {.fd = w->errpipe, .events = POLLIN}};
    int n = poll(p, 2, POLL_MS);
    if (hs_interrupted()) {
      hs_status why = hs_stopped();
      worker_kill(w);
      hs_status s =
          hs_fail(why.err->code, "%s while %s; %s was ended", why.err->message, c->step, w->what);
      hs_status_drop(why);
      return s;
    }
    if (n > 0 && p[1].revents) {
      drain_stderr(w);
      // the pipe is closed: the socket is next
      if (!(p[1].revents & POLLIN) && !p[0].revents) poll(NULL, 0, 1);
    }
    if (c->deadline_ns && hs_now_ns() > c->deadline_ns) {
      ask_and_kill(w);
      return with_tail(w, hs_fail(HS_E_DEADLINE, "deadline of %g s passed while %s; %s was ended",
                                  c->deadline_s, c->step, w->what));
    }
    if (n > 0 && p[0].revents) return HS_GOOD;
    if (stopped_too_long(w)) {
      worker_kill(w);
      return with_tail(w, hs_fail(HS_E_DEADLINE,
                                  "%s was stopped by a signal for over %g s while %s; it was ended",
                                  w->what, STOPPED_MS / 1e3, c->step));
    }
  }
}

static hs_status send_all(call *c, const void *p, size_t n, const int *fds, u32 nfds) {
  const char *at = p;
  while (n) {
    struct iovec io = {.iov_base = (void *)(uintptr_t)at, .iov_len = n};
    union {
      char b[CMSG_SPACE(sizeof(int) * WORKER_MAX_FDS)];
      struct cmsghdr align;
    } ctl;
    struct msghdr msg = {.msg_iov = &io, .msg_iovlen = 1};
    if (nfds) {
      memset(&ctl, 0, sizeof ctl);
      msg.msg_control = ctl.b;
      msg.msg_controllen = CMSG_SPACE(sizeof(int) * nfds);
      struct cmsghdr *h = CMSG_FIRSTHDR(&msg);
      h->cmsg_level = SOL_SOCKET;
      h->cmsg_type = SCM_RIGHTS;
      h->cmsg_len = CMSG_LEN(sizeof(int) * nfds);
      memcpy(CMSG_DATA(h), fds, sizeof(int) * nfds);
    }
    ssize_t k = sendmsg(c->w->sock, &msg, MSG_NOSIGNAL);
    if (k > 0) {
      at += k;
      n -= (size_t)k;
      nfds = 0;
      continue;
    }
    if (k < 0 && errno == EINTR) {
      HS_TRY(await(c, POLLOUT));
      continue;
    }
    if (k < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) {
      HS_TRY(await(c, POLLOUT));
      continue;
    }
    return died(c);
  }
  return HS_GOOD;
}

static hs_status receive_all(call *c, void *p, size_t n) {
  char *at = p;
  while (n) {
    HS_TRY(await(c, POLLIN));
    ssize_t k = recv(c->w->sock, at, n, 0);
    if (k > 0) {
      at += k;
      n -= (size_t)k;
      continue;
    }
    if (k < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR)) continue;
    return died(c);
  }
  return HS_GOOD;
}

// A body of n bytes and a NUL; memory is taken as the bytes come, not as the length says. NULL when
// there is none left.
static hs_status receive_body(call *c, size_t n, char **out) {
  hs_status s = HS_GOOD;
  char *body = NULL;
  for (size_t have = 0; hs_ok(s);) {
    size_t more = HS_MIN(n - have, REPLY_STEP);
    char *p = hs_try_realloc(body, have + more + 1);
    if (!p) {
      hs_free(body);
      *out = NULL;
      return s;
    }
    body = p;
    s = receive_all(c, body + have, more);
    have += more;
    body[have] = 0;
    if (have == n) break;
  }
  *out = body;
  return s;
}

// The worker's own status, made a status here again.
static hs_status remote_status(const worker_frame *f, const char *body) {
  if (f->kind == HS_OK) return HS_GOOD;
  hs_code code = f->kind < HS_CODE_COUNT ? (hs_code)f->kind : HS_E_INTERNAL;
  hs_str msg = {body, f->text[0]}, note = {body + f->text[0], f->text[1]},
         subject = {note.p + note.n, f->text[2]};
  char *subj = subject.n ? hs_format("%.*s", (int)subject.n, subject.p) : NULL;
  hs_status s = subj ? hs_fail_subject(code, subj, "%.*s", (int)msg.n, msg.p)
                     : hs_fail(code, "%.*s", (int)msg.n, msg.p);
  hs_free(subj);
  return note.n ? hs_with_note(s, "%.*s", (int)note.n, note.p) : s;
}

hs_status worker_call(worker *w, const char *step, u32 kind, const void *payload, size_t n,
                      const int *fds, u32 nfds, double deadline_s, void **reply, size_t *reply_n) {
  if (reply) *reply = NULL;
  if (reply_n) *reply_n = 0;
  if (nfds > WORKER_MAX_FDS) return hs_fail(HS_E_INTERNAL, "%u descriptors in one request", nfds);
  if (w->pid <= 0) HS_TRY(worker_start(w));
  call c = {.w = w,
            .step = step,
            .deadline_s = deadline_s,
            .deadline_ns = deadline_s > 0 ? hs_now_ns() + (u64)(deadline_s * 1e9) : 0};
  worker_frame f = {.magic = WORKER_MAGIC, .kind = kind, .nfds = nfds, .bytes = n};
  HS_TRY(send_all(&c, &f, sizeof f, fds, nfds));
  HS_TRY(send_all(&c, payload, n, NULL, 0));
  HS_TRY(receive_all(&c, &f, sizeof f));
  size_t texts = (size_t)f.text[0] + f.text[1] + f.text[2];
  bool sound = f.magic == WORKER_MAGIC && f.bytes <= hs_load_limit_default() && texts <= f.bytes &&
               texts <= INT32_MAX;  // they are printed with %.*s
  char *body = NULL;
  hs_status s = sound ? receive_body(&c, f.bytes, &body) : HS_GOOD;
  if (!body) {
    worker_kill(w);
    hs_status_drop(s);
    return hs_fail(HS_E_WORKER, "%s sent a bad reply while %s and was ended", w->what, step);
  }
  if (hs_ok(s)) s = remote_status(&f, body);
  drain_stderr(w);
  if (hs_ok(s) && reply) {
    memmove(body, body + texts, f.bytes - texts);
    body[f.bytes - texts] = 0;
    *reply = body;
    if (reply_n) *reply_n = f.bytes - texts;
  } else hs_free(body);
  return s;
}
