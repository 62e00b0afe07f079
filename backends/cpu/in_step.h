// in_step.h — several devices that run a program's steps in step, whatever they are: the cpu's
// virtual ones (exec.c), GPUs (backends/gpu/lanes.c).
//
// A step is run for each device that is `here`, before the next step. Where devices decide
// differently, those that do not take a branch, or have left a loop, are away until the others are
// through: a collective there that waits for them is a deadlock, as it is on real devices.
#ifndef CPU_IN_STEP_H
#define CPU_IN_STEP_H

#include "backends/cpu/cpu.h"

typedef struct cpu_in_step {
  u32 n;
  bool *here;  // which devices; n of them
  void *ctx;
  // Gives a loop its initial values on one device.
  hs_status (*enter)(void *ctx, u32 device, cpu_step *);
  // Of a loop: whether the device goes on. Of a conditional: the number of its branch.
  hs_status (*decide)(void *ctx, u32 device, const cpu_step *, i64 *out);
  hs_status (*block)(void *ctx, cpu_block *);  // on all that are here
  hs_status (*moves)(void *ctx, u32 device, const cpu_moves *);
} cpu_in_step;

// trips: iterations of a loop that are known; -1: its condition decides.
hs_status cpu_while_in_step(const cpu_in_step *, cpu_step *, i64 trips);
hs_status cpu_branches_in_step(const cpu_in_step *, cpu_step *);
// The error for a collective that not all of its devices come to: takes `deadlock`, and gives it
// back unless there is another place where real devices would meet, which is not done here.
hs_status cpu_did_not_meet(const hlo_module *, const hlo_instr *, hs_status deadlock);

#endif
