// counters.c — hardware counters by a CUPTI of our own (tests/plugin/fake_cupti.c), whose values
// are known: summed over the executions of a kernel, joined to its instruction, left out where they
// are not whole, and the reason where there are none. An installed CUPTI is asked for the counters
// of the chips that it knows.
#include <math.h>
#include <stdlib.h>

#include "backends/gpu/cupti/counters.h"
#include "backends/sandbox.h"
#include "tests/harness/plugin.h"

#define UNDER_TEST "gpu-emulated"
#include "tests/unit/backends/cpu.h"

static int make_folder(void **st) { return (void)st, plugin_folder_make() ? 0 : -1; }
static int remove_folder(void **st) { return (void)st, plugin_folder_remove(), 0; }

// The host drives the loop: its body is three executions of the same computation.
static const char looped[] =
    MODULE("cond { s = (s32[], f32[3000]) parameter(0)\n i = s32[] get-tuple-element(s), index=0\n"
           " n = s32[] constant(3)\n ROOT c = pred[] compare(i, n), direction=LT }\n"
           "body { s = (s32[], f32[3000]) parameter(0)\n i = s32[] get-tuple-element(s), index=0\n"
           " x = f32[3000] get-tuple-element(s), index=1\n one = s32[] constant(1)\n"
           " j = s32[] add(i, one)\n inner = f32[3000] tanh(x)\n"
           " ROOT r = (s32[], f32[3000]) tuple(j, inner) }\n"
           "ENTRY e { zero = s32[] constant(0)\n p = f32[3000] parameter(0)\n"
           " outer = f32[3000] tanh(p)\n s = (s32[], f32[3000]) tuple(zero, outer)\n"
           " ROOT w = (s32[], f32[3000]) while(s), condition=cond, body=body }");

typedef struct outcome {
  backend_result r;
  const prof_recording *rec;
  prof_counters outer, inner;
} outcome;

static prof_counters of_kernel(const backend_compiled *c, const prof_recording *r,
                               const char *name) {
  for (u32 k = 0; k < c->nkernels; k++)
    if (strncmp(c->kernels[k].name, name, strlen(name)) == 0) return r->counters[k];
  fail_msg("no kernel %s", name);
  return (prof_counters){0};
}

static outcome profiled_on(const char *text, const char *driver, const char *cupti, bool counters) {
  hlo_module *m = parse(text);
  hlo_literal **args = NULL;
  u32 n = 0;
  backend_exe *e = NULL;
  backend_context *own = backend_context_new();
  const backend *gpu = backend_find("gpu");
  setenv("HLOSH_LIBCUPTI", cupti, 1);
  const backend_options o = {.context = own, .deadline_s = 120, .driver = plugin_fake_cuda(driver)};
  const backend_run_options ro = {.min_runs = 1,
                                  .max_runs = 2,
                                  .max_seconds = 0.1,
                                  .want_kernel_times = true,
                                  .want_counters = counters};
  outcome out = {0};
  explain(hlo_inputs_formula(ctx, m, NULL, 0, &args, &n));
  explain(gpu->compile(m, &o, &e));
  explain(gpu->run(e, n, args, &ro, &out.r));
  out.rec = out.r.timing.kernels;
  assert_non_null(out.rec);
  if (out.rec->counters) {
    out.outer = of_kernel(gpu->compiled(e), out.rec, "outer");
    out.inner = of_kernel(gpu->compiled(e), out.rec, "inner");
  }
  gpu->release(e);
  hlo_inputs_free(args, n);
  hlo_module_free(m);
  backend_context_free(own);
  unsetenv("HLOSH_LIBCUPTI");
  return out;
}

// On a driver that does the work when somebody waits for it.
static outcome profiled(const char *cupti, bool counters) {
  return profiled_on(looped, "late", cupti, counters);
}

static void counted(void **st) {
  (void)st;
  outcome o = profiled(plugin_fake_cupti("ok"), true);
  assert_string_equal(o.rec->counted, "CUPTI's counters, in 4 runs");
  assert_non_null(o.rec->counters);
  assert_true(o.outer.read_bytes > 0 && o.outer.read_bytes == 2 * o.outer.written_bytes);
  assert_true(o.inner.read_bytes == 3 * o.outer.read_bytes);
  assert_true(o.inner.written_bytes == 3 * o.outer.written_bytes);
  assert_true(fabs(o.outer.tensor - 0.25) < 1e-9 && fabs(o.inner.tensor - 0.25) < 1e-9);
  assert_string_equal(o.rec->how[0] == 'C' ? "CUPTI" : o.rec->how, "CUPTI");
  backend_result_free(&o.r);
  // nobody asks
  o = profiled(plugin_fake_cupti("ok"), false);
  assert_string_equal(o.rec->counted, "");
  assert_null(o.rec->counters);
  backend_result_free(&o.r);
}

static void partly(void **st) {
  (void)st;
  outcome o = profiled(plugin_fake_cupti("fewer"), true);
  assert_string_equal(o.rec->counted, "CUPTI's counters, in 3 runs");
  assert_true(o.inner.read_bytes == 3 * o.outer.read_bytes && o.outer.read_bytes > 0);
  assert_true(isnan(o.inner.tensor));
  backend_result_free(&o.r);
  // some executions of the loop's kernel are missing: it has no figure
  o = profiled(plugin_fake_cupti("full"), true);
  assert_non_null(o.rec->counters);
  assert_non_null(strstr(o.rec->counted, "they are not whole"));
  assert_true(o.outer.read_bytes > 0);
  assert_true(isnan(o.inner.read_bytes) && isnan(o.inner.tensor));
  backend_result_free(&o.r);
}

static void refused(void **st) {
  (void)st;
  static const struct {
    const char *mode, *said[2];
  } cases[] = {
      {"uncounted", {"INSUFFICIENT_PRIVILEGES", "NVreg_RestrictProfilingToAdminUsers=0"}},
      {"older", {"this CUPTI has no cuptiRangeProfilerStart", "fix: install that of CUDA 13"}},
  };
  for (size_t k = 0; k < HS_COUNT(cases); k++) {
    outcome o = profiled(plugin_fake_cupti(cases[k].mode), true);
    assert_null(o.rec->counters);
    assert_true(o.rec->nruns > 0);  // times are there all the same
    for (u32 j = 0; j < 2; j++)
      if (!strstr(o.rec->counted, cases[k].said[j])) fail_msg("%s", o.rec->counted);
    backend_result_free(&o.r);
  }
}

// A module for several devices is told so, with what does count.
static void several(void **st) {
  (void)st;
  outcome o = profiled_on("HloModule m, num_partitions=2\n"
                          "add { a = f32[] parameter(0)\n b = f32[] parameter(1)\n"
                          " ROOT c = f32[] add(a, b) }\n"
                          "ENTRY e { p = f32[3000] parameter(0)\n outer = f32[3000] tanh(p)\n"
                          " ROOT r = f32[3000] all-reduce(outer), replica_groups={{0,1}}, "
                          "use_global_device_ids=true, channel_id=1, to_apply=add }",
                          "devices4", plugin_fake_cupti("ok"), true);
  assert_null(o.rec->counters);
  assert_true(o.rec->nruns > 0);
  assert_non_null(strstr(o.rec->counted,
                         "not counted: counters are of one device, and this program "
                         "runs on 2; fix: `profile` without --counters"));
  backend_result_free(&o.r);
}

// What needs no device of a real CUPTI: what chips count, and in how many passes.
static void installed(void **st) {
  (void)st;
  if (SANDBOX_SANITIZED) SKIP_TEST("a sanitizer ends what CUPTI's libraries load");
  static const char *const chips[] = {"GV100", "TU102", "GA100", "AD102", "GH100", "GB100"};
  cupti_api cupti;
  counters_api api;
  hs_status s = cupti_open(NULL, &cupti);
  if (hs_ok(s)) s = counters_find(&cupti, &api);
  if (!hs_ok(s)) {
    hs_status_drop(s);
    SKIP_TEST("no CUPTI with counters is installed");
  }
  for (size_t k = 0; k < HS_COUNT(chips); k++) {
    counters_plan p;
    explain(counters_plan_new(&api, chips[k], NULL, &p));
    assert_int_equal(p.n, COUNTERS_METRICS);
    assert_true(p.passes > 0 && p.passes < 64 && p.config.n > 0);
    counters_plan_free(&p);
  }
}

int main(int argc, char **argv) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup(counted, make_folder),
      cmocka_unit_test(partly),
      cmocka_unit_test(several),
      cmocka_unit_test_teardown(refused, remove_folder),
      cmocka_unit_test(installed),
  };
  return run_cpu_tests(argc, argv, "gpu_counters", tests, HS_COUNT(tests));
}
