// compress.h — .gz and .zst input; the one place that knows zlib and zstd.
#ifndef HLO_COMPRESS_H
#define HLO_COMPRESS_H

#include "core/diag.h"

bool hlo_is_compressed(const void *p, size_t n);                                        // by magic bytes
// Unpacks into fresh memory (*out is hs_alloc'ed). E_NOT_BUILT without the library, E_FORMAT when damaged, E_LIMIT past `limit`.
hs_status hlo_decompress(const void *p, size_t n, size_t limit, char **out, size_t *out_n);

#endif
