// gpu_code.c — code generation for GPUs: which schedule each kind of kernel gets, and that its
// PTX has what makes it fast: accesses of 16 bytes, shuffles, padded shared memory, 32-bit indices.
#if HAVE_LLVM
#include "backends/emit/gpu.h"
#include "core/text/text.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static hlo_ctx *ctx;

static void show(hs_status s, const char *text) {
  hs_buf b = {0};
  hs_status_render(s, &b, false);
  print_error("%s\n%s\n", text, hs_buf_cstr(&b));
  hs_buf_free(&b);
}

typedef struct made {
  hlo_module *m;
  emit_gpu_unit *u;
  emit_gpu_kernel k;  // a copy, as of the end
  hs_buf ptx, llvm, schedule;
} made;

// Compiles the root instruction of a module for a compute capability.
static made make_for(u32 sm, const char *text) {
  made x = {0};
  const emit_gpu_kernel *k = NULL;
  hs_status s = hlo_parse(ctx, text, strlen(text), NULL, &x.m);
  if (hs_ok(s)) s = emit_gpu_unit_new(&(emit_gpu_options){.sm = sm, .verify = true}, &x.u);
  if (hs_ok(s)) s = emit_gpu_add(x.u, x.m->entry->root, &k);
  if (hs_ok(s)) s = emit_gpu_finish(x.u, 2, NULL);
  if (hs_ok(s)) s = emit_gpu_ptx(x.u, &x.ptx);
  if (hs_ok(s)) s = emit_gpu_dump(x.u, "llvm", &x.llvm);
  if (hs_ok(s)) s = emit_gpu_dump(x.u, "schedule", &x.schedule);
  if (!hs_ok(s)) {
    show(s, text);
    fail();
  }
  x.k = *k;
  return x;
}

static void drop(made *x) {
  emit_gpu_unit_free(x->u);
  hlo_module_free(x->m);
  hs_buf_free(&x->ptx);
  hs_buf_free(&x->llvm);
  hs_buf_free(&x->schedule);
}

static void expect(made *x, const char *has) {
  if (!strstr(hs_buf_cstr(&x->ptx), has)) print_error("%s\n", hs_buf_cstr(&x->ptx));
  assert_non_null(strstr(hs_buf_cstr(&x->ptx), has));
}

#define SUM "add { a = f32[] parameter(0)\n b = f32[] parameter(1)\n ROOT c = f32[] add(a, b) }\n"
#define MAX \
  "max { a = f32[] parameter(0)\n b = f32[] parameter(1)\n ROOT c = f32[] maximum(a, b) }\n"

static int setup(void **state) {
  (void)state;
  ctx = hlo_ctx_new();
  return 0;
}
static int teardown(void **state) {
  (void)state;
  hlo_ctx_free(ctx);
  return 0;
}

static void elementwise_goes_by_sixteen_bytes(void **state) {
  (void)state;
  made x = make_for(90, "HloModule m\nENTRY e { p = f32[512,1024] parameter(0)\n"
                        " q = f32[512,1024] parameter(1)\n"
                        " ROOT add.3 = f32[512,1024] add(p, q) }\n");
  assert_int_equal(x.k.kind, EMIT_POINTWISE);
  assert_string_equal(x.k.name, "add_3");
  assert_int_equal(x.k.grid * x.k.block * 4, 512 * 1024);
  assert_int_equal(x.k.finish_grid, 0);
  expect(&x, ".visible .entry add_3(");
  expect(&x, ".target sm_90");
  expect(&x, "ld.global.v4.");
  expect(&x, "st.global.v4.");
  assert_null(strstr(hs_buf_cstr(&x.ptx), "mul.lo.s64"));
  assert_non_null(strstr(hs_buf_cstr(&x.llvm), "\"hlo\"=\"add.3\""));
  assert_non_null(strstr(hs_buf_cstr(&x.llvm), "\"hlo-bytes\"=\"2097152\""));
  drop(&x);
  // what does not fit in 32 bits has wide indices
  x = make_for(90, "HloModule m\nENTRY e { p = s8[3000000000] parameter(0)\n"
                   " ROOT r = s8[3000000000] negate(p) }\n");
  assert_true(x.k.grid <= 1 << 16);
  assert_non_null(strstr(hs_buf_cstr(&x.llvm), "i64"));
  drop(&x);
  x = make_for(75, "HloModule m\nENTRY e { p = f32[0,8] parameter(0)\n"
                   " ROOT r = f32[0,8] negate(p) }\n");
  assert_int_equal(x.k.grid, 0);
  assert_int_equal(x.k.kind, EMIT_EMPTY);
  drop(&x);
}

static void rows_are_shared(void **state) {
  (void)state;
  made x = make_for(80, "HloModule m\n" SUM "ENTRY e { p = f32[4096,2048] parameter(0)\n"
                        " z = f32[] constant(0)\n ROOT r = f32[4096] reduce(p, z),"
                        " dimensions={1}, to_apply=add }\n");
  assert_int_equal(x.k.kind, EMIT_ROW_REDUCE);
  assert_int_equal(x.k.grid, 4096);
  expect(&x, "shfl.sync.bfly");
  expect(&x, "bar.sync");
  expect(&x, "ld.global.v4.");
  assert_true(x.k.shared_bytes > 0);
  drop(&x);
  // short rows: several in a warp, nothing shared
  x = make_for(80, "HloModule m\n" SUM "ENTRY e { p = f32[40000,32] parameter(0)\n"
                   " z = f32[] constant(0)\n ROOT r = f32[40000] reduce(p, z),"
                   " dimensions={1}, to_apply=add }\n");
  assert_int_equal(x.k.shared_bytes, 0);
  assert_null(strstr(hs_buf_cstr(&x.ptx), "bar.sync"));
  drop(&x);
  // all of it: two launches
  x = make_for(80, "HloModule m\n" MAX "ENTRY e { p = f32[16777216] parameter(0)\n"
                   " z = f32[] constant(0)\n ROOT r = f32[] reduce(p, z),"
                   " dimensions={0}, to_apply=max }\n");
  assert_true(x.k.grid > 100);
  assert_int_equal(x.k.finish_grid, 1);
  assert_true(x.k.scratch_bytes >= 4 * x.k.grid);
  expect(&x, "_finish(");
  drop(&x);
}

static void columns_are_split(void **state) {
  (void)state;
  made x = make_for(90, "HloModule m\n" SUM "ENTRY e { p = f32[65536,1024] parameter(0)\n"
                        " z = f32[] constant(0)\n ROOT r = f32[1024] reduce(p, z),"
                        " dimensions={0}, to_apply=add }\n");
  assert_int_equal(x.k.kind, EMIT_COLUMN_REDUCE);
  assert_true(x.k.grid * x.k.block >= 65536);
  assert_true(x.k.finish_grid >= 1);
  drop(&x);
}

static void softmax_keeps_rows_in_shared_memory(void **state) {
  (void)state;
  made x = make_for(
      90, "HloModule m\n" SUM MAX "f { p = f32[1024,2048] parameter(0)\n n = f32[] constant(-inf)\n"
          " z = f32[] constant(0)\n m = f32[1024] reduce(p, n), dimensions={1}, to_apply=max\n"
          " mb = f32[1024,2048] broadcast(m), dimensions={0}\n"
          " s = f32[1024,2048] subtract(p, mb)\n e = f32[1024,2048] exponential(s)\n"
          " t = f32[1024] reduce(e, z), dimensions={1}, to_apply=add\n"
          " tb = f32[1024,2048] broadcast(t), dimensions={0}\n"
          " ROOT d = f32[1024,2048] divide(e, tb) }\n"
          "ENTRY e { p = f32[1024,2048] parameter(0)\n"
          " ROOT r = f32[1024,2048] fusion(p), kind=kInput, calls=f }\n");
  assert_int_equal(x.k.kind, EMIT_ROW_WISE);
  assert_true(x.k.shared_bytes >= 2048 * 4);
  assert_non_null(strstr(hs_buf_cstr(&x.schedule), " keep v"));
  expect(&x, "st.shared.v4.");
  expect(&x, "ld.shared.v4.");
  drop(&x);
}

static void transposes_turn_in_shared_memory(void **state) {
  (void)state;
  made x = make_for(90, "HloModule m\nENTRY e { p = f32[4096,8192] parameter(0)\n"
                        " ROOT r = f32[8192,4096] transpose(p), dimensions={1,0} }\n");
  assert_int_equal(x.k.kind, EMIT_TRANSPOSE);
  assert_int_equal(x.k.shared_bytes, 33 * 32 * 4);
  expect(&x, "ld.shared");
  drop(&x);
  x = make_for(90, "HloModule m\nENTRY e { p = bf16[100,200] parameter(0)\n"
                   " ROOT r = bf16[200,100] transpose(p), dimensions={1,0} }\n");
  assert_int_equal(x.k.shared_bytes, 66 * 64 * 2);
  drop(&x);
}

// Everything has code of its own: nothing is left to a library.
static void mathematics_needs_no_library(void **state) {
  (void)state;
  static const char *const ops[] = {"exponential", "log",  "sine",  "cosine", "tan",  "tanh",
                                    "logistic",    "erf",  "cbrt",  "rsqrt",  "sinh", "cosh",
                                    "asin",        "acos", "asinh", "acosh",  "atanh"};
  for (u32 wide = 0; wide < 2; wide++)
    for (size_t k = 0; k < HS_COUNT(ops); k++) {
      const char *t = wide ? "f64" : "f32";
      char *text = hs_format("HloModule m\nENTRY e { p = %s[4096] parameter(0)\n"
                             " ROOT r = %s[4096] %s(p) }\n",
                             t, t, ops[k]);
      made x = make_for(90, text);
      assert_null(strstr(hs_buf_cstr(&x.ptx), ".extern"));
      drop(&x);
      hs_free(text);
    }
}

static void equal_kernels_are_one_function(void **state) {
  (void)state;
  static const char text[] = "HloModule m\nENTRY e { p = f32[64] parameter(0)\n"
                             " a = f32[64] negate(p)\n b = f32[64] negate(a)\n"
                             " ROOT c = f32[64] abs(b) }\n";
  hlo_module *m = NULL;
  emit_gpu_unit *u = NULL;
  hs_buf ptx = {0}, code = {0};
  const emit_gpu_kernel *k[3];
  assert_true(hs_ok(hlo_parse(ctx, text, strlen(text), NULL, &m)));
  assert_true(hs_ok(emit_gpu_unit_new(&(emit_gpu_options){.sm = 75}, &u)));
  const hlo_instr *c = m->entry->root, *b = hlo_operand(c, 0), *a = hlo_operand(b, 0);
  assert_true(hs_ok(emit_gpu_add(u, a, &k[0])));
  assert_true(hs_ok(emit_gpu_add(u, b, &k[1])));
  assert_true(hs_ok(emit_gpu_add(u, c, &k[2])));
  hlo_module_free(m);  // the unit has what it needs
  assert_true(hs_ok(emit_gpu_finish(u, 2, NULL)));
  assert_string_equal(k[0]->name, k[1]->name);
  assert_string_not_equal(k[0]->name, k[2]->name);
  assert_true(hs_ok(emit_gpu_ptx(u, &ptx)));
  // one header, though the kernels were compiled apart
  char *version = strstr(hs_buf_cstr(&ptx), ".version");
  assert_non_null(version);
  assert_null(strstr(version + 1, ".version"));
  assert_true(hs_ok(emit_gpu_bitcode(u, &code)));
  assert_true(code.n > 4 && !memcmp(code.p, "BC\xC0\xDE", 4));
  hs_buf_free(&ptx);
  hs_buf_free(&code);
  emit_gpu_unit_free(u);
}

// Operations that the CPU runs by other means are kernels here.
static void convolution_scatter_and_sort_are_kernels(void **state) {
  (void)state;
  static const char *const texts[] = {
      "ENTRY e { a = f32[2,9,9,3] parameter(0)\n k = f32[3,3,3,5] parameter(1)\n"
      " ROOT r = f32[2,9,9,5] convolution(a, k), window={size=3x3 pad=1_1x1_1},"
      " dim_labels=b01f_01io->b01f }\n",
      "ENTRY e { o = f32[20] parameter(0)\n i = s32[50,1] parameter(1)\n"
      " u = f32[50] parameter(2)\n ROOT r = f32[20] scatter(o, i, u), update_window_dims={},"
      " inserted_window_dims={0}, scatter_dims_to_operand_dims={0}, index_vector_dim=1,"
      " to_apply=add }\n",
      "less { a = f32[] parameter(0)\n b = f32[] parameter(1)\n"
      " ROOT c = pred[] compare(a, b), direction=LT }\n"
      "ENTRY e { o = f32[500] parameter(0)\n"
      " ROOT r = f32[500] sort(o), dimensions={0}, to_apply=less }\n"};
  for (size_t k = 0; k < HS_COUNT(texts); k++) {
    char *text = hs_format("HloModule m\n" SUM "%s", texts[k]);
    made x = make_for(90, text);
    assert_true(x.k.grid + x.k.nbefore > 0);
    assert_true(emit_gpu_supports(x.m->entry->root, NULL));
    // of these the cpu's emitter knows convolutions, for those of one feature
    assert_int_equal(emit_supports(x.m->entry->root, NULL), k == 0);
    drop(&x);
    hs_free(text);
  }
  // looking through a million windows for each of four million elements would take minutes
  hlo_module *m = NULL;
  hs_buf why = {0};
  static const char large[] =
      "HloModule m\n" SUM "ENTRY e { o = f32[4194304] parameter(0)\n"
      " i = s32[1048576,1] parameter(1)\n u = f32[1048576,3] parameter(2)\n"
      " ROOT r = f32[4194304] scatter(o, i, u), update_window_dims={1}, inserted_window_dims={},"
      " scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=add }\n";
  assert_true(hs_ok(hlo_parse(ctx, large, strlen(large), NULL, &m)));
  assert_false(emit_gpu_supports(m->entry->root, &why));
  assert_string_equal(hs_buf_cstr(&why), "unsupported: scatter: too large");
  hs_buf_free(&why);
  hlo_module_free(m);
}

static void what_cannot_be_is_refused(void **state) {
  (void)state;
  emit_gpu_unit *u = NULL;
  hs_status s = emit_gpu_unit_new(&(emit_gpu_options){.sm = 77}, &u);
  assert_false(hs_ok(s));
  assert_int_equal(s.err->code, HS_E_UNSUPPORTED);
  hs_status_drop(s);
  static const char text[] = "HloModule m\nENTRY e { p = f32[4,4] parameter(0)\n"
                             " ROOT r = f32[4,4] cholesky(p) }\n";
  hlo_module *m = NULL;
  hs_buf why = {0};
  assert_true(hs_ok(hlo_parse(ctx, text, strlen(text), NULL, &m)));
  assert_false(emit_gpu_supports(m->entry->root, &why));
  assert_string_equal(hs_buf_cstr(&why), "unsupported: cholesky");
  hs_buf_free(&why);
  hlo_module_free(m);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
int main(void) {
  const struct CMUnitTest tests[] = {
      TEST(elementwise_goes_by_sixteen_bytes),
      TEST(rows_are_shared),
      TEST(columns_are_split),
      TEST(softmax_keeps_rows_in_shared_memory),
      TEST(transposes_turn_in_shared_memory),
      TEST(mathematics_needs_no_library),
      TEST(equal_kernels_are_one_function),
      TEST(convolution_scatter_and_sort_are_kernels),
      TEST(what_cannot_be_is_refused),
  };
  return cmocka_run_group_tests_name("gpu_code", tests, NULL, NULL);
}

#else
#include "tests/unit/skip.h"

int main(void) { return skip_all("no LLVM in this build"); }
#endif
