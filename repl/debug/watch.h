// watch.h: evaluation under observation: values captured by name, a trap for the first NaN or
// infinity, progress, Ctrl-C, and the memory limit.
#ifndef REPL_WATCH_H
#define REPL_WATCH_H

#include "repl/shell/exec.h"

// What to look for. Patterns are shell globs over instruction names, with or without %, separated
// by commas.
typedef struct watch_options {
  const char *capture;  // NULL: nothing
  // of the innermost loop around an instruction; -1: keep the last one
  i64 iteration;
  u32 trap;        // HLO_HAS_NAN, HLO_HAS_INF
  hlo_host *host;  // what infeed, outfeed and host transfers use; NULL: nothing
} watch_options;

// "nan", "inf", "nan,inf" -> bits.
hs_status watch_trap_kinds(const repl_cmd *, const char *text, u32 *out);

// Evaluates `m` (a private copy of the current version) on the module's arguments. What is captured
// goes to *values (a new set; may be NULL when nothing is captured). E_TRAP says which instruction
// made the first NaN or infinity, of which operands, where; the JSON document gets the same.
hs_status watch_run(repl_cmd *, const hlo_module *m, const watch_options *, repl_values *values,
                    hlo_literal **out);
// Whether a name matches one of the patterns.
bool watch_matches(const char *patterns, const char *name);

// ---- values kept from the last run --------------------------------------------------------------
// Keeps a value (a reference) under a name, replacing an earlier one of that name; `place` is
// copied.
void repl_values_keep(repl_values *, const char *name, const hlo_literal *, const char *place);
// The value kept under a name, borrowed; NULL when there is none.
const repl_kept *repl_values_find(const repl_values *, const char *name);

#endif
