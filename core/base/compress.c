// compress.c — unpacking gzip, zstd and raw deflate data through zlib and zstd. See compress.h.
// The size of what comes out is not known beforehand: the output doubles, up to a limit that keeps
// a small file from filling the memory.
#include "core/base/compress.h"

#if HAVE_ZLIB
#include <zlib.h>
#endif
#if HAVE_ZSTD
#include <zstd.h>
#endif

static bool is_gzip(const u8 *p, size_t n) {
  return n >= 3 && p[0] == 0x1F && p[1] == 0x8B && p[2] == 8;
}
static bool is_zstd(const u8 *p, size_t n) {
  return n >= 4 && p[0] == 0x28 && p[1] == 0xB5 && p[2] == 0x2F && p[3] == 0xFD;
}

bool hlo_is_compressed(const void *p, size_t n) { return is_gzip(p, n) || is_zstd(p, n); }

// Makes room for more output; false past the limit.
HS_UNUSED static bool make_room(char **buf, size_t *cap, size_t used, size_t limit) {
  if (used < *cap) return true;
  if (*cap >= limit) return false;
  *cap = HS_MIN(*cap ? *cap * 2 : 1u << 20, limit);
  *buf = hs_realloc(*buf, *cap);
  return true;
}

#if HAVE_ZLIB
static hs_status gunzip(const u8 *p, size_t n, size_t limit, char **out, size_t *out_n) {
  z_stream z = {0};
  if (inflateInit2(&z, 15 + 16) != Z_OK) return hs_fail(HS_E_NO_MEMORY, "zlib cannot start");
  size_t cap = 0, at = 0;
  int rc = Z_OK;
  hs_status s = HS_GOOD;
  z.next_in = (Bytef *)(uintptr_t)p;
  for (;;) {
    if (z.avail_in == 0) {  // feed at most 1 GiB at a time: the counter is 32 bits
      size_t left = n - (size_t)(z.next_in - p);
      z.avail_in = (uInt)HS_MIN(left, 1u << 30);
    }
    if (!make_room(out, &cap, at, limit)) {
      s = hs_fail(HS_E_LIMIT, "the file unpacks to more than %zu bytes", limit);
      break;
    }
    uInt room = (uInt)HS_MIN(cap - at, 1u << 30);
    z.next_out = (Bytef *)*out + at;
    z.avail_out = room;
    rc = inflate(&z, Z_NO_FLUSH);
    at += room - z.avail_out;
    if (rc == Z_STREAM_END) {
      size_t left = n - (size_t)(z.next_in - p);
      if (left < 3 || !is_gzip(z.next_in, left)) break;
      inflateReset(&z);  // a further member
    } else if (rc != Z_OK || (z.avail_in == 0 && z.next_in == p + n && z.avail_out)) {
      s = hs_fail(HS_E_FORMAT, "damaged gzip data%s%s", z.msg ? ": " : "", z.msg ? z.msg : "");
      break;
    }
  }
  inflateEnd(&z);
  *out_n = at;
  return s;
}

enum { INFLATE_STEP = 1 << 24 };  // bytes between two polls for interrupts

hs_status hlo_inflate(const void *p, size_t n, void *out, size_t out_n) {
  z_stream z = {0};
  if (inflateInit2(&z, -15) != Z_OK) return hs_fail(HS_E_NO_MEMORY, "zlib cannot start");
  size_t in_at = 0, at = 0;
  int rc = Z_OK;
  hs_status s = HS_GOOD;
  u8 beyond;  // takes a byte past the stated size, which is an error
  while (rc == Z_OK && hs_ok(s)) {
    size_t in = HS_MIN(n - in_at, (size_t)INFLATE_STEP),
           room = HS_MIN(out_n - at, (size_t)INFLATE_STEP);
    z.next_in = (Bytef *)(uintptr_t)p + in_at;
    z.avail_in = (uInt)in;
    z.next_out = room ? (Bytef *)out + at : &beyond;
    z.avail_out = room ? (uInt)room : 1;
    rc = inflate(&z, Z_NO_FLUSH);
    if (!room && z.avail_out == 0)
      s = hs_fail(HS_E_FORMAT, "unpacks to more than the stated %zu bytes", out_n);
    size_t took = in - z.avail_in, gave = room - (room ? z.avail_out : 0);
    in_at += took;
    at += gave;
    if (rc == Z_OK && !took && !gave) rc = Z_BUF_ERROR;
    if (hs_ok(s)) s = hs_poll();
  }
  if (hs_ok(s) && (rc != Z_STREAM_END || at != out_n))
    s = hs_fail(HS_E_FORMAT, "damaged deflate data%s%s", z.msg ? ": " : "",
                z.msg                ? z.msg
                : rc == Z_STREAM_END ? ": shorter than stated"
                                     : ": it ends early");
  inflateEnd(&z);
  return s;
}

hs_status hlo_crc32(const void *p, size_t n, u32 *out) {
  uLong c = crc32(0, NULL, 0);
  for (size_t at = 0; at < n;) {
    size_t k = HS_MIN(n - at, (size_t)1 << 30);
    c = crc32(c, (const Bytef *)p + at, (uInt)k);
    at += k;
  }
  *out = (u32)c;
  return HS_GOOD;
}
#else
hs_status hlo_inflate(const void *p, size_t n, void *out, size_t out_n) {
  (void)p, (void)n, (void)out, (void)out_n;
  return hs_fail(HS_E_NOT_BUILT, "the data are compressed, and this build lacks zlib");
}
hs_status hlo_crc32(const void *p, size_t n, u32 *out) {
  (void)p, (void)n, *out = 0;
  return hs_fail(HS_E_NOT_BUILT, "this build lacks zlib");
}
#endif

#if HAVE_ZSTD
static hs_status unzstd(const u8 *p, size_t n, size_t limit, char **out, size_t *out_n) {
  ZSTD_DStream *d = ZSTD_createDStream();
  if (!d) return hs_fail(HS_E_NO_MEMORY, "zstd cannot start");
  ZSTD_inBuffer in = {p, n, 0};
  size_t cap = 0, at = 0, rc = 1;
  hs_status s = HS_GOOD;
  while (in.pos < in.size || rc != 0) {
    if (!make_room(out, &cap, at, limit)) {
      s = hs_fail(HS_E_LIMIT, "the file unpacks to more than %zu bytes", limit);
      break;
    }
    ZSTD_outBuffer o = {*out, cap, at};
    size_t before = in.pos;
    rc = ZSTD_decompressStream(d, &o, &in);
    bool stuck = in.pos == before && o.pos == at;
    at = o.pos;
    if (ZSTD_isError(rc) || stuck) {
      s = hs_fail(HS_E_FORMAT, "damaged zstd data: %s",
                  ZSTD_isError(rc) ? ZSTD_getErrorName(rc) : "it ends early");
      break;
    }
  }
  ZSTD_freeDStream(d);
  *out_n = at;
  return s;
}
#endif

hs_status hlo_decompress(const void *p, size_t n, size_t limit, char **out, size_t *out_n) {
  *out = NULL;
  *out_n = 0;
  hs_status s;
  (void)limit;
  if (is_gzip(p, n)) {
#if HAVE_ZLIB
    s = gunzip(p, n, limit, out, out_n);
#else
    s = hs_fail(HS_E_NOT_BUILT, "the file is compressed by gzip, and this build lacks zlib");
#endif
  } else {
#if HAVE_ZSTD
    s = unzstd(p, n, limit, out, out_n);
#else
    s = hs_fail(HS_E_NOT_BUILT, "the file is compressed by zstd, and this build lacks libzstd");
#endif
  }
  if (!hs_ok(s)) {
    hs_free(*out);
    *out = NULL;
  }
  return s;
}
