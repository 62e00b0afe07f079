// prof.h — statistics over measured samples, the estimator, and the table that joins both.
#ifndef PROF_PROF_H
#define PROF_PROF_H

#include "core/analysis/cost.h"

// Of n samples, in their unit. p10 to p99: quantiles; interval: half the width of the 95 % interval
// of the median.
typedef struct prof_stats {
  u32 n;
  double min, p10, median, p90, p99, max, mean, interval;
} prof_stats;
// All zero for n = 0. The samples may be in any order.
prof_stats prof_summarize(const double *samples, u32 n);

// A device description: enough for the roofline and the estimator. Rows in devices.def; XLA's
// textproto specs are read too.
typedef struct prof_device {
  const char *name, *summary;
  double flops_f32, flops_bf16, flops_f64;  // per second
  double transcendentals;                   // per second
  double bandwidth;                         // bytes per second, memory
  double cache_bandwidth;
  i64 cache_bytes;
  double launch_s;  // per kernel
  i64 memory_bytes;
} prof_device;
extern const prof_device prof_devices[];
extern const u32 prof_device_count;
// The device of that name in devices.def; NULL when there is none.
const prof_device *prof_device_find(const char *name);

// One run of a module: seconds, bytes live at the peak (INT64_MAX: that much or more), work, bytes
// moved, kernels launched.
typedef struct prof_estimate {
  double time_s;
  i64 peak_bytes;
  double flops, bytes;
  u32 kernels;
} prof_estimate;
// naive: every instruction on its own, every intermediate in memory.
hs_status prof_estimate_module(const hlo_module *, const prof_device *, bool naive,
                               prof_estimate *out);
// Seconds of one execution of an instruction as a kernel of its own; 0 for those that do nothing at
// run time.
double prof_estimate_instr(const hlo_instr *, const prof_device *);

// `savings`: from baseline time and memory and two factors to what is saved.
typedef struct prof_savings {
  double time, memory, speedup, memory_factor, opt_time, opt_memory, time_saved, memory_saved,
      time_percent, memory_percent;
} prof_savings;
// time and memory in any unit. E_USAGE for negative ones, or factors that are not above zero.
hs_status prof_savings_from(double time, double memory, double speedup, double memory_factor,
                            prof_savings *out);

#endif
