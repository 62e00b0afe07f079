// xla_steps.h: one compilation by the plug-in, observed: the runs of its passes, and the module
// before and after each.
//
// The log has every run with its time, also those that change nothing; the dumps hold the module at
// the start of each pipeline and after each run that changed it. Both are in order of time, so a
// dump belongs to the run of its name that ended between the same two starts of pipelines.
#ifndef REPL_XLA_STEPS_H
#define REPL_XLA_STEPS_H

#include "backends/pjrt/pjrt.h"
#include "repl/shell/command.h"
#include "repl/debug/dump_folder.h"

#define XLA_NO_STATE UINT32_MAX

typedef struct xla_steps {
  pjrt_steps log;  // the runs, in order of their ends
  // by run: number of the state it found and of the one it left; XLA_NO_STATE without dumps
  u32 *from, *to;
  char dir[32];  // folder of the dumps; removed by xla_steps_free
  dump_folder folder;
  const dump_module *dumps;  // the states, in order; NULL when none were written
  double compile_ms;
  const backend *be;  // whose XLA it is
  backend_exe *exe;   // NULL when the compilation failed
  hs_arena arena;
} xla_steps;

// Compiles `m` with the session's plug-in and flags, and `process_flags` (NULL: none); for_target:
// as the xla commands compile (target.h), also for a GPU that is not installed. Returns the status
// of the compilation; what was logged and dumped before a failure is in *out all the same. Call
// xla_steps_free in any case.
hs_status xla_steps_make(repl_cmd *, const hlo_module *m, const char *process_flags,
                         bool for_target, xla_steps *out);
// Reads state number `state` of the dumps; *out is the caller's to free (hlo_module_free).
hs_status xla_steps_read(repl_cmd *, const xla_steps *, u32 state, hlo_module **out);
// The number of states; 0 without dumps.
u32 xla_steps_states(const xla_steps *);
// Whether two names of passes are the same, '-' and '_' alike.
bool xla_same_name(const char *a, const char *b);
// E_NO_PASS: the plug-in runs no such pass, with the nearest name among those it ran and which of
// our passes are left.
hs_status xla_steps_unknown(const repl_cmd *, const xla_steps *, const char *name);
// Frees the steps, the program and the folder of dumps.
void xla_steps_free(xla_steps *);

#endif
