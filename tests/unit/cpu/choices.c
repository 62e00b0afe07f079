// choices.c — elements that come from one of several places: where a whole row does, its address
// is chosen and one load is left; where a part of a row does, lanes are cut; and the values are
// the evaluator's.
#include "tests/unit/backends/cpu.h"

// A fusion of f(x).
#define FUSION(in, out, body)                        \
  MODULE("f { x = " in " parameter(0)\n" body " }\n" \
         "ENTRY e { x = " in " parameter(0)\n ROOT r = " out " fusion(x), kind=kLoop, calls=f }")

// Reflects rows 1..3 of 20 at both ends.
#define REFLECTED(dims, row, all)                            \
  " a = f32[3," dims "] slice(x), slice={[1:4]," row "}\n"   \
  " b = f32[3," dims "] reverse(a), dimensions={0}\n"        \
  " c = f32[3," dims "] slice(x), slice={[16:19]," row "}\n" \
  " d = f32[3," dims "] reverse(c), dimensions={0}\n"        \
  " ROOT r = f32[26," dims "] concatenate(b, " all ", d), dimensions={0}"

static void chosen(void **state) {
  (void)state;
  static const char *const all[] = {
      FUSION("f32[20,37]", "f32[26,37]", REFLECTED("37", "[0:37]", "x")),
      // channels: the last loop is of two dimensions
      FUSION("f32[20,37,3]", "f32[26,37,3]", REFLECTED("37,3", "[0:37], [0:3]", "x")),
      // rolled, and the same computed from both parts
      FUSION("f32[30,41]", "f32[30,40]",
             " a = f32[23,40] slice(x), slice={[7:30], [0:40]}\n"
             " b = f32[7,40] slice(x), slice={[0:7], [0:40]}\n"
             " c = f32[23,40] negate(a)\n d = f32[7,40] negate(b)\n"
             " ROOT r = f32[30,40] concatenate(c, d), dimensions={0}"),
      // a row that the program chooses
      FUSION("f32[30,41]", "f32[41]",
             " a = f32[1,41] slice(x), slice={[7:8], [0:41]}\n"
             " b = f32[1,41] slice(x), slice={[29:30], [0:41]}\n"
             " s = f32[1,1] slice(x), slice={[3:4], [5:6]}\n t = f32[] reshape(s)\n"
             " z = f32[] constant(0.5)\n p = pred[] compare(t, z), direction=GT\n"
             " q = pred[1,41] broadcast(p), dimensions={}\n c = f32[1,41] select(q, a, b)\n"
             " ROOT r = f32[41] reshape(c)"),
      // in reductions of rows
      MODULE("add { a = f32[] parameter(0)\n b = f32[] parameter(1)\n ROOT c = f32[] add(a, b) }\n"
             "f { x = f32[30,5,41] parameter(0)\n"
             " a = f32[23,5,41] slice(x), slice={[7:30], [0:5], [0:41]}\n"
             " b = f32[7,5,41] slice(x), slice={[0:7], [0:5], [0:41]}\n"
             " c = f32[30,5,41] concatenate(a, b), dimensions={0}\n"
             " w = f32[1,5,41] slice(x), slice={[0:1], [0:5], [0:41]}\n"
             " v = f32[5,41] reshape(w)\n"
             " u = f32[30,5,41] broadcast(v), dimensions={1,2}\n"
             " d = f32[30,5,41] multiply(c, u)\n"
             " z = f32[] constant(0)\n"
             " ROOT r = f32[30,5] reduce(d, z), dimensions={2}, to_apply=add }\n"
             "ENTRY e { x = f32[30,5,41] parameter(0)\n"
             " ROOT r = f32[30,5] fusion(x), kind=kLoop, calls=f }"),
  };
  for (size_t k = 0; k < HS_COUNT(all); k++) {
    agrees(all[k]);
    assert_true(dump_has(all[k], "schedule", " + [v"));
  }
}

// What differs along the lanes, what is of another array, and what must not be read at all.
static void left_alone(void **state) {
  (void)state;
  static const char *const all[] = {
      FUSION("f32[30,41]", "f32[30,41]",
             " a = f32[30,23] slice(x), slice={[0:30], [18:41]}\n"
             " b = f32[30,18] slice(x), slice={[0:30], [0:18]}\n"
             " ROOT r = f32[30,41] concatenate(a, b), dimensions={1}"),
      FUSION("f32[30,41]", "f32[34,41]",
             " z = f32[] constant(1)\n ROOT r = f32[34,41] pad(x, z), padding=1_3x0_0"),
      MODULE("f { x = f32[30,41] parameter(0)\n y = f32[4,41] parameter(1)\n"
             " ROOT r = f32[34,41] concatenate(x, y), dimensions={0} }\n"
             "ENTRY e { x = f32[30,41] parameter(0)\n y = f32[4,41] parameter(1)\n"
             " ROOT r = f32[34,41] fusion(x, y), kind=kLoop, calls=f }"),
  };
  for (size_t k = 0; k < HS_COUNT(all); k++) {
    agrees(all[k]);
    assert_false(dump_has(all[k], "schedule", " + [v"));
  }
}

// Images of few channels: what is shifted by whole pixels is read as it lies, between cuts.
// Mirrored ones are read channel by channel.
static void channels(void **state) {
  (void)state;
  static const char padded[] =
      FUSION("f32[20,37,3]", "f32[26,45,3]",
             " z = f32[] constant(1)\n ROOT r = f32[26,45,3] pad(x, z), padding=3_3x4_4x0_0");
  static const char mirrored[] = FUSION("f32[20,37,3]", "f32[20,74,3]",
                                        " a = f32[20,37,3] reverse(x), dimensions={1}\n"
                                        " ROOT r = f32[20,74,3] concatenate(a, x), dimensions={1}");
  static const char borders[] =
      FUSION("f32[20,37,3]", "f32[20,41,3]",
             " a = f32[20,2,3] slice(x), slice={[0:20], [1:3], [0:3]}\n"
             " b = f32[20,2,3] reverse(a), dimensions={1}\n"
             " c = f32[20,2,3] slice(x), slice={[0:20], [34:36], [0:3]}\n"
             " d = f32[20,2,3] reverse(c), dimensions={1}\n"
             " ROOT r = f32[20,41,3] concatenate(b, x, d), dimensions={1}");
  agrees(padded);
  agrees(mirrored);
  agrees(borders);
  // one store of the result, or one for each channel
  assert_false(dump_has(padded, "schedule", " + 1] = "));
  assert_true(dump_has(mirrored, "schedule", " + 1] = "));
  assert_false(dump_has(borders, "schedule", " + 1] = "));
}

// Rows of pixels that are mirrored in one half of a result: no gathers, and nothing is read where
// there is no row.
static void mirrored_rows(void **state) {
  (void)state;
  static const char *const all[] = {
      FUSION("u8[4,32,96,3]", "f32[8,32,96,3]",
             " a = u8[4,32,96,3] reverse(x), dimensions={2}\n"
             " b = u8[8,32,96,3] concatenate(x, a), dimensions={0}\n"
             " ROOT r = f32[8,32,96,3] convert(b)"),
      FUSION("f32[4,32,96,3]", "f32[8,32,96,3]",
             " a = f32[4,32,96,3] reverse(x), dimensions={2}\n"
             " ROOT r = f32[8,32,96,3] concatenate(a, x), dimensions={0}"),
      FUSION("f64[4,32,96]", "f64[8,32,32]",
             " a = f64[4,32,32] slice(x), slice={[0:4], [0:32], [0:96:3]}\n"
             " b = f64[4,32,32] slice(x), slice={[0:4], [0:32], [64:96]}\n"
             " ROOT r = f64[8,32,32] concatenate(a, b), dimensions={0}"),
  };
  for (size_t k = 0; k < HS_COUNT(all); k++) {
    agrees(all[k]);
    assert_false(dump_has(all[k], "llvm", "masked.gather"));
  }
}

// Images that are turned or not: loops of their own, each of which loads what it stores.
static void turned_images(void **state) {
  (void)state;
  static const char text[] = MODULE(
      "f { x = f32[8,24,24,3] parameter(0)\n t = f32[8] parameter(1)\n u = f32[8] parameter(2)\n"
      " z = f32[] constant(0)\n zs = f32[8] broadcast(z), dimensions={}\n"
      " p = pred[8] compare(t, zs), direction=GT\n q = pred[8] compare(u, zs), direction=GT\n"
      " ps = pred[8,24,24,3] broadcast(p), dimensions={0}\n"
      " qs = pred[8,24,24,3] broadcast(q), dimensions={0}\n"
      " m = f32[8,24,24,3] reverse(x), dimensions={2}\n"
      " a = f32[8,24,24,3] select(ps, m, x)\n"
      " v = f32[8,24,24,3] transpose(a), dimensions={0,2,1,3}\n"
      " ROOT r = f32[8,24,24,3] select(qs, v, a) }\n"
      "ENTRY e { x = f32[8,24,24,3] parameter(0)\n t = f32[8] parameter(1)\n"
      " u = f32[8] parameter(2)\n"
      " ROOT r = f32[8,24,24,3] fusion(x, t, u), kind=kLoop, calls=f }");
  agrees(text);
  assert_false(dump_has(text, "llvm", " = select <"));
}

// Steps that each roll the value before: loops over the results would evaluate the first one 2^20
// times, in as much code. They are several kernels.
static void rolled_again_and_again(void **state) {
  (void)state;
  hs_buf b = {0};
  hs_buf_puts(&b, "HloModule m\nf { v0 = f32[64] parameter(0)\n");
  for (u32 k = 0; k < 20; k++)
    hs_buf_printf(&b,
                  "a%u = f32[1] slice(v%u), slice={[63:64]}\n"
                  "b%u = f32[63] slice(v%u), slice={[0:63]}\n"
                  "c%u = f32[64] concatenate(a%u, b%u), dimensions={0}\n"
                  "d%u = f32[64] cosine(c%u)\nv%u = f32[64] maximum(d%u, v%u)\n",
                  k, k, k, k, k, k, k, k, k, k + 1, k, k);
  hs_buf_puts(&b, "ROOT r = f32[64] negate(v20) }\nENTRY e { x = f32[64] parameter(0)\n"
                  "ROOT r = f32[64] fusion(x), kind=kLoop, calls=f }");
  agrees(hs_buf_cstr(&b));
  hs_buf_free(&b);
}

int main(int argc, char **argv) {
  static const struct CMUnitTest tests[] = {
      cmocka_unit_test(chosen),        cmocka_unit_test(left_alone),
      cmocka_unit_test(channels),      cmocka_unit_test(mirrored_rows),
      cmocka_unit_test(turned_images), cmocka_unit_test(rolled_again_and_again),
  };
  return run_cpu_tests(argc, argv, "choices", tests, HS_COUNT(tests));
}
