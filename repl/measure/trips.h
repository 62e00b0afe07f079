// trips.h — counting the iterations of loops whose text does not say them.
#ifndef REPL_TRIPS_H
#define REPL_TRIPS_H

#include "core/eval/eval.h"
#include "repl/shell/out.h"

// Whether the module has a loop of which neither its text nor anybody has said how often it runs.
bool trips_unknown(const hlo_module *);
// Runs the module in the evaluator on the arguments and states, for each loop that ran and whose
// text says nothing, its iterations on average of a run (HLO_TRIPS_KEY). out: where progress goes;
// NULL: none is shown. Fails as the evaluator does.
hs_status trips_count(hlo_module *, u32 nargs, hlo_literal *const *args, bool keep_denormals,
                      repl_out *out);

#endif
