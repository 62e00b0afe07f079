// fusion_rules.h — the decisions of XLA's greedy fusion, as questions about one producer and one
// consumer. Private to passes/fuse/fusion_greedy.c and fusion_rules.c.
#ifndef PASS_FUSION_RULES_H
#define PASS_FUSION_RULES_H

#include "passes/run/rewrite.h"

// What costs much more than writing its result (InstructionFusion::IsExpensive,
// CpuInstructionFusion::IsExpensive).
bool fusion_rule_expensive(const hlo_instr *, bool cpu);
// may be in a fusion, or be made one
bool fusion_rule_fusible(const hlo_instr *);
bool fusion_rule_elementwise(const hlo_instr *);
// cheaper the more often it is computed in its users
bool fusion_rule_duplicable(const hlo_instr *);
bool fusion_rule_at_most_unary(const hlo_instr *);  // one large operand at most
bool fusion_rule_has_other_users(const hlo_instr *producer, const hlo_instr *consumer);
// an element of the operand may be read more than once
bool fusion_rule_reuses(const hlo_instr *, u32 operand);
// NULL when the consumer, which may write over an operand, stays correct with the producer in it;
// else the reason.
const char *fusion_rule_in_place(const hlo_instr *producer, const hlo_instr *consumer, hs_arena *);

// XLA:CPU's.
// its code generator writes it element by element
bool fusion_rule_loop(const hlo_instr *);
// a matrix-vector product and what is added to it
bool fusion_rule_output(const hlo_instr *producer, const hlo_instr *consumer);
bool fusion_rule_output_into_operand(const hlo_instr *);
bool fusion_rule_slow_concatenate(const hlo_instr *);
// small enough a product to read a computed matrix
bool fusion_rule_dot_reads(const hlo_instr *dot, u32 operand);
// of a softmax: its maximum and its difference must see one value
bool fusion_rule_shifted_exponent(const hlo_instr *);
// Whether the code of a fusion would hold the producer, its operand `operand`, too often.
bool fusion_rule_emitted_too_often(const hlo_instr *fusion, u32 operand, hs_arena *);

#endif
