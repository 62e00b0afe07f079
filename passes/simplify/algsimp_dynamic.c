// algsimp_dynamic.c — dynamic-slice and dynamic-update-slice: with constant indices, of
// broadcasts and iotas, as operands of select and add.
#include "passes/simplify/algsimp.h"

#define X hlo_operand(i, 0)
#define Y hlo_operand(i, 1)

static hlo_slice_dim *slices_new(alg *a, u32 n) {
  return HS_NEW_ARRAY(a->p->scratch, hlo_slice_dim, n + 1);
}
static hlo_pad_dim *pads_new(alg *a, u32 n) {
  return HS_NEW_ARRAY(a->p->scratch, hlo_pad_dim, n + 1);
}

// The indices as constants, clamped; false when one is not constant. `size` is the slice's extents.
static bool constant_start(const hlo_instr *i, u32 first, const hlo_shape *whole,
                           const hlo_shape *part, i64 *start) {
  for (u32 k = 0; k < whole->rank; k++) {
    if (whole->dims[k] == part->dims[k]) {
      start[k] = 0;
      continue;
    }
    if (i->noperands != first + whole->rank ||
        !pass_alg_splat_int(hlo_operand(i, first + k), &start[k]))
      return false;
    if (hlo_dtype_is_unsigned(hlo_operand(i, first + k)->shape->dtype) && start[k] < 0)
      start[k] = INT64_MAX;
    start[k] = HS_MAX(0, HS_MIN(start[k], whole->dims[k] - part->dims[k]));
  }
  return true;
}

// A slice that an asynchronous operation does stays a slice, and so does an update
ALG_RULE(async_piece) {
  a->stop = alg_in_async(a, i);
  return NULL;
}

ALG_RULE(dslice_noop) {
  (void)a;
  return hlo_shape_compatible(X->shape, i->shape) ? X : NULL;
}

ALG_RULE(dslice_constant) {
  if (X->opcode == HLO_CONSTANT) return NULL;  // constant folding's
  if (a->keep_dynamic_slices || (a->layout_sensitive && X->shape->layout && i->shape->layout &&
                                 X->shape->layout->memory_space != i->shape->layout->memory_space))
    return NULL;
  i64 *start = pass_alg_dims_new(a, i->shape->rank);
  if (!constant_start(i, 1, X->shape, i->shape, start)) return NULL;
  hlo_slice_dim *d = slices_new(a, i->shape->rank);
  for (u32 k = 0; k < i->shape->rank; k++)
    d[k] = (hlo_slice_dim){start[k], start[k] + i->shape->dims[k], 1};
  return pass_alg_slice(a, X, d);
}

// dynamic-slice(broadcast(A)): slice A along its own dimensions only
ALG_RULE(dslice_broadcast) {
  if (X->opcode != HLO_BROADCAST || i->noperands != 1 + i->shape->rank) return NULL;
  hlo_ints map = alg_dims(X);
  hlo_instr *src = hlo_operand(X, 0);
  i64 *sizes = pass_alg_dims_new(a, map.n);
  hlo_instr **ops = HS_NEW_ARRAY(a->p->scratch, hlo_instr *, map.n + 1);
  ops[0] = src;
  bool whole = true;
  for (u32 k = 0; k < map.n; k++) {
    ops[k + 1] = hlo_operand(i, 1 + (u32)map.v[k]);
    sizes[k] = i->shape->dims[map.v[k]];
    whole &= sizes[k] == src->shape->dims[k];
  }
  hlo_instr *part = src;
  if (!whole) {
    part = pass_alg_add(a, HLO_DYNAMIC_SLICE, pass_alg_shape(a, i->shape->dtype, map.n, sizes),
                        map.n + 1, ops);
    hlo_set_attr_ints(part, HLO_ATTR_DYNAMIC_SLICE_SIZES, map.n, sizes);
  }
  return pass_alg_broadcast(a, part, i->shape, map.n, map.v);
}

// Indices along dimensions that are taken, or written, whole are zero anyway
static hlo_instr *trivial_indices(alg *a, hlo_instr *i, u32 first, const hlo_shape *part) {
  if (i->noperands != first + part->rank) return NULL;
  bool change = false;
  for (u32 k = 0; k < part->rank; k++) {
    hlo_instr *x = hlo_operand(i, first + k);
    if (X->shape->dims[k] != part->dims[k] || pass_alg_all(x, 0)) continue;
    hlo_set_operand(i, first + k, pass_alg_scalar_int(a, x->shape->dtype, 0));
    change = true;
  }
  return change ? i : NULL;
}

ALG_RULE(dslice_trivial_index) { return trivial_indices(a, i, 1, i->shape); }
ALG_RULE(dus_trivial_index) { return trivial_indices(a, i, 2, Y->shape); }

// dynamic-slice(reshape(A)) = reshape(dynamic-slice(A)) when the reshape only adds or drops extents
// of 1
ALG_RULE(dslice_reshape) {
  if (a->layout_sensitive || X->opcode != HLO_RESHAPE || i->noperands != 1 + i->shape->rank)
    return NULL;
  hlo_instr *src = hlo_operand(X, 0);
  const hlo_shape *from = src->shape, *to = X->shape;
  hlo_instr **start = HS_NEW_ARRAY(a->p->scratch, hlo_instr *, from->rank + 1), *zero = NULL;
  i64 *sizes = pass_alg_dims_new(a, from->rank), *at = pass_alg_dims_new(a, from->rank);
  u32 t = 0;
  for (u32 f = 0; f < from->rank; f++) {
    at[f] = -1;
    if (from->dims[f] == 1) continue;
    while (t < to->rank && to->dims[t] == 1) t++;
    if (t == to->rank || to->dims[t] != from->dims[f]) return NULL;
    at[f] = t++;
  }
  for (; t < to->rank; t++)
    if (to->dims[t] != 1) return NULL;
  for (u32 f = 0; f < from->rank; f++) {
    if (at[f] < 0 && !zero) zero = pass_alg_scalar_int(a, Y->shape->dtype, 0);
    start[f] = at[f] < 0 ? zero : hlo_operand(i, 1 + (u32)at[f]);
    sizes[f] = at[f] < 0 ? 1 : i->shape->dims[at[f]];
  }
  return pass_alg_reshape_to(a, pass_alg_dslice(a, src, start, sizes), i->shape);
}

// dynamic-slice(transpose(A)) = transpose(dynamic-slice(A))
ALG_RULE(dslice_transpose) {
  if (a->layout_sensitive || X->opcode != HLO_TRANSPOSE || i->noperands != 1 + i->shape->rank)
    return NULL;
  hlo_ints p = alg_dims(X);
  hlo_instr **start = HS_NEW_ARRAY(a->p->scratch, hlo_instr *, p.n + 1);
  i64 *sizes = pass_alg_dims_new(a, p.n);
  for (u32 k = 0; k < p.n; k++)
    start[p.v[k]] = hlo_operand(i, 1 + k), sizes[p.v[k]] = i->shape->dims[k];
  return pass_alg_transpose(a, pass_alg_dslice(a, hlo_operand(X, 0), start, sizes), p.v);
}

// Of a slice within another: how far each index goes, of which both types must hold the sum.
static i64 reach(const hlo_instr *x, i64 most) {
  return pass_alg_all(x, 0) ? 0 : HS_MIN(most, pass_alg_top_of(x->shape->dtype));
}
static bool holds_sum(const hlo_instr *outer, i64 room, const hlo_instr *inner, i64 most) {
  return hs_add_sat_i64(reach(outer, room), reach(inner, most)) <=
         pass_alg_top_of(outer->shape->dtype);
}

// clamp(0, x, most), where x can be more than that
static hlo_instr *clamped(alg *a, hlo_instr *x, i64 most) {
  if (pass_alg_all(x, 0)) return x;
  hlo_dtype t = x->shape->dtype;
  hlo_instr *ops[] = {pass_alg_scalar_int(a, t, 0), x,
                      pass_alg_scalar_int(a, t, HS_MIN(most, pass_alg_top_of(t)))};
  return pass_alg_add(a, HLO_CLAMP, x->shape, 3, ops);
}

// An array and what is cut out of it: an index goes as far as it is larger.
typedef struct cut {
  const hlo_shape *of, *to;
} cut;
static i64 room(cut c, u32 k) { return c.of->dims[k] - c.to->dims[k]; }

// The indices of a slice within another, operands of i and `in` from `at` on, each of which is
// clamped for itself: their sums, in the types of i's. False: a type does not hold its sum.
static bool index_sums(alg *a, const hlo_instr *i, cut outer, const hlo_instr *in, cut inner,
                       u32 at, hlo_instr **out) {
  u32 n = i->shape->rank;
  for (u32 k = 0; k < n; k++)
    if (!holds_sum(hlo_operand(i, at + k), room(outer, k), hlo_operand(in, at + k), room(inner, k)))
      return false;
  for (u32 k = 0; k < n; k++) {
    hlo_instr *x = clamped(a, hlo_operand(i, at + k), room(outer, k)),
              *y = clamped(a, hlo_operand(in, at + k), room(inner, k));
    out[k] = pass_alg_bin(a, HLO_ADD, x, pass_alg_convert(a, y, x->shape->dtype));
  }
  return true;
}

// dynamic-slice(dynamic-slice(A, i), j): one slice at i + j, where i is clamped for itself, and so
// is j
ALG_RULE(dslice_dslice) {
  hlo_instr *in = X;
  u32 n = i->shape->rank;
  if (in->opcode != HLO_DYNAMIC_SLICE || i->noperands != 1 + n || in->noperands != 1 + n)
    return NULL;
  const hlo_shape *whole = hlo_operand(in, 0)->shape;
  hlo_instr **ops = HS_NEW_ARRAY(a->p->scratch, hlo_instr *, n + 1);
  ops[0] = hlo_operand(in, 0);
  if (!index_sums(a, i, (cut){in->shape, i->shape}, in, (cut){whole, in->shape}, 1, ops + 1))
    return NULL;
  return pass_alg_like(a, i, i->shape, n + 1, ops);
}

// update(A, update(dynamic-slice(A, i), u, j), i): one update of the same window
ALG_RULE(dus_dus) {
  hlo_instr *in = Y;
  u32 n = i->shape->rank;
  if (in->opcode != HLO_DYNAMIC_UPDATE_SLICE || i->noperands != 2 + n || in->noperands != 2 + n)
    return NULL;
  hlo_instr *s = hlo_operand(in, 0), *u = hlo_operand(in, 1);
  if (s->opcode != HLO_DYNAMIC_SLICE || hlo_operand(s, 0) != X || s->noperands != 1 + n)
    return NULL;
  for (u32 k = 0; k < n; k++)
    if (hlo_operand(s, 1 + k) != hlo_operand(i, 2 + k)) return NULL;
  hlo_instr **ops = HS_NEW_ARRAY(a->p->scratch, hlo_instr *, n + 2);
  ops[0] = X, ops[1] = u;
  if (!index_sums(a, i, (cut){X->shape, in->shape}, in, (cut){in->shape, u->shape}, 2, ops + 2))
    return NULL;
  return pass_alg_like(a, i, i->shape, n + 2, ops);
}

ALG_RULE(dus_whole) {
  (void)a;
  return hlo_shape_compatible(Y->shape, i->shape) ? Y : NULL;
}

ALG_RULE(dus_empty) {
  (void)a;
  return Y->shape->elements == 0 ? X : NULL;
}

// Writing back what was read from the same place
ALG_RULE(dus_of_dslice) {
  (void)a;
  hlo_instr *s = Y;
  if (s->opcode != HLO_DYNAMIC_SLICE || hlo_operand(s, 0) != X || s->noperands != i->noperands - 1)
    return NULL;
  for (u32 k = 1; k < s->noperands; k++)
    if (!pass_alg_same(hlo_operand(s, k), hlo_operand(i, k + 1))) return NULL;
  return X;
}

// An update of a broadcast scalar at constant indices is a pad with that scalar
ALG_RULE(dus_of_splat) {
  if (!a->dus_to_pad) return NULL;
  // an update on its way to the host stays one
  hlo_instr *u = Y;
  while (u->opcode == HLO_RESHAPE || u->opcode == HLO_BITCAST || u->opcode == HLO_COPY)
    u = hlo_operand(u, 0);
  if (hs_str_eq(hlo_attr_str(u, HLO_ATTR_CUSTOM_CALL_TARGET), HS_STR("MoveToHost"))) return NULL;
  if (X->opcode != HLO_BROADCAST || hlo_operand(X, 0)->shape->rank != 0) return NULL;
  i64 *start = pass_alg_dims_new(a, i->shape->rank);
  if (!constant_start(i, 2, i->shape, Y->shape, start)) return NULL;
  hlo_pad_dim *d = pads_new(a, i->shape->rank);
  for (u32 k = 0; k < i->shape->rank; k++)
    d[k] = (hlo_pad_dim){start[k], i->shape->dims[k] - Y->shape->dims[k] - start[k], 0};
  return pass_alg_pad(a, Y, hlo_operand(X, 0), d);
}

// One element of an iota, of its multiple, or of a constant that counts in equal steps, is its
// clamped index times the step
ALG_RULE(dslice_iota) {
  hlo_instr *x = X, *times = NULL;
  if (x->opcode == HLO_MULTIPLY && hlo_operand(x, 1)->opcode == HLO_BROADCAST &&
      hlo_operand(hlo_operand(x, 1), 0)->shape->rank == 0 && hlo_operand(x, 0)->opcode == HLO_IOTA)
    times = hlo_operand(hlo_operand(x, 1), 0), x = hlo_operand(x, 0);
  if (x->shape->rank != 1 || i->shape->elements != 1 || !alg_is_int(x) || i->noperands != 2)
    return NULL;
  i64 n = x->shape->dims[0], step = 1;
  if (x->opcode == HLO_CONSTANT) {
    const hlo_literal *l = hlo_constant_value(x);
    if (!l || l->elided || n < 2 || hlo_literal_i64(l, 0) != 0) return NULL;
    step = pass_alg_multiples(l);
    if (step == 0) return NULL;
  } else if (x->opcode != HLO_IOTA) {
    return NULL;
  }
  hlo_instr *at = Y;
  hlo_dtype t = at->shape->dtype;
  if (hlo_dtype_bits(t) < 64 && n - 1 >= (i64)1 << (hlo_dtype_bits(t) - 1)) return NULL;
  hlo_instr *c[3] = {pass_alg_scalar_int(a, t, 0), at, pass_alg_scalar_int(a, t, n - 1)};
  hlo_instr *v = pass_alg_convert(a, pass_alg_add(a, HLO_CLAMP, at->shape, 3, c), x->shape->dtype);
  if (times) v = pass_alg_bin(a, HLO_MULTIPLY, v, times);
  if (step != 1)
    v = pass_alg_bin(a, HLO_MULTIPLY, v, pass_alg_scalar_int(a, x->shape->dtype, step));
  return pass_alg_reshape_to(a, v, i->shape);
}

static hlo_instr *slice_at(alg *a, hlo_instr *of, const hlo_instr *dus) {
  const hlo_shape *s = hlo_operand(dus, 1)->shape;
  hlo_instr **ops = HS_NEW_ARRAY(a->p->scratch, hlo_instr *, dus->noperands);
  ops[0] = of;
  for (u32 k = 2; k < dus->noperands; k++) ops[k - 1] = hlo_operand(dus, k);
  hlo_instr *r =
      pass_alg_add(a, HLO_DYNAMIC_SLICE, hlo_shape_with_dtype(a->m->ctx, s, of->shape->dtype),
                   dus->noperands - 1, ops);
  hlo_set_attr_ints(r, HLO_ATTR_DYNAMIC_SLICE_SIZES, s->rank, s->dims);
  return r;
}

static hlo_instr *update_at(alg *a, hlo_instr *base, hlo_instr *update, const hlo_instr *dus) {
  hlo_instr **ops = HS_NEW_ARRAY(a->p->scratch, hlo_instr *, dus->noperands);
  ops[0] = base, ops[1] = update;
  for (u32 k = 2; k < dus->noperands; k++) ops[k] = hlo_operand(dus, k);
  return pass_alg_add(a, HLO_DYNAMIC_UPDATE_SLICE, base->shape, dus->noperands, ops);
}

// select(p, update(A, u), A) chooses within the updated window only
ALG_RULE(select_dus) {
  hlo_instr *p = X, *t = hlo_operand(i, 1), *f = hlo_operand(i, 2);
  bool on_true = t->opcode == HLO_DYNAMIC_UPDATE_SLICE && hlo_operand(t, 0) == f && alg_one_use(t);
  hlo_instr *d = on_true ? t : f, *base = on_true ? f : t;
  if (d->opcode != HLO_DYNAMIC_UPDATE_SLICE || hlo_operand(d, 0) != base || !alg_one_use(d))
    return NULL;
  hlo_instr *u = hlo_operand(d, 1);
  hlo_instr *q = p->shape->rank == 0 && i->shape->rank != 0 ? p : slice_at(a, p, d),
            *old = slice_at(a, base, d);
  return update_at(a, base, on_true ? pass_alg_select(a, q, u, old) : pass_alg_select(a, q, old, u),
                   d);
}

// A + update(zeros, u) adds within the window only
ALG_RULE(add_dus) {
  for (u32 k = 0; k < 2; k++) {
    hlo_instr *d = hlo_operand(i, k), *v = hlo_operand(i, 1 - k);
    if (d->opcode != HLO_DYNAMIC_UPDATE_SLICE || !pass_alg_all(hlo_operand(d, 0), 0)) continue;
    return update_at(a, v, pass_alg_bin(a, HLO_ADD, slice_at(a, v, d), hlo_operand(d, 1)), d);
  }
  return NULL;
}
