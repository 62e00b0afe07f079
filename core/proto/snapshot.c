// snapshot.c — the recorded arguments and result of an HloSnapshot (hlo = 1, arguments = 2,
// result = 3) and the arguments of an HloUnoptimizedSnapshot (hlo_module = 1, partitions = 2, each
// with arguments = 1). Messages: xla/service/hlo.proto.
#include "core/proto/read.h"
#include "core/proto/schema.h"
#include "core/proto/text.h"

static hlo_literal **read_literals(proto_reader *r, pb m, u32 num, u32 *count) {
  HS_VEC(hlo_literal *) list = {0};
  for (pb_field f; !r->failed && pb_next(&m, &f);) {
    if (f.num != num || f.wire != 2) continue;
    hlo_literal *l = proto_literal(r, f.sub);
    if (l) hs_vec_push(&list, l);
  }
  *count = (u32)list.n;
  return list.v;
}

static void free_literals(hlo_literal **list, u32 count) {
  for (u32 k = 0; k < count; k++) hlo_literal_unref(list[k]);
  hs_free(list);
}

static hs_status read_values(proto_reader *r, const proto_plain_form *plain, const char *file,
                             u32 partition, hlo_literal ***out, u32 *count, hlo_literal **result) {
  pb m = plain->m, from = m;
  pb_field f;
  u32 num = 2, k = 0;
  if (plain->root == PB_HloUnoptimizedSnapshot) {  // partitions, one message each
    bool found = false;
    while (pb_next(&m, &f))
      if (f.num == 2 && f.wire == 2 && k++ == partition) {
        from = f.sub;
        found = true;
      }
    if (!found)
      return k ? hs_fail(HS_E_INPUT, "%s: has the inputs of %u partitions, not of partition %u",
                         file, k, partition)
               : HS_GOOD;
    num = 1;
  } else if (result && pb_get(m, 3, &f) && f.wire == 2) {
    *result = proto_literal(r, f.sub);
  }
  *out = read_literals(r, from, num, count);
  if (!r->failed) return HS_GOOD;
  free_literals(*out, *count);
  *out = NULL;
  *count = 0;
  if (result) {
    hlo_literal_unref(*result);
    *result = NULL;
  }
  return hs_fail(HS_E_PROTO, "%s: %s", file, hs_buf_cstr(&r->message));
}

hs_status hlo_proto_read_arguments(hlo_ctx *ctx, const void *p, size_t n, const char *file,
                                   u32 partition, hlo_literal ***out, u32 *count,
                                   hlo_literal **result) {
  *out = NULL;
  *count = 0;
  if (result) *result = NULL;
  hs_buf made = {0};
  proto_plain_form plain = {.root = pb_text_root(p, n)};
  hs_status s = HS_GOOD;
  if (plain.root) {
    s = pb_from_text(&made, p, n, file, plain.root, NULL);
    plain.m = (pb){(const u8 *)made.p, (const u8 *)made.p + made.n, false};
  } else if (hlo_is_proto(p, n)) {
    s = proto_plain(ctx, p, n, file, &made, &plain);
  }
  if (hs_ok(s) && (plain.root == PB_HloSnapshot || plain.root == PB_HloUnoptimizedSnapshot)) {
    hs_arena arena = {0};
    proto_reader r = {.ctx = ctx, .arena = &arena};
    s = read_values(&r, &plain, file, partition, out, count, result);
    hs_buf_free(&r.message);
    hs_vec_free(&r.ints);
    hs_arena_free(&arena);
  }
  hs_buf_free(&made);
  return s;
}
