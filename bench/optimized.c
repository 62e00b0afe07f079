// optimized.c — how good are the modules that our pipelines leave? Kernels, flops and bytes
// moved, beside XLA's own result.
//
// XLA's side is FILE.after_optimizations.hlo (as --xla_dump_to writes it) beside FILE.hlo. Both are
// costed by the same rules, core/analysis/cost.h: a kernel is an instruction that is launched,
// loops count as often as they run, a fusion moves its operands and results once. A ratio is ours
// ÷ XLA's, below 1 = ours is smaller; what is 0 on both sides counts as equal, 0 counts as 1
// beside anything else. Modules that XLA partitioned are left out and counted: its result is the
// share of one device, and our pipelines do not partition. The last lines: geomeans over the files.
//
//   optimized [--pipeline NAME] [--worst N] FILE.hlo...     without --pipeline: cpu and tuned
//   optimized --verbose FILE.hlo...                         a line per file and pipeline
#include "core/eval/inputs.h"
#include "core/text/text.h"
#include "passes/passes.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

typedef struct figures {
  double v[3];
} figures;
static const char *const figure_names[] = {"kernels", "flops", "bytes"};
typedef struct row {
  const char *file;
  figures ours, xla;
} row;
typedef struct result {
  const char *pipeline;
  HS_VEC(row) rows;
} result;
typedef struct options {
  bool verbose;
  u32 worst;
} options;

static hs_status cost_of(const hlo_module *m, figures *out) {
  hlo_cost_table t;
  HS_TRY(hlo_cost_module(m, &t));
  *out = (figures){{t.kernels, t.total.flops, t.total.bytes_read + t.total.bytes_written}};
  hlo_cost_free(&t);
  return HS_GOOD;
}

static hs_status load(hlo_ctx *ctx, const char *path, hlo_module **m) {
  HS_TRY(hlo_load_file(ctx, path, NULL, m));
  return hlo_fill_elided(*m, false, 1);
}

static double ratio(const row *r, u32 k) {
  return HS_MAX(r->ours.v[k], 1) / HS_MAX(r->xla.v[k], 1);
}

static void say(const row *r, const char *pipeline) {
  printf("%-6s", pipeline);
  for (u32 k = 0; k < HS_COUNT(figure_names); k++)
    printf("  %s %12.0f / %12.0f %6.2f", figure_names[k], r->ours.v[k], r->xla.v[k], ratio(r, k));
  printf("  %s\n", r->file);
}

static const char *base_of(const char *path) {
  const char *slash = strrchr(path, '/');
  return slash ? slash + 1 : path;
}

static bool is_partitioned(const hlo_module *m) {
  return hlo_module_int(m, HLO_ATTR_NUM_PARTITIONS, 1) > 1;
}

static hs_status one_file(const char *file, const char *after, u32 n, result *results,
                          const options *o, u32 *partitioned) {
  hlo_ctx *ctx = hlo_ctx_new();
  hlo_module *m = NULL, *x = NULL;
  row r = {.file = base_of(file)};
  hs_status s = load(ctx, file, &m);
  if (hs_ok(s)) s = load(ctx, after, &x);
  if (hs_ok(s)) s = cost_of(x, &r.xla);
  if (hs_ok(s) && is_partitioned(m)) ++*partitioned, n = 0;
  for (u32 k = 0; k < n && hs_ok(s); k++) {
    hlo_module *work = hlo_module_clone(m, m->name);
    pass_run_options run = pass_run_default();
    run.measure = false;
    s = pipeline_run(work, results[k].pipeline, &run, NULL);
    if (hs_ok(s)) s = cost_of(work, &r.ours);
    if (hs_ok(s)) hs_vec_push(&results[k].rows, r);
    if (hs_ok(s) && o->verbose) say(&r, results[k].pipeline);
    hlo_module_free(work);
  }
  hlo_module_free(m);
  hlo_module_free(x);
  hlo_ctx_free(ctx);
  return s;
}

static u32 sorted_by;
static int largest_first(const void *a, const void *b) {
  double x = ratio(a, sorted_by), y = ratio(b, sorted_by);
  return (x < y) - (x > y);
}

static void summary(result *r, const options *o) {
  for (u32 k = 0; k < HS_COUNT(figure_names); k++) {
    double logs = 0;
    u32 above = 0;
    for (size_t j = 0; j < r->rows.n; j++)
      logs += log(ratio(&r->rows.v[j], k)), above += ratio(&r->rows.v[j], k) > 1;
    sorted_by = k;
    qsort(r->rows.v, r->rows.n, sizeof *r->rows.v, largest_first);
    for (u32 j = 0; j < o->worst && j < r->rows.n; j++) say(&r->rows.v[j], r->pipeline);
    printf("%s: %s geomean %.3f× (hlosh ÷ XLA) over %zu modules, above 1 in %u, worst %.2f× "
           "(%s)\n",
           r->pipeline, figure_names[k], exp(logs / (double)r->rows.n), r->rows.n, above,
           ratio(&r->rows.v[0], k), r->rows.v[0].file);
  }
}

int main(int argc, char **argv) {
  result results[2] = {{.pipeline = "cpu"}, {.pipeline = "tuned"}};
  options o = {0};
  u32 n = 2, failed = 0, skipped = 0, partitioned = 0;
  int at = 1;
  for (; at < argc && argv[at][0] == '-'; at++) {
    if (strcmp(argv[at], "--verbose") == 0) o.verbose = true;
    else if (strcmp(argv[at], "--worst") == 0 && at + 1 < argc)
      o.worst = (u32)strtoul(argv[++at], NULL, 10);
    else if (strcmp(argv[at], "--pipeline") == 0 && at + 1 < argc)
      results[0].pipeline = argv[++at], n = 1;
    else break;
  }
  if (at == argc || argv[at][0] == '-')
    return fprintf(stderr,
                   "usage: optimized [--pipeline NAME] [--worst N] [--verbose] FILE.hlo...\n"),
           2;
  for (; at < argc; at++) {
    size_t len = strlen(argv[at]);
    if (strstr(argv[at], ".after_optimizations.") || len < 4) continue;
    char *after = hs_format("%.*s.after_optimizations.hlo", (int)(len - 4), argv[at]);
    if (access(after, R_OK) != 0) skipped++;
    else {
      hs_status s = one_file(argv[at], after, n, results, &o, &partitioned);
      if (!hs_ok(s)) printf("FAIL %s: %s\n", base_of(argv[at]), s.err->message), failed++;
      hs_status_drop(s);
    }
    hs_free(after);
  }
  if (skipped) printf("%u files skipped: no .after_optimizations.hlo beside them\n", skipped);
  if (partitioned) printf("%u files left out: XLA partitioned them\n", partitioned);
  for (u32 k = 0; k < n && results[k].rows.n; k++) summary(&results[k], &o);
  bool ok = !failed && results[0].rows.n;
  for (u32 k = 0; k < n; k++) hs_vec_free(&results[k].rows);
  return ok ? 0 : 1;
}
