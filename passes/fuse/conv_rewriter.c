// conv_rewriter.c — conv-rewriter (xla/backends/gpu/transforms/conv_rewriter.cc): a convolution
// becomes a call of cuDNN. HLO has one operation for three that a library has kernels for: the
// convolution itself and, written as convolutions, its gradients. They are told apart by shape:
//
//   gradient of the input    stride 1, the filter reversed in all spatial dimensions (or of one
//                            element, or a constant, behind a dilated operand): the forward
//                            convolution had the dilation of the operand as its stride
//   gradient of the filter   stride 1, no dilated operand, and either holes in the window, which
//                            were the stride, or a window that is larger than the result; batch
//                            and features are exchanged
//   forward                  everything else, of up to three spatial dimensions
//
// A gradient's call describes the forward convolution that it belongs to: its window, and labels in
// which input, filter and result are the forward ones. The high padding of that window has a range
// of values that give the same result; the one nearest to the low padding is taken, for the library
// pads both sides alike (conv-padding-legalization does the rest).
//
// The result is a tuple: the convolution, and the memory the library works in, u8[0] until an
// algorithm is chosen. A convolution with batch groups becomes one with feature groups.
//
// Left as they are: f8, whose results the library saturates; whole numbers narrower than 32 bits as
// results, likewise (`narrow_results`, XLA); types the library does not have (an error with
// `reject_types`, as in XLA); gradients of whole numbers; a kind that is written in the text.
#include "passes/fuse/conv_call.h"
#include "passes/fuse/fusion.h"
#include "passes/run/rewrite.h"

enum { MOST_SPATIAL = 8 };

// What a convolution becomes: a call on lhs and rhs.
typedef struct conv_match {
  conv_kind kind;
  hlo_instr *lhs, *rhs;
  hlo_window_dim window[MOST_SPATIAL];
  hlo_dim_labels labels;
  i64 groups;
} conv_match;

static const hlo_dim_labels *labels_of(const hlo_instr *conv) {
  return hlo_attr_ptr(conv, HLO_ATTR_DIM_LABELS);
}
static i64 groups_of(const hlo_instr *conv, hlo_attr_id which) {
  return hlo_attr_int(conv, which, 1);
}
static i64 size_of(const hlo_instr *x, i64 dim) { return x->shape->dims[dim]; }

// ---- which convolutions -------------------------------------------------------------------------

// What the library says about a type; NULL: it computes with it.
static const char *bad_type(hlo_dtype t) {
  if (!hlo_dtype_is_float(t) && !hlo_dtype_is_integer(t))
    return "Convolutions must have floating-point or integral operands/outputs";
  if (hlo_dtype_is_float(t) && hlo_dtype_bits(t) == 8 && t != HLO_F8E4M3FN && t != HLO_F8E5M2)
    return "The only FP8 types supported in convolutions are f8e5m2 and f8e4m3";
  return NULL;
}

// Why the convolution stays; NULL: it may become a call.
static const char *refusal(const hlo_instr *conv, bool narrow) {
  hlo_dtype t = conv->shape->dtype;
  if (hlo_attr_int(conv, HLO_ATTR_CONVOLUTION_KIND, HLO_CONV_KIND_UNSET) != HLO_CONV_KIND_UNSET)
    return "its kind is written";
  if (hlo_is_controlled(conv)) return "its order is fixed";
  if (conv->noperands != 2 || !pass_conv_is_sound(conv, conv->shape) ||
      labels_of(conv)->nspatial > MOST_SPATIAL)
    return "its dimensions";
  for (u32 k = 0; k < 2; k++)
    if (hlo_operand(conv, k)->shape->elements == 0 || pass_is_cut(hlo_operand(conv, k)))
      return "its size";
  if (hlo_dtype_is_float(t) ? hlo_dtype_bits(t) < 16 : hlo_dtype_bits(t) < 32 && !narrow)
    return "the library saturates results of this type";
  return NULL;
}

// A filter of one dimension, made one of two by a reshape: whether that is so.
static bool is_1d_as_2d(const hlo_instr *conv) {
  const hlo_instr *rhs = hlo_operand(conv, 1);
  const hlo_dim_labels *l = labels_of(conv);
  if (l->nspatial != 2 || rhs->opcode != HLO_RESHAPE) return false;
  const hlo_shape *from = hlo_operand(rhs, 0)->shape, *to = rhs->shape;
  if (from->rank + 1 != to->rank) return false;
  u32 at = 0;  // the dimension that is new
  while (at < from->rank && from->dims[at] == to->dims[at]) at++;
  if (to->dims[at] != 1) return false;
  for (u32 d = at; d < from->rank; d++)
    if (from->dims[d] != to->dims[d + 1]) return false;
  return l->rhs_spatial[0] == (i64)at || l->rhs_spatial[1] == (i64)at;
}

// ---- gradient of the input ----------------------------------------------------------------------

static bool reverses(const hlo_instr *r, u32 n, const i64 *dims) {
  hlo_ints v = hlo_attr_ints(r, HLO_ATTR_DIMENSIONS);
  if (r->opcode != HLO_REVERSE || v.n != n) return false;
  for (u32 k = 0; k < n; k++) {
    bool found = false;
    for (u32 j = 0; j < n; j++) found |= v.v[k] == dims[j];
    if (!found) return false;
  }
  return true;
}

// The high padding of a gradient's forward window, nearest to the low one; negative: there is none.
static i64 high_padding(i64 low, i64 least, i64 stride) {
  i64 most = least + stride - 1;
  return low < least ? least : low > most ? most : low;
}

// The filter before its reversal in all spatial dimensions, and whether it has to be made
// (*reverse); NULL: it is no reversed filter.
static hlo_instr *unreversed(const hlo_instr *conv, bool dilated, bool *reverse, bool *reshape) {
  const hlo_dim_labels *l = labels_of(conv);
  const hlo_window *w = hlo_attr_ptr(conv, HLO_ATTR_WINDOW);
  hlo_instr *rhs = hlo_operand(conv, 1);
  *reverse = *reshape = false;
  if (reverses(rhs, l->nspatial, l->rhs_spatial)) return hlo_operand(rhs, 0);
  if (is_1d_as_2d(conv)) {
    // reshape(reverse(x)) with the one spatial dimension that x has
    const hlo_instr *inner = hlo_operand(rhs, 0);
    for (u32 k = 0; k < 2; k++) {
      i64 added = l->rhs_spatial[k], other = l->rhs_spatial[1 - k], at = other - (other > added);
      if (size_of(rhs, added) == 1 && reverses(inner, 1, &at))
        return *reshape = true, hlo_operand(inner, 0);
    }
  }
  bool one = true;
  for (u32 k = 0; k < l->nspatial; k++) one &= w->v[k].size == 1;
  if (!dilated || (!one && rhs->opcode != HLO_CONSTANT)) return NULL;
  *reverse = !one;
  return rhs;
}

static bool match_input(hlo_instr *conv, conv_match *m) {
  const hlo_dim_labels *l = labels_of(conv);
  const hlo_window *w = hlo_attr_ptr(conv, HLO_ATTR_WINDOW);
  bool dilated = false, reverse, reshape;
  if (groups_of(conv, HLO_ATTR_FEATURE_GROUP_COUNT) > 1 ||
      groups_of(conv, HLO_ATTR_BATCH_GROUP_COUNT) > 1 || l->nspatial == 0)
    return false;
  for (u32 k = 0; k < l->nspatial; k++) {
    if (w->v[k].stride != 1 || HS_MAX(w->v[k].rhs_dilate, 1) != 1 || w->v[k].reversal) return false;
    dilated |= w->v[k].lhs_dilate > 1;
  }
  hlo_instr *filter = unreversed(conv, dilated, &reverse, &reshape);
  if (!filter) return false;
  for (u32 k = 0; k < l->nspatial; k++) {
    const hlo_window_dim *old = &w->v[k];
    i64 stride = HS_MAX(old->lhs_dilate, 1), low = old->size - 1 - old->pad_low,
        padded = old->size + stride * (size_of(hlo_operand(conv, 0), l->lhs_spatial[k]) - 1),
        least = padded - size_of(conv, l->out_spatial[k]) - low,
        high = high_padding(low, least, stride);
    if (low < 0 || high < 0) return false;
    m->window[k] = (hlo_window_dim){old->size, stride, low, high, 1, 1, false};
  }
  if (reverse) filter = hlo_build_reverse(filter, l->nspatial, l->rhs_spatial);
  if (reshape)
    filter = hlo_add_before(conv, HLO_RESHAPE, hlo_operand(conv, 1)->shape, 1, &filter, NULL);
  m->kind = CONV_INPUT, m->rhs = filter;
  m->labels = (hlo_dim_labels){.lhs_batch = l->out_batch,
                               .lhs_feature = l->out_feature,
                               .rhs_input_feature = l->rhs_output_feature,
                               .rhs_output_feature = l->rhs_input_feature,
                               .out_batch = l->lhs_batch,
                               .out_feature = l->lhs_feature,
                               .nspatial = l->nspatial,
                               .lhs_spatial = l->out_spatial,
                               .rhs_spatial = l->rhs_spatial,
                               .out_spatial = l->lhs_spatial};
  return true;
}

// ---- gradient of the filter ---------------------------------------------------------------------

// Whether batch and features of the result are those of the operands, and no window is larger than
// the result: a gradient of the filter exchanges them.
static bool looks_forward(const hlo_instr *conv) {
  const hlo_dim_labels *l = labels_of(conv);
  const hlo_instr *x = hlo_operand(conv, 0), *f = hlo_operand(conv, 1);
  if (size_of(x, l->lhs_batch) != size_of(conv, l->out_batch) ||
      size_of(f, l->rhs_output_feature) != size_of(conv, l->out_feature))
    return false;
  for (u32 k = 0; k < l->nspatial; k++)
    if (size_of(f, l->rhs_spatial[k]) > size_of(conv, l->out_spatial[k])) return false;
  return true;
}

static bool match_filter(hlo_instr *conv, conv_match *m) {
  const hlo_dim_labels *l = labels_of(conv);
  const hlo_window *w = hlo_attr_ptr(conv, HLO_ATTR_WINDOW);
  bool holes = false;
  u32 nsmall = 0;
  if (groups_of(conv, HLO_ATTR_FEATURE_GROUP_COUNT) > 1 || looks_forward(conv)) return false;
  for (u32 k = 0; k < l->nspatial; k++) {
    const hlo_window_dim *v = &w->v[k];
    if (v->stride != 1 || v->lhs_dilate > 1 || v->pad_low < 0 || v->reversal) return false;
    holes |= v->rhs_dilate > 1;
    nsmall += v->size <= size_of(conv, l->out_spatial[k]);
  }
  if (!holes && (l->nspatial == 0 || nsmall > (u32)is_1d_as_2d(conv))) return false;
  for (u32 k = 0; k < l->nspatial; k++) {
    i64 size = size_of(conv, l->out_spatial[k]), stride = HS_MAX(w->v[k].rhs_dilate, 1),
        low = w->v[k].pad_low, padded = size + (w->v[k].size - 1) * stride,
        least = padded - size_of(hlo_operand(conv, 0), l->lhs_spatial[k]) - low,
        high = high_padding(low, least, stride);
    if (high < 0) return false;
    m->window[k] = (hlo_window_dim){size, stride, low, high, 1, 1, false};
  }
  m->kind = CONV_FILTER, m->groups = groups_of(conv, HLO_ATTR_BATCH_GROUP_COUNT);
  m->labels = (hlo_dim_labels){.lhs_batch = l->lhs_feature,
                               .lhs_feature = l->lhs_batch,
                               .rhs_input_feature = l->out_batch,
                               .rhs_output_feature = l->out_feature,
                               .out_batch = l->rhs_input_feature,
                               .out_feature = l->rhs_output_feature,
                               .nspatial = l->nspatial,
                               .lhs_spatial = l->lhs_spatial,
                               .rhs_spatial = l->out_spatial,
                               .out_spatial = l->rhs_spatial};
  return true;
}

// ---- forward ------------------------------------------------------------------------------------

// The operand of a convolution with batch groups, its groups moved to the features:
// batch [G, N/G] -> N/G, features C -> [G, C].
static hlo_instr *groups_to_features(hlo_instr *x, const hlo_dim_labels *l, i64 groups) {
  i64 dims[HLO_MAX_RANK + 1], perm[HLO_MAX_RANK + 1];
  u32 rank = x->shape->rank, b = (u32)l->lhs_batch, f = (u32)l->lhs_feature, n = 0;
  for (u32 d = 0; d < rank; d++) {
    if (d == b) dims[n++] = groups;
    dims[n++] = d == b ? x->shape->dims[d] / groups : x->shape->dims[d];
  }
  x = hlo_build_reshape(x, n, dims);
  n = 0;
  for (u32 d = 0; d < rank; d++) {
    if (d == f) perm[n++] = b;
    perm[n++] = d < b ? d : d + 1;
  }
  x = hlo_build_transpose(x, perm);
  n = 0;
  for (u32 d = 0; d < rank; d++, n++) {
    dims[d] = x->shape->dims[n];
    if (d == f) dims[d] *= x->shape->dims[++n];
  }
  return hlo_build_reshape(x, rank, dims);
}

static bool match_forward(hlo_instr *conv, conv_match *m) {
  const hlo_dim_labels *l = labels_of(conv);
  const hlo_window *w = hlo_attr_ptr(conv, HLO_ATTR_WINDOW);
  i64 batches = groups_of(conv, HLO_ATTR_BATCH_GROUP_COUNT);
  u32 reversed = 0;
  for (u32 k = 0; k < l->nspatial; k++) reversed += w->v[k].reversal;
  if (l->nspatial > 3 || (reversed && (l->nspatial != 2 || reversed != 2)) ||
      (batches > 1 && conv->shape->rank == HLO_MAX_RANK))
    return false;
  for (u32 k = 0; k < l->nspatial; k++) m->window[k] = w->v[k];
  m->kind = CONV_FORWARD, m->labels = *l;
  m->groups = HS_MAX(groups_of(conv, HLO_ATTR_FEATURE_GROUP_COUNT), batches);
  if (batches > 1) m->lhs = groups_to_features(m->lhs, l, batches);
  return true;
}

// ---- the call -----------------------------------------------------------------------------------

static void make_call(pass_ctx *p, hlo_instr *conv, const conv_match *c) {
  hlo_module *m = p->m;
  u32 n = c->labels.nspatial;
  hlo_instr *ops[2] = {c->lhs, c->rhs};
  i64 none = 0;
  const hlo_shape *parts[2] = {conv->shape, hlo_shape_array(m->ctx, HLO_U8, 1, &none)};
  if (conv->shape->layout) parts[1] = hlo_shape_fill_layout(m->ctx, parts[1]);
  hlo_instr *call = hlo_add_before(conv, HLO_CUSTOM_CALL, hlo_shape_tuple(m->ctx, 2, parts), 2, ops,
                                   pass_conv_name(c->kind));
  hlo_dim_labels *l = HS_NEW(&m->arena, hlo_dim_labels);
  *l = c->labels;
  l->lhs_spatial = hs_arena_dup(&m->arena, l->lhs_spatial, n * sizeof *l->lhs_spatial);
  l->rhs_spatial = hs_arena_dup(&m->arena, l->rhs_spatial, n * sizeof *l->rhs_spatial);
  l->out_spatial = hs_arena_dup(&m->arena, l->out_spatial, n * sizeof *l->out_spatial);
  const hlo_window_dim *dims = hs_arena_dup(&m->arena, c->window, n * sizeof *dims);
  hlo_window *w = HS_NEW(&m->arena, hlo_window);
  *w = (hlo_window){n, dims};
  hlo_set_attr_str(call, HLO_ATTR_CUSTOM_CALL_TARGET, hs_str_of(pass_conv_target(c->kind)));
  hlo_set_attr_ptr(call, HLO_ATTR_DIM_LABELS, l);
  if (n) hlo_set_attr_ptr(call, HLO_ATTR_WINDOW, w);
  if (c->groups > 1) hlo_set_attr_int(call, HLO_ATTR_FEATURE_GROUP_COUNT, c->groups);
  const hlo_attr *precision = hlo_attr_get(conv, HLO_ATTR_OPERAND_PRECISION);
  if (precision) hlo_set_attr(call, *precision);
  pass_conv_set_config(call, &(conv_config){.activation = "kNone", .scale = 1});
  const hlo_metadata *md = hlo_metadata_of(conv);
  if (md) hlo_set_attr_ptr(call, HLO_ATTR_METADATA, md);
  hlo_add_provenance(call, conv);
  pass_note_done(p, call, conv, "a call of %s", pass_conv_target(c->kind));
  hlo_instr *result = hlo_add_gte(call, 0);
  hlo_move_before(result, conv);
  hlo_replace(conv, result);
}

// ---- the pass -----------------------------------------------------------------------------------

static hs_status visit(pass_ctx *p, hlo_computation *c) {
  bool narrow = pass_option_bool(p, "narrow_results"), strict = pass_option_bool(p, "reject_types");
  hlo_instr **order = hlo_post_order(c, p->scratch);
  for (u32 k = 0, n = c->ninstrs; k < n; k++) {
    hlo_instr *conv = order[k];
    if (conv->dead || conv->opcode != HLO_CONVOLUTION) continue;
    HS_TRY(hs_poll());
    const char *why = refusal(conv, narrow), *bad = bad_type(conv->shape->dtype);
    for (u32 j = 0; j < 2 && !bad; j++) bad = bad_type(hlo_operand(conv, j)->shape->dtype);
    if (bad && strict) return hs_fail(HS_E_PASS, "%s, but got %s", bad, conv->name);
    if (bad || why) {
      pass_note_declined(p, conv, NULL, "%s", bad ? "the library does not have its types" : why);
      continue;
    }
    if (!pass_may_rewrite(p)) return HS_GOOD;
    conv_match m = {.lhs = hlo_operand(conv, 0), .rhs = hlo_operand(conv, 1), .groups = 1};
    bool whole = hlo_dtype_is_integer(conv->shape->dtype);
    if ((!whole && (match_input(conv, &m) || match_filter(conv, &m))) || match_forward(conv, &m))
      make_call(p, conv, &m);
    else pass_note_declined(p, conv, NULL, "the library has no such window");
  }
  return HS_GOOD;
}

static hs_status run(pass_ctx *p) { return pass_fusion_each(p, visit); }

static const pass_option_info options[] = {
    {"narrow_results", PASS_BOOL, "false",
     "whole results of less than 32 bits too, which the library saturates and HLO wraps"},
    {"reject_types", PASS_BOOL, "false", "a type that the library does not have is an error"},
};

const pass_info pass_conv_rewriter = {
    .name = "conv-rewriter",
    .summary = "makes convolutions calls of cuDNN, and those that are gradients its gradients",
    .xla_source = "xla/backends/gpu/transforms/conv_rewriter.cc",
    .run = run,
    .needs = {HLO_CONVOLUTION},
    .options = options,
    .noptions = HS_COUNT(options),
    .sample = "ENTRY e {\n"
              "  x = f32[2,8,8,3] parameter(0)\n"
              "  w = f32[3,3,3,4] parameter(1)\n"
              "  ROOT y = f32[2,8,8,4] convolution(x, w), window={size=3x3 pad=1_1x1_1},\n"
              "    dim_labels=b01f_01io->b01f\n"
              "}\n",
};
