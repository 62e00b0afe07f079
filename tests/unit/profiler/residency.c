// residency.c: where kernels find their arrays, how far elements lie apart, and into how many parts
// a loop is cut: what of the estimate depends on a program's surroundings and not on its work.
#include "tests/unit/profiler/loaded.h"

#include <stdio.h>

#include "profiler/model/calibration.h"
#include "profiler/model/prof.h"
#include "profiler/model/residency.h"

// ---- residency ----------------------------------------------------------------------------------
enum { S = 4096, MOST = 16 };  // bytes of an array; places

static u32 touch_as(const loaded *x, prof_residency *r, const char *name, prof_sharing by,
                    prof_place *p) {
  const hlo_instr *i = hlo_find_instr(x->m, name);
  const hlo_cost *c = &x->cost.by_id[i->id];
  return prof_residency_touch(r, i, c->bytes_read, c->bytes_written, by, MOST, p);
}

static u32 touch(const loaded *x, prof_residency *r, const char *name, prof_place *p) {
  return touch_as(x, r, name, PROF_BY_ONE, p);
}

// The plan that the simulation reads until its end: of one test at a time.
static hlo_live_plan *plan;

static prof_residency *simulated(const loaded *x, bool naive, double between) {
  prof_residency *r;
  assert_null(plan);
  assert_true(hs_ok(hlo_live_plan_new(x->m, naive, &plan)));
  prof_device d = prof_device_calibrated(&prof_generic);
  assert_true(hs_ok(prof_residency_new(plan, x->m->entry, x->cost.by_id, between, &d, &r)));
  return r;
}

static void end(prof_residency *r) {
  prof_residency_free(r);
  hlo_live_plan_free(plan);
  plan = NULL;
}

static const char *const three = "HloModule m\nENTRY main {\n  p = f32[1024] parameter(0)\n"
                                 "  a = f32[1024] negate(p)\n  b = f32[1024] abs(a)\n"
                                 "  ROOT c = f32[1024] add(b, p)\n}\n";

// Each array in memory of its own. Before `a` runs, the run before has touched p, b and c last, and
// a before these.
static void distances(void **st) {
  (void)st;
  loaded x = load(three);
  prof_place p[MOST];
  prof_residency *r = simulated(&x, true, 0);
  assert_int_equal(touch(&x, r, "a", p), 2);
  assert_false(p[0].written);
  assert_float_equal(p[0].bytes, S, 0);
  assert_float_equal(p[0].distance, (3 + 2) * S / 2.0, 0);  // half of those, half of its own
  assert_true(p[1].written);
  assert_float_equal(p[1].distance, 3 * S + (1 + 2) * S / 2.0, 0);
  assert_int_equal(touch(&x, r, "b", p), 2);
  assert_float_equal(p[0].distance, (2 + 2) * S / 2.0, 0);          // just written
  assert_float_equal(p[1].distance, 2 * S + (2 + 2) * S / 2.0, 0);  // p went ahead
  end(r);
  unload(&x);
}

// A result in the place of an operand that nobody needs any more is as near as that, and written
// where the kernel itself reads.
static void in_place(void **st) {
  (void)st;
  loaded x = load(three);
  prof_place p[MOST];
  prof_residency *r = simulated(&x, false, 0);
  touch(&x, r, "a", p);
  assert_int_equal(touch(&x, r, "b", p), 2);
  assert_float_equal(p[0].distance, p[1].distance, 0);
  assert_float_equal(p[0].over, 0, 0);
  assert_float_equal(p[1].over, 1, 0);
  end(r);
  unload(&x);
}

// One plan answers for all computations of its module what a fresh one does for each.
static void one_plan(void **st) {
  (void)st;
  loaded x = load("HloModule m\nbody {\n  s = (s32[], f32[1024]) parameter(0)\n"
                  "  i = s32[] get-tuple-element(s), index=0\n  one = s32[] constant(1)\n"
                  "  n = s32[] add(i, one)\n  v = f32[1024] get-tuple-element(s), index=1\n"
                  "  e = f32[1024] exponential(v)\n  f = f32[1024] add(e, v)\n"
                  "  ROOT r = (s32[], f32[1024]) tuple(n, f)\n}\n"
                  "cond {\n  s = (s32[], f32[1024]) parameter(0)\n"
                  "  i = s32[] get-tuple-element(s), index=0\n  ten = s32[] constant(10)\n"
                  "  ROOT less = pred[] compare(i, ten), direction=LT\n}\n"
                  "ENTRY main {\n  z = s32[] constant(0)\n  p = f32[1024] parameter(0)\n"
                  "  q = f32[1024] negate(p)\n  t = (s32[], f32[1024]) tuple(z, q)\n"
                  "  w = (s32[], f32[1024]) while(t), condition=cond, body=body\n"
                  "  ROOT out = f32[1024] get-tuple-element(w), index=1\n}\n");
  for (int naive = 0; naive < 2; naive++) {
    hlo_memory one, other;
    assert_true(hs_ok(hlo_live_plan_new(x.m, naive, &plan)));
    for (int again = 0; again < 2; again++) {
      assert_true(hs_ok(hlo_live_plan_memory(plan, &one)));
      assert_true(hs_ok(hlo_memory_estimate(x.m, naive, &other)));
      assert_true(one.peak_bytes == other.peak_bytes && one.temp_bytes == other.temp_bytes);
      assert_int_equal(one.peak_at, other.peak_at);
      hlo_for_each_comp(c, x.m) {
        hs_arena a = {0};
        hlo_live l, fresh;
        assert_true(hs_ok(hlo_live_plan_ranges(plan, c, &a, &l)));
        assert_true(hs_ok(hlo_live_ranges(c, naive, &a, &fresh)));
        assert_int_equal(l.n, fresh.n);
        assert_int_equal(l.nbuffers, fresh.nbuffers);
        assert_memory_equal(l.inside, fresh.inside, l.n * sizeof *l.inside);
        for (u32 b = 0; b < l.nbuffers; b++)
          assert_true(l.buffers[b].first == fresh.buffers[b].first &&
                      l.buffers[b].last == fresh.buffers[b].last &&
                      l.buffers[b].bytes == fresh.buffers[b].bytes);
        hs_arena_free(&a);
      }
    }
    // an estimate that is given a plan and costs says what it says without
    prof_device d = prof_device_calibrated(&prof_generic);
    const prof_options given = {.naive = naive, .cost = x.cost.by_id, .plan = plan};
    prof_module with;
    prof_estimate without;
    assert_true(hs_ok(prof_estimate_kernels(x.m, &d, &given, &with)));
    assert_true(hs_ok(prof_estimate_module(x.m, &d, naive, &without)));
    assert_true(with.total.time_s > 0 && with.total.time_s == without.time_s);
    prof_module_free(&with);
    hlo_live_plan_free(plan);
    plan = NULL;
  }
  unload(&x);
}

// What is called once comes back after the rest of the run; a body comes back at once.
static void between_calls(void **st) {
  (void)st;
  loaded x = load(three);
  prof_place near[MOST], far[MOST];
  const double between = 1e6;
  prof_residency *r = simulated(&x, false, 0);
  touch(&x, r, "a", near);
  end(r);
  r = simulated(&x, false, between);
  touch(&x, r, "a", far);
  assert_float_equal(far[0].distance, (float)(near[0].distance + between), 0);
  end(r);
  unload(&x);
}

// What is too large to have a place in memory is not simulated, and estimated all the same.
static void too_large(void **st) {
  (void)st;
  loaded x = load("HloModule m\nENTRY main {\n  p = f32[1048576,1048576,65536] parameter(0)\n"
                  "  ROOT a = f32[1048576,1048576,65536] negate(p)\n}\n");
  prof_residency *r = simulated(&x, false, 0);
  assert_null(r);
  end(r);
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

// ---- threads ------------------------------------------------------------------------------------
// What all threads wrote is handed to the one that reads it, once; then it lies both ways, until
// somebody writes it.
static void handed(void **st) {
  (void)st;
  loaded x = load(three);
  prof_place p[MOST];
  prof_residency *r = simulated(&x, true, 0);
  touch_as(&x, r, "a", PROF_IN_RUNS, p);
  touch_as(&x, r, "b", PROF_IN_RUNS, p);
  assert_float_equal(p[0].handed, 0, 0);
  touch_as(&x, r, "b", PROF_BY_ONE, p);
  assert_float_equal(p[0].handed, 1, 0);
  assert_float_equal(p[1].handed, 1, 0);  // and that is taken from them
  touch_as(&x, r, "b", PROF_BY_ONE, p);
  assert_float_equal(p[0].handed, 0, 0);
  assert_float_equal(p[1].handed, 0, 0);
  touch_as(&x, r, "b", PROF_IN_RUNS, p);
  assert_float_equal(p[0].handed, 0, 0);
  touch_as(&x, r, "b", PROF_ACROSS, p);
  assert_float_equal(p[0].handed, 1, 0);
  end(r);
  unload(&x);
}

// In the second caches of two threads together a matrix is multiplied at their rate; what one of
// them had before comes from the cache that both share.
static void own_parts(void **st) {
  (void)st;
  prof_calibration c = prof_generic;
  for (u32 k = 0; k < 2; k++) {
    c.load[k] = c.stream[k] = (prof_curve){0};
    prof_curve_add(&c.load[k], 4e6, k ? 200e9 : 100e9);
    prof_curve_add(&c.load[k], 5e6, k ? 20e9 : 10e9);
    c.stream[k] = c.load[k];
  }
  prof_device d = prof_device_calibrated(&c);
  d.threads = 2;
  prof_work w = {.points = 5e5, .row = 5e5, .read = 2e6};
  prof_kernel own, other;
  prof_place p = {2e6, 2e6, false, 0, 0};
  prof_price_cpu(&w, &d, 1, &p, &own);
  p.handed = 1;
  prof_price_cpu(&w, &d, 1, &p, &other);
  assert_float_equal((float)own.memory_s, 2e6f / 200e9f, 1e-9f);
  assert_float_equal((float)other.memory_s, 1e6f / 200e9f + 1e6f / 20e9f, 1e-9f);
  // nothing is read before it is written over
  w.written = 2e6;
  prof_place both[] = {{2e6, 2e6, false, 0, 0}, {2e6, 2e6, true, 0, 0}};
  prof_price_cpu(&w, &d, 2, both, &own);
  both[1].over = 1;
  prof_price_cpu(&w, &d, 2, both, &other);
  assert_true(other.memory_s < 0.8 * own.memory_s);
}

// ---- chunks -------------------------------------------------------------------------------------
static double started(double bytes, bool single) {
  prof_device d = prof_device_calibrated(&prof_generic);
  prof_work w = {.points = bytes / 8,
                 .row = bytes / 8,
                 .read = bytes / 2,
                 .written = bytes / 2,
                 .single = single};
  prof_place p = {bytes, bytes, false, 0, 0};
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
      cmocka_unit_test(distances),     cmocka_unit_test(in_place),  cmocka_unit_test(one_plan),
      cmocka_unit_test(between_calls), cmocka_unit_test(too_large), cmocka_unit_test(apart),
      cmocka_unit_test(powers_of_two), cmocka_unit_test(chunks),    cmocka_unit_test(handed),
      cmocka_unit_test(own_parts),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
