// algsimp_init.c — initial values of reductions: does one count when it is used again?
//
// A computation f that is no plain operation is tried: with the initial value alone, and with it
// before and behind what f makes of it and of a few other values.
#include "core/eval/eval.h"
#include "core/types/compare.h"
#include "passes/simplify/algsimp.h"

enum { MOST_ARRAYS = 4, MOST_STEPS = 8 };  // reduced at once; from a constant to a value

// Can a reducer be evaluated at once: small arrays, and nothing called that may take long?
static bool is_small(const hlo_computation *f) {
  enum { MOST = 4096 };
  hlo_for_each_instr(i, f) {
    bool array = hlo_shape_is_array(i->shape), tuple = i->opcode == HLO_TUPLE && hlo_is_root(i);
    if ((!array && !tuple) || (array && i->shape->elements > MOST) || hlo_ncalled(i) ||
        hlo_has_side_effect(i))
      return false;
  }
  return true;
}

// The value of one element that so many operations on one element make of constants, moved,
// converted or computed with; NULL: it is not known. The caller's reference.
static hlo_literal *element_of(const hlo_instr *v, u32 steps) {
  enum { MOST_OPERANDS = 3 };
  hlo_literal *in[MOST_OPERANDS] = {NULL}, *out = NULL;
  if (!hlo_shape_is_array(v->shape) || v->shape->elements != 1) return NULL;
  if (v->opcode == HLO_CONSTANT) {
    const hlo_literal *l = hlo_constant_value(v);
    return l && !hlo_literal_has_elided(l) ? hlo_literal_ref(l) : NULL;
  }
  bool known = steps && v->noperands && v->noperands <= MOST_OPERANDS &&
               hlo_op_has(v->opcode, HLO_F_ELEMENTWISE | HLO_F_MOVEMENT);
  for (u32 k = 0; known && k < v->noperands; k++)
    known = (in[k] = element_of(hlo_operand(v, k), steps - 1)) != NULL;
  hs_status s = known ? hlo_eval_instr(v, v->noperands, in, NULL, &out) : HS_GOOD;
  hs_status_drop(s);
  for (u32 k = 0; k < MOST_OPERANDS; k++) hlo_literal_unref(in[k]);
  return out;
}

// The same as a scalar of type t.
static hlo_literal *scalar_of(const hlo_instr *v, hlo_dtype t) {
  hlo_literal *l = hlo_shape_is_scalar(v->shape) ? element_of(v, MOST_STEPS) : NULL, *as = NULL;
  if (!l || l->shape->dtype == t) return l;
  if (!hlo_dtype_is_complex(t) && !hlo_dtype_is_complex(l->shape->dtype))
    as = hlo_literal_scalar_f64(v->parent->module->ctx, t, hlo_literal_f64(l, 0));
  return hlo_literal_unref(l), as;
}

// f of x and y, values for each array, as such values in z; false: it cannot be told.
static bool joined(const hlo_computation *f, u32 n, hlo_literal **x, hlo_literal **y,
                   hlo_literal **z) {
  hlo_literal *args[2 * MOST_ARRAYS] = {NULL}, *out = NULL;
  for (u32 k = 0; k < n; k++) args[k] = x[k], args[n + k] = y[k];
  hs_status s = hlo_eval_computation(f, 2 * n, args, NULL, &out);
  bool fine = hs_ok(s);
  hs_status_drop(s);
  for (u32 k = 0; k < n && fine; k++) {
    const hlo_literal *part = out->nchildren ? out->children[k] : out;
    hlo_dtype t = f->params[k]->shape->dtype;
    z[k] = part->shape->dtype == t
               ? hlo_literal_ref((hlo_literal *)part)
               : hlo_literal_scalar_f64(f->module->ctx, t, hlo_literal_f64(part, 0));
  }
  hlo_literal_unref(out);
  return fine;
}

static void unref_all(u32 n, hlo_literal **x) {
  for (u32 k = 0; k < n; k++) hlo_literal_unref(x[k]), x[k] = NULL;
}

// Is f(x, y) known to be another value than `is`, by more than rounding?
static bool makes_other(const hlo_computation *f, u32 n, hlo_literal **x, hlo_literal **y,
                        hlo_literal **is) {
  hlo_literal *z[MOST_ARRAYS] = {NULL};
  bool other = false;
  if (joined(f, n, x, y, z))
    for (u32 k = 0; k < n; k++) {
      hs_status s = hlo_compare(is[k], z[k], hlo_default_tolerance(is[k]->shape->dtype));
      other |= !hs_ok(s);
      hs_status_drop(s);
    }
  return unref_all(n, z), other;
}

static bool changes(const hlo_computation *f, u32 n, hlo_literal **init) {
  static const double numbers[] = {1, -1, 2, 0, 0.5};
  bool again = makes_other(f, n, init, init, init);
  for (size_t t = 0; t < HS_COUNT(numbers) && !again; t++) {
    hlo_literal *x[MOST_ARRAYS] = {NULL}, *y[MOST_ARRAYS] = {NULL};
    for (u32 k = 0; k < n; k++)
      x[k] = hlo_literal_scalar_f64(f->module->ctx, f->params[k]->shape->dtype, numbers[t]);
    if (joined(f, n, init, x, y))
      again = makes_other(f, n, y, init, y) || makes_other(f, n, init, y, y);
    unref_all(n, x), unref_all(n, y);
  }
  return again;
}

bool pass_alg_counts_init_again(const hlo_instr *r) {
  const hlo_computation *f = hlo_attr_comp(r, HLO_ATTR_TO_APPLY);
  u32 n = r->noperands / 2;
  if (n > MOST_ARRAYS || f->nparams != 2 * n || !is_small(f)) return false;
  hlo_literal *init[MOST_ARRAYS] = {NULL};
  bool known = true;
  for (u32 k = 0; k < n && known; k++) {
    const hlo_shape *s = f->params[k]->shape;
    known = hlo_shape_is_scalar(s) && f->params[n + k]->shape == s;
    if (known) init[k] = scalar_of(hlo_operand(r, n + k), s->dtype);
    known = init[k] != NULL;
  }
  bool again = known && changes(f, n, init);
  return unref_all(n, init), again;
}
