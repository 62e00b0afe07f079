// cudnn.h — cuDNN, the library of convolutions: found at run time like the driver; what is used
// of its graph API. NVIDIA's headers are not needed to build.
//
// A descriptor is made empty, given attributes (a number for each, the type and number of values)
// and then made ready; what refers to it is made ready after it.
#ifndef CUDA_CUDNN_H
#define CUDA_CUDNN_H

#include "backends/gpu/cuda/cuda_api.h"
#include "core/base/diag.h"

typedef int dnn_result;  // DNN_OK, or a row of cudnn_errors.def
typedef struct dnn_handle dnn_handle;
typedef struct dnn_desc dnn_desc;

enum {
  DNN_OK = 0,
#define DNN_ERROR(number, name, code, advice) DNN_##name = number,
#include "backends/gpu/cuda/cudnn_errors.def"
#undef DNN_ERROR
};
enum {
#define DNN_NUMBER(name, theirs, value) DNN_##name = value,
#include "backends/gpu/cuda/cudnn_numbers.def"
#undef DNN_NUMBER
};

// The versions that are taken, as the library counts: all of 9.
#define DNN_OLDEST 90000
#define DNN_TOO_NEW 100000

typedef struct dnn_api {
#define DNN_FN(field, symbol, args) dnn_result(*field) args;
#include "backends/gpu/cuda/cudnn.def"
#undef DNN_FN
  void *library;  // stays loaded
} dnn_api;
// path NULL: the environment variable HLOSH_LIBCUDNN, else where the loader and the toolkit have
// it. E_NOT_BUILT says what was looked for, what it lacks, or which version it has.
hs_status dnn_open(const char *path, dnn_api *out);
// "what: cuDNN error 3000 (NOT_SUPPORTED)", with the next step as note.
hs_status dnn_check(dnn_result, const char *what);

#endif
