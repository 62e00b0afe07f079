// mlir.c — StableHLO, text or bytecode: what check_mlir says must hold of any bytes.
#include "tests/fuzz/target.h"

#include "tests/harness/checks.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
  check_counts counts = {0};
  hs_buf why = {0};
  FUZZ_CHECK(check_mlir((const char *)data, n, &counts, &why), "%s\n", hs_buf_cstr(&why));
  hs_buf_free(&why);
  return 0;
}
