// float.c — conversions of the narrow floating-point formats.
//
// A format is (exponent bits, mantissa bits, bias, meaning of the top codes). Encoding works on the
// bits of the double, so that one rounding happens, to nearest even, and the CPU's flush-to-zero
// mode does not matter. Overflow goes to infinity, or to NaN where there is none, or saturates
// where there is no NaN either; these are the rules of ml_dtypes, which XLA's casts follow. bf16 is
// the upper half of an f32 and is done on integers.
#include "core/types/float.h"
#include "core/types/literal.h"

const hlo_float_format *hlo_float_format_of(hlo_dtype t) {
  bool narrow = hlo_dtype_is_float(t) && (hlo_dtype_storage(t) == 1 || t == HLO_F16);
  return narrow ? &hlo_dtypes[t].format : NULL;
}

static u64 bits_of(double v) {
  u64 b;
  memcpy(&b, &v, sizeof b);
  return b;
}
static double double_of(u64 b) {
  double v;
  memcpy(&v, &b, sizeof v);
  return v;
}
static u32 bits_of_f32(float v) {
  u32 b;
  memcpy(&b, &v, sizeof b);
  return b;
}
static float f32_of(u32 b) {
  float v;
  memcpy(&v, &b, sizeof v);
  return v;
}

// Code of the largest finite magnitude.
static u32 max_code(const hlo_float_format *f) {
  u32 all = (1u << (f->ebits + f->mbits)) - 1;
  switch (f->top) {
  case HLO_TOP_IEEE: return all - (1u << f->mbits);
  case HLO_TOP_FN: return all - 1;
  case HLO_TOP_E8M0: return 254;
  case HLO_TOP_FNUZ:
  case HLO_TOP_FINITE:
  case HLO_TOP_NONE: break;
  }
  return all;
}

static u32 nan_code(const hlo_float_format *f, u32 sign) {
  u32 width = (u32)f->ebits + f->mbits, s = 1u << width;
  switch (f->top) {
  case HLO_TOP_IEEE:
    return sign * s | (((1u << f->ebits) - 1) << f->mbits) | (1u << (f->mbits - 1));
  case HLO_TOP_FN: return sign * s | (s - 1);
  case HLO_TOP_FNUZ: return s;
  case HLO_TOP_E8M0: return 255;
  case HLO_TOP_FINITE:
  case HLO_TOP_NONE: break;
  }
  return sign ? 0 : s;  // no NaN: a zero of the other sign, as ml_dtypes has it
}

static u32 overflow_code(const hlo_float_format *f, u32 sign) {
  u32 s = sign << (f->ebits + f->mbits);
  switch (f->top) {
  case HLO_TOP_IEEE: return s | (((1u << f->ebits) - 1) << f->mbits);
  case HLO_TOP_FINITE: return s | max_code(f);
  case HLO_TOP_FN:
  case HLO_TOP_FNUZ:
  case HLO_TOP_E8M0:
  case HLO_TOP_NONE: break;
  }
  return nan_code(f, sign);
}

u32 hlo_float_encode(const hlo_float_format *f, double v) {
  u64 b = bits_of(v);
  u32 sign = (u32)(b >> 63);
  int field = (int)(b >> 52 & 0x7ff);
  u64 mant = b & ((1ull << 52) - 1);
  if (field == 0x7ff) return mant ? nan_code(f, sign) : overflow_code(f, sign);
  if (f->top == HLO_TOP_E8M0 && (sign || (field == 0 && mant == 0))) return nan_code(f, sign);
  u32 code = 0;
  // doubles too small to be normal round to zero everywhere
  if (field) {
    int exp = field - 1023, emin = f->top == HLO_TOP_E8M0 ? -127 : 1 - f->bias;
    int shift = 52 - f->mbits + (exp < emin ? emin - exp : 0);
    mant |= 1ull << 52;
    u64 r = shift > 62 ? 0 : mant >> shift;
    if (shift <= 53) {
      u64 rest = mant & ((1ull << shift) - 1), half = 1ull << (shift - 1);
      if (rest > half || (rest == half && (r & 1))) r++;
    }
    // the implicit bit of r adds one to the exponent field
    int base = f->top == HLO_TOP_E8M0 ? exp - emin - 1 : exp - emin;
    if (exp < emin) code = f->top == HLO_TOP_E8M0 ? 0 : (u32)r;
    else if (base > 1 << f->ebits) return overflow_code(f, sign);
    else code = (u32)((i64)base * (1 << f->mbits) + (i64)r);
  }
  if (code > max_code(f)) return overflow_code(f, sign);
  if (f->top == HLO_TOP_FNUZ && code == 0) sign = 0;
  return code | sign << (f->ebits + f->mbits);
}

double hlo_float_decode(const hlo_float_format *f, u32 code) {
  u32 width = (u32)f->ebits + f->mbits, sign = code >> width & 1, mag = code & ((1u << width) - 1);
  u64 s = (u64)(f->top == HLO_TOP_E8M0 ? 0 : sign) << 63, nan = s | 0x7ff8ull << 48;
  if (f->top == HLO_TOP_E8M0)
    return mag == 255 ? double_of(nan) : double_of((u64)(mag - 127 + 1023) << 52);
  if (f->top == HLO_TOP_FNUZ && sign && mag == 0) return double_of(nan);
  if (f->top == HLO_TOP_FN && mag > max_code(f)) return double_of(nan);
  if (f->top == HLO_TOP_IEEE && mag > max_code(f))
    return mag == max_code(f) + 1
               ? double_of(s | 0x7ffull << 52)
               : double_of(nan | (u64)(mag & ((1u << f->mbits) - 1)) << (52 - f->mbits));
  u32 e = mag >> f->mbits, m = mag & ((1u << f->mbits) - 1);
  // subnormal: m * 2^(1 - bias - mbits), exact by a multiplication of normals
  if (e == 0) {
    double scale = double_of((u64)(1 - f->bias - f->mbits + 1023) << 52);
    return double_of(bits_of((double)m * scale) | s);
  }
  return double_of(s | (u64)((int)e - f->bias + 1023) << 52 | (u64)m << (52 - f->mbits));
}

float hlo_bf16_to_f32(u16 v) { return f32_of((u32)v << 16); }
u16 hlo_f32_to_bf16(float v) {
  u32 b = bits_of_f32(v);
  if ((b & 0x7fffffff) > 0x7f800000) return (u16)(b >> 16 | 0x40);
  return (u16)((b + 0x7fff + (b >> 16 & 1)) >> 16);
}

// f16 <-> f32 on integers: the common case is branch-light so that whole arrays convert quickly.
float hlo_f16_to_f32(u16 v) {
  u32 s = (u32)(v & 0x8000) << 16, m = v & 0x7fff;
  if (m >= 0x7c00)
    return f32_of(s | 0x7f800000 | (m & 0x3ff) << 13 | (m > 0x7c00 ? 0x400000u : 0u));
  if (m >= 0x400) return f32_of(s | ((m << 13) + (112u << 23)));
  return f32_of(bits_of_f32((float)m * 0x1p-24f) | s);
}
u16 hlo_f32_to_f16(float v) {
  u32 b = bits_of_f32(v), s = b >> 16 & 0x8000, a = b & 0x7fffffff;
  if (a > 0x7f800000) return (u16)(s | 0x7e00 | (a >> 13 & 0x3ff));
  if (a >= 0x47800000) return (u16)(s | 0x7c00);
  // subnormal result: round a * 2^24 to an integer
  if (a < 0x38800000) {
    u32 e = a >> 23, m = (a & 0x7fffff) | 0x800000;
    if (e < 102) return (u16)s;
    u32 shift = 126 - e, r = m >> shift, rest = m & ((1u << shift) - 1), half = 1u << (shift - 1);
    return (u16)(s | (r + (rest > half || (rest == half && (r & 1)) ? 1u : 0u)));
  }
  return (u16)(s | ((a - (112u << 23) + 0xfff + (a >> 13 & 1)) >> 13));
}

// A code of at most 8 bits as an f32. Everything that f32 holds in another way than double goes by
// its bits: a NaN keeps its payload, so that bits survive a way through f32, and the least power of
// two of E8M0 is an f32 denormal, which a conversion by the CPU would flush.
static float decode_f32(const hlo_float_format *f, u32 code) {
  if (f->top == HLO_TOP_E8M0 && code == 0) return f32_of(0x00400000);
  u32 width = (u32)f->ebits + f->mbits, mag = code & ((1u << width) - 1);
  if (f->top == HLO_TOP_IEEE && mag > max_code(f) + 1)
    return f32_of((code >> width & 1) << 31 | 0x7f800000 |
                  (mag & ((1u << f->mbits) - 1)) << (23 - f->mbits));
  return (float)hlo_float_decode(f, code);
}
// The same code as hlo_float_encode's of a finite number that is not E8M0's, on integers and with
// branches that are seldom foretold wrong: whole arrays are converted.
static u32 encode_finite(const hlo_float_format *f, u32 sign, u32 mag) {
  u32 shift = 23 - f->mbits, least = (u32)(128 - f->bias), code = 0, field = mag >> 23;
  if (field >= least) {
    u32 r = mag - ((least - 1) << 23);
    code = (r + (1u << (shift - 1)) - 1 + (r >> shift & 1)) >> shift;
  } else if ((shift += least - field) <= 24) {
    u32 m = (mag & 0x7fffff) | 0x800000, rest = m & ((1u << shift) - 1), half = 1u << (shift - 1);
    code = m >> shift;
    code += rest > half || (rest == half && (code & 1));
  }
  if (code > max_code(f)) return overflow_code(f, sign);
  if (f->top == HLO_TOP_FNUZ && code == 0) sign = 0;
  return code | sign << (f->ebits + f->mbits);
}
static u32 encode_f32(const hlo_float_format *f, float v) {
  u32 b = bits_of_f32(v), mag = b & 0x7fffffff;
  if (f->top == HLO_TOP_IEEE && mag > 0x7f800000) {
    u32 payload = (b & 0x7fffff) >> (23 - f->mbits);
    return payload
               ? (b >> 31) << (f->ebits + f->mbits) | ((1u << f->ebits) - 1) << f->mbits | payload
               : nan_code(f, b >> 31);
  }
  if (f->top != HLO_TOP_E8M0 && mag < 0x7f800000) return encode_finite(f, b >> 31, mag);
  if (f->top == HLO_TOP_E8M0 && mag && mag < 0x00800000 && mag == b)
    return hlo_float_encode(f, (double)mag * 0x1p-149);
  return hlo_float_encode(f, (double)v);
}

void hlo_floats_to_f32(hlo_dtype t, const void *from, float *to, i64 n) {
  if (t == HLO_F32) {
    memcpy(to, from, (size_t)n * sizeof *to);
    return;
  }
  if (t == HLO_BF16) {
    const u16 *p = from;
    for (i64 i = 0; i < n; i++) to[i] = hlo_bf16_to_f32(p[i]);
    return;
  }
  if (t == HLO_F16) {
    const u16 *p = from;
    for (i64 i = 0; i < n; i++) to[i] = hlo_f16_to_f32(p[i]);
    return;
  }
  const hlo_float_format *f = hlo_float_format_of(t);
  const u8 *p = from;
  if (n < 64) {
    for (i64 i = 0; i < n; i++) to[i] = decode_f32(f, p[i]);
    return;
  }
  float table[256];
  for (u32 i = 0; i < 256; i++) table[i] = decode_f32(f, i);
  for (i64 i = 0; i < n; i++) to[i] = table[p[i]];
}

void hlo_floats_from_f32(hlo_dtype t, const float *from, void *to, i64 n) {
  if (t == HLO_F32) {
    memcpy(to, from, (size_t)n * sizeof *from);
    return;
  }
  if (t == HLO_BF16) {
    u16 *p = to;
    for (i64 i = 0; i < n; i++) p[i] = hlo_f32_to_bf16(from[i]);
    return;
  }
  if (t == HLO_F16) {
    u16 *p = to;
    for (i64 i = 0; i < n; i++) p[i] = hlo_f32_to_f16(from[i]);
    return;
  }
  const hlo_float_format *f = hlo_float_format_of(t);
  u8 *p = to;
  for (i64 i = 0; i < n; i++) p[i] = (u8)encode_f32(f, from[i]);
}
