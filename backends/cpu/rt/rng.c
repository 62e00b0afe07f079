// rng.c — rng-bit-generator: Threefry-2x32 and Philox-4x32 (Salmon et al., SC 2011) in XLA's
// element order, bit for bit.
//
// Every block of bits is a function of the key and its counter, so blocks are computed in parallel
// and in vectors: the inner loops below run over independent counters.
#include "backends/cpu/rt/rt.h"

enum { BLOCK = 4096 };  // counters per chunk

typedef struct rng {
  bool philox;
  int bits;
  size_t state_bytes;
  i64 n, dim, half, inner, outer, blocks;  // Threefry with 32 bits: pairs along one dim
} rng;

typedef struct rng_job {
  const rng *r;
  u64 key, lo, hi;
  char *out;
} rng_job;

static inline u32 rotate(u32 v, int r) { return v << r | v >> (32 - r); }

static inline void threefry(u32 *a, u32 *b, u64 key) {
  static const int rot[8] = {13, 15, 26, 6, 17, 29, 16, 24};
  const u32 ks[3] = {(u32)key, (u32)(key >> 32), (u32)key ^ (u32)(key >> 32) ^ 0x1BD11BDAu};
  u32 x = *a + ks[0], y = *b + ks[1];
#pragma GCC unroll 5
  for (u32 g = 0; g < 5; g++) {
#pragma GCC unroll 4
    for (u32 r = 0; r < 4; r++) {
      x += y;
      y = rotate(y, rot[(g & 1) * 4 + r]) ^ x;
    }
    x += ks[(g + 1) % 3];
    y += ks[(g + 2) % 3] + g + 1;
  }
  *a = x;
  *b = y;
}

static inline void philox(u32 x[4], u64 key) {
  u32 k0 = (u32)key, k1 = (u32)(key >> 32);
#pragma GCC unroll 10
  for (int r = 0; r < 10; r++, k0 += 0x9E3779B9u, k1 += 0xBB67AE85u) {
    u64 p = (u64)x[0] * 0xD2511F53u, q = (u64)x[2] * 0xCD9E8D57u;
    u32 y0 = (u32)(q >> 32) ^ x[1] ^ k0, y2 = (u32)(p >> 32) ^ x[3] ^ k1;
    x[0] = y0;
    x[1] = (u32)q;
    x[2] = y2;
    x[3] = (u32)p;
  }
}

static void put(const rng_job *j, i64 at, u32 word) {
  if (j->r->bits == 32) memcpy(j->out + 4 * at, &word, 4);
  else memcpy(j->out + at * (j->r->bits / 8), &word, (size_t)j->r->bits / 8);
}

static void philox_chunk(void *ctx, i64 chunk, u32 thread) {
  (void)thread;
  const rng_job *j = ctx;
  i64 words = j->r->bits == 64 ? 2 * j->r->n : j->r->n;
  for (i64 k = chunk * BLOCK, end = HS_MIN(k + BLOCK, j->r->blocks); k < end; k++) {
    u64 lo = j->lo + (u64)k, hi = j->hi + (lo < j->lo);
    u32 x[4] = {(u32)lo, (u32)(lo >> 32), (u32)hi, (u32)(hi >> 32)};
    philox(x, j->key);
    for (i64 w = 0; w < HS_MIN((i64)4, words - 4 * k); w++) {
      if (j->r->bits == 64) memcpy(j->out + 4 * (4 * k + w), &x[w], 4);
      else put(j, 4 * k + w, x[w]);
    }
  }
}

static void threefry_chunk(void *ctx, i64 chunk, u32 thread) {
  (void)thread;
  const rng_job *j = ctx;
  const rng *r = j->r;
  u32 a[64], b[64];
  for (i64 k = chunk * BLOCK, end = HS_MIN(k + BLOCK, r->blocks); k < end; k += 64) {
    i64 m = HS_MIN((i64)64, end - k);
    for (int l = 0; l < 64; l++) {
      u64 c = j->lo + (u64)(k + l);
      a[l] = (u32)c;
      b[l] = (u32)(c >> 32);
    }
    for (int l = 0; l < 64; l++) threefry(&a[l], &b[l], j->key);
    for (i64 l = 0; l < m; l++) {
      if (r->bits == 64) {
        u64 v = (u64)b[l] << 32 | a[l];
        memcpy(j->out + 8 * (k + l), &v, 8);
        continue;
      }
      i64 q = k + l, in = q % r->inner, h = q / r->inner % r->half, o = q / r->inner / r->half,
          at = (o * r->dim + 2 * h) * r->inner + in;
      put(j, at, a[l]);
      if (2 * h + 1 < r->dim) put(j, at + r->inner, b[l]);
    }
  }
}

static hs_status run_rng(void *state, void *const *bufs, void *scratch) {
  (void)scratch;
  const rng *r = state;
  u64 s[3] = {0};
  memcpy(s, bufs[0], r->state_bytes);
  rng_job j = {
      .r = r, .key = s[0], .lo = s[1], .hi = r->state_bytes == 24 ? s[2] : s[0], .out = bufs[2]};
  if (r->n)
    cpu_par_for(r->philox ? philox_chunk : threefry_chunk, &j, (r->blocks + BLOCK - 1) / BLOCK);
  u64 next = s[1] + (u64)(r->n ? r->blocks : 0);
  if (r->philox && r->state_bytes == 24 && next < s[1]) s[2]++;
  s[1] = next;
  memcpy(bufs[1], s, r->state_bytes);
  return HS_GOOD;
}

bool cpu_rng_bit_generator_supports(const hlo_instr *i) {
  const hlo_shape *s = hlo_operand(i, 0)->shape;
  if (!hlo_shape_is_tuple(i->shape) || i->shape->nelems != 2 ||
      !hlo_shape_is_array(i->shape->elems[1]))
    return false;
  size_t n = block_leaf_bytes(s);
  int bits = hlo_dtype_bits(i->shape->elems[1]->dtype);
  return s->dtype == HLO_U64 && n >= 16 && n <= 24 &&
         (bits == 8 || bits == 16 || bits == 32 || bits == 64);
}

hs_status cpu_rng_bit_generator_prepare(const hlo_instr *i, cpu_rt *out) {
  const hlo_shape *d = i->shape->elems[1];
  rng *r = hs_calloc(1, sizeof *r);
  *r = (rng){.philox = hlo_attr_int(i, HLO_ATTR_RNG_ALGORITHM, 0) != HLO_RNG_ALGORITHM_THREE_FRY,
             .bits = hlo_dtype_bits(d->dtype),
             .state_bytes = block_leaf_bytes(hlo_operand(i, 0)->shape),
             .n = d->elements,
             .dim = 1,
             .inner = 1,
             .outer = 1};
  // Threefry's pairs lie along the first even dim, else along the first of the largest.
  u32 dim = 0;
  for (u32 k = 1; k < d->rank; k++)
    if (d->dims[k] > d->dims[dim]) dim = k;
  for (u32 k = d->rank; k-- > 0;)
    if (d->dims[k] % 2 == 0) dim = k;
  for (u32 k = 0; k < d->rank; k++) {
    if (k < dim) r->outer *= d->dims[k];
    else if (k == dim) r->dim = d->dims[k];
    else r->inner *= d->dims[k];
  }
  r->half = (r->dim + 1) / 2;
  if (r->philox) r->blocks = ((r->bits == 64 ? 2 * r->n : r->n) + 3) / 4;
  else r->blocks = r->bits == 64 ? r->n : r->outer * r->half * r->inner;
  *out = (cpu_rt){.kind = "rng-bit-generator", .state = r, .run = run_rng};
  return HS_GOOD;
}
