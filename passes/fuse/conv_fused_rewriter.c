// conv_fused_rewriter.c — cudnn-fused-convolution-rewriter
// (xla/backends/gpu/transforms/cudnn_fused_conv_rewriter.cc): calls of cuDNN that conv-rewriter
// made take in what is done to their result, as far as the library does it where it stores:
//
//   result = activation(scale * conv + side * operand 3 + operand 2)
//
// operand 2 is a bias along the output features, of zeros where there is none, operand 3 an array
// of the result's shape. The steps are taken from the convolution outwards, those that may stand on
// either side of a change of type twice (`steps`); each edits the call in place.
//
// Types: a result in f16 of operands that f16 holds is computed in f16, and one in s8 or f32 of
// operands that s8 holds in s8 (sums are of more bits in the library, as in the evaluator).
// What is held is a convert from the type, a constant that survives the round trip, or a broadcast,
// reshape or transpose of such.
//
// Kept to what has the same meaning: a sum of whole numbers is taken for exact only where it cannot
// overflow, a factor only before anything is added. XLA asks neither. Convolutions with one input
// feature a group stay as they are but for types, for the library's fused kernels are slower then.
// Not here: the graphs of f8 (__cudnn$convForwardGraph).
#include <math.h>

#include "core/types/literal.h"
#include "passes/fuse/conv_call.h"
#include "passes/fuse/fusion.h"

// A call and the element of its result that is the convolution.
typedef struct fused {
  pass_ctx *p;
  hlo_instr *call, *result;
  bool runtime, narrow;  // options
} fused;

static hlo_dtype type_of(const fused *f) { return f->result->shape->dtype; }
static bool is_float(const fused *f) { return hlo_dtype_is_float(type_of(f)); }

// ---- what a type holds --------------------------------------------------------------------------

static bool holds_number(hlo_dtype t, double v) {
  if (t == HLO_S8) return v == nearbyint(v) && v >= -128 && v <= 127;
  return hlo_f16_to_f32(hlo_f32_to_f16((float)v)) == v;
}

// Whether the value is one of type t (s8 or f16), but for a convert.
static bool is_held(const hlo_instr *i, hlo_dtype t) {
  while (i->opcode == HLO_BROADCAST || i->opcode == HLO_RESHAPE || i->opcode == HLO_TRANSPOSE)
    i = hlo_operand(i, 0);
  hlo_dtype own = i->shape->dtype;
  if (own == t) return true;
  if (!hlo_dtype_is_float(own) && !(t == HLO_S8 && hlo_dtype_is_signed(own))) return false;
  if (hlo_dtype_bits(own) < (t == HLO_S8 ? 16 : 32)) return false;
  if (i->opcode == HLO_CONVERT) return hlo_operand(i, 0)->shape->dtype == t;
  const hlo_literal *l = i->opcode == HLO_CONSTANT ? hlo_constant_value(i) : NULL;
  if (!l || l->elided) return false;
  for (i64 k = 0; k < i->shape->elements; k++)
    if (!holds_number(t, hlo_literal_f64(l, k))) return false;
  return true;
}

static bool operands_held(const fused *f, hlo_dtype t) {
  return is_held(hlo_operand(f->call, 0), t) && is_held(hlo_operand(f->call, 1), t);
}

// Whether sums of whole numbers stay below 2^31: each product is at most 2^14.
static bool is_exact(const fused *f) {
  const hlo_dim_labels *l = hlo_attr_ptr(f->call, HLO_ATTR_DIM_LABELS);
  const hlo_shape *filter = hlo_operand(f->call, 1)->shape;
  return operands_held(f, HLO_S8) &&
         filter->elements / HS_MAX(filter->dims[l->rhs_output_feature], 1) < 1 << 17;
}

static void convert_operand(fused *f, u32 k, hlo_dtype t) {
  hlo_instr *x = hlo_operand(f->call, k);
  if (x->shape->dtype != t) hlo_set_operand(f->call, k, hlo_build_convert(x, t));
}

// ---- editing the call ---------------------------------------------------------------------------

// The result's one user, which the call is to take in; NULL: there is none, or not only that.
static hlo_instr *only_user(const fused *f) {
  const hlo_instr *r = f->result;
  if (r->nuses != 1 || hlo_is_root(r) || f->call->nuses != 1) return NULL;
  hlo_instr *user = r->first_use->user;
  return hlo_is_controlled(user) ? NULL : user;
}

static bool is_depthwise(const hlo_instr *call) {
  const hlo_dim_labels *l = hlo_attr_ptr(call, HLO_ATTR_DIM_LABELS);
  i64 groups = hlo_attr_int(call, HLO_ATTR_FEATURE_GROUP_COUNT, 1);
  return groups > 1 && hlo_operand(call, 0)->shape->dims[l->lhs_feature] == groups;
}

// Makes the call one with a bias, of zeros; that of a convolution of whole numbers is f32.
static void add_bias(fused *f) {
  hlo_instr *call = f->call, *ops[3] = {hlo_operand(call, 0), hlo_operand(call, 1)};
  if (call->noperands > 2) return;
  const hlo_dim_labels *l = hlo_attr_ptr(call, HLO_ATTR_DIM_LABELS);
  i64 n = f->result->shape->dims[l->out_feature];
  ops[2] = hlo_build_broadcast(
      hlo_build_scalar_f64(call->parent, is_float(f) ? type_of(f) : HLO_F32, 0), 1, &n, NULL);
  hlo_set_operands(call, 3, ops);
  hlo_set_attr_str(call, HLO_ATTR_CUSTOM_CALL_TARGET, hs_str_of(pass_conv_target(CONV_FUSED)));
  hlo_set_name(call, pass_conv_name(CONV_FUSED));
}

// The call computes `user`, of type t.
static bool take(fused *f, hlo_instr *user, hlo_dtype t) {
  hlo_ctx *ctx = f->p->m->ctx;
  const hlo_shape *old = f->call->shape,
                  *parts[2] = {hlo_shape_with_dtype(ctx, old->elems[0], t), old->elems[1]};
  if (parts[0] != old->elems[0]) {
    hlo_set_shape(f->call, hlo_shape_tuple(ctx, 2, parts));
    hlo_set_shape(f->result, parts[0]);
  }
  pass_note_done(f->p, f->call, user, "takes in %s", hlo_op_text(user->opcode));
  if (user != f->result) hlo_replace(user, f->result);
  return true;
}

// The other operand of a commutative user.
static hlo_instr *other_operand(const fused *f, const hlo_instr *user) {
  return hlo_operand(user, hlo_operand(user, 0) == f->result);
}

static bool is_splat(const hlo_instr *i, double *v) {
  const hlo_instr *c = i->opcode == HLO_BROADCAST ? hlo_operand(i, 0) : i;
  const hlo_literal *l = c->opcode == HLO_CONSTANT ? hlo_constant_value(c) : NULL;
  if (i == c || !l || l->elided || c->shape->elements != 1) return false;
  *v = hlo_literal_f64(l, 0);
  return isfinite(*v);
}
static bool is_splat_of(const hlo_instr *i, double v) {
  double x;
  return is_splat(i, &x) && x == v;
}

// ---- the steps ----------------------------------------------------------------------------------

// A convert of the result: of whole sums to f32; with `narrow_results` from s8, and to s8.
static bool take_convert(fused *f) {
  hlo_instr *user = only_user(f);
  if (!user || user->opcode != HLO_CONVERT) return false;
  hlo_dtype from = type_of(f), to = user->shape->dtype;
  bool exact = from == HLO_S32 && to == HLO_F32 && is_exact(f),
       narrow = (from == HLO_S8 && to == HLO_F32) || (from == HLO_F32 && to == HLO_S8);
  return (exact || (narrow && f->narrow)) && pass_may_rewrite(f->p) && take(f, user, to);
}

static bool take_factor(fused *f) {
  hlo_instr *user = only_user(f);
  conv_config c = pass_conv_config(f->call);
  if (!user || user->opcode != HLO_MULTIPLY || !is_float(f) || c.scale != 1 ||
      f->call->noperands > 2 || !is_splat(other_operand(f, user), &c.scale) ||
      is_depthwise(f->call) || !pass_may_rewrite(f->p))
    return false;
  add_bias(f);
  pass_conv_set_config(f->call, &c);
  return take(f, user, type_of(f));
}

// Whether an array is the same for all but the features, and there is no bias yet.
static bool may_be_bias(const fused *f, const hlo_instr *x) {
  const hlo_dim_labels *l = hlo_attr_ptr(f->call, HLO_ATTR_DIM_LABELS);
  hlo_ints to = hlo_attr_ints(x, HLO_ATTR_DIMENSIONS);
  return x->opcode == HLO_BROADCAST && to.n <= 1 && (to.n == 0 || to.v[0] == l->out_feature) &&
         (f->call->noperands == 2 || is_splat_of(hlo_operand(f->call, 2), 0));
}

static bool take_addend(fused *f) {
  hlo_instr *user = only_user(f), *ops[4];
  const hlo_dim_labels *l = hlo_attr_ptr(f->call, HLO_ATTR_DIM_LABELS);
  conv_config c = pass_conv_config(f->call);
  if (!user || user->opcode != HLO_ADD || !is_float(f) || !c.activation ||
      strcmp(c.activation, "kNone") != 0 || is_depthwise(f->call))
    return false;
  hlo_instr *x = other_operand(f, user);
  bool bias = may_be_bias(f, x);
  if ((!bias && f->call->noperands > 3) || !pass_may_rewrite(f->p)) return false;
  add_bias(f);
  u32 n = f->call->noperands;
  for (u32 k = 0; k < n; k++) ops[k] = hlo_operand(f->call, k);
  if (!bias) ops[n++] = x, c.side = 1;
  else if (hlo_attr_ints(x, HLO_ATTR_DIMENSIONS).n) ops[2] = hlo_operand(x, 0);
  else
    ops[2] =
        hlo_build_broadcast(hlo_operand(x, 0), 1, &f->result->shape->dims[l->out_feature], NULL);
  hlo_set_operands(f->call, n, ops);
  pass_conv_set_config(f->call, &c);
  return take(f, user, type_of(f));
}

// operand 3 = a constant times an array, perhaps reshaped or transposed.
static bool take_side_factor(fused *f) {
  enum { MOST = 8 };
  hlo_instr *moves[MOST], *x;
  u32 n = 0;
  conv_config c = pass_conv_config(f->call);
  if (f->call->noperands < 4 || c.side != 1 || !is_float(f)) return false;
  for (x = hlo_operand(f->call, 3); x->opcode == HLO_RESHAPE || x->opcode == HLO_TRANSPOSE;
       x = hlo_operand(x, 0)) {
    if (n == MOST) return false;
    moves[n++] = x;
  }
  if (x->opcode != HLO_MULTIPLY) return false;
  u32 k = is_splat(hlo_operand(x, 0), &c.side) ? 1 : 0;
  if ((k == 0 && !is_splat(hlo_operand(x, 1), &c.side)) || !pass_may_rewrite(f->p)) return false;
  pass_note_done(f->p, f->call, x, "takes in a factor of its side input");
  x = hlo_operand(x, k);
  while (n-- > 0) x = hlo_clone_instr(f->call->parent, moves[n], NULL, 1, &x);
  hlo_set_operand(f->call, 3, x);
  pass_conv_set_config(f->call, &c);
  return true;
}

// ---- activations --------------------------------------------------------------------------------

static bool take_activation(fused *f, hlo_instr *user, const char *name, double leaky) {
  conv_config c = pass_conv_config(f->call);
  if (!c.activation || strcmp(c.activation, "kNone") != 0 || is_depthwise(f->call) ||
      hlo_is_controlled(user) || !pass_may_rewrite(f->p))
    return false;
  add_bias(f);
  c.activation = name, c.leaky = leaky;
  pass_conv_set_config(f->call, &c);
  return take(f, user, type_of(f));
}

static bool take_relu(fused *f) {
  hlo_instr *user = only_user(f);
  return user && user->opcode == HLO_MAXIMUM && is_splat_of(other_operand(f, user), 0) &&
         (is_float(f) || type_of(f) == HLO_S8 || is_exact(f)) &&
         take_activation(f, user, "kRelu", 0);
}

// Whether the library compiles a kernel for it: f16, whose features come in pairs, without a side
// input.
static bool is_compiled(const fused *f) {
  const hlo_dim_labels *l = hlo_attr_ptr(f->call, HLO_ATTR_DIM_LABELS);
  const hlo_instr *filter = hlo_operand(f->call, 1);
  return f->runtime && f->call->noperands <= 3 && f->call->nuses == 1 && type_of(f) == HLO_F16 &&
         hlo_operand(f->call, 0)->shape->dtype == HLO_F16 &&
         filter->shape->dims[l->rhs_input_feature] % 2 == 0 &&
         filter->shape->dims[l->rhs_output_feature] % 2 == 0;
}

static bool take_relu6(fused *f) {
  hlo_instr *user = is_compiled(f) ? only_user(f) : NULL;
  return user && user->opcode == HLO_CLAMP && hlo_operand(user, 1) == f->result &&
         is_splat_of(hlo_operand(user, 0), 0) && is_splat_of(hlo_operand(user, 2), 6) &&
         take_activation(f, user, "kRelu6", 0);
}

// select(result > 0, result, other): the select that is made of all three uses of the result, where
// `other` is of that operation; NULL: there is none.
static hlo_instr *positive_or(const fused *f, hlo_opcode op) {
  const hlo_instr *r = f->result;
  hlo_instr *select = NULL;
  if (!is_compiled(f) || r->nuses != 3 || hlo_is_root(r)) return NULL;
  hlo_for_each_use(u, r)
    if (u->user->opcode == HLO_SELECT) select = u->user;
  if (!select || hlo_operand(select, 1) != r) return NULL;
  const hlo_instr *test = hlo_operand(select, 0), *other = hlo_operand(select, 2);
  return test->opcode == HLO_COMPARE && other->opcode == op && test->nuses == 1 &&
                 other->nuses == 1 && hlo_operand(test, 0) == r && hlo_operand(other, 0) == r &&
                 is_splat_of(hlo_operand(test, 1), 0) &&
                 hlo_attr_int(test, HLO_ATTR_DIRECTION, -1) == HLO_DIRECTION_GT
             ? select
             : NULL;
}

static bool take_elu(fused *f) {
  hlo_instr *user = positive_or(f, HLO_EXPM1);
  return user && take_activation(f, user, "kElu", 0);
}

static bool take_leaky_relu(fused *f) {
  double slope;
  hlo_instr *user = positive_or(f, HLO_MULTIPLY);
  return user && is_splat(hlo_operand(hlo_operand(user, 2), 1), &slope) &&
         take_activation(f, user, "kLeakyRelu", slope);
}

// ---- types --------------------------------------------------------------------------------------

static bool take_f16(fused *f) {
  hlo_instr *user = only_user(f);
  if (!user || user->opcode != HLO_CONVERT || user->shape->dtype != HLO_F16) return false;
  for (u32 k = 0; k < f->call->noperands; k++) {
    const hlo_instr *x = hlo_operand(f->call, k);
    if (x->shape->dtype != HLO_F32 || !is_held(x, HLO_F16)) return false;
  }
  if (!pass_may_rewrite(f->p)) return false;
  for (u32 k = 0; k < f->call->noperands; k++) convert_operand(f, k, HLO_F16);
  return take(f, user, HLO_F16);
}

// What makes s8 of the result: a convert, behind a clamp to the type unless the result is f32.
static hlo_instr *as_s8(const fused *f) {
  hlo_instr *user = only_user(f);
  bool clamped = user && user->opcode == HLO_CLAMP && hlo_operand(user, 1) == f->result &&
                 is_splat_of(hlo_operand(user, 0), -128) && is_splat_of(hlo_operand(user, 2), 127);
  if (clamped) user = user->nuses == 1 && !hlo_is_root(user) ? user->first_use->user : NULL;
  return user && user->opcode == HLO_CONVERT && user->shape->dtype == HLO_S8 &&
                 !hlo_is_controlled(user) &&
                 (type_of(f) == HLO_F32 || (clamped && type_of(f) == HLO_S32 && is_exact(f)))
             ? user
             : NULL;
}

static bool take_s8(fused *f) {
  hlo_instr *user = as_s8(f);
  const hlo_instr *side = f->call->noperands > 3 ? hlo_operand(f->call, 3) : NULL;
  if (!operands_held(f, HLO_S8)) return false;
  if (user && side && !is_held(side, HLO_S8)) user = NULL;
  if (!user && (type_of(f) != HLO_F32 || (side && side->shape->dtype != HLO_F32) ||
                (hlo_operand(f->call, 0)->shape->dtype == HLO_S8 &&
                 hlo_operand(f->call, 1)->shape->dtype == HLO_S8)))
    return false;
  if (!pass_may_rewrite(f->p)) return false;
  for (u32 k = 0; k < 2; k++) convert_operand(f, k, HLO_S8);
  if (user && side) convert_operand(f, 3, HLO_S8);
  return take(f, user ? user : f->result, user ? HLO_S8 : HLO_F32);
}

// ---- the pass -----------------------------------------------------------------------------------

static bool (*const steps[])(fused *) = {
    take_convert, take_factor,      take_addend,     take_addend, take_side_factor, take_relu,
    take_elu,     take_relu6,       take_leaky_relu, take_f16,    take_s8,          take_addend,
    take_addend,  take_side_factor, take_relu,       take_elu,    take_relu6,       take_leaky_relu,
};

// Whether the library has the call's types: of whole numbers it knows s8.
static bool has_types(const hlo_instr *call) {
  const hlo_shape *s[4] = {call->shape->elems[0]};
  u32 n = 1;
  for (u32 k = 0; k < call->noperands && n < 4; k++)
    if (k != 2) s[n++] = hlo_operand(call, k)->shape;
  for (u32 k = 0; k < n; k++)
    if (hlo_dtype_is_integer(s[k]->dtype) && s[k]->dtype != HLO_S8) return false;
  return true;
}

// The convolution among the results; NULL: the call is none that this pass knows.
static hlo_instr *result_of(const hlo_instr *call) {
  conv_kind kind = pass_conv_kind(call);
  if ((kind != CONV_FORWARD && kind != CONV_FUSED) || hlo_is_controlled(call) ||
      call->noperands < 2 || call->noperands > 4 ||
      (kind == CONV_FORWARD) != (call->noperands == 2) || !hlo_shape_is_tuple(call->shape) ||
      call->shape->nelems != 2 || !pass_conv_is_sound(call, call->shape->elems[0]))
    return NULL;
  hlo_for_each_use(u, call)
    if (u->user->opcode == HLO_GET_TUPLE_ELEMENT && hlo_attr_int(u->user, HLO_ATTR_INDEX, 0) == 0)
      return u->user;
  return NULL;
}

static hs_status visit(pass_ctx *p, hlo_computation *c) {
  fused f = {.p = p,
             .runtime = pass_option_bool(p, "runtime_fusion"),
             .narrow = pass_option_bool(p, "narrow_results")};
  bool strict = pass_option_bool(p, "reject_types");
  hlo_instr **order = hlo_post_order(c, p->scratch);
  for (u32 k = 0, n = c->ninstrs; k < n; k++) {
    if (order[k]->dead || order[k]->opcode != HLO_CUSTOM_CALL) continue;
    f.call = order[k], f.result = result_of(f.call);
    if (!f.result) continue;
    HS_TRY(hs_poll());
    for (u32 s = 0; s < HS_COUNT(steps); s++) steps[s](&f);
    if (has_types(f.call)) continue;
    if (strict)
      return hs_fail(HS_E_PASS, "%s: the library computes whole numbers from s8 to s8 or f32",
                     f.call->name);
    pass_note_declined(p, f.call, NULL, "the library does not have its types");
  }
  return HS_GOOD;
}

static hs_status run(pass_ctx *p) { return pass_fusion_each(p, visit); }

static const pass_option_info options[] = {
    {"runtime_fusion", PASS_BOOL, "false",
     "elu, relu6 and leaky relu of f16 too, for which the library compiles kernels"},
    {"narrow_results", PASS_BOOL, "false",
     "take in converts from and to s8 that a saturated sum makes different, as XLA does"},
    {"reject_types", PASS_BOOL, "false", "a type that the library does not have is an error"},
};

const pass_info pass_conv_fused_rewriter = {
    .name = "cudnn-fused-convolution-rewriter",
    .summary = "has calls of cuDNN take in a factor, a bias, a sum, an activation and converts",
    .xla_source = "xla/backends/gpu/transforms/cudnn_fused_conv_rewriter.cc",
    .run = run,
    .needs = {HLO_CUSTOM_CALL},
    .again = true,  // a step outside of the order of `steps`
    .options = options,
    .noptions = HS_COUNT(options),
    .sample = "ENTRY e {\n"
              "  x = f32[2,8,8,3] parameter(0)\n"
              "  w = f32[3,3,3,4] parameter(1)\n"
              "  b = f32[4] parameter(2)\n"
              "  c = (f32[2,8,8,4], u8[0]) custom-call(x, w), window={size=3x3 pad=1_1x1_1},\n"
              "    dim_labels=b01f_01io->b01f, custom_call_target=\"__cudnn$convForward\"\n"
              "  y = f32[2,8,8,4] get-tuple-element(c), index=0\n"
              "  bs = f32[2,8,8,4] broadcast(b), dimensions={3}\n"
              "  s = f32[2,8,8,4] add(y, bs)\n"
              "  zero = f32[] constant(0)\n"
              "  zeros = f32[2,8,8,4] broadcast(zero), dimensions={}\n"
              "  ROOT r = f32[2,8,8,4] maximum(s, zeros)\n"
              "}\n",
};
