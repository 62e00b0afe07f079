// expanders.c — operations written out as simpler ones.
//
// logistic-expander (xla/hlo/transforms/expanders/logistic_expander.cc): logistic(x) = 1 / (1 + exp(-x)).
// batchnorm_expander (xla/service/batchnorm_expander.cc): the three batch-norm operations as reductions and arithmetic.
//   training: mean = sum(x)/n, var = sum(x*x)/n - mean*mean, y = (x-mean)*rsqrt(var+eps)*scale + offset.
//   grad: the derivatives of that with respect to x, scale and offset.
#include "passes/util.h"

static const hlo_shape *with_layout_of(const hlo_instr *i, const hlo_shape *s) {
  return i->shape != i->shape->logical ? hlo_shape_fill_layout(i->parent->module->ctx, s) : s;
}

static hlo_instr *binary(hlo_opcode op, hlo_instr *a, hlo_instr *b) { return hlo_build_binary(op, a, b); }

hs_status pass_logistic_expander(pass_ctx *c) {
  hlo_for_each_comp(comp, c->m) {
    hlo_for_each_instr_safe(i, comp) {
      if (i->opcode != HLO_LOGISTIC) continue;
      if (!pass_may_rewrite(c)) return HS_GOOD;
      pass_note_done(c, i, NULL, "written as 1 / (1 + exp(-x))");
      hlo_instr *one = hlo_build_full(comp, i->shape, 1.0);
      hlo_instr *e = hlo_build_unary(HLO_EXP, hlo_build_unary(HLO_NEGATE, hlo_operand(i, 0)));
      hlo_replace(i, binary(HLO_DIVIDE, one, binary(HLO_ADD, one, e)));
    }
  }
  return HS_GOOD;
}

typedef struct bnorm {
  hlo_instr *i;
  const hlo_shape *big;      // the activation
  i64 feature;
  u32 nreduced; i64 reduced[HLO_MAX_RANK];
  hlo_instr *zero, *count, *eps;   // scalars
  hlo_computation *add;
} bnorm;

static bnorm bnorm_of(hlo_instr *i) {
  hlo_instr *x = hlo_operand(i, 0);
  bnorm b = {.i = i, .big = x->shape, .feature = hlo_attr_int(i, HLO_ATTR_FEATURE_INDEX, 0)};
  i64 n = 1;
  for (u32 d = 0; d < b.big->rank; d++)
    if ((i64)d != b.feature) b.reduced[b.nreduced++] = d, n *= b.big->dims[d];
  hlo_dtype t = b.big->dtype;
  b.zero = hlo_build_scalar_f64(i->parent, t, 0);
  b.count = hlo_build_scalar_f64(i->parent, t, (double)n);
  const hlo_attr *eps = hlo_attr_get(i, HLO_ATTR_EPSILON);
  b.eps = hlo_build_scalar_f64(i->parent, t, eps ? eps->v.f : 0);
  b.add = hlo_build_scalar_computation(i->parent->module, HLO_ADD, t);
  return b;
}

static hlo_instr *spread(const bnorm *b, hlo_instr *feature) {
  return hlo_add_broadcast(feature, b->big, feature->shape->rank, &b->feature);
}
static hlo_instr *feature_full(const hlo_instr *like, hlo_instr *scalar) {
  return hlo_add_broadcast(scalar, like->shape, 0, NULL);
}
static hlo_instr *feature_sum(const bnorm *b, hlo_instr *x) { return hlo_build_reduce(x, b->zero, b->nreduced, b->reduced, b->add); }
static hlo_instr *feature_mean(const bnorm *b, hlo_instr *x) {
  hlo_instr *s = feature_sum(b, x);
  return binary(HLO_DIVIDE, s, feature_full(s, b->count));
}
static hlo_instr *inverse_stddev(const bnorm *b, hlo_instr *var) {
  return hlo_build_unary(HLO_RSQRT, binary(HLO_ADD, var, feature_full(var, b->eps)));
}

static hlo_instr *normalize(const bnorm *b, hlo_instr *mean, hlo_instr *var, hlo_instr *scale, hlo_instr *offset) {
  hlo_instr *centered = binary(HLO_SUBTRACT, hlo_operand(b->i, 0), spread(b, mean));
  hlo_instr *y = binary(HLO_MULTIPLY, centered, spread(b, inverse_stddev(b, var)));
  return binary(HLO_ADD, binary(HLO_MULTIPLY, y, spread(b, scale)), spread(b, offset));
}

static hlo_instr *expand_training(const bnorm *b) {
  hlo_instr *x = hlo_operand(b->i, 0), *mean = feature_mean(b, x), *square = feature_mean(b, binary(HLO_MULTIPLY, x, x));
  hlo_instr *var = binary(HLO_SUBTRACT, square, binary(HLO_MULTIPLY, mean, mean));
  hlo_instr *parts[] = {normalize(b, mean, var, hlo_operand(b->i, 1), hlo_operand(b->i, 2)), mean, var};
  return hlo_add_tuple(b->i->parent, 3, parts);
}

// d_offset = sum(g); d_scale = sum(g*(x-mean)) * inv; d_x = scale*inv/n * (n*g - d_offset - (x-mean)*inv^2*sum(g*(x-mean)))
static hlo_instr *expand_grad(const bnorm *b) {
  hlo_instr *x = hlo_operand(b->i, 0), *scale = hlo_operand(b->i, 1), *mean = hlo_operand(b->i, 2), *var = hlo_operand(b->i, 3), *g = hlo_operand(b->i, 4);
  hlo_instr *inv = inverse_stddev(b, var), *centered = binary(HLO_SUBTRACT, x, spread(b, mean));
  hlo_instr *sum_gc = feature_sum(b, binary(HLO_MULTIPLY, g, centered)), *d_offset = feature_sum(b, g);
  hlo_instr *d_scale = binary(HLO_MULTIPLY, sum_gc, inv);
  hlo_instr *count = feature_full(scale, b->count);
  hlo_instr *factor = binary(HLO_DIVIDE, binary(HLO_MULTIPLY, scale, inv), count);
  hlo_instr *n_g = binary(HLO_MULTIPLY, g, hlo_add_broadcast(b->count, b->big, 0, NULL));
  hlo_instr *slope = spread(b, binary(HLO_MULTIPLY, binary(HLO_MULTIPLY, inv, inv), sum_gc));
  hlo_instr *inner = binary(HLO_SUBTRACT, binary(HLO_SUBTRACT, n_g, spread(b, d_offset)), binary(HLO_MULTIPLY, centered, slope));
  hlo_instr *parts[] = {binary(HLO_MULTIPLY, spread(b, factor), inner), d_scale, d_offset};
  return hlo_add_tuple(b->i->parent, 3, parts);
}

hs_status pass_batchnorm_expander(pass_ctx *c) {
  bool training = pass_option_bool(c, "rewrite_training_op", true), inference = pass_option_bool(c, "rewrite_inference_op", true),
       grad = pass_option_bool(c, "rewrite_grad_op", true);
  hlo_for_each_comp(comp, c->m) {
    hlo_for_each_instr_safe(i, comp) {
      bool mine = (i->opcode == HLO_BATCH_NORM_TRAINING && training) || (i->opcode == HLO_BATCH_NORM_INFERENCE && inference) || (i->opcode == HLO_BATCH_NORM_GRAD && grad);
      if (!mine) continue;
      if (!pass_may_rewrite(c)) return HS_GOOD;
      pass_note_done(c, i, NULL, "written out");
      hlo_instr *last = comp->last;
      bnorm b = bnorm_of(i);
      hlo_instr *now;
      if (i->opcode == HLO_BATCH_NORM_TRAINING) now = expand_training(&b);
      else if (i->opcode == HLO_BATCH_NORM_GRAD) now = expand_grad(&b);
      else now = normalize(&b, hlo_operand(i, 3), hlo_operand(i, 4), hlo_operand(i, 1), hlo_operand(i, 2));
      if (now->shape != i->shape && now->shape->logical == i->shape->logical && now->opcode == HLO_TUPLE) hlo_set_shape(now, with_layout_of(i, i->shape));
      const hlo_attr *sharding = hlo_attr_get(i, HLO_ATTR_SHARDING);
      for (hlo_instr *x = last->next; x && sharding; x = x->next)
        if (x->opcode != HLO_TUPLE) {
          const hlo_sharding *s = sharding->v.p;
          hlo_set_attr(x, (hlo_attr){.id = HLO_ATTR_SHARDING, .v.p = s->type == HLO_SH_TUPLE && s->nchildren ? s->children[0] : s});
        } else {
          hlo_set_attr(x, *sharding);
        }
      hlo_replace(i, now);
    }
  }
  return HS_GOOD;
}
