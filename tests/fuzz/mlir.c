// mlir.c — StableHLO text: any bytes give errors, each with a text, or a module that prints and
// parses again, and, where it is valid and StableHLO can say it, prints as StableHLO that is read.
#include "tests/fuzz/target.h"

#include "core/mlir/mlir.h"
#include "core/verify/verify.h"

// A module as StableHLO, read as it is written.
static void check_back(hlo_ctx *ctx, const hlo_module *m) {
  const hlo_parse_options o = {.as_written = true};
  hs_buf text = {0};
  hlo_module *again = NULL;
  hs_status s = hlo_verify(m, NULL);
  if (hs_ok(s)) s = hlo_mlir_print(m, &text);
  bool printed = hs_ok(s);
  hs_status_drop(s);
  if (printed) {
    s = hlo_mlir_check(ctx, text.p, text.n, &o);
    FUZZ_CHECK(hs_ok(s), "the print as StableHLO is not read: %s\n", s.err->message);
    hs_status_drop(s);
    // what is written may be more than HLO's rules of shapes allow
    s = hlo_mlir_read(ctx, text.p, text.n, &o, &again);
    hs_status_drop(s);
  }
  hlo_module_free(again);
  hs_buf_free(&text);
}

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
    check_back(ctx, m);
  } else {
    FUZZ_CHECK(s.err->message && *s.err->message, "an error without a text\n");
  }
  hs_status_drop(s);
  hlo_module_free(again);
  hlo_module_free(m);
  hlo_ctx_free(ctx);
  return 0;
}
