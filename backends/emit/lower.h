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

#include "backends/emit/nest.h"

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
nest_val lower_dot(lowering *, lower_frame *, const hlo_instr *, u32 rank,
                   const nest_expr *const *idx, u32 guard);

#endif
