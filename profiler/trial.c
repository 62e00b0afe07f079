// trial.c — warm-up and rounds. See trial.h.
#include "profiler/trial.h"

#include <math.h>

// LEAST_ROUNDS even when the time is over: from fewer nothing can be said.
enum { LEAST_ROUNDS = 3, MIN_ROUNDS = 7, MAX_ROUNDS = 60, WANTED_ROUNDS = 30 };
// A fifth of the time may go into warm-up.
static const double warmup_part = 0.2;
// Rounds shorter than this measure the dispatch of a run request rather than the runs.
static const double least_slice = 0.004;

void prof_entry_free(prof_entry *e) {
  hs_vec_free(&e->runs);
  hs_vec_free(&e->rounds);
}

static double now_s(void) { return (double)hs_now_ns() * 1e-9; }

// *request: seconds that one call took, on average.
static hs_status warm_up(prof_entry *e, u32 k, prof_run_fn *run, void *arg, double seconds,
                         double *request) {
  enum { STEPS = 8 };
  prof_samples seen = {0};
  u32 calls = 0;
  hs_status s = HS_GOOD;
  double from = now_s();
  do {
    s = run(arg, k, false, seconds / STEPS, &seen);
    if (hs_ok(s)) s = hs_poll();
    u32 n = (u32)seen.n;
    calls++;
    // steady: nothing changed in the later half of what was seen
    e->steady = n >= 16 && prof_steady_from(seen.v + n / 2, n - n / 2) == 0;
  } while (hs_ok(s) && !e->steady && now_s() - from < seconds);
  e->warmup = (u32)seen.n;
  *request = (now_s() - from) / calls;
  hs_vec_free(&seen);
  return s;
}

// One round: every program once, in random order.
static hs_status one_round(prof_entry *e, u32 n, prof_run_fn *run, void *arg, double slice,
                           bool fresh, u64 *seed) {
  u32 order[64];
  for (u32 k = 0; k < n; k++) order[k] = k;
  for (u32 k = n; k > 1; k--) {
    u32 other = prof_draw(seed, k), swap = order[k - 1];
    order[k - 1] = order[other];
    order[other] = swap;
  }
  for (u32 k = 0; k < n; k++) {
    prof_entry *x = &e[order[k]];
    size_t before = x->runs.n;
    HS_TRY(run(arg, order[k], fresh, slice, &x->runs));
    HS_TRY(hs_poll());
    HS_REQUIRE(x->runs.n > before);
    prof_stats st = prof_summarize(x->runs.v + before, (u32)(x->runs.n - before));
    hs_vec_push(&x->rounds, st.median);
  }
  return HS_GOOD;
}

static double widest(const prof_entry *e, u32 n, u32 rounds) {
  if (n == 1) return prof_half_width(prof_median(e[0].rounds.v, rounds));
  double width = 0;
  for (u32 k = 1; k < n; k++) {
    double w = prof_half_width(prof_ratio(e[0].rounds.v, e[k].rounds.v, rounds));
    width = fmax(width, w);
  }
  return width;
}

hs_status prof_trial_run(prof_entry *e, u32 n, prof_run_fn *run, void *arg,
                         const prof_trial_options *o, prof_trial *out) {
  HS_REQUIRE(n >= 1 && n <= 64);
  *out = (prof_trial){0};
  double from = now_s(), end = from + o->seconds;
  double fresh_s = 0;  // that rounds in fresh memory took, the requests of the warm-up at first
  u32 fresh_n = 1;
  for (u32 k = 0; k < n; k++) {
    double request;
    HS_TRY(warm_up(&e[k], k, run, arg, o->seconds * warmup_part / n, &request));
    fresh_s += request;
  }
  double slice = fmax((end - now_s()) / (n * (double)WANTED_ROUNDS), least_slice);
  u32 least = o->rounds ? o->rounds : MIN_ROUNDS;
  u64 seed = o->seed;
  while (out->rounds < MAX_ROUNDS) {
    // memory that is slow to come by would leave time for too few rounds
    bool fresh = fresh_s / fresh_n <= o->seconds / MIN_ROUNDS;
    double begin = now_s();
    HS_TRY(one_round(e, n, run, arg, slice, fresh, &seed));
    if (fresh) fresh_s += now_s() - begin, fresh_n++;
    out->rounds++;
    bool late = !o->rounds && now_s() > end && out->rounds >= LEAST_ROUNDS;
    if (late) break;
    if (out->rounds < least) continue;
    // more rounds only narrow the interval; it is looked at seldom, so that looking until it
    // pleases does not count for much
    bool look = o->until > 0 && out->rounds % MIN_ROUNDS == 0;
    if (look && widest(e, n, out->rounds) <= o->until) break;
    double per_round = (now_s() - from) / out->rounds;
    if (now_s() + per_round / 2 > end) break;
  }
  out->seconds = now_s() - from;
  out->width = widest(e, n, out->rounds);
  out->reached = !(o->until > 0) || out->width <= o->until;
  return HS_GOOD;
}
