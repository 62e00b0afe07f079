// dynamic.c — modules with dynamic dimensions on the cpu and on the emulated GPU: the modules of
// tests/hlo/passes/dynamic, called with several sizes, give what the evaluator gives.
#include <glob.h>

#include "core/text/text.h"
#include "tests/unit/backends/cpu.h"

static bool can_run(const backend *b) {
  hs_status s = b->probe();
  bool fine = hs_ok(s);
  hs_status_drop(s);
  return fine;
}

// Sizes from 0 to the bound, other ones in each round.
static void cut(hlo_literal *l, u32 round, u32 *k) {
  for (u32 j = 0; j < l->nchildren; j++) cut(l->children[j], round, k);
  for (u32 d = 0; l->dynamic_sizes && d < l->shape->rank; d++)
    if (l->shape->dynamic[d])
      l->dynamic_sizes[d] =
          (i32)((l->shape->dims[d] + 2 * (*k)++ + round * 5) % (l->shape->dims[d] + 1));
}

static const backend *interp(void) { return backend_find("interp"); }

// The module after a pipeline, on a backend, against itself before, on the evaluator.
static void compare_rounds(const backend *b, const hlo_module *before, const char *pipeline,
                           bool alone) {
  hlo_literal **args;
  u32 n;
  backend_exe *e, *want;
  const backend_options o = {.context = backends, .deadline_s = 120, .per_instruction = alone};
  hlo_module *m = hlo_module_clone(before, before->name);
  if (*pipeline) run_verified(m, pipeline);
  explain(hlo_inputs_random(ctx, before, 5, &args, &n));
  explain(b->compile(m, &o, &e));
  explain(interp()->compile(before, &o, &want));
  for (u32 round = 0; round < 4; round++) {
    for (u32 k = 0, at = 0; k < n && round; k++) cut(args[k], round, &at);
    backend_result x, y;
    explain(interp()->run(want, n, args, NULL, &x));
    explain(b->run(e, n, args, NULL, &y));
    expect_good(hlo_compare(x.outputs, y.outputs, hlo_near(1e-4, 1e-4)), pipeline);
    backend_result_free(&x);
    backend_result_free(&y);
  }
  b->release(e);
  interp()->release(want);
  hlo_inputs_free(args, n);
  hlo_module_free(m);
}

static void same_results(void **state) {
  (void)state;
  static const struct {
    const char *backend, *pipeline;
    bool alone;
  } ways[] = {{"cpu", "", false},
              {"cpu", "", true},
              {"cpu", "cpu", false},
              {"cpu", "tuned", false},
              {"cpu", "dynamic_padder, tuned", false},
              {"gpu-emulated", "", false},
              {"gpu-emulated", "gpu", false}};
  glob_t g;
  assert_int_equal(glob("tests/hlo/passes/dynamic/*.hlo", 0, NULL, &g), 0);
  for (size_t k = 0; k < g.gl_pathc; k++) {
    hlo_module *m = NULL;
    explain(hlo_load_file(ctx, g.gl_pathv[k], NULL, &m));
    for (size_t j = 0; j < HS_COUNT(ways); j++) {
      const backend *b = backend_find(ways[j].backend);
      print_message("%s %s %s\n", g.gl_pathv[k], ways[j].backend, ways[j].pipeline);
      if (can_run(b)) compare_rounds(b, m, ways[j].pipeline, ways[j].alone);
    }
    hlo_module_free(m);
  }
  globfree(&g);
}

// What has no static form, and what is no argument, is named.
static void refusals(void **state) {
  (void)state;
  hlo_module *m = parse(MODULE("ENTRY e { x = f32[<=4] parameter(0)\n"
                               " ROOT y = f32[<=4] all-to-all(x), replica_groups={{0}}, "
                               "dimensions={0} }"));
  backend_exe *e = NULL;
  hs_status s = cpu->compile(m, &(backend_options){.context = backends}, &e);
  assert_false(hs_ok(s));
  assert_int_equal(s.err->code, HS_E_UNSUPPORTED);
  assert_null(e);
  hs_status_drop(s);
  hlo_module_free(m);
  m = parse(MODULE("ENTRY e { x = f32[<=4] parameter(0)\n ROOT y = f32[<=4] negate(x) }"));
  explain(cpu->compile(m, &(backend_options){.context = backends}, &e));
  hlo_literal *other = hlo_literal_scalar_f64(ctx, HLO_F32, 1);
  backend_result r;
  for (u32 n = 0; n < 2; n++) {
    s = cpu->run(e, n, &other, NULL, &r);
    assert_false(hs_ok(s));
    assert_int_equal(s.err->code, HS_E_INPUT);
    assert_null(r.outputs);
    hs_status_drop(s);
  }
  hlo_literal_unref(other);
  cpu->release(e);
  hlo_module_free(m);
}

// An operation that cannot be compiled, and that nobody reads, is no reason to refuse a module.
static void unread(void **state) {
  (void)state;
  agrees(MODULE("f { p = (f32[3], f32[2]) parameter(0)\n ROOT x = f32[3] constant({1,2,3}) }\n"
                "ENTRY e { x = f32[3] parameter(0)\n y = f32[2] custom-call(x), "
                "custom_call_target=\"nobody knows\"\n t = (f32[3], f32[2]) tuple(x, y)\n"
                " z = f32[3] call(t), to_apply=f\n ROOT r = f32[3] add(x, z) }"));
}

int main(int argc, char **argv) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(same_results), cmocka_unit_test(refusals),
                                     cmocka_unit_test(unread)};
  return run_cpu_tests(argc, argv, "cpu_dynamic", tests, HS_COUNT(tests));
}
