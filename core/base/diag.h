// diag.h — errors as values.
//
// hs_status is one pointer, NULL when all is well, must-use at the type level. A diagnostic has a
// stable code (one row in diag.def), a message, a position in a file (line, column, and the source
// line for the caret), notes, and possibly further diagnostics behind it (all errors of a file at
// once). The status owns them: whoever receives a failed status returns it, chains it to another
// (hs_chain), or ends it with hs_status_drop, after hs_status_render if somebody should read it.
#ifndef HLO_DIAG_H
#define HLO_DIAG_H

#include "core/base/base.h"

typedef enum hs_code {
  HS_OK = 0,
#define DIAG(id, code, exit, title, text) HS_##id,
#include "core/base/diag.def"
#undef DIAG
  HS_CODE_COUNT
} hs_code;

typedef struct hs_diag {
  hs_code code;
  char *message;         // one line, no trailing newline
  char *file;            // NULL when the error has no position
  u32 line, col;         // 1-based; 0 when unknown. col counts bytes
  char *source_line;     // text of that line around the column; NULL when unknown
  size_t source_from;    // bytes of the line before it
  char *note;            // further lines: the rule, "did you mean"; NULL when none
  char *subject;         // the opcode or pass that it is about, for programs; NULL when none
  struct hs_diag *next;  // further errors of the same file
} hs_diag;

typedef struct HS_MUST_USE hs_status {
  hs_diag *err;
} hs_status;

#define HS_GOOD ((hs_status){NULL})
static inline bool hs_ok(hs_status s) { return s.err == NULL; }
#define HS_TRY(e)                                 \
  do {                                            \
    hs_status hs_try_ = (e);                      \
    if (HS_UNLIKELY(hs_try_.err)) return hs_try_; \
  } while (0)

// For functions that return hs_status: a statement about our own code that must hold. Otherwise a
// build for finding faults traps, and a release build returns E_INTERNAL with the statement.
#define HS_REQUIRE(x)                                                     \
  do {                                                                    \
    if (HS_NEVER(!(x))) return hs_fail_invariant(#x, __FILE__, __LINE__); \
  } while (0)

// Each makes a failed status of one diagnostic; the message is printf-formatted, one line.
hs_status hs_fail(hs_code code, const char *fmt, ...) HS_PRINTF(2, 3);
hs_status hs_fail_subject(hs_code code, const char *subject, const char *fmt, ...) HS_PRINTF(3, 4);
hs_status hs_fail_invariant(const char *statement, const char *file, int line);
hs_status hs_fail_errno(hs_code code, const char *what);  // appends strerror(errno)
hs_status hs_with_note(hs_status s, const char *fmt, ...) HS_PRINTF(2, 3);  // appends a note line
// Sets the position. source_line: the line without its end; {NULL, 0} when unknown. Copies both.
hs_status hs_with_place(hs_status s, const char *file, u32 line, u32 col, hs_str source_line);
hs_status hs_chain(hs_status first, hs_status more);  // first's list, then more's
void hs_status_drop(hs_status s);     // frees the diagnostics; nothing to do when ok
size_t hs_status_count(hs_status s);  // diagnostics; 0 when ok

// Renders every diagnostic of the chain: "file:line:col: error[E0203]: message", source line,
// caret, notes. All but the colours is in visible form (visible.h), whatever it quotes.
void hs_status_render(hs_status s, hs_buf *out, bool color);

const char *hs_code_text(hs_code c);     // "E0203"
const char *hs_code_title(hs_code c);    // short name of the error
const char *hs_code_explain(hs_code c);  // a sentence or two for the user
int hs_code_exit(hs_code c);             // exit status of a process that ends with this error
hs_code hs_code_find(const char *text);  // "E0203" or "0203" -> code, HS_OK when unknown

// "Did you mean": the candidate at the smallest edit distance from `word`, or NULL when none is
// near. Nothing is nearer than the word with a number behind it (x.1). Borrowed from `candidates`.
const char *hs_nearest(const char *word, const char *const *candidates, size_t n);
// Several of them into out[most], the nearest first; then candidates that share a word of four
// letters or more with `word` ("simplify" and "simplify-sorts", "fold-constants" and
// "constant_folding"). Returns how many.
size_t hs_nearest_some(const char *word, const char *const *candidates, size_t n, const char **out,
                       size_t most);

// E_INTERRUPTED, E_DEADLINE or E_NO_MEMORY, by the reason for which this thread is to stop.
hs_status hs_stopped(void);
// Polled by every long loop: hs_stopped() while this thread is to stop (base.h), else ok.
static inline hs_status hs_poll(void) { return hs_interrupted() ? hs_stopped() : HS_GOOD; }
// Whether an error, not ok, ends all work of this thread (Ctrl-C, the command's deadline, memory)
// instead of being what was tried: who takes an error for a verdict or an outcome asks this first.
static inline bool hs_is_stop(hs_status s) {
  hs_code c = s.err->code;
  return c == HS_E_INTERRUPTED || ((c == HS_E_DEADLINE || c == HS_E_NO_MEMORY) && hs_interrupted());
}
// memcpy for values of any size, which polls on the way: a gigabyte of fresh pages takes a second.
hs_status hs_copy(void *to, const void *from, size_t n);

#endif
