// order.h — does a module sort by something that is no order, or leave open what comes first of
// different elements that its order calls equal? What such a sort gives is up to whoever sorts: no
// two ways need agree. Nor need they where an argmax meets several NaNs: which of them it names is
// up to the order in which it takes its elements, which HLO leaves open.
#ifndef TESTS_HARNESS_ORDER_H
#define TESTS_HARNESS_ORDER_H

#include "core/eval/eval.h"

// Evaluates the module; true when a comparison of one of its sorts is no strict weak order on a
// sample of the values that it sorts, or one that is not stable has ties there. False also when it
// cannot be evaluated.
bool sorts_without_order(const hlo_module *, u32 nargs, hlo_literal *const *args);
// Evaluates the module; true when a reduction of several arrays gives a NaN.
bool picks_among_nans(const hlo_module *, u32 nargs, hlo_literal *const *args);

#endif
