// widen.h — a module in wide arithmetic: every f16, bf16 and 8- or 4-bit float of it becomes f32.
#ifndef TESTS_HARNESS_WIDEN_H
#define TESTS_HARNESS_WIDEN_H

#include "core/eval/eval.h"

// Does an instruction of m have a float type narrower than f32?
bool widen_has_narrow(const hlo_module *m);
// A new module in the context of m, released with hlo_module_free. NULL where bits of a narrow type
// are looked at (bitcasts), or the module is not valid in wide types.
hlo_module *widen_module(const hlo_module *m);
// A value with the shape s that it has in the wide module; *out is the caller's reference.
hs_status widen_literal(const hlo_literal *l, const hlo_shape *s, hlo_literal **out);

#endif
