// calls.h — questions about called computations, and steps of the passes over the call graph, for
// the passes above this folder.
#ifndef PASS_CALLS_H
#define PASS_CALLS_H

#include "passes/run/rewrite.h"

// What flatten-call-graph does. skip_calls: computations that only calls name stay shared;
// skip_non_async: so do those that nothing asynchronous runs.
hs_status pass_flatten_calls(pass_ctx *, bool skip_calls, bool skip_non_async);

// Whether a scalar function can be written on arrays instruction by instruction: NULL, or the
// instruction that cannot.
const hlo_instr *pass_not_liftable(const hlo_computation *);

#endif
