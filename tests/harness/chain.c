// chain.c — see chain.h. What does not verify goes no further: that it is refused is tested
// elsewhere. Errors that state a limit (unsupported, too large, too long) end a step, not the case;
// every other error of what works on a valid module is a fault.
//
// Results that rounding decides (a comparison of nearly equal numbers, a sum that cancels) differ
// between two right ways to compute them. Such a module is known by itself: evaluated on inputs
// that differ in their last places it gives another result, beyond the tolerance. It is
// counted, not reported. So is one that sorts by what is no order (order.h), and one that hands on
// elements that are not in use.
#include "core/analysis/agree.h"
#include "core/analysis/customcall.h"
#include "core/infer/infer.h"
#include "core/proto/proto.h"
#include "core/text/text.h"
#include "passes/passes.h"
#include "profiler/model/prof.h"
#include "tests/harness/chain.h"
#include "tests/harness/checks.h"
#include "tests/harness/meaning.h"
#include "tests/harness/mutate.h"
#include "tests/harness/order.h"
#include "viz/viz.h"

#include <math.h>
#include <stdio.h>

// What a case may evaluate, in operations and, as loops may have no end, in seconds: the
// interesting part is which, not how many.
#define CHAIN_WORK 3e6
#define CHAIN_EVALUATION 0.5
enum { CHAIN_INSTRUCTIONS = 400, CHAIN_SECONDS = 30 };

void chain_add(chain_counts *sum, const chain_counts *n) {
  sum->read += n->read, sum->valid += n->valid, sum->evaluated += n->evaluated;
  sum->ran += n->ran, sum->refused += n->refused, sum->unsettled += n->unsettled;
  sum->passes += n->passes, sum->changed += n->changed, sum->compared += n->compared;
  sum->declined += n->declined;
}
void chain_say(const chain_counts *n) {
  printf("%llu read, %llu of them valid, %llu evaluated; on cpu %llu compared, %llu declined; %llu "
         "runs of passes and pipelines, %llu changed their module, %llu compared, %llu declined; "
         "%llu results that rounding decides\n",
         (unsigned long long)n->read, (unsigned long long)n->valid,
         (unsigned long long)n->evaluated, (unsigned long long)n->ran,
         (unsigned long long)n->refused, (unsigned long long)n->passes,
         (unsigned long long)n->changed, (unsigned long long)n->compared,
         (unsigned long long)n->declined, (unsigned long long)n->unsettled);
}

void chain_open(chain *c) { c->backends = backend_context_new(); }
void chain_close(chain *c) { backend_context_free(c->backends); }

// One module on its way.
typedef struct way {
  chain *c;
  hlo_module *m;
  meaning_of meaning;
  chain_counts *n;
  hs_buf *why;
} way;

static void step(const way *w, const char *what) {
  if (w->c->step) w->c->step(w->c->arg, what);
}

// A limit or a stop, stated by any part of the error.
static bool stated_limit(hs_status s) {
  for (const hs_diag *d = s.err; d; d = d->next)
    if (d->code == HS_E_UNSUPPORTED || d->code == HS_E_LIMIT || d->code == HS_E_NO_MEMORY ||
        d->code == HS_E_INTERRUPTED || d->code == HS_E_DEADLINE || d->code == HS_E_NOT_BUILT ||
        d->code == HS_E_ELIDED)
      return true;
  return false;
}
static void say(way *w, const char *what, hs_status s) {
  hs_buf_printf(w->why, "%s", what);
  for (const hs_diag *d = s.err; d; d = d->next) hs_buf_printf(w->why, ": %s", d->message);
  hs_status_drop(s);
}
// Drops the status; false when it is a fault.
static bool fine(way *w, const char *what, hs_status s) {
  if (!hs_ok(s) && !stated_limit(s)) return say(w, what, s), false;
  return hs_status_drop(s), true;
}

// ---- is the result decided by rounding? ---------------------------------------------------------
// Whether rounding decides a result shows when the inputs of the module are moved by a rounding
// (nudge_literal), but not where the inputs do not get that far: a Cholesky factor of a matrix of
// constants. What a factorization computes is the exact factor of a matrix that differs from the
// given one in the last places (backward stability: Higham, Accuracy and Stability of Numerical
// Algorithms, theorem 10.3), each implementation's of another such matrix. So two right results
// may be as far apart as the results of the same implementation on matrices that differ so, which
// is what nudge_module makes: it multiplies operands of such operations (cost class LINALG, and the
// library calls that are such) by constants that are 1 up to the last places. So it does with what
// a dot or a convolution adds up, whose sum in floats is the exact one of factors that near
// (section 3.1 there; products that cancel leave 0, or fused the rounding of one of them), and with
// integers of which it makes floats: whether they are rounded before the sum or behind it is
// open. No other operation is touched: one that is exactly rounded gives one result, and moving its
// operands would excuse faults.
//
// The value with each floating-point number moved up or down by the share `by` of it, or by two
// units in the last place where that is more; a zero gets a sign by chance. A new reference.
static hlo_literal *nudge_literal(const hlo_literal *l, double by, u64 *state) {
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

static bool is_of_floats(const hlo_shape *s) {
  return hlo_shape_is_array(s) && (hlo_dtype_is_float(s->dtype) || hlo_dtype_is_complex(s->dtype));
}

// Are floats made of sums of integers?
static bool rounds_integers(const hlo_instr *i) {
  return (i->opcode == HLO_DOT || i->opcode == HLO_CONVOLUTION) && is_of_floats(i->shape) &&
         !is_of_floats(hlo_operand(i, 0)->shape) && !is_of_floats(hlo_operand(i, 1)->shape);
}

// Are products added up and rounded? One product alone is exactly rounded.
static bool sums_products(const hlo_instr *i) {
  return (i->opcode == HLO_DOT || i->opcode == HLO_CONVOLUTION) && is_of_floats(i->shape) &&
         hlo_cost_instr(i).flops > 2 * (double)i->shape->elements;
}

// operand `slot` of i, times numbers that are 1 but for their last places
static bool nudge_operand(hlo_instr *i, u32 slot, double by, u64 *state) {
  hlo_instr *x = hlo_operand(i, slot);
  if (rounds_integers(i) && hlo_dtype_is_integer(x->shape->dtype)) {
    x = hlo_build_convert(x, hlo_dtype_real_part(i->shape->dtype));
    hlo_move_before(x, i);
  }
  if (!is_of_floats(x->shape)) return false;
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

// A copy of the module with the operands of factorizations and sums of products moved by so much;
// NULL: it has none.
static hlo_module *nudge_module(const hlo_module *m, double by, u64 *state) {
  hlo_module *out = hlo_module_clone(m, NULL);
  bool any = false;
  hlo_for_each_comp(c, out)
    hlo_for_each_instr(i, c) {
      u32 moved = factors(i) ? i->noperands : sums_products(i) || rounds_integers(i) ? 2 : 0;
      for (u32 k = 0; k < moved; k++) any |= nudge_operand(i, k, by, state);
    }
  if (!any) hlo_module_free(out), out = NULL;
  return out;
}

// rng names no generator: each way to run it draws numbers of its own.
static bool draws(const hlo_module *m) {
  hlo_for_each_comp(c, m)
    hlo_for_each_instr(i, c)
      if (i->opcode == HLO_RNG) return true;
  return false;
}

// Does m, on these arguments, give another result than `value`?
static bool differs(const meaning_side *side, hlo_literal **args, const hlo_module *m,
                    const hlo_literal *value, hlo_tolerance tol) {
  hlo_literal *y = NULL;
  meaning_side near = {.m = side->m, .args = args, .nargs = side->nargs, .seconds = side->seconds};
  hs_status s = meaning_value(&near, m, &y);
  bool moved = false;
  if (hs_ok(s)) {
    s = hlo_agree(side->m->entry->root, value, y, tol);
    moved = !hs_ok(s);
  }
  hs_status_drop(s);
  hlo_literal_unref(y);
  return moved;
}

// Elements beyond the dynamic sizes have no value: what stands there differs by implementation. A
// reshape keeps the number of elements, and that of the sizes given to a dynamic-reshape is for the
// program to ensure: sizes that do not fit when it runs are undefined behaviour (StableHLO's RFC on
// dynamism, 20230704-dynamism-101, proposal P2, of all operations whose shapes are known late).
//
// An operation that states a type without its operands' dynamic dimensions hands on elements that
// are not in use: what they are is nowhere said.
static bool hides_sizes(const hlo_shape *stated, const hlo_shape *inferred) {
  u32 n = hlo_shape_leaves(inferred);
  for (u32 k = 0; k < n && n == hlo_shape_leaves(stated); k++) {
    const hlo_shape *s = hlo_shape_leaf(stated, k), *t = hlo_shape_leaf(inferred, k);
    for (u32 d = 0; t->dynamic && s->rank == t->rank && d < t->rank; d++)
      if (t->dynamic[d] && !hlo_dim_is_dynamic(s, d)) return true;
  }
  return false;
}
static bool hides_any(const hlo_instr *i) {
  return hlo_shape_is_dynamic(hlo_operand(i, 0)->shape) && !hlo_shape_is_dynamic(i->shape);
}
// The type of a dot follows the left side's batch dimensions alone.
static bool hides_batches(const hlo_instr *i) {
  if (i->opcode != HLO_DOT) return false;
  const hlo_shape *s = i->shape, *b = hlo_operand(i, 1)->shape;
  hlo_ints dims = hlo_attr_ints(i, HLO_ATTR_RHS_BATCH_DIMS);
  for (u32 k = 0; k < dims.n && b->dynamic; k++)
    if (b->dynamic[dims.v[k]] && !hlo_dim_is_dynamic(s, k)) return true;
  return false;
}
// Nor, of a branch or loop, the types of what it hands on.
static bool hides_on_the_way(const hlo_instr *i) {
  bool loop = i->opcode == HLO_WHILE;
  if (!loop && i->opcode != HLO_CONDITIONAL) return false;
  for (u32 k = 0, n = hlo_ncalled(i); k < n; k++) {
    const hlo_computation *f = hlo_called(i, k), *body = hlo_attr_comp(i, HLO_ATTR_BODY);
    const hlo_shape *p = f->params[0]->shape;
    if (hides_sizes(p, hlo_operand(i, loop ? 0 : k + 1)->shape)) return true;
    if (loop && hides_sizes(p, body->root->shape)) return true;
    if ((!loop || f == body) && hides_sizes(i->shape, f->root->shape)) return true;
  }
  return false;
}
static bool drops_sizes(const hlo_module *m) {
  hlo_for_each_comp(c, m)
    hlo_for_each_instr(i, c) {
      const hlo_shape *s = NULL;
      if ((i->opcode == HLO_RESHAPE && hides_any(i)) || hides_batches(i)) return true;
      if (hides_on_the_way(i)) return true;
      if (i->opcode == HLO_SET_DIMENSION_SIZE || !hlo_ops[i->opcode].inferable) continue;
      hs_status st = hlo_infer_instr(i, &s);
      bool hidden = hs_ok(st) && s && hides_sizes(i->shape, s);
      hs_status_drop(st);
      if (hidden) return true;
    }
  return false;
}

// How many elements operand 0 of each dynamic-reshape had in use when it was last computed.
typedef struct use_count {
  const hlo_instr *of;
  i64 n;
} use_count;
typedef struct sizes {
  HS_VEC(use_count) used;
  bool differ;
} sizes;

static i64 in_use(const hlo_literal *l) {
  i64 n = 1;
  for (u32 d = 0; d < l->shape->rank; d++)
    n *= l->dynamic_sizes ? l->dynamic_sizes[d] : l->shape->dims[d];
  return n;
}

static hs_status count_used(void *arg, const hlo_observation *o) {
  sizes *s = arg;
  const hlo_instr *i = o->instr;
  for (size_t k = s->used.n; i->opcode == HLO_DYNAMIC_RESHAPE && k--;)
    if (s->used.v[k].of == hlo_operand(i, 0)) {
      s->differ |= s->used.v[k].n != in_use(o->value);
      break;
    }
  bool reshaped = false;
  hlo_for_each_use(u, i) reshaped |= u->user->opcode == HLO_DYNAMIC_RESHAPE && hlo_slot(u) == 0;
  if (reshaped) hs_vec_push(&s->used, ((use_count){i, in_use(o->value)}));
  return HS_GOOD;
}

static bool asks_for_others(const hlo_module *m, u32 nargs, hlo_literal *const *args) {
  if (!m->nops[HLO_DYNAMIC_RESHAPE]) return false;
  sizes s = {0};
  hlo_eval_options o = {.max_bytes = (i64)1 << 30, .observe = count_used, .observe_arg = &s};
  hlo_literal *out = NULL;
  hs_status_drop(hlo_eval_module(m, nargs, args, &o, &out));
  hlo_literal_unref(out);
  hs_vec_free(&s.used);
  return s.differ;
}

static bool shows_unused(const hlo_module *m, u32 nargs, hlo_literal *const *args) {
  return drops_sizes(m) || asks_for_others(m, nargs, args);
}

// Does `value`, which m gives on the inputs of side, move with their last places, or with the order
// of its sums and products?
static bool moves(const meaning_side *side, const hlo_module *m, const hlo_literal *value) {
  const hlo_tolerance near = hlo_near(1e-4, 1e-3), stated = meaning_tolerance(m);
  bool moved = false;
  u64 state = 11;
  double by = 1e-7;
  for (u32 round = 0; round < 4 && !moved; round++) {
    by *= 3;
    hlo_literal **args = hs_calloc(side->nargs + 1u, sizeof *args);
    for (u32 k = 0; k < side->nargs; k++) args[k] = nudge_literal(side->args[k], by, &state);
    moved = differs(side, args, m, value, near);
    for (u32 k = 0; k < side->nargs; k++) hlo_literal_unref(args[k]);
    hs_free(args);
    hlo_module *inside = moved ? NULL : nudge_module(m, by, &state);
    if (inside) moved = differs(side, side->args, inside, value, near);
    hlo_module_free(inside);
  }
  for (grouping how = 0; how < GROUPINGS && !moved; how++) {
    hlo_module *turned = reordered(m, how);
    if (turned) moved = differs(side, side->args, turned, value, stated);
    hlo_module_free(turned);
  }
  return moved;
}

// Is the difference between the module's result and another, of what a pass made of it if `other`
// is given, one that no right way to compute it excludes?
static bool unsettled(way *w, const hlo_module *other) {
  const meaning_side *side = &w->meaning.narrow;
  if (shows_unused(side->m, side->nargs, side->args)) return true;
  if (draws(side->m) || sorts_without_order(side->m, side->nargs, side->args) ||
      picks_among_nans(side->m, side->nargs, side->args) ||
      shows_bits_of_nans(side->m, side->nargs, side->args) ||
      factors_indefinite(side->m, side->nargs, side->args))
    return true;
  if (moves(side, side->m, side->value)) return true;
  hlo_literal *value = NULL;
  hs_status s = other ? meaning_value(side, other, &value) : HS_GOOD;
  bool moved = hs_ok(s) && value && moves(side, other, value);
  hs_status_drop(s);
  hlo_literal_unref(value);
  return moved;
}

// ---- steps --------------------------------------------------------------------------------------
static bool estimates(way *w) {
  hlo_cost_table t = {0};
  hlo_memory memory;
  prof_estimate e;
  step(w, "cost");
  hs_status s = hlo_cost_module(w->m, &t);
  if (hs_ok(s)) hlo_cost_free(&t);
  if (!fine(w, "cost", s)) return false;
  (void)hlo_cost_xla(w->m);
  step(w, "memory");
  for (u32 k = 0; k < 2; k++)
    if (!fine(w, "memory", hlo_memory_estimate(w->m, k, &memory))) return false;
  step(w, "estimate");
  for (u32 k = 0; k < 2; k++)
    if (!fine(w, "estimate", prof_estimate_module(w->m, &prof_devices[0], k, &e))) return false;
  return true;
}

static bool pictures(way *w) {
  step(w, "plot");
  hs_buf b = {0};
  char *note = NULL;
  const viz_options all = {.show_fusions = true, .show_layouts = true, .show_metadata = true},
                    root = {.center = w->m->entry->root, .width = 2};
  bool ok = fine(w, "plot", viz_dot(w->m, &all, &b, &note));
  hs_free(note);
  note = NULL;
  if (ok) ok = fine(w, "plot", viz_dot(w->m, &root, &b, &note));
  hs_free(note);
  if (ok) ok = fine(w, "show", viz_terminal(w->m, &root, true, &b));
  hs_buf_free(&b);
  return ok;
}

static hs_status on_cpu(void *arg, const meaning_side *x, const hlo_module *m, hlo_literal **out) {
  const backend_options o = {
      .context = ((chain *)arg)->backends, .threads = 1, .deadline_s = CHAIN_SECONDS};
  return backend_run_once(backend_find("cpu"), m, &o, x->nargs, x->args, out);
}

static bool differential(way *w) {
  const backend *cpu = backend_find("cpu");
  if (!cpu || !w->meaning.narrow.value) return true;
  hs_status why = cpu->probe();
  if (!hs_ok(why)) return hs_status_drop(why), true;
  step(w, "cpu");
  meaning r = meaning_still_by(&w->meaning, w->m, "", on_cpu, w->c, &why);
  w->n->ran += r != NOT_EVALUATED;
  w->n->refused += r == NOT_EVALUATED;
  if (r != MEANS_OTHER) return hs_status_drop(why), true;
  if (stated_limit(why)) return w->n->refused++, hs_status_drop(why), true;
  if (why.err->code == HS_E_DIFFER && unsettled(w, NULL))
    return w->n->unsettled++, hs_status_drop(why), true;
  return say(w, "cpu is not interp", why), false;
}

// Whether a bitcast sees an array as one of another size: the verifier looks only where layouts are
// final, and the evaluator declines. Where one does already, passes may repeat it (in each fusion
// that reads it) and join it with the next one.
static bool misfits(const hlo_module *m) {
  hlo_for_each_comp(c, m)
    hlo_for_each_instr(i, c) {
      if (i->opcode != HLO_BITCAST || !hlo_shape_is_array(i->shape)) continue;
      const hlo_shape *x = hlo_operand(i, 0)->shape;
      if (hs_mul_sat_i64(x->elements, hlo_dtype_bits(x->dtype)) !=
          hs_mul_sat_i64(i->shape->elements, hlo_dtype_bits(i->shape->dtype)))
        return true;
    }
  return false;
}

// What passes made of the module, m: does it mean the same?
static bool means_the_same(way *w, const hlo_module *m, const char *text) {
  hs_status why = HS_GOOD;
  meaning r = w->meaning.narrow.value ? meaning_still(&w->meaning, m, text, &why) : NOT_EVALUATED;
  w->n->compared += r != NOT_EVALUATED;
  if (r != MEANS_OTHER || stated_limit(why)) return hs_status_drop(why), true;
  if (why.err->code == HS_E_DIFFER && unsettled(w, m))
    return w->n->unsettled++, hs_status_drop(why), true;
  hs_buf_printf(w->why, "%s: ", text);
  return say(w, "means something else", why), false;
}

// Passes that are for other modules, as one behind layout assignment, say so by their own code
// below the runner's.
static bool refuses(hs_status s) {
  return s.err->code == HS_E_PASS && s.err->next && s.err->next->code == HS_E_PASS;
}

static bool pass(way *w, const char *text) {
  step(w, text);
  w->n->passes++;
  pass_run_options o = pass_run_default();
  o.verify_all = true;
  o.measure = false;
  hlo_module *m = hlo_module_clone(w->m, w->m->name);
  u64 generation = m->generation;
  hs_status s = pipeline_run(m, text, &o, NULL);
  bool ok = true;
  if (!hs_ok(s)) {
    w->n->declined++;
    if (refuses(s)) hs_status_drop(s);
    else ok = fine(w, text, s);
  } else if (m->generation != generation) {
    w->n->changed++;
    ok = !misfits(m) || misfits(w->m);
    if (ok) ok = means_the_same(w, m, text);
    else hs_buf_printf(w->why, "%s: a bitcast between arrays of different size", text);
  }
  hlo_module_free(m);
  return ok;
}

static bool passes(way *w, u64 number) {
  const pass_registry *r = &pass_builtin;
  u64 state = number;
  for (u32 k = 0; k < (w->c->passes ? w->c->passes : r->npasses); k++) {
    u32 p = w->c->passes ? (u32)mutate_below(&state, r->npasses) : k;
    if (!pass(w, r->passes[p]->name)) return false;
  }
  return pass(w, "cpu") && pass(w, "tuned");
}

// Inputs and constants cost their bytes before anything is evaluated.
static bool small(const hlo_module *m) {
  i64 bytes = 0;
  hlo_for_each_comp(c, m)
    hlo_for_each_instr(i, c) bytes = hs_add_sat_i64(bytes, hlo_shape_bytes(i->shape));
  return bytes <= 1 << 25;
}

static u32 instructions(const hlo_module *m) {
  u32 n = 0;
  hlo_for_each_comp(c, m)
    hlo_for_each_instr(i, c) n += i != NULL;
  return n;
}

bool chain_check(chain *c, const char *bytes, size_t n, u64 number, chain_counts *counts,
                 hs_buf *why) {
  way w = {.c = c, .n = counts, .why = why};
  check_counts read = {0};
  bool proto = hlo_is_proto(bytes, n),
       ok = proto ? check_proto(bytes, n, &read, why) : check_text(bytes, n, &read, why);
  counts->read += read.read, counts->valid += read.valid;
  if (!ok || !read.valid) return ok;
  hlo_ctx *ctx = hlo_ctx_new();
  hs_status s =
      proto ? hlo_proto_read(ctx, bytes, n, "chain", &w.m) : hlo_parse(ctx, bytes, n, NULL, &w.m);
  if (hs_ok(s) && instructions(w.m) <= CHAIN_INSTRUCTIONS) {
    ok = estimates(&w) && pictures(&w);
    if (ok) {
      step(&w, "evaluating");
      meaning_open(&w.meaning, w.m, NULL, small(w.m) ? CHAIN_WORK : -1, CHAIN_EVALUATION);
      counts->evaluated += w.meaning.narrow.value != NULL;
      ok = differential(&w) && passes(&w, number);
      meaning_close(&w.meaning);
    }
  }
  hs_status_drop(s);
  hlo_module_free(w.m);
  hlo_ctx_free(ctx);
  return ok;
}
