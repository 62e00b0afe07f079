// alone.c: cutting, slicing and timing one kernel. See alone.h.
//
// A slice is the kernel with a dimension of an operand made smaller, and whatever is tied to that
// (passes/buffer/resize.h): outer dimensions are tried before inner ones, large operands before
// small ones, until the estimate and the sizes are small enough. What was left out of its work is
// counted, not estimated: floating-point operations where these bind the kernel, else bytes.
#include "repl/kernel/alone.h"

#include <math.h>

#include "core/eval/inputs.h"
#include "core/verify/verify.h"
#include "passes/buffer/resize.h"
#include "repl/shell/exec.h"

// ---- cutting ------------------------------------------------------------------------------------
// The operand's place in the new computation: a constant is copied, anything else is a parameter.
static hlo_instr *stand_in(hlo_computation *c, const hlo_instr *d) {
  if (d->opcode == HLO_CONSTANT) return hlo_clone_instr(c, d, NULL, 0, NULL);
  return hlo_add_parameter(c, c->nparams, d->shape, "p");
}

static hlo_computation *add_kernel(hlo_module *m, const hlo_instr *kernel, hs_arena *a) {
  hlo_computation *c = hlo_add_computation(m, "kernel");
  hlo_instr **operands = HS_NEW_ARRAY(a, hlo_instr *, kernel->noperands + 1);
  for (u32 k = 0; k < kernel->noperands; k++) {
    const hlo_instr *d = hlo_operand(kernel, k);
    for (u32 j = 0; j < k && !operands[k]; j++)
      if (hlo_operand(kernel, j) == d) operands[k] = operands[j];
    if (!operands[k]) operands[k] = stand_in(c, d);
  }
  hlo_set_root(c, hlo_clone_instr(c, kernel, NULL, kernel->noperands, operands));
  return c;
}

static void remove_kernel(hlo_computation *c) { hlo_remove_computation(c); }

hs_status alone_cut(hlo_module *from, const hlo_instr *kernel, hlo_module **out) {
  hs_arena a = {0};
  hlo_computation *c = add_kernel(from, kernel, &a);
  hlo_module *m = hlo_module_new(from->ctx, kernel->name);
  hlo_set_entry(m, hlo_clone_computation_into(m, c, "kernel"));
  hlo_journal_disable(m);
  remove_kernel(c);
  hs_arena_free(&a);
  hs_status s = hlo_verify(m, NULL);
  if (hs_ok(s)) *out = m;
  else hlo_module_free(m);
  return s;
}

// ---- slices -------------------------------------------------------------------------------------
typedef struct amount {
  prof_kernel k;
  double bytes;  // of operands and results
} amount;

static double shape_bytes(const hlo_shape *s) {
  double n = 0;
  for (u32 k = 0, e = hlo_shape_leaves(s); k < e; k++) {
    const hlo_shape *leaf = hlo_shape_leaf(s, k);
    if (hlo_shape_is_array(leaf))
      n += (double)leaf->elements * (double)hlo_dtype_storage(leaf->dtype);
  }
  return n;
}

static amount amount_of(const hlo_module *m, const prof_device *d) {
  amount a = {.bytes = shape_bytes(m->entry->root->shape)};
  for (u32 k = 0; k < m->entry->nparams; k++) a.bytes += shape_bytes(m->entry->params[k]->shape);
  prof_estimate_kernel(m->entry->root, d, &a.k);
  return a;
}

// How many times as much as allowed.
static double excess(const amount *a, const alone_options *o) {
  return fmax(a->k.seconds / o->most_s, a->bytes / o->most_bytes);
}

// The part of the work of `all` that `less` does.
static double part_of(const amount *less, const amount *all) {
  bool computes = all->k.bound == PROF_COMPUTE && all->k.flops > 0 && less->k.flops > 0;
  double of = computes ? all->k.flops : all->k.bytes, is = computes ? less->k.flops : less->k.bytes;
  return of > 0 && is > 0 ? fmin(is / of, 1) : 1;
}

static hs_status resized(const hlo_module *m, u32 param, u32 dim, i64 size, hlo_module **out) {
  hlo_module *n = hlo_module_clone(m, NULL);
  resize_report r;
  hs_status s = resize_module(n, param, 0, dim, size, true, &r);
  resize_report_free(&r);
  if (hs_ok(s)) s = hlo_verify(n, NULL);
  if (hs_ok(s)) {
    hlo_journal_disable(n);
    *out = n;
  } else hlo_module_free(n);
  return s;
}

// Array parameters, the largest first; returns how many.
static u32 by_size(const hlo_computation *c, u32 *order) {
  u32 n = 0;
  for (u32 k = 0; k < c->nparams; k++) {
    if (!hlo_shape_is_array(c->params[k]->shape)) continue;
    u32 at = n++;
    for (; at && shape_bytes(c->params[order[at - 1]]->shape) < shape_bytes(c->params[k]->shape);
         at--)
      order[at] = order[at - 1];
    order[at] = k;
  }
  return n;
}

// One dimension smaller, so that less is left than `most` of the excess; false: none can be.
static bool cut_one(hlo_module **m, const alone_options *o, amount *now) {
  enum { TRIES = 24, RANK = 16 };
  const hlo_computation *c = (*m)->entry;
  u32 *order = hs_calloc(c->nparams + 1, sizeof *order), n = by_size(c, order), tries = 0;
  double want = excess(now, o);
  bool done = false;
  for (u32 d = 0; d < RANK && !done; d++)
    for (u32 k = 0; k < n && !done && tries < TRIES; k++) {
      const hlo_shape *s = c->params[order[k]]->shape;
      if (d >= s->rank || s->dims[d] < 2) continue;
      i64 size = (i64)HS_MAX(floor((double)s->dims[d] / want), 1);
      hlo_module *less = NULL;
      tries++;
      hs_status st = resized(*m, order[k], d, size, &less);
      bool ok = hs_ok(st);
      hs_status_drop(st);
      if (!ok) continue;
      amount then = amount_of(less, o->here);
      done = excess(&then, o) < 0.8 * want;
      if (done) {
        hlo_module_free(*m);
        *m = less;
        *now = then;
        break;
      }
      hlo_module_free(less);
    }
  hs_free(order);
  return done;
}

// A dimension that only the result has: that of an iota, or one that a broadcast repeats along.
static bool cut_result(hlo_module **m, const alone_options *o, amount *now) {
  hlo_instr *root = (*m)->entry->root;
  const hlo_shape *s = root->shape;
  bool of_operand[HLO_MAX_RANK] = {0};
  if (!hlo_is(root, HLO_IOTA) && !hlo_is(root, HLO_BROADCAST)) return false;
  hlo_ints dims = hlo_attr_ints(root, HLO_ATTR_DIMENSIONS);
  for (u32 k = 0; k < dims.n; k++) of_operand[dims.v[k]] = true;
  double want = excess(now, o);
  for (u32 d = 0; d < s->rank; d++) {
    if (of_operand[d] || s->dims[d] < 2) continue;
    i64 size[HLO_MAX_RANK];
    memcpy(size, s->dims, s->rank * sizeof *size);
    size[d] = (i64)HS_MAX(floor((double)size[d] / want), 1);
    const hlo_shape *less = hlo_shape_array((*m)->ctx, s->dtype, s->rank, size);
    hlo_set_shape(root, hlo_shape_with_layout((*m)->ctx, less, s->layout));
    *now = amount_of(*m, o->here);
    return true;
  }
  return false;
}

// *out: NULL when all of it may be run.
static hs_status slice(const hlo_module *m, const alone_options *o, hlo_module **out,
                       double *part) {
  amount all = amount_of(m, o->here), now = all;
  *out = NULL;
  *part = 1;
  if (excess(&all, o) <= 1) return HS_GOOD;
  hlo_module *less = hlo_module_clone(m, NULL);
  for (int k = 0; k < 6 && excess(&now, o) > 1; k++)
    if (!cut_one(&less, o, &now) && !cut_result(&less, o, &now)) break;
  *part = part_of(&now, &all);
  // half as large again does no harm
  if (excess(&now, o) > 1.5 && now.bytes > 4 * o->most_bytes) {
    hlo_module_free(less);
    return hs_fail(HS_E_LIMIT, "no slice of it is small enough");
  }
  *out = less;
  return HS_GOOD;
}

// ---- timing -------------------------------------------------------------------------------------
// Elements of an operand, after which its numbers repeat.
enum { PERIOD = 1 << 18 };

static void take(alone_time *out, const backend_timing *t) {
  prof_stats st = prof_summarize(t->samples_ms, t->runs);
  prof_interval i = prof_median(t->samples_ms, t->runs);
  out->median = (prof_interval){i.value / out->part, i.low / out->part, i.high / out->part};
  out->p10 = st.p10 / out->part;
  out->p90 = st.p90 / out->part;
  out->runs = t->runs;
}

// Once, and again for the time that there is unless that one took several times as long.
static hs_status run(repl_cmd *c, backend_exe *exe, const hlo_module *m, const alone_options *o,
                     alone_time *out) {
  backend_run_options ro = {.min_runs = 1, .max_runs = 1, .keep_arguments = true};
  backend_result r = {0};
  hlo_literal **args = NULL;
  u32 nargs = 0;
  const hlo_random_options random = {.seed = c->s->set.seed, .period = PERIOD};
  HS_TRY(hlo_inputs_random_with(m, &random, &args, &nargs));
  hs_status s = o->be->run(exe, nargs, args, &ro, &r);
  if (hs_ok(s)) take(out, &r.timing);
  bool again = hs_ok(s) && r.timing.first_ms * 1e-3 < 3 * o->seconds;
  backend_result_free(&r);
  if (again) {
    ro.max_runs = 200;
    ro.min_seconds = o->seconds / 2;
    ro.max_seconds = o->seconds;
    s = o->be->run(exe, nargs, args, &ro, &r);
    if (hs_ok(s)) take(out, &r.timing);
    backend_result_free(&r);
  }
  hlo_inputs_free(args, nargs);
  return s;
}

hs_status alone_measure(repl_cmd *c, const hlo_module *m, const alone_options *o, alone_time *out) {
  hlo_module *less;
  *out = (alone_time){.part = 1};
  HS_TRY(slice(m, o, &less, &out->part));
  const hlo_module *what = less ? less : m;
  backend_options bo = repl_backend_options(c->s);
  bo.per_instruction = o->per_instruction;
  bo.one_device = true;
  backend_exe *exe = NULL;
  hs_status s = repl_memory_check(c, what, false, 0);
  if (hs_ok(s)) s = o->be->compile(what, &bo, &exe);
  if (hs_ok(s)) s = repl_refuse_fallback(c, o->be, o->be->compiled(exe));
  if (hs_ok(s)) s = run(c, exe, what, o, out);
  if (exe) o->be->release(exe);
  hlo_module_free(less);
  return s;
}
