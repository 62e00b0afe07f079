// library.c — finds and loads NVIDIA's libraries, and names their errors. See library.h.
//
// A library's major version is part of its file name. Within the versions that are taken,
// enumerations and structures have kept their numbers and places; one that is not known yet is
// refused rather than trusted.
#include "backends/gpu/cuda/library.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <unistd.h>

const cuda_library *const cuda_libraries[CUDA_LIBRARIES] = {
    &cuda_cublas, &cuda_cublaslt, &cuda_cudnn, &cuda_cufft, &cuda_cusolver};

#define WITHOUT "`set gpu.libraries off` does without"

static bool is_in(const char *folder, size_t n, const char *name) {
  char *path = hs_format("%.*s/%s", (int)n, folder, name);
  bool is = n && access(path, R_OK) == 0;
  hs_free(path);
  return is;
}

static bool is_anywhere(const char *name) {
  static const char *const folders[] = {"/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu",
                                        "/usr/lib64", "/usr/lib", "/usr/local/lib"};
  for (const char *p = getenv("LD_LIBRARY_PATH"); p && *p;) {
    size_t n = strcspn(p, ":");
    if (is_in(p, n, name)) return true;
    p += n + (p[n] == ':');
  }
  for (size_t k = 0; k < HS_COUNT(folders); k++)
    if (is_in(folders[k], strlen(folders[k]), name)) return true;
  return false;
}

bool cuda_library_present(const cuda_library *l) {
  const char *own = getenv(l->variable);
  if (own && *own) return access(own, R_OK) == 0;
  for (size_t k = 0; k < l->nplaces; k++)
    if (*l->places[k] == '/' ? access(l->places[k], R_OK) == 0 : is_anywhere(l->places[k]))
      return true;
  return false;
}

hs_status cuda_library_load(const cuda_library *l, const char *path, void **out) {
  hs_buf looked = {0};
  const char *own = path ? path : getenv(l->variable);
  if (own && !*own) own = NULL;
  *out = own ? dlopen(own, RTLD_NOW | RTLD_LOCAL) : NULL;
  if (own && !*out) hs_buf_puts(&looked, dlerror());
  for (size_t k = 0; !own && k < l->nplaces && !*out; k++) {
    *out = dlopen(l->places[k], RTLD_NOW | RTLD_LOCAL);
    hs_buf_printf(&looked, "%s%s", k ? ", " : "looked for ", l->places[k]);
  }
  hs_status s = HS_GOOD;
  if (!*out)
    s = hs_with_note(hs_with_note(hs_fail(HS_E_NOT_BUILT, "there is no %s here", l->name), "%s",
                                  hs_buf_cstr(&looked)),
                     "fix: install it (%s), or name the library "
                     "in %s; " WITHOUT,
                     l->part, l->variable);
  hs_buf_free(&looked);
  return s;
}

hs_status cuda_library_check(const cuda_library *l, size_t version) {
  if (version >= l->oldest && version < l->too_new) return HS_GOOD;
  return hs_with_note(
      hs_fail(HS_E_NOT_BUILT, "%s says version %zu, from %zu to before %zu are known", l->name,
              version, l->oldest, l->too_new),
      "fix: install that of %s, or name one in %s; " WITHOUT, l->releases, l->variable);
}

hs_status cuda_library_fill(const cuda_library *l, void *library, const cuda_symbol *x, size_t n) {
  for (size_t k = 0; k < n; k++)
    if (!(*x[k].fn = dlsym(library, x[k].name)) && x[k].required)
      return hs_with_note(hs_fail(HS_E_NOT_BUILT, "this %s has no %s", l->name, x[k].name),
                          "fix: install that of %s, or `set gpu.libraries off`", l->releases);
  return HS_GOOD;
}

hs_status cuda_library_status(const cuda_library *l, const cuda_answer *x, size_t n, int answer,
                              const char *what) {
  if (HS_LIKELY(answer == 0)) return HS_GOOD;
  size_t k = 0;
  while (k + 1 < n && x[k].number != answer) k++;
  return hs_with_note(hs_fail_subject(x[k].code, x[k].name, "%s: %s error %d (%s)", what, l->name,
                                      answer, x[k].name),
                      "%s", x[k].advice);
}
