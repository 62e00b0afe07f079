// statistics.c — the statistics of measured times: summaries, intervals that cover what they say,
// ratios with verdicts, the end of a warm-up, and trials on simulated machines.
#include "profiler/trial.h"

#include <math.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#include "profiler/noise.h"

// Uniform in [0, 1).
static double uniform(u64 *state) {
  *state = *state * 6364136223846793005ull + 1442695040888963407ull;
  return (double)(*state >> 11) * 0x1p-53;
}

// Normal, by the sum of twelve uniform numbers.
static double normal(u64 *state) {
  double sum = -6;
  for (int k = 0; k < 12; k++) sum += uniform(state);
  return sum;
}

static void summary(void **state) {
  (void)state;
  double v[] = {3, 1, 2, 5, 4, 100};
  prof_stats s = prof_summarize(v, 6);
  assert_int_equal(s.n, 6);
  assert_float_equal(s.median, 3.5, 1e-12);
  assert_float_equal(s.min, 1, 0);
  assert_float_equal(s.max, 100, 0);
  assert_int_equal(s.outliers, 1);
  assert_int_equal(prof_summarize(v, 0).n, 0);
}

// The interval of the median contains the true median about 95 times of 100, for a distribution
// with a long tail too.
static void median_covers(void **state) {
  (void)state;
  enum { TRIALS = 400, N = 25 };
  u64 seed = 7;
  u32 hits = 0;
  for (u32 t = 0; t < TRIALS; t++) {
    double v[N];
    for (u32 k = 0; k < N; k++) v[k] = 10 * exp(0.1 * normal(&seed));
    prof_interval i = prof_median(v, N);
    assert_true(i.low <= i.value && i.value <= i.high);
    hits += i.low <= 10 && 10 <= i.high;
  }
  assert_in_range(hits, TRIALS * 91 / 100, TRIALS * 99 / 100);
}

static void ratio_takes_out_drift(void **state) {
  (void)state;
  enum { N = 20 };
  double a[N], b[N];
  u64 seed = 3;
  for (u32 k = 0; k < N; k++) {
    double drift = 1 + 0.5 * k / N;  // the machine slows down by half
    a[k] = 20 * drift * (1 + 0.004 * normal(&seed));
    b[k] = 10 * drift * (1 + 0.004 * normal(&seed));
  }
  prof_interval r = prof_ratio(a, b, N);
  assert_true(r.low <= 2 && 2 <= r.high);
  assert_true(prof_half_width(r) < 0.01);
  assert_int_equal(prof_judge(r), PROF_FASTER);
  assert_int_equal(prof_judge(prof_ratio(b, a, N)), PROF_SLOWER);
}

// Of a machine whose state lasts for several rounds the interval is as much wider as it has to be.
static void interval_knows_of_what_lasts(void **state) {
  (void)state;
  enum { TRIALS = 400, N = 30 };
  u64 seed = 5;
  u32 hits[2] = {0};
  for (u32 t = 0; t < 2 * TRIALS; t++) {
    bool lasting = t % 2;
    double a[N], b[N], now = normal(&seed);
    for (u32 k = 0; k < N; k++) {
      now = lasting ? 0.7 * now + sqrt(1 - 0.49) * normal(&seed) : normal(&seed);
      a[k] = 20 * exp(0.03 * now);
      b[k] = 10;
    }
    prof_interval r = prof_ratio(a, b, N);
    hits[lasting] += r.low <= 2 && 2 <= r.high;
  }
  assert_in_range(hits[0], TRIALS * 92 / 100, TRIALS);
  assert_in_range(hits[1], TRIALS * 85 / 100, TRIALS);  // without it: two of three
  double flat[] = {1, 1, 1, 1, 1, 1, 1, 1, 1}, up[] = {1, 2, 3, 4, 5, 6, 7, 8, 9};
  assert_float_equal(prof_persistence(flat, 9), 1, 0);
  assert_true(prof_persistence(up, 9) > 1.8);
  assert_float_equal(prof_persistence(up, 7), 1, 0);
}

static void verdicts(void **state) {
  (void)state;
  assert_int_equal(prof_judge((prof_interval){1.01, 0.99, 1.03}), PROF_SAME);
  assert_int_equal(prof_judge((prof_interval){1.5, 1.2, 1.8}), PROF_TOO_NOISY);
  assert_int_equal(prof_judge((prof_interval){2, 1.95, 2.05}), PROF_FASTER);
  assert_int_equal(prof_judge((prof_interval){0.5, 0.49, 0.51}), PROF_SLOWER);
  assert_int_equal(prof_judge((prof_interval){0}), PROF_TOO_NOISY);
  assert_string_equal(prof_verdict_text(PROF_TOO_NOISY), "too noisy");
}

static void warm_up_ends(void **state) {
  (void)state;
  u64 seed = 11;
  double v[60];
  for (u32 k = 0; k < 60; k++) v[k] = (k < 17 ? 30 : 20) * (1 + 0.01 * normal(&seed));
  assert_int_equal(prof_steady_from(v, 60), 17);
  assert_int_equal(prof_steady_from(v + 17, 43), 0);
  for (u32 k = 0; k < 60; k++) v[k] = 5;  // a clock too coarse to see a difference
  assert_int_equal(prof_steady_from(v, 60), 0);
  assert_int_equal(prof_steady_from(v, 3), 0);
}

// ---- trials on a simulated machine --------------------------------------------------------------
typedef struct machine {
  double ms[3];  // of each program
  double noise;
  double place;  // how much the place of its memory makes of a program's time
  u64 seed;
  double placed[3];  // of each program, where its memory lies now
  u32 calls[3], last;
  bool fails;
} machine;

static hs_status simulate(void *arg, u32 k, bool fresh, double seconds, prof_samples *out) {
  machine *m = arg;
  (void)seconds;
  if (m->fails && ++m->last > 20) return hs_fail(HS_E_RUN, "worn out");
  if (!m->calls[k]) m->placed[k] = m->ms[k];
  if (fresh && m->place > 0) m->placed[k] = m->ms[k] * exp(m->place * normal(&m->seed));
  m->calls[k]++;
  for (u32 q = 0; q < 5; q++)
    hs_vec_push(out, m->placed[k] * exp(m->noise * normal(&m->seed)) * (1 + (m->calls[k] < 3)));
  return HS_GOOD;
}

static void trial_on(machine *m, double until, prof_entry e[3], prof_trial *t) {
  prof_trial_options o = {.seconds = 0.05, .until = until, .rounds = 20, .seed = 1};
  hs_status s = prof_trial_run(e, 3, simulate, m, &o, t);
  assert_true(hs_ok(s));
  for (u32 k = 0; k < 3; k++) {
    assert_int_equal(e[k].rounds.n, t->rounds);
    assert_int_equal(e[k].runs.n, 5 * t->rounds);
    assert_true(e[k].steady);
  }
}

static void trial(void **state) {
  (void)state;
  prof_entry e[3] = {0};
  prof_trial t;
  trial_on(&(machine){.ms = {8, 4, 8}, .noise = 0.01, .seed = 5}, 0, e, &t);
  assert_true(t.rounds >= 20 && t.reached);
  prof_interval r = prof_ratio(e[0].rounds.v, e[1].rounds.v, t.rounds);
  assert_true(r.low <= 2 && r.high >= 2);
  assert_int_equal(prof_judge(r), PROF_FASTER);
  assert_int_equal(prof_judge(prof_ratio(e[0].rounds.v, e[2].rounds.v, t.rounds)), PROF_SAME);
  for (u32 k = 0; k < 3; k++) prof_entry_free(&e[k]);
}

// Programs are compared over many places of their memory, and the interval knows how much these
// make.
static void trial_moves_memory(void **state) {
  (void)state;
  prof_entry e[3] = {0};
  prof_trial t;
  trial_on(&(machine){.ms = {8, 4, 8}, .noise = 0.001, .place = 0.05, .seed = 5}, 0, e, &t);
  prof_interval r = prof_ratio(e[0].rounds.v, e[1].rounds.v, t.rounds);
  assert_true(r.low <= 2 && r.high >= 2);
  assert_true(prof_half_width(r) > 0.01 && prof_half_width(r) < 0.08);
  for (u32 k = 0; k < 3; k++) prof_entry_free(&e[k]);
}

// All six orders of three programs come up, none in most of the rounds: what runs before a program
// is a part of its time.
typedef struct orders {
  u32 run[200], n;
} orders;

static hs_status write_down(void *arg, u32 k, bool fresh, double seconds, prof_samples *out) {
  orders *o = arg;
  (void)fresh, (void)seconds;
  if (o->n < HS_COUNT(o->run)) o->run[o->n++] = k;
  for (u32 q = 0; q < 16; q++) hs_vec_push(out, 1);  // steady at once
  return HS_GOOD;
}

static void rounds_in_every_order(void **state) {
  (void)state;
  enum { ROUNDS = 50 };
  prof_entry e[3] = {0};
  orders o = {0};
  prof_trial_options options = {.seconds = 0.01, .rounds = ROUNDS, .seed = 1};
  prof_trial t;
  assert_true(hs_ok(prof_trial_run(e, 3, write_down, &o, &options, &t)));
  u32 seen[27] = {0}, different = 0;
  assert_true(o.n >= 3 + 3 * ROUNDS);
  for (u32 k = 3; k < 3 + 3 * ROUNDS; k += 3)  // behind the warm-up
    different += !seen[o.run[k] * 9 + o.run[k + 1] * 3 + o.run[k + 2]]++;
  assert_int_equal(different, 6);
  for (u32 k = 0; k < HS_COUNT(seen); k++) assert_true(seen[k] < ROUNDS / 2);
  for (u32 k = 0; k < 3; k++) prof_entry_free(&e[k]);
}

// A request that takes long ends the trial early: the time asked for counts, not the rounds.
static hs_status simulate_slow(void *arg, u32 k, bool fresh, double seconds, prof_samples *out) {
  (void)seconds;
  (void)usleep(20000);
  return simulate(arg, k, fresh, 0, out);
}

static void trial_keeps_to_its_time(void **state) {
  (void)state;
  prof_entry e[3] = {0};
  machine m = {.ms = {8, 4, 8}, .noise = 0.01, .seed = 5};
  prof_trial_options o = {.seconds = 0.05, .seed = 1};
  prof_trial t;
  hs_status s = prof_trial_run(e, 3, simulate_slow, &m, &o, &t);
  assert_true(hs_ok(s));
  assert_int_equal(t.rounds, 3);
  prof_interval r = prof_ratio(e[0].rounds.v, e[1].rounds.v, t.rounds);
  double lo = HUGE_VAL, hi = 0;
  for (u32 k = 0; k < t.rounds; k++) {
    lo = fmin(lo, e[0].rounds.v[k] / e[1].rounds.v[k]);
    hi = fmax(hi, e[0].rounds.v[k] / e[1].rounds.v[k]);
  }
  assert_true(r.low < lo && r.high > hi);  // three are few
  for (u32 k = 0; k < 3; k++) prof_entry_free(&e[k]);
}

// Memory that takes 50 ms to come by is taken in the first round alone when there are 0.3 s.
static u32 fresh_calls;
static hs_status simulate_slow_memory(void *arg, u32 k, bool fresh, double seconds,
                                      prof_samples *out) {
  (void)seconds;
  fresh_calls += fresh;
  if (fresh) (void)usleep(50000);
  return simulate(arg, k, false, 0, out);
}

static void trial_gives_up_slow_memory(void **state) {
  (void)state;
  prof_entry e[3] = {0};
  machine m = {.ms = {8, 4, 8}, .noise = 0.01, .seed = 5};
  prof_trial_options o = {.seconds = 0.3, .seed = 1};
  prof_trial t;
  fresh_calls = 0;
  assert_true(hs_ok(prof_trial_run(e, 3, simulate_slow_memory, &m, &o, &t)));
  assert_int_equal(fresh_calls, 3);
  assert_true(t.rounds >= 7);
  for (u32 k = 0; k < 3; k++) prof_entry_free(&e[k]);
}

static void trial_says_when_noisy(void **state) {
  (void)state;
  prof_entry e[3] = {0};
  prof_trial t;
  trial_on(&(machine){.ms = {8, 4, 8}, .noise = 1.5, .seed = 5}, 0.001, e, &t);
  assert_false(t.reached);
  assert_true(t.width > 0.001);
  assert_int_equal(prof_judge(prof_ratio(e[0].rounds.v, e[1].rounds.v, t.rounds)), PROF_TOO_NOISY);
  for (u32 k = 0; k < 3; k++) prof_entry_free(&e[k]);
}

static void trial_passes_errors_on(void **state) {
  (void)state;
  prof_entry e[3] = {0};
  prof_trial t;
  machine m = {.ms = {8, 4, 8}, .noise = 0.1, .seed = 5, .fails = true};
  prof_trial_options o = {.seconds = 0.05, .rounds = 20};
  hs_status s = prof_trial_run(e, 3, simulate, &m, &o, &t);
  assert_int_equal(s.err->code, HS_E_RUN);
  hs_status_drop(s);
  for (u32 k = 0; k < 3; k++) prof_entry_free(&e[k]);
}

// Samples of two measurements of the same thing: the ratio's interval has 1 and its true value, and
// a difference of a fifth is seen.
static void measured_apart(void **state) {
  (void)state;
  double a[21], b[24];
  for (u32 k = 0; k < 21; k++) a[k] = 10 + 0.02 * (double)((k * 7) % 21);
  for (u32 k = 0; k < 24; k++) b[k] = 10 + 0.02 * (double)((k * 11) % 24);
  prof_interval r = prof_ratio_apart(a, 21, b, 24);
  assert_true(r.low <= 1 && r.high >= 1 && prof_half_width(r) < 0.02);
  assert_int_equal(prof_judge(r), PROF_SAME);
  for (u32 k = 0; k < 24; k++) b[k] *= 1.2;
  r = prof_ratio_apart(a, 21, b, 24);
  assert_true(r.high < 0.86 && r.low > 0.81 && r.low <= r.value && r.value <= r.high);
  assert_int_equal(prof_judge(r), PROF_SLOWER);
  assert_true(prof_ratio_apart(a, 0, b, 24).value <= 0);
}

// A child that works and touches memory: its processor time and its pages are seen. Counters of
// energy are added up.
static void what_children_use(void **state) {
  (void)state;
  enum { PAGES = 2000 };
  int go[2], done[2];
  char c = 0;
  assert_int_equal(pipe(go) | pipe(done), 0);
  pid_t pid = fork();
  if (!pid) {
    if (read(go[0], &c, 1) == 1) {
      char *p = malloc((size_t)PAGES * 4096);
      u64 end = hs_now_ns() + 50000000;
      for (u32 k = 0; p && k < PAGES; k++) ((volatile char *)p)[(size_t)k * 4096] = 1;
      while (hs_now_ns() < end) {}
      if (write(done[1], &c, 1) == 1) pause();
    }
    _exit(0);
  }
  prof_usage before = prof_usage_now();
  assert_int_equal(write(go[1], &c, 1), 1);
  assert_int_equal(read(done[0], &c, 1), 1);
  prof_usage after = prof_usage_now(), used = prof_usage_between(&before, &after);
  kill(pid, SIGKILL);
  assert_int_equal(waitpid(pid, NULL, 0), pid);
  assert_true(used.cpu_s > 0.001 && used.cpu_s < 60);
  assert_true(used.faults > 100);
  double fault_s = prof_fault_s();
  assert_true(fault_s > 1e-9 && fault_s < 1e-3);
  char dir[] = "/tmp/hlosh-rapl-XXXXXX";
  assert_non_null(mkdtemp(dir));
  assert_true(prof_energy_in(dir) < 0);
  for (u32 k = 0; k < 2; k++) {
    char *package = hs_format("%s/intel-rapl:%u", dir, k),
         *file = hs_format("%s/energy_uj", package);
    assert_int_equal(mkdir(package, 0700), 0);
    FILE *f = fopen(file, "w");
    assert_non_null(f);
    fprintf(f, "%u\n", 1500000 * (k + 1));
    fclose(f);
    hs_free(package);
    hs_free(file);
  }
  assert_float_equal(prof_energy_in(dir), 4.5, 1e-9);
  char *sweep = hs_format("rm -r '%s'", dir);
  assert_int_equal(system(sweep), 0);
  hs_free(sweep);
}

// What began after the noise was measured is in it; less than before changes nothing.
static void others_at_work(void **state) {
  (void)state;
  prof_noise n = {.cores = 2, .busy = 0.1, .steal = -1};
  prof_others from = {.at = 1000000000, .work = 7, .steal = 3, .known = true}, to = from;
  to.at += 2000000000;
  to.work += 1.5;
  to.steal += 0.1;
  prof_noise_take_others(&n, &from, &to);
  assert_float_equal(n.busy, 0.75, 1e-9);
  assert_float_equal(n.steal, 0.025, 1e-9);
  assert_int_equal(prof_noise_level(&n), PROF_OTHER_WORK);
  to.work = from.work - 0.01;  // ticks that were rounded
  prof_noise_take_others(&n, &from, &to);
  assert_float_equal(n.busy, 0.75, 1e-9);
  n = (prof_noise){.cores = 2, .busy = -1, .steal = -1};
  to.at = from.at + 50000000;
  prof_noise_take_others(&n, &from, &to);
  assert_true(n.busy < 0);
  assert_int_equal(prof_noise_level(&n), PROF_QUIET);
  n.memory_spread = 0.2;
  assert_int_equal(prof_noise_level(&n), PROF_UNEVEN);
  assert_true(prof_noise_loud(&n));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(summary),
      cmocka_unit_test(median_covers),
      cmocka_unit_test(ratio_takes_out_drift),
      cmocka_unit_test(interval_knows_of_what_lasts),
      cmocka_unit_test(verdicts),
      cmocka_unit_test(warm_up_ends),
      cmocka_unit_test(trial),
      cmocka_unit_test(rounds_in_every_order),
      cmocka_unit_test(trial_moves_memory),
      cmocka_unit_test(trial_keeps_to_its_time),
      cmocka_unit_test(trial_gives_up_slow_memory),
      cmocka_unit_test(trial_says_when_noisy),
      cmocka_unit_test(trial_passes_errors_on),
      cmocka_unit_test(measured_apart),
      cmocka_unit_test(what_children_use),
      cmocka_unit_test(others_at_work),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
