// layout_constraints.c — propagation of layouts in one computation
// (xla/service/layout_assignment.cc, PropagateConstraints).
//
// A constraint fixes the layout of an array, of an operand as its instruction requires it, or of
// the computation's result. It is propagated from an operand to the array that it is, to the other
// operands and the result of an instruction that cannot change the order of dimensions, and through
// transposes, reshapes and broadcasts to the layout that makes them bitcasts; from an array to the
// operands of its definition and to all its uses. A mandatory constraint replaces another one;
// otherwise the first one stays, unless the newer one has higher priority. The worklist is a deque:
// deep (depth-first) constraints are pushed to the front, the others to the back.
//
// Arrays are identified by the defining instruction and a leaf of its shape; tuples, their
// elements, barriers and custom calls that forward a buffer b(...) define none.
#include "passes/layout/layout_constraints.h"

// limits that guarantee termination: non-mandatory changes of one array, changes of any kind
enum { CHANGES_MOST = 2, PUSHED_MOST = 64 };

// ---- arrays -------------------------------------------------------------------------------------
const hlo_shape *la_content(const hlo_shape *leaf) {
  return leaf->dtype == HLO_BUFFER ? leaf->elems[0] : leaf;
}

static const hlo_layout *order_layout(hlo_ctx *ctx, u32 rank, const i64 *minor_to_major) {
  hlo_layout l = *hlo_layout_default(ctx, rank);
  l.minor_to_major = minor_to_major;
  return hlo_layout_intern(ctx, &l);
}

const hlo_layout *la_order(hlo_ctx *ctx, const hlo_shape *leaf) {
  const hlo_shape *s = la_content(leaf);
  return hlo_shape_is_array(s) && s->layout ? order_layout(ctx, s->rank, s->layout->minor_to_major)
                                            : NULL;
}

const hlo_shape *la_in_order(hlo_ctx *ctx, const hlo_shape *s, const hlo_layout *l) {
  hlo_layout now = s->layout ? *s->layout : *l;
  now.minor_to_major = l->minor_to_major;
  return hlo_shape_with_layout(ctx, s, hlo_layout_intern(ctx, &now));
}

// The leaf at an index of a shape, of which the first position is read: aliases of custom calls lie
// no deeper.
static u32 leaf_at(const hlo_shape *s, hlo_ints index) {
  return index.n && hlo_shape_is_tuple(s) ? hlo_shape_leaf_offset(s, index.v[0]) : 0;
}

bool la_forwards(const hlo_instr *i, u32 inner, u32 *operand, u32 *leaf) {
  const hlo_aliases *v =
      i->opcode == HLO_CUSTOM_CALL ? hlo_attr_ptr(i, HLO_ATTR_OUTPUT_TO_OPERAND_ALIASING) : NULL;
  for (u32 k = 0; v && k < v->n; k++) {
    const hlo_alias_entry *e = &v->v[k];
    if (leaf_at(i->shape, e->out_index) != inner || e->param < 0 || e->param >= i->noperands)
      continue;
    const hlo_shape *o = hlo_operand(i, (u32)e->param)->shape;
    *operand = (u32)e->param, *leaf = leaf_at(o, e->param_index);
    const hlo_shape *from = hlo_shape_leaf(o, *leaf), *to = hlo_shape_leaf(i->shape, inner);
    if ((from->dtype == HLO_BUFFER || to->dtype == HLO_BUFFER) &&
        la_content(from)->logical == la_content(to)->logical)
      return true;
  }
  return false;
}

// The leaf of i that forwards leaf `inner` of its operand; false when i does not forward it.
static bool forwarded(const hlo_instr *i, u32 operand, u32 inner, u32 *to) {
  u32 o, leaf;
  for (u32 r = 0; i->opcode == HLO_CUSTOM_CALL && r < hlo_shape_leaves(i->shape); r++)
    if (la_forwards(i, r, &o, &leaf) && o == operand && leaf == inner) return *to = r, true;
  return false;
}

static bool is_barrier(const hlo_instr *i) { return hlo_op_has(i->opcode, HLO_F_FORWARDS); }

bool la_hands_on(const hlo_instr *i, u32 operand) {
  u32 to;
  if (i->opcode == HLO_TUPLE || i->opcode == HLO_GET_TUPLE_ELEMENT) return true;
  return is_barrier(i) ? operand == 0 : forwarded(i, operand, 0, &to);
}

u32 la_maker(const la_comp *c, hlo_instr *i, u32 inner) {
  for (;;) {
    u32 operand, leaf;
    if (i->opcode == HLO_TUPLE) {
      i = hlo_operand(i, hlo_shape_element_at(i->shape, &inner));
    } else if (i->opcode == HLO_GET_TUPLE_ELEMENT) {
      inner += hlo_shape_leaf_offset(hlo_operand(i, 0)->shape, hlo_attr_int(i, HLO_ATTR_INDEX, 0));
      i = hlo_operand(i, 0);
    } else if (is_barrier(i)) {
      i = hlo_operand(i, 0);
    } else if (la_forwards(i, inner, &operand, &leaf)) {
      i = hlo_operand(i, operand), inner = leaf;
    } else {
      return c->base[i->id - c->lo] + inner;
    }
  }
}

u32 la_want_at(const la_comp *c, const hlo_instr *i, u32 operand) {
  u32 u = c->wbase[i->id - c->lo];
  if (i->opcode == HLO_TUPLE) return u + hlo_shape_leaf_offset(i->shape, operand);
  for (u32 k = 0; k < operand; k++) u += hlo_shape_leaves(hlo_operand(i, k)->shape);
  return u;
}

bool la_is_constrained(const la_comp *c, const hlo_instr *i, u32 operand) {
  return c->operand[c->obase[i->id - c->lo] + operand].set;
}

void la_number(la_solver *s, la_comp *c) {
  hs_arena *a = s->p->scratch;
  u32 hi = 0;
  c->n = c->c->ninstrs, c->lo = UINT32_MAX;
  c->order = pass_post_order(s->p, c->c);
  hlo_for_each_instr(i, c->c) c->lo = HS_MIN(c->lo, i->id), hi = HS_MAX(hi, i->id);
  c->nids = hi - c->lo + 1;
  c->base = HS_NEW_ARRAY(a, u32, c->nids);
  c->wbase = HS_NEW_ARRAY(a, u32, c->nids);
  c->obase = HS_NEW_ARRAY(a, u32, c->nids);
  hlo_for_each_instr(i, c->c) {
    c->base[i->id - c->lo] = c->narrays, c->wbase[i->id - c->lo] = c->nwants,
                    c->obase[i->id - c->lo] = c->noperands;
    c->narrays += hlo_shape_leaves(i->shape);
    c->noperands += i->noperands;
    if (i->opcode == HLO_GET_TUPLE_ELEMENT) continue;  // hands on whole tuples: it wants nothing
    for (u32 k = 0; k < i->noperands; k++) c->nwants += hlo_shape_leaves(hlo_operand(i, k)->shape);
  }
  c->array = HS_NEW_ARRAY(a, la_array, c->narrays + 1);
  c->operand = HS_NEW_ARRAY(a, la_operand, c->noperands + 1);
  c->wants = HS_NEW_ARRAY(a, const hlo_layout *, c->nwants + 1);
  hlo_for_each_instr(i, c->c) {
    u32 at = c->base[i->id - c->lo], o = c->obase[i->id - c->lo];
    for (u32 k = 0; k < hlo_shape_leaves(i->shape); k++)
      c->array[at + k].i = i, c->array[at + k].inner = k;
    for (u32 k = 0; k < i->noperands; k++) c->operand[o + k].i = i, c->operand[o + k].operand = k;
  }
}

void la_forget(la_comp *c) {
  for (u32 k = 0; k < c->narrays; k++)
    c->array[k] = (la_array){.i = c->array[k].i, .inner = c->array[k].inner};
  for (u32 k = 0; k < c->noperands; k++)
    c->operand[k] = (la_operand){.i = c->operand[k].i, .operand = c->operand[k].operand};
  for (u32 k = 0; k < c->nwants; k++) c->wants[k] = NULL;
}

// ---- equal layouts ------------------------------------------------------------------------------
static bool is_called(const hlo_instr *i, const char *target) {
  return i->opcode == HLO_CUSTOM_CALL &&
         hs_str_eq(hlo_attr_str(i, HLO_ATTR_CUSTOM_CALL_TARGET), hs_str_of(target));
}

bool la_may_differ(const hlo_instr *i) {
  switch (i->opcode) {
  case HLO_ADD_DEPENDENCY:
  case HLO_BITCAST_CONVERT:
  case HLO_CONCATENATE:
  case HLO_ALL_GATHER:
  case HLO_ALL_GATHER_START:
  case HLO_ALL_GATHER_DONE:
  case HLO_ALL_REDUCE:
  case HLO_ALL_REDUCE_START:
  case HLO_ALL_REDUCE_DONE:
  case HLO_ALL_TO_ALL:
  case HLO_CHOLESKY:
  case HLO_COLLECTIVE_BROADCAST:
  case HLO_COLLECTIVE_PERMUTE:
  case HLO_DYNAMIC_SLICE:
  case HLO_DYNAMIC_UPDATE_SLICE:
  case HLO_FFT:
  case HLO_MAP:
  case HLO_OPT_BARRIER:
  case HLO_PAD:
  case HLO_RAGGED_ALL_TO_ALL:
  case HLO_REDUCE_SCATTER:
  case HLO_REDUCE_WINDOW:
  case HLO_REVERSE:
  case HLO_SCAN:
  case HLO_SCATTER:
  case HLO_SELECT_AND_SCATTER:
  case HLO_SET_DIMENSION_SIZE:
  case HLO_SLICE:
  case HLO_SORT:
  case HLO_TOPK:
  case HLO_TRIANGULAR_SOLVE:
  case HLO_WHILE: return false;
  case HLO_CUSTOM_CALL:
    return !is_called(i, "LayoutConstraint") || i->noperands != 1 ||
           !hlo_shape_compatible(hlo_operand(i, 0)->shape, i->shape);
  default: return !hlo_op_has(i->opcode, HLO_F_ELEMENTWISE);
  }
}

// A custom call whose result aliases an operand.
static bool aliased(const hlo_instr *i, u32 inner, u32 operand) {
  const hlo_aliases *v =
      i->opcode == HLO_CUSTOM_CALL ? hlo_attr_ptr(i, HLO_ATTR_OUTPUT_TO_OPERAND_ALIASING) : NULL;
  for (u32 k = 0; v && k < v->n; k++)
    if (v->v[k].param == operand && v->v[k].param_index.n == 0 &&
        leaf_at(i->shape, v->v[k].out_index) == inner)
      return true;
  return false;
}

bool la_alike(const hlo_instr *i, u32 inner, u32 k) {
  const hlo_shape *o = hlo_operand(i, k)->shape, *r = hlo_shape_leaf(i->shape, inner);
  if (!hlo_shape_is_array(o) || !hlo_shape_is_array(r) || o->rank != r->rank) return false;
  if (i->opcode == HLO_CUSTOM_CALL && la_may_differ(i)) return aliased(i, inner, k);
  if (la_may_differ(i) || i->opcode == HLO_WHILE) return false;
  return i->opcode != HLO_ALL_REDUCE || !hlo_shape_is_tuple(i->shape) || k == inner;
}

// ---- layouts that make data movement free -------------------------------------------------------
// s without its dimensions of size 1; real[k]: the dimension of s that its dimension k is.
static const hlo_shape *without_ones(hlo_ctx *ctx, const hlo_shape *s, u32 *real) {
  i64 dims[HLO_MAX_RANK];
  u32 n = 0;
  for (u32 k = 0; k < s->rank; k++)
    if (s->dims[k] != 1) real[n] = k, dims[n++] = s->dims[k];
  return hlo_shape_array(ctx, s->dtype, n, dims);
}

// The layout of `to` with which a reshape from `from` (whose layout is l) moves nothing; NULL when
// there is none. Dimensions of size 1 come last, that is major, in descending order, which wants
// few copies.
const hlo_layout *pass_layout_aligned(hlo_ctx *ctx, const hlo_shape *from, const hlo_layout *l,
                                      const hlo_shape *to) {
  hlo_dim_group g[2 * HLO_MAX_RANK + 2];
  u32 of[HLO_MAX_RANK], ot[HLO_MAX_RANK], place[HLO_MAX_RANK], at = 0;
  const hlo_shape *f = without_ones(ctx, from, of), *t = without_ones(ctx, to, ot);
  u32 n = pass_dim_groups(f, t, g);
  i64 minor[HLO_MAX_RANK];
  bool done[HLO_MAX_RANK + 1] = {false};
  if ((!n && (f->rank || t->rank)) || from->rank != l->rank) return NULL;
  for (u32 k = 0; k < f->rank; k++) place[of[k]] = k;
  // groups from the minor end; inside one, the last dimension is the minor one
  for (u32 k = 0; k < from->rank; k++) {
    u32 d = (u32)l->minor_to_major[k], x = 0;
    if (from->dims[d] == 1) continue;
    while (x + 1 < n && g[x + 1].from <= place[d]) x++;
    if (done[x]) continue;
    done[x] = true;
    for (u32 j = g[x + 1].to; j-- > g[x].to;) minor[at++] = ot[j];
  }
  for (u32 x = 0; x < n; x++)
    for (u32 j = g[x + 1].to; !done[x] && j-- > g[x].to;) minor[at++] = ot[j];
  for (u32 d = to->rank; d-- > 0;)
    if (to->dims[d] == 1) minor[at++] = d;
  if (at != to->rank) return NULL;
  const hlo_layout *r = order_layout(ctx, to->rank, minor);
  bool is_free = pass_reshape_is_bitcast(
      hlo_shape_with_layout(ctx, from->logical, l),
      hlo_shape_with_layout(ctx, hlo_shape_with_dtype(ctx, to->logical, from->dtype), r));
  return is_free ? r : NULL;
}

static u32 real_dims(const hlo_shape *s) {
  u32 n = 0;
  for (u32 k = 0; k < s->rank; k++) n += s->dims[k] != 1;
  return n;
}

// Of a reshape or transpose: the operand's layout for the result's (to_operand), or the other way
// round; NULL: none in particular.
static const hlo_layout *moved(hlo_ctx *ctx, const hlo_instr *i, const hlo_layout *l,
                               bool to_operand) {
  const hlo_shape *o = hlo_operand(i, 0)->shape, *r = i->shape;
  if (i->opcode == HLO_RESHAPE) {
    if (real_dims(o) == 1 && real_dims(r) == 1) return NULL;
    return to_operand ? pass_layout_aligned(ctx, r, l, o) : pass_layout_aligned(ctx, o, l, r);
  }
  if (i->opcode != HLO_TRANSPOSE) return NULL;
  hlo_ints p = hlo_attr_ints(i, HLO_ATTR_DIMENSIONS);
  i64 minor[HLO_MAX_RANK], inverse[HLO_MAX_RANK];
  for (u32 k = 0; k < p.n; k++) inverse[p.v[k]] = k;
  for (u32 k = 0; k < p.n; k++)
    minor[k] = to_operand ? p.v[l->minor_to_major[k]] : inverse[l->minor_to_major[k]];
  return order_layout(ctx, p.n, minor);
}

// l as a bitcast-convert between ranks has it on its other side: the dimension that comes or goes
// is the last one of the array of narrower elements, and minor there; NULL: none in particular.
static const hlo_layout *converted(hlo_ctx *ctx, const hlo_instr *i, const hlo_layout *l,
                                   bool to_operand) {
  if (i->opcode != HLO_BITCAST_CONVERT || !l) return l;
  const hlo_shape *to = to_operand ? hlo_operand(i, 0)->shape : i->shape;
  i64 minor[HLO_MAX_RANK];
  if (to->rank == l->rank) return l;
  if (to->rank > l->rank) {
    minor[0] = to->rank - 1;
    memcpy(minor + 1, l->minor_to_major, l->rank * sizeof *minor);
    return order_layout(ctx, to->rank, minor);
  }
  return l->minor_to_major[0] == to->rank ? order_layout(ctx, to->rank, l->minor_to_major + 1)
                                          : NULL;
}

// The operand of a broadcast has the order that its dimensions have in the result.
static const hlo_layout *spread_out(hlo_ctx *ctx, const hlo_instr *b, const hlo_layout *l) {
  hlo_ints d = hlo_attr_ints(b, HLO_ATTR_DIMENSIONS);
  i64 minor[HLO_MAX_RANK];
  u32 n = 0;
  for (u32 k = 0; k < l->rank; k++)
    for (u32 j = 0; j < d.n; j++)
      if (d.v[j] == l->minor_to_major[k]) minor[n++] = j;
  return n == hlo_operand(b, 0)->shape->rank ? order_layout(ctx, n, minor) : NULL;
}

// Data movement that determines its layouts, and is propagated depth-first.
static bool goes_deep(const hlo_instr *i) {
  if (i->opcode == HLO_GATHER || i->opcode == HLO_SCATTER || i->opcode == HLO_TRANSPOSE)
    return true;
  if (i->opcode != HLO_RESHAPE) return false;
  const hlo_shape *o = hlo_operand(i, 0)->shape, *r = i->shape;
  if (o->rank == 1) return true;
  u32 j = 0, k = 0;
  for (;;) {  // only dimensions of size 1 come and go
    while (j < o->rank && o->dims[j] == 1) j++;
    while (k < r->rank && r->dims[k] == 1) k++;
    if (j == o->rank || k == r->rank) return j == o->rank && k == r->rank;
    if (o->dims[j++] != r->dims[k++]) return false;
  }
}

// ---- constraints --------------------------------------------------------------------------------
static i64 priority_of(const la_solver *s, u32 what) {
  return what % 3 == 0   ? s->at->array[what / 3].priority
         : what % 3 == 1 ? s->at->operand[what / 3].priority
                         : s->at->priority;
}
static bool is_deep(const la_solver *s, u32 what) {
  return what % 3 == 0   ? s->at->array[what / 3].deep
         : what % 3 == 1 ? s->at->operand[what / 3].deep
                         : true;
}

static void push(la_solver *s, u32 what) {
  hs_vec_push(&s->added, what);
  if (is_deep(s, what)) return;
  size_t k = s->added.n - 1;  // behind the last one that is at least as strong
  for (; k && priority_of(s, s->added.v[k - 1]) < priority_of(s, what); k--)
    s->added.v[k] = s->added.v[k - 1];
  s->added.v[k] = what;
}

static void set_array_operand(la_solver *s, hlo_instr *i, u32 operand, const hlo_layout *l,
                              bool mandatory, bool deep, i64 priority) {
  const hlo_shape *x = hlo_operand(i, operand)->shape;
  if (l && hlo_shape_is_array(x) && x->rank == l->rank)
    la_set_operand(s, i, operand, la_in_order(s->ctx, x, l), mandatory, deep, priority);
}

static bool update_array(la_array *a, const hlo_layout *l, bool mandatory, bool deep,
                         i64 priority) {
  if (a->layout == l) {
    bool change = (mandatory && !a->mandatory) || (deep && !a->deep) || a->priority < priority;
    a->mandatory |= mandatory, a->deep |= deep, a->priority = HS_MAX(a->priority, priority);
    return change;
  }
  if (a->changes >= PUSHED_MOST ||
      (!mandatory &&
       (a->changes >= CHANGES_MOST || !hlo_shape_is_array(a->i->shape) || priority <= a->priority)))
    return false;
  a->layout = l, a->mandatory = mandatory, a->deep = deep, a->priority = priority, a->changes++;
  return true;
}

void la_set_array(la_solver *s, u32 k, const hlo_layout *l, bool mandatory, bool deep,
                  i64 priority) {
  la_array *a = &s->at->array[k];
  const hlo_shape *shape = la_content(hlo_shape_leaf(a->i->shape, a->inner));
  if (!l || !hlo_shape_is_array(shape) || shape->rank != l->rank) return;
  if (!a->layout) {
    a->layout = l, a->mandatory = mandatory, a->deep = deep, a->priority = priority;
  } else if (!update_array(a, l, mandatory, deep, priority) || shape->rank <= 1) {
    return;
  }
  push(s, 3 * k);
  for (u32 o = 0; a->i->opcode == HLO_CUSTOM_CALL && o < a->i->noperands; o++)
    if (aliased(a->i, a->inner, o)) set_array_operand(s, a->i, o, l, mandatory, deep, priority);
}

// Replaces the operand's layouts by those of the shape; false when they are the same.
static bool take(la_solver *s, la_operand *o, const hlo_shape *shape) {
  const hlo_layout **w = &s->at->wants[la_want_at(s->at, o->i, o->operand)];
  bool change = false;
  for (u32 k = 0; k < hlo_shape_leaves(shape); k++) {
    const hlo_layout *l = la_order(s->ctx, hlo_shape_leaf(shape, k));
    change |= l && w[k] != l;
  }
  for (u32 k = 0; change && k < hlo_shape_leaves(shape); k++)
    w[k] = la_order(s->ctx, hlo_shape_leaf(shape, k));
  return change;
}

static bool is_constrained_collective(const hlo_instr *i) {
  return hlo_op_has(i->opcode, HLO_F_COLLECTIVE) && hlo_attr_int(i, HLO_ATTR_CONSTRAIN_LAYOUT, 0);
}

void la_set_operand(la_solver *s, hlo_instr *i, u32 operand, const hlo_shape *shape, bool mandatory,
                    bool deep, i64 priority) {
  la_operand *o = &s->at->operand[s->at->obase[i->id - s->at->lo] + operand];
  if (hlo_shape_is_array(shape) && shape->rank == 0) return;
  if (!mandatory &&
      ((i->opcode == HLO_DYNAMIC_UPDATE_SLICE && operand > 0 && priority > LA_DEFAULT) ||
       (i->opcode == HLO_RESHAPE && hlo_operand(i, 0)->opcode == HLO_DYNAMIC_SLICE)))
    deep = false, priority--;  // the large array decides
  if (o->set && (!mandatory || o->priority > priority || o->changes >= PUSHED_MOST)) return;
  if (!take(s, o, shape)) return;
  o->set = true, o->deep = deep, o->priority = priority, o->changes++;
  push(s, 3 * (u32)(o - s->at->operand) + 1);
}

void la_set_instr(la_solver *s, hlo_instr *i, const hlo_shape *shape) {
  for (u32 k = 0; k < hlo_shape_leaves(shape); k++)
    la_set_array(s, la_maker(s->at, i, k), la_order(s->ctx, hlo_shape_leaf(shape, k)), true, true,
                 s->round);
  if (!hlo_shape_is_array(shape) || i->opcode == HLO_WHILE || la_may_differ(i)) return;
  for (u32 k = 0; k < i->noperands; k++)
    set_array_operand(s, i, k, converted(s->ctx, i, la_order(s->ctx, shape), true), true, true,
                      s->round);
}

void la_set_result(la_solver *s) { push(s, 2); }

// ---- propagation --------------------------------------------------------------------------------
// To the arrays that the leaves of x are, where these have no fixed layout.
static void to_makers(la_solver *s, hlo_instr *x, u32 n, const hlo_layout *const *l, i64 priority) {
  for (u32 k = 0; k < n; k++) {
    u32 at = la_maker(s->at, x, k);
    const hlo_instr *i = s->at->array[at].i;
    if (i->opcode != HLO_REDUCE || !hlo_shape_is_tuple(i->shape))
      la_set_array(s, at, l[k], false, true, priority);
  }
}

static void to_uses(la_solver *s, hlo_instr *i, u32 inner, const hlo_layout *l, i64 priority) {
  hlo_for_each_use(u, i) {
    hlo_instr *user = u->user;
    u32 on;
    if (user->opcode == HLO_TUPLE) {
      to_uses(s, user, hlo_shape_leaf_offset(user->shape, hlo_slot(u)) + inner, l, priority);
    } else if (user->opcode == HLO_GET_TUPLE_ELEMENT) {
      u32 from = hlo_shape_leaf_offset(i->shape, hlo_attr_int(user, HLO_ATTR_INDEX, 0));
      if (inner >= from && inner < from + hlo_shape_leaves(user->shape))
        to_uses(s, user, inner - from, l, priority);
    } else if (is_barrier(user)) {
      if (hlo_slot(u) == 0) to_uses(s, user, inner, l, priority);
    } else if (forwarded(user, hlo_slot(u), inner, &on)) {
      to_uses(s, user, on, l, priority);
    } else {
      set_array_operand(s, user, hlo_slot(u), l, false, true, priority);
    }
  }
}

// Around a loop: the state that the body returns has the layout of its parameter.
static void to_next_turn(la_solver *s, const la_array *a) {
  hlo_computation *c = s->at->c;
  if (!s->at->loop || c->root->opcode != HLO_TUPLE || c->nparams != 1) return;
  hlo_for_each_use(u, a->i)
    if (u->user == c->root && hlo_shape_is_tuple(c->params[0]->shape) &&
        hlo_slot(u) < c->params[0]->shape->nelems)
      la_set_array(s,
                   s->at->base[c->params[0]->id - s->at->lo] +
                       hlo_shape_leaf_offset(c->params[0]->shape, hlo_slot(u)) + a->inner,
                   a->layout, false, true, s->round);
}

static void to_operands(la_solver *s, const la_array *a) {
  hlo_instr *i = a->i;
  if (i->opcode == HLO_ALL_REDUCE) {
    u32 k = hlo_shape_is_tuple(i->shape) ? a->inner : 0;
    if (k < i->noperands) set_array_operand(s, i, k, a->layout, true, true, a->priority);
    return;
  }
  for (u32 k = 0; k < i->noperands; k++) {
    const hlo_shape *o = hlo_operand(i, k)->shape;
    if (!hlo_shape_is_array(o) || o->rank <= 1) continue;
    if (!la_may_differ(i)) {
      if (hlo_shape_is_array(hlo_shape_leaf(i->shape, a->inner)))
        set_array_operand(s, i, k, converted(s->ctx, i, a->layout, true), true, true, s->round);
    } else if (i->opcode == HLO_BROADCAST) {
      set_array_operand(s, i, k, spread_out(s->ctx, i, a->layout), true, false, s->round);
    } else if (hlo_shape_is_array(i->shape) && k == 0) {
      set_array_operand(s, i, k, moved(s->ctx, i, a->layout, true), false, goes_deep(i), s->round);
    }
  }
}

static void spread_array(la_solver *s, u32 k) {
  la_array a = s->at->array[k];
  const hlo_shape *shape = la_content(hlo_shape_leaf(a.i->shape, a.inner));
  if (!hlo_shape_is_array(shape)) return;
  if (hlo_shape_is_tuple(a.i->shape) || shape->rank > 1) to_operands(s, &a);
  to_uses(s, a.i, a.inner, a.layout, a.priority);
  to_next_turn(s, &a);
}

// To the other operands, and the results, of an instruction that preserves the order of dimensions.
static void to_siblings(la_solver *s, hlo_instr *i, const hlo_instr *x, const hlo_layout *l,
                        i64 priority) {
  if (i->opcode == HLO_CONCATENATE) {  // the largest one decides
    i64 dim = hlo_attr_ints(i, HLO_ATTR_DIMENSIONS).v[0];
    for (u32 k = 0; k < i->noperands; k++)
      if (hlo_operand(i, k) != x && hlo_operand(i, k)->shape->dims[dim] > x->shape->dims[dim])
        return;
  }
  for (u32 k = 0; k < i->noperands; k++)
    if (hlo_operand(i, k) != x && x->shape->rank > 1)
      set_array_operand(s, i, k, l, true, true, priority);
  for (u32 k = 0; k < hlo_shape_leaves(i->shape); k++) {
    const hlo_shape *r = hlo_shape_leaf(i->shape, k);
    if (hlo_shape_is_array(r) && r->rank > 1 &&
        (r->rank == x->shape->rank || i->opcode == HLO_BITCAST_CONVERT))
      la_set_array(s, s->at->base[i->id - s->at->lo] + k, converted(s->ctx, i, l, false), true,
                   true, priority);
  }
}

static void spread_operand(la_solver *s, u32 k) {
  la_operand o = s->at->operand[k];
  hlo_instr *i = o.i, *x = hlo_operand(i, o.operand);
  const hlo_layout *const *l = &s->at->wants[la_want_at(s->at, i, o.operand)];
  if (hlo_shape_is_array(x->shape) && x->shape->rank <= 1) return;
  to_makers(s, x, hlo_shape_leaves(x->shape), l, o.priority);
  if (!hlo_shape_is_array(x->shape) || is_constrained_collective(i) || !*l) return;
  u32 own = s->at->base[i->id - s->at->lo];
  if (i->opcode == HLO_ALL_REDUCE)
    la_set_array(s, own + (hlo_shape_is_tuple(i->shape) ? o.operand : 0), *l, true, true, s->round);
  if (la_hands_on(i, o.operand)) return;
  for (u32 r = 0; i->opcode == HLO_CUSTOM_CALL && r < hlo_shape_leaves(i->shape); r++)
    if (aliased(i, r, o.operand)) la_set_array(s, own + r, *l, true, true, o.priority);
  if (!la_may_differ(i) || i->opcode == HLO_REDUCE) {
    to_siblings(s, i, x, *l, o.priority);
  } else if (hlo_shape_is_array(i->shape) && i->shape->rank > 1 && o.operand == 0) {
    la_set_array(s, own, moved(s->ctx, i, *l, false), i->opcode == HLO_TRANSPOSE, goes_deep(i),
                 o.priority);
  }
}

static void spread_result(la_solver *s) {
  la_comp *c = s->at;
  u32 n = hlo_shape_leaves(c->result);
  const hlo_layout **l = HS_NEW_ARRAY(s->p->scratch, const hlo_layout *, n + 1);
  for (u32 k = 0; k < n; k++) l[k] = la_order(s->ctx, hlo_shape_leaf(c->result, k));
  to_makers(s, c->c->root, n, l, s->round);
}

void la_spread(la_solver *s) {
  for (;;) {
    for (size_t k = 0; k < s->added.n; k++) {
      if (is_deep(s, s->added.v[k])) hs_vec_push(&s->front, s->added.v[k]);
      else hs_vec_push(&s->back, s->added.v[k]);
    }
    s->added.n = 0;
    u32 what;
    if (s->front.n) {
      what = hs_vec_pop(&s->front);
    } else if (s->head < s->back.n) {
      what = s->back.v[s->head++];
    } else {
      break;
    }
    if (what % 3 == 0) spread_array(s, what / 3);
    else if (what % 3 == 1) spread_operand(s, what / 3);
    else spread_result(s);
  }
  s->back.n = s->head = 0;
}
