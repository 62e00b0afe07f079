// narrow.c — the runtime kernels' conversions of runs of floats of 16 bits and less have the bits
// of core/types/float.c: every code of 8 bits, and numbers around every code of each type.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <string.h>
#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

#include "backends/cpu/rt/rt.h"
#include "core/types/float.h"

static bool is_narrow(hlo_dtype t) { return hlo_dtype_is_float(t) && hlo_dtype_storage(t) <= 2; }

static void widening_has_the_bits(void **state) {
  (void)state;
  u8 codes[256];
  float want[256], got[256];
  for (u32 k = 0; k < 256; k++) codes[k] = (u8)k;
  for (hlo_dtype t = 0; t < HLO_DTYPE_COUNT; t++) {
    if (!is_narrow(t)) continue;
    u32 n = 256 / (u32)hlo_dtype_storage(t);
    hlo_floats_to_f32(t, codes, want, n);
    cpu_to_f32(got, codes, t, n);
    assert_memory_equal(want, got, n * sizeof *want);
  }
}

// Bits of f32: all upper halves, with lower halves that decide about ties, and that do not.
static void narrowing_has_the_bits(void **state) {
  (void)state;
  static const u32 low[] = {0, 1, 0x7fff, 0x8000, 0x8001, 0xffff};
  enum { RUN = 256 * HS_COUNT(low) };
  u32 bits[RUN];
  u16 want[RUN], got[RUN];
  for (hlo_dtype t = 0; t < HLO_DTYPE_COUNT; t++)
    for (u32 high = 0; is_narrow(t) && high < 256; high++) {
      for (u32 k = 0; k < RUN; k++)
        bits[k] = high << 24 | k / HS_COUNT(low) << 16 | low[k % HS_COUNT(low)];
      float from[RUN];
      memcpy(from, bits, sizeof bits);
      hlo_floats_from_f32(t, from, want, RUN);
      cpu_from_f32(got, t, from, RUN);
      assert_memory_equal(want, got, RUN * hlo_dtype_storage(t));
    }
}

int main(void) {
#if defined(__x86_64__)
  _mm_setcsr(_mm_getcsr() | 0x8040);  // as every worker thread does
#endif
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(widening_has_the_bits),
      cmocka_unit_test(narrowing_has_the_bits),
  };
  return cmocka_run_group_tests_name("narrow", tests, NULL, NULL);
}
