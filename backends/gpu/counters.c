// counters.c — what the device's counters say of each kernel: bytes of its memory and how long
// its tensor cores work, by CUPTI's range profiler (cupti/counters.h). See gpu.h.
//
// The program runs once for each pass that the counters need, its steps one by one, each execution
// as a range whose name is its number: so loops are counted, and what is read is joined to the
// instruction without names of kernels. What the host computes is not counted; nor is a kernel one
// of whose executions is beyond MOST_RANGES or was dropped.
#include "backends/gpu/gpu.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "backends/gpu/cupti/counters.h"

#if HAVE_LLVM

enum { MOST_RANGES = 2000, MOST_PASSES = 64 };

struct gpu_counting {
  counters_session session;
  HS_VEC(u32) kernels;  // by execution, of this pass
  u32 beyond;           // executions that there are no ranges for
  bool open;            // a range
  u32 *read, *all;      // by kernel: executions that were read, and all
  double *busy_ns;      // by kernel
  prof_counters *sum;
};

// ---- probes -------------------------------------------------------------------------------------

void gpu_counting_run(gpu_counting *x) {
  x->kernels.n = 0;
  x->beyond = 0;
}

hs_status gpu_counting_begin(gpu_counting *x, u32 kernel) {
  char name[24];
  x->open = x->kernels.n < MOST_RANGES;
  if (!x->open) x->beyond++;
  hs_vec_push(&x->kernels, kernel);
  if (!x->open) return HS_GOOD;
  (void)snprintf(name, sizeof name, "%zu", x->kernels.n - 1);
  return counters_push_range(&x->session, name);
}

hs_status gpu_counting_end(gpu_counting *x) {
  return x->open ? counters_pop_range(&x->session) : HS_GOOD;
}

// ---- values -------------------------------------------------------------------------------------

// NAN stays one.
static double at_most_1(double v) { return v > 1 ? 1 : v; }

static void take_range(void *ctx, const char *name, const double v[COUNTERS_METRICS]) {
  gpu_counting *x = ctx;
  char *end = NULL;
  size_t number = name ? strtoul(name, &end, 10) : 0;
  if (!end || end == name || *end || number >= x->kernels.n) return;
  u32 kernel = x->kernels.v[number];
  prof_counters *c = &x->sum[kernel];
  x->read[kernel]++;
  c->read_bytes += v[COUNTERS_READ];
  c->written_bytes += v[COUNTERS_WRITTEN];
  // the part of each execution's time, by how long it takes
  c->tensor += at_most_1(v[COUNTERS_TENSOR] / 100) * v[COUNTERS_TIME];
  x->busy_ns[kernel] += v[COUNTERS_TIME];
}

static u32 finish(const gpu_program *g, gpu_counting *x, u32 n) {
  static const prof_counters nothing = {(double)NAN, (double)NAN, (double)NAN};
  u32 left_out = 0;
  for (size_t k = 0; k < x->kernels.n; k++) x->all[x->kernels.v[k]]++;
  for (u32 k = 0; k < n; k++) {
    prof_counters *c = &x->sum[k];
    bool counted = x->all[k] && x->read[k] == x->all[k] && g->kernels[k].k;
    left_out += x->all[k] && !counted && g->kernels[k].k;
    if (!counted) *c = nothing;
    else c->tensor = x->busy_ns[k] > 0 ? at_most_1(c->tensor / x->busy_ns[k]) : 0;
  }
  return left_out;
}

// ---- runs ---------------------------------------------------------------------------------------

static hs_status start(gpu_program *g, gpu_counting *x) {
  static cupti_api cupti;  // the worker's own state; the library stays loaded
  static counters_api api;
  // a session is of one context
  if (g->lanes)
    return hs_with_note(
        hs_fail(HS_E_UNSUPPORTED, "counters are of one device, and this program runs on %u",
                g->ndevices),
        "fix: `profile` without --counters has the times of the first one; to count its kernels, "
        "load a module for one device (replica_count=1, num_partitions=1)");
  if (g->dev->bitcode && !getenv("HLOSH_LIBCUPTI"))
    return hs_fail(HS_E_UNSUPPORTED, "the emulator has no counters");
  if (!cupti.library) HS_TRY(cupti_open(NULL, &cupti));
  HS_TRY(counters_find(&cupti, &api));
  HS_TRY(gpu_device_use(g->dev));
  return counters_begin(&api, g->dev->context, (size_t)g->dev->number, MOST_RANGES, &x->session);
}

// One run for each pass. What a run itself fails with is an error of the program's.
static hs_status run_passes(gpu_program *g, gpu_counting *x, serve_once *once, void *arg,
                            hs_status *run) {
  bool all = false;
  size_t executions = 0;
  for (u32 pass = 0; !all && pass < MOST_PASSES; pass++) {
    double ms;
    HS_TRY(counters_pass_begin(&x->session));
    g->counting = x;
    *run = once(arg, &ms);
    g->counting = NULL;
    if (!hs_ok(*run)) return HS_GOOD;
    HS_TRY(counters_pass_end(&x->session, &all));
    if (pass && x->kernels.n != executions)
      return hs_fail(HS_E_UNSUPPORTED, "one run has other steps than another");
    executions = x->kernels.n;
  }
  return all ? HS_GOOD : hs_fail(HS_E_DEVICE, "the counters need more than %d runs", MOST_PASSES);
}

static void note(prof_recording *r, const gpu_counting *x, u32 left_out) {
  int n = snprintf(r->counted, sizeof r->counted, "CUPTI's counters, in %zu runs", x->session.done);
  if (left_out && n > 0)
    (void)snprintf(r->counted + n, sizeof r->counted - (size_t)n,
                   "; of %u kernels they are not whole (%zu ranges were dropped, %u are beyond %d)",
                   left_out, x->session.dropped, x->beyond, MOST_RANGES);
}

hs_status gpu_count(gpu_program *g, serve_once *once, void *arg, prof_recording *r) {
  u32 n = r->nkernels;
  hs_status run = HS_GOOD;
  gpu_counting x = {.read = hs_calloc(n + 1, sizeof *x.read),
                    .all = hs_calloc(n + 1, sizeof *x.all),
                    .busy_ns = hs_calloc(n + 1, sizeof *x.busy_ns),
                    .sum = hs_calloc(n + 1, sizeof *x.sum)};
  hs_status s = start(g, &x);
  if (hs_ok(s)) s = run_passes(g, &x, once, arg, &run);
  if (hs_ok(s) && hs_ok(run)) s = counters_read(&x.session, take_range, &x);
  if (hs_ok(s) && hs_ok(run)) {
    note(r, &x, finish(g, &x, n));
    r->counters = x.sum;
    x.sum = NULL;
  } else if (!hs_ok(s))
    (void)snprintf(r->counted, sizeof r->counted, "not counted: %s%s%s", s.err->message,
                   s.err->note ? "; " : "", s.err->note ? s.err->note : "");
  hs_status_drop(s);
  counters_end(&x.session);
  hs_vec_free(&x.kernels);
  hs_free(x.read);
  hs_free(x.all);
  hs_free(x.busy_ns);
  hs_free(x.sum);
  return run;
}

#endif
