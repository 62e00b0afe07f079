// terms_values.h — functions that make values (shapes, layouts, literals, shardings) or say
// something about one.
#ifndef TESTS_TERMS_VALUES_H
#define TESTS_TERMS_VALUES_H

#include "tests/drivers/terms_parts.h"

typedef m_value m_function_fn(m_env *, const m_expr *);
#define FUNCTION(fn) static inline m_value m_f_##fn(m_env *v, const m_expr *e)
static inline m_value m_arg_value(m_env *v, const m_expr *e, u32 k) {
  return k < e->n ? m_eval(v, e->args[k]) : m_unknown();
}
static inline const char *m_arg_text(m_env *v, const m_expr *e, u32 k) {
  m_value x = m_arg_value(v, e, k);
  return x.kind == V_STRING ? x.s : NULL;
}

FUNCTION(subshape) {
  m_value s = m_arg_value(v, e, 0), at = m_arg_value(v, e, 1);
  const hlo_shape *x = s.kind == V_SHAPE ? s.p : NULL;
  if (at.kind == V_NUMBER)
    return x && at.number >= 0 && at.number < x->nelems ? m_shape_value(x->elems[(u32)at.number])
                                                        : m_unknown();
  for (u32 k = 0; x && at.kind == V_LIST && k < at.n; k++)
    x = at.v[k].number >= 0 && at.v[k].number < x->nelems ? x->elems[(u32)at.v[k].number] : NULL;
  return at.kind == V_LIST ? m_shape_value(x) : m_unknown();
}
FUNCTION(index_valid) {
  m_value s = m_arg_value(v, e, 0);
  return s.kind == V_SHAPE ? m_number(m_f_subshape(v, e).kind == V_SHAPE) : m_unknown();
}
FUNCTION(nelems) {
  m_value s = m_arg_value(v, e, 0);
  return s.kind == V_SHAPE ? m_number(((const hlo_shape *)s.p)->nelems) : m_unknown();
}
FUNCTION(make_shape) {
  if (e->n < 2 || m_dtype(e->args[0]) == HLO_DT_INVALID || e->args[1]->kind != E_LIST)
    return m_unknown();
  i64 dims[24], order[24];
  u32 n = e->args[1]->n;
  for (u32 k = 0; k < n; k++) dims[k] = m_arg(v, e->args[1], k, 0);
  const hlo_shape *s = hlo_shape_with_default_layout(
      v->m->ctx, hlo_shape_array(v->m->ctx, m_dtype(e->args[0]), n, dims));
  if (strcmp(m_tail(e->name), "MakeShapeWithDenseLayout") == 0) {
    if (e->n < 3 || e->args[2]->kind != E_LIST || e->args[2]->n != n) return m_unknown();
    for (u32 k = 0; k < n; k++) order[k] = m_arg(v, e->args[2], k, 0);
    hlo_layout l = *hlo_layout_default(v->m->ctx, n);
    l.minor_to_major = order;
    s = hlo_shape_with_layout(v->m->ctx, s, hlo_layout_intern(v->m->ctx, &l));
  }
  return m_shape_value(s);
}
// Shape(X): a variable of the test, which case_setup.h may have given a layout
FUNCTION(shape_variable) {
  m_value x = m_arg_value(v, e, 0);
  for (u32 k = 0; x.kind == V_SHAPE && k < v->nshapes; k++)
    if (v->shapes[k].shape == ((const hlo_shape *)x.p)->logical)
      return m_shape_value(hlo_shape_with_layout(v->m->ctx, x.p, v->shapes[k].layout));
  return x;
}
FUNCTION(module) {
  (void)e;
  return (m_value){.kind = V_MODULE, .m = v->m};
}
FUNCTION(make_tuple) {
  m_value l = m_arg_value(v, e, 0);
  if (l.kind != V_LIST) return m_unknown();
  const hlo_shape **s = HS_NEW_ARRAY(&v->a, const hlo_shape *, l.n + 1);
  for (u32 k = 0; k < l.n; k++) {
    if (l.v[k].kind != V_SHAPE) return m_unknown();
    s[k] = l.v[k].p;
  }
  return m_shape_value(hlo_shape_tuple(v->m->ctx, l.n, s));
}
FUNCTION(parse_shape) {
  const char *text = m_arg_text(v, e, 0);
  const hlo_shape *s = NULL;
  if (!text) return m_unknown();
  hs_status st = hlo_parse_shape(v->m->ctx, text, strlen(text), &s);
  return hs_ok(st) ? m_shape_value(hlo_shape_fill_layout(v->m->ctx, s))
                   : (hs_status_drop(st), m_unknown());
}
FUNCTION(make_layout) {
  m_value l = m_arg_value(v, e, 0);
  if (l.kind != V_LIST) return m_unknown();
  i64 order[HLO_MAX_RANK];
  for (u32 k = 0; k < l.n; k++) order[k] = (i64)l.v[k].number;
  hlo_layout x = *hlo_layout_default(v->m->ctx, l.n);
  x.minor_to_major = order;
  return m_layout_value(hlo_layout_intern(v->m->ctx, &x));
}
FUNCTION(shape_equal) {
  m_value a = m_arg_value(v, e, 0), b = m_arg_value(v, e, 1);
  if (a.kind != V_SHAPE || b.kind != V_SHAPE) return m_unknown();
  const hlo_shape *x = a.p, *y = b.p;
  const char *t = m_tail(e->name);
  if (strcmp(t, "SameDimensions") == 0) return m_number(hlo_shape_same_dims(x, y));
  return m_number(strcmp(t, "Compatible") == 0
                      ? x->logical == y->logical
                      : hlo_shape_fill_layout(v->m->ctx, x) == hlo_shape_fill_layout(v->m->ctx, y));
}
FUNCTION(layout_equal) {
  m_value a = m_arg_value(v, e, 0), b = m_arg_value(v, e, 1);
  return a.kind == V_LAYOUT && b.kind == V_LAYOUT ? m_number(a.p == b.p) : m_unknown();
}
static inline bool m_has_layouts(const hlo_shape *s) {
  for (u32 k = 0; hlo_shape_is_tuple(s) && k < s->nelems; k++)
    if (!m_has_layouts(s->elems[k])) return false;
  return !hlo_shape_is_array(s) || s->layout;
}
FUNCTION(has_layout) {
  m_value s = m_arg_value(v, e, 0);
  return s.kind == V_SHAPE ? m_number(m_has_layouts(s.p)) : m_unknown();
}

static inline hlo_dtype m_cpp_type(const char *t) {
  static const struct {
    const char *cpp;
    hlo_dtype t;
  } types[] = {{"float", HLO_F32},    {"double", HLO_F64},      {"int32_t", HLO_S32},
               {"int64_t", HLO_S64},  {"int", HLO_S32},         {"uint32_t", HLO_U32},
               {"uint64_t", HLO_U64}, {"bool", HLO_PRED},       {"int8_t", HLO_S8},
               {"uint8_t", HLO_U8},   {"int16_t", HLO_S16},     {"bfloat16", HLO_BF16},
               {"half", HLO_F16},     {"Eigen::half", HLO_F16}, {"uint16_t", HLO_U16}};
  for (size_t k = 0; t && k < HS_COUNT(types); k++)
    if (strcmp(types[k].cpp, t) == 0) return types[k].t;
  return HLO_DT_INVALID;
}
typedef HS_VEC(double) m_doubles;
static inline void m_flatten(m_value x, u32 depth, i64 *dims, m_doubles *out) {
  if (x.kind != V_LIST) {
    hs_vec_push(out, x.number);
    return;
  }
  dims[depth] = x.n;
  for (u32 k = 0; k < x.n; k++) m_flatten(x.v[k], depth + 1, dims, out);
}
FUNCTION(literal) {  // LiteralUtil::CreateR2<float>({{1, 2}})
  const char *t = strstr(e->name, "CreateR");
  hlo_dtype type = m_cpp_type(e->type);
  if (!t || !isdigit((unsigned char)t[7]) || type == HLO_DT_INVALID || e->n != 1)
    return m_unknown();
  u32 rank = (u32)(t[7] - '0');
  i64 dims[16] = {0};
  m_doubles all = {0};
  m_flatten(m_eval(v, e->args[0]), 0, dims, &all);
  hlo_literal *l = NULL;
  hs_status s = hlo_literal_new(
      hlo_shape_with_default_layout(v->m->ctx, hlo_shape_array(v->m->ctx, type, rank, dims)), &l);
  m_value r = m_unknown();
  if (hs_ok(s) && (i64)all.n == l->shape->elements) {
    for (size_t k = 0; k < all.n; k++) hlo_literal_set_f64(l, (i64)k, all.v[k]);
    r = m_made(v, l);
  } else {
    hlo_literal_unref(l);
    hs_status_drop(s);
  }
  hs_vec_free(&all);
  return r;
}
FUNCTION(execute) {  // without arguments only
  m_value args = m_arg_value(v, e, 1);
  hlo_literal *out = NULL;
  if (args.kind != V_LIST || args.n) return m_unknown();
  hs_status s = hlo_eval_module(v->m, 0, NULL, NULL, &out);
  return hs_ok(s) ? m_made(v, out) : (hs_status_drop(s), m_unknown());
}
FUNCTION(near) {  // Near(a, b, ErrorSpec{...}), Equal(a, b)
  m_value a = m_arg_value(v, e, 0), b = m_arg_value(v, e, 1);
  if (a.kind != V_LITERAL || b.kind != V_LITERAL || e->n < 2) return m_unknown();
  double abs = e->n > 2 && e->args[2]->n ? e->args[2]->args[0]->number : 0;
  hs_status s = hlo_compare(a.p, b.p, (hlo_tolerance){abs, 0});
  bool ok = hs_ok(s);
  hs_status_drop(s);
  return m_number(ok);
}
FUNCTION(limit) {
  (void)v;
  const char *t = m_tail(e->name);
  hlo_dtype d = m_cpp_type(e->type);
  if (strcmp(t, "infinity") == 0) return m_number(INFINITY);
  if (d == HLO_S32 && (strcmp(t, "max") == 0 || strcmp(t, "min") == 0 || strcmp(t, "lowest") == 0))
    return m_number(*t == 'm' && t[1] == 'a' ? INT32_MAX : INT32_MIN);
  if (d == HLO_S64 && strcmp(t, "max") == 0) return m_number((double)INT64_MAX);
  return m_unknown();
}
static inline m_value m_one_shape(m_env *v, const m_expr *e, const hlo_shape **s) {
  m_value x = m_arg_value(v, e, 0);
  *s = x.kind == V_SHAPE ? x.p : NULL;
  return x;
}
// ShapeUtil::IsScalar(s), ElementsIn(s), ByteSizeOf(s)...
// pointers take 8 bytes, as XLA:CPU and the tests have it
static inline i64 m_bytes_of(const hlo_shape *s) {
  if (hlo_shape_is_tuple(s)) return 8 * (i64)s->nelems;
  return hlo_shape_is_array(s) ? (s->elements * hlo_dtype_bits(s->dtype) + 7) / 8 : 0;
}
FUNCTION(of_shape) {
  const hlo_shape *s;
  (void)m_one_shape(v, e, &s);
  const char *t = m_tail(e->name);
  if (!s) return m_unknown();
  bool array = hlo_shape_is_array(s);
#define IS(name) (strcmp(t, name) == 0)
  if (IS("IsScalar")) return m_number(hlo_shape_is_scalar(s));
  if (IS("IsEffectiveScalar")) return m_number(array && s->elements == 1);
  if (IS("IsZeroElementArray")) return m_number(array && s->elements == 0);
  if (IS("ElementsIn")) return array ? m_number((double)s->elements) : m_unknown();
  if (IS("ByteSizeOf"))
    return array && hlo_dtype_bits(s->dtype) < 8 ? m_unknown() : m_number((double)m_bytes_of(s));
  if (IS("ElementIsFloating")) return m_number(array && hlo_dtype_is_float(s->dtype));
  if (IS("ElementIsIntegral")) return m_number(array && hlo_dtype_is_integer(s->dtype));
  if (IS("TrueNumDimensions") || IS("TrueRank")) {
    u32 n = 0;
    for (u32 d = 0; array && d < s->rank; d++) n += s->dims[d] != 1;
    return m_number(n);
  }
  if (IS("HumanString") || IS("HumanStringWithLayout")) {
    hs_buf b = {0};
    hlo_shape_print(&b, s, IS("HumanStringWithLayout"));
    m_value r = m_str(v, (hs_str){b.p, b.n});
    hs_buf_free(&b);
    return r;
  }
#undef IS
  return m_unknown();
}
FUNCTION(make_scalar) {
  return e->n && m_dtype(e->args[0]) != HLO_DT_INVALID
             ? m_shape_value(hlo_shape_fill_layout(
                   v->m->ctx, hlo_shape_scalar(v->m->ctx, m_dtype(e->args[0]))))
             : m_unknown();
}
FUNCTION(make_nil) {
  (void)e;
  return m_shape_value(hlo_shape_tuple(v->m->ctx, 0, NULL));
}
FUNCTION(make_token) {
  (void)e;
  return m_shape_value(hlo_shape_token(v->m->ctx));
}
// GetDefaultLayoutForR3(), MakeDescendingLayout(3), GetDefaultLayoutForShape(s)
FUNCTION(default_layout) {
  const char *t = m_tail(e->name);
  m_value x = m_arg_value(v, e, 0);
  if (strncmp(t, "GetDefaultLayoutForR", 20) == 0 && isdigit((unsigned char)t[20]))
    return m_layout_value(hlo_layout_default(v->m->ctx, (u32)(t[20] - '0')));
  if (x.kind == V_SHAPE)
    return m_layout_value(hlo_layout_default(v->m->ctx, ((const hlo_shape *)x.p)->rank));
  if (x.kind != V_NUMBER || x.number < 0 || x.number > HLO_MAX_RANK) return m_unknown();
  u32 rank = (u32)x.number;
  i64 order[HLO_MAX_RANK];
  for (u32 d = 0; d < rank; d++) order[d] = strstr(t, "Ascending") ? d : rank - 1 - d;
  hlo_layout l = *hlo_layout_default(v->m->ctx, rank);
  l.minor_to_major = order;
  return m_layout_value(hlo_layout_intern(v->m->ctx, &l));
}
FUNCTION(layout_is) {  // IsMonotonicWithDim0Major(layout)
  m_value x = m_arg_value(v, e, 0);
  const hlo_layout *l = x.kind == V_LAYOUT ? x.p : NULL;
  if (!l) return m_unknown();
  bool row_major = true, col_major = true;
  for (u32 d = 0; d < l->rank; d++)
    row_major &= l->minor_to_major[d] == (i64)(l->rank - 1 - d),
        col_major &= l->minor_to_major[d] == (i64)d;
  return m_number(strstr(e->name, "Dim0Major") ? row_major : col_major);
}
FUNCTION(layouts_equal) {  // LayoutsInShapesEqual(s, t)
  m_value a = m_arg_value(v, e, 0), b = m_arg_value(v, e, 1);
  if (a.kind != V_SHAPE || b.kind != V_SHAPE) return m_unknown();
  const hlo_shape *x = a.p, *y = b.p;
  return hlo_shape_is_array(x) && hlo_shape_is_array(y) ? m_number(x->layout == y->layout)
                                                        : m_unknown();
}
FUNCTION(literal_of_type) {  // LiteralUtil::Zero(F32), One(F32)
  if (!e->n || m_dtype(e->args[0]) == HLO_DT_INVALID) return m_unknown();
  return m_made(v, hlo_literal_scalar_f64(v->m->ctx, m_dtype(e->args[0]),
                                          strcmp(m_tail(e->name), "One") == 0));
}
FUNCTION(sharding) {  // ParseSharding("..."), HloSharding::Replicate()
  static const struct {
    const char *name, *text;
  } plain[] = {{"Replicate", "{replicated}"}, {"Manual", "{manual}"}, {"Unknown", "{unknown}"}};
  const char *t = m_tail(e->name), *text = m_arg_text(v, e, 0);
  if (strcmp(t, "ParseSharding") == 0) return text ? m_sharding_of_text(v, text) : m_unknown();
  for (size_t k = 0; k < HS_COUNT(plain); k++)
    if (strcmp(plain[k].name, t) == 0 && e->n == 0) return m_sharding_of_text(v, plain[k].text);
  if (strcmp(t, "AssignDevice") != 0 || e->n != 1 || m_arg(v, e, 0, -1) < 0) return m_unknown();
  char one[64];
  snprintf(one, sizeof one, "{maximal device=%lld}", (long long)m_arg(v, e, 0, 0));
  return m_sharding_of_text(v, one);
}
// evaluator.Evaluate(module, {&MakeFakeLiteral(shape), ...}): random values that stand for each
// other by their place.
static inline m_value m_fake_argument(m_env *v, const m_expr *e, u32 place) {
  if (e->kind != E_CALL || strcmp(m_tail(e->name), "MakeFakeLiteral") != 0 || e->n < 1)
    return m_eval(v, e);
  m_value s = m_eval(v, e->args[0]);
  hlo_literal *l = NULL;
  if (s.kind != V_SHAPE) return m_unknown();
  hs_status st = hlo_input_by_words(s.p, "random(-0.1,0.2)", place, &l);
  return hs_ok(st) ? m_made(v, l) : (hs_status_drop(st), m_unknown());
}
static inline m_value m_evaluate(m_env *v, const hlo_module *m, const m_expr *args) {
  hlo_literal *in[HS_COUNT(args->args)], *out = NULL;
  if (args->kind != E_LIST || args->n != m->entry->nparams) return m_unknown();
  for (u32 k = 0; k < args->n; k++) {
    m_value x = m_fake_argument(v, args->args[k], k);
    if (x.kind != V_LITERAL ||
        ((const hlo_literal *)x.p)->shape->logical != m->entry->params[k]->shape->logical)
      return m_unknown();
    in[k] = (hlo_literal *)(uintptr_t)x.p;  // borrowed
  }
  hs_status s = hlo_eval_module(m, args->n, in, NULL, &out);
  return hs_ok(s) ? m_made(v, out) : (hs_status_drop(s), m_unknown());
}

#endif
