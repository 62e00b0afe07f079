// shrink_judge.c: whether a case has the fault of the search. See shrink.h.
//
// A candidate is judged by debug/judge.c, as `bisect` does, and a failure counts only with the same
// message up to names and numbers, so that the search does not slip from one fault to another.
// Nothing is run that cannot change the verdict.
#include <ctype.h>
#include <math.h>

#include "repl/debug/cut.h"
#include "repl/shell/deadline.h"
#include "repl/shrink/shrink.h"

enum { LIKENESS_WORDS = 8 };
static const double LEAST_DEADLINE = 2, DEADLINE_FACTOR = 10;  // s per verdict; times the first

// A place in a source file, such as shape_util.cc:1441 with or without a colon behind it.
static bool is_place(const char *word, size_t n) {
  const char *colon = memchr(word, ':', n), *dot = memchr(word, '.', n);
  return dot && colon && dot < colon && isalpha((unsigned char)dot[1]) &&
         isdigit((unsigned char)colon[1]);
}

// The first plain words of a message, and places in source files: no names, numbers or quotes.
static char *likeness_of(const char *text) {
  hs_buf b = {0};
  u32 words = 0;
  for (const char *p = text; *p && words < LIKENESS_WORDS;) {
    size_t n = strcspn(p, " \t\n"), letters = 0;
    while (letters < n && isalpha((unsigned char)p[letters])) letters++;
    bool plain = letters > 1 && (letters == n || (letters + 1 == n && strchr(",;:)", p[letters])));
    if (plain || is_place(p, n)) hs_buf_printf(&b, "%.*s ", (int)(plain ? letters : n), p), words++;
    p += n + (p[n] != 0);
  }
  char *out = hs_strdup(hs_buf_cstr(&b));
  hs_buf_free(&b);
  return out;
}

static bool fails(bisect_kind k) { return k == BISECT_CRASH || k == BISECT_INVALID; }

// Runs the pipeline on the trial's module. A pass that fails is a verdict where failing is the
// fault.
static hs_status run_pipeline(shrink_search *s, char **why) {
  if (!s->pipeline) return HS_GOOD;
  pass_run_options o = pass_run_default();
  o.measure = false;
  o.verify = s->t.kind != BISECT_INVALID;
  o.registry = s->t.c->s->passes;
  o.own = &s->t.c->s->pipelines;
  hs_status st = shrink_pipeline_run(s, s->t.m, &o);
  if (!hs_ok(st) && st.err->code == HS_E_PASS && s->t.kind == BISECT_CRASH) {
    *why = hs_strdup(st.err->message);
    s->by_pass |= !s->fault;
    hs_status_drop(st);
    return HS_GOOD;
  }
  return st;
}

static hs_status compile_rival(shrink_search *s, const shrink_case *x) {
  backend_options bo = repl_backend_options(s->t.c->s);
  s->t.rival_be = s->reference ? s->reference : s->t.be;
  return s->t.rival_be->compile(x->m, &bo, &s->t.rival);
}

// What the result, the time or the memory is compared with.
static hs_status make_reference(shrink_search *s, const shrink_case *x) {
  const backend *be = s->reference ? s->reference : backend_with(BACKEND_EVALUATOR);
  hlo_memory mem;
  switch (s->t.kind) {
  case BISECT_NAN:
    if (!s->reference && !s->pipeline) return HS_GOOD;  // any NaN is the fault
    return cut_run(s->t.c, be, x->m, x->nargs, x->args, &s->t.want);
  case BISECT_MISMATCH: return cut_run(s->t.c, be, x->m, x->nargs, x->args, &s->t.want);
  case BISECT_SLOWER: return compile_rival(s, x);
  case BISECT_BIGGER:
    HS_TRY(hlo_memory_estimate(x->m, false, &mem));
    s->t.before = (double)mem.peak_bytes;
    return HS_GOOD;
  default: return HS_GOOD;
  }
}

void shrink_hold_slowdown(shrink_search *s) {
  if (s->t.kind != BISECT_SLOWER) return;
  double half = 1 + (s->t.now / s->t.before - 1) / 2;
  s->t.much = fmax(s->t.much, fmin(half, BISECT_CLEARLY_SLOWER));
}

// Whether before and after the pipeline are run or estimated in the same way.
static bool is_run_alike(const shrink_search *s) {
  switch (s->t.kind) {
  case BISECT_BIGGER: return true;
  case BISECT_SLOWER: return !s->reference || s->reference == s->t.be;
  case BISECT_MISMATCH:
  case BISECT_NAN: return s->reference == s->t.be;
  default: return false;
  }
}

// Whether the verdict is known without a run: the passes left the module as it is, or the fault is
// a pass that fails, and none did.
static bool is_clear(const shrink_search *s, u64 generation) {
  bool idle = s->t.m->generation == generation && is_run_alike(s);
  return s->pipeline && (s->by_pass || idle);
}

static hs_status judge(shrink_search *s, const shrink_case *x, char **why) {
  s->t.m = hlo_module_clone(x->m, NULL);
  s->t.nargs = x->nargs;
  s->t.args = x->args;
  u64 generation = s->t.m->generation;
  hs_status st = run_pipeline(s, why);
  bool done = !hs_ok(st) || *why || is_clear(s, generation);
  bool nan = s->t.kind == BISECT_NAN;  // only then it matters whether the reference has one
  if (!done && !nan) st = make_reference(s, x);
  if (!done && hs_ok(st)) st = bisect_judge(&s->t, why);
  if (nan && hs_ok(st) && *why) {
    st = make_reference(s, x);
    if (!hs_ok(st) || (s->t.want && bisect_has_nan(s->t.want))) hs_free(*why), *why = NULL;
  }
  hlo_literal_unref(s->t.want);
  hlo_module_free(s->t.m);
  if (s->t.rival) s->t.rival_be->release(s->t.rival);
  s->t.want = NULL;
  s->t.m = NULL;
  s->t.rival = NULL;
  return st;
}

double shrink_deadline(const shrink_search *s) {
  double most = HS_MAX(LEAST_DEADLINE, DEADLINE_FACTOR * s->judged_s);
  u64 now = hs_now_ns();
  if (!s->end) return most;
  return now < s->end ? HS_MIN(most, (double)(s->end - now) * 1e-9) : 1e-5;
}

void shrink_start_clock(const shrink_search *s) {
  if (s->judged_s > 0) repl_deadline_start(shrink_deadline(s));
}
void shrink_stop_clock(const shrink_search *s) {
  if (!(s->judged_s > 0)) return;
  repl_deadline_stop();
  if (hs_stop_reason() == HS_STOP_DEADLINE) repl_interrupt = HS_STOP_NONE;
}

hs_status shrink_judge(shrink_search *s, const shrink_case *x, char **why) {
  *why = NULL;
  HS_TRY(hs_poll());
  shrink_start_clock(s);
  hs_status st = judge(s, x, why);
  shrink_stop_clock(s);
  hs_status stopped = hs_poll();
  if (!hs_ok(stopped)) hs_status_drop(st), st = stopped;
  // A candidate that cannot be judged, in time or at all, does not count; the module itself has to
  // be.
  else if (s->judged_s > 0) hs_status_drop(st), st = HS_GOOD;
  if (!hs_ok(st)) {
    hs_free(*why), *why = NULL;
    return st;
  }
  if (!*why || !fails(s->t.kind)) return HS_GOOD;
  char *like = likeness_of(*why);
  if (s->likeness && strcmp(like, s->likeness) != 0) hs_free(*why), *why = NULL;
  if (s->likeness) hs_free(like);
  else s->likeness = like;
  return HS_GOOD;
}
