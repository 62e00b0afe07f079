// gate.h: the one gate between what is loaded and what works on it.
//
// Readers refuse what has no structure (hlo_op_fits, parse_op.c, proto/read.c): operand counts,
// required attributes, called computations, ids. What has structure but breaks a rule of HLO is
// loaded all the same, as unverified, so that it can be looked at and mended. The code that costs,
// rewrites, compiles or evaluates takes those rules for granted and must never see such a module:
// the dispatcher refuses every command there whose row (commands.def) does not say REPL_ANY_MODULE.
//
// The verdict is kept per version: versions are immutable, so the verifier runs once for each that
// is asked about, and not at all for those that passes made of a valid one, which verify what they
// edit. Edits that are not a version yet are the running command's own affair.
#ifndef REPL_GATE_H
#define REPL_GATE_H

#include "repl/shell/command.h"

// Good when the current version of the module is valid; else the verifier's diagnostics. An
// interrupted verification is that error and gives no verdict.
hs_status repl_verified(repl_module *);
// Whether it is; false for an interrupted verification too.
bool repl_is_verified(repl_module *);
// Whether the running command may work on the current module: E_VERIFY with what works instead,
// then the verifier's diagnostics.
hs_status repl_gate(const repl_cmd *);
// The same for a version of any module that the command compiles, runs or costs.
hs_status repl_gate_version(const repl_cmd *, repl_module *, const repl_version *);
// Of a command that changes the current version: what was invalid before may stay so, with a
// warning; of a valid one the verifier's refusal stands.
hs_status repl_still_invalid(repl_cmd *, hs_status changed);
// The warning on loading an unverified module, with the first of its faults. Says nothing when the
// module is valid; an error only when the verifier was interrupted.
hs_status repl_warn_unverified(repl_cmd *, repl_module *);

#endif
