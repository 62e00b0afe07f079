// prof.h — statistics of measured samples, descriptions of devices, and estimates of time and
// memory.
#ifndef PROF_PROF_H
#define PROF_PROF_H

#include "core/analysis/cost.h"

// Statistics of n samples, in their unit. p10 to p99: quantiles; interval: half the width of the
// 95 % confidence interval of the median.
typedef struct prof_stats {
  u32 n;
  double min, p10, median, p90, p99, max, mean, interval;
} prof_stats;
// All zero for n = 0. The samples may be in any order.
prof_stats prof_summarize(const double *samples, u32 n);

// A device as the roofline and the estimator see it: rows of devices.def, or read from XLA's
// textproto specs (gpu.h).
typedef struct prof_device {
  const char *name, *summary;
  double flops_f32, flops_bf16, flops_f64;  // per second
  double transcendentals;                   // per second
  double bandwidth;                         // of the memory, bytes per second
  double cache_bandwidth;                   // bytes per second
  i64 cache_bytes;
  double launch_s;  // per kernel
  i64 memory_bytes;
} prof_device;
extern const prof_device prof_devices[];
extern const u32 prof_device_count;
// The device of that name in devices.def; NULL when there is none.
const prof_device *prof_device_find(const char *name);

// An estimate of one execution of a module.
typedef struct prof_estimate {
  double time_s;
  i64 peak_bytes;  // live at the same time; INT64_MAX: that much or more
  double flops;
  double bytes;  // read and written
  u32 kernels;   // launches
} prof_estimate;
// naive: every instruction is a kernel, and every intermediate result goes through memory. Fails
// only where the live ranges of the module cannot be computed.
hs_status prof_estimate_module(const hlo_module *, const prof_device *, bool naive,
                               prof_estimate *out);
// Seconds of one execution of an instruction as a kernel of its own, launch included; 0 for those
// that do nothing at run time.
double prof_estimate_instr(const hlo_instr *, const prof_device *);

// What an optimization saves: baseline, factors, and the results.
typedef struct prof_savings {
  double time, memory;                  // the baseline
  double speedup, memory_factor;        // baseline divided by optimized
  double opt_time, opt_memory;          // optimized
  double time_saved, memory_saved;      // differences
  double time_percent, memory_percent;  // of the baseline
} prof_savings;
// Time and memory in any unit, the results in the same. E_USAGE for negative ones, and for factors
// that are not above zero.
hs_status prof_savings_from(double time, double memory, double speedup, double memory_factor,
                            prof_savings *out);

#endif
