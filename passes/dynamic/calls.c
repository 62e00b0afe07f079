// calls.c — dynamic_padder across computations: sizes become elements of what is handed over.
//
// The state of a loop, the operands and the result of a branch get their sizes behind their own
// elements, so that the numbers of these stay. Calls and fusions that values with dynamic
// dimensions go through are inlined before anything else. A computation that others call too is
// cloned first.
#include "passes/dynamic/dynamic.h"

// ---- calls --------------------------------------------------------------------------------------
static bool is_about_sizes(const hlo_instr *i) {
  return hlo_shape_is_dynamic(i->shape) || i->opcode == HLO_SET_DIMENSION_SIZE ||
         i->opcode == HLO_GET_DIMENSION_SIZE || i->opcode == HLO_DYNAMIC_RESHAPE;
}

static bool is_inlined(const hlo_instr *i) {
  if (i->opcode != HLO_CALL && i->opcode != HLO_FUSION) return false;
  bool dynamic = pass_is_cut(i);
  for (u32 k = 0; k < i->noperands; k++) dynamic |= pass_is_cut(hlo_operand(i, k));
  if (dynamic || i->opcode == HLO_CALL) return dynamic;
  hlo_for_each_instr(x, hlo_fusion_comp(i))
    if (is_about_sizes(x)) return true;
  return false;
}

static bool inline_all(hlo_computation *comp, hs_arena *a) {
  bool any = false;
  hlo_for_each_instr_safe(i, comp) {
    if (i->dead || !is_inlined(i)) continue;
    hlo_instr **args = HS_NEW_ARRAY(a, hlo_instr *, i->noperands + 1);
    for (u32 k = 0; k < i->noperands; k++) args[k] = hlo_operand(i, k);
    pass_inline_call(i, hlo_fusion_comp(i), args, a);
    any = true;
  }
  return any;
}

hs_status dyn_inline(pass_ctx *c) {
  HS_TRY(hlo_check_expansion(c->m, is_inlined, "dynamic_padder"));
  hlo_for_each_comp(comp, c->m) {
    if (hlo_is_fusion_comp(comp)) continue;
    while (inline_all(comp, c->scratch)) HS_TRY(hs_poll());
  }
  return HS_GOOD;
}

// Removes what nobody calls and has dynamic dimensions: computations that were inlined or cloned.
void dyn_remove_uncalled(pass_ctx *c) {
  hlo_module *m = c->m;
  u32 *n = HS_NEW_ARRAY(c->scratch, u32, m->next_comp_id + 1);
  hlo_for_each_comp(f, m)
    hlo_for_each_instr(i, f)
      for (u32 k = 0; k < hlo_ncalled(i); k++) n[hlo_called(i, k)->id]++;
  for (bool again = true; again;) {
    again = false;
    for (hlo_computation *f = m->first, *next; f; f = next) {
      next = f->next;
      bool sizes = false;
      hlo_for_each_instr(i, f) sizes |= is_about_sizes(i);
      if (!sizes || n[f->id] || f == m->entry) continue;
      hlo_for_each_instr(i, f)
        for (u32 k = 0; k < hlo_ncalled(i); k++) n[hlo_called(i, k)->id]--;
      hlo_remove_computation(f);
      again = true;
    }
  }
}

// A call through which no sizes go.
bool dyn_call(dyn *d, hlo_instr *i) {
  return dyn_computation(d, hlo_attr_comp(i, HLO_ATTR_TO_APPLY));
}

// ---- tuples that grow ---------------------------------------------------------------------------
// The dimensions that a type says are dynamic.
static void find_dims(const hlo_shape *stated, dyn_dims *out) {
  for (u32 k = 0, n = hlo_shape_leaves(stated); k < n; k++) {
    for (u32 j = 0; j < hlo_shape_leaf(stated, k)->rank; j++) {
      bool has = dyn_states(stated, k, j);
      for (size_t t = 0; t < out->n; t++) has &= out->v[t].leaf != k || out->v[t].dim != j;
      if (has) hs_vec_push(out, ((dyn_dim){k, j}));
    }
  }
}

static u32 elements_of(const hlo_shape *s) { return hlo_shape_is_tuple(s) ? s->nelems : 1; }

// (elements of x..., sizes...); a value that is no tuple is the first element.
static hlo_instr *with_sizes(dyn *d, hlo_instr *x, const dyn_dims *dims) {
  u32 n = elements_of(x->shape);
  hlo_instr **e = HS_NEW_ARRAY(d->c->scratch, hlo_instr *, n + dims->n + 1);
  for (u32 k = 0; k < n; k++) e[k] = hlo_shape_is_tuple(x->shape) ? pass_element(x, k) : x;
  for (size_t k = 0; k < dims->n; k++) e[n + k] = dyn_stated(d, x, dims->v[k].leaf, dims->v[k].dim);
  return hlo_add_tuple(x->parent, n + (u32)dims->n, e);
}

static const hlo_shape *shape_with_sizes(dyn *d, const hlo_shape *s, const dyn_dims *dims) {
  hlo_ctx *ctx = d->c->m->ctx;
  u32 n = elements_of(s);
  const hlo_shape **e = HS_NEW_ARRAY(d->c->scratch, const hlo_shape *, n + dims->n + 1),
                  *size = hlo_shape_scalar(ctx, HLO_S32);
  s = dyn_static(ctx, s);
  for (u32 k = 0; k < n; k++) e[k] = hlo_shape_is_tuple(s) ? s->elems[k] : s;
  if (hlo_shape_leaf(s, 0) && hlo_shape_leaf(s, 0)->layout)
    size = hlo_shape_with_default_layout(ctx, size);
  for (size_t k = 0; k < dims->n; k++) e[n + k] = size;
  return hlo_shape_tuple(ctx, n + (u32)dims->n, e);
}

// Gives x, which was of its present type, that of with_sizes. Its users get what it was: elements
// of the same numbers, or a tuple of them, with sizes where that type states them.
static void grow(dyn *d, hlo_instr *x, const dyn_dims *dims) {
  const hlo_shape *was = x->shape;
  u32 n = elements_of(was), nusers = 0;
  bool is_tuple = hlo_shape_is_tuple(was), root = hlo_is_root(x);
  hlo_use **users = HS_NEW_ARRAY(d->c->scratch, hlo_use *, x->nuses + 1);
  hlo_for_each_use(u, x)
    if (!is_tuple || u->user->opcode != HLO_GET_TUPLE_ELEMENT) users[nusers++] = u;
  pass_set_tuple_shape(x, shape_with_sizes(d, was, dims));
  hlo_instr *view = NULL;
  if (nusers || root) {
    hlo_instr **e = HS_NEW_ARRAY(d->c->scratch, hlo_instr *, n + 1);
    for (u32 k = 0; k < n; k++) e[k] = hlo_add_gte(x, k);
    view = is_tuple ? hlo_add_tuple(x->parent, n, e) : e[0];
  }
  for (u32 k = 0; k < nusers; k++) hlo_set_operand(users[k]->user, hlo_slot(users[k]), view);
  if (root) hlo_set_root(x->parent, view);
  for (size_t k = 0; k < dims->n; k++) {
    if (!dyn_states(was, dims->v[k].leaf, dims->v[k].dim)) continue;
    hlo_instr *size = hlo_add_gte(x, n + (i64)k);
    dyn_set_size(d, x, dims->v[k].leaf, dims->v[k].dim, size);
    if (view) dyn_set_size(d, view, dims->v[k].leaf, dims->v[k].dim, size);
  }
  // the rules of elements look at the type that view has: it says what has sizes
  for (u32 k = 0; view && is_tuple && k < n; k++) {
    hlo_instr *e = hlo_operand(view, k);
    for (u32 j = 0, at = hlo_shape_leaf_offset(was, k); j < hlo_shape_leaves(e->shape); j++)
      for (u32 t = 0; t < hlo_shape_leaf(e->shape, j)->rank; t++)
        dyn_set_size(d, e, j, t, dyn_size(d, x, at + j, t));
  }
}

// ---- loops and branches -------------------------------------------------------------------------
static u32 *callers_of(dyn *d, const hlo_computation *c) {
  while (d->callers.n <= c->id) hs_vec_push(&d->callers, 0);
  return &d->callers.v[c->id];
}

static void count_calls(dyn *d, const hlo_computation *c) {
  hlo_for_each_instr(i, c)
    for (u32 k = 0, n = hlo_ncalled(i); k < n; k++) ++*callers_of(d, hlo_called(i, k));
}

void dyn_count_callers(dyn *d) {
  hlo_for_each_comp(c, d->c->m) count_calls(d, c);
}

// The computation that it calls, a clone when others call that too.
static hlo_computation *own(dyn *d, hlo_instr *i, u32 which) {
  hlo_computation *c = hlo_called(i, which);
  u32 *n = callers_of(d, c);
  if (*n <= 1) return c;
  --*n;
  hlo_computation *mine = hlo_clone_computation(c, c->name, NULL);
  pass_set_called(i, which, mine);
  *callers_of(d, mine) = 1;
  count_calls(d, mine);
  return mine;
}

static bool refuse_elements(dyn *d, const hlo_instr *i) {
  return dyn_refuse(d, i, "it has more elements than a tuple may have");
}

bool dyn_while(dyn *d, hlo_instr *i) {
  bool body_first = hlo_called(i, 0) == hlo_attr_comp(i, HLO_ATTR_BODY);
  hlo_computation *f[] = {own(d, i, body_first ? 1 : 0), own(d, i, body_first ? 0 : 1)};
  hlo_instr *init = hlo_operand(i, 0);
  dyn_dims dims = {0};
  find_dims(i->shape, &dims);
  for (u32 k = 0; k < 2; k++) find_dims(f[k]->params[0]->shape, &dims);
  bool fine = true;
  if (dims.n > HLO_MAX_LEAVES / 2) fine = refuse_elements(d, i);
  for (u32 k = 0; k < 2 && fine; k++) {
    if (dims.n) grow(d, f[k]->params[0], &dims);
    fine = dyn_computation(d, f[k]);
  }
  if (fine && dims.n) {
    hlo_set_root(f[1], with_sizes(d, f[1]->root, &dims));
    hlo_set_operand(i, 0, with_sizes(d, init, &dims));
    grow(d, i, &dims);
  }
  hs_vec_free(&dims);
  return fine;
}

bool dyn_conditional(dyn *d, hlo_instr *i) {
  u32 n = i->noperands - 1;
  hlo_computation **f = HS_NEW_ARRAY(d->c->scratch, hlo_computation *, n + 1);
  dyn_dims results = {0};
  bool fine = true;
  for (u32 k = 0; k < n && fine; k++) {
    hlo_instr *arg = hlo_operand(i, k + 1);
    f[k] = own(d, i, k);
    dyn_dims dims = {0};
    find_dims(f[k]->params[0]->shape, &dims);
    if (dims.n > HLO_MAX_LEAVES / 2) fine = refuse_elements(d, i);
    if (fine && dims.n) {
      grow(d, f[k]->params[0], &dims);
      hlo_set_operand(i, k + 1, with_sizes(d, arg, &dims));
    }
    hs_vec_free(&dims);
    fine = fine && dyn_computation(d, f[k]);
    if (fine) find_dims(i->shape, &results);
  }
  if (fine && results.n) {
    for (u32 k = 0; k < n; k++) hlo_set_root(f[k], with_sizes(d, f[k]->root, &results));
    grow(d, i, &results);
  }
  hs_vec_free(&results);
  return fine;
}
