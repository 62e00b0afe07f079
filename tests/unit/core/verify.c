// verify.c — the verifier: small modules that must pass, small ones that must not with a part of
// the message, and modules whose internal structure was broken on purpose.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "core/text/text.h"
#include "tests/unit/fixture.h"
#include "core/verify/verify.h"

#define ADD "add { a = f32[] parameter(0) b = f32[] parameter(1) ROOT r = f32[] add(a, b) }\n"

typedef struct row {
  const char *text, *want;
  hlo_verify_options o;
} row;  // want NULL: accepted
static const row rows[] = {
    {.text = "ENTRY e { x = f32[4] parameter(0) ROOT r = f32[4] negate(x) }"},
    {.text =
         "ENTRY e { x = f32[4] parameter(0) y = bf16[4] parameter(1) ROOT r = f32[4] add(x, y) }"},
    {.text =
         "ENTRY e { x = f32[4] parameter(0) y = bf16[4] parameter(1) ROOT r = f32[4] add(x, y) }",
     .want = "different precisions",
     .o = {.disallow_mixed_precision = true}},
    {.text = "ENTRY e { x = f32[4] parameter(0) ROOT r = s32[4] negate(x) }",
     .want = "Expected instruction to have shape equal to f32[4]"},
    {.text = "ENTRY e { x = f32[] parameter(0) y = f32[4] parameter(1) ROOT r = f32[4] add(x, y) }",
     .want = "Implicit broadcast"},
    {.text =
         "ENTRY e { x = f32[4]{0} parameter(0) y = f32[2,2]{0,1} parameter(1) ROOT r = (f32[4]{0}, "
         "f32[2,2]{1,0}) tuple(x, y) }",
     .want = "at index {1}",
     .o = {.layout_sensitive = true}},
    {.text =
         "ENTRY e { x = f32[4]{0} parameter(0) y = f32[2,2]{0,1} parameter(1) ROOT r = (f32[4]{0}, "
         "f32[2,2]{1,0}) tuple(x, y) }"},
    {.text =
         "ENTRY e { x = f32[4] parameter(0) y = f32[4] parameter(1) ROOT r = pred[4] compare(x, "
         "y), direction=EQ, type=SIGNED }",
     .want = "FLOAT or TOTALORDER"},
    {.text =
         "lt { a = f32[] parameter(0) b = f32[] parameter(1) ROOT s = f32[] add(a, b) } "
         "ENTRY e { x = f32[4] parameter(0) ROOT r = f32[4] sort(x), dimensions={0}, to_apply=lt }",
     .want = "scalar predicate shape: f32[]"},
    {.text =
         "lt { a = f32[] parameter(0) ROOT s = pred[] compare(a, a), direction=LT } "
         "ENTRY e { x = f32[4] parameter(0) ROOT r = f32[4] sort(x), dimensions={0}, to_apply=lt }",
     .want = "takes 1 parameters"},
    {.text = "lt { a = s8[] parameter(0) b = s8[] parameter(1) ROOT s = pred[] compare(a, b), "
             "direction=LT } ENTRY e { x = f32[4] parameter(0) "
             "ROOT r = f32[4] sort(x), dimensions={0}, to_apply=lt }",
     .want = "Expected the 0-th parameter"},
    {.text = "ENTRY e { ROOT r = s32[4] iota(), iota_dimension=1 }", .want = "iota dimension"},
    {.text = "ENTRY e { x = s4[4]{0:E(4)} parameter(0) ROOT r = s4[4]{0:T(2)(*)E(4)} copy(x) }"},
    {.text = "ENTRY e { x = s4[4]{0:E(-4)} parameter(0) ROOT r = s4[4] copy(x) }",
     .want = "element_size_in_bits field is negative: -4"},
    {.text = "ENTRY e { x = f32[4]{0:T(2)(0)} parameter(0) ROOT r = f32[4] copy(x) }",
     .want = "invalid tiles"},
    {.text = "f { x = f32[4] parameter(0) ROOT r = f32[4] negate(x) } ENTRY e { x = f32[4] "
             "parameter(0) ROOT r = f32[4] fusion(x), kind=kLoop, calls=f }"},
    {.text = "f { x = f32[5] parameter(0) ROOT r = f32[5] negate(x) } ENTRY e { x = f32[4] "
             "parameter(0) ROOT r = f32[5] fusion(x), kind=kLoop, calls=f }",
     .want = "parameter number 0"},
    {.text =
         "f { x = f32[4] parameter(0) y = f32[4] sine(x) ROOT r = f32[4] negate(x) } ENTRY e { x = "
         "f32[4] parameter(0) ROOT r = f32[4] fusion(x), kind=kLoop, calls=f }",
     .want = "must have users"},
    {.text =
         "ENTRY e { x = f32[2,3] parameter(0) ROOT r = f32[2,3] broadcast(x), dimensions={1,0} }",
     .want = "output dimension"},
    {.text =
         "ENTRY e { x = f32[2,2] parameter(0) ROOT r = f32[2,2] broadcast(x), dimensions={1,0} }"},
    {.text =
         "ENTRY e { x = f32[2,2] parameter(0) ROOT r = f32[2,2] broadcast(x), dimensions={1,0} }",
     .want = "should be ordered",
     .o = {.broadcast_dims_ordered = true}},
    {.text = "ENTRY e { x = f32[?] parameter(0) ROOT r = f32[?] negate(x) }",
     .want = "Unbounded dynamism"},
    {.text = "ENTRY e { x = f32[?] parameter(0) ROOT r = f32[?] negate(x) }",
     .o = {.allow_unbounded = true}},
    {.text = "HloModule m, replica_count=4\n" ADD
             "ENTRY e { x = f32[4] parameter(0) ROOT r = f32[4] all-reduce(x), "
             "replica_groups={{0,1},{2,3}}, to_apply=add }"},
    {.text = "HloModule m, replica_count=4\n" ADD
             "ENTRY e { x = f32[4] parameter(0) ROOT r = f32[4] all-reduce(x), "
             "replica_groups={{0,1},{2,2}}, to_apply=add }",
     .want = "Repeated replica id 2"},
    {.text = "HloModule m, replica_count=4\n" ADD
             "ENTRY e { x = f32[4] parameter(0) ROOT r = f32[4] all-reduce(x), "
             "replica_groups={{0,1},{3,5}}, to_apply=add }",
     .want = "Replica 2 is not named"},
    {.text = "HloModule m, replica_count=8\n" ADD
             "ENTRY e { x = f32[4] parameter(0) ROOT r = f32[4] all-reduce(x), "
             "replica_groups={{0,1},{2,3}}, to_apply=add }",
     .want = "should contain 8 replicas"},
    {.text = "HloModule m, replica_count=4\nENTRY e { x = f32[4] parameter(0) ROOT r = f32[16] "
             "all-gather(x), dimensions={0}, replica_groups={{0,1},{2,3}} }",
     .want = "shard_count = 4, subgroup_size = 2"},
    {.text = "ENTRY e { x = f32[4] parameter(0) s = (f32[4], f32[8]) all-gather-start(x), "
             "dimensions={-1} ROOT d = f32[8] all-gather-done(s) }",
     .want = "dimension -1 is out of bounds"},
    {.text = "ENTRY e { x = f32[4] parameter(0) s = (f32[4], f32[8]) all-gather-start(x), "
             "dimensions={1} ROOT d = f32[8] all-gather-done(s) }",
     .want = "dimension 1 is out of bounds"},
    {.text = "ENTRY e { x = f32[4] parameter(0) s = (f32[4], f32[8]) all-gather-start(x, x), "
             "dimensions={0} ROOT d = f32[8] all-gather-done(s) }",
     .want = "for 2 operands"},
    {.text = "ENTRY e { x = f32[4] parameter(0) s = (f32[3], f32[8]) all-gather-start(x), "
             "dimensions={0} ROOT d = f32[8] all-gather-done(s) }",
     .want = "cannot make f32[3]"},
    {.text = "ENTRY e { x = f32[4] parameter(0) ROOT r = f32[4] collective-permute(x), "
             "source_target_pairs={{0,1},{2,1}} }",
     .want = "Target 1 appears more than once"},
    {.text = "ENTRY e { x = f32[4] parameter(0) s = (f32[4], f32[4], u32[]) copy-start(x) ROOT d = "
             "f32[4] copy-done(s) }"},
    {.text =
         "ENTRY e { x = f32[4] parameter(0) s = (f32[4], f32[4], u32[]) copy-start(x) d = f32[4] "
         "copy-done(s) d2 = f32[4] copy-done(s) ROOT r = f32[4] add(d, d2) }",
     .want = "requires one consumer, found 2"},
    {.text = "ENTRY e { x = f32[4] parameter(0) u = u32[] constant(0) t = (f32[4], f32[4], u32[]) "
             "tuple(x, x, u) ROOT d = f32[4] copy-done(t) }",
     .want = "needs to be copy-start, found tuple"},
    {.text =
         "ENTRY e { x = f32[4] parameter(0), sharding={devices=[2,1]0,1} ROOT r = f32[4] negate(x) "
         "}",
     .want = "different than the input rank"},
    {.text = "HloModule m, input_output_alias={ {}: (0, {}, may-alias) }\n"
             "ENTRY e { x = f32[4] parameter(0) ROOT r = f32[4] negate(x) }"},
    {.text = "HloModule m, input_output_alias={ {1}: (0, {}, may-alias) }\n"
             "ENTRY e { x = f32[4] parameter(0) ROOT r = (f32[4]) tuple(x) }",
     .want = "no element {1}"},
    {.text = "HloModule m, input_output_alias={ {}: (3, {}, may-alias) }\n"
             "ENTRY e { x = f32[4] parameter(0) ROOT r = f32[4] negate(x) }",
     .want = "names parameter 3"},
    {.text =
         "HloModule m, is_scheduled=true\nENTRY e { x = f32[4] parameter(0) y = f32[4] negate(x) "
         "ROOT r = f32[4] add(x, y) }"},
    {.text = "b { x = b(f32[4]) parameter(0) ROOT r = b(f32[4]) copy(x) } ENTRY e { x = f32[4] "
             "parameter(0) ROOT r = f32[4] negate(x) }",
     .want = "aren't allowed in this context"},
    {.text = "ENTRY e { x = f32[4] parameter(0) ROOT r = u64[] custom-call(x), "
             "custom_call_target=\"GetRngSeed\" }",
     .want = "must have 0 operands"},
    {.text = "ENTRY e { x = f32[4] parameter(0) ROOT r = f32[4] custom-call(x), "
             "custom_call_target=\"f\", output_to_operand_aliasing={{}: (1, {})} }",
     .want = "Invalid aliasing operand"},
    {.text = "ENTRY e { x = f32[4] parameter(0) ROOT r = u8[2]{0:E(4)} custom-call(x), "
             "custom_call_target=\"f\" }",
     .want = "custom element sizes",
     .o = {.cpu_gpu = true}},
};

static void check_row(hlo_ctx *ctx, const row *r, u32 *bad) {
  hlo_module *m = NULL;
  hs_status s = hlo_parse(ctx, r->text, strlen(r->text), NULL, &m);
  if (hs_ok(s)) s = hlo_verify(m, &r->o);
  bool ok = r->want ? !hs_ok(s) && strstr(s.err->message, r->want) : hs_ok(s);
  if (!ok)
    print_error("%s\n  wanted %s, got %s\n", r->text, r->want ? r->want : "no complaint",
                hs_ok(s) ? "no complaint" : s.err->message),
        ++*bad;
  hs_status_drop(s);
  hlo_module_free(m);
}
static void judges_small_modules(void **state) {
  (void)state;
  hlo_ctx *ctx = hlo_ctx_new();
  u32 bad = 0;
  for (size_t k = 0; k < HS_COUNT(rows); k++) check_row(ctx, &rows[k], &bad);
  hlo_ctx_free(ctx);
  assert_int_equal(bad, 0);
}

// ---- broken on purpose --------------------------------------------------------------------------
static hlo_instr *find(const fixture *f, const char *name) {
  hlo_instr *i = hlo_find_instr(f->m, name);
  assert_non_null(i);
  return i;
}
static int setup(void **state) {
  static const char *const text =
      "HloModule m\n" ADD "leaf { a = f32[4] parameter(0) ROOT leaf_root = f32[4] sine(a) }\n"
      "ENTRY e { x = f32[4] parameter(0) y = f32[4] negate(x) z = f32[4] add(y, x) c = f32[4] "
      "call(z), to_apply=leaf ROOT out = f32[4] multiply(c, y) }\n";
  return fixture_open(state, text);
}
static void refuses(fixture *f, const char *want) {
  hs_status s = hlo_verify(f->m, NULL);
  if (hs_ok(s) || !strstr(s.err->message, want))
    print_error("wanted %s, got %s\n", want, hs_ok(s) ? "no complaint" : s.err->message);
  assert_true(!hs_ok(s) && strstr(s.err->message, want));
  hs_status_drop(s);
}

static void finds_a_cycle(void **state) {
  fixture *f = *state;
  hlo_set_operand(find(f, "y"), 0, find(f, "z"));
  refuses(f, "cycle");
}
static void finds_a_control_cycle(void **state) {
  fixture *f = *state;
  hlo_set_ctrl_preds(find(f, "y"), 1, (hlo_instr *[]){find(f, "out")});
  refuses(f, "cycle");
}
static void finds_recursion(void **state) {
  fixture *f = *state;
  hlo_computation *leaf = hlo_find_comp(f->m, "leaf");
  hlo_instr *call = hlo_add_call(leaf, HLO_CALL, leaf->params[0]->shape, HLO_ATTR_TO_APPLY, leaf, 1,
                                 (hlo_instr *[]){leaf->params[0]});
  hlo_set_root(leaf, call);
  refuses(f, "calls itself");
}
static void finds_a_wrong_schedule(void **state) {
  fixture *f = *state;
  hlo_set_module_attr(f->m, (hlo_attr){HLO_ATTR_IS_SCHEDULED, {.i = 1}});
  hlo_move_before(find(f, "z"), find(f, "y"));
  refuses(f, "schedule");
}
static void finds_a_foreign_operand(void **state) {
  fixture *f = *state;
  hlo_instr *y = find(f, "y"), *stranger = hlo_find_comp(f->m, "leaf")->params[0];
  hlo_instr *kept = y->operands[0].def;
  y->operands[0].def = stranger;
  refuses(f, "different computation");
  y->operands[0].def = kept;
}
static void finds_a_broken_use_list(void **state) {
  fixture *f = *state;
  hlo_instr *x = find(f, "x");
  x->nuses++;
  refuses(f, "use list");
  x->nuses--;
  hlo_use *first = x->first_use;
  x->first_use = first->next;
  refuses(f, "use list");
  x->first_use = first;
}
static void finds_a_wrong_parameter_number(void **state) {
  fixture *f = *state;
  hlo_set_attr_int(find(f, "x"), HLO_ATTR_PARAMETER_NUMBER, 7);
  refuses(f, "parameter number 7");
}
static void finds_the_entry_called(void **state) {
  fixture *f = *state;
  hlo_set_attr_comp(find(f, "c"), HLO_ATTR_TO_APPLY, f->m->entry);
  refuses(f, "entry computation");
}
static void verifies_one_computation(void **state) {
  fixture *f = *state;
  assert_true(hs_ok(hlo_verify_computation(f->m->entry, NULL)));
  hlo_set_shape(find(f, "z"), hlo_shape_array(f->ctx, HLO_F32, 1, (i64[]){5}));
  hs_status s = hlo_verify_computation(f->m->entry, NULL);
  assert_false(hs_ok(s));
  assert_string_equal(s.err->subject, "z");
  hs_status_drop(s);
  assert_true(hs_ok(hlo_verify_computation(hlo_find_comp(f->m, "leaf"), NULL)));
}
static void reports_many_at_once(void **state) {
  fixture *f = *state;
  hlo_set_shape(find(f, "y"), hlo_shape_array(f->ctx, HLO_F32, 1, (i64[]){5}));
  hs_status s = hlo_verify(f->m, NULL);
  assert_true(hs_status_count(s) >= 2);
  hs_status_drop(s);
}

#define T(name) cmocka_unit_test_setup_teardown(name, setup, fixture_close)
int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(judges_small_modules),
                                     T(finds_a_cycle),
                                     T(finds_a_control_cycle),
                                     T(finds_recursion),
                                     T(finds_a_wrong_schedule),
                                     T(finds_a_foreign_operand),
                                     T(finds_a_broken_use_list),
                                     T(finds_a_wrong_parameter_number),
                                     T(finds_the_entry_called),
                                     T(verifies_one_computation),
                                     T(reports_many_at_once)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
