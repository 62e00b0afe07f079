// isolated.h: times of a program's kernels measured one by one, each as a program of its own.
#ifndef REPL_MEASURE_ISOLATED_H
#define REPL_MEASURE_ISOLATED_H

#include "repl/measure/kernels.h"

// Every kernel of the current version (an instruction that is neither free nor calls others) is cut
// out with random operands, compiled by the session's backend and timed alone; those of equal
// structure once. Fills in the recording, with as many runs as the least measured kernel has. A
// kernel that cannot be compiled, or does not fit in memory, is left out and counted. The whole is
// run too, when it fits.
hs_status isolated_record(repl_cmd *, kernel_run *);

#endif
