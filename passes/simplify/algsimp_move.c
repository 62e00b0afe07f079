// algsimp_move.c — data movement: broadcast, reshape, transpose, bitcast, copy, reverse and iota.
// Chains of them are merged into one instruction; elementwise operations on broadcasts are computed
// before broadcasting.
#include "passes/simplify/algsimp.h"

#define X hlo_operand(i, 0)

// ---- broadcast ----------------------------------------------------------------------------------
static bool identity_dims(hlo_ints d, u32 rank) {
  if (d.n != rank) return false;
  for (u32 k = 0; k < d.n; k++)
    if (d.v[k] != (i64)k) return false;
  return true;
}

ALG_RULE(broadcast_noop) {
  (void)a;
  return identity_dims(alg_dims(i), i->shape->rank) && hlo_shape_compatible(X->shape, i->shape)
             ? X
             : NULL;
}

// All dimensions come from the operand, in another order: a transpose
ALG_RULE(broadcast_transpose) {
  hlo_ints d = alg_dims(i);
  if (d.n != i->shape->rank || identity_dims(d, d.n)) return NULL;
  i64 *perm = pass_alg_dims_new(a, d.n);
  for (u32 k = 0; k < d.n; k++) perm[d.v[k]] = k;
  return pass_alg_transpose(a, X, perm);
}

ALG_RULE(broadcast_broadcast) {
  if (X->opcode != HLO_BROADCAST) return NULL;
  hlo_ints out = alg_dims(i), in = alg_dims(X);
  i64 *d = pass_alg_dims_new(a, in.n);
  for (u32 k = 0; k < in.n; k++) d[k] = out.v[in.v[k]];
  return pass_alg_broadcast(a, hlo_operand(X, 0), i->shape, in.n, d);
}

ALG_RULE(broadcast_iota) {
  if (X->opcode != HLO_IOTA) return NULL;
  hlo_instr *n = pass_alg_add(a, HLO_IOTA, i->shape, 0, NULL);
  hlo_set_attr_int(n, HLO_ATTR_IOTA_DIMENSION,
                   alg_dims(i).v[hlo_attr_int(X, HLO_ATTR_IOTA_DIMENSION, 0)]);
  return n;
}

// Only extents of 1 are added: a reshape
ALG_RULE(broadcast_reshape) {
  hlo_ints d = alg_dims(i);
  if (i->shape->elements != X->shape->elements || !pass_alg_sorted(d.n, d.v) ||
      d.n == i->shape->rank)
    return NULL;
  return pass_alg_reshape_to(a, X, i->shape);
}

// Operand dimensions of extent 1 are dropped before the broadcast
ALG_RULE(broadcast_degenerate) {
  hlo_ints d = alg_dims(i);
  const hlo_shape *s = X->shape;
  if (a->layout_sensitive || !a->broadcast_degenerate) return NULL;
  i64 *dims = pass_alg_dims_new(a, s->rank), *map = pass_alg_dims_new(a, s->rank);
  u32 n = 0;
  for (u32 k = 0; k < s->rank; k++)
    if (s->dims[k] != 1) dims[n] = s->dims[k], map[n++] = d.v[k];
  if (n == s->rank) return NULL;
  return pass_alg_broadcast(a, pass_alg_reshape(a, X, n, dims), i->shape, n, map);
}

// broadcast(reshape(A)) where the reshape only adds extents of 1 = broadcast(A)
ALG_RULE(broadcast_of_reshape) {
  if (X->opcode != HLO_RESHAPE) return NULL;
  hlo_instr *src = hlo_operand(X, 0);
  const hlo_shape *from = src->shape, *to = X->shape;
  hlo_ints d = alg_dims(i);
  i64 *map = pass_alg_dims_new(a, from->rank);
  u32 f = 0;
  if (from->rank >= to->rank) return NULL;
  for (u32 t = 0; t < to->rank; t++) {
    if (f < from->rank && from->dims[f] == to->dims[t] && to->rank - t >= from->rank - f)
      map[f++] = d.v[t];
    else if (to->dims[t] != 1) return NULL;
  }
  if (f < from->rank) return NULL;
  pass_recover_reshape(X);
  return pass_alg_broadcast(a, src, i->shape, f, map);
}

// ---- elementwise over broadcasts ----------------------------------------------------------------
// All operands are broadcasts along the same dimensions (or of scalars): compute first, repeat
// afterwards
ALG_RULE(sink_broadcast) {
  if (!a->sink_broadcast || i->noperands == 0 || i->shape->rank == 0 || i->shape->elements == 0)
    return NULL;
  if (i->opcode == HLO_BITCAST_CONVERT && !hlo_shape_same_dims(X->shape, i->shape)) return NULL;
  hlo_instr *lead = NULL;  // the widest source
  for (u32 k = 0; k < i->noperands; k++) {
    hlo_instr *o = hlo_operand(i, k);
    if (o->opcode != HLO_BROADCAST) {
      // the scalar operands of select and clamp stay
      if (o->shape->rank != 0) return NULL;
      continue;
    }
    hlo_ints d = alg_dims(o);
    if (hlo_operand(o, 0)->shape->rank == 0) {
      if (!lead) lead = o;
      continue;
    }
    if (!lead || hlo_operand(lead, 0)->shape->rank == 0) lead = o;
    hlo_ints l = alg_dims(lead);
    if (!hlo_ints_equal(l, d)) return NULL;
  }
  if (!lead) return NULL;
  const hlo_shape *narrow = hlo_operand(lead, 0)->shape;
  if (narrow->elements >= i->shape->elements) return NULL;
  hlo_instr **ops = HS_NEW_ARRAY(a->p->scratch, hlo_instr *, i->noperands);
  for (u32 k = 0; k < i->noperands; k++) {
    hlo_instr *o = hlo_operand(i, k);
    // a broadcast may state another precision
    ops[k] =
        o->opcode == HLO_BROADCAST ? pass_alg_convert(a, hlo_operand(o, 0), o->shape->dtype) : o;
    if (ops[k]->shape->rank == 0 && o->opcode == HLO_BROADCAST)
      ops[k] = pass_alg_broadcast(
          a, ops[k], hlo_shape_with_dtype(a->m->ctx, narrow, ops[k]->shape->dtype), 0, NULL);
  }
  hlo_instr *n = pass_alg_add(
      a, i->opcode, hlo_shape_with_dtype(a->m->ctx, narrow, i->shape->dtype), i->noperands, ops);
  hlo_copy_attrs(n, i);
  hlo_remove_attr(n, HLO_ATTR_SHARDING);
  hlo_ints d = alg_dims(lead);
  return pass_alg_broadcast(a, n, i->shape, d.n, d.v);
}

// ---- reshape ------------------------------------------------------------------------------------
ALG_RULE(reshape_noop) {
  (void)a;
  return hlo_shape_compatible(X->shape, i->shape) ? X : NULL;
}

// No elements: any constant of the shape will do
ALG_RULE(reshape_empty) {
  if (i->shape->elements != 0) return NULL;
  hlo_literal *l;
  hs_status s = hlo_literal_new(hlo_shape_fill_layout(a->m->ctx, i->shape), &l);
  if (!hs_ok(s)) return hs_status_drop(s), NULL;
  return pass_alg_literal(a, l);
}

// Random numbers are as good in another shape
ALG_RULE(reshape_rng) {
  (void)a;
  if (X->opcode != HLO_RNG || X->nuses != 1 || hlo_is_root(X)) return NULL;
  // in place: random numbers are not drawn twice
  hlo_set_shape(X, i->shape);
  return X;
}

// reshape(transpose(reshape(A))) = transpose(reshape(A)), where the outer reshape merges only what
// was next to each other before the transpose, too
ALG_RULE(reshape_hoist_transpose) {
  hlo_instr *t = X;
  if (!a->hoist_transpose || a->layout_sensitive || t->opcode != HLO_TRANSPOSE ||
      hlo_operand(t, 0)->opcode != HLO_RESHAPE)
    return NULL;
  hlo_ints p = alg_dims(t);
  hlo_dim_group g[2 * HLO_MAX_RANK + 2];
  u32 n = pass_dim_groups(t->shape, i->shape, g);
  i64 first[HLO_MAX_RANK];
  if (n == 0 || n != i->shape->rank) return NULL;
  for (u32 k = 0; k < n; k++) {
    u32 f = g[k].from, e = g[k + 1].from;
    if (g[k + 1].to != g[k].to + 1 || e == f) return NULL;
    for (u32 j = f + 1; j < e; j++)
      if (p.v[j] != p.v[j - 1] + 1) return NULL;
    first[k] = p.v[f];
  }
  i64 *dims = pass_alg_dims_new(a, n), *perm = pass_alg_dims_new(a, n);
  for (u32 k = 0; k < n; k++) {
    // where the group stands before the transpose
    i64 at = 0;
    for (u32 j = 0; j < n; j++) at += first[j] < first[k];
    dims[at] = i->shape->dims[k], perm[k] = at;
  }
  hlo_instr *r = pass_alg_reshape(a, hlo_operand(hlo_operand(t, 0), 0), n, dims);
  return pass_alg_transpose(a, r, perm);
}

// reshape(update(A, u)) = update(reshape(A), reshape(u)) when the reshape only adds or drops
// extents of 1
ALG_RULE(reshape_dus) {
  hlo_instr *dus = X;
  if (a->layout_sensitive || dus->opcode != HLO_DYNAMIC_UPDATE_SLICE || dus->nuses != 1 ||
      hlo_attr_get(dus, HLO_ATTR_SHARDING))
    return NULL;
  const hlo_shape *from = dus->shape, *to = i->shape, *u = hlo_operand(dus, 1)->shape;
  if (dus->noperands != 2 + from->rank || hlo_attr_get(hlo_operand(dus, 0), HLO_ATTR_SHARDING) ||
      from->rank == 0)
    return NULL;
  hlo_instr **ops = HS_NEW_ARRAY(a->p->scratch, hlo_instr *, to->rank + 2);
  i64 *dims = pass_alg_dims_new(a, to->rank), *at = pass_alg_dims_new(a, to->rank);
  u32 f = 0;
  for (u32 t = 0; t < to->rank; t++) {
    at[t] = -1, dims[t] = 1;
    if (to->dims[t] == 1) continue;
    while (f < from->rank && from->dims[f] == 1) f++;
    if (f == from->rank || from->dims[f] != to->dims[t]) return NULL;
    at[t] = f, dims[t] = u->dims[f++];
  }
  for (; f < from->rank; f++)
    if (from->dims[f] != 1) return NULL;
  hlo_instr *zero = NULL;
  for (u32 t = 0; t < to->rank; t++) {
    if (at[t] < 0 && !zero) zero = pass_alg_scalar_int(a, hlo_operand(dus, 2)->shape->dtype, 0);
    ops[t + 2] = at[t] < 0 ? zero : hlo_operand(dus, 2 + (u32)at[t]);
  }
  ops[0] = pass_alg_reshape_to(a, hlo_operand(dus, 0), to);
  ops[1] = pass_alg_reshape(a, hlo_operand(dus, 1), to->rank, dims);
  return pass_alg_like(a, dus, to, to->rank + 2, ops);
}

ALG_RULE(reshape_reshape) {
  if (X->opcode != HLO_RESHAPE) return NULL;
  return pass_alg_reshape_to(a, hlo_operand(X, 0), i->shape);
}

static bool mapped(hlo_ints d, i64 dim) { return pass_alg_has(d, dim); }

// reshape(broadcast(A)) = broadcast(reshape(A)) when each group of merged or split dimensions is
// wholly A's or wholly new
ALG_RULE(reshape_broadcast) {
  if (X->opcode != HLO_BROADCAST) return NULL;
  hlo_instr *src = hlo_operand(X, 0);
  const hlo_shape *from = X->shape, *to = i->shape;
  hlo_ints d = alg_dims(X);
  if (d.n == 0) return pass_alg_broadcast(a, src, to, 0, NULL);
  if (!pass_alg_sorted(d.n, d.v)) return NULL;
  hlo_dim_group *g = HS_NEW_ARRAY(a->p->scratch, hlo_dim_group, from->rank + to->rank + 2);
  u32 n = pass_dim_groups(from, to, g), rank = 0;
  if (n == 0) return NULL;
  i64 *dims = pass_alg_dims_new(a, to->rank), *map = pass_alg_dims_new(a, to->rank);
  for (u32 k = 0; k < n; k++) {  // extents of 1 need not come from A
    bool any = false, all = true;
    for (u32 f = g[k].from; f < g[k + 1].from; f++) {
      if (from->dims[f] == 1) continue;
      if (mapped(d, f)) any = true;
      else all = false;
    }
    if (any && !all) return NULL;
    for (u32 t = g[k].to; any && t < g[k + 1].to; t++)
      if (to->dims[t] != 1) dims[rank] = to->dims[t], map[rank++] = t;
  }
  bool same = rank == src->shape->rank &&
              (rank == 0 || memcmp(dims, src->shape->dims, rank * sizeof *dims) == 0);
  if (a->layout_sensitive && !same) return NULL;  // the reshape of A could move elements
  return pass_alg_broadcast(a, pass_alg_reshape(a, src, rank, dims), to, rank, map);
}

// reshape(iota) that splits the counting dimension: the digits of the count, each an iota
ALG_RULE(reshape_iota_digits) {
  if (X->opcode != HLO_IOTA || alg_is_complex(i)) return NULL;
  const hlo_shape *from = X->shape, *to = i->shape;
  i64 dim = hlo_attr_int(X, HLO_ATTR_IOTA_DIMENSION, 0), scale = 1;
  hlo_dim_group g[2 * HLO_MAX_RANK + 2];
  u32 n = pass_dim_groups(from, to, g), k = 0;
  while (k < n && !((i64)g[k].from <= dim && dim < (i64)g[k + 1].from)) k++;
  if (k == n || g[k].from != (u32)dim || g[k + 1].from != (u32)dim + 1 ||
      g[k + 1].to < g[k].to + 2 || to->dims[g[k].to] == 1)
    return NULL;
  hlo_instr *sum = NULL;
  for (u32 t = g[k + 1].to; t-- > g[k].to;) {
    hlo_instr *digit = pass_alg_add(a, HLO_IOTA, to, 0, NULL);
    hlo_set_attr_int(digit, HLO_ATTR_IOTA_DIMENSION, t);
    hlo_instr *part =
        sum ? pass_alg_bin(a, HLO_MULTIPLY, digit, pass_alg_full_int(a, to, scale)) : digit;
    sum = sum ? pass_alg_bin(a, HLO_ADD, sum, part) : part;
    scale *= to->dims[t];
  }
  return sum;
}

// reshape(iota) = iota when the counting dimension stays whole
ALG_RULE(reshape_iota) {
  if (X->opcode != HLO_IOTA) return NULL;
  const hlo_shape *from = X->shape, *to = i->shape;
  i64 dim = hlo_attr_int(X, HLO_ATTR_IOTA_DIMENSION, 0);
  hlo_dim_group *g = HS_NEW_ARRAY(a->p->scratch, hlo_dim_group, from->rank + to->rank + 2);
  u32 n = pass_dim_groups(from, to, g);
  for (u32 k = 0; k < n; k++) {
    if (dim < g[k].from || dim >= g[k + 1].from) continue;
    for (u32 t = g[k].to; t < g[k + 1].to; t++) {
      if (to->dims[t] != from->dims[dim]) continue;
      // The group holds nothing but this extent and ones.
      i64 product = 1;
      for (u32 f = g[k].from; f < g[k + 1].from; f++) product *= from->dims[f];
      if (product != from->dims[dim]) return NULL;
      hlo_instr *r = pass_alg_add(a, HLO_IOTA, to, 0, NULL);
      hlo_set_attr_int(r, HLO_ATTR_IOTA_DIMENSION, t);
      return r;
    }
  }
  return NULL;
}

// A chain of transposes and of reshapes (with final layouts: bitcasts that are such) that only add
// or drop extents of 1: when the other dimensions come out in their first order, all of it is one
// reshape, or with final layouts nothing, or a bitcast
ALG_RULE(placement_chain) {
  u32 order[HLO_MAX_RANK], n = 0;  // i's real dimensions, as dimensions of o
  if (X->opcode != HLO_RESHAPE && X->opcode != HLO_TRANSPOSE && X->opcode != HLO_BITCAST)
    return NULL;
  for (u32 k = 0; k < i->shape->rank; k++)
    if (i->shape->dims[k] != 1) order[n++] = k;
  // with open layouts: the furthest up that will do
  hlo_instr *o = i, *best = NULL;
  for (u32 depth = 1; depth <= 16 && (o->opcode == HLO_RESHAPE || o->opcode == HLO_TRANSPOSE ||
                                      o->opcode == HLO_BITCAST);
       depth++) {
    const hlo_shape *to = o->shape, *from = hlo_operand(o, 0)->shape;
    if (o->opcode == HLO_BITCAST &&
        !(a->layout_sensitive && from->dtype == to->dtype && pass_reshape_is_bitcast(from, to)))
      break;
    if (o->opcode == HLO_TRANSPOSE) {
      for (u32 k = 0; k < n; k++) order[k] = (u32)alg_dims(o).v[order[k]];
    } else {
      u32 at[HLO_MAX_RANK], f = 0, t = 0;
      for (; t < to->rank; t++) {
        if (to->dims[t] == 1) continue;
        while (f < from->rank && from->dims[f] == 1) f++;
        if (f == from->rank || from->dims[f] != to->dims[t]) break;
        at[t] = f++;
      }
      if (t < to->rank) break;
      for (u32 k = 0; k < n; k++) order[k] = at[order[k]];
    }
    o = hlo_operand(o, 0);
    bool in_order = true;
    for (u32 k = 1; k < n; k++) in_order &= order[k - 1] < order[k];
    if (!in_order || o->shape->elements != i->shape->elements) continue;
    if (!a->layout_sensitive && depth >= 3) best = o;
    if (!a->layout_sensitive || depth < 2) continue;
    if (o->shape == i->shape) return o;
    if (depth >= 3 && a->bitcasts && pass_reshape_is_bitcast(o->shape, i->shape))
      return pass_alg_add(a, HLO_BITCAST, i->shape, 1, &o);
  }
  return best ? pass_alg_reshape_to(a, best, i->shape) : NULL;
}

// ---- transpose ----------------------------------------------------------------------------------
ALG_RULE(transpose_noop) {
  (void)a;
  return identity_dims(alg_dims(i), i->shape->rank) ? X : NULL;
}

ALG_RULE(transpose_transpose) {
  if (X->opcode != HLO_TRANSPOSE) return NULL;
  hlo_ints out = alg_dims(i), in = alg_dims(X);
  i64 *perm = pass_alg_dims_new(a, out.n);
  for (u32 k = 0; k < out.n; k++) perm[k] = in.v[out.v[k]];
  return pass_alg_transpose(a, hlo_operand(X, 0), perm);
}

// transpose(broadcast(A)) = broadcast(A) along the permuted dimensions, when these stay in order
ALG_RULE(transpose_broadcast) {
  if (X->opcode != HLO_BROADCAST) return NULL;
  hlo_ints p = alg_dims(i), d = alg_dims(X);
  i64 *inv = pass_alg_dims_new(a, p.n), *map = pass_alg_dims_new(a, d.n);
  for (u32 k = 0; k < p.n; k++) inv[p.v[k]] = k;
  for (u32 k = 0; k < d.n; k++) map[k] = inv[d.v[k]];
  const hlo_layout *from = hlo_operand(X, 0)->shape->layout, *to = i->shape->layout;
  if (!pass_alg_sorted(d.n, map) || !pass_alg_sorted(d.n, d.v)) return NULL;
  // the broadcast is not to transpose in memory
  for (u32 k = 0, at = 0; a->layout_sensitive && from && to && k < p.n; k++)
    for (u32 j = 0; j < d.n; j++)
      if (to->minor_to_major[k] == map[j] && from->minor_to_major[at++] != (i64)j) return NULL;
  return pass_alg_broadcast(a, hlo_operand(X, 0), i->shape, d.n, map);
}

ALG_RULE(transpose_iota) {
  if (X->opcode != HLO_IOTA) return NULL;
  hlo_ints p = alg_dims(i);
  i64 dim = hlo_attr_int(X, HLO_ATTR_IOTA_DIMENSION, 0);
  hlo_instr *n = pass_alg_add(a, HLO_IOTA, i->shape, 0, NULL);
  for (u32 k = 0; k < p.n; k++)
    if (p.v[k] == dim) hlo_set_attr_int(n, HLO_ATTR_IOTA_DIMENSION, k);
  return n;
}

// Only extents of 1 move: a reshape
ALG_RULE(transpose_reshape) {
  hlo_ints p = alg_dims(i);
  i64 last = -1;
  for (u32 k = 0; k < p.n; k++) {
    if (X->shape->dims[p.v[k]] == 1) continue;
    if (p.v[k] < last) return NULL;
    last = p.v[k];
  }
  hlo_instr *x = X;
  return a->layout_sensitive ? pass_alg_add(a, HLO_RESHAPE, i->shape, 1, &x)
                             : pass_alg_reshape_to(a, x, i->shape);
}

// reshape(transpose(reshape(A))) that takes a dimension apart in a few chunks and puts their number
// behind an earlier or later one (depth to space): that is where the chunks, cut out of A, are laid
// side by side
ALG_RULE(reshape_chunks) {
  enum { MOST_CHUNKS = 5 };
  hlo_instr *t = X;
  if (a->layout_sensitive || !a->slice_concatenate || t->opcode != HLO_TRANSPOSE ||
      !alg_one_use(t) || hlo_operand(t, 0)->opcode != HLO_RESHAPE)
    return NULL;
  hlo_instr *src = hlo_operand(hlo_operand(t, 0), 0);
  const hlo_shape *in = src->shape, *mid = hlo_operand(t, 0)->shape, *out = i->shape;
  hlo_ints p = alg_dims(t);
  if (mid->rank != in->rank + 1 || out->rank != in->rank) return NULL;
  // the dimension that is split, and where the number of the chunk goes
  u32 split = 0, at = 0;
  while (split < in->rank && mid->dims[split] == in->dims[split]) split++;
  if (split == in->rank || mid->dims[split] * mid->dims[split + 1] != in->dims[split] ||
      mid->dims[split] > MOST_CHUNKS)
    return NULL;
  for (u32 k = split + 1; k < in->rank; k++)
    if (mid->dims[k + 1] != in->dims[k]) return NULL;
  while (p.v[at] != split) at++;
  if (at == split || at == split + 1 || at == 0 || at == in->rank) return NULL;
  for (u32 k = 0, next = 0; k < p.n; k++) {  // the others keep their order
    if (k == at) continue;
    next += next == split;
    if (p.v[k] != next++) return NULL;
  }
  i64 chunks = mid->dims[split], length = mid->dims[split + 1];
  for (u32 k = 0; k < in->rank; k++)
    if (out->dims[k] != (k == at - 1 ? in->dims[k] * chunks : k == split ? length : in->dims[k]))
      return NULL;
  hlo_instr *part[MOST_CHUNKS];
  hlo_slice_dim *cut = HS_NEW_ARRAY(a->p->scratch, hlo_slice_dim, in->rank);
  for (u32 k = 0; k < in->rank; k++) cut[k] = (hlo_slice_dim){0, in->dims[k], 1};
  for (i64 k = 0; k < chunks; k++) {
    cut[split] = (hlo_slice_dim){k * length, (k + 1) * length, 1};
    part[k] = pass_alg_slice(a, src, cut);
  }
  return pass_alg_reshape_to(a, pass_alg_concat(a, (u32)chunks, part, at), out);
}

// ---- reverse, copy, bitcast, iota ---------------------------------------------------------------
// Reversing extents of 1 does nothing
ALG_RULE(reverse_trivial) {
  (void)a;
  hlo_ints d = alg_dims(i);
  for (u32 k = 0; k < d.n; k++)
    if (i->shape->dims[d.v[k]] != 1) return NULL;
  return X;
}

// Dimensions reversed by both of two reverses cancel
ALG_RULE(reverse_reverse) {
  if (X->opcode != HLO_REVERSE) return NULL;
  hlo_ints d = alg_dims(i), e = alg_dims(X);
  i64 *v = pass_alg_dims_new(a, d.n + e.n);
  u32 n = 0;
  for (u32 k = 0; k < i->shape->rank; k++)
    if (pass_alg_has(d, k) != pass_alg_has(e, k)) v[n++] = k;
  return pass_alg_reverse(a, hlo_operand(X, 0), n, v);
}

// reverse of a broadcast along dimensions that the broadcast made
ALG_RULE(reverse_broadcast) {
  if (X->opcode != HLO_BROADCAST) return NULL;
  hlo_ints d = alg_dims(i), b = alg_dims(X);
  i64 *v = pass_alg_dims_new(a, d.n);
  u32 n = 0;
  for (u32 k = 0; k < d.n; k++)
    if (pass_alg_has(b, d.v[k])) v[n++] = d.v[k];
  return n == d.n ? NULL : pass_alg_reverse(a, X, n, v);
}

// reverse(op(A, broadcast(s))) = op(reverse(A), broadcast(s))
ALG_RULE(reverse_elementwise) {
  hlo_instr *e = X;
  if (a->layout_sensitive || !hlo_op_has(e->opcode, HLO_F_ELEMENTWISE) || e->noperands != 2 ||
      e->opcode == HLO_COMPARE || e->opcode == HLO_RNG)
    return NULL;
  for (u32 k = 0; k < 2; k++) {
    hlo_instr *c = hlo_operand(e, k), *v = hlo_operand(e, 1 - k);
    if (c->opcode != HLO_BROADCAST || hlo_operand(c, 0)->shape->rank != 0) continue;
    hlo_instr *r = pass_alg_reverse(a, v, alg_dims(i).n, alg_dims(i).v);
    hlo_instr *n = pass_alg_add(a, e->opcode, i->shape, 2,
                                k == 0 ? (hlo_instr *[]){c, r} : (hlo_instr *[]){r, c});
    hlo_copy_attrs(n, e);
    return n;
  }
  return NULL;
}

// reverse(reshape(A)) = reshape(reverse(A)) when the reshape only adds extents of 1
ALG_RULE(reverse_reshape) {
  if (a->layout_sensitive || X->opcode != HLO_RESHAPE) return NULL;
  hlo_instr *src = hlo_operand(X, 0);
  const hlo_shape *from = src->shape, *to = X->shape;
  hlo_ints d = alg_dims(i);
  i64 *over = pass_alg_dims_new(a, from->rank);
  u32 f = 0, n = 0;
  if (from->rank >= to->rank) return NULL;
  for (u32 t = 0; t < to->rank; t++) {
    if (f < from->rank && from->dims[f] == to->dims[t] && to->rank - t >= from->rank - f) {
      if (to->dims[t] != 1 && pass_alg_has(d, t)) over[n++] = f;
      f++;
    } else if (to->dims[t] != 1) {
      return NULL;
    }
  }
  return f == from->rank ? pass_alg_reshape_to(a, pass_alg_reverse(a, src, n, over), i->shape)
                         : NULL;
}

ALG_RULE(copy_noop) {
  // it may mark the layout explicitly
  if (i == a->m->entry->root && hlo_attr_get(i, HLO_ATTR_SHARDING)) return NULL;
  return X->shape == i->shape || (!a->layout_sensitive && hlo_shape_is_array(i->shape)) ? X : NULL;
}

ALG_RULE(copy_copy) {
  if (X->opcode != HLO_COPY) return NULL;
  hlo_instr *src = hlo_operand(X, 0);
  if (src->shape == i->shape) return src;
  return pass_alg_add(a, HLO_COPY, i->shape, 1, &src);
}

ALG_RULE(bitcast_noop) {
  (void)a;
  return X->shape == i->shape ? X : NULL;
}

ALG_RULE(bitcast_bitcast) {
  if (X->opcode != HLO_BITCAST) return NULL;
  hlo_instr *src = hlo_operand(X, 0);
  if (src->shape == i->shape) return src;
  return pass_alg_add(a, HLO_BITCAST, i->shape, 1, &src);
}

// Counting over an extent of 1 yields zeros
ALG_RULE(iota_trivial) {
  if (i->shape->rank == 0 || i->shape->dims[hlo_attr_int(i, HLO_ATTR_IOTA_DIMENSION, 0)] > 1)
    return NULL;
  return pass_alg_full_int(a, i->shape, 0);
}
