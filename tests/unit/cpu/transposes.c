// transposes.c — transposes of more than the caches hold: past them and fetched ahead where all
// stores fill lines, and the evaluator's values with partial tiles and blocks, whatever the type.
#include "tests/unit/backends/cpu.h"

#if defined(__x86_64__)
enum { STREAMS = true };  // as in backends/emit/codegen_access.c
#else
enum { STREAMS = false };
#endif

static void large_ones(void **state) {
  (void)state;
  static const struct {
    const char *body;
    bool lines;  // stores fill whole lines
  } all[] = {
      // a last block of 16 columns, and partial tiles along the lines that are loaded
      {"x = f32[2064,2055] parameter(0)\n"
       "ROOT r = f32[2055,2064] transpose(x), dimensions={1,0}",
       true},
      {"x = bf16[3104,3101] parameter(0)\n"
       "ROOT r = bf16[3101,3104] transpose(x), dimensions={1,0}",
       true},
      {"x = f64[1544,1501] parameter(0)\nROOT r = f64[1501,1544] transpose(x), dimensions={1,0}",
       true},
      {"x = f32[3,1040,1101] parameter(0)\n"
       "ROOT r = f32[3,1101,1040] transpose(x), dimensions={0,2,1}",
       true},
      // lines of the result that begin anywhere
      {"x = f32[2055,2064] parameter(0)\n"
       "ROOT r = f32[2064,2055] transpose(x), dimensions={1,0}",
       false},
      // what the caches hold
      {"x = f32[160,144] parameter(0)\nROOT r = f32[144,160] transpose(x), dimensions={1,0}", true},
  };
  for (size_t k = 0; k < HS_COUNT(all); k++) {
    char text[512];
    (void)snprintf(text, sizeof text, MODULE("ENTRY e { %s }"), all[k].body);
    agrees(text);
    // how much the caches hold is the machine's
    bool past = dump_has(text, "schedule", "past the caches");
    assert_int_equal(dump_has(text, "llvm", "llvm.prefetch"), STREAMS && past && all[k].lines);
  }
}

// With more to compute in the same loops.
static void fused(void **state) {
  (void)state;
  static const char text[] =
      MODULE("f { x = f32[2064,2055] parameter(0)\n y = f32[2055,2064] parameter(1)\n"
             " t = f32[2055,2064] transpose(x), dimensions={1,0}\n"
             " ROOT a = f32[2055,2064] add(t, y) }\n"
             "ENTRY e { x = f32[2064,2055] parameter(0)\n y = f32[2055,2064] parameter(1)\n"
             " ROOT r = f32[2055,2064] fusion(x, y), kind=kLoop, calls=f }");
  agrees(text);
}

// Partial tiles: what varies along one of the two loops only is loaded with that loop's lanes.
static void beside_rows_and_columns(void **state) {
  (void)state;
  static const u32 sizes[][2] = {{8, 8}, {100, 200}, {17, 24}, {24, 17}, {16, 31}, {33, 16}};
  for (size_t k = 0; k < HS_COUNT(sizes); k++) {
    char text[1024];
    u32 n = sizes[k][0], m = sizes[k][1];
    (void)snprintf(text, sizeof text,
                   MODULE("f { x = f32[%u,%u] parameter(0)\n c = f32[%u] parameter(1)\n"
                          " r = f32[%u] parameter(2)\n v = f32[%u] reverse(c), dimensions={0}\n"
                          " t = f32[%u,%u] transpose(x), dimensions={1,0}\n"
                          " cb = f32[%u,%u] broadcast(c), dimensions={1}\n"
                          " rb = f32[%u,%u] broadcast(r), dimensions={0}\n"
                          " vb = f32[%u,%u] broadcast(v), dimensions={1}\n"
                          " p = f32[%u,%u] multiply(t, cb)\n q = f32[%u,%u] add(p, rb)\n"
                          " ROOT a = f32[%u,%u] subtract(q, vb) }\n"
                          "ENTRY e { x = f32[%u,%u] parameter(0)\n c = f32[%u] parameter(1)\n"
                          " r = f32[%u] parameter(2)\n"
                          " ROOT a = f32[%u,%u] fusion(x, c, r), kind=kLoop, calls=f }"),
                   m, n, m, n, m, n, m, n, m, n, m, n, m, n, m, n, m, n, m, m, n, m, n, n, m);
    agrees(text);
  }
}

// Sums over another dim: lanes go along memory of what each step reads, not of the results.
static void reduced(void **state) {
  (void)state;
  static const u32 sizes[][3] = {{7, 33, 40}, {64, 64, 128}, {5, 8, 17}, {3, 100, 16}, {9, 20, 9}};
  for (size_t k = 0; k < HS_COUNT(sizes); k++) {
    char text[1024];
    const u32 r = sizes[k][0], n = sizes[k][1], m = sizes[k][2];
    (void)snprintf(text, sizeof text,
                   "HloModule t\nsum { a = f32[] parameter(0)\n b = f32[] parameter(1)\n"
                   " ROOT s = f32[] add(a, b) }\n"
                   "f { x = f32[%u,%u,%u] parameter(0)\n c = f32[%u,%u] parameter(1)\n"
                   " t = f32[%u,%u,%u] transpose(x), dimensions={0,2,1}\n"
                   " cb = f32[%u,%u,%u] broadcast(c), dimensions={1,2}\n"
                   " p = f32[%u,%u,%u] multiply(t, cb)\n z = f32[] constant(0)\n"
                   " ROOT s = f32[%u,%u] reduce(p, z), dimensions={0}, to_apply=sum }\n"
                   "ENTRY e { x = f32[%u,%u,%u] parameter(0)\n c = f32[%u,%u] parameter(1)\n"
                   " ROOT s = f32[%u,%u] fusion(x, c), kind=kInput, calls=f }",
                   r, n, m, m, n, r, m, n, r, m, n, r, m, n, m, n, r, n, m, m, n, m, n);
    agrees(text);
    if (k) continue;
    char lanes[64];
    (void)snprintf(lanes, sizeof lanes, "< %u in lanes", m);
    assert_true(dump_has(text, "schedule", lanes));
  }
}

int main(int argc, char **argv) {
  static const struct CMUnitTest tests[] = {
      cmocka_unit_test(large_ones),
      cmocka_unit_test(fused),
      cmocka_unit_test(beside_rows_and_columns),
      cmocka_unit_test(reduced),
  };
  return run_cpu_tests(argc, argv, "transposes", tests, HS_COUNT(tests));
}
