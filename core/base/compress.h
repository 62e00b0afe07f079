// compress.h — .gz and .zst input; the one place that knows zlib and zstd.
#ifndef HLO_COMPRESS_H
#define HLO_COMPRESS_H

#include "core/base/diag.h"

// by magic bytes
bool hlo_is_compressed(const void *p, size_t n);
// Unpacks into fresh memory (*out is hs_alloc'ed). E_NOT_BUILT without the library, E_FORMAT when
// damaged, E_LIMIT past `limit`.
hs_status hlo_decompress(const void *p, size_t n, size_t limit, char **out, size_t *out_n);
// Raw deflate data (a zip entry) of which the unpacked size is known. E_FORMAT when damaged or of
// another size; polls Ctrl-C.
hs_status hlo_inflate(const void *p, size_t n, void *out, size_t out_n);
// CRC-32 as zip has it; E_NOT_BUILT without zlib.
hs_status hlo_crc32(const void *p, size_t n, u32 *out);

#endif
