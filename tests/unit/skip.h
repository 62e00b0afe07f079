// skip.h — a test that cannot run here says why; tests/run repeats it. Used in the test function
// itself.
#ifndef TESTS_UNIT_SKIP_H
#define TESTS_UNIT_SKIP_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#define SKIP_TEST(why)                               \
  do {                                               \
    print_message("skip %s: %s\n", __func__, (why)); \
    skip();                                          \
  } while (0)

#endif
