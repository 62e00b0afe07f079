// fuse.h — fusion outside of a pipeline, for the layers above passes/.
#ifndef PASS_FUSE_H
#define PASS_FUSE_H

#include "core/ir/ir.h"

// Fuses within one computation as the pass `fusion` does. A fusion has the name of the instruction
// that it replaces. Errors: those of hs_poll.
hs_status pass_fuse_body(hlo_computation *);

#endif
