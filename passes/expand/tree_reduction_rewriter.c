// tree_reduction_rewriter.c — tree_reduction_rewriter
// (xla/hlo/transforms/simplifiers/tree_reduction_rewriter.cc): a long reduction becomes a
// reduce-window over tiles followed by a shorter reduction, which sums more accurately.
//
// Both start from the initial value. XLA assumes that it is the identity of the reducer; here a
// constant that is known not to be prevents the rewrite.
#include "passes/simplify/algsimp.h"

static bool tree_reduce(pass_ctx *c, hlo_instr *r, i64 size) {
  if (r->noperands != 2 || !hlo_shape_is_array(r->shape)) {
    pass_note_declined(c, r, NULL, "it reduces several arrays");
    return false;
  }
  hlo_instr *x = hlo_operand(r, 0);
  hlo_ints dims = hlo_attr_ints(r, HLO_ATTR_DIMENSIONS);
  const hlo_shape *s = x->shape;
  if (pass_is_cut(x)) return false;
  bool big = false, fits = true;
  for (u32 k = 0; k < dims.n; k++) {
    big |= s->dims[dims.v[k]] > size;
    fits &= s->dims[dims.v[k]] <= INT64_MAX - size;  // padded to whole tiles
  }
  if (!big || !fits) return false;
  if (pass_alg_counts_init_again(r)) {
    pass_note_declined(c, r, hlo_operand(r, 1),
                       "its initial value is not the identity, and each tile would start from it");
    return false;
  }
  if (!pass_may_rewrite(c)) return false;
  hlo_window_dim *w = HS_NEW_ARRAY(&c->m->arena, hlo_window_dim, s->rank);
  i64 out[HLO_MAX_RANK];
  for (u32 d = 0; d < s->rank; d++)
    w[d] = (hlo_window_dim){1, 1, 0, 0, 1, 1, false}, out[d] = s->dims[d];
  for (u32 k = 0; k < dims.n; k++) {
    i64 d = dims.v[k], tile = HS_MIN(size, s->dims[d]);
    if (tile == 0) continue;
    i64 tiles = (s->dims[d] + tile - 1) / tile, padding = tiles * tile - s->dims[d];
    w[d].size = w[d].stride = tile;
    w[d].pad_low = padding / 2;
    w[d].pad_high = padding - w[d].pad_low;
    out[d] = tiles;
  }
  const hlo_shape *shape = hlo_shape_array(c->m->ctx, s->dtype, s->rank, out);
  if (s->layout) shape = hlo_shape_with_layout(c->m->ctx, shape, s->layout);
  hlo_instr *ops[] = {x, hlo_operand(r, 1)},
            *rw = hlo_add(r->parent, HLO_REDUCE_WINDOW, shape, 2, ops, NULL);
  hlo_window *win = HS_NEW(&c->m->arena, hlo_window);
  *win = (hlo_window){s->rank, w};
  hlo_set_attr_ptr(rw, HLO_ATTR_WINDOW, win);
  hlo_set_attr_comp(rw, HLO_ATTR_TO_APPLY, hlo_attr_comp(r, HLO_ATTR_TO_APPLY));
  hlo_add_provenance(rw, r);
  const hlo_attr *md = hlo_attr_get(r, HLO_ATTR_METADATA);
  if (md) hlo_set_attr(rw, *md);
  hlo_move_before(rw, r);
  hlo_set_operand(r, 0, rw);
  pass_note_done(c, r, rw, "tiles of %lld are reduced first", (long long)size);
  return true;
}

static hs_status run(pass_ctx *c) {
  i64 size = pass_option_int(c, "reduce_window_size");
  if (size < 2) return HS_GOOD;
  hlo_for_each_comp(comp, c->m) {
    if (hlo_is_fusion_comp(comp)) continue;
    hlo_for_each_instr(i, comp)
      if (i->opcode == HLO_REDUCE) tree_reduce(c, i, size);
  }
  return HS_GOOD;
}

static const pass_option_info options[] = {
    {"reduce_window_size", PASS_INT, "32",
     "tile size along a reduced dimension; below 2: no rewrite"},
};

const pass_info pass_tree_reduction_rewriter = {
    .name = "tree_reduction_rewriter",
    .summary = "splits long reductions into tiles",
    .xla_source = "xla/hlo/transforms/simplifiers/tree_reduction_rewriter.cc",
    .run = run,
    .needs = {HLO_REDUCE},
    .again = true,
    .options = options,
    .noptions = HS_COUNT(options),
    .sample = PASS_SUM "ENTRY e {\n"
                       "  x = f32[100] parameter(0)\n"
                       "  zero = f32[] constant(0)\n"
                       "  ROOT y = f32[] reduce(x, zero), dimensions={0}, to_apply=sum\n"
                       "}\n",
};
