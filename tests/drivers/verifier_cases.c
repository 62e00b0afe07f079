// verifier_cases.c — the verifier against XLA's own expectations.
//
//   verifier_cases DIR          rows of DIR/index.tsv with kind=verifier: the module must be
//                               accepted, or refused with the given text in the message (a refusal
//                               with other words counts as agreement on the verdict and is listed
//                               with --verbose)
//   verifier_cases [--layouts] [--cpu] FILE.hlo...
//                               each file must be accepted; --layouts: layouts must agree as well;
//                               --cpu: with the rules that XLA:CPU adds, one float precision and
//                               no odd element sizes
//
// Last line: "verifier: P/T agree, W wording, C not checkable" or "accept: P/T". Cases that the
// test changes by C++ code are not checkable.
#include "core/text/text.h"
#include "core/verify/verify.h"
#include "tests/harness/driver.h"
#include "tests/harness/verifier_rules.h"

#include <sys/stat.h>

static hs_status check(const char *path, const hlo_verify_options *o, const char *config) {
  hlo_ctx *ctx = hlo_ctx_new();
  hlo_module *m = NULL;
  hs_status s = hlo_load_file(ctx, path, NULL, &m);
  if (m && config) drv_set_counts(m, config);
  if (hs_ok(s)) s = hlo_verify(m, o);
  hlo_module_free(m);
  hlo_ctx_free(ctx);
  return s;
}

typedef struct suite {
  const char *dir;
  drv_table index;
  char **files;
  hlo_verify_options options;  // of files
  bool verbose;
  u32 passed, total, wording, skipped;
} suite;

// What a case says: NOT_CHECKED for rows of another kind, SKIPPED for edits by C++ code, WORDING
// for a refusal in other words.
enum { PASSED, DISAGREES, NOT_CHECKED, SKIPPED, WORDING };

static int recorded(void *arg, u32 k, FILE *out) {
  const suite *s = arg;
  const drv_table *t = &s->index;
  if (strcmp(drv_cell(t, k, "kind"), "verifier") != 0) return NOT_CHECKED;
  if (*drv_cell(t, k, "edits")) return SKIPPED;
  const char *want = drv_cell(t, k, "error");
  hlo_verify_options o = drv_verifier_rules(drv_cell(t, k, "options"), drv_cell(t, k, "fixture"));
  char *path = hs_format("%s/%s.hlo", s->dir, drv_cell(t, k, "name"));
  hs_status st = check(path, &o, drv_cell(t, k, "config"));
  hs_free(path);
  int verdict = hs_ok(st) != !*want                        ? DISAGREES
                : *want && !drv_message_contains(st, want) ? WORDING
                                                           : PASSED;
  if (verdict == DISAGREES)
    fprintf(out, "%s%s\n", hs_ok(st) ? "accepted, but should say " : "refused: ",
            hs_ok(st) ? want : st.err->message);
  if (verdict == WORDING) fprintf(out, "%s\n  wanted: %s\n", st.err->message, want);
  hs_status_drop(st);
  return verdict;
}

static void recorded_done(void *arg, u32 k, drv_result *r) {
  suite *s = arg;
  const char *name = drv_cell(&s->index, k, "name");
  if (r->verdict == NOT_CHECKED) return;
  if (r->verdict == SKIPPED) {
    s->skipped++;
    return;
  }
  s->total++;
  s->wording += r->verdict == WORDING;
  if (r->verdict == PASSED || r->verdict == WORDING) s->passed++;
  else printf("FAIL %s: %s\n", name, drv_reason(r));
  if (r->verdict == WORDING && s->verbose) printf("WORDING %s: %s\n", name, drv_reason(r));
}

static int accepted(void *arg, u32 k, FILE *out) {
  const suite *s = arg;
  hs_status st = check(s->files[k], &s->options, NULL);
  if (hs_ok(st)) return PASSED;
  fprintf(out, "%s %s\n", hs_code_text(st.err->code), st.err->message);
  hs_status_drop(st);
  return DISAGREES;
}

static void accepted_done(void *arg, u32 k, drv_result *r) {
  suite *s = arg;
  if (r->verdict == PASSED) s->passed++;
  else printf("FAIL %s: %s\n", s->files[k], drv_reason(r));
}

int main(int argc, char **argv) {
  static const char *const options[] = {"!layouts", "!cpu", "!verbose", NULL};
  drv_args a;
  if (!drv_parse(argc, argv, options, &a) || a.n == 0)
    return fprintf(stderr,
                   "usage: verifier_cases [--verbose] DIR | [--layouts] [--cpu] FILE.hlo...\n"),
           2;
  bool cpu = drv_option(&a, "cpu") != NULL;
  suite s = {.dir = a.v[0],
             .files = a.v,
             .verbose = drv_option(&a, "verbose") != NULL,
             .options = {.layout_sensitive = drv_option(&a, "layouts") != NULL,
                         .disallow_mixed_precision = cpu,
                         .cpu_gpu = cpu}};
  struct stat st;
  if (a.n > 1 || stat(s.dir, &st) != 0 || !S_ISDIR(st.st_mode)) {
    drv_run(a.n, a.jobs, 60, accepted, accepted_done, &s);
    printf("accept: %u/%u\n", s.passed, a.n);
    return s.passed != a.n;
  }
  char *path = hs_format("%s/index.tsv", s.dir);
  bool read = drv_table_read(path, &s.index);
  hs_free(path);
  if (!read) return fprintf(stderr, "cannot read %s/index.tsv\n", s.dir), 2;
  drv_run(s.index.nrows, a.jobs, 60, recorded, recorded_done, &s);
  printf("verifier: %u/%u agree, %u wording, %u not checkable\n", s.passed, s.total, s.wording,
         s.skipped);
  drv_table_free(&s.index);
  return s.passed != s.total;
}
