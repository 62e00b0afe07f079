// skip.h — a test that cannot run here says why; tests/run repeats it.
#ifndef TESTS_UNIT_SKIP_H
#define TESTS_UNIT_SKIP_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

// Used in the test function itself.
#define SKIP_TEST(why)                               \
  do {                                               \
    print_message("skip %s: %s\n", __func__, (why)); \
    skip();                                          \
  } while (0)

static inline void all_tests(void **why) { SKIP_TEST((const char *)*why); }

// The main of a program none of whose tests can run here: one skipped test that says why.
static inline int skip_all(const char *why) {
  const struct CMUnitTest tests[] = {cmocka_unit_test_prestate(all_tests, (void *)(uintptr_t)why)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}

#endif
