// cache.h — traversal orders, the call graph and recent edits, computed once and kept between
// passes until the module changes.
//
// A pipeline runs a hundred passes, and most change little. An order of instructions stays valid
// until its computation is edited (hlo_computation.generation), the call graph until a call is
// (hlo_module.call_generation). A pass receives its own copy in its scratch memory, so it may edit
// while it iterates; a later query describes the module at that time.
#ifndef PASS_CACHE_H
#define PASS_CACHE_H

#include "passes/run/pass.h"

// hlo_post_order, ninstrs long.
hlo_instr **pass_post_order(pass_ctx *, const hlo_computation *);
// Some topological order (operands first), ninstrs long, for passes whose result is the same in all
// of them: the list order where that is topological.
hlo_instr **pass_any_order(pass_ctx *, const hlo_computation *);
// The instructions with one of two opcodes, *n of them, in list order; NULL when there are none.
hlo_instr **pass_of_op(pass_ctx *, const hlo_computation *, hlo_opcode, hlo_opcode, u32 *n);
// hlo_comp_post_order; *n computations.
hlo_computation **pass_comp_post_order(pass_ctx *, u32 *n);
// hlo_comp_callees_first; *n computations.
hlo_computation **pass_comp_callees_first(pass_ctx *, u32 *n);
// hlo_find_calls, but without the lists of callees.
hlo_call_list pass_calls(pass_ctx *);
// The call sites of each computation x: sites[start[x->id] .. start[x->id + 1]). slot: index among
// the instruction's called computations (hlo_called's order).
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

// In a fixpoint most rounds find little left to do. A pass of local rules can restrict itself to
// the instructions edited since its last run began, by itself or by others: true, and these
// instructions (each once; dead ones too, because their operands lost a user), or false when it
// must visit everything. The fixpoint ends only after a round in which every pass visited
// everything.
bool pass_edited(pass_ctx *, hlo_instr ***v, u32 *n);

// ---- for the runner -----------------------------------------------------------------------------
pass_cache *pass_cache_new(void);
void pass_cache_free(pass_cache *);  // NULL is fine
// The point in the record of edits at which a pass begins.
pass_since pass_cache_now(pass_cache *, const hlo_module *);
// Records the edits of a pass, those since the journal mark, if it began at generation `before`.
void pass_cache_note(pass_cache *, const hlo_module *, u64 before, size_t mark);
// Clears the record of edits: a new fixpoint begins.
void pass_cache_new_era(pass_cache *);

#endif
