// calibrate_library.c: what this machine takes around and beside loops over elements.
//
// Around: a run, calls of kernels, loops and the single values in them, loops that threads share,
// and virtual devices that meet. Beside: matrix products and convolutions, which run in a library
// or in kernels of their own and have rates by size: curves over cubes, and what odd forms cost
// more (narrow ones, vectors, operands that have to be put in order, groups, holes).
#include <math.h>
#include <stdio.h>

#include "repl/measure/calibrate_bench.h"

// ---- calls, loops, devices ----------------------------------------------------------------------
// Virtual devices, one after the other: what each adds where all meet, and where arrays of all are
// taken apart and put together.
static hs_status measure_devices(calibrate_bench *b) {
  enum { DEVICES = 8 };
  double s;
  HS_TRY(calibrate_time(
      b, 1,
      hs_format("HloModule meeting, replica_count=%d\nENTRY e {\n  p = f32[8,8] parameter(0)\n"
                "  ROOT r = f32[8,8] all-to-all(p), replica_groups={}, dimensions={0}\n}\n",
                DEVICES),
      &s));
  b->c->meeting_s = calibrate_above(s / DEVICES, b->c->kernel_s);
  HS_TRY(calibrate_time(
      b, 1,
      hs_format("HloModule reshard, num_partitions=%d, "
                "frontend_attributes={xla.sdy.meshes={mesh = #sdy.mesh<[\"e\"=%d]>}}\n"
                "ENTRY e {\n  p = f32[64,8] parameter(0)\n"
                "  l = f32[8,8] custom-call(p), custom_call_target=\"xla.sdy.GlobalToLocalShape\", "
                "custom_call_has_side_effect=true, frontend_attributes={xla.sdy.in_shardings="
                "\"#sdy.sharding_per_value<[<@mesh, [{\\\"e\\\"}, {}]>]>\",xla.sdy.manual_axes="
                "\"#sdy<manual_axes{\\\"e\\\"}>\"}\n"
                "  ROOT r = f32[64,8] custom-call(l), "
                "custom_call_target=\"xla.sdy.LocalToGlobalShape\", "
                "custom_call_has_side_effect=true, frontend_attributes={xla.sdy.manual_axes="
                "\"#sdy<manual_axes{\\\"e\\\"}>\",xla.sdy.out_shardings="
                "\"#sdy.sharding_per_value<[<@mesh, [{\\\"e\\\"}, {}]>]>\"}\n}\n",
                DEVICES, DEVICES),
      &s));
  b->c->reshard_s = calibrate_above(s / DEVICES / 2, b->c->kernel_s);
  return HS_GOOD;
}

// A loop over one value, an operation after the other.
static hs_status measure_scalars(calibrate_bench *b, u32 trips) {
  enum { OPERATIONS = 16 };
  hs_buf text = {0};
  hs_buf_printf(&text,
                "HloModule scalars\nf {\n  v0 = f32[] parameter(0)\n  q = f32[] parameter(1)\n");
  for (u32 k = 1; k <= OPERATIONS; k++)
    hs_buf_printf(&text, "  %sv%u = f32[] %s(v%u, q)\n", k == OPERATIONS ? "ROOT " : "", k,
                  k % 2 ? "multiply" : "add", k - 1);
  hs_buf_printf(&text,
                "}\nbody {\n  s = (s32[], f32[], f32[]) parameter(0)\n"
                "  i = s32[] get-tuple-element(s), index=0\n"
                "  x = f32[] get-tuple-element(s), index=1\n"
                "  q = f32[] get-tuple-element(s), index=2\n  one = s32[] constant(1)\n"
                "  j = s32[] add(i, one)\n  y = f32[] fusion(x, q), kind=kLoop, calls=f\n"
                "  ROOT t = (s32[], f32[], f32[]) tuple(j, y, q)\n}\ncond {\n"
                "  s = (s32[], f32[], f32[]) parameter(0)\n"
                "  i = s32[] get-tuple-element(s), index=0\n  n = s32[] constant(%u)\n"
                "  ROOT c = pred[] compare(i, n), direction=LT\n}\nENTRY e {\n"
                "  p = f32[] parameter(0)\n  q = f32[] parameter(1)\n  z = s32[] constant(0)\n"
                "  t = (s32[], f32[], f32[]) tuple(z, p, q)\n"
                "  w = (s32[], f32[], f32[]) while(t), condition=cond, body=body\n"
                "  ROOT r = f32[] get-tuple-element(w), index=1\n}\n",
                trips);
  double s;
  HS_TRY(calibrate_time(b, 1, hs_strdup(hs_buf_cstr(&text)), &s));
  hs_buf_free(&text);
  b->c->scalar_s = HS_MAX(calibrate_above(s, b->c->run_s) / trips / OPERATIONS, LEAST_S);
  return HS_GOOD;
}

// Loops that threads share, one after the other, as in a program: each time the others have to
// notice that there is work, and the opener that they are done.
static hs_status measure_sharing(calibrate_bench *b) {
  enum { LOOPS = 8, ELEMENTS = 131072 };
  prof_calibration *c = b->c;
  double s[2];
  for (u32 all = 0; all < 2; all++) {
    hs_buf text = {0};
    hs_buf_printf(&text, "HloModule shared\nENTRY e {\n  v0 = f32[%d] parameter(0)\n", ELEMENTS);
    for (u32 k = 1; k <= LOOPS; k++)
      hs_buf_printf(&text, "  %sv%u = f32[%d] %s(v%u)\n", k == LOOPS ? "ROOT " : "", k, ELEMENTS,
                    k % 2 ? "negate" : "abs", k - 1);
    hs_buf_puts(&text, "}\n");
    hs_status st = calibrate_time(b, all ? b->threads : 1, hs_strdup(hs_buf_cstr(&text)), &s[all]);
    hs_buf_free(&text);
    HS_TRY(st);
  }
  c->parallel_s = b->threads > 1 ? HS_MAX((s[1] - s[0] / b->threads) / LOOPS, 0.2e-6) : LEAST_S;
  return HS_GOOD;
}

// What a run of a program of n additions takes beside its kernel.
static hs_status time_run(calibrate_bench *b, u32 n, double *s) {
  HS_TRY(calibrate_time(b, 1,
                        hs_format("HloModule run\nENTRY e {\n  p = f32[%u] parameter(0)\n"
                                  "  ROOT r = f32[%u] add(p, p)\n}\n",
                                  n, n),
                        s));
  *s = calibrate_above(*s, b->c->kernel_s);
  return HS_GOOD;
}

hs_status calibrate_calls(calibrate_bench *b) {
  enum { CHAIN = 64, TRIES = 5 };
  const u32 trips = 2000;
  prof_calibration *c = b->c;
  calibrate_say(b, "calls of kernels");
  hs_buf text = {0};
  hs_buf_puts(&text,
              "HloModule calls\nENTRY e {\n  p = f32[8] parameter(0)\n  v0 = f32[8] add(p, p)\n");
  for (u32 k = 1; k < CHAIN; k++)
    hs_buf_printf(&text, "  %sv%u = f32[8] multiply(v%u, p)\n", k + 1 == CHAIN ? "ROOT " : "", k,
                  k - 1);
  hs_buf_puts(&text, "}\n");
  double t;
  hs_status s = calibrate_time_apart(b, hs_buf_cstr(&text), &t);
  hs_buf_free(&text);
  HS_TRY(s);
  c->kernel_s = HS_MAX(t / CHAIN, LEAST_S);
  HS_TRY(time_run(b, 8, &c->cheap_run_s));
  // XLA hands other runs to another thread, and how long that takes to start is another thing every
  // time
  c->run_s = c->cheap_run_s;
  for (u32 k = 0; k < TRIES && b->xla; k++) {
    HS_TRY(time_run(b, 2 * PROF_XLA_CHEAP, &t));
    c->run_s = k ? HS_MIN(c->run_s, t) : t;
  }
  double loop;
  // XLA makes one function of loops over less than a kilobyte
  const u32 n = b->xla ? 1024 : 8;
  HS_TRY(calibrate_time(
      b, 1,
      hs_format("HloModule loop\nbody {\n  s = (s32[], f32[%u]) parameter(0)\n"
                "  i = s32[] get-tuple-element(s), index=0\n"
                "  x = f32[%u] get-tuple-element(s), index=1\n  one = s32[] constant(1)\n"
                "  j = s32[] add(i, one)\n  y = f32[%u] add(x, x)\n"
                "  ROOT t = (s32[], f32[%u]) tuple(j, y)\n}\n"
                "cond {\n  s = (s32[], f32[%u]) parameter(0)\n"
                "  i = s32[] get-tuple-element(s), index=0\n"
                "  n = s32[] constant(%u)\n  ROOT c = pred[] compare(i, n), direction=LT\n"
                "}\nENTRY e {\n  p = f32[%u] parameter(0)\n  z = s32[] constant(0)\n"
                "  t = (s32[], f32[%u]) tuple(z, p)\n"
                "  w = (s32[], f32[%u]) while(t), condition=cond, body=body\n"
                "  ROOT r = f32[%u] get-tuple-element(w), index=1\n}\n",
                n, n, n, n, n, trips, n, n, n, n),
      &loop));
  c->loop_s = calibrate_above(loop / trips, 3 * c->kernel_s);
  HS_TRY(measure_devices(b));
  HS_TRY(measure_scalars(b, trips));
  return measure_sharing(b);
}

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

// What is left of s when so many bytes were loaded from where they lie after the last run: at most
// three quarters are.
static double without_loads(const calibrate_bench *b, double s, double bytes) {
  double loads = bytes > 0 ? bytes / prof_curve_at(&b->c->load[0], bytes) : 0;
  return HS_MAX(s - HS_MIN(loads, s * 3 / 4), LEAST_S);
}

// A matrix times a vector with rows of 512 and of 16: an operation of it, and a row.
static hs_status measure_rows(calibrate_bench *b, double base) {
  static const u32 form[2][2] = {{256, 256}, {4096, 16}};
  double s[2];
  for (u32 k = 0; k < 2; k++)
    HS_TRY(calibrate_time(b, 1,
                          hs_format("HloModule rows\nENTRY e {\n  p = f32[%u,%u] parameter(0)\n"
                                    "  q = f32[%u] parameter(1)\n  ROOT r = f32[%u] dot(p, q), "
                                    "lhs_contracting_dims={1}, rhs_contracting_dims={0}\n}\n",
                                    form[k][0], form[k][1], form[k][1], form[k][0]),
                          &s[k]));
  double flops = 2 * 256 * 256.0, more = 2 * 4096 * 16.0;
  for (u32 k = 0; k < 2; k++) s[k] = without_loads(b, s[k] - base, 4 * 65536.0);
  b->c->vector_row_s = calibrate_above(s[1], s[0] * more / flops) / (4096 - 256 * more / flops);
  b->c->vector_rows_s = calibrate_above(s[0], 256 * b->c->vector_row_s) / flops;
  return HS_GOOD;
}

// What a product takes longer for putting its operands in order: 16-bit ones, and ones whose
// contracted dimensions are apart.
static hs_status measure_packing(calibrate_bench *b) {
  double f32, bf16, last;
  HS_TRY(calibrate_time(b, 1, dot_text("f32", "f32", 4, 512, 512), &f32));
  HS_TRY(calibrate_time(b, 1, dot_text("bf16", "bf16", 4, 512, 512), &bf16));
  b->c->pack_bf16_s = calibrate_above(bf16, f32) / (516 * 512);
  HS_TRY(calibrate_time(b, 1, dot_text("f32", "f32", 64, 64, 1024), &f32));
  HS_TRY(calibrate_time(b, 1,
                        hs_strdup("HloModule apart\nENTRY e {\n  p = f32[32,64,32] parameter(0)\n"
                                  "  q = f32[32,64,32] parameter(1)\n"
                                  "  ROOT r = f32[64,64] dot(p, q), lhs_contracting_dims={2,0}, "
                                  "rhs_contracting_dims={0,2}\n}\n"),
                        &last));
  b->c->pack_s = calibrate_above(last, f32) / (2 * 64 * 1024);
  HS_TRY(calibrate_time(b, 1, dot_text("f32", "f32", 32, 384, 384), &f32));
  HS_TRY(calibrate_time(b, 1,
                        hs_strdup("HloModule turned\nENTRY e {\n  p = f32[32,384] parameter(0)\n"
                                  "  q = f32[384,384] parameter(1)\n"
                                  "  ROOT r = f32[32,384] dot(p, q), lhs_contracting_dims={1}, "
                                  "rhs_contracting_dims={1}\n}\n"),
                        &last));
  b->c->turn_s = calibrate_above(last, f32) / (384 * 384);
  return HS_GOOD;
}

// The part of a cube's rate that a product with one short extent has, for each of the three.
static hs_status measure_narrow(calibrate_bench *b, double base) {
  static const u32 least[] = {2, 4, 8, 16, 32, 64};
  prof_calibration *c = b->c;
  prof_curve *const curves[] = {c->narrow_m, c->narrow_n, c->narrow_k};
  for (u32 form = 0; form < HS_COUNT(curves); form++) {
    curves[form][0] = (prof_curve){0};
    for (size_t k = 0; k < HS_COUNT(least); k++) {
      u32 e[3] = {PROF_LONG, PROF_LONG, PROF_LONG};
      e[form] = least[k];
      double flops = 2.0 * least[k] * PROF_LONG * PROF_LONG, s;
      HS_TRY(calibrate_time(b, 1, dot_text("f32", "f32", e[0], e[1], e[2]), &s));
      // the model adds the loads of narrow products
      double bytes = form < 2 && least[k] <= PROF_NARROW ? 4.0 * PROF_LONG * PROF_LONG : 0;
      double rate = flops / without_loads(b, s - base, bytes);
      prof_curve_add(&curves[form][0], least[k],
                     HS_MIN(rate / prof_curve_at(&c->product_f32[0], flops), 2));
    }
    // by definition; ours is as good from 64 on
    if (b->xla) prof_curve_add(&curves[form][0], PROF_LONG, 1);
    curves[form][1] = curves[form][0];
  }
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
  HS_TRY(calibrate_time(b, 1, dot_text("f32", "f32", 1, 256, 256), &s));
  c->vector_product_s = without_loads(b, s - base, 4 * 256 * 256.0) / (2 * 256 * 256.0);
  const char *few = "HloModule few\nENTRY e {\n  p = f32[64,512] parameter(0)\n"
                    "  q = f32[64,512,3] parameter(1)\n  ROOT r = f32[64,3] dot(p, q), "
                    "lhs_batch_dims={0}, rhs_batch_dims={0}, lhs_contracting_dims={1}, "
                    "rhs_contracting_dims={1}\n}\n";
  HS_TRY(calibrate_time(b, 1, hs_strdup(few), &s));
  c->vector_few_s = without_loads(b, s - base, 4 * 64 * 512 * 4.0) / (2 * 64 * 512 * 3.0);
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
    prof_curve *curve = (prof_curve *)(void *)((char *)c + types[t].curve);
    HS_TRY(calibrate_curve(b, cube_text, &form, n, flops, base + c->product_s, extra, curve));
    if (b->xla) HS_TRY(calibrate_cubes_xla(b, types[t].type, types[t].result, sizes, curve));
  }
  return measure_narrow(b, base + c->product_s);
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
static const u32 conv_sizes[][2] = {{8, 8}, {16, 16}, {32, 32}, {40, 48}, {64, 64}};

static char *conv_form_text(const void *arg, u32 k) {
  u32 form = *(const u32 *)arg, size = conv_sizes[k][0], n = conv_sizes[k][1];
  if (form == CONV_WEIGHTS) return weights_text(size, n);
  u32 groups = form == CONV_GROUPED ? n : form == CONV_GROUPS ? n / 8 : 1;
  return conv_text(form == CONV_BF16 ? "bf16" : "f32", size, n, groups, form == CONV_DILATED);
}

// What an element of the filter adds to a convolution of few positions. The filter is one that no
// cache of a thread holds: a smaller one is seldom much of it. Positions beside the image are
// neither counted as operations nor computed.
static hs_status measure_filter(calibrate_bench *b, double base) {
  enum { SIZE = 4, FEATURES = 512, TAPS = 3 * SIZE - 2 };
  const double filter = 9.0 * FEATURES * FEATURES, flops = 2.0 * TAPS * TAPS * FEATURES * FEATURES,
               moved = 4 * (filter + 2.0 * SIZE * SIZE * FEATURES);
  double s;
  HS_TRY(calibrate_time(b, 1, conv_text("f32", SIZE, FEATURES, 1, false), &s));
  double computing = flops / prof_curve_at(&b->c->convolution[0], flops),
         loads = moved / prof_curve_at(&b->c->load[0], moved);
  b->c->filter_s = HS_MAX(calibrate_above(s, base + computing + loads) / filter, LEAST_S);
  return HS_GOOD;
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
    double flops[HS_COUNT(conv_sizes)], images[HS_COUNT(conv_sizes)];
    for (u32 k = 0; k < HS_COUNT(conv_sizes); k++) {
      double size = conv_sizes[k][0], n = conv_sizes[k][1];
      // the model adds their loads and stores
      double bytes = 2 * size * size * n * (form == CONV_BF16 ? 2 : form == CONV_WEIGHTS ? 8 : 4);
      images[k] = bytes / prof_curve_at(&c->stream[0], bytes);
      flops[k] = 18 * size * size * n * (form == CONV_GROUPED ? 1 : form == CONV_GROUPS ? 8 : n);
      if (form == CONV_WEIGHTS) flops[k] *= 2;
    }
    HS_TRY(calibrate_curve(b, conv_form_text, &form, HS_COUNT(conv_sizes), flops, base, images,
                           curves[form]));
  }
  return measure_filter(b, base);
}
