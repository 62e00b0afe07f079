// mutate_text.c — HLO text, changed by tokens. The text is cut into words, numbers and
// punctuation; a change picks a token and does to it what its kind allows: numbers become edge
// values, element types and opcodes others of their kind, operands change places, attributes
// and lines go, come twice or come from another module. Changes of all tokens of one spelling
// (every 64 becomes 0, every f32 becomes u4) give modules that are still consistent, hence
// often valid: they reach what the verifier guards.
#include "core/types/ops.h"
#include "core/types/dtype.h"
#include "tests/harness/mutate.h"

#include <stdio.h>

u64 mutate_next(u64 *state) {
  u64 z = (*state += 0x9E3779B97F4A7C15ull);
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ull;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBull;
  return z ^ (z >> 31);
}
size_t mutate_below(u64 *state, size_t n) { return n ? (size_t)(mutate_next(state) % n) : 0; }

void mutate_replace(hs_buf *b, size_t at, size_t n, const char *p, size_t m) {
  for (size_t k = n; k < m; k++) hs_buf_putc(b, 0);  // room
  size_t tail = b->n - (m > n ? m - n : 0) - at - n;
  memmove(b->p + at + m, b->p + at + n, tail);
  if (m) memcpy(b->p + at, p, m);
  b->n = at + m + tail;
}

void mutate_bytes(u64 *state, hs_buf *b) {
  static const u64 odd[] = {0, 1, UINT64_MAX, 0x7F, 0x80, 0xFFFF, (u64)1 << 31, (u64)1 << 63};
  if (b->n == 0) hs_buf_putc(b, 0);
  size_t at = mutate_below(state, b->n), len = 1 + mutate_below(state, 16);
  len = HS_MIN(len, b->n - at);
  char piece[16];
  memcpy(piece, b->p + at, len);
  switch (mutate_below(state, 6)) {
  case 0: b->p[at] = (char)(b->p[at] ^ (1 << mutate_below(state, 8))); break;
  case 1: b->p[at] = (char)mutate_next(state); break;
  case 2: mutate_replace(b, at, len, NULL, 0); break;
  case 3: mutate_replace(b, mutate_below(state, b->n), 0, piece, len); break;
  case 4: {
    u64 v = odd[mutate_below(state, HS_COUNT(odd))];
    memcpy(b->p + at, &v, HS_MIN(HS_MIN(len, b->n - at), sizeof v));
    break;
  }
  default: b->n = at + len; break;
  }
}

// ---- tokens -------------------------------------------------------------------------------------
typedef enum kind { WORD, NUMBER, OTHER } kind;
typedef struct token {
  size_t at, n;
  kind kind;
} token;
typedef HS_VEC(token) tokens;
typedef struct work {
  u64 *state;
  hs_buf *b;
  tokens t;
  const char *other;
  size_t nother;
} work;

static bool is_word(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
         c == '.' || c == '-' || c == '%';
}

static void cut(work *w) {
  w->t.n = 0;
  const char *p = w->b->p;
  for (size_t k = 0, end; k < w->b->n; k = end) {
    end = k + 1;
    if (p[k] == ' ' || p[k] == '\n') continue;
    if (p[k] == '"') {
      while (end < w->b->n && p[end] != '"' && p[end] != '\n') end++;
      end += end < w->b->n;
      hs_vec_push(&w->t, ((token){k, end - k, OTHER}));
      continue;
    }
    while (is_word(p[k]) && end < w->b->n && is_word(p[end])) end++;
    bool number = (p[k] >= '0' && p[k] <= '9') ||
                  (p[k] == '-' && end > k + 1 && p[k + 1] >= '0' && p[k + 1] <= '9');
    hs_vec_push(&w->t, ((token){k, end - k, number ? NUMBER : is_word(p[k]) ? WORD : OTHER}));
  }
}

static char at(const work *w, size_t k) { return k < w->t.n ? w->b->p[w->t.v[k].at] : '\0'; }
static hs_str word(const work *w, size_t k) {
  return (hs_str){w->b->p + w->t.v[k].at, w->t.v[k].n};
}
static size_t below(work *w, size_t n) { return mutate_below(w->state, n); }
static void put(work *w, size_t k, const char *s) {
  mutate_replace(w->b, w->t.v[k].at, w->t.v[k].n, s, strlen(s));
}
// Every token that is spelled like token k.
static void put_all(work *w, size_t k, const char *s) {
  char *old = hs_format("%.*s", (int)w->t.v[k].n, w->b->p + w->t.v[k].at);
  for (size_t j = w->t.n; j-- > 0;)
    if (hs_str_eq(word(w, j), hs_str_of(old))) put(w, j, s);
  hs_free(old);
}

typedef bool accepts(const work *, size_t k);
static bool is_number(const work *w, size_t k) { return w->t.v[k].kind == NUMBER; }
static bool is_dtype(const work *w, size_t k) {
  return w->t.v[k].kind == WORD && at(w, k + 1) == '[' &&
         hlo_dtype_find(word(w, k)) != HLO_DT_INVALID;
}
static bool is_opcode(const work *w, size_t k) {
  return w->t.v[k].kind == WORD && at(w, k + 1) == '(' && k > 0 && at(w, k - 1) != '\n' &&
         at(w, k) != '%';
}
static bool is_operand(const work *w, size_t k) {
  return w->t.v[k].kind == WORD && k > 0 && (at(w, k - 1) == '(' || at(w, k - 1) == ',') &&
         (at(w, k + 1) == ',' || at(w, k + 1) == ')');
}
static bool is_attribute(const work *w, size_t k) {
  return w->t.v[k].kind == WORD && k > 0 && at(w, k - 1) == ',' && at(w, k + 1) == '=';
}
static bool is_callee(const work *w, size_t k) {
  if (w->t.v[k].kind != WORD || k < 2 || at(w, k - 1) != '=') return false;
  hs_str key = word(w, k - 2);
  return hs_str_eq(key, HS_STR("to_apply")) || hs_str_eq(key, HS_STR("calls")) ||
         hs_str_eq(key, HS_STR("body")) || hs_str_eq(key, HS_STR("condition"));
}
static bool is_dims(const work *w, size_t k) {
  return at(w, k) == '[' && k > 0 && is_dtype(w, k - 1);
}
static bool is_open(const work *w, size_t k) { return at(w, k) == '{' || at(w, k) == '('; }

// A token that is accepted, of those from a random one on; false: there is none.
static bool find(work *w, accepts *f, size_t *k) {
  size_t from = below(w, w->t.n);
  for (size_t j = 0; j < w->t.n; j++) {
    *k = (from + j) % w->t.n;
    if (f(w, *k)) return true;
  }
  return false;
}

// The token after the bracket that closes the one at k.
static size_t past(const work *w, size_t k) {
  size_t depth = 0;
  for (; k < w->t.n; k++) {
    char c = at(w, k);
    if (c == '(' || c == '{' || c == '[') depth++;
    if ((c == ')' || c == '}' || c == ']') && --depth == 0) return k + 1;
  }
  return k;
}
// The token behind an attribute whose key is at k.
static size_t past_attribute(const work *w, size_t k) {
  size_t v = k + 2;
  if (v >= w->t.n) return w->t.n;
  return at(w, v) == '{' || at(w, v) == '[' || at(w, v) == '(' ? past(w, v) : v + 1;
}
static size_t begin_of(const work *w, size_t k) { return k < w->t.n ? w->t.v[k].at : w->b->n; }
static size_t end_of(const work *w, size_t k) { return w->t.v[k].at + w->t.v[k].n; }

// ---- what there is to write ---------------------------------------------------------------------
static void number(work *w, char *out) {
  static const char *const edges[] = {"0",
                                      "1",
                                      "2",
                                      "3",
                                      "-1",
                                      "7",
                                      "8",
                                      "16",
                                      "17",
                                      "31",
                                      "32",
                                      "33",
                                      "63",
                                      "64",
                                      "65",
                                      "127",
                                      "128",
                                      "255",
                                      "256",
                                      "1000",
                                      "65535",
                                      "65536",
                                      "2147483647",
                                      "2147483648",
                                      "-2147483648",
                                      "4294967295",
                                      "4294967296",
                                      "9223372036854775807",
                                      "-9223372036854775808",
                                      "18446744073709551615",
                                      "99999999999999999999",
                                      "1e38",
                                      "1e-45",
                                      "0.5",
                                      "-0.0",
                                      "1e400"};
  // small ones keep more modules valid
  size_t n = below(w, 3) ? 12 : HS_COUNT(edges);
  snprintf(out, 32, "%s", edges[below(w, n)]);
}
static const char *dtype(work *w) {
  return hlo_dtype_text((hlo_dtype)(1 + below(w, HLO_DTYPE_COUNT - 1)));
}
static const char *opcode(work *w, size_t k) {
  hlo_opcode now = hlo_op_find(word(w, k));
  bool like = now != HLO_OP_INVALID && below(w, 5) != 0;
  for (size_t tries = 0; tries < 400; tries++) {
    hlo_opcode c = (hlo_opcode)(1 + below(w, HLO_OPCODE_COUNT - 1));
    if (!like || (hlo_ops[c].arity == hlo_ops[now].arity &&
                  hlo_op_has(c, HLO_F_ELEMENTWISE) == hlo_op_has(now, HLO_F_ELEMENTWISE)))
      return hlo_op_text(c);
  }
  return "add";
}

// ---- changes ------------------------------------------------------------------------------------
typedef bool change(work *);

static bool change_number(work *w) {
  size_t k;
  char s[32];
  return find(w, is_number, &k) && (number(w, s), put(w, k, s), true);
}
static bool change_number_everywhere(work *w) {
  size_t k;
  char s[32];
  return find(w, is_number, &k) && (number(w, s), put_all(w, k, s), true);
}
static bool change_dtype(work *w) {
  size_t k;
  return find(w, is_dtype, &k) && (put(w, k, dtype(w)), true);
}
static bool change_dtype_everywhere(work *w) {
  size_t k;
  return find(w, is_dtype, &k) && (put_all(w, k, dtype(w)), true);
}
static bool change_opcode(work *w) {
  size_t k;
  return find(w, is_opcode, &k) && (put(w, k, opcode(w, k)), true);
}
static bool change_opcode_everywhere(work *w) {
  size_t k;
  return find(w, is_opcode, &k) && (put_all(w, k, opcode(w, k)), true);
}
// One dimension more or less, or another order of them.
static bool change_dims(work *w) {
  size_t k;
  if (!find(w, is_dims, &k)) return false;
  size_t end = past(w, k);
  if (end <= k + 2 || below(w, 3) == 0) {
    static const char *const more[] = {"1", "1,", "0,", "2,", "<=4,", "?,", "3,1,"};
    const char *s = end <= k + 2 ? "1" : more[below(w, HS_COUNT(more))];
    mutate_replace(w->b, end_of(w, k), 0, s, strlen(s));
  } else if (below(w, 2)) {
    mutate_replace(w->b, end_of(w, k), begin_of(w, HS_MIN(k + 3, end - 1)) - end_of(w, k), "", 0);
  } else {
    mutate_replace(w->b, end_of(w, k), begin_of(w, end - 1) - end_of(w, k), "", 0);
  }
  return true;
}
static bool swap_operands(work *w) {
  size_t a, b;
  if (!find(w, is_operand, &a)) return false;
  if (below(w, 2) && a + 2 < w->t.n && is_operand(w, a + 2)) b = a + 2;
  else if (!find(w, is_operand, &b)) return false;
  if (a == b) return false;
  if (a > b) {
    size_t c = a;
    a = b, b = c;
  }
  char *x = hs_format("%.*s", (int)w->t.v[a].n, w->b->p + w->t.v[a].at),
       *y = hs_format("%.*s", (int)w->t.v[b].n, w->b->p + w->t.v[b].at);
  put(w, b, x);  // the later one first
  put(w, a, y);
  hs_free(x);
  hs_free(y);
  return true;
}
static bool copy_operand(work *w) {
  size_t a, b;
  if (!find(w, is_operand, &a) || !find(w, is_operand, &b) || a == b) return false;
  char *x = hs_format("%.*s", (int)w->t.v[a].n, w->b->p + w->t.v[a].at);
  put(w, b, x);
  hs_free(x);
  return true;
}
static bool drop_operand(work *w) {
  size_t k;
  if (!find(w, is_operand, &k)) return false;
  bool before = at(w, k - 1) == ',', after = at(w, k + 1) == ',';
  size_t from = before ? w->t.v[k - 1].at : w->t.v[k].at;
  mutate_replace(w->b, from, (!before && after ? end_of(w, k + 1) : end_of(w, k)) - from, "", 0);
  return true;
}
static bool repeat_operand(work *w) {
  size_t k;
  if (!find(w, is_operand, &k)) return false;
  char *x = hs_format("%.*s, ", (int)w->t.v[k].n, w->b->p + w->t.v[k].at);
  mutate_replace(w->b, w->t.v[k].at, 0, x, strlen(x));
  hs_free(x);
  return true;
}
static bool swap_callee(work *w) {
  size_t a, b;
  if (!find(w, is_callee, &a) || !find(w, is_callee, &b) || a == b) return false;
  char *x = hs_format("%.*s", (int)w->t.v[a].n, w->b->p + w->t.v[a].at);
  put(w, b, x);
  hs_free(x);
  return true;
}
// An operation becomes the call of a function that hlosh knows, or a call that of another one: the
// verifier does not hold operands and results of calls to anything.
static bool change_target(work *w) {
  static const char *const targets[] = {
#define CUSTOM(id, target, shape, eval, cost, flags) target,
#include "core/analysis/customcalls.def"
#undef CUSTOM
  };
  size_t k, end, a;
  if (!find(w, is_opcode, &k) || (end = past(w, k + 1)) > w->t.n) return false;
  char *x = hs_format(", custom_call_target=\"%s\"", targets[below(w, HS_COUNT(targets))]);
  for (char *p = x; *p; p++)
    if (*p == '?' || *p == '*') *p = "sdcz"[below(w, 4)];
  if (!hs_str_eq(word(w, k), HS_STR("custom-call"))) {
    size_t from = end_of(w, end - 1), n = 0;
    if (below(w, 4))  // without what only the operation has
      while (from + n < w->b->n && w->b->p[from + n] != '\n') n++;
    mutate_replace(w->b, from, n, x, strlen(x));
    put(w, k, "custom-call");
  } else {
    for (a = end; a + 2 < w->t.n && !hs_str_eq(word(w, a), HS_STR("custom_call_target"));) a++;
    if (a + 2 < w->t.n) put(w, a + 2, strchr(x, '"'));
  }
  hs_free(x);
  return true;
}
static bool drop_attribute(work *w) {
  size_t k;
  if (!find(w, is_attribute, &k)) return false;
  size_t from = w->t.v[k - 1].at;
  mutate_replace(w->b, from, end_of(w, past_attribute(w, k) - 1) - from, "", 0);
  return true;
}
// An attribute of one instruction, put behind another one's, or its value in the other's place.
static bool copy_attribute(work *w) {
  size_t a, b;
  if (!find(w, is_attribute, &a) || !find(w, is_attribute, &b)) return false;
  bool value = below(w, 2);
  size_t enda = past_attribute(w, a), endb = past_attribute(w, b),
         from = value ? begin_of(w, a + 2) : w->t.v[a - 1].at;
  if (begin_of(w, a + 2) >= w->b->n || begin_of(w, b + 2) >= w->b->n) return false;
  char *x = hs_format("%.*s", (int)(end_of(w, enda - 1) - from), w->b->p + from);
  size_t to = value ? begin_of(w, b + 2) : end_of(w, endb - 1);
  mutate_replace(w->b, to, value ? end_of(w, endb - 1) - to : 0, x, strlen(x));
  hs_free(x);
  return true;
}
// A list in braces or brackets: emptied, or an element of it twice.
static bool change_list(work *w) {
  size_t k;
  if (!find(w, is_open, &k)) return false;
  size_t end = past(w, k);
  if (end <= k + 2 || end > w->t.n || end_of(w, end - 1) - end_of(w, k) > 400) return false;
  if (below(w, 2)) {
    mutate_replace(w->b, end_of(w, k), begin_of(w, end - 1) - end_of(w, k), "", 0);
  } else {
    char *x = hs_format(",%.*s", (int)w->t.v[k + 1].n, w->b->p + w->t.v[k + 1].at);
    mutate_replace(w->b, end_of(w, k + 1), 0, x, strlen(x));
    hs_free(x);
  }
  return true;
}

// ---- lines --------------------------------------------------------------------------------------
// The line in which byte k lies, its newline included.
static hs_str line_at(const char *p, size_t n, size_t k) {
  size_t a = k, b = k;
  while (a > 0 && p[a - 1] != '\n') a--;
  while (b < n && p[b] != '\n') b++;
  b += b < n;
  return (hs_str){p + a, b - a};
}
static bool change_lines(work *w) {
  if (w->b->n == 0) return false;
  hs_str a = line_at(w->b->p, w->b->n, below(w, w->b->n)),
         b = line_at(w->b->p, w->b->n, below(w, w->b->n));
  size_t from = (size_t)(a.p - w->b->p), to = (size_t)(b.p - w->b->p);
  char *copy = hs_format("%.*s", (int)a.n, a.p);
  switch (below(w, 4)) {
  case 0: mutate_replace(w->b, from, a.n, "", 0); break;
  case 1: mutate_replace(w->b, from, 0, copy, strlen(copy)); break;
  case 2: mutate_replace(w->b, to, 0, copy, strlen(copy)); break;
  default: mutate_replace(w->b, to, b.n, copy, strlen(copy)); break;
  }
  hs_free(copy);
  return true;
}
static bool splice_lines(work *w) {
  if (!w->nother || w->b->n == 0) return false;
  size_t k = below(w, w->nother), count = 1 + below(w, 6), n = 0;
  const char *p = line_at(w->other, w->nother, k).p;
  while (count-- > 0 && (size_t)(p + n - w->other) < w->nother)
    n += line_at(p, w->nother - (size_t)(p - w->other), n).n;
  size_t to = (size_t)(line_at(w->b->p, w->b->n, below(w, w->b->n)).p - w->b->p);
  mutate_replace(w->b, to, 0, p, HS_MIN(n, 2000));
  return true;
}
static bool change_bytes(work *w) { return mutate_bytes(w->state, w->b), true; }

void mutate_text(u64 *state, hs_buf *text, const char *other, size_t nother, u32 edits) {
  // as often as they stand here
  static change *const changes[] = {change_number,
                                    change_number,
                                    change_number_everywhere,
                                    change_number_everywhere,
                                    change_number_everywhere,
                                    change_dtype,
                                    change_dtype_everywhere,
                                    change_dtype_everywhere,
                                    change_opcode,
                                    change_opcode,
                                    change_opcode,
                                    change_opcode_everywhere,
                                    change_dims,
                                    swap_operands,
                                    swap_operands,
                                    copy_operand,
                                    copy_operand,
                                    drop_operand,
                                    repeat_operand,
                                    swap_callee,
                                    change_target,
                                    drop_attribute,
                                    copy_attribute,
                                    copy_attribute,
                                    change_list,
                                    change_lines,
                                    change_lines,
                                    splice_lines,
                                    change_bytes};
  work w = {.state = state, .b = text, .other = other, .nother = nother};
  for (u32 k = 0; k < edits; k++) {
    cut(&w);
    bool done = false;
    for (u32 tries = 0; !done && tries < 8 && w.t.n; tries++)
      done = changes[below(&w, HS_COUNT(changes))](&w);
  }
  hs_vec_free(&w.t);
}
