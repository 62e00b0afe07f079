// infer.h — shape inference (XLA's ShapeInference): the shape that an operation gives for its
// operands and attributes.
//
// One rule per name in the `infer` column of ops.def. Results are interned in the context and live
// as long as it; failures carry XLA's wording where its tests look at it.
#ifndef HLO_INFER_H
#define HLO_INFER_H

#include "core/ir/ir.h"

// The shape of an operation with n operands of these shapes. `attrs`, and the computations they
// name, are as on an instruction (NULL: none). `stated` is the written result shape, which some
// rules need; NULL when the text left it out. The result carries no layout. E_ARITY, E_SHAPE,
// E_ATTR, E_LIMIT or E_VERIFY when the operands do not fit; *out is NULL then.
hs_status hlo_infer_shape(hlo_ctx *, hlo_opcode, u32 n, const hlo_shape *const *operands,
                          const hlo_attrs *, const hlo_shape *stated, const hlo_shape **out);
// An inferred shape with the layouts that XLA's inference gives (layout.c), where it gives any; the
// operands' shapes with theirs. Returns `inferred` where it gives none.
const hlo_shape *hlo_infer_layout(hlo_ctx *, hlo_opcode, u32 n, const hlo_shape *const *operands,
                                  const hlo_attrs *, const hlo_shape *inferred);
// hlo_infer_shape for an instruction as it stands, its own shape being the stated one.
hs_status hlo_infer_instr(const hlo_instr *, const hlo_shape **out);

#endif
