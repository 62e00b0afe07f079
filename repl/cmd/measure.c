// measure.c: speedup, profile, versus: what do the passes gain? `speedup` measures (or estimates)
// the module as loaded with one kernel per instruction, as loaded and compiled as a whole, after
// passes run by hand, and after the tuned pipeline, and prints one table of time and memory with
// the saving. `profile` lists measured and estimated time per kernel; `versus` compares two
// versions.
//
// Invariants: a column is either measured or estimated; programs are measured in alternation (A B
// C, A B C, ...), so that drift of the machine affects all of them equally; a program whose results
// differ from the baseline's is reported as such; an unknown figure is "-" in text and null in
// JSON, never 0.
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "repl/cmd/cmd.h"
#include "repl/shell/exec.h"
#include "repl/shell/plugin.h"

enum { ROUNDS = 3 };

// One measured or estimated program: a column of the table.
typedef struct subject {
  const char *key, *label;  // JSON name and column title
  hlo_module *m;            // owned
  char *version;            // as users name it, malloc'ed
  bool per_instruction, estimated;
  const backend *be;  // that runs it
  // optional: left out when it cannot be compiled or run; backend_only: the plug-in only generates
  // code
  bool optional, backend_only;
  backend_exe *exe;
  HS_VEC(double) samples;  // steady runs, ms
  double first_ms, dispatch_ms, transfer_ms, compile_ms, compile_cpu_ms;
  prof_stats stats;
  u32 kernels;
  double bytes_moved;
  // -1: not known
  i64 compile_peak_bytes, argument_bytes, output_bytes, alias_bytes, temp_bytes, peak_bytes;
  hlo_literal *result;
} subject;

static void subject_free(subject *x) {
  if (x->exe) x->be->release(x->exe);
  hlo_module_free(x->m);
  hs_free(x->version);
  hs_vec_free(&x->samples);
  hlo_literal_unref(x->result);
}

// ---- measuring ----------------------------------------------------------------------------------

static hs_status subject_compile(repl_cmd *c, subject *x) {
  const backend *be = x->be;
  backend_options o = repl_backend_options(c->s);
  o.per_instruction = x->per_instruction;
  o.backend_only = x->backend_only;
  o.allow_fallback = repl_allow_fallback(c);
  HS_TRY(be->compile(x->m, &o, &x->exe));
  const backend_compiled *b = be->compiled(x->exe);
  x->compile_ms = b->compile_ms;
  x->compile_cpu_ms = b->compile_cpu_ms;
  x->compile_peak_bytes = b->compile_peak_bytes ? b->compile_peak_bytes : -1;
  x->kernels = b->nkernels;
  for (u32 k = 0; k < b->nkernels; k++) x->bytes_moved += b->kernels[k].bytes;
  x->argument_bytes = b->argument_bytes;
  x->output_bytes = b->output_bytes;
  x->alias_bytes = b->alias_bytes;
  x->temp_bytes = b->temp_bytes;
  x->peak_bytes = b->peak_bytes;
  return HS_GOOD;
}

static hs_status subject_run(repl_cmd *c, subject *x, double seconds, u32 runs, bool first) {
  backend_run_options o = {.warmup = first ? 1 : 0,
                           .min_runs = runs,
                           .max_runs = HS_MAX(runs, 10000u),
                           .min_seconds = seconds / 2,
                           .max_seconds = seconds,
                           .want_outputs = first};
  backend_result r = {0};
  HS_TRY(x->be->run(x->exe, c->mod->ninputs, c->mod->inputs, &o, &r));
  if (first) {
    x->first_ms = r.timing.first_ms;
    x->dispatch_ms = r.timing.dispatch_ms;
    x->transfer_ms = r.timing.transfer_ms;
    x->result = r.outputs ? hlo_literal_ref(r.outputs) : NULL;
  }
  for (u32 k = 0; k < r.timing.runs; k++) hs_vec_push(&x->samples, r.timing.samples_ms[k]);
  backend_result_free(&r);
  return HS_GOOD;
}

// An optional row that cannot be compiled or run is left out, with the reason as a note.
static hs_status without(repl_cmd *c, subject *x, u32 *n, u32 k, hs_status why) {
  if (!x[k].optional || why.err->code == HS_E_INTERRUPTED) return why;
  repl_note(c->out, "%s is left out: %s", x[k].label, why.err->message);
  hs_status_drop(why);
  subject_free(&x[k]);
  memmove(&x[k], &x[k + 1], (*n - k - 1) * sizeof *x);
  --*n;
  return HS_GOOD;
}

// Compiles all, then measures in alternation.
static hs_status measure_all(repl_cmd *c, subject *x, u32 *count, double seconds, u32 runs) {
  for (u32 k = 0; k < *count; k++) {
    repl_note(c->out, "compiling %s ...", x[k].label);
    hs_status s = subject_compile(c, &x[k]);
    if (hs_ok(s)) s = subject_run(c, &x[k], 0, 1, true);
    if (!hs_ok(s)) {
      HS_TRY(without(c, x, count, k, s));
      k--;
    }
  }
  u32 n = *count;
  for (u32 round = 0; round < ROUNDS; round++) {
    for (u32 k = 0; k < n; k++) {
      HS_TRY(hs_poll());
      if (round == 0) repl_note(c->out, "measuring %s ...", x[k].label);
      HS_TRY(subject_run(c, &x[k], seconds / ROUNDS, (runs + ROUNDS - 1) / ROUNDS, false));
    }
  }
  for (u32 k = 0; k < n; k++) x[k].stats = prof_summarize(x[k].samples.v, (u32)x[k].samples.n);
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
  x->kernels = e.kernels;
  x->bytes_moved = e.bytes;
  x->dispatch_ms = e.kernels * d->launch_s * 1e3;
  x->compile_ms = x->compile_cpu_ms = x->first_ms = x->transfer_ms = -1;
  x->compile_peak_bytes = -1;
  x->argument_bytes = mem.argument_bytes;
  x->output_bytes = mem.output_bytes;
  x->alias_bytes = mem.alias_bytes;
  x->temp_bytes = mem.temp_bytes;
  x->peak_bytes = mem.peak_bytes;
  return HS_GOOD;
}

// ---- the table ----------------------------------------------------------------------------------

static const char *ms_text(char buf[32], double ms) {
  if (ms < 0) return "-";
  return repl_time(buf, ms * 1e-3);
}

static const char *bytes_or_dash(char buf[32], i64 bytes) {
  return bytes < 0 ? "-" : repl_bytes(buf, (double)bytes);
}

// A line of the table: title, one cell per subject.
static void row(repl_cmd *c, const char *title, const char *const *cells, u32 n) {
  hs_buf b = {0};
  hs_buf_puts(&b, "  ");
  repl_pad(&b, title, 20);
  for (u32 k = 0; k < n; k++) repl_pad(&b, cells[k], -21);
  repl_say(c->out, "%s\n", hs_buf_cstr(&b));
  hs_buf_free(&b);
}

enum { MAX_SUBJECTS = 6 };
typedef struct cells {
  char text[MAX_SUBJECTS][64];
  const char *p[MAX_SUBJECTS];
} cells;

static void say_table(repl_cmd *c, const subject *x, u32 n) {
  cells t = {0};
  char a[32], b[32];
#define ROW(title, ...)                                   \
  do {                                                    \
    for (u32 k = 0; k < n; k++) {                         \
      snprintf(t.text[k], sizeof t.text[k], __VA_ARGS__); \
      t.p[k] = t.text[k];                                 \
    }                                                     \
    row(c, title, t.p, n);                                \
  } while (0)
  bool est = x[0].estimated;
  ROW("", "%s", x[k].label);
  ROW(est ? "time, estimated" : "time, median", "%s", ms_text(a, x[k].stats.median));
  if (!est) {
    ROW("  p10 .. p90", "%s..%s", ms_text(a, x[k].stats.p10), ms_text(b, x[k].stats.p90));
    ROW("  runs", "%u", x[k].stats.n);
  }
  ROW(est ? "  of it launches" : "dispatch", "%s", ms_text(a, x[k].dispatch_ms));
  if (!est) {
    ROW("first run", "%s", ms_text(a, x[k].first_ms));
    ROW("compile", "%s", ms_text(a, x[k].compile_ms));
  }
  ROW("kernels", "%u", x[k].kernels);
  ROW("bytes moved (est)", "%s", repl_bytes(a, x[k].bytes_moved));
  ROW("arguments", "%s", bytes_or_dash(a, x[k].argument_bytes));
  ROW("outputs", "%s", bytes_or_dash(a, x[k].output_bytes));
  ROW("  reusing arguments", "%s", bytes_or_dash(a, x[k].alias_bytes));
  ROW("temporaries", "%s", bytes_or_dash(a, x[k].temp_bytes));
  ROW("peak", "%s", bytes_or_dash(a, x[k].peak_bytes));
#undef ROW
}

static void json_ms(repl_json *j, const char *key, double ms) {
  if (ms < 0 || !isfinite(ms)) repl_json_null(j, key);
  else repl_json_num(j, key, ms);
}

static void json_bytes(repl_json *j, const char *key, i64 v) {
  if (v < 0) repl_json_null(j, key);
  else repl_json_int(j, key, v);
}

static void json_subject(repl_cmd *c, repl_json *doc, const subject *x, const char *device) {
  repl_json *j = repl_json_object(doc, x->key);
  bool est = x->estimated;
  repl_json_str(j, "source", est ? "estimated" : "measured");
  repl_json_str(j, "version", x->version);
  repl_json_str(j, "device", device);
  if (est) repl_json_null(j, "threads");
  else
    repl_json_int(j, "threads",
                  c->s->set.threads ? (i64)c->s->set.threads : sysconf(_SC_NPROCESSORS_ONLN));
  json_ms(j, "time_ms", x->stats.median);
  json_ms(j, "time_p10_ms", est ? -1 : x->stats.p10);
  json_ms(j, "time_p90_ms", est ? -1 : x->stats.p90);
  json_ms(j, "time_p99_ms", est ? -1 : x->stats.p99);
  json_ms(j, "time_max_ms", est ? -1 : x->stats.max);
  json_ms(j, "interval_ms", est ? -1 : x->stats.interval);
  if (est) repl_json_null(j, "runs");
  else repl_json_int(j, "runs", x->stats.n);
  json_ms(j, "compile_ms", x->compile_ms);
  json_ms(j, "compile_cpu_ms", x->compile_cpu_ms);
  json_bytes(j, "compile_peak_bytes", x->compile_peak_bytes);
  json_ms(j, "first_run_ms", x->first_ms);
  json_ms(j, "dispatch_ms", x->dispatch_ms);
  json_ms(j, "transfer_ms", x->transfer_ms);
  repl_json_int(j, "kernels", x->kernels);
  repl_json_num(j, "bytes_moved", x->bytes_moved);
  json_bytes(j, "argument_bytes", x->argument_bytes);
  json_bytes(j, "output_bytes", x->output_bytes);
  json_bytes(j, "alias_bytes", x->alias_bytes);
  json_bytes(j, "temp_bytes", x->temp_bytes);
  json_bytes(j, "peak_bytes", x->peak_bytes);
  repl_json_null(j, "joules");
}

static double percent(double part, double whole) { return whole > 0 ? 100 * part / whole : 0; }

static void say_saving(repl_cmd *c, const subject *base, const subject *opt) {
  double t0 = base->stats.median, t1 = opt->stats.median;
  double m0 = (double)base->peak_bytes, m1 = (double)opt->peak_bytes;
  char a[32], b[32], d[32];
  repl_say(c->out, "\n  saved by optimizing (baseline -> optimized)\n");
  repl_say(c->out, "    time    %s -> %s: %s%s less, %.1f %%, %.2fx as fast\n", ms_text(a, t0),
           ms_text(b, t1), t1 > t0 ? "-" : "", ms_text(d, fabs(t0 - t1)), percent(t0 - t1, t0),
           t1 > 0 ? t0 / t1 : 1);
  repl_say(c->out, "    memory  %s -> %s: %s%s less, %.1f %%\n", repl_bytes(a, m0),
           repl_bytes(b, m1), m1 > m0 ? "-" : "", repl_bytes(d, fabs(m0 - m1)),
           percent(m0 - m1, m0));
  if (!base->estimated && fabs(t0 - t1) < base->stats.interval + opt->stats.interval)
    repl_say(c->out, "    the difference in time is within the spread of the measurement\n");
  repl_json *j = repl_json_object(c->doc, "saving");
  repl_json_num(j, "speedup", t1 > 0 ? t0 / t1 : 1);
  repl_json_num(j, "time_ms", t0 - t1);
  repl_json_num(j, "time_percent", percent(t0 - t1, t0));
  repl_json_num(j, "memory_bytes", m0 - m1);
  repl_json_num(j, "memory_percent", percent(m0 - m1, m0));
}

// Changes of the totals by each pass; passes that changed nothing are counted in one line.
static void say_passes(repl_cmd *c, const pass_log *log) {
  repl_json *list = repl_json_array(c->doc, "passes");
  u32 idle = 0, shown = 0;
  for (size_t k = 0; k < log->n; k++) {
    const pass_result *r = &log->v[k];
    repl_json *j = repl_json_object(list, NULL);
    repl_json_str(j, "name", r->pass);
    repl_json_num(j, "instructions",
                  (double)r->after.instructions - (double)r->before.instructions);
    repl_json_num(j, "flops", r->after.flops - r->before.flops);
    repl_json_num(j, "bytes", r->after.bytes - r->before.bytes);
    repl_json_num(j, "peak_bytes", (double)(r->after.peak_bytes - r->before.peak_bytes));
    repl_json_num(j, "ms", r->ms);
    if (!r->changed) {
      idle++;
      continue;
    }
    if (!shown++)
      repl_say(c->out, "\n  change by each pass (estimated)\n    %-34s %12s %10s %10s %10s %10s\n",
               "pass", "instructions", "kernels", "bytes", "peak", "ms");
    char a[32], b[32], bytes[40], peak[40];
    double db = r->after.bytes - r->before.bytes,
           dp = (double)(r->after.peak_bytes - r->before.peak_bytes);
    snprintf(bytes, sizeof bytes, "%s%s", db < 0 ? "-" : "+", repl_bytes(a, fabs(db)));
    snprintf(peak, sizeof peak, "%s%s", dp < 0 ? "-" : "+", repl_bytes(b, fabs(dp)));
    repl_say(c->out, "    %-34s %+12d %+10d %10s %10s %10.2f\n", r->pass,
             (int)r->after.instructions - (int)r->before.instructions,
             (int)r->after.kernels - (int)r->before.kernels, db == 0 ? "0" : bytes,
             dp == 0 ? "0" : peak, r->ms);
  }
  if (idle) repl_say(c->out, "    (%u pass%s changed nothing)\n", idle, idle == 1 ? "" : "es");
}

// Results of the programs must agree with the baseline's: E_DIFFER names the first that does not.
static hs_status say_agreement(repl_cmd *c, const subject *x, u32 n) {
  hlo_tolerance tol = {c->s->set.abs_error, c->s->set.rel_error};
  for (u32 k = 1; k < n; k++) {
    if (!x[0].result || !x[k].result) continue;
    hs_status s = hlo_compare(x[0].result, x[k].result, tol);
    if (!hs_ok(s))
      return hs_with_note(
          s,
          "the results of \"%s\" differ from the baseline's: its times are not comparable; "
          "`check` and `bisect` find the cause",
          x[k].label);
  }
  if (x[0].result) {
    const hlo_shape *first = hlo_shape_leaf(x[0].result->shape, 0);
    tol = hlo_tolerance_for(first ? first->dtype : HLO_F32, tol);
    repl_say(c->out, "\n  results of all rows agree (abs %g, rel %g)\n", tol.abs, tol.rel);
  }
  repl_json_bool(c->doc, "results_agree", true);
  return HS_GOOD;
}

// ---- speedup ------------------------------------------------------------------------------------

static hs_status number_option(repl_cmd *c, const char *name, double absent, double *out) {
  const char *text = repl_flag(c, name);
  *out = absent;
  return text ? repl_arg_num(c, name, text, out) : HS_GOOD;
}

static hs_status make_subjects(repl_cmd *c, const char *pipeline, subject *x, u32 *n,
                               pass_log *log) {
  const repl_version *loaded = repl_base(c->mod);
  *n = 0;
  x[(*n)++] = (subject){
      .key = "baseline", .label = "baseline", .per_instruction = true, .version = hs_strdup("0")};
  x[(*n)++] = (subject){.key = "unoptimized", .label = "unoptimized", .version = hs_strdup("0")};
  if (c->mod->at->number != 0)
    x[(*n)++] = (subject){
        .key = "current", .label = "current", .version = hs_format("%u", c->mod->at->number)};
  x[(*n)++] =
      (subject){.key = "optimized", .label = "optimized", .version = hs_format("0+%s", pipeline)};
  for (u32 k = 0; k < *n; k++)
    HS_TRY(repl_runnable(c, strcmp(x[k].key, "current") ? loaded : c->mod->at, false, &x[k].m));
  pass_run_options o = pass_run_default();
  o.measure = true;
  repl_note(c->out, "running the %s pipeline ...", pipeline);
  const pass_pipeline *known = pipeline_find(c->s->passes, pipeline);
  HS_TRY(pipeline_run(x[*n - 1].m, known ? known->text : pipeline, &o, log));
  for (u32 k = 0; k < *n; k++) x[k].be = c->s->be;
  return HS_GOOD;
}

// Once a plug-in has been chosen, real XLA has rows of its own: its passes and its code, and its
// code for what our passes made, so that the gain by passes and the gain by code generation are
// separate.
static hs_status add_xla(repl_cmd *c, const hlo_module *optimized, const char *pipeline, subject *x,
                         u32 *n) {
  if (!c->s->plugin || backend_has(c->s->be, BACKEND_PLUGIN)) return HS_GOOD;
  const backend *be = backend_with(BACKEND_PLUGIN);
  x[(*n)++] = (subject){
      .key = "xla", .label = "xla", .version = hs_strdup("0"), .be = be, .optional = true};
  HS_TRY(repl_runnable(c, repl_base(c->mod), false, &x[*n - 1].m));
  x[*n] = (subject){.key = "xla_codegen",
                    .label = "xla code, our passes",
                    .version = hs_format("0+%s", pipeline),
                    .be = be,
                    .optional = true,
                    .backend_only = true};
  x[*n].m = hlo_module_clone(optimized, optimized->name);
  hlo_journal_disable(x[*n].m);
  ++*n;
  return HS_GOOD;
}

hs_status cmd_speedup(repl_cmd *c) {
  const char *pipeline = repl_flag(c, "--pipeline") ? repl_flag(c, "--pipeline") : "tuned";
  const char *on = repl_flag(c, "--on");
  const prof_device *device = on ? prof_device_find(on) : NULL;
  if (on && !device) return hs_fail(HS_E_USAGE, "no device \"%s\"; `devices` lists them", on);
  double seconds, runs;
  HS_TRY(number_option(c, "--seconds", 1.5, &seconds));
  HS_TRY(number_option(c, "--runs", 9, &runs));
  HS_TRY(repl_inputs(c));
  subject x[MAX_SUBJECTS] = {0};
  u32 n = 0;
  pass_log log = {0};
  hs_status s = make_subjects(c, pipeline, x, &n, &log);
  u32 ours = n;
  if (hs_ok(s) && !device) s = add_xla(c, x[n - 1].m, pipeline, x, &n);
  if (hs_ok(s)) {
    if (device)
      for (u32 k = 0; k < n && hs_ok(s); k++) s = estimate_one(&x[k], device);
    else s = measure_all(c, x, &n, seconds, (u32)HS_MAX(runs, 1));
  }
  if (hs_ok(s)) {
    const char *where = device ? device->name : c->s->be->name;
    repl_say(c->out, "%s on %s%s\n", c->m->name, where, device ? " (estimated)" : "");
    say_table(c, x, n);
    for (u32 k = 0; k < n; k++) json_subject(c, c->doc, &x[k], k < ours ? where : c->s->plugin);
    if (n > ours) repl_say_plugin_line(c);
    say_saving(c, &x[0], &x[ours - 1]);
    say_passes(c, &log);
    s = say_agreement(c, x, n);
  }
  for (u32 k = 0; k < n; k++) subject_free(&x[k]);
  hs_vec_free(&log);
  return s;
}

// ---- versus -------------------------------------------------------------------------------------

hs_status cmd_versus(repl_cmd *c) {
  double seconds, runs;
  HS_TRY(number_option(c, "--seconds", 1.5, &seconds));
  HS_TRY(number_option(c, "--runs", 15, &runs));
  HS_TRY(repl_inputs(c));
  subject x[2] = {{.key = "a", .label = repl_arg(c, 0)}, {.key = "b", .label = repl_arg(c, 1)}};
  hs_status s = HS_GOOD;
  for (u32 k = 0; k < 2 && hs_ok(s); k++) {
    repl_version *v = repl_version_find(c->mod, repl_arg(c, k));
    if (!v) s = hs_fail(HS_E_NO_HISTORY, "no version \"%s\"; `history` lists them", repl_arg(c, k));
    else {
      x[k].version = hs_format("%u", v->number);
      x[k].be = c->s->be;
      s = repl_runnable(c, v, false, &x[k].m);
    }
  }
  u32 n = 2;
  if (hs_ok(s)) s = measure_all(c, x, &n, seconds, (u32)HS_MAX(runs, 1));
  if (hs_ok(s)) {
    say_table(c, x, 2);
    for (u32 k = 0; k < 2; k++) json_subject(c, c->doc, &x[k], c->s->be->name);
    double a = x[0].stats.median, b = x[1].stats.median;
    bool apart = fabs(a - b) > x[0].stats.interval + x[1].stats.interval;
    repl_say(c->out, "\n  %s ÷ %s = %.3f%s\n", x[0].label, x[1].label, b > 0 ? a / b : 1,
             apart ? "" : "  (not distinguishable)");
    repl_json_num(c->doc, "ratio", b > 0 ? a / b : 1);
    repl_json_bool(c->doc, "distinguishable", apart);
    s = say_agreement(c, x, 2);
  }
  for (u32 k = 0; k < 2; k++) subject_free(&x[k]);
  return s;
}

// ---- profile ------------------------------------------------------------------------------------

typedef struct kernel_row {
  u32 k;
  double ms;
} kernel_row;

static int slower_first(const void *a, const void *b) {
  double x = ((const kernel_row *)a)->ms, y = ((const kernel_row *)b)->ms;
  return (x < y) - (x > y);
}

// Estimated seconds of a kernel by its counted flops and bytes.
static double kernel_estimate_ms(const backend_kernel *k, const prof_device *d) {
  double bandwidth = k->bytes <= (double)d->cache_bytes ? d->cache_bandwidth : d->bandwidth;
  return 1e3 * (HS_MAX(k->bytes / bandwidth, k->flops / d->flops_f32) + d->launch_s);
}

hs_status cmd_profile(repl_cmd *c) {
  double seconds, top;
  HS_TRY(number_option(c, "--seconds", 1.0, &seconds));
  HS_TRY(number_option(c, "-n", 20, &top));
  HS_TRY(repl_inputs(c));
  repl_exe *x;
  HS_TRY(repl_compiled(c, c->s->be, repl_flag(c, "--per-instruction") != NULL, false, &x));
  const backend_compiled *b = x->be->compiled(x->exe);
  backend_run_options o = {.warmup = 1,
                           .min_runs = 5,
                           .max_runs = 10000,
                           .min_seconds = seconds / 2,
                           .max_seconds = seconds,
                           .want_kernel_times = true};
  backend_result r = {0};
  HS_TRY(x->be->run(x->exe, c->mod->ninputs, c->mod->inputs, &o, &r));
  u32 n = HS_MIN(b->nkernels, r.timing.nkernels);
  if (!n || !r.timing.kernel_ms) {
    backend_result_free(&r);
    return hs_fail(HS_E_UNSUPPORTED, "the backend %s does not measure single kernels", x->be->name);
  }
  kernel_row *rows = hs_alloc(n * sizeof *rows);
  double total = 0, estimated = 0, error = 0;
  for (u32 k = 0; k < n; k++) rows[k] = (kernel_row){k, r.timing.kernel_ms[k]}, total += rows[k].ms;
  qsort(rows, n, sizeof *rows, slower_first);
  repl_say(c->out, "%-36s %-18s %10s %6s %10s %9s %9s\n", "kernel", "kind", "measured", "share",
           "estimate", "GB/s", "GFLOP/s");
  repl_json *list = repl_json_array(c->doc, "kernels");
  for (u32 k = 0; k < n; k++) {
    const backend_kernel *q = &b->kernels[rows[k].k];
    double ms = rows[k].ms, est = kernel_estimate_ms(q, c->s->target);
    estimated += est;
    error += fabs(est - ms);
    char t[32], e[32];
    if (k < (u32)HS_MAX(top, 1))
      repl_say(c->out, "%-36.36s %-18.18s %10s %5.1f%% %10s %9.2f %9.2f\n", q->name, q->kind,
               repl_time(t, ms * 1e-3), percent(ms, total), repl_time(e, est * 1e-3),
               ms > 0 ? q->bytes / ms * 1e-6 : 0, ms > 0 ? q->flops / ms * 1e-6 : 0);
    repl_json *j = repl_json_object(list, NULL);
    repl_json_str(j, "name", q->name);
    repl_json_str(j, "kind", q->kind);
    repl_json_num(j, "measured_ms", ms);
    repl_json_num(j, "estimated_ms", est);
    repl_json_num(j, "bytes", q->bytes);
    repl_json_num(j, "flops", q->flops);
  }
  if (n > (u32)HS_MAX(top, 1)) repl_say(c->out, "(%u more; -n=%u shows all)\n", n - (u32)top, n);
  prof_stats whole = prof_summarize(r.timing.samples_ms, r.timing.runs);
  char t[32], e[32], w[32];
  repl_say(c->out, "%u kernels: %s measured, %s estimated for %s (error %.0f %%); whole run %s\n",
           n, repl_time(t, total * 1e-3), repl_time(e, estimated * 1e-3), c->s->target->name,
           percent(error, total), repl_time(w, whole.median * 1e-3));
  repl_json_num(c->doc, "measured_ms", total);
  repl_json_num(c->doc, "estimated_ms", estimated);
  repl_json_num(c->doc, "run_ms", whole.median);
  hs_free(rows);
  backend_result_free(&r);
  return HS_GOOD;
}
