// rt_conv.c — convolution. HLO has one operation for three that libraries tell apart; the window
// says which one it is:
//
//   base (lhs) dilation                        -> backward data of a strided convolution
//   window larger than the output              -> backward weights: the "window" is the image of
//                                                 output gradients, the output is the filter;
//                                                 window dilation is the forward stride
//   everything else                            -> forward
//
// Dimension numbers become strides: no operand is transposed for them. oneDNN works in f32;
// narrower floats are widened in memory order, which keeps strides. Filters may be
// reordered (they are small); images are reordered only when there is no kernel for their order.
// batch_group_count of a forward convolution, negative padding, other types, and what oneDNN
// has no kernel for run through a plain loop nest, vectorized over output features.

#include "backends/cpu/cx.h"
#include "backends/cpu/cpu.h"

#if HAVE_DNNL
#include <dnnl.h>
#endif

enum { MAX_SPATIAL = 6, LIB_SPATIAL = 3 };

typedef enum mode { FORWARD, BACK_DATA, BACK_WEIGHTS, PLAIN } mode;

typedef struct conv {
  u32 ns;  // spatial dims
  // batch of the output, input features per group, output features, groups
  i64 N, IC, OC, G, BG;
  i64 in[MAX_SPATIAL], k[MAX_SPATIAL], out[MAX_SPATIAL];
  i64 stride[MAX_SPATIAL], pad[MAX_SPATIAL], ld[MAX_SPATIAL], rd[MAX_SPATIAL];
  bool rev[MAX_SPATIAL];
  // strides in elements
  i64 lb, lf, ls[MAX_SPATIAL], ri, ro, rs[MAX_SPATIAL], ob, of, os[MAX_SPATIAL];
  i64 lhs_batch;
  hlo_dtype tl, tr, to;
  i64 nl, nr, no;  // elements
  mode mode;
  bool flip;                                     // the filter has to be mirrored
  i64 at_l, at_r, at_o, at_f, at_w, at_s, at_d;  // scratch offsets; -1: not used
#if HAVE_DNNL
  dnnl_primitive_t prim, re[3];  // re: reorders between user and own
  // src, weights, dst as the program has them / as the primitive wants them
  dnnl_memory_t user[3], own[3];
#endif
} conv;

static bool is_narrow(hlo_dtype t) { return hlo_dtype_is_float(t) && t != HLO_F64; }

bool cpu_convolution_supports(const hlo_instr *i) {
  if (i->noperands != 2) return false;
  const hlo_dim_labels *d = hlo_attr_ptr(i, HLO_ATTR_DIM_LABELS);
  const hlo_window *w = hlo_attr_ptr(i, HLO_ATTR_WINDOW);
  if (!d || d->nspatial > MAX_SPATIAL || (w && w->n != d->nspatial) || (!w && d->nspatial) ||
      hlo_attr_get(i, HLO_ATTR_SPARSITY_CONFIG))
    return false;
  if (hlo_operand(i, 0)->shape->rank != d->nspatial + 2 ||
      hlo_operand(i, 1)->shape->rank != d->nspatial + 2 || i->shape->rank != d->nspatial + 2)
    return false;
  hlo_dtype a = hlo_operand(i, 0)->shape->dtype, b = hlo_operand(i, 1)->shape->dtype,
            c = i->shape->dtype;
  if (hlo_dtypes[a].cls == HLO_CLASS_PRED || hlo_dtypes[b].cls == HLO_CLASS_PRED) return false;
  bool fa = hlo_dtype_is_float(a), fb = hlo_dtype_is_float(b), fc = hlo_dtype_is_float(c);
  return fa == fb && fb == fc && hlo_dtype_is_complex(a) == hlo_dtype_is_complex(c) &&
         hlo_dtype_is_complex(a) == hlo_dtype_is_complex(b);
}

static void describe(conv *c, const hlo_instr *i) {
  const hlo_shape *l = hlo_operand(i, 0)->shape, *r = hlo_operand(i, 1)->shape, *o = i->shape;
  const hlo_dim_labels *d = hlo_attr_ptr(i, HLO_ATTR_DIM_LABELS);
  const hlo_window *w = hlo_attr_ptr(i, HLO_ATTR_WINDOW);
  i64 sl[HLO_MAX_RANK], sr[HLO_MAX_RANK], so[HLO_MAX_RANK];
  cpu_strides(l, sl);
  cpu_strides(r, sr);
  cpu_strides(o, so);
  c->ns = d->nspatial;
  c->G = hlo_attr_int(i, HLO_ATTR_FEATURE_GROUP_COUNT, 1);
  c->BG = hlo_attr_int(i, HLO_ATTR_BATCH_GROUP_COUNT, 1);
  c->lhs_batch = l->dims[d->lhs_batch];
  c->N = o->dims[d->out_batch];
  c->IC = r->dims[d->rhs_input_feature];
  c->OC = o->dims[d->out_feature];
  c->tl = l->dtype;
  c->tr = r->dtype;
  c->to = o->dtype;
  c->nl = l->elements;
  c->nr = r->elements;
  c->no = o->elements;
  c->lb = sl[d->lhs_batch];
  c->lf = sl[d->lhs_feature];
  c->ri = sr[d->rhs_input_feature];
  c->ro = sr[d->rhs_output_feature];
  c->ob = so[d->out_batch];
  c->of = so[d->out_feature];
  for (u32 k = 0; k < c->ns; k++) {
    const hlo_window_dim *x = &w->v[k];
    c->in[k] = l->dims[d->lhs_spatial[k]];
    c->k[k] = r->dims[d->rhs_spatial[k]];
    c->out[k] = o->dims[d->out_spatial[k]];
    c->ls[k] = sl[d->lhs_spatial[k]];
    c->rs[k] = sr[d->rhs_spatial[k]];
    c->os[k] = so[d->out_spatial[k]];
    c->stride[k] = HS_MAX(x->stride, (i64)1);
    c->pad[k] = x->pad_low;
    c->ld[k] = HS_MAX(x->lhs_dilate, (i64)1);
    c->rd[k] = HS_MAX(x->rhs_dilate, (i64)1);
    c->rev[k] = x->reversal;
  }
  c->at_l = c->at_r = c->at_o = c->at_f = c->at_w = c->at_s = c->at_d = -1;
}

// ---- plain loops --------------------------------------------------------------------------------

// Filter packed as [spatial][input feature][output feature] and everything widened to T. One chunk:
// one batch element and one row of the outermost spatial dim of the output.
typedef struct plain_job {
  const conv *c;
  const void *l, *w;
  void *o;
} plain_job;

#define DEFINE_PLAIN(name, T, times)                                                             \
  static void name(void *ctx, i64 chunk, u32 thread) {                                           \
    (void)thread;                                                                                \
    const plain_job *j = ctx;                                                                    \
    const conv *c = j->c;                                                                        \
    const T *l = j->l, *w = j->w;                                                                \
    T *o = j->o;                                                                                 \
    i64 rows = c->ns ? c->out[0] : 1, n = chunk / rows, row = chunk % rows, inner = 1, taps = 1; \
    for (u32 s = 1; s < c->ns; s++) inner *= c->out[s];                                          \
    for (u32 s = 0; s < c->ns; s++) taps *= c->k[s];                                             \
    i64 ocg = c->OC / (c->G * c->BG), at[MAX_SPATIAL] = {0};                                     \
    for (i64 p = 0; p < inner; p++) {                                                            \
      i64 r = p, obase = n * c->ob;                                                              \
      for (u32 s = c->ns; s-- > 1;) {                                                            \
        at[s] = r % c->out[s];                                                                   \
        r /= c->out[s];                                                                          \
      }                                                                                          \
      at[0] = row;                                                                               \
      for (u32 s = 0; s < c->ns; s++) obase += at[s] * c->os[s];                                 \
      for (i64 f = 0; f < c->OC; f++) o[obase + f * c->of] = 0;                                  \
      for (i64 t = 0; t < taps; t++) {                                                           \
        i64 q = t, lbase = 0;                                                                    \
        bool inside = true;                                                                      \
        for (u32 s = c->ns; s-- > 0;) {                                                          \
          i64 kk = q % c->k[s], x;                                                               \
          q /= c->k[s];                                                                          \
          x = at[s] * c->stride[s] - c->pad[s] + kk * c->rd[s];                                  \
          if (x < 0 || x % c->ld[s] || x / c->ld[s] >= c->in[s]) {                               \
            inside = false;                                                                      \
            break;                                                                               \
          }                                                                                      \
          lbase += x / c->ld[s] * c->ls[s];                                                      \
        }                                                                                        \
        if (!inside) continue;                                                                   \
        for (i64 g = 0; g < c->G * c->BG; g++) {                                                 \
          const T *x =                                                                           \
              l + lbase + (c->BG > 1 ? (g * c->N + n) * c->lb : n * c->lb + g * c->IC * c->lf);  \
          T *y = o + obase + g * ocg * c->of;                                                    \
          for (i64 k = 0; k < c->IC; k++) {                                                      \
            T v = x[k * c->lf];                                                                  \
            const T *ww = w + (t * c->IC + k) * c->OC + g * ocg;                                 \
            if (c->of == 1)                                                                      \
              for (i64 f = 0; f < ocg; f++) y[f] += times(v, ww[f]);                             \
            else                                                                                 \
              for (i64 f = 0; f < ocg; f++) y[f * c->of] += times(v, ww[f]);                     \
          }                                                                                      \
        }                                                                                        \
      }                                                                                          \
    }                                                                                            \
  }
#define TIMES(a, b) ((a) * (b))
DEFINE_PLAIN(plain_f32, float, TIMES)
DEFINE_PLAIN(plain_f64, double, TIMES)
DEFINE_PLAIN(plain_u64, u64, TIMES)
DEFINE_PLAIN(plain_c128, double complex, cpu_times_c128)
#undef TIMES

typedef enum wide { W_F32, W_F64, W_U64, W_C128 } wide;
static wide wide_type(const conv *c) {
  if (hlo_dtype_is_complex(c->to)) return W_C128;
  if (!hlo_dtype_is_float(c->to)) return W_U64;
  return is_narrow(c->tl) && is_narrow(c->tr) && is_narrow(c->to) ? W_F32 : W_F64;
}
static const i64 wide_size[] = {4, 8, 8, 16};
static const hlo_dtype wide_dtype[] = {HLO_F32, HLO_F64, HLO_U64, HLO_C128};

static void widen_one(wide w, void *to, i64 k, hlo_dtype t, const char *p) {
  switch (w) {
  case W_F32:
    ((float *)to)[k] = t == HLO_BF16 ? hlo_bf16_to_f32(*(const u16 *)(const void *)p)
                                     : (float)hlo_elem_to_f64(t, p);
    break;
  case W_F64: ((double *)to)[k] = hlo_elem_to_f64(t, p); break;
  case W_U64: ((u64 *)to)[k] = (u64)hlo_elem_to_i64(t, p); break;
  case W_C128:
    if (t == HLO_C128) memcpy((char *)to + k * 16, p, 16);
    else {
      float v[2];
      memcpy(v, p, 8);
      ((double *)to)[2 * k] = v[0];
      ((double *)to)[2 * k + 1] = v[1];
    }
    break;
  }
}

static void narrow_one(wide w, const void *from, i64 k, hlo_dtype t, char *p) {
  switch (w) {
  case W_F32:
    if (t == HLO_BF16) *(u16 *)(void *)p = hlo_f32_to_bf16(((const float *)from)[k]);
    else hlo_elem_from_f64(t, p, (double)((const float *)from)[k]);
    break;
  case W_F64: hlo_elem_from_f64(t, p, ((const double *)from)[k]); break;
  case W_U64: hlo_elem_from_i64(t, p, (i64)((const u64 *)from)[k]); break;
  case W_C128:
    if (t == HLO_C128) memcpy(p, (const char *)from + k * 16, 16);
    else {
      float v[2] = {(float)((const double *)from)[2 * k], (float)((const double *)from)[2 * k + 1]};
      memcpy(p, v, 8);
    }
    break;
  }
}

// Flat conversions keep the memory order, so the strides stay valid.
typedef struct flat_job {
  wide w;
  void *wide;
  char *array;
  hlo_dtype t;
  i64 n;
  bool back;
} flat_job;
enum { FLAT = 16384 };
static void flat_chunk(void *ctx, i64 c, u32 thread) {
  (void)thread;
  const flat_job *j = ctx;
  size_t e = hlo_dtype_storage(j->t);
  for (i64 k = c * FLAT, end = HS_MIN(k + FLAT, j->n); k < end; k++) {
    if (j->back) narrow_one(j->w, j->wide, k, j->t, j->array + (size_t)k * e);
    else widen_one(j->w, j->wide, k, j->t, j->array + (size_t)k * e);
  }
}
static void flat(wide w, void *wide_array, void *array, hlo_dtype t, i64 n, bool back) {
  flat_job j = {w, wide_array, array, t, n, back};
  cpu_par_for(flat_chunk, &j, (n + FLAT - 1) / FLAT);
}

// Filter to [spatial][input feature][output feature], mirrored where the window says so.
static void pack_filter(const conv *c, wide w, void *to, const char *from) {
  i64 taps = 1, at = 0;
  size_t e = hlo_dtype_storage(c->tr);
  for (u32 s = 0; s < c->ns; s++) taps *= c->k[s];
  for (i64 t = 0; t < taps; t++) {
    i64 q = t, base = 0;
    for (u32 s = c->ns; s-- > 0;) {
      i64 kk = q % c->k[s];
      q /= c->k[s];
      base += (c->rev[s] ? c->k[s] - 1 - kk : kk) * c->rs[s];
    }
    for (i64 k = 0; k < c->IC; k++)
      for (i64 f = 0; f < c->OC; f++)
        widen_one(w, to, at++, c->tr, from + (size_t)(base + k * c->ri + f * c->ro) * e);
  }
}

static hs_status run_plain(const conv *c, void *const *bufs, char *scratch) {
  wide w = wide_type(c);
  const void *l = bufs[0];
  void *o = bufs[2];
  if (c->at_l >= 0) {
    flat(w, scratch + c->at_l, bufs[0], c->tl, c->nl, false);
    l = scratch + c->at_l;
  }
  if (c->at_o >= 0) o = scratch + c->at_o;
  pack_filter(c, w, scratch + c->at_w, bufs[1]);
  plain_job j = {c, l, scratch + c->at_w, o};
  static cpu_par_fn *const fn[] = {plain_f32, plain_f64, plain_u64, plain_c128};
  if (c->no) cpu_par_for(fn[w], &j, c->N * (c->ns ? c->out[0] : 1));
  if (c->at_o >= 0) flat(w, o, bufs[2], c->to, c->no, true);
  return HS_GOOD;
}

// ---- oneDNN -------------------------------------------------------------------------------------

static i64 align64(i64 n) { return (n + 63) & ~(i64)63; }

#if HAVE_DNNL
// Filter in the order of its own array, mirrored along every spatial dim that needs it.
static void mirror(const conv *c, float *to, const float *from) {
  i64 dims[MAX_SPATIAL + 2], ss[MAX_SPATIAL + 2], ds[MAX_SPATIAL + 2], base = 0;
  for (u32 s = 0; s < c->ns; s++) {
    bool m = (c->mode == BACK_DATA) != c->rev[s];
    dims[s] = c->k[s];
    ds[s] = c->rs[s];
    ss[s] = m ? -c->rs[s] : c->rs[s];
    if (m) base += (c->k[s] - 1) * c->rs[s];
  }
  dims[c->ns] = c->IC;
  ds[c->ns] = ss[c->ns] = c->ri;
  dims[c->ns + 1] = c->OC;
  ds[c->ns + 1] = ss[c->ns + 1] = c->ro;
  cpu_relayout(to, ds, from + base, ss, c->ns + 2, dims, sizeof(float));
}

static bool is_reference(const_dnnl_primitive_desc_t pd) {
  const char *s = NULL;
  dnnl_primitive_desc_query(pd, dnnl_query_impl_info_str, 0, &s);
  return !s || strstr(s, "ref");
}

typedef struct descs {
  dnnl_memory_desc_t m[3];
  dnnl_dims_t stride, dilate, pl, pr;
} descs;

static dnnl_status_t make_pd(const conv *c, const descs *d, const dnnl_memory_desc_t m[3],
                             dnnl_primitive_desc_t *pd) {
  dnnl_convolution_desc_t cd, fd;
  dnnl_primitive_desc_t hint = NULL;
  dnnl_status_t st;
  dnnl_engine_t e = cpu_dnnl_engine();
  if (c->mode == FORWARD) {
    st = dnnl_dilated_convolution_forward_desc_init(&cd, dnnl_forward_inference,
                                                    dnnl_convolution_direct, &m[0], &m[1], NULL,
                                                    &m[2], d->stride, d->dilate, d->pl, d->pr);
    return st ? st : dnnl_primitive_desc_create(pd, &cd, NULL, e, NULL);
  }
  st = dnnl_dilated_convolution_forward_desc_init(&fd, dnnl_forward_training,
                                                  dnnl_convolution_direct, &m[0], &m[1], NULL,
                                                  &m[2], d->stride, d->dilate, d->pl, d->pr);
  if (!st) st = dnnl_primitive_desc_create(&hint, &fd, NULL, e, NULL);
  if (st) return st;
  if (c->mode == BACK_DATA)
    st = dnnl_dilated_convolution_backward_data_desc_init(
        &cd, dnnl_convolution_direct, &m[0], &m[1], &m[2], d->stride, d->dilate, d->pl, d->pr);
  else
    st = dnnl_dilated_convolution_backward_weights_desc_init(&cd, dnnl_convolution_direct, &m[0],
                                                             &m[1], NULL, &m[2], d->stride,
                                                             d->dilate, d->pl, d->pr);
  if (!st) st = dnnl_primitive_desc_create(pd, &cd, NULL, e, hint);
  dnnl_primitive_desc_destroy(hint);
  return st;
}

// Descriptors of oneDNN's convolution: src, weights and dst in its sense (for the backward forms,
// src is the image).
static bool fill_descs(const conv *c, descs *d) {
  u32 ns = HS_MAX(c->ns, 1u);
  if (ns > LIB_SPATIAL || c->no == 0 || c->nl == 0 || c->nr == 0) return false;
  i64 g = c->G * c->BG, sp[3] = {1, 1, 1}, ss[3] = {1, 1, 1}, kp[3] = {1, 1, 1}, ks[3] = {1, 1, 1},
      dp[3] = {1, 1, 1}, ds[3] = {1, 1, 1};
  memset(d, 0, sizeof *d);
  d->stride[0] = 1;
  for (u32 k = 0; k < c->ns; k++) {
    i64 lib_stride, dil, pad;
    if (c->mode == FORWARD) {
      sp[k] = c->in[k];
      ss[k] = c->ls[k];
      kp[k] = c->k[k];
      ks[k] = c->rs[k];
      dp[k] = c->out[k];
      ds[k] = c->os[k];
      lib_stride = c->stride[k];
      dil = c->rd[k];
      pad = c->pad[k];
    } else if (c->mode == BACK_DATA) {
      sp[k] = c->out[k];
      ss[k] = c->os[k];
      kp[k] = c->k[k];
      ks[k] = c->rs[k];
      dp[k] = c->in[k];
      ds[k] = c->ls[k];
      lib_stride = c->ld[k];
      dil = c->rd[k];
      pad = (c->k[k] - 1) * c->rd[k] - c->pad[k];
    } else {
      sp[k] = c->in[k];
      ss[k] = c->ls[k];
      kp[k] = c->out[k];
      ks[k] = c->os[k];
      dp[k] = c->k[k];
      ds[k] = c->rs[k];
      lib_stride = c->rd[k];
      dil = c->stride[k];
      pad = c->pad[k];
    }
    // The padding behind follows from the sizes, up to a remainder below the stride.
    i64 high = (dp[k] - 1) * lib_stride + (kp[k] - 1) * dil + 1 - sp[k] - pad;
    if (high < 0 && high + lib_stride > 0) high = 0;
    if (pad < 0 || high < 0) return false;
    d->stride[k] = lib_stride;
    d->dilate[k] = dil - 1;
    d->pl[k] = pad;
    d->pr[k] = high;
  }
  dnnl_dims_t a = {0}, as = {0}, w = {0}, ws = {0}, o = {0}, os = {0};
  i64 wo, wi, wos, wis, wgs;  // per group: output and input features of the library's filter
  if (c->mode == FORWARD) {
    a[0] = c->N;
    a[1] = c->IC * c->G;
    as[0] = c->lb;
    as[1] = c->lf;
    o[0] = c->N;
    o[1] = c->OC;
    os[0] = c->ob;
    os[1] = c->of;
    wo = c->OC / g;
    wi = c->IC;
    wos = c->ro;
    wis = c->ri;
    wgs = wo * c->ro;
  } else if (c->mode == BACK_DATA) {
    a[0] = c->N;
    a[1] = c->OC;
    as[0] = c->ob;
    as[1] = c->of;
    o[0] = c->N;
    o[1] = c->IC * c->G;
    os[0] = c->lb;
    os[1] = c->lf;
    wo = c->IC;
    wi = c->OC / g;
    wos = c->ri;
    wis = c->ro;
    wgs = wi * c->ro;
  } else {  // lhs: image with its batch as features; rhs: gradients; out: the filter
    a[0] = c->IC;
    a[1] = c->lhs_batch;
    as[0] = c->lf;
    as[1] = c->lb;
    o[0] = c->IC;
    o[1] = c->OC;
    os[0] = c->ri;
    os[1] = c->ro;
    wo = c->OC / g;
    wi = c->N;
    wos = c->of;
    wis = c->ob;
    wgs = wo * c->of;
  }
  u32 off = 0;
  if (g > 1) {
    w[0] = g;
    ws[0] = wgs;
    off = 1;
  }
  w[off] = wo;
  ws[off] = wos;
  w[off + 1] = wi;
  ws[off + 1] = wis;
  for (u32 k = 0; k < ns; k++) {
    a[2 + k] = sp[k];
    as[2 + k] = ss[k];
    o[2 + k] = dp[k];
    os[2 + k] = ds[k];
    w[off + 2 + k] = kp[k];
    ws[off + 2 + k] = ks[k];
  }
  return !dnnl_memory_desc_init_by_strides(&d->m[0], (int)ns + 2, a, dnnl_f32, as) &&
         !dnnl_memory_desc_init_by_strides(&d->m[1], (int)(ns + 2 + off), w, dnnl_f32, ws) &&
         !dnnl_memory_desc_init_by_strides(&d->m[2], (int)ns + 2, o, dnnl_f32, os);
}

static dnnl_memory_desc_t any_order(const dnnl_memory_desc_t *m) {
  dnnl_memory_desc_t a;
  return dnnl_memory_desc_init_by_tag(&a, m->ndims, m->dims, m->data_type, dnnl_format_tag_any) ? *m
                                                                                                : a;
}

static bool reorder(const dnnl_memory_desc_t *from, const dnnl_memory_desc_t *to,
                    dnnl_primitive_t *out) {
  dnnl_primitive_desc_t pd;
  if (dnnl_reorder_primitive_desc_create(&pd, from, cpu_dnnl_engine(), to, cpu_dnnl_engine(), NULL))
    return false;
  dnnl_status_t st = dnnl_primitive_create(out, pd);
  dnnl_primitive_desc_destroy(pd);
  return st == dnnl_success;
}

// Which of src, weights, dst oneDNN computes.
static int result_index(const conv *c) {
  return c->mode == FORWARD ? 2 : c->mode == BACK_DATA ? 0 : 1;
}

// First with the images in their own order, then in any order that oneDNN prefers.
static bool dnnl_setup(conv *c, i64 *scratch) {
  descs d;
  if (!cpu_dnnl_engine() || !fill_descs(c, &d)) return false;
  dnnl_primitive_desc_t pd = NULL;
  dnnl_memory_desc_t m[3] = {d.m[0], any_order(&d.m[1]), d.m[2]};
  if (make_pd(c, &d, m, &pd) || is_reference(pd)) {
    if (pd) dnnl_primitive_desc_destroy(pd);
    pd = NULL;
    m[0] = any_order(&d.m[0]);
    m[2] = any_order(&d.m[2]);
    if (make_pd(c, &d, m, &pd)) return false;
    if (is_reference(pd)) {
      dnnl_primitive_desc_destroy(pd);
      return false;
    }
  }
  static const dnnl_query_t query[3][3] = {
      {dnnl_query_src_md, dnnl_query_weights_md, dnnl_query_dst_md},
      {dnnl_query_diff_src_md, dnnl_query_weights_md, dnnl_query_diff_dst_md},
      {dnnl_query_src_md, dnnl_query_diff_weights_md, dnnl_query_diff_dst_md}};
  bool ok = dnnl_primitive_create(&c->prim, pd) == dnnl_success;
  i64 *at[3] = {&c->at_s, &c->at_f, &c->at_d};
  for (int k = 0; k < 3 && ok; k++) {
    const dnnl_memory_desc_t *want = dnnl_primitive_desc_query_md(pd, query[c->mode][k], 0);
    ok = want && !dnnl_memory_create(&c->user[k], &d.m[k], cpu_dnnl_engine(), DNNL_MEMORY_NONE);
    if (!ok || dnnl_memory_desc_equal(want, &d.m[k])) continue;
    ok = !dnnl_memory_create(&c->own[k], want, cpu_dnnl_engine(), DNNL_MEMORY_NONE);
    *at[k] = *scratch;
    *scratch += align64((i64)dnnl_memory_desc_get_size(want));
    ok = ok && (k == result_index(c) ? reorder(want, &d.m[k], &c->re[k])
                                     : reorder(&d.m[k], want, &c->re[k]));
  }
  dnnl_primitive_desc_destroy(pd);
  return ok;
}

static hs_status execute(dnnl_primitive_t p, const dnnl_exec_arg_t *args, int n) {
  cpu_par_hand_over(true);
  dnnl_status_t st = dnnl_primitive_execute(p, cpu_dnnl_stream(), n, args);
  cpu_par_hand_over(false);
  return st == dnnl_success
             ? HS_GOOD
             : hs_fail(HS_E_RUN, "oneDNN convolution failed with status %d", (int)st);
}

static hs_status convert(dnnl_primitive_t p, dnnl_memory_t from, dnnl_memory_t to) {
  dnnl_exec_arg_t a[] = {{DNNL_ARG_FROM, from}, {DNNL_ARG_TO, to}};
  return execute(p, a, 2);
}

static hs_status run_dnnl(const conv *c, void *const *bufs, char *scratch) {
  void *p[3] = {bufs[0], bufs[1], bufs[2]};
  const i64 at[3] = {c->at_l, c->at_r, c->at_o}, n[3] = {c->nl, c->nr, c->no};
  const hlo_dtype t[3] = {c->tl, c->tr, c->to};
  for (int k = 0; k < 3; k++) {
    if (at[k] < 0) continue;
    p[k] = scratch + at[k];
    if (k < 2) flat(W_F32, p[k], bufs[k], t[k], n[k], false);
  }
  if (c->at_w >= 0) {
    mirror(c, (float *)(void *)(scratch + c->at_w), p[1]);
    p[1] = scratch + c->at_w;
  }
  // Which of lhs, rhs and result is oneDNN's src, weights and dst.
  static const int role[3][3] = {{0, 1, 2}, {2, 1, 0}, {0, 2, 1}};
  static const int arg[3][3] = {{DNNL_ARG_SRC, DNNL_ARG_WEIGHTS, DNNL_ARG_DST},
                                {DNNL_ARG_DIFF_SRC, DNNL_ARG_WEIGHTS, DNNL_ARG_DIFF_DST},
                                {DNNL_ARG_SRC, DNNL_ARG_DIFF_WEIGHTS, DNNL_ARG_DIFF_DST}};
  const i64 own_at[3] = {c->at_s, c->at_f, c->at_d};
  dnnl_exec_arg_t args[3];
  int result = result_index(c);
  for (int k = 0; k < 3; k++) {
    dnnl_memory_set_data_handle(c->user[k], p[role[c->mode][k]]);
    if (c->own[k]) dnnl_memory_set_data_handle(c->own[k], scratch + own_at[k]);
    args[k] = (dnnl_exec_arg_t){arg[c->mode][k], c->own[k] ? c->own[k] : c->user[k]};
  }
  for (int k = 0; k < 3; k++)
    if (c->re[k] && k != result) HS_TRY(convert(c->re[k], c->user[k], c->own[k]));
  HS_TRY(execute(c->prim, args, 3));
  if (c->re[result]) HS_TRY(convert(c->re[result], c->own[result], c->user[result]));
  if (c->at_o >= 0) flat(W_F32, p[2], bufs[2], c->to, c->no, true);
  return HS_GOOD;
}
#endif

static void free_conv(void *state) {
  conv *c = state;
#if HAVE_DNNL
  if (c->prim) dnnl_primitive_destroy(c->prim);
  for (int k = 0; k < 3; k++) {
    if (c->re[k]) dnnl_primitive_destroy(c->re[k]);
    if (c->user[k]) dnnl_memory_destroy(c->user[k]);
    if (c->own[k]) dnnl_memory_destroy(c->own[k]);
  }
#endif
  hs_free(c);
}

static hs_status run_conv(void *state, void *const *bufs, void *scratch) {
  const conv *c = state;
#if HAVE_DNNL
  if (c->prim) return run_dnnl(c, bufs, scratch);
#endif
  return run_plain(c, bufs, scratch);
}

static mode pick_mode(const conv *c) {
  i64 window = 1, out = 1;
  bool dilated = false, strided = false, reversed = false;
  for (u32 k = 0; k < c->ns; k++) {
    window *= c->k[k];
    out *= c->out[k];
    dilated |= c->ld[k] > 1;
    strided |= c->stride[k] > 1;
    reversed |= c->rev[k];
  }
  if (dilated) return !strided && c->BG == 1 ? BACK_DATA : PLAIN;
  if (window > out && window >= 16 && !reversed && c->G == 1) return BACK_WEIGHTS;
  return c->BG == 1 ? FORWARD : PLAIN;
}

#if HAVE_DNNL
static void set_dnnl_scratch(conv *c, i64 *at) {
  c->at_l = c->at_r = c->at_o = c->at_f = c->at_w = c->at_s = c->at_d = -1;
  *at = 0;
  if (c->tl != HLO_F32) {
    c->at_l = *at;
    *at += align64(c->nl * 4);
  }
  if (c->tr != HLO_F32) {
    c->at_r = *at;
    *at += align64(c->nr * 4);
  }
  if (c->to != HLO_F32) {
    c->at_o = *at;
    *at += align64(c->no * 4);
  }
  bool flip = false;
  for (u32 k = 0; k < c->ns; k++) flip |= c->k[k] > 1 && (c->mode == BACK_DATA) != c->rev[k];
  if (flip) {
    c->at_w = *at;
    *at += align64(c->nr * 4);
  }
}
#endif

hs_status cpu_convolution_prepare(const hlo_instr *i, cpu_rt *out) {
  conv *c = hs_calloc(1, sizeof *c);
  describe(c, i);
  c->mode = pick_mode(c);
  wide w = wide_type(c);
  *out = (cpu_rt){.kind = "convolution", .state = c, .run = run_conv, .release = free_conv};
#if HAVE_DNNL
  static const char *const names[] = {"convolution (oneDNN forward)",
                                      "convolution (oneDNN backward data)",
                                      "convolution (oneDNN backward weights)"};
  if (c->mode != PLAIN && w == W_F32) {
    mode first = c->mode;
    for (int attempt = 0; attempt < 2; attempt++) {
      set_dnnl_scratch(c, &out->scratch_bytes);
      cpu_par_hand_over(true);
      bool made = dnnl_setup(c, &out->scratch_bytes);
      cpu_par_hand_over(false);
      if (made) {
        out->kind = names[c->mode];
        return HS_GOOD;
      }
      conv keep = *c;
      free_conv(c);
      c = hs_calloc(1, sizeof *c);
      describe(c, i);
      out->state = c;
      if (first != BACK_WEIGHTS || keep.BG > 1) break;
      c->mode = FORWARD;  // an unusual filter gradient: still a forward convolution
    }
    c->mode = PLAIN;
  }
#endif
  c->mode = PLAIN;
  i64 at = 0, taps = 1;
  for (u32 k = 0; k < c->ns; k++) taps *= c->k[k];
  if (c->tl != wide_dtype[w]) {
    c->at_l = at;
    at += align64(c->nl * wide_size[w]);
  }
  if (c->to != wide_dtype[w]) {
    c->at_o = at;
    at += align64(c->no * wide_size[w]);
  }
  c->at_w = at;
  at += align64(taps * c->IC * c->OC * wide_size[w]);
  out->scratch_bytes = at;
  return HS_GOOD;
}
