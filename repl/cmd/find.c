// find.c — the query: find [PATTERN] [where EXPR] [order by KEY [desc|asc]] [limit N].
//
// PATTERN is an opcode, a part of a name, or a tree of them: dot(transpose(?), ?). Operands of
// commutative operations match in either order.
#include <ctype.h>
#include <stdlib.h>

#include "profiler/units.h"
#include "repl/cmd/cmd.h"
#include "repl/shell/gate.h"
#include "repl/shell/measure_scope.h"
#include "repl/shell/target.h"

typedef struct pattern pattern;
struct pattern {
  const char *word;
  hlo_opcode op;
  u32 n;
  pattern *kids[8];
  bool tree;
};

static bool word_char(char c) { return isalnum((unsigned char)c) || strchr("_.-*?%", c); }

static hs_status parse_pattern(hs_arena *a, const char **p, int depth, pattern **out) {
  while (**p == ' ') ++*p;
  const char *b = *p;
  while (**p && word_char(**p)) ++*p;
  if (*p == b)
    return hs_fail(HS_E_USAGE, "find: an opcode, a name or ? is expected at \"%.20s\"", b);
  if (depth > 20) return hs_fail(HS_E_LIMIT, "find: the pattern is nested too deeply");
  pattern *t = HS_NEW(a, pattern);
  t->word = hs_arena_strndup(a, b + (*b == '%'), (size_t)(*p - b) - (*b == '%'));
  t->op = *b == '%' ? HLO_OP_INVALID : hlo_op_find(hs_str_of(t->word));
  if (strcmp(t->word, "any") == 0) t->word = "*";
  *out = t;
  if (**p != '(') return HS_GOOD;
  t->tree = true;
  ++*p;
  while (**p != ')') {
    if (t->n == HS_COUNT(t->kids))
      return hs_fail(HS_E_LIMIT, "find: a pattern has at most %zu operands", HS_COUNT(t->kids));
    HS_TRY(parse_pattern(a, p, depth + 1, &t->kids[t->n++]));
    while (**p == ' ') ++*p;
    if (**p == ',') ++*p;
    else if (**p != ')') return hs_fail(HS_E_USAGE, "find: ')' is missing in the pattern");
  }
  ++*p;
  return HS_GOOD;
}

static bool match(const pattern *t, const hlo_instr *i) {
  if (t->op) {
    if (i->opcode != t->op) return false;
  } else if (strcmp(t->word, "?") != 0 && strcmp(t->word, "*") != 0 &&
             !repl_matches(i->name, t->word)) {
    return false;
  }
  if (!t->tree) return true;
  if (t->n > i->noperands) return false;
  bool straight = true;
  for (u32 k = 0; k < t->n && straight; k++) straight = match(t->kids[k], hlo_operand(i, k));
  if (straight) return true;
  return t->n == 2 && i->noperands == 2 && hlo_op_has(i->opcode, HLO_F_COMMUTATIVE) &&
         match(t->kids[0], hlo_operand(i, 1)) && match(t->kids[1], hlo_operand(i, 0));
}

// The last occurrence of a keyword outside quotes and parentheses; cuts the text there and returns
// what follows.
static char *cut_clause(char *text, const char *word) {
  char quote = 0;
  size_t n = strlen(word);
  char *found = NULL;
  for (char *p = text; *p; p++) {
    if (quote) {
      if (*p == quote) quote = 0;
      continue;
    }
    if (*p == '"' || *p == '\'') quote = *p;
    else if ((p == text || p[-1] == ' ') && strncmp(p, word, n) == 0 && (p[n] == ' ' || !p[n]))
      found = p;
  }
  if (!found) return NULL;
  *found = 0;
  found += n;
  while (*found == ' ') found++;
  return found;
}

typedef struct hit {
  const hlo_instr *i;
  double key;
  const char *text;
} hit;
static int ascending(const void *a, const void *b) {
  const hit *x = a, *y = b;
  int d = x->text && y->text ? strcmp(x->text, y->text) : x->key < y->key ? -1 : x->key > y->key;
  return d ? d : x->i->id < y->i->id ? -1 : x->i->id > y->i->id;
}
static int descending(const void *a, const void *b) {
  const hit *x = a, *y = b;
  int d = x->text && y->text ? strcmp(y->text, x->text) : x->key > y->key ? -1 : x->key < y->key;
  return d ? d : x->i->id < y->i->id ? -1 : x->i->id > y->i->id;
}

typedef struct query {
  pattern *pattern;
  char *where, *order;
  bool desc;
  i64 limit;
} query;

static hs_status parse_query(repl_cmd *c, query *q) {
  char *text = hs_arena_strndup(c->scratch, c->args.raw, strlen(c->args.raw));
  *q = (query){.limit = INT64_MAX};
  char *limit = cut_clause(text, "limit");
  if (limit) {
    size_t n = strcspn(limit, " ");
    if (limit[n]) return repl_usage_error(c, "nothing may follow limit N");
    HS_TRY(repl_arg_int(c, "limit", limit, 0, INT32_MAX, &q->limit));
  }
  q->order = cut_clause(text, "order by");
  if (q->order) {
    char *dir = cut_clause(q->order, "desc");
    q->desc = dir != NULL;
    (void)cut_clause(q->order, "asc");
    for (size_t n = strlen(q->order); n && q->order[n - 1] == ' ';) q->order[--n] = 0;
  }
  q->where = cut_clause(text, "where");
  const char *p = text;
  while (*p == ' ') p++;
  if (*p) {
    HS_TRY(parse_pattern(c->scratch, &p, 0, &q->pattern));
    while (*p == ' ') p++;
    if (*p)
      return hs_with_note(
          repl_usage_error(c, "\"%.30s\" is not understood; conditions begin with where", p),
          "such as find dot where bytes > 1k");
  }
  return HS_GOOD;
}

// What the hits are in order of; an estimated time names the device.
static void put_key(repl_cmd *c, const hit *h, const query *q) {
  char text[32];
  if (!q->order || h->text) return;
  if (strcmp(q->order, "us") == 0)
    repl_say(c->out, "  %s (estimated for %s)", prof_time_text(text, h->key * 1e-6),
             repl_device_label(c->s->target));
  else repl_say(c->out, "  %s=%.15g", q->order, h->key);
}

static void say_hit(repl_cmd *c, repl_json *list, const hit *h, const query *q) {
  const hlo_instr *i = h->i;
  hs_buf shape = {0};
  hlo_shape_print(&shape, i->shape, false);
  if (!c->doc) {
    repl_say(c->out, "%s  %s  %s", i->name, hlo_op_text(i->opcode), hs_buf_cstr(&shape));
    put_key(c, h, q);
    repl_say(c->out, "%s%s\n", i->parent == c->m->entry ? "" : "  in ",
             i->parent == c->m->entry ? "" : i->parent->name);
  }
  repl_json *j = repl_json_object(list, NULL);
  repl_json_str(j, "name", i->name);
  repl_json_str(j, "opcode", hlo_op_text(i->opcode));
  repl_json_str(j, "shape", hs_buf_cstr(&shape));
  repl_json_str(j, "computation", i->parent->name);
  if (q->order && !h->text) repl_json_num(j, q->order, h->key);
  hs_buf_free(&shape);
}

hs_status cmd_find(repl_cmd *c) {
  query q;
  HS_TRY(parse_query(c, &q));
  bool verified = repl_is_verified(c->mod);
  hlo_cost_table cost = {0};
  if (verified) HS_TRY(hlo_cost_module(c->m, &cost));
  repl_instr_scope is = {
      .scratch = c->scratch, .cost = verified ? &cost : NULL, .device = c->s->target};
  repl_scope scope = repl_scope_of_instr(&is);
  HS_VEC(hit) hits = {0};
  hs_status s = HS_GOOD;
  hlo_for_each_comp(comp, c->m) {
    hlo_for_each_instr(i, comp) {
      is.i = i;
      repl_value v = {.number = 1};
      if (q.pattern && !match(q.pattern, i)) continue;
      s = hs_poll();
      if (hs_ok(s) && q.where) s = repl_eval(q.where, &scope, &v);
      if (!hs_ok(s)) break;
      if (!repl_truth(v)) continue;
      hit h = {.i = i};
      if (q.order) {
        repl_value key = {0};
        if (scope.lookup(scope.arg, q.order, NULL, &key)) h.key = key.number, h.text = key.text;
        else s = repl_eval(q.order, &scope, &key), h.key = key.number;
        if (!hs_ok(s)) break;
      }
      hs_vec_push(&hits, h);
    }
    if (!hs_ok(s)) break;
  }
  // Of an unverified module nothing is costed, so nothing can be found by it.
  if (hs_ok(s) && is.lacked_cost) s = repl_gate_version(c, c->mod, c->mod->at);
  if (hs_ok(s)) {
    if (q.order && hits.n) qsort(hits.v, hits.n, sizeof *hits.v, q.desc ? descending : ascending);
    repl_json *list = repl_json_array(c->doc, "instructions");
    for (size_t k = 0; k < hits.n && (i64)k < q.limit; k++) say_hit(c, list, &hits.v[k], &q);
    repl_json_int(c->doc, "matches", (i64)hits.n);
    if (c->s->target) repl_json_str(c->doc, "device", c->s->target->name);
    if (!hits.n) repl_note(c->out, "nothing found");
    else if ((i64)hits.n > q.limit) repl_note(c->out, "%zu found", hits.n);
  }
  hs_vec_free(&hits);
  hlo_cost_free(&cost);
  return s;
}
