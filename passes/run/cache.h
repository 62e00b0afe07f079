// cache.h — traversal orders, the call graph and recent edits, found once and kept between passes
// while the module stands as it is.
//
// A pipeline runs a hundred passes, and most change little. An order of instructions holds until
// its computation is edited (hlo_computation.generation), everything about calls until a call is
// (hlo_module.call_generation). What a pass gets is its own copy in its scratch memory, so it may
// edit while it iterates; asked again, the answer is that of the module as it is then.
#ifndef PASS_CACHE_H
#define PASS_CACHE_H

#include "passes/run/pass.h"

// hlo_post_order, ninstrs long.
hlo_instr **pass_post_order(pass_ctx *, const hlo_computation *);
// Operands first, ninstrs long, for passes that find the same in every such order: the list itself
// where that is one.
hlo_instr **pass_any_order(pass_ctx *, const hlo_computation *);
// The instructions of two operations, *n of them, in list order.
hlo_instr **pass_of_op(pass_ctx *, const hlo_computation *, hlo_opcode, hlo_opcode, u32 *n);
// hlo_comp_post_order; *n computations.
hlo_computation **pass_comp_post_order(pass_ctx *, u32 *n);
// hlo_comp_callees_first; *n computations.
hlo_computation **pass_comp_callees_first(pass_ctx *, u32 *n);
// hlo_find_calls, without the callees.
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
// hlo_count_callers.
u32 *pass_caller_counts(pass_ctx *);

// Within a fixpoint most rounds find little left to do. A pass that looks at one instruction and
// what is near it asks what was edited since its last run began, itself included: true, and these
// instructions (each once; dead ones too, whose operands have a user less), or false when it must
// look at everything. It is asked to look at everything once more before the fixpoint ends.
bool pass_edited(pass_ctx *, hlo_instr ***v, u32 *n);

// For the runner.
pass_cache *pass_cache_new(void);
void pass_cache_free(pass_cache *);  // NULL is fine
// The moment a pass begins.
pass_since pass_cache_now(pass_cache *, const hlo_module *);
// Notes what a pass edited: the edits since the mark, if it began at generation `before`.
void pass_cache_note(pass_cache *, const hlo_module *, u64 before, size_t mark);
// Forgets all edits so far: a new fixpoint begins.
void pass_cache_new_era(pass_cache *);

#endif
