// arguments.h — dynamic_padder for a caller that hands sizes over itself, as a backend does.
#ifndef PASS_DYNAMIC_ARGUMENTS_H
#define PASS_DYNAMIC_ARGUMENTS_H

#include "passes/run/pass.h"

// In no list of passes, for it changes what the module is called with: the size of each dynamic
// dimension of the parameters is an s32 parameter behind all others, those of the result are s32
// elements behind the result's own elements (or behind the result, where that is no tuple). Order:
// parameters, leaves of each, dimensions of each. Leaves the module as it is, with a note, when an
// operation in it has no static form.
extern const pass_info pass_dynamic_arguments;

// Whether there is a rule for an instruction with dynamic dimensions; of what it does with them the
// rule may still not cover all.
bool pass_dynamic_covers(const hlo_instr *);

#endif
