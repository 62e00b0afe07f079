// cusolver.h — cuSOLVER, the library of factorizations: found at run time like the driver; what
// is used of its interface. NVIDIA's headers are not needed to build.
//
// Addresses on the device are passed as cuda_ptr, which the library takes as pointers; triangles
// are cuBLAS's (cublas.h).
#ifndef CUDA_CUSOLVER_H
#define CUDA_CUSOLVER_H

#include "backends/gpu/cuda/cuda_api.h"
#include "core/base/diag.h"

typedef int solver_result;  // SOLVER_OK, or a row of cusolver_errors.def
typedef struct solver_handle solver_handle;
typedef struct solver_jacobi solver_jacobi;  // what is asked of an iteration
typedef struct solver_turns solver_turns;    // the same, for singular values
typedef struct solver_params solver_params;  // what is asked of a function for any type

enum {
  SOLVER_OK = 0,
#define SOLVER_ERROR(number, name, code, advice) SOLVER_##name = number,
#include "backends/gpu/cuda/cusolver_errors.def"
#undef SOLVER_ERROR
};

// What is asked of an eigenproblem.
enum { SOLVER_VALUES = 0, SOLVER_VECTORS = 1 };

// Types of numbers, for functions that take any.
enum { SOLVER_F32 = 0, SOLVER_F64 = 1, SOLVER_C64 = 4, SOLVER_C128 = 5 };

// The versions that are taken, as the library counts: from that of CUDA 11.4 to before the next
// major version after that of CUDA 13.
#define SOLVER_OLDEST 11200
#define SOLVER_TOO_NEW 13000

typedef struct solver_api {
#define SOLVER_FN(field, symbol, need, args) solver_result(*field) args;
#include "backends/gpu/cuda/cusolver.def"
#undef SOLVER_FN
  void *library;  // stays loaded
} solver_api;
// path NULL: the environment variable HLOSH_LIBCUSOLVER, else where the loader and the toolkit have
// it. E_NOT_BUILT says what was looked for, what it lacks, or which version it has.
hs_status solver_open(const char *path, solver_api *out);
// "what: cuSOLVER error 9 (NOT_SUPPORTED)", with the next step as note.
hs_status solver_check(solver_result, const char *what);

#endif
