// zip.c — .npz files: a zip archive of .npy files, stored or deflated (PKWARE's APPNOTE 6.3.10).
// zip64 archives are read; written are archives below 4 GiB.
//
// The central directory says what there is; local headers only say where an entry's bytes begin.
// Stored entries are used in place, without a copy, which zip libraries do not offer. Sizes are
// checked against the file before anything is allocated for them.
#include <stdlib.h>

#include "core/base/compress.h"
#include "repl/formats/arrays.h"

enum {
  END_SIZE = 22,
  END64_LOCATOR = 20,
  END64_SIZE = 56,
  CENTRAL_SIZE = 46,
  LOCAL_SIZE = 30,
  COMMENT_MAX = 65535
};
enum { STORED = 0, DEFLATED = 8, ENCRYPTED = 1 };
#define DEFLATE_MOST 1032             // unpacked bytes per packed byte, at the very most
#define STORE_MOST ((u64)0xFFFFFFFF)  // sizes and offsets from here on need zip64
#define NAME_MOST ((size_t)0xFFFF)
#define ENTRIES_MOST 0xFFFF

static const u8 *bytes_of(const array_map *m) { return (const u8 *)m->of.p; }
static u32 u16_at(const u8 *p) { return (u32)p[0] | (u32)p[1] << 8; }
static u32 u32_at(const u8 *p) { return u16_at(p) | u16_at(p + 2) << 16; }
static u64 u64_at(const u8 *p) { return (u64)u32_at(p) | (u64)u32_at(p + 4) << 32; }

static hs_status damaged(const char *path, const char *what) {
  return hs_fail(HS_E_INPUT, "%s: the zip archive is damaged: %s", path, what);
}

typedef struct directory {
  u64 offset, size, entries;
} directory;

static hs_status find_directory(const char *path, const array_map *m, directory *d) {
  size_t least = m->of.n > END_SIZE + COMMENT_MAX ? m->of.n - END_SIZE - COMMENT_MAX : 0;
  size_t at = m->of.n >= END_SIZE ? m->of.n - END_SIZE : 0;
  if (m->of.n < END_SIZE) return damaged(path, "it is cut off");
  while (memcmp(bytes_of(m) + at, "PK\5\6", 4) != 0) {
    if (at == least) return damaged(path, "it has no directory (cut off?)");
    at--;
  }
  const u8 *e = bytes_of(m) + at;
  *d = (directory){u32_at(e + 16), u32_at(e + 12), u16_at(e + 10)};
  if (at >= END64_LOCATOR && memcmp(e - END64_LOCATOR, "PK\6\7", 4) == 0) {
    u64 there = u64_at(e - END64_LOCATOR + 8);
    if (there > m->of.n || m->of.n - there < END64_SIZE ||
        memcmp(bytes_of(m) + there, "PK\6\6", 4) != 0)
      return damaged(path, "the zip64 record is missing");
    e = bytes_of(m) + there;
    *d = (directory){u64_at(e + 48), u64_at(e + 40), u64_at(e + 32)};
  }
  if (d->offset > m->of.n || d->size > m->of.n - d->offset ||
      d->entries > d->size / CENTRAL_SIZE + 1)
    return damaged(path, "the directory lies outside of the file");
  return HS_GOOD;
}

// Sizes and offset that do not fit 32 bits are in the extra field of kind 1, in this order, each
// only when needed.
static void read_zip64(const u8 *x, size_t n, u64 *size, u64 *packed, u64 *offset) {
  while (n >= 4) {
    size_t len = u16_at(x + 2);
    if (len > n - 4) return;
    if (u16_at(x) == 1) {
      const u8 *p = x + 4, *end = p + len;
      u64 *const wide[] = {size, packed, offset};
      for (u32 k = 0; k < 3; k++)
        if (*wide[k] == 0xFFFFFFFF && end - p >= 8) *wide[k] = u64_at(p), p += 8;
      return;
    }
    x += 4 + len;
    n -= 4 + len;
  }
}

hs_status zip_list(const char *path, const array_map *m, array_entries *out) {
  directory d = {0};
  HS_TRY(find_directory(path, m, &d));
  const u8 *p = bytes_of(m) + d.offset, *end = p + d.size;
  for (u64 k = 0; k < d.entries; k++) {
    if (end - p < CENTRAL_SIZE || memcmp(p, "PK\1\2", 4) != 0)
      return damaged(path, "a directory entry is cut off");
    size_t name = u16_at(p + 28), extra = u16_at(p + 30), comment = u16_at(p + 32);
    if ((size_t)(end - p) < CENTRAL_SIZE + name + extra + comment)
      return damaged(path, "a directory entry is cut off");
    u64 packed = u32_at(p + 20), size = u32_at(p + 24), offset = u32_at(p + 42);
    read_zip64(p + CENTRAL_SIZE + name, extra, &size, &packed, &offset);
    const char *text = (const char *)p + CENTRAL_SIZE;
    if (u16_at(p + 8) & ENCRYPTED) return hs_fail(HS_E_INPUT, "%s: the archive is encrypted", path);
    if (name > 4 && memcmp(text + name - 4, ".npy", 4) == 0) {
      array_entry e = {.name = hs_format("%.*s", (int)name - 4, text),
                       .offset = offset,
                       .packed = packed,
                       .size = size,
                       .method = u16_at(p + 10),
                       .crc = u32_at(p + 16)};
      hs_vec_push(out, e);
    }
    p += CENTRAL_SIZE + name + extra + comment;
  }
  return out->n ? HS_GOOD : hs_fail(HS_E_INPUT, "%s: a zip archive without .npy files", path);
}

static hs_status check_crc(const char *what, const array_entry *e, const u8 *p, size_t n) {
  u32 crc;
  hs_status s = hlo_crc32(p, n, &crc);
  if (!hs_ok(s)) {
    hs_status_drop(s);
    return HS_GOOD;
  }  // nothing to check with
  return crc == e->crc ? HS_GOOD : hs_fail(HS_E_INPUT, "%s: the data are damaged (checksum)", what);
}

typedef struct header {
  const char *what;
  const array_entry *e;
} header;

static hs_status look_npy(void *to, const char *p, size_t n) {
  const header *h = to;
  array_map none = {.refs = 1};
  array_raw raw;
  hs_status s = npy_parse(h->what, &none, (const u8 *)p, HS_MIN(n, h->e->size), &raw);
  if (hs_ok(s)) array_map_unref(raw.map);
  return s;
}

static hs_status unpack(const char *what, const u8 *at, const array_entry *e, array_map **owner) {
  if (e->size / DEFLATE_MOST > e->packed)
    return hs_fail(HS_E_INPUT, "%s: %zu bytes cannot unpack to %zu", what, e->packed, e->size);
  u8 *p = hs_try_alloc(e->size ? e->size : 1);
  if (!p) return hs_fail(HS_E_NO_MEMORY, "%s: no memory for %zu bytes", what, e->size);
  hs_status s = hlo_inflate(at, e->packed, p, e->size, look_npy, &(header){what, e});
  if (!hs_ok(s)) {
    hs_free(p);
    if (s.err->code != HS_E_FORMAT) return s;
    hs_status r = hs_fail(HS_E_INPUT, "%s: %s", what, s.err->message);
    hs_status_drop(s);
    return r;
  }
  array_map *o = hs_calloc(1, sizeof *o);
  *o = (array_map){1, {(char *)p, e->size, false}};
  *owner = o;
  return HS_GOOD;
}

hs_status zip_entry(const char *path, array_map *m, array_entry *e) {
  if (e->offset > m->of.n || m->of.n - e->offset < LOCAL_SIZE ||
      memcmp(bytes_of(m) + e->offset, "PK\3\4", 4) != 0)
    return damaged(path, "an entry is not where it should be");
  const u8 *p = bytes_of(m) + e->offset;
  size_t skip = LOCAL_SIZE + u16_at(p + 26) + u16_at(p + 28), room = m->of.n - e->offset;
  if (skip > room || e->packed > room - skip) return damaged(path, "an entry is cut off");
  p += skip;
  char *what = hs_format("%s[%s]", path, e->name);
  array_map *owner = NULL;
  hs_status s = HS_GOOD;
  if (e->method == STORED && e->size == e->packed) owner = array_map_ref(m);
  else if (e->method == DEFLATED) s = unpack(what, p, e, &owner);
  else
    s = hs_fail(HS_E_INPUT, "%s: the compression method %u is not known (stored and deflated are)",
                what, e->method);
  if (hs_ok(s)) {
    const u8 *data = owner == m ? p : bytes_of(owner);
    s = check_crc(what, e, data, e->size);
    if (hs_ok(s)) s = npy_parse(what, owner, data, e->size, &e->raw);
  }
  e->ready = hs_ok(s);
  array_map_unref(owner);
  hs_free(what);
  return s;
}

// ---- writing ------------------------------------------------------------------------------------
static void put16(hs_buf *b, u32 v) {
  hs_buf_putc(b, (char)(v & 255)), hs_buf_putc(b, (char)(v >> 8 & 255));
}
static void put32(hs_buf *b, u32 v) { put16(b, v & 0xFFFF), put16(b, v >> 16); }

// What local and central headers have in common; dates are 1980-01-01, so that equal values give
// equal files.
static void put_common(hs_buf *b, u32 crc, size_t size, size_t name) {
  put16(b, 20);
  put16(b, 0);
  put16(b, STORED);
  put16(b, 0);
  put16(b, 1 << 5 | 1);
  put32(b, crc);
  put32(b, (u32)size);
  put32(b, (u32)size);
  put16(b, (u32)name);
  put16(b, 0);
}

// Where each entry begins, from the sizes alone. False when the archive would need zip64: an entry,
// an offset or the directory does not fit 32 bits, or the entries or a name 16 (all ones mean
// zip64).
static bool lay_out(size_t begin, u32 n, const char *const *names, const hs_buf *contents,
                    size_t *at) {
  u64 end = begin, central = 0;
  if (n >= ENTRIES_MOST) return false;
  for (u32 k = 0; k < n; k++) {
    size_t name = strlen(names[k]);
    if (name > NAME_MOST || contents[k].n >= STORE_MOST || end >= STORE_MOST) return false;
    at[k] = (size_t)end;
    end += LOCAL_SIZE + name + contents[k].n;  // below 3 * 2^32: no overflow
    central += CENTRAL_SIZE + name;
  }
  return end < STORE_MOST && central < STORE_MOST;
}

hs_status zip_write(hs_buf *b, u32 n, const char *const *names, const hs_buf *contents) {
  size_t *at = hs_calloc((size_t)n + 1, sizeof *at);
  u32 *crc = hs_calloc((size_t)n + 1, sizeof *crc);
  hs_status s = HS_GOOD;
  if (!lay_out(b->n, n, names, contents, at))
    s = hs_with_note(
        hs_fail(HS_E_LIMIT, "an .npz file of 4 GiB or more needs zip64, which is not written"),
        "a .safetensors file or a folder of .npy files can hold more");
  for (u32 k = 0; k < n && hs_ok(s); k++) {
    s = hlo_crc32(contents[k].p, contents[k].n, &crc[k]);
    if (!hs_ok(s)) break;
    hs_buf_put(b, "PK\3\4", 4);
    put_common(b, crc[k], contents[k].n, strlen(names[k]));
    hs_buf_puts(b, names[k]);
    hs_buf_put(b, contents[k].p, contents[k].n);
  }
  size_t dir = b->n;
  for (u32 k = 0; k < n && hs_ok(s); k++) {
    hs_buf_put(b, "PK\1\2", 4);
    put16(b, 20);
    put_common(b, crc[k], contents[k].n, strlen(names[k]));
    put16(b, 0), put16(b, 0), put16(b, 0), put32(b, 0);
    put32(b, (u32)at[k]);
    hs_buf_puts(b, names[k]);
  }
  size_t end = b->n;
  if (hs_ok(s)) {
    hs_buf_put(b, "PK\5\6", 4);
    put16(b, 0), put16(b, 0), put16(b, n), put16(b, n);
    put32(b, (u32)(end - dir)), put32(b, (u32)dir), put16(b, 0);
  }
  hs_free(at);
  hs_free(crc);
  return s;
}
