// copies.h — the dataflow, alias and ordering analyses of copy-insertion.
//
// A position is one leaf (non-tuple element) of an instruction's shape. A value is an array defined
// by one instruction; each position holds one value, and is named by the position that defines it.
// Where a loop or the branches of a conditional merge several values, they define a new one (phi).
// Values that must share a buffer (the state of a loop, the operand and result of an in-place
// operation) form a group.
#ifndef PASS_COPIES_H
#define PASS_COPIES_H

#include "passes/run/rewrite.h"

#define CP_NONE 0xffffffffu
enum { CP_WORK_MOST = 40000000 };  // comparisons per module; beyond it no more copies are removed
typedef struct cp_use {
  hlo_instr *user;
  u32 operand, leaf, next;
} cp_use;
typedef struct cp_root {
  const hlo_computation *comp;
  u32 next;
} cp_root;
// Of an instruction, by rank. Its predecessors are cp_flow.before[end of the previous .. end).
// within, least, soonest: see copies_order.c; visited: number of the search that visited it last.
typedef struct cp_span {
  u32 end, within, least, soonest, visited;
} cp_span;
typedef struct cp_edge {
  u32 first, then;
  bool reached;
} cp_edge;  // between ranks
typedef struct cp_flow {
  hlo_module *m;
  hs_arena *a;
  // the entry and the computations that control flow reaches from it, callees first
  HS_VEC(hlo_computation *) comps;
  bool any_order;      // the orders are topological, but not all of them post orders
  hlo_instr ***order;  // by computation id: a post order, NULL-terminated
  hlo_instr **caller;  // by computation id
  u32 *depth;          // by computation id: nesting depth of its call
  // by instruction id: its first position; CP_NONE: not analyzed
  u32 *base;
  u32 npositions, nids;  // nids: newer instructions are not analyzed
  // by position: its value
  u32 *at;
  hlo_instr **definer;  // by position: its instruction; NULL before cp_find_uses
  u32 *when;            // by instruction id: its index in a sequential execution
  bool *phi;            // by position: merges several values
  u8 *state;            // by position: a cp_state; NULL: none anywhere (cp_find_states)
  // by value: parent in the union-find forest of groups
  u32 *group;
  u32 *first_use, *first_root;  // by value
  HS_VEC(cp_use) uses;
  HS_VEC(cp_root) roots;
  bool *writes;              // by instruction id: may write an operand in place
  u32 *rank;                 // by instruction id: its index in all orders, concatenated; CP_NONE
  HS_VEC(cp_span) spans;     // by rank
  HS_VEC(u32) before, todo;  // ranks
  HS_VEC(cp_edge) added;
  u32 searches;
  i64 work;  // comparisons so far
} cp_flow;

typedef struct cp_pair {
  u32 operand, in_leaf, out_leaf;
} cp_pair;
typedef HS_VEC(cp_pair) cp_pairs;

// What an unfinished operation needs until its done: of an asynchronous call, or of a send, receive
// or copy.
typedef enum cp_state { CP_NO_STATE, CP_CALL_STATE, CP_TRANSFER_STATE } cp_state;

// Positions of a shape: its leaves, the elements that are no tuples.
u32 cp_leaf_at(const hlo_shape *, hlo_ints index);  // the first leaf under a tuple index; CP_NONE
u32 cp_element_leaf(const hlo_instr *);  // of a get-tuple-element: its first leaf in the operand
bool cp_copyable(const hlo_shape *);

// Finds the values; false when the call graph is not flat. before (may be NULL): the flow of the
// module before copies were inserted or removed.
bool cp_flow_of(pass_ctx *, cp_flow *, const cp_flow *before);
// Finds definitions, uses and groups: required by most functions below.
void cp_find_uses(cp_flow *);
// Finds the positions that hold states of unfinished operations, in the module that the flow knows.
void cp_find_states(cp_flow *);
// What a leaf of an instruction is; of tuples and elements made since, what they hand on.
cp_state cp_state_at(const cp_flow *, const hlo_instr *, u32 leaf);
// Updates the flow after copies were replaced by their operands. became: by value, the value of the
// operand, or CP_NONE. False when it must be recomputed.
bool cp_follow(pass_ctx *, cp_flow *, const u32 *became);
void cp_flow_free(cp_flow *);
void cp_find_order(cp_flow *);  // required by the functions below
void cp_in_place(const hlo_instr *,
                 cp_pairs *out);  // the operands that an instruction writes in place

typedef enum cp_order {
  CP_SAME,
  CP_BEFORE,
  CP_BEFORE_END,
  CP_AFTER,
  CP_EXCLUSIVE_BEFORE,
  CP_EXCLUSIVE_AFTER,
  CP_UNORDERED
} cp_order;
cp_order cp_order_of(cp_flow *, const hlo_instr *a, const hlo_instr *b);
bool cp_nested(const cp_flow *, const hlo_instr *, const hlo_computation *);
bool cp_defined_before(cp_flow *, u32 a, u32 b);
// Whether a result may share the buffer of an operand.
bool cp_share(const cp_flow *, const hlo_instr *user, u32 operand, u32 in_leaf, u32 out_leaf);
void cp_add_order(cp_flow *, const hlo_instr *first,
                  const hlo_instr *then);  // a control edge was added
u32 cp_group(cp_flow *, u32 value);
u32 *cp_none_array(hs_arena *, u32 n);  // n entries of CP_NONE

// Removes copies whose operand and result may share a buffer; false when the flow must be
// recomputed.
bool cp_remove_copies(pass_ctx *, cp_flow *);

#endif
