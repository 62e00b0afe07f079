// cublas.c — cuBLAS as one of NVIDIA's libraries (library.h). See cublas.h.
#include "backends/gpu/cuda/cublas.h"

#include "backends/gpu/cuda/library.h"

static const char *const places[] = {
    "libcublas.so.13", "/usr/local/cuda/lib64/libcublas.so.13",
    "libcublas.so.12", "/usr/local/cuda/lib64/libcublas.so.12",
    "libcublas.so.11", "/usr/local/cuda/lib64/libcublas.so.11",
};
const cuda_library cuda_cublas = {
    "cuBLAS",          "libcublas of NVIDIA's CUDA toolkit",
    "HLOSH_LIBCUBLAS", places,
    HS_COUNT(places),  BLAS_OLDEST,
    BLAS_TOO_NEW,      "CUDA 11.4 to 13",
};

hs_status cublas_check(blas_result r, const char *what) {
  static const cuda_answer answers[] = {
#define BLAS_ERROR(number, name, code, advice) {number, #name, HS_E_##code, advice},
#include "backends/gpu/cuda/cublaslt_errors.def"
#undef BLAS_ERROR
  };
  return cuda_library_status(&cuda_cublas, answers, HS_COUNT(answers), r, what);
}

hs_status cublas_open(const char *path, cublas_api *out) {
  *out = (cublas_api){0};
  const cuda_symbol symbols[] = {
#define CUBLAS_FN(field, symbol, args) {#symbol, true, (void **)(void *)&out->field},
#include "backends/gpu/cuda/cublas.def"
#undef CUBLAS_FN
  };
  int version = 0;
  HS_TRY(cuda_library_load(&cuda_cublas, path, &out->library));
  HS_TRY(cuda_library_fill(&cuda_cublas, out->library, symbols, HS_COUNT(symbols)));
  HS_TRY(cublas_check(out->create(&out->handle), "starting cuBLAS"));
  if (out->version(out->handle, &version) != BLAS_OK) version = 0;
  return cuda_library_check(&cuda_cublas, (size_t)version);
}
