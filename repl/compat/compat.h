// compat.h — hlosh as the tools of XLA: called by one of their names (links, made by `make
// install`), or as `hlosh TOOL ...`. Their flags are rows of compat.def: taken with the same
// meaning, or refused by name with the way to do it here. A tool's work is done by commands of the
// shell.
#ifndef REPL_COMPAT_H
#define REPL_COMPAT_H

#include "repl/debug/xla_flags.h"
#include "repl/shell/command.h"

typedef enum compat_kind {
  COMPAT_SWITCH,
  COMPAT_VALUE,
  COMPAT_ACCEPTED,
  COMPAT_REFUSED
} compat_kind;
typedef struct compat_flag {
  const char *name;
  compat_kind kind;
  const char *meaning;
} compat_flag;

// What was typed: the value of each flag of the tool (NULL: not given), and the files.
typedef struct compat_args {
  const char **values;  // by the flag's position in the tool's rows
  HS_VEC(const char *) files;
} compat_args;

typedef struct compat_tool compat_tool;
// Returns the exit status, or -1 when commands are to be read as usual.
typedef int compat_fn(const compat_tool *, const compat_args *, repl_session *);
struct compat_tool {
  const char *name, *files, *summary, *by;
  const compat_flag *flags;
  u32 nflags;
  compat_fn *run;
};

// The tool that the program is called as: by argv[0], or by argv[1], which *skip then counts. NULL
// when it is hlosh.
const compat_tool *compat_find(int argc, char **argv, int *skip);
// Reads the tool's flags into *out, and those of XLA into `xla`. Returns -1 to go on, else the exit
// status (--help, a flag that is refused).
int compat_parse(const compat_tool *, int argc, char **argv, compat_args *out, repl_xla_flags *xla);
void compat_args_free(compat_args *);

// ---- for tools ----------------------------------------------------------------------------------
// The value of a flag of the tool, NULL when it was not given.
const char *compat_value(const compat_tool *, const compat_args *, const char *flag);
// A switch: `absent` when it was not given.
bool compat_on(const compat_tool *, const compat_args *, const char *flag, bool absent);

#define TOOL(id, name, files, summary, by) compat_fn compat_##id;
#define FLAG(tool, name, kind, meaning)
#include "repl/compat/compat.def"
#undef TOOL
#undef FLAG

#endif
