// dot.c — dot, ragged-dot, scaled-dot and convolution, all as matrix products through offset
// tables.
//
// Operands are widened once: narrow floats and 8/16-bit integers to f32, 32-bit integers and f64
// stay or become f64; sums are f64 and rounded once to the result, as XLA:CPU's own wide
// accumulation nearly does. Integers whose sums may pass 2^53 are multiplied in wrapping 64-bit
// arithmetic when the result is one of integers. A complex product is four real ones. A convolution
// is the product of the padded (and dilated) input, seen through windows, with the kernel; every
// group is one product.
#include "core/eval/library.h"
#include "core/eval/fast.h"

typedef struct axis {
  u32 n;
  i64 size[HLO_MAX_RANK], stride[HLO_MAX_RANK];
} axis;

static void axis_add(axis *a, i64 size, i64 stride) {
  a->size[a->n] = size;
  a->stride[a->n++] = stride;
}
static i64 axis_len(const axis *a) { return ev_product(a->n, a->size); }

// Offsets of every index along an axis, in row-major order, times `scale`, plus `shift`. The caller
// polls.
static i64 *offsets(const axis *a, i64 scale, i64 shift) {
  i64 n = axis_len(a), index[HLO_MAX_RANK] = {0};
  i64 *t = hs_try_alloc((size_t)HS_MAX(n, 1) * sizeof *t);
  for (i64 k = 0; t && k < n && !hs_stops(k); k++) {
    i64 o = shift;
    for (u32 d = 0; d < a->n; d++) o += index[d] * a->stride[d] * scale;
    t[k] = o;
    ev_next(a->n, a->size, index);
  }
  return t;
}

// ---- one product --------------------------------------------------------------------------------
// What a product works on: the operands' data widened, and whether they are complex or exact
// integers.
typedef struct wide {
  hlo_dtype type;
  const void *data;
  void *own;
  bool complex;
} wide;

typedef struct product {
  wide a, b;
  bool wraps;  // 64-bit integer arithmetic
  // sums are rounded to this type before they become the result's; else INVALID
  hlo_dtype round_to;
  hlo_dtype out;
} product;

static hs_status widen(const hlo_literal *l, hlo_dtype to, wide *w) {
  hlo_dtype t = l->shape->dtype;
  *w = (wide){.type = to, .data = l->data, .complex = hlo_dtype_is_complex(t)};
  if (w->complex) {
    w->type = hlo_dtype_real_part(t);
    return HS_GOOD;
  }
  if (t == to) return HS_GOOD;
  w->own = hs_try_alloc((size_t)HS_MAX(l->shape->elements, 1) * hlo_dtype_storage(to));
  if (!w->own) return hs_fail(HS_E_NO_MEMORY, "no memory to widen an operand");
  ev_convert(t, l->data, to, w->own, l->shape->elements);
  w->data = w->own;
  return HS_GOOD;
}

static bool is_int(hlo_dtype t) { return t == HLO_PRED || hlo_dtype_is_integer(t); }

static hlo_dtype width_for(hlo_dtype t, bool wraps) {
  if (wraps) return HLO_S64;
  if (is_int(t)) return hlo_dtype_bits(t) <= 16 ? HLO_F32 : HLO_F64;
  return t == HLO_F64 ? HLO_F64 : HLO_F32;
}

static hs_status product_init(const hlo_literal *a, const hlo_literal *b, hlo_dtype out, i64 depth,
                              product *p) {
  hlo_dtype ta = a->shape->dtype, tb = b->shape->dtype;
  *p = (product){.out = out};
  if (is_int(ta) && is_int(tb)) {
    int bits = hlo_dtype_bits(ta) + hlo_dtype_bits(tb);
    p->wraps = is_int(out) && (bits > 32 || (depth > 1 << 20));
  } else if (is_int(out)) {
    // a product of floats, converted afterwards
    bool second = is_int(ta) || (hlo_dtype_is_float(ta) && !is_int(tb) &&
                                 hlo_dtype_bits(tb) > hlo_dtype_bits(ta));
    p->round_to = second ? tb : ta;
  }
  HS_TRY(widen(a, width_for(ta, p->wraps), &p->a));
  return widen(b, width_for(tb, p->wraps), &p->b);
}
static void product_free(product *p) {
  hs_free(p->a.own);
  hs_free(p->b.own);
}

static void wrap_product(i64 m, i64 n, i64 k, const i64 *a, const i64 *la, const i64 *da,
                         const i64 *b, const i64 *lb, const i64 *db, i64 *c) {
  memset(c, 0, (size_t)(m * n) * sizeof *c);
  for (i64 i = 0; i < m && !hs_interrupted(); i++)
    for (i64 q = 0; q < k; q++) {
      u64 x = (u64)a[la[i] + da[q]];
      if (!x) continue;
      for (i64 j = 0; j < n; j++)
        c[i * n + j] = (i64)((u64)c[i * n + j] + x * (u64)b[lb[j] + db[q]]);
    }
}

// Sums to results: dst is a contiguous m x n block of the result type.
static void round_sums(const product *p, const double *re, const double *im, i64 n, void *dst) {
  if (p->out == HLO_C64) {
    float *q = dst;
    for (i64 i = 0; i < n; i++) q[2 * i] = (float)re[i], q[2 * i + 1] = im ? (float)im[i] : 0;
    return;
  }
  if (p->out == HLO_C128) {
    double *q = dst;
    for (i64 i = 0; i < n; i++) q[2 * i] = re[i], q[2 * i + 1] = im ? im[i] : 0;
    return;
  }
  if (p->round_to) {
    size_t w = hlo_dtype_storage(p->round_to);
    char *t = hs_alloc_or_stop((size_t)HS_MAX(n, 1) * w);
    if (!t) return;
    ev_convert(HLO_F64, re, p->round_to, t, n);
    ev_convert(p->round_to, t, p->out, dst, n);
    hs_free(t);
    return;
  }
  if (is_int(p->out) && p->out != HLO_PRED) {  // exact sums, cut to the width
    i64 *t = hs_alloc_or_stop((size_t)HS_MAX(n, 1) * sizeof *t);
    if (!t) return;
    for (i64 i = 0; i < n; i++) t[i] = (i64)re[i];
    ev_convert(HLO_S64, t, p->out, dst, n);
    hs_free(t);
    return;
  }
  ev_convert(HLO_F64, re, p->out, dst, n);
}

// dst (m x n, contiguous) = a (m x k at ao) times b (n x k at bo). Axes hold strides in elements.
static hs_status multiply(const product *p, const axis *am, const axis *ak, i64 ao, const axis *bn,
                          const axis *bk, i64 bo, void *dst) {
  i64 m = axis_len(am), n = axis_len(bn), k = axis_len(ak), ca = p->a.complex ? 2 : 1,
      cb = p->b.complex ? 2 : 1;
  if (m == 0 || n == 0) return HS_GOOD;  // of how many nothings the operands do not bound
  i64 *la = offsets(am, ca, ao * ca), *da = offsets(ak, ca, 0), *lb = offsets(bn, cb, bo * cb),
      *db = offsets(bk, cb, 0);
  double *re = hs_try_alloc((size_t)HS_MAX(m * n, 1) * sizeof *re), *im = NULL, *tmp = NULL;
  bool complex = p->a.complex || p->b.complex;
  if (complex)
    im = hs_try_alloc((size_t)HS_MAX(m * n, 1) * sizeof *im),
    tmp = hs_try_alloc((size_t)HS_MAX(m * n, 1) * sizeof *tmp);
  hs_status st = la && da && lb && db && re && (!complex || (im && tmp))
                     ? HS_GOOD
                     : hs_fail(HS_E_NO_MEMORY, "no memory for a matrix product");
  if (hs_ok(st)) st = hs_poll();
  if (hs_ok(st) && p->wraps) {
    wrap_product(m, n, k, p->a.data, la, da, p->b.data, lb, db, (i64 *)(void *)re);
    ev_convert(HLO_S64, re, p->out, dst, m * n);
    st = hs_poll();
  } else if (hs_ok(st)) {
    ev_matrix a = {p->a.type, p->a.data, la, da}, b = {p->b.type, p->b.data, lb, db};
    st = ev_gemm(m, n, k, &a, &b, re);
    if (hs_ok(st) && complex) {
      size_t wa = hlo_dtype_storage(a.type), wb = hlo_dtype_storage(b.type);
      ev_matrix ai = a, bi = b;
      ai.base = (const char *)a.base + wa;
      bi.base = (const char *)b.base + wb;
      if (p->a.complex && p->b.complex) {
        st = ev_gemm(m, n, k, &ai, &bi, tmp);
        for (i64 i = 0; i < m * n; i++) re[i] -= tmp[i];
      }
      memset(im, 0, (size_t)(m * n) * sizeof *im);
      if (hs_ok(st) && p->b.complex) st = ev_gemm(m, n, k, &a, &bi, im);
      if (hs_ok(st) && p->a.complex) {
        st = ev_gemm(m, n, k, &ai, &b, tmp);
        for (i64 i = 0; i < m * n; i++) im[i] += tmp[i];
      }
    }
    if (hs_ok(st)) round_sums(p, re, im, m * n, dst);
  }
  hs_free(la);
  hs_free(da);
  hs_free(lb);
  hs_free(db);
  hs_free(re);
  hs_free(im);
  hs_free(tmp);
  return st;
}

// ---- dot ----------------------------------------------------------------------------------------
static bool holds(hlo_ints v, i64 x) {
  for (u32 k = 0; k < v.n; k++)
    if (v.v[k] == x) return true;
  return false;
}

typedef struct dot_axes {
  axis batch_a, batch_b, m, n, ka, kb;
} dot_axes;

static ev_dims dims_of(const hlo_instr *i) {
  return (ev_dims){hlo_attr_ints(i, HLO_ATTR_LHS_BATCH_DIMS),
                   hlo_attr_ints(i, HLO_ATTR_RHS_BATCH_DIMS),
                   hlo_attr_ints(i, HLO_ATTR_LHS_CONTRACTING_DIMS),
                   hlo_attr_ints(i, HLO_ATTR_RHS_CONTRACTING_DIMS)};
}

static void dot_axes_of(const ev_dims *d, const hlo_shape *a, const hlo_shape *b, dot_axes *x) {
  hlo_ints lb = d->lhs_batch, rb = d->rhs_batch, lc = d->lhs_contracting, rc = d->rhs_contracting;
  i64 as[HLO_MAX_RANK], bs[HLO_MAX_RANK];
  memset(x, 0, sizeof *x);
  hlo_row_major_strides(a->rank, a->dims, as);
  hlo_row_major_strides(b->rank, b->dims, bs);
  for (u32 k = 0; k < lb.n; k++)
    axis_add(&x->batch_a, a->dims[lb.v[k]], as[lb.v[k]]),
        axis_add(&x->batch_b, b->dims[rb.v[k]], bs[rb.v[k]]);
  for (u32 k = 0; k < lc.n; k++)
    axis_add(&x->ka, a->dims[lc.v[k]], as[lc.v[k]]),
        axis_add(&x->kb, b->dims[rc.v[k]], bs[rc.v[k]]);
  for (u32 k = 0; k < a->rank; k++)
    if (!holds(lb, k) && !holds(lc, k)) axis_add(&x->m, a->dims[k], as[k]);
  for (u32 k = 0; k < b->rank; k++)
    if (!holds(rb, k) && !holds(rc, k)) axis_add(&x->n, b->dims[k], bs[k]);
}

// Contracted elements beyond a dynamic size do not count.
static void cut_dynamic(const hlo_literal *l, hlo_ints c, axis *a, axis *b) {
  for (u32 k = 0; k < c.n && l->dynamic_sizes; k++) {
    a->size[k] = HS_MIN(a->size[k], l->dynamic_sizes[c.v[k]]);
    b->size[k] = HS_MIN(b->size[k], a->size[k]);
  }
}

// A failed product leaves nothing behind.
static hs_status finished(hs_status st, hlo_literal **out) {
  if (hs_ok(st)) return st;
  hlo_literal_unref(*out);
  *out = NULL;
  return st;
}

hs_status ev_dot(ev *e, const ev_dims *d, hlo_literal *const *ops, const hlo_shape *result,
                 hlo_literal **out) {
  dot_axes x;
  product p;
  dot_axes_of(d, ops[0]->shape, ops[1]->shape, &x);
  cut_dynamic(ops[0], d->lhs_contracting, &x.ka, &x.kb);
  cut_dynamic(ops[1], d->rhs_contracting, &x.kb, &x.ka);
  HS_TRY(ev_new(e, result, out));
  if (!result->elements) return HS_GOOD;
  hs_status st = product_init(ops[0], ops[1], result->dtype, axis_len(&x.ka), &p);
  i64 *ba = offsets(&x.batch_a, 1, 0), *bb = offsets(&x.batch_b, 1, 0), nb = axis_len(&x.batch_a);
  if (!ba || !bb) st = hs_chain(st, hs_fail(HS_E_NO_MEMORY, "no memory for the batches of a dot"));
  if (hs_ok(st)) st = hs_poll();
  size_t step = (size_t)(axis_len(&x.m) * axis_len(&x.n)) * hlo_dtype_storage(result->dtype);
  for (i64 g = 0; g < nb && hs_ok(st); g++)
    st = multiply(&p, &x.m, &x.ka, ba[g], &x.n, &x.kb, bb[g],
                  (char *)(*out)->data + (size_t)g * step);
  hs_free(ba);
  hs_free(bb);
  product_free(&p);
  return finished(st, out);
}

hs_status hlo_eval_dot(ev *e, const hlo_instr *i, hlo_literal **ops, hlo_literal **out) {
  ev_dims d = dims_of(i);
  HS_TRY(ev_dot(e, &d, ops, i->shape, out));
  ev_dot_sizes(&d, ops, *out);
  return HS_GOOD;
}

// ---- scaled-dot: each operand times its scale, which covers blocks of it; then a dot ------------
hs_status ev_apply_scale(ev *e, hlo_literal **op, const hlo_literal *scale) {
  const hlo_literal *l = *op;
  const hlo_shape *s = l->shape, *q = scale->shape;
  hlo_literal *r;
  HS_TRY(ev_new(e, ev_typed(e, s, HLO_F32), &r));
  ev_convert(s->dtype, l->data, HLO_F32, r->data, s->elements);
  float *v = r->data;
  if (q->rank == s->rank && s->elements && q->elements) {
    i64 index[HLO_MAX_RANK] = {0}, qs[HLO_MAX_RANK], block[HLO_MAX_RANK], at = 0;
    hlo_row_major_strides(q->rank, q->dims, qs);
    for (u32 d = 0; d < s->rank; d++) block[d] = HS_MAX(s->dims[d] / q->dims[d], 1);
    do {
      i64 o = 0;
      for (u32 d = 0; d < s->rank; d++) o += HS_MIN(index[d] / block[d], q->dims[d] - 1) * qs[d];
      v[at++] *= (float)hlo_literal_f64(scale, o);
    } while (ev_next(s->rank, s->dims, index));
  } else if (q->elements == 1) {
    float f = (float)hlo_literal_f64(scale, 0);
    for (i64 k = 0; k < s->elements; k++) v[k] *= f;
  }
  hlo_literal_unref(*op);
  *op = r;
  return HS_GOOD;
}

hs_status hlo_eval_scaled_dot(ev *e, const hlo_instr *i, hlo_literal **ops, hlo_literal **out) {
  // Operands are (lhs, rhs, scale of lhs, scale of rhs); a scale of one element covers everything.
  hlo_literal *pair[2] = {ops[0], ops[1]};
  const hlo_literal *scale[2] = {ops[2], ops[3]};
  ops[0] = ops[1] = NULL;
  hs_status st = ev_apply_scale(e, &pair[0], scale[0]);
  if (hs_ok(st)) st = ev_apply_scale(e, &pair[1], scale[1]);
  if (hs_ok(st)) st = hlo_eval_dot(e, i, pair, out);
  hlo_literal_unref(pair[0]);
  hlo_literal_unref(pair[1]);
  return st;
}

// ---- ragged-dot: rows of the lhs come in groups, each with its own rhs --------------------------
static i64 first_free(const hlo_shape *s, hlo_ints taken) {
  i64 d = 0;
  while (d < s->rank && holds(taken, d)) d++;
  return d;
}

// The three modes differ in where the ragged lhs dimension is: among the rows (each group has its
// rhs matrix), contracted (each group gives a result matrix), or a batch dimension (then groups
// change nothing).
hs_status hlo_eval_ragged_dot(ev *e, const hlo_instr *i, hlo_literal **ops, hlo_literal **out) {
  hlo_ints ragged = hlo_attr_ints(i, HLO_ATTR_LHS_RAGGED_DIMS),
           group = hlo_attr_ints(i, HLO_ATTR_RHS_GROUP_DIMS),
           lb = hlo_attr_ints(i, HLO_ATTR_LHS_BATCH_DIMS),
           lc = hlo_attr_ints(i, HLO_ATTR_LHS_CONTRACTING_DIMS),
           rb = hlo_attr_ints(i, HLO_ATTR_RHS_BATCH_DIMS),
           rc = hlo_attr_ints(i, HLO_ATTR_RHS_CONTRACTING_DIMS);
  if (ragged.n != 1) return ev_unsupported(i, "without one ragged dimension");
  if (holds(lb, ragged.v[0])) return hlo_eval_dot(e, i, ops, out);
  bool contracted = holds(lc, ragged.v[0]);
  const hlo_shape *a = ops[0]->shape, *b = ops[1]->shape, *gs = ops[2]->shape;
  if (gs->rank != 1 || (contracted ? group.n != 0 : group.n != 1) || lb.n ||
      (!contracted && first_free(a, lc) != ragged.v[0]))
    return ev_ragged_dot(e, i, ops, out);
  i64 as[HLO_MAX_RANK], bs[HLO_MAX_RANK], rstride = 1;
  hlo_row_major_strides(a->rank, a->dims, as);
  hlo_row_major_strides(b->rank, b->dims, bs);
  HS_TRY(ev_new(e, i->shape, out));
  memset((*out)->data, 0, (*out)->bytes);
  product p;
  hs_status st = product_init(ops[0], ops[1], i->shape->dtype, a->elements, &p);
  axis m = {0}, n = {0}, ka = {0}, kb = {0};
  u32 kpos = 0, mpos = 0;
  for (u32 d = 0; d < a->rank; d++)
    if (!holds(lc, d)) {
      if (d == ragged.v[0]) mpos = m.n;
      axis_add(&m, a->dims[d], as[d]);
    }
  for (u32 k = 0; k < lc.n; k++) {
    if (lc.v[k] == ragged.v[0]) kpos = k;
    axis_add(&ka, a->dims[lc.v[k]], as[lc.v[k]]), axis_add(&kb, b->dims[rc.v[k]], bs[rc.v[k]]);
  }
  for (u32 d = 0; d < b->rank; d++)
    if (!holds(rc, d) && !holds(rb, d) && !holds(group, d)) axis_add(&n, b->dims[d], bs[d]);
  i64 start = 0, cols = axis_len(&n), full = contracted ? kb.size[kpos] : m.size[mpos];
  for (u32 d = mpos + 1; d < m.n && !contracted; d++) rstride *= m.size[d];
  size_t w = hlo_dtype_storage(i->shape->dtype);
  for (i64 g = 0; g < gs->dims[0] && hs_ok(st); g++) {
    i64 size = HS_MAX(HS_MIN(hlo_literal_i64(ops[2], g), full - start), 0);
    if (contracted) {
      ka.size[kpos] = kb.size[kpos] = size;
      st = multiply(&p, &m, &ka, start * ka.stride[kpos], &n, &kb, start * kb.stride[kpos],
                    (char *)(*out)->data + (size_t)(g * axis_len(&m) * cols) * w);
    } else {
      m.size[mpos] = size;
      st = multiply(&p, &m, &ka, start * m.stride[mpos], &n, &kb, g * bs[group.v[0]],
                    (char *)(*out)->data + (size_t)(start * rstride * cols) * w);
    }
    start += size;
  }
  product_free(&p);
  return st;
}

// ---- convolution --------------------------------------------------------------------------------
// The input with its padding and dilation written out, which operands and result do not bound;
// NULL when there is neither, or the result has no elements.
static hs_status padded_input(ev *e, const wide *in, const hlo_shape *s, const hlo_dim_labels *l,
                              const hlo_window *w, bool needed, i64 *dims, hlo_literal **out) {
  bool plain = true;
  i64 ss[HLO_MAX_RANK], ds[HLO_MAX_RANK], n[HLO_MAX_RANK], src = 0, dst = 0;
  memcpy(dims, s->dims, s->rank * sizeof *dims);
  memcpy(n, s->dims, s->rank * sizeof *n);
  for (u32 k = 0; k < w->n; k++) {
    const hlo_window_dim *v = &w->v[k];
    i64 size = s->dims[l->lhs_spatial[k]];
    plain &= v->pad_low == 0 && v->pad_high == 0 && v->lhs_dilate <= 1;
    dims[l->lhs_spatial[k]] = HS_MAX(
        (size ? (size - 1) * HS_MAX(v->lhs_dilate, 1) + 1 : 0) + v->pad_low + v->pad_high, 0);
  }
  if (plain || !needed) return HS_GOOD;
  hlo_row_major_strides(s->rank, s->dims, ss);
  hlo_row_major_strides(s->rank, dims, ds);
  bool any = s->elements > 0;
  for (u32 k = 0; k < w->n; k++) {
    const hlo_window_dim *v = &w->v[k];
    i64 d = l->lhs_spatial[k], step = HS_MAX(v->lhs_dilate, 1),
        first = v->pad_low < 0 ? (-v->pad_low + step - 1) / step : 0;
    i64 top = dims[d] - 1 - v->pad_low, last = top < 0 ? -1 : HS_MIN(s->dims[d] - 1, top / step);
    n[d] = last - first + 1;
    any &= n[d] > 0;
    src += first * ss[d];
    dst += (v->pad_low + first * step) * ds[d];
    ds[d] *= step;
  }
  hlo_dtype t = in->complex ? s->dtype : in->type;
  HS_TRY(ev_new(e, hlo_shape_array(e->ctx, t, s->rank, dims), out));
  memset((*out)->data, 0, (*out)->bytes);
  size_t size = hlo_dtype_storage(t);
  if (any)
    ev_copy(size, s->rank, n, (char *)(*out)->data + dst * (i64)size, ds,
            (const char *)in->data + src * (i64)size, ss);
  return hs_poll();
}

// Whether the labels name every dimension once.
static bool label_all(u32 rank, i64 p, i64 q, u32 ns, const i64 *spatial) {
  bool seen[HLO_MAX_RANK] = {false};
  for (u32 k = 0; k < ns + 2; k++) {
    i64 d = k == 0 ? p : k == 1 ? q : spatial[k - 2];
    if (d < 0 || d >= rank || seen[d]) return false;
    seen[d] = true;
  }
  return rank == ns + 2;
}
// Whether the result has the size that the operands give it: of gradients, of packed filters and of
// custom calls, shape inference takes what the text says. dims: of the padded input.
static bool conv_fits(const hlo_shape *a, const i64 *dims, const hlo_shape *b, const hlo_shape *o,
                      const hlo_dim_labels *l, const hlo_window *w, i64 groups, i64 batches) {
  i64 features = b->dims[l->rhs_output_feature];
  bool ok = a->dims[l->lhs_batch] == o->dims[l->out_batch] * batches &&
            features == o->dims[l->out_feature] && features % (groups * batches) == 0 &&
            a->dims[l->lhs_feature] == b->dims[l->rhs_input_feature] * groups;
  for (u32 k = 0; k < w->n; k++) {
    const hlo_window_dim *v = &w->v[k];
    i64 reach = v->size ? (v->size - 1) * HS_MAX(v->rhs_dilate, 1) + 1 : 0,
        room = dims[l->lhs_spatial[k]] - reach;
    ok &= v->size == b->dims[l->rhs_spatial[k]] && v->stride > 0 &&
          o->dims[l->out_spatial[k]] == (room < 0 ? 0 : room / v->stride + 1);
  }
  return ok;
}

hs_status ev_convolve(ev *e, const hlo_instr *i, const ev_conv *c, hlo_literal *const *ops,
                      const hlo_shape *o, hlo_literal **out) {
  const hlo_dim_labels *l = c->labels;
  const hlo_window *w = c->window;
  static const hlo_window none = {0, NULL};
  const hlo_shape *a = ops[0]->shape, *b = ops[1]->shape;
  i64 groups = c->groups, batches = c->batches;
  if (!w) w = &none;
  if (!l || l->nspatial != w->n || !hlo_shape_is_array(o))
    return ev_unsupported(i, "with these operands");
  if (l->lhs_batch < 0 || l->lhs_feature < 0 || l->rhs_input_feature < 0 ||
      l->rhs_output_feature < 0)
    return ev_unsupported(i, "without a batch or feature dimension");
  u32 ns = l->nspatial;
  if (!label_all(a->rank, l->lhs_batch, l->lhs_feature, ns, l->lhs_spatial) ||
      !label_all(b->rank, l->rhs_input_feature, l->rhs_output_feature, ns, l->rhs_spatial) ||
      !label_all(o->rank, l->out_batch, l->out_feature, ns, l->out_spatial))
    return ev_unsupported(i, "with dimensions without a label");
  groups = HS_MAX(groups, 1), batches = HS_MAX(batches, 1);
  i64 as[HLO_MAX_RANK], bs[HLO_MAX_RANK], os[HLO_MAX_RANK], dims[HLO_MAX_RANK];
  HS_TRY(ev_new(e, o, out));
  product p;
  hs_status st = product_init(ops[0], ops[1], o->dtype, b->elements, &p);
  hlo_literal *padded = NULL;
  void *tmp = NULL;
  if (hs_ok(st)) st = padded_input(e, &p.a, a, l, w, o->elements > 0, dims, &padded);
  if (hs_ok(st) && !conv_fits(a, dims, b, o, l, w, groups, batches))
    st = ev_unsupported(i, "with a result of another size than the operands give");
  if (!hs_ok(st)) {
    hlo_literal_unref(padded);
    product_free(&p);
    return finished(st, out);
  }
  if (padded) p.a.data = padded->data;
  hlo_row_major_strides(a->rank, dims, as);
  hlo_row_major_strides(b->rank, b->dims, bs);
  hlo_row_major_strides(o->rank, o->dims, os);
  i64 nb = a->dims[l->lhs_batch] / batches,
      nf = b->dims[l->rhs_output_feature] / (groups * batches),
      nc = a->dims[l->lhs_feature] / groups, bo = 0;
  axis m = {0}, ka = {0}, kb = {0}, n = {0}, om = {0};
  axis_add(&m, nb, as[l->lhs_batch]);
  axis_add(&om, nb, os[l->out_batch]);
  for (u32 k = 0; k < w->n; k++) {
    const hlo_window_dim *v = &w->v[k];
    i64 in_stride = as[l->lhs_spatial[k]], k_stride = bs[l->rhs_spatial[k]];
    axis_add(&m, o->dims[l->out_spatial[k]], in_stride * v->stride);
    axis_add(&om, o->dims[l->out_spatial[k]], os[l->out_spatial[k]]);
    axis_add(&ka, v->size, in_stride * HS_MAX(v->rhs_dilate, 1));
    axis_add(&kb, v->size, v->reversal ? -k_stride : k_stride);
    if (v->reversal) bo += (v->size - 1) * k_stride;
  }
  axis_add(&ka, nc, as[l->lhs_feature]);
  axis_add(&kb, nc, bs[l->rhs_input_feature]);
  axis_add(&n, nf, bs[l->rhs_output_feature]);
  i64 rows = axis_len(&m), fstride = os[l->out_feature];
  size_t width = hlo_dtype_storage(o->dtype);
  // Results of a group are an m x n block; it is copied into the result unless it is the whole
  // result in that order.
  bool direct = fstride == 1 && groups * batches == 1;
  for (u32 d = 0; direct && d + 1 < om.n; d++)
    direct = om.stride[d] == om.stride[d + 1] * om.size[d + 1];
  direct = direct && om.stride[om.n - 1] == nf;
  if (!direct) tmp = hs_try_alloc((size_t)HS_MAX(rows * nf, 1) * width);
  if (!direct && !tmp) st = hs_fail(HS_E_NO_MEMORY, "no memory for the result of a convolution");
  for (i64 g = 0; g < groups * batches && hs_ok(st) && o->elements; g++) {
    i64 ao = groups > 1 ? g * nc * as[l->lhs_feature] : g * nb * as[l->lhs_batch];
    st = multiply(&p, &m, &ka, ao, &n, &kb, bo + g * nf * bs[l->rhs_output_feature],
                  direct ? (*out)->data : tmp);
    if (direct || !hs_ok(st)) continue;
    i64 size[HLO_MAX_RANK], ds[HLO_MAX_RANK], ss[HLO_MAX_RANK];
    u32 r = om.n;
    for (u32 d = 0; d < r; d++) size[d] = om.size[d], ds[d] = om.stride[d];
    size[r] = nf, ds[r] = fstride;
    hlo_row_major_strides(r + 1, size, ss);
    ev_copy(width, r + 1, size, (char *)(*out)->data + g * nf * fstride * (i64)width, ds, tmp, ss);
  }
  hs_free(tmp);
  hlo_literal_unref(padded);
  product_free(&p);
  return finished(st, out);
}

hs_status hlo_eval_convolution(ev *e, const hlo_instr *i, hlo_literal **ops, hlo_literal **out) {
  const ev_conv c = {hlo_attr_ptr(i, HLO_ATTR_DIM_LABELS), hlo_attr_ptr(i, HLO_ATTR_WINDOW),
                     hlo_attr_int(i, HLO_ATTR_FEATURE_GROUP_COUNT, 1),
                     hlo_attr_int(i, HLO_ATTR_BATCH_GROUP_COUNT, 1)};
  hlo_literal *dense[2];
  // with two operands nothing says the positions of what is kept: they are taken as they are
  if (i->noperands > 2) HS_TRY(ev_sparse_operands(e, i, ops, dense));
  else
    for (u32 k = 0; k < 2; k++) dense[k] = hlo_literal_ref(ops[k]);
  hs_status st = HS_GOOD;
  for (u32 k = 0; k < 2 && hs_ok(st); k++) st = ev_fill_unused(e, &dense[k], NULL);
  if (hs_ok(st)) st = ev_convolve(e, i, &c, dense, i->shape, out);
  if (hs_ok(st)) ev_conv_sizes(&c, dense, *out);
  for (u32 k = 0; k < 2; k++) hlo_literal_unref(dense[k]);
  return st;
}

// ---- operands of a convolution without their zeros (sparsity_config) ----------------------------
// Along one dimension every block of `block_size` elements keeps num_non_zero of them; another
// operand, of the same shape as what is kept, gives the position of each in its block. With a
// stride, the elements of a block lie that far apart and `stride` blocks interleave.
static hs_status expand_sparse(ev *e, const hlo_instr *i, const hlo_sparsity_side *s,
                               const hlo_literal *kept, const hlo_literal *where,
                               hlo_literal **out) {
  const hlo_shape *k = kept->shape, *dense;
  i64 dims[HLO_MAX_RANK], ks[HLO_MAX_RANK], ds[HLO_MAX_RANK],
      index[HLO_MAX_RANK] = {0}, d = s->dimension, stride = HS_MAX(s->stride, 1);
  if (d < 0 || d >= k->rank || s->num_non_zero < 1 || k->dims[d] % s->num_non_zero ||
      where->shape->elements != k->elements)
    return ev_unsupported(i, "with this sparsity");
  memcpy(dims, k->dims, k->rank * sizeof *dims);
  dims[d] = k->dims[d] / s->num_non_zero * s->block_size;
  HS_TRY(ev_shape(e, k->dtype, k->rank, dims, &dense));
  HS_TRY(ev_new(e, dense, out));
  memset((*out)->data, 0, (*out)->bytes);
  hlo_row_major_strides(k->rank, k->dims, ks);
  hlo_row_major_strides(k->rank, dims, ds);
  size_t w = hlo_dtype_storage(k->dtype);
  for (i64 at = 0; at < k->elements; at++, ev_next(k->rank, k->dims, index)) {
    i64 block = index[d] / s->num_non_zero, position = hlo_literal_i64(where, at), to = 0;
    i64 full = block / stride * (s->block_size * stride) + position * stride + block % stride;
    if (position < 0 || position >= s->block_size || full >= dims[d])
      return hs_fail(HS_E_RUN, "%s: a sparse element has a position outside of its block", i->name);
    for (u32 q = 0; q < k->rank; q++) to += (q == d ? full : index[q]) * ds[q];
    memcpy((char *)(*out)->data + (size_t)to * w, (const char *)kept->data + (size_t)at * w, w);
  }
  return HS_GOOD;
}

hs_status ev_sparse_operands(ev *e, const hlo_instr *i, hlo_literal *const *ops,
                             hlo_literal *dense[2]) {
  const hlo_sparsity *s = hlo_attr_ptr(i, HLO_ATTR_SPARSITY_CONFIG);
  const hlo_sparsity_side *side[2] = {s ? &s->lhs : NULL, s ? &s->rhs : NULL};
  dense[0] = dense[1] = NULL;
  for (u32 k = 0; k < 2; k++) {
    if (!s || !side[k]->present) {
      dense[k] = hlo_literal_ref(ops[k]);
      continue;
    }
    hs_status st =
        side[k]->idx >= 2 && side[k]->idx < i->noperands
            ? expand_sparse(e, i, side[k], ops[k], ops[side[k]->idx], &dense[k])
            : ev_unsupported(i, "with a sparse operand that nothing says the positions of");
    if (hs_ok(st)) continue;
    for (u32 q = 0; q < 2; q++) hlo_literal_unref(dense[q]);
    return st;
  }
  return HS_GOOD;
}
