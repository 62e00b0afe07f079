// nccl.c — NCCL as one of NVIDIA's libraries (../cuda/library.h). See nccl.h.
#include "backends/gpu/nccl/nccl.h"

static const char *const places[] = {
    "libnccl.so.2",
    "/usr/local/cuda/lib64/libnccl.so.2",
    "/usr/local/cuda/lib/libnccl.so.2",
};
const cuda_library cuda_nccl = {
    "NCCL",           "NVIDIA's libnccl2", "HLOSH_LIBNCCL", places,
    HS_COUNT(places), NCCL_OLDEST,         NCCL_TOO_NEW,    "NCCL 2.18 and newer",
};

hs_status nccl_check(nccl_result r, const char *what) {
  static const cuda_answer answers[] = {
#define NCCL_ERROR(number, name, code, advice) {number, #name, HS_E_##code, advice},
#include "backends/gpu/nccl/nccl_errors.def"
#undef NCCL_ERROR
  };
  return cuda_library_status(&cuda_nccl, answers, HS_COUNT(answers), r, what);
}

hs_status nccl_open(const char *path, nccl_api *out) {
  *out = (nccl_api){0};
  const cuda_symbol symbols[] = {
#define NCCL_FN(field, symbol, args) {#symbol, true, (void **)(void *)&out->field},
#include "backends/gpu/nccl/nccl.def"
#undef NCCL_FN
  };
  int version = 0;
  HS_TRY(cuda_library_load(&cuda_nccl, path, &out->library));
  // The version is the table's first row: an older library lacks others, and is named as older.
  HS_TRY(cuda_library_fill(&cuda_nccl, out->library, symbols, 1));
  if (out->version(&version) != NCCL_OK) version = 0;
  HS_TRY(cuda_library_check(&cuda_nccl, (size_t)version));
  return cuda_library_fill(&cuda_nccl, out->library, symbols, HS_COUNT(symbols));
}
