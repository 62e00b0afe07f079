// alone.h: one kernel by itself: cut out of its module, made smaller when a run of it is too long
// or too large, compiled and timed with random operands.
#ifndef REPL_KERNEL_ALONE_H
#define REPL_KERNEL_ALONE_H

#include "profiler/model/prof.h"
#include "repl/cmd/cmd.h"

// A new module, the caller's, whose entry is a kernel between parameters, one per distinct operand
// (constants stay). from: the kernel's module, without a journal; it is as before afterwards, but
// for ids that are used up. The module keeps pointers into it and must not outlive it.
hs_status alone_cut(hlo_module *from, const hlo_instr *kernel, hlo_module **out);

// How a kernel is timed.
typedef struct alone_options {
  const backend *be;
  const prof_device *here;  // by whose estimate kernels are too long
  bool per_instruction;
  double seconds;     // of running it, about
  double most_s;      // an execution that is estimated to take longer is cut to a slice...
  double most_bytes;  // ...and one whose operands and results are larger
} alone_options;

// Milliseconds of one execution of it. part: how much of its work was run, 1 or less; the times of
// a slice are scaled to the whole.
typedef struct alone_time {
  prof_interval median;
  double p10, p90;
  u32 runs;
  double part;
} alone_time;

// Compiles and times a module of alone_cut. E_UNSUPPORTED, E_COMPILE, E_LIMIT, ...: why it cannot
// be.
hs_status alone_measure(repl_cmd *, const hlo_module *, const alone_options *, alone_time *out);

#endif
