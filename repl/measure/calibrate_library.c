// calibrate_library.c: what this machine takes for matrix products and convolutions, which run in a
// library or in kernels of their own and have rates by size: curves over cubes, and what odd forms
// cost more (narrow ones, vectors, operands that have to be put in order, groups, holes).
#include <math.h>
#include <stdio.h>

#include "repl/measure/calibrate_bench.h"

// ---- products -----------------------------------------------------------------------------------
static char *dot_text(const char *type, const char *result, u32 m, u32 n, u32 k) {
  return hs_format("HloModule dot\nENTRY e {\n  p = %s[%u,%u] parameter(0)\n"
                   "  q = %s[%u,%u] parameter(1)\n  ROOT r = %s[%u,%u] dot(p, q), "
                   "lhs_contracting_dims={1}, rhs_contracting_dims={0}\n}\n",
                   type, m, k, type, k, n, result, m, n);
}

typedef struct dot_form {
  const char *type, *result;
  const u32 *sizes;
} dot_form;
static char *cube_text(const void *arg, u32 k) {
  const dot_form *f = arg;
  return dot_text(f->type, f->result, f->sizes[k], f->sizes[k], f->sizes[k]);
}

// A matrix times a vector with rows of 512 and of 16: an operation of it, and a row.
static hs_status measure_rows(calibrate_bench *b, double base) {
  static const u32 form[2][2] = {{512, 512}, {8192, 16}};
  double s[2];
  for (u32 k = 0; k < 2; k++)
    HS_TRY(calibrate_time(b, 1,
                          hs_format("HloModule rows\nENTRY e {\n  p = f32[%u,%u] parameter(0)\n"
                                    "  q = f32[%u] parameter(1)\n  ROOT r = f32[%u] dot(p, q), "
                                    "lhs_contracting_dims={1}, rhs_contracting_dims={0}\n}\n",
                                    form[k][0], form[k][1], form[k][1], form[k][0]),
                          &s[k]));
  double flops = 2 * 512 * 512.0, more = 2 * 8192 * 16.0;
  b->c->vector_row_s =
      calibrate_above(s[1] - base, (s[0] - base) * more / flops) / (8192 - 512 * more / flops);
  b->c->vector_rows_s = calibrate_above(s[0] - base, 512 * b->c->vector_row_s) / flops;
  return HS_GOOD;
}

// What a product takes longer for putting its operands in order: 16-bit ones, and ones whose batch
// dimensions are apart.
static hs_status measure_packing(calibrate_bench *b) {
  double f32, bf16, last;
  HS_TRY(calibrate_time(b, 1, dot_text("f32", "f32", 4, 512, 512), &f32));
  HS_TRY(calibrate_time(b, 1, dot_text("bf16", "bf16", 4, 512, 512), &bf16));
  b->c->pack_bf16_s = calibrate_above(bf16, f32) / (516 * 512);
  const char *text = "HloModule batch\nENTRY e {\n  p = f32[4,%u,%u,32] parameter(0)\n"
                     "  q = f32[4,%u,%u,32] parameter(1)\n"
                     "  ROOT r = f32[4,8,32,32] dot(p, q), lhs_batch_dims={0,%u}, "
                     "rhs_batch_dims={0,%u}, lhs_contracting_dims={3}, rhs_contracting_dims={3}\n"
                     "}\n";
  HS_TRY(calibrate_time(b, 1, hs_format(text, 8u, 32u, 8u, 32u, 1u, 1u), &f32));
  HS_TRY(calibrate_time(b, 1, hs_format(text, 32u, 8u, 32u, 8u, 2u, 2u), &last));
  b->c->pack_s = calibrate_above(last, f32) / (2 * 4 * 8 * 32 * 32);
  return HS_GOOD;
}

hs_status calibrate_products(calibrate_bench *b) {
  static const struct {
    const char *type, *result;
    size_t curve;
    u32 largest;
  } types[] = {{"f32", "f32", offsetof(prof_calibration, product_f32), 448},
               {"f64", "f64", offsetof(prof_calibration, product_f64), 192},
               {"bf16", "bf16", offsetof(prof_calibration, product_bf16), 256},
               {"s8", "s32", offsetof(prof_calibration, product_s8), 448}};
  static const u32 sizes[] = {8, 16, 32, 64, 128, 192, 256, 448};
  prof_calibration *c = b->c;
  double base = c->kernel_s + c->run_s, s;
  calibrate_say(b, "matrix products");
  HS_TRY(calibrate_time(b, 1, dot_text("f32", "f32", 2, 2, 2), &s));
  c->product_s = HS_MAX(calibrate_above(s, base), LEAST_S);
  HS_TRY(calibrate_time(b, 1, dot_text("f32", "f32", 1, 512, 512), &s));
  c->vector_product_s = HS_MAX(calibrate_above(s, base) / (2 * 512 * 512.0), LEAST_S);
  const char *few = "HloModule few\nENTRY e {\n  p = f32[64,512] parameter(0)\n"
                    "  q = f32[64,512,3] parameter(1)\n  ROOT r = f32[64,3] dot(p, q), "
                    "lhs_batch_dims={0}, rhs_batch_dims={0}, lhs_contracting_dims={1}, "
                    "rhs_contracting_dims={1}\n}\n";
  HS_TRY(calibrate_time(b, 1, hs_strdup(few), &s));
  c->vector_few_s = HS_MAX(calibrate_above(s, base) / (2 * 64 * 512 * 3.0), LEAST_S);
  HS_TRY(measure_rows(b, base));
  HS_TRY(measure_packing(b));
  for (size_t t = 0; t < HS_COUNT(types); t++) {
    double flops[HS_COUNT(sizes)], extra[HS_COUNT(sizes)];
    u32 n = 0;
    for (; n < HS_COUNT(sizes) && sizes[n] <= types[t].largest; n++)
      flops[n] = 2.0 * sizes[n] * sizes[n] * sizes[n];
    dot_form form = {types[t].type, types[t].result, sizes};
    bool packed = strcmp(types[t].type, "bf16") == 0;
    for (u32 k = 0; k < n; k++) extra[k] = packed ? 2.0 * sizes[k] * sizes[k] * c->pack_bf16_s : 0;
    HS_TRY(calibrate_curve(b, cube_text, &form, n, flops, base + c->product_s, extra,
                           (prof_curve *)(void *)((char *)c + types[t].curve)));
  }
  static const u32 least[] = {2, 4, 8, 16, 32, 64};
  for (size_t k = 0; k < HS_COUNT(least); k++) {
    double flops = 2.0 * least[k] * 384 * 384;
    HS_TRY(calibrate_time(b, 1, dot_text("f32", "f32", least[k], 384, 384), &s));
    double rate = flops / calibrate_above(s, base + c->product_s);
    prof_curve_add(&c->narrow[0], least[k],
                   HS_MIN(rate / prof_curve_at(&c->product_f32[0], flops), 2));
  }
  c->narrow[1] = c->narrow[0];
  return HS_GOOD;
}

// ---- convolutions -------------------------------------------------------------------------------
// groups: of features; 1: one.
static char *conv_text(const char *type, u32 size, u32 features, u32 groups, bool dilated) {
  char more[48] = "";
  if (groups > 1) snprintf(more, sizeof more, ", feature_group_count=%u", groups);
  return hs_format("HloModule conv\nENTRY e {\n  p = %s[1,%u,%u,%u] parameter(0)\n"
                   "  q = %s[3,3,%u,%u] parameter(1)\n"
                   "  ROOT r = %s[1,%u,%u,%u] convolution(p, q), window={size=3x3 %s}, "
                   "dim_labels=b01f_01io->b01f%s\n}\n",
                   type, size, size, features, type, features / groups, features, type, size, size,
                   features, dilated ? "pad=2_2x2_2 rhs_dilate=2x2" : "pad=1_1x1_1", more);
}

// The gradient of the weights of such a convolution, as JAX writes it.
static char *weights_text(u32 size, u32 features) {
  return hs_format("HloModule conv\nENTRY e {\n  p = f32[2,%u,%u,%u] parameter(0)\n"
                   "  q = f32[2,%u,%u,%u] parameter(1)\n"
                   "  ROOT r = f32[3,3,%u,%u] convolution(p, q), window={size=%ux%u pad=1_1x1_1}, "
                   "dim_labels=f01b_i01o->01bf\n}\n",
                   size, size, features, size, size, features, features, features, size, size);
}

enum { CONV_PLAIN, CONV_BF16, CONV_GROUPED, CONV_WEIGHTS, CONV_DILATED, CONV_GROUPS };
static const u32 conv_sizes[][2] = {{8, 8}, {16, 16}, {32, 32}, {40, 48}};

static char *conv_form_text(const void *arg, u32 k) {
  u32 form = *(const u32 *)arg, size = conv_sizes[k][0], n = conv_sizes[k][1];
  if (form == CONV_WEIGHTS) return weights_text(size, n);
  u32 groups = form == CONV_GROUPED ? n : form == CONV_GROUPS ? n / 8 : 1;
  return conv_text(form == CONV_BF16 ? "bf16" : "f32", size, n, groups, form == CONV_DILATED);
}

hs_status calibrate_convolutions(calibrate_bench *b) {
  prof_calibration *c = b->c;
  double base = c->kernel_s + c->run_s, s;
  calibrate_say(b, "convolutions");
  HS_TRY(calibrate_time(b, 1, conv_text("f32", 4, 2, 1, false), &s));
  c->convolution_s = HS_MAX(calibrate_above(s, base), LEAST_S);
  base += c->convolution_s;
  prof_curve *const curves[] = {c->convolution,         c->convolution_bf16,
                                c->convolution_grouped, c->convolution_weights,
                                c->convolution_dilated, c->convolution_groups};
  for (u32 form = 0; form < HS_COUNT(curves); form++) {
    double flops[HS_COUNT(conv_sizes)];
    for (u32 k = 0; k < HS_COUNT(conv_sizes); k++) {
      double size = conv_sizes[k][0], n = conv_sizes[k][1];
      flops[k] = 18 * size * size * n * (form == CONV_GROUPED ? 1 : form == CONV_GROUPS ? 8 : n);
      if (form == CONV_WEIGHTS) flops[k] *= 2;
    }
    HS_TRY(calibrate_curve(b, conv_form_text, &form, HS_COUNT(conv_sizes), flops, base, NULL,
                           curves[form]));
  }
  return HS_GOOD;
}
