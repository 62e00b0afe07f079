// lapack.h — JAX's LAPACK custom calls ("lapack_spotrf_ffi" and so on) for the evaluator.
#ifndef HLO_LAPACK_H
#define HLO_LAPACK_H

#include "core/eval_ops.h"

bool lapack_covers(hs_str target);       // always false without LAPACKE
hs_status lapack_call(ev *, const hlo_instr *, hlo_literal **ops, hlo_literal **out);

#endif
