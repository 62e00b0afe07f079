// residency.c: where kernels find their arrays, how far elements lie apart, and into how many parts
// a loop is cut: what of the estimate depends on a program's surroundings and not on its work.
#include "tests/unit/profiler/loaded.h"

#include <stdio.h>

#include "profiler/model/calibration.h"
#include "profiler/model/prof.h"
#include "profiler/model/residency.h"

// ---- residency ----------------------------------------------------------------------------------
enum { S = 4096, MOST = 16 };  // bytes of an array; places

static u32 touch(const loaded *x, prof_residency *r, const char *name, prof_place *p) {
  const hlo_instr *i = hlo_find_instr(x->m, name);
  const hlo_cost *c = &x->cost.by_id[i->id];
  return prof_residency_touch(r, i, c->bytes_read, c->bytes_written, MOST, p);
}

static const char *const three = "HloModule m\nENTRY main {\n  p = f32[1024] parameter(0)\n"
                                 "  a = f32[1024] negate(p)\n  b = f32[1024] abs(a)\n"
                                 "  ROOT c = f32[1024] add(b, p)\n}\n";

// Each array in memory of its own. Before `a` runs, the run before has touched p, b and c last, and
// a before these.
static void distances(void **st) {
  (void)st;
  loaded x = load(three);
  prof_residency *r;
  prof_place p[MOST];
  assert_true(hs_ok(prof_residency_new(x.m->entry, true, x.cost.by_id, 0, &r)));
  assert_int_equal(touch(&x, r, "a", p), 2);
  assert_false(p[0].written);
  assert_float_equal(p[0].bytes, S, 0);
  assert_float_equal(p[0].distance, (3 + 2) * S / 2.0, 0);  // half of those, half of its own
  assert_true(p[1].written);
  assert_float_equal(p[1].distance, 3 * S + (1 + 2) * S / 2.0, 0);
  assert_int_equal(touch(&x, r, "b", p), 2);
  assert_float_equal(p[0].distance, (2 + 2) * S / 2.0, 0);          // just written
  assert_float_equal(p[1].distance, 2 * S + (2 + 2) * S / 2.0, 0);  // p went ahead
  prof_residency_free(r);
  unload(&x);
}

// A result in the place of an operand that nobody needs any more is as near as that.
static void in_place(void **st) {
  (void)st;
  loaded x = load(three);
  prof_residency *r;
  prof_place p[MOST];
  assert_true(hs_ok(prof_residency_new(x.m->entry, false, x.cost.by_id, 0, &r)));
  touch(&x, r, "a", p);
  assert_int_equal(touch(&x, r, "b", p), 2);
  assert_float_equal(p[0].distance, p[1].distance, 0);
  prof_residency_free(r);
  unload(&x);
}

// What is called once comes back after the rest of the run; a body comes back at once.
static void between_calls(void **st) {
  (void)st;
  loaded x = load(three);
  prof_residency *r;
  prof_place near[MOST], far[MOST];
  const double between = 1e6;
  assert_true(hs_ok(prof_residency_new(x.m->entry, false, x.cost.by_id, 0, &r)));
  touch(&x, r, "a", near);
  prof_residency_free(r);
  assert_true(hs_ok(prof_residency_new(x.m->entry, false, x.cost.by_id, between, &r)));
  touch(&x, r, "a", far);
  assert_float_equal(far[0].distance, (float)(near[0].distance + between), 0);
  prof_residency_free(r);
  unload(&x);
}

// What is too large to have a place in memory is not simulated, and estimated all the same.
static void too_large(void **st) {
  (void)st;
  loaded x = load("HloModule m\nENTRY main {\n  p = f32[1048576,1048576,65536] parameter(0)\n"
                  "  ROOT a = f32[1048576,1048576,65536] negate(p)\n}\n");
  prof_residency *r;
  assert_true(hs_ok(prof_residency_new(x.m->entry, false, x.cost.by_id, 0, &r)));
  assert_null(r);
  prof_device d = prof_device_calibrated(&prof_generic);
  prof_estimate e;
  assert_true(hs_ok(prof_estimate_module(x.m, &d, false, &e)));
  assert_true(e.time_s > 1e6);
  unload(&x);
}

// ---- orders -------------------------------------------------------------------------------------
// What counts is where elements are stored one after the other, that an array is loaded once
// however many read it, and that a value inside of a fusion lies nowhere.
static void apart(void **st) {
  (void)st;
  loaded x = load("HloModule m\nf {\n  p = f32[784,512]{0,1} parameter(0)\n"
                  "  q = f32[784,512]{1,0} parameter(1)\n  n = f32[784,512]{0,1} negate(p)\n"
                  "  a = f32[784,512]{0,1} add(n, p)\n"
                  "  ROOT r = f32[784,512]{1,0} subtract(q, a)\n}\n"
                  "ENTRY main {\n  p = f32[784,512]{0,1} parameter(0)\n"
                  "  q = f32[784,512]{1,0} parameter(1)\n"
                  "  k = f32[784,512]{1,0} fusion(p, q), kind=kLoop, calls=f\n"
                  "  s = f32[392,512] slice(q), slice={[0:784:2], [0:512]}\n"
                  "  g = f32[784,256] slice(q), slice={[0:784], [0:512:2]}\n"
                  "  ROOT t = (f32[784,512]{1,0}, f32[392,512], f32[784,256]) tuple(k, s, g)\n}\n");
  prof_work w = work_of(&x, "k");
  assert_float_equal(w.strided, 784 * 512, 0);
  assert_float_equal(w.pitch, 784 * 4, 0);
  assert_float_equal(w.store_pitch, 512 * 4, 0);
  // whole rows are left out, or every other element: the lines are read all the same
  w = work_of(&x, "s");
  assert_float_equal(w.read, 392 * 512 * 4, 0);
  assert_float_equal(w.gapped, 0, 0);
  w = work_of(&x, "g");
  assert_float_equal(w.read, 784 * 512 * 4, 0);
  assert_float_equal(w.gapped, 784 * 256, 0);
  unload(&x);
}

// Rows that lie a power of two apart fall into few sets of a cache.
static void powers_of_two(void **st) {
  (void)st;
  prof_calibration c = prof_generic;
  for (u32 k = 0; k < 2; k++) {
    c.transposes[k] = (prof_curve){0};
    prof_curve_add(&c.transposes[k], 64, 8e9);
    prof_curve_add(&c.transposes[k], 4096, 1e9);
  }
  prof_device d = prof_device_calibrated(&c);
  double s[2];
  for (u32 k = 0; k < 2; k++) {
    prof_work w = {
        .points = 1e4, .row = 1e4, .strided = 1e4, .pitch = 64, .store_pitch = k ? 4096 : 4032};
    prof_kernel out;
    prof_price_cpu(&w, &d, 0, NULL, &out);
    s[k] = out.compute_s;
  }
  assert_float_equal(s[0] * 8, s[1], 1e-12);
}

// ---- chunks -------------------------------------------------------------------------------------
static double started(double bytes, bool single) {
  prof_device d = prof_device_calibrated(&prof_generic);
  prof_work w = {.points = bytes / 8,
                 .row = bytes / 8,
                 .read = bytes / 2,
                 .written = bytes / 2,
                 .single = single};
  prof_place p = {bytes, bytes, false};
  prof_kernel k;
  prof_price_cpu(&w, &d, 1, &p, &k);
  return k.launch_s - prof_generic.kernel_s;
}

// A loop is cut by the bytes it moves, not by how long that takes: from 40 us of a tenth of a
// nanosecond each. One result for all is cut later.
static void chunks(void **st) {
  (void)st;
  assert_float_equal(started(3.9e5, false), 0, 0);
  assert_float_equal(started(4.1e5, false), prof_generic.parallel_s, 1e-15);
  assert_float_equal(started(7.9e5, true), 0, 0);
  assert_float_equal(started(8.1e5, true), prof_generic.parallel_s, 1e-15);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(distances), cmocka_unit_test(in_place), cmocka_unit_test(between_calls),
      cmocka_unit_test(too_large), cmocka_unit_test(apart),    cmocka_unit_test(powers_of_two),
      cmocka_unit_test(chunks),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
