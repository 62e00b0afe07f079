// shrink_first.c: the first of a sequence of candidates that has the fault, with those behind it
// judged ahead. See shrink.h.
//
// One candidate is judged in this process. While a verdict takes longer than starting a process
// does, the ones behind it are judged at the same time in forked children: a child has the memory
// of the session as it was, and processes of its own for what runs foreign code. Verdicts are taken
// in the order of the candidates, and those behind one that has the fault are thrown away, so that
// what is found does not depend on how many are judged at a time. What a child writes to standard
// error is shown when its verdict is taken. A candidate on which a child dies does not count; one
// that a child has no verdict on, for lack of memory say, is judged in this process.
//
// A child leads a process group, which a user's script belongs to. One that is no longer needed
// gets SIGTERM, on which it ends its workers, and SIGKILL when that does not help.
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "backends/ffi.h"
#include "backends/pjrt/pjrt.h"
#include "core/verify/verify.h"
#include "repl/debug/cut.h"
#include "repl/shell/settings.h"
#include "repl/shrink/shrink.h"

enum { MOST_JOBS = 256, GRACE_MS = 1000, POLL_MS = 100 };
// Seconds until a child can judge: as forked, with a worker, with a plug-in or a Python in it.
static const double FORK_S = 0.01, WORKER_S = 0.05, XLA_S = 0.3;

typedef struct trial {
  shrink_candidate c;
  shrink_place behind;  // where its sequence stands behind it
  pid_t child;          // 0: it is judged here
  int verdict, said;    // pipe to read it from; file with what the child wrote to standard error
} trial;

static void candidate_free(shrink_candidate *c) {
  shrink_case_free(&c->x);
  shrink_pipeline_free(&c->passes);
}

// ---- one candidate ------------------------------------------------------------------------------
static hs_status go_on(shrink_search *s) {
  s->out_of_time = s->end && hs_now_ns() > s->end;
  return s->out_of_time ? hs_fail(HS_E_DEADLINE, "shrink: out of time") : hs_poll();
}

// Makes a candidate ready to be judged; false when it does not count.
static bool prepare(const shrink_search *s, shrink_candidate *c) {
  if (!c->x.m) return true;
  cut_clean(c->x.m);
  hs_status st = s->valid ? hlo_verify(c->x.m, NULL) : HS_GOOD;
  if (hs_ok(st) && !c->x.args && shrink_is_run(s)) st = shrink_find_arguments(s, &c->x);
  bool usable = hs_ok(st);
  hs_status_drop(st);
  return usable;
}

static hs_status judge(shrink_search *s, const shrink_candidate *c, char **why) {
  shrink_pipeline before = s->passes;
  bool passes = c->passes.program != NULL;
  u64 begun = hs_now_ns();
  if (passes) s->passes = c->passes, s->pipeline = c->passes.text;
  hs_status st = shrink_judge(s, c->x.m ? &c->x : &s->best, why);
  if (passes) s->passes = before, s->pipeline = before.text;
  s->usual_s = (double)(hs_now_ns() - begun) * 1e-9;
  return st;
}

// Takes the candidate and its fault.
static void keep(shrink_search *s, shrink_candidate *c, char *why) {
  s->kept++;
  hs_free(s->fault);
  s->fault = why;
  shrink_hold_slowdown(s);
  if (c->x.m) {
    shrink_case_free(&s->best);
    s->best = c->x;
    s->narrowed = false;
  }
  if (c->passes.program) {
    shrink_pipeline_free(&s->passes);
    s->passes = c->passes;
    s->pipeline = s->passes.text;
  }
}

// ---- children -----------------------------------------------------------------------------------
static void on_term(int sig) {
  (void)sig;
  repl_interrupt = HS_STOP_INTERRUPT;
}

static void write_all(int fd, const char *p, size_t n) {
  while (n) {
    ssize_t k = write(fd, p, n);
    if (k < 0 && errno != EINTR) return;
    if (k > 0) p += k, n -= (size_t)k;
  }
}

// The child: the seconds it took, whether the fault is there, and which it is.
static _Noreturn void be_child(shrink_search *s, const trial *t, pid_t parent, int verdict) {
  setpgid(0, 0);
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(1);
  struct sigaction sa = {.sa_handler = on_term};
  sigemptyset(&sa.sa_mask);
  sigaction(SIGTERM, &sa, NULL);
  int nothing = open("/dev/null", O_RDONLY);
  if (nothing < 0 || dup2(nothing, STDIN_FILENO) < 0 || dup2(t->said, STDERR_FILENO) < 0) _exit(1);
  repl_session *session = s->t.c->s;
  ffi_leave_worker();
  session->backends = backend_context_new();
  backend_context_confine(session->backends, session->set.sandbox, session->set.memory_limit);
  repl_apply_cache(session);
  char *why = NULL;
  hs_status st = judge(s, &t->c, &why);
  bool judged = hs_ok(st);
  hs_status_drop(st);
  hs_buf b = {0};
  hs_buf_put(&b, (const char *)&s->usual_s, sizeof s->usual_s);
  hs_buf_putc(&b, why ? '!' : '.');
  hs_buf_put(&b, why ? why : "", why ? strlen(why) + 1 : 1);
  if (judged) write_all(verdict, b.p, b.n);
  close(verdict);
  backend_context_free(session->backends);  // ends its workers
  _exit(0);
}

// Has a child judge the candidate; where none can be started, it is judged here.
static void send_ahead(shrink_search *s, trial *t) {
  int ends[2];
  t->said = memfd_create("shrink", MFD_CLOEXEC);
  if (t->said < 0) return;
  if (pipe2(ends, O_CLOEXEC) != 0) {
    close(t->said);
    return;
  }
  fflush(NULL);
  pid_t parent = getpid(), child = fork();
  if (child == 0) be_child(s, t, parent, ends[1]);
  close(ends[1]);
  if (child > 0) {
    setpgid(child, child);  // whoever of the two comes first
    t->child = child;
    t->verdict = ends[0];
    return;
  }
  close(ends[0]);
  close(t->said);
}

// Waits for the child's end; its exit status.
static int wait_child(const trial *t) {
  int status = 0;
  while (waitpid(t->child, &status, 0) < 0 && errno == EINTR) {}
  return status;
}

// Of a child that has ended.
static void forget_child(trial *t) {
  close(t->verdict);
  close(t->said);
  t->child = 0;
}

static void close_trial(trial *t) {
  if (t->child) {
    (void)wait_child(t);
    forget_child(t);
  }
  candidate_free(&t->c);
}

static void end_trials(trial *v, u32 n) {
  for (u32 k = 0; k < n; k++)
    if (v[k].child) kill(-v[k].child, SIGTERM);
  u64 last = hs_now_ns() + (u64)GRACE_MS * 1000000u;
  for (u32 k = 0; k < n; k++) {
    siginfo_t ended = {0};
    while (v[k].child && hs_now_ns() < last && !ended.si_pid &&
           waitid(P_PID, (id_t)v[k].child, &ended, WEXITED | WNOHANG | WNOWAIT) == 0 &&
           !ended.si_pid)
      poll(NULL, 0, 1);
    if (v[k].child) kill(-v[k].child, SIGKILL);
    close_trial(&v[k]);
  }
}

// What the child wrote to standard error.
static void show_said(const shrink_search *s, int said) {
  char part[4096];
  ssize_t n;
  for (off_t at = 0; (n = pread(said, part, sizeof part, at)) > 0; at += n) {
    if (!at) repl_progress_end(s->t.c->out);
    write_all(STDERR_FILENO, part, (size_t)n);
  }
}

// Waits for a child's verdict. *judged: it has one, or has died.
static hs_status take_verdict(shrink_search *s, trial *t, bool *judged, char **why) {
  hs_buf b = {0};
  char part[4096];
  ssize_t n = 1;
  hs_status st = HS_GOOD;
  while (n && hs_ok(st)) {
    struct pollfd p = {.fd = t->verdict, .events = POLLIN};
    poll(&p, 1, POLL_MS);
    st = hs_poll();
    if (!p.revents) continue;
    n = read(t->verdict, part, sizeof part);
    if (n > 0) hs_buf_put(&b, part, (size_t)n);
    else if (n < 0 && errno != EINTR) n = 0;
  }
  size_t head = sizeof s->usual_s + 1;
  *judged = b.n > head && !b.p[b.n - 1];
  if (*judged) {
    memcpy(&s->usual_s, b.p, sizeof s->usual_s);
    if (b.p[head - 1] == '!') *why = hs_strdup(b.p + head);
  }
  hs_buf_free(&b);
  if (!hs_ok(st)) return st;
  int status = wait_child(t);
  *judged |= WIFSIGNALED(status);
  if (*judged) show_said(s, t->said);
  forget_child(t);
  return HS_GOOD;
}

// ---- how many at a time -------------------------------------------------------------------------
static bool is_xla(const backend *be) { return be && backend_has(be, BACKEND_XLA); }

// Whether the programs of several processes can use what the backend runs on: memory of a device is
// taken by one of them.
static bool is_shared(const shrink_search *s, const backend *be) {
  if (!be || s->t.c->s->plugin_target) return true;
  if (!backend_has(be, BACKEND_PLUGIN)) return !backend_has(be, BACKEND_DEVICE);
  char *path = NULL;
  hs_status st = pjrt_find(s->t.c->s->plugin, &path);
  bool host = hs_ok(st) && strstr(path, "cpu");
  hs_status_drop(st);
  hs_free(path);
  return host;
}

// As many as there is memory for. What is timed is judged alone.
static u32 most_jobs(const shrink_search *s) {
  u32 n = HS_MIN(s->jobs, (u32)MOST_JOBS);
  if (n < 2 || s->t.kind == BISECT_SLOWER) return 1;
  if (!is_shared(s, s->t.be) || !is_shared(s, s->reference)) return 1;
  hlo_memory mem = {0};
  if (s->valid) {
    hs_status st = hlo_memory_estimate(s->best.m, false, &mem);
    bool known = hs_ok(st);
    hs_status_drop(st);
    if (!known) return 1;
  }
  double limit = s->t.c->s->set.memory_limit, need = (double)HS_MAX(mem.peak_bytes, 1);
  if (!(limit > 0)) limit = (double)hs_memory_free();
  return (u32)HS_MAX(HS_MIN((double)n, limit / need), 1);
}

// How long a child takes to begin.
static double start_s(const shrink_search *s) {
  if (is_xla(s->t.be) || is_xla(s->reference)) return XLA_S;
  return s->t.be || s->reference ? WORKER_S : FORK_S;
}

// ---- the first ----------------------------------------------------------------------------------
static void say_progress(const shrink_search *s, const char *doing) {
  repl_out *out = s->t.c->out;
  if (repl_progress_due(out))
    repl_progress_text(out, "%u instructions after %u tries, %s", hlo_instr_count(s->best.m),
                       s->tried, doing);
}

// The next candidate that can be judged; false when there is none, on Ctrl-C and when the time is
// up.
static bool next_trial(shrink_search *s, shrink_sequence *q, trial *t) {
  for (;;) {
    hs_status st = go_on(s);
    bool more = hs_ok(st);
    hs_status_drop(st);
    *t = (trial){0};
    if (!more || !q->next(s, q, &t->c)) return false;
    t->behind = q->at;
    if (prepare(s, &t->c)) return true;
    candidate_free(&t->c);
  }
}

static hs_status verdict_on(shrink_search *s, trial *t, char **why) {
  double start = start_s(s);
  bool judged = false;
  say_progress(s, t->c.doing);
  if (t->child) {
    HS_TRY(take_verdict(s, t, &judged, why));
    s->usual_s -= start;
  }
  if (!judged) HS_TRY(judge(s, &t->c, why));
  s->tried++;
  return HS_GOOD;
}

hs_status shrink_first(shrink_search *s, shrink_sequence *q, bool *kept) {
  trial *v = hs_calloc(MOST_JOBS, sizeof *v);
  u32 n = 0, most = 0;
  bool more = true;
  hs_status st = HS_GOOD;
  *kept = false;
  while (hs_ok(st) && !*kept) {
    bool pays = s->usual_s > start_s(s);
    if (pays && !most) most = most_jobs(s);
    while (more && n < (pays ? most : 1) && (more = next_trial(s, q, &v[n])) != 0)
      if (n++) send_ahead(s, &v[n - 1]);
    if (!n) break;
    char *why = NULL;
    st = verdict_on(s, &v[0], &why);
    *kept = hs_ok(st) && why;
    if (*kept) {
      keep(s, &v[0].c, why);
      q->at = v[0].behind;
    } else {
      hs_free(why);
      close_trial(&v[0]);
    }
    memmove(v, v + 1, --n * sizeof *v);
  }
  end_trials(v, n);
  hs_free(v);
  return hs_ok(st) && !*kept ? go_on(s) : st;
}

static bool next_single(const shrink_search *s, shrink_sequence *q, shrink_candidate *out) {
  (void)s;
  *out = *(const shrink_candidate *)q->of;
  return !q->at.part++;
}

hs_status shrink_try(shrink_search *s, shrink_candidate *take, bool *kept) {
  shrink_sequence one = {.next = next_single, .of = take};
  hs_status st = shrink_first(s, &one, kept);
  if (!one.at.part) candidate_free(take);
  return st;
}
