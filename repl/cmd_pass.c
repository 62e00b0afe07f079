// cmd_pass.c — running passes: passes, pass, pipeline, next, until, continue, why.
//
// Each pass that changes something prints one delta line; the others are counted in one. A command's edits are one
// version, with the log of its passes and their notes.
#include <math.h>
#include <stdlib.h>

#include "repl/measure_scope.h"

// ---- delta lines --------------------------------------------------------------------------------------------------------
static void percent(hs_buf *b, double before, double after, const char *unit) {
  if (before == after) return;
  if (before > 0) hs_buf_printf(b, "  %+.1f%% %s", (after - before) / before * 100, unit);
  else hs_buf_printf(b, "  +%g %s", after, unit);
}

static void signed_bytes(hs_buf *b, double delta, const char *unit) {
  char text[32];
  if (delta == 0) return;
  hs_buf_printf(b, "  %c%s %s", delta < 0 ? '-' : '+', repl_bytes(text, fabs(delta)), unit);
}

static void delta_line(hs_buf *b, const pass_result *r, size_t width) {
  char x[32], y[32];
  hs_buf_puts(b, r->pass);
  for (size_t k = strlen(r->pass); k < width; k++) hs_buf_putc(b, ' ');
  i64 di = (i64)r->after.instructions - (i64)r->before.instructions;
  if (di) hs_buf_printf(b, "  %+lld instr", (long long)di);
  else hs_buf_puts(b, "  rewritten");
  percent(b, r->before.flops, r->after.flops, "flops");
  signed_bytes(b, r->after.bytes - r->before.bytes, "bytes");
  if (r->after.peak_bytes != r->before.peak_bytes)
    hs_buf_printf(b, "  peak %s -> %s", repl_bytes(x, (double)r->before.peak_bytes), repl_bytes(y, (double)r->after.peak_bytes));
  if (r->after.kernels != r->before.kernels) hs_buf_printf(b, "  kernels %u -> %u", r->before.kernels, r->after.kernels);
  hs_buf_printf(b, "  %.1f ms\n", r->ms);
}

static void totals_json(repl_json *parent, const char *key, const pass_totals *t) {
  repl_json *j = repl_json_object(parent, key);
  repl_json_int(j, "instructions", t->instructions);
  repl_json_int(j, "computations", t->computations);
  repl_json_int(j, "kernels", t->kernels);
  repl_json_num(j, "flops", t->flops);
  repl_json_num(j, "bytes", t->bytes);
  repl_json_int(j, "peak_bytes", t->peak_bytes);
}

// Prints log entries from `from` on.
static void say_log(repl_cmd *c, const pass_log *log, size_t from, bool quiet) {
  size_t width = 8, idle = 0;
  double idle_ms = 0;
  repl_json *list = repl_json_array(c->doc, "passes");
  for (size_t k = from; k < log->n; k++)
    if (log->v[k].changed) width = HS_MAX(width, HS_MIN(strlen(log->v[k].pass), (size_t)40));
  hs_buf b = {0};
  for (size_t k = from; k < log->n; k++) {
    const pass_result *r = &log->v[k];
    if (r->changed) delta_line(&b, r, width);
    else idle++, idle_ms += r->ms;
    repl_json *j = repl_json_object(list, NULL);
    repl_json_str(j, "name", r->pass);
    repl_json_bool(j, "changed", r->changed);
    repl_json_num(j, "ms", r->ms);
    repl_json_int(j, "rewrites", r->rewrites);
    if (r->changed) totals_json(j, "before", &r->before), totals_json(j, "after", &r->after);
  }
  if (idle) hs_buf_printf(&b, "(%zu pass%s changed nothing, %.1f ms)\n", idle, idle == 1 ? "" : "es", idle_ms);
  if (!c->doc && !quiet) hs_buf_put(&c->out->text, b.p ? b.p : "", b.n);
  hs_buf_free(&b);
}

static void say_total(repl_cmd *c, const pass_log *log, size_t from) {
  size_t first = from, last = log->n;
  while (first < log->n && !log->v[first].changed) first++;
  while (last > from && !log->v[last - 1].changed) last--;
  if (first >= last) return;
  pass_result sum = {.pass = "total", .before = log->v[first].before, .after = log->v[last - 1].after};
  size_t changed = 0;
  for (size_t k = from; k < log->n; k++) sum.ms += log->v[k].ms, changed += log->v[k].changed;
  if (changed < 2) return;
  hs_buf b = {0};
  delta_line(&b, &sum, 8);
  if (!c->doc) hs_buf_put(&c->out->text, b.p, b.n);
  hs_buf_free(&b);
}

static pass_run_options run_options(repl_cmd *c) {
  pass_run_options o = pass_run_default();
  o.verify = c->s->set.verify;
  o.measure = true;
  o.notes = c->notes;
  return o;
}

// ---- listing ------------------------------------------------------------------------------------------------------------
hs_status cmd_passes(repl_cmd *c) {
  const char *word = repl_arg(c, 0);
  repl_json *list = repl_json_array(c->doc, "passes"), *pl = repl_json_array(c->doc, "pipelines");
  u32 n = 0;
  for (u32 k = 0; k < pass_count; k++) {
    const pass_info *p = &pass_table[k];
    if (word && !repl_matches(p->name, word) && !repl_matches(p->summary, word)) continue;
    n++;
    if (!c->doc) repl_say(c->out, "%-40s %s\n", p->name, p->summary);
    repl_json *j = repl_json_object(list, NULL);
    repl_json_str(j, "name", p->name);
    repl_json_str(j, "summary", p->summary);
    repl_json_str(j, "xla_source", p->xla_source);
  }
  for (u32 k = 0; k < pipeline_count; k++) {
    const pass_pipeline *p = &pipeline_table[k];
    if (word && !repl_matches(p->name, word)) continue;
    n++;
    if (!c->doc) repl_say(c->out, "pipeline %-31s %s\n", p->name, p->summary);
    repl_json *j = repl_json_object(pl, NULL);
    repl_json_str(j, "name", p->name);
    repl_json_str(j, "summary", p->summary);
  }
  if (!n) repl_note(c->out, "no pass matches \"%s\"", word);
  return HS_GOOD;
}

// ---- running ------------------------------------------------------------------------------------------------------------
hs_status cmd_pass(repl_cmd *c) {
  pass_run_options o = run_options(c);
  if (repl_flag(c, "--limit")) HS_TRY(repl_arg_int(c, "--limit", repl_flag(c, "--limit"), 0, INT32_MAX, &o.rewrite_limit));
  hs_buf text = {0};
  for (u32 k = 0; k < c->args.npos; k++) hs_buf_printf(&text, "%s%s", k ? "," : "", c->args.pos[k]);
  // Names only: a pipeline's name would be accepted by the runner too, and that is what `pipeline` is for.
  hs_status s = pipeline_run(c->m, hs_buf_cstr(&text), &o, c->log);
  hs_buf_free(&text);
  say_log(c, c->log, 0, repl_flag(c, "--quiet") != NULL);
  if (hs_ok(s) && c->log->n > 1) say_total(c, c->log, 0);
  return s;
}

static hs_status say_pipelines(repl_cmd *c) {
  repl_json *list = repl_json_array(c->doc, "pipelines");
  for (u32 k = 0; k < pipeline_count; k++) {
    if (!c->doc) repl_say(c->out, "%-12s %s\n", pipeline_table[k].name, pipeline_table[k].summary);
    repl_json *j = repl_json_object(list, NULL);
    repl_json_str(j, "name", pipeline_table[k].name);
    repl_json_str(j, "summary", pipeline_table[k].summary);
  }
  return HS_GOOD;
}

// A pipeline's name or a list of passes; a single unknown word is an unknown pass.
static hs_status show_pipeline(repl_cmd *c, const char *text) {
  const char **names;
  u32 n;
  HS_TRY(pipeline_flatten(text, c->scratch, &names, &n));
  repl_json *list = repl_json_array(c->doc, "passes");
  for (u32 k = 0; k < n; k++) {
    if (!c->doc) repl_say(c->out, "%3u  %s\n", k + 1, names[k]);
    repl_json_str(list, NULL, names[k]);
  }
  return HS_GOOD;
}

hs_status cmd_pipeline(repl_cmd *c) {
  const char *text = repl_arg(c, 0), *show = repl_arg(c, 1);
  if (!text) return say_pipelines(c);
  if (show && strcmp(show, "show") != 0) return repl_usage_error(c, "only \"show\" may follow a pipeline, not \"%s\"", show);
  if (show) return show_pipeline(c, text);
  pass_run_options o = run_options(c);
  hs_status s = pipeline_run(c->m, text, &o, c->log);
  say_log(c, c->log, 0, repl_flag(c, "--quiet") != NULL);
  if (hs_ok(s)) say_total(c, c->log, 0);
  return s;
}

// ---- stepping -----------------------------------------------------------------------------------------------------------
static hs_status open_pipeline(repl_cmd *c, const char *text) {
  repl_module *mod = c->mod;
  if (!text && mod->pipeline) return HS_GOOD;
  if (!text) text = "tuned";
  hs_arena a = {0};
  const char **steps;
  u32 n;
  hs_status s = pipeline_flatten(text, &a, &steps, &n);
  if (!hs_ok(s)) {
    hs_arena_free(&a);
    return s;
  }
  hs_free(mod->pipeline);
  hs_arena_free(&mod->pipeline_arena);
  mod->pipeline = hs_strdup(text);
  mod->pipeline_arena = a;
  mod->steps = steps;
  mod->nsteps = n;
  mod->pos = 0;
  repl_note(c->out, "stepping through the pipeline %s: %u passes", text, n);
  return HS_GOOD;
}

// Runs the step at the pipeline's position; *changed tells what it did.
static hs_status step(repl_cmd *c, bool *changed) {
  repl_module *mod = c->mod;
  pass_run_options o = run_options(c);
  size_t from = c->log->n;
  HS_TRY(pipeline_run(c->m, mod->steps[mod->pos], &o, c->log));
  *changed = false;
  for (size_t k = from; k < c->log->n; k++) *changed |= c->log->v[k].changed;
  mod->pos++;
  return HS_GOOD;
}

static void say_where(repl_cmd *c) {
  const repl_module *mod = c->mod;
  repl_json_int(c->doc, "position", mod->pos);
  repl_json_int(c->doc, "of", mod->nsteps);
  if (c->doc) return;
  if (mod->pos >= mod->nsteps) repl_say(c->out, "end of pipeline %s\n", mod->pipeline);
  else repl_say(c->out, "[%u/%u] next: %s\n", mod->pos, mod->nsteps, mod->steps[mod->pos]);
}

// Shared by next, until and continue: steps while `go` says so. A failure puts the position back.
typedef bool go_fn(repl_cmd *c, void *arg, bool changed, hs_status *s);
static hs_status walk(repl_cmd *c, go_fn *go, void *arg) {
  u32 start = c->mod->pos;
  const char *last = NULL;
  hs_status s = HS_GOOD;
  bool more = true;
  while (more && hs_ok(s) && c->mod->pos < c->mod->nsteps) {
    bool changed;
    last = c->mod->steps[c->mod->pos];
    s = step(c, &changed);
    if (hs_ok(s)) s = hs_poll();
    if (hs_ok(s)) more = go(c, arg, changed, &s);
  }
  if (!hs_ok(s)) c->mod->pos = start;
  say_log(c, c->log, 0, false);
  if (hs_ok(s)) {
    say_where(c);
    c->label = hs_format("%s: %s", c->command->name, last ? last : "");
  }
  return s;
}

static bool go_changes(repl_cmd *c, void *arg, bool changed, hs_status *s) {
  (void)c;
  (void)s;
  i64 *left = arg;
  *left -= changed;
  return *left > 0;
}

hs_status cmd_next(repl_cmd *c) {
  i64 n = 1;
  if (repl_arg(c, 0)) HS_TRY(repl_arg_int(c, "N", repl_arg(c, 0), 1, INT32_MAX, &n));
  HS_TRY(open_pipeline(c, repl_flag(c, "--pipeline")));
  return walk(c, go_changes, &n);
}

static bool go_always(repl_cmd *c, void *arg, bool changed, hs_status *s) {
  (void)c, (void)arg, (void)changed, (void)s;
  return true;
}

hs_status cmd_continue(repl_cmd *c) {
  HS_TRY(open_pipeline(c, NULL));
  return walk(c, go_always, NULL);
}

typedef struct until { const char *pass; u64 before; const char *watched; const char *expr; bool hit; } until;

static u64 instr_hash(repl_cmd *c, const char *name) {
  const hlo_instr *i = hlo_find_instr(c->m, name);
  if (!i) return 0;
  hlo_print_options o = hlo_print_default();
  hs_buf b = {0};
  hlo_print_instr(&b, i, &o);
  u64 h = hs_hash_bytes(b.p, b.n, 1);
  hs_buf_free(&b);
  return h | 1;
}

static bool go_until(repl_cmd *c, void *arg, bool changed, hs_status *s) {
  until *u = arg;
  if (u->watched) u->hit = changed && instr_hash(c, u->watched) != u->before;
  else if (u->expr) {
    repl_module_scope ms;
    *s = repl_module_scope_open(&ms, c->m, c->s->target, c->mod->at->number);
    repl_scope scope = repl_scope_of_module(&ms);
    repl_value v = {0};
    if (hs_ok(*s)) *s = repl_eval(u->expr, &scope, &v);
    u->hit = repl_truth(v);
  } else {
    // Stops before the named pass, as a breakpoint does.
    u->hit = c->mod->pos < c->mod->nsteps && strncmp(c->mod->steps[c->mod->pos], u->pass, strlen(u->pass)) == 0;
  }
  return !u->hit;
}

hs_status cmd_until(repl_cmd *c) {
  const char *w = c->args.raw;
  until u = {0};
  if (strncmp(w, "changed ", 8) == 0) {
    w += 8;
    while (*w == ' ') w++;
    hlo_instr *i = repl_find_instr(c->m, w);
    if (!i) return repl_no_object(c->m, w);
    u.watched = hs_arena_strndup(c->scratch, i->name, strlen(i->name));
    u.before = instr_hash(c, u.watched);
  } else if (pass_find(w)) {
    u.pass = pass_find(w)->name;
  } else if (!strpbrk(w, "<>=~( ")) {
    return pass_unknown(w);
  } else {
    u.expr = w;
  }
  HS_TRY(open_pipeline(c, NULL));
  HS_TRY(walk(c, go_until, &u));
  if (!u.hit) repl_note(c->out, "the pipeline ended before \"%s\"", w);
  return HS_GOOD;
}

// By id: the instructions of the current version that stem from the same source as `id`, when that one is gone.
static bool *heirs_of(repl_cmd *c, u32 id) {
  hlo_for_each_comp(k, c->m)
    hlo_for_each_instr(i, k)
      if (i->id == id) return NULL;
  bool *heirs = HS_NEW_ARRAY(c->scratch, bool, c->m->next_instr_id);
  hlo_for_each_comp(k, c->m)
    hlo_for_each_instr(i, k) {
      hlo_ints from = hlo_origins_collect(i, c->scratch);
      for (u32 j = 0; j < from.n; j++) heirs[i->id] |= from.v[j] == (i64)id;
    }
  return heirs;
}

// The id of an instruction of this name now, or in the nearest earlier version that had one.
static bool id_in_history(repl_cmd *c, const char *name, u32 *id, const char **found) {
  repl_module *mod = c->mod;
  repl_version *here = mod->at, *redo = here->redo;
  u32 pos = mod->pos;
  hlo_instr *i = repl_find_instr(c->m, name);
  while (!i && mod->at->parent) {
    repl_goto(mod, mod->at->parent);
    i = hlo_find_instr(c->m, *name == '%' ? name + 1 : name);
  }
  if (i) *id = i->id, *found = i->name;
  repl_goto(mod, here);
  here->redo = redo;
  mod->pos = pos;
  return i != NULL;
}

// ---- why ------------------------------------------------------------------------------------------------------------------
hs_status cmd_why(repl_cmd *c) {
  // "why X", "why X not fused with Y": every word that names an instruction narrows the answer.
  u32 ids[2] = {UINT32_MAX, UINT32_MAX};
  const char *names[2] = {NULL, NULL};
  u32 n = 0;
  const char *p = c->args.raw;
  while (*p && n < 2) {
    p += strspn(p, " ");
    size_t len = strcspn(p, " ?");
    char *w = hs_arena_strndup(c->scratch, p, len);
    static const char *const filler[] = {"not", "fused", "with", "and", "is", "was", "to", "in", "into"};
    bool skip = len == 0;
    for (size_t k = 0; n > 0 && k < HS_COUNT(filler); k++) skip |= strcmp(filler[k], w) == 0;
    if (!skip && id_in_history(c, w, &ids[n], &names[n])) n++;
    else if (n == 0 && len) return repl_no_object(c->m, w);
    p += len + (p[len] == '?');
  }
  // An instruction that passes replaced lives on in those that stem from it.
  bool *heirs = n == 1 ? heirs_of(c, ids[0]) : NULL;
  bool only_not = strstr(c->args.raw, " not") != NULL;
  repl_json *list = repl_json_array(c->doc, "notes");
  u32 said = 0;
  for (const repl_version *v = c->mod->at; v; v = v->parent)
    for (size_t k = 0; k < v->notes.n; k++) {
      const pass_note *note = &v->notes.v[k];
      bool about = note->instr == ids[0] || note->other == ids[0] || (heirs && note->instr < c->m->next_instr_id && heirs[note->instr]);
      if (n == 2) about = about && (note->instr == ids[1] || note->other == ids[1]);
      if (!about || (only_not && note->done)) continue;
      said++;
      if (!c->doc) repl_say(c->out, "@%u %s: %s\n", v->number, note->pass, note->text);
      repl_json *j = repl_json_object(list, NULL);
      repl_json_int(j, "version", v->number);
      repl_json_str(j, "pass", note->pass);
      repl_json_bool(j, "done", note->done);
      repl_json_str(j, "text", note->text);
    }
  if (said || c->doc) return HS_GOOD;
  if (c->mod->at->number == 0) repl_note(c->out, "no pass has run on this module yet");
  else repl_note(c->out, "no pass of this version's history left a note about %s%s%s", names[0], n == 2 ? " and " : "", n == 2 ? names[1] : "");
  return HS_GOOD;
}
