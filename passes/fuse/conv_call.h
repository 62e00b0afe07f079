// conv_call.h — calls of cuDNN: what the passes that make and change them share (conv_call.c).
#ifndef PASS_CONV_CALL_H
#define PASS_CONV_CALL_H

#include "core/ir/ir.h"

// The four kinds of calls; a row of the table in conv_call.c each.
typedef enum conv_kind {
  CONV_FORWARD,
  CONV_FUSED,   // forward, with a bias, another operand and an activation
  CONV_INPUT,   // the gradient of the input: (gradient of the result, filter)
  CONV_FILTER,  // of the filter: (input, gradient of the result)
  CONV_KINDS    // none of them
} conv_kind;

// The kind of a custom call; CONV_KINDS for every other instruction.
conv_kind pass_conv_kind(const hlo_instr *);
// Its target, as XLA has it, and the name that XLA gives such calls.
const char *pass_conv_target(conv_kind);
const char *pass_conv_name(conv_kind);

// Whether labels and window of a call or convolution fit its first two operands and `result`, with
// numbers that cannot overflow. Nobody verifies those of a call.
bool pass_conv_is_sound(const hlo_instr *, const hlo_shape *result);

// CudnnConvBackendConfig: result = activation(scale * conv + side * operand 3 + operand 2).
typedef struct conv_config {
  const char *activation;  // "kNone", "kRelu", ...
  double scale, side, leaky;
} conv_config;
// Of a call; what its text does not say is the default. The activation is one of the names of
// conv_call.c, NULL for a name that is not there.
conv_config pass_conv_config(const hlo_instr *call);
// As the text that XLA prints, in the module's arena.
void pass_conv_set_config(hlo_instr *call, const conv_config *);

// Appends the shortest decimal text that reads back as the number.
void pass_put_number(hs_buf *, double);

#endif
