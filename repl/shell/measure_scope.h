// measure_scope.h — the names that expressions know: of an instruction (find), of a module
// (assert, until).
#ifndef REPL_MEASURE_SCOPE_H
#define REPL_MEASURE_SCOPE_H

#include "repl/shell/command.h"
#include "repl/shell/expr.h"

typedef struct repl_instr_scope {
  const hlo_instr *i;
  hs_arena *scratch;
  const hlo_cost_table *cost;  // NULL: the module may not be costed
  bool lacked_cost;            // set when a name needed it all the same
  const prof_device *device;
} repl_instr_scope;
// The names that an expression about one instruction knows. Borrows the scope's fields; texts are
// made in scratch.
repl_scope repl_scope_of_instr(repl_instr_scope *);

typedef struct repl_module_scope {
  const hlo_module *m;
  const prof_device *device;
  u32 version;
  pass_totals totals;
  hlo_memory memory;
  const prof_interval *measured;  // the speedup last measured; NULL: none
  bool lacked_measurement;        // set when a name needed it all the same
} repl_module_scope;
// Measures the module: cost totals and memory, with `device` for times. Borrows the module.
hs_status repl_module_scope_open(repl_module_scope *, const hlo_module *, const prof_device *,
                                 u32 version);
// The names that an expression about a module knows; borrows the opened scope.
repl_scope repl_scope_of_module(repl_module_scope *);

#endif
