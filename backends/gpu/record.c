// record.c — times of single kernels: by CUPTI, where it is and may be used, else by an event
// before and one after each step. See gpu.h.
//
// Steps are launched one by one in these runs, not as recorded sequences. CUPTI's records give each
// kernel's own time, as the device stamps it; the steps are told apart by a number pushed around
// them (cupti/cupti.h). An event is a stamp that the device writes when it comes to it: the time
// between two of them is the kernel's and the stamps' own, which is measured with nothing between
// and subtracted (probe_ns: of the two stamps of a kernel half lies inside of its time).
//
// A step on the host counts with its copies, by the host's clock. What is not in the records, or
// beyond PROF_MOST_EVENTS, is counted as dropped. The recording says which way it was made, and why
// not by CUPTI.
#include "backends/gpu/gpu.h"

#include <stdio.h>
#include <stdlib.h>

#include "backends/gpu/cupti/cupti.h"

#if HAVE_LLVM

enum { MOST_PENDING = 4096, MOST_STEPS = 1 << 20 };

// An execution of a step in this run.
typedef struct execution {
  u32 kernel;
  u64 host_begin, host_ns;  // on the host: since the run began
} execution;

typedef struct pending {
  u32 kernel;
  cuda_event *from, *to;
} pending;

struct gpu_probes {
  cupti_trace *trace;  // NULL: events
  HS_VEC(execution) executions;
  u64 began;         // the host's clock at the beginning of the run
  u64 unnumbered;    // executions beyond MOST_STEPS
  pending *waiting;  // MOST_PENDING, events made when they are first needed
  u32 n, made;
  double *ms;  // by kernel, in this run
  u64 end_ns;  // of the last kernel in this run
  prof_recording *r;
};

static void keep(gpu_probes *x, u32 kernel, u64 begin, u64 ns) {
  x->ms[kernel] += (double)ns * 1e-6;
  x->r->calls[kernel]++;
  if (x->r->nevents == PROF_MOST_EVENTS) {
    x->r->dropped++;
    return;
  }
  // readings of several clocks, or rounded ones: steps follow each other all the same
  u64 at = HS_MAX(begin, x->end_ns);
  x->r->events[x->r->nevents++] = (prof_event){.begin_ns = at, .ns = ns, .kernel = kernel};
  x->end_ns = at + ns;
}

// ---- events -------------------------------------------------------------------------------------

// Reads the stamps that are waiting.
static hs_status collect_events(gpu_program *g) {
  gpu_probes *x = g->probes;
  gpu_device *dev = g->dev;
  if (x->n) GPU_TRY(dev, dev->d.event_wait(x->waiting[x->n - 1].to), "waiting for a kernel");
  for (u32 k = 0; k < x->n; k++) {
    const pending *w = &x->waiting[k];
    float ms = 0, begin = 0;
    GPU_TRY(dev, dev->d.event_elapsed(&ms, w->from, w->to), "the time of a kernel");
    GPU_TRY(dev, dev->d.event_elapsed(&begin, g->from, w->from), "the time of a kernel");
    keep(x, w->kernel, (u64)((double)HS_MAX(begin, 0.0f) * 1e6),
         (u64)((double)HS_MAX(ms, 0.0f) * 1e6));
  }
  x->n = 0;
  return HS_GOOD;
}

static hs_status begin_event(gpu_program *g, u32 kernel) {
  gpu_probes *x = g->probes;
  gpu_device *dev = g->dev;
  if (x->n == MOST_PENDING) HS_TRY(collect_events(g));
  pending *w = &x->waiting[x->n];
  if (x->n == x->made) {
    GPU_TRY(dev, dev->d.event_new(&w->from, CUDA_EVENT_DEFAULT), "making an event");
    GPU_TRY(dev, dev->d.event_new(&w->to, CUDA_EVENT_DEFAULT), "making an event");
    x->made++;
  }
  w->kernel = kernel;
  return gpu_check(dev, dev->d.event_record(w->from, dev->stream), "recording an event");
}

static hs_status end_event(gpu_program *g) {
  gpu_probes *x = g->probes;
  return gpu_check(g->dev, g->dev->d.event_record(x->waiting[x->n++].to, g->dev->stream),
                   "recording an event");
}

static int by_value(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

// What lies between two stamps with nothing between them: the median of many.
static hs_status stamp_ns(gpu_program *g, double *out) {
  enum { TIMES = 101 };
  double ms[TIMES];
  for (u32 k = 0; k < TIMES; k++) {
    HS_TRY(begin_event(g, 0));
    HS_TRY(end_event(g));
  }
  gpu_probes *x = g->probes;
  gpu_device *dev = g->dev;
  GPU_TRY(dev, dev->d.event_wait(x->waiting[x->n - 1].to), "waiting for an event");
  for (u32 k = 0; k < TIMES; k++) {
    float one = 0;
    GPU_TRY(dev, dev->d.event_elapsed(&one, x->waiting[k].from, x->waiting[k].to),
            "the time between two events");
    ms[k] = (double)one;
  }
  x->n = 0;
  qsort(ms, TIMES, sizeof *ms, by_value);
  *out = 2 * ms[TIMES / 2] * 1e6;
  return HS_GOOD;
}

// ---- CUPTI --------------------------------------------------------------------------------------

// The steps of this run, in their order, with what their kernels took.
static hs_status collect_records(gpu_program *g) {
  gpu_probes *x = g->probes;
  HS_TRY(cupti_trace_take(x->trace));
  size_t n = x->executions.n;
  cupti_span *span = hs_alloc((n + 1) * sizeof *span);
  u32 lost = cupti_join(x->trace, false, n, span);
  for (size_t k = 0; k < n; k++) {
    const execution *e = &x->executions.v[k];
    bool on_host = !g->kernels[e->kernel].k;
    keep(x, e->kernel, on_host ? e->host_begin : span[k].begin_ns,
         on_host ? e->host_ns : span[k].busy_ns);
  }
  // a recording says how many executions it does not have; records without a number are such
  if (x->unnumbered || lost || x->trace->dropped)
    (void)snprintf(
        x->r->how, sizeof x->r->how,
        "CUPTI; %llu records were dropped, %u belong to no step, %llu steps were too many",
        (unsigned long long)x->trace->dropped, lost, (unsigned long long)x->unnumbered);
  hs_free(span);
  return HS_GOOD;
}

// ---- probes -------------------------------------------------------------------------------------

hs_status gpu_probe_begin(gpu_program *g, u32 kernel) {
  gpu_probes *x = g->probes;
  if (g->counting) return gpu_counting_begin(g->counting, kernel);
  if (!x->trace) return begin_event(g, kernel);
  if (x->executions.n == MOST_STEPS) {
    x->unnumbered++;
    return HS_GOOD;
  }
  execution e = {.kernel = kernel, .host_begin = hs_now_ns() - x->began};
  hs_vec_push(&x->executions, e);
  return cupti_trace_enter(x->trace, x->executions.n - 1);
}

hs_status gpu_probe_end(gpu_program *g) {
  gpu_probes *x = g->probes;
  if (g->counting) {
    // what still runs when its range ends would be counted in the next one
    GPU_TRY(g->dev, g->dev->d.stream_wait(g->dev->stream), "waiting for a kernel");
    return gpu_counting_end(g->counting);
  }
  if (!x->trace) return end_event(g);
  if (x->unnumbered) return HS_GOOD;
  execution *e = &x->executions.v[x->executions.n - 1];
  e->host_ns = hs_now_ns() - x->began - e->host_begin;
  return cupti_trace_leave(x->trace);
}

hs_status gpu_probe_run(gpu_program *g) {
  gpu_probes *x = g->probes;
  if (g->counting) return gpu_counting_run(g->counting), HS_GOOD;
  if (!x->trace) return HS_GOOD;
  x->executions.n = 0;
  x->unnumbered = 0;
  HS_TRY(cupti_trace_mark(x->trace));
  x->began = hs_now_ns();
  return HS_GOOD;
}

static hs_status record_runs(gpu_program *g, double seconds, serve_once *once, void *arg,
                             hs_buf *run_ms, hs_buf *ms) {
  enum { LEAST = 3, MOST = 1000 };
  gpu_probes *x = g->probes;
  u32 n = x->r->nkernels;
  if (!x->trace) HS_TRY(stamp_ns(g, &x->r->probe_ns));
  u64 begin = hs_now_ns();
  for (u32 k = 0; k < MOST; k++) {
    if (k >= LEAST && (double)(hs_now_ns() - begin) * 1e-9 > seconds) break;
    double one;
    memset(x->ms, 0, n * sizeof *x->ms);
    memset(x->r->calls, 0, n * sizeof *x->r->calls);
    x->r->nevents = 0;
    x->r->dropped = 0;
    x->end_ns = 0;
    HS_TRY(once(arg, &one));
    HS_TRY(x->trace ? collect_records(g) : collect_events(g));
    one = HS_MAX(one, (double)x->end_ns * 1e-6);
    hs_buf_put(run_ms, (const char *)&one, sizeof one);
    hs_buf_put(ms, (const char *)x->ms, n * sizeof *x->ms);
    x->r->nruns++;
  }
  return HS_GOOD;
}

// CUPTI for a real device; what keeps it from being used is written to `why`.
static bool start_cupti(const gpu_device *dev, cupti_trace *t, char *why, size_t n) {
  static cupti_api api;  // the worker's own state; the library stays loaded
  if (dev->bitcode && !getenv("HLOSH_LIBCUPTI"))
    return (void)snprintf(why, n, "events of the emulator"), false;
  hs_status s = api.library ? HS_GOOD : cupti_open(NULL, &api);
  if (hs_ok(s)) s = cupti_trace_begin(&api, t);
  if (hs_ok(s)) return (void)snprintf(why, n, "CUPTI"), true;
  (void)snprintf(why, n, "events around the kernels, not CUPTI: %s; %s", s.err->message,
                 s.err->note ? s.err->note : "");
  hs_status_drop(s);
  return false;
}

hs_status gpu_record(gpu_program *g, double seconds, serve_once *once, void *arg,
                     prof_recording **out) {
  u32 n = (u32)g->p->kernels.n;
  prof_recording *r = hs_calloc(1, sizeof *r);
  cupti_trace trace;
  gpu_probes x = {.r = r,
                  .waiting = hs_calloc(MOST_PENDING, sizeof *x.waiting),
                  .ms = hs_calloc(n + 1, sizeof *x.ms)};
  hs_buf run_ms = {0}, ms = {0};
  r->nkernels = n;
  r->calls = hs_calloc(n + 1, sizeof *r->calls);
  r->events = hs_alloc(PROF_MOST_EVENTS * sizeof *r->events);
  if (n && start_cupti(g->dev, &trace, r->how, sizeof r->how)) x.trace = &trace;
  g->probes = &x;
  hs_status s = n ? record_runs(g, seconds, once, arg, &run_ms, &ms) : HS_GOOD;
  g->probes = NULL;
  size_t said = strlen(r->how);
  gpu_control_note(g, r->how + said, sizeof r->how - said);
  said = strlen(r->how);
  if (g->lanes)
    (void)snprintf(r->how + said, sizeof r->how - said, "; kernels of the first of %u devices",
                   g->ndevices);
  if (x.trace) cupti_trace_end(x.trace);
  for (u32 k = 0; k < x.made && !g->dev->failed; k++) {
    (void)g->dev->d.event_free(x.waiting[k].from);
    (void)g->dev->d.event_free(x.waiting[k].to);
  }
  hs_free(x.waiting);
  hs_free(x.ms);
  hs_vec_free(&x.executions);
  r->run_ms = (double *)(void *)run_ms.p;
  r->ms = (double *)(void *)ms.p;
  if (!hs_ok(s) || !r->nruns) prof_recording_free(r), r = NULL;
  *out = r;
  return s;
}

#endif
