// stablehlo_same.c — what StableHLO texts become, beside what XLA made of them.
//
// usage: stablehlo_same DIR [--back 1] [--artifact VERSION] [--write DIR] [--only SUBSTRING]
//        [--least N] [-j N]
// For each NAME.mlir with a NAME.hlo beside it: the conversion must be the module of the .hlo, up
// to names and the order of instructions. With --back, for each NAME.hlo that is valid: printed as
// StableHLO and read back as it is written, the module must be the same but for layouts,
// annotations and how tuples are taken apart; what StableHLO has no form for is named and counted
// apart. With --artifact as well, it goes out and back as a portable artifact of that version of
// StableHLO instead. --write keeps the texts, NAME.mlir, and artifacts, NAME.mlirbc, in that
// folder. Prints "FAIL NAME: where they part", and last "stablehlo_same: P/T", with --back also
// ", U without a form". Exit 0 when nothing failed, or when at least N are the same.
#include "core/mlir/mlir.h"
#include "core/base/file.h"
#include "core/text/text.h"
#include "core/verify/verify.h"
#include "tests/harness/driver.h"
#include "tests/harness/same.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

typedef struct tests {
  const char *dir;
  const char *write;  // NULL: nowhere
  bool back;
  u32 artifact;  // its version; 0: text
  drv_names names;
  u32 same, without, invalid;
} tests;

enum { SAME, WITHOUT = 40, INVALID, DIFFER };

static int report(FILE *out, hs_status s, int verdict) {
  fprintf(out, "%s%s%s", s.err->message, s.err->note ? "; " : "", s.err->note ? s.err->note : "");
  hs_status_drop(s);
  return verdict;
}

static hs_status keep(const tests *t, const char *name, const char *ending, const hs_buf *b) {
  if (!t->write) return HS_GOOD;
  char *to = hs_format("%s/%s%s", t->write, name, ending);
  hs_status s = hs_write_file(to, b->p, b->n, false);
  hs_free(to);
  return s;
}

static int and_back(const tests *t, const char *name, hlo_ctx *ctx, FILE *out) {
  char *path = hs_format("%s/%s.hlo", t->dir, name);
  hlo_module *a = NULL, *b = NULL;
  hs_buf text = {0}, why = {0};
  const hlo_parse_options o = {.file = name, .as_written = true};
  int verdict = SAME;
  hs_status s = hlo_load_file(ctx, path, NULL, &a);
  if (hs_ok(s)) s = hlo_verify(a, NULL);
  if (!hs_ok(s)) verdict = report(out, s, INVALID);
  else if (!hs_ok(s = hlo_mlir_print(a, &text))) verdict = report(out, s, WITHOUT);
  if (verdict == SAME && !hs_ok(s = keep(t, name, ".mlir", &text)))
    verdict = report(out, s, DIFFER);
  if (verdict == SAME && t->artifact) {
    text.n = 0;
    if (!hs_ok(s = hlo_mlir_write(a, t->artifact, &text))) verdict = report(out, s, WITHOUT);
    else if (!hs_ok(s = keep(t, name, ".mlirbc", &text))) verdict = report(out, s, DIFFER);
  }
  if (verdict == SAME) {
    s = hlo_mlir_read(ctx, text.p, text.n, &o, &b);
    if (hs_ok(s)) s = hlo_verify(b, NULL);
    if (!hs_ok(s)) verdict = report(out, s, DIFFER);
    else if (!same_modules(a, b, true, &why))
      verdict = DIFFER, fprintf(out, "%s", hs_buf_cstr(&why));
  }
  hs_buf_free(&text);
  hs_buf_free(&why);
  hlo_module_free(a);
  hlo_module_free(b);
  hs_free(path);
  return verdict;
}

static int run_case(void *arg, u32 k, FILE *out) {
  const tests *t = arg;
  hlo_ctx *ctx = hlo_ctx_new();
  if (t->back) {
    int verdict = and_back(t, t->names.v[k], ctx, out);
    hlo_ctx_free(ctx);
    return verdict;
  }
  hlo_module *m[2] = {NULL, NULL};
  hs_buf why = {0};
  hs_status s = HS_GOOD;
  for (int w = 0; w < 2 && hs_ok(s); w++) {
    char *path = hs_format("%s/%s.%s", t->dir, t->names.v[k], w ? "hlo" : "mlir");
    s = hlo_load_file(ctx, path, NULL, &m[w]);
    hs_free(path);
  }
  bool ok = hs_ok(s) && same_modules(m[0], m[1], false, &why);
  if (!hs_ok(s)) drv_status(out, "load", s);
  else if (!ok) fprintf(out, "%s", hs_buf_cstr(&why));
  hs_buf_free(&why);
  hlo_module_free(m[0]);
  hlo_module_free(m[1]);
  hlo_ctx_free(ctx);
  return ok ? SAME : DIFFER;
}

static void case_done(void *arg, u32 k, drv_result *r) {
  tests *t = arg;
  if (r->verdict == SAME) t->same++;
  else if (r->verdict == INVALID) t->invalid++;
  else if (r->verdict == WITHOUT)
    t->without++, printf("without %s: %s\n", t->names.v[k], drv_reason(r));
  else printf("FAIL %s: %s\n", t->names.v[k], drv_reason(r));
}

int main(int argc, char **argv) {
  static const char *const options[] = {"only", "least", "back", "write", "artifact", NULL};
  drv_args a;
  drv_names all = {0};
  if (!drv_parse(argc, argv, options, &a) || a.n != 1) {
    fprintf(stderr, "usage: stablehlo_same DIR [--back 1] [--artifact VERSION] [--write DIR] "
                    "[--only SUBSTRING] [--least N] [-j N]\n");
    return 2;
  }
  tests t = {
      .dir = a.v[0], .back = drv_option(&a, "back") != NULL, .write = drv_option(&a, "write")};
  const char *version = drv_option(&a, "artifact");
  hs_status s = version ? hlo_mlir_version(hs_str_of(version), &t.artifact) : HS_GOOD;
  if (!hs_ok(s)) {
    fprintf(stderr, "%s\n", s.err->message);
    hs_status_drop(s);
    return 2;
  }
  const char *only = drv_option(&a, "only"), *least = drv_option(&a, "least");
  const char *ending = t.back ? ".hlo" : ".mlir";
  if (!drv_list(t.dir, ending, &all)) {
    fprintf(stderr, "%s: %s\n", t.dir, strerror(errno));
    return 2;
  }
  for (size_t k = 0; k < all.n; k++) {
    all.v[k][strlen(all.v[k]) - strlen(ending)] = 0;
    char *path = hs_format("%s/%s.hlo", t.dir, all.v[k]);
    if ((!only || strstr(all.v[k], only)) && access(path, R_OK) == 0)
      hs_vec_push(&t.names, hs_format("%s", all.v[k]));
    hs_free(path);
  }
  drv_run((u32)t.names.n, a.jobs, 60, run_case, case_done, &t);
  u32 total = (u32)t.names.n - t.without - t.invalid;
  printf("stablehlo_same: %u/%u", t.same, total);
  if (t.back) printf(", %u without a form", t.without);
  printf("\n");
  bool ok = least ? t.same >= (u32)strtoul(least, NULL, 10) : t.same == total;
  drv_names_free(&t.names);
  drv_names_free(&all);
  return ok ? 0 : 1;
}
