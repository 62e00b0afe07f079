// plugin.h — the session's PJRT plug-in: which one, its flags, and what it says of itself.
#ifndef REPL_PLUGIN_H
#define REPL_PLUGIN_H

#include "repl/shell/command.h"

void repl_say_plugins(repl_cmd *);  // part of `backends`
// a plug-in that was chosen is, wherever it lies
hs_status repl_backend_usable(const repl_session *, const backend *);
// `backend pjrt PLUGIN`: loads it once for its version; NULL keeps the session's, or takes the
// first one found.
hs_status repl_choose_plugin(repl_cmd *, const backend *, const char *name_or_path);
// `set xla.FLAG VALUE`; "default" takes the flag back, NULL shows it. The plug-in itself says
// whether it knows the flag.
hs_status repl_set_flag(repl_cmd *, repl_json *, const char *flag, const char *value);
// "xla: PATH, PJRT API 0.81, StableHLO 1.13.3": stands beside every number that the plug-in
// measured.
void repl_say_plugin_line(repl_cmd *);
// the same for the xla commands, which may compile for the target (target.h)
void repl_say_xla_line(repl_cmd *);
void repl_say_flags(repl_cmd *, repl_json *);
// The passes that the plug-in leaves out, as its flag names them: "fusion,dce"; "" for none.
const char *repl_disabled_passes(const repl_session *);

#endif
