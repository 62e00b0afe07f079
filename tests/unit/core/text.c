// text.c — the reader and the printer of HLO text: round trips of every form, errors at the right
// place, limits, recovery.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "core/text/text.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

// ---- helpers ------------------------------------------------------------------------------------
static hlo_module *parse(hlo_ctx *ctx, const char *text) {
  hlo_module *m;
  hs_status s = hlo_parse(ctx, text, strlen(text), NULL, &m);
  if (s.err) {
    hs_buf b = {0};
    hs_status_render(s, &b, false);
    print_error("%s\n", hs_buf_cstr(&b));
    hs_buf_free(&b);
    hs_status_drop(s);
    fail();
  }
  return m;
}

static void expect_print(const char *text, const char *want, hlo_print_options o) {
  hlo_ctx *ctx = hlo_ctx_new();
  hlo_module *m = parse(ctx, text);
  hs_buf b = {0};
  hlo_print_module(&b, m, &o);
  assert_string_equal(hs_buf_cstr(&b), want);
  hs_buf_free(&b);
  hlo_module_free(m);
  hlo_ctx_free(ctx);
}

static void expect_same(const char *text) { expect_print(text, text, hlo_print_full()); }

// A body of one entry computation, in the printer's own form.
static void expect_body_same(const char *layout, const char *header, const char *body) {
  char *text = hs_format("HloModule t, entry_computation_layout={%s}\n\nENTRY %%e %s {\n%s}\n\n",
                         layout, header, body);
  expect_same(text);
  hs_free(text);
}

typedef struct expected_error {
  hs_code code;
  u32 line, col;
  const char *message;
} expected_error;

static void expect_errors(const char *text, size_t n, const hlo_parse_options *o,
                          const expected_error *want, size_t count) {
  hlo_ctx *ctx = hlo_ctx_new();
  hlo_module *m;
  hs_status s = hlo_parse(ctx, text, n, o, &m);
  assert_null(m);
  const hs_diag *d = s.err;
  for (size_t k = 0; k < count; k++, d = d->next) {
    assert_non_null(d);
    if (!strstr(d->message, want[k].message) && !(d->note && strstr(d->note, want[k].message))) {
      print_error("error %zu: want %s, got %s\n", k, want[k].message, d->message);
      fail();
    }
    assert_int_equal(d->code, want[k].code);
    if (want[k].line) {
      assert_int_equal(d->line, want[k].line);
      assert_int_equal(d->col, want[k].col);
    }
  }
  if (d) print_error("one more error: %u:%u %s\n", d->line, d->col, d->message);
  assert_null(d);
  hs_status_drop(s);
  hlo_ctx_free(ctx);
}
#define EXPECT_ERRORS(text, ...)                                                  \
  do {                                                                            \
    const expected_error want_[] = {__VA_ARGS__};                                 \
    expect_errors(text, strlen(text), NULL, want_, sizeof want_ / sizeof *want_); \
  } while (0)

// ---- round trips --------------------------------------------------------------------------------
static void round_trips(void **state) {
  (void)state;
  expect_body_same(
      "(f32[2,3]{0,1:T(8,128)S(1)}, s32[<=4]{0})->f32[2,3]{0,1:T(8,128)S(1)}",
      "(a: f32[2,3], b: s32[<=4]) -> f32[2,3]",
      "  %a = f32[2,3]{0,1:T(8,128)S(1)} parameter(0), sharding={devices=[2,1]<=[2]}\n"
      "  ROOT %c = f32[2,3]{0,1:T(8,128)S(1)} copy(%a), metadata={op_type=\"copy\" "
      "op_name=\"it\\'s\" source_file=\"a.py\" source_line=3}\n"
      "  %b = s32[<=4]{0} parameter(1), frontend_attributes={k=\"v\\\"\",z={\"x\":[1]}}\n");
  expect_body_same(
      "(f32[1,8,8,3]{3,2,1,0}, f32[3,3,3,4]{3,2,1,0})->f32[1,4,4,4]{3,2,1,0}",
      "(x: f32[1,8,8,3], w: f32[3,3,3,4]) -> f32[1,4,4,4]",
      "  %x = f32[1,8,8,3]{3,2,1,0} parameter(0)\n"
      "  %w = f32[3,3,3,4]{3,2,1,0} parameter(1)\n"
      "  ROOT %conv = f32[1,4,4,4]{3,2,1,0} convolution(%x, %w), window={size=3x3 stride=2x2 "
      "pad=0_1x0_1}, dim_labels=b01f_01io->b01f, "
      "operand_precision={high,highest}, backend_config={\"a\":{\"b\":\"}\"}}\n");
  expect_same(
      "HloModule calls, is_scheduled=true, input_output_alias={ {0}: (0, {}, must-alias), {1}: (1, "
      "{2,0}, may-alias) }, "
      "entry_computation_layout={(s32[])->s32[]}, replica_count=2, num_partitions=4, "
      "frontend_attributes={a=\"b\"}\n\n"
      "FileNames\n1 \"a.py\"\n\nFunctionNames\n1 \"f\"\n\nFileLocations\n"
      "1 {file_name_id=1 function_name_id=1 line=1 end_line=2 column=3 end_column=4}\n\n"
      "StackFrames\n"
      "1 {file_location_id=1 parent_frame_id=1}\n\n\n"
      "%body (q: s32[]) -> s32[] {\n  %q = s32[] parameter(0)\n  %one = s32[] constant(1)\n"
      "  ROOT %next = s32[] add(%q, %one), control-predecessors={%q}, metadata={op_name=\"n\" "
      "stack_frame_id=1}\n}, execution_thread=\"side\"\n\n"
      "%cond (p: s32[]) -> pred[] {\n  %p = s32[] parameter(0)\n  %ten = s32[] constant(10)\n"
      "  ROOT %lt = pred[] compare(%p, %ten), direction=LT\n}\n\n"
      "ENTRY %main (s: s32[]) -> s32[] {\n  %s = s32[] parameter(0)\n"
      "  ROOT %w = s32[] while(%s), condition=%cond, body=%body\n}\n\n");
}

static void sharding_forms(void **state) {
  (void)state;
  static const char *const forms[] = {
      "{replicated}",
      "{manual}",
      "{maximal device=3}",
      "{devices=[2,1]1,0}",
      "{devices=[2,2]<=[2,2]T(1,0) last_tile_dim_replicate}",
      ("{devices=[2,2,2]<=[8] last_tile_dims={manual, replicated} shard_like 7 "
       "metadata={op_name=\"x\"}}"),
      "{mesh['x'=2,'y'=4], [{'x', ?}, {'y':(2)2}], replicated={'y':(1)2}}",
      "{unknown shard_as 1}"};
  for (size_t k = 0; k < sizeof forms / sizeof *forms; k++) {
    char *body = hs_format("  ROOT %%a = f32[4,8]{1,0} parameter(0), sharding=%s\n", forms[k]);
    expect_body_same("(f32[4,8]{1,0})->f32[4,8]{1,0}", "(a: f32[4,8]) -> f32[4,8]", body);
    hs_free(body);
  }
}

static void constants(void **state) {
  (void)state;
  static const struct {
    const char *shape, *value;
  } c[] = {{"pred[]", "true"},
           {"pred[2]{0}", "{1, 0}"},
           {"s4[3]{0}", "{-8, 7, 0}"},
           {"u64[2]{0}", "{18446744073709551615, 0}"},
           {"f32[4]{0}", "{1, -0, 1.5, 3.40282347e+38}"},
           {"f32[3]{0}", "{inf, -inf, nan}"},
           {"f32[2]{0}", "{-nan(0x1f), 0.1}"},
           {"bf16[2]{0}", "{1.008, nan(0x7f)}"},
           {"f8e4m3fn[2]{0}", "{448, -0.0625}"},
           {"c64[2]{0}", "{(1, -2), (0.5, inf)}"},
           {"f32[0]{0}", "{}"},
           {"s32[2,1]{1,0}", "{ {1}, {2} }"},
           {"s32[2,2]{1,0}", "{ { 1, 2 }, { 3, 4 } }"},
           {"f32[100]{0}", "{...}"},
           {"f32[300,300,0]{2,1,0}", "{...}"},  // 90,000 pairs of braces otherwise
           {"s32[2,1,1,1]{3,2,1,0}",
            "{ { /*i0=0*/ { /*i1=0*/ {-1} } }, { /*i0=1*/ { /*i1=0*/ {4} } } }"},
           {"(s32[], (f32[2]{0}))", "( 1, ( {1, 2} ) )"}};
  for (size_t k = 0; k < sizeof c / sizeof *c; k++) {
    const hlo_shape *s;
    hlo_ctx *ctx = hlo_ctx_new();
    hs_status st = hlo_parse_shape(ctx, c[k].shape, strlen(c[k].shape), &s);
    assert_true(hs_ok(st));
    hs_buf b = {0};
    hlo_shape_print(&b, s, false);
    char *layout = hs_format("()->%s", c[k].shape),
         *header = hs_format("() -> %s", hs_buf_cstr(&b));
    char *body = hs_format("  ROOT %%c = %s constant(%s)\n", c[k].shape, c[k].value);
    expect_body_same(layout, header, body);
    hs_free(layout);
    hs_free(header);
    hs_free(body);
    hs_buf_free(&b);
    hlo_ctx_free(ctx);
  }
}

static void inferred_and_nested(void **state) {
  (void)state;
  hlo_print_options o = hlo_print_short_parsable();
  expect_print(
      "ENTRY e { x = f32[2,3] parameter(0)  ROOT r = transpose(add(x, multiply(x, f32[2,3] "
      "constant({...})))), dimensions={1,0} }",
      "HloModule module_e, entry_computation_layout={(f32[2,3]{1,0})->f32[3,2]{0,1}}\n\n"
      "ENTRY e {\n  x = f32[2,3]{1,0} parameter(0)\n  constant.anon = f32[2,3]{1,0} "
      "constant({...})\n"
      "  multiply.anon = f32[2,3]{1,0} multiply(x, constant.anon)\n"
      "  add.anon = f32[2,3]{1,0} add(x, multiply.anon)\n"
      "  ROOT r = f32[3,2]{0,1} transpose(add.anon), dimensions={1,0}\n}\n\n",
      o);
  expect_print(
      "HloModule m\nENTRY e { t = (s32[], (f32[2], pred[])) parameter(0)  ROOT r = f32[2] "
      "negate(t#1#0) }",
      "HloModule m, entry_computation_layout={((s32[], (f32[2]{0}, pred[])))->f32[2]{0}}\n\n"
      "ENTRY e {\n  t = (s32[], (f32[2]{0}, pred[])) parameter(0)\n"
      "  t_1 = (f32[2]{0}, pred[]) get-tuple-element(t), index=1\n"
      "  t_1_0 = f32[2]{0} get-tuple-element(t_1), index=0\n  ROOT r = f32[2]{0} negate(t_1_0)\n}\n"
      "\n",
      o);
  expect_print(
      "f32[4] add(f32[4] %a, f32[4] %a)",
      "HloModule add.anon, entry_computation_layout={(f32[4]{0})->f32[4]{0}}\n\n"
      "ENTRY entry {\n  a = f32[4]{0} parameter(0)\n  ROOT add.anon = f32[4]{0} add(a, a)\n}\n\n",
      o);
}

static void signed_nan_and_empty_rows(void **state) {
  (void)state;
  const char *text =
      "HloModule t, entry_computation_layout={()->(f8e4m3b11fnuz[2]{0}, f32[2,0,4,3]{3,2,1,0})}\n\n"
      "ENTRY %e () -> (f8e4m3b11fnuz[2], f32[2,0,4,3]) {\n"
      "  %n = f8e4m3b11fnuz[2]{0} constant({-nan, 7})\n"
      "  %z = f32[2,0,4,3]{3,2,1,0} constant({ { /*i0=0*/ }, { /*i0=1*/ } })\n"
      "  ROOT %t = (f8e4m3b11fnuz[2]{0}, f32[2,0,4,3]{3,2,1,0}) tuple(%n, %z)\n}\n\n";
  expect_print(text, text, hlo_print_default());
}

static void async_short_form(void **state) {
  (void)state;
  hlo_print_options o = hlo_print_default();
  const char *text = "HloModule t, entry_computation_layout={(f32[8]{0})->f32[8]{0}}\n\n"
                     "ENTRY %e (p: f32[8]) -> f32[8] {\n"
                     "  %p = f32[8]{0} parameter(0)\n"
                     "  %s = ((f32[8]{0}, f32[8]{0}), f32[8]{0}, s32[]) add-start(%p, %p), "
                     "async_execution_thread=\"io\"\n"
                     "  %u = ((f32[8]{0}, f32[8]{0}), f32[8]{0}, s32[]) add-update(%s)\n"
                     "  ROOT %d = f32[8]{0} add-done(%u)\n}\n\n";
  expect_print(text, text, o);
  o.syntax_sugar_async_ops = false;
  expect_print(
      text,
      "HloModule t, entry_computation_layout={(f32[8]{0})->f32[8]{0}}\n\n"
      "%async_wrapped (async_param: f32[8], async_param.1: f32[8]) -> f32[8] {\n"
      "  %async_param = f32[8]{0} parameter(0)\n"
      "  %async_param.1 = f32[8]{0} parameter(1)\n  ROOT %add = f32[8]{0} add(%async_param, "
      "%async_param.1)\n}, execution_thread=\"io\"\n\n"
      "ENTRY %e (p: f32[8]) -> f32[8] {\n  %p = f32[8]{0} parameter(0)\n"
      "  %s = ((f32[8]{0}, f32[8]{0}), f32[8]{0}, s32[]) async-start(%p, %p), "
      "async_execution_thread=\"io\", calls=%async_wrapped\n"
      "  %u = ((f32[8]{0}, f32[8]{0}), f32[8]{0}, s32[]) async-update(%s)\n"
      "  ROOT %d = f32[8]{0} async-done(%u)\n}\n\n",
      o);
}

static void names_made_unique(void **state) {
  (void)state;
  expect_print(
      "HloModule m\nadd { a = f32[] parameter(0) b = f32[] parameter(1) ROOT add = f32[] add(a, b) "
      "}\n"
      "ENTRY e { a = f32[] parameter(0) ROOT add = f32[] call(a, a), to_apply=add }",
      "HloModule m, entry_computation_layout={(f32[])->f32[]}\n\nadd {\n  a = f32[] parameter(0)\n"
      "  b = f32[] parameter(1)\n"
      "  ROOT add = f32[] add(a, b)\n}\n\nENTRY e {\n  a.1 = f32[] parameter(0)\n"
      "  ROOT add.1 = f32[] call(a.1, a.1), to_apply=add\n}\n\n",
      hlo_print_short_parsable());
}

// ---- errors -------------------------------------------------------------------------------------
static void every_error_of_a_file(void **state) {
  (void)state;
  EXPECT_ERRORS("HloModule m\n\nENTRY e {\n  a = f32[2] parameter(0)\n  b = f32[2] ad(a, a)\n"
                "  c = f32[2] add(b, b)\n  d = f32[2] add(a, aa)\n"
                "  e = f32[3] parameter(1), shard={replicated}\n  ROOT f = f32[2] add(a)\n}\n",
                {HS_E_OPCODE, 5, 14, "did you mean add?"},
                {HS_E_NAME, 7, 21, "instruction does not exist: aa"},
                {HS_E_ATTR, 8, 28, "unexpected attribute \"shard\""},
                {HS_E_ARITY, 9, 19, "expects 2 operands, but has 1 operands"});
}

static void single_errors(void **state) {
  (void)state;
#define IN_ENTRY(body) "HloModule m\nENTRY e {\n" body "\n}\n"
  EXPECT_ERRORS(IN_ENTRY("a = f32[2]{1,0} parameter(0)"),
                {HS_E_LAYOUT, 2 + 1, 11, "Dimensions size is 1, but minor to major size is 2."});
  EXPECT_ERRORS(IN_ENTRY("a = f32[] constant(x)"), {HS_E_SYNTAX, 3, 20, "expects decimal or int"});
  EXPECT_ERRORS(IN_ENTRY("c64 = f32[] parameter(0)\nROOT a = f32[] negate(c64)"),
                {HS_E_SYNTAX, 3, 1, "c64_ would be a name"},
                {HS_E_SYNTAX, 4, 26, "c64 is an element type, and no instruction's name"});
  EXPECT_ERRORS(IN_ENTRY("a = f32[2,2] constant({{1,2},{3}})"),
                {HS_E_LITERAL, 3, 32, "expects 2 elements in the [1]th element, but sees 1"});
  EXPECT_ERRORS(IN_ENTRY("a = u8[] constant(256)"),
                {HS_E_LITERAL, 3, 19, "is out of range for literal's primitive type U8"});
  EXPECT_ERRORS(IN_ENTRY("a = f32[] parameter(0)\nb = f32[] parameter(0)"),
                {HS_E_VERIFY, 4, 11, "Duplicate parameter number 0"});
  EXPECT_ERRORS("a = f32[] parameter(5)", {HS_E_VERIFY, 0, 0, "parameter number 0 is missing"});
  EXPECT_ERRORS(IN_ENTRY("a = f32[] parameter(1)"),
                {HS_E_VERIFY, 0, 0, "parameter number 0 is missing"});
  EXPECT_ERRORS(IN_ENTRY("a = f32[] parameter(0)\na = f32[] negate(a)"),
                {HS_E_REDEFINED, 4, 1, "already exists"});
  EXPECT_ERRORS(IN_ENTRY("a = f32[] parameter(0)\nROOT b = f32[] negate(f32[2] a)"),
                {HS_E_SHAPE, 4, 23, "The declared operand shape f32[2]{0} is not compatible"});
  EXPECT_ERRORS(
      IN_ENTRY("a = f32[] parameter(0)\nROOT b = f32[] convert(a), metadata={op_name=\"x}"),
      {HS_E_TOKEN, 4, 46, "unterminated string"});
  EXPECT_ERRORS("HloModule m\n/* never closed", {HS_E_TOKEN, 2, 1, "unterminated comment"});
  EXPECT_ERRORS("HloModule m, input_output_alias={ {0, a}: (0, {}) }\n",
                {HS_E_SYNTAX, 1, 39, "expects integer"});
  EXPECT_ERRORS("HloModule m\nc {\n  ROOT a = f32[] parameter(0)\n}\nc {\n  ROOT a = f32[] "
                "parameter(0)\n}\nENTRY e {\n  ROOT a = f32[] parameter(0)\n}\n",
                {HS_E_REDEFINED, 5, 1, "computation already exists: c"});
  EXPECT_ERRORS(IN_ENTRY("p = (f32[], f32[]) parameter(0)\nROOT a = f32[] negate(p#2)"),
                {HS_E_SHAPE, 4, 25, "GTE index 2 out of bounds: p has 2 elements"});
  EXPECT_ERRORS(IN_ENTRY("p = f32[] parameter(0)\nROOT a = f32[] negate(p#0)"),
                {HS_E_SHAPE, 4, 25, "GTE operand must be tuple"});
  EXPECT_ERRORS(IN_ENTRY("p = f32[4,<=8] parameter(0)\nn = s32[] parameter(1)\nROOT r = "
                         "f32[4,<=8] dynamic-reshape(p, n)"),
                {HS_E_ARITY, 5, 21, "got 1 for 2 result dimensions"});
  EXPECT_ERRORS(IN_ENTRY("p = f32[4,2]{1,0} parameter(0)\nROOT r = f32[] custom-call(p), "
                         "custom_call_target=\"x\", operand_layout_constraints={f32[4,3]{1,0}}"),
                {HS_E_LAYOUT, 4, 16, "operand 0 is not compatible with operand shape f32[4,2]"});
  EXPECT_ERRORS("r = f32[] add(f32[] a, b)",
                {HS_E_NAME, 1, 24, "Operand had no shape in HLO text: b"});
  EXPECT_ERRORS("r = f32[] negate(f32[] a)\ns = f32[] negate(f32[] a)",
                {HS_E_SYNTAX, 2, 1, "Expected eof"});
  // groups of different lengths, before letters that are missing
  EXPECT_ERRORS("c = f32[1,2,1] convolution(f32[1,2,1] a, f32[1,1,1] b), window={size=1}, "
                "dim_labels=012_0123->210",
                {HS_E_ATTR, 1, 85, "must have same number of spatial dimensions"});
  EXPECT_ERRORS("HloModule m\n", {HS_E_SYNTAX, 0, 0, "expects a computation"});
  const char nul[] = "HloModule m\0";
  expect_errors(nul, sizeof nul - 1, NULL, &(expected_error){HS_E_TOKEN, 1, 12, "NUL byte"}, 1);
}

// The text is looked at block by block: a NUL is found wherever it is, in a long string or behind
// the last module's brace too.
static void nul_anywhere(void **state) {
  (void)state;
  enum { LONG = 1 << 19 };
  hs_buf b = {0};
  hs_buf_puts(&b, "HloModule m\nENTRY e {\nROOT a = f32[] parameter(0), metadata={op_name=\"");
  size_t at = b.n;
  for (int k = 0; k < LONG; k++) hs_buf_putc(&b, 'x');
  hs_buf_puts(&b, "\"}\n}\n// the end");
  hlo_ctx *ctx = hlo_ctx_new();
  for (size_t step = 0; step < 8; step++) {
    size_t place = step < 7 ? at + step * (LONG / 8) + 1 : b.n - 3;
    char was = b.p[place];
    b.p[place] = 0;
    expect_errors(b.p, b.n, NULL, &(expected_error){HS_E_TOKEN, 0, 0, "NUL byte"}, 1);
    b.p[place] = was;
  }
  hlo_module_free(parse(ctx, hs_buf_cstr(&b)));
  hlo_ctx_free(ctx);
  hs_buf_free(&b);
}

static void limits(void **state) {
  (void)state;
  hs_buf b = {0};  // deeper than the limit: an error, not a crash
  hs_buf_puts(&b, "HloModule m\nENTRY e { a = ");
  for (int k = 0; k < 100000; k++) hs_buf_putc(&b, '(');
  expect_errors(b.p, b.n, NULL,
                &(expected_error){HS_E_LIMIT, 0, 0, "maximum recursion depth exceeded"}, 1);
  b.n = 0;
  hs_buf_puts(&b, "HloModule m\nENTRY e { x = f32[] parameter(0)\n r = f32[] ");
  for (int k = 0; k < 50000; k++) hs_buf_puts(&b, "negate(f32[] ");
  expect_errors(b.p, b.n, NULL,
                &(expected_error){HS_E_LIMIT, 0, 0, "maximum recursion depth exceeded"}, 1);
  b.n = 0;  // within a limit of the caller's
  hs_buf_puts(&b, "HloModule m\nENTRY e { x = ((((f32[])))) parameter(0) }");
  expect_errors(b.p, b.n, &(hlo_parse_options){.max_depth = 4},
                &(expected_error){HS_E_LIMIT, 0, 0, "maximum recursion depth exceeded"}, 1);
  hs_buf_free(&b);
  EXPECT_ERRORS(IN_ENTRY("a = f32[9223372036854775807,4] parameter(0)"), {HS_E_LIMIT, 3, 8, ""});
  EXPECT_ERRORS(IN_ENTRY("a = f32[1000000000] constant({1})"), {HS_E_LITERAL, 3, 30, "too short"});
}

static void damaged_text(void **state) {
  (void)state;
  static const char text[] =
      "HloModule m, input_output_alias={ {0}: (0, {}, may-alias) }\n\n"
      "f { p = f32[4] parameter(0) ROOT n = f32[4] negate(p) }\n"
      "ENTRY %e (a: f32[4]) -> (f32[4], s32[]) {\n  %a = f32[4]{0:T(8)} parameter(0), "
      "sharding={devices=[2]<=[2]}\n"
      "  %c = f32[4]{0} constant({1, 2.5, -inf, nan}), metadata={op_name=\"x\\n\" "
      "profile_type={1}}\n"
      "  %s = f32[2] slice(%c), slice={[0:4:2]}\n  %f = f32[4] fusion(%a), kind=kLoop, calls=f\n"
      "  %k = s32[] constant(3)\n"
      "  ROOT %t = (f32[4], s32[]) tuple(%f, %k), frontend_attributes={a={\"b\":1}}\n}\n";
  hlo_ctx *ctx = hlo_ctx_new();
  size_t n = sizeof text - 1;
  for (size_t cut = 0; cut <= n; cut++) {
    hlo_module *m;
    hs_status_drop(hlo_parse(ctx, text, cut, NULL, &m));
    hlo_module_free(m);
  }
  char work[sizeof text];
  for (size_t at = 0; at < n; at++)
    for (int k = 0; k < 8; k++) {
      hlo_module *m;
      memcpy(work, text, n);
      work[at] = (char)(work[at] ^ (1 << k));
      hs_status_drop(hlo_parse(ctx, work, n, NULL, &m));
      hlo_module_free(m);
    }
  hlo_ctx_free(ctx);
}

// ---- pieces and files ---------------------------------------------------------------------------
static void instruction_at_the_prompt(void **state) {
  (void)state;
  hlo_ctx *ctx = hlo_ctx_new();
  hlo_module *m =
      parse(ctx, "HloModule m\nENTRY e { x = f32[4] parameter(0)  ROOT r = f32[4] negate(x) }");
  hlo_instr *i;
  const char *good = "y = add(x, r)", *bad = "z = add(x, nothing)";
  assert_true(hs_ok(hlo_parse_instr_into(m->entry, good, strlen(good), &i)));
  assert_string_equal(i->name, "y");
  u32 before = m->entry->ninstrs;
  hs_status s = hlo_parse_instr_into(m->entry, bad, strlen(bad), &i);
  assert_false(hs_ok(s));
  assert_int_equal(s.err->code, HS_E_NAME);
  hs_status_drop(s);
  assert_int_equal(m->entry->ninstrs, before);
  hlo_module_free(m);
  hlo_ctx_free(ctx);
}

static void write_temp(char *path, const char *text) {
  strcpy(path, "/tmp/hlosh-text-XXXXXX");
  int fd = mkstemp(path);
  assert_true(fd >= 0);
  assert_int_equal(write(fd, text, strlen(text)), (ssize_t)strlen(text));
  close(fd);
}

// Stack frames are numbered in order of first use: parents first, equal ones once, unused ones not
// at all.
static void stack_frames(void **state) {
  (void)state;
  expect_print(
      "HloModule m\nFileNames\n1 \"unused.py\"\n2 \"b.py\"\n3 \"a.py\"\nFunctionNames\n1 \"f\"\n"
      "2 \"g\"\nFileLocations\n"
      "1 {file_name_id=2 function_name_id=2 line=5 end_line=5 column=1 end_column=2}\n"
      "2 {file_name_id=3 function_name_id=1 line=7 end_line=7 column=1 end_column=2}\n"
      "3 {file_name_id=2 function_name_id=2 line=5 end_line=5 column=1 end_column=2}\n"
      "StackFrames\n1 {file_location_id=2 parent_frame_id=1}\n"
      "2 {file_location_id=1 parent_frame_id=2}\n3 {file_location_id=3 parent_frame_id=2}\n"
      "ENTRY e { p = f32[] parameter(0), metadata={op_name=\"p\" stack_frame_id=2}  q = f32[] "
      "negate(p), metadata={op_name=\"q\" stack_frame_id=3}"
      "  ROOT r = f32[] negate(q), metadata={op_name=\"r\" stack_frame_id=9} }",
      "HloModule m, entry_computation_layout={(f32[])->f32[]}\n\nFileNames\n1 \"a.py\"\n"
      "2 \"b.py\"\n\nFunctionNames\n1 \"f\"\n2 \"g\"\n\nFileLocations\n"
      "1 {file_name_id=1 function_name_id=1 line=7 end_line=7 column=1 end_column=2}\n"
      "2 {file_name_id=2 function_name_id=2 line=5 end_line=5 column=1 end_column=2}\n\n"
      "StackFrames\n1 {file_location_id=1 parent_frame_id=1}\n"
      "2 {file_location_id=2 parent_frame_id=2}\n\n\n"
      "ENTRY %e (p: f32[]) -> f32[] {\n  %p = f32[] parameter(0), metadata={op_name=\"p\" "
      "stack_frame_id=2}\n"
      "  %q = f32[] negate(%p), metadata={op_name=\"q\" stack_frame_id=2}\n"
      "  ROOT %r = f32[] negate(%q), metadata={op_name=\"r\"}\n}\n\n",
      hlo_print_default());
}

// Names are given when a computation ends, inner ones first; layouts of left-out shapes come from
// the operand that XLA copies; threads and annotations of an async-start reach what it runs; what
// XLA builds itself it does not take from the text.
static void settled_while_reading(void **state) {
  (void)state;
  hlo_print_options o = hlo_print_short_parsable();
  expect_print(
      "HloModule m\nENTRY e { a = f32[2,3]{0,1} parameter(0)  b = f32[2,3]{1,0} parameter(1)  c = "
      "compare(a, b), direction=LT\n"
      "  s = call(b), to_apply={ a = f32[2,3] parameter(0)  ROOT n = negate(a) }\n"
      "  k = s4[2]{0:E(4)} constant({1,2})\n"
      "  t = token[] after-all()  d = (f32[9], u32[], token[]) send(a, t), channel_id=1  ROOT u = "
      "f32[] send-done(d), channel_id=1 }",
      "HloModule m, entry_computation_layout={(f32[2,3]{0,1}, f32[2,3]{1,0})->token[]}\n\n_ {\n"
      "  a = f32[2,3]{1,0} parameter(0)\n"
      "  ROOT n = f32[2,3]{1,0} negate(a)\n}\n\nENTRY e {\n  a.1 = f32[2,3]{0,1} parameter(0)\n"
      "  b = f32[2,3]{1,0} parameter(1)\n"
      "  c = pred[2,3]{0,1} compare(a.1, b), direction=LT\n"
      "  s = f32[2,3]{1,0} call(b), to_apply=_\n  k = s4[2]{0} constant({1, 2})\n"
      "  t = token[] after-all()\n  d = (f32[2,3]{0,1}, u32[], token[]) send(a.1, t), "
      "channel_id=1\n"
      "  ROOT u = token[] send-done(d), channel_id=1\n}\n\n",
      o);
  expect_print(
      "HloModule m\nENTRY e { ROOT t = (f32[], (s32[])) parameter(0), sharding={replicated} }",
      "HloModule m, entry_computation_layout={((f32[], (s32[])))->(f32[], (s32[]))}\n\n"
      "ENTRY e {\n  ROOT t = (f32[], (s32[])) parameter(0), sharding={{replicated}, {replicated}}\n"
      "}\n\n",
      o);
  o.syntax_sugar_async_ops = false;
  expect_print(
      "HloModule m\nw { p = f32[] parameter(0)  ROOT n = f32[] negate(p) }\n"
      "ENTRY e { p = f32[] parameter(0)  s = ((f32[]), f32[]) async-start(p), calls=w, "
      "async_execution_thread=\"io\"\n"
      "  ROOT d = f32[] async-done(s), frontend_attributes={k=\"v\"} }",
      "HloModule m, entry_computation_layout={(f32[])->f32[]}\n\nw {\n  p = f32[] parameter(0)\n"
      "  ROOT n = f32[] negate(p), frontend_attributes={k=\"v\"}\n}, execution_thread=\"io\"\n\n"
      "ENTRY e {\n  p.1 = f32[] parameter(0)\n"
      "  s = ((f32[]), f32[]) async-start(p.1), async_execution_thread=\"io\", calls=w\n"
      "  ROOT d = f32[] async-done(s), frontend_attributes={k=\"v\"}\n}\n\n",
      o);
}

static void foreign_formats(void **state) {
  (void)state;
  static const struct {
    const char *text;
    hs_code code;
    const char *what;
  } files[] = {{"node {\n  name: \"x\"\n  op: \"Placeholder\"\n}\n", HS_E_FORMAT, "GraphDef"},
               {" \n", HS_E_FORMAT, "empty"},
               {"{\"a\": 1}\n", HS_E_FORMAT, "JSON"}};
  for (size_t k = 0; k < sizeof files / sizeof *files; k++) {
    char path[64];
    write_temp(path, files[k].text);
    hlo_ctx *ctx = hlo_ctx_new();
    hlo_module *m;
    hs_status s = hlo_load_file(ctx, path, NULL, &m);
    unlink(path);
    assert_false(hs_ok(s));
    assert_int_equal(s.err->code, files[k].code);
    assert_non_null(strstr(s.err->message, files[k].what));
    assert_non_null(s.err->note);
    hs_status_drop(s);
    hlo_ctx_free(ctx);
  }
  hlo_ctx *ctx = hlo_ctx_new();
  hlo_module *m;
  hs_status s = hlo_load_file(ctx, "/nonexistent/file.hlo", NULL, &m);
  assert_int_equal(s.err->code, HS_E_IO);
  hs_status_drop(s);
  hlo_ctx_free(ctx);
}

// ---- several modules in one file ----------------------------------------------------------------
#define MODULE_OF(name) "HloModule " name "\n\nENTRY e {\n  ROOT x = f32[] parameter(0)\n}\n"
#define SEPARATOR "// -----\n"

typedef struct names {
  char text[64];
} names;

static hs_status take_name(void *to, hlo_module *m) {
  names *n = to;
  strncat(n->text, m->name, sizeof n->text - strlen(n->text) - 1);
  strncat(n->text, " ", sizeof n->text - strlen(n->text) - 1);
  hlo_module_free(m);
  return HS_GOOD;
}

static hs_status load_text(const char *text, names *n) {
  char path[] = "/tmp/hlosh_text_XXXXXX";
  int fd = mkstemp(path);
  assert_true(fd >= 0);
  assert_int_equal(write(fd, text, strlen(text)), (ssize_t)strlen(text));
  close(fd);
  *n = (names){0};
  hlo_ctx *ctx = hlo_ctx_new();
  hs_status s = hlo_load_each(ctx, path, NULL, take_name, n);
  hlo_ctx_free(ctx);
  unlink(path);
  return s;
}

static void modules_of_a_file(void **state) {
  (void)state;
  static const struct {
    const char *text, *want;
  } cases[] = {
      {MODULE_OF("a"), "a "},
      {MODULE_OF("a") SEPARATOR MODULE_OF("b") "\n" SEPARATOR MODULE_OF("c"), "a b c "},
      {SEPARATOR MODULE_OF("a") SEPARATOR, "a "},
      {"\n\n" SEPARATOR SEPARATOR "\n" MODULE_OF("a") "// ----- a comment\n\n", "a "},
      // no separators: not at the beginning of a line, and a shorter one
      {MODULE_OF("a") " // -----\n// ----\n", "a "},
  };
  for (size_t k = 0; k < HS_COUNT(cases); k++) {
    names n;
    hs_status s = load_text(cases[k].text, &n);
    assert_true(hs_ok(s));
    assert_string_equal(n.text, cases[k].want);
  }
  // a mistake in the second module: its position counts from the start of the file, and the first
  // module was handed over
  names n;
  hs_status s =
      load_text(MODULE_OF("a") SEPARATOR "HloModule b\nENTRY e { ROOT x = f32[] add() }", &n);
  assert_false(hs_ok(s));
  assert_int_equal(s.err->line, 8);
  assert_string_equal(n.text, "a ");
  hs_status_drop(s);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(round_trips),
                                     cmocka_unit_test(sharding_forms),
                                     cmocka_unit_test(constants),
                                     cmocka_unit_test(inferred_and_nested),
                                     cmocka_unit_test(signed_nan_and_empty_rows),
                                     cmocka_unit_test(async_short_form),
                                     cmocka_unit_test(names_made_unique),
                                     cmocka_unit_test(every_error_of_a_file),
                                     cmocka_unit_test(single_errors),
                                     cmocka_unit_test(nul_anywhere),
                                     cmocka_unit_test(limits),
                                     cmocka_unit_test(damaged_text),
                                     cmocka_unit_test(instruction_at_the_prompt),
                                     cmocka_unit_test(foreign_formats),
                                     cmocka_unit_test(stack_frames),
                                     cmocka_unit_test(settled_while_reading),
                                     cmocka_unit_test(modules_of_a_file)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
