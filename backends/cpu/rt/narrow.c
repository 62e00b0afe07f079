// narrow.c — runs of floating-point numbers of 16 bits and less to f32, and back.
//
// bf16 is the upper half of an f32; both ways are a few integer operations. f16 has instructions of
// its own. Panels of products are widened in short rows: AVX-512 masks what is left of a vector,
// and what kind of row it is is asked once for all of them. What is of 8 bits or less goes by the
// numbers of its format without a branch, with the bits that core/types/float.c gives: normal
// numbers by moving the fields, those below as a count of steps. (The code generator's are the
// same, backends/emit/codegen_types.c.) The rest, f8e8m0fnu, is core/types/float.c's.
#include "backends/cpu/rt/rt.h"
#include "core/types/float.h"

#include <math.h>
#include <pthread.h>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

cpu_vector_set cpu_vectors(void) {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl") &&
      __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq"))
    return CPU_AVX512;
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return CPU_AVX2;
#endif
  return CPU_BASE;
}

#define AVX512 __attribute__((target("avx512f,avx512vl,avx512bw,avx512dq")))
#define INLINE static inline __attribute__((always_inline))

// ---- 16 bits ------------------------------------------------------------------------------------
__attribute__((target_clones("default", "avx2"))) static void bf16_to_f32(u32 *restrict to,
                                                                          const u16 *restrict from,
                                                                          i64 n) {
  for (i64 k = 0; k < n; k++) to[k] = (u32)from[k] << 16;
}

__attribute__((target_clones("default", "avx2"))) static void f32_to_bf16(u16 *restrict to,
                                                                          const u32 *restrict from,
                                                                          i64 n) {
  for (i64 k = 0; k < n; k++) {
    u32 b = from[k], rounded = b + 0x7fff + (b >> 16 & 1);
    to[k] = (u16)(((b & 0x7fffffff) > 0x7f800000 ? b | 0x400000 : rounded) >> 16);
  }
}

#if defined(__x86_64__)
#define F16C __attribute__((target("avx,f16c")))

F16C static void f16_to_f32(float *to, const u16 *from, i64 n) {
  for (; n >= 8; n -= 8, to += 8, from += 8)
    _mm256_storeu_ps(to, _mm256_cvtph_ps(_mm_loadu_si128((const void *)from)));
  u16 rest[8] = {0};
  float wide[8];
  memcpy(rest, from, (size_t)n * sizeof *from);
  _mm256_storeu_ps(wide, _mm256_cvtph_ps(_mm_loadu_si128((const void *)rest)));
  memcpy(to, wide, (size_t)n * sizeof *to);
}

F16C static void f32_to_f16(u16 *to, const float *from, i64 n) {
  for (; n >= 8; n -= 8, to += 8, from += 8)
    _mm_storeu_si128((void *)to, _mm256_cvtps_ph(_mm256_loadu_ps(from), _MM_FROUND_TO_NEAREST_INT));
  float rest[8] = {0};
  u16 narrow[8];
  memcpy(rest, from, (size_t)n * sizeof *from);
  _mm_storeu_si128((void *)narrow,
                   _mm256_cvtps_ph(_mm256_loadu_ps(rest), _MM_FROUND_TO_NEAREST_INT));
  memcpy(to, narrow, (size_t)n * sizeof *to);
}

// The lanes that n elements fill, of 16.
INLINE u16 lanes_of(i64 n) { return (u16)(n >= 16 ? 0xffff : (1u << n) - 1); }

AVX512 INLINE void widen_row(float *to, const u16 *from, i64 n, bool f16) {
  for (i64 k = 0; k < n; k += 16) {
    __mmask16 some = lanes_of(n - k);
    __m256i v = _mm256_maskz_loadu_epi16(some, from + k);
    __m512i up = _mm512_slli_epi32(_mm512_cvtepu16_epi32(v), 16);
    _mm512_mask_storeu_ps(to + k, some, f16 ? _mm512_cvtph_ps(v) : _mm512_castsi512_ps(up));
  }
}
AVX512 static void widen_avx512(float *to, i64 step, const u16 *from, i64 stride, i64 n, i64 rows,
                                bool f16) {
  if (f16)
    for (i64 r = 0; r < rows; r++) widen_row(to + r * step, from + r * stride, n, true);
  else
    for (i64 r = 0; r < rows; r++) widen_row(to + r * step, from + r * stride, n, false);
}

AVX512 static __m256i rounded_bf16(__m512i b) {
  const __m512i magnitude = _mm512_set1_epi32(0x7fffffff), inf = _mm512_set1_epi32(0x7f800000);
  __m512i odd = _mm512_and_si512(_mm512_srli_epi32(b, 16), _mm512_set1_epi32(1));
  __m512i r = _mm512_add_epi32(_mm512_add_epi32(b, _mm512_set1_epi32(0x7fff)), odd);
  __mmask16 nan = _mm512_cmpgt_epi32_mask(_mm512_and_si512(b, magnitude), inf);
  r = _mm512_mask_or_epi32(r, nan, b, _mm512_set1_epi32(0x400000));
  return _mm512_cvtepi32_epi16(_mm512_srli_epi32(r, 16));
}
AVX512 static void narrow_avx512(u16 *to, const float *from, i64 n, bool f16) {
  for (i64 k = 0; k < n; k += 16) {
    __mmask16 some = lanes_of(n - k);
    __m512 v = _mm512_maskz_loadu_ps(some, from + k);
    __m256i r =
        f16 ? _mm512_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT) : rounded_bf16(_mm512_castps_si512(v));
    _mm256_mask_storeu_epi16(to + k, some, r);
  }
}

#endif

// ---- 8 bits and less ----------------------------------------------------------------------------
// A format in the terms of the loops below: a code is a magnitude under a sign bit.
typedef struct small_format {
  u32 sign, lift;     // the sign bit; how far it is below that of an f32
  u32 cut, normal;    // bits of an f32's mantissa that do not fit; the first normal magnitude
  u32 base, rebias;   // what exponents differ by: in the places of a code, and of an f32
  float step;         // of the numbers below the normal ones
  u32 magic, low;     // an f32 whose last place is such a step; the first normal number's bits
  u32 half;           // what rounds down at the last place that fits
  u32 most, over;     // the largest finite magnitude, and what is above it
  u32 nan[2];         // by sign
  u32 kept, inf;      // what fits of a NaN's payload, under what; 0: payloads are lost
  u32 zero;           // all ones: there is a negative zero
  u32 top, fn, fnuz;  // magnitudes from here on are infinite or NaN; the only NaN; a code that is
} small_format;

static small_format small_formats[HLO_DTYPE_COUNT];
static pthread_once_t small_once = PTHREAD_ONCE_INIT;

static u32 encoded(hlo_dtype t, float v) {
  u8 code;
  hlo_floats_from_f32(t, &v, &code, 1);
  return code;
}

static void fill_small(hlo_dtype t) {
  const hlo_float_format *f = hlo_float_format_of(t);
  small_format *x = &small_formats[t];
  bool ieee = f->top == HLO_TOP_IEEE;
  x->sign = 1u << (f->ebits + f->mbits);
  x->lift = 31u - f->ebits - f->mbits;
  x->cut = 23u - f->mbits;
  x->normal = 1u << f->mbits;
  x->rebias = (u32)(127 - f->bias) << 23;
  x->base = (u32)(127 - f->bias) << f->mbits;
  x->step = (float)ldexp(1, 1 - f->bias - f->mbits);
  x->magic = (u32)(127 + (int)x->cut + 1 - f->bias) << 23;
  x->low = (u32)(128 - f->bias) << 23;
  x->half = (1u << (x->cut - 1)) - 1;
  x->most = x->sign - 1;
  while (!isfinite(hlo_float_decode(f, x->most))) x->most--;
  x->over = encoded(t, INFINITY);
  x->nan[0] = encoded(t, NAN), x->nan[1] = encoded(t, -NAN);
  x->kept = ieee ? x->normal - 1 : 0;
  x->inf = x->over;
  x->zero = f->top == HLO_TOP_FNUZ ? 0 : ~0u;
  x->top = ieee ? x->over : ~0u;
  x->fn = f->top == HLO_TOP_FN ? x->sign - 1 : ~0u;
  x->fnuz = f->top == HLO_TOP_FNUZ ? x->sign : ~0u;
}

static void fill_small_formats(void) {
  for (u32 t = 0; t < HLO_DTYPE_COUNT; t++)
    if (hlo_dtype_is_float((hlo_dtype)t) && hlo_dtype_storage((hlo_dtype)t) == 1 &&
        hlo_float_format_of((hlo_dtype)t)->top != HLO_TOP_E8M0)
      fill_small((hlo_dtype)t);
}

// NULL: no such format.
static const small_format *small_format_of(hlo_dtype t) {
  (void)pthread_once(&small_once, fill_small_formats);
  return small_formats[t].sign ? &small_formats[t] : NULL;
}

static inline u32 bits_of(float v) {
  u32 b;
  memcpy(&b, &v, sizeof b);
  return b;
}
static inline float float_of(u32 b) {
  float v;
  memcpy(&v, &b, sizeof v);
  return v;
}

// Loops over bytes and words at once want more of AVX-512 than its base.
#define EACH_SET(name, body, TO, FROM)                                                       \
  __attribute__((target_clones("default", "avx2"))) static void name##_base(                 \
      TO *to, const FROM *from, const small_format *x, i64 n) {                              \
    body(to, from, x, n);                                                                    \
  }                                                                                          \
  AVX512 static void name##_avx512(TO *to, const FROM *from, const small_format *x, i64 n) { \
    body(to, from, x, n);                                                                    \
  }                                                                                          \
  static void name(TO *to, const FROM *from, const small_format *x, i64 n) {                 \
    (cpu_vectors() == CPU_AVX512 ? name##_avx512 : name##_base)(to, from, x, n);             \
  }

// One of two by a mask: of `?:` the compiler makes a branch where a side could trap.
static inline u32 pick(bool one, u32 a, u32 b) {
  u32 mask = -(u32)one;
  return (a & mask) | (b & ~mask);
}

INLINE void widen_small(u32 *restrict to, const u8 *restrict from, const small_format *of, i64 n) {
  const small_format x = *of;
  for (i64 k = 0; k < n; k++) {
    u32 code = from[k], mag = code & (x.sign - 1), field = mag << x.cut, r = field + x.rebias;
    u32 steps = bits_of((float)(i32)mag * x.step);
    r = pick(mag >= x.top, field | 0x7f800000, r);
    r = pick(mag < x.normal, steps, r);
    r = pick(mag == x.fn, 0x7fc00000, r);
    r |= (code & x.sign) << x.lift;
    to[k] = pick(code == x.fnuz, 0xffc00000, r);
  }
}

INLINE void narrow_small(u8 *restrict to, const u32 *restrict from, const small_format *of, i64 n) {
  const small_format x = *of;
  for (i64 k = 0; k < n; k++) {
    u32 mag = from[k] & 0x7fffffff, minus = from[k] >> 31, last = mag >> x.cut & 1;
    u32 code = ((mag + x.half + last) >> x.cut) - x.base;
    u32 steps = bits_of(float_of(mag) + float_of(x.magic)) - x.magic;
    code = pick(mag < x.low, steps, code);
    code = code > x.most ? x.over : code;
    u32 sign = minus * x.sign, load = mag >> x.cut & x.kept;
    u32 none = load ? load | x.inf | sign : minus ? x.nan[1] : x.nan[0];
    code |= code ? sign : sign & x.zero;
    to[k] = (u8)(mag > 0x7f800000 ? none : code);
  }
}

EACH_SET(small_to_f32, widen_small, u32, u8)
EACH_SET(f32_to_small, narrow_small, u8, u32)

// ---- any of them --------------------------------------------------------------------------------
void cpu_to_f32(float *to, const void *from, hlo_dtype t, i64 n) {
  cpu_to_f32_rows(to, 0, from, 0, t, n, 1);
}

static void widen(float *to, const void *from, hlo_dtype t, i64 n) {
  const small_format *small = t == HLO_BF16 || t == HLO_F16 ? NULL : small_format_of(t);
  if (small) small_to_f32((u32 *)(void *)to, from, small, n);
  else if (t == HLO_BF16) bf16_to_f32((u32 *)(void *)to, from, n);
#if defined(__x86_64__)
  // every machine with AVX2 has F16C
  else if (t == HLO_F16 && cpu_vectors() != CPU_BASE) f16_to_f32(to, from, n);
#endif
  else hlo_floats_to_f32(t, from, to, n);
}

void cpu_to_f32_rows(float *to, i64 step, const void *from, i64 stride, hlo_dtype t, i64 n,
                     i64 rows) {
#if defined(__x86_64__)
  if ((t == HLO_BF16 || t == HLO_F16) && cpu_vectors() == CPU_AVX512) {
    widen_avx512(to, step, from, stride, n, rows, t == HLO_F16);
    return;
  }
#endif
  for (i64 r = 0; r < rows; r++)
    widen(to + r * step, (const char *)from + (size_t)(r * stride) * hlo_dtype_storage(t), t, n);
}

void cpu_from_f32(void *to, hlo_dtype t, const float *from, i64 n) {
#if defined(__x86_64__)
  if ((t == HLO_BF16 || t == HLO_F16) && cpu_vectors() == CPU_AVX512) {
    narrow_avx512(to, from, n, t == HLO_F16);
    return;
  }
#endif
  const small_format *small = t == HLO_BF16 || t == HLO_F16 ? NULL : small_format_of(t);
  if (small) f32_to_small(to, (const u32 *)(const void *)from, small, n);
  else if (t == HLO_BF16) f32_to_bf16(to, (const u32 *)(const void *)from, n);
#if defined(__x86_64__)
  else if (t == HLO_F16 && cpu_vectors() != CPU_BASE) f32_to_f16(to, from, n);
#endif
  else hlo_floats_from_f32(t, from, to, n);
}
