// profile.c — profiles of XLA (XSpace): an error or recordings, whose sums can be computed.
#include "tests/fuzz/target.h"
#include "profiler/xplane.h"
#include "tests/harness/mutate.h"

#include <math.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
  prof_xspace x;
  (void)prof_is_xspace(data, n);
  hs_status s = prof_xspace_read(data, n, "profile", &x);
  for (u32 k = 0; hs_ok(s) && k < x.nprograms; k++) {
    const prof_recording *r = x.programs[k].rec;
    FUZZ_CHECK(r->nruns && r->nkernels, "an empty program\n");
    double sum = prof_recorded_run(r).median;
    for (u32 q = 0; q < r->nkernels; q++) sum += prof_recorded_kernel(r, q).median;
    FUZZ_CHECK(isfinite(sum) && sum >= 0, "%g ms\n", sum);
  }
  hs_status_drop(s);
  prof_xspace_free(&x);
  return 0;
}

static void by_fields(u64 *state, hs_buf *b) { mutate_proto(state, b, NULL, 0, 1); }
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t n, size_t most, unsigned seed) {
  return fuzz_mutate(data, n, most, seed, by_fields);
}
