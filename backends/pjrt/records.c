// records.c — the Riegeli/records container, in which XLA:GPU packs serialized executables; a
// reader for plain and Snappy-compressed records.
//
// The file is cut into blocks of 64 KiB, each begun by a header of 24 bytes that is no part of the
// data. The data are chunks: a header of 40 bytes (hash, size of the data, hash, type and number of
// records, decoded size) and the data. A chunk of type r has a letter for its compression, the size
// of the records' sizes, these sizes, and the records one after the other; both parts are
// compressed, behind their decompressed size. Hashes are not checked; damaged chunks give
// no records.
#include "backends/pjrt/records.h"

enum { BLOCK = 1 << 16, BLOCK_HEAD = 24, CHUNK_HEAD = 40, SIGNATURE = 64, MOST = 1 << 30 };

// Every file begins with these: the first block's header (no chunk before it, the next one at 64)
// and an empty chunk of type s.
static const u8 signature[SIGNATURE] = {0x83, 0xaf, 0x70, 0xd1, 0x0d, 0x88, 0x4a, 0x3f, 0,    0,
                                        0,    0,    0,    0,    0,    0,    0x40, 0,    0,    0,
                                        0,    0,    0,    0,    0x91, 0xba, 0xc2, 0x3c, 0x92, 0x87,
                                        0xe1, 0xa9, 0,    0,    0,    0,    0,    0,    0,    0,
                                        0xe1, 0x9f, 0x13, 0xc0, 0xe9, 0xb1, 0xc3, 0x72, 0x73};

static bool varint(const u8 **p, const u8 *end, u64 *out) {
  *out = 0;
  for (u32 shift = 0; *p < end && shift < 64; shift += 7) {
    u8 b = *(*p)++;
    *out |= (u64)(b & 127) << shift;
    if (b < 128) return true;
  }
  return false;
}

// Snappy's raw format: the length, then literals and copies of what was written already.
static bool snappy(const u8 *p, const u8 *end, hs_buf *out) {
  u64 total;
  if (!varint(&p, end, &total) || total > MOST) return false;
  size_t from = out->n;
  while (p < end) {
    u8 tag = *p++;
    size_t n = (size_t)(tag >> 2) + 1, distance = 0;
    u32 extra = (tag & 3) == 0   ? (n > 60 ? (u32)n - 60 : 0)
                : (tag & 3) == 1 ? 1
                : (tag & 3) == 2 ? 2
                                 : 4;
    u64 v = 0;
    if ((size_t)(end - p) < extra) return false;
    for (u32 k = 0; k < extra; k++) v |= (u64)*p++ << 8 * k;
    if ((tag & 3) == 0) {
      if (extra) n = (size_t)v + 1;
      if (n > (size_t)(end - p) || n > total - (out->n - from)) return false;
      hs_buf_put(out, (const char *)p, n);
      p += n;
      continue;
    }
    if ((tag & 3) == 1) n = (tag >> 2 & 7) + 4u, v |= (u64)(tag >> 5) << 8;
    distance = (size_t)v;
    if (!distance || distance > out->n - from || n > total - (out->n - from)) return false;
    for (size_t k = 0; k < n; k++) {  // copies may overlap what they write
      char c = out->p[out->n - distance];
      hs_buf_put(out, &c, 1);
    }
  }
  return out->n - from == total;
}

static void read_chunk(const u8 *p, size_t n, hs_buf *out) {
  const u8 *end = p + n;
  u64 sizes, length;
  if (!n) return;
  u8 compression = *p++;
  if (!varint(&p, end, &sizes) || sizes > (u64)(end - p)) return;
  p += sizes;
  if (!compression) hs_buf_put(out, (const char *)p, (size_t)(end - p));
  size_t before = out->n;
  if (compression == 's' && varint(&p, end, &length) && !snappy(p, end, out)) out->n = before;
}

// The data of all blocks without their headers.
static hs_buf without_heads(const u8 *p, size_t n) {
  hs_buf all = {0};
  for (size_t at = 0; at < n; at += BLOCK) {
    size_t end = HS_MIN(n, at + BLOCK);
    if (end > at + BLOCK_HEAD)
      hs_buf_put(&all, (const char *)p + at + BLOCK_HEAD, end - at - BLOCK_HEAD);
  }
  return all;
}

bool records_read(const char *bytes, size_t n, hs_buf *out) {
  const char *start = memmem(bytes, n, signature, sizeof signature);
  if (!start) return false;
  hs_buf all = without_heads((const u8 *)start, n - (size_t)(start - bytes));
  const u8 *p = (const u8 *)all.p;
  for (size_t at = 0; at + CHUNK_HEAD <= all.n;) {
    u64 size, kind;
    memcpy(&size, p + at + 8, sizeof size);
    // type in the low byte, number of records above it
    memcpy(&kind, p + at + 24, sizeof kind);
    if (size > all.n - at - CHUNK_HEAD) break;
    if ((kind & 255) == 'r') read_chunk(p + at + CHUNK_HEAD, (size_t)size, out);
    at += CHUNK_HEAD + HS_MAX((size_t)size, (size_t)(kind >> 8) > CHUNK_HEAD
                                                ? (size_t)(kind >> 8) - CHUNK_HEAD
                                                : 0);
  }
  hs_buf_free(&all);
  return true;
}
