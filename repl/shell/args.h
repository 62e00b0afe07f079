// args.h — from a line to commands: `;` separates, quotes group, `| cmd` and `> file` redirect,
// `--opt=value`, `-o VALUE`. What a command accepts is its argument spec (commands.def), parsed
// here and nowhere else:
//
//   NAME required positional   NAME? optional   NAME* any number   NAME+ one or more
//   --flag                     --opt=ARG        -o=ARG (typed `-o ARG`)
//   ...RAW                     the rest of the line as typed (expressions); `|` and `>` mean
//                              themselves there
#ifndef REPL_ARGS_H
#define REPL_ARGS_H

#include "core/base/diag.h"

// A backslash in front of one of these, outside of single quotes, makes it part of the word.
#define REPL_ESCAPED "\\\"' \t;|>#"

typedef enum repl_redirect {
  REPL_TO_STDOUT,
  REPL_TO_PIPE,
  REPL_TO_FILE,
  REPL_TO_APPEND
} repl_redirect;

typedef struct repl_args {
  u32 npos;
  const char **pos;
  u32 nopts;
  struct repl_opt {
    const char *name, *value;
  } * opts;         // value "" for flags
  const char *raw;  // text after the command name, trimmed (before redirections)
  repl_redirect redirect;
  const char *target;  // command line or file name
  size_t used;         // bytes of the text before a redirection
} repl_args;

// The next command of `line` starting at *at; moves *at past its `;`. False at the end. Comments
// and blanks are skipped. A `!` command takes the whole rest of the line. *segment borrows from
// `line`.
bool repl_split(const char *line, size_t n, size_t *at, hs_str *segment);
// Whether a line begins a definition that may go on over several lines: comp, reducer.
bool repl_is_block(const char *line, size_t n);
// The first word of a segment (unquoted), and where the rest begins.
hs_str repl_first_word(hs_str segment, size_t *rest);
// Parses what follows the command word by the spec. Everything in *out lives in the arena. E_USAGE
// for an unknown option, a missing or surplus argument, or an open quote.
hs_status repl_parse_args(hs_arena *, const char *command, const char *spec, hs_str rest,
                          repl_args *out);
// "print [X] [--long] [-o FILE]": what help and errors show.
void repl_usage(hs_buf *, const char *command, const char *spec);
// Spec word for positional number k ("FILE", "X", "PASS"), NULL when there is none; for completion.
const char *repl_spec_pos(hs_arena *, const char *spec, u32 k);
// The value of an option: NULL when absent; "" for a flag. Borrowed from the arguments.
const char *repl_opt(const repl_args *, const char *name);
// Numbers typed by users: plain, 1e6, 0x10; suffixes k M G T (1000) and Ki Mi Gi Ti (1024), and an
// optional B. False when the text is not a number.
bool repl_number(const char *text, double *out);

#endif
