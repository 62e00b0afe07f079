// snapshot_write.c — a module with its arguments and result as an HloSnapshot (hlo = 1,
// arguments = 2, result = 3, execution_platform = 4): what run_hlo_module runs on its own inputs.
#include "core/proto/wire.h"
#include "core/proto/write.h"

hs_status hlo_proto_write_snapshot(hs_buf *b, const hlo_module *m, u32 n, hlo_literal *const *args,
                                   const hlo_literal *result, const char *platform) {
  size_t begin = b->n, mark = pb_begin(b);
  hs_status s = hlo_proto_write(b, m, true);
  pb_end(b, 1, mark);
  bool whole = true;
  for (u32 k = 0; k < n && hs_ok(s); k++) whole &= proto_put_literal(b, m->ctx, 2, args[k]);
  if (result && hs_ok(s)) whole &= proto_put_literal(b, m->ctx, 3, result);
  if (hs_ok(s) && !whole) s = hs_fail(HS_E_ELIDED, "an argument or result has no value");
  if (hs_ok(s)) proto_put_str(b, 4, hs_str_of(platform));
  else b->n = begin;
  return s;
}
