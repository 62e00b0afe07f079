// emit_rows.c — row buffers: fusions whose loops along a row share values, against the evaluator,
// and how many values the schedule keeps and reads again. Then fused multiply-add, which is to be
// had and to be had not.
#if HAVE_LLVM
#include "tests/unit/backends/kernels.h"

#define SUM "add { a = f32[] parameter(0)\n b = f32[] parameter(1)\n ROOT c = f32[] add(a, b) }\n"
#define MAX \
  "max { a = f32[] parameter(0)\n b = f32[] parameter(1)\n ROOT c = f32[] maximum(a, b) }\n"

static int count(const char *text, const char *word) {
  int n = 0;
  for (const char *p = text; (p = strstr(p, word)); p += strlen(word)) n++;
  return n;
}

// The dump of a unit's schedules keeps `keeps` values, and has `loads` loads of kept ones.
static void expect_kept(int keeps, int loads) {
  hs_buf b = {0};
  assert_true(hs_ok(emit_dump(unit, "schedule", &b)));
  assert_int_equal(count(hs_buf_cstr(&b), " keep v"), keeps);
  assert_int_equal(count(hs_buf_cstr(&b), " keeps it"), loads);
  hs_buf_free(&b);
}

// Softmax over the last dimension of [rows, n], computed in f32.
static char *softmax(const char *type, int rows, int n) {
  bool wide = !strcmp(type, "f32");
  return hs_format(
      "HloModule m\n" SUM MAX "f { p = %s[%d,%d] parameter(0)\n x = f32[%d,%d] %s(p)\n"
      " n = f32[] constant(-inf)\n z = f32[] constant(0)\n"
      " m = f32[%d] reduce(x, n), dimensions={1}, to_apply=max\n"
      " mb = f32[%d,%d] broadcast(m), dimensions={0}\n s = f32[%d,%d] subtract(x, mb)\n"
      " e = f32[%d,%d] exponential(s)\n"
      " t = f32[%d] reduce(e, z), dimensions={1}, to_apply=add\n"
      " tb = f32[%d,%d] broadcast(t), dimensions={0}\n d = f32[%d,%d] divide(e, tb)\n"
      " ROOT r = %s[%d,%d] %s(d) }\nENTRY e { p = %s[%d,%d] parameter(0)\n"
      " ROOT r = %s[%d,%d] fusion(p), kind=kInput, calls=f }\n",
      type, rows, n, rows, n, wide ? "copy" : "convert", rows, rows, n, rows, n, rows, n, rows,
      rows, n, rows, n, type, rows, n, wide ? "copy" : "convert", type, rows, n, type, rows, n);
}

static void softmax_keeps_its_exponentials(void **state) {
  (void)state;
  // short, long (in the result's row), longer in another type, and too long for any place
  static const struct {
    const char *type;
    int rows, n;
  } shapes[] = {{"f32", 19, 77},  {"f32", 600, 16},   {"f32", 6, 9001},
                {"bf16", 5, 129}, {"bf16", 3, 40000}, {"f32", 1, 20000}};
  for (size_t k = 0; k < HS_COUNT(shapes); k++) {
    char *text = softmax(shapes[k].type, shapes[k].rows, shapes[k].n);
    add_case(text, shapes[k].type[0] == 'b' ? 1 : 200, false);
    hs_free(text);
  }
  expect_kept(HS_COUNT(shapes), HS_COUNT(shapes));
  run_cases();
}

static void too_long_rows_are_computed_again(void **state) {
  (void)state;
  char *text = softmax("bf16", 2, 80000);
  add_case(text, 1, false);
  hs_free(text);
  expect_kept(0, 0);
  run_cases();
}

static const char *const fusions[] = {
    // three loops share one value, in two results; the first sum and the maximum are siblings
    SUM MAX "f { x = f32[40,50] parameter(0)\n z = f32[] constant(0)\n n = f32[] constant(-inf)\n"
            " h = f32[40,50] tanh(x)\n s = f32[40] reduce(h, z), dimensions={1}, to_apply=add\n"
            " m = f32[40] reduce(h, n), dimensions={1}, to_apply=max\n"
            " sb = f32[40,50] broadcast(s), dimensions={0}\n d = f32[40,50] subtract(h, sb)\n"
            " q = f32[40,50] multiply(d, d)\n"
            " v = f32[40] reduce(q, z), dimensions={1}, to_apply=add\n"
            " vb = f32[40,50] broadcast(v), dimensions={0}\n"
            " mb = f32[40,50] broadcast(m), dimensions={0}\n a = f32[40,50] multiply(d, vb)\n"
            " b = f32[40,50] add(h, mb)\n ROOT r = (f32[40,50], f32[40,50]) tuple(a, b) }\n"
            "ENTRY e { x = f32[40,50] parameter(0)\n"
            " ROOT r = (f32[40,50], f32[40,50]) fusion(x), kind=kInput, calls=f }\n",
    // rows of two dims, read transposed, with a result of rows beside the full one
    SUM "f { x = f32[6,30,12] parameter(0)\n y = f32[12,30,6] transpose(x), dimensions={2,1,0}\n"
        " z = f32[] constant(0)\n e = f32[12,30,6] exponential(y)\n"
        " s = f32[12] reduce(e, z), dimensions={1,2}, to_apply=add\n"
        " b = f32[12,30,6] broadcast(s), dimensions={0}\n d = f32[12,30,6] divide(e, b)\n"
        " ROOT r = (f32[12,30,6], f32[12]) tuple(d, s) }\nENTRY e { x = f32[6,30,12] parameter(0)\n"
        " ROOT r = (f32[12,30,6], f32[12]) fusion(x), kind=kInput, calls=f }\n",
    // the stage runs over rows alone: two groups share
    SUM MAX "f { x = f32[33,200] parameter(0)\n z = f32[] constant(0)\n n = f32[] constant(-inf)\n"
            " e = f32[33,200] exponential(x)\n"
            " m = f32[33] reduce(e, n), dimensions={1}, to_apply=max\n"
            " mb = f32[33,200] broadcast(m), dimensions={0}\n d = f32[33,200] divide(e, mb)\n"
            " ROOT s = f32[33] reduce(d, z), dimensions={1}, to_apply=add }\n"
            "ENTRY e { x = f32[33,200] parameter(0)\n"
            " ROOT r = f32[33] fusion(x), kind=kInput, calls=f }\n",
    // long rows with two results: the exponential stands in one while both are computed
    SUM
    "f { x = f32[3,9000] parameter(0)\n z = f32[] constant(0)\n e = f32[3,9000] exponential(x)\n"
    " s = f32[3] reduce(e, z), dimensions={1}, to_apply=add\n"
    " b = f32[3,9000] broadcast(s), dimensions={0}\n d = f32[3,9000] divide(e, b)\n"
    " g = f32[3,9000] subtract(e, b)\n ROOT r = (f32[3,9000], f32[3,9000]) tuple(d, g) }\n"
    "ENTRY e { x = f32[3,9000] parameter(0)\n"
    " ROOT r = (f32[3,9000], f32[3,9000]) fusion(x), kind=kInput, calls=f }\n",
};

static void loops_share_what_is_dear(void **state) {
  (void)state;
  for (size_t k = 0; k < HS_COUNT(fusions); k++) {
    char *text = hs_format("HloModule m\n%s", fusions[k]);
    add_case(text, 200, false);
    hs_free(text);
  }
  run_cases();
  hs_buf b = {0};
  assert_true(hs_ok(emit_dump(unit, "schedule", &b)));
  for (size_t k = 0; k < HS_COUNT(fusions); k++) {
    char name[8], next[8];
    snprintf(name, sizeof name, "\nk%zu_", k);
    snprintf(next, sizeof next, "\nk%zu_", k + 1);
    char *from = strstr(hs_buf_cstr(&b), name), *to = from ? strstr(from, next) : NULL;
    assert_non_null(from);
    if (to) *to = 0;
    assert_true(count(from, " keep v") >= 1);
    if (to) *to = '\n';
  }
  hs_buf_free(&b);
}

// x * x - y, where y is the rounded square of x: what rounding lost, or nothing.
static void products_fuse_into_sums_where_allowed(void **state) {
  (void)state;
  hlo_module *m = parsed("HloModule m\nf { x = f32[32] parameter(0)\n y = f32[32] parameter(1)\n"
                         " p = f32[32] multiply(x, x)\n ROOT r = f32[32] subtract(p, y) }\n"
                         "ENTRY e { x = f32[32] parameter(0)\n y = f32[32] parameter(1)\n"
                         " ROOT r = f32[32] fusion(x, y), kind=kLoop, calls=f }\n");
  float x[32], y[32], r[32];
  for (int i = 0; i < 32; i++) x[i] = 1 + 0x1p-12f, y[i] = 1 + 0x1p-11f;
  void *bufs[] = {x, y, r};
  for (int contract = 0; contract < 2; contract++) {
    emit_unit *u = NULL;
    const emit_kernel *k = NULL;
    assert_true(hs_ok(emit_unit_new(&(emit_options){.contract = contract}, &u)));
    assert_true(hs_ok(emit_add(u, m->entry->root, &k)));
    assert_true(hs_ok(emit_finish(u, true, 1, NULL)));
    for (i64 c = 0; c < k->chunks; c++) k->fn(bufs, c, NULL);
    for (int i = 0; i < 32; i++) assert_true(r[i] == (contract ? 0x1p-24f : 0));
    emit_unit_free(u);
  }
  hlo_module_free(m);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      TEST(softmax_keeps_its_exponentials),
      TEST(too_long_rows_are_computed_again),
      TEST(loops_share_what_is_dear),
      TEST(products_fuse_into_sums_where_allowed),
  };
  return cmocka_run_group_tests_name("emit_rows", tests, NULL, NULL);
}

#else
#include "tests/unit/skip.h"

int main(void) { return skip_all("no LLVM in this build"); }
#endif
