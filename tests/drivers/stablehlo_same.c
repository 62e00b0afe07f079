// stablehlo_same.c — what StableHLO texts become, beside what XLA made of them.
//
// usage: stablehlo_same DIR [--only SUBSTRING] [--least N] [-j N]
// For each NAME.mlir with a NAME.hlo beside it: the conversion must be the module of the .hlo, up
// to names and the order of instructions. Prints "FAIL NAME: where they part", and last
// "stablehlo_same: P/T". Exit 0 when nothing failed, or when at least N are the same.
#include "core/mlir/mlir.h"
#include "core/text/text.h"
#include "tests/harness/driver.h"
#include "tests/harness/same.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

typedef struct tests {
  const char *dir;
  drv_names names;
  u32 same;
} tests;

static int run_case(void *arg, u32 k, FILE *out) {
  const tests *t = arg;
  hlo_ctx *ctx = hlo_ctx_new();
  hlo_module *m[2] = {NULL, NULL};
  hs_buf why = {0};
  hs_status s = HS_GOOD;
  for (int w = 0; w < 2 && hs_ok(s); w++) {
    char *path = hs_format("%s/%s.%s", t->dir, t->names.v[k], w ? "hlo" : "mlir");
    s = hlo_load_file(ctx, path, NULL, &m[w]);
    hs_free(path);
  }
  bool ok = hs_ok(s) && same_modules(m[0], m[1], &why);
  if (!hs_ok(s)) drv_status(out, "load", s);
  else if (!ok) fprintf(out, "%s", hs_buf_cstr(&why));
  hs_buf_free(&why);
  hlo_module_free(m[0]);
  hlo_module_free(m[1]);
  hlo_ctx_free(ctx);
  return ok ? 0 : 1;
}

static void case_done(void *arg, u32 k, drv_result *r) {
  tests *t = arg;
  if (r->verdict == 0) t->same++;
  else printf("FAIL %s: %s\n", t->names.v[k], drv_reason(r));
}

int main(int argc, char **argv) {
  static const char *const options[] = {"only", "least", NULL};
  drv_args a;
  drv_names all = {0};
  if (!drv_parse(argc, argv, options, &a) || a.n != 1) {
    fprintf(stderr, "usage: stablehlo_same DIR [--only SUBSTRING] [--least N] [-j N]\n");
    return 2;
  }
  tests t = {.dir = a.v[0]};
  if (!drv_list(t.dir, ".mlir", &all)) {
    fprintf(stderr, "%s: %s\n", t.dir, strerror(errno));
    return 2;
  }
  const char *only = drv_option(&a, "only"), *least = drv_option(&a, "least");
  for (size_t k = 0; k < all.n; k++) {
    all.v[k][strlen(all.v[k]) - 5] = 0;
    char *path = hs_format("%s/%s.hlo", t.dir, all.v[k]);
    if ((!only || strstr(all.v[k], only)) && access(path, R_OK) == 0)
      hs_vec_push(&t.names, hs_format("%s", all.v[k]));
    hs_free(path);
  }
  drv_run((u32)t.names.n, a.jobs, 60, run_case, case_done, &t);
  printf("stablehlo_same: %u/%zu\n", t.same, t.names.n);
  bool ok = least ? t.same >= (u32)strtoul(least, NULL, 10) : t.same == t.names.n;
  drv_names_free(&t.names);
  drv_names_free(&all);
  return ok ? 0 : 1;
}
