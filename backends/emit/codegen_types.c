// codegen_types.c — how values of each element type are represented in LLVM: types, constants,
// splats, their way to memory and back, calls of intrinsics, stack slots. The lowest file of the
// code generator: it calls none of the others.
//
// A value is a scalar or a vector of its representation type (cg_rep); in memory it has another
// type where the two differ (cg_mem): pred is i1 and one byte, f16 and bf16 are float and 16 bits,
// narrower floats float and one byte.
#include "backends/emit/codegen.h"
#include "core/types/float.h"

#include <math.h>

// ---- types and constants ------------------------------------------------------------------------
LLVMTypeRef cg_rep(cg *c, hlo_dtype t) {
  switch (t) {
  case HLO_PRED: return c->i1;
  case HLO_F32: return c->f32;
  case HLO_F64: return c->f64;
  default:
    if (nest_is_narrow(t)) return c->f32;
    switch (hlo_dtype_storage(t)) {
    case 1: return c->i8;
    case 2: return c->i16;
    case 4: return c->i32;
    default: return c->i64;
    }
  }
}
LLVMTypeRef cg_mem(cg *c, hlo_dtype t) {
  switch (t) {
  case HLO_PRED: return c->i8;
  case HLO_F16:
  case HLO_BF16: return c->i16;
  default: return nest_is_narrow(t) ? c->i8 : cg_rep(c, t);
  }
}
LLVMTypeRef cg_like(LLVMValueRef v, LLVMTypeRef scalar) {
  LLVMTypeRef t = LLVMTypeOf(v);
  return cg_is_vector(t) ? LLVMVectorType(scalar, LLVMGetVectorSize(t)) : scalar;
}
static LLVMValueRef spread(LLVMTypeRef like, LLVMValueRef k) {
  if (!cg_is_vector(like)) return k;
  LLVMValueRef v[64];
  u32 n = LLVMGetVectorSize(like);
  for (u32 i = 0; i < n; i++) v[i] = k;
  return LLVMConstVector(v, n);
}
LLVMValueRef cg_int(LLVMTypeRef like, i64 v) {
  return spread(like, LLVMConstInt(cg_scalar_of(like), (u64)v, true));
}
LLVMValueRef cg_fp(LLVMTypeRef like, double v) {
  return spread(like, LLVMConstReal(cg_scalar_of(like), v));
}

LLVMValueRef cg_splat(cg *c, LLVMValueRef s, u32 lanes) {
  LLVMTypeRef t = LLVMTypeOf(s);
  if (cg_is_vector(t) || lanes <= 1) return s;
  LLVMTypeRef vt = LLVMVectorType(t, lanes);
  if (LLVMIsConstant(s)) return spread(vt, s);
  LLVMValueRef v =
      LLVMBuildInsertElement(c->b, LLVMGetPoison(vt), s, LLVMConstInt(c->i32, 0, false), "");
  return LLVMBuildShuffleVector(c->b, v, LLVMGetPoison(vt),
                                LLVMConstNull(LLVMVectorType(c->i32, lanes)), "");
}

LLVMValueRef cg_const(cg *c, hlo_dtype t, const void *bits) {
  if (t == HLO_PRED) return LLVMConstInt(c->i1, *(const u8 *)bits != 0, false);
  if (hlo_dtype_is_float(t)) {
    u64 w = 0;
    if (t == HLO_F64) memcpy(&w, bits, 8);
    else {  // through the bits, so that NaN payloads stay
      float f;
      u16 h = 0;
      memcpy(&h, bits, hlo_dtype_storage(t) >= 2 ? 2 : 1);
      if (t == HLO_F32) memcpy(&f, bits, 4);
      else if (hlo_dtype_storage(t) == 1) f = (float)hlo_elem_to_f64(t, bits);
      else f = t == HLO_BF16 ? hlo_bf16_to_f32(h) : hlo_f16_to_f32(h);
      u32 u;
      memcpy(&u, &f, 4);
      w = u;
    }
    return LLVMConstBitCast(LLVMConstInt(t == HLO_F64 ? c->i64 : c->i32, w, false), cg_rep(c, t));
  }
  u64 w = 0;
  memcpy(&w, bits, hlo_dtype_storage(t));
  return LLVMConstInt(cg_rep(c, t), w, false);
}

// ---- to memory and back -------------------------------------------------------------------------
// Floats of 8 bits and below, by the numbers of their format, with the bits that the conversions of
// core/types/float.c have: normal numbers by moving the fields, those below as a count of steps.
static bool is_small(hlo_dtype t) { return hlo_dtype_is_float(t) && hlo_dtype_storage(t) == 1; }

static i64 encoded(hlo_dtype t, float f) {
  u8 code;
  hlo_floats_from_f32(t, &f, &code, 1);
  return code;
}

static LLVMValueRef small_from_mem(cg *c, hlo_dtype t, LLVMValueRef v) {
  const hlo_float_format *f = hlo_float_format_of(t);
  LLVMTypeRef it = cg_like(v, c->i32), ft = cg_like(v, c->f32);
  i64 sign = (i64)1 << (f->ebits + f->mbits), normal = (i64)1 << f->mbits;
  LLVMValueRef code = LLVMBuildZExt(c->b, v, it, ""),
               mag = LLVMBuildAnd(c->b, code, cg_int(it, sign - 1), ""),
               field = LLVMBuildShl(c->b, mag, cg_int(it, 23 - f->mbits), "");
  LLVMValueRef r = LLVMBuildAdd(c->b, field, cg_int(it, (i64)(127 - f->bias) << 23), "");
  if (f->top == HLO_TOP_IEEE) {
    LLVMValueRef top =
        LLVMBuildICmp(c->b, LLVMIntUGE, mag, cg_int(it, encoded(t, (float)INFINITY)), "");
    r = LLVMBuildSelect(c->b, top, LLVMBuildOr(c->b, field, cg_int(it, 0x7f800000), ""), r, "");
  }
  LLVMValueRef steps = LLVMBuildFMul(c->b, LLVMBuildSIToFP(c->b, mag, ft, ""),
                                     cg_fp(ft, ldexp(1, 1 - f->bias - f->mbits)), "");
  r = LLVMBuildSelect(c->b, LLVMBuildICmp(c->b, LLVMIntULT, mag, cg_int(it, normal), ""),
                      LLVMBuildBitCast(c->b, steps, it, ""), r, "");
  if (f->top == HLO_TOP_FN)
    r = LLVMBuildSelect(c->b, LLVMBuildICmp(c->b, LLVMIntEQ, mag, cg_int(it, sign - 1), ""),
                        cg_int(it, 0x7fc00000), r, "");
  LLVMValueRef minus = LLVMBuildAnd(c->b, code, cg_int(it, sign), "");
  minus = LLVMBuildShl(c->b, minus, cg_int(it, 31 - f->ebits - f->mbits), "");
  r = LLVMBuildOr(c->b, r, minus, "");
  if (f->top == HLO_TOP_FNUZ)
    r = LLVMBuildSelect(c->b, LLVMBuildICmp(c->b, LLVMIntEQ, code, cg_int(it, sign), ""),
                        cg_int(it, (i32)0xffc00000), r, "");
  return LLVMBuildBitCast(c->b, r, ft, "");
}

static LLVMValueRef small_to_mem(cg *c, hlo_dtype t, LLVMValueRef v) {
  const hlo_float_format *f = hlo_float_format_of(t);
  LLVMTypeRef it = cg_like(v, c->i32), ft = LLVMTypeOf(v);
  int cut = 23 - f->mbits;
  i64 sign = (i64)1 << (f->ebits + f->mbits), most = sign - 1;
  while (!isfinite(hlo_float_decode(f, (u32)most))) most--;
  LLVMValueRef bits = LLVMBuildBitCast(c->b, v, it, ""),
               mag = LLVMBuildAnd(c->b, bits, cg_int(it, 0x7fffffff), ""),
               minus = LLVMBuildICmp(c->b, LLVMIntSLT, bits, cg_int(it, 0), "");
  LLVMValueRef odd =
      LLVMBuildAnd(c->b, LLVMBuildLShr(c->b, mag, cg_int(it, cut), ""), cg_int(it, 1), "");
  LLVMValueRef up = LLVMBuildAdd(
      c->b, mag, LLVMBuildAdd(c->b, odd, cg_int(it, ((i64)1 << (cut - 1)) - 1), ""), "");
  LLVMValueRef code = LLVMBuildSub(c->b, LLVMBuildLShr(c->b, up, cg_int(it, cut), ""),
                                   cg_int(it, (i64)(127 - f->bias) << f->mbits), "");
  // below the normal numbers: added to a number whose last place is one step, which rounds them
  u32 magic = (u32)(127 + cut + 1 - f->bias) << 23;
  LLVMValueRef sum = LLVMBuildFAdd(c->b, LLVMBuildBitCast(c->b, mag, ft, ""),
                                   LLVMBuildBitCast(c->b, cg_int(it, (i64)magic), ft, ""), "");
  LLVMValueRef steps =
      LLVMBuildSub(c->b, LLVMBuildBitCast(c->b, sum, it, ""), cg_int(it, (i64)magic), "");
  LLVMValueRef low =
      LLVMBuildICmp(c->b, LLVMIntULT, mag, cg_int(it, (i64)(128 - f->bias) << 23), "");
  code = LLVMBuildSelect(c->b, low, steps, code, "");
  LLVMValueRef over = LLVMBuildICmp(c->b, LLVMIntSGT, code, cg_int(it, most), "");
  code = LLVMBuildSelect(c->b, over, cg_int(it, encoded(t, (float)INFINITY)), code, "");
  LLVMValueRef with = minus;
  if (f->top == HLO_TOP_FNUZ)  // there is no negative zero
    with =
        LLVMBuildAnd(c->b, minus, LLVMBuildICmp(c->b, LLVMIntNE, code, LLVMConstNull(it), ""), "");
  LLVMValueRef signs = LLVMBuildSelect(c->b, with, cg_int(it, sign), LLVMConstNull(it), "");
  code = LLVMBuildOr(c->b, code, signs, "");
  LLVMValueRef none = LLVMBuildSelect(c->b, minus, cg_int(it, encoded(t, -(float)NAN)),
                                      cg_int(it, encoded(t, (float)NAN)), "");
  if (f->top == HLO_TOP_IEEE) {  // what fits of the payload stays
    LLVMValueRef load = LLVMBuildAnd(c->b, LLVMBuildLShr(c->b, mag, cg_int(it, cut), ""),
                                     cg_int(it, ((i64)1 << f->mbits) - 1), "");
    LLVMValueRef kept = LLVMBuildOr(c->b, load, cg_int(it, encoded(t, (float)INFINITY)), "");
    none = LLVMBuildSelect(c->b, LLVMBuildICmp(c->b, LLVMIntNE, load, LLVMConstNull(it), ""),
                           LLVMBuildOr(c->b, kept, signs, ""), none, "");
  }
  LLVMValueRef nan = LLVMBuildICmp(c->b, LLVMIntUGT, mag, cg_int(it, 0x7f800000), "");
  return LLVMBuildTrunc(c->b, LLVMBuildSelect(c->b, nan, none, code, ""), cg_like(v, c->i8), "");
}

LLVMValueRef cg_from_mem(cg *c, hlo_dtype t, LLVMValueRef v) {
  switch (t) {
  case HLO_PRED: return LLVMBuildICmp(c->b, LLVMIntNE, v, LLVMConstNull(LLVMTypeOf(v)), "");
  case HLO_F16:
    return LLVMBuildFPExt(c->b, LLVMBuildBitCast(c->b, v, cg_like(v, c->f16), ""),
                          cg_like(v, c->f32), "");
  case HLO_BF16: {
    LLVMTypeRef it = cg_like(v, c->i32);
    return LLVMBuildBitCast(c->b,
                            LLVMBuildShl(c->b, LLVMBuildZExt(c->b, v, it, ""), cg_int(it, 16), ""),
                            cg_like(v, c->f32), "");
  }
  default: return is_small(t) ? small_from_mem(c, t, v) : v;
  }
}

LLVMValueRef cg_to_mem(cg *c, hlo_dtype t, LLVMValueRef v) {
  switch (t) {
  case HLO_PRED: return LLVMBuildZExt(c->b, v, cg_like(v, c->i8), "");
  case HLO_F16:
    return LLVMBuildBitCast(c->b, LLVMBuildFPTrunc(c->b, v, cg_like(v, c->f16), ""),
                            cg_like(v, c->i16), "");
  case HLO_BF16: {
    LLVMTypeRef it = cg_like(v, c->i32);
    LLVMValueRef w = LLVMBuildBitCast(c->b, v, it, "");
    return LLVMBuildTrunc(c->b, LLVMBuildLShr(c->b, w, cg_int(it, 16), ""), cg_like(v, c->i16), "");
  }
  default: return is_small(t) ? small_to_mem(c, t, v) : v;
  }
}

// ---- intrinsics ---------------------------------------------------------------------------------
LLVMValueRef cg_intrinsic(cg *c, const char *name, u32 ntypes, LLVMTypeRef *types, u32 n,
                          LLVMValueRef *args) {
  unsigned id = LLVMLookupIntrinsicID(name, strlen(name));
  LLVMValueRef f = LLVMGetIntrinsicDeclaration(c->mod, id, types, ntypes);
  return LLVMBuildCall2(c->b, LLVMIntrinsicGetType(c->ctx, id, types, ntypes), f, args, n, "");
}
LLVMValueRef cg_unary_intrinsic(cg *c, const char *name, LLVMValueRef x) {
  LLVMTypeRef t = LLVMTypeOf(x);
  return cg_intrinsic(c, name, 1, &t, 1, &x);
}

// ---- stack memory -------------------------------------------------------------------------------
// Allocas stand in the entry block: once per call site, not once per iteration.
LLVMValueRef cg_slot(cg *c, LLVMTypeRef t) {
  LLVMBasicBlockRef entry = LLVMGetEntryBasicBlock(c->fn);
  LLVMValueRef first = LLVMGetFirstInstruction(entry);
  if (first) LLVMPositionBuilderBefore(c->b, first);
  else LLVMPositionBuilderAtEnd(c->b, entry);
  LLVMValueRef p = LLVMBuildAlloca(c->b, t, "");
  LLVMSetAlignment(p, 64);
  // some GPUs have the stack in a space of its own
  if (LLVMTypeOf(p) != c->ptr) p = LLVMBuildAddrSpaceCast(c->b, p, c->ptr, "");
  LLVMPositionBuilderAtEnd(c->b, c->ins[c->level]);
  return p;
}
