// reduce.c — folds (fold.h), reduce, reduce-window and scan.
//
// A fold runs over rows: what is contiguous in the input and in the accumulators. Accesses with
// other strides are gathered into blocks first. A reduce whose order is free passes once over its
// input in memory order; any other visits the reduced positions in row-major order, for a block of
// results at a time. A window that reaches from one end of a dimension to each element is a running
// fold, linear in the size. XLA's evaluator calls the computation per element instead
// (hlo_evaluator.cc); only the speed differs.
#include "core/eval/fold.h"
#include "core/eval/fast.h"

// ---- folding rows and regions -------------------------------------------------------------------
static bool is_float_sum(hlo_opcode op) { return op == HLO_ADD || op == HLO_MULTIPLY; }

hs_status fold_init(ev *e, const hlo_instr *i, const hlo_computation *c, u32 n,
                    hlo_literal *const *in, bool wide, fold *f) {
  *f = (fold){.kind = FOLD_PROGRAM, .n = n};
  if (n > FOLD_MAX) return ev_unsupported(i, "of so many arrays at once");
  if (!c || c->nparams != 2 * n)
    return ev_unsupported(i, "with a computation that does not take two values per array");
  hlo_dtype t = in[0]->shape->dtype;
  f->op = n == 1 && c->root->shape->dtype == t ? ev_reducer(c) : HLO_OP_INVALID;
  bool sum = hlo_dtype_is_float(t) && t != HLO_F64 && is_float_sum(f->op);
  if (sum && wide && (t == HLO_F32 || !e->opt.round_each_term)) f->kind = FOLD_WIDE;
  else if (f->op && !(sum && t != HLO_F32)) {
    hlo_dtype two[2] = {t, t};
    if (ew_compile_types(f->op, c->root, 2, two, t, &f->k)) f->kind = FOLD_KERNEL;
  }
  for (u32 k = 0; k < n; k++) {
    f->in_size[k] = hlo_dtype_storage(in[k]->shape->dtype);
    f->acc_type[k] = f->kind == FOLD_PROGRAM ? c->params[k]->shape->dtype : t;
    f->acc_size[k] = f->kind == FOLD_WIDE ? sizeof(double) : hlo_dtype_storage(f->acc_type[k]);
  }
  if (f->kind != FOLD_PROGRAM) return HS_GOOD;
  HS_TRY(ev_apply_init(e, c, &f->a));
  for (u32 k = 0; k < n; k++)
    if (f->a.nout != n || f->a.out[k] != f->a.in[k] ||
        hlo_dtype_storage(f->a.in[n + k]) != f->in_size[k])
      return ev_unsupported(i, "with accumulators of another type");
  return HS_GOOD;
}

enum { WIDE_BLOCK = 1024 };  // values that a FOLD_WIDE takes at once

// m <= WIDE_BLOCK of them from x on, as f32: where they are or, narrow ones, in room.
static const float *as_f32(const fold *f, const void *x, i64 m, float *room) {
  if (f->acc_type[0] == HLO_F32) return x;
  ev_convert(f->acc_type[0], x, HLO_F32, room, m);
  return room;
}

// fold_rows of a FOLD_WIDE. Functions of their own: reducers that fold nest, and what their frames
// hold is there at every level.
static HS_NOINLINE void add_wide_rows(const fold *f, double *acc, const char *x, i64 n) {
  float room[WIDE_BLOCK];
  for (i64 at = 0; at < n; at += WIDE_BLOCK) {
    i64 m = HS_MIN((i64)WIDE_BLOCK, n - at);
    const float *v = as_f32(f, x + (size_t)at * f->in_size[0], m, room);
    for (i64 j = 0; j < m && f->op == HLO_ADD; j++) acc[at + j] += (double)v[j];
    for (i64 j = 0; j < m && f->op != HLO_ADD; j++) acc[at + j] *= (double)v[j];
  }
}

// acc[j] = acc[j] op x[j] for rows of any length, all contiguous.
hs_status fold_rows(const fold *f, void *const *acc, const void *const *x, i64 n) {
  if (f->kind == FOLD_WIDE) return add_wide_rows(f, acc[0], x[0], n), HS_GOOD;
  if (f->kind == FOLD_KERNEL) {
    const void *in[2] = {acc[0], x[0]};
    ew_run(&f->k, acc[0], in, n);
    return HS_GOOD;
  }
  for (i64 j = 0; j < n; j += EV_BLOCK) {
    const void *in[2 * FOLD_MAX];
    void *out[FOLD_MAX];
    for (u32 k = 0; k < f->n; k++) {
      out[k] = (char *)acc[k] + (size_t)j * f->acc_size[k];
      in[k] = out[k];
      in[f->n + k] = (const char *)x[k] + (size_t)j * f->in_size[k];
    }
    HS_TRY(ev_apply_run(&f->a, out, in, HS_MIN((i64)EV_BLOCK, n - j)));
  }
  return HS_GOOD;
}

static double wide_sum(const float *v, i64 n) {
  double s[16] = {0};
  i64 j = 0;
  for (; j + 16 <= n; j += 16)
    for (int k = 0; k < 16; k++) s[k] += (double)v[j + k];
  for (int k = 0; j < n; j++, k++) s[k] += (double)v[j];
  for (int w = 8; w; w /= 2)
    for (int k = 0; k < w; k++) s[k] += s[k + w];
  return s[0];
}

static HS_NOINLINE void add_wide_run(const fold *f, double *acc, const char *x, i64 n) {
  float room[WIDE_BLOCK];
  for (i64 at = 0; at < n; at += WIDE_BLOCK) {
    i64 m = HS_MIN((i64)WIDE_BLOCK, n - at);
    const float *v = as_f32(f, x + (size_t)at * f->in_size[0], m, room);
    if (f->op == HLO_ADD) *acc += wide_sum(v, m);
    else
      for (i64 j = 0; j < m; j++) *acc *= (double)v[j];
  }
}

// One accumulator takes a contiguous run; only for folds whose order is free (exact ones and f64
// sums).
static void fold_run(const fold *f, void *acc, const void *x, i64 n) {
  if (f->kind == FOLD_WIDE) {
    add_wide_run(f, acc, x, n);
    return;
  }
  size_t w = f->in_size[0];
  double lanes[2 * EV_BLOCK];  // EV_BLOCK elements of any type
  i64 m = HS_MIN(n, (i64)EV_BLOCK), j = m;
  memcpy(lanes, x, (size_t)m * w);
  for (; j + m <= n; j += m) {
    const void *in[2] = {lanes, (const char *)x + (size_t)j * w};
    ew_run(&f->k, lanes, in, m);
  }
  if (j < n) {
    const void *in[2] = {lanes, (const char *)x + (size_t)j * w};
    ew_run(&f->k, lanes, in, n - j);
  }
  while (m > 1) {
    i64 h = m / 2;
    const void *in[2] = {lanes, (char *)lanes + (size_t)(m - h) * w};
    ew_run(&f->k, lanes, in, h);
    m -= h;
  }
  const void *in[2] = {acc, lanes};
  ew_run(&f->k, acc, in, 1);
}

// Folds a strided region of x into a strided region of acc.
hs_status fold_region(const fold *f, u32 rank, const i64 *n, void *const *acc, const i64 *as,
                      const void *const *x, const i64 *xs) {
  i64 index[HLO_MAX_RANK] = {0}, line = rank ? n[rank - 1] : 1, la = rank ? as[rank - 1] : 1,
      lx = rank ? xs[rank - 1] : 1;
  char *ab[FOLD_MAX] = {0}, *xb[FOLD_MAX] = {0};
  bool dense = (la == 1 && lx == 1) || line == 1;
  for (u32 k = 0; k < f->n && !dense; k++)
    ab[k] = hs_alloc(EV_BLOCK * f->acc_size[k]), xb[k] = hs_alloc(EV_BLOCK * f->in_size[k]);
  hs_status st = HS_GOOD;
  do {
    i64 oa = 0, ox = 0;
    for (u32 d = 0; d + 1 < rank; d++) oa += index[d] * as[d], ox += index[d] * xs[d];
    for (i64 j = 0; j < line && hs_ok(st); j += dense ? line : EV_BLOCK) {
      i64 m = dense ? line : HS_MIN((i64)EV_BLOCK, line - j);
      void *pa[FOLD_MAX];
      const void *px[FOLD_MAX];
      for (u32 k = 0; k < f->n; k++) {
        pa[k] = (char *)acc[k] + (oa + j * la) * (i64)f->acc_size[k];
        px[k] = (const char *)x[k] + (ox + j * lx) * (i64)f->in_size[k];
        if (dense) continue;
        i64 one = 1;
        ev_copy(f->acc_size[k], 1, &m, ab[k], &one, pa[k], &la);
        ev_copy(f->in_size[k], 1, &m, xb[k], &one, px[k], &lx);
      }
      st = dense ? fold_rows(f, pa, px, m)
                 : fold_rows(f, (void *const *)ab, (const void *const *)xb, m);
      for (u32 k = 0; k < f->n && !dense; k++) {
        i64 one = 1;
        ev_copy(f->acc_size[k], 1, &m, pa[k], &la, ab[k], &one);
      }
    }
  } while (hs_ok(st) && ev_next(rank ? rank - 1 : 0, n, index));
  for (u32 k = 0; k < f->n; k++) {
    hs_free(ab[k]);
    hs_free(xb[k]);
  }
  return st;
}

// ---- accumulators and results -------------------------------------------------------------------
hs_status fold_accs_new(ev *e, const fold *f, const hlo_shape *result, hlo_literal *const *init,
                        fold_accs *a) {
  memset(a, 0, sizeof *a);
  for (u32 k = 0; k < f->n; k++) {
    const hlo_shape *s = fold_part(result, k);
    hlo_dtype t = f->acc_type[k], from = init[k]->shape->dtype;
    // floats of other precision: they meet in the accumulator's type
    bool mixed = s->dtype != t || from != t;
    if (mixed &&
        !(hlo_dtype_is_float(t) && hlo_dtype_is_float(s->dtype) && hlo_dtype_is_float(from)))
      return hs_fail_subject(
          HS_E_UNSUPPORTED, "reduce",
          "unsupported: reduce with a result of another type than its accumulator");
    HS_TRY(ev_new(e, s->dtype == t ? s : ev_typed(e, s, t), &a->lit[k]));
    a->p[k] = a->lit[k]->data;
    if (f->kind == FOLD_WIDE) {
      a->wide = hs_try_alloc((size_t)HS_MAX(s->elements, 1) * sizeof(double));
      if (!a->wide)
        return hs_fail(HS_E_NO_MEMORY, "no memory for %lld accumulators", (long long)s->elements);
      double v = hlo_literal_f64(init[k], 0);
      ev_fill(sizeof v, a->wide, &v, s->elements);
      a->p[k] = a->wide;
    } else {
      double v[2];
      ev_convert(from, init[k]->data, t, v, 1);
      ev_fill(f->acc_size[k], a->p[k], v, s->elements);
    }
  }
  return HS_GOOD;
}

hs_status fold_accs_done(ev *e, const fold *f, const hlo_shape *result, fold_accs *a, hs_status st,
                         hlo_literal **out) {
  if (hs_ok(st) && a->wide)
    ev_convert(HLO_F64, a->wide, f->acc_type[0], a->lit[0]->data, a->lit[0]->shape->elements);
  for (u32 k = 0; k < f->n && hs_ok(st); k++) {
    const hlo_shape *s = fold_part(result, k);
    hlo_literal *own = a->lit[k];
    if (s->dtype == own->shape->dtype) continue;
    st = ev_new(e, s, &a->lit[k]);
    if (hs_ok(st)) ev_convert(own->shape->dtype, own->data, s->dtype, a->lit[k]->data, s->elements);
    hlo_literal_unref(own);
  }
  if (hs_ok(st))
    *out = hlo_shape_is_tuple(result) ? hlo_literal_tuple(result, f->n, a->lit) : a->lit[0];
  else
    for (u32 k = 0; k < f->n; k++) hlo_literal_unref(a->lit[k]);
  hs_free(a->wide);
  return st;
}

hs_status ev_match_precision(ev *e, hlo_dtype want, hlo_literal **l) {
  hlo_literal *x = *l, *r;
  hlo_dtype t = x->shape->dtype;
  if (want == t || !hlo_dtype_is_float(want) || !hlo_dtype_is_float(t)) return HS_GOOD;
  HS_TRY(ev_new(e, ev_typed(e, x->shape, want), &r));
  ev_convert(t, x->data, want, r->data, r->shape->elements);
  ev_keep_sizes(r, x);
  hlo_literal_unref(x);
  return *l = r, HS_GOOD;
}

// Brings floats of another precision than the computation's parameters to theirs.
static hs_status match_inputs(ev *e, const hlo_computation *c, u32 n, hlo_literal **in) {
  for (u32 k = 0; c && k < n && n + k < c->nparams; k++)
    HS_TRY(ev_match_precision(e, c->params[n + k]->shape->dtype, &in[k]));
  return HS_GOOD;
}

// ---- reduce -------------------------------------------------------------------------------------
typedef struct split {
  u32 nk, nr;
  i64 kn[HLO_MAX_RANK], ks[HLO_MAX_RANK], rn[HLO_MAX_RANK], rs[HLO_MAX_RANK];
} split;

// A recognised reducer whose order is free: one pass over the input in memory order.
static hs_status reduce_in_order(const fold *f, const hlo_shape *from, const bool *reduced,
                                 void *acc, const char *data) {
  i64 n[HLO_MAX_RANK], o[HLO_MAX_RANK], os[HLO_MAX_RANK], index[HLO_MAX_RANK] = {0}, step = 1;
  u32 r = 0;
  for (u32 d = from->rank; d-- > 0;) {
    os[d] = reduced[d] ? 0 : step;
    if (!reduced[d]) step *= from->dims[d];
  }
  for (u32 d = 0; d < from->rank; d++) {  // join dimensions of the same kind
    if (from->dims[d] == 1) continue;
    if (r && (o[r - 1] == 0) == (os[d] == 0)) n[r - 1] *= from->dims[d], o[r - 1] = os[d];
    else n[r] = from->dims[d], o[r++] = os[d];
  }
  if (r == 0) n[0] = 1, o[r++] = 0;
  i64 line = n[r - 1], polls = 0;
  do {
    i64 at = 0;
    for (u32 d = 0; d + 1 < r; d++) at += index[d] * o[d];
    void *p = (char *)acc + (size_t)at * f->acc_size[0];
    const void *x = data;
    if (o[r - 1] == 0) fold_run(f, p, x, line);
    else HS_TRY(fold_rows(f, &p, &x, line));
    data += (size_t)line * f->in_size[0];
    if ((++polls & 1023) == 0) HS_TRY(hs_poll());
  } while (ev_next(r - 1, n, index));
  return HS_GOOD;
}

// The general case: a block of results at a time, all reduced positions in order.
static hs_status reduce_blocks(const fold *f, const split *s, void *const *acc,
                               hlo_literal *const *in) {
  i64 total = ev_product(s->nk, s->kn), index[HLO_MAX_RANK] = {0};
  if (ev_product(s->nr, s->rn) == 0) return HS_GOOD;
  char *block[FOLD_MAX];
  for (u32 k = 0; k < f->n; k++) block[k] = hs_alloc(EV_BLOCK * f->in_size[k]);
  hs_status st = HS_GOOD;
  for (i64 o = 0; o < total && hs_ok(st); o += EV_BLOCK) {
    i64 m = HS_MIN((i64)EV_BLOCK, total - o), base[EV_BLOCK];
    bool dense = true;
    for (i64 j = 0; j < m; j++) {
      base[j] = 0;
      for (u32 d = 0; d < s->nk; d++) base[j] += index[d] * s->ks[d];
      dense &= base[j] == base[0] + j;
      ev_next(s->nk, s->kn, index);
    }
    i64 ri[HLO_MAX_RANK] = {0};
    do {
      i64 at = 0;
      for (u32 d = 0; d < s->nr; d++) at += ri[d] * s->rs[d];
      const void *x[FOLD_MAX];
      void *a[FOLD_MAX];
      for (u32 k = 0; k < f->n; k++) {
        size_t w = f->in_size[k];
        const char *src = (const char *)in[k]->data + (base[0] + at) * (i64)w;
        a[k] = (char *)acc[k] + (size_t)o * f->acc_size[k];
        x[k] = src;
        if (dense) continue;
        const char *all = (const char *)in[k]->data + at * (i64)w;
        if (w == 4)
          for (i64 j = 0; j < m; j++) memcpy(block[k] + 4 * j, all + base[j] * 4, 4);
        else
          for (i64 j = 0; j < m; j++) memcpy(block[k] + j * (i64)w, all + base[j] * (i64)w, w);
        x[k] = block[k];
      }
      st = fold_rows(f, a, x, m);
    } while (hs_ok(st) && ev_next(s->nr, s->rn, ri));
    if (hs_ok(st)) st = hs_poll();
  }
  for (u32 k = 0; k < f->n; k++) hs_free(block[k]);
  return st;
}

hs_status hlo_eval_reduce(ev *e, const hlo_instr *i, hlo_literal **ops, hlo_literal **out) {
  u32 n = i->noperands / 2;
  HS_TRY(match_inputs(e, hlo_attr_comp(i, HLO_ATTR_TO_APPLY), n, ops));
  const hlo_shape *from = ops[0]->shape;
  hlo_ints dims = hlo_attr_ints(i, HLO_ATTR_DIMENSIONS);
  fold f;
  HS_TRY(fold_init(e, i, hlo_attr_comp(i, HLO_ATTR_TO_APPLY), n, ops, true, &f));
  bool reduced[HLO_MAX_RANK] = {false}, cut = false;
  for (u32 k = 0; k < dims.n; k++) reduced[dims.v[k]] = true;
  i64 stride[HLO_MAX_RANK];
  hlo_row_major_strides(from->rank, from->dims, stride);
  split s = {0};
  for (u32 d = 0; d < from->rank; d++) {
    i64 size = from->dims[d];
    if (reduced[d] && ops[0]->dynamic_sizes && ops[0]->dynamic_sizes[d] < size)
      size = ops[0]->dynamic_sizes[d], cut = true;
    if (reduced[d]) s.rn[s.nr] = size, s.rs[s.nr++] = stride[d];
    else s.kn[s.nk] = size, s.ks[s.nk++] = stride[d];
  }
  fold_accs a;
  hs_status st = fold_accs_new(e, &f, i->shape, &ops[n], &a);
  bool empty = from->elements == 0;
  if (hs_ok(st) && !empty)
    st = f.kind != FOLD_PROGRAM && !cut ? reduce_in_order(&f, from, reduced, a.p[0], ops[0]->data)
                                        : reduce_blocks(&f, &s, a.p, ops);
  HS_TRY(fold_accs_done(e, &f, i->shape, &a, st, out));
  if (ops[0]->dynamic_sizes)
    for (u32 k = 0; k < n; k++) {
      hlo_literal *r = hlo_shape_is_tuple(i->shape) ? (*out)->children[k] : *out;
      u32 to = 0;
      for (u32 d = 0; d < from->rank; d++)
        if (!reduced[d] && r->dynamic_sizes) r->dynamic_sizes[to++] = ops[0]->dynamic_sizes[d];
    }
  return HS_GOOD;
}

// ---- reduce-window ------------------------------------------------------------------------------
// One dimension of the region that a window position touches: results first, first + step, ...
// (count of them) read inputs from, from + by, ...
typedef struct span {
  i64 first, step, count, from, by;
} span;

static i64 gcd(i64 a, i64 b) {
  while (b) {
    i64 t = a % b;
    a = b;
    b = t;
  }
  return a;
}

static span span_of(const hlo_window_dim *w, i64 position, i64 nin, i64 nout) {
  i64 c = position * w->rhs_dilate - w->pad_low, base = HS_MAX(w->lhs_dilate, 1),
      stride = w->stride;
  span s = {.step = base / gcd(stride, base)};
  s.by = s.step * stride / base;
  while (s.first < nout && (s.first * stride + c < 0 || (s.first * stride + c) % base != 0)) {
    if (s.first * stride + c < 0 && base == 1) s.first = (-c + stride - 1) / stride;
    else s.first++;
  }
  if (s.first >= nout) return s;
  s.from = (s.first * stride + c) / base;
  if (s.from >= nin) return s;
  i64 by_in = s.by ? (nin - 1 - s.from) / s.by : INT64_MAX, by_out = (nout - 1 - s.first) / s.step;
  s.count = HS_MIN(by_in, by_out) + 1;
  return s;
}

// Whether each result is a commutative operation on its two arguments.
static bool commutes(const hlo_computation *c) {
  const hlo_instr *root = c->root;
  bool tuple = root->opcode == HLO_TUPLE;
  u32 n = c->nparams / 2;
  for (u32 k = 0; k < (tuple ? root->noperands : 1); k++) {
    const hlo_instr *r = tuple ? hlo_operand(root, k) : root;
    if (!hlo_commutes_on(r, c->params[k], c->params[n + k])) return false;
  }
  return true;
}

// A window that covers everything up to (or from) each element: a running fold along that
// dimension, backwards when the order does not matter to c. Returns the dimension, or rank when the
// window is something else.
static u32 running_dim(const hlo_window *w, const hlo_shape *from, const hlo_computation *c,
                       bool *backwards) {
  u32 dim = from->rank;
  for (u32 d = 0; d < w->n; d++) {
    const hlo_window_dim *v = &w->v[d];
    if (v->size == 1 && v->stride == 1 && v->pad_low == 0 && v->pad_high == 0 && v->lhs_dilate <= 1)
      continue;
    bool low = v->pad_low == v->size - 1 && v->pad_high == 0,
         high = v->pad_high == v->size - 1 && v->pad_low == 0;
    if (dim != from->rank || v->stride != 1 || v->lhs_dilate > 1 || v->rhs_dilate > 1 ||
        v->size != from->dims[d] || !(low || (high && commutes(c))))
      return from->rank;
    dim = d;
    *backwards = !low;
  }
  return dim;
}

static hs_status running_fold(const fold *f, const hlo_shape *from, u32 dim, bool backwards,
                              void *const *acc, hlo_literal *const *in) {
  i64 n[HLO_MAX_RANK], s[HLO_MAX_RANK], len = from->dims[dim];
  memcpy(n, from->dims, from->rank * sizeof *n);
  n[dim] = 1;
  hlo_row_major_strides(from->rank, from->dims, s);
  for (i64 t = 0; t < len; t++) {
    i64 at = backwards ? len - 1 - t : t, before = backwards ? at + 1 : at - 1;
    void *a[FOLD_MAX];
    const void *x[FOLD_MAX];
    for (u32 k = 0; k < f->n; k++) {
      a[k] = (char *)acc[k] + at * s[dim] * (i64)f->acc_size[k];
      x[k] = (const char *)in[k]->data + at * s[dim] * (i64)f->in_size[k];
      if (t)
        ev_copy(f->acc_size[k], from->rank, n, a[k], s,
                (char *)acc[k] + before * s[dim] * (i64)f->acc_size[k], s);
    }
    HS_TRY(fold_region(f, from->rank, n, a, s, x, s));
    HS_TRY(hs_poll());
  }
  return HS_GOOD;
}

static hs_status fold_windows(const fold *f, const hlo_window *w, const hlo_shape *from,
                              const hlo_shape *to, void *const *acc, hlo_literal *const *in) {
  i64 size[HLO_MAX_RANK], at[HLO_MAX_RANK] = {0}, as[HLO_MAX_RANK], xs[HLO_MAX_RANK];
  for (u32 d = 0; d < w->n; d++) {
    size[d] = w->v[d].size;
    if (size[d] <= 0) return HS_GOOD;
  }
  hlo_row_major_strides(to->rank, to->dims, as);
  hlo_row_major_strides(from->rank, from->dims, xs);
  do {
    i64 n[HLO_MAX_RANK], ra[HLO_MAX_RANK], rx[HLO_MAX_RANK], oa = 0, ox = 0;
    bool any = true;
    for (u32 d = 0; d < w->n; d++) {
      i64 position = w->v[d].reversal ? size[d] - 1 - at[d] : at[d];
      span s = span_of(&w->v[d], position, from->dims[d], to->dims[d]);
      n[d] = s.count;
      any &= s.count > 0;
      oa += s.first * as[d], ox += s.from * xs[d];
      ra[d] = s.step * as[d], rx[d] = s.by * xs[d];
    }
    if (!any) continue;
    void *a[FOLD_MAX];
    const void *x[FOLD_MAX];
    for (u32 k = 0; k < f->n; k++) {
      a[k] = (char *)acc[k] + oa * (i64)f->acc_size[k];
      x[k] = (const char *)in[k]->data + ox * (i64)f->in_size[k];
    }
    HS_TRY(fold_region(f, w->n, n, a, ra, x, rx));
    HS_TRY(hs_poll());
  } while (ev_next(w->n, size, at));
  return HS_GOOD;
}

// What is not in use counts as padding does: it is the initial value.
static hs_status fill_with_init(ev *e, hlo_literal **op, const hlo_literal *init) {
  char value[16];
  if (!ev_is_cut(*op)) return HS_GOOD;
  ev_convert(init->shape->dtype, init->data, (*op)->shape->dtype, value, 1);
  return ev_fill_unused(e, op, value);
}

hs_status hlo_eval_reduce_window(ev *e, const hlo_instr *i, hlo_literal **ops, hlo_literal **out) {
  static const hlo_window none = {0, NULL};
  u32 n = i->noperands / 2;
  const hlo_window *w = hlo_attr_ptr(i, HLO_ATTR_WINDOW);
  HS_TRY(match_inputs(e, hlo_attr_comp(i, HLO_ATTR_TO_APPLY), n, ops));
  const hlo_shape *from = ops[0]->shape, *to = fold_part(i->shape, 0);
  if (!w) w = &none;
  if (w->n != from->rank) return ev_unsupported(i, "with a window of another rank");
  for (u32 k = 0; k < n; k++) HS_TRY(fill_with_init(e, &ops[k], ops[n + k]));
  fold f;
  HS_TRY(fold_init(e, i, hlo_attr_comp(i, HLO_ATTR_TO_APPLY), n, ops, true, &f));
  fold_accs a;
  bool backwards = false;
  u32 dim = running_dim(w, from, hlo_attr_comp(i, HLO_ATTR_TO_APPLY), &backwards);
  hs_status st = fold_accs_new(e, &f, i->shape, &ops[n], &a);
  if (hs_ok(st) && from->elements && to->elements)
    st = dim < from->rank ? running_fold(&f, from, dim, backwards, a.p, ops)
                          : fold_windows(&f, w, from, to, a.p, ops);
  HS_TRY(fold_accs_done(e, &f, i->shape, &a, st, out));
  for (u32 k = 0; k < n; k++) {
    hlo_literal *r = hlo_shape_is_tuple(i->shape) ? (*out)->children[k] : *out;
    for (u32 d = 0; d < w->n; d++) ev_window_size(&w->v[d], ops[0], d, r, d);
  }
  return HS_GOOD;
}

// ---- scan ---------------------------------------------------------------------------------------
// to_apply(input slices..., carries...) gives (output slices..., new carries...), along one
// dimension in order. What comes in another precision than it is taken in is brought to that.
hs_status hlo_eval_scan(ev *e, const hlo_instr *i, hlo_literal **ops, hlo_literal **out) {
  const hlo_computation *c = hlo_attr_comp(i, HLO_ATTR_TO_APPLY);
  u32 carries = (u32)hlo_attr_int(i, HLO_ATTR_NUM_CARRIES, 0), n = i->noperands;
  hlo_ints dims = hlo_attr_ints(i, HLO_ATTR_DIMENSIONS);
  if (!c || c->nparams != n || carries > n || carries == n || dims.n != 1)
    return ev_unsupported(i, "with these operands");
  u32 nin = n - carries, nres = hlo_shape_is_tuple(c->root->shape) ? c->root->shape->nelems : 1;
  u32 nleaves = hlo_shape_is_tuple(i->shape) ? i->shape->nelems : 1, nouts = nleaves - carries;
  bool reverse = hlo_attr_int(i, HLO_ATTR_IS_REVERSE, 0) != 0;
  if (nres != nleaves || nleaves < carries || nouts > FOLD_MAX || n > FOLD_MAX)
    return ev_unsupported(i, "with these results");
  for (u32 k = 0; k < n; k++) HS_TRY(ev_match_precision(e, c->params[k]->shape->dtype, &ops[k]));
  i64 dim = dims.v[0], len = ops[0]->shape->dims[dim];
  hlo_literal *outs[FOLD_MAX] = {0}, *carry[FOLD_MAX] = {0};
  hs_status st = HS_GOOD;
  for (u32 k = 0; k < nouts && hs_ok(st); k++) st = ev_new(e, fold_part(i->shape, k), &outs[k]);
  for (u32 k = 0; k < carries; k++) carry[k] = ops[nin + k], ops[nin + k] = NULL;
  for (i64 t = 0; t < len && hs_ok(st); t++) {
    i64 at = reverse ? len - 1 - t : t;
    hlo_literal *args[FOLD_MAX] = {0}, *r = NULL;
    for (u32 k = 0; k < nin && hs_ok(st); k++) {
      const hlo_shape *s = ops[k]->shape;
      i64 size[HLO_MAX_RANK], ss[HLO_MAX_RANK], ds[HLO_MAX_RANK];
      memcpy(size, s->dims, s->rank * sizeof *size);
      size[dim] = 1;
      hlo_row_major_strides(s->rank, s->dims, ss);
      hlo_row_major_strides(s->rank, size, ds);
      st = ev_new(e, c->params[k]->shape, &args[k]);
      size_t w = hlo_dtype_storage(s->dtype);
      if (hs_ok(st) && s->elements)
        ev_copy(w, s->rank, size, args[k]->data, ds,
                (const char *)ops[k]->data + at * ss[dim] * (i64)w, ss);
    }
    for (u32 k = 0; k < carries; k++) args[nin + k] = carry[k], carry[k] = NULL;
    if (hs_ok(st)) st = ev_call(e, c, n, args, &r);
    else
      for (u32 k = 0; k < n; k++) hlo_literal_unref(args[k]);
    if (!hs_ok(st)) break;
    for (u32 k = 0; k < nleaves && hs_ok(st); k++) {
      hlo_literal *v = hlo_literal_ref(r->nchildren ? r->children[k] : r);
      st = ev_match_precision(e,
                              k < nouts     ? outs[k]->shape->dtype
                              : t + 1 < len ? c->params[nin + k - nouts]->shape->dtype
                                            : fold_part(i->shape, k)->dtype,
                              &v);
      if (k >= nouts || !hs_ok(st)) {
        if (k >= nouts) carry[k - nouts] = v;
        else hlo_literal_unref(v);
        continue;
      }
      const hlo_shape *s = outs[k]->shape;
      i64 size[HLO_MAX_RANK], ss[HLO_MAX_RANK], ds[HLO_MAX_RANK];
      memcpy(size, s->dims, s->rank * sizeof *size);
      size[dim] = 1;
      hlo_row_major_strides(s->rank, size, ss);
      hlo_row_major_strides(s->rank, s->dims, ds);
      size_t w = hlo_dtype_storage(s->dtype);
      if (s->elements)
        ev_copy(w, s->rank, size, (char *)outs[k]->data + at * ds[dim] * (i64)w, ds, v->data, ss);
      hlo_literal_unref(v);
    }
    hlo_literal_unref(r);
    st = hs_poll();
  }
  for (u32 k = 0; k < carries && hs_ok(st) && len == 0; k++)
    st = ev_match_precision(e, fold_part(i->shape, nouts + k)->dtype, &carry[k]);
  hlo_literal *all[2 * FOLD_MAX];
  for (u32 k = 0; k < nouts; k++) all[k] = outs[k];
  for (u32 k = 0; k < carries; k++) all[nouts + k] = carry[k];
  if (hs_ok(st))
    *out = hlo_shape_is_tuple(i->shape) ? hlo_literal_tuple(i->shape, nleaves, all) : all[0];
  else
    for (u32 k = 0; k < nouts + carries; k++) hlo_literal_unref(all[k]);
  return st;
}
