// load.h — private to the readers: instructions added whole to a module that nobody has seen
// yet.
#ifndef HLO_IR_LOAD_H
#define HLO_IR_LOAD_H

#include "core/ir/names.h"

// What hlo_add followed by hlo_set_attrs does, in one go: one allocation, one look at the table of
// names. `attrs` are ordered by id, each once; a parameter's number and a constant's literal are
// among them. The module takes its own references to literals. The instruction becomes its own
// source when `source` is set.
hlo_instr *hlo_load_instr_(hlo_computation *, hlo_opcode, const hlo_shape *, u32 n,
                           hlo_instr *const *operands, hs_str name, u32 nattrs,
                           const hlo_attr *attrs, bool source);

#endif
