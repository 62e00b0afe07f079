// step.c: next, until, continue, break, watch: stepping through a pipeline as in a debugger.
//
// The module keeps a parsed pipeline and a cursor in it (pass.h); every version remembers its
// cursor, so `back`, `undo` and `goto` move in the pipeline too. Each pass that changes the module
// is a step and makes a version, also within `continue`. Whatever stops the stepping, a breakpoint,
// a failing pass or Ctrl-C, leaves the module as it is before the next pass. A stop condition is
// one text with one syntax for `until` and `break`:
//
//   PASS               before that pass runs
//   changed X          when the instruction's text changes, or it is removed
//   verify-fails       when the verifier reports an error (passes are not verified or rolled back
//                      on the way)
//   EXPR               when an expression about the module holds: ops("dot") < 3, peak < 1M
#include "repl/cmd/cmd.h"
#include "repl/shell/measure_scope.h"

typedef enum stop_kind { STOP_PASS, STOP_CHANGED, STOP_INVALID, STOP_EXPR } stop_kind;

typedef struct stop {
  stop_kind kind;
  u32 number;  // of a breakpoint or watch; 0: until
  bool watch;
  const char *when, *name;  // as typed; the pass or the instruction
  u64 before;               // hash of the instruction's text
  bool hit;
} stop;

// What the next step runs: a pass of the pipeline, or the next version's.
// pass: NULL at the end; text: with its options
typedef struct coming {
  const char *pass, *text;
} coming;

typedef struct stepper {
  repl_cmd *c;
  coming next;
  i64 left;  // changes to go; -1: no end
  HS_VEC(stop) stops;
  bool verify;
} stepper;

// ---- what comes next ----------------------------------------------------------------------------
// A module read from a dump has its versions already: stepping moves along them, unless another
// pipeline is named.
static bool steps_versions(const repl_cmd *c) { return c->mod->imported && !c->mod->stepping; }

static coming coming_op(const pipeline_op *op) {
  return op ? (coming){op->pass->name, op->text} : (coming){0};
}

static coming coming_version(const repl_cmd *c) {
  const repl_version *v = c->mod->at->redo;
  return v && v->log.n ? (coming){v->log.v[0].pass, v->log.v[0].pass} : (coming){0};
}

// Advances the cursor to what runs next. A second call changes nothing unless the cursor was moved
// in between.
static coming find_next(repl_cmd *c) {
  if (steps_versions(c)) return coming_version(c);
  pass_run_options o = cmd_pass_options(c);
  return coming_op(pipeline_next(c->mod->stepping, &c->mod->cursor, c->m, &o));
}

// A pass as shown in lines and labels: without long options.
static char *brief(const char *text) {
  return strlen(text) <= 60 ? hs_strdup(text)
                            : hs_format("%.*s{...}", (int)strcspn(text, "{"), text);
}

// One step, and what comes after it; says what it changed when its log is not the command's own.
static hs_status take_step(stepper *w, const pass_run_options *o, bool *changed) {
  repl_cmd *c = w->c;
  if (steps_versions(c)) {
    repl_goto(c->mod, c->mod->at->redo);
    cmd_say_log(c, &c->mod->at->log, 0, false);
    w->next = coming_version(c);
    *changed = true;
    return HS_GOOD;
  }
  const char *text = w->next.text;
  const pipeline_op *next = NULL;
  HS_TRY(
      cmd_pass_failed(c, pipeline_step(c->m, c->mod->stepping, &c->mod->cursor, o, c->log, &next)));
  w->next = coming_op(next);
  *changed = c->log->v[c->log->n - 1].changed;
  if (!*changed) return HS_GOOD;
  char *pass = brief(text), *label = hs_format("%s: %s", c->command->name, pass);
  repl_version *v = repl_settle(c, label, c->log->n - 1);
  hs_free(pass);
  hs_free(label);
  if (v) v->stepped = true;
  return HS_GOOD;
}

// ---- conditions ---------------------------------------------------------------------------------
static void instr_text(const repl_cmd *c, const char *name, hs_buf *b) {
  const hlo_instr *i = hlo_find_instr(c->m, name);
  hlo_print_options o = hlo_print_default();
  o.print_metadata = false;
  b->n = 0;
  if (i) hlo_print_instr(b, i, &o);
  hs_buf_cstr(b);
}

static u64 instr_hash(const repl_cmd *c, const char *name) {
  hs_buf b = {0};
  instr_text(c, name, &b);
  u64 h = hs_hash_bytes(b.p, b.n, 1);
  hs_buf_free(&b);
  return h;
}

// A pass by the name under which the steps report it: ours, or one in the history of a dump. NULL
// when there is none.
static const char *known_pass(const repl_cmd *c, const char *name) {
  for (size_t k = 0; c->mod && k < c->mod->versions.n; k++) {
    const pass_log *log = &c->mod->versions.v[k]->log;
    if (c->mod->versions.v[k]->stepped && log->n && pass_same_name(log->v[0].pass, name))
      return log->v[0].pass;
  }
  const pass_info *p = pass_find(c->s->passes, name);
  return p ? p->name : NULL;
}

// stale: an instruction that has been removed is not an error, as while stepping.
static hs_status parse_stop(repl_cmd *c, const char *when, bool stale, stop *out) {
  *out = (stop){.when = when};
  if (strcmp(when, "changed") == 0) {
    return repl_usage_error(c, "changed X: which instruction?");
  } else if (strncmp(when, "changed ", 8) == 0) {
    const char *name = when + 8 + strspn(when + 8, " ");
    const hlo_instr *i = repl_find_instr(c->m, name);
    if (!i && !stale) return repl_no_object(c->m, name);
    out->kind = STOP_CHANGED;
    out->name = i ? i->name : name;
    out->before = instr_hash(c, out->name);
  } else if (strcmp(when, "verify-fails") == 0) {
    out->kind = STOP_INVALID;
  } else if (known_pass(c, when)) {
    out->kind = STOP_PASS;
    out->name = known_pass(c, when);
  } else if (!strpbrk(when, "<>=~( ") && strcmp(when, "valid") != 0) {
    hs_status s = pass_unknown(c->s->passes, NULL, when);
    return hs_with_note(
        s, "%s takes a pass, changed X, verify-fails, or an expression such as ops < 100",
        c->command->name);
  } else {
    out->kind = STOP_EXPR;
    repl_module_scope ms;
    repl_value v;
    HS_TRY(repl_module_scope_open(&ms, c->m, c->s->target, c->mod->at->number));
    repl_scope scope = repl_scope_of_module(&ms);
    // an invalid expression is reported before anything runs
    HS_TRY(repl_eval(when, &scope, &v));
  }
  return HS_GOOD;
}

static hs_status expression_holds(repl_cmd *c, const char *text, bool *yes) {
  repl_module_scope ms;
  HS_TRY(repl_module_scope_open(&ms, c->m, c->s->target, c->mod->at->number));
  repl_scope scope = repl_scope_of_module(&ms);
  repl_value v = {0};
  HS_TRY(repl_eval(text, &scope, &v));
  *yes = repl_truth(v);
  return HS_GOOD;
}

static void report_watch(stepper *w, stop *s, const char *pass) {
  hs_buf b = {0};
  instr_text(w->c, s->name, &b);
  if (!w->c->doc)
    repl_say(w->c->out, "watch %u: %s: %s%s\n", s->number, pass, b.n ? b.p : s->name,
             b.n ? "" : " is gone");
  s->before = hs_hash_bytes(b.p, b.n, 1);
  hs_buf_free(&b);
}

// Is a condition true after `pass` has run? (STOP_PASS: before the next one.)
static hs_status check_stop(stepper *w, stop *s, const char *pass, bool changed) {
  repl_cmd *c = w->c;
  s->hit = false;
  switch (s->kind) {
  case STOP_PASS: s->hit = w->next.pass && pass_same_name(w->next.pass, s->name); break;
  case STOP_CHANGED: s->hit = changed && instr_hash(c, s->name) != s->before; break;
  case STOP_EXPR: return expression_holds(c, s->when, &s->hit);
  case STOP_INVALID:
    if (!changed) break;
    hs_status v = hlo_verify(c->m, NULL);
    s->hit = !hs_ok(v);
    if (s->hit) repl_print_status(c->out, v);
    hs_status_drop(v);
    break;
  }
  if (s->hit && s->watch) report_watch(w, s, pass), s->hit = false;
  return HS_GOOD;
}

// ---- stepping -----------------------------------------------------------------------------------
static hs_status open_pipeline(repl_cmd *c, const char *text) {
  repl_module *mod = c->mod;
  if (!text && (mod->stepping || mod->imported)) return HS_GOOD;
  if (!text) text = "tuned";
  pipeline_program *p;
  HS_TRY(pipeline_parse(text, c->s->passes, &c->s->pipelines, &p));
  pipeline_free(mod->stepping);
  mod->stepping = p;
  mod->cursor = (pipeline_cursor){0};
  mod->steppings++;
  repl_note(c->out, "stepping through the pipeline %s: %u pass%s", text, p->npasses,
            p->npasses == 1 ? "" : "es");
  return HS_GOOD;
}

static void say_coming(repl_cmd *c, coming next) {
  repl_module *mod = c->mod;
  if (steps_versions(c)) {
    const repl_version *v = mod->at->redo;
    repl_json_int(c->doc, "position", mod->at->number);
    repl_json_int(c->doc, "of", (i64)mod->versions.n - 1);
    if (v) repl_json_str(c->doc, "next", v->label);
    if (!c->doc && v)
      repl_say(c->out, "[%u/%zu] next: %s\n", mod->at->number, mod->versions.n - 1, v->label);
    if (!c->doc && !v) repl_say(c->out, "end of the history\n");
    return;
  }
  u32 before = 0;
  for (u32 k = 0; k < mod->cursor.at; k++) before += mod->stepping->ops.v[k].kind == PIPELINE_PASS;
  repl_json_int(c->doc, "position", before);
  repl_json_int(c->doc, "of", mod->stepping->npasses);
  if (next.text) repl_json_str(c->doc, "next", next.text);
  if (c->doc) return;
  if (!next.text) {
    repl_say(c->out, "end of pipeline %s\n", mod->stepping->text);
    return;
  }
  u32 round = mod->cursor.depth ? mod->cursor.loops[mod->cursor.depth - 1].round : 0;
  char *pass = brief(next.text);
  repl_say(c->out, "[%u/%u] next: %s", before, mod->stepping->npasses, pass);
  hs_free(pass);
  repl_say(c->out, round ? " (round %u)\n" : "\n", round + 1);
}

void cmd_say_next(repl_cmd *c) { say_coming(c, find_next(c)); }

static void add_stops(stepper *w) {
  const repl_session *s = w->c->s;
  for (size_t k = 0; k < s->stops.n; k++) {
    stop t;
    hs_status st = parse_stop(w->c, s->stops.v[k].when, true, &t);
    t.number = s->stops.v[k].number;
    t.watch = s->stops.v[k].watch;
    if (hs_ok(st)) hs_vec_push(&w->stops, t);
    // an expression that does not fit this module waits for another one
    hs_status_drop(st);
  }
  for (size_t k = 0; k < w->stops.n; k++) w->verify &= w->stops.v[k].kind != STOP_INVALID;
}

static void on_event(void *arg, const hlo_module *m, const pipeline_event *e) {
  (void)m;
  cmd_pass_progress(arg, e);
}

// One step, and the stop conditions after it.
static hs_status step_once(stepper *w, const pass_run_options *o, const stop **hit) {
  bool changed = false;
  const char *last = w->next.text;
  HS_TRY(take_step(w, o, &changed));
  if (w->left > 0) w->left -= changed;
  for (size_t k = 0; k < w->stops.n; k++) {
    HS_TRY(check_stop(w, &w->stops.v[k], last, changed));
    if (w->stops.v[k].hit && !*hit) *hit = &w->stops.v[k];
  }
  return hs_poll();
}

// Steps until a stop is hit, `left` passes have changed something, or the pipeline ends. Steps
// completed before a failure are kept.
static hs_status run_stepper(stepper *w, const stop **hit) {
  repl_cmd *c = w->c;
  pass_run_options o = cmd_pass_options(c);
  u64 generation = c->m->generation;
  o.verify &= w->verify;
  o.progress = on_event;
  o.progress_arg = c->out;
  hs_status s = HS_GOOD;
  *hit = NULL;
  w->next = find_next(c);
  while (!*hit && w->left != 0 && hs_ok(s) && w->next.pass) s = step_once(w, &o, hit);
  repl_progress_end(c->out);
  if (hs_ok(s) && !w->next.pass && !steps_versions(c) && c->m->generation != generation)
    s = pipeline_verify(c->m, &o);
  if (!steps_versions(c)) cmd_say_log(c, c->log, 0, false);
  if (*hit && (*hit)->number && !c->doc)
    repl_say(c->out, "breakpoint %u: %s\n", (*hit)->number, (*hit)->when);
  if (*hit) repl_json_str(c->doc, "stopped_at", (*hit)->when);
  say_coming(c, w->next);
  return s;
}

static hs_status step_on(repl_cmd *c, i64 left) {
  stepper w = {.c = c, .left = left, .verify = true};
  const stop *hit;
  add_stops(&w);
  hs_status s = run_stepper(&w, &hit);
  hs_vec_free(&w.stops);
  return s;
}

hs_status cmd_next(repl_cmd *c) {
  i64 n = 1;
  if (repl_arg(c, 0)) HS_TRY(repl_arg_int(c, "N", repl_arg(c, 0), 1, INT32_MAX, &n));
  const char *pipeline;
  HS_TRY(repl_flag_pipeline(c, &pipeline));
  HS_TRY(open_pipeline(c, repl_flag(c, "--pipeline") ? pipeline : NULL));
  return step_on(c, n);
}

hs_status cmd_continue(repl_cmd *c) {
  HS_TRY(open_pipeline(c, NULL));
  return step_on(c, -1);
}

hs_status cmd_until(repl_cmd *c) {
  stepper w = {.c = c, .left = -1, .verify = true};
  stop until;
  HS_TRY(parse_stop(c, c->args.raw, false, &until));
  HS_TRY(open_pipeline(c, NULL));
  hs_vec_push(&w.stops, until);
  add_stops(&w);
  const stop *hit;
  hs_status s = run_stepper(&w, &hit);
  if (hs_ok(s) && !hit) repl_note(c->out, "the pipeline ended before \"%s\"", c->args.raw);
  hs_vec_free(&w.stops);
  return s;
}

// ---- breakpoints and watches --------------------------------------------------------------------
static hs_status list_stops(repl_cmd *c, bool watch) {
  repl_json *list = repl_json_array(c->doc, watch ? "watches" : "breakpoints");
  u32 n = 0;
  for (size_t k = 0; k < c->s->stops.n; k++) {
    const repl_stop *s = &c->s->stops.v[k];
    if (s->watch != watch) continue;
    n++;
    const char *when = watch ? s->when + strlen("changed ") : s->when;
    if (!c->doc) repl_say(c->out, "%3u  %s\n", s->number, when);
    repl_json *j = repl_json_object(list, NULL);
    repl_json_int(j, "number", s->number);
    repl_json_str(j, watch ? "instruction" : "when", when);
  }
  if (!n) repl_note(c->out, watch ? "nothing is watched" : "no breakpoints");
  return HS_GOOD;
}

static hs_status delete_stops(repl_cmd *c, bool watch, const char *which) {
  i64 number = 0;
  bool all = strcmp(which, "all") == 0;
  if (!all) HS_TRY(repl_arg_int(c, "N", which, 1, UINT32_MAX, &number));
  size_t kept = 0, before = c->s->stops.n;
  for (size_t k = 0; k < before; k++) {
    repl_stop *s = &c->s->stops.v[k];
    if (s->watch == watch && (all || s->number == number)) hs_free(s->when);
    else c->s->stops.v[kept++] = *s;
  }
  c->s->stops.n = kept;
  return kept < before || all
             ? HS_GOOD
             : hs_with_note(hs_fail(HS_E_NO_OBJECT, "there is no %s %s", c->command->name, which),
                            "%s lists them", c->command->name);
}

// `break WHEN`, `watch X`; without arguments the list; `delete N` or `delete all`.
static hs_status stop_command(repl_cmd *c, bool watch) {
  const char *raw = c->args.raw;
  if (!*raw) return list_stops(c, watch);
  if (strncmp(raw, "delete ", 7) == 0)
    return delete_stops(c, watch, raw + 7 + strspn(raw + 7, " "));
  HS_TRY(repl_needs_module(c, false));
  char *when = watch ? hs_format("changed %s", raw) : hs_strdup(raw);
  stop s;
  hs_status st = parse_stop(c, when, false, &s);
  if (!hs_ok(st)) {
    hs_free(when);
    return st;
  }
  repl_stop kept = {++c->s->next_stop, watch, when};
  hs_vec_push(&c->s->stops, kept);
  if (!c->doc) repl_say(c->out, "%s %u: %s\n", watch ? "watch" : "breakpoint", kept.number, raw);
  repl_json_int(c->doc, "number", kept.number);
  return HS_GOOD;
}

hs_status cmd_break(repl_cmd *c) { return stop_command(c, false); }
hs_status cmd_watch(repl_cmd *c) { return stop_command(c, true); }
