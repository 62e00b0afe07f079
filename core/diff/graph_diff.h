// graph_diff.h — the correspondence between the instructions of two modules, independent of
// names.
#ifndef HLO_GRAPH_DIFF_H
#define HLO_GRAPH_DIFF_H

#include "core/ir/ir.h"

// How the two instructions of a pair differ, as bits.
enum {
  HLO_DIFF_OPCODE = 1,    // only pairs matched by name
  HLO_DIFF_SHAPE = 2,     // type, dimensions or layout
  HLO_DIFF_ATTRS = 4,     // attributes that mean something (annotations are not compared)
  HLO_DIFF_OPERANDS = 8,  // an operand is not the counterpart of the other's operand
  // their computations are not counterparts: moved into a fusion, out of a loop, ...
  HLO_DIFF_MOVED = 16
};

// All arrays lie in the arena given; instructions by id in their own module, NULL without
// counterpart. Tuples, get-tuple-elements and parameters of computations other than the entry only
// forward values: they are looked through when operands are compared, and not counted.
typedef struct hlo_graph_diff {
  const hlo_module *a, *b;
  hlo_instr **of_a, **of_b;                  // counterpart of an instruction
  hlo_computation **comp_of_a, **comp_of_b;  // counterpart of a computation
  // by computation: the fusion or call that alone calls it, or NULL
  hlo_instr **caller_a, **caller_b;
  u8 *change;                                // by id in b: HLO_DIFF_ bits of the pair
  u32 same, moved, changed, removed, added;  // a pair that moved and changed counts as changed
} hlo_graph_diff;

// Matches by value first (what an instruction computes, seen through fusions and calls), then from
// matched neighbours, then by name. Both modules must live in one context. About linear in the
// modules' sizes. A thread that is to stop ends early with what is matched by then; the caller
// polls.
void hlo_graph_diff_make(const hlo_module *a, const hlo_module *b, hs_arena *, hlo_graph_diff *out);
// Where operand k of an instruction of a (of b) comes from, forwarding instructions and fusions
// looked through.
hlo_instr *hlo_graph_diff_operand_a(const hlo_graph_diff *, const hlo_instr *, u32 k);
hlo_instr *hlo_graph_diff_operand_b(const hlo_graph_diff *, const hlo_instr *, u32 k);
// Whether operand k of a pair is the same in both: a pair too, or constants of one value, of which
// each computation has its own.
bool hlo_graph_diff_same_operand(const hlo_graph_diff *, const hlo_instr *a, const hlo_instr *b,
                                 u32 k);
// Whether the instruction only forwards a value (see above).
bool hlo_graph_diff_is_forwarding(const hlo_instr *);
// Whether the two compute the same by the same instructions, fused and called alike; names and
// order do not count.
bool hlo_graph_diff_same(const hlo_graph_diff *);

#endif
