// between.c: repeated measurements that differ more than they know (profiler/stats.h).
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "profiler/stats.h"

static u64 state = 1;
static double uniform(void) {
  state = hs_mix(state, 7);
  return ((double)(state >> 12) + 0.5) * 0x1p-52;
}
// Box and Muller
static double normal(void) { return sqrt(-2 * log(uniform())) * cos(2 * M_PI * uniform()); }

// A run of program `key`, whose ratio is 2, with a standard error of 1 % within and `between` more.
static prof_measured run(u64 key, double between, u32 level) {
  return (prof_measured){key, 2 * exp(0.01 * normal() + between * normal()), 1.96 * 0.01, level};
}

static void add(prof_history *h, prof_measured m) { hs_vec_push(h, m); }

// Of 2000 fresh pairs, those that agree when their intervals are wider by what h says.
static u32 agreeing(const prof_history *h, double between) {
  double width = prof_between_of(h, 0).width;
  u32 n = 0;
  for (u32 k = 0; k < 2000; k++) {
    prof_measured a = run(0, between, 0), b = run(0, between, 0);
    n += fabs(log(a.ratio / b.ratio)) <= hypot(hypot(a.width, width), hypot(b.width, width));
  }
  return n;
}

static void pairs_agree_19_of_20(void **st) {
  (void)st;
  static const double sizes[] = {0, 0.02, 0.05};
  for (u32 s = 0; s < HS_COUNT(sizes); s++) {
    u32 n = 0, tries = 20;
    double width = 0;
    for (u32 t = 0; t < tries; t++) {
      prof_history h = {0};
      for (u32 k = 0; k < 80; k++) add(&h, run(k / 2, sizes[s], 0));
      n += agreeing(&h, sizes[s]);
      width += prof_between_of(&h, 0).width / tries;
      hs_vec_free(&h);
    }
    assert_true(n >= 0.94 * 2000 * tries);
    assert_true(width < 1.96 * sizes[s] * 1.5 + 0.01);  // and not far more than it takes
  }
}

static void few_pairs_say_nothing(void **st) {
  (void)st;
  prof_history h = {0};
  for (u32 k = 0; k < 4; k++) add(&h, run(k / 2, 0.05, 0));
  for (u32 k = 0; k < 30; k++) add(&h, run(100 + k, 0.05, 0));  // each of its own
  prof_between b = prof_between_of(&h, 0);
  assert_int_equal(b.pairs, 2);
  assert_true(b.width == 0);
  hs_vec_free(&h);
}

// A busy machine says nothing about a quiet one; what was too noisy says nothing at all.
static void quiet_pairs_alone(void **st) {
  (void)st;
  prof_history h = {0};
  for (u32 k = 0; k < 20; k++) add(&h, run(k / 2, 0, 0));
  for (u32 k = 0; k < 20; k++) add(&h, run(50 + k / 2, 0.2, 2));
  prof_measured wild = {7, 9, 0.5, 0};
  add(&h, wild);
  wild.ratio = 1;
  add(&h, wild);
  prof_between quiet = prof_between_of(&h, 0), all = prof_between_of(&h, 2);
  assert_int_equal(quiet.pairs, 10);
  assert_int_equal(all.pairs, 20);
  assert_true(quiet.width < 0.03 && all.width > 0.1);
  hs_vec_free(&h);
}

// On a machine that is seldom quiet the first quiet run knows what louder ones have shown.
static void next_level_while_pairs_are_few(void **st) {
  (void)st;
  prof_history h = {0};
  for (u32 k = 0; k < 20; k++) add(&h, run(k / 2, 0.05, 1));
  for (u32 k = 0; k < 20; k++) add(&h, run(20 + k / 2, 0.3, 2));
  for (u32 k = 0; k < 6; k++) add(&h, run(50 + k / 2, 0, 0));  // three pairs
  prof_between b = prof_between_of(&h, 0);
  assert_int_equal(b.pairs, 13);
  assert_true(b.width == prof_between_of(&h, 1).width && b.width > 0.03);
  for (u32 k = 0; k < 2; k++) add(&h, run(60, 0, 0));  // the fourth
  assert_int_equal(prof_between_of(&h, 0).pairs, 4);
  assert_true(prof_between_of(&h, 0).width < b.width);
  hs_vec_free(&h);
}

// What a machine was like long ago counts no more.
static void forgets(void **st) {
  (void)st;
  prof_history h = {0};
  for (u32 k = 0; k < 80; k++) add(&h, run(k / 2, 0.3, 0));
  assert_true(prof_between_of(&h, 0).width > 0.2);
  for (u32 k = 0; k < 80; k++) add(&h, run(100 + k / 2, 0, 0));
  assert_true(prof_between_of(&h, 0).width < 0.03);
  hs_vec_free(&h);
}

static void kept_as_text(void **st) {
  (void)st;
  prof_history h = {0}, back = {0};
  for (u32 k = 0; k < 500; k++) add(&h, run(k, 0.1, k % 3));
  hs_buf text = {0};
  prof_history_print(&h, &text);
  hs_buf_puts(&text, "no measurement\n12 nan 0.1 0\n12 1 -1 0\n12 1 0.1");
  prof_history_parse(text.p, text.n, &back);
  assert_int_equal(back.n, 400);  // the newest
  for (u32 k = 0; k < 400; k++) {
    assert_true(back.v[k].key == h.v[100 + k].key && back.v[k].ratio == h.v[100 + k].ratio);
    assert_true(fabs(back.v[k].width - h.v[100 + k].width) < 1e-6);
    assert_true(back.v[k].level == h.v[100 + k].level);
  }
  hs_buf_free(&text);
  hs_vec_free(&h);
  hs_vec_free(&back);
}

static void wider(void **st) {
  (void)st;
  prof_interval i = prof_interval_with((prof_interval){2, 2 / exp(0.03), 2 * exp(0.03)}, 0.04);
  assert_true(i.value == 2);
  assert_true(fabs(log(i.high / 2) - 0.05) < 1e-12 && fabs(log(2 / i.low) - 0.05) < 1e-12);
  i = prof_interval_with((prof_interval){0, 0, 0}, 0.04);
  assert_true(i.high == 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(pairs_agree_19_of_20),
      cmocka_unit_test(few_pairs_say_nothing),
      cmocka_unit_test(quiet_pairs_alone),
      cmocka_unit_test(forgets),
      cmocka_unit_test(next_level_while_pairs_are_few),
      cmocka_unit_test(kept_as_text),
      cmocka_unit_test(wider),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
