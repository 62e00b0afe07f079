// convert.c — conversion between every pair of element types.
//
// A block goes through one of three wide types, whichever loses nothing: i64 (u64 keeps its bits
// there and is told apart), f32 for the narrow floats, f64 for the rest. Frequent pairs have loops
// of their own. Floats become integers by truncation, clamped to the range, NaN to 0; anything
// non-zero becomes true; a complex becomes its real part.
#include <math.h>
#include "core/eval/ops.h"
#include "core/eval/fast.h"

enum { N = 512 };
// clang-format off
#define C_INTS(X)                                                                                  \
  X(S8, i8) X(S16, i16) X(S32, i32) X(S64, i64) X(U8, u8) X(U16, u16) X(U32, u32) X(U64, u64)      \
                  X(PRED, u8) X(S1, i8) X(S2, i8) X(S4, i8) X(U1, u8) X(U2, u8) X(U4, u8)
// clang-format on

static void load_i64(hlo_dtype t, const void *src, i64 *w, i64 n) {
  switch (t) {
#define X(id, T)                                       \
  case HLO_##id: {                                     \
    const T *p = src;                                  \
    LOOP for (i64 i = 0; i < n; i++) w[i] = (i64)p[i]; \
    return;                                            \
  }
    C_INTS(X)
#undef X
  default: return;
  }
}

static void store_i64(hlo_dtype t, const i64 *w, void *dst, i64 n) {
  if (t == HLO_PRED) {
    u8 *p = dst;
    for (i64 i = 0; i < n; i++) p[i] = w[i] != 0;
    return;
  }
  int bits = hlo_dtype_bits(t);
  if (bits < 8) {
    u8 *p = dst;
    int mask = (1 << bits) - 1, sign = hlo_dtype_is_signed(t) ? 1 << (bits - 1) : 0;
    for (i64 i = 0; i < n; i++) p[i] = (u8)((((int)w[i] & mask) ^ sign) - sign);
    return;
  }
  switch (t) {
#define X(id, T)                                     \
  case HLO_##id: {                                   \
    T *p = dst;                                      \
    LOOP for (i64 i = 0; i < n; i++) p[i] = (T)w[i]; \
    return;                                          \
  }
    C_INTS(X)
#undef X
  default: return;
  }
}

// Any real float, or the real part of a complex, as double; never through arithmetic that would
// flush a denormal except where the widening itself is one.
static void load_f64(hlo_dtype t, const void *src, double *w, i64 n) {
  switch (t) {
  case HLO_F32: {
    const float *p = src;
    LOOP for (i64 i = 0; i < n; i++) w[i] = (double)p[i];
    return;
  }
  case HLO_F64: memcpy(w, src, (size_t)n * sizeof *w); return;
  case HLO_C64: {
    const float *p = src;
    for (i64 i = 0; i < n; i++) w[i] = (double)p[2 * i];
    return;
  }
  case HLO_C128: {
    const double *p = src;
    for (i64 i = 0; i < n; i++) w[i] = p[2 * i];
    return;
  }
  default: {
    float f[N];
    hlo_floats_to_f32(t, src, f, n);
    for (i64 i = 0; i < n; i++) w[i] = (double)f[i];
  }
  }
}

static void store_f64(hlo_dtype t, const double *w, void *dst, i64 n) {
  switch (t) {
  case HLO_F32: {
    float *p = dst;
    LOOP for (i64 i = 0; i < n; i++) p[i] = (float)w[i];
    return;
  }
  case HLO_F64: memcpy(dst, w, (size_t)n * sizeof *w); return;
  case HLO_C64: {
    float *p = dst;
    for (i64 i = 0; i < n; i++) p[2 * i] = (float)w[i], p[2 * i + 1] = 0;
    return;
  }
  case HLO_C128: {
    double *p = dst;
    for (i64 i = 0; i < n; i++) p[2 * i] = w[i], p[2 * i + 1] = 0;
    return;
  }
  // two roundings, as XLA
  case HLO_F16: {
    u16 *p = dst;
    for (i64 i = 0; i < n; i++) p[i] = hlo_f32_to_f16((float)w[i]);
    return;
  }
  case HLO_BF16: {
    u16 *p = dst;
    for (i64 i = 0; i < n; i++) p[i] = hlo_f32_to_bf16((float)w[i]);
    return;
  }
  default: {
    size_t s = hlo_dtype_storage(t);
    for (i64 i = 0; i < n; i++) hlo_elem_from_f64(t, (char *)dst + (size_t)i * s, w[i]);
  }
  }
}

static void float_to_int(const double *w, hlo_dtype t, void *dst, i64 n) {
  if (t == HLO_PRED) {
    u8 *p = dst;
    for (i64 i = 0; i < n; i++) p[i] = w[i] != 0;
    return;
  }
  if (t == HLO_U64) {
    u64 *p = dst;
    for (i64 i = 0; i < n; i++) p[i] = !(w[i] > 0) ? 0 : w[i] >= 0x1p64 ? UINT64_MAX : (u64)w[i];
    return;
  }
  int bits = hlo_dtype_bits(t);
  bool is_signed = hlo_dtype_is_signed(t);
  i64 hi = is_signed ? (i64)(((u64)1 << (bits - 1)) - 1) : (i64)(((u64)1 << bits) - 1),
      lo = is_signed ? -hi - 1 : 0, v[N];
  double dhi = (double)hi, dlo = (double)lo;
  for (i64 i = 0; i < n; i++)
    v[i] = w[i] != w[i] ? 0 : w[i] >= dhi ? hi : w[i] <= dlo ? lo : (i64)w[i];
  store_i64(t, v, dst, n);
}

static void int_to_float(hlo_dtype from, const i64 *v, hlo_dtype t, void *dst, i64 n) {
  double w[N];
  if (t == HLO_F64 || t == HLO_C128) {
    for (i64 i = 0; i < n; i++) w[i] = from == HLO_U64 ? (double)(u64)v[i] : (double)v[i];
    store_f64(t, w, dst, n);
    return;
  }
  // one rounding to f32; narrower types round once more, as XLA
  float f[N];
  if (from == HLO_U64)
    for (i64 i = 0; i < n; i++) f[i] = (float)(u64)v[i];
  else
    for (i64 i = 0; i < n; i++) f[i] = (float)v[i];
  if (t == HLO_C64) {
    float *p = dst;
    for (i64 i = 0; i < n; i++) p[2 * i] = f[i], p[2 * i + 1] = 0;
    return;
  }
  hlo_floats_from_f32(t, f, dst, n);
}

static void block(hlo_dtype from, const void *src, hlo_dtype to, void *dst, i64 n) {
  bool int_from = from == HLO_PRED || hlo_dtype_is_integer(from),
       int_to = to == HLO_PRED || hlo_dtype_is_integer(to);
  if (int_from) {
    i64 v[N];
    load_i64(from, src, v, n);
    if (int_to) store_i64(to, v, dst, n);
    else int_to_float(from, v, to, dst, n);
    return;
  }
  if (hlo_dtype_is_complex(from) && hlo_dtype_is_complex(to)) {
    if (from == HLO_C64) {
      const float *p = src;
      double *q = dst;
      for (i64 i = 0; i < 2 * n; i++) q[i] = (double)p[i];
    } else {
      const double *p = src;
      float *q = dst;
      for (i64 i = 0; i < 2 * n; i++) q[i] = (float)p[i];
    }
    return;
  }
  bool narrow_from = hlo_dtype_is_float(from) && from != HLO_F64,
       narrow_to = hlo_dtype_is_float(to) && to != HLO_F64;
  if (narrow_from && narrow_to) {
    float f[N];
    hlo_floats_to_f32(from, src, f, n);
    hlo_floats_from_f32(to, f, dst, n);
    return;
  }
  // by way of f32, which keeps the bits of denormals
  if (narrow_from && to == HLO_C64) {
    float f[N], *p = dst;
    hlo_floats_to_f32(from, src, f, n);
    for (i64 i = 0; i < n; i++) p[2 * i] = f[i], p[2 * i + 1] = 0;
    return;
  }
  if (from == HLO_C64 && narrow_to) {
    const float *p = src;
    float f[N];
    for (i64 i = 0; i < n; i++) f[i] = p[2 * i];
    hlo_floats_from_f32(to, f, dst, n);
    return;
  }
  double w[N];
  load_f64(from, src, w, n);
  if (int_to) float_to_int(w, to, dst, n);
  else store_f64(to, w, dst, n);
}

#define DIRECT(FROM, T, TO, U)                       \
  if (from == HLO_##FROM && to == HLO_##TO) {        \
    const T *p = src;                                \
    U *q = dst;                                      \
    LOOP for (i64 i = 0; i < n; i++) q[i] = (U)p[i]; \
    return;                                          \
  }

void ev_convert(hlo_dtype from, const void *src, hlo_dtype to, void *dst, i64 n) {
  size_t sf = hlo_dtype_storage(from), st = hlo_dtype_storage(to);
  if (from == to) {
    if (dst != src) memmove(dst, src, (size_t)n * sf);
    return;
  }
  // clang-format off
  DIRECT(S32, i32, F32, float) DIRECT(PRED, u8, F32, float) DIRECT(U8, u8, F32, float)
  DIRECT(S8, i8, F32, float) DIRECT(F32, float, F64, double) DIRECT(F64, double, F32, float)
  DIRECT(S32, i32, F64, double) DIRECT(PRED, u8, S32, i32) DIRECT(S8, i8, S32, i32)
  DIRECT(U8, u8, S32, i32) DIRECT(S32, i32, S64, i64) DIRECT(S64, i64, S32, i32)
  DIRECT(U32, u32, U64, u64) DIRECT(U64, u64, U32, u32) DIRECT(S32, i32, U32, u32)
  DIRECT(U32, u32, S32, i32)
      // clang-format on
      if (from == HLO_F32 && to == HLO_BF16) {
    hlo_floats_from_f32(to, src, dst, n);
    return;
  }
  if (from == HLO_BF16 && to == HLO_F32) {
    hlo_floats_to_f32(from, src, dst, n);
    return;
  }
  for (i64 i = 0; i < n; i += N)
    block(from, (const char *)src + (size_t)i * sf, to, (char *)dst + (size_t)i * st,
          HS_MIN((i64)N, n - i));
}
