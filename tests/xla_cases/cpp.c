// cpp.c — reads the C++ expressions of XLA's pass tests.
//
// A recursive-descent reader with precedence levels for binary operators. It covers what those
// tests use: calls, members, templates' arguments, literals, braced lists, named arguments,
// comparisons and arithmetic. A lambda is kept as its text; stmts.c runs it. Text that is no such
// expression becomes E_BAD, never a guess. Expressions live in the arena of the caller.
#include "core/base/base.h"
#include "tests/xla_cases/internal.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>

typedef struct xc_reader {
  const char *p;
  hs_arena *a;
} xc_reader;

static xc_expr *xc_read(xc_reader *r);

static void xc_blank(xc_reader *r) {
  while (isspace((unsigned char)*r->p)) r->p++;
}
static xc_expr *xc_new(xc_reader *r, xc_kind k) {
  xc_expr *e = HS_NEW(r->a, xc_expr);
  e->kind = k;
  return e;
}
static xc_expr *xc_bad(xc_reader *r) { return xc_new(r, E_BAD); }

// Just behind the bracket that closes the one at p; NULL when there is none. Text in quotes is
// passed over.
const char *xc_closing(const char *p) {
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

bool xc_is_word(char c) { return isalnum((unsigned char)c) || c == '_'; }

static bool xc_read_args(xc_reader *r, xc_expr *e, char close) {
  r->p++;
  for (;;) {
    xc_blank(r);
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
    while (xc_is_word(*q)) q++;
    if (q > r->p && *q == '=' && q[1] != '=')
      key = hs_arena_strndup(r->a, r->p, (size_t)(q - r->p)), r->p = q + 1;
    xc_expr *x = xc_read(r);
    if (x->kind == E_BAD) return false;
    x->key = key;
    e->args[e->n++] = x;
  }
}

static xc_expr *xc_read_string(xc_reader *r) {
  xc_expr *e = xc_new(r, E_STRING);
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

static xc_expr *xc_read_number(xc_reader *r) {
  xc_expr *e = xc_new(r, E_NUMBER);
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
static xc_expr *xc_read_lambda(xc_reader *r) {
  xc_expr *e = xc_new(r, E_LAMBDA);
  const char *p = xc_closing(r->p);
  while (p && isspace((unsigned char)*p)) p++;
  const char *parameters = p;
  if (p && *p == '(') p = xc_closing(p);
  const char *last = p && p > parameters ? p - 1 : NULL, *word = last;
  while (word && word > parameters && xc_is_word(word[-1])) word--;
  e->type = word ? hs_arena_strndup(r->a, word, (size_t)(last - word)) : "";
  while (p && *p && *p != '{') p++;
  const char *end = p && *p ? xc_closing(p) : NULL;
  if (!end) return xc_bad(r);
  e->name = hs_arena_strndup(r->a, p + 1, (size_t)(end - p) - 2);
  r->p = end;
  return e;
}

static xc_expr *xc_read_primary(xc_reader *r) {
  xc_blank(r);
  const char *s = r->p;
  if (*s == '"') return xc_read_string(r);
  if (*s == '\'' && s[1] && s[2] == '\'') {  // a character, as a text of one
    xc_expr *e = xc_new(r, E_STRING);
    e->name = hs_arena_strndup(r->a, s + 1, 1);
    r->p += 3;
    return e;
  }
  if (*s == '[') return xc_read_lambda(r);
  if (*s == '{') {
    xc_expr *e = xc_new(r, E_LIST);
    return xc_read_args(r, e, '}') ? e : xc_bad(r);
  }
  if (*s == '-' && isalpha((unsigned char)s[1])) {
    xc_expr *e = xc_new(r, E_CALL);
    e->name = "-";
    r->p++;
    e->args[e->n++] = xc_read(r);
    return e->args[0]->kind == E_BAD ? e->args[0] : e;
  }
  if (*s == '*') return r->p++, xc_read(r);
  if (*s == '(') {
    r->p++;
    xc_expr *e = xc_read(r);
    xc_blank(r);
    return *r->p == ')' ? (r->p++, e) : xc_bad(r);
  }
  if (*s == '&') {
    r->p++;
    xc_expr *x = xc_read_primary(r);
    if (x->kind == E_CALL) return x;  // &LayoutUtil::MakeLayout(...)
    if (x->kind != E_NAME) return xc_bad(r);
    x->kind = E_REF;
    return x;
  }
  if (isdigit((unsigned char)*s) ||
      ((*s == '-' || *s == '.') && (isdigit((unsigned char)s[1]) || s[1] == '.')))
    return xc_read_number(r);
  if (!isalpha((unsigned char)*s) && *s != '_') return xc_bad(r);
  while (xc_is_word(*r->p) || (r->p[0] == ':' && r->p[1] == ':' && (r->p += 1))) r->p++;
  xc_expr *e = xc_new(r, E_NAME);
  char *name = hs_arena_strndup(r->a, s, (size_t)(r->p - s));
  static const char *const dropped[] = {"xla::", "testing::", "::testing::", "std::", "absl::"};
  for (size_t k = 0; k < HS_COUNT(dropped); k++)
    if (strncmp(name, dropped[k], strlen(dropped[k])) == 0)
      name += strlen(dropped[k]), k = (size_t)-1;
  e->name = name;
  size_t length = strlen(name);
  bool cast = length > 5 && strcmp(name + length - 5, "_cast") == 0;
  // "static_cast < T>(x)", as a formatter left it
  if (cast || strcmp(name, "vector") == 0) xc_blank(r);
  if (*r->p == '<') {
    const char *t = ++r->p;
    for (u32 depth = 1; *r->p; r->p++) {
      depth += *r->p == '<';
      if (*r->p == '>' && --depth == 0) break;
    }
    e->type = hs_arena_strndup(r->a, t, (size_t)(r->p - t));
    if (*r->p == '>') r->p++;
    const char *more = r->p;  // std::numeric_limits<float>::infinity
    while (xc_is_word(*r->p) || (r->p[0] == ':' && r->p[1] == ':' && (r->p += 1))) r->p++;
    if (r->p > more) {
      hs_buf b = {0};
      hs_buf_printf(&b, "%s%.*s", name, (int)(r->p - more), more);
      e->name = hs_arena_strndup(r->a, b.p, b.n);
      hs_buf_free(&b);
    }
  }
  xc_blank(r);
  if (*r->p == '{' && strncmp(name, "ErrorSpec", 9) == 0) e->kind = E_CALL;
  if (*r->p == '(' || e->kind == E_CALL) {
    e->kind = E_CALL;
    if (!xc_read_args(r, e, *r->p == '{' ? '}' : ')')) return xc_bad(r);
  }
  return e;
}

static xc_expr *xc_read_chain(xc_reader *r) {
  xc_expr *e = xc_read_primary(r);
  for (;;) {
    if (e->kind == E_BAD) return e;
    xc_blank(r);
    bool arrow = r->p[0] == '-' && r->p[1] == '>', dot = *r->p == '.', index = *r->p == '[';
    if (index) {
      xc_expr *x = xc_new(r, E_CALL);
      x->name = "[]";
      x->on = e;
      if (!xc_read_args(r, x, ']')) return xc_bad(r);
      e = x;
      continue;
    }
    if (!arrow && !dot) return e;
    r->p += arrow ? 2 : 1;
    xc_expr *x = xc_read_primary(r);
    if (x->kind == E_BAD) return x;
    x->on = e;
    x->arrow = arrow;
    e = x;
  }
}

// Binary operators by how tightly they bind; "<<" is a stream's and none of them.
static const char *xc_operator(const char *p, u32 level) {
  static const char *const operators[][5] = {
      {"||"}, {"&&"}, {"==", "!="}, {"<=", ">=", "<", ">"}, {"+", "-"}, {"%", "*", "/"}};
  for (u32 k = 0; k < 5 && operators[level][k]; k++) {
    const char *o = operators[level][k];
    size_t n = strlen(o);
    if (strncmp(p, o, n) == 0 && !(n == 1 && (p[1] == *o || (*o == '-' && p[1] == '>')))) return o;
  }
  return NULL;
}

static xc_expr *xc_read_binary(xc_reader *r, u32 level) {
  enum { LEVELS = 6 };
  if (level == LEVELS) {
    xc_blank(r);
    if (*r->p != '!' || r->p[1] == '=') return xc_read_chain(r);
    xc_expr *e = xc_new(r, E_CALL);
    e->name = "!";
    r->p++;
    e->args[e->n++] = xc_read_chain(r);
    return e->args[0]->kind == E_BAD ? e->args[0] : e;
  }
  xc_expr *e = xc_read_binary(r, level + 1);
  for (const char *o; e->kind != E_BAD && (xc_blank(r), o = xc_operator(r->p, level)) != NULL;) {
    r->p += strlen(o);
    xc_expr *x = xc_new(r, E_CALL);
    x->name = o;
    x->args[x->n++] = e;
    x->args[x->n++] = xc_read_binary(r, level + 1);
    if (x->args[1]->kind == E_BAD) return x->args[1];
    e = x;
  }
  return e;
}

static xc_expr *xc_read(xc_reader *r) { return xc_read_binary(r, 0); }

// The whole text as one expression; E_BAD when it is none.
xc_expr *xc_parse(hs_arena *a, const char *text) {
  xc_reader r = {text, a};
  xc_expr *e = xc_read(&r);
  xc_blank(&r);
  return *r.p ? xc_bad(&r) : e;
}

// After the last "::".
const char *xc_tail(const char *name) {
  const char *t = name;
  for (const char *p = name; *p; p++)
    if (p[0] == ':' && p[1] == ':') t = p + 2;
  return t;
}
