// costs.c — compares hlo_cost_xla with what XLA's own HloCostAnalysis gave. usage: costs TSV DIR
// [-j N]
//
// The table's `file` column starts from DIR. XLA sums in float32, so figures above 2^24 are
// compared to 1e-5; below they are exact. Rows whose status is not ok (XLA could not read the text,
// or crashed) are skipped and counted.
#include "core/text/text.h"
#include "core/analysis/cost.h"
#include "tests/harness/driver.h"

#include <stdlib.h>

#include <math.h>

typedef struct run {
  drv_table t;
  const char *dir;
  u32 passed, failed;
} run;

static bool close_enough(double want, double got) {
  if (fabs(want) < 16777216.0) return want == got || fabs(want - got) <= 1e-6 * fabs(want);
  return fabs(want - got) <= 1e-5 * fabs(want);
}

static int one(void *arg, u32 k, FILE *out) {
  run *r = arg;
  char path[4096];
  snprintf(path, sizeof path, "%s/%s", r->dir, drv_cell(&r->t, k, "file"));
  hlo_ctx *ctx = hlo_ctx_new();
  hlo_module *m;
  hs_status s = hlo_load_file(ctx, path, NULL, &m);
  if (!hs_ok(s)) {
    drv_status(out, "not read", s);
    return 1;
  }
  hlo_xla_cost c = hlo_cost_xla(m);
  double want[] = {atof(drv_cell(&r->t, k, "flops")), atof(drv_cell(&r->t, k, "transcendentals")),
                   atof(drv_cell(&r->t, k, "bytes_accessed"))};
  double got[] = {c.flops, c.transcendentals, c.bytes};
  static const char *const names[] = {"flops", "transcendentals", "bytes"};
  bool ok = true;
  for (int x = 0; x < 3; x++)
    if (!close_enough(want[x], got[x]))
      fprintf(out, "%s%s %.17g, XLA %.17g", ok ? "" : "; ", names[x], got[x], want[x]), ok = false;
  if (!ok) fputc('\n', out);
  return !ok;
}

static void done(void *arg, u32 k, drv_result *result) {
  run *r = arg;
  if (result->verdict == 2) return;
  if (result->verdict)
    printf("FAIL %s: %s\n", drv_cell(&r->t, k, "file"), drv_reason(result)), r->failed++;
  else r->passed++;
}

static int filtered(void *arg, u32 k, FILE *out) {
  run *r = arg;
  return strcmp(drv_cell(&r->t, k, "status"), "ok") != 0 ? 2 : one(arg, k, out);
}

int main(int argc, char **argv) {
  drv_args a;
  static const char *const options[] = {NULL};
  run r = {0};
  if (!drv_parse(argc, argv, options, &a) || a.n != 2 || !drv_table_read(a.v[0], &r.t)) {
    fprintf(stderr, "usage: costs TSV DIR [-j N]\n");
    return 2;
  }
  r.dir = a.v[1];
  drv_run(r.t.nrows, a.jobs, 20, filtered, done, &r);
  printf("costs: %u/%u\n", r.passed, r.passed + r.failed);
  return r.failed != 0;
}
