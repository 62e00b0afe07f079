// match.h — the matcher vocabulary of XLA's pass tests (corpus PATTERNS.md): patterns over instructions such as
// m::Add(m::Parameter(0), m::ConstantScalar(1)).WithShape(F32, {2}), and over values such as ElementsAre(1, 0).
//
// Answers are three-valued: YES, NO, and UNKNOWN for what the vocabulary here does not cover (C++ lambdas, sharding,
// helper functions): a case that meets UNKNOWN counts as not checkable, never as passed.
#ifndef TESTS_MATCH_H
#define TESTS_MATCH_H

#include "tests/drivers/terms.h"

static inline m_answer m_list_equals(const m_expr *list, hlo_ints v) {
  if (list->kind != E_LIST) return M_UNKNOWN;
  if (list->n != v.n) return M_NO;
  for (u32 k = 0; k < v.n; k++)
    if ((i64)list->args[k]->number != v.v[k]) return M_NO;
  return M_YES;
}

// ---- matching -----------------------------------------------------------------------------------------------------------
static inline m_answer m_match(m_env *v, const m_expr *p, hlo_instr *i);

static inline void m_bind(m_env *v, const char *name, hlo_instr *i) {
  for (u32 k = 0; k < v->nbound; k++)
    if (strcmp(v->bound[k].name, name) == 0) { v->bound[k].i = i; return; }
  if (v->nbound < 32) v->bound[v->nbound].name = name, v->bound[v->nbound++].i = i;
}

static inline m_answer m_scalar_value(m_env *v, const hlo_instr *i, const m_expr *value) {
  const hlo_literal *l = hlo_constant_value(i);
  if (!l || l->elided || l->shape->elements != 1) return M_NO;
  if (!value) return M_YES;
  m_value x = m_eval(v, value);
  if (x.kind != V_NUMBER) return M_UNKNOWN;
  if (hlo_dtype_is_integer(l->shape->dtype) || l->shape->dtype == HLO_PRED) return m_yes((double)hlo_literal_i64(l, 0) == x.number);
  return m_yes(hlo_literal_f64(l, 0) == x.number);
}

static inline m_answer m_operands(m_env *v, const m_expr *p, u32 from, u32 to, hlo_instr *i, bool any_order) {
  u32 n = to - from;
  if (i->noperands < n) return M_NO;
  if (any_order && n == 2) {
    m_answer a = m_both(m_match(v, p->args[from], hlo_operand(i, 0)), m_match(v, p->args[from + 1], hlo_operand(i, 1)));
    if (a == M_YES) return a;
    m_answer b = m_both(m_match(v, p->args[from], hlo_operand(i, 1)), m_match(v, p->args[from + 1], hlo_operand(i, 0)));
    return b == M_YES ? b : a == M_UNKNOWN || b == M_UNKNOWN ? M_UNKNOWN : M_NO;
  }
  m_answer all = M_YES;
  for (u32 k = 0; k < n; k++) all = m_both(all, m_match(v, p->args[from + k], hlo_operand(i, k)));
  return all;
}

static inline bool m_variadic(hlo_opcode op) {
  switch (op) {
    case HLO_AFTER_ALL: case HLO_ALL_GATHER: case HLO_ALL_REDUCE: case HLO_ASYNC_START: case HLO_CALL: case HLO_CONCATENATE: case HLO_CONDITIONAL:
    case HLO_CUSTOM_CALL: case HLO_DYNAMIC_SLICE: case HLO_DYNAMIC_UPDATE_SLICE: case HLO_FUSION: case HLO_MAP: case HLO_REDUCE: case HLO_REDUCE_SCATTER:
    case HLO_REDUCE_WINDOW: case HLO_SCALED_DOT: case HLO_SCATTER: case HLO_SORT: case HLO_TUPLE: return true;
    default: return false;
  }
}

static inline m_answer m_shape_text(m_env *v, const m_expr *text, const hlo_instr *i, bool layout) {
  if (text->kind != E_STRING) {
    m_value x = m_eval(v, text);
    return x.kind != V_SHAPE ? M_UNKNOWN : layout ? m_equal(v, x, m_shape_value(i->shape)) : m_yes(((const hlo_shape *)x.p)->logical == i->shape->logical);
  }
  const hlo_shape *s;
  hs_status st = hlo_parse_shape(v->m->ctx, text->name, strlen(text->name), &s);
  if (!hs_ok(st)) return hs_status_drop(st), M_UNKNOWN;
  return m_yes(layout ? hlo_shape_fill_layout(v->m->ctx, s) == hlo_shape_fill_layout(v->m->ctx, i->shape) : s->logical == i->shape->logical);
}

static inline m_answer m_literal(m_env *v, const m_expr *e, const hlo_instr *i) {   // LiteralUtil::CreateR0<float>(1)
  const hlo_literal *l = hlo_constant_value(i);
  if (!l || l->elided) return M_NO;
  m_value x = m_eval(v, e);
  return x.kind != V_LITERAL ? M_UNKNOWN : m_yes(hlo_literal_equal(l, x.p));
}

static inline m_answer m_opcode_match(m_env *v, const m_expr *p, hlo_instr *i, const char *name, bool op_family) {
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
    if (to > from && p->args[from]->kind == E_NUMBER) all = m_yes(hlo_param_number(i) == (i64)p->args[from]->number);
    from = to;
  } else if (op == HLO_CONSTANT) {
    if (to > from) all = m_literal(v, p->args[from], i);
    from = to;
  } else if (op == HLO_GET_TUPLE_ELEMENT && to > from + 1 && p->args[to - 1]->kind == E_NUMBER) {
    all = m_yes(hlo_attr_int(i, HLO_ATTR_INDEX, -1) == (i64)p->args[--to]->number);
  } else if (op == HLO_CUSTOM_CALL && to > from && (p->args[from]->kind == E_LIST || p->args[from]->kind == E_STRING)) {
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
    hlo_ints l = hlo_attr_ints(i, HLO_ATTR_LHS_CONTRACTING_DIMS), r = hlo_attr_ints(i, HLO_ATTR_RHS_CONTRACTING_DIMS);
    all = m_yes(l.n == 1 && r.n == 1 && l.v[0] == (i64)p->args[to - 2]->number && r.v[0] == (i64)p->args[to - 1]->number);
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
  static const struct { const char *field; size_t at; } texts[] = {{"op_name", offsetof(hlo_metadata, op_name)}, {"op_type", offsetof(hlo_metadata, op_type)}, {"source_file", offsetof(hlo_metadata, source_file)}};
  const hlo_metadata *d = hlo_metadata_of(i);
  bool said[HS_COUNT(texts)] = {0}, same = true;
  for (u32 k = 1; k < want->n; k++) {
    const m_expr *f = want->args[k];
    size_t t = 0;
    while (t < HS_COUNT(texts) && !(f->key && strcmp(texts[t].field, f->key) == 0)) t++;
    if (t == HS_COUNT(texts) || f->kind != E_STRING) return M_UNKNOWN;
    said[t] = true;
    same &= d && hs_str_eq(*(const hs_str *)(const void *)((const char *)d + texts[t].at), hs_str_of(f->name));
  }
  for (size_t t = 0; t < HS_COUNT(texts); t++) same &= said[t] || !d || !((const hs_str *)(const void *)((const char *)d + texts[t].at))->n;
  (void)v;
  return m_yes(same);
}

static inline m_answer m_base(m_env *v, const m_expr *p, hlo_instr *i) {
  const char *name = p->name;
  bool mf = strncmp(name, "m::", 3) == 0 || strncmp(name, "match::", 7) == 0, of = strncmp(name, "op::", 4) == 0;
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
  if (strcmp(t, "ConstantScalar") == 0) return i->opcode != HLO_CONSTANT || i->shape->rank ? M_NO : m_scalar_value(v, i, p->n > from ? p->args[from] : NULL);
  if (strcmp(t, "ConstantEffectiveScalar") == 0) return i->opcode != HLO_CONSTANT ? M_NO : m_scalar_value(v, i, p->n > from ? p->args[from] : NULL);
  if (strcmp(t, "NonConstant") == 0) {
    if (i->opcode == HLO_CONSTANT) return M_NO;
    return p->n > from ? m_match(v, p->args[from], i) : M_YES;
  }
  if (of && strcmp(t, "Shape") == 0 && p->n == 1) return m_shape_text(v, p->args[0], i, false);
  if (of && strcmp(t, "ShapeWithLayout") == 0 && p->n == 1) return m_shape_text(v, p->args[0], i, true);
  if (!mf && !of && strncmp(t, "MatchConvertTo", 14) == 0 && p->n == 1) {   // a helper of the tests: a convert to that type, of p
    m_expr type = {.kind = E_NAME, .name = t + 14};
    return i->opcode != HLO_CONVERT || m_dtype(&type) == HLO_DT_INVALID || i->shape->dtype != m_dtype(&type) ? M_NO : m_match(v, p->args[0], hlo_operand(i, 0));
  }
  if (!mf && !of && !isupper((unsigned char)*t)) return M_UNKNOWN;
  if (of && strcmp(t, "Metadata") == 0 && p->n == 1) return m_metadata_match(v, p->args[0], i);
  if (of && (strcmp(t, "Sharding") == 0 || strcmp(t, "NoSharding") == 0)) return M_UNKNOWN;
  return m_opcode_match(v, p, i, t, !mf);
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
  else if (IS("IsArray")) here = m_yes(hlo_shape_is_array(s));
  else if (IS("IsScalar")) here = m_yes(hlo_shape_is_scalar(s));
  else if (IS("IsEffectiveScalar")) here = m_yes(hlo_shape_is_array(s) && s->elements == 1);
  else if (IS("WithElementType") && x.kind == V_NUMBER) here = m_yes(s->dtype == (hlo_dtype)x.number);
  else if (IS("WithRank") && x.kind == V_NUMBER) here = m_yes(hlo_shape_is_array(s) && s->rank == (u32)x.number);
  else if (IS("WithLayout") && x.kind == V_LIST) here = s->layout ? m_equal(v, m_ints_value(v, (hlo_ints){s->rank, s->layout->minor_to_major}), x) : M_NO;
  else if (IS("WithLayoutEqualTo") && x.kind == V_LAYOUT) here = m_yes(m_array_of(s)->layout == x.p);
  else if (IS("EqualTo") && x.kind == V_SHAPE) here = m_equal(v, m_shape_value(s), x);
  else if (IS("CompatibleTo") && x.kind == V_SHAPE) here = m_yes(s->logical == ((const hlo_shape *)x.p)->logical);
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
  if (IS("WithTupleIndex") && a0) return m_yes(i->opcode == HLO_GET_TUPLE_ELEMENT && hlo_attr_int(i, HLO_ATTR_INDEX, -1) == (i64)a0->number);
  if (IS("WithParameterNum") && a0) return m_yes(i->opcode == HLO_PARAMETER && hlo_param_number(i) == (i64)a0->number);
  if (IS("WithOpcode") && a0) return m_kopcode(a0) == HLO_OP_INVALID ? M_UNKNOWN : m_yes(i->opcode == m_kopcode(a0));
  if (IS("WithoutOpcode") && a0) return m_kopcode(a0) == HLO_OP_INVALID ? M_UNKNOWN : m_yes(i->opcode != m_kopcode(a0));
  if (IS("WithName") && a0 && a0->kind == E_STRING) return m_yes(strcmp(i->name, a0->name) == 0);
  if (IS("WithElementType") && a0) return m_dtype(a0) == HLO_DT_INVALID ? M_UNKNOWN : m_yes(i->shape->dtype == m_dtype(a0));
  if (IS("WithOperand") && p->n == 2) return (u32)a0->number < i->noperands ? m_match(v, p->args[1], hlo_operand(i, (u32)a0->number)) : M_NO;
  if (IS("WithOperandIfPresent") && p->n == 2) return (u32)a0->number < i->noperands ? m_match(v, p->args[1], hlo_operand(i, (u32)a0->number)) : M_YES;
  if (IS("WithBinaryOperandsAnyOrder") && p->n == 2) return i->noperands != 2 ? M_NO : m_operands(v, p, 0, 2, i, true);
  if (IS("Is") && a0) {
    m_value x = m_eval(v, a0);
    return x.kind == V_UNKNOWN ? M_UNKNOWN : m_yes(x.kind == V_INSTR && m_now(v, x.i) == i);
  }
  if (IS("IsConstant")) return m_yes(i->opcode == HLO_CONSTANT);
  if (IS("IsNonConstant")) return m_yes(i->opcode != HLO_CONSTANT);
  if (IS("IsConstantScalar")) return i->opcode != HLO_CONSTANT || i->shape->rank ? M_NO : m_scalar_value(v, i, a0);
  if (IS("WithFusionKind") && a0 && a0->kind == E_NAME) {
    i64 k = hlo_enum_find(HLO_AK_ENUM_FUSION_KIND, hs_str_of(m_tail(a0->name)), false);
    return k < 0 ? M_UNKNOWN : m_yes(i->opcode == HLO_FUSION && hlo_attr_int(i, HLO_ATTR_KIND, -1) == k);
  }
  if (IS("WithComparisonDirection") && a0 && a0->kind == E_NAME) {
    const char *d = m_tail(a0->name);
    int k = *d == 'k' ? m_direction(d + 1) : -1;
    return k < 0 ? M_UNKNOWN : m_yes(i->opcode == HLO_COMPARE && hlo_attr_int(i, HLO_ATTR_DIRECTION, -1) == k);
  }
  if (IS("WithContractingDims") && p->n == 2)
    return m_both(m_list_equals(a0, hlo_attr_ints(i, HLO_ATTR_LHS_CONTRACTING_DIMS)), m_list_equals(p->args[1], hlo_attr_ints(i, HLO_ATTR_RHS_CONTRACTING_DIMS)));
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
    if (p->n == 3 && i->shape->layout) d = m_both(d, m_list_equals(p->args[2], (hlo_ints){i->shape->rank, i->shape->layout->minor_to_major}));
    return d;
  }
  if ((IS("WithShapeEqualTo") || IS("WithShapeCompatibleTo")) && a0) {
    m_value s = m_eval(v, a0);
    if (s.kind != V_SHAPE) return M_UNKNOWN;
    const hlo_shape *want = s.p;
    return m_yes(IS("WithShapeEqualTo") ? hlo_shape_fill_layout(v->m->ctx, i->shape) == want : i->shape->logical == want->logical);
  }
#undef IS
  return M_UNKNOWN;
}

static inline m_answer m_match(m_env *v, const m_expr *p, hlo_instr *i) {
  if (!i) return M_NO;
  if (p->kind == E_NAME && strcmp(p->name, "_") == 0) return M_YES;
  if (p->kind == E_NAME || (p->kind == E_CALL && (strcmp(p->name, "inst") == 0 || strcmp(p->name, "old") == 0 || p->arrow))) {
    m_value t = m_eval(v, p);
    return t.kind == V_UNKNOWN ? M_UNKNOWN : m_yes(t.kind == V_INSTR && m_now(v, t.i) == m_now(v, i));
  }
  if (p->kind != E_CALL) return M_UNKNOWN;
  if (p->on) return m_both(m_match(v, p->on, i), m_modifier(v, p, i));
  return m_base(v, p, i);
}

// ---- values ---------------------------------------------------------------------------------------------------------------
static inline m_answer m_satisfies(m_env *v, m_value x, const m_expr *p);

// The leaves of a JSON object ({"a":{"b":"1"}}) or of a text proto (a { b: 1 }) as lines "a.b=1", in any order: two messages
// are equal when each line of one is in the other. False: the text is neither.
static inline bool m_flatten_message(m_env *v, const char **p, const char *path, hs_buf *out) {
  for (;;) {
    while (**p && strchr(" \n\t,\"{", **p)) {
      if (**p == '{' && *path) break;
      (*p)++;
    }
    if (**p == '}') return (*p)++, true;
    if (!**p) return !*path;
    const char *key = *p;
    while (m_is_word(**p)) (*p)++;
    if (*p == key) return false;
    char *name = hs_format("%s%s%.*s", path, *path ? "." : "", (int)(*p - key), key);
    while (**p && strchr("\": \n", **p)) (*p)++;
    bool ok = true;
    if (**p == '{') {
      (*p)++;
      ok = m_flatten_message(v, p, name, out);
    } else {
      const char *value = *p;
      while (**p && !strchr("\",} \n", **p)) (*p)++;
      hs_buf_printf(out, "\n%s=%.*s\n", name, (int)(*p - value), value);
    }
    hs_free(name);
    if (!ok) return false;
  }
}

static inline m_answer m_same_message(m_env *v, const char *json, const char *proto) {
  hs_buf a = {0}, b = {0};
  m_answer r = m_flatten_message(v, &json, "", &a) && m_flatten_message(v, &proto, "", &b) ? m_yes(a.n == b.n) : M_UNKNOWN;
  for (const char *line = hs_buf_cstr(&a); r == M_YES && *line; line += strcspn(line + 1, "\n") + 2) {
    char *whole = hs_format("%.*s\n", (int)strcspn(line + 1, "\n") + 1, line);
    r = m_yes(strstr(hs_buf_cstr(&b), whole) != NULL);
    hs_free(whole);
  }
  hs_buf_free(&a);
  hs_buf_free(&b);
  return r;
}

// Every value of a list meets another argument of p.
static inline bool m_assign(m_env *v, m_value l, const m_expr *p, u32 k, u64 used, bool *known) {
  if (k == l.n) return true;
  for (u32 j = 0; j < p->n; j++) {
    if (used >> j & 1) continue;
    m_answer a = m_satisfies(v, l.v[k], p->args[j]);
    *known &= a != M_UNKNOWN;
    if (a == M_YES && m_assign(v, l, p, k + 1, used | 1ull << j, known)) return true;
  }
  return false;
}

static inline m_answer m_list_match(m_env *v, m_value l, const m_expr *p, const char *t) {
  if (strcmp(t, "SizeIs") == 0 && p->n == 1) return m_equal(v, m_number(l.n), m_eval(v, p->args[0]));
  if (strcmp(t, "IsEmpty") == 0) return m_yes(l.n == 0);
  if (strcmp(t, "ElementsAre") == 0) {
    if (l.n != p->n) return M_NO;
    m_answer all = M_YES;
    for (u32 k = 0; k < l.n; k++) all = m_both(all, m_satisfies(v, l.v[k], p->args[k]));
    return all;
  }
  if (strcmp(t, "UnorderedElementsAre") == 0) {
    bool known = true;
    if (l.n != p->n) return M_NO;
    return m_assign(v, l, p, 0, 0, &known) ? M_YES : known ? M_NO : M_UNKNOWN;
  }
  bool times = strcmp(t, "Times") == 0 && p->on && p->on->name && strcmp(m_tail(p->on->name), "Contains") == 0;
  bool each = strcmp(t, "Each") == 0;
  if (!times && !each && strcmp(t, "Contains") != 0) return M_UNKNOWN;
  const m_expr *inner = times ? p->on : p;
  if (inner->n != 1) return M_UNKNOWN;
  u32 yes = 0, unknown = 0;
  for (u32 k = 0; k < l.n; k++) {
    m_answer a = m_satisfies(v, l.v[k], inner->args[0]);
    yes += a == M_YES, unknown += a == M_UNKNOWN;
  }
  if (unknown) return !times && !each && yes ? M_YES : M_UNKNOWN;
  return times ? m_equal(v, m_number(yes), m_eval(v, p->args[0])) : m_yes(each ? yes == l.n : yes > 0);
}

// A value against a gMock matcher, a pattern, or a value that it must equal.
static inline m_answer m_satisfies(m_env *v, m_value x, const m_expr *p) {
  if (x.kind == V_UNKNOWN) return M_UNKNOWN;
  const char *t = p->kind == E_CALL ? m_tail(p->name) : "";
  if (p->kind == E_NAME && strcmp(p->name, "_") == 0) return M_YES;
  if (p->kind == E_CALL && (!p->on || strcmp(t, "Times") == 0)) {
    bool list = x.kind == V_LIST;
    if (strcmp(t, "NotNull") == 0) return m_yes(x.kind != V_NULL);
    if (strcmp(t, "IsNull") == 0) return m_yes(x.kind == V_NULL);
    if ((strcmp(t, "GmockMatch") == 0 || strcmp(t, "Eq") == 0) && p->n == 1) return m_satisfies(v, x, p->args[0]);
    if (strcmp(t, "Not") == 0 && p->n == 1 && strcmp(p->name, "Not") == 0) {
      m_answer a = m_satisfies(v, x, p->args[0]);
      return a == M_UNKNOWN ? a : m_yes(a == M_NO);
    }
    if (strcmp(t, "EqualsProto") == 0 && p->n == 1 && x.kind == V_JSON && p->args[0]->kind == E_STRING) return m_same_message(v, x.s, p->args[0]->name);
    if (strcmp(p->name, "HasSubstr") == 0 && p->n == 1 && x.kind == V_STRING && p->args[0]->kind == E_STRING) return m_yes(strstr(x.s, p->args[0]->name) != NULL);
    if (strcmp(p->name, "AllOf") == 0 && x.kind != V_INSTR) {
      m_answer all = M_YES;
      for (u32 k = 0; k < p->n; k++) all = m_both(all, m_satisfies(v, x, p->args[k]));
      return all;
    }
    if (strcmp(p->name, "AnyOf") == 0 && x.kind != V_INSTR) {
      m_answer any = M_NO;
      for (u32 k = 0; k < p->n && any != M_YES; k++) {
        m_answer a = m_satisfies(v, x, p->args[k]);
        if (a != M_NO) any = a;
      }
      return any;
    }
    if (list) {
      m_answer a = m_list_match(v, x, p, t);
      if (a != M_UNKNOWN || strcmp(t, "vector") != 0) return a;
    }
  }
  if (x.kind == V_INSTR || x.kind == V_NULL) return m_match(v, p, x.kind == V_NULL ? NULL : x.i);
  return m_equal(v, x, m_eval(v, p));
}

// One expectation: [not ][TARGET ~ ]PATTERN.
static inline m_answer m_check(m_env *v, const char *text) {
  while (isspace((unsigned char)*text)) text++;
  bool negated = strncmp(text, "not ", 4) == 0;
  if (negated) text += 4;
  const char *tilde = strstr(text, " ~ ");
  m_value x = m_instr(v->m->entry->root);
  if (tilde) x = m_eval(v, m_parse(&v->a, hs_arena_strndup(&v->a, text, (size_t)(tilde - text))));
  const m_expr *p = m_parse(&v->a, tilde ? tilde + 3 : text);
  if (p->kind == E_BAD || x.kind == V_UNKNOWN) return M_UNKNOWN;
  m_answer a = m_satisfies(v, x, p);
  return a == M_UNKNOWN || !negated ? a : m_yes(a == M_NO);
}

// ---- EXPECT_* ---------------------------------------------------------------------------------------------------------------
static inline m_answer m_compare(m_env *v, const char *how, m_value a, m_value b) {
  m_answer equal = strcmp(how, "EQ") == 0 || strcmp(how, "NE") == 0 ? m_equal(v, a, b) : M_UNKNOWN;
  if (equal != M_UNKNOWN) return m_yes((equal == M_YES) == (*how == 'E'));
  if (a.kind != V_NUMBER || b.kind != V_NUMBER) return M_UNKNOWN;
  double d = a.number - b.number;
  if (strcmp(how, "GT") == 0) return m_yes(d > 0);
  if (strcmp(how, "GE") == 0) return m_yes(d >= 0);
  if (strcmp(how, "LT") == 0) return m_yes(d < 0);
  if (strcmp(how, "LE") == 0) return m_yes(d <= 0);
  return M_UNKNOWN;
}

static inline bool m_is_literal_term(const m_expr *e) {
  return e->kind == E_NUMBER || e->kind == E_STRING || (e->kind == E_NAME && !e->on && (strcmp(e->name, "true") == 0 || strcmp(e->name, "false") == 0));
}

static inline m_answer m_check_assert(m_env *v, const char *text) {
  const m_expr *e = m_parse(&v->a, text);
  if (e->kind != E_CALL || e->on) return M_UNKNOWN;
  if (strncmp(e->name, "ASSERT_", 7) != 0 && strncmp(e->name, "EXPECT_", 7) != 0) return M_UNKNOWN;
  const char *name = e->name + 7;
  u32 literal = 0;   // comparisons of two constants are left over from the test's own C++
  for (u32 k = 0; k < e->n; k++) literal += m_is_literal_term(e->args[k]);
  if (!e->n || literal == e->n) return M_UNKNOWN;
  if (strcmp(name, "THAT") == 0 && e->n == 2) return m_satisfies(v, m_eval(v, e->args[0]), e->args[1]);
  m_value a = m_eval(v, e->args[0]);
  if ((strcmp(name, "TRUE") == 0 || strcmp(name, "FALSE") == 0) && e->n == 1) {
    int truth = m_truth(a);
    return truth < 0 ? M_UNKNOWN : m_yes(truth == (*name == 'T'));
  }
  return e->n == 2 ? m_compare(v, name, a, m_eval(v, e->args[1])) : M_UNKNOWN;
}

#endif
