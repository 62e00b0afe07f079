// proto.c — modules as protocol buffers: what is written reads back as the same text, wrapped or bare; damage is an error.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "core/proto.h"
#include "core/text.h"

#include <stdlib.h>

static const char *const modules[] = {
    "HloModule a, input_output_alias={ {0}: (0, {}, must-alias) }, frontend_attributes={k=\"v\"}\n"
    "add { x = f32[] parameter(0) y = f32[] parameter(1) ROOT s = f32[] add(x, y) }\n"
    "ENTRY e { p = f32[4,8]{0,1} parameter(0), sharding={devices=[2,2]<=[2,2]T(1,0)} c = f32[2,2]{0,1} constant({{1,-2},{3.5,inf}})\n"
    "  z = f32[] constant(0) r = f32[4] reduce(p, z), dimensions={1}, to_apply=add, metadata={op_name=\"r\" source_line=7}\n"
    "  d = f32[8,8] dot(p, p), lhs_contracting_dims={0}, rhs_contracting_dims={0}, operand_precision={high,default}\n"
    "  g = f32[1,8] slice(p), slice={[0:4:4], [0:8]}\n ROOT t = tuple(p, r, d, g, c) }",
    "HloModule w, is_scheduled=true\n"
    "cond { p = (s32[], pred[3]) parameter(0) i = s32[] get-tuple-element(p), index=0 n = s32[] constant(4)\n"
    "  ROOT l = pred[] compare(i, n), direction=LT }\n"
    "body { p = (s32[], pred[3]) parameter(0) i = s32[] get-tuple-element(p), index=0 o = s32[] constant(1) j = s32[] add(i, o)\n"
    "  q = pred[3] get-tuple-element(p), index=1 ROOT t = (s32[], pred[3]) tuple(j, q), control-predecessors={o} }\n"
    "ENTRY e { k = pred[3] constant({1,0,1}) z = s32[] constant(-7) t = (s32[], pred[3]) tuple(z, k)\n"
    "  ROOT w = (s32[], pred[3]) while(t), condition=cond, body=body, backend_config={\"n\":1} }",
    "HloModule c, replica_count=1\n"
    "add { x = bf16[] parameter(0) y = bf16[] parameter(1) ROOT s = bf16[] add(x, y) }\n"
    "ENTRY e { x = bf16[1,8,8,4] parameter(0) w = bf16[3,3,4,2] parameter(1)\n"
    "  v = bf16[1,8,8,2] convolution(x, w), window={size=3x3 pad=1_1x1_1}, dim_labels=b01f_01io->b01f\n"
    "  a = bf16[1,8,8,2] all-reduce(v), channel_id=1, replica_groups=[1,4]<=[2,2]T(1,0), use_global_device_ids=true, to_apply=add\n"
    "  i = s32[<=3] constant({1,2,3}) u = c64[2] constant({(1,2),(nan,0)})\n"
    "  ROOT k = (bf16[1,8,8,2], s4[5]) custom-call(a, u), custom_call_target=\"f\", api_version=API_VERSION_TYPED_FFI,\n"
    "    operand_layout_constraints={bf16[1,8,8,2]{3,2,1,0}, c64[2]{0}}, output_to_operand_aliasing={{0}: (0, {})} }"};

static hlo_module *parse(hlo_ctx *ctx, size_t k) {
  hlo_module *m;
  hs_status s = hlo_parse(ctx, modules[k], strlen(modules[k]), NULL, &m);
  if (s.err) print_error("%s\n", s.err->message);
  assert_true(hs_ok(s));
  return m;
}

static void written_reads_back(void **state) {
  (void)state;
  hlo_print_options o = hlo_print_full();
  for (size_t k = 0; k < sizeof modules / sizeof *modules; k++)
    for (int wrap = 0; wrap < 2; wrap++) {
      hlo_ctx *ctx = hlo_ctx_new();
      hlo_module *m = parse(ctx, k), *again;
      hs_buf bytes = {0}, want = {0}, got = {0};
      assert_true(hs_ok(hlo_proto_write(&bytes, m, wrap)));
      assert_true(hlo_is_proto(bytes.p, bytes.n));
      hs_status s = hlo_proto_read(ctx, bytes.p, bytes.n, "test", &again);
      if (s.err) print_error("%s\n", s.err->message);
      assert_true(hs_ok(s));
      hlo_print_module(&want, m, &o);
      hlo_print_module(&got, again, &o);
      assert_string_equal(hs_buf_cstr(&got), hs_buf_cstr(&want));
      hs_buf_free(&bytes);
      hs_buf_free(&want);
      hs_buf_free(&got);
      hlo_module_free(m);
      hlo_module_free(again);
      hlo_ctx_free(ctx);
    }
}

static void damage_is_an_error(void **state) {
  (void)state;
  hlo_ctx *ctx = hlo_ctx_new();
  for (size_t k = 0; k < sizeof modules / sizeof *modules; k++) {
    hlo_module *m = parse(ctx, k), *again;
    hs_buf bytes = {0};
    assert_true(hs_ok(hlo_proto_write(&bytes, m, false)));
    hlo_module_free(m);
    for (size_t cut = 0; cut < bytes.n; cut += 3) {
      hs_status s = hlo_proto_read(ctx, bytes.p, cut, "test", &again);
      hs_status_drop(s);
      hlo_module_free(again);
    }
    for (size_t at = 0; at < bytes.n; at++)
      for (int bit = 0; bit < 8; bit += 3) {
        bytes.p[at] = (char)(bytes.p[at] ^ (1 << bit));
        hs_status_drop(hlo_proto_read(ctx, bytes.p, bytes.n, "test", &again));
        hlo_module_free(again);
        bytes.p[at] = (char)(bytes.p[at] ^ (1 << bit));
      }
    hs_buf_free(&bytes);
  }
  assert_false(hlo_is_proto("HloModule m", 11));
  hlo_ctx_free(ctx);
}

static void elided_cannot_be_written(void **state) {
  (void)state;
  hlo_ctx *ctx = hlo_ctx_new();
  hlo_module *m;
  const char *text = "HloModule m\nENTRY e { ROOT c = f32[100] constant({...}) }";
  assert_true(hs_ok(hlo_parse(ctx, text, strlen(text), NULL, &m)));
  hs_buf b = {0};
  hs_status s = hlo_proto_write(&b, m, false);
  assert_false(hs_ok(s));
  assert_int_equal(s.err->code, HS_E_ELIDED);
  assert_int_equal(b.n, 0);
  hs_status_drop(s);
  hs_buf_free(&b);
  hlo_module_free(m);
  hlo_ctx_free(ctx);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(written_reads_back), cmocka_unit_test(damage_is_an_error), cmocka_unit_test(elided_cannot_be_written)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
