// pipeline.c — pipelines are text: pass names separated by commas, name{key=value;...} with options, fix(a,b) for a
// fixpoint, and names of other pipelines. A name with a trailing '?' is left out when this build has no such pass.
//
// The text is parsed into a tree before anything runs, so an unknown name fails first. A fixpoint runs its passes in
// rounds until a whole round changes nothing (at most 25, XLA's limit); within it a pass whose last run found nothing to
// do is not asked again until some other pass has edited the module.
#include "passes/pass.h"

#define MAX_ROUNDS 25
#define MAX_DEPTH 16

const pass_pipeline pipeline_table[] = {
#define PIPELINE(name, summary, text) {name, summary, text},
#include "passes/pipelines.def"
#undef PIPELINE
};
const u32 pipeline_count = (u32)HS_COUNT(pipeline_table);

const pass_pipeline *pipeline_find(const char *name) {
  for (u32 k = 0; k < pipeline_count; k++)
    if (strcmp(pipeline_table[k].name, name) == 0) return &pipeline_table[k];
  return NULL;
}

typedef struct node node;
struct node {
  const pass_info *pass;      // NULL: a fixpoint or a named pipeline
  pass_options options;
  bool fix;
  const char *pipeline;       // name of the pipeline it stands in
  node *first, *next;
  bool idle;                  // the last run changed nothing ...
  u64 generation;             // ... and this was the module's generation then
};

typedef struct parser { const char *p, *pipeline; hs_arena *a; int depth; } parser;

static hs_status parse_list(parser *ps, node **out);

static void skip_blank(parser *ps) {
  while (*ps->p == ' ' || *ps->p == '\n' || *ps->p == '\t') ps->p++;
}

static bool is_name_char(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '_' || c == '.';
}

static hs_status parse_options(parser *ps, pass_options *out) {
  HS_VEC(struct pass_option) v = {0};
  ps->p++;
  for (;;) {
    while (*ps->p == ' ' || *ps->p == ';' || *ps->p == ',') ps->p++;
    if (*ps->p == '}' || *ps->p == '\0') break;
    const char *key = ps->p;
    while (*ps->p && !strchr("=;,}", *ps->p)) ps->p++;
    char *k = hs_arena_strndup(ps->a, key, (size_t)(ps->p - key)), *value = hs_arena_strndup(ps->a, "true", 4);
    if (*ps->p == '=') {
      const char *val = ++ps->p;
      while (*ps->p && !strchr(";,}", *ps->p)) ps->p++;
      value = hs_arena_strndup(ps->a, val, (size_t)(ps->p - val));
    }
    struct pass_option o = {k, value};
    hs_vec_push(&v, o);
  }
  bool closed = *ps->p == '}';
  if (closed) ps->p++;
  *out = (pass_options){(u32)v.n, v.n ? hs_arena_dup(ps->a, v.v, v.n * sizeof *v.v) : NULL};
  hs_vec_free(&v);
  return closed ? HS_GOOD : hs_fail(HS_E_USAGE, "pipeline: '{' without '}'");
}

static hs_status parse_item(parser *ps, node **out) {
  const char *start = ps->p;
  while (is_name_char(*ps->p)) ps->p++;
  char *name = hs_arena_strndup(ps->a, start, (size_t)(ps->p - start));
  if (!*name) return hs_fail(HS_E_USAGE, "pipeline: a pass name is missing at '%.20s'", start);
  node *n = HS_NEW(ps->a, node);
  n->pipeline = ps->pipeline;
  *out = n;
  if (*ps->p == '(' && strcmp(name, "fix") == 0) {
    n->fix = true;
    ps->p++;
    if (++ps->depth > MAX_DEPTH) return hs_fail(HS_E_LIMIT, "pipeline: nested deeper than %d", MAX_DEPTH);
    HS_TRY(parse_list(ps, &n->first));
    ps->depth--;
    if (*ps->p != ')') return hs_fail(HS_E_USAGE, "pipeline: '(' without ')'");
    ps->p++;
    return HS_GOOD;
  }
  n->pass = pass_find(name);
  const pass_pipeline *inner = n->pass ? NULL : pipeline_find(name);
  if (*ps->p == '{') HS_TRY(parse_options(ps, &n->options));
  if (inner) {
    parser sub = {inner->text, inner->name, ps->a, ps->depth + 1};
    if (sub.depth > MAX_DEPTH) return hs_fail(HS_E_LIMIT, "pipeline: nested deeper than %d", MAX_DEPTH);
    return parse_list(&sub, &n->first);
  }
  if (*ps->p == '?') {
    ps->p++;
    if (!n->pass) *out = NULL;
    return HS_GOOD;
  }
  return n->pass ? HS_GOOD : pass_unknown(name);
}

static hs_status parse_list(parser *ps, node **out) {
  node **tail = out;
  *out = NULL;
  for (;;) {
    while (skip_blank(ps), *ps->p == ',') ps->p++;
    if (*ps->p == '\0' || *ps->p == ')') return HS_GOOD;
    HS_TRY(parse_item(ps, tail));
    if (*tail) tail = &(*tail)->next;
  }
}

static hs_status parse_text(const char *text, hs_arena *a, node **out) {
  const pass_pipeline *named = pipeline_find(text);
  parser ps = {named ? named->text : text, named ? named->name : NULL, a, 0};
  HS_TRY(parse_list(&ps, out));
  return *ps.p == ')' ? hs_fail(HS_E_USAGE, "pipeline: ')' without '('") : HS_GOOD;
}

static hs_status run_nodes(hlo_module *m, node *list, const pass_run_options *o, pass_log *log);

static hs_status run_pass_node(hlo_module *m, node *n, const pass_run_options *o, pass_log *log) {
  if (n->idle && n->generation == m->generation) return HS_GOOD;
  pass_run_options mine = *o;
  mine.progress = NULL;
  // The totals before a pass are those after the one before it.
  mine.measure = o->measure && (!log || log->n == 0);
  pass_result r;
  HS_TRY(pass_run(m, n->pass, &n->options, &mine, &r));
  if (o->measure && log && log->n > 0) {
    r.before = log->v[log->n - 1].after;
    r.after = r.before;
    if (r.changed) HS_TRY(pass_measure(m, &r.after));
  }
  r.pipeline = n->pipeline;
  n->idle = !r.changed;
  n->generation = m->generation;
  if (log) hs_vec_push(log, r);
  if (o->progress) o->progress(o->progress_arg, &r);
  return HS_GOOD;
}

static hs_status run_nodes(hlo_module *m, node *list, const pass_run_options *o, pass_log *log) {
  for (node *n = list; n; n = n->next) {
    HS_TRY(hs_poll());
    if (n->pass) {
      HS_TRY(run_pass_node(m, n, o, log));
    } else {
      u64 before;
      int rounds = 0;
      do {
        before = m->generation;
        HS_TRY(run_nodes(m, n->first, o, log));
      } while (n->fix && m->generation != before && ++rounds < MAX_ROUNDS);
    }
  }
  return HS_GOOD;
}

hs_status pipeline_run(hlo_module *m, const char *text, const pass_run_options *o, pass_log *log) {
  hs_arena a = {0};
  node *list = NULL;
  hs_status s = parse_text(text, &a, &list);
  if (hs_ok(s)) s = run_nodes(m, list, o, log);
  hs_arena_free(&a);
  return s;
}

typedef HS_VEC(const char *) name_list;
static void flatten(const node *list, name_list *out) {
  for (const node *n = list; n; n = n->next) {
    if (n->pass) hs_vec_push(out, n->pass->name);
    else flatten(n->first, out);
  }
}

hs_status pipeline_flatten(const char *text, hs_arena *a, const char ***names, u32 *n) {
  node *list = NULL;
  HS_TRY(parse_text(text, a, &list));
  name_list v = {0};
  flatten(list, &v);
  *n = (u32)v.n;
  *names = v.n ? hs_arena_dup(a, v.v, v.n * sizeof *v.v) : NULL;
  hs_vec_free(&v);
  return HS_GOOD;
}
