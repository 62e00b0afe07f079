// exec.h: what the run and measure commands share: a runnable copy of a module (elided constants
// filled by policy), its arguments, and the compiled program kept between commands.
#ifndef REPL_EXEC_H
#define REPL_EXEC_H

#include "repl/shell/command.h"
#include "repl/shell/inputs.h"

// A private copy of version `v` (NULL: the current one), with elided constants filled; the
// caller's to free (hlo_module_free). The gate's refusal when that version is not valid (gate.h).
// When neither --elided nor `set elided` says how to fill them: E_ELIDED with `insist`, otherwise
// random values and a warning.
hs_status repl_runnable(repl_cmd *, const repl_version *v, bool insist, hlo_module **out);
// The same for writing, of a version that need not be valid.
hs_status repl_filled(repl_cmd *, const repl_version *v, bool insist, hlo_module **out);
// The current version compiled by the given backend, once per version and settings. *out is
// borrowed from the module and valid until it is compiled again.
hs_status repl_compiled(repl_cmd *, const backend *, bool per_instruction, bool insist,
                        repl_exe **out);
// The current version compiled by XLA, for the target when that is a GPU (target.h). Borrowed.
hs_status repl_compiled_xla(repl_cmd *, repl_exe **out);
// For what measures: E_UNSUPPORTED when the evaluator runs instructions that the backend lacks code
// for, unless --allow-fallback (or the setting) says that this is wanted.
hs_status repl_refuse_fallback(const repl_cmd *, const backend *, const backend_compiled *);
// "by the evaluator", "on the host": what runs the instructions that it has no code of its own for.
const char *repl_falls_back_to(const backend *);
// How the session wants modules compiled: threads, deadline in seconds, plug-in and its flags. The
// strings are borrowed from the session.
backend_options repl_backend_options(const repl_session *);
// E_LIMIT when running the module needs more than `set memory_limit`, or without one more than the
// system has to give, with the figures. extra: bytes on top (captures); below 0, what of it is held
// already.
hs_status repl_memory_check(repl_cmd *, const hlo_module *, bool evaluator, i64 extra);

#endif
