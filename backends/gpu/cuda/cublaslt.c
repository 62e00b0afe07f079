// cublaslt.c — cuBLASLt as one of NVIDIA's libraries (library.h). See cublaslt.h.
#include "backends/gpu/cuda/cublaslt.h"

#include <dlfcn.h>

#include "backends/gpu/cuda/library.h"

static const char *const places[] = {
    "libcublasLt.so.13", "/usr/local/cuda/lib64/libcublasLt.so.13",
    "libcublasLt.so.12", "/usr/local/cuda/lib64/libcublasLt.so.12",
    "libcublasLt.so.11", "/usr/local/cuda/lib64/libcublasLt.so.11",
};
const cuda_library cuda_cublaslt = {
    "cuBLASLt",          "libcublas of NVIDIA's CUDA toolkit",
    "HLOSH_LIBCUBLASLT", places,
    HS_COUNT(places),    BLAS_OLDEST,
    BLAS_TOO_NEW,        "CUDA 11.4 to 13",
};

hs_status blas_check(blas_result r, const char *what) {
  static const cuda_answer answers[] = {
#define BLAS_ERROR(number, name, code, advice) {number, #name, HS_E_##code, advice},
#include "backends/gpu/cuda/cublaslt_errors.def"
#undef BLAS_ERROR
  };
  return cuda_library_status(&cuda_cublaslt, answers, HS_COUNT(answers), r, what);
}

#define REQUIRED true
#define OPTIONAL false
hs_status blas_open(const char *path, blas_api *out) {
  *out = (blas_api){0};
  const cuda_symbol symbols[] = {
#define BLAS_FN(field, symbol, need, args) {#symbol, need, (void **)(void *)&out->field},
#include "backends/gpu/cuda/cublaslt.def"
#undef BLAS_FN
  };
  size_t (*version)(void);
  HS_TRY(cuda_library_load(&cuda_cublaslt, path, &out->library));
  *(void **)(void *)&version = dlsym(out->library, "cublasLtGetVersion");
  out->version = version ? version() : 0;
  HS_TRY(cuda_library_check(&cuda_cublaslt, out->version));
  return cuda_library_fill(&cuda_cublaslt, out->library, symbols, HS_COUNT(symbols));
}
