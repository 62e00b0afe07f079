// pass_compare.c: pass NAME --compare xla. Our pass and XLA's pass of that name on the same input.
//
// The plug-in compiles the current version and dumps its modules (xla_steps.h). Each of its runs of
// the pass gives one line: XLA's input and output, and the output of our pass on the same input.
// Either the two outputs are the same graph, names aside, or the differing instructions are shown;
// the cost of all three is shown too, since two different graphs may be equally good. The session's
// module is not modified.
//
// Passes differ in how much dead code they remove themselves, so the graphs are compared without
// dead code unless the pass is dce; the number of unused instructions that each left is reported.
#include "core/diff/graph_diff.h"
#include "repl/cmd/cmd.h"
#include "repl/debug/say_diff.h"
#include "repl/shell/exec.h"
#include "repl/shell/plugin.h"
#include "repl/debug/xla_steps.h"

typedef struct trio {
  hlo_module *before, *theirs, *ours;
  pass_totals cost[3];  // in this order
  // instructions without users that theirs and ours left; removed from both
  u32 dead[2];
  char *failed;  // why ours did; NULL
} trio;

static void trio_free(trio *t) {
  hlo_module_free(t->before);
  hlo_module_free(t->theirs);
  hlo_module_free(t->ours);
  hs_free(t->failed);
  *t = (trio){0};
}

static hs_status make(repl_cmd *c, const xla_steps *x, size_t run, const char *pass, trio *t) {
  *t = (trio){0};
  pass_run_options o = pass_run_default();
  o.registry = c->s->passes;
  o.own = &c->s->pipelines;
  HS_TRY(xla_steps_read(c, x, x->from[run], &t->before));
  HS_TRY(xla_steps_read(c, x, x->to[run], &t->theirs));
  t->ours = hlo_module_clone(t->before, t->before->name);
  hs_status s = pipeline_run(t->ours, pass, &o, NULL);
  if (!hs_ok(s) && s.err->code != HS_E_PASS) return s;
  if (!hs_ok(s)) t->failed = hs_strdup(s.err->message);
  hs_status_drop(s);
  hlo_module *const all[] = {t->before, t->theirs, t->ours};
  for (size_t k = 0; k < HS_COUNT(all); k++) HS_TRY(pass_measure(all[k], NULL, &t->cost[k]));
  for (u32 k = 0; k < 2 && strcmp(pass, "dce") != 0; k++) {
    hlo_module *m = all[k + 1];
    u32 had = hlo_instr_count(m);
    HS_TRY(pipeline_run(m, "dce", &o, NULL));
    t->dead[k] = had - hlo_instr_count(m);
  }
  return HS_GOOD;
}

static void cost_json(repl_json *run, const trio *t) {
  static const char *const keys[] = {"before", "xla", "hlosh"};
  for (size_t k = 0; k < HS_COUNT(keys); k++) {
    repl_json *j = repl_json_object(run, keys[k]);
    repl_json_int(j, "instructions", t->cost[k].instructions);
    repl_json_num(j, "flops", t->cost[k].flops);
    repl_json_num(j, "bytes", t->cost[k].bytes);
    repl_json_int(j, "peak_bytes", t->cost[k].peak_bytes);
  }
}

static void put_cost(repl_cmd *c, const char *who, const pass_totals *p) {
  char f[32], b[32], m[32];
  repl_say(c->out, "    %-8s %7u instr  %12s  %10s moved  peak %10s\n", who, p->instructions,
           repl_flops(f, p->flops), repl_bytes(b, p->bytes), repl_bytes(m, (double)p->peak_bytes));
}

// One run's line; all that differs when `listed`.
static void say_run(repl_cmd *c, repl_json *list, const pjrt_step *r, u32 number, const trio *t,
                    bool listed, u32 *same) {
  hlo_graph_diff d;
  hlo_graph_diff_make(t->theirs, t->ours, c->scratch, &d);
  bool equal = !t->failed && hlo_graph_diff_same(&d);
  *same += equal;
  repl_json *j = repl_json_object(list, NULL);
  repl_json_int(j, "run", number);
  repl_json_str(j, "pipeline", r->pipeline);
  repl_json_bool(j, "changed", r->changed);
  repl_json_bool(j, "same", equal);
  if (t->failed) repl_json_str(j, "hlosh_fails", t->failed);
  repl_json_int(j, "xla_dead", t->dead[0]);
  repl_json_int(j, "hlosh_dead", t->dead[1]);
  cost_json(j, t);
  if (!c->doc) {
    repl_say(c->out, "run %u, %s: %s%s\n", number, r->pipeline,
             t->failed ? "hlosh's pass fails: "
             : equal   ? (r->changed ? "the same graph" : "no change by either")
                       : "different graphs",
             t->failed ? t->failed : "");
    if (t->dead[0] || t->dead[1])
      repl_say(c->out, "    instructions left unused: %u by xla, %u by hlosh\n", t->dead[0],
               t->dead[1]);
    if (r->changed || !equal)
      put_cost(c, "before", &t->cost[0]), put_cost(c, "xla", &t->cost[1]),
          put_cost(c, "hlosh", &t->cost[2]);
  }
  if (listed && !equal && !t->failed)
    repl_say_graph_diff(c, repl_json_object(j, "diff"), "xla", t->theirs, "hlosh", t->ours,
                        UINT32_MAX);
}

static hs_status compare_runs(repl_cmd *c, const xla_steps *x, const char *pass, const char *name,
                              i64 only) {
  repl_json *list = repl_json_array(c->doc, "runs");
  u32 number = 0, told = 0, same = 0;
  bool listed = false;
  for (size_t k = 0; k < x->log.n; k++) {
    if (!xla_same_name(x->log.v[k].pass, name)) continue;
    if (++number != only && only) continue;
    trio t;
    u32 before = same;
    hs_status s = make(c, x, k, pass, &t);
    if (hs_ok(s)) say_run(c, list, &x->log.v[k], number, &t, only || !listed, &same);
    trio_free(&t);
    HS_TRY(s);
    told++;
    // of several that differ the first is listed; --run lists another
    listed |= same == before;
  }
  if (!number) return xla_steps_unknown(c, x, name);
  if (!told)
    return hs_fail(HS_E_USAGE, "XLA runs %s %u time%s on this module, there is no run %lld", name,
                   number, number == 1 ? "" : "s", (long long)only);
  repl_json_str(c->doc, "pass", name);
  repl_json_int(c->doc, "same", same);
  repl_json_int(c->doc, "compared", told);
  if (!c->doc)
    repl_say(c->out, "%s: the same graph in %u of %u run%s of XLA's\n", name, same, told,
             told == 1 ? "" : "s");
  repl_say_plugin_line(c, x->be, x->exe);
  return HS_GOOD;
}

hs_status cmd_compare_pass(repl_cmd *c, const char *text) {
  i64 only = 0;
  if (repl_flag(c, "--run"))
    HS_TRY(repl_arg_int(c, "--run", repl_flag(c, "--run"), 1, 1000000, &only));
  pipeline_program *p;
  HS_TRY(pipeline_parse(text, c->s->passes, &c->s->pipelines, &p));
  const char *name = p->npasses == 1 && p->ops.n == 1 ? p->ops.v[0].pass->name : NULL;
  hs_status s =
      name ? HS_GOOD : repl_usage_error(c, "--compare=xla takes one pass, not a pipeline");
  hlo_module *m = NULL;
  xla_steps x = {0};
  if (hs_ok(s)) s = repl_runnable(c, NULL, false, &m);
  if (hs_ok(s)) s = xla_steps_make(c, m, NULL, true, &x);
  if (hs_ok(s) && !x.log.n && !x.log.pipelines)
    s = hs_fail(HS_E_UNSUPPORTED, "this plug-in does not log its passes");
  if (hs_ok(s)) s = compare_runs(c, &x, text, name, only);
  xla_steps_free(&x);
  hlo_module_free(m);
  pipeline_free(p);
  return s;
}
