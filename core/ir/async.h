// async.h — the chain async-start, async-update*, async-done, as the readers, the printer and the
// verifier see it.
#ifndef HLO_ASYNC_H
#define HLO_ASYNC_H

#include "core/ir/ir.h"

// Opcodes with -start and -done opcodes of their own (all-reduce, copy, send ...); for all others
// X-start is short for an async-start around a computation that holds one X.
bool hlo_has_own_async(hlo_opcode);
// The start that a done of one kind of operation (all-reduce, all-gather, collective-permute, copy)
// ends, and the done that ends such a start; HLO_OP_INVALID for all others.
hlo_opcode hlo_start_of(hlo_opcode done);
hlo_opcode hlo_done_of(hlo_opcode start);
// The async-start that a state stems from, followed through updates and whatever else only hands a
// state on (copies, tuples and their elements, loops). NULL when the way is lost: *lost (may be
// NULL) tells whether it left what is followed here (a parameter, say) or ended where no start can
// be.
hlo_instr *hlo_async_origin(hlo_instr *state, bool *lost);
// The computation that an async-start, -update or -done runs; NULL when its start is out of sight.
hlo_computation *hlo_async_wrapped(const hlo_instr *);
// Edit: puts a computation and all that it calls on an execution thread ("main" is the empty one),
// as XLA does when an async-start names it; async-starts inside follow.
void hlo_set_thread_deep(hlo_computation *, hs_str thread);

#endif
