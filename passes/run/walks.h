// walks.h — the orders that passes walk a module in, found once and kept while the module stands
// as it is.
//
// A pipeline runs a hundred passes, and most change little: an order of instructions holds until
// its computation is edited (hlo_computation.generation), everything about calls until a call is
// (hlo_module.call_generation). What a pass gets is its own copy in its scratch memory, so it may
// edit while it walks; asked again, the answer is that of the module as it is then.
#ifndef PASS_WALKS_H
#define PASS_WALKS_H

#include "passes/run/pass.h"

// hlo_post_order, ninstrs long
hlo_instr **pass_post_order(pass_ctx *, const hlo_computation *);
// Operands first, ninstrs long, for passes that find the same in every such order: the list itself
// where that is one.
hlo_instr **pass_any_order(pass_ctx *, const hlo_computation *);
// Those of two operations, as they stand in the list.
hlo_instr **pass_of_op(pass_ctx *, const hlo_computation *, hlo_opcode, hlo_opcode, u32 *n);
// hlo_comp_post_order
hlo_computation **pass_comp_post_order(pass_ctx *, u32 *n);
// hlo_comp_callees_first
hlo_computation **pass_comp_callees_first(pass_ctx *, u32 *n);
// hlo_find_calls, without the callees
hlo_call_list pass_calls(pass_ctx *);
// Who calls what, once per call site: the sites of computation x are sites[start[x->id] ..
// start[x->id + 1]); slot: which one of the instruction's called computations it is (hlo_called's
// order).
typedef struct pass_call_site {
  hlo_instr *i;
  u32 slot;
} pass_call_site;
typedef struct pass_call_sites {
  u32 *start;
  pass_call_site *sites;
} pass_call_sites;
pass_call_sites pass_find_sites(pass_ctx *);
u32 *pass_caller_counts(pass_ctx *);  // hlo_count_callers

// Within a fixpoint most rounds find little left to do. A pass that looks at one instruction and
// what is near it asks what was edited since its last run began, itself included: true, and these
// instructions (each once; dead ones too, whose operands have a user less), or false when it must
// look at everything. It is asked to look at everything once more before the fixpoint ends.
bool pass_edited(pass_ctx *, hlo_instr ***v, u32 *n);

// For the runner. The moment a pass begins, and what its run edited: the edits since the mark, if
// it began at generation `before`.
pass_since pass_walks_now(pass_walks *, const hlo_module *);
void pass_walks_note(pass_walks *, const hlo_module *, u64 before, size_t mark);
// nothing before this matters
void pass_walks_new_era(pass_walks *);

pass_walks *pass_walks_new(void);
void pass_walks_free(pass_walks *);  // NULL is fine

#endif
