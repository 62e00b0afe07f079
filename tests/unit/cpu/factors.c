// factors.c — QR factors and the products of their reflectors, as JAX calls LAPACK for them,
// held against the evaluator's, which are LAPACK's own.
#include "tests/unit/backends/cpu.h"

// Factors of f32[BATCH,M,N], and the product of their reflectors.
#define QR(type, letter, batch, m, n, least, from, to)                                      \
  MODULE("ENTRY e { a = " type "[" batch "," m "," n "]{" from ",0} parameter(0)\n"         \
         " f = (" type "[" batch "," m "," n "]{" to ",0}, " type "[" batch "," least "]) " \
         "custom-call(a), custom_call_target=\"lapack_" letter "geqrf_ffi\", "              \
         "api_version=API_VERSION_TYPED_FFI\n"                                              \
         " r = " type "[" batch "," m "," n "]{" to ",0} get-tuple-element(f), index=0\n"   \
         " t = " type "[" batch "," least "] get-tuple-element(f), index=1\n"               \
         " s = " type "[" batch "," m "," least "]{" to ",0} slice(r), slice={[0:" batch    \
         "], [0:" m "], [0:" least "]}\n"                                                   \
         " q = " type "[" batch "," m "," least "]{" to ",0} custom-call(s, t), "           \
         "custom_call_target=\"lapack_" letter "orgqr_ffi\", "                              \
         "api_version=API_VERSION_TYPED_FFI\n"                                              \
         " ROOT o = (" type "[" batch "," m "," n "]{" to ",0}, " type "[" batch "," least  \
         "], " type "[" batch "," m "," least "]{" to ",0}) tuple(r, t, q) }")

static void qr_factors(void **st) {
  (void)st;
  agrees(QR("f32", "s", "32", "24", "24", "24", "2,1", "1,2"));
  agrees(QR("f64", "d", "5", "64", "17", "17", "1,2", "1,2"));
  agrees(QR("f32", "s", "9", "5", "40", "5", "2,1", "2,1"));
  agrees(QR("f64", "d", "4", "1", "3", "1", "1,2", "2,1"));
  agrees(QR("f32", "s", "65", "3", "1", "1", "2,1", "1,2"));
  runs_as(QR("f32", "s", "32", "24", "24", "24", "2,1", "1,2"), "qr (lapack call)");
  runs_as(QR("f32", "s", "32", "24", "24", "24", "2,1", "1,2"), "reflectors (lapack call)");
  agrees(QR("f32", "s", "3", "12", "9", "9", "2,1", "1,2"));
  // panels: the last one narrower, none behind it, columns that no reflector begins
  agrees(QR("f64", "d", "1", "100", "70", "70", "1,2", "1,2"));
  agrees(QR("f32", "s", "2", "65", "130", "65", "2,1", "1,2"));
  agrees(QR("f32", "s", "9", "130", "65", "65", "2,1", "2,1"));
  agrees(QR("f64", "d", "1", "200", "32", "32", "2,1", "1,2"));
  runs_as(QR("f64", "d", "1", "200", "32", "32", "2,1", "1,2"), "reflectors (lapack call)");
  agrees(QR("f32", "s", "1", "200", "9", "9", "2,1", "1,2"));
  agrees(QR("f64", "d", "2", "1000", "4", "4", "1,2", "1,2"));
  agrees(QR("f32", "s", "1", "7", "300", "7", "2,1", "1,2"));
  agrees(QR("c64", "c", "9", "5", "4", "4", "2,1", "1,2"));  // LAPACK's
  // columns of zeros, numbers whose squares are not finite, or nothing
  agrees(MODULE(
      "ENTRY e { a = f64[3,2,2] constant({{{3e200,1},{4e200,1}},{{3e-200,1},{4e-200,2}},{{0,1"
      "},{0,2}}})\n"
      " ROOT l = (f64[3,2,2]{1,2,0}, f64[3,2]) custom-call(a), "
      "custom_call_target=\"lapack_dgeqrf_ffi\", api_version=API_VERSION_TYPED_FFI }"));
  agrees(
      MODULE("ENTRY e { a = f32[4,2,2] constant({{{0,0},{0,0}},{{1,2},{0,4}},{{3e30,1},{4e30,1}},"
             "{{3e-30,1},{4e-30,2}}})\n"
             " ROOT l = (f32[4,2,2]{1,2,0}, f32[4,2]) custom-call(a), "
             "custom_call_target=\"lapack_sgeqrf_ffi\", api_version=API_VERSION_TYPED_FFI }"));
  // a NaN leaves the columns before its own as they would be
  agrees(MODULE("ENTRY e { a = f32[2,2] constant({{3,nan},{4,1}})\n"
                " f = (f32[2,2]{0,1}, f32[2]) custom-call(a), "
                "custom_call_target=\"lapack_sgeqrf_ffi\", api_version=API_VERSION_TYPED_FFI\n"
                " r = f32[2,2]{0,1} get-tuple-element(f), index=0\n"
                " ROOT c = f32[2,1]{0,1} slice(r), slice={[0:2], [0:1]} }"));
}

// All columns of Q, of which reflectors begin only some.
static void whole_q(void **st) {
  (void)st;
  agrees(MODULE("ENTRY e { a = f64[90,40]{0,1} parameter(0)\n"
                " f = (f64[90,40]{0,1}, f64[40]) custom-call(a), "
                "custom_call_target=\"lapack_dgeqrf_ffi\", api_version=API_VERSION_TYPED_FFI\n"
                " r = f64[90,40]{0,1} get-tuple-element(f), index=0\n"
                " t = f64[40] get-tuple-element(f), index=1\n"
                " z = f64[] constant(0)\n"
                " w = f64[90,90]{0,1} pad(r, z), padding=0_0x0_50\n"
                " ROOT q = f64[90,90]{0,1} custom-call(w, t), "
                "custom_call_target=\"lapack_dorgqr_ffi\", api_version=API_VERSION_TYPED_FFI }"));
}

int main(int argc, char **argv) {
  static const struct CMUnitTest tests[] = {
      cmocka_unit_test(qr_factors),
      cmocka_unit_test(whole_q),
  };
  return run_cpu_tests(argc, argv, "factors", tests, HS_COUNT(tests));
}
