// cufft.c — cuFFT as one of NVIDIA's libraries (library.h). See cufft.h.
#include "backends/gpu/cuda/cufft.h"

#include "backends/gpu/cuda/library.h"

static const char *const places[] = {
    "libcufft.so.12", "/usr/local/cuda/lib64/libcufft.so.12",
    "libcufft.so.11", "/usr/local/cuda/lib64/libcufft.so.11",
    "libcufft.so.10", "/usr/local/cuda/lib64/libcufft.so.10",
};
const cuda_library cuda_cufft = {
    "cuFFT",          "libcufft of NVIDIA's CUDA toolkit",
    "HLOSH_LIBCUFFT", places,
    HS_COUNT(places), FFT_OLDEST,
    FFT_TOO_NEW,      "CUDA 11.4 to 13",
};

hs_status fft_check(fft_result r, const char *what) {
  static const cuda_answer answers[] = {
#define FFT_ERROR(number, name, code, advice) {number, #name, HS_E_##code, advice},
#include "backends/gpu/cuda/cufft_errors.def"
#undef FFT_ERROR
  };
  return cuda_library_status(&cuda_cufft, answers, HS_COUNT(answers), r, what);
}

hs_status fft_open(const char *path, fft_api *out) {
  *out = (fft_api){0};
  const cuda_symbol symbols[] = {
#define FFT_FN(field, symbol, args) {#symbol, true, (void **)(void *)&out->field},
#include "backends/gpu/cuda/cufft.def"
#undef FFT_FN
  };
  int version = 0;
  HS_TRY(cuda_library_load(&cuda_cufft, path, &out->library));
  HS_TRY(cuda_library_fill(&cuda_cufft, out->library, symbols, HS_COUNT(symbols)));
  if (out->version(&version) != FFT_OK) version = 0;
  return cuda_library_check(&cuda_cufft, (size_t)version);
}
