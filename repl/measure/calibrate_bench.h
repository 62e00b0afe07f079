// calibrate_bench.h: between the files of the calibration: one module timed, a curve of them, and
// what each file measures.
#ifndef REPL_MEASURE_CALIBRATE_BENCH_H
#define REPL_MEASURE_CALIBRATE_BENCH_H

#include "profiler/model/price.h"
#include "repl/measure/calibrate.h"

// The least that a figure may be: differences of two times can be below.
#define LEAST_S 2e-12

// A reducer for modules' texts.
#define CALIBRATE_ADD \
  "a {\n  x = f32[] parameter(0)\n  y = f32[] parameter(1)\n  ROOT r = f32[] add(x, y)\n}\n"

typedef struct calibrate_bench {
  const calibrate_of *of;
  bool xla;  // not our own code: programs may be refused, and results are fresh memory
  u32 refused;
  u32 threads;  // of the machine, as asked for
  calibrate_progress *progress;
  void *arg;
  prof_calibration *c;  // what was measured so far
  u32 step;
} calibrate_bench;

// The least time of a run of a module, in seconds; frees its text. Errors of the text, of compiling
// and running it, E_INTERRUPTED.
hs_status calibrate_time(calibrate_bench *, u32 threads, char *text, double *s);
// The same with one thread and each instruction a kernel; the text stays the caller's.
hs_status calibrate_time_apart(calibrate_bench *, const char *text, double *s);
// s without what is not the work's, LEAST_S at least.
double calibrate_above(double s, double floor_s);
// What is computation in the time of a run whose bytes take so long: the model's rule turned round.
double calibrate_computing(const calibrate_bench *, double s, double memory);
// The next step, to the progress line.
void calibrate_say(calibrate_bench *, const char *what);
// A curve of rates: work[k] by text(arg, k), with one thread and with all. base and extra[k] (NULL:
// 0) are seconds that are not the work's.
typedef char *curve_text(const void *arg, u32 k);
hs_status calibrate_curve(calibrate_bench *, curve_text *, const void *arg, u32 n,
                          const double *work, double base, const double *extra, prof_curve *out);

hs_status calibrate_streams_xla(calibrate_bench *);  // calibrate_xla.c
hs_status calibrate_loops_xla(calibrate_bench *);
// What stands in for the time of a module that XLA does not take, which is why: dropped.
hs_status calibrate_refused_xla(calibrate_bench *, const hlo_module *, hs_status why, double *s);
void calibrate_library_xla(calibrate_bench *);
// The points of a curve of cubes of those sizes that are small, anew.
hs_status calibrate_cubes_xla(calibrate_bench *, const char *type, const char *result,
                              const u32 *sizes, prof_curve *curve);
hs_status calibrate_calls(calibrate_bench *);
hs_status calibrate_loops(calibrate_bench *);  // calibrate_loops.c
// The time of turning a square f32 array of that extent, with one thread.
hs_status calibrate_transpose(calibrate_bench *, u32 extent, double *s);
hs_status calibrate_products(calibrate_bench *);
hs_status calibrate_convolutions(calibrate_bench *);

#endif
