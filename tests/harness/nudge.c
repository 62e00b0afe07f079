// nudge.c — see nudge.h.
//
// Whether rounding decides a result shows when the inputs of the module are moved by a rounding
// (nudge_literal), but not where the inputs do not get that far: a Cholesky factor of a matrix of
// constants. What a factorization computes is the exact factor of a matrix that differs from the
// given one in the last places (backward stability: Higham, Accuracy and Stability of Numerical
// Algorithms, theorem 10.3), each implementation's of another such matrix. So two right results
// may be as far apart as the results of the same implementation on matrices that differ so, which
// is what nudge_module makes: it multiplies operands of such operations by constants that are 1 up
// to the last places. No other operation is touched: one that is exactly rounded gives one result,
// and moving its operands would excuse faults.
#include "tests/harness/nudge.h"

#include "core/analysis/customcall.h"
#include "core/infer/build.h"
#include "tests/harness/mutate.h"

#include <math.h>

hlo_literal *nudge_literal(const hlo_literal *l, double by, u64 *state) {
  hlo_literal *out = NULL;
  if (hlo_shape_is_tuple(l->shape)) {
    hlo_literal **parts = hs_calloc(l->nchildren + 1u, sizeof *parts);
    for (u32 k = 0; k < l->nchildren; k++) parts[k] = nudge_literal(l->children[k], by, state);
    out = hlo_literal_tuple(l->shape, l->nchildren, parts);
    return hs_free(parts), out;
  }
  hlo_dtype t = l->shape->dtype, part = hlo_dtype_real_part(t);
  if (!hlo_shape_is_array(l->shape) || !(hlo_dtype_is_float(t) || hlo_dtype_is_complex(t)))
    return hlo_literal_ref(l);
  hs_status s = hlo_literal_new(l->shape, &out);
  if (!hs_ok(s)) return hs_status_drop(s), hlo_literal_ref(l);
  memcpy(out->data, l->data, l->bytes);
  size_t w = hlo_dtype_storage(part);
  for (size_t k = 0; k < l->bytes / w; k++) {
    char *p = (char *)out->data + k * w;
    double x = hlo_elem_to_f64(part, p), e = HS_MAX(2 * hlo_dtype_epsilon(part), by);
    bool up = mutate_next(state) & 1;
    if (x == 0) hlo_elem_from_f64(part, p, up ? 0.0 : -0.0);  // which zero is rounding, too
    else if (isfinite(x)) hlo_elem_from_f64(part, p, up ? x + x * e : x - x * e);
  }
  return out;
}

static bool factors(const hlo_instr *i) {
  static const char *const costs[] = {
#define CUSTOM(id, target, shape, eval, cost, flags) [HLO_CUSTOM_##id] = #cost,
#include "core/analysis/customcalls.def"
#undef CUSTOM
  };
  if (i->opcode != HLO_CUSTOM_CALL) return hlo_ops[i->opcode].cost == HLO_COST_LINALG;
  const char *cost = costs[hlo_custom_find(hlo_attr_str(i, HLO_ATTR_CUSTOM_CALL_TARGET))];
  return cost && strcmp(cost, "linalg") == 0;
}

// operand `slot` of i, times numbers that are 1 but for their last places
static bool nudge_operand(hlo_instr *i, u32 slot, double by, u64 *state) {
  hlo_instr *x = hlo_operand(i, slot);
  if (!hlo_shape_is_array(x->shape) ||
      !(hlo_dtype_is_float(x->shape->dtype) || hlo_dtype_is_complex(x->shape->dtype)))
    return false;
  hlo_literal *ones = NULL;
  hs_status s = hlo_literal_new(x->shape, &ones);
  if (!hs_ok(s)) return hs_status_drop(s), false;
  for (i64 k = 0; k < x->shape->elements; k++) hlo_literal_set_f64(ones, k, 1);
  hlo_instr *by_ones = hlo_add_constant(i->parent, nudge_literal(ones, by, state), NULL);
  hlo_literal_unref(ones);
  hlo_instr *pair[] = {x, by_ones};
  hlo_set_operand(i, slot, hlo_add_before(i, HLO_MULTIPLY, x->shape, 2, pair, NULL));
  hlo_move_before(by_ones, hlo_operand(i, slot));
  return true;
}

hlo_module *nudge_module(const hlo_module *m, double by, u64 *state) {
  hlo_module *out = hlo_module_clone(m, NULL);
  bool any = false;
  hlo_for_each_comp(c, out)
    hlo_for_each_instr(i, c)
      for (u32 k = 0; factors(i) && k < i->noperands; k++) any |= nudge_operand(i, k, by, state);
  if (!any) hlo_module_free(out), out = NULL;
  return out;
}
