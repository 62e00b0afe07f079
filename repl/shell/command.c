// command.c: from a line of text to the execution of commands. See command.h.
//
// The first word is interpreted in this order: `!` runs a shell command; `%x` and `NAME = op(...)`
// are instructions; the exact name of a command; an alias; the name of an instruction or
// computation (draws its neighbourhood); an unambiguous prefix of a command. Anything else is an
// error with the nearest name.
//
// A mutating command is a transaction: its edits become one version when it succeeds, and are
// rolled back when it fails or is interrupted.
#include "repl/shell/command.h"

#include "repl/shell/gate.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/base/file.h"
#include "repl/shell/deadline.h"

#define MAX_DEPTH 25      // of source and alias
#define MAX_NOTES 100000  // kept per version by passes that changed nothing
#define MAX_LINE ((size_t)16 << 20)

const repl_command *repl_command_find(const repl_session *s, const char *name) {
  for (u32 k = 0; k < s->ncommands; k++)
    if (strcmp(s->commands[k].name, name) == 0) return &s->commands[k];
  return NULL;
}

// ---- helpers for commands -----------------------------------------------------------------------
hs_status repl_usage_error(const repl_cmd *c, const char *fmt, ...) {
  hs_buf m = {0}, u = {0};
  va_list ap;
  va_start(ap, fmt);
  hs_buf_vprintf(&m, fmt, ap);
  va_end(ap);
  repl_usage(&u, c->command->name, c->command->spec);
  hs_status s = hs_with_note(hs_fail(HS_E_USAGE, "%s: %s", c->command->name, hs_buf_cstr(&m)),
                             "usage: %s", hs_buf_cstr(&u));
  hs_buf_free(&m);
  hs_buf_free(&u);
  return s;
}

hs_status repl_flag_pipeline(const repl_cmd *c, const char **out) {
  const char *text = repl_flag(c, "--pipeline");
  *out = text ? text : "tuned";
  if (**out) return HS_GOOD;
  return hs_with_note(repl_usage_error(c, "--pipeline= names no pipeline or pass"),
                      "passes lists them all; without the option it is tuned");
}

hs_status repl_arg_num(const repl_cmd *c, const char *what, const char *text, double *out) {
  bool number = repl_number(text, out) && !isnan(*out);
  return number ? HS_GOOD : repl_usage_error(c, "%s is a number, not \"%s\"", what, text);
}

hs_status repl_arg_int(const repl_cmd *c, const char *what, const char *text, i64 least, i64 most,
                       i64 *out) {
  double v;
  HS_TRY(repl_arg_num(c, what, text, &v));
  if (!(v >= (double)least && v <= (double)most) || v != (double)(i64)v)
    return repl_usage_error(c, "%s is a whole number from %lld to %lld, not %s", what,
                            (long long)least, (long long)most, text);
  *out = (i64)v;
  return HS_GOOD;
}

hs_status repl_arg_seconds(const repl_cmd *c, double *out) {
  const char *text = repl_flag(c, "--seconds");
  if (!text) return HS_GOOD;
  HS_TRY(repl_arg_num(c, "--seconds", text, out));
  if (*out > 0 && *out <= 1e6) return HS_GOOD;
  return repl_usage_error(c, "--seconds is above 0 and at most a million, not %s", text);
}

hs_status repl_arg_tolerance(const repl_cmd *c, hlo_tolerance *tol) {
  const struct {
    const char *flag;
    double *to;
  } bounds[] = {{"--abs", &tol->abs}, {"--rel", &tol->rel}};
  for (size_t k = 0; k < HS_COUNT(bounds); k++) {
    const char *text = repl_flag(c, bounds[k].flag);
    if (!text) continue;
    HS_TRY(repl_arg_num(c, bounds[k].flag, text, bounds[k].to));
    if (*bounds[k].to < 0 && *bounds[k].to != HLO_TYPES_OWN)
      return repl_usage_error(c, "%s is 0 or more (-1: the type's), not %s", bounds[k].flag, text);
  }
  return HS_GOOD;
}

// An instruction that passes have removed or replaced is still in an earlier version.
static hs_status no_object(const repl_cmd *c, const char *name) {
  hs_status s = repl_no_object(c->m, name);
  const repl_version *v = repl_version_with(c->mod, name, NULL, NULL);
  return v ? hs_with_note(s, "version %u has it; why %s tells what passes did with it", v->number,
                          name)
           : s;
}

hs_status repl_arg_object(const repl_cmd *c, u32 k, hlo_instr **instr, hlo_computation **comp) {
  const char *name = repl_arg(c, k);
  *instr = repl_find_instr(c->m, name);
  *comp = *instr ? NULL : repl_find_comp(c->m, name);
  // An exact computation name goes before an instruction that only matches without regard to case.
  hlo_computation *exact = hlo_find_comp(c->m, *name == '%' ? name + 1 : name);
  if (exact && *instr && strcmp((*instr)->name, exact->name) != 0) *instr = NULL, *comp = exact;
  return *instr || *comp ? HS_GOOD : no_object(c, name);
}

hs_status repl_arg_instr(const repl_cmd *c, u32 k, hlo_instr **out) {
  *out = repl_find_instr(c->m, repl_arg(c, k));
  if (*out) return HS_GOOD;
  if (repl_find_comp(c->m, repl_arg(c, k)))
    return repl_usage_error(c, "%s is a computation, not an instruction", repl_arg(c, k));
  return no_object(c, repl_arg(c, k));
}

// ---- output -------------------------------------------------------------------------------------
static hs_status send_to_pipe(const char *command, const char *p, size_t n) {
  fflush(NULL);
  errno = ENOMEM;  // popen does not set it then
  FILE *f = popen(command, "we");
  if (!f) return hs_fail_errno(HS_E_IO, command);
  // a program that does not read all of it (head) is no error
  bool ok = hs_write_all(fileno(f), p, n) || errno == EPIPE;
  int err = errno, rc = pclose(f);
  if (!ok) return errno = err, hs_fail_errno(HS_E_IO, command);
  if (rc == -1) return hs_fail_errno(HS_E_IO, command);
  if (WIFEXITED(rc) && (WEXITSTATUS(rc) == 127 || WEXITSTATUS(rc) == 126))
    return hs_fail(HS_E_USAGE, "the shell cannot run: %s", command);
  return HS_GOOD;
}

static bool page(repl_cmd *c) {
  struct winsize ws;
  if (!c->s->interactive || !c->s->set.pager || !isatty(STDOUT_FILENO) ||
      !(c->command->needs & REPL_PAGED))
    return false;
  if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &ws) != 0 || ws.ws_row < 4) return false;
  size_t lines = 0;
  for (size_t k = 0; k < c->out->text.n && lines <= ws.ws_row; k++)
    lines += c->out->text.p[k] == '\n';
  if (lines < ws.ws_row) return false;
  const char *pager = getenv("PAGER");
  hs_buf shown = {0};
  repl_put_shown(c->out, &shown);
  hs_status s = send_to_pipe(pager && *pager ? pager : "less -FRX", shown.p, shown.n);
  bool ok = hs_ok(s);
  hs_status_drop(s);
  hs_buf_free(&shown);
  return ok;
}

// Finishes the JSON document of a command: what it put there, or its text, and how it ended.
static void finish_doc(repl_cmd *c, hs_status s) {
  repl_out *o = c->out;
  if (o->text.n) repl_json_strn(o->doc, "text", o->text.p, o->text.n);
  if (!hs_ok(s)) {
    repl_json_int(o->doc, "exit", hs_code_exit(s.err->code));
    repl_json_diags(o->doc, "errors", s);
  }
  repl_json *head = repl_json_root();
  repl_json_str(head, "schema", "hlosh/1");
  repl_json_str(head, "command", c->command->name);
  repl_json_str(head, "status", hs_ok(s) && !c->failed ? "ok" : "error");
  if (c->s->current) {
    repl_json_str(head, "module", c->s->current->m->name);
    repl_json_int(head, "version", c->s->current->at->number);
  }
  hs_buf h = {0}, d = {0};
  repl_json_print(head, &h);
  repl_json_print(o->doc, &d);
  // Two objects become one: {"schema":...} + {"x":...} -> {"schema":...,"x":...}.
  o->text.n = 0;
  hs_buf_put(&o->text, h.p, h.n - 1);
  if (d.n > 2) hs_buf_putc(&o->text, ','), hs_buf_put(&o->text, d.p + 1, d.n - 1);
  else hs_buf_putc(&o->text, '}');
  hs_buf_putc(&o->text, '\n');
  hs_buf_free(&h);
  hs_buf_free(&d);
  repl_json_free(head);
}

static hs_status deliver(repl_cmd *c, hs_status s) {
  repl_out *o = c->out;
  if (o->doc) finish_doc(c, s);
  hs_status d = HS_GOOD;
  // A command that failed with nothing to say, or that was stopped, leaves the file alone.
  bool stopped = hs_interrupted() && c->args.redirect != REPL_TO_STDOUT;
  if (!hs_ok(s) && (!o->text.n || stopped)) return d;
  switch (c->args.redirect) {
  case REPL_TO_STDOUT:
    if (o->text.n && !page(c)) repl_write_text(o);
    break;
  case REPL_TO_PIPE: d = send_to_pipe(c->args.target, o->text.p, o->text.n); break;
  case REPL_TO_FILE: d = hs_write_file(c->args.target, o->text.p, o->text.n, false); break;
  case REPL_TO_APPEND: d = hs_write_file(c->args.target, o->text.p, o->text.n, true); break;
  }
  o->text.n = o->painted.n = 0;
  return d;
}

// ---- one command --------------------------------------------------------------------------------
repl_version *repl_settle(repl_cmd *c, const char *label, size_t from) {
  repl_version *v = repl_commit(c->mod, label);
  if (!v) return NULL;
  for (size_t k = from; k < c->log->n; k++) hs_vec_push(&v->log, c->log->v[k]);
  v->notes = *c->notes;
  *c->notes = (pass_notes){0};
  // The pass runner has verified what it edited of a module that was valid.
  if (!(c->command->needs & REPL_ANY_MODULE) && c->s->set.verify && v->parent)
    v->verdict = v->parent->verdict;
  return v;
}

// Ends the transaction of a mutating command.
static void settle(repl_cmd *c, bool ok) {
  if (!c->mod) return;
  bool still_there = false;
  for (size_t k = 0; k < c->s->modules.n; k++) still_there |= c->s->modules.v[k] == c->mod;
  if (!still_there) return;
  if (!ok || !(c->command->needs & REPL_MUTATES)) {
    hlo_abort(c->mod->m);
  } else if (!repl_settle(c, c->line, 0)) {
    // Nothing changed, but `why` wants to know what was declined.
    for (size_t k = 0; k < c->notes->n && c->mod->at->notes.n < MAX_NOTES; k++) {
      hs_vec_push(&c->mod->at->notes, c->notes->v[k]);
      c->notes->v[k].text = NULL;
    }
  }
}

hs_status repl_needs_module(const repl_cmd *c, bool empty_ok) {
  if (!c->mod)
    return hs_with_note(hs_fail(HS_E_NO_MODULE, "%s: no module is loaded", c->command->name),
                        "load FILE reads one, example NAME makes one, new NAME starts one");
  if (!c->m->entry->root && !empty_ok)
    return hs_with_note(
        hs_fail(HS_E_VERIFY, "%s: %s has no instructions yet", c->command->name, c->m->name),
        "param NAME SHAPE adds a parameter, NAME = op(...) an instruction");
  return repl_gate(c);
}

static hs_status check_needs(const repl_cmd *c) {
  return c->command->needs & REPL_NEEDS_MODULE
             ? repl_needs_module(c, c->command->needs & REPL_EMPTY_OK)
             : HS_GOOD;
}

// The label of a version: the command as typed, on one line, not longer than a screen is wide.
static char *one_line(hs_arena *a, hs_str s) {
  hs_buf b = {0};
  for (size_t k = 0; k < s.n && b.n < 100; k++) {
    bool space = isspace((unsigned char)s.p[k]);
    if (!space) hs_buf_putc(&b, s.p[k]);
    else if (b.n && b.p[b.n - 1] != ' ') hs_buf_putc(&b, ' ');
  }
  while (b.n && b.p[b.n - 1] == ' ') b.n--;
  char *line = hs_arena_strndup(a, b.p ? b.p : "", b.n);
  hs_buf_free(&b);
  return line;
}

static int run_command(repl_session *s, const repl_command *command, hs_str rest, hs_str whole) {
  hs_arena scratch = {0};
  repl_out out = {.color = s->color && !s->json, .color_err = s->color_err};
  if (s->json) out.doc = repl_json_root();
  pass_log log = {0};
  pass_notes notes = {0};
  repl_cmd c = {.s = s,
                .command = command,
                .out = &out,
                .doc = out.doc,
                .scratch = &scratch,
                .mod = s->current,
                .m = s->current ? s->current->m : NULL,
                .log = &log,
                .notes = &notes};
  c.line = one_line(&scratch, whole);
  repl_out *outer = s->out;
  s->out = &out;
  // at the prompt, a Ctrl-C since the line was entered is for its commands (line.c clears the rest)
  bool heard = s->interactive && repl_interrupt == HS_STOP_INTERRUPT;
  if (!outer && !heard) repl_interrupt = HS_STOP_NONE;
  hs_status st = repl_parse_args(&scratch, command->name, command->spec, rest, &c.args);
  if (!hs_ok(st)) c.args.redirect = REPL_TO_STDOUT;
  out.captured = c.args.redirect != REPL_TO_STDOUT;
  // A version's label says what was done, not where it was written.
  if (out.captured) c.line = one_line(&scratch, (hs_str){whole.p, whole.n - rest.n + c.args.used});
  if (out.captured) out.color = false;
  if (!outer) repl_deadline_start(s->set.deadline);
  if (hs_ok(st)) st = check_needs(&c);
  if (hs_ok(st)) {
    st = command->fn(&c);
    // A text may have been cut without anybody seeing it.
    if (hs_ok(st) && hs_stop_reason() == HS_STOP_MEMORY) st = hs_stopped();
    repl_progress_end(&out);
    settle(&c, hs_ok(st));
    hs_buf warning = {0};
    if (backend_context_warning(s->backends, &warning))
      repl_note(&out, "warning: %s", hs_buf_cstr(&warning));
    hs_buf_free(&warning);
  }
  if (!outer) repl_deadline_stop();
  hs_status delivered = deliver(&c, st);
  int code = hs_ok(st) ? c.failed : hs_code_exit(st.err->code);
  if (!hs_ok(st)) repl_print_status(&out, st);
  if (!hs_ok(delivered)) {
    repl_print_status(&out, delivered);
    if (!code) code = hs_code_exit(delivered.err->code);
  }
  if (out.broken) {
    // EPIPE is how `| head` ends: no message, but no further command is run.
    if (out.broken_errno != EPIPE)
      repl_complain("hlosh: cannot write to standard output: %s", strerror(out.broken_errno));
    if (!code) code = hs_code_exit(HS_E_IO);
    s->quit = true;
  }
  hs_status_drop(st);
  hs_status_drop(delivered);
  // Ctrl-C ends the whole line; a deadline and a lack of memory are errors of this command
  if (repl_interrupt == HS_STOP_MEMORY || (!outer && repl_interrupt == HS_STOP_DEADLINE))
    repl_interrupt = HS_STOP_NONE;
  if (!outer) hs_memory_ready(REPL_RESERVE);
  s->out = outer;
  hs_vec_free(&log);
  for (size_t k = 0; k < notes.n; k++) hs_free(notes.v[k].text);
  hs_vec_free(&notes);
  repl_json_free(out.doc);
  repl_out_free(&out);
  hs_arena_free(&scratch);
  if (code && !s->exit_code) s->exit_code = code;
  return code;
}

// An error before any command was found still gives a JSON document.
static int refuse(repl_session *s, hs_status st, const char *word) {
  int code = hs_code_exit(st.err->code);
  repl_out out = {.color_err = s->color_err};
  if (s->json) {
    out.doc = repl_json_root();
    const repl_command none = {.name = word};
    repl_cmd c = {.s = s, .command = &none, .out = &out, .doc = out.doc};
    hs_status_drop(deliver(&c, st));
    repl_json_free(out.doc);
  }
  repl_print_status(&out, st);
  repl_out_free(&out);
  hs_status_drop(st);
  if (!s->exit_code) s->exit_code = code;
  return code;
}

// ---- which command ------------------------------------------------------------------------------
static bool is_name_char(char ch) {
  return isalnum((unsigned char)ch) || ch == '_' || ch == '.' || ch == '-' || ch == '%';
}

// "x = add(a, b)", "x := exp(x)", "ROOT x = ...": the builder's syntax.
static bool is_definition(hs_str s) {
  size_t i = 0;
  if (s.n > 5 && memcmp(s.p, "ROOT ", 5) == 0) i = 5;
  size_t b = i;
  while (i < s.n && is_name_char(s.p[i])) i++;
  if (i == b) return false;
  while (i < s.n && (s.p[i] == ' ' || s.p[i] == '\t')) i++;
  i += i < s.n && s.p[i] == ':';
  return i < s.n && s.p[i] == '=' && (i + 1 == s.n || s.p[i + 1] != '=');
}

static const char *find_alias(const repl_session *s, hs_str word) {
  for (size_t k = 0; k < s->aliases.n; k++)
    if (hs_str_eq(hs_str_of(s->aliases.v[k].name), word)) return s->aliases.v[k].text;
  return NULL;
}

static hs_status unknown_command(const repl_session *s, const char *word) {
  hs_status st = hs_fail_subject(
      HS_E_NO_COMMAND, word, "no command, instruction or computation is called \"%.60s\"", word);
  HS_VEC(const char *) names = {0};
  for (u32 k = 0; k < s->ncommands; k++)
    if (!(s->commands[k].needs & REPL_HIDDEN)) hs_vec_push(&names, s->commands[k].name);
  const char *near = strlen(word) < 64 ? hs_nearest(word, names.v, names.n) : NULL;
  hs_vec_free(&names);
  if (near) st = hs_with_note(st, "did you mean the command %s?", near);
  else if (hs_has_program(word)) st = hs_with_note(st, "!%s runs the program", word);
  if (s->current && strlen(word) < 200) {
    hs_status obj = repl_no_object(s->current->m, word);
    // a near name helps; how to look for names does not, since it may have been no name at all
    if (strncmp(obj.err->note ? obj.err->note : "", "did", 3) == 0)
      st = hs_with_note(st, "in %s: %s", s->current->m->name, obj.err->note);
    hs_status_drop(obj);
  }
  return near ? st : hs_with_note(st, "help lists the commands");
}

// A unique prefix of a command name; several: E_NO_COMMAND naming them.
static hs_status find_prefix(const repl_session *s, const char *word, const repl_command **out) {
  size_t n = strlen(word), hits = 0;
  hs_buf list = {0};
  for (u32 k = 0; k < s->ncommands; k++) {
    if ((s->commands[k].needs & REPL_HIDDEN) || strncmp(s->commands[k].name, word, n) != 0)
      continue;
    *out = &s->commands[k];
    hs_buf_printf(&list, "%s%s", hits++ ? ", " : "", s->commands[k].name);
  }
  // pas: pass, which is what passes begins with too
  u32 root = 0;
  for (u32 k = 0; k < s->ncommands && hits > 1; k++) {
    if ((s->commands[k].needs & REPL_HIDDEN) || strncmp(s->commands[k].name, word, n) != 0)
      continue;
    size_t all = 0, length = strlen(s->commands[k].name);
    for (u32 j = 0; j < s->ncommands; j++)
      all += !(s->commands[j].needs & REPL_HIDDEN) &&
             strncmp(s->commands[j].name, s->commands[k].name, length) == 0 &&
             strncmp(s->commands[j].name, word, n) == 0;
    if (all == hits) root = k + 1;
  }
  if (root) {
    *out = &s->commands[root - 1];
    hits = 1;
  }
  hs_status st = HS_GOOD;
  if (hits == 0) st = unknown_command(s, word);
  else if (hits > 1)
    st = hs_fail_subject(HS_E_NO_COMMAND, word, "\"%s\" could be %s", word, hs_buf_cstr(&list));
  hs_buf_free(&list);
  return st;
}

static bool is_object(const repl_session *s, const char *word) {
  return s->current &&
         (repl_find_instr(s->current->m, word) || repl_find_comp(s->current->m, word));
}

// plot --help
static bool asks_for_help(hs_str rest) {
  return hs_str_eq(rest, HS_STR("--help")) || hs_str_eq(rest, HS_STR("-h"));
}

static int run_segment(repl_session *s, hs_str seg) {
  size_t at;
  hs_str w = repl_first_word(seg, &at);
  hs_str rest = {seg.p + at, seg.n - at};
  if (!w.n) return refuse(s, hs_fail(HS_E_USAGE, "no command before \"%c\"", w.p[0]), "");
  if (w.p[0] == '!') return run_command(s, repl_command_find(s, "!"), rest, seg);
  if (is_definition(seg)) return run_command(s, repl_command_find(s, "NAME="), seg, seg);
  if (w.p[0] == '%') return run_command(s, repl_command_find(s, "%NAME"), seg, seg);
  char *word = hs_alloc(w.n + 1);
  memcpy(word, w.p, w.n);
  word[w.n] = 0;
  int code;
  const repl_command *command = repl_command_find(s, word);
  const char *alias = command && !(command->needs & REPL_HIDDEN) ? NULL : find_alias(s, w);
  if (command && !(command->needs & REPL_HIDDEN) && asks_for_help(rest)) {
    hs_str name = hs_str_of(command->name);
    code = run_command(s, repl_command_find(s, "help"), name, seg);
  } else if (command && !(command->needs & REPL_HIDDEN)) {
    code = run_command(s, command, rest, seg);
  } else if (alias) {
    hs_buf line = {0};
    hs_buf_puts(&line, alias);
    hs_buf_putc(&line, ' ');
    hs_buf_put(&line, rest.p, rest.n);
    if (s->depth >= MAX_DEPTH) {
      code = refuse(
          s, hs_fail(HS_E_LIMIT, "aliases and scripts are nested more than %d deep", MAX_DEPTH),
          word);
    } else {
      s->depth++;
      code = repl_run_line(s, line.p, line.n);
      s->depth--;
    }
    hs_buf_free(&line);
  } else if (is_object(s, word)) {
    code = run_command(s, repl_command_find(s, "%NAME"), seg, seg);
  } else {
    hs_status st = find_prefix(s, word, &command);
    code = hs_ok(st) ? run_command(s, command, rest, seg) : refuse(s, st, word);
  }
  hs_free(word);
  return code;
}

// ---- lines and texts ----------------------------------------------------------------------------
static bool is_module_text(const char *p, size_t n) {
  return n > 10 && memcmp(p, "HloModule ", 10) == 0;
}

// Whether brackets (and a pasted module's braces) are still open. Quotes count, escapes inside them
// too.
bool repl_wants_more(const char *text, size_t n) {
  size_t i = 0;
  while (i < n && isspace((unsigned char)text[i])) i++;
  bool module = is_module_text(text + i, n - i);
  if (!module && !is_definition((hs_str){text + i, n - i}) && !repl_is_block(text + i, n - i))
    return false;
  int depth = 0;
  bool entry = false;
  char quote = 0;
  for (; i < n; i++) {
    char c = text[i];
    if (quote) {
      if (c == '\\') i++;
      else if (c == quote) quote = 0;
    } else if (c == '"') quote = c;
    else if (c == '(' || c == '{' || c == '[') depth++;
    else if (c == ')' || c == '}' || c == ']') depth--;
    else if (module && (i == 0 || text[i - 1] == '\n') && n - i > 6 &&
             memcmp(text + i, "ENTRY ", 6) == 0)
      entry = true;
  }
  return depth > 0 || (module && !entry);
}

int repl_run_line(repl_session *s, const char *line, size_t n) {
  if (memchr(line, 0, n))
    return refuse(s, hs_fail(HS_E_USAGE, "the line holds a NUL byte; nothing of it was run"), "");
  if (n > MAX_LINE)
    return refuse(s, hs_fail(HS_E_LIMIT, "the line is longer than %zu bytes", MAX_LINE), "");
  size_t b = 0;
  while (b < n && isspace((unsigned char)line[b])) b++;
  if (is_module_text(line + b, n - b)) {
    hs_str text = {line + b, n - b};
    return run_command(s, repl_command_find(s, "HloModule"), text, HS_STR("HloModule"));
  }
  int first = 0;
  size_t at = 0;
  for (hs_str seg; !s->quit && repl_split(line, n, &at, &seg);) {
    int code = run_segment(s, seg);
    if (code && !first) first = code;
    if (hs_interrupted() && !first) {
      first = hs_code_exit(HS_E_INTERRUPTED);
      if (!s->exit_code) s->exit_code = first;
    }
    if (first && (!s->set.keep_going || hs_interrupted())) break;
  }
  return first;
}

int repl_run_text(repl_session *s, const char *text, size_t n) {
  int first = 0;
  size_t at = 0;
  while (at < n && !s->quit) {
    size_t end = at;
    for (;;) {
      const char *nl = memchr(text + end, '\n', n - end);
      end = nl ? (size_t)(nl - text) : n;
      if (!nl || !repl_wants_more(text + at, end - at)) break;
      end++;
    }
    int code = repl_run_line(s, text + at, end - at);
    if (code && !first) first = code;
    if (first && (!s->set.keep_going || hs_interrupted())) break;
    at = end + 1;
  }
  return first;
}

hs_status repl_source_file(repl_session *s, const char *path) {
  if (s->depth >= MAX_DEPTH)
    return hs_fail(HS_E_LIMIT, "%s: scripts are nested more than %d deep", path, MAX_DEPTH);
  hs_buf text = {0};
  hs_status st = repl_read_file(path, (size_t)256 << 20, &text);
  if (hs_ok(st)) {
    s->depth++;
    repl_run_text(s, text.p ? text.p : "", text.n);
    s->depth--;
  }
  hs_buf_free(&text);
  return st;
}
