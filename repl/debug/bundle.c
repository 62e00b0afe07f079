// bundle.c — folders, the environment page and archives of report bundles. See bundle.h.
#include "repl/debug/bundle.h"

#include "repl/formats/sha256.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <unistd.h>

void bundle_outcome_free(bundle_outcome *o) {
  hlo_literal_unref(o->value);
  hs_free(o->error);
}

hs_status bundle_settle(bundle_outcome *o, hs_status s) {
  if (hs_ok(s) || hs_is_stop(s)) return s;
  o->code = s.err->code;
  o->error = hs_strdup(s.err->message);
  hs_status_drop(s);
  return HS_GOOD;
}

hs_status bundle_run(const repl_session *s, const backend *be, const hlo_module *m, u32 n,
                     hlo_literal *const *args, hlo_literal **out) {
  const backend_options bo = repl_backend_options(s);
  return backend_run_once(be, m, &bo, n, args, out);
}

hs_status bundle_mkdir(const char *path) {
  return mkdir(path, 0777) == 0 ? HS_GOOD : hs_fail_errno(HS_E_IO, path);
}

static int remove_one(const char *path, const struct stat *st, int flag, struct FTW *f) {
  (void)st, (void)flag, (void)f;
  return remove(path);
}

void bundle_remove(const char *path) { (void)nftw(path, remove_one, 16, FTW_DEPTH | FTW_PHYS); }

bool bundle_is(const char *path) {
  char *f = hs_format("%s/bundle.json", path);
  bool yes = access(f, R_OK) == 0;
  hs_free(f);
  return yes;
}

static void cpu_model(hs_buf *b) {
  hs_buf text = {0};
  hs_status s = repl_read_file("/proc/cpuinfo", 1 << 20, &text);
  const char *p = hs_ok(s) ? strstr(hs_buf_cstr(&text), "model name") : NULL;
  hs_status_drop(s);
  p = p ? strchr(p, ':') : NULL;
  if (p) hs_buf_printf(b, "cpu: %.*s\n", (int)strcspn(p + 2, "\n"), p + 2);
  hs_buf_free(&text);
}

void bundle_environment(hs_buf *b) {
  struct utsname u;
  hs_buf_printf(b, "hlosh: %s\n", HLOSH_VERSION);
  hs_buf_printf(b, "compiler: %s\n", __VERSION__);
#if HAVE_LLVM
  hs_buf_printf(b, "llvm: %d\n", HLOSH_LLVM_MAJOR);
#else
  hs_buf_puts(b, "llvm: none\n");
#endif
  hs_buf_printf(b, "onednn: %s\n", HAVE_DNNL ? "yes" : "no");
  hs_buf_printf(b, "lapack: %s\n", HAVE_LAPACKE ? "yes" : "no");
  if (uname(&u) == 0) hs_buf_printf(b, "system: %s %s %s\n", u.sysname, u.release, u.machine);
  cpu_model(b);
  hs_buf_printf(b, "cores: %ld\n", sysconf(_SC_NPROCESSORS_ONLN));
}

bool bundle_is_archive(const char *path) {
  static const char *const ends[] = {".tar", ".tar.gz", ".tgz", ".tar.zst"};
  for (size_t k = 0; k < HS_COUNT(ends); k++)
    if (repl_ends_in(path, ends[k])) return true;
  return false;
}

hs_status bundle_tar(const char *const *argv) {
  fflush(NULL);
  int said = memfd_create("tar", MFD_CLOEXEC);  // what it says, which is not for the terminal
  pid_t pid = fork();
  if (pid == 0) {
    int null = open("/dev/null", O_RDWR);
    if (null >= 0) dup2(null, 0), dup2(null, 1), dup2(said >= 0 ? said : null, 2);
    execvp(argv[0], (char *const *)(uintptr_t)argv);
    _exit(127);
  }
  int rc = 0;
  char text[400] = "";
  hs_status s = pid < 0 ? hs_fail_errno(HS_E_IO, "tar") : HS_GOOD;
  while (hs_ok(s) && waitpid(pid, &rc, 0) < 0)
    if (errno != EINTR) s = hs_fail_errno(HS_E_IO, "tar");
  if (said >= 0 && pread(said, text, sizeof text - 1, 0) > 0) text[strcspn(text, "\n")] = 0;
  if (said >= 0) close(said);
  HS_TRY(s);
  if (WIFEXITED(rc) && WEXITSTATUS(rc) == 0) return HS_GOOD;
  if (WIFEXITED(rc) && WEXITSTATUS(rc) == 127)
    return hs_fail(HS_E_NOT_BUILT, "tar is not installed; give a folder instead of an archive");
  return hs_fail(HS_E_IO, "tar failed%s%s", *text ? ": " : "", text);
}

// ---- hashes -------------------------------------------------------------------------------------
static int by_name(const void *a, const void *b) {
  return strcmp(*(const char *const *)a, *(const char *const *)b);
}

// The names of the plain files of dir/below, with `below` in front.
typedef HS_VEC(char *) file_names;
static hs_status list_files(const char *dir, const char *below, file_names *out) {
  char *path = hs_format("%s/%s", dir, below);
  DIR *d = opendir(path);
  hs_status s = d ? HS_GOOD : hs_fail_errno(HS_E_IO, path);
  for (struct dirent *e; d && hs_ok(s) && (e = readdir(d)) != NULL;) {
    if (e->d_name[0] == '.') continue;
    char *name = hs_format("%s%s%s", below, *below ? "/" : "", e->d_name);
    char *full = hs_format("%s/%s", dir, name);
    struct stat st;
    bool there = lstat(full, &st) == 0;
    if (there && S_ISDIR(st.st_mode)) s = list_files(dir, name, out);
    if (there && S_ISREG(st.st_mode)) hs_vec_push(out, name);
    else hs_free(name);
    hs_free(full);
  }
  if (d) closedir(d);
  hs_free(path);
  return s;
}

hs_status bundle_write_sums(const char *dir) {
  file_names names = {0};
  hs_buf sums = {0};
  hs_status s = list_files(dir, "", &names);
  if (names.n) qsort(names.v, names.n, sizeof *names.v, by_name);
  for (size_t k = 0; k < names.n; k++) {
    char *path = hs_format("%s/%s", dir, names.v[k]), hex[65];
    hs_buf text = {0};
    if (hs_ok(s)) s = repl_read_file(path, SIZE_MAX / 2, &text);
    repl_sha256(text.p ? text.p : "", text.n, hex);
    hs_buf_printf(&sums, "%s  %s\n", hex, names.v[k]);
    hs_buf_free(&text);
    hs_free(path);
    hs_free(names.v[k]);
  }
  hs_vec_free(&names);
  char *path = hs_format("%s/SHA256SUMS", dir);
  if (hs_ok(s)) s = hs_write_file(path, sums.p, sums.n, false);
  hs_free(path);
  hs_buf_free(&sums);
  return s;
}

static hs_status check_sum(repl_folder *from, const char *hex, const char *name) {
  hs_view v;
  char now[65];
  hs_status s = repl_folder_read(from, name, &v);
  if (!hs_ok(s))
    return hs_chain(hs_fail(HS_E_BUNDLE, "%s: %s of SHA256SUMS cannot be read", from->path, name),
                    s);
  repl_sha256(v.n ? v.p : "", v.n, now);
  hs_view_drop(&v);
  if (strncmp(now, hex, 64) == 0) return HS_GOOD;
  return hs_with_note(hs_fail(HS_E_BUNDLE, "%s: %s is not as it was written", from->path, name),
                      "replay %s --changed runs it all the same", from->path);
}

hs_status bundle_check_sums(repl_folder *from) {
  hs_view v;
  hs_status s = repl_folder_read(from, "SHA256SUMS", &v);
  if (!hs_ok(s)) return hs_status_drop(s), HS_GOOD;
  const char *p = v.p, *end = p + v.n;
  while (hs_ok(s) && p < end) {
    const char *line = memchr(p, '\n', (size_t)(end - p));
    size_t n = (size_t)((line ? line : end) - p);
    if (n < 67 || memchr(p, 0, n)) {
      s = hs_fail(HS_E_BUNDLE, "%s: SHA256SUMS is no list of hashes", from->path);
      break;
    }
    char *name = hs_format("%.*s", (int)HS_MIN(n - 66, 4096u), p + 66);
    from->room = from->limit;  // the files are read again by those who use them
    s = check_sum(from, p, name);
    hs_free(name);
    p += n + 1;
  }
  hs_view_drop(&v);
  return s;
}
