// cholesky_expander.c — cholesky_expander (xla/hlo/transforms/expanders/cholesky_expander.cc):
// cholesky becomes a call of a computation, one for each shape and triangle, that goes through the
// matrix in panels of `block` columns (Haidar et al., "High-performance Cholesky factorization for
// GPU-only execution", GPGPU-10, 2017, algorithm 1).
//
// Of a panel, what the columns to its left explain is subtracted; the square block on its diagonal
// is factorized column by column in a loop (Cholesky and Banachiewicz), and the rows below follow
// by a triangular solve. A column is (a - l*l') / its diagonal element, below the diagonal; a
// negative diagonal makes a NaN there, and any NaN makes the whole result NaN. An upper triangle is
// that of the transposed matrix, transposed.
#include <math.h>

#include "passes/run/rewrite.h"

// ---- small words --------------------------------------------------------------------------------
static hlo_ctx *ctx_of(const hlo_instr *x) { return x->parent->module->ctx; }
static const hlo_shape *as_laid_out(const hlo_instr *like, const hlo_shape *s) {
  return like->shape != like->shape->logical ? hlo_shape_fill_layout(ctx_of(like), s) : s;
}
static const hlo_shape *array(const hlo_instr *like, hlo_dtype t, u32 rank, const i64 *dims) {
  return as_laid_out(like, hlo_shape_array(ctx_of(like), t, rank, dims));
}
static hlo_instr *index_of(hlo_computation *c, i64 v) {
  return hlo_build_scalar_i64(c, HLO_S32, v);
}
static hlo_instr *filled(const hlo_instr *like, hlo_dtype t, const i64 *dims, double v) {
  return hlo_build_full(like->parent, array(like, t, like->shape->rank, dims), v);
}
static hlo_instr *conjugate(hlo_instr *x) {
  if (!hlo_dtype_is_complex(x->shape->dtype)) return x;
  hlo_instr *re = hlo_build_unary(HLO_REAL, x);
  return hlo_build_binary(HLO_COMPLEX, re,
                          hlo_build_unary(HLO_NEGATE, hlo_build_unary(HLO_IMAG, x)));
}
static hlo_instr *not_a_number(hlo_instr *x) { return hlo_build_compare(x, x, HLO_DIRECTION_NE); }

// Rows [r0, r1) and columns [c0, c1) of the matrices.
static hlo_instr *block(hlo_instr *x, i64 r0, i64 r1, i64 c0, i64 c1) {
  i64 from[HLO_MAX_RANK] = {0}, to[HLO_MAX_RANK];
  u32 n = x->shape->rank;
  for (u32 d = 0; d < n; d++) to[d] = x->shape->dims[d];
  from[n - 2] = r0, to[n - 2] = r1, from[n - 1] = c0, to[n - 1] = c1;
  return hlo_build_slice(x, from, to, NULL);
}
static hlo_instr *put_block(hlo_instr *into, hlo_instr *x, i64 row, i64 col) {
  u32 n = into->shape->rank;
  hlo_instr *ops[HLO_MAX_RANK + 2] = {into, x};
  for (u32 d = 0; d < n; d++)
    ops[d + 2] = index_of(into->parent, d == n - 2 ? row : d == n - 1 ? col : 0);
  return hlo_add(into->parent, HLO_DYNAMIC_UPDATE_SLICE, into->shape, n + 2, ops, NULL);
}

// x times the conjugate transpose of y, in full precision.
static hlo_instr *product(hlo_instr *x, hlo_instr *y) {
  static const hlo_frontend_entry marks[] = {
      {{"grad_x", 6}, {"false", 5}},
      {{"grad_y", 6}, {"false", 5}},
  };
  u32 n = x->shape->rank;
  i64 batch[HLO_MAX_RANK], dims[HLO_MAX_RANK], perm[HLO_MAX_RANK], last = n - 1;
  hlo_instr *ops[] = {x, conjugate(y)};
  for (u32 d = 0; d < n; d++) batch[d] = perm[d] = d, dims[d] = x->shape->dims[d];
  dims[n - 1] = y->shape->dims[n - 2];
  hlo_instr *dot = hlo_add(x->parent, HLO_DOT, array(x, x->shape->dtype, n, dims), 2, ops, NULL);
  hlo_set_attr_ints(dot, HLO_ATTR_LHS_BATCH_DIMS, n - 2, batch);
  hlo_set_attr_ints(dot, HLO_ATTR_LHS_CONTRACTING_DIMS, 1, &last);
  hlo_set_attr_ints(dot, HLO_ATTR_RHS_BATCH_DIMS, n - 2, batch);
  hlo_set_attr_ints(dot, HLO_ATTR_RHS_CONTRACTING_DIMS, 1, &last);
  hlo_set_attr_ints(dot, HLO_ATTR_OPERAND_PRECISION, 2,
                    (i64[]){HLO_PRECISION_HIGHEST, HLO_PRECISION_HIGHEST});
  // XLA's builder marks the products of its own that are not to be differentiated
  hs_arena *a = &x->parent->module->arena;
  hlo_frontend *f = HS_NEW(a, hlo_frontend);
  *f = (hlo_frontend){HS_COUNT(marks), marks};
  hlo_set_attr_ptr(dot, HLO_ATTR_FRONTEND_ATTRIBUTES, f);
  return hlo_build_transpose(dot, perm);
}

// Swaps rows and columns without moving anything.
static hlo_instr *flipped(hlo_instr *x) {
  u32 n = x->shape->rank;
  i64 perm[HLO_MAX_RANK];
  for (u32 d = 0; d < n; d++) perm[d] = d;
  perm[n - 2] = n - 1, perm[n - 1] = n - 2;
  hlo_instr *t = hlo_build_transpose(x, perm);
  if (!x->shape->layout || !pass_plain_layout(x->shape)) return t;
  hlo_layout l = *x->shape->layout;
  i64 order[HLO_MAX_RANK];
  for (u32 k = 0; k < n; k++) order[k] = perm[x->shape->layout->minor_to_major[k]];
  l.minor_to_major = order;
  hlo_set_shape(t, hlo_shape_with_layout(ctx_of(x), t->shape, hlo_layout_intern(ctx_of(x), &l)));
  return t;
}

// A value of one element for each matrix, [..., 1, 1], for all of its elements.
static hlo_instr *spread(hlo_instr *x, const hlo_shape *like) {
  i64 dims[HLO_MAX_RANK], where[HLO_MAX_RANK];
  u32 n = 0;
  for (u32 d = 0; d < like->rank; d++)
    if (x->shape->dims[d] == like->dims[d]) dims[n] = like->dims[d], where[n++] = d;
  if (n < like->rank) x = hlo_build_reshape(x, n, dims);
  return hlo_add_broadcast(x, hlo_shape_with_dtype(ctx_of(x), like, x->shape->dtype), n, where);
}

// The square root of [..., 1, 1], and whether it is a NaN.
static hlo_instr *root(hlo_instr *x, hlo_instr **bad) {
  bool complex = hlo_dtype_is_complex(x->shape->dtype);
  hlo_instr *r = hlo_build_unary(HLO_SQRT, complex ? hlo_build_unary(HLO_REAL, x) : x);
  *bad = not_a_number(r);
  if (!complex) return r;
  return hlo_build_binary(HLO_COMPLEX, r, filled(r, r->shape->dtype, r->shape->dims, 0));
}

// ---- a block on the diagonal --------------------------------------------------------------------
// The loop's state: column, matrix, factor, whether there was a NaN.
static void elements_of(hlo_instr *tuple, hlo_instr *out[4]) {
  for (u32 k = 0; k < 4; k++) out[k] = hlo_add_gte(tuple, k);
}

static hlo_computation *condition(hlo_module *m, const hlo_shape *state, i64 n) {
  hlo_computation *c = hlo_add_computation(m, "unblocked_condition");
  hlo_instr *v[4];
  elements_of(hlo_add_parameter(c, 0, state, "parameter"), v);
  hlo_set_root(c, hlo_build_compare(v[0], index_of(c, n), HLO_DIRECTION_LT));
  return c;
}

static hlo_instr *coordinate(const hlo_instr *like, i64 dim) {
  const hlo_shape *s = hlo_shape_with_dtype(ctx_of(like), like->shape, HLO_S32);
  hlo_instr *i = hlo_add(like->parent, HLO_IOTA, s, 0, NULL, NULL);
  hlo_set_attr_int(i, HLO_ATTR_IOTA_DIMENSION, dim);
  return i;
}

static hlo_computation *body(hlo_module *m, const hlo_shape *state) {
  hlo_computation *c = hlo_add_computation(m, "unblocked_body");
  hlo_instr *v[4], *bad;
  elements_of(hlo_add_parameter(c, 0, state, "parameter"), v);
  hlo_instr *at = v[0], *l = v[2];
  const hlo_shape *s = l->shape;
  u32 n = s->rank;
  hlo_instr *next = hlo_build_binary(HLO_ADD, at, index_of(c, 1));
  hlo_instr *row = coordinate(l, n - 1), *col = coordinate(l, n - 2);
  hlo_instr *below = hlo_build_compare(col, row, HLO_DIRECTION_GE);
  hlo_instr *here = hlo_add_broadcast(at, row->shape, 0, NULL);
  hlo_instr *mask =
      hlo_build_binary(HLO_AND, below, hlo_build_compare(row, here, HLO_DIRECTION_EQ));
  hlo_instr *zeros = hlo_build_full(c, s, 0);
  hlo_instr *rest = hlo_build_binary(HLO_SUBTRACT, v[1], product(l, l));
  hlo_instr *ops[HLO_MAX_RANK + 1] = {rest}, *zero = n > 2 ? index_of(c, 0) : NULL;
  i64 sizes[HLO_MAX_RANK];
  for (u32 d = 0; d < n; d++) {
    ops[d + 1] = d < n - 2 ? zero : at;
    sizes[d] = d < n - 2 ? s->dims[d] : 1;
  }
  hlo_instr *pivot = hlo_add(c, HLO_DYNAMIC_SLICE, array(l, s->dtype, n, sizes), n + 1, ops, NULL);
  hlo_set_attr_ints(pivot, HLO_ATTR_DYNAMIC_SLICE_SIZES, n, sizes);
  pivot = root(pivot, &bad);
  hlo_instr *seen = hlo_build_binary(HLO_OR, v[3], bad);
  hlo_instr *column = hlo_build_binary(HLO_DIVIDE, rest, spread(pivot, s));
  l = hlo_build_binary(HLO_ADD, hlo_build_select(mask, column, zeros), l);
  hlo_set_root(c, hlo_add_tuple(c, 4, (hlo_instr *const[]){next, v[1], l, seen}));
  return c;
}

static hlo_instr *factor_block(hlo_instr *x, const i64 *one_each, hlo_instr **bad) {
  hlo_computation *c = x->parent;
  hlo_module *m = c->module;
  hlo_instr *start = index_of(c, 0);
  hlo_instr *init[] = {start, x, filled(x, x->shape->dtype, x->shape->dims, 0),
                       filled(x, HLO_PRED, one_each, 0)};
  const hlo_shape *parts[4];
  for (u32 k = 0; k < 4; k++) parts[k] = as_laid_out(x, init[k]->shape);
  const hlo_shape *state = hlo_shape_tuple(m->ctx, 4, parts);
  hlo_instr *first = hlo_add_tuple(c, 4, init), *v[4];
  hlo_computation *cond = condition(m, state, x->shape->dims[x->shape->rank - 1]);
  hlo_instr *loop = hlo_add(c, HLO_WHILE, state, 1, &first, NULL);
  hlo_set_attr_comp(loop, HLO_ATTR_CONDITION, cond);
  hlo_set_attr_comp(loop, HLO_ATTR_BODY, body(m, state));
  elements_of(loop, v);
  *bad = v[3];
  return v[2];
}

// ---- the whole ----------------------------------------------------------------------------------
static hlo_instr *solve_below(hlo_instr *l, hlo_instr *rows) {
  hlo_instr *ops[] = {l, rows};
  hlo_instr *t = hlo_add(l->parent, HLO_TRIANGULAR_SOLVE, rows->shape, 2, ops, NULL);
  hlo_set_attr_int(t, HLO_ATTR_LOWER, true);
  hlo_set_attr_int(t, HLO_ATTR_TRANSPOSE_A, HLO_TRANSPOSE_ADJOINT);
  return t;
}

static hlo_instr *factor(hlo_instr *a, i64 width) {
  u32 rank = a->shape->rank;
  i64 n = a->shape->dims[rank - 1], one_each[HLO_MAX_RANK];
  for (u32 d = 0; d < rank; d++) one_each[d] = d < rank - 2 ? a->shape->dims[d] : 1;
  hlo_instr *l = filled(a, a->shape->dtype, a->shape->dims, 0),
            *seen = filled(a, HLO_PRED, one_each, 0);
  for (i64 i = 0; i < n; i += width) {
    i64 k = HS_MIN(width, n - i);
    hlo_instr *panel = block(a, i, n, i, i + k), *bad;
    if (i > 0) {
      hlo_instr *left = block(l, i, n, 0, i);
      panel = hlo_build_binary(HLO_SUBTRACT, panel, product(left, block(l, i, i + k, 0, i)));
    }
    hlo_instr *x = block(panel, 0, k, 0, k);
    x = k == 1 ? root(x, &bad) : factor_block(x, one_each, &bad);
    seen = hlo_build_binary(HLO_OR, seen, bad);
    l = put_block(l, x, i, i);
    if (i + k < n) l = put_block(l, solve_below(x, block(panel, k, n - i, 0, k)), i + k, i);
  }
  // one NaN is everybody's
  i64 same[HLO_MAX_RANK];
  for (u32 d = 0; d < rank; d++) same[d] = d;
  hlo_instr *all = hlo_add_broadcast(seen, seen->shape, rank, same);
  if (n > 1) all = spread(all, l->shape);
  hlo_instr *nan = filled(l, l->shape->dtype, l->shape->dims, (double)NAN);
  return hlo_build_select(all, nan, l);
}

static hlo_computation *factorization(hlo_module *m, const hlo_shape *shape, bool lower,
                                      i64 width) {
  hs_buf name = {0};
  hs_buf_puts(&name, "xla.cholesky_");
  hlo_shape_print(&name, shape, false);
  hs_buf_puts(&name, lower ? "_lower" : "_upper");
  for (char *p = name.p; p < name.p + name.n; p++)
    if (*p == '[' || *p == ']' || *p == ',') *p = '_';
  hlo_computation *c = hlo_add_computation(m, hs_buf_cstr(&name));
  hs_buf_free(&name);
  hlo_instr *a = hlo_add_parameter(c, 0, shape, "a");
  hlo_instr *l = factor(lower ? a : flipped(a), width);
  hlo_set_root(c, lower ? l : flipped(l));
  return c;
}

typedef struct made {
  const hlo_shape *shape;
  bool lower;
  hlo_computation *comp;
} made;
typedef HS_VEC(made) made_list;

static hlo_computation *find(made_list *l, hlo_module *m, const hlo_shape *shape, bool lower,
                             i64 width) {
  for (size_t k = 0; k < l->n; k++)
    if (l->v[k].shape == shape && l->v[k].lower == lower) return l->v[k].comp;
  made n = {shape, lower, factorization(m, shape, lower, width)};
  hs_vec_push(l, n);
  return n.comp;
}

// Each panel is written out, in some twenty instructions.
enum { MOST_PANELS = 1000 };

static hs_status run(pass_ctx *c) {
  made_list l = {0};
  i64 width = HS_MAX(1, pass_option_int(c, "block"));
  hlo_for_each_comp(comp, c->m) {
    if (hlo_is_fusion_comp(comp)) continue;
    hlo_for_each_instr_safe(i, comp) {
      if (i->opcode != HLO_CHOLESKY) continue;
      hlo_instr *a = hlo_operand(i, 0);
      if (pass_is_cut(a)) {
        pass_note_declined(c, i, NULL, "it has a dynamic dimension");
        continue;
      }
      if (!a->shape->elements) {
        pass_note_declined(c, i, NULL, "it has no elements");
        continue;
      }
      if ((a->shape->dims[a->shape->rank - 1] - 1) / width >= MOST_PANELS) {
        pass_note_declined(c, i, NULL, "it has more than %d panels", MOST_PANELS);
        continue;
      }
      if (!pass_may_rewrite(c)) goto done;
      pass_note_done(c, i, NULL, "expanded, in panels of %lld columns", (long long)width);
      hlo_computation *f = find(&l, c->m, a->shape, hlo_attr_int(i, HLO_ATTR_LOWER, false), width);
      const hlo_shape *s = a->shape->dtype == i->shape->dtype ? i->shape : f->root->shape;
      hlo_instr *l_of_a = hlo_add_call(comp, HLO_CALL, s, HLO_ATTR_TO_APPLY, f, 1, &a);
      hlo_replace(i, pass_as_stated(l_of_a, i->shape));
    }
  }
done:
  hs_vec_free(&l);
  return HS_GOOD;
}

static const pass_option_info options[] = {
    {"block", PASS_INT, "128", "columns of a panel"},
};

const pass_info pass_cholesky_expander = {
    .name = "cholesky_expander",
    .summary = "expands cholesky into loops, products and triangular solves",
    .xla_source = "xla/hlo/transforms/expanders/cholesky_expander.cc",
    .run = run,
    .needs = {HLO_CHOLESKY},
    .options = options,
    .noptions = HS_COUNT(options),
    .sample = "ENTRY e {\n"
              "  x = f32[3,3] constant({{4, 1, 2}, {1, 5, 3}, {2, 3, 6}})\n"
              "  ROOT l = f32[3,3] cholesky(x), lower=true\n"
              "}\n",
};
