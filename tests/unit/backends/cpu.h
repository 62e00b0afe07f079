// cpu.h — what the tests of the cpu backend share: a module of our own is compiled and run, and
// its results must be the evaluator's. UNDER_TEST, defined before, names another backend.
// run_cpu_tests is their main.
#ifndef TESTS_UNIT_BACKENDS_CPU_H
#define TESTS_UNIT_BACKENDS_CPU_H

#include <stdio.h>

#include "backends/backend.h"
#include "backends/worker.h"
#include "core/text/text.h"
#include "tests/unit/modules.h"
#include "tests/unit/skip.h"

#ifndef UNDER_TEST
#define UNDER_TEST "cpu"
#endif
static const backend *cpu;
static backend_context *backends;

static inline void explain(hs_status s) { expect_good(s, "cpu"); }

static inline backend_result run_on(const backend *b, const hlo_module *m, const backend_options *o,
                                    const backend_run_options *ro, backend_compiled *info) {
  hlo_literal **args = NULL;
  u32 n = 0;
  backend_exe *e = NULL;
  backend_result r = {0};
  explain(hlo_inputs_formula(ctx, m, NULL, 0, &args, &n));
  backend_options shared = o ? *o : (backend_options){0};
  shared.context = backends;
  explain(b->compile(m, &shared, &e));
  if (info) *info = *b->compiled(e);
  explain(b->run(e, n, args, ro, &r));
  b->release(e);
  hlo_inputs_free(args, n);
  return r;
}

// The same result as the evaluator, whole and one kernel per instruction, on one thread and on all.
static inline void agrees(const char *text) {
  hlo_module *m = parse(text);
  backend_result want = run_on(backend_find("interp"), m, NULL, NULL, NULL);
  for (int mode = 0; mode < 3; mode++) {
    backend_options o = {
        .context = backends, .threads = mode == 1, .per_instruction = mode == 2, .deadline_s = 120};
    backend_result got = run_on(cpu, m, &o, NULL, NULL);
    explain(hlo_compare(want.outputs, got.outputs, hlo_near(1e-4, 1e-4)));
    backend_result_free(&got);
  }
  backend_result_free(&want);
  hlo_module_free(m);
}

// Whether one of its kernels is of this kind.
static inline bool has_kernel(const char *text, const char *kind) {
  hlo_module *m = parse(text);
  backend_options o = {.context = backends};
  backend_exe *e = NULL;
  explain(cpu->compile(m, &o, &e));
  const backend_compiled *c = cpu->compiled(e);
  bool found = false;
  for (u32 k = 0; k < c->nkernels; k++) found |= strcmp(c->kernels[k].kind, kind) == 0;
  cpu->release(e);
  hlo_module_free(m);
  return found;
}
static inline void runs_as(const char *text, const char *kind) {
  assert_true(has_kernel(text, kind));
}

// Bytes of the temporaries of a program.
static inline i64 temporaries(const char *text) {
  hlo_module *m = parse(text);
  backend_options o = {.context = backends};
  backend_exe *e = NULL;
  explain(cpu->compile(m, &o, &e));
  i64 bytes = cpu->compiled(e)->temp_bytes;
  cpu->release(e);
  hlo_module_free(m);
  return bytes;
}

// Whether what is dumped of a program has a word.
static inline bool dump_has(const char *text, const char *what, const char *word) {
  hlo_module *m = parse(text);
  backend_exe *e = NULL;
  hs_buf out = {0};
  explain(cpu->compile(m, &(backend_options){.context = backends}, &e));
  explain(cpu->dump(e, what, &out));
  bool found = strstr(hs_buf_cstr(&out), word) != NULL;
  hs_buf_free(&out);
  cpu->release(e);
  hlo_module_free(m);
  return found;
}

#define MODULE(body) "HloModule t\n" body

#define LT                                                                                 \
  "lt { a = f32[] parameter(0)\n b = f32[] parameter(1)\n ROOT c = pred[] compare(a, b), " \
  "direction=LT, type=TOTALORDER }\n"

// The main of a program of tests: a worker where it was started as one; nothing but a named skip
// where the cpu backend cannot run. argv[1] names the tests to run, with * and ?.
static inline int run_cpu_tests(int argc, char **argv, const char *name,
                                const struct CMUnitTest *tests, size_t n) {
  int status;
  if (worker_entry(argc, argv, &status)) return status;
  if (argc > 1) cmocka_set_test_filter(argv[1]);
  cpu = backend_find(UNDER_TEST);
  hs_status s = cpu->probe();
  if (!hs_ok(s)) {
    hs_buf why = {0};
    hs_status_render(s, &why, false);
    status = skip_all(hs_buf_cstr(&why));
    hs_buf_free(&why);
    hs_status_drop(s);
    return status;
  }
  ctx = hlo_ctx_new();
  backends = backend_context_new();
  int bad = _cmocka_run_group_tests(name, tests, n, NULL, NULL);
  backend_context_free(backends);
  hlo_ctx_free(ctx);
  return bad;
}

#endif
