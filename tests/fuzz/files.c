// files.c — the small files that commands keep and read again: calibrations, measurements of
// `speedup --save`, descriptions of GPUs, formulas of inputs, and what a host hands to a program.
// Every reader gets every input: an error, or figures that estimates can be computed with.
#include "tests/fuzz/target.h"
#include "core/eval/eval.h"
#include "core/text/text.h"
#include "profiler/model/calibration.h"
#include "profiler/model/gpu.h"
#include "repl/measure/saved.h"

#include <math.h>
#include <sys/mman.h>
#include <unistd.h>

static const char module_text[] =
    "HloModule m\n"
    "ENTRY e { x = f32[4,3] parameter(0) n = s8[2] parameter(1) c = c64[] parameter(2) "
    "t = (bf16[5], pred[]) parameter(3) ROOT r = f32[4,3] negate(x) }\n";

static void as_calibration(const char *text) {
  prof_calibration *c = hs_calloc(1, sizeof *c);
  hs_status s = prof_calibration_parse(text, c);
  if (hs_ok(s)) {
    prof_device d = prof_device_calibrated(c);
    FUZZ_CHECK(isfinite(d.launch_s) && d.launch_s >= 0, "a kernel of %g s\n", d.launch_s);
    hs_buf b = {0};
    prof_calibration_print(c, &b);
    hs_status again = prof_calibration_parse(hs_buf_cstr(&b), c);
    FUZZ_CHECK(hs_ok(again), "it does not read what it writes: %s\n", again.err->message);
    hs_status_drop(again);
    hs_buf_free(&b);
  }
  hs_status_drop(s);
  hs_free(c);
}

static void as_gpu(const char *text, const hlo_module *m) {
  hs_arena arena = {0};
  prof_device d;
  prof_estimate e;
  hs_status s = prof_gpu_device(text, &arena, &d);
  if (hs_ok(s)) s = prof_estimate_module(m, &d, false, &e);
  if (hs_ok(s)) FUZZ_CHECK(isfinite(e.time_s) && e.time_s >= 0, "%g s\n", e.time_s);
  hs_status_drop(s);
  hs_arena_free(&arena);
}

static void as_measurement(const void *data, size_t n) {
  int fd = memfd_create("saved", 0);
  if (fd < 0) return;
  if (write(fd, data, n) == (ssize_t)n) {
    char *path = hs_format("/proc/self/fd/%d", fd);
    saved *x = NULL;
    hs_status_drop(saved_read(path, &x));
    saved_free(x);
    hs_free(path);
  }
  close(fd);
}

static void as_inputs(hlo_ctx *ctx, const hlo_module *m, const char *text, size_t n) {
  hlo_literal **args = NULL;
  u32 count = 0;
  hs_status s = hlo_inputs_formula(ctx, m, text, n, &args, &count);
  if (hs_ok(s)) {
    FUZZ_CHECK(count == 4, "%u arguments\n", count);
    hlo_inputs_free(args, count);
  }
  hs_status_drop(s);
  hlo_host *h = hlo_host_new();
  hs_status_drop(hlo_host_read(h, ctx, text, n));
  hlo_host_free(h);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
  hlo_ctx *ctx = hlo_ctx_new();
  hlo_module *m = NULL;
  hs_status s = hlo_parse(ctx, module_text, sizeof module_text - 1, NULL, &m);
  FUZZ_CHECK(hs_ok(s), "%s\n", s.err->message);
  hs_status_drop(s);
  char *text = hs_alloc(n + 1);
  if (n) memcpy(text, data, n);
  text[n] = '\0';
  as_calibration(text);
  as_gpu(text, m);
  as_measurement(data, n);
  as_inputs(ctx, m, text, n);
  hs_free(text);
  hlo_module_free(m);
  hlo_ctx_free(ctx);
  return 0;
}
