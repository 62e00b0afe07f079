// order.h — does a module sort by something that is no order, or leave open what comes first of
// different elements that its order calls equal? What such a sort gives is up to whoever sorts: no
// two ways need agree. Nor need they where an argmax meets several NaNs: which of them it names is
// up to the order in which it takes its elements, which HLO leaves open. And of two orders of the
// same sum or product one can overflow, or come to 0, on its way to what the other gives.
#ifndef TESTS_HARNESS_ORDER_H
#define TESTS_HARNESS_ORDER_H

#include "core/eval/eval.h"

// Evaluates the module; true when a comparison of one of its sorts is no strict weak order on a
// sample of the values that it sorts, or one that is not stable has ties there, or a top-k that is
// not. False also when it cannot be evaluated.
bool sorts_without_order(const hlo_module *, u32 nargs, hlo_literal *const *args);
// Evaluates the module; true when a reduction of several arrays gives a NaN, or when one of any
// gets NaNs and how it groups them makes a difference.
bool picks_among_nans(const hlo_module *, u32 nargs, hlo_literal *const *args);
// Evaluates the module; true when it takes the bits of a float that is a NaN: its sign and payload
// are up to whoever makes it (IEEE 754, 6.2.3).
bool shows_bits_of_nans(const hlo_module *, u32 nargs, hlo_literal *const *args);
// Evaluates the module; true when it has a Cholesky factor, in a type of less than 32 bits, of a
// matrix that is not positive definite by more than rounding. XLA leaves open what that is
// (Operation Semantics, Cholesky), and a type without NaNs does not show it.
bool factors_indefinite(const hlo_module *, u32 nargs, hlo_literal *const *args);
// A copy of the module whose sums and products of floats take their elements in another order: what
// grows and what shrinks by themselves, and the initial value last; or from the last to the first;
// or round each step to their narrow type; or as the one does that keeps furthest from infinity and
// from nothing on its way.
// NULL: it has none.
typedef enum { GROUPS_APART, GROUPS_TURNED, GROUPS_STEPWISE, GROUPS_UNBOUNDED, GROUPINGS } grouping;
hlo_module *reordered(const hlo_module *, grouping);

#endif
