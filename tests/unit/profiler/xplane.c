// xplane.c: profiles of XLA as they are read: what nests, what a run is, which lines count; what
// was written is read again; damage is a diagnostic.
#include "profiler/xplane.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>

#include "core/proto/wire.h"

static void near(double got, double want) { assert_true(fabs(got - want) < 1e-9 * fabs(want)); }

static void put_name(hs_buf *b, u32 map, i64 id, const char *name) {
  size_t entry = pb_begin(b);
  pb_put_int(b, 1, id);
  size_t value = pb_begin(b);
  pb_put_int(b, 1, id);
  pb_put_bytes(b, 2, name, strlen(name));
  pb_end(b, 2, value);
  pb_end(b, map, entry);
}

// An event of a line: kind, times in us; with a module number as statistic 2, and a run.
static void put_event(hs_buf *b, i64 kind, i64 at_us, i64 us, i64 program, i64 run) {
  size_t e = pb_begin(b);
  pb_put_int(b, 1, kind);
  pb_put_int(b, 2, at_us * 1000000);
  pb_put_int(b, 3, us * 1000000);
  size_t s;
  if (program) s = pb_begin(b), pb_put_int(b, 1, 2), pb_put_int(b, 3, program), pb_end(b, 4, s);
  if (run) s = pb_begin(b), pb_put_int(b, 1, 3), pb_put_int(b, 4, run), pb_end(b, 4, s);
  pb_end(b, 4, e);
}

static size_t begin_line(hs_buf *b, const char *name) {
  size_t line = pb_begin(b);
  pb_put_bytes(b, 2, name, strlen(name));
  return line;
}

static void put_kinds(hs_buf *b) {
  put_name(b, 4, 1, "%while.1 = (s32[]) while(p)");
  put_name(b, 4, 2, "fusion.2");
  put_name(b, 4, 3, "jit_f(7)");
  put_name(b, 5, 1, "hlo_op");
  put_name(b, 5, 2, "program_id");
  put_name(b, 5, 3, "run_id");
}

static prof_xspace read_back(hs_buf *plane) {
  hs_buf space = {0};
  pb_put_bytes(&space, 1, plane->p, plane->n);
  assert_true(prof_is_xspace(space.p, space.n));
  prof_xspace x;
  hs_status s = prof_xspace_read(space.p, space.n, "test", &x);
  assert_true(hs_ok(s));
  hs_buf_free(&space);
  hs_buf_free(plane);
  return x;
}

// As TPUs have it: operations on a line of their own, named by their text; loops enclose their
// bodies; executions of modules on another line, none of them at the end of the last run.
static void loops_do_not_count_twice(void **state) {
  (void)state;
  hs_buf p = {0};
  pb_put_bytes(&p, 2, "/device:TPU:0", 13);
  size_t line = begin_line(&p, "XLA Modules");
  put_event(&p, 3, 0, 100, 0, 0);
  put_event(&p, 3, 200, 100, 0, 0);
  pb_end(&p, 3, line);
  line = begin_line(&p, "XLA Ops");
  for (i64 run = 0; run < 2; run++) {
    put_event(&p, 1, 200 * run + 10, 50, 7, 0);
    put_event(&p, 2, 200 * run + 10, 20, 7, 0);
    put_event(&p, 2, 200 * run + 30, 25, 7, 0);
  }
  pb_end(&p, 3, line);
  line = begin_line(&p, "Stream");  // what the line of operations has is not counted again
  put_event(&p, 2, 10, 20, 7, 0);
  pb_end(&p, 3, line);
  put_kinds(&p);
  prof_xspace x = read_back(&p);
  assert_int_equal(x.nprograms, 1);
  const prof_xprogram *f = &x.programs[0];
  assert_int_equal(f->id, 7);
  assert_string_equal(f->device, "/device:TPU:0");
  assert_int_equal(f->rec->nkernels, 2);
  assert_int_equal(f->rec->nruns, 2);
  assert_string_equal(f->kernels[0], "while.1");
  assert_string_equal(f->kernels[1], "fusion.2");
  near(f->rec->ms[0], 0.005);
  near(f->rec->ms[1], 0.045);
  near(f->rec->run_ms[0], 0.05);
  assert_int_equal(f->rec->calls[1], 2);
  assert_int_equal(f->rec->nevents, 3);
  near(f->seconds, 100e-6);
  prof_xspace_free(&x);
}

static void put_op(hs_buf *b, i64 at_us, i64 us, const char *op, i64 run) {
  size_t e = pb_begin(b), s;
  pb_put_int(b, 1, 2);
  pb_put_int(b, 2, at_us * 1000000);
  pb_put_int(b, 3, us * 1000000);
  s = pb_begin(b), pb_put_int(b, 1, 1), pb_put_bytes(b, 5, op, strlen(op)), pb_end(b, 4, s);
  if (run) s = pb_begin(b), pb_put_int(b, 1, 3), pb_put_int(b, 4, run), pb_end(b, 4, s);
  pb_end(b, 4, e);
}

// As on a CPU: threads are lines, runs have numbers; the last run was cut by the end of the
// recording. Without numbers a run begins with the first operation.
static void runs_are_told_apart(void **state) {
  (void)state;
  for (i64 numbered = 0; numbered < 2; numbered++) {
    hs_buf p = {0};
    pb_put_bytes(&p, 2, "/host:CPU", 9);
    size_t line = begin_line(&p, "thread 1");
    for (i64 run = 0; run < 4; run++) put_op(&p, 100 * run, 10, "dot.1", numbered * (90 - run));
    pb_end(&p, 3, line);
    line = begin_line(&p, "thread 2");
    for (i64 run = 0; run < 3; run++) put_op(&p, 100 * run + 5, 30, "add.2", numbered * (90 - run));
    pb_end(&p, 3, line);
    put_kinds(&p);
    prof_xspace x = read_back(&p);
    assert_int_equal(x.nprograms, 1);
    const prof_recording *r = x.programs[0].rec;
    assert_int_equal(r->nruns, 3);
    assert_int_equal(x.programs[0].left_out, 1);
    near(r->run_ms[2], 0.035);
    near(r->ms[5], 0.03);
    assert_int_equal(r->calls[0], 1);
    prof_xspace_free(&x);
  }
}

static void what_is_written_is_read(void **state) {
  (void)state;
  double flops[] = {10, 20}, bytes[] = {1, 2};
  prof_event events[] = {{1000, 100000, 0, 0}, {200000, 300000, 1, 0}, {600000, 400000, 1, 0}};
  const char *kernels[] = {"a", "b"}, *others[] = {"c"}, *kinds[] = {"loop", "dot"};
  const prof_xwritten programs[] = {{"jit_f", 3, 2, kernels, kinds, flops, bytes, "proto", 5},
                                    {"jit_g", 4, 1, others, kinds, flops, bytes, "other", 5}};
  const prof_xrun runs[] = {{0, 1, 0, 1000000, 3, events},
                            {1, 1, 1000000, 200000, 1, events},
                            {0, 2, 1500000, 1000000, 3, events}};
  const prof_xtrace t = {"/host:CPU", 5000, 2, 3, programs, runs};
  hs_buf b = {0};
  prof_xspace_write(&t, &b);
  assert_true(prof_is_xspace(b.p, b.n));
  prof_xspace x;
  hs_status s = prof_xspace_read(b.p, b.n, "test", &x);
  assert_true(hs_ok(s));
  assert_int_equal(x.nprograms, 2);
  assert_string_equal(x.programs[0].module, "jit_f");
  assert_int_equal(x.programs[0].id, 3);
  const prof_recording *r = x.programs[0].rec;
  assert_int_equal(r->nruns, 2);
  for (u32 k = 0; k < 2; k++) {
    near(r->ms[2 * k], 0.1);
    near(r->ms[2 * k + 1], 0.7);
  }
  assert_int_equal(r->events[2].ns, 400000);
  assert_string_equal(x.programs[1].module, "jit_g");
  assert_string_equal(x.programs[1].kernels[0], "c");
  assert_int_equal(x.programs[1].rec->nruns, 1);
  near(x.programs[1].rec->ms[0], 0.1);
  assert_int_equal(x.nmodules, 2);
  assert_string_equal(x.modules[0].name, "jit_f");
  assert_int_equal(x.modules[0].id, 3);
  assert_memory_equal(x.modules[0].proto, "proto", 5);
  assert_string_equal(x.modules[1].name, "jit_g");
  assert_memory_equal(x.modules[1].proto, "other", 5);
  prof_xspace_free(&x);
  // cut anywhere it is an error or less, and never a fault
  for (size_t n = 0; n < b.n; n++) {
    s = prof_xspace_read(b.p, n, "test", &x);
    hs_status_drop(s);
    prof_xspace_free(&x);
  }
  hs_buf_free(&b);
}

static void other_files_are_none(void **state) {
  (void)state;
  hs_buf module = {0}, hlo = {0};
  pb_put_bytes(&module, 1, "jit_f", 5);
  pb_put_bytes(&module, 2, "main", 4);
  pb_put_bytes(&hlo, 1, module.p, module.n);
  assert_false(prof_is_xspace(module.p, module.n));
  assert_false(prof_is_xspace(hlo.p, hlo.n));
  assert_false(prof_is_xspace("HloModule m", 11));
  assert_false(prof_is_xspace("", 0));
  hs_buf_free(&module);
  hs_buf_free(&hlo);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(loops_do_not_count_twice),
      cmocka_unit_test(runs_are_told_apart),
      cmocka_unit_test(what_is_written_is_read),
      cmocka_unit_test(other_files_are_none),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
