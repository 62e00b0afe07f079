// diverge.h — the first instruction on which two backends do not agree.
#ifndef REPL_DIVERGE_H
#define REPL_DIVERGE_H

#include "repl/debug/cut.h"

typedef struct divergence {
  bool found;
  char *name, *opcode, *place;  // place: "body, iteration 3 of %while"; owned
  // the tested backend did not run it: why; NULL when it gave another value
  char *failure;
  hs_buf lines;  // what to say about it
} divergence;

// Runs every instruction of the entry by itself on both backends, each on the operands that the
// evaluator computed, in order of execution, and reports the first whose results are not close;
// inside loops, calls, branches and fusions it goes on in the same way. Operands are the same for
// both, so what is found is the instruction that computes differently, not one whose operands
// differ. When none does, the first value is named that differs as the whole program runs.
// Collectives, random numbers and what talks to the host are left out.
hs_status diverge_find(repl_cmd *, const hlo_module *, const backend *test, const backend *ref,
                       hlo_tolerance, divergence *out);
void divergence_free(divergence *);

#endif
