// layouts.c — operations that depend on where arrays lie in memory, made explicit.
//
// reshape-decomposer (xla/hlo/transforms/expanders/reshape_decomposer.cc): a reshape that moves
// nothing in memory is a
//   bitcast; another one is a copy and a bitcast, in either order; where no order of either side
//   does, two copies.
// broadcast_canonicalizer (xla/service/broadcast_canonicalizer.cc): the dimensions of a broadcast
// ascend; a transpose
//   gives the order that was asked.
#include "passes/run/util.h"

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

static hs_status run_reshape_decomposer(pass_ctx *c) {
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
    .summary = "reshapes become bitcasts and copies",
    .xla_source = "xla/hlo/transforms/expanders/reshape_decomposer.cc",
    .run = run_reshape_decomposer,
    .needs = {HLO_RESHAPE},
    .sample = "ENTRY e {\n"
              "  x = f32[4,6]{0,1} parameter(0)\n"
              "  y = f32[2,3]{1,0} parameter(1)\n"
              "  a = f32[8,3]{1,0} reshape(x)\n"
              "  b = f32[6]{0} reshape(y)\n"
              "  ROOT t = (f32[8,3]{1,0}, f32[6]{0}) tuple(a, b)\n"
              "}\n",
};

static hs_status run_broadcast_canonicalizer(pass_ctx *c) {
  hlo_for_each_comp(comp, c->m) {
    if (hlo_is_fusion_comp(comp)) continue;
    hlo_for_each_instr_safe(i, comp) {
      if (i->opcode != HLO_BROADCAST) continue;
      hlo_ints d = hlo_attr_ints(i, HLO_ATTR_DIMENSIONS);
      bool ascending = true;
      for (u32 k = 1; k < d.n; k++) ascending &= d.v[k] > d.v[k - 1];
      if (ascending || hlo_shape_is_dynamic(i->shape)) continue;
      if (!pass_may_rewrite(c)) return HS_GOOD;
      pass_note_done(c, i, NULL, "dimensions sorted");
      i64 sorted[HLO_MAX_RANK], perm[HLO_MAX_RANK], dims[HLO_MAX_RANK];
      for (u32 k = 0; k < d.n; k++) {
        u32 at = k;
        while (at && sorted[at - 1] > d.v[k]) sorted[at] = sorted[at - 1], at--;
        sorted[at] = d.v[k];
      }
      for (u32 k = 0; k < i->shape->rank; k++) perm[k] = k, dims[k] = i->shape->dims[k];
      for (u32 k = 0; k < d.n; k++) {
        dims[sorted[k]] = hlo_operand(i, 0)->shape->dims[k];
        perm[d.v[k]] = sorted[k];
      }
      hlo_instr *b = hlo_build_broadcast(hlo_operand(i, 0), i->shape->rank, dims, sorted),
                *t = hlo_build_transpose(b, perm);
      if (t->shape != i->shape) hlo_set_shape(t, i->shape);
      hlo_replace(i, t);
    }
  }
  return HS_GOOD;
}

const pass_info pass_broadcast_canonicalizer = {
    .name = "broadcast_canonicalizer",
    .summary = "broadcast dimensions ascend",
    .xla_source = "xla/service/broadcast_canonicalizer.cc",
    .run = run_broadcast_canonicalizer,
    .needs = {HLO_BROADCAST},
    .sample = "ENTRY e {\n"
              "  x = f32[2,3] parameter(0)\n"
              "  ROOT y = f32[3,4,2] broadcast(x), dimensions={2,0}\n"
              "}\n",
};
