// meaning.h — does a module still mean the same? Both are evaluated on the same random inputs and
// the results compared, where the evaluator covers the module and the work is bounded.
#ifndef TESTS_HARNESS_MEANING_H
#define TESTS_HARNESS_MEANING_H

#include "core/eval/eval.h"

#include <stdio.h>

typedef enum { MEANS_SAME, MEANS_OTHER, NOT_EVALUATED } meaning;

// Modules of at most this many operations are evaluated (bytes count a quarter).
#define MEANING_WORK 2e8
#define MEANING_SECONDS 5

// A module, its inputs and what it computes from them; value NULL: not evaluated.
typedef struct meaning_side {
  const hlo_module *m;
  hlo_literal **args, *value;
  u32 nargs;
  double seconds;  // of processor that an evaluation may take; 0: MEANING_SECONDS
} meaning_side;
typedef struct meaning_of {
  double work;
  meaning_side narrow, wide;  // wide.m: made when first asked for, NULL when there is none
  bool looked_wide;
} meaning_of;

// work: what may be evaluated, in operations; a module of more has no inputs made either, which
// cost as much as their bytes. seconds: what an evaluation may take, of processor. Inputs are those
// of the text (hlo_inputs_formula), or random ones of seed 7 where it is NULL. m is borrowed;
// released with meaning_close.
void meaning_open(meaning_of *x, const hlo_module *m, const char *inputs, double work,
                  double seconds);
void meaning_close(meaning_of *x);
// Does m, made of the module by these passes, mean the same? *why says where it does not.
meaning meaning_still(meaning_of *x, const hlo_module *m, const char *passes, hs_status *why);
// The same when m runs in another way than by the evaluator, with which it is compared.
typedef hs_status meaning_run(void *arg, const meaning_side *x, const hlo_module *m,
                              hlo_literal **out);
meaning meaning_still_by(meaning_of *x, const hlo_module *m, const char *passes, meaning_run *run,
                         void *arg, hs_status *why);
// Evaluates m on the inputs of x, for the seconds of x at most.
hs_status meaning_value(const meaning_side *x, const hlo_module *m, hlo_literal **out);
// The bounds within which two values of the module count as the same meaning.
hlo_tolerance meaning_tolerance(const hlo_module *m);
// f(f(a,b),c) is f(a,f(b,c)) up to rounding, on numbers that every float type holds, and on NaNs
// too if they count. HLO leaves the grouping of a reduction open, so that one with another f has no
// settled value.
bool meaning_associative(const hlo_computation *f, bool nans);
// Is this status a limit of the evaluator, not a fault of the module?
bool meaning_not_covered(hs_status s);
// All of it for two modules: a difference is reported on `out`.
meaning meaning_compare(const hlo_module *before, const hlo_module *after, const char *passes,
                        FILE *out);

#endif
