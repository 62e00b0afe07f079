// terms_parts.h — the members of computations, modules, shapes, layouts, lists and literals.
#ifndef TESTS_TERMS_PARTS_H
#define TESTS_TERMS_PARTS_H

#include "tests/drivers/terms_instr.h"

// ---- of computations and modules ----------------------------------------------------------------
MEMBER(c_root) {
  (void)v, (void)e;
  return m_instr(self.c->root);
}
MEMBER(c_name) {
  (void)v, (void)e;
  return m_text(self.c->name);
}
MEMBER(c_param) {
  i64 k = m_arg(v, e, 0, 0);
  return m_instr(k >= 0 && k < (i64)self.c->nparams ? self.c->params[k] : NULL);
}
MEMBER(c_params) {
  (void)e;
  return m_instrs_value(v, self.c->nparams, self.c->params);
}
MEMBER(c_nparams) {
  (void)v, (void)e;
  return m_number(self.c->nparams);
}
MEMBER(c_count) {
  (void)v, (void)e;
  return m_number(self.c->ninstrs);
}
MEMBER(c_instrs) {
  (void)e;
  return m_instructions(v, self.c);
}
MEMBER(c_thread) {
  (void)e;
  return self.c->execution_thread.n ? m_str(v, self.c->execution_thread) : m_text("main");
}
MEMBER(c_named) {
  m_value n = e->n ? m_eval(v, e->args[0]) : m_unknown();
  return n.kind == V_STRING ? m_at(m_find(v, self, HLO_OP_INVALID, n.s), 0) : m_unknown();
}
MEMBER(c_callers) {
  (void)e;
  m_value *l = NULL;
  u32 n = 0;
  for (int fill = 0; fill < 2; fill++) {
    if (fill) l = HS_NEW_ARRAY(&v->a, m_value, n + 1);
    n = 0;
    hlo_for_each_comp(c, self.c->module)
      hlo_for_each_instr(i, c)
        if (hlo_calls(i, self.c)) {
          if (fill) l[n] = m_instr(i);
          n++;
        }
  }
  return m_list(n, l);
}
MEMBER(m_node) {
  (void)self;
  return e->n ? m_eval(v, e->args[0]) : m_unknown();
}
MEMBER(m_entry) {
  (void)v, (void)e;
  return m_comp_value(self.m->entry);
}
MEMBER(m_count) {
  (void)v, (void)e;
  return m_number(self.m->ncomputations);
}
MEMBER(m_instr_count) {
  (void)v, (void)e;
  return m_number(hlo_instr_count(self.m));
}
MEMBER(m_comps) {
  (void)e;
  m_value *l = HS_NEW_ARRAY(&v->a, m_value, self.m->ncomputations + 1);
  u32 n = 0;
  hlo_for_each_comp(c, self.m) l[n++] = m_comp_value(c);
  return m_list(n, l);
}
MEMBER(m_before) {  // ExecutesBefore(a, b) in the schedule
  m_value a = e->n == 2 ? m_eval(v, e->args[0]) : m_unknown(),
          b = e->n == 2 ? m_eval(v, e->args[1]) : m_unknown();
  if (a.kind != V_INSTR || b.kind != V_INSTR || a.i->parent != b.i->parent ||
      !hlo_is_scheduled(self.m))
    return m_unknown();
  for (const hlo_instr *i = a.i->next; i; i = i->next)
    if (i == b.i) return m_number(1);
  return m_number(0);
}
MEMBER(m_ok) {
  (void)v, (void)self, (void)e;
  return m_number(1);
}
MEMBER(m_has_schedule) {
  (void)v, (void)e;
  return m_number(hlo_is_scheduled(self.m));
}
MEMBER(m_sequence) {
  m_value c = e->n ? m_eval(v, e->args[0]) : m_unknown();
  return self.m && hlo_is_scheduled(self.m) && c.kind == V_COMP ? c : m_unknown();
}
MEMBER(m_nonfusion) {
  m_value *l = HS_NEW_ARRAY(&v->a, m_value, self.m->ncomputations + 1),
          t = e->n ? m_eval(v, e->args[0]) : m_list(0, NULL);
  u32 n = 0;
  hlo_for_each_comp(c, self.m) {
    bool in = t.n == 0;
    for (u32 k = 0; k < t.n; k++)
      in |= t.v[k].kind == V_STRING &&
            hs_str_eq(hs_str_of(t.v[k].s),
                      c->execution_thread.n ? c->execution_thread : hs_str_of("main"));
    if (in && !hlo_is_fusion_comp(c)) l[n++] = m_comp_value(c);
  }
  return m_list(n, l);
}
MEMBER(m_result) {
  (void)e;
  return m_shape_value(m_program(v, self.m).result);
}
MEMBER(m_param_layout) {
  hlo_program_shape s = m_program(v, self.m);
  i64 k = m_arg(v, e, 0, 0);
  return k >= 0 && k < (i64)s.n ? m_shape_value(s.params[k]) : m_unknown();
}
MEMBER(m_print) {
  if (e->n) return m_unknown();
  hs_buf b = {0};
  hlo_print_options o = hlo_print_default();
  hlo_print_module(&b, self.m, &o);
  m_value r = m_str(v, (hs_str){b.p, b.n});
  hs_buf_free(&b);
  return r;
}
// input_output_alias_config(): ParameterHasAlias(n, index), OutputHasAlias(index),
// GetAliasedParameter(index).
static inline bool m_same_index(hlo_ints a, m_value l) {
  bool same = l.kind == V_LIST && l.n == a.n;
  for (u32 k = 0; same && k < a.n; k++)
    same = l.v[k].kind == V_NUMBER && (i64)l.v[k].number == a.v[k];
  return same;
}
MEMBER(m_alias) {
  const hlo_attr *a = hlo_attrs_find(self.m->attrs, HLO_ATTR_INPUT_OUTPUT_ALIAS);
  const hlo_aliases *l = a ? a->v.p : NULL;
  bool param = strcmp(e->name, "ParameterHasAlias") == 0,
       has = param || strcmp(e->name, "OutputHasAlias") == 0;
  if (e->n != (param ? 2u : 1u)) return m_unknown();
  m_value index = m_eval(v, e->args[e->n - 1]);
  i64 number = param ? m_arg(v, e, 0, -1) : -1;
  for (u32 k = 0; l && k < l->n; k++) {
    if (param ? l->v[k].param != number || !m_same_index(l->v[k].param_index, index)
              : !m_same_index(l->v[k].out_index, index))
      continue;
    if (has) return m_number(1);
    m_value *pair = HS_NEW_ARRAY(&v->a, m_value, 2);
    pair[0] = m_number((double)l->v[k].param), pair[1] = m_number(l->v[k].must);
    return m_list(2, pair);
  }
  return has ? m_number(0) : m_unknown();
}
MEMBER(c_is) {  // IsEntryComputation(), IsFusionComputation(), IsAsyncComputation()
  (void)v;
  if (e->name[2] == 'E') return m_number(self.c->module->entry == self.c);
  if (e->name[2] == 'F') return m_number(hlo_is_fusion_comp(self.c));
  bool async = false;
  hlo_for_each_comp(c, self.c->module)
    hlo_for_each_instr(i, c)
      async |= i->opcode == HLO_ASYNC_START && hlo_attr_comp(i, HLO_ATTR_CALLS) == self.c;
  return m_number(async);
}
MEMBER(c_fusion) {
  m_value l = m_c_callers(v, self, e);
  for (u32 k = 0; k < l.n; k++)
    if (l.v[k].i->opcode == HLO_FUSION) return l.v[k];
  return m_instr(NULL);
}
MEMBER(c_module) {
  (void)v, (void)e;
  return (m_value){.kind = V_MODULE, .m = self.c->module};
}
MEMBER(c_effect) {
  (void)v, (void)e;
  bool any = false;
  hlo_for_each_instr(i, self.c) any |= hlo_has_side_effect(i);
  return m_number(any);
}
MEMBER(c_related) {  // callee_computations(), caller_computations(): each once
  m_value *l = HS_NEW_ARRAY(&v->a, m_value, self.c->module->ncomputations + 1);
  u32 n = 0;
  hlo_for_each_comp(c, self.c->module) {
    bool hit = false;
    // "caller", "callee"
    hlo_for_each_instr(i, e->name[4] == 'r' ? c : self.c)
      hit |= hlo_calls(i, e->name[4] == 'r' ? self.c : c);
    if (hit) l[n++] = m_comp_value(c);
  }
  return m_list(n, l);
}
MEMBER(c_post_order) {
  (void)e;
  return m_instrs_value(v, self.c->ninstrs, hlo_post_order(self.c, &v->a));
}
MEMBER(m_name) {
  (void)v, (void)e;
  return m_text(self.m->name);
}
MEMBER(m_has_entry) {
  (void)v, (void)e;
  return m_number(self.m->entry != NULL);
}
MEMBER(m_comp_named) {
  m_value n = e->n ? m_eval(v, e->args[0]) : m_unknown();
  return n.kind == V_STRING ? m_comp_value(hlo_find_comp(self.m, n.s)) : m_unknown();
}

// ---- of shapes, layouts, lists, literals and the rest -------------------------------------------
#define SHAPE ((const hlo_shape *)self.p)
#define LAYOUT ((const hlo_layout *)self.p)
#define LITERAL ((const hlo_literal *)self.p)
MEMBER(s_tuple) {
  (void)v, (void)e;
  return m_number(hlo_shape_is_tuple(SHAPE));
}
MEMBER(s_array) {
  (void)v, (void)e;
  return m_number(hlo_shape_is_array(SHAPE));
}
MEMBER(s_token) {
  (void)v, (void)e;
  return m_number(SHAPE == hlo_shape_token(v->m->ctx));
}
MEMBER(s_type) {
  (void)v, (void)e;
  return m_number(SHAPE->dtype);
}
MEMBER(s_rank) {
  (void)v, (void)e;
  return m_number(SHAPE->rank);
}
MEMBER(s_dims) {
  m_value l = m_ints_value(v, (hlo_ints){SHAPE->rank, SHAPE->dims});
  return e->n ? m_at(l, m_arg(v, e, 0, 0)) : l;
}
MEMBER(s_elems) {
  m_value *l = HS_NEW_ARRAY(&v->a, m_value, SHAPE->nelems + 1);
  for (u32 k = 0; k < SHAPE->nelems; k++) l[k] = m_shape_value(SHAPE->elems[k]);
  return e->n ? m_at(m_list(SHAPE->nelems, l), m_arg(v, e, 0, 0)) : m_list(SHAPE->nelems, l);
}
MEMBER(s_layout) {
  (void)v, (void)e;
  const hlo_shape *s = m_array_of(SHAPE);
  return hlo_shape_is_array(s) ? m_layout_value(s->layout) : m_unknown();
}
MEMBER(s_has_layout) {
  (void)v, (void)e;
  return m_number(SHAPE->layout != NULL);
}
MEMBER(s_dynamic) {
  i64 k = m_arg(v, e, 0, 0);
  return m_number(SHAPE->dynamic && k >= 0 && k < (i64)SHAPE->rank && SHAPE->dynamic[k]);
}
MEMBER(l_order) {
  (void)e;
  return LAYOUT ? m_ints_value(v, (hlo_ints){LAYOUT->rank, LAYOUT->minor_to_major}) : m_unknown();
}
MEMBER(l_space) {
  (void)v, (void)e;
  return LAYOUT ? m_number((double)LAYOUT->memory_space) : m_unknown();
}
MEMBER(v_size) {
  (void)v, (void)e;
  return m_number(self.n);
}
MEMBER(v_empty) {
  (void)v, (void)e;
  return m_number(self.n == 0);
}
MEMBER(v_front) {
  (void)v, (void)e;
  return m_at(self, 0);
}
MEMBER(v_back) {
  (void)v, (void)e;
  return m_at(self, (i64)self.n - 1);
}
MEMBER(v_at) { return m_at(self, m_arg(v, e, 0, 0)); }
MEMBER(v_dimensions) { return e->n ? m_at(self, m_arg(v, e, 0, 0)) : self; }
MEMBER(v_alias_number) {
  (void)v, (void)e;
  return m_at(self, 0);
}
MEMBER(v_alias_kind) {
  (void)v, (void)e;
  return m_at(self, 1);
}
MEMBER(t_first) {
  (void)v, (void)e;
  return LITERAL->shape->elements ? m_number(hlo_literal_f64(LITERAL, 0)) : m_unknown();
}
MEMBER(t_get) {
  m_value x = e->n ? m_eval(v, e->args[0]) : m_list(0, NULL);
  i64 at = 0;
  if (x.kind != V_LIST || x.n != LITERAL->shape->rank) return m_unknown();
  for (u32 k = 0; k < x.n; k++) at = at * LITERAL->shape->dims[k] + (i64)x.v[k].number;
  return at < LITERAL->shape->elements ? m_number(hlo_dtype_is_float(LITERAL->shape->dtype)
                                                      ? hlo_literal_f64(LITERAL, at)
                                                      : (double)hlo_literal_i64(LITERAL, at))
                                       : m_unknown();
}
MEMBER(d_low) {
  (void)v, (void)e;
  return m_number((double)(self.kind == V_PAD_DIM ? ((const hlo_pad_dim *)self.p)->low
                                                  : ((const hlo_window_dim *)self.p)->pad_low));
}
MEMBER(d_high) {
  (void)v, (void)e;
  return m_number((double)(self.kind == V_PAD_DIM ? ((const hlo_pad_dim *)self.p)->high
                                                  : ((const hlo_window_dim *)self.p)->pad_high));
}
MEMBER(d_interior) {
  (void)v, (void)e;
  return m_number((double)((const hlo_pad_dim *)self.p)->interior);
}
MEMBER(d_size) {
  (void)v, (void)e;
  return m_number((double)((const hlo_window_dim *)self.p)->size);
}
MEMBER(d_stride) {
  (void)v, (void)e;
  return m_number((double)((const hlo_window_dim *)self.p)->stride);
}
MEMBER(s_scalar) {
  (void)v, (void)e;
  return m_number(hlo_shape_is_scalar(SHAPE));
}
MEMBER(s_opaque) {
  (void)e;
  return m_number(SHAPE == hlo_shape_opaque(v->m->ctx));
}
MEMBER(s_integer) {
  (void)v, (void)e;
  return m_number(hlo_shape_is_array(SHAPE) && hlo_dtype_is_integer(SHAPE->dtype));
}
MEMBER(s_nelems) {
  (void)v, (void)e;
  return m_number(SHAPE->nelems);
}
MEMBER(s_any_dynamic) {
  (void)v;
  return m_number(hlo_shape_is_dynamic(SHAPE) == (strcmp(e->name, "is_dynamic") == 0));
}
MEMBER(s_text) {
  (void)e;
  hs_buf b = {0};
  hlo_shape_print(&b, SHAPE, e->n && m_arg(v, e, 0, 0) != 0);
  m_value r = m_str(v, (hs_str){b.p, b.n});
  hs_buf_free(&b);
  return r;
}
MEMBER(l_order_or_one) {
  return e->n ? m_at(m_l_order(v, self, e), m_arg(v, e, 0, 0)) : m_l_order(v, self, e);
}
MEMBER(l_tiles) {
  (void)v, (void)e;
  return LAYOUT ? m_number(LAYOUT->ntiles) : m_unknown();
}
MEMBER(l_bits) {
  (void)v, (void)e;
  return LAYOUT ? m_number((double)LAYOUT->element_bits) : m_unknown();
}
MEMBER(v_list_has) {  // contains(x), count(x) of a set
  m_value x = e->n ? m_eval(v, e->args[0]) : m_unknown();
  u32 n = 0;
  for (u32 k = 0; k < self.n; k++) {
    m_answer a = m_equal(v, self.v[k], x);
    if (a == M_UNKNOWN) return m_unknown();
    n += a == M_YES;
  }
  return m_number(n);
}
MEMBER(t_shape) {
  (void)v, (void)e;
  return m_shape_value(LITERAL->shape);
}
MEMBER(t_count) {
  (void)v, (void)e;
  return m_number((double)LITERAL->shape->elements);
}
MEMBER(t_is_all) {  // IsAll(1), IsAllFloat(0.5)
  m_value x = e->n ? m_eval(v, e->args[0]) : m_unknown();
  return x.kind == V_NUMBER ? m_number(hlo_literal_is_all_f64(LITERAL, x.number)) : m_unknown();
}
MEMBER(t_equal_at) {
  m_value at = m_t_get(v, self, e), x = e->n == 2 ? m_eval(v, e->args[1]) : m_unknown();
  return at.kind == V_NUMBER && x.kind == V_NUMBER ? m_number(at.number == x.number) : m_unknown();
}
MEMBER(t_is_zero) {
  m_value at = m_t_get(v, self, e);
  return at.kind == V_NUMBER ? m_number(at.number == 0) : m_unknown();
}
MEMBER(t_data) {
  (void)e;
  m_value *l = HS_NEW_ARRAY(&v->a, m_value, (size_t)LITERAL->shape->elements + 1);
  for (i64 k = 0; k < LITERAL->shape->elements; k++)
    l[k] =
        m_number(hlo_dtype_is_float(LITERAL->shape->dtype) ? hlo_literal_f64(LITERAL, k)
                                                           : (double)hlo_literal_i64(LITERAL, k));
  return m_list((u32)LITERAL->shape->elements, l);
}
MEMBER(t_text) {
  (void)e;
  hs_buf b = {0};
  if (e->name[8]) hlo_put_literal(&b, LITERAL);
  else hlo_put_shaped_literal(&b, LITERAL);
  m_value r = m_str(v, (hs_str){b.p, b.n});
  hs_buf_free(&b);
  return r;
}
MEMBER(d_dilation) {
  (void)v;
  const hlo_window_dim *d = self.p;
  return m_number((double)(*e->name == 'b' ? d->lhs_dilate : d->rhs_dilate));
}
MEMBER(d_reversal) {
  (void)v, (void)e;
  return m_number(((const hlo_window_dim *)self.p)->reversal);
}
// Of a std::optional; a plain value has itself.
MEMBER(o_has_value) {
  (void)v, (void)e;
  return m_number(self.kind != V_NULL);
}
MEMBER(x_size) {
  (void)v, (void)e;
  return m_number((double)strlen(self.s));
}
MEMBER(x_contains) {
  m_value x = e->n ? m_eval(v, e->args[0]) : m_unknown();
  return x.kind == V_STRING ? m_number(strstr(self.s, x.s) != NULL) : m_unknown();
}
MEMBER(x_empty) {
  (void)v, (void)e;
  return m_number(!*self.s);
}
#undef SHAPE
#undef LAYOUT
#undef LITERAL

#endif
