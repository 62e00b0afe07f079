// members_parts.c — members of computations, modules, shapes, layouts, lists and literals.
#include "core/text/print.h"
#include "tests/xla_cases/internal.h"

// ---- of computations and modules ----------------------------------------------------------------
MEMBER(c_root) {
  (void)v, (void)e;
  return xc_instr(self.c->root);
}
MEMBER(c_name) {
  (void)v, (void)e;
  return xc_text(self.c->name);
}
MEMBER(c_param) {
  i64 k = xc_arg(v, e, 0, 0);
  return xc_instr(k >= 0 && k < (i64)self.c->nparams ? self.c->params[k] : NULL);
}
MEMBER(c_params) {
  (void)e;
  return xc_instrs_value(v, self.c->nparams, self.c->params);
}
MEMBER(c_nparams) {
  (void)v, (void)e;
  return xc_number(self.c->nparams);
}
MEMBER(c_count) {
  (void)v, (void)e;
  return xc_number(self.c->ninstrs);
}
MEMBER(c_instrs) {
  (void)e;
  return xc_instructions(v, self.c);
}
MEMBER(c_thread) {
  (void)e;
  return self.c->execution_thread.n ? xc_str(v, self.c->execution_thread) : xc_text("main");
}
MEMBER(c_named) {
  xc_value n = e->n ? xc_eval(v, e->args[0]) : xc_unknown();
  return n.kind == V_STRING ? xc_at(xc_find(v, self, HLO_OP_INVALID, n.s), 0) : xc_unknown();
}
MEMBER(c_callers) {
  (void)e;
  xc_value *l = NULL;
  u32 n = 0;
  for (int fill = 0; fill < 2; fill++) {
    if (fill) l = HS_NEW_ARRAY(&v->a, xc_value, n + 1);
    n = 0;
    hlo_for_each_comp(c, self.c->module)
      hlo_for_each_instr(i, c)
        if (hlo_calls(i, self.c)) {
          if (fill) l[n] = xc_instr(i);
          n++;
        }
  }
  return xc_list(n, l);
}
MEMBER(m_node) {
  (void)self;
  return e->n ? xc_eval(v, e->args[0]) : xc_unknown();
}
MEMBER(m_entry) {
  (void)v, (void)e;
  return xc_comp_value(self.m->entry);
}
MEMBER(m_count) {
  (void)v, (void)e;
  return xc_number(self.m->ncomputations);
}
MEMBER(m_instr_count) {
  (void)v, (void)e;
  return xc_number(hlo_instr_count(self.m));
}
MEMBER(m_comps) {
  (void)e;
  xc_value *l = HS_NEW_ARRAY(&v->a, xc_value, self.m->ncomputations + 1);
  u32 n = 0;
  hlo_for_each_comp(c, self.m) l[n++] = xc_comp_value(c);
  return xc_list(n, l);
}
MEMBER(m_before) {  // ExecutesBefore(a, b) in the schedule
  xc_value a = e->n == 2 ? xc_eval(v, e->args[0]) : xc_unknown(),
           b = e->n == 2 ? xc_eval(v, e->args[1]) : xc_unknown();
  if (a.kind != V_INSTR || b.kind != V_INSTR || a.i->parent != b.i->parent ||
      !hlo_is_scheduled(self.m))
    return xc_unknown();
  for (const hlo_instr *i = a.i->next; i; i = i->next)
    if (i == b.i) return xc_number(1);
  return xc_number(0);
}
MEMBER(m_ok) {
  (void)v, (void)self, (void)e;
  return xc_number(1);
}
MEMBER(m_has_schedule) {
  (void)v, (void)e;
  return xc_number(hlo_is_scheduled(self.m));
}
MEMBER(m_sequence) {
  xc_value c = e->n ? xc_eval(v, e->args[0]) : xc_unknown();
  return self.m && hlo_is_scheduled(self.m) && c.kind == V_COMP ? c : xc_unknown();
}
MEMBER(m_nonfusion) {
  xc_value *l = HS_NEW_ARRAY(&v->a, xc_value, self.m->ncomputations + 1),
           t = e->n ? xc_eval(v, e->args[0]) : xc_list(0, NULL);
  u32 n = 0;
  hlo_for_each_comp(c, self.m) {
    bool in = t.n == 0;
    for (u32 k = 0; k < t.n; k++)
      in |= t.v[k].kind == V_STRING &&
            hs_str_eq(hs_str_of(t.v[k].s),
                      c->execution_thread.n ? c->execution_thread : hs_str_of("main"));
    if (in && !hlo_is_fusion_comp(c)) l[n++] = xc_comp_value(c);
  }
  return xc_list(n, l);
}
MEMBER(m_result) {
  (void)e;
  return xc_shape_value(xc_program(v, self.m).result);
}
MEMBER(m_param_layout) {
  hlo_program_shape s = xc_program(v, self.m);
  i64 k = xc_arg(v, e, 0, 0);
  return k >= 0 && k < (i64)s.n ? xc_shape_value(s.params[k]) : xc_unknown();
}
MEMBER(m_print) {
  if (e->n) return xc_unknown();
  hs_buf b = {0};
  hlo_print_options o = hlo_print_default();
  hlo_print_module(&b, self.m, &o);
  xc_value r = xc_str(v, (hs_str){b.p, b.n});
  hs_buf_free(&b);
  return r;
}
// input_output_alias_config(): ParameterHasAlias(n, index), OutputHasAlias(index),
// GetAliasedParameter(index).
static bool xc_same_index(hlo_ints a, xc_value l) {
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
  if (e->n != (param ? 2u : 1u)) return xc_unknown();
  xc_value index = xc_eval(v, e->args[e->n - 1]);
  i64 number = param ? xc_arg(v, e, 0, -1) : -1;
  for (u32 k = 0; l && k < l->n; k++) {
    if (param ? l->v[k].param != number || !xc_same_index(l->v[k].param_index, index)
              : !xc_same_index(l->v[k].out_index, index))
      continue;
    if (has) return xc_number(1);
    xc_value *pair = HS_NEW_ARRAY(&v->a, xc_value, 2);
    pair[0] = xc_number((double)l->v[k].param), pair[1] = xc_number(l->v[k].must);
    return xc_list(2, pair);
  }
  return has ? xc_number(0) : xc_unknown();
}
MEMBER(c_is) {  // IsEntryComputation(), IsFusionComputation(), IsAsyncComputation()
  (void)v;
  if (e->name[2] == 'E') return xc_number(self.c->module->entry == self.c);
  if (e->name[2] == 'F') return xc_number(hlo_is_fusion_comp(self.c));
  bool async = false;
  hlo_for_each_comp(c, self.c->module)
    hlo_for_each_instr(i, c)
      async |= i->opcode == HLO_ASYNC_START && hlo_attr_comp(i, HLO_ATTR_CALLS) == self.c;
  return xc_number(async);
}
MEMBER(c_fusion) {
  xc_value l = xc_c_callers(v, self, e);
  for (u32 k = 0; k < l.n; k++)
    if (l.v[k].i->opcode == HLO_FUSION) return l.v[k];
  return xc_instr(NULL);
}
MEMBER(c_module) {
  (void)v, (void)e;
  return (xc_value){.kind = V_MODULE, .m = self.c->module};
}
MEMBER(c_effect) {
  (void)v, (void)e;
  bool any = false;
  hlo_for_each_instr(i, self.c) any |= hlo_has_side_effect(i);
  return xc_number(any);
}
MEMBER(c_related) {  // callee_computations(), caller_computations(): each once
  xc_value *l = HS_NEW_ARRAY(&v->a, xc_value, self.c->module->ncomputations + 1);
  u32 n = 0;
  hlo_for_each_comp(c, self.c->module) {
    bool hit = false;
    // "caller", "callee"
    hlo_for_each_instr(i, e->name[4] == 'r' ? c : self.c)
      hit |= hlo_calls(i, e->name[4] == 'r' ? self.c : c);
    if (hit) l[n++] = xc_comp_value(c);
  }
  return xc_list(n, l);
}
MEMBER(c_post_order) {
  (void)e;
  return xc_instrs_value(v, self.c->ninstrs, hlo_post_order(self.c, &v->a));
}
MEMBER(m_name) {
  (void)v, (void)e;
  return xc_text(self.m->name);
}
MEMBER(m_has_entry) {
  (void)v, (void)e;
  return xc_number(self.m->entry != NULL);
}
MEMBER(m_comp_named) {
  xc_value n = e->n ? xc_eval(v, e->args[0]) : xc_unknown();
  return n.kind == V_STRING ? xc_comp_value(hlo_find_comp(self.m, n.s)) : xc_unknown();
}

// ---- of shapes, layouts, lists, literals and the rest -------------------------------------------
#define SHAPE ((const hlo_shape *)self.p)
#define LAYOUT ((const hlo_layout *)self.p)
#define LITERAL ((const hlo_literal *)self.p)
MEMBER(s_tuple) {
  (void)v, (void)e;
  return xc_number(hlo_shape_is_tuple(SHAPE));
}
MEMBER(s_array) {
  (void)v, (void)e;
  return xc_number(hlo_shape_is_array(SHAPE));
}
MEMBER(s_token) {
  (void)v, (void)e;
  return xc_number(SHAPE == hlo_shape_token(v->m->ctx));
}
MEMBER(s_type) {
  (void)v, (void)e;
  return xc_number(SHAPE->dtype);
}
MEMBER(s_rank) {
  (void)v, (void)e;
  return xc_number(SHAPE->rank);
}
MEMBER(s_dims) {
  xc_value l = xc_ints_value(v, (hlo_ints){SHAPE->rank, SHAPE->dims});
  return e->n ? xc_at(l, xc_arg(v, e, 0, 0)) : l;
}
MEMBER(s_elems) {
  xc_value *l = HS_NEW_ARRAY(&v->a, xc_value, SHAPE->nelems + 1);
  for (u32 k = 0; k < SHAPE->nelems; k++) l[k] = xc_shape_value(SHAPE->elems[k]);
  return e->n ? xc_at(xc_list(SHAPE->nelems, l), xc_arg(v, e, 0, 0)) : xc_list(SHAPE->nelems, l);
}
MEMBER(s_layout) {
  (void)v, (void)e;
  const hlo_shape *s = xc_array_of(SHAPE);
  return hlo_shape_is_array(s) ? xc_layout_value(s->layout) : xc_unknown();
}
MEMBER(s_has_layout) {
  (void)v, (void)e;
  return xc_number(SHAPE->layout != NULL);
}
MEMBER(s_dynamic) {
  i64 k = xc_arg(v, e, 0, 0);
  return xc_number(SHAPE->dynamic && k >= 0 && k < (i64)SHAPE->rank && SHAPE->dynamic[k]);
}
static MEMBER(l_order) {
  (void)e;
  return LAYOUT ? xc_ints_value(v, (hlo_ints){LAYOUT->rank, LAYOUT->minor_to_major}) : xc_unknown();
}
MEMBER(l_space) {
  (void)v, (void)e;
  return LAYOUT ? xc_number((double)LAYOUT->memory_space) : xc_unknown();
}
MEMBER(v_size) {
  (void)v, (void)e;
  return xc_number(self.n);
}
MEMBER(v_empty) {
  (void)v, (void)e;
  return xc_number(self.n == 0);
}
MEMBER(v_front) {
  (void)v, (void)e;
  return xc_at(self, 0);
}
MEMBER(v_back) {
  (void)v, (void)e;
  return xc_at(self, (i64)self.n - 1);
}
MEMBER(v_at) { return xc_at(self, xc_arg(v, e, 0, 0)); }
MEMBER(v_dimensions) { return e->n ? xc_at(self, xc_arg(v, e, 0, 0)) : self; }
MEMBER(v_alias_number) {
  (void)v, (void)e;
  return xc_at(self, 0);
}
MEMBER(v_alias_kind) {
  (void)v, (void)e;
  return xc_at(self, 1);
}
MEMBER(t_first) {
  (void)v, (void)e;
  return LITERAL->shape->elements ? xc_number(hlo_literal_f64(LITERAL, 0)) : xc_unknown();
}
MEMBER(t_get) {
  xc_value x = e->n ? xc_eval(v, e->args[0]) : xc_list(0, NULL);
  i64 at = 0;
  if (x.kind != V_LIST || x.n != LITERAL->shape->rank) return xc_unknown();
  for (u32 k = 0; k < x.n; k++) at = at * LITERAL->shape->dims[k] + (i64)x.v[k].number;
  return at < LITERAL->shape->elements ? xc_number(hlo_dtype_is_float(LITERAL->shape->dtype)
                                                       ? hlo_literal_f64(LITERAL, at)
                                                       : (double)hlo_literal_i64(LITERAL, at))
                                       : xc_unknown();
}
MEMBER(d_low) {
  (void)v, (void)e;
  return xc_number((double)(self.kind == V_PAD_DIM ? ((const hlo_pad_dim *)self.p)->low
                                                   : ((const hlo_window_dim *)self.p)->pad_low));
}
MEMBER(d_high) {
  (void)v, (void)e;
  return xc_number((double)(self.kind == V_PAD_DIM ? ((const hlo_pad_dim *)self.p)->high
                                                   : ((const hlo_window_dim *)self.p)->pad_high));
}
MEMBER(d_interior) {
  (void)v, (void)e;
  return xc_number((double)((const hlo_pad_dim *)self.p)->interior);
}
MEMBER(d_size) {
  (void)v, (void)e;
  return xc_number((double)((const hlo_window_dim *)self.p)->size);
}
MEMBER(d_stride) {
  (void)v, (void)e;
  return xc_number((double)((const hlo_window_dim *)self.p)->stride);
}
MEMBER(s_scalar) {
  (void)v, (void)e;
  return xc_number(hlo_shape_is_scalar(SHAPE));
}
MEMBER(s_opaque) {
  (void)e;
  return xc_number(SHAPE == hlo_shape_opaque(v->m->ctx));
}
MEMBER(s_integer) {
  (void)v, (void)e;
  return xc_number(hlo_shape_is_array(SHAPE) && hlo_dtype_is_integer(SHAPE->dtype));
}
MEMBER(s_nelems) {
  (void)v, (void)e;
  return xc_number(SHAPE->nelems);
}
MEMBER(s_any_dynamic) {
  (void)v;
  return xc_number(hlo_shape_is_dynamic(SHAPE) == (strcmp(e->name, "is_dynamic") == 0));
}
MEMBER(s_text) {
  (void)e;
  hs_buf b = {0};
  hlo_shape_print(&b, SHAPE, e->n && xc_arg(v, e, 0, 0) != 0);
  xc_value r = xc_str(v, (hs_str){b.p, b.n});
  hs_buf_free(&b);
  return r;
}
MEMBER(l_order_or_one) {
  return e->n ? xc_at(xc_l_order(v, self, e), xc_arg(v, e, 0, 0)) : xc_l_order(v, self, e);
}
MEMBER(l_tiles) {
  (void)v, (void)e;
  return LAYOUT ? xc_number(LAYOUT->ntiles) : xc_unknown();
}
MEMBER(l_bits) {
  (void)v, (void)e;
  return LAYOUT ? xc_number((double)LAYOUT->element_bits) : xc_unknown();
}
MEMBER(v_list_has) {  // contains(x), count(x) of a set
  xc_value x = e->n ? xc_eval(v, e->args[0]) : xc_unknown();
  u32 n = 0;
  for (u32 k = 0; k < self.n; k++) {
    xc_answer a = xc_equal(v, self.v[k], x);
    if (a == XC_UNKNOWN) return xc_unknown();
    n += a == XC_YES;
  }
  return xc_number(n);
}
MEMBER(t_shape) {
  (void)v, (void)e;
  return xc_shape_value(LITERAL->shape);
}
MEMBER(t_count) {
  (void)v, (void)e;
  return xc_number((double)LITERAL->shape->elements);
}
MEMBER(t_is_all) {  // IsAll(1), IsAllFloat(0.5)
  xc_value x = e->n ? xc_eval(v, e->args[0]) : xc_unknown();
  return x.kind == V_NUMBER ? xc_number(hlo_literal_is_all_f64(LITERAL, x.number)) : xc_unknown();
}
MEMBER(t_equal_at) {
  xc_value at = xc_t_get(v, self, e), x = e->n == 2 ? xc_eval(v, e->args[1]) : xc_unknown();
  return at.kind == V_NUMBER && x.kind == V_NUMBER ? xc_number(at.number == x.number)
                                                   : xc_unknown();
}
MEMBER(t_is_zero) {
  xc_value at = xc_t_get(v, self, e);
  return at.kind == V_NUMBER ? xc_number(at.number == 0) : xc_unknown();
}
MEMBER(t_data) {
  (void)e;
  xc_value *l = HS_NEW_ARRAY(&v->a, xc_value, (size_t)LITERAL->shape->elements + 1);
  for (i64 k = 0; k < LITERAL->shape->elements; k++)
    l[k] =
        xc_number(hlo_dtype_is_float(LITERAL->shape->dtype) ? hlo_literal_f64(LITERAL, k)
                                                            : (double)hlo_literal_i64(LITERAL, k));
  return xc_list((u32)LITERAL->shape->elements, l);
}
MEMBER(t_text) {
  (void)e;
  hs_buf b = {0};
  if (e->name[8]) hlo_put_literal(&b, LITERAL);
  else hlo_put_shaped_literal(&b, LITERAL);
  xc_value r = xc_str(v, (hs_str){b.p, b.n});
  hs_buf_free(&b);
  return r;
}
MEMBER(d_dilation) {
  (void)v;
  const hlo_window_dim *d = self.p;
  return xc_number((double)(*e->name == 'b' ? d->lhs_dilate : d->rhs_dilate));
}
MEMBER(d_reversal) {
  (void)v, (void)e;
  return xc_number(((const hlo_window_dim *)self.p)->reversal);
}
// Of a std::optional; a plain value has itself.
MEMBER(o_has_value) {
  (void)v, (void)e;
  return xc_number(self.kind != V_NULL);
}
MEMBER(x_size) {
  (void)v, (void)e;
  return xc_number((double)strlen(self.s));
}
MEMBER(x_contains) {
  xc_value x = e->n ? xc_eval(v, e->args[0]) : xc_unknown();
  return x.kind == V_STRING ? xc_number(strstr(self.s, x.s) != NULL) : xc_unknown();
}
MEMBER(x_empty) {
  (void)v, (void)e;
  return xc_number(!*self.s);
}
#undef SHAPE
#undef LAYOUT
#undef LITERAL
