// power.c — energy and clock of a device by an NVML of our own (tests/plugin/fake_nvml.c): what
// crosses to the shell of runs that are long enough and of shorter ones, the reasons for a low
// clock by both of their names, and that nothing is said where NVML is missing, refuses or lies.
#include <math.h>
#include <stdlib.h>

#include "backends/gpu/nvml/nvml.h"
#include "tests/harness/plugin.h"

#define UNDER_TEST "gpu-emulated"
#include "tests/unit/backends/cpu.h"

enum { WATTS = 200 };  // of the fake

static int make_folder(void **st) { return (void)st, plugin_folder_make() ? 0 : -1; }
static int remove_folder(void **st) { return (void)st, plugin_folder_remove(), 0; }
static bool near(double a, double b) { return fabs(a - b) <= 1e-12 * fabs(b); }

// Of runs for so many seconds in a process of its own. nvml NULL: none is named.
static backend_power power_of(const char *nvml, double seconds) {
  hlo_module *m = parse(MODULE("ENTRY e { x = f32[8] parameter(0)\n ROOT y = f32[8] negate(x) }"));
  hlo_literal **args = NULL;
  u32 n = 0;
  backend_exe *e = NULL;
  backend_context *own = backend_context_new();
  const backend *gpu = backend_find("gpu");
  setenv("HLOSH_LIBNVML", nvml ? nvml : "/nowhere/libnvidia-ml.so.1", 1);
  const backend_options o = {.context = own, .deadline_s = 120, .driver = plugin_fake_cuda("ok")};
  const backend_run_options ro = {
      .min_runs = 2, .max_runs = 1000000, .min_seconds = seconds, .max_seconds = seconds};
  backend_result r = {0};
  explain(hlo_inputs_formula(ctx, m, NULL, 0, &args, &n));
  explain(gpu->compile(m, &o, &e));
  explain(gpu->run(e, n, args, &ro, &r));
  backend_power power = r.timing.power;
  assert_true(power.seconds == 0 || power.runs == r.timing.runs);
  backend_result_free(&r);
  gpu->release(e);
  hlo_inputs_free(args, n);
  hlo_module_free(m);
  backend_context_free(own);
  unsetenv("HLOSH_LIBNVML");
  return power;
}

static void counted(void **st) {
  (void)st;
  backend_power p = power_of(plugin_fake_nvml("ok"), 0.6);
  double error = backend_power_error(&p);
  assert_true(p.seconds >= 0.6);
  assert_true(near(error, BACKEND_POWER_LATE / p.seconds));
  assert_true(fabs(p.joules / (p.seconds * WATTS) - 1) <= error);
  assert_true(p.runs > 1);
  assert_true(near(backend_power_of_run(&p), p.joules / p.runs));
  assert_int_equal(p.mhz, 1980);
  assert_string_equal(p.slowed, "");
}

static void too_short(void **st) {
  (void)st;
  backend_power p = power_of(plugin_fake_nvml("ok"), 0.05);
  assert_true(p.seconds > 0);  // there is a counter
  assert_true(p.seconds > 0.3 || backend_power_of_run(&p) < 0);
  assert_true(backend_power_of_run(&(backend_power){.seconds = 0.39, .joules = 9, .runs = 3}) < 0);
  assert_true(
      near(backend_power_of_run(&(backend_power){.seconds = 0.5, .joules = 9, .runs = 3}), 3));
  assert_true(backend_power_of_run(&(backend_power){.seconds = 1, .joules = 9}) < 0);
  assert_true(isinf(backend_power_error(&(backend_power){0})));
}

static void slowed(void **st) {
  (void)st;
  backend_power p = power_of(plugin_fake_nvml("slowed"), 0.01);
  assert_string_equal(p.slowed, "power cap, temperature, another reason");
  assert_int_equal(p.mhz, 1410);
  p = power_of(plugin_fake_nvml("old"), 0.01);
  assert_string_equal(p.slowed, "power cap");
  char all[16];
  ml_reasons_text(ML_REASON_POWER_BRAKE | ML_REASON_SYNC_BOOST, all, sizeof all);
  assert_string_equal(all, "sync boost, pow");  // as much as there is room for
}

static void nothing(void **st) {
  (void)st;
  static const char *const modes[] = {"missing", "denied", "elsewhere", "unsupported"};
  for (size_t k = 0; k < HS_COUNT(modes); k++) {
    backend_power p = power_of(plugin_fake_nvml(modes[k]), 0.01);
    if (p.seconds != 0) fail_msg("%s", modes[k]);
    assert_true(p.joules == 0 && p.mhz == 0 && !*p.slowed);
  }
  assert_true(power_of(NULL, 0.01).seconds == 0);
  static const char *const lies[] = {"still", "back"};
  for (size_t k = 0; k < HS_COUNT(lies); k++) {
    backend_power p = power_of(plugin_fake_nvml(lies[k]), 0.5);
    assert_true(p.seconds >= 0.5);
    assert_true(p.joules == 0 && backend_power_of_run(&p) < 0);
  }
}

static void present(void **st) {
  (void)st;
  setenv("HLOSH_LIBNVML", plugin_fake_nvml("ok"), 1);
  assert_true(cuda_library_present(&cuda_nvml));
  hs_buf text = {0}, fix = {0};
  backend_find("gpu")->extras(&text, &fix);
  assert_non_null(strstr(hs_buf_cstr(&text), "energy by NVML"));
  setenv("HLOSH_LIBNVML", "/nowhere/libnvidia-ml.so.1", 1);
  text.n = 0;
  backend_find("gpu")->extras(&text, &fix);
  assert_non_null(strstr(hs_buf_cstr(&text), "no NVML: no energy"));
  unsetenv("HLOSH_LIBNVML");
  hs_buf_free(&text);
  hs_buf_free(&fix);
}

int main(int argc, char **argv) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup(counted, make_folder),
      cmocka_unit_test(too_short),
      cmocka_unit_test(slowed),
      cmocka_unit_test(nothing),
      cmocka_unit_test_teardown(present, remove_folder),
  };
  return run_cpu_tests(argc, argv, "gpu_power", tests, HS_COUNT(tests));
}
