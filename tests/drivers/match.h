// match.h — the matcher vocabulary of XLA's pass tests, read as text (corpus PATTERNS.md): patterns over instructions such
// as m::Add(m::Parameter(0), m::ConstantScalar(1)).WithShape(F32, {2}), and targets such as root->operand(0).
//
// Answers are three-valued: YES, NO, and UNKNOWN for what the vocabulary here does not cover (C++ lambdas, sharding,
// helper functions): a case that meets UNKNOWN counts as not checkable, never as passed.
#ifndef TESTS_MATCH_H
#define TESTS_MATCH_H

#include "core/ir.h"
#include "core/text.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>

typedef enum { M_NO, M_YES, M_UNKNOWN } m_answer;

typedef enum { E_CALL, E_NAME, E_NUMBER, E_STRING, E_LIST, E_REF, E_BAD } m_kind;
typedef struct m_expr m_expr;
struct m_expr {
  m_kind kind;
  const char *name;         // call, name, string, reference; "m::Add", "WithShape"
  double number;
  bool is_float, has_args;
  u32 n; m_expr *args[24];
  m_expr *on;               // modifiers and '->': the expression they apply to
  bool arrow;
};

typedef struct m_env {
  const hlo_module *m;
  hs_arena a;
  struct { const char *name; hlo_instr *i; } bound[32];
  u32 nbound;
} m_env;

// ---- reading ----------------------------------------------------------------------------------------------------------
typedef struct m_reader { const char *p; hs_arena *a; } m_reader;

static inline void m_blank(m_reader *r) { while (isspace((unsigned char)*r->p)) r->p++; }
static inline m_expr *m_new(m_reader *r, m_kind k) {
  m_expr *e = HS_NEW(r->a, m_expr);
  e->kind = k;
  return e;
}
static inline m_expr *m_read(m_reader *r);

static inline bool m_read_args(m_reader *r, m_expr *e, char close) {
  e->has_args = true;
  r->p++;
  for (;;) {
    m_blank(r);
    if (*r->p == close) { r->p++; return true; }
    if (*r->p == ',') { r->p++; continue; }
    if (!*r->p || e->n == 24) return false;
    m_expr *x = m_read(r);
    if (!x || x->kind == E_BAD) return false;
    e->args[e->n++] = x;
  }
}

static inline m_expr *m_bad(m_reader *r) { return m_new(r, E_BAD); }

static inline m_expr *m_read_primary(m_reader *r) {
  m_blank(r);
  const char *s = r->p;
  if (*s == '"') {
    m_expr *e = m_new(r, E_STRING);
    hs_buf b = {0};
    for (r->p++; *r->p && *r->p != '"'; r->p++) {
      if (*r->p == '\\' && r->p[1]) r->p++;
      hs_buf_putc(&b, *r->p);
    }
    if (*r->p == '"') r->p++;
    e->name = hs_arena_strndup(r->a, b.p ? b.p : "", b.n);
    hs_buf_free(&b);
    return e;
  }
  if (*s == '{') {
    m_expr *e = m_new(r, E_LIST);
    return m_read_args(r, e, '}') ? e : m_bad(r);
  }
  if (*s == '&') {
    r->p++;
    m_expr *x = m_read_primary(r);
    if (x->kind == E_CALL) return x;   // &LayoutUtil::MakeLayout(...)
    if (x->kind != E_NAME) return m_bad(r);
    x->kind = E_REF;
    return x;
  }
  if (isdigit((unsigned char)*s) || ((*s == '-' || *s == '.') && (isdigit((unsigned char)s[1]) || s[1] == '.'))) {
    m_expr *e = m_new(r, E_NUMBER);
    char *end;
    e->number = strtod(s, &end);
    for (const char *q = s; q < end; q++) e->is_float |= *q == '.' || *q == 'e';
    r->p = end;
    if (*r->p == 'f' || *r->p == 'F') e->number = (float)e->number, e->is_float = true, r->p++;
    while (*r->p == 'u' || *r->p == 'l' || *r->p == 'U' || *r->p == 'L') r->p++;
    return e;
  }
  if (!isalpha((unsigned char)*s) && *s != '_') return m_bad(r);
  while (isalnum((unsigned char)*r->p) || *r->p == '_' || (r->p[0] == ':' && r->p[1] == ':' && (r->p += 1))) r->p++;
  m_expr *e = m_new(r, E_NAME);
  char *name = hs_arena_strndup(r->a, s, (size_t)(r->p - s));
  static const char *const dropped[] = {"xla::", "testing::", "::testing::", "std::"};
  for (size_t k = 0; k < HS_COUNT(dropped); k++)
    if (strncmp(name, dropped[k], strlen(dropped[k])) == 0) name += strlen(dropped[k]), k = (size_t)-1;
  e->name = name;
  if (*r->p == '<') {   // template arguments: kept in the name when a literal's type, else dropped
    const char *t = r->p;
    while (*r->p && *r->p != '>') r->p++;
    if (*r->p == '>') r->p++;
    e->name = hs_arena_strndup(r->a, s, (size_t)(r->p - s));
    if (strncmp(e->name, "m::AnyOf", 8) == 0 || strncmp(e->name, "AnyOf", 5) == 0) e->name = "AnyOf";
    (void)t;
  }
  m_blank(r);
  if (*r->p == '(') {
    e->kind = E_CALL;
    if (!m_read_args(r, e, ')')) return m_bad(r);
  }
  return e;
}

static inline m_expr *m_read(m_reader *r) {
  m_expr *e = m_read_primary(r);
  for (;;) {
    if (e->kind == E_BAD) return e;
    m_blank(r);
    bool arrow = r->p[0] == '-' && r->p[1] == '>', dot = *r->p == '.', index = *r->p == '[';
    if (index) {
      m_expr *x = m_new(r, E_CALL);
      x->name = "[]";
      x->on = e;
      if (!m_read_args(r, x, ']')) return m_bad(r);
      e = x;
      continue;
    }
    if (!arrow && !dot) return e;
    r->p += arrow ? 2 : 1;
    m_expr *x = m_read_primary(r);
    if (x->kind == E_BAD) return x;
    x->on = e;
    x->arrow = arrow;
    e = x;
  }
}

// ---- names --------------------------------------------------------------------------------------------------------------
// CamelCase -> opcode; HLO_OP_INVALID when it is none.
static inline hlo_opcode m_opcode(const char *camel) {
  static const struct { const char *camel; hlo_opcode op; } odd[] = {
      {"Cos", HLO_COSINE}, {"Sin", HLO_SIN}, {"Tan", HLO_TAN}, {"Exp", HLO_EXP}, {"Expm1", HLO_EXPM1}, {"Log1p", HLO_LOG1P}, {"Erf", HLO_ERF},
      {"RoundNearestAfz", HLO_ROUND_AFZ}, {"OptimizationBarrier", HLO_OPT_BARRIER}, {"Clz", HLO_CLZ}, {"PopulationCount", HLO_POPCNT},
      {"RoundNearestEven", HLO_ROUND_EVEN}, {"ShiftRightLogical", HLO_SHIFT_RIGHT_LOGICAL}, {"TopK", HLO_TOPK}};
  for (size_t k = 0; k < HS_COUNT(odd); k++)
    if (strcmp(odd[k].camel, camel) == 0) return odd[k].op;
  char kebab[96];
  size_t n = 0;
  for (const char *p = camel; *p && n < sizeof kebab - 2; p++) {
    if (isupper((unsigned char)*p) && p != camel) kebab[n++] = '-';
    kebab[n++] = (char)tolower((unsigned char)*p);
  }
  kebab[n] = '\0';
  return hlo_op_find((hs_str){kebab, n});
}

static inline const char *m_tail(const char *name) {   // after the last "::"
  const char *t = name;
  for (const char *p = name; *p; p++)
    if (p[0] == ':' && p[1] == ':') t = p + 2;
  return t;
}

static inline hlo_opcode m_kopcode(const m_expr *e) {   // HloOpcode::kAdd
  const char *t = m_tail(e->name);
  return e->kind == E_NAME && *t == 'k' ? m_opcode(t + 1) : HLO_OP_INVALID;
}

static inline hlo_dtype m_dtype(const m_expr *e) {
  if (e->kind != E_NAME) return HLO_DT_INVALID;
  char lower[32];
  size_t n = 0;
  for (const char *p = m_tail(e->name); *p && n < 31; p++) lower[n++] = (char)tolower((unsigned char)*p);
  return hlo_dtype_find((hs_str){lower, n});
}

// ---- shapes -----------------------------------------------------------------------------------------------------------
// A shape from ShapeUtil::MakeShape(F32, {2, 3}) and its dense-layout form; NULL when it is something else.
static inline const hlo_shape *m_shape(m_env *v, const m_expr *e) {
  const char *t = m_tail(e->name ? e->name : "");
  bool dense = strcmp(t, "MakeShapeWithDenseLayout") == 0;
  if (e->kind != E_CALL || (!dense && strcmp(t, "MakeShape") != 0 && strcmp(t, "MakeValidatedShape") != 0) || e->n < 2 || e->args[1]->kind != E_LIST) return NULL;
  i64 dims[24], order[24];
  u32 n = e->args[1]->n;
  for (u32 k = 0; k < n; k++) dims[k] = (i64)e->args[1]->args[k]->number;
  hlo_dtype d = m_dtype(e->args[0]);
  if (d == HLO_DT_INVALID) return NULL;
  const hlo_shape *s = hlo_shape_with_default_layout(v->m->ctx, hlo_shape_array(v->m->ctx, d, n, dims));
  if (dense && e->n > 2 && e->args[2]->kind == E_LIST && e->args[2]->n == n) {
    for (u32 k = 0; k < n; k++) order[k] = (i64)e->args[2]->args[k]->number;
    hlo_layout l = *hlo_layout_default(v->m->ctx, n);
    l.minor_to_major = order;
    s = hlo_shape_with_layout(v->m->ctx, s, hlo_layout_intern(v->m->ctx, &l));
  }
  return s;
}

static inline m_answer m_list_equals(const m_expr *list, hlo_ints v) {
  if (list->kind != E_LIST) return M_UNKNOWN;
  if (list->n != v.n) return M_NO;
  for (u32 k = 0; k < v.n; k++)
    if ((i64)list->args[k]->number != v.v[k]) return M_NO;
  return M_YES;
}

// ---- matching -----------------------------------------------------------------------------------------------------------
static inline m_answer m_match(m_env *v, const m_expr *p, hlo_instr *i);
static inline m_answer m_both(m_answer a, m_answer b) { return a == M_NO || b == M_NO ? M_NO : a == M_UNKNOWN || b == M_UNKNOWN ? M_UNKNOWN : M_YES; }
static inline m_answer m_yes(bool b) { return b ? M_YES : M_NO; }

static inline void m_bind(m_env *v, const char *name, hlo_instr *i) {
  for (u32 k = 0; k < v->nbound; k++)
    if (strcmp(v->bound[k].name, name) == 0) { v->bound[k].i = i; return; }
  if (v->nbound < 32) v->bound[v->nbound].name = name, v->bound[v->nbound++].i = i;
}

static inline m_answer m_scalar_value(const hlo_instr *i, const m_expr *value) {
  const hlo_literal *l = hlo_constant_value(i);
  if (!l || l->elided || l->shape->elements != 1) return M_NO;
  if (!value) return M_YES;
  if (value->kind == E_NAME && strcmp(value->name, "true") == 0) return m_yes(hlo_literal_i64(l, 0) == 1);
  if (value->kind == E_NAME && strcmp(value->name, "false") == 0) return m_yes(hlo_literal_i64(l, 0) == 0);
  if (value->kind != E_NUMBER) return M_UNKNOWN;
  if (hlo_dtype_is_integer(l->shape->dtype) || l->shape->dtype == HLO_PRED) return m_yes((double)hlo_literal_i64(l, 0) == value->number);
  return m_yes(hlo_literal_f64(l, 0) == value->number);
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
  if (text->kind != E_STRING) return M_UNKNOWN;
  const hlo_shape *s;
  hs_status st = hlo_parse_shape(v->m->ctx, text->name, strlen(text->name), &s);
  if (!hs_ok(st)) return hs_status_drop(st), M_UNKNOWN;
  return m_yes(layout ? hlo_shape_fill_layout(v->m->ctx, s) == hlo_shape_fill_layout(v->m->ctx, i->shape) : s->logical == i->shape->logical);
}

static inline m_answer m_literal(m_env *v, const m_expr *e, const hlo_instr *i) {   // LiteralUtil::CreateR0<float>(1)
  (void)v;
  const hlo_literal *l = hlo_constant_value(i);
  if (!l || e->kind != E_CALL) return l ? M_UNKNOWN : M_NO;
  const char *r0 = strstr(e->name, "CreateR0");
  if (!r0 || e->n != 1) return M_UNKNOWN;
  static const struct { const char *cpp; hlo_dtype t; } types[] = {{"<float>", HLO_F32}, {"<double>", HLO_F64}, {"<int32_t>", HLO_S32}, {"<int64_t>", HLO_S64},
                                                                  {"<uint32_t>", HLO_U32}, {"<bool>", HLO_PRED}, {"<int8_t>", HLO_S8}, {"<uint8_t>", HLO_U8}, {"<int>", HLO_S32}};
  for (size_t k = 0; k < HS_COUNT(types); k++)
    if (strcmp(r0 + 8, types[k].cpp) == 0) return l->shape->rank || l->shape->dtype != types[k].t ? M_NO : m_scalar_value(i, e->args[0]);
  return M_UNKNOWN;
}

static inline int m_direction(const char *name) {
  static const char *const names[] = {"Eq", "Ne", "Ge", "Gt", "Le", "Lt"};
  for (int k = 0; k < 6; k++)
    if (strcmp(names[k], name) == 0) return k;
  return -1;
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
  if (strcmp(t, "ConstantScalar") == 0) return i->opcode != HLO_CONSTANT || i->shape->rank ? M_NO : m_scalar_value(i, p->n > from ? p->args[from] : NULL);
  if (strcmp(t, "ConstantEffectiveScalar") == 0) return i->opcode != HLO_CONSTANT ? M_NO : m_scalar_value(i, p->n > from ? p->args[from] : NULL);
  if (strcmp(t, "NonConstant") == 0) {
    if (i->opcode == HLO_CONSTANT) return M_NO;
    return p->n > from ? m_match(v, p->args[from], i) : M_YES;
  }
  if (of && strcmp(t, "Shape") == 0 && p->n == 1) return m_shape_text(v, p->args[0], i, false);
  if (of && strcmp(t, "ShapeWithLayout") == 0 && p->n == 1) return m_shape_text(v, p->args[0], i, true);
  if (!mf && !of && !isupper((unsigned char)*t)) return M_UNKNOWN;
  if (of && (strcmp(t, "Sharding") == 0 || strcmp(t, "NoSharding") == 0 || strcmp(t, "Metadata") == 0)) return M_UNKNOWN;
  return m_opcode_match(v, p, i, t, !mf);
}

static inline u32 m_users(const hlo_instr *i) {   // distinct users
  u32 n = 0;
  hlo_for_each_use(u, i) {
    bool seen = false;
    for (hlo_use *w = i->first_use; w != u; w = w->next) seen |= w->user == u->user;
    n += !seen;
  }
  return n;
}

static inline m_answer m_modifier(m_env *v, const m_expr *p, hlo_instr *i) {
  const char *t = p->name;
  const m_expr *a0 = p->n > 0 ? p->args[0] : NULL;
#define IS(x) (strcmp(t, x) == 0)
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
  if (IS("IsConstant")) return m_yes(i->opcode == HLO_CONSTANT);
  if (IS("IsNonConstant")) return m_yes(i->opcode != HLO_CONSTANT);
  if (IS("IsConstantScalar")) return i->opcode != HLO_CONSTANT || i->shape->rank ? M_NO : m_scalar_value(i, a0);
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
  if (IS("WithCustomCallTarget") && a0 && a0->kind == E_LIST) {
    bool hit = false;
    for (u32 k = 0; k < a0->n; k++) {
      if (a0->args[k]->kind != E_STRING) return M_UNKNOWN;
      hit |= hs_str_eq(hs_str_of(a0->args[k]->name), hlo_attr_str(i, HLO_ATTR_CUSTOM_CALL_TARGET));
    }
    return m_yes(hit);
  }
  if (IS("WithShape") && p->n >= 2 && p->args[1]->kind == E_LIST) {
    if (m_dtype(a0) == HLO_DT_INVALID) return M_UNKNOWN;
    if (!hlo_shape_is_array(i->shape) || i->shape->dtype != m_dtype(a0)) return M_NO;
    m_answer d = m_list_equals(p->args[1], (hlo_ints){i->shape->rank, i->shape->dims});
    if (p->n == 3 && i->shape->layout) d = m_both(d, m_list_equals(p->args[2], (hlo_ints){i->shape->rank, i->shape->layout->minor_to_major}));
    return d;
  }
  if ((IS("WithShapeEqualTo") || IS("WithShapeCompatibleTo")) && a0) {
    const hlo_shape *s = m_shape(v, a0);
    if (!s) return M_UNKNOWN;
    return m_yes(IS("WithShapeEqualTo") ? hlo_shape_fill_layout(v->m->ctx, i->shape) == s : i->shape->logical == s->logical);
  }
#undef IS
  return M_UNKNOWN;
}

static inline hlo_instr *m_target(m_env *v, const m_expr *e, bool *known);

static inline m_answer m_match(m_env *v, const m_expr *p, hlo_instr *i) {
  if (!i) return M_NO;
  if (p->kind == E_NAME && strcmp(p->name, "_") == 0) return M_YES;
  if (p->kind == E_NAME || (p->kind == E_CALL && (strcmp(p->name, "inst") == 0 || p->arrow))) {
    bool known = true;
    hlo_instr *t = m_target(v, p, &known);
    return known ? m_yes(t == i) : M_UNKNOWN;
  }
  if (p->kind != E_CALL) return M_UNKNOWN;
  if (p->on) return m_both(m_match(v, p->on, i), m_modifier(v, p, i));
  return m_base(v, p, i);
}

// ---- targets --------------------------------------------------------------------------------------------------------------
static inline hlo_computation *m_comp(m_env *v, const m_expr *e, bool *known) {
#define IS(x) (strcmp(e->name, x) == 0)
  if (!e->on && e->kind == E_NAME && IS("entry")) return v->m->entry;
  if (!e->on && e->kind == E_CALL && IS("comp") && e->n == 1 && e->args[0]->kind == E_STRING) return hlo_find_comp(v->m, e->args[0]->name);
  if (e->on && IS("entry_computation")) return v->m->entry;
  if (e->on && e->kind == E_CALL) {
    hlo_instr *i = m_target(v, e->on, known);
    if (!i) return NULL;
    u32 k = e->n ? (u32)e->args[0]->number : 0;
    if (IS("while_body")) return hlo_attr_comp(i, HLO_ATTR_BODY);
    if (IS("while_condition")) return hlo_attr_comp(i, HLO_ATTR_CONDITION);
    if (IS("to_apply")) return hlo_attr_comp(i, HLO_ATTR_TO_APPLY);
    if (IS("true_computation")) k = 0;
    else if (IS("false_computation")) k = 1;
    else if (IS("[]") && e->on->on) {
      i = m_target(v, e->on->on, known);
      if (!i) return NULL;
    } else if (!IS("branch_computation") && !IS("fused_instructions_computation")) { *known = false; return NULL; }
    hlo_computation *c[32];
    u32 n = hlo_called(i, c, 32);
    return k < n && k < 32 ? c[k] : NULL;
  }
  *known = false;
  return NULL;
#undef IS
}

static inline hlo_instr *m_target(m_env *v, const m_expr *e, bool *known) {
#define IS(x) (strcmp(e->name, x) == 0)
  if (!e->name) { *known = false; return NULL; }
  if (!e->on && e->kind == E_NAME) {
    if (IS("root")) return v->m->entry->root;
    for (u32 k = 0; k < v->nbound; k++)
      if (strcmp(v->bound[k].name, e->name) == 0) return v->bound[k].i;
    *known = false;
    return NULL;
  }
  if (!e->on && IS("inst") && e->n == 1 && e->args[0]->kind == E_STRING) return hlo_find_instr(v->m, e->args[0]->name);
  if (!e->on && IS("first") && e->n == 1) {
    hlo_opcode op = m_kopcode(e->args[0]);
    hlo_for_each_instr(i, v->m->entry) if (i->opcode == op) return i;
    hlo_for_each_comp(c, v->m) hlo_for_each_instr(i, c) if (i->opcode == op) return i;
    return NULL;
  }
  if (e->on && IS("root_instruction")) {
    hlo_computation *c = m_comp(v, e->on, known);
    return c ? c->root : NULL;
  }
  if (e->on && IS("parameter_instruction") && e->n == 1) {
    hlo_computation *c = m_comp(v, e->on, known);
    return c && (u32)e->args[0]->number < c->nparams ? c->params[(u32)e->args[0]->number] : NULL;
  }
  if (e->on && IS("[]") && e->on->on && e->on->name && strcmp(e->on->name, "users") == 0) {
    hlo_instr *i = m_target(v, e->on->on, known);
    u32 k = (u32)e->args[0]->number;
    if (i) hlo_for_each_use(u, i) if (k-- == 0) return u->user;
    return NULL;
  }
  if (e->on && (IS("operand") || IS("mutable_operand")) && e->n == 1) {
    hlo_instr *i = m_target(v, e->on, known);
    return i && (u32)e->args[0]->number < i->noperands ? hlo_operand(i, (u32)e->args[0]->number) : NULL;
  }
  if (e->on && IS("fused_expression_root")) {
    hlo_instr *i = m_target(v, e->on, known);
    hlo_computation *c = i ? hlo_fusion_comp(i) : NULL;
    return c ? c->root : NULL;
  }
  *known = false;
  return NULL;
#undef IS
}

// One expectation: [not ][TARGET ~ ]PATTERN.
static inline m_answer m_check(m_env *v, const char *text) {
  while (isspace((unsigned char)*text)) text++;
  bool negated = strncmp(text, "not ", 4) == 0;
  if (negated) text += 4;
  const char *tilde = strstr(text, " ~ ");
  m_reader r = {text, &v->a};
  hlo_instr *i = v->m->entry->root;
  if (tilde) {
    char *target = hs_arena_strndup(&v->a, text, (size_t)(tilde - text));
    m_reader tr = {target, &v->a};
    m_expr *te = m_read(&tr);
    bool known = te->kind != E_BAD;
    i = known ? m_target(v, te, &known) : NULL;
    if (!known) return M_UNKNOWN;
    r.p = tilde + 3;
  }
  m_expr *e = m_read(&r);
  m_blank(&r);
  if (e->kind == E_BAD || *r.p) return M_UNKNOWN;
  m_answer a = m_match(v, e, i);
  return a == M_UNKNOWN || !negated ? a : m_yes(a == M_NO);
}

#endif
