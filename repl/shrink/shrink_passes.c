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
static void parsed_free(shrink_pipeline *p) {
  if (p->program) pipeline_free(p->program);
  hs_free(p->fresh);
  hs_free(p->text);
  *p = (shrink_pipeline){.limit = -1};
}

void shrink_pipeline_free(shrink_search *s) { parsed_free(&s->passes); }

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
  parsed_free(&s->passes);
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
  if (hs_ok(st) || st.err->code == HS_E_INTERRUPTED) return st;
  hs_status_drop(st);  // a pass that fails is what is looked for
  return HS_GOOD;
}

static bool time_is_up(shrink_search *s) {
  s->out_of_time = s->end && hs_now_ns() > s->end;
  return s->out_of_time;
}

// Keeps the pipeline (taken) when the case has the fault with it.
static hs_status try_pipeline(shrink_search *s, char *take, bool *kept) {
  *kept = false;
  shrink_pipeline before = s->passes, now;
  hs_status st =
      time_is_up(s) ? hs_fail(HS_E_DEADLINE, "shrink: out of time") : parse(s, take, &now);
  hs_free(take);
  HS_TRY(st);
  char *why = NULL;
  s->passes = now;
  s->pipeline = now.text;
  s->tried++;
  st = shrink_judge(s, &s->best, &why);
  *kept = hs_ok(st) && why;
  if (*kept) {
    s->kept++;
    hs_free(s->fault);
    s->fault = why;
    parsed_free(&before);
    return st;
  }
  hs_free(why);
  parsed_free(&s->passes);
  s->passes = before;
  s->pipeline = before.text;
  return st;
}

static hs_status fewer(shrink_search *s, pass_list *l) {
  for (size_t part = l->n / 2; part; part /= 2)
    for (size_t from = 0; from < l->n && l->n > 1;) {
      size_t to = HS_MIN(l->n, from + part);
      bool kept;
      if (to - from == l->n) break;
      HS_TRY(try_pipeline(s, joined(l, from, to), &kept));
      if (!kept) {
        from = to;
        continue;
      }
      memmove(l->v + from, l->v + to, (l->n - to) * sizeof *l->v);
      l->n -= to - from;
    }
  return HS_GOOD;
}

// The fewest rewrites of a single pass.
static hs_status fewest_rewrites(shrink_search *s) {
  pass_list none = {0};
  i64 most = 0, good = 0;
  s->passes.limit = -1;
  hs_status st = run_once(s, &none, &most);
  hs_vec_free(&none);
  i64 bad = most;
  while (hs_ok(st) && bad - good > 1 && !time_is_up(s)) {
    char *why = NULL;
    s->passes.limit = good + (bad - good) / 2;
    s->tried++;
    st = shrink_judge(s, &s->best, &why);
    *(why ? &bad : &good) = s->passes.limit;
    hs_free(why);
  }
  s->passes.limit = hs_ok(st) && bad > 0 && bad < most ? bad : -1;
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
