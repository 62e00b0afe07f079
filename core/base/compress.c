// compress.c — unpacking gzip, zstd and raw deflate data through zlib and zstd. See compress.h.
// The size of what comes out is not known beforehand, and what a header says of it is not believed:
// the output doubles as data come, up to a limit that keeps a small file from filling the memory.
// Nothing that is useless is unpacked to its end: who reads it looks at its first 16 MiB, and much
// from very little is refused (hs_check_unpacking).
#include "core/base/compress.h"

#include "core/base/file.h"

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

// What comes out.
typedef struct output {
  const hlo_unpacking *how;
  char *p;
  size_t n, cap;
  bool looked;
} output;

enum { STEP = 1 << 24 };  // bytes between two polls for stops

// Makes room for more output behind what came out of `taken` bytes: at least a byte, at most STEP.
HS_UNUSED static hs_status make_room(output *o, size_t taken, size_t *room) {
  const hlo_unpacking *how = o->how;
  *room = 0;
  HS_TRY(hs_poll());
  if (o->n > how->limit) return hs_fail_load_limit("unpacking", how->limit);
  HS_TRY(hs_check_unpacking("unpacking", how->limit, taken, o->n));
  if (o->n >= HLO_LOOK_BYTES && how->look && !o->looked) {
    o->looked = true;
    HS_TRY(how->look(how->to, o->p, o->n));
  }
  if (o->n == o->cap) HS_TRY(hs_grow_bytes("unpacking", how->limit, &o->p, &o->cap));
  *room = HS_MIN(o->cap - o->n, (size_t)STEP);
  return HS_GOOD;
}

#if HAVE_ZLIB
static hs_status gunzip(const u8 *p, size_t n, output *o) {
  z_stream z = {0};
  if (inflateInit2(&z, 15 + 16) != Z_OK) return hs_fail(HS_E_NO_MEMORY, "zlib cannot start");
  size_t room;
  int rc = Z_OK;
  hs_status s;
  z.next_in = (Bytef *)(uintptr_t)p;
  while (hs_ok(s = make_room(o, (size_t)(z.next_in - p), &room))) {
    if (z.avail_in == 0) {  // feed at most 1 GiB at a time: the counter is 32 bits
      size_t left = n - (size_t)(z.next_in - p);
      z.avail_in = (uInt)HS_MIN(left, 1u << 30);
    }
    z.next_out = (Bytef *)o->p + o->n;
    z.avail_out = (uInt)room;
    rc = inflate(&z, Z_NO_FLUSH);
    o->n += room - z.avail_out;
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
  return s;
}

hs_status hlo_inflate(const void *p, size_t n, void *out, size_t out_n, hlo_look *look, void *to) {
  z_stream z = {0};
  if (inflateInit2(&z, -15) != Z_OK) return hs_fail(HS_E_NO_MEMORY, "zlib cannot start");
  size_t in_at = 0, at = 0;
  int rc = Z_OK;
  hs_status s = HS_GOOD;
  u8 beyond;  // takes a byte past the stated size, which is an error
  while (rc == Z_OK && hs_ok(s)) {
    size_t in = HS_MIN(n - in_at, (size_t)STEP), room = HS_MIN(out_n - at, (size_t)STEP);
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
    if (hs_ok(s) && look && rc == Z_OK && at >= HLO_LOOK_BYTES) {
      s = look(to, out, at);
      look = NULL;
    }
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
hs_status hlo_inflate(const void *p, size_t n, void *out, size_t out_n, hlo_look *look, void *to) {
  (void)p, (void)n, (void)out, (void)out_n, (void)look, (void)to;
  return hs_fail(HS_E_NOT_BUILT, "the data are compressed, and this build lacks zlib");
}
hs_status hlo_crc32(const void *p, size_t n, u32 *out) {
  (void)p, (void)n, *out = 0;
  return hs_fail(HS_E_NOT_BUILT, "this build lacks zlib");
}
#endif

#if HAVE_ZSTD
static hs_status unzstd(const u8 *p, size_t n, output *o) {
  ZSTD_DStream *d = ZSTD_createDStream();
  if (!d) return hs_fail(HS_E_NO_MEMORY, "zstd cannot start");
  ZSTD_inBuffer in = {p, n, 0};
  size_t rc = 1, room;
  hs_status s = HS_GOOD;
  while ((in.pos < in.size || rc != 0) && hs_ok(s = make_room(o, in.pos, &room))) {
    ZSTD_outBuffer out = {o->p + o->n, room, 0};
    size_t before = in.pos;
    rc = ZSTD_decompressStream(d, &out, &in);
    o->n += out.pos;
    if (ZSTD_isError(rc) || (in.pos == before && !out.pos)) {
      s = hs_fail(HS_E_FORMAT, "damaged zstd data: %s",
                  ZSTD_isError(rc) ? ZSTD_getErrorName(rc) : "it ends early");
      break;
    }
  }
  ZSTD_freeDStream(d);
  return s;
}
#endif

static hs_status unpack(const void *p, size_t n, output *o) {
  if (is_gzip(p, n)) {
#if HAVE_ZLIB
    return gunzip(p, n, o);
#else
    return hs_fail(HS_E_NOT_BUILT, "the file is compressed by gzip, and this build lacks zlib");
#endif
  }
#if HAVE_ZSTD
  return unzstd(p, n, o);
#else
  return hs_fail(HS_E_NOT_BUILT, "the file is compressed by zstd, and this build lacks libzstd");
#endif
}

hs_status hlo_decompress(const void *p, size_t n, const hlo_unpacking *how, char **out,
                         size_t *out_n) {
  output o = {.how = how};
  *out = NULL;
  *out_n = 0;
  hs_status s = unpack(p, n, &o);
  if (hs_ok(s) && o.n > how->limit) s = hs_fail_load_limit("unpacking", how->limit);
  if (hs_ok(s)) s = hs_check_unpacking("unpacking", how->limit, n, o.n);
  if (hs_ok(s)) {
    *out = o.p;
    *out_n = o.n;
  } else hs_free(o.p);
  return s;
}
