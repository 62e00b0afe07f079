// library.h — programs on a driver and a library of our own, for tests of what the libraries of
// NVIDIA compute: in runs that are launched one by one and in recorded ones.
#ifndef TESTS_UNIT_GPU_LIBRARY_H
#define TESTS_UNIT_GPU_LIBRARY_H

#include <stdlib.h>

#include "tests/harness/plugin.h"

#define UNDER_TEST "gpu-emulated"
#include "tests/unit/backends/cpu.h"

static int make_folder(void **st) { return (void)st, plugin_folder_make() ? 0 : -1; }
static int remove_folder(void **st) { return (void)st, plugin_folder_remove(), 0; }

static const char *driver_mode = "ok";  // of the driver that programs run on

typedef struct outcome {
  hs_status s;
  char kind[96];  // of the first kernel
  u32 fallbacks;
  hs_buf schedule;
} outcome;

static inline void outcome_free(outcome *o) {
  hs_status_drop(o->s);
  hs_buf_free(&o->schedule);
}

// Runs in a process of its own, the last one with the times of its steps, with the file (or NULL)
// as the library; results must be the evaluator's, within the bounds.
static inline outcome run_near(const char *text, const char *variable, const char *library,
                               backend_libraries libraries, hlo_tolerance near) {
  outcome out = {.s = HS_GOOD};
  hlo_module *m = parse(text);
  hlo_literal **args = NULL;
  u32 n = 0;
  backend_exe *e = NULL;
  backend_context *own = backend_context_new();
  const backend *gpu = backend_find("gpu");
  if (library) setenv(variable, library, 1);
  const backend_options o = {.context = own,
                             .deadline_s = 120,
                             .driver = plugin_fake_cuda(driver_mode),
                             .libraries = libraries};
  explain(hlo_inputs_formula(ctx, m, NULL, 0, &args, &n));
  out.s = gpu->compile(m, &o, &e);
  backend_result want = run_on(backend_find("interp"), m, NULL, NULL, NULL);
  const backend_run_options recorded = {.min_runs = 1,
                                        .max_runs = 1,
                                        .max_seconds = 0.1,
                                        .want_outputs = true,
                                        .want_kernel_times = true};
  for (int k = 0; k < 4 && hs_ok(out.s); k++) {
    backend_result r = {0};
    out.s = gpu->run(e, n, args, k == 3 ? &recorded : NULL, &r);
    const prof_recording *times = r.timing.kernels;
    if (hs_ok(out.s) && k == 3)
      assert_true(times && times->calls[0] > 0 && times->nkernels == gpu->compiled(e)->nkernels);
    if (hs_ok(out.s)) explain(hlo_compare(want.outputs, r.outputs, near));
    backend_result_free(&r);
  }
  if (hs_ok(out.s)) {
    snprintf(out.kind, sizeof out.kind, "%s", gpu->compiled(e)->kernels[0].kind);
    out.fallbacks = gpu->compiled(e)->fallbacks;
    explain(gpu->dump(e, "schedule", &out.schedule));
  }
  gpu->release(e);
  backend_result_free(&want);
  hlo_inputs_free(args, n);
  hlo_module_free(m);
  backend_context_free(own);
  unsetenv(variable);
  return out;
}

static inline outcome run_with_library(const char *text, const char *variable, const char *library,
                                       backend_libraries libraries) {
  return run_near(text, variable, library, libraries, hlo_near(1e-4, 1e-4));
}

#endif
