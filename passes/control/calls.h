// calls.h — call graphs, for passes that need every computation to have one caller.
#ifndef PASS_CALLS_H
#define PASS_CALLS_H

#include "passes/run/util.h"

// What flatten-call-graph does. skip_calls: computations that only calls name stay shared;
// skip_non_async: so do those that nothing asynchronous runs.
hs_status pass_flatten_calls(pass_ctx *, bool skip_calls, bool skip_non_async);

#endif
