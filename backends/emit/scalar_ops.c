// scalar_ops.c — one HLO operation on one element (or one vector of elements): LLVM values in,
// LLVM value out.
//
// f16 and bf16 values are floats that hold a representable value: every arithmetic operation on
// them is done in f32, and the result is rounded to nearest even at once. Operations are total:
// integer division by zero, shifts past the width and float to integer conversion out of range have
// XLA's values, so a masked lane can never trap.
#include "backends/emit/codegen.h"
#include "core/types/float.h"

#include <math.h>

// ---- narrow types ------------------------------------------------------------------------------
// float -> the 32 bits whose upper half is the rounded value
static LLVMValueRef bf16_bits(cg *c, LLVMValueRef x) {
  LLVMTypeRef it = cg_like(x, c->i32);
  LLVMValueRef v = LLVMBuildBitCast(c->b, x, it, "");
  LLVMValueRef lsb =
      LLVMBuildAnd(c->b, LLVMBuildLShr(c->b, v, cg_int(it, 16), ""), cg_int(it, 1), "");
  LLVMValueRef r = LLVMBuildAdd(c->b, v, LLVMBuildAdd(c->b, lsb, cg_int(it, 0x7fff), ""), "");
  LLVMValueRef nan = LLVMBuildFCmp(c->b, LLVMRealUNO, x, x, "");
  return LLVMBuildSelect(c->b, nan, LLVMBuildOr(c->b, v, cg_int(it, 0x400000), ""), r, "");
}

static bool is_tiny(hlo_dtype t) { return hlo_dtype_is_float(t) && hlo_dtype_storage(t) == 1; }

// Integers of less than 8 bits live in 8; after an operation they are extended again from their own
// width.
static LLVMValueRef wrap(cg *c, hlo_dtype t, LLVMValueRef x) {
  if (!hlo_dtype_is_integer(t) || hlo_dtype_bits(t) >= 8) return x;
  LLVMTypeRef it = LLVMTypeOf(x);
  LLVMValueRef up = LLVMBuildShl(c->b, x, cg_int(it, 8 - hlo_dtype_bits(t)), "");
  return hlo_dtype_is_signed(t) ? LLVMBuildAShr(c->b, up, cg_int(it, 8 - hlo_dtype_bits(t)), "")
                                : LLVMBuildLShr(c->b, up, cg_int(it, 8 - hlo_dtype_bits(t)), "");
}
static LLVMValueRef low_bits(cg *c, hlo_dtype t, LLVMValueRef x) {  // without sign extension
  return hlo_dtype_bits(t) >= 8
             ? x
             : LLVMBuildAnd(c->b, x, cg_int(LLVMTypeOf(x), (1 << hlo_dtype_bits(t)) - 1), "");
}

// To the precision of f16, bf16 or below.
static LLVMValueRef rounded(cg *c, hlo_dtype t, LLVMValueRef x) {
  if (is_tiny(t)) return cg_from_mem(c, t, cg_to_mem(c, t, x));
  LLVMTypeRef it = cg_like(x, c->i32);
  if (t == HLO_BF16)
    return LLVMBuildBitCast(c->b,
                            LLVMBuildAnd(c->b, bf16_bits(c, x), cg_int(it, (i64)0xffff0000), ""),
                            LLVMTypeOf(x), "");
  if (t == HLO_F16)
    return LLVMBuildFPExt(c->b, LLVMBuildFPTrunc(c->b, x, cg_like(x, c->f16), ""), LLVMTypeOf(x),
                          "");
  return x;
}

// ---- conversions --------------------------------------------------------------------------------
// double -> float rounded to odd: a second rounding to 16 bits is then the right one.
static LLVMValueRef trunc_odd(cg *c, LLVMValueRef x) {
  LLVMTypeRef ft = cg_like(x, c->f32), it = cg_like(x, c->i32);
  LLVMValueRef f = LLVMBuildFPTrunc(c->b, x, ft, ""),
               back = LLVMBuildFPExt(c->b, f, LLVMTypeOf(x), "");
  LLVMValueRef bits = LLVMBuildBitCast(c->b, f, it, "");
  LLVMValueRef inexact = LLVMBuildFCmp(c->b, LLVMRealONE, x, back, "");
  LLVMValueRef above = LLVMBuildFCmp(c->b, LLVMRealOGT, cg_unary_intrinsic(c, "llvm.fabs", back),
                                     cg_unary_intrinsic(c, "llvm.fabs", x), "");
  // toward zero
  LLVMValueRef down = LLVMBuildSub(c->b, bits, LLVMBuildZExt(c->b, above, it, ""), "");
  LLVMValueRef odd = LLVMBuildOr(c->b, down, LLVMBuildZExt(c->b, inexact, it, ""), "");
  return LLVMBuildBitCast(c->b, odd, ft, "");
}

// Float to integer toward zero; out of range the nearest end, of NaN zero. Clamped as floats first:
// LLVM takes its own saturating conversion to small integers apart, lane by lane.
static LLVMValueRef to_int(cg *c, LLVMValueRef x, LLVMTypeRef it, bool sgn) {
  LLVMTypeRef t = LLVMTypeOf(x);
  bool d = cg_scalar_of(t) == c->f64;
  int bits = (int)LLVMGetIntTypeWidth(cg_scalar_of(it)), top = sgn ? bits - 1 : bits,
      precise = d ? 53 : 24;
  double end = ldexp(1, top), low = sgn ? -end : 0,
         high = top <= precise ? end - 1 : end - ldexp(1, top - precise);
  LLVMValueRef v =
      LLVMBuildSelect(c->b, LLVMBuildFCmp(c->b, LLVMRealORD, x, x, ""), x, LLVMConstNull(t), "");
  v = LLVMBuildSelect(c->b, LLVMBuildFCmp(c->b, LLVMRealOLT, v, cg_fp(t, low), ""), cg_fp(t, low),
                      v, "");
  v = LLVMBuildSelect(c->b, LLVMBuildFCmp(c->b, LLVMRealOGT, v, cg_fp(t, high), ""), cg_fp(t, high),
                      v, "");
  LLVMTypeRef wide = bits < 32 ? cg_like(x, c->i32) : it;
  v = sgn || bits < 32 ? LLVMBuildFPToSI(c->b, v, wide, "") : LLVMBuildFPToUI(c->b, v, wide, "");
  if (bits < 32) return LLVMBuildTrunc(c->b, v, it, "");
  if (top <= precise) return v;
  LLVMValueRef most = sgn ? cg_int(it, (i64)((1ull << (bits - 1)) - 1)) : LLVMConstAllOnes(it);
  return LLVMBuildSelect(c->b, LLVMBuildFCmp(c->b, LLVMRealOGE, x, cg_fp(t, end), ""), most, v, "");
}

LLVMValueRef cg_convert(cg *c, hlo_dtype from, hlo_dtype to, LLVMValueRef x) {
  if (from == to) return x;
  if (hlo_dtype_is_integer(from) && hlo_dtype_bits(from) < 8)
    from = hlo_dtype_is_signed(from) ? HLO_S8 : HLO_U8;
  if (hlo_dtype_is_integer(to) && hlo_dtype_bits(to) < 8) {
    bool s = hlo_dtype_is_signed(to);
    if (!hlo_dtype_is_float(from)) return wrap(c, to, cg_convert(c, from, s ? HLO_S8 : HLO_U8, x));
    LLVMValueRef v =
        to_int(c, x, cg_like(x, LLVMIntTypeInContext(c->ctx, (unsigned)hlo_dtype_bits(to))), s);
    return s ? LLVMBuildSExt(c->b, v, cg_like(x, c->i8), "")
             : LLVMBuildZExt(c->b, v, cg_like(x, c->i8), "");
  }
  LLVMTypeRef rt = cg_like(x, cg_rep(c, to));
  bool ff = hlo_dtype_is_float(from), tf = hlo_dtype_is_float(to), sgn = hlo_dtype_is_signed(from);
  if (to == HLO_PRED) {
    // Not x != 0: LLVM decides that of a widened bf16 by its bits, denormals included. By the bits,
    // then: at least the smallest number that is not zero.
    if (ff) {
      bool d = from == HLO_F64;
      LLVMTypeRef it = cg_like(x, d ? c->i64 : c->i32);
      LLVMValueRef mag = LLVMBuildAnd(c->b, LLVMBuildBitCast(c->b, x, it, ""),
                                      cg_int(it, d ? INT64_MAX : 0x7fffffff), "");
      i64 least = c->keep_denormals ? 1 : d ? (i64)1 << 52 : 1 << 23;
      return LLVMBuildICmp(c->b, LLVMIntUGE, mag, cg_int(it, least), "");
    }
    return LLVMBuildICmp(c->b, LLVMIntNE, x, LLVMConstNull(LLVMTypeOf(x)), "");
  }
  if (ff && tf) {
    if (from == HLO_F64) {
      if (to == HLO_F32) return LLVMBuildFPTrunc(c->b, x, rt, "");
      // XLA rounds to 16 bits by way of f32, to 8 at once
      return rounded(
          c, to, is_tiny(to) ? trunc_odd(c, x) : LLVMBuildFPTrunc(c->b, x, cg_like(x, c->f32), ""));
    }
    if (to == HLO_F64) return LLVMBuildFPExt(c->b, x, rt, "");
    // f32, or a narrow format whose values are f32s already
    return rounded(c, to, x);
  }
  if (ff) return to_int(c, x, rt, hlo_dtype_is_signed(to));
  if (tf) {
    if (to == HLO_F64 || to == HLO_F32)
      return sgn ? LLVMBuildSIToFP(c->b, x, rt, "") : LLVMBuildUIToFP(c->b, x, rt, "");
    LLVMTypeRef dt = cg_like(x, c->f32);
    return rounded(c, to,
                   sgn ? LLVMBuildSIToFP(c->b, x, dt, "") : LLVMBuildUIToFP(c->b, x, dt, ""));
  }
  int wf = from == HLO_PRED ? 1 : hlo_dtype_bits(from), wt = hlo_dtype_bits(to);
  if (wf == wt) return x;
  if (wf > wt) return LLVMBuildTrunc(c->b, x, rt, "");
  return sgn ? LLVMBuildSExt(c->b, x, rt, "") : LLVMBuildZExt(c->b, x, rt, "");
}

static LLVMValueRef reinterpret(cg *c, hlo_dtype from, hlo_dtype to, LLVMValueRef x) {
  LLVMValueRef m = cg_to_mem(c, from, x);
  m = LLVMBuildBitCast(c->b, m, cg_like(m, cg_mem(c, to)), "");
  return cg_from_mem(c, to, wrap(c, to, m));
}

// ---- integers -----------------------------------------------------------------------------------
static LLVMValueRef int_divide(cg *c, bool rem, bool sgn, LLVMValueRef a, LLVMValueRef b) {
  LLVMTypeRef t = LLVMTypeOf(a);
  LLVMValueRef zero = LLVMBuildICmp(c->b, LLVMIntEQ, b, LLVMConstNull(t), ""), minus = NULL, safe;
  safe = LLVMBuildSelect(c->b, zero, cg_int(t, 1), b, "");
  if (sgn) {
    minus = LLVMBuildICmp(c->b, LLVMIntEQ, b, LLVMConstAllOnes(t), "");
    safe = LLVMBuildSelect(c->b, minus, cg_int(t, 1), safe, "");
  }
  LLVMValueRef q;
  if (rem) {
    // x rem 1 is 0, right for -1 too
    q = sgn ? LLVMBuildSRem(c->b, a, safe, "") : LLVMBuildURem(c->b, a, safe, "");
    return LLVMBuildSelect(c->b, zero, a, q, "");
  }
  q = sgn ? LLVMBuildSDiv(c->b, a, safe, "") : LLVMBuildUDiv(c->b, a, safe, "");
  if (sgn) q = LLVMBuildSelect(c->b, minus, LLVMBuildNeg(c->b, a, ""), q, "");
  return LLVMBuildSelect(c->b, zero, LLVMConstAllOnes(t), q, "");
}

static LLVMValueRef shift(cg *c, hlo_opcode op, hlo_dtype dt, LLVMValueRef a, LLVMValueRef b) {
  LLVMTypeRef t = LLVMTypeOf(a);
  u32 width = dt == HLO_PRED ? 1 : (u32)hlo_dtype_bits(dt);
  b = dt == HLO_PRED ? b : low_bits(c, hlo_dtype_bits(dt) < 8 ? HLO_U8 : dt, b);
  LLVMValueRef in = LLVMBuildICmp(c->b, LLVMIntULT, b, cg_int(t, width), "");
  LLVMValueRef k =
      LLVMBuildSelect(c->b, in, b, cg_int(t, op == HLO_SHIFT_RIGHT_ARITH ? width - 1 : 0), "");
  // the top bit of the type is the sign, of unsigned types too
  if (op == HLO_SHIFT_RIGHT_ARITH) {
    if (width < LLVMGetIntTypeWidth(cg_scalar_of(t))) {
      LLVMValueRef unused = cg_int(t, LLVMGetIntTypeWidth(cg_scalar_of(t)) - width);
      a = LLVMBuildAShr(c->b, LLVMBuildShl(c->b, a, unused, ""), unused, "");
    }
    return LLVMBuildAShr(c->b, a, k, "");
  }
  LLVMValueRef r = op == HLO_SHIFT_LEFT
                       ? LLVMBuildShl(c->b, a, k, "")
                       : LLVMBuildLShr(c->b, dt == HLO_PRED ? a : low_bits(c, dt, a), k, "");
  return LLVMBuildSelect(c->b, in, r, LLVMConstNull(t), "");
}

// Powers of integers by squaring, six steps whatever the width, as XLA does it: exponents count
// modulo 64. Unsigned operands are taken for signed ones, as there. A negative exponent gives 0,
// except for bases 1 and -1; base 0 gives all ones (1/0).
static LLVMValueRef int_power(cg *c, LLVMValueRef x, LLVMValueRef y) {
  LLVMTypeRef t = LLVMTypeOf(x);
  u32 width = LLVMGetIntTypeWidth(cg_scalar_of(t));
  LLVMValueRef r = cg_int(t, 1), p = x, e = y;
  for (u32 k = 0; k < HS_MIN(width, 6u); k++) {
    LLVMValueRef bit = LLVMBuildICmp(c->b, LLVMIntNE, LLVMBuildAnd(c->b, e, cg_int(t, 1), ""),
                                     LLVMConstNull(t), "");
    r = LLVMBuildSelect(c->b, bit, LLVMBuildMul(c->b, r, p, ""), r, "");
    p = LLVMBuildMul(c->b, p, p, "");
    e = LLVMBuildLShr(c->b, e, cg_int(t, 1), "");
  }
  LLVMValueRef neg = LLVMBuildICmp(c->b, LLVMIntSLT, y, LLVMConstNull(t), "");
  LLVMValueRef is1 = LLVMBuildICmp(c->b, LLVMIntEQ, x, cg_int(t, 1), ""),
               ism1 = LLVMBuildICmp(c->b, LLVMIntEQ, x, cg_int(t, -1), "");
  LLVMValueRef odd =
      LLVMBuildICmp(c->b, LLVMIntNE, LLVMBuildAnd(c->b, y, cg_int(t, 1), ""), LLVMConstNull(t), "");
  LLVMValueRef n =
      LLVMBuildSelect(c->b, ism1, LLVMBuildSelect(c->b, odd, cg_int(t, -1), cg_int(t, 1), ""),
                      LLVMConstNull(t), "");
  n = LLVMBuildSelect(c->b, is1, cg_int(t, 1), n, "");
  return LLVMBuildSelect(c->b, neg, n, r, "");
}

static LLVMValueRef int_mulhi(cg *c, hlo_dtype dt, bool sgn, LLVMValueRef a, LLVMValueRef b) {
  LLVMTypeRef t = LLVMTypeOf(a);
  LLVMTypeRef wt =
      cg_like(a, LLVMIntTypeInContext(c->ctx, 2 * LLVMGetIntTypeWidth(cg_scalar_of(t))));
  LLVMValueRef x = sgn ? LLVMBuildSExt(c->b, a, wt, "") : LLVMBuildZExt(c->b, a, wt, "");
  LLVMValueRef y = sgn ? LLVMBuildSExt(c->b, b, wt, "") : LLVMBuildZExt(c->b, b, wt, "");
  return LLVMBuildTrunc(
      c->b, LLVMBuildLShr(c->b, LLVMBuildMul(c->b, x, y, ""), cg_int(wt, hlo_dtype_bits(dt)), ""),
      t, "");
}

// NaN when either operand is NaN.
static LLVMValueRef minmax(cg *c, hlo_dtype t, bool max, LLVMValueRef a, LLVMValueRef b) {
  if (t == HLO_PRED) return max ? LLVMBuildOr(c->b, a, b, "") : LLVMBuildAnd(c->b, a, b, "");
  if (!hlo_dtype_is_float(t)) {
    LLVMIntPredicate p =
        hlo_dtype_is_signed(t) ? (max ? LLVMIntSGT : LLVMIntSLT) : (max ? LLVMIntUGT : LLVMIntULT);
    return LLVMBuildSelect(c->b, LLVMBuildICmp(c->b, p, a, b, ""), a, b, "");
  }
  // (b > a ? b : a) is one machine instruction that keeps a when either is NaN; then b's NaN wins.
  LLVMValueRef m = LLVMBuildSelect(
      c->b, LLVMBuildFCmp(c->b, max ? LLVMRealOGT : LLVMRealOLT, b, a, ""), b, a, "");
  return LLVMBuildSelect(c->b, LLVMBuildFCmp(c->b, LLVMRealUNO, b, b, ""), b, m, "");
}

static LLVMValueRef compare(cg *c, const nest_node *x, LLVMValueRef a, LLVMValueRef b) {
  static const LLVMRealPredicate fp[] = {LLVMRealOEQ, LLVMRealUNE, LLVMRealOGE,
                                         LLVMRealOGT, LLVMRealOLE, LLVMRealOLT};
  static const LLVMIntPredicate si[] = {LLVMIntEQ,  LLVMIntNE,  LLVMIntSGE,
                                        LLVMIntSGT, LLVMIntSLE, LLVMIntSLT};
  static const LLVMIntPredicate ui[] = {LLVMIntEQ,  LLVMIntNE,  LLVMIntUGE,
                                        LLVMIntUGT, LLVMIntULE, LLVMIntULT};
  if (hlo_dtype_is_float(x->in) && !x->attr[1])
    return LLVMBuildFCmp(c->b, fp[x->attr[0]], a, b, "");
  // total order: sign-magnitude bits made two's complement
  if (hlo_dtype_is_float(x->in)) {
    LLVMTypeRef it = cg_like(a, x->in == HLO_F64 ? c->i64 : c->i32);
    u32 w = x->in == HLO_F64 ? 63 : 31;
    LLVMValueRef k[2] = {LLVMBuildBitCast(c->b, a, it, ""), LLVMBuildBitCast(c->b, b, it, "")};
    for (int i = 0; i < 2; i++) {
      LLVMValueRef s =
          LLVMBuildLShr(c->b, LLVMBuildAShr(c->b, k[i], cg_int(it, w), ""), cg_int(it, 1), "");
      k[i] = LLVMBuildXor(c->b, k[i], s, "");
    }
    return LLVMBuildICmp(c->b, si[x->attr[0]], k[0], k[1], "");
  }
  return LLVMBuildICmp(c->b, hlo_dtype_is_signed(x->in) ? si[x->attr[0]] : ui[x->attr[0]], a, b,
                       "");
}

static LLVMValueRef int_op(cg *c, const nest_node *x, LLVMValueRef *a) {
  LLVMTypeRef t = LLVMTypeOf(a[0]);
  bool sgn = hlo_dtype_is_signed(x->in), pred = x->in == HLO_PRED;
  switch (x->op) {
  case HLO_ADD:
    return pred ? LLVMBuildOr(c->b, a[0], a[1], "") : LLVMBuildAdd(c->b, a[0], a[1], "");
  case HLO_SUBTRACT:
    return pred ? LLVMBuildXor(c->b, a[0], a[1], "") : LLVMBuildSub(c->b, a[0], a[1], "");
  case HLO_MULTIPLY:
    return pred ? LLVMBuildAnd(c->b, a[0], a[1], "") : LLVMBuildMul(c->b, a[0], a[1], "");
  case HLO_DIVIDE:
    return pred ? LLVMBuildAnd(c->b, a[0], a[1], "") : int_divide(c, false, sgn, a[0], a[1]);
  case HLO_REMAINDER: return int_divide(c, true, sgn, a[0], a[1]);
  case HLO_POWER: return int_power(c, a[0], a[1]);
  case HLO_MULHI: return int_mulhi(c, x->in, sgn, a[0], a[1]);
  case HLO_AND: return LLVMBuildAnd(c->b, a[0], a[1], "");
  case HLO_OR: return LLVMBuildOr(c->b, a[0], a[1], "");
  case HLO_XOR: return LLVMBuildXor(c->b, a[0], a[1], "");
  case HLO_NOT: return LLVMBuildNot(c->b, a[0], "");
  case HLO_NEGATE: return LLVMBuildNeg(c->b, a[0], "");
  case HLO_SHIFT_LEFT:
  case HLO_SHIFT_RIGHT_ARITH:
  case HLO_SHIFT_RIGHT_LOGICAL: return shift(c, x->op, x->in, a[0], a[1]);
  case HLO_POPCNT: return cg_unary_intrinsic(c, "llvm.ctpop", low_bits(c, x->in, a[0]));
  case HLO_CLZ: {
    LLVMValueRef z =
        cg_intrinsic(c, "llvm.ctlz", 1, &t, 2,
                     (LLVMValueRef[]){low_bits(c, x->in, a[0]), LLVMConstInt(c->i1, 0, false)});
    return hlo_dtype_bits(x->in) >= 8
               ? z
               : LLVMBuildSub(c->b, z, cg_int(t, 8 - hlo_dtype_bits(x->in)), "");
  }
  case HLO_ABS:
    if (!sgn) return a[0];
    return LLVMBuildSelect(c->b, LLVMBuildICmp(c->b, LLVMIntSLT, a[0], LLVMConstNull(t), ""),
                           LLVMBuildNeg(c->b, a[0], ""), a[0], "");
  case HLO_SIGN: {
    LLVMValueRef nz =
        LLVMBuildZExt(c->b, LLVMBuildICmp(c->b, LLVMIntNE, a[0], LLVMConstNull(t), ""), t, "");
    if (!sgn) return nz;
    return LLVMBuildOr(
        c->b, LLVMBuildAShr(c->b, a[0], cg_int(t, LLVMGetIntTypeWidth(cg_scalar_of(t)) - 1), ""),
        nz, "");
  }
  default: return NULL;
  }
}

// ---- floats -------------------------------------------------------------------------------------
static LLVMValueRef reduce_precision(cg *c, const nest_node *x, LLVMValueRef v) {
  // Rounds the mantissa to nearest even, then sends exponents out of range to zero or infinity. NaN
  // stays NaN. Formats narrower than f16 are taken for f16, where that has their range.
  bool d = x->in == HLO_F64, half = x->in == HLO_F16 || (is_tiny(x->in) && x->in != HLO_F8E8M0FNU);
  int mb = d ? 52 : half ? 10 : 23, eb = d ? 11 : half ? 5 : 8;
  i64 e = x->attr[0], m = x->attr[1];
  LLVMTypeRef rep = LLVMTypeOf(v), ft = half ? cg_like(v, c->f16) : rep,
              it = cg_like(v, d      ? c->i64
                              : half ? c->i16
                                     : c->i32);
  LLVMValueRef wide = v;
  if (half) v = LLVMBuildFPTrunc(c->b, v, ft, "");
  LLVMValueRef bits = LLVMBuildBitCast(c->b, v, it, ""), orig = bits;
  u64 sign = 1ull << (mb + eb);
  if (m < mb) {
    int cut = mb - (int)m;
    LLVMValueRef lsb =
        LLVMBuildAnd(c->b, LLVMBuildLShr(c->b, bits, cg_int(it, cut), ""), cg_int(it, 1), "");
    bits = LLVMBuildAdd(
        c->b, bits, LLVMBuildAdd(c->b, lsb, cg_int(it, (i64)((1ull << (cut - 1)) - 1)), ""), "");
    bits = LLVMBuildAnd(c->b, bits, cg_int(it, (i64) ~((1ull << cut) - 1)), "");
  }
  if (e < eb) {
    i64 bias = ((i64)1 << (eb - 1)) - 1, small = ((i64)1 << (e - 1)) - 1;
    LLVMValueRef ex = LLVMBuildAnd(c->b, bits, cg_int(it, (i64)(((1ull << eb) - 1) << mb)), "");
    LLVMValueRef over =
        LLVMBuildICmp(c->b, LLVMIntUGT, ex, cg_int(it, (i64)((u64)(bias + small) << mb)), "");
    LLVMValueRef under =
        LLVMBuildICmp(c->b, LLVMIntULE, ex, cg_int(it, (i64)((u64)(bias - small) << mb)), "");
    LLVMValueRef s = LLVMBuildAnd(c->b, bits, cg_int(it, (i64)sign), "");
    bits = LLVMBuildSelect(c->b, over,
                           LLVMBuildOr(c->b, s, cg_int(it, (i64)(((1ull << eb) - 1) << mb)), ""),
                           bits, "");
    bits = LLVMBuildSelect(c->b, under, s, bits, "");
  }
  LLVMValueRef nan = LLVMBuildFCmp(c->b, LLVMRealUNO, wide, wide, "");
  bits = LLVMBuildSelect(
      c->b, nan, LLVMBuildOr(c->b, orig, cg_int(it, (i64)(1ull << (mb - 1))), ""), bits, "");
  v = LLVMBuildBitCast(c->b, bits, ft, "");
  return half ? LLVMBuildFPExt(c->b, v, rep, "") : v;
}

// Lets code generation join a sum and the product in it, where the module's options allow it, as
// XLA:CPU does. The mathematical functions (vmath.c) are not touched: they rely on their rounding.
static LLVMValueRef contracted(const cg *c, LLVMValueRef v) {
#if HLOSH_LLVM_MAJOR >= 18
  if (c->contract && LLVMIsAInstruction(v)) LLVMSetFastMathFlags(v, LLVMFastMathAllowContract);
#else
  (void)c;
#endif
  return v;
}

static LLVMValueRef float_op(cg *c, const nest_node *x, LLVMValueRef *a, bool *exact) {
  LLVMTypeRef t = LLVMTypeOf(a[0]);
  switch (x->op) {
  case HLO_ADD: return contracted(c, LLVMBuildFAdd(c->b, a[0], a[1], ""));
  case HLO_SUBTRACT: return contracted(c, LLVMBuildFSub(c->b, a[0], a[1], ""));
  case HLO_MULTIPLY: return contracted(c, LLVMBuildFMul(c->b, a[0], a[1], ""));
  case HLO_DIVIDE: return LLVMBuildFDiv(c->b, a[0], a[1], "");
  case HLO_SQRT: return cg_unary_intrinsic(c, "llvm.sqrt", a[0]);
  case HLO_REDUCE_PRECISION: return reduce_precision(c, x, a[0]);
  default: break;
  }
  *exact = true;
  switch (x->op) {
  case HLO_NEGATE: return LLVMBuildFNeg(c->b, a[0], "");
  case HLO_ABS: return cg_unary_intrinsic(c, "llvm.fabs", a[0]);
  case HLO_FLOOR: return cg_unary_intrinsic(c, "llvm.floor", a[0]);
  case HLO_CEIL: return cg_unary_intrinsic(c, "llvm.ceil", a[0]);
  case HLO_ROUND_EVEN: return cg_unary_intrinsic(c, "llvm.rint", a[0]);
  // away from zero at one half: trunc, then one more where the rest is >= 1/2
  case HLO_ROUND_AFZ: {
    LLVMValueRef r = cg_unary_intrinsic(c, "llvm.trunc", a[0]);
    LLVMValueRef rest = cg_unary_intrinsic(c, "llvm.fabs", LLVMBuildFSub(c->b, a[0], r, ""));
    LLVMValueRef up =
        LLVMBuildSelect(c->b, LLVMBuildFCmp(c->b, LLVMRealOGE, rest, cg_fp(t, 0.5), ""),
                        cg_fp(t, 1), cg_fp(t, 0), "");
    LLVMTypeRef ty = t;
    LLVMValueRef s = cg_intrinsic(c, "llvm.copysign", 1, &ty, 2, (LLVMValueRef[]){up, a[0]});
    LLVMValueRef sum = LLVMBuildFAdd(c->b, r, s, "");
    return cg_intrinsic(c, "llvm.copysign", 1, &ty, 2, (LLVMValueRef[]){sum, a[0]});
  }
  case HLO_SIGN: {
    LLVMTypeRef ty = t;
    LLVMValueRef one =
        cg_intrinsic(c, "llvm.copysign", 1, &ty, 2, (LLVMValueRef[]){cg_fp(t, 1), a[0]});
    // zeros, NaNs, and denormals where they count as zero
    LLVMValueRef nil = LLVMBuildFMul(c->b, a[0], LLVMConstNull(t), "");
    return LLVMBuildSelect(c->b, LLVMBuildFCmp(c->b, LLVMRealUEQ, a[0], LLVMConstNull(t), ""), nil,
                           one, "");
  }
  case HLO_IS_FINITE:
    return LLVMBuildFCmp(c->b, LLVMRealOLT, cg_unary_intrinsic(c, "llvm.fabs", a[0]),
                         cg_fp(t, __builtin_inf()), "");
  default: break;
  }
  *exact = false;
  return cg_math(c, x->op, x->in == HLO_F64 ? HLO_F64 : HLO_F32, a[0], x->nargs > 1 ? a[1] : NULL);
}

LLVMValueRef cg_op(cg *c, const nest_node *x, LLVMValueRef *a) {
  switch (x->op) {
  case HLO_SELECT: return LLVMBuildSelect(c->b, a[0], a[1], a[2], "");
  case HLO_CONVERT: return cg_convert(c, x->in, x->dtype, a[0]);
  case HLO_BITCAST_CONVERT: return reinterpret(c, x->in, x->dtype, a[0]);
  case HLO_COMPARE: return compare(c, x, a[0], a[1]);
  case HLO_MAXIMUM:
  case HLO_MINIMUM: return minmax(c, x->in, x->op == HLO_MAXIMUM, a[0], a[1]);
  case HLO_CLAMP: return minmax(c, x->in, false, a[2], minmax(c, x->in, true, a[0], a[1]));
  default: break;
  }
  if (!hlo_dtype_is_float(x->in)) {
    LLVMValueRef v = int_op(c, x, a);
    return v ? wrap(c, x->dtype, v) : NULL;
  }
  if (x->dtype == HLO_PRED) {
    bool ignored;
    return float_op(c, x, a, &ignored);
  }
  bool exact = false;
  LLVMValueRef v = float_op(c, x, a, &exact);
  if (!v || exact) return v;
  return rounded(c, x->dtype, v);
}
