// library.c — custom calls of optimized modules into cuBLAS, cuDNN and oneDNN.
//
// A call is its product, convolution or norm, computed in f64, and then what is fused to it:
// scales, bias, activation, further operands, in the order that XLA's definitions of the calls give
// (xla/service/gpu/backend_configs.proto, xla/service/cpu/onednn_config.proto). Literals are
// logical, so layouts do not matter; scratch space in results stays zero.
#include <math.h>
#include "core/ir/config.h"
#include "core/eval/library.h"

static const hlo_shape *result_of(const hlo_instr *i) {
  return hlo_shape_is_tuple(i->shape) && i->shape->nelems ? i->shape->elems[0] : i->shape;
}

// ---- what is fused to a product -----------------------------------------------------------------
typedef double (*act_fn)(double, double alpha);
static double act_none(double x, double a) {
  (void)a;
  return x;
}
static double act_relu(double x, double a) {
  (void)a;
  return x > 0 || x != x ? x : 0;
}
static double act_relu6(double x, double a) {
  (void)a;
  return x != x ? x : fmin(fmax(x, 0), 6);
}
static double act_elu(double x, double a) {
  (void)a;
  return x > 0 ? x : expm1(x);
}
static double act_leaky(double x, double a) { return x > 0 ? x : a * x; }
static double act_tanh(double x, double a) {
  (void)a;
  return tanh(x);
}
static double act_sigmoid(double x, double a) {
  (void)a;
  return 1 / (1 + exp(-x));
}
static double act_silu(double x, double a) {
  (void)a;
  return x / (1 + exp(-x));
}
static double act_gelu_erf(double x, double a) {
  (void)a;
  return 0.5 * x * (1 + erf(x * M_SQRT1_2));
}
static double act_gelu_tanh(double x, double a) {
  (void)a;
  // 1 + tanh(z) = 2 / (1 + exp(-2z)), which does not cancel
  return x / (1 + exp(-2 * 0.7978845608028654 * (x + 0.044715 * x * x * x)));
}
static double act_linear(double x, double a) { return a * x; }

typedef struct named_act {
  const char *name;
  act_fn fn;
} named_act;
static act_fn find_act(const named_act *t, size_t n, hs_str name) {
  for (size_t k = 0; k < n; k++)
    if (hs_str_eq(name, hs_str_of(t[k].name))) return t[k].fn;
  return NULL;
}

// Element `at` of the result, in row-major order, of an operand that is broadcast from the last
// dimension on.
typedef struct spread {
  const hlo_literal *l;
  i64 stride[HLO_MAX_RANK];
  bool whole;
} spread;
static bool spread_init(const hlo_literal *l, const hlo_shape *to, spread *s) {
  i64 own[HLO_MAX_RANK];
  const hlo_shape *f = l->shape;
  *s = (spread){.l = l, .whole = f->elements == to->elements};
  if (!hlo_shape_is_array(f)) return false;
  if (s->whole) return true;
  if (f->rank > to->rank) return false;
  hlo_row_major_strides(f->rank, f->dims, own);
  for (u32 d = 0; d < f->rank; d++) {
    u32 t = to->rank - f->rank + d;
    if (f->dims[d] != 1 && f->dims[d] != to->dims[t]) return false;
    s->stride[t] = f->dims[d] == 1 ? 0 : own[d];
  }
  return true;
}
static double spread_at(const spread *s, i64 at, u32 rank, const i64 *index) {
  if (s->whole) return hlo_literal_f64(s->l, at);
  i64 o = 0;
  for (u32 d = 0; d < rank; d++) o += index[d] * s->stride[d];
  return hlo_literal_f64(s->l, o);
}

// v += factor * l, broadcast.
static hs_status add_operand(const hlo_instr *i, const hlo_shape *to, double *v, double factor,
                             const hlo_literal *l) {
  spread s;
  i64 index[HLO_MAX_RANK] = {0};
  if (!spread_init(l, to, &s))
    return ev_unsupported(i, "with an operand that does not fit the result");
  for (i64 k = 0; k < to->elements; k++, ev_next(to->rank, to->dims, index))
    v[k] += factor * spread_at(&s, k, to->rank, index);
  return HS_GOOD;
}

static void apply_act(double *v, i64 n, act_fn f, double alpha) {
  if (f != act_none)
    for (i64 k = 0; k < n; k++) v[k] = f(v[k], alpha);
}

// To the result's type; 8-bit floats saturate, as the libraries have it.
static hs_status store(ev *e, const hlo_shape *to, double *v, hlo_literal **out) {
  HS_TRY(ev_new(e, to, out));
  if (hlo_dtype_is_float(to->dtype) && hlo_dtype_bits(to->dtype) == 8) {
    double max = to->dtype == HLO_F8E4M3FN     ? 448
                 : to->dtype == HLO_F8E5M2     ? 57344
                 : to->dtype == HLO_F8E4M3FNUZ ? 240
                 : to->dtype == HLO_F8E5M2FNUZ ? 57344
                                               : INFINITY;
    for (i64 k = 0; k < to->elements; k++) v[k] = v[k] > max ? max : v[k] < -max ? -max : v[k];
  }
  ev_convert(HLO_F64, v, to->dtype, (*out)->data, to->elements);
  return HS_GOOD;
}

// Whether operands from..from+n-1 are there and hold one number each, as scales do.
static bool are_numbers(const hlo_instr *i, u32 from, u32 n) {
  for (u32 k = from; k < from + n; k++)
    if (k >= i->noperands || hlo_operand(i, k)->shape->elements != 1) return false;
  return true;
}
// The array beside the first that a result asks for, of so many elements; NULL: there is none.
static const hlo_shape *further_result(const hlo_instr *i, u32 k, i64 elements) {
  const hlo_shape *s = i->shape;
  bool fits = hlo_shape_is_tuple(s) && k < s->nelems && s->elems[k]->elements == elements;
  return fits ? s->elems[k] : NULL;
}

// ---- cuBLAS -------------------------------------------------------------------------------------
typedef struct epilogue {
  const char *name;
  bool bias, aux;
  act_fn act;
} epilogue;
static const epilogue epilogues[] = {
    {"DEFAULT", false, false, act_none},       {"BIAS", true, false, act_none},
    {"RELU", false, false, act_relu},          {"BIAS_RELU", true, false, act_relu},
    {"GELU", false, false, act_gelu_tanh},     {"GELU_AUX", false, true, act_gelu_tanh},
    {"BIAS_GELU", true, false, act_gelu_tanh}, {"BIAS_GELU_AUX", true, true, act_gelu_tanh},
    {"SILU", false, false, act_silu},          {"BIAS_SILU", true, false, act_silu},
};

// Complex products know no epilogue.
static hs_status complex_gemm(ev *e, const hlo_instr *i, const ev_dims *d, hlo_literal **ops,
                              double beta, hlo_literal **out) {
  const hlo_shape *to = result_of(i), *wide = ev_typed(e, to, HLO_C128);
  double ar = hlo_config_number(i, NULL, "alpha_real", 1),
         ai = hlo_config_number(i, NULL, "alpha_imag", 0);
  hlo_literal *sum, *c = NULL, *r = NULL;
  HS_TRY(ev_dot(e, d, ops, wide, &sum));
  hs_status st = beta != 0 ? ev_new(e, wide, &c) : HS_GOOD;
  if (c) ev_convert(ops[2]->shape->dtype, ops[2]->data, HLO_C128, c->data, to->elements);
  double *v = sum->data;
  for (i64 k = 0; k < to->elements && hs_ok(st); k++) {
    double re = v[2 * k], im = v[2 * k + 1];
    v[2 * k] = ar * re - ai * im + (c ? beta * ((double *)c->data)[2 * k] : 0);
    v[2 * k + 1] = ar * im + ai * re + (c ? beta * ((double *)c->data)[2 * k + 1] : 0);
  }
  if (hs_ok(st)) st = ev_new(e, to, &r);
  if (r) ev_convert(HLO_C128, v, to->dtype, r->data, to->elements);
  hlo_literal_unref(sum);
  hlo_literal_unref(c);
  return hs_ok(st) ? ev_pack_results(i, 1, &r, out) : st;
}

// The dimensions of the product by the config, whose lists go to `v`; without one, of two matrices.
static ev_dims gemm_dims(const hlo_instr *i, i64 v[4][8]) {
  hs_str numbers;
  ev_dims d = {{hlo_config_list(i, NULL, "lhs_batch_dimensions", v[0], 8), v[0]},
               {hlo_config_list(i, NULL, "rhs_batch_dimensions", v[1], 8), v[1]},
               {hlo_config_list(i, NULL, "lhs_contracting_dimensions", v[2], 8), v[2]},
               {hlo_config_list(i, NULL, "rhs_contracting_dimensions", v[3], 8), v[3]}};
  const hlo_shape *a = hlo_operand(i, 0)->shape, *b = hlo_operand(i, 1)->shape;
  if (!hlo_config_find(i, NULL, "dot_dimension_numbers", &numbers) && a->rank >= 2) {
    v[2][0] = a->rank - 1, v[3][0] = b->rank - 2;
    d.lhs_contracting.n = d.rhs_contracting.n = 1;
  }
  return d;
}

// Takes the dimensions of a list, each once; false where one is not there or taken.
static bool take_dims(hlo_ints l, u32 rank, bool *taken) {
  for (u32 k = 0; k < l.n; k++) {
    if (l.v[k] < 0 || l.v[k] >= rank || taken[l.v[k]]) return false;
    taken[l.v[k]] = true;
  }
  return true;
}

// Whether a dimension of `a` is as long as its partner of `b`, for all of two lists.
static bool same_extents(hlo_ints l, const hlo_shape *a, hlo_ints r, const hlo_shape *b) {
  for (u32 k = 0; k < l.n; k++)
    if (a->dims[l.v[k]] != b->dims[r.v[k]]) return false;
  return true;
}

// Whether two arrays have a product with these dimensions, and its elements.
static bool has_product(const ev_dims *d, const hlo_shape *a, const hlo_shape *b, i64 *elements) {
  bool in_a[HLO_MAX_RANK] = {false}, in_b[HLO_MAX_RANK] = {false};
  if (d->lhs_batch.n != d->rhs_batch.n || d->lhs_contracting.n != d->rhs_contracting.n ||
      !take_dims(d->lhs_contracting, a->rank, in_a) || !take_dims(d->rhs_batch, b->rank, in_b) ||
      !take_dims(d->rhs_contracting, b->rank, in_b))
    return false;
  *elements = 1;
  for (u32 k = 0; k < a->rank; k++) *elements *= in_a[k] ? 1 : a->dims[k];
  for (u32 k = 0; k < b->rank; k++) *elements *= in_b[k] ? 1 : b->dims[k];
  return take_dims(d->lhs_batch, a->rank, in_a) &&
         same_extents(d->lhs_contracting, a, d->rhs_contracting, b) &&
         same_extents(d->lhs_batch, a, d->rhs_batch, b);
}

// What a call asks for beside the product: numbers of operands, and further results.
typedef struct gemm_extras {
  const epilogue *ep;
  double beta;
  u32 bias, scales, result_scale;  // the last two 0: none
  const hlo_shape *aux, *damax;    // before the activation; the largest magnitude. NULL: none
} gemm_extras;

static hs_status gemm_read_extras(const hlo_instr *i, i64 elements, gemm_extras *x) {
  hs_str target = hlo_attr_str(i, HLO_ATTR_CUSTOM_CALL_TARGET), name = HS_STR("DEFAULT");
  bool f8 = target.n > 3 && memcmp(target.p + target.n - 3, "$f8", 3) == 0;
  *x = (gemm_extras){.beta = hlo_config_number(i, NULL, "beta", 0)};
  if (x->beta != 0 && (i->noperands < 3 || hlo_operand(i, 2)->shape->elements != elements))
    return ev_unsupported(i, "without a matrix to add to");
  hlo_config_find(i, NULL, "epilogue", &name);
  for (size_t k = 0; k < HS_COUNT(epilogues); k++)
    if (hs_str_eq(name, hs_str_of(epilogues[k].name))) x->ep = &epilogues[k];
  u32 next = x->beta != 0 ? 3 : 2;
  if (f8) x->scales = next, next += 2;
  x->bias = next;
  u32 need = next + (x->ep && x->ep->bias);
  if (!x->ep || i->noperands < need) return ev_unsupported(i, "with this epilogue");
  bool more = hlo_shape_is_tuple(i->shape) && i->shape->nelems > 1,
       largest = hlo_config_number(i, NULL, "damax_output", 0) != 0;
  x->aux = x->ep->aux && more ? further_result(i, 1, elements) : NULL;
  x->damax = largest ? further_result(i, 1 + (x->aux != NULL), 1) : NULL;
  if (more && ((x->ep->aux && !x->aux) || (largest && !x->damax)))
    return ev_unsupported(i, "with these results");
  if (f8 && i->noperands > need && hlo_dtype_bits(result_of(i)->dtype) == 8)
    x->result_scale = i->noperands - 1;
  if ((f8 && !are_numbers(i, x->scales, 2)) ||
      (x->result_scale && !are_numbers(i, x->result_scale, 1)))
    return ev_unsupported(i, "with these scales");
  return HS_GOOD;
}

// Operands: a, b, [c when beta is not 0], [scales of a and b, for 8-bit floats], [bias], [scale of
// the result, last]. D = scale * act(alpha * a b + beta * c + bias).
hs_status ev_custom_gemm(ev *e, const hlo_instr *i, hlo_literal **ops, hlo_literal **out) {
  const hlo_shape *to = result_of(i);
  i64 lists[4][8], elements;
  gemm_extras x;
  if (i->noperands < 2 || !hlo_shape_is_array(to)) return ev_unsupported(i, "with these operands");
  ev_dims d = gemm_dims(i, lists);
  if (!has_product(&d, ops[0]->shape, ops[1]->shape, &elements))
    return ev_unsupported(i, "with these dimension numbers");
  if (elements != to->elements) return ev_unsupported(i, "with this result");
  HS_TRY(gemm_read_extras(i, elements, &x));
  if (hlo_dtype_is_complex(to->dtype)) return complex_gemm(e, i, &d, ops, x.beta, out);
  double alpha = hlo_config_number(i, NULL, "alpha_real", 1);
  if (x.scales) alpha *= hlo_literal_f64(ops[x.scales], 0) * hlo_literal_f64(ops[x.scales + 1], 0);
  hlo_literal *sum, *r[3] = {NULL, NULL, NULL};
  u32 nr = 1;
  HS_TRY(ev_dot(e, &d, ops, ev_typed(e, to, HLO_F64), &sum));
  double *p = sum->data;
  for (i64 k = 0; k < elements && alpha != 1; k++) p[k] *= alpha;
  hs_status st = x.beta != 0 ? add_operand(i, to, p, x.beta, ops[2]) : HS_GOOD;
  if (hs_ok(st) && x.ep->bias) st = add_operand(i, to, p, 1, ops[x.bias]);
  if (hs_ok(st) && x.aux) st = store(e, x.aux, p, &r[nr++]);
  if (hs_ok(st)) apply_act(p, elements, x.ep->act, 0);
  if (hs_ok(st) && x.damax) {
    double amax = 0;
    for (i64 k = 0; k < elements; k++) amax = fmax(amax, fabs(p[k]));
    st = store(e, x.damax, &amax, &r[nr++]);
  }
  double scale = x.result_scale ? hlo_literal_f64(ops[x.result_scale], 0) : 1;
  for (i64 k = 0; k < elements && scale != 1; k++) p[k] *= scale;
  if (hs_ok(st)) st = store(e, to, p, &r[0]);
  hlo_literal_unref(sum);
  if (hs_ok(st)) return ev_pack_results(i, nr, r, out);
  for (u32 k = 0; k < nr; k++) hlo_literal_unref(r[k]);
  return st;
}

// (lhs, rhs, scale of lhs, scale of rhs, [one scale for all]); both contract their last dimension,
// leading ones are batches.
hs_status ev_custom_block_scaled_dot(ev *e, const hlo_instr *i, hlo_literal **ops,
                                     hlo_literal **out) {
  const hlo_shape *to = result_of(i);
  if (i->noperands < 4 || i->noperands > 5 || !hlo_shape_is_array(to) ||
      ops[0]->shape->rank != ops[1]->shape->rank || ops[0]->shape->rank < 2 ||
      ops[0]->shape->rank > 8)
    return ev_unsupported(i, "with these operands");
  u32 rank = ops[0]->shape->rank, nb = rank - 2;
  i64 batch[8], last[1] = {rank - 1},
                elements = ops[0]->shape->dims[rank - 2] * ops[1]->shape->dims[rank - 2];
  for (u32 d = 0; d < nb; d++) batch[d] = d, elements *= ops[0]->shape->dims[d];
  bool fits = elements == to->elements && (i->noperands < 5 || are_numbers(i, 4, 1));
  for (u32 d = 0; d < rank; d++)
    fits &= d == nb || ops[0]->shape->dims[d] == ops[1]->shape->dims[d];
  if (!fits) return ev_unsupported(i, "with these operands");
  hlo_literal *pair[2] = {ops[0], ops[1]}, *sum = NULL, *r = NULL;
  ops[0] = ops[1] = NULL;
  hs_status st = ev_apply_scale(e, &pair[0], ops[2]);
  if (hs_ok(st)) st = ev_apply_scale(e, &pair[1], ops[3]);
  ev_dims d = {{nb, batch}, {nb, batch}, {1, last}, {1, last}};
  if (hs_ok(st)) st = ev_dot(e, &d, pair, ev_typed(e, to, HLO_F64), &sum);
  if (hs_ok(st) && i->noperands == 5)
    for (i64 k = 0; k < elements; k++) ((double *)sum->data)[k] *= hlo_literal_f64(ops[4], 0);
  if (hs_ok(st)) st = store(e, to, sum->data, &r);
  hlo_literal_unref(pair[0]);
  hlo_literal_unref(pair[1]);
  hlo_literal_unref(sum);
  return hs_ok(st) ? ev_pack_results(i, 1, &r, out) : st;
}

// ---- cuDNN --------------------------------------------------------------------------------------
static const named_act cudnn_acts[] = {
    {"kNone", act_none},       {"kRelu", act_relu}, {"kRelu6", act_relu6},    {"kElu", act_elu},
    {"kLeakyRelu", act_leaky}, {"kTanh", act_tanh}, {"kSigmoid", act_sigmoid}};

// Before they had names, configurations numbered them, as cuDNN's own enumeration in XLA does.
static act_fn cudnn_act(hs_str mode) {
  static const char *const numbered[] = {"kNone", "kSigmoid",  "kRelu", "kRelu6",    "kReluX",
                                         "kTanh", "kBandPass", "kElu",  "kLeakyRelu"};
  size_t k = mode.n == 1 ? (size_t)(*mode.p - '0') : HS_COUNT(numbered);
  return find_act(cudnn_acts, HS_COUNT(cudnn_acts),
                  k < HS_COUNT(numbered) ? hs_str_of(numbered[k]) : mode);
}

// (input, kernel, [bias per feature], [side input]): act(conv_result_scale * conv +
// side_input_scale * side + bias).
hs_status ev_custom_conv_forward(ev *e, const hlo_instr *i, hlo_literal **ops, hlo_literal **out) {
  const hlo_shape *to = result_of(i);
  ev_conv c = {hlo_attr_ptr(i, HLO_ATTR_DIM_LABELS), hlo_attr_ptr(i, HLO_ATTR_WINDOW),
               hlo_attr_int(i, HLO_ATTR_FEATURE_GROUP_COUNT, 1),
               hlo_attr_int(i, HLO_ATTR_BATCH_GROUP_COUNT, 1)};
  double scale = hlo_config_number(i, NULL, "conv_result_scale", 1),
         side = hlo_config_number(i, NULL, "side_input_scale", 0);
  hs_str mode = HS_STR("kNone");
  hlo_config_find(i, NULL, "activation_mode", &mode);
  act_fn act = cudnn_act(mode);
  if (!act) return ev_unsupported(i, "with this activation");
  hlo_literal *sum, *r = NULL;
  bool alone = scale == 1 && act == act_none && i->noperands == 2;
  if (alone && hlo_dtype_is_integer(to->dtype) && hlo_dtype_bits(to->dtype) >= 32) {
    HS_TRY(ev_convolve(e, i, &c, ops, to, &r));  // sums wrap
    return ev_pack_results(i, 1, &r, out);
  }
  HS_TRY(ev_convolve(e, i, &c, ops, ev_typed(e, to, HLO_F64), &sum));
  double *p = sum->data;
  for (i64 k = 0; k < to->elements && scale != 1; k++) p[k] *= scale;
  hs_status st = i->noperands > 3 ? add_operand(i, to, p, side, ops[3]) : HS_GOOD;
  if (i->noperands > 2 && hs_ok(st)) {
    i64 f = c.labels->out_feature, inner = ev_product(to->rank - (u32)f - 1, to->dims + f + 1);
    if (ops[2]->shape->elements != to->dims[f]) st = ev_unsupported(i, "with this bias");
    for (i64 k = 0; k < to->elements && hs_ok(st); k++)
      p[k] += hlo_literal_f64(ops[2], k / inner % to->dims[f]);
  }
  if (hs_ok(st)) {
    apply_act(p, to->elements, act, hlo_config_number(i, NULL, "leakyrelu_alpha", 0));
    st = store(e, to, p, &r);
  }
  hlo_literal_unref(sum);
  return hs_ok(st) ? ev_pack_results(i, 1, &r, out) : st;
}

// The two gradients of a convolution, by its definition: each product of the forward pass, added
// where the wanted factor came from. x: input, k: kernel, y: output; two of them are given as
// doubles, the third is summed.
typedef struct gradient {
  const hlo_dim_labels *l;
  const hlo_window *w;
  const hlo_shape *x, *k, *y;
  i64 groups, xs[HLO_MAX_RANK], ks[HLO_MAX_RANK], ys[HLO_MAX_RANK];  // strides
  bool of_input;
} gradient;

// Offsets of a position of the output, a tap of the kernel, and the input's element below it.
// False: there is none.
static bool offsets(const gradient *g, const i64 *pos, const i64 *tap, i64 *ox, i64 *ok, i64 *oy) {
  bool inside = true;
  *ox = *ok = *oy = 0;
  for (u32 d = 0; d < g->w->n; d++) {
    const hlo_window_dim *v = &g->w->v[d];
    i64 base = HS_MAX(v->lhs_dilate, 1), size = g->k->dims[g->l->rhs_spatial[d]],
        at = pos[d] * v->stride + tap[d] * HS_MAX(v->rhs_dilate, 1) - v->pad_low;
    inside &= at >= 0 && at % base == 0 && at / base < g->x->dims[g->l->lhs_spatial[d]];
    *ox += at / base * g->xs[g->l->lhs_spatial[d]];
    *oy += pos[d] * g->ys[g->l->out_spatial[d]];
    *ok += (v->reversal ? size - 1 - tap[d] : tap[d]) * g->ks[g->l->rhs_spatial[d]];
  }
  return inside;
}

// The products of one position and tap, of all images and features.
static void add_products(const gradient *g, i64 ox, i64 ok, i64 oy, const double *a,
                         const double *b, double *sum) {
  const hlo_dim_labels *l = g->l;
  i64 ki = g->k->dims[l->rhs_input_feature], ko = g->k->dims[l->rhs_output_feature],
      batch = g->x->dims[l->lhs_batch], per = ko / g->groups;
  for (i64 q = 0; q < batch; q++)
    for (i64 o = 0; o < ko; o++)
      for (i64 c = 0; c < ki; c++) {
        i64 px = ox + q * g->xs[l->lhs_batch] + (o / per * ki + c) * g->xs[l->lhs_feature],
            py = oy + q * g->ys[l->out_batch] + o * g->ys[l->out_feature],
            pk = ok + c * g->ks[l->rhs_input_feature] + o * g->ks[l->rhs_output_feature];
        if (g->of_input) sum[px] += a[py] * b[pk];
        else sum[pk] += a[px] * b[py];
      }
}

static hs_status add_all(const gradient *g, const double *a, const double *b, double *sum) {
  i64 pos[HLO_MAX_RANK] = {0}, pd[HLO_MAX_RANK], kd[HLO_MAX_RANK], ox, ok, oy;
  if (!g->y->elements || !g->k->elements) return HS_GOOD;
  for (u32 d = 0; d < g->w->n; d++) {
    pd[d] = g->y->dims[g->l->out_spatial[d]];
    kd[d] = g->k->dims[g->l->rhs_spatial[d]];
  }
  do {
    i64 tap[HLO_MAX_RANK] = {0};
    do
      if (offsets(g, pos, tap, &ox, &ok, &oy)) add_products(g, ox, ok, oy, a, b, sum);
    while (ev_next(g->w->n, kd, tap));
    HS_TRY(hs_poll());
  } while (ev_next(g->w->n, pd, pos));
  return HS_GOOD;
}

static hs_status conv_gradient(ev *e, const hlo_instr *i, hlo_literal **ops, bool of_input,
                               hlo_literal **out) {
  const hlo_shape *to = result_of(i), *x = of_input ? to : ops[0]->shape,
                  *k = of_input ? ops[1]->shape : to, *y = of_input ? ops[0]->shape : ops[1]->shape;
  gradient g = {.l = hlo_attr_ptr(i, HLO_ATTR_DIM_LABELS),
                .w = hlo_attr_ptr(i, HLO_ATTR_WINDOW),
                .x = x,
                .k = k,
                .y = y,
                .groups = HS_MAX(hlo_attr_int(i, HLO_ATTR_FEATURE_GROUP_COUNT, 1), 1),
                .of_input = of_input};
  if (!g.w || g.w->n != g.l->nspatial || g.w->n > 8 ||
      hlo_attr_int(i, HLO_ATTR_BATCH_GROUP_COUNT, 1) > 1)
    return ev_unsupported(i, "with this window");
  i64 ko = k->dims[g.l->rhs_output_feature];
  if (ko % g.groups || x->dims[g.l->lhs_feature] != k->dims[g.l->rhs_input_feature] * g.groups ||
      y->dims[g.l->out_feature] != ko || y->dims[g.l->out_batch] != x->dims[g.l->lhs_batch])
    return ev_unsupported(i, "with these operands");
  hlo_row_major_strides(x->rank, x->dims, g.xs);
  hlo_row_major_strides(k->rank, k->dims, g.ks);
  hlo_row_major_strides(y->rank, y->dims, g.ys);
  hlo_literal *r = NULL;
  double *sum = hs_try_calloc((size_t)HS_MAX(to->elements, 1), sizeof *sum),
         *a = hs_try_alloc((size_t)HS_MAX(ops[0]->shape->elements, 1) * sizeof *a),
         *b = hs_try_alloc((size_t)HS_MAX(ops[1]->shape->elements, 1) * sizeof *b);
  hs_status st = sum && a && b
                     ? HS_GOOD
                     : hs_fail(HS_E_NO_MEMORY, "no memory for the operands of a convolution");
  if (hs_ok(st)) {
    ev_convert(ops[0]->shape->dtype, ops[0]->data, HLO_F64, a, ops[0]->shape->elements);
    ev_convert(ops[1]->shape->dtype, ops[1]->data, HLO_F64, b, ops[1]->shape->elements);
    st = add_all(&g, a, b, sum);
  }
  double scale = hlo_config_number(i, NULL, "conv_result_scale", 1);
  for (i64 q = 0; q < to->elements && scale != 1 && sum; q++) sum[q] *= scale;
  if (hs_ok(st)) st = store(e, to, sum, &r);
  hs_free(sum);
  hs_free(a);
  hs_free(b);
  return hs_ok(st) ? ev_pack_results(i, 1, &r, out) : st;
}
hs_status ev_custom_conv_input(ev *e, const hlo_instr *i, hlo_literal **ops, hlo_literal **out) {
  return conv_gradient(e, i, ops, true, out);
}
hs_status ev_custom_conv_filter(ev *e, const hlo_instr *i, hlo_literal **ops, hlo_literal **out) {
  return conv_gradient(e, i, ops, false, out);
}

// The norms have epsilon and the feature's dimension as their last two operands, and 1 /
// sqrt(variance + eps) for the variance.
static hs_status norm_call(ev *e, const hlo_instr *i, hlo_literal **ops, u32 arrays,
                           hlo_literal **out) {
  if (i->noperands != arrays + 2 || !are_numbers(i, arrays, 2))
    return ev_unsupported(i, "with these operands");
  double eps = hlo_literal_f64(ops[arrays], 0);
  i64 feature = hlo_literal_i64(ops[arrays + 1], 0);
  hs_str t = hlo_attr_str(i, HLO_ATTR_CUSTOM_CALL_TARGET);
  if (arrays == 3) return ev_norm_training(e, i, 3, ops, feature, eps, true, out);
  return t.p[t.n - 1] == 'd' ? ev_norm_gradient(e, i, 5, ops, feature, eps, true, out)
                             : ev_norm_inference(e, i, 5, ops, feature, eps, out);
}
hs_status ev_custom_norm_training(ev *e, const hlo_instr *i, hlo_literal **ops, hlo_literal **out) {
  return norm_call(e, i, ops, 3, out);
}
hs_status ev_custom_norm_inference(ev *e, const hlo_instr *i, hlo_literal **ops,
                                   hlo_literal **out) {
  return norm_call(e, i, ops, 5, out);
}
hs_status ev_custom_norm_backward(ev *e, const hlo_instr *i, hlo_literal **ops, hlo_literal **out) {
  return norm_call(e, i, ops, 5, out);
}

// ---- oneDNN -------------------------------------------------------------------------------------
static const named_act onednn_acts[] = {{"RELU", act_relu},         {"TANH", act_tanh},
                                        {"GELU_ERF", act_gelu_erf}, {"GELU_TANH", act_gelu_tanh},
                                        {"ELU", act_elu},           {"RELU6", act_relu6},
                                        {"SIGMOID", act_sigmoid},   {"SWISH", act_silu},
                                        {"LINEAR", act_linear},     {"UNDEFINED", act_none}};

static float bits_as_float(double number) {
  u32 b = (u32)(i64)number;
  float f;
  memcpy(&f, &b, sizeof f);
  return f;
}

// The fused operations in order; those with an operand take the next one.
static hs_status onednn_fusions(const hlo_instr *i, hlo_literal **ops, u32 next,
                                const hlo_shape *to, double *v) {
  hs_str kind[16];
  u32 n = hlo_config_words(i, "fusions", "ops", kind, HS_COUNT(kind));
  float alpha = bits_as_float(hlo_config_number(i, "fusions", "alpha_typecast", 1065353216));
  if (n > HS_COUNT(kind)) return ev_unsupported(i, "with so many fused operations");
  for (u32 k = 0; k < n; k++) {
    if (hs_str_eq(kind[k], HS_STR("BIAS")) || hs_str_eq(kind[k], HS_STR("BINARY_ADD")) ||
        hs_str_eq(kind[k], HS_STR("SUM"))) {
      if (next >= i->noperands) return ev_unsupported(i, "without the operand of a fused addition");
      HS_TRY(add_operand(i, to, v, 1, ops[next++]));
      continue;
    }
    act_fn f = find_act(onednn_acts, HS_COUNT(onednn_acts), kind[k]);
    if (!f) return ev_unsupported(i, "with a fused operation that is not known");
    apply_act(v, to->elements, f, (double)alpha);
  }
  return HS_GOOD;
}

static hs_status onednn_finish(ev *e, const hlo_instr *i, hlo_literal **ops, const hlo_shape *to,
                               hlo_literal *sum, hlo_literal **out) {
  hlo_literal *r = NULL;
  hs_status st = onednn_fusions(i, ops, 2, to, sum->data);
  if (hs_ok(st)) st = store(e, to, sum->data, &r);
  hlo_literal_unref(sum);
  return hs_ok(st) ? ev_pack_results(i, 1, &r, out) : st;
}

hs_status ev_custom_onednn_matmul(ev *e, const hlo_instr *i, hlo_literal **ops, hlo_literal **out) {
  const hlo_shape *to = result_of(i);
  bool ta = hlo_config_number(i, NULL, "transpose_a", 0) != 0,
       tb = hlo_config_number(i, NULL, "transpose_b", 0) != 0;
  if (i->noperands < 2 || !hlo_shape_is_array(to) ||
      hlo_config_number(i, NULL, "weights_prepacked", 0) != 0)
    return ev_unsupported(i, "with these operands");
  const hlo_shape *a = ops[0]->shape, *b = ops[1]->shape;
  u32 rank = a->rank, nb = rank - 2;
  if (rank < 2 || rank > 8 || b->rank != rank) return ev_unsupported(i, "with these operands");
  i64 batch[8], ca[1] = {ta ? rank - 2 : rank - 1}, cb[1] = {tb ? rank - 1 : rank - 2},
                elements = a->dims[ta ? rank - 1 : rank - 2] * b->dims[tb ? rank - 2 : rank - 1];
  for (u32 d = 0; d < nb; d++) {
    batch[d] = d, elements *= a->dims[d];
    if (a->dims[d] != b->dims[d]) return ev_unsupported(i, "with these operands");
  }
  if (a->dims[ca[0]] != b->dims[cb[0]] || elements != to->elements)
    return ev_unsupported(i, "with these operands");
  ev_dims d = {{nb, batch}, {nb, batch}, {1, ca}, {1, cb}};
  hlo_literal *sum;
  HS_TRY(ev_dot(e, &d, ops, ev_typed(e, to, HLO_F64), &sum));
  return onednn_finish(e, i, ops, to, sum, out);
}

// Of the config's numbers, spatial dimensions, paddings, strides and dilations are one more than
// they mean.
hs_status ev_custom_onednn_conv(ev *e, const hlo_instr *i, hlo_literal **ops, hlo_literal **out) {
  static const char *const place[3] = {"input.data", "kernel.filter", "output.data"};
  const hlo_shape *to = result_of(i);
  i64 spatial[3][8], size[8], low[8], high[8], stride[8], dilate[8];
  u32 n = hlo_config_list(i, "window", "size", size, 8);
  if (i->noperands < 2 || !hlo_shape_is_array(to) || n < 1 || to->rank != n + 2 ||
      ops[0]->shape->rank != n + 2 || ops[1]->shape->rank != n + 2)
    return ev_unsupported(i, "with these operands");
  bool whole = hlo_config_list(i, "window", "pad_left", low, 8) == n &&
               hlo_config_list(i, "window", "pad_right", high, 8) == n &&
               hlo_config_list(i, "window", "strides", stride, 8) == n &&
               hlo_config_list(i, "window", "window_dilations", dilate, 8) == n;
  hlo_window_dim window[8];
  for (u32 d = 0; d < n && whole; d++)
    window[d] = (hlo_window_dim){.size = size[d],
                                 .stride = stride[d] - 1,
                                 .pad_low = low[d] - 1,
                                 .pad_high = high[d] - 1,
                                 .lhs_dilate = 1,
                                 .rhs_dilate = dilate[d] - 1};
  for (u32 p = 0; p < 3 && whole; p++) {
    whole = hlo_config_list(i, place[p], "spatial_dims", spatial[p], 8) == n;
    for (u32 d = 0; d < n && whole; d++) whole = --spatial[p][d] >= 0 && spatial[p][d] < n + 2;
  }
  hlo_dim_labels l = {
      .lhs_batch = (i64)hlo_config_number(i, place[0], "batch_dim", 0),
      .lhs_feature = (i64)hlo_config_number(i, place[0], "feature_dim", 0),
      .rhs_input_feature = (i64)hlo_config_number(i, place[1], "input_feature_dim", 0),
      .rhs_output_feature = (i64)hlo_config_number(i, place[1], "output_feature_dim", 0),
      .out_batch = (i64)hlo_config_number(i, place[2], "batch_dim", 0),
      .out_feature = (i64)hlo_config_number(i, place[2], "feature_dim", 0),
      .nspatial = n,
      .lhs_spatial = spatial[0],
      .rhs_spatial = spatial[1],
      .out_spatial = spatial[2]};
  const i64 named[6] = {l.lhs_batch,          l.lhs_feature, l.rhs_input_feature,
                        l.rhs_output_feature, l.out_batch,   l.out_feature};
  for (u32 k = 0; k < 6; k++) whole &= named[k] >= 0 && named[k] < n + 2;
  if (!whole) return ev_unsupported(i, "with this configuration");
  // the result must be as large as the window makes it
  for (u32 d = 0; d < n; d++) {
    const hlo_window_dim *w = &window[d];
    i64 in = ops[0]->shape->dims[spatial[0][d]] + w->pad_low + w->pad_high,
        span = (w->size - 1) * w->rhs_dilate + 1;
    if (w->stride < 1 || w->rhs_dilate < 1 || ops[1]->shape->dims[spatial[1][d]] != w->size ||
        to->dims[spatial[2][d]] != (in < span ? 0 : (in - span) / w->stride + 1))
      return ev_unsupported(i, "with this configuration");
  }
  const hlo_window w = {n, window};
  ev_conv c = {&l, &w, HS_MAX((i64)hlo_config_number(i, NULL, "feature_groups", 1), 1), 1};
  if (ops[0]->shape->dims[l.lhs_feature] != ops[1]->shape->dims[l.rhs_input_feature] * c.groups ||
      to->dims[l.out_feature] != ops[1]->shape->dims[l.rhs_output_feature] ||
      to->dims[l.out_batch] != ops[0]->shape->dims[l.lhs_batch])
    return ev_unsupported(i, "with this configuration");
  hlo_literal *sum;
  HS_TRY(ev_convolve(e, i, &c, ops, ev_typed(e, to, HLO_F64), &sum));
  return onednn_finish(e, i, ops, to, sum, out);
}

static double *as_doubles(const hlo_literal *l) {
  double *v = hs_try_alloc((size_t)HS_MAX(l->shape->elements, 1) * sizeof *v);
  if (v) ev_convert(l->shape->dtype, l->data, HLO_F64, v, l->shape->elements);
  return v;
}

hs_status ev_custom_onednn_softmax(ev *e, const hlo_instr *i, hlo_literal **ops,
                                   hlo_literal **out) {
  const hlo_shape *to = result_of(i);
  i64 axis = (i64)hlo_config_number(i, NULL, "softmax_axis", 0);
  if (i->noperands < 1 || !hlo_shape_is_array(to) || axis < 0 || axis >= to->rank ||
      ops[0]->shape->elements != to->elements || ops[0]->shape->rank != to->rank)
    return ev_unsupported(i, "with these operands");
  double *v = as_doubles(ops[0]);
  if (!v) return hs_fail(HS_E_NO_MEMORY, "no memory for a softmax");
  i64 n = to->dims[axis], inner = ev_product(to->rank - (u32)axis - 1, to->dims + axis + 1),
      lines = n ? to->elements / n : 0;
  for (i64 q = 0; q < lines; q++) {
    double *p = v + q / inner * inner * n + q % inner, max = -INFINITY, sum = 0;
    for (i64 k = 0; k < n; k++) max = fmax(max, p[k * inner]);
    for (i64 k = 0; k < n; k++) sum += p[k * inner] = exp(p[k * inner] - max);
    for (i64 k = 0; k < n; k++) p[k * inner] /= sum;
  }
  hlo_literal *r = NULL;
  hs_status st = store(e, to, v, &r);
  hs_free(v);
  return hs_ok(st) ? ev_pack_results(i, 1, &r, out) : st;
}

// (x, [scale], [shift]) over the last dimension.
hs_status ev_custom_onednn_layernorm(ev *e, const hlo_instr *i, hlo_literal **ops,
                                     hlo_literal **out) {
  const hlo_shape *to = result_of(i);
  if (i->noperands < 1 || i->noperands > 3 || !hlo_shape_is_array(to) || to->rank < 1 ||
      ops[0]->shape->elements != to->elements)
    return ev_unsupported(i, "with these operands");
  i64 n = to->dims[to->rank - 1], lines = n ? to->elements / n : 0;
  for (u32 k = 1; k < i->noperands; k++)
    if (ops[k]->shape->elements != n) return ev_unsupported(i, "with these operands");
  double eps = (double)bits_as_float(hlo_config_number(i, NULL, "epsilon_typecast", 0)),
         *v = as_doubles(ops[0]);
  if (!v) return hs_fail(HS_E_NO_MEMORY, "no memory for a layer norm");
  for (i64 q = 0; q < lines; q++) {
    double *p = v + q * n, mean = 0, var = 0;
    for (i64 k = 0; k < n; k++) mean += p[k] / (double)n;
    for (i64 k = 0; k < n; k++) var += (p[k] - mean) * (p[k] - mean) / (double)n;
    for (i64 k = 0; k < n; k++) {
      p[k] = (p[k] - mean) / sqrt(var + eps);
      if (i->noperands > 1) p[k] *= hlo_literal_f64(ops[1], k);
      if (i->noperands > 2) p[k] += hlo_literal_f64(ops[2], k);
    }
  }
  hlo_literal *r = NULL;
  hs_status st = store(e, to, v, &r);
  hs_free(v);
  return hs_ok(st) ? ev_pack_results(i, 1, &r, out) : st;
}
