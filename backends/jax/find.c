// find.c — which Pythons have jaxlib: the one of HLOSH_PYTHON, the activated environment
// (VIRTUAL_ENV, CONDA_PREFIX), the peers that `make peers` fetches beside the build, and every
// python3 on PATH.
//
// No Python is started: that would take 50 ms for each, and a second with jaxlib. A package is
// recognized by the folder that pip leaves beside it, jaxlib-VERSION.dist-info, in the folders that
// this Python looks into.
#include "backends/jax/jax.h"

#include <glob.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/base/file.h"

// The version of jaxlib in a folder of packages, which must have jax too; NULL. `packages` may be a
// pattern; *malloc'ed.
static char *version_in(const char *packages) {
  char *pattern = hs_format("%s/jaxlib-*.dist-info", packages), *version = NULL;
  glob_t g;
  if (glob(pattern, 0, NULL, &g) == 0) {
    for (size_t k = 0; k < g.gl_pathc && !version; k++) {
      const char *name = strrchr(g.gl_pathv[k], '/') + 1;
      char *jax = hs_format("%.*sjax/__init__.py", (int)(name - g.gl_pathv[k]), g.gl_pathv[k]);
      const char *from = name + strlen("jaxlib-");
      if (access(jax, R_OK) == 0)
        version = hs_format("%.*s", (int)(strlen(from) - strlen(".dist-info")), from);
      hs_free(jax);
    }
    globfree(&g);
  }
  hs_free(pattern);
  return version;
}

// As it is found in the folders of one prefix, such as /usr or an environment's.
static char *version_under(const char *prefix, const char *python) {
  static const char *const folder[] = {"%s/lib/%s/site-packages", "%s/lib64/%s/site-packages",
                                       "%s/lib/%s/dist-packages", "%s/local/lib/%s/dist-packages"};
  char *version = NULL;
  for (size_t k = 0; k < HS_COUNT(folder) && !version; k++) {
    hs_buf b = {0};
    hs_buf_printf(&b, folder[k], prefix, python);
    version = version_in(hs_buf_cstr(&b));
    hs_buf_free(&b);
  }
  return version;
}

// The folders' name in lib: "python3.11" when the file behind the link is called so.
static char *lib_name(const char *path) {
  char *real = realpath(path, NULL);
  const char *name = real && strrchr(real, '/') ? strrchr(real, '/') + 1 : "";
  char *lib = hs_strdup(strncmp(name, "python3.", 8) == 0 ? name : "python3*");
  free(real);
  return lib;
}

// The version that this Python would import; NULL when none is found.
static char *version_of(const char *path) {
  char *version = NULL, *lib = lib_name(path);
  for (const char *p = getenv("PYTHONPATH"); p && *p && !version;) {
    size_t n = strcspn(p, ":");
    char *dir = hs_format("%.*s", (int)n, p);
    if (n) version = version_in(dir);
    hs_free(dir);
    p += n + (p[n] == ':');
  }
  const char *name = strrchr(path, '/'), *home = getenv("HOME");
  const char *bin = name;
  while (bin && bin > path && bin[-1] != '/') bin--;
  if (!version && name && bin > path) {
    char *prefix = hs_format("%.*s", (int)HS_MAX(bin - path - 1, (ptrdiff_t)0), path);
    char *cfg = hs_format("%s/pyvenv.cfg", prefix);
    version = version_under(prefix, lib);
    // environments of their own do not see what the user has installed
    if (!version && home && *home && access(cfg, R_OK) != 0) {
      char *user = hs_format("%s/.local", home);
      version = version_under(user, lib);
      hs_free(user);
    }
    hs_free(cfg);
    hs_free(prefix);
  }
  hs_free(lib);
  return version;
}

// `always`: also when no jaxlib is found for it.
static void add(jax_pythons *v, const char *path, const char *from, bool always) {
  struct stat st;
  if (stat(path, &st) != 0 || !S_ISREG(st.st_mode) || access(path, X_OK) != 0) {
    if (!always) return;
  }
  for (size_t k = 0; k < v->n; k++)
    if (strcmp(v->v[k].path, path) == 0) return;
  char *version = version_of(path);
  if (!version && !always) return;
  hs_vec_push(v, ((jax_python){hs_strdup(path), version, hs_strdup(from)}));
}

static void add_in(jax_pythons *v, const char *prefix, const char *from) {
  if (!prefix || !*prefix) return;
  char *path = hs_format("%s/bin/python3", prefix);
  add(v, path, from, false);
  hs_free(path);
}

static void add_peers(void *v, const char *prefix) { add_in(v, prefix, "build/peers"); }

void jax_find_all(jax_pythons *v) {
  *v = (jax_pythons){0};
  const char *own = getenv("HLOSH_PYTHON");
  if (own && *own) {
    char *path;
    hs_status s = jax_find(own, &path);
    add(v, hs_ok(s) ? path : own, "HLOSH_PYTHON", true);
    hs_status_drop(s);
    hs_free(path);
  }
  add_in(v, getenv("VIRTUAL_ENV"), "VIRTUAL_ENV");
  add_in(v, getenv("CONDA_PREFIX"), "CONDA_PREFIX");
  pjrt_each_peers(add_peers, v);
  for (const char *p = getenv("PATH"); p && *p;) {
    size_t n = strcspn(p, ":");
    char *path = hs_format("%.*s/python3", (int)n, p);
    if (n) add(v, path, "PATH", false);
    hs_free(path);
    p += n + (p[n] == ':');
  }
}

void jax_pythons_free(jax_pythons *v) {
  for (size_t k = 0; k < v->n; k++) {
    hs_free(v->v[k].path);
    hs_free(v->v[k].jaxlib);
    hs_free(v->v[k].from);
  }
  hs_vec_free(v);
}

hs_status jax_find(const char *given, char **out) {
  *out = NULL;
  if (given && *given) {
    struct stat st;
    char *path = strchr(given, '/') ? NULL : hs_find_program(given);  // as a shell does
    if (!path) path = hs_strdup(given);
    if (stat(path, &st) == 0 && S_ISDIR(st.st_mode)) {
      char *inside = hs_format("%s/bin/python3", path);
      hs_free(path);
      path = inside;
    }
    if (access(path, X_OK) != 0) {
      hs_status s = hs_fail_errno(HS_E_IO, path);
      hs_free(path);
      return s;
    }
    // the shell may change its folder; the link itself tells a Python which environment it is of
    char *here = path[0] == '/' ? NULL : realpath(".", NULL);
    *out = here ? hs_format("%s/%s", here, path) : hs_strdup(path);
    free(here);
    hs_free(path);
    return HS_GOOD;
  }
  jax_pythons v;
  jax_find_all(&v);
  if (v.n) *out = hs_strdup(v.v[0].path);
  jax_pythons_free(&v);
  return *out ? HS_GOOD
              : hs_with_note(hs_fail(HS_E_NOT_BUILT, "no Python with jaxlib was found"),
                             "fix: make peers, or pip install jax and backend jax PYTHON, or set "
                             "HLOSH_PYTHON=PATH");
}
