// values.c — values of terms: how they are made, and what a plain name stands for.
//
// Names are those of XLA's C++ (HloOpcode::kAdd, F32, kMainExecutionThread) and of the variables
// that the statements of a test have set. A name that is not known is V_UNKNOWN.
#include "core/eval/eval.h"
#include "core/text/text.h"
#include "tests/xla_cases/internal.h"

#include <math.h>
#include <stdio.h>

xc_answer xc_both(xc_answer a, xc_answer b) {
  return a == XC_NO || b == XC_NO             ? XC_NO
         : a == XC_UNKNOWN || b == XC_UNKNOWN ? XC_UNKNOWN
                                              : XC_YES;
}
xc_answer xc_yes(bool b) { return b ? XC_YES : XC_NO; }

xc_env *xc_open(const hlo_module *m, const hlo_module *before) {
  xc_env *v = hs_calloc(1, sizeof *v);
  v->m = m, v->before = before;
  if (!before) return v;
  hlo_instr **twin = HS_NEW_ARRAY(&v->a, hlo_instr *, before->next_instr_id + 1);
  for (hlo_computation *x = m->first, *y = before->first; x && y; x = x->next, y = y->next)
    for (hlo_instr *i = x->first, *j = y->first; i && j; i = i->next, j = j->next) twin[j->id] = i;
  v->twin = twin;
  return v;
}

void xc_close(xc_env *v) {
  for (size_t k = 0; k < v->made.n; k++) hlo_literal_unref(v->made.v[k]);
  for (size_t k = 0; k < v->read.n; k++) hlo_module_free(v->read.v[k]);
  hs_vec_free(&v->made);
  hs_vec_free(&v->read);
  hs_arena_free(&v->a);
  hs_free(v);
}

// ---- making values ------------------------------------------------------------------------------
xc_value xc_unknown(void) { return (xc_value){0}; }
xc_value xc_made(xc_env *v, hlo_literal *take) {
  hs_vec_push(&v->made, take);
  return (xc_value){.kind = V_LITERAL, .p = take};
}
xc_value xc_number(double x) { return (xc_value){.kind = V_NUMBER, .number = x}; }
xc_value xc_text(const char *s) { return (xc_value){.kind = V_STRING, .s = s ? s : ""}; }
xc_value xc_str(xc_env *v, hs_str s) {
  return xc_text(hs_arena_strndup(&v->a, s.n ? s.p : "", s.n));
}
xc_value xc_instr(hlo_instr *i) {
  return i ? (xc_value){.kind = V_INSTR, .i = i} : (xc_value){.kind = V_NULL};
}
xc_value xc_comp_value(hlo_computation *c) {
  return c ? (xc_value){.kind = V_COMP, .c = c} : (xc_value){.kind = V_NULL};
}
xc_value xc_shape_value(const hlo_shape *s) {
  return s ? (xc_value){.kind = V_SHAPE, .p = s} : xc_unknown();
}
// a buffer has its content's layout
const hlo_shape *xc_array_of(const hlo_shape *s) {
  return s->dtype == HLO_BUFFER ? s->elems[0] : s;
}
xc_value xc_layout_value(const hlo_layout *l) { return (xc_value){.kind = V_LAYOUT, .p = l}; }
xc_value xc_list(u32 n, const xc_value *x) { return (xc_value){.kind = V_LIST, .n = n, .v = x}; }
xc_value xc_ints_value(xc_env *v, hlo_ints x) {
  xc_value *l = HS_NEW_ARRAY(&v->a, xc_value, x.n + 1);
  for (u32 k = 0; k < x.n; k++) l[k] = xc_number((double)x.v[k]);
  return xc_list(x.n, l);
}
xc_value xc_instrs_value(xc_env *v, u32 n, hlo_instr *const *i) {
  xc_value *l = HS_NEW_ARRAY(&v->a, xc_value, n + 1);
  for (u32 k = 0; k < n; k++) l[k] = xc_instr(i[k]);
  return xc_list(n, l);
}

// ---- names --------------------------------------------------------------------------------------
// CamelCase -> opcode; HLO_OP_INVALID when it is none.
hlo_opcode xc_opcode(const char *camel) {
  static const struct {
    const char *camel;
    hlo_opcode op;
  } odd[] = {{"Cos", HLO_COSINE},
             {"Sin", HLO_SIN},
             {"Tan", HLO_TAN},
             {"Exp", HLO_EXP},
             {"Expm1", HLO_EXPM1},
             {"Log1p", HLO_LOG1P},
             {"Erf", HLO_ERF},
             {"RoundNearestAfz", HLO_ROUND_AFZ},
             {"OptimizationBarrier", HLO_OPT_BARRIER},
             {"Clz", HLO_CLZ},
             {"PopulationCount", HLO_POPCNT},
             {"RoundNearestEven", HLO_ROUND_EVEN},
             {"ShiftRightLogical", HLO_SHIFT_RIGHT_LOGICAL},
             {"TopK", HLO_TOPK}};
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

hlo_opcode xc_kname(const char *name) {  // HloOpcode::kAdd, kAdd
  const char *t = xc_tail(name);
  return *t == 'k' ? xc_opcode(t + 1) : HLO_OP_INVALID;
}
hlo_opcode xc_kopcode(const xc_expr *e) {
  return e->kind == E_NAME ? xc_kname(e->name) : HLO_OP_INVALID;
}

hlo_dtype xc_dtype(const xc_expr *e) {
  if (e->kind != E_NAME) return HLO_DT_INVALID;
  char lower[32];
  size_t n = 0;
  for (const char *p = xc_tail(e->name); *p && n < 31; p++)
    lower[n++] = (char)tolower((unsigned char)*p);
  return hlo_dtype_find((hs_str){lower, n});
}

int xc_direction(const char *name) {
  static const char *const names[] = {"Eq", "Ne", "Ge", "Gt", "Le", "Lt"};
  for (int k = 0; k < 6; k++)
    if (strcmp(names[k], name) == 0) return k;
  return -1;
}

xc_value xc_eval_name(xc_env *v, const xc_expr *e) {
  const char *s = e->name, *t = xc_tail(s);
  static const struct {
    const char *name;
    double value;
  } constants[] = {{"true", 1},
                   {"false", 0},
                   {"kHostMemorySpace", 5},
                   {"kDefaultMemorySpace", 0},
                   {"DEFAULT", HLO_PRECISION_DEFAULT},
                   {"HIGH", HLO_PRECISION_HIGH},
                   {"HIGHEST", HLO_PRECISION_HIGHEST},
                   {"kMustAlias", 1},
                   {"kMayAlias", 0},
                   {"kMaxOpNameSize", 1024},
                   {"kAllowInline", 1},
                   {"kProhibitInline", 0}};
  if (strcmp(s, "nullptr") == 0 || strcmp(t, "nullopt") == 0) return (xc_value){.kind = V_NULL};
  if (strcmp(s, "root") == 0) return xc_instr(v->m->entry->root);
  if (strcmp(s, "entry") == 0) return xc_comp_value(v->m->entry);
  if (strcmp(s, "m") == 0 || strcmp(s, "module") == 0)
    return (xc_value){.kind = V_MODULE, .m = v->m};
  // XLA's names for targets, activations and threads
  static const struct {
    const char *name, *text;
  } texts[] = {{"kCollectiveGroupKeyAttr", "collective_group_key"},
               {"kCudnnConvForwardCallTarget", "__cudnn$convForward"},
               {"kCudnnConvBiasActivationForwardCallTarget", "__cudnn$convBiasActivationForward"},
               {"kCudnnConvBackwardInputCallTarget", "__cudnn$convBackwardInput"},
               {"kCudnnConvBackwardFilterCallTarget", "__cudnn$convBackwardFilter"},
               {"kNone", "kNone"},
               {"kRelu", "kRelu"},
               {"kRelu6", "kRelu6"},
               {"kElu", "kElu"},
               {"kLeakyRelu", "kLeakyRelu"},
               {"kMainExecutionThread", "main"}};
  for (size_t k = 0; k < HS_COUNT(texts); k++)
    if (strcmp(texts[k].name, t) == 0) return xc_text(texts[k].text);
  for (u32 k = 0; k < v->nbound; k++)
    if (strcmp(v->bound[k].name, s) == 0) return xc_instr(v->bound[k].i);
  for (u32 k = v->nvars; k-- > 0;)
    if (strcmp(v->vars[k].name, s) == 0) return v->vars[k].x;
  if (strcmp(s, "call_graph") == 0) return (xc_value){.kind = V_MODULE, .m = v->m};
  // what a helper of the deduplicator's tests gathers after the pass
  if (strcmp(s, "computation_names") == 0) {
    xc_value *l = HS_NEW_ARRAY(&v->a, xc_value, v->m->ncomputations + 1);
    u32 n = 0;
    hlo_for_each_comp(c, v->m) l[n++] = xc_text(c->name);
    return xc_list(n, l);
  }
  // what the tests' own helper finds: the one loop of the entry
  if (strcmp(s, "transformed_while") == 0) {
    hlo_instr *w = NULL;
    hlo_for_each_instr(i, v->m->entry) {
      if (i->opcode != HLO_WHILE) continue;
      if (w) return xc_unknown();
      w = i;
    }
    return xc_instr(w);
  }
  for (size_t k = 0; k < HS_COUNT(constants); k++)
    if (strcmp(constants[k].name, t) == 0) return xc_number(constants[k].value);
  if (strstr(s, "FusionKind::") && hlo_enum_find(HLO_AK_ENUM_FUSION_KIND, hs_str_of(t), false) >= 0)
    return xc_number((double)hlo_enum_find(HLO_AK_ENUM_FUSION_KIND, hs_str_of(t), false));
  for (int k = 0; k < 2; k++) {  // enumerations that are not opcodes too
    static const struct {
      const char *prefix;
      hlo_attr_kind kind;
    } enums[] = {{"FftType::", HLO_AK_ENUM_FFT_TYPE},
                 {"RandomDistribution::", HLO_AK_ENUM_DISTRIBUTION}};
    i64 value = strstr(s, enums[k].prefix) ? hlo_enum_find(enums[k].kind, hs_str_of(t), false) : -1;
    if (value >= 0) return xc_number((double)value);
  }
  if (strstr(s, "ComparisonDirection::") && *t == 'k' && xc_direction(t + 1) >= 0)
    return xc_number(xc_direction(t + 1));
  if (xc_kname(s) != HLO_OP_INVALID) return xc_number(xc_kname(s));
  if (xc_dtype(e) != HLO_DT_INVALID) return xc_number(xc_dtype(e));
  return xc_unknown();
}

// ---- the small print of members -----------------------------------------------------------------
u32 xc_users(const hlo_instr *i) {  // distinct users
  u32 n = 0;
  hlo_for_each_use(u, i) {
    bool seen = false;
    for (hlo_use *w = i->first_use; w != u; w = w->next) seen |= w->user == u->user;
    n += !seen;
  }
  return n;
}

// Argument k of a call as a number, or `absent`.
i64 xc_arg(xc_env *v, const xc_expr *e, u32 k, i64 absent) {
  if (k >= e->n) return absent;
  xc_value x = xc_eval(v, e->args[k]);
  return x.kind == V_NUMBER ? (i64)x.number : -1;
}

xc_value xc_at(xc_value list, i64 k) {
  return list.kind == V_LIST && k >= 0 && k < (i64)list.n ? list.v[k] : xc_unknown();
}

// An attribute as a value: a number, or a list; with an argument, that element of the list.
xc_value xc_attr_value(xc_env *v, const hlo_instr *i, hlo_attr_id id, const xc_expr *e) {
  switch (hlo_attr_kind_of(id)) {
  case HLO_AK_INTS:
  case HLO_AK_PRECISIONS:
  case HLO_AK_BOOLS: {
    xc_value l = xc_ints_value(v, hlo_attr_ints(i, id));
    return e->n ? xc_at(l, xc_arg(v, e, 0, 0)) : l;
  }
  case HLO_AK_STRING: return xc_str(v, hlo_attr_str(i, id));
  case HLO_AK_COMP: return xc_comp_value(hlo_attr_comp(i, id));
  case HLO_AK_FLOAT: {
    const hlo_attr *a = hlo_attr_get(i, id);
    return a ? xc_number(a->v.f) : xc_unknown();
  }
  default: return xc_number((double)hlo_attr_int(i, id, id == HLO_ATTR_INDEX ? -1 : 0));
  }
}

hlo_program_shape xc_program(xc_env *v, const hlo_module *m) {
  const hlo_attr *a = hlo_attrs_find(m->attrs, HLO_ATTR_ENTRY_COMPUTATION_LAYOUT);
  if (a && a->v.p) return *(const hlo_program_shape *)a->v.p;
  const hlo_shape **s = HS_NEW_ARRAY(&v->a, const hlo_shape *, m->entry->nparams + 1);
  for (u32 k = 0; k < m->entry->nparams; k++) s[k] = m->entry->params[k]->shape;
  return (hlo_program_shape){m->entry->nparams, s, m->entry->root->shape};
}

// The text behind key in a JSON object ({...} or a scalar without quotes); NULL when there is none.
// Enough for backend_config.
const char *xc_json(xc_env *v, const char *text, const char *key) {
  char quoted[96];
  snprintf(quoted, sizeof quoted, "\"%s\"", key);
  const char *p = text ? strstr(text, quoted) : NULL;
  if (!p) return NULL;
  p += strlen(quoted);
  while (*p == ' ' || *p == ':') p++;
  if (*p == '{') {
    const char *end = xc_closing(p);
    return end ? hs_arena_strndup(&v->a, p, (size_t)(end - p)) : NULL;
  }
  if (*p == '"') p++;
  return hs_arena_strndup(&v->a, p, strcspn(p, "\",}"));
}

xc_value xc_called_list(xc_env *v, const hlo_instr *i) {
  u32 n = hlo_ncalled(i);
  xc_value *l = HS_NEW_ARRAY(&v->a, xc_value, n + 1);
  for (u32 k = 0; k < n; k++) l[k] = xc_comp_value(hlo_called(i, k));
  return xc_list(n, l);
}

xc_value xc_instructions(xc_env *v, const hlo_computation *c) {
  xc_value *l = HS_NEW_ARRAY(&v->a, xc_value, c->ninstrs + 1);
  u32 n = 0;
  hlo_for_each_instr(i, c) l[n++] = xc_instr(i);
  return xc_list(n, l);
}

u32 xc_count(xc_value where, hlo_opcode op) {
  u32 n = 0;
  if (where.kind == V_COMP)
    hlo_for_each_instr(i, where.c) n += i->opcode == op;
  if (where.kind == V_MODULE)
    hlo_for_each_comp(c, where.m)
      hlo_for_each_instr(i, c) n += i->opcode == op;
  return n;
}

// The instructions of an opcode (HLO_OP_INVALID: with a name) in a computation or a module.
xc_value xc_find(xc_env *v, xc_value where, hlo_opcode op, const char *name) {
  HS_VEC(hlo_instr *) found = {0};
  hlo_computation *first = where.kind == V_COMP ? where.c : where.m ? where.m->first : NULL;
  for (hlo_computation *c = first; c; c = where.kind == V_COMP ? NULL : c->next)
    hlo_for_each_instr(i, c)
      if (name ? strcmp(i->name, name) == 0 : i->opcode == op) hs_vec_push(&found, i);
  xc_value l = xc_instrs_value(v, (u32)found.n, found.v);
  hs_vec_free(&found);
  return l;
}

xc_value xc_origin_text(xc_env *v, const hlo_instr *i) {
  const hlo_attr *a = hlo_attr_get(i, HLO_ATTR_ORIGIN);
  if (!a) return xc_unknown();
  hs_buf b = {0};
  hlo_print_options o = hlo_print_default();
  hlo_print_attr_value(&b, i, a, &o);
  const char *s = hs_buf_cstr(&b);
  size_t n = b.n;
  // the text's own braces around the tree
  if (n >= 2 && s[0] == '{' && (s[1] == '(' || s[1] == '{')) s++, n -= 2;
  xc_value r = xc_text(hs_arena_strndup(&v->a, s, n));
  hs_buf_free(&b);
  return r;
}
