// tune.c — the search for a schedule by hand. See tune.h.
//
// It is a descent along one row of tuning.def after the other, since the rows hardly depend on each
// other: lanes and unrolling fix the code of the inner loop, chunks how threads share it. A
// candidate replaces the best when it takes 3 % less; noise is kept out of the verdict by the last
// comparison, in which both programs run by turns.
#include "repl/measure/tune.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/eval/inputs.h"
#include "profiler/stats.h"
#include "repl/debug/cut.h"
#include "repl/shell/exec.h"

enum { ROUNDS = 9, LEAST_WON = 8 };

typedef struct tuner {
  repl_cmd *c;
  const backend *be;
  backend_options options;
  hlo_module *m;  // the instruction alone, its root
  hlo_literal **args;
  u32 nargs;
  HS_VEC(u64) seen;  // schedules, as text
  u64 end_ns;
} tuner;

static hs_status no_loops(const hlo_instr *i) {
  return hs_with_note(hs_fail_subject(HS_E_UNSUPPORTED, i->name,
                                      "%s has no loops of its own: it lies in another kernel, or "
                                      "is one of the runtime's",
                                      i->name),
                      "compile lists the kernels");
}

hs_status tune_schedule_of(const hlo_instr *i, const char *dump, hs_buf *out) {
  size_t n = strlen(i->name);
  const char *line = dump;
  while (*line && !(strncmp(line, i->name, n) == 0 && line[n] == ':')) {
    const char *end = strchr(line, '\n');
    if (!end || end == line) return no_loops(i);  // an empty line ends the list of kernels
    line = end + 1;
  }
  const char *end = strchr(line, '\n');
  if (!end) return no_loops(i);
  hs_buf_put(out, line, (size_t)(end - line) + 1);
  // the kernel's function is named last, and its block begins with that name
  const char *fn = end;
  while (fn > line && fn[-1] != ' ') fn--;
  hs_buf head = {0};
  hs_buf_printf(&head, "\n\n%.*s:\n", (int)(end - fn), fn);
  const char *body = strstr(end, hs_buf_cstr(&head));
  if (body) body += head.n;
  hs_buf_free(&head);
  while (body && *body && *body != '\n') {
    size_t length = strcspn(body, "\n");
    if (strncmp(body, "  v", 3) != 0) hs_buf_put(out, body, length), hs_buf_putc(out, '\n');
    body += length + (body[length] == '\n');
  }
  return HS_GOOD;
}

static hs_status compile(tuner *t, const hlo_tuning *by_hand, backend_exe **out) {
  hlo_tuning_set(t->m->entry->root, by_hand);
  return t->be->compile(t->m, &t->options, out);
}

static hs_status time_runs(tuner *t, backend_exe *exe, double *ms) {
  const backend_run_options o = {
      .warmup = 2, .min_runs = 5, .max_runs = 2000, .min_seconds = 0.02, .max_seconds = 0.2};
  backend_result r = {0};
  hs_status s = t->be->run(exe, t->nargs, t->args, &o, &r);
  if (hs_ok(s)) *ms = prof_summarize(r.timing.samples_ms, r.timing.runs).median;
  backend_result_free(&r);
  return s;
}

// Whether the program's schedule was timed before; it counts as timed from now on.
static hs_status is_known(tuner *t, backend_exe *exe, bool *known) {
  hs_buf text = {0}, own = {0};
  hs_status s = t->be->dump(exe, "schedule", &text);
  if (hs_ok(s)) s = tune_schedule_of(t->m->entry->root, hs_buf_cstr(&text), &own);
  u64 h = hs_hash_bytes(own.p, own.n, 0);
  hs_buf_free(&text);
  hs_buf_free(&own);
  *known = false;
  for (size_t k = 0; k < t->seen.n; k++) *known |= t->seen.v[k] == h;
  if (hs_ok(s) && !*known) hs_vec_push(&t->seen, h);
  return s;
}

// INFINITY for a schedule that was timed before.
static hs_status time_one(tuner *t, const hlo_tuning *by_hand, double *ms) {
  backend_exe *exe = NULL;
  bool known = false;
  *ms = INFINITY;
  HS_TRY(hs_poll());
  HS_TRY(compile(t, by_hand, &exe));
  hs_status s = is_known(t, exe, &known);
  if (hs_ok(s) && !known) s = time_runs(t, exe, ms);
  t->be->release(exe);
  return s;
}

static hs_status try_row(tuner *t, const hlo_tuning_row *row, hlo_tuning *best, double *best_ms) {
  hlo_tuning base = *best;
  for (i32 v = row->least; v <= row->most && hs_now_ns() < t->end_ns; v = v ? v * 2 : 1) {
    hlo_tuning now = base;
    double ms;
    *hlo_tuning_field(&now, row) = v;
    repl_progress(t->c->out, "schedules", (double)t->seen.n, 0);
    HS_TRY(time_one(t, &now, &ms));
    if (ms < 0.97 * *best_ms) *best = now, *best_ms = ms;
  }
  return HS_GOOD;
}

// Runs the best and the chosen schedule by turns: it is faster when it wins nearly every round.
static hs_status compare(tuner *t, tune_result *r) {
  const hlo_tuning none = hlo_tuning_none();
  backend_exe *exe[2] = {NULL, NULL};
  double ms[2][ROUNDS];
  u32 won = 0;
  hs_status s = compile(t, &none, &exe[0]);
  if (hs_ok(s)) s = compile(t, &r->best, &exe[1]);
  for (u32 k = 0; k < ROUNDS && hs_ok(s); k++) {
    for (u32 j = 0; j < 2 && hs_ok(s); j++) s = time_runs(t, exe[(j + k) % 2], &ms[(j + k) % 2][k]);
    if (hs_ok(s)) won += ms[1][k] < 0.98 * ms[0][k];
    if (hs_ok(s)) s = hs_poll();
  }
  for (u32 j = 0; j < 2; j++)
    if (exe[j]) t->be->release(exe[j]);
  if (!hs_ok(s)) return s;
  r->chosen_ms = prof_summarize(ms[0], ROUNDS).median;
  r->best_ms = prof_summarize(ms[1], ROUNDS).median;
  r->faster = won >= LEAST_WON;
  return HS_GOOD;
}

static hs_status search(tuner *t, tune_result *r) {
  double best_ms;
  r->best = hlo_tuning_none();
  HS_TRY(repl_memory_check(t->c, t->m, false, 0));
  HS_TRY(hlo_inputs_random(t->c->s->ctx, t->m, t->c->s->set.seed, &t->args, &t->nargs));
  HS_TRY(time_one(t, &r->best, &best_ms));
  r->chosen_ms = r->best_ms = best_ms;
  for (u32 k = 0; k < HLO_TUNING_ROWS; k++)
    HS_TRY(try_row(t, &hlo_tuning_rows[k], &r->best, &best_ms));
  r->tried = (u32)t->seen.n;
  if (!hlo_tuning_write(&r->best, NULL)) return HS_GOOD;
  HS_TRY(compare(t, r));
  if (!r->faster) r->best = hlo_tuning_none();
  return HS_GOOD;
}

hs_status tune_search(repl_cmd *c, hlo_instr *i, double seconds, tune_result *out) {
  tuner t = {.c = c,
             .be = c->s->be,
             .options = repl_backend_options(c->s),
             .end_ns = hs_now_ns() + (u64)(seconds * 1e9)};
  u32 noperands;
  const hlo_instr **operands = NULL;
  *out = (tune_result){0};
  HS_TRY(cut_instructions(c->m, 1, &i, true, &t.m, &noperands, &operands));
  hs_status s = search(&t, out);
  repl_progress_end(c->out);
  hlo_inputs_free(t.args, t.nargs);
  hs_vec_free(&t.seen);
  hs_free(operands);
  hlo_module_free(t.m);
  return s;
}
