// lex.h — characters to values: the cursor that the text readers share.
//
// There are no token objects: each function skips blanks and comments, then reads exactly one thing at the cursor, or
// records an error and returns false. A reader therefore is a chain of `a && b && c`. Errors are kept in the cursor
// (several per file) and become the reader's hs_status at the end; while `failed` is set the cursor stays where it is.
// The buffer need not end in NUL; a NUL inside it is rejected before reading starts.
#ifndef HLO_LEX_H
#define HLO_LEX_H

#include "core/ctx.h"

typedef struct hlo_lex {
  const char *p, *end, *begin;
  const char *file;
  hs_arena *arena;             // for strings that need unescaping
  hs_status errors;            // chain of all diagnostics
  u32 nerrors, max_errors;
  u32 depth, max_depth;
  const char *stack_base;      // address of a local of the outermost reader: bounds the C stack used
  size_t stack_limit;
  bool failed;                 // an error was recorded and not yet recovered from
} hlo_lex;

extern const u8 hlo_char_class[256];
enum { HLO_CH_IDENT = 1, HLO_CH_START = 2, HLO_CH_DIGIT = 4, HLO_CH_SPACE = 8 };
#define hlo_is_ch(c, cls) ((hlo_char_class[(u8)(c)] & (cls)) != 0)

void hlo_lex_init(hlo_lex *, hs_arena *, const char *text, size_t n, const char *file, u32 max_depth, u32 max_errors);
bool hlo_lex_check_nul(hlo_lex *);                        // records the error of a NUL byte
void hlo_lex_skip_comment(hlo_lex *);                     // at '/': skips comments and blanks behind them

static inline void hlo_skip(hlo_lex *L) {
  while (L->p < L->end && hlo_is_ch(*L->p, HLO_CH_SPACE)) L->p++;
  if (HS_UNLIKELY(L->p < L->end && *L->p == '/')) hlo_lex_skip_comment(L);
}
// Next character that is not blank; 0 at the end.
static inline char hlo_peek(hlo_lex *L) { return hlo_skip(L), L->p < L->end ? *L->p : 0; }
static inline char hlo_at(const hlo_lex *L, size_t k) { return (size_t)(L->end - L->p) > k ? L->p[k] : 0; }
static inline bool hlo_accept(hlo_lex *L, char c) { return hlo_peek(L) == c ? (L->p++, true) : false; }
bool hlo_accept_text(hlo_lex *, const char *s);           // exact characters, e.g. "->"
bool hlo_accept_word(hlo_lex *, const char *s);           // an identifier equal to s
bool hlo_expect(hlo_lex *, char c, const char *where);    // "expects ')' at the end of ..."

// [A-Za-z_][A-Za-z0-9_.-]*, empty when there is none.
static inline hs_str hlo_ident(hlo_lex *L) {
  hlo_skip(L);
  const char *s = L->p;
  if (s == L->end || !hlo_is_ch(*s, HLO_CH_START)) return (hs_str){s, 0};
  const char *q = s + 1;
  while (q < L->end && hlo_is_ch(*q, HLO_CH_IDENT)) q++;
  return L->p = q, (hs_str){s, (size_t)(q - s)};
}
hs_str hlo_peek_ident(hlo_lex *);                         // without moving
bool hlo_name(hlo_lex *, hs_str *out);                    // '%'? identifier, by the rules of names
bool hlo_int(hlo_lex *, i64 *out);                        // -2^63 .. 2^64-1, the upper half wraps
bool hlo_bool(hlo_lex *, i64 *out);                       // true / false
bool hlo_double(hlo_lex *, double *out);                  // int or decimal, inf, nan
// A quoted string without its quotes; *owned tells whether it was unescaped into the arena (else it points into the text).
bool hlo_string(hlo_lex *, hs_str *out, bool *owned);
bool hlo_string_copy(hlo_lex *, hs_str *out);             // always in the arena
bool hlo_braced(hlo_lex *, hs_str *out);                  // balanced {...} outside strings, braces included
size_t hlo_braced_length(const char *p, const char *end); // of the balanced {...} at p; 0 when it does not end
bool hlo_is_braced(hs_str s);                             // is the whole string one such value?

// Records an error at `at` (NULL: at the cursor) unless one is pending; always false.
bool hlo_lex_error(hlo_lex *, hs_code, const char *at, const char *fmt, ...) HS_PRINTF(4, 5);
void hlo_lex_note(hlo_lex *, const char *fmt, ...) HS_PRINTF(2, 3);      // appended to the latest error
// Records a status that another part gave, at `at`; always false.
bool hlo_lex_status(hlo_lex *, hs_status, const char *at);
bool hlo_lex_enter(hlo_lex *);                            // one level deeper; false past the limit
static inline void hlo_lex_leave(hlo_lex *L) { L->depth--; }

// Decimal number [p, end) as a double; *used is the length taken, 0 when there is none.
double hlo_scan_double(const char *p, const char *end, size_t *used);

#endif
