// help.c — what a pass does, told by example: help.def's rows and their samples before and after.
//
// The rows name each pass's options with their types (by the default: a truth value, a whole
// number, a number with a point, a word among several; any text where it is empty), so what a
// pipeline gives is checked against them before anything runs.
//
// The samples are run when they are shown, so what help says is what the pass does. They are
// printed without layouts and without the module's line as long as neither matters: a sample about
// layouts has one that is not row-major, a sample about aliases or schedules has an attribute on
// the module's line.
#include "core/text/text.h"
#include "passes/run/pass.h"

#include <errno.h>
#include <stdlib.h>

enum { ONCE = false, AGAIN = true };
const pass_help pass_help_table[] = {
#define HELP(name, when, options, sample) {name, when, options, sample},
#include "passes/help.def"
#undef HELP
};
const u32 pass_help_count = (u32)HS_COUNT(pass_help_table);

enum {
#define PASS(function, name, summary, source) ROW_##function,
#include "passes/passes.def"
#undef PASS
  ROWS
};
_Static_assert(HS_COUNT(pass_help_table) == ROWS,
               "help.def has a row for each one of passes.def, in the same order");

const pass_help *pass_help_of(const pass_info *p) {
  return p >= pass_table && p < pass_table + pass_count ? &pass_help_table[p - pass_table] : NULL;
}

u32 pass_help_options(const pass_help *h, hs_arena *a, pass_option_help **out) {
  u32 n = 0, at = 0;
  for (const char *p = h->options; (p = strchr(p, '\n')); p++) n++;
  *out = HS_NEW_ARRAY(a, pass_option_help, n + 1);
  for (const char *p = h->options; at < n; p = strchr(p, '\n') + 1) {
    size_t name = strcspn(p, "="), value = strcspn(p + name, " ") - 1,
           gap = strspn(p + name + 1 + value, " "), absent = strcspn(p + name + 1, "| ");
    const char *given = p + name + 1, *meaning = given + value + gap;
    (*out)[at++] =
        (pass_option_help){hs_arena_strndup(a, p, name), hs_arena_strndup(a, given, absent),
                           absent < value ? hs_arena_strndup(a, given, value) : NULL,
                           hs_arena_strndup(a, meaning, strcspn(meaning, "\n"))};
  }
  return n;
}

// ---- options as given ---------------------------------------------------------------------------
static bool is_word(const char *v, const char *words) {
  for (const char *p = words; *p; p += *p == '|') {
    size_t n = strcspn(p, "|");
    if (strlen(v) == n && strncmp(p, v, n) == 0) return true;
    p += n;
  }
  return false;
}

static hs_status check_value(const pass_info *p, const pass_option_help *o, const char *v) {
  char *end;
  errno = 0;
  if (o->choices)
    return is_word(v, o->choices)
               ? HS_GOOD
               : hs_fail_subject(HS_E_USAGE, v, "pass %s: %s is one of %s, not '%s'", p->name,
                                 o->name, o->choices, v);
  if (strcmp(o->absent, "true") == 0 || strcmp(o->absent, "false") == 0)
    return is_word(v, "true|false|1|0")
               ? HS_GOOD
               : hs_fail_subject(HS_E_USAGE, v, "pass %s: %s is true or false, not '%s'", p->name,
                                 o->name, v);
  if (!*o->absent) return HS_GOOD;  // any text
  if (strchr(o->absent, '.')) {
    (void)strtod(v, &end);
    return *v && !*end ? HS_GOOD
                       : hs_fail_subject(HS_E_USAGE, v, "pass %s: %s is a number, not '%s'",
                                         p->name, o->name, v);
  }
  (void)strtoll(v, &end, 10);
  return *v && !*end && !errno
             ? HS_GOOD
             : hs_fail_subject(HS_E_USAGE, v, "pass %s: %s is a whole number, not '%s'", p->name,
                               o->name, v);
}

static hs_status unknown_option(const pass_info *p, const char *key, u32 n,
                                const pass_option_help *v, hs_arena *a) {
  hs_status s = hs_fail_subject(HS_E_USAGE, key, "pass %s has no option '%s'", p->name, key);
  const char **names = HS_NEW_ARRAY(a, const char *, n + 1);
  hs_buf all = {0};
  for (u32 k = 0; k < n; k++)
    names[k] = v[k].name, hs_buf_printf(&all, "%s%s", k ? ", " : "", v[k].name);
  const char *near = hs_nearest(key, names, n);
  if (near) s = hs_with_note(s, "did you mean '%s'?", near);
  else
    s = n ? hs_with_note(s, "its options are %s", hs_buf_cstr(&all))
          : hs_with_note(s, "it takes none");
  hs_buf_free(&all);
  return s;
}

hs_status pass_check_options(const pass_info *p, const pass_options *given) {
  const pass_help *h = pass_help_of(p);
  hs_arena a = {0};
  pass_option_help *v = NULL;
  u32 n = h ? pass_help_options(h, &a, &v) : 0;
  hs_status s = HS_GOOD;
  for (u32 k = 0; h && hs_ok(s) && k < given->n; k++) {
    const char *key = given->v[k].key;
    u32 j = 0;
    while (j < n && !pass_option_names(key, v[j].name)) j++;
    s = j == n ? unknown_option(p, key, n, v, &a) : check_value(p, &v[j], given->v[k].value);
    for (u32 t = 0; hs_ok(s) && t < k; t++)
      if (pass_option_names(key, given->v[t].key))
        s = hs_fail_subject(HS_E_USAGE, key, "pass %s: %s is given twice", p->name, v[j].name);
  }
  hs_arena_free(&a);
  return s;
}

// ---- samples ------------------------------------------------------------------------------------
static bool has_layouts(const hlo_module *m) {
  hlo_for_each_comp(c, m)
    hlo_for_each_instr(i, c)
      for (u32 k = 0; k < hlo_shape_leaves(i->shape); k++)
        if (!hlo_shape_is_row_major(hlo_shape_leaf(i->shape, k))) return true;
  return false;
}

static bool has_attributes(const hlo_module *m) {
  for (u32 k = 0; m->attrs && k < m->attrs->n; k++)
    if (m->attrs->v[k].id != HLO_ATTR_ENTRY_COMPUTATION_LAYOUT) return true;
  return false;
}

static void print(hs_buf *b, const hlo_module *m, bool whole, bool layouts) {
  hlo_print_options o = hlo_print_short_parsable();
  o.include_layout_in_shapes = layouts;
  hs_buf all = {0};
  hlo_print_module(&all, m, &o);
  const char *p = hs_buf_cstr(&all), *end = p + all.n;
  if (!whole) p += strcspn(p, "\n");
  while (*p == '\n') p++;
  while (end > p && end[-1] == '\n') end--;
  hs_buf_put(b, p, (size_t)(end - p));
  hs_buf_putc(b, '\n');
  hs_buf_free(&all);
}

static hs_status run_sample(hlo_ctx *ctx, const pass_info *p, const char *text, hs_buf *before,
                            hs_buf *after) {
  hlo_module *m = NULL;
  HS_TRY(hlo_parse(ctx, text, strlen(text), NULL, &m));
  hlo_module *was = hlo_module_clone(m, m->name);
  pass_run_options o = pass_run_default();
  pass_result r;
  hs_status s = pass_run(m, p, NULL, &o, &r);
  if (hs_ok(s)) {
    bool layouts = has_layouts(was) || has_layouts(m),
         whole = layouts || has_attributes(was) || has_attributes(m);
    print(before, was, whole, layouts);
    print(after, m, whole, layouts);
  }
  hlo_module_free(was);
  hlo_module_free(m);
  return s;
}

hs_status pass_help_sample(const pass_info *p, hs_buf *before, hs_buf *after) {
  const pass_help *h = pass_help_of(p);
  if (!h) return HS_GOOD;
  hlo_ctx *ctx = hlo_ctx_new();
  hs_status s = run_sample(ctx, p, h->sample, before, after);
  hlo_ctx_free(ctx);
  return s;
}
