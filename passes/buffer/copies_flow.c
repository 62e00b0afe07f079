// copies_flow.c — dataflow and alias analysis: values, and the buffers that they must share
// (xla/service/hlo_dataflow_analysis.cc, hlo_alias_analysis.cc).
//
// Values are propagated through the program from the entry, with called computations at their call
// sites. All elements of a loop's state start as invariant; an element becomes a phi once the body
// returns another value, and the loop is iterated until it has converged. Definitions, uses and
// groups are found afterwards (cp_find_uses). After the removal of copies the values of the rest
// are updated without a new propagation, unless a phi may have become invariant (cp_follow).
#include "passes/buffer/copies.h"
#include "core/ir/async.h"

// ---- positions of shapes ------------------------------------------------------------------------
u32 cp_leaf_at(const hlo_shape *s, hlo_ints index) {
  u32 at;
  return hlo_shape_at(s, index, &at) ? at : CP_NONE;
}
u32 cp_element_leaf(const hlo_instr *i) {
  return hlo_shape_leaf_offset(hlo_operand(i, 0)->shape, (u32)hlo_attr_int(i, HLO_ATTR_INDEX, 0));
}
bool cp_copyable(const hlo_shape *s) { return hlo_shape_is_array(s); }

// ---- in-place operations ------------------------------------------------------------------------
static void pair(cp_pairs *out, u32 operand, u32 in, u32 to, u32 n) {
  for (u32 k = 0; k < n; k++) {
    cp_pair p = {operand, in + k, to + k};
    hs_vec_push(out, p);
  }
}

// The definition of leaf `*leaf` of x: looks through tuples and bitcasts.
static const hlo_instr *definition_of(const hlo_instr *x, u32 *leaf) {
  for (;;) {
    if (x->opcode == HLO_TUPLE) {
      u32 k = 0, n;
      while (*leaf >= (n = hlo_shape_leaves(hlo_operand(x, k)->shape))) *leaf -= n, k++;
      x = hlo_operand(x, k);
    } else if (x->opcode == HLO_GET_TUPLE_ELEMENT) {
      *leaf += cp_element_leaf(x);
      x = hlo_operand(x, 0);
    } else if (x->opcode == HLO_BITCAST) {
      x = hlo_operand(x, 0);
    } else {
      return x;
    }
  }
}

// Fusions nested deeper than this are not looked through: they write nothing in place.
enum { FUSIONS_DEEP = 64 };
static void in_place(const hlo_instr *, u32 depth, cp_pairs *out);

// The definition of the operand that i overwrites with its result `leaf`; NULL: none.
static const hlo_instr *overwritten_by(const hlo_instr *i, u32 depth, u32 *leaf) {
  const hlo_instr *x = NULL;
  cp_pairs v = {0};
  in_place(i, depth, &v);
  for (u32 k = 0; k < v.n && !x; k++)
    if (v.v[k].out_leaf == *leaf)
      *leaf = v.v[k].in_leaf, x = definition_of(hlo_operand(i, v.v[k].operand), leaf);
  hs_vec_free(&v);
  return x;
}

// A fusion writes an operand in place if the definition of a result in its body overwrites that
// parameter, directly or through a nested fusion.
static void pairs_in_fusion(const hlo_instr *i, u32 depth, cp_pairs *out) {
  const hlo_computation *c = hlo_fusion_comp(i);
  for (u32 k = 0, n = hlo_shape_leaves(i->shape); k < n; k++) {
    u32 leaf = k;
    const hlo_instr *x = overwritten_by(definition_of(c->root, &leaf), depth + 1, &leaf);
    if (x && x->opcode == HLO_FUSION) {
      const hlo_instr *inner = overwritten_by(x, depth + 1, &leaf);
      x = inner ? inner : x;
    }
    if (x && x->opcode == HLO_PARAMETER) pair(out, (u32)hlo_param_number(x), leaf, k, 1);
  }
}

// The pairs of the attribute output_to_operand_aliasing.
static void pairs_of_attribute(const hlo_instr *i, cp_pairs *out) {
  const hlo_aliases *v = hlo_attr_ptr(i, HLO_ATTR_OUTPUT_TO_OPERAND_ALIASING);
  for (u32 k = 0; v && k < v->n; k++) {
    if (v->v[k].param < 0 || v->v[k].param >= (i64)i->noperands) continue;
    u32 in, to, o = (u32)v->v[k].param;
    const hlo_shape *a = hlo_shape_at(hlo_operand(i, o)->shape, v->v[k].param_index, &in),
                    *b = hlo_shape_at(i->shape, v->v[k].out_index, &to);
    if (a && b && hlo_shape_leaves(a) == hlo_shape_leaves(b))
      pair(out, o, in, to, hlo_shape_leaves(a));
  }
}

static void in_place(const hlo_instr *i, u32 depth, cp_pairs *out) {
  switch (i->opcode) {
  case HLO_DYNAMIC_UPDATE_SLICE: pair(out, 0, 0, 0, 1); break;
  case HLO_SCATTER:
    for (u32 k = 0; k < i->noperands / 2; k++) pair(out, k, 0, k, 1);
    break;
  case HLO_ALL_REDUCE_START:
    for (u32 k = 0; k < i->noperands; k++) pair(out, k, 0, k, 1);
    break;
  case HLO_COLLECTIVE_PERMUTE:
    if (i->noperands == 4) pair(out, 1, 0, 0, hlo_shape_leaves(hlo_operand(i, 1)->shape));
    break;
  case HLO_COLLECTIVE_PERMUTE_START:
    if (i->noperands == 4)
      pair(out, 1, 0, hlo_shape_leaf_offset(i->shape, 1),
           hlo_shape_leaves(hlo_operand(i, 1)->shape));
    break;
  case HLO_CUSTOM_CALL: pairs_of_attribute(i, out); break;
  case HLO_FUSION:
    pairs_of_attribute(i, out);
    if (depth < FUSIONS_DEEP) pairs_in_fusion(i, depth, out);
    break;
  case HLO_SET_DIMENSION_SIZE: pair(out, 0, 0, 0, 1); break;
  case HLO_RAGGED_ALL_TO_ALL: pair(out, 1, 0, 0, hlo_shape_leaves(hlo_operand(i, 1)->shape)); break;
  case HLO_ASYNC_START:
  case HLO_ASYNC_UPDATE: {
    // Operands become parameters of the wrapped computation, whose root decides.
    hlo_computation *w = hlo_async_wrapped(i);
    u32 here = i->opcode == HLO_ASYNC_UPDATE,
        known = here ? hlo_operand(i, 0)->shape->elems[0]->nelems : 0;
    if (!w || !hlo_shape_is_tuple(i->shape) || i->shape->nelems < 2) break;
    cp_pairs inner = {0};
    in_place(w->root, depth, &inner);
    u32 outs = hlo_shape_leaf_offset(i->shape, 1), nouts = hlo_shape_leaves(i->shape->elems[1]);
    for (u32 k = 0; k < inner.n; k++) {
      const hlo_instr *p = hlo_operand(w->root, inner.v[k].operand);
      if (p->opcode != HLO_PARAMETER) continue;
      u32 o = (u32)hlo_param_number(p);
      if (o < known || o - known + here >= i->noperands) continue;
      pair(out, o - known + here, inner.v[k].in_leaf,
           inner.v[k].out_leaf < nouts ? outs + inner.v[k].out_leaf : CP_NONE, 1);
    }
    hs_vec_free(&inner);
    break;
  }
  default: break;
  }
}

void cp_in_place(const hlo_instr *i, cp_pairs *out) {
  size_t n = out->n;
  in_place(i, 0, out);
  // a copy of an operand would end the size that it hides
  for (size_t k = n; k < out->n; k++)
    if (!pass_hides_size(hlo_operand(i, out->v[k].operand))) out->v[n++] = out->v[k];
  out->n = n;
}

static bool elementwise(const hlo_instr *i) {
  return hlo_op_has(i->opcode, HLO_F_ELEMENTWISE) || i->opcode == HLO_COPY ||
         i->opcode == HLO_BITCAST;
}

enum { FUSED_MOST = 512 };
bool cp_share(const cp_flow *f, const hlo_instr *user, u32 operand, u32 in_leaf, u32 out_leaf) {
  const hlo_instr *x = hlo_operand(user, operand);
  const hlo_shape *from = hlo_shape_leaf(x->shape, in_leaf),
                  *to = hlo_shape_leaf(user->shape, out_leaf);
  if (user->opcode == HLO_WHILE) return in_leaf == out_leaf;
  cp_pairs v = {0};
  if (user->id >= f->nids || f->writes[user->id]) cp_in_place(user, &v);
  bool declared = false, other_use = false;
  for (u32 k = 0; k < v.n; k++)
    declared |=
        v.v[k].operand == operand && v.v[k].in_leaf == in_leaf && v.v[k].out_leaf == out_leaf;
  for (u32 k = 0; k < user->noperands; k++) other_use |= k != operand && hlo_operand(user, k) == x;
  bool writes = v.n > 0;
  hs_vec_free(&v);
  if (declared) return !other_use;
  if (from != to || (writes && user->opcode != HLO_FUSION)) return false;
  if (user->opcode == HLO_TRIANGULAR_SOLVE) return operand == 1 && !other_use;
  if (user->opcode == HLO_SORT) {  // in place, if the operand has no other user
    for (const hlo_use *u = x->first_use; u; u = u->next) other_use |= u->user != user;
    return !other_use && (user->noperands == 1 || out_leaf == operand);
  }
  if (user->opcode != HLO_FUSION) return elementwise(user) && hlo_shape_is_array(user->shape);
  const hlo_computation *body = hlo_fusion_comp(user);
  if (writes || operand >= body->nparams || body->ninstrs > FUSED_MOST) return false;
  const hlo_instr *queue[FUSED_MOST];
  u32 n = 0;
  queue[n++] = body->params[operand];
  for (u32 k = 0; k < n; k++)
    hlo_for_each_use(u, queue[k]) {
      if (!elementwise(u->user) && u->user->opcode != HLO_TUPLE) return false;
      bool seen = false;
      for (u32 j = 0; j < n && !seen; j++) seen = queue[j] == u->user;
      if (!seen && n == FUSED_MOST) return false;
      if (!seen) queue[n++] = u->user;
    }
  return true;
}

// ---- values -------------------------------------------------------------------------------------
static void propagate(cp_flow *f, const hlo_computation *c);

static void copy_values(cp_flow *f, u32 to, u32 from, u32 n) {
  memmove(f->at + to, f->at + from, n * sizeof *f->at);
}
static void define_values(cp_flow *f, u32 at, u32 n) {
  for (u32 k = 0; k < n; k++) f->at[at + k] = at + k;
}
static u32 position(const cp_flow *f, const hlo_instr *i) { return f->base[i->id]; }

static void propagate_while(cp_flow *f, const hlo_instr *i) {
  hlo_computation *body = hlo_attr_comp(i, HLO_ATTR_BODY),
                  *cond = hlo_attr_comp(i, HLO_ATTR_CONDITION);
  u32 n = hlo_shape_leaves(i->shape), out = position(f, i), in = position(f, hlo_operand(i, 0)),
      p = position(f, body->params[0]), q = position(f, cond->params[0]);
  for (bool again = true; again;) {
    again = false;
    for (u32 k = 0; k < n; k++)
      f->at[p + k] = f->phi[out + k] ? p + k : f->at[in + k],
                f->at[q + k] = f->phi[out + k] ? q + k : f->at[in + k];
    propagate(f, cond);
    propagate(f, body);
    for (u32 k = 0, r = position(f, body->root); k < n; k++)
      if (!f->phi[out + k] && f->at[r + k] != f->at[in + k])
        f->phi[out + k] = f->phi[p + k] = f->phi[q + k] = again = true;
  }
  for (u32 k = 0; k < n; k++) f->at[out + k] = f->phi[out + k] ? out + k : f->at[in + k];
}

static void propagate_conditional(cp_flow *f, const hlo_instr *i) {
  hlo_computation **v;
  u32 nb, out = position(f, i), n = hlo_shape_leaves(i->shape);
  pass_called_all(i, f->a, &v, &nb);
  for (u32 b = 0; b < nb; b++) {
    hlo_instr *x = hlo_operand(i, 1 + b);
    copy_values(f, position(f, v[b]->params[0]), position(f, x), hlo_shape_leaves(x->shape));
    propagate(f, v[b]);
    for (u32 k = 0; k < n; k++) {
      u32 value = f->at[position(f, v[b]->root) + k];
      if (b == 0) f->at[out + k] = value, f->phi[out + k] = false;
      else if (f->at[out + k] != value) f->at[out + k] = out + k, f->phi[out + k] = true;
    }
  }
}

static void bind(cp_flow *f, const hlo_computation *to, u32 first, const hlo_instr *i, u32 from) {
  for (u32 k = from; k < i->noperands && first + k - from < to->nparams; k++) {
    hlo_instr *x = hlo_operand(i, k), *p = to->params[first + k - from];
    if (hlo_shape_leaves(p->shape) == hlo_shape_leaves(x->shape))
      copy_values(f, position(f, p), position(f, x), hlo_shape_leaves(x->shape));
  }
}

static void propagate_async(cp_flow *f, const hlo_instr *i) {
  u32 out = position(f, i), n = hlo_shape_leaves(i->shape);
  const hlo_computation *w = hlo_async_wrapped(i);
  define_values(f, out, n);
  if (i->opcode == HLO_ASYNC_DONE) {
    const hlo_instr *x = hlo_operand(i, 0);
    if (x->shape->nelems >= 2 && hlo_shape_leaves(x->shape->elems[1]) == n)
      copy_values(f, out, position(f, x) + hlo_shape_leaf_offset(x->shape, 1), n);
    return;
  }
  if (!hlo_shape_is_tuple(i->shape) || i->shape->nelems < 2) return;
  const hlo_instr *x = i->opcode == HLO_ASYNC_UPDATE ? hlo_operand(i, 0) : NULL;
  u32 known = x ? hlo_shape_leaves(x->shape->elems[0]) : 0, at = out + known,
      outs = hlo_shape_leaf_offset(i->shape, 1), nouts = hlo_shape_leaves(i->shape->elems[1]);
  if (x) copy_values(f, out, position(f, x), known);
  for (u32 k = x != NULL; k < i->noperands; k++) {
    u32 more = hlo_shape_leaves(hlo_operand(i, k)->shape);
    if (at + more <= out + outs)
      copy_values(f, at, position(f, hlo_operand(i, k)), more), at += more;
  }
  if (x && hlo_shape_leaves(x->shape->elems[1]) == nouts && i->noperands == 1) {
    copy_values(f, out + outs, position(f, x) + hlo_shape_leaf_offset(x->shape, 1), nouts);
  } else if (w && position(f, w->root) != CP_NONE) {
    f->caller[w->id] = (hlo_instr *)i;
    bind(f, w, x ? x->shape->elems[0]->nelems : 0, i, x != NULL);
    propagate(f, w);
    if (hlo_shape_leaves(w->root->shape) == nouts)
      copy_values(f, out + outs, position(f, w->root), nouts);
  }
}

// Forwards the values of an element of operand 0 to the positions to .. to + n.
static void forward(cp_flow *f, const hlo_instr *i, u32 to, u32 element, u32 n) {
  const hlo_instr *x = hlo_operand(i, 0);
  define_values(f, position(f, i), hlo_shape_leaves(i->shape));
  u32 from = hlo_shape_is_tuple(x->shape) ? hlo_shape_leaf_offset(x->shape, element) : 0;
  if (to + n <= hlo_shape_leaves(i->shape) && from + n <= hlo_shape_leaves(x->shape))
    copy_values(f, position(f, i) + to, position(f, x) + from, n);
}

static void propagate_instr(cp_flow *f, const hlo_instr *i) {
  u32 at = position(f, i), n = hlo_shape_leaves(i->shape);
  switch (i->opcode) {
  case HLO_PARAMETER:
    if (i->parent == f->m->entry) define_values(f, at, n);
    break;
  case HLO_TUPLE:
    for (u32 k = 0; k < i->noperands; k++) {
      u32 more = hlo_shape_leaves(hlo_operand(i, k)->shape);
      copy_values(f, at, position(f, hlo_operand(i, k)), more);
      at += more;
    }
    break;
  case HLO_GET_TUPLE_ELEMENT:
    copy_values(f, at, position(f, hlo_operand(i, 0)) + cp_element_leaf(i), n);
    break;
  case HLO_BITCAST:
  case HLO_DOMAIN:
  case HLO_ADD_DEPENDENCY: copy_values(f, at, position(f, hlo_operand(i, 0)), n); break;
  case HLO_OPT_BARRIER:
  case HLO_ALL_REDUCE_DONE: copy_values(f, at, position(f, hlo_operand(i, 0)), n); break;
  case HLO_WHILE: propagate_while(f, i); break;
  case HLO_CONDITIONAL: propagate_conditional(f, i); break;
  case HLO_CALL: {
    hlo_computation *c = hlo_fusion_comp(i);
    bind(f, c, 0, i, 0);
    propagate(f, c);
    copy_values(f, at, position(f, c->root), n);
    break;
  }
  case HLO_ASYNC_START:
  case HLO_ASYNC_UPDATE:
  case HLO_ASYNC_DONE: propagate_async(f, i); break;
  case HLO_SEND:
  case HLO_COLLECTIVE_PERMUTE_START:
    forward(f, i, 0, 0, hlo_shape_leaves(hlo_operand(i, 0)->shape));
    break;
  case HLO_RECV_DONE:
  case HLO_COPY_DONE: forward(f, i, 0, 0, 1); break;
  case HLO_COPY_START: forward(f, i, 1, 0, 1); break;
  case HLO_COLLECTIVE_PERMUTE_DONE:
  case HLO_ALL_GATHER_DONE: forward(f, i, 0, 1, n); break;
  case HLO_ALL_GATHER_START:
    define_values(f, at, n);
    for (u32 k = 0; k < i->noperands; k++)
      copy_values(f, at + k, position(f, hlo_operand(i, k)), 1);
    break;
  default: define_values(f, at, n); break;
  }
}

static void propagate(cp_flow *f, const hlo_computation *c) {
  hlo_instr **v = f->order[c->id];
  for (u32 k = 0, n = c->ninstrs; k < n; k++) propagate_instr(f, v[k]);
}

// ---- traversal ----------------------------------------------------------------------------------
static bool control(const hlo_instr *i) { return hlo_op_has(i->opcode, HLO_F_CONTROL); }

// Inserting copies needs any topological order, removing them a post order.
static void find_order(cp_flow *f, hlo_computation *c) {
  if (!f->any_order || c->unsorted) {
    f->order[c->id] = hlo_post_order(c, f->a);
    return;
  }
  hlo_instr **v = f->order[c->id] = hs_arena_alloc(f->a, (c->ninstrs + 1) * sizeof *v);
  hlo_for_each_instr(i, c) *v++ = i;
  *v = NULL;
}

// False when two instructions call one computation.
static bool visit(cp_flow *f, hlo_computation *c, u32 depth, u32 *index) {
  if (!f->order[c->id]) find_order(f, c);
  hlo_instr **v = f->order[c->id];
  f->depth[c->id] = depth;
  for (u32 params = 2; params-- > 0;)
    for (u32 k = 0; k < c->ninstrs; k++) {
      hlo_instr *i = v[k];
      if ((i->opcode == HLO_PARAMETER) != (params == 1)) continue;
      if (control(i)) {
        hlo_computation **called, *loop[2];
        u32 n = 2;
        if (i->opcode == HLO_WHILE)
          called = loop, loop[0] = hlo_attr_comp(i, HLO_ATTR_CONDITION),
          loop[1] = hlo_attr_comp(i, HLO_ATTR_BODY);
        else pass_called_all(i, f->a, &called, &n);
        for (u32 j = 0; j < n; j++) {
          if (f->caller[called[j]->id] || called[j] == f->m->entry) return false;
          f->caller[called[j]->id] = i;
          if (!visit(f, called[j], depth + 1, index)) return false;
        }
      }
      f->base[i->id] = f->npositions;
      f->npositions += hlo_shape_leaves(i->shape);
      f->when[i->id] = (*index)++;
    }
  hs_vec_push(&f->comps, c);
  return true;
}

u32 cp_group(cp_flow *f, u32 value) {
  while (f->group[value] != value) value = f->group[value] = f->group[f->group[value]];
  return value;
}
static void join(cp_flow *f, u32 a, u32 b) {
  a = cp_group(f, f->at[a]), b = cp_group(f, f->at[b]);
  if (a != b) f->group[HS_MAX(a, b)] = HS_MIN(a, b);
}

static void join_instr(cp_flow *f, const hlo_instr *i) {
  u32 at = position(f, i), n = hlo_shape_leaves(i->shape);
  if (i->opcode == HLO_WHILE) {
    const hlo_computation *body = hlo_attr_comp(i, HLO_ATTR_BODY),
                          *cond = hlo_attr_comp(i, HLO_ATTR_CONDITION);
    const hlo_instr *with[] = {hlo_operand(i, 0), body->params[0], body->root, cond->params[0]};
    for (u32 k = 0; k < n; k++)
      for (size_t j = 0; f->phi[at + k] && j < HS_COUNT(with); j++)
        join(f, at + k, position(f, with[j]) + k);
  } else if (i->opcode == HLO_CONDITIONAL) {
    hlo_computation **v;
    u32 nb;
    pass_called_all(i, f->a, &v, &nb);
    for (u32 b = 0; b < nb; b++)
      for (u32 k = 0; k < n; k++)
        if (f->phi[at + k]) join(f, at + k, position(f, v[b]->root) + k);
  } else if (f->writes[i->id]) {
    cp_pairs v = {0};
    cp_in_place(i, &v);
    f->writes[i->id] = v.n > 0;
    for (u32 k = 0; k < v.n; k++)
      if (v.v[k].in_leaf < hlo_shape_leaves(hlo_operand(i, v.v[k].operand)->shape) &&
          v.v[k].out_leaf < n)
        join(f, position(f, hlo_operand(i, v.v[k].operand)) + v.v[k].in_leaf, at + v.v[k].out_leaf);
    hs_vec_free(&v);
  }
}

static void join_arguments(cp_flow *f) {
  const hlo_attr *a = hlo_attrs_find(f->m->attrs, HLO_ATTR_INPUT_OUTPUT_ALIAS);
  const hlo_aliases *v = a ? a->v.p : NULL;
  const hlo_computation *e = f->m->entry;
  for (u32 k = 0; v && k < v->n; k++) {
    if (v->v[k].param < 0 || v->v[k].param >= (i64)e->nparams) continue;
    const hlo_instr *p = e->params[v->v[k].param];
    u32 in = cp_leaf_at(p->shape, v->v[k].param_index),
        out = cp_leaf_at(e->root->shape, v->v[k].out_index);
    if (in != CP_NONE && out != CP_NONE) join(f, position(f, p) + in, position(f, e->root) + out);
  }
}

// Instructions that only forward a value do not use it, unless they are the root.
static void find_uses(cp_flow *f, const hlo_computation *c) {
  hlo_for_each_instr(i, c) {
    bool forwards =
        i->opcode == HLO_TUPLE || i->opcode == HLO_GET_TUPLE_ELEMENT || i->opcode == HLO_DOMAIN;
    if (forwards && !hlo_is_root(i)) continue;
    for (u32 o = 0; o < i->noperands; o++) {
      const hlo_instr *x = hlo_operand(i, o);
      u32 from = 0, n = hlo_shape_leaves(x->shape);
      if (i->opcode == HLO_GET_TUPLE_ELEMENT)
        from = cp_element_leaf(i), n = from + hlo_shape_leaves(i->shape);
      if ((i->opcode == HLO_ASYNC_UPDATE || i->opcode == HLO_ASYNC_DONE) && o == 0 &&
          hlo_shape_is_tuple(x->shape))
        from = hlo_shape_leaves(x->shape->elems[0]);
      for (u32 k = from; k < n; k++) {
        u32 value = f->at[position(f, x) + k];
        cp_use u = {i, o, k, f->first_use[value]};
        f->first_use[value] = (u32)f->uses.n;
        hs_vec_push(&f->uses, u);
      }
    }
  }
  for (u32 k = 0, n = hlo_shape_leaves(c->root->shape); k < n; k++) {
    u32 value = f->at[position(f, c->root) + k];
    cp_root r = {c, f->first_root[value]};
    f->first_root[value] = (u32)f->roots.n;
    hs_vec_push(&f->roots, r);
  }
}

u32 *cp_none_array(hs_arena *a, u32 n) {
  u32 *v = HS_NEW_ARRAY(a, u32, n + 1);
  memset(v, 0xff, (n + 1) * sizeof *v);
  return v;
}

bool cp_flow_of(pass_ctx *p, cp_flow *f, const cp_flow *before) {
  hlo_module *m = p->m;
  hs_arena *a = p->scratch;
  *f = (cp_flow){.m = m, .a = a, .nids = m->next_instr_id, .any_order = !before};
  u32 ni = m->next_instr_id, nc = m->next_comp_id, index = 0;
  f->order = HS_NEW_ARRAY(a, hlo_instr **, nc + 1);
  f->caller = HS_NEW_ARRAY(a, hlo_instr *, nc + 1);
  f->depth = HS_NEW_ARRAY(a, u32, nc + 1);
  f->writes = hs_arena_alloc(a, (ni + 1) * sizeof *f->writes);
  memset(f->writes, 1, ni * sizeof *f->writes);
  if (before) memcpy(f->writes, before->writes, before->nids * sizeof *f->writes);
  f->when = HS_NEW_ARRAY(a, u32, ni + 1);
  f->base = cp_none_array(a, ni);
  if (!visit(f, m->entry, 0, &index)) {
    hs_vec_free(&f->comps);
    return false;
  }
  f->at = HS_NEW_ARRAY(a, u32, f->npositions + 1);
  f->phi = HS_NEW_ARRAY(a, bool, f->npositions + 1);
  define_values(f, 0, f->npositions);
  propagate(f, m->entry);
  return true;
}

void cp_find_uses(cp_flow *f) {
  u32 n = f->npositions;
  f->definer = HS_NEW_ARRAY(f->a, hlo_instr *, n + 1);
  f->group = HS_NEW_ARRAY(f->a, u32, n + 1);
  f->first_use = cp_none_array(f->a, n);
  f->first_root = cp_none_array(f->a, n);
  f->uses.n = f->roots.n = 0;
  for (u32 k = 0; k < n; k++) f->group[k] = k;
  for (u32 c = 0; c < f->comps.n; c++) {
    hlo_for_each_instr(i, f->comps.v[c]) {
      for (u32 k = 0, leaves = hlo_shape_leaves(i->shape); k < leaves; k++)
        f->definer[position(f, i) + k] = i;
      join_instr(f, i);
    }
    find_uses(f, f->comps.v[c]);
  }
  join_arguments(f);
}

// ---- after the removal of copies ----------------------------------------------------------------
static bool is_defined_in(const cp_flow *f, const hlo_computation *c, u32 position) {
  const hlo_instr *x = f->definer[f->at[position]];
  return x != c->params[0] && cp_nested(f, x, c);
}

// Whether a new propagation would find the same phis: sufficient is that the values that bodies and
// branches return are defined there. Forwarded values might have become equal.
static bool phis_are_stable(const cp_flow *f) {
  for (u32 c = 0; c < f->comps.n; c++) {
    const hlo_computation *x = f->comps.v[c];
    hlo_for_each_instr(w, x) {
      if (w->opcode != HLO_WHILE) continue;
      const hlo_computation *body = hlo_attr_comp(w, HLO_ATTR_BODY);
      for (u32 k = 0, n = hlo_shape_leaves(w->shape); k < n; k++)
        if (f->phi[position(f, w) + k] && !is_defined_in(f, body, position(f, body->root) + k))
          return false;
    }
    hlo_for_each_instr(i, x) {
      if (i->opcode != HLO_CONDITIONAL) continue;
      hlo_computation **v;
      u32 nb;
      pass_called_all(i, f->a, &v, &nb);
      for (u32 k = 0, n = hlo_shape_leaves(i->shape); k < n; k++) {
        bool defined = !f->phi[position(f, i) + k];
        for (u32 b = 0; b < nb && !defined; b++)
          defined = nb > 1 && is_defined_in(f, v[b], position(f, v[b]->root) + k);
        if (!defined) return false;
      }
    }
  }
  return true;
}

// Whether two flows of one module are equal up to the numbering of values.
static bool same_flow(cp_flow *f, cp_flow *g) {
  u32 *value = cp_none_array(f->a, f->npositions), *group = cp_none_array(f->a, f->npositions),
      *back = cp_none_array(f->a, g->npositions), *group_back = cp_none_array(f->a, g->npositions);
  bool same = true;
  for (u32 c = 0; c < g->comps.n; c++)
    hlo_for_each_instr(i, g->comps.v[c])
      for (u32 k = 0, n = hlo_shape_leaves(i->shape); k < n; k++) {
        u32 x = position(f, i) + k, y = position(g, i) + k, gx = cp_group(f, f->at[x]),
            gy = cp_group(g, g->at[y]);
        u32 *ends[] = {&value[f->at[x]], &back[g->at[y]], &group[gx], &group_back[gy]},
            want[] = {g->at[y], f->at[x], gy, gx};
        for (size_t e = 0; e < HS_COUNT(ends); e++) {
          if (*ends[e] == CP_NONE) *ends[e] = want[e];
          same &= *ends[e] == want[e];
        }
        same &= f->phi[x] == g->phi[y] && f->definer[f->at[x]] == g->definer[g->at[y]];
      }
  return same;
}

bool cp_follow(pass_ctx *p, cp_flow *f, const u32 *became) {
  for (u32 k = 0; k < f->npositions; k++)
    while (became[f->at[k]] != CP_NONE) f->at[k] = became[f->at[k]];
  if (!phis_are_stable(f)) return false;
  cp_find_uses(f);
  if (HS_CHECKED) {
    cp_flow fresh;
    bool found = cp_flow_of(p, &fresh, f);
    cp_find_uses(&fresh);
    bool same = found && same_flow(f, &fresh);
    HS_ASSERT(same);
    cp_flow_free(&fresh);
  }
  return true;
}

void cp_flow_free(cp_flow *f) {
  hs_vec_free(&f->comps);
  hs_vec_free(&f->uses);
  hs_vec_free(&f->roots);
  hs_vec_free(&f->spans);
  hs_vec_free(&f->before);
  hs_vec_free(&f->todo);
  hs_vec_free(&f->added);
}
