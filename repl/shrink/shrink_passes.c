// shrink_passes.c: the shortest pipeline with which a case still has its fault, and of its last
// pass the fewest rewrites. See shrink.h.
//
// The pipeline is taken as a list: its passes once each, without its loops, or, where the fault
// needs those, the passes that changed the module in the order in which they ran. From the list go
// halves, quarters and at last single passes (delta debugging); of a single pass that is left, the
// limit of rewrites is found by bisection, as `bisect` does.
#include "repl/shrink/shrink.h"

// ---- a parsed pipeline --------------------------------------------------------------------------
// Passes remember in the program what they found idle; each run begins as after parsing.
void shrink_pipeline_free(shrink_pipeline *p) {
  if (p->program) pipeline_free(p->program);
  hs_free(p->fresh);
  hs_free(p->text);
  *p = (shrink_pipeline){.limit = -1};
}

static hs_status parse(const shrink_search *s, const char *text, shrink_pipeline *out) {
  const repl_session *session = s->t.c->s;
  *out = (shrink_pipeline){.limit = -1};
  HS_TRY(pipeline_parse(text, session->passes, &session->pipelines, &out->program));
  size_t bytes = out->program->ops.n * sizeof *out->fresh;
  out->text = hs_strdup(text);
  out->fresh = hs_alloc(bytes + 1);
  if (bytes) memcpy(out->fresh, out->program->ops.v, bytes);
  return HS_GOOD;
}

hs_status shrink_pipeline_set(shrink_search *s, const char *text) {
  shrink_pipeline now;
  HS_TRY(parse(s, text, &now));
  shrink_pipeline_free(&s->passes);
  s->passes = now;
  s->pipeline = now.text;
  return HS_GOOD;
}

hs_status shrink_pipeline_run(shrink_search *s, hlo_module *m, pass_run_options *o) {
  pipeline_program *p = s->passes.program;
  if (p->ops.n) memcpy(p->ops.v, s->passes.fresh, p->ops.n * sizeof *p->ops.v);
  o->rewrite_limit = s->passes.limit;
  pipeline_cursor at = {0};
  u64 generation = m->generation;
  hs_status st = HS_GOOD;
  const pipeline_op *next = pipeline_next(p, &at, m, o);
  while (hs_ok(st) && next) {
    st = hs_poll();
    if (hs_ok(st)) st = pipeline_step(m, p, &at, o, NULL, &next);
  }
  return hs_ok(st) && m->generation != generation ? pipeline_verify(m, o) : st;
}

// ---- lists of passes ----------------------------------------------------------------------------
typedef HS_VEC(const char *) pass_list;  // as written, with options; in the command's scratch arena

static void add(const shrink_search *s, pass_list *l, const char *text) {
  hs_vec_push(l, hs_arena_strndup(s->t.c->scratch, text, strlen(text)));
}

static char *joined(const pass_list *l, size_t from, size_t to) {  // without from..to-1
  hs_buf b = {0};
  for (size_t k = 0; k < l->n; k++)
    if (k < from || k >= to) hs_buf_printf(&b, "%s%s", b.n ? "," : "", l->v[k]);
  char *text = hs_strdup(hs_buf_cstr(&b));
  hs_buf_free(&b);
  return text;
}

typedef struct executed {
  const shrink_search *s;
  pass_list *list;
  i64 rewrites;
} executed;

static void on_event(void *arg, const hlo_module *m, const pipeline_event *e) {
  (void)m;
  executed *x = arg;
  if (!e->result || !e->result->changed) return;
  add(x->s, x->list, e->op->text);
  x->rewrites += e->result->rewrites;
}

// The passes that change the case, in the order in which they do; how many rewrites they make.
static hs_status run_once(shrink_search *s, pass_list *out, i64 *rewrites) {
  executed x = {s, out, 0};
  pass_run_options o = pass_run_default();
  o.measure = o.verify = false;
  o.registry = s->t.c->s->passes;
  o.own = &s->t.c->s->pipelines;
  o.progress = on_event;
  o.progress_arg = &x;
  hlo_module *m = hlo_module_clone(s->best.m, NULL);
  hs_status st = shrink_pipeline_run(s, m, &o);
  hlo_module_free(m);
  *rewrites = x.rewrites;
  if (hs_ok(st) || hs_is_stop(st)) return st;
  hs_status_drop(st);  // a pass that fails is what is looked for
  return HS_GOOD;
}

// A candidate: the best case with that pipeline (taken).
static hs_status with_pipeline(const shrink_search *s, char *take, i64 limit,
                               shrink_candidate *out) {
  *out = (shrink_candidate){.doing = "looking for the passes with the fault"};
  hs_status st = parse(s, take, &out->passes);
  out->passes.limit = limit;
  hs_free(take);
  return st;
}

// Likewise; false when the text cannot be parsed again.
static bool is_candidate(const shrink_search *s, char *take, i64 limit, shrink_candidate *out) {
  hs_status st = with_pipeline(s, take, limit, out);
  bool parsed = hs_ok(st);
  hs_status_drop(st);
  return parsed;
}

static hs_status try_pipeline(shrink_search *s, char *take, bool *kept) {
  shrink_candidate c;
  *kept = false;
  HS_TRY(with_pipeline(s, take, -1, &c));
  return shrink_try(s, &c, kept);
}

// The list without the passes start..from-1; false also when they cannot be parsed again.
static bool next_list(const shrink_search *s, shrink_sequence *q, shrink_candidate *out) {
  const pass_list *l = q->of;
  shrink_place *p = &q->at;
  for (; p->part; p->part /= 2, p->from = 0) {
    if (p->from >= l->n || l->n < 2 || p->part >= l->n) continue;
    p->start = p->from;
    p->from = HS_MIN((u32)l->n, p->from + p->part);
    return is_candidate(s, joined(l, p->start, p->from), -1, out);
  }
  return false;
}

static hs_status fewer(shrink_search *s, pass_list *l) {
  shrink_sequence q = {.next = next_list, .of = l, .at.part = (u32)l->n / 2};
  for (bool kept = true; kept;) {
    HS_TRY(shrink_first(s, &q, &kept));
    if (!kept) break;
    memmove(l->v + q.at.start, l->v + q.at.from, (l->n - q.at.from) * sizeof *l->v);
    l->n -= q.at.from - q.at.start;
    q.at.from = q.at.start;
  }
  return HS_GOOD;
}

// from: the most rewrites that are known not to be enough; to: the fewest that are.
static bool next_limit(const shrink_search *s, shrink_sequence *q, shrink_candidate *out) {
  shrink_place *p = &q->at;
  if (p->to - p->from < 2 || p->to < p->from) return false;
  p->start = p->from;
  p->from += (p->to - p->from) / 2;
  return is_candidate(s, hs_strdup(s->pipeline), p->from, out);
}

// The fewest rewrites of a single pass.
static hs_status fewest_rewrites(shrink_search *s) {
  pass_list none = {0};
  i64 most = 0;
  s->passes.limit = -1;
  hs_status st = run_once(s, &none, &most);
  hs_vec_free(&none);
  shrink_sequence q = {.next = next_limit, .at.to = (u32)HS_MIN(most, (i64)UINT32_MAX)};
  for (bool kept = true; kept && hs_ok(st);) {
    st = shrink_first(s, &q, &kept);
    if (kept) q.at.to = q.at.from, q.at.from = q.at.start;
  }
  return st;
}

hs_status shrink_passes(shrink_search *s) {
  if (!s->pipeline) return HS_GOOD;
  pass_list l = {0};
  bool kept = false, loops = false;
  s->passes.limit = -1;
  for (size_t k = 0; k < s->passes.program->ops.n; k++) {
    const pipeline_op *op = &s->passes.program->ops.v[k];
    if (op->kind == PIPELINE_PASS) add(s, &l, op->text);
    else loops = true;
  }
  hs_status st = HS_GOOD;
  if (l.n > 1 || loops) {
    st = try_pipeline(s, joined(&l, 0, 0), &kept);
    if (hs_ok(st) && !kept) {  // the loops are needed: what they did, one after another
      i64 rewrites;
      l.n = 0;
      st = run_once(s, &l, &rewrites);
      if (hs_ok(st) && l.n) st = try_pipeline(s, joined(&l, 0, 0), &kept);
    }
  } else {
    kept = true;
  }
  if (hs_ok(st) && kept) st = fewer(s, &l);
  if (hs_ok(st) && kept && l.n == 1 && s->t.kind != BISECT_CRASH) st = fewest_rewrites(s);
  hs_vec_free(&l);
  return st;
}
