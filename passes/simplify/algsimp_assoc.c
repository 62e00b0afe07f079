// algsimp_assoc.c — reassociation of matrix products, by option: (A.B).C = A.(B.C); reverse, pad
// and broadcast of one operand replaced by the corresponding operation on the other one (instead of
// a zero-padded operand, the other one sliced); and slices and sums of a dot moved to its operands.
//
// The cost is the number of multiplications in dots. Rounding changes, hence the options.
#include "passes/simplify/algsimp.h"

#define X hlo_operand(i, 0)
#define Y hlo_operand(i, 1)

static double products_of(const hlo_shape *l, const hlo_shape *r, const alg_dot *d) {
  double n = (double)l->elements;
  i64 map[HLO_MAX_RANK];
  pass_alg_dot_map(d, true, l->rank, r->rank, map);
  for (u32 k = 0; k < r->rank; k++)
    if (map[k] >= (i64)d->nb) n *= (double)r->dims[k];
  return n;
}

static double products_in(const hlo_instr *dot) {
  alg_dot d;
  pass_alg_dot_dims(dot, &d);
  return products_of(hlo_operand(dot, 0)->shape, hlo_operand(dot, 1)->shape, &d);
}

// ---- (A.B).C = A.(B.C) --------------------------------------------------------------------------
// Every dimension has a label; dimensions that a dot pairs share one. A label that the result shows
// is kept, others are summed.
typedef struct labelled {
  hlo_instr *v;
  const hlo_shape *shape;
  i64 label[HLO_MAX_RANK];
} labelled;

static bool shows(const labelled *x, i64 label) {
  for (u32 k = 0; k < x->shape->rank; k++)
    if (x->label[k] == label) return true;
  return false;
}

static i64 place_of(const labelled *x, i64 label) {
  for (u32 k = 0; k < x->shape->rank; k++)
    if (x->label[k] == label) return k;
  return -1;
}

// The dot of l and r: common labels are batch dimensions where `later` or `result` shows them, and
// contracted otherwise. Labels of what it gives in out, in order; batch dimensions as the result
// has them.
static u32 pair_up(const labelled *l, const labelled *r, const labelled *later,
                   const labelled *result, alg_dot *d, i64 *out) {
  *d = (alg_dot){0};
  for (u32 pass = 0; pass < 2; pass++)  // first those of the result, in its order
    for (u32 k = 0; k < (pass ? l->shape->rank : result->shape->rank); k++) {
      i64 t = pass ? l->label[k] : result->label[k];
      if (!shows(l, t) || !shows(r, t) || (pass && shows(result, t))) continue;
      if (pass && !(later && shows(later, t))) {
        d->lc[d->nc] = k, d->rc[d->nc++] = place_of(r, t);
        continue;
      }
      out[d->nb] = t, d->lb[d->nb] = place_of(l, t), d->rb[d->nb++] = place_of(r, t);
    }
  u32 n = d->nb;
  for (u32 s = 0; s < 2; s++) {
    const labelled *x = s ? r : l, *y = s ? l : r;
    for (u32 k = 0; k < x->shape->rank; k++)
      if (!shows(y, x->label[k])) out[n++] = x->label[k];
  }
  return n;
}

// Labels for the dimensions of `x`, those that the dot pairs with `known` taken from there.
static void label_operand(labelled *x, hlo_instr *v, const labelled *known, const alg_dot *d,
                          bool rhs, i64 *next) {
  x->v = v, x->shape = v->shape;
  for (u32 k = 0; k < v->shape->rank; k++) x->label[k] = -1;
  const i64 *own_b = rhs ? d->rb : d->lb, *own_c = rhs ? d->rc : d->lc,
            *its_b = rhs ? d->lb : d->rb, *its_c = rhs ? d->lc : d->rc;
  for (u32 k = 0; known && k < d->nb; k++) x->label[own_b[k]] = known->label[its_b[k]];
  for (u32 k = 0; known && k < d->nc; k++) x->label[own_c[k]] = known->label[its_c[k]];
  for (u32 k = 0; k < v->shape->rank; k++)
    if (x->label[k] < 0) x->label[k] = (*next)++;
}

// The labels that a dot of l and r shows.
static void label_result(labelled *out, const hlo_shape *shape, const labelled *l,
                         const labelled *r, const alg_dot *d) {
  i64 map[HLO_MAX_RANK];
  out->shape = shape;
  pass_alg_dot_map(d, false, l->shape->rank, l->shape->rank, map);
  for (u32 k = 0; k < l->shape->rank; k++)
    if (map[k] >= 0) out->label[map[k]] = l->label[k];
  pass_alg_dot_map(d, true, l->shape->rank, r->shape->rank, map);
  for (u32 k = 0; k < r->shape->rank; k++)
    if (map[k] >= 0) out->label[map[k]] = r->label[k];
}

ALG_RULE(dot_dot) {
  if (a->layout_sensitive || !a->associative || hlo_attr_get(i, HLO_ATTR_SPARSITY_CONFIG))
    return NULL;
  bool left = X->opcode == HLO_DOT;
  hlo_instr *in = left ? X : Y;
  if (in->opcode != HLO_DOT || hlo_attr_get(in, HLO_ATTR_SPARSITY_CONFIG) ||
      !pass_alg_widens_operands(i) || !pass_alg_widens_operands(in))
    return NULL;
  alg_dot inner, outer, first, second;
  pass_alg_dot_dims(in, &inner);
  pass_alg_dot_dims(i, &outer);
  labelled p, q, mid, other, whole, made;  // in = p.q; other is i's other operand
  i64 next = 0, out[2 * HLO_MAX_RANK];
  label_operand(&p, hlo_operand(in, 0), NULL, &inner, false, &next);
  label_operand(&q, hlo_operand(in, 1), &p, &inner, true, &next);
  label_result(&mid, in->shape, &p, &q, &inner);
  label_operand(&other, left ? Y : X, &mid, &outer, left, &next);
  label_result(&whole, i->shape, left ? &mid : &other, left ? &other : &mid, &outer);
  // a batch dimension of the inner dot that the outer one sums
  for (u32 k = 0; k < outer.nc; k++) {
    i64 t = mid.label[left ? outer.lc[k] : outer.rc[k]];
    if (shows(&p, t) && shows(&q, t)) return a->stop = true, NULL;
  }
  // near is multiplied with other first
  const labelled *near = left ? &q : &p, *far = left ? &p : &q;
  const labelled *l1 = left ? near : &other, *r1 = left ? &other : near;
  u32 n = pair_up(l1, r1, far, &whole, &first, out);
  i64 dims[2 * HLO_MAX_RANK];
  for (u32 k = 0; k < n; k++) {
    i64 at = place_of(l1, out[k]);
    dims[k] = at >= 0 ? l1->shape->dims[at] : r1->shape->dims[place_of(r1, out[k])];
  }
  if (n > HLO_MAX_RANK) return NULL;
  made.shape = pass_alg_shape(a, i->shape->dtype, n, dims);
  memcpy(made.label, out, n * sizeof *out);
  const labelled *l2 = left ? far : &made, *r2 = left ? &made : far;
  u32 m = pair_up(l2, r2, NULL, &whole, &second, out);
  double before = products_in(in) + products_in(i),
         after =
             products_of(l1->shape, r1->shape, &first) + products_of(l2->shape, r2->shape, &second);
  if (m != i->shape->rank || !(before > after * a->associative_threshold)) return NULL;
  made.v = pass_alg_dot(a, i, false, l1->v, r1->v, &first);
  hlo_instr *now =
      pass_alg_dot(a, i, false, left ? far->v : made.v, left ? made.v : far->v, &second);
  i64 *perm = pass_alg_dims_new(a, m);
  for (u32 k = 0; k < m; k++)
    for (u32 j = 0; j < m; j++)
      if (out[j] == whole.label[k]) perm[k] = j;
  return pass_alg_transpose(a, now, perm);
}

// ---- operations moved to the other operand ------------------------------------------------------
// `from` (on the left or not) is reversed, padded or broadcast
typedef struct mirror {
  hlo_instr *from, *to;
  bool left;
  alg_dot d;
} mirror;

// of a contracting dimension of `from`; -1 for others
static i64 partner(const mirror *m, i64 dim) {
  for (u32 k = 0; k < m->d.nc; k++)
    if ((m->left ? m->d.lc[k] : m->d.rc[k]) == dim) return m->left ? m->d.rc[k] : m->d.lc[k];
  return -1;
}

static hlo_instr *mirrored(alg *a, hlo_instr *i, const mirror *m, hlo_instr *from, hlo_instr *to,
                           const alg_dot *d) {
  return pass_alg_dot(a, i, false, m->left ? from : to, m->left ? to : from, d);
}

// dot(reverse(A), B) = dot(A, reverse(B)) along what is summed, when B is the smaller one
static hlo_instr *mirror_reverse(alg *a, hlo_instr *i, const mirror *m) {
  if ((double)m->from->shape->elements / (double)m->to->shape->elements < a->associative_threshold)
    return NULL;
  hlo_ints r = alg_dims(m->from);
  i64 *over = pass_alg_dims_new(a, r.n), *stay = pass_alg_dims_new(a, r.n);
  u32 n = 0, ns = 0;
  for (u32 k = 0; k < r.n; k++) {
    if (partner(m, r.v[k]) >= 0) over[n++] = partner(m, r.v[k]);
    else stay[ns++] = r.v[k];
  }
  if (n == 0) return NULL;
  return mirrored(a, i, m, pass_alg_reverse(a, hlo_operand(m->from, 0), ns, stay),
                  pass_alg_reverse(a, m->to, n, over), &m->d);
}

// dot(pad(A, 0), B) = dot(A, slice(B)) along what is summed
static hlo_instr *mirror_pad(alg *a, hlo_instr *i, const mirror *m) {
  const hlo_padding *p = hlo_attr_ptr(m->from, HLO_ATTR_PADDING);
  if (!pass_alg_all(hlo_operand(m->from, 1), 0)) return NULL;
  hlo_pad_dim *rest = HS_NEW_ARRAY(a->p->scratch, hlo_pad_dim, p->n + 1);
  hlo_slice_dim *cut = HS_NEW_ARRAY(a->p->scratch, hlo_slice_dim, m->to->shape->rank + 1);
  for (u32 k = 0; k < m->to->shape->rank; k++)
    cut[k] = (hlo_slice_dim){0, m->to->shape->dims[k], 1};
  bool any = false, still = false;
  double shrink = 1;
  for (u32 k = 0; k < p->n; k++) {
    rest[k] = p->v[k];
    i64 t = partner(m, k);
    if (t >= 0 && p->v[k].low >= 0 && p->v[k].high >= 0 &&
        (p->v[k].low || p->v[k].high || p->v[k].interior)) {
      cut[t] =
          (hlo_slice_dim){p->v[k].low, m->to->shape->dims[t] - p->v[k].high, 1 + p->v[k].interior};
      shrink *= (double)m->from->shape->dims[k] /
                (double)HS_MAX(hlo_operand(m->from, 0)->shape->dims[k], 1);
      rest[k] = (hlo_pad_dim){0, 0, 0};
      any = true;
    }
    still |= rest[k].low || rest[k].high || rest[k].interior;
  }
  if (!any || !(shrink > a->associative_threshold * (still ? 2 : 1))) return NULL;
  hlo_instr *from = hlo_operand(m->from, 0);
  if (still) from = pass_alg_pad(a, from, hlo_operand(m->from, 1), rest);
  return mirrored(a, i, m, from, pass_alg_slice(a, m->to, cut), &m->d);
}

// dot(broadcast(A), B) = dot(A, reduce(B)) along what is summed and was repeated, in the type of
// the result: that of B may not hold its sum
static hlo_instr *mirror_broadcast(alg *a, hlo_instr *i, const mirror *m) {
  if (alg_is_tiny(i) || !pass_alg_widens_operands(i)) return NULL;
  hlo_instr *src = hlo_operand(m->from, 0);
  hlo_ints map = alg_dims(m->from);
  u32 rank = m->from->shape->rank, n = 0, nsum = 0;
  i64 *sum = pass_alg_dims_new(a, m->d.nc), *kept = pass_alg_dims_new(a, rank),
      *dims = pass_alg_dims_new(a, rank), *now = pass_alg_dims_new(a, map.n);
  double shrink = 1;
  for (u32 k = 0; k < rank; k++) {
    kept[k] = -1;
    if (partner(m, k) >= 0 && !pass_alg_has(map, k))
      sum[nsum++] = partner(m, k), shrink *= (double)m->from->shape->dims[k];
    else kept[k] = n, dims[n++] = m->from->shape->dims[k];
  }
  if (nsum == 0) return NULL;
  for (u32 k = 0; k < map.n; k++) now[k] = kept[map.v[k]];
  bool whole = map.n == n && pass_alg_sorted(n, now);
  if (!(shrink > a->associative_threshold * (whole ? 1 : 2))) return NULL;
  for (u32 x = 1; x < nsum; x++)
    for (u32 y = x; y > 0 && sum[y - 1] > sum[y]; y--) {
      i64 t = sum[y];
      sum[y] = sum[y - 1], sum[y - 1] = t;
    }
  alg_dot d = {0};
  hlo_ints gone = {nsum, sum};
  // the other operand's dimensions without those summed before
  i64 shift[HLO_MAX_RANK], s = 0;
  for (u32 k = 0; k < m->to->shape->rank; k++)
    shift[k] = pass_alg_has(gone, k) ? (s++, -1) : (i64)k - s;
  for (u32 k = 0; k < m->d.nb; k++) {
    d.lb[k] = m->left ? kept[m->d.lb[k]] : shift[m->d.lb[k]];
    d.rb[k] = m->left ? shift[m->d.rb[k]] : kept[m->d.rb[k]];
  }
  d.nb = m->d.nb;
  for (u32 k = 0; k < m->d.nc; k++) {
    i64 l = m->left ? kept[m->d.lc[k]] : shift[m->d.lc[k]],
        r = m->left ? shift[m->d.rc[k]] : kept[m->d.rc[k]];
    if (l >= 0) d.lc[d.nc] = l, d.rc[d.nc++] = r;
  }
  hlo_instr *from =
      whole ? src
            : pass_alg_broadcast(a, src, pass_alg_shape(a, src->shape->dtype, n, dims), map.n, now);
  hlo_dtype t = i->shape->dtype;
  hlo_instr *to = pass_alg_reduce(a, pass_alg_convert(a, m->to, t), pass_alg_scalar(a, t, 0), nsum,
                                  sum, hlo_build_scalar_computation(a->m, HLO_ADD, t));
  return mirrored(a, i, m, from, to, &d);
}

ALG_RULE(dot_mirror) {
  if (a->layout_sensitive || !a->associative || alg_is_complex(i) || alg_is_pred(i) ||
      hlo_attr_get(i, HLO_ATTR_SPARSITY_CONFIG))
    return NULL;
  for (u32 s = 0; s < 2; s++) {
    mirror m = {hlo_operand(i, s), hlo_operand(i, 1 - s), s == 0, {0}};
    pass_alg_dot_dims(i, &m.d);
    switch (m.from->opcode) {
    case HLO_REVERSE: return mirror_reverse(a, i, &m);
    case HLO_PAD: return mirror_pad(a, i, &m);
    case HLO_BROADCAST: return mirror_broadcast(a, i, &m);
    default: break;
    }
  }
  return NULL;
}

// ---- operations moved through the dot -----------------------------------------------------------
// slice(dot(A, B)) = dot(slice(A), slice(B)), unless that leaves an operand nothing but what is
// summed
ALG_RULE(slice_dot) {
  hlo_instr *dot = X;
  if (a->layout_sensitive || !a->through_dot || dot->opcode != HLO_DOT ||
      hlo_attr_get(dot, HLO_ATTR_SPARSITY_CONFIG))
    return NULL;
  alg_dot d;
  pass_alg_dot_dims(dot, &d);
  const hlo_slices *s = hlo_attr_ptr(i, HLO_ATTR_SLICE);
  hlo_slice_dim *cut[2];
  for (u32 k = 0; k < 2; k++) {
    hlo_instr *x = hlo_operand(dot, k);
    i64 map[HLO_MAX_RANK];
    u32 real = 0;  // dimensions longer than 1 once sliced
    cut[k] = HS_NEW_ARRAY(a->p->scratch, hlo_slice_dim, x->shape->rank + 1);
    pass_alg_dot_map(&d, k == 1, hlo_operand(dot, 0)->shape->rank, x->shape->rank, map);
    for (u32 j = 0; j < x->shape->rank; j++) {
      cut[k][j] = map[j] < 0 ? (hlo_slice_dim){0, x->shape->dims[j], 1} : s->v[map[j]];
      real += (map[j] < 0 ? x->shape->dims[j] : i->shape->dims[map[j]]) != 1;
    }
    if (real == d.nb + d.nc) return NULL;
  }
  return pass_alg_dot(a, dot, false, pass_alg_slice(a, hlo_operand(dot, 0), cut[0]),
                      pass_alg_slice(a, hlo_operand(dot, 1), cut[1]), &d);
}

// sum(dot(A, B)) = dot(sum(A), sum(B)) where that is enough cheaper
ALG_RULE(reduce_dot) {
  hlo_instr *dot = X;
  if (a->layout_sensitive || !a->through_dot || i->noperands != 2 || dot->opcode != HLO_DOT ||
      hlo_attr_get(dot, HLO_ATTR_SPARSITY_CONFIG))
    return NULL;
  hlo_computation *f = hlo_attr_comp(i, HLO_ATTR_TO_APPLY);
  alg_dot d, now = {0};
  pass_alg_dot_dims(dot, &d);
  if (d.nb || pass_alg_reducer(f) != HLO_ADD || !pass_alg_all(Y, 0) ||
      hlo_operand(dot, 0)->shape->dtype != dot->shape->dtype ||
      hlo_operand(dot, 1)->shape->dtype != dot->shape->dtype)
    return NULL;
  hlo_ints over = alg_dims(i);
  i64 *sum[2], map[HLO_MAX_RANK];
  u32 n[2] = {0};
  double before = 2 * products_in(dot) + (double)(dot->shape->elements - i->shape->elements),
         after = 2, sums = 0;
  for (u32 k = 0; k < 2; k++) {
    const hlo_shape *s = hlo_operand(dot, k)->shape;
    sum[k] = pass_alg_dims_new(a, s->rank);
    pass_alg_dot_map(&d, k == 1, hlo_operand(dot, 0)->shape->rank, s->rank, map);
    double left = 1;
    for (u32 j = 0; j < s->rank; j++) {
      if (map[j] >= 0 && pass_alg_has(over, map[j])) sum[k][n[k]++] = j;
      else left *= (double)s->dims[j];
    }
    sums += (double)s->elements - left;
    after *= left;
  }
  for (u32 k = 0; k < d.nc; k++)
    after /= (double)HS_MAX(hlo_operand(dot, 0)->shape->dims[d.lc[k]], 1);
  if (!(before > (after + sums) * a->through_dot_threshold) || (!n[0] && !n[1])) return NULL;
  hlo_instr *v[2];
  for (u32 k = 0; k < 2; k++)
    v[k] = n[k] ? pass_alg_reduce(a, hlo_operand(dot, k), Y, n[k], sum[k], f) : hlo_operand(dot, k);
  now.nc = d.nc;
  for (u32 k = 0; k < d.nc; k++) {
    now.lc[k] = d.lc[k], now.rc[k] = d.rc[k];
    for (u32 j = 0; j < n[0]; j++) now.lc[k] -= sum[0][j] < d.lc[k];
    for (u32 j = 0; j < n[1]; j++) now.rc[k] -= sum[1][j] < d.rc[k];
  }
  return pass_alg_dot(a, dot, false, v[0], v[1], &now);
}

// sum(dot(A, B)) over batch dimensions: the dot contracts them
ALG_RULE(reduce_dot_batch) {
  hlo_instr *dot = X;
  if (a->layout_sensitive || !a->non_canonical_dots || !a->dot_strength_reduction ||
      i->noperands != 2 || dot->opcode != HLO_DOT || dot->nuses != 1)
    return NULL;
  if (hlo_attr_get(dot, HLO_ATTR_SPARSITY_CONFIG) ||
      pass_alg_reducer(hlo_attr_comp(i, HLO_ATTR_TO_APPLY)) != HLO_ADD || !pass_alg_all(Y, 0))
    return NULL;
  alg_dot d, now = {0};
  pass_alg_dot_dims(dot, &d);
  hlo_ints over = alg_dims(i);
  i64 *rest = pass_alg_dims_new(a, over.n);
  u32 removed = 0, n = 0;
  now.nc = d.nc;
  memcpy(now.lc, d.lc, d.nc * sizeof *d.lc);
  memcpy(now.rc, d.rc, d.nc * sizeof *d.rc);
  for (u32 k = 0; k < d.nb; k++) {
    if (pass_alg_has(over, k)) now.lc[now.nc] = d.lb[k], now.rc[now.nc++] = d.rb[k], removed++;
    else now.lb[now.nb] = d.lb[k], now.rb[now.nb++] = d.rb[k];
  }
  if (!removed) return NULL;
  for (u32 k = 0; k < over.n; k++)
    if (over.v[k] >= (i64)d.nb) rest[n++] = over.v[k] - removed;
  hlo_instr *all = pass_alg_dot(a, dot, false, hlo_operand(dot, 0), hlo_operand(dot, 1), &now);
  return n ? pass_alg_reduce(a, all, Y, n, rest, hlo_attr_comp(i, HLO_ATTR_TO_APPLY)) : all;
}
