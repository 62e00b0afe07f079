// algsimp_dot.c — dots that are other operations, and transposes, reshapes, concatenations and
// dynamic slices of their operands. Reassociation is in algsimp_assoc.c.
#include "passes/simplify/algsimp.h"

#define X hlo_operand(i, 0)
#define Y hlo_operand(i, 1)

// ---- dimension numbers --------------------------------------------------------------------------
static u32 ints(const hlo_instr *i, hlo_attr_id id, i64 *to) {
  hlo_ints v = hlo_attr_ints(i, id);
  if (v.n) memcpy(to, v.v, v.n * sizeof *to);
  return v.n;
}

void pass_alg_dot_dims(const hlo_instr *i, alg_dot *d) {
  d->nb = ints(i, HLO_ATTR_LHS_BATCH_DIMS, d->lb);
  d->nc = ints(i, HLO_ATTR_LHS_CONTRACTING_DIMS, d->lc);
  (void)ints(i, HLO_ATTR_RHS_BATCH_DIMS, d->rb);
  (void)ints(i, HLO_ATTR_RHS_CONTRACTING_DIMS, d->rc);
}

static void swap_lists(i64 *a, i64 *b, u32 n) {
  for (u32 k = 0; k < n; k++) {
    i64 t = a[k];
    a[k] = b[k], b[k] = t;
  }
}

void pass_alg_dot_swap(alg_dot *d) {
  swap_lists(d->lb, d->rb, d->nb);
  swap_lists(d->lc, d->rc, d->nc);
}

void pass_alg_dot_map(const alg_dot *d, bool rhs, u32 lhs_rank, u32 rank, i64 *map) {
  const i64 *batch = rhs ? d->rb : d->lb, *con = rhs ? d->rc : d->lc;
  i64 next = rhs ? (i64)(lhs_rank - d->nc) : d->nb;
  for (u32 k = 0; k < rank; k++) {
    map[k] = -2;
    for (u32 b = 0; b < d->nb; b++)
      if (batch[b] == k) map[k] = b;
    for (u32 c = 0; c < d->nc; c++)
      if (con[c] == k) map[k] = -1;
    if (map[k] == -2) map[k] = next++;
  }
}

static void set_ints(hlo_instr *d, hlo_attr_id id, u32 n, const i64 *v) {
  if (n) hlo_set_attr_ints(d, id, n, v);
  else hlo_remove_attr(d, id);
}

bool pass_alg_dot_plain(const hlo_instr *i) {
  i64 how = hlo_attr_int(i, HLO_ATTR_ALGORITHM, HLO_ALGORITHM_UNSET);
  return !hlo_attr_get(i, HLO_ATTR_SPARSITY_CONFIG) &&
         (how == HLO_ALGORITHM_UNSET || how == HLO_ALGORITHM_F32_F32_F32);
}

hlo_instr *pass_alg_dot(alg *a, const hlo_instr *like, bool swapped, hlo_instr *l, hlo_instr *r,
                        const alg_dot *d) {
  i64 dims[2 * HLO_MAX_RANK], map[HLO_MAX_RANK];
  u32 rank = l->shape->rank + r->shape->rank - d->nb - 2 * d->nc;
  pass_alg_dot_map(d, false, l->shape->rank, l->shape->rank, map);
  for (u32 k = 0; k < l->shape->rank; k++)
    if (map[k] >= 0) dims[map[k]] = l->shape->dims[k];
  pass_alg_dot_map(d, true, l->shape->rank, r->shape->rank, map);
  for (u32 k = 0; k < r->shape->rank; k++)
    if (map[k] >= 0) dims[map[k]] = r->shape->dims[k];
  hlo_instr *n = pass_alg_like(a, like, pass_alg_shape(a, like->shape->dtype, rank, dims), 2,
                               (hlo_instr *[]){l, r});
  set_ints(n, HLO_ATTR_LHS_BATCH_DIMS, d->nb, d->lb);
  set_ints(n, HLO_ATTR_RHS_BATCH_DIMS, d->nb, d->rb);
  set_ints(n, HLO_ATTR_LHS_CONTRACTING_DIMS, d->nc, d->lc);
  set_ints(n, HLO_ATTR_RHS_CONTRACTING_DIMS, d->nc, d->rc);
  hlo_ints prec = hlo_attr_ints(like, HLO_ATTR_OPERAND_PRECISION);
  if (swapped && prec.n == 2)
    hlo_set_attr_ints(n, HLO_ATTR_OPERAND_PRECISION, 2, (i64[]){prec.v[1], prec.v[0]});
  return n;
}

// ---- dots that are other operations -------------------------------------------------------------
// Nothing to sum over, or nothing to multiply: zeros
ALG_RULE(dot_zero) {
  if (a->layout_sensitive ||
      (i->shape->elements != 0 && X->shape->elements != 0 && Y->shape->elements != 0))
    return NULL;
  return pass_alg_full(a, i->shape, 0);
}

// The result is sharded as partial sums, by what its one user says: they must stay sums of the
// dot's own
ALG_RULE(dot_unreduced) {
  const hlo_instr *u = i->nuses == 1 ? i->first_use->user : NULL;
  if (!u || u->opcode != HLO_CUSTOM_CALL ||
      !hs_str_eq(hlo_attr_str(u, HLO_ATTR_CUSTOM_CALL_TARGET), HS_STR("Sharding")))
    return NULL;
  const hlo_sharding *s = hlo_attr_ptr(u, HLO_ATTR_SHARDING);
  const hs_str *text = pass_frontend(u, "xla.sdy.sharding");
  a->stop = text && memmem(text->p, text->n, "unreduced", 9);
  if (!s) return NULL;
  a->stop |=
      s->type == HLO_SH_UNREDUCED || s->named_whole == HLO_SH_UNREDUCED || s->unreduced_axes.n != 0;
  for (u32 k = 0; k < s->last_tile_dims.n; k++)
    a->stop |= s->last_tile_dims.v[k] == HLO_SH_UNREDUCED;
  return NULL;
}

// One operand as an array over [batch, contracting, free...] spread to the product's dimensions
// [batch..., lhs free..., rhs free..., contracting...].
static hlo_instr *spread_operand(alg *a, hlo_instr *x, u32 nb, const i64 *batch, u32 nc,
                                 const i64 *con, u32 free_at, const hlo_shape *space) {
  i64 *map = pass_alg_dims_new(a, x->shape->rank);
  u32 f = 0;
  for (u32 k = 0; k < x->shape->rank; k++) {
    map[k] = -1;
    for (u32 b = 0; b < nb; b++)
      if (batch[b] == k) map[k] = b;
    for (u32 c = 0; c < nc; c++)
      if (con[c] == k) map[k] = (i64)(space->rank - nc + c);
    if (map[k] < 0) map[k] = free_at + f++;
  }
  // Broadcast wants increasing dimensions: transpose first when they are not.
  i64 *perm = pass_alg_dims_new(a, x->shape->rank);
  for (u32 k = 0; k < x->shape->rank; k++) perm[k] = k;
  for (u32 k = 1; k < x->shape->rank; k++)
    for (u32 j = k; j > 0 && map[perm[j - 1]] > map[perm[j]]; j--) {
      i64 t = perm[j];
      perm[j] = perm[j - 1], perm[j - 1] = t;
    }
  hlo_instr *t = pass_alg_convert(a, pass_alg_transpose(a, x, perm), space->dtype);
  i64 *sorted = pass_alg_dims_new(a, x->shape->rank);
  for (u32 k = 0; k < x->shape->rank; k++) sorted[k] = map[perm[k]];
  return x->shape->rank == space->rank ? t
                                       : pass_alg_broadcast(a, t, space, x->shape->rank, sorted);
}

// The products that the dot sums, over [batch..., lhs free..., rhs free..., contracting...], in t
static hlo_instr *products(alg *a, hlo_instr *i, const alg_dot *d, hlo_dtype t) {
  u32 rank = i->shape->rank, lfree = X->shape->rank - d->nb - d->nc;
  i64 *dims = pass_alg_dims_new(a, rank + d->nc);
  for (u32 k = 0; k < rank; k++) dims[k] = i->shape->dims[k];
  for (u32 c = 0; c < d->nc; c++) dims[rank + c] = X->shape->dims[d->lc[c]];
  const hlo_shape *space = pass_alg_shape(a, t, rank + d->nc, dims);
  hlo_instr *l = spread_operand(a, X, d->nb, d->lb, d->nc, d->lc, d->nb, space);
  hlo_instr *r = spread_operand(a, Y, d->nb, d->rb, d->nc, d->rc, d->nb + lfree, space);
  return pass_alg_bin(a, HLO_MULTIPLY, l, r);
}

// No contracting dimension: an outer product, i.e. a multiply of broadcasts
ALG_RULE(dot_multiply) {
  alg_dot d;
  pass_alg_dot_dims(i, &d);
  if (a->layout_sensitive || !a->dot_to_multiply || d.nc || !pass_alg_dot_plain(i) ||
      alg_is_pred(i) || !pass_alg_widens_operands(i))
    return NULL;
  return products(a, i, &d, i->shape->dtype);
}

// A product of vectors, or of a matrix and a vector, as multiply + reduce, which fuses with what
// made the vectors; for CPUs of vectors only. Floats are summed in f32 at least, and those of which
// products get lost (below 16 bits) are multiplied in it.
ALG_RULE(dot_reduce) {
  alg_dot d;
  pass_alg_dot_dims(i, &d);
  u32 lfree = X->shape->rank - d.nb - d.nc, rfree = Y->shape->rank - d.nb - d.nc,
      rank = i->shape->rank;
  bool vectors = a->vector_dots && X->shape->rank == 1 && Y->shape->rank == 1 &&
                 hlo_dtype_bits(i->shape->dtype) >= 32;
  if (a->layout_sensitive || !(vectors || a->dot_strength_reduction) || !pass_alg_dot_plain(i) ||
      alg_is_pred(i) || !d.nc || !pass_alg_widens_operands(i))
    return NULL;
  if (a->on_cpu ? lfree || rfree : lfree && rfree) return NULL;
  hlo_dtype t = alg_is_float(i) && i->shape->dtype != HLO_F64 ? HLO_F32 : i->shape->dtype;
  i64 *over = pass_alg_dims_new(a, d.nc);
  for (u32 c = 0; c < d.nc; c++) over[c] = rank + c;
  hlo_dtype in = hlo_dtype_bits(i->shape->dtype) < 16 ? t : i->shape->dtype;
  hlo_instr *p = pass_alg_convert(a, products(a, i, &d, in), t);
  hlo_instr *r = pass_alg_reduce(a, p, pass_alg_scalar(a, t, 0), d.nc, over,
                                 hlo_build_scalar_computation(a->m, HLO_ADD, t));
  return pass_alg_convert(a, r, i->shape->dtype);
}

// dot(reshape(transpose(A)), C): when the transpose only reorders what the reshape merges into the
// contracting dimension, the constant can be reordered instead.
ALG_RULE(dot_contracting_order) {
  alg_dot d;
  pass_alg_dot_dims(i, &d);
  if (a->layout_sensitive || hlo_attr_get(i, HLO_ATTR_SPARSITY_CONFIG) || d.nc != 1) return NULL;
  for (u32 s = 0; s < 2; s++) {
    hlo_instr *r = hlo_operand(i, s), *k = hlo_operand(i, 1 - s),
              *t = r->opcode == HLO_RESHAPE ? hlo_operand(r, 0) : r;
    if (r->opcode != HLO_RESHAPE || t->opcode != HLO_TRANSPOSE || !pass_alg_constant(k)) continue;
    i64 c = s ? d.rc[0] : d.lc[0], kc = s ? d.lc[0] : d.rc[0];
    hlo_dim_group g[2 * HLO_MAX_RANK + 2];
    u32 n = pass_dim_groups(t->shape, r->shape, g), at = 0;
    while (at < n && !(c >= g[at].to && c < g[at + 1].to)) at++;
    if (at == n || g[at + 1].to != g[at].to + 1 || g[at + 1].from < g[at].from + 2) continue;
    u32 from = g[at].from, count = g[at + 1].from - from, kr = k->shape->rank, kept = 0;
    for (u32 x = 0; x < n; x++)
      kept += g[x + 1].from == g[x].from + 1 && g[x + 1].to == g[x].to + 1;
    if (kept + 1 != r->shape->rank) continue;  // nothing else may be merged or split
    hlo_ints p = alg_dims(t);
    bool within = true;
    for (u32 x = 0; x < p.n; x++)
      within &=
          x < from || x >= from + count ? p.v[x] == x : p.v[x] >= from && p.v[x] < from + count;
    if (!within) continue;
    // The constant's contracting dimension split as the transpose's result has it, then in A's
    // order.
    i64 *split = pass_alg_dims_new(a, kr + count), *perm = pass_alg_dims_new(a, kr + count);
    for (u32 x = 0, o = 0; x < kr; x++) {
      if (x != kc) {
        perm[o] = o, split[o++] = k->shape->dims[x];
        continue;
      }
      for (u32 y = 0; y < count; y++)
        split[o + y] = t->shape->dims[from + y], perm[o + (u32)p.v[from + y] - from] = o + y;
      o += count;
    }
    hlo_instr *now = pass_alg_reshape(
        a, pass_alg_transpose(a, pass_alg_reshape(a, k, kr - 1 + count, split), perm), kr,
        k->shape->dims);
    hlo_instr *x = pass_alg_reshape(a, hlo_operand(t, 0), r->shape->rank, r->shape->dims), *v[2];
    v[s] = x, v[1 - s] = now;
    hlo_instr *dot = pass_alg_add(a, HLO_DOT, i->shape, 2, v);
    hlo_copy_attrs(dot, i);
    return dot;
  }
  return NULL;
}

static bool matrices(const hlo_instr *i) {
  return i->shape->rank == 2 && X->shape->rank == 2 && Y->shape->rank == 2;
}

// Whether parts of the dot's sums may become numbers of its type before they are added: not what
// rounds to whole numbers or to true, nor where what is in range together may not be alone.
static bool adds_in_parts(const hlo_instr *i) {
  if (alg_is_float(i)) return !alg_is_tiny(i);
  return alg_is_complex(i) || (alg_is_int(i) && alg_is_int(X) && alg_is_int(Y));
}

// dot(concatenate(A, B), C) along the contracting dimension = dot(A, C1) + dot(B, C2) for a
// constant C, which is cut at compile time
ALG_RULE(dot_concat) {
  alg_dot d;
  pass_alg_dot_dims(i, &d);
  if (a->layout_sensitive || !matrices(i) || d.nc != 1 || !adds_in_parts(i) ||
      hlo_attr_get(i, HLO_ATTR_SPARSITY_CONFIG))
    return NULL;
  for (u32 s = 0; s < 2; s++) {
    hlo_instr *c = hlo_operand(i, s), *k = hlo_operand(i, 1 - s), *sum = NULL;
    i64 cd = s ? d.rc[0] : d.lc[0], kd = s ? d.lc[0] : d.rc[0], at = 0;
    if (c->opcode != HLO_CONCATENATE || alg_dims(c).v[0] != cd || k->opcode != HLO_CONSTANT)
      continue;
    for (u32 p = 0; p < c->noperands; p++) {
      hlo_instr *part = hlo_operand(c, p), *v[2];
      hlo_slice_dim cut[2] = {{0, k->shape->dims[0], 1}, {0, k->shape->dims[1], 1}};
      cut[kd] = (hlo_slice_dim){at, at + part->shape->dims[cd], 1};
      at = cut[kd].limit;
      v[s] = part, v[1 - s] = pass_alg_slice(a, k, cut);
      hlo_instr *dot = pass_alg_dot(a, i, false, v[0], v[1], &d);
      sum = sum ? pass_alg_bin(a, HLO_ADD, sum, dot) : dot;
    }
    return sum;
  }
  return NULL;
}

// dot(dynamic-slice(C1), C2) of one row of a constant: the product of the constants is known, the
// row is taken from that
ALG_RULE(dot_lookup) {
  alg_dot d;
  pass_alg_dot_dims(i, &d);
  if (a->layout_sensitive || !matrices(i) || d.nc != 1 || hlo_attr_get(i, HLO_ATTR_SPARSITY_CONFIG))
    return NULL;
  for (u32 s = 0; s < 2; s++) {
    hlo_instr *row = hlo_operand(i, s), *k = hlo_operand(i, 1 - s), *v[2];
    i64 cd = s ? d.rc[0] : d.lc[0];
    if (row->opcode != HLO_DYNAMIC_SLICE || row->noperands != 3 || k->opcode != HLO_CONSTANT)
      continue;
    hlo_instr *table = hlo_operand(row, 0);
    if (table->opcode != HLO_CONSTANT || row->shape->dims[1 - cd] != 1 ||
        table->shape->dims[cd] != row->shape->dims[cd])
      continue;
    v[s] = table, v[1 - s] = k;
    hlo_instr *all = pass_alg_dot(a, i, false, v[0], v[1], &d),
              *start = hlo_operand(row, 1 + (u32)(1 - cd)), *zero = hlo_operand(row, 1 + (u32)cd);
    return pass_alg_dslice(a, all, s ? (hlo_instr *[]){zero, start} : (hlo_instr *[]){start, zero},
                           i->shape->dims);
  }
  return NULL;
}

// dot(transpose(A), transpose(B)) by one permutation = transpose(dot(A, B)), or of dot(B, A) when
// it swaps the last two dimensions
ALG_RULE(dot_transposes) {
  alg_dot d;
  pass_alg_dot_dims(i, &d);
  u32 nb = d.nb, rank = i->shape->rank;
  if (a->layout_sensitive || X->opcode != HLO_TRANSPOSE || Y->opcode != HLO_TRANSPOSE ||
      !hlo_ints_equal(alg_dims(X), alg_dims(Y)) || hlo_attr_get(i, HLO_ATTR_SPARSITY_CONFIG))
    return NULL;
  if (d.nc != 1 || rank != nb + 2 || X->shape->rank != rank || d.lc[0] != (i64)rank - 1 ||
      d.rc[0] != (i64)rank - 2)
    return NULL;
  for (u32 k = 0; k < nb; k++)
    if (d.lb[k] != k || d.rb[k] != k) return NULL;
  hlo_ints p = alg_dims(X);
  bool swap = p.v[rank - 2] == (i64)rank - 1 && p.v[rank - 1] == (i64)rank - 2;
  if (!swap && (p.v[rank - 2] != (i64)rank - 2 || p.v[rank - 1] != (i64)rank - 1)) return NULL;
  hlo_instr *l = hlo_operand(X, 0), *r = hlo_operand(Y, 0);
  return pass_alg_transpose(a, pass_alg_dot(a, i, swap, swap ? r : l, swap ? l : r, &d), p.v);
}

// Extents of 1 leave the dot
ALG_RULE(dot_degenerate) {
  alg_dot d, now = {0};
  pass_alg_dot_dims(i, &d);
  if (a->layout_sensitive || hlo_attr_get(i, HLO_ATTR_SPARSITY_CONFIG)) return NULL;
  bool any = false;
  i64 *renumber[2];
  hlo_instr *out[2];
  for (u32 s = 0; s < 2; s++)
    for (u32 k = 0; k < hlo_operand(i, s)->shape->rank; k++)
      any |= hlo_operand(i, s)->shape->dims[k] == 1;
  if (!any) return NULL;
  for (u32 s = 0; s < 2; s++) {
    const hlo_shape *sh = hlo_operand(i, s)->shape;
    i64 *dims = pass_alg_dims_new(a, sh->rank);
    renumber[s] = pass_alg_dims_new(a, sh->rank);
    u32 n = 0;
    for (u32 k = 0; k < sh->rank; k++)
      if (sh->dims[k] != 1) renumber[s][k] = n, dims[n++] = sh->dims[k];
    out[s] = pass_alg_reshape(a, hlo_operand(i, s), n, dims);
  }
  for (u32 k = 0; k < d.nb; k++)
    if (X->shape->dims[d.lb[k]] != 1)
      now.lb[now.nb] = renumber[0][d.lb[k]], now.rb[now.nb++] = renumber[1][d.rb[k]];
  for (u32 k = 0; k < d.nc; k++)
    if (X->shape->dims[d.lc[k]] != 1)
      now.lc[now.nc] = renumber[0][d.lc[k]], now.rc[now.nc++] = renumber[1][d.rc[k]];
  return pass_alg_reshape_to(a, pass_alg_dot(a, i, false, out[0], out[1], &now), i->shape);
}

// A parameter, or what came from one through single operands
static bool parameter_like(const hlo_instr *i) {
  while (i->noperands == 1) i = hlo_operand(i, 0);
  return i->opcode == HLO_PARAMETER;
}

// dot(parameter, B) = transpose(dot(B, parameter)), where that is wanted
ALG_RULE(dot_param_right) {
  if (a->layout_sensitive || !a->move_dot_param || !parameter_like(X) || parameter_like(Y) ||
      hlo_attr_get(i, HLO_ATTR_SPARSITY_CONFIG))
    return NULL;
  alg_dot d;
  pass_alg_dot_dims(i, &d);
  u32 lfree = X->shape->rank - d.nb - d.nc, rfree = Y->shape->rank - d.nb - d.nc;
  hlo_instr *l = X, *r = Y;
  pass_alg_dot_swap(&d);
  i64 *perm = pass_alg_dims_new(a, i->shape->rank);
  for (u32 k = 0; k < d.nb; k++) perm[k] = k;
  for (u32 k = 0; k < lfree; k++) perm[d.nb + k] = d.nb + rfree + k;
  for (u32 k = 0; k < rfree; k++) perm[d.nb + lfree + k] = d.nb + k;
  return pass_alg_transpose(a, pass_alg_dot(a, i, true, r, l, &d), perm);
}

// transpose(dot(A, B)) = dot(B, A) when it swaps the free dimensions of both and keeps the batch
// dimensions in front
ALG_RULE(transpose_dot) {
  hlo_instr *dot = X;
  if (dot->opcode != HLO_DOT || dot->nuses != 1 || hlo_attr_get(dot, HLO_ATTR_SPARSITY_CONFIG))
    return NULL;
  hlo_instr *l = hlo_operand(dot, 0), *r = hlo_operand(dot, 1);
  if (a->move_dot_param && !parameter_like(l) && parameter_like(r)) return NULL;
  alg_dot d, now;
  pass_alg_dot_dims(dot, &d);
  now = d;
  hlo_ints p = alg_dims(i);
  u32 lfree = l->shape->rank - d.nb - d.nc, rfree = r->shape->rank - d.nb - d.nc;
  for (u32 k = 0; k < d.nb; k++) {
    if (p.v[k] >= (i64)d.nb) return NULL;
    if (!a->non_canonical_dots && (p.v[k] != k || d.lb[k] != k || d.rb[k] != k)) return NULL;
    now.lb[k] = d.lb[p.v[k]], now.rb[k] = d.rb[p.v[k]];
  }
  if (!a->non_canonical_dots && (lfree != 1 || rfree != 1 || !d.nc)) return NULL;
  for (u32 k = 0; k < rfree; k++)
    if (p.v[d.nb + k] != (i64)(d.nb + lfree + k)) return NULL;
  for (u32 k = 0; k < lfree; k++)
    if (p.v[d.nb + rfree + k] != (i64)(d.nb + k)) return NULL;
  pass_alg_dot_swap(&now);
  hlo_instr *n = pass_alg_dot(a, dot, true, r, l, &now);
  hlo_set_shape(n, i->shape);
  return n;
}
