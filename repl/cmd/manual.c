// manual.c — the commands as documents: docs/commands.md and the manual page hlosh(1), both made from
// commands.def.
#include "repl/cmd/cmd.h"

void cmd_write_markdown(const repl_session *s, hs_buf *b) {
  hs_buf_puts(
      b,
      "# Commands\n\nMade from repl/cmd/commands.def: `hlosh -c 'help --markdown' > docs/commands.md`. "
      "Every example is run by the tests.\n\n");
  for (u32 f = 0; f < cmd_family_count; f++) {
    hs_buf_printf(b, "## %s\n\n| command | what it does | example |\n|---|---|---|\n",
                  cmd_families[f].title);
    for (u32 k = 0; k < s->ncommands; k++) {
      const repl_command *cmd = &s->commands[k];
      if (strcmp(cmd->family, cmd_families[f].name) != 0 || (cmd->needs & REPL_HIDDEN)) continue;
      hs_buf u = {0};
      repl_usage(&u, cmd->name, cmd->spec);
      for (const char *p = hs_buf_cstr(&u), *start = p; *p; p++) {
        if (p == start) hs_buf_puts(b, "| `");
        if (*p == '|') hs_buf_putc(b, '\\');
        hs_buf_putc(b, *p);
      }
      hs_buf_printf(b, "` | %s | `%s` |\n", cmd->summary, cmd->example);
      hs_buf_free(&u);
    }
    hs_buf_putc(b, '\n');
  }
}
