// resize_rules.c — the rules of resize.def: which dimensions of an instruction's operands and
// result are tied to each other. See resize_rules.h.
//
// A rule works in both directions: what is known on one side is set on the other. Where the sizes
// that are known leave a choice, a rule waits until `choosing`, when nothing certain is left.
#include "passes/buffer/resize_rules.h"

#include "core/analysis/customcall.h"
#include "passes/buffer/resize_windows.h"

// ---- ties ---------------------------------------------------------------------------------------

// Two dimensions that are equal. Those of different sizes (1 stretched, say) are not tied.
static void tie(resizer *r, u32 a, u32 b) {
  if (r->old.v[a] != r->old.v[b]) return;
  if (changed(r, a)) resize_set_part(r, b, r->now.v[a], r->low.v[a], r->high.v[a]);
  if (changed(r, b)) resize_set_part(r, a, r->now.v[b], r->low.v[b], r->high.v[b]);
}

// a is k times b.
static void tie_times(resizer *r, u32 a, u32 b, i64 k) {
  i64 product;
  if (changed(r, a) && r->now.v[a] % k == 0) resize_set(r, b, r->now.v[a] / k);
  if (changed(r, b) && hs_mul_ok(r->now.v[b], k, &product)) resize_set(r, a, product);
}

// All dimensions of two leaves; those of different rank are not tied.
static void tie_leaves(resizer *r, const hlo_instr *a, u32 la, const hlo_instr *b, u32 lb) {
  u32 n = leaf_rank(r, a, la);
  for (u32 d = 0; n == leaf_rank(r, b, lb) && d < n; d++)
    tie(r, node_of(r, a, la, d), node_of(r, b, lb, d));
}

static void tie_values(resizer *r, const hlo_instr *a, const hlo_instr *b) {
  u32 n = hlo_shape_leaves(a->shape);
  for (u32 l = 0; n == hlo_shape_leaves(b->shape) && l < n; l++) tie_leaves(r, a, l, b, l);
}

static u32 operand_node(const resizer *r, const hlo_instr *i, u32 k, u32 dim) {
  return node_of(r, hlo_operand(i, k), 0, dim);
}
static u32 operand_rank(const resizer *r, const hlo_instr *i, u32 k) {
  return leaf_rank(r, hlo_operand(i, k), 0);
}

// ---- values that are handed on ------------------------------------------------------------------

static void resize_free(resizer *r, hlo_instr *i) {
  (void)r;
  (void)i;
}

static void resize_same(resizer *r, hlo_instr *i) {
  u32 n = i->opcode == HLO_ADD_DEPENDENCY ? 1 : i->noperands;
  for (u32 k = 0; k < n; k++) {
    if (i->opcode == HLO_BITCAST_CONVERT) {  // the last dimension may come or go
      u32 rank = HS_MIN(leaf_rank(r, i, 0), operand_rank(r, i, k));
      for (u32 d = 0; d < rank; d++) tie(r, node_of(r, i, 0, d), operand_node(r, i, k, d));
    } else tie_values(r, hlo_operand(i, k), i);
  }
}

// The leaves of the operands, one after the other, are those of the result.
static void resize_leaves(resizer *r, hlo_instr *i) {
  u32 at = 0, n = hlo_shape_leaves(i->shape);
  for (u32 k = 0; k < i->noperands; k++) {
    const hlo_instr *o = hlo_operand(i, k);
    for (u32 l = 0, m = hlo_shape_leaves(o->shape); l < m && at < n; l++, at++)
      tie_leaves(r, o, l, i, at);
  }
}

static void resize_element(resizer *r, hlo_instr *i) {
  const hlo_instr *t = hlo_operand(i, 0);
  u32 at = hlo_shape_leaf_offset(t->shape, hlo_attr_int(i, HLO_ATTR_INDEX, 0));
  for (u32 l = 0, n = hlo_shape_leaves(i->shape); l < n; l++) tie_leaves(r, t, at + l, i, l);
}

static void resize_call(resizer *r, hlo_instr *i) {
  const hlo_computation *c = hlo_fusion_comp(i);
  for (u32 k = 0; c && k < i->noperands && k < c->nparams; k++)
    tie_values(r, hlo_operand(i, k), c->params[k]);
  if (c) tie_values(r, c->root, i);
}

static void resize_loop(resizer *r, hlo_instr *i) {
  const hlo_computation *cond = hlo_attr_comp(i, HLO_ATTR_CONDITION),
                        *body = hlo_attr_comp(i, HLO_ATTR_BODY);
  const hlo_instr *all[] = {hlo_operand(i, 0), cond->params[0], body->params[0], body->root};
  for (size_t k = 0; k < HS_COUNT(all); k++) tie_values(r, all[k], i);
}

static void resize_conditional(resizer *r, hlo_instr *i) {
  for (u32 k = 0, n = hlo_ncalled(i); k < n && k + 1 < i->noperands; k++) {
    tie_values(r, hlo_operand(i, k + 1), hlo_called(i, k)->params[0]);
    tie_values(r, hlo_called(i, k)->root, i);
  }
}

// ---- moving data --------------------------------------------------------------------------------

static void resize_broadcast(resizer *r, hlo_instr *i) {
  hlo_ints dims = hlo_attr_ints(i, HLO_ATTR_DIMENSIONS);
  for (u32 d = 0; d < dims.n; d++)
    tie(r, operand_node(r, i, 0, d), node_of(r, i, 0, (u32)dims.v[d]));
}

static void resize_transpose(resizer *r, hlo_instr *i) {
  hlo_ints perm = hlo_attr_ints(i, HLO_ATTR_DIMENSIONS);
  for (u32 d = 0; d < perm.n; d++)
    tie(r, operand_node(r, i, 0, (u32)perm.v[d]), node_of(r, i, 0, d));
}

// Dimensions [a, a + na) of one side of a reshape stand for [b, b + nb) of the other.
typedef struct group {
  u32 a, na, b, nb;
} group;

static bool products(const resizer *r, const group *g, i64 *pa, i64 *pb, u32 *ca, u32 *cb) {
  *pa = *pb = 1;
  *ca = *cb = 0;
  for (u32 k = 0; k < g->na; k++) {
    if (!hs_mul_ok(*pa, size_at(r, g->a + k), pa)) return false;
    *ca += changed(r, g->a + k);
  }
  for (u32 k = 0; k < g->nb; k++) {
    if (!hs_mul_ok(*pb, size_at(r, g->b + k), pb)) return false;
    *cb += changed(r, g->b + k);
  }
  return true;
}

// What grows on one side of a group, in elements of the whole group.
static void growth(const resizer *r, u32 first, u32 n, i64 *low, i64 *high) {
  i64 inside = 1;
  *low = 1;
  *high = INT64_MAX;
  for (u32 k = first + n; k-- > first; inside *= r->old.v[k])
    if (changed(r, k)) {
      *low = r->low.v[k] * inside;
      *high = r->high.v[k] * inside;
    }
}

// Lets one of n unchanged dimensions take up the factor num / den: the outermost that lies where
// the other side grows, else the outermost that can.
static bool absorb(resizer *r, u32 first, u32 n, i64 num, i64 den, i64 low, i64 high,
                   bool only_one) {
  u32 best = NO_NODE, open = 0;
  bool best_there = false;
  i64 inside = 1, best_inside = 1;
  for (u32 k = first + n; k-- > first; inside *= r->old.v[k]) {
    i64 product, size = r->old.v[k];
    if (changed(r, k)) continue;
    open += size > 1 || n == 1;
    if (!hs_mul_ok(size, num, &product) || product % den || !product) continue;
    if (size == 1 && n > 1 && r->from != 1) continue;
    bool there = inside < high && inside * size > low;
    if (best != NO_NODE && best_there && !there) continue;
    best = k;
    best_there = there;
    best_inside = inside;
  }
  if (best == NO_NODE || (only_one && open != 1)) return false;
  i64 size = r->old.v[best];
  if (best_there)
    resize_set_part(r, best, size * num / den, HS_MAX(low / best_inside, (i64)1),
                    HS_MIN(high / best_inside, size));
  else resize_set(r, best, size * num / den);
  return true;
}

static void settle(resizer *r, const group *g) {
  i64 pa, pb, low_a, high_a, low_b, high_b;
  u32 ca, cb;
  if (!products(r, g, &pa, &pb, &ca, &cb) || pa == pb || !pa || !pb) return;
  growth(r, g->a, g->na, &low_a, &high_a);
  growth(r, g->b, g->nb, &low_b, &high_b);
  // certain: one side has changed and the other has a single dimension to take it up
  if (!cb && absorb(r, g->b, g->nb, pa, pb, low_a, high_a, !r->choosing)) return;
  if (!ca && absorb(r, g->a, g->na, pb, pa, low_b, high_b, !r->choosing)) return;
  if (r->choosing && ca && cb && !absorb(r, g->b, g->nb, pa, pb, low_a, high_a, false))
    (void)absorb(r, g->a, g->na, pb, pa, low_b, high_b, false);
}

static void resize_reshape(resizer *r, hlo_instr *i) {
  u32 a = operand_node(r, i, 0, 0), ea = a + operand_rank(r, i, 0), b = node_of(r, i, 0, 0),
      eb = b + leaf_rank(r, i, 0);
  if (!i->shape->elements) return;
  while (a < ea || b < eb) {
    group g = {a, 0, b, 0};
    i64 pa = 1, pb = 1;
    if (a < ea) pa = r->old.v[a + g.na++];
    if (b < eb) pb = r->old.v[b + g.nb++];
    while (pa != pb) {
      if (pa < pb && a + g.na < ea) pa *= r->old.v[a + g.na++];
      else if (pb < pa && b + g.nb < eb) pb *= r->old.v[b + g.nb++];
      else break;
    }
    settle(r, &g);
    a += g.na;
    b += g.nb;
  }
}

// Only where it cannot reorder: both row-major, or without layouts.
static void resize_bitcast(resizer *r, hlo_instr *i) {
  const hlo_instr *o = hlo_operand(i, 0);
  if (i->shape->dtype != o->shape->dtype) return;
  if (i->shape->logical == o->shape->logical) resize_same(r, i);
  else if (hlo_shape_is_row_major(i->shape) && hlo_shape_is_row_major(o->shape))
    resize_reshape(r, i);
}

static void resize_concatenate(resizer *r, hlo_instr *i) {
  i64 along = hlo_attr_ints(i, HLO_ATTR_DIMENSIONS).v[0];
  u32 out = node_of(r, i, 0, (u32)along);
  for (u32 k = 0; k < i->noperands; k++)
    for (u32 d = 0; d < leaf_rank(r, i, 0); d++)
      if ((i64)d != along) tie(r, operand_node(r, i, k, d), node_of(r, i, 0, d));
  i64 sum = 0, open = 0;
  u32 largest = NO_NODE;
  for (u32 k = 0; k < i->noperands; k++) {
    u32 n = operand_node(r, i, k, (u32)along);
    sum += size_at(r, n);
    if (changed(r, n)) continue;
    open += r->old.v[n];
    if (largest == NO_NODE || r->old.v[n] > r->old.v[largest]) largest = n;
  }
  if (!r->choosing || sum == size_at(r, out)) return;
  if (!changed(r, out)) {
    resize_set(r, out, sum);
    return;
  }
  // The result is given: the open parts grow in proportion, or the largest takes it all.
  i64 want = r->now.v[out] - (sum - open);
  bool even = largest != NO_NODE && open > 0 && want > 0;
  for (u32 k = 0; even && k < i->noperands; k++) {
    u32 n = operand_node(r, i, k, (u32)along);
    even = changed(r, n) || r->old.v[n] * want % open == 0;
  }
  for (u32 k = 0; even && k < i->noperands; k++) {
    u32 n = operand_node(r, i, k, (u32)along);
    if (!changed(r, n)) resize_set(r, n, r->old.v[n] * want / open);
  }
  if (!even && largest != NO_NODE && want > open - r->old.v[largest])
    resize_set(r, largest, r->old.v[largest] + want - open);
}

// Whether another slice with that step leaves `size` elements, or one more or less.
static bool leaves_about(const resizer *r, i64 stride, i64 size) {
  hlo_for_each_comp(c, r->m) {
    hlo_for_each_instr(i, c) {
      const hlo_slices *s = i->opcode == HLO_SLICE ? hlo_attr_ptr(i, HLO_ATTR_SLICE) : NULL;
      for (u32 d = 0; s && d < s->n; d++) {
        i64 n = r->old.v[node_of(r, i, 0, d)];
        if (s->v[d].stride == stride && n >= size - 1 && n <= size + 1) return true;
      }
    }
  }
  return false;
}

// Scans, sums and transforms call themselves with every second element until one is left, as often
// as the old size lets them: a module for another size would do so more often, and this one would
// end with some left. The last step may be a slice of one element of two by now.
static bool ends_recursion(const resizer *r, hlo_slice_dim s, u32 in, u32 out) {
  i64 old = r->old.v[out];
  if (s.stride < 2 || old >= 2 * s.stride || size_at(r, out) <= old) return false;
  return old <= 1 || leaves_about(r, s.stride, r->old.v[in]);
}

static hlo_slice_dim slice_dim(const hlo_instr *i, u32 d) {
  return ((const hlo_slices *)hlo_attr_ptr(i, HLO_ATTR_SLICE))->v[d];
}

// Whether a slice is the shorter piece of a rolled array, which is its end before its beginning:
// how far it is rolled does not depend on its size.
static bool is_shift(const resizer *r, const hlo_instr *i, u32 d) {
  const hlo_slice_dim s = slice_dim(i, d);
  i64 size = r->old.v[operand_node(r, i, 0, d)];
  if (s.stride != 1 || 2 * (s.limit - s.start) >= size || (s.start > 0 && s.limit < size))
    return false;
  hlo_for_each_use(u, i) {
    const hlo_instr *c = u->user;
    if (c->opcode != HLO_CONCATENATE || c->noperands != 2 ||
        hlo_attr_ints(c, HLO_ATTR_DIMENSIONS).v[0] != (i64)d)
      continue;
    const hlo_instr *end = hlo_operand(c, 0), *begin = hlo_operand(c, 1);
    if (end->opcode != HLO_SLICE || begin->opcode != HLO_SLICE ||
        hlo_operand(end, 0) != hlo_operand(begin, 0))
      continue;
    const hlo_slice_dim e = slice_dim(end, d), b = slice_dim(begin, d);
    if (b.start == 0 && b.limit == e.start && e.limit == size && e.stride == 1 && b.stride == 1)
      return true;
  }
  return false;
}

static void resize_slice(resizer *r, hlo_instr *i) {
  const hlo_slices *s = hlo_attr_ptr(i, HLO_ATTR_SLICE);
  for (u32 d = 0; s && d < s->n; d++) {
    u32 in = operand_node(r, i, 0, d), out = node_of(r, i, 0, d);
    if (s->v[d].start == 0 && s->v[d].limit == r->old.v[in] && s->v[d].stride == 1) {
      tie(r, in, out);
      continue;
    }
    hlo_slice_dim now;
    i64 size;
    if (!r->choosing) continue;
    if (changed(r, in) && !changed(r, out)) {
      if (is_shift(r, i, d)) continue;
      if (resize_plan_slice(s->v[d], r->old.v[in], r->now.v[in], 0, &now)) {
        i64 got = resize_slice_size(now);
        if (got != r->old.v[out]) resize_set(r, out, got);
      }
    } else if (changed(r, out) && !changed(r, in) &&
               !resize_plan_slice(s->v[d], r->old.v[in], r->old.v[in], r->now.v[out], &now) &&
               hs_mul_ok(r->old.v[in], r->now.v[out], &size) && size % r->old.v[out] == 0)
      resize_set(r, in, size / r->old.v[out]);
    if (hs_ok(r->failed) && ends_recursion(r, s->v[d], in, out))
      r->failed = hs_with_note(
          hs_fail_subject(HS_E_UNSUPPORTED, hlo_op_text(i->opcode),
                          "%s (%s) cannot follow: with steps of %lld it ends where %lld of %lld "
                          "are left, and would leave %lld",
                          i->name, hlo_op_text(i->opcode), (long long)s->v[d].stride,
                          (long long)r->old.v[out], (long long)r->old.v[in],
                          (long long)size_at(r, out)),
          "how often a scan or a transform halves its operand depends on the size: lower the "
          "program for the new one");
  }
}

static void resize_pad(resizer *r, hlo_instr *i) {
  const hlo_padding *p = hlo_attr_ptr(i, HLO_ATTR_PADDING);
  for (u32 d = 0; p && d < p->n; d++) {
    u32 in = operand_node(r, i, 0, d), out = node_of(r, i, 0, d);
    if (!p->v[d].low && !p->v[d].high && !p->v[d].interior) {
      tie(r, in, out);
      continue;
    }
    i64 size;
    if (!r->choosing) continue;
    if (changed(r, in) && !changed(r, out)) {
      size = resize_padded(p->v[d], r->old.v[in], r->old.v[out], r->now.v[in]);
      if (size > 0 && size != r->old.v[out]) resize_set(r, out, size);
    } else if (changed(r, out) && !changed(r, in)) {
      size = resize_unpadded(p->v[d], r->old.v[in], r->old.v[out], r->now.v[out]);
      if (size > 0 && size != r->old.v[in]) resize_set(r, in, size);
    }
  }
}

static void resize_dynamic_slice(resizer *r, hlo_instr *i) {
  hlo_ints sizes = hlo_attr_ints(i, HLO_ATTR_DYNAMIC_SLICE_SIZES);
  for (u32 d = 0; d < sizes.n; d++) tie(r, operand_node(r, i, 0, d), node_of(r, i, 0, d));
}

static void resize_dynamic_update_slice(resizer *r, hlo_instr *i) {
  tie_leaves(r, hlo_operand(i, 0), 0, i, 0);
  tie_leaves(r, hlo_operand(i, 0), 0, hlo_operand(i, 1), 0);
}

// ---- gather and scatter -------------------------------------------------------------------------

// The dims of the array behind index_vector_dim, against those of `node` that are not in `window`.
static void tie_batch(resizer *r, const hlo_instr *indices, i64 vector, const hlo_instr *x,
                      u32 leaf, hlo_ints window) {
  u32 b = 0, rank = leaf_rank(r, indices, 0);
  for (u32 d = 0; d < leaf_rank(r, x, leaf); d++) {
    if (hlo_ints_has(window, d)) continue;
    if ((i64)b == vector) b++;
    if (b < rank) tie(r, node_of(r, indices, 0, b++), node_of(r, x, leaf, d));
  }
}

// Window dims of x against the dims of the array that are neither dropped nor batch dims.
static void tie_window(resizer *r, const hlo_instr *array, hlo_ints dropped, hlo_ints batch,
                       const hlo_instr *x, u32 leaf, hlo_ints window) {
  u32 w = 0;
  for (u32 d = 0; d < leaf_rank(r, array, 0); d++) {
    if (hlo_ints_has(dropped, d) || hlo_ints_has(batch, d)) continue;
    if (w < window.n) tie(r, node_of(r, array, 0, d), node_of(r, x, leaf, (u32)window.v[w++]));
  }
}

static void tie_lists(resizer *r, const hlo_instr *a, hlo_ints da, const hlo_instr *b,
                      hlo_ints db) {
  for (u32 k = 0; k < da.n && k < db.n; k++)
    tie(r, node_of(r, a, 0, (u32)da.v[k]), node_of(r, b, 0, (u32)db.v[k]));
}

static void resize_gather(resizer *r, hlo_instr *i) {
  const hlo_instr *array = hlo_operand(i, 0), *indices = hlo_operand(i, 1);
  hlo_ints offset = hlo_attr_ints(i, HLO_ATTR_OFFSET_DIMS),
           batch = hlo_attr_ints(i, HLO_ATTR_OPERAND_BATCHING_DIMS);
  tie_batch(r, indices, hlo_attr_int(i, HLO_ATTR_INDEX_VECTOR_DIM, 0), i, 0, offset);
  tie_window(r, array, hlo_attr_ints(i, HLO_ATTR_COLLAPSED_SLICE_DIMS), batch, i, 0, offset);
  tie_lists(r, array, batch, indices, hlo_attr_ints(i, HLO_ATTR_START_INDICES_BATCHING_DIMS));
}

static void resize_scatter(resizer *r, hlo_instr *i) {
  u32 n = (i->noperands - 1) / 2;
  const hlo_instr *indices = hlo_operand(i, n);
  hlo_ints window = hlo_attr_ints(i, HLO_ATTR_UPDATE_WINDOW_DIMS),
           batch = hlo_attr_ints(i, HLO_ATTR_INPUT_BATCHING_DIMS);
  for (u32 k = 0; k < n; k++) {
    const hlo_instr *array = hlo_operand(i, k), *updates = hlo_operand(i, n + 1 + k);
    tie_leaves(r, array, 0, i, k);
    tie_batch(r, indices, hlo_attr_int(i, HLO_ATTR_INDEX_VECTOR_DIM, 0), updates, 0, window);
    tie_window(r, array, hlo_attr_ints(i, HLO_ATTR_INSERTED_WINDOW_DIMS), batch, updates, 0,
               window);
    tie_lists(r, array, batch, indices, hlo_attr_ints(i, HLO_ATTR_SCATTER_INDICES_BATCHING_DIMS));
  }
}

// ---- contractions, reductions, windows ----------------------------------------------------------

static void resize_dot(resizer *r, hlo_instr *i) {
  const hlo_instr *a = hlo_operand(i, 0), *b = hlo_operand(i, 1);
  hlo_ints ab = hlo_attr_ints(i, HLO_ATTR_LHS_BATCH_DIMS),
           bb = hlo_attr_ints(i, HLO_ATTR_RHS_BATCH_DIMS),
           ac = hlo_attr_ints(i, HLO_ATTR_LHS_CONTRACTING_DIMS),
           bc = hlo_attr_ints(i, HLO_ATTR_RHS_CONTRACTING_DIMS);
  tie_lists(r, a, ab, b, bb);
  tie_lists(r, a, ac, b, bc);
  u32 at = 0;
  for (; at < ab.n; at++) tie(r, node_of(r, a, 0, (u32)ab.v[at]), node_of(r, i, 0, at));
  for (u32 d = 0; d < leaf_rank(r, a, 0); d++)
    if (!hlo_ints_has(ab, d) && !hlo_ints_has(ac, d))
      tie(r, node_of(r, a, 0, d), node_of(r, i, 0, at++));
  for (u32 d = 0; d < leaf_rank(r, b, 0); d++)
    if (!hlo_ints_has(bb, d) && !hlo_ints_has(bc, d))
      tie(r, node_of(r, b, 0, d), node_of(r, i, 0, at++));
}

static void resize_reduce(resizer *r, hlo_instr *i) {
  hlo_ints dims = hlo_attr_ints(i, HLO_ATTR_DIMENSIONS);
  for (u32 k = 0; k < i->noperands / 2; k++) {
    const hlo_instr *o = hlo_operand(i, k);
    tie_leaves(r, o, 0, hlo_operand(i, 0), 0);
    for (u32 d = 0, at = 0; d < leaf_rank(r, o, 0); d++)
      if (!hlo_ints_has(dims, d)) tie(r, node_of(r, o, 0, d), node_of(r, i, k, at++));
  }
}

// One windowed dimension: `in` slides under a window and gives `out`.
static void tie_window_dim(resizer *r, u32 in, u32 out, hlo_window_dim w, bool follows) {
  if (changed(r, in)) {
    i64 size =
        resize_windows(resize_plan_window(w, r->old.v[in], r->now.v[in], follows), r->now.v[in]);
    if (size > 0 && (size != r->old.v[out] || changed(r, out))) resize_set(r, out, size);
  } else if (changed(r, out)) {
    i64 size = resize_under(w, r->old.v[in], r->old.v[out], r->now.v[out], follows);
    if (size > 0) resize_set(r, in, size);
  }
}

static void resize_reduce_window(resizer *r, hlo_instr *i) {
  const hlo_window *w = hlo_attr_ptr(i, HLO_ATTR_WINDOW);
  for (u32 k = 0; w && k < i->noperands / 2; k++) {
    tie_leaves(r, hlo_operand(i, k), 0, hlo_operand(i, 0), 0);
    for (u32 d = 0; d < w->n; d++)
      tie_window_dim(r, operand_node(r, i, k, d), node_of(r, i, k, d), w->v[d], true);
  }
}

static void resize_select_and_scatter(resizer *r, hlo_instr *i) {
  const hlo_window *w = hlo_attr_ptr(i, HLO_ATTR_WINDOW);
  tie_leaves(r, hlo_operand(i, 0), 0, i, 0);
  for (u32 d = 0; w && d < w->n; d++)
    tie_window_dim(r, operand_node(r, i, 0, d), operand_node(r, i, 1, d), w->v[d], false);
}

static void resize_convolution(resizer *r, hlo_instr *i) {
  const hlo_dim_labels *l = hlo_attr_ptr(i, HLO_ATTR_DIM_LABELS);
  const hlo_window *w = hlo_attr_ptr(i, HLO_ATTR_WINDOW);
  const hlo_instr *a = hlo_operand(i, 0), *b = hlo_operand(i, 1);
  tie_times(r, node_of(r, a, 0, (u32)l->lhs_batch), node_of(r, i, 0, (u32)l->out_batch),
            hlo_attr_int(i, HLO_ATTR_BATCH_GROUP_COUNT, 1));
  tie_times(r, node_of(r, a, 0, (u32)l->lhs_feature), node_of(r, b, 0, (u32)l->rhs_input_feature),
            hlo_attr_int(i, HLO_ATTR_FEATURE_GROUP_COUNT, 1));
  tie(r, node_of(r, b, 0, (u32)l->rhs_output_feature), node_of(r, i, 0, (u32)l->out_feature));
  for (u32 d = 0; w && d < w->n && d < l->nspatial; d++) {
    hlo_window_dim now = w->v[d];
    now.size = size_at(r, node_of(r, b, 0, (u32)l->rhs_spatial[d]));
    u32 in = node_of(r, a, 0, (u32)l->lhs_spatial[d]),
        out = node_of(r, i, 0, (u32)l->out_spatial[d]);
    tie_window_dim(r, in, out, now, false);
    if (r->choosing && now.size != w->v[d].size && !changed(r, in) && !changed(r, out)) {
      i64 size = resize_windows(now, r->old.v[in]);
      if (size > 0 && size != r->old.v[out]) resize_set(r, out, size);
    }
  }
}

// ---- the rest -----------------------------------------------------------------------------------

static void resize_sort(resizer *r, hlo_instr *i) {
  for (u32 k = 0; k < i->noperands; k++) {
    tie_leaves(r, hlo_operand(i, k), 0, hlo_operand(i, 0), 0);
    tie_leaves(r, hlo_operand(i, k), 0, i, k);
  }
}

static void resize_leading(resizer *r, hlo_instr *i) {
  for (u32 l = 0, n = hlo_shape_leaves(i->shape); l < n; l++)
    for (u32 d = 0; d + 1 < leaf_rank(r, i, l); d++)
      tie(r, operand_node(r, i, 0, d), node_of(r, i, l, d));
}

// The state keeps its size; nothing else has one.
static void resize_generator(resizer *r, hlo_instr *i) {
  tie_leaves(r, hlo_operand(i, 0), 0, i, 0);
}

static void resize_cholesky(resizer *r, hlo_instr *i) {
  u32 n = leaf_rank(r, i, 0);
  resize_same(r, i);
  tie(r, node_of(r, i, 0, n - 1), node_of(r, i, 0, n - 2));
}

static void resize_triangular(resizer *r, hlo_instr *i) {
  u32 n = leaf_rank(r, i, 0);
  bool left = hlo_attr_int(i, HLO_ATTR_LEFT_SIDE, 0);
  tie_leaves(r, hlo_operand(i, 1), 0, i, 0);
  for (u32 d = 0; d + 2 < n; d++) tie(r, operand_node(r, i, 0, d), node_of(r, i, 0, d));
  for (u32 d = n - 2; d < n; d++)
    tie(r, operand_node(r, i, 0, d), node_of(r, i, 0, left ? n - 2 : n - 1));
}

static void resize_fft(resizer *r, hlo_instr *i) {
  i64 type = hlo_attr_int(i, HLO_ATTR_FFT_TYPE, HLO_FFT_TYPE_FFT);
  u32 n = leaf_rank(r, i, 0);
  for (u32 d = 0; d < n; d++) {
    u32 in = operand_node(r, i, 0, d), out = node_of(r, i, 0, d);
    bool halved = d + 1 == n && (type == HLO_FFT_TYPE_RFFT || type == HLO_FFT_TYPE_IRFFT);
    u32 whole = type == HLO_FFT_TYPE_RFFT ? in : out, half = type == HLO_FFT_TYPE_RFFT ? out : in;
    if (!halved) tie(r, in, out);
    else if (changed(r, whole)) resize_set(r, half, r->now.v[whole] / 2 + 1);
    else if (changed(r, half)) resize_set(r, whole, 2 * (r->now.v[half] - 1));
  }
}

static void resize_batch_norm(resizer *r, hlo_instr *i) {
  const hlo_instr *x = hlo_operand(i, 0);
  u32 feature = node_of(r, x, 0, (u32)hlo_attr_int(i, HLO_ATTR_FEATURE_INDEX, 0));
  for (u32 k = 1; k < i->noperands; k++) {
    if (operand_rank(r, i, k) == 1) tie(r, operand_node(r, i, k, 0), feature);
    else tie_leaves(r, hlo_operand(i, k), 0, x, 0);
  }
  for (u32 l = 0, n = hlo_shape_leaves(i->shape); l < n; l++) {
    if (leaf_rank(r, i, l) == 1) tie(r, node_of(r, i, l, 0), feature);
    else tie_leaves(r, i, l, x, 0);
  }
}

// Two leaves, the second of which is a number of times longer along these dimensions.
static void tie_longer(resizer *r, const hlo_instr *a, u32 la, const hlo_instr *b, u32 lb,
                       hlo_ints dims) {
  for (u32 d = 0; d < leaf_rank(r, a, la) && d < leaf_rank(r, b, lb); d++) {
    u32 part = node_of(r, a, la, d), whole = node_of(r, b, lb, d);
    if (!hlo_ints_has(dims, d)) tie(r, part, whole);
    else if (r->old.v[part] > 0) tie_times(r, whole, part, r->old.v[whole] / r->old.v[part]);
  }
}

static void tie_collective(resizer *r, const hlo_instr *i, bool gathers) {
  hlo_ints dims = hlo_attr_ints(i, HLO_ATTR_DIMENSIONS);
  for (u32 k = 0, n = hlo_shape_leaves(i->shape); k < n && k < i->noperands; k++) {
    if (gathers) tie_longer(r, hlo_operand(i, k), 0, i, k, dims);
    else tie_longer(r, i, k, hlo_operand(i, k), 0, dims);
  }
}
static void resize_all_gather(resizer *r, hlo_instr *i) { tie_collective(r, i, true); }
static void resize_reduce_scatter(resizer *r, hlo_instr *i) { tie_collective(r, i, false); }

// ---- asynchronous operations --------------------------------------------------------------------

// The leaves of x from leaf `at` on, against those of a whole value.
static void tie_leaves_at(resizer *r, const hlo_instr *x, u32 at, const hlo_instr *value) {
  u32 n = hlo_shape_leaves(x->shape);
  for (u32 l = 0, m = hlo_shape_leaves(value->shape); l < m && at + l < n; l++)
    tie_leaves(r, x, at + l, value, l);
}

// ((operands), result, contexts): what is wrapped has a computation.
static void resize_async_start(resizer *r, hlo_instr *i) {
  const hlo_computation *c = hlo_ncalled(i) ? hlo_called(i, 0) : NULL;
  u32 at = 0;
  for (u32 k = 0; k < i->noperands; k++) {
    tie_leaves_at(r, i, at, hlo_operand(i, k));
    if (c && k < c->nparams) tie_values(r, hlo_operand(i, k), c->params[k]);
    at += hlo_shape_leaves(hlo_operand(i, k)->shape);
  }
  if (c) tie_leaves_at(r, i, at, c->root);
}

// The second element of what the start made.
static void resize_done(resizer *r, hlo_instr *i) {
  const hlo_instr *start = hlo_operand(i, 0);
  if (hlo_shape_is_tuple(start->shape) && start->shape->nelems > 1)
    tie_leaves_at(r, start, hlo_shape_leaves(start->shape->elems[0]), i);
}

// (a, b, context), both like the operand.
static void resize_copy_start(resizer *r, hlo_instr *i) {
  u32 n = hlo_shape_leaves(hlo_operand(i, 0)->shape);
  tie_leaves_at(r, i, 0, hlo_operand(i, 0));
  tie_leaves_at(r, i, n, hlo_operand(i, 0));
}

// ((operands), (results)).
static void resize_gather_start(resizer *r, hlo_instr *i) {
  hlo_ints dims = hlo_attr_ints(i, HLO_ATTR_DIMENSIONS);
  u32 n = i->noperands;
  if (hlo_shape_leaves(i->shape) < 2 * n) return;
  for (u32 k = 0; k < n; k++) {
    tie_leaves_at(r, i, k, hlo_operand(i, k));
    tie_longer(r, hlo_operand(i, k), 0, i, n + k, dims);
  }
}

static void resize_first(resizer *r, hlo_instr *i) { tie_values(r, hlo_operand(i, 0), i); }

// ---- custom calls -------------------------------------------------------------------------------

// Operand k and leaf k; each dimension is the same, or one is a number of times the other.
static void resize_shards(resizer *r, hlo_instr *i) {
  for (u32 l = 0, n = hlo_shape_leaves(i->shape); l < n && l < i->noperands; l++)
    for (u32 d = 0; d < leaf_rank(r, i, l) && d < operand_rank(r, i, l); d++) {
      u32 a = operand_node(r, i, l, d), b = node_of(r, i, l, d);
      bool wider = r->old.v[a] >= r->old.v[b];
      u32 whole = wider ? a : b, part = wider ? b : a;
      if (r->old.v[part] <= 0 || r->old.v[whole] % r->old.v[part]) continue;
      i64 k = r->old.v[whole] / r->old.v[part];
      tie_times(r, whole, part, k);
      if (hs_ok(r->failed) && r->now.v[whole] % k)
        r->failed = hs_fail(HS_E_SHAPE, "%s cannot follow: %lld devices do not divide %lld evenly",
                            i->name, (long long)k, (long long)r->now.v[whole]);
    }
}

// The dimensions before the last two of the first operand begin everything else, too.
static void resize_batch(resizer *r, hlo_instr *i) {
  u32 rank = operand_rank(r, i, 0);
  for (u32 d = 0; d + 2 < rank; d++) {
    u32 batch = operand_node(r, i, 0, d);
    for (u32 k = 1; k < i->noperands; k++)
      if (d < operand_rank(r, i, k)) tie(r, batch, operand_node(r, i, k, d));
    for (u32 l = 0, n = hlo_shape_leaves(i->shape); l < n; l++)
      if (d < leaf_rank(r, i, l)) tie(r, batch, node_of(r, i, l, d));
  }
}

// A factorization or solve with one matrix: what has its rank is square or has its rows.
static void resize_factor(resizer *r, hlo_instr *i) {
  u32 rank = operand_rank(r, i, 0);
  const hlo_instr *last = hlo_operand(i, i->noperands - 1);
  resize_batch(r, i);
  if (rank < 2) return;
  tie(r, operand_node(r, i, 0, rank - 2), operand_node(r, i, 0, rank - 1));
  tie_leaves(r, last, 0, i, 0);
  if (leaf_rank(r, last, 0) != rank) return;
  for (u32 d = rank - 2; d < rank; d++)
    if (r->old.v[node_of(r, last, 0, d)] == r->old.v[operand_node(r, i, 0, d)])
      tie(r, node_of(r, last, 0, d), operand_node(r, i, 0, d));
}

static void resize_custom_call(resizer *r, hlo_instr *i) {
  resize_rule *rule = resize_custom_rule(i);
  if (rule) rule(r, i);
}

// ---- the tables ---------------------------------------------------------------------------------

resize_rule *resize_rule_of(const hlo_instr *i) {
  switch (i->opcode) {
#define RESIZE(opcode, rule, edit) \
  case HLO_##opcode:               \
    return resize_##rule;
#include "passes/buffer/resize.def"
#undef RESIZE
  default: return hlo_op_has(i->opcode, HLO_F_ELEMENTWISE) ? resize_same : NULL;
  }
}

resize_rule *resize_custom_rule(const hlo_instr *i) {
  if (hlo_custom_is_marker(i)) return resize_leaves;
  switch (hlo_custom_find(hlo_attr_str(i, HLO_ATTR_CUSTOM_CALL_TARGET))) {
#define RESIZE_CUSTOM(id, rule) \
  case HLO_CUSTOM_##id:         \
    return resize_##rule;
#include "passes/buffer/resize.def"
#undef RESIZE_CUSTOM
  default: return NULL;
  }
}

bool resize_custom_is_batch(const hlo_instr *i) { return resize_custom_rule(i) == resize_batch; }
