// judge.c: is a module good? The verdicts that the searches of `bisect` consist of, through our
// pipelines (cmd/bisect.c) and through the plug-in's (bisect_xla.c). See bisect.h.
//
// A condition is judged by one execution, one estimate, one verification or one run of the user's
// script. A bad verdict is repeated and the majority decides, so that one flaky run does not count;
// --tries repeats good verdicts too, for intermittent faults.
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "backends/ffi.h"
#include "core/analysis/agree.h"
#include "repl/debug/bisect.h"

#define RETRIES 3  // a bad verdict must be given by more than half of this many runs

static const struct {
  const char *name;
  bisect_kind kind;
  const char *changes;
} conditions[] = {{"mismatch", BISECT_MISMATCH, "changes the result"},
                  {"nan", BISECT_NAN, "makes NaN"},
                  {"crash", BISECT_CRASH, "makes it fail"},
                  {"verify", BISECT_INVALID, "leaves an invalid module"},
                  {"slower", BISECT_SLOWER, "makes it slower"},
                  {"bigger", BISECT_BIGGER, "makes it need more memory"}};

bool bisect_condition(const char *word, bisect_kind *kind, const char **changes) {
  for (size_t k = 0; k < HS_COUNT(conditions); k++) {
    if (strcmp(word, conditions[k].name) != 0) continue;
    *kind = conditions[k].kind;
    *changes = conditions[k].changes;
    return true;
  }
  return false;
}

const char *bisect_condition_text(bisect_kind kind) {
  for (size_t k = 0; k < HS_COUNT(conditions); k++)
    if (conditions[k].kind == kind) return conditions[k].name;
  return NULL;
}

bool bisect_is_pipeline(const repl_cmd *c, const char *w) {
  const char *name = hs_arena_strndup(c->scratch, w, strcspn(w, " ,({"));
  bool known = pass_find(c->s->passes, name) || pipeline_find(c->s->passes, name) ||
               strcmp(name, "fix") == 0;
  for (size_t k = 0; k < c->s->pipelines.n; k++)
    known |= strcmp(c->s->pipelines.v[k].name, name) == 0;
  return known;
}

// share: of the time and the runs that a measurement of its own takes.
static hs_status time_runs(const backend *be, backend_exe *exe, u32 nargs, hlo_literal *const *args,
                           double share, double *seconds) {
  backend_run_options o = {.warmup = (u32)ceil(2 * share),
                           .min_runs = (u32)ceil(5 * share),
                           .max_runs = (u32)(200 * share),
                           .min_seconds = 0.05 * share,
                           .max_seconds = 2 * share};
  backend_result r = {0};
  hs_status st = be->run(exe, nargs, args, &o, &r);
  if (hs_ok(st)) *seconds = prof_summarize(r.timing.samples_ms, r.timing.runs).median * 1e-3;
  backend_result_free(&r);
  return st;
}

hs_status bisect_time(const backend *be, backend_exe *exe, u32 nargs, hlo_literal *const *args,
                      double *seconds) {
  return time_runs(be, exe, nargs, args, 1, seconds);
}

// Both in turns, so that what else the machine does meets both: the least of the medians, since
// others only make a run longer.
static hs_status time_in_turns(bisect_trial *t, backend_exe *exe) {
  enum { TURNS = 5 };
  t->before = t->now = INFINITY;
  for (u32 k = 0; k < TURNS; k++) {
    double before, now;
    HS_TRY(time_runs(t->rival_be, t->rival, t->nargs, t->args, 1.0 / TURNS, &before));
    HS_TRY(time_runs(t->be, exe, t->nargs, t->args, 1.0 / TURNS, &now));
    t->before = fmin(t->before, before);
    t->now = fmin(t->now, now);
  }
  return HS_GOOD;
}

static hs_status run_copy(bisect_trial *t, hlo_literal **out) {
  const repl_session *s = t->c->s;
  if (!t->be) {
    hlo_eval_options eo = {.peer = &ffi_peer, .keep_denormals = s->set.keep_denormals};
    return hlo_eval_module(t->m, t->nargs, t->args, &eo, out);
  }
  backend_options bo = repl_backend_options(s);
  bo.backend_only = t->backend_only;
  if (t->kind != BISECT_SLOWER && !t->compile_only)
    return backend_run_once(t->be, t->m, &bo, t->nargs, t->args, out);
  backend_exe *exe;
  HS_TRY(t->be->compile(t->m, &bo, &exe));
  hs_status st = HS_GOOD;
  if (t->rival) st = time_in_turns(t, exe);
  else if (!t->compile_only) st = bisect_time(t->be, exe, t->nargs, t->args, &t->now);
  if (!t->keeps || !hs_ok(st)) return t->be->release(exe), st;
  if (t->timed) t->be->release(t->timed);
  t->timed = exe;
  return st;
}

void bisect_accept(bisect_trial *t) {
  t->before = t->now;  // 0 where nothing is measured
  if (!t->timed) return;
  if (t->rival) t->rival_be->release(t->rival);
  t->rival_be = t->be, t->rival = t->timed;
  t->timed = NULL;
}

void bisect_forget(bisect_trial *t) {
  if (t->timed) t->be->release(t->timed);
  if (t->rival) t->rival_be->release(t->rival);
  t->timed = t->rival = NULL;
}

bool bisect_has_nan(const hlo_literal *l) {
  if (hlo_shape_is_tuple(l->shape)) {
    for (u32 k = 0; k < l->nchildren; k++)
      if (bisect_has_nan(l->children[k])) return true;
    return false;
  }
  hlo_dtype real = hlo_dtype_real_part(l->shape->dtype);
  if (!hlo_dtype_is_float(real) || !l->data) return false;
  size_t step = (size_t)hlo_dtype_storage(real),
         n = (size_t)l->shape->elements * (hlo_dtype_is_complex(l->shape->dtype) ? 2 : 1);
  for (size_t k = 0; k < n; k++) {
    double x = hlo_elem_to_f64(real, (const u8 *)l->data + k * step);
    if (x != x) return true;
  }
  return false;
}

// The script gets the module's file as its last argument: 0 is good, 125 cannot say (good),
// anything else is bad. What it prints goes to standard error: standard output is the shell's own.
static hs_status run_script(const char *script, const char *path, char **wrong) {
  char *line = hs_format("{ %s '%s'\n} >&2", script, path);
  fflush(NULL);
  int rc = system(line);
  hs_free(line);
  if (rc == -1) return hs_fail_errno(HS_E_IO, script);
  int code = WIFEXITED(rc) ? WEXITSTATUS(rc) : 0;
  if ((WIFSIGNALED(rc) && WTERMSIG(rc) == SIGINT) || code == 128 + SIGINT)
    return hs_fail(HS_E_INTERRUPTED, "interrupted");
  if (code == 126 || code == 127) return hs_fail(HS_E_USAGE, "the shell cannot run: %s", script);
  if (!WIFEXITED(rc)) *wrong = hs_format("the script died of signal %d", WTERMSIG(rc));
  else if (code > 128) *wrong = hs_format("the script died of signal %d", code - 128);
  else if (code && code != 125) *wrong = hs_format("the script's exit status is %d", code);
  return HS_GOOD;
}

static hs_status ask_script(bisect_trial *t, char **wrong) {
  char *path;
  HS_TRY(repl_temp_file("bisect", &path));
  hlo_print_options o = hlo_print_full();
  hs_buf text = {0};
  hlo_print_module(&text, t->m, &o);
  hs_status s = hs_write_file(path, text.p, text.n, false);
  hs_buf_free(&text);
  if (hs_ok(s)) s = run_script(t->script, path, wrong);
  unlink(path);
  hs_free(path);
  return s;
}

char *bisect_wrong_measure(const bisect_trial *t) {
  char a[32], b[32];
  if (t->kind == BISECT_BIGGER && t->now > t->before)
    return hs_format("peak %s -> %s", repl_bytes(a, t->before), repl_bytes(b, t->now));
  if (t->kind == BISECT_SLOWER && t->now > t->before * fmax(t->much, BISECT_MUCH_SLOWER))
    return hs_format("%s -> %s", repl_time(a, t->before), repl_time(b, t->now));
  return NULL;
}

char *bisect_wrong_result(const bisect_trial *t, const hlo_literal *got) {
  if (t->kind == BISECT_NAN)
    return bisect_has_nan(got) && !(t->want && bisect_has_nan(t->want))
               ? hs_strdup("the result has NaN")
               : NULL;
  if (t->kind != BISECT_MISMATCH) return NULL;
  const hlo_module *m = t->m ? t->m : t->c->m;  // a plug-in's passes leave none to judge
  hs_status s = hlo_agree(m->entry->root, t->want, got, t->tol);
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
  case BISECT_MISMATCH:
  case BISECT_NAN:
  case BISECT_CRASH:
  case BISECT_SLOWER: s = run_copy(t, &got); break;
  }
  if (hs_ok(s))
    *wrong = t->kind == BISECT_SLOWER ? bisect_wrong_measure(t) : bisect_wrong_result(t, got);
  hlo_literal_unref(got);
  if (hs_ok(s) || hs_is_stop(s)) return s;
  if (t->kind != BISECT_NAN && t->kind != BISECT_SLOWER && !t->results_only)
    *wrong = hs_strdup(s.err->message);
  hs_status_drop(s);
  return HS_GOOD;
}

// A bad verdict must be given by most of RETRIES runs; with --tries=N each of N runs must be good.
hs_status bisect_judge(bisect_trial *t, char **wrong) {
  HS_TRY(judge_once(t, wrong));
  t->unanimous = true;
  bool clear = t->kind == BISECT_SLOWER && *wrong && t->now > t->before * BISECT_CLEARLY_SLOWER;
  if (t->kind == BISECT_INVALID || t->kind == BISECT_BIGGER || clear ||
      (*wrong ? t->tries != 0 || t->steady : t->tries <= 1))
    return HS_GOOD;
  u32 tries = t->tries ? t->tries : RETRIES, bad = *wrong != NULL, asked = 1;
  for (; asked < tries && !(t->tries && bad); asked++) {
    char *again;
    hs_status s = judge_once(t, &again);
    bad += again != NULL;
    if (again && !*wrong) *wrong = again;
    else hs_free(again);
    if (!hs_ok(s)) {
      hs_free(*wrong);
      *wrong = NULL;
      return s;
    }
  }
  t->unanimous = !bad || bad == asked;
  if (bad && bad < asked) repl_note(t->c->out, "flaky: bad in %u of %u runs", bad, asked);
  if (!t->tries && 2 * bad <= asked) hs_free(*wrong), *wrong = NULL;
  return HS_GOOD;
}
