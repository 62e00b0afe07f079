// meaning.h — does a module still mean the same? Both are evaluated on the same random inputs and the results compared by
// XLA's Near rule, where the evaluator covers the module and the work is bounded.
#ifndef TESTS_MEANING_H
#define TESTS_MEANING_H

#include "core/cost.h"
#include "core/eval.h"
#include "tests/drivers/driver.h"

typedef enum { MEANS_SAME, MEANS_OTHER, NOT_EVALUATED } meaning;

// What limits the comparison is the rounding of reassociated sums: 1e-3 in f32; where a module computes in a narrower
// type, one unit in its last place, for a sum that moves by an ulp of f32 may round to the neighbour there.
static inline hlo_tolerance meaning_tolerance(const hlo_module *m) {
  static const struct { hlo_dtype t; double unit; } narrow[] = {{HLO_F16, 0x1p-10}, {HLO_BF16, 0x1p-7}, {HLO_F8E4M3, 0x1p-3}, {HLO_F8E4M3FN, 0x1p-3}, {HLO_F8E5M2, 0x1p-2}};
  hlo_tolerance tol = {1e-4, 1e-3};
  hlo_for_each_comp(c, m) hlo_for_each_instr(i, c)
    for (size_t k = 0; k < HS_COUNT(narrow); k++)
      if (i->shape->dtype == narrow[k].t) tol.rel = HS_MAX(tol.rel, narrow[k].unit);
  return tol;
}

// A sum of so many narrow floats that it stops growing halfway, rounded at every step, is decided by how it is grouped: passes that
// write it another way cannot be held to it.
// An elementwise operation on several precisions does not say in which of them it works.
static inline bool meaning_unsettled(const hlo_module *m) {
  static const struct { hlo_dtype t; i64 most; } narrow[] = {{HLO_F16, 1 << 11}, {HLO_BF16, 1 << 8}, {HLO_F8E4M3, 1 << 4}, {HLO_F8E4M3FN, 1 << 4}, {HLO_F8E5M2, 1 << 3}};
  hlo_for_each_comp(c, m) hlo_for_each_instr(i, c) {
    for (u32 k = 0; k < i->noperands && hlo_op_has(i->opcode, HLO_F_ELEMENTWISE) && i->opcode != HLO_CONVERT && hlo_dtype_is_float(i->shape->dtype); k++)
      if (hlo_dtype_is_float(hlo_operand(i, k)->shape->dtype) && hlo_operand(i, k)->shape->dtype != i->shape->dtype) return true;
    if (i->opcode != HLO_REDUCE || !hlo_shape_is_array(i->shape) || !i->shape->elements) continue;
    for (size_t k = 0; k < HS_COUNT(narrow); k++)
      if (i->shape->dtype == narrow[k].t && hlo_operand(i, 0)->shape->elements / i->shape->elements > narrow[k].most) return true;
  }
  return false;
}

// Loops may have no end: evaluation stops after this many seconds, as by Ctrl-C.
#define MEANING_SECONDS 5
static inline void meaning_alarm(int sig) { (void)sig, hs_interrupted = 1; }
static inline void meaning_start(void) {
  hs_interrupted = 0;
  signal(SIGALRM, meaning_alarm);
  alarm(MEANING_SECONDS);
}
static inline void meaning_stop(void) {
  alarm(0);
  hs_interrupted = 0;
}

// Runs modules that cost at most this many operations (bytes count a quarter).
#define MEANING_WORK 2e8

static inline bool meaning_costs_at_most(const hlo_module *m, double most) {
  hlo_cost_table t;
  hs_status s = hlo_cost_module(m, &t);
  if (!hs_ok(s)) return hs_status_drop(s), false;
  double work = t.total.flops + t.total.transcendentals + (t.total.bytes_read + t.total.bytes_written) / 4;
  hlo_cost_free(&t);
  return work <= most;
}
static inline bool meaning_affordable(const hlo_module *m) { return meaning_costs_at_most(m, MEANING_WORK); }

// The value of a module on the inputs of seed 7; false (silently) when it cannot be had.
static inline bool meaning_value(const hlo_module *m, const hlo_module *inputs_of, hlo_literal **out) {
  hlo_literal **args;
  u32 n;
  hs_status s = hlo_inputs_random(m->ctx, inputs_of, 7, &args, &n);
  if (!hs_ok(s)) return hs_status_drop(s), false;
  hlo_eval_options o = {.max_bytes = (i64)1 << 31};
  meaning_start();
  s = hlo_eval_module(m, n, args, &o, out);
  meaning_stop();
  hlo_inputs_free(args, n);
  if (!hs_ok(s)) return hs_status_drop(s), false;
  return true;
}

static inline meaning meaning_compare(const hlo_module *before, const hlo_module *after, FILE *out) {
  hlo_literal *x = NULL, *y = NULL;
  if (meaning_unsettled(before) || !meaning_affordable(before) || !meaning_affordable(after) || !meaning_value(before, before, &x)) return NOT_EVALUATED;
  hlo_literal **args;
  u32 n;
  hlo_eval_options o = {.max_bytes = (i64)1 << 31};
  hs_status s = hlo_inputs_random(before->ctx, before, 7, &args, &n);
  meaning_start();
  if (hs_ok(s)) s = hlo_eval_module(after, n, args, &o, &y);
  meaning_stop();
  if (!hs_ok(s) && (s.err->code == HS_E_UNSUPPORTED || s.err->code == HS_E_INTERRUPTED)) return hs_status_drop(s), NOT_EVALUATED;
  if (hs_ok(s)) s = hlo_compare(x, y, meaning_tolerance(before));
  if (!hs_ok(s)) return drv_status(out, "means something else", s), MEANS_OTHER;
  return MEANS_SAME;
}

#endif
