// registry.c — the table of passes, made of passes.def, and what every pass may ask of its
// context: options, the rewrite limit and notes.
//
// A pass is found by hlo-opt's exact spelling first; failing that, '-' and '_' count as the same
// character, so that `pass constant-folding` and `pass constant_folding` both work.
#include "passes/run/pass.h"

#include <stdio.h>
#include <stdlib.h>

const pass_info pass_table[] = {
#define PASS(fn, name, summary, source) {name, summary, source, pass_##fn},
#include "passes/passes.def"
#undef PASS
};
const u32 pass_count = (u32)HS_COUNT(pass_table);

bool pass_option_names(const char *a, const char *b) {
  for (; *a && *b; a++, b++) {
    char x = *a == '_' ? '-' : *a, y = *b == '_' ? '-' : *b;
    if (x != y) return false;
  }
  return *a == *b;
}

// The one pass that is not in the table.
static const pass_info *guest;
void pass_set_guest(const pass_info *p) { guest = p; }

const pass_info *pass_find(const char *name) {
  if (guest && strcmp(guest->name, name) == 0) return guest;
  for (u32 k = 0; k < pass_count; k++)
    if (strcmp(pass_table[k].name, name) == 0) return &pass_table[k];
  for (u32 k = 0; k < pass_count; k++)
    if (pass_option_names(pass_table[k].name, name)) return &pass_table[k];
  return NULL;
}

hs_status pass_unknown(const char *name, const pass_pipelines *own) {
  hs_status s = hs_fail_subject(HS_E_NO_PASS, name, "no pass is named '%s'", name);
  HS_VEC(const char *) names = {0};
  for (u32 k = 0; k < pass_count; k++) hs_vec_push(&names, pass_table[k].name);
  for (u32 k = 0; k < pipeline_count; k++) hs_vec_push(&names, pipeline_table[k].name);
  for (size_t k = 0; own && k < own->n; k++) hs_vec_push(&names, own->v[k].name);
  const char *near[4];
  size_t n = hs_nearest_some(name, names.v, names.n, near, HS_COUNT(near));
  hs_buf b = {0};
  for (size_t k = 0; k < n; k++)
    hs_buf_printf(&b, "%s'%s'", !k ? "" : k + 1 < n ? ", " : " or ", near[k]);
  s = n ? hs_with_note(s, "did you mean %s?", hs_buf_cstr(&b))
        : hs_with_note(s, "passes lists them all");
  hs_buf_free(&b);
  hs_vec_free(&names);
  return s;
}

static const char *option(const pass_ctx *c, const char *key) {
  for (u32 k = 0; c->options && k < c->options->n; k++)
    if (pass_option_names(c->options->v[k].key, key)) return c->options->v[k].value;
  return NULL;
}

bool pass_option_bool(const pass_ctx *c, const char *key, bool absent) {
  if (c->asked.fn) c->asked.fn(c->asked.arg, key, absent ? "true" : "false");
  const char *v = option(c, key);
  if (!v) return absent;
  return strcmp(v, "true") == 0 || strcmp(v, "1") == 0 || *v == '\0';
}

i64 pass_option_int(const pass_ctx *c, const char *key, i64 absent) {
  if (c->asked.fn) {
    char number[24];
    snprintf(number, sizeof number, "%lld", (long long)absent);
    c->asked.fn(c->asked.arg, key, number);
  }
  const char *v = option(c, key);
  if (!v) return absent;
  char *end;
  long long n = strtoll(v, &end, 10);
  return *v && *end == '\0' ? (i64)n : absent;
}

u32 pass_option_choice(const pass_ctx *c, const char *key, const char *choices) {
  if (c->asked.fn) c->asked.fn(c->asked.arg, key, choices);
  const char *v = option(c, key), *p = choices;
  for (u32 k = 0; v && *p; k++, p += *p == '|') {
    size_t n = strcspn(p, "|");
    if (strlen(v) == n && strncmp(p, v, n) == 0) return k;
    p += n;
  }
  return 0;
}

double pass_option_float(const pass_ctx *c, const char *key, double absent) {
  if (c->asked.fn) {
    char number[32];
    snprintf(number, sizeof number, "%#.2g", absent);
    c->asked.fn(c->asked.arg, key, number);
  }
  const char *v = option(c, key);
  if (!v) return absent;
  char *end;
  double x = strtod(v, &end);
  return *v && *end == '\0' ? x : absent;
}

const char *pass_option_text(const pass_ctx *c, const char *key, const char *absent) {
  if (c->asked.fn) c->asked.fn(c->asked.arg, key, absent);
  const char *v = option(c, key);
  return v ? v : absent;
}

bool pass_may_rewrite(pass_ctx *c) {
  if (c->rewrite_limit >= 0 && c->rewrites >= c->rewrite_limit) return false;
  c->rewrites++;
  return true;
}

static void note(pass_ctx *c, const hlo_instr *i, const hlo_instr *other, bool done,
                 const char *fmt, va_list ap) {
  hs_buf b = {0};
  hs_buf_vprintf(&b, fmt, ap);
  pass_note n = {c->pass ? c->pass->name : "", i ? i->id : UINT32_MAX,
                 other ? other->id : UINT32_MAX, done, hs_strdup(hs_buf_cstr(&b))};
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
