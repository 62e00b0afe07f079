// cublaslt.c — finds and loads cuBLASLt, and names its errors. See cublaslt.h.
//
// Each major version has a file name of its own. Enumerations and structures have kept their
// numbers and places since CUDA 11; a major version that is not known yet is refused rather than
// trusted.
#include "backends/gpu/cuda/cublaslt.h"

#include <dlfcn.h>
#include <stdlib.h>

static const char *const places[] = {
    "libcublasLt.so.13", "/usr/local/cuda/lib64/libcublasLt.so.13",
    "libcublasLt.so.12", "/usr/local/cuda/lib64/libcublasLt.so.12",
    "libcublasLt.so.11", "/usr/local/cuda/lib64/libcublasLt.so.11",
};

hs_status blas_check(blas_result r, const char *what) {
  static const struct {
    int number;
    const char *name;
    hs_code code;
    const char *advice;
  } errors[] = {
#define BLAS_ERROR(number, name, code, advice) {number, #name, HS_E_##code, advice},
#include "backends/gpu/cuda/cublaslt_errors.def"
#undef BLAS_ERROR
  };
  if (HS_LIKELY(r == BLAS_OK)) return HS_GOOD;
  size_t k = 0;
  while (k + 1 < HS_COUNT(errors) && errors[k].number != r) k++;
  return hs_with_note(hs_fail_subject(errors[k].code, errors[k].name, "%s: cuBLASLt error %d (%s)",
                                      what, r, errors[k].name),
                      "%s", errors[k].advice);
}

static hs_status load(const char *own, blas_api *out) {
  hs_buf looked = {0};
  if (own) {
    out->library = dlopen(own, RTLD_NOW | RTLD_LOCAL);
    if (!out->library) hs_buf_puts(&looked, dlerror());
  }
  for (size_t k = 0; !own && k < HS_COUNT(places) && !out->library; k++) {
    out->library = dlopen(places[k], RTLD_NOW | RTLD_LOCAL);
    hs_buf_printf(&looked, "%s%s", k ? ", " : "looked for ", places[k]);
  }
  hs_status s = HS_GOOD;
  if (!out->library)
    s = hs_with_note(hs_with_note(hs_fail(HS_E_NOT_BUILT, "there is no cuBLASLt here"), "%s",
                                  hs_buf_cstr(&looked)),
                     "fix: install it (a part of NVIDIA's CUDA toolkit: libcublas), or name the "
                     "library in HLOSH_LIBCUBLASLT; `set gpu.libraries off` does without");
  hs_buf_free(&looked);
  return s;
}

#define REQUIRED true
#define OPTIONAL false
static hs_status fill(blas_api *out) {
  const struct {
    const char *symbol;
    bool required;
    void **fn;
  } fns[] = {
#define BLAS_FN(field, symbol, need, args) {#symbol, need, (void **)(void *)&out->field},
#include "backends/gpu/cuda/cublaslt.def"
#undef BLAS_FN
  };
  for (size_t k = 0; k < HS_COUNT(fns); k++)
    if (!(*fns[k].fn = dlsym(out->library, fns[k].symbol)) && fns[k].required)
      return hs_with_note(hs_fail(HS_E_NOT_BUILT, "this cuBLASLt has no %s", fns[k].symbol),
                          "fix: install that of CUDA 11.4 or newer, or `set gpu.libraries off`");
  return HS_GOOD;
}

// Before anything of it is called.
static hs_status check_version(blas_api *out) {
  size_t (*version)(void);
  *(void **)(void *)&version = dlsym(out->library, "cublasLtGetVersion");
  out->version = version ? version() : 0;
  if (out->version >= BLAS_OLDEST && out->version < BLAS_TOO_NEW) return HS_GOOD;
  return hs_with_note(
      hs_fail(HS_E_NOT_BUILT, "cuBLASLt says version %zu, from %d to before %d are known",
              out->version, BLAS_OLDEST, BLAS_TOO_NEW),
      "fix: install that of CUDA 11.4 to 13, or name one in HLOSH_LIBCUBLASLT; `set "
      "gpu.libraries off` does without");
}

hs_status blas_open(const char *path, blas_api *out) {
  *out = (blas_api){0};
  const char *own = path ? path : getenv("HLOSH_LIBCUBLASLT");
  HS_TRY(load(own && *own ? own : NULL, out));
  HS_TRY(check_version(out));
  return fill(out);
}
