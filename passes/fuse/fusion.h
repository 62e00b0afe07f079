// fusion.h — the plan that the fusion passes work on: which instructions each kernel computes.
// Private to passes/fusion*.c and multi_output_fusion.c.
#ifndef PASS_FUSION_H
#define PASS_FUSION_H

#include "passes/run/pass.h"

// How a kernel reads one of its members: an index class is a chain of data movements from the
// kernel's loops to the member; two users in one class share the value, two classes compute it
// twice.
enum {
  FUSION_MAX_CLASSES = 6,
  FUSION_MAX_OPS = 300,
  FUSION_MAX_INPUTS = 28,
  FUSION_MAX_EXPENSIVE = 48
};
// aligned: the index is the loops themselves. rows: it is the outer loops of this shape only, read
// through a broadcast. outer: so many leading dimensions of an aligned class are the kernel's own
// loops (the others a reduction's). space: behind a reshape, what is aligned are the loops of this
// shape, in their order; NULL: those of the reader. looked_up: the index comes from a gather.
typedef struct fusion_class {
  u64 hash;
  double evals;
  bool aligned, looked_up;
  u32 outer;
  const hlo_shape *rows, *space;
} fusion_class;
typedef struct fusion_member {
  struct fusion_kernel *kernel;
  u32 n;
  fusion_class *c;
} fusion_member;
// by kernel number, ascending
typedef struct fusion_members {
  u32 n;
  fusion_member *v;
} fusion_members;

typedef struct fusion_kernel {
  hlo_instr *root;
  u32 number;          // in order of their start
  fusion_class whole;  // in which the root is computed
  // the reduction that gives the result, NULL when the result is pointwise
  const hlo_instr *reduce;
  u32 row_reduces;              // reductions along the rows, whose results the kernel itself reads
  HS_VEC(hlo_instr *) members;  // root first, users before operands
  u32 ops, expensive;           // counted once per class
} fusion_kernel;

typedef enum fusion_role {
  FUSION_OPAQUE,  // never part of a kernel made here: dot, sort, while, parameters ...
  FUSION_POINT,   // elementwise, data movement, iota, scalar constants
  FUSION_REDUCE,
} fusion_role;
fusion_role pass_fusion_role(const hlo_instr *);
// transcendental, division, ...: not to be computed twice
bool pass_fusion_expensive(const hlo_instr *);
double pass_fusion_eval_ns(const hlo_instr *);  // one element, in a vectorized loop
// streaming from where so many bytes would live
double pass_fusion_move_ns(double bytes);
extern const double pass_fusion_launch_ns;

// A dynamic-update-slice that may be the end of a kernel.
bool pass_fusion_update(const hlo_instr *);
// Whether what could be computed with an update reads what its kernel must not: the update stays
// apart then, and all that makes its part is in one kernel.
bool pass_fusion_reads_beside(const hlo_instr *update);

// The computations whose instructions are launched one by one: entry, loop bodies and conditions,
// branches, calls.
hlo_computation **pass_fusion_computations(hlo_module *, hs_arena *, u32 *n);
// XLA's rules instead of the cost model; cpu: XLA:CPU's too
hs_status pass_fusion_greedy(pass_ctx *, bool cpu, bool may_duplicate);
// work on each of them
hs_status pass_fusion_each(pass_ctx *, hs_status (*work)(pass_ctx *, hlo_computation *));
// Makes the fusion: body, operands, attributes, provenance. `outputs`: members that become results
// (1: no tuple). members: operands before users; everything else they read becomes a parameter.
// Returns the new instruction, placed before `before`.
hlo_instr *pass_fusion_build(hlo_module *, hs_arena *, u32 n, hlo_instr *const *members,
                             u32 noutputs, hlo_instr *const *outputs, i64 kind, hlo_instr *before);

// A fusion of the consumer alone, in its place; named after the producer that it is to take in.
hlo_instr *pass_fusion_start(hlo_module *, hs_arena *, hlo_instr *consumer,
                             const hlo_instr *producer, i64 kind);
// The fusion computes its operand `producer` (its body, if that is a fusion) itself. The producer
// stays; a body that other fusions share is copied first.
void pass_fusion_take_in(hs_arena *, hlo_instr *fusion, hlo_instr *producer);

#endif
