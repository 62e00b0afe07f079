// expect.c — expectations over values: gMock's matchers (ElementsAre(1, 0), Optional(2),
// HasSubstr("x")...), `pattern` cells, and the EXPECT_ and ASSERT_ macros.
#include "tests/xla_cases/internal.h"

#include <regex.h>

static bool xc_flatten_message(xc_env *v, const char **p, const char *path, hs_buf *out);

// One value: a message, or a leaf.
static bool xc_flatten_value(xc_env *v, const char **p, const char *name, hs_buf *out) {
  if (**p == '{') return (*p)++, xc_flatten_message(v, p, name, out);
  if (**p == '"') (*p)++;
  const char *value = *p;
  while (**p && !strchr("\",}] \n", **p)) (*p)++;
  hs_buf_printf(out, "\n%s=%.*s\n", name, (int)(*p - value), value);
  return true;
}

// The leaves of a JSON object ({"a":{"b":"1"},"c":[2,3]}) or of a text proto (a { b: 1 } c: 2 c: 3)
// as lines "a#0.b#0=1", with the place of each value among those of its name: two messages are
// equal when each line of one is in the other. False: the text is neither.
static bool xc_flatten_message(xc_env *v, const char **p, const char *path, hs_buf *out) {
  enum { MOST_NAMES = 64 };
  struct {
    const char *at;
    int n;
  } seen[MOST_NAMES];
  for (u32 nseen = 0;;) {
    while (**p && strchr(" \n\t,\"{", **p)) {
      if (**p == '{' && *path) break;
      (*p)++;
    }
    if (**p == '}') return (*p)++, true;
    if (!**p) return !*path;
    const char *key = *p;
    while (xc_is_word(**p)) (*p)++;
    if (*p == key || nseen == MOST_NAMES) return false;
    int length = (int)(*p - key), place = 0;
    seen[nseen].at = key, seen[nseen++].n = length;
    for (u32 k = 0; k + 1 < nseen; k++)
      place += seen[k].n == length && strncmp(seen[k].at, key, (size_t)length) == 0;
    if (**p == '"') (*p)++;
    while (**p && strchr(": \n", **p)) (*p)++;
    bool list = **p == '[', ok = true;
    if (list) (*p)++;
    do {
      while (list && **p && strchr(", \n", **p)) (*p)++;
      if (list && **p == ']') break;
      char *name = hs_format("%s%s%.*s#%d", path, *path ? "." : "", length, key, place++);
      ok = **p && xc_flatten_value(v, p, name, out);
      hs_free(name);
      if (**p == '"') (*p)++;
    } while (ok && list);
    if (!ok) return false;
    if (list) (*p)++;
  }
}

static xc_answer xc_same_message(xc_env *v, const char *json, const char *proto) {
  hs_buf a = {0}, b = {0};
  xc_answer r = xc_flatten_message(v, &json, "", &a) && xc_flatten_message(v, &proto, "", &b)
                    ? xc_yes(a.n == b.n)
                    : XC_UNKNOWN;
  for (const char *line = hs_buf_cstr(&a); r == XC_YES && *line;
       line += strcspn(line + 1, "\n") + 2) {
    char *whole = hs_format("%.*s\n", (int)strcspn(line + 1, "\n") + 1, line);
    r = xc_yes(strstr(hs_buf_cstr(&b), whole) != NULL);
    hs_free(whole);
  }
  hs_buf_free(&a);
  hs_buf_free(&b);
  return r;
}

// Every value of a list meets another argument of p.
static bool xc_assign(xc_env *v, xc_value l, const xc_expr *p, u32 k, u64 used, bool *known) {
  if (k == l.n) return true;
  for (u32 j = 0; j < p->n; j++) {
    if (used >> j & 1) continue;
    xc_answer a = xc_satisfies(v, l.v[k], p->args[j]);
    *known &= a != XC_UNKNOWN;
    if (a == XC_YES && xc_assign(v, l, p, k + 1, used | 1ull << j, known)) return true;
  }
  return false;
}

static xc_answer xc_list_match(xc_env *v, xc_value l, const xc_expr *p, const char *t) {
  if (strcmp(t, "SizeIs") == 0 && p->n == 1) return xc_satisfies(v, xc_number(l.n), p->args[0]);
  size_t length = strlen(t);
  // ElementsAreArray({...})
  if (length > 5 && strcmp(t + length - 5, "Array") == 0 && p->n == 1 &&
      p->args[0]->kind == E_LIST) {
    xc_expr spread = *p->args[0];
    spread.kind = E_CALL, spread.name = hs_arena_strndup(&v->a, t, length - 5);
    return xc_list_match(v, l, &spread, spread.name);
  }
  if (strcmp(t, "WhenSorted") == 0 && p->n == 1) {
    xc_value *sorted = HS_NEW_ARRAY(&v->a, xc_value, l.n + 1);
    for (u32 k = 0; k < l.n; k++) {
      if (l.v[k].kind != V_NUMBER) return XC_UNKNOWN;
      u32 at = k;
      for (; at > 0 && sorted[at - 1].number > l.v[k].number; at--) sorted[at] = sorted[at - 1];
      sorted[at] = l.v[k];
    }
    return xc_satisfies(v, xc_list(l.n, sorted), p->args[0]);
  }
  if ((strcmp(t, "IsSubsetOf") == 0 || strcmp(t, "IsSupersetOf") == 0) && p->n == 1 &&
      p->args[0]->kind == E_LIST) {
    bool known = true, subset = strcmp(t, "IsSubsetOf") == 0;
    if (subset)
      return xc_assign(v, l, p->args[0], 0, 0, &known) ? XC_YES : known ? XC_NO : XC_UNKNOWN;
    xc_answer all = XC_YES;
    for (u32 k = 0; k < p->args[0]->n; k++) {
      xc_expr contains = {
          .kind = E_CALL, .name = "Contains", .n = 1, .args = {p->args[0]->args[k]}};
      all = xc_both(all, xc_list_match(v, l, &contains, "Contains"));
    }
    return all;
  }
  if (strcmp(t, "IsEmpty") == 0) return xc_yes(l.n == 0);
  if (strcmp(t, "ElementsAre") == 0) {
    if (l.n != p->n) return XC_NO;
    xc_answer all = XC_YES;
    for (u32 k = 0; k < l.n; k++) all = xc_both(all, xc_satisfies(v, l.v[k], p->args[k]));
    return all;
  }
  if (strcmp(t, "UnorderedElementsAre") == 0) {
    bool known = true;
    if (l.n != p->n) return XC_NO;
    return xc_assign(v, l, p, 0, 0, &known) ? XC_YES : known ? XC_NO : XC_UNKNOWN;
  }
  bool times = strcmp(t, "Times") == 0 && p->on && p->on->name &&
               strcmp(xc_tail(p->on->name), "Contains") == 0;
  bool each = strcmp(t, "Each") == 0;
  if (!times && !each && strcmp(t, "Contains") != 0) return XC_UNKNOWN;
  const xc_expr *inner = times ? p->on : p;
  if (inner->n != 1) return XC_UNKNOWN;
  u32 yes = 0, unknown = 0;
  for (u32 k = 0; k < l.n; k++) {
    xc_answer a = xc_satisfies(v, l.v[k], inner->args[0]);
    yes += a == XC_YES, unknown += a == XC_UNKNOWN;
  }
  if (unknown) return !times && !each && yes ? XC_YES : XC_UNKNOWN;
  return times ? xc_equal(v, xc_number(yes), xc_eval(v, p->args[0]))
               : xc_yes(each ? yes == l.n : yes > 0);
}

static xc_answer xc_compare(xc_env *v, const char *how, xc_value a, xc_value b) {
  xc_answer equal =
      strcmp(how, "EQ") == 0 || strcmp(how, "NE") == 0 ? xc_equal(v, a, b) : XC_UNKNOWN;
  if (equal != XC_UNKNOWN) return xc_yes((equal == XC_YES) == (*how == 'E'));
  if (a.kind != V_NUMBER || b.kind != V_NUMBER) return XC_UNKNOWN;
  double d = a.number - b.number;
  if (strcmp(how, "GT") == 0) return xc_yes(d > 0);
  if (strcmp(how, "GE") == 0) return xc_yes(d >= 0);
  if (strcmp(how, "LT") == 0) return xc_yes(d < 0);
  if (strcmp(how, "LE") == 0) return xc_yes(d <= 0);
  return XC_UNKNOWN;
}

// ---- gMock's matchers of one value --------------------------------------------------------------
typedef xc_answer xc_value_matcher_fn(xc_env *, xc_value x, const xc_expr *p);
#define MATCHER(fn) static xc_answer xc_g_##fn(xc_env *v, xc_value x, const xc_expr *p)
// GmockMatch(p), Pointee(p), Address(p), IsOkAndHolds(p): of the value itself
MATCHER(inner) { return xc_satisfies(v, x, p->args[0]); }
MATCHER(not_null) {
  (void)v, (void)p;
  return xc_yes(x.kind != V_NULL);
}
MATCHER(null) {
  (void)v, (void)p;
  return xc_yes(x.kind == V_NULL);
}
MATCHER(not ) {
  xc_answer a = xc_satisfies(v, x, p->args[0]);
  return a == XC_UNKNOWN ? a : xc_yes(a == XC_NO);
}
MATCHER(all) {
  xc_answer all = XC_YES;
  for (u32 k = 0; k < p->n; k++) all = xc_both(all, xc_satisfies(v, x, p->args[k]));
  return all;
}
MATCHER(any) {
  xc_answer any = XC_NO;
  for (u32 k = 0; k < p->n && any != XC_YES; k++) {
    xc_answer a = xc_satisfies(v, x, p->args[k]);
    if (a != XC_NO) any = a;
  }
  return any;
}
MATCHER(optional) { return x.kind == V_NULL ? XC_NO : xc_satisfies(v, x, p->args[0]); }
MATCHER(order) {  // Gt(1), Ge(1), Lt(1), Le(1), Ne(1)
  char how[3] = {(char)toupper((unsigned char)p->name[0]), (char)toupper((unsigned char)p->name[1]),
                 0};
  return xc_compare(v, how, x, xc_eval(v, p->args[0]));
}
MATCHER(text) {  // HasSubstr, StartsWith, EndsWith, StrEq
  xc_value y = xc_eval(v, p->args[0]);
  const char *t = xc_tail(p->name);
  if (x.kind != V_STRING || y.kind != V_STRING) return XC_UNKNOWN;
  size_t n = strlen(x.s), k = strlen(y.s);
  if (strcmp(t, "HasSubstr") == 0) return xc_yes(strstr(x.s, y.s) != NULL);
  if (strcmp(t, "StrEq") == 0) return xc_yes(strcmp(x.s, y.s) == 0);
  return xc_yes(n >= k && strncmp(*t == 'S' ? x.s : x.s + n - k, y.s, k) == 0);
}
MATCHER(regex) {  // ContainsRegex, MatchesRegex
  xc_value y = xc_eval(v, p->args[0]);
  if (x.kind != V_STRING || y.kind != V_STRING) return XC_UNKNOWN;
  char *whole =
      strcmp(xc_tail(p->name), "MatchesRegex") == 0 ? hs_format("^(%s)$", y.s) : hs_strdup(y.s);
  regex_t r;
  xc_answer a = XC_UNKNOWN;
  if (regcomp(&r, whole, REG_EXTENDED | REG_NOSUB) == 0)
    a = xc_yes(regexec(&r, x.s, 0, NULL, 0) == 0), regfree(&r);
  hs_free(whole);
  return a;
}
// DoubleNear(y, eps), FloatNear, DoubleEq(y), FloatEq(y): within four units, as gMock
MATCHER(close) {
  xc_value y = xc_eval(v, p->args[0]), e = p->n > 1 ? xc_eval(v, p->args[1]) : xc_unknown();
  if (x.kind != V_NUMBER || y.kind != V_NUMBER || (p->n > 1 && e.kind != V_NUMBER))
    return XC_UNKNOWN;
  double unit = strstr(p->name, "Float") ? 0x1p-23 : 0x1p-52;
  return xc_yes(fabs(x.number - y.number) <=
                (p->n > 1 ? e.number : 4 * unit * HS_MAX(fabs(x.number), fabs(y.number))));
}
MATCHER(property) {  // Property(&HloInstruction::name, "x"), Field(&OpMetadata::op_name, ...)
  xc_expr member = {.kind = E_CALL,
                    .name = p->args[0]->kind == E_REF ? xc_tail(p->args[0]->name) : ""};
  return xc_satisfies(v, xc_member_of(v, x, &member), p->args[p->n - 1]);
}
MATCHER(truly) {  // Truly(lambda)
  int yes = p->args[0]->kind == E_LAMBDA ? xc_truth(xc_apply(v, p->args[0], x)) : -1;
  return yes < 0 ? XC_UNKNOWN : xc_yes(yes);
}
MATCHER(result_of) {
  return p->args[0]->kind == E_LAMBDA ? xc_satisfies(v, xc_apply(v, p->args[0], x), p->args[1])
                                      : XC_UNKNOWN;
}
MATCHER(pair) {
  return x.kind == V_LIST && x.n == 2
             ? xc_both(xc_satisfies(v, x.v[0], p->args[0]), xc_satisfies(v, x.v[1], p->args[1]))
             : XC_UNKNOWN;
}
MATCHER(truth) {
  (void)v;
  int t = xc_truth(x);
  return t < 0 ? XC_UNKNOWN : xc_yes(t == (strcmp(xc_tail(p->name), "IsTrue") == 0));
}
MATCHER(message) {
  return x.kind == V_JSON && p->args[0]->kind == E_STRING
             ? xc_same_message(v, x.s, p->args[0]->name)
             : XC_UNKNOWN;
}
#undef MATCHER

// `least` and `most` arguments. Of an instruction, AllOf, AnyOf and Not are patterns (match.h).
static const struct xc_value_matcher {
  const char *name;
  u32 least, most;
  xc_value_matcher_fn *fn;
  bool pattern;
} xc_value_matchers[] = {
    {"NotNull", 0, 0, xc_g_not_null, false},   {"IsNull", 0, 0, xc_g_null, false},
    {"GmockMatch", 1, 1, xc_g_inner, false},   {"Eq", 1, 1, xc_g_inner, false},
    {"Pointee", 1, 1, xc_g_inner, false},      {"Address", 1, 1, xc_g_inner, false},
    {"Ref", 1, 1, xc_g_inner, false},          {"IsOkAndHolds", 1, 1, xc_g_inner, false},
    {"Optional", 1, 1, xc_g_optional, false},  {"Not", 1, 1, xc_g_not, true},
    {"AllOf", 1, 24, xc_g_all, true},          {"AnyOf", 1, 24, xc_g_any, true},
    {"Gt", 1, 1, xc_g_order, false},           {"Ge", 1, 1, xc_g_order, false},
    {"Lt", 1, 1, xc_g_order, false},           {"Le", 1, 1, xc_g_order, false},
    {"Ne", 1, 1, xc_g_order, false},           {"HasSubstr", 1, 1, xc_g_text, false},
    {"StartsWith", 1, 1, xc_g_text, false},    {"EndsWith", 1, 1, xc_g_text, false},
    {"StrEq", 1, 1, xc_g_text, false},         {"ContainsRegex", 1, 1, xc_g_regex, false},
    {"MatchesRegex", 1, 1, xc_g_regex, false}, {"DoubleNear", 2, 2, xc_g_close, false},
    {"FloatNear", 2, 2, xc_g_close, false},    {"DoubleEq", 1, 1, xc_g_close, false},
    {"FloatEq", 1, 1, xc_g_close, false},      {"Property", 2, 3, xc_g_property, false},
    {"Field", 2, 3, xc_g_property, false},     {"Truly", 1, 1, xc_g_truly, false},
    {"ResultOf", 2, 2, xc_g_result_of, false}, {"Pair", 2, 2, xc_g_pair, false},
    {"IsTrue", 0, 0, xc_g_truth, false},       {"IsFalse", 0, 0, xc_g_truth, false},
    {"EqualsProto", 1, 1, xc_g_message, false}};

// A value against a gMock matcher, a pattern, or a value that it must equal.
xc_answer xc_satisfies(xc_env *v, xc_value x, const xc_expr *p) {
  if (x.kind == V_UNKNOWN) return XC_UNKNOWN;
  const char *t = p->kind == E_CALL ? xc_tail(p->name) : "";
  if (p->kind == E_NAME && strcmp(p->name, "_") == 0) return XC_YES;
  if (p->kind == E_CALL && (!p->on || strcmp(t, "Times") == 0)) {
    bool list = x.kind == V_LIST;
    for (size_t k = 0; k < HS_COUNT(xc_value_matchers); k++) {
      const struct xc_value_matcher *g = &xc_value_matchers[k];
      // op::Not is an opcode
      bool own = strcmp(g->name, "GmockMatch") == 0 ? strcmp(t, g->name) == 0
                                                    : strcmp(p->name, g->name) == 0;
      if (own && p->n >= g->least && p->n <= g->most &&
          !(g->pattern && (x.kind == V_INSTR || x.kind == V_NULL)))
        return g->fn(v, x, p);
    }
    if (list) {
      xc_answer a = xc_list_match(v, x, p, t);
      if (a != XC_UNKNOWN || strcmp(t, "vector") != 0) return a;
    }
  }
  if (x.kind == V_INSTR || x.kind == V_NULL) return xc_match(v, p, x.kind == V_NULL ? NULL : x.i);
  return xc_equal(v, x, xc_eval(v, p));
}

// One expectation: [not ][TARGET ~ ]PATTERN.
xc_answer xc_check_pattern(xc_env *v, const char *text) {
  while (isspace((unsigned char)*text)) text++;
  bool negated = strncmp(text, "not ", 4) == 0;
  if (negated) text += 4;
  const char *tilde = strstr(text, " ~ ");
  xc_value x = xc_instr(v->m->entry->root);
  if (tilde) x = xc_eval(v, xc_parse(&v->a, hs_arena_strndup(&v->a, text, (size_t)(tilde - text))));
  const xc_expr *p = xc_parse(&v->a, tilde ? tilde + 3 : text);
  if (p->kind == E_BAD || x.kind == V_UNKNOWN) return XC_UNKNOWN;
  xc_answer a = xc_satisfies(v, x, p);
  return a == XC_UNKNOWN || !negated ? a : xc_yes(a == XC_NO);
}

// ---- EXPECT_* -----------------------------------------------------------------------------------
static bool xc_is_literal_term(const xc_expr *e) {
  return e->kind == E_NUMBER || e->kind == E_STRING ||
         (e->kind == E_NAME && !e->on &&
          (strcmp(e->name, "true") == 0 || strcmp(e->name, "false") == 0));
}

xc_answer xc_check_assert(xc_env *v, const char *text) {
  const xc_expr *e = xc_parse(&v->a, text);
  if (e->kind != E_CALL || e->on) return XC_UNKNOWN;
  if (strncmp(e->name, "ASSERT_", 7) != 0 && strncmp(e->name, "EXPECT_", 7) != 0) return XC_UNKNOWN;
  const char *name = e->name + 7;
  u32 literal = 0;  // comparisons of two constants are left over from the test's own C++
  for (u32 k = 0; k < e->n; k++) literal += xc_is_literal_term(e->args[k]);
  if (!e->n || literal == e->n) return XC_UNKNOWN;
  if (strcmp(name, "THAT") == 0 && e->n == 2)
    return xc_satisfies(v, xc_eval(v, e->args[0]), e->args[1]);
  xc_value a = xc_eval(v, e->args[0]);
  if ((strcmp(name, "TRUE") == 0 || strcmp(name, "FALSE") == 0) && e->n == 1) {
    int truth = xc_truth(a);
    return truth < 0 ? XC_UNKNOWN : xc_yes(truth == (*name == 'T'));
  }
  if (e->n < 2) return XC_UNKNOWN;
  xc_value b = xc_eval(v, e->args[1]);
  if (strcmp(name, "NEAR") == 0 && e->n == 3) {
    xc_value within = xc_eval(v, e->args[2]);
    return a.kind == V_NUMBER && b.kind == V_NUMBER && within.kind == V_NUMBER
               ? xc_yes(fabs(a.number - b.number) <= within.number)
               : XC_UNKNOWN;
  }
  if (e->n != 2) return XC_UNKNOWN;
  bool floats = strcmp(name, "FLOAT_EQ") == 0, doubles = strcmp(name, "DOUBLE_EQ") == 0;
  if (floats || doubles) {  // within four units, as gTest
    double most = 4 * (floats ? 0x1p-23 : 0x1p-52) * HS_MAX(fabs(a.number), fabs(b.number));
    return a.kind == V_NUMBER && b.kind == V_NUMBER ? xc_yes(fabs(a.number - b.number) <= most)
                                                    : XC_UNKNOWN;
  }
  if (strncmp(name, "STR", 3) == 0)
    return a.kind == V_STRING && b.kind == V_STRING ? xc_compare(v, name + 3, a, b) : XC_UNKNOWN;
  return xc_compare(v, name, a, b);
}
