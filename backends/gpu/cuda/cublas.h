// cublas.h — cuBLAS, the library of linear algebra: found at run time like the driver; what is
// used of its interface beside cuBLASLt's. NVIDIA's headers are not needed to build.
//
// Matrices are column-major. Addresses on the device are passed as cuda_ptr, which the library
// takes as pointers; factors are in the host's memory. Errors are those of cuBLASLt.
#ifndef CUDA_CUBLAS_H
#define CUDA_CUBLAS_H

#include "backends/gpu/cuda/cublaslt.h"

typedef struct cublas_handle cublas_handle;

enum {
#define CUBLAS_NUMBER(name, theirs, value) CUBLAS_##name = value,
#include "backends/gpu/cuda/cublas_numbers.def"
#undef CUBLAS_NUMBER
};

typedef struct cublas_api {
#define CUBLAS_FN(field, symbol, args) blas_result(*field) args;
#include "backends/gpu/cuda/cublas.def"
#undef CUBLAS_FN
  cublas_handle *handle;  // of this process
  void *library;          // stays loaded
} cublas_api;
// path NULL: the environment variable HLOSH_LIBCUBLAS, else where the loader and the toolkit have
// it. Starts it, as it tells its version only then. E_NOT_BUILT says what was looked for, what it
// lacks, or which version it has.
hs_status cublas_open(const char *path, cublas_api *out);
// "what: cuBLAS error 13 (EXECUTION_FAILED)", with the next step as note.
hs_status cublas_check(blas_result, const char *what);

#endif
