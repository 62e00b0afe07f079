// copies.h — which values share memory, and in what order they live: what copy-insertion reasons
// with.
//
// A value is one array that one instruction makes; every position that holds it (elements of
// tuples, parameters of calls) is known. Where a loop or the branches of a conditional bring
// several values together, they form a new value. Values that must lie in one buffer (the state of
// a loop, what an operation writes over) form a group.
#ifndef PASS_COPIES_H
#define PASS_COPIES_H

#include "passes/run/rewrite.h"

#define CP_NONE 0xffffffffu
enum { CP_WORK_MOST = 40000000 };  // comparisons in one module; the copies after that stay
typedef struct cp_use {
  hlo_instr *user;
  u32 operand, leaf, next;
} cp_use;
typedef struct cp_root {
  const hlo_computation *comp;
  u32 next;
} cp_root;
// what stands right before: cp_flow.before, up to `end`
typedef struct cp_span {
  u32 end, within, least, soonest, met;
} cp_span;
typedef struct cp_edge {
  u32 first, then;
  bool reached;
} cp_edge;  // between ranks
typedef struct cp_flow {
  hlo_module *m;
  hs_arena *a;
  // the entry and what control flow reaches from it, callees first
  HS_VEC(hlo_computation *) comps;
  bool any_order;      // operands come first, but not in a post order
  hlo_instr ***order;  // by computation id: a post order, and a NULL behind
  hlo_instr **caller;  // by computation id
  u32 *depth;          // by computation id; how many calls down
  // by instruction id: its first place; CP_NONE when not looked at
  u32 *base;
  u32 nplaces, nids;  // nids: instructions made later are not known here
  // by place: the value there, named by the place where it is made
  u32 *at;
  hlo_instr **maker;  // by place: the instruction; NULL before cp_settle
  u32 *when;          // by instruction id: its position in one run of the program
  bool *phi;          // by place: several values come together here
  // by place (of values): the value that speaks for the buffer
  u32 *group;
  u32 *first_use, *first_root;  // by value
  HS_VEC(cp_use) uses;
  HS_VEC(cp_root) roots;
  bool *writes;              // by instruction id: may write over an operand
  u32 *rank;                 // by instruction id: its place in the order; CP_NONE
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

// places of a shape: its elements that are no tuples
u32 cp_leaves(const hlo_shape *);
const hlo_shape *cp_leaf(const hlo_shape *, u32 k);
u32 cp_leaf_at(const hlo_shape *, hlo_ints index);  // the first place under an index; CP_NONE
bool cp_copyable(const hlo_shape *);

// The values; false when the call graph is not flat. before (may be NULL): a flow of the module
// before copies came or went.
bool cp_flow_of(pass_ctx *, cp_flow *, const cp_flow *before);
// who makes and who reads them, and the groups: needed for most of what follows
void cp_settle(cp_flow *);
// The flow after copies were replaced by their operands; became: by value, the value of the
// operand, or CP_NONE. False when it must be found anew.
bool cp_follow(pass_ctx *, cp_flow *, const u32 *became);
void cp_flow_free(cp_flow *);
void cp_find_order(cp_flow *);                       // needed before the questions below
void cp_in_place(const hlo_instr *, cp_pairs *out);  // which operands an instruction writes over

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
// may the result lie where the operand does?
bool cp_share(const cp_flow *, const hlo_instr *user, u32 operand, u32 in_leaf, u32 out_leaf);
void cp_add_order(cp_flow *, const hlo_instr *first, const hlo_instr *then);  // an edge was added
u32 cp_group(cp_flow *, u32 value);
u32 *cp_nothings(hs_arena *, u32 n);  // n times CP_NONE

// those whose two sides may share memory; false when the flow is no longer true
bool cp_remove_copies(pass_ctx *, cp_flow *);

#endif
