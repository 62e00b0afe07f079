// recompute.h — an estimate of what rematerialization would buy: values that are cheap to make
// again are dropped while the peak passes, and made again before their next use.
#ifndef PASSES_BUFFER_RECOMPUTE_H
#define PASSES_BUFFER_RECOMPUTE_H

#include "core/ir/ir.h"

typedef struct recompute_value {
  const hlo_instr *instr;
  i64 bytes;
  u32 from, to;  // positions of its uses around the gap in which it is not kept
} recompute_value;
typedef HS_VEC(recompute_value) recompute_values;

typedef struct recompute_estimate {
  i64 peak_before, peak_after;  // of temporaries live at once
  double flops, bytes;          // computed and moved once more
  double total_flops;           // of the module as it is
  recompute_values values;      // in the order they were chosen; the caller's to free
} recompute_estimate;

// By the live ranges of the entry computation (core/analysis/live.h). A value may be made again
// when its operation is elementwise, a broadcast, convert, iota, or moves nothing but elements, and
// its operands are still there at the next use or may be kept until then: keeping them counts. At
// the peak of the moment the largest gain is taken, until none lowers the peak. Time is linear in
// the module for each value chosen, of which there are RECOMPUTE_MOST at most. poll errors.
#define RECOMPUTE_MOST 256u
hs_status recompute_find(const hlo_module *, recompute_estimate *out);

#endif
