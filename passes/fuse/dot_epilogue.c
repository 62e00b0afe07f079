// dot_epilogue.c — dot-epilogue-fusion: a dot or a convolution and what is added and applied to
// its result become one fusion (kind=kOutput), before other fusion. XLA does it with its calls of
// cuBLASLt and cuDNN (gemm_rewriter.cc, cudnn_fused_conv_rewriter.cc); here the fusion stays HLO,
// which our kernels compute as well as the libraries' epilogues do (backends/gpu/epilogue.c,
// window.c).
//
// It pays where the epilogue's result has to be stored anyway: for the caller, a library, a kernel
// that is no elementwise one, or several kernels that would all compute a costly function. Then a
// launch is saved, and writing the dot's result and reading it. Everywhere else the kernels that
// use the result compute the epilogue while they read the dot's, and nothing would be saved.
//
// What an activation takes may be asked for as well (training reads it again): it becomes a second
// result behind gelu, which libraries store too; behind relu they store a bit for each number,
// which HLO has no operation for, so there the dot is left alone.
#include "passes/fuse/dot_epilogue.h"

#include <math.h>

#include "passes/fuse/fusion.h"

enum { MOST_FACTORS = 8, MOST_MEMBERS = 48, MOST_DEPTH = 12 };

// ---- constants and products ---------------------------------------------------------------------

// The number that all elements are.
static bool constant_of(const hlo_instr *i, double *out) {
  if (i->opcode == HLO_BROADCAST) i = hlo_operand(i, 0);
  const hlo_literal *v = i->opcode == HLO_CONSTANT ? hlo_constant_value(i) : NULL;
  if (!v || v->elided || !hlo_dtype_is_float(i->shape->dtype) || i->shape->elements != 1)
    return false;
  *out = hlo_literal_f64(v, 0);
  return true;
}

// Within what the type rounds by; f32 and f64: as programs write the number, in seven digits.
static bool is_about(hlo_dtype t, double v, double want) {
  double step = t == HLO_BF16 ? 0x1p-8 : t == HLO_F16 ? 0x1p-11 : 1e-6;
  return fabs(v - want) <= step * want;
}

// A product of constants and other factors.
typedef struct factors {
  double c;
  u32 n;
  const hlo_instr *v[MOST_FACTORS];
} factors;

static bool add_factor(const hlo_instr *i, u32 times, factors *f) {
  for (u32 k = 0; k < times; k++) {
    if (f->n == MOST_FACTORS) return false;
    f->v[f->n++] = i;
  }
  return true;
}

static bool collect(const hlo_instr *i, u32 depth, factors *f) {
  double c;
  if (depth > MOST_DEPTH) return false;
  if (constant_of(i, &c)) return f->c *= c, true;
  if (i->opcode == HLO_MULTIPLY)
    return collect(hlo_operand(i, 0), depth + 1, f) && collect(hlo_operand(i, 1), depth + 1, f);
  if (i->opcode == HLO_POWER && constant_of(hlo_operand(i, 1), &c) && (c == 2 || c == 3))
    return add_factor(hlo_operand(i, 0), (u32)c, f);
  return add_factor(i, 1, f);
}

static bool factors_of(const hlo_instr *i, factors *f) {
  *f = (factors){.c = 1};
  return collect(i, 0, f);
}

// c x^n
static bool is_power(const hlo_instr *i, const hlo_instr *x, double c, u32 n) {
  factors f;
  if (!factors_of(i, &f) || f.n != n || !is_about(i->shape->dtype, f.c, c)) return false;
  for (u32 k = 0; k < n; k++)
    if (f.v[k] != x) return false;
  return true;
}

// 1 + y
static bool one_plus(const hlo_instr *i, const hlo_instr **y) {
  double c;
  if (i->opcode != HLO_ADD) return false;
  for (u32 k = 0; k < 2; k++)
    if (constant_of(hlo_operand(i, k), &c) && c == 1) return *y = hlo_operand(i, 1 - k), true;
  return false;
}

// ---- activations --------------------------------------------------------------------------------

static bool relu(const hlo_instr *i, const hlo_instr **x) {
  double c;
  if (i->opcode != HLO_MAXIMUM) return false;
  for (u32 k = 0; k < 2; k++)
    if (constant_of(hlo_operand(i, k), &c) && c == 0) return *x = hlo_operand(i, 1 - k), true;
  return false;
}

// sqrt(2/pi) (x + 0.044715 x^3), also as a product with x
static bool is_gelu_argument(const hlo_instr *i, const hlo_instr *x) {
  const double root = 0.7978845608028654, cubic = 0.044715;
  const hlo_instr *y;
  factors f;
  if (!factors_of(i, &f) || !is_about(i->shape->dtype, f.c, root)) return false;
  if (f.n == 1 && f.v[0]->opcode == HLO_ADD)
    for (u32 k = 0; k < 2; k++)
      if (hlo_operand(f.v[0], k) == x && is_power(hlo_operand(f.v[0], 1 - k), x, cubic, 3))
        return true;
  for (u32 k = 0; k < 2 && f.n == 2; k++)
    if (f.v[k] == x && one_plus(f.v[1 - k], &y) && is_power(y, x, cubic, 2)) return true;
  return false;
}

static bool gelu(const hlo_instr *i, const hlo_instr **x) {
  const hlo_instr *y;
  factors f;
  if (i->opcode != HLO_MULTIPLY || !factors_of(i, &f) || f.n != 2 || f.c != 0.5) return false;
  for (u32 k = 0; k < 2; k++)
    if (one_plus(f.v[k], &y) && y->opcode == HLO_TANH &&
        is_gelu_argument(hlo_operand(y, 0), f.v[1 - k]))
      return *x = f.v[1 - k], true;
  return false;
}

dot_activation pass_dot_activation(const hlo_instr *root, const hlo_instr **before) {
  *before = root;
  return relu(root, before) ? DOT_RELU : gelu(root, before) ? DOT_GELU : DOT_PLAIN;
}

// ---- the epilogue -------------------------------------------------------------------------------

static bool is_bias(const hlo_instr *i) {
  return i->opcode == HLO_BROADCAST && hlo_operand(i, 0)->shape->elements > 1;
}

// Reshapes and bitcasts of the same elements in the same places.
static const hlo_instr *behind_reshapes(const hlo_instr *i) {
  for (;;) {
    bool same = i->opcode == HLO_BITCAST || i->opcode == HLO_RESHAPE;
    const hlo_instr *x = same ? hlo_operand(i, 0) : NULL;
    if (!x || x->shape->dtype != i->shape->dtype || x->shape->elements != i->shape->elements ||
        !hlo_shape_is_row_major(x->shape) || !hlo_shape_is_row_major(i->shape))
      return i;
    i = x;
  }
}

// Takes a bias off a sum; what is left of it.
static const hlo_instr *take_bias(const hlo_instr *x, dot_epilogue *out) {
  for (u32 k = 0; k < 2 && x->opcode == HLO_ADD && !out->bias; k++)
    if (is_bias(hlo_operand(x, k))) {
      out->bias = hlo_operand(x, k);
      return hlo_operand(x, 1 - k);
    }
  return x;
}

static bool is_convolution(const hlo_instr *i) { return i->opcode == HLO_CONVOLUTION; }

// Takes what is added to a convolution off a sum, which may have a bias too.
static const hlo_instr *take_side(const hlo_instr *x, dot_epilogue *out) {
  for (u32 k = 0; k < 2 && x->opcode == HLO_ADD; k++) {
    dot_epilogue inner = {.bias = out->bias};
    const hlo_instr *side = hlo_operand(x, 1 - k);
    if (side->opcode == HLO_BROADCAST || side->opcode == HLO_CONSTANT ||
        !is_convolution(take_bias(hlo_operand(x, k), &inner)))
      continue;
    out->side = side;
    return hlo_operand(x, k);
  }
  return x;
}

bool pass_dot_epilogue(const hlo_instr *root, dot_epilogue *out) {
  *out = (dot_epilogue){.root = root};
  if (!hlo_shape_is_array(root->shape) || !hlo_dtype_is_float(root->shape->dtype)) return false;
  const hlo_instr *x;
  out->activation = pass_dot_activation(root, &x);
  out->before = x;
  x = take_bias(take_side(take_bias(x, out), out), out);
  out->dot = is_convolution(x) ? x : behind_reshapes(x);
  return (out->dot->opcode == HLO_DOT ? !out->side : is_convolution(out->dot) && out->dot == x) &&
         (out->bias || out->side || out->activation) &&
         out->dot->shape->dtype == root->shape->dtype;
}

bool pass_dot_epilogue_body(const hlo_computation *body, dot_epilogue *out, bool *both) {
  const hlo_instr *root = body->root;
  *both = root->opcode == HLO_TUPLE;
  if (*both && root->noperands != 2) return false;
  if (!pass_dot_epilogue(*both ? hlo_operand(root, 0) : root, out)) return false;
  return !*both || (hlo_operand(root, 1) == out->before && out->activation == DOT_GELU);
}

// ---- what libraries can do ----------------------------------------------------------------------

// The numbers of the result along memory that have one number of the right side's each.
static i64 columns_of(const hlo_instr *dot) {
  hlo_ints batch = hlo_attr_ints(dot, HLO_ATTR_RHS_BATCH_DIMS),
           steps = hlo_attr_ints(dot, HLO_ATTR_RHS_CONTRACTING_DIMS);
  const hlo_shape *s = hlo_operand(dot, 1)->shape;
  i64 n = 1;
  for (u32 d = 0; d < s->rank; d++)
    if (!hlo_ints_has(batch, d) && !hlo_ints_has(steps, d)) n *= s->dims[d];
  return n;
}

// A vector for the last dimensions.
static bool is_trailing(const hlo_instr *broadcast) {
  hlo_ints to = hlo_attr_ints(broadcast, HLO_ATTR_DIMENSIONS);
  for (u32 k = 0; k < to.n; k++)
    if (to.v[k] != (i64)(broadcast->shape->rank - to.n + k)) return false;
  return hlo_shape_is_row_major(hlo_operand(broadcast, 0)->shape);
}

// Whether equal elements lie in the same places.
static bool lies_as(const hlo_shape *a, const hlo_shape *b) {
  return hlo_shape_same_dims(a, b) &&
         (a->layout == b->layout || (hlo_shape_is_row_major(a) && hlo_shape_is_row_major(b)));
}

static const char *beyond_windows(const dot_epilogue *e, bool both) {
  const hlo_dim_labels *l = hlo_attr_ptr(e->dot, HLO_ATTR_DIM_LABELS);
  if (both) return "no library stores a convolution twice";
  if (!lies_as(e->dot->shape, e->root->shape)) return "its layout";
  if (e->side &&
      (e->side->shape->dtype != e->root->shape->dtype || !lies_as(e->side->shape, e->root->shape)))
    return "what is added lies otherwise";
  if (!e->bias) return NULL;
  hlo_ints to = hlo_attr_ints(e->bias, HLO_ATTR_DIMENSIONS);
  return l && to.n == 1 && to.v[0] == l->out_feature ? NULL
                                                     : "what is added is no vector of features";
}

// Why no library does it, and the dot's own call should stay one; NULL: some do.
static const char *beyond_libraries(const dot_epilogue *e, bool both) {
  enum { MULTIPLE = 8 };  // of columns that are stored twice
  hlo_dtype t = e->root->shape->dtype;
  bool half = t == HLO_F16 || t == HLO_BF16;
  if (t != HLO_F32 && !half) return "no library has epilogues for its type";
  if (e->activation == DOT_GELU && !half) return "no library's gelu is exact enough for its type";
  if (is_convolution(e->dot)) return beyond_windows(e, both);
  if (!hlo_shape_is_row_major(e->dot->shape) || !hlo_shape_is_row_major(e->root->shape))
    return "its layout";
  if (e->bias &&
      (!is_trailing(e->bias) || hlo_operand(e->bias, 0)->shape->elements != columns_of(e->dot)))
    return "what is added is no vector along its rows";
  return both && columns_of(e->dot) % MULTIPLE ? "no library stores so many columns twice" : NULL;
}

// ---- the pass -----------------------------------------------------------------------------------

typedef struct members {
  u32 n;
  hlo_instr *v[MOST_MEMBERS];  // operands before users
  bool full;
} members;

static bool has(const members *m, const hlo_instr *i) {
  for (u32 k = 0; k < m->n; k++)
    if (m->v[k] == i) return true;
  return false;
}

// All that is computed between the dot and the root, both included.
static void gather(members *m, const dot_epilogue *e, hlo_instr *i, u32 depth) {
  m->full |= depth > MOST_DEPTH * 2 || m->n == MOST_MEMBERS;
  if (m->full || i == e->side || has(m, i)) return;
  if (i != e->dot && i != e->bias)
    for (u32 k = 0; k < i->noperands; k++) gather(m, e, hlo_operand(i, k), depth + 1);
  m->full |= m->n == MOST_MEMBERS;
  if (!m->full) m->v[m->n++] = i;
}

static bool is_copied(const dot_epilogue *e, const hlo_instr *i) {
  double c;
  return i == e->bias || constant_of(i, &c);
}

// Whether anybody but members reads it.
static bool is_read_elsewhere(const members *m, const hlo_instr *i) {
  bool other = hlo_is_root(i);
  hlo_for_each_use(u, i) other |= !has(m, u->user);
  return other;
}

// Whether it lies in memory even if its users are fused as far as they can be.
static bool is_stored(const dot_epilogue *e, const hlo_instr *i) {
  if (hlo_is_root(i) || (i->nuses > 1 && e->activation == DOT_GELU)) return true;
  hlo_for_each_use(u, i)
    if (pass_fusion_role(u->user) == FUSION_OPAQUE ||
        (behind_reshapes(u->user) == i && is_stored(e, u->user)))
      return true;
  return false;
}

// Why the dot does not take its epilogue in; NULL: it does. both: what the activation takes is a
// second result.
static const char *refusal(const dot_epilogue *e, const members *m, bool *both) {
  *both = false;
  if (m->full) return "the epilogue has too many operations";
  for (u32 k = 0; k < m->n; k++) {
    const hlo_instr *i = m->v[k];
    if (hlo_is_controlled(i) || hlo_shape_is_dynamic(i->shape)) return "its order or size is fixed";
    if (i == e->root || is_copied(e, i) || !is_read_elsewhere(m, i)) continue;
    if (i != e->before || e->activation != DOT_GELU)
      return "what is before the epilogue is used elsewhere too";
    *both = true;
  }
  const char *why = beyond_libraries(e, *both);
  if (why) return why;
  return is_stored(e, e->root) ? NULL : "the kernels that use the result compute the epilogue";
}

static void fuse(pass_ctx *p, hlo_instr *root, const dot_epilogue *e, members *m, bool both) {
  hlo_instr *outputs[2] = {root, NULL};
  for (u32 k = 0; k < m->n; k++)
    if (m->v[k] == e->before) outputs[1] = m->v[k];
  hlo_instr *f = pass_fusion_build(p->m, p->scratch, m->n, m->v, both ? 2 : 1, outputs,
                                   HLO_FUSION_KIND_OUTPUT, root);
  double bytes = (double)hlo_shape_bytes(root->shape);
  pass_note_done(p, f, NULL, "fused %u instructions into the dot: saves %.1f us", m->n,
                 (pass_fusion_launch_ns + 2 * pass_fusion_move_ns(bytes)) * 1e-3);
  for (u32 k = 2; k-- > 0;) {
    if (k && !both) continue;
    hlo_instr *to = both ? hlo_add_gte(f, k) : f;
    if (both) hlo_move_before(to, root);
    hlo_replace(outputs[k], to);
  }
}

static hs_status visit(pass_ctx *p, hlo_computation *c) {
  hlo_instr **order = hlo_post_order(c, p->scratch);
  for (u32 k = c->ninstrs; k-- > 0;) {
    dot_epilogue e;
    members m = {0};
    bool both;
    HS_TRY(hs_poll());
    bool used = order[k]->nuses > 0 || hlo_is_root(order[k]);
    if (order[k]->dead || !used || !pass_dot_epilogue(order[k], &e)) continue;
    gather(&m, &e, order[k], 0);
    const char *why = refusal(&e, &m, &both);
    if (why) pass_note_declined(p, order[k], e.dot, "not fused into the dot: %s", why);
    else if (!pass_may_rewrite(p)) return HS_GOOD;
    else fuse(p, order[k], &e, &m, both);
  }
  return HS_GOOD;
}

static hs_status run(pass_ctx *p) { return pass_fusion_each(p, visit); }

const pass_info pass_dot_epilogue_fusion = {
    .name = "dot-epilogue-fusion",
    .summary = "fuses a bias and relu or gelu into the dot or convolution before them, where the "
               "result is stored",
    .xla_source = "xla/service/gpu/transforms/gemm_rewriter.cc",
    .run = run,
    .needs = {HLO_DOT, HLO_CONVOLUTION},
    .sample = "ENTRY e {\n"
              "  x = f32[8,4] parameter(0)\n"
              "  w = f32[4,16] parameter(1)\n"
              "  b = f32[16] parameter(2)\n"
              "  d = f32[8,16] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n"
              "  bs = f32[8,16] broadcast(b), dimensions={1}\n"
              "  s = f32[8,16] add(d, bs)\n"
              "  zero = f32[] constant(0)\n"
              "  zeros = f32[8,16] broadcast(zero), dimensions={}\n"
              "  ROOT r = f32[8,16] maximum(s, zeros)\n"
              "}\n",
};
