// util.c — see util.h.
#include "passes/run/util.h"

// The instructions of a computation by their place in its list, for tables as small as it is.
static hlo_positions number_list(const hlo_computation *c, hs_arena *a) {
  hlo_instr **v = HS_NEW_ARRAY(a, hlo_instr *, c->ninstrs + 1);
  u32 n = 0;
  hlo_for_each_instr(i, c) v[n++] = i;
  return hlo_positions_in(n, v, a);
}

// ---- inlining -----------------------------------------------------------------------------------
hlo_instr *pass_inline_at(hlo_instr *site, const hlo_computation *body, hlo_instr *const *args,
                          hs_arena *a) {
  hlo_instr **order = hlo_post_order(body, a),
            **made = HS_NEW_ARRAY(a, hlo_instr *, body->ninstrs + 1);
  hlo_positions at = hlo_positions_in(body->ninstrs, order, a);
  for (u32 t = 0; t < body->ninstrs; t++) {
    hlo_instr *i = order[t];
    if (i->opcode == HLO_PARAMETER) {
      made[t] = args[hlo_param_number(i)];
      continue;
    }
    hlo_instr **ops = HS_NEW_ARRAY(a, hlo_instr *, i->noperands + 1);
    for (u32 k = 0; k < i->noperands; k++) ops[k] = made[hlo_position_of(&at, hlo_operand(i, k))];
    hlo_instr *x = hlo_clone_instr(site->parent, i, NULL, i->noperands, ops);
    hlo_move_before(x, site);
    if (i->ctrl_preds) {
      hlo_instr **preds = HS_NEW_ARRAY(a, hlo_instr *, i->ctrl_preds->n);
      for (u32 k = 0; k < i->ctrl_preds->n; k++)
        preds[k] = made[hlo_position_of(&at, i->ctrl_preds->v[k])];
      hlo_set_ctrl_preds(x, i->ctrl_preds->n, preds);
    }
    made[t] = x;
  }
  return made[hlo_position_of(&at, body->root)];
}

hlo_instr *pass_inline_call(hlo_instr *call, const hlo_computation *body, hlo_instr *const *args,
                            hs_arena *a) {
  hlo_instr *root = pass_inline_at(call, body, args, a);
  hlo_replace(call, root);
  return root;
}

static void comes_after(hlo_instr *i, const hlo_instr_list *before) {
  u32 had = i->ctrl_preds ? i->ctrl_preds->n : 0, n = had;
  hlo_instr **v = hs_alloc((had + before->n) * sizeof *v);
  for (u32 k = 0; k < had; k++) v[k] = i->ctrl_preds->v[k];
  for (u32 k = 0; k < before->n; k++) {
    bool known = before->v[k] == i;
    for (u32 j = 0; j < n && !known; j++) known = v[j] == before->v[k];
    if (!known) v[n++] = before->v[k];
  }
  if (n > had) hlo_set_ctrl_preds(i, n, v);
  hs_free(v);
}

void pass_relay_control(hlo_instr *i) {
  const hlo_instr_list *before = i->ctrl_preds;
  if (!before) return;
  hlo_for_each_use(u, i) comes_after(u->user, before);
  if (!i->nuses && i->nctrl_succs) {
    hlo_for_each_instr(s, i->parent) {
      bool after = false;
      for (u32 k = 0; s->ctrl_preds && k < s->ctrl_preds->n; k++) after |= s->ctrl_preds->v[k] == i;
      if (after) comes_after(s, before);
    }
  }
  hlo_set_ctrl_preds(i, 0, NULL);
}

void pass_drop_control(hlo_instr *i) {
  static const hlo_instr_list none = {0};
  const hlo_instr_list *before = i->ctrl_preds ? i->ctrl_preds : &none;
  for (hlo_instr *s = i->nctrl_succs ? i->parent->first : NULL; s; s = s->next) {
    u32 n = 0;
    if (!s->ctrl_preds) continue;
    hlo_instr **v = hs_alloc((s->ctrl_preds->n + 1) * sizeof *v);
    for (u32 k = 0; k < s->ctrl_preds->n; k++)
      if (s->ctrl_preds->v[k] != i) v[n++] = s->ctrl_preds->v[k];
    if (n < s->ctrl_preds->n) {
      hlo_set_ctrl_preds(s, n, v);
      comes_after(s, before);
    }
    hs_free(v);
  }
  if (i->ctrl_preds) hlo_set_ctrl_preds(i, 0, NULL);
}

void pass_called_all(const hlo_instr *i, hs_arena *a, hlo_computation ***v, u32 *n) {
  *n = hlo_op_has(i->opcode, HLO_F_CALLS) ? hlo_called(i, NULL, 0) : 0;
  *v = *n ? HS_NEW_ARRAY(a, hlo_computation *, *n) : NULL;
  if (*n) hlo_called(i, *v, *n);
}

const hs_str *pass_frontend(const hlo_instr *i, const char *key) {
  const hlo_frontend *f = hlo_attr_ptr(i, HLO_ATTR_FRONTEND_ATTRIBUTES);
  for (u32 k = 0; f && k < f->n; k++)
    if (hs_str_eq(f->v[k].key, hs_str_of(key))) return &f->v[k].value;
  return NULL;
}

bool pass_frontend_true(const hlo_instr *i, const char *key) {
  static const char *const words[] = {"true", "1", "yes"};
  const hs_str *v = pass_frontend(i, key);
  for (size_t k = 0; v && k < HS_COUNT(words); k++)
    if (v->n == strlen(words[k]) && strncasecmp(v->p, words[k], v->n) == 0) return true;
  return false;
}

bool pass_loop_is_pinned(const hlo_instr *i) {
  static const char *const keys[] = {"xla_disable_while_loop_dce", "xla.disable_while_loop_dce",
                                     "xla_preserve_tuple_indices", "xla.preserve_tuple_indices"};
  for (size_t k = 0; k < HS_COUNT(keys); k++)
    if (pass_frontend_true(i, keys[k])) return true;
  return false;
}

hlo_computation *pass_own_callee(hlo_instr *caller, hlo_attr_id which, u32 *counts) {
  hlo_computation *c = hlo_attr_comp(caller, which);
  // newer than the counts: made for this caller
  if (c->id >= counts[0] || counts[1 + c->id] <= 1) return c;
  counts[1 + c->id]--;
  hlo_computation *mine = hlo_clone_computation(c, c->name, NULL);
  hlo_set_attr_comp(caller, which, mine);
  return mine;
}

// Points number `which` of i's called computations (hlo_called's order) at `to`.
void pass_set_called(hlo_instr *i, u32 which, hlo_computation *to) {
  const hlo_attrs *attrs = i->attrs;
  u32 at = 0;
  for (u32 k = 0; attrs && k < attrs->n; k++) {
    if (hlo_attr_kind_of(attrs->v[k].id) == HLO_AK_COMP) {
      if (at++ == which) {
        hlo_set_attr_comp(i, attrs->v[k].id, to);
        return;
      }
    } else if (hlo_attr_kind_of(attrs->v[k].id) == HLO_AK_COMPS) {
      u32 n = attrs->v[k].v.comps.n;
      if (which < at + n) {
        hlo_computation **v = HS_NEW_ARRAY(&i->parent->module->arena, hlo_computation *, n);
        memcpy(v, attrs->v[k].v.comps.v, n * sizeof *v);
        v[which - at] = to;
        hlo_set_attr(i, (hlo_attr){.id = attrs->v[k].id, .v.comps = {n, v}});
        return;
      }
      at += n;
    }
  }
}

hlo_computation *pass_own_called(hlo_instr *i, u32 which, u32 *counts, hs_arena *a) {
  hlo_computation **v;
  u32 n;
  pass_called_all(i, a, &v, &n);
  hlo_computation *c = v[which];
  if (c->id >= counts[0] || counts[1 + c->id] <= 1) return c;
  counts[1 + c->id]--;
  hlo_computation *mine = hlo_clone_computation(c, c->name, NULL);
  pass_set_called(i, which, mine);
  return mine;
}

// ---- structure ----------------------------------------------------------------------------------
static bool skip_calls(hlo_attr_id id) {
  hlo_attr_kind k = hlo_attr_kind_of(id);
  return hlo_attr_is_annotation(id) || k == HLO_AK_COMP || k == HLO_AK_COMPS;
}
static bool skip_sharding(hlo_attr_id id) { return id == HLO_ATTR_SHARDING || skip_calls(id); }

// Annotations that make two instructions different: configurations, and shardings where both have
// one.
static bool annotated_alike(const hlo_instr *a, const hlo_instr *b) {
  const hlo_backend_config *x = hlo_attr_ptr(a, HLO_ATTR_BACKEND_CONFIG),
                           *y = hlo_attr_ptr(b, HLO_ATTR_BACKEND_CONFIG);
  if (!hs_str_eq(x ? x->text : (hs_str){0}, y ? y->text : (hs_str){0})) return false;
  const hlo_attr *s = hlo_attr_get(a, HLO_ATTR_SHARDING), *t = hlo_attr_get(b, HLO_ATTR_SHARDING);
  if (s && t && !hlo_attr_equal(s, t)) return false;
  const hs_str *u = pass_frontend(a, "xla.sdy.sharding"), *v = pass_frontend(b, "xla.sdy.sharding");
  return !u || !v || hs_str_eq(*u, *v);
}

u64 pass_attrs_hash(const hlo_instr *i, u64 seed, u64 *memo) {
  u64 h = hlo_attrs_hash(i->attrs, seed, skip_sharding);
  if (!hlo_op_has(i->opcode, HLO_F_CALLS)) return h;
  hlo_computation *v[16];
  u32 n = hlo_called(i, v, 16);
  for (u32 k = 0; k < HS_MIN(n, 16u); k++) h = hs_mix(h, pass_comp_hash(v[k], memo));
  return hs_mix(h, n);
}

u64 pass_comp_hash(hlo_computation *c, u64 *memo) {
  if (memo && memo[c->id]) return memo[c->id];
  hs_arena a = {0};
  u32 n = c->ninstrs;
  hlo_instr **order = hlo_post_order(c, &a);
  hlo_positions at = hlo_positions_in(n, order, &a);
  u64 *h = hs_arena_alloc(&a, (n + 1) * sizeof *h);
  for (u32 t = 0; t < n; t++) {
    hlo_instr *i = order[t];
    u64 x = hs_mix(i->opcode, i->shape->logical->hash);
    for (u32 k = 0; k < i->noperands; k++)
      x = hs_mix(x, h[hlo_position_of(&at, hlo_operand(i, k))]);
    h[t] = pass_attrs_hash(i, x, memo);
  }
  u64 out = hs_mix(h[hlo_position_of(&at, c->root)], n) | 1;
  hs_arena_free(&a);
  if (memo) memo[c->id] = out;
  return out;
}

static bool calls_equal(const hlo_instr *a, const hlo_instr *b, bool layouts, hs_arena *scratch) {
  if (!hlo_op_has(a->opcode, HLO_F_CALLS)) return true;
  hlo_computation **va, **vb;
  u32 na, nb;
  pass_called_all(a, scratch, &va, &na);
  pass_called_all(b, scratch, &vb, &nb);
  if (na != nb) return false;
  for (u32 k = 0; k < na; k++)
    if (!pass_comp_equal(va[k], vb[k], layouts, scratch)) return false;
  return true;
}

bool pass_attrs_equal(const hlo_instr *a, const hlo_instr *b, bool layouts, hs_arena *scratch) {
  return (a->attrs == b->attrs || hlo_attrs_equal(a->attrs, b->attrs, skip_calls)) &&
         calls_equal(a, b, layouts, scratch);
}

bool pass_attrs_alike(const hlo_instr *a, const hlo_instr *b, bool layouts, hs_arena *scratch) {
  return (a->attrs == b->attrs ||
          (hlo_attrs_equal(a->attrs, b->attrs, skip_sharding) && annotated_alike(a, b))) &&
         calls_equal(a, b, layouts, scratch);
}

bool pass_comp_equal(const hlo_computation *a, const hlo_computation *b, bool layouts,
                     hs_arena *scratch) {
  if (a == b) return true;
  if (a->ninstrs != b->ninstrs || a->nparams != b->nparams ||
      !hs_str_eq(a->execution_thread, b->execution_thread))
    return false;
  hlo_positions at = number_list(a, scratch);
  u32 *twin = HS_NEW_ARRAY(scratch, u32, a->ninstrs + 1);  // number in a -> id in b, plus 1
  for (u32 p = 0; p < a->nparams; p++) {
    const hlo_shape *s = a->params[p]->shape, *t = b->params[p]->shape;
    if (s != t && (layouts || s->logical != t->logical)) return false;
    twin[hlo_position_of(&at, a->params[p])] = b->params[p]->id + 1;
  }
  // Walks both from the root in lock step; what the root does not reach is side-effecting and
  // compared by count only.
  HS_VEC(const hlo_instr *) work = {0};
  hs_vec_push(&work, a->root);
  hs_vec_push(&work, b->root);
  bool same = true;
  u32 met = 0;
  while (same && work.n) {
    const hlo_instr *y = hs_vec_pop(&work), *x = hs_vec_pop(&work);
    u32 *met_as = &twin[hlo_position_of(&at, x)];
    if (*met_as) {
      same = *met_as == y->id + 1;
      continue;
    }
    *met_as = y->id + 1;
    met++;
    same = x->opcode == y->opcode && x->noperands == y->noperands &&
           (x->shape == y->shape || (!layouts && x->shape->logical == y->shape->logical)) &&
           pass_attrs_equal(x, y, layouts, scratch);
    for (u32 k = 0; same && k < x->noperands; k++) {
      hs_vec_push(&work, hlo_operand(x, k));
      hs_vec_push(&work, hlo_operand(y, k));
    }
  }
  hs_vec_free(&work);
  if (!same) return false;
  if (met + a->nparams >= a->ninstrs) return true;
  hlo_for_each_instr(i, a)
    if (!twin[hlo_position_of(&at, i)] && hlo_has_side_effect(i)) return false;
  return true;
}

// ---- memory -------------------------------------------------------------------------------------
u32 pass_dim_groups(const hlo_shape *from, const hlo_shape *to, pass_dim_group *starts) {
  u32 n = 0, f = 0, t = 0;
  if (from->elements == 0 || to->elements == 0) return 0;
  while (f < from->rank || t < to->rank) {
    starts[n++] = (pass_dim_group){f, t};
    i64 pf = f < from->rank ? from->dims[f++] : 1, pt = t < to->rank ? to->dims[t++] : 1;
    while (pf != pt) {
      if (pf < pt && f < from->rank) pf *= from->dims[f++];
      else if (t < to->rank) pt *= to->dims[t++];
      else return 0;
    }
  }
  starts[n] = (pass_dim_group){f, t};
  return n;
}

bool pass_plain_layout(const hlo_shape *s) {
  const hlo_layout *l = s->layout;
  return l && l->ntiles == 0 && l->element_bits == 0 && l->nsplits == 0 && l->memory_space == 0;
}

u32 pass_physical_order(const hlo_shape *s, u32 *order) {
  u32 n = 0;
  for (u32 k = s->rank; k-- > 0;)
    if (s->dims[s->layout->minor_to_major[k]] != 1) order[n++] = (u32)s->layout->minor_to_major[k];
  return n;
}

bool pass_reshape_is_bitcast(const hlo_shape *from, const hlo_shape *to) {
  if (!pass_plain_layout(from) || !pass_plain_layout(to) || from->dtype != to->dtype ||
      from->elements == 0)
    return false;
  pass_dim_group g[2 * HLO_MAX_RANK + 2];
  u32 n = pass_dim_groups(from, to, g), fo[HLO_MAX_RANK], ot[HLO_MAX_RANK];
  u32 nf = pass_physical_order(from, fo), nt = pass_physical_order(to, ot), f = 0, t = 0;
  while (f < nf && t < nt) {
    u32 k = 0;
    while (k < n && !(fo[f] >= g[k].from && fo[f] < g[k + 1].from)) k++;
    if (k == n) return false;
    for (u32 d = g[k].from; d < g[k + 1].from; d++)
      if (from->dims[d] != 1 && (f == nf || fo[f++] != d)) return false;
    for (u32 d = g[k].to; d < g[k + 1].to; d++)
      if (to->dims[d] != 1 && (t == nt || ot[t++] != d)) return false;
  }
  return f == nf && t == nt;
}

// ---- constants and small makers -----------------------------------------------------------------
const hlo_literal *pass_splat_constant(const hlo_instr *i) {
  while (i->opcode == HLO_BROADCAST || i->opcode == HLO_RESHAPE || i->opcode == HLO_COPY)
    i = hlo_operand(i, 0);
  const hlo_literal *l = i->opcode == HLO_CONSTANT ? hlo_constant_value(i) : NULL;
  if (!l || l->elided || !hlo_shape_is_array(l->shape)) return NULL;
  return l->shape->elements == 1 || hlo_literal_is_splat(l) ? l : NULL;
}

bool pass_is_splat_f64(const hlo_instr *i, double v) {
  const hlo_literal *l = pass_splat_constant(i);
  return l && l->shape->elements > 0 && hlo_literal_f64(l, 0) == v;
}

bool pass_const_i64(const hlo_instr *i, i64 *v) {
  const hlo_literal *l = i->opcode == HLO_CONSTANT ? hlo_constant_value(i) : NULL;
  if (!l || l->elided || !hlo_shape_is_array(l->shape) || l->shape->elements != 1) return false;
  if (!hlo_dtype_is_integer(l->shape->dtype) && l->shape->dtype != HLO_PRED) return false;
  *v = hlo_literal_i64(l, 0);
  return true;
}

hlo_instr *pass_element(hlo_instr *tuple, i64 k) {
  if (tuple->opcode == HLO_TUPLE && k >= 0 && (u32)k < tuple->noperands)
    return hlo_operand(tuple, (u32)k);
  return hlo_add_gte(tuple, k);
}

const hlo_shape *pass_shape_as(const hlo_instr *like, hlo_dtype t) {
  return hlo_shape_with_dtype(like->parent->module->ctx, like->shape, t);
}

hlo_instr *pass_add_param(hlo_computation *c, i64 number, const hlo_shape *s) {
  return hlo_add_parameter(c, number, s, NULL);
}

hlo_computation *pass_element_of(hlo_computation *f, u32 k) {
  if (!hlo_shape_is_tuple(f->root->shape)) return f;
  char *name = hs_format("%s.clone", f->name);
  hlo_computation *g = hlo_clone_computation(f, name, NULL);
  hs_free(name);
  hlo_instr *root = g->root;
  hlo_set_root(g, pass_element(root, k));
  hlo_remove_dead(root);
  return g;
}
