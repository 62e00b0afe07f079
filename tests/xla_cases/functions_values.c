// functions_values.c — functions that make a value (shapes, layouts, literals, shardings) or ask
// something about one. functions.def names each with XLA's function name.
#include "tests/xla_cases/internal.h"

xc_value xc_arg_value(xc_env *v, const xc_expr *e, u32 k) {
  return k < e->n ? xc_eval(v, e->args[k]) : xc_unknown();
}
const char *xc_arg_text(xc_env *v, const xc_expr *e, u32 k) {
  xc_value x = xc_arg_value(v, e, k);
  return x.kind == V_STRING ? x.s : NULL;
}

FUNCTION(subshape) {
  xc_value s = xc_arg_value(v, e, 0), at = xc_arg_value(v, e, 1);
  const hlo_shape *x = s.kind == V_SHAPE ? s.p : NULL;
  if (at.kind == V_NUMBER)
    return x && at.number >= 0 && at.number < x->nelems ? xc_shape_value(x->elems[(u32)at.number])
                                                        : xc_unknown();
  for (u32 k = 0; x && at.kind == V_LIST && k < at.n; k++)
    x = at.v[k].number >= 0 && at.v[k].number < x->nelems ? x->elems[(u32)at.v[k].number] : NULL;
  return at.kind == V_LIST ? xc_shape_value(x) : xc_unknown();
}
FUNCTION(index_valid) {
  xc_value s = xc_arg_value(v, e, 0);
  return s.kind == V_SHAPE ? xc_number(xc_f_subshape(v, e).kind == V_SHAPE) : xc_unknown();
}
FUNCTION(nelems) {
  xc_value s = xc_arg_value(v, e, 0);
  return s.kind == V_SHAPE ? xc_number(((const hlo_shape *)s.p)->nelems) : xc_unknown();
}
FUNCTION(make_shape) {
  if (e->n < 2 || xc_dtype(e->args[0]) == HLO_DT_INVALID || e->args[1]->kind != E_LIST)
    return xc_unknown();
  i64 dims[24], order[24];
  u32 n = e->args[1]->n;
  for (u32 k = 0; k < n; k++) dims[k] = xc_arg(v, e->args[1], k, 0);
  bool dynamic[24] = {false}, any = false;
  bool flags = strcmp(xc_tail(e->name), "MakeShape") == 0 && e->n > 2;
  if (flags && (e->args[2]->kind != E_LIST || e->args[2]->n != n)) return xc_unknown();
  for (u32 k = 0; flags && k < n; k++) any |= dynamic[k] = xc_arg(v, e->args[2], k, 0) != 0;
  const hlo_shape *s =
      hlo_shape_with_default_layout(v->m->ctx, hlo_shape_dynamic(v->m->ctx, xc_dtype(e->args[0]), n,
                                                                 dims, any ? dynamic : NULL, NULL));
  if (strcmp(xc_tail(e->name), "MakeShapeWithDenseLayout") == 0) {
    if (e->n < 3 || e->args[2]->kind != E_LIST || e->args[2]->n != n) return xc_unknown();
    for (u32 k = 0; k < n; k++) order[k] = xc_arg(v, e->args[2], k, 0);
    hlo_layout l = *hlo_layout_default(v->m->ctx, n);
    l.minor_to_major = order;
    s = hlo_shape_with_layout(v->m->ctx, s, hlo_layout_intern(v->m->ctx, &l));
  }
  return xc_shape_value(s);
}
// Shape(X): a variable of the test, which case_setup.h may have given a layout
FUNCTION(shape_variable) {
  xc_value x = xc_arg_value(v, e, 0);
  for (u32 k = 0; x.kind == V_SHAPE && k < v->nshapes; k++)
    if (v->shapes[k].shape == ((const hlo_shape *)x.p)->logical)
      return xc_shape_value(hlo_shape_with_layout(v->m->ctx, x.p, v->shapes[k].layout));
  return x;
}
FUNCTION(module) {
  (void)e;
  return (xc_value){.kind = V_MODULE, .m = v->m};
}
FUNCTION(make_tuple) {
  xc_value l = xc_arg_value(v, e, 0);
  if (l.kind != V_LIST) return xc_unknown();
  const hlo_shape **s = HS_NEW_ARRAY(&v->a, const hlo_shape *, l.n + 1);
  for (u32 k = 0; k < l.n; k++) {
    if (l.v[k].kind != V_SHAPE) return xc_unknown();
    s[k] = l.v[k].p;
  }
  return xc_shape_value(hlo_shape_tuple(v->m->ctx, l.n, s));
}
FUNCTION(parse_shape) {
  const char *text = xc_arg_text(v, e, 0);
  const hlo_shape *s = NULL;
  if (!text) return xc_unknown();
  hs_status st = hlo_parse_shape(v->m->ctx, text, strlen(text), &s);
  return hs_ok(st) ? xc_shape_value(hlo_shape_fill_layout(v->m->ctx, s))
                   : (hs_status_drop(st), xc_unknown());
}
FUNCTION(make_layout) {
  xc_value l = xc_arg_value(v, e, 0);
  if (l.kind != V_LIST) return xc_unknown();
  i64 order[HLO_MAX_RANK];
  for (u32 k = 0; k < l.n; k++) order[k] = (i64)l.v[k].number;
  hlo_layout x = *hlo_layout_default(v->m->ctx, l.n);
  x.minor_to_major = order;
  return xc_layout_value(hlo_layout_intern(v->m->ctx, &x));
}
FUNCTION(shape_equal) {
  xc_value a = xc_arg_value(v, e, 0), b = xc_arg_value(v, e, 1);
  if (a.kind != V_SHAPE || b.kind != V_SHAPE) return xc_unknown();
  const hlo_shape *x = a.p, *y = b.p;
  const char *t = xc_tail(e->name);
  if (strcmp(t, "SameDimensions") == 0) return xc_number(hlo_shape_same_dims(x, y));
  return xc_number(strcmp(t, "Compatible") == 0 ? x->logical == y->logical
                                                : hlo_shape_fill_layout(v->m->ctx, x) ==
                                                      hlo_shape_fill_layout(v->m->ctx, y));
}
FUNCTION(layout_equal) {
  xc_value a = xc_arg_value(v, e, 0), b = xc_arg_value(v, e, 1);
  return a.kind == V_LAYOUT && b.kind == V_LAYOUT ? xc_number(a.p == b.p) : xc_unknown();
}
static bool xc_has_layouts(const hlo_shape *s) {
  for (u32 k = 0; hlo_shape_is_tuple(s) && k < s->nelems; k++)
    if (!xc_has_layouts(s->elems[k])) return false;
  return !hlo_shape_is_array(s) || s->layout;
}
FUNCTION(has_layout) {
  xc_value s = xc_arg_value(v, e, 0);
  return s.kind == V_SHAPE ? xc_number(xc_has_layouts(s.p)) : xc_unknown();
}

static hlo_dtype xc_cpp_type(const char *t) {
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
typedef HS_VEC(double) xc_doubles;
static void xc_flatten(xc_value x, u32 depth, i64 *dims, xc_doubles *out) {
  if (x.kind != V_LIST) {
    hs_vec_push(out, x.number);
    return;
  }
  dims[depth] = x.n;
  for (u32 k = 0; k < x.n; k++) xc_flatten(x.v[k], depth + 1, dims, out);
}
FUNCTION(literal) {  // LiteralUtil::CreateR2<float>({{1, 2}})
  const char *t = strstr(e->name, "CreateR");
  hlo_dtype type = xc_cpp_type(e->type);
  if (!t || !isdigit((unsigned char)t[7]) || type == HLO_DT_INVALID || e->n != 1)
    return xc_unknown();
  u32 rank = (u32)(t[7] - '0');
  i64 dims[16] = {0};
  xc_doubles all = {0};
  xc_flatten(xc_eval(v, e->args[0]), 0, dims, &all);
  hlo_literal *l = NULL;
  hs_status s = hlo_literal_new(
      hlo_shape_with_default_layout(v->m->ctx, hlo_shape_array(v->m->ctx, type, rank, dims)), &l);
  xc_value r = xc_unknown();
  if (hs_ok(s) && (i64)all.n == l->shape->elements) {
    for (size_t k = 0; k < all.n; k++) hlo_literal_set_f64(l, (i64)k, all.v[k]);
    r = xc_made(v, l);
  } else {
    hlo_literal_unref(l);
    hs_status_drop(s);
  }
  hs_vec_free(&all);
  return r;
}
FUNCTION(execute) {  // without arguments only
  xc_value args = xc_arg_value(v, e, 1);
  hlo_literal *out = NULL;
  if (args.kind != V_LIST || args.n) return xc_unknown();
  hs_status s = hlo_eval_module(v->m, 0, NULL, NULL, &out);
  return hs_ok(s) ? xc_made(v, out) : (hs_status_drop(s), xc_unknown());
}
FUNCTION(near) {  // Near(a, b, ErrorSpec{...}), Equal(a, b)
  xc_value a = xc_arg_value(v, e, 0), b = xc_arg_value(v, e, 1);
  if (a.kind != V_LITERAL || b.kind != V_LITERAL || e->n < 2) return xc_unknown();
  double abs = e->n > 2 && e->args[2]->n ? e->args[2]->args[0]->number : 0;
  hs_status s = hlo_compare(a.p, b.p, hlo_near(abs, 0));
  bool ok = hs_ok(s);
  hs_status_drop(s);
  return xc_number(ok);
}
FUNCTION(limit) {
  (void)v;
  const char *t = xc_tail(e->name);
  hlo_dtype d = xc_cpp_type(e->type);
  if (strcmp(t, "infinity") == 0) return xc_number(INFINITY);
  if (d == HLO_S32 && (strcmp(t, "max") == 0 || strcmp(t, "min") == 0 || strcmp(t, "lowest") == 0))
    return xc_number(*t == 'm' && t[1] == 'a' ? INT32_MAX : INT32_MIN);
  if (d == HLO_S64 && strcmp(t, "max") == 0) return xc_number((double)INT64_MAX);
  return xc_unknown();
}
static xc_value xc_one_shape(xc_env *v, const xc_expr *e, const hlo_shape **s) {
  xc_value x = xc_arg_value(v, e, 0);
  *s = x.kind == V_SHAPE ? x.p : NULL;
  return x;
}
// ShapeUtil::IsScalar(s), ElementsIn(s), ByteSizeOf(s)...
// pointers take 8 bytes, as XLA:CPU and the tests have it
static i64 xc_bytes_of(const hlo_shape *s) {
  if (hlo_shape_is_tuple(s)) return 8 * (i64)s->nelems;
  return hlo_shape_is_array(s) ? (s->elements * hlo_dtype_bits(s->dtype) + 7) / 8 : 0;
}
FUNCTION(of_shape) {
  const hlo_shape *s;
  (void)xc_one_shape(v, e, &s);
  const char *t = xc_tail(e->name);
  if (!s) return xc_unknown();
  bool array = hlo_shape_is_array(s);
#define IS(name) (strcmp(t, name) == 0)
  if (IS("IsScalar")) return xc_number(hlo_shape_is_scalar(s));
  if (IS("IsEffectiveScalar")) return xc_number(array && s->elements == 1);
  if (IS("IsZeroElementArray")) return xc_number(array && s->elements == 0);
  if (IS("ElementsIn")) return array ? xc_number((double)s->elements) : xc_unknown();
  if (IS("ByteSizeOf"))
    return array && hlo_dtype_bits(s->dtype) < 8 ? xc_unknown() : xc_number((double)xc_bytes_of(s));
  if (IS("ElementIsFloating")) return xc_number(array && hlo_dtype_is_float(s->dtype));
  if (IS("ElementIsIntegral")) return xc_number(array && hlo_dtype_is_integer(s->dtype));
  if (IS("TrueNumDimensions") || IS("TrueRank")) {
    u32 n = 0;
    for (u32 d = 0; array && d < s->rank; d++) n += s->dims[d] != 1;
    return xc_number(n);
  }
  if (IS("HumanString") || IS("HumanStringWithLayout")) {
    hs_buf b = {0};
    hlo_shape_print(&b, s, IS("HumanStringWithLayout"));
    xc_value r = xc_str(v, (hs_str){b.p, b.n});
    hs_buf_free(&b);
    return r;
  }
#undef IS
  return xc_unknown();
}
FUNCTION(make_scalar) {
  return e->n && xc_dtype(e->args[0]) != HLO_DT_INVALID
             ? xc_shape_value(hlo_shape_fill_layout(
                   v->m->ctx, hlo_shape_scalar(v->m->ctx, xc_dtype(e->args[0]))))
             : xc_unknown();
}
FUNCTION(make_nil) {
  (void)e;
  return xc_shape_value(hlo_shape_tuple(v->m->ctx, 0, NULL));
}
FUNCTION(make_token) {
  (void)e;
  return xc_shape_value(hlo_shape_token(v->m->ctx));
}
// GetDefaultLayoutForR3(), MakeDescendingLayout(3), GetDefaultLayoutForShape(s)
FUNCTION(default_layout) {
  const char *t = xc_tail(e->name);
  xc_value x = xc_arg_value(v, e, 0);
  if (strncmp(t, "GetDefaultLayoutForR", 20) == 0 && isdigit((unsigned char)t[20]))
    return xc_layout_value(hlo_layout_default(v->m->ctx, (u32)(t[20] - '0')));
  if (x.kind == V_SHAPE)
    return xc_layout_value(hlo_layout_default(v->m->ctx, ((const hlo_shape *)x.p)->rank));
  if (x.kind != V_NUMBER || x.number < 0 || x.number > HLO_MAX_RANK) return xc_unknown();
  u32 rank = (u32)x.number;
  i64 order[HLO_MAX_RANK];
  for (u32 d = 0; d < rank; d++) order[d] = strstr(t, "Ascending") ? d : rank - 1 - d;
  hlo_layout l = *hlo_layout_default(v->m->ctx, rank);
  l.minor_to_major = order;
  return xc_layout_value(hlo_layout_intern(v->m->ctx, &l));
}
FUNCTION(layout_is) {  // IsMonotonicWithDim0Major(layout)
  xc_value x = xc_arg_value(v, e, 0);
  const hlo_layout *l = x.kind == V_LAYOUT ? x.p : NULL;
  if (!l) return xc_unknown();
  bool row_major = true, col_major = true;
  for (u32 d = 0; d < l->rank; d++)
    row_major &= l->minor_to_major[d] == (i64)(l->rank - 1 - d),
        col_major &= l->minor_to_major[d] == (i64)d;
  return xc_number(strstr(e->name, "Dim0Major") ? row_major : col_major);
}
FUNCTION(layouts_equal) {  // LayoutsInShapesEqual(s, t)
  xc_value a = xc_arg_value(v, e, 0), b = xc_arg_value(v, e, 1);
  if (a.kind != V_SHAPE || b.kind != V_SHAPE) return xc_unknown();
  const hlo_shape *x = a.p, *y = b.p;
  return hlo_shape_is_array(x) && hlo_shape_is_array(y) ? xc_number(x->layout == y->layout)
                                                        : xc_unknown();
}
FUNCTION(literal_of_type) {  // LiteralUtil::Zero(F32), One(F32)
  if (!e->n || xc_dtype(e->args[0]) == HLO_DT_INVALID) return xc_unknown();
  return xc_made(v, hlo_literal_scalar_f64(v->m->ctx, xc_dtype(e->args[0]),
                                           strcmp(xc_tail(e->name), "One") == 0));
}
FUNCTION(sharding) {  // ParseSharding("..."), HloSharding::Replicate()
  static const struct {
    const char *name, *text;
  } plain[] = {{"Replicate", "{replicated}"}, {"Manual", "{manual}"}, {"Unknown", "{unknown}"}};
  const char *t = xc_tail(e->name), *text = xc_arg_text(v, e, 0);
  if (strcmp(t, "ParseSharding") == 0) return text ? xc_sharding_of_text(v, text) : xc_unknown();
  for (size_t k = 0; k < HS_COUNT(plain); k++)
    if (strcmp(plain[k].name, t) == 0 && e->n == 0) return xc_sharding_of_text(v, plain[k].text);
  if (strcmp(t, "AssignDevice") != 0 || e->n != 1 || xc_arg(v, e, 0, -1) < 0) return xc_unknown();
  char one[64];
  snprintf(one, sizeof one, "{maximal device=%lld}", (long long)xc_arg(v, e, 0, 0));
  return xc_sharding_of_text(v, one);
}
// evaluator.Evaluate(module, {&MakeFakeLiteral(shape), ...}): random values that stand for each
// other by their place.
static xc_value xc_fake_argument(xc_env *v, const xc_expr *e, u32 place) {
  if (e->kind != E_CALL || strcmp(xc_tail(e->name), "MakeFakeLiteral") != 0 || e->n < 1)
    return xc_eval(v, e);
  xc_value s = xc_eval(v, e->args[0]);
  hlo_literal *l = NULL;
  if (s.kind != V_SHAPE) return xc_unknown();
  hs_status st = hlo_input_by_words(s.p, "random(-0.1,0.2)", place, &l);
  return hs_ok(st) ? xc_made(v, l) : (hs_status_drop(st), xc_unknown());
}
xc_value xc_evaluate(xc_env *v, const hlo_module *m, const xc_expr *args) {
  hlo_literal *in[HS_COUNT(args->args)], *out = NULL;
  if (args->kind != E_LIST || args->n != m->entry->nparams) return xc_unknown();
  for (u32 k = 0; k < args->n; k++) {
    xc_value x = xc_fake_argument(v, args->args[k], k);
    if (x.kind != V_LITERAL ||
        ((const hlo_literal *)x.p)->shape->logical != m->entry->params[k]->shape->logical)
      return xc_unknown();
    in[k] = (hlo_literal *)(uintptr_t)x.p;  // borrowed
  }
  hs_status s = hlo_eval_module(m, args->n, in, NULL, &out);
  return hs_ok(s) ? xc_made(v, out) : (hs_status_drop(s), xc_unknown());
}
