// batchnorm_expander.c — batchnorm_expander (xla/service/batchnorm_expander.cc): expands the
// three batch-norm operations into reductions and arithmetic.
//
// Training: mean = sum(x)/n, var = sum(x*x)/n - mean*mean, y = (x-mean)*rsqrt(var+eps)*scale +
// offset. Gradient: the derivatives of that with respect to x, scale and offset. Inference: scale
// and shift are computed per feature. n is read from the operand (get-dimension-size), because its
// dimensions may be dynamic; constant_folding replaces it by a constant. Types below 16 bits hold
// neither n nor the sums of squares, and f16 not every n and epsilon: there, all is computed in
// f32, and rounded at the end.
#include <math.h>

#include "passes/run/rewrite.h"

static const hlo_shape *with_layout_of(const hlo_instr *i, const hlo_shape *s) {
  return i->shape != i->shape->logical ? hlo_shape_fill_layout(i->parent->module->ctx, s) : s;
}

static hlo_instr *binary(hlo_opcode op, hlo_instr *a, hlo_instr *b) {
  return hlo_build_binary(op, a, b);
}

typedef struct bnorm {
  hlo_instr *i, *in[5];          // the operands, in the type that all is computed in
  const hlo_shape *big, *small;  // the activation; the feature dimension alone
  i64 feature;
  u32 nreduced;
  i64 reduced[HLO_MAX_RANK];
  // scalars; count: how many elements a feature has, read from the operand's dimensions
  hlo_instr *zero, *count, *eps;
  hlo_computation *add;
} bnorm;

// Does a number become neither infinite nor nothing in the type?
static bool holds(hlo_dtype t, double v) {
  u64 bits = 0;
  hlo_elem_from_f64(t, &bits, v);
  double held = hlo_elem_to_f64(t, &bits);
  return isfinite(held) && (held != 0 || v == 0);
}

// Of any operand: features may be of another precision than the activation.
static bool needs_f32(const hlo_instr *i, double eps) {
  const hlo_shape *x = hlo_operand(i, 0)->shape;
  i64 feature = hlo_attr_int(i, HLO_ATTR_FEATURE_INDEX, 0), count = 1;
  for (u32 d = 0; d < x->rank; d++)
    if (d != feature) count = hs_mul_sat_i64(count, x->dims[d]);
  for (u32 k = 0; k < i->noperands; k++) {
    hlo_dtype t = hlo_operand(i, k)->shape->dtype;
    int bits = hlo_dtype_bits(t);
    if (bits < 16 || (bits == 16 && !(holds(t, eps) && holds(t, (double)count)))) return true;
  }
  return false;
}

static bnorm bnorm_of(hlo_instr *i) {
  bnorm b = {.i = i, .feature = hlo_attr_int(i, HLO_ATTR_FEATURE_INDEX, 0)};
  const hlo_attr *eps = hlo_attr_get(i, HLO_ATTR_EPSILON);
  // a float in XLA, whatever the arrays are
  double number = eps ? (double)(float)eps->v.f : 0;
  bool wide = needs_f32(i, number);
  for (u32 k = 0; k < i->noperands && k < HS_COUNT(b.in); k++) {
    b.in[k] = hlo_operand(i, k);
    int bits = hlo_dtype_bits(b.in[k]->shape->dtype);
    if (bits < 16 || (bits == 16 && wide)) b.in[k] = hlo_build_convert(b.in[k], HLO_F32);
  }
  hlo_instr *x = b.in[0];
  b.big = x->shape;
  b.small = b.in[1]->shape;
  hlo_dtype t = b.big->dtype;
  b.eps = hlo_build_scalar_f64(i->parent, t, number);
  if (i->opcode == HLO_BATCH_NORM_INFERENCE) return b;
  b.zero = hlo_build_scalar_f64(i->parent, t, 0);
  b.count = hlo_build_scalar_i64(i->parent, HLO_S32, 1);
  for (u32 d = 0; d < b.big->rank; d++) {
    if ((i64)d == b.feature) continue;
    b.reduced[b.nreduced++] = d;
    hlo_instr *size = hlo_add(i->parent, HLO_GET_DIMENSION_SIZE, b.count->shape, 1, &x, NULL);
    hlo_set_attr_ints(size, HLO_ATTR_DIMENSIONS, 1, &(i64){d});
    b.count = binary(HLO_MULTIPLY, size, b.count);
  }
  b.count = hlo_build_convert(b.count, t);
  b.add = hlo_build_scalar_computation(i->parent->module, HLO_ADD, t);
  return b;
}

static hlo_instr *spread(const bnorm *b, hlo_instr *feature) {
  return hlo_add_broadcast(feature, b->big, 1, &b->feature);
}
static hlo_instr *fill(const hlo_shape *s, hlo_instr *scalar) {
  return hlo_add_broadcast(scalar, s, 0, NULL);
}
static hlo_instr *feature_sum(const bnorm *b, hlo_instr *x) {
  hlo_instr *r = hlo_build_reduce(x, b->zero, b->nreduced, b->reduced, b->add);
  if (r->shape->logical == b->small->logical) hlo_set_shape(r, b->small);
  return r;
}
static hlo_instr *by_count(const bnorm *b, hlo_instr *x) {
  return binary(HLO_DIVIDE, x, fill(x->shape, b->count));
}
static hlo_instr *inverse_stddev(hlo_instr *var, hlo_instr *eps) {
  return hlo_build_unary(HLO_RSQRT, binary(HLO_ADD, var, eps));
}

static hlo_instr *expand_inference(const bnorm *b) {
  hlo_instr *x = b->in[0], *offset = b->in[2], *mean = b->in[3], *var = b->in[4];
  hlo_instr *scale = binary(HLO_MULTIPLY, b->in[1], inverse_stddev(var, fill(b->small, b->eps)));
  hlo_instr *shift = binary(HLO_SUBTRACT, offset, binary(HLO_MULTIPLY, mean, scale));
  return binary(HLO_ADD, binary(HLO_MULTIPLY, x, spread(b, scale)), spread(b, shift));
}

static hlo_instr *expand_training(const bnorm *b) {
  hlo_instr *x = b->in[0], *mean = by_count(b, feature_sum(b, x)),
            *square = by_count(b, feature_sum(b, binary(HLO_MULTIPLY, x, x)));
  hlo_instr *var = binary(HLO_SUBTRACT, square, binary(HLO_MULTIPLY, mean, mean));
  hlo_instr *inv = inverse_stddev(spread(b, var), fill(b->big, b->eps));
  hlo_instr *y = binary(HLO_MULTIPLY, binary(HLO_SUBTRACT, x, spread(b, mean)), inv);
  y = binary(HLO_ADD, binary(HLO_MULTIPLY, y, spread(b, b->in[1])), spread(b, b->in[2]));
  hlo_instr *parts[] = {y, mean, var};
  return hlo_add_tuple(b->i->parent, 3, parts);
}

// d_offset = sum(g); d_scale = sum(g*(x-mean)) * inv; d_x = scale*inv/n * (n*g - d_offset -
// (x-mean) * sum(g*(x-mean)) / (var+eps))
static hlo_instr *expand_grad(const bnorm *b) {
  hlo_instr *x = b->in[0], *scale = b->in[1], *mean = b->in[2], *var = b->in[3], *g = b->in[4];
  hlo_instr *eps = fill(b->big, b->eps), *big_var = spread(b, var),
            *centered = binary(HLO_SUBTRACT, x, spread(b, mean));
  hlo_instr *sum_gc = feature_sum(b, binary(HLO_MULTIPLY, g, centered)),
            *d_offset = feature_sum(b, g);
  hlo_instr *d_scale = binary(HLO_MULTIPLY, sum_gc, inverse_stddev(var, fill(b->small, b->eps)));
  hlo_instr *slope = binary(HLO_DIVIDE, binary(HLO_MULTIPLY, spread(b, sum_gc), centered),
                            binary(HLO_ADD, big_var, eps));
  hlo_instr *factor =
      by_count(b, binary(HLO_MULTIPLY, spread(b, scale), inverse_stddev(big_var, eps)));
  hlo_instr *inner =
      binary(HLO_SUBTRACT, binary(HLO_MULTIPLY, g, fill(b->big, b->count)), spread(b, d_offset));
  hlo_instr *parts[] = {binary(HLO_MULTIPLY, factor, binary(HLO_SUBTRACT, inner, slope)), d_scale,
                        d_offset};
  return hlo_add_tuple(b->i->parent, 3, parts);
}

// The device of a maximal sharding; -1: none.
static i64 single_device(const hlo_sharding *s) {
  if (s->type != HLO_SH_TUPLE) return s->type == HLO_SH_MAXIMAL ? s->device : -1;
  i64 d = s->nchildren ? single_device(s->children[0]) : -1;
  for (u32 k = 1; k < s->nchildren; k++)
    if (single_device(s->children[k]) != d) return -1;
  return d;
}

// Shards the instructions created after `last`: arrays like the activation as the first result, the
// others on its device or replicated.
static void shard(const bnorm *b, const hlo_instr *last, const hlo_sharding *s) {
  hs_arena *a = &b->i->parent->module->arena;
  i64 device = single_device(s);
  hlo_sharding *rest = HS_NEW(a, hlo_sharding);
  *rest = (hlo_sharding){.type = device >= 0 ? HLO_SH_MAXIMAL : HLO_SH_REPLICATED,
                         .device = device >= 0 ? device : 0};
  const hlo_sharding *big = s->type == HLO_SH_TUPLE && s->nchildren ? s->children[0] : s;
  for (hlo_instr *x = last->next; x; x = x->next)
    hlo_set_attr_ptr(x, HLO_ATTR_SHARDING,
                     x->opcode == HLO_TUPLE ? s
                     : x->shape == b->big   ? big
                                            : rest);
}

// The sizes of the expansion's steps are the result's where all large arrays have their dynamic
// dimensions in common, and features are all in use.
static const char *why_not(const hlo_instr *i) {
  const hlo_shape *x = hlo_operand(i, 0)->shape;
  const i64 feature = hlo_attr_int(i, HLO_ATTR_FEATURE_INDEX, 0);
  if (pass_reads_hidden(i)) return "a size is set under a static type";
  for (u32 k = 0, n = hlo_shape_leaves(i->shape); k < i->noperands + n; k++) {
    const hlo_shape *s = k < n ? hlo_shape_leaf(i->shape, k) : hlo_operand(i, k - n)->shape;
    bool small = k < n ? k > 0 : k - n > 0 && k - n < 4;
    if (hlo_dim_is_dynamic(s, small ? 0 : (u32)feature)) return "its features have a dynamic size";
    for (u32 d = 0; !small && d < x->rank; d++)
      if (hlo_dim_is_dynamic(s, d) != hlo_dim_is_dynamic(x, d))
        return "its types have other dynamic dimensions";
  }
  return NULL;
}

static hs_status run(pass_ctx *c) {
  bool training = pass_option_bool(c, "rewrite_training_op"),
       inference = pass_option_bool(c, "rewrite_inference_op"),
       grad = pass_option_bool(c, "rewrite_grad_op");
  hlo_for_each_comp(comp, c->m) {
    if (hlo_is_fusion_comp(comp)) continue;
    hlo_for_each_instr_safe(i, comp) {
      bool mine = (i->opcode == HLO_BATCH_NORM_TRAINING && training) ||
                  (i->opcode == HLO_BATCH_NORM_INFERENCE && inference) ||
                  (i->opcode == HLO_BATCH_NORM_GRAD && grad);
      if (!mine) continue;
      const char *why = why_not(i);
      if (why) {
        pass_note_declined(c, i, NULL, "%s", why);
        continue;
      }
      if (!pass_may_rewrite(c)) return HS_GOOD;
      pass_note_done(c, i, NULL, "expanded");
      hlo_instr *last = comp->last;
      bnorm b = bnorm_of(i);
      hlo_instr *now = i->opcode == HLO_BATCH_NORM_TRAINING ? expand_training(&b)
                       : i->opcode == HLO_BATCH_NORM_GRAD   ? expand_grad(&b)
                                                            : expand_inference(&b);
      now = pass_as_stated(now, i->shape);
      if (now->shape != i->shape && now->shape->logical == i->shape->logical &&
          now->opcode == HLO_TUPLE)
        hlo_set_shape(now, with_layout_of(i, i->shape));
      const hlo_sharding *s = hlo_attr_ptr(i, HLO_ATTR_SHARDING);
      if (s) shard(&b, last, s);
      hlo_replace(i, now);
    }
  }
  return HS_GOOD;
}

static const pass_option_info options[] = {
    {"rewrite_training_op", PASS_BOOL, "true", "expand batch-norm-training"},
    {"rewrite_inference_op", PASS_BOOL, "true", "expand batch-norm-inference"},
    {"rewrite_grad_op", PASS_BOOL, "true", "expand batch-norm-grad"},
};

const pass_info pass_batchnorm_expander = {
    .name = "batchnorm_expander",
    .summary = "expands batch normalization into reductions",
    .xla_source = "xla/service/batchnorm_expander.cc",
    .run = run,
    .needs = {HLO_BATCH_NORM_TRAINING, HLO_BATCH_NORM_INFERENCE, HLO_BATCH_NORM_GRAD},
    .options = options,
    .noptions = HS_COUNT(options),
    .sample = "ENTRY e {\n"
              "  x = f32[4,3] parameter(0)\n"
              "  scale = f32[3] parameter(1)\n"
              "  offset = f32[3] parameter(2)\n"
              "  ROOT y = (f32[4,3], f32[3], f32[3]) batch-norm-training(x, scale, offset), "
              "epsilon=0.01, feature_index=1\n"
              "}\n",
};
