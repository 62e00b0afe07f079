// diag.h — errors as values.
//
// hs_status is one pointer, NULL when all is well, must-use at the type level. A diagnostic has a
// stable code (one row in diag.def), a place (file:line:col and the source line for the caret), a
// message, notes, and possibly more diagnostics behind it (all errors of a file in one go). Whoever
// receives a bad status either returns it or consumes it with hs_status_print / hs_status_drop.
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
  char *message;      // one line, no trailing newline
  char *file;         // NULL when there is no place
  u32 line, col;      // 1-based; 0 when unknown. col counts bytes
  char *source_line;  // text of that line, for the caret; NULL when unknown
  char *note;         // further lines: the rule, "did you mean"; NULL when none
  // name of what it is about (an opcode, a pass), for machines; NULL when none
  char *subject;
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

// Makes a failed status; the message is printf-formatted.
hs_status hs_fail(hs_code code, const char *fmt, ...) HS_PRINTF(2, 3);
hs_status hs_fail_subject(hs_code code, const char *subject, const char *fmt, ...) HS_PRINTF(3, 4);
hs_status hs_fail_errno(hs_code code, const char *what);  // appends strerror(errno)
hs_status hs_with_note(hs_status s, const char *fmt, ...) HS_PRINTF(2, 3);  // appends a note line
hs_status hs_with_place(hs_status s, const char *file, u32 line, u32 col, hs_str source_line);
hs_status hs_chain(hs_status first, hs_status more);  // first's list, then more's
// frees; for errors that are expected and handled
void hs_status_drop(hs_status s);
size_t hs_status_count(hs_status s);

// Renders every diagnostic of the chain: "file:line:col: error[E0203]: message", source line,
// caret, notes.
void hs_status_render(hs_status s, hs_buf *out, bool color);

const char *hs_code_text(hs_code c);   // "E0203"
const char *hs_code_title(hs_code c);  // short name of the error
const char *hs_code_explain(hs_code c);
// the process exit code this error stands for (design: contracts)
int hs_code_exit(hs_code c);
hs_code hs_code_find(const char *text);  // "E0203" or "0203" -> code, HS_OK when unknown

// Edit distance based suggestion: the candidate nearest to `word`, or NULL when nothing is near
// enough.
const char *hs_nearest(const char *word, const char *const *candidates, size_t n);
// Several of them into out[most], the nearest first; behind those near enough, candidates that hold
// the word or share one of four letters or more with it ("simplify" is in "simplify-sorts",
// "fold-constants" shares "constant"). Returns how many.
size_t hs_nearest_some(const char *word, const char *const *candidates, size_t n, const char **out,
                       size_t most);

// Polled by every long loop: E_INTERRUPTED after Ctrl-C, else ok.
static inline hs_status hs_poll(void) {
  return HS_UNLIKELY(hs_interrupted) ? hs_fail(HS_E_INTERRUPTED, "interrupted") : HS_GOOD;
}

#endif
