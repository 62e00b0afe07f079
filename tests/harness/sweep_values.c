// sweep_values.c: the edge values of each element type. Integers: the ends of the range and their
// neighbours, zero, powers of two, amounts to shift by at and beyond the width. Floats: both zeros,
// the ends of the normal and denormal ranges, infinities, NaNs of both signs, halves and what lies
// next to them, the ends of the integer types, arguments where exp and its kind overflow. What a
// format cannot hold is rounded into it. Complex: pairs of the above.
#include "tests/harness/mutate.h"
#include "tests/harness/sweep.h"

#include <math.h>

static void put(hlo_dtype t, sweep_bytes *out, const void *element) {
  size_t s = hlo_dtype_storage(t);
  for (size_t k = 0; k < out->n; k += s)
    if (memcmp(out->v + k, element, s) == 0) return;
  for (size_t k = 0; k < s; k++) hs_vec_push(out, ((const u8 *)element)[k]);
}

// The bits as an element: sign-extended, cut to the type's width.
static void put_code(hlo_dtype t, sweep_bytes *out, u64 code) {
  int bits = hlo_dtype_bits(t);
  if (t == HLO_PRED) code &= 1;
  else if (hlo_dtype_is_signed(t)) code = (u64)((i64)(code << (64 - bits)) >> (64 - bits));
  else if (bits < 64) code &= ((u64)1 << bits) - 1;
  put(t, out, &code);  // little-endian
}

static void integers(hlo_dtype t, sweep_bytes *out) {
  u64 w = (u64)hlo_dtype_bits(t), top = (u64)1 << (w - 1);
  const u64 v[] = {0, 1, 2, 3, (u64)-1, (u64)-2, (u64)-3, w - 1, w, w + 1, 2 * w, top, top + 1,
                   top - 1, top - 2, top | top >> 1, (u64)1 << w / 2, ((u64)1 << w / 2) - 1, 5, 7,
                   10, 63, 64, 65, 100, 0x5555555555555555, 0xaaaaaaaaaaaaaaaa, 0x123456789abcdef0,
                   46341, 1 << 24 | 1, 0xff000001ff,
                   // the same for bf16 by way of f32
                   (257 << 20) + 1, ((u64)257 << 40) + 1};
  for (size_t k = 0; k < HS_COUNT(v); k++) put_code(t, out, v[k]);
}

static void floats(hlo_dtype t, sweep_bytes *out) {
  const hlo_float_format *f = &hlo_dtypes[t].format;
  static const double v[] = {
      0, 1, 0.5, 1.5, 2, 2.5, 3, 4, 6, 7, 10, 0.25, 0.75, 100, 127.5, 128, 255.5, 256, 448, 32767.5,
      65504, 65520, 1e-3, 1.0 / 3, M_PI, M_E, 0.1, 8.5, 0x1p31, 0x1p32, 0x1p63, 0x1p64, 88.73,
      103.98, 709.79, 745.2, 1e10, 1e30, 1e-10, 0x1p-149, 0x1p-126, 1e300, 1e-300, 16777217, 1e-5,
      22.18071, 9.02, 1e4, 0x1p-75, 3e38, 0x1.8p-10, 0x1.fffffep30, 2147483647.0,
      // halfway between two values of bf16, f16 and 8 bits, and a little more: one rounding or two
      1 + 0x1p-8, 1 + 0x1p-8 + 0x1p-40, 1 + 0x1p-11, 1 + 0x1p-11 + 0x1p-40, 1 + 0x1p-3 + 0x1p-30,
      1 + 0x1p-4, 1 + 0x1p-4 + 0x1p-40, 1 + 0x3p-12 + 0x1p-13 + 0x1p-40};
  u8 x[8];
  for (int sign = 0; sign < 2; sign++) {
    for (size_t k = 0; k < HS_COUNT(v); k++) {
      hlo_elem_from_f64(t, x, sign ? -v[k] : v[k]);
      put(t, out, x);
    }
    // by their codes: the least and greatest denormal and normal, what is next to 1/2, 1 and the
    // first number without a fraction, the greatest, the top codes
    int m = f->mbits, width = f->top == HLO_TOP_E8M0 ? 8 : 1 + f->ebits + m;
    u64 s = f->top != HLO_TOP_E8M0 && sign ? (u64)1 << (width - 1) : 0, one = (u64)f->bias << m,
        top = (((u64)1 << f->ebits) - 1) << m;
    const u64 codes[] = {1,
                         2,
                         ((u64)1 << m) - 1,
                         (u64)1 << m,
                         ((u64)1 << m) + 1,
                         one + 1,
                         one - 1,
                         one - ((u64)1 << m) - 1,
                         one - ((u64)1 << m) + 1,
                         one + ((u64)(m + 1) << m) - 1,
                         one + ((u64)m << m) - 1,
                         one + ((u64)m << m) + 1,
                         top - 1,
                         top - 2,
                         top,
                         top | ((u64)1 << m) / 2,
                         top | (((u64)1 << m) - 1)};
    u64 mask = width == 64 ? ~(u64)0 : ((u64)1 << width) - 1;
    for (size_t k = 0; k < HS_COUNT(codes); k++) put_code(t, out, (codes[k] | s) & mask);
  }
}

static bool has_all(hlo_dtype t, int bits) {
  return !hlo_dtype_is_complex(t) && hlo_dtype_bits(t) <= bits;
}
static void all_codes(hlo_dtype t, sweep_bytes *out) {
  for (u64 k = 0; k < (u64)1 << (t == HLO_PRED ? 1 : hlo_dtype_bits(t)); k++) {
    u8 x[8] = {0};
    memcpy(x, &k, sizeof k);
    if (hlo_dtype_is_signed(t))
      hlo_elem_from_i64(t, x, (i64)(k << (64 - hlo_dtype_bits(t))) >> (64 - hlo_dtype_bits(t)));
    for (size_t b = 0; b < hlo_dtype_storage(t); b++) hs_vec_push(out, x[b]);
  }
}

void sweep_edges(hlo_dtype t, sweep_bytes *out) {
  if (has_all(t, 6)) all_codes(t, out);
  else if (hlo_dtype_is_float(t)) floats(t, out);
  else if (!hlo_dtype_is_complex(t)) integers(t, out);
  else {
    static const double part[] = {0,         -0.0, 1, -1, 0.5,   -2.5, INFINITY,
                                  -INFINITY, NAN,  3, -4, 1e-30, 1e30, -1e19};
    hlo_dtype p = hlo_dtype_real_part(t);
    u8 x[16];
    for (size_t a = 0; a < HS_COUNT(part); a++)
      for (size_t b = 0; b < HS_COUNT(part); b++) {
        hlo_elem_from_f64(p, x, part[a]);
        hlo_elem_from_f64(p, x + hlo_dtype_storage(p), part[b]);
        put(t, out, x);
      }
  }
}

void sweep_values(hlo_dtype t, bool full, sweep_bytes *out) {
  if (has_all(t, full ? 16 : 8)) {
    all_codes(t, out);
    return;
  }
  sweep_edges(t, out);
  u64 state = 1;
  size_t s = hlo_dtype_storage(t), p = hlo_dtype_storage(hlo_dtype_real_part(t));
  bool reals = hlo_dtype_is_float(hlo_dtype_real_part(t));
  for (u32 k = 0; k < (full ? 20000 : 600); k++)
    for (size_t at = 0; at < s; at += p) {
      u64 v = mutate_next(&state);
      u8 x[8];
      memcpy(x, &v, sizeof v);
      // half of the floats near one, where most functions are interesting
      if (reals && k & 1)
        hlo_elem_from_f64(hlo_dtype_real_part(t), x,
                          ldexp((double)(i64)v, -63 + (int)(mutate_below(&state, 12)) - 6));
      for (size_t b = 0; b < p; b++) hs_vec_push(out, x[b]);
    }
}
