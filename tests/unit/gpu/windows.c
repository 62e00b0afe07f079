// windows.c — convolutions by cuDNN, through a library and a driver of our own: all types, ranks,
// layouts, windows and groups, what is added and applied to results, what stays our kernel's,
// engines that may not be used, libraries that are missing, refuse or fail. tests/cuda_headers.sh
// has the numbers.
#include "backends/gpu/library.h"
#include "tests/unit/gpu/library.h"

#define CONV(x, w, y, attrs)                                                       \
  MODULE("ENTRY e { x = " x " parameter(0)\n w = " w " parameter(1)\n ROOT y = " y \
         " convolution(x, w), " attrs " }")
#define SMALL CONV("f32[1,2,5,6]", "f32[3,2,3,3]", "f32[1,3,3,4]", "window={size=3x3}, " NCHW)
#define NCHW "dim_labels=bf01_oi01->bf01"
#define NHWC "dim_labels=b01f_01io->b01f"
// with room for a workspace
#define MIDDLE CONV("f32[1,2,12,12]", "f32[3,2,3,3]", "f32[1,3,10,10]", "window={size=3x3}, " NCHW)
// 2^21 multiplications, in a type that tensor cores multiply, which the emulation does at once
#define LARGE \
  CONV("bf16[1,17,17,32]", "bf16[4,4,32,32]", "bf16[1,14,14,32]", "window={size=4x4}, " NHWC)

static outcome run_with(const char *text, const char *mode, backend_libraries libraries) {
  return run_with_library(text, "HLOSH_LIBCUDNN", mode ? plugin_fake_cudnn(mode) : NULL, libraries);
}

// kind: what is in that of the convolution's kernel; NULL: it is ours.
static void expect(const char *text, const char *mode, backend_libraries libraries,
                   const char *kind, const char *said) {
  outcome o = run_with(text, mode, libraries);
  explain(o.s);
  bool right = kind ? strstr(o.kind, kind) != NULL : !strstr(o.kind, "cuDNN");
  if (!right || (said && !strstr(hs_buf_cstr(&o.schedule), said)))
    fail_msg("%s: %s, no '%s' in\n%s", text, o.kind, said ? said : "", hs_buf_cstr(&o.schedule));
  outcome_free(&o);
}

static void goes_there(const char *text) {
  expect(text, "ok", BACKEND_LIBRARIES_ON, "cuDNN engine ", NULL);
}

static void types(void **st) {
  (void)st;
  goes_there(SMALL);
  goes_there(CONV("f64[1,2,5,6]", "f64[3,2,3,3]", "f64[1,3,3,4]", "window={size=3x3}, " NCHW));
  goes_there(CONV("f16[1,2,5,6]", "f16[3,2,3,3]", "f16[1,3,3,4]", "window={size=3x3}, " NCHW));
  goes_there(CONV("bf16[1,2,5,6]", "bf16[3,2,3,3]", "bf16[1,3,3,4]", "window={size=3x3}, " NCHW));
}

static void shapes(void **st) {
  (void)st;
  goes_there(CONV("f32[2,5,6,2]", "f32[3,3,2,3]", "f32[2,3,4,3]", "window={size=3x3}, " NHWC));
  // paddings, strides, holes in the window, the window from behind
  goes_there(CONV("f32[2,7,6,2]", "f32[3,2,2,3]", "f32[2,4,7,3]",
                  "window={size=3x2 stride=2x1 pad=1_1x0_2}, " NHWC));
  goes_there(CONV("f32[2,9,6,2]", "f32[3,2,2,3]", "f32[2,5,4,3]",
                  "window={size=3x2 rhs_dilate=2x2}, " NHWC));
  goes_there(CONV("f32[1,2,5,6]", "f32[3,2,3,2]", "f32[1,3,3,5]",
                  "window={size=3x2 rhs_reversal=1x1}, " NCHW));
  // one dimension, three
  goes_there(CONV("f32[2,9,4]", "f32[3,4,5]", "f32[2,8,5]",
                  "window={size=3 pad=1_0}, dim_labels=b0f_0io->b0f"));
  goes_there(CONV("f32[1,2,4,5,3]", "f32[3,2,2,2,2]", "f32[1,3,3,4,2]",
                  "window={size=2x2x2}, dim_labels=bf012_oi012->bf012"));
  // groups of features, layouts
  goes_there(CONV("f32[1,6,5,6]", "f32[4,3,3,3]", "f32[1,4,3,4]",
                  "window={size=3x3}, feature_group_count=2, " NCHW));
  goes_there(CONV("f32[2,2,5,6]{0,1,3,2}", "f32[3,2,3,3]{1,0,3,2}", "f32[2,3,3,4]{1,3,2,0}",
                  "window={size=3x3}, " NCHW));
}

// Parts of a fusion: a convolution c of x and w, with a vector b, an array r; then `body`.
#define FUSED(t, x, w, b, y, conv, body)                                                         \
  MODULE("f { x = " t x " parameter(0)\n w = " t w " parameter(1)\n b = " t b                    \
         " parameter(2)\n r = " t y " parameter(3)\n c = " t y " convolution(x, w), " conv       \
         "\n" body "}\nENTRY e { x = " t x " parameter(0)\n w = " t w " parameter(1)\n b = " t b \
         " parameter(2)\n r = " t y " parameter(3)\n ROOT y = " t y                              \
         " fusion(x, w, b, r), kind=kOutput, calls=f }")
#define IMAGE(t, body) \
  FUSED(t, "[2,5,6,4]", "[3,3,4,5]", "[5]", "[2,3,4,5]", "window={size=3x3}, " NHWC, body)
#define PLANES(t, body) \
  FUSED(t, "[2,4,5,6]", "[5,4,3,3]", "[5]", "[2,5,3,4]", "window={size=3x3}, " NCHW, body)
#define WITH_BIAS(t, y, d) \
  " bs = " t y " broadcast(b), dimensions={" d "}\n s = " t y " add(c, bs)\n"
#define RELU(t, y, of)                                                                  \
  " z = " t "[] constant(0)\n zs = " t y " broadcast(z), dimensions={}\n ROOT m = " t y \
  " maximum(" of ", zs)\n"
#define GELU(t, y)                                                                            \
  " k1 = " t "[] constant(0.044715)\n k1s = " t y " broadcast(k1), dimensions={}\n k2 = " t   \
  "[] constant(0.797884561)\n k2s = " t y " broadcast(k2), dimensions={}\n k3 = " t           \
  "[] constant(1)\n k3s = " t y " broadcast(k3), dimensions={}\n k4 = " t                     \
  "[] constant(0.5)\n k4s = " t y " broadcast(k4), dimensions={}\n p2 = " t y                 \
  " multiply(s, s)\n p3 = " t y " multiply(p2, s)\n q = " t y " multiply(p3, k1s)\n i = " t y \
  " add(s, q)\n j = " t y " multiply(i, k2s)\n t = " t y " tanh(j)\n o = " t y                \
  " add(t, k3s)\n h = " t y " multiply(o, k4s)\n ROOT g = " t y " multiply(s, h)\n"

static void behind(const char *text, const char *said) {
  outcome o = run_near(text, "HLOSH_LIBCUDNN", plugin_fake_cudnn("ok"), BACKEND_LIBRARIES_ON,
                       hlo_near(2e-2, 2e-2));
  explain(o.s);
  bool right = said ? strstr(o.kind, "cuDNN engine ") && strstr(hs_buf_cstr(&o.schedule), said)
                    : !strstr(o.kind, "cuDNN") && o.fallbacks == 0;
  if (!right)
    fail_msg("%s: %s, no '%s' in\n%s", text, o.kind, said ? said : "ours",
             hs_buf_cstr(&o.schedule));
  outcome_free(&o);
}

static void epilogues(void **st) {
  (void)st;
#define BIAS(t) WITH_BIAS(t, "[2,3,4,5]", "3")
  behind(IMAGE("f32", BIAS("f32") RELU("f32", "[2,3,4,5]", "s")),
         "of 2 x 4 x 5 x 6 by 5 x 4 x 3 x 3, bias, relu: cuDNN, engine ");
  behind(IMAGE("f32", " ROOT a = f32[2,3,4,5] add(r, c)\n"), "3 x 3, added: cuDNN");
  behind(IMAGE("f32", RELU("f32", "[2,3,4,5]", "c")), "3 x 3, relu: cuDNN");
  // both, in either order
  behind(IMAGE("f32", BIAS("f32") " a = f32[2,3,4,5] add(r, s)\n" RELU("f32", "[2,3,4,5]", "a")),
         ", added, bias, relu: cuDNN");
  behind(IMAGE("f32", " a = f32[2,3,4,5] add(c, r)\n bs = f32[2,3,4,5] broadcast(b), "
                      "dimensions={3}\n ROOT s = f32[2,3,4,5] add(bs, a)\n"),
         ", added, bias: cuDNN");
  behind(PLANES("f32", WITH_BIAS("f32", "[2,5,3,4]", "1") RELU("f32", "[2,5,3,4]", "s")),
         ", bias, relu: cuDNN");
  // 16 bits
  behind(IMAGE("f16", BIAS("f16") GELU("f16", "[2,3,4,5]")), ", bias, gelu: cuDNN");
  behind(
      IMAGE("bf16", BIAS("bf16") " a = bf16[2,3,4,5] add(s, r)\n" RELU("bf16", "[2,3,4,5]", "a")),
      ", added, bias, relu: cuDNN");
  // one dimension
  behind(FUSED("f32", "[2,9,4]", "[3,4,5]", "[5]", "[2,7,5]",
               "window={size=3}, dim_labels=b0f_0io->b0f",
               WITH_BIAS("f32", "[2,7,5]", "2") RELU("f32", "[2,7,5]", "s")),
         ", bias, relu: cuDNN");
  // what stays ours: f64, gelu of f32, a vector along another dimension
  behind(IMAGE("f64", BIAS("f64") RELU("f64", "[2,3,4,5]", "s")), NULL);
  behind(IMAGE("f32", BIAS("f32") GELU("f32", "[2,3,4,5]")), NULL);
  behind(FUSED("f32", "[2,5,7,4]", "[3,3,4,5]", "[5]", "[2,3,5,5]", "window={size=3x3}, " NHWC,
               WITH_BIAS("f32", "[2,3,5,5]", "2") RELU("f32", "[2,3,5,5]", "s")),
         NULL);
}

static void stays(const char *text) { expect(text, "ok", BACKEND_LIBRARIES_ON, NULL, NULL); }

static void refused(void **st) {
  (void)st;
  // holes in the operand, one reversed dimension of two, padding that cuts off, groups of the batch
  stays(CONV("f32[1,2,5,6]", "f32[3,2,3,3]", "f32[1,3,7,4]",
             "window={size=3x3 lhs_dilate=2x1}, " NCHW));
  stays(CONV("f32[1,2,5,6]", "f32[3,2,3,3]", "f32[1,3,3,4]",
             "window={size=3x3 rhs_reversal=1x0}, " NCHW));
  stays(CONV("f32[1,2,5,6]", "f32[3,2,3,3]", "f32[1,3,2,4]",
             "window={size=3x3 pad=-1_0x0_0}, " NCHW));
  stays(CONV("f32[4,2,5,6]", "f32[4,2,3,3]", "f32[2,4,3,4]",
             "window={size=3x3}, batch_group_count=2, " NCHW));
  // other types
  stays(CONV("s8[1,2,5,6]", "s8[3,2,3,3]", "s32[1,3,3,4]", "window={size=3x3}, " NCHW));
}

static void choices(void **st) {
  (void)st;
  // 0 rounds, 2 has tensor cores (of f32: tf32) and is named first, 28 times; 4 transforms, 5 wants
  // too much memory; 3 is named twice
  expect(MIDDLE, "ok", BACKEND_LIBRARIES_ON, "cuDNN engine 3",
         "y: of 1 x 2 x 12 x 12 by 3 x 2 x 3 x 3: cuDNN, engine 3, workspace 4096 B; ");
  expect(MIDDLE, "ok", BACKEND_LIBRARIES_ON, "cuDNN engine 3", "the best of 3");
  expect(MIDDLE, "fussy", BACKEND_LIBRARIES_ON, "cuDNN engine 1", "the best of 1");
  expect(LARGE, "ok", BACKEND_LIBRARIES_AUTO, "", "; our kernel ");
  expect(SMALL, "ok", BACKEND_LIBRARIES_OFF, NULL, NULL);
  expect(SMALL, "ok", BACKEND_LIBRARIES_AUTO, NULL, NULL);
  expect(SMALL, "unsupported", BACKEND_LIBRARIES_ON, NULL,
         "our kernel: its heuristic: cuDNN error 3000 (NOT_SUPPORTED)");
  expect(SMALL, "failing", BACKEND_LIBRARIES_ON, NULL, "cuDNN error 5000 (EXECUTION_FAILED)");
}

// Equal convolutions share a choice, which is how an engine is set up too; others do not.
static void remembered(void **st) {
  (void)st;
  outcome o = run_with(
      MODULE("ENTRY e { x = f32[1,2,12,12] parameter(0)\n w = f32[3,2,3,3] parameter(1)\n"
             " v = f32[3,2,3,3] parameter(2)\n"
             " y = f32[1,3,10,10] convolution(x, w), window={size=3x3}, " NCHW
             "\n z = f32[1,3,10,10] convolution(x, v), window={size=3x3}, " NCHW
             "\n u = f32[1,3,12,12] convolution(x, v), window={size=3x3 pad=1_1x1_1}, " NCHW
             "\n ROOT t = (f32[1,3,10,10], f32[1,3,10,10], f32[1,3,12,12]) tuple(y, z, u) }"),
      "ways", BACKEND_LIBRARIES_ON);
  explain(o.s);
  const char *all = hs_buf_cstr(&o.schedule), *y = strstr(all, "y: of "),
             *z = strstr(all, "z: of "), *u = strstr(all, "u: of "),
             *again = strstr(all, ", found before\n");
  if (!y || !z || !u || again < z || again > u || strstr(u, "found before")) fail_msg("%s", all);
  outcome_free(&o);
}

static void faults(void **st) {
  (void)st;
  static const struct {
    const char *mode, *text;
  } bad[] = {{"old", "cuDNN says version 8900"},
             {"new", "cuDNN says version 100000"},
             {"missing", "this cuDNN has no cudnnBackendExecute"}};
  for (size_t k = 0; k < HS_COUNT(bad); k++) {
    expect(LARGE, bad[k].mode, BACKEND_LIBRARIES_AUTO, NULL, bad[k].text);
    outcome o = run_with(SMALL, bad[k].mode, BACKEND_LIBRARIES_ON);
    assert_false(hs_ok(o.s));
    if (!strstr(o.s.err->message, bad[k].text)) fail_msg("%s", o.s.err->message);
    assert_non_null(o.s.err->note);
    outcome_free(&o);
  }
  expect(LARGE, NULL, BACKEND_LIBRARIES_AUTO, NULL, "cuDNN does not work on the emulation");
}

// The installed library, as far as it goes without a device: found, of a version that is taken,
// with all functions, and content with tensors, a convolution and an epilogue.
static void installed(void **st) {
  (void)st;
  dnn_api api;
  dnn_desc *tensor = NULL, *window = NULL;
  hs_status s = dnn_open(NULL, &api);
  if (!hs_ok(s)) {
    hs_status_drop(s);
    SKIP_TEST("no cuDNN is installed");
  }
  const i64 dims[] = {2, 3, 8, 9}, strides[] = {216, 72, 9, 1}, id = 1, alignment = 16, rank = 2,
            ones[] = {1, 1}, none[] = {0, 0};
  const int type = DNN_BF16, compute = DNN_F32, mode = DNN_MODE_PLAIN;
#define GOOD(call) assert_int_equal(api.call, DNN_OK)
  GOOD(desc_new(DNN_TENSOR, &tensor));
  GOOD(desc_set(tensor, DNN_TENSOR_TYPE, DNN_OF_TYPE, 1, &type));
  GOOD(desc_set(tensor, DNN_TENSOR_DIMS, DNN_OF_I64, 4, dims));
  GOOD(desc_set(tensor, DNN_TENSOR_STRIDES, DNN_OF_I64, 4, strides));
  GOOD(desc_set(tensor, DNN_TENSOR_ID, DNN_OF_I64, 1, &id));
  GOOD(desc_set(tensor, DNN_TENSOR_ALIGNMENT, DNN_OF_I64, 1, &alignment));
  GOOD(desc_ready(tensor));
  GOOD(desc_new(DNN_CONVOLUTION, &window));
  GOOD(desc_set(window, DNN_CONVOLUTION_RANK, DNN_OF_I64, 1, &rank));
  GOOD(desc_set(window, DNN_CONVOLUTION_TYPE, DNN_OF_TYPE, 1, &compute));
  GOOD(desc_set(window, DNN_CONVOLUTION_MODE, DNN_OF_MODE, 1, &mode));
  GOOD(desc_set(window, DNN_CONVOLUTION_STRIDES, DNN_OF_I64, 2, ones));
  GOOD(desc_set(window, DNN_CONVOLUTION_DILATIONS, DNN_OF_I64, 2, ones));
  GOOD(desc_set(window, DNN_CONVOLUTION_BEFORE, DNN_OF_I64, 2, none));
  GOOD(desc_set(window, DNN_CONVOLUTION_AFTER, DNN_OF_I64, 2, none));
  GOOD(desc_ready(window));
  // an epilogue: relu of a virtual tensor
  const bool is_virtual = true;
  const i64 between = 2;
  const int relu = DNN_RELU;
  dnn_desc *virtual = NULL, *pointwise = NULL, *apply = NULL;
  GOOD(desc_new(DNN_TENSOR, &virtual));
  GOOD(desc_set(virtual, DNN_TENSOR_TYPE, DNN_OF_TYPE, 1, &compute));
  GOOD(desc_set(virtual, DNN_TENSOR_DIMS, DNN_OF_I64, 4, dims));
  GOOD(desc_set(virtual, DNN_TENSOR_STRIDES, DNN_OF_I64, 4, strides));
  GOOD(desc_set(virtual, DNN_TENSOR_ID, DNN_OF_I64, 1, &between));
  GOOD(desc_set(virtual, DNN_TENSOR_ALIGNMENT, DNN_OF_I64, 1, &alignment));
  GOOD(desc_set(virtual, DNN_TENSOR_VIRTUAL, DNN_OF_BOOL, 1, &is_virtual));
  GOOD(desc_ready(virtual));
  GOOD(desc_new(DNN_POINTWISE, &pointwise));
  GOOD(desc_set(pointwise, DNN_POINTWISE_MODE, DNN_OF_POINTWISE, 1, &relu));
  GOOD(desc_set(pointwise, DNN_POINTWISE_TYPE, DNN_OF_TYPE, 1, &compute));
  GOOD(desc_ready(pointwise));
  GOOD(desc_new(DNN_APPLY, &apply));
  GOOD(desc_set(apply, DNN_APPLY_POINTWISE, DNN_OF_DESC, 1, &pointwise));
  GOOD(desc_set(apply, DNN_APPLY_X, DNN_OF_DESC, 1, &virtual));
  GOOD(desc_set(apply, DNN_APPLY_Y, DNN_OF_DESC, 1, &tensor));
  GOOD(desc_ready(apply));
  GOOD(desc_free(apply));
  GOOD(desc_free(pointwise));
  GOOD(desc_free(virtual));
  GOOD(desc_free(window));
  GOOD(desc_free(tensor));
}

int main(int argc, char **argv) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup(types, make_folder),
      cmocka_unit_test(shapes),
      cmocka_unit_test(epilogues),
      cmocka_unit_test(refused),
      cmocka_unit_test(choices),
      cmocka_unit_test(remembered),
      cmocka_unit_test_teardown(faults, remove_folder),
      cmocka_unit_test(installed),
  };
  return run_cpu_tests(argc, argv, "gpu_windows", tests, HS_COUNT(tests));
}
