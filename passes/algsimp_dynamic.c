// algsimp_dynamic.c — dynamic-slice and dynamic-update-slice: at constant places, of broadcasts and iotas, under select and add.
#include "passes/algsimp.h"

#define X hlo_operand(i, 0)
#define Y hlo_operand(i, 1)

static hlo_slice_dim *slices_new(alg *a, u32 n) { return HS_NEW_ARRAY(a->p->scratch, hlo_slice_dim, n + 1); }
static hlo_pad_dim *pads_new(alg *a, u32 n) { return HS_NEW_ARRAY(a->p->scratch, hlo_pad_dim, n + 1); }

// The indices as constants, clamped; false when one is not constant. `size` is the slice's extents.
static bool constant_start(const hlo_instr *i, u32 first, const hlo_shape *whole, const hlo_shape *part, i64 *start) {
  for (u32 k = 0; k < whole->rank; k++) {
    if (whole->dims[k] == part->dims[k]) {
      start[k] = 0;
      continue;
    }
    if (i->noperands != first + whole->rank || !pass_alg_splat_int(hlo_operand(i, first + k), &start[k])) return false;
    if (hlo_dtype_is_unsigned(hlo_operand(i, first + k)->shape->dtype) && start[k] < 0) start[k] = INT64_MAX;
    start[k] = HS_MAX(0, HS_MIN(start[k], whole->dims[k] - part->dims[k]));
  }
  return true;
}

ALG_RULE(dslice_noop) {
  (void)a;
  return hlo_shape_compatible(X->shape, i->shape) ? X : NULL;
}

ALG_RULE(dslice_constant) {
  i64 *start = pass_alg_dims_new(a, i->shape->rank);
  if (!constant_start(i, 1, X->shape, i->shape, start)) return NULL;
  hlo_slice_dim *d = slices_new(a, i->shape->rank);
  for (u32 k = 0; k < i->shape->rank; k++) d[k] = (hlo_slice_dim){start[k], start[k] + i->shape->dims[k], 1};
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
    part = pass_alg_add(a, HLO_DYNAMIC_SLICE, pass_alg_shape(a, i->shape->dtype, map.n, sizes), map.n + 1, ops);
    hlo_set_attr_ints(part, HLO_ATTR_DYNAMIC_SLICE_SIZES, map.n, sizes);
  }
  return pass_alg_broadcast(a, part, i->shape, map.n, map.v);
}

// Indices along dimensions that are taken whole are zero anyway
ALG_RULE(dslice_trivial_index) {
  if (i->noperands != 1 + i->shape->rank) return NULL;
  bool change = false;
  for (u32 k = 0; k < i->shape->rank; k++) {
    hlo_instr *x = hlo_operand(i, 1 + k);
    if (X->shape->dims[k] != i->shape->dims[k] || pass_alg_all(x, 0) || x->opcode == HLO_CONSTANT) continue;
    hlo_set_operand(i, 1 + k, pass_alg_scalar_int(a, x->shape->dtype, 0));
    change = true;
  }
  return change ? i : NULL;
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
  if (s->opcode != HLO_DYNAMIC_SLICE || hlo_operand(s, 0) != X || s->noperands != i->noperands - 1) return NULL;
  for (u32 k = 1; k < s->noperands; k++)
    if (!pass_alg_same(hlo_operand(s, k), hlo_operand(i, k + 1))) return NULL;
  return X;
}

// Overwriting one constant place of a broadcast scalar: padding with that scalar
ALG_RULE(dus_of_splat) {
  if (X->opcode != HLO_BROADCAST || hlo_operand(X, 0)->shape->rank != 0) return NULL;
  i64 *start = pass_alg_dims_new(a, i->shape->rank);
  if (!constant_start(i, 2, i->shape, Y->shape, start)) return NULL;
  hlo_pad_dim *d = pads_new(a, i->shape->rank);
  for (u32 k = 0; k < i->shape->rank; k++) d[k] = (hlo_pad_dim){start[k], i->shape->dims[k] - Y->shape->dims[k] - start[k], 0};
  return pass_alg_pad(a, Y, hlo_operand(X, 0), d);
}

// One element of an iota, or of a constant that counts in equal steps, is its clamped index times the step
ALG_RULE(dslice_iota) {
  hlo_instr *x = X;
  if (x->shape->rank != 1 || i->shape->elements != 1 || !alg_is_int(x) || i->noperands != 2) return NULL;
  i64 n = x->shape->dims[0], step = 1;
  if (x->opcode == HLO_CONSTANT) {
    const hlo_literal *l = hlo_constant_value(x);
    if (!l || l->elided || n < 2 || hlo_literal_i64(l, 0) != 0) return NULL;
    step = hlo_literal_i64(l, 1);
    for (i64 k = 2; k < n; k++)
      if (hlo_literal_i64(l, k) != k * step) return NULL;
    if (step == 0) return NULL;
  } else if (x->opcode != HLO_IOTA) {
    return NULL;
  }
  hlo_instr *at = Y;
  hlo_dtype t = at->shape->dtype;
  if (hlo_dtype_bits(t) < 64 && n - 1 >= (i64)1 << (hlo_dtype_bits(t) - 1)) return NULL;
  hlo_instr *c[3] = {pass_alg_scalar_int(a, t, 0), at, pass_alg_scalar_int(a, t, n - 1)};
  hlo_instr *v = pass_alg_convert(a, pass_alg_add(a, HLO_CLAMP, at->shape, 3, c), x->shape->dtype);
  if (step != 1) v = pass_alg_bin(a, HLO_MULTIPLY, v, pass_alg_scalar_int(a, x->shape->dtype, step));
  return pass_alg_reshape_to(a, v, i->shape);
}

static hlo_instr *slice_at(alg *a, hlo_instr *of, const hlo_instr *dus) {
  const hlo_shape *s = hlo_operand(dus, 1)->shape;
  hlo_instr **ops = HS_NEW_ARRAY(a->p->scratch, hlo_instr *, dus->noperands);
  ops[0] = of;
  for (u32 k = 2; k < dus->noperands; k++) ops[k - 1] = hlo_operand(dus, k);
  hlo_instr *r = pass_alg_add(a, HLO_DYNAMIC_SLICE, hlo_shape_with_dtype(a->m->ctx, s, of->shape->dtype), dus->noperands - 1, ops);
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
  if (d->opcode != HLO_DYNAMIC_UPDATE_SLICE || hlo_operand(d, 0) != base || !alg_one_use(d)) return NULL;
  hlo_instr *u = hlo_operand(d, 1);
  hlo_instr *q = p->shape->rank == 0 && i->shape->rank != 0 ? p : slice_at(a, p, d), *old = slice_at(a, base, d);
  return update_at(a, base, on_true ? pass_alg_select(a, q, u, old) : pass_alg_select(a, q, old, u), d);
}

// A + update(zeros, u) adds within the window only
ALG_RULE(add_dus) {
  for (u32 k = 0; k < 2; k++) {
    hlo_instr *d = hlo_operand(i, k), *v = hlo_operand(i, 1 - k);
    if (d->opcode != HLO_DYNAMIC_UPDATE_SLICE || !alg_one_use(d) || !pass_alg_all(hlo_operand(d, 0), 0)) continue;
    return update_at(a, v, pass_alg_bin(a, HLO_ADD, slice_at(a, v, d), hlo_operand(d, 1)), d);
  }
  return NULL;
}
