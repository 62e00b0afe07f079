// scatter.c — select-and-scatter and scatter: folds (fold.h) into positions that the data choose.
//
// Select-and-scatter compares the positions of a window in row-major order, keeps the one that the
// select computation prefers, and folds the element of the source in there. Scatter reads an index
// vector per window of updates; a window that does not lie within the operand is left out as a
// whole. Both take the updates in row-major order, as HandleSelectAndScatter and HandleScatter of
// XLA's hlo_evaluator_typed_visitor.h do: with a reducer that rounds, the order shows.
#include "core/eval/fold.h"
#include "core/eval/fast.h"

// ---- select-and-scatter -------------------------------------------------------------------------
// Whether `candidate` displaces `best`: the select computation says which of (best, candidate) to
// keep.
typedef struct chooser {
  bool fast;
  i64 direction;
  hlo_dtype type;  // of what is chosen from; the computation may take each in another precision
  ev_apply a;
} chooser;

static hs_status chooser_init(ev *e, const hlo_computation *c, hlo_dtype t, chooser *s) {
  *s = (chooser){.type = t};
  const hlo_instr *r = c->root;
  if (r->opcode == HLO_COMPARE && c->nparams == 2 && hlo_operand(r, 0) == c->params[0] &&
      hlo_operand(r, 1) == c->params[1] && t == HLO_F32 && c->params[0]->shape->dtype == t &&
      c->params[1]->shape->dtype == t) {
    s->direction = hlo_attr_int(r, HLO_ATTR_DIRECTION, 0);
    s->fast =
        (s->direction == HLO_DIRECTION_GE || s->direction == HLO_DIRECTION_LE ||
         s->direction == HLO_DIRECTION_GT || s->direction == HLO_DIRECTION_LT) &&
        hlo_attr_int(r, HLO_ATTR_COMPARE_TYPE, HLO_COMPARE_TYPE_FLOAT) == HLO_COMPARE_TYPE_FLOAT;
  }
  return s->fast ? HS_GOOD : ev_apply_init(e, c, &s->a);
}

static hs_status keep(const chooser *s, const void *best, const void *candidate, bool *yes) {
  if (s->fast) {
    float a = *(const float *)best, b = *(const float *)candidate;
    *yes = s->direction == HLO_DIRECTION_GE   ? a >= b
           : s->direction == HLO_DIRECTION_LE ? a <= b
           : s->direction == HLO_DIRECTION_GT ? a > b
                                              : a < b;
    return HS_GOOD;
  }
  u8 r = 0;
  u64 as_taken[2][2];  // room for the widest type
  void *out = &r;
  const void *in[2] = {best, candidate};
  for (u32 k = 0; k < 2; k++) {
    if (s->a.in[k] == s->type) continue;
    ev_convert(s->type, in[k], s->a.in[k], as_taken[k], 1);
    in[k] = as_taken[k];
  }
  HS_TRY(ev_apply_run(&s->a, &out, in, 1));
  *yes = r != 0;
  return HS_GOOD;
}

hs_status hlo_eval_select_and_scatter(ev *e, const hlo_instr *i, hlo_literal **ops,
                                      hlo_literal **out) {
  const hlo_shape *from = ops[0]->shape, *src = ops[1]->shape;
  const hlo_window *w = hlo_attr_ptr(i, HLO_ATTR_WINDOW);
  const hlo_computation *sel = hlo_attr_comp(i, HLO_ATTR_SELECT),
                        *add = hlo_attr_comp(i, HLO_ATTR_SCATTER);
  if (!sel || !add || (w ? w->n : 0) != from->rank)
    return ev_unsupported(i, "with a window of another rank");
  chooser c;
  fold f;
  HS_TRY(chooser_init(e, sel, from->dtype, &c));
  HS_TRY(fold_init(e, i, add, 1, &ops[1], true, &f));
  fold_accs a;
  hs_status st = fold_accs_new(e, &f, i->shape, &ops[2], &a);
  i64 size[HLO_MAX_RANK], fs[HLO_MAX_RANK], index[HLO_MAX_RANK] = {0}, at = 0;
  for (u32 d = 0; d < from->rank; d++) size[d] = w->v[d].size;
  hlo_row_major_strides(from->rank, from->dims, fs);
  size_t bytes = hlo_dtype_storage(from->dtype);
  const char *data = ops[0]->data, *source = ops[1]->data;
  if (hs_ok(st) && src->elements && from->elements) do {
      i64 pos[HLO_MAX_RANK] = {0}, best = -1;
      do {
        i64 p = 0;
        bool inside = true;
        for (u32 d = 0; d < from->rank && inside; d++) {
          i64 x = index[d] * w->v[d].stride - w->v[d].pad_low + pos[d] * w->v[d].rhs_dilate;
          inside = x >= 0 && x < from->dims[d];
          p += x * fs[d];
        }
        if (!inside) continue;
        bool stay = false;
        if (best >= 0) st = keep(&c, data + (size_t)best * bytes, data + (size_t)p * bytes, &stay);
        if (!stay) best = p;
      } while (hs_ok(st) && ev_next(from->rank, size, pos));
      if (best >= 0 && hs_ok(st)) {
        void *acc = (char *)a.p[0] + (size_t)best * f.acc_size[0];
        const void *x = source + (size_t)at * f.in_size[0];
        st = fold_rows(&f, &acc, &x, 1);
      }
      if ((++at & 4095) == 0 && hs_ok(st)) st = hs_poll();
    } while (hs_ok(st) && ev_next(src->rank, src->dims, index));
  return fold_accs_done(e, &f, i->shape, &a, st, out);
}

// ---- scatter ------------------------------------------------------------------------------------
static bool holds(hlo_ints v, i64 x) {
  for (u32 k = 0; k < v.n; k++)
    if (v.v[k] == x) return true;
  return false;
}

// How updates map to the operand: window dimensions (sizes, strides on both sides), and the other
// dimensions of the updates with the steps they make in the updates, the indices and (batch
// dimensions) the operand.
typedef struct scatter_map {
  u32 nw, nb;
  i64 wn[HLO_MAX_RANK], wo[HLO_MAX_RANK], wu[HLO_MAX_RANK];
  i64 bn[HLO_MAX_RANK], bu[HLO_MAX_RANK], bi[HLO_MAX_RANK], bo[HLO_MAX_RANK];
  i64 window[HLO_MAX_RANK];  // window size per operand dimension
  i64 stride[HLO_MAX_RANK];  // of the operand
  i64 index_step;            // between the components of one index vector
} scatter_map;

static bool scatter_map_of(const hlo_instr *i, hlo_literal *const *ops, u32 n, scatter_map *m) {
  const hlo_shape *to = ops[0]->shape, *ids = ops[n]->shape, *up = ops[n + 1]->shape;
  const i32 *used_ids = ops[n]->dynamic_sizes, *used = ops[n + 1]->dynamic_sizes;
  hlo_ints win = hlo_attr_ints(i, HLO_ATTR_UPDATE_WINDOW_DIMS),
           ins = hlo_attr_ints(i, HLO_ATTR_INSERTED_WINDOW_DIMS),
           batch = hlo_attr_ints(i, HLO_ATTR_INPUT_BATCHING_DIMS),
           id_batch = hlo_attr_ints(i, HLO_ATTR_SCATTER_INDICES_BATCHING_DIMS);
  i64 vector = hlo_attr_int(i, HLO_ATTR_INDEX_VECTOR_DIM, ids->rank), is[HLO_MAX_RANK],
      us[HLO_MAX_RANK];
  memset(m, 0, sizeof *m);
  hlo_row_major_strides(to->rank, to->dims, m->stride);
  hlo_row_major_strides(ids->rank, ids->dims, is);
  hlo_row_major_strides(up->rank, up->dims, us);
  m->index_step = vector < ids->rank ? is[vector] : 0;
  u32 k = 0, id_dim = 0;
  for (u32 d = 0; d < to->rank; d++) {
    m->window[d] = 1;
    if (holds(ins, d) || holds(batch, d)) continue;
    if (k >= win.n) return false;
    i64 u = win.v[k++];
    m->window[d] = m->wn[m->nw] = up->dims[u];
    m->wo[m->nw] = m->stride[d], m->wu[m->nw++] = us[u];
  }
  for (u32 d = 0; d < up->rank; d++) {
    if (holds(win, d)) continue;
    if (id_dim == vector) id_dim++;
    if (id_dim >= ids->rank) return false;
    // only updates in use are made
    m->bn[m->nb] = used_ids ? used_ids[id_dim] : used ? used[d] : up->dims[d];
    m->bu[m->nb] = us[d], m->bi[m->nb] = is[id_dim];
    for (u32 b = 0; b < id_batch.n; b++)
      if (id_batch.v[b] == id_dim) m->bo[m->nb] = m->stride[batch.v[b]];
    m->nb++, id_dim++;
  }
  return k == win.n;
}

// The computation may work in another type than the arrays, and the results may be stated in yet
// another: the arrays are converted, and the results.
static bool mixed_types(const hlo_instr *i, const hlo_computation *c, u32 n,
                        hlo_literal *const *ops) {
  for (u32 k = 0; k < n; k++)
    if (fold_part(i->shape, k)->dtype != ops[k]->shape->dtype ||
        c->params[k]->shape->dtype != ops[k]->shape->dtype ||
        c->params[n + k]->shape->dtype != ops[n + 1 + k]->shape->dtype)
      return true;
  return false;
}

static hs_status convert_literal(ev *e, hlo_literal **l, const hlo_shape *to) {
  hlo_literal *r;
  if ((*l)->shape->dtype == to->dtype) return HS_GOOD;
  HS_TRY(ev_new(e, to, &r));
  ev_convert((*l)->shape->dtype, (*l)->data, to->dtype, r->data, to->elements);
  hlo_literal_unref(*l);
  *l = r;
  return HS_GOOD;
}

static hs_status scatter_run(ev *e, const hlo_instr *i, u32 n, hlo_literal **ops, hlo_literal **r);

static hs_status scatter_converted(ev *e, const hlo_instr *i, u32 n, hlo_literal **ops,
                                   hlo_literal **out) {
  const hlo_computation *c = hlo_attr_comp(i, HLO_ATTR_TO_APPLY);
  hlo_literal *r[FOLD_MAX] = {0};
  if (n > FOLD_MAX) return ev_unsupported(i, "of so many arrays at once");
  for (u32 k = 0; k < n; k++) {
    HS_TRY(convert_literal(e, &ops[k], ev_typed(e, ops[k]->shape, c->params[k]->shape->dtype)));
    HS_TRY(convert_literal(e, &ops[n + 1 + k],
                           ev_typed(e, ops[n + 1 + k]->shape, c->params[n + k]->shape->dtype)));
  }
  hs_status st = scatter_run(e, i, n, ops, r);
  for (u32 k = 0; k < n && hs_ok(st); k++) st = convert_literal(e, &r[k], fold_part(i->shape, k));
  if (!hs_ok(st)) {
    for (u32 k = 0; k < n; k++) hlo_literal_unref(r[k]);
    return st;
  }
  *out = hlo_shape_is_tuple(i->shape) ? hlo_literal_tuple(i->shape, n, r) : r[0];
  return HS_GOOD;
}

hs_status hlo_eval_scatter(ev *e, const hlo_instr *i, hlo_literal **ops, hlo_literal **out) {
  const hlo_computation *c = hlo_attr_comp(i, HLO_ATTR_TO_APPLY);
  u32 n = (i->noperands - 1) / 2;
  if (!c || i->noperands < 3 || n > FOLD_MAX || c->nparams != 2 * n)
    return ev_unsupported(i, "with this computation");
  if (mixed_types(i, c, n, ops)) return scatter_converted(e, i, n, ops, out);
  hlo_literal *r[FOLD_MAX] = {0};
  HS_TRY(scatter_run(e, i, n, ops, r));
  *out = hlo_shape_is_tuple(i->shape) ? hlo_literal_tuple(i->shape, n, r) : r[0];
  return HS_GOOD;
}

// The scatter itself: the results, one per operand, in the types of the computation.
static hs_status scatter_run(ev *e, const hlo_instr *i, u32 n, hlo_literal **ops, hlo_literal **r) {
  const hlo_computation *c = hlo_attr_comp(i, HLO_ATTR_TO_APPLY);
  const hlo_shape *to = ops[0]->shape, *ids = ops[n]->shape, *up = ops[n + 1]->shape;
  hlo_ints map = hlo_attr_ints(i, HLO_ATTR_SCATTER_DIMS_TO_OPERAND_DIMS);
  fold f;
  scatter_map m;
  if (!scatter_map_of(i, ops, n, &m)) return ev_unsupported(i, "with these dimension numbers");
  bool assign = n == 1 && c->root == c->params[1];
  if (assign)
    f = (fold){.n = 1,
               .acc_size = {hlo_dtype_storage(to->dtype)},
               .in_size = {hlo_dtype_storage(to->dtype)}};
  else HS_TRY(fold_init(e, i, c, n, ops, false, &f));
  hs_status st = HS_GOOD;
  for (u32 k = 0; k < n && hs_ok(st); k++) {
    const hlo_shape *own = ops[k]->shape, *s = hlo_shape_leaf(i->shape, k);
    st = ev_own(e, &ops[k], s->dtype == own->dtype ? s : own, &r[k]);
  }
  i64 at[HLO_MAX_RANK] = {0}, polls = 0;
  hlo_dtype it = ids->dtype;
  const char *id_data = ops[n]->data;
  bool single = ev_product(m.nw, m.wn) == 1;
  // an array without elements has no place for a window, not even along an inserted dimension
  if (hs_ok(st) && to->elements && up->elements && ev_product(m.nb, m.bn)) do {
      i64 u = 0, id = 0, o = 0;
      bool inside = true;
      for (u32 b = 0; b < m.nb; b++)
        u += at[b] * m.bu[b], id += at[b] * m.bi[b], o += at[b] * m.bo[b];
      for (u32 q = 0; q < map.n && inside; q++) {
        i64 v = hlo_elem_to_i64(it, id_data + (size_t)(id + (i64)q * m.index_step) *
                                                  hlo_dtype_storage(it)),
            d = map.v[q];
        inside = v >= 0 && v <= to->dims[d] - m.window[d];
        if (inside) o += v * m.stride[d];
      }
      // a window that sticks out is dropped as a whole
      if (!inside) continue;
      void *a[FOLD_MAX];
      const void *x[FOLD_MAX];
      for (u32 k = 0; k < n; k++) {
        a[k] = (char *)r[k]->data + o * (i64)f.acc_size[k];
        x[k] = (const char *)ops[n + 1 + k]->data + u * (i64)f.in_size[k];
      }
      if (assign) ev_copy(f.acc_size[0], m.nw, m.wn, a[0], m.wo, x[0], m.wu);
      else st = single ? fold_rows(&f, a, x, 1) : fold_region(&f, m.nw, m.wn, a, m.wo, x, m.wu);
      if ((++polls & 4095) == 0 && hs_ok(st)) st = hs_poll();
    } while (hs_ok(st) && ev_next(m.nb, m.bn, at));
  for (u32 k = 0; k < n && !hs_ok(st); k++) {
    hlo_literal_unref(r[k]);
    r[k] = NULL;
  }
  for (u32 k = 0; k < n && hs_ok(st); k++)
    if (r[k]->shape->dtype == fold_part(i->shape, k)->dtype) r[k]->shape = fold_part(i->shape, k);
  return st;
}
