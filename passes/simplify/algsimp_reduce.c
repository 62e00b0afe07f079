// algsimp_reduce.c — reductions over empty or size-1 dimensions, and of broadcasts, transposes,
// reshapes and other reductions; reduce-windows that are simpler operations; sorts of one element.
#include "passes/simplify/algsimp.h"

#define X hlo_operand(i, 0)
#define Y hlo_operand(i, 1)

static bool simple(const hlo_instr *i) { return i->noperands == 2 && hlo_shape_is_array(i->shape); }

// In which precision a reduction joins elements: another one, of its result, may not hold them.
static hlo_dtype reducer_type(const hlo_instr *i) {
  return hlo_attr_comp(i, HLO_ATTR_TO_APPLY)->root->shape->dtype;
}

// x, shaped like the result of reduction i, and the initial value once
static hlo_instr *apply(alg *a, hlo_instr *i, hlo_opcode op, hlo_instr *x) {
  if (!pass_alg_is_identity(op, Y)) {
    x = pass_alg_convert(a, x, reducer_type(i));
    x = pass_alg_bin(a, op, x, pass_alg_spread(a, Y, x->shape));
  }
  return pass_alg_convert(a, x, i->shape->dtype);
}

// Nothing to reduce: the initial value
ALG_RULE(reduce_empty) {
  if (!simple(i) || X->shape->elements != 0) return NULL;
  return pass_alg_spread(a, Y, i->shape);
}

// Only extents of 1 are reduced (or nothing is): reshape, and the initial value once
ALG_RULE(reduce_trivial) {
  hlo_opcode op = pass_alg_reducer(hlo_attr_comp(i, HLO_ATTR_TO_APPLY));
  if (!simple(i) || X->shape->elements != i->shape->elements || i->shape->elements == 0 ||
      op == HLO_OP_INVALID)
    return NULL;
  if (a->layout_sensitive && !(a->bitcasts && pass_reshape_is_bitcast(X->shape, i->shape)))
    return NULL;
  return apply(a, i, op, pass_alg_reshape_to(a, X, pass_shape_as(i, X->shape->dtype)));
}

static bool same_function(const hlo_computation *f, const hlo_computation *g) {
  hlo_opcode op = pass_alg_reducer(f);
  return f == g ||
         (op != HLO_OP_INVALID && op == pass_alg_reducer(g) && f->root->shape == g->root->shape);
}

// reduce(reduce(A)) by one function: one reduction over both sets of dimensions
ALG_RULE(reduce_reduce) {
  hlo_instr *in = X;
  hlo_computation *f = hlo_attr_comp(i, HLO_ATTR_TO_APPLY);
  if (!simple(i) || a->layout_sensitive || in->opcode != HLO_REDUCE || !simple(in) ||
      !alg_one_use(in))
    return NULL;
  if (!same_function(f, hlo_attr_comp(in, HLO_ATTR_TO_APPLY)) ||
      !pass_alg_same(Y, hlo_operand(in, 1)) || pass_alg_counts_init_again(in))
    return NULL;
  hlo_ints inner = alg_dims(in), outer = alg_dims(i);
  const hlo_shape *s = hlo_operand(in, 0)->shape;
  i64 *dims = pass_alg_dims_new(a, s->rank);
  u32 n = 0, kept = 0;
  for (u32 k = 0; k < s->rank; k++) {
    // outer counts what the inner one leaves
    bool gone = pass_alg_has(inner, k) || pass_alg_has(outer, kept++);
    if (gone) dims[n++] = k;
  }
  return pass_alg_reduce(a, hlo_operand(in, 0), Y, n, dims, f);
}

// reduce(transpose(A)) over the dimensions of A; what is left may need a transpose
ALG_RULE(reduce_transpose) {
  hlo_instr *t = X;
  if (!simple(i) || t->opcode != HLO_TRANSPOSE || a->layout_sensitive) return NULL;
  hlo_ints p = alg_dims(t), d = alg_dims(i);
  bool only_reduces = true;
  hlo_for_each_use(u, t) only_reduces &= u->user->opcode == HLO_REDUCE;
  if (!a->reduce_of_moved && i->shape->rank >= 2 && t->nuses != 1 && !only_reduces) return NULL;
  i64 *dims = pass_alg_dims_new(a, d.n), *perm = pass_alg_dims_new(a, p.n);
  u32 n = 0, left = 0;
  for (u32 k = 0; k < p.n; k++)
    for (u32 j = 0; j < d.n; j++)
      if (p.v[d.v[j]] == k) dims[n++] = k;
  for (u32 k = 0; k < p.n; k++) {
    if (pass_alg_has(d, k)) continue;
    perm[left] = p.v[k];
    for (u32 j = 0; j < n; j++) perm[left] -= dims[j] < p.v[k];
    left++;
  }
  return pass_alg_transpose(
      a, pass_alg_reduce(a, hlo_operand(t, 0), Y, n, dims, hlo_attr_comp(i, HLO_ATTR_TO_APPLY)),
      perm);
}

// reduce(reshape(A)): over A itself when the reshape merges or splits within the reduced dimensions
// only; before the reshape when it leaves the reduced dimensions alone
ALG_RULE(reduce_reshape) {
  if (!simple(i) || X->opcode != HLO_RESHAPE || a->layout_sensitive || !a->reduce_of_reshape)
    return NULL;
  const hlo_shape *from = hlo_operand(X, 0)->shape, *to = X->shape;
  hlo_ints d = alg_dims(i);
  hlo_dim_group *g = HS_NEW_ARRAY(a->p->scratch, hlo_dim_group, from->rank + to->rank + 2);
  u32 groups = pass_dim_groups(from, to, g), n = 0;
  i64 *dims = pass_alg_dims_new(a, from->rank);
  // such dimensions are the same on both sides of the reshape
  bool kept_alone = true, reduced_alone = true;
  if (groups == 0) return NULL;
  for (u32 k = 0; k < groups; k++) {
    u32 reduced = 0, kept = 0, nf = g[k + 1].from - g[k].from;
    for (u32 t = g[k].to; t < g[k + 1].to; t++) {
      if (pass_alg_has(d, t)) reduced++;
      else kept++;
    }
    bool alone = nf == 1 && reduced + kept == 1;
    kept_alone &= kept == 0 || alone;
    reduced_alone &= reduced == 0 || alone;
  }
  if (!kept_alone && !(reduced_alone && (X->nuses == 1 || a->reduce_of_moved))) return NULL;
  for (u32 k = 0; k < groups; k++) {
    bool whole = g[k + 1].to > g[k].to && !pass_alg_has(d, g[k].to);
    for (u32 f = g[k].from; f < g[k + 1].from; f++)
      // extents of 1 that the reshape drops are reduced, too
      if (!whole) dims[n++] = f;
  }
  // only dimensions that are reduced by name
  if (!kept_alone) {
    n = 0;
    for (u32 k = 0; k < groups; k++)
      if (g[k + 1].to == g[k].to + 1 && pass_alg_has(d, g[k].to)) dims[n++] = g[k].from;
  }
  if (n == 0) return NULL;
  return pass_alg_reshape_to(
      a, pass_alg_reduce(a, hlo_operand(X, 0), Y, n, dims, hlo_attr_comp(i, HLO_ATTR_TO_APPLY)),
      i->shape);
}

// sum(-A) = -sum(A) for floats
ALG_RULE(reduce_negate) {
  if (!simple(i) || a->layout_sensitive || !alg_is_float(i) || X->opcode != HLO_NEGATE ||
      !pass_alg_all(Y, 0))
    return NULL;
  if (pass_alg_reducer(hlo_attr_comp(i, HLO_ATTR_TO_APPLY)) != HLO_ADD) return NULL;
  return pass_alg_un(a, HLO_NEGATE,
                     pass_alg_like(a, i, i->shape, 2, (hlo_instr *[]){hlo_operand(X, 0), Y}));
}

// reduce(concatenate(A, B)) along the joint = the reductions of A and of B, combined
ALG_RULE(reduce_concat) {
  hlo_instr *c = X;
  hlo_computation *f = hlo_attr_comp(i, HLO_ATTR_TO_APPLY);
  if (!simple(i) || a->layout_sensitive || c->opcode != HLO_CONCATENATE ||
      !pass_alg_has(alg_dims(i), alg_dims(c).v[0]))
    return NULL;
  hlo_opcode op = pass_alg_reducer(f);
  // the initial value must enter as often as one likes
  if (op == HLO_OP_INVALID || !pass_alg_is_identity(op, Y)) return NULL;
  bool same = true;
  for (u32 k = 1; k < c->noperands; k++)
    same &= hlo_operand(c, k)->shape->logical == X->shape->logical ||
            hlo_shape_same_dims(hlo_operand(c, k)->shape, hlo_operand(c, 0)->shape);
  if (!a->reduce_of_concat && !same && i->shape->rank) return NULL;
  hlo_instr *r = NULL;
  for (u32 k = 0; k < c->noperands; k++) {
    hlo_instr *part = pass_alg_like(a, i, i->shape, 2, (hlo_instr *[]){hlo_operand(c, k), Y});
    if (!r) {
      r = part;
      continue;
    }
    r = pass_alg_add(a, HLO_MAP, i->shape, 2, (hlo_instr *[]){r, part});
    i64 *dims = pass_alg_dims_new(a, i->shape->rank);
    for (u32 d = 0; d < i->shape->rank; d++) dims[d] = d;
    hlo_set_attr_ints(r, HLO_ATTR_DIMENSIONS, i->shape->rank, dims);
    hlo_set_attr_comp(r, HLO_ATTR_TO_APPLY, f);
  }
  return r;
}

// ---- index of the largest or smallest element ---------------------------------------------------
static bool is_param(const hlo_instr *x, u32 n) {
  return x->opcode == HLO_PARAMETER && hlo_param_number(x) == n;
}
static bool compares(const hlo_instr *c, u32 p, u32 q, int direction) {
  return c->opcode == HLO_COMPARE && is_param(hlo_operand(c, 0), p) &&
         is_param(hlo_operand(c, 1), q) && hlo_attr_int(c, HLO_ATTR_DIRECTION, -1) == direction;
}

// p0 > p2 or p0 is no number (`direction` GT; LT for the smallest)
static bool takes_first(const hlo_instr *o, int direction) {
  if (o->opcode != HLO_OR) return false;
  for (u32 k = 0; k < 2; k++)
    if (compares(hlo_operand(o, k), 0, 2, direction) &&
        compares(hlo_operand(o, 1 - k), 0, 0, HLO_DIRECTION_NE))
      return true;
  return false;
}

// Whether a variadic reduction of (values, iota) gives the largest (direction GT) or smallest value
// and its first index.
static bool finds_place(const hlo_instr *i, int direction) {
  double v, place;
  if (i->opcode != HLO_REDUCE || i->noperands != 4 || !hlo_shape_is_tuple(i->shape) ||
      hlo_operand(i, 1)->opcode != HLO_IOTA)
    return false;
  if (!pass_alg_is_identity(direction == HLO_DIRECTION_GT ? HLO_MAXIMUM : HLO_MINIMUM,
                            hlo_operand(i, 2)) ||
      !pass_alg_splat(hlo_operand(i, 2), &v))
    return false;
  if (!pass_alg_splat(hlo_operand(i, 3), &place) || place != 0) return false;
  const hlo_instr *t = hlo_attr_comp(i, HLO_ATTR_TO_APPLY)->root;
  if (t->opcode != HLO_TUPLE || t->noperands != 2) return false;
  const hlo_instr *s = hlo_operand(t, 0), *n = hlo_operand(t, 1);
  if (s->opcode != HLO_SELECT || n->opcode != HLO_SELECT || !is_param(hlo_operand(s, 1), 0) ||
      !is_param(hlo_operand(s, 2), 2))
    return false;
  if (!is_param(hlo_operand(n, 1), 1) || !is_param(hlo_operand(n, 2), 3) ||
      !takes_first(hlo_operand(s, 0), direction))
    return false;
  const hlo_instr *o = hlo_operand(n, 0);
  for (u32 k = 0; o->opcode == HLO_OR && k < 2; k++) {
    const hlo_instr *tie = hlo_operand(o, 1 - k);
    if (takes_first(hlo_operand(o, k), direction) && tie->opcode == HLO_AND &&
        compares(hlo_operand(tie, 0), 0, 2, HLO_DIRECTION_EQ) &&
        compares(hlo_operand(tie, 1), 1, 3, HLO_DIRECTION_LT))
      return true;
  }
  return false;
}

// max(A) where another reduction computes the maximum of A and its index already
ALG_RULE(reduce_of_argmax) {
  hlo_opcode op = pass_alg_reducer(hlo_attr_comp(i, HLO_ATTR_TO_APPLY));
  if (!simple(i) || a->layout_sensitive || (op != HLO_MAXIMUM && op != HLO_MINIMUM) ||
      !pass_alg_is_identity(op, Y))
    return NULL;
  hlo_for_each_use(u, X) {
    hlo_instr *r = u->user;
    if (r == i || hlo_slot(u) != 0 || r->dead ||
        !finds_place(r, op == HLO_MAXIMUM ? HLO_DIRECTION_GT : HLO_DIRECTION_LT) ||
        !hlo_ints_equal(alg_dims(i), alg_dims(r)))
      continue;
    hlo_instr *g = pass_alg_add(a, HLO_GET_TUPLE_ELEMENT, r->shape->elems[0], 1, &r);
    hlo_set_attr_int(g, HLO_ATTR_INDEX, 0);
    return g;
  }
  return NULL;
}

// The largest of equal elements is that, and is found at 0, unless the count wraps around
ALG_RULE(reduce_argmax_splat) {
  if (a->layout_sensitive ||
      (!finds_place(i, HLO_DIRECTION_GT) && !finds_place(i, HLO_DIRECTION_LT)))
    return NULL;
  hlo_instr *iota = hlo_operand(i, 1), *v = X;
  if (v->opcode != HLO_BROADCAST || hlo_operand(v, 0)->shape->rank != 0 ||
      !pass_alg_has(alg_dims(i), hlo_attr_int(iota, HLO_ATTR_IOTA_DIMENSION, 0)))
    return NULL;
  i64 last = iota->shape->dims[hlo_attr_int(iota, HLO_ATTR_IOTA_DIMENSION, 0)] - 1;
  if (alg_is_int(iota) && last > pass_alg_top_of(iota->shape->dtype)) return NULL;
  hlo_instr *parts[2] = {pass_alg_spread(a, hlo_operand(v, 0), i->shape->elems[0]),
                         pass_alg_full_int(a, i->shape->elems[1], 0)};
  return pass_alg_add(a, HLO_TUPLE, i->shape, 2, parts);
}

// reduce(broadcast(A)) along dimensions of A only: reduce before the elements are repeated
ALG_RULE(reduce_before_broadcast) {
  if (!simple(i) || a->layout_sensitive || X->opcode != HLO_BROADCAST || X->shape->elements == 0)
    return NULL;
  hlo_ints d = alg_dims(i), map = alg_dims(X);
  i64 *inner = pass_alg_dims_new(a, d.n), *out = pass_alg_dims_new(a, map.n);
  u32 n = 0, kept = 0;
  for (u32 k = 0; k < map.n; k++) {
    if (pass_alg_has(d, map.v[k])) {
      inner[n++] = k;
      continue;
    }
    out[kept] = map.v[k];
    for (u32 j = 0; j < d.n; j++) out[kept] -= d.v[j] < map.v[k];
    kept++;
  }
  if (n == 0 || n != d.n) return NULL;
  return pass_alg_broadcast(
      a, pass_alg_reduce(a, hlo_operand(X, 0), Y, n, inner, hlo_attr_comp(i, HLO_ATTR_TO_APPLY)),
      i->shape, kept, out);
}

// reduce(broadcast(A)) along repeated dimensions: n*A for add, A for max, min, and, or
ALG_RULE(reduce_broadcast) {
  hlo_computation *f = hlo_attr_comp(i, HLO_ATTR_TO_APPLY);
  hlo_opcode op = pass_alg_reducer(f);
  if (!simple(i) || a->layout_sensitive || X->opcode != HLO_BROADCAST ||
      i->shape->dtype != X->shape->dtype || X->shape->elements == 0)
    return NULL;
  if (op != HLO_ADD && op != HLO_MAXIMUM && op != HLO_MINIMUM && op != HLO_AND && op != HLO_OR)
    return NULL;
  hlo_ints d = alg_dims(i), map = alg_dims(X);
  if (alg_is_complex(i) || !pass_alg_sorted(map.n, map.v)) return NULL;
  hlo_instr *r = hlo_operand(X, 0);
  i64 *still = pass_alg_dims_new(a, map.n), *out = pass_alg_dims_new(a, map.n), times = 1;
  u32 nstill = 0, nout = 0, repeated = 0;
  for (u32 j = 0; j < d.n; j++)
    if (!pass_alg_has(map, d.v[j])) times *= X->shape->dims[d.v[j]], repeated++;
  for (u32 k = 0; k < map.n; k++) {
    if (pass_alg_has(d, map.v[k])) {
      // reduced, and a dimension of A: that part stays a reduction
      still[nstill++] = k;
      continue;
    }
    out[nout] = map.v[k];
    for (u32 j = 0; j < d.n; j++) out[nout] -= d.v[j] < map.v[k];
    nout++;
  }
  if (repeated == 0) return NULL;
  // The count must be exact in a float, or be rounded as sums are in those of 16 bits, as in XLA;
  // and the initial value must enter once only.
  int digits = alg_is_tiny(i) ? hlo_dtype_significand(i->shape->dtype) : 24;
  if (op == HLO_ADD &&
      ((alg_is_float(i) && times > (i64)1 << digits) || (nstill && !pass_alg_is_identity(op, Y))))
    return NULL;
  if (nstill) r = pass_alg_reduce(a, r, Y, nstill, still, f);
  if (op == HLO_ADD && times > 1)
    r = pass_alg_bin(a, HLO_MULTIPLY, r, pass_alg_full_int(a, r->shape, times));
  if (op != HLO_ADD && i->shape->rank == 0 && r->shape->rank == 0 && !nstill)
    return pass_alg_bin(a, op, r, Y);
  if (!nstill) r = apply(a, i, op, r);
  return nout == i->shape->rank ? r : pass_alg_broadcast(a, r, i->shape, nout, out);
}

// reduce(pad(A, init), init) = reduce(A, init) when init is the identity
ALG_RULE(reduce_pad) {
  hlo_opcode op = pass_alg_reducer(hlo_attr_comp(i, HLO_ATTR_TO_APPLY));
  if (!simple(i) || a->layout_sensitive || X->opcode != HLO_PAD ||
      !pass_alg_same(hlo_operand(X, 1), Y) || !pass_alg_is_identity(op, Y))
    return NULL;
  const hlo_padding *p = hlo_attr_ptr(X, HLO_ATTR_PADDING);
  hlo_ints d = alg_dims(i);
  for (u32 k = 0; k < X->shape->rank; k++) {
    const hlo_pad_dim *q = &p->v[k];
    if (q->low < 0 || q->high < 0 || (!pass_alg_has(d, k) && (q->low || q->high || q->interior)))
      return NULL;
  }
  return pass_alg_reduce(a, hlo_operand(X, 0), Y, d.n, d.v, hlo_attr_comp(i, HLO_ATTR_TO_APPLY));
}

// A variadic reduction, or reduce-window, of one operand that returns a tuple of one
ALG_RULE(reduce_unary_variadic) {
  if (i->noperands != 2 || !hlo_shape_is_tuple(i->shape) || i->shape->nelems != 1) return NULL;
  hlo_computation *f = hlo_attr_comp(i, HLO_ATTR_TO_APPLY);
  if (f->root->opcode != HLO_TUPLE) return NULL;
  // one of several takes its initial value as what its computation takes
  hlo_dtype t = f->params[0]->shape->dtype;
  hlo_instr *init = Y->shape->dtype == t ? Y : pass_alg_convert(a, Y, t);
  hlo_instr *r = pass_alg_like(a, i, i->shape->elems[0], 2, (hlo_instr *[]){X, init});
  hlo_set_attr_comp(r, HLO_ATTR_TO_APPLY, pass_element_of(f, 0));
  return pass_alg_add(a, HLO_TUPLE, i->shape, 1, &r);
}

// Whether result k of a reducer of n values at a time is r = op(parameter k, parameter n + k), in
// either order.
static bool takes_own(const hlo_instr *r, const hlo_computation *f, u32 n, u32 k) {
  if (r->noperands != 2) return false;
  const hlo_instr *x = hlo_operand(r, 0), *y = hlo_operand(r, 1), *p = f->params[k],
                  *q = f->params[n + k];
  return (x == p && y == q) || (x == q && y == p);
}

// Is initial value k the identity of op in what the computation takes it for? A type may lack it.
static bool starts_neutral(const hlo_instr *i, hlo_opcode op, u32 k) {
  const hlo_instr *init = hlo_operand(i, i->noperands / 2 + k);
  return init->shape->dtype == hlo_attr_comp(i, HLO_ATTR_TO_APPLY)->params[k]->shape->dtype &&
         pass_alg_is_identity(op, init);
}

// Variadic reductions over nothing, or over no dimensions
ALG_RULE(reduce_tuple_trivial) {
  if (!hlo_shape_is_tuple(i->shape)) return NULL;
  u32 n = i->noperands / 2;
  hlo_instr **parts = HS_NEW_ARRAY(a->p->scratch, hlo_instr *, n);
  if (X->shape->elements == 0) {
    for (u32 k = 0; k < n; k++)
      parts[k] = pass_alg_spread(a, hlo_operand(i, n + k), i->shape->elems[k]);
    return pass_alg_add(a, HLO_TUPLE, i->shape, n, parts);
  }
  // Each result one commutative operation of its own operand, started from the identity.
  const hlo_instr *root = hlo_attr_comp(i, HLO_ATTR_TO_APPLY)->root;
  if (i->opcode != HLO_REDUCE || root->opcode != HLO_TUPLE ||
      X->shape->elements != i->shape->elems[0]->elements)
    return NULL;
  for (u32 k = 0; k < n; k++)
    if (!starts_neutral(i, hlo_operand(root, k)->opcode, k) ||
        !takes_own(hlo_operand(root, k), root->parent, n, k))
      return NULL;
  for (u32 k = 0; k < n; k++)
    parts[k] = pass_alg_reshape_to(a, hlo_operand(i, k), i->shape->elems[k]);
  if (alg_dims(i).n == 0)
    for (u32 k = 0; k < n; k++)
      if (parts[k] == hlo_operand(i, k))
        parts[k] = pass_alg_add(a, HLO_RESHAPE, i->shape->elems[k], 1, &parts[k]);
  return pass_alg_add(a, HLO_TUPLE, i->shape, n, parts);
}

// ---- reduce-window ------------------------------------------------------------------------------
// Every window is one element: the element combined with the initial value, padded with it
ALG_RULE(reduce_window_empty) {
  u32 n = i->noperands / 2;
  const hlo_shape *out = hlo_shape_is_tuple(i->shape) ? i->shape->elems[0] : i->shape;
  if (X->shape->elements != 0 && out->elements != 0) return NULL;
  hlo_instr **parts = HS_NEW_ARRAY(a->p->scratch, hlo_instr *, n);
  for (u32 k = 0; k < n; k++)
    parts[k] =
        pass_alg_spread(a, hlo_operand(i, n + k),
                        n == 1 && !hlo_shape_is_tuple(i->shape) ? i->shape : i->shape->elems[k]);
  return hlo_shape_is_tuple(i->shape) ? pass_alg_add(a, HLO_TUPLE, i->shape, n, parts) : parts[0];
}

// A window over a scalar shows that; the initial values are neutral
ALG_RULE(reduce_window_scalar) {
  u32 n = i->noperands / 2;
  if (X->shape->rank != 0 || n == 0) return NULL;
  const hlo_instr *root = hlo_attr_comp(i, HLO_ATTR_TO_APPLY)->root;
  bool tuple = hlo_shape_is_tuple(i->shape);
  if (tuple && root->opcode != HLO_TUPLE) return NULL;
  hlo_instr **parts = HS_NEW_ARRAY(a->p->scratch, hlo_instr *, n);
  for (u32 k = 0; k < n; k++) {
    const hlo_instr *r = tuple ? hlo_operand(root, k) : root;
    parts[k] = hlo_operand(i, k);
    if (!starts_neutral(i, r->opcode, k) || !takes_own(r, root->parent, n, k) ||
        parts[k]->shape->dtype != hlo_shape_leaf(i->shape, k)->dtype)
      return NULL;
  }
  return tuple ? pass_alg_add(a, HLO_TUPLE, i->shape, n, parts) : parts[0];
}

// Windows as long as the operand in some dimensions, single elements in the others: a reduction
ALG_RULE(reduce_window_whole) {
  const hlo_window *w = hlo_attr_ptr(i, HLO_ATTR_WINDOW);
  if (!simple(i) || !w || !a->window_to_reduce) return NULL;
  i64 *dims = pass_alg_dims_new(a, w->n);
  u32 n = 0;
  for (u32 k = 0; k < w->n; k++) {
    const hlo_window_dim *d = &w->v[k];
    if (d->stride != 1 || d->lhs_dilate != 1 || d->rhs_dilate != 1 || d->pad_low || d->pad_high)
      return NULL;
    if (d->size == 1) continue;
    if (i->shape->dims[k] != 1) return NULL;
    dims[n++] = k;
  }
  if (n == 0) return NULL;
  return pass_alg_reshape_to(
      a, pass_alg_reduce(a, X, Y, n, dims, hlo_attr_comp(i, HLO_ATTR_TO_APPLY)), i->shape);
}

ALG_RULE(reduce_window_trivial) {
  const hlo_window *w = hlo_attr_ptr(i, HLO_ATTR_WINDOW);
  hlo_opcode op = pass_alg_reducer(hlo_attr_comp(i, HLO_ATTR_TO_APPLY));
  if (!simple(i) || !w || (op != HLO_ADD && op != HLO_MINIMUM && op != HLO_MAXIMUM)) return NULL;
  hlo_pad_dim *p = HS_NEW_ARRAY(a->p->scratch, hlo_pad_dim, w->n + 1);
  bool padded = false;
  for (u32 k = 0; k < w->n; k++) {
    const hlo_window_dim *d = &w->v[k];
    if (d->size != 1 || d->stride != 1 || d->lhs_dilate != 1 || d->rhs_dilate != 1 || d->reversal ||
        d->pad_low < 0 || d->pad_high < 0)
      return NULL;
    p[k] = (hlo_pad_dim){d->pad_low, d->pad_high, 0};
    padded |= p[k].low || p[k].high;
  }
  hlo_dtype to = i->shape->dtype;
  hlo_instr *x = pass_alg_convert(a, X, reducer_type(i)),
            *r = pass_alg_bin(a, op, x, pass_alg_spread(a, Y, x->shape));
  r = pass_alg_convert(a, r, to);
  return padded ? pass_alg_pad(a, r, pass_alg_convert(a, Y, to), p) : r;
}

// Every window holds one element of A and padding besides: A repeated
static bool window_shows_one(const hlo_window *w, const hlo_padding *q, const hlo_shape *s) {
  for (u32 k = 0; k < w->n; k++) {
    const hlo_window_dim *d = &w->v[k];
    bool padded = q->v[k].low || q->v[k].high;
    if (d->stride != 1 || d->lhs_dilate != 1 || d->rhs_dilate != 1 || d->pad_low || d->pad_high ||
        q->v[k].low != q->v[k].high || q->v[k].interior)
      return false;
    if (padded && (s->dims[k] != 1 || d->size < q->v[k].low + 1)) return false;
    if (s->dims[k] != 1 && d->size != 1) return false;
  }
  return true;
}

// reduce-window(pad(A, v), v): the window pads; a convert may stand between when v is the same
// number in both types. A running reduction, for which the padding is a small part, is left for
// those that recognise it. As in XLA, an initial value is taken to leave results as they are.
ALG_RULE(reduce_window_pad) {
  enum { SMALL_PART = 10 };
  const hlo_window *w = hlo_attr_ptr(i, HLO_ATTR_WINDOW);
  hlo_instr *p = X, *cv = NULL;
  double v, init;
  if (p->opcode == HLO_CONVERT) cv = p, p = hlo_operand(p, 0);
  if (!simple(i) || !w || p->opcode != HLO_PAD) return NULL;
  bool same = hlo_operand(p, 1) == Y ||
              (pass_alg_splat(hlo_operand(p, 1), &v) && pass_alg_splat(Y, &init) && v == init);
  const hlo_padding *q = hlo_attr_ptr(p, HLO_ATTR_PADDING);
  u32 wide = 0, at = 0;
  for (u32 k = 0; k < w->n; k++)
    if (w->v[k].size != 1) wide++, at = k;
  if (!same || (cv && wide == 1 &&
                hs_mul_sat_i64(hs_add_sat_i64(q->v[at].low, q->v[at].high), SMALL_PART) <
                    X->shape->dims[at]))
    return NULL;
  hlo_window_dim *d = HS_NEW_ARRAY(&a->m->arena, hlo_window_dim, w->n + 1);
  for (u32 k = 0; k < w->n; k++) {
    d[k] = w->v[k];
    if (q->v[k].low < 0 || q->v[k].high < 0 ||
        (q->v[k].interior && (d[k].lhs_dilate != 1 || d[k].pad_low < 0 || d[k].pad_high < 0)))
      return NULL;
    i64 low, high;  // base dilation spreads padding, too
    if (!hs_mul_ok(q->v[k].low, d[k].lhs_dilate, &low) ||
        !hs_mul_ok(q->v[k].high, d[k].lhs_dilate, &high) ||
        !hs_add_ok(d[k].pad_low, low, &d[k].pad_low) ||
        !hs_add_ok(d[k].pad_high, high, &d[k].pad_high) ||
        (q->v[k].interior && !hs_add_ok(q->v[k].interior, 1, &d[k].lhs_dilate)))
      return NULL;
  }
  hlo_instr *src = hlo_operand(p, 0);
  if (cv) src = pass_alg_convert(a, src, cv->shape->dtype);
  if (window_shows_one(w, q, src->shape) &&
      pass_alg_is_identity(pass_alg_reducer(hlo_attr_comp(i, HLO_ATTR_TO_APPLY)), Y)) {
    i64 *dims = pass_alg_dims_new(a, w->n), *map = pass_alg_dims_new(a, w->n);
    u32 n = 0;
    for (u32 k = 0; k < w->n; k++)
      if (src->shape->dims[k] == i->shape->dims[k]) dims[n] = src->shape->dims[k], map[n++] = k;
    return pass_alg_broadcast(a, pass_alg_reshape(a, src, n, dims), i->shape, n, map);
  }
  hlo_window *nw = HS_NEW(&a->m->arena, hlo_window);
  *nw = (hlo_window){w->n, d};
  hlo_instr *r = pass_alg_like(a, i, i->shape, 2, (hlo_instr *[]){src, Y});
  hlo_set_attr_ptr(r, HLO_ATTR_WINDOW, nw);
  return r;
}

// The one dimension in which windows are longer than 1, where its windows are those of a running
// sum: as long as the operand, with all padding before it. -1 for other windows.
static i64 running_dim(const hlo_instr *i) {
  const hlo_window *w = hlo_attr_ptr(i, HLO_ATTR_WINDOW);
  i64 dim = -1;
  for (u32 k = 0; w && k < w->n; k++) {
    const hlo_window_dim *d = &w->v[k];
    if (d->stride != 1 || d->lhs_dilate != 1 || d->rhs_dilate != 1 || d->reversal) return -1;
    if (d->size == 1 && !d->pad_low && !d->pad_high) continue;
    if (dim >= 0 || d->size != X->shape->dims[k] || d->pad_low != d->size - 1 || d->pad_high)
      return -1;
    dim = k;
  }
  return dim;
}

// The one value that all elements of x have, seen through what places, cuts and converts elements:
// a new scalar, NULL when there is none or a conversion loses some of it.
static hlo_literal *one_value(alg *a, const hlo_instr *x) {
  const hlo_instr *c = x;
  while (c->opcode == HLO_RESHAPE || c->opcode == HLO_BITCAST || c->opcode == HLO_BROADCAST ||
         c->opcode == HLO_SLICE || c->opcode == HLO_COPY || c->opcode == HLO_CONVERT) {
    if (c->opcode == HLO_BITCAST && hlo_operand(c, 0)->shape->dtype != c->shape->dtype) return NULL;
    c = hlo_operand(c, 0);
  }
  double v;
  i64 k;
  hlo_dtype t = x->shape->dtype;
  if (c->opcode != HLO_CONSTANT || !(alg_is_float(x) || alg_is_int(x)) ||
      !(alg_is_float(c) || alg_is_int(c) || alg_is_pred(c)))
    return NULL;
  bool whole = pass_alg_splat_int(c, &k);
  if (!whole && !pass_alg_splat(c, &v)) return NULL;
  hlo_literal *l =
      whole ? hlo_literal_scalar_i64(a->m->ctx, t, k) : hlo_literal_scalar_f64(a->m->ctx, t, v);
  for (; x != c; x = hlo_operand(x, 0)) {  // every type on the way holds it
    if (x->opcode != HLO_CONVERT) continue;
    hlo_literal *on_way = whole ? hlo_literal_scalar_i64(a->m->ctx, x->shape->dtype, k)
                                : hlo_literal_scalar_f64(a->m->ctx, x->shape->dtype, v);
    bool exact = alg_is_int(x) || alg_is_pred(x)
                     ? whole && hlo_literal_i64(on_way, 0) == k
                     : alg_is_float(x) && hlo_literal_f64(on_way, 0) == (whole ? (double)k : v);
    hlo_literal_unref(on_way);
    if (exact) continue;
    hlo_literal_unref(l);
    return NULL;
  }
  return l;
}

// A running sum over equal elements: element k is (k + 1) times the value
ALG_RULE(reduce_window_cumsum) {
  i64 dim = simple(i) ? running_dim(i) : -1;
  if (dim < 0 || pass_alg_reducer(hlo_attr_comp(i, HLO_ATTR_TO_APPLY)) != HLO_ADD ||
      !pass_alg_all(Y, 0))
    return NULL;
  int n = alg_is_float(i) ? HS_MIN(hlo_dtype_significand(i->shape->dtype), 24) : 24;
  if (X->shape->dims[dim] > (i64)1 << n || X->shape->dtype != i->shape->dtype) return NULL;
  hlo_literal *v = one_value(a, X);
  if (!v) return NULL;
  const hlo_shape *s = hlo_shape_with_dtype(
      a->m->ctx, i->shape,
      alg_is_int(i) && hlo_dtype_bits(i->shape->dtype) == 64 ? HLO_S64 : HLO_S32);
  hlo_instr *iota = pass_alg_add(a, HLO_IOTA, s, 0, NULL);
  hlo_set_attr_int(iota, HLO_ATTR_IOTA_DIMENSION, dim);
  hlo_instr *count = pass_alg_convert(a, pass_alg_bin(a, HLO_ADD, iota, pass_alg_full_int(a, s, 1)),
                                      i->shape->dtype);
  return pass_alg_bin(a, HLO_MULTIPLY, pass_alg_spread(a, pass_alg_literal(a, v), i->shape), count);
}

// Windows that cover the whole operand in every dimension that is cut down to one of them: a
// reduction
ALG_RULE(slice_reduce_window) {
  hlo_instr *w = X;
  if (w->opcode != HLO_REDUCE_WINDOW || !simple(w) || !a->window_to_reduce || w->nuses != 1)
    return NULL;
  const hlo_window *win = hlo_attr_ptr(w, HLO_ATTR_WINDOW);
  const hlo_slices *s = hlo_attr_ptr(i, HLO_ATTR_SLICE);
  const hlo_shape *in = hlo_operand(w, 0)->shape;
  i64 *dims = pass_alg_dims_new(a, win->n);
  u32 n = 0;
  for (u32 k = 0; k < win->n; k++) {
    const hlo_window_dim *d = &win->v[k];
    if (d->stride != 1 || d->lhs_dilate != 1 || d->rhs_dilate != 1) return NULL;
    bool trivial = d->size == 1 && !d->pad_low && !d->pad_high;
    if (trivial && s->v[k].start == 0 && s->v[k].limit == in->dims[k] && s->v[k].stride == 1)
      continue;
    // One window, which covers the operand and nothing but padding besides
    if (s->v[k].limit != s->v[k].start + 1 || s->v[k].start > d->pad_low ||
        hs_add_sat_i64(s->v[k].start, d->size) < hs_add_sat_i64(d->pad_low, in->dims[k]))
      return NULL;
    dims[n++] = k;
  }
  if (n == 0 || !pass_alg_is_identity(pass_alg_reducer(hlo_attr_comp(w, HLO_ATTR_TO_APPLY)),
                                      hlo_operand(w, 1)))
    return NULL;
  return pass_alg_reshape_to(a,
                             pass_alg_reduce(a, hlo_operand(w, 0), hlo_operand(w, 1), n, dims,
                                             hlo_attr_comp(w, HLO_ATTR_TO_APPLY)),
                             i->shape);
}

// ---- sort ---------------------------------------------------------------------------------------
ALG_RULE(sort_trivial) {
  hlo_ints d = alg_dims(i);
  if (X->shape->rank > 0 && X->shape->elements > 0 && X->shape->dims[d.v[0]] > 1) return NULL;
  if (i->noperands == 1) return X;
  hlo_instr **ops = HS_NEW_ARRAY(a->p->scratch, hlo_instr *, i->noperands);
  for (u32 k = 0; k < i->noperands; k++)
    ops[k] = pass_alg_convert(a, hlo_operand(i, k), i->shape->elems[k]->dtype);
  return pass_alg_add(a, HLO_TUPLE, i->shape, i->noperands, ops);
}

// Equal elements are sorted
ALG_RULE(sort_broadcast) {
  (void)a;
  return i->noperands == 1 && X->opcode == HLO_BROADCAST && hlo_operand(X, 0)->shape->rank == 0
             ? X
             : NULL;
}
