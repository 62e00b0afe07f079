// cudnn.c — cuDNN as one of NVIDIA's libraries (library.h). See cudnn.h.
#include "backends/gpu/cuda/cudnn.h"

#include <dlfcn.h>

#include "backends/gpu/cuda/library.h"

static const char *const places[] = {"libcudnn.so.9", "/usr/local/cuda/lib64/libcudnn.so.9"};
const cuda_library cuda_cudnn = {
    "cuDNN",          "cuDNN 9 for the driver's CUDA",
    "HLOSH_LIBCUDNN", places,
    HS_COUNT(places), DNN_OLDEST,
    DNN_TOO_NEW,      "cuDNN 9",
};

hs_status dnn_check(dnn_result r, const char *what) {
  static const cuda_answer answers[] = {
#define DNN_ERROR(number, name, code, advice) {number, #name, HS_E_##code, advice},
#include "backends/gpu/cuda/cudnn_errors.def"
#undef DNN_ERROR
  };
  return cuda_library_status(&cuda_cudnn, answers, HS_COUNT(answers), r, what);
}

hs_status dnn_open(const char *path, dnn_api *out) {
  *out = (dnn_api){0};
  const cuda_symbol symbols[] = {
#define DNN_FN(field, symbol, args) {#symbol, true, (void **)(void *)&out->field},
#include "backends/gpu/cuda/cudnn.def"
#undef DNN_FN
  };
  size_t (*version)(void);
  HS_TRY(cuda_library_load(&cuda_cudnn, path, &out->library));
  *(void **)(void *)&version = dlsym(out->library, "cudnnGetVersion");
  HS_TRY(cuda_library_check(&cuda_cudnn, version ? version() : 0));
  return cuda_library_fill(&cuda_cudnn, out->library, symbols, HS_COUNT(symbols));
}
