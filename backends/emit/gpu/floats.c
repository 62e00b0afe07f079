// floats.c — floats of 8 bits and below, from memory and to memory.
//
// From memory: a table of all codes. To memory: round the mantissa to nearest even, or for what is
// below the smallest normal number count its steps; what is too large, and NaN, has the code that
// the reference conversion gives.
#include "backends/emit/gpu/code.h"

#include "core/types/float.h"

#include <math.h>
#include <stdio.h>

typedef LLVMValueRef val;
#define B (c->b)

static val table_of(cg *c, hlo_dtype t) {
  char name[300];
  (void)snprintf(name, sizeof name, "%.250s_%s", gpu_of(c)->name, hlo_dtype_text(t));
  val v = LLVMGetNamedGlobal(c->mod, name), all[256];
  if (v) return v;
  u32 codes = 1u << hlo_dtype_bits(t);
  for (u32 k = 0; k < 256; k++) {
    u8 code = (u8)(k & (codes - 1));
    float f;
    u32 bits;
    hlo_floats_to_f32(t, &code, &f, 1);
    memcpy(&bits, &f, sizeof bits);
    all[k] = LLVMConstInt(c->i32, bits, false);
  }
  val data = LLVMConstArray2(c->i32, all, 256);
  v = LLVMAddGlobalInAddressSpace(c->mod, LLVMTypeOf(data), name,
                                  gpu_of(c)->target->constant_space);
  LLVMSetInitializer(v, data);
  LLVMSetGlobalConstant(v, true);
  LLVMSetLinkage(v, LLVMInternalLinkage);
  return v;
}

static val from_mem(cg *c, hlo_dtype t, val x) {
  val table = table_of(c, t), wide = LLVMBuildZExt(B, x, cg_like(x, c->i32), "");
  if (!cg_is_vector(LLVMTypeOf(x)))
    return LLVMBuildLoad2(B, c->f32, cg_gep(c, c->f32, table, wide), "");
  val r = LLVMGetPoison(cg_like(x, c->f32));
  for (u32 l = 0; l < LLVMGetVectorSize(LLVMTypeOf(x)); l++) {
    val no = LLVMConstInt(c->i32, l, false), at = LLVMBuildExtractElement(B, wide, no, "");
    val f = LLVMBuildLoad2(B, c->f32, cg_gep(c, c->f32, table, at), "");
    r = LLVMBuildInsertElement(B, r, f, no, "");
  }
  return r;
}

static u8 encoded(hlo_dtype t, float f) {
  u8 code;
  hlo_floats_from_f32(t, &f, &code, 1);
  return code;
}

static float decoded(hlo_dtype t, u32 k) {
  u8 code = (u8)k;
  float f;
  hlo_floats_to_f32(t, &code, &f, 1);
  return f;
}

static val to_mem(cg *c, hlo_dtype t, val x) {
  const hlo_float_format *f = hlo_float_format_of(t);
  u32 sign = 1u << (hlo_dtype_bits(t) - 1), most = 0;
  float largest = 0;
  for (u32 k = 1; k < sign; k++)
    if (isfinite(decoded(t, k)) && decoded(t, k) > largest) largest = decoded(t, k), most = k;
  // the first number that is not rounded to the largest
  float past = largest + (largest - decoded(t, most - 1)) / 2;
  bool even = encoded(t, past) == most && encoded(t, 3e38f) != most;
  LLVMTypeRef it = cg_like(x, c->i32), ft = LLVMTypeOf(x);
  val a = cg_unary_intrinsic(c, "llvm.fabs", x), bits = LLVMBuildBitCast(B, a, it, "");
  u32 cut = 23 - f->mbits;
  val odd = LLVMBuildAnd(B, LLVMBuildLShr(B, bits, cg_int(it, cut), ""), cg_int(it, 1), ""),
      up = LLVMBuildAdd(B, bits, LLVMBuildAdd(B, odd, cg_int(it, (1 << (cut - 1)) - 1), ""), "");
  val code = LLVMBuildSub(B, LLVMBuildLShr(B, up, cg_int(it, cut), ""),
                          cg_int(it, (127 - (i64)f->bias) * (1 << f->mbits)), "");
  val below = LLVMBuildFCmp(B, LLVMRealOLT, a, cg_fp(ft, ldexp(1, 1 - f->bias)), "");
  val counted = LLVMBuildSelect(B, below, a, LLVMConstNull(ft), "");
  counted = LLVMBuildFMul(B, counted, cg_fp(ft, ldexp(1, f->bias - 1 + f->mbits)), "");
  counted = LLVMBuildFPToSI(B, cg_unary_intrinsic(c, "llvm.rint", counted), it, "");
  code = LLVMBuildSelect(B, below, counted, code, "");
  val minus = LLVMBuildICmp(B, LLVMIntSLT, LLVMBuildBitCast(B, x, it, ""), cg_int(it, 0), "");
  bool zero_sign = encoded(t, -0.0f) != encoded(t, 0.0f);
  val with = LLVMBuildOr(B, code, cg_int(it, sign), "");
  if (!zero_sign)
    with = LLVMBuildSelect(B, LLVMBuildICmp(B, LLVMIntEQ, code, cg_int(it, 0), ""), code, with, "");
  code = LLVMBuildSelect(B, minus, with, code, "");
  // too large, infinities, NaN
  val large = LLVMBuildFCmp(B, even ? LLVMRealOGT : LLVMRealOGE, a, cg_fp(ft, (double)past), "");
  code = LLVMBuildSelect(
      B, large,
      LLVMBuildSelect(B, minus, cg_int(it, encoded(t, -3e38f)), cg_int(it, encoded(t, 3e38f)), ""),
      code, "");
  val infinite = LLVMBuildFCmp(B, LLVMRealOEQ, a, cg_fp(ft, INFINITY), "");
  code = LLVMBuildSelect(B, infinite,
                         LLVMBuildSelect(B, minus, cg_int(it, encoded(t, -INFINITY)),
                                         cg_int(it, encoded(t, INFINITY)), ""),
                         code, "");
  val nan = LLVMBuildFCmp(B, LLVMRealUNO, x, x, "");
  code = LLVMBuildSelect(
      B, nan,
      LLVMBuildSelect(B, minus, cg_int(it, encoded(t, -NAN)), cg_int(it, encoded(t, NAN)), ""),
      code, "");
  return LLVMBuildTrunc(B, code, cg_like(x, c->i8), "");
}

val gpu_small_float(cg *c, hlo_dtype t, bool store, val x) {
  return store ? to_mem(c, t, x) : from_mem(c, t, x);
}
