// lower.h — what the files of the lowering HLO -> loop nest share (lower.c, lower_move.c,
// lower_reduce.c). The entry points are nest_lower and nest_supports (nest.h).
//
// Lowering is one recursion over the operands of instructions, spread over three files by kind of
// operation: lower_value dispatches to lower_move.c and lower_reduce.c, which ask for the elements
// they need through lower_value again. It ends because HLO has no cycles; its depth is limited, and
// each element is lowered once (a memo).
//
// A frame is one activation of a computation: the fusion itself, a nested fusion or call
// (parameters are operands of the caller in the frame above), or a scalar computation (parameters
// are values: map, reducers). An element of an instruction is named by (frame, instruction, leaf of
// its shape, indices), and asked for under a guard: a node that must hold for the element to be
// read, or NEST_NONE. A function that cannot lower something stores the reason in l->err and
// returns LOWER_NONE; from then on all of them do.
#ifndef EMIT_LOWER_H
#define EMIT_LOWER_H

#include "backends/emit/nest/nest.h"

typedef struct lower_frame lower_frame;
struct lower_frame {
  const hlo_instr *caller;  // the fusion, call, ...; for a lone instruction: itself
  lower_frame *up;          // NULL at the top
  const nest_val *vals;     // scalar computations: one value per parameter
  bool lone;                // top frame of an instruction that is not a fusion
};

// A reduction whose loops a sibling may share.
typedef struct lower_shared {
  const lower_frame *f;
  u32 guard, rank, ndims;
  const i64 *dims, *sizes;
  const nest_expr *const *idx;
  u32 group;
} lower_shared;

typedef struct lowering {
  nest *n;
  hs_arena *a;
  const hlo_instr *top;
  u32 *leaf_base;             // first leaf number of each operand of top, and of the result
  u32 *buf_of_leaf;           // NEST_NONE until used
  struct lower_memo **table;  // elements lowered so far
  u32 cap, count;
  HS_VEC(lower_shared) reduces;
  HS_VEC(lower_frame *) frames;
  u32 depth;
  bool all;                  // nest_lower_all
  const hlo_instr *ordered;  // the scatter whose updates are put in order; NULL: none
  hs_status err;
} lowering;

#define LOWER_NONE ((nest_val){NEST_NONE, NEST_NONE})

static inline bool lower_failed(const lowering *l) { return !hs_ok(l->err); }

// ---- lower.c ------------------------------------------------------------------------------------
// The nodes of one element; a second request for it gives the same ones.
nest_val lower_value(lowering *, lower_frame *, const hlo_instr *, u32 leaf, u32 rank,
                     const nest_expr *const *idx, u32 guard);
// Stores an element in the memo that was lowered together with another one.
void lower_put(lowering *, const lower_frame *, const hlo_instr *, u32 leaf, u32 rank,
               const nest_expr *const *idx, u32 guard, nest_val);
// Ends the lowering with "unsupported: OPCODE: why".
nest_val lower_refuse(lowering *, const hlo_instr *, const char *why);
// The value of an operand in the precision of the result, where both are floats.
nest_val lower_in_type(nest *, nest_val, hlo_dtype from, hlo_dtype to);
// A stage over all elements of a shape, its number and its indices; false, after refusing, when it
// has too many loops.
bool lower_stage(lowering *, const hlo_shape *, size_t *stage, const nest_expr ***idx);
// Stores a value of result leaf `leaf` at these indices, for each point of the stage.
void lower_store(lowering *, size_t stage, u32 leaf, const nest_expr *const *idx, nest_val);
// Can kernels compute in this type?
bool lower_dtype_ok(hlo_dtype);

// ---- lower_move.c: index rewriting --------------------------------------------------------------
// Dims of a shape from major to minor in memory, and which logical dim each of them is.
void lower_physical(const hlo_shape *, i64 *dims, u32 *order);
// Indices into an array of dims in[rin] that have the same row-major position as idx has in an
// array of dims out[rout].
void lower_reshape_index(nest *, u32 rout, const i64 *out, const nest_expr *const *idx, u32 rin,
                         const i64 *in, const nest_expr **res);
nest_val lower_bitcast(lowering *, lower_frame *, const hlo_instr *, const nest_expr *const *idx,
                       u32 guard);
nest_val lower_bitcast_convert(lowering *, lower_frame *, const hlo_instr *, u32 rank,
                               const nest_expr *const *idx, u32 guard);
nest_val lower_concat(lowering *, lower_frame *, const hlo_instr *, u32 rank,
                      const nest_expr *const *idx, u32 guard);
nest_val lower_pad(lowering *, lower_frame *, const hlo_instr *, u32 rank,
                   const nest_expr *const *idx, u32 guard);
// Where dimension k of a dynamic-slice (first: 1) or dynamic-update-slice (2) starts: 0 to max.
const nest_expr *lower_dynamic_start(lowering *, lower_frame *, const hlo_instr *, u32 first, u32 k,
                                     i64 max, u32 guard);
nest_val lower_dynamic_slice(lowering *, lower_frame *, const hlo_instr *, u32 rank,
                             const nest_expr *const *idx, u32 guard);
nest_val lower_dynamic_update_slice(lowering *, lower_frame *, const hlo_instr *, u32 rank,
                                    const nest_expr *const *idx, u32 guard);
nest_val lower_gather(lowering *, lower_frame *, const hlo_instr *, u32 rank,
                      const nest_expr *const *idx, u32 guard);

// ---- lower_update.c: results that are updated in place ------------------------------------------
// The dynamic-update-slice that result leaf `leaf` of the kernel is, when only the part that it
// replaces has to be stored; NULL otherwise. *in: the leaf of the operands that it updates.
const hlo_instr *lower_update_of(const lowering *, const lower_frame *, const hlo_instr *root,
                                 u32 leaf, u32 *in);

// ---- lower_reduce.c: loops inside the element ---------------------------------------------------
nest_val lower_reduce(lowering *, lower_frame *, const hlo_instr *, u32 leaf, u32 rank,
                      const nest_expr *const *idx, u32 guard);
nest_val lower_reduce_window(lowering *, lower_frame *, const hlo_instr *, u32 leaf, u32 rank,
                             const nest_expr *const *idx, u32 guard);
// Builds a group over `loops` for values `in` (already lowered inside the loops) and `init`; gives
// the results. reducer NULL: the sum. merged: a group whose loops it shares, or NEST_NONE; cond:
// steps where it is false are left out.
void lower_group(lowering *, const hlo_instr *, const hlo_computation *reducer, u32 nloops,
                 const u32 *loops, u32 merged, u32 cond, u32 nvals, const nest_val *in,
                 const nest_val *init, const hlo_dtype *types, nest_val *out);
// Whether the computation may take its elements in any order.
bool lower_any_order(const hlo_instr *);
// choice.c: whether a reducer returns one of its arguments, whatever the order.
bool lower_chooses(const hlo_computation *);
// Whether the computation takes the operands' types, nv of them.
bool lower_reduces_as_is(const hlo_instr *, u32 nv);
// What a dot of such operands adds up in.
hlo_dtype lower_dot_sums(hlo_dtype a, hlo_dtype b, hlo_dtype result);
// Its sum as the result. A sum of floats is rounded to their type before it becomes an integer.
nest_val lower_dot_result(nest *, nest_val sum, hlo_dtype a, hlo_dtype b, hlo_dtype result);
nest_val lower_dot(lowering *, lower_frame *, const hlo_instr *, u32 rank,
                   const nest_expr *const *idx, u32 guard);

// ---- lower_window.c, lower_order.c: what nest_lower_all has besides -----------------------------
nest_val lower_convolution(lowering *, lower_frame *, const hlo_instr *, u32 rank,
                           const nest_expr *const *idx, u32 guard);
nest_val lower_select_and_scatter(lowering *, lower_frame *, const hlo_instr *, u32 rank,
                                  const nest_expr *const *idx, u32 guard);
nest_val lower_scatter(lowering *, lower_frame *, const hlo_instr *, u32 leaf, u32 rank,
                       const nest_expr *const *idx, u32 guard);
// A reduce-window that stands alone and is a prefix reduction, with its stages; false: it is
// something else.
bool lower_scan(lowering *, lower_frame *, const hlo_instr *root);
// A sort that is the root of the kernel, with its stores; false: it is something else.
bool lower_sort(lowering *, lower_frame *, const hlo_instr *root);
bool lower_topk(lowering *, lower_frame *, const hlo_instr *root);

#endif
