// cut.h: modules made from parts of a module: one with further results, or single instructions
// between parameters and results.
#ifndef REPL_CUT_H
#define REPL_CUT_H

#include "repl/debug/watch.h"

// Edits `m`, a private copy: its entry then returns a tuple of its former result and the n given
// instructions of the entry.
void cut_add_results(hlo_module *m, u32 n, hlo_instr *const *more);

// Edits of a private copy. They remove attributes about the entry's arguments and results...
void cut_drop_result_attrs(hlo_module *);
// ...the computations that nothing calls...
void cut_drop_uncalled(hlo_module *);
// ...and with those the instructions and parameters of the entry that the root does not need.
void cut_clean(hlo_module *);

// A new module that computes the chosen instructions of one computation, each from parameters: one
// per distinct operand (constants stay), in *operands by parameter number (hs_alloc'ed;
// instructions of the given module). Its result is the tuple of the chosen ones, or the value
// itself when `bare` and n is 1.
hs_status cut_instructions(const hlo_module *, u32 n, hlo_instr *const *chosen, bool bare,
                           hlo_module **out, u32 *noperands, const hlo_instr ***operands);

// A new module, the caller's, whose entry is a computation of the given one.
hlo_module *cut_computation(const hlo_module *, const hlo_computation *);

// Values of a compiled program's instructions: those of the entry from a copy that has them as
// further results (what a backend fuses over may then be compiled otherwise), those of other
// computations from the evaluator.
hs_status cut_capture(repl_cmd *, repl_exe *, const watch_options *, repl_values *);

// Compiles and runs a module once; *out is the caller's reference.
hs_status cut_run(repl_cmd *, const backend *, const hlo_module *, u32 n, hlo_literal *const *args,
                  hlo_literal **out);

#endif
