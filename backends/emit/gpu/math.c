// math.c — the functions that the CPU leaves to libm, as code.
//
// All of them are computed in double precision, in terms of those that vmath.c has; single
// precision converts. Three are functions with loops or tables that are called lane by lane: sine
// and cosine of what is too large for the reduction by fused multiply-add (Payne and Hanek: the
// bits of 2/pi that matter, times the mantissa, in integers), the remainder (long division of the
// mantissas), and erf (a continued fraction).
#include "backends/emit/gpu/code.h"

#include <math.h>
#include <stdio.h>

typedef LLVMValueRef val;
#define B (c->b)

static val k(val like, double v) { return cg_fp(LLVMTypeOf(like), v); }
static val add(cg *c, val a, val b) { return LLVMBuildFAdd(B, a, b, ""); }
static val sub(cg *c, val a, val b) { return LLVMBuildFSub(B, a, b, ""); }
static val mul(cg *c, val a, val b) { return LLVMBuildFMul(B, a, b, ""); }
static val dvd(cg *c, val a, val b) { return LLVMBuildFDiv(B, a, b, ""); }
static val sel(cg *c, val p, val a, val b) { return LLVMBuildSelect(B, p, a, b, ""); }
static val fcmp(cg *c, LLVMRealPredicate p, val a, val b) { return LLVMBuildFCmp(B, p, a, b, ""); }
static val abs_(cg *c, val x) { return cg_unary_intrinsic(c, "llvm.fabs", x); }
static val sqrt_(cg *c, val x) { return cg_unary_intrinsic(c, "llvm.sqrt", x); }
static val neg(cg *c, val x) { return LLVMBuildFNeg(B, x, ""); }
static val fma3(cg *c, val a, val b, val d) {
  LLVMTypeRef t = LLVMTypeOf(a);
  return cg_intrinsic(c, "llvm.fma", 1, &t, 3, (val[]){a, b, d});
}
static val sign_of(cg *c, val x, val s) {
  LLVMTypeRef t = LLVMTypeOf(x);
  return cg_intrinsic(c, "llvm.copysign", 1, &t, 2, (val[]){x, s});
}
static val fn(cg *c, hlo_opcode op, val x) { return cg_math(c, op, HLO_F64, x, NULL); }
static val horner(cg *c, val x, u32 n, const double *p) {
  val r = k(x, p[0]);
  for (u32 i = 1; i < n; i++) r = fma3(c, r, x, k(x, p[i]));
  return r;
}
#define POLY(x, ...) \
  horner(c, (x), (u32)(sizeof((double[]){__VA_ARGS__}) / sizeof(double)), (double[]){__VA_ARGS__})

// ---- functions of the module --------------------------------------------------------------------
typedef struct helper {
  LLVMValueRef fn;
  LLVMBasicBlockRef from;  // where the caller was
} helper;

// Begins function NAME_what of the module unless it is there; false: it is.
static bool begin_helper(cg *c, const char *what, u32 n, LLVMTypeRef *params, helper *h) {
  char name[300];
  (void)snprintf(name, sizeof name, "%.250s_%s", gpu_of(c)->name, what);
  h->fn = LLVMGetNamedFunction(c->mod, name);
  if (h->fn) return false;
  h->from = LLVMGetInsertBlock(B);
  h->fn = LLVMAddFunction(c->mod, name, LLVMFunctionType(c->f64, params, n, false));
  LLVMSetLinkage(h->fn, LLVMInternalLinkage);
  cg_function_attributes(c->ctx, h->fn, &(emit_options){0});
  LLVMPositionBuilderAtEnd(B, LLVMAppendBasicBlockInContext(c->ctx, h->fn, ""));
  return true;
}

static void end_helper(cg *c, const helper *h, val result) {
  LLVMBuildRet(B, result);
  LLVMPositionBuilderAtEnd(B, h->from);
}

// Calls it for every lane.
static val call(cg *c, LLVMValueRef f, val x, val y) {
  LLVMTypeRef t = LLVMTypeOf(x), ft = LLVMGlobalGetValueType(f);
  u32 n = y ? 2 : 1;
  if (!cg_is_vector(t)) return LLVMBuildCall2(B, ft, f, (val[]){x, y}, n, "");
  val r = LLVMGetPoison(t);
  for (u32 l = 0; l < LLVMGetVectorSize(t); l++) {
    val no = LLVMConstInt(c->i32, l, false), a[2];
    a[0] = LLVMBuildExtractElement(B, x, no, "");
    a[1] = y && cg_is_vector(LLVMTypeOf(y)) ? LLVMBuildExtractElement(B, y, no, "") : y;
    r = LLVMBuildInsertElement(B, r, LLVMBuildCall2(B, ft, f, a, n, ""), no, "");
  }
  return r;
}

// ---- sine and cosine of large numbers -----------------------------------------------------------
static val i64_of(cg *c, u64 v) { return LLVMConstInt(c->i64, v, false); }

// 2/pi in words of 64 bits, behind one word of zeros.
static const u64 two_over_pi[22] = {0,
                                    0xa2f9836e4e441529,
                                    0xfc2757d1f534ddc0,
                                    0xdb6295993c439041,
                                    0xfe5163abdebbc561,
                                    0xb7246e3a424dd2e0,
                                    0x06492eea09d1921c,
                                    0xfe1deb1cb129a73e,
                                    0xe88235f52ebb4484,
                                    0xe99c7026b45f7e41,
                                    0x3991d639835339f4,
                                    0x9c845f8bbdf9283b,
                                    0x1ff897ffde05980f,
                                    0xef2f118b5a0a6d1f,
                                    0x6d367ecf27cb09b7,
                                    0x4f463f669e5fea2d,
                                    0x7527bac7ebe5f17b,
                                    0x3d0739f78a5292ea,
                                    0x6bfb5fb11f8d5d08,
                                    0x56033046fc7b6bab,
                                    0xf0cfbc209af4361d,
                                    0xa9e391615ee61b08};

static val bits_table(cg *c) {
  char name[300];
  (void)snprintf(name, sizeof name, "%.250s_two_over_pi", gpu_of(c)->name);
  val words[22];
  for (u32 w = 0; w < 22; w++) words[w] = i64_of(c, two_over_pi[w]);
  val data = LLVMConstArray2(c->i64, words, 22),
      v = LLVMAddGlobalInAddressSpace(c->mod, LLVMTypeOf(data), name,
                                      gpu_of(c)->target->constant_space);
  LLVMSetInitializer(v, data);
  LLVMSetGlobalConstant(v, true);
  LLVMSetLinkage(v, LLVMInternalLinkage);
  return v;
}

static val shl(cg *c, val a, u64 n) { return LLVMBuildShl(B, a, i64_of(c, n), ""); }
static val shr(cg *c, val a, u64 n) { return LLVMBuildLShr(B, a, i64_of(c, n), ""); }
static val or_(cg *c, val a, val b) { return LLVMBuildOr(B, a, b, ""); }

// x = m 2^e with m of 53 bits. Bits of 2/pi of weight 2^(2-e) and more make multiples of four turns
// of pi/2; of the 192 bits after them the product's top two are the quadrant, the rest the
// fraction.
static val large_sine(cg *c) {
  helper h;
  if (!begin_helper(c, "sine", 2, (LLVMTypeRef[]){c->f64, c->i64}, &h)) return h.fn;
  LLVMTypeRef wide = LLVMInt128TypeInContext(c->ctx);
  val x = LLVMGetParam(h.fn, 0), turn = LLVMGetParam(h.fn, 1), table = bits_table(c);
  val bits = LLVMBuildBitCast(B, x, c->i64, ""),
      ex = LLVMBuildAnd(B, shr(c, bits, 52), i64_of(c, 2047), ""),
      m = or_(c, LLVMBuildAnd(B, bits, i64_of(c, (1ull << 52) - 1), ""), i64_of(c, 1ull << 52));
  // the first bit of the window is number e - 1 of the fraction 0.b1 b2 ..., the table's word 1
  val at = LLVMBuildAdd(B, ex, i64_of(c, (u64)(64 - 1075 - 2)), ""), word = shr(c, at, 6),
      shift = LLVMBuildAnd(B, at, i64_of(c, 63), ""), w[4];
  val last = i64_of(c, 18);  // infinities and NaN
  word = sel(c, LLVMBuildICmp(B, LLVMIntUGT, word, last, ""), last, word);
  for (u32 n = 0; n < 4; n++)
    w[n] = LLVMBuildLoad2(B, c->i64,
                          cg_gep(c, c->i64, table, LLVMBuildAdd(B, word, i64_of(c, n), "")), "");
  for (u32 n = 0; n < 3; n++)
    w[n] = cg_intrinsic(c, "llvm.fshl", 1, &c->i64, 3, (val[]){w[n], w[n + 1], shift});
  val low = LLVMBuildMul(B, LLVMBuildZExt(B, m, wide, ""), LLVMBuildZExt(B, w[2], wide, ""), ""),
      mid = LLVMBuildMul(B, LLVMBuildZExt(B, m, wide, ""), LLVMBuildZExt(B, w[1], wide, ""), ""),
      k64 = LLVMConstInt(wide, 64, false);
  mid = LLVMBuildAdd(B, mid, LLVMBuildLShr(B, low, k64, ""), "");
  val hi = LLVMBuildAdd(B, LLVMBuildMul(B, m, w[0], ""),
                        LLVMBuildTrunc(B, LLVMBuildLShr(B, mid, k64, ""), c->i64, ""), ""),
      lo = LLVMBuildTrunc(B, mid, c->i64, "");
  val quadrant = shr(c, hi, 62);
  hi = cg_intrinsic(c, "llvm.fshl", 1, &c->i64, 3, (val[]){hi, lo, i64_of(c, 2)});
  lo = shl(c, lo, 2);
  // to the nearest quadrant: the fraction as a signed number
  val up = LLVMBuildICmp(B, LLVMIntSLT, hi, i64_of(c, 0), "");
  quadrant = LLVMBuildAdd(B, quadrant, LLVMBuildZExt(B, up, c->i64, ""), "");
  val whole = or_(c, LLVMBuildShl(B, LLVMBuildZExt(B, hi, wide, ""), k64, ""),
                  LLVMBuildZExt(B, lo, wide, ""));
  whole = sel(c, up, LLVMBuildNeg(B, whole, ""), whole);
  val zeros = cg_intrinsic(c, "llvm.ctlz", 1, &wide, 2, (val[]){whole, LLVMConstInt(c->i1, 0, 0)});
  val top =
      LLVMBuildTrunc(B, LLVMBuildLShr(B, LLVMBuildShl(B, whole, zeros, ""), k64, ""), c->i64, "");
  val scale = LLVMBuildSub(B, i64_of(c, 1023 - 64), LLVMBuildTrunc(B, zeros, c->i64, ""), "");
  val r = mul(c, LLVMBuildUIToFP(B, top, c->f64, ""),
              LLVMBuildBitCast(B, shl(c, scale, 52), c->f64, ""));
  r = sel(c, LLVMBuildICmp(B, LLVMIntEQ, whole, LLVMConstNull(wide), ""), k(r, 0), r);
  r = mul(c, r, k(r, 1.57079632679489661923));
  r = sel(c, up, neg(c, r), r);
  r = sel(c, fcmp(c, LLVMRealOLT, x, k(x, 0)), neg(c, r), r);
  // with the sign of x in r, quadrants count backwards
  quadrant = sel(c, fcmp(c, LLVMRealOLT, x, k(x, 0)), LLVMBuildNeg(B, quadrant, ""), quadrant);
  quadrant = LLVMBuildAdd(B, quadrant, turn, "");
  val z = mul(c, r, r),
      s = POLY(z, 1.58969099521155010221e-10, -2.50507602534068634195e-08,
               2.75573137070700676789e-06, -1.98412698298579493134e-04, 8.33333333332248946124e-03,
               -1.66666666666666324348e-01),
      co = POLY(z, -1.13596475577881948265e-11, 2.08757232129817482790e-09,
                -2.75573143513906633035e-07, 2.48015872894767294178e-05,
                -1.38888888888741095749e-03, 4.16666666666666019037e-02);
  s = fma3(c, mul(c, r, z), s, r);
  co = fma3(c, mul(c, z, z), co, fma3(c, z, k(z, -0.5), k(z, 1)));
  val one = i64_of(c, 1);
  val odd = LLVMBuildICmp(B, LLVMIntEQ, LLVMBuildAnd(B, quadrant, one, ""), one, ""),
      flip = LLVMBuildICmp(B, LLVMIntNE, LLVMBuildAnd(B, quadrant, i64_of(c, 2), ""), i64_of(c, 0),
                           "");
  val y = sel(c, odd, co, s);
  y = sel(c, flip, neg(c, y), y);
  y = sel(c, fcmp(c, LLVMRealOLT, abs_(c, x), k(x, INFINITY)), y, k(x, NAN));
  end_helper(c, &h, y);
  return h.fn;
}

// ---- loops --------------------------------------------------------------------------------------
typedef struct loop {
  LLVMBasicBlockRef before, body;
  val n;  // steps left, this one included
} loop;

// A loop that runs `steps` times, at least once; then phis may be made.
static loop open_loop(cg *c, val f, val steps) {
  loop l = {LLVMGetInsertBlock(B), LLVMAppendBasicBlockInContext(c->ctx, f, ""), NULL};
  LLVMBuildBr(B, l.body);
  LLVMPositionBuilderAtEnd(B, l.body);
  l.n = LLVMBuildPhi(B, c->i64, "");
  LLVMAddIncoming(l.n, &steps, &l.before, 1);
  return l;
}
static val carried(cg *c, const loop *l, val start) {
  val p = LLVMBuildPhi(B, LLVMTypeOf(start), "");
  LLVMAddIncoming(p, &start, (LLVMBasicBlockRef[]){l->before}, 1);
  return p;
}
static void close_loop(cg *c, val f, loop *l) {
  LLVMBasicBlockRef after = LLVMAppendBasicBlockInContext(c->ctx, f, "");
  val left = LLVMBuildSub(B, l->n, i64_of(c, 1), "");
  LLVMAddIncoming(l->n, &left, &l->body, 1);
  LLVMBuildCondBr(B, LLVMBuildICmp(B, LLVMIntSGT, left, i64_of(c, 0), ""), l->body, after);
  LLVMPositionBuilderAtEnd(B, after);
}

// One bit of the quotient per step; the mantissas are whole numbers of 53 bits. Denormals are zero.
static val remainder_(cg *c) {
  helper h;
  if (!begin_helper(c, "remainder", 2, (LLVMTypeRef[]){c->f64, c->f64}, &h)) return h.fn;
  val x = LLVMGetParam(h.fn, 0), y = LLVMGetParam(h.fn, 1), ax = abs_(c, x), ay = abs_(c, y);
  val bx = LLVMBuildBitCast(B, ax, c->i64, ""), by = LLVMBuildBitCast(B, ay, c->i64, "");
  val part = i64_of(c, (1ull << 52) - 1), one = i64_of(c, 1ull << 52), ey = shr(c, by, 52);
  val mx = or_(c, LLVMBuildAnd(B, bx, part, ""), one),
      my = or_(c, LLVMBuildAnd(B, by, part, ""), one);
  val steps = LLVMBuildSub(B, shr(c, bx, 52), ey, "");
  loop l = open_loop(c, h.fn, LLVMBuildAdd(B, steps, i64_of(c, 1), ""));
  val m = carried(c, &l, mx), d = LLVMBuildSub(B, m, my, ""),
      rest = sel(c, LLVMBuildICmp(B, LLVMIntSGE, d, i64_of(c, 0), ""), d, m),
      more = LLVMBuildICmp(B, LLVMIntSGT, l.n, i64_of(c, 1), ""),
      next = sel(c, more, shl(c, rest, 1), rest);
  LLVMAddIncoming(m, &next, &l.body, 1);
  close_loop(c, h.fn, &l);
  val r = mul(c, mul(c, LLVMBuildUIToFP(B, next, c->f64, ""), k(x, 0x1p-52)),
              LLVMBuildBitCast(B, shl(c, ey, 52), c->f64, ""));
  r = sel(c, fcmp(c, LLVMRealOLT, ax, ay), ax, r);
  val bad = or_(c, fcmp(c, LLVMRealUNO, x, y),
                or_(c, fcmp(c, LLVMRealOEQ, ax, k(x, INFINITY)),
                    fcmp(c, LLVMRealOLT, ay, k(x, 2.2250738585072014e-308))));
  r = sel(c, bad, k(x, NAN), r);
  end_helper(c, &h, sign_of(c, r, x));
  return h.fn;
}

// Taylor's series below 1; above, 1 - erfc by its continued fraction, from the innermost term out:
// erfc(x) = exp(-x^2) / sqrt(pi) / (x + (1/2) / (x + (2/2) / (x + (3/2) / ...)))
static val erf_(cg *c) {
  helper h;
  if (!begin_helper(c, "erf", 1, (LLVMTypeRef[]){c->f64}, &h)) return h.fn;
  val x = LLVMGetParam(h.fn, 0), a = abs_(c, x), z = mul(c, a, a);
  double series[20], factorial = 1;
  for (int n = 0; n < 20; factorial *= ++n)
    series[19 - n] = (n % 2 ? -1.1283791670955126 : 1.1283791670955126) / factorial / (2 * n + 1);
  // the first coefficient in two parts, whose sum is 2 / sqrt(pi)
  series[19] = 0.12837916709551257;
  val near = fma3(c, a, horner(c, z, 20, series), a);
  val far = sel(c, fcmp(c, LLVMRealOLT, a, k(x, 6)), a, k(x, 6));
  far = sel(c, fcmp(c, LLVMRealOLT, far, k(x, 1)), k(x, 1), far);
  val y = mul(c, far, far), low = fma3(c, far, far, neg(c, y));
  loop l = open_loop(c, h.fn, i64_of(c, 200));
  val t = carried(c, &l, far), half = mul(c, LLVMBuildSIToFP(B, l.n, c->f64, ""), k(x, 0.5)),
      next = add(c, far, dvd(c, half, t));
  LLVMAddIncoming(t, &next, &l.body, 1);
  close_loop(c, h.fn, &l);
  val e = fn(c, HLO_EXP, neg(c, y));
  e = fma3(c, neg(c, low), e, e);
  val rest = dvd(c, mul(c, e, k(x, 0.56418958354775628695)), next);
  val r = sel(c, fcmp(c, LLVMRealOLT, a, k(x, 1)), near, sub(c, k(x, 1), rest));
  r = sel(c, fcmp(c, LLVMRealOGE, a, k(x, 6)), k(x, 1), r);
  r = sel(c, fcmp(c, LLVMRealUNO, x, x), x, r);
  end_helper(c, &h, sign_of(c, r, x));
  return h.fn;
}

// ---- straight code ------------------------------------------------------------------------------
static val sinh_cosh(cg *c, val x, bool cosine) {
  val a = abs_(c, x), r;
  if (cosine) {
    val e = fn(c, HLO_EXP, a);
    r = mul(c, add(c, e, dvd(c, k(x, 1), e)), k(x, 0.5));
  } else {
    val e = fn(c, HLO_EXPM1, a);
    r = mul(c, add(c, e, dvd(c, e, add(c, e, k(x, 1)))), k(x, 0.5));
  }
  val half = fn(c, HLO_EXP, mul(c, a, k(x, 0.5))), big = mul(c, mul(c, half, k(x, 0.5)), half);
  r = sel(c, fcmp(c, LLVMRealOGT, a, k(x, 700)), big, r);
  return cosine ? r : sign_of(c, r, x);
}

static val asinh_(cg *c, val x) {
  val a = abs_(c, x), z = mul(c, a, a),
      small = add(c, a, dvd(c, z, add(c, sqrt_(c, add(c, z, k(x, 1))), k(x, 1)))),
      r = fn(c, HLO_LOG1P, small),
      big = add(c, fn(c, HLO_LOG, a), k(x, 6.93147180559945286227e-01));
  return sign_of(c, sel(c, fcmp(c, LLVMRealOGT, a, k(x, 1e9)), big, r), x);
}

static val acosh_(cg *c, val x) {
  val t = sub(c, x, k(x, 1)), root = sqrt_(c, fma3(c, t, t, add(c, t, t))),
      r = fn(c, HLO_LOG1P, add(c, t, root)),
      big = add(c, fn(c, HLO_LOG, x), k(x, 6.93147180559945286227e-01));
  r = sel(c, fcmp(c, LLVMRealOGT, x, k(x, 1e9)), big, r);
  return sel(c, fcmp(c, LLVMRealOLT, x, k(x, 1)), k(x, NAN), r);
}

static val atanh_(cg *c, val x) {
  val a = abs_(c, x), q = dvd(c, add(c, a, a), sub(c, k(x, 1), a));
  return sign_of(c, mul(c, fn(c, HLO_LOG1P, q), k(x, 0.5)), x);
}

static val atan2_(cg *c, val y, val x) {
  val ax = abs_(c, x), ay = abs_(c, y), swap = fcmp(c, LLVMRealOGT, ay, ax);
  val hi = sel(c, swap, ay, ax), lo = sel(c, swap, ax, ay), q = dvd(c, lo, hi);
  q = sel(c, fcmp(c, LLVMRealOEQ, hi, k(x, 0)), k(x, 0), q);
  q = sel(c, fcmp(c, LLVMRealOEQ, lo, k(x, INFINITY)), k(x, 1), q);
  val far = fcmp(c, LLVMRealOGT, q, k(x, 0.4375)),
      w = sel(c, far, dvd(c, sub(c, q, k(x, 1)), add(c, q, k(x, 1))), q), z = mul(c, w, w);
  val p = POLY(z, 1.62858201153657823623e-02, -3.65315727442169155270e-02,
               4.97687799461593236017e-02, -5.83357013379057348645e-02, 6.66107313738753120669e-02,
               -7.69187620504482999495e-02, 9.09088713343650656196e-02, -1.11111104054623557880e-01,
               1.42857142725034663711e-01, -1.99999999998764832476e-01, 3.33333333333329318027e-01);
  val r = fma3(c, neg(c, mul(c, p, z)), w, w);
  r = sel(c, far, add(c, r, k(x, 7.85398163397448278999e-01)), r);
  r = sel(c, swap, sub(c, k(x, 1.57079632679489655800), r), r);
  val left = fcmp(c, LLVMRealOLT, sign_of(c, k(x, 1), x), k(x, 0));
  r = sel(c, left, sub(c, k(x, 3.14159265358979311600), r), r);
  r = sign_of(c, r, y);
  return sel(c, fcmp(c, LLVMRealUNO, x, y), add(c, x, y), r);
}

static val arc(cg *c, val x, bool cosine) {
  val one = k(x, 1), other = sqrt_(c, mul(c, sub(c, one, x), add(c, one, x)));
  return cosine ? atan2_(c, other, x) : atan2_(c, x, other);
}

static val cbrt_(cg *c, val x) {
  LLVMTypeRef it = cg_like(x, c->i64);
  val a = abs_(c, x), t = LLVMBuildUDiv(B, LLVMBuildBitCast(B, a, it, ""), cg_int(it, 3), "");
  t = LLVMBuildBitCast(B, LLVMBuildAdd(B, t, cg_int(it, 0x2A9F7893782DA1CE), ""), LLVMTypeOf(x),
                       "");
  for (int n = 0; n < 5; n++) t = fma3(c, sub(c, dvd(c, a, mul(c, t, t)), t), k(x, 1.0 / 3), t);
  val same = or_(c, fcmp(c, LLVMRealUEQ, a, k(x, INFINITY)), fcmp(c, LLVMRealOEQ, a, k(x, 0)));
  return sel(c, same, x, sign_of(c, t, x));
}

// ---- powers -------------------------------------------------------------------------------------
// The logarithm of a positive normal number as the sum of two: log m = 2 atanh((m-1) / (m+1)), its
// first two terms with the error of each operation.
static void log_pair(cg *c, val x, val *high, val *low) {
  LLVMTypeRef it = cg_like(x, c->i64), ft = LLVMTypeOf(x);
  val bits = LLVMBuildBitCast(B, x, it, ""),
      off = LLVMBuildSub(B, bits, cg_int(it, 0x3fe6a09e667f3bcd), ""),
      ei = LLVMBuildAShr(B, off, cg_int(it, 52), ""), e = LLVMBuildSIToFP(B, ei, ft, "");
  val m = LLVMBuildBitCast(B, LLVMBuildSub(B, bits, LLVMBuildShl(B, ei, cg_int(it, 52), ""), ""),
                           ft, "");
  val one = k(x, 1), f = sub(c, m, one), g = add(c, m, one), gl = sub(c, m, sub(c, g, one));
  val s = dvd(c, f, g), sl = dvd(c, fma3(c, neg(c, s), gl, fma3(c, neg(c, s), g, f)), g);
  val z = mul(c, s, s), zl = fma3(c, add(c, s, s), sl, fma3(c, s, s, neg(c, z)));
  double odd[12];
  for (int n = 0; n < 12; n++) odd[n] = 2.0 / (27 - 2 * n);
  val tail = mul(c, mul(c, s, mul(c, z, z)), horner(c, z, 12, odd));  // from s^5 on
  val t = mul(c, s, z), tl = fma3(c, s, zl, fma3(c, sl, z, fma3(c, s, z, neg(c, t)))),
      th = k(x, 2.0 / 3);
  val u = mul(c, t, th),
      ul = fma3(c, tl, th, fma3(c, t, k(x, 3.70074341541718826e-17), fma3(c, t, th, neg(c, u))));
  val a = add(c, s, s), w = add(c, a, u), wl = sub(c, u, sub(c, w, a));
  wl = add(c, wl, add(c, add(c, sl, sl), add(c, ul, tail)));
  val n = mul(c, e, k(x, 6.93147180369123816490e-01)), h = add(c, n, w), hb = sub(c, h, n);
  val hl = add(c, sub(c, n, sub(c, h, hb)), sub(c, w, hb));
  hl = add(c, hl, fma3(c, e, k(x, 1.90821492927058770002e-10), wl));
  *high = add(c, h, hl);
  *low = sub(c, hl, sub(c, *high, h));
}

static val power(cg *c, val x, val y) {
  val ax = abs_(c, x), h, l;
  log_pair(c, ax, &h, &l);
  val t = mul(c, y, h), tl = fma3(c, y, l, fma3(c, y, h, neg(c, t)));
  tl = sel(c, fcmp(c, LLVMRealOLT, abs_(c, t), k(x, 1000)), tl, k(x, 0));
  val e = fn(c, HLO_EXP, t), r = fma3(c, e, tl, e);
  r = sel(c, fcmp(c, LLVMRealOLT, e, k(x, INFINITY)), r, e);
  val zero = fcmp(c, LLVMRealOEQ, ax, k(x, 0)),
      end = or_(c, zero, fcmp(c, LLVMRealOEQ, ax, k(x, INFINITY))),
      up = LLVMBuildXor(B, zero, fcmp(c, LLVMRealOGT, y, k(x, 0)), "");
  r = sel(c, end, sel(c, up, k(x, INFINITY), k(x, 0)), r);
  r = sel(c, fcmp(c, LLVMRealUNO, x, y), add(c, x, y), r);
  // powers of what is not 1 with infinite exponents
  val grows =
      LLVMBuildXor(B, fcmp(c, LLVMRealOLT, ax, k(x, 1)), fcmp(c, LLVMRealOGT, y, k(x, 0)), "");
  r = sel(c,
          LLVMBuildAnd(B, fcmp(c, LLVMRealOEQ, abs_(c, y), k(x, INFINITY)),
                       fcmp(c, LLVMRealONE, ax, k(x, 1)), ""),
          sel(c, grows, k(x, INFINITY), k(x, 0)), r);
  return cg_power_cases(c, x, y, r);
}

// ---- all of them --------------------------------------------------------------------------------
static val in_double(cg *c, hlo_opcode op, val x, val y) {
  switch (op) {
  case HLO_SIN: return call(c, large_sine(c), x, i64_of(c, 0));
  case HLO_COSINE: return call(c, large_sine(c), x, i64_of(c, 1));
  case HLO_TAN: return dvd(c, fn(c, HLO_SIN, x), fn(c, HLO_COSINE, x));
  case HLO_SINH: return sinh_cosh(c, x, false);
  case HLO_COSH: return sinh_cosh(c, x, true);
  case HLO_ASIN: return arc(c, x, false);
  case HLO_ACOS: return arc(c, x, true);
  case HLO_ASINH: return asinh_(c, x);
  case HLO_ACOSH: return acosh_(c, x);
  case HLO_ATANH: return atanh_(c, x);
  case HLO_ATAN2: return atan2_(c, x, y);
  case HLO_CBRT: return cbrt_(c, x);
  case HLO_ERF: return call(c, erf_(c), x, NULL);
  case HLO_POWER: return power(c, x, y);
  case HLO_REMAINDER: return call(c, remainder_(c), x, y);
  default: return NULL;
  }
}

val gpu_math(cg *c, hlo_opcode op, val x, val y) {
  LLVMTypeRef t = LLVMTypeOf(x);
  if (cg_scalar_of(t) == c->f64) return in_double(c, op, x, y);
  LLVMTypeRef wide = cg_like(x, c->f64);
  val r =
      in_double(c, op, LLVMBuildFPExt(B, x, wide, ""), y ? LLVMBuildFPExt(B, y, wide, "") : NULL);
  return r ? LLVMBuildFPTrunc(B, r, t, "") : NULL;
}
