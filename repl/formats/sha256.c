// sha256.c — see sha256.h.
#include "repl/formats/sha256.h"

#include <stdio.h>

static const u32 round_constants[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

static u32 turn(u32 x, u32 n) { return x >> n | x << (32 - n); }

static void block(u32 h[8], const u8 *p) {
  u32 w[64], v[8];
  for (u32 k = 0; k < 16; k++)
    w[k] = (u32)p[4 * k] << 24 | (u32)p[4 * k + 1] << 16 | (u32)p[4 * k + 2] << 8 | p[4 * k + 3];
  for (u32 k = 16; k < 64; k++)
    w[k] = w[k - 16] + (turn(w[k - 15], 7) ^ turn(w[k - 15], 18) ^ w[k - 15] >> 3) + w[k - 7] +
           (turn(w[k - 2], 17) ^ turn(w[k - 2], 19) ^ w[k - 2] >> 10);
  memcpy(v, h, sizeof v);
  for (u32 k = 0; k < 64; k++) {
    u32 a = v[0], e = v[4];
    u32 t1 = v[7] + (turn(e, 6) ^ turn(e, 11) ^ turn(e, 25)) + ((e & v[5]) ^ (~e & v[6])) +
             round_constants[k] + w[k];
    u32 t2 = (turn(a, 2) ^ turn(a, 13) ^ turn(a, 22)) + ((a & v[1]) ^ (a & v[2]) ^ (v[1] & v[2]));
    memmove(v + 1, v, 7 * sizeof *v);
    v[0] = t1 + t2;
    v[4] += t1;
  }
  for (u32 k = 0; k < 8; k++) h[k] += v[k];
}

void repl_sha256(const void *data, size_t n, char out[65]) {
  u32 h[8] = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
              0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
  const u8 *p = data;
  size_t at = 0;
  for (; n - at >= 64; at += 64) block(h, p + at);
  u8 last[128] = {0};
  size_t rest = n - at, whole = rest < 56 ? 64 : 128;
  if (rest) memcpy(last, p + at, rest);
  last[rest] = 0x80;
  for (u32 k = 0; k < 8; k++) last[whole - 1 - k] = (u8)((u64)n * 8 >> (8 * k));
  for (size_t k = 0; k < whole; k += 64) block(h, last + k);
  for (u32 k = 0; k < 8; k++) snprintf(out + 8 * k, 9, "%08x", h[k]);
}
