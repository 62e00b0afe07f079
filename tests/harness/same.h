// same.h — whether two modules are the same up to names and the order of instructions.
#ifndef TESTS_HARNESS_SAME_H
#define TESTS_HARNESS_SAME_H

#include "core/ir/ir.h"

// Walks both from the entries' roots: equal operations, shapes with layouts, attributes (metadata
// and other annotations aside), literals and called computations, each instruction of one standing
// for one of the other; a may have no more unused instructions than b. False: `why` says
// where they part. Both modules must live in one context. Loosely: layouts, annotations and unused
// instructions are not compared, tuples may be taken apart and put together again, and each user of
// a computation may have a copy.
bool same_modules(const hlo_module *a, const hlo_module *b, bool loose, hs_buf *why);

#endif
