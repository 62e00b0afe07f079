// functions.c — functions that search the module, algorithms over lists, logic and arithmetic.
#include "tests/xla_cases/internal.h"

FUNCTION(inst) {
  const char *s = xc_arg_text(v, e, 0);
  return s ? xc_instr(hlo_find_instr(v->m, s)) : xc_unknown();
}
FUNCTION(comp) {
  const char *s = xc_arg_text(v, e, e->n - 1);
  hlo_computation *c = s ? hlo_find_comp(v->m, s) : NULL;
  if (c) v->named = c;
  return s ? xc_comp_value(c) : xc_unknown();
}
FUNCTION(first) {
  hlo_opcode op = e->n ? xc_kopcode(e->args[0]) : HLO_OP_INVALID;
  if (op == HLO_OP_INVALID) return xc_unknown();
  xc_value here = xc_find(v, xc_comp_value(v->m->entry), op, NULL),
           any = xc_find(v, (xc_value){.kind = V_MODULE, .m = v->m}, op, NULL);
  return here.n ? here.v[0] : any.n ? any.v[0] : xc_instr(NULL);
}
FUNCTION(first_while) {
  (void)e;
  xc_value l = xc_find(v, (xc_value){.kind = V_MODULE, .m = v->m}, HLO_WHILE, NULL);
  return l.n ? l.v[0] : xc_instr(NULL);
}
FUNCTION(old) {
  if (!v->before || v->old || e->n != 1) return xc_unknown();
  xc_env then = *v;
  then.m = v->before, then.old = true, then.nbound = 0;
  xc_value x = xc_eval(&then, e->args[0]);
  v->a = then.a;
  return x;
}
FUNCTION(same) { return xc_arg_value(v, e, 0); }  // Cast<T>(x), vector<T>(x), ShapeLayout(x)
FUNCTION(find_all) {
  xc_value where = xc_arg_value(v, e, 0);
  return e->n == 2 && xc_kopcode(e->args[1]) != HLO_OP_INVALID &&
                 (where.kind == V_COMP || where.kind == V_MODULE)
             ? xc_find(v, where, xc_kopcode(e->args[1]), NULL)
             : xc_unknown();
}
FUNCTION(find) {
  xc_value where = xc_arg_value(v, e, 0);
  if (e->n != 2 || (where.kind != V_COMP && where.kind != V_MODULE)) return xc_unknown();
  const char *name = e->args[1]->kind == E_STRING ? e->args[1]->name : NULL;
  if (!name && xc_kopcode(e->args[1]) == HLO_OP_INVALID) return xc_unknown();
  xc_value l = xc_find(v, where, xc_kopcode(e->args[1]), name);
  return l.n ? l.v[0] : xc_instr(NULL);
}
FUNCTION(count) {
  xc_value where = xc_arg_value(v, e, 0);
  return e->n == 2 && xc_kopcode(e->args[1]) != HLO_OP_INVALID &&
                 (where.kind == V_COMP || where.kind == V_MODULE)
             ? xc_number(xc_count(where, xc_kopcode(e->args[1])))
             : xc_unknown();
}
FUNCTION(count_in_entry) {
  return e->n == 2 && xc_kopcode(e->args[1]) != HLO_OP_INVALID
             ? xc_number(xc_count(xc_comp_value(v->m->entry), xc_kopcode(e->args[1])) > 0)
             : xc_unknown();
}
FUNCTION(contains_op) {
  xc_value where = xc_arg_value(v, e, 0), ops = xc_arg_value(v, e, 1);
  if (ops.kind != V_LIST || (where.kind != V_COMP && where.kind != V_MODULE)) return xc_unknown();
  u32 n = 0;
  for (u32 k = 0; k < ops.n; k++)
    n += ops.v[k].kind == V_NUMBER ? xc_count(where, (hlo_opcode)ops.v[k].number) : 0;
  return xc_number(n > 0);
}
FUNCTION(count_if) {  // the predicate that asks for an opcode, or a lambda
  xc_value l = xc_arg_value(v, e, 0);
  if (e->n == 2 && e->args[1]->kind == E_LAMBDA) return xc_f_algorithm(v, e);
  const char *t = e->n == 2 && e->args[1]->kind == E_NAME &&
                          strcmp(xc_tail(e->args[1]->name), "HloPredicateIsOp") == 0
                      ? e->args[1]->type
                      : NULL;
  if (l.kind != V_LIST || !t || xc_kname(t) == HLO_OP_INVALID) return xc_unknown();
  u32 n = 0;
  for (u32 k = 0; k < l.n; k++) n += l.v[k].kind == V_INSTR && l.v[k].i->opcode == xc_kname(t);
  return xc_number(n);
}
FUNCTION(has_instr) {
  xc_value c = xc_arg_value(v, e, 0), i = xc_arg_value(v, e, 1);
  return c.kind == V_COMP && (i.kind == V_INSTR || i.kind == V_NULL)
             ? xc_number(i.kind == V_INSTR && i.i->parent == c.c && !i.i->dead)
             : xc_unknown();
}
FUNCTION(position) {
  xc_value l = xc_arg_value(v, e, 0), x = xc_arg_value(v, e, 1);
  for (u32 k = 0; l.kind == V_LIST && k < l.n; k++)
    if (x.kind == V_NUMBER && l.v[k].kind == V_NUMBER && l.v[k].number == x.number)
      return xc_number(k);
  return xc_unknown();
}
FUNCTION(layout_of) {
  xc_value i = xc_unknown();
  const char *s = xc_arg_text(v, e, 1);
  if (s) i = xc_instr(hlo_find_instr(v->m, s));
  return i.kind == V_INSTR && i.i->shape->layout
             ? xc_ints_value(v, (hlo_ints){i.i->shape->rank, i.i->shape->layout->minor_to_major})
             : xc_unknown();
}
FUNCTION(arithmetic) {  // -x, x - y, x + y, x % y, x * y, x / y of integers
  xc_value x = xc_arg_value(v, e, 0), y = xc_arg_value(v, e, 1);
  if (x.kind != V_NUMBER || (e->n == 2 && y.kind != V_NUMBER)) return xc_unknown();
  if (e->n == 1) return xc_number(-x.number);
  if (*e->name == '%')
    return y.number != 0 ? xc_number((double)((i64)x.number % (i64)y.number)) : xc_unknown();
  if (*e->name == '*') return xc_number(x.number * y.number);
  if (*e->name == '/')
    return y.number != 0 && x.number == (double)(i64)x.number && y.number == (double)(i64)y.number
               ? xc_number((double)((i64)x.number / (i64)y.number))
               : xc_unknown();
  return xc_number(*e->name == '+' ? x.number + y.number : x.number - y.number);
}
// What `if` makes of a value: -1 when that is not known.
int xc_truth(xc_value x) {
  if (x.kind == V_NULL) return 0;
  if (x.kind == V_INSTR || x.kind == V_COMP || (x.kind == V_STRING && x.optional)) return 1;
  return x.kind == V_NUMBER ? x.optional || x.number != 0 : -1;
}
FUNCTION(logic) {  // !x, x && y, x || y
  int x = xc_truth(xc_arg_value(v, e, 0));
  if (*e->name == '!') return x < 0 ? xc_unknown() : xc_number(!x);
  if (x == (*e->name == '|')) return xc_number(x);
  int y = xc_truth(xc_arg_value(v, e, 1));
  return x < 0 || y < 0 ? xc_unknown() : xc_number(y);
}
// A lambda that returns an expression of its one parameter, applied to x.
xc_value xc_apply(xc_env *v, const xc_expr *f, xc_value x) {
  const char *body = f->kind == E_LAMBDA && *f->type ? f->name : "";
  while (isspace((unsigned char)*body)) body++;
  const char *end = strrchr(body, ';');
  if (strncmp(body, "return", 6) != 0 || !end || strchr(body, ';') != end ||
      v->nvars == HS_COUNT(v->vars))
    return xc_unknown();
  v->vars[v->nvars].name = f->type;
  v->vars[v->nvars++].x = x;
  xc_expr *e = xc_parse(&v->a, hs_arena_strndup(&v->a, body + 6, (size_t)(end - body) - 6));
  xc_value r = xc_eval(v, e);
  v->nvars--;
  return r;
}
// c_find_if, c_any_of, c_all_of, c_none_of and c_count_if over a list, with a lambda.
FUNCTION(algorithm) {
  xc_value l = xc_arg_value(v, e, 0);
  if (l.kind != V_LIST || e->n != 2 || e->args[1]->kind != E_LAMBDA) return xc_unknown();
  const char *t = xc_tail(e->name);
  u32 n = 0;
  for (u32 k = 0; k < l.n; k++) {
    int yes = xc_truth(xc_apply(v, e->args[1], l.v[k]));
    if (yes < 0) return xc_unknown();
    if (yes && strcmp(t, "c_find_if") == 0) return l.v[k];
    n += yes != 0;
  }
  if (strcmp(t, "c_find_if") == 0) return (xc_value){.kind = V_NULL};
  return xc_number(strcmp(t, "c_any_of") == 0    ? n > 0
                   : strcmp(t, "c_all_of") == 0  ? n == l.n
                   : strcmp(t, "c_none_of") == 0 ? n == 0
                                                 : n);
}
FUNCTION(order) {
  xc_value x = xc_arg_value(v, e, 0), y = xc_arg_value(v, e, 1);
  if (x.kind != V_NUMBER || y.kind != V_NUMBER) return xc_unknown();
  bool less = *e->name == '<', same = e->name[1] == '=';
  return xc_number((less ? x.number < y.number : x.number > y.number) ||
                   (same && x.number == y.number));
}
// multiset(vector(X->fused_instruction_count()).begin(), ...): the opcodes inside the fusion X,
// gathered by the test's own loop.
FUNCTION(multiset) {
  const xc_expr *x = e->n ? e->args[0] : NULL;
  if (!x || !x->on || strcmp(x->name, "begin") != 0 || !x->on->name ||
      strcmp(x->on->name, "vector") != 0 || x->on->n != 1)
    return xc_unknown();
  const xc_expr *count = x->on->args[0];
  if (count->kind != E_CALL || !count->on || strcmp(count->name, "fused_instruction_count") != 0)
    return xc_unknown();
  xc_value f = xc_eval(v, count->on);
  hlo_computation *c = f.kind == V_INSTR ? hlo_fusion_comp(f.i) : NULL;
  if (!c) return f.kind == V_INSTR ? (xc_value){.kind = V_BAG} : xc_unknown();
  xc_value *l = HS_NEW_ARRAY(&v->a, xc_value, c->ninstrs + 1);
  u32 n = 0;
  hlo_for_each_instr(i, c) l[n++] = xc_number(i->opcode);
  return (xc_value){.kind = V_BAG, .n = n, .v = l};
}
FUNCTION(ordering) { return xc_arg_value(v, e, 0); }

// ---- texts, lists and matchers ------------------------------------------------------------------
FUNCTION(str) {  // std::string("x"), std::string(3, 'x'), absl::string_view(s)
  xc_value x = xc_arg_value(v, e, 0), y = xc_arg_value(v, e, 1);
  if (e->n == 1) return x.kind == V_STRING ? x : xc_unknown();
  if (e->n != 2 || x.kind != V_NUMBER || y.kind != V_STRING || strlen(y.s) != 1 || x.number < 0 ||
      x.number > 1e6)
    return xc_unknown();
  char *s = HS_NEW_ARRAY(&v->a, char, (size_t)x.number + 1);
  memset(s, *y.s, (size_t)x.number);
  return xc_text(s);
}
FUNCTION(str_cat) {
  hs_buf b = {0};
  bool known = true;
  for (u32 k = 0; k < e->n; k++) {
    xc_value x = xc_eval(v, e->args[k]);
    if (x.kind == V_STRING) hs_buf_puts(&b, x.s);
    else if (x.kind == V_NUMBER && x.number == (double)(i64)x.number) hs_buf_i64(&b, (i64)x.number);
    else known = false;
  }
  xc_value r = known ? xc_str(v, (hs_str){b.p, b.n}) : xc_unknown();
  hs_buf_free(&b);
  return r;
}
FUNCTION(str_test) {  // StrContains(s, part), StartsWith(s, part), EndsWith(s, part)
  const char *s = xc_arg_text(v, e, 0), *part = xc_arg_text(v, e, 1), *t = xc_tail(e->name);
  if (!s || !part) return xc_unknown();
  size_t n = strlen(s), k = strlen(part);
  if (strcmp(t, "StrContains") == 0) return xc_number(strstr(s, part) != NULL);
  return xc_number(n >= k && strncmp(*t == 'S' ? s : s + n - k, part, k) == 0);
}
FUNCTION(linear_search) {
  xc_value l = xc_arg_value(v, e, 0), x = xc_arg_value(v, e, 1);
  if (l.kind != V_LIST) return xc_unknown();
  for (u32 k = 0; k < l.n; k++) {
    xc_answer a = xc_equal(v, l.v[k], x);
    if (a == XC_UNKNOWN) return xc_unknown();
    if (a == XC_YES) return xc_number(1);
  }
  return xc_number(0);
}
FUNCTION(is_sorted) {
  xc_value l = xc_arg_value(v, e, 0);
  if (l.kind != V_LIST || e->n != 1) return xc_unknown();
  for (u32 k = 0; k < l.n; k++)
    if (l.v[k].kind != V_NUMBER) return xc_unknown();
  for (u32 k = 1; k < l.n; k++)
    if (l.v[k].number < l.v[k - 1].number) return xc_number(0);
  return xc_number(1);
}
FUNCTION(pair) {
  xc_value *l = HS_NEW_ARRAY(&v->a, xc_value, e->n + 1);
  for (u32 k = 0; k < e->n; k++) {
    l[k] = xc_eval(v, e->args[k]);
    if (l[k].kind == V_UNKNOWN) return l[k];
  }
  return xc_list(e->n, l);
}
FUNCTION(match) {  // Match(x, pattern)
  xc_value x = xc_arg_value(v, e, 0);
  xc_answer a = e->n == 2 && (x.kind == V_INSTR || x.kind == V_NULL)
                    ? xc_satisfies(v, x, e->args[1])
                    : XC_UNKNOWN;
  return a == XC_UNKNOWN ? xc_unknown() : xc_number(a == XC_YES);
}
FUNCTION(opcode_name) {
  xc_value x = xc_arg_value(v, e, 0);
  return x.kind == V_NUMBER ? xc_text(hlo_op_text((hlo_opcode)x.number)) : xc_unknown();
}
FUNCTION(all_constant) {  // hlo_query::AllOperandsAreConstants(x), AllOperandsAreParameters(x)
  xc_value x = xc_arg_value(v, e, 0);
  if (x.kind != V_INSTR) return xc_unknown();
  hlo_opcode want = strstr(e->name, "Parameters") ? HLO_PARAMETER : HLO_CONSTANT;
  bool all = true;
  for (u32 k = 0; k < x.i->noperands; k++) all &= hlo_operand(x.i, k)->opcode == want;
  return xc_number(all);
}
FUNCTION(is_constant) {  // hlo_query::IsConstantR0F32, IsScalarConstant, IsEffectiveParameter...
  xc_value x = xc_arg_value(v, e, 0);
  const char *t = xc_tail(e->name);
  if (x.kind != V_INSTR) return xc_unknown();
  if (strcmp(t, "IsScalarConstant") == 0)
    return xc_number(x.i->opcode == HLO_CONSTANT && hlo_shape_is_scalar(x.i->shape));
  if (strcmp(t, "IsBroadcastOfScalarConstant") == 0)
    return xc_number(x.i->opcode == HLO_BROADCAST && hlo_operand(x.i, 0)->opcode == HLO_CONSTANT &&
                     hlo_shape_is_scalar(hlo_operand(x.i, 0)->shape));
  return xc_unknown();
}
