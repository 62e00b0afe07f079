// pipeline.c — parses and runs pipelines. A pipeline is text: pass names separated by commas,
// name{key=value;...} with options, fix(a,b) for a fixpoint, and names of other pipelines. A name
// with a trailing '?' is skipped when this build has no such pass.
//
// The text is parsed into a small program (passes, and loops for fixpoints) before anything runs,
// so an unknown name or option fails first. A cursor is a position in a run; running a pipeline is
// stepping to its end, so both do the same. A fixpoint runs its passes in rounds until a whole
// round changes nothing. It is cut off after 25 rounds (XLA's limit, HloPassFix in
// xla/hlo/pass/hlo_pass_fix.h), when the module returns to an earlier state (the passes undo each
// other), or when it grows without bound; the warning names the passes that still changed it. A
// pass that found nothing to do is skipped until another pass has edited the module.
#include "passes/run/cache.h"

#define MAX_ROUNDS 25
// A fixpoint may grow the module to this many times its initial instructions, plus MIN_GROWTH.
#define MAX_GROWTH 50
#define MIN_GROWTH 10000

typedef struct parser {
  // the whole text, and the rest not parsed yet; name of the pipeline, or NULL
  const char *text, *p, *name;
  pipeline_program *out;
  const pass_registry *registry;
  const pass_pipelines *own;
  u32 depth, loops;
  // 1 + index in `out` of this pipeline's last item, when that is a pass; else 0
  u32 last;
  bool begun;
} parser;

static hs_status parse_list(parser *ps);

// Adds the position in the text to an error, unless the text is a single word or a nested pipeline
// has added one.
static hs_status with_position(const parser *ps, const char *at, hs_status s) {
  if (hs_ok(s) || s.err->file || !strpbrk(ps->text, ",({")) return s;
  return hs_with_place(s, ps->name ? ps->name : "<pipeline>", 1, (u32)(at - ps->text) + 1,
                       hs_str_of(ps->text));
}

// Tells the pass before this item in the list the name of the item, which XLA's dumps use in the
// names of files ("after_PASS.before_NEXT").
static void set_successor(parser *ps, const char *name) {
  if (ps->last) ps->out->ops.v[ps->last - 1].before = name;
  ps->last = 0;
}

static void emit(parser *ps, pipeline_op op) {
  op.pipeline = ps->name;
  hs_vec_push(&ps->out->ops, op);
}

static void emit_pass(parser *ps, pipeline_op op) {
  set_successor(ps, op.pass->name);
  op.first = !ps->begun;
  op.before = "pipeline-end";
  op.number = ++ps->out->npasses;
  const pipeline_op *all = ps->out->ops.v;
  for (op.same = 0; op.same < ps->out->ops.n; op.same++)
    if (all[op.same].pass == op.pass && strcmp(all[op.same].text, op.text) == 0) break;
  ps->begun = true;
  emit(ps, op);
  ps->last = (u32)ps->out->ops.n;
}

static void skip_blank(parser *ps) {
  while (*ps->p == ' ' || *ps->p == '\n' || *ps->p == '\t') ps->p++;
}

static bool is_name_char(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
         c == '_' || c == '.';
}

static char *trimmed(hs_arena *a, const char *from, const char *to) {
  while (from < to && (*from == ' ' || *from == '\n' || *from == '\t')) from++;
  while (from < to && (to[-1] == ' ' || to[-1] == '\n' || to[-1] == '\t')) to--;
  return hs_arena_strndup(a, from, (size_t)(to - from));
}

static hs_status parse_options(parser *ps, pass_options *out) {
  HS_VEC(struct pass_option) v = {0};
  ps->p++;
  for (;;) {
    while (*ps->p == ' ' || *ps->p == ';' || *ps->p == ',') ps->p++;
    if (*ps->p == '}' || *ps->p == '\0') break;
    const char *key = ps->p;
    while (*ps->p && !strchr("=;,}", *ps->p)) ps->p++;
    char *k = trimmed(&ps->out->arena, key, ps->p),
         *value = hs_arena_strndup(&ps->out->arena, "true", 4);
    if (*ps->p == '=') {
      const char *val = ++ps->p;
      while (*ps->p && !strchr(";,}", *ps->p)) ps->p++;
      value = trimmed(&ps->out->arena, val, ps->p);
    }
    struct pass_option o = {k, value};
    hs_vec_push(&v, o);
  }
  bool closed = *ps->p == '}';
  ps->p += closed;
  *out =
      (pass_options){(u32)v.n, v.n ? hs_arena_dup(&ps->out->arena, v.v, v.n * sizeof *v.v) : NULL};
  hs_vec_free(&v);
  return closed ? HS_GOOD : hs_fail(HS_E_USAGE, "pipeline: '{' without '}'");
}

static hs_status parse_fix(parser *ps) {
  u32 begin = (u32)ps->out->ops.n;
  const char *open = ps->p;
  if (ps->loops == PIPELINE_MAX_LOOPS)
    return with_position(
        ps, open, hs_fail(HS_E_LIMIT, "pipeline: fix nested deeper than %d", PIPELINE_MAX_LOOPS));
  ps->p++;
  ps->loops++;
  emit(ps, (pipeline_op){.kind = PIPELINE_FIX});
  HS_TRY(parse_list(ps));
  if (*ps->p != ')')
    return with_position(ps, open, hs_fail(HS_E_USAGE, "pipeline: '(' without ')'"));
  ps->p++;
  ps->loops--;
  emit(ps, (pipeline_op){.kind = PIPELINE_END, .begin = begin});
  return HS_GOOD;
}

static const pass_pipeline *find_pipeline(const parser *ps, const char *name) {
  for (u32 k = 0; ps->own && k < ps->own->n; k++)
    if (strcmp(ps->own->v[k].name, name) == 0) return &ps->own->v[k];
  return pipeline_find(ps->registry, name);
}

static hs_status parse_named(parser *ps, const pass_pipeline *named) {
  parser sub = {.text = named->text,
                .p = named->text,
                .name = named->name,
                .out = ps->out,
                .registry = ps->registry,
                .own = ps->own,
                .depth = ps->depth + 1,
                .loops = ps->loops};
  if (sub.depth > PIPELINE_MAX_LOOPS)
    return hs_fail(HS_E_LIMIT, "pipeline %s: nested deeper than %d (does it name itself?)",
                   named->name, PIPELINE_MAX_LOOPS);
  set_successor(ps, named->name);
  ps->begun = true;
  HS_TRY(parse_list(&sub));
  return *sub.p == ')'
             ? with_position(&sub, sub.p,
                             hs_fail(HS_E_USAGE, "pipeline %s: ')' without '('", named->name))
             : HS_GOOD;
}

static hs_status parse_item(parser *ps) {
  const char *start = ps->p;
  while (is_name_char(*ps->p)) ps->p++;
  const char *name = hs_arena_strndup(&ps->out->arena, start, (size_t)(ps->p - start));
  if (!*name && *start == '{')
    return with_position(
        ps, start,
        hs_fail(HS_E_USAGE, "pipeline: options stand right behind a pass's name, without a space"));
  if (!*name)
    return with_position(ps, start,
                         hs_fail(HS_E_USAGE, "pipeline: a pass name is missing at '%.20s'", start));
  if (*ps->p == '(' && strcmp(name, "fix") == 0) return parse_fix(ps);
  pipeline_op op = {.kind = PIPELINE_PASS, .pass = pass_find(ps->registry, name)};
  const pass_pipeline *named = op.pass ? NULL : find_pipeline(ps, name);
  const char *options = ps->p;
  if (*options == '{') HS_TRY(with_position(ps, options, parse_options(ps, &op.options)));
  op.text = op.options.n ? hs_arena_strndup(&ps->out->arena, start, (size_t)(ps->p - start))
            : op.pass    ? op.pass->name
                         : name;
  if (op.pass) HS_TRY(with_position(ps, options, pass_check_options(op.pass, &op.options)));
  if (named && op.options.n)
    return with_position(ps, options,
                         hs_fail_subject(HS_E_USAGE, name, "pipeline %s takes no options", name));
  bool optional = *ps->p == '?';
  ps->p += optional;
  if (named) return parse_named(ps, named);
  if (op.pass) emit_pass(ps, op);
  if (!op.pass && !optional)
    return with_position(ps, start, pass_unknown(ps->registry, ps->own, name));
  return strchr(",) \n\t", *ps->p)
             ? HS_GOOD
             : with_position(ps, ps->p,
                             hs_fail(HS_E_USAGE, "pipeline: a comma is missing at '%.20s'", ps->p));
}

static hs_status parse_list(parser *ps) {
  for (;;) {
    while (skip_blank(ps), *ps->p == ',') ps->p++;
    if (*ps->p == '\0' || *ps->p == ')') return HS_GOOD;
    HS_TRY(parse_item(ps));
  }
}

hs_status pipeline_parse(const char *text, const pass_registry *registry, const pass_pipelines *own,
                         pipeline_program **out) {
  pipeline_program *p = hs_calloc(1, sizeof *p);
  p->text = hs_arena_strndup(&p->arena, text, strlen(text));
  p->cache = pass_cache_new();
  parser ps = {.text = p->text, .p = p->text, .out = p, .registry = registry, .own = own};
  hs_status s = parse_list(&ps);
  if (hs_ok(s) && *ps.p == ')')
    s = with_position(&ps, ps.p, hs_fail(HS_E_USAGE, "pipeline: ')' without '('"));
  *out = hs_ok(s) ? p : NULL;
  if (!hs_ok(s)) pipeline_free(p);
  return s;
}

void pipeline_free(pipeline_program *p) {
  if (!p) return;
  hs_vec_free(&p->ops);
  hs_arena_free(&p->arena);
  pass_cache_free(p->cache);
  hs_free(p);
}

// ---- running ------------------------------------------------------------------------------------
// "dce, cse": the passes of a loop that changed something since execution `since`.
static void changed_since(const pipeline_program *p, u32 begin, u32 end, u64 since, hs_buf *b) {
  bool first = true;
  for (u32 k = begin; k < end; k++) {
    if (p->ops.v[k].kind != PIPELINE_PASS || p->ops.v[k].changed_at <= since) continue;
    hs_buf_printf(b, "%s%s", first ? "" : ", ", p->ops.v[k].text);
    first = false;
  }
}

// Whether the module is in the state of one of the last rounds. Fingerprints are computed only when
// the counts of opcodes agree.
static bool repeats_state(pipeline_loop *l, const hlo_module *m) {
  u64 counts = hs_hash_bytes(m->nops, sizeof m->nops, m->ncomputations), print = 0;
  bool again = false;
  for (u32 k = 0; k < HS_COUNT(l->counts); k++) {
    if (l->counts[k] != counts) continue;
    if (!print) print = hlo_fingerprint(m);
    again |= l->prints[k] == print;
  }
  l->counts[l->round % HS_COUNT(l->counts)] = counts;
  l->prints[l->round % HS_COUNT(l->prints)] = print;
  return again;
}

// Whether a fixpoint has another round. Rounds after the first may be restricted to recent edits
// (pass_edited); once they find nothing, one more round visits everything.
static bool another_round(pipeline_program *p, pipeline_cursor *at, const hlo_module *m,
                          const pass_run_options *o) {
  pipeline_loop *l = &at->loops[at->depth - 1];
  if (m->generation == l->generation) {
    bool had_whole = l->whole;
    l->whole = false;
    for (u32 k = l->begin; k < at->at; k++)
      l->whole |= p->ops.v[k].kind == PIPELINE_PASS && p->ops.v[k].partial;
    return l->whole && !had_whole;
  }
  l->whole = false;
  hs_buf b = {0};
  bool again = ++l->round < MAX_ROUNDS;
  // Fingerprints cost time, and most fixpoints converge within three rounds.
  if (l->round >= 3 && repeats_state(l, m)) {
    again = false;
    hs_buf_puts(&b, "passes undo each other, the fixpoint was ended: ");
  }
  u32 now = hlo_instr_count(m);
  if (!again && !b.n)
    hs_buf_printf(&b, "no fixpoint after %d rounds, still changing: ", MAX_ROUNDS);
  if (again && now > MAX_GROWTH * l->instructions + MIN_GROWTH) {
    again = false;
    hs_buf_printf(&b, "no fixpoint after %u rounds, the module grew from %u to %u instructions: ",
                  l->round, l->instructions, now);
  }
  if (!again) {
    changed_since(p, l->begin, at->at, l->executed, &b);
    if (o->warn) o->warn(o->warn_arg, hs_buf_cstr(&b));
  }
  hs_buf_free(&b);
  l->generation = m->generation;
  l->executed = at->executed;
  return again;
}

const pipeline_op *pipeline_next(pipeline_program *p, pipeline_cursor *at, const hlo_module *m,
                                 const pass_run_options *o) {
  for (; at->at < p->ops.n; at->at++) {
    const pipeline_op *op = &p->ops.v[at->at];
    if (op->kind == PIPELINE_FIX) {
      if (!at->depth) pass_cache_new_era(p->cache);
      at->loops[at->depth++] = (pipeline_loop){.begin = at->at,
                                               .instructions = hlo_instr_count(m),
                                               .generation = m->generation,
                                               .executed = at->executed};
    } else if (op->kind == PIPELINE_END) {
      if (another_round(p, at, m, o)) at->at = op->begin;
      else at->depth--;
    } else if (p->ops.v[op->same].idle_at == m->generation + 1) {
      continue;
    } else if (!op->idle || op->generation != m->generation ||
               (op->partial && at->depth && at->loops[at->depth - 1].whole)) {
      return op;
    }
  }
  return NULL;
}

// Adds to a pass's error which execution failed: options, position in the pipeline, round.
static hs_status name_run(const pipeline_program *p, const pipeline_cursor *at,
                          const pipeline_op *op, hs_status s) {
  if (s.err->code != HS_E_PASS) return s;
  hs_free(s.err->subject);
  s.err->subject = hs_strdup(op->text);
  u32 round = at->depth ? at->loops[at->depth - 1].round : 0;
  if (p->npasses == 1) return s;
  return round ? hs_with_note(s, "it was pass %u of %u, in round %u", op->number, p->npasses,
                              round + 1)
               : hs_with_note(s, "it was pass %u of %u", op->number, p->npasses);
}

hs_status pipeline_step(hlo_module *m, pipeline_program *p, pipeline_cursor *at,
                        const pass_run_options *o, pass_log *log, const pipeline_op **next) {
  pipeline_op *op = &p->ops.v[at->at];
  HS_ASSERT(at->at < p->ops.n && op->kind == PIPELINE_PASS);
  pass_run_options mine = *o;
  mine.cache = p->cache;
  mine.noted = at->depth != 0;  // only fixpoints use the record of edits
  const pipeline_loop *l = at->depth ? &at->loops[at->depth - 1] : NULL;
  pass_since now = pass_cache_now(p->cache, m);
  if (l && l->round && !l->whole) mine.since = op->since;
  // The totals before a pass are those after the one before it.
  mine.measure = o->measure && (!log || log->n == 0);
  pass_result r;
  if (o->progress) o->progress(o->progress_arg, m, &(pipeline_event){p, op, NULL});
  hs_status s = pass_run(m, op->pass, &op->options, &mine, &r);
  if (!hs_ok(s)) return name_run(p, at, op, s);
  if (o->measure && log && log->n > 0) {
    r.before = log->v[log->n - 1].after;
    r.after = r.before;
    if (r.changed) HS_TRY(pass_measure(m, o, &r.after));
  }
  r.pipeline = op->pipeline;
  op->idle = !r.changed;
  op->partial = r.partial;
  op->since = now;
  op->generation = m->generation;
  if (op->idle && !op->partial) p->ops.v[op->same].idle_at = m->generation + 1;
  at->executed++;
  at->at++;
  if (r.changed) op->changed_at = at->executed;
  if (log) hs_vec_push(log, r);
  *next = pipeline_next(p, at, m, o);
  if (o->progress) o->progress(o->progress_arg, m, &(pipeline_event){p, op, &r});
  return HS_GOOD;
}

hs_status pipeline_verify(const hlo_module *m, const pass_run_options *o) {
  if (!o->verify || o->verify_all) return HS_GOOD;  // disabled, or done after every pass
  hs_status s = hlo_verify(m, NULL);
  if (hs_ok(s)) return s;
  return hs_chain(
      hs_with_note(
          hs_fail(HS_E_VERIFY,
                  "the pipeline left an invalid module, in a part that its passes had not edited"),
          "bisect with the condition verify names the pass"),
      s);
}

hs_status pipeline_run(hlo_module *m, const char *text, const pass_run_options *o, pass_log *log) {
  pipeline_program *p;
  HS_TRY(pipeline_parse(text, o->registry, o->own, &p));
  pipeline_cursor at = {0};
  hs_status s = HS_GOOD;
  u64 generation = m->generation;
  const pipeline_op *next = pipeline_next(p, &at, m, o);
  while (hs_ok(s) && next) {
    s = hs_poll();
    if (hs_ok(s)) s = pipeline_step(m, p, &at, o, log, &next);
  }
  pipeline_free(p);
  return hs_ok(s) && m->generation != generation ? pipeline_verify(m, o) : s;
}
