// verify.h — shape inference and the verifier (XLA's ShapeInference and HloVerifier).
#ifndef HLO_VERIFY_H
#define HLO_VERIFY_H

#include "core/ir.h"

// What shape the operation gives for these operands and attributes: one rule per `infer` column of ops.def. `attrs` and
// the called computations are as on the instruction. `stated` is the written result shape (some rules need it; NULL when
// absent). The result carries no layout.
hs_status hlo_infer_shape(hlo_ctx *, hlo_opcode, u32 n, const hlo_shape *const *operands, const hlo_attrs *, const hlo_shape *stated, const hlo_shape **out);
hs_status hlo_infer_instr(const hlo_instr *, const hlo_shape **out);

typedef struct hlo_verify_options {
  bool layout_sensitive;         // default false
  bool disallow_mixed_precision; // default false
} hlo_verify_options;
// Whole module; the status holds every violation found (at most 20). NULL options: defaults.
hs_status hlo_verify(const hlo_module *, const hlo_verify_options *);
// One computation: what the pass runner calls for computations whose generation moved.
hs_status hlo_verify_computation(const hlo_computation *, const hlo_verify_options *);

#endif
