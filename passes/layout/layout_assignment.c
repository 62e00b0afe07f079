// layout_assignment.c — layout-assignment (xla/service/layout_assignment.cc,
// xla/service/cpu/cpu_layout_assignment.cc).
//
// Initial constraints come from the entry's parameters and result, custom calls and collectives
// with fixed layouts, infeeds and outfeeds, the bodies of loops, branches and calls, and XLA:CPU's
// preferences. They are propagated (layout_constraints.c) to a fixpoint; then the first array
// without a layout gets the row-major one (a constant that of its literal), which is propagated in
// turn. There are two rounds: in the first, callees choose freely and callers follow; then loop
// bodies must return the layouts of their parameters, conditions and branches must agree, and so
// must aliased arguments and results, which the second round treats as fixed. A copy is inserted
// where a use requires another layout than its operand has; for a branch, inside it.
//
// Layouts of instructions that interpret bytes or forward buffers (bitcasts, fusions, asynchronous
// operations) are kept. A custom call with fixed layouts gets copies of the operands that its
// result may overwrite. All-reduces on one channel have equal layouts. Options: cpu (every operand
// row-major, and the results of matrix products and convolutions; a constant matrix that vectors
// alone are multiplied by column-major; default true); row_major (no propagation: every array
// without a layout gets the row-major one, so that only transposes and copies change the order);
// reject_bitcasts (as XLA does: a bitcast fixes layouts before they are assigned; default false).
#include "passes/layout/layout_constraints.h"

// s, with the layouts of `from` where s has none.
static const hlo_shape *filled(hlo_ctx *ctx, const hlo_shape *s, const hlo_shape *from,
                               hs_arena *arena) {
  if (!hlo_shape_is_tuple(s)) return hlo_shape_is_array(s) && !s->layout ? from : s;
  const hlo_shape **e = HS_NEW_ARRAY(arena, const hlo_shape *, s->nelems + 1);
  for (u32 k = 0; k < s->nelems; k++) e[k] = filled(ctx, s->elems[k], from->elems[k], arena);
  return hlo_shape_tuple(ctx, s->nelems, e);
}

// s in the memory spaces of `from`.
static const hlo_shape *in_space_of(hlo_ctx *ctx, const hlo_shape *s, const hlo_shape *from,
                                    hs_arena *arena) {
  if (!hlo_shape_is_tuple(s)) {
    i64 space = from->layout ? from->layout->memory_space : 0;
    if (!hlo_shape_is_array(s) || !s->layout || s->layout->memory_space == space) return s;
    hlo_layout l = *s->layout;
    l.memory_space = space;
    return hlo_shape_with_layout(ctx, s, hlo_layout_intern(ctx, &l));
  }
  const hlo_shape **e = HS_NEW_ARRAY(arena, const hlo_shape *, s->nelems + 1);
  for (u32 k = 0; k < s->nelems; k++) e[k] = in_space_of(ctx, s->elems[k], from->elems[k], arena);
  return hlo_shape_tuple(ctx, s->nelems, e);
}

static bool any_layout(const hlo_shape *s) {
  for (u32 k = 0; k < hlo_shape_leaves(s); k++)
    if (hlo_shape_is_array(hlo_shape_leaf(s, k)) && hlo_shape_leaf(s, k)->layout) return true;
  return false;
}

// s with its leaves from number *at on as the arrays that they are lie; extras of a layout (tiles,
// spaces) come from their makers.
static const hlo_shape *assigned(la_solver *v, hlo_instr *i, const hlo_shape *s, u32 *at) {
  if (hlo_shape_is_tuple(s)) {
    const hlo_shape **e = HS_NEW_ARRAY(v->p->scratch, const hlo_shape *, s->nelems + 1);
    for (u32 k = 0; k < s->nelems; k++) e[k] = assigned(v, i, s->elems[k], at);
    return hlo_shape_tuple(v->ctx, s->nelems, e);
  }
  const la_array *a = &v->at->array[la_maker(v->at, i, (*at)++)];
  const hlo_shape *array = la_content(s), *made = la_content(hlo_shape_leaf(a->i->shape, a->inner));
  if (!hlo_shape_is_array(array) || !a->layout) return s;
  if (made->layout) array = hlo_shape_with_layout(v->ctx, array, made->layout);
  array = la_in_order(v->ctx, array, a->layout);
  return s->dtype == HLO_BUFFER ? hlo_shape_buffer(v->ctx, array) : array;
}

static const hlo_shape *assigned_shape(la_solver *v, hlo_instr *i) {
  u32 at = 0;
  return assigned(v, i, i->shape, &at);
}

// ---- initial constraints ------------------------------------------------------------------------
static void fix_operand(la_solver *v, hlo_instr *i, u32 operand, const hlo_shape *s) {
  if (!la_hands_on(i, operand)) la_set_operand(v, i, operand, s, true, true, v->round);
}

static bool on_channel(const hlo_instr *i) {
  return i->opcode == HLO_ALL_REDUCE && hlo_attr_int(i, HLO_ATTR_CHANNEL_ID, 0) > 0 &&
         hlo_shape_is_array(i->shape) && i->noperands == 1;
}
static const hlo_layout *channel_layout(const la_solver *v, const hlo_instr *i) {
  i64 id = hlo_attr_int(i, HLO_ATTR_CHANNEL_ID, 0);
  for (size_t k = 0; k < v->channels.n; k++)
    if (v->channels.v[k].id == id && v->channels.v[k].layout->rank == i->shape->rank)
      return v->channels.v[k].layout;
  return NULL;
}

static bool as_it_came(const hlo_instr *i) {
  switch (i->opcode) {
  case HLO_BITCAST:
  case HLO_FUSION:
  case HLO_INFEED:
  case HLO_OUTFEED:
  case HLO_SEND:
  case HLO_SEND_DONE:
  case HLO_RECV:
  case HLO_RECV_DONE:
  case HLO_CUSTOM_CALL: return i->opcode != HLO_CUSTOM_CALL;
  default:
    return hlo_op_has(i->opcode, HLO_F_ASYNC) || (hlo_op_has(i->opcode, HLO_F_COLLECTIVE) &&
                                                  hlo_attr_int(i, HLO_ATTR_CONSTRAIN_LAYOUT, 0));
  }
}

static void from_instruction(la_solver *v, hlo_instr *i) {
  la_comp *c = v->at;
  if (i->opcode == HLO_PARAMETER) {
    const hlo_shape *s = c->params[hlo_param_number(i)];
    if ((c->said & LA_PARAMS) && !c->agreed && any_layout(s)) la_set_instr(v, i, s);
  } else if (as_it_came(i)) {
    for (u32 k = 0; k < i->noperands; k++)
      fix_operand(v, i, k, hlo_shape_fill_layout(v->ctx, hlo_operand(i, k)->shape));
    la_set_instr(v, i, hlo_shape_fill_layout(v->ctx, i->shape));
  } else if (on_channel(i) && channel_layout(v, i)) {
    la_set_instr(v, i, la_in_order(v->ctx, i->shape, channel_layout(v, i)));
  }
}

static void keep(la_comp *c, i64 priority) {
  c->priority = priority, c->said |= LA_RESULT | LA_PARAMS;
}

// The branch with the most work; the others take its result layout.
static u32 leading_branch(const hlo_instr *i, u32 n, hlo_computation *const *branch) {
  u32 best = n, most = 0;
  for (u32 k = 0; k < n; k++) {
    const hlo_shape *s = hlo_operand(i, k + 1)->shape;
    if (branch[k]->ninstrs > most && !(hlo_shape_is_tuple(s) && s->nelems == 0))
      best = k, most = branch[k]->ninstrs;
  }
  return best == n ? 0 : best;
}

static bool same_order(la_solver *v, const hlo_shape *a, const hlo_shape *b) {
  for (u32 k = 0; k < hlo_shape_leaves(a); k++)
    if (la_order(v->ctx, hlo_shape_leaf(a, k)) != la_order(v->ctx, hlo_shape_leaf(b, k)))
      return false;
  return true;
}

static void from_callees(la_solver *v, hlo_instr *i) {
  hlo_computation **called;
  u32 n;
  if (i->opcode != HLO_CALL && i->opcode != HLO_WHILE && i->opcode != HLO_CONDITIONAL) return;
  pass_called_all(i, v->p->scratch, &called, &n);
  if (i->opcode == HLO_CALL) {
    la_comp *f = &v->comps[called[0]->id];
    la_set_instr(v, i, f->result);
    for (u32 k = 0; k < i->noperands; k++) fix_operand(v, i, k, f->params[k]);
  } else if (i->opcode == HLO_WHILE) {
    la_comp *body = &v->comps[hlo_attr_comp(i, HLO_ATTR_BODY)->id],
            *cond = &v->comps[hlo_attr_comp(i, HLO_ATTR_CONDITION)->id];
    if (body->result != body->params[0])
      body->params[0] = body->result, keep(body, v->round + LA_ROUNDS);
    if (cond->params[0] != body->params[0])
      cond->params[0] = body->params[0], keep(cond, v->round + LA_ROUNDS);
    fix_operand(v, i, 0, body->result);
    la_set_instr(v, i, body->result);
  } else {
    u32 lead = leading_branch(i, n, called);
    const la_comp *best = &v->comps[called[lead]->id];
    for (u32 k = 0; k < n; k++) {
      la_comp *f = &v->comps[called[k]->id];
      if (!same_order(v, f->result, best->result)) f->agreed = f->result = best->result;
      else fix_operand(v, i, k + 1, f->params[0]);
    }
    fix_operand(v, i, lead + 1, best->params[0]);
    la_set_instr(v, i, best->result);
  }
}

static void from_custom_call(la_solver *v, hlo_instr *i) {
  const hlo_shapes *given =
      i->opcode == HLO_CUSTOM_CALL ? hlo_attr_ptr(i, HLO_ATTR_OPERAND_LAYOUT_CONSTRAINTS) : NULL;
  if (!given) return;
  const hlo_shape *own = hlo_shape_fill_layout(v->ctx, i->shape);
  // its result's layout is all it says
  bool only = hs_str_eq(hlo_attr_str(i, HLO_ATTR_CUSTOM_CALL_TARGET), HS_STR("LayoutConstraint"));
  la_set_instr(v, i, own);
  for (u32 k = 0; k < given->n && k < i->noperands; k++)
    fix_operand(v, i, k,
                only && hlo_shape_compatible(own, hlo_operand(i, k)->shape)
                    ? own
                    : hlo_shape_fill_layout(v->ctx, given->v[k]));
}

// ---- XLA:CPU's preferences ----------------------------------------------------------------------
static bool is_vector_product(const hlo_instr *i) {
  return i->opcode == HLO_DOT && i->shape->rank <= 1;
}

// Products by the library or in tiles; those with a vector, and tiny ones, read any layout.
static bool wants_rows(const hlo_instr *i) {
  if (i->opcode == HLO_CONVOLUTION) return true;
  if (i->opcode == HLO_CUSTOM_CALL)
    return hs_str_eq(hlo_attr_str(i, HLO_ATTR_CUSTOM_CALL_TARGET), HS_STR("TopK"));
  if (i->opcode != HLO_DOT) return false;
  if (hlo_attr_ints(i, HLO_ATTR_LHS_BATCH_DIMS).n) return true;
  bool vector = i->shape->rank <= 1 ||
                (i->shape->rank == 2 && (i->shape->dims[0] == 1 || i->shape->dims[1] == 1));
  if (vector) return hlo_dtype_is_complex(i->shape->dtype);
  i64 k = 1;
  hlo_ints d = hlo_attr_ints(i, HLO_ATTR_LHS_CONTRACTING_DIMS);
  for (u32 j = 0; j < d.n; j++) k *= hlo_operand(i, 0)->shape->dims[d.v[j]];
  return i->shape->rank != 2 || i->shape->dims[0] > 3 || i->shape->dims[1] > 3 || k > 3;
}

// A constant matrix on the right that vectors (of 32 bytes and more) are multiplied by along its
// columns, and nothing else reads.
static bool reads_columns(const hlo_instr *i, const hlo_instr *x) {
  if (!is_vector_product(i) || hlo_operand(i, 1) != x || hlo_operand(i, 0) == x ||
      hlo_operand(i, 0)->shape->rank != 1)
    return false;
  return hlo_attr_ints(i, HLO_ATTR_RHS_CONTRACTING_DIMS).n &&
         hlo_attr_ints(i, HLO_ATTR_RHS_CONTRACTING_DIMS).v[0] == 0 &&
         hlo_shape_bytes(hlo_operand(i, 0)->shape) >= 32;
}

static bool wants_columns(const hlo_instr *i) {
  const hlo_instr *x = is_vector_product(i) ? hlo_operand(i, 1) : NULL;
  if (!x || x->opcode != HLO_CONSTANT) return false;
  hlo_for_each_use(u, x)
    if (!reads_columns(u->user, x)) return false;
  return true;
}

static const hlo_shape *column_major(hlo_ctx *ctx, const hlo_shape *s) {
  i64 minor[HLO_MAX_RANK];
  hlo_layout l = *hlo_layout_default(ctx, s->rank);
  for (u32 k = 0; k < s->rank; k++) minor[k] = k;
  l.minor_to_major = minor;
  return la_in_order(ctx, s, hlo_layout_intern(ctx, &l));
}

// Row-major but for dimension `dim`, which is the major one.
static const hlo_shape *by_dimension(hlo_ctx *ctx, const hlo_shape *s, i64 dim) {
  i64 minor[HLO_MAX_RANK];
  hlo_layout l = *hlo_layout_default(ctx, s->rank);
  u32 n = 0;
  for (i64 k = (i64)s->rank - 1; k >= 0; k--)
    if (k != dim) minor[n++] = k;
  minor[n] = dim;
  l.minor_to_major = minor;
  return la_in_order(ctx, s, hlo_layout_intern(ctx, &l));
}

static void from_cpu(la_solver *v, hlo_instr *i) {
  if (wants_rows(i)) {
    la_set_instr(v, i, hlo_shape_with_default_layout(v->ctx, i->shape));
    for (u32 k = 0; k < i->noperands; k++)
      fix_operand(v, i, k, hlo_shape_with_default_layout(v->ctx, hlo_operand(i, k)->shape));
  } else if (wants_columns(i)) {
    fix_operand(v, i, 1, column_major(v->ctx, hlo_operand(i, 1)->shape));
  } else if ((i->opcode == HLO_REDUCE_SCATTER || i->opcode == HLO_ALL_GATHER) &&
             hlo_shape_is_array(i->shape)) {
    la_set_instr(v, i, by_dimension(v->ctx, i->shape, hlo_attr_ints(i, HLO_ATTR_DIMENSIONS).v[0]));
  } else {
    for (u32 k = 0; k < i->noperands; k++)
      if (hlo_shape_is_array(hlo_operand(i, k)->shape) && !la_is_constrained(v->at, i, k))
        fix_operand(v, i, k, hlo_shape_with_default_layout(v->ctx, hlo_operand(i, k)->shape));
  }
}

// ---- one computation ----------------------------------------------------------------------------
static void note_channels(la_solver *v) {
  for (u32 t = 0; t < v->at->n; t++) {
    const hlo_instr *i = v->at->order[t];
    if (on_channel(i) && !channel_layout(v, i))
      hs_vec_push(&v->channels,
                  ((la_channel){hlo_attr_int(i, HLO_ATTR_CHANNEL_ID, 0),
                                v->at->array[v->at->base[i->id - v->at->lo]].layout}));
  }
}

// The copies that were made before for what may be overwritten move nothing where the choice is
// free.
static const hlo_layout *layout_of_copy(const la_solver *v, const hlo_instr *i) {
  hlo_for_each_use(u, i)
    if (u->user->opcode == HLO_COPY && u->user->id >= v->first_copy)
      return v->at->array[v->at->base[u->user->id - v->at->lo]].layout;
  return NULL;
}

// Unconstrained arrays: row-major, but constants have the layout of their literal.
static void choose_rest(la_solver *v) {
  la_comp *c = v->at;
  for (u32 t = 0; t < c->n; t++) {
    hlo_instr *i = c->order[t];
    for (u32 k = 0; k < hlo_shape_leaves(i->shape); k++) {
      u32 at = c->base[i->id - c->lo] + k;
      const hlo_shape *s = la_content(hlo_shape_leaf(i->shape, k));
      if (!hlo_shape_is_array(s) || c->array[at].layout || la_maker(c, i, k) != at) continue;
      const hlo_layout *own =
          i->opcode == HLO_CONSTANT ? la_order(v->ctx, s) : layout_of_copy(v, i);
      la_set_array(v, at, own ? own : hlo_layout_default(v->ctx, s->rank), false, true, v->round);
      la_spread(v);
    }
  }
}

static void solve(la_solver *v, la_comp *c, bool cpu) {
  v->at = c;
  la_forget(c);
  hlo_for_each_instr(i, c->c) from_instruction(v, i);
  hlo_for_each_instr(i, c->c) from_callees(v, i);
  bool entry = c->c == v->p->m->entry;
  if (c->agreed) c->said |= LA_RESULT, c->priority = v->round + LA_ROUNDS;
  if (c->agreed || (entry && (c->said & LA_RESULT) && any_layout(c->result)) ||
      (v->round > 0 && (entry || (c->said & LA_RESULT))))
    la_set_result(v);
  if (cpu)
    hlo_for_each_instr(i, c->c) from_cpu(v, i);
  for (u32 t = 0; t < c->n; t++) from_custom_call(v, c->order[t]);
  la_spread(v);
  choose_rest(v);
  if (c->agreed || (v->round == 0 && c->priority < LA_ROUNDS)) {
    if (!c->agreed) c->result = assigned_shape(v, c->c->root);
    for (u32 k = 0; k < c->c->nparams; k++) c->params[k] = assigned_shape(v, c->c->params[k]);
    keep(c, v->round + LA_ROUNDS);
  }
  note_channels(v);
}

// ---- applying the layouts -----------------------------------------------------------------------
// x in the layouts of `want` (NULL leaves: unchanged), copied where they differ.
static hlo_instr *laid_out(la_solver *v, hlo_instr *x, const hlo_shape *want, hlo_instr *before) {
  if (x->shape == want) return x;
  if (hlo_shape_is_array(x->shape)) {
    pass_note_done(v->p, x, before, "copied to the layout that its use requires");
    hlo_instr *k = hlo_add(x->parent, HLO_COPY, want, 1, &x, NULL);
    hlo_add_provenance(k, x);
    if (before) hlo_move_before(k, before);
    return k;
  }
  if (!hlo_shape_is_tuple(x->shape)) return x;
  hlo_instr **e = HS_NEW_ARRAY(v->p->scratch, hlo_instr *, want->nelems + 1);
  for (u32 k = 0; k < want->nelems; k++) {
    // of a tuple too: simplification takes it apart, as after XLA's pass
    e[k] = hlo_add_gte(x, k);
    if (before) hlo_move_before(e[k], before);
    e[k] = laid_out(v, e[k], want->elems[k], before);
  }
  hlo_instr *t = hlo_add_tuple(x->parent, want->nelems, e);
  if (before) hlo_move_before(t, before);
  return t;
}

static const hlo_shape *wanted(la_solver *v, const hlo_shape *s, u32 *at) {
  if (hlo_shape_is_tuple(s)) {
    const hlo_shape **e = HS_NEW_ARRAY(v->p->scratch, const hlo_shape *, s->nelems + 1);
    for (u32 k = 0; k < s->nelems; k++) e[k] = wanted(v, s->elems[k], at);
    return hlo_shape_tuple(v->ctx, s->nelems, e);
  }
  const hlo_layout *l = v->at->wants[(*at)++];
  return hlo_shape_is_array(s) && l && s->layout ? la_in_order(v->ctx, s, l) : s;
}

// The branch gets its operand in the operand's layout and copies it itself, so that other branches
// need not.
static void copy_in_branch(la_solver *v, hlo_instr *conditional, u32 operand,
                           const hlo_shape *want) {
  hlo_computation **called;
  u32 n;
  pass_called_all(conditional, v->p->scratch, &called, &n);
  hlo_instr *param = called[operand - 1]->params[0];
  HS_VEC(hlo_use *) uses = {0};
  hlo_for_each_use(u, param) hs_vec_push(&uses, u);
  bool root = hlo_is_root(param);
  hlo_set_shape(param, hlo_operand(conditional, operand)->shape);
  hlo_instr *now = laid_out(v, param, want, NULL);
  for (size_t k = 0; k < uses.n; k++) hlo_set_operand(uses.v[k]->user, hlo_slot(uses.v[k]), now);
  if (root) hlo_set_root(param->parent, now);
  hs_vec_free(&uses);
}

static bool one_user(const hlo_instr *x) {
  hlo_for_each_use(u, x)
    if (u->user != x->first_use->user) return false;
  return true;
}

static void apply(la_solver *v, la_comp *c) {
  v->at = c;
  for (u32 t = 0; t < c->n; t++) {
    const hlo_shape *s = assigned_shape(v, c->order[t]);
    if (s != c->order[t]->shape) hlo_set_shape(c->order[t], s);
  }
  for (u32 t = 0; t < c->n; t++) {
    hlo_instr *i = c->order[t];
    // what must lie alike does, whatever was asked for
    for (u32 k = 0; k < i->noperands; k++)
      for (u32 r = 0; !la_hands_on(i, k) && r < hlo_shape_leaves(i->shape); r++)
        if (la_alike(i, r, k))
          c->wants[la_want_at(c, i, k)] = c->array[c->base[i->id - c->lo] + r].layout;
    for (u32 k = 0; k < i->noperands; k++) {
      u32 at = la_want_at(c, i, k);
      if (la_hands_on(i, k)) continue;
      const hlo_shape *s = wanted(v, hlo_operand(i, k)->shape, &at);
      if (s == hlo_operand(i, k)->shape) continue;
      if (i->opcode == HLO_CONDITIONAL && k > 0 && one_user(hlo_operand(i, k))) {
        copy_in_branch(v, i, k, s);
        continue;
      }
      hlo_instr *x = laid_out(v, hlo_operand(i, k), s, i);
      if (x != hlo_operand(i, k)) hlo_set_operand(i, k, x);
    }
  }
  if (!(c->said & LA_RESULT)) return;
  const hlo_shape *own = c->c->root->shape,
                  *result = filled(v->ctx, in_space_of(v->ctx, c->result, own, v->p->scratch), own,
                                   v->p->scratch);
  if (result == own) return;
  hlo_instr *root = laid_out(v, c->c->root, result, NULL);
  if (root != c->c->root) hlo_set_root(c->c, root);
}

// ---- preparation --------------------------------------------------------------------------------
// Of a buffer, the array that became it is copied.
static void copy_operand(pass_ctx *c, hlo_instr *i, u32 operand) {
  hlo_instr *x = hlo_operand(i, operand);
  for (u32 before, leaf; x->shape->dtype == HLO_BUFFER && la_forwards(x, 0, &before, &leaf);)
    i = x, operand = before, x = hlo_operand(i, operand);
  if (!hlo_shape_is_array(x->shape) || (x->opcode == HLO_COPY && x->nuses == 1)) return;
  pass_note_done(c, x, i, "copied: its buffer is forwarded or overwritten");
  hlo_instr *copy = hlo_add(x->parent, HLO_COPY, x->shape, 1, &x, NULL);
  hlo_add_provenance(copy, x);
  hlo_move_before(copy, i);
  hlo_set_operand(i, operand, copy);
}

// Copies operands that a custom call with fixed layouts may overwrite, or a send forwards, unless
// they are copies without other users: otherwise that layout would be forced on all other uses. So
// does a call that overwrites a buffer in a layout of its own.
static void copy_overwritten(pass_ctx *c, hlo_computation *comp) {
  hlo_for_each_instr_safe(i, comp) {
    const hlo_aliases *v =
        i->opcode == HLO_CUSTOM_CALL ? hlo_attr_ptr(i, HLO_ATTR_OUTPUT_TO_OPERAND_ALIASING) : NULL;
    if (i->opcode == HLO_SEND) copy_operand(c, i, 0);
    if (!v || !hlo_attr_ptr(i, HLO_ATTR_OPERAND_LAYOUT_CONSTRAINTS)) continue;
    for (u32 k = 0; k < v->n; k++)
      if (v->v[k].param >= 0 && v->v[k].param < i->noperands)
        copy_operand(c, i, (u32)v->v[k].param);
  }
}

// Clones branches with other callers, because copies are inserted into them.
static void own_branches(pass_ctx *c) {
  u32 *counts = pass_caller_counts(c);
  hlo_for_each_comp(comp, c->m)
    hlo_for_each_instr(i, comp) {
      if (i->opcode != HLO_CONDITIONAL) continue;
      for (u32 k = 0, n = i->noperands - 1; k < n; k++) pass_own_called(i, k, counts, c->scratch);
    }
}

static void entry_layouts(la_solver *v, la_comp *e) {
  const hlo_attr *at = hlo_attrs_find(v->p->m->attrs, HLO_ATTR_ENTRY_COMPUTATION_LAYOUT);
  const hlo_program_shape *given = at ? at->v.p : NULL;
  bool any = any_layout(e->result);
  if (given && given->n == e->c->nparams) {
    for (u32 k = 0; k < e->c->nparams; k++) e->params[k] = given->params[k];
    e->result = given->result;
    any = any_layout(e->result);
  }
  for (u32 k = 0; k < e->c->nparams; k++) {
    any |= any_layout(e->params[k]);
    // Tiles that are asked for come along with the parameter's shape; memory spaces are placed
    // later, by what moves values between them, and stay in the module's attribute.
    const hlo_shape *own = e->c->params[k]->shape,
                    *full = filled(v->ctx, in_space_of(v->ctx, e->params[k], own, v->p->scratch),
                                   own, v->p->scratch);
    if (full != e->c->params[k]->shape) hlo_set_shape(e->c->params[k], full);
  }
  if (any) keep(e, LA_GIVEN);
}

// What the module's own entry layout leaves open becomes what was assigned.
static void settle_entry(la_solver *v, const la_comp *e) {
  hlo_module *m = v->p->m;
  const hlo_attr *at = hlo_attrs_find(m->attrs, HLO_ATTR_ENTRY_COMPUTATION_LAYOUT);
  const hlo_program_shape *given = at ? at->v.p : NULL;
  if (!given || given->n != e->c->nparams) return;
  const hlo_shape **params = HS_NEW_ARRAY(&m->arena, const hlo_shape *, given->n + 1);
  bool open = false;
  for (u32 k = 0; k < given->n; k++) {
    params[k] = filled(v->ctx, given->params[k], e->c->params[k]->shape, v->p->scratch);
    open |= params[k] != given->params[k];
  }
  hlo_program_shape *now = HS_NEW(&m->arena, hlo_program_shape);
  *now = *given;
  now->params = params;
  now->result = filled(v->ctx, given->result, e->c->root->shape, v->p->scratch);
  hlo_attr set = *at;
  set.v.p = now;
  if (open || now->result != given->result) hlo_set_module_attr(m, set);
}

static const hlo_layout *leaf_order(la_solver *v, const hlo_shape *s, hlo_ints index) {
  s = hlo_shape_at(s, index, NULL);
  return s && hlo_shape_is_array(s) ? la_order(v->ctx, s) : NULL;
}

static const hlo_shape *with_leaf(la_solver *v, const hlo_shape *s, hlo_ints index,
                                  const hlo_layout *l) {
  if (!index.n) return la_in_order(v->ctx, s, l);
  const hlo_shape **e = HS_NEW_ARRAY(v->p->scratch, const hlo_shape *, s->nelems + 1);
  memcpy(e, s->elems, s->nelems * sizeof *e);
  e[index.v[0]] = with_leaf(v, s->elems[index.v[0]], (hlo_ints){index.n - 1, index.v + 1}, l);
  return hlo_shape_tuple(v->ctx, s->nelems, e);
}

// Aliased arguments and results get equal layouts where the entry leaves one of them open.
static void join_entry(la_solver *v, la_comp *e, const hlo_shape *const *params,
                       const hlo_shape *result) {
  const hlo_attr *at = hlo_attrs_find(v->p->m->attrs, HLO_ATTR_INPUT_OUTPUT_ALIAS);
  const hlo_aliases *all = at ? at->v.p : NULL;
  for (u32 k = 0; all && k < all->n; k++) {
    const hlo_alias_entry *a = &all->v[k];
    if (a->param < 0 || a->param >= (i64)e->c->nparams) continue;
    const hlo_layout *in = leaf_order(v, e->params[a->param], a->param_index),
                     *out = leaf_order(v, e->result, a->out_index);
    bool in_open = !leaf_order(v, params[a->param], a->param_index),
         out_open = !leaf_order(v, result, a->out_index);
    if (!in || !out || in == out || in->rank != out->rank) continue;
    if (in_open) e->params[a->param] = with_leaf(v, e->params[a->param], a->param_index, out);
    else if (out_open) e->result = with_leaf(v, e->result, a->out_index, in);
    else continue;
    keep(e, LA_GIVEN);
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

static void prepare(la_solver *v, la_comp *x, hlo_computation *comp, const pass_call_sites *sites) {
  *x = (la_comp){.c = comp, .priority = LA_DEFAULT, .result = comp->root->shape};
  x->params = HS_NEW_ARRAY(v->p->scratch, const hlo_shape *, comp->nparams + 1);
  for (u32 k = 0; k < comp->nparams; k++) x->params[k] = comp->params[k]->shape;
  u32 first = sites->start[comp->id], last = sites->start[comp->id + 1];
  if (last == first + 1 && sites->sites[first].i->opcode == HLO_WHILE)
    x->loop = sites->sites[first].i;
  if (!hlo_is_fusion_comp(comp)) la_number(v, x);
}

static hs_status no_bitcasts(const hlo_module *m) {
  hlo_for_each_comp(comp, m)
    hlo_for_each_instr(i, comp)
      if (i->opcode == HLO_BITCAST && !hlo_is_fusion_comp(comp))
        return hs_fail(HS_E_PASS, "Unexpected bitcast operation seen during layout assignment: %s",
                       i->name);
  return HS_GOOD;
}

static hs_status run(pass_ctx *c) {
  hlo_module *m = c->m;
  bool cpu = pass_option_bool(c, "cpu"), reject = pass_option_bool(c, "reject_bitcasts");
  if (reject && m->nops[HLO_BITCAST]) HS_TRY(no_bitcasts(m));
  if (pass_option_bool(c, "row_major")) return row_major(c);
  if (!pass_may_rewrite(c)) return HS_GOOD;
  u32 first_copy = m->next_instr_id;
  hlo_for_each_comp(comp, m)
    if (!hlo_is_fusion_comp(comp)) copy_overwritten(c, comp);
  own_branches(c);
  u32 n;
  hlo_computation **order = pass_comp_callees_first(c, &n);
  pass_call_sites sites = pass_find_sites(c);
  la_solver v = {.p = c,
                 .ctx = m->ctx,
                 .first_copy = first_copy,
                 .comps = HS_NEW_ARRAY(c->scratch, la_comp, m->next_comp_id + 1)};
  la_comp *e = &v.comps[m->entry->id];
  for (u32 k = 0; k < n; k++) prepare(&v, &v.comps[order[k]->id], order[k], &sites);
  entry_layouts(&v, e);
  const hlo_shape *const *params = hs_arena_dup(c->scratch, e->params,
                                                m->entry->nparams * sizeof *e->params),
                         *result = e->result;
  if (!(e->said & LA_PARAMS)) params = NULL;
  hs_status s = HS_GOOD;
  for (v.round = 0; v.round < LA_ROUNDS && hs_ok(s); v.round++) {
    if (v.round && params) join_entry(&v, e, params, result);
    for (u32 k = 0; k < n && hs_ok(s); k++) {
      if (!hlo_is_fusion_comp(order[k])) solve(&v, &v.comps[order[k]->id], cpu);
      s = hs_poll();
    }
  }
  for (u32 k = 0; k < n && hs_ok(s); k++)
    if (!hlo_is_fusion_comp(order[k])) apply(&v, &v.comps[order[k]->id]);
  if (hs_ok(s)) settle_entry(&v, e);
  hs_vec_free(&v.channels);
  hs_vec_free(&v.added);
  hs_vec_free(&v.front);
  hs_vec_free(&v.back);
  return s;
}

static const pass_option_info options[] = {
    {"cpu", PASS_BOOL, "true",
     "as XLA:CPU wants it: every operand row-major, results of matrix products and convolutions "
     "too"},
    {"row_major", PASS_BOOL, "false",
     "nothing spreads: every array without a layout gets the row-major one"},
    {"reject_bitcasts", PASS_BOOL, "false",
     "a bitcast, which fixes layouts too early, is an error"},
};

const pass_info pass_layout_assignment = {
    .name = "layout-assignment",
    .summary = "assigns a layout to every array",
    .xla_source = "xla/service/layout_assignment.cc",
    .run = run,
    .again = true,
    .options = options,
    .noptions = HS_COUNT(options),
    .sample = "HloModule m, entry_computation_layout={(f32[2,3]{0,1}, "
              "f32[3,2]{1,0})->f32[2,2]{0,1}}\n"
              "ENTRY e {\n"
              "  x = f32[2,3] parameter(0)\n"
              "  y = f32[3,2] parameter(1)\n"
              "  n = f32[2,3] negate(x)\n"
              "  d = f32[2,2] dot(n, y), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n"
              "  ROOT z = f32[2,2] exponential(d)\n"
              "}\n",
};
