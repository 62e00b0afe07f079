// causes.h: savings --by=pass: what each pass of a pipeline contributes, measured by leaving it
// out.
#ifndef REPL_MEASURE_CAUSES_H
#define REPL_MEASURE_CAUSES_H

#include "repl/cmd/cmd.h"

hs_status causes_by_pass(repl_cmd *);

#endif
