// cpp.h — the C++ expressions that XLA's pass tests are written in, read as text: calls, members,
// literals, lists, named arguments, comparisons and a little arithmetic. Lambdas are kept as text;
// statements are in stmts.h.
#ifndef TESTS_CPP_H
#define TESTS_CPP_H

#include "core/base/base.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>

typedef enum { E_CALL, E_NAME, E_NUMBER, E_STRING, E_LIST, E_REF, E_LAMBDA, E_BAD } m_kind;
typedef struct m_expr m_expr;
struct m_expr {
  m_kind kind;
  // call, name, string, reference; "m::Add", "WithShape"; the body of a lambda
  const char *name;
  const char *key;  // of a named argument; its place says the same for most
  // template arguments, without <>; NULL when there are none; of a lambda: its (last) parameter
  const char *type;
  double number;
  bool is_float;
  u32 n;
  m_expr *args[24];
  m_expr *on;  // modifiers, members and '->': the expression they apply to
  bool arrow;
};

typedef struct m_reader {
  const char *p;
  hs_arena *a;
} m_reader;

static inline void m_blank(m_reader *r) {
  while (isspace((unsigned char)*r->p)) r->p++;
}
static inline m_expr *m_new(m_reader *r, m_kind k) {
  m_expr *e = HS_NEW(r->a, m_expr);
  e->kind = k;
  return e;
}
static inline m_expr *m_bad(m_reader *r) { return m_new(r, E_BAD); }
static inline m_expr *m_read(m_reader *r);

// Just behind the bracket that closes the one at p; NULL when there is none. Text in quotes is
// passed over.
static inline const char *m_closing(const char *p) {
  u32 depth = 0;
  for (; *p; p++) {
    if (*p == '"') {
      for (p++; *p && *p != '"'; p++)
        if (*p == '\\' && p[1]) p++;
      if (!*p) return NULL;
    }
    if (strchr("([{", *p)) depth++;
    if (strchr(")]}", *p) && --depth == 0) return p + 1;
  }
  return NULL;
}

static inline bool m_is_word(char c) { return isalnum((unsigned char)c) || c == '_'; }

static inline bool m_read_args(m_reader *r, m_expr *e, char close) {
  r->p++;
  for (;;) {
    m_blank(r);
    if (*r->p == close) {
      r->p++;
      return true;
    }
    if (*r->p == ',' || *r->p == ';') {
      r->p++;
      continue;
    }
    if (!*r->p || e->n == HS_COUNT(e->args)) return false;
    const char *q = r->p, *key = NULL;  // index={0}
    while (m_is_word(*q)) q++;
    if (q > r->p && *q == '=' && q[1] != '=')
      key = hs_arena_strndup(r->a, r->p, (size_t)(q - r->p)), r->p = q + 1;
    m_expr *x = m_read(r);
    if (x->kind == E_BAD) return false;
    x->key = key;
    e->args[e->n++] = x;
  }
}

static inline m_expr *m_read_string(m_reader *r) {
  m_expr *e = m_new(r, E_STRING);
  hs_buf b = {0};
  for (r->p++; *r->p && *r->p != '"'; r->p++) {
    if (*r->p == '\\' && r->p[1]) {
      r->p++;
      hs_buf_putc(&b, *r->p == 'n' ? '\n' : *r->p == 't' ? '\t' : *r->p);
    } else {
      hs_buf_putc(&b, *r->p);
    }
  }
  if (*r->p == '"') r->p++;
  e->name = hs_arena_strndup(r->a, b.p ? b.p : "", b.n);
  hs_buf_free(&b);
  return e;
}

static inline m_expr *m_read_number(m_reader *r) {
  m_expr *e = m_new(r, E_NUMBER);
  const char *s = r->p;
  char *end;
  bool hex = s[0] == '0' && (s[1] == 'x' || s[1] == 'X');
  e->number = strtod(s, &end);
  for (const char *q = s; q < end && !hex; q++) e->is_float |= *q == '.' || *q == 'e';
  r->p = end;
  // "1e - 4", as a formatter left it
  if (*end == 'e' && end[1] == ' ' && (end[2] == '-' || end[2] == '+')) {
    char text[64];
    snprintf(text, sizeof text, "%.*se%c", (int)HS_MIN(end - s, 40), s, end[2]);
    const char *q = end + 3;
    while (*q == ' ') q++;
    size_t n = strlen(text);
    while (isdigit((unsigned char)*q) && n < sizeof text - 1) text[n++] = *q++;
    text[n] = '\0';
    e->number = strtod(text, NULL), e->is_float = true, r->p = q;
  }
  if (!hex && (*r->p == 'f' || *r->p == 'F'))
    e->number = (float)e->number, e->is_float = true, r->p++;
  while (*r->p && strchr("ulUL", *r->p)) r->p++;
  return e;
}

// [captures](parameters) { body }
static inline m_expr *m_read_lambda(m_reader *r) {
  m_expr *e = m_new(r, E_LAMBDA);
  const char *p = m_closing(r->p);
  while (p && isspace((unsigned char)*p)) p++;
  const char *parameters = p;
  if (p && *p == '(') p = m_closing(p);
  const char *last = p && p > parameters ? p - 1 : NULL, *word = last;
  while (word && word > parameters && m_is_word(word[-1])) word--;
  e->type = word ? hs_arena_strndup(r->a, word, (size_t)(last - word)) : "";
  while (p && *p && *p != '{') p++;
  const char *end = p && *p ? m_closing(p) : NULL;
  if (!end) return m_bad(r);
  e->name = hs_arena_strndup(r->a, p + 1, (size_t)(end - p) - 2);
  r->p = end;
  return e;
}

static inline m_expr *m_read_primary(m_reader *r) {
  m_blank(r);
  const char *s = r->p;
  if (*s == '"') return m_read_string(r);
  if (*s == '\'' && s[1] && s[2] == '\'') {  // a character, as a text of one
    m_expr *e = m_new(r, E_STRING);
    e->name = hs_arena_strndup(r->a, s + 1, 1);
    r->p += 3;
    return e;
  }
  if (*s == '[') return m_read_lambda(r);
  if (*s == '{') {
    m_expr *e = m_new(r, E_LIST);
    return m_read_args(r, e, '}') ? e : m_bad(r);
  }
  if (*s == '-' && isalpha((unsigned char)s[1])) {
    m_expr *e = m_new(r, E_CALL);
    e->name = "-";
    r->p++;
    e->args[e->n++] = m_read(r);
    return e->args[0]->kind == E_BAD ? e->args[0] : e;
  }
  if (*s == '*') return r->p++, m_read(r);
  if (*s == '(') {
    r->p++;
    m_expr *e = m_read(r);
    m_blank(r);
    return *r->p == ')' ? (r->p++, e) : m_bad(r);
  }
  if (*s == '&') {
    r->p++;
    m_expr *x = m_read_primary(r);
    if (x->kind == E_CALL) return x;  // &LayoutUtil::MakeLayout(...)
    if (x->kind != E_NAME) return m_bad(r);
    x->kind = E_REF;
    return x;
  }
  if (isdigit((unsigned char)*s) ||
      ((*s == '-' || *s == '.') && (isdigit((unsigned char)s[1]) || s[1] == '.')))
    return m_read_number(r);
  if (!isalpha((unsigned char)*s) && *s != '_') return m_bad(r);
  while (m_is_word(*r->p) || (r->p[0] == ':' && r->p[1] == ':' && (r->p += 1))) r->p++;
  m_expr *e = m_new(r, E_NAME);
  char *name = hs_arena_strndup(r->a, s, (size_t)(r->p - s));
  static const char *const dropped[] = {"xla::", "testing::", "::testing::", "std::", "absl::"};
  for (size_t k = 0; k < HS_COUNT(dropped); k++)
    if (strncmp(name, dropped[k], strlen(dropped[k])) == 0)
      name += strlen(dropped[k]), k = (size_t)-1;
  e->name = name;
  size_t length = strlen(name);
  bool cast = length > 5 && strcmp(name + length - 5, "_cast") == 0;
  // "static_cast < T>(x)", as a formatter left it
  if (cast || strcmp(name, "vector") == 0) m_blank(r);
  if (*r->p == '<') {
    const char *t = ++r->p;
    for (u32 depth = 1; *r->p; r->p++) {
      depth += *r->p == '<';
      if (*r->p == '>' && --depth == 0) break;
    }
    e->type = hs_arena_strndup(r->a, t, (size_t)(r->p - t));
    if (*r->p == '>') r->p++;
    const char *more = r->p;  // std::numeric_limits<float>::infinity
    while (m_is_word(*r->p) || (r->p[0] == ':' && r->p[1] == ':' && (r->p += 1))) r->p++;
    if (r->p > more) {
      hs_buf b = {0};
      hs_buf_printf(&b, "%s%.*s", name, (int)(r->p - more), more);
      e->name = hs_arena_strndup(r->a, b.p, b.n);
      hs_buf_free(&b);
    }
  }
  m_blank(r);
  if (*r->p == '{' && strncmp(name, "ErrorSpec", 9) == 0) e->kind = E_CALL;
  if (*r->p == '(' || e->kind == E_CALL) {
    e->kind = E_CALL;
    if (!m_read_args(r, e, *r->p == '{' ? '}' : ')')) return m_bad(r);
  }
  return e;
}

static inline m_expr *m_read_chain(m_reader *r) {
  m_expr *e = m_read_primary(r);
  for (;;) {
    if (e->kind == E_BAD) return e;
    m_blank(r);
    bool arrow = r->p[0] == '-' && r->p[1] == '>', dot = *r->p == '.', index = *r->p == '[';
    if (index) {
      m_expr *x = m_new(r, E_CALL);
      x->name = "[]";
      x->on = e;
      if (!m_read_args(r, x, ']')) return m_bad(r);
      e = x;
      continue;
    }
    if (!arrow && !dot) return e;
    r->p += arrow ? 2 : 1;
    m_expr *x = m_read_primary(r);
    if (x->kind == E_BAD) return x;
    x->on = e;
    x->arrow = arrow;
    e = x;
  }
}

// Binary operators by how tightly they bind; "<<" is a stream's and none of them.
static inline const char *m_operator(const char *p, u32 level) {
  static const char *const operators[][5] = {
      {"||"}, {"&&"}, {"==", "!="}, {"<=", ">=", "<", ">"}, {"+", "-"}, {"%", "*", "/"}};
  for (u32 k = 0; k < 5 && operators[level][k]; k++) {
    const char *o = operators[level][k];
    size_t n = strlen(o);
    if (strncmp(p, o, n) == 0 && !(n == 1 && (p[1] == *o || (*o == '-' && p[1] == '>')))) return o;
  }
  return NULL;
}

static inline m_expr *m_read_binary(m_reader *r, u32 level) {
  enum { LEVELS = 6 };
  if (level == LEVELS) {
    m_blank(r);
    if (*r->p != '!' || r->p[1] == '=') return m_read_chain(r);
    m_expr *e = m_new(r, E_CALL);
    e->name = "!";
    r->p++;
    e->args[e->n++] = m_read_chain(r);
    return e->args[0]->kind == E_BAD ? e->args[0] : e;
  }
  m_expr *e = m_read_binary(r, level + 1);
  for (const char *o; e->kind != E_BAD && (m_blank(r), o = m_operator(r->p, level)) != NULL;) {
    r->p += strlen(o);
    m_expr *x = m_new(r, E_CALL);
    x->name = o;
    x->args[x->n++] = e;
    x->args[x->n++] = m_read_binary(r, level + 1);
    if (x->args[1]->kind == E_BAD) return x->args[1];
    e = x;
  }
  return e;
}

static inline m_expr *m_read(m_reader *r) { return m_read_binary(r, 0); }

// The whole text as one expression; E_BAD when it is none.
static inline m_expr *m_parse(hs_arena *a, const char *text) {
  m_reader r = {text, a};
  m_expr *e = m_read(&r);
  m_blank(&r);
  return *r.p ? m_bad(&r) : e;
}

// After the last "::".
static inline const char *m_tail(const char *name) {
  const char *t = name;
  for (const char *p = name; *p; p++)
    if (p[0] == ':' && p[1] == ':') t = p + 2;
  return t;
}

#endif
