// apart.h: `speedup` of modules that cannot be run as a whole: their kernels are measured apart.
#ifndef REPL_MEASURE_APART_H
#define REPL_MEASURE_APART_H

#include "repl/measure/subject.h"

// Why the subjects have to be measured apart, hs_alloc'ed text; NULL: they can be run as they are.
// seconds: that all rounds may take; inputs and first runs come on top.
char *apart_reason(repl_cmd *, const comparison *, double seconds);

// The same once a first run has taken longer than it says (comparison.most_first_s).
double apart_most_first_s(const comparison *, double seconds);
char *apart_reason_ran(const comparison *);

// Fills in the subjects' figures: each distinct kernel is timed alone, those that take most of the
// estimated time first, for about `seconds` in all, and a subject's time is the sum over its
// kernels. Memory is as the backend plans it, or by the model. Of a module that is still to be
// partitioned, one device's share.
hs_status apart_measure(repl_cmd *, comparison *, double seconds);

// What the table leaves open: slices, kernels left out. Text, and the member `apart` of a row.
void apart_say(repl_cmd *, const comparison *, const char *reason);
void apart_json(repl_json *row, const subject *);

#endif
