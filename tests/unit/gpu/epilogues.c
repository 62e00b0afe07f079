// epilogues.c — dots with a bias and an activation as one call of cuBLASLt: which fusions are,
// what the library is told, results of a library of our own, and our kernel where it refuses.
// The pass that makes such fusions: tests/hlo/passes/fuse/dot_epilogue*.hlo.
#include "backends/gpu/library.h"

#include "tests/unit/gpu/library.h"

// x [rows,k] times w [k,columns], and what `body` makes of d and, along its columns, b
#define FUSED(type, x, w, b, d, out, body)                                                      \
  MODULE("f { x = " type x " parameter(0)\n w = " type w " parameter(1)\n b = " type b          \
         " parameter(2)\n d = " type d                                                          \
         " dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n" body                \
         "}\nENTRY e { x = " type x " parameter(0)\n w = " type w " parameter(1)\n b = " type b \
         " parameter(2)\n ROOT r = " out " fusion(x, w, b), kind=kOutput, calls=f }")
#define BIAS(type, d) " bs = " type d " broadcast(b), dimensions={1}\n s = " type d " add(d, bs)\n"
#define RELU(type, d)                                                           \
  " z = " type "[] constant(0)\n zs = " type d " broadcast(z), dimensions={}\n" \
  " ROOT r = " type d " maximum(s, zs)\n"
#define GELU(type, d, root)                                                                       \
  " k1 = " type "[] constant(0.044715)\n k1s = " type d " broadcast(k1), dimensions={}\n"         \
  " k2 = " type "[] constant(0.797884561)\n k2s = " type d " broadcast(k2), dimensions={}\n"      \
  " k3 = " type "[] constant(1)\n k3s = " type d " broadcast(k3), dimensions={}\n"                \
  " k4 = " type "[] constant(0.5)\n k4s = " type d " broadcast(k4), dimensions={}\n"              \
  " p2 = " type d " multiply(s, s)\n p3 = " type d " multiply(p2, s)\n q = " type d               \
  " multiply(p3, k1s)\n i = " type d " add(s, q)\n j = " type d " multiply(i, k2s)\n t = " type d \
  " tanh(j)\n o = " type d " add(t, k3s)\n h = " type d " multiply(o, k4s)\n " root "g = " type d \
  " multiply(s, h)\n"
#define BOTH(type, d) " ROOT r = (" type d ", " type d ") tuple(g, s)\n"

#define SIZES(type, body, out) FUSED(type, "[33,24]", "[24,16]", "[16]", "[33,16]", out, body)
#define ONE(type, body) SIZES(type, body, type "[33,16]")

static bool product(const char *text, gpu_product *p) {
  hlo_module *m = parse(text);
  bool is = gpu_product_of(m->entry->root, 90, p);
  hlo_module_free(m);
  return is;
}

static void numbers(void **st) {
  (void)st;
  gpu_product p;
  assert_true(product(ONE("f32", BIAS("f32", "[33,16]") RELU("f32", "[33,16]")), &p));
  assert_true(p.m == 16 && p.n == 33 && p.k == 24 && p.a_in == 1 && p.b_in == 0);
  assert_true(p.epilogue == BLAS_RELU_BIAS && p.bias && p.bias_in == 2 && !p.both);
  assert_string_equal(gpu_epilogue_text(&p), ", bias, relu");
  assert_true(product(ONE("bf16", BIAS("bf16", "[33,16]") GELU("bf16", "[33,16]", "ROOT ")), &p));
  assert_true(p.epilogue == BLAS_GELU_BIAS && !p.both);
  assert_true(
      product(SIZES("f16", BIAS("f16", "[33,16]") GELU("f16", "[33,16]", "") BOTH("f16", "[33,16]"),
                    "(f16[33,16], f16[33,16])"),
              &p));
  assert_true(p.epilogue == BLAS_GELU_BOTH_BIAS && p.both);
  // a result that is seen as another shape of the same elements
  assert_true(product(FUSED("f32", "[32,24]", "[24,16]", "[16]", "[32,16]", "f32[4,8,16]",
                            " v = f32[4,8,16] bitcast(d)\n bs = f32[4,8,16] broadcast(b), "
                            "dimensions={2}\n ROOT s = f32[4,8,16] add(v, bs)\n"),
                      &p));
  assert_true(p.epilogue == BLAS_BIAS && p.bias && p.m == 16);
}

static void refused(void **st) {
  (void)st;
  gpu_product p;
  // a bias down the rows, a matrix, gelu of f32, f64, a gelu with another constant
  assert_false(product(FUSED("f32", "[16,24]", "[24,16]", "[16]", "[16,16]", "f32[16,16]",
                             " bs = f32[16,16] broadcast(b), dimensions={0}\n"
                             " ROOT s = f32[16,16] add(d, bs)\n"),
                       &p));
  assert_false(product(FUSED("f32", "[16,24]", "[24,16]", "[16,16]", "[16,16]", "f32[16,16]",
                             " ROOT s = f32[16,16] add(d, b)\n"),
                       &p));
  assert_false(product(ONE("f32", BIAS("f32", "[33,16]") GELU("f32", "[33,16]", "ROOT ")), &p));
  assert_false(product(ONE("f64", BIAS("f64", "[33,16]") RELU("f64", "[33,16]")), &p));
  assert_false(product(ONE("f16", BIAS("f16", "[33,16]") " k = f16[] constant(0.5)\n"
                                                         " ks = f16[33,16] broadcast(k), "
                                                         "dimensions={}\n ROOT r = f16[33,16] "
                                                         "maximum(s, ks)\n"),
                       &p));
  // what is stored before gelu has columns by eights
  assert_false(
      product(FUSED("f16", "[33,24]", "[24,12]", "[12]", "[33,12]", "(f16[33,12], f16[33,12])",
                    BIAS("f16", "[33,12]") GELU("f16", "[33,12]", "") BOTH("f16", "[33,12]")),
              &p));
}

// Numbers of 16 bits are rounded once by the library, by half a unit in each of nine operations by
// the evaluator.
static const hlo_tolerance rounded = {.abs = 1e-2, .rel = 0x9p-9};

static void goes_there(const char *text, const char *what, hlo_tolerance near) {
  outcome o =
      run_near(text, "HLOSH_LIBCUBLASLT", plugin_fake_cublaslt("ok"), BACKEND_LIBRARIES_ON, near);
  explain(o.s);
  if (strncmp(o.kind, "cuBLASLt algo ", 14) != 0 || !strstr(hs_buf_cstr(&o.schedule), what))
    fail_msg("%s: %s\n%s", text, o.kind, hs_buf_cstr(&o.schedule));
  o.s = HS_GOOD;
  outcome_free(&o);
}

static void results(void **st) {
  (void)st;
  const hlo_tolerance exact = hlo_near(1e-4, 1e-4);
  goes_there(ONE("f32", BIAS("f32", "[33,16]") RELU("f32", "[33,16]")), "NN, bias, relu:", exact);
  goes_there(ONE("f32", " s = f32[33,16] bitcast(d)\n" RELU("f32", "[33,16]")), "NN, relu:", exact);
  goes_there(ONE("bf16", BIAS("bf16", "[33,16]") RELU("bf16", "[33,16]")), "bias, relu:", rounded);
  goes_there(ONE("bf16", BIAS("bf16", "[33,16]") GELU("bf16", "[33,16]", "ROOT ")),
             "NN, bias, gelu:", rounded);
  goes_there(SIZES("f16", BIAS("f16", "[33,16]") GELU("f16", "[33,16]", "") BOTH("f16", "[33,16]"),
                   "(f16[33,16], f16[33,16])"),
             "NN, bias, stored, gelu:", rounded);
}

// A bias that a loop exchanges with another vector: its place changes from iteration to iteration.
static void exchanged(void **st) {
  (void)st;
  goes_there(
      MODULE("f { x = f32[8,8] parameter(0)\n b = f32[8] parameter(1)\n"
             " d = f32[8,8] dot(x, x), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n"
             " bs = f32[8,8] broadcast(b), dimensions={1}\n s = f32[8,8] add(d, bs)\n"
             " z = f32[] constant(0)\n zs = f32[8,8] broadcast(z), dimensions={}\n"
             " ROOT r = f32[8,8] maximum(s, zs) }\n"
             "cond { s = (s32[], f32[8,8], f32[8], f32[8]) parameter(0)\n"
             " i = s32[] get-tuple-element(s), index=0\n n = s32[] constant(4)\n"
             " ROOT c = pred[] compare(i, n), direction=LT }\n"
             "body { s = (s32[], f32[8,8], f32[8], f32[8]) parameter(0)\n"
             " i = s32[] get-tuple-element(s), index=0\n"
             " x = f32[8,8] get-tuple-element(s), index=1\n"
             " b = f32[8] get-tuple-element(s), index=2\n"
             " c = f32[8] get-tuple-element(s), index=3\n one = s32[] constant(1)\n"
             " j = s32[] add(i, one)\n"
             " y = f32[8,8] fusion(x, b), kind=kOutput, calls=f\n t = f32[8,8] tanh(y)\n"
             " ROOT r = (s32[], f32[8,8], f32[8], f32[8]) tuple(j, t, c, b) }\n"
             "ENTRY e { x = f32[8,8] parameter(0)\n b = f32[8] parameter(1)\n"
             " c = f32[8] parameter(2)\n"
             " p = f32[8,8] fusion(x, b), kind=kOutput, calls=f\n i = s32[] constant(0)\n"
             " t = (s32[], f32[8,8], f32[8], f32[8]) tuple(i, p, b, c)\n"
             " ROOT w = (s32[], f32[8,8], f32[8], f32[8]) while(t), condition=cond, body=body }"),
      "bias, relu:", hlo_near(1e-4, 1e-4));
}

static void ours(void **st) {
  (void)st;
  outcome o = run_with_library(ONE("f32", BIAS("f32", "[33,16]") RELU("f32", "[33,16]")),
                               "HLOSH_LIBCUBLASLT", plugin_fake_cublaslt("unsupported"),
                               BACKEND_LIBRARIES_ON);
  explain(o.s);
  assert_string_equal(o.kind, "product");
  assert_non_null(strstr(hs_buf_cstr(&o.schedule), "our kernel: its heuristic"));
  o.s = HS_GOOD;
  outcome_free(&o);
}

int main(int argc, char **argv) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(numbers),
      cmocka_unit_test(refused),
      cmocka_unit_test_setup(results, make_folder),
      cmocka_unit_test(exchanged),
      cmocka_unit_test_teardown(ours, remove_folder),
  };
  return run_cpu_tests(argc, argv, "gpu_epilogues", tests, HS_COUNT(tests));
}
