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
    mlir_rule_chlo_binary, mlir_rule_chlo_conj, mlir_rule_ragged_dot;
// chlo.c: functions that are several operations
mlir_rule mlir_rule_chlo_function, mlir_rule_chlo_square, mlir_rule_chlo_atan,
    mlir_rule_chlo_constant_like;
// rules_dynamic.c: sizes that are operands
mlir_rule mlir_rule_dynamic_broadcast, mlir_rule_dynamic_iota, mlir_rule_dynamic_reshape,
    mlir_rule_dynamic_pad, mlir_rule_dynamic_gather, mlir_rule_dynamic_conv,
    mlir_rule_real_dynamic_slice, mlir_rule_einsum, mlir_rule_index_select;
// rules_host.c
mlir_rule mlir_rule_infeed, mlir_rule_outfeed, mlir_rule_send, mlir_rule_recv, mlir_rule_composite,
    mlir_rule_foreign;
// rules_sdy.c
mlir_rule mlir_rule_mesh, mlir_rule_sharding_constraint, mlir_rule_manual_computation,
    mlir_rule_scan;
// rules_check.c
mlir_rule mlir_rule_check, mlir_rule_probe, mlir_rule_run_parallel;
// rules_calls.c: what calls computations
mlir_rule mlir_rule_call, mlir_rule_while, mlir_rule_conditional, mlir_rule_with_region,
    mlir_rule_sort, mlir_rule_reduce_window, mlir_rule_select_and_scatter, mlir_rule_collective,
    mlir_rule_all_to_all, mlir_rule_custom_call, mlir_rule_convolution;

// ---- what rules share ---------------------------------------------------------------------------
// The instructions of all operands; false after an error, also when their number is not HLO's.
bool mlir_operands(mlir_reader *, const mlir_op *, hlo_instr ***out);
// Emits the operation's opcode with the attributes of its row beside the given ones, which are
// freed, and binds the results. !ok: only frees.
bool mlir_finish(mlir_reader *, mlir_op *, bool ok, u32 n, hlo_instr *const *in, mlir_hlo_attrs *);
// A scalar beside arrays, as an array: HLO wants all of one shape. NULL after an error.
hlo_instr *mlir_spread(mlir_reader *, hlo_instr *, const hlo_shape *like);
// A result of the entry with its sharding <@mesh, ..>; NULL after an error.
hlo_instr *mlir_result_sharding(mlir_reader *, hlo_instr *, mlir_span sharding);
// known.c: integers that are known without running the program: constants, sizes, and arithmetic
// on these; appended in row-major order, the caller frees. One; as text of an attribute, "[1, 2]".
typedef HS_VEC(i64) mlir_numbers;
bool mlir_known(mlir_reader *, mlir_value *, mlir_numbers *out);
bool mlir_known_size(mlir_reader *, mlir_value *, i64 *out);
bool mlir_known_text(mlir_reader *, mlir_value *, mlir_span *out);
// Of a call that checks sizes: true and *done when it is known to hold; an error when not.
bool mlir_size_assertion(mlir_reader *, const mlir_op *, bool *done);
// A window's reduction whose window is operands, as custom call.
bool mlir_dynamic_reduce_window(mlir_reader *, mlir_op *);
// A call of the function of that name with the operation's operands and results; *out: the call.
bool mlir_call(mlir_reader *, mlir_op *, hs_str name, hlo_instr **out);

#endif
