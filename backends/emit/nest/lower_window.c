// lower_window.c — lowering of convolutions: a reduction over the window and the input features,
// with guards where the window meets padding or the holes of a dilated input; select-and-scatter;
// and of windows that reach from one end of a row to each of its elements: prefix reductions.
//
// For targets that have nothing better (nest_lower_all). A convolution alone is lowered for all who
// ask: the CPU does for those of one feature. Every result of a convolution reads its whole window.
// A prefix reduction has two phases: segments of a row are reduced, then each segment goes through
// its own elements, from what those before it come to.
#include "backends/emit/nest/lower.h"

typedef struct conv {
  const hlo_dim_labels *d;
  const hlo_window *w;
  const hlo_shape *in, *kernel;
  i64 groups, batches;  // of features, of the batch
} conv;

// Indices of the input and the kernel for position k of a window, and the guard of what is inside.
static u32 spatial(lowering *l, const conv *c, u32 k, const nest_expr *out, const nest_expr *at,
                   const nest_expr **in, const nest_expr **kernel, u32 own) {
  nest *n = l->n;
  const hlo_window_dim *w = &c->w->v[k];
  i64 size = c->in->dims[c->d->lhs_spatial[k]], holes = HS_MAX(w->lhs_dilate, 1);
  const nest_expr *e = nest_add(n, nest_mul(n, out, w->stride), nest_const(n, -w->pad_low));
  e = nest_add(n, e, nest_mul(n, at, HS_MAX(w->rhs_dilate, 1)));
  own = nest_guard(n, e, 0, (size - 1) * holes + 1, own);
  if (holes > 1) {
    own = nest_guard(n, nest_mod(n, e, holes), 0, 1, own);
    e = nest_div(n, e, holes);
  }
  in[c->d->lhs_spatial[k]] = size == 1 ? nest_const(n, 0) : e;
  kernel[c->d->rhs_spatial[k]] =
      w->reversal ? nest_add(n, nest_const(n, w->size - 1), nest_mul(n, at, -1)) : at;
  return own;
}

static bool describe(const hlo_instr *i, conv *c) {
  static const hlo_window none = {0, NULL};
  *c = (conv){hlo_attr_ptr(i, HLO_ATTR_DIM_LABELS),
              hlo_attr_ptr(i, HLO_ATTR_WINDOW),
              hlo_operand(i, 0)->shape,
              hlo_operand(i, 1)->shape,
              HS_MAX(hlo_attr_int(i, HLO_ATTR_FEATURE_GROUP_COUNT, 1), 1),
              HS_MAX(hlo_attr_int(i, HLO_ATTR_BATCH_GROUP_COUNT, 1), 1)};
  if (!c->w) c->w = &none;
  if (i->noperands != 2 || !c->d || c->d->nspatial != c->w->n || c->d->lhs_batch < 0 ||
      c->d->lhs_feature < 0 || c->d->rhs_input_feature < 0 || c->d->rhs_output_feature < 0)
    return false;
  u32 rank = c->w->n + 2;
  return c->in->rank == rank && c->kernel->rank == rank && i->shape->rank == rank;
}

nest_val lower_convolution(lowering *l, lower_frame *f, const hlo_instr *i, u32 rank,
                           const nest_expr *const *idx, u32 guard) {
  nest *n = l->n;
  conv c;
  (void)rank;
  if (!describe(i, &c)) return lower_refuse(l, i, "with these dimensions");
  const nest_expr *in[HLO_MAX_RANK], *kernel[HLO_MAX_RANK];
  u32 loops[NEST_MAX_LOOPS], nloops = 0, own = NEST_NONE;
  const nest_expr *feature = idx[c.d->out_feature];
  i64 features = c.kernel->dims[c.d->rhs_output_feature],
      channels = c.kernel->dims[c.d->rhs_input_feature];
  hlo_dtype t = lower_dot_sums(c.in->dtype, c.kernel->dtype, i->shape->dtype),
            r = hlo_dtype_real_part(t);
  nest_val zero = {nest_const_f64(n, r, 0),
                   hlo_dtype_is_complex(t) ? nest_const_f64(n, r, 0) : NEST_NONE};
  if (c.in->elements == 0 || c.kernel->elements == 0)
    return nest_convert(n, zero, t, i->shape->dtype);
  for (u32 k = 0; k < c.w->n; k++) {
    const nest_expr *at = nest_const(n, 0);
    if (c.w->v[k].size > 1) {
      if (!nest_new_loop(n, c.w->v[k].size, &loops[nloops]))
        return lower_refuse(l, i, "too many loops");
      at = nest_of_var(n, loops[nloops++], 1);
    }
    own = spatial(l, &c, k, idx[c.d->out_spatial[k]], at, in, kernel, own);
  }
  const nest_expr *channel = nest_const(n, 0);
  if (channels > 1) {
    if (!nest_new_loop(n, channels, &loops[nloops])) return lower_refuse(l, i, "too many loops");
    channel = nest_of_var(n, loops[nloops++], 1);
  }
  kernel[c.d->rhs_input_feature] = channel;
  kernel[c.d->rhs_output_feature] = feature;
  in[c.d->lhs_feature] = channel;
  in[c.d->lhs_batch] = idx[c.d->out_batch];
  if (c.groups > 1)
    in[c.d->lhs_feature] =
        nest_add(n, nest_mul(n, nest_div(n, feature, features / c.groups), channels), channel);
  if (c.batches > 1)
    in[c.d->lhs_batch] = nest_add(n,
                                  nest_mul(n, nest_div(n, feature, features / c.batches),
                                           c.in->dims[c.d->lhs_batch] / c.batches),
                                  in[c.d->lhs_batch]);
  u32 g = own == NEST_NONE     ? guard
          : guard == NEST_NONE ? own
                               : nest_op2(n, HLO_AND, HLO_PRED, guard, own);
  nest_val a = lower_value(l, f, hlo_operand(i, 0), 0, c.in->rank, in, g),
           b = lower_value(l, f, hlo_operand(i, 1), 0, c.kernel->rank, kernel, guard), x, out;
  if (lower_failed(l)) return LOWER_NONE;
  a = nest_convert(n, a, c.in->dtype, t);
  b = nest_convert(n, b, c.kernel->dtype, t);
  if (!nest_elementwise(n, HLO_MULTIPLY, t, t, 2, (nest_val[]){a, b}, &x))
    return lower_refuse(l, i, hlo_dtype_text(t));
  lower_group(l, i, NULL, nloops, loops, NEST_NONE, own, 1, &x, &zero, &t, &out);
  if (lower_failed(l)) return LOWER_NONE;
  return lower_dot_result(n, out, c.in->dtype, c.kernel->dtype, i->shape->dtype);
}

// ---- select-and-scatter -------------------------------------------------------------------------
// An element of the result adds up the sources of those windows that selected it. For each window
// that covers it, the selection is made again: a reduction inside of a reduction.
typedef struct pool {
  const hlo_instr *i;
  const hlo_window *w;
  const hlo_shape *from, *source;
} pool;

// Index k of the operand for a window and a position in it.
static const nest_expr *covered(nest *n, const hlo_window_dim *w, const nest_expr *window,
                                const nest_expr *at) {
  const nest_expr *e = nest_add(n, nest_mul(n, window, w->stride), nest_const(n, -w->pad_low));
  return nest_add(n, e, nest_mul(n, at, HS_MAX(w->rhs_dilate, 1)));
}

// Loops over the positions of a window; and their number, the last dimension first to change.
static bool window_loops(lowering *l, const pool *p, u32 *loops, u32 *nloops, const nest_expr **at,
                         const nest_expr **number) {
  nest *n = l->n;
  *number = nest_const(n, 0);
  for (u32 d = 0; d < p->from->rank; d++) {
    at[d] = nest_const(n, 0);
    if (p->w->v[d].size == 1) continue;
    if (!nest_new_loop(n, p->w->v[d].size, &loops[*nloops])) return false;
    at[d] = nest_of_var(n, loops[(*nloops)++], 1);
    *number = nest_add(n, nest_mul(n, *number, p->w->v[d].size), at[d]);
  }
  return true;
}

static u32 index_node(nest *n, const nest_expr *e) {
  u32 x = nest_node_add(n, &(nest_node){.kind = NEST_INDEX, .dtype = HLO_S64, .e = e});
  return nest_op1(n, HLO_CONVERT, HLO_S32, x);
}

// The number of the position that the window selects: a group over (begun, value, number).
static u32 selected(lowering *l, lower_frame *f, const pool *p, const nest_expr *const *window,
                    u32 guard) {
  nest *n = l->n;
  hlo_dtype t = p->from->dtype;
  const hlo_dtype types[3] = {HLO_PRED, t, HLO_S32};
  const nest_expr *at[HLO_MAX_RANK], *idx[HLO_MAX_RANK], *number;
  nest_group g = {.cond = NEST_NONE, .seg = NEST_NONE, .nacc = 3, .monoid = HLO_OP_INVALID};
  u32 own = NEST_NONE;
  if (!window_loops(l, p, g.loops, &g.nloops, at, &number))
    return lower_refuse(l, p->i, "too many loops").re;
  for (u32 d = 0; d < p->from->rank; d++) {
    idx[d] = covered(n, &p->w->v[d], window[d], at[d]);
    own = nest_guard(n, idx[d], 0, p->from->dims[d], own);
    if (p->from->dims[d] == 1) idx[d] = nest_const(n, 0);
  }
  u32 in_both = own == NEST_NONE ? guard : nest_op2(n, HLO_AND, HLO_PRED, guard, own);
  nest_val x = lower_value(l, f, hlo_operand(p->i, 0), 0, p->from->rank, idx, in_both);
  if (lower_failed(l)) return NEST_NONE;
  u32 *all = hs_arena_zalloc(n->a, 18 * sizeof *all), gid = (u32)n->groups.n;
  g.in = all, g.init = all + 3, g.next = all + 6, g.acc = all + 9, g.elem = all + 12;
  g.out = all + 15;
  u32 yes = nest_const_f64(n, HLO_PRED, 1);
  const u32 in[3] = {yes, x.re, index_node(n, number)};
  for (u32 k = 0; k < 3; k++) {
    g.in[k] = in[k];
    g.init[k] = nest_const_f64(n, types[k], k == 2 ? -1 : 0);
    nest_node v = {.kind = NEST_ACC, .dtype = types[k], .group = gid, .k = k};
    g.acc[k] = nest_node_add(n, &v);
    v.kind = NEST_ELEM;
    g.elem[k] = nest_node_add(n, &v);
  }
  nest_val *args = hs_arena_zalloc(n->a, 2 * sizeof *args);
  args[0] = (nest_val){g.acc[1], NEST_NONE}, args[1] = (nest_val){g.elem[1], NEST_NONE};
  lower_frame *fr = HS_NEW(n->a, lower_frame);
  *fr = (lower_frame){.caller = p->i, .vals = args};
  const hlo_computation *select = hlo_attr_comp(p->i, HLO_ATTR_SELECT);
  nest_val keep = lower_value(l, fr, select->root, 0, 0, NULL, NEST_NONE);
  if (lower_failed(l)) return NEST_NONE;
  u32 stay = nest_op2(n, HLO_AND, HLO_PRED, g.acc[0], keep.re);
  g.next[0] = nest_op2(n, HLO_OR, HLO_PRED, g.acc[0], g.elem[0]);
  for (u32 k = 1; k < 3; k++) g.next[k] = nest_select(n, types[k], stay, g.acc[k], g.elem[k]);
  g.cond = own;
  g.merged_into = gid;
  for (u32 k = 0; k < g.nloops; k++) g.mask |= 1ull << n->vars.v[g.loops[k]].loop;
  hs_vec_push(&n->groups, g);
  for (u32 k = 0; k < 3; k++)
    n->groups.v[gid].out[k] = nest_node_add(
        n, &(nest_node){.kind = NEST_REDUCE, .dtype = types[k], .group = gid, .k = k});
  return g.out[2];
}

nest_val lower_select_and_scatter(lowering *l, lower_frame *f, const hlo_instr *i, u32 rank,
                                  const nest_expr *const *idx, u32 guard) {
  nest *n = l->n;
  pool p = {i, hlo_attr_ptr(i, HLO_ATTR_WINDOW), hlo_operand(i, 0)->shape,
            hlo_operand(i, 1)->shape};
  hlo_dtype t = p.from->dtype;
  const hlo_computation *by = hlo_attr_comp(i, HLO_ATTR_SCATTER),
                        *select = hlo_attr_comp(i, HLO_ATTR_SELECT);
  if (!p.w || p.w->n != rank || hlo_dtype_is_complex(t) || p.source->dtype != t ||
      i->shape->dtype != t || !by || by->root->shape->dtype != t ||
      by->params[0]->shape->dtype != t || hlo_operand(i, 2)->shape->dtype != t || !select ||
      select->params[0]->shape->dtype != t || select->params[1]->shape->dtype != t)
    return lower_refuse(l, i, "with these operands");
  u32 loops[NEST_MAX_LOOPS], nloops = 0, own = NEST_NONE;
  const nest_expr *at[HLO_MAX_RANK], *window[HLO_MAX_RANK], *number;
  nest_val init = lower_value(l, f, hlo_operand(i, 2), 0, 0, NULL, NEST_NONE), out;
  if (lower_failed(l) || p.source->elements == 0) return init;
  if (!window_loops(l, &p, loops, &nloops, at, &number))
    return lower_refuse(l, i, "too many loops");
  for (u32 d = 0; d < rank; d++) {  // the window that has this element at this position
    const hlo_window_dim *w = &p.w->v[d];
    const nest_expr *e = nest_add(n, nest_add(n, idx[d], nest_const(n, w->pad_low)),
                                  nest_mul(n, at[d], -HS_MAX(w->rhs_dilate, 1)));
    own = nest_guard(n, e, 0, (p.source->dims[d] - 1) * w->stride + 1, own);
    if (w->stride > 1) {
      own = nest_guard(n, nest_mod(n, e, w->stride), 0, 1, own);
      e = nest_div(n, e, w->stride);
    }
    window[d] = p.source->dims[d] == 1 ? nest_const(n, 0) : e;
  }
  u32 g = own == NEST_NONE     ? guard
          : guard == NEST_NONE ? own
                               : nest_op2(n, HLO_AND, HLO_PRED, guard, own);
  if (g == NEST_NONE) g = nest_const_f64(n, HLO_PRED, 1);
  u32 chosen = selected(l, f, &p, window, g);
  if (lower_failed(l)) return LOWER_NONE;
  nest_val same, in;
  (void)nest_compare(n, HLO_DIRECTION_EQ, false, HLO_S32, (nest_val){chosen, NEST_NONE},
                     (nest_val){index_node(n, number), NEST_NONE}, &same);
  u32 cond = nest_op2(n, HLO_AND, HLO_PRED, g, same.re);
  in = lower_value(l, f, hlo_operand(i, 1), 0, rank, window, g);
  if (lower_failed(l)) return LOWER_NONE;
  lower_group(l, i, by, nloops, loops, NEST_NONE, cond, 1, &in, &init, &t, &out);
  return out;
}

// ---- prefix reductions --------------------------------------------------------------------------
enum { ALONG = 1024, ACROSS = 128 };  // elements of a segment, along memory and across

typedef struct prefix {
  u32 d;      // dimension
  bool back;  // from the last element on
  i64 n, size, segments;
} prefix;

static bool is_prefix(const hlo_instr *i, u32 nv, prefix *p) {
  const hlo_window *w = hlo_attr_ptr(i, HLO_ATTR_WINDOW);
  const hlo_shape *s = hlo_operand(i, 0)->shape;
  u32 found = 0;
  if (!w || w->n != s->rank || s->elements == 0) return false;
  for (u32 d = 0; d < s->rank; d++) {
    const hlo_window_dim *v = &w->v[d];
    i64 n = s->dims[d];
    if (v->stride != 1 || v->lhs_dilate > 1 || v->rhs_dilate > 1) return false;
    if (v->size == 1 && v->pad_low == 0 && v->pad_high == 0) continue;
    bool ahead = v->size >= n && v->pad_low == v->size - 1 && v->pad_high == 0,
         back = v->size >= n && v->pad_high == v->size - 1 && v->pad_low == 0;
    if (!ahead && !back) return false;
    *p = (prefix){.d = d, .back = back, .n = n};
    found++;
  }
  if (found != 1 || p->n < 32) return false;
  for (u32 k = 0; k < nv; k++)
    if (!hlo_shape_same_dims(hlo_operand(i, k)->shape, hlo_shape_leaf(i->shape, k)) ||
        hlo_operand(i, k)->shape->dtype != hlo_shape_leaf(i->shape, k)->dtype)
      return false;
  return true;
}

// Loops over the other dimensions, in the result's physical order, and over the segments: last
// along memory, where neighbours share a row, first across it. *segment: NEST_NONE for one alone.
static bool row_loops(lowering *l, const hlo_shape *s, const prefix *p, nest_stage *st,
                      const nest_expr **idx, u32 *segment) {
  nest *n = l->n;
  i64 dims[HLO_MAX_RANK];
  u32 order[HLO_MAX_RANK];
  lower_physical(s, dims, order);
  bool along = order[s->rank - 1] == p->d;
  *segment = NEST_NONE;
  for (u32 k = 0; k <= s->rank + 1; k++) {
    bool own = along ? k == s->rank + 1 : k == 0;
    if (own && p->segments > 1) {
      if (!nest_new_loop(n, p->segments, &st->loops[st->nloops])) return false;
      *segment = st->loops[st->nloops++];
    }
    if (k == 0 || k > s->rank || order[k - 1] == p->d) continue;
    u32 d = order[k - 1];
    idx[d] = nest_const(n, 0);
    if (s->dims[d] == 1) continue;
    if (!nest_new_loop(n, s->dims[d], &st->loops[st->nloops])) return false;
    idx[d] = nest_of_var(n, st->loops[st->nloops++], 1);
  }
  return true;
}

static const nest_expr *position(nest *n, const prefix *p, u32 segment, u32 within) {
  const nest_expr *e = nest_of_var(n, within, 1);
  return segment == NEST_NONE ? e : nest_add(n, e, nest_of_var(n, segment, p->size));
}
static const nest_expr *place(nest *n, const prefix *p, const nest_expr *at) {
  return p->back ? nest_add(n, nest_const(n, p->n - 1), nest_mul(n, at, -1)) : at;
}

// What the reduction of a part starts from: the identity, or the initial value of a reducer that
// may take it any number of times.
static u32 start_of(nest *n, const nest_group *g, u32 k) {
  hlo_dtype t = n->nodes.v[g->acc[k]].dtype;
  if (g->monoid == HLO_ADD) return nest_const_f64(n, t, hlo_dtype_is_float(t) ? -0.0 : 0);
  if (g->monoid == HLO_XOR) return nest_const_f64(n, t, 0);
  return g->monoid == HLO_MULTIPLY ? nest_const_f64(n, t, 1) : g->init[k];
}

// Rows of partial results in scratch: expression of element `segment` of the stage's row.
static const nest_expr *partial_place(nest *n, const nest_stage *st, u32 count, u32 own,
                                      i64 segments, const nest_expr *segment) {
  const nest_expr *e = nest_const(n, 0);
  for (u32 k = 0; k < count; k++)
    if (st->loops[k] != own)
      e = nest_add(n, nest_mul(n, e, n->vars.v[st->loops[k]].hi + 1),
                   nest_of_var(n, st->loops[k], 1));
  return nest_add(n, nest_mul(n, e, segments), segment);
}

typedef struct scan {
  const hlo_instr *i;
  lower_frame *f;
  prefix p;
  u32 nv;
  nest_val *in, *init, *out;
  hlo_dtype *types;
} scan;

static bool values_at(lowering *l, const scan *s, const nest_expr *const *idx, u32 guard) {
  u32 rank = hlo_operand(s->i, 0)->shape->rank;
  for (u32 k = 0; k < s->nv && !lower_failed(l); k++)
    s->in[k] = lower_value(l, s->f, hlo_operand(s->i, k), 0, rank, idx, guard);
  return !lower_failed(l);
}

// The first phase: a reduction for every segment. Gives the buffers of its results.
static bool reduce_segments(lowering *l, const scan *s, u32 *bufs) {
  nest *n = l->n;
  nest_stage st = {0};
  const nest_expr *idx[HLO_MAX_RANK];
  const hlo_computation *by = hlo_attr_comp(s->i, HLO_ATTR_TO_APPLY);
  u32 segment, within;
  if (!row_loops(l, hlo_shape_leaf(s->i->shape, 0), &s->p, &st, idx, &segment) ||
      !nest_new_loop(n, s->p.size, &within))
    return (void)lower_refuse(l, s->i, "too many loops"), false;
  const nest_expr *at = position(n, &s->p, segment, within);
  u32 inside = nest_guard(n, at, 0, s->p.n, NEST_NONE);
  idx[s->p.d] = place(n, &s->p, at);
  if (!values_at(l, s, idx, inside)) return false;
  lower_group(l, s->i, by, 1, &within, NEST_NONE, inside, s->nv, s->in, s->init, s->types, s->out);
  if (lower_failed(l)) return false;
  nest_group *g = &n->groups.v[n->groups.n - 1];
  i64 points = 1;
  for (u32 k = 0; k < st.nloops; k++) points *= n->vars.v[st.loops[k]].hi + 1;
  const nest_expr *to =
      partial_place(n, &st, st.nloops, segment, s->p.segments, nest_of_var(n, segment, 1));
  for (u32 k = 0; k < g->nacc; k++) {
    hlo_dtype t = n->nodes.v[g->acc[k]].dtype;
    nest_buf b = {
        .dtype = t, .elements = points, .arg = NEST_BUF_SCRATCH, .offset = n->scratch_bytes};
    n->scratch_bytes += (points * (i64)hlo_dtype_storage(t) + 63) / 64 * 64;
    hs_vec_push(&n->bufs, b);
    bufs[k] = (u32)n->bufs.n - 1;
    g->init[k] = start_of(n, g, k);
    hs_vec_push(&st.stores, ((nest_store){bufs[k], to, g->out[k]}));
  }
  hs_vec_push(&n->stages, st);
  return true;
}

// What the segments before this one come to, as a copy of the group with other loops.
static void reduce_before(nest *n, const nest_stage *st, const prefix *p, u32 segment, u32 loop,
                          const u32 *bufs, nest_group *g) {
  u32 gid = (u32)n->groups.n;
  const nest_expr *e = nest_add(n, nest_of_var(n, loop, 1), nest_of_var(n, segment, -1));
  g->nloops = 1;
  g->loops[0] = loop;
  g->mask = 1ull << n->vars.v[loop].loop;
  g->merged_into = gid;
  g->cond = nest_guard(n, e, -p->segments, 0, NEST_NONE);
  u32 *in = hs_arena_zalloc(n->a, 2 * g->nacc * sizeof *in);
  g->in = in, g->out = in + g->nacc;
  for (u32 k = 0; k < g->nacc; k++)
    g->in[k] =
        nest_node_add(n, &(nest_node){.kind = NEST_LOAD,
                                      .dtype = n->nodes.v[g->acc[k]].dtype,
                                      .e = partial_place(n, st, st->nloops, segment, p->segments,
                                                         nest_of_var(n, loop, 1)),
                                      .buf = bufs[k],
                                      .guard = NEST_NONE});
  hs_vec_push(&n->groups, *g);
  for (u32 k = 0; k < g->nacc; k++)
    g->out[k] = nest_node_add(
        n, &(nest_node){
               .kind = NEST_REDUCE, .dtype = n->nodes.v[g->acc[k]].dtype, .group = gid, .k = k});
}

bool lower_scan(lowering *l, lower_frame *f, const hlo_instr *i) {
  nest *n = l->n;
  if (i->opcode != HLO_REDUCE_WINDOW || !f->lone) return false;
  const hlo_computation *by = hlo_attr_comp(i, HLO_ATTR_TO_APPLY);
  scan s = {.i = i, .f = f, .nv = i->noperands / 2};
  if (!is_prefix(i, s.nv, &s.p) || !lower_reduces_as_is(i, s.nv) || !lower_any_order(i))
    return false;
  const hlo_shape *shape = hlo_shape_leaf(i->shape, 0);
  i64 dims[HLO_MAX_RANK];
  u32 order[HLO_MAX_RANK], bufs[NEST_MAX_ACCS], segment, within, step, loop = 0;
  lower_physical(shape, dims, order);
  s.p.size = order[shape->rank - 1] == s.p.d ? ALONG : ACROSS;
  if (s.p.n <= s.p.size) s.p.size = s.p.n;
  s.p.segments = (s.p.n + s.p.size - 1) / s.p.size;
  s.in = HS_NEW_ARRAY(l->a, nest_val, 3 * s.nv);
  s.init = s.in + s.nv, s.out = s.in + 2 * s.nv;
  s.types = HS_NEW_ARRAY(l->a, hlo_dtype, s.nv);
  for (u32 k = 0; k < s.nv && !lower_failed(l); k++) {
    s.types[k] = hlo_operand(i, k)->shape->dtype;
    s.init[k] = lower_value(l, f, hlo_operand(i, s.nv + k), 0, 0, NULL, NEST_NONE);
    if (hlo_operand(i, s.nv + k)->shape->dtype != s.types[k]) return false;
  }
  if (lower_failed(l)) return true;
  if (s.p.segments > 1 && !reduce_segments(l, &s, bufs)) return true;
  nest_stage st = {0};
  const nest_expr *idx[HLO_MAX_RANK], *to[HLO_MAX_RANK];
  if (!row_loops(l, shape, &s.p, &st, idx, &segment) || !nest_new_loop(n, s.p.size, &within) ||
      !nest_new_loop(n, s.p.size, &step) ||
      (s.p.segments > 1 && !nest_new_loop(n, s.p.segments, &loop)))
    return (void)lower_refuse(l, i, "too many loops"), true;
  memcpy(to, idx, shape->rank * sizeof *idx);
  idx[s.p.d] = place(n, &s.p, position(n, &s.p, segment, step));
  to[s.p.d] = place(n, &s.p, position(n, &s.p, segment, within));
  if (!values_at(l, &s, idx, NEST_NONE)) return true;
  lower_group(l, i, by, 1, &step, NEST_NONE, NEST_NONE, s.nv, s.in, s.init, s.types, s.out);
  if (lower_failed(l)) return true;
  u32 own = (u32)n->groups.n - 1;
  nest_group *g = &n->groups.v[own];
  g->start = hs_arena_zalloc(n->a, g->nacc * sizeof *g->start);
  for (u32 k = 0; k < g->nacc; k++) g->start[k] = start_of(n, g, k);
  if (s.p.segments > 1) {
    nest_group first = *g;
    first.start = NULL;
    reduce_before(n, &st, &s.p, segment, loop, bufs, &first);
    u32 *init = hs_arena_zalloc(n->a, first.nacc * sizeof *init);
    memcpy(init, first.out, first.nacc * sizeof *init);
    n->groups.v[own].init = init;
  }
  st.loops[st.nloops++] = within;
  st.scan = own + 1, st.segment = segment, st.scanned = s.p.n;
  n->groups.v[own].along = within + 1;
  for (size_t k = 0; k < n->nodes.n; k++) n->nodes.v[k].deps = nest_node_deps(n, &n->nodes.v[k]);
  size_t before = n->stages.n;
  hs_vec_push(&n->stages, st);
  for (u32 k = 0; k < s.nv && !lower_failed(l); k++) lower_store(l, before, k, to, s.out[k]);
  if (s.p.segments > 1) {
    hs_vec_push(&n->finish, n->stages.v[before]);
    n->stages.n--;
  }
  return true;
}
