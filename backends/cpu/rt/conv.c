// conv.c — convolution. HLO has one operation for three that libraries tell apart; the window
// says which one it is:
//
//   base (lhs) dilation                        -> backward data of a strided convolution
//   window larger than the output              -> backward weights (hlo_is_filter_gradient)
//   everything else                            -> forward
//
// Dimension numbers become strides: no operand is transposed for them. oneDNN works in f32;
// narrower floats are widened in memory order, which keeps strides. Filters may be
// reordered (they are small); images where there is no good kernel for their order.
// f64, complex numbers and what oneDNN has no kernel for are products of matrices
// (conv_patches.c). batch_group_count of a forward convolution, integers and very few features run
// through a plain loop nest, vectorized over output features.

#include "backends/cpu/rt/conv.h"

#include "backends/cpu/rt/cx.h"
#include "core/analysis/cost.h"

static bool is_narrow(hlo_dtype t) { return hlo_dtype_is_float(t) && t != HLO_F64; }

bool cpu_convolution_supports(const hlo_instr *i) {
  if (i->noperands != 2) return false;
  const hlo_dim_labels *d = hlo_attr_ptr(i, HLO_ATTR_DIM_LABELS);
  const hlo_window *w = hlo_attr_ptr(i, HLO_ATTR_WINDOW);
  if (!d || d->nspatial > CONV_MOST_SPATIAL || (w && w->n != d->nspatial) || (!w && d->nspatial) ||
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
  c->at_l = c->at_r = c->at_o = c->at_w = -1;
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
    i64 ocg = c->OC / (c->G * c->BG), at[CONV_MOST_SPATIAL] = {0};                               \
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
  i64 k = c * FLAT, end = HS_MIN(k + FLAT, j->n);
  char *at = j->array + (size_t)k * hlo_dtype_storage(j->t);
  if (j->w == W_F32) {
    if (j->back) cpu_from_f32(at, j->t, (const float *)j->wide + k, end - k);
    else cpu_to_f32((float *)j->wide + k, at, j->t, end - k);
    return;
  }
  for (; k < end; k++, at += hlo_dtype_storage(j->t)) {
    if (j->back) narrow_one(j->w, j->wide, k, j->t, at);
    else widen_one(j->w, j->wide, k, j->t, at);
  }
}
static void flat(wide w, void *wide_array, void *array, hlo_dtype t, i64 n, bool back) {
  flat_job j = {w, wide_array, array, t, n, back};
  cpu_par_for(flat_chunk, &j, (n + FLAT - 1) / FLAT);
}

void cpu_conv_widen(float *to, const void *from, hlo_dtype t, i64 n) {
  flat(W_F32, to, (void *)(uintptr_t)from, t, n, false);
}
void cpu_conv_narrow(void *to, const float *from, hlo_dtype t, i64 n) {
  flat(W_F32, (void *)(uintptr_t)from, to, t, n, true);
}

// Filter to [spatial][input feature][output feature], mirrored where the window says so; one chunk:
// one place of the window.
typedef struct filter_job {
  const conv *c;
  wide w;
  char *to;
  const char *from;
} filter_job;
static void filter_chunk(void *ctx, i64 tap, u32 thread) {
  (void)thread;
  const filter_job *j = ctx;
  const conv *c = j->c;
  i64 q = tap, base = 0, at = tap * c->IC * c->OC;
  for (u32 s = c->ns; s-- > 0;) {
    i64 kk = q % c->k[s];
    q /= c->k[s];
    base += (c->rev[s] ? c->k[s] - 1 - kk : kk) * c->rs[s];
  }
  size_t e = hlo_dtype_storage(c->tr);
  bool same = c->tr == wide_dtype[j->w];
  for (i64 k = 0; k < c->IC; k++, at += c->OC) {
    const char *from = j->from + (size_t)(base + k * c->ri) * e;
    if (same && c->ro == 1) memcpy(j->to + (size_t)at * e, from, (size_t)c->OC * e);
    else if (same && e == 8)
      for (i64 f = 0; f < c->OC; f++)
        memcpy(j->to + (size_t)(at + f) * 8, from + (size_t)(f * c->ro) * 8, 8);
    else
      for (i64 f = 0; f < c->OC; f++)
        widen_one(j->w, j->to, at + f, c->tr, from + (size_t)(f * c->ro) * e);
  }
}
static void pack_filter(const conv *c, wide w, void *to, const char *from) {
  i64 taps = 1;
  for (u32 s = 0; s < c->ns; s++) taps *= c->k[s];
  if (!c->nr) return;
  filter_job j = {c, w, to, from};
  if (c->nr < FLAT)
    for (i64 t = 0; t < taps; t++) filter_chunk(&j, t, 0);
  else cpu_par_for(filter_chunk, &j, taps);
}

// In the wide type, by products of patches or by plain loops.
static hs_status run_wide(conv *c, void *const *bufs, char *scratch) {
  wide w = wide_type(c);
  bool fill;
  HS_TRY(cpu_kept_open(&c->kept, &fill));
  char *filter = (c->fixed_rhs ? c->kept.at : scratch) + c->at_w;
  const void *l = bufs[0];
  void *o = bufs[2];
  if (c->at_l >= 0) {
    flat(w, scratch + c->at_l, bufs[0], c->tl, c->nl, false);
    l = scratch + c->at_l;
  }
  if (c->at_o >= 0) o = scratch + c->at_o;
  if (fill || !c->fixed_rhs) {
    i64 packed = c->nr * wide_size[w];
    pack_filter(c, w, filter, bufs[1]);
    if (c->filter_bytes > packed) memset(filter + packed, 0, (size_t)(c->filter_bytes - packed));
    c->kept.filled = c->fixed_rhs;
  }
  if (c->patches) {
    HS_TRY(cpu_conv_patches_run(c, l, filter, o));
  } else {
    plain_job j = {c, l, filter, o};
    static cpu_par_fn *const fn[] = {plain_f32, plain_f64, plain_u64, plain_c128};
    if (c->no) cpu_par_for(fn[w], &j, c->N * (c->ns ? c->out[0] : 1));
  }
  if (c->at_o >= 0) flat(w, o, bufs[2], c->to, c->no, true);
  return HS_GOOD;
}

// ---- choosing -----------------------------------------------------------------------------------

static void free_conv(void *state) {
  conv *c = state;
  cpu_conv_dnnl_free(c->dnnl);
  cpu_kept_free(&c->kept);
  cpu_conv_patches_free(c->patches);
  hs_free(c);
}

static hs_status run_conv(void *state, void *const *bufs, void *scratch) {
  conv *c = state;
  return c->dnnl ? cpu_conv_dnnl_run(c, bufs, scratch) : run_wide(c, bufs, scratch);
}

static conv_mode pick_mode(const conv *c, const hlo_instr *i) {
  bool dilated = false, strided = false;
  for (u32 k = 0; k < c->ns; k++) {
    dilated |= c->ld[k] > 1;
    strided |= c->stride[k] > 1;
  }
  if (dilated) return !strided && c->BG == 1 ? CONV_BACK_DATA : CONV_PLAIN;
  if (hlo_is_filter_gradient(i)) return CONV_BACK_WEIGHTS;
  return c->BG == 1 ? CONV_FORWARD : CONV_PLAIN;
}

hs_status cpu_convolution_prepare(const hlo_instr *i, cpu_rt *out) {
  static const char *const names[] = {"convolution (oneDNN forward)",
                                      "convolution (oneDNN backward data)",
                                      "convolution (oneDNN backward weights)"};
  conv *c = hs_calloc(1, sizeof *c);
  describe(c, i);
  c->mode = pick_mode(c, i);
  c->fixed_rhs = (out->fixed & 2) && c->nr;
  wide w = wide_type(c);
  *out = (cpu_rt){.kind = "convolution", .state = c, .run = run_conv, .release = free_conv};
  bool made = c->mode != CONV_PLAIN && w == W_F32 && cpu_conv_dnnl_prepare(c, &out->scratch_bytes);
  if (!made && c->mode == CONV_BACK_WEIGHTS && c->BG == 1) {
    c->mode = CONV_FORWARD;  // an unusual filter gradient: still a forward convolution
    made = w == W_F32 && cpu_conv_dnnl_prepare(c, &out->scratch_bytes);
  }
  if (made) {
    out->kind = names[c->mode];
    out->kept_bytes = c->kept.bytes;
    return HS_GOOD;
  }
  c->mode = CONV_PLAIN;
  i64 at = 0, taps = 1, rows;
  for (u32 k = 0; k < c->ns; k++) taps *= c->k[k];
  if (cpu_conv_patches_prepare(c, wide_dtype[w], &rows)) out->kind = "convolution (patches)";
  else rows = taps * c->IC;
  c->filter_bytes = rows * c->OC * wide_size[w];
  if (c->tl != wide_dtype[w]) {
    c->at_l = at;
    at += cpu_align(c->nl * wide_size[w]);
  }
  if (c->to != wide_dtype[w]) {
    c->at_o = at;
    at += cpu_align(c->no * wide_size[w]);
  }
  if (c->fixed_rhs) c->at_w = cpu_keep(&c->kept, c->filter_bytes);
  else {
    c->at_w = at;
    at += cpu_align(c->filter_bytes);
  }
  out->scratch_bytes = at;
  out->kept_bytes = c->kept.bytes;
  return HS_GOOD;
}
