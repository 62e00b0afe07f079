// context.c — the services that a pass gets from its context: the values of its options,
// permission for each rewrite, and recording of notes.
//
// Options are declared in the pass's descriptor with their types and defaults, and this file alone
// reads them: given values are checked against the declaration before the pass starts
// (pass_check_options), and defaults come from it. A pass that reads an option without declaring it
// gets zero and fails (the runner checks pass_ctx.undeclared).
#include "passes/run/pass.h"

#include <errno.h>
#include <stdlib.h>

// ---- reading ------------------------------------------------------------------------------------
// The text of an option, given or default; NULL when the pass does not declare it with this type.
static const char *value_of(pass_ctx *c, const char *name, pass_option_type type,
                            const pass_option_info **declared) {
  for (u32 k = 0; k < c->pass->noptions; k++) {
    const pass_option_info *o = &c->pass->options[k];
    if (o->type != type || strcmp(o->name, name) != 0) continue;
    c->options_read |= (u64)1 << (k & 63);
    if (declared) *declared = o;
    for (u32 j = 0; c->options && j < c->options->n; j++)
      if (pass_same_name(c->options->v[j].key, name)) return c->options->v[j].value;
    return o->value;
  }
  c->undeclared = name;
  return NULL;
}

static bool is_true(const char *v) { return strcmp(v, "true") == 0 || strcmp(v, "1") == 0; }

bool pass_option_bool(pass_ctx *c, const char *name) {
  const char *v = value_of(c, name, PASS_BOOL, NULL);
  return v && is_true(v);
}

i64 pass_option_int(pass_ctx *c, const char *name) {
  const char *v = value_of(c, name, PASS_INT, NULL);
  return v ? (i64)strtoll(v, NULL, 10) : 0;
}

double pass_option_float(pass_ctx *c, const char *name) {
  const char *v = value_of(c, name, PASS_FLOAT, NULL);
  return v ? strtod(v, NULL) : 0;
}

const char *pass_option_text(pass_ctx *c, const char *name) {
  const char *v = value_of(c, name, PASS_TEXT, NULL);
  return v ? v : "";
}

// Position of a word in "simple|all"; -1 when it is none of them.
static i32 position_of(const char *v, const char *words) {
  i32 k = 0;
  for (const char *p = words; *p; p += *p == '|', k++) {
    size_t n = strcspn(p, "|");
    if (strlen(v) == n && strncmp(p, v, n) == 0) return k;
    p += n;
  }
  return -1;
}

u32 pass_option_choice(pass_ctx *c, const char *name) {
  const pass_option_info *o = NULL;
  const char *v = value_of(c, name, PASS_CHOICE, &o);
  i32 k = v ? position_of(v, o->value) : 0;
  return k < 0 ? 0 : (u32)k;  // the default itself reads "simple|all"
}

// ---- checking -----------------------------------------------------------------------------------
static bool is_of_type(const pass_option_info *o, const char *v) {
  char *end = NULL;
  errno = 0;
  switch (o->type) {
  case PASS_BOOL: return position_of(v, "true|false|1|0") >= 0;
  case PASS_CHOICE: return position_of(v, o->value) >= 0;
  case PASS_INT: (void)strtoll(v, &end, 10); break;
  case PASS_FLOAT: (void)strtod(v, &end); break;
  case PASS_TEXT: return true;
  }
  return *v && !*end && !errno;
}

static hs_status check_value(const pass_info *p, const pass_option_info *o, const char *v) {
  if (is_of_type(o, v)) return HS_GOOD;
  if (o->type == PASS_CHOICE)
    return hs_fail_subject(HS_E_USAGE, v, "pass %s: %s is one of %s, not '%s'", p->name, o->name,
                           o->value, v);
  static const char *const kinds[] = {
      [PASS_BOOL] = "true or false", [PASS_INT] = "a whole number", [PASS_FLOAT] = "a number"};
  return hs_fail_subject(HS_E_USAGE, v, "pass %s: %s is %s, not '%s'", p->name, o->name,
                         kinds[o->type], v);
}

static hs_status unknown_option(const pass_info *p, const char *key) {
  hs_status s = hs_fail_subject(HS_E_USAGE, key, "pass %s has no option '%s'", p->name, key);
  HS_VEC(const char *) names = {0};
  hs_buf all = {0};
  for (u32 k = 0; k < p->noptions; k++) {
    hs_vec_push(&names, p->options[k].name);
    hs_buf_printf(&all, "%s%s", k ? ", " : "", p->options[k].name);
  }
  const char *near = hs_nearest(key, names.v, names.n);
  if (near) s = hs_with_note(s, "did you mean '%s'?", near);
  else if (names.n) s = hs_with_note(s, "its options are %s", hs_buf_cstr(&all));
  else s = hs_with_note(s, "it takes none");
  hs_buf_free(&all);
  hs_vec_free(&names);
  return s;
}

static hs_status check_option(const pass_info *p, const pass_options *given, u32 k) {
  const char *key = given->v[k].key;
  u32 j = 0;
  while (j < p->noptions && !pass_same_name(key, p->options[j].name)) j++;
  if (j == p->noptions) return unknown_option(p, key);
  for (u32 t = 0; t < k; t++)
    if (pass_same_name(key, given->v[t].key))
      return hs_fail_subject(HS_E_USAGE, key, "pass %s: %s is given twice", p->name,
                             p->options[j].name);
  return check_value(p, &p->options[j], given->v[k].value);
}

hs_status pass_check_options(const pass_info *p, const pass_options *given) {
  for (u32 k = 0; given && k < given->n; k++) HS_TRY(check_option(p, given, k));
  return HS_GOOD;
}

// ---- rewrites and notes -------------------------------------------------------------------------
bool pass_may_rewrite(pass_ctx *c) {
  if (c->rewrite_limit >= 0 && c->rewrites >= c->rewrite_limit) return false;
  c->rewrites++;
  return true;
}

static void note(pass_ctx *c, const hlo_instr *i, const hlo_instr *other, bool done,
                 const char *fmt, va_list ap) {
  hs_buf b = {0};
  hs_buf_vprintf(&b, fmt, ap);
  pass_note n = {c->pass->name, i ? i->id : UINT32_MAX, other ? other->id : UINT32_MAX, done,
                 hs_strdup(hs_buf_cstr(&b))};
  hs_buf_free(&b);
  hs_vec_push(c->notes, n);
}

void pass_note_done(pass_ctx *c, const hlo_instr *i, const hlo_instr *other, const char *fmt, ...) {
  if (!c->notes) return;
  va_list ap;
  va_start(ap, fmt);
  note(c, i, other, true, fmt, ap);
  va_end(ap);
}

void pass_note_declined(pass_ctx *c, const hlo_instr *i, const hlo_instr *other, const char *fmt,
                        ...) {
  if (!c->notes) return;
  va_list ap;
  va_start(ap, fmt);
  note(c, i, other, false, fmt, ap);
  va_end(ap);
}
