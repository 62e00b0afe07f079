// Names of XLA's dump files: which module, which step, whatever the pipelines and passes are
// called.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>

#include "repl/debug/bundle.h"
#include "repl/debug/dump_folder.h"
#include "repl/debug/xla_steps.h"

static const char *const files[] = {
    "module_0003.jit_f.before_optimizations.txt",
    "module_0003.jit_f.0000.simplification.after_pipeline-start.before_algsimp.txt",
    "module_0003.jit_f.0001.simplification.after_algsimp.before_dce.txt",
    "module_0003.jit_f.0001.simplification.after_algsimp.before_dce.hlo.pb",
    "module_0003.jit_f.0002.after_layout_assignment.after_pipeline-start.before_pipeline-end.txt",
    "module_0003.jit_f.0003.copy-insertion.after_adding_special-case_copies.txt",
    "module_0003.jit_f.cpu_after_optimizations.txt",
    "module_0003.jit_f.cpu_after_optimizations-buffer-assignment.txt",
    "module_0003.jit_f.fusion_kernel_module.ir-no-opt.ll",
    "module_0011.a.dotted.name.before_optimizations.txt",
    "1795316967140018.module_0012.jit_t.before_optimizations.txt.gz",
    "1795316967140018.module_0012.jit_t.0000.fusion.after_priority-fusion.before_dce.hlo.pb.gz",
    "module_0013.jit.g.sm_9.0a_gpu_after_optimizations.txt",
    "module_0013.jit.g.gfx90a_gpu_after_optimizations-buffer-assignment.txt",
    "module_0014.h.gfx90a_gpu_after_optimizations.txt",
    "module_0013.jit.g.after_spmd_partitioner.txt",
    "module_0013.jit.g.thunk_sequence.txt",
    "module_0015..before_optimizations.txt",
    "module_10000.z.after_optimizations.txt"};

static void steps_of_file_names(void **state) {
  (void)state;
  char dir[] = "/tmp/hlosh-unit.XXXXXX";
  assert_non_null(mkdtemp(dir));
  for (size_t k = 0; k < HS_COUNT(files); k++) {
    char *path = hs_format("%s/%s", dir, files[k]);
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    fclose(f);
    hs_free(path);
  }
  dump_folder d;
  assert_true(hs_ok(dump_folder_read(dir, &d)));
  static const struct {
    const char *name;
    u32 number;
    size_t steps;
  } modules[] = {{"jit_f", 3, 6}, {"a.dotted.name", 11, 1}, {"jit_t", 12, 2}, {"jit.g", 13, 1},
                 {"h", 14, 1},    {"z", 10000, 1}};
  assert_int_equal(d.modules.n, HS_COUNT(modules));
  for (size_t k = 0; k < HS_COUNT(modules); k++) {
    assert_string_equal(d.modules.v[k].name, modules[k].name);
    assert_int_equal(d.modules.v[k].number, modules[k].number);
    assert_int_equal(d.modules.v[k].steps.n, modules[k].steps);
  }
  assert_string_equal(d.modules.v[3].steps.v[0].label, "after_optimizations");
  const dump_module *m = &d.modules.v[0];
  static const struct {
    const char *pipeline, *pass, *label;
  } want[] = {{NULL, NULL, "before_optimizations"},
              {"simplification", "pipeline-start", "after_pipeline-start"},
              {"simplification", "algsimp", "after_algsimp"},
              {"after_layout_assignment", "pipeline-start", "after_pipeline-start"},
              {"copy-insertion", "adding_special-case_copies", "after_adding_special-case_copies"},
              {NULL, NULL, "after_optimizations"}};
  assert_int_equal(m->steps.n, HS_COUNT(want));
  for (size_t k = 0; k < HS_COUNT(want); k++) {
    const dump_step *s = &m->steps.v[k];
    assert_string_equal(s->label, want[k].label);
    assert_string_equal(s->pass ? s->pass : "none", want[k].pass ? want[k].pass : "none");
    assert_string_equal(s->pipeline ? s->pipeline : "none",
                        want[k].pipeline ? want[k].pipeline : "none");
  }
  assert_non_null(strstr(m->steps.v[2].file, ".txt"));  // text where there are both
  assert_int_equal(d.twins.n, 1);
  assert_non_null(strstr(d.twins.v[0], "after_algsimp.before_dce.hlo.pb"));
  dump_folder_free(&d);
  bundle_remove(dir);
}

static void names_of_passes(void **state) {
  (void)state;
  assert_true(xla_same_name("layout-assignment", "layout_assignment"));
  assert_true(xla_same_name("dce", "dce"));
  assert_false(xla_same_name("dce", "dc"));
  assert_false(xla_same_name("a-b", "aXb"));
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(steps_of_file_names),
                                     cmocka_unit_test(names_of_passes)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
