// support.c — the table that `support` prints says what is so: every operation has a sample that
// is valid for some type, and what the cpu backend claims it compiles, runs, and agrees with the
// evaluator.
#include "repl/cmd/samples.h"

#include "core/analysis/agree.h"
#include "tests/unit/backends/cpu.h"

static void every_operation_has_a_sample(void **state) {
  (void)state;
  for (u32 op = 1; op < HLO_OPCODE_COUNT; op++) {
    u32 valid = 0;
    for (u32 t = 0; t < HLO_DTYPE_COUNT; t++) {
      if (!hlo_dtype_is_array((hlo_dtype)t)) continue;
      hlo_module *m;
      hs_status s = support_module(ctx, (hlo_opcode)op, (hlo_dtype)t, &m);
      if (!hs_ok(s)) {
        hs_status_drop(s);
        continue;
      }
      u32 found = 0;
      hlo_for_each_instr(i, m->entry) found += i->opcode == op;
      if (!found) print_error("the sample of %s has none\n", hlo_op_text((hlo_opcode)op));
      assert_true(found > 0);
      valid++;
      hlo_module_free(m);
    }
    if (!valid) print_error("no type has a valid sample of %s\n", hlo_op_text((hlo_opcode)op));
    assert_true(valid > 0);
  }
}

// What is random; elementwise operations are a test of their own (edge values of every type).
static bool not_compared(hlo_opcode op) {
  return op == HLO_RNG || hlo_op_has(op, HLO_F_ELEMENTWISE);
}

// Whether all of the module is claimed, and there is something to compare with.
static bool claimed(const hlo_module *m) {
  hs_status s = backend_check_module(cpu, m);
  if (hs_ok(s)) s = hlo_eval_check(m, NULL);
  bool ok = hs_ok(s);
  hs_status_drop(s);
  return ok;
}

static bool holds(hlo_opcode op, hlo_dtype t, const hlo_module *m) {
  hlo_literal **args = NULL, *want = NULL, *got = NULL;
  u32 n = 0;
  const backend_options o = {.context = backends, .threads = 1, .deadline_s = 60};
  hs_status s = hlo_inputs_random(m->ctx, m, op * 40 + t, &args, &n);
  if (hs_ok(s)) s = hlo_eval_module(m, n, args, NULL, &want);
  if (hs_ok(s)) s = backend_run_once(cpu, m, &o, n, args, &got);
  if (hs_ok(s) && !not_compared(op))
    // a sum of four narrow numbers may be rounded at every step, or once
    s = hlo_agree(m->entry->root, want, got,
                  (hlo_tolerance){.abs = HLO_TYPES_OWN, .rel = HLO_TYPES_OWN, .ulps = 4});
  bool ok = hs_ok(s);
  if (!ok)
    print_error("%s of %s: %s\n%s\n", hlo_op_text(op), hlo_dtype_text(t), s.err->message,
                s.err->note ? s.err->note : "");
  hs_status_drop(s);
  hlo_literal_unref(want);
  hlo_literal_unref(got);
  hlo_inputs_free(args, n);
  return ok;
}

static void claims_hold(void **state) {
  (void)state;
  u32 wrong = 0, tried = 0;
  for (u32 op = 1; op < HLO_OPCODE_COUNT; op++)
    for (u32 t = 0; t < HLO_DTYPE_COUNT; t++) {
      if (!hlo_dtype_is_array((hlo_dtype)t)) continue;
      hlo_module *m;
      hs_status s = support_module(ctx, (hlo_opcode)op, (hlo_dtype)t, &m);
      if (hs_ok(s) && claimed(m)) {
        tried++;
        wrong += !holds((hlo_opcode)op, (hlo_dtype)t, m);
      }
      hs_status_drop(s);
      hlo_module_free(m);
    }
  print_message("%u pairs of operation and type\n", tried);
  assert_true(tried > 1000);
  assert_int_equal(wrong, 0);
}

int main(int argc, char **argv) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(every_operation_has_a_sample),
                                     cmocka_unit_test(claims_hold)};
  return run_cpu_tests(argc, argv, "support", tests, HS_COUNT(tests));
}
