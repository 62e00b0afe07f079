// proto.c — serialized modules, snapshots and their text form: an error or a module. A module
// that is read is written, in both forms, and each is read back to the same text.
#include "tests/fuzz/target.h"
#include "core/proto/proto.h"
#include "tests/harness/checks.h"
#include "tests/harness/mutate.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
  check_counts counts = {0};
  hs_buf why = {0};
  bool ok = check_proto((const char *)data, n, &counts, &why);
  FUZZ_CHECK(ok, "%s\n", hs_buf_cstr(&why));
  hs_buf_free(&why);
  return 0;
}

static void by_fields(u64 *state, hs_buf *b) {
  if (b->n && hlo_is_proto_text(b->p, b->n)) mutate_text(state, b, NULL, 0, 1);
  else mutate_proto(state, b, NULL, 0, 1);
}
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t n, size_t most, unsigned seed) {
  return fuzz_mutate(data, n, most, seed, by_fields);
}
