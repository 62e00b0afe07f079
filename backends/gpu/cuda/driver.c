// driver.c — finds and loads the CUDA driver, and names its errors. See driver.h.
//
// The library exports each function under a name that carries the version of its form
// (cuMemAlloc_v2), and new drivers have cuGetProcAddress, which gives the form that a version of
// the API means. Both are asked, in that order of trust: the exported name has the form that
// cuda.def declares, whatever the driver's age; what is not exported (forms newer than the
// library's table of symbols) is asked for by base name and version.
#include "backends/gpu/cuda/driver.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

// ---- the table ----------------------------------------------------------------------------------

typedef struct function_row {
  const char *symbol, *base;
  int version;
  bool required;
  size_t offset;  // of the pointer in cuda_driver
} function_row;

#define REQUIRED true
#define OPTIONAL false
static const function_row functions[] = {
#define CUDA_FN(field, symbol, base, version, need, args) \
  {#symbol, base, version, need, offsetof(cuda_driver, field)},
#include "backends/gpu/cuda/cuda.def"
#undef CUDA_FN
};

static void **slot_of(cuda_driver *d, const function_row *f) {
  return (void **)(void *)((char *)d + f->offset);
}

// By base name and version, where the driver can be asked that way.
static void *by_version(const cuda_driver *d, const function_row *f) {
  void *fn = NULL;
  int found = CUDA_PROC_ADDRESS_MISSING;
  if (!d->proc_address || f->version > d->version) return NULL;
  if (d->proc_address(f->base, &fn, f->version, CUDA_PROC_ADDRESS_DEFAULT, &found) != CUDA_OK)
    return NULL;
  return found == CUDA_PROC_ADDRESS_FOUND ? fn : NULL;
}

static void version_text(int version, char *out, size_t n) {
  (void)snprintf(out, n, "%d.%d", version / 1000, version % 1000 / 10);
}

hs_status cuda_driver_fill(cuda_driver *d, cuda_lookup *find, void *from, const char *what) {
  void *library = d->library;
  *d = (cuda_driver){.library = library};
  for (size_t k = 0; k < HS_COUNT(functions); k++)
    *slot_of(d, &functions[k]) = find(from, functions[k].symbol);
  if (!d->driver_version)
    return hs_with_note(hs_fail(HS_E_DEVICE, "%s is not a CUDA driver", what),
                        "it has no cuDriverGetVersion");
  HS_TRY(cuda_check(d->driver_version(&d->version), "the version of the driver"));
  char has[24], needs[24];
  version_text(d->version, has, sizeof has);
  version_text(CUDA_OLDEST, needs, sizeof needs);
  if (d->version < CUDA_OLDEST)
    return hs_with_note(
        hs_fail(HS_E_DEVICE, "the driver is too old: it has CUDA %s, %s is needed", has, needs),
        "fix: install NVIDIA driver 470 or newer");
  for (size_t k = 0; k < HS_COUNT(functions); k++) {
    const function_row *f = &functions[k];
    void **fn = slot_of(d, f);
    if (!*fn) *fn = by_version(d, f);
    if (*fn || !f->required) continue;
    return hs_with_note(hs_fail(HS_E_DEVICE, "%s has no %s", what, f->symbol),
                        "it says that it has CUDA %s; install the driver again", has);
  }
  return HS_GOOD;
}

// ---- the library --------------------------------------------------------------------------------

// libcuda.so.1 is found by the loader on most systems; WSL and containers have it elsewhere.
static const char *const places[] = {
    "libcuda.so.1",
    "/usr/lib/wsl/lib/libcuda.so.1",
    "/usr/local/nvidia/lib64/libcuda.so.1",
    "/usr/lib/x86_64-linux-gnu/libcuda.so.1",
    "/usr/lib/aarch64-linux-gnu/libcuda.so.1",
    "/usr/lib64/libcuda.so.1",
    "/usr/lib/libcuda.so.1",
};

static void *find_symbol(void *library, const char *symbol) { return dlsym(library, symbol); }

static const char *given_path(const char *path) {
  if (path && *path) return path;
  const char *own = getenv("HLOSH_LIBCUDA");
  return own && *own ? own : NULL;
}

static hs_status missing(const char *looked) {
  hs_status s = hs_with_note(hs_fail(HS_E_DEVICE, "there is no CUDA driver here"), "%s", looked);
  return hs_with_note(s, "fix: install NVIDIA's driver (in a container: start it with --gpus all), "
                         "or name its library in HLOSH_LIBCUDA; without a GPU, `backend "
                         "gpu-emulated` runs the same code on this CPU, and after `target h200` "
                         "programs can be compiled and looked at");
}

hs_status cuda_driver_missing(void) {
  hs_buf looked = {0};
  const char *own = given_path(NULL);
  if (own) hs_buf_printf(&looked, "%s (HLOSH_LIBCUDA) cannot be read", own);
  for (size_t k = 0; !own && k < HS_COUNT(places); k++)
    hs_buf_printf(&looked, "%s%s", k ? ", " : "looked for ", places[k]);
  hs_status s = missing(hs_buf_cstr(&looked));
  hs_buf_free(&looked);
  return s;
}

hs_status cuda_driver_open(const char *path, cuda_driver *out) {
  *out = (cuda_driver){0};
  const char *own = given_path(path), *from = own;
  if (own) out->library = dlopen(own, RTLD_NOW | RTLD_LOCAL);
  for (size_t k = 0; !own && k < HS_COUNT(places) && !out->library; k++)
    out->library = dlopen(from = places[k], RTLD_NOW | RTLD_LOCAL);
  if (!out->library) return own ? missing(dlerror()) : cuda_driver_missing();
  hs_status s = cuda_driver_fill(out, find_symbol, out->library, from);
  if (!hs_ok(s)) cuda_driver_close(out);
  return s;
}

void cuda_driver_close(cuda_driver *d) { *d = (cuda_driver){0}; }

// Without loading it: whether one of the files is there.
bool cuda_driver_present(hs_buf *where) {
  const char *own = given_path(NULL), *p = getenv("LD_LIBRARY_PATH");
  if (own) {
    hs_buf_puts(where, own);
    return access(own, R_OK) == 0;
  }
  while (p && *p) {
    size_t n = strcspn(p, ":");
    where->n = 0;
    hs_buf_printf(where, "%.*s/%s", (int)n, p, places[0]);
    if (n && access(hs_buf_cstr(where), R_OK) == 0) return true;
    p += n + (p[n] == ':');
  }
  for (size_t k = 1; k < HS_COUNT(places); k++) {
    where->n = 0;
    hs_buf_puts(where, places[k]);
    if (access(places[k], R_OK) == 0) return true;
  }
  return false;
}

// ---- errors -------------------------------------------------------------------------------------

static const cuda_error errors[] = {
#define CUDA_ERROR(number, name, scope, code, advice) \
  {number, #name, CUDA_SCOPE_##scope, HS_E_##code, advice},
#include "backends/gpu/cuda/errors.def"
#undef CUDA_ERROR
};

const cuda_error *cuda_error_of(cuda_result r) {
  for (size_t k = 0; k < HS_COUNT(errors); k++)
    if (errors[k].number == r) return &errors[k];
  return &errors[HS_COUNT(errors) - 1];
}

hs_status cuda_check(cuda_result r, const char *what) {
  if (HS_LIKELY(r == CUDA_OK)) return HS_GOOD;
  const cuda_error *e = cuda_error_of(r);
  return hs_with_note(hs_fail_subject(e->code, e->name, "%s: CUDA error %d (%s)", what, r, e->name),
                      "%s", e->advice);
}

bool cuda_sticky(cuda_result r) {
  return r != CUDA_OK && cuda_error_of(r)->scope == CUDA_SCOPE_STICKY;
}
