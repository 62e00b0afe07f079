// target.h — what a fuzz target is: one function, called by libFuzzer (make fuzz) or by replay.c
// (make check). It returns 0 whatever the input; a crash, a hang, a leak or a report of the
// sanitizers is a finding, and so is an abort of its own.
#ifndef TESTS_FUZZ_TARGET_H
#define TESTS_FUZZ_TARGET_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

// A property that must hold of every input.
#define FUZZ_CHECK(x, ...)                                    \
  do {                                                        \
    if (!(x)) {                                               \
      fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #x); \
      fprintf(stderr, __VA_ARGS__);                           \
      abort();                                                \
    }                                                         \
  } while (0)

#endif
