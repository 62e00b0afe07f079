// manual.c — the commands as documents: docs/commands.md and the manual page hlosh(1), both made
// from commands.def.
#include <stdio.h>

#include "repl/cmd/cmd.h"
#include "repl/shell/cli.h"
#include "repl/shell/settings.h"

void cmd_write_markdown(const repl_session *s, hs_buf *b) {
  hs_buf_puts(b, "# Commands\n\nMade from repl/cmd/commands.def by "
                 "`hlosh -c 'help --markdown' > docs/commands.md`. "
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
      hs_buf_printf(b, "` | %s", cmd->summary);
      for (const char *p = cmd->details; *p; p++) {
        if (p == cmd->details) hs_buf_puts(b, "; ");
        if (*p == '\n') hs_buf_puts(b, "; ");
        else hs_buf_putc(b, *p);
      }
      if (*cmd->example) hs_buf_printf(b, " | `%s` |\n", cmd->example);
      else hs_buf_puts(b, " | |\n");
      hs_buf_free(&u);
    }
    hs_buf_putc(b, '\n');
  }
}

// ---- hlosh(1) -----------------------------------------------------------------------------------
// Text for troff: what it would take for an escape, a control line, a hyphen or a typographic quote
// is spelt so that it comes out as typed.
static void put_troff(hs_buf *b, const char *text) {
  static const struct {
    char c;
    const char *as;
  } spelt[] = {{'\\', "\\e"},  {'-', "\\-"},    {'~', "\\(ti"}, {'^', "\\(ha"},
               {'`', "\\(ga"}, {'\'', "\\(aq"}, {'"', "\\(dq"}};
  for (const char *p = text; *p; p++) {
    const char *as = NULL;
    for (size_t k = 0; k < HS_COUNT(spelt); k++)
      if (spelt[k].c == *p) as = spelt[k].as;
    if (*p == '.' && (p == text || p[-1] == '\n')) hs_buf_puts(b, "\\&");
    if (as) hs_buf_puts(b, as);
    else hs_buf_putc(b, *p);
  }
}

static void put_item(hs_buf *b, const char *bold, const char *rest, const char *text) {
  hs_buf_puts(b, ".TP\n\\fB");
  put_troff(b, bold);
  hs_buf_puts(b, "\\fR");
  put_troff(b, rest);
  hs_buf_putc(b, '\n');
  put_troff(b, text);
  hs_buf_putc(b, '\n');
}

static void put_options(hs_buf *b) {
  hs_buf_puts(b, ".SH OPTIONS\n");
  for (u32 k = 0; k < repl_option_count; k++) {
    const repl_option *o = &repl_options[k];
    char *arg = o->arg ? hs_format("%s%s", o->name[1] == '-' ? "=" : " ", o->arg) : hs_strdup("");
    put_item(b, o->name, arg, o->summary);
    hs_free(arg);
  }
  put_item(b, "--NAME", "=VALUE", "changes a setting before the first command is run:");
  hs_buf_puts(b, ".RS\n");
  for (u32 k = 0; k < repl_setting_count; k++)
    put_item(b, repl_setting_name(k), "", repl_setting_summary(k));
  hs_buf_puts(b, ".RE\n");
}

static void put_commands(const repl_session *s, hs_buf *b) {
  hs_buf_puts(b,
              ".SH COMMANDS\n"
              "An argument in brackets may be left out; X names an instruction or a computation. "
              "The shortest unambiguous beginning of a command is enough.\n");
  hs_buf u = {0};
  for (u32 f = 0; f < cmd_family_count; f++) {
    hs_buf_puts(b, ".SS ");
    put_troff(b, cmd_families[f].title);
    hs_buf_putc(b, '\n');
    for (u32 k = 0; k < s->ncommands; k++) {
      const repl_command *c = &s->commands[k];
      if (strcmp(c->family, cmd_families[f].name) != 0 || (c->needs & REPL_HIDDEN)) continue;
      u.n = 0;
      repl_usage(&u, c->name, c->spec);
      put_item(b, c->name, hs_buf_cstr(&u) + strlen(c->name), c->summary);
      for (const char *p = c->details; *p;) {  // each line begins a line of the page
        size_t n = strcspn(p, "\n");
        u.n = 0;
        hs_buf_put(&u, p, n);
        hs_buf_puts(b, ".br\n");
        put_troff(b, hs_buf_cstr(&u));
        hs_buf_putc(b, '\n');
        p += n + (p[n] == '\n');
      }
    }
  }
  hs_buf_free(&u);
}

static void put_topics(hs_buf *b) {
  hs_buf_puts(b, ".SH TOPICS\n");
  for (u32 k = 0; k < cmd_topic_count; k++) {
    if (strcmp(cmd_topics[k].name, "exit") == 0) continue;  // a section of its own
    hs_buf_puts(b, ".SS ");
    put_troff(b, cmd_topics[k].name);
    hs_buf_puts(b, "\n.nf\n");
    put_troff(b, cmd_topics[k].text);
    hs_buf_puts(b, ".fi\n");
  }
}

void cmd_write_man(const repl_session *s, hs_buf *b) {
  hs_buf_puts(
      b,
      ".\\\" Made from repl/cmd/commands.def by hlosh \\-c 'help \\-\\-man'.\n"
      ".TH HLOSH 1 \"\" \"hlosh " HLOSH_VERSION "\" \"User Commands\"\n.ad l\n.nh\n"
      ".SH NAME\nhlosh \\- an interactive shell and profiler for HLO, XLA's intermediate language\n"
      ".SH SYNOPSIS\n.B hlosh\n[\\fIFILE\\fR...] [\\fB\\-c\\fR \\fICOMMANDS\\fR] "
      "[\\fB\\-f\\fR \\fISCRIPT\\fR] [\\fIoptions\\fR]\n"
      ".SH DESCRIPTION\n"
      ".B hlosh\nloads or builds HLO modules, runs passes on them one at a time with undo, draws "
      "graphs, compiles to machine code, runs, measures, compares with XLA, and writes bug "
      "reports that replay. Each \\fIFILE\\fR is loaded as a module: HLO text or proto, also "
      "compressed (.gz, .zst), a folder written by \\-\\-xla_dump_to, or \\- for standard input. "
      "Without \\fB\\-c\\fR and \\fB\\-f\\fR, commands are read from the terminal or from standard "
      "input. Results go to standard output, everything else to standard error.\n");
  put_options(b);
  put_commands(s, b);
  put_topics(b);
  hs_buf_puts(b, ".SH EXIT STATUS\n");
  for (u32 k = 0; k < repl_exit_status_count; k++) {
    char code[16];
    snprintf(code, sizeof code, "%d", repl_exit_statuses[k].code);
    put_item(b, code, "", repl_exit_statuses[k].meaning);
  }
  hs_buf_puts(
      b,
      "A script ends at the first command that fails unless \\fB\\-\\-keep\\-going\\fR is given.\n"
      ".SH ENVIRONMENT\n"
      ".TP\n.B PAGER\nshows long output on a terminal (less \\-FRX when it is not set)\n"
      ".TP\n.BR VISUAL \", \" EDITOR\nthe editor of the command edit\n"
      ".TP\n.BR NO_COLOR \", \" CLICOLOR_FORCE\nturn colours off or on\n"
      ".TP\n.B PJRT_NAMES_AND_LIBRARY_PATHS\nPJRT plug\\-ins for the backend pjrt, "
      "NAME:PATH[,NAME:PATH...]\n"
      ".SH FILES\n"
      ".TP\n.I ~/.config/hlosh/rc\ncommands that are run when a session on a terminal starts\n"
      ".TP\n.I ~/.local/state/hlosh/history\nthe lines typed before\n"
      ".SH EXAMPLES\n.EX\n"
      "hlosh model.hlo \\-c speedup\n"
      "hlosh model.hlo \\-c \\(aqpass algsimp,dce; diff; check\\(aq\n"
      "hlosh model.hlo \\-c \\(aqpipeline tuned; assert instructions < 1000\\(aq\n"
      "hlosh \\-\\-json model.hlo \\-c stats\n"
      ".EE\n");
}
