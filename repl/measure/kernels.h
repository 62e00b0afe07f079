// kernels.h: a program run with probes around its kernels, and what they measured as rows of a
// table: `profile`, `trace`, `flame` and `roofline` show them.
#ifndef REPL_MEASURE_KERNELS_H
#define REPL_MEASURE_KERNELS_H

#include "profiler/prof.h"
#include "profiler/record.h"
#include "repl/cmd/cmd.h"

typedef struct kernel_run {
  const backend *be;
  const backend_compiled *program;  // borrowed from the session's
  backend_result result;
  const prof_recording *rec;  // in result
} kernel_run;

// Compiles the current version and runs it, with and without probes, for --seconds (1) in all.
// E_UNSUPPORTED when the backend does not measure single kernels.
hs_status kernels_record(repl_cmd *, kernel_run *);
void kernels_free(kernel_run *);

// A kernel or a group of kernels. Times are of all executions in one run, in ms; bytes and
// operations are counted from shapes and summed over the executions.
typedef struct kernel_row {
  const char *key, *kind;  // kind: of the only kernel, else ""
  u32 kernels;
  double calls;  // executions in a run
  double bytes, flops;
  // the least time that the target's bandwidth and peak allow (Williams et al., 2009), the part of
  // it that the bandwidth asks for, and that with the launches
  double roof_ms, memory_ms, estimated_ms;
  double *ms;    // by run
  prof_stats t;  // of ms
} kernel_row;

// by: kernel, opcode, scope, source or pass. Sorted by time, the longest first; lives in the
// command's scratch memory.
kernel_row *kernels_rows(repl_cmd *, const kernel_run *, const char *by, u32 *n);
// What the device would be limited by: "memory", "compute", or "launch" where that is longer.
const char *kernel_bound(const kernel_row *);

#endif
