// resize_rules.h — what the rules of resize.def work on. Private to resize.c and resize_rules.c.
//
// Every dimension of every leaf of every value is a *node*: an index into `old` (its size in the
// module) and `now` (its new size; 0 as long as nothing has changed it). A rule looks at the nodes
// of one instruction and its operands and sets what follows; setting a node puts the instructions
// that look at it on the worklist again.
#ifndef PASSES_BUFFER_RESIZE_RULES_H
#define PASSES_BUFFER_RESIZE_RULES_H

#include "passes/buffer/resize.h"

#define NO_NODE UINT32_MAX

typedef HS_VEC(hlo_instr *) resize_instrs;

typedef struct resizer {
  hlo_module *m;
  hs_arena arena;
  u32 **first;  // per instruction id: its leaves' first nodes, and one behind the last
  HS_VEC(i64) old, now;
  // Per changed node: which part of it grows. A dimension that was merged from several, of which
  // one is resized, grows between the elements `low` and `high` apart: 1 and its size when it is
  // that one, 64 and 64 * 8 when it is 8 of them with 64 inside.
  HS_VEC(i64) low, high;
  resize_instrs owner;  // per node
  resize_instrs queue;
  bool *queued;  // per instruction id
  hlo_call_list calls;
  resize_instrs *callers;  // per computation id
  i64 from;                // the old size of what the user resizes
  bool choosing;           // rules may decide where the module leaves a choice
  hs_status failed;        // the first conflict
  const hlo_instr *at;     // whose rule runs
} resizer;

// Looks at an instruction of the rule's operation.
typedef void resize_rule(resizer *, hlo_instr *);
// Edits the attributes that hold sizes; the new shape is set already, and `now` says what changed.
// False when they cannot follow.
typedef bool resize_edit(resizer *, hlo_instr *);
// By the rows of resize.def; NULL: what has changed operands or results of this operation is
// refused.
resize_rule *resize_rule_of(const hlo_instr *);
resize_edit *resize_edit_of(const hlo_instr *);
// The same for a custom call, as long as its shapes are the old ones.
resize_rule *resize_custom_rule(const hlo_instr *);
// Whether that rule is `batch`.
bool resize_custom_is_batch(const hlo_instr *);

static inline u32 node_of(const resizer *r, const hlo_instr *i, u32 leaf, u32 dim) {
  return r->first[i->id][leaf] + dim;
}
static inline u32 leaf_rank(const resizer *r, const hlo_instr *i, u32 leaf) {
  return r->first[i->id][leaf + 1] - r->first[i->id][leaf];
}
// The size that a node has, as far as is known.
static inline i64 size_at(const resizer *r, u32 node) {
  return r->now.v[node] ? r->now.v[node] : r->old.v[node];
}
static inline bool changed(const resizer *r, u32 node) { return r->now.v[node] != 0; }
// The only ways to give a node a size. A second, other size for it is a conflict. resize_set: all
// of it grows.
void resize_set_part(resizer *, u32 node, i64 size, i64 low, i64 high);
void resize_set(resizer *, u32 node, i64 size);
// A shape with the new sizes of an instruction's leaves, from leaf *leaf on, which moves on;
// layouts stay.
const hlo_shape *resize_shape(resizer *, const hlo_shape *, const hlo_instr *, u32 *leaf);
// resize_loops.c: what loops over the dimension that is resized to `to` say is as long; and, when
// all sizes are known, their bounds: each constant that it changes is added to the list.
void resize_tie_loops(resizer *, i64 to);
void resize_bound_loops(resizer *, i64 to, resize_constants *);

#endif
