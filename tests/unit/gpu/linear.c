// linear.c — Cholesky factors by cuSOLVER and triangular systems by cuBLAS, through libraries and
// a driver of our own: all types, sides and layouts, single ones and batches, matrices that have no
// factor, LAPACK's calls, libraries that are missing, refuse or fail. tests/cuda_headers.sh has the
// numbers.
#include "backends/gpu/library.h"
#include "tests/unit/gpu/library.h"

static outcome run_with(const char *text, const char *mode, backend_libraries libraries) {
  if (mode) setenv("HLOSH_LIBCUBLAS", plugin_fake_cublas(mode), 1);
  outcome o = run_with_library(text, "HLOSH_LIBCUSOLVER", mode ? plugin_fake_cusolver(mode) : NULL,
                               libraries);
  unsetenv("HLOSH_LIBCUBLAS");
  return o;
}

static void goes_there(const char *text, const char *said) {
  outcome o = run_with(text, "ok", BACKEND_LIBRARIES_AUTO);
  explain(o.s);
  if (o.fallbacks || !strstr(hs_buf_cstr(&o.schedule), said))
    fail_msg("%s: no '%s' in\n%s", text, said, hs_buf_cstr(&o.schedule));
  outcome_free(&o);
}

// a: x x^H and something on the diagonal, positive definite; of matrix 1 `other` is on the
// diagonal, so that it may be none. number(k): how a constant of the type is written.
#define POSITIVE(type, shape, number, conj, other, rest)                                           \
  MODULE("ENTRY e { x = " type shape " parameter(0)\n " conj "\n d = " type shape                  \
         " dot(x, y), lhs_batch_dims={0}, rhs_batch_dims={0}, lhs_contracting_dims={2}, "          \
         "rhs_contracting_dims={2}\n r = s32" shape " iota(), iota_dimension=1\n c = s32" shape    \
         " iota(), iota_dimension=2\n m = s32" shape " iota(), iota_dimension=0\n"                 \
         " on = pred" shape " compare(r, c), direction=EQ\n one = s32[] constant(1)\n"             \
         " ones = s32" shape " broadcast(one), dimensions={}\n"                                    \
         " first = pred" shape " compare(m, ones), direction=EQ\n"                                 \
         " k = " type "[] constant(" number(                                                       \
             other) ")\n"                                                                          \
                    " ks = " type shape " broadcast(k), dimensions={}\n"                           \
                    " p = " type "[] constant(" number(                                            \
                        2) ")\n"                                                                   \
                           " ps = " type shape " broadcast(p), dimensions={}\n"                    \
                           " z = " type "[] constant(" number(                                     \
                               0) ")\n"                                                            \
                                  " zs = " type shape " broadcast(z), dimensions={}\n"             \
                                  " w = " type shape " select(first, ks, ps)\n diag = " type shape \
                                  " select(on, w, zs)\n a = " type shape " add(d, diag)\n " rest   \
                                  " }")
#define PLAIN(k) #k
#define PAIR(k) "(" #k ", 0)"
#define REAL(type, shape) "y = " type shape " copy(x)"
#define CONJ(type, part, shape)                                                 \
  "re = " part shape " real(x)\n im = " part shape " imag(x)\n n = " part shape \
  " negate(im)\n y = " type shape " complex(re, n)"
#define FACTOR(type, shape, lower) "ROOT l = " type shape " cholesky(a), lower=" lower

static void factors(void **st) {
  (void)st;
  goes_there(POSITIVE("f32", "[1,5,5]", PLAIN, REAL("f32", "[1,5,5]"), 2,
                      FACTOR("f32", "[1,5,5]", "true")),
             "l: 1 of 5 x 5: cuSOLVER potrf");
  goes_there(POSITIVE("f32", "[3,5,5]", PLAIN, REAL("f32", "[3,5,5]"), 2,
                      FACTOR("f32", "[3,5,5]", "false")),
             "l: 3 of 5 x 5: cuSOLVER potrfBatched");
  goes_there(POSITIVE("f64", "[3,4,4]", PLAIN, REAL("f64", "[3,4,4]"), 2,
                      FACTOR("f64", "[3,4,4]", "true")),
             "cuSOLVER potrfBatched");
  goes_there(POSITIVE("c64", "[1,4,4]", PAIR, CONJ("c64", "f32", "[1,4,4]"), 2,
                      FACTOR("c64", "[1,4,4]", "true")),
             "cuSOLVER potrf");
  goes_there(POSITIVE("c128", "[2,4,4]", PAIR, CONJ("c128", "f64", "[2,4,4]"), 2,
                      FACTOR("c128", "[2,4,4]", "false")),
             "cuSOLVER potrfBatched");
  // by columns
  goes_there(POSITIVE("f32", "[2,5,5]", PLAIN, REAL("f32", "[2,5,5]"), 2,
                      "b = f32[2,5,5]{1,2,0} copy(a)\n"
                      " ROOT l = f32[2,5,5]{1,2,0} cholesky(b), lower=true"),
             "cuSOLVER potrfBatched");
}

static void without_factor(void **st) {
  (void)st;
  goes_there(POSITIVE("f32", "[3,5,5]", PLAIN, REAL("f32", "[3,5,5]"), -90,
                      FACTOR("f32", "[3,5,5]", "true")),
             "cuSOLVER potrfBatched");
  goes_there(POSITIVE("c64", "[3,4,4]", PAIR, CONJ("c64", "f32", "[3,4,4]"), -90,
                      FACTOR("c64", "[3,4,4]", "false")),
             "cuSOLVER potrfBatched");
  // a call says which: its matrix is nobody's business then
  goes_there(POSITIVE("f32", "[3,5,5]", PLAIN, REAL("f32", "[3,5,5]"), -90,
                      "t = (f32[3,5,5], s32[3]) custom-call(a), "
                      "custom_call_target=\"lapack_spotrf_ffi\", backend_config=\"{uplo = 76 : "
                      "ui8}\"\n ROOT i = s32[3] get-tuple-element(t), index=1"),
             "cuSOLVER potrfBatched");
}

#define CALLED(shape, layout, uplo)                                                           \
  "b = f32" shape layout " copy(a)\n ROOT l = (f32" shape layout ", s32[2]) custom-call(b), " \
  "custom_call_target=\"lapack_spotrf_ffi\", backend_config=\"{uplo = " uplo " : ui8}\""

static void calls(void **st) {
  (void)st;
  // what the other triangle holds stays
  goes_there(POSITIVE("f32", "[2,5,5]", PLAIN, REAL("f32", "[2,5,5]"), 2,
                      CALLED("[2,5,5]", "{1,2,0}", "76")),
             "l: 2 of 5 x 5: cuSOLVER potrfBatched");
  goes_there(POSITIVE("f32", "[2,5,5]", PLAIN, REAL("f32", "[2,5,5]"), 2,
                      CALLED("[2,5,5]", "{2,1,0}", "85")),
             "l: 2 of 5 x 5: cuSOLVER potrfBatched");
}

#define SOLVE(type, as, bs, layout, attrs)                                                \
  MODULE("ENTRY e { p = " type as " parameter(0)\n b = " type bs layout " parameter(1)\n" \
         " a = " type as layout " add(p, p)\n ROOT s = " type bs layout                   \
         " triangular-solve(a, b), " attrs " }")

static void systems(void **st) {
  (void)st;
  static const char *const ops[] = {"NO_TRANSPOSE", "TRANSPOSE", "ADJOINT"};
  for (u32 k = 0; k < 24; k++) {
    bool left = k & 1, lower = k >> 1 & 1, unit = k >> 2 & 1;
    const char *op = ops[k / 8];
    // all sides, triangles and operations, by rows and by columns
    for (u32 columns = 0; columns < 2; columns++) {
      const char *layout = columns ? "{1,2,0}" : "{2,1,0}", *type = columns ? "c64" : "f32";
      char *text = hs_format(
          MODULE("ENTRY e { p = %s[2,3,3]%s parameter(0)\n b = %s[2,%s]%s parameter(1)\n"
                 " a = %s[2,3,3]%s add(p, p)\n ROOT s = %s[2,%s]%s triangular-solve(a, b), "
                 "left_side=%s, lower=%s, unit_diagonal=%s, transpose_a=%s }"),
          type, layout, type, left ? "3,4" : "4,3", layout, type, layout, type,
          left ? "3,4" : "4,3", layout, left ? "true" : "false", lower ? "true" : "false",
          unit ? "true" : "false", op);
      if (k % 3 == columns) goes_there(text, "s: 2 of 3 x 3, for 4: cuBLAS trsmBatched");
      hs_free(text);
    }
  }
  goes_there(SOLVE("f64", "[3,3]", "[3,4]", "", "left_side=true, lower=true"),
             "s: 1 of 3 x 3, for 4: cuBLAS trsm");
  goes_there(
      SOLVE("c128", "[3,3]", "[3,4]", "", "left_side=true, lower=false, transpose_a=ADJOINT"),
      "s: 1 of 3 x 3, for 4: cuBLAS trsm");
  goes_there(MODULE("ENTRY e { p = f32[2,3,3]{1,2,0} parameter(0)\n"
                    " b = f32[2,3,4]{1,2,0} parameter(1)\n a = f32[2,3,3]{1,2,0} add(p, p)\n"
                    " ROOT s = f32[2,3,4]{1,2,0} custom-call(a, b), "
                    "custom_call_target=\"lapack_strsm_ffi\", backend_config=\"{diag = 78 : ui8, "
                    "side = 76 : ui8, trans_x = 84 : ui8, uplo = 76 : ui8}\" }"),
             "s: 2 of 3 x 3, for 4: cuBLAS trsmBatched");
}

// In a loop whose buffers change places: the lists of addresses follow them.
static void program(void **st) {
  (void)st;
  goes_there(
      MODULE("cond { s = (s32[], f32[2,12,12], f32[2,12,12], f32[2,12,12]) parameter(0)\n"
             " i = s32[] get-tuple-element(s), index=0\n n = s32[] constant(3)\n"
             " ROOT c = pred[] compare(i, n), direction=LT }\n"
             "body { s = (s32[], f32[2,12,12], f32[2,12,12], f32[2,12,12]) parameter(0)\n"
             " i = s32[] get-tuple-element(s), index=0\n"
             " x = f32[2,12,12] get-tuple-element(s), index=1\n"
             " y = f32[2,12,12] get-tuple-element(s), index=2\n"
             " a = f32[2,12,12] get-tuple-element(s), index=3\n one = s32[] constant(1)\n"
             " j = s32[] add(i, one)\n"
             " z = f32[2,12,12] triangular-solve(a, x), left_side=true, lower=true, "
             "unit_diagonal=true\n t = f32[2,12,12] tanh(z)\n"
             " ROOT r = (s32[], f32[2,12,12], f32[2,12,12], f32[2,12,12]) tuple(j, y, t, a) }\n"
             "ENTRY e { zero = s32[] constant(0)\n x = f32[2,12,12] parameter(0)\n"
             " y = f32[2,12,12] parameter(1)\n p = f32[2,12,12] parameter(2)\n"
             " a = f32[2,12,12] tanh(p)\n"
             " s = (s32[], f32[2,12,12], f32[2,12,12], f32[2,12,12]) tuple(zero, x, y, a)\n"
             " ROOT w = (s32[], f32[2,12,12], f32[2,12,12], f32[2,12,12]) while(s), "
             "condition=cond, body=body }"),
      "z: 2 of 12 x 12, for 12: cuBLAS trsmBatched");
}

#define ONE_FACTOR \
  POSITIVE("f32", "[1,3,3]", PLAIN, REAL("f32", "[1,3,3]"), 2, FACTOR("f32", "[1,3,3]", "true"))
#define ONLY_FACTOR \
  MODULE("ENTRY e { a = f32[3,3] parameter(0)\n ROOT l = f32[3,3] cholesky(a), lower=true }")
#define ONE_SYSTEM SOLVE("f32", "[3,3]", "[3,4]", "", "left_side=true, lower=true")

static void stays(const char *text, const char *mode, backend_libraries libraries,
                  const char *said) {
  outcome o = run_with(text, mode, libraries);
  explain(o.s);
  if (!o.fallbacks || (said && !strstr(hs_buf_cstr(&o.schedule), said)))
    fail_msg("%s: no '%s' in\n%s", text, said ? said : "host", hs_buf_cstr(&o.schedule));
  outcome_free(&o);
}

static void fails(const char *text, const char *mode, backend_libraries libraries,
                  const char *said) {
  outcome o = run_with(text, mode, libraries);
  assert_false(hs_ok(o.s));
  if (!strstr(o.s.err->message, said)) fail_msg("%s", o.s.err->message);
  assert_non_null(o.s.err->note);
  outcome_free(&o);
}

static void faults(void **st) {
  (void)st;
  stays(ONE_FACTOR, "ok", BACKEND_LIBRARIES_OFF, NULL);
  stays(ONE_FACTOR, NULL, BACKEND_LIBRARIES_AUTO, "cuSOLVER does not work on the emulation");
  stays(ONE_SYSTEM, NULL, BACKEND_LIBRARIES_AUTO, "cuBLAS does not work on the emulation");
  static const struct {
    const char *mode, *factor, *system;
  } bad[] = {
      {"old", "cuSOLVER says version 11100", "cuBLAS says version 10200"},
      {"new", "cuSOLVER says version 13000", "cuBLAS says version 140000"},
      {"missing", "this cuSOLVER has no cusolverDnSpotrf", "this cuBLAS has no cublasStrsm_v2"}};
  for (size_t k = 0; k < HS_COUNT(bad); k++) {
    stays(ONE_FACTOR, bad[k].mode, BACKEND_LIBRARIES_AUTO, bad[k].factor);
    stays(ONE_SYSTEM, bad[k].mode, BACKEND_LIBRARIES_AUTO, bad[k].system);
    fails(ONLY_FACTOR, bad[k].mode, BACKEND_LIBRARIES_ON, bad[k].factor);
    fails(ONE_SYSTEM, bad[k].mode, BACKEND_LIBRARIES_ON, bad[k].system);
  }
  stays(ONE_FACTOR, "huge", BACKEND_LIBRARIES_AUTO, "a workspace of so many elements: cuSOLVER");
  fails(ONE_FACTOR, "failing", BACKEND_LIBRARIES_AUTO, "cuSOLVER error 6 (EXECUTION_FAILED)");
  fails(ONE_SYSTEM, "failing", BACKEND_LIBRARIES_AUTO, "cuBLAS error 13 (EXECUTION_FAILED)");
}

// The installed libraries, as far as they go without a device: found, of versions that are taken,
// with all functions. cuBLAS does not start without one, and tells its version only then.
static void installed(void **st) {
  (void)st;
  solver_api solver;
  cublas_api cublas;
  hs_status s = solver_open(NULL, &solver);
  if (!hs_ok(s)) {
    hs_status_drop(s);
    SKIP_TEST("no cuSOLVER is installed");
  }
  s = cublas_open(NULL, &cublas);
  if (!hs_ok(s) && !strstr(s.err->message, "starting cuBLAS")) fail_msg("%s", s.err->message);
  hs_status_drop(s);
}

int main(int argc, char **argv) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup(factors, make_folder),
      cmocka_unit_test(without_factor),
      cmocka_unit_test(calls),
      cmocka_unit_test(systems),
      cmocka_unit_test(program),
      cmocka_unit_test_teardown(faults, remove_folder),
      cmocka_unit_test(installed),
  };
  return run_cpu_tests(argc, argv, "gpu_linear", tests, HS_COUNT(tests));
}
