// shell.c — the shell itself: set and the toggles, alias, source, !cmd, doctor, quit.
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "repl/cmd/cmd.h"
#include "repl/shell/line.h"
#include "repl/shell/plugin.h"
#include "repl/shell/settings.h"
#include "viz/viz.h"

// ---- set ----------------------------------------------------------------------------------------
static void say_setting(repl_cmd *c, repl_json *j, u32 k, bool full) {
  char v[40];
  repl_setting_text(c->s, k, v);
  const char *name = repl_setting_name(k);
  if (!c->doc)
    repl_say(c->out, full ? "%-15s %-8s %s\n" : "%s = %s\n", name, v, repl_setting_summary(k));
  repl_json_str(j, name, v);
}

hs_status cmd_set(repl_cmd *c) {
  repl_json *j = repl_json_object(c->doc, "settings");
  const char *name = repl_arg(c, 0), *value = repl_arg(c, 1);
  if (!name) {
    for (u32 k = 0; k < repl_setting_count; k++) say_setting(c, j, k, true);
    repl_say_flags(c, j);
    return HS_GOOD;
  }
  if (strncmp(name, "xla.", 4) == 0) return repl_set_flag(c, j, name + 4, value);
  if (value) return repl_set(c->s, name, value);
  u32 k;
  HS_TRY(repl_setting_find(name, &k));
  say_setting(c, j, k, false);
  return HS_GOOD;
}

static hs_status toggle(repl_cmd *c, const char *name) {
  u32 k;
  if (repl_arg(c, 0)) HS_TRY(repl_set(c->s, name, repl_arg(c, 0)));
  HS_TRY(repl_setting_find(name, &k));
  char v[40];
  repl_setting_text(c->s, k, v);
  if (!c->doc) repl_say(c->out, "%s is %s\n", c->command->name, v);
  repl_json_str(c->doc, "state", v);
  return HS_GOOD;
}
hs_status cmd_toggle_metadata(repl_cmd *c) { return toggle(c, "metadata"); }
hs_status cmd_toggle_backend_config(repl_cmd *c) { return toggle(c, "backend_config"); }
hs_status cmd_toggle_fusions(repl_cmd *c) { return toggle(c, "fusions"); }

// ---- alias, source, !, quit ---------------------------------------------------------------------
hs_status cmd_alias(repl_cmd *c) {
  const char *p = c->args.raw;
  repl_json *j = repl_json_object(c->doc, "aliases");
  if (!*p) {
    for (size_t k = 0; k < c->s->aliases.n; k++) {
      if (!c->doc) repl_say(c->out, "%s = %s\n", c->s->aliases.v[k].name, c->s->aliases.v[k].text);
      repl_json_str(j, c->s->aliases.v[k].name, c->s->aliases.v[k].text);
    }
    if (!c->s->aliases.n) repl_note(c->out, "no aliases; alias NAME = COMMANDS makes one");
    return HS_GOOD;
  }
  size_t n = strcspn(p, " =\t");
  const char *text = p + n + strspn(p + n, " \t");
  if (*text != '=') return repl_usage_error(c, "alias NAME = COMMANDS");
  text++;
  text += strspn(text, " \t");
  char *name = hs_arena_strndup(c->scratch, p, n);
  const repl_command *taken = repl_command_find(c->s, name);
  if (!n || (taken && !(taken->needs & REPL_HIDDEN)))
    return repl_usage_error(c, "%s is a command and cannot be an alias",
                            n ? name : "an empty name");
  if (hlo_op_find(hs_str_of(name)))
    return repl_usage_error(c, "%s is an opcode and cannot be an alias", name);
  // The text may be quoted, so that it can contain semicolons.
  size_t len = strlen(text);
  if (len > 1 && (*text == '"' || *text == '\'') && text[len - 1] == *text)
    text = hs_arena_strndup(c->scratch, text + 1, len - 2);
  if (!*text) return repl_usage_error(c, "nothing after =");
  for (size_t k = 0; k < c->s->aliases.n; k++)
    if (strcmp(c->s->aliases.v[k].name, name) == 0) {
      hs_free(c->s->aliases.v[k].text);
      c->s->aliases.v[k].text = hs_strdup(text);
      return HS_GOOD;
    }
  repl_alias a = {hs_strdup(name), hs_strdup(text)};
  hs_vec_push(&c->s->aliases, a);
  return HS_GOOD;
}

hs_status cmd_source(repl_cmd *c) {
  int before = c->s->exit_code;
  c->s->exit_code = 0;
  hs_status s = repl_source_file(c->s, repl_arg(c, 0));
  int code = c->s->exit_code;
  c->s->exit_code = before;
  HS_TRY(s);
  c->failed = code;
  return HS_GOOD;
}

hs_status cmd_shell(repl_cmd *c) {
  if (!*c->args.raw) return hs_fail(HS_E_USAGE, "!: no command");
  repl_flush(c->out);
  fflush(NULL);
  FILE *f = popen(c->args.raw, "re");
  if (!f) return hs_fail_errno(HS_E_IO, "!");
  char block[4096];
  for (size_t n; (n = fread(block, 1, sizeof block, f)) > 0;) {
    hs_buf_put(&c->out->text, block, n);
    repl_flush(c->out);
  }
  int rc = pclose(f);
  int code = WIFEXITED(rc) ? WEXITSTATUS(rc) : 128 + WTERMSIG(rc);
  repl_json_int(c->doc, "exit_status", code);
  HS_TRY(hs_poll());
  return code == 0 ? HS_GOOD : hs_fail(HS_E_RUN, "!: the command ended with status %d", code);
}

hs_status cmd_quit(repl_cmd *c) {
  c->s->quit = true;
  return HS_GOOD;
}

// ---- doctor -------------------------------------------------------------------------------------
static void row(repl_cmd *c, repl_json *list, const char *what, bool ok, const char *state,
                const char *fix) {
  if (!c->doc)
    repl_say(c->out, "%-4s %-14s %s%s%s\n", ok ? "ok" : "--", what, state,
             !ok && fix ? "; fix: " : "", !ok && fix ? fix : "");
  repl_json *j = repl_json_object(list, NULL);
  repl_json_str(j, "name", what);
  repl_json_bool(j, "ok", ok);
  repl_json_str(j, "state", state);
  if (!ok && fix) repl_json_str(j, "fix", fix);
}

// A backend that cannot be used: the lines of the note before "fix: " belong to the state.
static void unusable_row(repl_cmd *c, repl_json *list, const char *what, const hs_diag *e) {
  const char *fix = e->note ? strstr(e->note, "\nfix: ") : NULL;
  if (!fix) {
    row(c, list, what, false, e->message, e->note);
    return;
  }
  char *state = hs_format("%s; %.*s", e->message, (int)(fix - e->note), e->note);
  row(c, list, what, false, state, fix + strlen("\nfix: "));
  hs_free(state);
}

// What a backend can use but does not need.
static void extras_row(repl_cmd *c, repl_json *list, const backend *b) {
  hs_buf text = {0}, fix = {0};
  char *name = hs_format("%s libraries", b->name);
  bool all = b->extras(&text, &fix);
  row(c, list, name, all, hs_buf_cstr(&text), hs_buf_cstr(&fix));
  hs_free(name);
  hs_buf_free(&text);
  hs_buf_free(&fix);
}

static bool openable(const char *path) { return access(path, R_OK) == 0; }

hs_status cmd_version(repl_cmd *c) {
  int llvm = 0;
#if HAVE_LLVM
  llvm = HLOSH_LLVM_MAJOR;
#endif
  repl_json_str(c->doc, "version", HLOSH_VERSION);
  repl_json_str(c->doc, "compiler", __VERSION__);
  repl_json_int(c->doc, "llvm", llvm);
  if (c->doc) return HS_GOOD;
  repl_say(c->out, "hlosh %s, compiler %s", HLOSH_VERSION, __VERSION__);
  if (llvm) repl_say(c->out, ", LLVM %d", llvm);
  repl_say(c->out, "\n");
  return HS_GOOD;
}

hs_status cmd_doctor(repl_cmd *c) {
  repl_json *list = repl_json_array(c->doc, "checks");
  char text[128];
  snprintf(text, sizeof text, "hlosh %s, %s", HLOSH_VERSION, __VERSION__);
  row(c, list, "build", true, text, NULL);
#if HAVE_LLVM
  snprintf(text, sizeof text, "LLVM %d, code generation for the CPU", HLOSH_LLVM_MAJOR);
  row(c, list, "llvm", true, text, NULL);
#else
  row(c, list, "llvm", false, "no code generation", "apt-get install llvm-19-dev, then make");
#endif
  row(c, list, "onednn", HAVE_DNNL,
      HAVE_DNNL ? "large products and convolutions" : "large products are slow",
      "apt-get install libdnnl-dev, then make");
  row(c, list, "lapack", HAVE_LAPACKE,
      HAVE_LAPACKE ? "factorizations" : "no factorizations by LAPACK",
      "apt-get install liblapacke-dev libopenblas-dev, then make");
  row(c, list, "json", repl_json_built(),
      repl_json_built() ? "--json, report and replay" : "no --json, report, replay",
      "apt-get install libcjson-dev, then make");
  row(c, list, "zlib", HAVE_ZLIB, HAVE_ZLIB ? ".gz files" : "no .gz files",
      "apt-get install zlib1g-dev, then make");
  row(c, list, "zstd", HAVE_ZSTD, HAVE_ZSTD ? ".zst files" : "no .zst files",
      "apt-get install libzstd-dev, then make");
  bool plain = strcmp(repl_line_library(), "plain") == 0;
  snprintf(text, sizeof text, "%s",
           plain ? "no editing, history or completion" : repl_line_library());
  row(c, list, "line editing", !plain, text,
      "apt-get install libreadline-dev (or libedit-dev and EDITLINE=libedit), then make");
  row(c, list, "graphviz", viz_have_graphviz(),
      viz_have_graphviz() ? "dot draws graphs" : "only .dot files and the terminal",
      "apt-get install graphviz");
  for (u32 k = 0; k < backend_count; k++) {
    hs_status s = backend_table[k]->probe();
    char *python = backend_has(backend_table[k], BACKEND_PYTHON) ? repl_python_text(c->s) : NULL;
    snprintf(text, sizeof text, "%.120s", python ? python : "usable");
    hs_free(python);
    char name[32];
    snprintf(name, sizeof name, "backend %s", backend_table[k]->name);
    if (hs_ok(s)) row(c, list, name, true, text, NULL);
    else unusable_row(c, list, name, s.err);
    hs_status_drop(s);
    if (backend_table[k]->extras) extras_row(c, list, backend_table[k]);
  }
  const sandbox_support box = sandbox_probe();
  row(c, list, "seccomp", !box.no_seccomp,
      box.no_seccomp ? box.no_seccomp : "programs make only the system calls they need", NULL);
  snprintf(text, sizeof text, "ABI %d: programs read only the files they need", box.landlock);
  row(c, list, "landlock", !box.no_landlock, box.no_landlock ? box.no_landlock : text,
      box.no_landlock ? "Linux 5.13 or newer, with landlock in its list of security modules"
                      : NULL);
  row(c, list, "plug-ins", true, "a process with limits, not in the sandbox: drivers need devices",
      NULL);
  snprintf(text, sizeof text, "%ld online", sysconf(_SC_NPROCESSORS_ONLN));
  row(c, list, "cpu cores", true, text, NULL);
  bool gpu = openable("/dev/nvidiactl");
  row(c, list, "gpu", gpu,
      gpu ? "an NVIDIA device is present" : "none (estimates for GPUs do not need one)", NULL);
  struct winsize ws;
  bool tty = isatty(STDOUT_FILENO);
  if (tty && ioctl(STDOUT_FILENO, TIOCGWINSZ, &ws) == 0)
    snprintf(text, sizeof text, "%ux%u, colours %s", ws.ws_col, ws.ws_row,
             c->s->color ? "on" : "off");
  else snprintf(text, sizeof text, "standard output is not a terminal");
  row(c, list, "terminal", true, text, NULL);
  return HS_GOOD;
}
