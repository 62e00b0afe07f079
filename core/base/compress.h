// compress.h — gzip and zstd input, and the deflate and CRC-32 of zip; compress.c alone includes
// zlib.h and zstd.h.
#ifndef HLO_COMPRESS_H
#define HLO_COMPRESS_H

#include "core/base/diag.h"

// Whether the n bytes begin as gzip or zstd data do.
bool hlo_is_compressed(const void *p, size_t n);
// Unpacks gzip or zstd data (several members in a row are one text). *out is hs_alloc'ed and the
// caller's, *out_n its bytes. E_NOT_BUILT without the library, E_FORMAT when damaged, E_LIMIT when
// more than `limit` bytes come out; *out is then NULL. Polls for stops.
hs_status hlo_decompress(const void *p, size_t n, size_t limit, char **out, size_t *out_n);
// The same for the beginning alone: about `most` bytes.
hs_status hlo_decompress_head(const void *p, size_t n, size_t most, char **out, size_t *out_n);
// Raw deflate data (a zip entry) into out[0..out_n), all of it. E_FORMAT when damaged or of another
// size, E_NOT_BUILT without zlib; polls for interrupts.
hs_status hlo_inflate(const void *p, size_t n, void *out, size_t out_n);
// CRC-32 as zip has it; E_NOT_BUILT without zlib.
hs_status hlo_crc32(const void *p, size_t n, u32 *out);

#endif
