// rules.c — rules of dynamic_padder for operations that compute, and the table of all rules.
//
// An elementwise operation has the sizes of its operands, the smallest where they differ; of two
// operands one that has a single element in use is repeated along those of the other. What reduces
// along a dynamic dimension gets its identity in place of what is not in use: the initial value of
// a reduction, zero for dots and convolutions. A sort gets the flag "in use" as its first key.
#include "passes/dynamic/dynamic.h"
#include "passes/simplify/algsimp.h"

bool dyn_refuse(dyn *d, const hlo_instr *i, const char *why) {
  d->at = i;
  d->why = why;
  return false;
}

bool dyn_replace(dyn *d, hlo_instr *i, hlo_instr *now) {
  hlo_dtype t = i->shape->dtype;
  // of operands in another precision
  if (hlo_shape_is_array(now->shape) && now->shape->dtype != t) {
    hlo_instr *as = hlo_build_convert(now, t);
    for (u32 k = 0; k < now->shape->rank; k++) dyn_set_size(d, as, 0, k, dyn_size(d, now, 0, k));
    now = as;
  }
  hlo_replace_uses(i, now);
  hs_vec_push(&d->replaced, i);
  return true;
}

static bool holds(hlo_ints v, i64 x) {
  for (u32 k = 0; k < v.n; k++)
    if (v.v[k] == x) return true;
  return false;
}

static i64 bound(const hlo_instr *i, u32 dim) { return i->shape->dims[dim]; }

// ---- elementwise --------------------------------------------------------------------------------
// x, its first element along a dimension repeated along it where `single` holds.
static hlo_instr *repeated(hlo_instr *x, u32 dim, hlo_instr *single) {
  const hlo_shape *s = x->shape;
  i64 start[HLO_MAX_RANK] = {0}, limit[HLO_MAX_RANK], dims[HLO_MAX_RANK], to[HLO_MAX_RANK];
  u32 n = 0;
  memcpy(limit, s->dims, s->rank * sizeof *limit);
  limit[dim] = 1;
  for (u32 k = 0; k < s->rank; k++)
    if (k != dim) dims[n] = s->dims[k], to[n++] = k;
  hlo_instr *first = hlo_build_reshape(hlo_build_slice(x, start, limit, NULL), n, dims);
  return hlo_build_select(dyn_spread(single, x), hlo_add_broadcast(first, s, n, to), x);
}

// Of two operands with different sizes along a dimension; returns the result's.
static hlo_instr *joined(hlo_instr *i, u32 dim, hlo_instr *x, hlo_instr *y) {
  hlo_instr *least = dyn_op(HLO_MINIMUM, x, y), *one = dyn_const(i->parent, 1);
  if (i->noperands != 2 || bound(i, dim) < 2) return least;
  hlo_instr *n[] = {x, y}, *single[2];
  for (u32 k = 0; k < 2; k++) single[k] = hlo_build_compare(n[k], one, HLO_DIRECTION_EQ);
  for (u32 k = 0; k < 2; k++) {
    hlo_instr *more = hlo_build_compare(n[!k], one, HLO_DIRECTION_GT);
    hlo_set_operand(i, k, repeated(hlo_operand(i, k), dim, dyn_op(HLO_AND, single[k], more)));
  }
  return hlo_build_select(single[0], y, hlo_build_select(single[1], x, least));
}

static bool elementwise(dyn *d, hlo_instr *i) {
  u32 rank = i->shape->rank;
  hlo_instr *size[HLO_MAX_RANK] = {0},
            **of = HS_NEW_ARRAY(d->c->scratch, hlo_instr *, i->noperands + 1);
  for (u32 j = 0; j < i->noperands; j++) of[j] = hlo_operand(i, j);
  for (u32 k = 0; k < rank; k++)
    for (u32 j = 0; j < i->noperands; j++) {
      hlo_instr *n = of[j]->shape->rank == rank ? dyn_size(d, of[j], 0, k) : NULL;
      if (!n || (size[k] && dyn_same(size[k], n))) continue;
      if (size[k] && d->equal_sizes) {
        d->fails = true;
        return dyn_refuse(d, i, "its operands' sizes are not known to be equal");
      }
      size[k] = size[k] ? joined(i, k, size[k], n) : n;
    }
  for (u32 k = 0; k < rank; k++) dyn_give(d, i, i, 0, k, size[k]);
  return true;
}

// Leaf by leaf the operand, or one operand for each leaf.
static bool same_leaves(dyn *d, hlo_instr *i) {
  for (u32 k = 0, n = hlo_shape_leaves(i->shape); k < n; k++)
    if (i->noperands == 1) dyn_give_leaf(d, i, i, k, hlo_operand(i, 0), k);
    else dyn_give_leaf(d, i, i, k, hlo_operand(i, k), 0);
  return true;
}

// Operand 0, beside which others say when.
static bool first_operand(dyn *d, hlo_instr *i) {
  for (u32 k = 0, n = hlo_shape_leaves(i->shape); k < n; k++)
    dyn_give_leaf(d, i, i, k, hlo_operand(i, 0), k);
  return true;
}

static bool tuple(dyn *d, hlo_instr *i) {
  for (u32 k = 0; k < i->noperands; k++) {
    u32 at = hlo_shape_leaf_offset(i->shape, k), n = hlo_shape_leaves(hlo_operand(i, k)->shape);
    for (u32 j = 0; j < n; j++) dyn_give_leaf(d, i, i, at + j, hlo_operand(i, k), j);
  }
  return true;
}

static bool element(dyn *d, hlo_instr *i) {
  hlo_instr *x = hlo_operand(i, 0);
  u32 at = hlo_shape_leaf_offset(x->shape, hlo_attr_int(i, HLO_ATTR_INDEX, 0));
  for (u32 k = 0, n = hlo_shape_leaves(i->shape); k < n; k++) dyn_give_leaf(d, i, i, k, x, at + k);
  return true;
}

// Same dimensions, whatever the elements.
static bool same_dims(dyn *d, hlo_instr *i) {
  const hlo_instr *x = hlo_operand(i, 0);
  bool same = hlo_shape_is_array(i->shape) && x->shape->rank == i->shape->rank;
  for (u32 k = 0; same && k < i->shape->rank; k++) same = bound(x, k) == bound(i, k);
  if (!same) return dyn_refuse(d, i, "it changes the dimensions");
  return dyn_give_leaf(d, i, i, 0, x, 0), true;
}

// Dimensions of the same place in memory have the same size.
static bool bitcast(dyn *d, hlo_instr *i) {
  const hlo_shape *to = i->shape, *from = hlo_operand(i, 0)->shape;
  if (!to->layout || !from->layout) return same_dims(d, i);
  bool same = to->rank == from->rank && to->dtype == from->dtype;
  for (int set = 0; set < 2 && same; set++)
    for (u32 k = 0; k < to->rank; k++) {
      u32 t = (u32)to->layout->minor_to_major[k], f = (u32)from->layout->minor_to_major[k];
      if (set) dyn_give(d, i, i, 0, t, dyn_size(d, hlo_operand(i, 0), 0, f));
      else same &= to->dims[t] == from->dims[f];
    }
  return same ? true : dyn_refuse(d, i, "it changes the dimensions");
}

// Of a value without operands all elements are in use.
static bool all_in_use(dyn *d, hlo_instr *i) { return (void)d, (void)i, true; }

static bool constant(dyn *d, hlo_instr *i) {
  const hlo_literal *l = hlo_constant_value(i);
  hlo_literal *now;
  if (!hlo_shape_is_array(i->shape)) return dyn_refuse(d, i, "it is a tuple");
  if (!l || l->elided) return dyn_refuse(d, i, "its value is elided");
  hs_status s = hlo_literal_new(dyn_static(d->c->m->ctx, i->shape), &now);
  if (!hs_ok(s)) return hs_status_drop(s), dyn_refuse(d, i, "there is no memory for its value");
  if (l->bytes) memcpy(now->data, l->data, l->bytes);
  for (u32 k = 0; l->dynamic_sizes && k < i->shape->rank; k++)
    dyn_set_size(d, i, 0, k, dyn_const(i->parent, l->dynamic_sizes[k]));
  hlo_set_attr(i, (hlo_attr){.id = HLO_ATTR_LITERAL, .v.literal = now});
  hlo_literal_unref(now);
  return true;
}

// ---- sizes --------------------------------------------------------------------------------------
static u32 size_dim(const hlo_instr *i) { return (u32)hlo_attr_ints(i, HLO_ATTR_DIMENSIONS).v[0]; }

// It stands for its operand with other sizes until the end. A type without dynamic dimensions does
// not keep it from having a size.
static bool set_size(dyn *d, hlo_instr *i) {
  hlo_instr *x = hlo_operand(i, 0), *n = dyn_clamped(hlo_operand(i, 1), bound(i, size_dim(i)));
  for (u32 k = 0; k < i->shape->rank; k++) dyn_set_size(d, i, 0, k, dyn_size(d, x, 0, k));
  dyn_set_size(d, i, 0, size_dim(i), n);
  for (u32 k = 0; k < i->shape->rank; k++)
    if (dyn_size(d, i, 0, k) && !hlo_dim_is_dynamic(i->shape, k)) dyn_hide(d, i, k);
  hs_vec_push(&d->views, i);
  return true;
}

static bool get_size(dyn *d, hlo_instr *i) {
  if (i->shape->dtype != HLO_S32) {
    d->fails = true;
    return dyn_refuse(d, i, "a size is an s32");
  }
  return dyn_replace(d, i, dyn_used(d, hlo_operand(i, 0), 0, size_dim(i)));
}

// ---- reductions ---------------------------------------------------------------------------------
// What does not count in a reduction of operand k of n; NULL: nothing is known not to.
static hlo_instr *neutral(hlo_instr *i, u32 k, u32 n) {
  hlo_instr *init = hlo_operand(i, n + k);
  hlo_dtype t = hlo_operand(i, k)->shape->dtype;
  hlo_opcode op = n == 1 ? pass_alg_reducer(hlo_attr_comp(i, HLO_ATTR_TO_APPLY)) : HLO_OP_INVALID;
  bool counts =
      (op == HLO_ADD || op == HLO_XOR || op == HLO_MULTIPLY) && !pass_alg_is_identity(op, init);
  if (counts && op == HLO_ADD && !hlo_dtype_has_zero(t)) return NULL;
  if (counts) return hlo_build_scalar_f64(i->parent, t, op == HLO_MULTIPLY);
  if (op == HLO_OP_INVALID && pass_alg_counts_init_again(i)) return NULL;
  return init->shape->dtype == t ? init : hlo_build_convert(init, t);
}

static const char no_neutral[] = "no value leaves its results as they are";

static bool reduce(dyn *d, hlo_instr *i) {
  u32 n = i->noperands / 2;
  hlo_ints dims = hlo_attr_ints(i, HLO_ATTR_DIMENSIONS);
  const hlo_instr *first = hlo_operand(i, 0);
  const hlo_shape *s = first->shape;
  for (u32 k = 0; k < n; k++) {
    hlo_instr *x = hlo_operand(i, k), *fill = NULL;
    for (u32 j = 0; j < s->rank; j++) {
      hlo_instr *size = holds(dims, j) ? dyn_size(d, first, 0, j) : NULL;
      if (size && !fill) fill = neutral(i, k, n);
      if (size && !fill) return dyn_refuse(d, i, no_neutral);
      if (size) x = dyn_mask(x, j, size, fill);
    }
    hlo_set_operand(i, k, x);
    for (u32 j = 0, to = 0; j < s->rank; j++)
      if (!holds(dims, j)) dyn_give(d, i, i, k, to++, dyn_size(d, first, 0, j));
  }
  return true;
}

static bool is_trivial(const hlo_window_dim *w) {
  return w->size == 1 && w->stride == 1 && !w->pad_low && !w->pad_high && w->lhs_dilate <= 1;
}

// How many windows fit where n elements are in use.
static hlo_instr *windows(hlo_instr *n, const hlo_window_dim *w) {
  hlo_computation *c = n->parent;
  i64 dilate = HS_MAX(w->lhs_dilate, 1), reach = (w->size - 1) * HS_MAX(w->rhs_dilate, 1) + 1;
  hlo_instr *base = dyn_op(HLO_SUBTRACT, n, dyn_const(c, 1));
  base = dyn_op(HLO_ADD, dyn_op(HLO_MULTIPLY, base, dyn_const(c, dilate)), dyn_const(c, 1));
  base = dyn_op(HLO_MAXIMUM, base, dyn_const(c, 0));
  // (base + low + high - reach) / stride + 1, at least 0: the division rounds towards zero
  hlo_instr *left =
      dyn_op(HLO_ADD, base, dyn_const(c, w->pad_low + w->pad_high - reach + w->stride));
  return dyn_op(HLO_DIVIDE, dyn_op(HLO_MAXIMUM, left, dyn_const(c, 0)), dyn_const(c, w->stride));
}

static bool reduce_window(dyn *d, hlo_instr *i) {
  u32 n = i->noperands / 2;
  const hlo_window *w = hlo_attr_ptr(i, HLO_ATTR_WINDOW);
  const hlo_instr *first = hlo_operand(i, 0);
  for (u32 k = 0; k < n; k++) {
    hlo_instr *x = hlo_operand(i, k), *fill = NULL;
    for (u32 j = 0; w && j < w->n; j++) {
      hlo_instr *size = dyn_size(d, first, 0, j);
      if (!size) continue;
      if (!is_trivial(&w->v[j]) || !dyn_states(i->shape, k, j)) {
        if (!fill) fill = neutral(i, k, n);
        if (!fill) return dyn_refuse(d, i, no_neutral);
        x = dyn_mask(x, j, size, fill);
        size = windows(size, &w->v[j]);
      }
      dyn_give(d, i, i, k, j, size);
    }
    hlo_set_operand(i, k, x);
  }
  return true;
}

// ---- products -----------------------------------------------------------------------------------
// How much is in use in both operands of a dimension that they share; NULL: all of it.
static hlo_instr *shared_size(dyn *d, hlo_instr *const *of, const i64 *dim) {
  hlo_instr *n[2];
  for (u32 k = 0; k < 2; k++) n[k] = dyn_size(d, of[k], 0, (u32)dim[k]);
  bool two = n[0] && n[1] && !dyn_same(n[0], n[1]);
  return two ? dyn_op(HLO_MINIMUM, n[0], n[1]) : n[0] ? n[0] : n[1];
}

// x with zeros where dimension dim is not in use; in f32 where its type has none.
static hlo_instr *zeroed(hlo_instr *x, i64 dim, hlo_instr *size) {
  if (!hlo_dtype_has_zero(x->shape->dtype)) x = hlo_build_convert(x, HLO_F32);
  return dyn_mask(x, dim, size, hlo_build_scalar_f64(x->parent, x->shape->dtype, 0));
}

// Masks a dimension over which two operands are multiplied and added.
static void contract(dyn *d, hlo_instr *const *of, hlo_instr **now, const i64 *dim) {
  hlo_instr *size = shared_size(d, of, dim);
  for (u32 k = 0; size && k < 2; k++) now[k] = zeroed(now[k], dim[k], size);
}

static bool dot(dyn *d, hlo_instr *i) {
  static const hlo_attr_id batch_dims[] = {HLO_ATTR_LHS_BATCH_DIMS, HLO_ATTR_RHS_BATCH_DIMS},
                           sum_dims[] = {HLO_ATTR_LHS_CONTRACTING_DIMS,
                                         HLO_ATTR_RHS_CONTRACTING_DIMS};
  hlo_instr *of[] = {hlo_operand(i, 0), hlo_operand(i, 1)}, *now[] = {of[0], of[1]};
  hlo_ints batch[2], sum[2];
  u32 to = 0;
  for (u32 k = 0; k < 2; k++)
    batch[k] = hlo_attr_ints(i, batch_dims[k]), sum[k] = hlo_attr_ints(i, sum_dims[k]);
  for (u32 j = 0; j < sum[0].n; j++) contract(d, of, now, (const i64[]){sum[0].v[j], sum[1].v[j]});
  for (u32 j = 0; j < batch[0].n; j++)
    dyn_give(d, i, i, 0, to++, shared_size(d, of, (const i64[]){batch[0].v[j], batch[1].v[j]}));
  for (u32 k = 0; k < 2; k++)
    for (u32 j = 0; j < of[k]->shape->rank; j++)
      if (!holds(batch[k], j) && !holds(sum[k], j))
        dyn_give(d, i, i, 0, to++, dyn_size(d, of[k], 0, j));
  for (u32 k = 0; k < 2; k++) hlo_set_operand(i, k, now[k]);
  return true;
}

bool dyn_convolution(dyn *d, hlo_instr *i) {
  const hlo_dim_labels *l = hlo_attr_ptr(i, HLO_ATTR_DIM_LABELS);
  const hlo_window *w = hlo_attr_ptr(i, HLO_ATTR_WINDOW);
  hlo_instr *of[] = {hlo_operand(i, 0), hlo_operand(i, 1)}, *now[] = {of[0], of[1]};
  bool groups = hlo_attr_int(i, HLO_ATTR_FEATURE_GROUP_COUNT, 1) != 1 ||
                hlo_attr_int(i, HLO_ATTR_BATCH_GROUP_COUNT, 1) != 1;
  if (groups) return dyn_refuse(d, i, "it works in groups");
  for (u32 k = 0; k < l->nspatial; k++)
    if (dyn_size(d, of[1], 0, (u32)l->rhs_spatial[k]))
      return dyn_refuse(d, i, "the window has a dynamic size");
  contract(d, of, now, (const i64[]){l->lhs_feature, l->rhs_input_feature});
  const i64 kept[] = {l->lhs_batch, l->rhs_output_feature}, to[] = {l->out_batch, l->out_feature};
  for (u32 k = 0; k < 2; k++) {
    hlo_instr *n = dyn_size(d, of[k], 0, (u32)kept[k]);
    if (n && !dyn_states(i->shape, 0, (u32)to[k])) now[k] = zeroed(now[k], kept[k], n);
    dyn_give(d, i, i, 0, (u32)to[k], n);
  }
  for (u32 k = 0; k < l->nspatial && w && k < w->n; k++) {
    u32 from = (u32)l->lhs_spatial[k];
    hlo_instr *n = dyn_size(d, of[0], 0, from);
    if (!n) continue;
    if (!is_trivial(&w->v[k]) || !dyn_states(i->shape, 0, (u32)l->out_spatial[k])) {
      now[0] = zeroed(now[0], from, n);
      n = windows(n, &w->v[k]);
    }
    dyn_give(d, i, i, 0, (u32)l->out_spatial[k], n);
  }
  for (u32 k = 0; k < 2; k++) hlo_set_operand(i, k, now[k]);
  return true;
}

// ---- sorts --------------------------------------------------------------------------------------
// The comparator over one more pair of flags: what is in use comes before what is not, of which
// none comes before another.
static hlo_computation *in_use_first(hlo_computation *f) {
  hlo_computation *g = hlo_clone_computation(f, f->name, NULL);
  hlo_ctx *ctx = f->module->ctx;
  const hlo_shape *s = hlo_shape_scalar(ctx, HLO_PRED);
  if (g->nparams && g->params[0]->shape->layout) s = hlo_shape_with_default_layout(ctx, s);
  hlo_instr *a = hlo_add_parameter(g, g->nparams, s, "in_use"),
            *b = hlo_add_parameter(g, g->nparams, s, "in_use"),
            *before = hlo_build_binary(HLO_AND, a, hlo_build_unary(HLO_NOT, b)),
            *both = hlo_build_binary(HLO_AND, a, b);
  hlo_set_root(g, hlo_build_binary(HLO_OR, before, hlo_build_binary(HLO_AND, both, g->root)));
  return g;
}

// Does a value state all of a dimension, of which its keys may have less in use? What is beyond
// them must stay where it is then.
static bool shows_all(const hlo_instr *sort, u32 dim) {
  bool all = false;
  for (u32 k = 0; k < sort->noperands; k++) all |= !dyn_states(sort->shape, k, dim);
  return all;
}

static bool sort(dyn *d, hlo_instr *i) {
  u32 n = i->noperands, dim = size_dim(i);
  hlo_instr *first = hlo_operand(i, 0), *size = dyn_size(d, first, 0, dim), *now = i;
  if (size) {
    hlo_instr **ops = HS_NEW_ARRAY(d->c->scratch, hlo_instr *, n + 1);
    const hlo_shape **shapes = HS_NEW_ARRAY(d->c->scratch, const hlo_shape *, n + 1);
    for (u32 k = 0; k < n; k++) ops[k] = hlo_operand(i, k);
    ops[n] = dyn_in_use(first, dim, size);
    for (u32 k = 0; k <= n; k++) shapes[k] = ops[k]->shape;
    hlo_instr *s =
        hlo_clone_instr(i->parent, i, hlo_shape_tuple(d->c->m->ctx, n + 1, shapes), n + 1, ops);
    hlo_set_attr_comp(s, HLO_ATTR_TO_APPLY, in_use_first(hlo_attr_comp(i, HLO_ATTR_TO_APPLY)));
    hlo_remove_attr(s, HLO_ATTR_SHARDING);
    if (shows_all(i, dim)) hlo_set_attr_int(s, HLO_ATTR_IS_STABLE, 1);
    for (u32 k = 0; k < n; k++)
      ops[k] = pass_as_stated(hlo_add_gte(s, k), hlo_shape_leaf(i->shape, k));
    now = hlo_shape_is_tuple(i->shape) ? hlo_add_tuple(i->parent, n, ops) : ops[0];
  }
  for (u32 k = 0; k < n; k++) {
    dyn_give_leaf(d, i, now, k, hlo_operand(i, k), 0);
    dyn_give(d, i, now, k, dim, size);  // as many of each as there are keys
  }
  return now == i ? true : dyn_replace(d, i, now);
}

// ---- rows that go through as they are -----------------------------------------------------------
// Batch dimensions keep their sizes; those that the operation works on must be static.
static bool batches(dyn *d, hlo_instr *i, u32 whole) {
  for (u32 k = 0; k < i->noperands; k++)
    for (u32 j = 0, r = hlo_operand(i, k)->shape->rank; j < r; j++)
      if (j + whole >= r && dyn_size(d, hlo_operand(i, k), 0, j))
        return dyn_refuse(d, i, "it works on a dynamic dimension");
  for (u32 k = 0, n = hlo_shape_leaves(i->shape); k < n; k++)
    if (hlo_shape_leaf(i->shape, k)->rank == hlo_operand(i, 0)->shape->rank)
      dyn_give_leaf(d, i, i, k, hlo_operand(i, 0), 0);
  return true;
}

static bool matrices(dyn *d, hlo_instr *i) { return batches(d, i, 2); }
static bool lines(dyn *d, hlo_instr *i) { return batches(d, i, 1); }
static bool transforms(dyn *d, hlo_instr *i) {
  return batches(d, i, hlo_attr_ints(i, HLO_ATTR_FFT_LENGTH).n);
}

// ---- the table ----------------------------------------------------------------------------------
static dyn_rule *const rules[HLO_OPCODE_COUNT] = {
    [HLO_ADD_DEPENDENCY] = first_operand,
    [HLO_BITCAST] = bitcast,
    [HLO_BITCAST_CONVERT] = same_dims,
    [HLO_BROADCAST] = dyn_broadcast,
    [HLO_CALL] = dyn_call,
    [HLO_CHOLESKY] = matrices,
    [HLO_CONCATENATE] = dyn_concatenate,
    [HLO_CONDITIONAL] = dyn_conditional,
    [HLO_CONSTANT] = constant,
    [HLO_CONVOLUTION] = dyn_convolution,
    [HLO_COPY] = same_leaves,
    [HLO_CUSTOM_CALL] = dyn_custom_call,
    [HLO_DOMAIN] = same_leaves,
    [HLO_DOT] = dot,
    [HLO_DYNAMIC_RESHAPE] = dyn_dynamic_reshape,
    [HLO_DYNAMIC_SLICE] = dyn_dynamic_slice,
    [HLO_DYNAMIC_UPDATE_SLICE] = dyn_dynamic_update_slice,
    [HLO_FFT] = transforms,
    [HLO_GATHER] = dyn_gather,
    [HLO_GET_DIMENSION_SIZE] = get_size,
    [HLO_GET_TUPLE_ELEMENT] = element,
    [HLO_IOTA] = all_in_use,
    [HLO_MAP] = elementwise,
    [HLO_OPT_BARRIER] = same_leaves,
    [HLO_PAD] = dyn_pad,
    [HLO_PARAMETER] = all_in_use,
    [HLO_REDUCE] = reduce,
    [HLO_REDUCE_WINDOW] = reduce_window,
    [HLO_RESHAPE] = dyn_reshape,
    [HLO_REVERSE] = dyn_reverse,
    [HLO_RNG] = all_in_use,
    [HLO_RNG_BIT_GENERATOR] = all_in_use,
    [HLO_SCATTER] = dyn_scatter,
    [HLO_SET_DIMENSION_SIZE] = set_size,
    [HLO_SLICE] = dyn_slice,
    [HLO_SORT] = sort,
    [HLO_TOPK] = lines,
    [HLO_TRANSPOSE] = dyn_transpose,
    [HLO_TRIANGULAR_SOLVE] = matrices,
    [HLO_TUPLE] = tuple,
    [HLO_WHILE] = dyn_while,
};

dyn_rule *dyn_rule_of(const hlo_instr *i) {
  if (rules[i->opcode]) return rules[i->opcode];
  bool each = hlo_op_has(i->opcode, HLO_F_ELEMENTWISE) && hlo_shape_is_array(i->shape);
  return each ? elementwise : NULL;
}
