// gemm_rewriter.c — cublas-gemm-rewriter (xla/backends/gpu/transforms/gemm_rewriter.cc): a matrix
// product becomes a call of cuBLASLt (__cublas$lt$matmul) or cuBLAS (__cublas$gemm), which takes in
// what is done to the product as far as the library does it where it stores:
//
//   result = activation(alpha * a b + beta * c + bias)
//
// alpha is a constant, c a matrix (beta is then 1), bias a vector along the columns, and the
// activation relu or gelu. XLA makes a call of the dot first and rewrites that call at each step;
// here one walk from the dot through its users collects the steps (`gemm`), and one call is made.
// Steps may be taken behind a bitcast of the product, which then follows the call.
//
// The result is a tuple: the product, what gelu was applied to where that has other users, and the
// memory the library works in. The configuration is the text that XLA prints (GemmBackendConfig of
// xla/service/gpu/backend_configs.proto), which the evaluator reads (core/eval/library.c). Where c
// dies at the call, its memory may hold the result (output_to_operand_aliasing).
//
// Left as dots: 8-bit floats, an algorithm that is asked for, products the library has no types or
// dimensions for, and small ones (XLA's xla_gpu_gemm_rewrite_size_threshold).
#include <math.h>

#include "passes/fuse/conv_call.h"
#include "passes/fuse/dot_epilogue.h"
#include "passes/fuse/fusion.h"
#include "passes/run/rewrite.h"

enum { MOST_GELU = 48 };  // operations of a gelu

// A product and what its call takes in.
typedef struct gemm {
  hlo_instr *dot;
  hlo_instr *end;       // what the call's first result stands for, up to a bitcast
  hlo_instr *c, *bias;  // NULL: nothing is added
  double alpha;
  dot_activation activation;
  hlo_instr *aux;  // what gelu is applied to, where others read it as well
  bool lt;
} gemm;

// ---- which products -----------------------------------------------------------------------------

// Types of operands and results that the libraries multiply.
static const struct {
  hlo_dtype from, to;
  bool lt;
} types[] = {
    {HLO_F16, HLO_F16, true},  {HLO_F16, HLO_F32, true},   {HLO_BF16, HLO_BF16, true},
    {HLO_BF16, HLO_F32, true}, {HLO_F32, HLO_F32, true},   {HLO_F64, HLO_F64, true},
    {HLO_C64, HLO_C64, true},  {HLO_C128, HLO_C128, true}, {HLO_S8, HLO_S32, false},
    {HLO_S8, HLO_F32, false},
};

typedef struct dims {
  hlo_ints batch, contracting;
} dims;
static dims dims_of(const hlo_instr *dot, u32 side) {
  return side ? (dims){hlo_attr_ints(dot, HLO_ATTR_RHS_BATCH_DIMS),
                       hlo_attr_ints(dot, HLO_ATTR_RHS_CONTRACTING_DIMS)}
              : (dims){hlo_attr_ints(dot, HLO_ATTR_LHS_BATCH_DIMS),
                       hlo_attr_ints(dot, HLO_ATTR_LHS_CONTRACTING_DIMS)};
}

// Why the dot stays; NULL: it becomes a call. *lt: whether cuBLASLt has its types.
static const char *refusal(const hlo_instr *dot, double threshold, bool *lt) {
  const hlo_shape *s[2] = {hlo_operand(dot, 0)->shape, hlo_operand(dot, 1)->shape};
  u32 row = 0, matrices = 0;
  while (row < HS_COUNT(types) &&
         (types[row].from != s[0]->dtype || types[row].to != dot->shape->dtype ||
          s[1]->dtype != s[0]->dtype))
    row++;
  if (row == HS_COUNT(types)) return "the libraries do not multiply its types";
  *lt = types[row].lt;
  if (dot->noperands != 2 || hlo_attr_get(dot, HLO_ATTR_ALGORITHM))
    return "an algorithm is asked for";
  if (hlo_is_controlled(dot)) return "its order is fixed";
  double kept = 0, steps = 1;
  for (u32 side = 0; side < 2; side++) {
    dims d = dims_of(dot, side);
    if (pass_is_cut(hlo_operand(dot, side)) || s[side]->elements == 0) return "its size";
    if (d.contracting.n != 1 || s[side]->rank > d.batch.n + 2)
      return "it is no product of matrices";
    matrices += s[side]->rank == d.batch.n + 2;
    double own = (double)s[side]->elements;
    for (u32 k = 0; k < d.batch.n; k++) own /= (double)s[side]->dims[d.batch.v[k]];
    steps = (double)s[side]->dims[d.contracting.v[0]];
    kept += own / steps;
  }
  if (matrices == 0) return "it is a product of vectors";
  return kept * steps < threshold ? "it is small" : NULL;
}

// ---- what follows the product -------------------------------------------------------------------

static bool is_view(const hlo_instr *i) {
  const hlo_shape *s = i->shape;
  if (i->opcode != HLO_BITCAST || hlo_is_controlled(i)) return false;
  const hlo_shape *from = hlo_operand(i, 0)->shape;
  return from->dtype == s->dtype && from->elements == s->elements && hlo_shape_is_row_major(from) &&
         hlo_shape_is_row_major(s);
}

// The user, if there is one only and it reads the value once.
static hlo_instr *only_user(const hlo_instr *i) {
  return i->nuses == 1 && !hlo_is_root(i) ? i->first_use->user : NULL;
}

static bool is_splat(const hlo_instr *i, double *out) {
  if (i->opcode == HLO_BROADCAST && i->shape->dtype == hlo_operand(i, 0)->shape->dtype)
    i = hlo_operand(i, 0);
  const hlo_literal *v = i->opcode == HLO_CONSTANT ? hlo_constant_value(i) : NULL;
  if (!v || v->elided || i->shape->elements != 1) return false;
  *out = hlo_literal_f64(v, 0);
  return true;
}

// alpha: before anything is added.
static bool take_factor(gemm *g, const hlo_instr *user, u32 other) {
  double v;
  if (user->opcode != HLO_MULTIPLY || g->c || g->bias || g->activation ||
      !is_splat(hlo_operand(user, other), &v) || !isfinite(v) || !isfinite(v * g->alpha))
    return false;
  g->alpha *= v;
  return true;
}

// A vector that is the same for all rows: broadcast to the last dimensions, the right side's.
static bool take_bias(gemm *g, const hlo_instr *user, u32 other) {
  hlo_instr *b = hlo_operand(user, other);
  if (user->opcode != HLO_ADD || !g->lt || g->bias || g->activation || b->opcode != HLO_BROADCAST ||
      hlo_is_controlled(b))
    return false;
  hlo_ints to = hlo_attr_ints(b, HLO_ATTR_DIMENSIONS);
  const hlo_shape *out = g->dot->shape, *v = hlo_operand(b, 0)->shape;
  u32 columns = hlo_operand(g->dot, 1)->shape->rank - dims_of(g->dot, 1).batch.n - 1;
  if (columns == 0 || to.n != columns || v->dtype != out->dtype || !hlo_shape_is_row_major(out) ||
      !hlo_shape_is_row_major(b->shape))
    return false;
  for (u32 k = 0; k < to.n; k++)
    if (to.v[k] != (i64)(b->shape->rank - to.n + k) ||
        v->dims[k] != out->dims[out->rank - to.n + k])
      return false;
  g->bias = hlo_operand(b, 0);
  return true;
}

// Whether nobody but the sum has it, so that the result may lie in its memory.
static bool is_spent(const hlo_instr *c) {
  return only_user(c) && c->opcode != HLO_PARAMETER && c->opcode != HLO_CONSTANT;
}

static bool take_matrix(gemm *g, const hlo_instr *user, u32 other) {
  hlo_instr *c = hlo_operand(user, other);
  if (user->opcode != HLO_ADD || g->c || g->activation || c->opcode == HLO_BROADCAST ||
      hlo_dtype_is_integer(c->shape->dtype) || (!g->lt && !is_spent(c)))
    return false;
  if (c->shape != g->dot->shape &&
      (!hlo_shape_is_row_major(c->shape) || !hlo_shape_is_row_major(g->dot->shape)))
    return false;
  g->c = c;
  return true;
}

static bool take_relu(gemm *g, const hlo_instr *user, u32 other) {
  const hlo_instr *x;
  if (!g->lt || g->activation || pass_dot_activation(user, &x) != DOT_RELU ||
      x != hlo_operand(user, 1 - other))
    return false;
  g->activation = DOT_RELU;
  return true;
}

// What a user with two operands, of which the product is one, may be; the first that fits is taken.
static bool (*const takes[])(gemm *, const hlo_instr *user, u32 other) = {take_factor, take_bias,
                                                                          take_matrix, take_relu};

// ---- gelu ---------------------------------------------------------------------------------------

typedef struct members {
  u32 n;
  const hlo_instr *v[MOST_GELU];  // operands before users
} members;

static bool has(const members *m, const hlo_instr *i) {
  for (u32 k = 0; k < m->n; k++)
    if (m->v[k] == i) return true;
  return false;
}

static bool gather(members *m, const hlo_instr *i, const hlo_instr *x) {
  double c;
  if (i == x || has(m, i) || is_splat(i, &c)) return true;
  for (u32 k = 0; k < i->noperands; k++)
    if (!gather(m, hlo_operand(i, k), x)) return false;
  if (m->n == MOST_GELU || hlo_is_controlled(i)) return false;
  m->v[m->n++] = i;
  return true;
}

// Whether some user of x is not there for the gelu only.
static bool is_read_besides(const hlo_instr *x, const members *m) {
  bool lives[MOST_GELU] = {false}, besides = hlo_is_root(x);
  for (u32 k = m->n - 1; k-- > 0;) {  // without the last one, the gelu
    lives[k] = hlo_is_root(m->v[k]);
    hlo_for_each_use(u, m->v[k]) {
      lives[k] |= !has(m, u->user);
      for (u32 j = k + 1; j < m->n; j++) lives[k] |= m->v[j] == u->user && lives[j];
    }
  }
  hlo_for_each_use(u, x) {
    besides |= !has(m, u->user);
    for (u32 j = 0; j < m->n; j++) besides |= m->v[j] == u->user && lives[j];
  }
  return besides;
}

typedef HS_VEC(hlo_instr *) gelus;

// A gelu of the product so far, or of a bitcast of it. The first one becomes the call's.
static bool take_gelu(gemm *g, const gelus *all) {
  hlo_dtype t = g->dot->shape->dtype;
  if (!g->lt || g->activation || (t != HLO_F32 && t != HLO_F16 && t != HLO_BF16)) return false;
  for (u32 k = 0; k < all->n; k++) {
    const hlo_instr *x, *root = all->v[k];
    members m = {0};
    pass_dot_activation(root, &x);
    bool seen_through = x != g->end;
    if (seen_through && (!is_view(x) || hlo_operand(x, 0) != g->end)) continue;
    if (!gather(&m, root, x)) continue;
    bool besides = is_read_besides(x, &m) || (seen_through && !only_user(g->end));
    g->aux = besides ? g->end : NULL;
    g->end = all->v[k];
    g->activation = DOT_GELU;
    return true;
  }
  return false;
}

// Takes in the next step; false: there is none.
static bool step(gemm *g, const gelus *all) {
  if (take_gelu(g, all)) return true;
  hlo_instr *user = only_user(g->end), *from = g->end;
  while (user && is_view(user)) from = user, user = only_user(user);
  if (!user || user->noperands != 2 || hlo_is_controlled(user) ||
      user->shape->dtype != g->dot->shape->dtype)
    return false;
  u32 other = hlo_operand(user, 0) == from;
  if (hlo_operand(user, other)->shape->dtype != g->dot->shape->dtype) return false;
  for (u32 k = 0; k < HS_COUNT(takes); k++)
    if (takes[k](g, user, other)) return g->end = user, true;
  return false;
}

// ---- the call -----------------------------------------------------------------------------------

static void put_list(hs_buf *b, const char *key, hlo_ints v, const char *after) {
  hs_buf_printf(b, "\"%s\":[", key);
  for (u32 k = 0; k < v.n; k++) hs_buf_printf(b, "%s\"%lld\"", k ? "," : "", (long long)v.v[k]);
  hs_buf_printf(b, "]%s", after);
}

// Elements of one matrix of a batch.
static long long stride_of(const hlo_instr *x, u32 nbatch) {
  i64 n = 1;
  for (u32 d = nbatch; d < x->shape->rank; d++) n *= x->shape->dims[d];
  return n;
}

static void put_precisions(hs_buf *b, const hlo_instr *dot) {
  hlo_ints p = hlo_attr_ints(dot, HLO_ATTR_OPERAND_PRECISION);
  for (u32 k = 0; k < 2; k++) {
    const char *name = k < p.n ? hlo_enum_text(HLO_AK_ENUM_PRECISION, p.v[k]) : "default";
    hs_buf_puts(b, k ? ",\"" : "\"");
    for (; *name; name++) hs_buf_putc(b, (char)(*name >= 'a' && *name <= 'z' ? *name - 32 : *name));
    hs_buf_puts(b, "\"");
  }
}

static const hlo_backend_config *config_of(hlo_module *m, const gemm *g) {
  static const char *const names[] = {[DOT_PLAIN] = "", [DOT_RELU] = "RELU", [DOT_GELU] = "GELU"};
  dims l = dims_of(g->dot, 0), r = dims_of(g->dot, 1);
  const char *act = names[g->activation];
  hs_buf b = {0};
  hs_buf_puts(&b, "{\"operation_queue_id\":\"0\",\"gemm_backend_config\":{\"alpha_real\":");
  pass_put_number(&b, g->alpha);
  hs_buf_printf(&b, ",\"alpha_imag\":0,\"beta\":%d,\"dot_dimension_numbers\":{", g->c != NULL);
  put_list(&b, "lhs_contracting_dimensions", l.contracting, ",");
  put_list(&b, "rhs_contracting_dimensions", r.contracting, ",");
  put_list(&b, "lhs_batch_dimensions", l.batch, ",");
  put_list(&b, "rhs_batch_dimensions", r.batch, "},\"precision_config\":{\"operand_precision\":[");
  put_precisions(&b, g->dot);
  hs_buf_printf(&b, "],\"algorithm\":\"ALG_UNSET\"},\"epilogue\":\"%s%s%s%s\"",
                g->bias ? "BIAS"
                : *act  ? ""
                        : "DEFAULT",
                g->bias && *act ? "_" : "", act, g->aux ? "_AUX" : "");
  hs_buf_printf(&b, ",\"lhs_stride\":\"%lld\",\"rhs_stride\":\"%lld\"",
                stride_of(hlo_operand(g->dot, 0), l.batch.n),
                stride_of(hlo_operand(g->dot, 1), r.batch.n));
  hs_buf_puts(&b, ",\"grad_x\":false,\"grad_y\":false,\"damax_output\":false},"
                  "\"force_earliest_schedule\":false}");
  hlo_backend_config *c = HS_NEW(&m->arena, hlo_backend_config);
  *c = (hlo_backend_config){{hs_arena_strndup(&m->arena, b.p, b.n), b.n}, true};
  hs_buf_free(&b);
  return c;
}

// The result may lie where c does: element 0 of the tuple is operand 2.
static const hlo_aliases *over_c(hlo_module *m) {
  i64 *zero = HS_NEW(&m->arena, i64);
  hlo_alias_entry *e = HS_NEW(&m->arena, hlo_alias_entry);
  hlo_aliases *all = HS_NEW(&m->arena, hlo_aliases);
  *zero = 0;
  *e = (hlo_alias_entry){.out_index = {1, zero}, .param = 2};
  *all = (hlo_aliases){1, e};
  return all;
}

static hlo_instr *viewed(hlo_instr *x, const hlo_shape *as, hlo_instr *before) {
  return x->shape == as ? x : hlo_add_before(before, HLO_BITCAST, as, 1, &x, NULL);
}

static void make_call(pass_ctx *p, const gemm *g) {
  hlo_module *m = p->m;
  hlo_instr *ops[4] = {hlo_operand(g->dot, 0), hlo_operand(g->dot, 1)};
  const hlo_shape *out = g->dot->shape, *parts[3] = {out, out};
  bool over = g->c && is_spent(g->c);
  u32 n = 2, np = g->aux ? 2 : 1;
  if (g->c) ops[n] = viewed(g->c, out, g->end), n++;
  if (g->bias) ops[n++] = g->bias;
  i64 space = pass_option_int(p, "workspace"), taken = 0;
  for (u32 k = 0; k < n; k++) taken = hs_add_sat_i64(taken, hlo_shape_bytes(ops[k]->shape));
  if (!g->lt && taken < space) space = taken;
  parts[np] = hlo_shape_array(m->ctx, HLO_S8, 1, &space);
  if (out->layout) parts[np] = hlo_shape_fill_layout(m->ctx, parts[np]);
  const char *target = g->lt ? "__cublas$lt$matmul" : "__cublas$gemm",
             *name = g->lt ? "cublas-lt-matmul" : "cublas-gemm";
  const hlo_shape *all = hlo_shape_tuple(m->ctx, np + 1, parts);
  hlo_instr *call = hlo_add_before(g->end, HLO_CUSTOM_CALL, all, n, ops, name);
  hlo_set_attr_str(call, HLO_ATTR_CUSTOM_CALL_TARGET, hs_str_of(target));
  hlo_set_attr_ptr(call, HLO_ATTR_BACKEND_CONFIG, config_of(m, g));
  if (over) hlo_set_attr_ptr(call, HLO_ATTR_OUTPUT_TO_OPERAND_ALIASING, over_c(m));
  const hlo_metadata *md = hlo_metadata_of(g->dot);
  if (md) hlo_set_attr_ptr(call, HLO_ATTR_METADATA, md);
  hlo_add_provenance(call, g->dot);
  pass_note_done(p, call, g->dot, "a call of %s", target);
  hlo_instr *first = hlo_add_gte(call, 0), *end = g->end, *aux = g->aux;
  hlo_move_before(first, end);
  if (aux) {
    hlo_instr *second = hlo_add_gte(call, 1);
    hlo_move_before(second, end);
    hlo_replace_uses(aux, viewed(second, aux->shape, end));
  }
  hlo_replace(end, viewed(first, end->shape, end));
  if (aux && !aux->dead) hlo_remove_dead(aux);
}

// ---- the pass -----------------------------------------------------------------------------------

static hs_status visit(pass_ctx *p, hlo_computation *c) {
  bool lt = pass_option_bool(p, "cublaslt");
  double threshold = (double)pass_option_int(p, "size_threshold");
  hlo_instr **order = hlo_post_order(c, p->scratch);
  u32 n = c->ninstrs;
  gelus all = {0};
  const hlo_instr *x;
  for (u32 k = 0; k < n; k++)
    if (order[k]->opcode == HLO_MULTIPLY && pass_dot_activation(order[k], &x) == DOT_GELU)
      hs_vec_push(&all, order[k]);
  hs_status s = HS_GOOD;
  for (u32 k = 0; k < n && hs_ok(s); k++) {
    if (order[k]->dead || order[k]->opcode != HLO_DOT) continue;
    gemm g = {.dot = order[k], .end = order[k], .alpha = 1};
    const char *why = refusal(g.dot, threshold, &g.lt);
    g.lt &= lt;
    if (why) {
      pass_note_declined(p, g.dot, NULL, "%s", why);
      continue;
    }
    if (!pass_may_rewrite(p)) break;
    while (step(&g, &all)) continue;
    make_call(p, &g);
    u32 left = 0;  // the gelus that are still there
    for (u32 j = 0; j < all.n; j++)
      if (!all.v[j]->dead) all.v[left++] = all.v[j];
    all.n = left;
    s = hs_poll();
  }
  hs_vec_free(&all);
  return s;
}

static hs_status run(pass_ctx *p) { return pass_fusion_each(p, visit); }

static const pass_option_info options[] = {
    {"cublaslt", PASS_BOOL, "true", "call cuBLASLt where it has the types, else cuBLAS"},
    {"size_threshold", PASS_INT, "100",
     "leave dots whose step count times the sum of rows and columns is below"},
    {"workspace", PASS_INT, "33554432", "bytes the library works in; 4194304 before Hopper"},
};

const pass_info pass_gemm_rewriter = {
    .name = "cublas-gemm-rewriter",
    .summary = "makes dots calls of cuBLASLt, with what is multiplied, added and applied to them",
    .xla_source = "xla/backends/gpu/transforms/gemm_rewriter.cc",
    .run = run,
    .needs = {HLO_DOT},
    .options = options,
    .noptions = HS_COUNT(options),
    .sample = "ENTRY e {\n"
              "  x = f32[8,8] parameter(0)\n"
              "  w = f32[8,16] parameter(1)\n"
              "  b = f32[16] parameter(2)\n"
              "  d = f32[8,16] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n"
              "  bs = f32[8,16] broadcast(b), dimensions={1}\n"
              "  s = f32[8,16] add(d, bs)\n"
              "  zero = f32[] constant(0)\n"
              "  zeros = f32[8,16] broadcast(zero), dimensions={}\n"
              "  ROOT r = f32[8,16] maximum(s, zeros)\n"
              "}\n",
};
