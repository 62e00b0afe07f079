// programs.c — whole programs on the gpu backends: on the emulation, and through a driver made of
// it: control flow, buffers updated in place, what the host does, launch sequences recorded in the
// second run, donation, layouts; times of single kernels by events and by CUPTI; devices that are
// lost.
#include <stdlib.h>

#include "tests/harness/plugin.h"

#define UNDER_TEST "gpu-emulated"
#include "tests/unit/backends/cpu.h"

// The evaluator's result in each of three runs: launched one by one, recorded, launched as one.
static void same_in_every_run(const char *text, u32 fallbacks) {
  hlo_module *m = parse(text);
  hlo_literal **args = NULL;
  u32 n = 0;
  backend_exe *e = NULL;
  const backend_options o = {.context = backends, .deadline_s = 120};
  explain(hlo_inputs_formula(ctx, m, NULL, 0, &args, &n));
  backend_result want = run_on(backend_find("interp"), m, NULL, NULL, NULL);
  explain(cpu->compile(m, &o, &e));
  assert_int_equal(cpu->compiled(e)->fallbacks, fallbacks);
  for (int k = 0; k < 3; k++) {
    backend_result r = {0};
    explain(cpu->run(e, n, args, NULL, &r));
    explain(hlo_compare(want.outputs, r.outputs, hlo_near(1e-4, 1e-4)));
    backend_result_free(&r);
  }
  cpu->release(e);
  backend_result_free(&want);
  hlo_inputs_free(args, n);
  hlo_module_free(m);
}

#define SUM "sum { a = f32[] parameter(0)\n b = f32[] parameter(1)\n ROOT c = f32[] add(a, b) }\n"

// Where temporaries lie: in a result that is begun when they are through, in one that is computed
// from them row by row, in one that is scattered into them, and in one of another type and shape
// that is computed from them place by place.
static void memory(void **st) {
  (void)st;
  static const char guest[] =
      MODULE(SUM "ENTRY e { x = f32[1024] parameter(0)\n z = f32[] constant(0)\n"
                 " a = f32[1024] reverse(x), dimensions={0}\n"
                 " s = f32[] reduce(a, z), dimensions={0}, to_apply=sum\n"
                 " ROOT b = f32[1024] broadcast(s), dimensions={} }");
  static const char in_place[] =
      MODULE("twice { p = f32[8,32] parameter(0)\n q = s32[8,32] bitcast(p)\n"
             " r = s32[256] reshape(q)\n ROOT t = s32[256] add(r, r) }\n"
             "ENTRY e { x = f32[8,32] parameter(0)\n a = f32[8,32] reverse(x), dimensions={0}\n"
             " ROOT f = s32[256] fusion(a), kind=kLoop, calls=twice }");
  static const char rows[] = MODULE(
      SUM "norm { p = f32[96,300] parameter(0)\n z = f32[] constant(0)\n"
          " s = f32[96] reduce(p, z), dimensions={1}, to_apply=sum\n"
          " b = f32[96,300] broadcast(s), dimensions={0}\n"
          " d = f32[96,300] subtract(p, b)\n q = f32[96,300] multiply(d, d)\n"
          " v = f32[96] reduce(q, z), dimensions={1}, to_apply=sum\n"
          " w = f32[96,300] broadcast(v), dimensions={0}\n"
          " ROOT r = f32[96,300] divide(d, w) }\n"
          "ENTRY e { x = f32[96,300] parameter(0)\n a = f32[96,300] reverse(x), dimensions={0}\n"
          " ROOT f = f32[96,300] fusion(a), kind=kInput, calls=norm }");
  static const char scatter[] = MODULE(
      SUM "ENTRY e { x = f32[4096] parameter(0)\n u = f32[8] parameter(1)\n"
          " i = s32[8,1] constant({{3}, {9}, {3}, {4000}, {0}, {9}, {9}, {4095}})\n"
          " a = f32[4096] reverse(x), dimensions={0}\n"
          " ROOT s = f32[4096] scatter(a, i, u), update_window_dims={}, inserted_window_dims={0}, "
          "scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=sum }");
  assert_in_range(temporaries(scatter), 4096, 5 * 4096);  // keys, and where places begin
  same_in_every_run(scatter, 0);
  assert_int_equal(temporaries(guest), 256);
  assert_int_equal(temporaries(rows), 0);
  same_in_every_run(rows, 0);
  assert_int_equal(temporaries(in_place), 0);
  same_in_every_run(guest, 0);
  same_in_every_run(in_place, 0);
}

static void straight(void **st) {
  (void)st;
  same_in_every_run(MODULE(SUM "ENTRY e { x = f32[70,300] parameter(0)\n z = f32[] constant(0)\n"
                               " y = f32[70,300] tanh(x)\n"
                               " r = f32[70] reduce(y, z), dimensions={1}, to_apply=sum\n"
                               " c = f32[300] reduce(y, z), dimensions={0}, to_apply=sum\n"
                               " t = f32[300,70] transpose(x), dimensions={1,0}\n"
                               " ROOT o = (f32[70], f32[300], f32[300,70]) tuple(r, c, t) }"),
                    0);
  // results that are arguments, constants, each other; nothing at all
  same_in_every_run(
      MODULE("ENTRY e { x = f32[5] parameter(0)\n k = s32[3] constant({1, 2, 3})\n"
             " y = f32[5] negate(x)\n w = f32[0] slice(x), slice={[0:0]}\n"
             " ROOT o = (f32[5], s32[3], f32[5], f32[5], f32[0]) tuple(x, k, y, y, w) }"),
      0);
  // more parameters than a few
  hs_buf b = {0};
  hs_buf_puts(&b, "HloModule t\nENTRY e {\n");
  for (int k = 0; k < 40; k++) hs_buf_printf(&b, " p%d = f32[8] parameter(%d)\n", k, k);
  hs_buf_puts(&b, " ROOT o = f32[320] concatenate(");
  for (int k = 0; k < 40; k++) hs_buf_printf(&b, "%sp%d", k ? ", " : "", k);
  hs_buf_puts(&b, "), dimensions={0} }\n");
  same_in_every_run(hs_buf_cstr(&b), 0);
  hs_buf_free(&b);
}

static void loops(void **st) {
  (void)st;
  // seven times, as the code shows; the two states change places
  same_in_every_run(
      MODULE(
          "cond { s = (s32[], f32[600], f32[600]) parameter(0)\n"
          " i = s32[] get-tuple-element(s), index=0\n n = s32[] constant(7)\n"
          " ROOT c = pred[] compare(i, n), direction=LT }\n"
          "body { s = (s32[], f32[600], f32[600]) parameter(0)\n"
          " i = s32[] get-tuple-element(s), index=0\n x = f32[600] get-tuple-element(s), index=1\n"
          " y = f32[600] get-tuple-element(s), index=2\n"
          " one = s32[] constant(1)\n j = s32[] add(i, one)\n"
          " r = f32[600] reverse(x), dimensions={0}\n z = f32[600] add(r, y)\n"
          " ROOT t = (s32[], f32[600], f32[600]) tuple(j, y, z) }\n"
          "ENTRY e { x = f32[600] parameter(0)\n y = f32[600] parameter(1)\n"
          " i = s32[] constant(0)\n t = (s32[], f32[600], f32[600]) tuple(i, x, y)\n"
          " ROOT w = (s32[], f32[600], f32[600]) while(t), condition=cond, body=body }"),
      0);
  // as long as the values say, a branch in each iteration, and an update in place
  same_in_every_run(
      MODULE(SUM "yes { x = f32[9] parameter(0)\n ROOT y = f32[9] negate(x) }\n"
                 "no { x = f32[9] parameter(0)\n ROOT y = f32[9] add(x, x) }\n"
                 "cond { s = (f32[9], s32[], f32[4,9]) parameter(0)\n"
                 " x = f32[9] get-tuple-element(s), index=0\n z = f32[] constant(0)\n"
                 " a = f32[9] abs(x)\n t = f32[] reduce(a, z), dimensions={0}, to_apply=sum\n"
                 " k = s32[] get-tuple-element(s), index=1\n n = s32[] constant(4)\n"
                 " m = f32[] constant(100)\n p = pred[] compare(t, m), direction=LT\n"
                 " q = pred[] compare(k, n), direction=LT\n ROOT c = pred[] and(p, q) }\n"
                 "body { s = (f32[9], s32[], f32[4,9]) parameter(0)\n"
                 " x = f32[9] get-tuple-element(s), index=0\n"
                 " k = s32[] get-tuple-element(s), index=1\n"
                 " all = f32[4,9] get-tuple-element(s), index=2\n one = s32[] constant(1)\n"
                 " bit = s32[] and(k, one)\n z = s32[] constant(0)\n"
                 " p = pred[] compare(bit, z), direction=EQ\n"
                 " y = f32[9] conditional(p, x, x), true_computation=no, false_computation=yes\n"
                 " row = f32[1,9] reshape(y)\n"
                 " u = f32[4,9] dynamic-update-slice(all, row, k, z)\n j = s32[] add(k, one)\n"
                 " ROOT t = (f32[9], s32[], f32[4,9]) tuple(y, j, u) }\n"
                 "ENTRY e { x = f32[9] parameter(0)\n all = f32[4,9] parameter(1)\n"
                 " i = s32[] constant(0)\n t = (f32[9], s32[], f32[4,9]) tuple(x, i, all)\n"
                 " ROOT w = (f32[9], s32[], f32[4,9]) while(t), condition=cond, body=body }"),
      0);
  // branches by number, one of them for all other numbers
  same_in_every_run(
      MODULE("a { x = f32[3] parameter(0)\n ROOT y = f32[3] negate(x) }\n"
             "b { x = f32[3] parameter(0)\n ROOT y = f32[3] abs(x) }\n"
             "c { x = f32[3] parameter(0)\n ROOT y = f32[3] copy(x) }\n"
             "ENTRY e { k = s32[] parameter(0)\n x = f32[3] parameter(1)\n"
             " ROOT r = f32[3] conditional(k, x, x, x), branch_computations={a, b, c} }"),
      0);
}

// Factorizations have no kernel: they run between launches, in a loop too.
static void host(void **st) {
  (void)st;
  same_in_every_run(
      MODULE("cond { s = (s32[], f32[4,4]) parameter(0)\n i = s32[] get-tuple-element(s), index=0\n"
             " n = s32[] constant(3)\n ROOT c = pred[] compare(i, n), direction=LT }\n"
             "body { s = (s32[], f32[4,4]) parameter(0)\n i = s32[] get-tuple-element(s), index=0\n"
             " x = f32[4,4] get-tuple-element(s), index=1\n one = s32[] constant(1)\n"
             " j = s32[] add(i, one)\n t = f32[4,4] transpose(x), dimensions={1,0}\n"
             " y = f32[4,4] add(x, t)\n d = f32[4,4] constant({{9,0,0,0},{0,9,0,0},{0,0,9,0},"
             "{0,0,0,9}})\n p = f32[4,4] add(y, d)\n c = f32[4,4] cholesky(p), lower=true\n"
             " ROOT r = (s32[], f32[4,4]) tuple(j, c) }\n"
             "ENTRY e { x = f32[4,4] parameter(0)\n i = s32[] constant(0)\n"
             " t = (s32[], f32[4,4]) tuple(i, x)\n"
             " ROOT w = (s32[], f32[4,4]) while(t), condition=cond, body=body }"),
      1);
}

static void placed(void **st) {
  (void)st;
  // an argument gives its memory to a result, and is there again in the next run
  same_in_every_run("HloModule t, input_output_alias={ {}: (0, {}, may-alias) }\n"
                    "ENTRY e { x = f32[1000] parameter(0)\n ROOT y = f32[1000] add(x, x) }",
                    0);
  same_in_every_run(MODULE("ENTRY e { x = f32[6,5]{0,1} parameter(0)\n"
                           " ROOT y = f32[6,5]{0,1} exponential(x) }"),
                    0);
}

// ---- through a driver ---------------------------------------------------------------------------

#define ADDS                                                                                     \
  MODULE("ENTRY e { x = f32[100] parameter(0)\n a = f32[100] add(x, x)\n b = f32[100] tanh(a)\n" \
         " ROOT c = f32[100] multiply(b, x) }")

static int make_folder(void **st) { return (void)st, plugin_folder_make() ? 0 : -1; }
static int remove_folder(void **st) { return (void)st, plugin_folder_remove(), 0; }

static hs_status run_with(const char *driver, const backend_run_options *ro, backend_result *r) {
  hlo_module *m = parse(ADDS);
  hlo_literal **args = NULL;
  u32 n = 0;
  backend_exe *e = NULL;
  const backend *gpu = backend_find("gpu");
  const backend_options o = {
      .context = backends, .deadline_s = 60, .per_instruction = true, .driver = driver};
  explain(hlo_inputs_formula(ctx, m, NULL, 0, &args, &n));
  hs_status s = gpu->compile(m, &o, &e);
  if (hs_ok(s)) s = gpu->run(e, n, args, ro, r);
  gpu->release(e);
  hlo_inputs_free(args, n);
  hlo_module_free(m);
  return s;
}

static void drivers(void **st) {
  (void)st;
  static const struct {
    const char *mode;
    hs_code code;
  } bad[] = {{"sticky1", HS_E_DEVICE_FAULT},
             {"oom", HS_E_NO_MEMORY},
             {"nodevice", HS_E_DEVICE},
             {"old", HS_E_DEVICE},
             {"missing", HS_E_DEVICE}};
  backend_result r = {0};
  explain(run_with(plugin_fake_cuda("ok"), NULL, &r));
  backend_result_free(&r);
  for (size_t k = 0; k < HS_COUNT(bad); k++) {
    hs_status s = run_with(plugin_fake_cuda(bad[k].mode), NULL, &r);
    assert_false(hs_ok(s));
    if (s.err->code != bad[k].code) fail_msg("%s: %s", bad[k].mode, s.err->message);
    assert_non_null(s.err->note);
    hs_status_drop(s);
    backend_result_free(&r);
  }
  explain(run_with(plugin_fake_cuda("late"), NULL, &r));  // the session has lost nothing
  backend_result_free(&r);
}

static void check_recording(const prof_recording *k, const char *how) {
  assert_non_null(k);
  if (strcmp(k->how, how) != 0) fail_msg("not by %s but: %s", how, k->how);
  assert_int_equal(k->nkernels, 3);
  for (u32 j = 0; j < 3; j++) {
    assert_int_equal(k->calls[j], 1);
    assert_true(k->ms[j] > 0);
  }
  assert_int_equal(k->nevents, 3);
  assert_int_equal(k->dropped, 0);
}

static void times(void **st) {
  (void)st;
  const backend_run_options ro = {
      .warmup = 1, .min_runs = 3, .max_runs = 5, .max_seconds = 0.2, .want_kernel_times = true};
  backend_result r = {0};
  explain(run_with(plugin_fake_cuda("ok"), &ro, &r));
  check_recording(r.timing.kernels, "events of the emulator");
  backend_result_free(&r);
  setenv("HLOSH_LIBCUPTI", plugin_fake_cupti("ok"), 1);
  explain(run_with(plugin_fake_cuda("late"), &ro, &r));  // another driver: a new process
  check_recording(r.timing.kernels, "CUPTI");
  backend_result_free(&r);
  setenv("HLOSH_LIBCUPTI", "/nowhere/libcupti.so", 1);
  explain(run_with(plugin_fake_cuda("ok"), &ro, &r));
  assert_non_null(
      strstr(r.timing.kernels->how, "events around the kernels, not CUPTI: there is no"));
  backend_result_free(&r);
  unsetenv("HLOSH_LIBCUPTI");
}

int main(int argc, char **argv) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(memory),
      cmocka_unit_test(straight),
      cmocka_unit_test(loops),
      cmocka_unit_test(host),
      cmocka_unit_test(placed),
      cmocka_unit_test_setup(drivers, make_folder),
      cmocka_unit_test_teardown(times, remove_folder),
  };
  return run_cpu_tests(argc, argv, "gpu_programs", tests, HS_COUNT(tests));
}
