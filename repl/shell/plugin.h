// plugin.h — the session's PJRT plug-in: which one, its flags, and what it says of itself.
#ifndef REPL_PLUGIN_H
#define REPL_PLUGIN_H

#include "repl/shell/command.h"

// Lists the plug-ins found, with their versions: part of `backends`.
void repl_say_plugins(repl_cmd *);
// Good when the backend can be used here; for pjrt also when a plug-in was chosen by its path.
hs_status repl_backend_usable(const repl_session *, const backend *);
// `backend pjrt PLUGIN`: loads the plug-in once to learn its version; NULL keeps the session's, or
// chooses the first one found.
hs_status repl_choose_plugin(repl_cmd *, const backend *, const char *name_or_path);
// `set xla.FLAG VALUE`; "default" removes the flag, NULL shows it. E_USAGE when the plug-in does
// not know the flag.
hs_status repl_set_flag(repl_cmd *, repl_json *, const char *flag, const char *value);
// "xla: PATH, PJRT API 0.81, StableHLO 1.13.3": printed above every figure that comes from the
// plug-in.
void repl_say_plugin_line(repl_cmd *);
// the same for the xla commands, which may compile for the target (target.h)
void repl_say_xla_line(repl_cmd *);
// Lists the flags that are set for the plug-in's compiler.
void repl_say_flags(repl_cmd *, repl_json *);
// The passes that the plug-in leaves out, as its flag names them: "fusion,dce"; "" for none.
// Borrowed.
const char *repl_disabled_passes(const repl_session *);

#endif
