// transfer.c — what running on a PJRT plug-in costs beside the plug-in: memory for arguments,
// time of a call.
//
//   transfer [PLUGIN [MEGABYTES]]
//
// An argument of so many megabytes (256) is summed up, and added to in place (donated). What the
// worker needs at its peak above what it needed before, in multiples of the argument, shows how
// often it is held there: 1 is the shared memory that the shell copied it to. A result takes one
// more in the shared block that it is handed over in. Then f32[4] + 1, 20,000 times: the time of
// one call as measured inside the worker, from the call until the result is there. Exit 1 when a
// figure misses its aim.
#include "backends/pjrt/pjrt.h"
#include "core/text/text.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static hlo_ctx *ctx;
static backend_context *backends;
static char *plugin;

static double status_kb(pid_t pid, const char *key) {
  char *path = hs_format("/proc/%d/status", (int)pid), line[256];
  FILE *f = fopen(path, "re");
  double kb = -1;
  hs_free(path);
  while (f && fgets(line, sizeof line, f))
    if (!strncmp(line, key, strlen(key))) kb = strtod(line + strlen(key), NULL);
  if (f) fclose(f);
  return kb;
}

// The kernel's count of the peak begins anew.
static void reset_peak(pid_t pid) {
  char *path = hs_format("/proc/%d/clear_refs", (int)pid);
  int fd = open(path, O_WRONLY | O_CLOEXEC);
  if (fd >= 0) (void)!write(fd, "5", 1), close(fd);
  hs_free(path);
}

static hs_status compile(const char *text, hlo_module **m, backend_exe **exe) {
  HS_TRY(hlo_parse(ctx, text, strlen(text), NULL, m));
  const backend_options o = {.context = backends, .plugin = plugin};
  return backend_find("pjrt")->compile(*m, &o, exe);
}

// Peak growth of the worker in multiples of `bytes`; negative when it failed (said).
static double held(const char *text, double bytes) {
  const backend *be = backend_find("pjrt");
  hlo_module *m = NULL;
  backend_exe *exe = NULL;
  hlo_literal *arg = NULL;
  double times = -1;
  hs_status s = compile(text, &m, &exe);
  pjrt_host *h = NULL;
  if (hs_ok(s)) s = pjrt_host_get(backends, &(pjrt_config){.path = plugin, .devices = 1}, &h);
  if (hs_ok(s)) s = hlo_literal_new(m->entry->params[0]->shape, &arg);
  if (hs_ok(s)) {
    memset(arg->data, 1, arg->bytes);
    pid_t pid = worker_pid(pjrt_host_worker(h));
    reset_peak(pid);
    double before = status_kb(pid, "VmRSS:");
    backend_result r;
    s = be->run(exe, 1, &arg, NULL, &r);
    if (hs_ok(s)) times = (status_kb(pid, "VmHWM:") - before) * 1024 / bytes;
    backend_result_free(&r);
  }
  if (!hs_ok(s)) fprintf(stderr, "%s\n", s.err->message);
  hs_status_drop(s);
  hlo_literal_unref(arg);
  if (exe) be->release(exe);
  hlo_module_free(m);
  return times;
}

static int by_size(const void *a, const void *b) {
  return (*(const double *)a > *(const double *)b) - (*(const double *)a < *(const double *)b);
}

static bool call_time(double *least, double *median) {
  const backend *be = backend_find("pjrt");
  hlo_module *m = NULL;
  backend_exe *exe = NULL;
  hlo_literal *arg = NULL;
  backend_result r = {0};
  hs_status s =
      compile("HloModule m\nENTRY e { p = f32[4] parameter(0) c = f32[] constant(1) b = f32[4] "
              "broadcast(c), dimensions={} ROOT r = f32[4] add(p, b) }",
              &m, &exe);
  if (hs_ok(s)) s = hlo_literal_new(m->entry->params[0]->shape, &arg);
  const backend_run_options o = {.warmup = 100, .min_runs = 20000, .max_runs = 20000};
  if (hs_ok(s)) s = be->run(exe, 1, &arg, &o, &r);
  bool ok = hs_ok(s) && r.timing.runs;
  if (ok) {
    qsort(r.timing.samples_ms, r.timing.runs, sizeof(double), by_size);
    *least = r.timing.samples_ms[0] * 1e3;
    *median = r.timing.samples_ms[r.timing.runs / 2] * 1e3;
  } else if (!hs_ok(s)) fprintf(stderr, "%s\n", s.err->message);
  hs_status_drop(s);
  backend_result_free(&r);
  hlo_literal_unref(arg);
  if (exe) be->release(exe);
  hlo_module_free(m);
  return ok;
}

static bool figure(const char *name, double value, const char *unit, double aim) {
  bool ok = value >= 0 && value <= aim;
  printf("%-44s %8.3g %-8s aim <= %g%s\n", name, value, unit, aim, ok ? "" : "   MISSED");
  return ok;
}

int main(int argc, char **argv) {
  int status;
  if (worker_entry(argc, argv, &status)) return status;
  hs_status s = pjrt_find(argc > 1 ? argv[1] : NULL, &plugin);
  if (!hs_ok(s)) {
    printf("SKIP transfer: %s\n", s.err->message);
    hs_status_drop(s);
    return 0;
  }
  ctx = hlo_ctx_new();
  backends = backend_context_new();
  long long n = (argc > 2 ? atoll(argv[2]) : 256) << 18;
  char *sum = hs_format(
      "HloModule m\nadd { a = f32[] parameter(0) b = f32[] parameter(1) ROOT r = f32[] add(a, b) "
      "}\n"
      "ENTRY e { p = f32[%lld] parameter(0) z = f32[] constant(0) ROOT r = f32[] reduce(p, z), "
      "dimensions={0}, to_apply=add }",
      n);
  char *more = hs_format(
      "HloModule m, input_output_alias={ {}: (0, {}, may-alias) }\n"
      "ENTRY e { p = f32[%lld] parameter(0) c = f32[] constant(1) b = f32[%lld] broadcast(c), "
      "dimensions={} ROOT r = f32[%lld] add(p, b) }",
      n, n, n);
  printf("plug-in %s, argument of %lld MB\n", plugin, n >> 18);
  double least = -1, median = -1;
  bool ok = figure("read: held in the worker", held(sum, (double)n * 4), "times", 1.2);
  ok &= figure("donated, and its result: held in the worker", held(more, (double)n * 4), "times",
               2.2);
  ok &= call_time(&least, &median);
  ok &= figure("f32[4] + 1: least of 20,000 calls", least, "us", 3.1);
  printf("%-44s %8.3g us\n", "f32[4] + 1: median", median);
  hs_free(sum);
  hs_free(more);
  hs_free(plugin);
  backend_context_free(backends);
  hlo_ctx_free(ctx);
  return ok ? 0 : 1;
}
