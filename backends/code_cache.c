// code_cache.c — object code on disk. See code_cache.h.
//
// An entry: the header, then the bytes. The digest is in the name and in the header, so that a file
// which was renamed or copied over another one is damaged, too. A file's time of modification is
// that of its last use: access times are not kept on many file systems.
#include "backends/code_cache.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

static const char magic[16] = "hlosh code 1\n";
#define SUFFIX ".code"
enum { ABANDONED_S = 3600 };  // a file that is being written is younger

typedef struct header {
  char magic[sizeof magic];
  code_cache_key key;
  char what[64];
  u64 bytes, checksum;  // of what follows
} header;

// ---- places -------------------------------------------------------------------------------------
char *code_cache_folder(void) {
  const char *cache = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
  bool named = cache && *cache;
  const char *in = named ? cache : home;
  struct stat st;
  if (!in || !*in || stat(in, &st) != 0 || !S_ISDIR(st.st_mode) || access(in, W_OK) != 0)
    return NULL;
  return hs_format(named ? "%s/hlosh/code" : "%s/.cache/hlosh/code", in);
}

static char *path_of(const char *folder, const code_cache_key key) {
  char name[2 * HS_SHA256_BYTES + 1];
  for (u32 k = 0; k < HS_SHA256_BYTES; k++) {
    name[2 * k] = "0123456789abcdef"[key[k] >> 4];
    name[2 * k + 1] = "0123456789abcdef"[key[k] & 15];
  }
  name[2 * HS_SHA256_BYTES] = 0;
  return hs_format("%s/%s" SUFFIX, folder, name);
}

static bool is_entry(const char *name) {
  size_t n = strlen(name), hex = strspn(name, "0123456789abcdef");
  return hex == 2 * HS_SHA256_BYTES && n == hex + sizeof SUFFIX - 1 && !strcmp(name + hex, SUFFIX);
}

// What hs_write_file calls a file until it is whole: the entry's name, a dot and six letters.
static bool is_unfinished(const char *name) {
  static const size_t whole = 2 * HS_SHA256_BYTES + sizeof SUFFIX - 1;
  return strlen(name) == whole + 7 && strstr(name, SUFFIX ".") == name + 2 * HS_SHA256_BYTES;
}

static void complain(code_cache *c, const char *path, const char *why) {
  hs_free(c->complaint);
  c->complaint = hs_format("%s: %s", path, why);
}

// ---- reading ------------------------------------------------------------------------------------
static const char *damage(const header *h, const code_cache_key key, const hs_view *v) {
  if (v->n < sizeof *h) return "too short";
  if (memcmp(h->magic, magic, sizeof magic) != 0) return "not code";
  if (memcmp(h->key, key, HS_SHA256_BYTES) != 0) return "the code of something else";
  if (h->bytes != v->n - sizeof *h) return "incomplete";
  if (h->checksum != hs_hash_bytes(v->p + sizeof *h, h->bytes, v->n)) return "its checksum differs";
  return NULL;
}

static bool read_entry(code_cache *c, const char *path, const code_cache_key key, char **out,
                       size_t *n) {
  hs_view v = {0};
  if (access(path, R_OK) != 0) return false;
  hs_status s = hs_view_file(path, (size_t)c->limit + sizeof(header), false, &v);
  header h = {0};
  if (hs_ok(s) && v.n >= sizeof h) memcpy(&h, v.p, sizeof h);
  const char *wrong = hs_ok(s) ? damage(&h, key, &v) : NULL;
  if (wrong) {
    char *why = hs_format("kept code is damaged (%s), compiled anew", wrong);
    complain(c, path, why);
    hs_free(why);
    (void)unlink(path);
    c->damaged++;
  }
  bool good = hs_ok(s) && !wrong;
  if (good) {
    *n = (size_t)h.bytes;
    *out = hs_alloc(*n + 1);
    memcpy(*out, v.p + sizeof h, *n);
    (void)utimensat(AT_FDCWD, path, NULL, 0);
  }
  hs_status_drop(s);
  hs_view_drop(&v);
  return good;
}

bool code_cache_get(code_cache *c, const code_cache_key key, char **out, size_t *n) {
  *out = NULL, *n = 0;
  char *folder = c->on ? code_cache_folder() : NULL;
  if (!folder) return false;
  char *path = path_of(folder, key);
  bool there = read_entry(c, path, key, out, n);
  c->hits += there, c->misses += !there;
  hs_free(path);
  hs_free(folder);
  return there;
}

// ---- listing and removing -----------------------------------------------------------------------
typedef void visit(void *arg, const char *path, const char *name, const struct stat *);

static void each_file(const char *folder, visit *with, void *arg) {
  DIR *d = opendir(folder);
  for (struct dirent *e; d && (e = readdir(d));) {
    struct stat st;
    if (!is_entry(e->d_name) && !is_unfinished(e->d_name)) continue;
    char *path = hs_format("%s/%s", folder, e->d_name);
    if (lstat(path, &st) == 0 && S_ISREG(st.st_mode)) with(arg, path, e->d_name, &st);
    hs_free(path);
  }
  if (d) (void)closedir(d);
}

static i64 used_ns(const struct stat *st) {
  return (i64)st->st_mtim.tv_sec * 1000000000 + st->st_mtim.tv_nsec;
}

// Somebody may be writing it.
static bool is_busy(const char *name, const struct stat *st) {
  return !is_entry(name) && (i64)time(NULL) - st->st_mtim.tv_sec <= ABANDONED_S;
}

static void list_one(void *arg, const char *path, const char *name, const struct stat *st) {
  code_cache_entry e = {.bytes = st->st_size, .used = used_ns(st)};
  if (!is_entry(name)) {
    if (!is_busy(name, st)) (void)unlink(path);
    return;
  }
  memcpy(e.file, name, HS_MIN(strlen(name), sizeof e.file - 1));
  code_cache_entries *all = arg;
  hs_vec_push(all, e);
}

static int by_use(const void *a, const void *b) {
  const code_cache_entry *x = a, *y = b;
  return x->used != y->used ? (x->used < y->used ? 1 : -1) : strcmp(x->file, y->file);
}

static void scan(const char *folder, code_cache_entries *out) {
  each_file(folder, list_one, out);
  if (out->n) qsort(out->v, out->n, sizeof *out->v, by_use);
}

void code_cache_list(const char *folder, code_cache_entries *out) {
  scan(folder, out);
  for (size_t k = 0; k < out->n; k++) {
    code_cache_entry *e = &out->v[k];
    char *path = hs_format("%s/%s", folder, e->file);
    header h = {0};
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd >= 0 && read(fd, &h, sizeof h) == (ssize_t)sizeof h &&
        !memcmp(h.magic, magic, sizeof magic))
      memcpy(e->what, h.what, sizeof e->what - 1);
    if (fd >= 0) (void)close(fd);
    e->used /= 1000000000;
    hs_free(path);
  }
}

typedef struct clearing {
  u32 removed;
  i64 bytes;
  hs_status s;
} clearing;

static void clear_one(void *arg, const char *path, const char *name, const struct stat *st) {
  clearing *c = arg;
  if (is_busy(name, st)) return;
  if (unlink(path) == 0) c->removed++, c->bytes += st->st_size;
  else if (errno != ENOENT && hs_ok(c->s)) c->s = hs_fail_errno(HS_E_IO, path);
}

hs_status code_cache_clear(const char *folder, u32 *removed, i64 *bytes) {
  clearing c = {0};
  each_file(folder, clear_one, &c);
  *removed = c.removed, *bytes = c.bytes;
  return c.s;
}

// Removes what was used longest ago, until the rest is within the limits.
static void make_room(const code_cache *c, const char *folder) {
  code_cache_entries all = {0};
  scan(folder, &all);
  double sum = 0;
  for (size_t k = 0; k < all.n; k++) {
    sum += (double)all.v[k].bytes;
    if (sum <= c->limit && k < CODE_CACHE_MOST_ENTRIES) continue;
    char *path = hs_format("%s/%s", folder, all.v[k].file);
    (void)unlink(path);
    hs_free(path);
  }
  hs_vec_free(&all);
}

// ---- writing ------------------------------------------------------------------------------------
void code_cache_put(code_cache *c, const code_cache_key key, const char *what, const char *p,
                    size_t n) {
  char *folder = c->on && (double)(n + sizeof(header)) <= c->limit ? code_cache_folder() : NULL;
  if (!folder) return;
  header h = {.bytes = n};
  memcpy(h.magic, magic, sizeof magic);
  memcpy(h.key, key, HS_SHA256_BYTES);
  memcpy(h.what, what, HS_MIN(strlen(what), sizeof h.what - 1));
  hs_buf b = {0};
  h.checksum = hs_hash_bytes(p, n, n + sizeof h);
  hs_buf_put(&b, (const char *)&h, sizeof h);
  hs_buf_put(&b, p, n);
  char *path = path_of(folder, key);
  const char *cache = getenv("XDG_CACHE_HOME");
  hs_make_folders(path, cache && *cache ? 2 : 3);  // ours, and ~/.cache; not what a user named
  hs_status s = hs_write_file(path, b.p, b.n, false);
  if (hs_ok(s)) {
    c->stored += b.n;
    make_room(c, folder);
  } else if (s.err->code == HS_E_IO) {
    char *why = hs_format("code was not kept: %s", s.err->message);
    complain(c, path, why);
    hs_free(why);
  }
  hs_status_drop(s);
  hs_buf_free(&b);
  hs_free(path);
  hs_free(folder);
}
