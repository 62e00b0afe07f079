// verifier_cases.c — the verifier against XLA's own expectations.
//
//   verifier_cases DIR          rows of DIR/index.tsv with kind=verifier: the module must be
//                               accepted, or refused with the given text in the message (a refusal
//                               with other words counts as agreement on the verdict and is listed
//                               with -v)
//   verifier_cases [--layouts] [--cpu] FILE.hlo...   each file must be accepted (--layouts: layouts
//                                                    must agree as well;
//                               --cpu: with the rules that XLA:CPU adds: one float precision, no
//                               odd element sizes)
//
// Last line: "verifier: P/T agree, W wording, C not checkable" or "accept: P/T". Cases that the
// test changes by C++ code are not checkable.
#include "core/text/text.h"
#include "core/verify/verify.h"
#include "tests/drivers/tsv.h"
#include "tests/drivers/verifier_rules.h"

#include <sys/stat.h>

static bool verbose;

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

static bool has(const char *text, const char *part) { return strstr(text, part) != NULL; }

// "a && b": every part must occur in one of the messages; "*": any message.
static bool says(hs_status s, const char *want) {
  if (strcmp(want, "*") == 0) return true;
  hs_buf all = {0};
  for (const hs_diag *d = s.err; d; d = d->next)
    hs_buf_puts(&all, d->message), hs_buf_putc(&all, '\n');
  const char *text = hs_buf_cstr(&all);
  bool ok = true;
  char *copy = hs_strdup(want), *part = copy;
  while (part && ok) {
    char *amp = strstr(part, " && ");
    if (amp) *amp = 0;
    ok = has(text, part);
    part = amp ? amp + 4 : NULL;
  }
  hs_free(copy);
  hs_buf_free(&all);
  return ok;
}

static int cases(const char *dir) {
  char path[4096];
  tsv t;
  snprintf(path, sizeof path, "%s/index.tsv", dir);
  if (!tsv_open(&t, path)) return fprintf(stderr, "cannot read %s\n", path), 2;
  u32 pass = 0, total = 0, wording = 0, skipped = 0;
  while (tsv_next(&t)) {
    if (strcmp(tsv_get(&t, "kind"), "verifier") != 0) continue;
    const char *name = tsv_get(&t, "name"), *opt = tsv_get(&t, "options"),
               *fix = tsv_get(&t, "fixture"), *want = tsv_get(&t, "error");
    if (*tsv_get(&t, "edits")) {
      skipped++;
      continue;
    }
    hlo_verify_options o = drv_verifier_rules(opt, fix);
    total++;
    snprintf(path, sizeof path, "%s/%s.hlo", dir, name);
    hs_status s = check(path, &o, tsv_get(&t, "config"));
    bool agree = hs_ok(s) == !*want;
    pass += agree;
    if (!agree)
      printf("FAIL %s: %s%s\n", name, hs_ok(s) ? "accepted, but should say " : "refused: ",
             hs_ok(s) ? want : s.err->message);
    else if (*want && !says(s, want)) {
      wording++;
      if (verbose) printf("WORDING %s: %s\n  wanted: %s\n", name, s.err->message, want);
    }
    hs_status_drop(s);
  }
  tsv_close(&t);
  printf("verifier: %u/%u agree, %u wording, %u not checkable\n", pass, total, wording, skipped);
  return pass != total;
}

int main(int argc, char **argv) {
  int first = 1;
  hlo_verify_options o = {0};
  for (; first < argc && argv[first][0] == '-'; first++) {
    verbose |= strcmp(argv[first], "-v") == 0;
    o.layout_sensitive |= strcmp(argv[first], "--layouts") == 0;
    o.disallow_mixed_precision |= strcmp(argv[first], "--cpu") == 0;
    o.cpu_gpu |= strcmp(argv[first], "--cpu") == 0;
  }
  if (first >= argc) return fprintf(stderr, "usage: verifier_cases [-v] DIR | FILE.hlo...\n"), 2;
  struct stat st;
  if (argc == first + 1 && stat(argv[first], &st) == 0 && S_ISDIR(st.st_mode))
    return cases(argv[first]);
  u32 pass = 0;
  for (int k = first; k < argc; k++) {
    hs_status s = check(argv[k], &o, NULL);
    pass += hs_ok(s);
    if (!hs_ok(s)) printf("FAIL %s: %s %s\n", argv[k], hs_code_text(s.err->code), s.err->message);
    hs_status_drop(s);
  }
  printf("accept: %u/%d\n", pass, argc - first);
  return (int)pass != argc - first;
}
