// math.c — the arithmetic of llvm.nvvm's intrinsics on the host.
//
// What the device approximates (ex2.approx and its kind) is computed here as the C library does it,
// which is nearer to the exact value: kernels must not depend on the device's last bits.
#include "backends/gpu/emu/math.h"

#include <fenv.h>
#include <math.h>

#include "core/types/literal.h"

// Rounds the expression as asked, and goes back.
static const int modes[] = {FE_TONEAREST, FE_TOWARDZERO, FE_DOWNWARD, FE_UPWARD};
#define ROUNDED(T, x)                    \
  do {                                   \
    if (mode == EMU_NEAREST) return (x); \
    (void)fesetround(modes[mode & 3]);   \
    volatile T r_ = (x);                 \
    (void)fesetround(FE_TONEAREST);      \
    return r_;                           \
  } while (0)
// The operands must not be folded before the mode is set.
#define HIDE(x) __asm__ volatile("" : "+m"(x))

#define BINARY(name, T, op)          \
  T emu_##name(T a, T b, u32 mode) { \
    HIDE(a);                         \
    HIDE(b);                         \
    ROUNDED(T, a op b);              \
  }
BINARY(add_f, float, +)
BINARY(add_d, double, +)
BINARY(mul_f, float, *)
BINARY(mul_d, double, *)
BINARY(div_f, float, /)
BINARY(div_d, double, /)

float emu_fma_f(float a, float b, float c, u32 mode) {
  HIDE(a);
  ROUNDED(float, fmaf(a, b, c));
}
double emu_fma_d(double a, double b, double c, u32 mode) {
  HIDE(a);
  ROUNDED(double, fma(a, b, c));
}
float emu_sqrt_f(float a, u32 mode) {
  HIDE(a);
  ROUNDED(float, sqrtf(a));
}
double emu_sqrt_d(double a, u32 mode) {
  HIDE(a);
  ROUNDED(double, sqrt(a));
}
float emu_rcp_f(float a, u32 mode) { return emu_div_f(1, a, mode); }
double emu_rcp_d(double a, u32 mode) { return emu_div_d(1, a, mode); }
float emu_rsqrt_f(float a) { return (float)(1 / sqrt((double)a)); }
double emu_rsqrt_d(double a) { return 1 / sqrt(a); }
float emu_saturate_f(float a) { return a >= 0 ? HS_MIN(a, 1.0f) : 0; }
float emu_flush(float a) { return fabsf(a) < 0x1p-126f ? copysignf(0, a) : a; }

// ---- conversions: out of range to the nearest value, NaN to 0 (to the least i64) ----------------
static double rounded(double a, u32 mode) {
  switch (mode) {
  case EMU_ZERO: return trunc(a);
  case EMU_DOWN: return floor(a);
  case EMU_UP: return ceil(a);
  default: return rint(a);
  }
}
i32 emu_d2i(double a, u32 mode) {
  double r = rounded(a, mode);
  return r >= 0x1p31 ? INT32_MAX : r <= -0x1p31 ? INT32_MIN : r == r ? (i32)r : 0;
}
u32 emu_d2ui(double a, u32 mode) {
  double r = rounded(a, mode);
  return r >= 0x1p32 ? UINT32_MAX : r > 0 ? (u32)r : 0;
}
i64 emu_d2ll(double a, u32 mode) {
  double r = rounded(a, mode);
  return r >= 0x1p63 ? INT64_MAX : r > -0x1p63 ? (i64)r : INT64_MIN;
}
u64 emu_d2ull(double a, u32 mode) {
  double r = rounded(a, mode);
  return r != r ? (u64)1 << 63 : r >= 0x1p64 ? UINT64_MAX : r > 0 ? (u64)r : 0;
}
i32 emu_f2i(float a, u32 mode) { return emu_d2i((double)a, mode); }
u32 emu_f2ui(float a, u32 mode) { return emu_d2ui((double)a, mode); }
i64 emu_f2ll(float a, u32 mode) { return emu_d2ll((double)a, mode); }
u64 emu_f2ull(float a, u32 mode) { return emu_d2ull((double)a, mode); }

#define CONVERT(name, From, To)     \
  To emu_##name(From a, u32 mode) { \
    HIDE(a);                        \
    ROUNDED(To, (To)a);             \
  }
CONVERT(d2f, double, float)
CONVERT(ll2f, i64, float)
CONVERT(ull2f, u64, float)
CONVERT(ll2d, i64, double)
CONVERT(ull2d, u64, double)
CONVERT(ll2f_32, i32, float)
CONVERT(ull2f_32, u32, float)
CONVERT(ll2d_32, i32, double)
CONVERT(ull2d_32, u32, double)

double emu_lohi_i2d(u32 lo, u32 hi) {
  u64 bits = (u64)hi << 32 | lo;
  double r;
  return memcpy(&r, &bits, sizeof r), r;
}
u32 emu_d2i_lo(double a) { return (u32)hs_load64(&a); }
u32 emu_d2i_hi(double a) { return (u32)(hs_load64(&a) >> 32); }

// ---- integers -----------------------------------------------------------------------------------
i32 emu_mulhi_i(i32 a, i32 b) { return (i32)((i64)a * b >> 32); }
u32 emu_mulhi_ui(u32 a, u32 b) { return (u32)((u64)a * b >> 32); }
i64 emu_mulhi_ll(i64 a, i64 b) { return (i64)((i128)a * b >> 64); }
u64 emu_mulhi_ull(u64 a, u64 b) { return (u64)((unsigned __int128)a * b >> 64); }
u32 emu_sad_i(i32 a, i32 b, u32 c) { return c + (a > b ? (u32)a - (u32)b : (u32)b - (u32)a); }
u32 emu_sad_ui(u32 a, u32 b, u32 c) { return c + (a > b ? a - b : b - a); }

// Bytes of b:a chosen by the nibbles of s; bit 3 of a nibble repeats the byte's sign.
u32 emu_prmt(u32 a, u32 b, u32 s) {
  u64 bytes = (u64)b << 32 | a;
  u32 r = 0;
  for (u32 k = 0; k < 4; k++) {
    u32 sel = s >> (4 * k) & 15;
    u32 byte = (u32)(bytes >> (8 * (sel & 7))) & 255;
    if (sel & 8) byte = byte & 128 ? 255 : 0;
    r |= byte << (8 * k);
  }
  return r;
}

// ---- what compiled code calls for narrow floating-point types -----------------------------------
// A half or a bfloat travels in the low bits of a floating-point register, as a float here: not
// every compiler has types for them.
static float in_register(u16 bits) {
  u32 word = bits;
  float r;
  return memcpy(&r, &word, sizeof r), r;
}
// To f32, to odd: a second rounding then sees that bits were lost.
static float to_odd(double a) {
  float f = (float)a;
  if ((double)f == a || f != f || isinf(f)) return f;
  u32 bits = hs_load32(&f);
  if (fabs((double)f) > fabs(a)) bits--;
  bits |= 1;
  return memcpy(&f, &bits, sizeof f), f;
}
float emu_f2bf(float a) { return in_register(hlo_f32_to_bf16(a)); }
float emu_d2bf(double a) { return in_register(hlo_f32_to_bf16(to_odd(a))); }
float emu_f2h(float a) { return in_register(hlo_f32_to_f16(a)); }
float emu_d2h(double a) { return in_register(hlo_f32_to_f16(to_odd(a))); }
float emu_h2f(float a) { return hlo_f16_to_f32((u16)hs_load32(&a)); }
