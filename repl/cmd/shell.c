// shell.c — the shell itself: set and the toggles, alias, source, !cmd, doctor, quit.
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "repl/shell/command.h"
#include "repl/shell/line.h"
#include "repl/shell/plugin.h"
#include "viz/viz.h"

// ---- set ----------------------------------------------------------------------------------------
typedef enum setting_kind {
  SET_BOOL,
  SET_U32,
  SET_U64,
  SET_NUMBER,
  SET_TEXT,
  SET_ELIDED,
  SET_VINTAGE
} setting_kind;
typedef struct setting {
  const char *name;
  setting_kind kind;
  size_t at;
  double least, most;
  const char *summary;
} setting;
#define AT(f) offsetof(repl_settings, f)
// A word's place in its list is what the setting holds (a u32 or an enum).
static const char *const elided_words[] = {"ask", "random", "zeros", NULL};
static const char *const vintage_words[] = {
#define VINTAGE(id, name, ...) name,
#include "core/text/vintage.def"
#undef VINTAGE
    NULL};
static const char *const *words_of(setting_kind k) {
  return k == SET_ELIDED ? elided_words : k == SET_VINTAGE ? vintage_words : NULL;
}
static const setting settings[] = {
    {"threads", SET_U32, AT(threads), 0, 4096, "threads of compiled code; 0: all cores"},
    {"seed", SET_U64, AT(seed), 0, 9e15, "of random inputs and of values for elided constants"},
    {"deadline", SET_NUMBER, AT(deadline), 0, 1e9,
     "seconds for one compile, run or picture; 0: none"},
    {"abs_error", SET_NUMBER, AT(abs_error), 0, 1e300,
     "tolerance of check: a mismatch exceeds both"},
    {"rel_error", SET_NUMBER, AT(rel_error), 0, 1e300,
     "tolerance of check: a mismatch exceeds both"},
    {"elided", SET_ELIDED, AT(elided), 0, 0, "constants printed as {...}: ask, random or zeros"},
    {"vintage", SET_VINTAGE, AT(vintage), 0, 0,
     "whose text print writes: current, or an older XLA"},
    {"verify", SET_BOOL, AT(verify), 0, 1, "verify what each pass touched"},
    {"denormals", SET_BOOL, AT(keep_denormals), 0, 1,
     "keep denormals in the evaluator (XLA:CPU flushes them)"},
    {"fallback", SET_BOOL, AT(allow_fallback), 0, 1, "let the evaluator do what a backend cannot"},
    {"keep_going", SET_BOOL, AT(keep_going), 0, 1, "a failing command does not end a script"},
    {"metadata", SET_BOOL, AT(metadata), 0, 1, "print and extract with metadata"},
    {"backend_config", SET_BOOL, AT(backend_config), 0, 1, "print and draw with backend configs"},
    {"fusions", SET_BOOL, AT(show_fusions), 0, 1, "draw the bodies of fusions"},
    {"memory_limit", SET_NUMBER, AT(memory_limit), 0, 1e18,
     "bytes that a run may need (8G, 12Gi); 0: what the machine has"},
    {"capture", SET_TEXT, AT(capture), 0, sizeof((repl_settings *)0)->capture,
     "instructions whose values every run keeps: a glob such as dot.*; off: none"},
    {"pager", SET_BOOL, AT(pager), 0, 1, "long output goes through $PAGER or less"},
};
const u32 repl_setting_count = HS_COUNT(settings);
const char *repl_setting_name(u32 k) { return settings[k].name; }

static void value_text(const repl_session *s, const setting *t, char out[40]) {
  const char *p = (const char *)&s->set + t->at;
  switch (t->kind) {
  case SET_BOOL: snprintf(out, 40, "%s", *(const bool *)p ? "on" : "off"); break;
  case SET_U32: snprintf(out, 40, "%u", *(const u32 *)(const void *)p); break;
  case SET_U64: snprintf(out, 40, "%llu", (unsigned long long)*(const u64 *)(const void *)p); break;
  case SET_NUMBER: snprintf(out, 40, "%g", *(const double *)(const void *)p); break;
  case SET_TEXT: snprintf(out, 40, "%s", *p ? p : "off"); break;
  case SET_ELIDED:
  case SET_VINTAGE:
    snprintf(out, 40, "%s", words_of(t->kind)[*(const u32 *)(const void *)p]);
    break;
  }
}

static bool switch_word(const char *w, bool *out) {
  static const char *const yes[] = {"on", "true", "yes", "1"}, *const no[] = {"off", "false", "no",
                                                                              "0"};
  for (size_t k = 0; k < HS_COUNT(yes); k++) {
    if (strcmp(w, yes[k]) == 0) {
      *out = true;
      return true;
    }
    if (strcmp(w, no[k]) == 0) {
      *out = false;
      return true;
    }
  }
  return false;
}

static hs_status store(repl_session *s, const setting *t, const char *value) {
  char *p = (char *)&s->set + t->at;
  bool b;
  double v;
  if (t->kind == SET_BOOL)
    return switch_word(value, &b)
               ? (*(bool *)p = b, HS_GOOD)
               : hs_fail(HS_E_USAGE, "set %s: on or off, not \"%s\"", t->name, value);
  if (t->kind == SET_TEXT) {
    if (strlen(value) >= (size_t)t->most)
      return hs_fail(HS_E_LIMIT, "set %s: longer than %g bytes", t->name, t->most - 1);
    bool off = strcmp(value, "off") == 0 || strcmp(value, "none") == 0;
    memcpy(p, off ? "" : value, off ? 1 : strlen(value) + 1);
    return HS_GOOD;
  }
  const char *const *words = words_of(t->kind);
  if (words) {
    hs_buf all = {0};
    for (u32 k = 0; words[k]; k++) {
      if (strcmp(value, words[k]) == 0) return *(u32 *)(void *)p = k, hs_buf_free(&all), HS_GOOD;
      hs_buf_printf(&all, "%s%s", k ? ", " : "", words[k]);
    }
    hs_status bad =
        hs_fail(HS_E_USAGE, "set %s: one of %s, not \"%s\"", t->name, hs_buf_cstr(&all), value);
    hs_buf_free(&all);
    return bad;
  }
  if (!repl_number(value, &v) || !(v >= t->least && v <= t->most) ||
      (t->kind != SET_NUMBER && v != floor(v)))
    return hs_fail(HS_E_USAGE, "set %s: a %snumber from %g to %g, not \"%s\"", t->name,
                   t->kind == SET_NUMBER ? "" : "whole ", t->least, t->most, value);
  if (t->kind == SET_U32) *(u32 *)(void *)p = (u32)v;
  else if (t->kind == SET_U64) *(u64 *)(void *)p = (u64)v;
  else *(double *)(void *)p = v;
  return HS_GOOD;
}

// - and _ are alike in the names.
bool repl_is_setting(const char *name, size_t n, u32 k) {
  if (strlen(settings[k].name) != n) return false;
  for (size_t j = 0; j < n; j++)
    if (settings[k].name[j] != name[j] && !(settings[k].name[j] == '_' && name[j] == '-'))
      return false;
  return true;
}

static hs_status find_setting(const char *name, const setting **out) {
  const char *names[HS_COUNT(settings)];
  for (size_t k = 0; k < HS_COUNT(settings); k++) {
    names[k] = settings[k].name;
    if (repl_is_setting(name, strlen(name), (u32)k)) {
      *out = &settings[k];
      return HS_GOOD;
    }
  }
  hs_status s = hs_fail(HS_E_USAGE, "set: there is no setting %s", name);
  const char *near = hs_nearest(name, names, HS_COUNT(names));
  return near ? hs_with_note(s, "did you mean %s?", near) : hs_with_note(s, "set lists them");
}

hs_status repl_set(repl_session *s, const char *name, const char *value) {
  const setting *t;
  HS_TRY(find_setting(name, &t));
  return store(s, t, value);
}

static void say_setting(repl_cmd *c, repl_json *j, const setting *t, bool full) {
  char v[40];
  value_text(c->s, t, v);
  if (!c->doc) repl_say(c->out, full ? "%-15s %-8s %s\n" : "%s = %s\n", t->name, v, t->summary);
  repl_json_str(j, t->name, v);
}

hs_status cmd_set(repl_cmd *c) {
  repl_json *j = repl_json_object(c->doc, "settings");
  const char *name = repl_arg(c, 0), *value = repl_arg(c, 1);
  if (!name) {
    for (size_t k = 0; k < HS_COUNT(settings); k++) say_setting(c, j, &settings[k], true);
    repl_say_flags(c, j);
    return HS_GOOD;
  }
  if (strncmp(name, "xla.", 4) == 0) return repl_set_flag(c, j, name + 4, value);
  const setting *t;
  HS_TRY(find_setting(name, &t));
  if (value) return store(c->s, t, value);
  say_setting(c, j, t, false);
  return HS_GOOD;
}

static hs_status toggle(repl_cmd *c, const char *name) {
  const char *state = repl_arg(c, 0);
  const setting *t;
  HS_TRY(find_setting(name, &t));
  if (state) HS_TRY(store(c->s, t, state));
  char v[40];
  value_text(c->s, t, v);
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
    return HS_GOOD;
  }
  size_t n = strcspn(p, " =\t");
  const char *text = p + n + strspn(p + n, " \t");
  if (*text != '=') return repl_usage_error(c, "alias NAME = COMMANDS");
  text++;
  text += strspn(text, " \t");
  char *name = hs_arena_strndup(c->scratch, p, n);
  const repl_command *taken = repl_command_find(name);
  if (!n || (taken && !(taken->needs & REPL_HIDDEN)))
    return repl_usage_error(c, "%s is a command and cannot be an alias",
                            n ? name : "an empty name");
  if (hlo_op_find(hs_str_of(name)))
    return repl_usage_error(c, "%s is an opcode and cannot be an alias", name);
  // The text may stand in quotes, to hold semicolons.
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

static bool openable(const char *path) { return access(path, R_OK) == 0; }

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
    snprintf(text, sizeof text, "%.100s", hs_ok(s) ? "usable" : s.err->message);
    char name[32];
    snprintf(name, sizeof name, "backend %s", backend_table[k]->name);
    row(c, list, name, hs_ok(s), text, hs_ok(s) ? NULL : s.err->note);
    hs_status_drop(s);
  }
  snprintf(text, sizeof text, "%ld online", sysconf(_SC_NPROCESSORS_ONLN));
  row(c, list, "cpu cores", true, text, NULL);
  bool gpu = openable("/dev/nvidiactl");
  row(c, list, "gpu", gpu,
      gpu ? "an NVIDIA device is there" : "none (estimates for GPUs work all the same)", NULL);
  struct winsize ws;
  bool tty = isatty(STDOUT_FILENO);
  if (tty && ioctl(STDOUT_FILENO, TIOCGWINSZ, &ws) == 0)
    snprintf(text, sizeof text, "%ux%u, colours %s", ws.ws_col, ws.ws_row,
             c->s->color ? "on" : "off");
  else snprintf(text, sizeof text, "standard output is not a terminal");
  row(c, list, "terminal", true, text, NULL);
  return HS_GOOD;
}
