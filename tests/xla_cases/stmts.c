// stmts.c — runs the C++ statements of XLA's pass tests: loops over lists and numbers,
// conditions, variables, and the expectations inside them.
//
// The answer of a text is the conjunction of all expectations that were reached; a statement or a
// condition that is not understood makes it UNKNOWN.
#include "tests/xla_cases/internal.h"

// skip: `continue` was met, or `return`, with this value
typedef struct xc_flow {
  xc_answer answer;
  bool skip;
  xc_value value;
} xc_flow;

static void xc_run(xc_env *v, const char *text, xc_flow *f);

static xc_value *xc_variable(xc_env *v, const char *name) {
  for (u32 k = v->nvars; k-- > 0;)
    if (strcmp(v->vars[k].name, name) == 0) return &v->vars[k].x;
  if (v->nvars == HS_COUNT(v->vars)) return NULL;
  v->vars[v->nvars].name = name;
  return &v->vars[v->nvars++].x;
}

static const char *xc_skip_blank(const char *p) {
  while (isspace((unsigned char)*p)) p++;
  return p;
}
static char *xc_cut(xc_env *v, const char *from, const char *to) {
  while (from < to && isspace((unsigned char)*from)) from++;
  while (from < to && isspace((unsigned char)to[-1])) to--;
  return hs_arena_strndup(&v->a, from, (size_t)(to - from));
}

// The first of `what` outside of brackets and quotes (and not doubled, as in "::" and "=="); NULL
// when there is none.
static const char *xc_outside(const char *p, const char *end, char what) {
  for (; p < end; p++) {
    if (*p == what && p[1] != what && p[1] != '=') return p;
    if (*p == what || (what == '=' && strchr("!<>", *p) && p[1] == '=')) {
      p++;
      continue;
    }
    if (!strchr("([{\"", *p)) continue;
    const char *q = *p == '"' ? strchr(p + 1, '"') : xc_closing(p);
    if (!q || q > end) return NULL;
    p = *p == '"' ? q : q - 1;
  }
  return NULL;
}

// The last word of a declaration, "const HloInstruction*operand" or "auto x".
static const char *xc_declared(xc_env *v, const char *from, const char *to) {
  const char *text = xc_cut(v, from, to), *end = text + strlen(text), *p = end;
  while (p > text && xc_is_word(p[-1])) p--;
  return p;
}

// A name in a loop's range that no statement has set: the computation that the test has asked for
// by name just before.
static xc_value xc_range(xc_env *v, const char *text) {
  const xc_expr *e = xc_parse(&v->a, text), *base = e;
  while (base->on) base = base->on;
  xc_value x = xc_eval(v, e);
  if (x.kind != V_UNKNOWN || base->kind != E_NAME) return x;
  // what a helper of the tests is called with: the entry
  bool whole = strcmp(base->name, "computation") == 0 && !v->named;
  if (!v->named && !whole) return x;
  if (strcmp(base->name, "body") != 0 && strcmp(base->name, "computation") != 0 &&
      strncmp(base->name, "while_", 6) != 0)
    return x;
  if (xc_eval_name(v, base).kind != V_UNKNOWN) return x;
  xc_value *var = xc_variable(v, base->name);
  if (!var) return x;
  *var = xc_comp_value(whole ? v->m->entry : v->named);
  return xc_eval(v, e);
}

// A variable that the block sets, but nothing has declared: a null pointer to begin with.
static void xc_declare_assigned(xc_env *v, const char *block) {
  for (const char *p = block; (p = strstr(p, " = ")) != NULL; p += 3) {
    const char *start = p;
    while (start > block && xc_is_word(start[-1])) start--;
    const char *before = start;
    while (before > block && (before[-1] == ' ' || before[-1] == '*')) before--;
    if (start == p || !(before == block || strchr(";{}", before[-1]))) continue;
    const char *name = hs_arena_strndup(&v->a, start, (size_t)(p - start));
    bool known = false;
    for (u32 k = 0; k < v->nvars; k++) known |= strcmp(v->vars[k].name, name) == 0;
    xc_value *x = known ? NULL : xc_variable(v, name);
    if (x) *x = (xc_value){.kind = V_NULL};
  }
}

// for(TYPE x: LIST) BLOCK and for(int i = A; i < B; i++) BLOCK; `head` is what stands in the
// brackets.
static void xc_run_for(xc_env *v, const char *head, const char *block, xc_flow *f) {
  const char *end = head + strlen(head), *colon = xc_outside(head, end, ':'),
             *first = xc_outside(head, end, ';');
  u32 vars = v->nvars;
  xc_declare_assigned(v, block);
  if (colon && !first) {
    const char *name = xc_declared(v, head, colon);
    xc_value list = xc_range(v, xc_cut(v, colon + 1, end)), *x = xc_variable(v, name);
    if (list.kind != V_LIST || !x || !*name) {
      f->answer = xc_both(f->answer, XC_UNKNOWN);
      return;
    }
    for (u32 k = 0; k < list.n; k++) {
      xc_flow inner = {.answer = XC_YES};
      *xc_variable(v, name) = list.v[k];
      xc_run(v, block, &inner);
      f->answer = xc_both(f->answer, inner.answer);
    }
    return;
  }
  const char *second = first ? xc_outside(first + 1, end, ';') : NULL,
             *eq = first ? xc_outside(head, first, '=') : NULL;
  const char *name = eq ? xc_declared(v, head, eq) : "",
             *step = second ? xc_cut(v, second + 1, end) : "";
  xc_value from = eq ? xc_eval(v, xc_parse(&v->a, xc_cut(v, eq + 1, first))) : xc_unknown();
  bool counts = strncmp(step, name, strlen(name)) == 0
                    ? strcmp(step + strlen(name), "++") == 0
                    : strncmp(step, "++", 2) == 0 && strcmp(step + 2, name) == 0;
  if (from.kind != V_NUMBER || !counts || !*name || !xc_variable(v, name)) {
    f->answer = xc_both(f->answer, XC_UNKNOWN);
    return;
  }
  for (u32 k = 0; k < 100000; k++) {
    *xc_variable(v, name) = xc_number(from.number + k);
    int go = xc_truth(xc_eval(v, xc_parse(&v->a, xc_cut(v, first + 1, second))));
    if (go < 0) f->answer = xc_both(f->answer, XC_UNKNOWN);
    if (go <= 0) break;
    xc_flow inner = {.answer = XC_YES};
    xc_run(v, block, &inner);
    f->answer = xc_both(f->answer, inner.answer);
  }
  v->nvars = HS_MAX(vars, v->nvars);
}

// One statement without a block.
static void xc_run_simple(xc_env *v, const char *text, xc_flow *f) {
  if (!*text || strncmp(text, "SCOPED_TRACE(", 13) == 0) return;
  if (strcmp(text, "continue") == 0) {
    f->skip = true;
    return;
  }
  if (strncmp(text, "return", 6) == 0 && !xc_is_word(text[6])) {
    f->value = xc_eval(v, xc_parse(&v->a, text + 6)), f->skip = true;
    return;
  }
  const char *open = strchr(text, '('), *close = open ? xc_closing(open) : NULL,
             *end = text + strlen(text), *eq = xc_outside(text, end, '=');
  if (strncmp(text, "EXPECT_", 7) == 0 || strncmp(text, "ASSERT_", 7) == 0) {
    // "<< message" is left out
    f->answer = xc_both(f->answer, close ? xc_check_assert(v, xc_cut(v, text, close)) : XC_UNKNOWN);
    return;
  }
  const char *name = eq ? xc_declared(v, text, eq) : "";
  xc_value x = eq ? xc_eval(v, xc_parse(&v->a, xc_cut(v, eq + 1, end))) : xc_unknown(),
           *var = *name ? xc_variable(v, name) : NULL;
  if (!var) f->answer = xc_both(f->answer, XC_UNKNOWN);
  else *var = x;  // an unknown value matters only where it is asked for
}

static void xc_run(xc_env *v, const char *text, xc_flow *f) {
  const char *p = xc_skip_blank(text);
  while (*p && !f->skip) {
    bool loop = strncmp(p, "for(", 4) == 0, condition = strncmp(p, "if(", 3) == 0;
    if (!loop && !condition) {
      const char *end = xc_outside(p, p + strlen(p), ';');
      if (!end) end = p + strlen(p);
      xc_run_simple(v, xc_cut(v, p, end), f);
      p = xc_skip_blank(*end ? end + 1 : end);
      continue;
    }
    const char *open = strchr(p, '('), *close = xc_closing(open),
               *block = close ? xc_skip_blank(close) : NULL,
               *after = block && *block == '{' ? xc_closing(block) : NULL;
    if (!after) {
      f->answer = xc_both(f->answer, XC_UNKNOWN);
      return;
    }
    const char *head = xc_cut(v, open + 1, close - 1), *inside = xc_cut(v, block + 1, after - 1);
    p = xc_skip_blank(after);
    if (loop) {
      xc_run_for(v, head, inside, f);
      continue;
    }
    int go = xc_truth(xc_eval(v, xc_parse(&v->a, head)));
    const char *otherwise = "";
    if (strncmp(p, "else", 4) == 0) {
      const char *from = xc_skip_blank(p + 4), *to = *from == '{' ? xc_closing(from) : NULL;
      if (!to) {
        f->answer = xc_both(f->answer, XC_UNKNOWN);
        return;
      }
      otherwise = xc_cut(v, from + 1, to - 1);
      p = xc_skip_blank(to);
    }
    if (go < 0) f->answer = xc_both(f->answer, XC_UNKNOWN);
    else xc_run(v, go ? inside : otherwise, f);
  }
}

// What a lambda of one parameter that matters, its last, returns for x; UNKNOWN when a statement in
// it is not known.
xc_value xc_call_lambda(xc_env *v, const xc_expr *lambda, xc_value x) {
  u32 vars = v->nvars;
  xc_value *parameter =
      lambda->kind == E_LAMBDA && *lambda->type ? xc_variable(v, lambda->type) : NULL;
  xc_flow f = {.answer = XC_YES};
  if (!parameter) return xc_unknown();
  *parameter = x;
  xc_run(v, lambda->name, &f);
  v->nvars = vars;
  return f.answer == XC_YES && f.skip ? f.value : xc_unknown();
}

// One entry of the `asserts` column.
xc_answer xc_check_statement(xc_env *v, const char *text) {
  if (strncmp(text, "for(", 4) != 0 && strncmp(text, "if(", 3) != 0) {
    // behind it a message may stand: << "..."
    const char *open = strchr(text, '('), *close = open ? xc_closing(open) : NULL;
    return xc_check_assert(
        v, close && strncmp(xc_skip_blank(close), "<<", 2) == 0 ? xc_cut(v, text, close) : text);
  }
  xc_flow f = {.answer = XC_YES};
  xc_run(v, text, &f);
  return f.answer;
}
