// priority.h — the cost model and the legality of priority-fusion. Private to
// passes/fuse/priority*.c.
#ifndef PASS_PRIORITY_H
#define PASS_PRIORITY_H

#include "passes/fuse/fusion.h"
#include "passes/run/rewrite.h"

// What decides about the code of a kernel (XLA's emitter kinds, from the "hero" of its result).
typedef enum priority_kind {
  PRIORITY_LOOP,
  PRIORITY_REDUCTION,
  PRIORITY_TRANSPOSE,
  PRIORITY_SCATTER,
} priority_kind;

// One operand of a kernel. times: evaluations of it, divided by its elements. copies: how often the
// code would contain it.
typedef struct priority_read {
  double times;
  u32 copies;
  bool scattered;  // neighbouring threads read from far apart
} priority_read;

// An instruction, or a fusion, as a kernel of its own.
typedef struct priority_kernel {
  priority_kind kind;
  double ops;            // operations, an addition is 1
  double threads;        // that can work at the same time
  u32 size, splits;      // of the code: operations, and blocks of it
  bool reduces;          // many elements to one, somewhere in it
  bool scatters;         // a scatter somewhere in it
  bool foreign;          // holds what no kernel made here does, such as a dot
  priority_read *reads;  // by operand
} priority_kernel;

bool priority_is_bitcast(const hlo_instr *);  // one that a kernel may contain
bool priority_fusible(const hlo_instr *);
bool priority_is_triton(const hlo_instr *);  // a fusion for XLA's Triton emitter
// What is looked at is valid until the instruction changes; the arrays are in the arena.
priority_kernel priority_look(const hlo_instr *, hs_arena *);
// The kind of the kernel that computes the producer inside the consumer.
priority_kind priority_kind_of(const hlo_instr *consumer, const hlo_instr *producer);
// Whether the operand of a scatter that the result is written over would not stay what it is.
const char *priority_scatter_refuses(const hlo_instr *producer, const hlo_instr *consumer);
// Why the kernel must not compute the producer itself; NULL: it may. slot: of the producer.
const char *priority_refuses(const hlo_instr *producer, const priority_kernel *,
                             const hlo_instr *consumer, const priority_kernel *, u32 slot,
                             hs_arena *);
// Seconds on the device, without the launch: of a kernel, and of one with a producer in it.
double priority_time(const hlo_instr *, const priority_kernel *);
double priority_time_fused(const hlo_instr *producer, const priority_kernel *,
                           const hlo_instr *consumer, const priority_kernel *, u32 slot);
extern const double priority_launch_s;

#endif
