// subject.c — compiling and measuring what `speedup` and `versus` compare. See subject.h.
//
// Invariants: a subject is measured, estimated or failed; all measured ones run in the same rounds
// (profiler/trial.h), so that drift of the machine affects them equally.
#include "repl/measure/subject.h"

#include <stdlib.h>

#include "backends/pjrt/pjrt.h"
#include "core/analysis/cost.h"
#include "repl/shell/exec.h"
#include "repl/shell/plugin.h"

void subject_free(subject *x) {
  if (x->exe) x->be->release(x->exe);
  hlo_module_free(x->m);
  hs_free(x->version);
  prof_entry_free(&x->trial);
  hs_vec_free(&x->cpu_s);
  hs_vec_free(&x->faults);
  hs_vec_free(&x->joules);
  hs_status_drop(x->failed);
  hlo_literal_unref(x->result);
}

void comparison_free(comparison *c) {
  for (u32 k = 0; k < c->n; k++) subject_free(&c->x[k]);
}

static hs_status percentage(repl_cmd *c, const char *text, double *out) {
  size_t n = strlen(text);
  bool percent = n && text[n - 1] == '%';
  char *number = hs_format("%.*s", (int)(n - percent), text);
  hs_status s = repl_arg_num(c, "--until", number, out);
  hs_free(number);
  if (hs_ok(s) && percent) *out /= 100;
  if (hs_ok(s) && !(*out > 0 && *out < 1))
    return repl_usage_error(c, "--until is a part of the time, 2%% or 0.02, not \"%s\"", text);
  return s;
}

hs_status comparison_options(repl_cmd *c, double seconds, prof_trial_options *out) {
  *out = (prof_trial_options){.seconds = seconds, .seed = c->s->set.seed};
  const char *until = repl_flag(c, "--until");
  HS_TRY(repl_arg_seconds(c, &out->seconds));
  if (until) HS_TRY(percentage(c, until, &out->until));
  i64 rounds = 0;
  if (repl_flag(c, "--runs"))
    HS_TRY(repl_arg_int(c, "--runs", repl_flag(c, "--runs"), 1, 1000, &rounds));
  out->rounds = (u32)rounds;
  return HS_GOOD;
}

hs_status comparison_optimize(repl_cmd *c, hlo_module *m, const char *pipeline, pass_log *log) {
  pass_run_options o = pass_run_default();
  o.measure = log != NULL;
  const pass_pipeline *known = pipeline_find(c->s->passes, pipeline);
  return pipeline_run(m, known ? known->text : pipeline, &o, log);
}

hs_status comparison_peers(repl_cmd *c, const backend *peer[2]) {
  const char *name = repl_flag(c, "--peer");
  bool both = name && strcmp(name, "both") == 0;
  peer[0] = c->s->xla;
  peer[1] = both ? backend_with(BACKEND_PLUGIN) : NULL;
  if (both) peer[0] = backend_with(BACKEND_PYTHON);
  else if (name && strcmp(name, "none") == 0) peer[0] = NULL;
  else if (name) {
    peer[0] = strcmp(name, "auto") == 0 ? repl_xla_peer(c->s) : backend_find(name);
    if (!peer[0] || !backend_has(peer[0], BACKEND_XLA))
      return repl_usage_error(c, "--peer is auto, jax, pjrt, both or none, not \"%s\"", name);
  }
  for (u32 k = 0; name && k < 2 && peer[k]; k++) HS_TRY(repl_backend_usable(c->s, peer[k]));
  return HS_GOOD;
}

// ---- one subject --------------------------------------------------------------------------------
// Bytes that its kernels move in one run, each as often as it is executed.
static hs_status sum_bytes(subject *x, const backend_compiled *b) {
  // the module that the kernels' names are of
  const hlo_module *m = x->m;
  if (backend_has(x->be, BACKEND_XLA)) m = pjrt_compiled_result(x->exe)->optimized;
  hlo_cost_table cost = {0};
  if (m && hlo_known_invalid(m)) m = NULL;
  if (m) HS_TRY(hlo_cost_module(m, &cost));
  // where a computation has several callers, a backend may have made kernels of each
  u32 *copies = hs_calloc(cost.n + 1u, sizeof *copies);
  for (u32 pass = 0; pass < 2; pass++)
    for (u32 k = 0; k < b->nkernels; k++) {
      const hlo_instr *i = m ? hlo_find_instr(m, b->kernels[k].name) : NULL;
      bool known = i && i->id < cost.n;
      if (pass == 0) copies[known ? i->id : cost.n]++;
      else x->bytes_moved += b->kernels[k].bytes * (known ? cost.times[i->id] / copies[i->id] : 1);
    }
  hs_free(copies);
  hlo_cost_free(&cost);
  return HS_GOOD;
}

static hs_status subject_compile(repl_cmd *c, subject *x) {
  backend_options o = repl_backend_options(c->s);
  o.per_instruction = x->per_instruction;
  o.backend_only = x->backend_only;
  HS_TRY(x->be->compile(x->m, &o, &x->exe));
  const backend_compiled *b = x->be->compiled(x->exe);
  HS_TRY(repl_refuse_fallback(c, x->be, b));
  x->compile_ms = b->compile_ms;
  x->compile_cpu_ms = b->compile_cpu_ms;
  x->compile_peak_bytes = b->compile_peak_bytes ? b->compile_peak_bytes : -1;
  x->kernels = b->nkernels;
  HS_TRY(sum_bytes(x, b));
  x->argument_bytes = b->argument_bytes;
  x->output_bytes = b->output_bytes;
  x->alias_bytes = b->alias_bytes;
  x->temp_bytes = b->temp_bytes;
  x->devices = b->devices;
  x->peak_bytes = b->peak_bytes;
  return HS_GOOD;
}

static hs_status first_run(subject *x, u32 nargs, hlo_literal *const *args) {
  backend_run_options o = {.warmup = 1, .min_runs = 1, .max_runs = 1, .want_outputs = true};
  backend_result r = {0};
  HS_TRY(x->be->run(x->exe, nargs, args, &o, &r));
  x->first_ms = r.timing.first_ms;
  x->dispatch_ms = r.timing.dispatch_ms;
  x->transfer_ms = r.timing.transfer_ms;
  x->result = r.outputs ? hlo_literal_ref(r.outputs) : NULL;
  backend_result_free(&r);
  return HS_GOOD;
}

// ---- all of them --------------------------------------------------------------------------------
// Those that did not fail, in order.
typedef struct contest {
  u32 nargs;
  hlo_literal *const *args;
  subject *alive[MAX_SUBJECTS];
  u32 n, failed;     // failed: the position of the one whose run failed
  prof_probe probe;  // once a round
} contest;

// Where a request takes much longer than its runs (arguments that go to another process, Python),
// what the process used says little about a run.
static void take_usage(subject *x, prof_usage u, double wall_ms, const backend_timing *t) {
  double ms = 0, n = HS_MAX(t->runs, 1u);
  for (u32 k = 0; k < t->runs; k++) ms += t->samples_ms[k];
  if (wall_ms > 1.5 * ms) return;
  hs_vec_push(&x->cpu_s, u.cpu_s / n);
  hs_vec_push(&x->faults, u.faults / n);
  if (u.joules >= 0) hs_vec_push(&x->joules, u.joules / n);
}

// In fresh memory the first runs pay for their pages, which may use up the time of a round; what
// is measured begins behind them, and one run alone is no median.
static hs_status run_one(void *arg, u32 k, bool fresh, double seconds, prof_samples *out) {
  enum { FRESH_RUNS = 3, FRESH_SLICES = 4 };
  contest *t = arg;
  subject *x = t->alive[k];
  backend_run_options o = {.min_runs = fresh ? FRESH_RUNS : 1,
                           .max_runs = 1000000,
                           .min_seconds = seconds,
                           .max_seconds = fresh ? FRESH_SLICES * seconds : seconds,
                           .fresh_memory = fresh,
                           .keep_arguments = true};
  backend_result r = {0};
  t->failed = k;
  if (k == 0) prof_probe_once(&t->probe);
  prof_usage before = prof_usage_now();
  u64 from = hs_now_ns();
  HS_TRY(x->be->run(x->exe, t->nargs, t->args, &o, &r));
  double wall_ms = (double)(hs_now_ns() - from) * 1e-6;
  prof_usage after = prof_usage_now();
  // of the warm-up: its requests take no fresh memory
  if (!fresh) take_usage(x, prof_usage_between(&before, &after), wall_ms, &r.timing);
  for (u32 q = 0; q < r.timing.runs; q++) hs_vec_push(out, r.timing.samples_ms[q]);
  // measured warm, unlike that of the first run
  x->dispatch_ms = r.timing.dispatch_ms;
  x->power = r.timing.power;
  backend_result_free(&r);
  t->failed = MAX_SUBJECTS;
  return HS_GOOD;
}

// A trial of those that are left; a subject whose run fails is taken out, and the rest start again.
static hs_status contest_run(contest *t, const prof_trial_options *o, prof_trial *out) {
  for (;;) {
    prof_entry e[MAX_SUBJECTS] = {0};
    t->failed = MAX_SUBJECTS;
    hs_status s = prof_trial_run(e, t->n, run_one, t, o, out);
    for (u32 k = 0; k < t->n; k++) {
      if (hs_ok(s)) t->alive[k]->trial = e[k];
      else prof_entry_free(&e[k]);
    }
    if (hs_ok(s) || hs_is_stop(s) || t->failed == MAX_SUBJECTS) return s;
    t->alive[t->failed]->failed = s;
    memmove(&t->alive[t->failed], &t->alive[t->failed + 1],
            (t->n - t->failed - 1) * sizeof *t->alive);
    if (!--t->n) return HS_GOOD;
  }
}

double subject_used(const prof_samples *v) {
  return v->n ? prof_summarize(v->v, (u32)v->n).median : -1;
}

double subject_joules(const subject *x) {
  return x->power.seconds > 0 ? backend_power_of_run(&x->power) : subject_used(&x->joules);
}

// Rounds are too short for the energy counter of a device, and one program follows the other in
// them: so each runs for a second by itself. What it takes before that is in the delay of the
// counter, and is to be of the same program.
static hs_status measure_power(const contest *t, subject *x) {
  static const double before_s = 2 * BACKEND_POWER_LATE, measured_s = 1;
  for (u32 k = 0; k < 2; k++) {
    backend_run_options o = {.min_runs = 1, .max_runs = 1000000, .keep_arguments = true};
    o.min_seconds = o.max_seconds = k ? measured_s : before_s;
    backend_result r = {0};
    HS_TRY(x->be->run(x->exe, t->nargs, t->args, &o, &r));
    x->power = r.timing.power;
    backend_result_free(&r);
  }
  return HS_GOOD;
}

static hs_status measure_powers(const contest *t) {
  for (u32 k = 0; k < t->n; k++) {
    subject *x = t->alive[k];
    hs_status s = x->power.seconds > 0 ? measure_power(t, x) : HS_GOOD;
    if (hs_ok(s)) continue;
    if (hs_is_stop(s)) return s;
    x->failed = s;
  }
  return HS_GOOD;
}

static void take_figures(subject *x, const subject *first, double fault_s) {
  x->fault_s = fault_s;
  x->stats = prof_summarize(x->trial.runs.v, (u32)x->trial.runs.n);
  x->median = prof_median(x->trial.rounds.v, (u32)x->trial.rounds.n);
  if (x != first && hs_ok(first->failed))
    x->ratio = prof_ratio(first->trial.rounds.v, x->trial.rounds.v, (u32)x->trial.rounds.n);
}

hs_status comparison_measure(repl_cmd *c, comparison *m, const prof_trial_options *o) {
  contest t = {.nargs = c->mod->ninputs, .args = c->mod->inputs};
  if (m->args) t.nargs = m->nargs, t.args = m->args;
  // before anything of ours runs
  m->noise = prof_noise_measure(HS_MIN(0.2, o->seconds / 10));
  for (u32 k = 0; k < m->n; k++) {
    subject *x = &m->x[k];
    if (!hs_ok(x->failed)) continue;  // before it came here
    repl_note(c->out, "compiling %s ...", x->label);
    hs_status s = subject_compile(c, x);
    if (hs_ok(s)) s = first_run(x, t.nargs, t.args);
    if (!hs_ok(s) && hs_is_stop(s)) return s;
    if (hs_ok(s) && m->most_first_s > 0 && x->first_ms * 1e-3 > m->most_first_s) {
      m->too_long_s = x->first_ms * 1e-3;
      return HS_GOOD;
    }
    if (hs_ok(s)) t.alive[t.n++] = x;
    else x->failed = s;
  }
  if (t.n) {
    repl_note(c->out, "measuring for %g s ...", o->seconds);
    prof_others before = prof_others_now();
    hs_status s = contest_run(&t, o, &m->trial);
    prof_others after = prof_others_now();
    prof_noise_take_others(&m->noise, &before, &after);
    prof_noise_take_probe(&m->noise, &t.probe);
    prof_probe_free(&t.probe);
    HS_TRY(s);
    HS_TRY(measure_powers(&t));
  }
  double fault_s = prof_fault_s();
  for (u32 k = 0; k < t.n; k++) take_figures(t.alive[k], &m->x[0], fault_s);
  return HS_GOOD;
}

static hs_status estimate_one(subject *x, const prof_device *d) {
  prof_estimate e;
  hlo_memory mem;
  HS_TRY(prof_estimate_module(x->m, d, x->per_instruction, &e));
  HS_TRY(hlo_memory_estimate(x->m, x->per_instruction, &mem));
  double ms = e.time_s * 1e3;
  x->estimated = true;
  x->stats = prof_summarize(&ms, 1);
  x->median = (prof_interval){ms, ms, ms};
  x->kernels = e.kernels;
  x->bytes_moved = e.bytes;
  x->dispatch_ms = e.launch_s * 1e3;
  x->compile_ms = x->compile_cpu_ms = x->first_ms = x->transfer_ms = -1;
  x->compile_peak_bytes = -1;
  x->argument_bytes = mem.argument_bytes;
  x->output_bytes = mem.output_bytes;
  x->alias_bytes = mem.alias_bytes;
  x->temp_bytes = mem.temp_bytes;
  x->peak_bytes = mem.peak_bytes;
  x->parts = e.parts;
  i64 *const sizes[] = {&x->argument_bytes, &x->output_bytes, &x->alias_bytes, &x->temp_bytes,
                        &x->peak_bytes};
  for (size_t k = 0; k < HS_COUNT(sizes); k++) *sizes[k] /= e.parts;
  return HS_GOOD;
}

hs_status comparison_estimate(comparison *m, const prof_device *d) {
  for (u32 k = 0; k < m->n; k++) HS_TRY(estimate_one(&m->x[k], d));
  for (u32 k = 1; k < m->n; k++) {
    double r = m->x[k].median.value > 0 ? m->x[0].median.value / m->x[k].median.value : 0;
    m->x[k].ratio = (prof_interval){r, r, r};
  }
  return HS_GOOD;
}

// Whether one thing stopped every column.
static bool fail_alike(const comparison *m) {
  for (u32 k = 0; k < m->n; k++)
    if (hs_ok(m->x[k].failed) ||
        strcmp(m->x[k].failed.err->message, m->x[0].failed.err->message) != 0)
      return false;
  return m->n > 1;
}

static hs_status with_note_of(const hs_diag *e, hs_status s) {
  return e->note ? hs_with_note(s, "%s", e->note) : s;
}

hs_status comparison_failures(const comparison *m) {
  hs_status all = HS_GOOD;
  const hs_diag *first = m->x[0].failed.err;
  if (fail_alike(m))
    return with_note_of(first, hs_fail(HS_E_RUN, "nothing was measured: %s", first->message));
  for (u32 k = 0; k < m->n; k++) {
    const subject *x = &m->x[k];
    if (hs_ok(x->failed) || x->optional) continue;
    hs_status s = hs_fail(HS_E_RUN, "%s has no figures: %s", x->label, x->failed.err->message);
    s = with_note_of(x->failed.err, s);
    all = hs_ok(all) ? s : hs_chain(all, s);
  }
  return all;
}
