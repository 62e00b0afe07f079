// constants.c — programs whose weights are constants: what dots and convolutions make of these
// in the first run is right in the later ones, which have other arguments, and is in the plan of
// memory.
#include "tests/unit/backends/cpu.h"

enum { MOST_DIMS = 4, RUNS = 3 };
typedef struct weights {
  const char *type;
  i64 dims[MOST_DIMS];  // 0 behind the last
} weights;
// kept: whether the program keeps something that it made of the constant w
typedef struct program {
  weights w;
  const char *body;  // of the entry, without w
  bool kept;
} program;

static u32 rank_of(const weights *w) {
  u32 n = 0;
  while (n < MOST_DIMS && w->dims[n]) n++;
  return n;
}

// Elements -3 to 3, no two neighbours alike, from dim d on; unsigned types: 0 to 6.
static void put_elements(hs_buf *out, const weights *w, u32 d, u32 *count) {
  if (d == rank_of(w)) {
    int v = (int)((*count)++ * 2654435761u >> 13) % 7;
    bool complex = w->type[0] == 'c';
    hs_buf_printf(out, complex ? "(%d, 1)" : "%d", w->type[0] == 'u' ? HS_MAX(v, -v) : v - 3);
    return;
  }
  hs_buf_putc(out, '{');
  for (i64 k = 0; k < w->dims[d]; k++) {
    if (k) hs_buf_putc(out, ',');
    put_elements(out, w, d + 1, count);
  }
  hs_buf_putc(out, '}');
}

static void put_weights(hs_buf *out, const weights *w) {
  u32 count = 0;
  hs_buf_printf(out, "w = %s[", w->type);
  for (u32 d = 0; d < rank_of(w); d++)
    hs_buf_printf(out, d ? ",%lld" : "%lld", (long long)w->dims[d]);
  hs_buf_puts(out, "] constant(");
  put_elements(out, w, 0, &count);
  hs_buf_puts(out, ")\n");
}

// Bytes of constants that kernels have made.
static i64 kept_bytes(backend_exe *e) {
  prof_memory plan;
  i64 bytes = 0;
  explain(cpu->plan(e, &plan));
  for (u32 k = 0; k < plan.nvalues; k++)
    if (plan.values[k].scratch && plan.buffers[plan.values[k].buffer].kind == PROF_BUFFER_CONSTANT)
      bytes += plan.values[k].bytes;
  prof_memory_free(&plan);
  return bytes;
}

// One program, run several times, each time with other arguments.
static void runs_as_evaluated(const hlo_module *m, const backend_options *o, bool kept) {
  const backend *interp = backend_find("interp");
  backend_options by_interp = {.context = backends};
  backend_exe *e = NULL, *want = NULL;
  explain(cpu->compile(m, o, &e));
  explain(interp->compile(m, &by_interp, &want));
  assert_int_equal(cpu->compiled(e)->fallbacks, 0);
  assert_int_equal(kept_bytes(e) > 0, kept);
  for (u64 seed = 0; seed < RUNS; seed++) {
    hlo_literal **args = NULL;
    u32 n = 0;
    backend_result a = {0}, b = {0};
    explain(hlo_inputs_random(ctx, m, seed, &args, &n));
    explain(interp->run(want, n, args, NULL, &a));
    explain(cpu->run(e, n, args, NULL, &b));
    explain(hlo_compare(a.outputs, b.outputs, hlo_near(2e-3, 2e-3)));
    backend_result_free(&a);
    backend_result_free(&b);
    hlo_inputs_free(args, n);
  }
  cpu->release(e);
  interp->release(want);
}

static void agrees_with_constant(const program *p, const char *before) {
  hs_buf text = {0};
  hs_buf_printf(&text, "HloModule t\n%sENTRY e {\n", before);
  put_weights(&text, &p->w);
  hs_buf_printf(&text, "%s }", p->body);
  hlo_module *m = parse(hs_buf_cstr(&text));
  for (int mode = 0; mode < 3; mode++) {
    backend_options o = {
        .context = backends, .threads = mode == 1, .per_instruction = mode == 2, .deadline_s = 120};
    runs_as_evaluated(m, &o, p->kept);
  }
  hlo_module_free(m);
  hs_buf_free(&text);
}

static void all_agree(const program *p, size_t n) {
  for (size_t k = 0; k < n; k++) agrees_with_constant(&p[k], "");
}

#define K_LAST "lhs_contracting_dims={1}, rhs_contracting_dims={1}"
#define K_FIRST "lhs_contracting_dims={1}, rhs_contracting_dims={0}"

static void test_dots(void **state) {
  (void)state;
  static const program all[] = {
      {{"f32", {96, 80}},
       "x = f32[24,96] parameter(0)\nROOT r = f32[24,80] dot(x, w), " K_FIRST,
       true},
      {{"f32", {80, 96}},
       "x = f32[24,96] parameter(0)\nROOT r = f32[24,80] dot(x, w), " K_LAST,
       true},
      {{"f32", {50, 800}},  // several blocks along k
       "x = f32[70,800] parameter(0)\nROOT r = f32[70,50] dot(x, w), " K_LAST,
       true},
      {{"f32", {9, 4200}},  // and of columns
       "x = f32[20,9] parameter(0)\nROOT r = f32[20,4200] dot(x, w), " K_FIRST,
       true},
      {{"f32", {1700, 20}},  // on the left: blocks of rows
       "x = f32[20,400] parameter(0)\nROOT r = f32[1700,400] dot(w, x), " K_FIRST,
       true},
      {{"f32", {4, 20, 6}},  // dims that do not merge
       "x = f32[30,4,6] parameter(0)\nROOT r = f32[30,20] dot(x, w), "
       "lhs_contracting_dims={1,2}, rhs_contracting_dims={0,2}",
       true},
      {{"f32", {20, 24, 40}},  // whole products by each thread
       "x = f32[20,16,24] parameter(0)\nROOT r = f32[20,16,40] dot(x, w), lhs_batch_dims={0}, "
       "rhs_batch_dims={0}, lhs_contracting_dims={2}, rhs_contracting_dims={1}",
       true},
      {{"f32", {96, 80}},  // a result by columns
       "x = f32[100,96] parameter(0)\nROOT r = f32[100,80]{0,1} dot(x, w), " K_FIRST,
       true},
      {{"f32", {300, 500}},  // rows read the matrix where it lies
       "x = f32[1,300] parameter(0)\nROOT r = f32[1,500] dot(x, w), " K_FIRST,
       false},
  };
  all_agree(all, HS_COUNT(all));
}

static void test_types(void **state) {
  (void)state;
  static const program all[] = {
      {{"f64", {96, 80}},
       "x = f64[24,96] parameter(0)\nROOT r = f64[24,80] dot(x, w), " K_FIRST,
       true},
      {{"c64", {30, 20}},
       "x = c64[24,30] parameter(0)\nROOT r = c64[24,20] dot(x, w), " K_FIRST,
       true},
      {{"f16", {80, 96}},
       "x = f16[24,96] parameter(0)\nROOT r = f32[24,80] dot(x, w), " K_LAST,
       true},
      {{"bf16", {80, 96}},
       "x = f32[24,96] parameter(0)\nROOT r = f32[24,80] dot(x, w), " K_LAST,
       true},
      {{"s8", {80, 96}},
       "x = s8[24,96] parameter(0)\nROOT r = s32[24,80] dot(x, w), " K_LAST,
       true},
      {{"u8", {80, 96}},
       "x = s16[24,96] parameter(0)\nROOT r = s32[24,80] dot(x, w), " K_LAST,
       true},
      {{"s16", {20, 96}},
       "x = s32[24,96] parameter(0)\nROOT r = s32[24,20] dot(x, w), " K_LAST,
       true},
      {{"bf16", {4, 300}},  // a few rows, which are widened
       "x = bf16[300,500] parameter(0)\nROOT r = f32[4,500] dot(w, x), " K_FIRST,
       true},
  };
  all_agree(all, HS_COUNT(all));
}

#define CONV(type, image, out, rest)                                           \
  "x = " type image " parameter(0)\nROOT r = " type out " convolution(x, w), " \
  "dim_labels=b01f_01io->b01f, window={size=3x3 pad=1_1x1_1" rest

static void test_convolutions(void **state) {
  (void)state;
  static const program all[] = {
      {{"f32", {3, 3, 16, 32}}, CONV("f32", "[2,9,9,16]", "[2,9,9,32]", "}"), true},
      {{"f32", {3, 3, 16, 32}},
       CONV("f32", "[2,9,9,16]", "[2,9,9,32]", " rhs_reversal=1x1}"),
       true},
      {{"f32", {3, 3, 8, 32}},
       CONV("f32", "[2,9,9,16]", "[2,9,9,32]", "}, feature_group_count=2"),
       true},
      {{"f32", {3, 3, 16, 32}},
       CONV("f32", "[2,9,9,16]", "[2,17,17,32]", " lhs_dilate=2x2}"),
       true},
      {{"f32", {3, 3, 64, 128}},  // features are cut
       CONV("f32", "[1,9,9,64]", "[1,9,9,128]", "}"),
       true},
      {{"bf16", {3, 3, 16, 32}}, CONV("bf16", "[2,9,9,16]", "[2,9,9,32]", "}"), true},
      {{"f16", {3, 3, 16, 32}},
       CONV("f16", "[2,9,9,16]", "[2,9,9,32]", " rhs_reversal=1x0}"),
       true},
      {{"f64", {3, 3, 16, 32}}, CONV("f64", "[2,9,9,16]", "[2,9,9,32]", "}"), true},
      {{"s32", {3, 3, 4, 8}}, CONV("s32", "[2,5,5,4]", "[2,5,5,8]", "}"), true},
  };
  all_agree(all, HS_COUNT(all));
}

// In a loop whose body has it, or is handed it, and in a computation called with it, it is a
// constant. What the loop changes is none, even where it begins as one.
static void test_where_constants_get(void **state) {
  (void)state;
  // large enough for a kernel of its own
  static const char loop[] =
      "cond { p = (s32[], f32[64,64], f32[64,64]) parameter(0)\n"
      "i = s32[] get-tuple-element(p), index=0\nn = s32[] constant(3)\n"
      "ROOT c = pred[] compare(i, n), direction=LT }\n"
      "body { p = (s32[], f32[64,64], f32[64,64]) parameter(0)\n"
      "i = s32[] get-tuple-element(p), index=0\n one = s32[] constant(1)\n"
      "j = s32[] add(i, one)\n x = f32[64,64] get-tuple-element(p), index=1\n"
      "v = f32[64,64] get-tuple-element(p), index=2\n d = f32[64,64] dot(x, v), " K_FIRST "\n"
      "t = f32[64,64] tanh(d)\n %s\n"
      "ROOT r = (s32[], f32[64,64], f32[64,64]) tuple(j, t, v%s) }\n";
  static const program in_loop = {
      {"f32", {64, 64}},
      "x = f32[64,64] parameter(0)\nzero = s32[] constant(0)\n"
      "s = (s32[], f32[64,64], f32[64,64]) tuple(zero, x, w)\n"
      "ROOT r = (s32[], f32[64,64], f32[64,64]) while(s), condition=cond, body=body",
      true};
  static const program called = {
      {"f32", {80, 96}},
      "x = f32[24,96] parameter(0)\nROOT r = f32[24,80] call(x, w), to_apply=f",
      true};
  hs_buf text = {0};
  hs_buf_printf(&text, loop, "", "");
  agrees_with_constant(&in_loop, hs_buf_cstr(&text));
  program changed = in_loop;
  changed.kept = false;
  text.n = 0;
  hs_buf_printf(&text, loop, "v2 = f32[64,64] negate(v)", "2");
  agrees_with_constant(&changed, hs_buf_cstr(&text));
  agrees_with_constant(&called, "f { x = f32[24,96] parameter(0)\ny = f32[80,96] parameter(1)\n"
                                "ROOT r = f32[24,80] dot(x, y), " K_LAST " }\n");
  hs_buf_free(&text);
}

int main(int argc, char **argv) {
  static const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_dots),
      cmocka_unit_test(test_types),
      cmocka_unit_test(test_convolutions),
      cmocka_unit_test(test_where_constants_get),
  };
  return run_cpu_tests(argc, argv, "constants", tests, HS_COUNT(tests));
}
