// transpose_folding.c — transpose-folding (xla/service/transpose_folding.cc): folds transposes of
// the operands of dot and convolution into the dimension numbers. For a dot, only a transpose that
// swaps the one free dimension with contracting ones and leaves the batch dimensions alone is
// taken, since libraries multiply such operands at full speed; fold_batch=true takes any that keeps
// the order of the free dimensions.
//
// fold_results=true, for where no layouts are assigned: the layout of a dot's result is then what
// some rewrite left, and one that its readers do not write in is a transposition of its own.
#include "passes/run/cache.h"

static bool foldable(const hlo_instr *t, hlo_ints batch, hlo_ints con, bool fold_batch) {
  if (t->opcode != HLO_TRANSPOSE || hlo_is_controlled(t)) return false;
  hlo_ints p = hlo_attr_ints(t, HLO_ATTR_DIMENSIONS);
  bool identity = true;
  for (u32 k = 0; k < p.n; k++) identity &= p.v[k] == k;
  if (identity) return false;
  if (fold_batch) {
    i64 last = -1;
    for (u32 k = 0; k < p.n; k++) {
      if (hlo_ints_has(batch, k) || hlo_ints_has(con, k)) continue;
      if (p.v[k] < last) return false;
      last = p.v[k];
    }
    return true;
  }
  if (batch.n + con.n + 1 != t->shape->rank) return false;
  for (u32 k = 0; k < batch.n; k++)
    if (p.v[batch.v[k]] != batch.v[k]) return false;
  return true;
}

static void renumber(pass_ctx *p, hlo_instr *dot, hlo_attr_id id, hlo_ints perm) {
  hlo_ints d = hlo_attr_ints(dot, id);
  if (!d.n) return;
  i64 *v = HS_NEW_ARRAY(p->scratch, i64, d.n);
  for (u32 k = 0; k < d.n; k++) v[k] = perm.v[d.v[k]];
  hlo_set_attr_ints(dot, id, d.n, v);
}

static void fold_dot(pass_ctx *p, hlo_instr *dot, bool fold_batch) {
  static const hlo_attr_id batch[] = {HLO_ATTR_LHS_BATCH_DIMS, HLO_ATTR_RHS_BATCH_DIMS};
  static const hlo_attr_id con[] = {HLO_ATTR_LHS_CONTRACTING_DIMS, HLO_ATTR_RHS_CONTRACTING_DIMS};
  // a vector times a matrix has no such form
  if (hlo_attr_get(dot, HLO_ATTR_SPARSITY_CONFIG) || hlo_operand(dot, 0)->shape->rank < 2 ||
      hlo_operand(dot, 1)->shape->rank < 2)
    return;
  for (u32 s = 0; s < 2; s++) {
    hlo_instr *t = hlo_operand(dot, s);
    if (!foldable(t, hlo_attr_ints(dot, batch[s]), hlo_attr_ints(dot, con[s]), fold_batch) ||
        !pass_may_rewrite(p))
      continue;
    hlo_ints perm = hlo_attr_ints(t, HLO_ATTR_DIMENSIONS);
    renumber(p, dot, batch[s], perm);
    renumber(p, dot, con[s], perm);
    pass_note_done(p, dot, t, "reads operand %u without its transpose", s);
    hlo_add_provenance(dot, t);
    hlo_set_operand(dot, s, hlo_operand(t, 0));
    hlo_remove_dead(t);
  }
}

static const i64 *permuted(hs_arena *a, u32 n, const i64 *dims, hlo_ints perm) {
  i64 *v = HS_NEW_ARRAY(a, i64, n + 1);
  for (u32 k = 0; k < n; k++) v[k] = perm.v[dims[k]];
  return v;
}

static void fold_convolution(pass_ctx *p, hlo_instr *conv) {
  const hlo_dim_labels *d = hlo_attr_ptr(conv, HLO_ATTR_DIM_LABELS);
  if (!d || conv->noperands != 2) return;
  for (u32 s = 0; s < 2; s++) {
    hlo_instr *t = hlo_operand(conv, s);
    if (t->opcode != HLO_TRANSPOSE || hlo_is_controlled(t) || !pass_may_rewrite(p)) continue;
    hlo_ints perm = hlo_attr_ints(t, HLO_ATTR_DIMENSIONS);
    hs_arena *a = &p->m->arena;
    hlo_dim_labels *n = HS_NEW(a, hlo_dim_labels);
    *n = *(const hlo_dim_labels *)hlo_attr_ptr(conv, HLO_ATTR_DIM_LABELS);
    n->text = NULL;
    if (s == 0) {
      n->lhs_batch = perm.v[n->lhs_batch], n->lhs_feature = perm.v[n->lhs_feature];
      n->lhs_spatial = permuted(a, n->nspatial, n->lhs_spatial, perm);
    } else {
      n->rhs_input_feature = perm.v[n->rhs_input_feature];
      n->rhs_output_feature = perm.v[n->rhs_output_feature];
      n->rhs_spatial = permuted(a, n->nspatial, n->rhs_spatial, perm);
    }
    hlo_set_attr_ptr(conv, HLO_ATTR_DIM_LABELS, n);
    pass_note_done(p, conv, t, "reads operand %u without its transpose", s);
    hlo_add_provenance(conv, t);
    hlo_set_operand(conv, s, hlo_operand(t, 0));
    hlo_remove_dead(t);
  }
}

// The layout in which those who read a dot element by element write what they make of it; NULL
// where somebody else reads it, or they do not agree.
static const hlo_layout *layout_of_readers(const hlo_instr *dot) {
  const hlo_layout *l = NULL;
  if (hlo_is_root(dot)) return NULL;
  hlo_for_each_use(u, dot) {
    const hlo_shape *s = u->user->shape;
    if (!hlo_op_has(u->user->opcode, HLO_F_ELEMENTWISE) || !hlo_shape_is_array(s) ||
        !hlo_shape_same_dims(s, dot->shape) || !s->layout || (l && s->layout != l))
      return NULL;
    l = s->layout;
  }
  return l;
}

static void fold_result(pass_ctx *p, hlo_instr *dot) {
  const hlo_layout *l = layout_of_readers(dot);
  if (!l || !dot->shape->layout || dot->shape->layout == l || !pass_may_rewrite(p)) return;
  pass_note_done(p, dot, NULL, "written in the layout of its readers");
  hlo_set_shape(dot, hlo_shape_with_layout(p->m->ctx, dot->shape, l));
}

static hs_status run(pass_ctx *p) {
  bool fold_batch = pass_option_bool(p, "fold_batch"),
       convolutions = pass_option_bool(p, "fold_convolutions"),
       results = pass_option_bool(p, "fold_results");
  u32 n;
  hlo_computation **comps = pass_comp_post_order(p, &n);
  for (u32 k = 0; k < n; k++) {
    if (hlo_is_fusion_comp(comps[k])) continue;
    HS_TRY(hs_poll());
    u32 ni = comps[k]->ninstrs;
    hlo_instr **order = pass_post_order(p, comps[k]);
    for (u32 j = 0; j < ni; j++) {
      if (order[j]->dead || order[j]->ctrl_preds) continue;
      if (order[j]->opcode == HLO_DOT) fold_dot(p, order[j], fold_batch);
      if (results && order[j]->opcode == HLO_DOT) fold_result(p, order[j]);
      if (convolutions && order[j]->opcode == HLO_CONVOLUTION) fold_convolution(p, order[j]);
    }
  }
  return HS_GOOD;
}

static const pass_option_info options[] = {
    {"fold_batch", PASS_BOOL, "false",
     "any transpose that keeps the order of the free dimensions, also one that moves batch "
     "dimensions"},
    {"fold_convolutions", PASS_BOOL, "true", "also fold into convolutions"},
    {"fold_results", PASS_BOOL, "false",
     "results of dots take the layout of those who read them element by element"},
};

const pass_info pass_transpose_folding = {
    .name = "transpose-folding",
    .summary = "folds transposes into dot and convolution",
    .xla_source = "xla/service/transpose_folding.cc",
    .run = run,
    .needs = {HLO_TRANSPOSE, HLO_DOT},
    .options = options,
    .noptions = HS_COUNT(options),
    .sample = "ENTRY e {\n"
              "  x = f32[2,3] parameter(0)\n"
              "  y = f32[4,3] parameter(1)\n"
              "  t = f32[3,4] transpose(y), dimensions={1,0}\n"
              "  ROOT z = f32[2,4] dot(x, t), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n"
              "}\n",
};
