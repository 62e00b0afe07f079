// shrink.h: making a module smaller while a fault remains: what is tried (shrink_edits.c,
// shrink.def), the search (shrink.c, shrink_passes.c), and how candidates are judged
// (shrink_judge.c, shrink_first.c).
#ifndef REPL_SHRINK_H
#define REPL_SHRINK_H

#include "repl/debug/bisect.h"
#include "repl/debug/watch.h"

// A module with its arguments, one per parameter of the entry. Both belong to the case.
typedef struct shrink_case {
  hlo_module *m;
  u32 nargs;
  hlo_literal **args;
} shrink_case;
void shrink_case_free(shrink_case *);

// One way to make a module smaller. Its units are numbered, in an order that depends on the module
// alone; `apply` edits a private copy of the module for the units from..to-1 and says whether it
// did anything. What it makes need not be valid: the search verifies. `alone`: one unit at a time;
// `valid`: only for modules that verify.
typedef struct shrink_edit {
  const char *name, *doing;
  bool alone, valid;
  u32 (*units)(const hlo_module *);
  bool (*apply)(hlo_module *, u32 from, u32 to);
} shrink_edit;
extern const shrink_edit shrink_edits[];
extern const u32 shrink_edit_count;

// Keeps of the entry the instructions from..to-1 of those that compute, in post order (and what
// they use that does not): values from before them become parameters, and the result is the tuple
// of what they compute and do not use among themselves. False, and nothing done, when that is
// nothing.
bool shrink_to_stretch(hlo_module *, u32 from, u32 to);
// How many that are.
u32 shrink_length(const hlo_module *);

// A pipeline, parsed once for all candidates.
typedef struct shrink_pipeline {
  char *text;
  pipeline_program *program;
  pipeline_op *fresh;  // its operations as after parsing
  i64 limit;           // rewrites of each pass; -1: no limit
} shrink_pipeline;

// Where a sequence of candidates stands; each has a meaning of its own for these.
typedef struct shrink_place {
  u32 edit, n, part, start, from, to;
} shrink_place;

// What is tried in place of the best case: another one, or the best one by another pipeline.
typedef struct shrink_candidate {
  const char *doing;
  shrink_case x;           // m NULL: the best one
  shrink_pipeline passes;  // program NULL: those of the search
} shrink_candidate;

// The search. The caller fills in the first part; `best` is the smallest case found so far, which
// still has the fault, also after an error. `valid`: candidates that do not verify are dropped.
typedef struct shrink_search {
  bisect_trial t;            // its condition, backend, tolerance; m, args and want are the search's
  const backend *reference;  // whose result is right; NULL: the evaluator
  // run on each candidate before it is judged (shrink_pipeline_set); NULL: none. Owned by `passes`.
  const char *pipeline;
  bool valid;
  u64 seed;
  double seconds;  // the search ends then; 0: when nothing more goes
  u32 jobs;        // candidates judged at a time; 0: 1
  shrink_case best;
  // ---- results
  char *fault;      // what is wrong with the case given
  u32 tried, kept;  // candidates judged; those that still had the fault
  bool out_of_time;
  // ---- the search's own
  repl_values known;  // values by name: arguments for parameters that stand for them
  bool by_pass;       // the fault is a pass that fails: what the pipeline makes need not be run
  shrink_pipeline passes;
  u64 begin, end;   // ns
  double judged_s;  // how long the first verdict took
  double usual_s;   // how long the last one did
  char *likeness;   // of the fault: verdicts with another one do not count
  bool narrowed;    // no shorter stretch of the entry has the fault
} shrink_search;

// Candidates in the order in which they are to be tried.
typedef struct shrink_sequence shrink_sequence;
struct shrink_sequence {
  // The next one, supposed that none before it has the fault: the best case is as at the start.
  // False when there is none, and after Ctrl-C.
  bool (*next)(const shrink_search *, shrink_sequence *, shrink_candidate *out);
  const void *of;  // what it is made from
  shrink_place at;
};
// Judges the candidates until one has the fault: that is the best one then, *kept, and the sequence
// stands behind it. Fails on Ctrl-C and when the time is up.
hs_status shrink_first(shrink_search *, shrink_sequence *, bool *kept);
// Likewise a single one. Takes it.
hs_status shrink_try(shrink_search *, shrink_candidate *take, bool *kept);

// Sets the pipeline. Fails when the text is none.
hs_status shrink_pipeline_set(shrink_search *, const char *text);
// Runs it on a module, with its limit of rewrites.
hs_status shrink_pipeline_run(shrink_search *, hlo_module *, pass_run_options *);
void shrink_pipeline_free(shrink_pipeline *);
// Makes the pipeline shorter while the best case has the fault. E_DEADLINE when the time is up.
hs_status shrink_passes(shrink_search *);

// The last verdict's slowdown was kept: from now on at least half of it is wanted, up to
// BISECT_CLEARLY_SLOWER. A search that let it fade would end where noise decides.
void shrink_hold_slowdown(shrink_search *);

// Whether a verdict takes a run: without one, no candidate needs arguments.
bool shrink_is_run(const shrink_search *);
// Gives a case arguments: by name where the best one has them or the values are known, else random.
hs_status shrink_find_arguments(const shrink_search *, shrink_case *);
// Whether the case has the fault of the search (any fault, for the first one): *why says which
// (the caller's to free), NULL when it has none or another one. Fails when the work is to stop.
hs_status shrink_judge(shrink_search *, const shrink_case *, char **why);
// Seconds that a verdict may take: many times the first one, and not beyond the end of the search.
double shrink_deadline(const shrink_search *);
// Around what takes as long as a verdict. The command's deadline holds for the verdict on the
// module as it is; those after it have times of their own (the deadline ends the search too), and
// one that is late is no stop.
void shrink_start_clock(const shrink_search *);
void shrink_stop_clock(const shrink_search *);
// Judges the case given (E_DIFFER when it has no fault) and makes it smaller. E_INTERRUPTED leaves
// the best so far.
hs_status shrink_run(shrink_search *);
void shrink_end(shrink_search *);

#endif
