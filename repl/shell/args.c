// args.c: the tokenizer and the argument specs. See args.h.
#include "repl/shell/args.h"

#include "profiler/model/prof.h"

#include <ctype.h>
#include <stdlib.h>

static bool blank(char c) {
  return c == ' ' || c == '\t' || c == '\r' || c == '\n' || c == '\f' || c == '\v';
}

bool repl_is_block(const char *p, size_t n) {
  return (n > 5 && memcmp(p, "comp ", 5) == 0) || (n > 8 && memcmp(p, "reducer ", 8) == 0);
}

// Whether `depth` open braces are closed after line[i], not counting those in quotes: on the
// same line, or with `lines` on any.
static bool braces_close(const char *line, size_t n, size_t i, u32 depth, bool lines) {
  char quote = 0;
  for (; i < n && (lines || line[i] != '\n') && depth; i++) {
    char c = line[i];
    if (quote) {
      if (c == '\\' && quote == '"') i++;
      else if (c == quote) quote = 0;
    } else if (c == '\'' || c == '"') quote = c;
    else if (c == '{') depth++;
    else if (c == '}') depth--;
  }
  return depth == 0;
}

// One segment from *at on; *segment is empty after a comment. A `;` between braces is part of it:
// algsimp{a=1;b=2}.
static void split_one(const char *line, size_t n, size_t *at, hs_str *segment) {
  size_t i = *at, begin = i, end = n;
  char quote = 0;
  u32 depth = 0;
  bool block = repl_is_block(line + i, n - i), shell = line[i] == '!',
       comment = line[i] == '#' || (line[i] == '/' && i + 1 < n && line[i + 1] == '/');
  if (comment) end = i;
  for (; i < n; i++) {
    char c = line[i];
    if (shell || comment) {
      if (c == '\n') break;
    } else if (quote) {
      if (c == '\\' && quote == '"' && i + 1 < n) i++;
      else if (c == quote) quote = 0;
    } else if (c == '\'' || c == '"') {
      quote = c;
    } else if (c == '\\' && i + 1 < n) {
      i++;
    } else if (c == '{') {
      depth++;
    } else if (c == '}') {
      depth -= depth > 0;
    } else if (c == ';' && !(depth && braces_close(line, n, i, depth, block))) {
      break;
    } else if (c == '#' && i > begin && blank(line[i - 1])) {
      comment = true;
      end = i;
    }
  }
  end = HS_MIN(end, i);
  while (end > begin && blank(line[end - 1])) end--;
  *at = i < n ? i + 1 : n;
  *segment = (hs_str){line + begin, end - begin};
}

bool repl_split(const char *line, size_t n, size_t *at, hs_str *segment) {
  for (;;) {
    while (*at < n && (blank(line[*at]) || line[*at] == ';')) ++*at;
    if (*at >= n) return false;
    split_one(line, n, at, segment);
    if (segment->n) return true;
  }
}

hs_str repl_first_word(hs_str s, size_t *rest) {
  if (s.n && s.p[0] == '!') {
    *rest = 1;
    return (hs_str){s.p, 1};
  }
  size_t i = 0;
  while (i < s.n && !blank(s.p[i]) && s.p[i] != '|') i++;
  hs_str w = {s.p, i};
  while (i < s.n && blank(s.p[i])) i++;
  *rest = i;
  return w;
}

// ---- specs --------------------------------------------------------------------------------------
typedef struct spec_word {
  hs_str name;
  hs_str arg;
  char mod;
  bool option, raw;
} spec_word;

static bool spec_next(const char **p, spec_word *w) {
  while (blank(**p)) ++*p;
  if (!**p) return false;
  const char *b = *p;
  while (**p && !blank(**p)) ++*p;
  size_t n = (size_t)(*p - b);
  *w = (spec_word){.name = {b, n}};
  if (b[0] == '-') {
    w->option = true;
    const char *eq = memchr(b, '=', n);
    if (eq) w->name.n = (size_t)(eq - b), w->arg = (hs_str){eq + 1, n - w->name.n - 1};
    return true;
  }
  if (n > 3 && memcmp(b, "...", 3) == 0) {
    w->raw = true;
    w->name = (hs_str){b + 3, n - 3};
  }
  char last = w->name.p[w->name.n - 1];
  if (last == '?' || last == '*' || last == '+') w->mod = last, w->name.n--;
  return true;
}

void repl_usage(hs_buf *b, const char *command, const char *spec) {
  hs_buf_puts(b, command);
  spec_word w;
  for (const char *p = spec; spec_next(&p, &w);) {
    bool optional = w.option || w.mod == '?' || w.mod == '*';
    hs_buf_puts(b, optional ? " [" : " ");
    hs_buf_put(b, w.name.p, w.name.n);
    if (w.arg.n) {
      hs_buf_putc(b, w.name.n == 2 ? ' ' : '=');
      hs_buf_put(b, w.arg.p, w.arg.n);
    }
    if (w.mod == '*' || w.mod == '+') hs_buf_puts(b, " ...");
    if (optional) hs_buf_putc(b, ']');
  }
}

const char *repl_spec_pos(hs_arena *a, const char *spec, u32 k) {
  spec_word w, last = {0};
  u32 i = 0;
  for (const char *p = spec; spec_next(&p, &w);) {
    if (w.option) continue;
    last = w;
    if (i++ == k) return hs_arena_strndup(a, w.name.p, w.name.n);
  }
  return last.mod == '*' || last.mod == '+' || last.raw
             ? hs_arena_strndup(a, last.name.p, last.name.n)
             : NULL;
}

static hs_status usage_error(const char *command, const char *spec, const char *what,
                             const char *arg) {
  hs_buf b = {0};
  repl_usage(&b, command, spec);
  hs_status s = hs_fail(HS_E_USAGE, "%s: %s%s%s", command, what, arg ? " " : "", arg ? arg : "");
  s = hs_with_note(s, "usage: %s", hs_buf_cstr(&b));
  hs_buf_free(&b);
  return s;
}

typedef HS_VEC(const char *) words;

// Splits into words; stops at an unquoted `|` or at a word that starts with `>`.
static hs_status tokenize(hs_arena *a, const char *command, hs_str s, words *out, repl_args *args) {
  size_t i = 0;
  hs_buf w = {0};
  hs_status st = HS_GOOD;
  while (i < s.n) {
    while (i < s.n && blank(s.p[i])) i++;
    if (i >= s.n) break;
    if (s.p[i] == '|' || s.p[i] == '>') break;
    w.n = 0;
    char quote = 0;
    for (; i < s.n; i++) {
      char c = s.p[i];
      if (!quote && (blank(c) || c == '|')) break;
      if (!quote && (c == '\'' || c == '"')) {
        quote = c;
        continue;
      }
      if (quote && c == quote) {
        quote = 0;
        continue;
      }
      if (c == '\\' && quote != '\'' && i + 1 < s.n && strchr(REPL_ESCAPED, s.p[i + 1]))
        c = s.p[++i];
      hs_buf_putc(&w, c);
    }
    if (quote) {
      st = hs_fail(HS_E_USAGE, "%s: the quote %c is not closed", command, quote);
      break;
    }
    hs_vec_push(out, hs_arena_strndup(a, w.n ? w.p : "", w.n));
  }
  hs_buf_free(&w);
  HS_TRY(st);
  args->used = i;
  if (i >= s.n) return HS_GOOD;
  args->redirect = s.p[i] == '|' ? REPL_TO_PIPE : REPL_TO_FILE;
  if (s.p[i] == '>' && i + 1 < s.n && s.p[i + 1] == '>') args->redirect = REPL_TO_APPEND, i++;
  i++;
  while (i < s.n && blank(s.p[i])) i++;
  hs_str rest = {s.p + i, s.n - i};
  if (!rest.n)
    return hs_fail(HS_E_USAGE, "%s: nothing after %s", command,
                   args->redirect == REPL_TO_PIPE ? "|" : ">");
  if (args->redirect == REPL_TO_PIPE) {
    args->target = hs_arena_strndup(a, rest.p, rest.n);
    return HS_GOOD;
  }
  repl_args inner = {0};
  words file = {0};
  st = tokenize(a, command, rest, &file, &inner);
  if (hs_ok(st) && (file.n != 1 || inner.redirect))
    st = hs_fail(HS_E_USAGE, "%s: > takes one file name", command);
  if (hs_ok(st)) args->target = file.v[0];
  hs_vec_free(&file);
  return st;
}

// -1 when the spec has no such option, else whether it takes a value.
static int spec_option(const char *spec, const char *name, size_t n) {
  spec_word w;
  for (const char *p = spec; spec_next(&p, &w);)
    if (w.option && w.name.n == n && memcmp(w.name.p, name, n) == 0) return w.arg.n ? 1 : 0;
  return -1;
}

static hs_status unknown_option(hs_arena *a, const char *command, const char *spec,
                                const char *word, size_t n) {
  words known = {0};
  spec_word w;
  for (const char *p = spec; spec_next(&p, &w);)
    if (w.option) hs_vec_push(&known, hs_arena_strndup(a, w.name.p, w.name.n));
  const char *given = hs_arena_strndup(a, word, n);
  const char *near = known.n ? hs_nearest(given, known.v, known.n) : NULL;
  hs_vec_free(&known);
  hs_status s = usage_error(command, spec, "unknown option", given);
  return near ? hs_with_note(s, "did you mean %s?", near) : s;
}

// The option of the spec that takes this very word: one of --by=kernel|opcode, a device of
// --on=TARGET. NULL: none.
static const char *option_for(hs_arena *a, const char *spec, const char *word) {
  spec_word w;
  for (const char *p = spec; spec_next(&p, &w);) {
    // random and zeros are rather meant for arguments
    if (!w.option || hs_str_eq(w.name, HS_STR("--elided"))) continue;
    bool takes = hs_str_eq(w.arg, HS_STR("TARGET")) && prof_device_find(word),
         alternatives = w.arg.n && memchr(w.arg.p, '|', w.arg.n) != NULL;
    for (size_t k = 0, n; alternatives && k < w.arg.n && !takes; k += n + 1) {
      const char *bar = memchr(w.arg.p + k, '|', w.arg.n - k);
      n = bar ? (size_t)(bar - w.arg.p) - k : w.arg.n - k;
      takes = strlen(word) == n && memcmp(word, w.arg.p + k, n) == 0;
    }
    if (takes) return hs_arena_strndup(a, w.name.p, w.name.n);
  }
  return NULL;
}

static hs_status surplus(hs_arena *a, const char *command, const char *spec, const char *word) {
  const char *option = option_for(a, spec, word);
  hs_status s = usage_error(command, spec, "too many arguments at", word);
  return option ? hs_with_note(s, "did you mean %s=%s?", option, word) : s;
}

static bool looks_like_option(const char *w) {
  return w[0] == '-' && w[1] && !isdigit((unsigned char)w[1]) && w[1] != '.';
}

static hs_status sort_words(hs_arena *a, const char *command, const char *spec, const words *w,
                            repl_args *out) {
  out->pos = HS_NEW_ARRAY(a, const char *, w->n + 1);
  out->opts = HS_NEW_ARRAY(a, struct repl_opt, w->n + 1);
  bool only_pos = false;
  for (size_t k = 0; k < w->n; k++) {
    const char *x = w->v[k];
    if (!only_pos && strcmp(x, "--") == 0) {
      only_pos = true;
      continue;
    }
    if (only_pos || !looks_like_option(x)) {
      out->pos[out->npos++] = x;
      continue;
    }
    const char *eq = strchr(x, '=');
    size_t n = eq ? (size_t)(eq - x) : strlen(x);
    int takes = spec_option(spec, x, n);
    if (takes < 0) return unknown_option(a, command, spec, x, n);
    const char *value = "";
    if (takes && eq) value = eq + 1;
    else if (takes && k + 1 < w->n) value = w->v[++k];
    else if (takes) return usage_error(command, spec, "no value after", x);
    else if (eq)
      return usage_error(command, spec, "no value is allowed for", hs_arena_strndup(a, x, n));
    out->opts[out->nopts++] = (struct repl_opt){hs_arena_strndup(a, x, n), value};
  }
  return HS_GOOD;
}

hs_status repl_parse_args(hs_arena *a, const char *command, const char *spec, hs_str rest,
                          repl_args *out) {
  *out = (repl_args){.raw = hs_arena_strndup(a, rest.n ? rest.p : "", rest.n)};
  spec_word w;
  u32 least = 0, most = 0;
  bool many = false;
  for (const char *p = spec; spec_next(&p, &w);) {
    if (w.raw) {
      out->pos = HS_NEW_ARRAY(a, const char *, 1);
      if (!rest.n && w.mod != '?')
        return usage_error(command, spec, "needs", hs_arena_strndup(a, w.name.p, w.name.n));
      // `-o FILE` before the expression or at its end writes to a file, since > means "greater"
      // here.
      const char *o = strncmp(out->raw, "-o ", 3) == 0 ? out->raw : NULL;
      if (o) {
        const char *f = o + 3;
        while (blank(*f)) f++;
        size_t n = strcspn(f, " \t");
        out->redirect = REPL_TO_FILE;
        out->target = hs_arena_strndup(a, f, n);
        f += n;
        while (blank(*f)) f++;
        out->raw = f;
      } else if ((o = strstr(out->raw, " -o ")) != NULL) {
        const char *f = o + 4;
        while (blank(*f)) f++;
        out->redirect = REPL_TO_FILE;
        out->target = f;
        out->raw = hs_arena_strndup(a, out->raw, (size_t)(o - out->raw));
      }
      if (out->redirect && !*out->target)
        return usage_error(command, spec, "no file name after -o", NULL);
      return HS_GOOD;
    }
    if (w.option) continue;
    if (w.mod == '*' || w.mod == '+') many = true;
    if (w.mod != '?' && w.mod != '*') least++;
    most++;
  }
  words list = {0};
  hs_status s = tokenize(a, command, rest, &list, out);
  if (hs_ok(s)) s = sort_words(a, command, spec, &list, out);
  hs_vec_free(&list);
  HS_TRY(s);
  if (out->npos < least) {
    const char *missing = repl_spec_pos(a, spec, out->npos);
    s = usage_error(command, spec, "needs", missing ? missing : "an argument");
    if (missing && strcmp(missing, "X") == 0)
      s = hs_with_note(s, "X is an instruction or computation, as `list` shows them; of the whole "
                          "module: stats, signature");
    return s;
  }
  if (!many && out->npos > most) return surplus(a, command, spec, out->pos[most]);
  return HS_GOOD;
}

const char *repl_opt(const repl_args *args, const char *name) {
  for (u32 k = args->nopts; k-- > 0;)
    if (strcmp(args->opts[k].name, name) == 0) return args->opts[k].value;
  return NULL;
}

bool repl_number(const char *text, double *out) {
  char *end;
  double v = strtod(text, &end);
  if (end == text) return false;
  static const struct {
    const char *text;
    double scale;
  } units[] = {{"", 1},
               {"k", 1e3},
               {"K", 1e3},
               {"M", 1e6},
               {"G", 1e9},
               {"T", 1e12},
               {"Ki", 1024.0},
               {"Mi", 1048576.0},
               {"Gi", 1073741824.0},
               {"Ti", 1099511627776.0}};
  size_t n = strlen(end);
  if (n && end[n - 1] == 'B') n--;
  for (size_t k = 0; k < HS_COUNT(units); k++)
    if (strlen(units[k].text) == n && memcmp(units[k].text, end, n) == 0) {
      *out = v * units[k].scale;
      return true;
    }
  return false;
}
