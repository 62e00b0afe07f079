// mlir.c — StableHLO text: any bytes give errors, each with a text, or a module that prints and
// parses again.
#include "tests/fuzz/target.h"

#include "core/mlir/mlir.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
  hlo_ctx *ctx = hlo_ctx_new();
  hlo_module *m = NULL, *again = NULL;
  hs_status s = hlo_mlir_read(ctx, (const char *)data, n, NULL, &m);
  if (hs_ok(s)) {
    hs_buf text = {0};
    hlo_print_options o = hlo_print_full();
    hlo_print_module(&text, m, &o);
    s = hlo_parse(ctx, text.p, text.n, NULL, &again);
    FUZZ_CHECK(hs_ok(s), "the print of a converted module does not parse: %s\n", s.err->message);
    hs_buf_free(&text);
  } else {
    FUZZ_CHECK(s.err->message && *s.err->message, "an error without a text\n");
  }
  hs_status_drop(s);
  hlo_module_free(again);
  hlo_module_free(m);
  hlo_ctx_free(ctx);
  return 0;
}
