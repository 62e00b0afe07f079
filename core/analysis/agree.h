// agree.h — do two values of one instruction agree? The comparison of core/types/compare.h with
// what the program says about the value: which of its vectors are determined up to a factor only.
#ifndef HLO_AGREE_H
#define HLO_AGREE_H

#include "core/ir/ir.h"
#include "core/types/compare.h"

// The leaves of the instruction's value that hold eigenvectors or singular vectors as LAPACK gives
// them, moved but not computed with: each vector may be multiplied by any number of modulus 1. In
// the arena.
hlo_phases hlo_phases_of(const hlo_instr *, hs_arena *);

// hlo_compare_leaves and hlo_compare for two values of the instruction, vectors of hlo_phases_of
// compared up to their factors.
hs_status hlo_agree_leaves(const hlo_instr *, const hlo_literal *expected,
                           const hlo_literal *actual, hlo_tolerance, hlo_comparisons *out);
hs_status hlo_agree(const hlo_instr *, const hlo_literal *expected, const hlo_literal *actual,
                    hlo_tolerance);

#endif
