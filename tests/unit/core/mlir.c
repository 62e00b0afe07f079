// mlir.c — StableHLO text: what small functions become, and errors with their codes.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "core/mlir/mlir.h"
#include "core/verify/verify.h"

// The lines between the entry's braces, as hlosh prints them without layouts.
static void becomes(const char *function, const char *want) {
  hlo_ctx *ctx = hlo_ctx_new();
  hlo_module *m = NULL;
  hs_buf text = {0}, got = {0};
  hs_buf_printf(&text, "module @m {\n%s\n}\n", function);
  hs_status s = hlo_mlir_read(ctx, text.p, text.n, NULL, &m);
  if (hs_ok(s)) s = hlo_verify(m, NULL);
  hs_status_render(s, &got, false);
  if (hs_ok(s)) {
    hlo_print_options o = hlo_print_short_parsable();
    o.print_result_shape = true;
    for (hlo_instr *i = m->entry->first; i; i = i->next) {
      hlo_print_instr(&got, i, &o);
      hs_buf_putc(&got, '\n');
    }
  }
  hs_status_drop(s);
  assert_string_equal(hs_buf_cstr(&got), want);
  hs_buf_free(&text);
  hs_buf_free(&got);
  hlo_module_free(m);
  hlo_ctx_free(ctx);
}

static void refused(const char *text, hs_code code, u32 line) {
  hlo_ctx *ctx = hlo_ctx_new();
  hlo_module *m = NULL;
  hs_status s = hlo_mlir_read(ctx, text, strlen(text), NULL, &m);
  assert_false(hs_ok(s));
  assert_null(m);
  assert_string_equal(hs_code_text(s.err->code), hs_code_text(code));
  assert_int_equal(s.err->line, line);
  hs_status_drop(s);
  hlo_ctx_free(ctx);
}

static void counts(const char *text, hlo_opcode op, u32 n) {
  hlo_ctx *ctx = hlo_ctx_new();
  hlo_module *m = NULL;
  hs_status s = hlo_mlir_read(ctx, text, strlen(text), NULL, &m);
  if (hs_ok(s)) s = hlo_verify(m, NULL);
  assert_true(hs_ok(s));
  assert_int_equal(m->nops[op], n);
  hlo_module_free(m);
  hlo_ctx_free(ctx);
}

// A size of 1 that grows is dropped first; a dimension of size 1 that is added is a reshape.
static void test_broadcasts(void **state) {
  (void)state;
  const char *text =
      "func.func @main(%a: tensor<1x4xf32>, %b: tensor<4xf32>) -> (tensor<3x4xf32>, "
      "tensor<4x1xf32>) {\n"
      " %0 = stablehlo.broadcast_in_dim %a, dims = [0, 1] : (tensor<1x4xf32>) -> tensor<3x4xf32>\n"
      " %1 = stablehlo.broadcast_in_dim %b, dims = [0] : (tensor<4xf32>) -> tensor<4x1xf32>\n"
      " return %0, %1 : tensor<3x4xf32>, tensor<4x1xf32> }\n";
  counts(text, HLO_BROADCAST, 2);
  counts(text, HLO_RESHAPE, 2);
}

// What the loop does not change it captures, constants are made inside, and the state is a tuple.
static void test_while(void **state) {
  (void)state;
  const char *text =
      "func.func @main(%n: tensor<i32>, %x: tensor<4xf32>) -> tensor<4xf32> {\n"
      " %c = stablehlo.constant dense<1> : tensor<i32>\n"
      " %0:3 = stablehlo.while(%i = %n, %a = %x, %k = %x) : tensor<i32>, "
      "tensor<4xf32>, tensor<4xf32>\n"
      "  cond { %l = stablehlo.compare LT, %i, %n, SIGNED : (tensor<i32>, tensor<i32>) -> "
      "tensor<i1>\n"
      "   stablehlo.return %l : tensor<i1> }\n"
      "  do { %j = stablehlo.add %i, %c : tensor<i32>\n"
      "   %b = stablehlo.add %a, %k : tensor<4xf32>\n"
      "   stablehlo.return %j, %b, %k : tensor<i32>, tensor<4xf32>, tensor<4xf32> }\n"
      " return %0#1 : tensor<4xf32> }\n";
  counts(text, HLO_WHILE, 1);
  counts(text, HLO_CONSTANT, 1);
  counts(text, HLO_PARAMETER, 4);
}

static void test_unused(void **state) {
  (void)state;
  counts("func.func @main(%a: tensor<4xf32>) -> tensor<4xf32> {\n"
         " %0 = \"stablehlo.sine\"(%a) : (tensor<4xf32>) -> tensor<4xf32>\n"
         " return %a : tensor<4xf32> }\n",
         HLO_SIN, 0);
}

static void test_errors(void **state) {
  (void)state;
  refused("func.func @f(%a: tensor<4xf32>) -> tensor<4xf32> {\n return %b : tensor<4xf32> }\n",
          HS_E_NAME, 2);
  refused("func.func @f(%a: tensor<4xf32>) {\n stablehlo.nosuch %a : tensor<4xf32>\n return }\n",
          HS_E_OPCODE, 2);
  refused(
      "func.func @f(%a: tensor<4x!quant.uniform<i8:f32, 0.5>>) -> tensor<4x!quant.uniform<i8:f32, "
      "0.5>> {\n return %a : tensor<4x!quant.uniform<i8:f32, 0.5>> }\n",
      HS_E_NO_HLO, 1);
  refused(
      "func.func @f() -> tensor<2xf32> {\n %0 = stablehlo.constant dense<[1.0]> : tensor<2xf32>\n"
      " return %0 : tensor<2xf32> }\n",
      HS_E_LITERAL, 2);
  refused("func.func @f(%a: tensor<4xf32>) -> tensor<4xf32> {\n return %a : tensor<4xf32>\n",
          HS_E_SYNTAX, 3);
}

// A custom call's layouts are part of its meaning.
static void test_custom_call(void **state) {
  (void)state;
  becomes("func.func @main(%a: tensor<2x3xf32>) -> tensor<2x3xf32> {\n %0 = stablehlo.custom_call "
          "@f(%a) {mhlo.backend_config = {k = 1 : i64}, operand_layouts = [dense<[0, 1]> : "
          "tensor<2xindex>], result_layouts = [dense<[0, 1]> : tensor<2xindex>]} : "
          "(tensor<2x3xf32>) -> tensor<2x3xf32>\n return %0 : tensor<2x3xf32> }",
          "Arg_0 = f32[2,3]{1,0} parameter(0)\ncustom-call = f32[2,3]{0,1} custom-call(Arg_0), "
          "custom_call_target=\"f\", operand_layout_constraints={f32[2,3]{0,1}}, "
          "api_version=API_VERSION_TYPED_FFI, backend_config={k = 1 : i64}\n");
}

static void test_empty_arguments(void **state) {
  (void)state;
  becomes("func.func @main() -> tensor<f32> {\n %0 = stablehlo.constant dense<0x7F800000> : "
          "tensor<f32>\n return %0 : tensor<f32> }",
          "constant = f32[] constant(inf)\n");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_broadcasts),      cmocka_unit_test(test_while),
      cmocka_unit_test(test_unused),          cmocka_unit_test(test_errors),
      cmocka_unit_test(test_empty_arguments), cmocka_unit_test(test_custom_call),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
