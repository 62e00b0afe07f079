// chlo.c — functions of chlo that HLO has no operation for, by the formulas that StableHLO gives
// them: Lanczos' series for the logarithm of the gamma function and its derivative, Euler and
// Maclaurin's for zeta, Cephes' polynomials for erfc and the Bessel function, Giles' for the
// inverse of erf. Narrow types are computed in f32 and rounded once.
//
// Formulas are written with the builders of core/infer; each works on values of one shape.
#include "core/mlir/rules.h"

#include "core/infer/build.h"

#include <math.h>

// ---- shorthand ----------------------------------------------------------------------------------
typedef hlo_instr *val;
#define DEFINE_UNARY(name, op) \
  static val name(val a) { return hlo_build_unary(op, a); }
#define DEFINE_BINARY(name, op) \
  static val name(val a, val b) { return hlo_build_binary(op, a, b); }
#define DEFINE_COMPARE(name, direction) \
  static val name(val a, val b) { return hlo_build_compare(a, b, HLO_DIRECTION_##direction); }
DEFINE_UNARY(absolute, HLO_ABS)
DEFINE_UNARY(negate, HLO_NEGATE)
DEFINE_UNARY(flr, HLO_FLOOR)
DEFINE_UNARY(natural_log, HLO_LOG)
DEFINE_UNARY(log_1p, HLO_LOG1P)
DEFINE_BINARY(quo, HLO_DIVIDE)
DEFINE_COMPARE(lt, LT)
DEFINE_COMPARE(le, LE)
DEFINE_COMPARE(gt, GT)
DEFINE_COMPARE(eq, EQ)
DEFINE_COMPARE(ne, NE)
static val choose(val p, val a, val b) { return hlo_build_select(p, a, b); }
// A constant of the function, one for equal ones, as MLIR's folder leaves them; takes the literal.
static val constant(mlir_reader *R, val like, hlo_literal *take) {
  const hlo_shape *s = like->shape->logical;
  mlir_op *op = mlir_new_op(R, HS_STR("stablehlo.constant"), R->op->at);
  const mlir_typed type = {s, (mlir_span){0}};
  mlir_set_results(R, op, 1, &type);
  double v = hlo_literal_f64(take, 0);
  mlir_make_constant(R, op, take);
  mlir_share_constant(R, op);
  const hlo_metadata *meta = R->meta;
  val i = mlir_value_instr(R, &op->res[0]);
  R->meta = meta;
  // running out of memory has been recorded
  return i ? i : hlo_build_full(like->parent, s, v);
}
static val integer(mlir_reader *R, val like, i64 v) {
  return constant(R, like, hlo_literal_scalar_i64(R->ctx, like->shape->dtype, v));
}
static val number(mlir_reader *R, val like, double v) {
  if (hlo_dtype_is_integer(like->shape->dtype)) return integer(R, like, (i64)v);
  return constant(R, like, hlo_literal_scalar_f64(R->ctx, like->shape->dtype, v));
}
static bool is_number(val a) {
  return a->opcode == HLO_CONSTANT ||
         (a->opcode == HLO_BROADCAST && hlo_operand(a, 0)->opcode == HLO_CONSTANT);
}
// A constant comes last, and 1 times something is that.
static val commuting(hlo_opcode op, val a, val b) {
  return is_number(a) && !is_number(b) ? hlo_build_binary(op, b, a) : hlo_build_binary(op, a, b);
}
// x - 0 is x
static val sub(val a, val b) {
  const hlo_literal *l =
      is_number(b) ? hlo_constant_value(b->noperands ? hlo_operand(b, 0) : b) : NULL;
  return l && hlo_literal_is_all_f64(l, 0) ? a : hlo_build_binary(HLO_SUBTRACT, a, b);
}
static val add(val a, val b) { return commuting(HLO_ADD, a, b); }
static val mul(val a, val b) { return commuting(HLO_MULTIPLY, a, b); }
static val both(val a, val b) { return commuting(HLO_AND, a, b); }
static val either(val a, val b) { return commuting(HLO_OR, a, b); }
static val bits(val a, hlo_dtype t) {
  const hlo_shape *s = hlo_shape_with_dtype(a->parent->module->ctx, a->shape, t);
  return hlo_add(a->parent, HLO_BITCAST_CONVERT, s, 1, &a, NULL);
}
static bool is_f64(val a) { return a->shape->dtype == HLO_F64; }

// c[0] x^(n-1) + ... + c[n-1]
static val horner(mlir_reader *R, val x, u32 n, const double *c) {
  val p = c[0] == 1 ? x : mul(number(R, x, c[0]), x);
  for (u32 k = 1; k < n; k++) {
    p = add(p, number(R, x, c[k]));
    if (k + 1 < n) p = mul(p, x);
  }
  return p;
}
#define POLYNOMIAL(x, c) horner(R, x, HS_COUNT(c), c)

static const double erfc64_p8[] = {2.4619698147353052E-10, 0.56418956483106886, 7.4632105644226989,
                                   48.637197098568137,     196.5208329560771,   526.44519499547732,
                                   934.52852717195765,     1027.5518868951572,  557.53533536939938};
static const double erfc64_q8[] = {1,
                                   13.228195115474499,
                                   86.707214088598973,
                                   354.93777888781989,
                                   975.70850174320549,
                                   1823.9091668790973,
                                   2246.3376081871097,
                                   1656.6630919416134,
                                   557.53534081772773};
static const double erfc64_p[] = {0.56418958354775506, 1.275366707599781,  5.0190504225118051,
                                  6.160210979930536,   7.4097426995044895, 2.9788666537210022};
static const double erfc64_q[] = {1,
                                  2.2605286322011726,
                                  9.3960352493800147,
                                  12.048953980809666,
                                  17.081445074756591,
                                  9.6089680906328585,
                                  3.3690764510008151};
static const double erf64_t[] = {9.6049737398705161, 90.026019720384269, 2232.0053459468431,
                                 7003.3251411280507, 55592.301301039493};
static const double erf64_u[] = {1,
                                 33.561714164750313,
                                 521.35794978015269,
                                 4594.3238297098014,
                                 22629.000061389095,
                                 49267.394260863592};
static const double erfc32_p[] = {2.326820e-02, -0.138703942, 0.368742466,
                                  -0.582473278, 0.621000468,  -0.494451523,
                                  3.404880e-01, -0.274112701, 0.563825965};
static const double erfc32_r[] = {-10.477664,  1.297720e+01, -7.49551868,  2.92101908,
                                  -1.01526523, 0.42184633,   -0.282076746, 0.564189494};
static const double erf32_t[] = {7.85386146E-5, -8.0101937E-4, 0.00518832775, -0.0268538129,
                                 0.112835854,   -0.37612626,   1.12837911};
static const double i1e64_a[] = {
    2.7779141127610464E-18,  -2.111421214358166E-17,  1.5536319577362005E-16,
    -1.1055969477353862E-15, 7.6006842947354077E-15,  -5.0421855047279118E-14,
    3.2237933659455748E-13,  -1.9839743977649436E-12, 1.1736186298890901E-11,
    -6.6634897235020271E-11, 3.6255902815521172E-10,  -1.8872497517228294E-9,
    9.3815373864957726E-9,   -4.4450591287963281E-8,  2.0032947535521353E-7,
    -8.5687202646954547E-7,  3.4702513081376785E-6,   -1.3273163656039436E-5,
    4.7815651075500542E-5,   -1.6176081582589674E-4,  5.1228595616857576E-4,
    -0.0015135724506312532,  0.0041564229443128882,   -0.010564084894626197,
    0.024726449030626516,    -0.052945981208094989,   0.10264365868984709,
    -0.17641651835783406,    0.25258718644363365};
static const double i1e64_b[] = {
    7.5172963108421052E-18,  4.4143483230717077E-18,  -4.6503053684893586E-17,
    -3.2095259219934238E-17, 2.9626289976459501E-16,  3.3082023109209285E-16,
    -1.8803547755107825E-15, -3.8144030724370075E-15, 1.0420276984128802E-14,
    4.272440016711951E-14,   -2.1015418427726643E-14, -4.0835511110921974E-13,
    -7.1985517762459084E-13, 2.0356285441470896E-12,  1.4125807436613782E-11,
    3.2526035830154884E-11,  -1.8974958123505413E-11, -5.5897434621965838E-10,
    -3.835380385964237E-9,   -2.6314688468895196E-8,  -2.5122362378702088E-7,
    -3.8825648088776906E-6,  -1.1058893876262371E-4,  -0.0097610974913614687,
    0.7785762350182801};
static const double i1e32_a[] = {
    9.38153732E-9, -4.44505908E-8, 2.00329481E-7, -8.568720e-07,  3.47025139E-6, -1.32731639E-5,
    4.78156508E-5, -1.61760821E-4, 5.122860e-04,  -0.00151357241, 0.0041564228,  -0.0105640851,
    0.0247264486,  -0.0529459827,  0.102643661,   -0.176416516,   0.252587199};
static const double i1e32_b[] = {-3.83538046E-9, -2.63146891E-8, -2.51223611E-7, -3.88256467E-6,
                                 -1.10588939E-4, -0.00976109784, 0.778576254};
static const double erfinv32_small[] = {2.81022636E-8,  3.43273939E-7, -3.5233877E-6,
                                        -4.39150654E-6, 2.1858087E-4,  -0.00125372503,
                                        -0.00417768164, 0.246640727,   1.50140941};
static const double erfinv32_large[] = {-2.00214257E-4, 1.00950558E-4, 0.00134934322,
                                        -0.00367342844, 0.00573950773, -0.0076224613,
                                        0.00943887047,  1.00167406,    2.83297682};
static const double erfinv64_a[] = {
    -3.6444120640178197E-21, -1.6850591381820166E-19, 1.28584807152564E-18,
    1.1157877678025181E-17,  -1.3331716628546209E-16, 2.0972767875968562E-17,
    6.6376381343583238E-15,  -4.0545662729752069E-14, -8.1519341976054721E-14,
    2.6335093153082323E-12,  -1.2975133253453532E-11, -5.4154120542946279E-11,
    1.0512122733215323E-9,   -4.1126339803469837E-9,  -2.9070369957882005E-8,
    4.2347877827932404E-7,   -1.3654692000834679E-6,  -1.3882523362786469E-5,
    1.8673420803405714E-4,   -7.4070253416626698E-4,  -0.0060336708714301491,
    0.24015818242558962,     1.6536545626831027};
static const double erfinv64_b[] = {
    2.2137376921775787E-9,  9.075656193888539E-8,   -2.7517406297064545E-7, 1.8239629214389228E-8,
    1.5027403968909828E-6,  -4.013867526981546E-6,  2.9234449089955446E-6,  1.2475304481671779E-5,
    -4.7318229009055734E-5, 6.8284851459573175E-5,  2.4031110387097894E-5,  -3.5503752036284748E-4,
    9.5328937973738049E-4,  -0.0016882755560235047, 0.0024914420961078508,  -0.0037512085075692412,
    0.0053709145535900636,  1.0052589676941592,     3.0838856104922208};
static const double erfinv64_c[] = {
    -2.7109920616438573E-11, -2.5556418169965252E-10, 1.5076572693500548E-9,
    -3.789465440126737E-9,   7.6157012080783394E-9,   -1.496002662714924E-8,
    2.9147953450901081E-8,   -6.7711997758452339E-8,  2.2900482228026655E-7,
    -9.9298272942317003E-7,  4.5260625972231537E-6,   -1.9681778105531671E-5,
    7.5995277030017761E-5,   -2.1503011930044477E-4,  -1.3871931833623122E-4,
    1.0103004648645344,      4.8499064014085844};

// ---- erfc, erf_inv ------------------------------------------------------------------------------
// 1 - erf(x) for |x| < 1, by a quotient of exponentially damped polynomials beyond.
static val erfc_fn(mlir_reader *R, const val *in) {
  val x = in[0], square = mul(x, x), minus = negate(square), size = absolute(x), far, near;
  bool wide = is_f64(x);
  // StableHLO's formula squares twice, once for each part
  val again = mul(x, x);
  val damped = hlo_build_unary(HLO_EXP, minus), one = number(R, x, 1), two = number(R, x, 2);
  if (wide) {
    val middle = quo(mul(damped, POLYNOMIAL(size, erfc64_p8)), POLYNOMIAL(size, erfc64_q8));
    val outer = quo(mul(damped, POLYNOMIAL(size, erfc64_p)), POLYNOMIAL(size, erfc64_q));
    far = choose(lt(size, number(R, x, 8)), middle, outer);
    near = quo(mul(x, POLYNOMIAL(again, erf64_t)), POLYNOMIAL(again, erf64_u));
  } else {
    val inverse = quo(one, square), scale = mul(damped, quo(one, size));
    far = mul(scale,
              choose(lt(size, two), POLYNOMIAL(inverse, erfc32_p), POLYNOMIAL(inverse, erfc32_r)));
    near = mul(x, POLYNOMIAL(again, erf32_t));
  }
  // where exp(-x*x) is no normal number
  val zero = number(R, x, 0), least = number(R, x, wide ? -709.78271289338397 : -88.7228394);
  far = choose(lt(minus, least), zero, far);
  far = choose(lt(x, zero), sub(two, far), far);
  return choose(lt(absolute(x), one), sub(one, near), far);
}

static val at_the_ends(mlir_reader *R, val x, val inside) {
  return choose(eq(absolute(x), number(R, x, 1)), mul(x, number(R, x, INFINITY)), inside);
}

static val erf_inv32(mlir_reader *R, val x) {
  val w = negate(log_1p(mul(x, negate(x)))), small = lt(w, number(R, x, 5)), p = NULL;
  val shifted =
      choose(small, sub(w, number(R, x, 2.5)), sub(hlo_build_unary(HLO_SQRT, w), number(R, x, 3)));
  for (u32 k = 0; k < HS_COUNT(erfinv32_small); k++) {
    val c = choose(small, number(R, x, erfinv32_small[k]), number(R, x, erfinv32_large[k]));
    p = p ? add(c, mul(p, shifted)) : c;
  }
  return at_the_ends(R, x, mul(p, x));
}

// Three ranges of w with polynomials of different degrees, evaluated side by side.
static val erf_inv64(mlir_reader *R, val x) {
  val w = negate(log_1p(mul(x, negate(x)))), p = NULL;
  val small = lt(w, number(R, x, 6.25)), middle = lt(w, number(R, x, 16));
  val root = hlo_build_unary(HLO_SQRT, w);
  val shifted = choose(small, sub(w, number(R, x, 3.125)),
                       sub(root, choose(middle, number(R, x, 3.25), number(R, x, 5))));
  enum { A = HS_COUNT(erfinv64_a), B = HS_COUNT(erfinv64_b), C = HS_COUNT(erfinv64_c) };
  for (u32 k = 0; k < A; k++) {
    val c = number(R, x, erfinv64_a[k]);
    if (k < B) c = choose(small, c, number(R, x, erfinv64_b[k]));
    if (k < C) c = choose(middle, c, number(R, x, erfinv64_c[k]));
    val next = p ? add(c, mul(p, shifted)) : c;
    p = k < C ? next : choose(k < B ? middle : small, next, p);
  }
  return at_the_ends(R, x, mul(p, x));
}

static val erf_inv_fn(mlir_reader *R, const val *in) {
  return is_f64(in[0]) ? erf_inv64(R, in[0]) : erf_inv32(R, in[0]);
}

// ---- the gamma function -------------------------------------------------------------------------
// Lanczos' series with g = 7 and 8 terms beside the constant one.
#define LANCZOS_G 7.0
#define LANCZOS_BASE 0.99999999999980993227684700473478
static const double lanczos[] = {
    676.520368121885098567009190444019, -1259.13921672240287047156078755283,
    771.3234287776530788486528258894,   -176.61502916214059906584551354,
    12.507343278686904814458936853,     -0.13857109526572011689554707,
    9.984369578019570859563e-6,         1.50563273514931155834e-7};

// log(z + g + 1/2)
static val log_shifted(mlir_reader *R, val z) {
  val shift = number(R, z, LANCZOS_G + 0.5);
  return add(number(R, z, log(LANCZOS_G + 0.5)), log_1p(quo(z, shift)));
}

static val lgamma_of(mlir_reader *R, val x) {
  val half = number(R, x, 0.5), one = number(R, x, 1), reflect = lt(x, half);
  val z = choose(reflect, negate(x), sub(x, one)), sum = number(R, x, LANCZOS_BASE);
  for (u32 k = 0; k < HS_COUNT(lanczos); k++)
    sum = add(sum, quo(number(R, x, lanczos[k]), add(z, number(R, x, k + 1))));
  val t = add(number(R, x, LANCZOS_G + 0.5), z), log_t = log_shifted(R, z);
  val power = mul(sub(add(z, half), quo(t, log_t)), log_t);
  val y = add(add(number(R, x, log(sqrt(2 * M_PI))), power), natural_log(sum));
  // gamma(x) gamma(1 - x) = pi / sin(pi x), the sine of the part behind the point
  val size = absolute(x), part = sub(size, flr(size));
  part = choose(lt(half, part), sub(one, part), part);
  val sine = natural_log(hlo_build_unary(HLO_SIN, mul(number(R, x, M_PI), part)));
  val other = sub(sub(number(R, x, log(M_PI)), sine), y);
  other = choose(hlo_build_unary(HLO_IS_FINITE, sine), other, negate(sine));
  val infinite = number(R, x, INFINITY);
  return choose(eq(absolute(x), infinite), infinite, choose(reflect, other, y));
}
static val lgamma_fn(mlir_reader *R, const val *in) { return lgamma_of(R, in[0]); }

static val digamma_of(mlir_reader *R, val x) {
  val half = number(R, x, 0.5), zero = number(R, x, 0), reflect = lt(x, half);
  val z = choose(reflect, negate(x), sub(x, number(R, x, 1)));
  val above = zero, below = number(R, x, LANCZOS_BASE);
  for (u32 k = 0; k < HS_COUNT(lanczos); k++) {
    val c = number(R, x, lanczos[k]), d = add(z, number(R, x, k + 1));
    above = sub(above, quo(c, mul(d, d)));
    below = add(below, quo(c, d));
  }
  val t = add(number(R, x, LANCZOS_G + 0.5), z);
  val y = sub(add(log_shifted(R, z), quo(above, below)), quo(number(R, x, LANCZOS_G), t));
  // digamma(x) = digamma(1 - x) - pi cot(pi x), the angle reduced first
  val pi = number(R, x, M_PI), angle = mul(pi, add(x, absolute(flr(add(x, half)))));
  val cot = quo(mul(pi, hlo_build_unary(HLO_COSINE, angle)), hlo_build_unary(HLO_SIN, angle));
  val real = choose(reflect, sub(y, cot), y);
  return choose(both(le(x, zero), eq(x, flr(x))), number(R, x, NAN), real);
}
static val digamma_fn(mlir_reader *R, const val *in) { return digamma_of(R, in[0]); }

// The numbers B(2k) / (2k)! of Euler and Maclaurin's formula, from k = 12 down to 2.
static const double euler_maclaurin[] = {
    -1.39544646858125233e-19,  5.509002828360229515e-18,  -2.17486869855806187e-16,
    8.586062056277844564e-15,  -3.389680296322582866e-13, 1.33825365306846788e-11,
    -5.284190138687493184e-10, 2.087675698786809898e-8,   -8.267195767195767196e-7,
    3.306878306878306878e-5,   -1.388888888888888889e-3};

// Hurwitz' zeta function: ten terms of the sum, the rest by Euler and Maclaurin.
static val zeta_of(mlir_reader *R, val x, val q) {
  val zero = number(R, x, 0), one = number(R, x, 1), minus = negate(x), nan = number(R, x, NAN);
  val a = q, sum = hlo_build_binary(HLO_POWER, q, minus), power = NULL;
  for (int k = 0; k < 10; k++) {
    a = add(a, one);
    power = hlo_build_binary(HLO_POWER, a, minus);
    if (k < 9) sum = add(sum, power);
  }
  val rest = quo(mul(power, a), sub(x, one)), inverse = quo(one, mul(a, a)), series = NULL;
  for (u32 k = 0; k < HS_COUNT(euler_maclaurin); k++) {
    double up = 2.0 * (HS_COUNT(euler_maclaurin) - k);
    val factor = mul(add(x, number(R, x, up)), add(x, number(R, x, up - 1)));
    val c = number(R, x, euler_maclaurin[k]);
    series = mul(factor, mul(inverse, series ? add(series, c) : c));
  }
  val tail = mul(quo(x, a), add(number(R, x, 1.0 / 12), series));
  val all = add(add(sum, rest), mul(power, add(number(R, x, 0.5), tail)));
  // terms too small to count
  double least = is_f64(x) ? 0x1p-1074 : 0x1p-149;
  val y = choose(lt(absolute(power), mul(absolute(sum), number(R, x, least))), sum, all);
  y = choose(lt(x, one), nan, y);
  val pole = le(q, zero);
  y = choose(both(pole, ne(x, flr(x))), nan, y);
  val infinite = number(R, x, INFINITY);
  val even = both(eq(x, flr(x)), eq(hlo_build_binary(HLO_REMAINDER, x, number(R, x, 2)), zero));
  y = choose(both(pole, eq(q, flr(q))), choose(even, infinite, nan), y);
  return choose(eq(x, one), infinite, y);
}
static val zeta(mlir_reader *R, const val *in) { return zeta_of(R, in[0], in[1]); }

// (-1)^(n+1) n! zeta(n + 1, x), digamma for n = 0
static val polygamma(mlir_reader *R, const val *in) {
  val n = in[0], x = in[1], one = number(R, n, 1), two = number(R, n, 2), zero = number(R, n, 0);
  val sign = sub(mul(two, hlo_build_binary(HLO_REMAINDER, n, two)), one), up = add(n, one);
  val factorial = hlo_build_unary(HLO_EXP, lgamma_of(R, up));
  val y = mul(mul(sign, factorial), zeta_of(R, up, x));
  y = choose(eq(n, zero), digamma_of(R, x), y);
  return choose(either(ne(n, flr(n)), lt(n, zero)), number(R, n, NAN), y);
}

// ---- others -------------------------------------------------------------------------------------
static val chebyshev(mlir_reader *R, val x, u32 n, const double *c) {
  val b0 = number(R, x, 0), b1 = b0, b2 = b0;
  for (u32 k = 0; k < n; k++) {
    b2 = b1;
    b1 = b0;
    b0 = add(sub(mul(x, b1), b2), number(R, x, c[k]));
  }
  return mul(sub(b0, b2), number(R, x, 0.5));
}

static val bessel_i1e(mlir_reader *R, const val *in) {
  val x = in[0], size = absolute(x), two = number(R, x, 2);
  val near = sub(mul(number(R, x, 0.5), size), two), far = sub(quo(number(R, x, 32), size), two), a,
      b;
#define SERIES(x, c) chebyshev(R, x, HS_COUNT(c), c)
  a = is_f64(x) ? SERIES(near, i1e64_a) : SERIES(near, i1e32_a);
  b = is_f64(x) ? SERIES(far, i1e64_b) : SERIES(far, i1e32_b);
#undef SERIES
  val y = choose(le(size, number(R, x, 8)), mul(size, a), quo(b, hlo_build_unary(HLO_SQRT, size)));
  return mul(hlo_build_unary(HLO_SIGN, x), y);
}

// On the bits: one up or down, through 0 to the smallest number of the other sign.
static val next_after(mlir_reader *R, const val *in) {
  val x = in[0], y = in[1];
  u32 width = (u32)hlo_dtype_storage(x->shape->dtype) * 8;
  hlo_dtype t = width == 16 ? HLO_S16 : width == 32 ? HLO_S32 : HLO_S64;
  val a = bits(x, t), b = bits(y, t);
  val nan = either(ne(x, x), ne(y, y)), one = number(R, a, 1), zero = number(R, a, 0);
  i64 highest = (i64)((u64)-1 >> 1) >> (64 - width);
  val sign = integer(R, a, -highest - 1), rest = integer(R, a, highest);
  val size_a = both(a, rest), size_b = both(b, rest);
  val sign_a = both(a, sign), sign_b = both(b, sign);
  val down = either(gt(size_a, size_b), ne(sign_a, sign_b));
  val moved = add(a, choose(down, number(R, a, -1), one));
  val from_zero = choose(eq(size_b, zero), b, either(sign_b, one));
  val result = choose(eq(size_a, zero), from_zero, moved);
  result = choose(eq(x, y), b, result);
  result = choose(nan, bits(number(R, x, NAN), t), result);
  return bits(result, x->shape->dtype);
}

static val is_inf(mlir_reader *R, const val *in) {
  return eq(absolute(in[0]), number(R, in[0], INFINITY));
}
static val is_pos_inf(mlir_reader *R, const val *in) {
  return eq(in[0], number(R, in[0], INFINITY));
}
static val is_neg_inf(mlir_reader *R, const val *in) {
  return eq(in[0], number(R, in[0], -INFINITY));
}

// ---- the rule -----------------------------------------------------------------------------------
typedef struct function {
  const char *name;  // behind "chlo." and "broadcast_"
  u32 nops;
  // every: types of all widths as they are; others compute narrow types in f32
  bool every;
  val (*make)(mlir_reader *, const val *in);
} function;
static const function functions[] = {
    {"bessel_i1e", 1, false, bessel_i1e},
    {"digamma", 1, false, digamma_fn},
    {"erf_inv", 1, false, erf_inv_fn},
    {"erfc", 1, false, erfc_fn},
    {"is_inf", 1, true, is_inf},
    {"is_neg_inf", 1, true, is_neg_inf},
    {"is_pos_inf", 1, true, is_pos_inf},
    {"lgamma", 1, false, lgamma_fn},
    {"next_after", 2, true, next_after},
    {"polygamma", 2, false, polygamma},
    {"zeta", 2, false, zeta},
};

static const function *find(hs_str name) {
  static const char *const prefixes[] = {"chlo.", "broadcast_"};
  for (size_t k = 0; k < HS_COUNT(prefixes); k++) {
    size_t n = strlen(prefixes[k]);
    if (name.n > n && !memcmp(name.p, prefixes[k], n)) name.p += n, name.n -= n;
  }
  for (size_t k = 0; k < HS_COUNT(functions); k++)
    if (hs_str_eq(name, hs_str_of(functions[k].name))) return &functions[k];
  return NULL;
}

// All that the formula made comes from the operation that it stands for.
static void mark(const mlir_reader *R, hlo_instr *first) {
  for (hlo_instr *i = first; i && R->meta; i = i->next)
    if (i->opcode != HLO_CONSTANT) hlo_set_attr_ptr(i, HLO_ATTR_METADATA, R->meta);
}

bool mlir_rule_chlo_function(mlir_reader *R, mlir_op *op) {
  const function *f = find(op->name);
  const hlo_shape *to = op->res[0].shape;
  hlo_instr **in;
  if (!f || op->nops != f->nops)
    return mlir_fail(R, HS_E_ARITY, "%.*s has %u operands", (int)HS_MIN(op->name.n, 60u),
                     op->name.p, op->nops);
  if (!mlir_operands(R, op, &in)) return false;
  for (u32 k = 0; k < f->nops; k++) {
    const hlo_shape *s = in[k]->shape;
    hlo_dtype t = s->dtype;
    if (!hlo_dtype_is_float(t) || s->dynamic)
      return mlir_fail(R, HS_E_NO_HLO, "%.*s of %.*s is not converted",
                       (int)HS_MIN(op->name.n, 60u), op->name.p,
                       (int)HS_MIN(op->ops[k]->type.n, 60u), op->ops[k]->type.p);
    if (f->every && hlo_dtype_storage(t) == 1)
      return mlir_fail(R, HS_E_NO_HLO, "%.*s of 8-bit numbers is not converted",
                       (int)HS_MIN(op->name.n, 60u), op->name.p);
    if (!(in[k] = mlir_spread(R, in[k], to))) return false;
    if (!hlo_shape_same_dims(in[k]->shape, to))
      return mlir_fail(R, HS_E_SHAPE, "the operands of %.*s differ in shape",
                       (int)HS_MIN(op->name.n, 60u), op->name.p);
  }
  hlo_instr *last = R->comp->last, *made;
  hlo_dtype narrow = in[0]->shape->dtype;
  bool widen = !f->every && narrow != HLO_F32 && narrow != HLO_F64;
  for (u32 k = 0; k < f->nops && widen; k++) in[k] = hlo_build_convert(in[k], HLO_F32);
  made = f->make(R, in);
  if (widen) made = hlo_build_convert(made, narrow);
  mark(R, last ? last->next : R->comp->first);
  if (made->shape->logical != to->logical)
    return mlir_fail(R, HS_E_SHAPE, "%.*s does not have the result type that is written",
                     (int)HS_MIN(op->name.n, 60u), op->name.p);
  return mlir_bind_results(R, op, made);
}

// The square of a complex number: (re - im) (re + im) and 2 re im, whose parts cannot cancel.
bool mlir_rule_chlo_square(mlir_reader *R, mlir_op *op) {
  hlo_instr **in;
  if (!mlir_operands(R, op, &in) || op->nops != 1) return false;
  if (!hlo_dtype_is_complex(in[0]->shape->dtype)) {
    hlo_instr *twice[2] = {in[0], in[0]};
    return mlir_bind_results(R, op,
                             mlir_emit(R, HLO_MULTIPLY, op->res[0].shape, 2, twice, 0, NULL));
  }
  if (in[0]->shape->dynamic)
    return mlir_fail(R, HS_E_NO_HLO, "chlo.square of this type is not converted");
  hlo_instr *last = R->comp->last;
  val re = hlo_build_unary(HLO_REAL, in[0]), im = hlo_build_unary(HLO_IMAG, in[0]);
  val equal = both(hlo_build_unary(HLO_IS_FINITE, re), eq(absolute(re), absolute(im)));
  val real = choose(equal, number(R, re, 0), mul(sub(re, im), add(re, im)));
  val made = hlo_build_binary(HLO_COMPLEX, real, mul(number(R, re, 2), mul(re, im)));
  mark(R, last->next);
  return mlir_bind_results(R, op, made);
}

// Of a complex number z: -i atanh(i z).
bool mlir_rule_chlo_atan(mlir_reader *R, mlir_op *op) {
  hlo_instr **in;
  if (!mlir_operands(R, op, &in)) return false;
  hlo_dtype t = in[0]->shape->dtype;
  if (op->nops != 1 || in[0]->shape->dynamic || !(hlo_dtype_is_float(t) || hlo_dtype_is_complex(t)))
    return mlir_fail(R, HS_E_NO_HLO, "chlo.atan of this type is not converted");
  hlo_instr *last = R->comp->last;
  val made;
  if (hlo_dtype_is_complex(t)) {
    val re = hlo_build_unary(HLO_REAL, in[0]), im = hlo_build_unary(HLO_IMAG, in[0]);
    val turned = hlo_build_binary(HLO_COMPLEX, negate(im), re);
    val w = hlo_build_unary(HLO_ATANH, turned);
    made = hlo_build_binary(HLO_COMPLEX, hlo_build_unary(HLO_IMAG, w),
                            negate(hlo_build_unary(HLO_REAL, w)));
  } else {
    made = hlo_build_binary(HLO_ATAN2, in[0], number(R, in[0], 1));
  }
  mark(R, last->next);
  return mlir_bind_results(R, op, made);
}

// A value of the element type, repeated to the operand's shape.
bool mlir_rule_chlo_constant_like(mlir_reader *R, mlir_op *op) {
  mlir_span s;
  hlo_literal *l;
  const hlo_shape *to = op->res[0].shape;
  if (!mlir_get(R, &op->attrs, "value", &s))
    return mlir_fail(R, HS_E_ATTR, "chlo.constant_like without a value");
  if (to->dynamic) return mlir_fail(R, HS_E_NO_HLO, "constants have no dynamic shapes in HLO");
  if (!mlir_dense(R, s, hlo_shape_scalar(R->ctx, to->dtype), &l)) return false;
  val i = mlir_constant(R, l);
  return i && mlir_bind_results(R, op, mlir_spread(R, i, to));
}
