// estimate.c: how far the estimator is from what this machine's cpu backend takes.
//
//   estimate [--half tuned|held] [--threads N | --cpu] [--seconds S] [--verbose] [--list FILE]
//            [--save FILE | --from FILE] [--optimized | --plugin PATH | --python PATH]
//            [--cpu-figures] [--no-trips] FILE.hlo...
//
// Each file is estimated and measured twice: as loaded with one kernel per instruction, and after
// the tuned pipeline. The estimate sees shapes and the calibration only, never a measurement of the
// file. How often a loop over data runs is in neither: it is counted by the evaluator, as `trips
// --count` does in the shell, unless --no-trips is given. A measured time is the least of many
// short runs: what other programs take from a shared machine only ever adds. Where they take so
// much that no run of a long module is left alone, --cpu measures the processor time of one thread
// instead, and estimates for one thread. --save keeps what was measured, and --from takes it
// instead of measuring. --half splits the files by a hash of their names into a half that rules
// were tuned on and a half held back, so that anybody can ask for the second. --list writes what
// was measured and estimated of every kernel. The ratio of a module is estimate to measurement;
// figures are of max(r, 1/r). The rank correlation (Spearman's) is over the kernels that take 10 us
// and more in an execution, of all modules and both forms. The speedup is the first form's time to
// the second's.
//
// --optimized takes the modules that XLA has optimized, X.after_optimizations.hlo beside X.args, as
// they are, instead of the others, and the cpu backend runs them. With --plugin or --python XLA
// compiles each file, says what it made of it, and runs that: its optimized module is estimated, by
// figures that were calibrated on that XLA (--cpu-figures: on the cpu backend), and the whole is
// measured; there are no kernels and no speedup then.
//
// Last line: geomean A, p90 B, rank correlation C, speedup geomean D.
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "backends/pjrt/pjrt.h"
#include "core/eval/inputs.h"
#include "core/text/text.h"
#include "passes/passes.h"
#include "profiler/model/calibration.h"
#include "profiler/noise.h"
#include "repl/formats/files.h"
#include "repl/measure/calibrate.h"
#include "repl/measure/trips.h"
#include "repl/shell/command.h"
#include "repl/shell/target.h"

typedef struct options {
  const char *half;
  u32 threads;
  double seconds;
  FILE *list, *save;
  bool verbose, cpu, optimized, cpu_figures, no_trips;
  const backend *be;
  const char *plugin, *python;
  hs_buf from;  // text of --from
  prof_device device;
  backend_context *context;
} options;

typedef struct pair {
  double estimated, measured;
} pair;

typedef struct totals {
  HS_VEC(pair) modules, speedups, kernels;
  u32 counted;  // files with loops whose iterations the evaluator counted
} totals;

static double off(pair p) {
  double r = p.estimated / p.measured;
  return r > 1 ? r : 1 / r;
}

static const char *base_of(const char *path) {
  const char *slash = strrchr(path, '/');
  return slash ? slash + 1 : path;
}

// The half that a name belongs to: whole modules, never some of a module's kernels.
static bool is_held(const char *name) {
  u64 h = 0xcbf29ce484222325ull;  // FNV-1a
  for (const char *s = name; *s; s++) h = (h ^ (u8)*s) * 0x100000001b3ull;
  return (h >> 17 & 1) != 0;
}

// ---- one form of one file -----------------------------------------------------------------------
static double least(const double *v, u32 n, size_t step) {
  double m = INFINITY;
  for (u32 k = 0; k < n; k++) m = fmin(m, v[k * step]);
  return m;
}

// What was measured of one form of a file: as --save writes it.
typedef struct form_kernel {
  char *name, *kind;
  double calls, us;  // of one execution
} form_kernel;
typedef struct measured {
  double ms;
  HS_VEC(form_kernel) kernels;
} measured;

static void measured_free(measured *x) {
  for (size_t k = 0; k < x->kernels.n; k++) {
    hs_free(x->kernels.v[k].name);
    hs_free(x->kernels.v[k].kind);
  }
  hs_vec_free(&x->kernels);
}

static void take_kernels(const backend_compiled *b, const prof_recording *r, measured *out) {
  for (u32 k = 0; k < r->nkernels; k++) {
    if (!r->calls[k]) continue;
    double us = 1e3 * least(r->ms + k, r->nruns, r->nkernels) / (double)r->calls[k];
    form_kernel q = {hs_strdup(b->kernels[k].name), hs_strdup(b->kernels[k].kind),
                     (double)r->calls[k], us - r->probe_ns * 0.5e-3};
    hs_vec_push(&out->kernels, q);
  }
}

// Of one run: what n + 1 runs take above one.
static hs_status cpu_time(const backend *be, backend_exe *x, u32 nargs, hlo_literal *const *args,
                          double one_ms, const options *o, double *ms) {
  enum { TIMES = 3 };
  u32 n = (u32)HS_MIN(HS_MAX(o->seconds * 1e3 / HS_MAX(one_ms, 1e-4), 1), 100000);
  *ms = INFINITY;
  for (u32 k = 0; k < TIMES; k++) {
    double took[2];
    for (u32 many = 0; many < 2; many++) {
      u32 runs = many ? n + 1 : 1;
      const backend_run_options ro = {.min_runs = runs, .max_runs = runs};
      backend_result r = {0};
      double before = prof_usage_now().cpu_s;
      HS_TRY(be->run(x, nargs, args, &ro, &r));
      took[many] = 1e3 * (prof_usage_now().cpu_s - before);
      backend_result_free(&r);
    }
    *ms = fmin(*ms, fmax((took[1] - took[0]) / n, 1e-6));
  }
  return HS_GOOD;
}

static hs_status measure(const hlo_module *m, bool alone, u32 nargs, hlo_literal *const *args,
                         const options *o, measured *out) {
  const backend *be = o->be;
  const backend_options bo = {
      .context = o->context, .threads = o->threads, .per_instruction = alone, .deadline_s = 120};
  const backend_run_options ro = {.min_runs = 3,
                                  .max_runs = 100000,
                                  .min_seconds = o->seconds,
                                  .max_seconds = o->seconds,
                                  .want_kernel_times = true};
  backend_exe *x = NULL;
  backend_result r = {0};
  hs_status s = be->compile(m, &bo, &x);
  if (hs_ok(s)) s = be->run(x, nargs, args, &ro, &r);
  if (hs_ok(s)) {
    out->ms = least(r.timing.samples_ms, r.timing.runs, 1);
    if (r.timing.kernels) take_kernels(be->compiled(x), r.timing.kernels, out);
    double cpu = out->ms;
    if (o->cpu) s = cpu_time(be, x, nargs, args, out->ms, o, &cpu);
    out->ms = fmin(out->ms, cpu);  // short runs are sometimes left alone
  }
  backend_result_free(&r);
  if (x) be->release(x);
  return s;
}

// ---- keeping what was measured ------------------------------------------------------------------
static void save(FILE *f, const char *file, const char *form, const measured *x) {
  fprintf(f, "%s\t%s\t%.9g\t%zu\n", file, form, x->ms, x->kernels.n);
  for (size_t k = 0; k < x->kernels.n; k++) {
    const form_kernel *q = &x->kernels.v[k];
    fprintf(f, "\t%s\t%s\t%.0f\t%.6g\n", q->name, q->kind, q->calls, q->us);
  }
}

static hs_status restore(const options *o, const char *file, const char *form, measured *out) {
  char *key = hs_format("%s\t%s\t", file, form);
  const char *p = o->from.p;
  while (p && strncmp(p, key, strlen(key)) != 0) p = strchr(p, '\n'), p = p ? p + 1 : NULL;
  size_t n = 0;
  bool ok = p && sscanf(p + strlen(key), "%lf %zu", &out->ms, &n) == 2;
  hs_free(key);
  for (size_t k = 0; ok && k < n; k++) {
    char name[256], kind[128];
    double calls, us;
    p = strchr(p, '\n') + 1;
    ok = sscanf(p, "\t%255[^\t]\t%127[^\t]\t%lf\t%lf", name, kind, &calls, &us) == 4;
    form_kernel q = {hs_strdup(name), hs_strdup(kind), calls, us};
    if (ok) hs_vec_push(&out->kernels, q);
  }
  return ok ? HS_GOOD : hs_fail(HS_E_INPUT, "not measured");
}

static void compare_kernels(const char *file, const char *form, const hlo_module *m,
                            const measured *x, const prof_module *e, const options *o, totals *t) {
  enum { LEAST_US = 10 };
  for (size_t k = 0; k < x->kernels.n; k++) {
    const form_kernel *q = &x->kernels.v[k];
    const hlo_instr *i = hlo_find_instr(m, q->name);
    if (!i) continue;
    const prof_kernel *w = &e->kernels[i->id];
    pair p = {w->seconds * 1e6, q->us};
    if (o->list)
      fprintf(o->list, "%s\t%s\t%s\t%s\t%s\t%.0f\t%.3f\t%.3f\t%s\t%.4g\t%.4g\t%.4g\t%.4g\t%.0f\n",
              file, form, q->name, q->kind, hlo_op_text(i->opcode), q->calls, q->us, p.estimated,
              prof_bound_text(w->bound), w->bytes, w->flops, w->memory_s * 1e6, w->compute_s * 1e6,
              e->times[i->id]);
    if (q->us >= LEAST_US) hs_vec_push(&t->kernels, p);
  }
}

static hs_status one_form(const char *file, const char *form, const hlo_module *m, bool alone,
                          u32 nargs, hlo_literal *const *args, const options *o, totals *t,
                          pair *out) {
  prof_module e;
  measured x = {0};
  HS_TRY(prof_estimate_kernels(m, &o->device, &(prof_options){.naive = alone}, &e));
  hs_status s = o->from.p ? restore(o, file, form, &x) : measure(m, alone, nargs, args, o, &x);
  if (hs_ok(s)) {
    *out = (pair){e.total.time_s * 1e3, x.ms};
    compare_kernels(file, form, m, &x, &e, o, t);
    if (o->save) save(o->save, file, form, &x);
  }
  measured_free(&x);
  prof_module_free(&e);
  return s;
}

// ---- what XLA makes of it -----------------------------------------------------------------------
static void list_kernels(const char *file, const hlo_module *m, const prof_module *e,
                         const options *o) {
  hlo_for_each_comp(c, m)
    hlo_for_each_instr(i, c) {
      const prof_kernel *k = &e->kernels[i->id];
      if (o->list && e->times[i->id] > 0 && k->seconds > 0)
        fprintf(o->list, "%s\txla\t%s\t\t%s\t%.0f\t\t%.3f\t%s\t%.4g\t%.4g\t%.4g\t%.4g\n", file,
                i->name, hlo_op_text(i->opcode), e->times[i->id], k->seconds * 1e6,
                prof_bound_text(k->bound), k->bytes, k->flops, k->memory_s * 1e6,
                k->compute_s * 1e6);
    }
}

static hs_status one_by_xla(const char *file, const hlo_module *m, u32 nargs,
                            hlo_literal *const *args, const options *o, totals *t) {
  const backend_options bo = {.context = o->context,
                              .threads = o->threads,
                              .deadline_s = 120,
                              .plugin = o->plugin,
                              .python = o->python};
  const backend_run_options ro = {
      .min_runs = 3, .max_runs = 100000, .min_seconds = o->seconds, .max_seconds = o->seconds};
  backend_exe *x = NULL;
  backend_result r = {0};
  prof_module e = {0};
  measured took = {0};
  hs_status s = o->be->compile(m, &bo, &x);
  hlo_module *made = hs_ok(s) ? pjrt_compiled_result(x)->optimized : NULL;
  if (hs_ok(s) && !made) s = hs_fail(HS_E_UNSUPPORTED, "it does not return its optimized module");
  if (hs_ok(s)) hlo_state_trips(made, m);
  if (hs_ok(s)) s = prof_estimate_kernels(made, &o->device, &(prof_options){0}, &e);
  if (hs_ok(s) && o->from.p) s = restore(o, file, "xla", &took);
  else if (hs_ok(s)) s = o->be->run(x, nargs, args, &ro, &r);
  if (hs_ok(s)) {
    if (!o->from.p) took.ms = least(r.timing.samples_ms, r.timing.runs, 1);
    double cpu = took.ms;
    if (o->cpu && !o->from.p) s = cpu_time(o->be, x, nargs, args, took.ms, o, &cpu);
    took.ms = fmin(took.ms, cpu);
    pair p = {e.total.time_s * 1e3, took.ms};
    hs_vec_push(&t->modules, p);
    list_kernels(file, made, &e, o);
    if (o->save) save(o->save, file, "xla", &took);
    if (o->verbose)
      printf("%-5.2f %10.4f / %10.4f ms  fresh %.4f launch %.4f  %s\n", p.estimated / p.measured,
             p.estimated, p.measured, e.total.fresh_s * 1e3, e.total.launch_s * 1e3, file);
  }
  backend_result_free(&r);
  prof_module_free(&e);
  if (x) o->be->release(x);
  return s;
}

#define OPTIMIZED ".after_optimizations.hlo"

static hs_status one_file(const char *path, const options *o, totals *t) {
  hlo_ctx *ctx = hlo_ctx_new();
  hlo_module *m = NULL, *tuned = NULL;
  hlo_literal **args = NULL;
  u32 nargs = 0;
  hs_buf text = {0};
  size_t stem = strlen(path) - strlen(o->optimized ? OPTIMIZED : ".hlo");
  char *args_path = hs_format("%.*s.args", (int)stem, path);
  hs_status s = hlo_load_file(ctx, path, NULL, &m);
  if (hs_ok(s)) s = hlo_fill_elided(m, false, 1);
  if (hs_ok(s) && access(args_path, R_OK) == 0) s = repl_read_file(args_path, 1 << 24, &text);
  if (hs_ok(s)) s = hlo_inputs_formula(ctx, m, text.p, text.n, &args, &nargs);
  if (!hs_ok(s) && o->optimized) {  // what was partitioned takes one device's part
    hs_status_drop(s);
    s = hlo_inputs_random(ctx, m, 1, &args, &nargs);
  }
  if (hs_ok(s) && !o->no_trips && trips_unknown(m)) {
    s = trips_count(m, nargs, args, false, NULL);
    t->counted++;
  }
  pair base, opt;
  if (o->plugin || o->python) {
    if (hs_ok(s)) s = one_by_xla(base_of(path), m, nargs, args, o, t);
    goto done;
  }
  if (o->optimized) {
    if (hs_ok(s)) s = one_form(base_of(path), "optimized", m, false, nargs, args, o, t, &opt);
    if (hs_ok(s)) {
      hs_vec_push(&t->modules, opt);
      if (o->verbose)
        printf("%-5.2f %10.4f / %10.4f ms  %s\n", opt.estimated / opt.measured, opt.estimated,
               opt.measured, base_of(path));
    }
    goto done;
  }
  if (hs_ok(s)) {
    tuned = hlo_module_clone(m, m->name);
    pass_run_options run = pass_run_default();
    run.measure = false;
    s = pipeline_run(tuned, pipeline_find(&pass_builtin, "tuned")->text, &run, NULL);
  }
  if (hs_ok(s)) s = one_form(base_of(path), "baseline", m, true, nargs, args, o, t, &base);
  if (hs_ok(s)) s = one_form(base_of(path), "tuned", tuned, false, nargs, args, o, t, &opt);
  if (hs_ok(s)) {
    pair gain = {base.estimated / opt.estimated, base.measured / opt.measured};
    hs_vec_push(&t->modules, base);
    hs_vec_push(&t->modules, opt);
    hs_vec_push(&t->speedups, gain);
    if (o->verbose) {
      printf("%-5.2f baseline %10.4f / %10.4f  %-5.2f tuned %10.4f / %10.4f ms  speedup %6.2f / "
             "%6.2f  %s\n",
             base.estimated / base.measured, base.estimated, base.measured,
             opt.estimated / opt.measured, opt.estimated, opt.measured, gain.estimated,
             gain.measured, base_of(path));
      fflush(stdout);
    }
  }
done:
  hlo_inputs_free(args, nargs);
  hlo_module_free(tuned);
  hlo_module_free(m);
  hlo_ctx_free(ctx);
  hs_buf_free(&text);
  hs_free(args_path);
  return s;
}

// ---- figures ------------------------------------------------------------------------------------
static int by_value(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

static double geomean_off(const pair *p, size_t n) {
  double logs = 0;
  for (size_t k = 0; k < n; k++) logs += log(off(p[k]));
  return n ? exp(logs / (double)n) : NAN;
}

static double p90_off(const pair *p, size_t n) {
  if (!n) return NAN;
  double *v = hs_alloc(n * sizeof *v);
  for (size_t k = 0; k < n; k++) v[k] = off(p[k]);
  qsort(v, n, sizeof *v, by_value);
  double x = v[(size_t)ceil(0.9 * (double)n) - 1];
  hs_free(v);
  return x;
}

// Ranks of one side, equal values sharing the mean of theirs.
static double *ranks(const pair *p, size_t n, bool real) {
  double *v = hs_alloc((n + 1) * sizeof *v), *r = hs_alloc((n + 1) * sizeof *r);
  for (size_t k = 0; k < n; k++) v[k] = real ? p[k].measured : p[k].estimated;
  for (size_t k = 0; k < n; k++) {
    size_t below = 0, equal = 0;
    for (size_t j = 0; j < n; j++) below += v[j] < v[k], equal += v[j] == v[k];
    r[k] = (double)below + (double)(equal + 1) / 2;
  }
  hs_free(v);
  return r;
}

static double spearman(const pair *p, size_t n) {
  double *x = ranks(p, n, false), *y = ranks(p, n, true), mean = ((double)n + 1) / 2;
  double xy = 0, xx = 0, yy = 0;
  for (size_t k = 0; k < n; k++)
    xy += (x[k] - mean) * (y[k] - mean), xx += (x[k] - mean) * (x[k] - mean),
        yy += (y[k] - mean) * (y[k] - mean);
  hs_free(x);
  hs_free(y);
  return xx > 0 && yy > 0 ? xy / sqrt(xx * yy) : NAN;
}

static int usage(void) {
  fprintf(stderr, "usage: estimate [--half tuned|held] [--threads N | --cpu] [--seconds S] "
                  "[--verbose] [--list FILE] [--save FILE | --from FILE] "
                  "[--optimized | --plugin PATH | --python PATH] [--cpu-figures] [--no-trips] "
                  "FILE.hlo...\n");
  return 2;
}

static bool option(options *o, const char *name, const char *value) {
  if (strcmp(name, "--half") == 0) o->half = value;
  else if (strcmp(name, "--threads") == 0) o->threads = (u32)strtoul(value, NULL, 10);
  else if (strcmp(name, "--seconds") == 0) o->seconds = strtod(value, NULL);
  else if (strcmp(name, "--plugin") == 0) o->plugin = value, o->be = backend_find("pjrt");
  else if (strcmp(name, "--python") == 0) o->python = value, o->be = backend_find("jax");
  else if (strcmp(name, "--list") == 0) o->list = fopen(value, "w");
  else if (strcmp(name, "--save") == 0) o->save = fopen(value, "w");
  else if (strcmp(name, "--from") == 0) {
    hs_status s = repl_read_file(value, 1 << 28, &o->from);
    bool ok = hs_ok(s);
    hs_status_drop(s);
    (void)hs_buf_cstr(&o->from);
    return ok;
  } else return false;
  return !o->half || strcmp(o->half, "tuned") == 0 || strcmp(o->half, "held") == 0;
}

// The calibration in the cache, or a new one, which is put there.
static hs_status calibrated(const options *o, prof_calibration *out) {
  char key[192];
  bool found;
  char name[48];
  const backend_options bo = {.context = o->context, .plugin = o->plugin, .python = o->python};
  const calibrate_of of = {o->cpu_figures ? backend_find("cpu") : o->be, &bo, name};
  HS_TRY(repl_calibration_name(of.be, o->plugin, o->python, name));
  prof_calibration_key(key, name, HLOSH_VERSION, (u32)sysconf(_SC_NPROCESSORS_ONLN));
  hs_status kept = prof_calibration_load(key, out, &found);
  if (hs_ok(kept) && found) return HS_GOOD;
  if (!hs_ok(kept)) fprintf(stderr, "%s\n", kept.err->message);
  hs_status_drop(kept);
  fprintf(stderr, "calibrating ...\n");
  HS_TRY(calibrate_machine(&of, 0, NULL, NULL, out, NULL));
  char *path = NULL;
  hs_status s = calibrate_save(out, &path);
  if (hs_ok(s)) fprintf(stderr, "%.0f s, %s\n", out->seconds, path);
  hs_free(path);
  return s;
}

int main(int argc, char **argv) {
  int status;
  if (worker_entry(argc, argv, &status)) return status;  // this binary is its own worker
  options o = {.seconds = 0.4, .be = backend_find("cpu")};
  int at = 1;
  for (; at < argc && argv[at][0] == '-'; at++) {
    if (strcmp(argv[at], "--verbose") == 0) o.verbose = true;
    else if (strcmp(argv[at], "--optimized") == 0) o.optimized = true;
    else if (strcmp(argv[at], "--cpu-figures") == 0) o.cpu_figures = true;
    else if (strcmp(argv[at], "--no-trips") == 0) o.no_trips = true;
    else if (strcmp(argv[at], "--cpu") == 0) o.cpu = true, o.threads = 1;
    else if (at + 1 == argc || !option(&o, argv[at], argv[at + 1])) return usage();
    else at++;
  }
  if (at == argc || ((o.plugin || o.python) && o.optimized)) return usage();
  o.context = backend_context_new();
  prof_calibration calibration;
  hs_status ready = calibrated(&o, &calibration);
  if (!hs_ok(ready)) {
    fprintf(stderr, "%s\n", ready.err->message);
    hs_status_drop(ready);
    return 2;
  }
  o.device = prof_device_calibrated(&calibration);
  if (o.threads) o.device.threads = o.threads;
  totals t = {0};
  u32 failed = 0;
  for (; at < argc; at++) {
    if ((strstr(argv[at], OPTIMIZED) != NULL) != o.optimized) continue;
    if (o.half && is_held(base_of(argv[at])) != (strcmp(o.half, "held") == 0)) continue;
    hs_status s = one_file(argv[at], &o, &t);
    if (!hs_ok(s)) printf("FAIL %s: %s\n", base_of(argv[at]), s.err->message), failed++;
    hs_status_drop(s);
  }
  backend_context_free(o.context);
  if (o.list) fclose(o.list);
  if (o.save) fclose(o.save);
  if (t.counted)
    printf("%u files with loops over data, whose iterations the evaluator counted\n", t.counted);
  printf("geomean %.3f, p90 %.3f, rank correlation %.3f, speedup geomean %.3f\n",
         geomean_off(t.modules.v, t.modules.n), p90_off(t.modules.v, t.modules.n),
         spearman(t.kernels.v, t.kernels.n), geomean_off(t.speedups.v, t.speedups.n));
  bool ok = !failed && t.modules.n;
  hs_vec_free(&t.modules);
  hs_vec_free(&t.speedups);
  hs_vec_free(&t.kernels);
  hs_buf_free(&o.from);
  return ok ? 0 : 1;
}
