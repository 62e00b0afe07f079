// expect.h — expectations over values: gMock's matchers (ElementsAre(1, 0), Optional(2),
// HasSubstr("x")...), the `pattern` cells that put them to instructions, and the EXPECT_ and
// ASSERT_ macros. What is not in the tables is UNKNOWN, never YES.
#ifndef TESTS_EXPECT_H
#define TESTS_EXPECT_H

#include "tests/drivers/match.h"

#include <regex.h>

// The leaves of a JSON object ({"a":{"b":"1"}}) or of a text proto (a { b: 1 }) as lines "a.b=1",
// in any order: two messages are equal when each line of one is in the other. False: the text is
// neither.
static inline bool m_flatten_message(m_env *v, const char **p, const char *path, hs_buf *out) {
  for (;;) {
    while (**p && strchr(" \n\t,\"{", **p)) {
      if (**p == '{' && *path) break;
      (*p)++;
    }
    if (**p == '}') return (*p)++, true;
    if (!**p) return !*path;
    const char *key = *p;
    while (m_is_word(**p)) (*p)++;
    if (*p == key) return false;
    char *name = hs_format("%s%s%.*s", path, *path ? "." : "", (int)(*p - key), key);
    while (**p && strchr("\": \n", **p)) (*p)++;
    bool ok = true;
    if (**p == '{') {
      (*p)++;
      ok = m_flatten_message(v, p, name, out);
    } else {
      const char *value = *p;
      while (**p && !strchr("\",} \n", **p)) (*p)++;
      hs_buf_printf(out, "\n%s=%.*s\n", name, (int)(*p - value), value);
    }
    hs_free(name);
    if (!ok) return false;
  }
}

static inline m_answer m_same_message(m_env *v, const char *json, const char *proto) {
  hs_buf a = {0}, b = {0};
  m_answer r = m_flatten_message(v, &json, "", &a) && m_flatten_message(v, &proto, "", &b)
                   ? m_yes(a.n == b.n)
                   : M_UNKNOWN;
  for (const char *line = hs_buf_cstr(&a); r == M_YES && *line;
       line += strcspn(line + 1, "\n") + 2) {
    char *whole = hs_format("%.*s\n", (int)strcspn(line + 1, "\n") + 1, line);
    r = m_yes(strstr(hs_buf_cstr(&b), whole) != NULL);
    hs_free(whole);
  }
  hs_buf_free(&a);
  hs_buf_free(&b);
  return r;
}

// Every value of a list meets another argument of p.
static inline bool m_assign(m_env *v, m_value l, const m_expr *p, u32 k, u64 used, bool *known) {
  if (k == l.n) return true;
  for (u32 j = 0; j < p->n; j++) {
    if (used >> j & 1) continue;
    m_answer a = m_satisfies(v, l.v[k], p->args[j]);
    *known &= a != M_UNKNOWN;
    if (a == M_YES && m_assign(v, l, p, k + 1, used | 1ull << j, known)) return true;
  }
  return false;
}

static inline m_answer m_list_match(m_env *v, m_value l, const m_expr *p, const char *t) {
  if (strcmp(t, "SizeIs") == 0 && p->n == 1) return m_satisfies(v, m_number(l.n), p->args[0]);
  size_t length = strlen(t);
  // ElementsAreArray({...})
  if (length > 5 && strcmp(t + length - 5, "Array") == 0 && p->n == 1 &&
      p->args[0]->kind == E_LIST) {
    m_expr spread = *p->args[0];
    spread.kind = E_CALL, spread.name = hs_arena_strndup(&v->a, t, length - 5);
    return m_list_match(v, l, &spread, spread.name);
  }
  if (strcmp(t, "WhenSorted") == 0 && p->n == 1) {
    m_value *sorted = HS_NEW_ARRAY(&v->a, m_value, l.n + 1);
    for (u32 k = 0; k < l.n; k++) {
      if (l.v[k].kind != V_NUMBER) return M_UNKNOWN;
      u32 at = k;
      for (; at > 0 && sorted[at - 1].number > l.v[k].number; at--) sorted[at] = sorted[at - 1];
      sorted[at] = l.v[k];
    }
    return m_satisfies(v, m_list(l.n, sorted), p->args[0]);
  }
  if ((strcmp(t, "IsSubsetOf") == 0 || strcmp(t, "IsSupersetOf") == 0) && p->n == 1 &&
      p->args[0]->kind == E_LIST) {
    bool known = true, subset = strcmp(t, "IsSubsetOf") == 0;
    if (subset) return m_assign(v, l, p->args[0], 0, 0, &known) ? M_YES : known ? M_NO : M_UNKNOWN;
    m_answer all = M_YES;
    for (u32 k = 0; k < p->args[0]->n; k++) {
      m_expr contains = {.kind = E_CALL, .name = "Contains", .n = 1, .args = {p->args[0]->args[k]}};
      all = m_both(all, m_list_match(v, l, &contains, "Contains"));
    }
    return all;
  }
  if (strcmp(t, "IsEmpty") == 0) return m_yes(l.n == 0);
  if (strcmp(t, "ElementsAre") == 0) {
    if (l.n != p->n) return M_NO;
    m_answer all = M_YES;
    for (u32 k = 0; k < l.n; k++) all = m_both(all, m_satisfies(v, l.v[k], p->args[k]));
    return all;
  }
  if (strcmp(t, "UnorderedElementsAre") == 0) {
    bool known = true;
    if (l.n != p->n) return M_NO;
    return m_assign(v, l, p, 0, 0, &known) ? M_YES : known ? M_NO : M_UNKNOWN;
  }
  bool times = strcmp(t, "Times") == 0 && p->on && p->on->name &&
               strcmp(m_tail(p->on->name), "Contains") == 0;
  bool each = strcmp(t, "Each") == 0;
  if (!times && !each && strcmp(t, "Contains") != 0) return M_UNKNOWN;
  const m_expr *inner = times ? p->on : p;
  if (inner->n != 1) return M_UNKNOWN;
  u32 yes = 0, unknown = 0;
  for (u32 k = 0; k < l.n; k++) {
    m_answer a = m_satisfies(v, l.v[k], inner->args[0]);
    yes += a == M_YES, unknown += a == M_UNKNOWN;
  }
  if (unknown) return !times && !each && yes ? M_YES : M_UNKNOWN;
  return times ? m_equal(v, m_number(yes), m_eval(v, p->args[0]))
               : m_yes(each ? yes == l.n : yes > 0);
}

static inline m_answer m_compare(m_env *v, const char *how, m_value a, m_value b) {
  m_answer equal = strcmp(how, "EQ") == 0 || strcmp(how, "NE") == 0 ? m_equal(v, a, b) : M_UNKNOWN;
  if (equal != M_UNKNOWN) return m_yes((equal == M_YES) == (*how == 'E'));
  if (a.kind != V_NUMBER || b.kind != V_NUMBER) return M_UNKNOWN;
  double d = a.number - b.number;
  if (strcmp(how, "GT") == 0) return m_yes(d > 0);
  if (strcmp(how, "GE") == 0) return m_yes(d >= 0);
  if (strcmp(how, "LT") == 0) return m_yes(d < 0);
  if (strcmp(how, "LE") == 0) return m_yes(d <= 0);
  return M_UNKNOWN;
}

// ---- gMock's matchers of one value --------------------------------------------------------------
typedef m_answer m_value_matcher_fn(m_env *, m_value x, const m_expr *p);
#define MATCHER(fn) static inline m_answer m_g_##fn(m_env *v, m_value x, const m_expr *p)
// GmockMatch(p), Pointee(p), Address(p), IsOkAndHolds(p): of the value itself
MATCHER(inner) { return m_satisfies(v, x, p->args[0]); }
MATCHER(not_null) {
  (void)v, (void)p;
  return m_yes(x.kind != V_NULL);
}
MATCHER(null) {
  (void)v, (void)p;
  return m_yes(x.kind == V_NULL);
}
MATCHER(not ) {
  m_answer a = m_satisfies(v, x, p->args[0]);
  return a == M_UNKNOWN ? a : m_yes(a == M_NO);
}
MATCHER(all) {
  m_answer all = M_YES;
  for (u32 k = 0; k < p->n; k++) all = m_both(all, m_satisfies(v, x, p->args[k]));
  return all;
}
MATCHER(any) {
  m_answer any = M_NO;
  for (u32 k = 0; k < p->n && any != M_YES; k++) {
    m_answer a = m_satisfies(v, x, p->args[k]);
    if (a != M_NO) any = a;
  }
  return any;
}
MATCHER(optional) { return x.kind == V_NULL ? M_NO : m_satisfies(v, x, p->args[0]); }
MATCHER(order) {  // Gt(1), Ge(1), Lt(1), Le(1), Ne(1)
  char how[3] = {(char)toupper((unsigned char)p->name[0]), (char)toupper((unsigned char)p->name[1]),
                 0};
  return m_compare(v, how, x, m_eval(v, p->args[0]));
}
MATCHER(text) {  // HasSubstr, StartsWith, EndsWith, StrEq
  m_value y = m_eval(v, p->args[0]);
  const char *t = m_tail(p->name);
  if (x.kind != V_STRING || y.kind != V_STRING) return M_UNKNOWN;
  size_t n = strlen(x.s), k = strlen(y.s);
  if (strcmp(t, "HasSubstr") == 0) return m_yes(strstr(x.s, y.s) != NULL);
  if (strcmp(t, "StrEq") == 0) return m_yes(strcmp(x.s, y.s) == 0);
  return m_yes(n >= k && strncmp(*t == 'S' ? x.s : x.s + n - k, y.s, k) == 0);
}
MATCHER(regex) {  // ContainsRegex, MatchesRegex
  m_value y = m_eval(v, p->args[0]);
  if (x.kind != V_STRING || y.kind != V_STRING) return M_UNKNOWN;
  char *whole =
      strcmp(m_tail(p->name), "MatchesRegex") == 0 ? hs_format("^(%s)$", y.s) : hs_strdup(y.s);
  regex_t r;
  m_answer a = M_UNKNOWN;
  if (regcomp(&r, whole, REG_EXTENDED | REG_NOSUB) == 0)
    a = m_yes(regexec(&r, x.s, 0, NULL, 0) == 0), regfree(&r);
  hs_free(whole);
  return a;
}
// DoubleNear(y, eps), FloatNear, DoubleEq(y), FloatEq(y): within four units, as gMock
MATCHER(close) {
  m_value y = m_eval(v, p->args[0]), e = p->n > 1 ? m_eval(v, p->args[1]) : m_unknown();
  if (x.kind != V_NUMBER || y.kind != V_NUMBER || (p->n > 1 && e.kind != V_NUMBER))
    return M_UNKNOWN;
  double unit = strstr(p->name, "Float") ? 0x1p-23 : 0x1p-52;
  return m_yes(fabs(x.number - y.number) <=
               (p->n > 1 ? e.number : 4 * unit * HS_MAX(fabs(x.number), fabs(y.number))));
}
MATCHER(property) {  // Property(&HloInstruction::name, "x"), Field(&OpMetadata::op_name, ...)
  m_expr member = {.kind = E_CALL,
                   .name = p->args[0]->kind == E_REF ? m_tail(p->args[0]->name) : ""};
  return m_satisfies(v, m_member_of(v, x, &member), p->args[p->n - 1]);
}
MATCHER(truly) {  // Truly(lambda)
  int yes = p->args[0]->kind == E_LAMBDA ? m_truth(m_apply(v, p->args[0], x)) : -1;
  return yes < 0 ? M_UNKNOWN : m_yes(yes);
}
MATCHER(result_of) {
  return p->args[0]->kind == E_LAMBDA ? m_satisfies(v, m_apply(v, p->args[0], x), p->args[1])
                                      : M_UNKNOWN;
}
MATCHER(pair) {
  return x.kind == V_LIST && x.n == 2
             ? m_both(m_satisfies(v, x.v[0], p->args[0]), m_satisfies(v, x.v[1], p->args[1]))
             : M_UNKNOWN;
}
MATCHER(truth) {
  (void)v;
  int t = m_truth(x);
  return t < 0 ? M_UNKNOWN : m_yes(t == (strcmp(m_tail(p->name), "IsTrue") == 0));
}
MATCHER(message) {
  return x.kind == V_JSON && p->args[0]->kind == E_STRING ? m_same_message(v, x.s, p->args[0]->name)
                                                          : M_UNKNOWN;
}
#undef MATCHER

// `least` and `most` arguments. Of an instruction, AllOf, AnyOf and Not are patterns (match.h).
static const struct m_value_matcher {
  const char *name;
  u32 least, most;
  m_value_matcher_fn *fn;
  bool pattern;
} m_value_matchers[] = {
    {"NotNull", 0, 0, m_g_not_null, false},   {"IsNull", 0, 0, m_g_null, false},
    {"GmockMatch", 1, 1, m_g_inner, false},   {"Eq", 1, 1, m_g_inner, false},
    {"Pointee", 1, 1, m_g_inner, false},      {"Address", 1, 1, m_g_inner, false},
    {"Ref", 1, 1, m_g_inner, false},          {"IsOkAndHolds", 1, 1, m_g_inner, false},
    {"Optional", 1, 1, m_g_optional, false},  {"Not", 1, 1, m_g_not, true},
    {"AllOf", 1, 24, m_g_all, true},          {"AnyOf", 1, 24, m_g_any, true},
    {"Gt", 1, 1, m_g_order, false},           {"Ge", 1, 1, m_g_order, false},
    {"Lt", 1, 1, m_g_order, false},           {"Le", 1, 1, m_g_order, false},
    {"Ne", 1, 1, m_g_order, false},           {"HasSubstr", 1, 1, m_g_text, false},
    {"StartsWith", 1, 1, m_g_text, false},    {"EndsWith", 1, 1, m_g_text, false},
    {"StrEq", 1, 1, m_g_text, false},         {"ContainsRegex", 1, 1, m_g_regex, false},
    {"MatchesRegex", 1, 1, m_g_regex, false}, {"DoubleNear", 2, 2, m_g_close, false},
    {"FloatNear", 2, 2, m_g_close, false},    {"DoubleEq", 1, 1, m_g_close, false},
    {"FloatEq", 1, 1, m_g_close, false},      {"Property", 2, 3, m_g_property, false},
    {"Field", 2, 3, m_g_property, false},     {"Truly", 1, 1, m_g_truly, false},
    {"ResultOf", 2, 2, m_g_result_of, false}, {"Pair", 2, 2, m_g_pair, false},
    {"IsTrue", 0, 0, m_g_truth, false},       {"IsFalse", 0, 0, m_g_truth, false},
    {"EqualsProto", 1, 1, m_g_message, false}};

// A value against a gMock matcher, a pattern, or a value that it must equal.
static inline m_answer m_satisfies(m_env *v, m_value x, const m_expr *p) {
  if (x.kind == V_UNKNOWN) return M_UNKNOWN;
  const char *t = p->kind == E_CALL ? m_tail(p->name) : "";
  if (p->kind == E_NAME && strcmp(p->name, "_") == 0) return M_YES;
  if (p->kind == E_CALL && (!p->on || strcmp(t, "Times") == 0)) {
    bool list = x.kind == V_LIST;
    for (size_t k = 0; k < HS_COUNT(m_value_matchers); k++) {
      const struct m_value_matcher *g = &m_value_matchers[k];
      // op::Not is an opcode
      bool own = strcmp(g->name, "GmockMatch") == 0 ? strcmp(t, g->name) == 0
                                                    : strcmp(p->name, g->name) == 0;
      if (own && p->n >= g->least && p->n <= g->most &&
          !(g->pattern && (x.kind == V_INSTR || x.kind == V_NULL)))
        return g->fn(v, x, p);
    }
    if (list) {
      m_answer a = m_list_match(v, x, p, t);
      if (a != M_UNKNOWN || strcmp(t, "vector") != 0) return a;
    }
  }
  if (x.kind == V_INSTR || x.kind == V_NULL) return m_match(v, p, x.kind == V_NULL ? NULL : x.i);
  return m_equal(v, x, m_eval(v, p));
}

// One expectation: [not ][TARGET ~ ]PATTERN.
static inline m_answer m_check(m_env *v, const char *text) {
  while (isspace((unsigned char)*text)) text++;
  bool negated = strncmp(text, "not ", 4) == 0;
  if (negated) text += 4;
  const char *tilde = strstr(text, " ~ ");
  m_value x = m_instr(v->m->entry->root);
  if (tilde) x = m_eval(v, m_parse(&v->a, hs_arena_strndup(&v->a, text, (size_t)(tilde - text))));
  const m_expr *p = m_parse(&v->a, tilde ? tilde + 3 : text);
  if (p->kind == E_BAD || x.kind == V_UNKNOWN) return M_UNKNOWN;
  m_answer a = m_satisfies(v, x, p);
  return a == M_UNKNOWN || !negated ? a : m_yes(a == M_NO);
}

// ---- EXPECT_* -----------------------------------------------------------------------------------
static inline bool m_is_literal_term(const m_expr *e) {
  return e->kind == E_NUMBER || e->kind == E_STRING ||
         (e->kind == E_NAME && !e->on &&
          (strcmp(e->name, "true") == 0 || strcmp(e->name, "false") == 0));
}

static inline m_answer m_check_assert(m_env *v, const char *text) {
  const m_expr *e = m_parse(&v->a, text);
  if (e->kind != E_CALL || e->on) return M_UNKNOWN;
  if (strncmp(e->name, "ASSERT_", 7) != 0 && strncmp(e->name, "EXPECT_", 7) != 0) return M_UNKNOWN;
  const char *name = e->name + 7;
  u32 literal = 0;  // comparisons of two constants are left over from the test's own C++
  for (u32 k = 0; k < e->n; k++) literal += m_is_literal_term(e->args[k]);
  if (!e->n || literal == e->n) return M_UNKNOWN;
  if (strcmp(name, "THAT") == 0 && e->n == 2)
    return m_satisfies(v, m_eval(v, e->args[0]), e->args[1]);
  m_value a = m_eval(v, e->args[0]);
  if ((strcmp(name, "TRUE") == 0 || strcmp(name, "FALSE") == 0) && e->n == 1) {
    int truth = m_truth(a);
    return truth < 0 ? M_UNKNOWN : m_yes(truth == (*name == 'T'));
  }
  if (e->n < 2) return M_UNKNOWN;
  m_value b = m_eval(v, e->args[1]);
  if (strcmp(name, "NEAR") == 0 && e->n == 3) {
    m_value within = m_eval(v, e->args[2]);
    return a.kind == V_NUMBER && b.kind == V_NUMBER && within.kind == V_NUMBER
               ? m_yes(fabs(a.number - b.number) <= within.number)
               : M_UNKNOWN;
  }
  if (e->n != 2) return M_UNKNOWN;
  bool floats = strcmp(name, "FLOAT_EQ") == 0, doubles = strcmp(name, "DOUBLE_EQ") == 0;
  if (floats || doubles) {  // within four units, as gTest
    double most = 4 * (floats ? 0x1p-23 : 0x1p-52) * HS_MAX(fabs(a.number), fabs(b.number));
    return a.kind == V_NUMBER && b.kind == V_NUMBER ? m_yes(fabs(a.number - b.number) <= most)
                                                    : M_UNKNOWN;
  }
  if (strncmp(name, "STR", 3) == 0)
    return a.kind == V_STRING && b.kind == V_STRING ? m_compare(v, name + 3, a, b) : M_UNKNOWN;
  return m_compare(v, name, a, b);
}

#endif
