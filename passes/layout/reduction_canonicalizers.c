// reduction_canonicalizers.c — XLA:GPU's canonical forms of reduce, in the order in which it
// makes them: what is reduced lies in memory as it is numbered, and neighbours are one dimension.
// They are files of these names in xla/service/gpu/transforms.
//
// - reduction-degenerate-dim-remover: dimensions of size 1 are left out.
// - reduction-layout-normalizer: the operand is row-major, its dimensions numbered as they lie in
//   memory.
// - reduction-dimension-grouper: neighbouring dimensions that are both reduced become one.
//
// All three see the same memory under other dimensions: operands and results pass through bitcasts,
// and through reshapes where a module has no layouts. Dynamic shapes and layouts that are more than
// an order of dimensions are left alone.
#include "passes/run/rewrite.h"

// The reduction under its new dimensions: of each input the operand and the result, and which
// dimensions are reduced.
typedef struct reduce_view {
  const hlo_shape **in, **out;
  u32 ndims;
  i64 dims[HLO_MAX_RANK];
} reduce_view;

static const hlo_shape *result_of(const hlo_instr *r, u32 k) {
  return hlo_shape_is_tuple(r->shape) ? r->shape->elems[k] : r->shape;
}

static bool is_reduced(const hlo_instr *r, i64 dim) {
  return hlo_ints_has(hlo_attr_ints(r, HLO_ATTR_DIMENSIONS), dim);
}

static bool plain(const hlo_shape *s) {
  return !hlo_shape_is_dynamic(s) && (!s->layout || pass_plain_layout(s));
}

static bool can_view(const hlo_instr *r) {
  if (pass_reads_cut(r)) return false;
  for (u32 k = 0; k < r->noperands / 2; k++)
    if (!plain(hlo_operand(r, k)->shape) || !plain(result_of(r, k))) return false;
  return true;
}

static reduce_view new_view(pass_ctx *c, const hlo_instr *r) {
  u32 n = r->noperands / 2;
  return (reduce_view){.in = HS_NEW_ARRAY(c->scratch, const hlo_shape *, n),
                       .out = HS_NEW_ARRAY(c->scratch, const hlo_shape *, n)};
}

static hlo_instr *seen_as(hlo_instr *x, const hlo_shape *s) {
  if (x->shape == s) return x;
  return hlo_add(x->parent, s->layout ? HLO_BITCAST : HLO_RESHAPE, s, 1, &x, NULL);
}

static void apply(pass_ctx *c, hlo_instr *r, const reduce_view *v) {
  u32 n = r->noperands / 2;
  hlo_instr **ops = HS_NEW_ARRAY(c->scratch, hlo_instr *, r->noperands);
  for (u32 k = 0; k < r->noperands; k++)
    ops[k] = k < n ? seen_as(hlo_operand(r, k), v->in[k]) : hlo_operand(r, k);
  bool tuple = hlo_shape_is_tuple(r->shape);
  hlo_instr *now = hlo_clone_instr(
      r->parent, r, tuple ? hlo_shape_tuple(c->m->ctx, n, v->out) : v->out[0], r->noperands, ops);
  hlo_set_attr_ints(now, HLO_ATTR_DIMENSIONS, v->ndims, v->dims);
  if (!tuple) {
    hlo_replace(r, seen_as(now, r->shape));
    return;
  }
  bool same = true;
  for (u32 k = 0; k < n; k++) same &= v->out[k] == r->shape->elems[k];
  if (same) {
    hlo_replace(r, now);
    return;
  }
  hlo_instr **elems = HS_NEW_ARRAY(c->scratch, hlo_instr *, n);
  for (u32 k = 0; k < n; k++) elems[k] = seen_as(hlo_add_gte(now, k), r->shape->elems[k]);
  hlo_replace(r, hlo_add_tuple(r->parent, n, elems));
}

static hs_status for_each_reduce(pass_ctx *c, hs_status (*rewrite)(pass_ctx *, hlo_instr *)) {
  hlo_for_each_comp(comp, c->m) {
    if (hlo_is_fusion_comp(comp)) continue;
    hlo_for_each_instr_safe(i, comp)
      if (i->opcode == HLO_REDUCE && can_view(i)) HS_TRY(rewrite(c, i));
  }
  return HS_GOOD;
}

// ---- dimensions of size 1 -----------------------------------------------------------------------
// The shape without its dimensions of size 1, the others in the same order, in memory too.
static const hlo_shape *without_ones(hlo_ctx *ctx, const hlo_shape *s) {
  i64 dims[HLO_MAX_RANK], number[HLO_MAX_RANK], order[HLO_MAX_RANK];
  u32 rank = 0, n = 0;
  for (u32 d = 0; d < s->rank; d++) {
    number[d] = s->dims[d] == 1 ? -1 : (i64)rank;
    if (s->dims[d] != 1) dims[rank++] = s->dims[d];
  }
  const hlo_shape *out = hlo_shape_array(ctx, s->dtype, rank, dims);
  if (!s->layout) return out;
  for (u32 k = 0; k < s->rank; k++) {
    i64 d = number[s->layout->minor_to_major[k]];
    if (d >= 0) order[n++] = d;
  }
  hlo_layout l = *s->layout;
  l.rank = rank, l.minor_to_major = order;
  return hlo_shape_with_layout(ctx, out, hlo_layout_intern(ctx, &l));
}

static hs_status drop_ones(pass_ctx *c, hlo_instr *r) {
  const hlo_shape *s = hlo_operand(r, 0)->shape;
  reduce_view v = new_view(c, r);
  u32 kept = 0;
  for (u32 d = 0; d < s->rank; d++) {
    if (s->dims[d] == 1) continue;
    if (is_reduced(r, d)) v.dims[v.ndims++] = kept;
    kept++;
  }
  if (kept == s->rank) return HS_GOOD;
  // XLA takes the operand then, whatever the initial value is
  if (v.ndims == 0) {
    pass_note_declined(c, r, NULL, "only dimensions of size 1 are reduced: algsimp removes it");
    return HS_GOOD;
  }
  if (!pass_may_rewrite(c)) return HS_GOOD;
  pass_note_done(c, r, NULL, "%u dimensions of size 1 left out", s->rank - kept);
  for (u32 k = 0; k < r->noperands / 2; k++) {
    v.in[k] = without_ones(c->m->ctx, hlo_operand(r, k)->shape);
    v.out[k] = without_ones(c->m->ctx, result_of(r, k));
  }
  apply(c, r, &v);
  return HS_GOOD;
}

static hs_status run_degenerate(pass_ctx *c) { return for_each_reduce(c, drop_ones); }

const pass_info pass_reduction_degenerate_dim_remover = {
    .name = "reduction-degenerate-dim-remover",
    .summary = "leaves dimensions of size 1 out of reductions",
    .xla_source = "xla/service/gpu/transforms/reduction_degenerate_dim_remover.cc",
    .run = run_degenerate,
    .needs = {HLO_REDUCE},
    .sample = PASS_SUM "ENTRY e {\n"
                       "  x = f32[1,3,1,4] parameter(0)\n"
                       "  zero = f32[] constant(0)\n"
                       "  ROOT y = f32[1,1] reduce(x, zero), dimensions={1,3}, to_apply=sum\n"
                       "}\n",
};

// ---- layouts ------------------------------------------------------------------------------------
// s with its dimensions in the order `order`; in memory nothing moves.
static const hlo_shape *renumbered(hlo_ctx *ctx, const hlo_shape *s, const i64 *order) {
  i64 dims[HLO_MAX_RANK], number[HLO_MAX_RANK], minor[HLO_MAX_RANK];
  for (u32 k = 0; k < s->rank; k++) dims[k] = s->dims[order[k]], number[order[k]] = k;
  for (u32 k = 0; k < s->rank; k++) minor[k] = number[s->layout->minor_to_major[k]];
  hlo_layout l = *s->layout;
  l.minor_to_major = minor;
  return hlo_shape_with_layout(ctx, hlo_shape_array(ctx, s->dtype, s->rank, dims),
                               hlo_layout_intern(ctx, &l));
}

static bool same_order(const hlo_shape *a, const hlo_shape *b) {
  return memcmp(a->layout->minor_to_major, b->layout->minor_to_major, a->rank * sizeof(i64)) == 0;
}

static hs_status normalize_layout(pass_ctx *c, hlo_instr *r) {
  const hlo_shape *s = hlo_operand(r, 0)->shape;
  i64 order[HLO_MAX_RANK], kept[HLO_MAX_RANK], number[HLO_MAX_RANK];
  u32 n = 0, nkept = 0;
  for (u32 k = 0; k < r->noperands / 2; k++) {
    if (!hlo_operand(r, k)->shape->layout || !result_of(r, k)->layout) return HS_GOOD;
    if (!same_order(s, hlo_operand(r, k)->shape))
      return hs_fail(HS_E_PASS,
                     "the operands of %s differ in layout: Layout assignment gives them one",
                     r->name);
  }
  if (hlo_shape_is_row_major(s) || !pass_may_rewrite(c)) return HS_GOOD;
  pass_note_done(c, r, NULL, "dimensions numbered as they lie in memory");
  reduce_view v = new_view(c, r);
  for (i64 d = 0; d < s->rank; d++)
    if (!is_reduced(r, d)) number[d] = n++;
  for (u32 k = 0; k < s->rank; k++) {
    order[k] = s->layout->minor_to_major[s->rank - 1 - k];
    if (is_reduced(r, order[k])) v.dims[v.ndims++] = k;
    else kept[nkept++] = number[order[k]];
  }
  for (u32 k = 0; k < r->noperands / 2; k++) {
    v.in[k] = renumbered(c->m->ctx, hlo_operand(r, k)->shape, order);
    v.out[k] = renumbered(c->m->ctx, result_of(r, k), kept);
  }
  apply(c, r, &v);
  return HS_GOOD;
}

static hs_status run_layout(pass_ctx *c) { return for_each_reduce(c, normalize_layout); }

const pass_info pass_reduction_layout_normalizer = {
    .name = "reduction-layout-normalizer",
    .summary = "numbers the dimensions of reductions as they lie in memory",
    .xla_source = "xla/service/gpu/transforms/reduction_layout_normalizer.cc",
    .run = run_layout,
    .needs = {HLO_REDUCE},
    .sample = PASS_SUM "ENTRY e {\n"
                       "  x = f32[2,3,4]{0,2,1} parameter(0)\n"
                       "  zero = f32[] constant(0)\n"
                       "  ROOT y = f32[2,4]{1,0} reduce(x, zero), dimensions={1}, to_apply=sum\n"
                       "}\n",
};

// ---- groups -------------------------------------------------------------------------------------
static hs_status group(pass_ctx *c, hlo_instr *r) {
  const hlo_shape *s = hlo_operand(r, 0)->shape;
  i64 dims[HLO_MAX_RANK];
  u32 rank = 0;
  bool ordered = true, before = false;
  reduce_view v = new_view(c, r);
  for (u32 k = 0; k < r->noperands / 2; k++)
    ordered &= hlo_shape_is_row_major(hlo_operand(r, k)->shape);
  for (u32 d = 0; d < s->rank; d++) {
    bool now = is_reduced(r, d);
    if (now && before) {
      dims[rank - 1] *= s->dims[d];
      continue;
    }
    if (now) v.dims[v.ndims++] = rank;
    dims[rank++] = s->dims[d], before = now;
  }
  if (rank == s->rank) return HS_GOOD;
  if (!ordered) {
    pass_note_declined(c, r, NULL, "not row-major: reduction-layout-normalizer comes first");
    return HS_GOOD;
  }
  if (!pass_may_rewrite(c)) return HS_GOOD;
  pass_note_done(c, r, NULL, "%u dimensions became %u", s->rank, rank);
  for (u32 k = 0; k < r->noperands / 2; k++) {
    const hlo_shape *x = hlo_operand(r, k)->shape,
                    *grouped = hlo_shape_array(c->m->ctx, x->dtype, rank, dims);
    v.in[k] = x->layout ? hlo_shape_fill_layout(c->m->ctx, grouped) : grouped;
    v.out[k] = result_of(r, k);
  }
  apply(c, r, &v);
  return HS_GOOD;
}

static hs_status run_grouper(pass_ctx *c) { return for_each_reduce(c, group); }

const pass_info pass_reduction_dimension_grouper = {
    .name = "reduction-dimension-grouper",
    .summary = "merges neighbouring dimensions that are reduced",
    .xla_source = "xla/service/gpu/transforms/reduction_dimension_grouper.cc",
    .run = run_grouper,
    .needs = {HLO_REDUCE},
    .sample = PASS_SUM "ENTRY e {\n"
                       "  x = f32[2,3,4,5] parameter(0)\n"
                       "  zero = f32[] constant(0)\n"
                       "  ROOT y = f32[2,5] reduce(x, zero), dimensions={1,2}, to_apply=sum\n"
                       "}\n",
};
