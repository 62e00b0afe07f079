// proto.c — modules as protocol buffers: what is written reads back as the same text, wrapped or
// bare; damage is an error.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "core/proto/proto.h"
#include "core/proto/keep.h"
#include "core/proto/schema.h"
#include "core/proto/text.h"
#include "core/proto/wire.h"
#include "core/text/text.h"

#include <stdlib.h>

static const char *const modules[] = {
    "HloModule a, input_output_alias={ {0}: (0, {}, must-alias) }, frontend_attributes={k=\"v\"}\n"
    "add { x = f32[] parameter(0) y = f32[] parameter(1) ROOT s = f32[] add(x, y) }\n"
    "ENTRY e { p = f32[4,8]{0,1} parameter(0), sharding={devices=[2,2]<=[2,2]T(1,0)} c = "
    "f32[2,2]{0,1} constant({{1,-2},{3.5,inf}})\n"
    "  z = f32[] constant(0) r = f32[4] reduce(p, z), dimensions={1}, to_apply=add, "
    "metadata={op_name=\"r\" source_line=7}\n"
    "  d = f32[8,8] dot(p, p), lhs_contracting_dims={0}, rhs_contracting_dims={0}, "
    "operand_precision={high,default}\n"
    "  g = f32[1,8] slice(p), slice={[0:4:4], [0:8]}\n ROOT t = tuple(p, r, d, g, c) }",
    "HloModule w, is_scheduled=true\n"
    "cond { p = (s32[], pred[3]) parameter(0) i = s32[] get-tuple-element(p), index=0 n = s32[] "
    "constant(4)\n"
    "  ROOT l = pred[] compare(i, n), direction=LT }\n"
    "body { p = (s32[], pred[3]) parameter(0) i = s32[] get-tuple-element(p), index=0 o = s32[] "
    "constant(1) j = s32[] add(i, o)\n"
    "  q = pred[3] get-tuple-element(p), index=1 ROOT t = (s32[], pred[3]) tuple(j, q), "
    "control-predecessors={o} }\n"
    "ENTRY e { k = pred[3] constant({1,0,1}) z = s32[] constant(-7) t = (s32[], pred[3]) tuple(z, "
    "k)\n"
    "  ROOT w = (s32[], pred[3]) while(t), condition=cond, body=body, backend_config={\"n\":1} }",
    "HloModule c, replica_count=1\n"
    "add { x = bf16[] parameter(0) y = bf16[] parameter(1) ROOT s = bf16[] add(x, y) }\n"
    "ENTRY e { x = bf16[1,8,8,4] parameter(0) w = bf16[3,3,4,2] parameter(1)\n"
    "  v = bf16[1,8,8,2] convolution(x, w), window={size=3x3 pad=1_1x1_1}, "
    "dim_labels=b01f_01io->b01f\n"
    "  a = bf16[1,8,8,2] all-reduce(v), channel_id=1, replica_groups=[1,4]<=[2,2]T(1,0), "
    "use_global_device_ids=true, to_apply=add\n"
    "  i = s32[<=3] constant({1,2,3}) u = c64[2] constant({(1,2),(nan,0)})\n"
    "  ROOT k = (bf16[1,8,8,2], s4[5]) custom-call(a, u), custom_call_target=\"f\", "
    "api_version=API_VERSION_TYPED_FFI,\n"
    "    operand_layout_constraints={bf16[1,8,8,2]{3,2,1,0}, c64[2]{0}}, "
    "output_to_operand_aliasing={{0}: (0, {})} }"};

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

// ---- unknown fields, forms, text ----------------------------------------------------------------
enum { NUM = 9000 };  // a field number that no message has

// Copies a message with a field NUM in it and in every message below it, counting them.
static void sow(hs_buf *out, pb m, u32 message, i64 *n) {
  for (pb_field f; pb_next(&m, &f);) {
    const pb_row *r = pb_row_by_number(message, f.num);
    if (!r || r->type != PB_MESSAGE || f.wire != 2) {
      hs_buf_put(out, (const char *)f.at, (size_t)(m.p - f.at));
      continue;
    }
    size_t mark = pb_begin(out);
    sow(out, f.sub, r->sub, n);
    pb_end(out, f.num, mark);
  }
  pb_put_int(out, NUM, ++*n);
}

static void reap(pb m, u32 message, u8 *seen, i64 n) {
  for (pb_field f; pb_next(&m, &f);) {
    const pb_row *r = pb_row_by_number(message, f.num);
    if (r && r->type == PB_MESSAGE && f.wire == 2) reap(f.sub, r->sub, seen, n);
    if (f.num == NUM && (i64)f.v <= n) seen[f.v]++;
  }
}

static pb view(const hs_buf *b) { return (pb){(const u8 *)b->p, (const u8 *)b->p + b->n, false}; }

static void unknown_fields_survive(void **state) {
  (void)state;
  for (size_t k = 0; k < sizeof modules / sizeof *modules; k++)
    for (int text = 0; text < 2; text++) {
      hlo_ctx *ctx = hlo_ctx_new();
      hlo_module *m = parse(ctx, k), *again, *copy;
      hs_buf plain = {0}, sown = {0}, back = {0}, wire = {0};
      assert_true(hs_ok(hlo_proto_write(&plain, m, true)));
      i64 n = 0;
      sow(&sown, view(&plain), PB_HloProto, &n);
      assert_true(n > 50);
      assert_true(hs_ok(hlo_proto_read(ctx, sown.p, sown.n, "test", &again)));
      copy = hlo_module_clone(again, NULL);
      u32 lost = 9;
      assert_true(hs_ok(hlo_proto_save(&back, copy, HLO_PROTO_AS_READ, text, &lost)));
      assert_int_equal(lost, 0);
      if (text) assert_true(hs_ok(pb_from_text(&wire, back.p, back.n, "test", PB_HloProto, NULL)));
      u8 *seen = calloc((size_t)n + 1, 1);
      reap(view(text ? &wire : &back), PB_HloProto, seen, n);
      for (i64 i = 1; i <= n; i++)
        if (seen[i] != 1)
          fail_msg("module %zu: field %lld of %lld came back %d times", k, (long long)i,
                   (long long)n, seen[i]);
      free(seen);
      // An instruction that is rewritten drops its own.
      hlo_instr *root = copy->entry->root;
      hlo_set_shape(root, hlo_shape_token(ctx));
      back.n = 0;
      assert_true(hs_ok(hlo_proto_save(&back, copy, HLO_PROTO_MODULE, false, &lost)));
      assert_true(lost >= 1);
      hs_buf_free(&plain), hs_buf_free(&sown), hs_buf_free(&back), hs_buf_free(&wire);
      hlo_module_free(m), hlo_module_free(again), hlo_module_free(copy);
      hlo_ctx_free(ctx);
    }
}

static const char snapshot_text[] =
    "# a comment\n"
    "hlo < hlo_module { name: 'snap' entry_computation_name: \"e\" entry_computation_id: 3\n"
    "  computations { name: \"e\" id: 3 root_id: 0x300000002;\n"
    "    instructions { name: \"p\" opcode: \"para\" 'meter' id: 0x300000001 shape { element_type: "
    "F32 dimensions: [2, 3]\n"
    "      layout { minor_to_major: [0, 1] } is_dynamic_dimension: [false, false] } }\n"
    "    instructions { name: \"n\" opcode: \"negate\" id: 12884901890 operand_ids: 12884901889, "
    "shape { element_type: 11 dimensions: 2\n"
    "      dimensions: 3 layout { minor_to_major: 1 minor_to_major: 0 } } metadata { op_name: "
    "\"a\\\"\\303\\244\\n\" } 777: 0x00000005 } }\n"
    "  host_program_shape { parameters { element_type: F32 dimensions: 2 dimensions: 3 layout { "
    "minor_to_major: [0, 1] } }\n"
    "    result { element_type: F32 dimensions: 2 dimensions: 3 layout { minor_to_major: [1, 0] } "
    "} } }\n"
    "  buffer_assignment { buffer_allocations { index: 0 size: 24 } } >\n"
    "arguments { shape { element_type: F32 dimensions: [2, 3] layout { minor_to_major: [0, 1] } } "
    "f32s: [1, -2.5, 1e3, inf, nan, 0.1] }\n"
    "execution_platform: \"Host\" of_the_future { a: 1 b < c: [1, 2] > } alike: 'x'\n";

static void text_form_is_read(void **state) {
  (void)state;
  hlo_ctx *ctx = hlo_ctx_new();
  hlo_module *m, *again;
  assert_true(hlo_is_proto_text(snapshot_text, strlen(snapshot_text)));
  hs_status s = hlo_proto_read_text(ctx, snapshot_text, strlen(snapshot_text), "test", &m);
  if (s.err) print_error("%s\n", s.err->message);
  assert_true(hs_ok(s));
  assert_string_equal(
      m->load_note, "left out fields whose numbers hlosh does not know: HloSnapshot.of_the_future, "
                    "HloSnapshot.alike");
  assert_string_equal(hlo_metadata_of(m->entry->root)->op_name.p, "a\"\303\244\n");
  hlo_literal **args;
  u32 n, lost;
  assert_true(hs_ok(hlo_proto_read_arguments(ctx, snapshot_text, strlen(snapshot_text), "test", 0,
                                             &args, &n, NULL)));
  assert_int_equal(n, 1);
  // row 0, column 1: third in the layout's order
  assert_true(hlo_literal_f64(args[0], 1) == 1000);
  assert_true(hlo_literal_f64(args[0], 3) == -2.5);
  hlo_literal_unref(args[0]);
  hs_free(args);
  // Binary and text of it say the same.
  hs_buf binary = {0}, text = {0}, again_text = {0};
  assert_true(hs_ok(hlo_proto_save(&binary, m, HLO_PROTO_AS_READ, false, &lost)));
  assert_true(hs_ok(hlo_proto_save(&text, m, HLO_PROTO_AS_READ, true, &lost)));
  assert_non_null(strstr(hs_buf_cstr(&text), "777: 0x00000005"));
  assert_non_null(strstr(text.p, "buffer_assignment {"));
  assert_true(hs_ok(hlo_proto_read(ctx, binary.p, binary.n, "test", &again)));
  assert_true(hs_ok(hlo_proto_save(&again_text, again, HLO_PROTO_AS_READ, true, &lost)));
  assert_string_equal(hs_buf_cstr(&again_text), hs_buf_cstr(&text));
  // A changed module has no use for its buffer assignment.
  hlo_set_name(again->entry->root, "other");
  again_text.n = 0;
  assert_true(hs_ok(hlo_proto_save(&again_text, again, HLO_PROTO_AS_READ, true, &lost)));
  assert_int_equal(lost, 1);
  assert_null(strstr(hs_buf_cstr(&again_text), "buffer_assignment"));
  hs_buf_free(&binary), hs_buf_free(&text), hs_buf_free(&again_text);
  hlo_module_free(m), hlo_module_free(again);
  hlo_ctx_free(ctx);
}

static void text_form_errors(void **state) {
  (void)state;
  static const struct {
    const char *text;
    hs_code code;
    u32 line, col;
  } cases[] = {{"hlo_module {\n  name: 5\n}", HS_E_PROTO, 2, 9},
               {"hlo_module {\n  name: \"a\n", HS_E_PROTO, 2, 9},
               {"hlo_module {\n  computations { id: x } }", HS_E_PROTO, 2, 22},
               {"hlo_module { name: \"\\q\" }", HS_E_PROTO, 1, 22},
               {"hlo_module { computations: 3 }", HS_E_PROTO, 1, 28},
               {"hlo_module { is_dynamic: maybe }", HS_E_PROTO, 1, 26},
               {"hlo_module { name: \"x\"", HS_E_PROTO, 1, 23},
               {"hlo_module { name: \"x\" } }", HS_E_PROTO, 1, 26}};
  hlo_ctx *ctx = hlo_ctx_new();
  hlo_module *m;
  for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
    assert_true(hlo_is_proto_text(cases[k].text, strlen(cases[k].text)));
    hs_status s = hlo_proto_read_text(ctx, cases[k].text, strlen(cases[k].text), "test", &m);
    assert_false(hs_ok(s));
    if (s.err->code != cases[k].code || s.err->line != cases[k].line || s.err->col != cases[k].col)
      fail_msg("case %zu: %s at %u:%u", k, s.err->message, s.err->line, s.err->col);
    hs_status_drop(s);
  }
  // HLO text is none, fragments included.
  static const char *const hlo[] = {"HloModule name", "name {\n  x = f32[] parameter(0)\n}",
                                    "hlo = f32[] parameter(0)",
                                    "ENTRY e { p = f32[] parameter(0) }", ""};
  for (size_t k = 0; k < sizeof hlo / sizeof *hlo; k++)
    assert_false(hlo_is_proto_text(hlo[k], strlen(hlo[k])));
  hs_buf deep = {0};
  for (int k = 0; k < 1000; k++)
    hs_buf_puts(&deep, k ? "result { " : "hlo_module { host_program_shape { ");
  for (int k = 0; k < 1000; k++) hs_buf_puts(&deep, "tuple_shapes { ");
  hs_status s = hlo_proto_read_text(ctx, deep.p, deep.n, "test", &m);
  assert_false(hs_ok(s));
  assert_int_equal(s.err->code, HS_E_LIMIT);
  hs_status_drop(s);
  hs_buf_free(&deep);
  hlo_ctx_free(ctx);
}

static void delimited_snapshots(void **state) {
  (void)state;
  static const char text[] =
      "hlo_module { name: 'd' entry_computation_id: 1 computations { name: 'e' id: 1 root_id: 1 "
      "instructions { name: 'p' opcode: 'parameter' id: 1\n"
      "  shape { element_type: F32 } } } }\n"
      "partitions { arguments { shape { element_type: PRED dimensions: 11 layout { minor_to_major: "
      "0 } } preds: [1,0,0,1,1,0,0,0,0,1,1] }\n"
      "  arguments { shape { element_type: TUPLE tuple_shapes { element_type: S4 dimensions: 3 "
      "layout { minor_to_major: 0 } }\n"
      "    tuple_shapes { element_type: F64 dimensions: [2,2] layout { minor_to_major: [0,1] } } "
      "}\n"
      "    tuple_literals { shape { element_type: S4 dimensions: 3 layout { minor_to_major: 0 } } "
      "s4s: \"\\001\\017\\010\" }\n"
      "    tuple_literals { shape { element_type: F64 dimensions: [2,2] layout { minor_to_major: "
      "[0,1] } } f64s: [1, 2, 3, 4] } } }\n"
      "partitions { arguments { shape { element_type: S32 } s32s: -5 } } version: 0";
  hlo_ctx *ctx = hlo_ctx_new();
  hlo_module *m, *again;
  u32 lost, n;
  hs_status s = hlo_proto_read_text(ctx, text, strlen(text), "test", &m);
  if (s.err) print_error("%s\n", s.err->message);
  assert_true(hs_ok(s));
  ((hlo_proto_kept *)(uintptr_t)m->proto_kept)->delimited = true;
  hs_buf one = {0}, two = {0};
  assert_true(hs_ok(hlo_proto_save(&one, m, HLO_PROTO_AS_READ, false, &lost)));
  assert_true(hlo_is_proto(one.p, one.n));
  s = hlo_proto_read(ctx, one.p, one.n, "test", &again);
  if (s.err) print_error("%s\n", s.err->message);
  assert_true(hs_ok(s));
  hlo_literal **args;
  assert_true(hs_ok(hlo_proto_read_arguments(ctx, one.p, one.n, "test", 0, &args, &n, NULL)));
  assert_int_equal(n, 2);
  static const int preds[] = {1, 0, 0, 1, 1, 0, 0, 0, 0, 1, 1}, fours[] = {1, -1, -8},
                   doubles[] = {1, 3, 2, 4};
  for (int k = 0; k < 11; k++) assert_int_equal(hlo_literal_i64(args[0], k), preds[k]);
  for (int k = 0; k < 3; k++) assert_int_equal(hlo_literal_i64(args[1]->children[0], k), fours[k]);
  for (int k = 0; k < 4; k++) assert_true(hlo_literal_f64(args[1]->children[1], k) == doubles[k]);
  for (u32 k = 0; k < n; k++) hlo_literal_unref(args[k]);
  hs_free(args);
  hs_buf texts[2] = {{0}, {0}};
  hlo_module *third;
  assert_true(hs_ok(hlo_proto_save(&two, again, HLO_PROTO_AS_READ, false, &lost)));
  assert_true(hs_ok(hlo_proto_read(ctx, two.p, two.n, "test", &third)));
  assert_true(third->proto_kept->delimited);
  assert_true(hs_ok(hlo_proto_save(&texts[0], again, HLO_PROTO_AS_READ, true, &lost)));
  assert_true(hs_ok(hlo_proto_save(&texts[1], third, HLO_PROTO_AS_READ, true, &lost)));
  assert_string_equal(hs_buf_cstr(&texts[0]), hs_buf_cstr(&texts[1]));
  hs_buf_free(&texts[0]), hs_buf_free(&texts[1]);
  hlo_module_free(third);
  hlo_module_free(again);
  // cut short: an error, never a module with fewer arguments
  for (size_t cut = 0; cut < one.n; cut++) {
    s = hlo_proto_read(ctx, one.p, cut, "test", &again);
    assert_false(hs_ok(s));
    hs_status_drop(s);
  }
  hs_buf_free(&one), hs_buf_free(&two);
  hlo_module_free(m);
  hlo_ctx_free(ctx);
}

// Reads the text form of a proto and prints the module that it holds.
static hlo_module *from_proto_text(hlo_ctx *ctx, const char *text, hs_buf *printed) {
  hlo_module *m = NULL;
  hs_status s = hlo_proto_read_text(ctx, text, strlen(text), "test", &m);
  if (s.err) print_error("%s\n", s.err->message);
  assert_true(hs_ok(s));
  hlo_print_options o = hlo_print_default();
  hlo_print_module(printed, m, &o);
  return m;
}

static void config_sets_the_counts(void **state) {
  (void)state;
  static const char text[] =
      "hlo_module { name: 'c' entry_computation_id: 1 computations { name: 'e' id: 1 root_id: 1 "
      "instructions { name: 'p' opcode: 'parameter' id: 1\n"
      "  shape { element_type: F32 } } } }\n"
      "config { replica_count: 2 num_partitions: 4 seed: 77 debug_options { "
      "xla_cpu_multi_thread_eigen: true } }";
  hlo_ctx *ctx = hlo_ctx_new();
  hs_buf b = {0};
  u32 lost;
  hlo_module *m = from_proto_text(ctx, text, &b);
  assert_non_null(strstr(hs_buf_cstr(&b), "replica_count=2, num_partitions=4"));
  b.n = 0;
  hlo_set_module_attr(m, (hlo_attr){.id = HLO_ATTR_NUM_PARTITIONS, .v.i = 8});
  assert_true(hs_ok(hlo_proto_save(&b, m, HLO_PROTO_AS_READ, true, &lost)));
  assert_int_equal(lost, 0);
  assert_non_null(strstr(hs_buf_cstr(&b), "replica_count: 2"));
  assert_non_null(strstr(b.p, "num_partitions: 8"));
  assert_non_null(strstr(b.p, "seed: 77"));
  assert_non_null(strstr(b.p, "xla_cpu_multi_thread_eigen: true"));
  hs_buf_free(&b);
  hlo_module_free(m);
  hlo_ctx_free(ctx);
}

// ---- hostile protos, by hand in the text form ---------------------------------------------------
#define INSTR(name, opcode, id, rest)                            \
  "instructions { name: '" name "' opcode: '" opcode "' id: " id \
  " shape { element_type: F32 } " rest " } "
#define MODULE(comps) "name: 'm' entry_computation_id: 1 " comps
#define COMP(id, root, instrs) \
  "computations { name: 'c" id "' id: " id " root_id: " root " " instrs " } "

// The short form of replica groups stood inside collective_device_list before it had a field of its
// own.
static void older_replica_groups(void **state) {
  (void)state;
  static const char text[] =
      "hlo_module { name: 'g' entry_computation_id: 1 computations { name: 'e' id: 1 root_id: 2\n"
      "  instructions { name: 'p' opcode: 'parameter' id: 1 shape { element_type: F32 dimensions: "
      "4 layout { minor_to_major: 0 } } }\n"
      "  instructions { name: 'a' opcode: 'all-gather' id: 2 operand_ids: 1 dimensions: 0 "
      "channel_id: 1 use_global_device_ids: true\n"
      "    shape { element_type: F32 dimensions: 16 layout { minor_to_major: 0 } }\n"
      "    collective_device_list { iota_replica_group_list { num_replica_groups: 2 "
      "num_devices_per_group: 4 iota_reshape_dims: [4,2] iota_transpose_perm: [1,0] } } } } }";
  hlo_ctx *ctx = hlo_ctx_new();
  hs_buf b = {0};
  hlo_module *m = from_proto_text(ctx, text, &b);
  assert_non_null(strstr(hs_buf_cstr(&b), "replica_groups=[2,4]<=[4,2]T(1,0)"));
  hs_buf_free(&b);
  hlo_module_free(m);
  hlo_ctx_free(ctx);
}

// What the encoding allows and no writer does: the last of two values counts, pieces of a
// submessage are one, and a field of another wire type is no such field.
static void unusual_encodings(void **state) {
  (void)state;
  hlo_ctx *ctx = hlo_ctx_new();
  hlo_module *m = parse(ctx, 0), *again;
  hs_buf bytes = {0}, odd = {0}, want = {0}, got = {0};
  hlo_print_options o = hlo_print_full();
  assert_true(hs_ok(hlo_proto_write(&bytes, m, false)));
  pb_put_bytes(&odd, 1, "former", 6);  // the name, overruled below
  // frontend attributes in two pieces, the other one stands behind
  size_t mark = pb_begin(&odd), entry;
  entry = pb_begin(&odd);
  pb_put_bytes(&odd, 1, "early", 5);
  pb_put_bytes(&odd, 2, "1", 1);
  pb_end(&odd, 1, entry);
  pb_end(&odd, 19, mark);
  hs_buf_put(&odd, bytes.p, bytes.n);
  pb_put_int_always(&odd, 1, 7);  // a number where the name belongs
  pb_put_int_always(&odd, 19, 7);
  assert_true(pb_conforms(view(&bytes), PB_HloModuleProto, 0));
  assert_false(pb_conforms(view(&odd), PB_HloModuleProto, 0));
  hs_status s = hlo_proto_read(ctx, odd.p, odd.n, "test", &again);
  assert_true(hs_ok(s));
  assert_string_equal(again->load_note,
                      "left out 2 fields whose wire types are not those of XLA's schema");
  hlo_print_module(&want, m, &o);
  hlo_print_module(&got, again, &o);
  char *attrs = strstr(hs_buf_cstr(&got), "frontend_attributes={early=\"1\",k=\"v\"}");
  assert_non_null(attrs);
  hs_buf rest = {0};
  hs_buf_put(&rest, got.p, (size_t)(attrs - got.p) + strlen("frontend_attributes={"));
  hs_buf_puts(&rest, attrs + strlen("frontend_attributes={early=\"1\","));
  assert_string_equal(hs_buf_cstr(&rest), hs_buf_cstr(&want));
  hs_buf_free(&bytes);
  hs_buf_free(&odd);
  hs_buf_free(&want);
  hs_buf_free(&got);
  hs_buf_free(&rest);
  hlo_module_free(m);
  hlo_module_free(again);
  hlo_ctx_free(ctx);
}

static void hostile_protos(void **state) {
  (void)state;
  static const struct {
    const char *text, *says;
    hs_code code;
  } cases[] = {
      {MODULE(COMP("1", "2",
                   INSTR("a", "negate", "1", "operand_ids: 2")
                       INSTR("b", "negate", "2", "operand_ids: 1"))),
       "operand", HS_E_PROTO},
      {MODULE(COMP("1", "1", INSTR("a", "negate", "1", "operand_ids: 1"))), "operand", HS_E_PROTO},
      {MODULE(COMP("1", "1", INSTR("a", "call", "1", "called_computation_ids: 2"))
                  COMP("2", "1", INSTR("b", "call", "1", "called_computation_ids: 1"))),
       "computation", HS_E_PROTO},
      {MODULE(COMP("1", "1", INSTR("a", "call", "1", "called_computation_ids: 1"))), "computation",
       HS_E_PROTO},
      {MODULE(COMP("1", "2",
                   INSTR("a", "parameter", "1", "")
                       INSTR("b", "negate", "2", "operand_ids: 1 control_predecessor_ids: 2"))),
       "control", HS_E_PROTO},
      {MODULE(COMP("1", "1",
                   INSTR("a", "parameter", "1", "") INSTR("b", "negate", "1", "operand_ids: 1"))),
       "have the id 1", HS_E_PROTO},
      {MODULE(COMP("1", "1", INSTR("a", "parameter", "1", ""))
                  COMP("1", "1", INSTR("a", "parameter", "1", ""))),
       "have the id 1", HS_E_PROTO},
      {MODULE(COMP("99999999999", "1", INSTR("a", "parameter", "1", ""))), "out of range",
       HS_E_PROTO},
      {MODULE(COMP("1", "7", INSTR("a", "parameter", "1", ""))), "no root", HS_E_PROTO},
      {MODULE(COMP("1", "1", INSTR("a", "parameter", "1", "parameter_number: 1000000000"))),
       "out of range", HS_E_PROTO},
      {MODULE(COMP("1", "1", INSTR("a", "no-such-op", "1", ""))), "unknown opcode", HS_E_PROTO},
      {MODULE(COMP(
           "1", "1",
           "instructions { name: 'c' opcode: 'constant' id: 1 shape { element_type: F32 "
           "dimensions: [1000000, 1000000] }"
           " literal { shape { element_type: F32 dimensions: [1000000, 1000000] } f32s: 1 } }")),
       "literal", HS_E_PROTO},
      {MODULE(COMP("1", "1",
                   "instructions { name: 'c' opcode: 'parameter' id: 1 shape { element_type: F32 "
                   "dimensions: [4000000000, 4000000000, 4000000000] } }")),
       NULL, HS_E_PROTO},
      {MODULE(COMP("1", "1",
                   "instructions { name: 'c' opcode: 'parameter' id: 1 shape { element_type: F32 "
                   "dimensions: -3 } }")),
       "negative", HS_E_PROTO},
      {MODULE(COMP(
           "1", "1",
           "instructions { name: 'c' opcode: 'constant' id: 1 shape { element_type: S32 "
           "dimensions: 3 } literal { shape { element_type: S32 dimensions: 3 } s32s: [1, 2] } }")),
       "elements", HS_E_PROTO},
      {MODULE(COMP("1", "1",
                   "instructions { name: 'c' opcode: 'parameter' id: 1 shape { element_type: F32 "
                   "dimensions: [2, 2] layout { minor_to_major: [0, 0] } } }")),
       "layout", HS_E_PROTO},
      {MODULE(COMP("1", "3",
                   INSTR("a", "parameter", "1", "") INSTR("t", "tuple", "2", "operand_ids: 1")
                       INSTR("g", "get-tuple-element", "3", "operand_ids: 2 tuple_index: 5"))),
       "tuple", HS_E_PROTO}};
  hlo_ctx *ctx = hlo_ctx_new();
  for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
    hlo_module *m = NULL;
    hs_status s = hlo_proto_read_text(ctx, cases[k].text, strlen(cases[k].text), "test", &m);
    if (hs_ok(s)) fail_msg("case %zu is read", k);
    if (s.err->code != cases[k].code || (cases[k].says && !strstr(s.err->message, cases[k].says)))
      fail_msg("case %zu: %s", k, s.err->message);
    assert_null(m);
    hs_status_drop(s);
  }
  hlo_ctx_free(ctx);
}

// A message in a message in a message, on the wire; what is inside first.
static void nest(hs_buf *b, int depth, u32 num) {
  for (int k = 0; k < depth; k++) pb_end(b, num, 0);
}

static void deep_protos(void **state) {
  (void)state;
  // tuple shapes, tuple literals, tuple shardings
  static const struct { u32 nested, in_instr; } cases[] = {{4, 3}, {10, 8}, {5, 40}};
  hlo_ctx *ctx = hlo_ctx_new();
  for (size_t k = 0; k < sizeof cases / sizeof *cases; k++)
    for (int depth = 150; depth <= 20000; depth += 19850) {
      hs_buf b = {0}, module = {0};
      pb_put_int(&b, cases[k].nested == 5 ? 1 : 2, cases[k].nested == 5 ? 2 : 13);
      nest(&b, depth, cases[k].nested);
      pb_end(&b, cases[k].in_instr, 0);
      size_t end = b.n;
      pb_put_bytes(&b, 2, cases[k].nested == 10 ? "constant" : "parameter",
                   cases[k].nested == 10 ? 8 : 9);
      pb_put_int(&b, 35, 1);
      assert_true(b.n > end);
      nest(&b, 1, 2);
      pb_put_int(&b, 6, 1);
      nest(&b, 1, 3);
      hlo_module *m = NULL;
      hs_status s = hlo_proto_read(ctx, b.p, b.n, "test", &m);
      assert_false(hs_ok(s));
      if (depth > 1000) assert_int_equal(s.err->code, HS_E_LIMIT);
      hs_status_drop(s);
      hs_buf_free(&b), hs_buf_free(&module);
    }
  hlo_ctx_free(ctx);
}

static void huge_lengths(void **state) {
  (void)state;
  hlo_ctx *ctx = hlo_ctx_new();
  hlo_module *m = parse(ctx, 1), *again;
  hs_buf good = {0};
  assert_true(hs_ok(hlo_proto_write(&good, m, true)));
  hlo_module_free(m);
  static const u8 lengths[][10] = {{0xFF, 0xFF, 0xFF, 0xFF, 0x07},
                                   {0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0x7F},
                                   {0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0x01}};
  for (size_t k = 0; k < sizeof lengths / sizeof *lengths; k++)
    for (size_t at = 1; at < good.n; at += 7) {  // a length far beyond the file, anywhere
      hs_buf b = {0};
      hs_buf_put(&b, good.p, at);
      hs_buf_put(&b, (const char *)lengths[k], 10);
      hs_buf_put(&b, good.p + at, good.n - at);
      hs_status_drop(hlo_proto_read(ctx, b.p, b.n, "test", &again));
      hlo_module_free(again);
      hs_buf_free(&b);
    }
  hs_buf_free(&good);
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
  const struct CMUnitTest tests[] = {cmocka_unit_test(written_reads_back),
                                     cmocka_unit_test(damage_is_an_error),
                                     cmocka_unit_test(unknown_fields_survive),
                                     cmocka_unit_test(text_form_is_read),
                                     cmocka_unit_test(text_form_errors),
                                     cmocka_unit_test(delimited_snapshots),
                                     cmocka_unit_test(config_sets_the_counts),
                                     cmocka_unit_test(older_replica_groups),
                                     cmocka_unit_test(unusual_encodings),
                                     cmocka_unit_test(hostile_protos),
                                     cmocka_unit_test(deep_protos),
                                     cmocka_unit_test(huge_lengths),
                                     cmocka_unit_test(elided_cannot_be_written)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
