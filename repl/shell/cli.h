// cli.h: the command line of the program: its options, its exit statuses, and its completion for
// the user's own shell.
#ifndef REPL_CLI_H
#define REPL_CLI_H

#include "repl/shell/session.h"

// One option. `arg` is NULL for a flag; a name of one letter takes its argument as the next word, a
// long one after '='. words: what the argument may be, "a|b|c"; NULL: anything.
typedef struct repl_option {
  const char *name, *arg, *words, *summary;
} repl_option;
extern const repl_option repl_options[];
extern const u32 repl_option_count;

typedef struct repl_exit_status {
  int code;
  const char *meaning;
} repl_exit_status;
extern const repl_exit_status repl_exit_statuses[];
extern const u32 repl_exit_status_count;

// What --help prints.
void repl_cli_usage(hs_buf *);

// Completes the last word of `line`, a command line of a POSIX shell that starts with this
// program's name and is cut off at the cursor. Writes one candidate per line, each of them a
// replacement for the whole word as the program would see it (quotes taken off). After -c the word
// is completed as the line editor completes commands. Nothing is written where a file name is
// expected: the user's shell knows how to complete those.
void repl_cli_complete(const repl_session *, const char *line, hs_buf *out);

#endif
