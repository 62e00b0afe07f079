// target.h — what a fuzz target is: one function, called by libFuzzer (make fuzz) or by replay.c
// (make check). It returns 0 whatever the input; a crash, a hang, a leak or a report of the
// sanitizers is a finding, and so is an abort of its own.
#ifndef TESTS_FUZZ_TARGET_H
#define TESTS_FUZZ_TARGET_H

#include "core/base/base.h"

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

// Called first, where a target defines it: backends run in a worker, which is this program again.
int LLVMFuzzerInitialize(int *argc, char ***argv) __attribute__((weak));

// libFuzzer's own changes; NULL without it.
size_t LLVMFuzzerMutate(uint8_t *data, size_t n, size_t most) __attribute__((weak));
// What libFuzzer calls, where a target defines it, to change an input in place; gives its new
// length.
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t n, size_t most, unsigned seed);
// That by a function which knows the input's structure, three times out of four.
static inline size_t fuzz_mutate(uint8_t *data, size_t n, size_t most, unsigned seed,
                                 void (*change)(u64 *state, hs_buf *)) {
  if (LLVMFuzzerMutate && seed % 4 == 0) return LLVMFuzzerMutate(data, n, most);
  u64 state = seed;
  hs_buf b = {0};
  if (n) hs_buf_put(&b, (const char *)data, n);
  change(&state, &b);
  n = HS_MIN(b.n, most);
  if (n) memcpy(data, b.p, n);
  hs_buf_free(&b);
  return n;
}

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
