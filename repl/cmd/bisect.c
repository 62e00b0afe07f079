// bisect.c: bisect. Which pass of a pipeline makes the module bad first, and which of its rewrites?
//
// The pipeline runs on a private copy of the module as loaded, pass by pass. After each pass that
// changed the copy, the copy is judged by the condition (judge.c). The pass at fault is then
// repeated with a limit on its rewrites, found by binary search (LLVM's -opt-bisect-limit,
// automated), and the change that the first bad rewrite makes is shown. The session's module is not
// modified. `bisect history` judges existing versions one after another, such as those of a dump
// folder; `bisect xla-passes` (bisect_xla.c) searches the plug-in's own pipeline.
#include <math.h>

#include "backends/ffi.h"
#include "repl/cmd/cmd.h"
#include "repl/debug/bisect.h"
#include "repl/debug/say_diff.h"

#define MOST_CHANGES 20  // instructions of a rewrite that are listed
#define MOST_REWRITES ((i64)1 << 40)

// ---- the search ---------------------------------------------------------------------------------
static pass_run_options run_options(const bisect_trial *t) {
  pass_run_options o = pass_run_default();
  o.measure = false;
  o.verify = t->kind != BISECT_INVALID;  // the search is for an invalid module
  o.registry = t->c->s->passes;
  o.own = &t->c->s->pipelines;
  return o;
}

// Judges the copy after `limit` rewrites of `step`, and leaves it in that state.
static hs_status judge_rewrites(bisect_trial *t, const char *step, i64 limit, char **wrong) {
  pass_run_options o = run_options(t);
  o.rewrite_limit = limit;
  *wrong = NULL;
  hs_status s = pipeline_run(t->m, step, &o, NULL);
  if (hs_ok(s)) return bisect_judge(t, wrong);
  if (t->kind != BISECT_CRASH || s.err->code != HS_E_PASS) return s;
  *wrong = hs_strdup(s.err->message);
  hs_status_drop(s);
  return HS_GOOD;
}

// The least number of rewrites of `step` that gives a bad module. The copy is in its state before
// the step, on entry and on return.
static hs_status find_rewrite(bisect_trial *t, const char *step, i64 rewrites, i64 *first_bad) {
  i64 good = 0, bad = rewrites;
  size_t mark = hlo_journal_mark(t->m);
  while (bad - good > 1) {
    i64 mid = good + (bad - good) / 2;
    char *wrong;
    repl_progress_text(t->c->out, "%s, rewrites up to %lld of %lld", step, (long long)mid,
                       (long long)rewrites);
    hs_status s = judge_rewrites(t, step, mid, &wrong);
    hlo_journal_rollback(t->m, mark);
    if (wrong) bad = mid;
    else good = mid;
    hs_free(wrong);
    HS_TRY(s);
  }
  *first_bad = bad;
  return HS_GOOD;
}

// Shows what rewrite number `first` did: the module after first - 1 and after first rewrites.
static void show_rewrite(bisect_trial *t, const char *step, i64 first) {
  size_t mark = hlo_journal_mark(t->m);
  pass_run_options o = run_options(t);
  hlo_module *side[2] = {NULL, NULL};
  char *label[2] = {NULL, NULL};
  for (u32 k = 0; k < 2; k++) {
    o.rewrite_limit = first - 1 + k;
    hs_status s = pipeline_run(t->m, step, &o, NULL);
    if (hs_ok(s)) side[k] = hlo_module_clone(t->m, t->m->name);
    label[k] = hs_format("--limit=%lld", (long long)o.rewrite_limit);
    hs_status_drop(s);
    hlo_journal_rollback(t->m, mark);
  }
  if (side[0] && side[1])
    repl_say_graph_diff(t->c, repl_json_object(t->c->doc, "rewrite_diff"), label[0], side[0],
                        label[1], side[1], MOST_CHANGES);
  for (u32 k = 0; k < 2; k++) hlo_module_free(side[k]), hs_free(label[k]);
}

// rewrites: how many the pass made; 0: it does not count them, or fails without any.
static hs_status report_culprit(bisect_trial *t, const char *step, u32 k, const char *wrong,
                                i64 rewrites, size_t mark) {
  repl_cmd *c = t->c;
  hlo_journal_rollback(t->m, mark);
  i64 first = rewrites;
  if (rewrites > 1) HS_TRY(find_rewrite(t, step, rewrites, &first));
  repl_progress_end(c->out);
  repl_json_str(c->doc, "pass", step);
  repl_json_int(c->doc, "position", k + 1);
  repl_json_str(c->doc, "wrong", wrong);
  if (rewrites > 0)
    repl_json_int(c->doc, "rewrite", first), repl_json_int(c->doc, "rewrites", rewrites);
  if (rewrites > 0 && t->kind != BISECT_INVALID) show_rewrite(t, step, first);
  hs_status s =
      hs_fail_subject(HS_E_DIFFER, step, "pass run %u, %s, %s: %s", k + 1, step, t->changes, wrong);
  if (rewrites > 0)
    s = hs_with_note(
        s, "rewrite %lld of %lld of this pass is the cause; pass %s --limit=%lld is still good",
        (long long)first, (long long)rewrites, step, (long long)first - 1);
  return s;
}

static hs_status say_none(bisect_trial *t, u32 tried, u32 runs) {
  repl_progress_end(t->c->out);
  repl_json_null(t->c->doc, "pass");
  repl_json_int(t->c->doc, "checked", tried);
  repl_json_int(t->c->doc, "runs", runs);
  if (!t->c->doc)
    repl_say(t->c->out, "no pass %s: %u of %u pass runs changed the module, each was checked\n",
             t->changes, tried, runs);
  return HS_GOOD;
}

// For the condition `crash`, a pass that fails is the result; the other conditions cannot continue
// after one.
static hs_status report_failed_pass(bisect_trial *t, const char *step, u32 k, size_t mark,
                                    hs_status s) {
  if (s.err->code != HS_E_PASS) return s;
  if (t->kind != BISECT_CRASH)
    return hs_with_note(s, "bisect with the condition crash finds the rewrite");
  hs_buf why = {0};
  for (const hs_diag *e = s.err; e; e = e->next)
    hs_buf_printf(&why, "%s%s", e == s.err ? "" : ": ", e->message);
  // The number of rewrites before the failure is unknown: it is doubled until the pass fails.
  i64 most = 0;
  char *wrong = NULL;
  hs_status st = HS_GOOD;
  for (i64 n = 0; hs_ok(st) && !wrong && n <= MOST_REWRITES; n = n ? 2 * n : 1) {
    most = n;
    st = judge_rewrites(t, step, n, &wrong);
    hlo_journal_rollback(t->m, mark);
  }
  if (hs_ok(st)) st = report_culprit(t, step, k, hs_buf_cstr(&why), wrong ? most : 0, mark);
  hs_free(wrong);
  hs_buf_free(&why);
  hs_status_drop(s);
  return st;
}

static hs_status search_pipeline(bisect_trial *t, pipeline_program *p) {
  u32 tried = 0, k = 0;
  pipeline_cursor at = {0};
  pass_run_options o = run_options(t);
  const pipeline_op *next = pipeline_next(p, &at, t->m, &o);
  for (; next; k++) {
    HS_TRY(hs_poll());
    const char *step = next->text;
    size_t mark = hlo_journal_mark(t->m);
    pass_log log = {0};
    repl_progress_text(t->c->out, "%s, pass %u of %u", step, next->number, p->npasses);
    hs_status s = pipeline_step(t->m, p, &at, &o, &log, &next);
    if (!hs_ok(s)) return report_failed_pass(t, step, k, mark, s);
    bool changed = log.v[0].changed;
    i64 rewrites = changed ? log.v[0].rewrites : 0;
    hs_vec_free(&log);
    if (!changed) continue;
    tried++;
    char *wrong;
    HS_TRY(bisect_judge(t, &wrong));
    if (!wrong) {
      bisect_accept(t);
      continue;
    }
    s = report_culprit(t, step, k, wrong, rewrites, mark);
    hs_free(wrong);
    return s;
  }
  return say_none(t, tried, k);
}

// Whether the arguments of the session have other types than the version's parameters, as after
// partitioning, and the condition runs it.
static bool cannot_run(const bisect_trial *t, const repl_version *v) {
  bool runs = t->kind == BISECT_MISMATCH || t->kind == BISECT_NAN || t->kind == BISECT_CRASH ||
              t->kind == BISECT_SLOWER;
  return runs && v->takes != t->c->mod->at->takes;
}

// Finds the first bad version on the path that `redo` follows, such as a state of a dump.
static hs_status search_history(bisect_trial *t, const repl_version *v) {
  const u32 from = v->number;
  repl_cmd *c = t->c;
  u32 tried = 0;
  if (c->mod->elided)
    repl_note(c->out,
              "constants are elided: the values used instead may differ between versions, and the "
              "results with them");
  for (v = v->redo; v && !cannot_run(t, v); v = v->redo) {
    HS_TRY(hs_poll());
    repl_progress_text(c->out, "@%u %s", v->number, v->label);
    hlo_module_free(t->m);
    t->m = NULL;
    HS_TRY(repl_runnable(c, v, true, &t->m));
    char *wrong;
    tried++;
    HS_TRY(bisect_judge(t, &wrong));
    if (!wrong) {
      bisect_accept(t);
      continue;
    }
    repl_progress_end(t->c->out);
    repl_json_str(c->doc, "pass", v->log.n ? v->log.v[0].pass : v->label);
    repl_json_int(c->doc, "version", v->number);
    repl_json_str(c->doc, "label", v->label);
    repl_json_str(c->doc, "wrong", wrong);
    hs_status s = hs_fail_subject(HS_E_DIFFER, v->label, "version @%u, %s, %s: %s", v->number,
                                  v->label, t->changes, wrong);
    hs_free(wrong);
    return hs_with_note(s, "@%u is still good; diff %u %u shows the changes", v->parent->number,
                        v->parent->number, v->number);
  }
  repl_progress_end(t->c->out);
  repl_json_null(c->doc, "pass");
  repl_json_int(c->doc, "checked", tried);
  if (!c->doc)
    repl_say(c->out, "no version %s: %u after @%u %s checked\n", t->changes, tried, from,
             tried == 1 ? "was" : "were");
  if (v)
    repl_note(c->out,
              "@%u takes other arguments, by %s: `goto %u; bisect history` searches from there",
              v->number, v->label, v->number);
  return HS_GOOD;
}

// ---- the command --------------------------------------------------------------------------------
#define CONDITIONS                                                \
  "conditions are mismatch, nan, crash, verify, slower, bigger, " \
  "or a script, such as ./good.sh"

// [passes|history] [PIPELINE] [mismatch|nan|crash|verify|slower|bigger|'SCRIPT ARGS']: a word with
// a space or a slash is a script.
static hs_status read_words(repl_cmd *c, bisect_trial *t, const char **text, bool *history) {
  bisect_condition("mismatch", &t->kind, &t->changes);
  *text = NULL;
  *history = false;
  bool passes = false;
  const char *condition = NULL;
  for (u32 k = 0; k < c->args.npos; k++) {
    const char *w = c->args.pos[k];
    if (k == 0 && (strcmp(w, "passes") == 0 || strcmp(w, "xla-passes") == 0)) {
      passes = true;
      continue;
    }
    if (k == 0 && strcmp(w, "history") == 0) {
      *history = true;
      continue;
    }
    bool script = strpbrk(w, "/ ") && !bisect_is_pipeline(c, w);
    if (script || bisect_condition(w, &t->kind, &t->changes)) {
      if (condition)
        return repl_usage_error(c, "one condition, not \"%s\" and \"%s\"", condition, w);
      condition = w;
    }
    if (script) t->kind = BISECT_SCRIPT, t->script = w, t->changes = "makes the script fail";
    if (condition == w) continue;
    if (*history)
      return repl_usage_error(c, "bisect history takes a condition, not the pipeline \"%s\"", w);
    else if (*text) return repl_usage_error(c, "one pipeline, not \"%s\" and \"%s\"", *text, w);
    else *text = w;
  }
  // The versions of a dump are states of a pipeline: those are searched unless one of our pipelines
  // is named.
  *history |= c->mod->imported && !*text && !passes;
  if (!*text) *text = "tuned";
  return HS_GOOD;
}

static hs_status first_verdict(bisect_trial *t) {
  if (t->kind == BISECT_MISMATCH || t->kind == BISECT_NAN) {
    hlo_eval_options eo = {.peer = &ffi_peer, .keep_denormals = t->c->s->set.keep_denormals};
    HS_TRY(hlo_eval_module(t->m, t->nargs, t->args, &eo, &t->want));
    if (!t->be) return HS_GOOD;
  }
  t->before = INFINITY;
  char *wrong;
  HS_TRY(bisect_judge(t, &wrong));
  bisect_accept(t);
  if (!wrong) return HS_GOOD;
  hs_status s = hs_fail(HS_E_DIFFER, "the module as loaded is already bad: %s", wrong);
  hs_free(wrong);
  return s;
}

static hs_status search(repl_cmd *c) {
  bisect_trial t = {.c = c, .tol = hlo_near(c->s->set.abs_error, c->s->set.rel_error)};
  const char *name = repl_flag(c, "--backend"), *text;
  bool history;
  i64 tries = 0;
  HS_TRY(read_words(c, &t, &text, &history));
  if (repl_flag(c, "--tries"))
    HS_TRY(repl_arg_int(c, "--tries", repl_flag(c, "--tries"), 1, 10000, &tries));
  t.tries = (u32)tries;
  HS_TRY(repl_arg_tolerance(c, &t.tol));
  bool xla = c->args.npos && strcmp(repl_arg(c, 0), "xla-passes") == 0;
  if (xla && (name || strcmp(text, "tuned") != 0))
    return hs_with_note(hs_fail(HS_E_USAGE,
                                "bisect xla-passes takes a condition, not the %s \"%s\"",
                                name ? "backend" : "pipeline", name ? name : text),
                        CONDITIONS);
  if (!xla && !name && (t.kind == BISECT_SLOWER || t.kind == BISECT_CRASH)) name = c->s->be->name;
  if (name && !(t.be = backend_find(name)))
    return repl_usage_error(c, "there is no backend %s", name);
  if (t.be && backend_has(t.be, BACKEND_EVALUATOR)) t.be = NULL;
  if (!xla && t.kind == BISECT_SLOWER && !t.be)
    return repl_usage_error(c, "the evaluator is not measured; use --backend=cpu");
  HS_TRY(repl_inputs(c));
  t.nargs = c->mod->ninputs;
  t.args = c->mod->inputs;
  if (xla) return bisect_xla(&t);
  t.keeps = t.kind == BISECT_SLOWER;
  pipeline_program *p = NULL;
  if (!history) {
    hs_status parsed = pipeline_parse(text, c->s->passes, &c->s->pipelines, &p);
    if (!hs_ok(parsed))
      return parsed.err->code != HS_E_NO_PASS ? parsed : hs_with_note(parsed, CONDITIONS);
  }
  const repl_version *base = repl_base(c->mod);
  if (history && !base->redo)
    return hs_with_note(
        hs_fail(HS_E_NO_HISTORY, "%s has no versions after @%u", c->m->name, base->number),
        "bisect PIPELINE searches a pipeline that was not run yet");
  hs_status s = repl_runnable(c, base, true, &t.m);
  if (hs_ok(s)) hlo_journal_enable(t.m);  // edits are rolled back when a pass is repeated
  if (hs_ok(s)) s = first_verdict(&t);
  if (hs_ok(s)) s = history ? search_history(&t, base) : search_pipeline(&t, p);
  repl_progress_end(c->out);
  hlo_literal_unref(t.want);
  bisect_forget(&t);
  hlo_module_free(t.m);
  pipeline_free(p);
  return s;
}

// What was found is the command's error; a report of the module tells it too.
hs_status cmd_bisect(repl_cmd *c) {
  repl_module *mod = c->mod;
  hs_status s = search(c);
  if (hs_ok(s) || s.err->code != HS_E_DIFFER) return s;
  hs_buf_printf(&mod->findings, "- bisect: %s\n", s.err->message);
  for (const char *line = s.err->note; line && *line;) {
    size_t n = strcspn(line, "\n");
    hs_buf_printf(&mod->findings, "  %.*s\n", (int)n, line);
    line += n + (line[n] == '\n');
  }
  return s;
}
