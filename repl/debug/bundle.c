// bundle.c — folders, the environment page and archives of report bundles. See bundle.h.
#include "repl/debug/bundle.h"

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
  if (hs_ok(s) || s.err->code == HS_E_INTERRUPTED) return s;
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
  size_t n = strlen(path);
  for (size_t k = 0; k < HS_COUNT(ends); k++)
    if (n > strlen(ends[k]) && strcmp(path + n - strlen(ends[k]), ends[k]) == 0) return true;
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
