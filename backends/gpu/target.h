// target.h — the devices that the gpu backend makes code for, with none of them here.
#ifndef GPU_TARGET_H
#define GPU_TARGET_H

#include "core/base/base.h"

// What limits how many of a kernel's warps one core (SM) of it holds.
typedef struct gpu_target {
  const char *name;            // as in profiler/model/devices.def
  u32 sm;                      // compute capability: 90 is 9.0
  u32 cores, threads, blocks;  // of the device; most of each on one core
  u32 registers, shared;       // of one core; bytes
  // registers of a warp come in such units; bytes of shared memory that each block has reserved
  u32 register_unit, shared_reserved;
} gpu_target;
const gpu_target *gpu_target_find(const char *name);  // "h200", "sm_90", "sm_90a"; NULL: none
// An AMD device that code is made for, to be looked at only: LLVM's name of its chip; NULL: none.
const char *gpu_chip_find(const char *name);
const gpu_target *gpu_target_of_sm(u32 sm);  // NULL: none
// Warps that a core holds at a time over the most that it can, 0 to 1, of a kernel with so many
// threads in a block, registers of a thread, and bytes of shared memory of a block.
double gpu_occupancy(const gpu_target *, u32 threads, u32 registers, u32 shared);

#endif
