// A worker that answers with damaged replies must not end the shell, nor be believed: every call
// ends in a status. The worker of this test is the test itself: it asks a real worker, then cuts,
// flips or overwrites the answer, or its frame, before it passes it on.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "backends/backend.h"
#include "backends/block.h"
#include "backends/worker_wire.h"
#include "tests/unit/modules.h"

// ---- the damaged worker -------------------------------------------------------------------------

static u64 next(u64 *z) {
  u64 x = (*z += 0x9E3779B97F4A7C15ull);
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9ull;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBull;
  return x ^ (x >> 31);
}

static bool receive(int sock, void *p, size_t n, int *fds, u32 *nfds) {
  while (n) {
    char control[CMSG_SPACE(sizeof(int) * WORKER_MAX_FDS)] __attribute__((aligned(16)));
    struct iovec io = {.iov_base = p, .iov_len = n};
    struct msghdr msg = {
        .msg_iov = &io, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
    ssize_t k = recvmsg(sock, &msg, 0);
    if (k <= 0) return false;
    for (struct cmsghdr *h = CMSG_FIRSTHDR(&msg); h; h = CMSG_NXTHDR(&msg, h)) {
      *nfds = (u32)((h->cmsg_len - CMSG_LEN(0)) / sizeof(int));
      memcpy(fds, CMSG_DATA(h), *nfds * sizeof(int));
    }
    p = (char *)p + k;
    n -= (size_t)k;
  }
  return true;
}

// One of the ways to damage n bytes; gives the new length.
static size_t damage(u64 *z, char *p, size_t n) {
  static const u64 odd[] = {
      0, 1, UINT64_MAX, (u64)1 << 31, (u64)1 << 32, (u64)1 << 63, 0x7ff8ull << 48};
  size_t at = n ? next(z) % n : 0, word = HS_MIN((size_t)8, n - at);
  switch (next(z) % 4) {
  case 0: return at;  // cut short
  case 1:
    if (n) p[at] ^= (char)(1u << next(z) % 8);
    return n;
  case 2:
    memcpy(p + at / 4 * 4, &odd[next(z) % HS_COUNT(odd)], HS_MIN(word, n - at / 4 * 4));
    return n;
  default:
    for (size_t k = 0; k < word; k++) p[at + k] = (char)next(z);
    return n;
  }
}

static int damaged_worker(int sock, u64 z) {
  worker *real = worker_new(NULL);
  for (;;) {
    worker_frame f;
    int fds[WORKER_MAX_FDS];
    u32 nfds = 0;
    if (!receive(sock, &f, sizeof f, fds, &nfds)) break;
    char *body = hs_alloc(f.bytes + 1), *out;
    if (!receive(sock, body, f.bytes, fds, &nfds)) break;
    void *reply = NULL;
    size_t n = 0;
    hs_status s = worker_call(real, "proxy", f.kind, body, f.bytes, fds, nfds, 0, &reply, &n);
    worker_frame answer = {.magic = WORKER_MAGIC, .kind = HS_OK};
    if (!hs_ok(s)) {
      answer.kind = s.err->code;
      answer.text[0] = (u32)strlen(s.err->message);
      n = answer.text[0];
      reply = hs_strdup(s.err->message);
    }
    hs_status_drop(s);
    out = hs_alloc(n + 1);
    if (n) memcpy(out, reply, n);
    if (f.kind != WORKER_REQ_PING && next(&z) % 4) n = damage(&z, out, n);
    answer.bytes = n;
    if (f.kind != WORKER_REQ_PING && next(&z) % 16 == 0)
      (void)damage(&z, (char *)&answer, sizeof answer);
    bool sent = send(sock, &answer, sizeof answer, MSG_NOSIGNAL) == (ssize_t)sizeof answer &&
                (!n || send(sock, out, n, MSG_NOSIGNAL) == (ssize_t)n);
    for (u32 k = 0; k < nfds; k++) close(fds[k]);
    hs_free(reply);
    hs_free(out);
    hs_free(body);
    if (!sent) break;
  }
  worker_free(real);
  return 0;
}

// ---- the shell's side ---------------------------------------------------------------------------

static const char *const text =
    "HloModule m\nENTRY e { x = f32[32,32] parameter(0)\n y = f32[32,32] parameter(1)\n"
    " d = f32[32,32] dot(x, y), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n"
    " n = f32[32,32] negate(d)\n ROOT t = (f32[32,32], f32[32,32]) tuple(n, x) }";

static void use(const backend *be, const backend_options *o, u32 rounds) {
  hlo_module *m = parse(text);
  hlo_literal **args = NULL;
  u32 nargs = 0, good = 0, bad = 0;
  assert_true(hs_ok(hlo_inputs_formula(ctx, m, NULL, 0, &args, &nargs)));
  for (u32 k = 0; k < rounds; k++) {
    char seed[16];
    snprintf(seed, sizeof seed, "%u", k + 1);
    setenv("HLOSH_TEST_DAMAGE", seed, 1);  // for the next worker that starts
    backend_exe *e = NULL;
    hs_status s = be->compile(m, o, &e);
    const backend_run_options ro = {
        .min_runs = 2, .max_runs = 3, .want_outputs = true, .want_kernel_times = true};
    backend_result r = {0};
    hs_buf dump = {0};
    if (hs_ok(s)) s = be->run(e, nargs, args, &ro, &r);
    if (hs_ok(s)) {
      const backend_compiled *c = be->compiled(e);
      assert_true(c->peak_bytes >= 0 && r.timing.runs > 0);
      assert_true(!r.timing.kernels || r.timing.kernels->nkernels == c->nkernels);
      for (u32 j = 0; j < r.timing.runs; j++) assert_true(r.timing.samples_ms[j] >= 0);
      if (be->dump) hs_status_drop(be->dump(e, "schedule", &dump));
      prof_memory plan = {0};
      if (be->plan) hs_status_drop(be->plan(e, &plan));
      if (plan.nsteps) {  // what a damaged plan says is wrong, but within its own bounds
        hs_buf text_of = {0};
        prof_memory_print(&plan, &text_of);
        assert_true(prof_memory_peak_step(&plan) < plan.nsteps);
        hs_buf_free(&text_of);
      }
      prof_memory_free(&plan);
    }
    good += hs_ok(s);
    bad += !hs_ok(s);
    hs_status_drop(s);
    hs_buf_free(&dump);
    backend_result_free(&r);
    be->release(e);
  }
  assert_true(good > 0 && bad > 0);  // some damage is harmless, some is found
  hlo_inputs_free(args, nargs);
  hlo_module_free(m);
}

static void cpu_survives(void **st) {
  (void)st;
  const backend *cpu = backend_find("cpu");
  hs_status s = cpu->probe();
  if (!hs_ok(s)) {
    hs_status_drop(s);
    skip();
  }
  backend_context *c = backend_context_new();
  use(cpu, &(backend_options){.context = c, .threads = 1, .deadline_s = 1}, 60);
  backend_context_free(c);
}

// ---- what an answer may say ---------------------------------------------------------------------
// Two kernels, the second of which ran twice in the last of two runs.
typedef struct answer {
  double samples[2], run_ms[2], ms[4];
  u64 calls[2];
  prof_event events[3];
  prof_counters counters[2];
  prof_recording recording;
  backend_timing t;
} answer;

static void make_answer(answer *a) {
  *a = (answer){.samples = {0.5, 0.25},
                .run_ms = {1, 1},
                .ms = {0.1, 0.2, 0.1, 0.2},
                .calls = {1, 2},
                .events = {{10, 100, 0, 0}, {110, 50, 1, 0}, {200, 50, 1, 0}},
                .counters = {{4096, 0, 0.5}, {NAN, NAN, NAN}}};
  a->recording = (prof_recording){.nkernels = 2,
                                  .nruns = 2,
                                  .run_ms = a->run_ms,
                                  .ms = a->ms,
                                  .calls = a->calls,
                                  .nevents = 3,
                                  .events = a->events,
                                  .probe_ns = 20,
                                  .counters = a->counters,
                                  .counted = "in 3 runs"};
  a->t = (backend_timing){.first_ms = 1,
                          .runs = 2,
                          .samples_ms = a->samples,
                          .dispatch_ms = 2,
                          .transfer_ms = 3,
                          .power = {0.5, 60, 12, 1410, "power cap"},
                          .kernels = &a->recording};
}

static bool believed(const answer *a, backend_timing *out) {
  hs_buf b = {0};
  block_put_timing(&b, &a->t);
  wire_reader r = {b.p, b.n, false};
  hs_status s = block_get_timing(&r, 2, out);
  bool good = hs_ok(s);
  hs_status_drop(s);
  hs_buf_free(&b);
  return good;
}

static bool sound(const answer *a) {
  backend_result r = {0};
  bool good = believed(a, &r.timing);
  backend_result_free(&r);
  return good;
}

static void timing_crosses_whole(void **st) {
  (void)st;
  answer a;
  make_answer(&a);
  backend_result r = {0};
  assert_true(believed(&a, &r.timing));
  const backend_timing *t = &r.timing;
  assert_true(t->first_ms == 1 && t->dispatch_ms == 2 && t->transfer_ms == 3 && t->runs == 2);
  assert_true(t->power.seconds == 0.5 && t->power.joules == 60 && t->power.runs == 12);
  assert_true(t->power.mhz == 1410 && strcmp(t->power.slowed, "power cap") == 0);
  assert_true(t->samples_ms[0] == 0.5 && t->samples_ms[1] == 0.25);
  assert_memory_equal(t->kernels->events, a.events, sizeof a.events);
  assert_memory_equal(t->kernels->counters, a.counters, sizeof a.counters);
  assert_string_equal(t->kernels->counted, "in 3 runs");
  backend_result_free(&r);
}

#define REFUSED(change)      \
  do {                       \
    answer a;                \
    make_answer(&a);         \
    change;                  \
    assert_false(sound(&a)); \
  } while (0)

static void impossible_timings_are_refused(void **st) {
  (void)st;
  REFUSED(a.t.first_ms = -1);
  REFUSED(a.t.first_ms = NAN);
  REFUSED(a.t.transfer_ms = -0.5);
  REFUSED(a.t.transfer_ms = INFINITY);
  REFUSED(a.t.dispatch_ms = -2);
  REFUSED(a.t.power.seconds = -1);
  REFUSED(a.t.power.joules = NAN);
  REFUSED(a.samples[1] = -1);
  REFUSED(a.samples[0] = NAN);
  REFUSED(a.t.runs = 0);
  REFUSED(a.run_ms[0] = -1);
  REFUSED(a.ms[3] = NAN);
  REFUSED(a.recording.probe_ns = -1);
  REFUSED(a.recording.nkernels = 1);
  REFUSED(a.events[0].kernel = 2);
  REFUSED(a.events[1].begin_ns = 109);   // before the one before has ended
  REFUSED(a.events[2].ns = UINT64_MAX);  // around the end of numbers
  REFUSED(a.events[2].ns = 10000000);    // after the end of the run
  REFUSED(a.events[0].kernel = 1);       // more of it than were counted
  REFUSED(a.calls[1] = 3);               // one that is neither kept nor dropped
  REFUSED(a.recording.dropped = 1);      // one that was not counted
  REFUSED(a.calls[0] = UINT64_MAX);      // a sum around the end of numbers
  REFUSED(a.recording.dropped = (u64)-3);
  REFUSED(a.counters[0].read_bytes = -1);
  REFUSED(a.counters[1].written_bytes = INFINITY);
  REFUSED(a.counters[0].tensor = 1.5);
}

int main(int argc, char **argv) {
  int status;
  const char *seed = getenv("HLOSH_TEST_DAMAGE");
  if (argc == 3 && seed && !strcmp(argv[1], "--worker")) {
    u64 z = strtoull(seed, NULL, 10);
    unsetenv("HLOSH_TEST_DAMAGE");
    return damaged_worker(atoi(argv[2]), z);
  }
  if (worker_entry(argc, argv, &status)) return status;
  ctx = hlo_ctx_new();
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(cpu_survives),
      cmocka_unit_test(timing_crosses_whole),
      cmocka_unit_test(impossible_timings_are_refused),
  };
  int bad = cmocka_run_group_tests(tests, NULL, NULL);
  hlo_ctx_free(ctx);
  return bad;
}
