// kernels.h: the times of a program's kernels, and their sums as rows of a table: `profile`,
// `trace`, `flame` and `roofline` show them. Beside each stands the estimator's figure for the
// device of `target`.
#ifndef REPL_MEASURE_KERNELS_H
#define REPL_MEASURE_KERNELS_H

#include "profiler/model/prof.h"
#include "profiler/record.h"
#include "repl/cmd/cmd.h"

typedef struct kernel_run {
  const char *where;              // what ran it: the backend, or the device of a profile
  const char *file;               // the profile that it is from; NULL: measured now
  const backend_kernel *kernels;  // as many as the recording has; borrowed
  const prof_recording *rec;      // in result, or borrowed from the module
  prof_stats plain;               // runs without probes, ms; none of a profile
  const prof_device *device;      // that `model` is of
  prof_module model;              // of the current version
  backend_result result;
  // Measured kernel by kernel (isolated.h): the time of a call that was taken off each, how many
  // kernels differ, how many could not be measured.
  bool isolated;
  double call_ms;
  u32 distinct, left_out;
  // of kernels that its time did not suffice for: how many, and their part of the estimated time
  u32 late;
  double late_share;
  prof_recording *own;  // rec, when it is not in result or the module
} kernel_run;

// What a loaded profile says of the current version (repl/debug/recorded.h), unless --here says
// that this machine is meant; else compiles the version and runs it, with and without probes, for
// --seconds (1) in all. With --isolated, and on backends with real XLA, which does not say how long
// its kernels take, each kernel is measured alone. E_UNSUPPORTED when the backend does not measure
// single kernels.
hs_status kernels_record(repl_cmd *, kernel_run *);
void kernels_free(kernel_run *);
// Fills in the model of the current version for the target. naive: one kernel per instruction.
hs_status kernels_estimate(repl_cmd *, bool naive, kernel_run *);

// A kernel or a group of kernels. Times are of all executions in one run, in ms; bytes and
// operations are counted from shapes and summed over the executions.
typedef struct kernel_row {
  const char *key, *kind;  // kind: of the only kernel, else ""
  u32 kernels;
  double calls;  // executions in a run
  double bytes, flops;
  // By the estimator: all of it, and its parts. roof: the longer of memory and computation of each
  // kernel, which is the least time that the device allows (Williams et al., 2009).
  double estimated_ms, memory_ms, compute_ms, launch_ms, network_ms, roof_ms;
  double *ms;             // by run
  prof_stats t;           // of ms
  prof_counters counted;  // by the device, where it was asked; NAN: not known
  double counted_ms;      // of the kernels that were executed, the sum of their medians
} kernel_row;

// by: kernel, opcode, scope, source or pass. Sorted by time, the longest first; lives in the
// command's scratch memory.
kernel_row *kernels_rows(repl_cmd *, const kernel_run *, const char *by, u32 *n);
// What the device would be limited by, the longest part: "memory", "compute", "launch", "network".
const char *kernel_bound(const kernel_row *);

#endif
