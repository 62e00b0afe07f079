// proto.c — serialized modules and their text form: an error or a module. A module that is read
// is written, in both forms, and each is read back to the same text.
#include <string.h>

#include "core/proto/proto.h"
#include "core/text/text.h"
#include "core/verify/verify.h"
#include "tests/fuzz/target.h"

static void print(hs_buf *b, const hlo_module *m) {
  hlo_print_options o = hlo_print_full();
  b->n = 0;
  hlo_print_module(b, m, &o);
}

static void check_back(hlo_ctx *ctx, const hlo_module *m, const hs_buf *want, bool text) {
  hs_buf bytes = {0}, got = {0};
  u32 lost;
  hlo_module *back = NULL;
  hs_status s = hlo_proto_save(&bytes, m, HLO_PROTO_AS_READ, text, &lost);
  if (hs_ok(s)) {
    // Fields may be lost here: unknown ones inside messages that the opcode has no use for.
    s = text ? hlo_proto_read_text(ctx, bytes.p, bytes.n, "back", &back)
             : hlo_proto_read(ctx, bytes.p, bytes.n, "back", &back);
    FUZZ_CHECK(hs_ok(s), "%s\n%s\n", s.err->message, hs_buf_cstr(&bytes));
    print(&got, back);
    bool payload = text && memmem(want->p, want->n, "nan", 3);  // the text form knows one NaN only
    FUZZ_CHECK(payload || (got.n == want->n && memcmp(got.p, want->p, got.n) == 0),
               "%.*s\n---\n%s\n", (int)want->n, want->p, hs_buf_cstr(&got));
  }
  hs_status_drop(s);
  hlo_module_free(back);
  hs_buf_free(&bytes);
  hs_buf_free(&got);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
  hlo_ctx *ctx = hlo_ctx_new();
  hlo_module *m = NULL;
  bool text = hlo_is_proto_text((const char *)data, n);
  hs_status s = text ? hlo_proto_read_text(ctx, (const char *)data, n, "fuzz", &m)
                     : hlo_proto_read(ctx, data, n, "fuzz", &m);
  if (m) {
    hs_buf want = {0};
    print(&want, m);
    hs_status_drop(hlo_verify(m, NULL));
    check_back(ctx, m, &want, false);
    check_back(ctx, m, &want, true);
    hs_buf_free(&want);
  } else {
    FUZZ_CHECK(!hs_ok(s), "neither a module nor an error\n");
  }
  hs_status_drop(s);
  hlo_literal **args, *result = NULL;
  u32 count;
  s = hlo_proto_read_arguments(ctx, data, n, "fuzz", 0, &args, &count, &result);
  for (u32 k = 0; k < count; k++) hlo_literal_unref(args[k]);
  if (hs_ok(s)) hs_free(args);
  hs_status_drop(s);
  hlo_literal_unref(result);
  hlo_module_free(m);
  hlo_ctx_free(ctx);
  return 0;
}
