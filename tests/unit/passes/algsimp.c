// The algebraic simplifier, rule by rule: each case is a small module, the instruction count or
// root it must end with.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "passes/passes.h"

static hlo_module *m;
static hlo_computation *e;

static int setup(void **state) {
  (void)state;
  m = hlo_module_new(hlo_ctx_new(), "t");
  e = hlo_add_computation(m, "main");
  hlo_set_entry(m, e);
  return 0;
}

static int teardown(void **state) {
  (void)state;
  hlo_ctx *c = m->ctx;
  hlo_module_free(m);
  hlo_ctx_free(c);
  return 0;
}

static hlo_instr *param(hlo_dtype t, u32 rank, const i64 *dims) {
  return hlo_add_parameter(e, e->nparams, hlo_shape_array(m->ctx, t, rank, dims), NULL);
}

static hlo_instr *full_int(const hlo_shape *s, i64 v) {
  hlo_literal *l;
  assert_true(hs_ok(hlo_literal_new(hlo_shape_scalar(m->ctx, s->dtype), &l)));
  hlo_literal_set_i64(l, 0, v);
  hlo_instr *one = hlo_add_constant(e, l, NULL);
  return hlo_add(e, HLO_BROADCAST, s, 1, &one, NULL);
}

static hlo_instr *simplify(hlo_instr *root) {
  hlo_set_root(e, root);
  pass_run_options o = pass_run_default();
  o.verify = o.measure = false;
  pass_result r;
  hs_status s = pass_run(m, pass_find(&pass_builtin, "algsimp"), NULL, &o, &r);
  assert_true(hs_ok(s));
  return e->root;
}

static void add_zero(void **state) {
  (void)state;
  hlo_instr *x = param(HLO_F32, 1, (i64[]){8});
  assert_ptr_equal(simplify(hlo_build_binary(HLO_ADD, hlo_build_full(e, x->shape, 0), x)), x);
}

// min(x, highest) and x & ~0 for unsigned integers, 64 bits included
static void unsigned_bounds(void **state) {
  (void)state;
  static const hlo_dtype types[] = {HLO_U8, HLO_U32, HLO_U64};
  for (size_t k = 0; k < HS_COUNT(types); k++) {
    hlo_instr *x = param(types[k], 1, (i64[]){8});
    i64 ones = types[k] == HLO_U64 ? -1 : ((i64)1 << hlo_dtype_bits(types[k])) - 1;
    assert_ptr_equal(simplify(hlo_build_binary(HLO_MINIMUM, x, full_int(x->shape, ones))), x);
    assert_ptr_equal(simplify(hlo_build_binary(HLO_AND, full_int(x->shape, ones), x)), x);
    assert_int_equal(
        simplify(hlo_build_binary(HLO_MINIMUM, x, full_int(x->shape, ones - 1)))->opcode,
        HLO_MINIMUM);
    assert_int_equal(simplify(hlo_build_binary(HLO_MAXIMUM, x, full_int(x->shape, ones)))->opcode,
                     HLO_BROADCAST);
  }
}

static void float_times_zero_stays(void **state) {
  (void)state;
  hlo_instr *x = param(HLO_F32, 1, (i64[]){8});
  assert_int_equal(
      simplify(hlo_build_binary(HLO_MULTIPLY, x, hlo_build_full(e, x->shape, 0)))->opcode,
      HLO_MULTIPLY);
}

static void int_times_zero(void **state) {
  (void)state;
  hlo_instr *x = param(HLO_S32, 1, (i64[]){8});
  assert_int_equal(
      simplify(hlo_build_binary(HLO_MULTIPLY, x, hlo_build_full(e, x->shape, 0)))->opcode,
      HLO_BROADCAST);
}

static void transposes_compose(void **state) {
  (void)state;
  hlo_instr *x = param(HLO_F32, 3, (i64[]){2, 3, 4});
  hlo_instr *t = hlo_build_transpose(hlo_build_transpose(x, (i64[]){1, 2, 0}), (i64[]){2, 0, 1});
  assert_ptr_equal(simplify(t), x);
}

static void reduce_of_broadcast(void **state) {
  (void)state;
  hlo_instr *x = param(HLO_F32, 1, (i64[]){4});
  hlo_instr *b = hlo_build_broadcast(x, 2, (i64[]){4, 8}, (i64[]){0});
  hlo_computation *add = hlo_build_scalar_computation(m, HLO_ADD, HLO_F32);
  hlo_instr *r =
      simplify(hlo_build_reduce(b, hlo_build_scalar_f64(e, HLO_F32, 0), 1, (i64[]){1}, add));
  assert_int_equal(r->opcode, HLO_MULTIPLY);
  assert_ptr_equal(hlo_operand(r, 0), x);
}

static void slice_of_concat(void **state) {
  (void)state;
  hlo_instr *x = param(HLO_F32, 1, (i64[]){4}), *y = param(HLO_F32, 1, (i64[]){6});
  hlo_instr *c = hlo_build_concatenate(2, (hlo_instr *[]){x, y}, 0);
  hlo_instr *r = simplify(hlo_build_slice(c, (i64[]){4}, (i64[]){10}, (i64[]){1}));
  assert_ptr_equal(r, y);
}

static void division_by_eight(void **state) {
  (void)state;
  hlo_instr *x = param(HLO_U32, 1, (i64[]){4});
  assert_int_equal(
      simplify(hlo_build_binary(HLO_DIVIDE, x, hlo_build_full(e, x->shape, 8)))->opcode,
      HLO_SHIFT_RIGHT_LOGICAL);
}

static void rewrite_limit(void **state) {
  (void)state;
  hlo_instr *x = param(HLO_F32, 0, NULL);
  hlo_instr *r = hlo_build_unary(HLO_NEGATE, hlo_build_unary(HLO_NEGATE, x));
  hlo_set_root(e, r);
  pass_run_options o = pass_run_default();
  o.verify = o.measure = false;
  o.rewrite_limit = 0;
  pass_result res;
  hs_status s = pass_run(m, pass_find(&pass_builtin, "algsimp"), NULL, &o, &res);
  assert_true(hs_ok(s));
  assert_false(res.changed);
  assert_ptr_equal(e->root, r);
}

// Counters of an unrolled loop: each step is used twice, so that sums of constants that were merged
// become operands of others. They are constants then, and are not taken apart again.
static void counters_settle(void **state) {
  (void)state;
  const hlo_shape *s = hlo_shape_scalar(m->ctx, HLO_S32);
  hlo_instr *sum = hlo_build_scalar_i64(e, HLO_S32, 0), *seen[5];
  for (u32 k = 0; k < HS_COUNT(seen); k++) {
    hlo_instr *operands[] = {sum, hlo_build_scalar_i64(e, HLO_S32, 1)};
    seen[k] = hlo_add(e, HLO_ADD, s, 2, operands, NULL);
    sum = hlo_add(e, HLO_ADD, s, 2, operands, NULL);
  }
  hlo_set_root(e, hlo_add_tuple(e, HS_COUNT(seen), seen));
  pass_run_options o = pass_run_default();
  pass_result res;
  assert_true(hs_ok(pass_run(m, pass_find(&pass_builtin, "algsimp"), NULL, &o, &res)));
  assert_in_range(res.rewrites, 1, 50);
}

int main(void) {
#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
  const struct CMUnitTest tests[] = {
      T(add_zero),        T(unsigned_bounds),    T(float_times_zero_stays),
      T(int_times_zero),  T(transposes_compose), T(reduce_of_broadcast),
      T(slice_of_concat), T(division_by_eight),  T(rewrite_limit),
      T(counters_settle)};
  return cmocka_run_group_tests_name("algsimp", tests, NULL, NULL);
}
