// reduction_splitter.c — reduction-splitter (xla/service/gpu/transforms/reduction_splitter.cc): a
// reduction of dimensions that are no neighbours becomes two, the first over the largest of them.
//
// A GPU's kernels reduce rows, columns, and rows of several major slices (reduced, kept, reduced,
// where the rows fill warps); anything else would be an element by element loop. A fixpoint splits
// further. The passes of reduction_canonicalizers.c come before.
#include "passes/simplify/algsimp.h"

enum { WARP = 32, SMALL = 8 };

// Whether one kernel reduces these dimensions well (XLA's IsReductionFromOrToContiguousDimensions).
static bool is_one_kernel(const hlo_shape *s, hlo_ints dims) {
  u32 runs = 0, kept_runs = 0;
  for (u32 d = 0; d < s->rank; d++) {
    bool now = hlo_ints_has(dims, d), begins = d == 0 || now != hlo_ints_has(dims, d - 1);
    runs += now && begins, kept_runs += !now && begins;
  }
  if (runs <= 1) return true;
  i64 row = s->dims[s->rank - 1];
  return kept_runs == 1 && hlo_ints_has(dims, s->rank - 1) && (row >= WARP || WARP % row == 0);
}

static void split(pass_ctx *c, hlo_instr *r) {
  const hlo_shape *s = hlo_operand(r, 0)->shape;
  hlo_ints dims = hlo_attr_ints(r, HLO_ATTR_DIMENSIONS);
  i64 first = dims.v[0], rest[HLO_MAX_RANK];
  u32 n = 0;
  for (u32 k = 1; k < dims.n; k++)
    if (s->dims[dims.v[k]] > s->dims[first]) first = dims.v[k];
  for (u32 k = 0; k < dims.n; k++)
    if (dims.v[k] != first) rest[n++] = dims.v[k] - (dims.v[k] > first);
  pass_note_done(c, r, NULL, "dimension %lld first: %lld elements", (long long)first,
                 (long long)s->dims[first]);
  i64 kept[HLO_MAX_RANK];
  u32 rank = 0;
  for (u32 d = 0; d < s->rank; d++)
    if ((i64)d != first) kept[rank++] = s->dims[d];
  const hlo_shape *half = hlo_shape_array(c->m->ctx, r->shape->dtype, rank, kept);
  if (s->layout) half = hlo_shape_fill_layout(c->m->ctx, half);
  hlo_instr *init = hlo_operand(r, 1), *ops[] = {hlo_operand(r, 0), init},
            *before = hlo_clone_instr(r->parent, r, half, 2, ops), *more[] = {before, init},
            *after = hlo_clone_instr(r->parent, r, r->shape, 2, more);
  hlo_set_attr_ints(before, HLO_ATTR_DIMENSIONS, 1, &first);
  hlo_set_attr_ints(after, HLO_ATTR_DIMENSIONS, n, rest);
  hlo_replace(r, after);
}

static hs_status run(pass_ctx *c) {
  bool skip_small = pass_option_bool(c, "ignore_small_dims");
  hlo_for_each_comp(comp, c->m) {
    if (hlo_is_fusion_comp(comp)) continue;
    hlo_for_each_instr_safe(i, comp) {
      if (i->opcode != HLO_REDUCE || !hlo_shape_is_array(i->shape)) continue;
      const hlo_shape *s = hlo_operand(i, 0)->shape;
      hlo_ints dims = hlo_attr_ints(i, HLO_ATTR_DIMENSIONS);
      if (dims.n < 2 || s->elements == 0 || is_one_kernel(s, dims)) continue;
      if (pass_is_cut(hlo_operand(i, 0)) || !hlo_shape_is_row_major(s)) {
        pass_note_declined(c, i, NULL, "dynamic, or not row-major");
        continue;
      }
      u32 large = 0;
      for (u32 k = 0; k < dims.n; k++) large += s->dims[dims.v[k]] > SMALL;
      if (skip_small && large < 2) {
        pass_note_declined(c, i, NULL, "at most one reduced dimension exceeds %d", SMALL);
        continue;
      }
      if (pass_alg_counts_init_again(i)) {
        pass_note_declined(c, i, hlo_operand(i, 1), "its initial value is not the identity");
        continue;
      }
      if (!pass_may_rewrite(c)) return HS_GOOD;
      split(c, i);
    }
  }
  return HS_GOOD;
}

static const pass_option_info options[] = {
    {"ignore_small_dims", PASS_BOOL, "false", "leave alone what has one reduced dimension above 8"},
};

const pass_info pass_reduction_splitter = {
    .name = "reduction-splitter",
    .summary = "splits reductions of dimensions that are no neighbours",
    .xla_source = "xla/service/gpu/transforms/reduction_splitter.cc",
    .run = run,
    .needs = {HLO_REDUCE},
    .again = true,
    .options = options,
    .noptions = HS_COUNT(options),
    .sample = PASS_SUM "ENTRY e {\n"
                       "  x = f32[3,2,5,4] parameter(0)\n"
                       "  zero = f32[] constant(0)\n"
                       "  ROOT y = f32[2,4] reduce(x, zero), dimensions={0,2}, to_apply=sum\n"
                       "}\n",
};
