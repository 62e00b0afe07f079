// algsimp.c — the algebraic simplifier's engine; the rules are in algsimp_*.c, one row each in
// algsimp_rules.def.
//
// The engine is a worklist: every instruction is visited once in topological order, and a rewrite
// enqueues the instructions it created, the users of the replaced one, and the operands that lost a
// user. So the work is linear in the number of rewrites. run_to_fixed_point=false visits only the
// instructions present at the start, once, like a single run of XLA's pass.
//
// Semantics follow XLA's AlgebraicSimplifier (xla/hlo/transforms/simplifiers/
// algebraic_simplifier.cc): x*0 is kept for floating point, x+0 becomes x, division by a constant
// becomes multiplication by its reciprocal, and rewrites that lose a NaN or an infinity require
// fast_math. Invariants of every rewrite: instructions with dynamic shapes are not changed, nor are
// those with control dependencies, except by rules that transfer them (RELAY); an existing
// instruction with a different sharding is no replacement; with layout_sensitive a replacement must
// have the same layout, otherwise new values get the layout of the replaced one.
#include "passes/simplify/algsimp.h"

#include "core/ir/async.h"

typedef struct alg_rule {
  hlo_opcode op;
  alg_rule_fn *fn;
  const char *name, *text;
  bool relays;
} alg_rule;
static const alg_rule rules[] = {
#define RULE(op, fn, text) {HLO_##op, pass_alg_##fn, #fn, text, false},
#define RELAY(op, fn, text) {HLO_##op, pass_alg_##fn, #fn, text, true},
#include "passes/simplify/algsimp_rules.def"
#undef RULE
#undef RELAY
};

// ---- matching -----------------------------------------------------------------------------------
static const hlo_instr *through_broadcast(const hlo_instr *i) {
  while (i->opcode == HLO_BROADCAST) i = hlo_operand(i, 0);
  return i;
}

static const hlo_literal *splat_of(const hlo_instr *i) {
  i = through_broadcast(i);
  if (i->opcode != HLO_CONSTANT || !hlo_shape_is_array(i->shape) || i->shape->elements < 1)
    return NULL;
  const hlo_literal *l = hlo_constant_value(i);
  if (!l || l->elided || !(i->shape->elements == 1 || hlo_literal_is_splat(l))) return NULL;
  return l;
}

bool pass_alg_all(const hlo_instr *i, double v) {
  const hlo_literal *l = splat_of(i);
  return l && !hlo_dtype_is_complex(l->shape->dtype) ? hlo_literal_f64(l, 0) == v
                                                     : l && hlo_literal_is_all_f64(l, v);
}

bool pass_alg_constant(const hlo_instr *i) {
  while (i->opcode == HLO_BROADCAST) i = hlo_operand(i, 0);
  return i->opcode == HLO_CONSTANT;
}

bool pass_alg_splat(const hlo_instr *i, double *v) {
  const hlo_literal *l = splat_of(i);
  if (!l || hlo_dtype_is_complex(l->shape->dtype)) return false;
  *v = hlo_literal_f64(l, 0);
  return true;
}

bool pass_alg_splat_int(const hlo_instr *i, i64 *v) {
  const hlo_literal *l = splat_of(i);
  if (!l || !(hlo_dtype_is_integer(l->shape->dtype) || l->shape->dtype == HLO_PRED)) return false;
  *v = hlo_literal_i64(l, 0);
  return true;
}

bool pass_alg_same(const hlo_instr *x, const hlo_instr *y) {
  if (x == y) return true;
  if (!hlo_shape_compatible(x->shape, y->shape) || x->opcode != y->opcode) return false;
  if (x->opcode == HLO_CONSTANT) {
    const hlo_literal *p = hlo_constant_value(x), *q = hlo_constant_value(y);
    return p && q && !p->elided && !q->elided && hlo_literal_equal(p, q);
  }
  if (x->opcode == HLO_BROADCAST) {
    hlo_ints d = alg_dims(x), e = alg_dims(y);
    return hlo_ints_equal(d, e) && pass_alg_same(hlo_operand(x, 0), hlo_operand(y, 0));
  }
  return false;
}

// Whether the value is > 0 (or NaN) for all inputs.
static bool positive(const alg *a, const hlo_instr *i, u32 *work) {
  if (++*work > 64 || (i->noperands && alg_is_complex(hlo_operand(i, 0)))) return false;
  switch (i->opcode) {
  case HLO_GET_TUPLE_ELEMENT: {
    const hlo_instr *c = hlo_operand(i, 0);
    return c->opcode == HLO_CUSTOM_CALL && *a->batchnorm_target &&
           hs_str_eq(hlo_attr_str(c, HLO_ATTR_CUSTOM_CALL_TARGET),
                     hs_str_of(a->batchnorm_target)) &&
           hlo_attr_int(i, HLO_ATTR_INDEX, -1) == 2;
  }
  case HLO_ABS:
  case HLO_RSQRT:
  case HLO_SQRT: return alg_is_float(i) && positive(a, hlo_operand(i, 0), work);
  case HLO_POWER: return alg_is_float(i) && positive(a, hlo_operand(i, 0), work);
  case HLO_MULTIPLY:
    return alg_is_float(i) && hlo_operand(i, 0) == hlo_operand(i, 1) &&
           positive(a, hlo_operand(i, 0), work);
  default: return false;
  }
}

i64 pass_alg_top_of(hlo_dtype t) {
  int bits = hlo_dtype_bits(t) - hlo_dtype_is_signed(t);
  return bits >= 63 ? INT64_MAX : ((i64)1 << bits) - 1;
}

// The same for >= 0. Integers wrap: |INT_MIN| and squares may be negative. `work` bounds the
// recursion, which shared operands would make exponential.
static bool nonnegative(const alg *a, const hlo_instr *i, u32 *work) {
  double v;
  if (++*work > 64 || (i->noperands && alg_is_complex(hlo_operand(i, 0)))) return false;
  const hlo_instr *x = i->noperands > 0 ? hlo_operand(i, 0) : NULL,
                  *y = i->noperands > 1 ? hlo_operand(i, 1) : NULL;
  switch (i->opcode) {
  case HLO_ABS: return alg_is_float(i) || nonnegative(a, x, work);
  case HLO_EXP: return alg_is_float(i);
  case HLO_MULTIPLY: return alg_is_float(i) && x == y;
  case HLO_IOTA:
    return !alg_is_int(i) || pass_alg_top_of(i->shape->dtype) >=
                                 i->shape->dims[hlo_attr_int(i, HLO_ATTR_IOTA_DIMENSION, 0)] - 1;
  case HLO_BROADCAST: return nonnegative(a, x, work);
  case HLO_CONSTANT:
    return i->shape->elements == 1 && pass_alg_splat(i, &v) && !signbit(v) && !isnan(v);
  case HLO_MINIMUM: return nonnegative(a, x, work) && (x == y || nonnegative(a, y, work));
  case HLO_MAXIMUM: return nonnegative(a, x, work) || (x != y && nonnegative(a, y, work));
  case HLO_POWER: return alg_is_float(i) && nonnegative(a, x, work);
  case HLO_SELECT: return nonnegative(a, y, work) && nonnegative(a, hlo_operand(i, 2), work);
  default: return positive(a, i, work);
  }
}

bool pass_alg_nonnegative(const alg *a, const hlo_instr *i) {
  u32 work = 0;
  return !alg_is_complex(i) && nonnegative(a, i, &work);
}

bool pass_alg_has(hlo_ints s, i64 v) {
  for (u32 k = 0; k < s.n; k++)
    if (s.v[k] == v) return true;
  return false;
}

bool pass_alg_sorted(u32 n, const i64 *v) {
  for (u32 k = 1; k < n; k++)
    if (v[k - 1] >= v[k]) return false;
  return true;
}

hlo_opcode pass_alg_reducer(const hlo_computation *c) {
  if (!c || c->nparams != 2) return HLO_OP_INVALID;
  return hlo_commutes_on(c->root, c->params[0], c->params[1]) ? c->root->opcode : HLO_OP_INVALID;
}

// Every bit set, where the literal's value is k.
static bool ones(hlo_dtype t, i64 k) {
  return hlo_dtype_is_signed(t) || hlo_dtype_bits(t) == 64 ? k == -1
                                                           : k == ((i64)1 << hlo_dtype_bits(t)) - 1;
}

bool pass_alg_is_identity(hlo_opcode op, const hlo_instr *v) {
  hlo_dtype t = v->shape->dtype;
  double x;
  i64 k;
  switch (op) {
  case HLO_ADD: return pass_alg_all(v, 0);
  case HLO_MULTIPLY: return pass_alg_all(v, 1);
  case HLO_OR:
  case HLO_XOR: return pass_alg_all(v, 0);
  case HLO_AND: return t == HLO_PRED ? pass_alg_all(v, 1) : pass_alg_splat_int(v, &k) && ones(t, k);
  case HLO_MAXIMUM:
    if (hlo_dtype_is_float(t)) return pass_alg_splat(v, &x) && x == -INFINITY;
    if (t == HLO_PRED || hlo_dtype_is_unsigned(t)) return pass_alg_all(v, 0);
    return pass_alg_splat_int(v, &k) &&
           k == (hlo_dtype_bits(t) == 64 ? INT64_MIN : -((i64)1 << (hlo_dtype_bits(t) - 1)));
  case HLO_MINIMUM:
    if (hlo_dtype_is_float(t)) return pass_alg_splat(v, &x) && x == INFINITY;
    if (t == HLO_PRED) return pass_alg_all(v, 1);
    if (hlo_dtype_is_unsigned(t)) return pass_alg_splat_int(v, &k) && ones(t, k);
    return pass_alg_splat_int(v, &k) &&
           k == (hlo_dtype_bits(t) == 64 ? INT64_MAX : ((i64)1 << (hlo_dtype_bits(t) - 1)) - 1);
  default: return false;
  }
}

// ---- building -----------------------------------------------------------------------------------
i64 *pass_alg_dims_new(alg *a, size_t n) { return HS_NEW_ARRAY(a->p->scratch, i64, n + 1); }

const hlo_shape *pass_alg_shape(alg *a, hlo_dtype t, u32 rank, const i64 *dims) {
  const hlo_shape *s = hlo_shape_array(a->m->ctx, t, rank, dims);
  bool layouts = a->at->shape->layout || (a->at->noperands && hlo_operand(a->at, 0)->shape->layout);
  return layouts ? hlo_shape_with_default_layout(a->m->ctx, s) : s;
}

// A shape of other sizes with the layout of x.
static const hlo_shape *lying_like(alg *a, const hlo_shape *x, const i64 *dims) {
  if (!x->layout) return pass_alg_shape(a, x->dtype, x->rank, dims);
  return hlo_shape_with_layout(a->m->ctx, hlo_shape_array(a->m->ctx, x->dtype, x->rank, dims),
                               x->layout);
}

hlo_instr *pass_alg_add(alg *a, hlo_opcode op, const hlo_shape *shape, u32 n,
                        hlo_instr *const *operands) {
  hlo_instr *i = hlo_add_before(a->at, op, shape, n, operands, NULL);
  hlo_add_provenance(i, a->at);
  const hlo_metadata *md = hlo_metadata_of(a->at);
  if (md) hlo_set_attr_ptr(i, HLO_ATTR_METADATA, md);
  return i;
}

hlo_instr *pass_alg_un(alg *a, hlo_opcode op, hlo_instr *x) {
  return pass_alg_add(a, op, x->shape, 1, &x);
}

hlo_instr *pass_alg_bin(alg *a, hlo_opcode op, hlo_instr *x, hlo_instr *y) {
  return pass_alg_add(a, op, x->shape, 2, (hlo_instr *[]){x, y});
}

hlo_instr *pass_alg_compare(alg *a, int direction, hlo_instr *x, hlo_instr *y) {
  hlo_instr *c = pass_alg_add(a, HLO_COMPARE, hlo_shape_with_dtype(a->m->ctx, x->shape, HLO_PRED),
                              2, (hlo_instr *[]){x, y});
  hlo_set_attr_int(c, HLO_ATTR_DIRECTION, direction);
  return c;
}

hlo_instr *pass_alg_select(alg *a, hlo_instr *p, hlo_instr *t, hlo_instr *f) {
  return pass_alg_add(a, HLO_SELECT, t->shape, 3, (hlo_instr *[]){p, t, f});
}

hlo_instr *pass_alg_convert(alg *a, hlo_instr *x, hlo_dtype t) {
  if (x->shape->dtype == t) return x;
  return pass_alg_add(a, HLO_CONVERT, hlo_shape_with_dtype(a->m->ctx, x->shape, t), 1, &x);
}

hlo_instr *pass_alg_broadcast(alg *a, hlo_instr *x, const hlo_shape *shape, u32 n,
                              const i64 *dims) {
  hlo_instr *b = pass_alg_add(a, HLO_BROADCAST, shape, 1, &x);
  hlo_set_attr_ints(b, HLO_ATTR_DIMENSIONS, n, dims);
  return b;
}

hlo_instr *pass_alg_spread(alg *a, hlo_instr *x, const hlo_shape *shape) {
  x = pass_alg_convert(a, x, shape->dtype);
  return shape->rank == 0 ? x : pass_alg_broadcast(a, x, shape, 0, NULL);
}

hlo_instr *pass_alg_reshape_to(alg *a, hlo_instr *x, const hlo_shape *shape) {
  if (hlo_shape_compatible(x->shape, shape)) return x;
  return pass_alg_add(a, HLO_RESHAPE, shape, 1, &x);
}

hlo_instr *pass_alg_reshape(alg *a, hlo_instr *x, u32 rank, const i64 *dims) {
  return pass_alg_reshape_to(a, x, pass_alg_shape(a, x->shape->dtype, rank, dims));
}

hlo_instr *pass_alg_transpose(alg *a, hlo_instr *x, const i64 *perm) {
  u32 n = x->shape->rank;
  bool identity = true;
  i64 *dims = pass_alg_dims_new(a, n);
  for (u32 k = 0; k < n; k++) {
    dims[k] = x->shape->dims[perm[k]];
    identity &= perm[k] == (i64)k;
  }
  if (identity) return x;
  hlo_instr *t = pass_alg_add(a, HLO_TRANSPOSE, pass_alg_shape(a, x->shape->dtype, n, dims), 1, &x);
  hlo_set_attr_ints(t, HLO_ATTR_DIMENSIONS, n, perm);
  return t;
}

i64 pass_alg_multiples(const hlo_literal *l) {
  i64 n = l->shape->elements;
  if (n < 2 || hlo_literal_i64(l, 0) != 0) return 0;
  i64 step = hlo_literal_i64(l, 1);
  for (i64 k = 2; k < n; k++)
    if ((u64)hlo_literal_i64(l, k) != (u64)k * (u64)step) return 0;
  return step;
}

hlo_instr *pass_alg_slice(alg *a, hlo_instr *x, const hlo_slice_dim *d) {
  u32 n = x->shape->rank;
  bool all = true;
  i64 *dims = pass_alg_dims_new(a, n);
  for (u32 k = 0; k < n; k++) {
    i64 len = d[k].limit - d[k].start;
    dims[k] = len <= 0 ? 0 : 1 + (len - 1) / d[k].stride;
    all &= dims[k] == x->shape->dims[k];
  }
  if (all) return x;
  hlo_instr *s = pass_alg_add(a, HLO_SLICE, lying_like(a, x->shape, dims), 1, &x);
  hlo_slices *v = HS_NEW(&a->m->arena, hlo_slices);
  v->n = n;
  v->v = hs_arena_dup(&a->m->arena, d, n * sizeof *d);
  hlo_set_attr_ptr(s, HLO_ATTR_SLICE, v);
  return s;
}

hlo_instr *pass_alg_pad(alg *a, hlo_instr *x, hlo_instr *value, const hlo_pad_dim *d) {
  u32 n = x->shape->rank;
  i64 *dims = pass_alg_dims_new(a, n);
  for (u32 k = 0; k < n; k++) {
    i64 e = x->shape->dims[k];
    i64 spread = hs_add_sat_i64(e, hs_mul_sat_i64(HS_MAX(e - 1, 0), d[k].interior));
    dims[k] = HS_MAX(0, hs_add_sat_i64(spread, hs_add_sat_i64(d[k].low, d[k].high)));
  }
  hlo_instr *s =
      pass_alg_add(a, HLO_PAD, lying_like(a, x->shape, dims), 2, (hlo_instr *[]){x, value});
  hlo_padding *v = HS_NEW(&a->m->arena, hlo_padding);
  v->n = n;
  v->v = hs_arena_dup(&a->m->arena, d, n * sizeof *d);
  hlo_set_attr_ptr(s, HLO_ATTR_PADDING, v);
  return s;
}

hlo_instr *pass_alg_reverse(alg *a, hlo_instr *x, u32 n, const i64 *dims) {
  if (n == 0) return x;
  hlo_instr *r = pass_alg_un(a, HLO_REVERSE, x);
  hlo_set_attr_ints(r, HLO_ATTR_DIMENSIONS, n, dims);
  return r;
}

hlo_instr *pass_alg_concat(alg *a, u32 n, hlo_instr *const *parts, i64 dim) {
  if (n == 1) return parts[0];
  const hlo_shape *s = parts[0]->shape;
  i64 *dims = pass_alg_dims_new(a, s->rank);
  memcpy(dims, s->dims, s->rank * sizeof *dims);
  for (u32 k = 1; k < n; k++) dims[dim] += parts[k]->shape->dims[dim];
  hlo_instr *c = pass_alg_add(a, HLO_CONCATENATE, lying_like(a, s, dims), n, parts);
  hlo_set_attr_ints(c, HLO_ATTR_DIMENSIONS, 1, &dim);
  return c;
}

hlo_instr *pass_alg_reduce(alg *a, hlo_instr *x, hlo_instr *init, u32 n, const i64 *dims,
                           hlo_computation *f) {
  const hlo_shape *s = x->shape;
  i64 *kept = pass_alg_dims_new(a, s->rank), *number = pass_alg_dims_new(a, s->rank),
      *order = pass_alg_dims_new(a, s->rank);
  u32 r = 0, at = 0;
  for (u32 k = 0; k < s->rank; k++) {
    number[k] = pass_alg_has((hlo_ints){n, dims}, k) ? -1 : (i64)r;
    if (number[k] >= 0) kept[r++] = s->dims[k];
  }
  const hlo_shape *out = pass_alg_shape(a, s->dtype, r, kept);
  // the remaining dimensions keep their order in memory
  if (s->layout && out->layout) {
    for (u32 k = 0; k < s->rank; k++)
      if (number[s->layout->minor_to_major[k]] >= 0)
        order[at++] = number[s->layout->minor_to_major[k]];
    hlo_layout l = *out->layout;
    l.minor_to_major = order;
    out = hlo_shape_with_layout(a->m->ctx, out, hlo_layout_intern(a->m->ctx, &l));
  }
  hlo_instr *q = pass_alg_add(a, HLO_REDUCE, out, 2, (hlo_instr *[]){x, init});
  hlo_set_attr_ints(q, HLO_ATTR_DIMENSIONS, n, dims);
  hlo_set_attr_comp(q, HLO_ATTR_TO_APPLY, f);
  return q;
}

hlo_instr *pass_alg_like(alg *a, const hlo_instr *like, const hlo_shape *shape, u32 n,
                         hlo_instr *const *operands) {
  hlo_instr *i = pass_alg_add(a, like->opcode, shape, n, operands);
  hlo_copy_attrs(i, like);
  hlo_remove_attr(i, HLO_ATTR_SHARDING);
  hlo_remove_attr(i, HLO_ATTR_ORIGIN);
  hlo_add_provenance(i, like);
  return i;
}

hlo_instr *pass_alg_dslice(alg *a, hlo_instr *x, hlo_instr *const *starts, const i64 *sizes) {
  u32 n = x->shape->rank;
  if (n == 0) return x;
  hlo_instr **ops = HS_NEW_ARRAY(a->p->scratch, hlo_instr *, n + 1);
  ops[0] = x;
  memcpy(ops + 1, starts, n * sizeof *ops);
  hlo_instr *d = pass_alg_add(a, HLO_DYNAMIC_SLICE, lying_like(a, x->shape, sizes), n + 1, ops);
  hlo_set_attr_ints(d, HLO_ATTR_DYNAMIC_SLICE_SIZES, n, sizes);
  return d;
}

hlo_instr *pass_alg_literal(alg *a, hlo_literal *take) {
  hlo_instr *c = hlo_add_constant(a->at->parent, take, NULL);
  hlo_move_before(c, a->at);
  hlo_add_provenance(c, a->at);
  return c;
}

hlo_instr *pass_alg_scalar(alg *a, hlo_dtype t, double v) {
  // an integer is cut to the type's width, so that one is -1 in s1; a real number is clamped
  if (hlo_dtype_is_integer(t) && v == (double)(i64)v) return pass_alg_scalar_int(a, t, (i64)v);
  return pass_alg_literal(a, hlo_literal_scalar_f64(a->m->ctx, t, v));
}
hlo_instr *pass_alg_scalar_int(alg *a, hlo_dtype t, i64 v) {
  return pass_alg_literal(a, hlo_literal_scalar_i64(a->m->ctx, t, v));
}
hlo_instr *pass_alg_full(alg *a, const hlo_shape *s, double v) {
  return pass_alg_spread(a, pass_alg_scalar(a, s->dtype, v), s);
}
hlo_instr *pass_alg_full_int(alg *a, const hlo_shape *s, i64 v) {
  return pass_alg_spread(a, pass_alg_scalar_int(a, s->dtype, v), s);
}

// ---- the engine ---------------------------------------------------------------------------------
typedef struct work {
  HS_VEC(hlo_instr *) queue;
  size_t head;
  HS_VEC(u8) queued;  // by instruction id
} work;

static void push(work *w, hlo_instr *i) {
  while (w->queued.n <= i->id) hs_vec_push(&w->queued, 0);
  if (i->dead || w->queued.v[i->id]) return;
  w->queued.v[i->id] = 1;
  hs_vec_push(&w->queue, i);
}

// Enqueues the instructions that the rule created (ids from `first` on), operands before users.
static void push_new(work *w, hlo_instr *i, u32 first) {
  if (i->id < first || i->dead) return;
  for (u32 k = 0; k < i->noperands; k++) push_new(w, hlo_operand(i, k), first);
  push(w, i);
}

static void push_neighbours(work *w, hlo_instr *i) {
  hlo_for_each_use(u, i) push(w, u->user);
  for (u32 k = 0; k < i->noperands; k++) push(w, hlo_operand(i, k));
}

// Starts a run restricted to the instructions edited since the previous one; false when everything
// must be visited.
static bool push_edited(pass_ctx *p, work *w) {
  hlo_instr **v;
  u32 n;
  if (!pass_edited(p, &v, &n)) return false;
  for (u32 k = 0; k < n; k++) {
    if (hlo_is_fusion_comp(v[k]->parent)) continue;
    push(w, v[k]);
    if (!v[k]->dead) push_neighbours(w, v[k]);
    // has one user less
    for (u32 o = 0; v[k]->dead && o < v[k]->noperands; o++) push(w, hlo_operand(v[k], o));
  }
  return true;
}

static bool eligible(const hlo_instr *i) {
  if (i->opcode == HLO_PARAMETER) return false;
  if (i->opcode == HLO_CUSTOM_CALL) return true;
  if (hlo_shape_is_dynamic(i->shape) || pass_reads_cut(i)) return false;
  // an operand ends a size that its own operand has or hides, and rules would look past it
  for (u32 k = 0; k < i->noperands; k++) {
    const hlo_instr *x = hlo_operand(i, k);
    bool moves = hlo_op_has(x->opcode, HLO_F_MOVEMENT);
    for (u32 j = 0; j < x->noperands; j++)
      if (moves ? pass_is_cut(hlo_operand(x, j)) : pass_hides_size(hlo_operand(x, j))) return false;
  }
  return true;
}

// Operations whose result may have any layout, whatever those of the operands are.
static bool any_order(hlo_opcode op) {
  return op == HLO_TRANSPOSE || op == HLO_RESHAPE || op == HLO_COPY || op == HLO_BROADCAST ||
         op == HLO_IOTA;
}

// Whether `now` may replace `old` with respect to layouts; a new value gets old's layout when
// layouts are not final, or when it may have any.
static bool layouts_fit(const alg *a, const hlo_instr *old, hlo_instr *now, bool fresh) {
  if (now->shape == old->shape) return true;
  if (fresh && a->layout_sensitive && any_order(now->opcode)) {
    hlo_set_shape(now, old->shape);
    return true;
  }
  if (!a->layout_sensitive) {
    if (fresh && hlo_shape_is_array(old->shape)) hlo_set_shape(now, old->shape);
    hlo_for_each_use(u, old)
      // reads its operand as it lies in memory
      if (!fresh && u->user->opcode == HLO_BITCAST) return false;
    return fresh || !(hlo_is_root(old) && old->parent == a->m->entry) || !old->shape->layout;
  }
  return false;
}

// Whether `now` may replace `old` with respect to shardings: two different ones must both be kept.
static bool shardings_fit(const hlo_instr *old, const hlo_instr *now) {
  const hlo_attr *x = hlo_attr_get(old, HLO_ATTR_SHARDING),
                 *y = hlo_attr_get(now, HLO_ATTR_SHARDING);
  return !x || !y || hlo_attr_equal(x, y);
}

static void index_rules(alg *a) {
  for (u32 k = HS_COUNT(rules); k-- > 0;) a->first_rule[rules[k].op] = (u16)(k + 1);
}

static const alg_rule *first_rule(const alg *a, hlo_opcode op) {
  return a->first_rule[op] ? &rules[a->first_rule[op] - 1] : NULL;
}

// Of every elementwise operation. First where the broadcasts stood from the start, as XLA does when
// it comes by them; where a rewrite made one, after what may be simpler.
static const alg_rule sink = {HLO_OP_INVALID, pass_alg_sink_broadcast, "sink_broadcast",
                              "op(broadcast(A), broadcast(B)) = broadcast(op(A, B))", false};

static bool sinks(const hlo_instr *i) {
  return hlo_op_has(i->opcode, HLO_F_ELEMENTWISE) || i->opcode == HLO_BITCAST_CONVERT;
}

static bool sinks_first(const alg *a, const hlo_instr *i) {
  if (!sinks(i)) return false;
  for (u32 k = 0; k < i->noperands; k++)
    if (hlo_operand(i, k)->opcode != HLO_BROADCAST || hlo_operand(i, k)->id >= a->born)
      return false;
  return i->noperands != 0;
}

// The rule to try on i after r (NULL: the first); NULL at the end.
static const alg_rule *next_rule(const alg *a, const hlo_instr *i, const alg_rule *r, bool sunk) {
  if (!r && sinks_first(a, i)) return &sink;
  if (r == &sink && !sunk) return NULL;
  const alg_rule *own = r && r != &sink ? r + 1 : first_rule(a, i->opcode);
  if (own && own < rules + HS_COUNT(rules) && own->op == i->opcode) return own;
  return !sunk && sinks(i) ? &sink : NULL;
}

static bool differ_in_precision(const hlo_shape *x, const hlo_shape *y) {
  return hlo_shape_is_array(x) && hlo_shape_is_array(y) && hlo_shape_same_dims(x, y) &&
         hlo_dtype_is_float(x->dtype) && hlo_dtype_is_float(y->dtype);
}

// Of numbers without a sign and a zero (E8M0) few laws of arithmetic hold: -(-A) is no number.
static bool is_lawless(const hlo_instr *i) {
  return hlo_shape_is_array(i->shape) && hlo_op_has(i->opcode, HLO_F_ELEMENTWISE) &&
         i->opcode != HLO_CONVERT && i->opcode != HLO_SELECT && i->opcode != HLO_COPY &&
         hlo_dtypes[i->shape->dtype].format.top == HLO_TOP_E8M0;
}

// Tries the rules of i's opcode; *changed when one fired.
static hs_status simplify_one(alg *a, hlo_instr *i, work *w, bool requeue, bool *changed) {
  *changed = a->stop = false;
  if (is_lawless(i)) return HS_GOOD;
  bool bound = hlo_is_controlled(i);
  bool sunk = sinks_first(a, i);
  for (const alg_rule *r = NULL; !a->stop && (r = next_rule(a, i, r, sunk));) {
    if (bound && !r->relays) continue;
    u32 first = a->m->next_instr_id;
    size_t mark = hlo_journal_mark(a->m);
    a->at = i;
    hlo_instr *now = r->fn(a, i);
    if (!now) continue;
    if (now == i) {
      *changed = true;
      if (!pass_may_rewrite(a->p)) return HS_GOOD;
      pass_note_done(a->p, i, NULL, "%s", r->text);
      if (requeue) push(w, i), push_neighbours(w, i);
      return HS_GOOD;
    }
    bool fresh = now->id >= first;
    if (!hlo_shape_compatible(now->shape, i->shape)) {
      // mixed precision: an operand has another element type, and the rule keeps it
      if (!fresh || differ_in_precision(now->shape, i->shape)) {
        if (hlo_changed_since(a->m, mark)) hlo_journal_rollback(a->m, mark);
        continue;
      }
      return hs_fail_subject(HS_E_INTERNAL, r->name, "algsimp: rule %s changed the shape of %%%s",
                             r->name, i->name);
    }
    if (!fresh && !shardings_fit(i, now)) {
      pass_note_declined(a->p, i, now, "not simplified (%s): the shardings differ", r->text);
      if (hlo_changed_since(a->m, mark)) hlo_journal_rollback(a->m, mark);
      continue;
    }
    if (!layouts_fit(a, i, now, fresh)) {
      pass_note_declined(a->p, i, now, "not simplified (%s): the layouts differ", r->text);
      if (hlo_changed_since(a->m, mark)) hlo_journal_rollback(a->m, mark);
      continue;
    }
    if (!pass_may_rewrite(a->p)) {
      if (hlo_changed_since(a->m, mark)) hlo_journal_rollback(a->m, mark);
      return HS_GOOD;
    }
    pass_note_done(a->p, now, i, "%s", r->text);
    const hlo_attr *sharding = hlo_attr_get(i, HLO_ATTR_SHARDING);
    if (sharding && !hlo_attr_get(now, HLO_ATTR_SHARDING)) hlo_set_attr(now, *sharding);
    // of the value, whatever computes it
    static const hlo_attr_id said[] = {HLO_ATTR_FRONTEND_ATTRIBUTES, HLO_ATTR_ORIGIN};
    for (size_t k = 0; k < HS_COUNT(said) && fresh; k++)
      if (hlo_attr_get(i, said[k]) && !hlo_attr_get(now, said[k]))
        hlo_set_attr(now, *hlo_attr_get(i, said[k]));
    if (requeue) push_neighbours(w, i), push_new(w, now, first), push(w, now);
    hlo_replace(i, now);
    *changed = true;
    return HS_GOOD;
  }
  return HS_GOOD;
}

static alg read_options(pass_ctx *p) {
#define READ_BOOL pass_option_bool
#define READ_INT pass_option_int
#define READ_FLOAT pass_option_float
#define READ_TEXT pass_option_text
#define OPTION(type, field, name, value, meaning) .field = READ_##type(p, name),
  alg a = {
      .p = p,
      .m = p->m,
      .born = p->m->next_instr_id,
#include "passes/simplify/algsimp_options.def"
  };
#undef OPTION
#undef READ_BOOL
#undef READ_INT
#undef READ_FLOAT
#undef READ_TEXT
  a.layout_sensitive |= a.is_layout_sensitive;
  a.fast_math |= a.enable_fast_math;
  return a;
}

// Processes the queue until it is empty.
static hs_status drain(alg *a, work *w, i64 *budget) {
  *budget += 64 * (i64)w->queue.n;
  while (w->head<w->queue.n && * budget> 0 &&
         (a->p->rewrite_limit < 0 || a->p->rewrites < a->p->rewrite_limit)) {
    hlo_instr *i = w->queue.v[w->head];
    w->head++;
    w->queued.v[i->id] = 0;
    if (i->dead || !eligible(i)) continue;
    bool changed;
    HS_TRY(simplify_one(a, i, w, a->fixed_point, &changed));
    if ((w->head & 1023) == 0) HS_TRY(hs_poll());
    *budget -= changed;
  }
  w->head = w->queue.n = 0;
  return hs_poll();
}

static hs_status run(pass_ctx *p) {
  alg a = read_options(p);
  index_rules(&a);
  work w = {0};
  u8 *async = NULL;
  hlo_call_list calls = p->m->nops[HLO_ASYNC_START] ? pass_calls(p) : (hlo_call_list){0};
  for (u32 k = 0; k < calls.n; k++) {
    const hlo_computation *work_of =
        calls.v[k]->opcode == HLO_ASYNC_START ? hlo_async_wrapped(calls.v[k]) : NULL;
    if (!work_of) continue;
    if (!async) a.async = async = HS_NEW_ARRAY(p->scratch, u8, p->m->next_comp_id);
    async[work_of->id] = 1;
  }
  // A bound in case two rules undo each other; legitimate rewrites stay far below it.
  i64 budget = 1000;
  hs_status s = HS_GOOD;
  if (push_edited(p, &w)) {
    s = drain(&a, &w, &budget);
  } else {  // one computation after another, operands first
    u32 n;
    hlo_computation **comps = pass_comp_post_order(p, &n);
    for (u32 k = 0; k < n && hs_ok(s) && budget > 0; k++) {
      if (hlo_is_fusion_comp(comps[k]) || comps[k]->dead) continue;
      hlo_instr **v = pass_post_order(p, comps[k]);
      for (u32 j = 0, ni = comps[k]->ninstrs; j < ni; j++) push(&w, v[j]);
      s = drain(&a, &w, &budget);
    }
  }
  if (budget <= 0)
    pass_note_declined(p, NULL, NULL, "stopped: too many rewrites, two rules undo each other");
  hs_vec_free(&a.merged);
  hs_vec_free(&w.queue);
  hs_vec_free(&w.queued);
  return s;
}

static const pass_option_info options[] = {
#define OPTION(type, field, name, value, meaning) {name, PASS_##type, value, meaning},
#include "passes/simplify/algsimp_options.def"
#undef OPTION
};

const pass_info pass_algsimp = {
    .name = "algsimp",
    .summary = "local rewrites of arithmetic, data movement, products and reductions",
    .xla_source = "xla/hlo/transforms/simplifiers/algebraic_simplifier.cc",
    .run = run,
    .again = true,
    .options = options,
    .noptions = HS_COUNT(options),
    .sample = "ENTRY e {\n"
              "  x = f32[2,3] parameter(0)\n"
              "  t = f32[3,2] transpose(x), dimensions={1,0}\n"
              "  u = f32[2,3] transpose(t), dimensions={1,0}\n"
              "  four = f32[] constant(4)\n"
              "  fours = f32[2,3] broadcast(four), dimensions={}\n"
              "  ROOT y = f32[2,3] divide(u, fours)\n"
              "}\n",
};
