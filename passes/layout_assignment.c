// layout_assignment.c — where arrays lie in memory (xla/service/layout_assignment.cc).
//
// Constraints come from outside: the entry's parameters and result, custom calls that name their layouts, bitcasts, bodies
// of loops and calls that were assigned before, and on CPUs the operands and results of matrix products. They spread along
// operations that keep the order of dimensions, and through transposes and reshapes to the layout that makes them free.
// When nothing more follows, the first array without a layout gets the row-major one, and that spreads too. Where a
// use wants another layout than its operand has got, a copy is made.
//
// An array is named by the instruction that makes it and a leaf of its shape; tuples, their elements and barriers only hand
// arrays on, and so do custom calls that take or give a buffer, b(...), aliased to an operand: what a buffer holds keeps
// one layout from the pin to the unpin, as a buffer cannot be copied. A custom call that fixes layouts gets copies of the
// operands that its result may overwrite. All-reduces on one channel meet across modules: one layout serves them all. Tables are indexed by such leaves: the layout of a leaf (`leaf`), and the one a use wants (`wants`).
// Options: cpu (matrix products are row-major, default true); row_major (nothing spreads: every array that has no layout
// gets the row-major one, so that transposes and copies alone say where the order changes).
#include "passes/util.h"

typedef struct leaf_of { hlo_instr *i; u32 slot, inner; } leaf_of;   // slot: of the operand, for a use
typedef struct slot { const hlo_layout *layout; bool fixed; leaf_of at; } slot;
typedef struct channel { i64 id; const hlo_layout *layout; } channel;
typedef HS_VEC(channel) channels;         // of all-reduces: the layout of the first one on each
typedef struct assign {
  pass_ctx *c;
  hlo_computation *comp;
  hlo_instr **order;
  bool cpu;
  u32 lo, nids, *base, *ubase;            // by instruction id - lo: the first of its leaves, of its operands' leaves
  slot *leaf, *use;
  u32 nleaf, nuse;
  channels *channels;
  HS_VEC(u32) stack;                      // 2k: leaf k, 2k + 1: use k, whose constraint has not spread yet
} assign;

// ---- arrays -----------------------------------------------------------------------------------------------------------------
static u32 leaves_before(const hlo_shape *s, u32 element) {
  u32 n = 0;
  for (u32 k = 0; k < element; k++) n += hlo_shape_leaves(s->elems[k]);
  return n;
}

// What lies in memory for a leaf: a buffer's content, or the leaf itself.
static const hlo_shape *content(const hlo_shape *leaf) { return leaf->dtype == HLO_BUFFER ? leaf->elems[0] : leaf; }

// The leaf at an index of a shape, of which the first position is read: aliases of custom calls lie no deeper.
static u32 leaf_at(const hlo_shape *s, hlo_ints index) { return index.n && hlo_shape_is_tuple(s) ? leaves_before(s, (u32)index.v[0]) : 0; }

// Whether leaf `inner` of i is a leaf of an operand, held in a buffer on at least one side; which one: *operand, *leaf.
static bool forwards(const hlo_instr *i, u32 inner, u32 *operand, u32 *leaf) {
  const hlo_aliases *v = i->opcode == HLO_CUSTOM_CALL ? hlo_attr_ptr(i, HLO_ATTR_OUTPUT_TO_OPERAND_ALIASING) : NULL;
  for (u32 k = 0; v && k < v->n; k++) {
    const hlo_alias_entry *e = &v->v[k];
    if (leaf_at(i->shape, e->out_index) != inner || e->param < 0 || e->param >= i->noperands) continue;
    const hlo_shape *o = hlo_operand(i, (u32)e->param)->shape;
    *operand = (u32)e->param, *leaf = leaf_at(o, e->param_index);
    const hlo_shape *from = hlo_shape_leaf(o, *leaf), *to = hlo_shape_leaf(i->shape, inner);
    if ((from->dtype == HLO_BUFFER || to->dtype == HLO_BUFFER) && content(from)->logical == content(to)->logical) return true;
  }
  return false;
}

// The leaf of i that leaf `inner` of its operand is, when it goes on unchanged; false when i uses it up.
static bool forwarded(const hlo_instr *i, u32 operand, u32 inner, u32 *to) {
  u32 o, leaf;
  for (u32 r = 0; i->opcode == HLO_CUSTOM_CALL && r < hlo_shape_leaves(i->shape); r++)
    if (forwards(i, r, &o, &leaf) && o == operand && leaf == inner) return *to = r, true;
  return false;
}

static bool hands_on(const hlo_instr *i) { return i->opcode == HLO_OPT_BARRIER || i->opcode == HLO_DOMAIN || i->opcode == HLO_ADD_DEPENDENCY; }

// The instruction and leaf that makes leaf `inner` of i.
static u32 maker(const assign *a, hlo_instr *i, u32 inner) {
  for (;;) {
    u32 operand, leaf;
    if (i->opcode == HLO_TUPLE) {
      u32 k = 0, n;
      while (inner >= (n = hlo_shape_leaves(hlo_operand(i, k)->shape))) inner -= n, k++;
      i = hlo_operand(i, k);
    } else if (i->opcode == HLO_GET_TUPLE_ELEMENT) {
      inner += leaves_before(hlo_operand(i, 0)->shape, (u32)hlo_attr_int(i, HLO_ATTR_INDEX, 0));
      i = hlo_operand(i, 0);
    } else if (hands_on(i)) {
      i = hlo_operand(i, 0);
    } else if (forwards(i, inner, &operand, &leaf)) {
      i = hlo_operand(i, operand), inner = leaf;
    } else {
      return a->base[i->id - a->lo] + inner;
    }
  }
}

static u32 use_at(const assign *a, const hlo_instr *i, u32 operand, u32 inner) {
  u32 u = a->ubase[i->id - a->lo] + inner;
  for (u32 k = 0; k < operand; k++) u += hlo_shape_leaves(hlo_operand(i, k)->shape);
  return u;
}

static const hlo_layout *order_layout(hlo_ctx *ctx, u32 rank, const i64 *minor_to_major) {
  hlo_layout l = *hlo_layout_default(ctx, rank);
  l.minor_to_major = minor_to_major;
  return hlo_layout_intern(ctx, &l);
}
static const hlo_layout *order_of(hlo_ctx *ctx, const hlo_shape *leaf) {
  const hlo_shape *s = content(leaf);
  return s->layout ? order_layout(ctx, s->rank, s->layout->minor_to_major) : NULL;
}

static void put(assign *a, u32 k, bool use, const hlo_layout *l, bool fixed) {
  slot *s = use ? &a->use[k] : &a->leaf[k];
  if (!l || (s->layout && (!fixed || s->fixed || s->layout == l))) {
    if (l && s->layout == l) s->fixed |= fixed;
    return;
  }
  s->layout = l, s->fixed = fixed;
  hs_vec_push(&a->stack, 2 * k + use);
}

// ---- rules ------------------------------------------------------------------------------------------------------------------
static bool aliased(const hlo_instr *i, u32 inner, u32 operand) {
  const hlo_aliases *v = hlo_attr_ptr(i, HLO_ATTR_OUTPUT_TO_OPERAND_ALIASING);
  for (u32 k = 0; v && k < v->n; k++) {
    if (v->v[k].param == operand && v->v[k].param_index.n == 0 && leaf_at(i->shape, v->v[k].out_index) == inner) return true;
  }
  return false;
}

// Whether operand `k` and leaf `inner` of the result must lie in memory alike.
static bool alike(const hlo_instr *i, u32 inner, u32 k) {
  const hlo_shape *o = hlo_operand(i, k)->shape, *r = hlo_shape_leaf(i->shape, inner);
  if (!hlo_shape_is_array(o) || !hlo_shape_is_array(r) || o->rank != r->rank) return false;
  switch (i->opcode) {
    case HLO_CUSTOM_CALL: return aliased(i, inner, k);
    case HLO_SORT: return true;
    case HLO_SCAN: return hlo_shape_same_dims(o, r);
    case HLO_DYNAMIC_SLICE: case HLO_PAD: case HLO_SCATTER: case HLO_SLICE: case HLO_REVERSE: return k == 0;
    case HLO_DYNAMIC_UPDATE_SLICE: case HLO_SELECT_AND_SCATTER: return k < 2;
    case HLO_REDUCE_WINDOW: case HLO_ALL_REDUCE: case HLO_ALL_GATHER: case HLO_ALL_TO_ALL: case HLO_COLLECTIVE_PERMUTE: case HLO_REDUCE_SCATTER:
      return hlo_shape_is_tuple(i->shape) ? k == inner : k == 0;
    case HLO_CONCATENATE: case HLO_MAP: case HLO_BITCAST_CONVERT: return true;
    default: return hlo_op_has(i->opcode, HLO_F_ELEMENTWISE);
  }
}

// The layout of `to` with which a reshape from `from` (whose layout is l) moves nothing; NULL when there is none.
const hlo_layout *pass_layout_aligned(hlo_ctx *ctx, const hlo_shape *from, const hlo_layout *l, const hlo_shape *to) {
  pass_dim_group g[2 * HLO_MAX_RANK + 2];
  u32 n = pass_dim_groups(from, to, g), at = 0;
  i64 minor[HLO_MAX_RANK];
  bool done[HLO_MAX_RANK + 1] = {false};
  if (!n || from->rank != l->rank) return NULL;
  for (u32 k = 0; k < from->rank; k++) {   // groups from the minor end; inside one, the last dimension is the minor one
    u32 x = 0;
    while (x + 1 < n && (i64)g[x + 1].from <= l->minor_to_major[k]) x++;
    if (done[x]) continue;
    done[x] = true;
    for (u32 d = g[x + 1].to; d-- > g[x].to;) minor[at++] = d;
  }
  for (u32 x = 0; x < n; x++)
    for (u32 d = g[x + 1].to; !done[x] && d-- > g[x].to;) minor[at++] = d;
  if (at != to->rank) return NULL;
  const hlo_layout *r = order_layout(ctx, to->rank, minor);
  bool is_free = pass_reshape_is_bitcast(hlo_shape_with_layout(ctx, from->logical, l), hlo_shape_with_layout(ctx, hlo_shape_with_dtype(ctx, to->logical, from->dtype), r));
  return is_free ? r : NULL;
}

static const hlo_layout *operand_for(hlo_ctx *ctx, const hlo_instr *i, const hlo_layout *l) {
  const hlo_shape *o = hlo_operand(i, 0)->shape;
  if (i->opcode == HLO_RESHAPE) return pass_layout_aligned(ctx, i->shape, l, o);
  if (i->opcode != HLO_TRANSPOSE) return NULL;
  hlo_ints p = hlo_attr_ints(i, HLO_ATTR_DIMENSIONS);
  i64 minor[HLO_MAX_RANK];
  for (u32 k = 0; k < p.n; k++) minor[k] = p.v[l->minor_to_major[k]];
  return order_layout(ctx, o->rank, minor);
}

static const hlo_layout *result_for(hlo_ctx *ctx, const hlo_instr *i, const hlo_layout *l) {
  if (i->opcode == HLO_RESHAPE) return pass_layout_aligned(ctx, hlo_operand(i, 0)->shape, l, i->shape);
  if (i->opcode != HLO_TRANSPOSE) return NULL;
  hlo_ints p = hlo_attr_ints(i, HLO_ATTR_DIMENSIONS);
  i64 minor[HLO_MAX_RANK], inverse[HLO_MAX_RANK];
  for (u32 k = 0; k < p.n; k++) inverse[p.v[k]] = k;
  for (u32 k = 0; k < p.n; k++) minor[k] = inverse[l->minor_to_major[k]];
  return order_layout(ctx, p.n, minor);
}

// ---- spreading --------------------------------------------------------------------------------------------------------------
static void to_uses(assign *a, hlo_instr *i, u32 inner, const hlo_layout *l) {
  hlo_for_each_use(u, i) {
    hlo_instr *user = u->user;
    u32 on;
    if (user->opcode == HLO_TUPLE) {
      u32 before = 0;
      for (u32 k = 0; k < u->slot; k++) before += hlo_shape_leaves(hlo_operand(user, k)->shape);
      to_uses(a, user, before + inner, l);
    } else if (user->opcode == HLO_GET_TUPLE_ELEMENT) {
      u32 from = leaves_before(i->shape, (u32)hlo_attr_int(user, HLO_ATTR_INDEX, 0));
      if (inner >= from && inner < from + hlo_shape_leaves(user->shape)) to_uses(a, user, inner - from, l);
    } else if (hands_on(user)) {
      if (u->slot == 0) to_uses(a, user, inner, l);
    } else if (forwarded(user, u->slot, inner, &on)) {
      to_uses(a, user, on, l);
    } else if (hlo_shape_is_array(i->shape)) {
      put(a, use_at(a, user, u->slot, inner), true, l, false);
    }
  }
}

static void spread_leaf(assign *a, u32 k) {
  hlo_instr *i = a->leaf[k].at.i;
  const hlo_layout *l = a->leaf[k].layout;
  u32 inner = a->leaf[k].at.inner;
  for (u32 o = 0; o < i->noperands; o++)
    if (alike(i, inner, o)) put(a, use_at(a, i, o, 0), true, l, false);
  if (i->opcode == HLO_RESHAPE || i->opcode == HLO_TRANSPOSE) put(a, use_at(a, i, 0, 0), true, operand_for(a->c->m->ctx, i, l), false);
  to_uses(a, i, inner, l);
}

static void spread_use(assign *a, u32 k) {
  hlo_instr *i = a->use[k].at.i;
  u32 o = a->use[k].at.slot, inner = a->use[k].at.inner;
  const hlo_layout *l = a->use[k].layout;
  put(a, maker(a, hlo_operand(i, o), inner), false, l, false);
  for (u32 r = 0; r < hlo_shape_leaves(i->shape); r++) {
    if (!alike(i, r, o)) continue;
    put(a, a->base[i->id - a->lo] + r, false, l, false);
    for (u32 p = 0; p < i->noperands; p++)
      if (p != o && alike(i, r, p)) put(a, use_at(a, i, p, 0), true, l, false);
  }
  if (i->opcode == HLO_RESHAPE || i->opcode == HLO_TRANSPOSE) put(a, a->base[i->id - a->lo], false, result_for(a->c->m->ctx, i, l), false);
}

// Depth first: what follows from one constraint comes before the next one.
static void spread(assign *a) {
  while (a->stack.n) {
    u32 k = hs_vec_pop(&a->stack);
    if (k & 1) spread_use(a, k / 2);
    else spread_leaf(a, k / 2);
  }
}

// ---- constraints from outside -----------------------------------------------------------------------------------------------
static void fix_result(assign *a, hlo_instr *i, const hlo_shape *s) {
  for (u32 k = 0; k < hlo_shape_leaves(s); k++)
    put(a, maker(a, i, k), false, order_of(a->c->m->ctx, hlo_shape_leaf(s, k)), true);
}
static void fix_operand(assign *a, hlo_instr *i, u32 operand, const hlo_shape *s) {
  u32 on;
  for (u32 k = 0; k < hlo_shape_leaves(s); k++)
    if (!forwarded(i, operand, k, &on)) put(a, use_at(a, i, operand, k), true, order_of(a->c->m->ctx, hlo_shape_leaf(s, k)), true);
}

static void fix_row_major(assign *a, hlo_instr *i) {
  hlo_ctx *ctx = a->c->m->ctx;
  for (u32 k = 0; k < i->noperands; k++) fix_operand(a, i, k, hlo_shape_with_default_layout(ctx, hlo_operand(i, k)->shape));
  fix_result(a, i, hlo_shape_with_default_layout(ctx, i->shape));
}

// Operations that neither spread layouts nor take any: they stay as they came.
static bool takes_any(const hlo_instr *i) {
  switch (i->opcode) {
    case HLO_PARAMETER: case HLO_CONSTANT: case HLO_IOTA: case HLO_BROADCAST: case HLO_COPY: case HLO_RESHAPE: case HLO_TRANSPOSE: case HLO_REDUCE:
    case HLO_GATHER: case HLO_DOT: case HLO_CONVOLUTION: case HLO_TUPLE: case HLO_GET_TUPLE_ELEMENT: case HLO_CUSTOM_CALL: case HLO_SORT: case HLO_SCAN:
    case HLO_DYNAMIC_SLICE: case HLO_DYNAMIC_UPDATE_SLICE: case HLO_PAD: case HLO_SCATTER: case HLO_SLICE: case HLO_REVERSE: case HLO_SELECT_AND_SCATTER:
    case HLO_REDUCE_WINDOW: case HLO_ALL_REDUCE: case HLO_ALL_GATHER: case HLO_ALL_TO_ALL: case HLO_COLLECTIVE_PERMUTE: case HLO_REDUCE_SCATTER:
    case HLO_CONCATENATE: case HLO_RNG: return true;
    default: return hands_on(i) || hlo_op_has(i->opcode, HLO_F_ELEMENTWISE);
  }
}

static void fix_instruction(assign *a, hlo_instr *i) {
  hlo_ctx *ctx = a->c->m->ctx;
  const hlo_shapes *given = i->opcode == HLO_CUSTOM_CALL ? hlo_attr_ptr(i, HLO_ATTR_OPERAND_LAYOUT_CONSTRAINTS) : NULL;
  hlo_computation *called[64];
  u32 n = i->opcode == HLO_WHILE || i->opcode == HLO_CALL || i->opcode == HLO_CONDITIONAL ? hlo_called(i, called, 64) : 0;
  if (given) {
    for (u32 k = 0; k < given->n && k < i->noperands; k++) fix_operand(a, i, k, hlo_shape_fill_layout(ctx, given->v[k]));
    fix_result(a, i, hlo_shape_fill_layout(ctx, i->shape));
  } else if (i->opcode == HLO_WHILE && n) {
    fix_operand(a, i, 0, called[0]->params[0]->shape);
    fix_result(a, i, called[0]->params[0]->shape);
  } else if (i->opcode == HLO_CALL && n) {
    for (u32 k = 0; k < i->noperands; k++) fix_operand(a, i, k, called[0]->params[k]->shape);
    fix_result(a, i, called[0]->root->shape);
  } else if (i->opcode == HLO_CONDITIONAL && n && n <= 64) {
    for (u32 k = 0; k < n; k++) fix_operand(a, i, k + 1, called[k]->params[0]->shape);
    fix_result(a, i, called[0]->root->shape);
  } else if (a->cpu && i->opcode == HLO_DOT) {
    fix_row_major(a, i);
  } else if (!takes_any(i)) {   // bitcast, fusion, async, infeed, ...
    for (u32 k = 0; k < i->noperands; k++) fix_operand(a, i, k, hlo_shape_fill_layout(ctx, hlo_operand(i, k)->shape));
    fix_result(a, i, hlo_shape_fill_layout(ctx, i->shape));
  }
}

// ---- the result -------------------------------------------------------------------------------------------------------------
static const hlo_shape *in_order(hlo_ctx *ctx, const hlo_shape *s, const hlo_layout *l) {
  hlo_layout now = s->layout ? *s->layout : *l;
  now.minor_to_major = l->minor_to_major;
  return hlo_shape_with_layout(ctx, s, hlo_layout_intern(ctx, &now));
}

// s with its leaves from number *at on as the makers of i's leaves have them, extras of a layout (tiles, spaces) too.
static const hlo_shape *assigned(assign *a, hlo_instr *i, const hlo_shape *s, u32 *at) {
  hlo_ctx *ctx = a->c->m->ctx;
  if (hlo_shape_is_tuple(s)) {
    const hlo_shape **e = HS_NEW_ARRAY(a->c->scratch, const hlo_shape *, s->nelems + 1);
    for (u32 k = 0; k < s->nelems; k++) e[k] = assigned(a, i, s->elems[k], at);
    return hlo_shape_tuple(ctx, s->nelems, e);
  }
  const slot *v = &a->leaf[maker(a, i, (*at)++)];
  const hlo_shape *array = content(s), *made = content(hlo_shape_leaf(v->at.i->shape, v->at.inner));
  if (!hlo_shape_is_array(array) || !v->layout) return s;
  if (made->layout) array = hlo_shape_with_layout(ctx, array, made->layout);
  array = in_order(ctx, array, v->layout);
  return s->dtype == HLO_BUFFER ? hlo_shape_buffer(ctx, array) : array;
}

// x in the layouts of `want` (NULL leaves: as it is), copied where they differ.
static hlo_instr *laid_out(assign *a, hlo_instr *x, const hlo_shape *want, hlo_instr *before) {
  if (x->shape == want) return x;
  if (hlo_shape_is_array(x->shape)) {
    pass_note_done(a->c, x, before, "copied to the layout that its use needs");
    hlo_instr *k = hlo_add(x->parent, HLO_COPY, want, 1, &x, NULL);
    hlo_add_provenance(k, x);
    if (before) hlo_move_before(k, before);
    return k;
  }
  if (!hlo_shape_is_tuple(x->shape)) return x;
  hlo_instr **e = HS_NEW_ARRAY(a->c->scratch, hlo_instr *, want->nelems + 1);
  for (u32 k = 0; k < want->nelems; k++) {
    e[k] = hlo_add_gte(x, k);   // of a tuple too: simplification takes it apart, as after XLA's pass
    if (before) hlo_move_before(e[k], before);
    e[k] = laid_out(a, e[k], want->elems[k], before);
  }
  hlo_instr *t = hlo_add_tuple(x->parent, want->nelems, e);
  if (before) hlo_move_before(t, before);
  return t;
}

static const hlo_shape *wanted(assign *a, hlo_instr *i, u32 operand, const hlo_shape *s, u32 *inner) {
  hlo_ctx *ctx = a->c->m->ctx;
  if (hlo_shape_is_tuple(s)) {
    const hlo_shape **e = HS_NEW_ARRAY(a->c->scratch, const hlo_shape *, s->nelems + 1);
    for (u32 k = 0; k < s->nelems; k++) e[k] = wanted(a, i, operand, s->elems[k], inner);
    return hlo_shape_tuple(ctx, s->nelems, e);
  }
  const slot *u = &a->use[use_at(a, i, operand, (*inner)++)];
  if (!hlo_shape_is_array(s) || !u->layout || !s->layout) return s;
  return in_order(ctx, s, u->layout);
}

static void number(assign *a) {
  hlo_computation *comp = a->comp;
  u32 hi = 0;
  a->lo = UINT32_MAX;
  hlo_for_each_instr(i, comp) a->lo = HS_MIN(a->lo, i->id), hi = HS_MAX(hi, i->id);
  a->nids = hi - a->lo + 1;
  a->base = HS_NEW_ARRAY(a->c->scratch, u32, a->nids), a->ubase = HS_NEW_ARRAY(a->c->scratch, u32, a->nids);
  hlo_for_each_instr(i, comp) {
    a->base[i->id - a->lo] = a->nleaf, a->ubase[i->id - a->lo] = a->nuse;
    a->nleaf += hlo_shape_leaves(i->shape);
    for (u32 k = 0; k < i->noperands; k++) a->nuse += hlo_shape_leaves(hlo_operand(i, k)->shape);
  }
  a->leaf = HS_NEW_ARRAY(a->c->scratch, slot, a->nleaf + 1), a->use = HS_NEW_ARRAY(a->c->scratch, slot, a->nuse + 1);
  hlo_for_each_instr(i, comp) {
    u32 at = a->base[i->id - a->lo], u = a->ubase[i->id - a->lo];
    for (u32 k = 0; k < hlo_shape_leaves(i->shape); k++) a->leaf[at++].at = (leaf_of){i, 0, k};
    for (u32 o = 0; o < i->noperands; o++)
      for (u32 k = 0; k < hlo_shape_leaves(hlo_operand(i, o)->shape); k++) a->use[u++].at = (leaf_of){i, o, k};
  }
}

// Where a result shape leaves layouts open, those of `from`.
static const hlo_shape *filled(hlo_ctx *ctx, const hlo_shape *s, const hlo_shape *from, hs_arena *arena) {
  if (!hlo_shape_is_tuple(s)) return hlo_shape_is_array(s) && !s->layout ? from : s;
  const hlo_shape **e = HS_NEW_ARRAY(arena, const hlo_shape *, s->nelems + 1);
  for (u32 k = 0; k < s->nelems; k++) e[k] = filled(ctx, s->elems[k], from->elems[k], arena);
  return hlo_shape_tuple(ctx, s->nelems, e);
}

static void apply(assign *a, u32 n, const hlo_shape *result, bool body) {
  for (u32 t = 0; t < n; t++) {
    u32 at = 0;
    const hlo_shape *s = assigned(a, a->order[t], a->order[t]->shape, &at);
    if (s != a->order[t]->shape) hlo_set_shape(a->order[t], s);
  }
  for (u32 t = 0; t < n; t++) {
    hlo_instr *i = a->order[t];
    if (i->opcode == HLO_TUPLE || i->opcode == HLO_GET_TUPLE_ELEMENT || hands_on(i)) continue;
    for (u32 r = 0; r < hlo_shape_leaves(i->shape); r++)   // what must lie alike does, whoever came first
      for (u32 k = 0; k < i->noperands; k++)
        if (alike(i, r, k)) a->use[use_at(a, i, k, 0)].layout = a->leaf[a->base[i->id - a->lo] + r].layout;
    for (u32 k = 0; k < i->noperands; k++) {
      u32 inner = 0;
      const hlo_shape *s = wanted(a, i, k, hlo_operand(i, k)->shape, &inner);
      hlo_instr *x = laid_out(a, hlo_operand(i, k), s, i);
      if (x != hlo_operand(i, k)) hlo_set_operand(i, k, x);
    }
  }
  result = result ? filled(a->c->m->ctx, result, a->comp->root->shape, a->c->scratch) : body ? a->comp->params[0]->shape : NULL;
  if (!result || result == a->comp->root->shape) return;
  hlo_instr *root = laid_out(a, a->comp->root, result, NULL);
  if (root != a->comp->root) hlo_set_root(a->comp, root);
}

// An all-reduce of one array whose channel is known elsewhere; the channel's entry, NULL when it has none yet.
static bool on_channel(const hlo_instr *i) { return i->opcode == HLO_ALL_REDUCE && hlo_attr_int(i, HLO_ATTR_CHANNEL_ID, 0) > 0 && hlo_shape_is_array(i->shape) && i->noperands == 1; }
static const hlo_layout *channel_layout(const channels *c, const hlo_instr *i) {
  i64 id = hlo_attr_int(i, HLO_ATTR_CHANNEL_ID, 0);
  for (size_t k = 0; k < c->n; k++)
    if (c->v[k].id == id && c->v[k].layout->rank == i->shape->rank) return c->v[k].layout;
  return NULL;
}

// Notes the layouts of channels that are new here; whether an all-reduce lies otherwise than its channel.
static bool channels_differ(assign *a) {
  bool differ = false;
  for (u32 t = 0; t < a->comp->ninstrs; t++) {
    const hlo_instr *i = a->order[t];
    if (!on_channel(i)) continue;
    const hlo_layout *l = a->leaf[a->base[i->id - a->lo]].layout, *known = channel_layout(a->channels, i);
    if (!known) hs_vec_push(a->channels, ((channel){hlo_attr_int(i, HLO_ATTR_CHANNEL_ID, 0), l}));
    else differ |= known != l;
  }
  return differ;
}

// The layout that the array of leaf k takes when nothing asks for one: that of a copy of it, which then moves nothing, or row-major.
static const hlo_layout *free_layout(const assign *a, u32 k) {
  const hlo_instr *i = a->leaf[k].at.i;
  hlo_for_each_use(u, i) {
    if (u->user->opcode != HLO_COPY || !hlo_shape_is_array(i->shape)) continue;
    const hlo_layout *l = a->leaf[a->base[u->user->id - a->lo]].layout;
    if (l) return l;
  }
  return hlo_layout_default(a->c->m->ctx, content(hlo_shape_leaf(i->shape, a->leaf[k].at.inner))->rank);
}

// Gives every array of the computation a layout: first what is fixed, then what follows, then what is free.
static void solve(assign *a, const hlo_shape *const *params, const hlo_shape *result) {
  u32 n = a->comp->ninstrs;
  hlo_ctx *ctx = a->c->m->ctx;
  for (u32 k = 0; k < a->nleaf; k++) a->leaf[k].layout = NULL, a->leaf[k].fixed = false;
  for (u32 k = 0; k < a->nuse; k++) a->use[k].layout = NULL, a->use[k].fixed = false;
  for (u32 k = 0; params && k < a->comp->nparams; k++) fix_result(a, a->comp->params[k], params[k]);
  for (u32 t = 0; t < n; t++) {
    hlo_instr *i = a->order[t];
    if (on_channel(i)) put(a, a->base[i->id - a->lo], false, channel_layout(a->channels, i), true);
    else fix_instruction(a, i);
  }
  if (result)
    for (u32 k = 0; k < hlo_shape_leaves(result); k++) put(a, maker(a, a->comp->root, k), false, order_of(ctx, hlo_shape_leaf(result, k)), false);
  for (size_t k = 0; k < a->stack.n / 2; k++) {   // the first constraint on top
    u32 swap = a->stack.v[k];
    a->stack.v[k] = a->stack.v[a->stack.n - 1 - k], a->stack.v[a->stack.n - 1 - k] = swap;
  }
  spread(a);
  for (u32 t = 0; t < n; t++) {
    hlo_instr *i = a->order[t];
    for (u32 k = 0; k < hlo_shape_leaves(i->shape); k++) {
      u32 v = a->base[i->id - a->lo] + k;
      if (!hlo_shape_is_array(content(hlo_shape_leaf(i->shape, k))) || a->leaf[v].layout || maker(a, i, k) != v) continue;
      put(a, v, false, free_layout(a, v), false);
      spread(a);
    }
  }
}

// params (by number) and result: shapes with the layouts that are asked for from outside; NULL when there are none.
// A body's result is laid out like its parameter. An all-reduce that came to lie otherwise than its channel makes a second round.
static void assign_computation(pass_ctx *c, channels *known, hlo_computation *comp, const hlo_shape *const *params, const hlo_shape *result, bool body) {
  assign a = {.c = c, .comp = comp, .cpu = pass_option_bool(c, "cpu", true), .channels = known};
  u32 n = comp->ninstrs;
  number(&a);
  a.order = pass_post_order(c, comp);
  solve(&a, params, result);
  if (channels_differ(&a)) solve(&a, params, result);
  apply(&a, n, result, body);
  hs_vec_free(&a.stack);
}

// What a custom call of fixed layouts may overwrite is copied first, unless it is a copy that nothing else reads: the layout
// of a result that lies in an operand's place would else be forced on all other uses of that operand.
static void copy_overwritten(pass_ctx *c, hlo_computation *comp) {
  hlo_for_each_instr_safe(i, comp) {
    const hlo_aliases *v = i->opcode == HLO_CUSTOM_CALL ? hlo_attr_ptr(i, HLO_ATTR_OUTPUT_TO_OPERAND_ALIASING) : NULL;
    if (!v || !hlo_attr_ptr(i, HLO_ATTR_OPERAND_LAYOUT_CONSTRAINTS)) continue;
    for (u32 k = 0; k < v->n; k++) {
      if (v->v[k].param < 0 || v->v[k].param >= i->noperands) continue;
      u32 o = (u32)v->v[k].param;
      hlo_instr *x = hlo_operand(i, o);
      if (!hlo_shape_is_array(x->shape) || (x->opcode == HLO_COPY && x->nuses == 1)) continue;
      pass_note_done(c, x, i, "copied: the custom call may overwrite it");
      hlo_instr *copy = hlo_add(comp, HLO_COPY, x->shape, 1, &x, NULL);
      hlo_add_provenance(copy, x);
      hlo_move_before(copy, i);
      hlo_set_operand(i, o, copy);
    }
  }
}

static bool is_body(const hlo_module *m, const hlo_computation *x) {
  hlo_for_each_comp(c, m) hlo_for_each_instr(i, c) if (i->opcode == HLO_WHILE && hlo_attr_comp(i, HLO_ATTR_BODY) == x) return true;
  return false;
}

// Conditions read the state as the body has it, branches give the same result; callers of x come after it.
static void agree(pass_ctx *c, channels *known, hlo_computation *x) {
  hlo_for_each_instr(i, x) {
    hlo_computation *called[64];
    u32 n = i->opcode == HLO_WHILE || i->opcode == HLO_CONDITIONAL ? hlo_called(i, called, 64) : 0;
    if (i->opcode == HLO_WHILE && n == 2 && called[1]->params[0]->shape != called[0]->params[0]->shape) assign_computation(c, known, called[1], &called[0]->params[0]->shape, NULL, false);
    for (u32 k = 1; i->opcode == HLO_CONDITIONAL && k < HS_MIN(n, 64u); k++)
      if (called[k]->root->shape != called[0]->root->shape) assign_computation(c, known, called[k], NULL, called[0]->root->shape, false);
  }
}

static hs_status row_major(pass_ctx *c) {
  hlo_for_each_comp(comp, c->m) {
    hlo_for_each_instr(i, comp) {
      const hlo_shape *full = hlo_shape_fill_layout(c->m->ctx, i->shape);
      if (full == i->shape) continue;
      if (!pass_may_rewrite(c)) return HS_GOOD;
      hlo_set_shape(i, full);
    }
  }
  return HS_GOOD;
}

hs_status pass_layout_assignment(pass_ctx *c) {
  hlo_module *m = c->m;
  if (pass_option_bool(c, "row_major", false)) return row_major(c);
  if (!pass_may_rewrite(c)) return HS_GOOD;
  u32 n;
  hlo_computation **order = pass_comp_post_order(c, &n);
  const hlo_attr *at = hlo_attrs_find(m->attrs, HLO_ATTR_ENTRY_COMPUTATION_LAYOUT);
  const hlo_program_shape *given = at ? at->v.p : NULL;
  channels known = {0};
  for (u32 k = 0; k < n; k++) {
    hlo_computation *x = order[k];
    if (hlo_is_fusion_comp(x)) continue;
    agree(c, &known, x);
    copy_overwritten(c, x);
    if (x != m->entry) {
      assign_computation(c, &known, x, NULL, NULL, is_body(m, x));
      continue;
    }
    const hlo_shape **params = HS_NEW_ARRAY(c->scratch, const hlo_shape *, x->nparams + 1);
    for (u32 p = 0; p < x->nparams; p++) {   // where the entry's layouts are open, the parameter's own; memory spaces come along
      params[p] = given && p < given->n ? given->params[p] : x->params[p]->shape;
      const hlo_shape *full = filled(m->ctx, params[p], x->params[p]->shape, c->scratch);
      if (full != x->params[p]->shape) hlo_set_shape(x->params[p], full);
    }
    assign_computation(c, &known, x, params, given ? given->result : x->root->shape, false);
  }
  hs_vec_free(&known);
  return HS_GOOD;
}
