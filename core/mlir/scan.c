// scan.c — the characters of MLIR's text: words, symbols, values skipped whole, and tables of
// names. A value is skipped by counting brackets, without recursion, so that depth costs nothing
// and every character is looked at once.
#include "core/mlir/tree.h"

static bool is_word(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
         c == '$' || c == '.';
}

hs_str mlir_word(hlo_lex *L) {
  hlo_skip(L);
  const char *s = L->p;
  while (L->p < L->end && is_word(*L->p)) L->p++;
  return (hs_str){s, (size_t)(L->p - s)};
}

static bool skip_string(hlo_lex *L) {
  const char *at = L->p++;
  while (L->p < L->end && *L->p != '"') L->p += *L->p == '\\' && L->end - L->p > 1 ? 2 : 1;
  if (L->p >= L->end) return hlo_lex_error(L, HS_E_TOKEN, at, "unterminated string");
  return L->p++, true;
}

bool mlir_skip_balanced(hlo_lex *L) {
  const char *at = L->p;
  i64 depth = 0;
  while (L->p < L->end) {
    char c = *L->p;
    if (c == '"') {
      if (!skip_string(L)) return false;
      continue;
    }
    if (c == '/' && L->end - L->p > 1 && L->p[1] == '/') {
      hlo_skip(L);
      continue;
    }
    L->p++;
    if (c == '(' || c == '[' || c == '{' || c == '<') depth++;
    if (c == ')' || c == ']' || c == '}' || (c == '>' && L->p[-2] != '-')) depth--;
    if (depth <= 0) return true;
  }
  return hlo_lex_error(L, HS_E_TOKEN, at, "unbalanced '%c'", *at);
}

static bool is_open(char c) { return c == '(' || c == '[' || c == '{' || c == '<'; }

// One value without what may follow it.
static bool skip_item(hlo_lex *L) {
  char c = hlo_peek(L);
  if (c == '"') return skip_string(L);
  if (is_open(c)) return mlir_skip_balanced(L);
  if (c == '#' || c == '!' || c == '@') {
    L->p++;
    if (hlo_at(L, 0) == '"') return skip_string(L);
  } else if (c == '-' || c == '+') {
    L->p++;
  }
  hs_str w = mlir_word(L);
  if (!w.n) return hlo_lex_error(L, HS_E_SYNTAX, NULL, "expects a value");
  // 1.0e-05
  if ((w.p[w.n - 1] == 'e' || w.p[w.n - 1] == 'E') && w.p[0] >= '0' && w.p[0] <= '9' &&
      (w.n < 2 || w.p[1] != 'x') && (hlo_at(L, 0) == '-' || hlo_at(L, 0) == '+'))
    L->p++, (void)mlir_word(L);
  while (L->end - L->p > 2 && L->p[0] == ':' && L->p[1] == ':') {  // @module::@name
    L->p += 2;
    if (*L->p == '@') L->p++;
    (void)mlir_word(L);
  }
  if (hlo_at(L, 0) == '<' || (hlo_at(L, 0) == '(' && c != '@' && c != '-'))
    return mlir_skip_balanced(L);
  return true;
}

bool mlir_skip_value(hlo_lex *L, bool typed, mlir_span *out) {
  hlo_skip(L);
  const char *s = L->p;
  if (!skip_item(L)) return false;
  // [0] x [1], [b, f]x[i, o]->[b, f], (T) -> T
  for (;;) {
    const char *at = L->p;
    char c = hlo_peek(L);
    bool arrow = c == '-' && hlo_at(L, 1) == '>';
    if (arrow) L->p += 2;
    else if (c == 'x') L->p++;
    bool more = (arrow || c == 'x') && (hlo_peek(L) == '[' || (arrow && *s == '('));
    if (!more) {
      L->p = at;
      break;
    }
    if (!skip_item(L)) return false;
  }
  const char *stop = L->p;
  if (typed && hlo_peek(L) == ':') {
    L->p++;
    if (!skip_item(L)) return false;
    stop = L->p;
  }
  L->p = stop;
  *out = (mlir_span){s, (size_t)(stop - s)};
  return true;
}

static int hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

bool mlir_string(hlo_lex *L, hs_str *out) {
  if (hlo_peek(L) != '"') return hlo_lex_error(L, HS_E_SYNTAX, NULL, "expects a string");
  const char *s = L->p + 1;
  if (!skip_string(L)) return false;
  size_t n = (size_t)(L->p - 1 - s);
  if (!memchr(s, '\\', n)) return *out = (hs_str){s, n}, true;
  char *b = hs_arena_alloc(L->arena, n + 1);
  size_t at = 0;
  for (size_t k = 0; k < n; k++) {
    if (s[k] != '\\' || k + 1 == n) {
      b[at++] = s[k];
      continue;
    }
    char c = s[++k];
    int high = hex_digit(c), low = k + 1 < n ? hex_digit(s[k + 1]) : -1;
    if (high >= 0 && low >= 0) b[at++] = (char)(high * 16 + low), k++;
    else b[at++] = c == 'n' ? '\n' : c == 't' ? '\t' : c;
  }
  b[at] = 0;
  return *out = (hs_str){b, at}, true;
}

bool mlir_symbol(hlo_lex *L, hs_str *out) {
  if (hlo_peek(L) != '@') return hlo_lex_error(L, HS_E_SYNTAX, NULL, "expects a symbol, @NAME");
  L->p++;
  if (hlo_at(L, 0) == '"') return mlir_string(L, out);
  const char *at = L->p;
  *out = mlir_word(L);
  return out->n > 0 || hlo_lex_error(L, HS_E_SYNTAX, at, "expects a name after '@'");
}

// ---- tables of names ----------------------------------------------------------------------------
static void place(mlir_names *t, u32 index) {
  size_t at = t->v.v[index].hash & (t->cap - 1);
  while (t->slots[at]) at = (at + 1) & (t->cap - 1);
  t->slots[at] = index + 1;
}

static mlir_name *find(const mlir_names *t, hs_str s, u32 hash) {
  if (!t->cap) return NULL;
  for (size_t at = hash & (t->cap - 1); t->slots[at]; at = (at + 1) & (t->cap - 1)) {
    mlir_name *e = &t->v.v[t->slots[at] - 1];
    if (e->hash == hash && hs_str_eq(e->text, s)) return e;
  }
  return NULL;
}

void *mlir_names_find(const mlir_names *t, hs_str s, u32 *count) {
  const mlir_name *e = find(t, s, (u32)hs_hash_bytes(s.p, s.n, 0));
  if (e && count) *count = e->count;
  return e ? e->what : NULL;
}

bool mlir_names_add(mlir_names *t, hs_str s, void *what, u32 count) {
  u32 hash = (u32)hs_hash_bytes(s.p, s.n, 0);
  if (find(t, s, hash)) return false;
  hs_vec_push(&t->v, ((mlir_name){s, what, hash, count}));
  if (t->v.n * 2 < t->cap) return place(t, (u32)t->v.n - 1), true;
  hs_free(t->slots);
  t->cap = t->cap ? t->cap * 2 : 64;
  t->slots = hs_calloc(t->cap, sizeof *t->slots);
  for (u32 k = 0; k < t->v.n; k++) place(t, k);
  return true;
}

// Entries are placed in their order, so the newest is never in the way of an older one.
void mlir_names_cut(mlir_names *t, size_t n) {
  while (t->v.n > n) {
    const mlir_name *e = &t->v.v[t->v.n - 1];
    size_t at = e->hash & (t->cap - 1);
    while (t->slots[at] != t->v.n) at = (at + 1) & (t->cap - 1);
    t->slots[at] = 0;
    t->v.n--;
  }
}

void mlir_names_free(mlir_names *t) {
  hs_free(t->slots);
  hs_vec_free(&t->v);
}
