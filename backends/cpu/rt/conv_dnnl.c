// conv_dnnl.c — convolution by oneDNN: forward, backward data and backward weights.
//
// Filters are reordered to what oneDNN prefers (they are small, or each piece does its part),
// images only when it has no kernel for their order but a product of matrices whose patches are
// larger than the images. It works in f32, and in bf16 where the machine
// is faster at that; narrower floats are widened in memory order, which keeps strides.
//
// As in dot_dnnl.c a convolution is split into pieces by its shape, along the batch, or along
// the features of the result where the filter is the larger array or the result. The pool runs
// them, each in one thread: the result does not depend on the number of threads, and no barrier of
// OpenMP's waits for a core that another process has. What cannot be split and is large is left to
// oneDNN's own threads.
//
// Reordered arrays lie in the memory of the thread that runs the piece where the second cache holds
// them, as filters, which are mirrored there, too; the operand that is not cut is the same for all
// pieces, and a thread reorders it once. Larger ones lie in scratch: what is not cut is reordered
// before the pieces run, and a mirrored filter lies in the result's memory, which nobody has
// written yet. A filter that is the same in every run is reordered in the first one, and kept.
#include "backends/cpu/rt/conv.h"

#if HAVE_DNNL
#include <dnnl.h>

enum { LIB_SPATIAL = 3, MOST_PIECES = 16 };
#define PIECE_WORK ((i64)1 << 20)    // multiplications of a piece at least
#define OPENMP_WORK ((i64)1 << 24)   // of what is left to OpenMP's threads
#define THREAD_BYTES ((i64)2 << 20)  // of arrays in a thread's memory

// Src, weights, dst in oneDNN's sense, as the program has them and as the primitive wants them.
typedef struct piece {
  // re: reorders between the two; NULL: none. Primitives are shared by pieces of one extent, and by
  // those that want the common operand in one order: then lender is the first of these + 1
  dnnl_primitive_t prim, re[3];
  bool owns;
  u32 lender;
  dnnl_memory_t user[3], own[3], scratch;
  dnnl_stream_t stream;
  i64 at[3];      // of the piece in lhs, rhs and result; bytes
  i64 own_at[3];  // in scratch, in the thread's memory, or in what is kept
} piece;

struct conv_dnnl {
  u32 n;
  bool openmp;
  int common;      // src, weights or dst: the operand that is not cut into pieces
  int fixed;       // the one that is reordered in the first run only; -1: none
  i64 kept;        // bytes of its reordered copies
  i64 by_thread;   // bytes in the memory of each thread; 0: reordered copies lie in scratch
  size_t element;  // bytes
  piece v[MOST_PIECES];
};

static void free_piece(piece *p, int common) {
  for (int k = 0; k < 3; k++) {
    bool lent = k == common && p->lender;
    if (p->re[k] && p->owns && !lent) dnnl_primitive_destroy(p->re[k]);
    if (p->user[k]) dnnl_memory_destroy(p->user[k]);
    if (p->own[k]) dnnl_memory_destroy(p->own[k]);
  }
  if (p->scratch) dnnl_memory_destroy(p->scratch);
  if (p->stream) dnnl_stream_destroy(p->stream);
  if (p->prim && p->owns) dnnl_primitive_destroy(p->prim);
}

void cpu_conv_dnnl_free(conv_dnnl *d) {
  for (u32 k = 0; d && k < d->n; k++) free_piece(&d->v[k], d->common);
  hs_free(d);
}

// Filter in the order of its own array, mirrored along every spatial dim that needs it.
static void mirror(const conv *c, void *to, const void *from, size_t e) {
  i64 dims[CONV_MOST_SPATIAL + 2], ss[CONV_MOST_SPATIAL + 2], ds[CONV_MOST_SPATIAL + 2], base = 0;
  for (u32 s = 0; s < c->ns; s++) {
    bool m = (c->mode == CONV_BACK_DATA) != c->rev[s];
    dims[s] = c->k[s];
    ds[s] = c->rs[s];
    ss[s] = m ? -c->rs[s] : c->rs[s];
    if (m) base += (c->k[s] - 1) * c->rs[s];
  }
  dims[c->ns] = c->IC;
  ds[c->ns] = ss[c->ns] = c->ri;
  dims[c->ns + 1] = c->OC;
  ds[c->ns + 1] = ss[c->ns + 1] = c->ro;
  cpu_relayout(to, ds, (const char *)from + (size_t)base * e, ss, c->ns + 2, dims, e);
}

static bool needs_mirror(const conv *c) {
  for (u32 k = 0; k < c->ns; k++)
    if (c->k[k] > 1 && (c->mode == CONV_BACK_DATA) != c->rev[k]) return true;
  return false;
}

static bool is_named(const_dnnl_primitive_desc_t pd, const char *name) {
  const char *s = NULL;
  dnnl_primitive_desc_query(pd, dnnl_query_impl_info_str, 0, &s);
  return !s || strstr(s, name);
}

typedef struct descs {
  dnnl_memory_desc_t m[3];
  dnnl_dims_t stride, dilate, pl, pr;
} descs;

static dnnl_status_t make_pd(const conv *c, const descs *d, const dnnl_memory_desc_t m[3],
                             dnnl_primitive_attr_t attr, dnnl_primitive_desc_t *pd) {
  dnnl_convolution_desc_t cd, fd;
  dnnl_primitive_desc_t hint = NULL;
  dnnl_status_t st;
  dnnl_engine_t e = cpu_dnnl_engine();
  if (c->mode == CONV_FORWARD) {
    st = dnnl_dilated_convolution_forward_desc_init(&cd, dnnl_forward_inference,
                                                    dnnl_convolution_direct, &m[0], &m[1], NULL,
                                                    &m[2], d->stride, d->dilate, d->pl, d->pr);
    return st ? st : dnnl_primitive_desc_create(pd, &cd, attr, e, NULL);
  }
  st = dnnl_dilated_convolution_forward_desc_init(&fd, dnnl_forward_training,
                                                  dnnl_convolution_direct, &m[0], &m[1], NULL,
                                                  &m[2], d->stride, d->dilate, d->pl, d->pr);
  if (!st) st = dnnl_primitive_desc_create(&hint, &fd, NULL, e, NULL);
  if (st) return st;
  if (c->mode == CONV_BACK_DATA)
    st = dnnl_dilated_convolution_backward_data_desc_init(
        &cd, dnnl_convolution_direct, &m[0], &m[1], &m[2], d->stride, d->dilate, d->pl, d->pr);
  else
    st = dnnl_dilated_convolution_backward_weights_desc_init(&cd, dnnl_convolution_direct, &m[0],
                                                             &m[1], NULL, &m[2], d->stride,
                                                             d->dilate, d->pl, d->pr);
  if (!st) st = dnnl_primitive_desc_create(pd, &cd, attr, e, hint);
  dnnl_primitive_desc_destroy(hint);
  return st;
}

// A dimension of one of the three arrays: its size, and the distance of its elements.
typedef struct axis {
  i64 n, step;
} axis;
// Which axes of ours are the library's (src, weights, dst; for the backward forms, src is the
// image).
typedef struct window_axis {
  axis src, weights, dst;
  i64 stride, dilate, pad;
} window_axis;
typedef struct feature_axes {
  axis src[2], weights[2], dst[2];  // outer, inner: batch and features, or those of a filter
  i64 group_step;                   // of the weights
} feature_axes;

static window_axis window_axis_of(const conv *c, u32 k) {
  axis in = {c->in[k], c->ls[k]}, filter = {c->k[k], c->rs[k]}, out = {c->out[k], c->os[k]};
  switch (c->mode) {
  case CONV_FORWARD: return (window_axis){in, filter, out, c->stride[k], c->rd[k], c->pad[k]};
  case CONV_BACK_DATA:
    return (window_axis){out, filter, in, c->ld[k], c->rd[k], (c->k[k] - 1) * c->rd[k] - c->pad[k]};
  default: return (window_axis){in, out, filter, c->rd[k], c->stride[k], c->pad[k]};
  }
}

static feature_axes feature_axes_of(const conv *c) {
  i64 g = c->G * c->BG;
  switch (c->mode) {
  case CONV_FORWARD:
    return (feature_axes){{{c->N, c->lb}, {c->IC * c->G, c->lf}},
                          {{c->OC / g, c->ro}, {c->IC, c->ri}},
                          {{c->N, c->ob}, {c->OC, c->of}},
                          c->OC / g * c->ro};
  case CONV_BACK_DATA:
    return (feature_axes){{{c->N, c->ob}, {c->OC, c->of}},
                          {{c->IC, c->ri}, {c->OC / g, c->ro}},
                          {{c->N, c->lb}, {c->IC * c->G, c->lf}},
                          c->OC / g * c->ro};
  default:  // lhs: image with its batch as features; rhs: gradients; out: the filter
    return (feature_axes){{{c->IC, c->lf}, {c->lhs_batch, c->lb}},
                          {{c->OC / g, c->of}, {c->N, c->ob}},
                          {{c->IC, c->ri}, {c->OC, c->ro}},
                          c->OC / g * c->of};
  }
}

// The strides, dilations and paddings of spatial dimension k; false where the library has no such.
static bool fill_window(const window_axis *x, u32 k, descs *d) {
  // The padding behind follows from the sizes, up to a remainder below the stride.
  i64 high = (x->dst.n - 1) * x->stride + (x->weights.n - 1) * x->dilate + 1 - x->src.n - x->pad;
  if (high < 0 && high + x->stride > 0) high = 0;
  if (x->pad < 0 || high < 0) return false;
  d->stride[k] = x->stride;
  d->dilate[k] = x->dilate - 1;
  d->pl[k] = x->pad;
  d->pr[k] = high;
  return true;
}

static bool describe(dnnl_memory_desc_t *m, dnnl_data_type_t t, const axis *axes, u32 n) {
  dnnl_dims_t size = {0}, step = {0};
  for (u32 k = 0; k < n; k++) size[k] = axes[k].n, step[k] = axes[k].step;
  return !dnnl_memory_desc_init_by_strides(m, (int)n, size, t, step);
}

// Descriptors of oneDNN's convolution.
static bool fill_descs(const conv *c, dnnl_data_type_t t, descs *d) {
  enum { MOST = LIB_SPATIAL + 3 };
  u32 ns = HS_MAX(c->ns, 1u), off = c->G * c->BG > 1;
  if (ns > LIB_SPATIAL || c->no == 0 || c->nl == 0 || c->nr == 0) return false;
  feature_axes f = feature_axes_of(c);
  axis src[MOST] = {f.src[0], f.src[1]}, dst[MOST] = {f.dst[0], f.dst[1]},
       weights[MOST] = {{c->G * c->BG, f.group_step}};
  weights[off] = f.weights[0];
  weights[off + 1] = f.weights[1];
  memset(d, 0, sizeof *d);
  d->stride[0] = 1;
  for (u32 k = 0; k < ns; k++) {
    window_axis x = {.src = {1, 1}, .weights = {1, 1}, .dst = {1, 1}};
    if (k < c->ns) x = window_axis_of(c, k);
    if (k < c->ns && !fill_window(&x, k, d)) return false;
    src[2 + k] = x.src;
    weights[off + 2 + k] = x.weights;
    dst[2 + k] = x.dst;
  }
  return describe(&d->m[0], t, src, ns + 2) && describe(&d->m[1], t, weights, ns + 2 + off) &&
         describe(&d->m[2], t, dst, ns + 2);
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
  return c->mode == CONV_FORWARD ? 2 : c->mode == CONV_BACK_DATA ? 0 : 1;
}

static i64 numbers(const dnnl_memory_desc_t *m) {
  i64 n = 1;
  for (int k = 0; k < m->ndims; k++) n *= m->dims[k];
  return n;
}

// Whether a product of matrices that are patches of the image writes more than it takes to reorder
// both images.
static bool patches_are_larger(const descs *d) {
  const dnnl_memory_desc_t *src = &d->m[0], *weights = &d->m[1], *dst = &d->m[2];
  i64 taps = 1;
  for (int k = 2; k < src->ndims; k++) taps *= weights->dims[weights->ndims - src->ndims + k];
  return hs_mul_sat_i64(numbers(dst) / dst->dims[1], src->dims[1] * taps) >
         numbers(src) + numbers(dst);
}

// First with the images in their own order, then in any order that oneDNN prefers: where it has no
// kernel for their own, and where that one copies patches.
static bool find_primitive(const conv *c, const descs *d, dnnl_primitive_desc_t *pd) {
  dnnl_primitive_attr_t attr = NULL;
  *pd = NULL;
  if (dnnl_primitive_attr_create(&attr)) return false;
  dnnl_primitive_attr_set_scratchpad_mode(attr, dnnl_scratchpad_mode_user);
  for (int any = 0; any < 2; any++) {
    const dnnl_memory_desc_t m[3] = {any ? any_order(&d->m[0]) : d->m[0], any_order(&d->m[1]),
                                     any ? any_order(&d->m[2]) : d->m[2]};
    dnnl_primitive_desc_t p = NULL;
    if (make_pd(c, d, m, attr, &p) || is_named(p, "ref") || (*pd && is_named(p, "gemm"))) {
      if (p) dnnl_primitive_desc_destroy(p);
      continue;
    }
    if (*pd) dnnl_primitive_desc_destroy(*pd);
    *pd = p;
    if (!is_named(p, "gemm") || !patches_are_larger(d)) break;
  }
  dnnl_primitive_attr_destroy(attr);
  return *pd != NULL;
}

// The number of the first piece that has array k in the order `want`, + 1; 0: none.
static u32 lender_of(const conv_dnnl *d, int k, const dnnl_memory_desc_t *want) {
  for (u32 j = 0; j < d->n; j++) {
    const dnnl_memory_desc_t *has;
    if (d->v[j].own[k] && !dnnl_memory_get_memory_desc(d->v[j].own[k], &has) &&
        dnnl_memory_desc_equal(has, want))
      return j + 1;
  }
  return 0;
}

// The piece after those of `all`. like: one of the same extents whose primitives to use, or NULL.
static bool make_piece(const conv *c, dnnl_data_type_t t, const conv_dnnl *all, const piece *like,
                       piece *p) {
  static const dnnl_query_t query[3][3] = {
      {dnnl_query_src_md, dnnl_query_weights_md, dnnl_query_dst_md},
      {dnnl_query_diff_src_md, dnnl_query_weights_md, dnnl_query_diff_dst_md},
      {dnnl_query_src_md, dnnl_query_diff_weights_md, dnnl_query_diff_dst_md}};
  descs d;
  dnnl_engine_t e = cpu_dnnl_engine();
  dnnl_primitive_desc_t pd;
  if (!e || !fill_descs(c, t, &d) || !find_primitive(c, &d, &pd)) return false;
  bool ok = true;
  p->owns = !like;
  if (like) p->prim = like->prim;
  else ok = dnnl_primitive_create(&p->prim, pd) == dnnl_success;
  for (int k = 0; k < 3 && ok; k++) {
    const dnnl_memory_desc_t *want = dnnl_primitive_desc_query_md(pd, query[c->mode][k], 0);
    ok = want && !dnnl_memory_create(&p->user[k], &d.m[k], e, DNNL_MEMORY_NONE);
    if (!ok || dnnl_memory_desc_equal(want, &d.m[k])) continue;
    u32 lender = k == all->common ? lender_of(all, k, want) : 0;
    ok = !dnnl_memory_create(&p->own[k], want, e, DNNL_MEMORY_NONE);
    if (lender) p->lender = lender;
    if (lender || like) p->re[k] = lender ? all->v[lender - 1].re[k] : like->re[k];
    else
      ok = ok && (k == result_index(c) ? reorder(want, &d.m[k], &p->re[k])
                                       : reorder(&d.m[k], want, &p->re[k]));
  }
  const dnnl_memory_desc_t *pad = dnnl_primitive_desc_query_md(pd, dnnl_query_scratchpad_md, 0);
  ok = ok && dnnl_memory_create(&p->scratch, pad, e, DNNL_MEMORY_ALLOCATE) == dnnl_success &&
       dnnl_stream_create(&p->stream, e, dnnl_stream_default_flags) == dnnl_success;
  dnnl_primitive_desc_destroy(pd);
  return ok;
}

static i64 work_of(const conv *c) {
  i64 taps = 1;
  for (u32 k = 0; k < c->ns; k++) taps *= c->k[k];
  return hs_mul_sat_i64(hs_mul_sat_i64(c->no, c->IC), taps);
}

// How many pieces, and whether along the features of the result.
static u32 split(const conv *c, bool *by_features) {
  enum { FEATURES = 32 };  // of a piece
  i64 most = HS_MIN(work_of(c) / PIECE_WORK, (i64)MOST_PIECES),
      features = c->G * c->BG == 1 ? HS_MIN(most, c->OC / FEATURES) : 1,
      batch = c->mode == CONV_BACK_WEIGHTS ? 1 : HS_MIN(most, c->N);
  *by_features =
      c->mode == CONV_BACK_WEIGHTS || batch < 4 ? features > batch : c->nr > c->nl && features >= 4;
  return (u32)HS_MAX(*by_features ? features : batch, (i64)1);
}

// Which of lhs, rhs and result is oneDNN's src, weights and dst.
static const int role[3][3] = {{0, 1, 2}, {2, 1, 0}, {0, 2, 1}};

// Which of src, weights and dst is the lhs (0) or the rhs (1).
static int place_of(const conv *c, int operand) {
  int k = 0;
  while (role[c->mode][k] != operand) k++;
  return k;
}

// Bytes of a piece's reordered array k; 0: it has none.
static i64 own_bytes(const piece *p, int k) {
  const dnnl_memory_desc_t *has;
  if (!p->own[k] || dnnl_memory_get_memory_desc(p->own[k], &has)) return 0;
  return cpu_align((i64)dnnl_memory_desc_get_size(has));
}

// Whether the rhs is read by nothing but reorders.
static bool rhs_is_copied(const conv *c, const conv_dnnl *d) {
  bool all = true;
  for (u32 k = 0; k < d->n; k++) all &= d->v[k].own[place_of(c, 1)] != NULL;
  return all;
}

// Whether the rhs is mirrored for nothing but the reorder of the common operand, in every run.
static bool mirrors_first(const conv *c, const conv_dnnl *d) {
  return needs_mirror(c) && role[c->mode][d->common] == 1 && d->common != d->fixed &&
         rhs_is_copied(c, d);
}

// Where reordered arrays lie, behind the *scratch bytes before them or in each thread's memory, of
// which a mirrored filter has the first part.
static void place_copies(const conv *c, conv_dnnl *d, i64 *scratch) {
  const i64 mirrored = mirrors_first(c, d) ? c->nr * (i64)d->element : 0;
  for (u32 k = 0; k < d->n; k++) {
    piece *p = &d->v[k];
    i64 at = cpu_align(mirrored);
    // the common one first: in all pieces it is in one place
    if (d->common != d->fixed) p->own_at[d->common] = at, at += own_bytes(p, d->common);
    for (int a = 0; a < 3; a++)
      if (a != d->fixed && a != d->common) p->own_at[a] = at, at += own_bytes(p, a);
    if (at > cpu_align(mirrored)) d->by_thread = HS_MAX(d->by_thread, at);
  }
  if (d->by_thread > THREAD_BYTES) d->by_thread = 0;
  for (u32 k = 0; k < d->n; k++)
    for (int a = 0; a < 3; a++) {
      piece *p = &d->v[k];
      if (a != d->fixed && d->by_thread) continue;
      i64 *end = a == d->fixed ? &d->kept : scratch;
      if (a == d->common && p->lender) p->own_at[a] = d->v[p->lender - 1].own_at[a];
      else p->own_at[a] = *end, *end += own_bytes(p, a);
    }
}

static conv_dnnl *make_pieces(const conv *c, dnnl_data_type_t t, i64 *scratch) {
  bool by_features;
  conv part = *c;
  conv_dnnl *d = hs_calloc(1, sizeof *d);
  u32 n = split(c, &by_features), made = 0;
  d->openmp = n == 1 && work_of(c) >= OPENMP_WORK;
  d->common = place_of(c, by_features ? 0 : 1);
  d->fixed = c->fixed_rhs ? place_of(c, 1) : -1;
  d->element = dnnl_data_type_size(t);
  i64 extent = by_features ? c->OC : c->N, grain = by_features && c->OC % 16 == 0 ? 16 : 1,
      e = (i64)d->element;
  if (d->openmp) cpu_par_hand_over(true);
  for (u32 k = 0; k < n && made == k; k++) {
    i64 lo = extent / grain * k / n * grain, hi = extent / grain * (k + 1) / n * grain;
    piece *p = &d->v[k], *like = NULL;
    if (k + 1 == n) hi = extent;
    for (u32 j = 0; j < k && !like; j++) {
      i64 jlo = extent / grain * j / n * grain, jhi = extent / grain * (j + 1) / n * grain;
      if (jhi - jlo == hi - lo && d->v[j].owns) like = &d->v[j];
    }
    if (by_features) part.OC = hi - lo;
    else part.N = hi - lo;
    p->at[0] = by_features ? 0 : lo * c->lb * e;
    p->at[1] = by_features ? lo * c->ro * e : 0;
    p->at[2] = lo * (by_features ? c->of : c->ob) * e;
    made += make_piece(&part, t, d, like, p);
    d->n++;
  }
  if (d->openmp) cpu_par_hand_over(false);
  if (made == n) return place_copies(c, d, scratch), d;
  cpu_conv_dnnl_free(d);
  return NULL;
}

// Where the rhs lies widened and mirrored, where it has to be; what comes last of that is kept when
// it is read in every run.
static void place_rhs(conv *c, hlo_dtype t, i64 *scratch) {
  const conv_dnnl *d = c->dnnl;
  const i64 bytes = c->nr * (i64)d->element;
  const bool copied = rhs_is_copied(c, d), widened = c->tr != t, mirrored = needs_mirror(c);
  cpu_keep(&c->kept, d->kept);
  c->kept_rhs = c->fixed_rhs && !copied && (widened || mirrored);
  if (widened) {
    c->at_r = c->kept_rhs && !mirrored ? cpu_keep(&c->kept, bytes) : *scratch;
    if (!c->kept_rhs || mirrored) *scratch += cpu_align(bytes);
  }
  if (!mirrored) return;
  if (c->kept_rhs) c->at_w = cpu_keep(&c->kept, bytes);
  else if (mirrors_first(c, d) && d->by_thread) c->at_w = CONV_BY_THREAD;
  else if (copied && role[c->mode][d->common] == 1 && c->no >= c->nr) c->at_w = CONV_IN_RESULT;
  else {
    c->at_w = *scratch;
    *scratch += cpu_align(bytes);
  }
}

bool cpu_conv_dnnl_prepare(conv *c, i64 *scratch_bytes) {
  bool bf16 = c->tl == HLO_BF16 && c->tr == HLO_BF16 && c->to == HLO_BF16 && cpu_dnnl_fast_bf16();
  for (int narrow = bf16; narrow >= 0; narrow--) {
    hlo_dtype t = narrow ? HLO_BF16 : HLO_F32;
    i64 at = 0, e = (i64)hlo_dtype_storage(t);
    conv x = *c;
    i64 *offsets[] = {&x.at_l, &x.at_o}, n[] = {x.nl, x.no};
    bool used[] = {x.tl != t, x.to != t};
    for (int k = 0; k < 2; k++) {
      *offsets[k] = used[k] ? at : -1;
      if (used[k]) at += cpu_align(n[k] * e);
    }
    x.dnnl = make_pieces(&x, narrow ? dnnl_bf16 : dnnl_f32, &at);
    if (!x.dnnl) continue;
    place_rhs(&x, t, &at);
    *c = x;
    *scratch_bytes = at;
    return true;
  }
  return false;
}

// ---- running ------------------------------------------------------------------------------------

typedef struct job {
  const conv *c;
  char *p[3];  // lhs, rhs, result
  char *scratch;
  bool fill;  // what is kept
  // of each thread: the piece whose common operand it has in its memory, as lenders are said
  u32 has[CPU_MOST_THREADS];
  _Atomic int status;  // of oneDNN; the first that is not 0
} job;

static dnnl_status_t execute(const piece *p, dnnl_primitive_t prim, const dnnl_exec_arg_t *args,
                             int n) {
  return dnnl_primitive_execute(prim, p->stream, n, args);
}

static dnnl_status_t convert(const piece *p, int k, bool back) {
  const dnnl_exec_arg_t a[] = {{DNNL_ARG_FROM, back ? p->own[k] : p->user[k]},
                               {DNNL_ARG_TO, back ? p->user[k] : p->own[k]}};
  return execute(p, p->re[k], a, 2);
}

// copies: where reordered arrays lie that are not kept.
static void set_memories(const job *j, const piece *p, char *copies) {
  const conv_dnnl *d = j->c->dnnl;
  for (int k = 0; k < 3; k++) {
    int r = role[j->c->mode][k];
    char *from = k == d->common && j->c->at_w == CONV_BY_THREAD ? copies : j->p[r];
    dnnl_memory_set_data_handle(p->user[k], from + p->at[r]);
    char *own = k == d->fixed ? j->c->kept.at : copies;
    if (p->own[k]) dnnl_memory_set_data_handle(p->own[k], own + p->own_at[k]);
  }
}

// The common operand in the order that the piece wants, in the memory of its thread.
static dnnl_status_t copy_common(job *j, const piece *p, u32 number, char *mine, u32 thread) {
  const conv_dnnl *d = j->c->dnnl;
  u32 wants = p->lender ? p->lender : number + 1;
  if (j->has[thread] == wants) return dnnl_success;
  if (j->c->at_w == CONV_BY_THREAD) mirror(j->c, mine, j->p[1], d->element);
  j->has[thread] = wants;
  return convert(p, d->common, false);
}

static dnnl_status_t compute_piece(job *j, u32 number, u32 thread) {
  static const int arg[3][3] = {{DNNL_ARG_SRC, DNNL_ARG_WEIGHTS, DNNL_ARG_DST},
                                {DNNL_ARG_DIFF_SRC, DNNL_ARG_WEIGHTS, DNNL_ARG_DIFF_DST},
                                {DNNL_ARG_SRC, DNNL_ARG_DIFF_WEIGHTS, DNNL_ARG_DIFF_DST}};
  const conv *c = j->c;
  const conv_dnnl *d = c->dnnl;
  const piece *p = &d->v[number];
  const int result = result_index(c);
  dnnl_exec_arg_t args[4] = {[3] = {DNNL_ARG_SCRATCHPAD, p->scratch}};
  dnnl_status_t st = dnnl_success;
  char *copies = d->by_thread ? cpu_par_memory((size_t)d->by_thread) : j->scratch;
  if (!copies && d->by_thread) return dnnl_out_of_memory;
  set_memories(j, p, copies);
  if (d->by_thread && p->re[d->common] && d->common != d->fixed)
    st = copy_common(j, p, number, copies, thread);
  for (int k = 0; k < 3; k++) {
    args[k] = (dnnl_exec_arg_t){arg[c->mode][k], p->own[k] ? p->own[k] : p->user[k]};
    bool done = k == result || k == d->common || (k == d->fixed && !j->fill);
    if (p->re[k] && !done && !st) st = convert(p, k, false);
  }
  if (!st) st = execute(p, p->prim, args, 4);
  if (!st && p->re[result]) st = convert(p, result, true);
  return st;
}

static void run_piece(void *ctx, i64 index, u32 thread) {
  job *j = ctx;
  dnnl_status_t st = compute_piece(j, (u32)index, thread);
  if (st) j->status = (int)st;
}

// The common operand, before the pieces run, where it is not each thread's.
static void convert_common(job *j) {
  const conv_dnnl *d = j->c->dnnl;
  if (d->common == d->fixed ? !j->fill : d->by_thread > 0) return;
  for (u32 k = 0; k < d->n; k++) {
    const piece *p = &d->v[k];
    if (!p->re[d->common] || p->lender) continue;
    set_memories(j, p, j->scratch);
    dnnl_status_t st = convert(p, d->common, false);
    if (st) j->status = (int)st;
  }
}

hs_status cpu_conv_dnnl_run(conv *c, void *const *bufs, char *scratch) {
  const conv_dnnl *d = c->dnnl;
  const i64 at[3] = {c->at_l, c->at_r, c->at_o}, n[3] = {c->nl, c->nr, c->no};
  const hlo_dtype t[3] = {c->tl, c->tr, c->to};
  job j = {.c = c, .scratch = scratch};
  HS_TRY(cpu_kept_open(&c->kept, &j.fill));
  const bool read_rhs = j.fill || !c->kept.bytes;
  for (int k = 0; k < 3; k++) {
    char *base = k == 1 && c->kept_rhs && c->at_w == -1 ? c->kept.at : scratch;
    j.p[k] = at[k] < 0 ? bufs[k] : base + at[k];
    if (at[k] >= 0 && (k == 0 || (k == 1 && read_rhs)))
      cpu_conv_widen((float *)(void *)j.p[k], bufs[k], t[k], n[k]);
  }
  if (c->at_w >= 0 || c->at_w == CONV_IN_RESULT) {
    char *base = c->kept_rhs ? c->kept.at : scratch,
         *mirrored = c->at_w == CONV_IN_RESULT ? j.p[2] : base + c->at_w;
    if (read_rhs) mirror(c, mirrored, j.p[1], d->element);
    j.p[1] = mirrored;
  }
  if (d->openmp) cpu_par_hand_over(true);
  convert_common(&j);
  if (d->openmp) run_piece(&j, 0, 0);
  else cpu_par_for(run_piece, &j, d->n);
  if (d->openmp) cpu_par_hand_over(false);
  c->kept.filled |= j.fill && j.status == 0;
  if (c->at_o >= 0) cpu_conv_narrow(bufs[2], (const float *)(const void *)j.p[2], t[2], n[2]);
  return j.status == 0 ? HS_GOOD
                       : hs_fail(HS_E_RUN, "oneDNN convolution failed with status %d", j.status);
}
#else

bool cpu_conv_dnnl_prepare(conv *c, i64 *scratch_bytes) {
  (void)c, (void)scratch_bytes;
  return false;
}
hs_status cpu_conv_dnnl_run(const conv *c, void *const *bufs, char *scratch) {
  (void)c, (void)bufs, (void)scratch;
  return hs_fail(HS_E_NOT_BUILT, "built without oneDNN");
}
void cpu_conv_dnnl_free(conv_dnnl *d) { (void)d; }
#endif
