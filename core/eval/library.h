// library.h — inside the evaluator: the functions behind customcalls.def and what they
// share.
#ifndef HLO_EVAL_LIBRARY_H
#define HLO_EVAL_LIBRARY_H

#include "core/eval/ops.h"

#define CUSTOM(id, target, shape, eval, cost, flags) \
  hs_status ev_custom_##eval(ev *, const hlo_instr *, hlo_literal **ops, hlo_literal **out);
#include "core/analysis/customcalls.def"
#undef CUSTOM
bool lapack_covers(hs_str target);  // lapack.c; false without LAPACKE

// Results as the instruction's shape wants them: alone, or in front of scratch space in a tuple.
// Takes the references, also when it fails.
hs_status ev_pack_results(const hlo_instr *, u32 n, hlo_literal *const *r, hlo_literal **out);

// linalg.c. (x, scale, offset) -> (y, mean, variance); (x, scale, offset, mean, variance) ->
// y; (x, scale, mean, variance, gradient of y) -> gradients of x, scale, offset. `inverse`: 1 /
// sqrt(variance + eps) is given for the variance.
hs_status ev_norm_training(ev *, const hlo_instr *, u32 n, hlo_literal *const *ops, i64 feature,
                           double eps, bool inverse, hlo_literal **out);
hs_status ev_norm_inference(ev *, const hlo_instr *, u32 n, hlo_literal *const *ops, i64 feature,
                            double eps, hlo_literal **out);
hs_status ev_norm_gradient(ev *, const hlo_instr *, u32 n, hlo_literal *const *ops, i64 feature,
                           double eps, bool inverse, hlo_literal **out);

// dot.c: a dot of two arrays with these dimension numbers, rounded to the result's type. Without
// a result when it fails, as the convolution below.
typedef struct ev_dims {
  hlo_ints lhs_batch, rhs_batch, lhs_contracting, rhs_contracting;
} ev_dims;
hs_status ev_dot(ev *, const ev_dims *, hlo_literal *const *ops, const hlo_shape *result,
                 hlo_literal **out);
// An operand times its scale, which covers blocks of it, as f32 in its place.
hs_status ev_apply_scale(ev *, hlo_literal **op, const hlo_literal *scale);
// dot.c: a convolution with these dimensions; `out` has the result's shape.
typedef struct ev_conv {
  const hlo_dim_labels *labels;
  const hlo_window *window;
  i64 groups, batches;
} ev_conv;
hs_status ev_convolve(ev *, const hlo_instr *, const ev_conv *, hlo_literal *const *ops,
                      const hlo_shape *result, hlo_literal **out);
// ragged.c: any ragged-dot of real numbers.
hs_status ev_ragged_dot(ev *, const hlo_instr *, hlo_literal *const *ops, hlo_literal **out);
// dot.c: both operands of a convolution in full, as new references.
hs_status ev_sparse_operands(ev *, const hlo_instr *, hlo_literal *const *ops,
                             hlo_literal *dense[2]);

// Set the sizes of a result with dynamic dimensions (sizes.c).
void ev_dot_sizes(const ev_dims *, hlo_literal *const *ops, hlo_literal *out);
void ev_conv_sizes(const ev_conv *, hlo_literal *const *ops, hlo_literal *out);

#endif
