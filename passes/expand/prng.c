// prng.c — ThreeFry-2x32 and Philox-4x32 (Salmon et al., "Parallel random numbers: as easy as 1,
// 2, 3", SC 2011) and the distributions on top of them, as HLO. See prng.h.
//
// Both generators turn a key and a counter into random words. The counter of an element is the
// state plus the element's number, so that all elements are made at once; the new state is the old
// one plus how many were made. ThreeFry makes two words of a counter: the first half of the
// elements get the first words, the other half the second ones. Philox makes four, one after
// another. 64-bit values in words are written low word first.
#include "passes/expand/prng.h"

#include <math.h>

typedef struct two {
  hlo_instr *v[2];
} two;
typedef struct four {
  hlo_instr *v[4];
} four;

// ---- small words --------------------------------------------------------------------------------
static hlo_instr *fit(hlo_instr *a, const hlo_instr *like) {
  if (a->shape->rank || !like->shape->rank) return a;
  const hlo_shape *s = hlo_shape_with_dtype(a->parent->module->ctx, like->shape, a->shape->dtype);
  return hlo_add_broadcast(a, s, 0, NULL);
}
hlo_instr *prng_binary(hlo_opcode op, hlo_instr *a, hlo_instr *b) {
  hlo_instr *x = fit(a, b), *y = fit(b, a);
  return hlo_build_binary(op, x, y);
}
static hlo_instr *add(hlo_instr *a, hlo_instr *b) { return prng_binary(HLO_ADD, a, b); }
static hlo_instr *mul(hlo_instr *a, hlo_instr *b) { return prng_binary(HLO_MULTIPLY, a, b); }
static hlo_instr * xor (hlo_instr * a, hlo_instr *b) {
  return prng_binary(HLO_XOR, a, b);
} static hlo_instr *number(const hlo_instr *like, i64 v) {
  return hlo_build_scalar_i64(like->parent, like->shape->dtype, v);
}
static hlo_instr *real(const hlo_instr *like, double v) {
  return hlo_build_scalar_f64(like->parent, like->shape->dtype, v);
}
static hlo_instr *right(hlo_instr *a, i64 bits) {
  return prng_binary(HLO_SHIFT_RIGHT_LOGICAL, a, number(a, bits));
}
static hlo_instr *left(hlo_instr *a, i64 bits) {
  return prng_binary(HLO_SHIFT_LEFT, a, number(a, bits));
}
static hlo_instr *bits_as(hlo_instr *a, hlo_dtype t) {
  hlo_ctx *ctx = a->parent->module->ctx;
  return hlo_add(a->parent, HLO_BITCAST_CONVERT, hlo_shape_with_dtype(ctx, a->shape, t), 1, &a,
                 NULL);
}
// As many elements of `like`'s dimensions, in the layouts that the module has.
static const hlo_shape *array(const hlo_instr *like, hlo_dtype t, u32 rank, const i64 *dims) {
  hlo_ctx *ctx = like->parent->module->ctx;
  const hlo_shape *s = hlo_shape_array(ctx, t, rank, dims);
  return like->shape != like->shape->logical ? hlo_shape_fill_layout(ctx, s) : s;
}
static hlo_instr *iota(const hlo_instr *like, u32 rank, const i64 *dims, i64 along) {
  hlo_instr *i = hlo_add(like->parent, HLO_IOTA, array(like, HLO_U64, rank, dims), 0, NULL, NULL);
  hlo_set_attr_int(i, HLO_ATTR_IOTA_DIMENSION, along);
  return i;
}
// A broadcast even where there is nothing to broadcast.
static hlo_instr *spread(hlo_instr *scalar, u32 rank, const i64 *dims) {
  return hlo_add_broadcast(scalar, array(scalar, scalar->shape->dtype, rank, dims), 0, NULL);
}
static hlo_instr *part(hlo_instr *vector, i64 from, i64 to) {
  return hlo_build_slice(vector, &from, &to, NULL);
}

static two split64(hlo_instr *x) {
  hlo_instr *low = hlo_build_convert(x, HLO_U32);
  return (two){{low, hlo_build_convert(right(x, 32), HLO_U32)}};
}
static hlo_instr *join64(hlo_instr *low, hlo_instr *high) {
  hlo_instr *a = hlo_build_convert(low, HLO_U64);
  return prng_binary(HLO_OR, a, left(hlo_build_convert(high, HLO_U64), 32));
}
static hlo_dtype unsigned_of(u32 bits) {
  return bits == 8 ? HLO_U8 : bits == 16 ? HLO_U16 : bits == 32 ? HLO_U32 : HLO_U64;
}
static u32 width(const hlo_shape *s) { return (u32)hlo_dtype_bits(s->dtype); }
static i64 count(const hlo_shape *s) {
  i64 n = 1;
  for (u32 d = 0; d < s->rank; d++) n *= s->dims[d];
  return n;
}
static hlo_instr *narrowed(hlo_instr *words, const hlo_shape *shape) {
  return width(shape) < 32 ? hlo_build_convert(words, unsigned_of(width(shape))) : words;
}

// ---- halves -------------------------------------------------------------------------------------
// A shape split in two along its first even dimension, else its longest: `half` are the dimensions
// of one half, with a trivial one behind the split one along which the halves are joined.
typedef struct halves {
  u32 rank, split, joined;
  i64 half[HLO_MAX_RANK + 1], whole[HLO_MAX_RANK + 1];
} halves;

static halves halves_of(const hlo_shape *s) {
  halves h = {.rank = s->rank + 1};
  if (!s->rank) {
    h.half[0] = 1, h.whole[0] = 2;
    return h;
  }
  u32 longest = 0, even = s->rank;
  for (u32 d = 0; d < s->rank; d++) {
    if (s->dims[d] > s->dims[longest]) longest = d;
    if (even == s->rank && s->dims[d] % 2 == 0) even = d;
  }
  h.split = even < s->rank ? even : longest;
  h.joined = h.split + 1;
  for (u32 d = 0, k = 0; d < s->rank; d++) {
    bool here = d == h.split;
    h.half[k] = h.whole[k] = here ? (s->dims[d] + 1) / 2 : s->dims[d];
    k++;
    if (here) h.half[k] = 1, h.whole[k] = 2, k++;
  }
  return h;
}

static hlo_instr *join_halves(const halves *h, const two *x, const hlo_shape *s) {
  if (!s->rank) return hlo_build_reshape(x->v[0], 0, NULL);
  hlo_instr *all = hlo_build_concatenate(2, x->v, h->joined);
  i64 dims[HLO_MAX_RANK], zeros[HLO_MAX_RANK] = {0};
  for (u32 d = 0; d < s->rank; d++) dims[d] = s->dims[d];
  dims[h->split] += dims[h->split] % 2;
  all = hlo_build_reshape(all, s->rank, dims);
  return dims[h->split] == s->dims[h->split] ? all : hlo_build_slice(all, zeros, s->dims, NULL);
}

// ---- ThreeFry -----------------------------------------------------------------------------------
static two three_fry(two x, two key) {
  static const u8 rotations[2][4] = {{13, 15, 26, 6}, {17, 29, 16, 24}};
  hlo_instr *ks[3];
  for (u32 k = 0; k < 2; k++) ks[k] = bits_as(key.v[k], HLO_U32);
  ks[2] = number(ks[0], 0x1BD11BDA);  // the parity word of the algorithm
  for (u32 k = 0; k < 2; k++) ks[2] = xor(ks[2], ks[k]);
  for (u32 k = 0; k < 2; k++) x.v[k] = add(x.v[k], ks[k]);
  for (u32 group = 0; group < 5; group++) {
    for (u32 r = 0; r < 4; r++) {
      u32 by = rotations[group % 2][r];
      x.v[0] = add(x.v[0], x.v[1]);
      hlo_instr *up = left(x.v[1], by);
      x.v[1] = xor(x.v[0], prng_binary(HLO_OR, up, right(x.v[1], 32 - by)));
    }
    x.v[0] = add(x.v[0], ks[(group + 1) % 3]);
    x.v[1] = add(add(x.v[1], ks[(group + 2) % 3]), number(ks[0], group + 1));
  }
  return x;
}

// The words for an array of counters of the given dimensions.
static two three_fry_words(hlo_instr *key, hlo_instr **state, u32 rank, const i64 *dims) {
  hlo_instr *at = spread(hlo_build_reshape(*state, 0, NULL), rank, dims);
  i64 stride = 1;
  for (u32 d = rank; d-- > 0;) {
    if (dims[d] >= 2) at = add(at, mul(iota(*state, rank, dims, d), number(at, stride)));
    stride *= dims[d];
  }
  *state = add(*state, number(*state, stride));
  two in = split64(at);
  return three_fry(in, split64(key));
}

prng_out prng_three_fry(hlo_instr *key, hlo_instr *state, const hlo_shape *shape) {
  prng_out out = {NULL, state};
  if (width(shape) == 64) {
    two w = three_fry_words(key, &out.state, shape->rank, shape->dims);
    out.value = join64(w.v[0], w.v[1]);
    return out;
  }
  halves h = halves_of(shape);
  two w = three_fry_words(key, &out.state, h.rank, h.half);
  out.value = narrowed(join_halves(&h, &w, shape), shape);
  return out;
}

// ---- Philox -------------------------------------------------------------------------------------
static two times(hlo_instr *x, i64 k) {
  hlo_instr *wide = hlo_build_convert(x, HLO_U64), *product = mul(wide, number(wide, k));
  return split64(product);
}

static four philox(four x, two key) {
  for (u32 round = 0; round < 10; round++) {
    two p = times(x.v[0], 0xD2511F53), q = times(x.v[2], 0xCD9E8D57);
    hlo_instr *a = xor(xor(q.v[1], x.v[1]), key.v[0]), *b = xor(xor(p.v[1], x.v[3]), key.v[1]);
    x = (four){{a, q.v[0], b, p.v[0]}};
    key.v[0] = add(key.v[0], number(key.v[0], 0x9E3779B9));
    key.v[1] = add(key.v[1], number(key.v[1], 0xBB67AE85));
  }
  return x;
}

// A number of 128 bits, low half first, plus one or many of 64 bits.
static two add128(two x, hlo_instr *y, u32 rank, const i64 *dims) {
  hlo_instr *low = add(x.v[0], y), *carried = add(x.v[1], number(x.v[1], 1));
  hlo_instr *less = hlo_build_compare(low, fit(x.v[0], low), HLO_DIRECTION_LT);
  hlo_instr *yes = spread(carried, rank, dims), *no = spread(x.v[1], rank, dims);
  return (two){{low, hlo_build_select(less, yes, no)}};
}

// The words for the counters state, state + 1, ... state + n - 1.
static four philox_words(hlo_instr *key, hlo_instr **state, i64 n) {
  two words = split64(key), pair[2], at;
  for (u32 k = 0; k < 2; k++) pair[k] = split64(hlo_build_reshape(part(*state, k, k + 1), 0, NULL));
  hlo_instr *numbers = iota(*state, 1, &n, 0);
  for (u32 k = 0; k < 2; k++) at.v[k] = join64(pair[k].v[0], pair[k].v[1]);
  two in = add128(at, numbers, 1, &n), low = split64(in.v[0]), high = split64(in.v[1]);
  two next = add128(at, number(at.v[0], n), 0, NULL);
  for (u32 k = 0; k < 2; k++) next.v[k] = hlo_build_reshape(next.v[k], 1, &(i64){1});
  *state = hlo_build_concatenate(2, next.v, 0);
  return philox((four){{low.v[0], low.v[1], high.v[0], high.v[1]}}, words);
}

// The first numbers of m vectors of equal length, taken from them in turn, in the given shape.
static hlo_instr *interleave(u32 m, hlo_instr **x, i64 length, const hlo_shape *shape) {
  for (u32 k = 0; k < m; k++) x[k] = hlo_build_reshape(x[k], 2, (i64[]){length, 1});
  hlo_instr *all = hlo_build_reshape(hlo_build_concatenate(m, x, 1), 1, &(i64){length * m});
  return hlo_build_reshape(part(all, 0, count(shape)), shape->rank, shape->dims);
}

prng_out prng_philox(hlo_instr *key, hlo_instr *state, const hlo_shape *shape) {
  prng_out out = {NULL, state};
  bool wide = width(shape) == 64;
  i64 n = count(shape) * (wide ? 2 : 1), length = (n + 3) / 4;
  four w = philox_words(key, &out.state, length);
  if (wide) {
    two pairs = {{join64(w.v[0], w.v[1]), join64(w.v[2], w.v[3])}};
    out.value = interleave(2, pairs.v, length, shape);
  } else {
    out.value = narrowed(interleave(4, w.v, length, shape), shape);
  }
  return out;
}

// ---- distributions ------------------------------------------------------------------------------
// The top bits become the mantissa of a number in [0, 1).
static hlo_instr *uniform_float(hlo_instr *bits, hlo_instr *low, hlo_instr *high) {
  hlo_dtype t = low->shape->dtype;
  i32 mantissa = t == HLO_F64 ? 52 : 23;
  hlo_instr *v = hlo_build_convert(right(bits, hlo_dtype_bits(bits->shape->dtype) - mantissa), t);
  v = mul(v, real(v, ldexp(1, -mantissa)));
  hlo_instr *range = prng_binary(HLO_SUBTRACT, high, low);
  return add(mul(v, range), low);
}

// bits mod (high - low), added to low in two halves that do not overflow.
static hlo_instr *uniform_int(hlo_instr *bits, hlo_instr *low, hlo_instr *high) {
  hlo_dtype t = low->shape->dtype, u = bits->shape->dtype;
  hlo_instr *top = bits_as(high, u), *range = prng_binary(HLO_SUBTRACT, top, bits_as(low, u));
  hlo_instr *d = prng_binary(HLO_REMAINDER, bits, range), *half = right(d, 1);
  hlo_instr *sum = add(low, bits_as(half, t));
  return add(sum, bits_as(prng_binary(HLO_SUBTRACT, d, half), t));
}

prng_out prng_uniform(hlo_instr *key, hlo_instr *state, hlo_instr *low, hlo_instr *high,
                      const hlo_shape *shape) {
  prng_out out = prng_philox(key, state, shape);
  out.value = hlo_dtype_is_float(shape->dtype) ? uniform_float(out.value, low, high)
                                               : uniform_int(out.value, low, high);
  return out;
}

// Box and Muller: two uniform numbers become two normal ones.
prng_out prng_normal(hlo_instr *key, hlo_instr *state, const hlo_shape *shape) {
  halves h = halves_of(shape);
  hlo_dtype t = shape->dtype;
  hlo_instr *zero = hlo_build_scalar_f64(key->parent, t, 0),
            *one = hlo_build_scalar_f64(key->parent, t, 1);
  prng_out out = prng_uniform(key, state, zero, one, array(key, t, h.rank, h.whole));
  i64 from[HLO_MAX_RANK + 1] = {0};
  hlo_instr *a = hlo_build_slice(out.value, from, h.half, NULL);
  from[h.joined] = 1;
  hlo_instr *b = hlo_build_slice(out.value, from, h.whole, NULL);
  // the logarithm is kept from very small numbers
  hlo_instr *u = prng_binary(HLO_MAXIMUM, a, real(a, (double)1e-7f));
  hlo_instr *angle = mul(real(b, 6.283185307179586), b);
  hlo_instr *radius = mul(real(u, -2), hlo_build_unary(HLO_LOG, u));
  radius = hlo_build_unary(HLO_SQRT, radius);
  two pair = {{mul(hlo_build_unary(HLO_SIN, angle), radius)}};
  pair.v[1] = mul(hlo_build_unary(HLO_COSINE, angle), radius);
  out.value = join_halves(&h, &pair, shape);
  return out;
}
