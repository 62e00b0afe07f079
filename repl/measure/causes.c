// causes.c: savings --by=pass. See causes.h.
//
// The module as loaded goes through the pipeline once whole, and once for each pass that changed
// something without that pass; all of these programs, and the baseline, are measured against each
// other in the same rounds. What a pass saves is the time without it less the time with all passes.
// These parts do not add up to the whole: two passes may do the same work, or one may need what
// another one prepares; what is left over is said. A pass without which the pipeline makes the same
// program saves nothing, and is not measured.
//
// A pass is left out by a registry that has, under its name, one that does nothing, and is searched
// before the session's.
#include "repl/measure/causes.h"

#include <stdio.h>

#include "core/analysis/agree.h"
#include "profiler/units.h"
#include "repl/measure/subject.h"
#include "repl/shell/exec.h"

enum { WHOLE, BASELINE, FIRST_PASS };

typedef struct causes {
  repl_cmd *c;
  const char *pipeline;
  hlo_module *loaded;
  comparison m;
  HS_VEC(const char *) same;  // passes without which the program is the same
  u32 unmeasured;             // passes beyond what a comparison can hold
} causes;

static hs_status do_nothing(pass_ctx *ctx) {
  (void)ctx;
  return HS_GOOD;
}

// The module after the pipeline; without: a pass to leave out, or NULL.
static hs_status run_without(const causes *x, const char *without, pass_log *log,
                             hlo_module **out) {
  pass_info idle = {0};
  const pass_info *list[] = {&idle};
  const pass_registry *all = x->c->s->passes;
  const pass_registry first = {.passes = list, .npasses = 1, .next = all};
  pass_run_options o = pass_run_default();
  o.registry = all;
  if (without) {
    idle = *pass_find(all, without);
    idle.run = do_nothing;
    o.registry = &first;
  }
  const pass_pipeline *known = pipeline_find(all, x->pipeline);
  hlo_module *m = hlo_module_clone(x->loaded, NULL);
  hlo_journal_disable(m);
  hs_status s = hs_poll();  // copying a large module takes a while
  if (hs_ok(s)) s = pipeline_run(m, known ? known->text : x->pipeline, &o, log);
  if (hs_ok(s)) *out = m;
  else hlo_module_free(m);
  return s;
}

static subject *add_subject(causes *x, const char *key, hlo_module *take, bool alone) {
  subject *s = &x->m.x[x->m.n++];
  *s = (subject){.key = key,
                 .label = key,
                 .m = take,
                 .per_instruction = alone,
                 .optional = true,
                 .version = hs_strdup("0"),
                 .be = x->c->s->be};
  return s;
}

static bool is_listed(const causes *x, const char *pass) {
  for (u32 k = FIRST_PASS; k < x->m.n; k++)
    if (strcmp(x->m.x[k].key, pass) == 0) return true;
  for (size_t k = 0; k < x->same.n; k++)
    if (strcmp(x->same.v[k], pass) == 0) return true;
  return false;
}

// A program per pass that changed something, unless it is the whole pipeline's.
static hs_status add_passes(causes *x, const pass_log *log) {
  u64 whole = hlo_fingerprint(x->m.x[WHOLE].m);
  for (size_t k = 0; k < log->n; k++) {
    const pass_result *r = &log->v[k];
    if (!r->changed || is_listed(x, r->pass)) continue;
    if (x->m.n == MAX_SUBJECTS) {
      x->unmeasured++;
      continue;
    }
    repl_progress_text(x->c->out, "the pipeline without %s", r->pass);
    hlo_module *m = NULL;
    hs_status s = run_without(x, r->pass, NULL, &m);
    if (hs_interrupted()) {
      hlo_module_free(m);
      return hs_ok(s) ? hs_stopped() : s;
    }
    if (hs_ok(s) && hlo_fingerprint(m) == whole) {
      hs_vec_push(&x->same, r->pass);
      hlo_module_free(m);
      continue;
    }
    subject *y = add_subject(x, r->pass, m, false);
    y->failed = s;
  }
  return HS_GOOD;
}

static hs_status make_programs(causes *x) {
  pass_log log = {0};
  hlo_module *m;
  HS_TRY(repl_runnable(x->c, repl_base(x->c->mod), false, &x->loaded));
  hs_status s = run_without(x, NULL, &log, &m);
  if (hs_ok(s)) {
    add_subject(x, "optimized", m, false)->optional = false;
    m = hlo_module_clone(x->loaded, NULL);
    hlo_journal_disable(m);
    add_subject(x, "baseline", m, true);
    s = add_passes(x, &log);
  }
  repl_progress_end(x->c->out);
  hs_vec_free(&log);
  return s;
}

// ---- what was found -----------------------------------------------------------------------------
// Time without it divided by the time with it: the subject's own ratio the other way round.
static prof_interval gain_of(const subject *y) {
  prof_interval r = y->ratio;
  if (!(r.low > 0)) return (prof_interval){0};
  return (prof_interval){1 / r.value, 1 / r.high, 1 / r.low};
}

// Programs whose results differ from the whole pipeline's have no times that could be compared.
static void check_results(causes *x) {
  const subject *whole = &x->m.x[WHOLE];
  hlo_tolerance tol = hlo_near(x->c->s->set.abs_error, x->c->s->set.rel_error);
  for (u32 k = BASELINE; k < x->m.n; k++) {
    subject *y = &x->m.x[k];
    if (!hs_ok(y->failed) || !whole->result || !y->result) continue;
    y->failed = hlo_agree(x->c->m->entry->root, whole->result, y->result, tol);
  }
}

static void say_failure(repl_cmd *c, repl_json *j, const subject *y) {
  if (!c->doc) repl_say(c->out, "  %-30s %s\n", y->label, y->failed.err->message);
  repl_json_str(j, "error", y->failed.err->message);
}

static void say_cause(repl_cmd *c, repl_json *list, const subject *whole, const subject *y) {
  repl_json *j = repl_json_object(list, NULL);
  repl_json_str(j, "pass", y->key);
  if (!hs_ok(y->failed)) {
    say_failure(c, j, y);
    return;
  }
  prof_interval g = gain_of(y);
  prof_verdict v = prof_judge(g);
  double saved = y->median.value - whole->median.value;
  char t[32], s[32] = "-", r[48], x[32], bytes[32], peak[32];
  if (v == PROF_TOO_NOISY)
    (void)snprintf(r, sizeof r, "%s, too noisy", prof_about_ratio(x, g.value));
  else
    (void)snprintf(r, sizeof r, "%s +-%.1f %%", prof_ratio_text(x, g.value),
                   100 * prof_half_width(g));
  if (v == PROF_FASTER || v == PROF_SLOWER) prof_time_text(s, saved * 1e-3);
  if (!c->doc)
    repl_say(c->out, "  %-30s %12s %18s %10s %10s %10s\n", y->label,
             prof_time_text(t, y->median.value * 1e-3), r, s,
             prof_bytes_delta(bytes, whole->bytes_moved - y->bytes_moved),
             prof_bytes_delta(peak, (double)(whole->peak_bytes - y->peak_bytes)));
  repl_json_num(j, "time_ms", y->median.value);
  repl_json_num(j, "saved_ms", saved);
  repl_json_num(j, "speedup", g.value);
  repl_json_num(j, "speedup_low", g.low);
  repl_json_num(j, "speedup_high", g.high);
  repl_json_str(j, "verdict", prof_verdict_text(v));
  repl_json_num(j, "bytes_moved", whole->bytes_moved - y->bytes_moved);
  repl_json_num(j, "peak_bytes", (double)(whole->peak_bytes - y->peak_bytes));
}

// The whole saving, and what no single pass accounts for. Parts that are too noisy are in the rest.
static void say_whole(const causes *x) {
  repl_cmd *c = x->c;
  const subject *whole = &x->m.x[WHOLE], *base = &x->m.x[BASELINE];
  char a[32], b[32], d[32], e[32];
  if (!hs_ok(base->failed)) return;
  double all = base->median.value - whole->median.value, parts = 0;
  prof_interval g = gain_of(base);
  for (u32 k = FIRST_PASS; k < x->m.n; k++) {
    prof_verdict v = hs_ok(x->m.x[k].failed) ? prof_judge(gain_of(&x->m.x[k])) : PROF_TOO_NOISY;
    if (v == PROF_FASTER || v == PROF_SLOWER) parts += x->m.x[k].median.value - whole->median.value;
  }
  if (!c->doc) {
    repl_say(c->out,
             "  baseline %s, with all passes %s: ", prof_time_text(a, base->median.value * 1e-3),
             prof_time_text(b, whole->median.value * 1e-3));
    if (prof_judge(g) == PROF_TOO_NOISY) repl_say(c->out, "too noisy to say\n");
    else
      repl_say(c->out, "%s saved; passes one by one %s, passes together and the compiler %s\n",
               prof_time_text(d, all * 1e-3), prof_time_text(e, parts * 1e-3),
               prof_time_text(a, (all - parts) * 1e-3));
  }
  repl_json_num(c->doc, "baseline_ms", base->median.value);
  repl_json_num(c->doc, "optimized_ms", whole->median.value);
  repl_json_num(c->doc, "saved_ms", all);
  repl_json_num(c->doc, "by_passes_ms", parts);
  repl_json_str(c->doc, "verdict", prof_verdict_text(prof_judge(g)));
}

static void say_same(const causes *x) {
  repl_json *list = repl_json_array(x->c->doc, "same_without");
  for (size_t k = 0; k < x->same.n; k++) {
    repl_json_str(list, NULL, x->same.v[k]);
    if (!x->c->doc)
      repl_say(x->c->out, "%s%s", k ? ", " : "  the same program without: ", x->same.v[k]);
  }
  if (x->same.n && !x->c->doc) repl_say(x->c->out, "\n");
  if (x->unmeasured)
    repl_note(x->c->out, "%u more passes changed something and were not left out", x->unmeasured);
}

static hs_status say_causes(causes *x) {
  repl_cmd *c = x->c;
  const subject *whole = &x->m.x[WHOLE];
  if (!hs_ok(whole->failed)) return comparison_failures(&x->m);
  check_results(x);
  repl_json_str(c->doc, "by", "pass");
  repl_json_str(c->doc, "source", "measured");
  repl_json_str(c->doc, "device", c->s->be->name);
  repl_json_str(c->doc, "pipeline", x->pipeline);
  repl_json_int(c->doc, "rounds", x->m.trial.rounds);
  repl_json_bool(c->doc, "loud", prof_noise_loud(&x->m.noise));
  repl_json *list = repl_json_array(c->doc, "passes");
  if (!c->doc) {
    repl_say(c->out, "%s on %s: the pipeline %s, a pass left out at a time\n", c->m->name,
             c->s->be->name, x->pipeline);
    repl_say(c->out, "  %-30s %12s %18s %10s %10s %10s\n", "pass", "without it", "faster with it",
             "saved", "bytes", "peak");
  }
  for (u32 k = FIRST_PASS; k < x->m.n; k++) say_cause(c, list, whole, &x->m.x[k]);
  say_same(x);
  say_whole(x);
  if (!c->doc && prof_noise_loud(&x->m.noise)) {
    hs_buf b = {0};
    prof_noise_text(&x->m.noise, &b);
    repl_say(c->out, "  the machine is not quiet: %s\n", hs_buf_cstr(&b));
    hs_buf_free(&b);
  }
  return HS_GOOD;
}

hs_status causes_by_pass(repl_cmd *c) {
  HS_TRY(repl_needs_module(c, false));  // savings itself needs none
  causes x = {.c = c};
  HS_TRY(repl_flag_pipeline(c, &x.pipeline));
  prof_trial_options o;
  HS_TRY(comparison_options(c, 10, &o));
  HS_TRY(repl_inputs(c));
  hs_status s = make_programs(&x);
  if (hs_ok(s)) s = comparison_measure(c, &x.m, &o);
  if (hs_ok(s)) s = say_causes(&x);
  comparison_free(&x.m);
  hlo_module_free(x.loaded);
  hs_vec_free(&x.same);
  return s;
}
