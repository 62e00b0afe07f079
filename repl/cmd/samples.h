// samples.h — one small module for each operation and element type (samples.def).
#ifndef REPL_CMD_SAMPLES_H
#define REPL_CMD_SAMPLES_H

#include "core/ir/ir.h"

// The module, verified; the caller's. An error when HLO has no such instruction.
hs_status support_module(hlo_ctx *, hlo_opcode, hlo_dtype, hlo_module **out);

#endif
