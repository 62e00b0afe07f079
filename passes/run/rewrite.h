// rewrite.h — what rewrites of several passes share: inlining, control edges and called
// computations (rewrite.c), equality by structure (structure.c), reshapes in memory (memory.c),
// and the provenance of what disappears or moves (provenance.c).
#ifndef PASS_REWRITE_H
#define PASS_REWRITE_H

#include "passes/run/cache.h"

// Copies body's instructions to just before `site`, parameter k standing for args[k]; returns the
// copy of the root (args[k] itself when the root is parameter k).
hlo_instr *pass_inline_at(hlo_instr *site, const hlo_computation *body, hlo_instr *const *args,
                          hs_arena *);
// Replaces a call-like instruction by its inlined callee. Control edges of the call move to the
// inlined root.
hlo_instr *pass_inline_call(hlo_instr *call, const hlo_computation *body, hlo_instr *const *args,
                            hs_arena *);

// For an instruction that something made earlier will stand for (hlo_replace): what had to come
// before i comes before its users, or, without users, before what had to come after i. What had to
// come after i comes after what stands for it.
void pass_relay_control(hlo_instr *i);

// What had to come after i comes after what had to come before it; i itself has no control edges
// then.
void pass_drop_control(hlo_instr *i);

// The computation named by attribute `which`, cloned first when another instruction calls it too,
// so that it may be edited. counts: pass_caller_counts.
hlo_computation *pass_own_callee(hlo_instr *caller, hlo_attr_id which, u32 *counts);
// The same for number `which` of the called computations (hlo_called's order), and the setter it
// uses.
hlo_computation *pass_own_called(hlo_instr *, u32 which, u32 *counts, hs_arena *);
void pass_set_called(hlo_instr *, u32 which, hlo_computation *to);
void pass_called_all(const hlo_instr *, hs_arena *, hlo_computation ***v, u32 *n);

// The value of a frontend attribute; NULL when it is not there.
const hs_str *pass_frontend(const hlo_instr *, const char *key);
// XLA's words for true
bool pass_frontend_true(const hlo_instr *, const char *key);
// Marked so that nothing of the loop is removed (XLA's HasDisableWhileLoopDceAttr).
bool pass_loop_is_pinned(const hlo_instr *);

// Structure of computations: equal up to names, instruction order and annotations. `memo` is an
// array of hashes by computation id, 0: not known yet. Each called computation is hashed once, and
// each pair of called computations compared once.
u64 pass_comp_hash(hlo_computation *, u64 *memo);
bool pass_comp_equal(const hlo_computation *, const hlo_computation *, bool layouts, hs_arena *);
// attributes, called computations by structure
bool pass_attrs_equal(const hlo_instr *, const hlo_instr *, bool layouts, hs_arena *);
// For two that may become one: configurations count, shardings where both have one.
bool pass_attrs_alike(const hlo_instr *, const hlo_instr *, bool layouts, hs_arena *);
u64 pass_attrs_hash(const hlo_instr *, u64 seed, u64 *memo);

// ---- memory -------------------------------------------------------------------------------------
bool pass_plain_layout(const hlo_shape *);  // nothing but an order of dimensions
// the dimensions that matter (not of size 1), major first
u32 pass_physical_order(const hlo_shape *, u32 *order);
// Splits two shapes of the same element count into groups of dimensions with equal products.
// starts: pairs (first from-dimension, first to-dimension) of each group, plus the end pair.
// Returns the number of groups; 0 when an extent is 0. `starts` holds at least from->rank +
// to->rank + 2 pairs.
typedef struct pass_dim_group {
  u32 from, to;
} pass_dim_group;
u32 pass_dim_groups(const hlo_shape *from, const hlo_shape *to, pass_dim_group *starts);
// A reshape (or a copy, when the dims agree) from one shape with layout to another that moves
// nothing in memory: each group of merged or split dimensions lies together and in order on both
// sides, and the groups lie in the same order.
bool pass_reshape_is_bitcast(const hlo_shape *from, const hlo_shape *to);

// Scalar or splat constants (through broadcast and reshape of one).
const hlo_literal *pass_splat_constant(const hlo_instr *);
bool pass_is_splat_f64(const hlo_instr *, double v);
bool pass_const_i64(const hlo_instr *, i64 *v);  // integer or pred constant of one element

// The computation that gives element k of f's result: f itself when that is no tuple, else a copy
// that computes no other.
hlo_computation *pass_element_of(hlo_computation *f, u32 k);
// get-tuple-element of a tuple looks through the tuple; else makes one.
hlo_instr *pass_element(hlo_instr *tuple, i64 k);
// Array shape with the dims of `like` (its layout too) and another element type.
const hlo_shape *pass_shape_as(const hlo_instr *like, hlo_dtype);
// A computation of two scalar parameters -> root made by the caller.
hlo_instr *pass_add_param(hlo_computation *, i64 number, const hlo_shape *);

// Notes in the module's origin_recovery_table that the array a reshape stands for is that reshape
// of its operand's. For rewrites that read the operand instead, after which the reshape may be
// gone. Nothing to note without an origin, or when there is an entry already.
void pass_recover_reshape(hlo_instr *reshape);
// The origin (attribute ORIGIN, may be NULL) of a tuple made of elements index[k] of another one,
// -1: of something new. NULL without one.
const hlo_origin *pass_origin_of_elements(hs_arena *, const hlo_attr *from, u32 n,
                                          const i64 *index);
// The origin of a tuple with `more` behind its elements; NULL without one.
const hlo_origin *pass_origin_with(hs_arena *, const hlo_attr *from, u32 n, hlo_instr *const *more);
// For a copy of an instruction of a computation that stands outside of it now: its origin begins
// with the name that the caller has in its own, "caller" mark "/"; without such a name it goes, and
// that of a synthetic caller does not show.
void pass_origin_leaves(hlo_instr *copy, const hlo_instr *caller, const char *mark);

#endif
