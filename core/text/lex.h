// lex.h — a cursor over text, and functions that read one value at it. Private to core/text and
// core/mlir.
//
// There are no token objects: each function skips blanks and comments, then reads exactly one thing
// at the cursor, or records an error and returns false; a reader is a chain of `a && b && c`.
// Errors are kept in the cursor (several per file) and become the reader's hs_status at the end;
// while `failed` is set, further errors are not recorded. The text need not end in NUL; a NUL
// inside it is an error, found a block ahead of the cursor (hlo_lex_ahead). Values that need no
// unescaping point into the text.
#ifndef HLO_LEX_H
#define HLO_LEX_H

#include "core/types/ctx.h"
#include "core/base/scan.h"

typedef struct hlo_lex {
  const char *p, *end, *begin;
  const char *seen;  // no NUL before this
  const char *file;
  hs_arena *arena;   // for strings that need unescaping
  hs_status errors;  // chain of all diagnostics
  u32 nerrors, max_errors;
  u32 depth, max_depth;
  // bounds the C stack used: address of a local of the outermost reader, and bytes from there
  const char *stack_base;
  size_t stack_limit;
  bool failed;  // an error was recorded and not yet recovered from
  // not NULL: the text is bytes that end here. Errors are at bytes; those in pieces of text made
  // from them at `now`
  const char *bytes_end, *now;
  bool many;  // a line that begins with HLO_SEPARATOR ends the text
} hlo_lex;

// What stands between the modules of one file, at the beginning of a line (hlo-opt's manner).
#define HLO_SEPARATOR "// -----"

void hlo_lex_init(hlo_lex *, hs_arena *, const char *text, size_t n, const char *file,
                  u32 max_depth, u32 max_errors);
// Searches the rest of the text for NUL bytes. False: there is one, the error is recorded and the
// cursor is at the end.
bool hlo_lex_check_nul(hlo_lex *);
bool hlo_lex_look_(hlo_lex *);
// Called at the beginning of a line: searches the next block of text for NUL bytes when the cursor
// comes near the end of the last one. The sequential search also brings the block into the cache,
// where reading line by line would miss once per line. False: there is a NUL.
static inline bool hlo_lex_ahead(hlo_lex *L) {
  enum { NEAR = 1024 };
  return HS_LIKELY(L->seen - L->p > NEAR || L->seen == L->end) || hlo_lex_look_(L);
}
// Skips blanks and comments.
void hlo_skip_slow_(hlo_lex *);
static inline void hlo_skip(hlo_lex *L) {
  const char *p = L->p;
  if (p < L->end && *p == ' ') p++;  // one blank or none, mostly
  if (HS_LIKELY(p < L->end && !hlo_is_ch(*p, HLO_CH_SPACE | HLO_CH_SLASH))) L->p = p;
  else hlo_skip_slow_(L);
}
// Next character that is not blank; 0 at the end.
static inline char hlo_peek(hlo_lex *L) { return hlo_skip(L), L->p < L->end ? *L->p : 0; }
static inline char hlo_at(const hlo_lex *L, size_t k) {
  return (size_t)(L->end - L->p) > k ? L->p[k] : 0;
}
static inline bool hlo_accept(hlo_lex *L, char c) {
  return hlo_peek(L) == c ? (L->p++, true) : false;
}
// Exact characters, e.g. "->".
static inline bool hlo_accept_text(hlo_lex *L, const char *s) {
  size_t n = strlen(s);
  hlo_skip(L);
  if ((size_t)(L->end - L->p) < n || memcmp(L->p, s, n) != 0) return false;
  return L->p += n, true;
}
// An identifier equal to s.
static inline bool hlo_accept_word(hlo_lex *L, const char *s) {
  size_t n = strlen(s);
  hlo_skip(L);
  if ((size_t)(L->end - L->p) < n || *L->p != *s || memcmp(L->p, s, n) != 0) return false;
  if (L->p + n < L->end && hlo_is_ch(L->p[n], HLO_CH_IDENT)) return false;
  return L->p += n, true;
}
bool hlo_expected_(hlo_lex *, char c, const char *where);
// "expects ')' at the end of ..."
static inline bool hlo_expect(hlo_lex *L, char c, const char *where) {
  return hlo_accept(L, c) || hlo_expected_(L, c, where);
}

// [A-Za-z_][A-Za-z0-9_.-]*, empty when there is none.
static inline hs_str hlo_ident(hlo_lex *L) {
  hlo_skip(L);
  const char *s = L->p;
  if (s == L->end || !hlo_is_ch(*s, HLO_CH_START)) return (hs_str){s, 0};
  return L->p = hlo_scan_ident(s + 1, L->end), (hs_str){s, (size_t)(L->p - s)};
}
hs_str hlo_peek_ident(hlo_lex *);  // without moving
bool hlo_name_slow_(hlo_lex *, hs_str *out);
// '%'? identifier, by the rules of names.
static inline bool hlo_name(hlo_lex *L, hs_str *out) {
  if (hlo_peek(L) != '%' || L->end - L->p < 2 || !hlo_is_ch(L->p[1], HLO_CH_START))
    return hlo_name_slow_(L, out);
  const char *s = L->p + 1;
  return L->p = hlo_scan_ident(s + 1, L->end), *out = (hs_str){s, (size_t)(L->p - s)}, true;
}
// Whether the word is a name only with '%' in front of it.
bool hlo_is_reserved(hs_str);
bool hlo_int_slow_(hlo_lex *, i64 *out);
// -2^63 .. 2^64-1, the upper half wraps. In line: a few digits at the cursor.
static inline bool hlo_int(hlo_lex *L, i64 *out) {
  const char *p = L->p, *stop = L->end - p > 17 ? p + 17 : L->end;
  i64 v = 0;
  while (p < stop && hlo_is_ch(*p, HLO_CH_DIGIT)) v = v * 10 + (*p++ - '0');
  if (p == L->p || p == stop) return hlo_int_slow_(L, out);
  return L->p = p, *out = v, true;
}
bool hlo_bool(hlo_lex *, i64 *out);       // true / false
bool hlo_double(hlo_lex *, double *out);  // int or decimal, inf, nan
// A quoted string without its quotes; *owned tells whether it was unescaped into the arena (else it
// points into the text).
bool hlo_string(hlo_lex *, hs_str *out, bool *owned);
bool hlo_string_copy(hlo_lex *, hs_str *out);  // always in the arena
// balanced {...} outside strings, braces included
bool hlo_braced(hlo_lex *, hs_str *out);

// Records an error at `at` (NULL: at the cursor) unless one is pending; always false.
bool hlo_lex_error(hlo_lex *, hs_code, const char *at, const char *fmt, ...) HS_PRINTF(4, 5);
// appended to the latest error
void hlo_lex_note(hlo_lex *, const char *fmt, ...) HS_PRINTF(2, 3);
// A note that points to another position of the text: "12:3: what".
void hlo_lex_note_at(hlo_lex *, const char *at, const char *what);
// Records a status that another part gave, at `at`; always false.
bool hlo_lex_status(hlo_lex *, hs_status, const char *at);
bool hlo_lex_too_deep_(hlo_lex *);
// One level deeper; false past the limit.
static inline bool hlo_lex_enter(hlo_lex *L) {
  const char *here = __builtin_frame_address(0);
  size_t used =
      here < L->stack_base ? (size_t)(L->stack_base - here) : (size_t)(here - L->stack_base);
  return (++L->depth <= L->max_depth && used <= L->stack_limit) || hlo_lex_too_deep_(L);
}
static inline void hlo_lex_leave(hlo_lex *L) { L->depth--; }

// Decimal number [p, end) as a double; *used is the length taken, 0 when there is none.
double hlo_scan_double(const char *p, const char *end, size_t *used);

#endif
