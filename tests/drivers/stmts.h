// stmts.h — the C++ statements in XLA's pass tests, run as they stand: loops over lists and
// numbers, conditions, variables, and the expectations inside them. The answer is that of all
// expectations met on the way; a statement or a condition that is not known here makes it UNKNOWN.
#ifndef TESTS_STMTS_H
#define TESTS_STMTS_H

#include "tests/drivers/expect.h"

// skip: `continue` was met, or `return`, with this value
typedef struct m_flow {
  m_answer answer;
  bool skip;
  m_value value;
} m_flow;
static inline void m_run(m_env *v, const char *text, m_flow *f);

static inline m_value *m_variable(m_env *v, const char *name) {
  for (u32 k = v->nvars; k-- > 0;)
    if (strcmp(v->vars[k].name, name) == 0) return &v->vars[k].x;
  if (v->nvars == HS_COUNT(v->vars)) return NULL;
  v->vars[v->nvars].name = name;
  return &v->vars[v->nvars++].x;
}

static inline const char *m_skip_blank(const char *p) {
  while (isspace((unsigned char)*p)) p++;
  return p;
}
static inline char *m_cut(m_env *v, const char *from, const char *to) {
  while (from < to && isspace((unsigned char)*from)) from++;
  while (from < to && isspace((unsigned char)to[-1])) to--;
  return hs_arena_strndup(&v->a, from, (size_t)(to - from));
}

// The first of `what` outside of brackets and quotes (and not doubled, as in "::" and "=="); NULL
// when there is none.
static inline const char *m_outside(const char *p, const char *end, char what) {
  for (; p < end; p++) {
    if (*p == what && p[1] != what && p[1] != '=') return p;
    if (*p == what || (what == '=' && strchr("!<>", *p) && p[1] == '=')) {
      p++;
      continue;
    }
    if (!strchr("([{\"", *p)) continue;
    const char *q = *p == '"' ? strchr(p + 1, '"') : m_closing(p);
    if (!q || q > end) return NULL;
    p = *p == '"' ? q : q - 1;
  }
  return NULL;
}

// The last word of a declaration, "const HloInstruction*operand" or "auto x".
static inline const char *m_declared(m_env *v, const char *from, const char *to) {
  const char *text = m_cut(v, from, to), *end = text + strlen(text), *p = end;
  while (p > text && m_is_word(p[-1])) p--;
  return p;
}

// A name in a loop's range that no statement has set: the computation that the test has asked for
// by name just before.
static inline m_value m_range(m_env *v, const char *text) {
  const m_expr *e = m_parse(&v->a, text), *base = e;
  while (base->on) base = base->on;
  m_value x = m_eval(v, e);
  if (x.kind != V_UNKNOWN || base->kind != E_NAME) return x;
  // what a helper of the tests is called with: the entry
  bool whole = strcmp(base->name, "computation") == 0 && !v->named;
  if (!v->named && !whole) return x;
  if (strcmp(base->name, "body") != 0 && strcmp(base->name, "computation") != 0 &&
      strncmp(base->name, "while_", 6) != 0)
    return x;
  if (m_eval_name(v, base).kind != V_UNKNOWN) return x;
  m_value *var = m_variable(v, base->name);
  if (!var) return x;
  *var = m_comp_value(whole ? v->m->entry : v->named);
  return m_eval(v, e);
}

// A variable that the block sets, but nothing has declared: a null pointer to begin with.
static inline void m_declare_assigned(m_env *v, const char *block) {
  for (const char *p = block; (p = strstr(p, " = ")) != NULL; p += 3) {
    const char *start = p;
    while (start > block && m_is_word(start[-1])) start--;
    const char *before = start;
    while (before > block && (before[-1] == ' ' || before[-1] == '*')) before--;
    if (start == p || !(before == block || strchr(";{}", before[-1]))) continue;
    const char *name = hs_arena_strndup(&v->a, start, (size_t)(p - start));
    bool known = false;
    for (u32 k = 0; k < v->nvars; k++) known |= strcmp(v->vars[k].name, name) == 0;
    m_value *x = known ? NULL : m_variable(v, name);
    if (x) *x = (m_value){.kind = V_NULL};
  }
}

// for(TYPE x: LIST) BLOCK and for(int i = A; i < B; i++) BLOCK; `head` is what stands in the
// brackets.
static inline void m_run_for(m_env *v, const char *head, const char *block, m_flow *f) {
  const char *end = head + strlen(head), *colon = m_outside(head, end, ':'),
             *first = m_outside(head, end, ';');
  u32 vars = v->nvars;
  m_declare_assigned(v, block);
  if (colon && !first) {
    const char *name = m_declared(v, head, colon);
    m_value list = m_range(v, m_cut(v, colon + 1, end)), *x = m_variable(v, name);
    if (list.kind != V_LIST || !x || !*name) {
      f->answer = m_both(f->answer, M_UNKNOWN);
      return;
    }
    for (u32 k = 0; k < list.n; k++) {
      m_flow inner = {.answer = M_YES};
      *m_variable(v, name) = list.v[k];
      m_run(v, block, &inner);
      f->answer = m_both(f->answer, inner.answer);
    }
    return;
  }
  const char *second = first ? m_outside(first + 1, end, ';') : NULL,
             *eq = first ? m_outside(head, first, '=') : NULL;
  const char *name = eq ? m_declared(v, head, eq) : "",
             *step = second ? m_cut(v, second + 1, end) : "";
  m_value from = eq ? m_eval(v, m_parse(&v->a, m_cut(v, eq + 1, first))) : m_unknown();
  bool counts = strncmp(step, name, strlen(name)) == 0
                    ? strcmp(step + strlen(name), "++") == 0
                    : strncmp(step, "++", 2) == 0 && strcmp(step + 2, name) == 0;
  if (from.kind != V_NUMBER || !counts || !*name || !m_variable(v, name)) {
    f->answer = m_both(f->answer, M_UNKNOWN);
    return;
  }
  for (u32 k = 0; k < 100000; k++) {
    *m_variable(v, name) = m_number(from.number + k);
    int go = m_truth(m_eval(v, m_parse(&v->a, m_cut(v, first + 1, second))));
    if (go < 0) f->answer = m_both(f->answer, M_UNKNOWN);
    if (go <= 0) break;
    m_flow inner = {.answer = M_YES};
    m_run(v, block, &inner);
    f->answer = m_both(f->answer, inner.answer);
  }
  v->nvars = HS_MAX(vars, v->nvars);
}

// One statement without a block.
static inline void m_run_simple(m_env *v, const char *text, m_flow *f) {
  if (!*text || strncmp(text, "SCOPED_TRACE(", 13) == 0) return;
  if (strcmp(text, "continue") == 0) {
    f->skip = true;
    return;
  }
  if (strncmp(text, "return", 6) == 0 && !m_is_word(text[6])) {
    f->value = m_eval(v, m_parse(&v->a, text + 6)), f->skip = true;
    return;
  }
  const char *open = strchr(text, '('), *close = open ? m_closing(open) : NULL,
             *end = text + strlen(text), *eq = m_outside(text, end, '=');
  if (strncmp(text, "EXPECT_", 7) == 0 || strncmp(text, "ASSERT_", 7) == 0) {
    // "<< message" is left out
    f->answer = m_both(f->answer, close ? m_check_assert(v, m_cut(v, text, close)) : M_UNKNOWN);
    return;
  }
  const char *name = eq ? m_declared(v, text, eq) : "";
  m_value x = eq ? m_eval(v, m_parse(&v->a, m_cut(v, eq + 1, end))) : m_unknown(),
          *var = *name ? m_variable(v, name) : NULL;
  if (!var) f->answer = m_both(f->answer, M_UNKNOWN);
  else *var = x;  // an unknown value matters only where it is asked for
}

static inline void m_run(m_env *v, const char *text, m_flow *f) {
  const char *p = m_skip_blank(text);
  while (*p && !f->skip) {
    bool loop = strncmp(p, "for(", 4) == 0, condition = strncmp(p, "if(", 3) == 0;
    if (!loop && !condition) {
      const char *end = m_outside(p, p + strlen(p), ';');
      if (!end) end = p + strlen(p);
      m_run_simple(v, m_cut(v, p, end), f);
      p = m_skip_blank(*end ? end + 1 : end);
      continue;
    }
    const char *open = strchr(p, '('), *close = m_closing(open),
               *block = close ? m_skip_blank(close) : NULL,
               *after = block && *block == '{' ? m_closing(block) : NULL;
    if (!after) {
      f->answer = m_both(f->answer, M_UNKNOWN);
      return;
    }
    const char *head = m_cut(v, open + 1, close - 1), *inside = m_cut(v, block + 1, after - 1);
    p = m_skip_blank(after);
    if (loop) {
      m_run_for(v, head, inside, f);
      continue;
    }
    int go = m_truth(m_eval(v, m_parse(&v->a, head)));
    const char *otherwise = "";
    if (strncmp(p, "else", 4) == 0) {
      const char *from = m_skip_blank(p + 4), *to = *from == '{' ? m_closing(from) : NULL;
      if (!to) {
        f->answer = m_both(f->answer, M_UNKNOWN);
        return;
      }
      otherwise = m_cut(v, from + 1, to - 1);
      p = m_skip_blank(to);
    }
    if (go < 0) f->answer = m_both(f->answer, M_UNKNOWN);
    else m_run(v, go ? inside : otherwise, f);
  }
}

// What a lambda of one parameter that matters, its last, returns for x; UNKNOWN when a statement in
// it is not known.
static inline m_value m_call_lambda(m_env *v, const m_expr *lambda, m_value x) {
  u32 vars = v->nvars;
  m_value *parameter =
      lambda->kind == E_LAMBDA && *lambda->type ? m_variable(v, lambda->type) : NULL;
  m_flow f = {.answer = M_YES};
  if (!parameter) return m_unknown();
  *parameter = x;
  m_run(v, lambda->name, &f);
  v->nvars = vars;
  return f.answer == M_YES && f.skip ? f.value : m_unknown();
}

// One entry of the `asserts` column.
static inline m_answer m_check_statement(m_env *v, const char *text) {
  if (strncmp(text, "for(", 4) != 0 && strncmp(text, "if(", 3) != 0) {
    // behind it a message may stand: << "..."
    const char *open = strchr(text, '('), *close = open ? m_closing(open) : NULL;
    return m_check_assert(
        v, close && strncmp(m_skip_blank(close), "<<", 2) == 0 ? m_cut(v, text, close) : text);
  }
  m_flow f = {.answer = M_YES};
  m_run(v, text, &f);
  return f.answer;
}

#endif
