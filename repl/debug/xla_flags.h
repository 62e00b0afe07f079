// xla_flags.h — XLA's flags, from the environment (XLA_FLAGS), a file, or the command line. Those
// that mean something here are rows of xla_flags.def; the others are kept, so that they can be
// named once and written to a dump.
#ifndef REPL_XLA_FLAGS_H
#define REPL_XLA_FLAGS_H

#include "repl/shell/out.h"
#include "repl/shell/session.h"

typedef enum xla_flag_id {
#define XLA_FLAG(id, kind, meaning) XLA_FLAG_##id,
#include "repl/debug/xla_flags.def"
#undef XLA_FLAG
  XLA_FLAG_COUNT
} xla_flag_id;

// One flag as given, without "--xla_".
typedef struct xla_flag {
  const char *name, *value;
  i32 id;  // a xla_flag_id; -1: it means nothing here
} xla_flag;

typedef struct repl_xla_flags {
  hs_arena arena;
  HS_VEC(xla_flag) all;  // each once, in the order they were first given
  bool as_tool;          // dumps are named as by hlo-opt
  pass_registry filtered;
  const pass_info **idle;
} repl_xla_flags;

// Takes "--xla_NAME=VALUE" or "--xla_NAME" (one dash will do); a later one replaces an earlier one.
// E_USAGE when it is no such flag, or a switch has a value that is none.
hs_status xla_flags_take(repl_xla_flags *, const char *flag);
// The text of XLA_FLAGS: flags separated by blanks, or the name of a file that holds them.
hs_status xla_flags_read(repl_xla_flags *, const char *text);
// A DebugOptions message as text, NAME: VALUE a line.
hs_status xla_flags_read_options(repl_xla_flags *, const char *path);
// The value of a flag, NULL when it was not given; whether a switch is on.
const char *xla_flags_value(const repl_xla_flags *, xla_flag_id);
bool xla_flags_on(const repl_xla_flags *, xla_flag_id);
// Makes the session obey them; the flags must live as long as it. Says once, in a note, which of
// them mean nothing here.
void xla_flags_apply(repl_xla_flags *, repl_session *, repl_out *);
void xla_flags_free(repl_xla_flags *);
// Appends the flags as the text of a DebugOptions message.
void xla_flags_print(const repl_xla_flags *, hs_buf *);

#endif
