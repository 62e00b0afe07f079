// calibrate_xla.c: where XLA:CPU runs the programs: what calibrate.c measures otherwise for it.
//
// XLA takes the memory of a run's results and temporaries from the system each time, and gives it
// back afterwards: a program that streams once is measured together with that, the pages' first
// touch above all. So a stream is measured within a loop, over an array that stays where it is, as
// what many iterations take above two; and what a run of a single stream takes above that is the
// price of fresh memory. How much that is depends on the size: the C library keeps small blocks. A
// sum over all of an array is a chain of additions to XLA, far slower than its memory, so that
// reading alone and writing alone are taken to cost half of a stream's bytes.
#include <math.h>
#include <stdio.h>

#include "repl/measure/calibrate_bench.h"
#include "repl/shell/command.h"

// The time that a typical machine would need for it.
hs_status calibrate_refused_xla(calibrate_bench *b, const hlo_module *m, hs_status why, double *s) {
  prof_device typical = prof_device_calibrated(&prof_generic);
  prof_estimate e;
  hs_status_drop(why);
  HS_TRY(prof_estimate_module(m, &typical, false, &e));
  *s = e.time_s;
  b->refused++;
  return HS_GOOD;
}

// ---- bandwidth ----------------------------------------------------------------------------------
enum { FEW_TRIPS = 2, MOST_TRIPS = 4000, LEAST_TRIPS = 8, STREAMED = 128 << 20 };

static char *loop_text(u32 n, u32 trips) {
  return hs_format("HloModule stream\nbody {\n  s = (s32[], f32[%u]) parameter(0)\n"
                   "  i = s32[] get-tuple-element(s), index=0\n"
                   "  x = f32[%u] get-tuple-element(s), index=1\n  one = s32[] constant(1)\n"
                   "  j = s32[] add(i, one)\n  y = f32[%u] add(x, x)\n"
                   "  ROOT t = (s32[], f32[%u]) tuple(j, y)\n}\n"
                   "cond {\n  s = (s32[], f32[%u]) parameter(0)\n"
                   "  i = s32[] get-tuple-element(s), index=0\n  n = s32[] constant(%u)\n"
                   "  ROOT c = pred[] compare(i, n), direction=LT\n}\n"
                   "ENTRY e {\n  p = f32[%u] parameter(0)\n  z = s32[] constant(0)\n"
                   "  t = (s32[], f32[%u]) tuple(z, p)\n"
                   "  w = (s32[], f32[%u]) while(t), condition=cond, body=body\n"
                   "  ROOT r = f32[%u] get-tuple-element(w), index=1\n}\n",
                   n, n, n, n, n, trips, n, n, n, n);
}

static char *once_text(u32 n) {
  return hs_format("HloModule once\nENTRY e {\n  p = f32[%u] parameter(0)\n"
                   "  ROOT r = f32[%u] negate(p)\n}\n",
                   n, n);
}

// Bytes per second, of what an iteration takes: a difference of two times, either of which may have
// been disturbed. It is no more than its share of the longer one, and seldom below two thirds.
static double rate_of(double bytes, double trip, double share) {
  return bytes / HS_MIN(HS_MAX(trip, share * 2 / 3), share);
}

// A single stream of n elements into fresh memory. Where large pages are short for a while, memory
// comes ten times slower: the least of several times.
static hs_status time_once(calibrate_bench *b, u32 threads, u32 n, double *s) {
  enum { TRIES = 3 };
  *s = INFINITY;
  for (u32 k = 0; k < TRIES; k++) {
    double once;
    HS_TRY(calibrate_time(b, threads, once_text(n), &once));
    *s = HS_MIN(*s, once);
  }
  return HS_GOOD;
}

hs_status calibrate_streams_xla(calibrate_bench *b) {
  enum { KB = 1024 };
  // the library keeps no block from 32 MiB on
  static const u32 arrays[] = {16 * KB,    64 * KB,    256 * KB,   1024 * KB, 4096 * KB,
                               12288 * KB, 31744 * KB, 32768 * KB, 65536 * KB};
  prof_calibration *c = b->c;
  for (u32 all = 0; all < 2; all++) {
    u32 threads = all ? b->threads : 1;
    double onces[HS_COUNT(arrays)];
    c->stream[all] = c->fresh[all] = (prof_curve){0};
    for (size_t k = 0; k < HS_COUNT(arrays); k++) {
      u32 n = arrays[k] / 4, trips = HS_MIN(HS_MAX(STREAMED / arrays[k], LEAST_TRIPS), MOST_TRIPS);
      double few, more;
      HS_TRY(calibrate_time(b, threads, loop_text(n, FEW_TRIPS), &few));
      HS_TRY(calibrate_time(b, threads, loop_text(n, trips), &more));
      HS_TRY(time_once(b, threads, n, &onces[k]));
      double trip = calibrate_above(more, few) / (trips - FEW_TRIPS);
      prof_curve_add(&c->stream[all], arrays[k], rate_of(2.0 * arrays[k], trip, more / trips));
    }
    // what is in a smaller cache streams no slower
    prof_curve *stream = &c->stream[all];
    for (u32 k = stream->n - 1; k-- > 0;) stream->y[k] = HS_MAX(stream->y[k], stream->y[k + 1]);
    for (size_t k = 0; k < HS_COUNT(arrays); k++) {
      double bytes = 2.0 * arrays[k], kept = bytes / prof_curve_at(stream, bytes),
             fresh = onces[k] - c->run_s - c->kernel_s - kept;
      bool nothing = fresh < onces[k] * 0.2;
      prof_curve_add(&c->fresh[all], arrays[k],
                     nothing ? PROF_NOTHING_FRESH / 2 : arrays[k] / fresh);
    }
    memcpy(&c->fill[all], &c->stream[all], sizeof c->fill[all]);
    memcpy(&c->load[all], &c->stream[all], sizeof c->load[all]);
  }
  return HS_GOOD;
}

// ---- loops --------------------------------------------------------------------------------------
// What XLA does otherwise than our loops: arrays are put in another order element by element, which
// is slower the further apart the elements lie; windows are combined in place; and a reducer of
// several operations is not vectorized.
hs_status calibrate_loops_xla(calibrate_bench *b) {
  static const u32 extents[] = {64, 256, 1024, 2048, 4096};
  prof_calibration *c = b->c;
  double s, base = c->kernel_s + c->run_s;
  c->transposes[0] = (prof_curve){0};
  for (size_t k = 0; k < HS_COUNT(extents); k++) {
    u32 e = extents[k];
    double n = (double)e * e, fresh = 4 * n / prof_curve_at(&c->fresh[0], 4 * n);
    HS_TRY(calibrate_transpose(b, e, &s));
    prof_curve_add(&c->transposes[0], 4.0 * e, n / calibrate_above(s, base + HS_MIN(fresh, s / 2)));
  }
  c->transposes[1] = c->transposes[0];
  HS_TRY(calibrate_time(
      b, 1,
      hs_format("HloModule windows\n" CALIBRATE_ADD
                "ENTRY e {\n  p = f32[64,1024] parameter(0)\n  z = f32[] constant(0)\n"
                "  ROOT r = f32[64,1009] reduce-window(p, z), window={size=1x16}, to_apply=a\n}\n"),
      &s));
  c->windowed_s = calibrate_above(s, base) / (64 * 1009 * 16);
  HS_TRY(calibrate_time(
      b, 1,
      hs_format("HloModule greatest\nw {\n  x = f32[] parameter(0)\n  i = s32[] parameter(1)\n"
                "  y = f32[] parameter(2)\n  j = s32[] parameter(3)\n"
                "  g = pred[] compare(x, y), direction=GE\n  v = f32[] select(g, x, y)\n"
                "  k = s32[] select(g, i, j)\n  ROOT t = (f32[], s32[]) tuple(v, k)\n}\n"
                "ENTRY e {\n  p = f32[256,256] parameter(0)\n"
                "  i = s32[256,256] iota(), iota_dimension=1\n  z = f32[] constant(-inf)\n"
                "  n = s32[] constant(0)\n  ROOT r = (f32[256], s32[256]) reduce(p, i, z, n), "
                "dimensions={1}, to_apply=w\n}\n"),
      &s));
  c->combined_s = calibrate_above(s, base) / (256 * 256 * 3);
  return HS_GOOD;
}

// ---- products and libraries ---------------------------------------------------------------------
// A run of XLA starts another thread, whose start varies by more than a small product takes. So
// these follow each other in a loop, each with the last one's result.
hs_status calibrate_cubes_xla(calibrate_bench *b, const char *type, const char *result,
                              const u32 *sizes, prof_curve *curve) {
  enum { SMALL = 64, TRIPS = 400 };
  for (u32 k = 0; k < curve->n && sizes[k] <= SMALL; k++) {
    u32 e = sizes[k];
    double s;
    HS_TRY(calibrate_time(
        b, 1,
        hs_format("HloModule dots\nbody {\n  s = (s32[], %s[%u,%u], %s[%u,%u]) parameter(0)\n"
                  "  i = s32[] get-tuple-element(s), index=0\n"
                  "  x = %s[%u,%u] get-tuple-element(s), index=1\n"
                  "  q = %s[%u,%u] get-tuple-element(s), index=2\n  one = s32[] constant(1)\n"
                  "  j = s32[] add(i, one)\n  d = %s[%u,%u] dot(x, q), lhs_contracting_dims={1}, "
                  "rhs_contracting_dims={0}\n  y = %s[%u,%u] convert(d)\n"
                  "  ROOT t = (s32[], %s[%u,%u], %s[%u,%u]) tuple(j, y, q)\n}\ncond {\n"
                  "  s = (s32[], %s[%u,%u], %s[%u,%u]) parameter(0)\n"
                  "  i = s32[] get-tuple-element(s), index=0\n  n = s32[] constant(%d)\n"
                  "  ROOT c = pred[] compare(i, n), direction=LT\n}\nENTRY e {\n"
                  "  p = %s[%u,%u] parameter(0)\n  q = %s[%u,%u] parameter(1)\n"
                  "  z = s32[] constant(0)\n"
                  "  t = (s32[], %s[%u,%u], %s[%u,%u]) tuple(z, p, q)\n"
                  "  w = (s32[], %s[%u,%u], %s[%u,%u]) while(t), condition=cond, body=body\n"
                  "  ROOT r = %s[%u,%u] get-tuple-element(w), index=1\n}\n",
                  type, e, e, type, e, e, type, e, e, type, e, e, result, e, e, type, e, e, type, e,
                  e, type, e, e, type, e, e, type, e, e, TRIPS, type, e, e, type, e, e, type, e, e,
                  type, e, e, type, e, e, type, e, e, type, e, e),
        &s));
    double rate = curve[0].x[k] / calibrate_above(s / TRIPS, b->c->loop_s + b->c->kernel_s);
    for (u32 all = 0; all < 2; all++) curve[all].y[k] = rate;
  }
  return HS_GOOD;
}

// Factorizations and solves: XLA makes loops of the instructions. What is left of them in a program
// that it has optimized are calls of LAPACK, as on the cpu backend: what was measured there, if
// anything was.
void calibrate_library_xla(calibrate_bench *b) {
  char key[192];
  bool found = false;
  prof_calibration *own = hs_calloc(1, sizeof *own);
  prof_calibration_key(key, "cpu", HLOSH_VERSION, b->threads);
  hs_status s = prof_calibration_load(key, own, &found);
  const prof_calibration *from = hs_ok(s) && found ? own : &prof_generic;
  hs_status_drop(s);
  b->c->solves[0] = from->solves[0];
  b->c->factors[0] = from->factors[0];
  hs_free(own);
}
