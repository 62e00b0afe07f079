// folder.c — see folder.h.
//
// A name is opened one component after the other, each relative to the folder before and without
// following links, so nothing that is renamed or linked meanwhile leads outside. A tar archive is a
// row of 512-byte headers, each followed by the file's bytes (POSIX.1-1988, ustar; numbers in octal
// or, by GNU, in base 256). Long names and other extensions (types L, K, x, g) are skipped with
// their bytes: no file that is asked for needs one.
#include "repl/formats/folder.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/base/compress.h"

#define ASKS_MOST 100000u
enum { BLOCK = 512, SIZE_AT = 124, SUM_AT = 148, TYPE_AT = 156, MAGIC_AT = 257, PREFIX_AT = 345 };

static hs_status no_plain_file(const repl_folder *f, const char *name) {
  return hs_fail(HS_E_IO, "%s/%s: not a plain file of this folder", f->path, name);
}

// ---- names --------------------------------------------------------------------------------------
// Neither absolute nor with empty components, "." or "..".
static bool stays_inside(const char *name) {
  for (const char *p = name;; p++) {
    size_t n = strcspn(p, "/");
    if (!n || (n == 1 && *p == '.') || (n == 2 && p[0] == '.' && p[1] == '.')) return false;
    p += n;
    if (!*p) return true;
  }
}

static hs_status open_beneath(const repl_folder *f, const char *name, int *out) {
  if (!stays_inside(name)) return no_plain_file(f, name);
  char *rest = hs_strdup(name), *part = rest;
  int at = f->fd;
  for (char *slash; at >= 0 && (slash = strchr(part, '/')) != NULL; part = slash + 1) {
    *slash = 0;
    int next = openat(at, part, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    int err = errno;
    if (at != f->fd) close(at);
    at = next;
    errno = err;
  }
  int fd =
      at < 0 ? -1 : openat(at, part, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
  int err = errno;
  if (at >= 0 && at != f->fd) close(at);
  hs_free(rest);
  struct stat st;
  if (fd < 0 && (err == ELOOP || err == ENOTDIR)) return no_plain_file(f, name);
  if (fd < 0) return hs_fail(HS_E_IO, "%s/%s: %s", f->path, name, strerror(err));
  if (fstat(fd, &st) == 0 && S_ISREG(st.st_mode)) return *out = fd, HS_GOOD;
  close(fd);
  return no_plain_file(f, name);
}

// ---- folders ------------------------------------------------------------------------------------
hs_status repl_folder_open(const char *path, size_t limit, repl_folder *out) {
  *out = (repl_folder){.fd = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC)};
  if (out->fd < 0) return hs_fail_errno(HS_E_IO, path);
  out->path = hs_strdup(path);
  out->limit = out->room = limit;
  out->asks = ASKS_MOST;
  return HS_GOOD;
}

void repl_folder_close(repl_folder *f) {
  if (f->path && f->fd >= 0) close(f->fd);
  for (size_t k = 0; k < f->members.n; k++) hs_free(f->members.v[k].name);
  hs_vec_free(&f->members);
  hs_view_drop(&f->archive);
  hs_free(f->path);
  *f = (repl_folder){.fd = -1};
}

hs_status repl_folder_ask(repl_folder *f) {
  if (!f->asks) return hs_fail(HS_E_LIMIT, "%s: more than %u files", f->path, ASKS_MOST);
  f->asks--;
  return hs_poll();
}

static hs_status read_member(const repl_folder *f, const char *name, hs_view *out) {
  for (size_t k = f->members.n; k-- > 0;) {  // of several the last, as unpacking would have it
    const repl_member *m = &f->members.v[k];
    if (strcmp(m->name, name) != 0) continue;
    char *p = hs_try_alloc(m->n);
    if (!p) return hs_fail(HS_E_NO_MEMORY, "%s: no memory for %zu bytes", name, m->n);
    if (m->n) memcpy(p, f->archive.p + m->at, m->n);
    *out = (hs_view){p, m->n, false};
    return HS_GOOD;
  }
  return hs_fail(HS_E_IO, "%s/%s: %s", f->path, name, strerror(ENOENT));
}

hs_status repl_folder_read(repl_folder *f, const char *name, hs_view *out) {
  *out = (hs_view){0};
  HS_TRY(repl_folder_ask(f));
  hs_status s;
  if (f->fd >= 0) {
    int fd = -1;
    HS_TRY(open_beneath(f, name, &fd));
    s = hs_view_fd(fd, name, f->room, false, out);
    close(fd);
  } else {
    s = read_member(f, name, out);
  }
  if (hs_ok(s) && out->n > f->room) hs_view_drop(out), s = hs_fail_load_limit(name, f->limit);
  if (hs_ok(s)) f->room -= out->n;
  return s;
}

// ---- tar archives -------------------------------------------------------------------------------
static hs_status damaged(const repl_folder *f, const char *what) {
  return hs_fail(HS_E_INPUT, "%s: the tar archive is damaged: %s", f->path, what);
}

static bool number(const u8 *p, size_t n, u64 *out) {
  *out = 0;
  if (p[0] == 0x80) {  // base 256
    for (size_t k = 1; k < n; k++) {
      if (*out >> 55) return false;
      *out = *out << 8 | p[k];
    }
    return true;
  }
  size_t k = 0;
  while (k < n && p[k] == ' ') k++;
  for (; k < n && p[k] >= '0' && p[k] <= '7'; k++) *out = *out << 3 | (u64)(p[k] - '0');
  return k == n || p[k] == 0 || p[k] == ' ';
}

static bool sum_fits(const u8 *h) {
  u64 want, sum = 8 * ' ';
  for (size_t k = 0; k < BLOCK; k++)
    if (k < SUM_AT || k >= SUM_AT + 8) sum += h[k];
  return number(h + SUM_AT, 8, &want) && want == sum;
}

static char *name_of(const u8 *h) {
  const char *name = (const char *)h, *prefix = name + PREFIX_AT;
  bool ustar = memcmp(h + MAGIC_AT, "ustar", 6) == 0 && *prefix;
  char *full = ustar ? hs_format("%.155s/%.100s", prefix, name) : hs_format("%.100s", name);
  while (full[0] == '.' && full[1] == '/') memmove(full, full + 2, strlen(full + 2) + 1);
  return full;
}

static hs_status add_member(repl_folder *f, const u8 *h, size_t at, size_t n) {
  char type = (char)h[TYPE_AT];
  if (strchr("LKxg5", type) && type) return HS_GOOD;  // no file of ours
  char *name = name_of(h);
  hs_status s = HS_GOOD;
  if (type && type != '0' && type != '7')
    s = hs_fail(HS_E_INPUT, "%s: %s is a link or a device; a bundle has plain files only", f->path,
                name);
  else if (!stays_inside(name))
    s = hs_fail(HS_E_INPUT, "%s: %s would lie outside of the bundle", f->path, name);
  else if (f->members.n >= ASKS_MOST)
    s = hs_fail(HS_E_LIMIT, "%s: more than %u files", f->path, ASKS_MOST);
  if (hs_ok(s)) hs_vec_push(&f->members, ((repl_member){name, at, n}));
  else hs_free(name);
  return s;
}

static hs_status list_members(repl_folder *f) {
  size_t n = f->archive.n;
  for (size_t at = 0; n - at >= BLOCK;) {
    const u8 *h = (const u8 *)f->archive.p + at;
    u64 size;
    if (!h[0]) return HS_GOOD;  // two blocks of zeros end it
    if (!sum_fits(h)) return damaged(f, "a header's sum is wrong");
    at += BLOCK;
    if (!number(h + SIZE_AT, 12, &size) || size > n - at) return damaged(f, "it is cut off");
    HS_TRY(add_member(f, h, at, (size_t)size));
    size_t blocks = ((size_t)size + BLOCK - 1) / BLOCK * BLOCK;
    at += HS_MIN(blocks, n - at);
    HS_TRY(hs_poll());
  }
  return HS_GOOD;
}

static hs_status look_tar(void *to, const char *p, size_t n) {
  return n < BLOCK || sum_fits((const u8 *)p) ? HS_GOOD : damaged(to, "a header's sum is wrong");
}

hs_status repl_folder_open_tar(const char *path, size_t limit, repl_folder *out) {
  *out = (repl_folder){.fd = -1, .asks = ASKS_MOST, .limit = limit, .room = limit};
  HS_TRY(hs_view_file(path, limit, false, &out->archive));
  out->path = hs_strdup(path);
  hs_status s = HS_GOOD;
  if (hlo_is_compressed(out->archive.p, out->archive.n)) {
    hs_view v = {0};
    s = hlo_decompress(out->archive.p, out->archive.n, &(hlo_unpacking){limit, look_tar, out}, &v.p,
                       &v.n);
    hs_view_drop(&out->archive);
    out->archive = v;
  }
  if (hs_ok(s)) s = list_members(out);
  if (hs_ok(s) && !out->members.n) s = damaged(out, "it holds no files");
  if (!hs_ok(s)) repl_folder_close(out);
  return s;
}
