// sha256.h — SHA-256 (FIPS 180-4): names by which content is found again, where two different
// contents must never be taken for each other, not even by somebody's design. Tables in memory use
// hs_hash_bytes, which is many times faster and promises nothing.
#ifndef HLO_SHA256_H
#define HLO_SHA256_H

#include "core/base/base.h"

enum { HS_SHA256_BYTES = 32 };

typedef struct hs_sha256 {
  u32 h[8];
  u64 total;  // bytes so far
  u8 block[64];
} hs_sha256;
void hs_sha256_begin(hs_sha256 *);
void hs_sha256_put(hs_sha256 *, const void *, size_t n);
void hs_sha256_end(hs_sha256 *, u8 out[HS_SHA256_BYTES]);

#endif
