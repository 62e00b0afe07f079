// rewrite.c — helpers of several passes: inlining, control dependencies, unsharing of called
// computations, frontend attributes, constants, and small constructors. All edits go through the
// edit API (core/ir), so use lists, journal and provenance stay consistent.
#include "passes/run/rewrite.h"

// ---- inlining -----------------------------------------------------------------------------------
hlo_instr *pass_inline_at(hlo_instr *site, const hlo_computation *body, hlo_instr *const *args,
                          hs_arena *a) {
  hlo_instr **order = hlo_post_order(body, a),
            **copies = HS_NEW_ARRAY(a, hlo_instr *, body->ninstrs + 1);
  hlo_positions at = hlo_positions_in(body->ninstrs, order, a);
  for (u32 t = 0; t < body->ninstrs; t++) {
    hlo_instr *i = order[t];
    if (i->opcode == HLO_PARAMETER) {
      copies[t] = args[hlo_param_number(i)];
      continue;
    }
    hlo_instr **ops = HS_NEW_ARRAY(a, hlo_instr *, i->noperands + 1);
    for (u32 k = 0; k < i->noperands; k++) ops[k] = copies[hlo_position_of(&at, hlo_operand(i, k))];
    hlo_instr *x = hlo_clone_instr(site->parent, i, NULL, i->noperands, ops);
    hlo_move_before(x, site);
    if (i->ctrl_preds) {
      hlo_instr **preds = HS_NEW_ARRAY(a, hlo_instr *, i->ctrl_preds->n);
      for (u32 k = 0; k < i->ctrl_preds->n; k++)
        preds[k] = copies[hlo_position_of(&at, i->ctrl_preds->v[k])];
      hlo_set_ctrl_preds(x, i->ctrl_preds->n, preds);
    }
    copies[t] = x;
  }
  return copies[hlo_position_of(&at, body->root)];
}

hlo_instr *pass_inline_call(hlo_instr *call, const hlo_computation *body, hlo_instr *const *args,
                            hs_arena *a) {
  hlo_instr *root = pass_inline_at(call, body, args, a);
  hlo_replace(call, root);
  return root;
}

static void add_ctrl_preds(hlo_instr *i, const hlo_instr_list *before) {
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
  hlo_for_each_use(u, i) add_ctrl_preds(u->user, before);
  if (!i->nuses && i->nctrl_succs) {
    hlo_for_each_instr(s, i->parent) {
      bool after = false;
      for (u32 k = 0; s->ctrl_preds && k < s->ctrl_preds->n; k++) after |= s->ctrl_preds->v[k] == i;
      if (after) add_ctrl_preds(s, before);
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
      add_ctrl_preds(s, before);
    }
    hs_free(v);
  }
  if (i->ctrl_preds) hlo_set_ctrl_preds(i, 0, NULL);
}

void pass_called_all(const hlo_instr *i, hs_arena *a, hlo_computation ***v, u32 *n) {
  *n = hlo_op_has(i->opcode, HLO_F_CALLS) ? hlo_ncalled(i) : 0;
  *v = *n ? HS_NEW_ARRAY(a, hlo_computation *, *n) : NULL;
  for (u32 k = 0; k < *n; k++) (*v)[k] = hlo_called(i, k);
}

const hs_str *pass_frontend(const hlo_instr *i, const char *key) {
  return hlo_frontend_find(hlo_attr_get(i, HLO_ATTR_FRONTEND_ATTRIBUTES), key);
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
  // newer than the counts: created for this caller
  if (c->id >= counts[0] || counts[1 + c->id] <= 1) return c;
  counts[1 + c->id]--;
  hlo_computation *mine = hlo_clone_computation(c, c->name, NULL);
  hlo_set_attr_comp(caller, which, mine);
  return mine;
}

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
  char *name = hs_format("%s.clone", c->name);
  hlo_computation *mine = hlo_clone_computation(c, name, NULL);
  hs_free(name);
  pass_set_called(i, which, mine);
  return mine;
}

// ---- constants and constructors -----------------------------------------------------------------
bool pass_const_i64(const hlo_instr *i, i64 *v) {
  const hlo_literal *l = i->opcode == HLO_CONSTANT ? hlo_constant_value(i) : NULL;
  if (!l || l->elided || !hlo_shape_is_array(l->shape) || l->shape->elements != 1) return false;
  if (!hlo_dtype_is_integer(l->shape->dtype) && l->shape->dtype != HLO_PRED) return false;
  *v = hlo_literal_i64(l, 0);
  return true;
}

static bool has_one_user(const hlo_instr *i) {
  return i->opcode == HLO_SEND || i->opcode == HLO_RECV;
}
static bool is_under_way(const hlo_instr *i) {
  return has_one_user(i) || i->opcode == HLO_ASYNC_START || i->opcode == HLO_ASYNC_UPDATE;
}
bool pass_may_forward(const hlo_instr *gte) {
  const hlo_instr *t = hlo_operand(gte, 0),
                  *x = hlo_operand(t, (u32)hlo_attr_int(gte, HLO_ATTR_INDEX, 0));
  if (pass_hides_size(x)) return false;
  if (is_under_way(x) && hlo_is_root(gte) && gte->parent == gte->parent->module->entry)
    return false;
  return !has_one_user(x) || (x->nuses == 1 && t->nuses == 1 && gte->nuses <= 1 &&
                              !hlo_is_root(t) && !hlo_is_controlled(t));
}

hlo_instr *pass_element(hlo_instr *tuple, i64 k) {
  if (tuple->opcode == HLO_TUPLE && k >= 0 && (u32)k < tuple->noperands) {
    hlo_instr *x = hlo_operand(tuple, (u32)k);
    if (pass_hides_size(x)) return hlo_add_gte(tuple, k);
    if (!has_one_user(x) || (tuple->nuses <= 1 && !hlo_is_root(tuple))) return x;
  }
  return hlo_add_gte(tuple, k);
}

// Does one type call a dimension dynamic that the other does not?
static bool states_more(const hlo_shape *s, const hlo_shape *than) {
  bool more = false;
  for (u32 d = 0; s->dynamic && d < s->rank && s->rank == than->rank; d++)
    more |= s->dynamic[d] && !hlo_dim_is_dynamic(than, d);
  return more;
}
// Calls hand sizes on as they come, whatever the types there say.
static const hlo_instr *called_root(const hlo_instr *x) {
  const hlo_computation *f =
      x->opcode == HLO_CALL || x->opcode == HLO_FUSION ? hlo_fusion_comp(x) : NULL;
  return f ? f->root : NULL;
}

bool pass_hides_size(const hlo_instr *x) {
  enum { DEEP = 64 };
  const hlo_module *m = x->parent->module;
  const hlo_shape *stated = x->shape;
  for (u32 depth = 0; hlo_shape_is_array(stated); depth++) {
    const hlo_instr *r = called_root(x);
    if (x->opcode == HLO_SET_DIMENSION_SIZE) {
      if (!hlo_dim_is_dynamic(stated, (u32)hlo_attr_ints(x, HLO_ATTR_DIMENSIONS).v[0])) return true;
      r = hlo_operand(x, 0);
    } else if (x->opcode == HLO_PARAMETER && x->parent != m->entry) {
      return m->nops[HLO_SET_DIMENSION_SIZE] != 0;
    } else if (!r) {
      return false;
    }
    if (states_more(r->shape, stated) || depth == DEEP) return true;
    x = r;
  }
  return false;
}
bool pass_reads_hidden(const hlo_instr *i) {
  for (u32 k = 0; k < i->noperands; k++)
    if (pass_hides_size(hlo_operand(i, k))) return true;
  return false;
}
bool pass_is_cut(const hlo_instr *x) {
  return pass_hides_size(x) || hlo_shape_is_dynamic(x->shape);
}
bool pass_reads_cut(const hlo_instr *i) {
  for (u32 k = 0; k < i->noperands; k++)
    if (pass_is_cut(hlo_operand(i, k))) return true;
  return false;
}

hlo_instr *pass_as_stated(hlo_instr *now, const hlo_shape *stated) {
  if (hlo_shape_compatible(now->shape, stated)) return now;
  if (!hlo_shape_is_tuple(stated))
    return now->shape->dtype == stated->dtype ? now : hlo_build_convert(now, stated->dtype);
  hlo_instr **parts = hs_calloc(stated->nelems + 1u, sizeof *parts);
  for (u32 k = 0; k < stated->nelems; k++)
    parts[k] = pass_as_stated(pass_element(now, k), stated->elems[k]);
  hlo_instr *r = hlo_add_tuple(now->parent, stated->nelems, parts);
  hs_free(parts);
  if (!now->nuses) hlo_remove_dead(now);
  return r;
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

void pass_set_tuple_shape(hlo_instr *i, const hlo_shape *s) {
  if (i->shape->logical != s->logical && hlo_attr_get(i, HLO_ATTR_SHARDING))
    hlo_remove_attr(i, HLO_ATTR_SHARDING);
  hlo_set_shape(i, s);
}
