// perf_events.c: samples of a process, here this one, are addresses of what it executes.
#include "profiler/perf_events.h"

#include "tests/unit/skip.h"

#include <unistd.h>

static volatile u64 n;  // so that it is executed as written

static __attribute__((noinline)) void spin(u64 ns) {
  for (u64 end = hs_now_ns() + ns; hs_now_ns() < end;)
    for (int k = 0; k < 100000; k++) n += (u64)k;
}

static void samples_lie_in_what_runs(void **state) {
  (void)state;
  prof_sampler *s;
  hs_status open = prof_sampler_open(getpid(), 1000, &s);
  bool allowed = hs_ok(open);
  if (!allowed) {
    assert_int_equal(open.err->code, HS_E_UNSUPPORTED);
    assert_non_null(open.err->note);
    hs_status_drop(open);
    SKIP_TEST("the kernel does not allow perf events");
  }
  prof_addresses seen = {0};
  u64 lost = 0, in = 0;
  assert_true(prof_sampler_threads(s) >= 1);
  spin(300 * 1000 * 1000);
  prof_sampler_read(s, &seen, &lost);
  assert_true(seen.n >= 10);
  u64 spin_at = (u64)(uintptr_t)spin;
  for (size_t k = 0; k < seen.n; k++) in += seen.v[k] >= spin_at && seen.v[k] < spin_at + 512;
  assert_true(in > seen.n / 2);
  size_t before = seen.n;
  prof_sampler_close(s);
  assert_int_equal(seen.n, before);
  hs_vec_free(&seen);
}

static void a_process_that_is_not_there(void **state) {
  (void)state;
  prof_sampler *s;
  hs_status open = prof_sampler_open(0x3ffffff, 1000, &s);
  assert_false(hs_ok(open));
  assert_null(s);
  hs_status_drop(open);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(samples_lie_in_what_runs),
      cmocka_unit_test(a_process_that_is_not_there),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
