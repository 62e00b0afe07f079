// reshape_decomposer.c — reshape-decomposer (xla/hlo/transforms/expanders/reshape_decomposer.cc):
// reshapes become bitcasts, with copies where elements move.
//
// A reshape that moves nothing in memory becomes a bitcast, any other one a copy and a bitcast, in
// either order; if no layout permits that, a bitcast between two copies. A reshape that states
// another precision converts first.
#include "passes/layout/layout.h"

static bool plain_layout(const hlo_shape *s) {
  return s->layout && s->layout->ntiles == 0 && s->layout->element_bits == 0 &&
         !hlo_shape_is_dynamic(s);
}

static hlo_instr *bitcast(hlo_instr *x, const hlo_shape *s) {
  return hlo_add(x->parent, HLO_BITCAST, s, 1, &x, NULL);
}

static hlo_instr *copied(hlo_instr *x, const hlo_shape *s) {
  return s == x->shape ? x : hlo_add(x->parent, HLO_COPY, s, 1, &x, NULL);
}

static hs_status run(pass_ctx *c) {
  hlo_ctx *ctx = c->m->ctx;
  hlo_for_each_comp(comp, c->m) {
    if (hlo_is_fusion_comp(comp)) continue;
    hlo_for_each_instr_safe(i, comp) {
      if (i->opcode != HLO_RESHAPE) continue;
      hlo_instr *x = hlo_operand(i, 0);
      bool scalar = i->shape->rank == 0 || x->shape->rank == 0;
      if (!scalar && (!plain_layout(i->shape) || !plain_layout(x->shape))) {
        pass_note_declined(c, i, NULL, "it has no plain layout");
        continue;
      }
      if (!pass_may_rewrite(c)) return HS_GOOD;
      if (x->shape->dtype != i->shape->dtype) x = hlo_build_convert(x, i->shape->dtype);
      if (scalar || pass_reshape_is_bitcast(x->shape, i->shape)) {
        hlo_replace(i, bitcast(x, i->shape));
        continue;
      }
      pass_note_done(c, i, NULL, "moves data: copy and bitcast");
      const hlo_layout *before = pass_layout_aligned(ctx, i->shape, i->shape->layout, x->shape),
                       *after = pass_layout_aligned(ctx, x->shape, x->shape->layout, i->shape);
      if (before) {
        hlo_replace(i, bitcast(copied(x, hlo_shape_with_layout(ctx, x->shape, before)), i->shape));
      } else if (after) {
        hlo_replace(i, copied(bitcast(x, hlo_shape_with_layout(ctx, i->shape, after)), i->shape));
      } else {
        hlo_instr *b = bitcast(copied(x, hlo_shape_with_default_layout(ctx, x->shape)),
                               hlo_shape_with_default_layout(ctx, i->shape));
        hlo_replace(i, copied(b, i->shape));
      }
    }
  }
  return HS_GOOD;
}

const pass_info pass_reshape_decomposer = {
    .name = "reshape-decomposer",
    .summary = "splits reshapes into bitcasts and copies",
    .xla_source = "xla/hlo/transforms/expanders/reshape_decomposer.cc",
    .run = run,
    .needs = {HLO_RESHAPE},
    .sample = "ENTRY e {\n"
              "  x = f32[4,6]{0,1} parameter(0)\n"
              "  y = f32[2,3]{1,0} parameter(1)\n"
              "  a = f32[8,3]{1,0} reshape(x)\n"
              "  b = f32[6]{0} reshape(y)\n"
              "  ROOT t = (f32[8,3]{1,0}, f32[6]{0}) tuple(a, b)\n"
              "}\n",
};
