// passes.c — how fast the cpu pipeline makes optimized HLO, beside real XLA:CPU's own passes in
// the same run.
//
// XLA's side is its own clock: the plug-in compiles the module with its pass log on, and the times
// of the pass runs are added up. A run that is itself a pipeline only repeats the runs inside it
// and is left out, and so is what the log itself costs between the runs. LLVM's optimization is
// turned off, which no HLO pass sees. Our side is the wall clock as well, over the whole of
// pipeline_run. No verifier and no cost model on either side; both get the same module, elided
// constants filled with the same values. Each side is run in turns, and its shortest time counts: a
// busy machine only adds.
//
//   passes [--rounds N] [--plugin PATH] FILE...     a line per file; last line: geomean A× (XLA ÷
//                                                   hlosh), worst B× (file)
//   passes --no-peer FILE...                        our side only
//   passes --by-pass FILE...                        our side only, and where its time goes
//   passes --growth SMALL BIG                       our side only: time per instruction of BIG ÷
//                                                   that of SMALL, whole and by pass
#include "backends/pjrt/pjrt.h"
#include "backends/worker.h"
#include "core/eval/inputs.h"
#include "core/text/text.h"
#include "passes/passes.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static const double DEADLINE_S = 120;

typedef struct options {
  u32 rounds;
  bool peer, by_pass;
  const char *plugin;
} options;
// seconds; xla 0: not measured
typedef struct row {
  const char *file;
  double ours, xla;
  u32 instructions;
} row;
typedef struct totals {
  u32 skipped, failed;
  HS_VEC(row) rows;
} totals;

static const char *base_of(const char *path) {
  const char *slash = strrchr(path, '/');
  return slash ? slash + 1 : path;
}

static void say_failure(totals *t, const char *file, hs_status s) {
  printf("FAIL %s: %s\n", base_of(file), s.err->message);
  hs_status_drop(s);
  t->failed++;
}

// ---- ours ---------------------------------------------------------------------------------------
// The thread's own time: what `--growth` compares, a large module with a small one, must not count
// the turns of others.
static double cpu_seconds(void) {
  struct timespec t;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static hs_status run_ours(const hlo_module *m, pass_log *log, double *seconds, double *cpu) {
  hlo_module *work = hlo_module_clone(m, m->name);
  pass_run_options o = pass_run_default();
  o.verify = o.measure = false;
  double started = cpu_seconds();
  u64 start = hs_now_ns();
  hs_status s = pipeline_run(work, "cpu", &o, log);
  *seconds = (double)(hs_now_ns() - start) * 1e-9;
  if (cpu) *cpu = cpu_seconds() - started;
  hlo_module_free(work);
  return s;
}

// Adds a log up by pass, the longest first.
typedef struct share {
  const char *pass;
  double ms;
  u32 runs;
} share;
typedef HS_VEC(share) shares;

static int by_ms(const void *a, const void *b) {
  double x = ((const share *)a)->ms, y = ((const share *)b)->ms;
  return (x < y) - (x > y);
}

static shares shares_of(const pass_log *log) {
  shares all = {0};
  for (size_t k = 0; k < log->n; k++) {
    size_t at = 0;
    while (at < all.n && strcmp(all.v[at].pass, log->v[k].pass) != 0) at++;
    if (at == all.n) hs_vec_push(&all, ((share){.pass = log->v[k].pass}));
    all.v[at].ms += log->v[k].ms;
    all.v[at].runs++;
  }
  if (all.n) qsort(all.v, all.n, sizeof *all.v, by_ms);
  return all;
}

static void say_shares(const pass_log *log) {
  shares all = shares_of(log);
  double sum = 0;
  for (size_t k = 0; k < all.n; k++) sum += all.v[k].ms;
  for (size_t k = 0; k < all.n && k < 12; k++)
    printf("  %9.2f ms %5.1f%% %4u runs  %s\n", all.v[k].ms, 100 * all.v[k].ms / sum, all.v[k].runs,
           all.v[k].pass);
  hs_vec_free(&all);
}

// ---- XLA's --------------------------------------------------------------------------------------
static hs_status run_xla(const hlo_module *m, const char *plugin, double *seconds) {
  static const backend_flag quick[] = {{"xla_backend_optimization_level", "0"},
                                       {"xla_llvm_disable_expensive_passes", "true"}};
  const backend *be = backend_find("pjrt");
  hs_buf log = {0};
  backend_options o = {.plugin = plugin,
                       .trace = &log,
                       .deadline_s = DEADLINE_S,
                       .nflags = HS_COUNT(quick),
                       .flags = quick};
  backend_exe *exe;
  hs_status s = be->compile(m, &o, &exe);
  pjrt_steps steps;
  pjrt_read_steps(hs_ok(s) && log.n ? hs_buf_cstr(&log) : "", &steps);
  if (hs_ok(s)) be->release(exe);
  hs_buf_free(&log);
  HS_TRY(s);
  double us = 0;
  u32 runs = 0;
  for (size_t k = 0; k < steps.n; k++)
    if (!steps.v[k].whole) us += steps.v[k].us, runs++;
  pjrt_steps_free(&steps);
  *seconds = us * 1e-6;
  return runs ? HS_GOOD : hs_fail(HS_E_UNSUPPORTED, "the plug-in did not log its passes");
}

// ---- a file -------------------------------------------------------------------------------------
static hs_status measure(const hlo_module *m, const options *o, row *r, hs_status *no_peer) {
  r->instructions = hlo_instr_count(m);
  r->ours = r->xla = INFINITY;
  for (u32 k = 0; k < o->rounds; k++) {
    double seconds;
    pass_log log = {0};
    hs_status s = run_ours(m, &log, &seconds, NULL);
    r->ours = HS_MIN(r->ours, seconds);
    if (hs_ok(s) && o->by_pass && k + 1 == o->rounds) say_shares(&log);
    hs_vec_free(&log);
    HS_TRY(s);
    if (!o->peer || !hs_ok(*no_peer)) continue;
    *no_peer = run_xla(m, o->plugin, &seconds);
    if (hs_ok(*no_peer)) r->xla = HS_MIN(r->xla, seconds);
  }
  return HS_GOOD;
}

static void one_file(const char *file, const options *o, totals *t) {
  hlo_ctx *ctx = hlo_ctx_new();
  hlo_module *m = NULL;
  row r = {.file = file};
  hs_status no_peer = HS_GOOD, s = hlo_load_file(ctx, file, NULL, &m);
  if (hs_ok(s)) s = hlo_fill_elided(m, false, 1);
  if (hs_ok(s)) s = measure(m, o, &r, &no_peer);
  if (!hs_ok(s)) say_failure(t, file, s);
  else if (!hs_ok(no_peer))
    printf("SKIP %s: XLA: %s\n", base_of(file), no_peer.err->message), t->skipped++;
  else {
    printf("%7u instructions  hlosh %9.2f ms %6.2f us each", r.instructions, r.ours * 1e3,
           r.ours * 1e6 / r.instructions);
    if (o->peer) printf("  XLA %9.2f ms %7.2f×", r.xla * 1e3, r.xla / r.ours);
    printf("  %s\n", base_of(file));
    hs_vec_push(&t->rows, r);
  }
  hs_status_drop(no_peer);
  fflush(stdout);
  hlo_module_free(m);
  hlo_ctx_free(ctx);
}

static void summary(const totals *t, const options *o) {
  double logs = 0, worst = INFINITY;
  const char *worst_file = "";
  for (size_t k = 0; k < t->rows.n; k++) {
    const row *r = &t->rows.v[k];
    logs += log(o->peer ? r->xla / r->ours : r->ours * 1e6 / r->instructions);
    if (o->peer && r->xla / r->ours < worst)
      worst = r->xla / r->ours, worst_file = base_of(r->file);
  }
  if (t->skipped) printf("%u files skipped: XLA does not compile them\n", t->skipped);
  if (!t->rows.n) return;
  double mean = exp(logs / (double)t->rows.n);
  if (o->peer)
    printf("geomean %.2f× (XLA ÷ hlosh), "
           "worst %.2f× (%s)\n",
           mean, worst, worst_file);
  else printf("hlosh: geomean %.2f us per instruction\n", mean);
}

// ---- growth -------------------------------------------------------------------------------------
// The fastest of several runs, at least three and at least half a second in all. The whole is in
// time of the processor, the passes by the clock on the wall, so that these are to be believed on a
// quiet machine only.
typedef struct growth {
  u32 instructions;
  double seconds;
  shares by_pass;
} growth;

static hs_status measure_growth(const char *file, growth *g) {
  hlo_ctx *ctx = hlo_ctx_new();
  hlo_module *m = NULL;
  hs_status s = hlo_load_file(ctx, file, NULL, &m);
  *g = (growth){.seconds = INFINITY};
  double sum = 0;
  for (u32 k = 0; hs_ok(s) && (k < 3 || sum < 0.5); k++) {
    pass_log log = {0};
    double wall, seconds = 0;
    s = run_ours(m, &log, &wall, &seconds);
    sum += seconds;
    if (hs_ok(s) && seconds < g->seconds) {
      hs_vec_free(&g->by_pass);
      g->seconds = seconds;
      g->by_pass = shares_of(&log);
    }
    hs_vec_free(&log);
  }
  if (m) g->instructions = hlo_instr_count(m);
  hlo_module_free(m);
  hlo_ctx_free(ctx);
  return s;
}

// Passes that take less than this share of the time are below what the clock tells apart.
static const double LEAST_SHARE = 0.02, MOST_GROWTH = 4;

static int say_growth(const char *small, const char *big) {
  growth a, b = {0};
  hs_status s = measure_growth(small, &a);
  if (hs_ok(s)) s = measure_growth(big, &b);
  bool failed = !hs_ok(s), within = true;
  if (failed) printf("FAIL growth: %s\n", s.err->message);
  hs_status_drop(s);
  double n = b.instructions && a.instructions ? (double)b.instructions / a.instructions : 1,
         worst = 0;
  const char *worst_pass = "none";
  for (size_t k = 0; !failed && k < b.by_pass.n; k++) {
    const share *x = &b.by_pass.v[k];
    if (x->ms * 1e-3 < LEAST_SHARE * b.seconds) continue;
    for (size_t j = 0; j < a.by_pass.n; j++) {
      const share *y = &a.by_pass.v[j];
      if (strcmp(x->pass, y->pass) != 0) continue;
      double r = x->ms / y->ms / n;
      printf("  %9.2f ms %5.1f%%  %5.2f× per instruction, %u runs and %u  %s\n", x->ms,
             x->ms * 0.1 / b.seconds, r, y->runs, x->runs, x->pass);
      if (r > worst) worst = r, worst_pass = x->pass;
    }
  }
  if (!failed) {
    double whole = b.seconds / a.seconds / n;
    within = whole <= MOST_GROWTH;
    printf("%.2f× the time per instruction at %u instructions (%.2f us) as at %u (%.2f us), worst "
           "pass %.2f× (%s): %s\n",
           whole, b.instructions, b.seconds * 1e6 / b.instructions, a.instructions,
           a.seconds * 1e6 / a.instructions, worst, worst_pass, base_of(big));
  }
  hs_vec_free(&a.by_pass);
  hs_vec_free(&b.by_pass);
  return failed || !within;
}

int main(int argc, char **argv) {
  int worker_status;
  // this binary is its own worker
  if (worker_entry(argc, argv, &worker_status)) return worker_status;
  if (argc == 4 && strcmp(argv[1], "--growth") == 0) return say_growth(argv[2], argv[3]);
  options o = {.rounds = 3, .peer = true};
  int at = 1;
  for (; at < argc && argv[at][0] == '-'; at++) {
    if (strcmp(argv[at], "--no-peer") == 0) o.peer = false;
    else if (strcmp(argv[at], "--by-pass") == 0) o.peer = false, o.by_pass = true;
    else if (strcmp(argv[at], "--rounds") == 0 && at + 1 < argc)
      o.rounds = (u32)strtoul(argv[++at], NULL, 10);
    else if (strcmp(argv[at], "--plugin") == 0 && at + 1 < argc) o.plugin = argv[++at];
    else break;
  }
  if (at == argc || argv[at][0] == '-' || !o.rounds)
    return fprintf(stderr,
                   "usage: passes [--rounds N] [--no-peer | --by-pass | --plugin PATH] FILE...\n"
                   "       passes --growth SMALL BIG\n"),
           2;
  totals t = {0};
  for (; at < argc; at++) one_file(argv[at], &o, &t);
  summary(&t, &o);
  bool ok = !t.failed && t.rows.n;
  hs_vec_free(&t.rows);
  return ok ? 0 : 1;
}
