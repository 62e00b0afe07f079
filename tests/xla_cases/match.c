// match.c — XLA's patterns over instructions: m::Add(m::Parameter(0), m::ConstantScalar(1))
// .WithShape(F32, {2}) of pattern_matcher.h and op::Add(...) of hlo_matchers.h.
//
// Answers are three-valued: YES, NO, and UNKNOWN for a matcher that is not covered. A case that
// depends on UNKNOWN counts as not checkable, never as passed.
#include "tests/xla_cases/internal.h"

static xc_answer xc_list_equals(const xc_expr *list, hlo_ints v) {
  if (list->kind != E_LIST) return XC_UNKNOWN;
  if (list->n != v.n) return XC_NO;
  for (u32 k = 0; k < v.n; k++)
    if ((i64)list->args[k]->number != v.v[k]) return XC_NO;
  return XC_YES;
}

// ---- matching -----------------------------------------------------------------------------------

static void xc_bind(xc_env *v, const char *name, hlo_instr *i) {
  for (u32 k = 0; k < v->nbound; k++)
    if (strcmp(v->bound[k].name, name) == 0) {
      v->bound[k].i = i;
      return;
    }
  if (v->nbound < 32) v->bound[v->nbound].name = name, v->bound[v->nbound++].i = i;
}

static xc_answer xc_scalar_value(xc_env *v, const hlo_instr *i, const xc_expr *value) {
  const hlo_literal *l = hlo_constant_value(i);
  if (!l || l->elided || l->shape->elements != 1) return XC_NO;
  if (!value) return XC_YES;
  xc_value x = xc_eval(v, value);
  if (x.kind != V_NUMBER) return XC_UNKNOWN;
  if (hlo_dtype_is_integer(l->shape->dtype) || l->shape->dtype == HLO_PRED)
    return xc_yes((double)hlo_literal_i64(l, 0) == x.number);
  return xc_yes(hlo_literal_f64(l, 0) == x.number);
}

static xc_answer xc_operands(xc_env *v, const xc_expr *p, u32 from, u32 to, hlo_instr *i,
                             bool any_order) {
  u32 n = to - from;
  if (i->noperands < n) return XC_NO;
  if (any_order && n == 2) {
    xc_answer a = xc_both(xc_match(v, p->args[from], hlo_operand(i, 0)),
                          xc_match(v, p->args[from + 1], hlo_operand(i, 1)));
    if (a == XC_YES) return a;
    xc_answer b = xc_both(xc_match(v, p->args[from], hlo_operand(i, 1)),
                          xc_match(v, p->args[from + 1], hlo_operand(i, 0)));
    return b == XC_YES ? b : a == XC_UNKNOWN || b == XC_UNKNOWN ? XC_UNKNOWN : XC_NO;
  }
  xc_answer all = XC_YES;
  for (u32 k = 0; k < n; k++) all = xc_both(all, xc_match(v, p->args[from + k], hlo_operand(i, k)));
  return all;
}

static bool xc_variadic(hlo_opcode op) {
  switch (op) {
  case HLO_AFTER_ALL:
  case HLO_ALL_GATHER:
  case HLO_ALL_REDUCE:
  case HLO_ASYNC_START:
  case HLO_CALL:
  case HLO_CONCATENATE:
  case HLO_CONDITIONAL:
  case HLO_CUSTOM_CALL:
  case HLO_DYNAMIC_SLICE:
  case HLO_DYNAMIC_UPDATE_SLICE:
  case HLO_FUSION:
  case HLO_MAP:
  case HLO_REDUCE:
  case HLO_REDUCE_SCATTER:
  case HLO_REDUCE_WINDOW:
  case HLO_SCALED_DOT:
  case HLO_SCATTER:
  case HLO_SORT:
  case HLO_TUPLE: return true;
  default: return false;
  }
}

static xc_answer xc_shape_text(xc_env *v, const xc_expr *text, const hlo_instr *i, bool layout) {
  if (text->kind != E_STRING) {
    xc_value x = xc_eval(v, text);
    return x.kind != V_SHAPE ? XC_UNKNOWN
           : layout          ? xc_equal(v, x, xc_shape_value(i->shape))
                             : xc_yes(((const hlo_shape *)x.p)->logical == i->shape->logical);
  }
  const hlo_shape *s;
  hs_status st = hlo_parse_shape(v->m->ctx, text->name, strlen(text->name), &s);
  if (!hs_ok(st)) return hs_status_drop(st), XC_UNKNOWN;
  return xc_yes(layout ? hlo_shape_fill_layout(v->m->ctx, s) ==
                             hlo_shape_fill_layout(v->m->ctx, i->shape)
                       : s->logical == i->shape->logical);
}

// LiteralUtil::CreateR0<float>(1)
static xc_answer xc_literal(xc_env *v, const xc_expr *e, const hlo_instr *i) {
  const hlo_literal *l = hlo_constant_value(i);
  if (!l || l->elided) return XC_NO;
  xc_value x = xc_eval(v, e);
  return x.kind != V_LITERAL ? XC_UNKNOWN : xc_yes(hlo_literal_equal(l, x.p));
}

// A name that stands for a text, or a matcher of texts: what op::CustomCall may begin with.
static bool xc_is_text_matcher(xc_env *v, const xc_expr *e) {
  static const char *const names[] = {"HasSubstr",    "StartsWith",    "EndsWith",
                                      "MatchesRegex", "ContainsRegex", "StrEq"};
  for (size_t k = 0; k < HS_COUNT(names) && e->kind == E_CALL && !e->on; k++)
    if (strcmp(xc_tail(e->name), names[k]) == 0) return true;
  return e->kind == E_NAME && !e->on && xc_eval(v, e).kind == V_STRING;
}

static xc_answer xc_opcode_match(xc_env *v, const xc_expr *p, hlo_instr *i, const char *name,
                                 bool op_family) {
  char base[96];
  snprintf(base, sizeof base, "%s", name);
  size_t n = strlen(base);
  bool any = n > 8 && strcmp(base + n - 8, "AnyOrder") == 0;
  if (any) base[n - 8] = '\0';
  u32 from = p->n && p->args[0]->kind == E_REF ? 1 : 0, to = p->n;
  int dir = xc_direction(base);
  hlo_opcode op = dir >= 0 ? HLO_COMPARE : xc_opcode(base);
  if (op == HLO_OP_INVALID) return XC_UNKNOWN;
  if (i->opcode != op) return XC_NO;
  xc_answer all = XC_YES;
  if (dir >= 0 && !any) all = xc_yes(hlo_attr_int(i, HLO_ATTR_DIRECTION, -1) == dir);
  if (op == HLO_PARAMETER) {
    if (to > from && p->args[from]->kind == E_NUMBER)
      all = xc_yes(hlo_param_number(i) == (i64)p->args[from]->number);
    from = to;
  } else if (op == HLO_CONSTANT) {
    if (to > from) all = xc_literal(v, p->args[from], i);
    from = to;
  } else if (op == HLO_GET_TUPLE_ELEMENT && to > from + 1 && p->args[to - 1]->kind == E_NUMBER) {
    all = xc_yes(hlo_attr_int(i, HLO_ATTR_INDEX, -1) == (i64)p->args[--to]->number);
  } else if (op == HLO_CUSTOM_CALL && to > from && xc_is_text_matcher(v, p->args[from])) {
    all = xc_satisfies(v, xc_str(v, hlo_attr_str(i, HLO_ATTR_CUSTOM_CALL_TARGET)), p->args[from++]);
  } else if (op == HLO_CUSTOM_CALL && to > from &&
             (p->args[from]->kind == E_LIST || p->args[from]->kind == E_STRING)) {
    const xc_expr *t = p->args[from++];
    hs_str target = hlo_attr_str(i, HLO_ATTR_CUSTOM_CALL_TARGET);
    bool hit = false, known = true;
    for (u32 k = 0; k < (t->kind == E_LIST ? t->n : 1); k++) {
      const xc_expr *s = t->kind == E_LIST ? t->args[k] : t;
      // the parameter of XLA's tests of products: the library that our pass calls by default
      bool library =
          s->kind == E_CALL && !s->on && strcmp(xc_tail(s->name), "CustomCallTarget") == 0;
      if (library) hit |= hs_str_eq(HS_STR("__cublas$lt$matmul"), target);
      else {
        xc_value x = xc_eval(v, s);
        if (x.kind == V_STRING) hit |= hs_str_eq(hs_str_of(x.s), target);
        else known = false;
      }
    }
    all = hit ? XC_YES : known ? XC_NO : XC_UNKNOWN;
  } else if (op == HLO_DOT && op_family && to - from == 4) {
    hlo_ints l = hlo_attr_ints(i, HLO_ATTR_LHS_CONTRACTING_DIMS),
             r = hlo_attr_ints(i, HLO_ATTR_RHS_CONTRACTING_DIMS);
    all = xc_yes(l.n == 1 && r.n == 1 && l.v[0] == (i64)p->args[to - 2]->number &&
                 r.v[0] == (i64)p->args[to - 1]->number);
    to -= 2;
  }
  for (u32 k = from; k < to; k++)
    if (p->args[k]->kind == E_NUMBER) return XC_UNKNOWN;
  if (to > from && (op_family || xc_variadic(op)) && to - from != i->noperands) return XC_NO;
  if (to <= from) return all;
  return xc_both(all, xc_operands(v, p, from, to, i, any || (dir >= 0 && any)));
}

// op::Metadata(opts(variable; op_name="x")): these fields, and no others.
static xc_answer xc_metadata_match(xc_env *v, const xc_expr *want, const hlo_instr *i) {
  if (want->kind != E_CALL || strcmp(want->name, "opts") != 0) return XC_UNKNOWN;
  static const struct {
    const char *field;
    size_t at;
  } texts[] = {{"op_name", offsetof(hlo_metadata, op_name)},
               {"op_type", offsetof(hlo_metadata, op_type)},
               {"source_file", offsetof(hlo_metadata, source_file)}};
  const hlo_metadata *d = hlo_metadata_of(i);
  bool said[HS_COUNT(texts)] = {0}, same = true;
  for (u32 k = 1; k < want->n; k++) {
    const xc_expr *f = want->args[k];
    size_t t = 0;
    while (t < HS_COUNT(texts) && !(f->key && strcmp(texts[t].field, f->key) == 0)) t++;
    if (t == HS_COUNT(texts) || f->kind != E_STRING) return XC_UNKNOWN;
    said[t] = true;
    same &= d && hs_str_eq(*(const hs_str *)(const void *)((const char *)d + texts[t].at),
                           hs_str_of(f->name));
  }
  for (size_t t = 0; t < HS_COUNT(texts); t++)
    same &= said[t] || !d || !((const hs_str *)(const void *)((const char *)d + texts[t].at))->n;
  (void)v;
  return xc_yes(same);
}

// ---- matchers of the op family that are no opcodes ----------------------------------------------
typedef xc_answer xc_op_matcher_fn(xc_env *, const xc_expr *, hlo_instr *);
static xc_answer xc_op_metadata(xc_env *v, const xc_expr *p, hlo_instr *i) {
  return xc_metadata_match(v, p->args[0], i);
}
static xc_answer xc_op_sharding(xc_env *v, const xc_expr *p, hlo_instr *i) {
  xc_value x = xc_eval(v, p->args[0]);
  const hlo_sharding *s = hlo_attr_ptr(i, HLO_ATTR_SHARDING);
  if (x.kind == V_STRING) x = xc_sharding_of_text(v, x.s);
  return x.kind != V_SHARDING ? XC_UNKNOWN : s ? xc_same_sharding(v, s, x.p) : XC_NO;
}
static xc_answer xc_op_no_sharding(xc_env *v, const xc_expr *p, hlo_instr *i) {
  (void)v, (void)p;
  return xc_yes(!hlo_attr_get(i, HLO_ATTR_SHARDING));
}
static xc_answer xc_op_frontend(xc_env *v, const xc_expr *p, hlo_instr *i) {
  xc_value want = xc_eval(v, p->args[1]);
  const hlo_frontend_entry *x = xc_frontend_find(v, xc_instr(i), p);
  return want.kind != V_STRING || xc_eval(v, p->args[0]).kind != V_STRING
             ? XC_UNKNOWN
             : xc_yes(x && hs_str_eq(x->value, hs_str_of(want.s)));
}
static xc_answer xc_op_groups(xc_env *v, const xc_expr *p, hlo_instr *i) {
  return hlo_op_has(i->opcode, HLO_F_COLLECTIVE)
             ? xc_equal(v, xc_groups_value(v, i), xc_eval(v, p->args[0]))
             : XC_NO;
}
static xc_answer xc_op_pairs(xc_env *v, const xc_expr *p, hlo_instr *i) {
  return hlo_attr_get(i, HLO_ATTR_SOURCE_TARGET_PAIRS)
             ? xc_equal(v, xc_pairs_value(v, i), xc_eval(v, p->args[0]))
             : XC_NO;
}
static xc_answer xc_op_used_by(xc_env *v, const xc_expr *p, hlo_instr *i) {
  xc_answer any = XC_NO;
  hlo_for_each_use(u, i) {
    xc_answer a = xc_match(v, p->args[0], u->user);
    if (a == XC_YES) return a;
    if (a == XC_UNKNOWN) any = a;
  }
  return any;
}
static i64 xc_space_of(const hlo_shape *s) { return s->layout ? s->layout->memory_space : 0; }
// AsyncCopy(to, from, operand)
static xc_answer xc_op_async_copy(xc_env *v, const xc_expr *p, hlo_instr *i) {
  hlo_instr *start = i->opcode == HLO_COPY_DONE ? hlo_operand(i, 0) : NULL;
  xc_value to = xc_eval(v, p->args[0]), from = xc_eval(v, p->args[1]);
  if (to.kind != V_NUMBER || from.kind != V_NUMBER) return XC_UNKNOWN;
  if (!start || start->opcode != HLO_COPY_START || xc_space_of(i->shape) != (i64)to.number ||
      xc_space_of(hlo_operand(start, 0)->shape) != (i64)from.number)
    return XC_NO;
  return xc_match(v, p->args[2], hlo_operand(start, 0));
}
// ShapeWithLayout(s, minor_to_major_only)
static xc_answer xc_op_order(xc_env *v, const xc_expr *p, hlo_instr *i) {
  if (xc_truth(xc_eval(v, p->args[1])) != 1)
    return xc_truth(xc_eval(v, p->args[1])) < 0 ? XC_UNKNOWN
                                                : xc_shape_text(v, p->args[0], i, true);
  xc_answer dims = xc_shape_text(v, p->args[0], i, false);
  const hlo_shape *s = NULL;
  const char *text = p->args[0]->kind == E_STRING ? p->args[0]->name : "";
  hs_status st = hlo_parse_shape(v->m->ctx, text, strlen(text), &s);
  if (!hs_ok(st) || !hlo_shape_is_array(s) || !s->layout || !hlo_shape_is_array(i->shape) ||
      !i->shape->layout)
    return hs_status_drop(st), dims == XC_NO ? XC_NO : XC_UNKNOWN;
  return xc_both(dims, xc_yes(memcmp(s->layout->minor_to_major, i->shape->layout->minor_to_major,
                                     s->rank * sizeof(i64)) == 0));
}
static const struct {
  const char *name;
  u32 arguments;
  xc_op_matcher_fn *fn;
} xc_op_matchers[] = {
    {"Metadata", 1, xc_op_metadata},      {"Sharding", 1, xc_op_sharding},
    {"NoSharding", 0, xc_op_no_sharding}, {"FrontendAttribute", 2, xc_op_frontend},
    {"ReplicaGroups", 1, xc_op_groups},   {"SourceTargetPairs", 1, xc_op_pairs},
    {"UsedBy", 1, xc_op_used_by},         {"AsyncCopy", 3, xc_op_async_copy},
    {"ShapeWithLayout", 2, xc_op_order}};

static xc_answer xc_base(xc_env *v, const xc_expr *p, hlo_instr *i) {
  const char *name = p->name;
  // op::, matcher::, opcode_matchers::
  bool mf = strncmp(name, "m::", 3) == 0 || strncmp(name, "match::", 7) == 0,
       of = !mf && strstr(name, "::") != NULL;
  const char *t = xc_tail(name);
  if (p->n && p->args[0]->kind == E_REF) xc_bind(v, p->args[0]->name, i);
  u32 from = p->n && p->args[0]->kind == E_REF ? 1 : 0;
  if (strcmp(t, "Op") == 0 && mf) return XC_YES;
  if (strcmp(t, "AnyOf") == 0) {
    xc_answer any = XC_NO;
    for (u32 k = from; k < p->n; k++) {
      xc_answer a = xc_match(v, p->args[k], i);
      if (a == XC_YES) return a;
      if (a == XC_UNKNOWN) any = a;
    }
    return any;
  }
  if (strcmp(t, "AllOf") == 0) {
    xc_answer all = XC_YES;
    for (u32 k = from; k < p->n; k++) all = xc_both(all, xc_match(v, p->args[k], i));
    return all;
  }
  if (strcmp(t, "Not") == 0 && !mf && !of && p->n == 1) {
    xc_answer a = xc_match(v, p->args[0], i);
    return a == XC_UNKNOWN ? a : xc_yes(a == XC_NO);
  }
  if (strcmp(t, "ConstantScalar") == 0)
    return i->opcode != HLO_CONSTANT || i->shape->rank
               ? XC_NO
               : xc_scalar_value(v, i, p->n > from ? p->args[from] : NULL);
  if (strcmp(t, "ConstantEffectiveScalar") == 0)
    return i->opcode != HLO_CONSTANT ? XC_NO
                                     : xc_scalar_value(v, i, p->n > from ? p->args[from] : NULL);
  if (strcmp(t, "NonConstant") == 0) {
    if (i->opcode == HLO_CONSTANT) return XC_NO;
    return p->n > from ? xc_match(v, p->args[from], i) : XC_YES;
  }
  if (of && strcmp(t, "Shape") == 0 && p->n == 1) return xc_shape_text(v, p->args[0], i, false);
  if (of && strcmp(t, "ShapeWithLayout") == 0 && p->n == 1)
    return xc_shape_text(v, p->args[0], i, true);
  for (size_t k = 0; of && k < HS_COUNT(xc_op_matchers); k++)
    if (strcmp(xc_op_matchers[k].name, t) == 0)
      return p->n == xc_op_matchers[k].arguments ? xc_op_matchers[k].fn(v, p, i) : XC_UNKNOWN;
  // a helper of the tests: a convert to that type, of p
  if (!mf && !of && strncmp(t, "MatchConvertTo", 14) == 0 && p->n == 1) {
    xc_expr type = {.kind = E_NAME, .name = t + 14};
    return i->opcode != HLO_CONVERT || xc_dtype(&type) == HLO_DT_INVALID ||
                   i->shape->dtype != xc_dtype(&type)
               ? XC_NO
               : xc_match(v, p->args[0], hlo_operand(i, 0));
  }
  if (!mf && !of && !isupper((unsigned char)*t)) return XC_UNKNOWN;
  return xc_opcode_match(v, p, i, t, !mf);
}

// m::Layout().WithMinorToMajor({1, 0})...
static xc_answer xc_layout_match(xc_env *v, const xc_expr *p, const hlo_layout *l) {
  if (p->kind != E_CALL || !l) return l ? XC_UNKNOWN : XC_NO;
  if (!p->on) return strcmp(xc_tail(p->name), "Layout") == 0 && p->n == 0 ? XC_YES : XC_UNKNOWN;
  xc_value x = p->n ? xc_eval(v, p->args[0]) : xc_unknown();
  xc_answer here = XC_UNKNOWN;
  if (strcmp(p->name, "WithMinorToMajor") == 0 && x.kind == V_LIST)
    here = xc_equal(v, xc_ints_value(v, (hlo_ints){l->rank, l->minor_to_major}), x);
  else if (strcmp(p->name, "EqualTo") == 0 && x.kind == V_LAYOUT) here = xc_yes(l == x.p);
  return xc_both(xc_layout_match(v, p->on, l), here);
}

// The part of a shape under an index {1, 0}; NULL when there is none.
static const hlo_shape *xc_subshape(const hlo_shape *s, xc_value at) {
  for (u32 k = 0; s && k < at.n; k++)
    s = hlo_shape_is_tuple(s) && at.v[k].number >= 0 && at.v[k].number < s->nelems
            ? s->elems[(u32)at.v[k].number]
            : NULL;
  return s;
}

// m::Shape().WithElementType(F32).WithRank(2)...
static xc_answer xc_shape_match(xc_env *v, const xc_expr *p, const hlo_shape *s) {
  if (p->kind != E_CALL) return XC_UNKNOWN;
  const char *t = p->name;
  if (!p->on) return strcmp(t, "m::Shape") == 0 && p->n == 0 ? XC_YES : XC_UNKNOWN;
  xc_value x = p->n ? xc_eval(v, p->args[0]) : xc_unknown();
  xc_answer here = XC_UNKNOWN;
#define IS(name) (strcmp(t, name) == 0)
  if (IS("IsTuple")) here = xc_yes(hlo_shape_is_tuple(s));
  else if (IS("IsArray") || IS("IsDenseArray")) here = xc_yes(hlo_shape_is_array(s));
  else if (IS("WithDims") && x.kind == V_LIST)
    here = hlo_shape_is_array(s) ? xc_equal(v, xc_ints_value(v, (hlo_ints){s->rank, s->dims}), x)
                                 : XC_NO;
  else if (IS("WithLayout") && p->n == 1 && p->args[0]->kind == E_CALL)
    here = xc_layout_match(v, p->args[0], hlo_shape_is_array(s) ? s->layout : NULL);
  else if (IS("WithSubshape") && p->n == 2 && x.kind == V_LIST)
    here = xc_subshape(s, x) ? xc_shape_match(v, p->args[1], xc_subshape(s, x)) : XC_NO;
  else if ((IS("WithSubshapeEqualTo") || IS("WithSubshapeCompatibleTo")) && p->n == 2 &&
           x.kind == V_LIST) {
    xc_value y = xc_eval(v, p->args[1]);
    const hlo_shape *part = xc_subshape(s, x);
    here = y.kind != V_SHAPE           ? XC_UNKNOWN
           : !part                     ? XC_NO
           : IS("WithSubshapeEqualTo") ? xc_equal(v, xc_shape_value(part), y)
                                       : xc_yes(part->logical == ((const hlo_shape *)y.p)->logical);
  } else if (IS("IsScalar")) here = xc_yes(hlo_shape_is_scalar(s));
  else if (IS("IsEffectiveScalar")) here = xc_yes(hlo_shape_is_array(s) && s->elements == 1);
  else if (IS("WithElementType") && x.kind == V_NUMBER)
    here = xc_yes(s->dtype == (hlo_dtype)x.number);
  else if (IS("WithRank") && x.kind == V_NUMBER)
    here = xc_yes(hlo_shape_is_array(s) && s->rank == (u32)x.number);
  else if (IS("WithLayout") && x.kind == V_LIST)
    here = s->layout
               ? xc_equal(v, xc_ints_value(v, (hlo_ints){s->rank, s->layout->minor_to_major}), x)
               : XC_NO;
  else if (IS("WithLayoutEqualTo") && x.kind == V_LAYOUT)
    here = xc_yes(xc_array_of(s)->layout == x.p);
  else if (IS("EqualTo") && x.kind == V_SHAPE) here = xc_equal(v, xc_shape_value(s), x);
  else if (IS("CompatibleTo") && x.kind == V_SHAPE)
    here = xc_yes(s->logical == ((const hlo_shape *)x.p)->logical);
#undef IS
  return xc_both(xc_shape_match(v, p->on, s), here);
}

static xc_answer xc_modifier(xc_env *v, const xc_expr *p, hlo_instr *i) {
  const char *t = p->name;
  const xc_expr *a0 = p->n > 0 ? p->args[0] : NULL;
#define IS(x) (strcmp(t, x) == 0)
  if (IS("WithPredicate") && a0 && a0->kind == E_LAMBDA) {
    int yes = xc_truth(xc_apply(v, a0, xc_instr(i)));
    return yes < 0 ? XC_UNKNOWN : xc_yes(yes);
  }
  if (IS("WithPredicate") && a0 && a0->kind == E_NAME && a0->type &&
      strcmp(xc_tail(a0->name), "HloPredicateIsOp") == 0) {
    xc_expr op = {.kind = E_NAME, .name = a0->type};
    return xc_kopcode(&op) == HLO_OP_INVALID ? XC_UNKNOWN : xc_yes(i->opcode == xc_kopcode(&op));
  }
  if (IS("WithOneUse")) return xc_yes(i->nuses == 1);
  if (IS("WithOneUser")) return xc_yes(xc_users(i) == 1);
  if (IS("WithNumUser") && a0) return xc_yes(xc_users(i) == (u32)a0->number);
  if (IS("WithAtMostNumUser") && a0) return xc_yes(xc_users(i) <= (u32)a0->number);
  if (IS("WithNumOperands") && a0) return xc_yes(i->noperands == (u32)a0->number);
  if (IS("WithTupleIndex") && a0)
    return xc_yes(i->opcode == HLO_GET_TUPLE_ELEMENT &&
                  hlo_attr_int(i, HLO_ATTR_INDEX, -1) == (i64)a0->number);
  if (IS("WithParameterNum") && a0)
    return xc_yes(i->opcode == HLO_PARAMETER && hlo_param_number(i) == (i64)a0->number);
  if (IS("WithOpcode") && a0)
    return xc_kopcode(a0) == HLO_OP_INVALID ? XC_UNKNOWN : xc_yes(i->opcode == xc_kopcode(a0));
  if (IS("WithoutOpcode") && a0)
    return xc_kopcode(a0) == HLO_OP_INVALID ? XC_UNKNOWN : xc_yes(i->opcode != xc_kopcode(a0));
  if (IS("WithName") && a0 && a0->kind == E_STRING) return xc_yes(strcmp(i->name, a0->name) == 0);
  if (IS("WithElementType") && a0)
    return xc_dtype(a0) == HLO_DT_INVALID ? XC_UNKNOWN : xc_yes(i->shape->dtype == xc_dtype(a0));
  if (IS("WithOperand") && p->n == 2)
    return (u32)a0->number < i->noperands ? xc_match(v, p->args[1], hlo_operand(i, (u32)a0->number))
                                          : XC_NO;
  if (IS("WithOperandIfPresent") && p->n == 2)
    return (u32)a0->number < i->noperands ? xc_match(v, p->args[1], hlo_operand(i, (u32)a0->number))
                                          : XC_YES;
  if (IS("WithBinaryOperandsAnyOrder") && p->n == 2)
    return i->noperands != 2 ? XC_NO : xc_operands(v, p, 0, 2, i, true);
  if (IS("Is") && a0) {
    xc_value x = xc_eval(v, a0);
    return x.kind == V_UNKNOWN ? XC_UNKNOWN : xc_yes(x.kind == V_INSTR && xc_now(v, x.i) == i);
  }
  if (IS("IsConstant")) return xc_yes(i->opcode == HLO_CONSTANT);
  if (IS("IsNonConstant")) return xc_yes(i->opcode != HLO_CONSTANT);
  if (IS("IsConstantEffectiveScalar"))
    return i->opcode != HLO_CONSTANT ? XC_NO : xc_scalar_value(v, i, a0);
  if (IS("WithReplicaGroups") && p->n == 1) return xc_op_groups(v, p, i);
  if (IS("WithSharding") && p->n == 1) return xc_op_sharding(v, p, i);
  if (IS("WithConvDnums") && a0 && a0->kind == E_STRING) {
    const hlo_attr *d = hlo_attr_get(i, HLO_ATTR_DIM_LABELS);
    hs_buf b = {0};
    hlo_print_options o = hlo_print_default();
    if (d) hlo_print_attr_value(&b, i, d, &o);
    bool same = d && strcmp(hs_buf_cstr(&b), a0->name) == 0;
    hs_buf_free(&b);
    return i->opcode == HLO_CONVOLUTION || i->opcode == HLO_CUSTOM_CALL ? xc_yes(same) : XC_NO;
  }
  if (IS("IsConstantScalar"))
    return i->opcode != HLO_CONSTANT || i->shape->rank ? XC_NO : xc_scalar_value(v, i, a0);
  if (IS("WithFusionKind") && a0 && a0->kind == E_NAME) {
    i64 k = hlo_enum_find(HLO_AK_ENUM_FUSION_KIND, hs_str_of(xc_tail(a0->name)), false);
    return k < 0 ? XC_UNKNOWN
                 : xc_yes(i->opcode == HLO_FUSION && hlo_attr_int(i, HLO_ATTR_KIND, -1) == k);
  }
  if (IS("WithComparisonDirection") && a0 && a0->kind == E_NAME) {
    const char *d = xc_tail(a0->name);
    int k = *d == 'k' ? xc_direction(d + 1) : -1;
    return k < 0 ? XC_UNKNOWN
                 : xc_yes(i->opcode == HLO_COMPARE && hlo_attr_int(i, HLO_ATTR_DIRECTION, -1) == k);
  }
  if (IS("WithContractingDims") && p->n == 2)
    return xc_both(xc_list_equals(a0, hlo_attr_ints(i, HLO_ATTR_LHS_CONTRACTING_DIMS)),
                   xc_list_equals(p->args[1], hlo_attr_ints(i, HLO_ATTR_RHS_CONTRACTING_DIMS)));
  if (IS("WithControlDeps") && p->n == 2) {
    xc_value pred = xc_i_ctrl_preds(v, xc_instr(i), p), succ = xc_i_ctrl_succs(v, xc_instr(i), p);
    return xc_both(xc_equal(v, pred, xc_eval(v, a0)), xc_equal(v, succ, xc_eval(v, p->args[1])));
  }
  if (IS("WithCustomCallTarget") && a0 && a0->kind == E_LIST) {
    bool hit = false;
    for (u32 k = 0; k < a0->n; k++) {
      if (a0->args[k]->kind != E_STRING) return XC_UNKNOWN;
      hit |= hs_str_eq(hs_str_of(a0->args[k]->name), hlo_attr_str(i, HLO_ATTR_CUSTOM_CALL_TARGET));
    }
    return xc_yes(hit);
  }
  if (IS("WithShape") && p->n == 1) return xc_shape_match(v, a0, i->shape);
  if (IS("WithShape") && p->n >= 2 && p->args[1]->kind == E_LIST) {
    if (xc_dtype(a0) == HLO_DT_INVALID) return XC_UNKNOWN;
    if (!hlo_shape_is_array(i->shape) || i->shape->dtype != xc_dtype(a0)) return XC_NO;
    xc_answer d = xc_list_equals(p->args[1], (hlo_ints){i->shape->rank, i->shape->dims});
    if (p->n == 3 && i->shape->layout)
      d = xc_both(d, xc_list_equals(p->args[2],
                                    (hlo_ints){i->shape->rank, i->shape->layout->minor_to_major}));
    return d;
  }
  if ((IS("WithShapeEqualTo") || IS("WithShapeCompatibleTo")) && a0) {
    xc_value s = xc_eval(v, a0);
    if (s.kind != V_SHAPE) return XC_UNKNOWN;
    const hlo_shape *want = s.p;
    return xc_yes(IS("WithShapeEqualTo") ? hlo_shape_fill_layout(v->m->ctx, i->shape) == want
                                         : i->shape->logical == want->logical);
  }
#undef IS
  return XC_UNKNOWN;
}

xc_answer xc_match(xc_env *v, const xc_expr *p, hlo_instr *i) {
  if (!i) return XC_NO;
  if (p->kind == E_NAME && strcmp(p->name, "_") == 0) return XC_YES;
  if (p->kind == E_NAME || (p->kind == E_CALL && (strcmp(p->name, "inst") == 0 ||
                                                  strcmp(p->name, "old") == 0 || p->arrow))) {
    xc_value t = xc_eval(v, p);
    return t.kind == V_UNKNOWN ? XC_UNKNOWN
                               : xc_yes(t.kind == V_INSTR && xc_now(v, t.i) == xc_now(v, i));
  }
  if (p->kind != E_CALL) return XC_UNKNOWN;
  if (p->on) return xc_both(xc_match(v, p->on, i), xc_modifier(v, p, i));
  static const char *const finders[] = {
      "FindInstruction", "GetFirstInstructionWithOpcode", "FindFirstWhile", "c_find_if", "Cast",
      "DynCast"};
  for (size_t k = 0; k < HS_COUNT(finders); k++)
    if (strcmp(xc_tail(p->name), finders[k]) == 0) {
      xc_value t = xc_eval(v, p);
      return t.kind == V_INSTR || t.kind == V_NULL
                 ? xc_yes(t.kind == V_INSTR && xc_now(v, t.i) == xc_now(v, i))
                 : XC_UNKNOWN;
    }
  return xc_base(v, p, i);
}
