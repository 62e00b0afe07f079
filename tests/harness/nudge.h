// nudge.h — values moved in their last places: what a result does when its inputs move by as
// little as a rounding says whether rounding decides it.
#ifndef TESTS_HARNESS_NUDGE_H
#define TESTS_HARNESS_NUDGE_H

#include "core/ir/ir.h"
#include "core/types/literal.h"

// The value with each floating-point number moved up or down by the share `by` of it, or by two
// units in the last place where that is more; a zero gets a sign by chance. A new reference.
hlo_literal *nudge_literal(const hlo_literal *, double by, u64 *state);
// A copy of the module in which factorizations and solutions of linear systems (cost class LINALG,
// and the library calls that are such) work on operands moved by so much. NULL: it has none.
hlo_module *nudge_module(const hlo_module *, double by, u64 *state);

#endif
