// cmd_bisect.c — bisect: which pass of a pipeline first makes the module bad, and which of its rewrites?
//
// The pipeline runs on a private copy of the module as loaded, pass by pass; after each pass that changed something the
// copy is judged by the condition asked for. The guilty pass is then repeated under a rewrite limit, found by halving (as
// LLVM's -opt-bisect-limit does by hand). A bad verdict is asked again, so that one flaky run accuses nobody. The
// session's module is not touched. `bisect xla-passes` (bisect_xla.c) asks the same of the plug-in's pipeline.
#include <math.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "backends/ffi.h"
#include "repl/bisect.h"

#define TRIES 3                        // a bad verdict must come in most of so many

static const struct { const char *name; bisect_kind kind; const char *changes; } conditions[] = {
    {"mismatch", BISECT_MISMATCH, "changes the result"}, {"nan", BISECT_NAN, "makes NaN"}, {"crash", BISECT_CRASH, "makes it fail"},
    {"verify", BISECT_INVALID, "leaves an invalid module"}, {"slower", BISECT_SLOWER, "makes it slower"}, {"bigger", BISECT_BIGGER, "makes it need more memory"}};

bool bisect_condition(const char *word, bisect_kind *kind, const char **changes) {
  for (size_t k = 0; k < HS_COUNT(conditions); k++) {
    if (strcmp(word, conditions[k].name) != 0) continue;
    *kind = conditions[k].kind;
    *changes = conditions[k].changes;
    return true;
  }
  return false;
}

// ---- verdicts -----------------------------------------------------------------------------------------------------------
hs_status bisect_time(const backend *be, backend_exe *exe, u32 nargs, hlo_literal *const *args, double *seconds) {
  backend_run_options o = {.warmup = 2, .min_runs = 5, .max_runs = 200, .min_seconds = 0.05, .max_seconds = 2};
  backend_result r = {0};
  hs_status st = be->run(exe, nargs, args, &o, &r);
  if (hs_ok(st)) *seconds = prof_summarize(r.timing.samples_ms, r.timing.runs).median * 1e-3;
  backend_result_free(&r);
  return st;
}

static hs_status run_copy(bisect_trial *t, hlo_literal **out) {
  const repl_session *s = t->c->s;
  if (!t->be) {
    hlo_eval_options eo = {.peer = &ffi_peer, .keep_denormals = s->set.keep_denormals};
    return hlo_eval_module(t->m, t->nargs, t->args, &eo, out);
  }
  backend_options bo = repl_backend_options(s);
  bo.backend_only = t->backend_only;
  if (t->kind != BISECT_SLOWER) return backend_run_once(t->be, t->m, &bo, t->nargs, t->args, out);
  backend_exe *exe;
  HS_TRY(t->be->compile(t->m, &bo, &exe));
  hs_status st = bisect_time(t->be, exe, t->nargs, t->args, &t->now);
  t->be->release(exe);
  return st;
}

static bool has_nan(const hlo_literal *l) {
  if (hlo_shape_is_tuple(l->shape)) {
    for (u32 k = 0; k < l->nchildren; k++)
      if (has_nan(l->children[k])) return true;
    return false;
  }
  hlo_dtype real = hlo_dtype_real_part(l->shape->dtype);
  if (!hlo_dtype_is_float(real) || !l->data) return false;
  size_t step = (size_t)hlo_dtype_storage(real), n = (size_t)l->shape->elements * (hlo_dtype_is_complex(l->shape->dtype) ? 2 : 1);
  for (size_t k = 0; k < n; k++) {
    double x = hlo_elem_to_f64(real, (const u8 *)l->data + k * step);
    if (x != x) return true;
  }
  return false;
}

// The script gets the module's file as its last argument: 0 is good, 125 cannot say (good), anything else is bad.
static hs_status ask_script(bisect_trial *t, char **wrong) {
  char path[] = "/tmp/hlosh-bisect-XXXXXX";
  int fd = mkstemp(path);
  if (fd < 0) return hs_fail_errno(HS_E_IO, path);
  close(fd);
  hlo_print_options o = hlo_print_full();
  hs_buf text = {0};
  hlo_print_module(&text, t->m, &o);
  hs_status s = repl_write_file(path, text.p, text.n, false);
  hs_buf_free(&text);
  if (hs_ok(s)) {
    char *line = hs_format("%s %s", t->script, path);
    int rc = system(line);
    hs_free(line);
    if (rc == -1) s = hs_fail_errno(HS_E_IO, t->script);
    else if (WIFSIGNALED(rc) && WTERMSIG(rc) == SIGINT) s = hs_fail(HS_E_INTERRUPTED, "interrupted");
    else if (!WIFEXITED(rc) || (WEXITSTATUS(rc) != 0 && WEXITSTATUS(rc) != 125))
      *wrong = WIFEXITED(rc) ? hs_format("the script's exit status is %d", WEXITSTATUS(rc)) : hs_format("the script died");
  }
  unlink(path);
  return s;
}

char *bisect_wrong_measure(const bisect_trial *t) {
  char a[32], b[32];
  if (t->kind == BISECT_BIGGER && t->now > t->before) return hs_format("peak %s -> %s", repl_bytes(a, t->before), repl_bytes(b, t->now));
  if (t->kind == BISECT_SLOWER && t->now > t->before * BISECT_MUCH_SLOWER) return hs_format("%s -> %s", repl_time(a, t->before), repl_time(b, t->now));
  return NULL;
}

char *bisect_wrong_result(const bisect_trial *t, const hlo_literal *got) {
  if (t->kind == BISECT_NAN) return has_nan(got) && !has_nan(t->want) ? hs_strdup("the result has NaN") : NULL;
  if (t->kind != BISECT_MISMATCH) return NULL;
  hs_status s = hlo_compare(t->want, got, t->tol);
  char *wrong = hs_ok(s) ? NULL : hs_strdup(s.err->message);
  hs_status_drop(s);
  return wrong;
}

static hs_status judge_once(bisect_trial *t, char **wrong) {
  hlo_literal *got = NULL;
  hs_status s = HS_GOOD;
  *wrong = NULL;
  switch (t->kind) {
  case BISECT_SCRIPT: return ask_script(t, wrong);
  case BISECT_INVALID: s = hlo_verify(t->m, NULL); break;
  case BISECT_BIGGER: {
    hlo_memory mem;
    HS_TRY(hlo_memory_estimate(t->m, false, &mem));
    t->now = (double)mem.peak_bytes;
    *wrong = bisect_wrong_measure(t);
    return HS_GOOD;
  }
  case BISECT_MISMATCH: case BISECT_NAN: case BISECT_CRASH: case BISECT_SLOWER: s = run_copy(t, &got); break;
  }
  if (hs_ok(s)) *wrong = t->kind == BISECT_SLOWER ? bisect_wrong_measure(t) : bisect_wrong_result(t, got);
  hlo_literal_unref(got);
  if (hs_ok(s) || s.err->code == HS_E_INTERRUPTED) return s;
  if (t->kind != BISECT_NAN && t->kind != BISECT_SLOWER) *wrong = hs_strdup(s.err->message);
  hs_status_drop(s);
  return HS_GOOD;
}

// Is the copy still good? A bad verdict stands when most of TRIES agree; module checks need no second opinion.
hs_status bisect_judge(bisect_trial *t, char **wrong) {
  HS_TRY(judge_once(t, wrong));
  if (!*wrong || t->kind == BISECT_INVALID || t->kind == BISECT_BIGGER) return HS_GOOD;
  u32 bad = 1;
  for (u32 k = 1; k < TRIES; k++) {
    char *again;
    hs_status s = judge_once(t, &again);
    bad += again != NULL;
    hs_free(again);
    if (!hs_ok(s)) {
      hs_free(*wrong);
      *wrong = NULL;
      return s;
    }
  }
  if (bad < TRIES) repl_note(t->c->out, "flaky: bad in %u of %u runs", bad, TRIES);
  if (2 * bad <= TRIES) hs_free(*wrong), *wrong = NULL;
  return HS_GOOD;
}

// ---- the search ---------------------------------------------------------------------------------------------------------
static pass_run_options run_options(const bisect_trial *t) {
  pass_run_options o = pass_run_default();
  o.measure = false;
  o.verify = t->kind != BISECT_INVALID;      // an invalid module is what is looked for
  o.own = &t->c->s->pipelines;
  return o;
}

// The least number of rewrites of `step` that gives a bad module; the copy is as before the step, then and now.
static hs_status find_rewrite(bisect_trial *t, const char *step, i64 rewrites, i64 *first_bad) {
  i64 good = 0, bad = rewrites;
  size_t mark = hlo_journal_mark(t->m);
  pass_run_options o = run_options(t);
  while (bad - good > 1) {
    i64 mid = good + (bad - good) / 2;
    char *wrong = NULL;
    o.rewrite_limit = mid;
    hs_status s = pipeline_run(t->m, step, &o, NULL);
    if (hs_ok(s)) s = bisect_judge(t, &wrong);
    hlo_journal_rollback(t->m, mark);
    if (wrong) bad = mid;
    else good = mid;
    hs_free(wrong);
    HS_TRY(s);
  }
  *first_bad = bad;
  return HS_GOOD;
}

static hs_status accuse(bisect_trial *t, const char *step, u32 k, const char *wrong, i64 rewrites, size_t mark) {
  repl_cmd *c = t->c;
  hlo_journal_rollback(t->m, mark);
  i64 first = rewrites;
  if (rewrites > 1) HS_TRY(find_rewrite(t, step, rewrites, &first));
  repl_json_str(c->doc, "pass", step);
  repl_json_int(c->doc, "position", k + 1);
  if (rewrites > 0) repl_json_int(c->doc, "rewrite", first), repl_json_int(c->doc, "rewrites", rewrites);
  hs_status s = hs_fail_subject(HS_E_DIFFER, step, "pass run %u, %s, %s: %s", k + 1, step, t->changes, wrong);
  if (rewrites > 0)
    s = hs_with_note(s, "its rewrite %lld of %lld does it; pass %s --limit=%lld is still right", (long long)first, (long long)rewrites, step, (long long)first - 1);
  return s;
}

static hs_status walk(bisect_trial *t, pipeline_program *p) {
  u32 tried = 0, k = 0;
  pipeline_cursor at = {0};
  pass_run_options o = run_options(t);
  const pipeline_op *next = pipeline_next(p, &at, t->m, &o);
  for (; next; k++) {
    HS_TRY(hs_poll());
    const char *step = next->text;
    size_t mark = hlo_journal_mark(t->m);
    pass_log log = {0};
    hs_status s = pipeline_step(t->m, p, &at, &o, &log, &next);
    bool changed = hs_ok(s) && log.v[0].changed;
    i64 rewrites = changed ? log.v[0].rewrites : 0;
    hs_vec_free(&log);
    HS_TRY(s);
    if (!changed) continue;
    tried++;
    char *wrong;
    HS_TRY(bisect_judge(t, &wrong));
    if (!wrong) {
      t->before = t->now;
      continue;
    }
    s = accuse(t, step, k, wrong, rewrites, mark);
    hs_free(wrong);
    return s;
  }
  repl_json_null(t->c->doc, "pass");
  if (!t->c->doc) repl_say(t->c->out, "no pass %s: %u of %u pass runs changed the module, each was checked\n", t->changes, tried, k);
  return HS_GOOD;
}

// ---- the command --------------------------------------------------------------------------------------------------------
// [passes] [PIPELINE] [mismatch|nan|crash|verify|slower|bigger|'SCRIPT ARGS']: a word with a space or a slash is a script.
static hs_status read_words(repl_cmd *c, bisect_trial *t, const char **text) {
  t->changes = conditions[0].changes;
  *text = NULL;
  for (u32 k = 0; k < c->args.npos; k++) {
    const char *w = c->args.pos[k];
    if (k == 0 && (strcmp(w, "passes") == 0 || strcmp(w, "xla-passes") == 0)) continue;
    if (bisect_condition(w, &t->kind, &t->changes)) continue;
    if (strpbrk(w, "/ ") && !strpbrk(w, ",({")) t->kind = BISECT_SCRIPT, t->script = w, t->changes = "makes the script fail";
    else if (*text) return repl_usage_error(c, "one pipeline, not \"%s\" and \"%s\"", *text, w);
    else *text = w;
  }
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
  t->before = t->now;              // 0 where nothing is measured
  if (!wrong) return HS_GOOD;
  hs_status s = hs_fail(HS_E_DIFFER, "the module as loaded is bad already: %s", wrong);
  hs_free(wrong);
  return s;
}

hs_status cmd_bisect(repl_cmd *c) {
  bisect_trial t = {.c = c, .tol = {c->s->set.abs_error, c->s->set.rel_error}};
  const char *name = repl_flag(c, "--backend"), *text;
  HS_TRY(read_words(c, &t, &text));
  if (repl_flag(c, "--abs")) HS_TRY(repl_arg_num(c, "--abs", repl_flag(c, "--abs"), &t.tol.abs));
  if (repl_flag(c, "--rel")) HS_TRY(repl_arg_num(c, "--rel", repl_flag(c, "--rel"), &t.tol.rel));
  bool xla = c->args.npos && strcmp(repl_arg(c, 0), "xla-passes") == 0;
  if (xla && (name || strcmp(text, "tuned") != 0)) return repl_usage_error(c, "bisect xla-passes takes a condition, and neither a pipeline nor a backend");
  if (!xla && !name && (t.kind == BISECT_SLOWER || t.kind == BISECT_CRASH)) name = c->s->be->name;
  if (name && strcmp(name, "interp") != 0 && !(t.be = backend_find(name))) return repl_usage_error(c, "there is no backend %s", name);
  if (!xla && t.kind == BISECT_SLOWER && !t.be) return repl_usage_error(c, "the evaluator's time means nothing; --backend=cpu");
  HS_TRY(repl_inputs(c));
  t.nargs = c->mod->ninputs;
  t.args = c->mod->inputs;
  if (xla) return bisect_xla(&t);
  pipeline_program *p;
  HS_TRY(pipeline_parse(text, &c->s->pipelines, &p));
  hs_status s = repl_runnable(c, repl_base(c->mod), true, &t.m);
  if (hs_ok(s)) hlo_journal_enable(t.m);      // edits are rolled back when a pass is repeated
  if (hs_ok(s)) s = first_verdict(&t);
  if (hs_ok(s)) s = walk(&t, p);
  hlo_literal_unref(t.want);
  hlo_module_free(t.m);
  pipeline_free(p);
  return s;
}
