// shrink.c: shrink. The smallest module that still has a fault becomes the current one.
//
// The fault is a condition of `bisect` (judge.c), of the module itself or of what a pipeline makes
// of it; the search is debug/shrink.c. The result goes through its text, as `extract` does, and is
// judged again: what can be written down and read back is what has the fault. With -o it is written
// as a bundle, which fresh processes replay.
#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/verify/verify.h"
#include "repl/cmd/cmd.h"
#include "repl/debug/bundle.h"
#include "repl/shrink/shrink.h"
#include "repl/debug/watch.h"
#include "repl/shell/gate.h"

#define SHRUNK "-shrunk"
enum { PROOFS = 3 };  // how often the result is judged again, and its bundle replayed
static const double SECONDS = 120;

// [PIPELINE] [mismatch|nan|crash|verify|slower|bigger|'SCRIPT ARGS']
static hs_status read_words(repl_cmd *c, shrink_search *s) {
  bisect_condition("mismatch", &s->t.kind, &s->t.changes);
  bool condition = false;
  for (u32 k = 0; k < c->args.npos; k++) {
    const char *w = c->args.pos[k];
    bool pipeline = bisect_is_pipeline(c, w);
    if (pipeline && !s->pipeline) {
      HS_TRY(shrink_pipeline_set(s, w));
      continue;
    }
    if (condition || pipeline)
      return repl_usage_error(c, "one pipeline and one condition; \"%s\" is one more", w);
    condition = true;
    if (bisect_condition(w, &s->t.kind, &s->t.changes)) continue;
    if (!strpbrk(w, "/ "))
      return hs_with_note(
          repl_usage_error(c, "\"%s\" is neither a pipeline nor a condition", w),
          "conditions are mismatch, nan, crash, verify, slower, bigger, or a script, such as "
          "./good.sh");
    s->t.kind = BISECT_SCRIPT, s->t.script = w, s->t.changes = "makes the script fail";
  }
  return HS_GOOD;
}

static hs_status read_backend(repl_cmd *c, const char *flag, const backend **out) {
  const char *name = repl_flag(c, flag);
  if (!name) return HS_GOOD;
  *out = backend_find(name);
  return *out ? HS_GOOD : repl_usage_error(c, "there is no backend %s", name);
}

static u32 processors(void) {
  cpu_set_t allowed;
  return sched_getaffinity(0, sizeof allowed, &allowed) == 0 ? (u32)CPU_COUNT(&allowed) : 1;
}

static hs_status read_options(repl_cmd *c, shrink_search *s) {
  HS_TRY(read_words(c, s));
  // A pipeline's fault is looked for with the evaluator, a backend's with that backend.
  s->t.be = s->pipeline && s->t.kind != BISECT_SLOWER ? NULL : c->s->be;
  HS_TRY(read_backend(c, "--backend", &s->t.be));
  HS_TRY(read_backend(c, "--reference", &s->reference));
  if (s->t.be && backend_has(s->t.be, BACKEND_EVALUATOR)) s->t.be = NULL;
  if (s->t.kind == BISECT_SLOWER && !s->t.be)
    return repl_usage_error(c, "the evaluator is not measured; use --backend=cpu");
  if (s->t.kind == BISECT_SLOWER && !s->reference && !s->pipeline)
    return repl_usage_error(c, "slower than what? --reference=pjrt, or a pipeline");
  if (s->t.kind == BISECT_BIGGER && !s->pipeline)
    return repl_usage_error(c, "bigger is the fault of a pipeline: shrink PIPELINE bigger");
  if (s->t.kind == BISECT_MISMATCH && !s->t.be && !s->pipeline && !s->reference)
    return repl_usage_error(c, "mismatch with what? --backend=cpu, or a pipeline");
  i64 tries = 0;
  if (repl_flag(c, "--tries"))
    HS_TRY(repl_arg_int(c, "--tries", repl_flag(c, "--tries"), 1, 10000, &tries));
  s->t.tries = (u32)tries;
  s->t.tol = hlo_near(c->s->set.abs_error, c->s->set.rel_error);
  HS_TRY(repl_arg_tolerance(c, &s->t.tol));
  s->seconds = SECONDS;
  if (repl_flag(c, "--seconds"))
    HS_TRY(repl_arg_num(c, "--seconds", repl_flag(c, "--seconds"), &s->seconds));
  i64 jobs = 0;
  if (repl_flag(c, "-j")) HS_TRY(repl_arg_int(c, "-j", repl_flag(c, "-j"), 1, 1024, &jobs));
  s->jobs = jobs ? (u32)jobs : processors();
  if (s->seconds < 0) return repl_usage_error(c, "--seconds is 0 or more");
  if (c->s->set.deadline > 0 && (s->seconds <= 0 || s->seconds > c->s->set.deadline))
    s->seconds = c->s->set.deadline;
  const char *out = repl_flag(c, "-o");
  if (out && access(out, F_OK) == 0)
    return hs_with_note(hs_fail(HS_E_USAGE, "shrink: %s exists", out),
                        "choose a folder that does not exist");
  return HS_GOOD;
}

// A fresh process replays the bundle; whether its outcome was the one written.
static bool replays(const char *dir) {
  char *line = hs_format("replay \"%s\"", dir);
  fflush(NULL);
  pid_t child = fork();
  if (child == 0) {
    if (!freopen("/dev/null", "w", stdout) || !freopen("/dev/null", "w", stderr)) _exit(127);
    execl("/proc/self/exe", "hlosh", "--no-rc", "-c", line, (char *)NULL);
    _exit(127);
  }
  int status = -1;
  while (child > 0 && waitpid(child, &status, 0) < 0 && errno == EINTR) {}
  hs_free(line);
  return child > 0 && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

// With the module before and after the pipeline, where that comes to an end.
static hs_status write_bundle(repl_cmd *c, shrink_search *s, const char *dir) {
  const repl_settings set = c->s->set;
  const backend *be = c->s->be;
  bundle_fault fault = {.condition = bisect_condition_text(s->t.kind),
                        .pipeline = s->pipeline,
                        .backend = s->t.be ? s->t.be->name : NULL,
                        .reference = s->reference ? s->reference->name : NULL,
                        .wrong = s->fault,
                        .limit = s->passes.limit,
                        .tol = s->t.tol};
  if (s->pipeline) {
    pass_run_options o = cmd_pass_options(c);
    hlo_module *trial = hlo_module_clone(c->m, NULL);
    hlo_journal_disable(trial);
    hs_status ran = shrink_pipeline_run(s, trial, &o);
    hlo_module_free(trial);
    if (hs_ok(ran)) {
      HS_TRY(shrink_pipeline_run(s, c->m, &o));
      repl_commit(c->mod, s->pipeline);
    }
    hs_status_drop(ran);
  }
  c->s->be = s->t.be ? s->t.be : backend_with(BACKEND_EVALUATOR);
  c->s->set.abs_error = s->t.tol.abs;
  c->s->set.rel_error = s->t.tol.rel;
  char *verdict = NULL;
  hs_status st = cmd_write_report(c, dir, s->pipeline ? &fault : NULL, &verdict);
  c->s->be = be;
  c->s->set = set;
  if (s->pipeline && c->mod->at->parent) repl_goto(c->mod, c->mod->at->parent);
  hs_free(verdict);
  HS_TRY(st);
  u32 same = 0;
  for (u32 k = 0; k < PROOFS && hs_ok(hs_poll()); k++) same += replays(dir);
  repl_json_str(c->doc, "bundle", dir);
  repl_json_int(c->doc, "replays", PROOFS);
  repl_json_int(c->doc, "replays_same", same);
  if (!c->doc)
    repl_say(c->out, "wrote %s; %u of %u fresh processes replayed it with the same outcome\n", dir,
             same, (u32)PROOFS);
  return HS_GOOD;
}

// The result as text and back, judged again.
static hs_status settle(repl_cmd *c, shrink_search *s, u32 before) {
  size_t n = strlen(c->m->name), end = sizeof SHRUNK - 1;
  bool once = n > end && strcmp(c->m->name + n - end, SHRUNK) == 0;
  char *name = hs_format("%s%s", c->m->name, once ? "" : SHRUNK), *why = NULL;
  hlo_module *m = hlo_module_clone(s->best.m, name), *again = NULL;
  hs_free(name);
  hlo_print_options o = hlo_print_full();
  hs_buf text = {0};
  hlo_print_module(&text, m, &o);
  hlo_module_free(m);
  hlo_parse_options po = {.file = "<shrink>"};
  hs_status st = hlo_parse(c->s->ctx, text.p, text.n, &po, &again);
  hs_buf_free(&text);
  HS_TRY(st);
  shrink_case x = {.m = again, .nargs = s->best.nargs, .args = s->best.args};
  u32 bad = 0;
  for (u32 k = 0; k < PROOFS && hs_ok(st); k++) {
    st = shrink_judge(s, &x, &why);
    bad += why != NULL;
    hs_free(why);
  }
  double seconds = (double)(hs_now_ns() - s->begin) * 1e-9;
  repl_module *mod = repl_session_add(c->s, again, NULL);
  mod->inputs = s->best.args;
  mod->ninputs = s->best.nargs;
  mod->inputs_from = hs_strdup("shrink");
  s->best.args = NULL;
  s->best.nargs = 0;
  repl_json_str(c->doc, "name", again->name);
  repl_json_int(c->doc, "instructions_before", before);
  repl_json_int(c->doc, "instructions", hlo_instr_count(again));
  repl_json_int(c->doc, "tried", s->tried);
  repl_json_int(c->doc, "kept", s->kept);
  repl_json_num(c->doc, "seconds", seconds);
  repl_json_bool(c->doc, "out_of_time", s->out_of_time);
  repl_json_str(c->doc, "wrong", s->fault);
  repl_json_int(c->doc, "judged_again", PROOFS);
  repl_json_int(c->doc, "judged_bad", bad);
  if (s->pipeline) repl_json_str(c->doc, "pipeline", s->pipeline);
  if (s->pipeline && s->passes.limit >= 0) repl_json_int(c->doc, "rewrites", s->passes.limit);
  if (!c->doc)
    repl_say(c->out,
             "%s: %u instructions instead of %u, by %u of %u tries in %.1f s; module %u is now "
             "current\n%s (in %u of %u runs of what was written down)\n",
             again->name, hlo_instr_count(again), before, s->kept, s->tried, seconds, mod->number,
             s->fault, bad, (u32)PROOFS);
  if (!c->doc && s->pipeline && s->passes.limit >= 0)
    repl_say(c->out, "by: pass %s --limit=%lld\n", s->pipeline, (long long)s->passes.limit);
  else if (!c->doc && s->pipeline) repl_say(c->out, "by: pass %s\n", s->pipeline);
  hs_buf_printf(&mod->findings,
                "- shrink: %u instructions instead of %u (%u of %u tries kept); "
                "in %u of %u runs of what is left: %s\n",
                hlo_instr_count(again), before, s->kept, s->tried, bad, (u32)PROOFS, s->fault);
  if (s->pipeline)
    hs_buf_printf(&mod->findings, "- the passes that it takes: `pass %s", s->pipeline);
  if (s->pipeline && s->passes.limit >= 0)
    hs_buf_printf(&mod->findings, " --limit=%lld", (long long)s->passes.limit);
  if (s->pipeline) hs_buf_puts(&mod->findings, "`\n");
  if (s->out_of_time) repl_note(c->out, "the time was up; shrink again goes on from here");
  c->mod = mod;
  c->m = again;
  return st;
}

hs_status cmd_shrink(repl_cmd *c) {
  shrink_search s = {.t = {.c = c}, .seed = c->s->set.seed};
  hs_status asked = read_options(c, &s);
  if (!hs_ok(asked)) return shrink_end(&s), asked;
  s.t.results_only = s.t.kind == BISECT_MISMATCH;
  // A script may be about a module that the verifier refuses.
  bool any = s.t.kind == BISECT_INVALID || (s.t.kind == BISECT_SCRIPT && !repl_is_verified(c->mod));
  s.valid = s.pipeline || !any;
  if (s.valid) asked = repl_gate_version(c, c->mod, c->mod->at);
  if (hs_ok(asked)) asked = repl_filled(c, NULL, true, &s.best.m);
  if (!hs_ok(asked)) return shrink_end(&s), asked;
  u32 before = hlo_instr_count(s.best.m);
  hs_status st = s.valid ? repl_inputs(c) : HS_GOOD;
  if (hs_ok(st) && s.valid) {
    s.best.nargs = c->mod->ninputs;
    s.best.args = hs_calloc(s.best.nargs + 1, sizeof(hlo_literal *));
    for (u32 k = 0; k < s.best.nargs; k++) s.best.args[k] = hlo_literal_ref(c->mod->inputs[k]);
  }
  if (hs_ok(st)) st = hs_poll();
  if (hs_ok(st)) st = shrink_run(&s);
  // Stopped amid the search: what was found so far is kept, without another verdict.
  bool stopped = !hs_ok(st) && s.kept && st.err->code == HS_E_INTERRUPTED;
  if (hs_ok(st) || stopped) {
    hs_status kept = settle(c, &s, before);
    if (stopped) {
      hs_status_drop(kept);
      st = hs_with_note(st, "the smallest module so far is the current one");
    } else st = kept;
  }
  const char *dir = repl_flag(c, "-o");
  if (hs_ok(st) && dir) st = write_bundle(c, &s, dir);
  shrink_end(&s);
  return st;
}
