// cpu_devices.c — what the cpu backend does by functions of core/eval: library calls on one
// device, and programs for several devices, which run in step and decide differently.
#include "tests/unit/devices.h"

// The factors of a call of LAPACK and what else a custom call of the table means, in layouts of
// their own too.
static void libraries(void **state) {
  (void)state;
  hlo_module *m =
      parse(MODULE("ENTRY e { p = c64[2,3,3]{1,2,0} parameter(0)\n"
                   " ROOT r = (c64[2,3,3]{1,2,0}, s32[2,3]{1,0}, s32[2]{0}) custom-call(p),"
                   " custom_call_target=\"lapack_cgetrf_ffi\" }"));
  bool lapack = hlo_eval_supports(m->entry->root, NULL);
  hlo_module_free(m);
  agrees(
      MODULE("ENTRY e { p = f32[4,3]{1,0} parameter(0)\n"
             " ROOT r = (f32[4,3]{1,0}, f32[3]{0}) custom-call(p), custom_call_target=\"Qr\" }"));
  agrees(MODULE("body { x = f32[4] parameter(0)\n ROOT y = f32[4] negate(x) }\n"
                "ENTRY e { p = f32[4] parameter(0)\n ROOT r = f32[4] custom-call(p),"
                " custom_call_target=\"HostExecute\", called_computations={body} }"));
  if (!lapack) SKIP_TEST("built without LAPACKE");
  agrees(MODULE("ENTRY e { p = c64[2,3,3]{1,2,0} parameter(0)\n"
                " ROOT r = (c64[2,3,3]{1,2,0}, s32[2,3]{1,0}, s32[2]{0}) custom-call(p),"
                " custom_call_target=\"lapack_cgetrf_ffi\" }"));
  agrees(MODULE("ENTRY e { p = f64[5,3] parameter(0)\n"
                " ROOT r = (f64[5,3], f64[3]) custom-call(p),"
                " custom_call_target=\"lapack_dgeqrf_ffi\" }"));
  // many batches, of which each thread takes some
  agrees(MODULE("ENTRY e { p = f64[70,9,9] parameter(0)\n"
                " ROOT r = (f64[70,9,9], s32[70,9], s32[70]) custom-call(p),"
                " custom_call_target=\"lapack_dgetrf_ffi\" }"));
  agrees(MODULE("ENTRY e { p = c64[5,13,11,7] parameter(0)\n"
                " ROOT r = (c64[5,13,11,7]{2,3,1,0}, c64[5,13,7]) custom-call(p),"
                " custom_call_target=\"lapack_cgeqrf_ffi\" }"));
  agrees(MODULE("ENTRY e { p = f32[70,9,7] parameter(0)\n"
                " ROOT r = (f32[70,9,7], f32[70,7], f32[70,9,9], f32[70,7,7], s32[70])"
                " custom-call(p), custom_call_target=\"lapack_sgesdd_ffi\","
                " backend_config=\"{mode = 65 : ui8}\" }"));
  agrees(MODULE("ENTRY e { a = f64[90,7,7] parameter(0)\n b = f64[90,7,5] parameter(1)\n"
                " ROOT r = f64[90,7,5] custom-call(a, b), custom_call_target=\"lapack_dtrsm_ffi\","
                " backend_config=\"{side = 76 : ui8, uplo = 76 : ui8, diag = 85 : ui8, "
                "trans_x = 78 : ui8}\" }"));
  agrees(MODULE("ENTRY e { l = f64[90,50] parameter(0)\n d = f64[90,50] parameter(1)\n"
                " u = f64[90,50] parameter(2)\n b = f64[90,50,2] parameter(3)\n"
                " ROOT r = (f64[90,50], f64[90,50], f64[90,50], f64[90,50,2], s32[90])"
                " custom-call(l, d, u, b), custom_call_target=\"lapack_dgtsv_ffi\" }"));
}

// What is lowered in the place of an instruction: asynchronous operations, fusions that are no
// kernel; and operations that only the evaluator has a kernel for, which are counted.
static void in_place(void **state) {
  (void)state;
  agrees(MODULE("f { a = f32[4] parameter(0)\n b = f32[4] parameter(1)\n"
                " ROOT r = f32[4] subtract(a, b) }\n"
                "ENTRY e { x = f32[4] parameter(0)\n y = f32[4] negate(x)\n"
                " s = ((f32[4], f32[4]), f32[4], s32[]) async-start(x, y), calls=f\n"
                " u = ((f32[4], f32[4]), f32[4], s32[]) async-update(s)\n"
                " z = f32[4] multiply(x, x)\n d = f32[4] async-done(u)\n"
                " ROOT r = f32[4] add(z, d) }"));
  agrees(MODULE("ENTRY e { x = f32[4,3] parameter(0)\n"
                " s = (f32[4,3]{0,1}, f32[4,3], u32[]) copy-start(x)\n"
                " d = f32[4,3]{0,1} copy-done(s)\n ROOT r = f32[3,4] transpose(d),"
                " dimensions={1,0} }"));
  agrees(MODULE(ADD "ENTRY e { x = s32[3] parameter(0)\n"
                    " s = s32[3] all-reduce-start(x), replica_groups={{0}}, to_apply=add\n"
                    " ROOT d = s32[3] all-reduce-done(s) }"));
  agrees(MODULE("ENTRY e { c = (f32[3], (s32[], pred[2])) constant(({1,2,3}, (7, {1,0})))\n"
                " a = f32[3] get-tuple-element(c), index=0\n"
                " t = (s32[], pred[2]) get-tuple-element(c), index=1\n"
                " i = s32[] get-tuple-element(t), index=0\n x = f32[3] parameter(0)\n"
                " f = f32[] convert(i)\n b = f32[3] broadcast(f), dimensions={}\n"
                " y = f32[3] add(x, a)\n ROOT z = f32[3] add(y, b) }"));
  agrees(MODULE(LT "f { p = f32[9] parameter(0)\n n = f32[9] negate(p)\n"
                   " ROOT s = f32[9] sort(n), dimensions={0}, to_apply=lt }\n"
                   "ENTRY e { x = f32[9] parameter(0)\n"
                   " ROOT r = f32[9] fusion(x), kind=kLoop, calls=f }"));
}

static void kernels_of_the_evaluator(void **state) {
  (void)state;
  const char *text =
      MODULE("ENTRY e { x = f32[5,3] parameter(0)\n s = f32[3] constant({1,2,3})\n"
             " o = f32[3] constant({0,1,0})\n"
             " ROOT r = (f32[5,3], f32[3], f32[3]) batch-norm-training(x, s, o), epsilon=0.001,"
             " feature_index=1 }");
  agrees(text);
  hlo_module *m = parse(text);
  backend_compiled info;
  backend_result r = run_on(cpu, m, NULL, NULL, &info);
  assert_int_equal(info.fallbacks, 1);
  backend_result_free(&r);
  hlo_module_free(m);
  // what works on a dynamic dimension itself has no rule that makes it static
  m = parse(MODULE("ENTRY e { x = f32[4] parameter(0)\n n = s32[] constant(3)\n"
                   " d = f32[<=4] set-dimension-size(x, n), dimensions={0}\n"
                   " y = f32[<=4] negate(d)\n"
                   " ROOT z = f32[<=4] all-to-all(y), replica_groups={{0}}, dimensions={0} }"));
  hs_buf why = {0};
  assert_true(cpu->supports(hlo_find_instr(m, "y"), NULL));
  assert_false(cpu->supports(m->entry->root, &why));
  assert_non_null(strstr(hs_buf_cstr(&why), "all-to-all"));
  hs_buf_free(&why);
  hlo_module_free(m);
}

int main(int argc, char **argv) {
  const struct CMUnitTest tests[] = {TESTS_OF_DEVICES, cmocka_unit_test(libraries),
                                     cmocka_unit_test(in_place),
                                     cmocka_unit_test(kernels_of_the_evaluator)};
  return run_cpu_tests(argc, argv, "cpu_devices", tests, HS_COUNT(tests));
}
