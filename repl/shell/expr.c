// expr.c — a recursive-descent evaluator: expressions are short and evaluated as they are read.
// See expr.h.
#include "repl/shell/expr.h"

#include <ctype.h>
#include <fnmatch.h>
#include <math.h>
#include <stdlib.h>

#include "repl/shell/args.h"

#define DEPTH 100

typedef struct reader {
  const char *start, *p;
  const repl_scope *scope;
  hs_arena a;
  int depth;
} reader;

static hs_status parse_or(reader *r, repl_value *out);

bool repl_truth(repl_value v) { return v.text ? *v.text != 0 : v.number != 0 && !isnan(v.number); }

bool repl_matches(const char *text, const char *pattern) {
  return strpbrk(pattern, "*?[") ? fnmatch(pattern, text, 0) == 0
                                 : strcasestr(text, pattern) != NULL;
}

static hs_status bad(reader *r, const char *what) {
  hs_status s = hs_fail(HS_E_USAGE, "%s", what);
  return hs_with_place(s, "<expression>", 1, (u32)(r->p - r->start) + 1, hs_str_of(r->start));
}

static void blanks(reader *r) {
  while (isspace((unsigned char)*r->p)) r->p++;
}

static bool is_word(char c) {
  return isalnum((unsigned char)c) || c == '_' || c == '.' || c == '-';
}

// A keyword that is not the start of a longer name.
static bool take_word(reader *r, const char *w) {
  blanks(r);
  size_t n = strlen(w);
  if (strncmp(r->p, w, n) != 0 || (isalpha((unsigned char)w[0]) && is_word(r->p[n]))) return false;
  r->p += n;
  return true;
}

static hs_status parse_text(reader *r, repl_value *out) {
  char q = *r->p++;
  const char *b = r->p;
  while (*r->p && *r->p != q) r->p++;
  if (!*r->p) return bad(r, "the quote is not closed");
  *out = (repl_value){.text = hs_arena_strndup(&r->a, b, (size_t)(r->p - b))};
  r->p++;
  return HS_GOOD;
}

static hs_status parse_number(reader *r, repl_value *out) {
  const char *b = r->p;
  char *end;
  strtod(b, &end);
  while (isalpha((unsigned char)*end)) end++;
  char *text = hs_arena_strndup(&r->a, b, (size_t)(end - b));
  out->text = NULL;
  if (!repl_number(text, &out->number))
    return bad(r, "not a number (units are k M G T, Ki Mi Gi Ti, and B)");
  r->p = end;
  return HS_GOOD;
}

static hs_status parse_name(reader *r, repl_value *out) {
  const char *b = r->p;
  while (is_word(*r->p) || *r->p == '%') r->p++;
  const char *name = hs_arena_strndup(&r->a, b, (size_t)(r->p - b)), *arg = NULL;
  if (*r->p == '(') {
    r->p++;
    blanks(r);
    if (*r->p == '"' || *r->p == '\'') {
      repl_value v;
      HS_TRY(parse_text(r, &v));
      arg = v.text;
    } else {
      const char *ab = r->p;
      while (*r->p && *r->p != ')') r->p++;
      arg = hs_arena_strndup(&r->a, ab, (size_t)(r->p - ab));
    }
    if (!take_word(r, ")")) return bad(r, "')' is missing");
  }
  if (r->scope->lookup(r->scope->arg, name, arg, out)) return HS_GOOD;
  r->p = b;
  char *what = hs_format("unknown name %s%s", name, arg ? "(...)" : "");
  hs_status s = bad(r, what);
  hs_free(what);
  const char *near = hs_nearest(name, r->scope->names, r->scope->nnames);
  if (near) return hs_with_note(s, "did you mean %s? (text is written in quotes)", near);
  hs_buf list = {0};
  for (size_t k = 0; k < r->scope->nnames; k++)
    hs_buf_printf(&list, "%s%s", k ? " " : "", r->scope->names[k]);
  s = hs_with_note(s, "known names: %s", hs_buf_cstr(&list));
  hs_buf_free(&list);
  return s;
}

static hs_status parse_primary(reader *r, repl_value *out) {
  blanks(r);
  if (++r->depth > DEPTH) return bad(r, "the expression is nested too deeply");
  hs_status s;
  if (*r->p == '(') {
    r->p++;
    s = parse_or(r, out);
    if (hs_ok(s) && !take_word(r, ")")) s = bad(r, "')' is missing");
  } else if (*r->p == '-') {
    r->p++;
    s = parse_primary(r, out);
    if (hs_ok(s) && out->text) s = bad(r, "- is not defined for text");
    if (hs_ok(s)) out->number = -out->number;
  } else if (*r->p == '"' || *r->p == '\'') {
    s = parse_text(r, out);
  } else if (isdigit((unsigned char)*r->p) || (*r->p == '.' && isdigit((unsigned char)r->p[1]))) {
    s = parse_number(r, out);
  } else if (isalpha((unsigned char)*r->p) || *r->p == '_' || *r->p == '%') {
    s = parse_name(r, out);
  } else {
    s = bad(r, *r->p ? "expected a value" : "the expression ends too early");
  }
  r->depth--;
  return s;
}

static hs_status parse_product(reader *r, repl_value *out) {
  HS_TRY(parse_primary(r, out));
  for (;;) {
    blanks(r);
    char op = *r->p;
    if (op != '*' && op != '/') return HS_GOOD;
    r->p++;
    repl_value v;
    HS_TRY(parse_primary(r, &v));
    if (out->text || v.text) return bad(r, "* and / take numbers");
    out->number = op == '*' ? out->number * v.number : out->number / v.number;
  }
}

static hs_status parse_sum(reader *r, repl_value *out) {
  HS_TRY(parse_product(r, out));
  for (;;) {
    blanks(r);
    char op = *r->p;
    if (op != '+' && op != '-') return HS_GOOD;
    r->p++;
    repl_value v;
    HS_TRY(parse_product(r, &v));
    if (out->text || v.text) return bad(r, "+ and - take numbers");
    out->number += op == '+' ? v.number : -v.number;
  }
}

static hs_status parse_cmp(reader *r, repl_value *out) {
  static const char *const ops[] = {"<=", ">=", "==", "!=", "!~", "<", ">", "=", "~"};
  HS_TRY(parse_sum(r, out));
  blanks(r);
  size_t k = 0;
  while (k < HS_COUNT(ops) && strncmp(r->p, ops[k], strlen(ops[k])) != 0) k++;
  if (k == HS_COUNT(ops)) return HS_GOOD;
  r->p += strlen(ops[k]);
  repl_value b;
  HS_TRY(parse_sum(r, &b));
  bool yes;
  if (ops[k][0] == '~' || strcmp(ops[k], "!~") == 0) {
    if (!out->text || !b.text) return bad(r, "~ takes text on both sides");
    yes = repl_matches(out->text, b.text) == (ops[k][0] == '~');
  } else if (!out->text != !b.text) {
    return bad(r, "text is compared with a number");
  } else {
    double d = out->text ? (double)strcmp(out->text, b.text) : out->number - b.number;
    if (!out->text && out->number == b.number) d = 0;
    switch (ops[k][0]) {
    case '<': yes = ops[k][1] ? d <= 0 : d < 0; break;
    case '>': yes = ops[k][1] ? d >= 0 : d > 0; break;
    case '!': yes = d != 0; break;
    default: yes = d == 0;
    }
  }
  *out = (repl_value){.number = yes};
  return HS_GOOD;
}

static hs_status parse_not(reader *r, repl_value *out) {
  bool negate = false;
  for (;;) {
    blanks(r);
    if (take_word(r, "not") ||
        (*r->p == '!' && r->p[1] != '=' && r->p[1] != '~' && take_word(r, "!")))
      negate = !negate;
    else break;
  }
  HS_TRY(parse_cmp(r, out));
  if (negate) *out = (repl_value){.number = !repl_truth(*out)};
  return HS_GOOD;
}

static hs_status parse_and(reader *r, repl_value *out) {
  HS_TRY(parse_not(r, out));
  while (take_word(r, "and") || take_word(r, "&&")) {
    repl_value v;
    HS_TRY(parse_not(r, &v));
    *out = (repl_value){.number = repl_truth(*out) && repl_truth(v)};
  }
  return HS_GOOD;
}

static hs_status parse_or(reader *r, repl_value *out) {
  if (++r->depth > DEPTH) return bad(r, "the expression is nested too deeply");
  HS_TRY(parse_and(r, out));
  while (take_word(r, "or") || take_word(r, "||")) {
    repl_value v;
    HS_TRY(parse_and(r, &v));
    *out = (repl_value){.number = repl_truth(*out) || repl_truth(v)};
  }
  r->depth--;
  return HS_GOOD;
}

hs_status repl_eval(const char *text, const repl_scope *scope, repl_value *out) {
  reader r = {.start = text, .p = text, .scope = scope};
  hs_status s = parse_or(&r, out);
  blanks(&r);
  if (hs_ok(s) && *r.p) s = bad(&r, "unexpected text after the expression");
  // Text values may point into the reader's arena: only their truth leaves it.
  if (hs_ok(s) && out->text) *out = (repl_value){.number = repl_truth(*out)};
  hs_arena_free(&r.a);
  return s;
}
