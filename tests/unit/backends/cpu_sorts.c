// cpu_sorts.c — sort and topk on the cpu backend against the evaluator: keys of every type,
// several keys, several operands, computed comparators, lines short and long and along any
// dimension, stability, zeros and NaNs, and the first few of each line.
#include "tests/unit/backends/cpu.h"

#define FLOAT_LESS                                                                 \
  "lt { a = f32[] parameter(0)\n b = f32[] parameter(1)\n z = f32[] constant(0)\n" \
  " n = f32[] constant(nan)\n ae = pred[] compare(a, z), direction=EQ\n"           \
  " az = f32[] select(ae, z, a)\n an = pred[] compare(a, a), direction=NE\n"       \
  " ac = f32[] select(an, n, az)\n be = pred[] compare(b, z), direction=EQ\n"      \
  " bz = f32[] select(be, z, b)\n bn = pred[] compare(b, b), direction=NE\n"       \
  " bc = f32[] select(bn, n, bz)\n"                                                \
  " ROOT c = pred[] compare(ac, bc), direction=LT, type=TOTALORDER }\n"

// One operand of one type.
static void one(const char *type, const char *shape, int dim, const char *direction) {
  char text[2048];
  snprintf(text, sizeof text,
           "HloModule t\n"
           "lt { a = %s[] parameter(0)\n b = %s[] parameter(1)\n"
           " ROOT c = pred[] compare(a, b), direction=%s }\n"
           "ENTRY e { x = %s%s parameter(0)\n"
           " ROOT s = %s%s sort(x), dimensions={%d}, is_stable=true, to_apply=lt }",
           type, type, direction, type, shape, type, shape, dim);
  agrees(text);
}

static void types(void **st) {
  (void)st;
  static const char *const all[] = {"f32", "f64", "f16", "bf16", "s8",  "u8",  "s16",
                                    "u16", "s32", "u32", "s64",  "u64", "pred"};
  for (size_t t = 0; t < HS_COUNT(all); t++) {
    one(all[t], "[30,70]", 1, "LT");
    one(all[t], "[30,70]", 0, "GT");
    one(all[t], "[3000]", 0, "GT");
  }
}

static void long_lines(void **st) {
  (void)st;
  one("f32", "[200000]", 0, "LT");
  one("s32", "[2,100000]", 1, "GT");
  one("f64", "[100000]", 0, "LT");
  one("f32", "[70000,3]", 0, "LT");
  agrees(MODULE(FLOAT_LESS "ENTRY e { x = f32[150000] parameter(0)\n"
                           " ROOT s = f32[150000] sort(x), dimensions={0}, to_apply=lt }"));
}

// Lines that are merged: of several keys, of wide ones, of ambiguous ones.
static void short_lines(void **st) {
  (void)st;
  one("f64", "[300,9]", 1, "GT");
  one("f32", "[9,300]", 0, "LT");
  one("f32", "[3000,9]", 1, "LT");
  one("u32", "[500,64]", 1, "GT");
  agrees(MODULE(FLOAT_LESS "ENTRY e { x = f32[500,40] parameter(0)\n"
                           " ROOT s = f32[500,40] sort(x), dimensions={1}, to_apply=lt }"));
  static const char *const second[] = {"s32", "s64"};
  for (size_t k = 0; k < HS_COUNT(second); k++) {
    char text[2048];
    const char *t = second[k];
    snprintf(text, sizeof text,
             "HloModule t\nlt { a = s32[] parameter(0) b = s32[] parameter(1) c = %s[] "
             "parameter(2) d = %s[] parameter(3) i = s32[] parameter(4) j = s32[] parameter(5) "
             "l = pred[] compare(a, b), direction=LT e = pred[] compare(a, b), direction=EQ "
             "m = pred[] compare(c, d), direction=LT ROOT r = pred[] select(e, m, l) }\n"
             "ENTRY e { n = s32[50,41] iota(), iota_dimension=1 p = s32[] constant(7) "
             "q = s32[50,41] broadcast(p), dimensions={} x = s32[50,41] remainder(n, q) "
             "u = s32[] constant(3) v = s32[50,41] broadcast(u), dimensions={} "
             "w = s32[50,41] remainder(n, v) y = %s[50,41] convert(w) "
             "ROOT s = (s32[50,41], %s[50,41], s32[50,41]) sort(x, y, n), dimensions={1}, "
             "is_stable=true, to_apply=lt }",
             t, t, t, t);
    agrees(text);
  }
}

// Both zeros and NaNs, by bits: equal ones keep their order.
static void zeros(void **st) {
  (void)st;
  static const char body[] =
      FLOAT_LESS "ENTRY e { k = s32[%d] iota(), iota_dimension=0\n p = s32[] constant(5)\n"
                 " q = s32[%d] broadcast(p), dimensions={}\n r = s32[%d] remainder(k, q)\n"
                 " f = f32[%d] convert(r)\n two = f32[] constant(2)\n"
                 " t = f32[%d] broadcast(two), dimensions={}\n d = f32[%d] subtract(f, t)\n"
                 " z = f32[] constant(0)\n w = f32[%d] broadcast(z), dimensions={}\n"
                 " m = f32[%d] multiply(d, w)\n n = f32[%d] sqrt(d)\n x = f32[%d] add(n, m)\n"
                 " y = f32[%d] multiply(m, x)\n o = f32[%d] maximum(m, w)\n"
                 " s = f32[%d] sort(m), dimensions={0}, is_stable=true, to_apply=lt\n"
                 " u = f32[%d] sort(x), dimensions={0}, is_stable=true, to_apply=lt\n"
                 " i = u32[%d] bitcast-convert(s)\n j = f32[%d] add(u, u)\n"
                 " ROOT v = (u32[%d], f32[%d]) tuple(i, j) }";
  for (int n = 60; n < 100000; n *= 37) {
    char text[4096] = "HloModule t\n";
    snprintf(text + strlen(text), sizeof text - strlen(text), body, n, n, n, n, n, n, n, n, n, n, n,
             n, n, n, n, n, n, n);
    agrees(text);
  }
}

// XLA's optimized modules compare floats in total order by integers made of their bits.
static void expanded(void **st) {
  (void)st;
  static const struct {
    const char *type, *bits, *largest;
  } all[] = {{"f32", "s32", "2147483647"},
             {"f64", "s64", "9223372036854775807"},
             {"bf16", "s16", "32767"},
             {"f16", "s16", "32767"}};
  for (size_t k = 0; k < HS_COUNT(all); k++) {
    const char *t = all[k].type, *b = all[k].bits;
    char text[2048];
    snprintf(text, sizeof text,
             "HloModule t\n"
             "gt { p = %s[] parameter(0)\n q = %s[] parameter(1)\n m = %s[] constant(%s)\n"
             " z = %s[] constant(0)\n i = %s[] bitcast-convert(p)\n"
             " j = %s[] bitcast-convert(q)\n ni = pred[] compare(i, z), direction=LT\n"
             " nj = pred[] compare(j, z), direction=LT\n xi = %s[] xor(i, m)\n"
             " xj = %s[] xor(m, j)\n a = %s[] select(ni, xi, i)\n b = %s[] select(nj, xj, j)\n"
             " ROOT c = pred[] compare(a, b), direction=GT }\n"
             "ENTRY e { x = %s[20,700] parameter(0)\n y = %s[20,700] bitcast-convert(x)\n"
             " s = %s[20,700] sort(y), dimensions={1}, is_stable=true, to_apply=gt\n"
             " ROOT r = %s[20,700] bitcast-convert(s) }",
             t, t, b, all[k].largest, b, b, b, b, b, b, b, b, t, t, b);
    agrees(text);
    runs_as(text, "sort (radix)");
  }
}

static void several(void **st) {
  (void)st;
  // keys s32, f32 and a payload; many equal first keys
  static const char *const shapes[] = {"[2,500]", "[90000]", "[7]"};
  for (size_t k = 0; k < HS_COUNT(shapes); k++) {
    char text[4096];
    const char *s = shapes[k];
    snprintf(text, sizeof text,
             "HloModule t\n"
             "lt { a = s32[] parameter(0)\n b = s32[] parameter(1)\n c = f32[] parameter(2)\n"
             " d = f32[] parameter(3)\n e = u8[] parameter(4)\n f = u8[] parameter(5)\n"
             " l = pred[] compare(a, b), direction=GT\n q = pred[] compare(a, b), direction=EQ\n"
             " m = pred[] compare(c, d), direction=LT\n n = pred[] and(q, m)\n"
             " ROOT o = pred[] or(l, n) }\n"
             "ENTRY e { x = s32%s parameter(0)\n y = f32%s parameter(1)\n z = u8%s parameter(2)\n"
             " ROOT s = (s32%s, f32%s, u8%s) sort(x, y, z), dimensions={%d}, is_stable=true, "
             "to_apply=lt }",
             s, s, s, s, s, s, k == 0);
    agrees(text);
  }
  // a comparator that is computed: by absolute value, and complex numbers by real part
  agrees(MODULE("lt { a = f32[] parameter(0)\n b = f32[] parameter(1)\n x = f32[] abs(a)\n"
                " y = f32[] abs(b)\n ROOT c = pred[] compare(x, y), direction=LT }\n"
                "ENTRY e { x = f32[3,300] parameter(0)\n"
                " ROOT s = f32[3,300] sort(x), dimensions={1}, is_stable=true, to_apply=lt }"));
  agrees(MODULE("lt { a = c64[] parameter(0)\n b = c64[] parameter(1)\n x = f32[] real(a)\n"
                " y = f32[] real(b)\n ROOT c = pred[] compare(x, y), direction=LT }\n"
                "ENTRY e { x = c64[3,300] parameter(0)\n"
                " ROOT s = c64[3,300] sort(x), dimensions={1}, is_stable=true, to_apply=lt }"));
}

// Lines that are divided by a digit of the first key: bins of a few, of equal keys, of most of a
// line; keys of 64 bits; several keys. They need no memory beside their results.
static void divided(void **st) {
  (void)st;
  static const struct {
    const char *type;
    int shift, few;  // bits that elements lose, all but the first `few`
  } all[] = {{"u32", 0, 0},  {"u32", 13, 0}, {"u32", 27, 0}, {"u32", 31, 0},
             {"u32", 12, 9}, {"u64", 0, 0},  {"u64", 40, 0}, {"u64", 33, 9}};
  enum { N = 300000 };
  for (size_t k = 0; k < HS_COUNT(all); k++)
    for (int keys = 0; keys <= 2; keys++) {
      char text[4096];
      const char *t = all[k].type, *odd = t[1] == '3' ? "2654435761" : "11400714819323198485";
      int at = snprintf(text, sizeof text,
                        "HloModule t\n"
                        "lt { a = %s[] parameter(0)\n b = %s[] parameter(1)\n%s"
                        " %s = pred[] compare(a, b), direction=%s%s }\n"
                        "ENTRY e { i = %s[%d] iota(), iota_dimension=0\n"
                        " a = %s[] constant(%s)\n b = %s[%d] broadcast(a), dimensions={}\n"
                        " p = %s[%d] multiply(i, b)\n"
                        " c = %s[] constant(%d)\n d = %s[%d] broadcast(c), dimensions={}\n"
                        " f = %s[] constant(%d)\n g = %s[%d] broadcast(f), dimensions={}\n"
                        " h = %s[%d] shift-right-logical(p, d)\n"
                        " q = pred[%d] compare(i, g), direction=LT\n"
                        " x = %s[%d] select(q, p, h)\n y = u8[%d] parameter(0)\n",
                        t, t, keys ? " c = u8[] parameter(2)\n d = u8[] parameter(3)\n" : "",
                        keys == 2 ? "l" : "ROOT l", keys == 1 ? "GT" : "LT",
                        keys == 2 ? "\n q = pred[] compare(a, b), direction=EQ\n"
                                    " m = pred[] compare(c, d), direction=GT\n"
                                    " n = pred[] and(q, m)\n ROOT o = pred[] or(l, n)"
                                  : "",
                        t, N, t, odd, t, N, t, N, t, all[k].shift, t, N, t, all[k].few, t, N, t, N,
                        N, t, N, N);
      if (keys)
        snprintf(text + at, sizeof text - (size_t)at,
                 " ROOT s = (%s[%d], u8[%d]) sort(x, y), dimensions={0}, is_stable=true, "
                 "to_apply=lt }",
                 t, N, N);
      else
        snprintf(text + at, sizeof text - (size_t)at,
                 " ROOT s = %s[%d] sort(x), dimensions={0}, is_stable=true, to_apply=lt }", t, N);
      agrees(text);
      runs_as(text, "sort (radix)");
    }
}

// Long lines under a plain comparison of floats, for which a NaN is equal to all. Where one number
// is beside NaNs, in any place, nothing is before anything; where others are, NaNs are last. A bin
// of equal numbers at the end of a line has nothing behind it.
static void divided_floats(void **st) {
  (void)st;
  enum { N = 300000 };
  static const struct {
    const char *first, *other, *last;  // elements: the first, some in between, the last
  } all[] = {{"1", "nan", "nan"},  {"nan", "nan", "1"}, {"nan", "1", "nan"},  {"-5", "1", "1"},
             {"nan", "inf", "-5"}, {"2", "nan", "-2"},  {"nan", "inf", "inf"}};
  for (size_t k = 0; k < HS_COUNT(all); k++)
    for (int several = 0; several <= 1; several++) {
      char text[2048];
      snprintf(text, sizeof text,
               "HloModule t\nlt { a = f32[] parameter(0)\n b = f32[] parameter(1)\n%s"
               " ROOT l = pred[] compare(a, b), direction=LT }\n"
               "ENTRY e { i = s32[%d] iota(), iota_dimension=0\n"
               " c = s32[] constant(0)\n cs = s32[%d] broadcast(c), dimensions={}\n"
               " z = s32[] constant(%d)\n zs = s32[%d] broadcast(z), dimensions={}\n"
               " f = pred[%d] compare(i, cs), direction=EQ\n"
               " g = pred[%d] compare(i, zs), direction=LT\n"
               " u = f32[] constant(%s)\n us = f32[%d] broadcast(u), dimensions={}\n"
               " v = f32[] constant(%s)\n vs = f32[%d] broadcast(v), dimensions={}\n"
               " w = f32[] constant(%s)\n ws = f32[%d] broadcast(w), dimensions={}\n"
               " m = f32[%d] select(g, vs, ws)\n x = f32[%d] select(f, us, m)\n"
               " y = u8[%d] parameter(0)\n",
               several ? " p = u8[] parameter(2)\n q = u8[] parameter(3)\n" : "", N, N, N - 3, N, N,
               N, all[k].first, N, all[k].other, N, all[k].last, N, N, N, N);
      size_t at = strlen(text);
      if (several)
        snprintf(text + at, sizeof text - at,
                 " ROOT s = (f32[%d], u8[%d]) sort(x, y), dimensions={0}, is_stable=true, "
                 "to_apply=lt }",
                 N, N);
      else
        snprintf(text + at, sizeof text - at,
                 " ROOT s = f32[%d] sort(x), dimensions={0}, is_stable=true, to_apply=lt }", N);
      agrees(text);
    }
}

static void memory(void **st) {
  (void)st;
  static const char text[] =
      MODULE("lt { a = s32[] parameter(0)\n b = s32[] parameter(1)\n c = s32[] parameter(2)\n"
             " d = s32[] parameter(3)\n ROOT l = pred[] compare(a, b), direction=LT }\n"
             "ENTRY e { x = s32[70000] parameter(0)\n y = s32[70000] parameter(1)\n"
             " ROOT s = (s32[70000], s32[70000]) sort(x, y), dimensions={0}, is_stable=true, "
             "to_apply=lt }");
  agrees(text);
  runs_as(text, "sort (radix)");
  assert_int_equal(temporaries(text), 0);
}

static void top(const char *type, int rows, int n, int k, const char *largest) {
  char text[1024];
  snprintf(text, sizeof text,
           "HloModule t\nENTRY e { x = %s[%d,%d] parameter(0)\n"
           " ROOT t = (%s[%d,%d], s32[%d,%d]) topk(x), k=%d, largest=%s }",
           type, rows, n, type, rows, k, rows, k, k, largest);
  agrees(text);
}

static void topk(void **st) {
  (void)st;
  static const char *const all[] = {"f32", "f64", "bf16", "s8", "s32", "u64"};
  for (size_t t = 0; t < HS_COUNT(all); t++) {
    top(all[t], 3, 1000, 10, "true");
    top(all[t], 3, 40, 30, "true");
    top(all[t], 2, 3000, 1500, "false");
  }
  top("f32", 2, 200000, 100, "true");
  top("f32", 1, 200000, 1, "false");
  top("s32", 40, 5000, 600, "true");
  top("f32", 2, 7, 7, "true");
  // short rows, of several chunks
  top("f32", 300, 8, 2, "true");
  top("bf16", 300, 16, 1, "false");
  top("s8", 129, 64, 33, "true");
}

// A sort that is read from the front only, whole or inside of a fusion.
static void first_few(void **st) {
  (void)st;
  agrees(MODULE("lt { a = f32[] parameter(0)\n b = f32[] parameter(1)\n i = s32[] parameter(2)\n"
                " j = s32[] parameter(3)\n ROOT c = pred[] compare(a, b), direction=GT }\n"
                "ENTRY e { x = f32[20,3000] parameter(0)\n i = s32[20,3000] iota(), "
                "iota_dimension=1\n s = (f32[20,3000], s32[20,3000]) sort(x, i), dimensions={1}, "
                "is_stable=true, to_apply=lt\n"
                " v = f32[20,3000] get-tuple-element(s), index=0\n"
                " k = s32[20,3000] get-tuple-element(s), index=1\n"
                " a = f32[20,16] slice(v), slice={[0:20], [0:16]}\n"
                " b = s32[20,4] slice(k), slice={[0:20], [3:7]}\n"
                " ROOT t = (f32[20,16], s32[20,4]) tuple(a, b) }"));
  agrees(MODULE("lt { a = s32[] parameter(0)\n b = s32[] parameter(1)\n"
                " ROOT c = pred[] compare(a, b), direction=LT }\n"
                "ENTRY e { x = s32[3000,5] parameter(0)\n"
                " s = s32[3000,5] sort(x), dimensions={0}, to_apply=lt\n"
                " a = s32[7,5] slice(s), slice={[0:7], [0:5]}\n b = s32[7,5] negate(a)\n"
                " c = s32[5] iota(), iota_dimension=0\n"
                " ROOT t = (s32[7,5], s32[5]) tuple(b, c) }"));
}

// Sorted by what is no strict weak order the elements have no certain places, in HLO as in XLA.
// What comes out are still the elements, each once and with what belongs to it.
static void permutes(const backend *b, const hlo_module *m, i64 n) {
  const backend_options o = {.context = backends, .deadline_s = 120};
  backend_result r = run_on(b, m, &o, NULL, NULL);
  const hlo_literal *keys = r.outputs->children[0], *index = r.outputs->children[1],
                    *were = r.outputs->children[2];
  bool *seen = hs_calloc((size_t)n, sizeof *seen);
  for (i64 k = 0; k < n; k++) {
    i64 from = hlo_literal_i64(index, k);
    assert_true(from >= 0 && from < n && !seen[from]);
    seen[from] = true;
    assert_int_equal(hlo_literal_i64(keys, k), hlo_literal_i64(were, from));
  }
  hs_free(seen);
  backend_result_free(&r);
}

static void no_orders(void **st) {
  (void)st;
  static const char *const by[] = {
      "ROOT r = pred[] compare(a, b), direction=LE",
      "ROOT r = pred[] compare(a, b), direction=NE",
      "ROOT r = pred[] compare(c, d), direction=LT",  // places, not keys
      "ROOT r = pred[] compare(a, d), direction=LT",
      "ROOT r = pred[] constant(true)",
      "t = s32[] subtract(a, b) z = s32[] constant(0) "
      "ROOT r = pred[] compare(t, z), direction=LT",  // overflows: a < b < c < a
      "t = s32[] multiply(a, d) o = s32[] constant(64) u = s32[] and(t, o) "
      "ROOT r = pred[] compare(u, o), direction=EQ",
  };
  static const int sizes[] = {2, 17, 70, 3000, 70000};
  for (size_t k = 0; k < HS_COUNT(by); k++)
    for (size_t j = 0; j < 2 * HS_COUNT(sizes) - (k ? 2 : 0); j++) {  // the longest once
      char text[2048];
      int n = sizes[j / 2];
      snprintf(text, sizeof text,
               "HloModule t\nlt { a = s32[] parameter(0) b = s32[] parameter(1) c = s32[] "
               "parameter(2) d = s32[] parameter(3) %s }\nENTRY e { i = s32[%d] iota(), "
               "iota_dimension=0 f = s32[] constant(-1640531527) g = s32[%d] broadcast(f), "
               "dimensions={} x = s32[%d] multiply(i, g) s = (s32[%d], s32[%d]) sort(x, i), "
               "dimensions={0}, is_stable=%s, to_apply=lt y = s32[%d] get-tuple-element(s), "
               "index=0 p = s32[%d] get-tuple-element(s), index=1 "
               "ROOT o = (s32[%d], s32[%d], s32[%d]) tuple(y, p, x) }",
               by[k], n, n, n, n, n, j % 2 ? "true" : "false", n, n, n, n, n);
      hlo_module *m = parse(text);
      permutes(backend_find("interp"), m, n);
      permutes(cpu, m, n);
      hlo_module_free(m);
    }
}

int main(int argc, char **argv) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(types),   cmocka_unit_test(short_lines),    cmocka_unit_test(long_lines),
      cmocka_unit_test(zeros),   cmocka_unit_test(expanded),       cmocka_unit_test(several),
      cmocka_unit_test(divided), cmocka_unit_test(divided_floats), cmocka_unit_test(memory),
      cmocka_unit_test(topk),    cmocka_unit_test(first_few),      cmocka_unit_test(no_orders),
  };
  return run_cpu_tests(argc, argv, "cpu_sorts", tests, HS_COUNT(tests));
}
