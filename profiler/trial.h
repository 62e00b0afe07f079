// trial.h — measuring programs against each other.
//
// A trial has two parts. Warm-up: each program runs until its times show no change of level any
// more (prof_steady_from). Measurement: rounds, in each of which every program runs for the same
// while, in an order drawn anew; a round gives each program one time, the median of its runs. The
// trial ends when the wall time asked for is over, or earlier when every ratio to the first
// program is known to the wanted precision.
#ifndef PROF_TRIAL_H
#define PROF_TRIAL_H

#include "profiler/stats.h"

typedef struct prof_entry {
  prof_samples runs;    // ms of every run of the rounds
  prof_samples rounds;  // ms, the median of each round
  u32 warmup;           // runs before them
  bool steady;          // the warm-up ended by itself, not by its limit
} prof_entry;
void prof_entry_free(prof_entry *);

// Runs program k for about `seconds` of wall time, at least once, and appends the time of each run
// in ms. fresh: in memory taken anew, where that can be done; so in all rounds, unless that would
// leave time for fewer than seven.
typedef hs_status prof_run_fn(void *arg, u32 k, bool fresh, double seconds, prof_samples *out);

typedef struct prof_trial_options {
  double seconds;  // wall time for all programs together, warm-up included
  double until;    // relative half-width of the ratios that is enough; 0: use all the time
  u32 rounds;      // at least so many, whatever the time; 0: as the time allows, three at least
  u64 seed;        // of the order within the rounds
} prof_trial_options;

// The widest relative half-width of the n - 1 ratios to the first program; 0 for one program's own
// interval of the median.
typedef struct prof_trial {
  u32 rounds;
  double seconds;  // wall time it took
  double width;    // relative half-width of the widest ratio; of the median with one program
  bool reached;    // width <= until, or no until was given
} prof_trial;

// e: n zeroed entries. Errors of `run`, and E_INTERRUPTED.
hs_status prof_trial_run(prof_entry *e, u32 n, prof_run_fn *run, void *arg,
                         const prof_trial_options *, prof_trial *out);

#endif
