// prepare.h — what the worker's program is made of, and what it is called with, where that is not
// what the caller's module says (prepare.c). Private to backends/cpu.
#ifndef CPU_PREPARE_H
#define CPU_PREPARE_H

#include "backends/backend.h"

// The module to compile, the caller's to free; *out: NULL when it is the given one. Otherwise it is
// one without dynamic dimensions, called as passes/dynamic/arguments.h says, or one without unread
// operations that cannot be compiled. E_UNSUPPORTED names the first instruction that is neither.
hs_status cpu_prepare(const backend *, const hlo_module *, hlo_module **out);
// Whether an instruction is about dynamic dimensions: has them, reads or sets a size.
bool cpu_is_dynamic(const hlo_instr *);
// E_UNSUPPORTED naming the first such instruction of the module, or ok.
hs_status cpu_check_static(const backend *, const hlo_module *);
// How many sizes go with values of these shapes.
u32 cpu_dynamic_sizes(u32 n, const hlo_shape *const *shapes);
// Sets the sizes of the arguments: scalars, the caller's. Those in the array already, from the last
// call, stay where they are the same. E_INPUT names the argument that does not fit.
hs_status cpu_dynamic_arguments(hlo_ctx *, u32 n, const hlo_shape *const *shapes, u32 nargs,
                                hlo_literal *const *args, hlo_literal **sizes);
// Of what the static form returned, the result of shape s; takes the reference. `all` is nobody
// else's. Returns it as it is where s has no dynamic dimension.
hlo_literal *cpu_dynamic_result(const hlo_shape *s, hlo_literal *all);

#endif
