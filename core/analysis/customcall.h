// customcall.h — what is known about a custom call's target (customcalls.def): the one place that
// says which targets are markers, what shapes a target's call must have, and what it costs.
#ifndef HLO_CUSTOMCALL_H
#define HLO_CUSTOMCALL_H

#include "core/analysis/cost.h"

typedef enum hlo_custom_id {
  HLO_CUSTOM_UNKNOWN,
#define CUSTOM(id, target, shape, eval, cost, flags) HLO_CUSTOM_##id,
#include "core/analysis/customcalls.def"
#undef CUSTOM
  HLO_CUSTOM_COUNT
} hlo_custom_id;

// The row of a target; HLO_CUSTOM_UNKNOWN when there is none.
hlo_custom_id hlo_custom_find(hs_str target);
// Whether the operands and results of a known call have the shapes that its meaning needs.
bool hlo_custom_shape_fits(hlo_custom_id, const hlo_instr *);
// Whether `i` is a custom call whose results are its operands unchanged: one array or tuple per
// operand, without a tuple around it when there is one operand. Layouts may differ.
bool hlo_custom_is_marker(const hlo_instr *i);
// Whether `i` is a custom call whose result depends on the device, or on other devices' operands.
bool hlo_custom_is_of_devices(const hlo_instr *i);
// Whether `i` is a custom call that means a call of the one computation that it names.
bool hlo_custom_is_body(const hlo_instr *i);
// Whether `i` is a custom call that jaxlib, not XLA, has the CPU's handler of.
bool hlo_custom_is_of_jaxlib(const hlo_instr *i);
// False when nothing is known about the call.
bool hlo_custom_cost(const hlo_instr *, hlo_cost *out);

#endif
