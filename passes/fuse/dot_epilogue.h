// dot_epilogue.h — what may follow a dot or a convolution in one kernel: a vector added along its
// columns or features, an array of the result's size added to a convolution, an activation.
// Libraries of them do that where they store a result; so do our kernels.
#ifndef PASS_DOT_EPILOGUE_H
#define PASS_DOT_EPILOGUE_H

#include "core/ir/ir.h"

typedef enum dot_activation {
  DOT_PLAIN,
  DOT_RELU,  // maximum(x, 0)
  DOT_GELU   // x (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))) / 2
} dot_activation;

// root = activation(before), before = dot + bias, with reshapes that move nothing behind the dot.
// Of a convolution: before = dot + bias + side, in any order, without reshapes.
typedef struct dot_epilogue {
  const hlo_instr *root, *dot;
  const hlo_instr *bias;    // a broadcast, NULL: nothing is added
  const hlo_instr *side;    // what else is added; NULL: nothing
  const hlo_instr *before;  // what the activation takes; the root where there is none
  dot_activation activation;
} dot_epilogue;

// The activation that the value is the result of, and what it is applied to; DOT_PLAIN: the value.
dot_activation pass_dot_activation(const hlo_instr *, const hlo_instr **before);
// Whether the value is a dot or a convolution with an epilogue. Says nothing of other users of what
// is in between.
bool pass_dot_epilogue(const hlo_instr *root, dot_epilogue *out);
// The same of the body of a fusion; both: its second result is what the activation takes.
bool pass_dot_epilogue_body(const hlo_computation *, dot_epilogue *, bool *both);

#endif
