// rename.h — a name for an instruction or a computation that somebody else had.
//
// A name stays claimed when its instruction is renamed or removed, so that what passes make never
// looks like what was there before. A user who deletes y and defines y again means y: these give
// the name itself, unless something that is there has it.
#ifndef HLO_IR_RENAME_H
#define HLO_IR_RENAME_H

#include "core/ir/ir.h"

// Like hlo_set_name and hlo_set_computation_name: made unique only against live names.
void hlo_take_name(hlo_instr *, const char *name);
void hlo_take_computation_name(hlo_computation *, const char *name);

#endif
