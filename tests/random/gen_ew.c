// gen_ew.c — elementwise operations of random modules.
#include "tests/random/gen.h"

#include <math.h>

// A function on floats: its domain here, and how many units in the last place right answers may be
// apart. The range and the steepness on an interval are found by sampling.
typedef struct function {
  const char *op;
  double (*f)(double);
  double lo, hi;
  double ulps;
} function;

static double logistic(double x) { return 1 / (1 + exp(-x)); }
static double rsqrt(double x) { return 1 / sqrt(x); }
static double negate(double x) { return -x; }
static const function functions[] = {
    {"exponential", exp, -8, 5, 4},
    {"exponential-minus-one", expm1, -8, 5, 4},
    {"log", log, 0.05, 1e4, 4},
    {"log-plus-one", log1p, -0.7, 1e4, 4},
    {"logistic", logistic, -10, 10, 8},
    {"tanh", tanh, -12, 12, 8},
    {"sine", sin, -20, 20, 4},
    {"cosine", cos, -20, 20, 4},
    {"tan", tan, -1.2, 1.2, 8},
    {"sqrt", sqrt, 0.01, 1e4, 2},
    {"rsqrt", rsqrt, 0.05, 1e4, 4},
    {"cbrt", cbrt, 0.05, 1e4, 4},
    {"erf", erf, -5, 5, 8},
    {"negate", negate, -1e5, 1e5, 0},
    {"abs", fabs, -1e5, 1e5, 0},
    {"acos", acos, -0.9, 0.9, 8},
    {"asin", asin, -0.9, 0.9, 8},
    {"acosh", acosh, 1.2, 1e3, 8},
    {"asinh", asinh, -1e3, 1e3, 8},
    {"atanh", atanh, -0.9, 0.9, 8},
    {"sinh", sinh, -5, 5, 8},
    {"cosh", cosh, -5, 5, 8},
};

enum { SAMPLES = 200 };

bool gen_unary_float(gen *g) {
  hlo_dtype t = gen_float(g);
  const function *f = &functions[gen_below(g, gen_chance(g, 90) ? 15 : HS_COUNT(functions))];
  gen_value *a = gen_clamped(g, gen_of_type(g, t, 0, 4, GEN_ANY), f->lo, f->hi), like = *a;
  double steep = 0, w = (a->hi - a->lo) / SAMPLES;
  like.lo = INFINITY;
  like.hi = -INFINITY;
  for (int k = 0; k <= SAMPLES; k++) {
    double x = a->lo + w * k, y = f->f(x), d = k ? fabs(y - f->f(x - w)) / (w > 0 ? w : 1) : 0;
    like.lo = fmin(like.lo, y);
    like.hi = fmax(like.hi, y);
    steep = fmax(steep, d);
  }
  double slack = steep * w;  // between the samples
  like.lo -= slack;
  like.hi += slack;
  like.integral = a->integral && f->ulps == 0;
  // XLA:CPU's is a polynomial, up to 45 off
  double ulps = t == HLO_F64 && f->f == log1p ? 64 : f->ulps;
  like.err = 1.5 * steep * a->soft +
             (f->ulps > 0 ? ulps * gen_eps(t) * fmax(gen_magnitude(&like), 0.01) : 0);
  like.soft = like.integral && a->soft == 0 ? 0 : like.err;
  gen_put(g, &like, "%s(%s)", f->op, a->name);
  return true;
}

// Jumps: only of values that are the same everywhere.
bool gen_unary_exact(gen *g) {
  static const char *const ops[] = {"floor", "ceil",     "round-nearest-even", "round-nearest-afz",
                                    "sign",  "is-finite"};
  hlo_dtype t = gen_float(g);
  gen_value *a = gen_of_type(g, t, 0, 4, GEN_EXACT), like = *a;
  u32 k = gen_below(g, HS_COUNT(ops) + 1);
  if (k == HS_COUNT(ops)) {
    if (gen_eps(t) > 0x1p-20) return false;
    u32 mantissa = 2 + gen_below(g, 15);
    like.err = 0;
    like.soft = ldexp(1, -(int)mantissa) * gen_magnitude(a);
    like.integral = false;
    like.lo -= like.soft;
    like.hi += like.soft;
    gen_put(g, &like, "reduce-precision(%s), exponent_bits=%u, mantissa_bits=%u", a->name,
            6 + gen_below(g, 3), mantissa);
    return true;
  }
  like.lo = floor(a->lo);
  like.hi = ceil(a->hi);
  like.integral = true;
  if (k == 4) like.lo = -1, like.hi = 1;
  if (k == 5) like.type = HLO_PRED, like.lo = 0, like.hi = 1;
  gen_put(g, &like, "%s(%s)", ops[k], a->name);
  return true;
}

static void full_range(gen_value *v) {
  v->lo = gen_type_lo(v->type);
  v->hi = gen_type_hi(v->type);
  v->err = v->soft = 0;
  v->integral = true;
}

bool gen_unary_int(gen *g) {
  static const char *const ops[] = {"not",    "popcnt", "count-leading-zeros",
                                    "negate", "abs",    "sign"};
  u32 k = gen_below(g, HS_COUNT(ops));
  hlo_dtype t = k == 0 && gen_chance(g, 30) ? HLO_PRED : gen_int(g);
  if (k >= 4 && !hlo_dtype_is_signed(t)) t = HLO_S32;
  gen_value *a = gen_of_type(g, t, 0, 4, GEN_ANY), like = *a;
  full_range(&like);
  if (k == 1 || k == 2) like.lo = 0, like.hi = hlo_dtype_bits(t);
  gen_put(g, &like, "%s(%s)", ops[k], a->name);
  return true;
}

// Range of x op y over two intervals for the monotonic cases, by the four corners.
static void corners(gen_value *like, const gen_value *a, const gen_value *b,
                    double (*f)(double, double)) {
  double v[4] = {f(a->lo, b->lo), f(a->lo, b->hi), f(a->hi, b->lo), f(a->hi, b->hi)};
  like->lo = fmin(fmin(v[0], v[1]), fmin(v[2], v[3]));
  like->hi = fmax(fmax(v[0], v[1]), fmax(v[2], v[3]));
}
static double add(double x, double y) { return x + y; }
static double subtract(double x, double y) { return x - y; }
static double multiply(double x, double y) { return x * y; }
static double divide(double x, double y) { return x / y; }

bool gen_binary_float(gen *g) {
  static const struct {
    const char *op;
    double (*f)(double, double);
  } ops[] = {{"add", add},      {"subtract", subtract}, {"multiply", multiply},
             {"maximum", fmax}, {"minimum", fmin},      {"divide", divide},
             {"power", pow},    {"atan2", atan2},       {"remainder", fmod}};
  hlo_dtype t = gen_float(g);
  u32 k = gen_below(g, HS_COUNT(ops));
  bool jumps = k == 8;  // remainder
  gen_value *a = gen_of_type(g, t, 0, 4, jumps ? GEN_EXACT : GEN_ANY),
            *b = gen_operand(g, t, a->rank, a->dims, jumps ? GEN_EXACT : GEN_ANY), like = *a;
  if (k == 5 || k == 7) b = gen_clamped(g, b, 0.25, 64);
  if (k == 6) a = gen_clamped(g, a, 0.1, 8), b = gen_clamped(g, b, -3, 3);
  if (jumps) b = gen_clamped(g, b, 0.5, 64);
  corners(&like, a, b, ops[k].f);
  if (jumps) like.lo = -fmin(64, gen_magnitude(a)), like.hi = fmin(64, gen_magnitude(a));
  if (k == 6) like.lo = 1e-3, like.hi = 512;
  double da[] = {1, 1, gen_magnitude(b), 1, 1, 4, 3 * like.hi / 0.1, 4, 1},
         db[] = {1,
                 1,
                 gen_magnitude(a),
                 1,
                 1,
                 16 * gen_magnitude(a),
                 3 * like.hi,
                 16 * gen_magnitude(a),
                 1};
  bool rounds = k != 3 && k != 4 && k != 8;
  like.integral =
      a->integral && b->integral && (k < 5 || k == 8) && gen_magnitude(&like) * gen_eps(t) < 1;
  like.err = da[k] * a->soft + db[k] * b->soft +
             (rounds && !like.integral ? (k >= 6 ? 8 : 2) * gen_eps(t) * gen_magnitude(&like) : 0);
  like.soft = like.err;
  if (gen_magnitude(&like) > (gen_eps(t) > 0x1p-12 ? 2e3 : 1e6)) return false;
  gen_put(g, &like, "%s(%s, %s)", ops[k].op, a->name, b->name);
  return true;
}

bool gen_binary_int(gen *g) {
  static const char *const ops[] = {"add",
                                    "subtract",
                                    "multiply",
                                    "maximum",
                                    "minimum",
                                    "and",
                                    "or",
                                    "xor",
                                    "divide",
                                    "remainder",
                                    "shift-left",
                                    "shift-right-arithmetic",
                                    "shift-right-logical",
                                    "power"};
  u32 k = gen_below(g, HS_COUNT(ops) - (gen_chance(g, 80) ? 1 : 0));
  hlo_dtype t = k >= 5 && k <= 7 && gen_chance(g, 30) ? HLO_PRED : gen_int(g);
  gen_value *a = gen_of_type(g, t, 0, 4, GEN_ANY),
            *b = gen_operand(g, t, a->rank, a->dims, GEN_ANY), like = *a;
  full_range(&like);
  gen_put(g, &like, "%s(%s, %s)", ops[k], a->name, b->name);
  return true;
}

bool gen_compare(gen *g) {
  static const char *const directions[] = {"EQ", "NE", "LT", "LE", "GT", "GE"};
  u32 what = gen_below(g, 4), d = gen_below(g, 6);
  hlo_dtype t = what < 2            ? gen_float(g)
                : what == 2         ? gen_int(g)
                : gen_chance(g, 50) ? HLO_PRED
                                    : HLO_C64;
  if (t == HLO_C64) d = gen_below(g, 2);
  gen_value *a = gen_of_type(g, t, 0, 4, GEN_EXACT),
            *b = gen_operand(g, t, a->rank, a->dims, GEN_EXACT),
            like = gen_shape_of(HLO_PRED, a->rank, a->dims);
  like.hi = 1;
  like.integral = true;
  bool total = hlo_dtype_is_float(t) && gen_chance(g, 20);
  gen_put(g, &like, "compare(%s, %s), direction=%s%s", a->name, b->name, directions[d],
          total ? ", type=TOTALORDER" : "");
  return true;
}

bool gen_select(gen *g) {
  hlo_dtype t = gen_any_type(g);
  gen_value *a = gen_of_type(g, t, 0, 4, GEN_ANY),
            *b = gen_operand(g, t, a->rank, a->dims, GEN_ANY), like = *a;
  gen_value *p = gen_operand(g, HLO_PRED, a->rank, a->dims, GEN_ANY);
  like.lo = fmin(a->lo, b->lo);
  like.hi = fmax(a->hi, b->hi);
  like.err = fmax(a->soft, b->soft);
  like.soft = like.err;
  like.integral = a->integral && b->integral;
  gen_put(g, &like, "select(%s, %s, %s)", p->name, a->name, b->name);
  return true;
}

bool gen_clamp(gen *g) {
  hlo_dtype t = gen_chance(g, 60) ? gen_float(g) : gen_int(g);
  bool scalar = gen_chance(g, 50);
  gen_value *x = gen_of_type(g, t, 0, 4, GEN_ANY), like = *x;
  gen_value *lo = gen_operand(g, t, scalar ? 0 : x->rank, x->dims, GEN_ANY),
            *hi = gen_operand(g, t, scalar ? 0 : x->rank, x->dims, GEN_ANY);
  like.lo = fmin(x->lo, fmin(lo->lo, hi->lo));
  like.hi = fmax(x->hi, fmax(lo->hi, hi->hi));
  like.err = like.soft = fmax(x->soft, fmax(lo->soft, hi->soft));
  like.integral = x->integral && lo->integral && hi->integral;
  gen_put(g, &like, "clamp(%s, %s, %s)", lo->name, x->name, hi->name);
  return true;
}

bool gen_convert(gen *g) {
  hlo_dtype from = gen_chance(g, 60) ? gen_float(g) : gen_chance(g, 80) ? gen_int(g) : HLO_PRED;
  hlo_dtype to = gen_chance(g, 55)   ? gen_float(g)
                 : gen_chance(g, 60) ? gen_int(g)
                 : gen_chance(g, 40) ? HLO_PRED
                 : gen_chance(g, 50) ? HLO_F8E4M3FN
                                     : HLO_F8E5M2;
  if (from == to) return false;
  bool jumps = !hlo_dtype_is_float(to) || gen_eps(to) > 0x1p-4;
  gen_value *a = gen_of_type(g, from, 0, 4, jumps ? GEN_EXACT : GEN_ANY), like = *a;
  like.type = to;
  if (!hlo_dtype_is_float(to)) {
    if (hlo_dtype_is_float(from) && to != HLO_PRED)
      a = gen_clamped(g, a, hlo_dtype_is_signed(to) ? -100 : 0, 100);
    like = *a;
    like.type = to;
    full_range(&like);
  } else {
    if (gen_magnitude(a) > (to == HLO_F8E4M3FN                  ? 400
                            : to == HLO_F16 || to == HLO_F8E5M2 ? 3e4
                                                                : 1e30))
      return false;
    bool fits = a->integral && a->soft == 0 && gen_magnitude(a) * gen_eps(to) <= 1;
    bool widens = hlo_dtype_is_float(from) && gen_eps(to) <= gen_eps(from);
    like.integral = fits;
    double ulp = gen_eps(to) * gen_magnitude(a);
    like.err = a->soft > 0 ? a->soft + (widens ? 0 : ulp) : 0;
    like.soft = fits ? 0 : widens ? a->soft : a->soft + ulp;
    like.lo -= like.soft;
    like.hi += like.soft;
  }
  gen_put(g, &like, "convert(%s)", a->name);
  return true;
}

// Only results are looked at: reinterpreted floats may be anything.
bool gen_bitcast_convert(gen *g) {
  static const hlo_dtype pairs[][2] = {{HLO_F32, HLO_S32}, {HLO_F32, HLO_U32}, {HLO_S32, HLO_U32},
                                       {HLO_F64, HLO_S64}, {HLO_F16, HLO_U16}, {HLO_BF16, HLO_S16},
                                       {HLO_U8, HLO_S8},   {HLO_S64, HLO_U64}};
  u32 k = gen_below(g, HS_COUNT(pairs));
  gen_value *a = gen_of_type(g, pairs[k][0], 0, 4, GEN_EXACT),
            like = gen_shape_of(pairs[k][1], a->rank, a->dims);
  full_range(&like);
  if (gen_chance(g, 30) && pairs[k][0] == HLO_S32 && a->rank < 4) {  // one element becomes four
    like.type = HLO_U8;
    like.dims[like.rank++] = 4;
    full_range(&like);
  }
  gen_put(g, &like, "bitcast-convert(%s)", a->name);
  return true;
}

bool gen_complex(gen *g) {
  hlo_dtype part = gen_chance(g, 80) ? HLO_F32 : HLO_F64, t = part == HLO_F32 ? HLO_C64 : HLO_C128;
  gen_value *re = gen_of_type(g, part, 0, 3, GEN_ANY),
            *im = gen_operand(g, part, re->rank, re->dims, GEN_ANY), like = *re;
  static const char *const two[] = {"add", "subtract", "multiply"};
  static const char *const one[] = {"negate", "exponential", "sqrt",  "log",
                                    "tanh",   "sine",        "cosine"};
  u32 k = gen_below(g, 4);
  like.type = t;
  like.lo = fmin(re->lo, im->lo);
  like.hi = fmax(re->hi, im->hi);
  like.err = like.soft = fmax(re->soft, im->soft);
  like.integral = re->integral && im->integral;
  if (k == 3)
    re = gen_clamped(g, re, 0.5, 3), im = gen_clamped(g, im, 0.25, 3), like.lo = 0.25, like.hi = 3,
    like.integral = false;
  gen_value *z = gen_put(g, &like, "complex(%s, %s)", re->name, im->name), out = like;
  double m = gen_magnitude(&like);
  if (k == 0) {
    out.type = part;
    gen_put(g, &out, "%s(%s)", gen_chance(g, 50) ? "real" : "imag", z->name);
  } else if (k == 1) {
    out.type = part;
    out.lo = 0;
    out.hi = 1.5 * m;
    out.err = out.soft = 2 * like.soft + 4 * gen_eps(part) * out.hi;
    out.integral = false;
    gen_put(g, &out, "abs(%s)", z->name);
  } else if (k == 2) {
    gen_value *w = gen_operand(g, t, z->rank, z->dims, GEN_ANY);
    u32 op = gen_below(g, 3);
    double n = gen_magnitude(w);
    out.hi = op == 2 ? 2 * m * n : m + n;
    out.lo = -out.hi;
    out.err = out.soft = (op == 2 ? 2 * (m * w->soft + n * z->soft) : w->soft + z->soft) +
                         4 * gen_eps(part) * out.hi;
    out.integral = false;
    if (out.hi > 1e5) return true;
    gen_put(g, &out, "%s(%s, %s)", two[op], z->name, w->name);
  } else {
    u32 op = gen_below(g, HS_COUNT(one));
    double top[] = {3, 21, 3, 2, 3, 11, 11};
    out.hi = top[op];
    out.lo = -out.hi;
    out.err = out.soft = 32 * (like.soft + 4 * gen_eps(part)) * out.hi;
    out.integral = false;
    gen_put(g, &out, "%s(%s)", one[op], z->name);
  }
  return true;
}

// NaN, infinities, zeros of both signs, the largest and the smallest numbers: one operation on
// them, for all to see.
bool gen_special(gen *g) {
  static const char *const one[] = {"abs",
                                    "negate",
                                    "sign",
                                    "floor",
                                    "ceil",
                                    "round-nearest-even",
                                    "round-nearest-afz",
                                    "is-finite",
                                    "sqrt",
                                    "exponential",
                                    "log",
                                    "tanh",
                                    "log-plus-one",
                                    "exponential-minus-one",
                                    "rsqrt",
                                    "cbrt",
                                    "sine",
                                    "cosine",
                                    "logistic",
                                    "erf"};
  static const char *const two[] = {"add",     "subtract",  "multiply", "divide", "maximum",
                                    "minimum", "remainder", "power",    "atan2"};
  hlo_dtype t = gen_chance(g, 70) ? HLO_F32 : HLO_F64;
  gen_value like = gen_shape_of(t, 1, (i64[]){12});
  like.used = true;
  like.soft = INFINITY;  // nobody uses these further
  static const char *const values[2] = {
      "{nan, inf, -inf, 0, -0, 1, -1, 0.5, -2.5, 3e+38, 1e-30, 2}",
      "{0, -0, inf, nan, 1, -inf, 2, -0.5, 0, 2, 1e-30, inf}"};
  gen_value *a = gen_put(g, &like, "constant(%s)", values[0]);
  if (gen_chance(g, 40)) {
    gen_value *b = gen_put(g, &like, "constant(%s)", values[1]), out = like;
    b = gen_put(g, &like, "opt-barrier(%s)", b->name);  // else the compiler computes it
    a = gen_put(g, &like, "opt-barrier(%s)", a->name);
    out.err = 8 * gen_eps(t) * 10;
    gen_put(g, &out, "%s(%s, %s)", two[gen_below(g, HS_COUNT(two))], a->name, b->name);
    return true;
  }
  u32 k = gen_below(g, HS_COUNT(one));
  gen_value out = like;
  out.err = 8 * gen_eps(t);
  if (k == 7) out.type = HLO_PRED, out.err = out.soft = 0, out.hi = 1;
  if (gen_chance(g, 70)) a = gen_put(g, &like, "opt-barrier(%s)", a->name);
  gen_put(g, &out, "%s(%s)", one[k], a->name);
  return true;
}
