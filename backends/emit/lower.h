// lower.h — what the files of the lowering HLO -> loop nest share (lower.c, lower_move.c,
// lower_reduce.c); nest.h is the way in.
//
// A frame is one activation of a computation: the fusion itself, a nested fusion or call
// (parameters are operands of the caller in the frame above), or a scalar computation (parameters
// are values: map, reducers). An element of an instruction is named by (frame, instruction, leaf of
// its shape, indices), and asked for under a guard: a node that must hold for the element to be
// read, or NEST_NONE. Every function that can refuse leaves its reason in l->err and gives
// LOWER_NONE.
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
// The node of one element; remembered.
nest_val lower_value(lowering *, lower_frame *, const hlo_instr *, u32 leaf, u32 rank,
                     const nest_expr *const *idx, u32 guard);
// Remembers an element that was lowered together with another one.
void lower_put(lowering *, const lower_frame *, const hlo_instr *, u32 leaf, u32 rank,
               const nest_expr *const *idx, u32 guard, nest_val);
// Ends the lowering with "unsupported: OPCODE: why".
nest_val lower_refuse(lowering *, const hlo_instr *, const char *why);
// Can kernels compute in this type?
bool lower_dtype_ok(hlo_dtype);

// ---- lower_move.c: index rewriting --------------------------------------------------------------
void lower_physical(const hlo_shape *, i64 *dims, u32 *order);
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
nest_val lower_dynamic_slice(lowering *, lower_frame *, const hlo_instr *, u32 rank,
                             const nest_expr *const *idx, u32 guard);
nest_val lower_dynamic_update_slice(lowering *, lower_frame *, const hlo_instr *, u32 rank,
                                    const nest_expr *const *idx, u32 guard);
nest_val lower_gather(lowering *, lower_frame *, const hlo_instr *, u32 rank,
                      const nest_expr *const *idx, u32 guard);

// ---- lower_reduce.c: loops inside the element ---------------------------------------------------
nest_val lower_reduce(lowering *, lower_frame *, const hlo_instr *, u32 leaf, u32 rank,
                      const nest_expr *const *idx, u32 guard);
nest_val lower_reduce_window(lowering *, lower_frame *, const hlo_instr *, u32 leaf, u32 rank,
                             const nest_expr *const *idx, u32 guard);
nest_val lower_dot(lowering *, lower_frame *, const hlo_instr *, u32 rank,
                   const nest_expr *const *idx, u32 guard);

#endif
