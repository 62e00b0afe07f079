// files.c — whole files in and out: reading with a limit, writing that leaves either the old file
// or the new one, temporary files, folders. See files.h.
//
// A file is replaced by writing a temporary one beside it and renaming that (rename(2) is atomic
// within a file system). Devices and pipes are written in place.
#include "repl/formats/files.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

bool repl_write_all(int fd, const char *p, size_t n) {
  while (n) {
    ssize_t k = write(fd, p, n);
    if (k < 0 && errno == EINTR) continue;
    if (k < 0) return false;
    p += k;
    n -= (size_t)k;
  }
  return true;
}

static hs_status append_file(const char *path, const char *p, size_t n) {
  int fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
  if (fd < 0) return hs_fail_errno(HS_E_IO, path);
  bool ok = repl_write_all(fd, p, n);
  if (close(fd) != 0) ok = false;
  return ok ? HS_GOOD : hs_fail_errno(HS_E_IO, path);
}

hs_status repl_write_file(const char *path, const char *p, size_t n, bool append) {
  struct stat st;
  // Devices and pipes (/dev/stdout, /dev/null) are written in place: renaming over them would
  // replace them.
  bool special = stat(path, &st) == 0 && !S_ISREG(st.st_mode);
  if (append || (special && !S_ISDIR(st.st_mode))) return append_file(path, p, n);
  char *tmp = hs_format("%s.XXXXXX", path);
  int fd = mkostemp(tmp, O_CLOEXEC);
  if (fd < 0) {
    hs_free(tmp);
    return hs_fail_errno(HS_E_IO, path);
  }
  mode_t mask = umask(0);
  umask(mask);
  bool ok = repl_write_all(fd, p, n) && fchmod(fd, special                ? 0666 & ~mask
                                                   : stat(path, &st) == 0 ? st.st_mode & 0777
                                                                          : 0666 & ~mask) == 0;
  int err = errno;
  if (close(fd) != 0 && ok) ok = false, err = errno;
  if (ok && rename(tmp, path) != 0) ok = false, err = errno;
  if (!ok) unlink(tmp);
  hs_free(tmp);
  errno = err;
  return ok ? HS_GOOD : hs_fail_errno(HS_E_IO, path);
}

hs_status repl_temp_file(const char *stem, char **path) {
  const char *base = getenv("TMPDIR");
  // Programs get the path through a shell, in single quotes.
  char *p = hs_format("%s/hlosh-%s.XXXXXX.hlo",
                      base && *base && !strchr(base, '\'') ? base : "/tmp", stem);
  int fd = mkostemps(p, 4, O_CLOEXEC);
  if (fd < 0) {
    hs_status s = hs_fail_errno(HS_E_IO, p);
    hs_free(p);
    return s;
  }
  close(fd);
  *path = p;
  return HS_GOOD;
}

hs_status repl_make_folder(const char *path) {
  char *p = hs_strdup(path);
  struct stat st;
  for (char *slash = p; (slash = strchr(slash + 1, '/')) != NULL; *slash = '/') {
    *slash = '\0';
    (void)mkdir(p, 0777);  // the last one tells whether all is well
  }
  hs_free(p);
  if (mkdir(path, 0777) == 0) return HS_GOOD;
  int err = errno;
  if (err == EEXIST && stat(path, &st) == 0 && S_ISDIR(st.st_mode)) return HS_GOOD;
  errno = err;
  return hs_fail_errno(HS_E_IO, path);
}

hs_status repl_read_file(const char *path, size_t limit, hs_buf *out) {
  int fd = open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return hs_fail_errno(HS_E_IO, path);
  char block[1 << 16];
  hs_status s = HS_GOOD;
  for (;;) {
    ssize_t k = read(fd, block, sizeof block);
    if (k < 0 && errno == EINTR) {
      s = hs_poll();
      if (!hs_ok(s)) break;
      continue;
    }
    if (k < 0) {
      s = hs_fail_errno(HS_E_IO, path);
      break;
    }
    if (k == 0) break;
    hs_buf_put(out, block, (size_t)k);
    if (limit && out->n > limit) {
      s = hs_fail(HS_E_LIMIT, "%s: larger than %zu bytes", path, limit);
      break;
    }
  }
  close(fd);
  return s;
}
