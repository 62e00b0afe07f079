// cost.h — what an instruction costs, by XLA's HloCostAnalysis rules, and how much memory a
// module needs. All of these are estimates from shapes; no clock is read here.
#ifndef HLO_COST_H
#define HLO_COST_H

#include "core/ir/ir.h"

// What an instruction computes and moves. Doubles: sums beyond 2^63 lose digits, never wrap.
typedef struct hlo_cost {
  double flops, transcendentals, bytes_read, bytes_written;
} hlo_cost;

typedef struct hlo_cost_table {
  // per instruction id; loops multiplied by their trip count when it is known
  u32 n;
  hlo_cost *by_id;
  double *times;   // how often the instruction runs per execution of the entry
  hlo_cost total;  // entry computation, all called ones included
  // instructions that would be launched: not hlo_moves_nothing, not inside a fusion
  u32 kernels;
  u32 unknown;        // custom-calls and data-dependent loops whose cost is not known
  u32 unknown_loops;  // the loops of these: counted once
} hlo_cost_table;

// Whether running an instruction is no kernel: parameters, constants, tuples and bitcasts, markers,
// a reshape of arrays that lie row by row, a transpose that is only its result's layout.
bool hlo_moves_nothing(const hlo_instr *);
// Whether a convolution is the gradient of a filter: its "window" is the image of the result's
// gradients, the result is the filter, and the window's dilation is the forward stride.
bool hlo_is_filter_gradient(const hlo_instr *convolution);
// Cost of one instruction alone (a fusion: its operands and results move once, its body's flops add
// up).
hlo_cost hlo_cost_instr(const hlo_instr *);
// Costs of all instructions of a module and their sum; freed with hlo_cost_free.
hs_status hlo_cost_module(const hlo_module *, hlo_cost_table *out);
void hlo_cost_free(hlo_cost_table *);
// What XLA's HloCostAnalysis gives for the module: every loop counted once, -1 for each property of
// a custom-call.
typedef struct hlo_xla_cost {
  double flops, transcendentals, bytes;
} hlo_xla_cost;
hlo_xla_cost hlo_cost_xla(const hlo_module *);

// heavy.c: by computation id, whether a fusion of that body is several kernels on a CPU; in the
// arena. The caller polls.
bool *hlo_heavy_bodies(const hlo_module *, hs_arena *);

// trip_count.c: how often a while loop runs, or -1. The pattern form looks at the code only, not at
// known_trip_count, and also says which state element counts (set even when the count is not known;
// 0 for a scalar state), its first value and its step; the pointers may be NULL.
i64 hlo_trip_count(const hlo_instr *while_instr);
i64 hlo_trip_count_pattern(const hlo_instr *while_instr, i64 *element, i64 *start, i64 *stride);
// The same for figures of cost and time, on average over executions: where the text of the loop
// does not say it, what somebody stated in its frontend attributes, as
// frontend_attributes={hlosh.trips="17.5"}; else -1. No rewrite may rely on what is only stated.
#define HLO_TRIPS_KEY "hlosh.trips"
double hlo_expected_trips(const hlo_instr *while_instr);
// States in `to`, another version of the module `from`, what is stated there of loops of the same
// name and stated nowhere in `to`.
void hlo_state_trips(hlo_module *to, const hlo_module *from);

// ---- memory (liveness.c) ------------------------------------------------------------------------
// Bytes; INT64_MAX stands for that much or more.
typedef struct hlo_memory {
  i64 argument_bytes, output_bytes, alias_bytes;  // alias: outputs that reuse donated arguments
  // peak of temporaries, best known schedule, buffers shared
  i64 temp_bytes;
  i64 peak_bytes;  // arguments + outputs - alias + temps
  u32 peak_at;     // id of the instruction at the peak
} hlo_memory;
// naive = true: every intermediate gets a buffer of its own, freed after its last use, nothing in
// place (the baseline).
hs_status hlo_memory_estimate(const hlo_module *, bool naive, hlo_memory *out);
// The same when the computations run in given orders (by computation id; NULL: the schedule, or the
// post order), for n of those. An order that several of them share should be one array: it is then
// looked at once.
hs_status hlo_memory_of_orders(const hlo_module *, u32 n, hlo_instr **const *const *orders,
                               bool naive, hlo_memory *out);

#endif
