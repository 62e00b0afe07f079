// same.h — whether two modules are the same up to names and the order of instructions.
#ifndef TESTS_HARNESS_SAME_H
#define TESTS_HARNESS_SAME_H

#include "core/ir/ir.h"

// Walks both from the entries' roots: equal operations, shapes with layouts, attributes (metadata
// and other annotations aside), literals and called computations, each instruction of one standing
// for one of the other; a may have no more unused instructions than b. False: `why` says
// where they part. Both modules must live in one context.
bool same_modules(const hlo_module *a, const hlo_module *b, hs_buf *why);

#endif
