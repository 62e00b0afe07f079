// cublaslt.h — cuBLASLt, NVIDIA's library of matrix products: found at run time like the driver;
// what is used of its interface. NVIDIA's headers are not needed to build.
//
// Matrices are column-major. Addresses of matrices are passed as cuda_ptr, which the library takes
// as pointers.
#ifndef CUDA_CUBLASLT_H
#define CUDA_CUBLASLT_H

#include "backends/gpu/cuda/cuda_api.h"
#include "core/base/diag.h"

typedef int blas_result;  // BLAS_OK, or a row of cublaslt_errors.def
typedef struct blas_handle blas_handle;
typedef struct blas_desc blas_desc;
typedef struct blas_layout blas_layout;
typedef struct blas_preference blas_preference;
typedef struct blas_algorithm {
  u64 data[8];  // the library's own
} blas_algorithm;
typedef struct blas_choice {
  blas_algorithm algorithm;
  size_t workspace_bytes;
  blas_result state;  // other fields are good when it is BLAS_OK
  float waves;
  int reserved[4];
} blas_choice;

enum {
  BLAS_OK = 0,
#define BLAS_ERROR(number, name, code, advice) BLAS_##name = number,
#include "backends/gpu/cuda/cublaslt_errors.def"
#undef BLAS_ERROR
};
enum {
#define BLAS_NUMBER(name, theirs, value) BLAS_##name = value,
#include "backends/gpu/cuda/cublaslt_numbers.def"
#undef BLAS_NUMBER
};

// The versions that are taken: from that of CUDA 11.4 to before the next major version, as the
// library counts.
#define BLAS_OLDEST 11400
#define BLAS_TOO_NEW 140000

typedef struct blas_api {
#define BLAS_FN(field, symbol, need, args) blas_result(*field) args;
#include "backends/gpu/cuda/cublaslt.def"
#undef BLAS_FN
  size_t version;  // 130100 is 13.1
  void *library;   // stays loaded
} blas_api;
// path NULL: the environment variable HLOSH_LIBCUBLASLT, else where the loader and the toolkit have
// it. E_NOT_BUILT says what was looked for, what it lacks, or which version it has.
hs_status blas_open(const char *path, blas_api *out);
// "what: cuBLASLt error 15 (NOT_SUPPORTED)", with the next step as note.
hs_status blas_check(blas_result, const char *what);

#endif
