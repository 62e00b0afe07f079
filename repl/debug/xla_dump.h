// xla_dump.h — the states of a module as files, named as by XLA (xla/service/dump.cc):
// MODULE.before_optimizations.txt, MODULE.NNNN.PIPELINE.after_PASS.before_NEXT.txt where a pipeline
// starts and for each pass that changed something, and MODULE.after_optimizations.txt, where MODULE
// is module_NNNN.NAME. NNNN counts the files of a module; NEXT is the pass that follows in the
// pipeline, whether it runs or not. Which states, and in which formats, XLA's flags say.
#ifndef REPL_XLA_DUMP_H
#define REPL_XLA_DUMP_H

#include <regex.h>

#include "repl/debug/xla_flags.h"
#include "repl/shell/command.h"

typedef struct xla_dump {
  const char *dir, *key;        // dir NULL: no dumps; key: MODULE
  const repl_xla_flags *flags;  // NULL: all states, as text
  bool each;                    // every pass's state, of those that `passes` finds
  regex_t passes;
  bool has_passes;
  u32 step, files;
  hs_status failed;
} xla_dump;

// Into `dir`, all states as text; NULL: as the session's flags say, which may be not at all.
// E_USAGE when the folder holds dumps of the module already, or a regular expression is none.
hs_status xla_dump_open(repl_cmd *, const char *dir, xla_dump *);
void xla_dump_before(xla_dump *, const hlo_module *);
void xla_dump_event(xla_dump *, const hlo_module *, const pipeline_event *);
// The last state, if `ok`; returns the first failure of the dump and frees what it holds.
hs_status xla_dump_close(xla_dump *, const hlo_module *, bool ok);

#endif
