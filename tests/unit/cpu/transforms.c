// transforms.c — fft: the kinds, and every way that lines are taken, beside the evaluator.
#include "tests/unit/backends/cpu.h"

static void ffts(void **st) {
  (void)st;
  agrees(MODULE("ENTRY e { x = c64[3,16] parameter(0)\n ROOT f = c64[3,16] fft(x), fft_type=FFT, "
                "fft_length={16} }"));
  agrees(MODULE("ENTRY e { x = c64[3,15] parameter(0)\n ROOT f = c64[3,15] fft(x), fft_type=IFFT, "
                "fft_length={15} }"));
  agrees(
      MODULE("ENTRY e { x = f32[2,6,14] parameter(0)\n ROOT f = c64[2,6,8] fft(x), fft_type=RFFT, "
             "fft_length={6,14} }"));
  agrees(
      MODULE("ENTRY e { x = c64[2,6,8] parameter(0)\n ROOT f = f32[2,6,15] fft(x), fft_type=IRFFT, "
             "fft_length={6,15} }"));
}

// Every way of taking lines: side by side, as a matrix, as a chirp, shared by the threads; and the
// four kinds of real lines, in one dim and more.
static void long_ffts(void **st) {
  (void)st;
  static const struct {
    const char *in, *out, *type, *lengths;
  } cases[] = {
      {"c64[40,1]", "c64[40,1]", "FFT", "1"},
      {"c64[17,8]", "c64[17,8]", "IFFT", "8"},
      {"c64[5,60]", "c64[5,60]", "FFT", "60"},
      {"c64[20,77]", "c64[20,77]", "FFT", "77"},
      {"c64[33,37]", "c64[33,37]", "IFFT", "37"},
      {"c64[2,1009]", "c64[2,1009]", "FFT", "1009"},
      {"c64[3,1024]", "c64[3,1024]", "IFFT", "1024"},
      {"c64[16384]", "c64[16384]", "FFT", "16384"},
      {"c64[15000]", "c64[15000]", "FFT", "15000"},
      {"c64[3,21,50]", "c64[3,21,50]", "FFT", "21,50"},
      {"c64[5,6,7]", "c64[5,6,7]", "IFFT", "5,6,7"},
      {"c128[9,96]", "c128[9,96]", "FFT", "96"},
      {"c128[2,4096]", "c128[2,4096]", "IFFT", "4096"},
      {"f32[20,64]", "c64[20,33]", "RFFT", "64"},
      {"f32[20,45]", "c64[20,23]", "RFFT", "45"},
      {"f32[3,2]", "c64[3,2]", "RFFT", "2"},
      {"f32[2,8192]", "c64[2,4097]", "RFFT", "8192"},
      {"f32[2,1111]", "c64[2,556]", "RFFT", "1111"},
      {"f64[18,30]", "c128[18,16]", "RFFT", "30"},
      {"c64[20,33]", "f32[20,64]", "IRFFT", "64"},
      {"c64[20,23]", "f32[20,45]", "IRFFT", "45"},
      {"c64[2,4097]", "f32[2,8192]", "IRFFT", "8192"},
      {"c64[3,562]", "f32[3,1123]", "IRFFT", "1123"},
      {"c128[3,38]", "f64[3,74]", "IRFFT", "74"},
      {"c64[2,40,17]", "f32[2,40,32]", "IRFFT", "40,32"},
      // prime factors up to the largest that has a pass, then chirps side by side
      {"c64[20,142]", "c64[20,142]", "FFT", "142"},
      {"c64[20,43]", "c64[20,43]", "IFFT", "43"},
      {"c128[9,254]", "c128[9,254]", "IFFT", "254"},
      {"f32[20,254]", "c64[20,128]", "RFFT", "254"},
      {"c64[5,121]", "c64[5,121]", "FFT", "121"},
      {"c64[20,131]", "c64[20,131]", "FFT", "131"},
      {"c64[19,211]", "c64[19,211]", "IFFT", "211"},
      {"c128[9,139]", "c128[9,139]", "IFFT", "139"},
      {"f32[20,278]", "c64[20,140]", "RFFT", "278"},
      {"f32[20,139]", "c64[20,70]", "RFFT", "139"},
      {"c64[20,140]", "f32[20,278]", "IRFFT", "278"},
      {"c64[20,70]", "f32[20,139]", "IRFFT", "139"},
      {"c64[2,137,33]", "c64[2,137,33]", "FFT", "137,33"},
      {"c64[3,137,5]", "c64[3,137,5]", "IFFT", "137,5"},
  };
  for (size_t k = 0; k < HS_COUNT(cases); k++) {
    hs_buf text = {0};
    hs_buf_printf(&text,
                  "HloModule t\nENTRY e { x = %s parameter(0)\n"
                  " ROOT f = %s fft(x), fft_type=%s, fft_length={%s} }",
                  cases[k].in, cases[k].out, cases[k].type, cases[k].lengths);
    agrees(hs_buf_cstr(&text));
    hs_buf_free(&text);
  }
}

int main(int argc, char **argv) {
  static const struct CMUnitTest tests[] = {
      cmocka_unit_test(ffts),
      cmocka_unit_test(long_ffts),
  };
  return run_cpu_tests(argc, argv, "transforms", tests, HS_COUNT(tests));
}
