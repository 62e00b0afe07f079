// complete.c: the candidates of completion. The kind of a word comes from the command's argument
// spec (FILE, X, PASS, ...), so a new command has completion with its row.
//
// Names are matched by prefix in one traversal of the module that ends at a limit; with 100,000
// instructions that takes less than 30 ms.
#include "core/base/visible.h"
#include "repl/shell/command.h"
#include "repl/shell/line.h"
#include "repl/shell/settings.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

#define MOST 2000

typedef struct offer {
  hs_arena *a;
  const char *prefix;
  size_t n;
  bool quoted;  // the word is within quotes, where a blank is no end of it
  HS_VEC(const char *) v;
} offer;

static void add(offer *o, const char *word) {
  if (o->v.n < MOST && strncmp(word, o->prefix, o->n) == 0) hs_vec_push(&o->v, word);
}

static void add_commands(offer *o, const repl_session *s) {
  for (u32 k = 0; k < s->ncommands; k++)
    if (!(s->commands[k].needs & REPL_HIDDEN)) add(o, s->commands[k].name);
  for (size_t k = 0; k < s->aliases.n; k++) add(o, s->aliases.v[k].name);
}

static void add_objects(offer *o, const repl_session *s) {
  if (!s->current) return;
  bool percent = o->prefix[0] == '%';
  if (o->n && s->current->m->entry && s->current->m->entry->root) add(o, "root");
  const char *want = o->prefix + percent;
  size_t n = o->n - percent;
  hlo_for_each_comp(c, s->current->m) {
    if (strncmp(c->name, want, n) == 0 && o->v.n < MOST) hs_vec_push(&o->v, c->name);
    hlo_for_each_instr(i, c) {
      if (o->v.n >= MOST) return;
      if (strncmp(i->name, want, n) == 0) hs_vec_push(&o->v, i->name);
    }
  }
  if (!percent) return;
  for (size_t k = 0; k < o->v.n; k++) {
    size_t len = strlen(o->v.v[k]);
    char *w = hs_arena_alloc(o->a, len + 2);
    w[0] = '%';
    memcpy(w + 1, o->v.v[k], len + 1);
    o->v.v[k] = w;
  }
}

static void add_computations(offer *o, const repl_session *s) {
  if (!s->current) return;
  hlo_for_each_comp(c, s->current->m) add(o, c->name);
}

static void add_loops(offer *o, const repl_session *s) {
  if (!s->current) return;
  hlo_for_each_comp(c, s->current->m) {
    hlo_for_each_instr(i, c) {
      if (i->opcode == HLO_WHILE) add(o, i->name);
    }
  }
}

// A file's name as a word of a line, and back: a backslash precedes what would end it.
static const char *as_word(offer *o, const char *name) {
  if (o->quoted) return name;
  hs_buf b = {0};
  for (; *name; name++) {
    if (strchr(REPL_ESCAPED, *name)) hs_buf_putc(&b, '\\');
    hs_buf_putc(&b, *name);
  }
  const char *word = hs_arena_strndup(o->a, b.p ? b.p : "", b.n);
  hs_buf_free(&b);
  return word;
}
static const char *of_word(offer *o) {
  char *name = hs_arena_strndup(o->a, o->prefix, o->n), *to = name;
  for (const char *p = name; *p; p++) {
    if (!o->quoted && *p == '\\' && p[1] && strchr(REPL_ESCAPED, p[1])) p++;
    *to++ = *p;
  }
  *to = 0;
  return name;
}

static void add_files(offer *o) {
  const char *prefix = of_word(o), *slash = strrchr(prefix, '/');
  size_t dir_n = slash ? (size_t)(slash - prefix) + 1 : 0;
  char *dir = hs_arena_strndup(o->a, prefix, dir_n);
  const char *home = getenv("HOME");
  char *open_as = dir_n == 0                               ? hs_strdup(".")
                  : dir[0] == '~' && dir[1] == '/' && home ? hs_format("%s%s", home, dir + 1)
                                                           : hs_strdup(dir);
  DIR *d = opendir(open_as);
  for (struct dirent *e; d && (e = readdir(d)) != NULL;) {
    if (e->d_name[0] == '.' && prefix[dir_n] != '.') continue;
    if (strncmp(e->d_name, prefix + dir_n, strlen(prefix + dir_n)) != 0) continue;
    char *full = hs_format("%s/%s", open_as, e->d_name);
    struct stat st;
    bool folder = stat(full, &st) == 0 && S_ISDIR(st.st_mode);
    hs_free(full);
    hs_buf b = {0};
    hs_buf_printf(&b, "%s%s%s", dir, e->d_name, folder ? "/" : "");
    if (o->v.n < MOST) hs_vec_push(&o->v, as_word(o, hs_arena_strndup(o->a, b.p, b.n)));
    hs_buf_free(&b);
  }
  if (d) closedir(d);
  hs_free(open_as);
}

// Sources of arguments: PARAMETER=, words, files.
static void add_sources(offer *o, const repl_session *s) {
  static const char *const words[] = {"random", "zeros",    "ones", "iota",
                                      "normal", "snapshot", "save"};
  for (size_t k = 0; k < HS_COUNT(words); k++) add(o, words[k]);
  bool percent = o->prefix[0] == '%';
  const hlo_computation *e = s->current ? s->current->m->entry : NULL;
  for (u32 k = 0; e && k < e->nparams; k++) {
    char *w = hs_format("%s%s=", percent ? "%" : "", e->params[k]->name);
    add(o, hs_arena_strndup(o->a, w, strlen(w)));
    hs_free(w);
  }
  add_files(o);
}

// Dimensions of parameters, "x.0"; equals: with what is to follow them, "x.0=".
static void add_dimensions(offer *o, const repl_session *s, bool equals) {
  const hlo_computation *e = s->current ? s->current->m->entry : NULL;
  for (u32 k = 0; e && k < e->nparams; k++)
    for (u32 d = 0; d < e->params[k]->shape->rank; d++) {
      char *w = hs_format("%s.%u%s", e->params[k]->name, d, equals ? "=" : "");
      add(o, hs_arena_strndup(o->a, w, strlen(w)));
      hs_free(w);
    }
}

static void add_versions(offer *o, const repl_session *s) {
  for (size_t k = 0; s->current && k < s->current->versions.n; k++) {
    const repl_version *v = s->current->versions.v[k];
    char number[16];
    snprintf(number, sizeof number, "%u", v->number);
    add(o, hs_arena_strndup(o->a, number, strlen(number)));
    if (v->mark) add(o, v->mark);
  }
}

// Passes and pipelines; after "PASS{" the options of that pass.
static void add_passes(offer *o, const repl_session *s) {
  size_t name = strcspn(o->prefix, "{");
  const pass_info *p =
      o->prefix[name] ? pass_find(s->passes, hs_arena_strndup(o->a, o->prefix, name)) : NULL;
  if (p) {
    for (u32 k = 0; k < p->noptions; k++) {
      char *w = hs_format("%.*s{%s=", (int)name, o->prefix, p->options[k].name);
      add(o, hs_arena_strndup(o->a, w, strlen(w)));
      hs_free(w);
    }
    return;
  }
  for (u32 k = 0; k < s->passes->npasses; k++) add(o, s->passes->passes[k]->name);
  for (u32 k = 0; k < s->passes->npipelines; k++) add(o, s->passes->pipelines[k].name);
  for (size_t k = 0; k < s->pipelines.n; k++) add(o, s->pipelines.v[k].name);
  add(o, "fix(");
}

// What stepping can stop at: our passes, or those in the history of a dump.
static void add_steps(offer *o, const repl_session *s) {
  for (u32 k = 0; k < s->passes->npasses; k++) add(o, s->passes->passes[k]->name);
  for (size_t k = 0; s->current && k < s->current->versions.n; k++) {
    const repl_version *v = s->current->versions.v[k];
    bool known = !v->stepped || !v->log.n || pass_find(s->passes, v->log.v[0].pass) != NULL;
    for (size_t j = 0; j < o->v.n && !known; j++) known = strcmp(o->v.v[j], v->log.v[0].pass) == 0;
    if (!known) add(o, v->log.v[0].pass);
  }
}

static void add_words(offer *o, const char *words) {
  for (const char *p = words; *p;) {
    size_t n = strcspn(p, " ");
    add(o, hs_arena_strndup(o->a, p, n));
    p += n + (p[n] == ' ');
  }
}

// The values of the setting that a word names: "on|off".
static void add_values(offer *o, const char *name, size_t n) {
  for (u32 k = 0; k < repl_setting_count; k++) {
    if (!repl_is_setting(name, n, k)) continue;
    for (const char *p = repl_setting_words(k); *p;) {
      size_t len = strcspn(p, "|");
      add(o, hs_arena_strndup(o->a, p, len));
      p += len + (p[len] == '|');
    }
  }
}

// Words that a command accepts in addition to its spec: as the first one, after another word, or
// (after "*") anywhere but first. kind: what is offered there instead of the spec's kind; NULL: the
// spec's.
#define CONDITIONS "mismatch nan crash verify slower bigger"
static const struct special {
  const char *command, *behind, *words, *kind;
} specials[] = {{"pipeline", "", "show define", NULL},
                {"pipeline", "*", "", "PIPELINE"},
                {"bisect", "", "passes history xla-passes " CONDITIONS, NULL},
                {"bisect", "passes", "", "PIPELINE"},
                {"bisect", ",", "", "PIPELINE"},
                {"until", "", "changed verify-fails", NULL},
                {"until", "changed", "", "X"},
                {"break", "", "changed verify-fails delete", NULL},
                {"break", "changed", "", "X"},
                {"break", "delete", "all", ""},
                {"watch", "", "delete", NULL},
                {"watch", "delete", "all", ""},
                {"why", "*", "not fused with folded aliased this layout", NULL},
                {"help", "pass", "", "PASS"},
                {"time-passes", "*", "", "PIPELINE"},
                {"src", "", "", "X"},
                {"cache", "", "clear", NULL},
                {"customcall", "", "load unload", NULL},
                {"mark", "", "", "VERSION"},
                {"trips", "", "", "LOOP"},
                {"memory", "", "buffers peak timeline donation recompute xla", ""}};

// The kind of word number k, which follows the word `behind` ("," when only a comma is between
// them); adds the special words.
static const char *special_kind(offer *o, const char *command, u32 k, const char *behind,
                                const char *kind) {
  for (size_t j = 0; j < HS_COUNT(specials); j++) {
    const struct special *x = &specials[j];
    if (strcmp(x->command, command) != 0 || (*x->behind == '*' ? k == 0
                                             : *x->behind      ? strcmp(x->behind, behind) != 0
                                                               : k > 0))
      continue;
    add_words(o, x->words);
    if (x->kind) kind = x->kind;
  }
  return kind;
}

static void add_kind(offer *o, const repl_session *s, const char *kind) {
  if (strcmp(kind, "FILE") == 0 || strcmp(kind, "DIR") == 0 || strcmp(kind, "FILE|DIR") == 0)
    add_files(o);
  else if (strcmp(kind, "X") == 0 || strcmp(kind, "A") == 0 || strcmp(kind, "B") == 0 ||
           strcmp(kind, "REST") == 0 || strcmp(kind, "NAME") == 0 || strcmp(kind, "PATTERN") == 0)
    add_objects(o, s);
  else if (strcmp(kind, "COMPUTATION") == 0) add_computations(o, s);
  else if (strcmp(kind, "LOOP") == 0) add_loops(o, s);
  else if (strcmp(kind, "SOURCE") == 0) add_sources(o, s);
  else if (strncmp(kind, "PARAM.DIM", 9) == 0) add_dimensions(o, s, kind[9] == '=');
  else if (strcmp(kind, "TYPE") == 0) {
    for (hlo_dtype t = 1; t < HLO_DTYPE_COUNT; t++)
      if (hlo_dtype_is_array(t)) add(o, hlo_dtype_text(t));
  } else if (strcmp(kind, "PASS") == 0 || strcmp(kind, "PIPELINE") == 0) add_passes(o, s);
  else if (strcmp(kind, "WHEN") == 0) add_steps(o, s);
  else if (strcmp(kind, "CONDITION") == 0) add_words(o, CONDITIONS);
  else if (strcmp(kind, "BACKEND") == 0)
    for (u32 k = 0; k < backend_count; k++) add(o, backend_table[k]->name);
  else if (strcmp(kind, "TARGET") == 0) {
    for (u32 k = 0; k < prof_device_count; k++) add(o, prof_devices[k].name);
    add_files(o);
  } else if (strcmp(kind, "BACKEND|DIR") == 0) {
    for (u32 k = 0; k < backend_count; k++) add(o, backend_table[k]->name);
    add_files(o);
  } else if (strcmp(kind, "VERSION") == 0) add_versions(o, s);
  else if (strcmp(kind, "MODULE") == 0)
    for (size_t k = 0; k < s->modules.n; k++) add(o, s->modules.v[k]->m->name);
  else if (strcmp(kind, "STATE") == 0) add(o, "on"), add(o, "off");
  else if (strcmp(kind, "EXAMPLE") == 0)
    for (u32 k = 0; k < repl_example_count; k++) add(o, repl_examples[k].name);
  else if (strcmp(kind, "SETTING") == 0)
    for (u32 k = 0; k < repl_setting_count; k++) add(o, repl_setting_name(k));
  else if (strcmp(kind, "CODE") == 0)
    for (int k = 1; k < HS_CODE_COUNT; k++) add(o, hs_code_text((hs_code)k));
  else if (strcmp(kind, "VIEW") == 0) {
    static const char *const views[] = {"module", "cost",    "memory", "kernels",
                                        "ptx",    "disable", "enable", "disabled"};
    for (size_t k = 0; k < HS_COUNT(views); k++) add(o, views[k]);
  } else if (strcmp(kind, "WHOSE") == 0) add(o, "xla");
  else if (strcmp(kind, "WHAT") == 0) {
    static const char *const dumps[] = {"llvm",      "asm",     "ptx",     "sass",
                                        "resources", "buffers", "schedule"};
    for (size_t k = 0; k < HS_COUNT(dumps); k++) add(o, dumps[k]);
  } else if (strcmp(kind, "QUERY") == 0 || strcmp(kind, "OPCODE") == 0)
    for (int k = 1; k < HLO_OPCODE_COUNT; k++) add(o, hlo_op_text((hlo_opcode)k));
  else if (strcmp(kind, "WORD") == 0) {
    add_commands(o, s);
    for (u32 k = 0; k < s->passes->npasses; k++) add(o, s->passes->passes[k]->name);
  }
}

// Option names of the command: "--long", "-o".
static void add_options(offer *o, const char *spec) {
  for (const char *p = spec; *p;) {
    size_t n = strcspn(p, " ");
    if (*p == '-') {
      size_t name = HS_MIN(n, strcspn(p, "="));
      add(o, hs_arena_strndup(o->a, p, name + (p[name] == '=' && name > 2)));
    }
    p += n;
    p += strspn(p, " ");
  }
}

// Values of "--opt=" words: backends, targets and the like come from the word after '='.
static bool add_option_value(offer *o, const repl_session *s, const char *spec) {
  const char *eq = memchr(o->prefix, '=', o->n);
  if (!eq) return false;
  size_t name = (size_t)(eq - o->prefix) + 1;
  const char *at = strstr(spec, hs_arena_strndup(o->a, o->prefix, name));
  if (!at) return true;
  const char *kind = hs_arena_strndup(o->a, at + name, strcspn(at + name, " "));
  offer value = {.a = o->a, .prefix = o->prefix + name, .n = o->n - name};
  if (strchr(kind, '|') && strncmp(kind, "FILE", 4) != 0) {
    for (const char *p = kind; *p;) {
      size_t n = strcspn(p, "|");
      add(&value, hs_arena_strndup(o->a, p, n));
      p += n + (p[n] == '|');
    }
  } else {
    add_kind(&value, s, kind);
  }
  for (size_t k = 0; k < value.v.n; k++) {
    hs_buf b = {0};
    hs_buf_put(&b, o->prefix, name);
    hs_buf_puts(&b, value.v.v[k]);
    hs_vec_push(&o->v, hs_arena_strndup(o->a, b.p, b.n));
    hs_buf_free(&b);
  }
  hs_vec_free(&value.v);
  return true;
}

// The word before the one at `start`, from b on; "," when only a comma or parenthesis is between.
static const char *word_behind(hs_arena *a, const char *line, size_t b, size_t start) {
  size_t e = start, from;
  while (e > b && strchr(" \t\"'", line[e - 1])) e--;
  for (from = e; from > b && !strchr(" \t,(", line[from - 1]);) from--;
  return e > b && strchr(",(", line[e - 1]) ? "," : hs_arena_strndup(a, line + from, e - from);
}

// Whether a file follows that word: after `>`, and after -o.
static bool takes_file(const repl_command *c, const char *behind) {
  size_t n = strlen(behind);
  return (n && behind[n - 1] == '>') ||
         (c && strcmp(behind, "-o") == 0 && strstr(c->spec, "-o=FILE"));
}

const char **repl_complete(const repl_session *s, hs_arena *a, const char *line, size_t start,
                           size_t end, u32 *n) {
  offer o = {.a = a,
             .prefix = hs_arena_strndup(a, line + start, end - start),
             .n = end - start,
             .quoted = start > 0 && strchr("\"'", line[start - 1])};
  // The command of this segment: everything since the last `;`.
  size_t b = start;
  while (b > 0 && line[b - 1] != ';') b--;
  while (b < start && (line[b] == ' ' || line[b] == '\t')) b++;
  if (b == start) {
    add_commands(&o, s);
    if (o.n) add_objects(&o, s);
  } else {
    size_t rest;
    hs_str w = repl_first_word((hs_str){line + b, start - b}, &rest);
    const repl_command *c = repl_command_find(s, hs_arena_strndup(a, w.p, w.n));
    u32 k = 0;
    for (size_t i = b + rest; i < start;) {
      size_t len = strcspn(line + i, " \t,");
      if (i + len >= start) break;
      if (len && line[i] != '-') k++;
      i += len + 1;
    }
    const char *kind = c ? repl_spec_pos(a, c->spec, k) : "X",
               *behind = word_behind(a, line, b, start);
    if (c && o.n && o.prefix[0] == '-') {
      if (!add_option_value(&o, s, c->spec)) add_options(&o, c->spec);
    } else if (takes_file(c, behind)) {
      add_files(&o);
    } else if (kind) {
      add_kind(&o, s, c ? special_kind(&o, c->name, k, behind, kind) : kind);
      if (k == 1 && strcmp(kind, "VALUE") == 0) add_values(&o, behind, strlen(behind));
    }
  }
  // What cannot be shown is not offered: the terminal would get it as it is.
  size_t kept = 0;
  for (size_t k = 0; k < o.v.n; k++)
    if (hs_is_visible(o.v.v[k], strlen(o.v.v[k]), HS_ONE_LINE)) o.v.v[kept++] = o.v.v[k];
  o.v.n = kept;
  *n = (u32)o.v.n;
  const char **out = *n ? hs_arena_dup(a, o.v.v, o.v.n * sizeof *o.v.v) : NULL;
  hs_vec_free(&o.v);
  return out;
}
