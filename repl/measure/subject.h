// subject.h — the programs that `speedup` and `versus` compare: a row each in JSON, a column each
// in the table.
#ifndef REPL_CMD_SUBJECT_H
#define REPL_CMD_SUBJECT_H

#include "profiler/noise.h"
#include "profiler/model/prof.h"
#include "profiler/trial.h"
#include "repl/cmd/cmd.h"

enum { MAX_SUBJECTS = 24 };

// Of a subject whose kernels were measured apart (apart.h).
typedef struct subject_apart {
  bool known;
  u32 distinct, timed, sliced;  // kernels that differ; of these timed; of these on a slice
  double sliced_ms;             // of the time, what was scaled from slices
  double left_out;              // the part of the estimated time whose kernels were not timed
} subject_apart;

typedef struct subject {
  const char *key, *label;  // JSON name and column title
  hlo_module *m;            // owned
  char *version;            // as users name it, malloc'ed
  bool per_instruction, estimated;
  const backend *be;  // that runs it
  // optional: it may fail without the comparison failing; backend_only: the plug-in only generates
  // code
  bool optional, backend_only;
  hs_status failed;  // why it has no figures; owned
  backend_exe *exe;
  prof_entry trial;
  double first_ms, dispatch_ms, transfer_ms, compile_ms, compile_cpu_ms;
  prof_samples cpu_s, faults, joules;  // of a run, one value per request to run
  backend_power power;                 // of a device that has a counter: longer runs, behind them
  double fault_s;                      // what a fault costs on this machine
  prof_stats stats;                    // of all runs
  prof_interval median;                // ms, of the rounds
  prof_interval ratio;                 // time of the first subject ÷ its own; value 0: not known
  u32 kernels;
  // estimated or apart: that all figures were divided by; the module is not partitioned yet
  u32 parts;
  subject_apart apart;
  double bytes_moved;
  // -1: not known
  i64 compile_peak_bytes, argument_bytes, output_bytes, alias_bytes, temp_bytes, peak_bytes;
  u32 devices;  // each of which takes so many bytes; 0: one
  hlo_literal *result;
} subject;

// Of a run: the median of cpu_s, faults or joules; -1: not known. They are of the warm-up: rounds
// run in fresh memory, whose pages are no part of a run.
double subject_used(const prof_samples *);
// Joules of a run: of the device where it has a counter, else of the processor packages; -1: not
// known.
double subject_joules(const subject *);

// What is common to all subjects of a comparison.
typedef struct comparison {
  subject x[MAX_SUBJECTS];
  u32 n;
  u32 nargs;  // arguments; args NULL: those of the current module
  hlo_literal *const *args;
  prof_trial trial;
  prof_noise noise;
  prof_between between;  // what the ratios' intervals have of other runs (saved.h)
  // Nothing more is run once a first run took longer than this (0: no limit), and how long it took.
  double most_first_s, too_long_s;
} comparison;
void subject_free(subject *);  // what it holds
void comparison_free(comparison *);

// --seconds (wall time for all measuring together), --until (2% or 0.02), --runs (rounds at least).
hs_status comparison_options(repl_cmd *, double seconds, prof_trial_options *out);
// The backends with real XLA to compare with, as --peer says: none, one, or jaxlib and the plug-in.
hs_status comparison_peers(repl_cmd *, const backend *peer[2]);
// Runs a pipeline, by its name or its text, on a module that is nobody else's. log: what the passes
// changed; NULL: it is not wanted.
hs_status comparison_optimize(repl_cmd *, hlo_module *, const char *pipeline, pass_log *log);
// Compiles every subject, runs each once, measures them against each other, and fills in what was
// measured. A subject that cannot be compiled or run is `failed`; the others go on. Fails when the
// user stops it and when no subject is left.
hs_status comparison_measure(repl_cmd *, comparison *, const prof_trial_options *);
// Figures from the model of a device, and nothing is run.
hs_status comparison_estimate(comparison *, const prof_device *);
// E_RUN, naming the subjects that failed and were not optional.
hs_status comparison_failures(const comparison *);

#endif
