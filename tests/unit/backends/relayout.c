// relayout.c — copies from one order of elements to another, beside a loop over all elements, for
// orders of both sides drawn at random, mirrored and repeated dims, every size of an element, small
// and on several threads.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "backends/cpu/rt/rt.h"

static u64 seed = 1;
static u32 draw(u32 n) {
  seed = seed * 6364136223846793005u + 1442695040888963407u;
  return (u32)(seed >> 33) % n;
}

// Dense strides of the dims in an order drawn at random.
static void random_order(u32 rank, const i64 *dims, i64 *strides) {
  u32 order[8];
  i64 step = 1;
  for (u32 d = 0; d < rank; d++) order[d] = d;
  for (u32 d = rank; d-- > 1;) {
    u32 k = draw(d + 1), t = order[d];
    order[d] = order[k];
    order[k] = t;
  }
  for (u32 d = 0; d < rank; d++) {
    strides[order[d]] = step;
    step *= dims[order[d]];
  }
}

static void one_copy(u32 rank, const i64 *dims, size_t elem) {
  i64 ds[8], ss[8], total = 1, from = 0;
  for (u32 d = 0; d < rank; d++) total *= dims[d];
  random_order(rank, dims, ds);
  random_order(rank, dims, ss);
  for (u32 d = 0; d < rank; d++) {
    u32 how = draw(6);
    if (how == 0) ss[d] = 0;
    if (how == 1) from += ss[d] * (dims[d] - 1), ss[d] = -ss[d];
  }
  size_t bytes = (size_t)total * elem;
  u8 *src = hs_alloc(bytes + 1), *got = hs_alloc(bytes + 1), *want = hs_alloc(bytes + 1);
  for (size_t k = 0; k < bytes; k++) src[k] = (u8)draw(256);
  memset(got, 0, bytes);
  for (i64 k = 0; k < total; k++) {
    i64 q = k, to = 0, at = from;
    for (u32 d = rank; d-- > 0; q /= dims[d]) {
      to += q % dims[d] * ds[d];
      at += q % dims[d] * ss[d];
    }
    memcpy(want + (size_t)to * elem, src + (size_t)at * elem, elem);
  }
  cpu_relayout(got, ds, src + (size_t)from * elem, ss, rank, dims, elem);
  assert_memory_equal(got, want, bytes);
  hs_free(src);
  hs_free(got);
  hs_free(want);
}

static void small(void **state) {
  (void)state;
  for (u32 k = 0; k < 3000; k++) {
    i64 dims[8];
    u32 rank = draw(6);
    for (u32 d = 0; d < rank; d++) dims[d] = 1 + draw(6);
    one_copy(rank, dims, (size_t)1 << draw(5));
  }
}

static void large(void **state) {
  (void)state;
  static const i64 dims[][4] = {{700, 301, 1, 1}, {3, 3, 100, 130}, {400000, 1, 1, 1},
                                {2, 5, 40, 700},  {33, 1, 65, 90},  {100000, 3, 1, 1}};
  cpu_par_begin(3);
  for (size_t k = 0; k < HS_COUNT(dims); k++)
    for (u32 r = 0; r < 12; r++) one_copy(4, dims[k], (size_t)1 << (r % 5));
  cpu_par_end();
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(small), cmocka_unit_test(large)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
