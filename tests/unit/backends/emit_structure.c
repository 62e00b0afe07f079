// emit_structure.c — kernels that move, reduce and fuse against the evaluator; equal kernels
// share their code, what cannot be compiled is refused by name, and the dumps hold what they
// promise.
#if HAVE_LLVM
#include "tests/unit/backends/kernels.h"

#define SUM "add { a = f32[] parameter(0)\n b = f32[] parameter(1)\n ROOT c = f32[] add(a, b) }\n"
#define MAX \
  "max { a = f32[] parameter(0)\n b = f32[] parameter(1)\n ROOT c = f32[] maximum(a, b) }\n"
static const struct {
  double ulp;
  const char *text;
} modules[] = {
    {0, "ENTRY e {\n x = f32[5] parameter(0)\n ROOT r = f32[3,5,2] broadcast(x), "
        "dimensions={1}\n}"},
    {0, "ENTRY e {\n x = s32[] parameter(0)\n ROOT r = s32[33] broadcast(x), dimensions={}\n"
        "}"},
    {0, "ENTRY e {\n x = f32[6,35] parameter(0)\n ROOT r = f32[14,15] reshape(x)\n}"},
    {0, "ENTRY e {\n x = f32[3,4,35] parameter(0)\n ROOT r = f32[35,3,4] transpose(x), "
        "dimensions={2,0,1}\n}"},
    {0, "ENTRY e {\n x = f32[67,45] parameter(0)\n ROOT r = f32[45,67] transpose(x), "
        "dimensions={1,0}\n}"},
    {0, "ENTRY e {\n x = u8[67,133] parameter(0)\n ROOT r = u8[133,67] transpose(x), "
        "dimensions={1,0}\n}"},
    {0, "ENTRY e {\n x = f64[2,40,33] parameter(0)\n ROOT r = f64[2,33,40] transpose(x), "
        "dimensions={0,2,1}\n}"},
    {0, "ENTRY e {\n x = bf16[40,64] parameter(0)\n ROOT r = bf16[64,40] transpose(x), "
        "dimensions={1,0}\n}"},
    {0, "ENTRY e {\n x = f32[20,30] parameter(0)\n ROOT r = f32[5,20] slice(x), "
        "slice={[3:18:3], [2:22]}\n}"},
    {0, "ENTRY e {\n x = f32[201] parameter(0)\n ROOT r = f32[67] slice(x), "
        "slice={[0:201:3]}\n}"},
    {0, "ENTRY e {\n x = f64[129] parameter(0)\n ROOT r = f64[64] slice(x), "
        "slice={[1:129:2]}\n}"},
    {0, "ENTRY e {\n x = u8[600] parameter(0)\n ROOT r = u8[150] slice(x), slice={[0:600:4]}\n"
        "}"},
    {0, "f { x = f32[40,3] parameter(0)\n a = f32[40,50,3] broadcast(x), dimensions={0,2}\n"
        " b = f32[50,3] parameter(1)\n c = f32[40,50,3] broadcast(b), dimensions={1,2}\n"
        " ROOT r = f32[40,50,3] subtract(a, c) }\nENTRY e {\n x = f32[40,3] parameter(0)\n"
        " y = f32[50,3] parameter(1)\n ROOT r = f32[40,50,3] fusion(x, y), kind=kLoop, "
        "calls=f\n}"},
    {0, "f { x = f32[6,64] parameter(0)\n g = f32[6,16] parameter(1)\n"
        " a = f32[6,16,4] reshape(x)\n b = f32[6,16,4] broadcast(g), dimensions={0,1}\n"
        " c = f32[6,16,4] multiply(a, b)\n"
        " ROOT r = f32[6,64] reshape(c) }\nENTRY e {\n x = f32[6,64] parameter(0)\n"
        " y = f32[6,16] parameter(1)\n ROOT r = f32[6,64] fusion(x, y), kind=kLoop, calls=f\n"
        "}"},
    {0, "ENTRY e {\n x = f32[20,30] parameter(0)\n ROOT r = f32[20,30] reverse(x), "
        "dimensions={0,1}\n}"},
    {0, "ENTRY e {\n x = f32[7,9] parameter(0)\n v = f32[] parameter(1)\n"
        " ROOT r = f32[12,30] pad(x, v), padding=2_3x1_4_2\n}"},
    {0, "ENTRY e {\n x = f32[17,19] parameter(0)\n v = f32[] parameter(1)\n"
        " ROOT r = f32[15,23] pad(x, v), padding=-1_-1x3_1\n}"},
    {0, "ENTRY e {\n x = s8[3,40] parameter(0)\n y = s8[3,7] parameter(1)\n"
        " z = s8[3,0] parameter(2)\n ROOT r = s8[3,47] concatenate(x, z, y), dimensions={1}\n"
        "}"},
    {0, "ENTRY e {\n x = f32[3,40] parameter(0)\n y = f32[5,40] parameter(1)\n"
        " ROOT r = f32[8,40] concatenate(x, y), dimensions={0}\n}"},
    {0, "ENTRY e {\n ROOT r = f32[5,37] iota(), iota_dimension=1\n}"},
    {0, "ENTRY e {\n ROOT r = u8[300] iota(), iota_dimension=0\n}"},
    {0, "ENTRY e {\n x = f32[20,30] parameter(0)\n i = s32[] parameter(1)\n"
        " j = s32[] parameter(2)\n ROOT r = f32[4,30] dynamic-slice(x, i, j), "
        "dynamic_slice_sizes={4,30}\n}"},
    {0, "ENTRY e {\n x = f32[20,30] parameter(0)\n u = f32[3,25] parameter(1)\n"
        " i = s32[] parameter(2)\n j = u8[] parameter(3)\n"
        " ROOT r = f32[20,30] dynamic-update-slice(x, u, i, j)\n}"},
    {0, "ENTRY e {\n x = f32[11,33] parameter(0)\n i = s32[6,1] parameter(1)\n"
        " ROOT r = f32[6,33] gather(x, i), offset_dims={1}, collapsed_slice_dims={0}, "
        "start_index_map={0}, index_vector_dim=1, slice_sizes={1,33}\n}"},
    {0, "ENTRY e {\n x = f32[11,33] parameter(0)\n i = s64[50,2] parameter(1)\n"
        " ROOT r = f32[50] gather(x, i), offset_dims={}, collapsed_slice_dims={0,1}, "
        "start_index_map={0,1}, index_vector_dim=1, slice_sizes={1,1}\n}"},
    {0, "ENTRY e {\n p = pred[] parameter(0)\n x = f32[40] parameter(1)\n"
        " y = f32[40] parameter(2)\n ROOT r = f32[40] select(p, x, y)\n}"},
    {0, "ENTRY e {\n p = pred[40] parameter(0)\n x = u8[40] parameter(1)\n"
        " y = u8[40] parameter(2)\n ROOT r = u8[40] select(p, x, y)\n}"},
    {0, "ENTRY e {\n l = f32[] parameter(0)\n x = f32[40] parameter(1)\n"
        " h = f32[] parameter(2)\n ROOT r = f32[40] clamp(l, x, h)\n}"},
    {4, "g { a = f32[] parameter(0)\n b = f32[] parameter(1)\n m = f32[] multiply(a, b)\n"
        " ROOT c = f32[] exponential(m) }\nENTRY e {\n x = f32[40] parameter(0)\n"
        " y = f32[40] parameter(1)\n"
        " ROOT r = f32[40] map(x, y), dimensions={0}, to_apply=g\n}"},
    {200, SUM "ENTRY e {\n x = f32[33,71] parameter(0)\n z = f32[] constant(0)\n"
              " ROOT r = f32[33] reduce(x, z), dimensions={1}, to_apply=add\n}"},
    {200, SUM "ENTRY e {\n x = f32[71,33] parameter(0)\n z = f32[] constant(0)\n"
              " ROOT r = f32[33] reduce(x, z), dimensions={0}, to_apply=add\n}"},
    {200, SUM "ENTRY e {\n x = f32[9,11,33] parameter(0)\n z = f32[] constant(1)\n"
              " ROOT r = f32[11] reduce(x, z), dimensions={0,2}, to_apply=add\n}"},
    {200, SUM "ENTRY e {\n x = f32[700,1301] parameter(0)\n z = f32[] constant(2)\n"
              " ROOT r = f32[] reduce(x, z), dimensions={0,1}, to_apply=add\n}"},
    {200, SUM "ENTRY e {\n x = f32[100003,6] parameter(0)\n z = f32[] constant(2)\n"
              " ROOT r = f32[6] reduce(x, z), dimensions={0}, to_apply=add\n}"},
    {200, SUM "ENTRY e {\n x = f32[3,0] parameter(0)\n z = f32[] constant(2)\n"
              " ROOT r = f32[3] reduce(x, z), dimensions={1}, to_apply=add\n}"},
    {0, MAX "ENTRY e {\n x = f32[3,1000] parameter(0)\n z = f32[] constant(-inf)\n"
            " ROOT r = f32[3] reduce(x, z), dimensions={1}, to_apply=max\n}"},
    {0, "m { a = s8[] parameter(0)\n b = s8[] parameter(1)\n ROOT c = s8[] minimum(a, b) }\n"
        "ENTRY e {\n x = s8[5,300] parameter(0)\n z = s8[] constant(127)\n"
        " ROOT r = s8[5] reduce(x, z), dimensions={1}, to_apply=m\n}"},
    {0, "m { a = pred[] parameter(0)\n b = pred[] parameter(1)\n ROOT c = pred[] and(a, b) }\n"
        "ENTRY e {\n x = pred[5,3] parameter(0)\n z = pred[] constant(true)\n"
        " ROOT r = pred[5] reduce(x, z), dimensions={1}, to_apply=m\n}"},
    {0, "s { a = f32[] parameter(0)\n b = f32[] parameter(1)\n h = f32[] constant(0.5)\n"
        " m = f32[] multiply(a, h)\n ROOT c = f32[] subtract(m, b) }\nENTRY e {\n"
        " x = f32[5,37] parameter(0)\n"
        " z = f32[] constant(1)\n ROOT r = f32[5] reduce(x, z), dimensions={1}, to_apply=s\n"
        "}"},
    {0, "am { v0 = f32[] parameter(0)\n i0 = s32[] parameter(1)\n v1 = f32[] parameter(2)\n"
        " i1 = s32[] parameter(3)\n g = pred[] compare(v0, v1), direction=GT\n"
        " q = pred[] compare(v0, v1), direction=EQ\n l = pred[] compare(i0, i1), "
        "direction=LT\n ql = pred[] and(q, l)\n p = pred[] or(g, ql)\n"
        " v = f32[] select(p, v0, v1)\n"
        " i = s32[] select(p, i0, i1)\n ROOT t = (f32[], s32[]) tuple(v, i) }\n"
        "f { x = f32[7,300] parameter(0)\n io = s32[7,300] iota(), iota_dimension=1\n"
        " ni = f32[] constant(-inf)\n"
        " z = s32[] constant(0)\n ROOT r = (f32[7], s32[7]) reduce(x, io, ni, z), "
        "dimensions={1}, to_apply=am }\nENTRY e {\n x = f32[7,300] parameter(0)\n"
        " ROOT r = (f32[7], s32[7]) fusion(x), kind=kInput, calls=f\n}"},
    {200, SUM MAX "f { x = f32[19,77] parameter(0)\n n = f32[] constant(-inf)\n"
                  " z = f32[] constant(0)\n m = f32[19] reduce(x, n), dimensions={1}, "
                  "to_apply=max\n"
                  " mb = f32[19,77] broadcast(m), dimensions={0}\n"
                  " s = f32[19,77] subtract(x, mb)\n ex = f32[19,77] exponential(s)\n"
                  " t = f32[19] reduce(ex, z), dimensions={1}, to_apply=add\n"
                  " tb = f32[19,77] broadcast(t), dimensions={0}\n"
                  " ROOT d = f32[19,77] divide(ex, tb) }\nENTRY e {\n"
                  " x = f32[19,77] parameter(0)\n ROOT r = f32[19,77] fusion(x), kind=kInput, "
                  "calls=f\n}"},
    {200,
     SUM MAX "f { x = f32[45,33] parameter(0)\n n = f32[] constant(-inf)\n z = f32[] constant(0)\n"
             " q = f32[45,33] multiply(x, x)\n a = f32[33] reduce(x, z), dimensions={0}, "
             "to_apply=add\n"
             " b = f32[33] reduce(q, z), dimensions={0}, to_apply=add\n"
             " c = f32[33] reduce(x, n), dimensions={0}, to_apply=max\n"
             " ROOT t = (f32[33], f32[33], f32[33], f32[45,33]) tuple(a, b, c, q) }\n"
             "ENTRY e {\n x = f32[45,33] parameter(0)\n ROOT r = (f32[33], f32[33], f32[33], "
             "f32[45,33]) fusion(x), kind=kInput, calls=f\n}"},
    {200, SUM "ENTRY e {\n x = f32[1,20,20,3] parameter(0)\n z = f32[] constant(0)\n"
              " ROOT r = f32[1,10,10,3] reduce-window(x, z), window={size=1x3x3x1 stride=1x2x2x1 "
              "pad=0_0x1_0x0_1x0_0}, to_apply=add\n}"},
    {0, MAX "ENTRY e {\n x = f32[40,21] parameter(0)\n z = f32[] constant(-inf)\n"
            " ROOT r = f32[40,21] reduce-window(x, z), window={size=1x21 pad=0_0x20_0}, "
            "to_apply=max\n}"},
    {200, "ENTRY e {\n x = f32[9,31] parameter(0)\n y = f32[31,20] parameter(1)\n"
          " ROOT r = f32[9,20] dot(x, y), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n"
          "}"},
    {200, "ENTRY e {\n x = f32[4,9,31] parameter(0)\n y = f32[4,7,31] parameter(1)\n"
          " ROOT r = f32[4,9,7] dot(x, y), lhs_batch_dims={0}, rhs_batch_dims={0}, "
          "lhs_contracting_dims={2}, rhs_contracting_dims={2}\n}"},
    {0, "f { x = f32[8,50] parameter(0)\n a = f32[8,10] slice(x), slice={[0:8],[40:50]}\n"
        " b = f32[8,40] slice(x), slice={[0:8],[0:40]}\n c = f32[8,50] concatenate(a, b), "
        "dimensions={1}\n"
        " ROOT r = f32[8,50] add(c, x) }\nENTRY e {\n x = f32[8,50] parameter(0)\n"
        " ROOT r = f32[8,50] fusion(x), kind=kLoop, calls=f\n}"},
    {0, "f { x = f32[6,4,5] parameter(0)\n y = f32[120] parameter(1)\n"
        " a = f32[120] reshape(x)\n b = f32[120] add(a, y)\n ROOT r = f32[6,20] reshape(b) }\n"
        "ENTRY e {\n x = f32[6,4,5] parameter(0)\n"
        " y = f32[120] parameter(1)\n ROOT r = f32[6,20] fusion(x, y), kind=kLoop, calls=f\n"
        "}"},
    {0, "f { x = f32[40,31,3] parameter(0)\n b = f32[3] parameter(1)\n"
        " s = f32[40,31,3] broadcast(b), dimensions={2}\n ROOT r = f32[40,31,3] subtract(x, s) }\n"
        "ENTRY e {\n x = f32[40,31,3] parameter(0)\n b = f32[3] parameter(1)\n"
        " ROOT r = f32[40,31,3] fusion(x, b), kind=kLoop, calls=f\n}"},
    {0, "f { x = f32[33,20,5] parameter(0)\n b = f32[5] parameter(1)\n"
        " s = f32[33,20,5] broadcast(b), dimensions={2}\n ROOT r = f32[33,20,5] subtract(x, s) }\n"
        "ENTRY e {\n x = f32[33,20,5] parameter(0)\n b = f32[5] parameter(1)\n"
        " ROOT r = f32[33,20,5] fusion(x, b), kind=kLoop, calls=f\n}"},
    {0, "f { x = f32[50,11,7] parameter(0)\n b = f32[7] parameter(1)\n"
        " s = f32[50,11,7] broadcast(b), dimensions={2}\n ROOT r = f32[50,11,7] subtract(x, s) }\n"
        "ENTRY e {\n x = f32[50,11,7] parameter(0)\n b = f32[7] parameter(1)\n"
        " ROOT r = f32[50,11,7] fusion(x, b), kind=kLoop, calls=f\n}"},
    {0, "f { x = f32[21,30,6] parameter(0)\n b = f32[6] parameter(1)\n"
        " s = f32[21,30,6] broadcast(b), dimensions={2}\n ROOT r = f32[21,30,6] subtract(x, s) }\n"
        "ENTRY e {\n x = f32[21,30,6] parameter(0)\n b = f32[6] parameter(1)\n"
        " ROOT r = f32[21,30,6] fusion(x, b), kind=kLoop, calls=f\n}"},
    {0, "ENTRY e {\n x0 = f32[33,17,1] parameter(0)\n x1 = f32[33,17,1] parameter(1)\n"
        " ROOT r = f32[33,17,2] concatenate(x0, x1), dimensions={2}\n}"},
    {0, "ENTRY e {\n x0 = f32[33,17,1] parameter(0)\n x1 = f32[33,17,1] parameter(1)\n"
        " x2 = f32[33,17,1] parameter(2)\n"
        " ROOT r = f32[33,17,3] concatenate(x0, x1, x2), dimensions={2}\n}"},
    {0, "ENTRY e {\n x0 = f32[33,17,1] parameter(0)\n x1 = f32[33,17,1] parameter(1)\n"
        " x2 = f32[33,17,1] parameter(2)\n x3 = f32[33,17,1] parameter(3)\n"
        " ROOT r = f32[33,17,4] concatenate(x0, x1, x2, x3), dimensions={2}\n}"},
    {0, "ENTRY e {\n x0 = f32[33,17,1] parameter(0)\n x1 = f32[33,17,1] parameter(1)\n"
        " x2 = f32[33,17,1] parameter(2)\n x3 = f32[33,17,1] parameter(3)\n"
        " x4 = f32[33,17,1] parameter(4)\n x5 = f32[33,17,1] parameter(5)\n"
        " x6 = f32[33,17,1] parameter(6)\n"
        " ROOT r = f32[33,17,7] concatenate(x0, x1, x2, x3, x4, x5, x6), dimensions={2}\n}"},
    {0, "ENTRY e {\n x = f32[40,31] parameter(0)\n ROOT r = f32[40,31,2] broadcast(x), "
        "dimensions={0,1}\n}"},
    {0, "ENTRY e {\n x = f32[40,31] parameter(0)\n ROOT r = f32[40,31,3] broadcast(x), "
        "dimensions={0,1}\n}"},
    {0, "ENTRY e {\n x = u8[40,31] parameter(0)\n ROOT r = u8[40,31,4] broadcast(x), "
        "dimensions={0,1}\n}"},
    {0, "ENTRY e {\n x = f64[40,31] parameter(0)\n ROOT r = f64[40,31,5] broadcast(x), "
        "dimensions={0,1}\n}"},
    {0, "ENTRY e {\n x = bf16[40,31] parameter(0)\n ROOT r = bf16[40,31,6] broadcast(x), "
        "dimensions={0,1}\n}"},
    {0, "f { i = s32[] parameter(0)\n x = f32[20,8] parameter(1)\n z = s32[] constant(0)\n"
        " d = f32[1,8] dynamic-slice(x, i, z), dynamic_slice_sizes={1,8}\n"
        " r0 = f32[8] reshape(d)\n"
        " c = f32[8] constant({1,2,3,4,5,6,7,8})\n ROOT r = f32[8] multiply(r0, c) }\n"
        "ENTRY e {\n i = s32[] parameter(0)\n x = f32[20,8] parameter(1)\n"
        " ROOT r = f32[8] fusion(i, x), kind=kLoop, calls=f\n}"},
};

static void structure(void **state) {
  (void)state;
  for (size_t k = 0; k < HS_COUNT(modules); k++) {
    char *text = hs_format("HloModule m\n%s\n", modules[k].text);
    add_case(text, modules[k].ulp, false);
    hs_free(text);
  }
  run_cases();
}

static void equal_kernels_share_code(void **state) {
  (void)state;
  unary_case("exponential", "f32", "f32", "[64]", "", 2);
  unary_case("exponential", "f32", "f32", "[8,8]", "", 2);
  unary_case("exponential", "f32", "f32", "[65]", "", 2);
  run_cases();
  assert_ptr_equal(cases.v[0].k->fn, cases.v[1].k->fn);
  assert_ptr_not_equal(cases.v[0].k->fn, cases.v[2].k->fn);
}

static void refuses_by_name(void **state) {
  (void)state;
  const char *text =
      "HloModule m\nENTRY e {\n x = f32[8,8] parameter(0)\n ROOT r = f32[8,8] cholesky(x), "
      "lower=true\n}";
  hlo_module *m = NULL;
  assert_true(hs_ok(hlo_parse(ctx, text, strlen(text), NULL, &m)));
  hs_buf why = {0};
  assert_false(emit_supports(m->entry->root, &why));
  assert_non_null(strstr(hs_buf_cstr(&why), "cholesky"));
  hs_buf_free(&why);
  hlo_module_free(m);
}

static void dumps(void **state) {
  (void)state;
  unary_case("tanh", "f32", "f32", "[64]", "", 4);
  hs_buf b = {0};
  static const struct {
    const char *what, *has;
  } want[] = {{"llvm", "define void @k0_tanh("}, {"asm", "k0_tanh:"}, {"schedule", "pointwise"}};
  for (size_t k = 0; k < HS_COUNT(want); k++) {
    b.n = 0;
    assert_true(hs_ok(emit_dump(unit, want[k].what, &b)));
    assert_non_null(strstr(hs_buf_cstr(&b), want[k].has));
  }
  hs_buf_free(&b);
}

// A row that is not there is read from elsewhere, not under a mask: see cg_emit_load.
static void rows_are_not_masked(void **state) {
  (void)state;
  add_case("HloModule m\nf { x = f32[8,64] parameter(0)\n a = f32[7,64] slice(x),"
           " slice={[1:8], [0:64]}\n b = f32[1,64] slice(x), slice={[0:1], [0:64]}\n"
           " c = f32[8,64] concatenate(a, b), dimensions={0}\n ROOT r = f32[8,64] add(c, x) }\n"
           "ENTRY e { x = f32[8,64] parameter(0)\n"
           " ROOT r = f32[8,64] fusion(x), kind=kLoop, calls=f }\n",
           0, false);
  run_cases();
  hs_buf b = {0};
  assert_true(hs_ok(emit_dump(unit, "llvm", &b)));
  assert_null(strstr(hs_buf_cstr(&b), "masked.load"));
  hs_buf_free(&b);
}

// Elements that alternate between two sources, and those between two of their own: even and odd
// ones are vectors of their own, woven together when they are stored. n: elements of a source.
static void interleaved(void **state) {
  (void)state;
  static const int sizes[] = {4, 8, 20, 64, 76, 1000};
  for (size_t k = 0; k < HS_COUNT(sizes); k++)
    for (int axis = 0; axis < 2; axis++) {
      int n = sizes[k], m = 2 * n;
      const char *in = axis ? "[3,%d]" : "[%d,5]", *low = axis ? "0_0x1_0_1" : "1_0_1x0_0",
                 *high = axis ? "0_0x0_1_1" : "0_1_1x0_0";
      char a[32], b[32], c[32];
      snprintf(a, sizeof a, in, n / 2);
      snprintf(b, sizeof b, in, n);
      snprintf(c, sizeof c, in, m);
      char *text = hs_format(
          "HloModule m\nf { x = f32%s parameter(0)\n y = f32%s parameter(1)\n"
          " w = f32%s parameter(2)\n z = f32[] constant(0)\n p = f32%s pad(x, z), padding=%s\n"
          " q = f32%s pad(y, z), padding=%s\n u = f32%s add(p, q)\n"
          " v = f32%s multiply(u, w)\n r = f32%s pad(v, z), padding=%s\n"
          " s = f32%s pad(w, z), padding=%s\n ROOT t = f32%s add(r, s) }\n"
          "ENTRY e { x = f32%s parameter(0)\n y = f32%s parameter(1)\n w = f32%s parameter(2)\n"
          " ROOT t = f32%s fusion(x, y, w), kind=kLoop, calls=f }\n",
          a, a, b, b, low, b, high, b, b, c, high, c, low, c, a, a, b, c);
      add_case(text, 0, false);
      hs_free(text);
    }
  static const int counts[] = {1, 5, 16, 37, 300};
  for (size_t k = 0; k < HS_COUNT(counts); k++) {  // three columns of their own
    int n = counts[k];
    char *text = hs_format(
        "HloModule m\nf { x = f32[%d,3] parameter(0)\n"
        " a = f32[%d,1] slice(x), slice={[0:%d], [1:2]}\n b = f32[%d,1] slice(x),"
        " slice={[0:%d], [2:3]}\n c = f32[%d,1] add(a, b)\n d = f32[%d,3] concatenate(b, c, a),"
        " dimensions={1}\n ROOT r = f32[%d,3] add(d, x) }\n"
        "ENTRY e { x = f32[%d,3] parameter(0)\n ROOT r = f32[%d,3] fusion(x), kind=kLoop, calls=f "
        "}\n",
        n, n, n, n, n, n, n, n, n, n);
    add_case(text, 0, false);
    hs_free(text);
  }
  run_cases();
  hs_buf b = {0};
  assert_true(hs_ok(emit_dump(unit, "llvm", &b)));
  assert_null(strstr(hs_buf_cstr(&b), "masked.scatter"));
  b.n = 0;
  assert_true(hs_ok(emit_dump(unit, "schedule", &b)));
  assert_non_null(strstr(hs_buf_cstr(&b), " + 3] = v"));
  hs_buf_free(&b);
}

// Pixels of three channels: what is the same for all channels is computed once for a pixel.
static void triples(void **state) {
  (void)state;
  static const int counts[] = {6, 16, 37, 300};
  for (size_t k = 0; k < HS_COUNT(counts); k++) {
    int n = counts[k];
    char *text = hs_format(
        "HloModule m\nf { t = f32[50,3] parameter(0)\n i = s32[%d,1] parameter(1)\n"
        " w = f32[%d] parameter(2)\n g = f32[%d,3] gather(t, i), offset_dims={1},"
        " collapsed_slice_dims={0}, start_index_map={0}, index_vector_dim=1, slice_sizes={1,3}\n"
        " a = f32[%d] multiply(w, w)\n b = f32[%d] add(a, w)\n c = f32[%d] multiply(b, a)\n"
        " d = f32[%d] subtract(c, w)\n h = f32[%d] multiply(d, b)\n j = f32[%d] add(h, c)\n"
        " l = f32[%d] maximum(j, w)\n o = f32[%d] abs(l)\n p = f32[%d,3] broadcast(o),"
        " dimensions={0}\n ROOT r = f32[%d,3] multiply(g, p) }\n"
        "ENTRY e { t = f32[50,3] parameter(0)\n i = s32[%d,1] parameter(1)\n"
        " w = f32[%d] parameter(2)\n ROOT r = f32[%d,3] fusion(t, i, w), kind=kLoop, calls=f }\n",
        n, n, n, n, n, n, n, n, n, n, n, n, n, n, n, n);
    add_case(text, 0, false);
    hs_free(text);
  }
  run_cases();
  hs_buf b = {0};
  assert_true(hs_ok(emit_dump(unit, "schedule", &b)));
  assert_non_null(strstr(hs_buf_cstr(&b), " + 2] = v"));
  hs_buf_free(&b);
}

// Rows of which each comes from elsewhere: what they have in common is read once, without gathers.
static void rows_apart(void **state) {
  (void)state;
  static const int counts[] = {9, 16, 37, 300};
  for (size_t k = 0; k < HS_COUNT(counts); k++) {
    int n = counts[k];
    char *text = hs_format(
        "HloModule m\nf { x = f32[%d,3] parameter(0)\n y = f32[3,%d] parameter(1)\n"
        " a = f32[%d,1] slice(x), slice={[0:%d], [1:2]}\n b = f32[%d,1] slice(x),"
        " slice={[0:%d], [2:3]}\n c = f32[%d,1] subtract(a, b)\n u = f32[1,%d] reshape(b)\n"
        " v = f32[1,%d] reshape(c)\n w = f32[1,%d] reshape(a)\n"
        " d = f32[3,%d] concatenate(u, v, w), dimensions={0}\n ROOT r = f32[3,%d] add(d, y) }\n"
        "ENTRY e { x = f32[%d,3] parameter(0)\n y = f32[3,%d] parameter(1)\n"
        " ROOT r = f32[3,%d] fusion(x, y), kind=kLoop, calls=f }\n",
        n, n, n, n, n, n, n, n, n, n, n, n, n, n, n);
    add_case(text, 0, false);
    hs_free(text);
  }
  run_cases();
  hs_buf b = {0};
  assert_true(hs_ok(emit_dump(unit, "schedule", &b)));
  assert_non_null(strstr(hs_buf_cstr(&b), " + 600] = v"));
  hs_buf_free(&b);
}

// Pixels from right to left, their channels from left to right or from right to left: vectors and
// shuffles, whatever the type. n: pixels of a row; each of them as often as fits, and once more.
static void flipped(void **state) {
  (void)state;
  static const char *const types[] = {"u8", "f32", "f64"};
  for (int k = 0; k < 18; k++) {
    int n = k % 2 ? 192 : 37, channels = 2 + k / 2 % 3;
    const char *t = types[k / 6];
    char *text = hs_format(
        "HloModule m\nf { x = %s[3,200,%d] parameter(0)\n"
        " s = %s[3,%d,%d] slice(x), slice={[0:3], [4:%d], [0:%d]}\n"
        " r = %s[3,%d,%d] reverse(s), dimensions={1%s}\n ROOT c = f32[3,%d,%d] convert(r) }\n"
        "ENTRY e { x = %s[3,200,%d] parameter(0)\n"
        " ROOT r = f32[3,%d,%d] fusion(x), kind=kLoop, calls=f }\n",
        t, channels, t, n, channels, n + 4, channels, t, n, channels, k % 4 < 2 ? "" : ",2", n,
        channels, t, channels, n, channels);
    add_case(text, 0, false);
    hs_free(text);
  }
  run_cases();
}

// Whether the code of the unit has such an instruction.
static bool has_code(const char *what) {
  hs_buf b = {0};
  assert_true(hs_ok(emit_dump(unit, "llvm", &b)));
  bool has = strstr(hs_buf_cstr(&b), what) != NULL;
  hs_buf_free(&b);
  return has;
}

static void flipped_without_gathers(void **state) {
  (void)state;
  add_case("HloModule m\nf { x = u8[8,224,3] parameter(0)\n"
           " r = u8[8,224,3] reverse(x), dimensions={1}\n ROOT c = f32[8,224,3] convert(r) }\n"
           "ENTRY e { x = u8[8,224,3] parameter(0)\n"
           " ROOT r = f32[8,224,3] fusion(x), kind=kLoop, calls=f }\n",
           0, false);
  run_cases();
  assert_false(has_code("masked.gather"));
}

// What is reduced in any order is read along memory, whichever way its dimensions are numbered: all
// of a transposed matrix, and two dimensions of three.
static void reduced_along_memory(void **state) {
  (void)state;
  static const char *const reduces[] = {
      "f { x = f32[192,100]{0,1} parameter(0)\n s = f32[192,100]{0,1} multiply(x, x)\n"
      " z = f32[] constant(0)\n ROOT r = f32[] reduce(s, z), dimensions={0,1}, to_apply=add }\n"
      "ENTRY e { x = f32[192,100]{0,1} parameter(0)\n"
      " ROOT r = f32[] fusion(x), kind=kLoop, calls=f }\n",
      "f { x = f32[24,100,4]{1,2,0} parameter(0)\n z = f32[] constant(0)\n"
      " ROOT r = f32[24] reduce(x, z), dimensions={1,2}, to_apply=add }\n"
      "ENTRY e { x = f32[24,100,4]{1,2,0} parameter(0)\n"
      " ROOT r = f32[24] fusion(x), kind=kLoop, calls=f }\n"};
  for (size_t k = 0; k < HS_COUNT(reduces); k++) {
    hs_buf b = {0};
    hs_buf_printf(&b, "HloModule m\n" SUM "%s", reduces[k]);
    add_case(hs_buf_cstr(&b), 64, false);
    hs_buf_free(&b);
    run_cases();
    assert_true(has_code("load <"));
    assert_false(has_code("masked.gather"));
  }
}

// Rows that are gathered into columns beside each other are vectors, though their indices are read
// under the guard of the columns.
static void gathered_side_by_side(void **state) {
  (void)state;
  add_case("HloModule m\nf { x = f32[50,64] parameter(0)\n i = s32[90,1] parameter(1)\n"
           " j = s32[90,1] parameter(2)\n a = f32[90,64] gather(x, i), offset_dims={1},"
           " collapsed_slice_dims={0}, start_index_map={0}, index_vector_dim=1,"
           " slice_sizes={1,64}\n b = f32[90,64] gather(x, j), offset_dims={1},"
           " collapsed_slice_dims={0}, start_index_map={0}, index_vector_dim=1,"
           " slice_sizes={1,64}\n ROOT c = f32[90,128] concatenate(a, b), dimensions={1} }\n"
           "ENTRY e { x = f32[50,64] parameter(0)\n i = s32[90,1] parameter(1)\n"
           " j = s32[90,1] parameter(2)\n"
           " ROOT c = f32[90,128] fusion(x, i, j), kind=kLoop, calls=f }\n",
           0, false);
  run_cases();
  assert_false(has_code("masked.gather"));
}

// A few numbers that are each computed in their own way, from all of those of the round before:
// straight code, however often each would otherwise be asked for under a guard.
static void few_numbers(void **state) {
  (void)state;
  for (int n = 3; n <= 6; n += 3) {
    hs_buf b = {0};
    hs_buf_printf(&b, "HloModule m\nf { x0 = f32[%d] parameter(0)\n", n);
    for (int round = 0; round < (n == 3 ? 4 : 3); round++) {
      for (int k = 0; k < n; k++)
        hs_buf_printf(&b,
                      " a%d_%d = f32[1] slice(x%d), slice={[%d:%d]}\n"
                      " b%d_%d = f32[1] slice(x%d), slice={[%d:%d]}\n"
                      " c%d_%d = f32[1] %s(a%d_%d, b%d_%d)\n",
                      round, k, round, k, k + 1, round, k, round, (k + 1) % n, (k + 1) % n + 1,
                      round, k, k % 2 ? "subtract" : "add", round, k, round, k);
      hs_buf_printf(&b, " d%d = f32[%d] concatenate(", round, n);
      for (int k = 0; k < n; k++) hs_buf_printf(&b, "%sc%d_%d", k ? ", " : "", round, k);
      hs_buf_printf(&b, "), dimensions={0}\n %s x%d = f32[%d] add(d%d, x%d)\n",
                    round == (n == 3 ? 3 : 2) ? "ROOT" : "", round + 1, n, round, round);
    }
    hs_buf_printf(&b, "}\nENTRY e { x = f32[%d] parameter(0)\n", n);
    hs_buf_printf(&b, " ROOT r = f32[%d] fusion(x), kind=kLoop, calls=f }\n", n);
    add_case(hs_buf_cstr(&b), 0, false);
    hs_buf_free(&b);
  }
  run_cases();
  hs_buf b = {0};
  assert_true(hs_ok(emit_dump(unit, "llvm", &b)));
  assert_null(strstr(hs_buf_cstr(&b), " br "));
  assert_null(strstr(hs_buf_cstr(&b), "select"));
  hs_buf_free(&b);
}

// Parts of a concatenation that are slices at an index which is not known: the index is one number,
// whichever part a lane belongs to, and so the slices are whole vectors.
static void slices_side_by_side(void **state) {
  (void)state;
  add_case("HloModule m\nf { x = f32[9,5,32] parameter(0)\n i = s32[] parameter(1)\n"
           " y = f32[5,32] parameter(2)\n k = s32[] constant(7)\n j = s32[] subtract(k, i)\n"
           " z = s32[] constant(0)\n s = f32[1,5,32] dynamic-slice(x, j, z, z),"
           " dynamic_slice_sizes={1,5,32}\n r = f32[5,32] reshape(s)\n a = f32[5,32] add(r, y)\n"
           " b = f32[5,32] multiply(r, y)\n"
           " ROOT c = f32[5,96] concatenate(a, r, b), dimensions={1} }\n"
           "ENTRY e { x = f32[9,5,32] parameter(0)\n i = s32[] parameter(1)\n"
           " y = f32[5,32] parameter(2)\n"
           " ROOT c = f32[5,96] fusion(x, i, y), kind=kLoop, calls=f }\n",
           0, false);
  run_cases();
  hs_buf b = {0};
  assert_true(hs_ok(emit_dump(unit, "llvm", &b)));
  assert_null(strstr(hs_buf_cstr(&b), "masked.gather"));
  hs_buf_free(&b);
}

// A sum over pairs whose terms lie along the results: these are the lanes, though each has several
// coordinates, which are read before the sum.
static void pairs_by_columns(void **state) {
  (void)state;
  add_case("HloModule m\n" SUM "f { a = f32[50,40] parameter(0)\n x = f32[40,3] parameter(1)\n"
           " y = f32[50,3] parameter(2)\n w = f32[50] parameter(3)\n"
           " xb = f32[50,40,3] broadcast(x), dimensions={1,2}\n"
           " yb = f32[50,40,3] broadcast(y), dimensions={0,2}\n"
           " d = f32[50,40,3] subtract(xb, yb)\n ab = f32[50,40,3] broadcast(a), dimensions={0,1}\n"
           " wb = f32[50,40,3] broadcast(w), dimensions={0}\n t = f32[50,40,3] multiply(ab, wb)\n"
           " p = f32[50,40,3] multiply(d, t)\n z = f32[] constant(0)\n"
           " ROOT r = f32[40,3] reduce(p, z), dimensions={0}, to_apply=add }\n"
           "ENTRY e { a = f32[50,40] parameter(0)\n x = f32[40,3] parameter(1)\n"
           " y = f32[50,3] parameter(2)\n w = f32[50] parameter(3)\n"
           " ROOT r = f32[40,3] fusion(a, x, y, w), kind=kInput, calls=f }\n",
           1000, false);
  assert_int_equal(cases.v[cases.n - 1].k->kind, EMIT_COLUMN_REDUCE);
  run_cases();
}

int main(void) {
  const struct CMUnitTest tests[] = {
      TEST(pairs_by_columns),
      TEST(slices_side_by_side),
      TEST(few_numbers),
      TEST(interleaved),
      TEST(flipped),
      TEST(flipped_without_gathers),
      TEST(gathered_side_by_side),
      TEST(reduced_along_memory),
      TEST(rows_are_not_masked),
      TEST(triples),
      TEST(rows_apart),
      TEST(structure),
      TEST(equal_kernels_share_code),
      TEST(refuses_by_name),
      TEST(dumps),
  };
  return cmocka_run_group_tests_name("emit_structure", tests, NULL, NULL);
}

#else
#include "tests/unit/skip.h"

int main(void) { return skip_all("no LLVM in this build"); }
#endif
