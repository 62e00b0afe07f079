// emit_elementwise.c — kernels of one elementwise instruction against the evaluator: operation x
// type x shape, with the ULP that each operation may be off by.
#if HAVE_LLVM
#include "tests/unit/backends/kernels.h"

static const char *const shapes[] = {"[]", "[0]", "[1]", "[67]", "[3,5,9]"};
static const char *const ints[] = {"s8", "s16", "s32", "s64", "u8", "u16", "u32", "u64"};
static const char *const floats[] = {"f16", "bf16", "f32", "f64"};

static void integers(void **state) {
  (void)state;
  static const char *const two[] = {"add",
                                    "subtract",
                                    "multiply",
                                    "divide",
                                    "remainder",
                                    "maximum",
                                    "minimum",
                                    "and",
                                    "or",
                                    "xor",
                                    "shift-left",
                                    "shift-right-arithmetic",
                                    "shift-right-logical",
                                    "power"};
  static const char *const one[] = {"abs",  "negate", "not",
                                    "sign", "popcnt", "count-leading-zeros"};
  for (size_t t = 0; t < HS_COUNT(ints); t++) {
    for (size_t k = 0; k < HS_COUNT(two); k++)
      binary_case(two[k], ints[t], ints[t], shapes[(k + t) % 5 == 1 ? 0 : 3], "", 0);
    for (size_t k = 0; k < HS_COUNT(one); k++)
      if (!(one[k][0] == 'n' && one[k][1] == 'e' && ints[t][0] == 'u'))
        unary_case(one[k], ints[t], ints[t], "[67]", "", 0);
  }
  run_cases();
}

static void float_arithmetic(void **state) {
  (void)state;
  static const char *const two[] = {"add", "subtract", "multiply", "divide", "maximum", "minimum"};
  static const char *const one[] = {
      "abs", "negate", "floor", "ceil", "round-nearest-even", "round-nearest-afz", "sign"};
  for (size_t t = 0; t < HS_COUNT(floats); t++) {
    for (size_t s = 0; s < HS_COUNT(shapes); s++)
      binary_case("add", floats[t], floats[t], shapes[s], "", 0);
    for (size_t k = 0; k < HS_COUNT(two); k++)
      binary_case(two[k], floats[t], floats[t], "[67]", "", 0);
    for (size_t k = 0; k < HS_COUNT(one); k++)
      unary_case(one[k], floats[t], floats[t], "[131]", "", 0);
    unary_case("is-finite", floats[t], "pred", "[67]", "", 0);
    unary_case("sqrt", floats[t], floats[t], "[67]", "", 1);
    binary_case("remainder", floats[t], floats[t], "[67]", "", 1);
    unary_case("reduce-precision", floats[t], floats[t], "[131]",
               ", exponent_bits=5, mantissa_bits=6", 0);
  }
  run_cases();
}

// ULP against the evaluator, per operation.
static const struct {
  const char *op;
  double f32, f64;
  bool two;
} math_ops[] = {
    {"exponential", 2, 2, false},  {"log", 2, 2, false},
    {"log-plus-one", 4, 4, false}, {"exponential-minus-one", 4, 4, false},
    {"logistic", 4, 4, false},     {"tanh", 4, 4, false},
    {"erf", 5, 2, false},          {"sine", 3, 2, false},
    {"cosine", 3, 2, false},       {"tan", 3, 2, false},
    {"rsqrt", 2, 2, false},        {"cbrt", 2, 2, false},
    {"power", 2, 2, true},         {"atan2", 4, 2, true},
};

static void math(void **state) {
  (void)state;
  for (size_t k = 0; k < HS_COUNT(math_ops); k++)
    for (size_t t = 0; t < HS_COUNT(floats); t++) {
      double ulp = t == 3 ? math_ops[k].f64 : t == 2 ? math_ops[k].f32 : 1;
      if (math_ops[k].two) binary_case(math_ops[k].op, floats[t], floats[t], "[1031]", "", ulp);
      else unary_case(math_ops[k].op, floats[t], floats[t], "[1031]", "", ulp);
    }
  run_cases();
}

static void comparisons(void **state) {
  (void)state;
  static const char *const dirs[] = {"EQ", "NE", "GE", "GT", "LE", "LT"};
  for (size_t d = 0; d < 6; d++) {
    char attr[64];
    snprintf(attr, sizeof attr, ", direction=%s", dirs[d]);
    for (size_t t = 0; t < HS_COUNT(ints); t++)
      binary_case("compare", ints[t], "pred", "[67]", attr, 0);
    for (size_t t = 0; t < HS_COUNT(floats); t++)
      binary_case("compare", floats[t], "pred", "[67]", attr, 0);
    binary_case("compare", "pred", "pred", "[67]", attr, 0);
    snprintf(attr, sizeof attr, ", direction=%s, type=TOTALORDER", dirs[d]);
    for (size_t t = 0; t < HS_COUNT(floats); t++)
      binary_case("compare", floats[t], "pred", "[131]", attr, 0);
  }
  run_cases();
}

static void converts(void **state) {
  (void)state;
  const char *all[16];
  size_t n = 0;
  for (size_t k = 0; k < HS_COUNT(ints); k++) all[n++] = ints[k];
  for (size_t k = 0; k < HS_COUNT(floats); k++) all[n++] = floats[k];
  all[n++] = "pred";
  for (size_t a = 0; a < n; a++)
    for (size_t b = 0; b < n; b++)
      if (a != b) unary_case("convert", all[a], all[b], "[131]", "", 0);
  unary_case("bitcast-convert", "f32", "s32", "[67]", "", 0);
  unary_case("bitcast-convert", "u16", "bf16", "[67]", "", 0);
  unary_case("bitcast-convert", "f64", "u64", "[67]", "", 0);
  add_case(
      "HloModule m\nENTRY e {\n x = u32[7] parameter(0)\n ROOT r = u8[7,4] bitcast-convert(x)\n}",
      0, true);
  add_case(
      "HloModule m\nENTRY e {\n x = u8[7,8] parameter(0)\n ROOT r = s64[7] bitcast-convert(x)\n}",
      0, true);
  static const char *const below[][2] = {{"s8[7]", "s4[7,2]"},   {"s4[7,2]", "s8[7]"},
                                         {"u8[5]", "u2[5,4]"},   {"u1[3,16]", "bf16[3]"},
                                         {"s64[2]", "s2[2,32]"}, {"u8[9]", "f4e2m1fn[9,2]"}};
  for (size_t k = 0; k < HS_COUNT(below); k++) {
    char text[256];
    (void)snprintf(text, sizeof text,
                   "HloModule m\nENTRY e {\n x = %s parameter(0)\n ROOT r = %s "
                   "bitcast-convert(x)\n}",
                   below[k][0], below[k][1]);
    add_case(text, 0, true);
  }
  // the bytes of another shape; layouts are cpu_operations.c's
  static const char *const bytes[][2] = {{"u32[6,4]", "u64[6,2]"},  {"u32[6,4]", "u8[2,48]"},
                                         {"f64[5,3]", "s32[3,10]"}, {"u8[16]", "f64[1,2]"},
                                         {"s64[2]", "bf16[8]"},     {"u16[4]", "u64[]"}};
  for (size_t k = 0; k < HS_COUNT(bytes); k++) {
    char text[160];
    snprintf(text, sizeof text,
             "HloModule m\nENTRY e {\n x = %s parameter(0)\n ROOT r = %s bitcast(x)\n}",
             bytes[k][0], bytes[k][1]);
    add_case(text, 0, true);
  }
  run_cases();
}

// Formats below 8 bits and 8-bit floats: conversions both ways, arithmetic rounded or wrapped after
// each step.
static void small_types(void **state) {
  (void)state;
  static const char *const f8[] = {"f8e5m2",     "f8e4m3fn",   "f8e4m3b11fnuz",
                                   "f8e5m2fnuz", "f8e4m3fnuz", "f8e3m4"};
  static const char *const i4[] = {"s4", "u4", "s2", "u2"};
  for (size_t k = 0; k < HS_COUNT(f8); k++) {
    unary_case("convert", "f32", f8[k], "[131]", "", 0);
    unary_case("convert", f8[k], "f32", "[131]", "", 0);
    unary_case("convert", f8[k], "s32", "[131]", "", 0);
    binary_case("compare", f8[k], "pred", "[131]", ", direction=LT", 0);
    binary_case("multiply", f8[k], f8[k], "[131]", "", 0);
    // One lane of a row of four is stored: LLVM 22's truncating store of one lane spills over.
    char text[256];
    (void)snprintf(text, sizeof text,
                   "HloModule m\nENTRY e {\n x = %s[1,1] parameter(0)\n p = %s[] parameter(1)\n"
                   " ROOT r = %s[3,4] pad(x, p), padding=0_2_0x1_2_0\n}",
                   f8[k], f8[k], f8[k]);
    add_case(text, 0, true);
  }
  for (size_t k = 0; k < HS_COUNT(i4); k++) {
    unary_case("convert", "s32", i4[k], "[131]", "", 0);
    unary_case("convert", "f32", i4[k], "[131]", "", 0);
    unary_case("convert", i4[k], "s32", "[131]", "", 0);
    binary_case("add", i4[k], i4[k], "[131]", "", 0);
    binary_case("multiply", i4[k], i4[k], "[131]", "", 0);
    binary_case("maximum", i4[k], i4[k], "[131]", "", 0);
    binary_case("shift-right-logical", i4[k], i4[k], "[131]", "", 0);
  }
  run_cases();
}

// Every bit of the conversions: codes to the bits of an f32, NaNs with them, and back from any f32,
// most of them within reach of the format, with its ties.
static void small_bits(void **state) {
  (void)state;
  static const char *const all[] = {"f8e5m2",     "f8e4m3", "f8e4m3fn",  "f8e4m3b11fnuz",
                                    "f8e5m2fnuz", "f8e3m4", "f8e4m3fnuz"};
  static const char *const masks[] = {"4294967295", "2281701375", "2281177088"};
  for (size_t k = 0; k < HS_COUNT(all); k++) {
    char text[1024];
    (void)snprintf(text, sizeof text,
                   "HloModule m\nf {\n x = u8[2048] parameter(0)\n"
                   " y = %s[2048] bitcast-convert(x)\n z = f32[2048] convert(y)\n"
                   " ROOT r = u32[2048] bitcast-convert(z)\n}\nENTRY e {\n"
                   " x = u8[2048] parameter(0)\n"
                   " ROOT r = u32[2048] fusion(x), kind=kLoop, calls=f\n}",
                   all[k]);
    add_case(text, 0, true);
    for (size_t j = 0; j < HS_COUNT(masks); j++) {
      (void)snprintf(text, sizeof text,
                     "HloModule m\nf {\n x = u32[4093] parameter(0)\n c = u32[] constant(%s)\n"
                     " d = u32[] constant(%s)\n cs = u32[4093] broadcast(c), dimensions={}\n"
                     " ds = u32[4093] broadcast(d), dimensions={}\n"
                     " a = u32[4093] and(x, cs)\n b = u32[4093] or(a, ds)\n"
                     " y = f32[4093] bitcast-convert(b)\n z = %s[4093] convert(y)\n"
                     " ROOT r = u8[4093] bitcast-convert(z)\n}\nENTRY e {\n"
                     " x = u32[4093] parameter(0)\n"
                     " ROOT r = u8[4093] fusion(x), kind=kLoop, calls=f\n}",
                     masks[j],
                     j == 0   ? "0"
                     : j == 1 ? "939524096"
                              : "872415232",
                     all[k]);
      add_case(text, 0, true);
    }
  }
  run_cases();
}

static void complexes(void **state) {
  (void)state;
  static const char *const two[] = {"add", "subtract", "multiply", "divide"};
  for (size_t k = 0; k < 4; k++)
    for (int d = 0; d < 2; d++) {
      char text[512];
      const char *t = d ? "c128" : "c64";
      snprintf(text, sizeof text,
               "HloModule m\nENTRY e {\n x = %s[37] parameter(0)\n y = %s[37] parameter(1)\n"
               " ROOT r = %s[37] %s(x, y)\n}",
               t, t, t, two[k]);
      add_case(text, 1000, false);
    }
  add_case("HloModule m\nENTRY e {\n x = c64[37] parameter(0)\n ROOT r = f32[37] abs(x)\n}", 8,
           false);
  add_case("HloModule m\nENTRY e {\n x = c64[37] parameter(0)\n ROOT r = c64[37] exponential(x)\n}",
           1000, false);
  // far out, where the imaginary part is small, and beside the infinities
  add_case("HloModule m\nENTRY e {\n x = c128[6] constant({(31,-1),(-25,3),(21,1.5707963),(300,2),"
           "(inf,inf),(-inf,2)})\n ROOT r = c128[6] tanh(x)\n}",
           8, false);
  add_case("HloModule m\nENTRY e {\n x = f32[37] parameter(0)\n y = f32[37] parameter(1)\n"
           " ROOT r = c64[37] complex(x, y)\n}",
           0, true);
  add_case("HloModule m\nENTRY e {\n x = c64[9,5] parameter(0)\n ROOT r = c64[5,9] transpose(x), "
           "dimensions={1,0}\n}",
           0, false);
  add_case("HloModule m\nENTRY e {\n x = c64[37] parameter(0)\n ROOT r = f32[37] imag(x)\n}", 0,
           false);
  run_cases();
}

int main(void) {
  const struct CMUnitTest tests[] = {
      TEST(integers), TEST(float_arithmetic), TEST(math),       TEST(comparisons),
      TEST(converts), TEST(small_types),      TEST(small_bits), TEST(complexes),
  };
  return cmocka_run_group_tests_name("emit_elementwise", tests, NULL, NULL);
}

#else
#include "tests/unit/skip.h"

int main(void) { return skip_all("no LLVM in this build"); }
#endif
