// sizes.c: speedup --sweep. See sizes.h.
//
// For each size the module as loaded is resized in a copy (other parameters follow), its passes run
// anew, and baseline and optimized, and XLA where it was asked for, are measured against each other
// in rounds of their own. A size that the module cannot take, or that cannot be run, is a line that
// says why, and the others go on. Sizes are measured one after the other, so that only ratios
// within a size are of the same minute.
#include "repl/measure/sizes.h"

#include <math.h>
#include <stdlib.h>

#include "core/eval/inputs.h"
#include "core/verify/verify.h"
#include "profiler/units.h"
#include "repl/formats/files.h"
#include "repl/measure/resize.h"
#include "repl/shell/exec.h"
#include "repl/shell/plugin.h"
#include "viz/curve.h"

enum { MOST_SIZES = 64, MOST_ROWS = 3, CHART_WIDTH = 78, CHART_HEIGHT = 16 };

typedef struct sweep {
  repl_cmd *c;
  const char *pipeline;
  const prof_device *device;
  prof_trial_options o;
  resize_target t;
  hlo_module *loaded;
  const backend *peer;
  u32 n, nrows;
  i64 sizes[MOST_SIZES];
  const char *label[MOST_ROWS];
  double x[MOST_SIZES], ms[MOST_ROWS][MOST_SIZES], low[MOST_ROWS][MOST_SIZES],
      high[MOST_ROWS][MOST_SIZES];
} sweep;

// "1..256": 1, 2, 4, ... 256; "8,12,16": those. Ascending.
static hs_status parse_sizes(repl_cmd *c, const char *text, sweep *x) {
  char *copy = hs_arena_strndup(c->scratch, text, strlen(text)), *dots = strstr(copy, "..");
  if (dots) {
    i64 from, to;
    *dots = 0;
    HS_TRY(repl_arg_int(c, "the first size", copy, 1, (i64)1 << 40, &from));
    HS_TRY(repl_arg_int(c, "the last size", dots + 2, from, (i64)1 << 40, &to));
    for (; from < to; from *= 2) x->sizes[x->n++] = from;
    x->sizes[x->n++] = to;
    return HS_GOOD;
  }
  for (char *p = copy, *end; p; p = end) {
    end = strchr(p, ',');
    if (end) *end++ = 0;
    if (x->n == MOST_SIZES)
      return repl_usage_error(c, "--sweep takes at most %d sizes", MOST_SIZES);
    HS_TRY(repl_arg_int(c, "a size", p, x->n ? x->sizes[x->n - 1] + 1 : 1, (i64)1 << 40,
                        &x->sizes[x->n]));
    x->n++;
  }
  return HS_GOOD;
}

// ---- one size -----------------------------------------------------------------------------------
static hs_status resized(const sweep *x, i64 size, hlo_module **out) {
  hlo_module *m = hlo_module_clone(x->loaded, NULL);
  resize_report r;
  hs_status s = resize_calls(m, &x->t, size, true, &r);
  resize_report_free(&r);
  if (hs_ok(s)) s = hlo_verify(m, NULL);
  if (hs_ok(s)) {
    hlo_journal_disable(m);
    *out = m;
    return HS_GOOD;
  }
  hlo_module_free(m);
  return s;
}

// Takes the module.
static hs_status make_rows(const sweep *x, hlo_module *take, comparison *m) {
  const backend *be = x->c->s->be;
  m->x[m->n++] = (subject){.key = "baseline",
                           .label = "baseline",
                           .m = take,
                           .per_instruction = true,
                           .version = hs_strdup("0"),
                           .be = be};
  m->x[m->n++] = (subject){.key = "optimized",
                           .label = "optimized",
                           .m = hlo_module_clone(take, NULL),
                           .version = hs_format("0+%s", x->pipeline),
                           .be = be};
  hlo_journal_disable(m->x[1].m);
  HS_TRY(comparison_optimize(x->c, m->x[1].m, x->pipeline, NULL));
  if (!x->peer) return HS_GOOD;
  m->x[m->n++] = (subject){.key = "xla",
                           .label = "xla",
                           .m = hlo_module_clone(take, NULL),
                           .version = hs_strdup("0"),
                           .be = x->peer,
                           .optional = true};
  hlo_journal_disable(m->x[2].m);
  return HS_GOOD;
}

static hs_status measure_rows(const sweep *x, comparison *m) {
  hlo_literal **args = NULL;
  if (x->device) return comparison_estimate(m, x->device);
  HS_TRY(repl_memory_check(x->c, m->x[0].m, false, 0));
  HS_TRY(hlo_inputs_random(x->c->s->ctx, m->x[0].m, x->c->s->set.seed, &args, &m->nargs));
  m->args = args;
  hs_status s = comparison_measure(x->c, m, &x->o);
  hlo_inputs_free(args, m->nargs);
  m->args = NULL;
  return hs_ok(s) ? comparison_failures(m) : s;
}

static void json_row(repl_json *size, const subject *s) {
  repl_json *j = repl_json_object(size, s->key);
  if (!hs_ok(s->failed)) {
    repl_json_str(j, "error", s->failed.err->message);
    return;
  }
  repl_json_num(j, "time_ms", s->median.value);
  repl_json_num(j, "low_ms", s->median.low);
  repl_json_num(j, "high_ms", s->median.high);
  repl_json_int(j, "peak_bytes", s->peak_bytes);
}

static void say_size(sweep *x, u32 k, const comparison *m, repl_json *j) {
  char t[MOST_ROWS][32], ratio[32], peak[32];
  const subject *opt = &m->x[1];
  prof_verdict v = prof_judge(opt->ratio);
  for (u32 r = 0; r < m->n; r++) {
    const subject *s = &m->x[r];
    bool ok = hs_ok(s->failed);
    x->ms[r][k] = ok ? s->median.value : 0;
    x->low[r][k] = ok ? s->median.low : 0;
    x->high[r][k] = ok ? s->median.high : 0;
    prof_time_text(t[r], ok ? s->median.value * 1e-3 : NAN);
    json_row(j, s);
  }
  repl_json_num(j, "speedup", opt->ratio.value);
  repl_json_num(j, "speedup_low", x->device ? NAN : opt->ratio.low);
  repl_json_num(j, "speedup_high", x->device ? NAN : opt->ratio.high);
  repl_json_str(j, "verdict", x->device ? NULL : prof_verdict_text(v));
  if (x->c->doc) return;
  repl_say(x->c->out, "%10lld %12s %12s", (long long)x->sizes[k], t[0], t[1]);
  if (x->nrows > 2) repl_say(x->c->out, " %12s", t[2]);
  if (x->device) repl_say(x->c->out, " %10s", prof_ratio_text(ratio, opt->ratio.value));
  else if (v == PROF_TOO_NOISY)
    repl_say(x->c->out, " %10s, too noisy", prof_about_ratio(ratio, opt->ratio.value));
  else
    repl_say(x->c->out, " %10s +-%.1f %%", prof_ratio_text(ratio, opt->ratio.value),
             100 * prof_half_width(opt->ratio));
  repl_say(x->c->out, "  peak %s\n", prof_bytes_text(peak, (double)opt->peak_bytes));
  repl_flush(x->c->out);
}

// A size that cannot be had is said and left out; only the user's stop ends the sweep.
static hs_status one_size(sweep *x, u32 k, repl_json *list, u32 *good) {
  comparison m = {0};
  hlo_module *module;
  x->x[k] = (double)x->sizes[k];
  repl_progress_text(x->c->out, "size %lld", (long long)x->sizes[k]);
  repl_json *j = repl_json_object(list, NULL);
  repl_json_int(j, "size", x->sizes[k]);
  hs_status s = resized(x, x->sizes[k], &module);
  if (hs_ok(s)) s = make_rows(x, module, &m);
  bool quiet = x->c->out->quiet;
  x->c->out->quiet = true;  // of what is compiled; the sizes are progress enough
  if (hs_ok(s)) s = measure_rows(x, &m);
  x->c->out->quiet = quiet;
  repl_progress_end(x->c->out);
  if (hs_ok(s)) {
    say_size(x, k, &m, j);
    ++*good;
  } else if (!hs_interrupted()) {
    if (!x->c->doc) repl_say(x->c->out, "%10lld  %s\n", (long long)x->sizes[k], s.err->message);
    repl_json_str(j, "error", s.err->message);
    hs_status_drop(s);
    s = HS_GOOD;
  }
  comparison_free(&m);
  return s;
}

// ---- the curve ----------------------------------------------------------------------------------
static const char *ms_text(char buf[32], double ms) { return prof_time_text(buf, ms * 1e-3); }

static hs_status draw(const sweep *x) {
  static const char marks[] = "box";
  viz_curve_series series[MOST_ROWS];
  for (u32 r = 0; r < x->nrows; r++)
    series[r] = (viz_curve_series){.name = x->label[r],
                                   .mark = marks[r],
                                   .y = x->ms[r],
                                   .low = x->device ? NULL : x->low[r],
                                   .high = x->device ? NULL : x->high[r]};
  char *name = hs_format("size of %s.%u", x->t.param->name, x->t.dim),
       *title = hs_format("%s on %s, time by size", x->c->m->name,
                          x->device ? x->device->name : x->c->s->be->name);
  const viz_curve v = {.title = title,
                       .x_name = name,
                       .y_name = x->device ? "time, estimated" : "time, median",
                       .x = x->x,
                       .n = x->n,
                       .series = series,
                       .nseries = x->nrows,
                       .y_text = ms_text};
  hs_buf b = {0};
  if (!x->c->doc) {
    viz_curve_text(&v, CHART_WIDTH, CHART_HEIGHT, &b);
    repl_say(x->c->out, "%s", hs_buf_cstr(&b));
    b.n = 0;
  }
  const char *file = repl_flag(x->c, "-o");
  hs_status s = HS_GOOD;
  if (file) {
    viz_curve_svg(&v, &b);
    s = hs_write_file(file, b.p, b.n, false);
    if (hs_ok(s) && !x->c->doc) repl_say(x->c->out, "wrote %s\n", file);
    if (hs_ok(s)) repl_json_str(x->c->doc, "file", file);
  }
  hs_buf_free(&b);
  hs_free(name);
  hs_free(title);
  return s;
}

static hs_status all_sizes(sweep *x) {
  repl_cmd *c = x->c;
  repl_json *doc = repl_json_object(c->doc, "sweep");
  repl_json_str(doc, "parameter", x->t.param->name);
  repl_json_int(doc, "dimension", x->t.dim);
  repl_json_str(doc, "source", x->device ? "estimated" : "measured");
  repl_json_str(doc, "device", x->device ? x->device->name : c->s->be->name);
  repl_json *list = repl_json_array(doc, "sizes");
  if (!c->doc) {
    repl_say(c->out, "%s on %s, %s, %s.%u = %lld as loaded\n", c->m->name,
             x->device ? x->device->name : c->s->be->name, x->device ? "estimated" : "measured",
             x->t.param->name, x->t.dim, (long long)x->t.from);
    repl_say(c->out, "%10s %12s %12s", "size", "baseline", "optimized");
    if (x->nrows > 2) repl_say(c->out, " %12s", "xla");
    repl_say(c->out, " %10s\n", "speedup");
  }
  u32 good = 0;
  for (u32 k = 0; k < x->n; k++) HS_TRY(one_size(x, k, list, &good));
  if (!good)
    return hs_fail(HS_E_RUN, "none of the sizes of %s.%u could be %s", x->t.param->name, x->t.dim,
                   x->device ? "estimated" : "measured");
  return draw(x);
}

hs_status sweep_sizes(repl_cmd *c, const char *pipeline, const prof_device *device,
                      const prof_trial_options *o) {
  const char *text = repl_flag(c, "--sweep"), *eq = strchr(text, '=');
  if (!eq) return repl_usage_error(c, "--sweep is PARAM.DIM=SIZES, x.0=1..256");
  sweep *x = hs_arena_zalloc(c->scratch, sizeof *x);
  *x = (sweep){.c = c,
               .pipeline = pipeline,
               .device = device,
               .o = *o,
               .nrows = 2,
               .label = {"baseline", "optimized", "xla"}};
  if (!repl_flag(c, "--seconds")) x->o.seconds = 2;
  HS_TRY(resize_parse(c, text, (size_t)(eq - text), &x->t));
  HS_TRY(parse_sizes(c, eq + 1, x));
  const backend *peer[2] = {0};
  if (!device) HS_TRY(comparison_peers(c, peer));
  x->peer = peer[0] == c->s->be ? NULL : peer[0];
  if (x->peer) x->nrows = 3;
  HS_TRY(repl_runnable(c, repl_base(c->mod), false, &x->loaded));
  hs_status s = all_sizes(x);
  hlo_module_free(x->loaded);
  return s;
}
