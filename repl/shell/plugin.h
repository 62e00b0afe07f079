// plugin.h — the session's real XLA, a PJRT plug-in or a Python's jaxlib: which one, its flags,
// and what it says of itself.
#ifndef REPL_PLUGIN_H
#define REPL_PLUGIN_H

#include "repl/shell/command.h"

// Lists the plug-ins and the Pythons found, with their versions: part of `backends`.
void repl_say_plugins(repl_cmd *);
// Good when the backend can be used here; for pjrt also when a plug-in was chosen by its path, for
// jax when a Python was.
hs_status repl_backend_usable(const repl_session *, const backend *);
// `backend pjrt PLUGIN`, `backend jax PYTHON`: loads the plug-in, starts the Python once to learn
// its version; NULL keeps the session's, or chooses the first one found.
hs_status repl_choose_plugin(repl_cmd *, const backend *, const char *name_or_path);
// The backend whose XLA the xla commands ask: the current one where it has one, else the one chosen
// last, else the plug-in; always the plug-in when the target is a GPU that is not here.
const backend *repl_xla_backend(const repl_session *);
// The same, to compare with: jaxlib, where one is found, before a plug-in when none was chosen.
const backend *repl_xla_peer(const repl_session *);
// `set xla.FLAG VALUE`; "default" removes the flag, NULL shows it. E_USAGE when the plug-in does
// not know the flag.
hs_status repl_set_flag(repl_cmd *, repl_json *, const char *flag, const char *value);
// "xla: PATH, PJRT API 0.81, StableHLO 1.13.3", "xla: jaxlib 0.10.2, jax 0.10.2, cpu, malloc tuned,
// PATH": printed above every figure that comes from XLA, of that backend; exe: the program that
// gave the figures, or NULL.
void repl_say_plugin_line(repl_cmd *, const backend *, const backend_exe *);
// The same for the xla commands, which may compile for the target (target.h).
void repl_say_xla_line(repl_cmd *);
// That text alone, malloc'ed; "" when it is not to be had.
char *repl_xla_text(const repl_session *, const backend *, const backend_exe *);
// "jaxlib 0.10.2, /path/python3": the Python that backend jax takes, malloc'ed; NULL: there is
// none. No process is started.
char *repl_python_text(const repl_session *);
// Lists the flags that are set for the plug-in's compiler.
void repl_say_flags(repl_cmd *, repl_json *);
// The passes that the plug-in leaves out, as its flag names them: "fusion,dce"; "" for none.
// Borrowed.
const char *repl_disabled_passes(const repl_session *);

#endif
