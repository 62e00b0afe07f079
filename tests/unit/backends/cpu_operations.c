// cpu_operations.c — runtime kernels of the cpu backend against the evaluator, by operation:
// dots, convolutions, sorts, moves, linear algebra, random bits.
#include "tests/unit/backends/cpu.h"

static void dots(void **st) {
  (void)st;
  agrees(
      MODULE("ENTRY e { a = f32[5,7] parameter(0)\n b = f32[7,3] parameter(1)\n"
             " ROOT d = f32[5,3] dot(a, b), lhs_contracting_dims={1}, rhs_contracting_dims={0} }"));
  agrees(MODULE(
      "ENTRY e { a = f32[40,70] parameter(0)\n b = f32[50,70] parameter(1)\n"
      " ROOT d = f32[40,50] dot(a, b), lhs_contracting_dims={1}, rhs_contracting_dims={1} }"));
  agrees(MODULE("ENTRY e { a = f32[3,4,20,30] parameter(0)\n b = f32[3,30,4,25] parameter(1)\n"
                "ROOT d = f32[3,4,20,25] dot(a, b), lhs_batch_dims={0,1}, rhs_batch_dims={0,2}, "
                "lhs_contracting_dims={3}, rhs_contracting_dims={1} }"));
  agrees(MODULE(
      "ENTRY e { a = f32[6,5,4] parameter(0)\n b = f32[4,6,9] parameter(1)\n"
      " ROOT d = f32[5,9] dot(a, b), lhs_contracting_dims={0,2}, rhs_contracting_dims={1,0} }"));
  agrees(
      MODULE("ENTRY e { a = f32[300] parameter(0)\n b = f32[300,40] parameter(1)\n"
             " ROOT d = f32[40] dot(a, b), lhs_contracting_dims={0}, rhs_contracting_dims={0} }"));
  agrees(
      MODULE("ENTRY e { a = f64[9,8] parameter(0)\n b = f64[8,7] parameter(1)\n"
             " ROOT d = f64[9,7] dot(a, b), lhs_contracting_dims={1}, rhs_contracting_dims={0} }"));
  agrees(
      MODULE("ENTRY e { a = s8[9,8] parameter(0)\n b = s8[8,7] parameter(1)\n"
             " ROOT d = s32[9,7] dot(a, b), lhs_contracting_dims={1}, rhs_contracting_dims={0} }"));
  agrees(
      MODULE("ENTRY e { a = c64[4,6] parameter(0)\n b = c64[6,5] parameter(1)\n"
             " ROOT d = c64[4,5] dot(a, b), lhs_contracting_dims={1}, rhs_contracting_dims={0} }"));
  agrees(MODULE(
      "ENTRY e { a = f32[33,65]{0,1} parameter(0)\n b = f32[65,47]{0,1} parameter(1)\n"
      " ROOT d = f32[33,47]{0,1} dot(a, b), lhs_contracting_dims={1}, rhs_contracting_dims={0} }"));
  // A result stored by columns: the transposed product, as the gradient of a weight asks for it.
  agrees(MODULE(
      "ENTRY e { a = f32[65,33] parameter(0)\n b = f32[65,47] parameter(1)\n"
      " ROOT d = f32[33,47]{0,1} dot(a, b), lhs_contracting_dims={0}, rhs_contracting_dims={0} }"));
  agrees(MODULE("ENTRY e { a = f32[4,40,33] parameter(0)\n b = f32[4,40,47] parameter(1)\n"
                " ROOT d = f32[4,33,47]{1,2,0} dot(a, b), lhs_batch_dims={0}, rhs_batch_dims={0}, "
                "lhs_contracting_dims={1}, rhs_contracting_dims={1} }"));
  agrees(
      MODULE("ENTRY e { a = f32[0,7] parameter(0)\n b = f32[7,3] parameter(1)\n"
             " ROOT d = f32[0,3] dot(a, b), lhs_contracting_dims={1}, rhs_contracting_dims={0} }"));
  agrees(
      MODULE("ENTRY e { a = f32[5,0] parameter(0)\n b = f32[0,3] parameter(1)\n"
             " ROOT d = f32[5,3] dot(a, b), lhs_contracting_dims={1}, rhs_contracting_dims={0} }"));
}

// The bytes of another shape and width, in either order of the dimensions.
static void bitcasts(void **st) {
  (void)st;
  agrees(MODULE("ENTRY e { x = u32[6,4] parameter(0)\n ROOT r = u64[2,6]{0,1} bitcast(x) }"));
  agrees(MODULE("ENTRY e { x = u32[6,4]{0,1} parameter(0)\n ROOT r = u8[2,48] bitcast(x) }"));
  agrees(MODULE("ENTRY e { x = f64[5,3]{0,1} parameter(0)\n c = s32[3,10] bitcast(x)\n"
                " ROOT r = s64[5,3] bitcast(c) }"));
  agrees(MODULE("ENTRY e { x = s64[5,3] parameter(0)\n ROOT r = s32[2,15]{0,1} bitcast(x) }"));
}

static void narrow_dots(void **st) {
  (void)st;
  agrees(MODULE("ENTRY e { a = bf16[1,64] parameter(0)\n b = bf16[64,40] parameter(1)\n"
                " d = f32[1,40] dot(a, b), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n"
                " ROOT r = f32[1,40] negate(d) }"));
  agrees(MODULE(
      "ENTRY e { a = bf16[3,64] parameter(0)\n b = bf16[40,64] parameter(1)\n"
      " ROOT d = f32[3,40] dot(a, b), lhs_contracting_dims={1}, rhs_contracting_dims={1} }"));
  agrees(MODULE(
      "ENTRY e { a = f16[40,64] parameter(0)\n b = f16[64,48] parameter(1)\n"
      " ROOT d = f32[40,48] dot(a, b), lhs_contracting_dims={1}, rhs_contracting_dims={0} }"));
}

static void convolutions(void **st) {
  (void)st;
  agrees(MODULE("ENTRY e { x = f32[2,9,9,8] parameter(0)\n w = f32[3,3,8,16] parameter(1)\n"
                " ROOT c = f32[2,9,9,16] convolution(x, w), window={size=3x3 pad=1_1x1_1}, "
                "dim_labels=b01f_01io->b01f }"));
  agrees(
      MODULE("ENTRY e { x = f32[2,3,10,11] parameter(0)\n w = f32[5,3,3,2] parameter(1)\n"
             " ROOT c = f32[2,5,4,5] convolution(x, w), window={size=3x2 stride=2x2 pad=0_0x0_0}, "
             "dim_labels=bf01_oi01->bf01 }"));
  agrees(MODULE("ENTRY e { x = f32[2,8,8,8] parameter(0)\n w = f32[3,3,2,12] parameter(1)\n"
                " ROOT c = f32[2,8,8,12] convolution(x, w), window={size=3x3 pad=1_1x1_1}, "
                "dim_labels=b01f_01io->b01f, feature_group_count=4 }"));
  agrees(MODULE(
      "ENTRY e { x = f32[2,7,7,3] parameter(0)\n w = f32[3,3,3,4] parameter(1)\n"
      " ROOT c = f32[2,7,7,4] convolution(x, w), window={size=3x3 pad=2_2x2_2 rhs_dilate=2x2}, "
      "dim_labels=b01f_01io->b01f }"));
  agrees(MODULE(
      "ENTRY e { x = f32[2,6,6,4] parameter(0)\n w = f32[4,4,4,3] parameter(1)\n"
      " ROOT c = f32[2,12,12,3] convolution(x, w), window={size=4x4 pad=2_2x2_2 lhs_dilate=2x2}, "
      "dim_labels=b01f_01io->b01f }"));
  agrees(MODULE(
      "ENTRY e { x = f32[2,6,6,4] parameter(0)\n w = f32[3,3,4,3] parameter(1)\n"
      " ROOT c = f32[2,6,6,3] convolution(x, w), window={size=3x3 pad=1_1x1_1 rhs_reversal=1x1}, "
      "dim_labels=b01f_01io->b01f }"));
  agrees(MODULE("ENTRY e { x = f32[3,8,8,5] parameter(0)\n g = f32[3,8,8,6] parameter(1)\n"
                " ROOT c = f32[3,3,5,6] convolution(x, g), window={size=8x8 pad=1_1x1_1}, "
                "dim_labels=f01b_i01o->01bf }"));
  agrees(MODULE(
      "ENTRY e { x = f32[3,9,9,5] parameter(0)\n g = f32[3,4,4,6] parameter(1)\n"
      " ROOT c = f32[3,3,5,6] convolution(x, g), window={size=4x4 pad=0_0x0_0 rhs_dilate=2x2}, "
      "dim_labels=f01b_i01o->01bf }"));
  agrees(MODULE("ENTRY e { x = f32[3,8,8,4] parameter(0)\n g = f32[3,8,8,4] parameter(1)\n"
                " ROOT c = f32[3,3,1,4] convolution(x, g), window={size=8x8 pad=1_1x1_1}, "
                "dim_labels=f01b_i01o->01bf, batch_group_count=4 }"));
  agrees(MODULE("ENTRY e { x = f32[4,10] parameter(0)\n w = f32[10,6] parameter(1)\n"
                " ROOT c = f32[4,6] convolution(x, w), dim_labels=bf_io->bf }"));
  agrees(MODULE(
      "ENTRY e { x = f32[2,12,4] parameter(0)\n w = f32[3,4,6] parameter(1)\n"
      " ROOT c = f32[2,12,6] convolution(x, w), window={size=3 pad=2_0}, dim_labels=b0f_0io->b0f "
      "}"));
  agrees(MODULE(
      "ENTRY e { x = s32[2,7,7,3] parameter(0)\n w = s32[3,3,3,4] parameter(1)\n"
      " ROOT c = s32[2,5,5,4] convolution(x, w), window={size=3x3}, dim_labels=b01f_01io->b01f }"));
  agrees(MODULE(
      "ENTRY e { x = f64[2,7,7,3] parameter(0)\n w = f64[3,3,3,4] parameter(1)\n"
      " ROOT c = f64[2,5,5,4] convolution(x, w), window={size=3x3}, dim_labels=b01f_01io->b01f }"));
  agrees(MODULE("ENTRY e { x = f32[2,7,7,3] parameter(0)\n w = f32[3,3,3,4] parameter(1)\n"
                " ROOT c = f32[2,3,3,4] convolution(x, w), window={size=3x3 pad=-1_-1x-1_-1}, "
                "dim_labels=b01f_01io->b01f }"));
}

// Products of patches: both orders of memory, every kind of window, groups, runs of columns and a
// last chunk that are not full, types that are widened, filter gradients.
static void patches(void **st) {
  (void)st;
  static const struct {
    const char *x, *w, *c, *rest;
  } cases[] = {
      {"f64[2,32,32,16]", "f64[3,3,16,32]", "f64[2,32,32,32]",
       "window={size=3x3 pad=1_1x1_1}, dim_labels=b01f_01io->b01f"},
      {"f64[2,5,13,11]", "f64[9,5,3,2]", "f64[2,9,6,7]",
       "window={size=3x2 stride=2x2 pad=0_1x2_1}, dim_labels=bf01_oi01->bf01"},
      {"f64[2,5,13,11]{0,1,2,3}", "f64[9,5,3,2]{2,3,1,0}", "f64[2,9,6,7]{1,3,0,2}",
       "window={size=3x2 stride=2x2 pad=0_1x2_1 rhs_reversal=1x0}, dim_labels=bf01_oi01->bf01"},
      {"f64[2,7,7,100]", "f64[3,3,100,20]", "f64[2,7,7,20]",
       "window={size=3x3 pad=2_2x2_2 rhs_dilate=2x2}, dim_labels=b01f_01io->b01f"},
      {"f64[2,6,6,4]", "f64[4,4,4,6]", "f64[2,6,6,6]",
       "window={size=4x4 stride=2x2 pad=2_2x2_2 lhs_dilate=2x2}, dim_labels=b01f_01io->b01f"},
      {"f64[2,8,8,8]", "f64[3,3,2,20]", "f64[2,8,8,20]",
       "window={size=3x3 pad=1_1x1_1}, dim_labels=b01f_01io->b01f, feature_group_count=4"},
      {"f64[3,20,20,5]", "f64[3,20,20,6]", "f64[3,3,5,6]",
       "window={size=20x20 pad=1_1x1_1}, dim_labels=f01b_i01o->01bf"},
      {"c64[2,9,9,3]", "c64[3,3,3,5]", "c64[2,7,7,5]",
       "window={size=3x3}, dim_labels=b01f_01io->b01f"},
      {"c128[2,3,9]", "c128[5,3,3]", "c128[2,5,8]",
       "window={size=3 pad=0_1}, dim_labels=bf0_oi0->bf0"},
      {"f64[1,1,40,40]", "f64[8,1,5,5]", "f64[1,8,36,36]",
       "window={size=5x5}, dim_labels=bf01_oi01->bf01"},
      {"f64[50,30]", "f64[30,6]", "f64[50,6]", "dim_labels=bf_io->bf"},
      {"f64[2,6,7,8,4]", "f64[2,3,3,4,6]", "f64[2,5,5,6,6]",
       "window={size=2x3x3}, dim_labels=b012f_012io->b012f"},
  };
  for (size_t k = 0; k < HS_COUNT(cases); k++) {
    char text[1024];
    snprintf(text, sizeof text,
             "HloModule t\nENTRY e { x = %s parameter(0)\n w = %s parameter(1)\n"
             " ROOT c = %s convolution(x, w), %s }",
             cases[k].x, cases[k].w, cases[k].c, cases[k].rest);
    agrees(text);
    runs_as(text, "convolution (patches)");
  }
}

// Windows side by side are an image cut into patches, as a vision transformer's: not the gradient
// of a filter, whose window is as large beside its result.
static void cut_images(void **st) {
  (void)st;
  static const char *const cases[] = {
      MODULE("ENTRY e { x = f32[2,32,48,3] parameter(0)\n w = f32[16,16,3,24] parameter(1)\n"
             " ROOT c = f32[2,2,3,24] convolution(x, w), window={size=16x16 stride=16x16}, "
             "dim_labels=b01f_01io->b01f }"),
      MODULE("ENTRY e { x = f32[2,3,32,48] parameter(0)\n w = f32[24,3,16,16] parameter(1)\n"
             " ROOT c = f32[2,24,2,3] convolution(x, w), window={size=16x16 stride=16x16}, "
             "dim_labels=bf01_oi01->bf01 }"),
  };
  for (size_t k = 0; k < HS_COUNT(cases); k++) agrees(cases[k]);
#if HAVE_DNNL
  for (size_t k = 0; k < HS_COUNT(cases); k++) runs_as(cases[k], "convolution (oneDNN forward)");
  runs_as(MODULE("ENTRY e { x = f32[8,16,16,3] parameter(0)\n g = f32[8,14,14,6] parameter(1)\n"
                 " ROOT c = f32[3,3,3,6] convolution(x, g), window={size=14x14}, "
                 "dim_labels=f01b_i01o->01bf }"),
          "convolution (oneDNN backward weights)");
#endif
}

// From one feature to one: the kernels of the emitter, along the places of the result.
static void thin_convolutions(void **st) {
  (void)st;
  static const struct {
    const char *x, *w, *result, *how;
  } of[] = {
      {"f32[2,8,20,30]", "f32[1,8,3,3]", "f32[2,1,20,30]",
       "window={size=3x3 pad=1_1x1_1}, dim_labels=bf01_oi01->bf01"},
      {"f32[1,1,1000]", "f32[1,1,33]", "f32[1,1,1000]",
       "window={size=33 pad=16_16}, dim_labels=bf0_oi0->bf0"},
      {"f32[2,40,50,1]", "f32[5,3,1,1]", "f32[2,20,50,1]",
       "window={size=5x3 stride=2x1 pad=1_2x1_1}, dim_labels=b01f_01io->b01f"},
      {"f64[1,1,30,31]", "f64[1,1,9,9]", "f64[1,1,30,31]",
       "window={size=9x9 pad=4_4x4_4 rhs_reversal=1x1}, dim_labels=bf01_oi01->bf01"},
      {"f32[1,1,20]", "f32[1,1,4]", "f32[1,1,41]",
       "window={size=4 pad=2_3 lhs_dilate=2}, dim_labels=bf0_oi0->bf0"},
      {"c64[3,50,1]", "c64[7,1,1]", "c64[3,32,1]",
       "window={size=7 rhs_dilate=3}, dim_labels=b0f_0io->b0f"},
      {"s32[1,1,100]", "s32[1,1,60]", "s32[1,1,41]", "window={size=60}, dim_labels=bf0_oi0->bf0"},
      {"f32[1,1,5000]", "f32[1,1,4990]", "f32[1,1,11]",
       "window={size=4990}, dim_labels=bf0_oi0->bf0"},
      {"bf16[4,100,1]", "bf16[5,1,1]", "bf16[4,98,1]",
       "window={size=5 pad=1_1}, dim_labels=b0f_0io->b0f"},
      {"f32[3,50,20]", "f32[7,20,1]", "f32[3,44,1]", "window={size=7}, dim_labels=b0f_0io->b0f"},
      {"f32[3,40,9]", "f32[1,40,1]", "f32[3,1,9]", "window={size=1}, dim_labels=bf0_oi0->bf0"},
  };
  for (size_t k = 0; k < HS_COUNT(of); k++) {
    char *text = hs_format(MODULE("ENTRY e { x = %s parameter(0)\n w = %s parameter(1)\n"
                                  " ROOT c = %s convolution(x, w), %s }"),
                           of[k].x, of[k].w, of[k].result, of[k].how);
    agrees(text);
    if (k < 4) runs_as(text, "column-reduce");
    hs_free(text);
  }
}

// Sums over pairs of points by the first one, of a few coordinates: lanes go along the second.
static void sums_over_pairs(void **st) {
  (void)st;
  static const int coordinates[] = {2, 3, 4, 7};
  for (size_t k = 0; k < HS_COUNT(coordinates); k++) {
    int c = coordinates[k];
    char *text = hs_format("HloModule t\nsum { p = f32[] parameter(0) q = f32[] parameter(1)\n"
                           " ROOT r = f32[] add(p, q) }\n"
                           "pairs { x = f32[50,%d] parameter(0)\n w = f32[50,50] parameter(1)\n"
                           " a = f32[50,50,%d] broadcast(x), dimensions={0,2}\n"
                           " b = f32[50,50,%d] broadcast(x), dimensions={1,2}\n"
                           " d = f32[50,50,%d] subtract(a, b)\n"
                           " u = f32[50,50,%d] broadcast(w), dimensions={0,1}\n"
                           " m = f32[50,50,%d] multiply(d, u)\n z = f32[] constant(0)\n"
                           " ROOT s = f32[50,%d] reduce(m, z), dimensions={0}, to_apply=sum }\n"
                           "ENTRY e { x = f32[50,%d] parameter(0)\n w = f32[50,50] parameter(1)\n"
                           " ROOT f = f32[50,%d] fusion(x, w), kind=kInput, calls=pairs }",
                           c, c, c, c, c, c, c, c, c);
    runs_as(text, "column-reduce");
    agrees(text);
    hs_free(text);
  }
}

// Large enough to be cut into pieces: along the batch, along the features of the result, each with
// a rest that is smaller; the three directions, mirrored filters, images in other orders.
static void cut_convolutions(void **st) {
  (void)st;
  static const struct {
    const char *x, *w, *out, *rest;
  } cases[] = {
      {"f32[9,12,12,16]", "f32[3,3,16,32]", "f32[9,12,12,32]",
       "window={size=3x3 pad=1_1x1_1}, dim_labels=b01f_01io->b01f"},
      {"f32[2,6,6,96]", "f32[3,3,96,112]", "f32[2,6,6,112]",
       "window={size=3x3 pad=1_1x1_1 rhs_reversal=1x1}, dim_labels=b01f_01io->b01f"},
      {"f32[9,16,20,20]", "f32[24,16,3,3]", "f32[9,24,20,20]",
       "window={size=3x3 pad=1_1x1_1}, dim_labels=bf01_oi01->bf01"},
      {"f32[9,8,8,32]", "f32[3,3,16,32]", "f32[9,16,16,16]",
       "window={size=3x3 pad=1_2x1_2 lhs_dilate=2x2 rhs_reversal=1x1}, dim_labels=b01f_01oi->b01f"},
      {"f32[2,8,8,64]", "f32[3,3,64,96]", "f32[2,16,16,96]",
       "window={size=3x3 pad=1_2x1_2 lhs_dilate=2x2}, dim_labels=b01f_01io->b01f"},
      {"f32[5,16,16,24]", "f32[5,16,16,72]", "f32[3,3,24,72]",
       "window={size=16x16 pad=1_1x1_1}, dim_labels=f01b_i01o->01bf"},
      {"f32[10,9,9,64]", "f32[3,3,1,64]", "f32[10,9,9,64]",
       "window={size=3x3 pad=1_1x1_1}, dim_labels=b01f_01io->b01f, feature_group_count=64"},
      {"f32[5,5,13,11]", "f32[7,5,3,3]", "f32[5,7,7,6]",
       "window={size=3x3 stride=2x2 pad=1_1x1_1}, dim_labels=bf01_oi01->bf01"},
      {"f32[3,18,9,8]", "f32[18,20,3,3]", "f32[3,20,18,16]",
       "window={size=3x3 pad=1_2x1_2 lhs_dilate=2x2 rhs_reversal=1x1}, dim_labels=bf01_io01->bf01"},
      {"f32[6,20,14,14]", "f32[6,35,14,14]", "f32[35,20,3,3]",
       "window={size=14x14 pad=1_1x1_1}, dim_labels=fb01_io01->fb01"},
      {"f32[16,200,24]", "f32[5,24,40]", "f32[16,196,40]",
       "window={size=5}, dim_labels=b0f_0io->b0f"},
  };
  for (size_t k = 0; k < HS_COUNT(cases); k++) {
    hs_buf text = {0};
    hs_buf_printf(&text,
                  "HloModule t\nENTRY e { x = %s parameter(0)\n w = %s parameter(1)\n"
                  " ROOT c = %s convolution(x, w), %s }",
                  cases[k].x, cases[k].w, cases[k].out, cases[k].rest);
    agrees(hs_buf_cstr(&text));
    hs_buf_free(&text);
  }
}

// What oneDNN's orders take: one copy of what all pieces read, also where the last ones are
// smaller, and none of a mirrored filter. Images whose features are apart are copied where patches
// would be larger.
static void copies_of_convolutions(void **st) {
  (void)st;
  static const struct {
    const char *x, *w, *out, *rest;
    i64 least, most;  // bytes of temporaries
  } cases[] = {
      {"f32[20,8,8,32]", "f32[3,3,32,16]", "f32[20,16,16,16]",
       "window={size=3x3 pad=1_2x1_2 lhs_dilate=2x2}, dim_labels=b01f_01io->b01f", 0, 18432},
      {"f32[20,12,12,32]", "f32[3,3,32,32]", "f32[20,12,12,32]",
       "window={size=3x3 pad=1_1x1_1 rhs_reversal=1x0}, dim_labels=b01f_01io->b01f", 0, 36864},
      {"f32[8,16,16,64]", "f32[8,16,16,64]", "f32[3,3,64,64]",
       "window={size=16x16 pad=1_1x1_1}, dim_labels=f01b_i01o->01bf", 0, 2 * 524288 + 147456},
      {"f32[8,16,16,32]", "f32[8,16,16,80]", "f32[3,3,32,80]",
       "window={size=16x16 pad=1_1x1_1}, dim_labels=f01b_i01o->01bf", 0, 262144 + 655360 + 92160},
      {"f32[1,8,256,256]", "f32[8,8,3,3]", "f32[1,8,256,256]",
       "window={size=3x3 pad=1_1x1_1}, dim_labels=bf01_oi01->bf01", 4 << 20, 9 << 20},
      {"f32[1,8,256,256]", "f32[8,8,1,1]", "f32[1,8,256,256]",
       "window={size=1x1}, dim_labels=bf01_oi01->bf01", 0, 64 << 10},
  };
  for (size_t k = 0; k < HS_COUNT(cases); k++) {
    char *text = hs_format("HloModule t\nENTRY e { x = %s parameter(0)\n w = %s parameter(1)\n"
                           " ROOT c = %s convolution(x, w), %s }",
                           cases[k].x, cases[k].w, cases[k].out, cases[k].rest);
    hlo_module *m = parse(text);
    backend_options o = {.context = backends};
    backend_exe *e = NULL;
    agrees(text);
    explain(cpu->compile(m, &o, &e));
    const backend_compiled *c = cpu->compiled(e);
    bool library = c->nkernels == 1 && strstr(c->kernels[0].kind, "oneDNN");
    i64 bytes = c->temp_bytes;
    cpu->release(e);
    hlo_module_free(m);
    hs_free(text);
    if (!library) SKIP_TEST("built without oneDNN");
    assert_in_range(bytes, cases[k].least, cases[k].most);
  }
}

static void sorts(void **st) {
  (void)st;
  agrees(MODULE(LT
                "ENTRY e { x = f32[700] parameter(0)\n ROOT s = f32[700] sort(x), dimensions={0}, "
                "is_stable=true, to_apply=lt }"));
  agrees(MODULE(
      LT "ENTRY e { x = f32[20,9] parameter(0)\n ROOT s = f32[20,9] sort(x), dimensions={0}, "
         "to_apply=lt }"));
  agrees(MODULE(
      "gt { a = s32[] parameter(0)\n b = s32[] parameter(1)\n p = f32[] parameter(2)\n"
      " q = f32[] parameter(3)\n ROOT c = pred[] compare(a, b), direction=GT }\n"
      "ENTRY e { x = f32[900] parameter(0)\n k = f32[] constant(10)\n"
      " kb = f32[900] broadcast(k), dimensions={}\n y = f32[900] multiply(x, kb)\n"
      " i = s32[900] convert(y)\n"
      "ROOT s = (s32[900], f32[900]) sort(i, x), dimensions={0}, is_stable=true, to_apply=gt }"));
  agrees(MODULE("c { a = s32[] parameter(0)\n b = s32[] parameter(1)\n p = f32[] parameter(2)\n"
                " q = f32[] parameter(3)\n l = pred[] compare(a, b), direction=LT\n"
                "e = pred[] compare(a, b), direction=EQ\n m = pred[] compare(p, q), direction=LT\n"
                " n = pred[] and(e, m)\n ROOT r = pred[] or(l, n) }\n"
                "ENTRY e { k = s32[40] parameter(0)\n v = f32[40] parameter(1)\n"
                " ROOT s = (s32[40], f32[40]) sort(k, v), dimensions={0}, to_apply=c }"));
  agrees(
      MODULE("ENTRY e { x = f32[5,60] parameter(0)\n ROOT t = (f32[5,7], s32[5,7]) topk(x), k=7, "
             "largest=true }"));
}

// Argmax, and a computation that looks like one but depends on the order.
static void choices(void **st) {
  (void)st;
  static const char *const picks[] = {"or(gt, tie)", "and(gt, tie)"};
  for (size_t k = 0; k < HS_COUNT(picks); k++) {
    char *text = hs_format(
        "HloModule m\nchoose { a = s32[] parameter(0)\n i = s32[] parameter(1)\n"
        " b = s32[] parameter(2)\n j = s32[] parameter(3)\n"
        " gt = pred[] compare(a, b), direction=GT\n eq = pred[] compare(a, b), direction=EQ\n"
        " lt = pred[] compare(i, j), direction=LT\n tie = pred[] and(eq, lt)\n"
        " first = pred[] %s\n v = s32[] select(first, a, b)\n n = s32[] select(first, i, j)\n"
        " ROOT r = (s32[], s32[]) tuple(v, n) }\n"
        "ENTRY e { x = s32[90] parameter(0)\n at = s32[90] iota(), iota_dimension=0\n"
        " high = s32[] constant(1000000000)\n low = s32[] constant(-2147483648)\n"
        " ROOT y = (s32[], s32[]) reduce(x, at, high, low), dimensions={0}, to_apply=choose }\n",
        picks[k]);
    agrees(text);
    hs_free(text);
  }
}

static void moves(void **st) {
  (void)st;
  // what only keeps its operand from being left out
  agrees(MODULE("ENTRY e { x = f32[5] parameter(0)\n y = f32[5] add(x, x)\n s = () custom-call(y), "
                "custom_call_target=\"dce_sink\", custom_call_has_side_effect=true\n"
                " ROOT r = f32[5] multiply(x, x) }"));
  agrees(
      MODULE("ENTRY e { x = f32[6,8] parameter(0)\n i = s32[] constant(3)\n j = s32[] constant(9)\n"
             " ROOT d = f32[2,3] dynamic-slice(x, i, j), dynamic_slice_sizes={2,3} }"));
  agrees(MODULE(
      "ENTRY e { x = f32[6,8] parameter(0)\n u = f32[2,3] parameter(1)\n i = s32[] constant(-4)\n"
      " j = s32[] constant(2)\n ROOT d = f32[6,8] dynamic-update-slice(x, u, i, j) }"));
  agrees(MODULE(
      "ENTRY e { x = f32[10,4] parameter(0)\n i = s32[5,1] constant({{3},{9},{0},{-2},{12}})\n"
      " ROOT g = f32[5,4] gather(x, i), offset_dims={1}, collapsed_slice_dims={0}, "
      "start_index_map={0}, index_vector_dim=1, slice_sizes={1,4} }"));
  agrees(MODULE("ENTRY e { x = f32[4,10,3] parameter(0)\n i = s32[5] constant({3,9,0,1,2})\n"
                " ROOT g = f32[4,5,3] gather(x, i), offset_dims={0,2}, collapsed_slice_dims={1}, "
                "start_index_map={1}, index_vector_dim=1, slice_sizes={4,1,3} }"));
  agrees(MODULE(
      "add { a = f32[] parameter(0)\n b = f32[] parameter(1)\n ROOT c = f32[] add(a, b) }\n"
      "ENTRY e { x = f32[10,4] parameter(0)\n i = s32[5,1] constant({{3},{9},{3},{-2},{12}})\n"
      " u = f32[5,4] parameter(1)\n"
      "ROOT g = f32[10,4] scatter(x, i, u), update_window_dims={1}, inserted_window_dims={0}, "
      "scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=add }"));
  agrees(
      MODULE("ge { a = f32[] parameter(0)\n b = f32[] parameter(1)\n"
             " ROOT c = pred[] compare(a, b), direction=GE }\nadd { a = f32[] parameter(0)\n"
             " b = f32[] parameter(1)\n ROOT c = f32[] add(a, b) }\n"
             "ENTRY e { x = f32[2,8,8,3] parameter(0)\n s = f32[2,4,4,3] parameter(1)\n"
             " z = f32[] constant(0)\n ROOT r = f32[2,8,8,3] select-and-scatter(x, s, z), "
             "window={size=1x3x3x1 stride=1x2x2x1 pad=0_0x0_1x0_1x0_0}, select=ge, scatter=add }"));
}

static void linear_algebra(void **st) {
  (void)st;
#define SPD                                                                         \
  "x = f32[3,6,6] parameter(0)\n"                                                   \
  " y = f32[3,6,6] dot(x, x), lhs_batch_dims={0}, rhs_batch_dims={0}, "             \
  "lhs_contracting_dims={2}, rhs_contracting_dims={2}\n"                            \
  "r = s32[6,6] iota(), iota_dimension=0\n c = s32[6,6] iota(), iota_dimension=1\n" \
  " p = pred[6,6] compare(r, c), direction=EQ\n"                                    \
  " pb = pred[3,6,6] broadcast(p), dimensions={1,2}\nk = f32[] constant(3)\n"       \
  " kb = f32[3,6,6] broadcast(k), dimensions={}\n ys = f32[3,6,6] add(y, kb)\n"     \
  " a = f32[3,6,6] select(pb, ys, y)\n"
  agrees(MODULE("ENTRY e { " SPD " ROOT l = f32[3,6,6] cholesky(a), lower=true }"));
  agrees(MODULE(
      "ENTRY e { " SPD
      " b = f32[3,6,4] parameter(1)\n ROOT s = f32[3,6,4] triangular-solve(a, b), left_side=true, "
      "lower=true, transpose_a=NO_TRANSPOSE }"));
  agrees(MODULE(
      "ENTRY e { " SPD
      " b = f32[3,6,4] parameter(1)\n ROOT s = f32[3,6,4] triangular-solve(a, b), left_side=true, "
      "lower=true, transpose_a=TRANSPOSE }"));
  agrees(MODULE(
      "ENTRY e { " SPD
      " b = f32[3,4,6] parameter(1)\n ROOT s = f32[3,4,6] triangular-solve(a, b), left_side=false, "
      "lower=false, transpose_a=NO_TRANSPOSE }"));
  agrees(MODULE(
      "ENTRY e { " SPD
      " b = f32[3,4,6] parameter(1)\n ROOT s = f32[3,4,6] triangular-solve(a, b), left_side=false, "
      "lower=true, transpose_a=TRANSPOSE, unit_diagonal=true }"));
}

// Matrices of more than one block, of every type, from either side, transposed or not, by rows and
// by columns, with many columns and with few.
static void triangular_systems(void **st) {
  (void)st;
  static const char *const type[] = {"f32", "f64", "c64", "c128"};
  static const char *const how[] = {"NO_TRANSPOSE", "TRANSPOSE", "ADJOINT"};
  static const char *const order[] = {"1,0", "0,1"};
  for (u32 k = 0; k < 192; k += 5) {
    u32 t = k % 4, trans = k / 4 % 3, left = k / 12 % 2, lower = k / 24 % 2, turned = k / 48 % 2,
        wide = k / 96 % 2, n = k / 5 % 3 ? 50 : 97,
        m = wide    ? 20
            : k % 2 ? 2
                    : 7;
    char *x = left ? hs_format("%s[%u,%u]{%s}", type[t], n, m, order[turned])
                   : hs_format("%s[%u,%u]{%s}", type[t], m, n, order[turned]);
    char *a = hs_format("%s[%u,%u]{%s}", type[t], n, n, order[(turned + k / 7) % 2]);
    char *text = hs_format(
        "HloModule m\nENTRY e { a = %s parameter(0)\n b = %s parameter(1)\n"
        " r = s32[%u,%u] iota(), iota_dimension=0\n c = s32[%u,%u] iota(), iota_dimension=1\n"
        " q = pred[%u,%u] compare(r, c), direction=EQ\n w = %s convert(q)\n"
        " kr = f32[] constant(40)\n k = %s[] convert(kr)\n kb = %s broadcast(k), dimensions={}\n"
        " d = %s multiply(w, kb)\n s = %s add(a, d)\n"
        " ROOT o = %s triangular-solve(s, b), left_side=%s, lower=%s, transpose_a=%s }",
        a, x, n, n, n, n, n, n, a, type[t], a, a, a, x, left ? "true" : "false",
        lower ? "true" : "false", how[trans]);
    agrees(text);
    hs_free(text);
    hs_free(a);
    hs_free(x);
  }
}

// The factor of x x^T + 40 at either side of the diagonal, in two blocks and in more. x is real:
// complex types go through complex code all the same.
static void cholesky_factors(void **st) {
  (void)st;
  static const char *const type[] = {"f32", "f64", "c64", "c128"};
  static const char *const order[] = {"1,0", "0,1"};
  for (u32 k = 0; k < 16; k++) {
    u32 n = k % 3 ? 100 : 60;
    char *a = hs_format("%s[%u,%u]{%s}", type[k % 4], n, n, order[k / 4 % 2]);
    char *text = hs_format(
        "HloModule m\nENTRY e { u = f32[%u,%u] parameter(0)\n x = %s convert(u)\n"
        " y = %s dot(x, x), lhs_contracting_dims={1}, rhs_contracting_dims={1}\n"
        " r = s32[%u,%u] iota(), iota_dimension=0\n c = s32[%u,%u] iota(), iota_dimension=1\n"
        " q = pred[%u,%u] compare(r, c), direction=EQ\n w = %s convert(q)\n"
        " kr = f32[] constant(40)\n k = %s[] convert(kr)\n kb = %s broadcast(k), dimensions={}\n"
        " d = %s multiply(w, kb)\n s = %s add(y, d)\n ROOT o = %s cholesky(s), lower=%s }",
        n, n, a, a, n, n, n, n, n, n, a, type[k % 4], a, a, a, a, k / 8 ? "true" : "false");
    agrees(text);
    hs_free(text);
    hs_free(a);
  }
  // the factor lies the other way: turned into its place, without room for a copy
  for (u32 k = 0; k < 16; k++) {
    const char *t = type[k % 4], *from = k / 4 % 2 ? "1,2" : "2,1", *to = k / 4 % 2 ? "2,1" : "1,2";
    char *text = hs_format(
        "HloModule m, entry_computation_layout={(f32[2,9,9]{2,1,0})->%s[2,9,9]{%s,0}}\n"
        "ENTRY e { u = f32[2,9,9] parameter(0)\n x = %s[2,9,9] convert(u)\n"
        " y = %s[2,9,9] dot(x, x), lhs_batch_dims={0}, rhs_batch_dims={0}, "
        "lhs_contracting_dims={2}, rhs_contracting_dims={2}\n"
        " r = s32[2,9,9] iota(), iota_dimension=1\n c = s32[2,9,9] iota(), iota_dimension=2\n"
        " q = pred[2,9,9] compare(r, c), direction=EQ\n w = %s[2,9,9] convert(q)\n"
        " s = %s[2,9,9]{%s,0} add(y, w)\n ROOT o = %s[2,9,9]{%s,0} cholesky(s), lower=%s }",
        t, to, t, t, t, t, from, t, to, k / 8 ? "true" : "false");
    agrees(text);
    hs_free(text);
    text = hs_format("HloModule m, entry_computation_layout={(%s[2,9,9]{%s,0})->%s[2,9,9]{%s,0}}\n"
                     "ENTRY e { x = %s[2,9,9]{%s,0} parameter(0)\n"
                     " ROOT o = %s[2,9,9]{%s,0} cholesky(x), lower=true }",
                     t, from, t, to, t, from, t, to);
    assert_int_equal(temporaries(text), 0);
    hs_free(text);
  }
  agrees(MODULE("ENTRY e { a = c64[2,2] constant({{(1, 0), (2, 1)}, {(2, -1), (1, 0)}})\n"
                " ROOT o = c64[2,2] cholesky(a), lower=true }"));
  // not positive definite: NaN throughout, whichever block finds it
  agrees(MODULE("ENTRY e { r = s32[100,100] iota(), iota_dimension=0\n"
                " c = s32[100,100] iota(), iota_dimension=1\n p = pred[100,100] compare(r, c), "
                "direction=EQ\n w = f32[100,100] convert(p)\n k = s32[] constant(90)\n"
                " kb = s32[100,100] broadcast(k), dimensions={}\n"
                " l = pred[100,100] compare(r, kb), direction=EQ\n z = f32[100,100] negate(w)\n"
                " s = f32[100,100] select(l, z, w)\n"
                " ROOT o = f32[100,100] cholesky(s), lower=true }"));
}

#define LU(type, letter, m, n, steps, from, to)                                             \
  MODULE("ENTRY e { a = " type "[9," m "," n "]{" from ",0} parameter(0)\n ROOT l = (" type \
         "[9," m "," n "]{" to ",0}, s32[9," steps "], s32[9]) custom-call(a), "            \
         "custom_call_target=\"lapack_" letter "getrf_ffi\", api_version=API_VERSION_TYPED_FFI }")

static void lu_factors(void **st) {
  (void)st;
  agrees(LU("f32", "s", "32", "32", "32", "2,1", "1,2"));
  agrees(LU("f64", "d", "5", "9", "5", "1,2", "1,2"));
  agrees(LU("c64", "c", "17", "4", "4", "2,1", "2,1"));
  agrees(LU("c128", "z", "63", "31", "31", "1,2", "2,1"));
  // by halves of the columns: on any number of threads, tall, wide, with rows left at the end
  agrees(LU("f32", "s", "65", "3", "3", "2,1", "1,2"));
  agrees(LU("f64", "d", "100", "100", "100", "1,2", "1,2"));
  agrees(LU("f64", "d", "130", "41", "41", "2,1", "2,1"));
  agrees(LU("f64", "d", "70", "150", "70", "1,2", "2,1"));
  agrees(LU("f64", "d", "9", "300", "9", "2,1", "2,1"));
  agrees(LU("c64", "c", "65", "3", "3", "2,1", "1,2"));  // LAPACK's
  // of rank 1, so that all pivots but one are 0: the first of them is named
  agrees(MODULE("ENTRY e { i = s32[80,80] iota(), iota_dimension=0\n one = s32[] constant(1)\n"
                " ones = s32[80,80] broadcast(one), dimensions={}\n p = s32[80,80] and(i, ones)\n"
                " a = f32[80,80] convert(p)\n ROOT l = (f32[80,80]{0,1}, s32[80], s32[]) "
                "custom-call(a), custom_call_target=\"lapack_sgetrf_ffi\", "
                "api_version=API_VERSION_TYPED_FFI }"));
  // singular, with exchanges, with infinities, with a NaN that is no pivot (of one that is, every
  // LAPACK makes something else)
  agrees(MODULE("ENTRY e { a = f32[7,2,2] constant({{{0,0},{0,0}},{{1,2},{2,4}},{{0,1},{1,0}},"
                "{{1,2},{nan,3}},{{inf,2},{1,3}},{{1,inf},{2,3}},{{-1,2},{1,5}}})\n"
                " ROOT l = (f32[7,2,2]{1,2,0}, s32[7,2], s32[7]) custom-call(a), "
                "custom_call_target=\"lapack_sgetrf_ffi\", api_version=API_VERSION_TYPED_FFI }"));
}

// Results in another precision than what they are computed from.
static void other_precision(void **st) {
  (void)st;
  agrees(
      MODULE("ENTRY e { x = c64[3,3,3] parameter(0)\n ROOT f = bf16[3,3,4] fft(x), fft_type=IRFFT, "
             "fft_length={3,3,4} }"));
  agrees(MODULE("ENTRY e { x = c128[5] parameter(0)\n ROOT f = f32[8] fft(x), fft_type=IRFFT, "
                "fft_length={8} }"));
  agrees(MODULE("ENTRY e { x = f32[2,2] constant({{4,1},{1,4}})\n ROOT c = f64[2,2] cholesky(x), "
                "lower=true }"));
}

static void random_bits(void **st) {
  (void)st;
  agrees(MODULE(
      "ENTRY e { s = u64[2] parameter(0)\n ROOT r = (u64[2], u32[5,3]) rng-bit-generator(s), "
      "algorithm=rng_three_fry }"));
  agrees(MODULE(
      "ENTRY e { s = u64[2] parameter(0)\n ROOT r = (u64[2], u64[4,3]) rng-bit-generator(s), "
      "algorithm=rng_three_fry }"));
  agrees(
      MODULE("ENTRY e { s = u64[3] parameter(0)\n ROOT r = (u64[3], u32[7]) rng-bit-generator(s), "
             "algorithm=rng_philox }"));
  agrees(
      MODULE("ENTRY e { s = u64[3] parameter(0)\n ROOT r = (u64[3], u16[9]) rng-bit-generator(s), "
             "algorithm=rng_default }"));
}

// A state that the run keeps goes on from one use of it to the next, in loops too, and begins anew
// with the next run; each device has its own.
#define STATEFUL                                                                                  \
  "body { s = (s32[], u64[2]) parameter(0)\n n = s32[] get-tuple-element(s), index=0\n"           \
  " one = s32[] constant(1)\n more = s32[] add(n, one)\n"                                         \
  " v = u64[2] rng-get-and-update-state(), delta=5\n ROOT t = (s32[], u64[2]) tuple(more, v) }\n" \
  "cond { s = (s32[], u64[2]) parameter(0)\n n = s32[] get-tuple-element(s), index=0\n"           \
  " four = s32[] constant(4)\n ROOT l = pred[] compare(n, four), direction=LT }\n"                \
  "ENTRY e { a = u64[2] rng-get-and-update-state(), delta=3\n zero = s32[] constant(0)\n"         \
  " t = (s32[], u64[2]) tuple(zero, a)\n w = (s32[], u64[2]) while(t), condition=cond, "          \
  "body=body\n lo = f32[] constant(0)\n hi = f32[] constant(1)\n"                                 \
  " b = f32[3] rng(lo, hi), distribution=rng_uniform, control-predecessors={w}\n"                 \
  " c = f32[3] rng(lo, hi), distribution=rng_uniform, control-predecessors={b}\n"                 \
  " ROOT r = (u64[2], (s32[], u64[2]), f32[3], f32[3]) tuple(a, w, b, c) }"
static void random_states(void **st) {
  (void)st;
  agrees(MODULE(STATEFUL));
  agrees("HloModule t, num_partitions=2\n" STATEFUL);
}

// Numbers below the least normal one count as zero, or as what they are.
static void denormals(void **st) {
  (void)st;
  hlo_module *m = parse(MODULE(
      "sum { a = f32[] parameter(0)\n b = f32[] parameter(1)\n ROOT c = f32[] add(a, b) }\n"
      "ENTRY e { i = f32[20000] iota(), iota_dimension=0\n tiny = f32[] constant(5e-43)\n"
      " t = f32[20000] broadcast(tiny), dimensions={}\n x = f32[20000] multiply(i, t)\n"
      " large = f32[] constant(1e38)\n l = f32[20000] broadcast(large), dimensions={}\n"
      " up = f32[20000] multiply(x, l)\n log = f32[20000] log(x)\n root = f32[20000] cbrt(x)\n"
      " half = f32[] constant(0.5)\n h = f32[20000] broadcast(half), dimensions={}\n"
      " power = f32[20000] power(x, h)\n some = pred[20000] convert(x)\n"
      " zero = f32[] constant(0)\n s = f32[] reduce(x, zero), dimensions={0}, to_apply=sum\n"
      " ups = f32[] multiply(s, large)\n a = f32[200,100] reshape(x)\n"
      " b = f32[100,200] reshape(i)\n d = f32[200,200] dot(a, b), lhs_contracting_dims={1}, "
      "rhs_contracting_dims={0}\n ROOT r = (f32[20000], f32[20000], f32[20000], f32[20000], "
      "pred[20000], f32[], f32[200,200]) tuple(up, log, root, power, some, ups, d) }"));
  for (u32 mode = 0; mode < 8; mode++) {
    const backend_options o = {.context = backends,
                               .threads = mode & 2 ? 3 : 1,
                               .per_instruction = mode & 4,
                               .keep_denormals = mode & 1,
                               .deadline_s = 120};
    backend_result want = run_on(backend_find("interp"), m, &o, NULL, NULL),
                   got = run_on(cpu, m, &o, NULL, NULL);
    explain(hlo_compare(want.outputs, got.outputs, hlo_near(0, 1e-5)));
    double up = hlo_literal_f64(got.outputs->children[0], 19999);
    assert_true(o.keep_denormals ? up > 0.9 && up < 1.1 : up == 0);
    backend_result_free(&got);
    backend_result_free(&want);
  }
  hlo_module_free(m);
}

int main(int argc, char **argv) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(dots),
      cmocka_unit_test(bitcasts),
      cmocka_unit_test(narrow_dots),
      cmocka_unit_test(convolutions),
      cmocka_unit_test(patches),
      cmocka_unit_test(cut_images),
      cmocka_unit_test(thin_convolutions),
      cmocka_unit_test(sums_over_pairs),
      cmocka_unit_test(cut_convolutions),
      cmocka_unit_test(copies_of_convolutions),
      cmocka_unit_test(sorts),
      cmocka_unit_test(moves),
      cmocka_unit_test(choices),
      cmocka_unit_test(triangular_systems),
      cmocka_unit_test(cholesky_factors),
      cmocka_unit_test(lu_factors),
      cmocka_unit_test(linear_algebra),
      cmocka_unit_test(random_bits),
      cmocka_unit_test(random_states),
      cmocka_unit_test(other_precision),
      cmocka_unit_test(denormals),
  };
  return run_cpu_tests(argc, argv, "cpu_operations", tests, HS_COUNT(tests));
}
