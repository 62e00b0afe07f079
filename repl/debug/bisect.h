// bisect.h — verdicts on a module, for the searches of `bisect`: through our pipelines
// (cmd/bisect.c) and through the plug-in's (bisect_xla.c).
#ifndef REPL_BISECT_H
#define REPL_BISECT_H

#include "repl/shell/exec.h"

typedef enum bisect_kind {
  BISECT_MISMATCH,
  BISECT_NAN,
  BISECT_CRASH,
  BISECT_INVALID,
  BISECT_SLOWER,
  BISECT_BIGGER,
  BISECT_SCRIPT
} bisect_kind;

#define BISECT_MUCH_SLOWER 1.1     // slowdowns below this factor count as noise
#define BISECT_CLEARLY_SLOWER 2.0  // from this factor on, one verdict is enough

typedef struct bisect_trial {
  repl_cmd *c;
  bisect_kind kind;
  const char *changes, *script;  // "changes the result"; the script's words
  hlo_module *m;                 // judged
  u32 nargs;
  hlo_literal *const *args;
  const backend *be;  // NULL: the evaluator
  bool backend_only;  // the plug-in's code generator alone
  bool compile_only;  // CRASH: nothing is run
  hlo_literal *want;  // MISMATCH, NAN: the original's result; NAN: NULL when there is none
  bool results_only;  // MISMATCH: a run that fails is no verdict, instead of a bad one
  hlo_tolerance tol;
  // executions per verdict, each of which must be good; 0: one, repeated when it is bad
  u32 tries;
  bool steady;     // a bad verdict of one execution is enough
  bool unanimous;  // of the last verdict: every execution gave it
  double before;   // SLOWER: seconds, BIGGER: bytes, before the pass on trial
  // SLOWER: what the module is timed against, in turns, which sets `before`; NULL: `before` stands
  const backend *rival_be;
  backend_exe *rival;
  // SLOWER: whether the program that was timed last is kept, to be the next one's rival
  // (bisect_accept); it is here until then
  bool keeps;
  backend_exe *timed;
  double much;  // SLOWER: the factor from which it counts, when above BISECT_MUCH_SLOWER
  double now;   // the same, as last judged
} bisect_trial;

// The condition that a word names; false when it names none.
bool bisect_condition(const char *word, bisect_kind *kind, const char **changes);
// Whether any element is NaN.
bool bisect_has_nan(const hlo_literal *);
// The word for a condition; NULL for a script.
const char *bisect_condition_text(bisect_kind);
// Whether a word begins like a pipeline: with a pass, a pipeline or fix(. What it is beyond that,
// parsing says.
bool bisect_is_pipeline(const repl_cmd *, const char *word);
// Judges t->m. *wrong says why it is bad (hs_alloc'ed, the caller's to free); NULL when it is good.
// A bad verdict must be given by the majority of several executions, unless the fault is known to
// be steady; conditions that only inspect the module are judged once. Fails on an interrupt, or
// when a file cannot be written.
hs_status bisect_judge(bisect_trial *t, char **wrong);
// Takes the state that was judged good as what the next one is compared with.
void bisect_accept(bisect_trial *);
// Frees the programs of a trial that keeps them.
void bisect_forget(bisect_trial *);
// Judge a result, or the measure in t->now, that was obtained elsewhere. They return why it is bad
// (the caller's to free), or NULL, and take no reference.
char *bisect_wrong_result(const bisect_trial *t, const hlo_literal *got);
char *bisect_wrong_measure(const bisect_trial *t);
// Seconds of one execution in the steady state; also runs it for the first time.
hs_status bisect_time(const backend *, backend_exe *, u32 nargs, hlo_literal *const *args,
                      double *seconds);

// bisect xla-passes: the trial has its condition; its module is a runnable copy of the current
// version.
hs_status bisect_xla(bisect_trial *t);

#endif
