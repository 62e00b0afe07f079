// emit_by_hand.c — schedules by hand (core/analysis/tuning.h): under each of them, kernels of
// every kind give the evaluator's results and stay within their buffers; they are obeyed; their
// text is read and written.
#if HAVE_LLVM
#include "core/analysis/tuning.h"
#include "tests/unit/backends/kernels.h"
#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

#define ADD "add { a = f32[] parameter(0)\n b = f32[] parameter(1)\n ROOT c = f32[] add(a, b) }\n"
#define MAX \
  "max { a = f32[] parameter(0)\n b = f32[] parameter(1)\n ROOT c = f32[] maximum(a, b) }\n"

// The root has %s where its attributes end.
static const char *const modules[] = {
    "ENTRY e { x = f32[7,133] parameter(0)\n ROOT r = f32[7,133] negate(x)%s }",
    "ENTRY e { x = bf16[1001] parameter(0)\n ROOT r = bf16[1001] abs(x)%s }",
    "ENTRY e { x = s8[3] parameter(0)\n ROOT r = s8[3] negate(x)%s }",
    "ENTRY e { x = f32[67,45] parameter(0)\n ROOT r = f32[45,67] transpose(x), dimensions={1,0}%s "
    "}",
    "ENTRY e { x = u16[5,33,40] parameter(0)\n"
    " ROOT r = u16[40,5,33] transpose(x), dimensions={2,0,1}%s }",
    "ENTRY e { x = f32[19,70] parameter(0)\n p = f32[] parameter(1)\n"
    " ROOT r = f32[24,77] pad(x, p), padding=2_3x4_3%s }",
    "ENTRY e { x = f32[9,20] parameter(0)\n y = f32[9,31] parameter(1)\n"
    " ROOT r = f32[9,51] concatenate(x, y), dimensions={1}%s }",
    "ENTRY e { x = c64[200] parameter(0)\n y = c64[200] parameter(1)\n"
    " ROOT r = c64[200] multiply(x, y)%s }",
    ADD "ENTRY e { x = f32[31,517] parameter(0)\n z = f32[] constant(0)\n"
        " ROOT r = f32[31] reduce(x, z), dimensions={1}, to_apply=add%s }",
    ADD "ENTRY e { x = f32[517,31] parameter(0)\n z = f32[] constant(0)\n"
        " ROOT r = f32[31] reduce(x, z), dimensions={0}, to_apply=add%s }",
    MAX "ENTRY e { x = f32[60,70] parameter(0)\n z = f32[] constant(-inf)\n"
        " ROOT r = f32[] reduce(x, z), dimensions={0,1}, to_apply=max%s }",
    ADD "ENTRY e { x = f32[300] parameter(0)\n z = f32[] constant(0)\n"
        " ROOT r = f32[296] reduce-window(x, z), window={size=5}, to_apply=add%s }",
    ADD MAX
    "f { x = f32[21,130] parameter(0)\n z = f32[] constant(0)\n i = f32[] constant(-inf)\n"
    " m = f32[21] reduce(x, i), dimensions={1}, to_apply=max\n"
    " mb = f32[21,130] broadcast(m), dimensions={0}\n d = f32[21,130] subtract(x, mb)\n"
    " e = f32[21,130] exponential(d)\n s = f32[21] reduce(e, z), dimensions={1}, to_apply=add\n"
    " sb = f32[21,130] broadcast(s), dimensions={0}\n ROOT q = f32[21,130] divide(e, sb) }\n"
    "ENTRY e { x = f32[21,130] parameter(0)\n"
    " ROOT r = f32[21,130] fusion(x), kind=kLoop, calls=f%s }",
};
static const char *const by_hand[] = {
    "lanes=1",
    "lanes=2",
    "lanes=4,unroll=1",
    "lanes=8,unroll=3",
    "lanes=32,unroll=2",
    "lanes=64",
    "unroll=16",
    "unroll=5,chunks=7",
    "chunks=1",
    "chunks=4096",
    "tile=0",
    "tile=2",
    "tile=16,chunks=3",
    "stream=1",
    "stream=0,lanes=16",
    "splits=1",
    "splits=5",
    "splits=64",
    "splits=3,lanes=4",
    "lanes=1,unroll=4,splits=2",
    "tile=4,lanes=1",
    "tile=8,stream=1",
};

static void keep_the_meaning(void **state) {
  (void)state;
  for (size_t k = 0; k < HS_COUNT(modules); k++)
    for (size_t j = 0; j < HS_COUNT(by_hand); j++) {
      char text[2048] = "HloModule m\n", attr[128];
      (void)snprintf(attr, sizeof attr, ", frontend_attributes={" HLO_TUNING_KEY "=\"%s\"}",
                     by_hand[j]);
      size_t n = strlen(text);
      (void)snprintf(text + n, sizeof text - n, modules[k], attr);
      // sums of floats in another order
      add_case(text, k >= 8 ? 1000 : 4, false);
    }
  run_cases();
}

static i64 chunks_of(const char *attr) {
  char text[512];
  (void)snprintf(text, sizeof text,
                 "HloModule m\nENTRY e { x = f32[64,1024] parameter(0)\n"
                 " ROOT r = f32[64,1024] exponential(x)%s }",
                 attr);
  add_case(text, 4, false);
  return cases.v[cases.n - 1].k->chunks;
}

static void are_obeyed(void **state) {
  (void)state;
  assert_int_equal(chunks_of(", frontend_attributes={hlosh.schedule=\"chunks=5\"}"), 5);
  assert_int_equal(chunks_of(", frontend_attributes={a=\"b\",hlosh.schedule=\"chunks=9\"}"), 9);
  hs_buf b = {0};
  assert_true(hs_ok(emit_dump(unit, "schedule", &b)));
  assert_null(strstr(hs_buf_cstr(&b), "lanes 2 x 3"));
  (void)chunks_of(", frontend_attributes={hlosh.schedule=\"lanes=2,unroll=3\"}");
  b.n = 0;
  assert_true(hs_ok(emit_dump(unit, "schedule", &b)));
  assert_non_null(strstr(hs_buf_cstr(&b), "lanes 2 x 3"));
  hs_buf_free(&b);
}

static void are_read_and_written(void **state) {
  (void)state;
  static const char *const wrong[] = {"lanes",
                                      "lanes=",
                                      "lanes=3",
                                      "lanes=128",
                                      "tile=1x",
                                      "stream=2",
                                      "rows=4",
                                      "=4",
                                      ",",
                                      "chunks=-1",
                                      "chunks=99999999999999999999"};
  hlo_module *m =
      parsed("HloModule m\nENTRY e { x = f32[4] parameter(0)\n ROOT r = f32[4] negate(x), "
             "frontend_attributes={a=\"1\",z=\"2\"} }");
  hlo_tuning t;
  assert_true(hs_ok(hlo_tuning_of(m->entry->root, &t)));
  assert_false(hlo_tuning_write(&t, NULL));
  for (size_t k = 0; k < HS_COUNT(wrong); k++) {
    hs_status s = hlo_tuning_read(hs_str_of(wrong[k]), &t);
    assert_false(hs_ok(s));
    assert_int_equal(s.err->code, HS_E_USAGE);
    hs_status_drop(s);
    t = hlo_tuning_none();
  }
  assert_true(hs_ok(hlo_tuning_read(HS_STR("chunks=4,lanes=8"), &t)));
  hlo_tuning_set(m->entry->root, &t);
  hs_buf b = {0};
  hlo_print_options po = hlo_print_default();
  hlo_print_instr(&b, m->entry->root, &po);
  assert_non_null(strstr(hs_buf_cstr(&b), "{a=\"1\",hlosh.schedule=\"lanes=8,chunks=4\",z=\"2\"}"));
  t = hlo_tuning_none();
  hlo_tuning_set(m->entry->root, &t);
  b.n = 0;
  hlo_print_instr(&b, m->entry->root, &po);
  assert_non_null(strstr(hs_buf_cstr(&b), "{a=\"1\",z=\"2\"}"));
  hs_buf_free(&b);
  hlo_module_free(m);
}

int main(void) {
  const struct CMUnitTest tests[] = {TEST(keep_the_meaning), TEST(are_obeyed),
                                     TEST(are_read_and_written)};
  return cmocka_run_group_tests_name("emit_by_hand", tests, NULL, NULL);
}

#else
#include "tests/unit/skip.h"

int main(void) { return skip_all("no LLVM in this build"); }
#endif
