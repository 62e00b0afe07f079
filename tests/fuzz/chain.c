// chain.c — a module's whole way (tests/harness/chain.h): load, verify, estimates, pictures, the
// evaluator against the cpu backend, passes and pipelines. Which passes is decided by the input.
#include "tests/fuzz/target.h"
#include "backends/worker.h"
#include "tests/harness/chain.h"
#include "tests/harness/mutate.h"

int LLVMFuzzerInitialize(int *argc, char ***argv) {
  int status;
  if (worker_entry(*argc, *argv, &status)) exit(status);
  return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
  chain c = {.passes = 8};
  chain_counts counts = {0};
  hs_buf why = {0};
  chain_open(&c);
  bool ok = chain_check(&c, (const char *)data, n, hs_hash_bytes(data, n, 1), &counts, &why);
  FUZZ_CHECK(ok, "%s\n", hs_buf_cstr(&why));
  chain_close(&c);
  hs_buf_free(&why);
  return 0;
}

static void by_tokens(u64 *state, hs_buf *b) { mutate_text(state, b, NULL, 0, 1); }
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t n, size_t most, unsigned seed) {
  return fuzz_mutate(data, n, most, seed, by_tokens);
}
