// rewrite.h — functions that several passes share: inlining, control dependencies and called
// computations (rewrite.c), structural equality (structure.c), reshapes that are bitcasts
// (memory.c), and the provenance of removed and moved values (provenance.c).
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

// Before an instruction is replaced by an existing one (hlo_replace): its control predecessors
// become predecessors of its users or, without users, of its control successors. hlo_replace makes
// its control successors those of the replacement.
void pass_relay_control(hlo_instr *i);

// Removes i's control edges; its control successors get its control predecessors, so that the order
// among the others is preserved.
void pass_drop_control(hlo_instr *i);

// The computation named by attribute `which`, cloned first when other instructions call it too,
// so that it may be edited. counts: pass_caller_counts.
hlo_computation *pass_own_callee(hlo_instr *caller, hlo_attr_id which, u32 *counts);
// The same for the called computation of index `which` (hlo_called's order), and the setter it
// uses.
hlo_computation *pass_own_called(hlo_instr *, u32 which, u32 *counts, hs_arena *);
void pass_set_called(hlo_instr *, u32 which, hlo_computation *to);
void pass_called_all(const hlo_instr *, hs_arena *, hlo_computation ***v, u32 *n);

// The value of a frontend attribute; NULL when it is not there.
const hs_str *pass_frontend(const hlo_instr *, const char *key);
// XLA's words for true
bool pass_frontend_true(const hlo_instr *, const char *key);
// Whether frontend attributes forbid removing any part of the loop (XLA's
// HasDisableWhileLoopDceAttr).
bool pass_loop_is_pinned(const hlo_instr *);

// A queue of pairs of computations without duplicates (hash table with linear probing): the
// worklist of a traversal along calls, which visits each shared computation once. The first members
// are of one module, the second ones of one module. Starts as {0}; entries are never removed.
typedef struct pass_comp_pair {
  hlo_computation *a, *b;
} pass_comp_pair;
typedef struct pass_comp_queue {
  HS_VEC(pass_comp_pair) v;
  u32 *slots, nslots;  // index in v, plus 1; 0: free
} pass_comp_queue;
bool pass_comp_queue_add(pass_comp_queue *, hlo_computation *,
                         hlo_computation *);  // false: present
void pass_comp_queue_free(pass_comp_queue *);
// Adds the pair (x, x) of every computation x that the instruction calls.
void pass_comp_queue_add_called(pass_comp_queue *, const hlo_instr *, hs_arena *);
// Whether the predicate holds for an instruction of the computation, or of those that it calls,
// directly or not.
bool pass_comp_any(const hlo_computation *, bool (*is)(const hlo_instr *), hs_arena *);

// Structure of computations: equal up to names, instruction order and annotations. `memo` is an
// array of hashes by computation id, 0: not known yet. Each called computation is hashed once, and
// each pair of called computations compared once.
u64 pass_comp_hash(hlo_computation *, u64 *memo);
bool pass_comp_equal(const hlo_computation *, const hlo_computation *, bool layouts, hs_arena *);
// attributes, called computations by structure
bool pass_attrs_equal(const hlo_instr *, const hlo_instr *, bool layouts, hs_arena *);
// Whether two instructions may be merged: pass_attrs_equal, and backend configurations agree, and
// shardings where both have one.
bool pass_attrs_alike(const hlo_instr *, const hlo_instr *, bool layouts, hs_arena *);
u64 pass_attrs_hash(const hlo_instr *, u64 seed, u64 *memo);

// Gives an instruction another tuple shape. Its sharding has an entry per element of the old one,
// so it goes.
void pass_set_tuple_shape(hlo_instr *, const hlo_shape *);

// ---- memory -------------------------------------------------------------------------------------
// Whether the layout is an order of dimensions only: no tiles, splits, memory space.
bool pass_plain_layout(const hlo_shape *);
// The dimensions of a size other than 1, major first; returns how many.
u32 pass_physical_order(const hlo_shape *, u32 *order);
// Splits two shapes of the same element count into groups of dimensions with equal products.
// starts: pairs (first from-dimension, first to-dimension) of each group, plus the end pair.
// Returns the number of groups; 0 when an extent is 0. `starts` holds at least from->rank +
// to->rank + 2 pairs.
u32 pass_dim_groups(const hlo_shape *from, const hlo_shape *to, hlo_dim_group *starts);
// Whether a reshape (or a copy, when the dimensions agree) between two shapes with layouts moves
// nothing in memory: each group of merged or split dimensions is contiguous and in order on both
// sides, and the groups are in the same order.
bool pass_reshape_is_bitcast(const hlo_shape *from, const hlo_shape *to);

bool pass_const_i64(const hlo_instr *, i64 *v);  // integer or pred constant of one element

// The computation of element k of f's result alone: f itself when its result is no tuple, else a
// clone without the other elements.
hlo_computation *pass_element_of(hlo_computation *f, u32 k);
// Whether what `gte` reads out of a tuple instruction may take its place. An operation under way
// may not be the program's result itself, and a send or recv has one user: the tuple must go. A
// tuple ends a size that its operand hides.
bool pass_may_forward(const hlo_instr *gte);
// Element k of a tuple: the operand of a tuple instruction, else a new get-tuple-element, as for a
// send or recv in a tuple that has other users and stays, and for what hides a size.
hlo_instr *pass_element(hlo_instr *tuple, i64 k);
// The value, its arrays converted to the element types of `stated`: an instruction may state its
// result in another precision than its operands have.
hlo_instr *pass_as_stated(hlo_instr *, const hlo_shape *stated);
// Is, or may there be, a size set along a dimension that its type calls static? That lasts until
// the next operation, which a call's parameter and a call itself are not.
bool pass_hides_size(const hlo_instr *);
bool pass_reads_hidden(const hlo_instr *);  // of any operand
// Whether only a part of the value may be in use: by its type, or by a size that it hides.
bool pass_is_cut(const hlo_instr *);
bool pass_reads_cut(const hlo_instr *);  // of any operand
// Array shape with the dims of `like` (its layout too) and another element type.
const hlo_shape *pass_shape_as(const hlo_instr *like, hlo_dtype);
// An unnamed parameter.
hlo_instr *pass_add_param(hlo_computation *, i64 number, const hlo_shape *);

// Records in the module's origin_recovery_table that the original array of a reshape is that
// reshape of its operand's. For rewrites after which the operand is read directly and the reshape
// may be dead. Does nothing when the reshape has no origin, or the table has an entry for it.
void pass_recover_reshape(hlo_instr *reshape);
// The origin of a tuple of n elements, of which number k is element index[k] of another tuple, -1:
// a new value. from: that tuple's ORIGIN attribute, may be NULL; then the result is NULL.
const hlo_origin *pass_origin_of_elements(hs_arena *, const hlo_attr *from, u32 n,
                                          const i64 *index);
// The origin of a tuple with the values `more` appended; NULL when `from` is.
const hlo_origin *pass_origin_with(hs_arena *, const hlo_attr *from, u32 n, hlo_instr *const *more);
// For an instruction copied out of a called computation: prefixes the names in its origin with the
// caller's, as "CALLER" mark "/". Without a name of the caller the origin is removed; a synthetic
// caller leaves it unchanged.
void pass_origin_leaves(hlo_instr *copy, const hlo_instr *caller, const char *mark);

#endif
