// par.c — the pool of the cpu backend: every chunk runs once, whatever the number of threads, of
// chunks, and however busy the machine is; loops in chunks run where they stand; nothing is lost
// when loops follow each other without a pause or after a long one. Built under TSan too.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <sched.h>
#include <stdatomic.h>
#include <unistd.h>

#include "backends/cpu/cpu.h"

enum { CHUNKS = 1000 };

typedef struct tally {
  _Atomic u32 times[CHUNKS];
  u64 plain[CHUNKS];  // without synchronization of its own: the loop must order it
  _Atomic u32 most_thread;
} tally;

static void count(void *ctx, i64 k, u32 thread) {
  tally *t = ctx;
  atomic_fetch_add(&t->times[k], 1);
  t->plain[k] += (u64)k;
  if (thread > atomic_load(&t->most_thread)) atomic_store(&t->most_thread, thread);
}

static void every_chunk_once(void **state) {
  (void)state;
  for (u32 threads = 1; threads <= 5; threads++) {
    cpu_par_begin(threads);
    assert_int_equal(cpu_par_threads(), threads);
    for (i64 n = 0; n < 40; n++) {
      tally t = {0};
      for (u32 r = 1; r <= 20; r++) {
        cpu_par_for(count, &t, n);
        for (i64 k = 0; k < n; k++) {
          assert_int_equal(t.times[k], r);
          assert_int_equal(t.plain[k], (u64)k * r);
        }
      }
      assert_true(t.most_thread < threads);
    }
    cpu_par_end();
  }
}

static void many_loops_and_pauses(void **state) {
  (void)state;
  tally t = {0};
  cpu_par_begin(4);
  for (u32 r = 0; r < 3000; r++) {
    cpu_par_for(count, &t, CHUNKS / 10);
    if (r % 500 == 0) usleep(5000);  // the pool falls asleep
    if (r % 700 == 0) cpu_par_end(), cpu_par_begin(4);
  }
  cpu_par_end();
  for (u32 k = 0; k < CHUNKS / 10; k++) assert_int_equal(t.times[k], 3000);
}

static void outer(void *ctx, i64 k, u32 thread) {
  (void)k, (void)thread;
  cpu_par_for(count, ctx, CHUNKS);
}

static void loops_in_chunks(void **state) {
  (void)state;
  tally t[3] = {0};
  cpu_par_begin(3);
  for (u32 k = 0; k < 3; k++) cpu_par_for(outer, &t[k], 1);
  for (u32 k = 0; k < 3; k++)
    for (u32 j = 0; j < CHUNKS; j++) assert_int_equal(t[k].times[j], 1);
  cpu_par_end();
}

static void deep(void *ctx, i64 k, u32 thread) {
  (void)thread;
  _Atomic u32 *sum = ctx;
  tally *t = hs_calloc(1, sizeof *t);
  cpu_par_for(count, t, 7 + k);
  for (i64 j = 0; j < 7 + k; j++) atomic_fetch_add(sum, t->times[j]);
  hs_free(t);
}

static void loops_in_parallel_chunks(void **state) {
  (void)state;
  _Atomic u32 sum = 0;
  cpu_par_begin(3);
  cpu_par_for(deep, &sum, 20);
  cpu_par_end();
  assert_int_equal(sum, 20 * 7 + 19 * 20 / 2);
}

typedef struct places {
  int opener;  // its core
  _Atomic u32 others, beside;
} places;

static void note_place(void *ctx, i64 k, u32 thread) {
  (void)k;
  places *p = ctx;
  if (thread == 0) usleep(200);  // leaves the core, and the other chunks
  else if (sched_getcpu() == p->opener) atomic_fetch_add(&p->beside, 1);
  else atomic_fetch_add(&p->others, 1);
}

// With the opener bound to one core, nobody else computes there.
static void opener_alone_on_its_core(void **state) {
  (void)state;
  cpu_set_t all, one;
  assert_int_equal(sched_getaffinity(0, sizeof all, &all), 0);
  if (CPU_COUNT(&all) < 2) skip();
  cpu_par_begin(2);
  places p = {.opener = sched_getcpu()};
  CPU_ZERO(&one);
  CPU_SET((size_t)p.opener, &one);
  assert_int_equal(sched_setaffinity(0, sizeof one, &one), 0);
  for (u32 r = 0; r < 200; r++) cpu_par_for(note_place, &p, 4);
  assert_int_equal(sched_setaffinity(0, sizeof all, &all), 0);
  cpu_par_end();
  assert_int_equal(p.beside, 0);
  assert_true(p.others > 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_chunk_once),         cmocka_unit_test(many_loops_and_pauses),
      cmocka_unit_test(loops_in_chunks),          cmocka_unit_test(loops_in_parallel_chunks),
      cmocka_unit_test(opener_alone_on_its_core),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
