// compress.h — gzip and zstd input, and the deflate and CRC-32 of zip; compress.c alone includes
// zlib.h and zstd.h.
#ifndef HLO_COMPRESS_H
#define HLO_COMPRESS_H

#include "core/base/file.h"

// Whether the n bytes begin as gzip or zstd data do.
bool hlo_is_compressed(const void *p, size_t n);
#define HLO_LOOK_BYTES ((size_t)16 << 20)
// Looks at the first n bytes, HLO_LOOK_BYTES or more, when there may be more to come: an error ends
// the unpacking there.
typedef hs_status hlo_look(void *to, const char *p, size_t n);
typedef struct hlo_unpacking {
  size_t limit;
  hlo_look *look;  // NULL: nobody does
  void *to;
} hlo_unpacking;
// Unpacks gzip or zstd data (several members in a row are one text). *out is hs_alloc'ed and the
// caller's, *out_n its bytes. E_NOT_BUILT without the library, E_FORMAT when damaged, E_LIMIT when
// more than the limit comes out, or far more than data of use come to; *out is then NULL. Polls for
// stops.
hs_status hlo_decompress(const void *p, size_t n, const hlo_unpacking *, char **out, size_t *out_n);
// Raw deflate data (a zip entry) into out[0..out_n), all of it. E_FORMAT when damaged or of another
// size, E_NOT_BUILT without zlib; polls for interrupts. look may be NULL.
hs_status hlo_inflate(const void *p, size_t n, void *out, size_t out_n, hlo_look *look, void *to);
// CRC-32 as zip has it; E_NOT_BUILT without zlib.
hs_status hlo_crc32(const void *p, size_t n, u32 *out);

#endif
