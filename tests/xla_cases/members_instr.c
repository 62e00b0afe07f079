// members_instr.c — members of instructions and of what they carry: metadata, frontend
// attributes, sharding, the original value. members.def names each with XLA's method name.
#include "core/eval/world.h"
#include "core/ir/async.h"
#include "core/text/print.h"
#include "tests/xla_cases/internal.h"

MEMBER(self) {
  (void)v, (void)e;
  return self;
}
MEMBER(i_opcode) {
  (void)v, (void)e;
  return xc_number(self.i->opcode);
}
MEMBER(i_name) {
  (void)v, (void)e;
  return xc_text(self.i->name);
}
MEMBER(i_shape) {
  (void)v, (void)e;
  return xc_shape_value(self.i->shape);
}
MEMBER(i_operand) {
  i64 k = xc_arg(v, e, 0, 0);
  return k >= 0 && k < (i64)self.i->noperands ? xc_instr(hlo_operand(self.i, (u32)k))
                                              : xc_instr(NULL);
}
MEMBER(i_operands) {
  (void)e;
  xc_value *l = HS_NEW_ARRAY(&v->a, xc_value, self.i->noperands + 1);
  for (u32 k = 0; k < self.i->noperands; k++) l[k] = xc_instr(hlo_operand(self.i, k));
  return xc_list(self.i->noperands, l);
}
MEMBER(i_operand_count) {
  (void)v, (void)e;
  return xc_number(self.i->noperands);
}
MEMBER(i_users) {
  (void)e;
  xc_value *l = HS_NEW_ARRAY(&v->a, xc_value, self.i->nuses + 1);
  u32 n = 0;
  hlo_for_each_use(u, self.i) {
    bool seen = false;
    for (u32 k = 0; k < n; k++) seen |= l[k].i == u->user;
    if (!seen) l[n++] = xc_instr(u->user);
  }
  return xc_list(n, l);
}
MEMBER(i_user_count) {
  (void)v, (void)e;
  return xc_number(xc_users(self.i));
}
MEMBER(i_param) {
  (void)v, (void)e;
  return xc_number((double)hlo_param_number(self.i));
}
MEMBER(i_is_root) {
  (void)v, (void)e;
  return xc_number(hlo_is_root(self.i));
}
MEMBER(i_parent) {
  (void)v, (void)e;
  return xc_comp_value(self.i->parent);
}
MEMBER(i_slice) {
  const hlo_slices *s = hlo_attr_ptr(self.i, HLO_ATTR_SLICE);
  if (!s) return xc_unknown();
  xc_value *l = HS_NEW_ARRAY(&v->a, xc_value, s->n + 1);
  char c = e->name[6];  // slice_starts, slice_limits, slice_strides
  for (u32 k = 0; k < s->n; k++)
    l[k] = xc_number((double)(c == 'l'            ? s->v[k].limit
                              : e->name[8] == 'a' ? s->v[k].start
                                                  : s->v[k].stride));
  return e->n ? xc_at(xc_list(s->n, l), xc_arg(v, e, 0, 0)) : xc_list(s->n, l);
}
MEMBER(i_fused_root) {
  (void)v, (void)e;
  hlo_computation *c = hlo_fusion_comp(self.i);
  return xc_instr(c ? c->root : NULL);
}
MEMBER(i_fused_comp) {
  (void)v, (void)e;
  return xc_comp_value(hlo_fusion_comp(self.i));
}
MEMBER(i_fused_count) {
  (void)v, (void)e;
  hlo_computation *c = hlo_fusion_comp(self.i);
  return c ? xc_number(c->ninstrs) : xc_unknown();
}
MEMBER(i_called) {
  (void)e;
  return xc_called_list(v, self.i);
}
MEMBER(i_branch) { return xc_at(xc_called_list(v, self.i), xc_arg(v, e, 0, 0)); }
MEMBER(i_branch1) {
  (void)e;
  return xc_at(xc_called_list(v, self.i), 1);
}
MEMBER(i_wrapped) {
  (void)v, (void)e;
  hlo_computation *c = hlo_async_wrapped(self.i);
  return xc_instr(c ? c->root : NULL);
}
MEMBER(i_has_to_apply) {
  (void)v, (void)e;
  return xc_number(hlo_attr_comp(self.i, HLO_ATTR_TO_APPLY) != NULL);
}
MEMBER(i_literal) {
  (void)v, (void)e;
  const hlo_literal *l = hlo_constant_value(self.i);
  return l && !l->elided ? (xc_value){.kind = V_LITERAL, .p = l} : xc_unknown();
}
MEMBER(i_metadata) {
  (void)v, (void)e;
  return (xc_value){.kind = V_META, .i = self.i};
}
MEMBER(i_frontend) {
  (void)v, (void)e;
  return (xc_value){.kind = V_ATTRS, .i = self.i};
}
MEMBER(i_has_frontend) {
  (void)v, (void)e;
  const hlo_frontend *f = hlo_attr_ptr(self.i, HLO_ATTR_FRONTEND_ATTRIBUTES);
  return xc_number(f && f->n);
}
MEMBER(i_origin) {
  (void)v, (void)e;
  return hlo_attr_get(self.i, HLO_ATTR_ORIGIN) ? (xc_value){.kind = V_ORIGIN, .i = self.i}
                                               : (xc_value){.kind = V_NULL};
}
MEMBER(i_ctrl_preds) {
  (void)e;
  const hlo_instr_list *l = self.i->ctrl_preds;
  return xc_instrs_value(v, l ? l->n : 0, l ? l->v : NULL);
}
MEMBER(i_ctrl_succs) {
  (void)e;
  HS_VEC(hlo_instr *) s = {0};
  hlo_for_each_instr(i, self.i->parent)
    for (u32 k = 0; i->ctrl_preds && k < i->ctrl_preds->n; k++)
      if (i->ctrl_preds->v[k] == self.i) hs_vec_push(&s, i);
  xc_value l = xc_instrs_value(v, (u32)s.n, s.v);
  hs_vec_free(&s);
  return l;
}
MEMBER(i_has_ctrl) {
  (void)v, (void)e;
  return xc_number((self.i->ctrl_preds && self.i->ctrl_preds->n) || self.i->nctrl_succs);
}
MEMBER(i_has_sharding) {
  (void)v, (void)e;
  return xc_number(hlo_attr_get(self.i, HLO_ATTR_SHARDING) != NULL);
}
// The one device that all of it is on.
static i64 xc_device(const hlo_sharding *s) {
  if (s->type != HLO_SH_TUPLE) return s->type == HLO_SH_MAXIMAL ? s->device : -1;
  i64 d = s->nchildren ? xc_device(s->children[0]) : -1;
  for (u32 k = 1; k < s->nchildren; k++)
    if (xc_device(s->children[k]) != d) return -1;
  return d;
}
MEMBER(i_device) {
  (void)v, (void)e;
  const hlo_sharding *s = hlo_attr_ptr(self.i, HLO_ATTR_SHARDING);
  i64 d = s ? xc_device(s) : -1;
  return d >= 0 ? (xc_value){.kind = V_NUMBER, .number = (double)d, .optional = true}
                : (xc_value){.kind = V_NULL};
}
MEMBER(i_window) {
  (void)e;
  const hlo_window *w = hlo_attr_ptr(self.i, HLO_ATTR_WINDOW);
  if (!w) return xc_unknown();
  xc_value *l = HS_NEW_ARRAY(&v->a, xc_value, w->n + 1);
  for (u32 k = 0; k < w->n; k++) l[k] = (xc_value){.kind = V_WINDOW_DIM, .p = &w->v[k]};
  return xc_list(w->n, l);
}
MEMBER(i_padding) {
  (void)e;
  const hlo_padding *w = hlo_attr_ptr(self.i, HLO_ATTR_PADDING);
  if (!w) return xc_unknown();
  xc_value *l = HS_NEW_ARRAY(&v->a, xc_value, w->n + 1);
  for (u32 k = 0; k < w->n; k++) l[k] = (xc_value){.kind = V_PAD_DIM, .p = &w->v[k]};
  return xc_list(w->n, l);
}
MEMBER(i_backend_config) {
  (void)e;
  const hlo_backend_config *b = hlo_attr_ptr(self.i, HLO_ATTR_BACKEND_CONFIG);
  return (xc_value){.kind = V_JSON, .s = b ? hs_arena_strndup(&v->a, b->text.p, b->text.n) : ""};
}
MEMBER(i_concat_dim) {
  (void)v, (void)e;
  hlo_ints d = hlo_attr_ints(self.i, HLO_ATTR_DIMENSIONS);
  return d.n ? xc_number((double)d.v[0]) : xc_unknown();
}

// Numbers that tell instructions apart; one of the module before the pass has that of what it is
// now.
MEMBER(i_unique_id) {
  (void)e;
  const hlo_instr *now =
      v->before && v->twin && self.i->parent->module == v->before ? v->twin[self.i->id] : self.i;
  return xc_number(now->id);
}
MEMBER(i_is_dead) {
  (void)v, (void)e;
  return xc_number(self.i->nuses == 0 && !hlo_is_root(self.i) &&
                   !(self.i->ctrl_preds && self.i->ctrl_preds->n) && !self.i->nctrl_succs);
}
MEMBER(i_is_fused) {
  (void)v, (void)e;
  return xc_number(hlo_is_fusion_comp(self.i->parent));
}
MEMBER(i_is_elementwise) {
  (void)v, (void)e;
  return xc_number(hlo_op_has(self.i->opcode, HLO_F_ELEMENTWISE));
}
MEMBER(i_has_effect) {
  (void)v, (void)e;
  return xc_number(hlo_has_side_effect(self.i));
}
MEMBER(i_is_opcode) {  // IsConstant(), IsWhile()...: named after the opcode
  (void)v;
  return xc_opcode(e->name + 2) == HLO_OP_INVALID
             ? xc_unknown()
             : xc_number(self.i->opcode == xc_opcode(e->name + 2));
}
MEMBER(i_is_fusion) {  // IsLoopFusion(), IsInputFusion()..., IsMultiOutputFusion()
  (void)v;
  char kind[32] = "k";
  size_t n = strlen(e->name) - strlen("IsFusion");
  if (self.i->opcode != HLO_FUSION) return xc_number(0);
  if (strcmp(e->name, "IsMultiOutputFusion") == 0)
    return xc_number(hlo_fusion_comp(self.i)->root->opcode == HLO_TUPLE);
  snprintf(kind + 1, sizeof kind - 1, "%.*s", (int)HS_MIN(n, sizeof kind - 2), e->name + 2);
  i64 k = hlo_enum_find(HLO_AK_ENUM_FUSION_KIND, hs_str_of(kind), false);
  return k < 0 ? xc_unknown() : xc_number(hlo_attr_int(self.i, HLO_ATTR_KIND, -1) == k);
}
MEMBER(i_is_custom_call) {  // IsCustomCall("a"), IsCustomCall({"a", "b"})
  xc_value x = e->n ? xc_eval(v, e->args[0]) : xc_unknown();
  hs_str target = hlo_attr_str(self.i, HLO_ATTR_CUSTOM_CALL_TARGET);
  if (x.kind != V_STRING && x.kind != V_LIST) return xc_unknown();
  bool hit = x.kind == V_STRING && hs_str_eq(hs_str_of(x.s), target);
  for (u32 k = 0; x.kind == V_LIST && k < x.n; k++) {
    if (x.v[k].kind != V_STRING) return xc_unknown();
    hit |= hs_str_eq(hs_str_of(x.v[k].s), target);
  }
  return xc_number(self.i->opcode == HLO_CUSTOM_CALL && hit);
}
MEMBER(i_fused_param) {
  hlo_computation *c = hlo_fusion_comp(self.i);
  i64 k = xc_arg(v, e, 0, 0);
  return xc_instr(c && k >= 0 && k < (i64)c->nparams ? c->params[k] : NULL);
}
MEMBER(i_fused_params) {
  (void)e;
  hlo_computation *c = hlo_fusion_comp(self.i);
  return c ? xc_instrs_value(v, c->nparams, c->params) : xc_unknown();
}
MEMBER(i_fused_instrs) {
  (void)e;
  hlo_computation *c = hlo_fusion_comp(self.i);
  return c ? xc_instructions(v, c) : xc_unknown();
}
MEMBER(i_wrapped_comp) {
  (void)v, (void)e;
  return xc_comp_value(hlo_async_wrapped(self.i));
}
MEMBER(i_wrapped_opcode) {
  (void)v, (void)e;
  hlo_computation *c = hlo_async_wrapped(self.i);
  return c ? xc_number(c->root->opcode) : xc_unknown();
}
MEMBER(i_thread) {
  (void)e;
  hlo_computation *c = hlo_async_wrapped(self.i);
  return !c                      ? xc_unknown()
         : c->execution_thread.n ? xc_str(v, c->execution_thread)
                                 : xc_text("main");
}
MEMBER(i_first_called) {
  (void)e;
  return xc_at(xc_called_list(v, self.i), 0);
}
MEMBER(i_branch_count) {
  (void)e;
  return xc_number(xc_called_list(v, self.i).n);
}
MEMBER(i_operand_index) {
  xc_value x = e->n ? xc_eval(v, e->args[0]) : xc_unknown();
  for (u32 k = 0; x.kind == V_INSTR && k < self.i->noperands; k++)
    if (hlo_operand(self.i, k) == x.i) return xc_number(k);
  return xc_unknown();
}
MEMBER(i_is_user_of) {
  xc_value x = e->n ? xc_eval(v, e->args[0]) : xc_unknown();
  bool uses = false;
  for (u32 k = 0; x.kind == V_INSTR && k < self.i->noperands; k++)
    uses |= hlo_operand(self.i, k) == x.i;
  return x.kind == V_INSTR ? xc_number(uses) : xc_unknown();
}
MEMBER(i_constant_operand) {
  (void)v, (void)e;
  bool any = false;
  for (u32 k = 0; k < self.i->noperands; k++) any |= hlo_operand(self.i, k)->opcode == HLO_CONSTANT;
  return xc_number(any);
}
MEMBER(i_text) {
  if (e->n) return xc_unknown();
  hs_buf b = {0};
  hlo_print_options o = hlo_print_default();
  hlo_print_instr(&b, self.i, &o);
  xc_value r = xc_str(v, (hs_str){b.p, b.n});
  hs_buf_free(&b);
  return r;
}
MEMBER(i_channel) {  // a std::optional
  (void)v, (void)e;
  i64 id = hlo_attr_int(self.i, HLO_ATTR_CHANNEL_ID, 0);
  return id > 0 ? (xc_value){.kind = V_NUMBER, .number = (double)id, .optional = true}
                : (xc_value){.kind = V_NULL};
}
MEMBER(i_split_dim) {
  (void)v, (void)e;
  hlo_ints d = hlo_attr_ints(self.i, HLO_ATTR_DIMENSIONS);
  return d.n ? (xc_value){.kind = V_NUMBER, .number = (double)d.v[0], .optional = true}
             : (xc_value){.kind = V_NULL};
}
MEMBER(i_operand_layouts) {  // operand_shapes_with_layout()
  (void)e;
  const hlo_shapes *s = hlo_attr_ptr(self.i, HLO_ATTR_OPERAND_LAYOUT_CONSTRAINTS);
  xc_value *l = HS_NEW_ARRAY(&v->a, xc_value, (s ? s->n : 0) + 1);
  for (u32 k = 0; s && k < s->n; k++) l[k] = xc_shape_value(s->v[k]);
  return xc_list(s ? s->n : 0, l);
}
MEMBER(i_layout_constrained) {
  (void)v, (void)e;
  return xc_number(hlo_attr_get(self.i, HLO_ATTR_OPERAND_LAYOUT_CONSTRAINTS) != NULL);
}
MEMBER(i_output_aliases) {  // pairs of an output index and a pair of operand and index
  (void)e;
  const hlo_aliases *a = hlo_attr_ptr(self.i, HLO_ATTR_OUTPUT_TO_OPERAND_ALIASING);
  u32 n = a ? a->n : 0;
  xc_value *l = HS_NEW_ARRAY(&v->a, xc_value, n + 1);
  for (u32 k = 0; k < n; k++) {
    xc_value *in = HS_NEW_ARRAY(&v->a, xc_value, 2), *pair = HS_NEW_ARRAY(&v->a, xc_value, 2);
    in[0] = xc_number((double)a->v[k].param), in[1] = xc_ints_value(v, a->v[k].param_index);
    pair[0] = xc_ints_value(v, a->v[k].out_index), pair[1] = xc_list(2, in);
    l[k] = xc_list(2, pair);
  }
  return xc_list(n, l);
}
MEMBER(i_has_config) {
  (void)v, (void)e;
  const hlo_backend_config *b = hlo_attr_ptr(self.i, HLO_ATTR_BACKEND_CONFIG);
  return xc_number(b && b->text.n);
}
MEMBER(i_raw_config) {
  (void)e;
  const hlo_backend_config *b = hlo_attr_ptr(self.i, HLO_ATTR_BACKEND_CONFIG);
  return b ? xc_str(v, b->text) : xc_text("");
}

// Replica groups as lists of numbers, whatever form they are written in.
xc_value xc_groups_value(xc_env *v, const hlo_instr *i) {
  const hlo_replica_groups *g = hlo_attr_ptr(i, HLO_ATTR_REPLICA_GROUPS);
  if (!g) return xc_list(0, NULL);
  u32 n = g->form == HLO_GROUPS_LIST                     ? g->groups.n
          : g->form == HLO_GROUPS_IOTA && g->dims.n == 2 ? (u32)g->dims.v[0]
                                                         : 0;
  if (!n && g->form != HLO_GROUPS_LIST) return xc_unknown();
  xc_value *l = HS_NEW_ARRAY(&v->a, xc_value, n + 1);
  if (g->form == HLO_GROUPS_LIST) {
    for (u32 k = 0; k < n; k++) l[k] = xc_ints_value(v, g->groups.v[k]);
    return xc_list(n, l);
  }
  u32 size = (u32)g->dims.v[1];
  i64 *all = HS_NEW_ARRAY(&v->a, i64, (size_t)n * size + 1);
  if (!ev_iota_devices(g->reshape, g->perm, (i64)n * size, all)) return xc_unknown();
  for (u32 k = 0; k < n; k++) l[k] = xc_ints_value(v, (hlo_ints){size, all + (size_t)k * size});
  return xc_list(n, l);
}
MEMBER(i_groups) {
  (void)e;
  return xc_groups_value(v, self.i);
}
xc_value xc_pairs_value(xc_env *v, const hlo_instr *i) {
  hlo_ints p = hlo_attr_ints(i, HLO_ATTR_SOURCE_TARGET_PAIRS);
  xc_value *l = HS_NEW_ARRAY(&v->a, xc_value, p.n + 1);
  for (u32 k = 0; k < p.n; k++) l[k] = xc_ints_value(v, (hlo_ints){2, p.v + 2 * k});
  return xc_list(p.n, l);
}
MEMBER(i_pairs) {
  (void)e;
  return xc_pairs_value(v, self.i);
}
MEMBER(i_dim_label) {  // of convolution_dimension_numbers()
  const hlo_dim_labels *d = hlo_attr_ptr(self.i, HLO_ATTR_DIM_LABELS);
  if (!d) return xc_unknown();
  const struct {
    const char *name;
    i64 value;
  } single[] = {{"input_batch_dimension", d->lhs_batch},
                {"input_feature_dimension", d->lhs_feature},
                {"kernel_input_feature_dimension", d->rhs_input_feature},
                {"kernel_output_feature_dimension", d->rhs_output_feature},
                {"output_batch_dimension", d->out_batch},
                {"output_feature_dimension", d->out_feature}};
  for (size_t k = 0; k < HS_COUNT(single); k++)
    if (strcmp(single[k].name, e->name) == 0) return xc_number((double)single[k].value);
  const i64 *s = *e->name == 'i'   ? d->lhs_spatial
                 : *e->name == 'k' ? d->rhs_spatial
                                   : d->out_spatial;
  xc_value l = xc_ints_value(v, (hlo_ints){d->nspatial, s});
  return e->n ? xc_at(l, xc_arg(v, e, 0, 0)) : l;
}

// ---- shardings ----------------------------------------------------------------------------------
static xc_value xc_sharding_value(const hlo_sharding *s) {
  return s ? (xc_value){.kind = V_SHARDING, .p = s} : (xc_value){.kind = V_NULL};
}
// Of a text "{replicated}"; the module that it is read in stays.
xc_value xc_sharding_of_text(xc_env *v, const char *text) {
  char *whole = hs_format("ENTRY e { ROOT x = f32[] parameter(0), sharding=%s }", text);
  hlo_module *m = NULL;
  hs_status s = hlo_parse(v->m->ctx, whole, strlen(whole), NULL, &m);
  hs_free(whole);
  if (!hs_ok(s)) return hs_status_drop(s), xc_unknown();
  hs_vec_push(&v->read, m);
  const hlo_sharding *sh = hlo_attr_ptr(m->entry->root, HLO_ATTR_SHARDING);
  return sh ? xc_sharding_value(sh) : xc_unknown();
}
static xc_value xc_sharding_text(xc_env *v, const hlo_sharding *s, bool metadata) {
  hs_buf b = {0};
  hlo_put_sharding(&b, s, metadata);
  xc_value r = xc_str(v, (hs_str){b.p, b.n});
  hs_buf_free(&b);
  return r;
}
// metadata apart, as XLA's operator==
xc_answer xc_same_sharding(xc_env *v, const hlo_sharding *a, const hlo_sharding *b) {
  return xc_yes(strcmp(xc_sharding_text(v, a, false).s, xc_sharding_text(v, b, false).s) == 0);
}
#define SHARDING ((const hlo_sharding *)self.p)
MEMBER(i_sharding) {
  (void)v, (void)e;
  return xc_sharding_value(hlo_attr_ptr(self.i, HLO_ATTR_SHARDING));
}
MEMBER(h_text) {
  (void)e;
  return xc_sharding_text(v, SHARDING, true);
}
MEMBER(h_type) {
  (void)v;
  static const struct {
    const char *name;
    hlo_sharding_type t;
  } types[] = {{"IsReplicated", HLO_SH_REPLICATED},
               {"IsManual", HLO_SH_MANUAL},
               {"IsUnknown", HLO_SH_UNKNOWN},
               {"IsTuple", HLO_SH_TUPLE},
               {"IsTiled", HLO_SH_TILED}};
  for (size_t k = 0; k < HS_COUNT(types); k++)
    if (strcmp(types[k].name, e->name) == 0 && SHARDING->type != HLO_SH_NAMED)
      return xc_number(SHARDING->type == types[k].t);
  if (strcmp(e->name, "IsTileMaximal") == 0 && SHARDING->type != HLO_SH_NAMED)
    return xc_number(SHARDING->type == HLO_SH_REPLICATED || SHARDING->type == HLO_SH_MAXIMAL);
  return xc_unknown();
}
MEMBER(h_unique) {
  (void)v, (void)e;
  return xc_number(xc_device(SHARDING) >= 0);
}
MEMBER(h_device) {
  (void)v, (void)e;
  i64 d = xc_device(SHARDING);
  return d >= 0 ? xc_number((double)d) : xc_unknown();
}
MEMBER(h_elements) {
  (void)e;
  xc_value *l = HS_NEW_ARRAY(&v->a, xc_value, SHARDING->nchildren + 1);
  for (u32 k = 0; k < SHARDING->nchildren; k++) l[k] = xc_sharding_value(SHARDING->children[k]);
  return xc_list(SHARDING->nchildren, l);
}
#undef SHARDING

// ---- what hangs on an instruction ---------------------------------------------------------------
const hlo_frontend_entry *xc_frontend_find(xc_env *v, xc_value self, const xc_expr *e) {
  const hlo_frontend *f = hlo_attr_ptr(self.i, HLO_ATTR_FRONTEND_ATTRIBUTES);
  xc_value key = e->n ? xc_eval(v, e->args[0]) : xc_unknown();
  for (u32 k = 0; f && key.kind == V_STRING && k < f->n; k++)
    if (hs_str_eq(f->v[k].key, hs_str_of(key.s))) return &f->v[k];
  return NULL;
}
MEMBER(a_at) {
  const hlo_frontend_entry *x = xc_frontend_find(v, self, e);
  return x ? xc_str(v, x->value) : xc_text("(absent)");
}
MEMBER(a_contains) { return xc_number(xc_frontend_find(v, self, e) != NULL); }
MEMBER(i_frontend_get) {  // a std::optional
  const hlo_frontend_entry *x = xc_frontend_find(v, self, e);
  xc_value r = x ? xc_str(v, x->value) : (xc_value){.kind = V_NULL};
  r.optional = x != NULL;
  return r;
}
MEMBER(a_size) {
  (void)v, (void)e;
  const hlo_frontend *f = hlo_attr_ptr(self.i, HLO_ATTR_FRONTEND_ATTRIBUTES);
  return xc_number(f ? f->n : 0);
}
MEMBER(o_text) {
  (void)e;
  return xc_origin_text(v, self.i);
}
static bool xc_origin_fits(const hlo_origin_node *n, const hlo_shape *s) {
  if (!n || n->tuple != hlo_shape_is_tuple(s)) return false;
  bool fits = !n->tuple || n->nchildren == s->nelems;
  for (u32 k = 0; fits && n->tuple && k < n->nchildren; k++)
    fits = xc_origin_fits(n->children[k], s->elems[k]);
  return fits;
}
MEMBER(o_fits) {
  const hlo_origin *o = hlo_attr_ptr(self.i, HLO_ATTR_ORIGIN);
  xc_value s = e->n ? xc_eval(v, e->args[0]) : xc_unknown();
  return o && s.kind == V_SHAPE ? xc_number(xc_origin_fits(o->root, s.p)) : xc_unknown();
}
MEMBER(p_op_name) {
  (void)e;
  const hlo_metadata *x = hlo_metadata_of(self.i);
  return x ? xc_str(v, x->op_name) : xc_text("");
}
MEMBER(p_op_type) {
  (void)e;
  const hlo_metadata *x = hlo_metadata_of(self.i);
  return x ? xc_str(v, x->op_type) : xc_text("");
}
MEMBER(p_dedup) {
  (void)e;
  const hlo_metadata *x = hlo_metadata_of(self.i);
  return x ? xc_str(v, hlo_metadata_rest_of(x)->deduplicated_name) : xc_text("");
}
MEMBER(p_source_file) {
  (void)e;
  const hlo_metadata *x = hlo_metadata_of(self.i);
  return x ? xc_str(v, x->source_file) : xc_text("");
}
MEMBER(p_source_line) {
  (void)v, (void)e;
  const hlo_metadata *x = hlo_metadata_of(self.i);
  return xc_number(x ? x->source_line : 0);
}
MEMBER(p_number) {
  (void)v;
  const hlo_metadata *x = hlo_metadata_of(self.i);
  if (!x) return xc_number(0);
  const struct {
    const char *name;
    i32 value;
  } all[] = {{"source_end_line", x->source_end_line},
             {"source_column", x->source_column},
             {"source_end_column", x->source_end_column},
             {"stack_frame_id", x->stack_frame_id}};
  for (size_t k = 0; k < HS_COUNT(all); k++)
    if (strcmp(all[k].name, e->name) == 0) return xc_number(all[k].value);
  return xc_unknown();
}
MEMBER(p_scheduling) {
  (void)e;
  const hlo_metadata *x = hlo_metadata_of(self.i);
  return x ? xc_str(v, hlo_metadata_rest_of(x)->scheduling_name) : xc_text("");
}
