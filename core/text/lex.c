// lex.c — reading values at a cursor. See lex.h.
//
// Decimal numbers of at most 19 digits with a power of ten up to 10^22 are converted exactly by one
// multiplication or division (Clinger's fast path, 1990), others by strtod. Strings without a
// backslash are not copied. The reader recurses for nested values: a depth limit and the size of
// the C stack bound it.
#include "core/text/lex.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>

void hlo_lex_init(hlo_lex *L, hs_arena *arena, const char *text, size_t n, const char *file,
                  u32 max_depth, u32 max_errors) {
  struct rlimit r;
  size_t stack = 8u << 20;
  if (getrlimit(RLIMIT_STACK, &r) == 0 && r.rlim_cur < stack) stack = r.rlim_cur;
  *L = (hlo_lex){.p = text,
                 .begin = text,
                 .seen = text,
                 .end = text + n,
                 .file = file ? file : "<text>",
                 .arena = arena,
                 .max_depth = max_depth ? max_depth : 8192,
                 .max_errors = max_errors ? max_errors : 20,
                 .stack_base = __builtin_frame_address(0),
                 .stack_limit = stack / 10 * 6};
}

// ---- errors -------------------------------------------------------------------------------------
// The number of the line that holds a position, from 1; *start: where it begins.
static u32 line_of(const hlo_lex *L, const char *at, const char **start) {
  u32 line = 1;
  *start = L->begin;
  for (const char *q; (q = memchr(*start, '\n', (size_t)(at - *start))); *start = q + 1) line++;
  return line;
}

static bool keep(hlo_lex *L, hs_status s) {
  L->errors = L->errors.err ? hs_chain(L->errors, s) : s;
  L->nerrors++;
  L->failed = true;
  return false;
}

static bool record(hlo_lex *L, hs_status s, const char *at) {
  if (!at) at = L->p;
  if (L->bytes_end) {
    if (at < L->begin || at > L->bytes_end) at = L->now;
    return keep(L, hs_with_note(hs_with_place(s, L->file, 0, 0, (hs_str){0}), "at byte %zu",
                                (size_t)(at - L->begin)));
  }
  if (at > L->end) at = L->end;
  const char *start;
  u32 line = line_of(L, at, &start);
  const char *stop = memchr(start, '\n', (size_t)(L->end - start));
  if (!stop) stop = L->end;
  if (stop - start >
      4000) {  // a window around the position keeps reports of one-line files readable
    if (at - start <= 2000) stop = start + 4000;
    else stop = HS_MIN(stop, at + 2000);
  }
  s = hs_with_place(s, L->file, line, (u32)(at - start) + 1,
                    (hs_str){start, (size_t)(stop - start)});
  return keep(L, s);
}

bool hlo_lex_error(hlo_lex *L, hs_code code, const char *at, const char *fmt, ...) {
  if (L->failed) return false;
  hs_buf b = {0};
  va_list ap;
  va_start(ap, fmt);
  hs_buf_vprintf(&b, fmt, ap);
  va_end(ap);
  record(L, hs_fail(code, "%s", hs_buf_cstr(&b)), at);
  hs_buf_free(&b);
  return false;
}

void hlo_lex_note(hlo_lex *L, const char *fmt, ...) {
  if (!L->errors.err) return;
  hs_buf b = {0};
  va_list ap;
  va_start(ap, fmt);
  hs_buf_vprintf(&b, fmt, ap);
  va_end(ap);
  hs_diag *last = L->errors.err;
  while (last->next) last = last->next;
  hs_status s = hs_with_note((hs_status){last}, "%s", hs_buf_cstr(&b));
  (void)s.err;
  hs_buf_free(&b);
}

void hlo_lex_note_at(hlo_lex *L, const char *at, const char *what) {
  const char *start;
  u32 line = line_of(L, at, &start);
  hlo_lex_note(L, "%u:%u: %s", line, (u32)(at - start) + 1, what);
}

bool hlo_lex_status(hlo_lex *L, hs_status s, const char *at) {
  if (hs_ok(s)) return true;
  if (L->failed) return hs_status_drop(s), false;
  return record(L, s, at);
}

static bool look_until(hlo_lex *L, const char *stop) {
  const char *z = memchr(L->seen, 0, (size_t)(stop - L->seen));
  L->seen = stop;
  if (!z) return true;
  L->seen = L->end;
  hlo_lex_error(L, HS_E_TOKEN, z, "NUL byte in the text");
  return L->p = L->end, false;
}

bool hlo_lex_check_nul(hlo_lex *L) { return look_until(L, L->end); }

bool hlo_lex_look_(hlo_lex *L) {
  enum { BLOCK = 1 << 17 };  // lies in the second-level cache beside what is built from it
  const char *from = HS_MAX(L->seen, L->p), *stop = L->end - from > BLOCK ? from + BLOCK : L->end;
  return look_until(L, stop);
}

bool hlo_lex_too_deep_(hlo_lex *L) {
  return hlo_lex_error(L, HS_E_LIMIT, NULL, "maximum recursion depth exceeded");
}

// ---- blanks, words, punctuation -----------------------------------------------------------------
// Whether the comment at the cursor separates two modules; the text then ends in front of it.
static bool at_separator(hlo_lex *L) {
  const size_t n = sizeof HLO_SEPARATOR - 1;
  if (!L->many || (size_t)(L->end - L->p) < n || memcmp(L->p, HLO_SEPARATOR, n) != 0) return false;
  if (L->p != L->begin && L->p[-1] != '\n') return false;
  L->end = L->p;
  L->seen = HS_MIN(L->seen, L->end);
  return true;
}

void hlo_skip_slow_(hlo_lex *L) {
  for (;;) {
    while (L->p < L->end && hlo_is_ch(*L->p, HLO_CH_SPACE)) L->p++;
    if (L->end - L->p < 2 || *L->p != '/') return;
    if (L->p[1] == '/') {
      if (at_separator(L)) return;
      while (L->p < L->end && *L->p != '\n' && *L->p != '\r') L->p++;
    } else if (L->p[1] == '*') {
      const char *q = L->p + 2;
      while ((q = memchr(q, '*', (size_t)(L->end - q))) && q + 1 < L->end && q[1] != '/') q++;
      if (!q || q + 1 >= L->end) {
        hlo_lex_error(L, HS_E_TOKEN, L->p, "unterminated comment");
        L->p = L->end;
        return;
      }
      L->p = q + 2;
    } else {
      return;
    }
  }
}

hs_str hlo_peek_ident(hlo_lex *L) {
  hs_str s = hlo_ident(L);
  return L->p = s.p, s;
}

bool hlo_expected_(hlo_lex *L, char c, const char *where) {
  return hlo_lex_error(L, HS_E_SYNTAX, NULL, "expects '%c' %s", c, where);
}

bool hlo_is_reserved(hs_str s) {
  static const char *const words[] = {
      "true",        "false",      "inf",           "nan",       "HloModule",
      "ENTRY",       "ROOT",       "FileLocations", "FileNames", "FunctionNames",
      "StackFrames", "maximal",    "replicated",    "manual",    "last_tile_dim_replicate",
      "shard_as",    "shard_like", "unknown",       "unreduced"};
  // the longest of them with a digit at its end: f8e4m3
  if (s.n > 6 && hlo_is_ch(s.p[s.n - 1], HLO_CH_DIGIT)) return false;
  for (size_t i = 0; i < HS_COUNT(words); i++)
    if (words[i][0] == s.p[0] && hs_str_eq(s, hs_str_of(words[i]))) return true;
  return s.n < 16 && hlo_dtype_find(s) != HLO_DT_INVALID;
}

bool hlo_name_slow_(hlo_lex *L, hs_str *out) {
  char c = hlo_peek(L);
  const char *at = L->p;
  if (c == '%') {
    L->p++;
    const char *s = L->p;
    if (s < L->end && hlo_is_ch(*s, HLO_CH_START)) {
      *out = hlo_ident(L);
      return true;
    }
    return hlo_lex_error(L, HS_E_SYNTAX, at, "expects name after '%%'");
  }
  *out = hlo_ident(L);
  // in a signature the ':' behind it makes any word a name
  bool reserved = out->n && hlo_at(L, 0) != ':' && hlo_is_reserved(*out);
  if (out->n == 0 || (hlo_at(L, 0) == '=' && at != L->end) || reserved) {
    L->p = at;
    (void)hlo_lex_error(L, HS_E_SYNTAX, at, "expects name");
    if (reserved)
      hlo_lex_note(L, "%.*s is a word of the language; %.*s_ would be a name", (int)out->n, out->p,
                   (int)out->n, out->p);
    return false;
  }
  if (hlo_at(L, 0) == ':') L->p++;
  return true;
}

// ---- values -------------------------------------------------------------------------------------
bool hlo_int_slow_(hlo_lex *L, i64 *out) {
  hlo_skip(L);
  const char *s = L->p, *p = s;
  bool neg = p < L->end && *p == '-';
  p += neg;
  if (p == L->end || !hlo_is_ch(*p, HLO_CH_DIGIT))
    return hlo_lex_error(L, HS_E_SYNTAX, s, "expects integer");
  u64 v = 0;
  bool over = false;
  for (; p < L->end && hlo_is_ch(*p, HLO_CH_DIGIT); p++) {
    u64 d = (u64)(*p - '0');
    over |= __builtin_mul_overflow(v, 10, &v) || __builtin_add_overflow(v, d, &v);
  }
  if (over || (neg && v > (u64)1 << 63))
    return hlo_lex_error(L, HS_E_TOKEN, s, "integer out of the 64-bit range");
  *out = (i64)(neg ? 0 - v : v);
  L->p = p;
  return true;
}

bool hlo_bool(hlo_lex *L, i64 *out) {
  hs_str s = hlo_peek_ident(L);
  bool yes = hs_str_eq(s, HS_STR("true"));
  if (!yes && !hs_str_eq(s, HS_STR("false")))
    return hlo_lex_error(L, HS_E_SYNTAX, NULL, "expects true or false");
  *out = yes;
  L->p += s.n;
  return true;
}

double hlo_scan_double(const char *p, const char *end, size_t *used) {
  static const double pow10[] = {1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,
                                 1e8,  1e9,  1e10, 1e11, 1e12, 1e13, 1e14, 1e15,
                                 1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};
  const char *s = p;
  bool neg = p < end && *p == '-';
  p += neg;
  u64 mant = 0;
  int digits = 0, frac = 0, any = 0;
  bool dot = false;
  for (; p < end; p++) {
    if (*p == '.' && !dot) {
      dot = true;
      continue;
    }
    if (!hlo_is_ch(*p, HLO_CH_DIGIT)) break;
    any++;
    if (digits < 19) {
      mant = mant * 10 + (u64)(*p - '0');
      digits += mant != 0;
      frac += dot;
    } else {
      digits++;
    }
  }
  *used = 0;
  if (!any) return 0;
  i64 e10 = 0;
  if (p < end && (*p == 'e' || *p == 'E')) {
    const char *q = p + 1;
    bool eneg = q < end && *q == '-';
    q += q < end && (*q == '-' || *q == '+');
    if (q < end && hlo_is_ch(*q, HLO_CH_DIGIT)) {
      for (; q < end && hlo_is_ch(*q, HLO_CH_DIGIT); q++)
        if (e10 < 100000) e10 = e10 * 10 + (*q - '0');
      if (eneg) e10 = -e10;
      p = q;
    }
  }
  *used = (size_t)(p - s);
  i64 e = e10 - frac;
  if (digits <= 19 && mant <= (u64)1 << 53 && e >= -22 && e <= 22) {
    double v = (double)mant;
    v = e < 0 ? v / pow10[-e] : v * pow10[e];
    return neg ? -v : v;
  }
  char tmp[64], *big = *used < sizeof tmp ? tmp : hs_alloc(*used + 1);
  memcpy(big, s, *used);
  big[*used] = 0;
  double v = strtod(big, NULL);
  if (big != tmp) hs_free(big);
  return v;
}

bool hlo_double(hlo_lex *L, double *out) {
  char c = hlo_peek(L);
  bool neg = c == '-' && hlo_is_ch(hlo_at(L, 1), HLO_CH_START);
  const char *at = L->p;
  if (neg || hlo_is_ch(c, HLO_CH_START)) {
    L->p += neg;
    hs_str id = hlo_ident(L);
    if (hs_str_eq(id, HS_STR("inf"))) return *out = neg ? -INFINITY : INFINITY, true;
    if (hs_str_eq(id, HS_STR("nan"))) return *out = neg ? -NAN : NAN, true;
    L->p = at;
    return hlo_lex_error(L, HS_E_SYNTAX, NULL, "expects decimal or int");
  }
  size_t used;
  *out = hlo_scan_double(L->p, L->end, &used);
  // a dot begins `...` only; behind a sign it begins a number
  if (!used || c == '.') return hlo_lex_error(L, HS_E_SYNTAX, NULL, "expects decimal or int");
  L->p += used;
  return true;
}

static int hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

static size_t put_utf8(char *d, u32 c) {
  if (c < 0x80) return d[0] = (char)c, 1;
  if (c < 0x800) return d[0] = (char)(0xC0 | c >> 6), d[1] = (char)(0x80 | (c & 63)), 2;
  if (c < 0x10000)
    return d[0] = (char)(0xE0 | c >> 12), d[1] = (char)(0x80 | (c >> 6 & 63)),
           d[2] = (char)(0x80 | (c & 63)), 3;
  return d[0] = (char)(0xF0 | c >> 18), d[1] = (char)(0x80 | (c >> 12 & 63)),
         d[2] = (char)(0x80 | (c >> 6 & 63)), d[3] = (char)(0x80 | (c & 63)), 4;
}

// One escape at *s (behind the backslash) to d; C rules. False on an unknown one.
static bool unescape_one(const char **s, const char *end, char *d, size_t *n) {
  static const char from[] = "abfnrtv\\?'\"", to[] = "\a\b\f\n\r\t\v\\?'\"";
  const char *p = *s;
  if (p == end) return false;
  char c = *p++;
  const char *known = memchr(from, c, sizeof from - 1);
  *n = 1;
  if (known) {
    *d = to[known - from];
  } else if (c >= '0' && c <= '7') {
    int v = c - '0';
    for (int k = 0; k < 2 && p < end && *p >= '0' && *p <= '7'; k++) v = v * 8 + (*p++ - '0');
    if (v > 255) return false;
    *d = (char)v;
  } else if (c == 'x' || c == 'X') {
    u32 v = 0;
    int k = 0;
    for (; p < end && hex_digit(*p) >= 0; p++, k++)
      if ((v = v * 16 + (u32)hex_digit(*p)) > 255) return false;
    if (!k) return false;
    *d = (char)v;
  } else if (c == 'u' || c == 'U') {
    u32 v = 0;
    int want = c == 'u' ? 4 : 8;
    for (int k = 0; k < want; k++, p++) {
      if (p == end || hex_digit(*p) < 0) return false;
      v = v * 16 + (u32)hex_digit(*p);
    }
    if (v > 0x10FFFF || (v >= 0xD800 && v < 0xE000)) return false;
    *n = put_utf8(d, v);
  } else {
    return false;
  }
  *s = p;
  return true;
}

bool hlo_string(hlo_lex *L, hs_str *out, bool *owned) {
  char quote = hlo_peek(L);
  const char *at = L->p;
  if (quote != '"' && quote != '\'') return hlo_lex_error(L, HS_E_SYNTAX, at, "expects string");
  const char *s = at + 1, *p = s;
  bool escapes = false;
  for (;;) {
    p = hlo_scan_for2(p, L->end, quote, '\\');
    if (p == L->end || (*p != quote && L->end - p < 2))
      return hlo_lex_error(L, HS_E_TOKEN, at, "unterminated string");
    if (*p == quote) break;
    escapes = true;
    p += 2;
  }
  L->p = p + 1;
  *owned = escapes;
  if (!escapes) return *out = (hs_str){s, (size_t)(p - s)}, true;
  char *d = hs_arena_alloc(L->arena, (size_t)(p - s) + 5), *w = d;
  for (const char *r = s; r < p;) {
    const char *bad = hlo_scan_for(r, p, '\\');
    size_t n = (size_t)(bad - r);
    memcpy(w, r, n);
    w += n;
    if ((r = bad) == p) break;
    r++;
    if (!unescape_one(&r, p, w, &n))
      return hlo_lex_error(L, HS_E_TOKEN, bad, "failed unescaping string: unknown escape");
    w += n;
  }
  *w = 0;
  *out = (hs_str){d, (size_t)(w - d)};
  return true;
}

bool hlo_string_copy(hlo_lex *L, hs_str *out) {
  bool owned;
  if (!hlo_string(L, out, &owned)) return false;
  if (!owned) out->p = hs_arena_strndup(L->arena, out->p, out->n);
  return true;
}

bool hlo_braced(hlo_lex *L, hs_str *out) {
  if (hlo_peek(L) != '{') return hlo_lex_error(L, HS_E_SYNTAX, NULL, "expects '{'");
  size_t n = hlo_braced_length(L->p, L->end);
  if (!n) return hlo_lex_error(L, HS_E_TOKEN, NULL, "unbalanced '{'");
  *out = (hs_str){L->p, n};
  L->p += n;
  return true;
}
