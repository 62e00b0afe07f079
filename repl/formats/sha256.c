// sha256.c — see sha256.h.
#include "repl/formats/sha256.h"

#include "core/base/sha256.h"

void repl_sha256(const void *p, size_t n, char out[65]) {
  static const char digits[] = "0123456789abcdef";
  hs_sha256 h;
  u8 hash[HS_SHA256_BYTES];
  hs_sha256_begin(&h);
  if (n) hs_sha256_put(&h, p, n);
  hs_sha256_end(&h, hash);
  for (u32 k = 0; k < HS_SHA256_BYTES; k++) {
    out[2 * k] = digits[hash[k] >> 4];
    out[2 * k + 1] = digits[hash[k] & 15];
  }
  out[2 * HS_SHA256_BYTES] = 0;
}
