// record.h: a recording, what was measured of the single kernels of a program. A backend makes it
// (the cpu backend with probes around its kernels, in runs of their own); commands and writers of
// traces read it.
#ifndef PROF_RECORD_H
#define PROF_RECORD_H

#include "profiler/stats.h"

// Executions that are kept one by one; of the rest only sums.
enum { PROF_MOST_EVENTS = 1 << 16 };

// One execution of a kernel in the last run.
typedef struct prof_event {
  u64 begin_ns, ns;  // since the run began; how long
  u32 kernel;        // position in the backend's table of kernels
  u32 unused;
} prof_event;

// What the device's counters say of all executions of a kernel in one run; NAN: not counted.
typedef struct prof_counters {
  double read_bytes, written_bytes;  // of the device's memory, what caches answered apart
  double tensor;                     // the part of its time that tensor cores work, 0 to 1
} prof_counters;

typedef struct prof_recording {
  u32 nkernels, nruns;
  double *run_ms;  // by run: all of it, probes included
  double *ms;      // [run * nkernels + kernel]: all executions of the kernel in that run
  u64 *calls;      // by kernel: executions in the last run
  u32 nevents;
  prof_event *events;  // of the last run, by begin
  u64 dropped;         // executions of that run beyond PROF_MOST_EVENTS
  // a run with probes over one without just before it, the median; 0: not measured
  double slowdown;
  double probe_ns;  // what one probe adds to a run; half of it lies in the kernel's own time
  char how[240];    // which clock, and why not a better one; "": the host's, around the kernels
  prof_counters *counters;  // by kernel; NULL: nobody asked, or the device does not say
  char counted[480];        // how they were counted, or why not; "": nobody asked
} prof_recording;
void prof_recording_free(prof_recording *);  // NULL is fine; frees the struct too

// Times of a kernel over the runs, without what its probes added; of nothing where it has no runs.
prof_stats prof_recorded_kernel(const prof_recording *, u32 kernel);
// Of whole runs, without the probes.
prof_stats prof_recorded_run(const prof_recording *);
// Of what the kernels of a run leave of it: run by run, so that a run that something else
// interrupted in a kernel is not longer between kernels.
prof_stats prof_recorded_rest(const prof_recording *);

// Whether the counts and numbers fit together: for recordings that another process made.
bool prof_recording_is_sound(const prof_recording *);

#endif
