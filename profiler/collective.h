// collective.h: how long collective operations take on links between devices.
#ifndef PROF_COLLECTIVE_H
#define PROF_COLLECTIVE_H

#include "profiler/prof.h"

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
// Replicas times partitions; 1 at least.
u32 prof_module_devices(const hlo_module *);
// The partitions among which the arrays are still to be divided: the module says how they are to be
// sharded and nothing in it is between devices yet. 1: it is what one device runs.
u32 prof_module_undivided(const hlo_module *);

#endif
