// gather_scatter_simplifier.c — gather_simplifier and scatter_simplifier
// (xla/hlo/transforms/simplifiers/gather_simplifier.cc, xla/service/scatter_simplifier.cc):
// gathers and scatters in one canonical form.
//
// Indices become [N, K] with one row per slice; slices and updates keep all operand dimensions and
// follow the one leading dimension N. Transposes and reshapes around the operation compensate.
// Gathers and scatters of one slice can become loops as well
// (passes/expand/gather_scatter_expander.c).
#include "passes/run/rewrite.h"

static bool is_iota(hlo_ints v, i64 from) {
  for (u32 k = 0; k < v.n; k++)
    if (v.v[k] != from + (i64)k) return false;
  return true;
}

// Indices as [N, K]; the batch dimensions go to `batch`.
static hlo_instr *flat_indices(hlo_instr *idx, i64 vector_dim, u32 *nbatch, i64 *batch) {
  const hlo_shape *s = idx->shape;
  i64 perm[HLO_MAX_RANK], flat[2] = {1, 1};
  u32 n = 0;
  if (vector_dim == (i64)s->rank) {  // an implied dimension made explicit
    i64 dims[HLO_MAX_RANK + 1];
    if (s->rank) memcpy(dims, s->dims, s->rank * sizeof *dims);
    dims[s->rank] = 1;
    idx = hlo_build_reshape(idx, s->rank + 1, dims);
    s = idx->shape;
  }
  for (u32 d = 0; d < s->rank; d++)
    if ((i64)d != vector_dim) perm[n] = d, batch[n] = s->dims[d], flat[0] *= s->dims[d], n++;
  *nbatch = n;
  flat[1] = s->dims[vector_dim];
  if (vector_dim + 1 != (i64)s->rank) perm[n] = vector_dim, idx = hlo_build_transpose(idx, perm);
  return idx->shape->rank == 2 && idx->shape->dims[0] == flat[0] && idx->shape->dims[1] == flat[1]
             ? idx
             : hlo_build_reshape(idx, 2, flat);
}

static bool gather_is_simple(const hlo_instr *g) {
  hlo_ints off = hlo_attr_ints(g, HLO_ATTR_OFFSET_DIMS);
  return hlo_operand(g, 0)->shape->rank && hlo_operand(g, 1)->shape->rank == 2 &&
         hlo_attr_int(g, HLO_ATTR_INDEX_VECTOR_DIM, -1) == 1 &&
         hlo_attr_ints(g, HLO_ATTR_COLLAPSED_SLICE_DIMS).n == 0 && is_iota(off, 1);
}

// Slices of nothing, and of a scalar, need no gather.
static bool gather_is_broadcast(hlo_instr *g) {
  hlo_ints sizes = hlo_attr_ints(g, HLO_ATTR_SLICE_SIZES);
  bool none = hlo_ints_has(sizes, 0);
  if (!none && hlo_operand(g, 0)->shape->rank) return false;
  hlo_instr *x = none ? hlo_build_scalar_f64(g->parent, g->shape->dtype, 0) : hlo_operand(g, 0);
  x = pass_as_stated(x, pass_shape_as(x, g->shape->dtype));
  hlo_replace(g, hlo_add_broadcast(x, g->shape, 0, NULL));
  return true;
}

static void simplify_gather(hlo_instr *g) {
  hlo_instr *x = hlo_operand(g, 0);
  u32 rank = x->shape->rank, nb;
  hlo_ints sizes = hlo_attr_ints(g, HLO_ATTR_SLICE_SIZES),
           collapsed = hlo_attr_ints(g, HLO_ATTR_COLLAPSED_SLICE_DIMS),
           off = hlo_attr_ints(g, HLO_ATTR_OFFSET_DIMS);
  i64 batch[HLO_MAX_RANK], v[HLO_MAX_RANK + 1];
  hlo_instr *idx =
      flat_indices(hlo_operand(g, 1), hlo_attr_int(g, HLO_ATTR_INDEX_VECTOR_DIM, 0), &nb, batch);
  i64 dims[HLO_MAX_RANK + 1] = {idx->shape->dims[0]};
  if (rank) memcpy(dims + 1, sizes.v, rank * sizeof *dims);
  const hlo_shape *s = hlo_shape_fill_layout(
      g->parent->module->ctx,
      hlo_shape_array(g->parent->module->ctx, g->shape->dtype, rank + 1, dims));
  hlo_instr *ops[] = {x, idx}, *r = hlo_clone_instr(g->parent, g, s, 2, ops);
  for (u32 k = 0; k < rank; k++) v[k] = k + 1;
  hlo_set_attr_ints(r, HLO_ATTR_OFFSET_DIMS, rank, v);
  hlo_set_attr_ints(r, HLO_ATTR_COLLAPSED_SLICE_DIMS, 0, v);
  hlo_set_attr_int(r, HLO_ATTR_INDEX_VECTOR_DIM, 1);
  u32 n = 1;
  for (u32 k = 0; k < rank; k++)
    if (!hlo_ints_has(collapsed, k)) dims[n++] = sizes.v[k];
  if (collapsed.n) r = hlo_build_reshape(r, n, dims);
  n = nb;
  for (u32 k = 0; k < nb; k++) dims[k] = batch[k];
  for (u32 k = 0; k < rank; k++)
    if (!hlo_ints_has(collapsed, k)) dims[n++] = sizes.v[k];
  if (nb != 1) r = hlo_build_reshape(r, n, dims);
  // Batch dimensions take the places of the result that are not offsets.
  u32 b = 0, o = 0;
  bool straight = true;
  for (u32 k = 0; k < n; k++) {
    v[k] = hlo_ints_has(off, k) ? nb + o++ : b++;
    straight &= v[k] == (i64)k;
  }
  if (!straight) r = hlo_build_transpose(r, v);
  if (r->shape != g->shape) hlo_set_shape(r, g->shape);
  hlo_replace(g, r);
}

static hs_status run_gather_simplifier(pass_ctx *c) {
  hlo_for_each_comp(comp, c->m) {
    if (hlo_is_fusion_comp(comp)) continue;
    hlo_for_each_instr_safe(i, comp) {
      if (i->opcode != HLO_GATHER || gather_is_simple(i) || hlo_shape_is_dynamic(i->shape) ||
          pass_reads_cut(i))
        continue;
      if (hlo_attr_ints(i, HLO_ATTR_OPERAND_BATCHING_DIMS).n) {
        pass_note_declined(c, i, NULL, "it has operand batching dimensions");
        continue;
      }
      if (hlo_ints_has(hlo_attr_ints(i, HLO_ATTR_SLICE_SIZES), 0) && i->shape->elements) {
        pass_note_declined(c, i, NULL, "it takes elements out of slices of nothing");
        continue;
      }
      if (!pass_may_rewrite(c)) return HS_GOOD;
      pass_note_done(c, i, NULL, "indices became [N, K]");
      if (!gather_is_broadcast(i)) simplify_gather(i);
    }
  }
  return HS_GOOD;
}

const pass_info pass_gather_simplifier = {
    .name = "gather_simplifier",
    .summary = "rewrites gathers to take [N, K] indices",
    .xla_source = "xla/hlo/transforms/simplifiers/gather_simplifier.cc",
    .run = run_gather_simplifier,
    .needs = {HLO_GATHER},
    .sample = "ENTRY e {\n"
              "  x = f32[5,4] parameter(0)\n"
              "  rows = s32[2,3] parameter(1)\n"
              "  ROOT y = f32[2,3,4] gather(x, rows), offset_dims={2}, collapsed_slice_dims={0}, "
              "start_index_map={0}, index_vector_dim=2, slice_sizes={1,4}\n"
              "}\n",
};

// ---- scatter ------------------------------------------------------------------------------------
static bool scatter_is_simple(const hlo_instr *s) {
  u32 n = s->noperands / 2;
  hlo_ints w = hlo_attr_ints(s, HLO_ATTR_UPDATE_WINDOW_DIMS);
  return hlo_operand(s, n)->shape->rank == 2 &&
         hlo_attr_int(s, HLO_ATTR_INDEX_VECTOR_DIM, -1) == 1 &&
         hlo_attr_ints(s, HLO_ATTR_INSERTED_WINDOW_DIMS).n == 0 && is_iota(w, 1) &&
         w.n == hlo_operand(s, 0)->shape->rank;
}

static hlo_instr *reshaped(hlo_instr *x, u32 rank, const i64 *dims) {
  return x->shape->rank == rank && (!rank || memcmp(x->shape->dims, dims, rank * sizeof *dims) == 0)
             ? x
             : hlo_build_reshape(x, rank, dims);
}

// An update array as [N, window over all operand dimensions].
static hlo_instr *flat_update(hlo_instr *u, hlo_ints window, hlo_ints inserted, u32 rank) {
  i64 v[HLO_MAX_RANK + 1], dims[HLO_MAX_RANK + 1] = {1};
  u32 n = 0, w = 0, total = 1;
  bool straight = true;
  for (u32 d = 0; d < u->shape->rank; d++)
    if (!hlo_ints_has(window, d)) v[n++] = d, dims[0] *= u->shape->dims[d];
  for (u32 k = 0; k < window.n; k++) v[n++] = window.v[k];
  for (u32 k = 0; k < n; k++) straight &= v[k] == (i64)k;
  if (!straight) u = hlo_build_transpose(u, v);
  u32 lead = n - window.n;
  if (window.n) memcpy(dims + 1, u->shape->dims + lead, window.n * sizeof *dims);
  if (lead != 1) u = hlo_build_reshape(u, 1 + window.n, dims);
  lead = 1;
  if (!inserted.n) return u;
  for (u32 d = 0; d < rank; d++)
    dims[total++] = hlo_ints_has(inserted, d) ? 1 : u->shape->dims[lead + w++];
  return hlo_build_reshape(u, total, dims);
}

static void simplify_scatter(pass_ctx *c, hlo_instr *s) {
  u32 n = s->noperands / 2, rank = hlo_operand(s, 0)->shape->rank, nb;
  hlo_ints window = hlo_attr_ints(s, HLO_ATTR_UPDATE_WINDOW_DIMS),
           inserted = hlo_attr_ints(s, HLO_ATTR_INSERTED_WINDOW_DIMS);
  i64 batch[HLO_MAX_RANK], v[HLO_MAX_RANK + 1];
  hlo_instr **ops = HS_NEW_ARRAY(c->scratch, hlo_instr *, s->noperands);
  ops[n] =
      flat_indices(hlo_operand(s, n), hlo_attr_int(s, HLO_ATTR_INDEX_VECTOR_DIM, 0), &nb, batch);
  for (u32 k = 0; k < n; k++) {
    ops[k] = hlo_operand(s, k);
    ops[n + 1 + k] = flat_update(hlo_operand(s, n + 1 + k), window, inserted, rank);
  }
  for (u32 k = 0; k < rank; k++) v[k] = k + 1;
  hlo_set_operands(s, s->noperands, ops);
  hlo_set_attr_ints(s, HLO_ATTR_UPDATE_WINDOW_DIMS, rank, v);
  hlo_set_attr_ints(s, HLO_ATTR_INSERTED_WINDOW_DIMS, 0, v);
  hlo_set_attr_int(s, HLO_ATTR_INDEX_VECTOR_DIM, 1);
}

// A scatter into scalars has nowhere to go wrong: one update is one combination.
static bool into_scalar(pass_ctx *c, hlo_instr *s) {
  u32 n = s->noperands / 2;
  if (hlo_operand(s, 0)->shape->rank || hlo_operand(s, n + 1)->shape->elements != 1) return false;
  hlo_instr **args = HS_NEW_ARRAY(c->scratch, hlo_instr *, 2 * n);
  const hlo_computation *f = hlo_attr_comp(s, HLO_ATTR_TO_APPLY);
  for (u32 k = 0; k < 2 * n; k++) {
    hlo_instr *x = k < n ? hlo_operand(s, k) : reshaped(hlo_operand(s, k + 1), 0, NULL);
    args[k] = pass_as_stated(x, f->params[k]->shape);
  }
  hlo_replace(s, pass_as_stated(pass_inline_at(s, f, args, c->scratch), s->shape));
  return true;
}

static hs_status run_scatter_simplifier(pass_ctx *c) {
  hlo_for_each_comp(comp, c->m) {
    if (hlo_is_fusion_comp(comp)) continue;
    hlo_for_each_instr_safe(i, comp) {
      if (i->opcode != HLO_SCATTER || scatter_is_simple(i) || hlo_shape_is_dynamic(i->shape) ||
          pass_reads_cut(i))
        continue;
      if (hlo_attr_ints(i, HLO_ATTR_INPUT_BATCHING_DIMS).n) {
        pass_note_declined(c, i, NULL, "it has input batching dimensions");
        continue;
      }
      if (hlo_operand(i, 0)->shape->elements == 0) {  // a window of 1 would not fit into 0
        pass_note_declined(c, i, NULL, "its operand has no elements");
        continue;
      }
      if (!pass_may_rewrite(c)) return HS_GOOD;
      pass_note_done(c, i, NULL, "indices became [N, K]");
      if (!into_scalar(c, i)) simplify_scatter(c, i);
    }
  }
  return HS_GOOD;
}

const pass_info pass_scatter_simplifier = {
    .name = "scatter_simplifier",
    .summary = "rewrites scatters to take [N, K] indices",
    .xla_source = "xla/service/scatter_simplifier.cc",
    .run = run_scatter_simplifier,
    .needs = {HLO_SCATTER},
    .sample =
        PASS_SUM "ENTRY e {\n"
                 "  x = f32[5,4] parameter(0)\n"
                 "  rows = s32[3] parameter(1)\n"
                 "  u = f32[3,4] parameter(2)\n"
                 "  ROOT y = f32[5,4] scatter(x, rows, u), update_window_dims={1}, "
                 "inserted_window_dims={0}, scatter_dims_to_operand_dims={0}, index_vector_dim=1, "
                 "to_apply=sum\n"
                 "}\n",
};
