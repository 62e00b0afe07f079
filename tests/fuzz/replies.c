// replies.c — what a worker or a plug-in answers, as the shell takes it apart: timings,
// containers of records, and the frames' strings. Any bytes are an answer or an error.
#include "tests/fuzz/target.h"
#include "backends/block.h"
#include "backends/pjrt/records.h"

#include <math.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
  for (u32 kernels = 0; kernels < 4; kernels++) {
    wire_reader r = {.p = (const char *)data, .n = n};
    backend_result result = {0};
    hs_status s = block_get_timing(&r, kernels, &result.timing);
    if (hs_ok(s)) {
      const backend_timing *t = &result.timing;
      const prof_recording *rec = t->kernels;
      FUZZ_CHECK(t->first_ms >= 0 && t->transfer_ms >= 0 && t->dispatch_ms >= -1, "a time\n");
      FUZZ_CHECK(!rec || rec->nkernels == kernels, "not for %u kernels\n", kernels);
      for (u32 k = 0; k < t->runs; k++)
        FUZZ_CHECK(isfinite(t->samples_ms[k]) && t->samples_ms[k] >= 0, "sample %u\n", k);
      for (u32 k = 0; rec && k < kernels; k++)
        FUZZ_CHECK(isfinite(prof_recorded_kernel(rec, k).median), "kernel %u\n", k);
      for (u32 k = 0; rec && k < rec->nevents; k++)
        FUZZ_CHECK(rec->events[k].kernel < kernels &&
                       (!k || rec->events[k].begin_ns >=
                                  rec->events[k - 1].begin_ns + rec->events[k - 1].ns),
                   "event %u\n", k);
    }
    hs_status_drop(s);
    backend_result_free(&result);
  }
  wire_reader r = {.p = (const char *)data, .n = n};
  size_t taken = 0;
  for (u32 k = 0; k < 64 && !r.bad; k++) {
    hs_str s = k % 2 ? wire_get_str(&r) : wire_get_bytes(&r);
    taken += s.n;
    FUZZ_CHECK(s.n == 0 || (s.p >= (const char *)data && s.p + s.n <= (const char *)data + n),
               "a string outside of the reply\n");
  }
  FUZZ_CHECK(taken <= n, "%zu bytes of %zu\n", taken, n);
  hs_buf b = {0};
  (void)records_read((const char *)data, n, &b);
  hs_buf_free(&b);
  return 0;
}
