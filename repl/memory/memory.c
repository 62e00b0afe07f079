// memory.c — the command `memory`: what a version needs, by the model of core/analysis, by the
// plan of the backend, and (--measure) in the worker process itself.
//
// The figures stand in rows that say where they come from. "unshared" and "shared" are the model's
// (estimated); the backend's row is its own buffer assignment before any code is made (predicted);
// "measured" is what the compiled program allocated, and what the worker grew by in its first run.
#include "repl/memory/memory.h"

#include "profiler/model/prof.h"
#include "repl/shell/exec.h"

// ---- plans --------------------------------------------------------------------------------------

hs_status memory_plan_of(repl_cmd *c, const hlo_module *m, prof_memory *out) {
  backend_options o = repl_backend_options(c->s);
  o.plan_only = true;
  o.per_instruction = repl_flag(c, "--per-instruction") != NULL;
  backend_exe *exe = NULL;
  HS_TRY(c->s->be->compile(m, &o, &exe));
  hs_status s = c->s->be->plan(exe, out);
  c->s->be->release(exe);
  return s;
}

static hs_status backend_plan(repl_cmd *c, prof_memory *out) {
  hlo_module *m;
  HS_TRY(repl_runnable(c, NULL, false, &m));
  hs_status s = memory_plan_of(c, m, out);
  hlo_module_free(m);
  return s;
}

static bool other_plan_may_work(hs_status s) {
  hs_code c = s.err->code;
  return c == HS_E_UNSUPPORTED || c == HS_E_NOT_BUILT || c == HS_E_NO_MEMORY || c == HS_E_LIMIT;
}

// The plan of the current version, the caller's to free: by the backend when it makes plans and no
// GPU is the target, else (or with --model) by the model. *by: its name, or "model".
static hs_status current_plan(repl_cmd *c, prof_memory *out, const char **by) {
  *by = c->s->be->name;
  *out = (prof_memory){0};
  if (c->s->be->plan && !c->s->target_text && !repl_flag(c, "--model")) {
    hs_status s = backend_plan(c, out);
    if (hs_ok(s) || !other_plan_may_work(s)) return s;
    repl_note(c->out, "the backend %s makes no plan of this module (%s); the model does",
              c->s->be->name, s.err->message);
    hs_status_drop(s);
  }
  *by = "model";
  return prof_memory_model(c->m, repl_flag(c, "--per-instruction") != NULL, out);
}

// ---- rows ---------------------------------------------------------------------------------------

static repl_json *memory_row(repl_cmd *c, const char *what, const char *key, const char *source,
                             const hlo_memory *x) {
  char a[5][32];
  if (!c->doc)
    repl_say(c->out, "%-12s %10s %10s %12s %10s %10s\n", what,
             repl_bytes(a[0], (double)x->argument_bytes), repl_bytes(a[1], (double)x->output_bytes),
             repl_bytes(a[2], (double)x->temp_bytes), repl_bytes(a[3], (double)x->alias_bytes),
             repl_bytes(a[4], (double)x->peak_bytes));
  repl_json *j = repl_json_object(c->doc, key);
  repl_json_str(j, "source", source);
  repl_json_int(j, "argument_bytes", x->argument_bytes);
  repl_json_int(j, "output_bytes", x->output_bytes);
  repl_json_int(j, "alias_bytes", x->alias_bytes);
  repl_json_int(j, "temp_bytes", x->temp_bytes);
  repl_json_int(j, "peak_bytes", x->peak_bytes);
  return j;
}

static void plan_row(repl_cmd *c, const prof_memory *p, const char *by) {
  hlo_memory x = {.argument_bytes = p->argument_bytes,
                  .output_bytes = p->output_bytes,
                  .alias_bytes = p->alias_bytes,
                  .temp_bytes = p->temp_bytes,
                  .peak_bytes = prof_memory_peak(p)};
  bool model = !strcmp(by, "model");
  repl_json *j = memory_row(c, model ? "placed" : hs_arena_strndup(c->scratch, by, strlen(by)),
                            "plan", model ? "estimated" : "predicted", &x);
  repl_json_str(j, "by", by);
  repl_json_int(j, "live_bytes", p->live_bytes);
  repl_json_int(j, "fragmentation_bytes", p->temp_bytes - p->live_bytes);
  if (p->mapped_bytes) repl_json_int(j, "mapped_bytes", p->mapped_bytes);
  else repl_json_null(j, "mapped_bytes");
}

// Compiles and runs once, in a worker of its own: the session's may have memory of programs before.
static hs_status measure_in(backend_context *own, repl_cmd *c, const prof_memory *plan) {
  const backend *be = c->s->be;
  if (!be->plan)
    return hs_fail(HS_E_UNSUPPORTED, "the backend %s has no memory of its own to measure",
                   be->name);
  hlo_module *m;
  HS_TRY(repl_inputs(c));
  HS_TRY(repl_runnable(c, NULL, false, &m));
  backend_options o = repl_backend_options(c->s);
  o.context = own;
  o.per_instruction = repl_flag(c, "--per-instruction") != NULL;
  backend_exe *exe = NULL;
  backend_result r = {0};
  hs_status s = be->compile(m, &o, &exe);
  hlo_module_free(m);
  if (!hs_ok(s)) return s;
  backend_run_options once = {.max_runs = 1, .min_runs = 1};
  i64 before = worker_resident(backend_context_worker(own));
  s = be->run(exe, c->mod->ninputs, c->mod->inputs, &once, &r);
  i64 after = worker_resident(backend_context_worker(own));
  backend_result_free(&r);
  prof_memory used = {0};
  if (hs_ok(s)) s = be->plan(exe, &used);
  if (hs_ok(s)) {
    const backend_compiled *k = be->compiled(exe);
    hlo_memory x = {.argument_bytes = k->argument_bytes,
                    .output_bytes = k->output_bytes,
                    .alias_bytes = k->alias_bytes,
                    .temp_bytes = k->temp_bytes,
                    .peak_bytes = k->peak_bytes};
    repl_json *j = memory_row(c, "measured", "measured", "measured", &x);
    i64 predicted = prof_memory_peak(plan), grown = after - before;
    bool known = before >= 0 && after >= 0 && used.resident_bytes >= 0;
    repl_json_bool(j, "as_predicted", k->peak_bytes == predicted);
    if (known) repl_json_int(j, "resident_bytes", used.resident_bytes);
    else repl_json_null(j, "resident_bytes");
    if (known) repl_json_int(j, "resident_growth_bytes", grown);
    else repl_json_null(j, "resident_growth_bytes");
    char a[3][32];
    if (!c->doc && known)
      repl_say(c->out,
               "after the first run the program's areas hold %s of memory; predicted, in whole "
               "pages: %s\nthe worker grew by %s in it: these, and what threads and libraries "
               "keep\n",
               repl_bytes(a[0], (double)used.resident_bytes),
               repl_bytes(a[1], (double)plan->mapped_bytes), repl_bytes(a[2], (double)grown));
  }
  prof_memory_free(&used);
  be->release(exe);
  return s;
}

static hs_status measure(repl_cmd *c, const prof_memory *plan) {
  backend_context *own = backend_context_new();
  backend_context_confine(own, c->s->set.sandbox, c->s->set.memory_limit);
  hs_status s = measure_in(own, c, plan);
  backend_context_free(own);
  return s;
}

static const hlo_instr *instr_by_id(const hlo_module *m, u32 id) {
  hlo_for_each_comp(k, m)
    hlo_for_each_instr(i, k)
      if (i->id == id) return i;
  return NULL;
}

static hs_status summary(repl_cmd *c, const prof_memory *plan, const char *by) {
  hlo_memory naive, now;
  HS_TRY(hlo_memory_estimate(c->m, true, &naive));
  HS_TRY(hlo_memory_estimate(c->m, false, &now));
  if (!c->doc)
    repl_say(c->out, "estimated     arguments    outputs  temporaries    aliased       peak\n");
  memory_row(c, "unshared", "naive", "estimated", &naive);
  memory_row(c, "shared", "current", "estimated", &now);
  if (plan->nsteps) plan_row(c, plan, by);
  else repl_json_null(c->doc, "plan");
  if (repl_flag(c, "--measure")) HS_TRY(measure(c, plan));
  const hlo_instr *peak = instr_by_id(c->m, now.peak_at);
  if (peak) {
    if (!c->doc)
      repl_say(c->out, "the peak is at %s (%s)\n", peak->name, hlo_op_text(peak->opcode));
    repl_json_str(c->doc, "peak_at", peak->name);
  }
  if (!c->doc && naive.peak_bytes > now.peak_bytes) {
    char b[32];
    repl_say(c->out, "sharing buffers saves %s (%.1f%%)\n",
             repl_bytes(b, (double)(naive.peak_bytes - now.peak_bytes)),
             100.0 * (double)(naive.peak_bytes - now.peak_bytes) / (double)naive.peak_bytes);
  }
  return HS_GOOD;
}

// ---- the command --------------------------------------------------------------------------------

typedef enum part { ALL, BUFFERS, PEAK, TIMELINE, DONATION, RECOMPUTE, XLA, PARTS } part;

static hs_status which(repl_cmd *c, part *out) {
  static const char *const names[PARTS] = {"",         "buffers",   "peak", "timeline",
                                           "donation", "recompute", "xla"};
  const char *what = repl_arg(c, 0);
  *out = ALL;
  for (int k = 1; what && k < PARTS; k++)
    if (!strcmp(what, names[k])) *out = (part)k;
  if (what && *out == ALL) {
    const char *near = hs_nearest(what, names + 1, PARTS - 1);
    hs_status s = repl_usage_error(c, "there is no part \"%s\"", what);
    return near ? hs_with_note(s, "did you mean %s?", near) : s;
  }
  if (*out == XLA && !repl_arg(c, 1))
    return repl_usage_error(c, "xla needs a report of XLA's, or a folder of --xla_dump_to");
  if (*out != XLA && repl_arg(c, 1)) return repl_usage_error(c, "only xla reads a file");
  return HS_GOOD;
}

static hs_status show(repl_cmd *c, part what, const prof_memory *plan, const char *by) {
  i64 limit = 10;
  if (repl_flag(c, "--limit"))
    HS_TRY(repl_arg_int(c, "--limit", repl_flag(c, "--limit"), 0, UINT32_MAX, &limit));
  if (what == XLA) return memory_beside_xla(c, plan, repl_arg(c, 1), limit);
  bool all = what == ALL;
  if (all) HS_TRY(summary(c, plan, by));
  if (!plan->nsteps) return HS_GOOD;
  if (what == BUFFERS || (all && c->doc)) memory_show_buffers(c, plan, all);
  if (all || what == PEAK) memory_show_peak(c, plan, limit, false);
  if (all || what == TIMELINE) memory_show_timeline(c, plan, false);
  if (what == DONATION || (all && c->doc)) HS_TRY(memory_donation(c, plan, by, limit, all));
  if (what == RECOMPUTE || (all && c->doc)) HS_TRY(memory_recompute(c, limit, all));
  return HS_GOOD;
}

hs_status cmd_memory(repl_cmd *c) {
  part what;
  prof_memory plan;
  const char *by;
  HS_TRY(which(c, &what));
  hs_status s = current_plan(c, &plan, &by);
  if (!hs_ok(s) && s.err->code == HS_E_LIMIT && what == ALL) {
    // the sums say what there is to say of a module that nothing can hold
    repl_note(c->out, "no plan: %s", s.err->message);
    hs_status_drop(s);
    s = HS_GOOD;
    by = NULL;
  }
  repl_json_str(c->doc, "plan_by", by);
  if (hs_ok(s)) s = show(c, what, &plan, by);
  if (hs_ok(s) && repl_flag(c, "--svg")) s = memory_svg(c, &plan, repl_flag(c, "--svg"));
  prof_memory_free(&plan);
  return s;
}
