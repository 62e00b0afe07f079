// terms_calls.h — functions that ask the module, and logic over what they answer.
#ifndef TESTS_TERMS_CALLS_H
#define TESTS_TERMS_CALLS_H

#include "tests/drivers/terms_values.h"

FUNCTION(inst) {
  const char *s = m_arg_text(v, e, 0);
  return s ? m_instr(hlo_find_instr(v->m, s)) : m_unknown();
}
FUNCTION(comp) {
  const char *s = m_arg_text(v, e, e->n - 1);
  hlo_computation *c = s ? hlo_find_comp(v->m, s) : NULL;
  if (c) v->named = c;
  return s ? m_comp_value(c) : m_unknown();
}
FUNCTION(first) {
  hlo_opcode op = e->n ? m_kopcode(e->args[0]) : HLO_OP_INVALID;
  if (op == HLO_OP_INVALID) return m_unknown();
  m_value here = m_find(v, m_comp_value(v->m->entry), op, NULL),
          any = m_find(v, (m_value){.kind = V_MODULE, .m = v->m}, op, NULL);
  return here.n ? here.v[0] : any.n ? any.v[0] : m_instr(NULL);
}
FUNCTION(first_while) {
  (void)e;
  m_value l = m_find(v, (m_value){.kind = V_MODULE, .m = v->m}, HLO_WHILE, NULL);
  return l.n ? l.v[0] : m_instr(NULL);
}
FUNCTION(old) {
  if (!v->before || v->old || e->n != 1) return m_unknown();
  m_env then = *v;
  then.m = v->before, then.old = true, then.nbound = 0;
  m_value x = m_eval(&then, e->args[0]);
  v->a = then.a;
  return x;
}
FUNCTION(same) { return m_arg_value(v, e, 0); }  // Cast<T>(x), vector<T>(x), ShapeLayout(x)
FUNCTION(find_all) {
  m_value where = m_arg_value(v, e, 0);
  return e->n == 2 && m_kopcode(e->args[1]) != HLO_OP_INVALID &&
                 (where.kind == V_COMP || where.kind == V_MODULE)
             ? m_find(v, where, m_kopcode(e->args[1]), NULL)
             : m_unknown();
}
FUNCTION(find) {
  m_value where = m_arg_value(v, e, 0);
  if (e->n != 2 || (where.kind != V_COMP && where.kind != V_MODULE)) return m_unknown();
  const char *name = e->args[1]->kind == E_STRING ? e->args[1]->name : NULL;
  if (!name && m_kopcode(e->args[1]) == HLO_OP_INVALID) return m_unknown();
  m_value l = m_find(v, where, m_kopcode(e->args[1]), name);
  return l.n ? l.v[0] : m_instr(NULL);
}
FUNCTION(count) {
  m_value where = m_arg_value(v, e, 0);
  return e->n == 2 && m_kopcode(e->args[1]) != HLO_OP_INVALID &&
                 (where.kind == V_COMP || where.kind == V_MODULE)
             ? m_number(m_count(where, m_kopcode(e->args[1])))
             : m_unknown();
}
FUNCTION(count_in_entry) {
  return e->n == 2 && m_kopcode(e->args[1]) != HLO_OP_INVALID
             ? m_number(m_count(m_comp_value(v->m->entry), m_kopcode(e->args[1])) > 0)
             : m_unknown();
}
FUNCTION(contains_op) {
  m_value where = m_arg_value(v, e, 0), ops = m_arg_value(v, e, 1);
  if (ops.kind != V_LIST || (where.kind != V_COMP && where.kind != V_MODULE)) return m_unknown();
  u32 n = 0;
  for (u32 k = 0; k < ops.n; k++)
    n += ops.v[k].kind == V_NUMBER ? m_count(where, (hlo_opcode)ops.v[k].number) : 0;
  return m_number(n > 0);
}
FUNCTION(algorithm);
FUNCTION(count_if) {  // the predicate that asks for an opcode, or a lambda
  m_value l = m_arg_value(v, e, 0);
  if (e->n == 2 && e->args[1]->kind == E_LAMBDA) return m_f_algorithm(v, e);
  const char *t = e->n == 2 && e->args[1]->kind == E_NAME &&
                          strcmp(m_tail(e->args[1]->name), "HloPredicateIsOp") == 0
                      ? e->args[1]->type
                      : NULL;
  if (l.kind != V_LIST || !t || m_kname(t) == HLO_OP_INVALID) return m_unknown();
  u32 n = 0;
  for (u32 k = 0; k < l.n; k++) n += l.v[k].kind == V_INSTR && l.v[k].i->opcode == m_kname(t);
  return m_number(n);
}
FUNCTION(has_instr) {
  m_value c = m_arg_value(v, e, 0), i = m_arg_value(v, e, 1);
  return c.kind == V_COMP && (i.kind == V_INSTR || i.kind == V_NULL)
             ? m_number(i.kind == V_INSTR && i.i->parent == c.c && !i.i->dead)
             : m_unknown();
}
FUNCTION(position) {
  m_value l = m_arg_value(v, e, 0), x = m_arg_value(v, e, 1);
  for (u32 k = 0; l.kind == V_LIST && k < l.n; k++)
    if (x.kind == V_NUMBER && l.v[k].kind == V_NUMBER && l.v[k].number == x.number)
      return m_number(k);
  return m_unknown();
}
FUNCTION(layout_of) {
  m_value i = m_unknown();
  const char *s = m_arg_text(v, e, 1);
  if (s) i = m_instr(hlo_find_instr(v->m, s));
  return i.kind == V_INSTR && i.i->shape->layout
             ? m_ints_value(v, (hlo_ints){i.i->shape->rank, i.i->shape->layout->minor_to_major})
             : m_unknown();
}
FUNCTION(arithmetic) {  // -x, x - y, x + y, x % y, x * y, x / y of integers
  m_value x = m_arg_value(v, e, 0), y = m_arg_value(v, e, 1);
  if (x.kind != V_NUMBER || (e->n == 2 && y.kind != V_NUMBER)) return m_unknown();
  if (e->n == 1) return m_number(-x.number);
  if (*e->name == '%')
    return y.number != 0 ? m_number((double)((i64)x.number % (i64)y.number)) : m_unknown();
  if (*e->name == '*') return m_number(x.number * y.number);
  if (*e->name == '/')
    return y.number != 0 && x.number == (double)(i64)x.number && y.number == (double)(i64)y.number
               ? m_number((double)((i64)x.number / (i64)y.number))
               : m_unknown();
  return m_number(*e->name == '+' ? x.number + y.number : x.number - y.number);
}
// What `if` makes of a value: -1 when that is not known.
static inline int m_truth(m_value x) {
  if (x.kind == V_NULL) return 0;
  if (x.kind == V_INSTR || x.kind == V_COMP || (x.kind == V_STRING && x.optional)) return 1;
  return x.kind == V_NUMBER ? x.optional || x.number != 0 : -1;
}
FUNCTION(logic) {  // !x, x && y, x || y
  int x = m_truth(m_arg_value(v, e, 0));
  if (*e->name == '!') return x < 0 ? m_unknown() : m_number(!x);
  if (x == (*e->name == '|')) return m_number(x);
  int y = m_truth(m_arg_value(v, e, 1));
  return x < 0 || y < 0 ? m_unknown() : m_number(y);
}
// A lambda that returns an expression of its one parameter, applied to x.
static inline m_value m_apply(m_env *v, const m_expr *f, m_value x) {
  const char *body = f->kind == E_LAMBDA && *f->type ? f->name : "";
  while (isspace((unsigned char)*body)) body++;
  const char *end = strrchr(body, ';');
  if (strncmp(body, "return", 6) != 0 || !end || strchr(body, ';') != end ||
      v->nvars == HS_COUNT(v->vars))
    return m_unknown();
  v->vars[v->nvars].name = f->type;
  v->vars[v->nvars++].x = x;
  m_expr *e = m_parse(&v->a, hs_arena_strndup(&v->a, body + 6, (size_t)(end - body) - 6));
  m_value r = m_eval(v, e);
  v->nvars--;
  return r;
}
// c_find_if, c_any_of, c_all_of, c_none_of and c_count_if over a list, with a lambda.
FUNCTION(algorithm) {
  m_value l = m_arg_value(v, e, 0);
  if (l.kind != V_LIST || e->n != 2 || e->args[1]->kind != E_LAMBDA) return m_unknown();
  const char *t = m_tail(e->name);
  u32 n = 0;
  for (u32 k = 0; k < l.n; k++) {
    int yes = m_truth(m_apply(v, e->args[1], l.v[k]));
    if (yes < 0) return m_unknown();
    if (yes && strcmp(t, "c_find_if") == 0) return l.v[k];
    n += yes != 0;
  }
  if (strcmp(t, "c_find_if") == 0) return (m_value){.kind = V_NULL};
  return m_number(strcmp(t, "c_any_of") == 0    ? n > 0
                  : strcmp(t, "c_all_of") == 0  ? n == l.n
                  : strcmp(t, "c_none_of") == 0 ? n == 0
                                                : n);
}
FUNCTION(order) {
  m_value x = m_arg_value(v, e, 0), y = m_arg_value(v, e, 1);
  if (x.kind != V_NUMBER || y.kind != V_NUMBER) return m_unknown();
  bool less = *e->name == '<', same = e->name[1] == '=';
  return m_number((less ? x.number < y.number : x.number > y.number) ||
                  (same && x.number == y.number));
}
// multiset(vector(X->fused_instruction_count()).begin(), ...): the opcodes inside the fusion X,
// gathered by the test's own loop.
FUNCTION(multiset) {
  const m_expr *x = e->n ? e->args[0] : NULL;
  if (!x || !x->on || strcmp(x->name, "begin") != 0 || !x->on->name ||
      strcmp(x->on->name, "vector") != 0 || x->on->n != 1)
    return m_unknown();
  const m_expr *count = x->on->args[0];
  if (count->kind != E_CALL || !count->on || strcmp(count->name, "fused_instruction_count") != 0)
    return m_unknown();
  m_value f = m_eval(v, count->on);
  hlo_computation *c = f.kind == V_INSTR ? hlo_fusion_comp(f.i) : NULL;
  if (!c) return f.kind == V_INSTR ? (m_value){.kind = V_BAG} : m_unknown();
  m_value *l = HS_NEW_ARRAY(&v->a, m_value, c->ninstrs + 1);
  u32 n = 0;
  hlo_for_each_instr(i, c) l[n++] = m_number(i->opcode);
  return (m_value){.kind = V_BAG, .n = n, .v = l};
}
FUNCTION(ordering) { return m_arg_value(v, e, 0); }

// ---- texts, lists and matchers ------------------------------------------------------------------
FUNCTION(str) {  // std::string("x"), std::string(3, 'x'), absl::string_view(s)
  m_value x = m_arg_value(v, e, 0), y = m_arg_value(v, e, 1);
  if (e->n == 1) return x.kind == V_STRING ? x : m_unknown();
  if (e->n != 2 || x.kind != V_NUMBER || y.kind != V_STRING || strlen(y.s) != 1 || x.number < 0 ||
      x.number > 1e6)
    return m_unknown();
  char *s = HS_NEW_ARRAY(&v->a, char, (size_t)x.number + 1);
  memset(s, *y.s, (size_t)x.number);
  return m_text(s);
}
FUNCTION(str_cat) {
  hs_buf b = {0};
  bool known = true;
  for (u32 k = 0; k < e->n; k++) {
    m_value x = m_eval(v, e->args[k]);
    if (x.kind == V_STRING) hs_buf_puts(&b, x.s);
    else if (x.kind == V_NUMBER && x.number == (double)(i64)x.number) hs_buf_i64(&b, (i64)x.number);
    else known = false;
  }
  m_value r = known ? m_str(v, (hs_str){b.p, b.n}) : m_unknown();
  hs_buf_free(&b);
  return r;
}
FUNCTION(str_test) {  // StrContains(s, part), StartsWith(s, part), EndsWith(s, part)
  const char *s = m_arg_text(v, e, 0), *part = m_arg_text(v, e, 1), *t = m_tail(e->name);
  if (!s || !part) return m_unknown();
  size_t n = strlen(s), k = strlen(part);
  if (strcmp(t, "StrContains") == 0) return m_number(strstr(s, part) != NULL);
  return m_number(n >= k && strncmp(*t == 'S' ? s : s + n - k, part, k) == 0);
}
FUNCTION(linear_search) {
  m_value l = m_arg_value(v, e, 0), x = m_arg_value(v, e, 1);
  if (l.kind != V_LIST) return m_unknown();
  for (u32 k = 0; k < l.n; k++) {
    m_answer a = m_equal(v, l.v[k], x);
    if (a == M_UNKNOWN) return m_unknown();
    if (a == M_YES) return m_number(1);
  }
  return m_number(0);
}
FUNCTION(is_sorted) {
  m_value l = m_arg_value(v, e, 0);
  if (l.kind != V_LIST || e->n != 1) return m_unknown();
  for (u32 k = 0; k < l.n; k++)
    if (l.v[k].kind != V_NUMBER) return m_unknown();
  for (u32 k = 1; k < l.n; k++)
    if (l.v[k].number < l.v[k - 1].number) return m_number(0);
  return m_number(1);
}
FUNCTION(pair) {
  m_value *l = HS_NEW_ARRAY(&v->a, m_value, e->n + 1);
  for (u32 k = 0; k < e->n; k++) {
    l[k] = m_eval(v, e->args[k]);
    if (l[k].kind == V_UNKNOWN) return l[k];
  }
  return m_list(e->n, l);
}
FUNCTION(match) {  // Match(x, pattern)
  m_value x = m_arg_value(v, e, 0);
  m_answer a = e->n == 2 && (x.kind == V_INSTR || x.kind == V_NULL) ? m_satisfies(v, x, e->args[1])
                                                                    : M_UNKNOWN;
  return a == M_UNKNOWN ? m_unknown() : m_number(a == M_YES);
}
FUNCTION(opcode_name) {
  m_value x = m_arg_value(v, e, 0);
  return x.kind == V_NUMBER ? m_text(hlo_op_text((hlo_opcode)x.number)) : m_unknown();
}
FUNCTION(all_constant) {  // hlo_query::AllOperandsAreConstants(x), AllOperandsAreParameters(x)
  m_value x = m_arg_value(v, e, 0);
  if (x.kind != V_INSTR) return m_unknown();
  hlo_opcode want = strstr(e->name, "Parameters") ? HLO_PARAMETER : HLO_CONSTANT;
  bool all = true;
  for (u32 k = 0; k < x.i->noperands; k++) all &= hlo_operand(x.i, k)->opcode == want;
  return m_number(all);
}
FUNCTION(is_constant) {  // hlo_query::IsConstantR0F32, IsScalarConstant, IsEffectiveParameter...
  m_value x = m_arg_value(v, e, 0);
  const char *t = m_tail(e->name);
  if (x.kind != V_INSTR) return m_unknown();
  if (strcmp(t, "IsScalarConstant") == 0)
    return m_number(x.i->opcode == HLO_CONSTANT && hlo_shape_is_scalar(x.i->shape));
  if (strcmp(t, "IsBroadcastOfScalarConstant") == 0)
    return m_number(x.i->opcode == HLO_BROADCAST && hlo_operand(x.i, 0)->opcode == HLO_CONSTANT &&
                    hlo_shape_is_scalar(hlo_operand(x.i, 0)->shape));
  return m_unknown();
}

#endif
