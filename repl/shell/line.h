// line.h — reading lines from a person: editing, history and completion where a library is there,
// plain input otherwise.
#ifndef REPL_LINE_H
#define REPL_LINE_H

#include "repl/shell/session.h"

typedef enum repl_line_end { REPL_LINE_OK, REPL_LINE_EOF, REPL_LINE_CANCELLED } repl_line_end;

// Sets the line editor up for a session, which it borrows: reads the history, installs completion.
void repl_line_open(repl_session *);
// Writes the history (a temporary file, then rename) and releases the editor's memory.
void repl_line_close(void);
// Reads one line and appends it to *out without its newline. CANCELLED: Ctrl-C, the line is
// dropped.
repl_line_end repl_line_read(const char *prompt, hs_buf *out);
// Adds a line to the history.
void repl_line_remember(const char *line);
// "readline", "libedit" or "plain".
const char *repl_line_library(void);

// The characters that end a word for completion.
#define REPL_WORD_BREAKS " \t\n\"'|;,(>"

// ---- completion (complete.c) --------------------------------------------------------------------
// What could stand at byte `start`..`end` of the line, in reading order; *n strings in the arena.
// FILE arguments are completed here too. At most 2000 candidates.
const char **repl_complete(const repl_session *, hs_arena *, const char *line, size_t start,
                           size_t end, u32 *n);

#endif
