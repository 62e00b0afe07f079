// resize.h — another size for a dimension of a parameter, and for everything that follows from
// it.
#ifndef PASSES_BUFFER_RESIZE_H
#define PASSES_BUFFER_RESIZE_H

#include "core/ir/ir.h"

// A dimension of a parameter of the entry that had to take a new size too.
typedef struct resize_follower {
  const hlo_instr *param;
  u32 leaf, dim;  // leaf of the parameter's shape
  i64 from, to;
} resize_follower;

// A constant that the size is about: its data was extended or cut along a dimension (EXTENDED), it
// was the bound of a loop over the dimension and is the new size now (BOUND), or it is a scalar
// that equals the old size, or its reciprocal, and was left as it is (LEFT).
typedef enum resize_constant_kind {
  RESIZE_EXTENDED,
  RESIZE_BOUND,
  RESIZE_LEFT
} resize_constant_kind;
typedef struct resize_constant {
  const hlo_instr *instr;
  resize_constant_kind kind;
  double value;  // of a scalar, as it is now
} resize_constant;
typedef HS_VEC(resize_constant) resize_constants;

typedef struct resize_report {
  HS_VEC(resize_follower) followers;
  HS_VEC(resize_follower) equal;  // leading dimensions of the old size that nothing ties to it
  resize_constants constants;
  u32 shapes, attributes;  // instructions that got a new shape, or a new attribute
} resize_report;
void resize_report_free(resize_report *);

// Gives dimension `dim` of leaf `leaf` of entry parameter `param` the size `size`, and every
// dimension that is tied to it the size that follows: forwards and backwards through operands,
// results and called computations, by the rules of resize.def. Sizes that only attributes hold are
// edited. Where the module leaves a choice (which part of a split dimension grows), the rules
// prefer the part that lies where the dimension grows, then the outermost. Other parameters, and
// the bounds of loops over the dimension (resize_loops.c), follow only with `follow`; without it
// E_SHAPE names the parameters. What cannot follow is an error that names the instruction:
// E_UNSUPPORTED for an operation or constant without a rule, E_SHAPE for sizes that disagree. After
// an error the module is partly edited: the caller rolls back. The report is the caller's to free,
// also after an error.
hs_status resize_module(hlo_module *, i64 param, u32 leaf, u32 dim, i64 size, bool follow,
                        resize_report *out);

#endif
