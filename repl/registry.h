// registry.h — every command of the shell, in the order of cmd/commands.def.
#ifndef REPL_REGISTRY_H
#define REPL_REGISTRY_H

#include "repl/shell/command.h"

extern const repl_command repl_commands[];
extern const u32 repl_command_count;

#endif
