// layout_constraints.h — the constraints of layout-assignment on one computation: its arrays, the
// layouts of these and of their uses, and the solver that propagates them. Private to
// layout_assignment.c and layout_constraints.c.
#ifndef PASS_LAYOUT_CONSTRAINTS_H
#define PASS_LAYOUT_CONSTRAINTS_H

#include "passes/layout/layout.h"

// The priority of a layout: that of the round, from 0; lower for defaults, higher for the layouts
// of the entry.
enum { LA_DEFAULT = -2, LA_GIVEN = 3, LA_ROUNDS = 2 };

// An array: leaf `inner` of what instruction i makes. layout NULL: none yet. changes: how often it
// had another layout before.
typedef struct la_array {
  hlo_instr *i;
  u32 inner;
  const hlo_layout *layout;
  bool mandatory, deep;
  i64 priority;
  u32 changes;
} la_array;
// An operand of an instruction; its leaves' layouts stand in la_comp.wants.
typedef struct la_operand {
  hlo_instr *i;
  u32 operand;
  bool set, deep;
  i64 priority;
  u32 changes;
} la_operand;

typedef enum la_said { LA_RESULT = 1, LA_PARAMS = 2 } la_said;
typedef struct la_comp {
  hlo_computation *c;
  hlo_instr **order;  // a post order
  // by instruction id - lo: the first of its arrays, of its operands' leaves, of its operands
  u32 n, lo, nids, *base, *wbase, *obase;
  la_array *array;
  la_operand *operand;
  const hlo_layout **wants;  // by operands' leaf
  u32 narrays, nwants, noperands;
  const hlo_shape **params, *result;  // the computation's own layouts, as far as they are known
  u32 said;                           // la_said: which of them are to be kept to
  i64 priority;
  // the result that the branches of a conditional agreed on; NULL
  const hlo_shape *agreed;
  const hlo_instr *loop;  // the only caller, a while loop; NULL
} la_comp;

typedef struct la_channel {
  i64 id;
  const hlo_layout *layout;
} la_channel;
typedef struct la_solver {
  pass_ctx *p;
  hlo_ctx *ctx;
  la_comp *comps, *at;  // by computation id; the one looked at
  i64 round;
  // instructions from this id on are copies that the pass made first
  u32 first_copy;
  // constraints: 3k: array k, 3k + 1: operand k, 2: the result
  HS_VEC(u32) added, front, back;
  size_t head;                  // of back
  HS_VEC(la_channel) channels;  // of all-reduces: the layout of the first one on each
} la_solver;

void la_number(la_solver *, la_comp *);  // numbers the computation's arrays and uses
void la_forget(la_comp *);               // clears all layouts of arrays and operands

// of a buffer; or the leaf itself
const hlo_shape *la_content(const hlo_shape *leaf);
// order of dimensions alone; NULL when it has none
const hlo_layout *la_order(hlo_ctx *, const hlo_shape *leaf);
// in that order, with whatever else its layout said
const hlo_shape *la_in_order(hlo_ctx *, const hlo_shape *, const hlo_layout *);
// whether leaf `inner` of a custom call forwards a leaf (*operand, *leaf), with a buffer type on at
// least one side
bool la_forwards(const hlo_instr *, u32 inner, u32 *operand, u32 *leaf);
// the array that leaf `inner` of the instruction is
u32 la_maker(const la_comp *, hlo_instr *, u32 inner);
// the operand's arrays are arrays of the result
bool la_hands_on(const hlo_instr *, u32 operand);
// operands and result may lie differently though their ranks agree
bool la_may_differ(const hlo_instr *);
bool la_alike(const hlo_instr *, u32 inner, u32 operand);  // they must have equal layouts
u32 la_want_at(const la_comp *, const hlo_instr *, u32 operand);
bool la_is_constrained(const la_comp *, const hlo_instr *, u32 operand);

// Constraints. mandatory: it replaces what there is; deep: it spreads before what waits.
void la_set_array(la_solver *, u32 array, const hlo_layout *, bool mandatory, bool deep,
                  i64 priority);
// those of its layouts that are set
void la_set_operand(la_solver *, hlo_instr *, u32 operand, const hlo_shape *, bool mandatory,
                    bool deep, i64 priority);
// all it makes, and operands that must lie alike
void la_set_instr(la_solver *, hlo_instr *, const hlo_shape *);
// the computation's result, as la_comp says
void la_set_result(la_solver *);
// until it has converged
void la_spread(la_solver *);

#endif
