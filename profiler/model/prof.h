// prof.h: descriptions of devices, and estimates of time and memory. Measured samples and what
// they say: stats.h. How an estimate is made: work.h (what a kernel does), price.h (how long that
// takes on a device), estimate.c (loops, caches and overlap around it).
#ifndef PROF_PROF_H
#define PROF_PROF_H

#include "core/analysis/live.h"
#include "profiler/stats.h"

typedef struct prof_calibration prof_calibration;
typedef enum prof_family { PROF_CPU, PROF_GPU, PROF_TPU } prof_family;

// A device as estimates see it: a row of devices.def, or read from XLA's textproto specs (gpu.h).
// Rates are per second and dense, a multiply-add counted as two; bytes per second in one direction.
typedef struct prof_device {
  const char *name, *summary;
  prof_family family;
  double flops_f32, flops_f64;  // of the vector units
  // of the matrix units; 0: they do not know the type, and the vector units do it
  double matrix_f32, matrix_f64, flops_bf16, matrix_8;
  double transcendentals;
  double bandwidth;  // of the memory
  double cache_bandwidth;
  i64 cache_bytes;
  double launch_s;  // per kernel
  double loop_s;    // per iteration of a loop, above its kernels
  i64 memory_bytes;
  u32 cores;                   // that tiles of a product or blocks of a kernel are dealt to
  u32 tile_m, tile_n, tile_k;  // of a matrix unit: smaller products are padded to it
  const char *link;            // to the devices of the same node
  double link_bandwidth, link_s;
  u32 node;                             // devices of a node
  double network_bandwidth, network_s;  // to other nodes, of one device
  // cpu: what this machine measured, or prof_generic
  const prof_calibration *measured;
  u32 threads;
} prof_device;
extern const prof_device prof_devices[];
extern const u32 prof_device_count;
// The device of that name in devices.def; NULL when there is none.
const prof_device *prof_device_find(const char *name);
// Whether estimates for it rest on measurements of this machine.
bool prof_device_is_calibrated(const prof_device *);

// An estimate of one execution of a module on one device.
typedef struct prof_estimate {
  double time_s;
  // parts of the time of all kernels; where two overlap in a kernel both count
  double memory_s, compute_s, launch_s, network_s;
  double fresh_s;   // memory that a run takes anew, on a processor
  double hidden_s;  // network time behind which kernels ran
  i64 peak_bytes;   // live at the same time; INT64_MAX: that much or more
  double flops;
  double bytes;       // read and written
  u32 kernels;        // launches
  u32 devices;        // that the module runs on together
  u32 here;           // of these, whose work is in the times: one, but on a processor all of them
  u32 parts;          // that everything was divided by, as the module is not partitioned yet
  u32 unknown_calls;  // custom calls that only their bytes are counted of
  u32 unknown_loops;  // loops that nothing says the number of iterations of: PROF_GUESSED_TRIPS
} prof_estimate;

// Iterations of a loop where nothing says how many, as compilers guess them (Wu and Larus, 1994,
// "Static branch frequency and program profile analysis").
enum { PROF_GUESSED_TRIPS = 8 };

// What binds a kernel: the longest of its parts.
typedef enum prof_bound { PROF_MEMORY, PROF_COMPUTE, PROF_LAUNCH, PROF_NETWORK } prof_bound;
const char *prof_bound_text(prof_bound);  // "memory", ...

// The estimate of one execution of one kernel.
typedef struct prof_kernel {
  double seconds;  // all of it
  double memory_s, compute_s, launch_s, network_s;
  double bytes, flops;
  double utilization;  // products: the part of the matrix units' work that is not padding or
                       // waiting for the last tiles; 0: not a product
  prof_bound bound;
  bool unknown;  // a custom call that nothing is known about
} prof_kernel;

// How a module is estimated.
typedef struct prof_options {
  bool naive;   // every instruction is a kernel, and every intermediate result goes through memory
  u32 devices;  // that its collectives span; 0: as many as the module says
  // what the caller has found already of the module as it is; NULL: nothing
  const hlo_cost *cost;  // by instruction id
  hlo_live_plan *plan;   // of memory, naive or not
} prof_options;

// The estimate of a module, kernel by kernel.
typedef struct prof_module {
  prof_estimate total;
  u32 n;
  prof_kernel *kernels;  // by instruction id: one execution of it; zero where it is none
  double *times;         // by instruction id: executions of it in one of the module
} prof_module;
// Freed by prof_module_free. Fails only where the live ranges of the module cannot be computed, and
// when stopped. Allocates nothing of the size of the module's arrays.
hs_status prof_estimate_kernels(const hlo_module *, const prof_device *, const prof_options *,
                                prof_module *out);
void prof_module_free(prof_module *);
// The total of it.
hs_status prof_estimate_module(const hlo_module *, const prof_device *, bool naive,
                               prof_estimate *out);

// One execution of an instruction as a kernel of its own, its operands found where its own bytes
// fit; all zero for those that do nothing at run time.
void prof_estimate_kernel(const hlo_instr *, const prof_device *, prof_kernel *out);
double prof_estimate_instr(const hlo_instr *, const prof_device *);  // its seconds

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

// How long collective operations take on links between devices (collective.c).
typedef enum prof_collective {
  PROF_ALL_REDUCE,
  PROF_ALL_GATHER,
  PROF_REDUCE_SCATTER,
  PROF_ALL_TO_ALL,
  PROF_BROADCAST,
  PROF_PERMUTE
} prof_collective;

// bytes: of the whole array (an all-gather's result, a reduce-scatter's operand) among p devices.
double prof_collective_seconds(prof_collective, double bytes, u32 p, const prof_device *);
// Of an instruction in a module that runs on so many devices.
double prof_collective_instr(const hlo_instr *, u32 devices, const prof_device *);
// Replicas times partitions, as far as the module or its shardings say; 1 at least.
u32 prof_module_devices(const hlo_module *);
// The partitions among which the arrays are still to be divided: the module says how they are to be
// sharded and nothing in it is between devices yet. 1: it is what one device runs.
u32 prof_module_undivided(const hlo_module *);

#endif
