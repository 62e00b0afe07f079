// cufft.h — cuFFT, the library of Fourier transforms: found at run time like the driver; what is
// used of its interface. NVIDIA's headers are not needed to build.
//
// Addresses on the device are passed as cuda_ptr, which the library takes as pointers.
#ifndef CUDA_CUFFT_H
#define CUDA_CUFFT_H

#include "backends/gpu/cuda/cuda_api.h"
#include "core/base/diag.h"

typedef int fft_result;  // FFT_OK, or a row of cufft_errors.def
typedef int fft_plan;

enum {
  FFT_OK = 0,
#define FFT_ERROR(number, name, code, advice) FFT_##name = number,
#include "backends/gpu/cuda/cufft_errors.def"
#undef FFT_ERROR
#define FFT_NUMBER(name, theirs, value) FFT_##name = value,
#include "backends/gpu/cuda/cufft_numbers.def"
#undef FFT_NUMBER
};

// The versions that are taken, as the library counts: from that of CUDA 11.4 to before the next
// major version after that of CUDA 13.
#define FFT_OLDEST 10500
#define FFT_TOO_NEW 13000

typedef struct fft_api {
#define FFT_FN(field, symbol, args) fft_result(*field) args;
#include "backends/gpu/cuda/cufft.def"
#undef FFT_FN
  void *library;  // stays loaded
} fft_api;
// path NULL: the environment variable HLOSH_LIBCUFFT, else where the loader and the toolkit have
// it. E_NOT_BUILT says what was looked for, what it lacks, or which version it has.
hs_status fft_open(const char *path, fft_api *out);
// "what: cuFFT error 16 (NOT_SUPPORTED)", with the next step as note.
hs_status fft_check(fft_result, const char *what);

#endif
