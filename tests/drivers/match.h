// match.h — the matcher vocabulary of XLA's pass tests (corpus PATTERNS.md): patterns over
// instructions such as m::Add(m::Parameter(0), m::ConstantScalar(1)).WithShape(F32, {2}). Those
// over values are in expect.h.
//
// Answers are three-valued: YES, NO, and UNKNOWN for what the vocabulary here does not cover (C++
// lambdas, sharding, helper functions): a case that meets UNKNOWN counts as not checkable, never as
// passed.
#ifndef TESTS_MATCH_H
#define TESTS_MATCH_H

#include "tests/drivers/terms_eval.h"

static inline m_answer m_list_equals(const m_expr *list, hlo_ints v) {
  if (list->kind != E_LIST) return M_UNKNOWN;
  if (list->n != v.n) return M_NO;
  for (u32 k = 0; k < v.n; k++)
    if ((i64)list->args[k]->number != v.v[k]) return M_NO;
  return M_YES;
}

// ---- matching -----------------------------------------------------------------------------------
static inline m_answer m_match(m_env *v, const m_expr *p, hlo_instr *i);

static inline void m_bind(m_env *v, const char *name, hlo_instr *i) {
  for (u32 k = 0; k < v->nbound; k++)
    if (strcmp(v->bound[k].name, name) == 0) {
      v->bound[k].i = i;
      return;
    }
  if (v->nbound < 32) v->bound[v->nbound].name = name, v->bound[v->nbound++].i = i;
}

static inline m_answer m_scalar_value(m_env *v, const hlo_instr *i, const m_expr *value) {
  const hlo_literal *l = hlo_constant_value(i);
  if (!l || l->elided || l->shape->elements != 1) return M_NO;
  if (!value) return M_YES;
  m_value x = m_eval(v, value);
  if (x.kind != V_NUMBER) return M_UNKNOWN;
  if (hlo_dtype_is_integer(l->shape->dtype) || l->shape->dtype == HLO_PRED)
    return m_yes((double)hlo_literal_i64(l, 0) == x.number);
  return m_yes(hlo_literal_f64(l, 0) == x.number);
}

static inline m_answer m_operands(m_env *v, const m_expr *p, u32 from, u32 to, hlo_instr *i,
                                  bool any_order) {
  u32 n = to - from;
  if (i->noperands < n) return M_NO;
  if (any_order && n == 2) {
    m_answer a = m_both(m_match(v, p->args[from], hlo_operand(i, 0)),
                        m_match(v, p->args[from + 1], hlo_operand(i, 1)));
    if (a == M_YES) return a;
    m_answer b = m_both(m_match(v, p->args[from], hlo_operand(i, 1)),
                        m_match(v, p->args[from + 1], hlo_operand(i, 0)));
    return b == M_YES ? b : a == M_UNKNOWN || b == M_UNKNOWN ? M_UNKNOWN : M_NO;
  }
  m_answer all = M_YES;
  for (u32 k = 0; k < n; k++) all = m_both(all, m_match(v, p->args[from + k], hlo_operand(i, k)));
  return all;
}

static inline bool m_variadic(hlo_opcode op) {
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

static inline m_answer m_shape_text(m_env *v, const m_expr *text, const hlo_instr *i, bool layout) {
  if (text->kind != E_STRING) {
    m_value x = m_eval(v, text);
    return x.kind != V_SHAPE ? M_UNKNOWN
           : layout          ? m_equal(v, x, m_shape_value(i->shape))
                             : m_yes(((const hlo_shape *)x.p)->logical == i->shape->logical);
  }
  const hlo_shape *s;
  hs_status st = hlo_parse_shape(v->m->ctx, text->name, strlen(text->name), &s);
  if (!hs_ok(st)) return hs_status_drop(st), M_UNKNOWN;
  return m_yes(layout ? hlo_shape_fill_layout(v->m->ctx, s) ==
                            hlo_shape_fill_layout(v->m->ctx, i->shape)
                      : s->logical == i->shape->logical);
}

// LiteralUtil::CreateR0<float>(1)
static inline m_answer m_literal(m_env *v, const m_expr *e, const hlo_instr *i) {
  const hlo_literal *l = hlo_constant_value(i);
  if (!l || l->elided) return M_NO;
  m_value x = m_eval(v, e);
  return x.kind != V_LITERAL ? M_UNKNOWN : m_yes(hlo_literal_equal(l, x.p));
}

// A name that stands for a text, or a matcher of texts: what op::CustomCall may begin with.
static inline bool m_is_text_matcher(m_env *v, const m_expr *e) {
  static const char *const names[] = {"HasSubstr",    "StartsWith",    "EndsWith",
                                      "MatchesRegex", "ContainsRegex", "StrEq"};
  for (size_t k = 0; k < HS_COUNT(names) && e->kind == E_CALL && !e->on; k++)
    if (strcmp(m_tail(e->name), names[k]) == 0) return true;
  return e->kind == E_NAME && !e->on && m_eval(v, e).kind == V_STRING;
}

static inline m_answer m_opcode_match(m_env *v, const m_expr *p, hlo_instr *i, const char *name,
                                      bool op_family) {
  char base[96];
  snprintf(base, sizeof base, "%s", name);
  size_t n = strlen(base);
  bool any = n > 8 && strcmp(base + n - 8, "AnyOrder") == 0;
  if (any) base[n - 8] = '\0';
  u32 from = p->n && p->args[0]->kind == E_REF ? 1 : 0, to = p->n;
  int dir = m_direction(base);
  hlo_opcode op = dir >= 0 ? HLO_COMPARE : m_opcode(base);
  if (op == HLO_OP_INVALID) return M_UNKNOWN;
  if (i->opcode != op) return M_NO;
  m_answer all = M_YES;
  if (dir >= 0 && !any) all = m_yes(hlo_attr_int(i, HLO_ATTR_DIRECTION, -1) == dir);
  if (op == HLO_PARAMETER) {
    if (to > from && p->args[from]->kind == E_NUMBER)
      all = m_yes(hlo_param_number(i) == (i64)p->args[from]->number);
    from = to;
  } else if (op == HLO_CONSTANT) {
    if (to > from) all = m_literal(v, p->args[from], i);
    from = to;
  } else if (op == HLO_GET_TUPLE_ELEMENT && to > from + 1 && p->args[to - 1]->kind == E_NUMBER) {
    all = m_yes(hlo_attr_int(i, HLO_ATTR_INDEX, -1) == (i64)p->args[--to]->number);
  } else if (op == HLO_CUSTOM_CALL && to > from && m_is_text_matcher(v, p->args[from])) {
    all = m_satisfies(v, m_str(v, hlo_attr_str(i, HLO_ATTR_CUSTOM_CALL_TARGET)), p->args[from++]);
  } else if (op == HLO_CUSTOM_CALL && to > from &&
             (p->args[from]->kind == E_LIST || p->args[from]->kind == E_STRING)) {
    const m_expr *t = p->args[from++];
    hs_str target = hlo_attr_str(i, HLO_ATTR_CUSTOM_CALL_TARGET);
    bool hit = false, known = true;
    for (u32 k = 0; k < (t->kind == E_LIST ? t->n : 1); k++) {
      const m_expr *s = t->kind == E_LIST ? t->args[k] : t;
      if (s->kind == E_STRING) hit |= hs_str_eq(hs_str_of(s->name), target);
      else known = false;
    }
    all = hit ? M_YES : known ? M_NO : M_UNKNOWN;
  } else if (op == HLO_DOT && op_family && to - from == 4) {
    hlo_ints l = hlo_attr_ints(i, HLO_ATTR_LHS_CONTRACTING_DIMS),
             r = hlo_attr_ints(i, HLO_ATTR_RHS_CONTRACTING_DIMS);
    all = m_yes(l.n == 1 && r.n == 1 && l.v[0] == (i64)p->args[to - 2]->number &&
                r.v[0] == (i64)p->args[to - 1]->number);
    to -= 2;
  }
  for (u32 k = from; k < to; k++)
    if (p->args[k]->kind == E_NUMBER) return M_UNKNOWN;
  if (to > from && (op_family || m_variadic(op)) && to - from != i->noperands) return M_NO;
  if (to <= from) return all;
  return m_both(all, m_operands(v, p, from, to, i, any || (dir >= 0 && any)));
}

// op::Metadata(opts(variable; op_name="x")): these fields, and no others.
static inline m_answer m_metadata_match(m_env *v, const m_expr *want, const hlo_instr *i) {
  if (want->kind != E_CALL || strcmp(want->name, "opts") != 0) return M_UNKNOWN;
  static const struct {
    const char *field;
    size_t at;
  } texts[] = {{"op_name", offsetof(hlo_metadata, op_name)},
               {"op_type", offsetof(hlo_metadata, op_type)},
               {"source_file", offsetof(hlo_metadata, source_file)}};
  const hlo_metadata *d = hlo_metadata_of(i);
  bool said[HS_COUNT(texts)] = {0}, same = true;
  for (u32 k = 1; k < want->n; k++) {
    const m_expr *f = want->args[k];
    size_t t = 0;
    while (t < HS_COUNT(texts) && !(f->key && strcmp(texts[t].field, f->key) == 0)) t++;
    if (t == HS_COUNT(texts) || f->kind != E_STRING) return M_UNKNOWN;
    said[t] = true;
    same &= d && hs_str_eq(*(const hs_str *)(const void *)((const char *)d + texts[t].at),
                           hs_str_of(f->name));
  }
  for (size_t t = 0; t < HS_COUNT(texts); t++)
    same &= said[t] || !d || !((const hs_str *)(const void *)((const char *)d + texts[t].at))->n;
  (void)v;
  return m_yes(same);
}

// ---- matchers of the op family that are no opcodes ----------------------------------------------
typedef m_answer m_op_matcher_fn(m_env *, const m_expr *, hlo_instr *);
static inline m_answer m_op_metadata(m_env *v, const m_expr *p, hlo_instr *i) {
  return m_metadata_match(v, p->args[0], i);
}
static inline m_answer m_op_sharding(m_env *v, const m_expr *p, hlo_instr *i) {
  m_value x = m_eval(v, p->args[0]);
  const hlo_sharding *s = hlo_attr_ptr(i, HLO_ATTR_SHARDING);
  if (x.kind == V_STRING) x = m_sharding_of_text(v, x.s);
  return x.kind != V_SHARDING ? M_UNKNOWN : s ? m_same_sharding(v, s, x.p) : M_NO;
}
static inline m_answer m_op_no_sharding(m_env *v, const m_expr *p, hlo_instr *i) {
  (void)v, (void)p;
  return m_yes(!hlo_attr_get(i, HLO_ATTR_SHARDING));
}
static inline m_answer m_op_frontend(m_env *v, const m_expr *p, hlo_instr *i) {
  m_value want = m_eval(v, p->args[1]);
  const hlo_frontend_entry *x = m_frontend_find(v, m_instr(i), p);
  return want.kind != V_STRING || m_eval(v, p->args[0]).kind != V_STRING
             ? M_UNKNOWN
             : m_yes(x && hs_str_eq(x->value, hs_str_of(want.s)));
}
static inline m_answer m_op_groups(m_env *v, const m_expr *p, hlo_instr *i) {
  return hlo_op_has(i->opcode, HLO_F_COLLECTIVE)
             ? m_equal(v, m_groups_value(v, i), m_eval(v, p->args[0]))
             : M_NO;
}
static inline m_answer m_op_pairs(m_env *v, const m_expr *p, hlo_instr *i) {
  return hlo_attr_get(i, HLO_ATTR_SOURCE_TARGET_PAIRS)
             ? m_equal(v, m_pairs_value(v, i), m_eval(v, p->args[0]))
             : M_NO;
}
static inline m_answer m_op_used_by(m_env *v, const m_expr *p, hlo_instr *i) {
  m_answer any = M_NO;
  hlo_for_each_use(u, i) {
    m_answer a = m_match(v, p->args[0], u->user);
    if (a == M_YES) return a;
    if (a == M_UNKNOWN) any = a;
  }
  return any;
}
static inline i64 m_space_of(const hlo_shape *s) { return s->layout ? s->layout->memory_space : 0; }
// AsyncCopy(to, from, operand)
static inline m_answer m_op_async_copy(m_env *v, const m_expr *p, hlo_instr *i) {
  hlo_instr *start = i->opcode == HLO_COPY_DONE ? hlo_operand(i, 0) : NULL;
  m_value to = m_eval(v, p->args[0]), from = m_eval(v, p->args[1]);
  if (to.kind != V_NUMBER || from.kind != V_NUMBER) return M_UNKNOWN;
  if (!start || start->opcode != HLO_COPY_START || m_space_of(i->shape) != (i64)to.number ||
      m_space_of(hlo_operand(start, 0)->shape) != (i64)from.number)
    return M_NO;
  return m_match(v, p->args[2], hlo_operand(start, 0));
}
// ShapeWithLayout(s, minor_to_major_only)
static inline m_answer m_op_order(m_env *v, const m_expr *p, hlo_instr *i) {
  if (m_truth(m_eval(v, p->args[1])) != 1)
    return m_truth(m_eval(v, p->args[1])) < 0 ? M_UNKNOWN : m_shape_text(v, p->args[0], i, true);
  m_answer dims = m_shape_text(v, p->args[0], i, false);
  const hlo_shape *s = NULL;
  const char *text = p->args[0]->kind == E_STRING ? p->args[0]->name : "";
  hs_status st = hlo_parse_shape(v->m->ctx, text, strlen(text), &s);
  if (!hs_ok(st) || !hlo_shape_is_array(s) || !s->layout || !hlo_shape_is_array(i->shape) ||
      !i->shape->layout)
    return hs_status_drop(st), dims == M_NO ? M_NO : M_UNKNOWN;
  return m_both(dims, m_yes(memcmp(s->layout->minor_to_major, i->shape->layout->minor_to_major,
                                   s->rank * sizeof(i64)) == 0));
}
static const struct {
  const char *name;
  u32 arguments;
  m_op_matcher_fn *fn;
} m_op_matchers[] = {{"Metadata", 1, m_op_metadata},      {"Sharding", 1, m_op_sharding},
                     {"NoSharding", 0, m_op_no_sharding}, {"FrontendAttribute", 2, m_op_frontend},
                     {"ReplicaGroups", 1, m_op_groups},   {"SourceTargetPairs", 1, m_op_pairs},
                     {"UsedBy", 1, m_op_used_by},         {"AsyncCopy", 3, m_op_async_copy},
                     {"ShapeWithLayout", 2, m_op_order}};

static inline m_answer m_base(m_env *v, const m_expr *p, hlo_instr *i) {
  const char *name = p->name;
  // op::, matcher::, opcode_matchers::
  bool mf = strncmp(name, "m::", 3) == 0 || strncmp(name, "match::", 7) == 0,
       of = !mf && strstr(name, "::") != NULL;
  const char *t = m_tail(name);
  if (p->n && p->args[0]->kind == E_REF) m_bind(v, p->args[0]->name, i);
  u32 from = p->n && p->args[0]->kind == E_REF ? 1 : 0;
  if (strcmp(t, "Op") == 0 && mf) return M_YES;
  if (strcmp(t, "AnyOf") == 0) {
    m_answer any = M_NO;
    for (u32 k = from; k < p->n; k++) {
      m_answer a = m_match(v, p->args[k], i);
      if (a == M_YES) return a;
      if (a == M_UNKNOWN) any = a;
    }
    return any;
  }
  if (strcmp(t, "AllOf") == 0) {
    m_answer all = M_YES;
    for (u32 k = from; k < p->n; k++) all = m_both(all, m_match(v, p->args[k], i));
    return all;
  }
  if (strcmp(t, "Not") == 0 && !mf && !of && p->n == 1) {
    m_answer a = m_match(v, p->args[0], i);
    return a == M_UNKNOWN ? a : m_yes(a == M_NO);
  }
  if (strcmp(t, "ConstantScalar") == 0)
    return i->opcode != HLO_CONSTANT || i->shape->rank
               ? M_NO
               : m_scalar_value(v, i, p->n > from ? p->args[from] : NULL);
  if (strcmp(t, "ConstantEffectiveScalar") == 0)
    return i->opcode != HLO_CONSTANT ? M_NO
                                     : m_scalar_value(v, i, p->n > from ? p->args[from] : NULL);
  if (strcmp(t, "NonConstant") == 0) {
    if (i->opcode == HLO_CONSTANT) return M_NO;
    return p->n > from ? m_match(v, p->args[from], i) : M_YES;
  }
  if (of && strcmp(t, "Shape") == 0 && p->n == 1) return m_shape_text(v, p->args[0], i, false);
  if (of && strcmp(t, "ShapeWithLayout") == 0 && p->n == 1)
    return m_shape_text(v, p->args[0], i, true);
  for (size_t k = 0; of && k < HS_COUNT(m_op_matchers); k++)
    if (strcmp(m_op_matchers[k].name, t) == 0)
      return p->n == m_op_matchers[k].arguments ? m_op_matchers[k].fn(v, p, i) : M_UNKNOWN;
  // a helper of the tests: a convert to that type, of p
  if (!mf && !of && strncmp(t, "MatchConvertTo", 14) == 0 && p->n == 1) {
    m_expr type = {.kind = E_NAME, .name = t + 14};
    return i->opcode != HLO_CONVERT || m_dtype(&type) == HLO_DT_INVALID ||
                   i->shape->dtype != m_dtype(&type)
               ? M_NO
               : m_match(v, p->args[0], hlo_operand(i, 0));
  }
  if (!mf && !of && !isupper((unsigned char)*t)) return M_UNKNOWN;
  return m_opcode_match(v, p, i, t, !mf);
}

// m::Layout().WithMinorToMajor({1, 0})...
static inline m_answer m_layout_match(m_env *v, const m_expr *p, const hlo_layout *l) {
  if (p->kind != E_CALL || !l) return l ? M_UNKNOWN : M_NO;
  if (!p->on) return strcmp(m_tail(p->name), "Layout") == 0 && p->n == 0 ? M_YES : M_UNKNOWN;
  m_value x = p->n ? m_eval(v, p->args[0]) : m_unknown();
  m_answer here = M_UNKNOWN;
  if (strcmp(p->name, "WithMinorToMajor") == 0 && x.kind == V_LIST)
    here = m_equal(v, m_ints_value(v, (hlo_ints){l->rank, l->minor_to_major}), x);
  else if (strcmp(p->name, "EqualTo") == 0 && x.kind == V_LAYOUT) here = m_yes(l == x.p);
  return m_both(m_layout_match(v, p->on, l), here);
}

// The part of a shape under an index {1, 0}; NULL when there is none.
static inline const hlo_shape *m_subshape(const hlo_shape *s, m_value at) {
  for (u32 k = 0; s && k < at.n; k++)
    s = hlo_shape_is_tuple(s) && at.v[k].number >= 0 && at.v[k].number < s->nelems
            ? s->elems[(u32)at.v[k].number]
            : NULL;
  return s;
}

// m::Shape().WithElementType(F32).WithRank(2)...
static inline m_answer m_shape_match(m_env *v, const m_expr *p, const hlo_shape *s) {
  if (p->kind != E_CALL) return M_UNKNOWN;
  const char *t = p->name;
  if (!p->on) return strcmp(t, "m::Shape") == 0 && p->n == 0 ? M_YES : M_UNKNOWN;
  m_value x = p->n ? m_eval(v, p->args[0]) : m_unknown();
  m_answer here = M_UNKNOWN;
#define IS(name) (strcmp(t, name) == 0)
  if (IS("IsTuple")) here = m_yes(hlo_shape_is_tuple(s));
  else if (IS("IsArray") || IS("IsDenseArray")) here = m_yes(hlo_shape_is_array(s));
  else if (IS("WithDims") && x.kind == V_LIST)
    here =
        hlo_shape_is_array(s) ? m_equal(v, m_ints_value(v, (hlo_ints){s->rank, s->dims}), x) : M_NO;
  else if (IS("WithLayout") && p->n == 1 && p->args[0]->kind == E_CALL)
    here = m_layout_match(v, p->args[0], hlo_shape_is_array(s) ? s->layout : NULL);
  else if (IS("WithSubshape") && p->n == 2 && x.kind == V_LIST)
    here = m_subshape(s, x) ? m_shape_match(v, p->args[1], m_subshape(s, x)) : M_NO;
  else if ((IS("WithSubshapeEqualTo") || IS("WithSubshapeCompatibleTo")) && p->n == 2 &&
           x.kind == V_LIST) {
    m_value y = m_eval(v, p->args[1]);
    const hlo_shape *part = m_subshape(s, x);
    here = y.kind != V_SHAPE           ? M_UNKNOWN
           : !part                     ? M_NO
           : IS("WithSubshapeEqualTo") ? m_equal(v, m_shape_value(part), y)
                                       : m_yes(part->logical == ((const hlo_shape *)y.p)->logical);
  } else if (IS("IsScalar")) here = m_yes(hlo_shape_is_scalar(s));
  else if (IS("IsEffectiveScalar")) here = m_yes(hlo_shape_is_array(s) && s->elements == 1);
  else if (IS("WithElementType") && x.kind == V_NUMBER)
    here = m_yes(s->dtype == (hlo_dtype)x.number);
  else if (IS("WithRank") && x.kind == V_NUMBER)
    here = m_yes(hlo_shape_is_array(s) && s->rank == (u32)x.number);
  else if (IS("WithLayout") && x.kind == V_LIST)
    here = s->layout
               ? m_equal(v, m_ints_value(v, (hlo_ints){s->rank, s->layout->minor_to_major}), x)
               : M_NO;
  else if (IS("WithLayoutEqualTo") && x.kind == V_LAYOUT)
    here = m_yes(m_array_of(s)->layout == x.p);
  else if (IS("EqualTo") && x.kind == V_SHAPE) here = m_equal(v, m_shape_value(s), x);
  else if (IS("CompatibleTo") && x.kind == V_SHAPE)
    here = m_yes(s->logical == ((const hlo_shape *)x.p)->logical);
#undef IS
  return m_both(m_shape_match(v, p->on, s), here);
}

static inline m_answer m_modifier(m_env *v, const m_expr *p, hlo_instr *i) {
  const char *t = p->name;
  const m_expr *a0 = p->n > 0 ? p->args[0] : NULL;
#define IS(x) (strcmp(t, x) == 0)
  if (IS("WithPredicate") && a0 && a0->kind == E_LAMBDA) {
    int yes = m_truth(m_apply(v, a0, m_instr(i)));
    return yes < 0 ? M_UNKNOWN : m_yes(yes);
  }
  if (IS("WithOneUse")) return m_yes(i->nuses == 1);
  if (IS("WithOneUser")) return m_yes(m_users(i) == 1);
  if (IS("WithNumUser") && a0) return m_yes(m_users(i) == (u32)a0->number);
  if (IS("WithAtMostNumUser") && a0) return m_yes(m_users(i) <= (u32)a0->number);
  if (IS("WithNumOperands") && a0) return m_yes(i->noperands == (u32)a0->number);
  if (IS("WithTupleIndex") && a0)
    return m_yes(i->opcode == HLO_GET_TUPLE_ELEMENT &&
                 hlo_attr_int(i, HLO_ATTR_INDEX, -1) == (i64)a0->number);
  if (IS("WithParameterNum") && a0)
    return m_yes(i->opcode == HLO_PARAMETER && hlo_param_number(i) == (i64)a0->number);
  if (IS("WithOpcode") && a0)
    return m_kopcode(a0) == HLO_OP_INVALID ? M_UNKNOWN : m_yes(i->opcode == m_kopcode(a0));
  if (IS("WithoutOpcode") && a0)
    return m_kopcode(a0) == HLO_OP_INVALID ? M_UNKNOWN : m_yes(i->opcode != m_kopcode(a0));
  if (IS("WithName") && a0 && a0->kind == E_STRING) return m_yes(strcmp(i->name, a0->name) == 0);
  if (IS("WithElementType") && a0)
    return m_dtype(a0) == HLO_DT_INVALID ? M_UNKNOWN : m_yes(i->shape->dtype == m_dtype(a0));
  if (IS("WithOperand") && p->n == 2)
    return (u32)a0->number < i->noperands ? m_match(v, p->args[1], hlo_operand(i, (u32)a0->number))
                                          : M_NO;
  if (IS("WithOperandIfPresent") && p->n == 2)
    return (u32)a0->number < i->noperands ? m_match(v, p->args[1], hlo_operand(i, (u32)a0->number))
                                          : M_YES;
  if (IS("WithBinaryOperandsAnyOrder") && p->n == 2)
    return i->noperands != 2 ? M_NO : m_operands(v, p, 0, 2, i, true);
  if (IS("Is") && a0) {
    m_value x = m_eval(v, a0);
    return x.kind == V_UNKNOWN ? M_UNKNOWN : m_yes(x.kind == V_INSTR && m_now(v, x.i) == i);
  }
  if (IS("IsConstant")) return m_yes(i->opcode == HLO_CONSTANT);
  if (IS("IsNonConstant")) return m_yes(i->opcode != HLO_CONSTANT);
  if (IS("IsConstantEffectiveScalar"))
    return i->opcode != HLO_CONSTANT ? M_NO : m_scalar_value(v, i, a0);
  if (IS("WithReplicaGroups") && p->n == 1) return m_op_groups(v, p, i);
  if (IS("WithSharding") && p->n == 1) return m_op_sharding(v, p, i);
  if (IS("WithConvDnums") && a0 && a0->kind == E_STRING) {
    const hlo_attr *d = hlo_attr_get(i, HLO_ATTR_DIM_LABELS);
    hs_buf b = {0};
    hlo_print_options o = hlo_print_default();
    if (d) hlo_print_attr_value(&b, i, d, &o);
    bool same = d && strcmp(hs_buf_cstr(&b), a0->name) == 0;
    hs_buf_free(&b);
    return i->opcode == HLO_CONVOLUTION || i->opcode == HLO_CUSTOM_CALL ? m_yes(same) : M_NO;
  }
  if (IS("IsConstantScalar"))
    return i->opcode != HLO_CONSTANT || i->shape->rank ? M_NO : m_scalar_value(v, i, a0);
  if (IS("WithFusionKind") && a0 && a0->kind == E_NAME) {
    i64 k = hlo_enum_find(HLO_AK_ENUM_FUSION_KIND, hs_str_of(m_tail(a0->name)), false);
    return k < 0 ? M_UNKNOWN
                 : m_yes(i->opcode == HLO_FUSION && hlo_attr_int(i, HLO_ATTR_KIND, -1) == k);
  }
  if (IS("WithComparisonDirection") && a0 && a0->kind == E_NAME) {
    const char *d = m_tail(a0->name);
    int k = *d == 'k' ? m_direction(d + 1) : -1;
    return k < 0 ? M_UNKNOWN
                 : m_yes(i->opcode == HLO_COMPARE && hlo_attr_int(i, HLO_ATTR_DIRECTION, -1) == k);
  }
  if (IS("WithContractingDims") && p->n == 2)
    return m_both(m_list_equals(a0, hlo_attr_ints(i, HLO_ATTR_LHS_CONTRACTING_DIMS)),
                  m_list_equals(p->args[1], hlo_attr_ints(i, HLO_ATTR_RHS_CONTRACTING_DIMS)));
  if (IS("WithControlDeps") && p->n == 2) {
    m_value pred = m_i_ctrl_preds(v, m_instr(i), p), succ = m_i_ctrl_succs(v, m_instr(i), p);
    return m_both(m_equal(v, pred, m_eval(v, a0)), m_equal(v, succ, m_eval(v, p->args[1])));
  }
  if (IS("WithCustomCallTarget") && a0 && a0->kind == E_LIST) {
    bool hit = false;
    for (u32 k = 0; k < a0->n; k++) {
      if (a0->args[k]->kind != E_STRING) return M_UNKNOWN;
      hit |= hs_str_eq(hs_str_of(a0->args[k]->name), hlo_attr_str(i, HLO_ATTR_CUSTOM_CALL_TARGET));
    }
    return m_yes(hit);
  }
  if (IS("WithShape") && p->n == 1) return m_shape_match(v, a0, i->shape);
  if (IS("WithShape") && p->n >= 2 && p->args[1]->kind == E_LIST) {
    if (m_dtype(a0) == HLO_DT_INVALID) return M_UNKNOWN;
    if (!hlo_shape_is_array(i->shape) || i->shape->dtype != m_dtype(a0)) return M_NO;
    m_answer d = m_list_equals(p->args[1], (hlo_ints){i->shape->rank, i->shape->dims});
    if (p->n == 3 && i->shape->layout)
      d = m_both(d, m_list_equals(p->args[2],
                                  (hlo_ints){i->shape->rank, i->shape->layout->minor_to_major}));
    return d;
  }
  if ((IS("WithShapeEqualTo") || IS("WithShapeCompatibleTo")) && a0) {
    m_value s = m_eval(v, a0);
    if (s.kind != V_SHAPE) return M_UNKNOWN;
    const hlo_shape *want = s.p;
    return m_yes(IS("WithShapeEqualTo") ? hlo_shape_fill_layout(v->m->ctx, i->shape) == want
                                        : i->shape->logical == want->logical);
  }
#undef IS
  return M_UNKNOWN;
}

static inline m_answer m_match(m_env *v, const m_expr *p, hlo_instr *i) {
  if (!i) return M_NO;
  if (p->kind == E_NAME && strcmp(p->name, "_") == 0) return M_YES;
  if (p->kind == E_NAME || (p->kind == E_CALL && (strcmp(p->name, "inst") == 0 ||
                                                  strcmp(p->name, "old") == 0 || p->arrow))) {
    m_value t = m_eval(v, p);
    return t.kind == V_UNKNOWN ? M_UNKNOWN
                               : m_yes(t.kind == V_INSTR && m_now(v, t.i) == m_now(v, i));
  }
  if (p->kind != E_CALL) return M_UNKNOWN;
  if (p->on) return m_both(m_match(v, p->on, i), m_modifier(v, p, i));
  static const char *const finders[] = {
      "FindInstruction", "GetFirstInstructionWithOpcode", "FindFirstWhile", "c_find_if", "Cast",
      "DynCast"};
  for (size_t k = 0; k < HS_COUNT(finders); k++)
    if (strcmp(m_tail(p->name), finders[k]) == 0) {
      m_value t = m_eval(v, p);
      return t.kind == V_INSTR || t.kind == V_NULL
                 ? m_yes(t.kind == V_INSTR && m_now(v, t.i) == m_now(v, i))
                 : M_UNKNOWN;
    }
  return m_base(v, p, i);
}

#endif
