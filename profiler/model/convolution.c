// convolution.c: the form of a convolution, and what the cpu backend's library makes of it.
//
// HLO has one operation for three that libraries tell apart: forward, the gradient of the image and
// the gradient of the filter (hlo_is_filter_gradient). In all of them the filter, which is the
// result of the last one, has an order of its own, so that each run copies it, but where it is the
// same in every run.
#include <math.h>

#include "profiler/model/work.h"

static bool is_constant(const hlo_instr *i) {
  while (hlo_op_has(i->opcode, HLO_F_FREE) && i->noperands == 1) i = hlo_operand(i, 0);
  return i->opcode == HLO_CONSTANT;
}

// As the cpu backend does it (backends/cpu/rt/conv_dnnl.c): by images, or by features where there
// are few images or the filter is the larger array, and no piece too small.
static void cut(prof_product *p, double work, double images, double lhs, double rhs) {
  enum { PIECE = 1 << 20, MOST = 16, FEATURES = 32, FEW = 4 };
  double most = HS_MIN(floor(work / PIECE), MOST);
  double features = p->grouped ? 1 : HS_MIN(most, floor(p->n / FEATURES));
  double batch = p->gradient ? 1 : HS_MIN(most, images);
  p->by_features = p->gradient || batch < FEW ? features > batch : rhs > lhs && features >= FEW;
  p->pieces = HS_MAX(p->by_features ? features : batch, 1);
}

prof_product prof_conv_form(const hlo_instr *i, double flops) {
  const hlo_dim_labels *d = hlo_attr_ptr(i, HLO_ATTR_DIM_LABELS);
  const hlo_window *w = hlo_attr_ptr(i, HLO_ATTR_WINDOW);
  const hlo_shape *l = hlo_operand(i, 0)->shape, *r = hlo_operand(i, 1)->shape,
                  *o = hlo_shape_leaf(i->shape, 0);
  prof_product p = {
      .batch = 1, .m = 1, .n = 1, .k = 1, .type = l->dtype, .convolution = true, .pieces = 1};
  p.operands = (double)l->elements + (double)r->elements;
  p.taps = 1;
  for (u32 k = 0; w && k < w->n; k++) p.taps *= (double)w->v[k].size;
  if (!d || r->rank < 2 || !o || o->rank < 2) return p;
  double groups = (double)hlo_attr_int(i, HLO_ATTR_FEATURE_GROUP_COUNT, 1);
  groups *= (double)hlo_attr_int(i, HLO_ATTR_BATCH_GROUP_COUNT, 1);
  p.grouped = groups > 1;
  for (u32 k = 0; w && k < w->n; k++) p.dilated |= w->v[k].rhs_dilate > 1;
  p.batch = HS_MAX(groups, 1);
  p.n = HS_MAX((double)o->dims[d->out_feature] / p.batch, 1);
  p.m = HS_MAX((double)o->elements / HS_MAX((double)o->dims[d->out_feature], 1), 1);
  p.k = HS_MAX(flops / HS_MAX(2 * p.batch * p.m * p.n, 1), 1);
  p.gradient = !p.grouped && hlo_is_filter_gradient(i);
  double filter = (double)(p.gradient ? o : r)->elements;
  if (p.gradient || !is_constant(hlo_operand(i, 1))) p.filter = filter;
  double work = (double)o->elements * (double)r->elements / HS_MAX(p.n * p.batch, 1);
  cut(&p, work, (double)o->dims[d->out_batch], (double)l->elements, (double)r->elements);
  return p;
}
