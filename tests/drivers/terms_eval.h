// terms_eval.h — evaluates a term: the tables of members and functions, and when two values are
// equal.
#ifndef TESTS_TERMS_EVAL_H
#define TESTS_TERMS_EVAL_H

#include "tests/drivers/terms_calls.h"

FUNCTION(equals) {
  if (e->n != 2) return m_unknown();
  m_answer a = m_equal(v, m_eval(v, e->args[0]), m_eval(v, e->args[1]));
  return a == M_UNKNOWN ? m_unknown() : m_number((a == M_YES) == (*e->name == '='));
}

typedef struct m_member {
  m_vkind of;
  const char *name;
  m_member_fn *fn;
  hlo_attr_id attr;
} m_member;
static const m_member m_members[] = {
#define MEMBER_OF(kind, name, fn) {V_##kind, name, m_##fn, HLO_ATTR_NONE},
#define ATTRIBUTE_OF(kind, name, attr) {V_##kind, name, NULL, HLO_ATTR_##attr},
#include "tests/drivers/members.def"
#undef MEMBER_OF
#undef ATTRIBUTE_OF
};
static const struct {
  const char *name;
  m_function_fn *fn;
} m_functions[] = {
#define FUNCTION_OF(name, fn) {name, m_f_##fn},
#include "tests/drivers/functions.def"
#undef FUNCTION_OF
};

// What value `self` answers to the member e.
static inline m_value m_member_of(m_env *v, m_value self, const m_expr *e) {
  for (size_t k = 0; k < HS_COUNT(m_members); k++) {
    const m_member *x = &m_members[k];
    // what any value has
    bool optional = x->of == V_NULL && x->fn && strcmp(x->name, "value") != 0;
    if ((x->of == self.kind || (optional && self.kind != V_UNKNOWN)) &&
        strcmp(x->name, e->name) == 0)
      return x->fn ? x->fn(v, self, e) : m_attr_value(v, self.i, x->attr, e);
  }
  // proto fields of a backend_config; 64-bit numbers are strings in JSON
  if (self.kind == V_JSON) {
    bool has = strncmp(e->name, "has_", 4) == 0;
    const char *inner = m_json(v, self.s, has ? e->name + 4 : e->name);
    if (has) return m_number(inner != NULL);
    if (!inner)
      return *self.s == '{' || !*self.s ? (m_value){.kind = V_JSON, .s = ""} : m_unknown();
    return *inner == '{' ? (m_value){.kind = V_JSON, .s = inner} : m_number(atof(inner));
  }
  return m_unknown();
}

static inline m_value m_eval_member(m_env *v, const m_expr *e) {
  // evaluator.Evaluate(m, {...})
  if (strcmp(e->name, "Evaluate") == 0 && e->n == 2 && e->on->kind == E_NAME) {
    m_value m = m_eval(v, e->args[0]);
    return m.kind == V_MODULE ? m_evaluate(v, m.m, e->args[1]) : m_unknown();
  }
  m_value self = m_eval(v, e->on);
  // removed: as it was
  if (self.kind == V_NULL && v->before && e->on->kind == E_CALL &&
      strcmp(e->on->name, "inst") == 0) {
    m_env then = *v;
    then.m = v->before;
    self = m_eval(&then, e->on);
    v->a = then.a;
  }
  return m_member_of(v, self, e);
}

static inline m_value m_eval(m_env *v, const m_expr *e) {
  switch (e->kind) {
  case E_NUMBER: return m_number(e->number);
  case E_STRING: return m_text(e->name);
  case E_NAME: return e->on ? m_eval_member(v, e) : m_eval_name(v, e);
  case E_LIST: {
    m_value *l = HS_NEW_ARRAY(&v->a, m_value, e->n + 1);
    for (u32 k = 0; k < e->n; k++) {
      l[k] = m_eval(v, e->args[k]);
      if (l[k].kind == V_UNKNOWN) return l[k];
    }
    return m_list(e->n, l);
  }
  case E_CALL: break;
  case E_REF: return e->on ? m_unknown() : m_eval_name(v, e);  // *&x
  default: return m_unknown();
  }
  if (e->on) return m_eval_member(v, e);
  for (size_t k = 0; k < HS_COUNT(m_functions); k++)
    if (strcmp(m_functions[k].name, e->name) == 0) return m_functions[k].fn(v, e);
  for (size_t k = 0; k < HS_COUNT(m_functions); k++)  // whatever namespace stands in front
    if (strcmp(m_functions[k].name, m_tail(e->name)) == 0 &&
        isupper((unsigned char)*m_functions[k].name))
      return m_functions[k].fn(v, e);
  if (strncmp(e->name, "Count", 5) == 0 && e->n == 1) {  // CountCopies(m), CountCopies(*comp)
    char op[64];
    size_t n = strlen(e->name + 5);
    snprintf(op, sizeof op, "%s", strcmp(e->name + 5, "Copies") == 0 ? "Copy" : e->name + 5);
    if (n && n < sizeof op && op[n - 1] == 's') op[n - 1] = '\0';
    m_value where = m_eval(v, e->args[0]);
    if (m_opcode(op) != HLO_OP_INVALID && (where.kind == V_COMP || where.kind == V_MODULE))
      return m_number(m_count(where, m_opcode(op)));
  }
  size_t length = strlen(e->name);
  // AllReduceCount(m)
  if (length > 5 && strcmp(e->name + length - 5, "Count") == 0 && e->n == 1) {
    m_value where = m_eval(v, e->args[0]);
    hlo_opcode op = m_opcode(hs_arena_strndup(&v->a, e->name, length - 5));
    if (op != HLO_OP_INVALID && (where.kind == V_COMP || where.kind == V_MODULE))
      return m_number(m_count(where, op));
  }
  return m_unknown();
}

// ---- equality -----------------------------------------------------------------------------------

// An instruction of the module before the pass stands for itself after it.
static inline const hlo_instr *m_now(const m_env *v, const hlo_instr *i) {
  return i && v->before && v->twin && i->parent->module == v->before ? v->twin[i->id] : i;
}

static inline m_answer m_same_text(m_env *v, const char *a, const char *b) {
  if (strcmp(a, b) == 0) return M_YES;
  if (strncmp(b, "HloModule", 9) != 0 || strncmp(a, "HloModule", 9) != 0) return M_NO;
  hlo_module *x = NULL, *y = NULL;  // modules: equal up to the names that a pass makes up
  hs_status s = hlo_parse(v->m->ctx, a, strlen(a), NULL, &x),
            t = hlo_parse(v->m->ctx, b, strlen(b), NULL, &y);
  m_answer r = hs_ok(s) && hs_ok(t) ? m_yes(hlo_fingerprint(x) == hlo_fingerprint(y)) : M_UNKNOWN;
  hs_status_drop(s);
  hs_status_drop(t);
  return r;
}

static inline m_answer m_equal(m_env *v, m_value a, m_value b) {
  if (a.kind == V_UNKNOWN || b.kind == V_UNKNOWN) return M_UNKNOWN;
  if (a.kind == V_NULL || b.kind == V_NULL) return m_yes(a.kind == b.kind);
  if (a.kind == V_BAG && b.kind == V_LIST) {  // numbers in any order
    if (a.n != b.n) return M_NO;
    for (u32 k = 0; k < a.n; k++) {
      u32 left = 0, right = 0;
      for (u32 j = 0; j < a.n; j++)
        left += a.v[j].number == a.v[k].number, right += b.v[j].number == a.v[k].number;
      if (left != right) return M_NO;
    }
    return M_YES;
  }
  if (a.kind != b.kind) return M_UNKNOWN;
  switch (a.kind) {
  case V_NUMBER: return m_yes(a.number == b.number || (float)a.number == (float)b.number);
  case V_STRING: return m_same_text(v, a.s, b.s);
  case V_INSTR: return m_yes(m_now(v, a.i) == m_now(v, b.i));
  case V_COMP: return m_yes(a.c == b.c);
  case V_SHAPE:
    return m_yes(hlo_shape_fill_layout(v->m->ctx, a.p) == hlo_shape_fill_layout(v->m->ctx, b.p));
  case V_LAYOUT: return m_yes(a.p == b.p);
  case V_LITERAL: return m_yes(hlo_literal_equal(a.p, b.p));
  case V_SHARDING: return m_same_sharding(v, a.p, b.p);
  case V_LIST: {
    if (a.n != b.n) return M_NO;
    m_answer all = M_YES;
    for (u32 k = 0; k < a.n; k++) all = m_both(all, m_equal(v, a.v[k], b.v[k]));
    return all;
  }
  default: return M_UNKNOWN;
  }
}

#endif
