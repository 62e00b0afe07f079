// algsimp_view.c — chains of copies, reshapes and bitcasts with final layouts. Of two copies with
// a bitcast between them one is removed, when the bitcast can be applied to the other layout; a
// reshape that moves data and a copy are exchanged when one of them becomes a bitcast, or two
// copies become adjacent.
#include "passes/simplify/algsimp.h"

#define X hlo_operand(i, 0)
#define MINOR(s, k) ((s)->layout->minor_to_major[k])

static bool host(const hlo_shape *s) { return s->layout && s->layout->memory_space == 5; }
static bool host_copy(const hlo_instr *i) { return host(i->shape) != host(X->shape); }

// ---- dimensions that a bitcast merges and splits ------------------------------------------------
// per dimension: those it is found in, minor first
typedef struct dim_map {
  u32 n[HLO_MAX_RANK];
  i64 to[HLO_MAX_RANK][8];
} dim_map;

static bool map_add(dim_map *m, i64 from, i64 to) {
  if (m->n[from] == HS_COUNT(m->to[0])) return false;
  m->to[from][m->n[from]++] = to;
  return true;
}

// For a bitcast from `in` to `out`: where each dimension of `in` went, walking both from the minor
// end. False when dimensions are cut anew rather than joined or split.
static bool map_bitcast(const hlo_shape *out, const hlo_shape *in, dim_map *m) {
  *m = (dim_map){0};
  i64 done_out = 1, done_in = 1, at = -1, dim = -1;
  for (u32 k = 0; k < out->rank; k++) {
    i64 od = MINOR(out, k), size = out->dims[od], before = done_out;
    if (at >= (i64)in->rank) {
      if (size != 1) return false;
      continue;
    }
    done_out *= size;
    if (done_in < done_out && before < done_in) return false;
    while (at < (i64)in->rank) {
      if (at < 0 || done_in < done_out) {
        if (++at >= (i64)in->rank) return false;
        dim = MINOR(in, at);
        done_in *= in->dims[dim];
        if (done_in > done_out && in->dims[dim] < size && at > 0) return false;
      }
      if (in->dims[dim] > 1 && !map_add(m, dim, od)) return false;
      if (done_in >= done_out) {
        if (in->dims[dim] == 1) at++;
        break;
      }
    }
  }
  return true;
}

static bool map_invert(const hlo_shape *in, const dim_map *m, dim_map *inv) {
  *inv = (dim_map){0};
  for (u32 k = 0; k < in->rank; k++)
    for (u32 j = 0; j < m->n[MINOR(in, k)]; j++)
      if (!map_add(inv, m->to[MINOR(in, k)][j], MINOR(in, k))) return false;
  return true;
}

// Whether the tiles of two layouts still cover the same elements when `in`'s dimensions are found
// in `out` by the map.
static bool tiles_agree(const hlo_shape *out, const hlo_shape *in, const dim_map *m) {
  if (!in->layout->ntiles || !out->layout->ntiles) return true;
  const hlo_tile *p = &in->layout->tiles[0], *q = &out->layout->tiles[0];
  if (p->rank != q->rank) return false;
  i64 t = (i64)p->rank - 1;
  for (u32 k = 0; k < in->rank && t >= 0; k++, t--) {
    i64 dim = MINOR(in, k), size = in->dims[dim], tile = p->dims[t];
    if (tile != q->dims[t]) return false;
    if (m->n[dim] == 0) {
      if (tile != 1) return false;
      continue;
    }
    if (m->to[dim][0] >= (i64)out->rank) return false;
    i64 now = out->dims[m->to[dim][0]];
    if (now < size && (m->n[dim] == 1 || t > 0 || now % tile || size % now)) return false;
    if (now > size && (t > 0 || now % size || size % tile)) return false;
  }
  return true;
}

// `out` laid out so that a bitcast of `in`, whose dimensions are found in `out` by the map, is one;
// NULL when there is no such layout.
static const hlo_shape *relay(alg *a, const hlo_shape *in, const hlo_shape *out, const dim_map *m,
                              const dim_map *inv) {
  i64 order[HLO_MAX_RANK], at = -1;
  memcpy(order, out->layout->minor_to_major, out->rank * sizeof *order);
  for (u32 k = 0; k < in->rank; k++) {
    i64 dim = MINOR(in, k);
    for (u32 j = 0; j < m->n[dim]; j++) {
      i64 od = m->to[dim][j];
      if (at < 0 || order[at] != od) {
        if (++at >= (i64)out->rank) return NULL;
        if (out->dims[od] == 1) continue;  // extents of 1 come last
        order[at] = od;
      }
      if (inv->n[od] < 2 || k == 0) continue;
      // what is joined must lie together, in the same order
      i64 prev = MINOR(in, k - 1);
      if (inv->to[od][0] != dim && (m->n[prev] == 0 || m->to[prev][0] != od)) return NULL;
      for (u32 x = 0; x < inv->n[od]; x++)
        if (inv->to[od][x] == prev && (x + 1 == inv->n[od] || inv->to[od][x + 1] != dim))
          return NULL;
    }
  }
  for (u32 d = 0; d < out->rank; d++)
    if (out->dims[d] == 1) {
      if (++at >= (i64)out->rank) return NULL;
      order[at] = d;
    }
  bool seen[HLO_MAX_RANK] = {false};
  for (u32 k = 0; k < out->rank; k++) {
    if (seen[order[k]]) return NULL;
    seen[order[k]] = true;
  }
  hlo_layout l = *out->layout;
  l.minor_to_major = order;
  return hlo_shape_with_layout(a->m->ctx, out, hlo_layout_intern(a->m->ctx, &l));
}

// copy(bitcast(copy(A))) = copy(bitcast(A)) or bitcast(copy(A))
ALG_RULE(copy_bitcast_copy) {
  if (X->opcode != HLO_BITCAST || host_copy(i)) return NULL;
  hlo_instr *b = X, *c = b;
  while (c->opcode == HLO_BITCAST) c = hlo_operand(c, 0);
  if (c->opcode != HLO_COPY || host_copy(c) || hlo_is_controlled(c)) return NULL;
  hlo_instr *src = hlo_operand(c, 0);
  const hlo_shape *out = b->shape, *mid = c->shape;
  if (!out->layout || !mid->layout || !src->shape->layout || !i->shape->layout ||
      out->dtype != mid->dtype || src->shape->dtype != mid->dtype || i->shape->dtype != out->dtype)
    return NULL;
  dim_map m, inv;
  if (!map_bitcast(out, mid, &m) || !tiles_agree(out, mid, &m) || !map_invert(mid, &m, &inv))
    return NULL;
  if (tiles_agree(out, src->shape, &m)) {
    const hlo_shape *s = relay(a, src->shape, out, &m, &inv);
    if (!s) return NULL;
    hlo_instr *now = pass_alg_add(a, HLO_BITCAST, s, 1, &src);
    return pass_alg_add(a, HLO_COPY, i->shape, 1, &now);
  }
  if (!tiles_agree(mid, i->shape, &inv)) return NULL;
  const hlo_shape *s = relay(a, i->shape, mid, &inv, &m);
  if (!s) return NULL;
  hlo_instr *now = pass_alg_add(a, HLO_COPY, s, 1, &src);
  return pass_alg_add(a, HLO_BITCAST, i->shape, 1, &now);
}

// ---- the other order ----------------------------------------------------------------------------
// `to` laid out so that a reshape from `from` moves nothing; NULL when no layout does that.
static const hlo_shape *aligned(alg *a, const hlo_shape *from, const hlo_shape *to) {
  if (!from->layout || from->elements == 0) return NULL;
  hlo_dim_group g[2 * HLO_MAX_RANK + 2];
  u32 n = pass_dim_groups(from, to, g), done = 0;
  i64 order[HLO_MAX_RANK];
  bool seen[HLO_MAX_RANK] = {false};
  for (u32 k = 0; k < from->rank; k++) {
    i64 d = MINOR(from, k);
    if (from->dims[d] == 1) continue;
    u32 at = 0;
    while (at < n && !(d >= (i64)g[at].from && d < (i64)g[at + 1].from)) at++;
    if (at == n) return NULL;
    for (u32 f = g[at + 1].from; f-- > g[at].from;)  // the whole group, minor dimension first
      if (from->dims[f] != 1) {
        if (k == from->rank) return NULL;
        while (from->dims[MINOR(from, k)] == 1 && k + 1 < from->rank) k++;
        if (MINOR(from, k) != f) return NULL;
        k++;
      }
    k--;
    for (u32 t = g[at + 1].to; t-- > g[at].to;)
      if (to->dims[t] != 1) order[done++] = t, seen[t] = true;
  }
  for (u32 t = to->rank; t-- > 0;)
    if (!seen[t]) order[done++] = t;
  if (done != to->rank) return NULL;
  hlo_layout l = *hlo_layout_default(a->m->ctx, to->rank);
  l.minor_to_major = order;
  l.memory_space = from->layout->memory_space;
  l.ntiles = to->layout ? to->layout->ntiles : 0, l.tiles = to->layout ? to->layout->tiles : NULL;
  return hlo_shape_with_layout(a->m->ctx, hlo_shape_with_dtype(a->m->ctx, to, from->dtype),
                               hlo_layout_intern(a->m->ctx, &l));
}

static bool is_bitcast(const alg *a, const hlo_shape *from, const hlo_shape *to) {
  return a->bitcasts && pass_reshape_is_bitcast(from, to);
}

// Memory may grow by a ninth.
static bool not_larger(i64 now, i64 before) { return (i128)9 * now <= (i128)10 * before; }

// copy(reshape(A)) = reshape(copy(A)), when a reshape becomes a bitcast or a copy meets the copy
// before it
ALG_RULE(copy_before_reshape) {
  hlo_instr *r = X;
  if (!a->layout_sensitive || r->opcode != HLO_RESHAPE || r->nuses != 1 || !i->shape->layout)
    return NULL;
  hlo_instr *src = hlo_operand(r, 0),
            *first =
                src->opcode == HLO_COPY && src->nuses == 1 && !hlo_is_controlled(src) ? src : NULL;
  const hlo_shape *s = aligned(a, i->shape, src->shape);
  if (!s) return NULL;
  bool was = is_bitcast(a, src->shape, r->shape), will = is_bitcast(a, s, i->shape);
  if (!(was ? will && first : will || first)) return NULL;
  i64 whole = hlo_shape_bytes(i->shape), before = hs_mul_sat_i64(whole, 1 + (first != NULL) + !was);
  if (!not_larger(hs_mul_sat_i64(whole, 1 + !will), before)) return NULL;
  hlo_instr *from = first && hlo_operand(first, 0)->shape == s
                        ? hlo_operand(first, 0)
                        : pass_alg_add(a, HLO_COPY, s, 1, &src);
  return pass_alg_add(a, will ? HLO_BITCAST : HLO_RESHAPE, i->shape, 1, &from);
}

// reshape(copy(A)) = copy(reshape(A)), likewise
ALG_RULE(reshape_before_copy) {
  hlo_instr *c = X;
  if (!a->layout_sensitive || c->opcode != HLO_COPY || c->nuses != 1 || hlo_is_controlled(c) ||
      !i->shape->layout)
    return NULL;
  hlo_instr *src = hlo_operand(c, 0),
            *after =
                i->nuses == 1 && i->first_use->user->opcode == HLO_COPY ? i->first_use->user : NULL;
  if (host(src->shape)) return NULL;
  const hlo_shape *s = aligned(a, src->shape, i->shape);
  if (!s) return NULL;
  bool was = is_bitcast(a, c->shape, i->shape), will = is_bitcast(a, src->shape, s);
  if (was ? !(will && after) : false) return NULL;
  i64 whole = hlo_shape_bytes(i->shape), before = hs_mul_sat_i64(whole, 1 + !was + (after != NULL));
  if (!not_larger(hs_mul_sat_i64(whole, 1 + !will), before)) return NULL;
  hlo_instr *r = pass_alg_add(a, will ? HLO_BITCAST : HLO_RESHAPE, s, 1, &src);
  return s == i->shape ? r : pass_alg_add(a, HLO_COPY, i->shape, 1, &r);
}

// ---- bitcasts -----------------------------------------------------------------------------------
static bool same_tiles(const hlo_shape *x, const hlo_shape *y) {
  const hlo_layout *p = x->layout, *q = y->layout;
  if (!p || !q) return true;
  if (p->ntiles != q->ntiles || p->memory_space != q->memory_space ||
      p->element_bits != q->element_bits)
    return false;
  for (u32 k = 0; k < p->ntiles; k++)
    if (p->tiles[k].rank != q->tiles[k].rank ||
        memcmp(p->tiles[k].dims, q->tiles[k].dims, p->tiles[k].rank * sizeof *p->tiles[k].dims) !=
            0)
      return false;
  return true;
}

static bool untiled(const hlo_shape *s) { return !s->layout || s->layout->ntiles == 0; }

// bitcast(op(bitcast(A))) = bitcast(op(A)), where nothing is in tiles
ALG_RULE(bitcast_unary_bitcast) {
  hlo_instr *u = X;
  if (!hlo_op_has(u->opcode, HLO_F_ELEMENTWISE) || u->noperands != 1 || u->opcode == HLO_COPY ||
      u->nuses != 1 || hlo_is_controlled(u))
    return NULL;
  hlo_instr *b = hlo_operand(u, 0);
  if (b->opcode != HLO_BITCAST || b->shape != u->shape) return NULL;
  hlo_instr *src = hlo_operand(b, 0);
  if (u->shape->dtype != i->shape->dtype || src->shape->dtype != u->shape->dtype ||
      !untiled(b->shape) || !untiled(src->shape))
    return NULL;
  hlo_instr *now = pass_alg_like(a, u, src->shape, 1, &src);
  return pass_alg_add(a, HLO_BITCAST, i->shape, 1, &now);
}

// A broadcast along `dims` (ascending) that leaves its operand's dimensions in the order they have
// in memory: it places no element of a row among those of another.
static bool keeps_order(const hlo_shape *operand, const hlo_shape *result, u32 n, const i64 *dims) {
  if (!operand->layout || !result->layout) return true;
  for (u32 k = 0, at = 0; k < result->rank; k++)
    for (u32 j = 0; j < n; j++)
      if (dims[j] == MINOR(result, k) && MINOR(operand, at++) != j) return false;
  return true;
}

// bitcast(broadcast(A)) that only permutes dimensions = broadcast(A) along others
ALG_RULE(bitcast_broadcast) {
  hlo_instr *b = X;
  const hlo_shape *from = b->shape, *to = i->shape;
  if (b->opcode != HLO_BROADCAST || !from->layout || !to->layout || from->rank != to->rank ||
      from->dtype != to->dtype || !same_tiles(from, to))
    return NULL;
  i64 inv[HLO_MAX_RANK];
  for (u32 k = 0; k < to->rank; k++) {
    if (from->dims[MINOR(from, k)] != to->dims[MINOR(to, k)]) return NULL;
    inv[MINOR(from, k)] = MINOR(to, k);
  }
  hlo_ints d = alg_dims(b);
  i64 *map = pass_alg_dims_new(a, d.n);
  for (u32 k = 0; k < d.n; k++) map[k] = inv[d.v[k]];
  if (!pass_alg_sorted(d.n, map) || !pass_alg_sorted(d.n, d.v) ||
      (a->layout_sensitive && !keeps_order(hlo_operand(b, 0)->shape, to, d.n, map)))
    return NULL;
  return pass_alg_broadcast(a, hlo_operand(b, 0), to, d.n, map);
}
