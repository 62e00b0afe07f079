// cusolver.c — cuSOLVER as one of NVIDIA's libraries (library.h). See cusolver.h.
#include "backends/gpu/cuda/cusolver.h"

#include "backends/gpu/cuda/library.h"

static const char *const places[] = {
    "libcusolver.so.12",
    "/usr/local/cuda/lib64/libcusolver.so.12",
    "libcusolver.so.11",
    "/usr/local/cuda/lib64/libcusolver.so.11",
};
const cuda_library cuda_cusolver = {
    "cuSOLVER",          "libcusolver of NVIDIA's CUDA toolkit",
    "HLOSH_LIBCUSOLVER", places,
    HS_COUNT(places),    SOLVER_OLDEST,
    SOLVER_TOO_NEW,      "CUDA 11.4 to 13",
};

hs_status solver_check(solver_result r, const char *what) {
  static const cuda_answer answers[] = {
#define SOLVER_ERROR(number, name, code, advice) {number, #name, HS_E_##code, advice},
#include "backends/gpu/cuda/cusolver_errors.def"
#undef SOLVER_ERROR
  };
  return cuda_library_status(&cuda_cusolver, answers, HS_COUNT(answers), r, what);
}

hs_status solver_open(const char *path, solver_api *out) {
  *out = (solver_api){0};
  enum { REQUIRED = true, OPTIONAL = false };
  const cuda_symbol symbols[] = {
#define SOLVER_FN(field, symbol, need, args) {#symbol, need, (void **)(void *)&out->field},
#include "backends/gpu/cuda/cusolver.def"
#undef SOLVER_FN
  };
  int version = 0;
  HS_TRY(cuda_library_load(&cuda_cusolver, path, &out->library));
  HS_TRY(cuda_library_fill(&cuda_cusolver, out->library, symbols, HS_COUNT(symbols)));
  if (out->version(&version) != SOLVER_OK) version = 0;
  return cuda_library_check(&cuda_cusolver, (size_t)version);
}
