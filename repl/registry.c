// registry.c — the table of commands: the one place that lists them all. A command is a row of
// cmd/commands.def and a function in cmd/; main hands the table to the session.
#include "repl/registry.h"

#include "repl/cmd/cmd.h"

const repl_command repl_commands[] = {
#define CMD(id, name, family, needs, spec, summary, details, example) \
  {name, family, needs, spec, summary, details, example, cmd_##id},
#include "repl/cmd/commands.def"
#undef CMD
};
const u32 repl_command_count = HS_COUNT(repl_commands);
