// simplify_fp_conversions.c — simplify-fp-conversions
// (xla/hlo/transforms/simplifiers/simplify_fp_conversions.cc): replaces a chain of floating-point
// converts by one. That drops intermediate rounding, as is wanted for the round trips that
// float-normalization inserts, but changes results: only the pipeline `gpu` has it, as XLA's for
// GPUs, where excess precision is allowed.
#include "passes/run/cache.h"
#include "passes/run/rewrite.h"

// One that ends or shows a size of its operand is no part of a chain.
static bool float_convert(const hlo_instr *i) {
  if (i->opcode != HLO_CONVERT) return false;
  const hlo_instr *x = hlo_operand(i, 0);
  return hlo_dtype_is_float(i->shape->dtype) && hlo_dtype_is_float(x->shape->dtype) &&
         !pass_hides_size(x) && hlo_shape_same_dims(i->shape, x->shape);
}

static hs_status run(pass_ctx *p) {
  u32 n;
  hlo_computation **comps = pass_comp_post_order(p, &n);
  for (u32 k = 0; k < n; k++) {
    HS_TRY(hs_poll());
    u32 ni = comps[k]->ninstrs;
    hlo_instr **order = pass_any_order(p, comps[k]);
    for (u32 j = 0; j < ni; j++) {
      hlo_instr *i = order[j];
      if (i->dead || !float_convert(i) || !float_convert(hlo_operand(i, 0))) continue;
      hlo_instr *src = hlo_operand(i, 0);
      while (float_convert(src)) src = hlo_operand(src, 0);
      if (!pass_may_rewrite(p)) return HS_GOOD;
      hlo_instr *c = src;
      if (src->shape->dtype != i->shape->dtype)
        c = hlo_add_before(i, HLO_CONVERT, i->shape, 1, &src, NULL);
      pass_note_done(p, c, i, "chain of conversions from %s to %s",
                     hlo_dtype_text(src->shape->dtype), hlo_dtype_text(i->shape->dtype));
      hlo_replace(i, c);
    }
  }
  return HS_GOOD;
}

const pass_info pass_simplify_fp_conversions = {
    .name = "simplify-fp-conversions",
    .summary = "merges chains of float conversions",
    .xla_source = "xla/hlo/transforms/simplifiers/simplify_fp_conversions.cc",
    .run = run,
    .needs = {HLO_CONVERT},
    .inexact = "drops roundings to narrower types between conversions, as XLA does for GPUs",
    .sample = "ENTRY e {\n"
              "  x = f16[4] parameter(0)\n"
              "  y = f32[4] convert(x)\n"
              "  ROOT z = f64[4] convert(y)\n"
              "}\n",
};
