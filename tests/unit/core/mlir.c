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
// What follows the module over several lines, as MLIR prints it.
static void test_resources(void **state) {
  (void)state;
  static const char text[] =
      "module {\n  func.func @main() -> tensor<2xf32> {\n"
      "    %0 = stablehlo.constant dense_resource<torch_tensor_2_torch.float32> : tensor<2xf32>\n"
      "    return %0 : tensor<2xf32>\n  }\n}\n\n{-#\n  dialect_resources: {\n    builtin: {\n"
      "      torch_tensor_2_torch.float32: \"0x040000000000003F000080BF\"\n    }\n  }\n#-}\n\n";
  hlo_ctx *ctx = hlo_ctx_new();
  hlo_module *m = NULL;
  assert_true(hs_ok(hlo_mlir_read(ctx, text, strlen(text), NULL, &m)));
  const hlo_literal *l = hlo_constant_value(m->entry->root);
  assert_true(hlo_literal_f64(l, 0) == 0.5 && hlo_literal_f64(l, 1) == -1);
  hlo_module_free(m);
  hlo_ctx_free(ctx);
}

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
  refused("func.func @f(%a: tensor<4xf32>) -> tensor<2x4xf32> {\n"
          " %b = \"stablehlo.broadcast_in_dim\"(%a) : (tensor<4xf32>) -> tensor<2x4xf32>\n"
          " return %b : tensor<2x4xf32> }\n",
          HS_E_SHAPE, 2);
  refused("func.func @f(%a: tensor<4xf32>) -> tensor<4xf32> {\n"
          " %b = stablehlo.exponential %a {mhlo.frontend_attributes = {\"a b\" = \"c\"}}"
          " : tensor<4xf32>\n return %b : tensor<4xf32> }\n",
          HS_E_NO_HLO, 2);
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

// Modules and functions in generic form, as properties and as attributes behind the regions; the
// text around is the reader's own, and so what is read is compared as it prints.
static void test_generic(void **state) {
  (void)state;
  static const char *const forms[] = {
      "module @jit_f attributes {mhlo.num_partitions = 2 : i32} {\n"
      " func.func public @main(%a: tensor<4xf32> {mhlo.sharding = \"{replicated}\"}) -> "
      "(tensor<4xf32> {jax.result_info = \"r\"}) {\n"
      "  %0 = func.call @g(%a) : (tensor<4xf32>) -> tensor<4xf32>\n"
      "  return %0 : tensor<4xf32> }\n"
      " func.func private @g(%a: tensor<4xf32>) -> tensor<4xf32> {\n"
      "  %0 = stablehlo.negate %a : tensor<4xf32>\n  return %0 : tensor<4xf32> } }\n",
      "\"builtin.module\"() <{sym_name = \"jit_f\"}> ({\n"
      " \"func.func\"() <{arg_attrs = [{mhlo.sharding = \"{replicated}\"}], function_type = "
      "(tensor<4xf32>) -> tensor<4xf32>, res_attrs = [{jax.result_info = \"r\"}], sym_name = "
      "\"main\", sym_visibility = \"public\"}> ({\n ^bb0(%a: tensor<4xf32>):\n"
      "  %0 = \"func.call\"(%a) <{callee = @g}> : (tensor<4xf32>) -> tensor<4xf32>\n"
      "  \"func.return\"(%0) : (tensor<4xf32>) -> ()\n }) : () -> ()\n"
      " \"func.func\"() <{function_type = (tensor<4xf32>) -> tensor<4xf32>, sym_name = \"g\", "
      "sym_visibility = \"private\"}> ({\n ^bb0(%a: tensor<4xf32>):\n"
      "  %0 = \"stablehlo.negate\"(%a) : (tensor<4xf32>) -> tensor<4xf32>\n"
      "  \"func.return\"(%0) : (tensor<4xf32>) -> ()\n }) : () -> ()\n"
      "}) {mhlo.num_partitions = 2 : i32} : () -> ()\n",
      "\"builtin.module\"() ({\n \"func.func\"() ({\n ^bb0(%a: tensor<4xf32>):\n"
      "  %0 = \"func.call\"(%a) {callee = @g} : (tensor<4xf32>) -> tensor<4xf32>\n"
      "  \"func.return\"(%0) : (tensor<4xf32>) -> ()\n }) {arg_attrs = [{mhlo.sharding = "
      "\"{replicated}\"}], function_type = (tensor<4xf32>) -> tensor<4xf32>, sym_name = \"main\"} "
      ": () -> ()\n \"func.func\"() ({\n ^bb0(%a: tensor<4xf32>):\n"
      "  %0 = \"stablehlo.negate\"(%a) : (tensor<4xf32>) -> tensor<4xf32>\n"
      "  \"func.return\"(%0) : (tensor<4xf32>) -> ()\n }) {function_type = (tensor<4xf32>) -> "
      "tensor<4xf32>, sym_name = \"g\", sym_visibility = \"private\"} : () -> ()\n"
      "}) {mhlo.num_partitions = 2 : i32, sym_name = \"jit_f\"} : () -> ()\n"};
  hs_buf printed[HS_COUNT(forms)] = {{0}};
  for (size_t k = 0; k < HS_COUNT(forms); k++) {
    hlo_ctx *ctx = hlo_ctx_new();
    hlo_module *m = NULL;
    hs_status s = hlo_mlir_read(ctx, forms[k], strlen(forms[k]), NULL, &m);
    assert_true(hs_ok(s));
    hlo_print_options o = hlo_print_default();
    o.print_metadata = false;
    hlo_print_module(&printed[k], m, &o);
    assert_string_equal(hs_buf_cstr(&printed[k]), hs_buf_cstr(&printed[0]));
    hlo_module_free(m);
    hlo_ctx_free(ctx);
  }
  assert_non_null(strstr(hs_buf_cstr(&printed[0]), "num_partitions=2"));
  assert_non_null(strstr(hs_buf_cstr(&printed[0]), "sharding={replicated}"));
  for (size_t k = 0; k < HS_COUNT(forms); k++) hs_buf_free(&printed[k]);
  refused("\"func.func\"() ({\n}) {sym_name = \"f\"} : () -> ()\n", HS_E_SYNTAX, 2);
  refused("\"func.func\"() ({\n}) {sym_name = \"f\", function_type = tensor<f32>} : () -> ()\n",
          HS_E_SYNTAX, 2);
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

// Operations of other dialects are read, with the arguments that they give their regions, and
// refused where they are converted.
static void test_foreign(void **state) {
  (void)state;
#define LOOP(USED)                                                                          \
  "func.func @main(%a: tensor<2xf32>, %n: tensor<i32>) -> tensor<2xf32> {\n"                \
  " %0 = scf.for %i = %n to %n step %n iter_args(%x = %a) -> tensor<2xf32> {\n"             \
  "  %y = stablehlo.add %x, " USED " : tensor<2xf32>\n  scf.yield %y : tensor<2xf32>\n }\n" \
  " return %0 : tensor<2xf32> }"
  refused(LOOP("%x"), HS_E_NO_HLO, 2);
  refused(LOOP("%z"), HS_E_NAME, 3);
#undef LOOP
  // what a region declares is not known behind it
  refused("func.func @main(%a: tensor<2xf32>) -> tensor<2xf32> {\n"
          " scf.do iter_args(%x = %a) -> tensor<2xf32> { scf.yield %x : tensor<2xf32> }\n"
          " return %x : tensor<2xf32> }",
          HS_E_NAME, 3);
}

// Of ApproxTopK XLA's conversion makes a sort where it may fall back to one.
static void test_approx_top_k(void **state) {
  (void)state;
#define TOP_K(CONFIG)                                                                            \
  "func.func @less(%a: tensor<f32>, %b: tensor<f32>) -> tensor<i1> {\n"                          \
  " %0 = stablehlo.compare LT, %a, %b : (tensor<f32>, tensor<f32>) -> tensor<i1>\n"              \
  " stablehlo.return %0 : tensor<i1> }\n"                                                        \
  "func.func @main(%a: tensor<2x9xf32>, %b: tensor<f32>) -> tensor<2x3xf32> {\n"                 \
  " %0 = stablehlo.custom_call @ApproxTopK(%a, %b) {called_computations = [@less], "             \
  "mhlo.backend_config = {" CONFIG "reduction_dim = 1 : i64}} : (tensor<2x9xf32>, tensor<f32>) " \
  "-> tensor<2x3xf32>\n return %0 : tensor<2x3xf32> }"
  becomes(TOP_K("is_fallback = true, "),
          "Arg_0 = f32[2,9]{1,0} parameter(0)\nArg_1 = f32[] parameter(1)\n"
          "sort = f32[2,9]{1,0} sort(Arg_0), dimensions={1}, to_apply=less\n"
          "slice = f32[2,3]{1,0} slice(sort), slice={[0:2], [0:3]}\n");
  becomes(TOP_K(""), "Arg_0 = f32[2,9]{1,0} parameter(0)\nArg_1 = f32[] parameter(1)\n"
                     "custom-call = f32[2,3]{1,0} custom-call(Arg_0, Arg_1), "
                     "custom_call_target=\"ApproxTopK\", api_version=API_VERSION_TYPED_FFI, "
                     "called_computations={less}, backend_config={reduction_dim = 1 : i64}\n");
#undef TOP_K
}

// The precision types, and three products for one, are HLO's algorithm.
static void test_dot_algorithm(void **state) {
  (void)state;
  becomes("func.func @main(%a: tensor<2x3xf32>, %b: tensor<3x2xf32>) -> tensor<2x2xf32> {\n %0 = "
          "stablehlo.dot_general %a, %b, contracting_dims = [1] x [0], algorithm = "
          "<lhs_precision_type = bf16, rhs_precision_type = bf16, accumulation_type = f32, "
          "lhs_component_count = 2, rhs_component_count = 2, num_primitive_operations = 3, "
          "allow_imprecise_accumulation = false> : (tensor<2x3xf32>, tensor<3x2xf32>) -> "
          "tensor<2x2xf32>\n return %0 : tensor<2x2xf32> }",
          "Arg_0 = f32[2,3]{1,0} parameter(0)\nArg_1 = f32[3,2]{1,0} parameter(1)\n"
          "dot = f32[2,2]{1,0} dot(Arg_0, Arg_1), lhs_contracting_dims={1}, "
          "rhs_contracting_dims={0}, algorithm=dot_bf16_bf16_f32_x3\n");
}

static void test_empty_arguments(void **state) {
  (void)state;
  becomes("func.func @main() -> tensor<f32> {\n %0 = stablehlo.constant dense<0x7F800000> : "
          "tensor<f32>\n return %0 : tensor<f32> }",
          "constant = f32[] constant(inf)\n");
}

// Sizes that are constants are attributes; others are refused by name.
static void test_dynamic(void **state) {
  (void)state;
  becomes("func.func @main(%a: tensor<4xf32>) -> tensor<2x4xf32> {\n"
          " %c = stablehlo.constant dense<[2, 4]> : tensor<2xi64>\n"
          " %0 = stablehlo.dynamic_broadcast_in_dim %a, %c, dims = [1] : (tensor<4xf32>, "
          "tensor<2xi64>) -> tensor<?x?xf32>\n"
          " %1 = stablehlo.negate %0 : tensor<?x?xf32>\n"
          " %2 = stablehlo.reshape %1 : (tensor<?x?xf32>) -> tensor<2x4xf32>\n"
          " return %2 : tensor<2x4xf32> }",
          "Arg_0 = f32[4]{0} parameter(0)\n"
          "broadcast = f32[2,4]{1,0} broadcast(Arg_0), dimensions={1}\n"
          "negate = f32[2,4]{1,0} negate(broadcast)\n"
          "reshape = f32[2,4]{1,0} reshape(negate)\n");
  refused("func.func @main(%a: tensor<4xf32>, %n: tensor<1xi64>) -> tensor<?xf32> {\n"
          " %0 = stablehlo.dynamic_iota %n, dim = 0 : (tensor<1xi64>) -> tensor<?xf32>\n"
          " return %0 : tensor<?xf32> }\n",
          HS_E_NO_HLO, 2);
}

// Names with other characters than HLO's, and what stands for a composite.
static void test_composite(void **state) {
  (void)state;
  becomes("func.func @main(%a: tensor<4xf32>) -> tensor<4xf32> {\n"
          " %0 = stablehlo.composite \"x.sin\" %a {decomposition = @\"<lambda>\", version = 3 : "
          "i32, composite_attributes = {k = 1 : i32}} : (tensor<4xf32>) -> tensor<4xf32>\n"
          " return %0 : tensor<4xf32> }\n"
          "func.func private @\"<lambda>\"(%a: tensor<4xf32>) -> tensor<4xf32> {\n"
          " %0 = stablehlo.sine %a : tensor<4xf32>\n return %0 : tensor<4xf32> }",
          "Arg_0 = f32[4]{0} parameter(0)\n"
          "call = f32[4]{0} call(Arg_0), to_apply=_lambda_, is_composite=true, "
          "frontend_attributes={composite.attributes={k = 1 : i32},composite.name=\"x.sin\","
          "composite.version=\"3\"}\n");
}

// Arithmetic on constants, and what hands its operand on; one constant for equal ones.
static void test_folding(void **state) {
  (void)state;
  becomes("func.func @main(%a: tensor<2x3xi32>) -> (tensor<2x3xi32>, tensor<i32>) {\n"
          " %c = stablehlo.constant dense<6> : tensor<i32>\n"
          " %d = stablehlo.constant dense<7> : tensor<i32>\n"
          " %0 = stablehlo.multiply %c, %d : tensor<i32>\n"
          " %1 = stablehlo.constant dense<42> : tensor<i32>\n"
          " %2 = stablehlo.subtract %1, %0 : tensor<i32>\n"
          " %3 = stablehlo.broadcast_in_dim %2, dims = [] : (tensor<i32>) -> tensor<2x3xi32>\n"
          " %4 = stablehlo.add %3, %a : tensor<2x3xi32>\n"
          " %5 = stablehlo.reshape %4 : (tensor<2x3xi32>) -> tensor<6xi32>\n"
          " %6 = stablehlo.reshape %5 : (tensor<6xi32>) -> tensor<2x3xi32>\n"
          " return %6, %1 : tensor<2x3xi32>, tensor<i32> }",
          "Arg_0 = s32[2,3]{1,0} parameter(0)\nconstant = s32[] constant(42)\n"
          "tuple = (s32[2,3]{1,0}, s32[]) tuple(Arg_0, constant)\n");
  becomes("func.func @main(%a: tensor<1xf32>) -> tensor<1xf32> {\n"
          " %c = stablehlo.constant dense<0.0> : tensor<1xf32>\n"
          " %d = stablehlo.constant dense<2.0> : tensor<1xf32>\n"
          " %0 = stablehlo.subtract %a, %c : tensor<1xf32>\n"
          " %1 = stablehlo.multiply %d, %0 : tensor<1xf32>\n return %1 : tensor<1xf32> }",
          "Arg_0 = f32[1]{0} parameter(0)\nconstant = f32[1]{0} constant({2})\n"
          "multiply = f32[1]{0} multiply(Arg_0, constant)\n");
  becomes("func.func @main() -> tensor<2x3xi32> {\n"
          " %0 = stablehlo.iota dim = 1 : tensor<2x3xi32>\n return %0 : tensor<2x3xi32> }",
          "iota = s32[3]{0} iota(), iota_dimension=0\n"
          "broadcast = s32[2,3]{1,0} broadcast(iota), dimensions={1}\n");
}

// Axes of a mesh as HLO's tiles, and the value that is cut up by devices.
static void test_shardy(void **state) {
  (void)state;
  becomes(" sdy.mesh @m = <[\"a\"=2, \"b\"=4]>\n"
          " func.func public @main(%a: tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@m, [{\"b\"}, "
          "{}]>}) -> tensor<8x8xf32> {\n"
          " %0 = sdy.manual_computation(%a) in_shardings=[<@m, [{\"b\"}, {}]>] "
          "out_shardings=[<@m, [{\"b\"}, {}]>] manual_axes={\"b\"} (%x: tensor<2x8xf32>) {\n"
          "  %1 = stablehlo.negate %x : tensor<2x8xf32>\n sdy.return %1 : tensor<2x8xf32>\n"
          " } : (tensor<8x8xf32>) -> tensor<8x8xf32>\n return %0 : tensor<8x8xf32> }",
          "Arg_0 = f32[8,8]{1,0} parameter(0), sharding={devices=[4,1,2]<=[2,4]T(1,0) "
          "last_tile_dim_replicate}, frontend_attributes={xla.sdy.sharding=\"#sdy.sharding<@m, "
          "[{\\\"b\\\"}, {}]>\"}\n"
          "custom-call = f32[2,8]{1,0} custom-call(Arg_0), "
          "custom_call_target=\"xla.sdy.GlobalToLocalShape\", custom_call_has_side_effect=true, "
          "frontend_attributes={xla.sdy.in_shardings=\"#sdy.sharding_per_value<[<@m, [{\\\"b\\\"}, "
          "{}]>]>\",xla.sdy.manual_axes=\"#sdy<manual_axes{\\\"b\\\"}>\"}\n"
          "call = f32[2,8]{1,0} call(custom-call), to_apply=xla.sdy.manual_computation_body, "
          "frontend_attributes={inlineable=\"false\"}\n"
          "custom-call.1 = f32[8,8]{1,0} custom-call(call), "
          "custom_call_target=\"xla.sdy.LocalToGlobalShape\", custom_call_has_side_effect=true, "
          "frontend_attributes={xla.sdy.manual_axes=\"#sdy<manual_axes{\\\"b\\\"}>\","
          "xla.sdy.out_shardings=\"#sdy.sharding_per_value<[<@m, [{\\\"b\\\"}, {}]>]>\"}\n");
  // parts of axes: the last 4 of 8, and 2 of 12 in the middle
  becomes(" sdy.mesh @m = <[\"a\"=8]>\n sdy.mesh @n = <[\"a\"=12, \"b\"=2]>\n"
          " func.func public @main(%a: tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@m, "
          "[{\"a\":(2)4}, {}]>}, %b: tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@n, "
          "[{\"b\"}, {\"a\":(3)2, ?}], unreduced={\"a\":(1)3}>}) -> tensor<8x8xf32> {\n"
          " return %a : tensor<8x8xf32> }",
          "Arg_0 = f32[8,8]{1,0} parameter(0), sharding={devices=[4,1,2]<=[2,4]T(1,0) "
          "last_tile_dim_replicate}, frontend_attributes={xla.sdy.sharding=\"#sdy.sharding<@m, "
          "[{\\\"a\\\":(2)4}, {}]>\"}\n"
          "Arg_1 = f32[8,8]{1,0} parameter(1), sharding={devices=[2,2,2,3]<=[3,4,2]T(2,1,0) "
          "last_tile_dims={replicated, unreduced}}, "
          "frontend_attributes={xla.sdy.sharding=\"#sdy.sharding<@n, [{\\\"b\\\"}, "
          "{\\\"a\\\":(3)2, ?}], unreduced={\\\"a\\\":(1)3}>\"}\n");
#define PART(AXES)                                                                      \
  "module { sdy.mesh @m = <[\"a\"=12]>\n func.func public @main(%a: tensor<8x8xf32> "   \
  "{sdy.sharding = #sdy.sharding<@m, [" AXES "]>}) -> tensor<8x8xf32> {\n return %a : " \
  "tensor<8x8xf32> } }"
  refused(PART("{\"a\":(1)5}, {}"), HS_E_ATTR, 2);
  refused(PART("{\"a\":(2)12}, {}"), HS_E_ATTR, 2);
  refused(PART("{\"a\":(0)2}, {}"), HS_E_ATTR, 2);
  refused(PART("{\"a\":(1)4}, {\"a\":(2)2}"), HS_E_ATTR, 2);
  refused(PART("{\"a\":(1)4}, {\"a\"}"), HS_E_ATTR, 2);
  refused(PART("{\"a\":1}, {}"), HS_E_SYNTAX, 2);
#undef PART
  // what is still to be summed along axes
  becomes(" sdy.mesh @m = <[\"a\"=2, \"b\"=4]>\n"
          " func.func public @main(%a: tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@m, [{\"a\"}, "
          "{}], unreduced={\"b\"}>}, %b: tensor<f32> {sdy.sharding = #sdy.sharding<@m, [], "
          "unreduced={\"a\"}>}) -> tensor<8x8xf32> {\n return %a : tensor<8x8xf32> }",
          "Arg_0 = f32[8,8]{1,0} parameter(0), sharding={devices=[2,1,4]<=[8] "
          "last_tile_dims={unreduced}}, frontend_attributes={xla.sdy.sharding=\"#sdy.sharding<@m, "
          "[{\\\"a\\\"}, {}], unreduced={\\\"b\\\"}>\"}\n"
          "Arg_1 = f32[] parameter(1), sharding={devices=[4,2]<=[2,4]T(1,0) "
          "last_tile_dims={replicated, unreduced}}, frontend_attributes={xla.sdy.sharding=\""
          "#sdy.sharding<@m, [], unreduced={\\\"a\\\"}>\"}\n");
  // a mesh with an order of its own, and one device without axes
  becomes(" sdy.mesh @m = <[\"a\"=2, \"b\"=2], device_ids=[3, 1, 2, 0]>\n"
          " sdy.mesh @one = <[], device_ids=[2]>\n"
          " func.func public @main(%a: tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@m, [{\"b\"}, "
          "{}]>}, %b: tensor<8xf32> {sdy.sharding = #sdy.sharding<@one, []>}) -> tensor<8x8xf32> "
          "{\n return %a : tensor<8x8xf32> }",
          "Arg_0 = f32[8,8]{1,0} parameter(0), sharding={devices=[2,1,2]3,2,1,0 "
          "last_tile_dim_replicate}, frontend_attributes={xla.sdy.sharding=\"#sdy.sharding<@m, "
          "[{\\\"b\\\"}, {}]>\"}\n"
          "Arg_1 = f32[8]{0} parameter(1), sharding={maximal device=2}, "
          "frontend_attributes={xla.sdy.sharding=\"#sdy.sharding<@one, []>\"}\n");
}

// What jax.export.deserialize reads is told by its content, and is the module that was written.
static void test_exported(void **state) {
  (void)state;
  static const struct {
    const char *header, *entry, *error;
  } rows[] = {
      {"", "ROOT Arg_0 = f32[4] parameter(0)", NULL},
      {"",
       "Arg_0 = f32[] parameter(0)\n Arg_1 = bf16[2,3] parameter(1)\n"
       " ROOT t = (bf16[2,3], f32[]) tuple(Arg_1, Arg_0)",
       NULL},
      {"", "ROOT t = () tuple()", NULL},
      {"", "ROOT a = (f32[4]) parameter(0)",
       "m takes or returns (f32[4]), which JAX has no array for"},
      {"", "ROOT a = s2[4] parameter(0)", "m takes or returns s2[4], which JAX has no array for"},
      {", num_partitions=2", "ROOT a = f32[4] parameter(0)",
       "m is for several devices, whose shardings jax.export keeps"},
  };
  for (size_t k = 0; k < HS_COUNT(rows); k++) {
    hlo_ctx *ctx = hlo_ctx_new();
    hlo_module *m = NULL, *again = NULL;
    hs_buf b = {0}, one = {0}, two = {0};
    hs_str artifact;
    const hlo_parse_options o = {.as_written = true};
    char *text = hs_format("HloModule m%s\nENTRY main { %s }\n", rows[k].header, rows[k].entry);
    assert_true(hs_ok(hlo_parse(ctx, text, strlen(text), NULL, &m)));
    hs_status s = hlo_jax_export_write(m, HLO_STABLEHLO_USUAL, &b);
    if (rows[k].error) {
      assert_string_equal(hs_code_text(s.err->code), "E0112");
      assert_string_equal(s.err->message, rows[k].error);
      assert_int_equal(b.n, 0);
      hs_status_drop(s);
    } else {
      assert_true(hs_ok(s));
      assert_true(hlo_is_jax_export(b.p, b.n, &artifact));
      assert_true(hs_ok(hlo_jax_export_check(b.p, b.n)));
      assert_true(hs_ok(hlo_mlir_read(ctx, artifact.p, artifact.n, &o, &again)));
      assert_true(hs_ok(hlo_mlir_print(m, &one)) && hs_ok(hlo_mlir_print(again, &two)));
      assert_string_equal(hs_buf_cstr(&one), hs_buf_cstr(&two));
    }
    hs_buf_free(&b);
    hs_buf_free(&one);
    hs_buf_free(&two);
    hlo_module_free(m);
    hlo_module_free(again);
    hlo_ctx_free(ctx);
    hs_free(text);
  }
}

// Printed, read back as written, and printed again: the same text.
static void test_print(void **state) {
  (void)state;
  const char *text =
      "HloModule m\n"
      "add { a = f32[] parameter(0)\n b = f32[] parameter(1)\n ROOT c = f32[] add(a, b) }\n"
      "body { s = (s32[], f32[4]) parameter(0)\n i = s32[] get-tuple-element(s), index=0\n"
      " x = f32[4] get-tuple-element(s), index=1\n one = s32[] constant(1)\n"
      " j = s32[] add(i, one)\n y = f32[4] negate(x)\n ROOT t = (s32[], f32[4]) tuple(j, y) }\n"
      "cond { s = (s32[], f32[4]) parameter(0)\n i = s32[] get-tuple-element(s), index=0\n"
      " n = s32[] constant(9)\n ROOT l = pred[] compare(i, n), direction=LT }\n"
      "ENTRY e { p = f32[4] parameter(0)\n z = s32[] constant(0)\n"
      " t = (s32[], f32[4]) tuple(z, p)\n"
      " w = (s32[], f32[4]) while(t), condition=cond, body=body\n"
      " v = f32[4] get-tuple-element(w), index=1\n zero = f32[] constant(-inf)\n"
      " r = f32[] reduce(v, zero), dimensions={0}, to_apply=add\n"
      " ROOT out = (f32[], f32[4]) tuple(r, v) }\n";
  hlo_ctx *ctx = hlo_ctx_new();
  hlo_module *m = NULL, *again = NULL;
  hs_buf a = {0}, b = {0};
  const hlo_parse_options o = {.as_written = true};
  assert_true(hs_ok(hlo_parse(ctx, text, strlen(text), NULL, &m)));
  assert_true(hs_ok(hlo_mlir_print(m, &a)));
  assert_non_null(strstr(hs_buf_cstr(&a), "%w:2 = \"stablehlo.while\"(%z, %p) ({"));
  assert_non_null(strstr(hs_buf_cstr(&a), "<{value = dense<0xFF800000> : tensor<f32>}>"));
  assert_true(hs_ok(hlo_mlir_read(ctx, a.p, a.n, &o, &again)));
  assert_true(hs_ok(hlo_verify(again, NULL)));
  assert_int_equal(again->nops[HLO_WHILE], 1);
  assert_int_equal(again->nops[HLO_NEGATE], 1);
  hlo_module_free(again);
  hlo_module_free(m);
  const char *fusion = "f { p = f32[] parameter(0)\n ROOT n = f32[] negate(p) }\n"
                       "ENTRY e { p = f32[] parameter(0)\n"
                       " ROOT g = f32[] fusion(p), kind=kLoop, calls=f }\n";
  assert_true(hs_ok(hlo_parse(ctx, fusion, strlen(fusion), NULL, &m)));
  hs_status s = hlo_mlir_print(m, &b);
  assert_false(hs_ok(s));
  assert_string_equal(hs_code_text(s.err->code), "E0112");
  assert_int_equal(b.n, 0);
  hs_status_drop(s);
  hlo_module_free(m);
  hs_buf_free(&a);
  hs_buf_free(&b);
  hlo_ctx_free(ctx);
}

// What is fed in is a tuple beside a token: printed as results, and a tuple where it is needed.
static void test_print_infeed(void **state) {
  (void)state;
  static const struct {
    const char *type, *printed;  // NULL: refused
  } rows[] = {
      {"(f32[2], s32[])",
       "    %i:3 = \"stablehlo.infeed\"(%t) <{infeed_config = \"c\"}> : (!stablehlo.token) -> "
       "(tensor<2xf32>, tensor<i32>, !stablehlo.token)\n"
       "    %$0 = \"stablehlo.tuple\"(%i#0, %i#1) : (tensor<2xf32>, tensor<i32>) -> "
       "tuple<tensor<2xf32>, tensor<i32>>\n"},
      {"()", "    %i = \"stablehlo.infeed\"(%t) <{infeed_config = \"c\"}> : (!stablehlo.token) -> "
             "(!stablehlo.token)\n    %$0 = \"stablehlo.tuple\"() : () -> tuple<>\n"},
      {"f32[2]", NULL},
      {"(f32[2], (s32[]))", NULL},
  };
  for (size_t k = 0; k < HS_COUNT(rows); k++) {
    hlo_ctx *ctx = hlo_ctx_new();
    hlo_module *m = NULL, *again = NULL;
    hs_buf b = {0};
    const hlo_parse_options o = {.as_written = true};
    char *text = hs_format("HloModule m\nENTRY e { t = token[] after-all()\n"
                           " i = (%s, token[]) infeed(t), infeed_config=\"c\"\n"
                           " ROOT d = %s get-tuple-element(i), index=0 }\n",
                           rows[k].type, rows[k].type);
    assert_true(hs_ok(hlo_parse(ctx, text, strlen(text), NULL, &m)));
    hs_status s = hlo_mlir_print(m, &b);
    assert_int_equal(hs_ok(s), rows[k].printed != NULL);
    if (rows[k].printed) {
      assert_non_null(strstr(hs_buf_cstr(&b), rows[k].printed));
      assert_true(hs_ok(hlo_mlir_read(ctx, b.p, b.n, &o, &again)));
      assert_true(hs_ok(hlo_verify(again, NULL)));
      assert_int_equal(again->nops[HLO_INFEED], 1);
    } else {
      assert_string_equal(hs_code_text(s.err->code), "E0112");
      hs_status_drop(s);
    }
    hs_buf_free(&b);
    hs_free(text);
    hlo_module_free(m);
    hlo_module_free(again);
    hlo_ctx_free(ctx);
  }
}

// A portable artifact is the module that was written, for each version that has its operations.
static void test_artifact(void **state) {
  (void)state;
  static const struct {
    u32 version;
    const char *root, *error;  // what the message ends with; NULL: it is written
  } rows[] = {
      {9, "exponential(a)", NULL},
      {12, "exponential(a)", NULL},
      {14, "exponential(a)", NULL},
      {117, "exponential(a)", NULL},
      {103, "tan(a)", "stablehlo.tan needs 1.4"},
      {104, "tan(a)", NULL},
      {18, "erf(a)", "chlo.erf needs 0.19"},
      {19, "erf(a)", NULL},
      {117, "erf(a)", NULL},
      {100,
       "custom-call(a), custom_call_target=\"f\", api_version=API_VERSION_TYPED_FFI, "
       "backend_config={n = 1 : i32, s = \"x\", t = true, f = 1.5 : f32}",
       "stablehlo.custom_call with a dictionary needs 1.3"},
      {117,
       "custom-call(a), custom_call_target=\"f\", api_version=API_VERSION_TYPED_FFI, "
       "backend_config={n = 1 : i32, s = \"x\", t = true, f = 1.5 : f32}",
       NULL},
      {117,
       "all-gather(a), channel_id=0, dimensions={0}, replica_groups={{0}}, "
       "use_global_device_ids=true",
       "stablehlo.all_gather in channel 0, which stands for none"},
  };
  for (size_t k = 0; k < HS_COUNT(rows); k++) {
    hlo_ctx *ctx = hlo_ctx_new();
    hlo_module *m = NULL, *again = NULL;
    hs_buf b = {0}, one = {0}, two = {0};
    const hlo_parse_options o = {.as_written = true};
    char *text = hs_format("HloModule m, frontend_attributes={k=\"v\",xla.sdy.meshes={mesh = "
                           "#sdy.mesh<[\"a\"=2]>}}\nENTRY main { a = f32[4] parameter(0)\n"
                           " ROOT r = f32[4] %s }\n",
                           rows[k].root);
    assert_true(hs_ok(hlo_parse(ctx, text, strlen(text), NULL, &m)));
    hs_status s = hlo_mlir_write(m, rows[k].version, &b);
    assert_int_equal(hs_ok(s), !rows[k].error);
    if (rows[k].error) {
      assert_non_null(strstr(s.err->message, rows[k].error));
      assert_int_equal(b.n, 0);
    } else {
      hlo_print_options p = hlo_print_canonical();
      assert_true(hlo_is_mlir_bytecode(b.p, b.n));
      assert_true(hs_ok(hlo_mlir_read(ctx, b.p, b.n, &o, &again)));
      hlo_print_module(&one, m, &p);
      hlo_print_module(&two, again, &p);
      assert_string_equal(hs_buf_cstr(&two), hs_buf_cstr(&one));
      two.n = 0;
      p = hlo_print_default();
      hlo_print_module(&two, again, &p);
      assert_non_null(strstr(hs_buf_cstr(&two), "frontend_attributes={k=\"v\",xla.sdy.meshes="));
    }
    hs_status_drop(s);
    hlo_module_free(m);
    hlo_module_free(again);
    hlo_ctx_free(ctx);
    hs_free(text);
    hs_buf_free(&b);
    hs_buf_free(&one);
    hs_buf_free(&two);
  }
  u32 v;
  static const char *const wrong[] = {"",    "1",       "0.8.0", "1.22.0",
                                      "1.x", "1.2.3.4", "1..2",  "9999.1"};
  assert_true(hs_ok(hlo_mlir_version(HS_STR("1.4.0"), &v)) && v == 104);
  assert_true(hs_ok(hlo_mlir_version(HS_STR("0.19"), &v)) && v == 19);
  for (size_t k = 0; k < HS_COUNT(wrong); k++) {
    hs_status s = hlo_mlir_version(hs_str_of(wrong[k]), &v);
    assert_false(hs_ok(s));
    hs_status_drop(s);
  }
}

// What a check compares stays in the module as a custom call.
static void test_check(void **state) {
  (void)state;
  becomes("func.func @main(%a: tensor<2xf32>) {\n"
          " check.expect_almost_eq_const %a, dense<1.0> : tensor<2xf32> {tolerance = 0.5 : f64}\n"
          " return }",
          "Arg_0 = f32[2]{0} parameter(0)\nconstant = f32[] constant(1)\n"
          "broadcast = f32[2]{0} broadcast(constant), dimensions={}\n"
          "custom-call = () custom-call(Arg_0, broadcast), "
          "custom_call_target=\"check.expect_almost_eq\", custom_call_has_side_effect=true, "
          "backend_config=\"tolerance=0.5;\"\ntuple = () tuple()\n");
}

static void test_queues(void **state) {
  (void)state;
  becomes("func.func @main(%t: !stablehlo.token) -> (tensor<2xf32>, !stablehlo.token) {\n"
          " %0:2 = \"stablehlo.infeed\"(%t) {infeed_config = \"c\"} : (!stablehlo.token) -> "
          "(tensor<2xf32>, !stablehlo.token)\n"
          " %1 = \"stablehlo.outfeed\"(%0#0, %0#1) : (tensor<2xf32>, !stablehlo.token) -> "
          "!stablehlo.token\n return %0#0, %1 : tensor<2xf32>, !stablehlo.token }",
          "Arg_0 = token[] parameter(0)\n"
          "infeed = ((f32[2]{0}), token[]) infeed(Arg_0), infeed_config=\"c\"\n"
          "get-tuple-element = token[] get-tuple-element(infeed), index=1\n"
          "get-tuple-element.1 = (f32[2]{0}) get-tuple-element(infeed), index=0\n"
          "get-tuple-element.2 = f32[2]{0} get-tuple-element(get-tuple-element.1), index=0\n"
          "tuple = (f32[2]{0}) tuple(get-tuple-element.2)\n"
          "outfeed = token[] outfeed(tuple, get-tuple-element), outfeed_shape=(f32[2]{0})\n"
          "tuple.1 = (f32[2]{0}, token[]) tuple(get-tuple-element.2, outfeed)\n");
}

// Functions of chlo without an operation are formulas, as long as those of StableHLO.
static void test_chlo(void **state) {
  (void)state;
  static const struct {
    const char *name, *operands;
    hlo_opcode op;
    u32 n;
  } cases[] = {{"lgamma", "%a", HLO_DIVIDE, 10},       {"digamma", "%a", HLO_DIVIDE, 20},
               {"erfc", "%a", HLO_SELECT, 4},          {"erf_inv", "%a", HLO_SELECT, 11},
               {"bessel_i1e", "%a", HLO_SUBTRACT, 24}, {"zeta", "%a, %a", HLO_POWER, 11},
               {"polygamma", "%a, %a", HLO_POWER, 11}, {"next_after", "%a, %a", HLO_SELECT, 5}};
  for (size_t k = 0; k < HS_COUNT(cases); k++) {
    hs_buf b = {0};
    hs_buf_printf(&b,
                  "func.func @main(%%a: tensor<4xf32>) -> tensor<4xf32> {\n"
                  " %%0 = chlo.%s %s : tensor<4xf32>%s -> tensor<4xf32>\n"
                  " return %%0 : tensor<4xf32> }\n",
                  cases[k].name, cases[k].operands,
                  strchr(cases[k].operands, ',') ? ", tensor<4xf32>" : "");
    counts(hs_buf_cstr(&b), cases[k].op, cases[k].n);
    hs_buf_free(&b);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_broadcasts),      cmocka_unit_test(test_resources),
      cmocka_unit_test(test_while),           cmocka_unit_test(test_unused),
      cmocka_unit_test(test_errors),          cmocka_unit_test(test_generic),
      cmocka_unit_test(test_empty_arguments), cmocka_unit_test(test_custom_call),
      cmocka_unit_test(test_approx_top_k),    cmocka_unit_test(test_foreign),
      cmocka_unit_test(test_exported),        cmocka_unit_test(test_print_infeed),
      cmocka_unit_test(test_print),           cmocka_unit_test(test_dot_algorithm),
      cmocka_unit_test(test_folding),         cmocka_unit_test(test_shardy),
      cmocka_unit_test(test_dynamic),         cmocka_unit_test(test_composite),
      cmocka_unit_test(test_artifact),        cmocka_unit_test(test_check),
      cmocka_unit_test(test_queues),          cmocka_unit_test(test_chlo),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
