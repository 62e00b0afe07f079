// calls.h — parts of the call-graph passes that passes of other folders use as well.
#ifndef PASS_CALLS_H
#define PASS_CALLS_H

#include "passes/run/rewrite.h"

// flatten-call-graph as a function. skip_calls: computations whose callers are all call
// instructions stay shared; skip_non_async: those without an asynchronous caller stay shared.
hs_status pass_flatten_calls(pass_ctx *, bool skip_calls, bool skip_non_async);

// Instructions copied out of a called computation, from `first` to the caller itself, take over
// what the caller says: its name as a prefix of theirs and of their origins, and its frontend
// attributes about fusion; `root`, the result, all of those if it has none.
void pass_inherit_from_call(hlo_instr *first, const hlo_instr *caller, const hlo_instr *root,
                            hs_arena *);

// Whether a scalar function can be applied to arrays by lifting each instruction: NULL, or the
// first instruction that cannot be lifted.
const hlo_instr *pass_not_liftable(const hlo_computation *);

#endif
