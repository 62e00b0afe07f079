// Unit tests of the passes on calls of cuDNN: calls whose labels or windows do not fit their
// operands, which no verifier looks at, and types that the library does not have.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "tests/unit/modules.h"

#define CALL "custom-call(x, k), custom_call_target="
#define FORWARD CALL "\"__cudnn$convForward\""
#define OF_INPUT CALL "\"__cudnn$convBackwardInput\""

static hs_status run(hlo_module *m, const char *passes) {
  pass_run_options o = pass_run_default();
  o.verify_all = true;
  return pipeline_run(m, passes, &o, NULL);
}

// Padding and dilations that overflow, labels of another rank or none, results that are no pair.
static void what_does_not_fit_stays(void **state) {
  (void)state;
  static const char *const calls[] = {
      "(f32[1,3,5,5], u8[0]) " FORWARD
      ", window={size=3x3 pad=9223372036854775807_0x2_1}, dim_labels=bf01_01io->bf01",
      "(f32[1,3,5,5], u8[0]) " FORWARD ", window={size=3x3 pad=1000000000_0x1000000000_1 "
      "lhs_dilate=1000000x1000000}, dim_labels=bf01_01io->bf01",
      "(f32[1,3,5,5], u8[0]) " OF_INPUT ", window={size=3x3 pad=1000000000_0x1000000000_0}, "
      "dim_labels=bf01_01io->bf01",
      "(f32[1,3,5,5], u8[0]) " FORWARD ", window={size=3 pad=1_0}, dim_labels=b0f_0io->b0f",
      "(f32[1,3,5,5], u8[0]) " FORWARD,
      "(f32[], u8[0]) " OF_INPUT ", window={size=3x3 pad=1_0x2_1}, dim_labels=bf01_01io->bf01",
      "f32[1,3,5,5] " OF_INPUT ", window={size=3x3 pad=1_0x2_1}, dim_labels=bf01_01io->bf01",
  };
  for (size_t k = 0; k < HS_COUNT(calls); k++) {
    char *text = hs_format("HloModule m\nENTRY e {\n  x = f32[1,3,5,5] parameter(0)\n"
                           "  k = f32[3,3,3,3] parameter(1)\n  ROOT c = %s\n}\n",
                           calls[k]);
    hlo_module *m = parse(text);
    u64 hash = hlo_text_hash(m);
    expect_good(run(m, "conv-padding-legalization, cudnn-fused-convolution-rewriter"), calls[k]);
    assert_true(hash == hlo_text_hash(m));
    hlo_module_free(m);
    hs_free(text);
  }
}

// Left alone unless errors are asked for.
static void types_are_rejected_on_request(void **state) {
  (void)state;
  static const struct {
    const char *type, *passes;
  } cases[] = {
      {"c64", "conv-rewriter{reject_types=true}"},
      {"f8e4m3fnuz", "conv-rewriter{reject_types=true}"},
      {"s32", "conv-rewriter, cudnn-fused-convolution-rewriter{reject_types=true}"},
  };
  for (size_t k = 0; k < HS_COUNT(cases); k++) {
    const char *t = cases[k].type;
    char *text = hs_format("HloModule m\nENTRY e {\n  x = %s[1,3,5,5] parameter(0)\n"
                           "  k = %s[3,3,3,3] parameter(1)\n"
                           "  ROOT c = %s[1,3,3,3] convolution(x, k), window={size=3x3},"
                           " dim_labels=bf01_01io->bf01\n}\n",
                           t, t, t);
    hlo_module *m = parse(text);
    hs_status s = run(m, cases[k].passes);
    assert_false(hs_ok(s));
    hs_status_drop(s);
    expect_good(run(m, "conv-rewriter, cudnn-fused-convolution-rewriter"), t);
    hlo_module_free(m);
    hs_free(text);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(what_does_not_fit_stays),
                                     cmocka_unit_test(types_are_rejected_on_request)};
  return cmocka_run_group_tests(tests, open_context, close_context);
}
