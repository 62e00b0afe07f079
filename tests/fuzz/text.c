// text.c — HLO text: any bytes give errors, each with its place, or a module; the module's own
// print parses again, and the second print is the first.
#include "core/text/text.h"
#include "core/verify/verify.h"
#include "tests/fuzz/target.h"

static void drop_errors(hs_status s) {
  hs_buf b = {0};
  hs_status_render(s, &b, false);
  FUZZ_CHECK(b.n > 0, "an error without a text\n");
  hs_buf_free(&b);
  hs_status_drop(s);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
  hlo_ctx *ctx = hlo_ctx_new();
  hlo_module *m = NULL, *again = NULL;
  hs_status s = hlo_parse(ctx, (const char *)data, n, NULL, &m);
  if (!hs_ok(s)) {
    drop_errors(s);
  } else {
    hs_buf first = {0}, second = {0};
    hlo_print_options o = hlo_print_full();
    hlo_print_module(&first, m, &o);
    s = hlo_parse(ctx, first.p, first.n, NULL, &again);
    FUZZ_CHECK(hs_ok(s), "%s\n%s\n", s.err->message, hs_buf_cstr(&first));
    hlo_print_module(&second, again, &o);
    FUZZ_CHECK(first.n == second.n && memcmp(first.p, second.p, first.n) == 0, "%s\n---\n%s\n",
               hs_buf_cstr(&first), hs_buf_cstr(&second));
    hs_status v = hlo_verify(m, NULL);
    if (!hs_ok(v)) drop_errors(v);
    hs_buf_free(&first);
    hs_buf_free(&second);
  }
  hlo_module_free(again);
  hlo_module_free(m);
  hlo_ctx_free(ctx);
  return 0;
}
