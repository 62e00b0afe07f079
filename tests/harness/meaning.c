// meaning.c — does a module still mean the same? Both are evaluated on the same random inputs and
// the results compared by XLA's Near rule, where the evaluator covers the module and the work is
// bounded.
//
// Passes may round elsewhere than the original: a sum of equal terms becomes a product, a dot its
// products and their sum. Within f32 the tolerance covers that. Where a module computes in narrower
// types, the values may differ by any number of units, and two modules that differ there are
// compared once more in wide arithmetic (widen.h), in which only a different function differs. That
// second look does not excuse a value that became infinite or no number, nor results that are
// wholly apart.
#include "tests/harness/meaning.h"

#include "core/analysis/agree.h"
#include "core/analysis/cost.h"
#include "tests/harness/driver.h"
#include "tests/harness/widen.h"

#include <math.h>
#include <signal.h>
#include <sys/time.h>

// What limits the comparison is the rounding of reassociated sums: 1e-3 in f32; where a module
// computes in a narrower type, one unit in its last place, for a sum that moves by an ulp of f32
// may round to the neighbour there, but never more than a half, which that unit is in f4e2m1fn (2
// and 3). A result of such a type may be its neighbour in any case, also near zero.
hlo_tolerance meaning_tolerance(const hlo_module *m) {
  hlo_tolerance tol = hlo_near(1e-4, 1e-3);
  tol.ulps = 1;
  hlo_for_each_comp(c, m)
    hlo_for_each_instr(i, c)
      tol.rel = HS_MAX(tol.rel, HS_MIN(hlo_default_tolerance(i->shape->dtype).rel, 0.5));
  return tol;
}

// The bits of an integer type that has so few values that all triples of them are tried; else 0.
static u32 few_values(hlo_dtype t) {
  bool whole = hlo_dtype_is_integer(t) || t == HLO_PRED;
  return whole && hlo_dtype_bits(t) <= 2 ? (u32)hlo_dtype_bits(t) : 0;
}

// What f makes of two groups of n scalars, which may be of another precision than it takes.
static hs_status meaning_join(const hlo_computation *f, u32 n, hlo_literal *const *left,
                              hlo_literal *const *right, hlo_literal **out) {
  hlo_literal *in[8] = {0};
  for (u32 k = 0; k < 2 * n; k++) {
    hlo_literal *v = k < n ? left[k] : right[k - n];
    hlo_dtype t = f->params[k]->shape->dtype;
    in[k] = v->shape->dtype == t ? hlo_literal_ref(v)
                                 : hlo_literal_scalar_f64(f->module->ctx, t, hlo_literal_f64(v, 0));
  }
  hs_status s = hlo_eval_computation(f, 2 * n, in, NULL, out);
  for (u32 k = 0; k < 2 * n; k++) hlo_literal_unref(in[k]);
  return s;
}

bool meaning_associative(const hlo_computation *f, bool nans) {
  static const double numbers[] = {1, -1, 2, 0.5, 0, -2, 1, NAN},
                      wholes[HS_COUNT(numbers)] = {1, 7, 2, 3, 0, -2, 5, -1};
  u32 n = f->nparams / 2, at = 0, many = HS_COUNT(numbers) - !nans;
  for (u32 k = 0; k < f->nparams; k++)
    if (!hlo_shape_is_scalar(f->params[k]->shape)) return true;
  bool same = n > 0 && n <= 4, evaluated = true;
  u32 bits = n == 1 ? few_values(f->params[0]->shape->dtype) : 0;
  u32 trials = bits ? 1u << 3 * bits : nans ? 16 : 8;
  for (u32 trial = 0; same && evaluated && trial < trials; trial++) {
    hlo_literal *x[3][4], *two[4] = {0};  // two: f of two of them, in its parts
    for (u32 j = 0; j < 3; j++)
      for (u32 k = 0; k < n; k++) {
        hlo_dtype t = f->params[k]->shape->dtype;
        bool whole = hlo_dtype_is_integer(t) || t == HLO_PRED;
        double v = (whole ? wholes : numbers)[(at += 5) % many];
        if (bits) v = trial >> j * bits & ((1u << bits) - 1);
        if (bits && hlo_dtype_is_signed(t)) v -= 1u << (bits - 1);
        x[j][k] =
            hlo_literal_scalar_f64(f->module->ctx, t, isnan(v) && !hlo_dtype_is_float(t) ? 1 : v);
      }
    hlo_literal *grouped[2] = {NULL, NULL};
    for (u32 g = 0; g < 2 && evaluated; g++) {
      hlo_literal *inner = NULL;
      hs_status s = meaning_join(f, n, x[g], x[g + 1], &inner);
      for (u32 k = 0; hs_ok(s) && k < n; k++)
        two[k] = inner->nchildren ? inner->children[k] : inner;
      if (hs_ok(s)) s = meaning_join(f, n, g ? x[0] : two, g ? two : x[2], &grouped[g]);
      evaluated = hs_ok(s);
      hs_status_drop(s);
      hlo_literal_unref(inner);
    }
    if (evaluated) {
      hs_status s = hlo_compare(grouped[0], grouped[1], hlo_near(0.05, 0.2));
      same = hs_ok(s);
      hs_status_drop(s);
    }
    for (u32 j = 0; j < 3; j++)
      for (u32 k = 0; k < n; k++) hlo_literal_unref(x[j][k]);
    hlo_literal_unref(grouped[0]);
    hlo_literal_unref(grouped[1]);
  }
  return same || !evaluated;
}

// How many elements a reduction joins in each of its result; 0: it is none.
static i64 meaning_terms(const hlo_instr *i) {
  const hlo_window *w = hlo_attr_ptr(i, HLO_ATTR_WINDOW);
  i64 terms = 1;
  if (i->opcode == HLO_REDUCE) return hlo_operand(i, 0)->shape->elements / i->shape->elements;
  if (i->opcode != HLO_REDUCE_WINDOW || !w) return 0;
  for (u32 k = 0; k < w->n; k++) terms = hs_mul_sat_i64(terms, w->v[k].size);
  return terms;
}

// The bits of precision in which a reduction joins: the fewest of its result and of what its
// computation makes; 64 where no floats are joined.
static int meaning_precision(const hlo_instr *i) {
  int bits = 64;
  if (hlo_dtype_is_float(i->shape->dtype)) bits = hlo_dtype_significand(i->shape->dtype);
  hlo_for_each_instr(x, hlo_attr_comp(i, HLO_ATTR_TO_APPLY))
    if (hlo_shape_is_array(x->shape) && hlo_dtype_is_float(x->shape->dtype))
      bits = HS_MIN(bits, hlo_dtype_significand(x->shape->dtype));
  return bits;
}

// A sum of so many narrow floats that it stops growing halfway, rounded at every step, is decided
// by how it is grouped: passes that write it another way cannot be held to it. An elementwise
// operation, or one that moves values, on several precisions does not say in which of them it
// works.
static bool meaning_unsettled(const hlo_module *m) {
  hlo_for_each_comp(c, m)
    hlo_for_each_instr(i, c) {
      for (u32 k = 0;
           k < i->noperands && hlo_op_has(i->opcode, HLO_F_ELEMENTWISE | HLO_F_MOVEMENT) &&
           i->opcode != HLO_CONVERT && hlo_dtype_is_float(i->shape->dtype);
           k++)
        if (hlo_dtype_is_float(hlo_operand(i, k)->shape->dtype) &&
            hlo_operand(i, k)->shape->dtype != i->shape->dtype)
          return true;
      if ((i->opcode == HLO_REDUCE || i->opcode == HLO_REDUCE_WINDOW) &&
          !meaning_associative(hlo_attr_comp(i, HLO_ATTR_TO_APPLY), false))
        return true;
      if (!hlo_shape_is_array(i->shape) || !i->shape->elements) continue;
      i64 terms = meaning_terms(i);
      int bits = terms ? meaning_precision(i) : 64;
      if (bits <= 11 && terms > (i64)1 << bits) return true;
    }
  return false;
}

// Loops may have no end: evaluation stops after so many seconds of the process, as by Ctrl-C.
static hs_interrupt interrupt;
static void meaning_alarm(int sig) { (void)sig, interrupt = 1; }
static void meaning_timer(double seconds) {
  time_t whole = (time_t)seconds;
  interrupt = 0;
  setitimer(
      ITIMER_PROF,
      &(struct itimerval){.it_value = {whole, (suseconds_t)((seconds - (double)whole) * 1e6)}},
      NULL);
}
static void meaning_start(double seconds) {
  hs_interrupt_watch(&interrupt);
  signal(SIGPROF, meaning_alarm);
  meaning_timer(seconds);
}
static void meaning_stop(void) { meaning_timer(0); }

static bool meaning_costs_at_most(const hlo_module *m, double most) {
  hlo_cost_table t;
  hs_status s = hlo_cost_module(m, &t);
  if (!hs_ok(s)) return hs_status_drop(s), false;
  double work =
      t.total.flops + t.total.transcendentals + (t.total.bytes_read + t.total.bytes_written) / 4;
  hlo_cost_free(&t);
  return work <= most;
}

// ---- one module, compared with what passes make of it -------------------------------------------

hs_status meaning_value(const meaning_side *x, const hlo_module *m, hlo_literal **out) {
  hlo_eval_options o = {.max_bytes = (i64)1 << 31};
  bool transfers;
  // as many devices, also where what names them has gone
  HS_TRY(hlo_eval_devices(x->m, NULL, &o.nreplicas, &o.npartitions, &transfers));
  meaning_start(x->seconds > 0 ? x->seconds : MEANING_SECONDS);
  hs_status s = hlo_eval_module(m, x->nargs, x->args, &o, out);
  meaning_stop();
  return s;
}
bool meaning_not_covered(hs_status s) {
  return !hs_ok(s) && (s.err->code == HS_E_UNSUPPORTED || s.err->code == HS_E_INTERRUPTED);
}

// Dynamic dimensions of random inputs have fewer elements in use than their bounds.
static void cut_sizes(hlo_literal *l, u32 *k) {
  for (u32 j = 0; j < l->nchildren; j++) cut_sizes(l->children[j], k);
  for (u32 d = 0; l->dynamic_sizes && d < l->shape->rank; d++, ++*k)
    if (hlo_dim_is_dynamic(l->shape, d))
      l->dynamic_sizes[d] = (i32)HS_MAX(HS_MIN(l->shape->dims[d], INT32_MAX) - 1 - *k % 3, 0);
}

void meaning_open(meaning_of *x, const hlo_module *m, const char *inputs, double work,
                  double seconds) {
  *x = (meaning_of){.work = work, .narrow = {.m = m, .seconds = seconds}, .wide.seconds = seconds};
  if (!meaning_costs_at_most(m, work)) {
    x->looked_wide = true;
    return;
  }
  hs_status s = inputs ? hlo_inputs_formula(m->ctx, m, inputs, strlen(inputs), &x->narrow.args,
                                            &x->narrow.nargs)
                       : hlo_inputs_random(m->ctx, m, 7, &x->narrow.args, &x->narrow.nargs);
  for (u32 k = 0, n = 0; hs_ok(s) && !inputs && k < x->narrow.nargs; k++)
    cut_sizes(x->narrow.args[k], &n);
  if (hs_ok(s) && !meaning_unsettled(m)) s = meaning_value(&x->narrow, m, &x->narrow.value);
  if (!hs_ok(s)) x->looked_wide = true;
  hs_status_drop(s);
}

void meaning_close(meaning_of *x) {
  for (u32 k = 0; k < 2; k++) {
    meaning_side *s = k ? &x->wide : &x->narrow;
    hlo_literal_unref(s->value);
    if (s->args) hlo_inputs_free(s->args, s->nargs);
  }
  hlo_module_free((hlo_module *)(uintptr_t)x->wide.m);
}

static const meaning_side *meaning_wide(meaning_of *x) {
  if (x->looked_wide) return x->wide.value ? &x->wide : NULL;
  x->looked_wide = true;
  meaning_side *w = &x->wide;
  w->m = widen_has_narrow(x->narrow.m) ? widen_module(x->narrow.m) : NULL;
  if (!w->m || meaning_unsettled(w->m)) return NULL;
  w->nargs = x->narrow.nargs;
  w->args = hs_calloc(w->nargs + 1u, sizeof *w->args);
  hs_status s = HS_GOOD;
  for (u32 k = 0; hs_ok(s) && k < w->nargs; k++)
    s = widen_literal(x->narrow.args[k], w->m->entry->params[k]->shape, &w->args[k]);
  if (hs_ok(s)) s = meaning_value(w, w->m, &w->value);
  hs_status_drop(s);
  return w->value ? w : NULL;
}

// What rounding does not do: make numbers of what is none or the other way round, and move a whole
// array by a half of its length.
static bool meaning_within_reach(const hlo_literal *a, const hlo_literal *b) {
  for (u32 k = 0; k < a->nchildren && k < b->nchildren; k++)
    if (!meaning_within_reach(a->children[k], b->children[k])) return false;
  if (!hlo_shape_is_array(a->shape) || !hlo_dtype_is_float(a->shape->dtype)) return true;
  double length = 0, apart = 0;
  for (i64 k = 0; k < a->shape->elements; k++) {
    double x = hlo_literal_f64(a, k), y = hlo_literal_f64(b, k);
    if (!isfinite(x) || !isfinite(y)) {
      if (!(x == y || (isnan(x) && isnan(y)))) return false;
      continue;
    }
    length += x * x, apart += (x - y) * (x - y);
  }
  return apart <= length / 4;
}

// A pass whose purpose is to leave out roundings to narrow types: that it means the same shows in
// wide arithmetic only.
static bool meaning_rounds_less(const char *passes) {
  return strstr(passes, "simplify-fp-conversions") != NULL;
}

meaning meaning_still_by(meaning_of *x, const hlo_module *m, const char *passes, meaning_run *run,
                         void *arg, hs_status *why) {
  *why = HS_GOOD;
  hlo_literal *y = NULL;
  // rng-expander: random numbers by another generator
  if (m->nops[HLO_RNG] < x->narrow.m->nops[HLO_RNG] && m->nops[HLO_RNG_GET_AND_UPDATE_STATE])
    return NOT_EVALUATED;
  bool narrow = x->narrow.value && !(meaning_rounds_less(passes) && widen_has_narrow(x->narrow.m));
  if (narrow) {
    hs_status s = run(arg, &x->narrow, m, &y);
    if (meaning_not_covered(s)) return hs_status_drop(s), NOT_EVALUATED;
    if (hs_ok(s))
      s = hlo_agree(x->narrow.m->entry->root, x->narrow.value, y, meaning_tolerance(x->narrow.m));
    bool apart = !hs_ok(s) && (!y || s.err->code != HS_E_DIFFER ||
                               y->shape->logical != x->narrow.value->shape->logical ||
                               !meaning_within_reach(x->narrow.value, y));
    hlo_literal_unref(y);
    if (hs_ok(s)) return MEANS_SAME;
    *why = s;
    if (apart) return MEANS_OTHER;
  }
  const meaning_side *w = meaning_wide(x);
  hlo_module *wide = w ? widen_module(m) : NULL;
  if (!wide) return narrow ? MEANS_OTHER : NOT_EVALUATED;
  y = NULL;
  hs_status s = run(arg, w, wide, &y);
  bool evaluated = !meaning_not_covered(s);
  // A constant that a pass wrote is rounded to the narrow type still: all that counts where the
  // narrow values themselves do not.
  if (hs_ok(s))
    s = hlo_agree(w->m->entry->root, w->value, y,
                  meaning_tolerance(x->narrow.value ? w->m : x->narrow.m));
  hlo_literal_unref(y);
  hlo_module_free(wide);
  if (!hs_ok(s) && !narrow && evaluated) return *why = s, MEANS_OTHER;
  if (!hs_ok(s)) return hs_status_drop(s), narrow ? MEANS_OTHER : NOT_EVALUATED;
  hs_status_drop(*why);
  *why = HS_GOOD;
  return MEANS_SAME;
}

static hs_status meaning_evaluate(void *arg, const meaning_side *x, const hlo_module *m,
                                  hlo_literal **out) {
  (void)arg;
  return meaning_value(x, m, out);
}
meaning meaning_still(meaning_of *x, const hlo_module *m, const char *passes, hs_status *why) {
  return meaning_still_by(x, m, passes, meaning_evaluate, NULL, why);
}

meaning meaning_compare(const hlo_module *before, const hlo_module *after, const char *passes,
                        FILE *out) {
  meaning_of x;
  hs_status why = HS_GOOD;
  meaning_open(&x, before, NULL, MEANING_WORK, MEANING_SECONDS);
  meaning r = meaning_costs_at_most(after, MEANING_WORK) ? meaning_still(&x, after, passes, &why)
                                                         : NOT_EVALUATED;
  if (r == MEANS_OTHER) drv_status(out, "means something else", why);
  meaning_close(&x);
  return r;
}
