// text.c — HLO text: any bytes give errors, each with its place, or a module; the module's own
// print parses again, and the second print is the first.
#include "tests/fuzz/target.h"
#include "tests/harness/checks.h"
#include "tests/harness/mutate.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
  check_counts counts = {0};
  hs_buf why = {0};
  bool ok = check_text((const char *)data, n, &counts, &why);
  FUZZ_CHECK(ok, "%s\n", hs_buf_cstr(&why));
  hs_buf_free(&why);
  return 0;
}

static void by_tokens(u64 *state, hs_buf *b) { mutate_text(state, b, NULL, 0, 1); }
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t n, size_t most, unsigned seed) {
  return fuzz_mutate(data, n, most, seed, by_tokens);
}
