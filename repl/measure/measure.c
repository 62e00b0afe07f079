// measure.c — speedup, versus: what do the passes gain? `speedup` measures (or estimates) the
// module as loaded with one kernel per instruction, as loaded and compiled as a whole, after passes
// run by hand, and after the tuned pipeline, and prints one table of time and memory with the
// saving. `versus` compares two versions.
//
// Invariants: a column is measured, estimated, or says why it failed; a ratio comes with its
// interval and a verdict, and below the verdict "too noisy" no figure is printed that the
// measurement does not support; a program whose results differ from the baseline's is reported as
// such; an unknown figure is "-" in text and null in JSON, never 0.
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "core/analysis/agree.h"
#include "core/analysis/cost.h"
#include "profiler/units.h"
#include "repl/measure/apart.h"
#include "repl/measure/power.h"
#include "repl/measure/saved.h"
#include "repl/measure/subject.h"
#include "repl/measure/sizes.h"
#include "repl/shell/exec.h"
#include "repl/shell/plugin.h"
#include "repl/shell/target.h"

// ---- the table ----------------------------------------------------------------------------------

static const char *ms_text(char buf[32], double ms) {
  if (ms < 0) return "-";
  return repl_time(buf, ms * 1e-3);
}

// "2.03x +-1.2 %"; "~2.1x, too noisy" when the interval is too wide for a third digit.
static const char *ratio_text(char buf[32], prof_interval r, bool estimated) {
  if (!(r.value > 0)) snprintf(buf, 32, "-");
  else if (estimated) prof_ratio_text(buf, r.value);
  else if (prof_judge(r) == PROF_TOO_NOISY) {
    char x[32];
    snprintf(buf, 32, "%.16s, too noisy", prof_about_ratio(x, r.value));
  } else {
    char x[32];
    snprintf(buf, 32, "%.16s +-%.1f %%", prof_ratio_text(x, r.value), 100 * prof_half_width(r));
  }
  return buf;
}

static const char *bytes_or_dash(char buf[32], i64 bytes) {
  return bytes < 0 ? "-" : repl_bytes(buf, (double)bytes);
}

// "384, about 96 us": results in fresh memory are paid for page by page.
static const char *faults_text(char buf[32], const subject *x) {
  char n[32], t[32];
  double faults = subject_used(&x->faults);
  if (faults < 0) return "-";
  if (faults < 0.5) return "0";
  snprintf(buf, 32, "%.10s, ~%.12s", repl_count(n, round(faults)),
           repl_time(t, faults * x->fault_s));
  return buf;
}

static const char *joules_text(char buf[64], const subject *x) {
  double j = subject_used(&x->joules);
  if (x->power.seconds > 0) return power_text(buf, &x->power);
  if (j < 0) return prof_energy_in(PROF_POWERCAP) < 0 ? "not readable" : "-";
  return power_joules(buf, j);
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

typedef struct cells {
  char text[MAX_SUBJECTS][64];
  const char *p[MAX_SUBJECTS];
} cells;

// What the figures that are reckoned leave out.
static void say_loops(repl_cmd *c, bool estimated) {
  u32 n = 0;
  char text[32];
  hlo_for_each_comp(k, c->m)
    hlo_for_each_instr(i, k) n += i->opcode == HLO_WHILE && hlo_expected_trips(i) < 0;
  if (n && estimated)
    repl_say(c->out, "  %s: nothing says how often, %d iterations are assumed (see trips)\n",
             repl_plural(text, n, "loop"), PROF_GUESSED_TRIPS);
  else if (n)
    repl_say(c->out, "  %s: nothing says how often, counted once in the bytes (see trips)\n",
             repl_plural(text, n, "loop"));
}

static void say_table(repl_cmd *c, const subject *x, u32 n) {
  cells t = {0};
  char a[64], b[32];
  bool any = false;
  for (u32 k = 0; k < n; k++) any |= hs_ok(x[k].failed);
  if (!any) return;  // the errors say it all
#define ROW(title, ...)                                     \
  do {                                                      \
    for (u32 k = 0; k < n; k++) {                           \
      if (hs_ok(x[k].failed)) {                             \
        snprintf(t.text[k], sizeof t.text[k], __VA_ARGS__); \
      } else {                                              \
        snprintf(t.text[k], sizeof t.text[k], "failed");    \
      }                                                     \
      t.p[k] = t.text[k];                                   \
    }                                                       \
    row(c, title, t.p, n);                                  \
  } while (0)
  bool est = x[0].estimated;
  for (u32 k = 0; k < n; k++) t.p[k] = x[k].label;
  row(c, "", t.p, n);
  ROW(est ? "time, estimated" : "time, median", "%s", ms_text(a, x[k].median.value));
  if (!est) {
    ROW("  95 % interval", "%s..%s", ms_text(a, x[k].median.low), ms_text(b, x[k].median.high));
    ROW(x[0].apart.known ? "  p10 .. p90, sums" : "  p10 .. p90", "%s..%s",
        ms_text(a, x[k].stats.p10), ms_text(b, x[k].stats.p90));
    ROW("  runs", "%u", x[k].stats.n);
  }
  bool apart = x[0].apart.known;
  if (apart) {
    ROW("distinct kernels", "%u", x[k].apart.distinct);
    ROW("  timed", "%u", x[k].apart.timed);
    ROW("  on a slice", "%u, %s", x[k].apart.sliced, ms_text(a, x[k].apart.sliced_ms));
    ROW("  not timed (est)", "%.1f %%", 100 * x[k].apart.left_out);
  }
  ROW("times as fast", "%s", ratio_text(a, x[k].ratio, est));
  if (!apart) ROW(est ? "  of it launches" : "dispatch", "%s", ms_text(a, x[k].dispatch_ms));
  if (!est && !apart) {
    ROW("processor time", "%s", ms_text(a, 1e3 * subject_used(&x[k].cpu_s)));
    ROW("page faults", "%s", faults_text(a, &x[k]));
    ROW("energy", "%s", joules_text(a, &x[k]));
    ROW("first run", "%s", ms_text(a, x[k].first_ms));
    ROW("compile", "%s", ms_text(a, x[k].compile_ms));
  }
  ROW(est ? "kernels launched" : "kernels", "%u", x[k].kernels);
  ROW("bytes moved (est)", "%s", repl_bytes(a, x[k].bytes_moved));
  ROW("arguments", "%s", bytes_or_dash(a, x[k].argument_bytes));
  ROW("outputs", "%s", bytes_or_dash(a, x[k].output_bytes));
  ROW("  reusing arguments", "%s", bytes_or_dash(a, x[k].alias_bytes));
  ROW("temporaries", "%s", bytes_or_dash(a, x[k].temp_bytes));
  ROW("peak", "%s", bytes_or_dash(a, x[k].peak_bytes));
#undef ROW
  say_loops(c, est);
  for (u32 k = 0; k < n; k++)
    if (hs_ok(x[k].failed)) power_say_slowed(c, x[k].label, &x[k].power);
}

static void json_ms(repl_json *j, const char *key, double ms) {
  if (ms < 0 || !isfinite(ms)) repl_json_null(j, key);
  else repl_json_num(j, key, ms);
}

static void json_bytes(repl_json *j, const char *key, i64 v) {
  if (v < 0) repl_json_null(j, key);
  else repl_json_int(j, key, v);
}

// Against the first subject; null for that one itself and where it failed.
static void json_ratio(repl_json *j, const subject *x) {
  bool known = x->ratio.value > 0;
  json_ms(j, "speedup", known ? x->ratio.value : -1);
  json_ms(j, "speedup_low", known && !x->estimated ? x->ratio.low : -1);
  json_ms(j, "speedup_high", known && !x->estimated ? x->ratio.high : -1);
  if (known && !x->estimated) repl_json_str(j, "verdict", prof_verdict_text(prof_judge(x->ratio)));
  else repl_json_null(j, "verdict");
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
  if (!hs_ok(x->failed)) {
    repl_json *e = repl_json_object(j, "error");
    repl_json_str(e, "code", hs_code_text(x->failed.err->code));
    repl_json_str(e, "message", x->failed.err->message);
    return;
  }
  json_ms(j, "time_ms", x->median.value);
  repl_json *interval = est ? NULL : repl_json_array(j, "interval_ms");
  if (est) repl_json_null(j, "interval_ms");
  repl_json_num(interval, NULL, x->median.low);
  repl_json_num(interval, NULL, x->median.high);
  json_ms(j, "time_p10_ms", est ? -1 : x->stats.p10);
  json_ms(j, "time_p90_ms", est ? -1 : x->stats.p90);
  json_ms(j, "time_p99_ms", est ? -1 : x->stats.p99);
  json_ms(j, "time_max_ms", est ? -1 : x->stats.max);
  if (est) repl_json_null(j, "runs");
  else repl_json_int(j, "runs", x->stats.n);
  if (est) repl_json_null(j, "outliers");
  else repl_json_int(j, "outliers", x->stats.outliers);
  json_ratio(j, x);
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
  repl_json_int(j, "devices", HS_MAX(x->devices, 1u));
  json_bytes(j, "peak_bytes", x->peak_bytes);
  double faults = subject_used(&x->faults);
  json_ms(j, "cpu_ms", x->cpu_s.n ? 1e3 * subject_used(&x->cpu_s) : -1);
  json_ms(j, "page_faults", faults);
  json_ms(j, "page_fault_ms", faults < 0 ? -1 : 1e3 * faults * x->fault_s);
  json_ms(j, "joules", subject_joules(x));
  power_json(j, &x->power);
  apart_json(j, x);
}

// The verdict in words: "optimized is 2.03x as fast as baseline (between 2.01x and 2.06x)".
static void say_verdict(repl_cmd *c, const subject *base, const subject *x) {
  prof_interval r = x->ratio;
  char lo[32], hi[32], now[32], noisy[128];
  switch (prof_judge(r)) {
  case PROF_TOO_NOISY:
    repl_say(c->out, "    %s against %s: %s\n", x->label, base->label, prof_noisy_text(noisy, r));
    break;
  case PROF_SAME:
    repl_say(c->out, "    %s is as fast as %s (between %s and %s)\n", x->label, base->label,
             prof_ratio_text(lo, r.low), prof_ratio_text(hi, r.high));
    break;
  default:
    repl_say(c->out, "    %s is %s as fast as %s (between %s and %s)\n", x->label,
             prof_ratio_text(now, r.value), base->label, prof_ratio_text(lo, r.low),
             prof_ratio_text(hi, r.high));
  }
}

// base, plain, opt: none failed. Memory is compared with the module compiled as a whole (plain):
// the baseline keeps every value in a buffer of its own, and what sharing them saves is no
// optimization.
static void say_saving(repl_cmd *c, const subject *base, const subject *plain, const subject *opt) {
  double t0 = base->median.value, t1 = opt->median.value;
  double m0 = (double)plain->peak_bytes, m1 = (double)opt->peak_bytes;
  char a[32], b[32], d[32];
  repl_say(c->out, "\n  saved by optimizing (baseline -> optimized)\n");
  if (!base->estimated) say_verdict(c, base, opt);
  prof_verdict v = prof_judge(opt->ratio);
  if (base->estimated || v == PROF_FASTER || v == PROF_SLOWER)
    repl_say(c->out, "    time    %s -> %s: %s %s, %.1f %%\n", ms_text(a, t0), ms_text(b, t1),
             ms_text(d, fabs(t0 - t1)), t1 > t0 ? "more" : "less", fabs(prof_percent(t0 - t1, t0)));
  repl_say(c->out, "    memory  %s -> %s: %s %s, %.1f %% (buffers shared on both sides)\n",
           repl_bytes(a, m0), repl_bytes(b, m1), repl_bytes(d, fabs(m0 - m1)),
           m1 > m0 ? "more" : "less", fabs(prof_percent(m0 - m1, m0)));
  if (opt->estimated) repl_json_null(c->doc, "verdict");
  else repl_json_str(c->doc, "verdict", prof_verdict_text(v));
  repl_json *j = repl_json_object(c->doc, "saving");
  json_ratio(j, opt);
  repl_json_num(j, "time_ms", t0 - t1);
  repl_json_num(j, "time_percent", prof_percent(t0 - t1, t0));
  repl_json_num(j, "memory_bytes", m0 - m1);
  repl_json_num(j, "memory_percent", prof_percent(m0 - m1, m0));
}

// Remembered for `savings` and `assert`.
static void keep_measurement(repl_cmd *c, const subject *base, const subject *plain,
                             const subject *opt, const pass_log *log, const char *device) {
  repl_measurement m = {.known = true,
                        .estimated = opt->estimated,
                        .ms = base->median.value,
                        .opt_ms = opt->median.value,
                        .ratio = opt->ratio,
                        .extra_ms = -1,
                        .peak = plain->peak_bytes,
                        .opt_peak = opt->peak_bytes};
  if (base->compile_ms >= 0 && opt->compile_ms >= 0) {
    m.extra_ms = opt->compile_ms - base->compile_ms;
    for (size_t k = 0; k < log->n; k++) m.extra_ms += log->v[k].ms;
  }
  snprintf(m.device, sizeof m.device, "%s", device);
  snprintf(m.what, sizeof m.what, "%s -> %s", base->label, opt->label);
  c->mod->measured = m;
}

static void json_noise(repl_json *j, const prof_noise *n) {
  repl_json_int(j, "cores", n->cores);
  json_ms(j, "busy_cores", n->busy);
  json_ms(j, "steal", n->steal);
  json_ms(j, "kernel_spread", n->spread);
  json_ms(j, "memory_ms", n->memory_ms);
  json_ms(j, "memory_spread", n->memory_spread);
  json_ms(j, "ghz", n->ghz);
  repl_json_bool(j, "loud", prof_noise_loud(n));
}

static void json_trial(repl_cmd *c, const comparison *m) {
  repl_json *j = repl_json_object(c->doc, "noise");
  repl_json_int(j, "rounds", m->trial.rounds);
  repl_json_num(j, "seconds", m->trial.seconds);
  repl_json_num(j, "width", isfinite(m->trial.width) ? m->trial.width : -1);
  repl_json_bool(j, "reached", m->trial.reached);
  json_noise(j, &m->noise);
  between_json(j, m);
}

// How much the machine can be trusted, and for how long it was asked.
static void say_noise(repl_cmd *c, const comparison *m) {
  json_trial(c, m);
  if (!m->trial.rounds) return;
  hs_buf b = {0};
  prof_noise_text(&m->noise, &b);
  char t[32];
  repl_say(c->out, "\n  %u rounds in %s on a machine with %s\n", m->trial.rounds,
           repl_time(t, m->trial.seconds), hs_buf_cstr(&b));
  if (prof_noise_loud(&m->noise))
    repl_say(c->out, "  the machine is not quiet: stop other work, or ask for more with --until\n");
  between_say(c, m);
  if (!m->trial.reached)
    repl_say(c->out,
             "  the widest interval is +-%.1f %%, not what --until asks for: more --seconds "
             "or a quieter machine\n",
             100 * m->trial.width);
  hs_buf_free(&b);
}

hs_status cmd_noise(repl_cmd *c) {
  double seconds = 0.5;
  HS_TRY(repl_arg_seconds(c, &seconds));
  if (!(seconds > 0 && seconds <= 60))
    return repl_usage_error(c, "--seconds is above 0 and at most 60");
  prof_noise n = prof_noise_measure(seconds);
  hs_buf b = {0};
  prof_noise_text(&n, &b);
  repl_say(c->out, "%s\n%s\n", hs_buf_cstr(&b),
           prof_noise_loud(&n) ? "not quiet: times measured now are not to be relied on"
                               : "quiet enough to measure");
  hs_buf_free(&b);
  json_noise(c->doc, &n);
  return HS_GOOD;
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
               "pass", "instructions", "kernels", "bytes", "peak", "pass took");
    char bytes[32], peak[32], t[32];
    repl_say(c->out, "    %-34s %+12d %+10d %10s %10s %10s\n", r->pass,
             (int)r->after.instructions - (int)r->before.instructions,
             (int)r->after.kernels - (int)r->before.kernels,
             prof_bytes_delta(bytes, r->after.bytes - r->before.bytes),
             prof_bytes_delta(peak, (double)(r->after.peak_bytes - r->before.peak_bytes)),
             prof_time_text(t, r->ms * 1e-3));
  }
  if (idle) repl_say(c->out, "    (%u pass%s changed nothing)\n", idle, idle == 1 ? "" : "es");
}

// Results of the programs must agree with the baseline's: E_DIFFER names the first that does not.
static hs_status say_agreement(repl_cmd *c, const subject *x, u32 n) {
  hlo_tolerance tol = hlo_near(c->s->set.abs_error, c->s->set.rel_error);
  for (u32 k = 1; k < n; k++) {
    if (!x[0].result || !x[k].result) continue;
    hs_status s = hlo_agree(c->m->entry->root, x[0].result, x[k].result, tol);
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

static hs_status make_subjects(repl_cmd *c, const char *pipeline, subject *x, u32 *n,
                               pass_log *log) {
  const repl_version *loaded = repl_base(c->mod);
  *n = 0;
  x[(*n)++] = (subject){.key = "baseline",
                        .label = "baseline",
                        .per_instruction = true,
                        .version = hs_format("%u", loaded->number)};
  x[(*n)++] = (subject){
      .key = "unoptimized", .label = "unoptimized", .version = hs_format("%u", loaded->number)};
  if (c->mod->at != loaded)
    x[(*n)++] = (subject){
        .key = "current", .label = "current", .version = hs_format("%u", c->mod->at->number)};
  x[(*n)++] = (subject){.key = "optimized",
                        .label = "optimized",
                        .version = hs_format("%u+%s", loaded->number, pipeline)};
  for (u32 k = 0; k < *n; k++)
    HS_TRY(repl_runnable(c, strcmp(x[k].key, "current") ? loaded : c->mod->at, false, &x[k].m));
  if (loaded->takes != c->mod->versions.v[0]->takes)
    repl_note(c->out, "the baseline is @%u: the module as loaded takes other arguments",
              loaded->number);
  repl_note(c->out, "running the %s pipeline ...", pipeline);
  HS_TRY(comparison_optimize(c, x[*n - 1].m, pipeline, log));
  for (u32 k = 0; k < *n; k++) x[k].be = c->s->be;
  return HS_GOOD;
}

// Real XLA has rows of its own: its passes and its code, and where it is a plug-in alone its code
// for what our passes made, so that the gain by passes and the gain by code generation are
// separate.
static hs_status add_xla(repl_cmd *c, const hlo_module *optimized, const char *pipeline, subject *x,
                         u32 *n) {
  const backend *peer[2];
  HS_TRY(comparison_peers(c, peer));
  for (u32 k = 0; k < 2; k++) {
    const backend *be = peer[k];
    if (!be || be == c->s->be) continue;
    x[(*n)++] = (subject){.key = k ? "xla_plugin" : "xla",
                          .label = k ? "xla plug-in" : "xla",
                          .version = hs_format("%u", repl_base(c->mod)->number),
                          .be = be,
                          .optional = true};
    HS_TRY(repl_runnable(c, repl_base(c->mod), false, &x[*n - 1].m));
    if (k || !backend_has(be, BACKEND_PLUGIN)) continue;
    x[*n] = (subject){.key = "xla_codegen",
                      .label = "xla code, our passes",
                      .version = hs_format("%u+%s", repl_base(c->mod)->number, pipeline),
                      .be = be,
                      .optional = true,
                      .backend_only = true};
    x[*n].m = hlo_module_clone(optimized, optimized->name);
    hlo_journal_disable(x[*n].m);
    ++*n;
  }
  return HS_GOOD;
}

// *why: the reason to measure kernels apart, hs_alloc'ed; NULL: the programs run as they are.
static hs_status choose_apart(repl_cmd *c, const comparison *m, const prof_trial_options *o,
                              char **why) {
  *why = NULL;
  if (repl_flag(c, "--whole")) return HS_GOOD;
  *why = repl_flag(c, "--apart") ? hs_strdup("as asked for") : apart_reason(c, m, o->seconds);
  bool kept = repl_flag(c, "--save") || repl_flag(c, "--against");
  if (!*why || !kept) return HS_GOOD;
  hs_status s = repl_usage_error(
      c, "--save and --against are of whole runs, and kernels would be measured apart: %s", *why);
  hs_free(*why);
  *why = NULL;
  return s;
}

// Seconds for kernels apart where none were asked for: what the command has left of 50 since
// `begin`, for pipelines and first runs of large modules take their part of a minute too.
static double time_for_kernels(u64 begin) {
  static const double all_s = 50, most_s = 40, least_s = 15;
  return fmin(fmax(all_s - (double)(hs_now_ns() - begin) * 1e-9, least_s), most_s);
}

// Of the first `ours` subjects when apart. *why: in and out, as above. begin: of the command.
static hs_status measure_whole_or_apart(repl_cmd *c, comparison *m, u32 ours, u64 begin,
                                        const prof_trial_options *o, char **why) {
  bool kept = repl_flag(c, "--save") || repl_flag(c, "--against");
  if (!*why) {
    if (!kept && !repl_flag(c, "--whole")) m->most_first_s = apart_most_first_s(m, o->seconds);
    HS_TRY(comparison_measure(c, m, o));
    if (!(m->too_long_s > 0)) {
      between_take(c, m, m->n, o->until);
      return HS_GOOD;
    }
    *why = apart_reason_ran(m);
  }
  while (m->n > ours) subject_free(&m->x[--m->n]);
  return apart_measure(c, m, repl_flag(c, "--seconds") ? o->seconds : time_for_kernels(begin));
}

hs_status cmd_speedup(repl_cmd *c) {
  const u64 begin = hs_now_ns();
  const char *pipeline;
  HS_TRY(repl_flag_pipeline(c, &pipeline));
  const char *on = repl_flag(c, "--on");
  const prof_device *device = NULL;
  if (on) HS_TRY(repl_find_device(c, on, &device));
  prof_trial_options o;
  HS_TRY(comparison_options(c, 6, &o));
  const char *save = repl_flag(c, "--save"), *against = repl_flag(c, "--against");
  if (device && (save || against))
    return repl_usage_error(c, "--save and --against are of measurements, --on=TARGET estimates");
  if (repl_flag(c, "-o") && !repl_flag(c, "--sweep"))
    return repl_usage_error(c, "-o is a picture of the curve of --sweep");
  if (repl_flag(c, "--sweep")) {
    if (save || against)
      return repl_usage_error(c, "--sweep is of several sizes, --save and --against of one");
    return sweep_sizes(c, pipeline, device, &o);
  }
  comparison m = {0};
  pass_log log = {0};
  saved *then = NULL;
  if (against) HS_TRY(saved_read(against, &then));
  hs_status s = make_subjects(c, pipeline, m.x, &m.n, &log);
  u32 ours = m.n;
  char *apart = NULL;
  if (hs_ok(s) && !device) s = choose_apart(c, &m, &o, &apart);
  if (hs_ok(s) && !device && !apart) s = repl_inputs(c);
  if (hs_ok(s) && !device && !apart) s = add_xla(c, m.x[ours - 1].m, pipeline, m.x, &m.n);
  if (hs_ok(s) && device) s = comparison_estimate(&m, device);
  else if (hs_ok(s)) s = measure_whole_or_apart(c, &m, ours, begin, &o, &apart);
  if (hs_ok(s)) {
    const char *where = device ? device->name : c->s->be->name;
    repl_say(c->out, "%s on %s%s%s%s\n", c->m->name, where, device ? " (estimated, " : "",
             device ? repl_device_origin(device) : "", device ? ")" : "");
    if (apart) apart_say(c, &m, apart);
    if (device && m.x[0].parts > 1)
      repl_say(c->out,
               "not partitioned yet: everything divided by %u, one device's share at best\n",
               m.x[0].parts);
    for (u32 k = 0; device && k < m.n; k++) {
      char a[32], b[32];
      if (m.x[k].peak_bytes > device->memory_bytes)
        repl_say(c->out, "%s does not fit in %s: it needs %s\n", m.x[k].label,
                 repl_bytes(a, (double)device->memory_bytes),
                 repl_bytes(b, (double)m.x[k].peak_bytes));
    }
    say_table(c, m.x, m.n);
    for (u32 k = 0; k < m.n; k++) {
      char *xla = k < ours ? NULL : repl_xla_text(c->s, m.x[k].be, m.x[k].exe);
      json_subject(c, c->doc, &m.x[k], xla ? xla : where);
      hs_free(xla);
    }
    if (m.n > ours) repl_say_plugin_line(c, m.x[ours].be, m.x[ours].exe);
    const subject *base = &m.x[0], *plain = &m.x[1], *opt = &m.x[ours - 1];
    if (hs_ok(base->failed) && hs_ok(plain->failed) && hs_ok(opt->failed)) {
      say_saving(c, base, plain, opt);
      keep_measurement(c, base, plain, opt, &log, where);
    }
    if (!device && !apart) say_noise(c, &m);
    if (apart) json_trial(c, &m);
    say_passes(c, &log);
    if (then) saved_compare(c, then, &m, pipeline);
    if (save) s = saved_write(c, save, &m, pipeline);
    if (hs_ok(s) && !apart) s = say_agreement(c, m.x, m.n);
    if (hs_ok(s)) s = comparison_failures(&m);
  }
  hs_free(apart);
  comparison_free(&m);
  saved_free(then);
  hs_vec_free(&log);
  return s;
}

// ---- versus -------------------------------------------------------------------------------------

static hs_status take_version(repl_cmd *c, const char *name, subject *x) {
  repl_version *v = repl_version_find(c->mod, name);
  if (!v) return hs_fail(HS_E_NO_HISTORY, "no version \"%s\"; `history` lists them", name);
  if (v->takes != c->mod->at->takes)
    return hs_with_note(hs_fail(HS_E_INPUT, "@%u takes other arguments than @%u, the current one",
                                v->number, c->mod->at->number),
                        "time measures one version: goto %u; time", v->number);
  *x = (subject){.label = name, .version = hs_format("%u", v->number), .be = c->s->be};
  return repl_runnable(c, v, false, &x->m);
}

hs_status cmd_versus(repl_cmd *c) {
  prof_trial_options o;
  HS_TRY(comparison_options(c, 3, &o));
  HS_TRY(repl_inputs(c));
  comparison m = {.n = 2};
  hs_status s = take_version(c, repl_arg(c, 0), &m.x[0]);
  if (hs_ok(s)) s = take_version(c, repl_arg(c, 1), &m.x[1]);
  m.x[0].key = "a", m.x[1].key = "b";
  if (hs_ok(s)) s = comparison_measure(c, &m, &o);
  if (hs_ok(s)) {
    between_take(c, &m, m.n, o.until);
    say_table(c, m.x, 2);
    for (u32 k = 0; k < 2; k++) json_subject(c, c->doc, &m.x[k], c->s->be->name);
    if (m.x[1].ratio.value > 0) {
      repl_say(c->out, "\n");
      say_verdict(c, &m.x[0], &m.x[1]);
      repl_json_num(c->doc, "ratio", m.x[1].ratio.value);
      prof_verdict v = prof_judge(m.x[1].ratio);
      repl_json_bool(c->doc, "distinguishable", v == PROF_FASTER || v == PROF_SLOWER);
    }
    say_noise(c, &m);
    s = say_agreement(c, m.x, 2);
    if (hs_ok(s)) s = comparison_failures(&m);
  }
  comparison_free(&m);
  return s;
}
