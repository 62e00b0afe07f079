// lower_window.c — lowering of convolutions: a reduction over the window and the input features,
// with guards where the window meets padding or the holes of a dilated input.
//
// For targets without a library of convolutions at hand (nest_lower_all): every result reads its
// whole window, nothing is shared.
#include "backends/emit/lower.h"

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
  return lower_failed(l) ? LOWER_NONE : nest_convert(n, out, t, i->shape->dtype);
}
