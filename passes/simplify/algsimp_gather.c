// algsimp_gather.c — gathers and scatters: pad moves after gather, sums of scatters become one
// scatter, small gathers become selects.
#include "passes/simplify/algsimp.h"

#define X hlo_operand(i, 0)

// ---- gathers from few elements ------------------------------------------------------------------
ALG_RULE(gather_trivial) {
  if (!hlo_shape_is_array(i->shape)) return NULL;
  if (X->shape->elements == 0)
    return hlo_dtype_has_zero(i->shape->dtype) ? pass_alg_full_int(a, i->shape, 0) : NULL;
  return X->shape->elements == 1 ? pass_alg_spread(a, pass_alg_reshape(a, X, 0, NULL), i->shape)
                                 : NULL;
}

// From a vector of a few elements: a choice among them
ALG_RULE(gather_small) {
  const hlo_shape *from = X->shape, *at = hlo_operand(i, 1)->shape;
  if (from->rank != 1 || from->dims[0] > a->small_gather ||
      hlo_attr_int(i, HLO_ATTR_INDEX_VECTOR_DIM, -1) != (i64)at->rank)
    return NULL;
  if (hlo_attr_ints(i, HLO_ATTR_COLLAPSED_SLICE_DIMS).n != 1 || !hlo_shape_same_dims(at, i->shape))
    return NULL;
  hlo_instr *r = NULL;
  i64 reached = HS_MIN(from->dims[0] - 1, pass_alg_top_of(at->dtype));
  for (i64 k = 0; k <= reached; k++) {
    hlo_slice_dim d = {k, k + 1, 1};
    hlo_instr *v =
        pass_alg_spread(a, pass_alg_reshape(a, pass_alg_slice(a, X, &d), 0, NULL), i->shape);
    r = r ? pass_alg_select(a,
                            pass_alg_compare(a, HLO_DIRECTION_GE, hlo_operand(i, 1),
                                             pass_alg_full_int(a, at, k)),
                            v, r)
          : v;
  }
  return r;
}

// ---- gather of pad ------------------------------------------------------------------------------
// Where dimension d of `from` is found alone in `to`; -1 when a reshape mixes it with others.
static i64 alone_in(const hlo_shape *from, const hlo_shape *to, u32 d) {
  hlo_dim_group g[2 * HLO_MAX_RANK + 2];
  u32 n = pass_dim_groups(from, to, g);
  for (u32 k = 0; k < n; k++)
    if (g[k].from == d && g[k + 1].from == d + 1 && g[k + 1].to == g[k].to + 1) return g[k].to;
  return -1;
}

// The dimension of the result that shows dimension d of the operand, which is neither collapsed nor
// a batch.
static i64 offset_of(const hlo_instr *i, i64 d) {
  hlo_ints offsets = hlo_attr_ints(i, HLO_ATTR_OFFSET_DIMS),
           gone = hlo_attr_ints(i, HLO_ATTR_COLLAPSED_SLICE_DIMS),
           batch = hlo_attr_ints(i, HLO_ATTR_OPERAND_BATCHING_DIMS);
  u32 k = 0;
  for (i64 j = 0; j < d; j++) k += !pass_alg_has(gone, j) && !pass_alg_has(batch, j);
  return k < offsets.n ? offsets.v[k] : -1;
}

// The dimension of the result that shows dimension d of the indices, which is not the index vector.
static i64 index_dim_in_result(const hlo_instr *i, i64 d) {
  hlo_ints offsets = hlo_attr_ints(i, HLO_ATTR_OFFSET_DIMS);
  i64 n = d - (d > hlo_attr_int(i, HLO_ATTR_INDEX_VECTOR_DIM, 0));
  for (u32 k = 0; k < i->shape->rank; k++)
    if (!pass_alg_has(offsets, k) && n-- == 0) return k;
  return -1;
}

// gather(pad(A)) where the padded dimensions are taken whole: pad(gather(A)); a reshape may stand
// between that keeps them.
ALG_RULE(gather_pad) {
  hlo_instr *r = X->opcode == HLO_RESHAPE ? X : NULL, *p = r ? hlo_operand(r, 0) : X;
  if (p->opcode != HLO_PAD || !hlo_shape_is_array(i->shape)) return NULL;
  const hlo_padding *pads = hlo_attr_ptr(p, HLO_ATTR_PADDING);
  const hlo_shape *from = hlo_operand(p, 0)->shape;
  hlo_ints sizes = hlo_attr_ints(i, HLO_ATTR_SLICE_SIZES);
  i64 *dims = pass_alg_dims_new(a, X->shape->rank), *slice = pass_alg_dims_new(a, sizes.n),
      *out = pass_alg_dims_new(a, i->shape->rank);
  hlo_pad_dim *around = HS_NEW_ARRAY(a->p->scratch, hlo_pad_dim, i->shape->rank + 1);
  memcpy(dims, X->shape->dims, X->shape->rank * sizeof *dims);
  memcpy(slice, sizes.v, sizes.n * sizeof *slice);
  memcpy(out, i->shape->dims, i->shape->rank * sizeof *out);
  bool any = false;
  // padded batch dimensions: the indices must be padded alike, and nowhere else
  u32 batches = 0;
  hlo_instr *ids = hlo_operand(i, 1);
  const hlo_padding *idpads = ids->opcode == HLO_PAD ? hlo_attr_ptr(ids, HLO_ATTR_PADDING) : NULL;
  hlo_ints batch = hlo_attr_ints(i, HLO_ATTR_OPERAND_BATCHING_DIMS),
           id_batch = hlo_attr_ints(i, HLO_ATTR_START_INDICES_BATCHING_DIMS);
  for (u32 k = 0; k < pads->n; k++) {
    const hlo_pad_dim *q = &pads->v[k];
    if (!q->low && !q->high && !q->interior) continue;
    i64 d = r ? alone_in(p->shape, r->shape, k) : (i64)k, o = -1;
    if (q->low < 0 || q->high < 0 || d < 0) return NULL;
    if (pass_alg_has(batch, d)) {
      i64 id = 0;
      for (u32 b = 0; b < batch.n; b++)
        if (batch.v[b] == d) id = id_batch.v[b];
      if (r || !idpads || idpads->v[id].low != q->low || idpads->v[id].high != q->high ||
          idpads->v[id].interior != q->interior)
        return NULL;
      o = index_dim_in_result(i, id);
      batches++;
    } else {
      if (sizes.v[d] != X->shape->dims[d] ||
          pass_alg_has(hlo_attr_ints(i, HLO_ATTR_COLLAPSED_SLICE_DIMS), d))
        return NULL;
      o = offset_of(i, d);
      slice[d] = from->dims[k];
    }
    if (o < 0) return NULL;
    dims[d] = out[o] = from->dims[k];
    around[o] = *q;
    any = true;
  }
  u32 padded_ids = 0;
  for (u32 k = 0; batches && k < idpads->n; k++)
    padded_ids += idpads->v[k].low || idpads->v[k].high || idpads->v[k].interior;
  if (!any || padded_ids != batches) return NULL;
  if (batches) ids = hlo_operand(ids, 0);
  hlo_instr *src = pass_alg_reshape(a, hlo_operand(p, 0), X->shape->rank, dims);
  hlo_instr *g =
      pass_alg_add(a, HLO_GATHER, pass_alg_shape(a, i->shape->dtype, i->shape->rank, out), 2,
                   (hlo_instr *[]){src, ids});
  hlo_copy_attrs(g, i);
  hlo_set_attr_ints(g, HLO_ATTR_SLICE_SIZES, sizes.n, slice);
  return pass_alg_pad(a, g, hlo_operand(p, 1), around);
}

// ---- sums of scatters ---------------------------------------------------------------------------
static bool adds(const hlo_instr *s) {
  return s->opcode == HLO_SCATTER && s->noperands == 3 &&
         pass_alg_reducer(hlo_attr_comp(s, HLO_ATTR_TO_APPLY)) == HLO_ADD && !hlo_is_controlled(s);
}

static hlo_instr *scatter_like(alg *a, const hlo_instr *like, hlo_instr *into, hlo_instr *indices,
                               hlo_instr *updates) {
  hlo_instr *s =
      pass_alg_add(a, HLO_SCATTER, into->shape, 3, (hlo_instr *[]){into, indices, updates});
  hlo_copy_attrs(s, like);
  return s;
}

// Where two scatters' updates can be put side by side: a scatter dimension of the indices and its
// place among the updates'. The only one in which they differ, or else the first one. False: there
// is none, or they differ in two, or joining costs more than it saves.
static bool side_by_side(const hlo_instr *s, const hlo_instr *t, i64 *dim, i64 *at) {
  const hlo_shape *x = hlo_operand(s, 1)->shape, *y = hlo_operand(t, 1)->shape,
                  *u = hlo_operand(s, 2)->shape, *v = hlo_operand(t, 2)->shape;
  hlo_ints windows = hlo_attr_ints(s, HLO_ATTR_UPDATE_WINDOW_DIMS),
           batch = hlo_attr_ints(s, HLO_ATTR_SCATTER_INDICES_BATCHING_DIMS);
  i64 vector = hlo_attr_int(s, HLO_ATTR_INDEX_VECTOR_DIM, 0), ud = (i64)u->rank - 1;
  bool differ = false;
  *dim = *at = -1;
  if (x->rank != y->rank) return false;
  for (i64 d = (i64)x->rank - 1; d >= 0; d--) {
    if (d == vector) continue;
    while (pass_alg_has(windows, ud)) ud--;
    bool same = x->dims[d] == y->dims[d];
    if (pass_alg_has(batch, d)) {
      if (!same) return false;
    } else if (!same) {
      if (differ) return false;
      differ = true, *dim = d, *at = ud;
    } else if (!differ) {
      *dim = d, *at = ud;
    }
    ud--;
  }
  return *dim >= 0 && hs_add_sat_i64(u->elements, v->elements) < s->shape->elements;
}

static bool same_numbers(const hlo_instr *s, const hlo_instr *t) {
  static const hlo_attr_id lists[] = {HLO_ATTR_UPDATE_WINDOW_DIMS, HLO_ATTR_INSERTED_WINDOW_DIMS,
                                      HLO_ATTR_SCATTER_DIMS_TO_OPERAND_DIMS,
                                      HLO_ATTR_INPUT_BATCHING_DIMS,
                                      HLO_ATTR_SCATTER_INDICES_BATCHING_DIMS};
  for (size_t k = 0; k < HS_COUNT(lists); k++)
    if (!hlo_ints_equal(hlo_attr_ints(s, lists[k]), hlo_attr_ints(t, lists[k]))) return false;
  hlo_ints windows = hlo_attr_ints(s, HLO_ATTR_UPDATE_WINDOW_DIMS);
  for (u32 k = 0; k < windows.n; k++)
    if (hlo_operand(s, 2)->shape->dims[windows.v[k]] !=
        hlo_operand(t, 2)->shape->dims[windows.v[k]])
      return false;
  return hlo_attr_int(s, HLO_ATTR_INDEX_VECTOR_DIM, 0) ==
             hlo_attr_int(t, HLO_ATTR_INDEX_VECTOR_DIM, 0) &&
         hlo_operand(s, 1)->shape->dtype == hlo_operand(t, 1)->shape->dtype &&
         hlo_operand(s, 2)->shape->dtype == hlo_operand(t, 2)->shape->dtype;
}

static bool promises(const hlo_instr *s) {
  return hlo_attr_int(s, HLO_ATTR_UNIQUE_INDICES, 0) ||
         hlo_attr_int(s, HLO_ATTR_INDICES_ARE_SORTED, 0);
}

// A + scatter(B, I, U) = scatter(A + B, I, U); two scatters become one of both updates where these
// can be joined, and one after the other where not
ALG_RULE(add_scatter) {
  if (a->layout_sensitive) return NULL;
  hlo_instr *s = hlo_operand(i, 0), *t = hlo_operand(i, 1);
  bool ss = adds(s) && alg_one_use(s) && s->shape->logical == i->shape->logical,
       ts = adds(t) && alg_one_use(t) && t->shape->logical == i->shape->logical;
  if (ss && ts) {
    i64 dim, at = -1;
    if (!side_by_side(s, t, &dim, &at)) return NULL;
    hlo_instr *base = pass_alg_bin(a, HLO_ADD, hlo_operand(s, 0), hlo_operand(t, 0));
    if (promises(s) || promises(t) || !same_numbers(s, t))
      return scatter_like(a, s, scatter_like(a, t, base, hlo_operand(t, 1), hlo_operand(t, 2)),
                          hlo_operand(s, 1), hlo_operand(s, 2));
    hlo_instr *indices =
        pass_alg_concat(a, 2, (hlo_instr *[]){hlo_operand(s, 1), hlo_operand(t, 1)}, dim);
    hlo_instr *updates =
        pass_alg_concat(a, 2, (hlo_instr *[]){hlo_operand(s, 2), hlo_operand(t, 2)}, at);
    return scatter_like(a, s, base, indices, updates);
  }
  if (!ss && !ts) return NULL;
  if (ts)
    return scatter_like(a, t, pass_alg_bin(a, HLO_ADD, s, hlo_operand(t, 0)), hlo_operand(t, 1),
                        hlo_operand(t, 2));
  return scatter_like(a, s, pass_alg_bin(a, HLO_ADD, hlo_operand(s, 0), t), hlo_operand(s, 1),
                      hlo_operand(s, 2));
}

// transpose(scatter(A, I, U)) = scatter(transpose(A), I, transpose(U)): the scatter writes in the
// new order
ALG_RULE(transpose_scatter) {
  hlo_instr *s = X;
  if (!a->fold_transpose_into_scatter || a->layout_sensitive || s->opcode != HLO_SCATTER ||
      s->noperands != 3 || !alg_one_use(s) || hlo_attr_ints(s, HLO_ATTR_INPUT_BATCHING_DIMS).n)
    return NULL;
  hlo_ints p = alg_dims(i), ins = hlo_attr_ints(s, HLO_ATTR_INSERTED_WINDOW_DIMS),
           map = hlo_attr_ints(s, HLO_ATTR_SCATTER_DIMS_TO_OPERAND_DIMS);
  hlo_ints windows = hlo_attr_ints(s, HLO_ATTR_UPDATE_WINDOW_DIMS);
  const hlo_shape *ids = hlo_operand(s, 1)->shape;  // as scatter_simplifier leaves it
  if (ins.n || hlo_attr_int(s, HLO_ATTR_INDEX_VECTOR_DIM, 0) + 1 != (i64)ids->rank ||
      hlo_operand(s, 2)->shape->rank != windows.n + 1 || !pass_alg_sorted(windows.n, windows.v) ||
      pass_alg_has(windows, 0))
    return NULL;
  u32 rank = p.n, urank = hlo_operand(s, 2)->shape->rank, w = 0, n = 0;
  i64 *inv = pass_alg_dims_new(a, rank), *window = pass_alg_dims_new(a, rank),
      *nins = pass_alg_dims_new(a, rank), *nmap = pass_alg_dims_new(a, map.n),
      *up = pass_alg_dims_new(a, urank);
  for (u32 k = 0; k < rank; k++) {
    inv[p.v[k]] = k;
    // the updates' dimension that shows operand dimension k
    window[k] = pass_alg_has(ins, k) ? -1 : windows.v[w++];
  }
  for (u32 k = 0; k < urank; k++) up[k] = k;
  w = 0;
  for (u32 k = 0; k < rank; k++) {
    if (window[p.v[k]] < 0) nins[n++] = k;
    else up[windows.v[w++]] = window[p.v[k]];
  }
  for (u32 k = 0; k < map.n; k++) nmap[k] = inv[map.v[k]];
  hlo_instr *base = pass_alg_transpose(a, hlo_operand(s, 0), p.v),
            *u = pass_alg_transpose(a, hlo_operand(s, 2), up);
  hlo_instr *now = pass_alg_like(a, s, i->shape, 3, (hlo_instr *[]){base, hlo_operand(s, 1), u});
  hlo_set_attr_ints(now, HLO_ATTR_INSERTED_WINDOW_DIMS, n, nins);
  hlo_set_attr_ints(now, HLO_ATTR_SCATTER_DIMS_TO_OPERAND_DIMS, map.n, nmap);
  return now;
}
