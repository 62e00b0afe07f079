// evaluator_cases.c — cases with literal arguments and results, from an index like that of XLA's
// own evaluator tests.
//
//   evaluator_cases DIR        DIR/index.tsv with columns name, kind (the rows "evaluator"),
//                              values; DIR/NAME.hlo
//
// values: `arg0 = SHAPE LITERAL ; ... ; result = SHAPE LITERAL ; compare = Equal | Near
// ErrorSpec{ABS, REL}`; a tuple's result is `(SHAPE LITERAL, ...)`. One FAIL line per failure, last
// `evaluator_cases: P/T`.
#include "core/eval/eval.h"
#include "core/text/text.h"
#include "tests/harness/driver.h"

static const char *skip_blanks(const char *p) {
  while (*p == ' ') p++;
  return p;
}

// Where the text up to a comma outside of all brackets ends.
static const char *item_end(const char *p, const char *end) {
  int depth = 0;
  for (; p < end; p++) {
    if (strchr("([{", *p)) depth++;
    else if (strchr(")]}", *p)) depth--;
    else if (*p == ',' && depth == 0) return p;
  }
  return end;
}

// SHAPE LITERAL: the shape ends at the first blank outside of brackets.
static hs_status read_value(hlo_ctx *ctx, const char *p, const char *end, hlo_literal **out) {
  p = skip_blanks(p);
  const char *q = p;
  for (int depth = 0; q < end && (*q != ' ' || depth); q++)
    depth += *q == '[' || *q == '{' ? 1 : *q == ']' || *q == '}' ? -1 : 0;
  const hlo_shape *s;
  HS_TRY(hlo_parse_shape(ctx, p, (size_t)(q - p), &s));
  return hlo_parse_literal(ctx, s, q, (size_t)(end - q), out);
}

static hs_status check(hlo_ctx *ctx, const char *p, const char *end, const hlo_literal *got,
                       hlo_tolerance tol) {
  p = skip_blanks(p);
  while (end > p && end[-1] == ' ') end--;
  if (*p != '(') {
    hlo_literal *want = NULL;
    hs_status st = read_value(ctx, p, end, &want);
    if (hs_ok(st)) st = hlo_compare(want, got, tol);
    hlo_literal_unref(want);
    return st;
  }
  u32 k = 0;
  for (p++, end--; p < end; k++) {
    const char *stop = item_end(p, end);
    if (k >= got->nchildren) return hs_fail(HS_E_DIFFER, "fewer results than expected");
    HS_TRY(check(ctx, p, stop, got->children[k], tol));
    p = stop + 1;
  }
  return k == got->nchildren ? HS_GOOD : hs_fail(HS_E_DIFFER, "more results than expected");
}

static const char *field(const char *values, const char *name, const char **end) {
  size_t n = strlen(name);
  for (const char *p = values; p;) {
    p = skip_blanks(p);
    const char *stop = strstr(p, " ; ");
    if (strncmp(p, name, n) == 0 && strncmp(p + n, " = ", 3) == 0) {
      *end = stop ? stop : p + strlen(p);
      return p + n + 3;
    }
    p = stop ? stop + 3 : NULL;
  }
  return NULL;
}

static hs_status run_case(hlo_ctx *ctx, const char *dir, const char *name, const char *values) {
  char *path = hs_format("%s/%s.hlo", dir, name);
  hlo_module *m = NULL;
  hs_status st = hlo_load_file(ctx, path, NULL, &m);
  hs_free(path);
  HS_TRY(st);
  hlo_literal *args[16] = {0}, *got = NULL;
  u32 n = HS_MIN(m->entry->nparams, 16u);
  for (u32 k = 0; k < n && hs_ok(st); k++) {
    char key[16];
    snprintf(key, sizeof key, "arg%u", k);
    const char *end, *v = field(values, key, &end);
    st = v ? read_value(ctx, v, end, &args[k]) : hs_fail(HS_E_INPUT, "argument %u is not given", k);
  }
  if (hs_ok(st)) st = hlo_eval_module(m, n, args, NULL, &got);
  const char *end = NULL, *want = field(values, "result", &end), *cend = NULL,
             *compare = field(values, "compare", &cend);
  hlo_tolerance tol = hlo_near(0, 0);
  if (compare && sscanf(compare, "Near ErrorSpec{%lf, %lf}", &tol.abs, &tol.rel) < 1)
    tol = hlo_near(0, 0);
  if (hs_ok(st))
    st = want ? check(ctx, want, end, got, tol) : hs_fail(HS_E_INPUT, "no result is given");
  for (u32 k = 0; k < n; k++) hlo_literal_unref(args[k]);
  hlo_literal_unref(got);
  hlo_module_free(m);
  return st;
}

typedef struct suite {
  drv_table index;
  const char *dir;
  u32 run, passed;
} suite;

enum { PASSED, FAILED, OTHER_KIND };
static int one(void *arg, u32 k, FILE *out) {
  const suite *s = arg;
  if (strcmp(drv_cell(&s->index, k, "kind"), "evaluator") != 0) return OTHER_KIND;
  hlo_ctx *ctx = hlo_ctx_new();
  hs_status st =
      run_case(ctx, s->dir, drv_cell(&s->index, k, "name"), drv_cell(&s->index, k, "values"));
  bool ok = hs_ok(st);
  if (!ok) fprintf(out, "%s\n", st.err->message);
  hs_status_drop(st);
  hlo_ctx_free(ctx);
  return ok ? PASSED : FAILED;
}

static void done(void *arg, u32 k, drv_result *r) {
  suite *s = arg;
  if (r->verdict == OTHER_KIND) return;
  s->run++;
  if (r->verdict == PASSED) s->passed++;
  else printf("FAIL %s: %s\n", drv_cell(&s->index, k, "name"), drv_reason(r));
}

int main(int argc, char **argv) {
  drv_args a;
  suite s = {0};
  if (!drv_open_cases(argc, argv, "evaluator_cases", &a, &s.index)) return 2;
  s.dir = a.v[0];
  drv_run(s.index.nrows, a.jobs, 60, one, done, &s);
  drv_table_free(&s.index);
  printf("evaluator_cases: %u/%u\n", s.passed, s.run);
  return s.run && s.passed == s.run ? 0 : 1;
}
