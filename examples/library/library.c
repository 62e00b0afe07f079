/* library.c: libhlosh from C. Loads a module (or builds one), optimizes, runs and measures it, and estimates it for a GPU.
 * cc library.c $(pkg-config --cflags --libs libhlosh) && ./a.out [FILE.hlo] */
#include <hlosh.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int failed(hlosh_error *e) {
  if (!e) return 0;
  fprintf(stderr, "%s\n", hlosh_error_message(e));
  hlosh_error_free(e);
  return 1;
}

/* y = x * x + x, ten numbers. */
static int build(hlosh *h, hlosh_module **m) {
  static const char *const lines[] = {
      "x = f32[10] parameter(0)",  "square = multiply(x, x)",
      "zero = f32[] constant(0)",  "zeros = f32[10] broadcast(zero), dimensions={}",
      "same = add(square, zeros)", "ROOT y = add(same, x)"};
  if (failed(hlosh_build(h, "squares", m))) return 1;
  for (size_t k = 0; k < sizeof lines / sizeof *lines; k++)
    if (failed(hlosh_add(*m, lines[k]))) return 1;
  return 0;
}

static int run(hlosh *h, hlosh_module *m) {
  size_t nargs = hlosh_arguments(m), nresults = hlosh_results(m), before = hlosh_instructions(m);
  void **args = calloc(nargs + 1, sizeof *args), **results = calloc(nresults + 1, sizeof *results);
  hlosh_array a;
  hlosh_program *p = NULL;
  hlosh_times t = {.struct_size = sizeof t};
  hlosh_estimated e = {.struct_size = sizeof e};
  int bad = failed(hlosh_passes(m, "tuned"));
  (void)h;
  for (size_t k = 0; !bad && k < nargs; k++) {
    bad = failed(hlosh_argument(m, k, &a));
    args[k] = calloc(1, a.bytes + 1);
    for (size_t j = 0; !bad && !strcmp(a.type, "f32") && j < a.bytes / sizeof(float); j++)
      ((float *)args[k])[j] = (float)(j % 7);
  }
  for (size_t k = 0; !bad && k < nresults; k++) {
    bad = failed(hlosh_result(m, k, &a));
    results[k] = calloc(1, a.bytes + 1);
  }
  bad = bad || failed(hlosh_compile(m, "cpu", &p)) ||
        failed(hlosh_run(p, (const void *const *)args, results)) ||
        failed(hlosh_measure(p, (const void *const *)args, 20, &t)) ||
        failed(hlosh_estimate(m, "h200", &e));
  if (!bad) {
    printf("%s: %zu instructions, %zu after the tuned pipeline\n", hlosh_module_name(m), before,
           hlosh_instructions(m));
    hlosh_error_free(hlosh_result(m, 0, &a));
    for (size_t j = 0; !strcmp(a.type, "f32") && j < a.bytes / sizeof(float) && j < 10; j++)
      printf("%s%g", j ? ", " : "result: ", (double)((float *)results[0])[j]);
    printf("\nmeasured on this CPU: %s, %zu runs\n", t.median_ms > 0 ? "yes" : "no", t.runs);
    printf("estimated on h200: %.0f FLOP, %.0f bytes, %zu kernels\n", e.flops, e.bytes, e.kernels);
  }
  hlosh_program_free(p);
  for (size_t k = 0; k < nargs; k++) free(args[k]);
  for (size_t k = 0; k < nresults; k++) free(results[k]);
  free(args);
  free(results);
  return bad;
}

int main(int argc, char **argv) {
  hlosh *h;
  hlosh_module *m = NULL;
  if (failed(hlosh_open(HLOSH_API_VERSION, &h))) return 1;
  int bad = argc > 1 ? failed(hlosh_load_file(h, argv[1], &m)) : build(h, &m);
  if (!bad) bad = run(h, m);
  hlosh_module_free(m);
  hlosh_close(h);
  return bad;
}
