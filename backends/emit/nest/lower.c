// lower.c — HLO -> loop nest: the value of one element of one instruction, asked for by index
// expressions.
//
// lower_value(frame, instruction, leaf, indices, guard) gives the nodes of that element. Data
// movement rewrites the indices (lower_move.c), elementwise operations become nodes, reductions
// open loops (lower_reduce.c). Results are memoized per (frame, instruction, leaf, guard, indices),
// so that shared subexpressions stay shared and the work is linear in the number of distinct
// elements asked for. A kernel has one stage per distinct shape of its results.
#include "backends/emit/nest/lower.h"

typedef struct lower_memo lower_memo;
struct lower_memo {
  lower_memo *chain;
  u64 hash;
  const lower_frame *f;
  const hlo_instr *i;
  u32 leaf, guard, rank;
  nest_val val;
  const nest_expr *idx[];
};

// A kernel holds at most MAX_NODES nodes: guards multiply the elements asked for (concatenations of
// concatenations), and a kernel that large should be several.
enum { MAX_DEPTH = 2500, MAX_NODES = 1 << 18 };
#define TOO_DEEP "nested more than 2500 deep"
_Static_assert(MAX_DEPTH == 2500, "the message names the limit");

nest_val lower_refuse(lowering *l, const hlo_instr *i, const char *why) {
  if (hs_ok(l->err))
    l->err = hs_fail_subject(HS_E_UNSUPPORTED, hlo_op_text(i->opcode), "unsupported: %s%s%s",
                             hlo_op_text(i->opcode), why ? ": " : "", why ? why : "");
  return LOWER_NONE;
}

// ---- buffers ------------------------------------------------------------------------------------
static u32 add_buf(lowering *l, const hlo_shape *s, int arg, const void *data) {
  nest_buf b = {.dtype = hlo_dtype_real_part(s->dtype),
                .elements = s->elements * (hlo_dtype_is_complex(s->dtype) ? 2 : 1),
                .arg = arg,
                .data = data};
  hs_vec_push(&l->n->bufs, b);
  return (u32)l->n->bufs.n - 1;
}

static const nest_expr *linear(nest *n, const hlo_shape *s, bool use_layout,
                               const nest_expr *const *idx) {
  const nest_expr *e = nest_const(n, 0);
  i64 stride = 1;
  bool order = use_layout && s->layout && s->layout->rank == s->rank;
  for (u32 k = 0; k < s->rank; k++) {
    u32 d = order ? (u32)s->layout->minor_to_major[k] : s->rank - 1 - k;
    e = nest_add(n, e, nest_mul(n, idx[d], stride));
    stride *= s->dims[d];
  }
  return e;
}

bool lower_dtype_ok(hlo_dtype t) {
  return hlo_dtype_is_array(t) && hlo_dtypes[t].format.top != HLO_TOP_E8M0;
}

static nest_val load(lowering *l, const hlo_instr *i, u32 buf, const hlo_shape *s, bool use_layout,
                     const nest_expr *const *idx, u32 guard) {
  if (!lower_dtype_ok(s->dtype)) return lower_refuse(l, i, hlo_dtype_text(s->dtype));
  const nest_expr *e = linear(l->n, s, use_layout, idx);
  nest_node x = {.kind = NEST_LOAD,
                 .dtype = hlo_dtype_real_part(s->dtype),
                 .e = e,
                 .buf = buf,
                 .guard = guard};
  if (!hlo_dtype_is_complex(s->dtype)) return (nest_val){nest_node_add(l->n, &x), NEST_NONE};
  x.e = nest_mul(l->n, e, 2);
  u32 re = nest_node_add(l->n, &x);
  x.e = nest_add(l->n, x.e, nest_const(l->n, 1));
  return (nest_val){re, nest_node_add(l->n, &x)};
}

static nest_val load_leaf(lowering *l, const hlo_instr *i, u32 leaf_no, const hlo_shape *s,
                          const nest_expr *const *idx, u32 guard) {
  if (l->buf_of_leaf[leaf_no] == NEST_NONE)
    l->buf_of_leaf[leaf_no] = add_buf(l, s, (int)leaf_no, NULL);
  return load(l, i, l->buf_of_leaf[leaf_no], s, true, idx, guard);
}

// ---- instructions -------------------------------------------------------------------------------
static nest_val lower_constant(lowering *l, const hlo_instr *i, const nest_expr *const *idx,
                               u32 guard) {
  const hlo_literal *lit = hlo_constant_value(i);
  if (!lit || lit->elided || !lit->data) return lower_refuse(l, i, "elided value");
  hlo_dtype t = i->shape->dtype, r = hlo_dtype_real_part(t);
  if (!lower_dtype_ok(t)) return lower_refuse(l, i, hlo_dtype_text(t));
  if (i->shape->elements == 1 || (i->shape->elements <= 65536 && hlo_literal_is_splat(lit))) {
    const u8 *p = lit->data;
    nest_val v = {nest_const_bits(l->n, r, p), NEST_NONE};
    if (hlo_dtype_is_complex(t)) v.im = nest_const_bits(l->n, r, p + hlo_dtype_storage(r));
    return v;
  }
  u32 buf = NEST_NONE;
  for (u32 k = 0; k < l->n->bufs.n; k++)
    if (l->n->bufs.v[k].data == lit->data) buf = k;
  if (buf == NEST_NONE) buf = add_buf(l, i->shape, NEST_BUF_CONST, lit->data);
  return load(l, i, buf, i->shape, false, idx, guard);
}

static nest_val lower_iota(lowering *l, const hlo_instr *i, const nest_expr *const *idx) {
  hlo_dtype t = i->shape->dtype, r = hlo_dtype_real_part(t);
  if (!lower_dtype_ok(t)) return lower_refuse(l, i, hlo_dtype_text(t));
  u32 v = nest_node_add(l->n, &(nest_node){.kind = NEST_INDEX,
                                           .dtype = HLO_S64,
                                           .e = idx[hlo_attr_int(i, HLO_ATTR_IOTA_DIMENSION, 0)]});
  return (nest_val){nest_op1(l->n, HLO_CONVERT, r, v),
                    hlo_dtype_is_complex(t) ? nest_const_f64(l->n, r, 0) : NEST_NONE};
}

nest_val lower_in_type(nest *n, nest_val v, hlo_dtype from, hlo_dtype to) {
  return from != to && hlo_dtype_is_float(from) && hlo_dtype_is_float(to)
             ? nest_convert(n, v, from, to)
             : v;
}

static nest_val lower_elementwise(lowering *l, lower_frame *f, const hlo_instr *i, u32 rank,
                                  const nest_expr *const *idx, u32 guard) {
  nest *n = l->n;
  nest_val a[3], v;
  if (i->noperands > 3 || i->noperands == 0) return lower_refuse(l, i, NULL);
  for (u32 k = 0; k < i->noperands; k++) {
    const hlo_shape *s = hlo_operand(i, k)->shape;
    if (!lower_dtype_ok(s->dtype)) return lower_refuse(l, i, hlo_dtype_text(s->dtype));
    a[k] = lower_value(l, f, hlo_operand(i, k), 0, s->rank == rank ? rank : 0, idx, guard);
    if (lower_failed(l)) return LOWER_NONE;
  }
  hlo_dtype t = i->shape->dtype, in = hlo_operand(i, i->opcode == HLO_SELECT ? 1 : 0)->shape->dtype;
  if (!lower_dtype_ok(t)) return lower_refuse(l, i, hlo_dtype_text(t));
  // Operands of another precision: arithmetic happens in the type of the result, comparisons in the
  // first operand's.
  if (i->opcode != HLO_CONVERT && i->opcode != HLO_STOCHASTIC_CONVERT) {
    if (i->opcode != HLO_COMPARE && i->opcode != HLO_IS_FINITE && hlo_dtype_is_float(in) &&
        hlo_dtype_is_float(t))
      in = t;
    for (u32 k = 0; k < i->noperands; k++)
      a[k] = lower_in_type(n, a[k], hlo_operand(i, k)->shape->dtype, in);
  }
  if (i->opcode == HLO_CONVERT) return nest_convert(n, a[0], in, t);
  if (i->opcode == HLO_COMPARE) {
    i64 dir = hlo_attr_int(i, HLO_ATTR_DIRECTION, 0);
    bool total = hlo_attr_int(i, HLO_ATTR_COMPARE_TYPE, -1) == HLO_COMPARE_TYPE_TOTALORDER &&
                 hlo_dtype_is_float(in);
    return nest_compare(n, dir, total, in, a[0], a[1], &v) ? v
                                                           : lower_refuse(l, i, hlo_dtype_text(in));
  }
  if (i->opcode == HLO_REDUCE_PRECISION) {
    nest_node x = {.kind = NEST_OP,
                   .dtype = t,
                   .op = i->opcode,
                   .in = in,
                   .nargs = 1,
                   .args = {a[0].re},
                   .attr = {hlo_attr_int(i, HLO_ATTR_EXPONENT_BITS, 8),
                            hlo_attr_int(i, HLO_ATTR_MANTISSA_BITS, 23)}};
    return (nest_val){nest_node_add(n, &x), NEST_NONE};
  }
  return nest_elementwise(n, i->opcode, t, in, i->noperands, a, &v)
             ? v
             : lower_refuse(l, i, hlo_dtype_text(in));
}

static nest_val lower_parameter(lowering *l, lower_frame *f, const hlo_instr *i, u32 leaf, u32 rank,
                                const nest_expr *const *idx, u32 guard) {
  u32 k = (u32)hlo_param_number(i);
  if (f->vals) return f->vals[k];
  const hlo_instr *op = hlo_operand(f->caller, k);
  if (f->up) return lower_value(l, f->up, op, leaf, rank, idx, guard);
  // in the operand's own layout
  return load_leaf(l, i, l->leaf_base[k] + leaf, hlo_shape_leaf(op->shape, leaf), idx, guard);
}

static nest_val lower_call(lowering *l, lower_frame *f, const hlo_instr *i, u32 leaf, u32 rank,
                           const nest_expr *const *idx, u32 guard) {
  // one frame per activation, so that results are shared
  for (size_t k = 0; k < l->frames.n; k++)
    if (l->frames.v[k]->up == f && l->frames.v[k]->caller == i)
      return lower_value(l, l->frames.v[k], hlo_fusion_comp(i)->root, leaf, rank, idx, guard);
  lower_frame *in = HS_NEW(l->a, lower_frame);
  *in = (lower_frame){.caller = i, .up = f};
  hs_vec_push(&l->frames, in);
  return lower_value(l, in, hlo_fusion_comp(i)->root, leaf, rank, idx, guard);
}

static nest_val lower_map(lowering *l, lower_frame *f, const hlo_instr *i, u32 rank,
                          const nest_expr *const *idx, u32 guard) {
  nest_val *args = HS_NEW_ARRAY(l->n->a, nest_val, i->noperands + 1);
  const hlo_computation *body = hlo_attr_comp(i, HLO_ATTR_TO_APPLY);
  for (u32 k = 0; k < i->noperands; k++)
    if (hlo_operand(i, k)->shape->dtype != body->params[k]->shape->dtype ||
        body->root->shape->dtype != i->shape->dtype)
      return lower_refuse(l, i, "of several precisions");
  for (u32 k = 0; k < i->noperands && !lower_failed(l); k++)
    args[k] = lower_value(l, f, hlo_operand(i, k), 0, rank, idx, guard);
  if (lower_failed(l)) return LOWER_NONE;
  lower_frame *fr = HS_NEW(l->n->a, lower_frame);
  *fr = (lower_frame){.caller = i, .vals = args};
  return lower_value(l, fr, hlo_attr_comp(i, HLO_ATTR_TO_APPLY)->root, 0, 0, NULL, guard);
}

static nest_val lower_uncached(lowering *l, lower_frame *f, const hlo_instr *i, u32 leaf, u32 rank,
                               const nest_expr *const *idx, u32 guard) {
  nest *n = l->n;
  const nest_expr *sub[HLO_MAX_RANK];
  const hlo_instr *op = i->noperands ? hlo_operand(i, 0) : NULL;
  switch (i->opcode) {
  case HLO_PARAMETER: return lower_parameter(l, f, i, leaf, rank, idx, guard);
  case HLO_CONSTANT: return lower_constant(l, i, idx, guard);
  case HLO_IOTA: return lower_iota(l, i, idx);
  case HLO_TUPLE:
    for (u32 k = 0; k < i->noperands; k++) {
      u32 m = hlo_shape_leaves(hlo_operand(i, k)->shape);
      if (leaf < m) return lower_value(l, f, hlo_operand(i, k), leaf, rank, idx, guard);
      leaf -= m;
    }
    return lower_refuse(l, i, NULL);
  case HLO_GET_TUPLE_ELEMENT:
    leaf += hlo_shape_leaf_offset(op->shape, hlo_attr_int(i, HLO_ATTR_INDEX, 0));
    return lower_value(l, f, op, leaf, rank, idx, guard);
  case HLO_BROADCAST: {
    hlo_ints d = hlo_attr_ints(i, HLO_ATTR_DIMENSIONS);
    for (u32 k = 0; k < d.n; k++) sub[k] = op->shape->dims[k] == 1 ? nest_const(n, 0) : idx[d.v[k]];
    return lower_value(l, f, op, 0, d.n, sub, guard);
  }
  case HLO_TRANSPOSE: {
    hlo_ints d = hlo_attr_ints(i, HLO_ATTR_DIMENSIONS);
    for (u32 k = 0; k < d.n; k++) sub[d.v[k]] = idx[k];
    return lower_value(l, f, op, 0, rank, sub, guard);
  }
  case HLO_RESHAPE:
    lower_reshape_index(n, rank, i->shape->dims, idx, op->shape->rank, op->shape->dims, sub);
    return lower_value(l, f, op, 0, op->shape->rank, sub, guard);
  case HLO_SLICE: {
    const hlo_slices *s = hlo_attr_ptr(i, HLO_ATTR_SLICE);
    for (u32 k = 0; k < rank; k++)
      sub[k] = nest_add(n, nest_mul(n, idx[k], s->v[k].stride), nest_const(n, s->v[k].start));
    return lower_value(l, f, op, 0, rank, sub, guard);
  }
  case HLO_REVERSE: {
    hlo_ints d = hlo_attr_ints(i, HLO_ATTR_DIMENSIONS);
    for (u32 k = 0; k < rank; k++)
      sub[k] = hlo_ints_has(d, k)
                   ? nest_add(n, nest_mul(n, idx[k], -1), nest_const(n, i->shape->dims[k] - 1))
                   : idx[k];
    return lower_value(l, f, op, 0, rank, sub, guard);
  }
  case HLO_COPY:
  case HLO_OPT_BARRIER:
  case HLO_ADD_DEPENDENCY:
  case HLO_DOMAIN: return lower_value(l, f, op, leaf, rank, idx, guard);
  case HLO_BITCAST: return lower_bitcast(l, f, i, idx, guard);
  case HLO_BITCAST_CONVERT: return lower_bitcast_convert(l, f, i, rank, idx, guard);
  case HLO_CONCATENATE: return lower_concat(l, f, i, rank, idx, guard);
  case HLO_PAD: return lower_pad(l, f, i, rank, idx, guard);
  case HLO_DYNAMIC_SLICE: return lower_dynamic_slice(l, f, i, rank, idx, guard);
  case HLO_DYNAMIC_UPDATE_SLICE: return lower_dynamic_update_slice(l, f, i, rank, idx, guard);
  case HLO_GATHER: return lower_gather(l, f, i, rank, idx, guard);
  case HLO_REDUCE: return lower_reduce(l, f, i, leaf, rank, idx, guard);
  case HLO_REDUCE_WINDOW: return lower_reduce_window(l, f, i, leaf, rank, idx, guard);
  case HLO_DOT: return lower_dot(l, f, i, rank, idx, guard);
  case HLO_CONVOLUTION:
    return l->all || i == l->top ? lower_convolution(l, f, i, rank, idx, guard)
                                 : lower_refuse(l, i, NULL);
  case HLO_SELECT_AND_SCATTER:
    return l->all ? lower_select_and_scatter(l, f, i, rank, idx, guard) : lower_refuse(l, i, NULL);
  case HLO_SCATTER:
    return l->all ? lower_scatter(l, f, i, leaf, rank, idx, guard) : lower_refuse(l, i, NULL);
  case HLO_FUSION:
  case HLO_CALL: return lower_call(l, f, i, leaf, rank, idx, guard);
  case HLO_MAP: return lower_map(l, f, i, rank, idx, guard);
  case HLO_GET_DIMENSION_SIZE:
    return (nest_val){
        nest_const_f64(n, HLO_S32,
                       (double)op->shape->dims[hlo_attr_ints(i, HLO_ATTR_DIMENSIONS).v[0]]),
        NEST_NONE};
  default:
    return hlo_op_has(i->opcode, HLO_F_ELEMENTWISE) ? lower_elementwise(l, f, i, rank, idx, guard)
                                                    : lower_refuse(l, i, NULL);
  }
}

// ---- the memo -----------------------------------------------------------------------------------
static lower_memo **find(lowering *l, const lower_frame *f, const hlo_instr *i, u32 leaf, u32 rank,
                         const nest_expr *const *idx, u32 guard, u64 *hash) {
  u64 h = hs_mix(hs_mix((u64)(uintptr_t)f, i->id), (u64)leaf << 32 | guard);
  for (u32 k = 0; k < rank; k++) h = hs_mix(h, idx[k]->hash);
  *hash = h;
  lower_memo **e = &l->table[h & (l->cap - 1)];
  for (; *e; e = &(*e)->chain)
    if ((*e)->hash == h && (*e)->f == f && (*e)->i == i && (*e)->leaf == leaf &&
        (*e)->guard == guard && (*e)->rank == rank &&
        (rank == 0 || !memcmp((*e)->idx, idx, rank * sizeof *idx)))
      break;
  return e;
}

void lower_put(lowering *l, const lower_frame *f, const hlo_instr *i, u32 leaf, u32 rank,
               const nest_expr *const *idx, u32 guard, nest_val v) {
  u64 h;
  lower_memo **slot = find(l, f, i, leaf, rank, idx, guard, &h);
  if (*slot) return;
  lower_memo *e = hs_arena_zalloc(l->a, sizeof *e + rank * sizeof *idx);
  *e =
      (lower_memo){.hash = h, .f = f, .i = i, .leaf = leaf, .guard = guard, .rank = rank, .val = v};
  if (rank) memcpy(e->idx, idx, rank * sizeof *idx);
  *slot = e;
  if (++l->count < l->cap) return;
  lower_memo **t = hs_calloc((size_t)l->cap * 4, sizeof *t);
  for (u32 b = 0; b < l->cap; b++)
    for (lower_memo *x = l->table[b], *next; x; x = next) {
      next = x->chain;
      x->chain = t[x->hash & (l->cap * 4 - 1)];
      t[x->hash & (l->cap * 4 - 1)] = x;
    }
  hs_free(l->table);
  l->table = t;
  l->cap *= 4;
}

// Hands on elements of its first operand, whose precision may be another.
static bool moves_first(const hlo_instr *i) {
  return hlo_op_has(i->opcode, HLO_F_MOVEMENT) && i->opcode != HLO_BITCAST &&
         i->opcode != HLO_BITCAST_CONVERT && i->opcode != HLO_CONCATENATE && i->opcode != HLO_PAD &&
         i->opcode != HLO_DYNAMIC_UPDATE_SLICE && hlo_shape_is_array(i->shape) &&
         hlo_shape_is_array(hlo_operand(i, 0)->shape);
}

nest_val lower_value(lowering *l, lower_frame *f, const hlo_instr *i, u32 leaf, u32 rank,
                     const nest_expr *const *idx, u32 guard) {
  u64 h;
  if (lower_failed(l)) return LOWER_NONE;
  if (!f->up && f->lone && i != f->caller) {  // operands of a lone instruction are buffers
    for (u32 k = 0; k < f->caller->noperands; k++)
      if (hlo_operand(f->caller, k) == i)
        return load_leaf(l, i, l->leaf_base[k] + leaf, hlo_shape_leaf(i->shape, leaf), idx, guard);
    return lower_refuse(l, i, NULL);
  }
  lower_memo *e = *find(l, f, i, leaf, rank, idx, guard, &h);
  if (e) return e->val;
  if (++l->depth > MAX_DEPTH) return lower_refuse(l, i, TOO_DEEP);
  if (l->n->nodes.n > MAX_NODES) return lower_refuse(l, i, "the kernel is too large");
  nest_val v = lower_uncached(l, f, i, leaf, rank, idx, guard);
  if (moves_first(i) && !lower_failed(l))
    v = lower_in_type(l->n, v, hlo_operand(i, 0)->shape->dtype, i->shape->dtype);
  l->depth--;
  if (!lower_failed(l)) lower_put(l, f, i, leaf, rank, idx, guard, v);
  return v;
}

// ---- whole kernels ------------------------------------------------------------------------------
// A stage over all elements of s.
static nest_stage *stage_over(lowering *l, const hlo_shape *s, const nest_expr ***out) {
  nest *n = l->n;
  nest_stage st = {0};
  const nest_expr **idx = *out = HS_NEW_ARRAY(l->a, const nest_expr *, s->rank + 1);
  i64 dims[HLO_MAX_RANK];
  u32 order[HLO_MAX_RANK];
  lower_physical(s, dims, order);
  for (u32 k = 0; k < s->rank; k++) {
    idx[order[k]] = nest_const(n, 0);
    if (dims[k] == 1) continue;
    if (!nest_new_loop(n, dims[k], &st.loops[st.nloops])) return NULL;
    idx[order[k]] = nest_of_var(n, st.loops[st.nloops++], 1);
  }
  hs_vec_push(&n->stages, st);
  return &n->stages.v[n->stages.n - 1];
}

static nest_stage *stage_for(lowering *l, const hlo_shape *s, const hlo_shape **shapes,
                             const nest_expr ***indices) {
  nest *n = l->n;
  for (size_t k = 0; k < n->stages.n; k++)
    if (shapes[k] && hlo_shape_same_dims(shapes[k], s) && shapes[k]->layout == s->layout)
      return &n->stages.v[k];
  shapes[n->stages.n] = s;
  return stage_over(l, s, &indices[n->stages.n]);
}

static void add_stores(lowering *l, nest_stage *st, u32 buf, const nest_expr *e, nest_val v) {
  if (v.im == NEST_NONE) {
    hs_vec_push(&st->stores, ((nest_store){buf, e, v.re}));
    return;
  }
  e = nest_mul(l->n, e, 2);
  hs_vec_push(&st->stores, ((nest_store){buf, e, v.re}));
  hs_vec_push(&st->stores, ((nest_store){buf, nest_add(l->n, e, nest_const(l->n, 1)), v.im}));
}

// A stage of its own for the part of result leaf `out` that the update replaces.
static void lower_update(lowering *l, lower_frame *f, const hlo_instr *i, const hlo_shape *result,
                         u32 in, u32 out) {
  nest *n = l->n;
  const hlo_instr *up = hlo_operand(i, 1);
  const nest_expr **idx, *at[HLO_MAX_RANK];
  size_t stage = n->stages.n;
  const hlo_shape *part = up->shape;
  if (!stage_over(l, part, &idx)) {
    (void)lower_refuse(l, l->top, "too many loops");
    return;
  }
  for (u32 k = 0; k < part->rank && !lower_failed(l); k++)
    at[k] = nest_add(
        n, idx[k], lower_dynamic_start(l, f, i, 2, k, result->dims[k] - part->dims[k], NEST_NONE));
  nest_val v = lower_value(l, f, up, 0, part->rank, idx, NEST_NONE);
  if (lower_failed(l)) return;
  u32 buf = add_buf(l, result, (int)(l->leaf_base[l->top->noperands] + out), NULL);
  add_stores(l, &n->stages.v[stage], buf, linear(n, result, true, at), v);
  hs_vec_push(&n->updates, ((nest_update){in, out}));
}

bool lower_stage(lowering *l, const hlo_shape *s, size_t *stage, const nest_expr ***idx) {
  *stage = l->n->stages.n;
  if (stage_over(l, s, idx)) return true;
  (void)lower_refuse(l, l->top, "too many loops");
  return false;
}

void lower_store(lowering *l, size_t stage, u32 leaf, const nest_expr *const *idx, nest_val v) {
  const hlo_shape *s = hlo_shape_leaf(l->top->shape, leaf);
  u32 buf = add_buf(l, s, (int)(l->leaf_base[l->top->noperands] + leaf), NULL);
  add_stores(l, &l->n->stages.v[stage], buf, linear(l->n, s, true, idx), v);
}

static void lower_outputs(lowering *l, lower_frame *f, const hlo_instr *root) {
  nest *n = l->n;
  if (l->all && (lower_sort(l, f, root) || lower_topk(l, f, root) || lower_scan(l, f, root)))
    return;
  u32 outs = hlo_shape_leaves(l->top->shape), first = l->leaf_base[l->top->noperands];
  const hlo_shape **shapes = HS_NEW_ARRAY(l->a, const hlo_shape *, outs);
  const nest_expr ***indices = HS_NEW_ARRAY(l->a, const nest_expr **, outs);
  for (u32 k = 0; k < outs && !lower_failed(l); k++) {
    const hlo_shape *s = hlo_shape_leaf(l->top->shape, k);
    if (!hlo_shape_is_array(s) || !lower_dtype_ok(s->dtype)) {
      (void)lower_refuse(l, l->top, hlo_dtype_text(s->dtype));
      return;
    }
    if (s->elements == 0) continue;
    u32 in;
    const hlo_instr *update = lower_update_of(l, f, root, k, &in);
    if (update) {
      shapes[n->stages.n] = NULL;
      lower_update(l, f, update, s, in, k);
      continue;
    }
    nest_stage *st = stage_for(l, s, shapes, indices);
    if (!st) {
      (void)lower_refuse(l, l->top, "too many loops");
      return;
    }
    size_t at = (size_t)(st - n->stages.v);
    nest_val v = lower_value(l, f, root, k, s->rank, indices[at], NEST_NONE);
    if (lower_failed(l)) return;
    u32 buf = add_buf(l, s, (int)(first + k), NULL);
    add_stores(l, &n->stages.v[at], buf, linear(n, s, true, indices[at]), v);
  }
}

static bool has_dynamic(const hlo_instr *i) {
  if (hlo_shape_is_dynamic(i->shape)) return true;
  for (u32 k = 0; k < i->noperands; k++)
    if (hlo_shape_is_dynamic(hlo_operand(i, k)->shape)) return true;
  return false;
}

static hs_status lower_kernel(hs_arena *a, const hlo_instr *i, bool all, nest **out) {
  hs_arena tmp = {0};
  lowering l = {.a = &tmp, .top = i, .cap = 64, .all = all};
  l.n = HS_NEW(a, nest);
  l.n->a = a;
  l.table = hs_calloc(l.cap, sizeof *l.table);
  l.leaf_base = HS_NEW_ARRAY(&tmp, u32, i->noperands + 1);
  for (u32 k = 0; k < i->noperands; k++)
    l.leaf_base[k + 1] = l.leaf_base[k] + hlo_shape_leaves(hlo_operand(i, k)->shape);
  u32 leaves = l.leaf_base[i->noperands];
  l.buf_of_leaf = HS_NEW_ARRAY(&tmp, u32, leaves + 1);
  for (u32 k = 0; k < leaves; k++) l.buf_of_leaf[k] = NEST_NONE;
  bool fusion = i->opcode == HLO_FUSION || i->opcode == HLO_CALL;
  lower_frame f = {.caller = i, .lone = !fusion};
  if (i->opcode == HLO_PARAMETER || i->opcode == HLO_TUPLE || i->opcode == HLO_GET_TUPLE_ELEMENT)
    (void)lower_refuse(&l, i, NULL);
  else if (has_dynamic(i)) (void)lower_refuse(&l, i, "dynamic shape");
  else lower_outputs(&l, &f, fusion ? hlo_fusion_comp(i)->root : i);
  hs_free(l.table);
  hs_vec_free(&l.reduces);
  hs_vec_free(&l.frames);
  hs_arena_free(&tmp);
  if (!hs_ok(l.err)) {
    nest_free(l.n);
    *out = NULL;
    return l.err;
  }
  *out = l.n;
  return HS_GOOD;
}

hs_status nest_lower(hs_arena *a, const hlo_instr *i, nest **out) {
  return lower_kernel(a, i, false, out);
}
hs_status nest_lower_all(hs_arena *a, const hlo_instr *i, nest **out) {
  return lower_kernel(a, i, true, out);
}

bool nest_supports(const hlo_instr *i, bool all, hs_buf *why) {
  hs_arena a = {0};
  nest *n = NULL;
  hs_status s = lower_kernel(&a, i, all, &n);
  bool ok = hs_ok(s);
  if (!ok && why) hs_buf_puts(why, s.err->message);
  hs_status_drop(s);
  nest_free(n);
  hs_arena_free(&a);
  return ok;
}
