// record.c: recordings of kernels' times. See record.h.
//
// A probe reads the clock twice. The time between the reads contains about one read, which is half
// of what the probe costs, so half is taken off the kernel and the whole off the run.
#include "profiler/record.h"

#include <math.h>

void prof_recording_free(prof_recording *r) {
  if (!r) return;
  hs_free(r->run_ms);
  hs_free(r->ms);
  hs_free(r->calls);
  hs_free(r->events);
  hs_free(r->counters);
  hs_free(r);
}

// Of r->nruns samples, `less` ms taken off each.
static prof_stats without(const prof_recording *r, const double *first, size_t step, double less) {
  double *v = hs_alloc((r->nruns + 1) * sizeof *v);
  for (u32 k = 0; k < r->nruns; k++) v[k] = fmax(first[k * step] - less, 0);
  prof_stats s = prof_summarize(v, r->nruns);
  hs_free(v);
  return s;
}

prof_stats prof_recorded_kernel(const prof_recording *r, u32 kernel) {
  return without(r, r->ms + kernel, r->nkernels, (double)r->calls[kernel] * r->probe_ns * 0.5e-6);
}

prof_stats prof_recorded_run(const prof_recording *r) {
  double calls = 0;
  for (u32 k = 0; k < r->nkernels; k++) calls += (double)r->calls[k];
  return without(r, r->run_ms, 1, calls * r->probe_ns * 1e-6);
}

prof_stats prof_recorded_rest(const prof_recording *r) {
  double *v = hs_alloc((r->nruns + 1) * sizeof *v);
  for (u32 k = 0; k < r->nruns; k++) {
    v[k] = r->run_ms[k];
    for (u32 j = 0; j < r->nkernels; j++)
      v[k] -= r->ms[(size_t)k * r->nkernels + j] + (double)r->calls[j] * r->probe_ns * 0.5e-6;
    v[k] = fmax(v[k], 0);
  }
  prof_stats s = prof_summarize(v, r->nruns);
  hs_free(v);
  return s;
}

// Executions follow each other within the last run, none more of a kernel than were counted, and
// all of them are kept or known to be dropped.
static bool events_are_sound(const prof_recording *r) {
  const double slack_ns = 1000;  // run_ms is a rounded number
  u64 end = 0, counted = 0, kept = 0;
  u64 *left = hs_calloc(r->nkernels + 1, sizeof *left);
  bool sound = r->nevents <= PROF_MOST_EVENTS && (r->nruns || !r->nevents);
  for (u32 k = 0; sound && k < r->nkernels; k++) {
    left[k] = r->calls[k];
    sound = !__builtin_add_overflow(counted, r->calls[k], &counted);
  }
  for (u32 k = 0; sound && k < r->nevents; k++) {
    const prof_event *e = &r->events[k];
    sound = e->kernel < r->nkernels && left[e->kernel]-- > 0 && e->begin_ns >= end &&
            !__builtin_add_overflow(e->begin_ns, e->ns, &end);
  }
  if (sound && r->nevents) sound = (double)end <= r->run_ms[r->nruns - 1] * 1e6 + slack_ns;
  hs_free(left);
  return sound && !__builtin_add_overflow(r->dropped, (u64)r->nevents, &kept) && kept == counted;
}

static bool is_counted(double v, double most) { return isnan(v) || (v >= 0 && v <= most); }

bool prof_recording_is_sound(const prof_recording *r) {
  if (!isfinite(r->probe_ns) || r->probe_ns < 0) return false;
  if (!isfinite(r->slowdown) || r->slowdown < 0) return false;
  for (u32 k = 0; k < r->nruns; k++)
    if (!isfinite(r->run_ms[k]) || r->run_ms[k] < 0) return false;
  for (size_t k = 0; k < (size_t)r->nruns * r->nkernels; k++)
    if (!isfinite(r->ms[k]) || r->ms[k] < 0) return false;
  for (u32 k = 0; r->counters && k < r->nkernels; k++) {
    const prof_counters *c = &r->counters[k];
    if (!is_counted(c->read_bytes, 1e18) || !is_counted(c->written_bytes, 1e18) ||
        !is_counted(c->tensor, 1))
      return false;
  }
  return events_are_sound(r);
}
