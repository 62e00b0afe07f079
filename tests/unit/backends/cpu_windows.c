// cpu_windows.c — reduce-window on the cpu backend against the evaluator: scans both ways, in
// blocks and in parts, sliding windows of every kind, empty windows, narrow and wide types,
// reducers that are compiled, several arrays; and that the kernel is chosen at all.
#include "tests/unit/backends/cpu.h"

// A reduce-window of one array; the reducer is the name of an operation.
static char *window_of(const char *type, const char *op, const char *from, const char *to,
                       const char *window, const char *init) {
  static char text[2048];
  snprintf(text, sizeof text,
           "HloModule t\n"
           "f { a = %s[] parameter(0)\n b = %s[] parameter(1)\n ROOT c = %s[] %s(a, b) }\n"
           "ENTRY e { x = %s%s parameter(0)\n z = %s[] constant(%s)\n"
           " ROOT r = %s%s reduce-window(x, z), window={%s}, to_apply=f }",
           type, type, type, op, type, from, type, init, type, to, window);
  return text;
}

static void check(const char *type, const char *op, const char *from, const char *to,
                  const char *window, const char *init) {
  agrees(window_of(type, op, from, to, window, init));
}

static void scans(void **st) {
  (void)st;
  check("f32", "add", "[3,1000]", "[3,1000]", "size=1x1000 pad=0_0x999_0", "0");
  check("f32", "add", "[3,1000]", "[3,1000]", "size=1x1000 pad=0_0x0_999", "0");
  check("f32", "maximum", "[40,33]", "[40,33]", "size=1x33 pad=0_0x32_0", "-inf");
  check("f32", "minimum", "[33,40]", "[33,40]", "size=33x1 pad=32_0x0_0", "inf");
  check("f32", "minimum", "[33,40]", "[33,40]", "size=33x1 pad=0_32x0_0", "inf");
  check("f32", "add", "[5,64,130]", "[5,64,130]", "size=1x64x1 pad=0_0x63_0x0_0", "0");
  check("f64", "multiply", "[2,70]", "[2,70]", "size=1x70 pad=0_0x69_0", "1");
  check("s32", "add", "[77]", "[77]", "size=77 pad=76_0", "0");
  check("u32", "maximum", "[77]", "[77]", "size=77 pad=0_76", "0");
  check("s64", "minimum", "[9,77]", "[9,77]", "size=1x77 pad=0_0x76_0", "9223372036854775807");
  check("u64", "multiply", "[77]", "[77]", "size=77 pad=76_0", "1");
}

// Long enough for blocks, along lines and down columns; windows longer than the array, shorter
// results, an initial value that counts.
static void long_scans(void **st) {
  (void)st;
  check("s32", "add", "[300000]", "[300000]", "size=300000 pad=299999_0", "7");
  check("s32", "add", "[300000]", "[300000]", "size=300000 pad=0_299999", "7");
  check("f32", "maximum", "[300001]", "[300001]", "size=300001 pad=300000_0", "-inf");
  check("s32", "add", "[40000,3]", "[40000,3]", "size=40000x1 pad=39999_0x0_0", "0");
  check("s32", "add", "[40000,3]", "[40000,3]", "size=40000x1 pad=0_39999x0_0", "0");
  check("s32", "add", "[100000]", "[100001]", "size=100000 pad=100000_0", "3");
  check("s32", "add", "[100000]", "[100050]", "size=100000 pad=99999_50", "3");
  check("s32", "add", "[100000]", "[60000]", "size=100000 pad=99999_-40000", "3");
  check("s32", "add", "[100]", "[120]", "size=150 pad=149_20", "0");
}

static void sliding(void **st) {
  (void)st;
  check("f32", "add", "[7,500]", "[7,468]", "size=1x33", "0");
  check("f32", "maximum", "[9000]", "[9000]", "size=100 pad=50_49", "-inf");
  check("f32", "maximum", "[9000]", "[9000]", "size=1000 pad=400_599", "-inf");
  check("f32", "minimum", "[5,90,40]", "[5,90,40]", "size=1x31x1 pad=0_0x15_15x0_0", "inf");
  check("f32", "add", "[200,40]", "[81,40]", "size=40x1 stride=2x1", "0");
  check("f32", "add", "[3,2000]", "[3,327]", "size=1x40 stride=1x6", "0");
  check("f32", "add", "[60,70]", "[50,50]", "size=11x21", "1");
  check("s32", "add", "[60,70,3]", "[60,70,3]", "size=21x15x1 pad=10_10x7_7x0_0", "0");
  check("f32", "maximum", "[50]", "[91]", "size=30 pad=35_35", "0.25");
  check("f32", "add", "[50,20]", "[30,20]", "size=40x1 pad=-10_29x0_0", "0");
  check("f32", "add", "[50]", "[12]", "size=64 pad=30_50 stride=6", "0");
}

// Some of the leading indices at a time, and fewer at the end; one at a time, scanned at the end.
static void groups(void **st) {
  (void)st;
  check("f32", "add", "[5,128,160]", "[5,128,160]", "size=1x9x11 pad=0_0x4_4x5_5", "1");
  check("s32", "add", "[3,9000,8]", "[3,8996,8]", "size=1x5x8 pad=0_0x0_0x7_0", "3");
  check("bf16", "maximum", "[7,2,128,160]", "[7,2,122,150]", "size=1x1x7x11", "-inf");
  // the arrays are 4 MB
  assert_true(temporaries(window_of("f32", "add", "[16,256,256]", "[16,250,250]", "size=1x7x7",
                                    "0")) <= 256 << 10);
}

static void types(void **st) {
  (void)st;
  check("bf16", "minimum", "[3,300]", "[3,300]", "size=1x300 pad=0_0x299_0", "inf");
  // sums that bf16 holds exactly: it is rounded once here, and at every step by the evaluator
  agrees(MODULE("f { a = bf16[] parameter(0)\n b = bf16[] parameter(1)\n"
                " ROOT c = bf16[] add(a, b) }\n"
                "ENTRY e { x = s32[3,300] parameter(0)\n y = bf16[3,300] convert(x)\n"
                " z = bf16[] constant(0)\n ROOT r = bf16[3,300] reduce-window(y, z), "
                "window={size=1x300 pad=0_0x299_0}, to_apply=f }"));
  check("f16", "maximum", "[3,300]", "[3,300]", "size=1x300 pad=0_0x299_0", "-inf");
  check("s8", "add", "[3,300]", "[3,300]", "size=1x300 pad=0_0x299_0", "0");
  check("u16", "maximum", "[3,300]", "[3,271]", "size=1x30", "0");
  check("pred", "or", "[400]", "[400]", "size=400 pad=399_0", "false");
  check("u32", "xor", "[30,400]", "[30,400]", "size=1x400 pad=0_0x0_399", "0");
  check("c64", "add", "[300,5]", "[300,5]", "size=300x1 pad=299_0x0_0", "(0, 0)");
  check("c128", "multiply", "[300]", "[300]", "size=300 pad=299_0", "(1, 0)");
  check("f32", "add", "[3,300]{0,1}", "[3,300]{0,1}", "size=1x300 pad=0_0x299_0", "0");
}

#define LOG_ADD                                                                       \
  "f { a = f32[] parameter(0)\n b = f32[] parameter(1)\n m = f32[] maximum(a, b)\n"   \
  " x = f32[] subtract(a, m)\n y = f32[] subtract(b, m)\n p = f32[] exponential(x)\n" \
  " q = f32[] exponential(y)\n s = f32[] add(p, q)\n l = f32[] log(s)\n"              \
  " ROOT r = f32[] add(m, l) }\n"
#define LARGEST                                                                    \
  "f { a = f32[] parameter(0)\n i = s32[] parameter(1)\n b = f32[] parameter(2)\n" \
  " j = s32[] parameter(3)\n p = pred[] compare(a, b), direction=GE\n"             \
  " v = f32[] select(p, a, b)\n k = s32[] select(p, i, j)\n ROOT t = (f32[], s32[]) tuple(v, k) }\n"

static void compiled(void **st) {
  (void)st;
  agrees(MODULE(LOG_ADD
                "ENTRY e { x = f32[4,500] parameter(0)\n z = f32[] constant(-1000)\n"
                " ROOT r = f32[4,500] reduce-window(x, z), window={size=1x500 pad=0_0x499_0}, "
                "to_apply=f }"));
  agrees(MODULE(LOG_ADD
                "ENTRY e { x = f32[200,70] parameter(0)\n z = f32[] constant(-1000)\n"
                " ROOT r = f32[200,70] reduce-window(x, z), window={size=200x1 pad=0_199x0_0}, "
                "to_apply=f }"));
  agrees(MODULE(LARGEST
                "ENTRY e { x = f32[20000] parameter(0)\n i = s32[20000] iota(), iota_dimension=0\n"
                " z = f32[] constant(-inf)\n k = s32[] constant(-1)\n"
                " ROOT r = (f32[20000], s32[20000]) reduce-window(x, i, z, k), "
                "window={size=20000 pad=19999_0}, to_apply=f }"));
  agrees(MODULE(LARGEST
                "ENTRY e { x = f32[60,5] parameter(0)\n i = s32[60,5] iota(), iota_dimension=0\n"
                " z = f32[] constant(-inf)\n k = s32[] constant(-1)\n"
                " ROOT r = (f32[60,5], s32[60,5]) reduce-window(x, i, z, k), "
                "window={size=60x1 pad=0_59x0_0}, to_apply=f }"));
}

// NaNs spread, and a scan's kernel is the scan's.
static void chosen(void **st) {
  (void)st;
  agrees(MODULE("f { a = f32[] parameter(0)\n b = f32[] parameter(1)\n"
                " ROOT c = f32[] maximum(a, b) }\n"
                "ENTRY e { x = f32[2,200] parameter(0)\n y = f32[2,200] log(x)\n"
                " z = f32[] constant(-inf)\n ROOT r = f32[2,200] reduce-window(y, z), "
                "window={size=1x200 pad=0_0x199_0}, to_apply=f }"));
  runs_as(window_of("f32", "add", "[2000000]", "[2000000]", "size=2000000 pad=1999999_0", "0"),
          "reduce-window (scan)");
}

// Gradients of poolings: channels last, in the middle and few; windows that overlap, leave gaps and
// hang over; every order; values that are equal; batches of one.
static void select_and_scatter(void **st) {
  (void)st;
  static const struct {
    const char *type, *operand, *source, *direction, *window;
  } all[] = {
      {"f32", "2,12,12,24", "2,6,6,24", "GE", "1x2x2x1 stride=1x2x2x1"},
      {"f32", "1,13,13,72", "1,6,6,72", "GE", "1x3x3x1 stride=1x2x2x1"},
      {"f32", "1,9,9,130", "1,9,9,130", "GT", "1x3x3x1 stride=1x1x1x1 pad=0_0x1_1x1_1x0_0"},
      {"f32", "2,3,12,20", "2,3,6,10", "GE", "1x1x2x2 stride=1x1x2x2"},
      {"f32", "2,3,13,141", "2,3,7,71", "LE", "1x1x3x3 stride=1x1x2x2 pad=0_0x0_0x1_1x1_1"},
      {"f32", "2,9,9,3", "2,3,3,3", "LT", "1x2x2x1 stride=1x3x3x1"},
      {"f64", "2,8,8,16", "2,7,7,16", "GE", "1x2x2x1 stride=1x1x1x1"},
      {"f64", "3,40", "3,38", "GE", "1x5 stride=1x1 pad=0_0x1_1"},
      {"f32", "50", "10", "GE", "5 stride=5 pad=0_0"},
      {"s32", "2,8,8,16", "2,4,4,16", "GE", "1x2x2x1 stride=1x2x2x1"},
      {"bf16", "2,8,8,16", "2,4,4,16", "GE", "1x2x2x1 stride=1x2x2x1"},
  };
  for (size_t k = 0; k < HS_COUNT(all); k++) {
    char text[1536];
    const char *t = all[k].type;
    // rounded, so that there are equal values
    snprintf(text, sizeof text,
             "HloModule t\nsel { a = %s[] parameter(0)\n b = %s[] parameter(1)\n"
             " ROOT c = pred[] compare(a, b), direction=%s }\n"
             "add { a = %s[] parameter(0)\n b = %s[] parameter(1)\n ROOT c = %s[] add(a, b) }\n"
             "ENTRY e { x = f32[%s] parameter(0)\n s = %s[%s] parameter(1)\n"
             " four = f32[] constant(4)\n f = f32[%s] broadcast(four), dimensions={}\n"
             " m = f32[%s] multiply(x, f)\n n = s32[%s] convert(m)\n o = %s[%s] convert(n)\n"
             " z = %s[] constant(2)\n ROOT r = %s[%s] select-and-scatter(o, s, z),"
             " window={size=%s}, select=sel, scatter=add }",
             t, t, all[k].direction, t, t, t, all[k].operand, t, all[k].source, all[k].operand,
             all[k].operand, all[k].operand, t, all[k].operand, t, t, all[k].operand,
             all[k].window);
    agrees(text);
  }
}

int main(int argc, char **argv) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(select_and_scatter),
      cmocka_unit_test(scans),
      cmocka_unit_test(long_scans),
      cmocka_unit_test(sliding),
      cmocka_unit_test(groups),
      cmocka_unit_test(types),
      cmocka_unit_test(compiled),
      cmocka_unit_test(chosen),
  };
  return run_cpu_tests(argc, argv, "cpu_windows", tests, HS_COUNT(tests));
}
