// eval.c — evaluates a term, and decides whether two values are equal.
//
// Members are looked up by the kind of the value they are asked of (members.def), functions by
// name, first with and then without their namespace (functions.def). Anything that is not in the
// tables is V_UNKNOWN, and an unknown operand makes the result unknown.
#include "tests/xla_cases/internal.h"

FUNCTION(equals) {
  if (e->n != 2) return xc_unknown();
  xc_answer a = xc_equal(v, xc_eval(v, e->args[0]), xc_eval(v, e->args[1]));
  return a == XC_UNKNOWN ? xc_unknown() : xc_number((a == XC_YES) == (*e->name == '='));
}

typedef struct xc_member {
  xc_vkind of;
  const char *name;
  xc_member_fn *fn;
  hlo_attr_id attr;
} xc_member;
static const xc_member xc_members[] = {
#define MEMBER_OF(kind, name, fn) {V_##kind, name, xc_##fn, HLO_ATTR_NONE},
#define ATTRIBUTE_OF(kind, name, attr) {V_##kind, name, NULL, HLO_ATTR_##attr},
#include "tests/xla_cases/members.def"
#undef MEMBER_OF
#undef ATTRIBUTE_OF
};
static const struct {
  const char *name;
  xc_function_fn *fn;
} xc_functions[] = {
#define FUNCTION_OF(name, fn) {name, xc_f_##fn},
#include "tests/xla_cases/functions.def"
#undef FUNCTION_OF
};

// What value `self` answers to the member e.
xc_value xc_member_of(xc_env *v, xc_value self, const xc_expr *e) {
  for (size_t k = 0; k < HS_COUNT(xc_members); k++) {
    const xc_member *x = &xc_members[k];
    // what any value has
    bool optional = x->of == V_NULL && x->fn && strcmp(x->name, "value") != 0;
    if ((x->of == self.kind || (optional && self.kind != V_UNKNOWN)) &&
        strcmp(x->name, e->name) == 0)
      return x->fn ? x->fn(v, self, e) : xc_attr_value(v, self.i, x->attr, e);
  }
  // proto fields of a backend_config; 64-bit numbers are strings in JSON
  if (self.kind == V_JSON) {
    bool has = strncmp(e->name, "has_", 4) == 0;
    const char *inner = xc_json(v, self.s, has ? e->name + 4 : e->name);
    if (has) return xc_number(inner != NULL);
    if (!inner)
      return *self.s == '{' || !*self.s ? (xc_value){.kind = V_JSON, .s = ""} : xc_unknown();
    if (*inner == 'k' && isupper((unsigned char)inner[1])) return xc_text(inner);  // an enumeration
    if (strncmp(inner, "true", 4) == 0) return xc_number(1);
    return *inner == '{' ? (xc_value){.kind = V_JSON, .s = inner} : xc_number(atof(inner));
  }
  return xc_unknown();
}

static xc_value xc_eval_member(xc_env *v, const xc_expr *e) {
  // evaluator.Evaluate(m, {...})
  if (strcmp(e->name, "Evaluate") == 0 && e->n == 2 && e->on->kind == E_NAME) {
    xc_value m = xc_eval(v, e->args[0]);
    return m.kind == V_MODULE ? xc_evaluate(v, m.m, e->args[1]) : xc_unknown();
  }
  xc_value self = xc_eval(v, e->on);
  // removed: as it was
  if (self.kind == V_NULL && v->before && e->on->kind == E_CALL &&
      strcmp(e->on->name, "inst") == 0) {
    xc_env then = *v;
    then.m = v->before;
    self = xc_eval(&then, e->on);
    v->a = then.a;
  }
  return xc_member_of(v, self, e);
}

xc_value xc_eval(xc_env *v, const xc_expr *e) {
  switch (e->kind) {
  case E_NUMBER: return xc_number(e->number);
  case E_STRING: return xc_text(e->name);
  case E_NAME: return e->on ? xc_eval_member(v, e) : xc_eval_name(v, e);
  case E_LIST: {
    xc_value *l = HS_NEW_ARRAY(&v->a, xc_value, e->n + 1);
    for (u32 k = 0; k < e->n; k++) {
      l[k] = xc_eval(v, e->args[k]);
      if (l[k].kind == V_UNKNOWN) return l[k];
    }
    return xc_list(e->n, l);
  }
  case E_CALL: break;
  case E_REF: return e->on ? xc_unknown() : xc_eval_name(v, e);  // *&x
  default: return xc_unknown();
  }
  if (e->on) return xc_eval_member(v, e);
  for (size_t k = 0; k < HS_COUNT(xc_functions); k++)
    if (strcmp(xc_functions[k].name, e->name) == 0) return xc_functions[k].fn(v, e);
  for (size_t k = 0; k < HS_COUNT(xc_functions); k++)  // whatever namespace stands in front
    if (strcmp(xc_functions[k].name, xc_tail(e->name)) == 0 &&
        isupper((unsigned char)*xc_functions[k].name))
      return xc_functions[k].fn(v, e);
  if (strncmp(e->name, "Count", 5) == 0 && e->n == 1) {  // CountCopies(m), CountCopies(*comp)
    char op[64];
    size_t n = strlen(e->name + 5);
    snprintf(op, sizeof op, "%s", strcmp(e->name + 5, "Copies") == 0 ? "Copy" : e->name + 5);
    if (n && n < sizeof op && op[n - 1] == 's') op[n - 1] = '\0';
    xc_value where = xc_eval(v, e->args[0]);
    if (xc_opcode(op) != HLO_OP_INVALID && (where.kind == V_COMP || where.kind == V_MODULE))
      return xc_number(xc_count(where, xc_opcode(op)));
  }
  size_t length = strlen(e->name);
  // AllReduceCount(m)
  if (length > 5 && strcmp(e->name + length - 5, "Count") == 0 && e->n == 1) {
    xc_value where = xc_eval(v, e->args[0]);
    hlo_opcode op = xc_opcode(hs_arena_strndup(&v->a, e->name, length - 5));
    if (op != HLO_OP_INVALID && (where.kind == V_COMP || where.kind == V_MODULE))
      return xc_number(xc_count(where, op));
  }
  return xc_unknown();
}

// ---- equality -----------------------------------------------------------------------------------

// An instruction of the module before the pass stands for itself after it.
const hlo_instr *xc_now(const xc_env *v, const hlo_instr *i) {
  return i && v->before && v->twin && i->parent->module == v->before ? v->twin[i->id] : i;
}

static xc_answer xc_same_text(xc_env *v, const char *a, const char *b) {
  if (strcmp(a, b) == 0) return XC_YES;
  if (strncmp(b, "HloModule", 9) != 0 || strncmp(a, "HloModule", 9) != 0) return XC_NO;
  hlo_module *x = NULL, *y = NULL;  // modules: equal up to the names that a pass makes up
  hs_status s = hlo_parse(v->m->ctx, a, strlen(a), NULL, &x),
            t = hlo_parse(v->m->ctx, b, strlen(b), NULL, &y);
  xc_answer r =
      hs_ok(s) && hs_ok(t) ? xc_yes(hlo_fingerprint(x) == hlo_fingerprint(y)) : XC_UNKNOWN;
  hs_status_drop(s);
  hs_status_drop(t);
  return r;
}

xc_answer xc_equal(xc_env *v, xc_value a, xc_value b) {
  if (a.kind == V_UNKNOWN || b.kind == V_UNKNOWN) return XC_UNKNOWN;
  if (a.kind == V_NULL || b.kind == V_NULL) return xc_yes(a.kind == b.kind);
  if (a.kind == V_BAG && b.kind == V_LIST) {  // numbers in any order
    if (a.n != b.n) return XC_NO;
    for (u32 k = 0; k < a.n; k++) {
      u32 left = 0, right = 0;
      for (u32 j = 0; j < a.n; j++)
        left += a.v[j].number == a.v[k].number, right += b.v[j].number == a.v[k].number;
      if (left != right) return XC_NO;
    }
    return XC_YES;
  }
  if (a.kind != b.kind) return XC_UNKNOWN;
  switch (a.kind) {
  case V_NUMBER: return xc_yes(a.number == b.number || (float)a.number == (float)b.number);
  case V_STRING: return xc_same_text(v, a.s, b.s);
  case V_INSTR: return xc_yes(xc_now(v, a.i) == xc_now(v, b.i));
  case V_COMP: return xc_yes(a.c == b.c);
  case V_SHAPE:
    return xc_yes(hlo_shape_fill_layout(v->m->ctx, a.p) == hlo_shape_fill_layout(v->m->ctx, b.p));
  case V_LAYOUT: return xc_yes(a.p == b.p);
  case V_LITERAL: return xc_yes(hlo_literal_equal(a.p, b.p));
  case V_SHARDING: return xc_same_sharding(v, a.p, b.p);
  case V_LIST: {
    if (a.n != b.n) return XC_NO;
    xc_answer all = XC_YES;
    for (u32 k = 0; k < a.n; k++) all = xc_both(all, xc_equal(v, a.v[k], b.v[k]));
    return all;
  }
  default: return XC_UNKNOWN;
  }
}
