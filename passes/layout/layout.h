// layout.h — layouts that make a reshape free, for the passes of this folder.
#ifndef PASS_LAYOUT_H
#define PASS_LAYOUT_H

#include "passes/run/rewrite.h"

// The layout of `to` with which a reshape from `from` (whose layout is l) moves nothing; NULL when
// there is none.
const hlo_layout *pass_layout_aligned(hlo_ctx *, const hlo_shape *from, const hlo_layout *l,
                                      const hlo_shape *to);

#endif
