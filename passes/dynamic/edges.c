// edges.c — where dynamic_padder meets what keeps dynamic types: parameters and results of the
// entry, and custom calls that only their library knows.
//
// There a value is made static by the custom call PadToStatic(x), whose result is (x, its size
// along each dimension...), and dynamic again by SliceToDynamic(x, sizes...). For a caller that
// hands over sizes by itself both edges of the entry are plain values instead: the size of each
// dynamic dimension of the parameters is a parameter behind them, those of the result are elements
// behind its own; in the order of parameters, their leaves, dimensions.
#include "core/analysis/customcall.h"
#include "passes/dynamic/dynamic.h"

bool dyn_is_target(const hlo_instr *i, const char *target) {
  return i->opcode == HLO_CUSTOM_CALL &&
         hs_str_eq(hlo_attr_str(i, HLO_ATTR_CUSTOM_CALL_TARGET), hs_str_of(target));
}

static const hlo_shape *size_shape(hlo_ctx *ctx, const hlo_shape *like) {
  const hlo_shape *s = hlo_shape_scalar(ctx, HLO_S32);
  return like->layout ? hlo_shape_with_default_layout(ctx, s) : s;
}

static hlo_instr *custom_call(hlo_computation *c, const char *target, const hlo_shape *s, u32 n,
                              hlo_instr *const *ops) {
  hlo_instr *i = hlo_add(c, HLO_CUSTOM_CALL, s, n, ops, NULL);
  hlo_set_attr_str(i, HLO_ATTR_CUSTOM_CALL_TARGET, hs_str_of(target));
  return i;
}

// ---- to static ----------------------------------------------------------------------------------
// The static form of a value of dynamic type, with its sizes.
static hlo_instr *opened(dyn *d, hlo_instr *x) {
  hlo_ctx *ctx = d->c->m->ctx;
  const hlo_shape *s = x->shape;
  if (!hlo_shape_is_dynamic(s)) return x;
  if (hlo_shape_is_tuple(s)) {
    hlo_instr **e = HS_NEW_ARRAY(d->c->scratch, hlo_instr *, s->nelems + 1);
    for (u32 k = 0; k < s->nelems; k++) {
      hlo_instr *g = hlo_add_gte(x, k);
      if (hlo_shape_is_dynamic(g->shape)) dyn_keep(d, g);
      e[k] = opened(d, g);
    }
    hlo_instr *t = hlo_add_tuple(x->parent, s->nelems, e);
    for (u32 k = 0; k < s->nelems; k++)
      for (u32 j = 0, at = hlo_shape_leaf_offset(s, k), n = hlo_shape_leaves(s->elems[k]); j < n;
           j++)
        dyn_give_leaf(d, x, t, at + j, e[k], j);
    return t;
  }
  const hlo_shape **e = HS_NEW_ARRAY(d->c->scratch, const hlo_shape *, s->rank + 1);
  e[0] = dyn_static(ctx, s);
  for (u32 k = 0; k < s->rank; k++) e[k + 1] = size_shape(ctx, s);
  hlo_instr *p = custom_call(x->parent, "PadToStatic", hlo_shape_tuple(ctx, s->rank + 1, e), 1, &x);
  dyn_keep(d, p);
  hlo_instr *now = hlo_add_gte(p, 0);
  for (u32 k = 0; k < s->rank; k++)
    if (s->dynamic[k]) dyn_set_size(d, now, 0, k, hlo_add_gte(p, k + 1));
  return now;
}

// Gives all that reads x its static form; x keeps its type.
static void open_value(dyn *d, hlo_instr *x) {
  u32 n = 0;
  hlo_use **users = HS_NEW_ARRAY(d->c->scratch, hlo_use *, x->nuses + 1);
  hlo_for_each_use(u, x) users[n++] = u;
  bool root = hlo_is_root(x);
  dyn_keep(d, x);
  hlo_instr *now = opened(d, x);
  for (u32 k = 0; k < n; k++) hlo_set_operand(users[k]->user, hlo_slot(users[k]), now);
  if (root) hlo_set_root(x->parent, now);
}

// ---- to dynamic ---------------------------------------------------------------------------------
// What PadToStatic made x, and all of its sizes, of; NULL when nothing did, or of another type.
static hlo_instr *origin(const dyn *d, const hlo_instr *x, const hlo_shape *s) {
  if (x->opcode != HLO_GET_TUPLE_ELEMENT || !dyn_is_target(hlo_operand(x, 0), "PadToStatic") ||
      hlo_attr_int(x, HLO_ATTR_INDEX, 0) != 0)
    return NULL;
  hlo_instr *p = hlo_operand(x, 0);
  if (hlo_operand(p, 0)->shape != s) return NULL;
  for (u32 k = 0; k < s->rank; k++) {
    const hlo_instr *n = dyn_size(d, x, 0, k);
    if (!s->dynamic[k]) continue;
    if (!n || n->opcode != HLO_GET_TUPLE_ELEMENT || hlo_operand(n, 0) != p ||
        hlo_attr_int(n, HLO_ATTR_INDEX, 0) != k + 1)
      return NULL;
  }
  return hlo_operand(p, 0);
}

// x as a value of the dynamic type s; its leaves, from `leaf` on, are those of `of`.
static hlo_instr *closed(dyn *d, hlo_instr *x, const hlo_shape *s, hlo_instr *of, u32 leaf) {
  if (!hlo_shape_is_dynamic(s)) return x;
  if (hlo_shape_is_tuple(s)) {
    hlo_instr **e = HS_NEW_ARRAY(d->c->scratch, hlo_instr *, s->nelems + 1);
    for (u32 k = 0; k < s->nelems; k++)
      e[k] = closed(d, pass_element(x, k), s->elems[k], of, leaf + hlo_shape_leaf_offset(s, k));
    hlo_instr *t = hlo_add_tuple(x->parent, s->nelems, e);
    dyn_keep(d, t);
    return t;
  }
  hlo_instr *same = origin(d, x, s);
  if (same) return same;
  hlo_instr *ops[HLO_MAX_RANK + 1] = {x};
  for (u32 k = 0; k < s->rank; k++) {
    hlo_instr *n = dyn_size(d, of, leaf, k);
    ops[k + 1] = n ? n : dyn_const(x->parent, s->dims[k]);
  }
  hlo_instr *r = custom_call(x->parent, "SliceToDynamic", s, s->rank + 1, ops);
  dyn_keep(d, r);
  return r;
}

// ---- custom calls -------------------------------------------------------------------------------
static bool pad_to_static(dyn *d, hlo_instr *i) {
  hlo_instr *x = hlo_operand(i, 0), *e[HLO_MAX_RANK + 1] = {x};
  for (u32 k = 0; k < x->shape->rank; k++) e[k + 1] = dyn_used(d, x, 0, k);
  return dyn_replace(d, i, hlo_add_tuple(i->parent, x->shape->rank + 1, e));
}

static bool slice_to_dynamic(dyn *d, hlo_instr *i) {
  const hlo_shape *s = i->shape;
  for (u32 k = 0; k < s->rank; k++)
    if (hlo_dim_is_dynamic(s, k))
      dyn_set_size(d, i, 0, k, dyn_clamped(hlo_operand(i, k + 1), s->dims[k]));
  hs_vec_push(&d->views, i);
  return true;
}

// The convolution that it is when the places where its window lies do not depend on sizes.
static bool dynamic_convolution(dyn *d, hlo_instr *i) {
  const hlo_dim_labels *l = hlo_attr_ptr(i, HLO_ATTR_DIM_LABELS);
  static const hlo_attr_id kept[] = {HLO_ATTR_WINDOW, HLO_ATTR_DIM_LABELS,
                                     HLO_ATTR_FEATURE_GROUP_COUNT, HLO_ATTR_BATCH_GROUP_COUNT,
                                     HLO_ATTR_OPERAND_PRECISION};
  if (!l || i->noperands != 2 || !hlo_custom_shape_fits(HLO_CUSTOM_DYNAMIC_CONV, i))
    return dyn_refuse(d, i, "it is no convolution");
  for (u32 k = 0; k < l->nspatial; k++)
    if (dyn_size(d, hlo_operand(i, 0), 0, (u32)l->lhs_spatial[k]))
      return dyn_refuse(d, i, "its window moves along a dynamic dimension");
  hlo_instr *ops[] = {hlo_operand(i, 0), hlo_operand(i, 1)},
            *now = hlo_add(i->parent, HLO_CONVOLUTION, i->shape, 2, ops, NULL);
  for (size_t k = 0; k < HS_COUNT(kept); k++) {
    const hlo_attr *a = hlo_attr_get(i, kept[k]);
    if (a) hlo_set_attr(now, *a);
  }
  if (!dyn_convolution(d, now)) return false;
  hlo_set_shape(now, dyn_static(d->c->m->ctx, now->shape));
  return dyn_replace(d, i, now);
}

// The type of x with the dimensions dynamic that have sizes.
static const hlo_shape *sized_shape(const dyn *d, const hlo_instr *x, const hlo_shape *s,
                                    u32 leaf) {
  hlo_ctx *ctx = d->c->m->ctx;
  if (hlo_shape_is_tuple(s)) {
    const hlo_shape **e = HS_NEW_ARRAY(d->c->scratch, const hlo_shape *, s->nelems + 1);
    for (u32 k = 0; k < s->nelems; k++)
      e[k] = sized_shape(d, x, s->elems[k], leaf + hlo_shape_leaf_offset(s, k));
    return hlo_shape_tuple(ctx, s->nelems, e);
  }
  bool dynamic[HLO_MAX_RANK] = {false}, any = false;
  for (u32 k = 0; k < s->rank; k++) any |= dynamic[k] = dyn_size(d, x, leaf, k) != NULL;
  return any ? hlo_shape_dynamic(ctx, s->dtype, s->rank, s->dims, dynamic, s->layout) : s;
}

// A call that only its library knows takes and gives values of dynamic type, as before.
static bool unknown(dyn *d, hlo_instr *i) {
  for (u32 k = 0; k < i->noperands; k++) {
    hlo_instr *x = hlo_operand(i, k);
    hlo_set_operand(i, k, closed(d, x, sized_shape(d, x, x->shape, 0), x, 0));
  }
  if (hlo_shape_is_dynamic(i->shape)) open_value(d, i);
  return true;
}

bool dyn_knows_call(const hlo_instr *i) {
  return hlo_custom_is_marker(i) || dyn_is_target(i, "PadToStatic") ||
         dyn_is_target(i, "SliceToDynamic") || dyn_is_target(i, "DynamicConvolutionForward");
}

bool dyn_custom_call(dyn *d, hlo_instr *i) {
  if (hlo_custom_is_marker(i)) {
    for (u32 k = 0, n = hlo_shape_leaves(i->shape); k < n; k++)
      if (i->noperands == 1) dyn_give_leaf(d, i, i, k, hlo_operand(i, 0), k);
      else return dyn_refuse(d, i, "it marks several values");
    return true;
  }
  if (dyn_is_target(i, "PadToStatic") && hlo_custom_shape_fits(HLO_CUSTOM_PAD_TO_STATIC, i))
    return pad_to_static(d, i);
  if (dyn_is_target(i, "SliceToDynamic") && hlo_custom_shape_fits(HLO_CUSTOM_SLICE_TO_DYNAMIC, i))
    return slice_to_dynamic(d, i);
  if (dyn_is_target(i, "DynamicConvolutionForward")) return dynamic_convolution(d, i);
  return unknown(d, i);
}

// ---- the entry ----------------------------------------------------------------------------------
static void open_argument(dyn *d, hlo_instr *p) {
  hlo_computation *c = p->parent;
  const hlo_shape *s = p->shape;
  for (u32 k = 0, n = hlo_shape_leaves(s); k < n; k++) {
    const hlo_shape *leaf = hlo_shape_leaf(s, k);
    for (u32 j = 0; j < leaf->rank; j++)
      if (hlo_dim_is_dynamic(leaf, j))
        dyn_set_size(d, p, k, j,
                     hlo_add_parameter(c, c->nparams, size_shape(d->c->m->ctx, leaf), "size"));
  }
  hlo_set_shape(p, dyn_static(d->c->m->ctx, s));
}

static void state_entry(hlo_module *m) {
  hlo_computation *e = m->entry;
  const hlo_shape **p = HS_NEW_ARRAY(&m->arena, const hlo_shape *, e->nparams + 1);
  for (u32 k = 0; k < e->nparams; k++) p[k] = hlo_shape_fill_layout(m->ctx, e->params[k]->shape);
  hlo_program_shape *now = HS_NEW(&m->arena, hlo_program_shape);
  *now = (hlo_program_shape){e->nparams, p, hlo_shape_fill_layout(m->ctx, e->root->shape)};
  hlo_set_module_attr(m, (hlo_attr){.id = HLO_ATTR_ENTRY_COMPUTATION_LAYOUT, .v.p = now});
}

void dyn_open_entry(dyn *d) {
  hlo_computation *e = d->c->m->entry;
  for (u32 k = 0, n = e->nparams; k < n; k++) {
    if (!hlo_shape_is_dynamic(e->params[k]->shape)) continue;
    if (d->as_arguments) open_argument(d, e->params[k]);
    else open_value(d, e->params[k]);
  }
}

void dyn_close_entry(dyn *d, const hlo_shape *stated, bool dynamic) {
  hlo_module *m = d->c->m;
  hlo_instr *root = m->entry->root;
  bool sized = hlo_shape_is_dynamic(stated);
  if (sized && dynamic && !d->as_arguments)
    hlo_set_root(m->entry, closed(d, root, stated, root, 0));
  if (sized && d->as_arguments) {
    u32 n = hlo_shape_is_tuple(stated) ? stated->nelems : 1, at = n,
        leaves = hlo_shape_leaves(stated);
    for (u32 k = 0; k < leaves; k++) at += hlo_shape_leaf(stated, k)->rank;
    hlo_instr **e = HS_NEW_ARRAY(d->c->scratch, hlo_instr *, at + 1);
    for (u32 k = 0; k < n; k++) e[k] = hlo_shape_is_tuple(stated) ? pass_element(root, k) : root;
    at = n;
    for (u32 k = 0; k < leaves; k++) {
      const hlo_shape *s = hlo_shape_leaf(stated, k);
      for (u32 j = 0; j < s->rank; j++)
        if (hlo_dim_is_dynamic(s, j)) e[at++] = dyn_used(d, root, k, j);
    }
    hlo_set_root(m->entry, hlo_add_tuple(m->entry, at, e));
  }
  if (d->as_arguments || (sized && !dynamic)) state_entry(m);
}
