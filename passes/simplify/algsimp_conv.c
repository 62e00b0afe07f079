// algsimp_conv.c — convolutions: folding padding and dilation of the operands into the window,
// swapping the operands, replacing convolutions by dots or multiplications, and moving constant
// factors.
#include "passes/simplify/algsimp.h"

#define X hlo_operand(i, 0)
#define Y hlo_operand(i, 1)

static const hlo_dim_labels *labels_of(const hlo_instr *i) {
  return hlo_attr_ptr(i, HLO_ATTR_DIM_LABELS);
}
static const hlo_window *window_of(const hlo_instr *i) { return hlo_attr_ptr(i, HLO_ATTR_WINDOW); }
static i64 groups(const hlo_instr *i) {
  return hlo_attr_int(i, HLO_ATTR_FEATURE_GROUP_COUNT, 1) *
         hlo_attr_int(i, HLO_ATTR_BATCH_GROUP_COUNT, 1);
}

// A dense convolution whose dimension labels say all.
static bool plain(const hlo_instr *i) {
  const hlo_dim_labels *l = labels_of(i);
  return l && window_of(i) && window_of(i)->n == l->nspatial &&
         !hlo_attr_get(i, HLO_ATTR_SPARSITY_CONFIG) && i->noperands == 2 &&
         X->shape->rank == l->nspatial + 2;
}

static bool moves(const hlo_pad_dim *p) { return p->low || p->high || p->interior; }

static hlo_instr *with_window(alg *a, hlo_instr *i, hlo_instr *l, hlo_instr *r,
                              const hlo_window_dim *d) {
  hlo_instr *n = pass_alg_like(a, i, i->shape, 2, (hlo_instr *[]){l, r});
  hlo_window *w = HS_NEW(&a->m->arena, hlo_window);
  *w = (hlo_window){window_of(i)->n, d};
  hlo_set_attr_ptr(n, HLO_ATTR_WINDOW, w);
  return n;
}

static hlo_window_dim *window_copy(alg *a, const hlo_instr *i) {
  const hlo_window *w = window_of(i);
  return hs_arena_dup(&a->m->arena, w->v, w->n * sizeof *w->v);
}

ALG_RULE(conv_empty) {
  if (X->shape->elements && Y->shape->elements) return NULL;
  return alg_is_complex(i) ? NULL : pass_alg_full(a, i->shape, 0);
}

// convolution(pad(A, 0), K): the window pads
ALG_RULE(conv_input_pad) {
  if (!plain(i) || X->opcode != HLO_PAD || !pass_alg_all(hlo_operand(X, 1), 0)) return NULL;
  const hlo_padding *p = hlo_attr_ptr(X, HLO_ATTR_PADDING);
  const hlo_dim_labels *l = labels_of(i);
  if (moves(&p->v[l->lhs_batch]) || moves(&p->v[l->lhs_feature])) return NULL;
  hlo_window_dim *w = window_copy(a, i);
  for (u32 k = 0; k < l->nspatial; k++) {
    const hlo_pad_dim *q = &p->v[l->lhs_spatial[k]];
    // spreads what the window put there
    if (q->interior && (w[k].pad_low || w[k].pad_high || w[k].lhs_dilate != 1)) return NULL;
    if (w[k].lhs_dilate != 1 && moves(q)) return NULL;
    // zeros of the window would show what the pad cuts off
    if ((q->low < 0 && w[k].pad_low > 0) || (q->high < 0 && w[k].pad_high > 0)) return NULL;
    if (!hs_add_ok(w[k].pad_low, q->low, &w[k].pad_low) ||
        !hs_add_ok(w[k].pad_high, q->high, &w[k].pad_high) ||
        (q->interior && !hs_add_ok(q->interior, 1, &w[k].lhs_dilate)))
      return NULL;
  }
  return with_window(a, i, hlo_operand(X, 0), Y, w);
}

// convolution(A, pad(K, 0)) with interior padding: the window dilates
ALG_RULE(conv_filter_pad) {
  if (!plain(i) || Y->opcode != HLO_PAD || !pass_alg_all(hlo_operand(Y, 1), 0)) return NULL;
  const hlo_padding *p = hlo_attr_ptr(Y, HLO_ATTR_PADDING);
  const hlo_dim_labels *l = labels_of(i);
  if (moves(&p->v[l->rhs_input_feature]) || moves(&p->v[l->rhs_output_feature])) return NULL;
  hlo_window_dim *w = window_copy(a, i);
  for (u32 k = 0; k < l->nspatial; k++) {
    const hlo_pad_dim *q = &p->v[l->rhs_spatial[k]];
    if (q->low || q->high || (q->interior && w[k].rhs_dilate != 1)) return NULL;
    if (!q->interior) continue;
    w[k].rhs_dilate = 1 + q->interior;
    w[k].size = hlo_operand(Y, 0)->shape->dims[l->rhs_spatial[k]];
  }
  return with_window(a, i, X, hlo_operand(Y, 0), w);
}

// ---- swapping the operands ----------------------------------------------------------------------
// Window dimensions in which the operands' roles are alike already: one window over everything, or
// as many windows as elements, each of which sees its own.
static bool symmetric(const hlo_window_dim *d, i64 input) {
  if (d->reversal || d->pad_low || d->pad_high || d->rhs_dilate != 1 || d->size != input)
    return false;
  return (d->lhs_dilate == d->size && d->stride == d->size - 1) ||
         (d->lhs_dilate == 1 && d->stride == 1);
}

// A larger kernel than input: the input slides over the kernel, backwards
ALG_RULE(conv_swap) {
  if (!a->conv_operand_swap || a->layout_sensitive || !plain(i) || groups(i) != 1) return NULL;
  // integers of two types of floats are computed in the first one's
  if (X->shape->dtype != Y->shape->dtype && alg_is_float(X) && !alg_is_float(i)) return NULL;
  const hlo_dim_labels *l = labels_of(i);
  const hlo_window *w = window_of(i);
  hlo_window_dim *v = window_copy(a, i);
  i64 *reverse = pass_alg_dims_new(a, l->nspatial), now = 1, then = 1;
  u32 n = 0;
  for (u32 k = 0; k < l->nspatial; k++) {
    const hlo_window_dim *d = &w->v[k];
    i64 input = X->shape->dims[l->lhs_spatial[k]];
    if (input == 0) return NULL;  // no window has a size of 0
    if (symmetric(d, input)) continue;
    i64 kernel = 1 + (d->size - 1) * d->rhs_dilate, dilated = 1 + (input - 1) * d->lhs_dilate;
    bool point = input == 1 && d->stride == 1 && d->rhs_dilate == 1 && d->pad_high == d->size - 1 &&
                 d->pad_low == d->size - 1;
    now *= d->size;
    then *= point ? d->size : input;
    if (!d->reversal) reverse[n++] = l->rhs_spatial[k];
    v[k] = (hlo_window_dim){.size = input,
                            .stride = d->stride,
                            .pad_low = dilated + d->pad_low - kernel,
                            .pad_high = dilated + d->pad_high - kernel,
                            .lhs_dilate = d->rhs_dilate,
                            .rhs_dilate = d->lhs_dilate,
                            .reversal = true};
  }
  if (now <= then) return NULL;
  hlo_dim_labels *s = HS_NEW(&a->m->arena, hlo_dim_labels);
  *s = (hlo_dim_labels){.lhs_batch = l->rhs_output_feature,
                        .lhs_feature = l->rhs_input_feature,
                        .rhs_input_feature = l->lhs_feature,
                        .rhs_output_feature = l->lhs_batch,
                        .out_batch = l->out_feature,
                        .out_feature = l->out_batch,
                        .nspatial = l->nspatial,
                        .lhs_spatial = l->rhs_spatial,
                        .rhs_spatial = l->lhs_spatial,
                        .out_spatial = l->out_spatial};
  hlo_instr *c = with_window(a, i, pass_alg_reverse(a, Y, n, reverse), X, v);
  hlo_set_attr_ptr(c, HLO_ATTR_DIM_LABELS, s);
  hlo_ints prec = hlo_attr_ints(i, HLO_ATTR_OPERAND_PRECISION);
  if (prec.n == 2)
    hlo_set_attr_ints(c, HLO_ATTR_OPERAND_PRECISION, 2, (i64[]){prec.v[1], prec.v[0]});
  return c;
}

// ---- convolutions that are dots or products -----------------------------------------------------
// Every window one element, one after another: neither stride nor padding nor dilation of the input
static bool point_by_point(const hlo_instr *i, bool window_dilation) {
  const hlo_window *w = window_of(i);
  for (u32 k = 0; k < w->n; k++)
    if (w->v[k].stride != 1 || w->v[k].pad_low || w->v[k].pad_high || w->v[k].lhs_dilate != 1 ||
        (window_dilation && w->v[k].rhs_dilate != 1))
      return false;
  return true;
}

static u32 position(const hlo_shape *s, i64 dim) {
  u32 k = 0;
  while (s->layout->minor_to_major[k] != dim) k++;
  return k;
}

// A 1x1 convolution is a dot of [everything else, features] and the kernel, where the layouts
// already say so
ALG_RULE(conv_to_dot) {
  if (!a->conv_simplification || !a->layout_sensitive || !plain(i) || groups(i) != 1 ||
      !point_by_point(i, false))
    return NULL;
  const hlo_dim_labels *l = labels_of(i);
  const hlo_shape *in = X->shape, *filter = Y->shape, *out = i->shape;
  if (!in->elements || !filter->elements) return NULL;  // conv_empty leaves some
  if (!pass_plain_layout(in) || !pass_plain_layout(filter) || !pass_plain_layout(out)) return NULL;
  for (u32 k = 0; k < l->nspatial; k++)
    if (filter->dims[l->rhs_spatial[k]] != 1) return NULL;
  if (in->layout != out->layout || in->layout->minor_to_major[0] != l->lhs_feature ||
      out->layout->minor_to_major[0] != l->out_feature)
    return NULL;
  if (position(filter, l->rhs_input_feature) < position(filter, l->rhs_output_feature)) return NULL;
  i64 inputs = in->dims[l->lhs_feature], outputs = filter->dims[l->rhs_output_feature],
      rows = in->elements / inputs;
  const hlo_shape *ls = pass_alg_shape(a, in->dtype, 2, (i64[]){rows, inputs}),
                  *rs = pass_alg_shape(a, filter->dtype, 2, (i64[]){inputs, outputs});
  hlo_instr *x = X, *y = Y;
  hlo_instr *v[2] = {pass_alg_add(a, HLO_BITCAST, ls, 1, &x),
                     pass_alg_add(a, HLO_BITCAST, rs, 1, &y)};
  hlo_instr *d =
      pass_alg_add(a, HLO_DOT, pass_alg_shape(a, out->dtype, 2, (i64[]){rows, outputs}), 2, v);
  hlo_set_attr_ints(d, HLO_ATTR_LHS_CONTRACTING_DIMS, 1, (i64[]){1});
  hlo_set_attr_ints(d, HLO_ATTR_RHS_CONTRACTING_DIMS, 1, (i64[]){0});
  const hlo_attr *prec = hlo_attr_get(i, HLO_ATTR_OPERAND_PRECISION);
  if (prec) hlo_set_attr(d, *prec);
  return pass_alg_add(a, HLO_BITCAST, out, 1, &d);
}

// One feature per group: input * kernel, summed over the window where that is more than one element
ALG_RULE(conv_to_multiply) {
  if (a->layout_sensitive || !plain(i) || !point_by_point(i, true)) return NULL;
  const hlo_dim_labels *l = labels_of(i);
  const hlo_shape *in = X->shape, *filter = Y->shape, *out = i->shape;
  i64 fg = hlo_attr_int(i, HLO_ATTR_FEATURE_GROUP_COUNT, 1);
  if (hlo_attr_int(i, HLO_ATTR_BATCH_GROUP_COUNT, 1) != 1 || alg_is_pred(i) ||
      !pass_alg_widens_operands(i))
    return NULL;
  if (filter->dims[l->rhs_input_feature] != 1 || in->dims[l->lhs_feature] != fg ||
      out->dims[l->out_feature] != fg)
    return NULL;
  u32 rank = out->rank, n = 0, nr = 0;
  i64 *ip = pass_alg_dims_new(a, rank), *kp = pass_alg_dims_new(a, rank),
      *sum = pass_alg_dims_new(a, rank), *map = pass_alg_dims_new(a, rank),
      *dims = pass_alg_dims_new(a, rank);
  ip[l->out_batch] = l->lhs_batch, ip[l->out_feature] = l->lhs_feature;
  kp[l->out_batch] = l->rhs_input_feature, kp[l->out_feature] = l->rhs_output_feature;
  for (u32 k = 0; k < l->nspatial; k++) {
    i64 dim = l->out_spatial[k];
    bool window = filter->dims[l->rhs_spatial[k]] != 1;
    if (window && (out->dims[dim] != 1 || window_of(i)->v[k].reversal)) return NULL;
    ip[dim] = l->lhs_spatial[k], kp[dim] = l->rhs_spatial[k];
  }
  for (u32 k = 0; k < rank; k++) {
    bool batch = k == (u32)l->out_batch;
    if (!batch && filter->dims[kp[k]] != 1) map[n] = k, dims[n++] = filter->dims[kp[k]];
    if (!batch && k != (u32)l->out_feature && filter->dims[kp[k]] != 1) sum[nr++] = k;
  }
  // the sum would be too narrow
  if (nr && alg_is_float(i) && hlo_dtype_bits(out->dtype) < 32) return NULL;
  hlo_instr *x = pass_alg_convert(a, pass_alg_transpose(a, X, ip), out->dtype);
  hlo_instr *k = pass_alg_convert(a, pass_alg_transpose(a, Y, kp), out->dtype);
  k = pass_alg_broadcast(a, pass_alg_reshape(a, k, n, dims), x->shape, n, map);
  hlo_instr *p = pass_alg_bin(a, HLO_MULTIPLY, x, k);
  if (nr == 0) return p;
  hlo_instr *r = pass_alg_reduce(a, p, pass_alg_scalar(a, out->dtype, 0), nr, sum,
                                 hlo_build_scalar_computation(a->m, HLO_ADD, out->dtype));
  return pass_alg_reshape_to(a, r, out);
}

// ---- constant factors ---------------------------------------------------------------------------
// (conv(A, K) + bias) * broadcast(C) along the output features = conv(A, K * C) + bias * C for
// constant K and C
ALG_RULE(mul_conv_add) {
  if (!a->conv_add_multiply) return NULL;
  for (u32 s = 0; s < 2; s++) {
    hlo_instr *add = hlo_operand(i, s), *b = hlo_operand(i, 1 - s);
    if (add->opcode != HLO_ADD || b->opcode != HLO_BROADCAST || b->nuses != 1) continue;
    hlo_instr *c = hlo_operand(b, 0);
    for (u32 t = 0; t < 2 && c->opcode == HLO_CONSTANT && c->shape->rank == 1; t++) {
      hlo_instr *conv = hlo_operand(add, t), *bias = hlo_operand(add, 1 - t);
      if (conv->opcode != HLO_CONVOLUTION || !plain(conv) || !alg_one_use(conv) ||
          bias->nuses != 1 || hlo_operand(conv, 1)->opcode != HLO_CONSTANT)
        continue;
      const hlo_dim_labels *l = labels_of(conv);
      hlo_instr *k = hlo_operand(conv, 1);
      if (alg_dims(b).v[0] != l->out_feature ||
          c->shape->dims[0] != k->shape->dims[l->rhs_output_feature] ||
          k->shape->dtype != c->shape->dtype)
        continue;
      hlo_instr *spread = pass_alg_broadcast(a, c, k->shape, 1, &l->rhs_output_feature), *v[2];
      v[t] = pass_alg_like(
          a, conv, conv->shape, 2,
          (hlo_instr *[]){hlo_operand(conv, 0), pass_alg_bin(a, HLO_MULTIPLY, k, spread)});
      v[1 - t] = pass_alg_bin(a, HLO_MULTIPLY, bias, b);
      return pass_alg_like(a, add, i->shape, 2, v);
    }
  }
  return NULL;
}

// The scalar constant factor of x, with the rest in *rest.
static bool scalar_factor(const hlo_instr *x, hlo_instr **rest, double *v) {
  for (u32 k = 0; x->opcode == HLO_MULTIPLY && k < 2; k++) {
    const hlo_instr *b = hlo_operand(x, k);
    *rest = hlo_operand(x, 1 - k);
    if (b->opcode == HLO_BROADCAST && hlo_operand(b, 0)->opcode == HLO_CONSTANT &&
        hlo_operand(b, 0)->shape->rank == 0 && pass_alg_splat(b, v))
      return true;
  }
  return false;
}

// How many operands of x a factor may come from: x commutes with it, and nobody else uses x.
static u32 commuting(const hlo_instr *x) {
  if (!alg_one_use(x) || hlo_is_controlled(x)) return 0;
  return x->opcode == HLO_MULTIPLY ? 2 : x->opcode == HLO_TRANSPOSE || x->opcode == HLO_RESHAPE;
}

// Takes scalar factors out of the operand `slot` of `user`, through what commutes with them;
// nothing that others use is touched.
static double take_factors(hlo_instr *user, u32 slot) {
  double product = 1, v;
  hlo_instr *x, *rest;
  while (commuting(x = hlo_operand(user, slot)) && scalar_factor(x, &rest, &v)) {
    product *= v;
    hlo_set_operand(user, slot, rest);
    hlo_remove_dead(x);
  }
  for (u32 k = 0, n = commuting(x); k < n; k++) product *= take_factors(x, k);
  return product;
}

static bool has_factor(const hlo_instr *x) {
  hlo_instr *rest;
  double v;
  u32 n = commuting(x);
  if (n && scalar_factor(x, &rest, &v)) return true;
  for (u32 k = 0; k < n; k++)
    if (has_factor(hlo_operand(x, k))) return true;
  return false;
}

// The next instruction that multiplies what becomes of x alone by a scalar, and is used itself, or
// the convolution would go with it; NULL when there is none.
static hlo_instr *factor_after(const hlo_instr *x, hlo_instr **rest, double *v) {
  while (alg_one_use(x)) {
    hlo_instr *u = x->first_use->user;
    if (hlo_is_controlled(u) ||
        (u->opcode != HLO_MULTIPLY && u->opcode != HLO_TRANSPOSE && u->opcode != HLO_RESHAPE))
      return NULL;
    if (scalar_factor(u, rest, v) && *rest == x) return u->nuses || hlo_is_root(u) ? u : NULL;
    x = u;
  }
  return NULL;
}

// Scalar factors of the larger operands of a convolution, and of its result, multiply the smallest
// of its three arrays instead
ALG_RULE(conv_scalar_factor) {
  if (!a->scalar_multiply || (i->shape->dtype != HLO_F32 && i->shape->dtype != HLO_BF16))
    return NULL;
  i64 out = i->shape->elements, l = X->shape->elements, r = Y->shape->elements;
  bool on_out = out <= HS_MIN(l, r), from_l = on_out ? out < l : r < l,
       from_r = on_out ? out < r : l < r;
  bool from_out = !on_out && out > HS_MIN(l, r);
  hlo_instr *after, *rest;
  double f = 1, v;
  if (!(from_l && has_factor(X)) && !(from_r && has_factor(Y)) &&
      !(from_out && factor_after(i, &rest, &v)))
    return NULL;
  if (!on_out && (X->shape->dtype != i->shape->dtype || Y->shape->dtype != i->shape->dtype))
    return NULL;
  if (from_l) f *= take_factors(i, 0);
  if (from_r) f *= take_factors(i, 1);
  while (from_out && (after = factor_after(i, &rest, &v)) != NULL) f *= v, hlo_replace(after, rest);
  if (on_out) {
    hlo_instr *c = pass_alg_like(a, i, i->shape, 2, (hlo_instr *[]){X, Y});
    return pass_alg_bin(a, HLO_MULTIPLY, c, pass_alg_full(a, i->shape, f));
  }
  u32 slot = l <= r ? 0 : 1;
  hlo_instr *t = hlo_operand(i, slot);
  hlo_set_operand(i, slot, pass_alg_bin(a, HLO_MULTIPLY, t, pass_alg_full(a, t->shape, f)));
  return i;
}
