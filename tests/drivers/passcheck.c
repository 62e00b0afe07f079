// passcheck.c — passes keep the meaning. usage: passcheck [--pass NAME] [-j N] FILE|DIR...
//
// For every module, every pass (in each of its modes) and every named pipeline: a copy of the module goes through it with everything verified and
// its claim of a change held against the text; the result is evaluated on the inputs of the original and compared. A pass
// that help.def says runs ONCE must find nothing to do on its own output. Modules that are too much work to evaluate, or that the
// evaluator does not cover, are still run and verified, and counted as not evaluated.
#include "passes/pass.h"
#include "tests/drivers/meaning.h"

#include <dirent.h>

typedef struct run { HS_VEC(char *) files; const char *only; u32 passed, failed, skipped; } run;

typedef struct subject { hlo_module *m; hlo_literal *value, **args; u32 nargs; } subject;

static bool still_means(const subject *s, const hlo_module *m, const char *text, FILE *out, u32 *unevaluated) {
  hlo_literal *y = NULL;
  hlo_eval_options o = {.max_bytes = (i64)1 << 31};
  if (!s->value) return ++*unevaluated, true;
  meaning_start();
  hs_status st = hlo_eval_module(m, s->nargs, s->args, &o, &y);
  meaning_stop();
  if (!hs_ok(st) && (st.err->code == HS_E_UNSUPPORTED || st.err->code == HS_E_INTERRUPTED)) {
    hs_status_drop(st);
    return ++*unevaluated, true;
  }
  if (hs_ok(st)) st = hlo_compare(s->value, y, meaning_tolerance(s->m));
  hlo_literal_unref(y);
  if (hs_ok(st)) return true;
  fprintf(out, "[%s] ", text);
  drv_status(out, "means something else", st);
  return false;
}

static bool check_text(const subject *s, const char *text, bool fixpoint, FILE *out, u32 *unevaluated) {
  hlo_module *m = hlo_module_clone(s->m, s->m->name);
  pass_run_options o = pass_run_default();
  o.verify_all = true;
  o.measure = false;
  hs_status st = pipeline_run(m, text, &o, NULL);
  bool ok = hs_ok(st);
  if (!ok) {
    fprintf(out, "[%s] ", text);
    drv_status(out, "failed", st);
  }
  ok = ok && still_means(s, m, text, out, unevaluated);
  if (ok && fixpoint) {
    u64 hash = hlo_text_hash(m);
    st = pipeline_run(m, text, &o, NULL);
    ok = hs_ok(st) && hlo_text_hash(m) == hash;
    hs_status_drop(st);
    if (!ok) fprintf(out, "[%s] changes its own output\n", text);
  }
  hlo_module_free(m);
  return ok;
}

// A pass with its defaults, and with each other word of an option that is one of several.
static bool check_pass(const subject *s, u32 p, FILE *out, u32 *unevaluated) {
  const pass_help *h = &pass_help_table[p];
  bool ok = check_text(s, h->name, !h->again, out, unevaluated);
  hs_arena a = {0};
  pass_option_help *v;
  u32 n = pass_help_options(h, &a, &v);
  for (u32 k = 0; k < n; k++) {
    const char *word = v[k].choices ? strchr(v[k].choices, '|') : NULL;
    for (; word; word = strchr(word + 1, '|')) {
      char *text = hs_format("%s{%s=%.*s}", h->name, v[k].name, (int)strcspn(word + 1, "|"), word + 1);
      ok &= check_text(s, text, !h->again, out, unevaluated);
      hs_free(text);
    }
  }
  hs_arena_free(&a);
  return ok;
}

static int one(void *arg, u32 k, FILE *out) {
  run *r = arg;
  hlo_ctx *ctx = hlo_ctx_new();
  subject s = {0};
  hs_status st = hlo_load_file(ctx, r->files.v[k], NULL, &s.m);
  if (hs_ok(st)) st = hlo_verify(s.m, NULL);
  if (!hs_ok(st)) return drv_status(out, "not read", st), 1;
  if (meaning_affordable(s.m) && meaning_value(s.m, s.m, &s.value)) {
    st = hlo_inputs_random(ctx, s.m, 7, &s.args, &s.nargs);
    if (!hs_ok(st)) return drv_status(out, "inputs", st), 1;
  }
  bool ok = true;
  u32 unevaluated = 0;
  for (u32 p = 0; p < pass_count; p++)
    if (!r->only || strcmp(r->only, pass_table[p].name) == 0) ok &= check_pass(&s, p, out, &unevaluated);
  for (u32 p = 0; p < pipeline_count; p++)
    if (!r->only || strcmp(r->only, pipeline_table[p].name) == 0) ok &= check_text(&s, pipeline_table[p].name, false, out, &unevaluated);
  return !ok ? 1 : unevaluated ? 2 : 0;
}

static void done(void *arg, u32 k, int verdict, const char *text) {
  run *r = arg;
  if (verdict == 0) r->passed++;
  else if (verdict == 2) r->passed++, r->skipped++;
  else {
    r->failed++;
    char *copy = hs_strdup(text), *save = NULL;
    for (char *line = strtok_r(copy, "\n", &save); line; line = strtok_r(NULL, "\n", &save)) printf("FAIL %s: %s\n", r->files.v[k], line);
    hs_free(copy);
  }
}

static int by_text(const void *a, const void *b) { return strcmp(*(char *const *)a, *(char *const *)b); }

static void add_path(run *r, const char *path) {
  DIR *d = opendir(path);
  if (!d) {
    hs_vec_push(&r->files, hs_strdup(path));
    return;
  }
  size_t from = r->files.n;
  for (struct dirent *e; (e = readdir(d));) {
    size_t n = strlen(e->d_name);
    if (n > 4 && strcmp(e->d_name + n - 4, ".hlo") == 0 && !strstr(e->d_name, ".after_optimizations")) hs_vec_push(&r->files, hs_format("%s/%s", path, e->d_name));
  }
  closedir(d);
  qsort(r->files.v + from, r->files.n - from, sizeof *r->files.v, by_text);
}

int main(int argc, char **argv) {
  static const char *const options[] = {"pass", NULL};
  drv_args a;
  run r = {0};
  if (!drv_parse(argc, argv, options, &a) || a.n == 0) {
    fprintf(stderr, "usage: passcheck [--pass NAME] [-j N] FILE|DIR...\n");
    return 2;
  }
  r.only = drv_option(&a, "pass");
  for (u32 k = 0; k < a.n; k++) add_path(&r, a.v[k]);
  drv_run((u32)r.files.n, a.jobs, 300, one, done, &r);
  printf("passcheck: %u/%u modules, %u passes, %u pipelines, %u modules not (wholly) evaluated\n", r.passed, r.passed + r.failed, r.only ? 1 : pass_count, r.only ? 0 : pipeline_count, r.skipped);
  return r.failed != 0;
}
