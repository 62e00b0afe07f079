// dynamic.h — the parts of dynamic_padder, private to passes/dynamic.
//
// A dimension `<=8` is stored with its bound, 8 elements; how many of them are in use is a number
// that is known at run time. The pass gives each value its static shape and carries that number
// beside it: an s32 scalar for each dimension, or none when all elements are in use. What lies
// beyond the elements in use has no value and may be anything, so an operation whose result in use
// would depend on it gets it replaced first.
//
// Parts, lowest first:
//
//   sizes.c           the table of sizes, their arithmetic, masks
//   rules_move.c      rules of operations that move elements
//   rules.c           rules of all others, and the table of rules
//   calls.c           loops, branches, calls: sizes of state and results become elements of it
//   edges.c           parameters and results of the entry, custom calls that are not known
//   dynamic_padder.c  the pass
#ifndef PASS_DYNAMIC_DYNAMIC_H
#define PASS_DYNAMIC_DYNAMIC_H

#include "passes/run/rewrite.h"

typedef struct dyn_value dyn_value;  // the sizes of an instruction's leaves (sizes.c)

typedef struct dyn {
  pass_ctx *c;
  HS_VEC(dyn_value *) values;  // by instruction id; NULL or beyond the end: no sizes
  HS_VEC(hlo_instr *) views;   // stand for operand 0 with sizes of its own; gone in the end
  HS_VEC(hlo_instr *) replaced;
  HS_VEC(const hlo_computation *) done;
  HS_VEC(u32) callers;  // by computation id
  bool equal_sizes;     // operands of an elementwise operation must be known to have the same sizes
  bool as_arguments;    // sizes at the entry are parameters and results
  const hlo_instr *at;  // the instruction that is refused, and why
  const char *why;
  bool fails;  // the module is at fault, and the pass says so
} dyn;

// One dimension of one leaf of a value.
typedef struct dyn_dim {
  u32 leaf, dim;
} dyn_dim;
typedef HS_VEC(dyn_dim) dyn_dims;

// ---- sizes.c ------------------------------------------------------------------------------------
// How many elements are in use along a dimension, an s32 scalar; NULL: all of them.
hlo_instr *dyn_size(const dyn *, const hlo_instr *, u32 leaf, u32 dim);
void dyn_set_size(dyn *, hlo_instr *, u32 leaf, u32 dim, hlo_instr *size);
// Any size of any leaf, of an operand.
bool dyn_has(const dyn *, const hlo_instr *);
bool dyn_has_operand(const dyn *, const hlo_instr *);
// The size, or the bound as a constant.
hlo_instr *dyn_used(const dyn *, hlo_instr *, u32 leaf, u32 dim);
// The same; the bound for an array's dimension along which its type hides the size.
hlo_instr *dyn_stated(const dyn *, hlo_instr *, u32 leaf, u32 dim);
void dyn_hide(dyn *, const hlo_instr *, u32 dim);
// Whether a type calls a dimension dynamic.
bool dyn_states(const hlo_shape *, u32 leaf, u32 dim);
// Gives `now`, which computes what `i` did, a size where the type of i calls the dimension dynamic:
// along others a size that was set does not go on.
void dyn_give(dyn *, const hlo_instr *i, hlo_instr *now, u32 leaf, u32 dim, hlo_instr *size);
// All sizes of one leaf for another of the same rank.
void dyn_give_leaf(dyn *, const hlo_instr *i, hlo_instr *now, u32 leaf, const hlo_instr *from,
                   u32 from_leaf);
const hlo_shape *dyn_static(hlo_ctx *, const hlo_shape *);
void dyn_free(dyn *);
// What keeps its dynamic shape, at the edges.
void dyn_keep(dyn *, const hlo_instr *);
bool dyn_is_kept(const dyn *, const hlo_instr *);

// s32 scalars. dyn_op folds constants; division by zero gives 0.
hlo_instr *dyn_const(hlo_computation *, i64 v);
hlo_instr *dyn_op(hlo_opcode, hlo_instr *a, hlo_instr *b);
hlo_instr *dyn_clamped(hlo_instr *size, i64 bound);  // to 0 .. bound
bool dyn_same(const hlo_instr *a, const hlo_instr *b);

// An array of x's dimensions that counts along one of them.
hlo_instr *dyn_iota(const hlo_instr *like, i64 dim);
// A scalar in every element of an array of like's dimensions.
hlo_instr *dyn_spread(hlo_instr *scalar, const hlo_instr *like);
hlo_instr *dyn_in_use(const hlo_instr *like, i64 dim, hlo_instr *size);  // pred: in use along it
// The array with a scalar instead of what is not in use along a dimension; size NULL: the array
// itself. `fill` has its type.
hlo_instr *dyn_mask(hlo_instr *x, i64 dim, hlo_instr *size, hlo_instr *fill);

// ---- rules --------------------------------------------------------------------------------------
// Makes an instruction whose operands are static already, with sizes beside them, static too, or
// replaces it; false, with the reason set, when that cannot be done.
typedef bool dyn_rule(dyn *, hlo_instr *);
bool dyn_refuse(dyn *, const hlo_instr *, const char *why);
// `now` takes the place of `i`, which stays without users.
bool dyn_replace(dyn *, hlo_instr *i, hlo_instr *now);
// The rule of an operation; NULL: there is none.
dyn_rule *dyn_rule_of(const hlo_instr *);

// rules_move.c
dyn_rule dyn_broadcast, dyn_transpose, dyn_reverse, dyn_slice, dyn_pad, dyn_concatenate,
    dyn_reshape, dyn_dynamic_reshape, dyn_dynamic_slice, dyn_dynamic_update_slice, dyn_gather,
    dyn_scatter;
// rules.c
dyn_rule dyn_convolution;
// calls.c
dyn_rule dyn_while, dyn_conditional, dyn_call;
// Inlines the calls and fusions that values with dynamic dimensions go through.
hs_status dyn_inline(pass_ctx *);
void dyn_remove_uncalled(pass_ctx *);
void dyn_count_callers(dyn *);
// edges.c
dyn_rule dyn_custom_call;
bool dyn_is_target(const hlo_instr *, const char *target);
bool dyn_knows_call(const hlo_instr *);  // a custom call that need not take dynamic types
// Gives the dynamic dimensions of the entry's parameters sizes. Before dyn_computation.
void dyn_open_entry(dyn *);
// The entry's result, whose type was `stated`, gets its sizes back. dynamic: its type too.
void dyn_close_entry(dyn *, const hlo_shape *stated, bool dynamic);

// dynamic_padder.c: applies the rules to a computation, operands first; once.
bool dyn_computation(dyn *, hlo_computation *);

#endif
