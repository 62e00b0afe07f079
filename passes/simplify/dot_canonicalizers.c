// dot_canonicalizers.c — canonical forms of dot.
//
// - dot_decomposer (xla/service/dot_decomposer.cc): every dot becomes [batch..., M?, K] x
//   [batch..., K, N?], with the batch dimensions first and in order and one contracting dimension,
//   by transposing and reshaping operands and result.
// - dot_dimension_merger (xla/hlo/transforms/simplifiers/dot_dimension_merger.cc): batch
//   dimensions that are adjacent in both operands and in memory become one.
#include "passes/run/rewrite.h"

static bool leading(hlo_ints batch) {
  for (u32 k = 0; k < batch.n; k++)
    if (batch.v[k] != (i64)k) return false;
  return true;
}

typedef struct dot_dims {
  hlo_ints lb, lc, rb, rc;
} dot_dims;
static dot_dims dims_of(const hlo_instr *d) {
  return (dot_dims){
      hlo_attr_ints(d, HLO_ATTR_LHS_BATCH_DIMS), hlo_attr_ints(d, HLO_ATTR_LHS_CONTRACTING_DIMS),
      hlo_attr_ints(d, HLO_ATTR_RHS_BATCH_DIMS), hlo_attr_ints(d, HLO_ATTR_RHS_CONTRACTING_DIMS)};
}

static bool canonical(const hlo_instr *d) {
  dot_dims x = dims_of(d);
  if (x.lc.n != 1 || x.lb.n + 2 < hlo_operand(d, 0)->shape->rank ||
      x.rb.n + 2 < hlo_operand(d, 1)->shape->rank)
    return false;
  return leading(x.lb) && leading(x.rb);
}

// Dynamic dimensions may be batch dimensions only: those are not merged with others.
static bool dynamic_elsewhere(const hlo_shape *s, hlo_ints batch) {
  for (u32 d = 0; d < s->rank; d++)
    if (hlo_dim_is_dynamic(s, d) && !hlo_ints_has(batch, d)) return true;
  return false;
}

static hlo_instr *reshaped(hlo_instr *x, u32 rank, const i64 *dims, const bool *dynamic) {
  if (!hlo_shape_is_dynamic(x->shape)) return hlo_build_reshape(x, rank, dims);
  const hlo_shape *s =
      hlo_shape_dynamic(x->parent->module->ctx, x->shape->dtype, rank, dims, dynamic, NULL);
  if (x->shape->layout) s = hlo_shape_fill_layout(x->parent->module->ctx, s);
  return hlo_add(x->parent, HLO_RESHAPE, s, 1, &x, NULL);
}

// Operand as [batch..., first group product, second group product]; free dimensions of one element
// are left out.
static hlo_instr *arranged(hlo_instr *x, hlo_ints batch, hlo_ints contracting,
                           bool contracting_last, bool *has_free) {
  const hlo_shape *s = x->shape;
  i64 perm[HLO_MAX_RANK], dims[HLO_MAX_RANK], free_size = 1, depth = 1;
  bool dyn[HLO_MAX_RANK] = {false};
  u32 n = 0, nd = 0;
  for (u32 k = 0; k < batch.n; k++)
    perm[n++] = batch.v[k], dyn[nd] = hlo_dim_is_dynamic(s, batch.v[k]),
    dims[nd++] = s->dims[batch.v[k]];
  for (int pass = 0; pass < 2; pass++) {
    if ((pass == 0) != contracting_last) {
      for (u32 k = 0; k < contracting.n; k++)
        perm[n++] = contracting.v[k], depth *= s->dims[contracting.v[k]];
    } else {
      for (u32 d = 0; d < s->rank; d++)
        if (!hlo_ints_has(batch, d) && !hlo_ints_has(contracting, d))
          perm[n++] = d, free_size *= s->dims[d];
    }
  }
  *has_free = free_size != 1;
  if (contracting_last) {
    if (*has_free) dims[nd++] = free_size;
    dims[nd++] = depth;
  } else {
    dims[nd++] = depth;
    if (*has_free) dims[nd++] = free_size;
  }
  return reshaped(hlo_build_transpose(x, perm), nd, dims, dyn);
}

static void decompose(pass_ctx *c, hlo_instr *d) {
  dot_dims x = dims_of(d);
  bool lfree, rfree;
  hlo_instr *l = arranged(hlo_operand(d, 0), x.lb, x.lc, true, &lfree),
            *r = arranged(hlo_operand(d, 1), x.rb, x.rc, false, &rfree);
  u32 nb = x.lb.n, rank = 0;
  i64 dims[HLO_MAX_RANK], iota[HLO_MAX_RANK];
  bool dyn[HLO_MAX_RANK] = {false};
  for (u32 k = 0; k < nb; k++)
    iota[k] = k, dyn[k] = hlo_dim_is_dynamic(l->shape, k) || hlo_dim_is_dynamic(r->shape, k),
    dims[rank++] = l->shape->dims[k];
  if (lfree) dims[rank++] = l->shape->dims[nb];
  if (rfree) dims[rank++] = r->shape->dims[nb + 1];
  const hlo_shape *s = hlo_shape_is_dynamic(l->shape) || hlo_shape_is_dynamic(r->shape)
                           ? hlo_shape_dynamic(c->m->ctx, d->shape->dtype, rank, dims, dyn, NULL)
                           : hlo_shape_array(c->m->ctx, d->shape->dtype, rank, dims);
  if (d->shape->layout || d->shape->rank == 0) s = hlo_shape_fill_layout(c->m->ctx, s);
  hlo_instr *ops[] = {l, r}, *now = hlo_clone_instr(d->parent, d, s, 2, ops);
  i64 lc = lfree ? nb + 1 : nb, rc = nb;
  if (nb) {
    hlo_set_attr_ints(now, HLO_ATTR_LHS_BATCH_DIMS, nb, iota);
    hlo_set_attr_ints(now, HLO_ATTR_RHS_BATCH_DIMS, nb, iota);
  }
  hlo_set_attr_ints(now, HLO_ATTR_LHS_CONTRACTING_DIMS, 1, &lc);
  hlo_set_attr_ints(now, HLO_ATTR_RHS_CONTRACTING_DIMS, 1, &rc);
  hlo_replace(d, hlo_add(d->parent, HLO_RESHAPE, d->shape, 1, &now, NULL));
}

static bool plain_dot(const hlo_instr *i) {
  return i->opcode == HLO_DOT && !hlo_attr_get(i, HLO_ATTR_SPARSITY_CONFIG);
}

static hs_status run_dot_decomposer(pass_ctx *c) {
  hlo_for_each_comp(comp, c->m) {
    if (hlo_is_fusion_comp(comp)) continue;
    hlo_for_each_instr_safe(i, comp) {
      if (!plain_dot(i) || canonical(i)) continue;
      if (pass_hides_size(hlo_operand(i, 0)) || pass_hides_size(hlo_operand(i, 1)) ||
          dynamic_elsewhere(hlo_operand(i, 0)->shape, dims_of(i).lb) ||
          dynamic_elsewhere(hlo_operand(i, 1)->shape, dims_of(i).rb)) {
        pass_note_declined(c, i, NULL, "a dynamic dimension would be merged");
        continue;
      }
      if (!pass_may_rewrite(c)) return HS_GOOD;
      pass_note_done(c, i, NULL, "brought to [batch, M, K] x [batch, K, N]");
      decompose(c, i);
    }
  }
  return HS_GOOD;
}

const pass_info pass_dot_decomposer = {
    .name = "dot_decomposer",
    .summary = "rewrites dots as [batch, M, K] x [batch, K, N]",
    .xla_source = "xla/service/dot_decomposer.cc",
    .run = run_dot_decomposer,
    .needs = {HLO_DOT},
    .sample = "ENTRY e {\n"
              "  x = f32[5,4,2] parameter(0)\n"
              "  y = f32[5,2,3] parameter(1)\n"
              "  ROOT z = f32[4,3] dot(x, y), lhs_contracting_dims={0,2}, "
              "rhs_contracting_dims={0,1}\n"
              "}\n",
};

// ---- merging batch dimensions -------------------------------------------------------------------
// Dimensions from..from+n-1 of s lie next to each other in memory, in any order.
static bool adjacent(const hlo_shape *s, i64 from, u32 n) {
  if (!s->layout) return true;
  u32 first = s->rank, last = 0;
  for (u32 m = 0; m < s->rank; m++) {
    i64 d = s->layout->minor_to_major[m];
    if (d < from || d >= from + (i64)n) continue;
    first = HS_MIN(first, m);
    last = m;
  }
  return last - first + 1 == n;
}

static bool consecutive(hlo_ints v) {
  for (u32 k = 1; k < v.n; k++)
    if (v.v[k] != v.v[k - 1] + 1) return false;
  return true;
}

static const hlo_shape *merged_shape(hlo_ctx *ctx, const hlo_shape *s, i64 from, u32 n) {
  i64 dims[HLO_MAX_RANK], order[HLO_MAX_RANK], product = 1;
  u32 rank = 0, m = 0;
  for (u32 k = 0; k < n; k++) product *= s->dims[from + k];
  for (i64 d = 0; d < s->rank; d++) {
    if (d == from) dims[rank++] = product;
    else if (d < from || d >= from + (i64)n) dims[rank++] = s->dims[d];
  }
  const hlo_shape *out = hlo_shape_array(ctx, s->dtype, rank, dims);
  if (!s->layout) return out;
  for (u32 k = 0; k < s->rank; k++) {
    i64 d = s->layout->minor_to_major[k];
    if (d > from && d < from + (i64)n) continue;
    order[m++] = d > from ? d - (n - 1) : d;
  }
  hlo_layout l = *s->layout;
  l.rank = rank, l.minor_to_major = order;
  return hlo_shape_with_layout(ctx, out, hlo_layout_intern(ctx, &l));
}

static void shift_dims(hlo_instr *i, hlo_attr_id id, i64 from, u32 n) {
  hlo_ints v = hlo_attr_ints(i, id);
  i64 now[HLO_MAX_RANK];
  for (u32 k = 0; k < v.n; k++) now[k] = v.v[k] > from ? v.v[k] - (n - 1) : v.v[k];
  hlo_set_attr_ints(i, id, v.n, now);
}

static hs_status run_dot_dimension_merger(pass_ctx *c) {
  hlo_for_each_comp(comp, c->m) {
    if (hlo_is_fusion_comp(comp)) continue;
    hlo_for_each_instr_safe(i, comp) {
      if (!plain_dot(i) || hlo_shape_is_dynamic(i->shape) || pass_reads_cut(i)) continue;
      dot_dims x = dims_of(i);
      u32 n = x.lb.n;
      if (n < 2) continue;
      hlo_instr *l = hlo_operand(i, 0), *r = hlo_operand(i, 1);
      if (!consecutive(x.lb) || !consecutive(x.rb)) {
        pass_note_declined(c, i, NULL, "batch dimensions are not consecutive");
        continue;
      }
      if (!adjacent(l->shape, x.lb.v[0], n) || !adjacent(r->shape, x.rb.v[0], n)) {
        pass_note_declined(c, i, NULL, "batch dimensions are not neighbours in memory");
        continue;
      }
      if (!pass_may_rewrite(c)) return HS_GOOD;
      pass_note_done(c, i, NULL, "%u batch dimensions became one", n);
      const hlo_shape *ls = merged_shape(c->m->ctx, l->shape, x.lb.v[0], n),
                      *rs = merged_shape(c->m->ctx, r->shape, x.rb.v[0], n);
      hlo_instr *ops[] = {hlo_add(comp, HLO_RESHAPE, ls, 1, &l, NULL),
                          hlo_add(comp, HLO_RESHAPE, rs, 1, &r, NULL)};
      hlo_instr *d = hlo_clone_instr(comp, i, merged_shape(c->m->ctx, i->shape, 0, n), 2, ops);
      shift_dims(d, HLO_ATTR_LHS_CONTRACTING_DIMS, x.lb.v[0], n);
      shift_dims(d, HLO_ATTR_RHS_CONTRACTING_DIMS, x.rb.v[0], n);
      hlo_set_attr_ints(d, HLO_ATTR_LHS_BATCH_DIMS, 1, &x.lb.v[0]);
      hlo_set_attr_ints(d, HLO_ATTR_RHS_BATCH_DIMS, 1, &x.rb.v[0]);
      hlo_replace(i, hlo_add(comp, HLO_RESHAPE, i->shape, 1, &d, NULL));
    }
  }
  return HS_GOOD;
}

const pass_info pass_dot_dimension_merger = {
    .name = "dot_dimension_merger",
    .summary = "merges batch dimensions of dots",
    .xla_source = "xla/hlo/transforms/simplifiers/dot_dimension_merger.cc",
    .run = run_dot_dimension_merger,
    .needs = {HLO_DOT},
    .sample = "ENTRY e {\n"
              "  x = f32[2,3,4,5] parameter(0)\n"
              "  y = f32[2,3,5,6] parameter(1)\n"
              "  ROOT z = f32[2,3,4,6] dot(x, y), lhs_batch_dims={0,1}, rhs_batch_dims={0,1}, "
              "lhs_contracting_dims={3}, rhs_contracting_dims={2}\n"
              "}\n",
};
