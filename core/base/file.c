// file.c — writing; opening, waiting and reading with limits. See file.h.
//
// A file is replaced by writing a temporary one beside it and renaming that (rename(2) is atomic
// within a file system): a full disk or a kill leaves either the old file or the whole new one.
//
// Files are opened without blocking: open(2) of a FIFO waits for its writer otherwise, and of some
// devices for a carrier. What is read waits in poll(2), a tenth of a second at a time, so that a
// stop ends it even when its signal came between the check and the wait. poll says "ready" for
// regular files, and for a FIFO only once a writer has been there, so a read of nothing is the end.
#include "core/base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define LIMIT_MOST ((size_t)4000000000)
#define FIRST ((size_t)1 << 16)  // bytes of a buffer's first block

size_t hs_load_limit_default(void) {
  long pages = sysconf(_SC_PHYS_PAGES), size = sysconf(_SC_PAGESIZE);
  if (pages <= 0 || size <= 0) return LIMIT_MOST;
  return HS_MIN((size_t)pages / 4 * (size_t)size, LIMIT_MOST);
}

hs_status hs_fail_load_limit(const char *what, size_t limit) {
  return hs_with_note(hs_fail(HS_E_LIMIT, "%s: more than %zu bytes", what, limit),
                      "set load_limit N allows N bytes (8G, 12Gi); 0 is a quarter of the memory, "
                      "at most 4 GB");
}

// Deflate makes 1,032 bytes of one at most, zstd any number. Modules, profiles and computed arrays
// shrink to a tenth, what repeats a great deal to a fiftieth.
static const struct {
  size_t above, ratio;  // unpacked bytes, and how many of them may come from one
} expands[] = {{(size_t)64 << 20, 1000}, {(size_t)256 << 20, 100}};

hs_status hs_check_unpacking(const char *what, size_t limit, size_t packed, size_t unpacked) {
  bool by_hand = limit != hs_load_limit_default();
  for (size_t k = 0; k < HS_COUNT(expands) && !by_hand; k++)
    if (unpacked > expands[k].above && unpacked / expands[k].ratio >= packed)
      return hs_with_note(
          hs_fail(HS_E_LIMIT,
                  "%s: %zu bytes come from %zu, more than %zu from each: made to fill the memory?",
                  what, unpacked, packed, expands[k].ratio),
          "set load_limit N reads it all the same, up to N bytes (8G, 12Gi)");
  return HS_GOOD;
}

hs_status hs_grow_bytes(const char *what, size_t limit, char **p, size_t *cap) {
  size_t most = limit < SIZE_MAX ? limit + 1 : limit;
  if (*cap >= most) return hs_fail_load_limit(what, limit);
  size_t next = HS_MIN(*cap ? *cap + HS_MIN(*cap, most - *cap) : FIRST, most);
  char *q = hs_try_realloc(*p, next);
  if (!q) return hs_fail(HS_E_NO_MEMORY, "%s: no memory for more than %zu bytes", what, *cap);
  *p = q;
  *cap = next;
  return HS_GOOD;
}

hs_status hs_file_open(const char *path, int *fd, i64 *size) {
  *fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
  if (*fd < 0) return hs_fail_errno(HS_E_IO, path);
  struct stat st;
  hs_status s = fstat(*fd, &st) != 0  ? hs_fail_errno(HS_E_IO, path)
                : S_ISDIR(st.st_mode) ? hs_fail(HS_E_IO, "%s is a directory", path)
                                      : HS_GOOD;
  if (!hs_ok(s)) close(*fd), *fd = -1;
  else *size = S_ISREG(st.st_mode) ? (i64)st.st_size : -1;
  return s;
}

hs_status hs_file_read(int fd, const char *what, void *p, size_t n, size_t *got) {
  for (;;) {
    HS_TRY(hs_poll());
    struct pollfd ready = {.fd = fd, .events = POLLIN};
    int rc = poll(&ready, 1, 100);
    if (rc < 0 && errno != EINTR) return hs_fail_errno(HS_E_IO, what);
    if (rc <= 0) continue;
    ssize_t k = read(fd, p, n);
    if (k >= 0) return *got = (size_t)k, HS_GOOD;
    if (errno != EINTR && errno != EAGAIN) return hs_fail_errno(HS_E_IO, what);
  }
}

void hs_view_drop(hs_view *v) {
  if (v->mapped) munmap(v->p, v->n);
  else hs_free(v->p);
  *v = (hs_view){0};
}

static hs_status read_all(int fd, const char *what, size_t limit, hs_view *out) {
  size_t cap = 0, got = 0;
  do {
    if (out->n == cap) HS_TRY(hs_grow_bytes(what, limit, &out->p, &cap));
    HS_TRY(hs_file_read(fd, what, out->p + out->n, cap - out->n, &got));
    out->n += got;
  } while (got);
  return out->n > limit ? hs_fail_load_limit(what, limit) : HS_GOOD;
}

hs_status hs_view_fd(int fd, const char *what, size_t limit, bool lazy, hs_view *out) {
  *out = (hs_view){0};
  struct stat st;
  if (fstat(fd, &st) != 0) return hs_fail_errno(HS_E_IO, what);
  if (S_ISREG(st.st_mode) && st.st_size > 0) {
    size_t n = (size_t)st.st_size;
    if (n > limit && !lazy) return hs_fail_load_limit(what, limit);
    void *p = mmap(NULL, n, PROT_READ, MAP_PRIVATE | (lazy ? 0 : MAP_POPULATE), fd, 0);
    if (p == MAP_FAILED) return hs_fail_errno(HS_E_IO, what);
    *out = (hs_view){p, n, true};
    return HS_GOOD;
  }
  hs_status s = read_all(fd, what, limit, out);
  if (!hs_ok(s)) hs_view_drop(out);
  return s;
}

hs_status hs_view_file(const char *path, size_t limit, bool lazy, hs_view *out) {
  *out = (hs_view){0};
  if (strcmp(path, "-") == 0) {
    hs_status s = read_all(STDIN_FILENO, "standard input", limit, out);
    if (!hs_ok(s)) hs_view_drop(out);
    return s;
  }
  int fd;
  i64 size;
  HS_TRY(hs_file_open(path, &fd, &size));
  hs_status s = hs_view_fd(fd, path, limit, lazy, out);
  close(fd);
  return s;
}

// ---- writing ------------------------------------------------------------------------------------
bool hs_write_all(int fd, const char *p, size_t n) {
  while (n) {
    ssize_t k = write(fd, p, n);
    if (k < 0 && errno == EINTR) continue;
    if (k < 0) return false;
    p += k;
    n -= (size_t)k;
  }
  return true;
}

static hs_status fail_write(const char *path, int error) {
  errno = error;
  hs_status s = hs_fail_errno(HS_E_IO, path);
  return error == ENOSPC || error == EDQUOT
             ? hs_with_note(s, "nothing was left behind; free some space, or write elsewhere")
             : s;
}

// What was added before a failure is taken off again.
static hs_status append_file(const char *path, const char *p, size_t n) {
  int fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
  if (fd < 0) return hs_fail_errno(HS_E_IO, path);
  struct stat st;
  bool had = fstat(fd, &st) == 0 && S_ISREG(st.st_mode), ok = hs_write_all(fd, p, n);
  int err = errno;
  if (!ok && had && ftruncate(fd, st.st_size) != 0) err = errno;
  if (close(fd) != 0 && ok) ok = false, err = errno;
  return ok ? HS_GOOD : fail_write(path, err);
}

hs_status hs_write_file(const char *path, const char *p, size_t n, bool append) {
  HS_TRY(hs_poll());
  struct stat st;
  bool there = stat(path, &st) == 0;
  // renaming over a device or a pipe (/dev/stdout, /dev/null) would replace it
  if (append || (there && !S_ISREG(st.st_mode) && !S_ISDIR(st.st_mode)))
    return append_file(path, p, n);
  char *tmp = hs_format("%s.XXXXXX", path);
  int fd = mkostemp(tmp, O_CLOEXEC);
  if (fd < 0) {
    hs_status s = hs_fail_errno(HS_E_IO, path);
    hs_free(tmp);
    return s;
  }
  mode_t mask = umask(0);
  umask(mask);
  mode_t mode = there && S_ISREG(st.st_mode) ? st.st_mode & 0777 : 0666 & ~mask;
  bool ok = hs_write_all(fd, p, n) && fchmod(fd, mode) == 0;
  int err = errno;
  if (close(fd) != 0 && ok) ok = false, err = errno;
  if (ok && rename(tmp, path) != 0) ok = false, err = errno;
  if (!ok) unlink(tmp);
  hs_free(tmp);
  return ok ? HS_GOOD : fail_write(path, err);
}

char *hs_find_program(const char *name) {
  const char *path = getenv("PATH");
  for (const char *p = path ? path : "/usr/bin:/bin"; *p;) {
    size_t n = strcspn(p, ":");
    char *file = hs_format("%.*s/%s", n ? (int)n : 1, n ? p : ".", name);
    struct stat st;
    if (stat(file, &st) == 0 && S_ISREG(st.st_mode) && access(file, X_OK) == 0) return file;
    hs_free(file);
    p += n + (p[n] == ':');
  }
  return NULL;
}

bool hs_has_program(const char *name) {
  char *file = hs_find_program(name);
  bool has = file != NULL;
  hs_free(file);
  return has;
}

void hs_make_folders(const char *path, u32 levels) {
  char *s = hs_strdup(path);
  u32 left = 0;
  for (const char *p = s + 1; *p; p++) left += *p == '/';
  for (char *p = s + 1; *p; p++) {
    if (*p != '/' || left-- > levels) continue;
    *p = 0;
    (void)mkdir(s, 0700);
    *p = '/';
  }
  hs_free(s);
}
