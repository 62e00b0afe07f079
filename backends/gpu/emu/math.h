// math.h — functions that rewritten kernels call for arithmetic (intrinsics.def says for which).
#ifndef GPU_EMU_MATH_H
#define GPU_EMU_MATH_H

#include "core/base/base.h"

enum { EMU_NEAREST, EMU_ZERO, EMU_DOWN, EMU_UP };

float emu_add_f(float, float, u32 mode);
double emu_add_d(double, double, u32 mode);
float emu_mul_f(float, float, u32 mode);
double emu_mul_d(double, double, u32 mode);
float emu_div_f(float, float, u32 mode);
double emu_div_d(double, double, u32 mode);
float emu_fma_f(float, float, float, u32 mode);
double emu_fma_d(double, double, double, u32 mode);
float emu_sqrt_f(float, u32 mode);
double emu_sqrt_d(double, u32 mode);
float emu_rcp_f(float, u32 mode);
double emu_rcp_d(double, u32 mode);
float emu_rsqrt_f(float);
double emu_rsqrt_d(double);
float emu_saturate_f(float);
float emu_flush(float);  // denormals to zero
i32 emu_d2i(double, u32 mode);
u32 emu_d2ui(double, u32 mode);
i64 emu_d2ll(double, u32 mode);
u64 emu_d2ull(double, u32 mode);
i32 emu_f2i(float, u32 mode);
u32 emu_f2ui(float, u32 mode);
i64 emu_f2ll(float, u32 mode);
u64 emu_f2ull(float, u32 mode);
float emu_d2f(double, u32 mode);
float emu_ll2f(i64, u32 mode);
float emu_ull2f(u64, u32 mode);
double emu_ll2d(i64, u32 mode);
double emu_ull2d(u64, u32 mode);
float emu_ll2f_32(i32, u32 mode);
float emu_ull2f_32(u32, u32 mode);
double emu_ll2d_32(i32, u32 mode);
double emu_ull2d_32(u32, u32 mode);
double emu_lohi_i2d(u32 lo, u32 hi);
u32 emu_d2i_lo(double);
u32 emu_d2i_hi(double);
i32 emu_mulhi_i(i32, i32);
u32 emu_mulhi_ui(u32, u32);
i64 emu_mulhi_ll(i64, i64);
u64 emu_mulhi_ull(u64, u64);
u32 emu_sad_i(i32, i32, u32);
u32 emu_sad_ui(u32, u32, u32);
u32 emu_prmt(u32 a, u32 b, u32 selector);

// What LLVM calls for halves and bfloats where the processor does not convert them: the narrow
// value lies in the low bits of the register.
float emu_f2bf(float);   // __truncsfbf2
float emu_d2bf(double);  // __truncdfbf2
float emu_f2h(float);    // __truncsfhf2
float emu_d2h(double);   // __truncdfhf2
float emu_h2f(float);    // __extendhfsf2

#endif
