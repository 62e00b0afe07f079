// algsimp_slice.c — slice, concatenate and pad.
#include "passes/simplify/algsimp.h"

#define X hlo_operand(i, 0)
#define Y hlo_operand(i, 1)

static const hlo_slice_dim *slice_dims(const hlo_instr *i) {
  return ((const hlo_slices *)hlo_attr_ptr(i, HLO_ATTR_SLICE))->v;
}
static const hlo_pad_dim *pad_dims(const hlo_instr *i) {
  return ((const hlo_padding *)hlo_attr_ptr(i, HLO_ATTR_PADDING))->v;
}
static hlo_slice_dim *slices_new(alg *a, u32 n) {
  return HS_NEW_ARRAY(a->p->scratch, hlo_slice_dim, n + 1);
}
static hlo_pad_dim *pads_new(alg *a, u32 n) {
  return HS_NEW_ARRAY(a->p->scratch, hlo_pad_dim, n + 1);
}

// ---- slice --------------------------------------------------------------------------------------
ALG_RULE(slice_noop) {
  (void)a;
  return hlo_shape_compatible(X->shape, i->shape) ? X : NULL;
}

ALG_RULE(slice_slice) {
  if (X->opcode != HLO_SLICE) return NULL;
  const hlo_slice_dim *o = slice_dims(i), *n = slice_dims(X);
  hlo_slice_dim *d = slices_new(a, i->shape->rank);
  for (u32 k = 0; k < i->shape->rank; k++) {
    i64 count = i->shape->dims[k];
    if (!hs_mul_ok(o[k].start, n[k].stride, &d[k].start) ||
        !hs_add_ok(n[k].start, d[k].start, &d[k].start) ||
        !hs_mul_ok(n[k].stride, o[k].stride, &d[k].stride))
      return NULL;
    d[k].limit = count > 0 ? d[k].start + (count - 1) * d[k].stride + 1 : d[k].start;
  }
  return pass_alg_slice(a, hlo_operand(X, 0), d);
}

// slice(broadcast(A)): slice A along its own dimensions, then broadcast to the smaller shape
ALG_RULE(slice_broadcast) {
  if (X->opcode != HLO_BROADCAST) return NULL;
  hlo_ints map = alg_dims(X);
  const hlo_slice_dim *s = slice_dims(i);
  hlo_instr *src = hlo_operand(X, 0);
  hlo_slice_dim *d = slices_new(a, map.n);
  for (u32 k = 0; k < map.n; k++) d[k] = s[map.v[k]];
  return pass_alg_broadcast(a, pass_alg_slice(a, src, d), i->shape, map.n, map.v);
}

// slice(concatenate(..)) that stays within one operand, or within a run of them
ALG_RULE(slice_concat) {
  if (X->opcode != HLO_CONCATENATE || i->shape->elements == 0) return NULL;
  i64 dim = alg_dims(X).v[0], at = 0, from = 0;
  const hlo_slice_dim *s = slice_dims(i);
  u32 first = 0, last = 0;  // operands first..last hold what is taken
  for (u32 k = 0; k < X->noperands; k++) {
    i64 len = hlo_operand(X, k)->shape->dims[dim];
    if (at <= s[dim].start) first = k, from = at;
    if (at < s[dim].limit) last = k;
    at += len;
  }
  if (last - first + 1 == X->noperands) return NULL;
  hlo_slice_dim *d = slices_new(a, i->shape->rank);
  memcpy(d, s, i->shape->rank * sizeof *d);
  d[dim].start -= from, d[dim].limit -= from;
  hlo_instr **parts = HS_NEW_ARRAY(a->p->scratch, hlo_instr *, last - first + 1);
  for (u32 k = first; k <= last; k++) parts[k - first] = hlo_operand(X, k);
  return pass_alg_slice(a, pass_alg_concat(a, last - first + 1, parts, dim), d);
}

// A stride that steps past the end says nothing
ALG_RULE(slice_stride) {
  const hlo_slice_dim *s = slice_dims(i);
  hlo_slice_dim *d = slices_new(a, i->shape->rank);
  bool any = false;
  for (u32 k = 0; k < i->shape->rank; k++) {
    d[k] = s[k];
    if (s[k].stride == 1 || i->shape->dims[k] != 1) continue;
    d[k] = (hlo_slice_dim){s[k].start, s[k].start + 1, 1};
    any = true;
  }
  if (!any) return NULL;
  hlo_slices *now = HS_NEW(&a->m->arena, hlo_slices);
  *now = (hlo_slices){i->shape->rank, hs_arena_dup(&a->m->arena, d, i->shape->rank * sizeof *d)};
  hlo_set_attr_ptr(i, HLO_ATTR_SLICE, now);
  return i;
}

// slice(pad(A, v)): all of it padding, or all of it A
ALG_RULE(slice_pad) {
  if (X->opcode != HLO_PAD) return NULL;
  const hlo_slice_dim *s = slice_dims(i);
  const hlo_pad_dim *p = pad_dims(X);
  hlo_instr *src = hlo_operand(X, 0);
  bool inside = true, undoes = hlo_shape_compatible(src->shape, i->shape);
  hlo_slice_dim *d = slices_new(a, i->shape->rank);
  for (u32 k = 0; k < i->shape->rank; k++) {
    undoes &= s[k].start == p[k].low && s[k].stride - 1 == p[k].interior;
    i64 e = src->shape->dims[k], end;
    if (!hs_mul_ok(HS_MAX(e - 1, 0), p[k].interior, &end) || !hs_add_ok(end, e, &end) ||
        !hs_add_ok(end, p[k].low, &end))
      return NULL;
    if (i->shape->dims[k] > 0 && (s[k].start >= end || s[k].limit <= p[k].low))
      return pass_alg_spread(a, hlo_operand(X, 1), i->shape);
    inside &= p[k].interior == 0 && s[k].start >= p[k].low && s[k].limit <= end;
    if (inside) d[k] = (hlo_slice_dim){s[k].start - p[k].low, s[k].limit - p[k].low, s[k].stride};
  }
  return undoes ? src : inside ? pass_alg_slice(a, src, d) : NULL;
}

// slice(reshape(A)) = reshape(slice(A)) when the reshape only adds or drops extents of 1
ALG_RULE(slice_reshape) {
  if (a->layout_sensitive || X->opcode != HLO_RESHAPE || !alg_one_use(X)) return NULL;
  hlo_instr *src = hlo_operand(X, 0);
  const hlo_shape *from = src->shape, *to = X->shape;
  const hlo_slice_dim *s = slice_dims(i);
  hlo_slice_dim *d = slices_new(a, from->rank);
  u32 f = 0, t = 0;
  for (;;) {
    while (f < from->rank && from->dims[f] == 1) d[f++] = (hlo_slice_dim){0, 1, 1};
    while (t < to->rank && to->dims[t] == 1 && s[t].start == 0 && s[t].limit == 1) t++;
    if (f == from->rank || t == to->rank) break;
    if (from->dims[f] != to->dims[t]) return NULL;
    d[f++] = s[t++];
  }
  if (f != from->rank || t != to->rank) return NULL;
  return pass_alg_reshape_to(a, pass_alg_slice(a, src, d), i->shape);
}

// slice(reshape(A)) along the first dimension that takes whole rows of A
ALG_RULE(slice_reshape_rows) {
  if (a->layout_sensitive || X->opcode != HLO_RESHAPE) return NULL;
  hlo_instr *src = hlo_operand(X, 0);
  const hlo_shape *from = src->shape, *to = X->shape;
  const hlo_slice_dim *s = slice_dims(i);
  if (from->rank == 0 || to->rank == 0 || to->elements == 0 || s[0].stride != 1) return NULL;
  for (u32 k = 1; k < to->rank; k++)
    if (i->shape->dims[k] != to->dims[k]) return NULL;
  i64 row_from = from->elements / from->dims[0], row_to = to->elements / to->dims[0];
  // elements before what is taken, and up to its end: both within those of A
  i64 first = s[0].start * row_to, end = s[0].limit * row_to;
  if (first % row_from || end % row_from) return NULL;
  hlo_slice_dim *d = slices_new(a, from->rank);
  for (u32 k = 0; k < from->rank; k++) d[k] = (hlo_slice_dim){0, from->dims[k], 1};
  d[0].start = first / row_from, d[0].limit = end / row_from;
  return pass_alg_reshape_to(a, pass_alg_slice(a, src, d), i->shape);
}

// slice(iota) across other dimensions is a smaller iota
ALG_RULE(slice_iota) {
  if (X->opcode != HLO_IOTA) return NULL;
  i64 dim = hlo_attr_int(X, HLO_ATTR_IOTA_DIMENSION, 0);
  const hlo_slice_dim *s = slice_dims(i);
  if (s[dim].start != 0 || (s[dim].stride != 1 && i->shape->dims[dim] > 1)) return NULL;
  hlo_instr *n = pass_alg_add(a, HLO_IOTA, i->shape, 0, NULL);
  hlo_set_attr_int(n, HLO_ATTR_IOTA_DIMENSION, dim);
  return n;
}

// slice(reverse(A)) = reverse(slice(A)), counting from the other end
ALG_RULE(slice_reverse) {
  if (X->opcode != HLO_REVERSE) return NULL;
  hlo_instr *src = hlo_operand(X, 0);
  hlo_ints r = alg_dims(X);
  const hlo_slice_dim *s = slice_dims(i);
  hlo_slice_dim *d = slices_new(a, i->shape->rank);
  for (u32 k = 0; k < i->shape->rank; k++) {
    d[k] = s[k];
    if (!pass_alg_has(r, k)) continue;
    i64 e = src->shape->dims[k], count = i->shape->dims[k];
    i64 last = s[k].start + (count > 0 ? (count - 1) * s[k].stride : 0);
    d[k].start = count > 0 ? e - 1 - last : 0;
    d[k].limit = count > 0 ? e - s[k].start : 0;
  }
  return pass_alg_reverse(a, pass_alg_slice(a, src, d), r.n, r.v);
}

// ---- concatenate --------------------------------------------------------------------------------
ALG_RULE(concat_single) {
  (void)a;
  return i->noperands == 1 ? X : NULL;
}

// Operands without elements go; nested concatenations along the same dimension open up
ALG_RULE(concat_flatten) {
  // a value concatenated with itself again and again doubles each time
  enum { MOST_PARTS = 4096 };
  i64 dim = alg_dims(i).v[0];
  u32 n = 0, total = 0;
  bool empty = false, nested = false;
  for (u32 k = 0; k < i->noperands; k++) {
    const hlo_instr *o = hlo_operand(i, k);
    bool opens = o->opcode == HLO_CONCATENATE && alg_dims(o).v[0] == dim;
    empty |= o->shape->elements == 0;
    nested |= opens;
    total += opens ? o->noperands : 1;
  }
  nested &= !empty && !a->layout_sensitive && total <= MOST_PARTS;
  if (!empty && !nested) return NULL;
  hlo_instr **parts = HS_NEW_ARRAY(a->p->scratch, hlo_instr *, HS_MAX(total, i->noperands));
  for (u32 k = 0; k < i->noperands; k++) {
    hlo_instr *o = hlo_operand(i, k);
    bool opens = nested && o->opcode == HLO_CONCATENATE && alg_dims(o).v[0] == dim;
    for (u32 j = 0; opens && j < o->noperands; j++) parts[n++] = hlo_operand(o, j);
    if (!opens && o->shape->elements != 0) parts[n++] = o;
  }
  if (n == 0) return hlo_shape_compatible(X->shape, i->shape) ? X : NULL;
  hlo_instr *c = pass_alg_concat(a, n, parts, dim);
  if (n > 1) hlo_set_shape(c, i->shape);
  return c;
}

// Two neighbours that are adjacent slices of one array
static bool adjacent(const hlo_instr *x, const hlo_instr *y, i64 dim) {
  if (x->opcode != HLO_SLICE || y->opcode != HLO_SLICE || hlo_operand(x, 0) != hlo_operand(y, 0))
    return false;
  const hlo_slice_dim *p = slice_dims(x), *q = slice_dims(y);
  for (u32 k = 0; k < x->shape->rank; k++) {
    if (p[k].stride != 1 || q[k].stride != 1) return false;
    if (k == dim ? p[k].limit != q[k].start : p[k].start != q[k].start || p[k].limit != q[k].limit)
      return false;
  }
  return true;
}

ALG_RULE(concat_slices) {
  i64 dim = alg_dims(i).v[0];
  hlo_instr **parts = HS_NEW_ARRAY(a->p->scratch, hlo_instr *, i->noperands);
  u32 n = 0, k = 0;
  bool any = false;
  for (u32 j = 1; j < i->noperands && !a->layout_sensitive; j++)
    any |= adjacent(hlo_operand(i, j - 1), hlo_operand(i, j), dim);
  if (!any) return NULL;
  while (k < i->noperands) {
    u32 e = k + 1;
    while (e < i->noperands && adjacent(hlo_operand(i, e - 1), hlo_operand(i, e), dim)) e++;
    parts[n] = hlo_operand(i, k);
    if (e > k + 1) {
      hlo_slice_dim *d = slices_new(a, i->shape->rank);
      memcpy(d, slice_dims(parts[n]), i->shape->rank * sizeof *d);
      d[dim].limit = slice_dims(hlo_operand(i, e - 1))[dim].limit;
      parts[n] = pass_alg_slice(a, hlo_operand(parts[n], 0), d);
    }
    n++, k = e;
  }
  return pass_alg_concat(a, n, parts, dim);
}

// A concatenation of one operand with itself along an extent of 1 repeats it: a broadcast
ALG_RULE(concat_same) {
  if (a->layout_sensitive) return NULL;
  i64 dim = alg_dims(i).v[0];
  if (i->noperands < 2 || X->shape->dims[dim] != 1) return NULL;
  for (u32 k = 1; k < i->noperands; k++)
    if (hlo_operand(i, k) != X) return NULL;
  i64 *dims = pass_alg_dims_new(a, i->shape->rank), *map = pass_alg_dims_new(a, i->shape->rank);
  u32 n = 0;
  for (u32 k = 0; k < i->shape->rank; k++)
    if (k != dim) dims[n] = i->shape->dims[k], map[n++] = k;
  return pass_alg_broadcast(a, pass_alg_reshape(a, X, n, dims), i->shape, n, map);
}

// concatenate(A, broadcast(v)) = pad(A, v), on either side
ALG_RULE(concat_pad) {
  if (i->noperands != 2 || a->layout_sensitive) return NULL;
  i64 dim = alg_dims(i).v[0];
  for (u32 k = 0; k < 2; k++) {
    hlo_instr *b = hlo_operand(i, k), *v = hlo_operand(i, 1 - k);
    if (b->opcode != HLO_BROADCAST || hlo_operand(b, 0)->shape->rank != 0) continue;
    hlo_pad_dim *d = pads_new(a, i->shape->rank);
    *(k == 0 ? &d[dim].low : &d[dim].high) = b->shape->dims[dim];
    return pass_alg_pad(a, v, hlo_operand(b, 0), d);
  }
  return NULL;
}

// ---- pad ----------------------------------------------------------------------------------------
ALG_RULE(pad_zero) {
  (void)a;
  const hlo_pad_dim *p = pad_dims(i);
  for (u32 k = 0; k < i->shape->rank; k++)
    if (p[k].low || p[k].high || (p[k].interior && X->shape->dims[k] > 1)) return NULL;
  return X;
}

ALG_RULE(pad_empty) { return X->shape->elements == 0 ? pass_alg_spread(a, Y, i->shape) : NULL; }

// Nothing lies between the elements of an extent of 1
ALG_RULE(pad_interior) {
  const hlo_pad_dim *p = pad_dims(i);
  hlo_pad_dim *q = pads_new(a, i->shape->rank);
  bool any = false;
  for (u32 k = 0; k < i->shape->rank; k++) {
    q[k] = p[k];
    if (p[k].interior && X->shape->dims[k] == 1) q[k].interior = 0, any = true;
  }
  return any ? pass_alg_pad(a, X, Y, q) : NULL;
}

// pad(broadcast(v), v) = broadcast(v)
ALG_RULE(pad_same) {
  if (X->opcode != HLO_BROADCAST || hlo_operand(X, 0)->shape->rank != 0 ||
      !pass_alg_same(hlo_operand(X, 0), Y))
    return NULL;
  return pass_alg_spread(a, Y, i->shape);
}

// Negative amounts: pad without them, then slice
ALG_RULE(pad_negative) {
  const hlo_pad_dim *p = pad_dims(i);
  if (!a->negative_padding) return NULL;
  bool negative = false;
  u32 n = i->shape->rank;
  hlo_pad_dim *q = pads_new(a, n);
  hlo_slice_dim *s = slices_new(a, n);
  for (u32 k = 0; k < n; k++) {
    negative |= p[k].low < 0 || p[k].high < 0;
    q[k] = (hlo_pad_dim){HS_MAX(p[k].low, 0), HS_MAX(p[k].high, 0), p[k].interior};
    i64 start = HS_MAX(-p[k].low, 0);
    s[k] = (hlo_slice_dim){start, start + i->shape->dims[k], 1};
  }
  if (!negative) return NULL;
  bool padded = false;
  for (u32 k = 0; k < n; k++) padded |= q[k].low || q[k].high || q[k].interior;
  return pass_alg_slice(a, padded ? pass_alg_pad(a, X, Y, q) : X, s);
}

// pad(broadcast(A)) where all of A's dimensions are padded: pad along the padded dimensions only,
// then broadcast along the others
ALG_RULE(pad_broadcast) {
  if (X->opcode != HLO_BROADCAST || X->nuses != 1 || X->shape->elements == 0) return NULL;
  const hlo_pad_dim *p = pad_dims(i);
  hlo_ints map = alg_dims(X);
  for (u32 k = 0; k < map.n; k++)
    if (!p[map.v[k]].low && !p[map.v[k]].high && !p[map.v[k]].interior) return NULL;
  u32 rank = i->shape->rank, n = 0;
  i64 *dims = pass_alg_dims_new(a, rank), *out = pass_alg_dims_new(a, rank),
      *at = pass_alg_dims_new(a, rank), *in = pass_alg_dims_new(a, map.n);
  hlo_pad_dim *q = pads_new(a, rank);
  for (u32 k = 0; k < rank; k++) {
    if (!p[k].low && !p[k].high && !p[k].interior) continue;
    dims[n] = X->shape->dims[k], at[k] = n, q[n] = p[k], out[n++] = k;
  }
  if (n == rank) return NULL;
  for (u32 k = 0; k < map.n; k++) in[k] = at[map.v[k]];
  hlo_instr *b = pass_alg_broadcast(a, hlo_operand(X, 0),
                                    pass_alg_shape(a, X->shape->dtype, n, dims), map.n, in);
  return pass_alg_broadcast(a, pass_alg_pad(a, b, Y, q), i->shape, n, out);
}

// pad(pad(A, v), v): one pad, unless the outer spreads the inner padding apart
ALG_RULE(pad_pad) {
  if (X->opcode != HLO_PAD || !pass_alg_same(hlo_operand(X, 1), Y)) return NULL;
  const hlo_pad_dim *p = pad_dims(i), *q = pad_dims(X);
  hlo_pad_dim *d = pads_new(a, i->shape->rank);
  for (u32 k = 0; k < i->shape->rank; k++) {
    if (p[k].interior || p[k].low < 0 || p[k].high < 0 || q[k].low < 0 || q[k].high < 0)
      return NULL;
    d[k] = (hlo_pad_dim){p[k].low + q[k].low, p[k].high + q[k].high, q[k].interior};
  }
  return pass_alg_pad(a, hlo_operand(X, 0), Y, d);
}
