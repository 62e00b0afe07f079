// shrink.c: the search for a smaller module that still has a fault. See shrink.h.
//
// Delta debugging (Zeller and Hildebrandt, 2002) over the edits of shrink.def. The entry is
// narrowed to a stretch of instructions that shows the fault, by halves and then by bisection at
// both ends, so that of a large program little is run again. Each edit is tried on all of its
// units, on halves of them, on quarters, and so on down to single ones, and all edits again until
// none makes the module smaller. A candidate counts when it verifies (unless the verifier's refusal
// is the fault) and the fault is there (shrink_judge.c). Arguments go by the names of parameters: a
// parameter keeps its argument, one that took an instruction's place gets the value that the
// instruction had, others get random ones.
#include "repl/shrink/shrink.h"

#include "core/eval/inputs.h"
#include "repl/debug/cut.h"

static const i64 MOST_KNOWN = (i64)256 << 20;  // bytes of values that are kept as arguments

void shrink_case_free(shrink_case *x) {
  hlo_module_free(x->m);
  hlo_inputs_free(x->args, x->nargs);
  *x = (shrink_case){0};
}

static shrink_case case_of(hlo_module *take) {
  hlo_journal_disable(take);
  return (shrink_case){.m = take};
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

bool shrink_is_run(const shrink_search *s) {
  return s->t.kind != BISECT_INVALID && s->t.kind != BISECT_BIGGER && !s->by_pass &&
         !s->t.compile_only;
}

// The values of the entry's instructions, as far as the evaluator has them and they are small
// enough to keep. Where nothing is run they are of no use.
static void know_values(shrink_search *s) {
  i64 bytes = 0;
  hlo_for_each_instr(i, s->best.m->entry) bytes += hlo_shape_bytes(i->shape);
  bool values = s->t.kind != BISECT_SLOWER && s->t.kind != BISECT_SCRIPT;
  if (!s->valid || bytes > MOST_KNOWN || !values || !shrink_is_run(s)) return;
  watch_options o = {.capture = "*", .iteration = -1};
  hlo_literal *out = NULL;
  shrink_start_clock(s);
  hs_status_drop(watch_run(s->t.c, s->best.m, &o, &s->known, &out));
  shrink_stop_clock(s);
  hlo_literal_unref(out);
}

hs_status shrink_find_arguments(const shrink_search *s, shrink_case *x) {
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

// Puts the sequence before the first candidate of an edit: `part` units at a time, of n.
static void enter_edit(const shrink_search *s, shrink_place *p, u32 edit) {
  *p = (shrink_place){.edit = edit, .to = p->to};
  if (edit >= shrink_edit_count || (!s->valid && shrink_edits[edit].valid)) return;
  p->n = shrink_edits[edit].units(s->best.m);
  p->part = shrink_edits[edit].alone ? HS_MIN(p->n, 1) : p->n;
}

// All units of an edit at once, then halves of them, and so on; then the next edit, below `to`.
static bool next_edit(const shrink_search *s, shrink_sequence *q, shrink_candidate *out) {
  shrink_place *p = &q->at;
  for (; p->edit < p->to; enter_edit(s, p, p->edit + 1))
    for (; p->part; p->part /= 2, p->from = 0)
      while (p->from < p->n) {
        const shrink_edit *e = &shrink_edits[p->edit];
        p->start = p->from;
        p->from = HS_MIN(p->n, p->from + p->part);
        *out =
            (shrink_candidate){.doing = e->doing, .x = case_of(hlo_module_clone(s->best.m, NULL))};
        if (e->apply(out->x.m, p->start, p->from)) return true;
        shrink_case_free(&out->x);
        if (hs_interrupted()) return false;
      }
  return false;
}

// Tries the edits from *edit on; *edit becomes the one behind those that were. One that makes the
// case smaller is the last.
static hs_status run_edits(shrink_search *s, u32 *edit, bool *progress) {
  shrink_sequence q = {.next = next_edit, .at.to = shrink_edit_count};
  enter_edit(s, &q.at, *edit);
  for (bool kept = true; kept;) {
    HS_TRY(shrink_first(s, &q, &kept));
    if (!kept) break;
    u32 now = shrink_edits[q.at.edit].units(s->best.m);
    // What was there is gone: the next units have these numbers.
    if (now < q.at.n) q.at.from = q.at.start;
    q.at.n = now;
    q.at.to = q.at.edit + 1;
    *progress = true;
  }
  *edit = q.at.to;
  return HS_GOOD;
}

// ---- a stretch of the entry ---------------------------------------------------------------------
enum { SHORT = 6 };  // instructions: the edits do the rest

static bool to_stretch(const hlo_module *of, u32 from, u32 to, shrink_candidate *out) {
  *out = (shrink_candidate){.doing = "looking for the instructions with the fault",
                            .x = case_of(hlo_module_clone(of, NULL))};
  if (shrink_to_stretch(out->x.m, from, to)) return true;
  shrink_case_free(&out->x);
  return false;
}

static bool next_half(const shrink_search *s, shrink_sequence *q, shrink_candidate *out) {
  u32 n = shrink_length(s->best.m);
  while (n >= SHORT && q->at.part < 2 && !hs_interrupted()) {
    bool second = !q->at.part++;
    if (to_stretch(s->best.m, second ? n / 2 : 0, second ? n : n / 2, out)) return true;
  }
  return false;
}

// Half of the entry, and half of that, as long as one of the halves has the fault. Each step costs
// half of the one before, so that the whole program is run a few times only.
static hs_status halve(shrink_search *s) {
  for (bool kept = true; kept;) {
    shrink_sequence q = {.next = next_half};
    HS_TRY(shrink_first(s, &q, &kept));
  }
  return HS_GOOD;
}

// from: the most instructions kept that are known not to show the fault; to: the fewest that do.
static bool next_end(const shrink_search *s, shrink_sequence *q, shrink_candidate *out) {
  shrink_place *p = &q->at;
  (void)s;
  while (p->to - p->from > 1 && !hs_interrupted()) {
    p->start = p->from;
    p->from += (p->to - p->from) / 2;
    if (to_stretch(q->of, p->edit ? p->n - p->from : 0, p->edit ? p->n : p->from, out)) return true;
  }
  return false;
}

// By bisection: the shortest beginning of the entry that shows the fault, then the shortest end of
// that. Where what follows a faulty instruction need not show the fault, it is still one that does.
static hs_status bisect_ends(shrink_search *s, bool beginning) {
  hlo_module *whole = hlo_module_clone(s->best.m, NULL);
  u32 n = shrink_length(whole);
  shrink_sequence q = {.next = next_end, .of = whole, .at = {.edit = !beginning, .n = n, .to = n}};
  hs_status st = HS_GOOD;
  for (bool kept = true; kept && hs_ok(st);) {
    st = shrink_first(s, &q, &kept);
    if (kept) q.at.to = q.at.from, q.at.from = q.at.start;
  }
  hlo_module_free(whole);
  return st;
}

static hs_status narrow(shrink_search *s) {
  if (s->narrowed || shrink_length(s->best.m) < SHORT) return HS_GOOD;
  HS_TRY(halve(s));
  HS_TRY(bisect_ends(s, true));
  HS_TRY(bisect_ends(s, false));
  s->narrowed = true;
  return HS_GOOD;
}

// Plain arguments. edit: the parameter; part: the word.
static bool next_values(const shrink_search *s, shrink_sequence *q, shrink_candidate *out) {
  static const char *const words[] = {"zeros", "ones", "iota"};
  for (shrink_place *p = &q->at; p->edit < s->best.nargs; p->edit++, p->part = 0)
    while (p->part < HS_COUNT(words) && !hs_interrupted()) {
      shrink_case x = case_of(hlo_module_clone(s->best.m, NULL));
      x.nargs = s->best.nargs;
      x.args = hs_calloc(x.nargs + 1, sizeof(hlo_literal *));
      for (u32 j = 0; j < x.nargs; j++)
        if (j != p->edit) x.args[j] = hlo_literal_ref(s->best.args[j]);
      hs_status st = hlo_input_by_words(x.m->entry->params[p->edit]->shape, words[p->part++],
                                        p->edit, &x.args[p->edit]);
      *out = (shrink_candidate){.doing = "simplifying arguments", .x = x};
      if (hs_ok(st)) return true;
      hs_status_drop(st);
      shrink_case_free(&out->x);
    }
  return false;
}

// Plain arguments, where they show the fault as well: of each parameter the first that do.
static hs_status simplify_values(shrink_search *s) {
  shrink_sequence q = {.next = next_values};
  for (bool kept = true; kept;) {
    HS_TRY(shrink_first(s, &q, &kept));
    q.at.edit++;
    q.at.part = 0;
  }
  return HS_GOOD;
}

static hs_status search(shrink_search *s) {
  bool kept, progress = true;
  shrink_candidate c = {.doing = "dropping what the program does not use",
                        .x = case_of(hlo_module_clone(s->best.m, NULL))};
  cut_drop_result_attrs(c.x.m);
  HS_TRY(shrink_try(s, &c, &kept));
  HS_TRY(narrow(s));
  HS_TRY(shrink_passes(s));
  while (progress) {
    progress = false;
    for (u32 edit = 0; edit < shrink_edit_count;) {
      HS_TRY(narrow(s));
      HS_TRY(run_edits(s, &edit, &progress));
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
  shrink_hold_slowdown(s);
  // A fault that every run has shown is asked for once a candidate; the result is judged again.
  s->t.steady |= s->t.unanimous && s->t.kind != BISECT_SLOWER;
  s->judged_s = s->usual_s = (double)(hs_now_ns() - s->begin) * 1e-9;
  HS_TRY(try_compile_only(s));
  know_values(s);
  set->deadline = shrink_deadline(s);  // of the worker
  hs_status st = search(s);
  set->deadline = deadline;
  repl_progress_end(s->t.c->out);
  if (s->out_of_time) {
    hs_status_drop(st);
    st = HS_GOOD;
  }
  if (!hs_ok(st) || !s->valid || s->best.args) return st;
  shrink_case x = {.m = s->best.m};
  HS_TRY(shrink_find_arguments(s, &x));
  s->best = x;
  return HS_GOOD;
}

void shrink_end(shrink_search *s) {
  shrink_case_free(&s->best);
  hs_free(s->fault);
  hs_free(s->likeness);
  shrink_pipeline_free(&s->passes);
  repl_values_free(&s->known);
}
