// command.h — the command table and the dispatcher.
//
// The table (cmd/commands.def) has one row per command; usage lines, help, completion, arity
// errors, the manual page and docs/commands.md come from it. The shell does not know the commands:
// whoever makes a session hands it the table (registry.c). The dispatcher splits a line, finds the
// command, parses its arguments by the spec, checks what it needs, runs it, commits or rolls back
// its edits, and sends its output where it belongs. A command is one function in cmd/: it reads its
// arguments, writes results with repl_say and repl_json_*, and returns a status.
#ifndef REPL_COMMAND_H
#define REPL_COMMAND_H

#include "core/text/text.h"
#include "repl/shell/args.h"
#include "repl/shell/out.h"
#include "repl/shell/session.h"

#define HLOSH_VERSION "0.1"

enum {
  REPL_NEEDS_MODULE = 1 << 0,
  // edits the current module; its edits become a version, or are rolled back
  REPL_MUTATES = 1 << 1,
  REPL_HIDDEN = 1 << 2,    // not listed by help (reached by other syntax)
  REPL_EMPTY_OK = 1 << 4,  // works on a module without instructions too
  REPL_PAGED = 1 << 3,     // long output goes through the pager on a terminal
  // Works on a module that the verifier refuses too (gate.h). Without it a command is refused
  // there, so that a new one is safe unless its row says that it only looks.
  REPL_ANY_MODULE = 1 << 5,
  // Its work on the module is done by the worker: allowed after load --unchecked.
  REPL_IN_WORKER = 1 << 6,
};

// One invocation.
typedef struct repl_cmd {
  repl_session *s;
  const repl_command *command;
  repl_args args;
  repl_out *out;
  repl_json *doc;     // out->doc: NULL in text mode
  hs_arena *scratch;  // freed after the command
  repl_module *mod;
  hlo_module *m;     // the current module; NULL when there is none
  const char *line;  // as typed: the label of a version
  // exit code of commands run inside (source): their errors are already reported
  int failed;
  pass_log *log;
  pass_notes *notes;  // filled by pass commands; the new version gets them
} repl_cmd;

typedef hs_status repl_command_fn(repl_cmd *);
struct repl_command {
  const char *name, *family;
  u32 needs;
  const char *spec;     // of the arguments (args.h)
  const char *summary;  // one line
  const char *details;  // forms and options, one a line; "" when the summary says it all
  const char *example;  // a line that the tests run; "" for none
  repl_command_fn *fn;
};

// The row of a command of the session's table by its exact name; NULL when there is none.
const repl_command *repl_command_find(const repl_session *, const char *name);
// Runs every command of a line (separated by `;`). Returns the exit code of the first one that
// failed, whose error has been printed, or 0; with keep_going the later ones are run all the same.
int repl_run_line(repl_session *, const char *line, size_t n);  // exit code; 0 ok
// Runs the commands of a file, line by line, until its end or the first failure. E_IO when it
// cannot be read; a command that fails has been reported and is in the session's exit_code.
hs_status repl_source_file(repl_session *, const char *path);
// The same for a text of many lines. Returns the exit code as repl_run_line does.
int repl_run_text(repl_session *, const char *text, size_t n);
// True when `text` opens something that the next lines close: a pasted module, an open bracket of a
// definition.
bool repl_wants_more(const char *text, size_t n);

// The modules of the command `example` (examples/examples.def): name, summary, HLO text.
typedef struct repl_example {
  const char *name, *summary, *text;
} repl_example;
extern const repl_example repl_examples[];
extern const u32 repl_example_count;

// ---- for commands -------------------------------------------------------------------------------
// Positional argument k; NULL when it was not given.
static inline const char *repl_arg(const repl_cmd *c, u32 k) {
  return k < c->args.npos ? c->args.pos[k] : NULL;
}
// The value of an option, "" for a flag; NULL when it was not given.
static inline const char *repl_flag(const repl_cmd *c, const char *name) {
  return repl_opt(&c->args, name);
}
// A number typed by the user; `what` names it in the message. E_USAGE when it is not a number, not
// whole, or outside least..most.
hs_status repl_arg_int(const repl_cmd *, const char *what, const char *text, i64 least, i64 most,
                       i64 *out);
hs_status repl_arg_num(const repl_cmd *, const char *what, const char *text, double *out);
// --seconds where it is given: above 0.
hs_status repl_arg_seconds(const repl_cmd *, double *out);
// --abs and --rel where they are given; E_USAGE when one is no number, or negative and not
// HLO_TYPES_OWN.
hs_status repl_arg_tolerance(const repl_cmd *, hlo_tolerance *);
// E_USAGE with the command's name in front and its usage line as a note.
hs_status repl_usage_error(const repl_cmd *, const char *fmt, ...) HS_PRINTF(2, 3);
// The value of --pipeline, or "tuned" without the option; E_USAGE where it is empty.
hs_status repl_flag_pipeline(const repl_cmd *, const char **out);
// Commits the edits so far as a version, with the notes since the last one and the log from entry
// `from` on. NULL when nothing has changed. For commands that make several versions; the edits left
// when a command ends are committed by the dispatcher.
repl_version *repl_settle(repl_cmd *, const char *label, size_t from);
// E_NO_MODULE without a current module, E_VERIFY when it has no instructions and empty_ok is false,
// or when it is not valid and the command's row does not say REPL_ANY_MODULE. The dispatcher asks
// for commands with REPL_NEEDS_MODULE; those that need a module only in some of their forms ask.
hs_status repl_needs_module(const repl_cmd *, bool empty_ok);
// The instruction or computation that argument k names; E_NO_OBJECT otherwise. Exactly one of the
// two is set.
hs_status repl_arg_object(const repl_cmd *, u32 k, hlo_instr **instr, hlo_computation **comp);
// The instruction that argument k names; E_NO_OBJECT when there is none, E_USAGE for a computation.
hs_status repl_arg_instr(const repl_cmd *, u32 k, hlo_instr **out);

#endif
