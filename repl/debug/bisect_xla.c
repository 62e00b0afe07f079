// bisect_xla.c: bisect xla-passes. Which run of the plug-in's own passes makes the module bad
// first, and which of its rewrites?
//
// The plug-in compiles the current version and dumps the module after every run that changed it
// (xla_steps.h). These states are judged as `bisect` judges those of our pipelines: results on the
// evaluator, memory by the model, time by the plug-in's code generator alone. Results and scripts
// are searched by binary search, since the last state is known to be bad; for measures every state
// is judged, since any run may increase them. A state that cannot be judged is skipped.
//
// The pass found is confirmed by a compilation without it: is the plug-in's own result good then?
// When all states are good and the plug-in's result is not, the fault is in its code generator, and
// the passes are disabled one by one to find on which of them it depends. For passes that count
// their rewrites (--xla_fuel) the rewrite is found by binary search too.
#include <math.h>

#include "backends/ffi.h"
#include "repl/debug/say_diff.h"
#include "repl/debug/bisect.h"
#include "repl/shell/plugin.h"
#include "repl/debug/xla_steps.h"

#define MOST_LISTED 20  // instructions that differ, listed with the report
#define MOST_FUEL (1 << 20)
#define ALL_PASSES "*"

typedef enum verdict { NOT_ASKED, GOOD, BAD, UNKNOWN } verdict;

typedef struct xla_search {
  bisect_trial *t;
  repl_cmd *c;
  hlo_module *m;  // as given to the plug-in
  xla_steps x;
  HS_VEC(hlo_literal *) args;  // as the plug-in takes them: leaves without tokens; borrowed
  verdict *of;                 // by state
  char **why;                  // of BAD states
  u64 *print;                  // of states that were read: equal ones are judged once
  u32 measured;                // the last state that was measured
  // compiled for a device that is not installed: only the states can be judged
  bool no_device;
  // fingerprint of the optimized module, as last compiled; 0: not reported
  u64 own_print;
} xla_search;

// ---- values as the plug-in's states have them ---------------------------------------------------
static void flatten(hlo_literal *v, xla_search *h) {
  if (hlo_shape_is_tuple(v->shape))
    for (u32 k = 0; k < v->nchildren; k++) flatten(v->children[k], h);
  else if (v->shape->dtype != HLO_TOKEN) hs_vec_push(&h->args, v);
}

// The result of a state has the leaves of the original's in a flat tuple; for comparing both are
// made one.
static hlo_literal *flat(hlo_ctx *ctx, hlo_literal *v) {
  xla_search leaves = {0};
  flatten(v, &leaves);
  const hlo_shape **shapes = hs_calloc(leaves.args.n + 1, sizeof *shapes);
  for (size_t k = 0; k < leaves.args.n; k++)
    shapes[k] = leaves.args.v[k]->shape, hlo_literal_ref(leaves.args.v[k]);
  hlo_literal *out = hlo_literal_tuple(hlo_shape_tuple(ctx, (u32)leaves.args.n, shapes),
                                       (u32)leaves.args.n, leaves.args.v);
  hs_free(shapes);
  hs_vec_free(&leaves.args);
  return out;
}

static bool about_results(const bisect_trial *t) {
  return t->kind == BISECT_MISMATCH || t->kind == BISECT_NAN;
}
static bool about_measures(const bisect_trial *t) {
  return t->kind == BISECT_SLOWER || t->kind == BISECT_BIGGER;
}

// ---- judging the plug-in's own result -----------------------------------------------------------
// Compiles without the pass `without` (ALL_PASSES: without any pass) and with the process flags
// `flags`; NULL: with all passes, without flags.
static hs_status compile(xla_search *h, const char *without, const char *flags, backend_exe **out) {
  backend_options o = repl_backend_options(h->c->s);
  backend_flag *v = hs_calloc(o.nflags + 2u, sizeof *v);
  bool all = without && strcmp(without, ALL_PASSES) == 0;
  if (all) without = NULL;
  const char *had = repl_disabled_passes(h->c->s);
  char *list = hs_format("%s%s%s", had, *had && without ? "," : "", without ? without : "");
  u32 n = 0;
  for (u32 k = 0; k < o.nflags; k++)
    if (strcmp(o.flags[k].name, "xla_disable_hlo_passes") != 0) v[n++] = o.flags[k];
  if (all) v[n++] = (backend_flag){"xla_disable_all_hlo_passes", "true"};
  if (*list) v[n++] = (backend_flag){"xla_disable_hlo_passes", list};
  o.flags = v;
  o.nflags = n;
  o.process_flags = flags;
  hs_status s = repl_xla_backend(h->c->s)->compile(h->m, &o, out);
  hs_free(list);
  hs_free(v);
  return s;
}

// t->before is what a measure is held against. *wrong: NULL when it is good.
static hs_status judge_own(xla_search *h, backend_exe *exe, char **wrong) {
  bisect_trial *t = h->t;
  const backend *be = repl_xla_backend(h->c->s);
  *wrong = NULL;
  if (t->kind == BISECT_BIGGER) {
    const hlo_module *made = pjrt_compiled_result(exe)->optimized;
    hlo_memory mem;
    if (!made)
      return hs_fail(HS_E_UNSUPPORTED, "this plug-in does not return the optimized module");
    HS_TRY(hlo_memory_estimate(made, false, &mem));
    t->now = (double)mem.peak_bytes;
  } else if (t->kind == BISECT_SLOWER)
    HS_TRY(bisect_time(be, exe, h->c->mod->ninputs, h->c->mod->inputs, &t->now));
  if (about_measures(t)) {
    *wrong = bisect_wrong_measure(t);
    return HS_GOOD;
  }
  backend_result r = {0};
  HS_TRY(be->run(exe, h->c->mod->ninputs, h->c->mod->inputs, NULL, &r));
  hlo_literal *got = flat(h->c->s->ctx, r.outputs);
  *wrong = bisect_wrong_result(t, got);
  hlo_literal_unref(got);
  backend_result_free(&r);
  return HS_GOOD;
}

// What becomes of the plug-in's own result when a pass is left out, or its rewrites are counted:
// GOOD, BAD, or UNKNOWN with the reason when the compilation or the run fails.
static hs_status try_own(xla_search *h, const char *without, const char *flags, verdict *out,
                         char **why) {
  backend_exe *exe = NULL;
  *why = NULL;
  hs_status s = compile(h, without, flags, &exe);
  const hlo_module *made = exe ? pjrt_compiled_result(exe)->optimized : NULL;
  h->own_print = made ? hlo_fingerprint(made) : 0;
  if (hs_ok(s)) s = judge_own(h, exe, why);
  if (exe) repl_xla_backend(h->c->s)->release(exe);
  *out = *why ? BAD : GOOD;
  if (hs_ok(s) || hs_is_stop(s)) return s;
  *out = UNKNOWN;
  *why = hs_strdup(s.err->message);
  hs_status_drop(s);
  return HS_GOOD;
}

// ---- judging states -----------------------------------------------------------------------------
static hs_status judge_result(xla_search *h, const hlo_module *m, char **wrong) {
  const hlo_eval_options eo = {.peer = &ffi_peer, .keep_denormals = h->c->s->set.keep_denormals};
  hlo_module *whole;
  hlo_literal *got = NULL, *leaves = NULL;
  HS_TRY(pjrt_compiled_whole(h->x.exe, m, &whole));
  hs_status s = hlo_eval_module(whole, h->t->nargs, h->t->args, &eo, &got);
  if (hs_ok(s)) leaves = flat(h->c->s->ctx, got), *wrong = bisect_wrong_result(h->t, leaves);
  hlo_literal_unref(leaves);
  hlo_literal_unref(got);
  hlo_module_free(whole);
  return s;
}

static hs_status judge_module(xla_search *h, hlo_module *m, char **wrong) {
  if (about_results(h->t)) return judge_result(h, m, wrong);
  h->t->m = m;
  hs_status s = bisect_judge(h->t, wrong);
  h->t->m = NULL;
  return s;
}

// Takes over the verdict on an equal state: a pipeline starts from the state that its predecessor
// left, and passes may undo each other. Not for scripts, which may look at more than the module.
static bool judged_before(xla_search *h, u32 state) {
  if (h->t->kind == BISECT_SCRIPT) return false;
  if (about_measures(h->t)) {
    if (h->of[h->measured] != GOOD || h->print[h->measured] != h->print[state]) return false;
    h->t->now = h->t->before;
    h->of[state] = GOOD;
    return true;
  }
  for (u32 k = 0; k < xla_steps_states(&h->x); k++) {
    if (k == state || h->print[k] != h->print[state] || (h->of[k] != GOOD && h->of[k] != BAD))
      continue;
    h->of[state] = h->of[k];
    h->why[state] = h->why[k] ? hs_strdup(h->why[k]) : NULL;
    return true;
  }
  return false;
}

static hs_status ask(xla_search *h, u32 state) {
  if (h->of[state] != NOT_ASKED) return HS_GOOD;
  HS_TRY(hs_poll());
  hlo_module *m;
  hs_status s = xla_steps_read(h->c, &h->x, state, &m);
  if (hs_ok(s)) h->print[state] = hlo_fingerprint(m);
  if (hs_ok(s) && judged_before(h, state)) {
    hlo_module_free(m);
    return s;
  }
  if (hs_ok(s)) s = judge_module(h, m, &h->why[state]);
  h->of[state] = !hs_ok(s) ? UNKNOWN : h->why[state] ? BAD : GOOD;
  hlo_module_free(m);
  if (hs_ok(s) || hs_is_stop(s)) return s;
  repl_note(h->c->out, "state %u cannot be judged: %s", state, s.err->message);
  hs_status_drop(s);
  return HS_GOOD;
}

// Judges the state nearest to the middle of `good` and `bad` that can be judged; *at is `good` when
// none between them can.
static hs_status judge_between(xla_search *h, u32 good, u32 bad, u32 *at) {
  u32 mid = good + (bad - good) / 2;
  for (u32 away = 0; away < bad - good; away++)
    for (u32 side = 0; side < 2; side++) {
      if (side ? away >= mid - good : mid + away >= bad) continue;
      *at = side ? mid - away : mid + away;
      HS_TRY(ask(h, *at));
      if (h->of[*at] != UNKNOWN) return HS_GOOD;
    }
  *at = good;
  return HS_GOOD;
}

// Narrows a good state and a bad one after it down to a pair with no state, or only unknown ones,
// between them.
static hs_status halve(xla_search *h, u32 *good, u32 *bad) {
  while (*bad - *good > 1) {
    u32 at;
    HS_TRY(judge_between(h, *good, *bad, &at));
    if (at == *good) return HS_GOOD;
    if (h->of[at] == GOOD) *good = at;
    else *bad = at;
  }
  return HS_GOOD;
}

// The first run whose state is worse than the one before it. States that cannot be measured are
// passed over.
static hs_status search_measures(xla_search *h, u32 *good, u32 *bad) {
  bisect_trial *t = h->t;
  bool any = false;
  t->before = INFINITY;
  *bad = XLA_NO_STATE;
  if (t->kind == BISECT_SLOWER) t->be = backend_with(BACKEND_PLUGIN), t->backend_only = true;
  for (u32 k = 0; k < xla_steps_states(&h->x); k++) {
    t->now = NAN;
    HS_TRY(ask(h, k));
    if (h->of[k] == BAD && any) {
      *bad = k;
      return HS_GOOD;
    }
    if (h->of[k] == UNKNOWN || isnan(t->now)) continue;
    t->before = t->now;
    *good = h->measured = k;
    any = true;
  }
  return any ? HS_GOOD : hs_fail(HS_E_UNSUPPORTED, "no state of XLA's pipeline could be measured");
}

// ---- the report ---------------------------------------------------------------------------------
// The innermost run between the two states.
static size_t run_between(const xla_steps *x, u32 good, u32 bad) {
  size_t best = x->log.n;
  for (size_t k = 0; k < x->log.n; k++)
    if (x->from[k] <= good && x->to[k] >= bad &&
        (best == x->log.n || x->log.v[k].depth > x->log.v[best].depth))
      best = k;
  return best;
}

static void say_states(xla_search *h, u32 good, u32 bad) {
  hlo_module *a, *b;
  hs_status s = xla_steps_read(h->c, &h->x, good, &a), r = xla_steps_read(h->c, &h->x, bad, &b);
  if (hs_ok(s) && hs_ok(r))
    repl_say_graph_diff(h->c, repl_json_object(h->c->doc, "diff"), "before", a, "after", b,
                        MOST_LISTED);
  hs_status_drop(s);
  hs_status_drop(r);
  hlo_module_free(a);
  hlo_module_free(b);
}

// The reverse check: the plug-in's own result without the pass. *worth: whether the pass makes a
// difference to it.
static hs_status try_without(xla_search *h, const char *pass, bool *worth, hs_status *told) {
  static const char *const words[] = {[GOOD] = "good", [BAD] = "bad", [UNKNOWN] = "fails"};
  verdict v;
  char *why;
  *worth = false;
  HS_TRY(try_own(h, pass, NULL, &v, &why));
  repl_json_str(h->c->doc, "without_it", words[v]);
  *worth = v == GOOD;
  if (v == GOOD)
    *told = hs_with_note(*told, "without it (xla disable %s) XLA's own result is good", pass);
  else
    *told = hs_with_note(*told, "without it (xla disable %s) XLA%s: %s", pass,
                         v == BAD ? "'s own result is also bad" : " fails", why);
  hs_free(why);
  return HS_GOOD;
}

// Measures: with the pass and without it, one after the other.
static hs_status measure_without(xla_search *h, const char *pass, bool *worth, hs_status *told) {
  bisect_trial *t = h->t;
  char a[32], b[32], *why;
  verdict v;
  *worth = false;
  t->before = INFINITY;
  HS_TRY(judge_own(h, h->x.exe, &why));
  double with = t->now;
  HS_TRY(try_own(h, pass, NULL, &v, &why));
  if (v == UNKNOWN)
    *told = hs_with_note(*told, "without it (xla disable %s) XLA fails: %s", pass, why);
  hs_free(why);
  if (v == UNKNOWN) return HS_GOOD;
  bool time = t->kind == BISECT_SLOWER;
  *told = hs_with_note(*told, "XLA's own program: %s; without it (xla disable %s): %s",
                       time ? repl_time(a, with) : repl_bytes(a, with), pass,
                       time ? repl_time(b, t->now) : repl_bytes(b, t->now));
  repl_json_num(h->c->doc, "with_it", with);
  repl_json_num(h->c->doc, "without_it", t->now);
  t->before = t->now;
  t->now = with;
  why = bisect_wrong_measure(t);
  *worth = why != NULL;
  hs_free(why);
  return HS_GOOD;
}

static hs_status try_fuel(xla_search *h, const char *pass, i64 fuel, verdict *v) {
  char *flags = hs_format("--xla_fuel=%s=%lld", pass, (long long)fuel), *why;
  hs_status s = try_own(h, NULL, flags, v, &why);
  hs_free(flags);
  hs_free(why);
  return s;
}

// Halves the rewrites of a pass that counts them. 0: it does not, or the plug-in fails when they
// are limited.
static hs_status find_rewrite(xla_search *h, const char *pass, i64 *rewrite) {
  const hlo_module *made = pjrt_compiled_result(h->x.exe)->optimized;
  i64 good = 0, bad = 1;
  verdict v;
  *rewrite = 0;
  HS_TRY(try_fuel(h, pass, 0, &v));
  if (v != GOOD || !made || h->own_print == hlo_fingerprint(made)) return HS_GOOD;
  for (;; good = bad, bad *= 2) {
    if (bad > MOST_FUEL) return HS_GOOD;
    HS_TRY(try_fuel(h, pass, bad, &v));
    if (v == UNKNOWN) return HS_GOOD;
    if (v == BAD) break;
  }
  while (bad - good > 1) {
    i64 mid = good + (bad - good) / 2;
    HS_TRY(hs_poll());
    HS_TRY(try_fuel(h, pass, mid, &v));
    if (v == UNKNOWN) return HS_GOOD;
    if (v == BAD) bad = mid;
    else good = mid;
  }
  *rewrite = bad;
  return HS_GOOD;
}

static hs_status report_culprit(xla_search *h, u32 good, u32 bad) {
  repl_cmd *c = h->c;
  size_t k = run_between(&h->x, good, bad);
  if (k == h->x.log.n)
    return hs_fail(HS_E_DIFFER, "the step from %s to %s %s: %s", h->x.dumps->steps.v[good].label,
                   h->x.dumps->steps.v[bad].label, h->t->changes, h->why[bad]);
  const pjrt_step *r = &h->x.log.v[k];
  repl_json_str(c->doc, "pass", r->pass);
  repl_json_str(c->doc, "pipeline", r->pipeline);
  repl_json_int(c->doc, "position", (i64)k + 1);
  repl_json_str(c->doc, "why", h->why[bad]);
  say_states(h, good, bad);
  hs_status s = hs_fail_subject(HS_E_DIFFER, r->pass, "XLA's pass run %zu, %s in %s, %s: %s", k + 1,
                                r->pass, r->pipeline, h->t->changes, h->why[bad]);
  bool worth = false;
  i64 rewrite = 0;
  hs_status tried = h->no_device           ? HS_GOOD
                    : about_results(h->t)  ? try_without(h, r->pass, &worth, &s)
                    : about_measures(h->t) ? measure_without(h, r->pass, &worth, &s)
                                           : HS_GOOD;
  if (hs_ok(tried) && worth) tried = find_rewrite(h, r->pass, &rewrite);
  if (rewrite) {
    repl_json_int(c->doc, "rewrite", rewrite);
    s = hs_with_note(s, "its rewrite %lld is the cause; with --xla_fuel=%s=%lld the result is good",
                     (long long)rewrite, r->pass, (long long)rewrite - 1);
  }
  if (hs_ok(tried)) return s;
  hs_status_drop(s);
  return tried;
}

// All states are good, or none was written: the passes that changed something are left out one by
// one.
static hs_status leave_out(xla_search *h, const char *whom, const char *wrong) {
  xla_steps *x = &h->x;
  hs_status s = hs_fail(HS_E_DIFFER, "%s %s: %s", whom, h->t->changes, wrong);
  repl_json_null(h->c->doc, "pass");
  for (size_t k = 0; k < x->log.n; k++) {
    const char *pass = x->log.v[k].pass;
    bool seen = !x->log.v[k].changed;
    for (size_t j = 0; j < k && !seen; j++)
      seen = x->log.v[j].changed && strcmp(x->log.v[j].pass, pass) == 0;
    if (seen) continue;
    verdict v;
    char *why;
    hs_status st = hs_poll();
    if (hs_ok(st)) st = try_own(h, pass, NULL, &v, &why);
    if (!hs_ok(st)) {
      hs_status_drop(s);
      return st;
    }
    hs_free(why);
    if (v != GOOD) continue;
    repl_json_str(h->c->doc, "good_without", pass);
    return hs_with_note(s, "without %s (xla disable %s) XLA's own result is good", pass, pass);
  }
  verdict v;
  char *why;
  hs_status st = try_own(h, ALL_PASSES, NULL, &v, &why);
  if (!hs_ok(st)) {
    hs_status_drop(s);
    return st;
  }
  s = hs_with_note(
      s,
      "disabling any one pass that changed the module does not make it good; without any pass (set "
      "xla.xla_disable_all_hlo_passes true) %s%s",
      v == GOOD  ? "it is"
      : v == BAD ? "it is also bad: "
                 : "XLA fails: ",
      why ? why : "");
  hs_free(why);
  return s;
}

// ---- the command --------------------------------------------------------------------------------
static hs_status nothing(xla_search *h, const char *why) {
  repl_json_null(h->c->doc, "pass");
  if (!h->c->doc) repl_say(h->c->out, "no pass of XLA's %s: %s\n", h->t->changes, why);
  return HS_GOOD;
}

// The pass after which XLA's own verifier refused the module ("Failed after PASS"), as a copy in
// scratch memory; NULL for none.
static const char *refused_after(const xla_search *h, const char *message) {
  static const char words[] = "Failed after ";
  const char *at = strstr(message, words);
  return at ? hs_arena_strndup(h->c->scratch, at + strlen(words),
                               strcspn(at + strlen(words), " \n"))
            : NULL;
}

// The compilation failed: the log ends in the pass that did it, or XLA's verifier names the one
// before.
static hs_status name_failure(xla_search *h, hs_status failed) {
  const pjrt_steps *log = &h->x.log;
  const char *after = log->open ? NULL : refused_after(h, failed.err->message),
             *pass = log->open ? log->open : after;
  if (!log->n && !log->open) return failed;
  repl_json_str(h->c->doc, "pass", pass);
  if (log->open)
    repl_json_str(h->c->doc, "pipeline", log->open_pipeline),
        repl_json_int(h->c->doc, "position", (i64)log->n + 1);
  hs_status s =
      log->open ? hs_fail_subject(HS_E_DIFFER, pass, "XLA's pass run %zu, %s in %s, fails: %s",
                                  log->n + 1, pass, log->open_pipeline, failed.err->message)
      : after ? hs_fail_subject(HS_E_DIFFER, pass, "XLA's verifier rejects the module after %s: %s",
                                pass, failed.err->message)
              : hs_fail(HS_E_DIFFER, "all %zu pass runs of XLA succeed; then it fails: %s", log->n,
                        failed.err->message);
  hs_status_drop(failed);
  if (!pass) return s;
  backend_exe *exe = NULL;
  hs_status without = compile(h, pass, NULL, &exe);
  s = hs_with_note(s,
                   hs_ok(without) ? "without it (xla disable %s) XLA compiles the module%s"
                                  : "without it (xla disable %s) XLA also fails: %s",
                   pass, hs_ok(without) ? "" : without.err->message);
  hs_status_drop(without);
  if (exe) repl_xla_backend(h->c->s)->release(exe);
  return s;
}

static hs_status search(xla_search *h) {
  bisect_trial *t = h->t;
  u32 good = 0, bad = xla_steps_states(&h->x);
  char *wrong = NULL;
  hs_status s = HS_GOOD;
  if (about_results(t) || t->kind == BISECT_CRASH) {
    s = judge_own(h, h->x.exe, &wrong);
    h->no_device = !hs_ok(s) && s.err->code == HS_E_UNSUPPORTED && about_results(t) && bad;
    if (h->no_device) {
      repl_note(h->c->out, "XLA's own result is not known: %s", s.err->message);
      hs_status_drop(s);
      s = HS_GOOD;
    }
    if (t->kind == BISECT_CRASH)
      return hs_ok(s)
                 ? nothing(h, "it compiles and runs")
                 : hs_chain(hs_fail(HS_E_DIFFER, "XLA compiles it; the program fails when it runs"),
                            s);
    if (hs_ok(s) && !wrong && !h->no_device) return nothing(h, "XLA's own result is good");
    if (hs_ok(s) && !bad) s = leave_out(h, "XLA", wrong);
    if (!hs_ok(s)) {
      hs_free(wrong);
      return s;
    }
  }
  if (!bad) return hs_fail(HS_E_UNSUPPORTED, "this plug-in does not dump its modules");
  if (about_measures(t)) {
    HS_TRY(search_measures(h, &good, &bad));
    return bad == XLA_NO_STATE ? nothing(h, "each state was measured")
                               : report_culprit(h, good, bad);
  }
  bad--;
  // States at both ends that cannot be judged are passed over.
  for (s = ask(h, good); hs_ok(s) && h->of[good] == UNKNOWN && good < bad; s = ask(h, good)) good++;
  if (hs_ok(s))
    for (s = ask(h, bad); hs_ok(s) && h->of[bad] == UNKNOWN && bad > good; s = ask(h, bad)) bad--;
  if (hs_ok(s) && h->of[good] == BAD)
    s = hs_fail(HS_E_DIFFER, "the module is bad before XLA's first pass: %s", h->why[good]);
  else if (hs_ok(s) && h->of[bad] == BAD) {
    s = halve(h, &good, &bad);
    if (hs_ok(s)) s = report_culprit(h, good, bad);
  } else if (hs_ok(s))
    s = wrong ? leave_out(h, "all states of XLA's passes are good, but the code made of the last",
                          wrong)
              : nothing(h, "the last state is good");
  hs_free(wrong);
  return s;
}

hs_status bisect_xla(bisect_trial *t) {
  xla_search h = {.t = t, .c = t->c};
  HS_TRY(repl_runnable(t->c, NULL, true, &h.m));
  hs_status s = HS_GOOD;
  if (about_results(t)) {
    hlo_eval_options eo = {.peer = &ffi_peer, .keep_denormals = t->c->s->set.keep_denormals};
    hlo_literal *want = NULL;
    s = hlo_eval_module(h.m, t->nargs, t->args, &eo, &want);
    if (hs_ok(s)) t->want = flat(t->c->s->ctx, want);
    hlo_literal_unref(want);
  }
  for (u32 k = 0; k < t->nargs; k++) flatten(t->args[k], &h);
  t->nargs = (u32)h.args.n;
  t->args = h.args.v;
  if (hs_ok(s)) {
    s = xla_steps_make(t->c, h.m, NULL, false, &h.x);
    if (!hs_ok(s) && !hs_is_stop(s)) s = name_failure(&h, s);
    else if (hs_ok(s)) {
      u32 n = xla_steps_states(&h.x);
      h.of = HS_NEW_ARRAY(&h.x.arena, verdict, n + 1);
      h.why = HS_NEW_ARRAY(&h.x.arena, char *, n + 1);
      h.print = HS_NEW_ARRAY(&h.x.arena, u64, n + 1);
      s = search(&h);
      for (u32 k = 0; k < n; k++) hs_free(h.why[k]);
    }
    xla_steps_free(&h.x);
  }
  if (hs_ok(s)) repl_say_plugin_line(t->c, repl_xla_backend(t->c->s), NULL);
  hs_vec_free(&h.args);
  hlo_literal_unref(t->want);
  hlo_module_free(h.m);
  return s;
}
