// narrow.c — runs of floating-point numbers of 16 bits and less to f32, and back.
//
// bf16 is the upper half of an f32; both ways are a few integer operations that the compiler turns
// into vector code. f16 has instructions of its own. What is of 8 bits or less goes by the numbers
// of its format without a branch, with the bits that core/types/float.c gives: normal numbers by
// moving the fields, those below as a count of steps. (The code generator's are the same,
// backends/emit/codegen_types.c.) The rest, f8e8m0fnu, is core/types/float.c's.
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

#define CLONES __attribute__((target_clones("default", "avx2", "avx512f")))

CLONES static void bf16_to_f32(u32 *restrict to, const u16 *restrict from, i64 n) {
  for (i64 k = 0; k < n; k++) to[k] = (u32)from[k] << 16;
}

CLONES static void f32_to_bf16(u16 *restrict to, const u32 *restrict from, i64 n) {
  for (i64 k = 0; k < n; k++) {
    u32 b = from[k], rounded = b + 0x7fff + (b >> 16 & 1);
    to[k] = (u16)(((b & 0x7fffffff) > 0x7f800000 ? b | 0x400000 : rounded) >> 16);
  }
}

#if defined(__x86_64__)
#define F16C __attribute__((target("avx,f16c")))

F16C static i64 f16_to_f32(float *to, const u16 *from, i64 n) {
  i64 k = 0;
  for (; k + 8 <= n; k += 8)
    _mm256_storeu_ps(to + k, _mm256_cvtph_ps(_mm_loadu_si128((const void *)(from + k))));
  return k;
}

F16C static i64 f32_to_f16(u16 *to, const float *from, i64 n) {
  i64 k = 0;
  for (; k + 8 <= n; k += 8)
    _mm_storeu_si128((void *)(to + k),
                     _mm256_cvtps_ph(_mm256_loadu_ps(from + k), _MM_FROUND_TO_NEAREST_INT));
  return k;
}

// Every machine with AVX2 has them.
static bool has_f16c(void) { return cpu_vectors() != CPU_BASE; }
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
#define INLINE static inline __attribute__((always_inline))
#define EACH_SET(name, body, TO, FROM)                                                     \
  __attribute__((target_clones("default", "avx2"))) static void name##_base(               \
      TO *to, const FROM *from, const small_format *x, i64 n) {                            \
    body(to, from, x, n);                                                                  \
  }                                                                                        \
  __attribute__((target("avx512f,avx512vl,avx512bw,avx512dq"))) static void name##_avx512( \
      TO *to, const FROM *from, const small_format *x, i64 n) {                            \
    body(to, from, x, n);                                                                  \
  }                                                                                        \
  static void name(TO *to, const FROM *from, const small_format *x, i64 n) {               \
    (cpu_vectors() == CPU_AVX512 ? name##_avx512 : name##_base)(to, from, x, n);           \
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
  i64 done = 0;
  const small_format *small = small_format_of(t);
  if (small) {
    small_to_f32((u32 *)(void *)to, from, small, n);
    return;
  }
  if (t == HLO_BF16) {
    bf16_to_f32((u32 *)(void *)to, from, n);
    return;
  }
#if defined(__x86_64__)
  if (t == HLO_F16 && has_f16c()) done = f16_to_f32(to, from, n);
#endif
  hlo_floats_to_f32(t, (const char *)from + (size_t)done * hlo_dtype_storage(t), to + done,
                    n - done);
}

void cpu_from_f32(void *to, hlo_dtype t, const float *from, i64 n) {
  i64 done = 0;
  const small_format *small = small_format_of(t);
  if (small) {
    f32_to_small(to, (const u32 *)(const void *)from, small, n);
    return;
  }
  if (t == HLO_BF16) {
    f32_to_bf16(to, (const u32 *)(const void *)from, n);
    return;
  }
#if defined(__x86_64__)
  if (t == HLO_F16 && has_f16c()) done = f32_to_f16(to, from, n);
#endif
  hlo_floats_from_f32(t, from + done, (char *)to + (size_t)done * hlo_dtype_storage(t), n - done);
}
