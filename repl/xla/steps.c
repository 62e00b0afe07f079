// steps.c: steps xla. The plug-in's own pass pipeline on the current version: a list of its runs,
// and its states as versions.
//
// The dumped states become versions of a new module (as `load FOLDER` does with any dump), with the
// times of the log, so that next, back, goto, until, diff and blame work on XLA's pipeline as on
// ours.
#include <stdio.h>

#include "repl/cmd/cmd.h"
#include "repl/shell/exec.h"
#include "repl/shell/plugin.h"
#include "repl/debug/xla_steps.h"

// Times of the runs go to the versions they made: versions stand for states in order, those without
// edits left out.
static void join_times(repl_module *mod, const xla_steps *x) {
  size_t v = 1;
  for (u32 state = 1; state < xla_steps_states(x) && v < mod->versions.n; state++) {
    const dump_step *d = &x->dumps->steps.v[state];
    pass_log *log = &mod->versions.v[v]->log;
    if (!log->n || strcmp(log->v[0].pass, d->pass ? d->pass : d->label) != 0 ||
        (d->pipeline && strcmp(log->v[0].pipeline, d->pipeline) != 0))
      continue;
    for (size_t k = 0; k < x->log.n; k++)
      if (x->to[k] == state && x->log.v[k].changed && d->pass) {
        log->v[0].ms = x->log.v[k].us / 1e3;
        break;
      }
    v++;
  }
}

static u32 distinct(const pjrt_steps *s, bool pipelines) {
  u32 n = 0;
  for (size_t k = 0; k < s->n; k++) {
    const char *name = pipelines ? s->v[k].pipeline : s->v[k].pass;
    bool seen = false;
    for (size_t j = 0; j < k && !seen; j++)
      seen = strcmp(name, pipelines ? s->v[j].pipeline : s->v[j].pass) == 0;
    n += !seen;
  }
  return n;
}

static void say_runs(repl_cmd *c, const pjrt_steps *s, double compile_ms) {
  repl_json *list = repl_json_array(c->doc, "steps");
  double sum = 0, top = 0;
  u32 changed = 0;
  if (!c->doc)
    repl_say(c->out, "%-44s %-38s %10s %22s\n", "pass", "pipeline", "time", "instructions");
  for (size_t k = 0; k < s->n; k++) {
    const pjrt_step *r = &s->v[k];
    char t[32], n[48];
    sum += r->us;
    if (!r->depth) top += r->us;
    changed += r->changed;
    snprintf(n, sizeof n, r->after != r->before ? "%u -> %u" : "%u", r->before, r->after);
    if (!c->doc && (r->changed || repl_flag(c, "--all")))
      repl_say(c->out, "%*s%-*s %-38.38s %10s %22s%s\n", 2 * (int)r->depth, "",
               44 - 2 * (int)r->depth, r->pass, r->pipeline, repl_time(t, r->us * 1e-6), n,
               r->changed ? " *" : "");
    repl_json *j = repl_json_object(list, NULL);
    repl_json_str(j, "pass", r->pass);
    repl_json_str(j, "pipeline", r->pipeline);
    repl_json_num(j, "ms", r->us / 1e3);
    repl_json_int(j, "depth", r->depth);
    repl_json_int(j, "instructions_before", r->before);
    repl_json_int(j, "instructions_after", r->after);
    repl_json_bool(j, "changed", r->changed);
  }
  char a[32], b[32], d[32], e[32];
  if (!c->doc) {
    repl_say(c->out, "%zu pass runs of %u passes in %u pipelines, %u changed the module%s\n", s->n,
             distinct(s, false), distinct(s, true), changed,
             repl_flag(c, "--all") ? "" : " (--all lists all)");
    repl_say(
        c->out,
        "passes %s of %s compiling; all runs add up to %s, XLA says %s (pipelines run as passes "
        "count twice in both)\n",
        repl_time(a, top * 1e-6), repl_time(b, compile_ms * 1e-3), repl_time(d, sum * 1e-6),
        repl_time(e, s->cumulative_us * 1e-6));
  }
  repl_json_int(c->doc, "runs", (i64)s->n);
  repl_json_int(c->doc, "changed", changed);
  repl_json_num(c->doc, "sum_ms", sum / 1e3);
  repl_json_num(c->doc, "xla_total_ms", s->cumulative_us / 1e3);
  repl_json_num(c->doc, "passes_ms", top / 1e3);
  repl_json_num(c->doc, "compile_ms", compile_ms);
}

hs_status cmd_steps(repl_cmd *c) {
  if (strcmp(repl_arg(c, 0), "xla") != 0)
    return repl_usage_error(c, "steps xla, not \"%s\"", repl_arg(c, 0));
  hlo_module *m;
  HS_TRY(repl_runnable(c, NULL, false, &m));
  xla_steps x;
  hs_status s = xla_steps_make(c, m, NULL, true, &x);
  if (hs_ok(s) && !x.log.n && !x.log.pipelines)
    s = hs_fail(HS_E_UNSUPPORTED, "this plug-in does not log its passes");
  repl_module *mod = NULL;
  if (hs_ok(s)) s = cmd_load_history(c, x.dir, c->m->name, &mod);
  if (hs_ok(s)) {
    join_times(mod, &x);
    say_runs(c, &x.log, x.compile_ms);
    repl_say_xla_line(c);
    repl_json_int(c->doc, "module_number", mod->number);
    if (!c->doc)
      repl_say(
          c->out,
          "module %u holds the %zu states: next, back, goto, until, diff and blame work on them\n",
          mod->number, mod->versions.n);
  }
  xla_steps_free(&x);
  hlo_module_free(m);
  return s;
}
