// build.h — instructions made with their shape inferred: what passes write instead of counting
// dimensions by hand.
//
// Every function appends the instruction to the computation of its first operand and returns it;
// the module owns it. Where the operands carry layouts, the result gets the default one. Operands
// must fit: a failing inference is a bug of the caller (HS_ASSERT).
#ifndef HLO_BUILD_H
#define HLO_BUILD_H

#include "core/ir/ir.h"

// Elementwise operations, and compare by a HLO_DIRECTION_*.
hlo_instr *hlo_build_unary(hlo_opcode, hlo_instr *a);
hlo_instr *hlo_build_binary(hlo_opcode, hlo_instr *a, hlo_instr *b);
hlo_instr *hlo_build_compare(hlo_instr *a, hlo_instr *b, int direction);
hlo_instr *hlo_build_select(hlo_instr *p, hlo_instr *t, hlo_instr *f);
hlo_instr *hlo_build_convert(hlo_instr *a, hlo_dtype);
// Data movement. perm, start, limit and stride have one entry for each dimension of a; mapping too:
// the dimension of the result (rank, dims) that each one becomes.
hlo_instr *hlo_build_reshape(hlo_instr *a, u32 rank, const i64 *dims);
hlo_instr *hlo_build_transpose(hlo_instr *a, const i64 *perm);
hlo_instr *hlo_build_broadcast(hlo_instr *a, u32 rank, const i64 *dims, const i64 *mapping);
hlo_instr *hlo_build_slice(hlo_instr *a, const i64 *start, const i64 *limit, const i64 *stride);
// Of n >= 1 parts, along dimension dim.
hlo_instr *hlo_build_concatenate(u32 n, hlo_instr *const *parts, i64 dim);
// One entry for each dimension of a.
hlo_instr *hlo_build_pad(hlo_instr *a, hlo_instr *value, const hlo_pad_dim *);
hlo_instr *hlo_build_reverse(hlo_instr *a, u32 n, const i64 *dims);
// Over n dimensions of a; reducer is called on pairs of scalars.
hlo_instr *hlo_build_reduce(hlo_instr *a, hlo_instr *init, u32 n, const i64 *dims,
                            hlo_computation *reducer);
// A scalar constant of any type, rounded or wrapped to it.
hlo_instr *hlo_build_scalar_f64(hlo_computation *, hlo_dtype, double);
hlo_instr *hlo_build_scalar_i64(hlo_computation *, hlo_dtype, i64);
// A broadcast of a scalar constant to a shape.
hlo_instr *hlo_build_full(hlo_computation *, const hlo_shape *, double);
// Computation (x, y) -> op(x, y) on scalars of a type; reused when the module already has the same
// one.
hlo_computation *hlo_build_scalar_computation(hlo_module *, hlo_opcode, hlo_dtype);

#endif
