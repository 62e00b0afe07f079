// xla_flags.c — see xla_flags.h.
#include "repl/debug/xla_flags.h"

#include <ctype.h>

static const struct flag_row {
  const char *name;
  bool is_switch;
} rows[] = {
#define SWITCH true
#define VALUE false
#define XLA_FLAG(id, kind, meaning) {#id, kind},
#include "repl/debug/xla_flags.def"
#undef XLA_FLAG
#undef SWITCH
#undef VALUE
};

static bool is_true(const char *v) { return !*v || !strcmp(v, "true") || !strcmp(v, "1"); }
static bool is_false(const char *v) { return !strcmp(v, "false") || !strcmp(v, "0"); }

static hs_status put(repl_xla_flags *f, const char *name, size_t n, const char *value) {
  xla_flag flag = {.name = hs_arena_strndup(&f->arena, name, n),
                   .value = hs_arena_strndup(&f->arena, value, strlen(value)),
                   .id = -1};
  for (size_t k = 0; k < HS_COUNT(rows); k++)
    if (strcmp(rows[k].name, flag.name) == 0) flag.id = (i32)k;
  if (flag.id >= 0 && rows[flag.id].is_switch && !is_true(value) && !is_false(value))
    return hs_fail(HS_E_USAGE, "--xla_%s is true or false, not \"%s\"", flag.name, value);
  for (size_t k = 0; k < f->all.n; k++)
    if (strcmp(f->all.v[k].name, flag.name) == 0) return f->all.v[k].value = flag.value, HS_GOOD;
  hs_vec_push(&f->all, flag);
  return HS_GOOD;
}

hs_status xla_flags_take(repl_xla_flags *f, const char *flag) {
  const char *p = flag;
  for (u32 k = 0; k < 2 && *p == '-'; k++) p++;
  if (p == flag || strncmp(p, "xla_", 4) != 0)
    return hs_fail(HS_E_USAGE, "\"%s\" is no flag of XLA", flag);
  p += 4;
  size_t n = strcspn(p, "=");
  return put(f, p, n, p[n] ? p + n + 1 : "");
}

hs_status xla_flags_read(repl_xla_flags *f, const char *text) {
  while (isspace((unsigned char)*text)) text++;
  hs_buf file = {0};
  hs_status s = HS_GOOD;
  if (*text && *text != '-') {
    s = repl_read_file(text, (size_t)1 << 20, &file);
    text = hs_buf_cstr(&file);
  }
  while (hs_ok(s) && *text) {
    while (isspace((unsigned char)*text)) text++;
    if (!*text) break;
    // a value may be quoted: --xla_dump_hlo_pass_re="a b"
    hs_buf word = {0};
    char quote = 0;
    for (; *text && (quote || !isspace((unsigned char)*text)); text++) {
      if (quote && *text == quote) quote = 0;
      else if (!quote && (*text == '"' || *text == '\'')) quote = *text;
      else hs_buf_putc(&word, *text);
    }
    s = xla_flags_take(f, hs_buf_cstr(&word));
    hs_buf_free(&word);
  }
  hs_buf_free(&file);
  return s;
}

hs_status xla_flags_read_options(repl_xla_flags *f, const char *path) {
  hs_buf file = {0};
  hs_status s = repl_read_file(path, (size_t)1 << 20, &file);
  for (const char *p = hs_buf_cstr(&file); hs_ok(s) && *p;) {
    size_t line = strcspn(p, "\n"), n = strcspn(p, ":");
    if (n < line && strncmp(p, "xla_", 4) == 0) {
      const char *v = p + n + 1, *end = p + line;
      while (v < end && *v == ' ') v++;
      while (end > v && isspace((unsigned char)end[-1])) end--;
      if (end - v > 1 && *v == '"' && end[-1] == '"') v++, end--;
      char *value = hs_format("%.*s", (int)(end - v), v);
      s = put(f, p + 4, n - 4, value);
      hs_free(value);
    }
    p += line + (p[line] == '\n');
  }
  hs_buf_free(&file);
  return s;
}

const char *xla_flags_value(const repl_xla_flags *f, xla_flag_id id) {
  for (size_t k = 0; f && k < f->all.n; k++)
    if (f->all.v[k].id == (i32)id) return f->all.v[k].value;
  return NULL;
}

bool xla_flags_on(const repl_xla_flags *f, xla_flag_id id) {
  const char *v = xla_flags_value(f, id);
  return v && is_true(v);
}

// ---- passes that are disabled -------------------------------------------------------------------
static hs_status idle(pass_ctx *c) {
  (void)c;
  return HS_GOOD;
}

static void disable(repl_xla_flags *f, repl_session *s, const char *names, repl_out *out) {
  u32 n = 0;
  f->idle = hs_arena_alloc(&f->arena, (strlen(names) + 1) * sizeof *f->idle);
  for (const char *p = names; *p;) {
    size_t k = strcspn(p, ",");
    const char *name = hs_arena_strndup(&f->arena, p, k);
    const pass_info *real = k ? pass_find(s->passes, name) : NULL;
    if (real) {
      pass_info *copy = hs_arena_dup(&f->arena, real, sizeof *real);
      copy->run = idle;
      f->idle[n++] = copy;
    } else if (k) {
      repl_note(out, "--xla_disable_hlo_passes: there is no pass %s here", name);
    }
    p += k + (p[k] == ',');
  }
  f->filtered = (pass_registry){.passes = f->idle, .npasses = n, .next = s->passes};
  if (n) s->passes = &f->filtered;
}

void xla_flags_apply(repl_xla_flags *f, repl_session *s, repl_out *out) {
  if (!f->all.n) return;
  s->xla_flags = f;
  const char *off = xla_flags_value(f, XLA_FLAG_disable_hlo_passes);
  if (off) disable(f, s, off, out);
  hs_buf unknown = {0};
  for (size_t k = 0; k < f->all.n; k++)
    if (f->all.v[k].id < 0)
      hs_buf_printf(&unknown, "%s--xla_%s", unknown.n ? ", " : "", f->all.v[k].name);
  if (unknown.n)
    repl_note(out, "XLA's flags that mean nothing to hlosh, only to real XLA (backend pjrt): %s",
              hs_buf_cstr(&unknown));
  hs_buf_free(&unknown);
}

void xla_flags_free(repl_xla_flags *f) {
  hs_vec_free(&f->all);
  hs_arena_free(&f->arena);
}

void xla_flags_print(const repl_xla_flags *f, hs_buf *b) {
  // numbers, switches and names of enumerations bare, all else quoted; those of dumps last
  for (u32 dumps = 0; dumps < 2; dumps++)
    for (size_t k = 0; k < f->all.n; k++) {
      const xla_flag *one = &f->all.v[k];
      const char *v = *one->value ? one->value : "true";
      if ((strncmp(one->name, "dump_", 5) == 0) != (dumps == 1)) continue;
      bool bare =
          (one->id < 0 || rows[one->id].is_switch) &&
          v[strspn(v, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_0123456789.-")] == 0;
      hs_buf_printf(b, bare ? "xla_%s: %s\n" : "xla_%s: \"%s\"\n", one->name, v);
    }
}
