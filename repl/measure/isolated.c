// isolated.c: profile by isolation. See isolated.h.
//
// It is for backends that cannot tell the kernels of a program apart, and for programs that do not
// fit in memory as a whole. What it measures differs from a run of the program: operands lie where
// the kernel's own last run left them, mostly in a cache; nothing runs beside it; and a compiler
// that fuses sees one instruction where the program has many, so that the sum can be larger or
// smaller than a run. Therefore it is marked wherever it is shown, with the run of the whole
// beside it.
//
// A run of a program costs something of its own (a call of the plug-in). It is measured with a
// program that negates one number, and taken off each kernel.
#include "repl/measure/isolated.h"

#include <math.h>
#include <stdlib.h>

#include "core/analysis/customcall.h"
#include "core/eval/inputs.h"
#include "core/text/text.h"
#include "repl/debug/cut.h"
#include "repl/shell/exec.h"

// How often a kernel is timed.
enum { RUNS = 9 };
// Seconds, or --seconds where that is longer, after which no further kernel is compiled. Those that
// are estimated to take longest come first, so that the rest is little.
static const double longest = 60;

typedef struct kernel_time {
  u64 print;  // of its structure
  u32 n;      // 0: it could not be measured
  double ms[RUNS];
} kernel_time;

// A kernel of the version, and the estimate of all its executions.
typedef struct candidate {
  hlo_instr *i;
  double seconds;
} candidate;

typedef struct isolation {
  repl_cmd *c;
  kernel_run *p;
  hlo_module *m;  // the version, elided constants filled
  HS_VEC(candidate) kernels;
  HS_VEC(u32) time_of;  // by kernel: position in times
  HS_VEC(kernel_time) times;
  double seconds;  // asked for
  double call_ms;
} isolation;

// Times of a program of `m`, in the order of the runs; at most RUNS, at least 3. For a tenth of a
// second when its runs are short.
static hs_status time_module(const isolation *x, const hlo_module *m, kernel_time *out) {
  const backend *be = x->c->s->be;
  const backend_options bo = repl_backend_options(x->c->s);
  const backend_run_options o = {
      .warmup = 1, .min_runs = 3, .max_runs = 200, .min_seconds = 0.02, .max_seconds = 0.1};
  backend_exe *exe;
  backend_result r = {0};
  hlo_literal **args = NULL;
  u32 nargs = 0;
  HS_TRY(repl_memory_check(x->c, m, false, 0));
  HS_TRY(be->compile(m, &bo, &exe));
  hs_status s = repl_refuse_fallback(x->c, be, be->compiled(exe));
  if (hs_ok(s)) s = hlo_inputs_random(x->c->s->ctx, m, x->c->s->set.seed, &args, &nargs);
  if (hs_ok(s)) s = be->run(exe, nargs, args, &o, &r);
  if (hs_ok(s)) {
    // medians of neighbours, so that one long run is not a tenth of the kernel
    out->n = HS_MIN(r.timing.runs, (u32)RUNS);
    u32 each = r.timing.runs / out->n;
    for (u32 k = 0; k < out->n; k++)
      out->ms[k] = prof_summarize(r.timing.samples_ms + (size_t)k * each, each).median;
  }
  backend_result_free(&r);
  hlo_inputs_free(args, nargs);
  be->release(exe);
  return s;
}

static hs_status time_a_call(isolation *x) {
  static const char text[] =
      "HloModule call\nENTRY e {\n  p = f32[] parameter(0)\n  ROOT n = f32[] negate(p)\n}\n";
  hlo_module *m;
  kernel_time t = {0};
  HS_TRY(hlo_parse(x->c->s->ctx, text, sizeof text - 1, NULL, &m));
  hs_status s = time_module(x, m, &t);
  hlo_module_free(m);
  if (hs_ok(s)) x->call_ms = prof_summarize(t.ms, t.n).median;
  return s;
}

// ---- the kernels --------------------------------------------------------------------------------
// Of the current version, which the estimates are of.
static u32 id_of(const isolation *x, const hlo_instr *i) {
  return hlo_find_instr(x->c->m, i->name)->id;
}

// What only says where values are, or becomes an exchange between devices, is nothing by itself.
static bool is_of_partitions(const hlo_instr *i) {
  return hlo_custom_is_marker(i) || hlo_custom_is_of_devices(i);
}

static int heavier_first(const void *a, const void *b) {
  const candidate *x = a, *y = b;
  if (x->seconds != y->seconds) return x->seconds < y->seconds ? 1 : -1;
  return (x->i->id > y->i->id) - (x->i->id < y->i->id);
}

static void find_kernels(isolation *x) {
  const prof_module *e = &x->p->model;
  hlo_for_each_comp(k, x->m)
    hlo_for_each_instr(i, k) {
      const hlo_instr *own = hlo_find_instr(x->c->m, i->name);
      if (!own || !(e->times[own->id] > 0) || !(e->kernels[own->id].seconds > 0) ||
          hlo_op_has(i->opcode, HLO_F_CONTROL) || is_of_partitions(i))
        continue;
      candidate one = {i, e->times[own->id] * e->kernels[own->id].seconds};
      hs_vec_push(&x->kernels, one);
    }
  if (x->kernels.n) qsort(x->kernels.v, x->kernels.n, sizeof *x->kernels.v, heavier_first);
}

// The position of the kernel's times, which are measured unless an equal one was.
static hs_status time_kernel(isolation *x, hlo_instr *i, u32 *at) {
  hlo_module *m;
  u32 noperands;
  const hlo_instr **operands = NULL;
  kernel_time t = {0};
  hs_status s = cut_instructions(x->m, 1, &i, true, &m, &noperands, &operands);
  if (hs_ok(s)) {
    t.print = hlo_fingerprint(m);
    for (*at = 0; *at < x->times.n; ++*at)
      if (x->times.v[*at].print == t.print) break;
    if (*at == x->times.n) s = time_module(x, m, &t);
    hlo_module_free(m);
    hs_free(operands);
  } else *at = (u32)x->times.n;
  if (*at == x->times.n) hs_vec_push(&x->times, t);
  if (hs_interrupted()) return s;
  if (!hs_ok(s)) repl_note(x->c->out, "%s is left out: %s", i->name, s.err->message);
  hs_status_drop(s);
  return hs_poll();
}

static hs_status time_kernels(isolation *x) {
  double all = 0, late = 0, seconds = fmax(x->seconds, longest);
  u64 from = hs_now_ns();
  for (size_t k = 0; k < x->kernels.n; k++) {
    all += x->kernels.v[k].seconds;
    if ((double)(hs_now_ns() - from) * 1e-9 > seconds) {
      late += x->kernels.v[k].seconds;
      x->p->late++;
      continue;
    }
    u32 at;
    repl_progress(x->c->out, "kernels alone", (double)k, (double)x->kernels.n);
    HS_TRY(time_kernel(x, x->kernels.v[k].i, &at));
    hs_vec_push(&x->time_of, at);
  }
  x->kernels.n -= x->p->late;
  x->p->late_share = all > 0 ? late / all : 0;
  return HS_GOOD;
}

// ---- the whole ----------------------------------------------------------------------------------
static hs_status time_whole(isolation *x) {
  repl_cmd *c = x->c;
  hs_status fits = repl_memory_check(c, c->m, false, 0);
  if (!hs_ok(fits)) {
    repl_note(c->out, "the whole is not run: %s", fits.err->message);
    hs_status_drop(fits);
    return HS_GOOD;
  }
  const backend_run_options o = {.warmup = 1,
                                 .min_runs = 5,
                                 .max_runs = 10000,
                                 .min_seconds = x->seconds / 2,
                                 .max_seconds = x->seconds / 2};
  repl_exe *exe;
  HS_TRY(repl_inputs(c));
  HS_TRY(repl_compiled(c, c->s->be, false, false, &exe));
  HS_TRY(exe->be->run(exe->exe, c->mod->ninputs, c->mod->inputs, &o, &x->p->result));
  x->p->plain = prof_summarize(x->p->result.timing.samples_ms, x->p->result.timing.runs);
  return HS_GOOD;
}

static void make_recording(isolation *x) {
  kernel_run *p = x->p;
  hs_arena *a = x->c->scratch;
  u32 n = 0, runs = RUNS;
  for (size_t k = 0; k < x->kernels.n; k++) {
    u32 have = x->times.v[x->time_of.v[k]].n;
    if (have) runs = HS_MIN(runs, have);
    else p->left_out++;
  }
  backend_kernel *kernels = HS_NEW_ARRAY(a, backend_kernel, x->kernels.n + 1);
  prof_recording *rec = hs_calloc(1, sizeof *rec);
  u32 most = (u32)x->kernels.n - p->left_out;
  *rec = (prof_recording){.nkernels = most, .nruns = runs};
  rec->run_ms = hs_calloc(runs + 1u, sizeof *rec->run_ms);
  rec->ms = hs_calloc((size_t)runs * most + 1, sizeof *rec->ms);
  rec->calls = hs_calloc(most + 1u, sizeof *rec->calls);
  for (size_t k = 0; k < x->kernels.n; k++) {
    const kernel_time *t = &x->times.v[x->time_of.v[k]];
    const hlo_instr *i = x->kernels.v[k].i;
    if (!t->n) continue;
    u32 id = id_of(x, i);
    const prof_kernel *e = &p->model.kernels[id];
    double times = fmax(round(p->model.times[id]), 1);
    kernels[n] = (backend_kernel){.name = hs_arena_strndup(a, i->name, strlen(i->name)),
                                  .kind = hlo_op_text(i->opcode),
                                  .instr = id,
                                  .flops = e->flops,
                                  .bytes = e->bytes};
    rec->calls[n] = (u64)HS_MIN(times, 0x1p62);
    for (u32 r = 0; r < runs; r++) {
      double ms = times * fmax(t->ms[r] - x->call_ms, 0);
      rec->ms[(size_t)r * most + n] = ms;
      rec->run_ms[r] += ms;
    }
    n++;
  }
  p->kernels = kernels;
  p->rec = p->own = rec;
  p->isolated = true;
  p->call_ms = x->call_ms;
  p->distinct = (u32)x->times.n;
}

hs_status isolated_record(repl_cmd *c, kernel_run *p) {
  isolation x = {.c = c, .p = p, .seconds = 1};
  HS_TRY(repl_arg_seconds(c, &x.seconds));
  HS_TRY(repl_runnable(c, NULL, false, &x.m));
  hs_status s = kernels_estimate(c, false, p);
  if (hs_ok(s)) find_kernels(&x);
  if (hs_ok(s) && !x.kernels.n)
    s = hs_fail(HS_E_UNSUPPORTED, "%s has no kernels that could be measured alone", c->m->name);
  if (hs_ok(s)) s = time_a_call(&x);
  if (hs_ok(s)) s = time_kernels(&x);
  repl_progress_end(c->out);
  if (hs_ok(s)) s = time_whole(&x);
  if (hs_ok(s)) make_recording(&x);
  if (hs_ok(s) && !p->rec->nkernels)
    s = hs_fail(HS_E_RUN, "none of the kernels of %s could be measured alone", c->m->name);
  hlo_module_free(x.m);
  hs_vec_free(&x.kernels);
  hs_vec_free(&x.time_of);
  hs_vec_free(&x.times);
  if (!hs_ok(s)) kernels_free(p);
  return s;
}
