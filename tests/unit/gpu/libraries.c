// libraries.c — dots by cuBLASLt, through a library and a driver of our own: which dots go there,
// what they are told the matrices are, results in runs that are launched one by one and recorded
// ones, libraries that are missing, refuse or fail. tests/cuda_headers.sh has the numbers.
#include "backends/gpu/library.h"
#include "backends/gpu/cuda/library.h"

#include "tests/unit/gpu/library.h"

#define DOT(lhs, rhs, out, attrs)                                                        \
  MODULE("ENTRY e { x = " lhs " parameter(0)\n y = " rhs " parameter(1)\n ROOT d = " out \
         " dot(x, y), " attrs " }")
#define PLAIN "lhs_contracting_dims={1}, rhs_contracting_dims={0}"

// ---- what a dot is to BLAS ----------------------------------------------------------------------

static bool product(const char *text, u32 sm, gpu_product *p) {
  hlo_module *m = parse(text);
  bool is = gpu_product_of(m->entry->root, sm, p);
  hlo_module_free(m);
  return is;
}

static void check_matrix(const gpu_matrix *x, bool turned, i64 leading, i64 batch) {
  assert_int_equal(x->turned, turned);
  assert_int_equal(x->leading, leading);
  assert_int_equal(x->batch, batch);
}

static void products(void **st) {
  (void)st;
  gpu_product p;
  // rows of the result are its columns along memory: the right side comes first
  assert_true(product(DOT("f32[3,5]", "f32[5,7]", "f32[3,7]", PLAIN), 90, &p));
  assert_true(p.m == 7 && p.n == 3 && p.k == 5 && p.batch == 1 && p.a_in == 1 && p.b_in == 0);
  check_matrix(&p.a, false, 7, 0);
  check_matrix(&p.b, false, 5, 0);
  check_matrix(&p.d, false, 7, 0);
  assert_int_equal(p.compute, BLAS_BY_F32);
  // a column-major result, a right side that is summed along memory
  assert_true(product(DOT("f32[3,5]", "f32[5,7]{0,1}", "f32[3,7]{0,1}", PLAIN), 90, &p));
  assert_true(p.m == 3 && p.n == 7 && p.a_in == 0);
  check_matrix(&p.a, true, 5, 0);
  check_matrix(&p.b, false, 5, 0);
  check_matrix(&p.d, false, 3, 0);
  // several dimensions of a sort
  assert_true(product(DOT("f32[2,6,3,5]", "f32[2,6,5,2,4]", "f32[2,6,3,2,4]",
                          "lhs_batch_dims={0,1}, rhs_batch_dims={0,1}, "
                          "lhs_contracting_dims={3}, rhs_contracting_dims={2}"),
                      90, &p));
  assert_true(p.m == 8 && p.n == 3 && p.k == 5 && p.batch == 12);
  check_matrix(&p.a, false, 8, 40);
  check_matrix(&p.b, false, 5, 15);
  check_matrix(&p.d, false, 8, 24);
  // a batch between rows and columns, as attention has its heads
  assert_true(product(DOT("bf16[6,4,8]", "bf16[9,4,8]", "f32[4,6,9]",
                          "lhs_batch_dims={1}, rhs_batch_dims={1}, "
                          "lhs_contracting_dims={2}, rhs_contracting_dims={2}"),
                      90, &p));
  assert_true(p.m == 9 && p.n == 6 && p.k == 8 && p.batch == 4);
  check_matrix(&p.a, true, 32, 8);
  check_matrix(&p.b, false, 32, 8);
  check_matrix(&p.d, false, 9, 54);
  // vectors
  assert_true(product(DOT("f64[6,5]", "f64[5]", "f64[6]", PLAIN), 90, &p));
  assert_true(p.m == 6 && p.n == 1 && p.k == 5 && p.compute == BLAS_BY_F64);
  check_matrix(&p.a, true, 5, 0);
  assert_true(product(
      DOT("f32[5]", "f32[5]", "f32[]", "lhs_contracting_dims={0}, rhs_contracting_dims={0}"), 90,
      &p));
  assert_true(p.m == 1 && p.n == 1 && p.k == 5);
}

static void refused(void **st) {
  (void)st;
  gpu_product p;
  // no one stride: rows around the sums; a batch along memory; nothing to add up; other types
  assert_false(product(DOT("f32[2,5,3]", "f32[5,7]", "f32[2,3,7]",
                           "lhs_contracting_dims={1}, rhs_contracting_dims={0}"),
                       90, &p));
  assert_false(product(DOT("f32[4,3,5]", "f32[4,5,7]", "f32[4,3,7]{0,2,1}",
                           "lhs_batch_dims={0}, rhs_batch_dims={0}, "
                           "lhs_contracting_dims={2}, rhs_contracting_dims={1}"),
                       90, &p));
  assert_false(product(DOT("f32[3,0]", "f32[0,7]", "f32[3,7]", PLAIN), 90, &p));
  assert_false(product(DOT("f32[0,4]", "f32[4,7]", "f32[0,7]", PLAIN), 90, &p));
  assert_false(product(DOT("c64[3,4]", "c64[4,7]", "c64[3,7]", PLAIN), 90, &p));
  assert_false(product(DOT("bf16[3,4]", "bf16[4,7]", "bf16[3,7]", PLAIN), 75, &p));
  // s8 by fours; f8 by sixteens, both sides summed along memory, from 8.9 on
  assert_true(product(DOT("s8[8,16]", "s8[16,4]", "s32[8,4]", PLAIN), 90, &p));
  assert_false(product(DOT("s8[8,16]", "s8[16,5]", "s32[8,5]", PLAIN), 90, &p));
#define F8(columns, sm, layout)                                                                  \
  product(                                                                                       \
      DOT("f8e4m3fn[16,32]", "f8e4m3fn[32," #columns "]" layout, "f32[16," #columns "]", PLAIN), \
      sm, &p)
  assert_true(F8(48, 90, "{0,1}"));
  assert_false(F8(48, 90, "{1,0}"));
  assert_false(F8(40, 90, "{0,1}"));
  assert_false(F8(48, 80, "{0,1}"));
  // tf32 where the module asks for it, and nowhere else
#define ASKS(algorithm) DOT("f32[3,5]", "f32[5,7]", "f32[3,7]", PLAIN ", algorithm=" algorithm)
  assert_true(product(ASKS("dot_tf32_tf32_f32"), 90, &p));
  assert_int_equal(p.compute, BLAS_BY_TF32);
  assert_true(product(ASKS("dot_f32_f32_f32"), 90, &p));
  assert_int_equal(p.compute, BLAS_BY_F32);
  assert_false(product(ASKS("dot_bf16_bf16_f32_x3"), 90, &p));
}

// ---- programs -----------------------------------------------------------------------------------

static outcome run_with(const char *text, const char *mode, backend_libraries libraries) {
  return run_with_library(text, "HLOSH_LIBCUBLASLT", mode ? plugin_fake_cublaslt(mode) : NULL,
                          libraries);
}

static void goes_there(const char *text) {
  outcome o = run_with(text, "ok", BACKEND_LIBRARIES_ON);
  explain(o.s);
  // small results have no workspace for the fastest one
  if (strncmp(o.kind, "cuBLASLt algo ", 14) != 0)
    fail_msg("%s: %s\n%s", text, o.kind, hs_buf_cstr(&o.schedule));
  o.s = HS_GOOD;
  outcome_free(&o);
}

static void types(void **st) {
  (void)st;
  goes_there(DOT("f32[33,20]", "f32[20,17]", "f32[33,17]", PLAIN));
  goes_there(DOT("f64[33,20]", "f64[20,17]", "f64[33,17]", PLAIN));
  goes_there(DOT("f16[33,20]", "f16[20,17]", "f16[33,17]", PLAIN));
  goes_there(DOT("f16[33,20]", "f16[20,17]", "f32[33,17]", PLAIN));
  goes_there(DOT("bf16[33,20]", "bf16[20,17]", "bf16[33,17]", PLAIN));
  goes_there(DOT("bf16[33,20]", "bf16[20,17]", "f32[33,17]", PLAIN));
  goes_there(DOT("s8[32,20]", "s8[20,16]", "s32[32,16]", PLAIN));
  goes_there(DOT("f8e4m3fn[16,32]", "f8e5m2[32,48]{0,1}", "f32[16,48]", PLAIN));
}

static void layouts(void **st) {
  (void)st;
  goes_there(DOT("f32[9,20]{0,1}", "f32[20,7]{0,1}", "f32[9,7]{0,1}", PLAIN));
  goes_there(DOT("f32[9,20]{0,1}", "f32[20,7]", "f32[9,7]", PLAIN));
  goes_there(DOT("f32[20,9]", "f32[7,20]", "f32[9,7]",
                 "lhs_contracting_dims={0}, rhs_contracting_dims={1}"));
  goes_there(DOT("f32[6,4,8]", "f32[9,4,8]", "f32[4,6,9]",
                 "lhs_batch_dims={1}, rhs_batch_dims={1}, "
                 "lhs_contracting_dims={2}, rhs_contracting_dims={2}"));
  // the result's batch between its rows and columns
  goes_there(DOT("f32[4,6,8]", "f32[4,8,9]", "f32[4,6,9]{2,0,1}",
                 "lhs_batch_dims={0}, rhs_batch_dims={0}, "
                 "lhs_contracting_dims={2}, rhs_contracting_dims={1}"));
  goes_there(DOT("f32[6,5]", "f32[5]", "f32[6]", PLAIN));
}

// Dots in a loop whose buffers change places, equal ones, and what is between.
static void program(void **st) {
  (void)st;
  goes_there(MODULE(
      "cond { s = (s32[], f32[8,8], f32[8,8]) parameter(0)\n"
      " i = s32[] get-tuple-element(s), index=0\n n = s32[] constant(4)\n"
      " ROOT c = pred[] compare(i, n), direction=LT }\n"
      "body { s = (s32[], f32[8,8], f32[8,8]) parameter(0)\n"
      " i = s32[] get-tuple-element(s), index=0\n x = f32[8,8] get-tuple-element(s), index=1\n"
      " y = f32[8,8] get-tuple-element(s), index=2\n one = s32[] constant(1)\n"
      " j = s32[] add(i, one)\n z = f32[8,8] dot(x, y), " PLAIN "\n"
      " t = f32[8,8] tanh(z)\n ROOT r = (s32[], f32[8,8], f32[8,8]) tuple(j, y, t) }\n"
      "ENTRY e { x = f32[8,8] parameter(0)\n y = f32[8,8] parameter(1)\n"
      " p = f32[8,8] dot(x, y), " PLAIN "\n i = s32[] constant(0)\n"
      " t = (s32[], f32[8,8], f32[8,8]) tuple(i, p, y)\n"
      " ROOT w = (s32[], f32[8,8], f32[8,8]) while(t), condition=cond, body=body }"));
}

#define LARGE DOT("f32[128,128]", "f32[128,128]", "f32[128,128]", PLAIN)
#define SMALL DOT("f32[33,20]", "f32[20,17]", "f32[33,17]", PLAIN)

static void falls_back(const char *text, const char *mode, backend_libraries l, const char *why) {
  outcome o = run_with(text, mode, l);
  explain(o.s);
  if (strcmp(o.kind, "product") != 0) fail_msg("%s: by %s", mode, o.kind);
  if (why && !strstr(hs_buf_cstr(&o.schedule), why))
    fail_msg("%s: no \"%s\" in\n%s", mode, why, hs_buf_cstr(&o.schedule));
  o.s = HS_GOOD;
  outcome_free(&o);
}

static void choices(void **st) {
  (void)st;
  // large ones where nothing is said, and the first of the fastest is kept
  outcome o = run_with(LARGE, "ok", BACKEND_LIBRARIES_AUTO);
  explain(o.s);
  assert_string_equal(o.kind, "cuBLASLt algo 2");
  assert_non_null(strstr(hs_buf_cstr(&o.schedule),
                         "d: 128 x 128 by 128, batch 1, NN: cuBLASLt, "
                         "algorithm 2, tile 12, 1 splits, workspace 4096"));
  assert_non_null(strstr(hs_buf_cstr(&o.schedule), "the best of 3; our kernel "));
  o.s = HS_GOOD;
  outcome_free(&o);
  o = run_with(LARGE, "fussy", BACKEND_LIBRARIES_ON);
  explain(o.s);
  assert_string_equal(o.kind, "cuBLASLt algo 3");
  assert_non_null(strstr(hs_buf_cstr(&o.schedule), "the best of 1"));
  o.s = HS_GOOD;
  outcome_free(&o);
  falls_back(LARGE, "slow", BACKEND_LIBRARIES_AUTO, "our kernel, not cuBLASLt's algorithm");
  falls_back(SMALL, "ok", BACKEND_LIBRARIES_AUTO, NULL);
  falls_back(LARGE, "ok", BACKEND_LIBRARIES_OFF, NULL);
  falls_back(LARGE, "unsupported", BACKEND_LIBRARIES_ON,
             "our kernel: its heuristic: cuBLASLt error 15 (NOT_SUPPORTED)");
  falls_back(LARGE, "failing", BACKEND_LIBRARIES_ON, "cuBLASLt error 13 (EXECUTION_FAILED)");
}

static void schedule_of(const char *text, const backend_options *o, hs_buf *out) {
  const backend *gpu = backend_find("gpu");
  hlo_module *m = parse(text);
  backend_exe *e = NULL;
  explain(gpu->compile(m, o, &e));
  explain(gpu->dump(e, "schedule", out));
  gpu->release(e);
  hlo_module_free(m);
}

// A choice stands for equal products of later programs, where libraries are asked for alike.
static void remembered(void **st) {
  (void)st;
  backend_context *own = backend_context_new();
  setenv("HLOSH_LIBCUBLASLT", plugin_fake_cublaslt("ok"), 1);
  backend_options o = {.context = own,
                       .deadline_s = 120,
                       .driver = plugin_fake_cuda("ok"),
                       .libraries = BACKEND_LIBRARIES_ON};
  hs_buf first = {0}, again = {0}, other = {0}, automatic = {0};
  schedule_of(LARGE, &o, &first);
  schedule_of(LARGE, &o, &again);
  schedule_of(DOT("f32[128,64]", "f32[64,128]", "f32[128,128]", PLAIN), &o, &other);
  o.libraries = BACKEND_LIBRARIES_AUTO;
  schedule_of(LARGE, &o, &automatic);
  assert_null(strstr(hs_buf_cstr(&first), "found before"));
  assert_non_null(strstr(hs_buf_cstr(&again), "the best of 3, found before"));
  assert_null(strstr(hs_buf_cstr(&other), "found before"));
  assert_null(strstr(hs_buf_cstr(&automatic), "found before"));
  hs_buf_free(&first);
  hs_buf_free(&again);
  hs_buf_free(&other);
  hs_buf_free(&automatic);
  backend_context_free(own);
  unsetenv("HLOSH_LIBCUBLASLT");
}

// What `doctor` says of libraries, without loading one.
static void present(void **st) {
  (void)st;
  const backend *gpu = backend_find("gpu");
  hs_buf text = {0}, fix = {0};
  for (u32 k = 0; k < CUDA_LIBRARIES; k++)
    setenv(cuda_libraries[k]->variable, plugin_fake_cublaslt("ok"), 1);
  setenv("HLOSH_LIBNVML", plugin_fake_nvml("ok"), 1);
  setenv("HLOSH_LIBNCCL", plugin_fake_nccl("ok"), 1);
  assert_true(gpu->extras(&text, &fix));
  assert_string_equal(hs_buf_cstr(&text),
                      "cuBLAS, cuBLASLt, cuDNN, cuFFT, cuSOLVER; energy by NVML; NCCL between "
                      "devices");
  setenv("HLOSH_LIBCUDNN", "/nowhere", 1);
  setenv("HLOSH_LIBNCCL", "/nowhere", 1);
  text.n = 0;
  assert_false(cuda_library_present(&cuda_cudnn));
  assert_false(gpu->extras(&text, &fix));
  assert_non_null(strstr(hs_buf_cstr(&text), "cuBLASLt, cuFFT, cuSOLVER; not found: cuDNN"));
  assert_non_null(strstr(hs_buf_cstr(&text), "; no NCCL: the host"));
  for (u32 k = 0; k < CUDA_LIBRARIES; k++) unsetenv(cuda_libraries[k]->variable);
  unsetenv("HLOSH_LIBNVML");
  unsetenv("HLOSH_LIBNCCL");
  hs_buf_free(&text);
  hs_buf_free(&fix);
}

static void faults(void **st) {
  (void)st;
  static const struct {
    const char *mode;
    hs_code code;
    const char *text;
  } bad[] = {{"old", HS_E_NOT_BUILT, "cuBLASLt says version 10200"},
             {"new", HS_E_NOT_BUILT, "cuBLASLt says version 140000"},
             {"missing", HS_E_NOT_BUILT, "this cuBLASLt has no cublasLtMatmul"},
             {"nomemory", HS_E_NO_MEMORY, "starting cuBLASLt: cuBLASLt error 3 (ALLOC_FAILED)"}};
  for (size_t k = 0; k < HS_COUNT(bad); k++) {
    // what may be missing is: what is insisted on is an error by name
    falls_back(LARGE, bad[k].mode, BACKEND_LIBRARIES_AUTO, bad[k].text);
    outcome o = run_with(LARGE, bad[k].mode, BACKEND_LIBRARIES_ON);
    assert_false(hs_ok(o.s));
    assert_int_equal(o.s.err->code, bad[k].code);
    if (!strstr(o.s.err->message, bad[k].text)) fail_msg("%s", o.s.err->message);
    assert_non_null(o.s.err->note);
    outcome_free(&o);
  }
  // no real library is ever given a driver of the tests
  falls_back(LARGE, NULL, BACKEND_LIBRARIES_AUTO, "cuBLASLt does not work on the emulation");
}

// The installed library, as far as it goes without a device: found, of a version that is taken,
// with all functions, and content with the attributes that it is given.
static void installed(void **st) {
  (void)st;
  blas_api api;
  blas_desc *desc = NULL;
  blas_layout *layout = NULL;
  blas_preference *preference = NULL;
  hs_status s = blas_open(NULL, &api);
  if (!hs_ok(s)) {
    hs_status_drop(s);
    SKIP_TEST("no cuBLASLt is installed");
  }
  const i32 turned = BLAS_OP_TURNED, batch = 7;
  const i64 stride = 1 << 20;
  const size_t workspace = 1 << 20;
  u32 number;
  size_t n = 0;
  blas_algorithm none = {{0}};
#define GOOD(call) assert_int_equal(api.call, BLAS_OK)
  GOOD(desc_new(&desc, BLAS_BY_F32, BLAS_F32));
  GOOD(desc_set(desc, BLAS_DESC_TURN_A, &turned, sizeof turned));
  GOOD(desc_set(desc, BLAS_DESC_TURN_B, &turned, sizeof turned));
  GOOD(layout_new(&layout, BLAS_BF16, 64, 32, 80));
  GOOD(layout_set(layout, BLAS_LAYOUT_BATCH, &batch, sizeof batch));
  GOOD(layout_set(layout, BLAS_LAYOUT_STRIDE, &stride, sizeof stride));
  GOOD(preference_new(&preference));
  GOOD(preference_set(preference, BLAS_PREFER_WORKSPACE, &workspace, sizeof workspace));
  assert_int_not_equal(api.layout_set(layout, BLAS_LAYOUT_STRIDE, &batch, sizeof batch), BLAS_OK);
  static const int asked[] = {BLAS_ALGORITHM_ID, BLAS_ALGORITHM_TILE, BLAS_ALGORITHM_SPLITS};
  for (size_t k = 0; k < HS_COUNT(asked); k++) {
    GOOD(algorithm_get(&none, asked[k], &number, sizeof number, &n));
    assert_int_equal(n, sizeof number);
  }
  GOOD(preference_free(preference));
  GOOD(layout_free(layout));
  GOOD(desc_free(desc));
}

int main(int argc, char **argv) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(products),
      cmocka_unit_test(refused),
      cmocka_unit_test_setup(types, make_folder),
      cmocka_unit_test(layouts),
      cmocka_unit_test(program),
      cmocka_unit_test(choices),
      cmocka_unit_test(remembered),
      cmocka_unit_test(present),
      cmocka_unit_test_teardown(faults, remove_folder),
      cmocka_unit_test(installed),
  };
  return run_cpu_tests(argc, argv, "gpu_libraries", tests, HS_COUNT(tests));
}
