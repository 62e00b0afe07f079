// files.c — reading whole files with a limit, names, temporary files, folders. See files.h.
#include "repl/formats/files.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

char *repl_file_name(const char *name) {
  enum { MOST = 180 };
  hs_buf b = {0};
  size_t n = strlen(name);
  for (size_t k = 0; k < n && b.n < MOST; k++) {
    u8 c = (u8)name[k];
    bool fits = c > ' ' && c < 0x7F && !strchr("/\\:*?\"<>|'`$", c) && !(c == '.' && b.n == 0);
    hs_buf_putc(&b, fits ? (char)c : '_');
  }
  if (b.n != n || !n || memcmp(b.p, name, n) != 0)
    hs_buf_printf(&b, "-%016llx", (unsigned long long)hs_hash_bytes(name, n, 0));
  hs_buf_cstr(&b);
  return b.p;
}

bool repl_ends_in(const char *name, const char *end) {
  size_t n = strlen(name), e = strlen(end);
  return n >= e && strcmp(name + n - e, end) == 0;
}

bool repl_is_module_name(const char *name) {
  static const char *const packed[] = {"", ".gz", ".zst"};
  static const char *const ends[] = {".hlo",   ".txt",  ".pb",     ".pbtxt",   ".textproto",
                                     ".txtpb", ".mlir", ".mlirbc", ".exported"};
  char end[32];
  for (size_t k = 0; k < HS_COUNT(ends) * HS_COUNT(packed); k++) {
    snprintf(end, sizeof end, "%s%s", ends[k / HS_COUNT(packed)], packed[k % HS_COUNT(packed)]);
    if (repl_ends_in(name, end)) return true;
  }
  return false;
}

bool repl_is_file(const char *path) {
  struct stat st;
  return stat(path, &st) == 0 && S_ISREG(st.st_mode);
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

hs_status repl_read_head(const char *path, size_t n, hs_buf *out) {
  int fd;
  i64 size;
  HS_TRY(hs_file_open(path, &fd, &size));
  char block[1 << 16];
  size_t got = 1;
  hs_status s = HS_GOOD;
  while (n && got && hs_ok(s)) {
    s = hs_file_read(fd, path, block, HS_MIN(n, sizeof block), &got);
    if (!hs_ok(s)) break;
    hs_buf_put(out, block, got);
    n -= got;
  }
  close(fd);
  return s;
}

hs_status repl_read_file(const char *path, size_t limit, hs_buf *out) {
  size_t most = !limit ? SIZE_MAX : out->n <= limit ? limit + 1 - out->n : 1;
  hs_status s = repl_read_head(path, most, out);
  if (hs_ok(s) && limit && out->n > limit)
    s = hs_fail(HS_E_LIMIT, "%s: larger than %zu bytes", path, limit);
  if (!hs_ok(s)) hs_buf_free(out);
  return s;
}
