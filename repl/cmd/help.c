// help.c — help, explain, tutorial. Command pages come from commands.def, pass pages from
// the descriptors of the passes.
#include <stdio.h>
#include <stdlib.h>

#include "repl/cmd/cmd.h"

const cmd_family cmd_families[] = {{"load", "load and build"},
                                   {"look", "look"},
                                   {"passes", "passes and versions"},
                                   {"run", "run"},
                                   {"measure", "measure"},
                                   {"see", "see"},
                                   {"report", "report"},
                                   {"shell", "the shell"}};
const u32 cmd_family_count = HS_COUNT(cmd_families);

const cmd_topic cmd_topics[] = {
    {"print-options", "print --with=NAME,... --without=NAME,... (XLA's HloPrintOptions):\n"
#define PRINT_OPTION(name, usual, brief, canon, summary) "  " #name ": " summary "\n"
#include "core/text/print_options.def"
#undef PRINT_OPTION
                      "set vintage NAME, for text as an older XLA writes it:\n"
#define VINTAGE(id, name, root, idx, stable, summary) "  " name ": " summary "\n"
#include "core/text/vintage.def"
#undef VINTAGE
    },
#define TOPIC(name, text) {name, text},
#include "repl/cmd/topics.def"
#undef TOPIC
};
const u32 cmd_topic_count = HS_COUNT(cmd_topics);

enum { HELP_COLUMNS = 80 };

// How many bytes of a text, ASCII, fit `columns` when it is cut at a word and an ellipsis follows;
// all of them when nothing has to be cut.
static size_t fitting(const char *text, size_t columns) {
  size_t n = strlen(text);
  if (n <= columns) return n;
  n = columns > 4 ? columns - 4 : 0;
  while (n && text[n] != ' ') n--;
  return n;
}

static void say_summary(repl_cmd *c, const repl_command *cmd) {
  size_t head = 3 + HS_MAX(strlen(cmd->name), (size_t)14);
  size_t n = fitting(cmd->summary, head < HELP_COLUMNS ? HELP_COLUMNS - head : 0);
  repl_say(c->out, "  %-14s %.*s%s\n", cmd->name, (int)n, cmd->summary,
           cmd->summary[n] ? " ..." : "");
}

// The lines of a text, indented, each continued at a word where it is too long.
static void say_wrapped(repl_cmd *c, const char *text) {
  for (const char *p = text; *p;) {
    size_t line = strcspn(p, "\n");
    for (bool first = true; line; first = false) {
      size_t width = HS_MIN(HS_MAX(repl_columns(), 20u), (u32)HELP_COLUMNS);
      size_t most = width - (first ? 2 : 4), n = line;
      if (n > most)
        for (n = most; n && p[n] != ' ';) n--;
      if (!n) n = line;  // one long word
      repl_say(c->out, "%s%.*s\n", first ? "  " : "    ", (int)n, p);
      p += n, line -= n;
      while (line && *p == ' ') p++, line--;
    }
    if (*p == '\n') p++;
  }
}

// The commands by family, one line each.
static hs_status help_all(repl_cmd *c) {
  for (u32 f = 0; f < cmd_family_count; f++) {
    repl_json *list = repl_json_array(c->doc, cmd_families[f].name);
    if (!c->doc) repl_say_in(c->out, "1", "%s\n", cmd_families[f].title);
    for (u32 k = 0; k < c->s->ncommands; k++) {
      const repl_command *cmd = &c->s->commands[k];
      if (strcmp(cmd->family, cmd_families[f].name) != 0 || (cmd->needs & REPL_HIDDEN)) continue;
      if (!c->doc) say_summary(c, cmd);
      repl_json *j = repl_json_object(list, NULL);
      repl_json_str(j, "name", cmd->name);
      repl_json_str(j, "summary", cmd->summary);
    }
  }
  if (c->doc) return HS_GOOD;
  hs_buf topics = {0};
  hs_buf_puts(&topics, "help COMMAND and help PASS say more. Topics:");
  for (u32 k = 0; k < cmd_topic_count; k++) hs_buf_printf(&topics, " %s", cmd_topics[k].name);
  repl_say(c->out, "\n");
  say_wrapped(c, hs_buf_cstr(&topics));
  hs_buf_free(&topics);
  return HS_GOOD;
}

// The usage line, broken between arguments.
static void say_usage(repl_cmd *c, const char *text) {
  u32 width = HS_MIN(repl_columns(), (u32)HELP_COLUMNS), at = 0;
  for (const char *p = text; *p;) {
    size_t n = strcspn(p, " ");
    if (*p == '[') n = strcspn(p, "]") + 1;
    n = HS_MIN(n, strlen(p));
    if (at && at + n + 1 > width) {
      repl_say(c->out, "\n    ");
      at = 4;
    } else if (at) {
      repl_say(c->out, " ");
      at++;
    }
    repl_say(c->out, "%.*s", (int)n, p);
    at += (u32)n;
    p += n;
    while (*p == ' ') p++;
  }
  repl_say(c->out, "\n");
}

static void help_command(repl_cmd *c, const repl_command *cmd) {
  hs_buf u = {0};
  repl_usage(&u, cmd->name, cmd->spec);
  if (!c->doc) {
    say_usage(c, hs_buf_cstr(&u));
    repl_say(c->out, "  %s\n", cmd->summary);
    say_wrapped(c, cmd->details);
    if (*cmd->example) repl_say(c->out, "  example: %s\n", cmd->example);
  }
  repl_json_str(c->doc, "name", cmd->name);
  repl_json_str(c->doc, "usage", hs_buf_cstr(&u));
  repl_json_str(c->doc, "summary", cmd->summary);
  repl_json_str(c->doc, "details", cmd->details);
  repl_json_str(c->doc, "example", cmd->example);
  hs_buf_free(&u);
}

static void say_sample(repl_cmd *c, const char *title, const hs_buf *text) {
  repl_say(c->out, "\n%s:\n", title);
  for (size_t at = 0; at < text->n;) {
    size_t n = strcspn(text->p + at, "\n");
    repl_say(c->out, n ? "  %.*s\n" : "%.*s\n", (int)n, text->p + at);
    at += n + 1;
  }
}

// The default of an option: of one that is a choice, the first word.
static char *default_of(repl_cmd *c, const pass_option_info *o) {
  return hs_arena_strndup(c->scratch, o->value, strcspn(o->value, "|"));
}

static void help_options(repl_cmd *c, const pass_info *p) {
  const pass_option_info *v = p->options;
  int width = 0;
  for (u32 k = 0; k < p->noptions; k++)
    width = HS_MAX(width, (int)(strlen(v[k].name) + strlen(v[k].value) + 1));
  if (!c->doc && p->noptions)
    repl_say(c->out, "\noptions, as in pass %s{%s=%s}, with their defaults:\n", p->name, v[0].name,
             default_of(c, &v[0]));
  else if (!c->doc) repl_say(c->out, "\nno options\n");
  repl_json *list = repl_json_array(c->doc, "options");
  for (u32 k = 0; k < p->noptions; k++) {
    if (!c->doc)
      repl_say(c->out, "  %s=%-*s  %s\n", v[k].name, width - (int)strlen(v[k].name) - 1, v[k].value,
               v[k].meaning);
    repl_json *j = repl_json_object(list, NULL);
    repl_json_str(j, "name", v[k].name);
    repl_json_str(j, "default", default_of(c, &v[k]));
    if (v[k].type == PASS_CHOICE) repl_json_str(j, "choices", v[k].value);
    repl_json_str(j, "meaning", v[k].meaning);
  }
}

static hs_status help_pass(repl_cmd *c, const pass_info *p) {
  if (!c->doc) repl_say(c->out, "pass %s\n  %s\n  XLA: %s\n", p->name, p->summary, p->xla_source);
  repl_json_str(c->doc, "pass", p->name);
  repl_json_str(c->doc, "summary", p->summary);
  repl_json_str(c->doc, "xla_source", p->xla_source);
  if (!c->doc)
    repl_say(
        c->out, "  %s\n",
        p->again
            ? "a second run may find more to do: fix(...) in a pipeline runs it until it does not"
            : "a second run changes nothing");
  repl_json_bool(c->doc, "again", p->again);
  if (p->inexact && !c->doc) repl_say(c->out, "  changes results: %s\n", p->inexact);
  if (p->inexact) repl_json_str(c->doc, "inexact", p->inexact);
  help_options(c, p);
  if (!p->sample) return HS_GOOD;
  hs_buf before = {0}, after = {0};
  hs_status s = pass_sample(p, &before, &after);
  if (hs_ok(s) && !c->doc) say_sample(c, "before", &before), say_sample(c, "after", &after);
  if (hs_ok(s))
    repl_json_str(c->doc, "before", hs_buf_cstr(&before)),
        repl_json_str(c->doc, "after", hs_buf_cstr(&after));
  hs_buf_free(&before);
  hs_buf_free(&after);
  return s;
}

hs_status cmd_help(repl_cmd *c) {
  const char *w = repl_arg(c, 0);
  if (repl_flag(c, "--markdown")) {
    cmd_write_markdown(c->s, &c->out->text);
    return HS_GOOD;
  }
  if (repl_flag(c, "--man")) {
    cmd_write_man(c->s, &c->out->text);
    return HS_GOOD;
  }
  if (!w) return help_all(c);
  bool pass = strcmp(w, "pass") == 0 && repl_arg(c, 1);
  if (pass || ((strcmp(w, "topic") == 0 || strcmp(w, "command") == 0) && repl_arg(c, 1)))
    w = repl_arg(c, 1);
  const pass_info *p = pass_find(c->s->passes, w);
  if (pass && p) return help_pass(c, p);  // even when a command has the same name
  const repl_command *cmd = repl_command_find(c->s, w);
  if (cmd && !(cmd->needs & REPL_HIDDEN)) {
    help_command(c, cmd);
    return HS_GOOD;
  }
  if (p) return help_pass(c, p);
  const pass_pipeline *pl = pipeline_find(c->s->passes, w);
  if (pl) {
    if (!c->doc) repl_say(c->out, "pipeline %s\n  %s\n  %s\n", pl->name, pl->summary, pl->text);
    repl_json_str(c->doc, "pipeline", pl->name);
    repl_json_str(c->doc, "text", pl->text);
    return HS_GOOD;
  }
  for (u32 k = 0; k < cmd_topic_count; k++)
    if (strcmp(cmd_topics[k].name, w) == 0) {
      if (!c->doc) repl_say(c->out, "%s", cmd_topics[k].text);
      repl_json_str(c->doc, "topic", cmd_topics[k].text);
      return HS_GOOD;
    }
  hlo_opcode op = hlo_op_find(hs_str_of(w));
  if (op) {
    const hlo_op_info *i = &hlo_ops[op];
    if (!c->doc) {
      repl_say(c->out, "operation %s, ", i->text);
      if (i->arity >= 0) repl_say(c->out, "%d operand%s\n", i->arity, i->arity == 1 ? "" : "s");
      else repl_say(c->out, "any number of operands\n");
      for (const hlo_op_attr *a = i->attrs; a && a->id != HLO_ATTR_NONE; a++)
        repl_say(c->out, "  %s%s\n", hlo_attr_text(a->id), a->required ? "" : " (optional)");
    }
    repl_json_str(c->doc, "opcode", i->text);
    return HS_GOOD;
  }
  HS_VEC(const char *) names = {0};
  for (u32 k = 0; k < c->s->ncommands; k++)
    if (!(c->s->commands[k].needs & REPL_HIDDEN)) hs_vec_push(&names, c->s->commands[k].name);
  for (u32 k = 0; k < pass_builtin.npasses; k++) hs_vec_push(&names, pass_builtin.passes[k]->name);
  for (u32 k = 0; k < cmd_topic_count; k++) hs_vec_push(&names, cmd_topics[k].name);
  const char *near = strlen(w) < 64 ? hs_nearest(w, names.v, names.n) : NULL;
  hs_vec_free(&names);
  hs_status s =
      hs_fail(HS_E_NO_COMMAND, "help: no command, pass, topic or opcode is called \"%.60s\"", w);
  return near ? hs_with_note(s, "did you mean %s?", near)
              : hs_with_note(s, "help lists the commands, passes the passes");
}

hs_status cmd_explain(repl_cmd *c) {
  const char *w = repl_arg(c, 0);
  repl_json *list = w ? NULL : repl_json_array(c->doc, "codes");
  for (int k = 1; !w && k < HS_CODE_COUNT; k++) {
    if (!c->doc) repl_say(c->out, "%s  %s\n", hs_code_text((hs_code)k), hs_code_title((hs_code)k));
    repl_json *j = repl_json_object(list, NULL);
    repl_json_str(j, "code", hs_code_text((hs_code)k));
    repl_json_str(j, "title", hs_code_title((hs_code)k));
    repl_json_int(j, "exit", hs_code_exit((hs_code)k));
  }
  if (!w) return HS_GOOD;
  hs_code code = hs_code_find(w);
  char padded[8];
  bool number = *w && strspn(w, "0123456789") == strlen(w) && strlen(w) < 4;
  if (number) {  // 303 for E0303
    snprintf(padded, sizeof padded, "%04d", atoi(w));
    code = hs_code_find(padded);
  }
  if (code == HS_OK && repl_command_find(c->s, w))
    return hs_with_note(
        hs_fail(HS_E_USAGE, "explain: %s is a command, not the code of a diagnostic", w),
        "help %s describes it", w);
  if (code == HS_OK)
    return hs_with_note(hs_fail(HS_E_USAGE, "explain: no diagnostic has the code %s", w),
                        "explain lists them");
  if (!c->doc)
    repl_say(c->out, "%s: %s (exit status %d)\n%s\n", hs_code_text(code), hs_code_title(code),
             hs_code_exit(code), hs_code_explain(code));
  repl_json_str(c->doc, "code", hs_code_text(code));
  repl_json_str(c->doc, "title", hs_code_title(code));
  repl_json_str(c->doc, "text", hs_code_explain(code));
  repl_json_int(c->doc, "exit", hs_code_exit(code));
  return HS_GOOD;
}

hs_status cmd_tutorial(repl_cmd *c) {
  static const char text[] =
      "Ten minutes with hlosh. Type the lines that begin with >.\n\n"
      "1. A module. `load FILE` reads yours; this one comes with the shell.\n"
      "   > example mlp\n"
      "   > print\n"
      "   The prompt now names the module and its version. `info dot.1` shows everything about one "
      "instruction,\n"
      "   `dot.1` alone draws its neighbourhood, `find dot where flops > 100k` searches.\n\n"
      "2. A pass. Each one that changes something prints one line: instructions, flops, bytes, "
      "peak memory.\n"
      "   > pass dce\n"
      "   > diff\n"
      "   > undo\n"
      "   > history\n"
      "   No version is lost: undo and redo move by one version, `mark NAME` and `goto NAME` "
      "name a "
      "version and go to it.\n\n"
      "3. A pipeline, one step at a time, as in a debugger.\n"
      "   > next --pipeline=tuned\n"
      "   > next\n"
      "   > back\n"
      "   > continue\n"
      "   `until PASS` stops before a pass, `until changed X` when X changes, `why X` shows the "
      "reasons that passes gave.\n\n"
      "4. Are the results still the same, and what was gained?\n"
      "   > check\n"
      "   > time\n"
      "   > estimate --on=h100\n"
      "   > memory\n"
      "   check compares with the reference evaluator on the module as loaded.\n\n"
      "5. Pictures and reports. The pipeline has fused relu away, so first back to the start.\n"
      "   > goto 0\n"
      "   > show relu 1\n"
      "   > plot relu 2 -o relu.svg\n"
      "   > report bundle\n"
      "   A bundle holds the module, its inputs and both results; `replay bundle` or bundle/run.sh "
      "runs it again.\n\n"
      "6. A module of one's own: a softmax. `help building` has the language.\n"
      "   > new mine\n"
      "   > param x f32[4,8]\n"
      "   > set infer on\n"
      "   > e = exp(x - reduce(x, -inf, dims={1}, to_apply=max))\n"
      "   > root e / reduce(e, 0, dims={1}, to_apply=add)\n"
      "   > run\n"
      "   `e := ...` replaces an instruction, `delete`, `rename` and `retype` change others.\n\n"
      "7. Scripts. The same lines in a file: hlosh model.hlo -f script, or -c 'pass dce; assert "
      "instructions < 1000'.\n"
      "   `assert` fails with exit status 1; --json gives one document per command. `help` lists "
      "everything.\n";
  if (!c->doc) hs_buf_puts(&c->out->text, text);
  repl_json_str(c->doc, "text", text);
  c->out->text.n = c->doc ? 0 : c->out->text.n;
  return HS_GOOD;
}
