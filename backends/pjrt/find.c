// find.c — which plug-ins this machine has: PJRT_NAMES_AND_LIBRARY_PATHS (name:path,name:path, a
// path may be a .json file, see entry.c), the peers that `make peers` fetches beside the build, and
// the packages of every Python on PATH, of PYTHONPATH and of the user (JAX's jax_plugins folders
// and XLA's xla_plugins).
//
// Nothing is loaded here and no Python runs; packages are recognized by their path. The name of
// a plug-in is the name of its package.
#include <glob.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "backends/pjrt/pjrt.h"

static void add(pjrt_plugins *v, const char *name, size_t name_n, const char *path,
                const char *from) {
  char *real = realpath(path, NULL);
  const char *key = real ? real : path;
  bool known = false;
  for (size_t k = 0; k < v->n && !known; k++) {
    char *other = realpath(v->v[k].path, NULL);
    known = strcmp(other ? other : v->v[k].path, key) == 0;
    free(other);
  }
  free(real);
  if (known) return;
  pjrt_plugin p = {.name = hs_format("%.*s", (int)name_n, name),
                   .path = hs_strdup(path),
                   .from = hs_strdup(from)};
  hs_vec_push(v, p);
}

static void add_environment(pjrt_plugins *v) {
  const char *p = getenv("PJRT_NAMES_AND_LIBRARY_PATHS");
  while (p && *p) {
    size_t n = strcspn(p, ","), name = strcspn(p, ":,");
    if (name + 1 < n) {
      char *path = hs_format("%.*s", (int)(n - name - 1), p + name + 1);
      add(v, p, name, path, "PJRT_NAMES_AND_LIBRARY_PATHS");
      hs_free(path);
    }
    p += n + (p[n] == ',');
  }
}

// Plug-ins in one folder that Python looks for packages in: {xla,jax}_plugins/PACKAGE/*.so.
// `packages` may be a pattern.
static void add_packages(pjrt_plugins *v, const char *packages, const char *from) {
  static const char *const folder[] = {"xla_plugins", "jax_plugins"};
  for (size_t f = 0; f < HS_COUNT(folder); f++) {
    char *pattern = hs_format("%s/%s/*/*.so", packages, folder[f]);
    glob_t g;
    if (glob(pattern, 0, NULL, &g) == 0) {
      for (size_t k = 0; k < g.gl_pathc; k++) {
        const char *file = strrchr(g.gl_pathv[k], '/'), *package = file;
        while (package > g.gl_pathv[k] && package[-1] != '/') package--;
        if (strstr(file, "pjrt") || strstr(file, "plugin"))
          add(v, package, (size_t)(file - package), g.gl_pathv[k], from);
      }
      globfree(&g);
    }
    hs_free(pattern);
  }
}

static void add_prefix(pjrt_plugins *v, const char *prefix, const char *from) {
  static const char *const lib[] = {"lib/python3*/site-packages", "lib64/python3*/site-packages",
                                    "lib/python3/dist-packages", "lib/python3*/dist-packages",
                                    "local/lib/python3*/dist-packages"};
  for (size_t l = 0; l < HS_COUNT(lib); l++) {
    char *packages = hs_format("%s/%s", prefix, lib[l]);
    add_packages(v, packages, from);
    hs_free(packages);
  }
}

// PYTHONPATH, and the packages that the user has installed.
static void add_users(pjrt_plugins *v) {
  const char *p = getenv("PYTHONPATH"), *home = getenv("HOME");
  while (p && *p) {
    size_t n = strcspn(p, ":");
    char *dir = hs_format("%.*s", (int)n, p);
    if (n) add_packages(v, dir, "PYTHONPATH");
    hs_free(dir);
    p += n + (p[n] == ':');
  }
  if (!home || !*home) return;
  char *prefix = hs_format("%s/.local", home);
  add_prefix(v, prefix, prefix);
  hs_free(prefix);
}

void pjrt_each_peers(void (*add_one)(void *arg, const char *prefix), void *arg) {
  char exe[4096];
  ssize_t n = readlink("/proc/self/exe", exe, sizeof exe - 1);
  for (int up = 0; n > 0 && up < 3; up++) {
    while (n > 0 && exe[n - 1] != '/') n--;
    if (n <= 0) break;
    char *prefix = hs_format("%.*speers", (int)n, exe);
    add_one(arg, prefix);
    hs_free(prefix);
    n--;
  }
  char *here = realpath("build/peers", NULL);
  if (here) add_one(arg, here);
  free(here);
}

static void add_peers(void *v, const char *prefix) { add_prefix(v, prefix, "build/peers"); }

static void add_pythons(pjrt_plugins *v) {
  const char *p = getenv("PATH");
  while (p && *p) {
    size_t n = strcspn(p, ":");
    char *dir = hs_format("%.*s", (int)n, p), *python = hs_format("%s/python3", dir);
    size_t len = strlen(dir);
    if (access(python, X_OK) == 0 && len > 4 && strcmp(dir + len - 4, "/bin") == 0) {
      dir[len - 4] = '\0';
      add_prefix(v, *dir ? dir : "/", python);
    }
    hs_free(dir);
    hs_free(python);
    p += n + (p[n] == ':');
  }
}

void pjrt_find_all(pjrt_plugins *v) {
  *v = (pjrt_plugins){0};
  add_environment(v);
  pjrt_each_peers(add_peers, v);
  add_users(v);
  add_pythons(v);
}

void pjrt_plugins_free(pjrt_plugins *v) {
  for (size_t k = 0; k < v->n; k++) {
    hs_free(v->v[k].name);
    hs_free(v->v[k].path);
    hs_free(v->v[k].from);
  }
  hs_vec_free(v);
}

static const pjrt_plugin *choose(const pjrt_plugins *v, const char *name) {
  for (size_t k = 0; k < v->n; k++)
    if (*name ? strcmp(v->v[k].name, name) == 0 : strstr(v->v[k].name, "cpu") != NULL)
      return &v->v[k];
  if (!*name) return v->n ? &v->v[0] : NULL;
  const pjrt_plugin *only = NULL;  // the one that begins like this
  for (size_t k = 0; k < v->n; k++) {
    if (strncmp(v->v[k].name, name, strlen(name)) != 0) continue;
    if (only) return NULL;
    only = &v->v[k];
  }
  return only;
}

hs_status pjrt_find(const char *name, char **path) {
  *path = NULL;
  if (!name) name = "";
  if (strchr(name, '/')) {
    struct stat st;
    if (stat(name, &st) != 0) return hs_fail_errno(HS_E_IO, name);
    if (!S_ISREG(st.st_mode)) return hs_fail(HS_E_IO, "%s is not a file", name);
    *path = realpath(name, NULL);
    return *path ? HS_GOOD : hs_fail_errno(HS_E_IO, name);
  }
  pjrt_plugins v;
  pjrt_find_all(&v);
  const pjrt_plugin *p = choose(&v, name);
  hs_status s = HS_GOOD;
  if (p) *path = hs_strdup(p->path);
  else if (!v.n)
    s = hs_with_note(
        hs_fail(HS_E_NOT_BUILT, "no PJRT plug-in was found"),
        "fix: make peers, or backend pjrt PATH, or set PJRT_NAMES_AND_LIBRARY_PATHS=name:path");
  else s = hs_fail(HS_E_USAGE, "no PJRT plug-in is called %s; `backends` lists them", name);
  pjrt_plugins_free(&v);
  return s;
}

// CUDA's and ROCm's compilers work without their devices; names are all there is to tell them by.
static bool for_gpus(const char *name) {
  return strstr(name, "cuda") || strstr(name, "gpu") || strstr(name, "rocm");
}

hs_status pjrt_find_gpu(const char *preferred, char **path) {
  *path = NULL;
  const char *file = preferred && strrchr(preferred, '/') ? strrchr(preferred, '/') : preferred;
  if (file && for_gpus(file)) return pjrt_find(preferred, path);
  pjrt_plugins v;
  pjrt_find_all(&v);
  for (size_t k = 0; k < v.n && !*path; k++)
    if (for_gpus(v.v[k].name)) *path = hs_strdup(v.v[k].path);
  pjrt_plugins_free(&v);
  return *path ? HS_GOOD
               : hs_with_note(hs_fail(HS_E_NOT_BUILT, "no PJRT plug-in for GPUs was found"),
                              "fix: make peers, or backend pjrt PATH, or set "
                              "PJRT_NAMES_AND_LIBRARY_PATHS=cuda:path");
}
