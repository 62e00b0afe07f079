// conv_padding.c — conv-padding-legalization
// (xla/backends/gpu/transforms/conv_padding_legalization.cc): calls of cuDNN get windows that the
// library has: as much padding on one side as on the other, none that is negative, no holes in the
// operand. What a window has beyond that is done outside of the call:
//
//   forward                 the operand is padded and its holes made, what is cut off is sliced,
//                           and the holes of the filter are made
//   gradient of the filter  the input is padded by what one side has more than the other
//   gradient of the input   is computed with the smaller padding of the two, which makes it larger,
//                           and sliced
//
// For example, the gradient of an input of 4 with a padding of 0 and 1 is that of an input of 5
// without any, of which the last element is dropped.
//
// Convolutions that are marked as forward ones (convolution_kind=fprop) are made fit likewise.
// Gradients with a negative padding stay, as in XLA, and gradients that are marked convolutions,
// whose windows HLO does not define.
#include <math.h>

#include "passes/fuse/conv_call.h"
#include "passes/fuse/fusion.h"

enum { MOST_SPATIAL = 3 };
#define MOST_ELEMENTS 0x1p50

// A call or convolution, its labels, and its window in the making.
typedef struct padded {
  hlo_instr *conv;
  const hlo_dim_labels *l;
  hlo_window_dim w[MOST_SPATIAL];
  bool uneven, negative, holes;
} padded;

static bool read_window(hlo_instr *conv, padded *p) {
  const hlo_window *w = hlo_attr_ptr(conv, HLO_ATTR_WINDOW);
  *p = (padded){.conv = conv, .l = hlo_attr_ptr(conv, HLO_ATTR_DIM_LABELS)};
  const hlo_shape *to = conv->shape, *s[2];
  if (hlo_shape_is_tuple(to)) to = to->nelems == 2 ? to->elems[0] : NULL;
  if (!to || !w || w->n > MOST_SPATIAL || hlo_is_controlled(conv) || !pass_conv_is_sound(conv, to))
    return false;
  double x = 1, f = 1, r = 1;  // elements at most, of what is padded
  for (u32 k = 0; k < 2; k++) s[k] = hlo_operand(conv, k)->shape;
  for (u32 d = 0; d < to->rank; d++)
    x *= (double)s[0]->dims[d], f *= (double)s[1]->dims[d], r *= (double)to->dims[d];
  for (u32 k = 0; k < w->n; k++) {
    double pads = fabs((double)w->v[k].pad_low) + fabs((double)w->v[k].pad_high) + 1;
    x *= (double)HS_MAX(w->v[k].lhs_dilate, 1) + pads;
    f *= (double)HS_MAX(w->v[k].rhs_dilate, 1);
    r *= pads;
  }
  if (x > MOST_ELEMENTS || f > MOST_ELEMENTS || r > MOST_ELEMENTS) return false;
  for (u32 k = 0; k < w->n; k++) {
    p->w[k] = w->v[k];
    p->uneven |= w->v[k].pad_low != w->v[k].pad_high;
    p->negative |= w->v[k].pad_low < 0 || w->v[k].pad_high < 0;
    p->holes |= w->v[k].lhs_dilate > 1;
  }
  return true;
}

static void set_window(hlo_instr *conv, const padded *p) {
  hs_arena *a = &conv->parent->module->arena;
  hlo_window *w = HS_NEW(a, hlo_window);
  hlo_window_dim *v = HS_NEW_ARRAY(a, hlo_window_dim, p->l->nspatial);
  for (u32 k = 0; k < p->l->nspatial; k++) v[k] = p->w[k];
  *w = (hlo_window){p->l->nspatial, v};
  hlo_set_attr_ptr(conv, HLO_ATTR_WINDOW, w);
}

static hlo_instr *pad(hlo_instr *x, const hlo_pad_dim *by) {
  return hlo_build_pad(x, hlo_build_scalar_f64(x->parent, x->shape->dtype, 0), by);
}

// ---- forward ------------------------------------------------------------------------------------

// The operand with the window's padding and holes, which leave the window.
static hlo_instr *padded_input(padded *p, hlo_instr *x) {
  hlo_pad_dim by[HLO_MAX_RANK] = {{0}};
  for (u32 k = 0; k < p->l->nspatial; k++) {
    hlo_window_dim *v = &p->w[k];
    by[p->l->lhs_spatial[k]] =
        (hlo_pad_dim){HS_MAX(v->pad_low, 0), HS_MAX(v->pad_high, 0), HS_MAX(v->lhs_dilate, 1) - 1};
    v->pad_low = HS_MIN(v->pad_low, 0), v->pad_high = HS_MIN(v->pad_high, 0), v->lhs_dilate = 1;
  }
  return pad(x, by);
}

// The operand without what a negative padding cuts off.
static hlo_instr *cut_input(padded *p, hlo_instr *x) {
  i64 start[HLO_MAX_RANK] = {0}, limit[HLO_MAX_RANK], stride[HLO_MAX_RANK];
  for (u32 d = 0; d < x->shape->rank; d++) limit[d] = x->shape->dims[d], stride[d] = 1;
  for (u32 k = 0; k < p->l->nspatial; k++) {
    hlo_window_dim *v = &p->w[k];
    i64 d = p->l->lhs_spatial[k];
    start[d] = HS_MIN(-HS_MIN(v->pad_low, 0), limit[d]);
    limit[d] = HS_MAX(limit[d] + HS_MIN(v->pad_high, 0), start[d]);
    v->pad_low = HS_MAX(v->pad_low, 0), v->pad_high = HS_MAX(v->pad_high, 0);
  }
  return hlo_build_slice(x, start, limit, stride);
}

static hlo_instr *filter_with_holes(padded *p, hlo_instr *filter) {
  hlo_pad_dim by[HLO_MAX_RANK] = {{0}};
  bool any = false;
  for (u32 k = 0; k < p->l->nspatial; k++) {
    hlo_window_dim *v = &p->w[k];
    i64 holes = HS_MAX(v->rhs_dilate, 1) - 1;
    any |= holes > 0 && v->size > 1;
    by[p->l->rhs_spatial[k]].interior = holes;
    v->rhs_dilate = 1;
  }
  if (any) filter = pad(filter, by);
  for (u32 k = 0; k < p->l->nspatial; k++) p->w[k].size = filter->shape->dims[p->l->rhs_spatial[k]];
  return filter;
}

static bool fit_forward(pass_ctx *c, padded *p) {
  if ((!p->uneven && !p->negative && !p->holes) || !pass_may_rewrite(c)) return false;
  hlo_instr *x = hlo_operand(p->conv, 0);
  if (p->uneven || p->holes) x = padded_input(p, x);
  if (p->negative) x = cut_input(p, x);
  hlo_instr *filter = filter_with_holes(p, hlo_operand(p->conv, 1));
  hlo_set_operand(p->conv, 0, x);
  hlo_set_operand(p->conv, 1, filter);
  set_window(p->conv, p);
  return true;
}

// ---- gradients ----------------------------------------------------------------------------------

static bool fit_filter(pass_ctx *c, padded *p) {
  hlo_pad_dim by[HLO_MAX_RANK] = {{0}};
  if (!p->uneven || p->negative || !pass_may_rewrite(c)) return false;
  for (u32 k = 0; k < p->l->nspatial; k++) {
    hlo_window_dim *v = &p->w[k];
    i64 both = HS_MIN(v->pad_low, v->pad_high);
    by[p->l->lhs_spatial[k]] = (hlo_pad_dim){v->pad_low - both, v->pad_high - both, 0};
    v->pad_low = v->pad_high = both;
  }
  hlo_set_operand(p->conv, 0, pad(hlo_operand(p->conv, 0), by));
  set_window(p->conv, p);
  return true;
}

static bool fit_input(pass_ctx *c, padded *p) {
  const hlo_shape *old = p->conv->shape, *to = hlo_shape_is_tuple(old) ? old->elems[0] : NULL;
  i64 start[HLO_MAX_RANK] = {0}, limit[HLO_MAX_RANK], stride[HLO_MAX_RANK], dims[HLO_MAX_RANK];
  if (!p->uneven || p->negative || !to || old->nelems != 2 || !pass_may_rewrite(c)) return false;
  for (u32 d = 0; d < to->rank; d++) dims[d] = limit[d] = to->dims[d], stride[d] = 1;
  for (u32 k = 0; k < p->l->nspatial; k++) {
    hlo_window_dim *v = &p->w[k];
    i64 d = p->l->lhs_spatial[k], both = HS_MIN(v->pad_low, v->pad_high);
    start[d] = v->pad_low - both;
    limit[d] += start[d];
    dims[d] += v->pad_low + v->pad_high - 2 * both;
    v->pad_low = v->pad_high = both;
  }
  hlo_ctx *ctx = c->m->ctx;
  const hlo_shape *larger = hlo_shape_array(ctx, to->dtype, to->rank, dims),
                  *parts[2] = {to->layout ? hlo_shape_with_layout(ctx, larger, to->layout) : larger,
                               old->elems[1]};
  hlo_instr *ops[2] = {hlo_operand(p->conv, 0), hlo_operand(p->conv, 1)},
            *call =
                hlo_clone_instr(p->conv->parent, p->conv, hlo_shape_tuple(ctx, 2, parts), 2, ops),
            *results[2] = {hlo_add_gte(call, 0), hlo_add_gte(call, 1)};
  set_window(call, p);
  results[0] = hlo_build_slice(results[0], start, limit, stride);
  if (results[0]->shape != to) hlo_set_shape(results[0], to);
  hlo_replace(p->conv, hlo_add_tuple(call->parent, 2, results));
  p->conv = call;
  return true;
}

// ---- the pass -----------------------------------------------------------------------------------

// How each kind of call is made fit.
static bool (*const fits[CONV_KINDS])(pass_ctx *, padded *) = {
    [CONV_FORWARD] = fit_forward,
    [CONV_FUSED] = fit_forward,
    [CONV_INPUT] = fit_input,
    [CONV_FILTER] = fit_filter,
};

static conv_kind kind_of(const hlo_instr *i) {
  bool marked = i->opcode == HLO_CONVOLUTION &&
                hlo_attr_int(i, HLO_ATTR_CONVOLUTION_KIND, 0) == HLO_CONV_KIND_FPROP;
  return marked ? CONV_FORWARD : pass_conv_kind(i);
}

static hs_status visit(pass_ctx *c, hlo_computation *in) {
  hlo_instr **order = hlo_post_order(in, c->scratch);
  for (u32 k = 0, n = in->ninstrs; k < n; k++) {
    padded p;
    conv_kind kind = order[k]->dead ? CONV_KINDS : kind_of(order[k]);
    if (kind == CONV_KINDS || !read_window(order[k], &p)) continue;
    HS_TRY(hs_poll());
    if (fits[kind](c, &p)) pass_note_done(c, p.conv, NULL, "padding made even");
    else if (p.uneven && p.negative)
      pass_note_declined(c, p.conv, NULL, "a gradient with a negative padding");
  }
  return HS_GOOD;
}

static hs_status run(pass_ctx *p) { return pass_fusion_each(p, visit); }

const pass_info pass_conv_padding = {
    .name = "conv-padding-legalization",
    .summary = "gives calls of cuDNN windows that the library has, by pads and slices around them",
    .xla_source = "xla/backends/gpu/transforms/conv_padding_legalization.cc",
    .run = run,
    .needs = {HLO_CUSTOM_CALL, HLO_CONVOLUTION},
    .sample = "ENTRY e {\n"
              "  x = f32[2,8,8,3] parameter(0)\n"
              "  w = f32[3,3,3,4] parameter(1)\n"
              "  ROOT c = (f32[2,4,4,4], u8[0]) custom-call(x, w),\n"
              "    window={size=3x3 stride=2x2 pad=0_1x0_1}, dim_labels=b01f_01io->b01f,\n"
              "    custom_call_target=\"__cudnn$convForward\"\n"
              "}\n",
};
