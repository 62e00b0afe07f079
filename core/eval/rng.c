// rng.c — random bits: Threefry-2x32 and Philox-4x32 (Salmon et al., 2011), in the order of XLA's
// rng-bit-generator (xla/hlo/builder/lib/prng.cc), bit for bit; the stateful rng opcode, whose
// values the language leaves open, draws from Philox too; and stochastic-convert, which rounds with
// the bits it is given.
#include <math.h>
#include "core/eval/ops.h"

static u32 rotl(u32 v, int r) { return v << r | v >> (32 - r); }

void ev_threefry2x32(u32 x[2], const u32 key[2]) {
  static const int rotation[8] = {13, 15, 26, 6, 17, 29, 16, 24};
  u32 ks[3] = {key[0], key[1], key[0] ^ key[1] ^ 0x1BD11BDAu};
  x[0] += ks[0], x[1] += ks[1];
  for (u32 g = 0; g < 5; g++) {
    for (u32 r = 0; r < 4; r++) {
      x[0] += x[1];
      x[1] = rotl(x[1], rotation[(g & 1) * 4 + r]) ^ x[0];
    }
    x[0] += ks[(g + 1) % 3];
    x[1] += ks[(g + 2) % 3] + g + 1;
  }
}

static void philox(u32 x[4], u32 k0, u32 k1) {
  for (int r = 0; r < 10; r++, k0 += 0x9E3779B9u, k1 += 0xBB67AE85u) {
    u64 p = (u64)x[0] * 0xD2511F53u, q = (u64)x[2] * 0xCD9E8D57u;
    u32 y[4] = {(u32)(q >> 32) ^ x[1] ^ k0, (u32)q, (u32)(p >> 32) ^ x[3] ^ k1, (u32)p};
    memcpy(x, y, sizeof y);
  }
}

// The dimension that Threefry splits into halves: the first even one, else the first of the
// largest.
static u32 split_dim(const hlo_shape *s) {
  u32 best = 0;
  for (u32 d = 0; d < s->rank; d++)
    if (s->dims[d] % 2 == 0) return d;
  for (u32 d = 1; d < s->rank; d++)
    if (s->dims[d] > s->dims[best]) best = d;
  return best;
}

// 32 bits per element: elements 2h and 2h + 1 along the split dimension are the two words of one
// block. Returns how many blocks were drawn.
static u64 threefry32(u64 key, u64 counter, const hlo_shape *s, u32 *out) {
  u32 k[2] = {(u32)key, (u32)(key >> 32)}, d = s->rank ? split_dim(s) : 0;
  i64 n = s->rank ? s->dims[d] : 1, half = (n + 1) / 2,
      inner = s->rank ? ev_product(s->rank - d - 1, s->dims + d + 1) : 1;
  i64 outer = s->rank ? ev_product(d, s->dims) : 1;
  for (i64 o = 0; o < outer; o++)
    for (i64 h = 0; h < half; h++)
      for (i64 j = 0; j < inner && !hs_interrupted(); j++) {
        u64 c = counter + (u64)((o * half + h) * inner + j);
        u32 x[2] = {(u32)c, (u32)(c >> 32)};
        ev_threefry2x32(x, k);
        out[(o * n + 2 * h) * inner + j] = x[0];
        if (2 * h + 1 < n) out[(o * n + 2 * h + 1) * inner + j] = x[1];
      }
  return (u64)(outer * half * inner);
}

static u64 threefry64(u64 key, u64 counter, i64 n, u64 *out) {
  u32 k[2] = {(u32)key, (u32)(key >> 32)};
  for (i64 i = 0; i < n && !hs_stops(i); i++) {
    u64 c = counter + (u64)i;
    u32 x[2] = {(u32)c, (u32)(c >> 32)};
    ev_threefry2x32(x, k);
    out[i] = (u64)x[1] << 32 | x[0];
  }
  return (u64)n;
}

// `words` 32-bit words from the 128-bit counter (lo, hi), which is advanced.
static void philox_words(u64 key, u64 *lo, u64 *hi, i64 words, u32 *out) {
  for (i64 i = 0; i < words && !hs_stops(i); i += 4) {
    u32 x[4] = {(u32)*lo, (u32)(*lo >> 32), (u32)*hi, (u32)(*hi >> 32)};
    philox(x, (u32)key, (u32)(key >> 32));
    memcpy(out + i, x, (size_t)HS_MIN((i64)4, words - i) * sizeof *x);
    if (++*lo == 0) ++*hi;
  }
}

hs_status hlo_eval_rng_bit_generator(ev *e, const hlo_instr *i, hlo_literal **ops,
                                     hlo_literal **out) {
  const hlo_shape *to = i->shape;
  if (!hlo_shape_is_tuple(to) || to->nelems != 2)
    return ev_unsupported(i, "without a state result");
  const hlo_shape *data = to->elems[1], *state = ops[0]->shape;
  i64 algorithm = hlo_attr_int(i, HLO_ATTR_RNG_ALGORITHM, 0), n = data->elements;
  int bits = hlo_dtype_bits(data->dtype);
  u64 s[3] = {0};
  size_t state_bytes = ops[0]->bytes;
  if (state_bytes < 16 || state_bytes > 24 || (bits != 8 && bits != 16 && bits != 32 && bits != 64))
    return ev_unsupported(i, "with this state or type");
  memcpy(s, ops[0]->data, state_bytes);
  hlo_literal *r[2] = {0};
  HS_TRY(ev_new(e, state, &r[0]));
  hs_status st = ev_new(e, data, &r[1]);
  i64 words = bits == 64 ? 2 * n : n;
  u32 *buf = hs_try_alloc((size_t)HS_MAX(words, 1) * sizeof *buf);
  if (hs_ok(st) && !buf) st = hs_fail(HS_E_NO_MEMORY, "no memory for random bits");
  if (hs_ok(st)) {
    u64 next[3] = {s[0], s[1], s[2]};
    if (algorithm == HLO_RNG_ALGORITHM_THREE_FRY) {
      if (n)
        next[1] += bits == 64 ? threefry64(s[0], s[1], n, (u64 *)(void *)buf)
                              : threefry32(s[0], s[1], data, buf);
    } else if (state_bytes == 24) {
      philox_words(s[0], &next[1], &next[2], words, buf);
    } else {
      // a short state counts in its second word, the key is above it
      u64 hi = s[0];
      philox_words(s[0], &next[1], &hi, words, buf);
    }
    memcpy(r[0]->data, next, state_bytes);
    st = hs_poll();  // the words may not be all there
  }
  if (hs_ok(st) && bits >= 32) memcpy(r[1]->data, buf, r[1]->bytes);
  else
    for (i64 k = 0; hs_ok(st) && k < n; k++)
      memcpy((char *)r[1]->data + k * (bits / 8), &buf[k], (size_t)bits / 8);
  hs_free(buf);
  if (!hs_ok(st)) {
    hlo_literal_unref(r[0]);
    hlo_literal_unref(r[1]);
    return st;
  }
  *out = hlo_literal_tuple(to, 2, r);
  return HS_GOOD;
}

static u64 draw(ev *e) {
  u64 lo = e->rng[0], hi = e->rng[1];
  u32 w[4];
  philox_words(e->opt.rng_seed, &lo, &hi, 4, w);
  e->rng[0] = lo, e->rng[1] = hi;
  return (u64)w[1] << 32 | w[0];
}
static double draw_unit(ev *e) { return (double)(draw(e) >> 11) * 0x1p-53; }

hs_status hlo_eval_rng(ev *e, const hlo_instr *i, hlo_literal **ops, hlo_literal **out) {
  hlo_dtype t = i->shape->dtype;
  HS_TRY(ev_new(e, i->shape, out));
  double a = hlo_literal_f64(ops[0], 0), b = i->noperands > 1 ? hlo_literal_f64(ops[1], 0) : 1;
  bool normal = hlo_attr_int(i, HLO_ATTR_DISTRIBUTION, 0) == HLO_DISTRIBUTION_NORMAL;
  for (i64 k = 0; k < i->shape->elements; k++) {
    double v;
    if (k % 65536 == 0) HS_TRY(hs_poll());
    if (normal) v = a + b * sqrt(-2 * log(1 - draw_unit(e))) * cos(2 * M_PI * draw_unit(e));
    else if (t == HLO_PRED) v = (double)(draw(e) & 1);
    else if (hlo_dtype_is_integer(t)) v = floor(a + (b - a) * draw_unit(e));
    else v = a + (b - a) * draw_unit(e);
    hlo_literal_set_f64(*out, k, v);
  }
  return HS_GOOD;
}

hs_status hlo_eval_rng_state(ev *e, const hlo_instr *i, hlo_literal **ops, hlo_literal **out) {
  (void)ops;
  HS_TRY(ev_new(e, i->shape, out));
  memcpy((*out)->data, e->rng, HS_MIN((*out)->bytes, sizeof e->rng));
  u64 delta = (u64)hlo_attr_int(i, HLO_ATTR_DELTA, 1);
  e->rng[0] += delta;
  if (e->rng[0] < delta) e->rng[1]++;
  return HS_GOOD;
}

// Rounds up with the probability that the discarded part stands for: the random bits are compared
// with it.
hs_status hlo_eval_stochastic_convert(ev *e, const hlo_instr *i, hlo_literal **ops,
                                      hlo_literal **out) {
  hlo_dtype from = ops[0]->shape->dtype, to = i->shape->dtype;
  if (!hlo_dtype_is_float(from) ||
      !(hlo_dtype_is_integer(to) && hlo_dtype_is_signed(to) && hlo_dtype_bits(to) >= 8))
    return ev_unsupported(i, "between these types");
  HS_TRY(ev_new(e, i->shape, out));
  int bits = hlo_dtype_bits(ops[1]->shape->dtype), width = hlo_dtype_bits(to);
  double hi = ldexp(1, width - 1), span = ldexp(1, bits);
  for (i64 k = 0; k < i->shape->elements; k++) {
    if (k % 65536 == 0) HS_TRY(hs_poll());
    double v = hlo_literal_f64(ops[0], k), a = fabs(v), whole = floor(a), part = a - whole;
    u64 random = (u64)hlo_literal_i64(ops[1], k);
    if (bits < 64) random &= ((u64)1 << bits) - 1;
    if (whole < hi && (double)random < floor(part * span)) whole += 1;
    double r = v < 0 ? -whole : whole;
    i64 w = v != v     ? 0
            : r >= hi  ? (i64)(((u64)1 << (width - 1)) - 1)
            : r <= -hi ? -(i64)(((u64)1 << (width - 1)) - 1) - 1
                       : (i64)r;
    hlo_literal_set_i64(*out, k, w);
  }
  return HS_GOOD;
}
