// live.h — the live ranges that the estimate of memory stands on (liveness.c): which buffers a
// computation has, and at which positions of its schedule each is needed.
#ifndef HLO_LIVE_H
#define HLO_LIVE_H

#include "core/analysis/cost.h"

typedef struct hlo_live_buffer {
  i64 bytes;
  u32 first, last;  // positions, both included
  // parameter, constant: memory that is there before; output: holds a leaf of the result
  bool parameter, constant, output;
} hlo_live_buffer;

// Arrays live in the arena given. The value of order[t] has the leaves leaf_buffer[first_leaf[t]]
// ... [first_leaf[t + 1] - 1]: numbers of buffers. inside[t]: what the computations that it calls
// need on top while it runs. last_use[t]: the last position that reads the value itself. position,
// by instruction id: the t of each; it is the plan's, NULL where that is gone.
typedef struct hlo_live {
  u32 n, nbuffers;
  hlo_instr **order;
  u32 *first_leaf, *leaf_buffer, *last_use;
  i64 *inside;
  const u32 *position;
  hlo_live_buffer *buffers;
} hlo_live;
// The entry, or a computation that runs within its caller's memory: what it is given and gives back
// are parameters and outputs. naive: nothing is shared or in place. poll errors.
hs_status hlo_live_ranges(const hlo_computation *, bool naive, hs_arena *, hlo_live *out);

// What the computations of a module need on top of their callers, found once for all questions that
// follow. The module must not change before it is freed. poll errors.
typedef struct hlo_live_plan hlo_live_plan;
hs_status hlo_live_plan_new(const hlo_module *, bool naive, hlo_live_plan **out);
void hlo_live_plan_free(hlo_live_plan *);
// hlo_memory_estimate and hlo_live_ranges from it, and the schedule of a computation, which is its
// memory.
hs_status hlo_live_plan_memory(hlo_live_plan *, hlo_memory *out);
hlo_instr **hlo_live_plan_order(hlo_live_plan *, const hlo_computation *);
hs_status hlo_live_plan_ranges(hlo_live_plan *, const hlo_computation *, hs_arena *, hlo_live *out);

// Whether leaf `leaf` of an instruction's result may be written into the memory of its operand
// number `operand`, which it reads, when nothing else reads that later.
bool hlo_may_overwrite(const hlo_instr *, u32 leaf, u32 operand);

// Whether a slice or dynamic-slice reads of the operand of a dynamic-update-slice just the part
// that is replaced there.
bool hlo_is_replaced_part(const hlo_instr *slice, const hlo_instr *update);

#endif
