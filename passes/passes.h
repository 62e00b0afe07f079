// passes.h — the built-in passes and pipelines, for the layers above passes/.
#ifndef PASSES_PASSES_H
#define PASSES_PASSES_H

#include "passes/run/pass.h"

// All of passes.def and pipelines.def.
extern const pass_registry pass_builtin;

// The default options: built-in names, verification and totals on, no limit on rewrites.
pass_run_options pass_run_default(void);

// Runs the pass on its sample; both texts are short and can be parsed. Errors: those of pass_run.
hs_status pass_sample(const pass_info *, hs_buf *before, hs_buf *after);

#endif
