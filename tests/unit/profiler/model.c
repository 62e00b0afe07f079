// model.c: the pieces of the estimator: what a kernel does, what that takes on a device, what lies
// around kernels, calibrations as text, and numbers for people.
#include "tests/unit/profiler/loaded.h"

#include <math.h>
#include <stdio.h>

#include "profiler/model/calibration.h"
#include "profiler/model/prof.h"
#include "profiler/units.h"

static double counted(const prof_work *w, hlo_opcode op) {
  double n = 0;
  for (u32 k = 0; k < w->ncounts; k++)
    if (w->counts[k].op == op) n += w->counts[k].elements;
  return n;
}

// ---- work ---------------------------------------------------------------------------------------
#define ADD \
  "a {\n  x = f32[] parameter(0)\n  y = f32[] parameter(1)\n  ROOT r = f32[] add(x, y)\n}\n"

static prof_work softmax(u32 rows, u32 row) {
  char text[700];
  snprintf(text, sizeof text,
           "HloModule m\n" ADD
           "f {\n  p = f32[%u,%u] parameter(0)\n  e = f32[%u,%u] exponential(p)\n"
           "  z = f32[] constant(0)\n  s = f32[%u] reduce(e, z), dimensions={1}, to_apply=a\n"
           "  b = f32[%u,%u] broadcast(s), dimensions={0}\n"
           "  ROOT q = f32[%u,%u] divide(e, b)\n}\nENTRY main {\n  p = f32[%u,%u] parameter(0)\n"
           "  ROOT k = f32[%u,%u] fusion(p), kind=kLoop, calls=f\n}\n",
           rows, row, rows, row, rows, rows, row, rows, row, rows, row, rows, row);
  loaded x = load(text);
  prof_work w = work_of(&x, "k");
  unload(&x);
  return w;
}

// The quotient of a softmax has the exponentials of the sum, unless a row is too long to be kept.
static void evaluations(void **st) {
  (void)st;
  prof_work w = softmax(64, 128);
  assert_float_equal(counted(&w, HLO_EXP), 64 * 128, 0);
  assert_float_equal(counted(&w, HLO_DIVIDE), 64 * 128, 0);
  assert_float_equal(w.reduced_row, 64 * 128, 0);
  assert_float_equal(w.reduced_column, 0, 0);
  w = softmax(2, 65537);
  assert_float_equal(counted(&w, HLO_EXP), 2 * 2 * 65537, 0);
}

// Two users at one index share an evaluation, two at different ones do not.
static void sharing(void **st) {
  (void)st;
  loaded x = load("HloModule m\nf {\n  p = f32[1000] parameter(0)\n  t = f32[1000] tanh(p)\n"
                  "  n = f32[1000] negate(t)\n  ROOT r = f32[1000] add(t, n)\n}\n"
                  "g {\n  p = f32[1000] parameter(0)\n  t = f32[1000] tanh(p)\n"
                  "  a = f32[500] slice(t), slice={[0:1000:2]}\n"
                  "  b = f32[500] slice(t), slice={[1:1000:2]}\n"
                  "  ROOT r = f32[500] add(a, b)\n}\n"
                  "ENTRY main {\n  p = f32[1000] parameter(0)\n"
                  "  k = f32[1000] fusion(p), kind=kLoop, calls=f\n"
                  "  l = f32[500] fusion(p), kind=kLoop, calls=g\n"
                  "  ROOT t = (f32[1000], f32[500]) tuple(k, l)\n}\n");
  prof_work w = work_of(&x, "k"), v = work_of(&x, "l");
  assert_float_equal(counted(&w, HLO_TANH), 1000, 0);
  assert_float_equal(counted(&v, HLO_TANH), 1000, 0);  // 500 at even indices, 500 at odd ones
  assert_float_equal(v.gapped, 1000, 0);
  assert_float_equal(w.gapped, 0, 0);
  assert_float_equal(w.row, 1000, 0);
  unload(&x);
}

// What lies in another order than it is combined in, or than the result, costs more than a stream.
static void orders(void **st) {
  (void)st;
  loaded x = load("HloModule m\na {\n  x = f32[] parameter(0)\n  y = f32[] parameter(1)\n"
                  "  ROOT s = f32[] add(x, y)\n}\n"
                  "ENTRY main {\n  p = f32[64,32]{0,1} parameter(0)\n"
                  "  q = f32[64,32]{1,0} parameter(1)\n  z = f32[] constant(0)\n"
                  "  b = f32[] reduce(p, z), dimensions={0,1}, to_apply=a\n"
                  "  c = f32[] reduce(q, z), dimensions={0,1}, to_apply=a\n"
                  "  m = f32[64,32]{1,0} multiply(p, p)\n"
                  "  ROOT t = (f32[], f32[], f32[64,32]) tuple(b, c, m)\n}\n");
  prof_work against = work_of(&x, "b"), along = work_of(&x, "c"), mixed = work_of(&x, "m");
  assert_float_equal(against.against, 64 * 32, 0);
  assert_float_equal(against.whole, 0, 0);
  assert_float_equal(along.against, 0, 0);
  assert_float_equal(along.whole, 64 * 32, 0);
  assert_float_equal(mixed.strided, 64 * 32, 0);
  unload(&x);
}

// Windows that cut rows into pieces are short rows, others slide; a reducer of several operations
// is paid for by the operation.
static void windows_in_loops(void **st) {
  (void)st;
  loaded x = load("HloModule m\na {\n  x = f32[] parameter(0)\n  y = f32[] parameter(1)\n"
                  "  ROOT s = f32[] maximum(x, y)\n}\n"
                  "b {\n  x = f32[] parameter(0)\n  y = f32[] parameter(1)\n"
                  "  q = f32[] multiply(y, y)\n  ROOT s = f32[] add(x, q)\n}\n"
                  "f {\n  p = f32[8,64] parameter(0)\n  z = f32[] constant(-inf)\n"
                  "  ROOT r = f32[8,16] reduce-window(p, z), window={size=1x4 stride=1x4}, "
                  "to_apply=a\n}\n"
                  "g {\n  p = f32[8,64] parameter(0)\n  z = f32[] constant(-inf)\n"
                  "  ROOT r = f32[8,61] reduce-window(p, z), window={size=1x4}, to_apply=a\n}\n"
                  "h {\n  p = f32[8,64] parameter(0)\n  z = f32[] constant(0)\n"
                  "  ROOT r = f32[64] reduce(p, z), dimensions={0}, to_apply=b\n}\n"
                  "ENTRY main {\n  p = f32[8,64] parameter(0)\n"
                  "  k = f32[8,16] fusion(p), kind=kLoop, calls=f\n"
                  "  l = f32[8,61] fusion(p), kind=kLoop, calls=g\n"
                  "  n = f32[64] fusion(p), kind=kLoop, calls=h\n"
                  "  ROOT t = (f32[8,16], f32[8,61], f32[64]) tuple(k, l, n)\n}\n");
  prof_work cut = work_of(&x, "k"), slid = work_of(&x, "l"), squares = work_of(&x, "n");
  assert_float_equal(cut.windowed, 0, 0);
  assert_float_equal(cut.reduced_row, 8 * 64, 0);
  assert_float_equal(cut.extremes, 8 * 64, 0);
  assert_float_equal(cut.rows, 8 * 16, 0);
  assert_float_equal(slid.windowed, 8 * 61 * 4, 0);
  assert_float_equal(slid.reduced_row, 0, 0);
  assert_float_equal(squares.combined, 2 * 8 * 64, 0);
  unload(&x);
}

static void products(void **st) {
  (void)st;
  loaded x = load("HloModule m\nENTRY main {\n  p = f32[8,64,32] parameter(0)\n"
                  "  q = f32[8,32,16] parameter(1)\n"
                  "  ROOT r = f32[8,64,16] dot(p, q), lhs_batch_dims={0}, rhs_batch_dims={0}, "
                  "lhs_contracting_dims={2}, rhs_contracting_dims={1}\n}\n");
  prof_work w = work_of(&x, "r");
  assert_int_equal(w.special, PROF_PRODUCT);
  assert_float_equal(w.product.batch, 8, 0);
  assert_float_equal(w.product.m, 64, 0);
  assert_float_equal(w.product.n, 16, 0);
  assert_float_equal(w.product.k, 32, 0);
  assert_float_equal(w.product.packed, 0, 0);
  assert_float_equal(w.product.turned, 0, 0);
  assert_float_equal(w.flops, 2.0 * 8 * 64 * 16 * 32, 0);
  unload(&x);
  // one operand summed up over dimensions that lie apart, the other along its rows
  x = load("HloModule m\nENTRY main {\n  p = f32[4,16,8] parameter(0)\n"
           "  q = f32[4,8,24] parameter(1)\n  s = f32[24,32] parameter(2)\n"
           "  d = f32[16,24] dot(p, q), lhs_contracting_dims={0,2}, rhs_contracting_dims={0,1}\n"
           "  t = f32[32,24] transpose(s), dimensions={1,0}\n"
           "  ROOT r = f32[16,32] dot(d, t), lhs_contracting_dims={1}, rhs_contracting_dims={1}\n"
           "}\n");
  prof_work apart = work_of(&x, "d"), turned = work_of(&x, "r");
  assert_float_equal(apart.product.packed, 4 * 16 * 8, 0);
  assert_float_equal(apart.product.turned, 0, 0);
  assert_float_equal(turned.product.packed, 0, 0);
  assert_float_equal(turned.product.turned, 24 * 32, 0);
  unload(&x);
}

// Windows slide over each element once, those as long as the dimension are running totals;
// dividing by a constant is no division; 16-bit floats are widened by the way; small integers have
// lanes of their own; matrices are solved one by one.
static void cheaper_than_they_look(void **st) {
  (void)st;
  loaded x = load(
      "HloModule m\na {\n  x = f32[] parameter(0)\n  y = f32[] parameter(1)\n"
      "  ROOT r = f32[] add(x, y)\n}\nENTRY main {\n  p = f32[64,32] parameter(0)\n"
      "  z = f32[] constant(0)\n  u = u32[64] parameter(1)\n  v = u32[64] parameter(2)\n"
      "  h = bf16[64] parameter(3)\n  c = u32[] constant(7)\n  k = u32[64] broadcast(c), "
      "dimensions={}\n  b = s8[64] parameter(4)\n  m = f32[3,16,16] parameter(5)\n"
      "  slide = f32[64,29] reduce-window(p, z), window={size=1x4}, to_apply=a\n"
      "  total = f32[64,32] reduce-window(p, z), window={size=64x1 pad=63_0x0_0}, to_apply=a\n"
      "  by_constant = u32[64] remainder(u, k)\n  by_value = u32[64] remainder(u, v)\n"
      "  wide = f32[64] convert(h)\n  short = bf16[64] convert(wide)\n  small = s8[64] add(b, b)\n"
      "  factor = f32[3,16,16] cholesky(m), lower=true\n"
      "  ROOT t = (f32[64,29], f32[64,32], u32[64], u32[64], bf16[64], s8[64], f32[3,16,16]) "
      "tuple(slide, total, by_constant, by_value, short, small, factor)\n}\n");
  prof_work w = work_of(&x, "slide");
  assert_float_equal(w.slid, 64 * 32, 0);
  assert_float_equal(w.slid_window, 4, 0);
  assert_true(w.slid_rows + w.scanned + w.scanned_rows <= 0);
  w = work_of(&x, "total");
  assert_float_equal(w.scanned_rows, 64 * 32, 0);
  assert_true(w.slid + w.slid_rows + w.scanned <= 0);
  w = work_of(&x, "by_constant");
  assert_float_equal(w.divided, 64, 0);
  assert_int_equal(w.ncounts, 0);
  w = work_of(&x, "by_value");
  assert_float_equal(w.divided, 0, 0);
  assert_int_equal(w.counts[0].op, HLO_REMAINDER);
  w = work_of(&x, "wide");
  assert_int_equal(w.counts[0].type, PROF_F32);
  w = work_of(&x, "short");
  assert_int_equal(w.counts[0].type, PROF_F16);
  w = work_of(&x, "small");
  assert_int_equal(w.counts[0].type, PROF_I8);
  w = work_of(&x, "factor");
  assert_true(w.factors);
  assert_float_equal(w.items, 3, 0);
  assert_float_equal(w.line, 16, 0);
  unload(&x);
}

// Rows have ends, and the greatest of one is more than its sum; integers change their width by the
// way.
static void rows_and_widths(void **st) {
  (void)st;
  loaded x = load("HloModule m\n" ADD "g {\n  x = f32[] parameter(0)\n  y = f32[] parameter(1)\n"
                  "  ROOT r = f32[] maximum(x, y)\n}\nENTRY main {\n"
                  "  p = f32[64,32] parameter(0)\n  i = s32[64] parameter(1)\n"
                  "  z = f32[] constant(0)\n"
                  "  sum = f32[64] reduce(p, z), dimensions={1}, to_apply=a\n"
                  "  most = f32[64] reduce(p, z), dimensions={1}, to_apply=g\n"
                  "  column = f32[32] reduce(p, z), dimensions={0}, to_apply=g\n"
                  "  long = s64[64] convert(i)\n"
                  "  ROOT t = (f32[64], f32[64], f32[32], s64[64]) tuple(sum, most, column, long)\n"
                  "}\n");
  prof_work w = work_of(&x, "sum");
  assert_float_equal(w.rows, 64, 0);
  assert_float_equal(w.extremes, 0, 0);
  w = work_of(&x, "most");
  assert_float_equal(w.rows, 64, 0);
  assert_float_equal(w.extremes, 64 * 32, 0);
  w = work_of(&x, "column");
  assert_float_equal(w.rows, 0, 0);
  assert_float_equal(w.extremes, 0, 0);
  w = work_of(&x, "long");
  assert_int_equal(w.counts[0].op, HLO_BITCAST_CONVERT);
  unload(&x);
}

// A kernel in a loop is not called, and a single value stays in a register.
static void inlined_in_loops(void **st) {
  (void)st;
  loaded x = load(
      "HloModule m\nbody {\n  s = (s32[], f32[64]) parameter(0)\n"
      "  i = s32[] get-tuple-element(s), index=0\n  v = f32[64] get-tuple-element(s), index=1\n"
      "  one = s32[] constant(1)\n  j = s32[] add(i, one)\n  y = f32[64] add(v, v)\n"
      "  ROOT t = (s32[], f32[64]) tuple(j, y)\n}\ncond {\n"
      "  s = (s32[], f32[64]) parameter(0)\n  i = s32[] get-tuple-element(s), index=0\n"
      "  n = s32[] constant(10)\n  ROOT c = pred[] compare(i, n), direction=LT\n}\n"
      "ENTRY main {\n  p = f32[64] parameter(0)\n  q = f32[64] add(p, p)\n"
      "  z = s32[] constant(0)\n  t = (s32[], f32[64]) tuple(z, q)\n"
      "  w = (s32[], f32[64]) while(t), condition=cond, body=body\n"
      "  ROOT r = f32[64] get-tuple-element(w), index=1\n}\n");
  prof_device d = prof_device_calibrated(&prof_generic);
  prof_module fused, alone;
  assert_true(hs_ok(prof_estimate_kernels(x.m, &d, &(prof_options){0}, &fused)));
  assert_true(hs_ok(prof_estimate_kernels(x.m, &d, &(prof_options){.naive = true}, &alone)));
  u32 j = hlo_find_instr(x.m, "j")->id, y = hlo_find_instr(x.m, "y")->id,
      q = hlo_find_instr(x.m, "q")->id;
  assert_float_equal(fused.kernels[j].seconds, prof_generic.scalar_s, 1e-12);
  assert_float_equal(fused.kernels[y].launch_s, 0, 0);
  assert_true(fused.kernels[y].memory_s > 0);
  assert_true(fused.kernels[q].launch_s > 0);
  assert_true(alone.kernels[j].launch_s > 0 && alone.kernels[y].launch_s > 0);
  prof_module_free(&fused);
  prof_module_free(&alone);
  unload(&x);
}

// ---- prices -------------------------------------------------------------------------------------
// Padding to the systolic array, and cores without a tile.
static void utilization(void **st) {
  (void)st;
  const prof_device *tpu = prof_device_find("tpu_v5e"), *gpu = prof_device_find("h100");
  prof_product big = {1, 8192, 8192, 8192, .type = HLO_BF16},
               thin = {1, 8192, 8192, 16, .type = HLO_BF16},
               odd = {1, 8192, 8192 + 1, 8192, .type = HLO_BF16},
               tiny = {1, 16, 16, 4096, .type = HLO_BF16};
  assert_true(prof_product_utilization(&big, tpu) > 0.8);
  assert_float_equal(prof_product_utilization(&thin, tpu), 16.0 / 128, 0.05);
  assert_true(prof_product_utilization(&odd, tpu) < prof_product_utilization(&big, tpu));
  assert_true(prof_product_utilization(&big, gpu) > 0.8);
  assert_true(prof_product_utilization(&tiny, gpu) < 0.05);
  for (u32 k = 0; k < prof_device_count; k++) {
    double u = prof_product_utilization(&big, &prof_devices[k]);
    assert_true(u > 0 && u <= 1);
    assert_true(prof_product_peak(&prof_devices[k], HLO_F32) > 0);
    assert_true(prof_product_peak(&prof_devices[k], HLO_F64) > 0);
    assert_true(prof_product_peak(&prof_devices[k], HLO_S8) > 0);
  }
}

// No device is faster than its own roofs, and more work never takes less.
static void roofs(void **st) {
  (void)st;
  for (u32 d = 0; d < prof_device_count; d++) {
    double before = 0;
    for (i64 n = 1 << 10; n <= (i64)1 << 30; n *= 4) {
      char text[256];
      snprintf(text, sizeof text,
               "HloModule m\nENTRY main {\n  p = f32[%lld] parameter(0)\n"
               "  ROOT r = f32[%lld] add(p, p)\n}\n",
               (long long)n, (long long)n);
      loaded x = load(text);
      prof_kernel k;
      prof_estimate_kernel(hlo_find_instr(x.m, "r"), &prof_devices[d], &k);
      assert_true(k.seconds >= before);
      assert_true(k.seconds >= k.launch_s && k.seconds >= k.memory_s && k.seconds >= k.compute_s);
      if (n == (i64)1 << 30)
        assert_true(12.0 * (double)n / k.seconds <= 1.5 * prof_devices[d].bandwidth);
      before = k.seconds;
      unload(&x);
    }
  }
}

// What is added behind a product, in one kernel with it, costs an accelerator little beside it.
static void fused_products(void **st) {
  (void)st;
  loaded x = load("HloModule m\nf {\n  p = bf16[2048,2048] parameter(0)\n"
                  "  q = bf16[2048] parameter(1)\n  d = bf16[2048,2048] dot(p, p), "
                  "lhs_contracting_dims={1}, rhs_contracting_dims={0}\n"
                  "  b = bf16[2048,2048] broadcast(q), dimensions={1}\n"
                  "  ROOT s = bf16[2048,2048] add(d, b)\n}\nENTRY main {\n"
                  "  p = bf16[2048,2048] parameter(0)\n  q = bf16[2048] parameter(1)\n"
                  "  d = bf16[2048,2048] dot(p, p), lhs_contracting_dims={1}, "
                  "rhs_contracting_dims={0}\n  k = bf16[2048,2048] fusion(p, q), kind=kOutput, "
                  "calls=f\n  ROOT t = (bf16[2048,2048], bf16[2048,2048]) tuple(d, k)\n}\n");
  prof_kernel alone, fused;
  prof_estimate_kernel(hlo_find_instr(x.m, "d"), prof_device_find("h100"), &alone);
  prof_estimate_kernel(hlo_find_instr(x.m, "k"), prof_device_find("h100"), &fused);
  assert_true(fused.compute_s >= alone.compute_s && fused.compute_s <= 1.01 * alone.compute_s);
  unload(&x);
}

// ---- around kernels -----------------------------------------------------------------------------
static prof_estimate estimate(const char *text, const char *device) {
  loaded x = load(text);
  prof_module e;
  assert_true(hs_ok(
      prof_estimate_kernels(x.m, prof_device_find(device), &(prof_options){.naive = false}, &e)));
  prof_estimate t = e.total;
  prof_module_free(&e);
  unload(&x);
  return t;
}

static const char *counted_loop(bool known) {
  return known ? "HloModule m\nb {\n  s = (s32[], f32[4096]) parameter(0)\n"
                 "  i = s32[] get-tuple-element(s), index=0\n"
                 "  x = f32[4096] get-tuple-element(s), index=1\n  one = s32[] constant(1)\n"
                 "  j = s32[] add(i, one)\n  y = f32[4096] add(x, x)\n"
                 "  ROOT t = (s32[], f32[4096]) tuple(j, y)\n}\n"
                 "c {\n  s = (s32[], f32[4096]) parameter(0)\n"
                 "  i = s32[] get-tuple-element(s), index=0\n  n = s32[] constant(100)\n"
                 "  ROOT l = pred[] compare(i, n), direction=LT\n}\n"
                 "ENTRY main {\n  p = f32[4096] parameter(0)\n  z = s32[] constant(0)\n"
                 "  t = (s32[], f32[4096]) tuple(z, p)\n"
                 "  ROOT w = (s32[], f32[4096]) while(t), condition=c, body=b\n}\n"
               : "HloModule m\nb {\n  s = f32[4096] parameter(0)\n"
                 "  ROOT y = f32[4096] add(s, s)\n}\n"
                 "c {\n  s = f32[4096] parameter(0)\n  e = f32[1] slice(s), slice={[0:1]}\n"
                 "  r = f32[] reshape(e)\n  n = f32[] constant(100)\n"
                 "  ROOT l = pred[] compare(r, n), direction=LT\n}\n"
                 "ENTRY main {\n  p = f32[4096] parameter(0)\n"
                 "  ROOT w = f32[4096] while(p), condition=c, body=b\n}\n";
}

static void loops(void **st) {
  (void)st;
  prof_estimate known = estimate(counted_loop(true), "h100"),
                unknown = estimate(counted_loop(false), "h100");
  assert_int_equal(known.unknown_loops, 0);
  assert_int_equal(known.kernels, 100 * 2 + 101);
  assert_int_equal(unknown.unknown_loops, 1);
  assert_float_equal(unknown.flops, PROF_GUESSED_TRIPS * (4096.0 + 1) + 1, 0);
}

static double seconds_on(const loaded *x, const char *device, u32 *here) {
  prof_estimate e;
  assert_true(hs_ok(prof_estimate_module(x->m, prof_device_find(device), true, &e)));
  *here = e.here;
  return e.time_s;
}

// On a processor devices run one after the other and meet; elsewhere the time is one device's.
static void devices_here(void **st) {
  (void)st;
  const char *text = "HloModule m%s\na {\n  x = f32[] parameter(0)\n  y = f32[] parameter(1)\n"
                     "  ROOT s = f32[] add(x, y)\n}\n"
                     "ENTRY main {\n  p = f32[65536] parameter(0)\n"
                     "  e = f32[65536] exponential(p)\n"
                     "  ROOT r = f32[65536] %s\n}\n";
  const char *meet = "all-reduce(e), replica_groups={}, to_apply=a";
  char *eight = hs_format(text, ", replica_count=8", meet),
       *apart = hs_format(text, ", replica_count=8", "negate(e)"),
       *one = hs_format(text, "", "negate(e)");
  loaded x = load(eight), y = load(apart), z = load(one);
  u32 here;
  double single = seconds_on(&z, "cpu", &here);
  assert_int_equal(here, 1);
  assert_true(seconds_on(&x, "cpu", &here) > 4 * single + 8 * prof_generic.meeting_s);
  assert_int_equal(here, 8);
  assert_float_equal(seconds_on(&y, "cpu", &here), single, 1e-12F);  // nothing tells them apart
  assert_int_equal(here, 1);
  (void)seconds_on(&x, "h100", &here);
  assert_int_equal(here, 1);
  // XLA's run side by side
  prof_calibration c = prof_generic;
  c.xla = true;
  c.meeting_s = c.run_s = 0;
  prof_device d = prof_device_calibrated(&c);
  prof_estimate e[2];
  for (u32 k = 0; k < 2; k++) {
    d.threads = k + 1;
    assert_true(hs_ok(prof_estimate_module(x.m, &d, false, &e[k])));
  }
  assert_float_equal((float)(e[1].time_s - e[1].fresh_s) * 2, (float)(e[0].time_s - e[0].fresh_s),
                     1e-9F);
  unload(&x), unload(&y), unload(&z);
  hs_free(eight), hs_free(apart), hs_free(one);
}

// A module that is to be sharded and is not partitioned yet is a device's part of it all.
static void not_partitioned_yet(void **st) {
  (void)st;
  const char *text = "HloModule m, num_partitions=8\nENTRY main {\n"
                     "  p = f32[8388608] parameter(0)%s\n  ROOT r = f32[8388608] tanh(p)\n}\n";
  char *cut = hs_format(text, ", sharding={devices=[8]<=[8]}"),
       *same = hs_format(text, ", sharding={replicated}"),
       *last = hs_format(text, ", sharding={devices=[1,8]<=[8] last_tile_dim_replicate}");
  loaded x = load(cut), y = load(same), z = load(last);
  assert_int_equal(prof_module_undivided(x.m), 8);
  assert_int_equal(prof_module_undivided(y.m), 1);
  assert_int_equal(prof_module_undivided(z.m), 1);
  // text from JAX has no number of partitions, but shardings
  loaded unsaid = load(
      "HloModule m\nENTRY main {\n  p = f32[64] parameter(0), "
      "sharding={devices=[2,4]<=[8] last_tile_dim_replicate}\n  ROOT r = f32[64] tanh(p)\n}\n");
  assert_int_equal(prof_module_undivided(unsaid.m), 8);
  assert_int_equal(prof_module_devices(unsaid.m), 8);
  unload(&unsaid);
  prof_estimate e, whole;
  assert_true(hs_ok(prof_estimate_module(x.m, prof_device_find("h100"), false, &e)));
  assert_true(hs_ok(prof_estimate_module(y.m, prof_device_find("h100"), false, &whole)));
  assert_int_equal(e.parts, 8);
  assert_int_equal(whole.parts, 1);
  assert_true(e.time_s > whole.time_s / 9 && e.time_s < whole.time_s / 4);
  assert_int_equal(e.peak_bytes, whole.peak_bytes / 8);
  unload(&x), unload(&y), unload(&z);
  hs_free(cut), hs_free(same), hs_free(last);
}

// A value takes the memory of one that nobody needs any more, and finds it in the cache.
static void memory_is_used_again(void **st) {
  (void)st;
  hs_buf b = {0};
  hs_buf_puts(&b, "HloModule m\nENTRY main {\n  p = f32[] parameter(0)\n"
                  "  v0 = f32[262144] broadcast(p), dimensions={}\n");
  for (u32 k = 1; k < 40; k++) {
    hs_buf_printf(&b, "  v%u = f32[262144] negate(v%u)\n", k, k - 1);
    hs_buf_printf(&b, "  w%u = f32[262144] broadcast(p), dimensions={}\n", k);
    hs_buf_printf(&b, "  x%u = f32[262144] exponential(w%u)\n", k, k);
  }
  hs_buf_puts(&b, "  ROOT r = f32[262144] copy(v39)\n}\n");
  loaded x = load(hs_buf_cstr(&b));
  prof_module e;
  assert_true(hs_ok(
      prof_estimate_kernels(x.m, prof_device_find("cpu"), &(prof_options){.naive = true}, &e)));
  const hlo_instr *first = hlo_find_instr(x.m, "v0"), *late = hlo_find_instr(x.m, "w39");
  assert_true(e.kernels[late->id].seconds <= e.kernels[first->id].seconds);
  prof_module_free(&e);
  unload(&x);
  hs_buf_free(&b);
}

// Of two calibrations the better figures count.
static void better_of_two(void **st) {
  (void)st;
  prof_calibration a = prof_generic, b = prof_generic;
  a.kernel_s = 2e-9, b.kernel_s = 1e-9;
  a.row_s = 1e-12, b.row_s = 2e-12;
  b.stream[0].y[0] *= 2, a.stream[0].y[1] *= 3;
  prof_calibration_improve(&a, &b);
  assert_true(a.kernel_s <= b.kernel_s);
  assert_true(a.row_s <= 1e-12);
  assert_true(a.stream[0].y[0] >= b.stream[0].y[0]);
  assert_true(a.stream[0].y[1] > 2 * prof_generic.stream[0].y[1]);
}

// A collective that runs beside kernels costs what they do not hide.
static void overlap(void **st) {
  (void)st;
  const char *form =
      "HloModule m, replica_count=8\n" ADD "ENTRY main {\n  p = f32[67108864] parameter(0)\n"
      "  q = f32[8192,8192] parameter(1)\n"
      "%s  k = f32[8192,8192] dot(q, q), lhs_contracting_dims={1}, "
      "rhs_contracting_dims={0}\n%s"
      "  ROOT t = (f32[67108864], f32[8192,8192]) tuple(d, k)\n}\n";
  char sync[1024], async[1024];
  snprintf(sync, sizeof sync, form,
           "  d = f32[67108864] all-reduce(p), replica_groups={}, to_apply=a\n", "");
  snprintf(async, sizeof async, form,
           "  s = f32[67108864] all-reduce-start(p), replica_groups={}, to_apply=a\n",
           "  d = f32[67108864] all-reduce-done(s)\n");
  prof_estimate one = estimate(sync, "h100"), two = estimate(async, "h100");
  assert_int_equal(one.devices, 8);
  assert_true(one.network_s > 0);
  assert_float_equal(one.hidden_s, 0, 0);
  assert_float_equal(one.network_s, two.network_s, 1e-12);
  assert_true(two.hidden_s > 0 && two.hidden_s <= two.network_s * 1.0001);
  assert_true(two.time_s < one.time_s);
}

static void collectives(void **st) {
  (void)st;
  const prof_device *d = prof_device_find("h100");
  double bytes = 1e9, ring = 2 * 7.0 / 8 * bytes / d->link_bandwidth + 14 * d->link_s;
  assert_float_equal(prof_collective_seconds(PROF_ALL_REDUCE, bytes, 8, d), ring, 1e-9F);
  assert_float_equal(prof_collective_seconds(PROF_ALL_REDUCE, bytes, 1, d), 0, 0);
  // few bytes among many devices: a tree
  assert_float_equal(prof_collective_seconds(PROF_ALL_REDUCE, 4, 8, d), (float)(6 * d->link_s),
                     1e-9F);
  // beyond the node the network binds
  assert_true(prof_collective_seconds(PROF_ALL_GATHER, bytes, 16, d) >
              5 * prof_collective_seconds(PROF_ALL_GATHER, bytes, 8, d));
}

// Arrays of terabytes are priced and never made.
static void terabytes(void **st) {
  (void)st;
  prof_estimate e = estimate("HloModule m\nENTRY main {\n  p = f32[1048576,1048576] parameter(0)\n"
                             "  ROOT r = f32[1048576,1048576] add(p, p)\n}\n",
                             "h200");
  assert_true(e.peak_bytes > (i64)8e12 && e.time_s > 2);
}

// ---- calibrations -------------------------------------------------------------------------------
static void calibration_text(void **st) {
  (void)st;
  prof_calibration c = prof_generic, back;
  snprintf(c.key, sizeof c.key, "a machine");
  c.kernel_s = 1.25e-7;
  c.op_s[HLO_TANH][PROF_F64] = 3e-9;
  hs_buf text = {0};
  prof_calibration_print(&c, &text);
  assert_true(hs_ok(prof_calibration_parse(hs_buf_cstr(&text), &back)));
  assert_string_equal(back.key, "a machine");
  assert_float_equal(back.kernel_s, 1.25e-7, 1e-16);
  assert_float_equal(back.op_s[HLO_TANH][PROF_F64], 3e-9, 1e-18);
  assert_float_equal(prof_curve_at(&back.stream[1], 1e6), prof_curve_at(&c.stream[1], 1e6), 1e3);
  // whatever is cut off or damaged is refused as a whole
  for (size_t n = 0; n + 1 < text.n; n += 37) {
    char *cut = hs_format("%.*s", (int)n, hs_buf_cstr(&text));
    hs_status s = prof_calibration_parse(cut, &back);
    assert_false(hs_ok(s));
    hs_status_drop(s);
    hs_free(cut);
  }
  static const char *const bad[] = {"figure kernel_s -1\nend\n",
                                    "figure kernel_s nan\nend\n",
                                    "curve stream one 5:1 4:1\nend\n",
                                    "op tanh f99 1\nend\n",
                                    "nonsense\nend\n",
                                    "threads 0\nend\n"};
  for (size_t k = 0; k < HS_COUNT(bad); k++) {
    hs_status s = prof_calibration_parse(bad[k], &back);
    assert_false(hs_ok(s));
    hs_status_drop(s);
  }
  // of an earlier version: what its figures mean may have changed, and the error says which it is
  hs_status s = prof_calibration_parse("hlosh calibration 2\nend\n", &back);
  assert_false(hs_ok(s));
  assert_non_null(strstr(s.err->message, "format 2"));
  hs_status_drop(s);
  hs_buf_free(&text);
}

// Files from before have no curves of fresh memory and of orders: what they say stays the same.
static void older_calibration(void **st) {
  (void)st;
  prof_calibration c = prof_generic, back;
  snprintf(c.key, sizeof c.key, "a machine");
  c.strided_s = 2e-9, c.row_s = 3e-10, c.xla = true;
  hs_buf text = {0}, old = {0};
  prof_calibration_print(&c, &text);
  for (const char *l = hs_buf_cstr(&text); *l; l += strcspn(l, "\n") + 1) {
    static const char *const later[] = {"curve fresh", "curve transposes", "figure windowed_s",
                                        "figure combined_s", "figure filter_s"};
    bool is_later = false;
    for (size_t k = 0; k < HS_COUNT(later); k++)
      is_later |= strncmp(l, later[k], strlen(later[k])) == 0;
    if (!is_later) hs_buf_put(&old, l, strcspn(l, "\n") + 1);
  }
  assert_true(hs_ok(prof_calibration_parse(hs_buf_cstr(&old), &back)));
  assert_true(back.xla);
  assert_float_equal((float)(1 / prof_curve_at(&back.transposes[0], 4096)), 2e-9f, 1e-15f);
  assert_float_equal(back.windowed_s, 3e-10, 1e-16);
  assert_true(prof_curve_at(&back.fresh[1], 1e9) >= PROF_NOTHING_FRESH);
  hs_buf_free(&text);
  hs_buf_free(&old);
}

// Results and temporaries that a run takes anew are paid for by the block.
static void fresh_memory(void **st) {
  (void)st;
  loaded x = load("HloModule m\nENTRY main {\n  p = f32[1048576] parameter(0)\n"
                  "  q = f32[1048576] negate(p)\n  s = f32[256] slice(p), slice={[0:256]}\n"
                  "  ROOT t = (f32[1048576], f32[256]) tuple(q, s)\n}\n");
  prof_calibration c = prof_generic;
  c.fresh[0] = c.fresh[1] = (prof_curve){2, {1 << 20, 1 << 21}, {1e16, 1e9}};
  prof_device d = prof_device_calibrated(&c), kept = prof_device_calibrated(&prof_generic);
  prof_estimate with, without;
  assert_true(hs_ok(prof_estimate_module(x.m, &d, false, &with)));
  assert_true(hs_ok(prof_estimate_module(x.m, &kept, false, &without)));
  assert_float_equal(without.fresh_s, 0, 0);
  assert_float_equal((float)with.fresh_s, (float)(4194304 / 1e9), 1e-6f);
  assert_float_equal((float)(with.time_s - without.time_s), (float)with.fresh_s, 1e-9f);
  unload(&x);
}

static void curves(void **st) {
  (void)st;
  prof_curve c = {0};
  assert_float_equal(prof_curve_at(&c, 1), 0, 0);
  prof_curve_add(&c, 10, 1);
  prof_curve_add(&c, 1000, 100);
  assert_float_equal(prof_curve_at(&c, 1), 1, 0);
  assert_float_equal(prof_curve_at(&c, 100), 10, 1e-9);
  assert_float_equal(prof_curve_at(&c, 1e6), 100, 0);
}

// ---- numbers for people -------------------------------------------------------------------------
static void units(void **st) {
  (void)st;
  char b[32];
  assert_string_equal(prof_time_text(b, 0), "0 s");
  assert_string_equal(prof_time_text(b, 1.5e-9), "1.5 ns");
  assert_string_equal(prof_time_text(b, 0.0245), "24.5 ms");
  assert_string_equal(prof_time_text(b, 0.9999), "1 s");
  assert_string_equal(prof_time_text(b, 1.47e3), "24.5 min");
  assert_string_equal(prof_time_text(b, -1.47e3), "-24.5 min");
  assert_string_equal(prof_time_text(b, 2e4), "5.56 h");
  assert_string_equal(prof_time_text(b, 1e7), "116 days");
  assert_string_equal(prof_time_text(b, NAN), "-");
  assert_string_equal(prof_bytes_text(b, 858e9), "858 GB");
  assert_string_equal(prof_bytes_text(b, 999.6e3), "1.00 MB");
  assert_string_equal(prof_bytes_text(b, 12), "12 B");
  assert_string_equal(prof_bytes_text(b, 0x1p63), ">= 9.22 EB");
  assert_string_equal(prof_bytes_delta(b, -1376256), "-1.38 MB");
  assert_string_equal(prof_bytes_delta(b, 0), "0");
  assert_string_equal(prof_ratio_text(b, 2400), "2400x");
  assert_string_equal(prof_ratio_text(b, 1.034), "1.03x");
  assert_string_equal(prof_ratio_text(b, 0.0123), "0.0123x");
  assert_string_equal(prof_ratio_text(b, 2.4e7), "24.0Mx");
  assert_string_equal(prof_about_ratio(b, 4.74), "~4.7x");
  assert_string_equal(prof_about_ratio(b, 0.271), "~0.27x");
  assert_string_equal(prof_about_ratio(b, 187), "~190x");
  assert_string_equal(prof_about_ratio(b, 2e7), "over 1000000x");
  char noisy[128];
  assert_string_equal(prof_noisy_text(noisy, (prof_interval){1.6, 1.31, 1.824}),
                      "faster, by how much is too noisy to say (between 1.3x and 1.8x)");
  assert_string_equal(prof_noisy_text(noisy, (prof_interval){0.5, 0.413, 0.92}),
                      "slower, by how much is too noisy to say (between 0.41x and 0.92x)");
  assert_string_equal(prof_noisy_text(noisy, (prof_interval){2, 0.67, 12.1}),
                      "too noisy to say (between 0.67x and 12x)");
  assert_string_equal(prof_about_ratio(b, 0), "-");
  for (double v = 1e-12; v < 1e24; v *= 3.7) {
    assert_null(strstr(prof_time_text(b, v), "e+"));
    assert_null(strstr(prof_ratio_text(b, v), "e"));
    assert_null(strstr(prof_bytes_text(b, v), "e"));
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(evaluations),
      cmocka_unit_test(sharing),
      cmocka_unit_test(products),
      cmocka_unit_test(cheaper_than_they_look),
      cmocka_unit_test(rows_and_widths),
      cmocka_unit_test(inlined_in_loops),
      cmocka_unit_test(utilization),
      cmocka_unit_test(roofs),
      cmocka_unit_test(fused_products),
      cmocka_unit_test(loops),
      cmocka_unit_test(overlap),
      cmocka_unit_test(collectives),
      cmocka_unit_test(orders),
      cmocka_unit_test(windows_in_loops),
      cmocka_unit_test(devices_here),
      cmocka_unit_test(not_partitioned_yet),
      cmocka_unit_test(memory_is_used_again),
      cmocka_unit_test(better_of_two),
      cmocka_unit_test(terabytes),
      cmocka_unit_test(calibration_text),
      cmocka_unit_test(older_calibration),
      cmocka_unit_test(fresh_memory),
      cmocka_unit_test(curves),
      cmocka_unit_test(units),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
