// clean.h — dce and tuple-simplifier as functions, for passes that leave unused values or tuples
// behind.
#ifndef PASS_CLEAN_H
#define PASS_CLEAN_H

#include "passes/run/rewrite.h"

hs_status pass_remove_unused(pass_ctx *);  // dce with its default options
hs_status pass_simplify_tuples(pass_ctx *, bool skip_entry);

#endif
