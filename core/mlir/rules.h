// rules.h — the rules of ops.def, one function each. Private to core/mlir.
#ifndef HLO_MLIR_RULES_H
#define HLO_MLIR_RULES_H

#include "core/mlir/tree.h"

// Each makes the instructions of an operation in the computation being built and binds its results
// to them. False: the error is recorded.
mlir_rule mlir_rule_none, mlir_rule_direct, mlir_rule_constant, mlir_rule_compare, mlir_rule_select,
    mlir_rule_clamp, mlir_rule_broadcast_in_dim, mlir_rule_broadcast, mlir_rule_dot_general,
    mlir_rule_dot, mlir_rule_slice, mlir_rule_pad, mlir_rule_cholesky, mlir_rule_reduce_precision,
    mlir_rule_barrier, mlir_rule_rng, mlir_rule_rng_bits, mlir_rule_top_k, mlir_rule_chlo_unary,
    mlir_rule_chlo_binary, mlir_rule_chlo_square, mlir_rule_chlo_atan, mlir_rule_chlo_conj;
// rules_calls.c: what calls computations
mlir_rule mlir_rule_call, mlir_rule_while, mlir_rule_conditional, mlir_rule_with_region,
    mlir_rule_sort, mlir_rule_reduce_window, mlir_rule_select_and_scatter, mlir_rule_collective,
    mlir_rule_all_to_all, mlir_rule_custom_call, mlir_rule_convolution;

#endif
