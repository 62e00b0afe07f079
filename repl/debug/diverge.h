// diverge.h — the first instruction on which two backends do not agree.
#ifndef REPL_DIVERGE_H
#define REPL_DIVERGE_H

#include "repl/debug/cut.h"

typedef struct divergence {
  bool found;
  char *name, *opcode, *place;  // place: "body, iteration 3 of %while"; owned
  // the tested backend did not run it: why; NULL when it gave another value
  char *failure;
  hs_buf lines;  // the report
} divergence;

// Runs every instruction of the entry by itself on both backends, each on the operands that the
// evaluator computed, in order of execution, and reports the first whose results are not close; it
// continues in the same way inside loops, calls, branches and fusions. Operands are the same for
// both, so what is found is the instruction that computes differently, not one whose operands
// differ. When none does, the first value is named that differs as the whole program runs.
// Collectives, random numbers and communication with the host are left out. *out is the caller's to
// free (divergence_free), also on failure.
hs_status diverge_find(repl_cmd *, const hlo_module *, const backend *test, const backend *ref,
                       hlo_tolerance, divergence *out);
void divergence_free(divergence *);

#endif
