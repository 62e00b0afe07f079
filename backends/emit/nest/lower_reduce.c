// lower_reduce.c — lowering of reductions: reduce, reduce-window and dot open loops inside the
// element they compute.
//
// A group is a set of accumulators over the same loops. Sibling reductions of the same dims of
// equal shapes share their loops when neither needs the other's result. Sums and products of narrow
// floats accumulate in f32, as XLA's do.
#include "backends/emit/nest/lower.h"

// ADD, MULTIPLY, ... when the computation is just that operation on its two parameters.
static hlo_opcode monoid_of(const hlo_computation *c) {
  bool known = c->nparams == 2 && hlo_op_has(c->root->opcode, HLO_F_MONOID) &&
               hlo_commutes_on(c->root, c->params[0], c->params[1]);
  return known ? c->root->opcode : HLO_OP_INVALID;
}

bool lower_any_order(const hlo_instr *i) {
  const hlo_computation *c = hlo_attr_comp(i, HLO_ATTR_TO_APPLY);
  hlo_opcode m = monoid_of(c);
  return m == HLO_ADD || lower_chooses(c) ||
         (m != HLO_OP_INVALID && !hlo_dtype_is_complex(hlo_operand(i, 0)->shape->dtype));
}

// Whether the node depends on a result of the group `root` or of one that shares its loops.
// `visited`: a byte per node.
static bool reaches_group(const nest *n, u32 node, u32 root, u8 *visited) {
  if (node == NEST_NONE || visited[node]) return false;
  visited[node] = 1;
  const nest_node *x = &n->nodes.v[node];
  if (x->kind == NEST_REDUCE) {
    const nest_group *g = &n->groups.v[x->group];
    if (g->merged_into == root) return true;
    for (u32 k = 0; k < g->nacc; k++)
      if (reaches_group(n, g->cond, root, visited) || reaches_group(n, g->in[k], root, visited) ||
          reaches_group(n, g->init[k], root, visited))
        return true;
  }
  for (u32 k = 0; k < x->nargs; k++)
    if (reaches_group(n, x->args[k], root, visited)) return true;
  if (x->kind == NEST_LOAD && reaches_group(n, x->guard, root, visited)) return true;
  if (x->e)
    for (u32 k = 0; k < x->e->n; k++)
      if (n->vars.v[x->e->t[k].var].kind == NEST_VALUE &&
          reaches_group(n, n->vars.v[x->e->t[k].var].node, root, visited))
        return true;
  return false;
}

void lower_group(lowering *l, const hlo_instr *i, const hlo_computation *reducer, u32 nloops,
                 const u32 *loops, u32 merged, u32 cond, u32 nvals, const nest_val *in,
                 const nest_val *init, const hlo_dtype *types, nest_val *out) {
  nest *n = l->n;
  u32 nacc = 0, gid = (u32)n->groups.n;
  for (u32 k = 0; k < nvals; k++) nacc += in[k].im == NEST_NONE ? 1 : 2;
  if (nacc > NEST_MAX_ACCS) {
    (void)lower_refuse(l, i, "too many values");
    return;
  }
  nest_group g = {.nloops = nloops,
                  .cond = cond,
                  .seg = NEST_NONE,
                  .nacc = nacc,
                  .merged_into = merged == NEST_NONE ? gid : merged};
  memcpy(g.loops, loops, nloops * sizeof *loops);
  for (u32 k = 0; k < nloops; k++) g.mask |= 1ull << n->vars.v[loops[k]].loop;
  u32 *store = hs_arena_zalloc(n->a, 6 * nacc * sizeof *store);
  g.in = store;
  g.init = store + nacc;
  g.next = store + 2 * nacc;
  g.acc = store + 3 * nacc;
  g.elem = store + 4 * nacc;
  g.out = store + 5 * nacc;
  g.monoid = reducer ? monoid_of(reducer) : HLO_ADD;
  bool wide =
      nvals == 1 && (g.monoid == HLO_ADD || g.monoid == HLO_MULTIPLY) && nest_is_narrow(types[0]);
  nest_val *args = hs_arena_zalloc(n->a, 2 * nvals * sizeof *args);
  for (u32 k = 0, a = 0; k < nvals; k++) {
    hlo_dtype t = wide ? HLO_F32 : hlo_dtype_real_part(types[k]);
    u32 parts = in[k].im == NEST_NONE ? 1 : 2;
    args[k] = args[nvals + k] = LOWER_NONE;
    for (u32 p = 0; p < parts; p++, a++) {
      u32 v = p ? in[k].im : in[k].re, s = p ? init[k].im : init[k].re;
      g.in[a] = wide ? nest_op1(n, HLO_CONVERT, t, v) : v;
      g.init[a] = wide ? nest_op1(n, HLO_CONVERT, t, s) : s;
      g.acc[a] = nest_node_add(n, &(nest_node){.kind = NEST_ACC, .dtype = t, .group = gid, .k = a});
      g.elem[a] =
          nest_node_add(n, &(nest_node){.kind = NEST_ELEM, .dtype = t, .group = gid, .k = a});
      *(p ? &args[k].im : &args[k].re) = g.acc[a];
      *(p ? &args[nvals + k].im : &args[nvals + k].re) = g.elem[a];
    }
  }
  if (g.monoid != HLO_OP_INVALID && nacc == 1) {
    g.next[0] = nest_op2(n, g.monoid, n->nodes.v[g.acc[0]].dtype, g.acc[0], g.elem[0]);
    g.free_order = true;
  } else if (!reducer) {
    for (u32 a = 0; a < nacc; a++)
      g.next[a] = nest_op2(n, HLO_ADD, n->nodes.v[g.acc[a]].dtype, g.acc[a], g.elem[a]);
    g.free_order = true;
  } else {
    lower_frame *fr = HS_NEW(n->a, lower_frame);
    *fr = (lower_frame){.caller = i, .vals = args};
    for (u32 k = 0, a = 0; k < nvals && !lower_failed(l); k++) {
      nest_val v = lower_value(l, fr, reducer->root, k, 0, NULL, NEST_NONE);
      g.next[a++] = v.re;
      if (in[k].im != NEST_NONE) g.next[a++] = v.im;
    }
    if (lower_failed(l)) return;
    // a group of its own would stand inside of the step that makes one value of two
    if (n->groups.n != gid) {
      (void)lower_refuse(l, i, "with a reduction in its computation");
      return;
    }
    g.free_order = g.monoid == HLO_ADD || lower_chooses(reducer);
    // complex numbers: only sums are sums of the parts
    if (g.monoid != HLO_ADD) g.monoid = HLO_OP_INVALID;
  }
  hs_vec_push(&n->groups, g);
  for (u32 k = 0, a = 0; k < nvals; k++) {
    out[k] = LOWER_NONE;
    for (u32 p = 0; p < (in[k].im == NEST_NONE ? 1u : 2u); p++, a++) {
      u32 o = nest_node_add(
          n, &(nest_node){
                 .kind = NEST_REDUCE, .dtype = n->nodes.v[g.acc[a]].dtype, .group = gid, .k = a});
      n->groups.v[gid].out[a] = o;
      if (wide) o = nest_op1(n, HLO_CONVERT, types[k], o);
      *(p ? &out[k].im : &out[k].re) = o;
    }
  }
}

// Element k of the result, and the type it is added up in.
static hlo_dtype result_type(const hlo_instr *i, u32 k) {
  return hlo_shape_leaf(i->shape, k)->dtype;
}
bool lower_reduces_as_is(const hlo_instr *i, u32 nv) {
  const hlo_computation *c = hlo_attr_comp(i, HLO_ATTR_TO_APPLY);
  for (u32 k = 0; k < nv; k++)
    if (c->params[k]->shape->dtype != hlo_operand(i, k)->shape->dtype ||
        c->params[nv + k]->shape->dtype != hlo_operand(i, k)->shape->dtype ||
        hlo_shape_leaf(c->root->shape, k)->dtype != hlo_operand(i, k)->shape->dtype)
      return false;
  return true;
}
// Remembers the results, in the precision that the shape states.
static void put_results(lowering *l, lower_frame *f, const hlo_instr *i, u32 rank,
                        const nest_expr *const *idx, u32 guard, u32 nv, const hlo_dtype *types,
                        nest_val *out) {
  for (u32 k = 0; k < nv; k++) {
    out[k] = lower_in_type(l->n, out[k], types[k], result_type(i, k));
    lower_put(l, f, i, k, rank, idx, guard, out[k]);
  }
}

// What a reduction reads: its operands, at subscripts that its loops and the result's index make.
typedef struct operands {
  u32 nv, rank;  // of the result
  const nest_expr *const *idx;
  u32 guard;
  nest_val *in;
} operands;

static bool read_operands(lowering *l, lower_frame *f, const hlo_instr *i, const nest_expr **sub,
                          const operands *o) {
  for (u32 k = 0; k < o->nv && !lower_failed(l); k++)
    o->in[k] =
        lower_value(l, f, hlo_operand(i, k), 0, hlo_operand(i, 0)->shape->rank, sub, o->guard);
  return !lower_failed(l);
}

// Whether the loops of `w` are those that the reduction wants, at the same place, and have room.
static bool could_share(const lowering *l, const lower_frame *f, const hlo_instr *i,
                        const operands *o, const lower_shared *w) {
  const hlo_shape *s = hlo_operand(i, 0)->shape;
  if (w->f != f || w->guard != o->guard || w->rank != o->rank || w->ndims != s->rank ||
      memcmp(w->dims, s->dims, s->rank * sizeof(i64)) ||
      memcmp(w->idx, o->idx, o->rank * sizeof *o->idx))
    return false;
  u32 accs = 2 * o->nv;
  for (size_t g = 0; g < l->n->groups.n; g++)
    if (l->n->groups.v[g].merged_into == w->group) accs += l->n->groups.v[g].nacc;
  bool same = accs <= NEST_MAX_ACCS;
  hlo_ints dims = hlo_attr_ints(i, HLO_ATTR_DIMENSIONS);
  for (u32 d = 0; d < s->rank; d++) same &= (w->sizes[d] != 0) == hlo_ints_has(dims, d);
  return same;
}

// Reads the operands by the loops of a sibling over the same dims, unless the reduction needs its
// result: its group, or NEST_NONE when there is none.
static u32 share_loops(lowering *l, lower_frame *f, const hlo_instr *i, const operands *o,
                       const nest_val *init) {
  nest *n = l->n;
  const hlo_shape *s = hlo_operand(i, 0)->shape;
  hlo_ints dims = hlo_attr_ints(i, HLO_ATTR_DIMENSIONS);
  for (size_t c = 0; c < l->reduces.n; c++) {
    const lower_shared *w = &l->reduces.v[c];
    if (!could_share(l, f, i, o, w)) continue;
    const nest_expr *sub[HLO_MAX_RANK];
    u32 group = w->group;
    for (u32 d = 0, out = 0, r = 0; d < s->rank; d++)
      sub[d] = !hlo_ints_has(dims, d) ? o->idx[out++]
               : s->dims[d] == 1      ? nest_const(n, 0)
                                      : nest_of_var(n, n->groups.v[group].loops[r++], 1);
    if (!read_operands(l, f, i, sub, o)) return NEST_NONE;
    u8 *visited = hs_calloc(n->nodes.n, 1);
    bool needs = false;
    for (u32 k = 0; k < o->nv && !needs; k++)
      needs = reaches_group(n, o->in[k].re, group, visited) ||
              reaches_group(n, o->in[k].im, group, visited) ||
              reaches_group(n, init[k].re, group, visited);
    hs_free(visited);
    if (!needs) return group;
  }
  return NEST_NONE;
}

// Opens loops of its own and reads the operands by them.
static bool open_loops(lowering *l, lower_frame *f, const hlo_instr *i, const operands *o,
                       u32 *nloops, u32 *loops) {
  const hlo_shape *s = hlo_operand(i, 0)->shape;
  hlo_ints dims = hlo_attr_ints(i, HLO_ATTR_DIMENSIONS);
  const nest_expr *sub[HLO_MAX_RANK];
  for (u32 d = 0, out = 0; d < s->rank; d++) {
    if (!hlo_ints_has(dims, d)) sub[d] = o->idx[out++];
    else if (s->dims[d] == 1) sub[d] = nest_const(l->n, 0);
    else {
      if (!nest_new_loop(l->n, s->dims[d], &loops[*nloops]))
        return (void)lower_refuse(l, i, "too many loops"), false;
      sub[d] = nest_of_var(l->n, loops[(*nloops)++], 1);
    }
  }
  return read_operands(l, f, i, sub, o);
}

nest_val lower_reduce(lowering *l, lower_frame *f, const hlo_instr *i, u32 leaf, u32 rank,
                      const nest_expr *const *idx, u32 guard) {
  nest *n = l->n;
  u32 nv = i->noperands / 2;
  hlo_ints dims = hlo_attr_ints(i, HLO_ATTR_DIMENSIONS);
  const hlo_shape *s = hlo_operand(i, 0)->shape;
  u32 loops[NEST_MAX_LOOPS], nloops = 0;
  nest_val *in = HS_NEW_ARRAY(l->a, nest_val, 3 * nv), *init = in + nv, *out = in + 2 * nv;
  hlo_dtype *types = HS_NEW_ARRAY(l->a, hlo_dtype, nv);
  bool empty = false;
  for (u32 d = 0; d < s->rank; d++) empty |= hlo_ints_has(dims, d) && s->dims[d] == 0;
  for (u32 k = 0; k < nv && !lower_failed(l); k++) {
    types[k] = hlo_operand(i, k)->shape->dtype;
    init[k] = lower_value(l, f, hlo_operand(i, nv + k), 0, 0, NULL, NEST_NONE);
    if (lower_failed(l)) return LOWER_NONE;
    init[k] = lower_in_type(n, init[k], hlo_operand(i, nv + k)->shape->dtype, types[k]);
  }
  if (lower_failed(l)) return LOWER_NONE;
  if (!lower_reduces_as_is(i, nv)) return lower_refuse(l, i, "of several precisions");
  if (empty) return lower_in_type(n, init[leaf], types[leaf], result_type(i, leaf));
  const operands o = {nv, rank, idx, guard, in};
  u32 merged = share_loops(l, f, i, &o, init);
  if (lower_failed(l)) return LOWER_NONE;
  if (merged == NEST_NONE) {
    if (!open_loops(l, f, i, &o, &nloops, loops)) return LOWER_NONE;
  } else {
    nloops = n->groups.v[merged].nloops;
    memcpy(loops, n->groups.v[merged].loops, sizeof loops);
  }
  lower_group(l, i, hlo_attr_comp(i, HLO_ATTR_TO_APPLY), nloops, loops, merged, NEST_NONE, nv, in,
              init, types, out);
  if (lower_failed(l)) return LOWER_NONE;
  if (merged == NEST_NONE) {
    i64 *sz = HS_NEW_ARRAY(l->a, i64, s->rank + 1);
    for (u32 d = 0; d < s->rank; d++) sz[d] = hlo_ints_has(dims, d);
    lower_shared w = {f,
                      guard,
                      rank,
                      s->rank,
                      s->dims,
                      sz,
                      hs_arena_dup(l->a, idx, rank * sizeof *idx),
                      (u32)n->groups.n - 1};
    hs_vec_push(&l->reduces, w);
  }
  put_results(l, f, i, rank, idx, guard, nv, types, out);
  return out[leaf];
}

nest_val lower_reduce_window(lowering *l, lower_frame *f, const hlo_instr *i, u32 leaf, u32 rank,
                             const nest_expr *const *idx, u32 guard) {
  nest *n = l->n;
  u32 nv = i->noperands / 2, loops[NEST_MAX_LOOPS], nloops = 0, own = NEST_NONE;
  const hlo_window *w = hlo_attr_ptr(i, HLO_ATTR_WINDOW);
  const hlo_shape *s = hlo_operand(i, 0)->shape;
  const nest_expr *sub[HLO_MAX_RANK];
  nest_val *in = HS_NEW_ARRAY(l->a, nest_val, 3 * nv), *init = in + nv, *out = in + 2 * nv;
  hlo_dtype *types = HS_NEW_ARRAY(l->a, hlo_dtype, nv);
  if (!w || w->n != s->rank) return lower_refuse(l, i, "window");
  for (u32 k = 0; k < nv && !lower_failed(l); k++) {
    types[k] = hlo_operand(i, k)->shape->dtype;
    init[k] = lower_value(l, f, hlo_operand(i, nv + k), 0, 0, NULL, NEST_NONE);
    if (lower_failed(l)) return LOWER_NONE;
    init[k] = lower_in_type(n, init[k], hlo_operand(i, nv + k)->shape->dtype, types[k]);
  }
  if (lower_failed(l)) return LOWER_NONE;
  if (!lower_reduces_as_is(i, nv)) return lower_refuse(l, i, "of several precisions");
  if (s->elements == 0) return lower_in_type(n, init[leaf], types[leaf], result_type(i, leaf));
  for (u32 d = 0; d < s->rank; d++) {
    const hlo_window_dim *wd = &w->v[d];
    const nest_expr *e = nest_add(n, nest_mul(n, idx[d], wd->stride), nest_const(n, -wd->pad_low));
    if (wd->size > 1) {
      if (!nest_new_loop(n, wd->size, &loops[nloops])) return lower_refuse(l, i, "too many loops");
      e = nest_add(n, e, nest_of_var(n, loops[nloops++], wd->rhs_dilate));
    }
    own = nest_guard(n, e, 0, (s->dims[d] - 1) * wd->lhs_dilate + 1, own);
    if (wd->lhs_dilate > 1) {
      own = nest_guard(n, nest_mod(n, e, wd->lhs_dilate), 0, 1, own);
      e = nest_div(n, e, wd->lhs_dilate);
    }
    sub[d] = s->dims[d] == 1 ? nest_const(n, 0) : e;
  }
  u32 g = own == NEST_NONE     ? guard
          : guard == NEST_NONE ? own
                               : nest_op2(n, HLO_AND, HLO_PRED, guard, own);
  // padding is not reduced
  for (u32 k = 0; k < nv && !lower_failed(l); k++)
    in[k] = lower_value(l, f, hlo_operand(i, k), 0, s->rank, sub, g);
  if (lower_failed(l)) return LOWER_NONE;
  lower_group(l, i, hlo_attr_comp(i, HLO_ATTR_TO_APPLY), nloops, loops, NEST_NONE, own, nv, in,
              init, types, out);
  if (lower_failed(l)) return LOWER_NONE;
  put_results(l, f, i, rank, idx, guard, nv, types, out);
  return out[leaf];
}

hlo_dtype lower_dot_sums(hlo_dtype a, hlo_dtype b, hlo_dtype result) {
  bool complex = hlo_dtype_is_complex(a) || hlo_dtype_is_complex(b);
  if (complex && !hlo_dtype_is_complex(result)) return HLO_C128;
  if (nest_is_narrow(result)) return HLO_F32;
  if (!hlo_dtype_is_integer(result) && result != HLO_PRED) return result;
  if (hlo_dtype_is_float(a) || hlo_dtype_is_float(b)) return HLO_F64;
  // of numbers that cancel out, the sum is false
  return result == HLO_PRED && (a != HLO_PRED || b != HLO_PRED) ? HLO_S64 : result;
}

nest_val lower_dot_result(nest *n, nest_val sum, hlo_dtype a, hlo_dtype b, hlo_dtype result) {
  hlo_dtype t = lower_dot_sums(a, b, result);
  if ((hlo_dtype_is_integer(result) || result == HLO_PRED) && t == HLO_F64) {
    hlo_dtype x = !hlo_dtype_is_float(a)                                           ? b
                  : hlo_dtype_is_float(b) && hlo_dtype_bits(b) > hlo_dtype_bits(a) ? b
                                                                                   : a;
    sum = nest_convert(n, sum, t, x);
    t = x;
  }
  return nest_convert(n, sum, t, result);
}

nest_val lower_dot(lowering *l, lower_frame *f, const hlo_instr *i, u32 rank,
                   const nest_expr *const *idx, u32 guard) {
  nest *n = l->n;
  const hlo_instr *a = hlo_operand(i, 0), *b = hlo_operand(i, 1);
  hlo_ints lb = hlo_attr_ints(i, HLO_ATTR_LHS_BATCH_DIMS),
           rb = hlo_attr_ints(i, HLO_ATTR_RHS_BATCH_DIMS),
           lc = hlo_attr_ints(i, HLO_ATTR_LHS_CONTRACTING_DIMS),
           rc = hlo_attr_ints(i, HLO_ATTR_RHS_CONTRACTING_DIMS);
  const nest_expr *ai[HLO_MAX_RANK], *bi[HLO_MAX_RANK];
  u32 loops[NEST_MAX_LOOPS], nloops = 0, o = 0;
  bool empty = false;
  (void)rank;
  for (u32 k = 0; k < lb.n; k++) ai[lb.v[k]] = bi[rb.v[k]] = idx[o++];
  for (u32 k = 0; k < lc.n; k++) {
    i64 size = a->shape->dims[lc.v[k]];
    empty |= size == 0;
    const nest_expr *e = nest_const(n, 0);
    if (size > 1) {
      if (!nest_new_loop(n, size, &loops[nloops])) return lower_refuse(l, i, "too many loops");
      e = nest_of_var(n, loops[nloops++], 1);
    }
    ai[lc.v[k]] = bi[rc.v[k]] = e;
  }
  for (u32 d = 0; d < a->shape->rank; d++)
    if (!hlo_ints_has(lb, d) && !hlo_ints_has(lc, d)) ai[d] = idx[o++];
  for (u32 d = 0; d < b->shape->rank; d++)
    if (!hlo_ints_has(rb, d) && !hlo_ints_has(rc, d)) bi[d] = idx[o++];
  hlo_dtype t = lower_dot_sums(a->shape->dtype, b->shape->dtype, i->shape->dtype),
            r = hlo_dtype_real_part(t);
  nest_val zero = {nest_const_f64(n, r, 0),
                   hlo_dtype_is_complex(t) ? nest_const_f64(n, r, 0) : NEST_NONE};
  if (empty) return nest_convert(n, zero, t, i->shape->dtype);
  nest_val va = lower_value(l, f, a, 0, a->shape->rank, ai, guard),
           vb = lower_value(l, f, b, 0, b->shape->rank, bi, guard);
  if (lower_failed(l)) return LOWER_NONE;
  va = nest_convert(n, va, a->shape->dtype, t);
  vb = nest_convert(n, vb, b->shape->dtype, t);
  nest_val in, out;
  if (!nest_elementwise(n, HLO_MULTIPLY, t, t, 2, (nest_val[]){va, vb}, &in))
    return lower_refuse(l, i, hlo_dtype_text(t));
  lower_group(l, i, NULL, nloops, loops, NEST_NONE, NEST_NONE, 1, &in, &zero, &t, &out);
  if (lower_failed(l)) return LOWER_NONE;
  return lower_dot_result(n, out, a->shape->dtype, b->shape->dtype, i->shape->dtype);
}
