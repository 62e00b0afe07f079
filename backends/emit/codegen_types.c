// codegen_types.c — how values of each element type are represented in LLVM: types, constants,
// splats, calls of intrinsics, stack slots. The lowest file of the code generator: it calls none of
// the others.
//
// A value is a scalar or a vector of its representation type (cg_rep); in memory it has another
// type where the two differ (cg_mem): pred is i1 and one byte, f16 and bf16 are float and 16 bits.
#include "backends/emit/codegen.h"
#include "core/types/float.h"

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
  LLVMPositionBuilderAtEnd(c->b, c->ins[c->level]);
  return p;
}
