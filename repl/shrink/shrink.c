// shrink.c: the search for a smaller module that still has a fault. See shrink.h.
//
// Delta debugging (Zeller and Hildebrandt, 2002) over the edits of shrink.def. The entry is
// narrowed to a stretch of instructions that shows the fault, by halves and then by bisection at
// both ends, so that of a large program little is run again. Each edit is tried on all of its
// units, on halves of them, on quarters, and so on down to single ones, and all edits again until
// none makes the module smaller. A candidate counts when it verifies (unless the verifier's refusal
// is the fault) and the fault is there: judged by judge.c, as `bisect` does, and for a failure only
// with the same message up to names and numbers, so that the search does not slip from one fault to
// another. Arguments go by the names of parameters: a parameter keeps its
// argument, one that took an instruction's place gets the value that the instruction had, others
// get random ones.
#include "repl/shrink/shrink.h"

#include <ctype.h>
#include <math.h>

#include "core/eval/inputs.h"
#include "core/verify/verify.h"
#include "repl/debug/cut.h"
#include "repl/shell/deadline.h"

enum { LIKENESS_WORDS = 8 };
static const i64 MOST_KNOWN = (i64)256 << 20;  // bytes of values that are kept as arguments
static const double LEAST_DEADLINE = 2, DEADLINE_FACTOR = 10;  // s per verdict; times the first

void shrink_case_free(shrink_case *x) {
  hlo_module_free(x->m);
  hlo_inputs_free(x->args, x->nargs);
  *x = (shrink_case){0};
}

static shrink_case case_of(hlo_module *take) {
  hlo_journal_disable(take);
  return (shrink_case){.m = take};
}

// ---- verdicts -----------------------------------------------------------------------------------
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

static hs_status reference_time(shrink_search *s, const shrink_case *x) {
  const backend *be = s->reference ? s->reference : s->t.be;
  backend_options bo = repl_backend_options(s->t.c->s);
  backend_exe *exe;
  HS_TRY(be->compile(x->m, &bo, &exe));
  hs_status st = bisect_time(be, exe, x->nargs, x->args, &s->t.before);
  be->release(exe);
  return st;
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
  case BISECT_SLOWER: return reference_time(s, x);
  case BISECT_BIGGER:
    HS_TRY(hlo_memory_estimate(x->m, false, &mem));
    s->t.before = (double)mem.peak_bytes;
    return HS_GOOD;
  default: return HS_GOOD;
  }
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
  s->t.want = NULL;
  s->t.m = NULL;
  return st;
}

hs_status shrink_judge(shrink_search *s, const shrink_case *x, char **why) {
  *why = NULL;
  HS_TRY(hs_poll());
  if (s->judged_s > 0) repl_deadline_start(HS_MAX(LEAST_DEADLINE, DEADLINE_FACTOR * s->judged_s));
  hs_status st = judge(s, x, why);
  repl_deadline_stop();
  // A candidate that cannot be judged, in time or at all, does not count.
  if (hs_stop_reason() == HS_STOP_DEADLINE) repl_interrupt = HS_STOP_NONE;
  hs_status_drop(st);
  HS_TRY(hs_poll());
  if (!*why || !fails(s->t.kind)) return HS_GOOD;
  char *like = likeness_of(*why);
  if (s->likeness && strcmp(like, s->likeness) != 0) hs_free(*why), *why = NULL;
  if (s->likeness) hs_free(like);
  else s->likeness = like;
  return HS_GOOD;
}

// ---- candidates ---------------------------------------------------------------------------------
static const hlo_literal *known_value(const shrink_search *s, const hlo_instr *p) {
  for (u32 k = 0; k < s->best.nargs; k++)
    if (strcmp(s->best.m->entry->params[k]->name, p->name) == 0 &&
        hlo_shape_compatible(s->best.args[k]->shape, p->shape))
      return s->best.args[k];
  const repl_kept *v = repl_values_find(&s->known, p->name);
  return v && hlo_shape_compatible(v->value->shape, p->shape) ? v->value : NULL;
}

// Whether a verdict takes a run: without one, no candidate needs arguments.
static bool is_run(const shrink_search *s) {
  return s->t.kind != BISECT_INVALID && s->t.kind != BISECT_BIGGER && !s->by_pass &&
         !s->t.compile_only;
}

// The values of the entry's instructions, as far as the evaluator has them and they are small
// enough to keep. Where nothing is run they are of no use.
static void know_values(shrink_search *s) {
  i64 bytes = 0;
  hlo_for_each_instr(i, s->best.m->entry) bytes += hlo_shape_bytes(i->shape);
  bool values = s->t.kind != BISECT_SLOWER && s->t.kind != BISECT_SCRIPT;
  if (!s->valid || bytes > MOST_KNOWN || !values || !is_run(s)) return;
  watch_options o = {.capture = "*", .iteration = -1};
  hlo_literal *out = NULL;
  hs_status_drop(watch_run(s->t.c, s->best.m, &o, &s->known, &out));
  hlo_literal_unref(out);
}

static hs_status find_arguments(const shrink_search *s, shrink_case *x) {
  hlo_random_options o = {.seed = s->seed};
  const hlo_computation *e = x->m->entry;
  bool all = true;
  for (u32 k = 0; k < e->nparams; k++) all &= known_value(s, e->params[k]) != NULL;
  if (all) {
    x->args = hs_calloc(e->nparams + 1, sizeof(hlo_literal *));
    x->nargs = e->nparams;
  } else HS_TRY(hlo_inputs_random_with(x->m, &o, &x->args, &x->nargs));
  for (u32 k = 0; k < e->nparams; k++) {
    const hlo_literal *v = known_value(s, e->params[k]);
    if (!v) continue;
    hlo_literal_unref(x->args[k]);
    x->args[k] = hlo_literal_ref(v);
  }
  return HS_GOOD;
}

static void say_progress(const shrink_search *s, const char *doing) {
  repl_out *out = s->t.c->out;
  if (repl_progress_due(out))
    repl_progress_text(out, "%u instructions after %u tries, %s", hlo_instr_count(s->best.m),
                       s->tried, doing);
}

// Judges a candidate, and makes it the best one when it has the fault. Takes it. Fails on Ctrl-C
// and when the time is up.
static hs_status try(shrink_search *s, shrink_case x, const char *doing, bool *kept) {
  *kept = false;
  say_progress(s, doing);
  s->out_of_time = s->end && hs_now_ns() > s->end;
  hs_status st = s->out_of_time ? hs_fail(HS_E_DEADLINE, "shrink: out of time") : hs_poll();
  bool usable = hs_ok(st);
  if (usable) cut_clean(x.m);
  if (usable && s->valid) {
    hs_status v = hlo_verify(x.m, NULL);
    usable = hs_ok(v);
    hs_status_drop(v);
  }
  if (usable && !x.args && is_run(s)) {
    hs_status v = find_arguments(s, &x);
    usable = hs_ok(v);
    hs_status_drop(v);
  }
  char *why = NULL;
  if (usable) {
    s->tried++;
    st = shrink_judge(s, &x, &why);
  }
  if (hs_ok(st) && why) {
    *kept = true;
    s->kept++;
    shrink_case_free(&s->best);
    hs_free(s->fault);
    s->best = x;
    s->fault = why;
    return st;
  }
  hs_free(why);
  shrink_case_free(&x);
  return st;
}

static hs_status try_edit(shrink_search *s, const shrink_edit *e, u32 from, u32 to, bool *kept) {
  shrink_case x = case_of(hlo_module_clone(s->best.m, NULL));
  *kept = false;
  if (e->apply(x.m, from, to)) return try(s, x, e->doing, kept);
  shrink_case_free(&x);
  return hs_poll();
}

static hs_status run_edit(shrink_search *s, const shrink_edit *e, bool *progress) {
  u32 n = e->units(s->best.m);
  for (u32 part = e->alone ? HS_MIN(n, 1) : n; part; part /= 2)
    for (u32 from = 0; from < n;) {
      bool kept;
      u32 to = HS_MIN(n, from + part);
      HS_TRY(try_edit(s, e, from, to, &kept));
      u32 now = e->units(s->best.m);
      // What was there is gone: the next units have these numbers.
      if (!kept || now >= n) from = to;
      n = now;
      *progress |= kept;
    }
  return HS_GOOD;
}

// ---- a stretch of the entry ---------------------------------------------------------------------
enum { SHORT = 6 };  // instructions: the edits do the rest

static hs_status try_stretch(shrink_search *s, const hlo_module *of, u32 from, u32 to, bool *kept) {
  shrink_case x = case_of(hlo_module_clone(of, NULL));
  *kept = false;
  if (shrink_to_stretch(x.m, from, to))
    return try(s, x, "looking for the instructions with the fault", kept);
  shrink_case_free(&x);
  return hs_poll();
}

// Half of the entry, and half of that, as long as one of the halves has the fault. Each step costs
// half of the one before, so that the whole program is run a few times only.
static hs_status halve(shrink_search *s) {
  for (bool kept = true; kept;) {
    u32 n = shrink_length(s->best.m);
    if (n < SHORT) return HS_GOOD;
    HS_TRY(try_stretch(s, s->best.m, n / 2, n, &kept));
    if (!kept) HS_TRY(try_stretch(s, s->best.m, 0, n / 2, &kept));
  }
  return HS_GOOD;
}

// By bisection: the shortest beginning of the entry that shows the fault, then the shortest end of
// that. Where what follows a faulty instruction need not show the fault, it is still one that does.
static hs_status bisect_ends(shrink_search *s, bool beginning) {
  hlo_module *whole = hlo_module_clone(s->best.m, NULL);
  u32 n = shrink_length(whole), without = 0, with = n;  // instructions kept
  hs_status st = HS_GOOD;
  while (hs_ok(st) && with - without > 1) {
    u32 mid = without + (with - without) / 2;
    bool kept;
    st =
        beginning ? try_stretch(s, whole, 0, mid, &kept) : try_stretch(s, whole, n - mid, n, &kept);
    *(kept ? &with : &without) = mid;
  }
  hlo_module_free(whole);
  return st;
}

static hs_status narrow(shrink_search *s) {
  if (s->narrowed == s->kept || shrink_length(s->best.m) < SHORT) return HS_GOOD;
  HS_TRY(halve(s));
  HS_TRY(bisect_ends(s, true));
  HS_TRY(bisect_ends(s, false));
  s->narrowed = s->kept;
  return HS_GOOD;
}

// Plain arguments, where they show the fault as well.
static hs_status simplify_values(shrink_search *s) {
  static const char *const words[] = {"zeros", "ones", "iota"};
  for (u32 k = 0; k < s->best.nargs; k++)
    for (size_t w = 0; w < HS_COUNT(words); w++) {
      shrink_case x = case_of(hlo_module_clone(s->best.m, NULL));
      bool kept;
      HS_TRY(hs_poll());
      x.nargs = s->best.nargs;
      x.args = hs_calloc(x.nargs + 1, sizeof(hlo_literal *));
      for (u32 j = 0; j < x.nargs; j++)
        if (j != k) x.args[j] = hlo_literal_ref(s->best.args[j]);
      hs_status st = hlo_input_by_words(x.m->entry->params[k]->shape, words[w], k, &x.args[k]);
      if (!hs_ok(st)) {
        hs_status_drop(st);
        shrink_case_free(&x);
        break;
      }
      HS_TRY(try(s, x, "simplifying arguments", &kept));
      if (kept) break;
    }
  return HS_GOOD;
}

static hs_status search(shrink_search *s) {
  bool kept, progress = true;
  shrink_case x = case_of(hlo_module_clone(s->best.m, NULL));
  cut_drop_result_attrs(x.m);
  HS_TRY(try(s, x, "dropping what the program does not use", &kept));
  HS_TRY(narrow(s));
  HS_TRY(shrink_passes(s));
  while (progress) {
    progress = false;
    for (u32 k = 0; k < shrink_edit_count; k++) {
      HS_TRY(narrow(s));
      if (s->valid || !shrink_edits[k].valid) HS_TRY(run_edit(s, &shrink_edits[k], &progress));
    }
  }
  if (s->best.nargs == s->best.m->entry->nparams) HS_TRY(simplify_values(s));
  return shrink_passes(s);
}

// A program that fails while it is compiled: the candidates are compiled only, so that none waits
// for a run that does not end.
static hs_status try_compile_only(shrink_search *s) {
  if (s->t.kind != BISECT_CRASH || !s->t.be || s->by_pass) return HS_GOOD;
  char *why;
  s->t.compile_only = true;
  hs_status st = shrink_judge(s, &s->best, &why);
  s->t.compile_only = why != NULL;
  hs_free(why);
  return st;
}

hs_status shrink_run(shrink_search *s) {
  repl_settings *set = &s->t.c->s->set;
  double deadline = set->deadline;
  s->begin = hs_now_ns();
  if (s->seconds > 0) s->end = s->begin + (u64)(s->seconds * 1e9);
  // The evaluator says the same each time.
  s->t.steady = !s->t.be && !s->reference && s->t.kind != BISECT_SCRIPT;
  HS_TRY(shrink_judge(s, &s->best, &s->fault));
  if (!s->fault)
    return hs_fail(HS_E_USAGE, "shrink: %s has no such fault: nothing %s", s->best.m->name,
                   s->t.changes);
  // A fault that every run has shown is asked for once a candidate; the result is judged again.
  s->t.steady |= s->t.unanimous && s->t.kind != BISECT_SLOWER;
  s->judged_s = (double)(hs_now_ns() - s->begin) * 1e-9;
  s->narrowed = UINT32_MAX;
  HS_TRY(try_compile_only(s));
  know_values(s);
  set->deadline = HS_MAX(LEAST_DEADLINE, DEADLINE_FACTOR * s->judged_s);  // of the worker
  hs_status st = search(s);
  set->deadline = deadline;
  repl_progress_end(s->t.c->out);
  if (s->out_of_time) {
    hs_status_drop(st);
    st = HS_GOOD;
  }
  if (!hs_ok(st) || !s->valid || s->best.args) return st;
  shrink_case x = {.m = s->best.m};
  HS_TRY(find_arguments(s, &x));
  s->best = x;
  return HS_GOOD;
}

void shrink_end(shrink_search *s) {
  shrink_case_free(&s->best);
  hs_free(s->fault);
  hs_free(s->likeness);
  shrink_pipeline_free(s);
  repl_values_free(&s->known);
}
