// recording.c: what a recording of kernels says once the probes' own cost is taken off, and which
// recordings of another process are believed.
#include "profiler/record.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>

// Two kernels, the second executed 10 times in each of three runs; a probe costs 1 us.
static prof_recording *made(void) {
  prof_recording *r = hs_calloc(1, sizeof *r);
  static const double run_ms[] = {1.0, 1.1, 1.2}, ms[] = {0.2, 0.5, 0.3, 0.5, 0.4, 0.5};
  *r = (prof_recording){.nkernels = 2, .nruns = 3, .nevents = 1, .dropped = 10, .probe_ns = 1000};
  r->run_ms = hs_calloc(3, sizeof *r->run_ms);
  r->ms = hs_calloc(6, sizeof *r->ms);
  r->calls = hs_calloc(2, sizeof *r->calls);
  r->events = hs_calloc(1, sizeof *r->events);
  memcpy(r->run_ms, run_ms, sizeof run_ms);
  memcpy(r->ms, ms, sizeof ms);
  r->calls[0] = 1, r->calls[1] = 10;
  r->events[0] = (prof_event){.begin_ns = 5, .ns = 10, .kernel = 1};
  return r;
}

static void near(double got, double want) { assert_true(fabs(got - want) < 1e-9); }

static void probes_are_taken_off(void **state) {
  (void)state;
  prof_recording *r = made();
  assert_true(prof_recording_is_sound(r));
  // half a probe lies in each execution of a kernel, a whole one in the run
  near(prof_recorded_kernel(r, 0).median, 0.3 - 0.0005);
  near(prof_recorded_kernel(r, 1).median, 0.5 - 0.005);
  near(prof_recorded_run(r).median, 1.1 - 0.011);
  prof_recording_free(r);
}

// 0.3, 0.3 and 0.3 ms remain in the three runs, whichever kernel was slow.
static void the_rest_is_of_each_run(void **state) {
  (void)state;
  prof_recording *r = made();
  near(prof_recorded_rest(r).median, 0.3 - 0.0055);
  near(prof_recorded_rest(r).max, 0.3 - 0.0055);
  prof_recording_free(r);
}

static void times_are_never_negative(void **state) {
  (void)state;
  prof_recording *r = made();
  r->probe_ns = 1e9;
  near(prof_recorded_kernel(r, 1).median, 0);
  assert_true(prof_recorded_run(r).median >= 0);
  prof_recording_free(r);
}

static void unsound_ones_are_refused(void **state) {
  (void)state;
  prof_recording *r = made();
  r->events[0].kernel = 2;
  assert_false(prof_recording_is_sound(r));
  r->events[0].kernel = 1;
  r->ms[3] = -1;
  assert_false(prof_recording_is_sound(r));
  r->ms[3] = 0.5;
  r->probe_ns = -1;
  assert_false(prof_recording_is_sound(r));
  r->probe_ns = 1000;
  r->slowdown = NAN;
  assert_false(prof_recording_is_sound(r));
  r->slowdown = 1.01;
  assert_true(prof_recording_is_sound(r));
  prof_recording_free(r);
  prof_recording_free(NULL);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(probes_are_taken_off),
      cmocka_unit_test(the_rest_is_of_each_run),
      cmocka_unit_test(times_are_never_negative),
      cmocka_unit_test(unsound_ones_are_refused),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
