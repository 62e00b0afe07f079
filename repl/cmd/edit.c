// edit.c: edit, the module as text in the user's editor; isolate, a module of one instruction.
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/text/text.h"
#include "core/verify/verify.h"
#include "repl/cmd/cmd.h"
#include "repl/debug/cut.h"

#define TEXT_MOST ((size_t)1 << 30)

// ---- edit ---------------------------------------------------------------------------------------
static const char *editor(const repl_cmd *c) {
  const char *with = repl_flag(c, "--with"), *visual = getenv("VISUAL"), *plain = getenv("EDITOR");
  if (with) return with;
  return visual && *visual ? visual : plain && *plain ? plain : "vi";
}

// With --json standard output holds documents only: what the editor says goes to standard error.
static hs_status run_editor(const char *command, const char *path, bool json) {
  // the path is ours and holds no quote
  char *line = hs_format(json ? "%s '%s' >&2" : "%s '%s'", command, path);
  fflush(NULL);
  int rc = system(line);
  hs_free(line);
  if (rc == -1) return hs_fail_errno(HS_E_IO, command);
  if (WIFEXITED(rc) && WEXITSTATUS(rc) == 0) return HS_GOOD;
  return hs_with_note(hs_fail(HS_E_RUN, "edit: %s failed; the module is unchanged", command),
                      "set EDITOR, or edit --with=COMMAND");
}

static bool ask_again(repl_cmd *c, hs_status bad) {
  repl_print_status(c->out, bad);
  fputs("edit again? [Y/n] ", stderr);
  char answer[16];
  return fgets(answer, sizeof answer, stdin) && answer[0] != 'n' && answer[0] != 'N' &&
         hs_ok(hs_poll());
}

// Repeats until the text is a valid module, the editor fails, or the user wants no more.
static hs_status edit_file(repl_cmd *c, const char *path, const hs_buf *before, bool *changed) {
  for (;;) {
    HS_TRY(run_editor(editor(c), path, c->doc != NULL));
    hs_buf text = {0};
    hlo_module *m = NULL;
    HS_TRY(repl_read_file(path, TEXT_MOST, &text));
    *changed = text.n != before->n || memcmp(text.p, before->p, text.n) != 0;
    hlo_parse_options po = {.file = "<edited>"};
    hs_status s = *changed ? hlo_parse(c->s->ctx, text.p ? text.p : "", text.n, &po, &m) : HS_GOOD;
    hs_buf_free(&text);
    if (hs_ok(s) && m)
      s = m->entry && m->entry->root
              ? hlo_verify(m, NULL)
              : hs_fail(HS_E_VERIFY, "edit: the text has no entry computation");
    bool again = !hs_ok(s) && c->s->interactive && ask_again(c, s);
    // As with load: what reads but is not valid is taken as unverified.
    bool unverified = !hs_ok(s) && s.err->code == HS_E_VERIFY && m && m->entry && m->entry->root;
    if (!again && unverified) {
      repl_note(c->out, "warning[%s]: the edited module is not valid HLO: %s",
                hs_code_text(s.err->code), s.err->message);
      hs_status_drop(s);
      s = HS_GOOD;
    }
    if (hs_ok(s) && m) hlo_module_become(c->m, m);
    hlo_module_free(m);
    if (!again) return s;
    hs_status_drop(s);
  }
}

hs_status cmd_edit(repl_cmd *c) {
  if (!repl_flag(c, "--with") && !(isatty(STDIN_FILENO) && isatty(STDOUT_FILENO)))
    return hs_with_note(hs_fail(HS_E_USAGE, "edit: there is no terminal for an editor"),
                        "edit --with=COMMAND runs one that needs none: --with=\"sed -i s/a/b/\"");
  char *path;
  HS_TRY(repl_temp_file("edit", &path));
  hlo_print_options o = hlo_print_full();
  hs_buf text = {0};
  bool changed = false;
  hlo_print_module(&text, c->m, &o);
  if (text.n && text.p[text.n - 1] != '\n') hs_buf_putc(&text, '\n');
  u32 had = hlo_instr_count(c->m);
  hs_status s = hs_write_file(path, text.p, text.n, false);
  if (hs_ok(s)) s = edit_file(c, path, &text, &changed);
  if (hs_ok(s)) {
    repl_json_bool(c->doc, "changed", changed);
    repl_json_int(c->doc, "instructions", hlo_instr_count(c->m));
    if (!c->doc && changed)
      repl_say(c->out, "edited: %u -> %u instructions\n", had, hlo_instr_count(c->m));
    if (!c->doc && !changed) repl_say(c->out, "nothing changed\n");
  }
  unlink(path);
  hs_buf_free(&text);
  hs_free(path);
  return s;
}

// ---- isolate ------------------------------------------------------------------------------------
// The values of an instruction's operands at its last execution by the evaluator.
static hs_status operand_values(repl_cmd *c, const hlo_instr *i, repl_values *kept) {
  hlo_module *m;
  HS_TRY(repl_runnable(c, NULL, true, &m));
  hs_buf names = {0};
  for (u32 k = 0; k < i->noperands; k++)
    hs_buf_printf(&names, "%s%s", k ? "," : "", hlo_operand(i, k)->name);
  hs_status s = repl_memory_check(c, c->m, true, 0);
  hlo_literal *out = NULL;
  watch_options o = {.capture = names.n ? hs_buf_cstr(&names) : NULL, .iteration = -1};
  if (hs_ok(s)) s = watch_run(c, m, &o, kept, &out);
  hlo_literal_unref(out);
  hs_buf_free(&names);
  hlo_module_free(m);
  return s;
}

hs_status cmd_isolate(repl_cmd *c) {
  hlo_instr *i;
  HS_TRY(repl_arg_instr(c, 0, &i));
  if (i->opcode == HLO_PARAMETER)
    return repl_usage_error(c, "%s is a parameter: there is nothing to isolate", i->name);
  HS_TRY(repl_inputs(c));
  repl_values kept = {0};
  hlo_module *part = NULL;
  u32 n = 0;
  const hlo_instr **ops = NULL;
  hs_status s = operand_values(c, i, &kept);
  if (hs_ok(s)) s = cut_instructions(c->m, 1, &i, true, &part, &n, &ops);
  hlo_literal **args = hs_calloc(n + 1, sizeof *args);
  bool all = hs_ok(s);
  const char *place = "";
  for (u32 k = 0; all && k < n; k++) {
    const repl_kept *v = repl_values_find(&kept, ops[k]->name);
    all = v != NULL;
    if (v) args[k] = hlo_literal_ref(v->value), place = *v->place ? v->place : place;
  }
  const char *file = repl_flag(c, "-o");
  if (hs_ok(s)) {
    hlo_journal_enable(part);
    if (file) {
      hlo_print_options o = hlo_print_full();
      hs_buf text = {0};
      hlo_print_module(&text, part, &o);
      hs_buf_putc(&text, '\n');
      s = hs_write_file(file, text.p, text.n, false);
      hs_buf_free(&text);
    }
  }
  if (hs_ok(s)) {
    char *from = hs_format("the operands of %s%s%s%s", i->name, *place ? " (" : "", place,
                           *place ? ")" : "");
    const char *name = i->name;
    repl_module *mod = repl_session_add(c->s, part, file);
    if (all) {
      mod->inputs = args, mod->ninputs = n, mod->inputs_from = hs_strdup(from);
      args = NULL;
    } else {
      repl_note(c->out, "%s is not executed: its arguments will be random", name);
    }
    repl_json_str(c->doc, "name", part->name);
    repl_json_int(c->doc, "parameters", n);
    repl_json_str(c->doc, "inputs", all ? from : NULL);
    if (!c->doc)
      repl_say(c->out, "%s: %u instructions, %u parameters; module %u is now current\n", part->name,
               hlo_instr_count(part), n, mod->number);
    hs_free(from);
  } else {
    hlo_module_free(part);
  }
  for (u32 k = 0; args && k < n; k++) hlo_literal_unref(args[k]);
  hs_free(args);
  hs_free(ops);
  repl_values_free(&kept);
  return s;
}
