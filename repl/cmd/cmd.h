// cmd.h — the commands, one function per row of commands.def, and what their files share.
#ifndef REPL_CMD_H
#define REPL_CMD_H

#include "repl/debug/bundle.h"
#include "repl/shell/command.h"

#define CMD(id, name, family, needs, spec, summary, details, example) repl_command_fn cmd_##id;
#include "repl/cmd/commands.def"
#undef CMD

// ---- help.c, manual.c ---------------------------------------------------------------------------
// The families of commands in the order that help lists them: a family's name in commands.def and
// its title.
typedef struct cmd_family {
  const char *name, *title;
} cmd_family;
extern const cmd_family cmd_families[];
extern const u32 cmd_family_count;
// The pages of `help TOPIC` (topics.def): plain text, lines of at most 80 columns.
typedef struct cmd_topic {
  const char *name, *text;
} cmd_topic;
extern const cmd_topic cmd_topics[];
extern const u32 cmd_topic_count;
// The commands chapter of the documentation (Markdown), and the manual page hlosh(1) (troff, man
// macros). Both are made from the session's table of commands.
void cmd_write_markdown(const repl_session *, hs_buf *);
void cmd_write_man(const repl_session *, hs_buf *);

// ---- load.c -------------------------------------------------------------------------------------
// Reads the module of that name (or the only one) of a dump folder, its states as versions; it
// becomes the current module.
hs_status cmd_load_history(repl_cmd *, const char *dir, const char *name, repl_module **out);

// ---- pass.c, pass_compare.c, step.c: commands that run passes -----------------------------------
// Options from the settings; notes go to the command's list, warnings to its output.
pass_run_options cmd_pass_options(repl_cmd *);
// A line per entry of the log from `from` on that changed something; quiet: none.
void cmd_say_log(repl_cmd *, const pass_log *, size_t from, bool quiet);
// "  -3 instr  kernels 9 -> 8": what changed. brief: as history shows it.
void cmd_put_delta(hs_buf *, const pass_totals *before, const pass_totals *after, bool brief);
// "algsimp, pass 3 of 33" on the terminal; repl_progress_end erases it.
void cmd_pass_progress(repl_out *, const pipeline_event *);
// For E_PASS: saves the pass's input and adds a note with its path. Returns the status.
hs_status cmd_pass_failed(repl_cmd *, hs_status);
// `pass NAME --compare xla`: our pass on the inputs of the plug-in's runs of the pass of that name.
hs_status cmd_compare_pass(repl_cmd *, const char *pass);
// "[4/31] next: dce"
void cmd_say_next(repl_cmd *);

// ---- version.c ----------------------------------------------------------------------------------
// The version of the current module that a number or mark names; E_NO_HISTORY otherwise.
hs_status cmd_arg_version(repl_cmd *, const char *text, repl_version **out);

// ---- source.c -----------------------------------------------------------------------------------
// "file:line" of an instruction in place of what is in the buffer; nothing when it has none.
void cmd_put_place(const hlo_instr *, hs_buf *);

// ---- value.c ------------------------------------------------------------------------------------
// True when an argument of `print` asks for a value: "NAME[...]", "NAME{1}", or a name with
// --stats, --hist, --heat.
bool repl_asks_for_value(const repl_cmd *);
// Prints that value, its part, figures or picture; evaluates it when the last run did not keep it.
hs_status repl_print_value(repl_cmd *);

// ---- report.c -----------------------------------------------------------------------------------
// Writes the bundle of the current module to a folder or archive that does not exist yet (--force:
// or is a bundle). With a fault of passes when it is about one (NULL: none). *verdict says what it
// shows; the caller's to free, also after an error.
hs_status cmd_write_report(repl_cmd *, const char *want, const bundle_fault *, char **verdict);

// ---- explore.c ----------------------------------------------------------------------------------
// The explorer's page of the module and its history, opened at `focus` (NULL: at the entry).
hs_status cmd_write_explorer(repl_cmd *, const hlo_instr *focus, const char *path);
// The current version as JSON for Model Explorer.
hs_status cmd_write_model_explorer(repl_cmd *, const char *path);

#endif
