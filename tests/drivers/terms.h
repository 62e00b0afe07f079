// terms.h — what the terms in XLA's pass tests stand for: root->operand(0)->shape(),
// comp("body")->instruction_count(), ShapeUtil::MakeShape(F32, {2})... A term is evaluated to a
// value; what is not in the tables is V_UNKNOWN, which makes a case not checkable, never passed.
// Here are the values and how they are made; terms_instr.h and terms_parts.h have the members
// (table: members.def, by the kind of what they are asked of), terms_calls.h the functions
// (functions.def), terms_eval.h the evaluation.
#ifndef TESTS_TERMS_H
#define TESTS_TERMS_H

#include "core/eval/eval.h"
#include "core/text/text.h"
#include "tests/drivers/cpp.h"

#include <math.h>
#include <stdio.h>

typedef enum m_vkind {
  V_UNKNOWN,
  V_NULL,
  V_NUMBER,
  V_STRING,
  V_INSTR,
  V_COMP,
  V_MODULE,
  V_SHAPE,
  V_LAYOUT,
  V_LIST,
  V_LITERAL,
  V_WINDOW_DIM,
  V_PAD_DIM,
  V_ATTRS /* the frontend attributes of an instruction */,
  V_ORIGIN,
  V_JSON,
  V_META,
  V_SHARDING,
  V_BAG /* a list without order */
} m_vkind;
typedef struct m_value m_value;
struct m_value {
  m_vkind kind;
  double number;
  const char *s;  // string; JSON text
  hlo_instr *i;   // INSTR, ATTRS, META, ORIGIN
  hlo_computation *c;
  const hlo_module *m;
  // SHAPE, LAYOUT, LITERAL, SHARDING, window and padding dimensions
  const void *p;
  u32 n;
  const m_value *v;  // LIST
  // NUMBER, STRING: of a std::optional, which is true because it has a value
  bool optional;
};

typedef struct m_env {
  const hlo_module *m, *before;
  // by id in before: the same instruction in m (dead when the pass removed it); may be NULL
  hlo_instr *const *twin;
  bool old;  // evaluating inside old(...): m is before
  hs_arena a;
  struct {
    const char *name;
    hlo_instr *i;
  } bound[32];
  u32 nbound;
  // variables of the statements that are being run (stmts.h)
  struct {
    const char *name;
    m_value x;
  } vars[32];
  u32 nvars;
  hlo_computation *named;  // the last one that the case has asked for by name
  // Shape(X) variables whose layout the test sets
  struct {
    const hlo_shape *shape;
    const hlo_layout *layout;
  } shapes[8];
  u32 nshapes;
  HS_VEC(hlo_literal *) made;  // literals that terms computed
  HS_VEC(hlo_module *) read;   // modules that hold what was read from texts
} m_env;

static inline void m_env_close(m_env *v) {
  for (size_t k = 0; k < v->made.n; k++) hlo_literal_unref(v->made.v[k]);
  for (size_t k = 0; k < v->read.n; k++) hlo_module_free(v->read.v[k]);
  hs_vec_free(&v->made);
  hs_vec_free(&v->read);
  hs_arena_free(&v->a);
}

static inline m_value m_eval(m_env *v, const m_expr *e);
typedef enum { M_NO, M_YES, M_UNKNOWN } m_answer;
static inline m_answer m_both(m_answer a, m_answer b) {
  return a == M_NO || b == M_NO ? M_NO : a == M_UNKNOWN || b == M_UNKNOWN ? M_UNKNOWN : M_YES;
}
static inline m_answer m_yes(bool b) { return b ? M_YES : M_NO; }
// terms_eval.h
static inline m_answer m_equal(m_env *v, m_value a, m_value b);
static inline m_answer m_satisfies(m_env *v, m_value x, const m_expr *p);  // match.h

// ---- making values ------------------------------------------------------------------------------
static inline m_value m_unknown(void) { return (m_value){0}; }
static inline m_value m_made(m_env *v, hlo_literal *take) {
  hs_vec_push(&v->made, take);
  return (m_value){.kind = V_LITERAL, .p = take};
}
static inline m_value m_number(double x) { return (m_value){.kind = V_NUMBER, .number = x}; }
static inline m_value m_text(const char *s) { return (m_value){.kind = V_STRING, .s = s ? s : ""}; }
static inline m_value m_str(m_env *v, hs_str s) {
  return m_text(hs_arena_strndup(&v->a, s.n ? s.p : "", s.n));
}
static inline m_value m_instr(hlo_instr *i) {
  return i ? (m_value){.kind = V_INSTR, .i = i} : (m_value){.kind = V_NULL};
}
static inline m_value m_comp_value(hlo_computation *c) {
  return c ? (m_value){.kind = V_COMP, .c = c} : (m_value){.kind = V_NULL};
}
static inline m_value m_shape_value(const hlo_shape *s) {
  return s ? (m_value){.kind = V_SHAPE, .p = s} : m_unknown();
}
// a buffer has its content's layout
static inline const hlo_shape *m_array_of(const hlo_shape *s) {
  return s->dtype == HLO_BUFFER ? s->elems[0] : s;
}
static inline m_value m_layout_value(const hlo_layout *l) {
  return (m_value){.kind = V_LAYOUT, .p = l};
}
static inline m_value m_list(u32 n, const m_value *x) {
  return (m_value){.kind = V_LIST, .n = n, .v = x};
}
static inline m_value m_ints_value(m_env *v, hlo_ints x) {
  m_value *l = HS_NEW_ARRAY(&v->a, m_value, x.n + 1);
  for (u32 k = 0; k < x.n; k++) l[k] = m_number((double)x.v[k]);
  return m_list(x.n, l);
}
static inline m_value m_instrs_value(m_env *v, u32 n, hlo_instr *const *i) {
  m_value *l = HS_NEW_ARRAY(&v->a, m_value, n + 1);
  for (u32 k = 0; k < n; k++) l[k] = m_instr(i[k]);
  return m_list(n, l);
}

// ---- names --------------------------------------------------------------------------------------
// CamelCase -> opcode; HLO_OP_INVALID when it is none.
static inline hlo_opcode m_opcode(const char *camel) {
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

static inline hlo_opcode m_kname(const char *name) {  // HloOpcode::kAdd, kAdd
  const char *t = m_tail(name);
  return *t == 'k' ? m_opcode(t + 1) : HLO_OP_INVALID;
}
static inline hlo_opcode m_kopcode(const m_expr *e) {
  return e->kind == E_NAME ? m_kname(e->name) : HLO_OP_INVALID;
}

static inline hlo_dtype m_dtype(const m_expr *e) {
  if (e->kind != E_NAME) return HLO_DT_INVALID;
  char lower[32];
  size_t n = 0;
  for (const char *p = m_tail(e->name); *p && n < 31; p++)
    lower[n++] = (char)tolower((unsigned char)*p);
  return hlo_dtype_find((hs_str){lower, n});
}

static inline int m_direction(const char *name) {
  static const char *const names[] = {"Eq", "Ne", "Ge", "Gt", "Le", "Lt"};
  for (int k = 0; k < 6; k++)
    if (strcmp(names[k], name) == 0) return k;
  return -1;
}

static inline m_value m_eval_name(m_env *v, const m_expr *e) {
  const char *s = e->name, *t = m_tail(s);
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
  if (strcmp(s, "nullptr") == 0 || strcmp(t, "nullopt") == 0) return (m_value){.kind = V_NULL};
  if (strcmp(s, "root") == 0) return m_instr(v->m->entry->root);
  if (strcmp(s, "entry") == 0) return m_comp_value(v->m->entry);
  if (strcmp(s, "m") == 0 || strcmp(s, "module") == 0)
    return (m_value){.kind = V_MODULE, .m = v->m};
  // XLA's names for targets and threads
  static const struct {
    const char *name, *text;
  } texts[] = {{"kCudnnConvForwardCallTarget", "__cudnn$convForward"},
               {"kCudnnConvBiasActivationForwardCallTarget", "__cudnn$convBiasActivationForward"},
               {"kCudnnConvBackwardInputCallTarget", "__cudnn$convBackwardInput"},
               {"kCudnnConvBackwardFilterCallTarget", "__cudnn$convBackwardFilter"},
               {"kMainExecutionThread", "main"}};
  for (size_t k = 0; k < HS_COUNT(texts); k++)
    if (strcmp(texts[k].name, t) == 0) return m_text(texts[k].text);
  for (u32 k = 0; k < v->nbound; k++)
    if (strcmp(v->bound[k].name, s) == 0) return m_instr(v->bound[k].i);
  for (u32 k = v->nvars; k-- > 0;)
    if (strcmp(v->vars[k].name, s) == 0) return v->vars[k].x;
  if (strcmp(s, "call_graph") == 0) return (m_value){.kind = V_MODULE, .m = v->m};
  // what a helper of the deduplicator's tests gathers after the pass
  if (strcmp(s, "computation_names") == 0) {
    m_value *l = HS_NEW_ARRAY(&v->a, m_value, v->m->ncomputations + 1);
    u32 n = 0;
    hlo_for_each_comp(c, v->m) l[n++] = m_text(c->name);
    return m_list(n, l);
  }
  // what the tests' own helper finds: the one loop of the entry
  if (strcmp(s, "transformed_while") == 0) {
    hlo_instr *w = NULL;
    hlo_for_each_instr(i, v->m->entry) {
      if (i->opcode != HLO_WHILE) continue;
      if (w) return m_unknown();
      w = i;
    }
    return m_instr(w);
  }
  for (size_t k = 0; k < HS_COUNT(constants); k++)
    if (strcmp(constants[k].name, t) == 0) return m_number(constants[k].value);
  if (strstr(s, "FusionKind::") && hlo_enum_find(HLO_AK_ENUM_FUSION_KIND, hs_str_of(t), false) >= 0)
    return m_number((double)hlo_enum_find(HLO_AK_ENUM_FUSION_KIND, hs_str_of(t), false));
  for (int k = 0; k < 2; k++) {  // enumerations that are not opcodes too
    static const struct {
      const char *prefix;
      hlo_attr_kind kind;
    } enums[] = {{"FftType::", HLO_AK_ENUM_FFT_TYPE},
                 {"RandomDistribution::", HLO_AK_ENUM_DISTRIBUTION}};
    i64 value = strstr(s, enums[k].prefix) ? hlo_enum_find(enums[k].kind, hs_str_of(t), false) : -1;
    if (value >= 0) return m_number((double)value);
  }
  if (strstr(s, "ComparisonDirection::") && *t == 'k' && m_direction(t + 1) >= 0)
    return m_number(m_direction(t + 1));
  if (m_kname(s) != HLO_OP_INVALID) return m_number(m_kname(s));
  if (m_dtype(e) != HLO_DT_INVALID) return m_number(m_dtype(e));
  return m_unknown();
}

// ---- the small print of members -----------------------------------------------------------------
static inline u32 m_users(const hlo_instr *i) {  // distinct users
  u32 n = 0;
  hlo_for_each_use(u, i) {
    bool seen = false;
    for (hlo_use *w = i->first_use; w != u; w = w->next) seen |= w->user == u->user;
    n += !seen;
  }
  return n;
}

// Argument k of a call as a number, or `absent`.
static inline i64 m_arg(m_env *v, const m_expr *e, u32 k, i64 absent) {
  if (k >= e->n) return absent;
  m_value x = m_eval(v, e->args[k]);
  return x.kind == V_NUMBER ? (i64)x.number : -1;
}

static inline m_value m_at(m_value list, i64 k) {
  return list.kind == V_LIST && k >= 0 && k < (i64)list.n ? list.v[k] : m_unknown();
}

// An attribute as a value: a number, or a list; with an argument, that element of the list.
static inline m_value m_attr_value(m_env *v, const hlo_instr *i, hlo_attr_id id, const m_expr *e) {
  switch (hlo_attr_kind_of(id)) {
  case HLO_AK_INTS:
  case HLO_AK_PRECISIONS:
  case HLO_AK_BOOLS: {
    m_value l = m_ints_value(v, hlo_attr_ints(i, id));
    return e->n ? m_at(l, m_arg(v, e, 0, 0)) : l;
  }
  case HLO_AK_STRING: return m_str(v, hlo_attr_str(i, id));
  case HLO_AK_COMP: return m_comp_value(hlo_attr_comp(i, id));
  case HLO_AK_FLOAT: {
    const hlo_attr *a = hlo_attr_get(i, id);
    return a ? m_number(a->v.f) : m_unknown();
  }
  default: return m_number((double)hlo_attr_int(i, id, id == HLO_ATTR_INDEX ? -1 : 0));
  }
}

static inline hlo_program_shape m_program(m_env *v, const hlo_module *m) {
  const hlo_attr *a = hlo_attrs_find(m->attrs, HLO_ATTR_ENTRY_COMPUTATION_LAYOUT);
  if (a && a->v.p) return *(const hlo_program_shape *)a->v.p;
  const hlo_shape **s = HS_NEW_ARRAY(&v->a, const hlo_shape *, m->entry->nparams + 1);
  for (u32 k = 0; k < m->entry->nparams; k++) s[k] = m->entry->params[k]->shape;
  return (hlo_program_shape){m->entry->nparams, s, m->entry->root->shape};
}

// The text behind key in a JSON object ({...} or a scalar without quotes); NULL when there is none.
// Enough for backend_config.
static inline const char *m_json(m_env *v, const char *text, const char *key) {
  char quoted[96];
  snprintf(quoted, sizeof quoted, "\"%s\"", key);
  const char *p = text ? strstr(text, quoted) : NULL;
  if (!p) return NULL;
  p += strlen(quoted);
  while (*p == ' ' || *p == ':') p++;
  if (*p == '{') {
    const char *end = m_closing(p);
    return end ? hs_arena_strndup(&v->a, p, (size_t)(end - p)) : NULL;
  }
  if (*p == '"') p++;
  return hs_arena_strndup(&v->a, p, strcspn(p, "\",}"));
}

static inline m_value m_called_list(m_env *v, const hlo_instr *i) {
  hlo_computation *c[64];
  u32 n = hlo_called(i, c, 64);
  m_value *l = HS_NEW_ARRAY(&v->a, m_value, n + 1);
  for (u32 k = 0; k < n && k < 64; k++) l[k] = m_comp_value(c[k]);
  return m_list(HS_MIN(n, 64u), l);
}

static inline m_value m_instructions(m_env *v, const hlo_computation *c) {
  m_value *l = HS_NEW_ARRAY(&v->a, m_value, c->ninstrs + 1);
  u32 n = 0;
  hlo_for_each_instr(i, c) l[n++] = m_instr(i);
  return m_list(n, l);
}

static inline u32 m_count(m_value where, hlo_opcode op) {
  u32 n = 0;
  if (where.kind == V_COMP)
    hlo_for_each_instr(i, where.c) n += i->opcode == op;
  if (where.kind == V_MODULE)
    hlo_for_each_comp(c, where.m)
      hlo_for_each_instr(i, c) n += i->opcode == op;
  return n;
}

// The instructions of an opcode (HLO_OP_INVALID: with a name) in a computation or a module.
static inline m_value m_find(m_env *v, m_value where, hlo_opcode op, const char *name) {
  HS_VEC(hlo_instr *) found = {0};
  hlo_computation *first = where.kind == V_COMP ? where.c : where.m ? where.m->first : NULL;
  for (hlo_computation *c = first; c; c = where.kind == V_COMP ? NULL : c->next)
    hlo_for_each_instr(i, c)
      if (name ? strcmp(i->name, name) == 0 : i->opcode == op) hs_vec_push(&found, i);
  m_value l = m_instrs_value(v, (u32)found.n, found.v);
  hs_vec_free(&found);
  return l;
}

static inline m_value m_origin_text(m_env *v, const hlo_instr *i) {
  const hlo_attr *a = hlo_attr_get(i, HLO_ATTR_ORIGIN);
  if (!a) return m_unknown();
  hs_buf b = {0};
  hlo_print_options o = hlo_print_default();
  hlo_print_attr_value(&b, i, a, &o);
  const char *s = hs_buf_cstr(&b);
  size_t n = b.n;
  // the text's own braces around the tree
  if (n >= 2 && s[0] == '{' && (s[1] == '(' || s[1] == '{')) s++, n -= 2;
  m_value r = m_text(hs_arena_strndup(&v->a, s, n));
  hs_buf_free(&b);
  return r;
}

#endif
