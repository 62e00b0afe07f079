// kernels.c: the estimator's kernels as the cpu backend makes them: products and convolutions, what
// they do beside the operations and among how many threads, and short rows; and as XLA does.
#include "tests/unit/profiler/loaded.h"

#include <stdio.h>

#include "profiler/model/calibration.h"
#include "profiler/model/prof.h"

// The time of an instruction on so many threads, its operands in a cache.
static double seconds(const loaded *x, const char *name, const prof_calibration *c, u32 threads) {
  prof_device d = prof_device_calibrated(c);
  d.threads = threads;
  return prof_estimate_instr(hlo_find_instr(x->m, name), &d);
}

// A filter is put in order in each run, but for one that stays the same.
static void filters(void **st) {
  (void)st;
  loaded x =
      load("HloModule m\nENTRY main {\n  p = f32[8,4,4,64] parameter(0)\n"
           "  q = f32[3,3,64,128] parameter(1)\n  k = f32[1,1,64,64] constant({...})\n"
           "  f = f32[8,4,4,128] convolution(p, q), window={size=3x3 pad=1_1x1_1}, "
           "dim_labels=b01f_01io->b01f\n"
           "  c = f32[8,4,4,64] convolution(p, k), window={size=1x1}, dim_labels=b01f_01io->b01f\n"
           "  g = f32[3,3,64,128] convolution(p, f), window={size=4x4 pad=1_1x1_1}, "
           "dim_labels=f01b_i01o->01bf\n"
           "  ROOT t = (f32[8,4,4,64], f32[3,3,64,128]) tuple(c, g)\n}\n");
  prof_product forward = work_of(&x, "f").product, kept = work_of(&x, "c").product,
               gradient = work_of(&x, "g").product;
  assert_false(forward.gradient);
  assert_float_equal(forward.filter, 9 * 64 * 128, 0);
  assert_true(forward.by_features);
  assert_float_equal(kept.filter, 0, 0);
  assert_false(kept.by_features);
  // the window is 4 by 4, and the result has 3 by 3 positions for each of 64 features
  assert_true(gradient.gradient);
  assert_float_equal(gradient.filter, 9 * 64 * 128, 0);
  prof_calibration c = prof_generic, dearer = prof_generic;
  dearer.filter_s += 1e-9;
  double one = seconds(&x, "f", &dearer, 1) - seconds(&x, "f", &c, 1),
         two = seconds(&x, "f", &dearer, 2) - seconds(&x, "f", &c, 2);
  assert_float_equal((float)one, 9 * 64 * 128 * 1e-9f, 1e-10f);
  assert_float_equal((float)two, (float)one / 2, 1e-10f);
  assert_true(seconds(&x, "c", &dearer, 1) == seconds(&x, "c", &c, 1));
  unload(&x);
}

// Images are shared among threads, where they are enough work each.
static void pieces(void **st) {
  (void)st;
  loaded x = load("HloModule m\nENTRY main {\n  p = f32[4,32,32,64] parameter(0)\n"
                  "  s = f32[1,32,32,64] slice(p), slice={[0:1], [0:32], [0:32], [0:64]}\n"
                  "  k = f32[1,1,64,64] constant({...})\n"
                  "  t = f32[1,1,64,16] constant({...})\n"
                  "  b = f32[4,32,32,64] convolution(p, k), window={size=1x1}, "
                  "dim_labels=b01f_01io->b01f\n"
                  "  o = f32[1,32,32,16] convolution(s, t), window={size=1x1}, "
                  "dim_labels=b01f_01io->b01f\n"
                  "  ROOT r = (f32[4,32,32,64], f32[1,32,32,16]) tuple(b, o)\n}\n");
  assert_float_equal(work_of(&x, "b").product.pieces, 4, 0);
  assert_float_equal(work_of(&x, "o").product.pieces, 1, 0);
  prof_device d = prof_device_calibrated(&prof_generic);
  prof_kernel one[2], two[2];
  for (u32 k = 0; k < 2; k++) {
    const hlo_instr *i = hlo_find_instr(x.m, k ? "o" : "b");
    d.threads = 1;
    prof_estimate_kernel(i, &d, &one[k]);
    d.threads = 2;
    prof_estimate_kernel(i, &d, &two[k]);
  }
  double call = prof_generic.convolution_s;
  assert_float_equal((float)(two[0].compute_s - call), (float)(one[0].compute_s - call) / 2, 1e-9f);
  assert_true(two[1].compute_s == one[1].compute_s);
  unload(&x);
}

// Images are loaded and stored between the operations.
static void images(void **st) {
  (void)st;
  loaded x = load("HloModule m\nENTRY main {\n  p = f32[4,64,64,8] parameter(0)\n"
                  "  k = f32[1,1,8,8] constant({...})\n"
                  "  ROOT r = f32[4,64,64,8] convolution(p, k), window={size=1x1}, "
                  "dim_labels=b01f_01io->b01f\n}\n");
  prof_device d = prof_device_calibrated(&prof_generic);
  prof_kernel k;
  prof_estimate_kernel(hlo_find_instr(x.m, "r"), &d, &k);
  assert_true(k.memory_s > 0 && k.compute_s > 0);
  assert_float_equal((float)k.seconds, (float)(k.launch_s + k.memory_s + k.compute_s), 1e-9f);
  unload(&x);
}

static double gain(const char *batch, u32 m, u32 n, u32 k) {
  char text[512];
  snprintf(text, sizeof text,
           "HloModule m\nENTRY main {\n  p = f32[%s,%u,%u] parameter(0)\n"
           "  q = f32[%s,%u,%u] parameter(1)\n  ROOT r = f32[%s,%u,%u] dot(p, q), "
           "lhs_batch_dims={0}, rhs_batch_dims={0}, lhs_contracting_dims={2}, "
           "rhs_contracting_dims={1}\n}\n",
           batch, m, k, batch, k, n, batch, m, n);
  loaded x = load(text);
  prof_calibration c = prof_generic;
  c.parallel_s = 1e-9;
  for (u32 t = 0; t < 2; t++) {  // computing alone
    c.load[t] = c.fill[t] = c.stream[t] = (prof_curve){1, {1}, {1e17}};
    c.product_f32[t] = (prof_curve){1, {1}, {10e9}};
  }
  double ratio = seconds(&x, "r", &c, 1) / seconds(&x, "r", &c, 2);
  unload(&x);
  return ratio;
}

// Products are shared by their multiplications: few of them not at all, many and small ones in
// groups of 2^18, larger ones in strips of 2^17, and the matrix of a vector by its elements.
static void sharing(void **st) {
  (void)st;
  assert_float_equal((float)gain("7", 24, 24, 24), 1, 0.01f);   // 96768
  assert_float_equal((float)gain("15", 24, 24, 24), 1, 0.01f);  // 207360: one group
  assert_float_equal((float)gain("16", 24, 24, 24), 1, 0.01f);  // 221184: one group
  assert_float_equal((float)gain("64", 24, 24, 24), 2, 0.01f);  // four groups
  assert_float_equal((float)gain("12", 64, 40, 48), 2, 0.01f);  // too small for strips: six groups
  assert_float_equal((float)gain("3", 60, 60, 60), 1.5f, 0.01f);  // 216000 each: three groups
  assert_float_equal((float)gain("3", 65, 65, 65), 2, 0.01f);     // 274625 each: six strips
  assert_float_equal((float)gain("3", 96, 96, 96), 2, 0.01f);
  assert_float_equal((float)gain("1", 1, 120, 120), 1, 0.01f);  // 14400
  assert_float_equal((float)gain("1", 1, 512, 512), 2, 0.05f);
}

// Lanes go over rows that are shorter than they: no row has an end that costs anything.
static void short_rows(void **st) {
  (void)st;
  loaded x = load("HloModule m\na {\n  x = f32[] parameter(0)\n  y = f32[] parameter(1)\n"
                  "  ROOT o = f32[] add(x, y)\n}\n"
                  "ENTRY main {\n  p = f32[4096,3] parameter(0)\n  q = f32[4096,8] parameter(1)\n"
                  "  z = f32[] constant(0)\n"
                  "  r = f32[4096] reduce(p, z), dimensions={1}, to_apply=a\n"
                  "  s = f32[4096] reduce(q, z), dimensions={1}, to_apply=a\n"
                  "  ROOT t = (f32[4096], f32[4096]) tuple(r, s)\n}\n");
  prof_work three = work_of(&x, "r"), eight = work_of(&x, "s");
  assert_float_equal(three.short_rows, 4096, 0);
  assert_float_equal(three.short_row, 3 * 4096, 0);
  assert_float_equal(eight.short_rows, 0, 0);
  prof_calibration c = prof_generic;
  c.row_end_s = 1e-6;
  assert_true(seconds(&x, "r", &c, 1) < 1e-4);
  assert_true(seconds(&x, "s", &c, 1) > 4e-3);
  c.xla = true;
  assert_true(seconds(&x, "r", &c, 1) > 4e-3);
  unload(&x);
}

// What threads reach together says what one does, but of memory, where each has a cache.
static void threads_together(void **st) {
  (void)st;
  prof_curve bytes[2] = {{1, {4e6}, {30e9}}, {0}}, flops[2] = {{1, {4e6}, {30e9}}, {0}};
  prof_curve_add_all(bytes, 4e6, 140e9, 2, true);
  prof_curve_add_all(flops, 4e6, 140e9, 2, false);
  assert_float_equal(bytes[0].y[0], 30e9, 0);
  assert_float_equal(flops[0].y[0], 70e9, 0);
  assert_float_equal(bytes[1].y[0], 140e9, 0);
  prof_curve slow[2] = {{1, {4e6}, {30e9}}, {0}};
  prof_curve_add_all(slow, 4e6, 10e9, 2, true);
  assert_float_equal(slow[1].y[0], 30e9, 0);
}

// A transpose that is only its result's layout is no kernel; a result is a copy of an argument.
static void renamed(void **st) {
  (void)st;
  const char *form = "HloModule m\nENTRY main {\n  p = f32[512,256]{1,0} parameter(0)\n"
                     "  t = f32[256,512]{0,1} transpose(p), dimensions={1,0}\n%s}\n";
  const char *ends[] = {"  ROOT n = f32[256,512]{0,1} negate(t)\n",
                        "  n = f32[256,512]{0,1} negate(t)\n"
                        "  ROOT r = (f32[256,512]{0,1}, f32[256,512]{0,1}) tuple(n, t)\n"};
  double took[2];
  for (u32 k = 0; k < 2; k++) {
    char *text = hs_format(form, ends[k]);
    loaded x = load(text);
    prof_device d = prof_device_calibrated(&prof_generic);
    prof_module e;
    assert_true(work_of(&x, "t").free);
    assert_true(hs_ok(prof_estimate_kernels(x.m, &d, &(prof_options){0}, &e)));
    took[k] = e.total.time_s - e.total.fresh_s;
    assert_int_equal(e.total.kernels, k + 1);
    prof_module_free(&e);
    unload(&x);
    hs_free(text);
  }
  assert_true(took[1] > 1.5 * took[0]);
}

// A thread sorts some thousand elements at a time: fewer are not shared.
static void short_lines(void **st) {
  (void)st;
  loaded x = load("HloModule m\nc {\n  a = f32[] parameter(0)\n  b = f32[] parameter(1)\n"
                  "  ROOT l = pred[] compare(a, b), direction=LT\n}\n"
                  "ENTRY main {\n  p = f32[64,16] parameter(0)\n  q = f32[1024,16] parameter(1)\n"
                  "  few = f32[64,16] sort(p), dimensions={1}, to_apply=c\n"
                  "  many = f32[1024,16] sort(q), dimensions={1}, to_apply=c\n"
                  "  ROOT t = (f32[64,16], f32[1024,16]) tuple(few, many)\n}\n");
  const prof_calibration *c = &prof_generic;
  assert_true(seconds(&x, "few", c, 2) == seconds(&x, "few", c, 1));
  assert_true(seconds(&x, "many", c, 2) < 0.6 * seconds(&x, "many", c, 1));
  unload(&x);
}

// An extent is short beside others: in a small cube none is.
static void cubes(void **st) {
  (void)st;
  loaded x =
      load("HloModule m\nENTRY main {\n  p = f32[8,8] parameter(0)\n"
           "  q = f32[8,384] parameter(1)\n  r = f32[384,384] parameter(2)\n"
           "  cube = f32[8,8] dot(p, p), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n"
           "  wide = f32[8,384] dot(q, r), lhs_contracting_dims={1}, "
           "rhs_contracting_dims={0}\n"
           "  ROOT t = (f32[8,8], f32[8,384]) tuple(cube, wide)\n}\n");
  prof_calibration c = prof_generic, slower;
  c.product_s = 0;
  slower = c;
  for (u32 k = 0; k < slower.narrow_m[0].n; k++) slower.narrow_m[0].y[k] /= 2;
  assert_true(seconds(&x, "cube", &slower, 1) == seconds(&x, "cube", &c, 1));
  assert_true(seconds(&x, "wide", &slower, 1) > 1.5 * seconds(&x, "wide", &c, 1));
  unload(&x);
}

// XLA's loops store in order: what they load has to stay for as many elements as that takes.
static void across(void **st) {
  (void)st;
  loaded x = load("HloModule m\nENTRY main {\n  p = f32[16384,16] parameter(0)\n"
                  "  q = f32[16,16384] parameter(1)\n"
                  "  long = f32[16,16384] transpose(p), dimensions={1,0}\n"
                  "  short = f32[16384,16] transpose(q), dimensions={1,0}\n"
                  "  ROOT t = (f32[16,16384], f32[16384,16]) tuple(long, short)\n}\n");
  prof_calibration c = prof_generic;
  c.xla = true;
  c.transposes[0] = (prof_curve){2, {1024, 16384}, {4e9, 0.1e9}};
  assert_true(seconds(&x, "long", &c, 1) > 4 * seconds(&x, "short", &c, 1));
  unload(&x);
}

// What XLA runs without handing it to another thread: less than a thousand operations, and our own
// backend knows no such difference.
static void cheap_runs_of_xla(void **st) {
  (void)st;
  prof_calibration c = prof_generic;
  prof_device d = prof_device_calibrated(&c);
  double seconds[2][2];
  for (u32 large = 0; large < 2; large++) {
    char *text = hs_format("HloModule m\nENTRY e {\n  p = f32[%u] parameter(0)\n"
                           "  ROOT r = f32[%u] add(p, p)\n}\n",
                           PROF_XLA_CHEAP - 1 + large, PROF_XLA_CHEAP - 1 + large);
    loaded x = load(text);
    for (u32 xla = 0; xla < 2; xla++) {
      prof_estimate e;
      c.run_s = 1, c.cheap_run_s = 0.25, c.xla = xla;
      assert_true(hs_ok(prof_estimate_module(x.m, &d, false, &e)));
      seconds[large][xla] = e.time_s;
    }
    unload(&x);
    hs_free(text);
  }
  assert_float_equal(seconds[0][0], 1, 0.01);
  assert_float_equal(seconds[0][1], 0.25, 0.01);
  assert_float_equal(seconds[1][1], 1, 0.01);
}

// XLA calls a comparator of several operations for every pair, and copies what it concatenates.
static void kernels_of_xla(void **st) {
  (void)st;
  loaded x =
      load("HloModule m\none {\n  a = f32[] parameter(0)\n  b = f32[] parameter(1)\n"
           "  ROOT l = pred[] compare(a, b), direction=LT\n}\n"
           "more {\n  a = f32[] parameter(0)\n  b = f32[] parameter(1)\n  x = f32[] abs(a)\n"
           "  y = f32[] abs(b)\n  ROOT l = pred[] compare(x, y), direction=LT\n}\n"
           "ENTRY main {\n  p = f32[65536] parameter(0)\n"
           "  q = f32[65536] sort(p), dimensions={0}, to_apply=one\n"
           "  r = f32[65536] sort(p), dimensions={0}, to_apply=more\n"
           "  c = f32[131072] concatenate(q, r), dimensions={0}\n"
           "  u = f32[256,256] reshape(p)\n  v = f32[256,256] transpose(u), dimensions={1,0}\n"
           "  ROOT t = (f32[131072], f32[256,256]) tuple(c, v)\n}\n");
  prof_calibration c = prof_generic;
  prof_device d = prof_device_calibrated(&c);
  prof_module ours, xla;
  assert_true(hs_ok(prof_estimate_kernels(x.m, &d, &(prof_options){0}, &ours)));
  c.xla = true;
  assert_true(hs_ok(prof_estimate_kernels(x.m, &d, &(prof_options){0}, &xla)));
  u32 q = hlo_find_instr(x.m, "q")->id, r = hlo_find_instr(x.m, "r")->id,
      k = hlo_find_instr(x.m, "c")->id;
  assert_float_equal(ours.kernels[q].compute_s, xla.kernels[q].compute_s, 1e-12);
  assert_float_equal(ours.kernels[r].compute_s, ours.kernels[q].compute_s, 1e-12);
  assert_float_equal((float)xla.kernels[r].compute_s, (float)(65536 * 16 * c.comparator_s), 1e-9f);
  assert_true(ours.kernels[k].compute_s > 0);
  assert_float_equal(xla.kernels[k].compute_s, 0, 0);
  assert_float_equal(work_of(&x, "v").pitch, 1024, 0);
  prof_module_free(&ours);
  prof_module_free(&xla);
  unload(&x);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(filters),
                                     cmocka_unit_test(pieces),
                                     cmocka_unit_test(images),
                                     cmocka_unit_test(sharing),
                                     cmocka_unit_test(short_rows),
                                     cmocka_unit_test(threads_together),
                                     cmocka_unit_test(renamed),
                                     cmocka_unit_test(short_lines),
                                     cmocka_unit_test(cubes),
                                     cmocka_unit_test(across),
                                     cmocka_unit_test(cheap_runs_of_xla),
                                     cmocka_unit_test(kernels_of_xla)};
  return cmocka_run_group_tests_name("kernels", tests, NULL, NULL);
}
