// compat.c — the table of tools, and reading their command lines. See compat.h.
#include "repl/compat/compat.h"

#include <stdio.h>

// One array of rows: a tool's flags follow it.
static const struct row {
  const char *tool;
  compat_flag flag;
} rows[] = {
#define TOOL(id, name, files, summary, by)
#define FLAG(tool, name, kind, meaning) {#tool, {name, COMPAT_##kind, meaning}},
#include "repl/compat/compat.def"
#undef TOOL
#undef FLAG
};
static compat_flag flags_of[HS_COUNT(rows)];
static compat_tool tools[] = {
#define TOOL(id, name, files, summary, by) {name, files, summary, by, NULL, 0, compat_##id},
#define FLAG(tool, name, kind, meaning)
#include "repl/compat/compat.def"
#undef TOOL
#undef FLAG
};
static const char *const ids[] = {
#define TOOL(id, name, files, summary, by) #id,
#define FLAG(tool, name, kind, meaning)
#include "repl/compat/compat.def"
#undef TOOL
#undef FLAG
};

// Links each tool to its rows, once.
static void link_flags(void) {
  if (tools[0].flags) return;
  for (size_t k = 0; k < HS_COUNT(rows); k++) flags_of[k] = rows[k].flag;
  for (size_t t = 0; t < HS_COUNT(tools); t++)
    for (size_t k = 0; k < HS_COUNT(rows); k++) {
      if (strcmp(rows[k].tool, ids[t]) != 0) continue;
      if (!tools[t].flags) tools[t].flags = &flags_of[k];
      tools[t].nflags++;
    }
}

static bool same_name(const char *a, const char *b) {
  for (; *a && *b; a++, b++)
    if (*a != *b && !((*a == '-' || *a == '_') && (*b == '-' || *b == '_'))) return false;
  return !*a && !*b;
}

const compat_tool *compat_find(int argc, char **argv, int *skip) {
  link_flags();
  const char *name = argc ? argv[0] : "", *slash = strrchr(name, '/');
  if (slash) name = slash + 1;
  *skip = 0;
  for (size_t t = 0; t < HS_COUNT(tools); t++)
    if (same_name(name, tools[t].name)) return &tools[t];
  *skip = 1;
  for (size_t t = 0; argc > 1 && t < HS_COUNT(tools); t++)
    if (same_name(argv[1], tools[t].name)) return &tools[t];
  *skip = 0;
  return NULL;
}

// ---- help ---------------------------------------------------------------------------------------
static void print_help(const compat_tool *t) {
  printf("%s: %s\nusage: %s [FLAGS] %s\n\n", t->name, t->summary, t->name, t->files);
  for (u32 k = 0; k < t->nflags; k++) {
    const compat_flag *f = &t->flags[k];
    char *left = hs_format("--%s%s", f->name, f->kind == COMPAT_VALUE ? "=VALUE" : "");
    printf("  %-34s %s%s\n", left, f->kind == COMPAT_REFUSED ? "not here: " : "", f->meaning);
    hs_free(left);
  }
  printf("  %-34s XLA's flags; those that dump and that disable passes act\n", "--xla_...");
  printf("\nThis is hlosh; its commands for this are %s.\n", t->by);
}

// ---- reading ------------------------------------------------------------------------------------
static int fail(const compat_tool *t, const char *what, const char *flag, const char *note) {
  repl_complain("%s: %s %s", t->name, what, flag);
  if (note) repl_complain("  note: %s", note);
  return 1;
}

static int unknown(const compat_tool *t, const char *arg) {
  const char *names[64];
  u32 n = 0;
  for (u32 k = 0; k < t->nflags && n < HS_COUNT(names); k++) names[n++] = t->flags[k].name;
  char *word = hs_format("%.*s", (int)strcspn(arg, "="), arg);
  const char *near = hs_nearest(word, names, n);
  char *note = near ? hs_format("did you mean --%s?", near)
                    : hs_format("%s --help lists the flags", t->name);
  int code = fail(t, "there is no flag", arg, note);
  hs_free(note);
  hs_free(word);
  return code;
}

static int take_flag(const compat_tool *t, const char *arg, const char *next, compat_args *out,
                     bool *took_next) {
  size_t n = strcspn(arg, "=");
  for (u32 k = 0; k < t->nflags; k++) {
    const compat_flag *f = &t->flags[k];
    char *name = hs_format("%.*s", (int)n, arg);
    bool it = same_name(name, f->name);
    hs_free(name);
    if (!it) continue;
    if (f->kind == COMPAT_REFUSED) {
      char *what = hs_format("--%s is not done here:", f->name);
      repl_complain("%s: %s", t->name, what);
      repl_complain("  note: %s", f->meaning);
      hs_free(what);
      return 1;
    }
    out->values[k] = arg[n] ? arg + n + 1 : "";
    if (f->kind == COMPAT_VALUE && !arg[n]) {
      if (!next) return fail(t, "nothing after", f->name, NULL);
      out->values[k] = next;
      *took_next = true;
    }
    const char *v = out->values[k];
    if (f->kind == COMPAT_SWITCH && *v && strcmp(v, "true") && strcmp(v, "false") &&
        strcmp(v, "1") && strcmp(v, "0"))
      return fail(t, "true or false, not", v, NULL);
    return -1;
  }
  return unknown(t, arg);
}

int compat_parse(const compat_tool *t, int argc, char **argv, compat_args *out,
                 repl_xla_flags *xla) {
  *out = (compat_args){.values = hs_calloc(t->nflags + 1, sizeof *out->values)};
  bool only_files = false;
  for (int k = 1; k < argc; k++) {
    const char *a = argv[k];
    if (only_files || a[0] != '-' || !a[1]) {
      hs_vec_push(&out->files, a);
      continue;
    }
    const char *name = a + 1 + (a[1] == '-');
    if (!*name) {
      only_files = true;
    } else if (strcmp(name, "help") == 0 || strcmp(name, "h") == 0) {
      print_help(t);
      return fflush(stdout) == 0 ? 0 : 3;
    } else {
      bool took = false, known = false;
      for (u32 f = 0; f < t->nflags; f++)
        known |= strncmp(name, t->flags[f].name, strlen(t->flags[f].name)) == 0;
      if (strncmp(name, "xla_", 4) == 0 && !known) {
        hs_status s = xla_flags_take(xla, a);
        if (hs_ok(s)) continue;
        int code = fail(t, s.err->message, "", NULL);
        hs_status_drop(s);
        return code;
      }
      int code = take_flag(t, name, k + 1 < argc ? argv[k + 1] : NULL, out, &took);
      if (code >= 0) return code;
      k += took;
    }
  }
  return -1;
}

void compat_args_free(compat_args *a) {
  hs_free(a->values);
  hs_vec_free(&a->files);
}

const char *compat_value(const compat_tool *t, const compat_args *a, const char *flag) {
  for (u32 k = 0; k < t->nflags; k++)
    if (strcmp(t->flags[k].name, flag) == 0) return a->values[k];
  return NULL;
}

bool compat_on(const compat_tool *t, const compat_args *a, const char *flag, bool absent) {
  const char *v = compat_value(t, a, flag);
  return v ? !*v || strcmp(v, "true") == 0 || strcmp(v, "1") == 0 : absent;
}
