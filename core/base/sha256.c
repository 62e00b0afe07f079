// sha256.c — SHA-256 as FIPS 180-4 has it, section 6.2. The constants are what the standard says:
// the first 32 bits of the fractional parts of the square roots (the state at the start) and of the
// cube roots (the rounds) of the first primes.
#include "core/base/sha256.h"

static const u32 first[8] = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                             0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
static const u32 rounds[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

static u32 right(u32 x, u32 by) { return x >> by | x << (32 - by); }

static u32 big_endian(const u8 *p) {
  return (u32)p[0] << 24 | (u32)p[1] << 16 | (u32)p[2] << 8 | p[3];
}

static void one_block(u32 h[8], const u8 *p) {
  u32 w[64], s[8];
  for (u32 t = 0; t < 16; t++) w[t] = big_endian(p + 4 * t);
  for (u32 t = 16; t < 64; t++) {
    u32 a = w[t - 15], b = w[t - 2];
    w[t] = w[t - 16] + (right(a, 7) ^ right(a, 18) ^ a >> 3) + w[t - 7] +
           (right(b, 17) ^ right(b, 19) ^ b >> 10);
  }
  memcpy(s, h, sizeof s);
  for (u32 t = 0; t < 64; t++) {
    u32 e = s[4], a = s[0];
    u32 up = s[7] + (right(e, 6) ^ right(e, 11) ^ right(e, 25)) + ((e & s[5]) ^ (~e & s[6])) +
             rounds[t] + w[t];
    u32 down =
        (right(a, 2) ^ right(a, 13) ^ right(a, 22)) + ((a & s[1]) ^ (a & s[2]) ^ (s[1] & s[2]));
    memmove(s + 1, s, 7 * sizeof *s);
    s[4] += up;
    s[0] = up + down;
  }
  for (u32 k = 0; k < 8; k++) h[k] += s[k];
}

void hs_sha256_begin(hs_sha256 *s) {
  memcpy(s->h, first, sizeof s->h);
  s->total = 0;
}

void hs_sha256_put(hs_sha256 *s, const void *data, size_t n) {
  const u8 *p = data;
  while (n) {
    size_t at = s->total % 64, k = HS_MIN(n, 64 - at);
    if (k == 64) {
      one_block(s->h, p);
    } else {
      memcpy(s->block + at, p, k);
      if (at + k == 64) one_block(s->h, s->block);
    }
    s->total += k, p += k, n -= k;
  }
}

void hs_sha256_end(hs_sha256 *s, u8 out[HS_SHA256_BYTES]) {
  static const u8 pad[64] = {0x80};
  u8 bits[8];
  for (u32 k = 0; k < 8; k++) bits[k] = (u8)(s->total * 8 >> (56 - 8 * k));
  hs_sha256_put(s, pad, 1 + (119 - s->total % 64) % 64);
  hs_sha256_put(s, bits, sizeof bits);
  for (u32 k = 0; k < 8; k++)
    for (u32 b = 0; b < 4; b++) out[4 * k + b] = (u8)(s->h[k] >> (24 - 8 * b));
}
