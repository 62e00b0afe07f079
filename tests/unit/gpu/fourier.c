// fourier.c — Fourier transforms by cuFFT, through a library and a driver of our own: all types,
// ranks and batches, in loops and recorded sequences, what is left to the host, libraries that are
// missing, refuse or fail. tests/cuda_headers.sh has the numbers.
#include "backends/gpu/library.h"
#include "tests/unit/gpu/library.h"

#define FFT(in, out, kind, length)                                                     \
  MODULE("ENTRY e { x = " in " parameter(0)\n ROOT y = " out " fft(x), fft_type=" kind \
         ", fft_length={" length "} }")
#define SMALL FFT("c64[2,6]", "c64[2,6]", "FFT", "6")

static outcome run_with(const char *text, const char *mode, backend_libraries libraries) {
  return run_with_library(text, "HLOSH_LIBCUFFT", mode ? plugin_fake_cufft(mode) : NULL, libraries);
}

static void goes_there(const char *text, const char *said) {
  outcome o = run_with(text, "ok", BACKEND_LIBRARIES_AUTO);
  explain(o.s);
  assert_int_equal(o.fallbacks, 0);
  if (!strstr(hs_buf_cstr(&o.schedule), said))
    fail_msg("%s: no '%s' in\n%s", text, said, hs_buf_cstr(&o.schedule));
  o.s = HS_GOOD;
  outcome_free(&o);
}

static void stays(const char *text, const char *mode, backend_libraries libraries,
                  const char *said) {
  outcome o = run_with(text, mode, libraries);
  explain(o.s);
  assert_true(o.fallbacks > 0);
  assert_int_equal(strncmp(o.kind, "host: ", 6), 0);
  if (said && !strstr(hs_buf_cstr(&o.schedule), said))
    fail_msg("%s: no '%s' in\n%s", text, said, hs_buf_cstr(&o.schedule));
  o.s = HS_GOOD;
  outcome_free(&o);
}

static void types(void **st) {
  (void)st;
  goes_there(SMALL, "y: 2 of 6: cuFFT, workspace 512 B");
  goes_there(FFT("c128[2,6]", "c128[2,6]", "FFT", "6"), "y: 2 of 6: cuFFT");
  goes_there(FFT("c64[2,6]", "c64[2,6]", "IFFT", "6"), "y: 2 of 6: cuFFT");
  goes_there(FFT("c128[5]", "c128[5]", "IFFT", "5"), "y: 1 of 5: cuFFT");
  goes_there(FFT("f32[3,8]", "c64[3,5]", "RFFT", "8"), "y: 3 of 8: cuFFT");
  goes_there(FFT("f64[3,7]", "c128[3,4]", "RFFT", "7"), "y: 3 of 7: cuFFT");
  // a spectrum that is none of real numbers would be one module's own business
  goes_there(MODULE("ENTRY e { x = f32[3,8] parameter(0)\n"
                    " f = c64[3,5] fft(x), fft_type=RFFT, fft_length={8}\n"
                    " g = f32[3,8] fft(f), fft_type=IRFFT, fft_length={8}\n"
                    " ROOT t = (c64[3,5], f32[3,8]) tuple(f, g) }"),
             "g: 3 of 8: cuFFT");
  goes_there(MODULE("ENTRY e { x = f64[3,7] parameter(0)\n"
                    " f = c128[3,4] fft(x), fft_type=RFFT, fft_length={7}\n"
                    " ROOT g = f64[3,7] fft(f), fft_type=IRFFT, fft_length={7} }"),
             "g: 3 of 7: cuFFT");
}

static void without_workspace(void **st) {
  (void)st;
  outcome o = run_with(FFT("f32[3,8]", "c64[3,5]", "RFFT", "8"), "nowork", BACKEND_LIBRARIES_ON);
  explain(o.s);
  assert_string_equal(o.kind, "cuFFT");
  outcome_free(&o);
}

static void ranks(void **st) {
  (void)st;
  goes_there(FFT("c64[2,3,4]", "c64[2,3,4]", "FFT", "3,4"), "y: 2 of 3 x 4: cuFFT");
  goes_there(FFT("c64[2,3,4]", "c64[2,3,4]", "IFFT", "2,3,4"), "y: 1 of 2 x 3 x 4: cuFFT");
  goes_there(FFT("f32[2,2,3,6]", "c64[2,2,3,4]", "RFFT", "3,6"), "y: 4 of 3 x 6: cuFFT");
  goes_there(MODULE("ENTRY e { x = f32[2,3,6] parameter(0)\n"
                    " f = c64[2,3,4] fft(x), fft_type=RFFT, fft_length={2,3,6}\n"
                    " ROOT g = f32[2,3,6] fft(f), fft_type=IRFFT, fft_length={2,3,6} }"),
             "g: 1 of 2 x 3 x 6: cuFFT");
}

// In a loop whose buffers change places: the scratch block with the divided numbers does not.
static void program(void **st) {
  (void)st;
  goes_there(MODULE("cond { s = (s32[], c64[512], c64[512]) parameter(0)\n"
                    " i = s32[] get-tuple-element(s), index=0\n n = s32[] constant(3)\n"
                    " ROOT c = pred[] compare(i, n), direction=LT }\n"
                    "body { s = (s32[], c64[512], c64[512]) parameter(0)\n"
                    " i = s32[] get-tuple-element(s), index=0\n"
                    " x = c64[512] get-tuple-element(s), index=1\n"
                    " y = c64[512] get-tuple-element(s), index=2\n one = s32[] constant(1)\n"
                    " j = s32[] add(i, one)\n f = c64[512] fft(x), fft_type=FFT, fft_length={512}\n"
                    " g = c64[512] multiply(f, y)\n"
                    " h = c64[512] fft(g), fft_type=IFFT, fft_length={512}\n"
                    " ROOT r = (s32[], c64[512], c64[512]) tuple(j, y, h) }\n"
                    "ENTRY e { zero = s32[] constant(0)\n x = c64[512] parameter(0)\n"
                    " p = c64[512] parameter(1)\n y = c64[512] negate(p)\n"
                    " s = (s32[], c64[512], c64[512]) tuple(zero, x, y)\n"
                    " ROOT w = (s32[], c64[512], c64[512]) while(s), condition=cond, body=body }"),
             "h: 1 of 512: cuFFT");
}

// In a loop that the device decides, whose body is recorded in a stream of its own: the transforms
// are part of the body, not of what is around it.
static void decided_loop(void **st) {
  (void)st;
  goes_there(MODULE("cond { s = (s32[], s32[], c64[512]) parameter(0)\n"
                    " i = s32[] get-tuple-element(s), index=0\n"
                    " n = s32[] get-tuple-element(s), index=1\n"
                    " ROOT c = pred[] compare(i, n), direction=LT }\n"
                    "body { s = (s32[], s32[], c64[512]) parameter(0)\n"
                    " i = s32[] get-tuple-element(s), index=0\n"
                    " n = s32[] get-tuple-element(s), index=1\n"
                    " x = c64[512] get-tuple-element(s), index=2\n one = s32[] constant(1)\n"
                    " j = s32[] add(i, one)\n f = c64[512] fft(x), fft_type=FFT, fft_length={512}\n"
                    " g = c64[512] multiply(f, x)\n"
                    " h = c64[512] fft(g), fft_type=IFFT, fft_length={512}\n"
                    " ROOT r = (s32[], s32[], c64[512]) tuple(j, n, h) }\n"
                    "ENTRY e { k = s32[] parameter(0)\n x = c64[512] parameter(1)\n"
                    " zero = s32[] constant(0)\n m = s32[] multiply(k, zero)\n"
                    " three = s32[] constant(3)\n n = s32[] add(m, three)\n"
                    " s = (s32[], s32[], c64[512]) tuple(zero, n, x)\n"
                    " ROOT w = (s32[], s32[], c64[512]) while(s), condition=cond, body=body }"),
             "loops and branches: 1 on the device, 0 driven");
}

static void left_to_the_host(void **st) {
  (void)st;
  stays(SMALL, "ok", BACKEND_LIBRARIES_OFF, NULL);
  stays(SMALL, "noplan", BACKEND_LIBRARIES_ON,
        "y: on the host: planning a transform: cuFFT error 16 (NOT_SUPPORTED)");
  stays(FFT("c64[2,6]{0,1}", "c64[2,6]{0,1}", "FFT", "6"), "ok", BACKEND_LIBRARIES_ON, NULL);
  // no real library is ever given a driver of the tests
  stays(SMALL, NULL, BACKEND_LIBRARIES_AUTO, "cuFFT does not work on the emulation");
}

static void faults(void **st) {
  (void)st;
  static const struct {
    const char *mode, *text;
  } bad[] = {{"old", "cuFFT says version 10000"},
             {"new", "cuFFT says version 13000"},
             {"missing", "this cuFFT has no cufftSetWorkArea"}};
  for (size_t k = 0; k < HS_COUNT(bad); k++) {
    // what may be missing is: what is insisted on is an error by name
    stays(SMALL, bad[k].mode, BACKEND_LIBRARIES_AUTO, bad[k].text);
    outcome o = run_with(SMALL, bad[k].mode, BACKEND_LIBRARIES_ON);
    assert_false(hs_ok(o.s));
    assert_int_equal(o.s.err->code, HS_E_NOT_BUILT);
    if (!strstr(o.s.err->message, bad[k].text)) fail_msg("%s", o.s.err->message);
    assert_non_null(o.s.err->note);
    outcome_free(&o);
  }
  outcome o = run_with(SMALL, "failing", BACKEND_LIBRARIES_AUTO);
  assert_false(hs_ok(o.s));
  if (!strstr(o.s.err->message, "cuFFT error 6 (EXEC_FAILED)")) fail_msg("%s", o.s.err->message);
  assert_non_null(strstr(o.s.err->note, "set gpu.libraries off"));
  outcome_free(&o);
}

// The installed library, as far as it goes without a device: found, of a version that is taken,
// with all functions.
static void installed(void **st) {
  (void)st;
  fft_api api;
  hs_status s = fft_open(NULL, &api);
  if (!hs_ok(s)) {
    hs_status_drop(s);
    SKIP_TEST("no cuFFT is installed");
  }
  assert_int_not_equal(api.free(12345), FFT_OK);
}

int main(int argc, char **argv) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup(types, make_folder),
      cmocka_unit_test(without_workspace),
      cmocka_unit_test(ranks),
      cmocka_unit_test(program),
      cmocka_unit_test(decided_loop),
      cmocka_unit_test(left_to_the_host),
      cmocka_unit_test_teardown(faults, remove_folder),
      cmocka_unit_test(installed),
  };
  return run_cpu_tests(argc, argv, "gpu_fourier", tests, HS_COUNT(tests));
}
