// terms.h — what the terms in XLA's pass tests stand for: root->operand(0)->shape(), comp("body")->instruction_count(),
// ShapeUtil::MakeShape(F32, {2})... A term is evaluated to a value; what is not in the tables here is V_UNKNOWN, which makes
// a case not checkable, never passed. Two tables: members (by the kind of what they are asked of) and functions.
#ifndef TESTS_TERMS_H
#define TESTS_TERMS_H

#include "core/eval.h"
#include "core/text.h"
#include "tests/drivers/cpp.h"

#include <math.h>
#include <stdio.h>

typedef enum m_vkind { V_UNKNOWN, V_NULL, V_NUMBER, V_STRING, V_INSTR, V_COMP, V_MODULE, V_SHAPE, V_LAYOUT, V_LIST, V_LITERAL, V_WINDOW_DIM, V_PAD_DIM,
                       V_ATTRS /* the frontend attributes of an instruction */, V_ORIGIN, V_JSON, V_META, V_BAG /* a list without order */ } m_vkind;
typedef struct m_value m_value;
struct m_value {
  m_vkind kind;
  double number;
  const char *s;                       // string; JSON text
  hlo_instr *i;                        // INSTR, ATTRS, META, ORIGIN
  hlo_computation *c;
  const hlo_module *m;
  const void *p;                       // SHAPE, LAYOUT, LITERAL, window and padding dimensions
  u32 n; const m_value *v;             // LIST
  bool optional;                       // NUMBER: of a std::optional, which is true because it has a value
};

typedef struct m_env {
  const hlo_module *m, *before;
  hlo_instr *const *twin;              // by id in before: the same instruction in m (dead when the pass removed it); may be NULL
  bool old;                            // evaluating inside old(...): m is before
  hs_arena a;
  struct { const char *name; hlo_instr *i; } bound[32];
  u32 nbound;
  struct { const char *name; m_value x; } vars[32];   // variables of the statements that are being run (stmts.h)
  u32 nvars;
  hlo_computation *named;              // the last one that the case has asked for by name
  struct { const hlo_shape *shape; const hlo_layout *layout; } shapes[8];   // Shape(X) variables whose layout the test sets
  u32 nshapes;
} m_env;

static inline m_value m_eval(m_env *v, const m_expr *e);

// ---- making values ------------------------------------------------------------------------------------------------------
static inline m_value m_unknown(void) { return (m_value){0}; }
static inline m_value m_number(double x) { return (m_value){.kind = V_NUMBER, .number = x}; }
static inline m_value m_text(const char *s) { return (m_value){.kind = V_STRING, .s = s ? s : ""}; }
static inline m_value m_str(m_env *v, hs_str s) { return m_text(hs_arena_strndup(&v->a, s.n ? s.p : "", s.n)); }
static inline m_value m_instr(hlo_instr *i) { return i ? (m_value){.kind = V_INSTR, .i = i} : (m_value){.kind = V_NULL}; }
static inline m_value m_comp_value(hlo_computation *c) { return c ? (m_value){.kind = V_COMP, .c = c} : (m_value){.kind = V_NULL}; }
static inline m_value m_shape_value(const hlo_shape *s) { return s ? (m_value){.kind = V_SHAPE, .p = s} : m_unknown(); }
static inline const hlo_shape *m_array_of(const hlo_shape *s) { return s->dtype == HLO_BUFFER ? s->elems[0] : s; }   // a buffer has its content's layout
static inline m_value m_layout_value(const hlo_layout *l) { return (m_value){.kind = V_LAYOUT, .p = l}; }
static inline m_value m_list(u32 n, const m_value *x) { return (m_value){.kind = V_LIST, .n = n, .v = x}; }
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

static inline hlo_opcode m_kname(const char *name) {   // HloOpcode::kAdd, kAdd
  const char *t = m_tail(name);
  return *t == 'k' ? m_opcode(t + 1) : HLO_OP_INVALID;
}
static inline hlo_opcode m_kopcode(const m_expr *e) { return e->kind == E_NAME ? m_kname(e->name) : HLO_OP_INVALID; }

static inline hlo_dtype m_dtype(const m_expr *e) {
  if (e->kind != E_NAME) return HLO_DT_INVALID;
  char lower[32];
  size_t n = 0;
  for (const char *p = m_tail(e->name); *p && n < 31; p++) lower[n++] = (char)tolower((unsigned char)*p);
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
  static const struct { const char *name; double value; } constants[] = {
      {"true", 1}, {"false", 0}, {"kHostMemorySpace", 5}, {"kDefaultMemorySpace", 0}, {"DEFAULT", HLO_PRECISION_DEFAULT}, {"HIGH", HLO_PRECISION_HIGH},
      {"HIGHEST", HLO_PRECISION_HIGHEST}, {"kMustAlias", 1}, {"kMayAlias", 0}};
  if (strcmp(s, "nullptr") == 0) return (m_value){.kind = V_NULL};
  if (strcmp(s, "root") == 0) return m_instr(v->m->entry->root);
  if (strcmp(s, "entry") == 0) return m_comp_value(v->m->entry);
  if (strcmp(s, "m") == 0 || strcmp(s, "module") == 0) return (m_value){.kind = V_MODULE, .m = v->m};
  for (u32 k = 0; k < v->nbound; k++)
    if (strcmp(v->bound[k].name, s) == 0) return m_instr(v->bound[k].i);
  for (u32 k = v->nvars; k-- > 0;)
    if (strcmp(v->vars[k].name, s) == 0) return v->vars[k].x;
  if (strcmp(s, "call_graph") == 0) return (m_value){.kind = V_MODULE, .m = v->m};
  if (strcmp(s, "computation_names") == 0) {   // what a helper of the deduplicator's tests gathers after the pass
    m_value *l = HS_NEW_ARRAY(&v->a, m_value, v->m->ncomputations + 1);
    u32 n = 0;
    hlo_for_each_comp(c, v->m) l[n++] = m_text(c->name);
    return m_list(n, l);
  }
  if (strcmp(s, "transformed_while") == 0) {   // what the tests' own helper finds: the one loop of the entry
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
  if (strstr(s, "FusionKind::") && hlo_enum_find(HLO_AK_ENUM_FUSION_KIND, hs_str_of(t), false) >= 0) return m_number((double)hlo_enum_find(HLO_AK_ENUM_FUSION_KIND, hs_str_of(t), false));
  if (strstr(s, "ComparisonDirection::") && *t == 'k' && m_direction(t + 1) >= 0) return m_number(m_direction(t + 1));
  if (m_kname(s) != HLO_OP_INVALID) return m_number(m_kname(s));
  if (m_dtype(e) != HLO_DT_INVALID) return m_number(m_dtype(e));
  return m_unknown();
}

// ---- the small print of members -----------------------------------------------------------------------------------------
static inline u32 m_users(const hlo_instr *i) {   // distinct users
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

static inline m_value m_at(m_value list, i64 k) { return list.kind == V_LIST && k >= 0 && k < (i64)list.n ? list.v[k] : m_unknown(); }

// An attribute as a value: a number, or a list; with an argument, that element of the list.
static inline m_value m_attr_value(m_env *v, const hlo_instr *i, hlo_attr_id id, const m_expr *e) {
  switch (hlo_attr_kind_of(id)) {
    case HLO_AK_INTS: case HLO_AK_PRECISIONS: case HLO_AK_BOOLS: {
      m_value l = m_ints_value(v, hlo_attr_ints(i, id));
      return e->n ? m_at(l, m_arg(v, e, 0, 0)) : l;
    }
    case HLO_AK_STRING: return m_str(v, hlo_attr_str(i, id));
    case HLO_AK_COMP: return m_comp_value(hlo_attr_comp(i, id));
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

// The text behind key in a JSON object ({...} or a scalar without quotes); NULL when there is none. Enough for backend_config.
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
  if (where.kind == V_COMP) hlo_for_each_instr(i, where.c) n += i->opcode == op;
  if (where.kind == V_MODULE) hlo_for_each_comp(c, where.m) hlo_for_each_instr(i, c) n += i->opcode == op;
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
  if (n >= 2 && s[0] == '{' && (s[1] == '(' || s[1] == '{')) s++, n -= 2;   // the text's own braces around the tree
  m_value r = m_text(hs_arena_strndup(&v->a, s, n));
  hs_buf_free(&b);
  return r;
}

// ---- members: of an instruction ------------------------------------------------------------------------------------------
typedef m_value m_member_fn(m_env *, m_value self, const m_expr *);
#define MEMBER(fn) static inline m_value m_##fn(m_env *v, m_value self, const m_expr *e)
MEMBER(self) { (void)v, (void)e; return self; }
MEMBER(i_opcode) { (void)v, (void)e; return m_number(self.i->opcode); }
MEMBER(i_name) { (void)v, (void)e; return m_text(self.i->name); }
MEMBER(i_shape) { (void)v, (void)e; return m_shape_value(self.i->shape); }
MEMBER(i_operand) { i64 k = m_arg(v, e, 0, 0); return k >= 0 && k < (i64)self.i->noperands ? m_instr(hlo_operand(self.i, (u32)k)) : m_instr(NULL); }
MEMBER(i_operands) {
  (void)e;
  m_value *l = HS_NEW_ARRAY(&v->a, m_value, self.i->noperands + 1);
  for (u32 k = 0; k < self.i->noperands; k++) l[k] = m_instr(hlo_operand(self.i, k));
  return m_list(self.i->noperands, l);
}
MEMBER(i_operand_count) { (void)v, (void)e; return m_number(self.i->noperands); }
MEMBER(i_users) {
  (void)e;
  m_value *l = HS_NEW_ARRAY(&v->a, m_value, self.i->nuses + 1);
  u32 n = 0;
  hlo_for_each_use(u, self.i) {
    bool seen = false;
    for (u32 k = 0; k < n; k++) seen |= l[k].i == u->user;
    if (!seen) l[n++] = m_instr(u->user);
  }
  return m_list(n, l);
}
MEMBER(i_user_count) { (void)v, (void)e; return m_number(m_users(self.i)); }
MEMBER(i_param) { (void)v, (void)e; return m_number((double)hlo_param_number(self.i)); }
MEMBER(i_is_root) { (void)v, (void)e; return m_number(hlo_is_root(self.i)); }
MEMBER(i_parent) { (void)v, (void)e; return m_comp_value(self.i->parent); }
MEMBER(i_slice) {
  const hlo_slices *s = hlo_attr_ptr(self.i, HLO_ATTR_SLICE);
  if (!s) return m_unknown();
  m_value *l = HS_NEW_ARRAY(&v->a, m_value, s->n + 1);
  char c = e->name[6];   // slice_starts, slice_limits, slice_strides
  for (u32 k = 0; k < s->n; k++) l[k] = m_number((double)(c == 'l' ? s->v[k].limit : e->name[8] == 'a' ? s->v[k].start : s->v[k].stride));
  return e->n ? m_at(m_list(s->n, l), m_arg(v, e, 0, 0)) : m_list(s->n, l);
}
MEMBER(i_fused_root) { (void)v, (void)e; hlo_computation *c = hlo_fusion_comp(self.i); return m_instr(c ? c->root : NULL); }
MEMBER(i_fused_comp) { (void)v, (void)e; return m_comp_value(hlo_fusion_comp(self.i)); }
MEMBER(i_fused_count) { (void)v, (void)e; hlo_computation *c = hlo_fusion_comp(self.i); return c ? m_number(c->ninstrs) : m_unknown(); }
MEMBER(i_called) { (void)e; return m_called_list(v, self.i); }
MEMBER(i_branch) { return m_at(m_called_list(v, self.i), m_arg(v, e, 0, 0)); }
MEMBER(i_branch1) { (void)e; return m_at(m_called_list(v, self.i), 1); }
MEMBER(i_wrapped) { (void)v, (void)e; hlo_computation *c[4]; return hlo_called(self.i, c, 4) ? m_instr(c[0]->root) : m_instr(NULL); }
MEMBER(i_has_to_apply) { (void)v, (void)e; return m_number(hlo_attr_comp(self.i, HLO_ATTR_TO_APPLY) != NULL); }
MEMBER(i_literal) { (void)v, (void)e; const hlo_literal *l = hlo_constant_value(self.i); return l && !l->elided ? (m_value){.kind = V_LITERAL, .p = l} : m_unknown(); }
MEMBER(i_metadata) { (void)v, (void)e; return (m_value){.kind = V_META, .i = self.i}; }
MEMBER(i_frontend) { (void)v, (void)e; return (m_value){.kind = V_ATTRS, .i = self.i}; }
MEMBER(i_has_frontend) { (void)v, (void)e; const hlo_frontend *f = hlo_attr_ptr(self.i, HLO_ATTR_FRONTEND_ATTRIBUTES); return m_number(f && f->n); }
MEMBER(i_origin) { (void)v, (void)e; return hlo_attr_get(self.i, HLO_ATTR_ORIGIN) ? (m_value){.kind = V_ORIGIN, .i = self.i} : (m_value){.kind = V_NULL}; }
MEMBER(i_ctrl_preds) { (void)e; const hlo_instr_list *l = self.i->ctrl_preds; return m_instrs_value(v, l ? l->n : 0, l ? l->v : NULL); }
MEMBER(i_ctrl_succs) {
  (void)e;
  HS_VEC(hlo_instr *) s = {0};
  hlo_for_each_instr(i, self.i->parent)
    for (u32 k = 0; i->ctrl_preds && k < i->ctrl_preds->n; k++)
      if (i->ctrl_preds->v[k] == self.i) hs_vec_push(&s, i);
  m_value l = m_instrs_value(v, (u32)s.n, s.v);
  hs_vec_free(&s);
  return l;
}
MEMBER(i_has_ctrl) { (void)v, (void)e; return m_number((self.i->ctrl_preds && self.i->ctrl_preds->n) || self.i->nctrl_succs); }
MEMBER(i_has_sharding) { (void)v, (void)e; return m_number(hlo_attr_get(self.i, HLO_ATTR_SHARDING) != NULL); }
// The one device that all of it is on.
static inline i64 m_device(const hlo_sharding *s) {
  if (s->type != HLO_SH_TUPLE) return s->type == HLO_SH_MAXIMAL ? s->device : -1;
  i64 d = s->nchildren ? m_device(s->children[0]) : -1;
  for (u32 k = 1; k < s->nchildren; k++)
    if (m_device(s->children[k]) != d) return -1;
  return d;
}
MEMBER(i_device) {
  (void)v, (void)e;
  const hlo_sharding *s = hlo_attr_ptr(self.i, HLO_ATTR_SHARDING);
  i64 d = s ? m_device(s) : -1;
  return d >= 0 ? (m_value){.kind = V_NUMBER, .number = (double)d, .optional = true} : (m_value){.kind = V_NULL};
}
MEMBER(i_window) {
  (void)e;
  const hlo_window *w = hlo_attr_ptr(self.i, HLO_ATTR_WINDOW);
  if (!w) return m_unknown();
  m_value *l = HS_NEW_ARRAY(&v->a, m_value, w->n + 1);
  for (u32 k = 0; k < w->n; k++) l[k] = (m_value){.kind = V_WINDOW_DIM, .p = &w->v[k]};
  return m_list(w->n, l);
}
MEMBER(i_padding) {
  (void)e;
  const hlo_padding *w = hlo_attr_ptr(self.i, HLO_ATTR_PADDING);
  if (!w) return m_unknown();
  m_value *l = HS_NEW_ARRAY(&v->a, m_value, w->n + 1);
  for (u32 k = 0; k < w->n; k++) l[k] = (m_value){.kind = V_PAD_DIM, .p = &w->v[k]};
  return m_list(w->n, l);
}
MEMBER(i_backend_config) {
  (void)e;
  const hlo_backend_config *b = hlo_attr_ptr(self.i, HLO_ATTR_BACKEND_CONFIG);
  return (m_value){.kind = V_JSON, .s = b ? hs_arena_strndup(&v->a, b->text.p, b->text.n) : ""};
}
MEMBER(i_concat_dim) { (void)v, (void)e; hlo_ints d = hlo_attr_ints(self.i, HLO_ATTR_DIMENSIONS); return d.n ? m_number((double)d.v[0]) : m_unknown(); }

// ---- of computations and modules -------------------------------------------------------------------------------------------
MEMBER(c_root) { (void)v, (void)e; return m_instr(self.c->root); }
MEMBER(c_name) { (void)v, (void)e; return m_text(self.c->name); }
MEMBER(c_param) { i64 k = m_arg(v, e, 0, 0); return m_instr(k >= 0 && k < (i64)self.c->nparams ? self.c->params[k] : NULL); }
MEMBER(c_params) { (void)e; return m_instrs_value(v, self.c->nparams, self.c->params); }
MEMBER(c_nparams) { (void)v, (void)e; return m_number(self.c->nparams); }
MEMBER(c_count) { (void)v, (void)e; return m_number(self.c->ninstrs); }
MEMBER(c_instrs) { (void)e; return m_instructions(v, self.c); }
MEMBER(c_thread) { (void)e; return self.c->execution_thread.n ? m_str(v, self.c->execution_thread) : m_text("main"); }
MEMBER(c_named) { m_value n = e->n ? m_eval(v, e->args[0]) : m_unknown(); return n.kind == V_STRING ? m_at(m_find(v, self, HLO_OP_INVALID, n.s), 0) : m_unknown(); }
MEMBER(c_callers) {
  (void)e;
  m_value *l = NULL;
  u32 n = 0;
  for (int fill = 0; fill < 2; fill++) {
    if (fill) l = HS_NEW_ARRAY(&v->a, m_value, n + 1);
    n = 0;
    hlo_for_each_comp(c, self.c->module) hlo_for_each_instr(i, c)
      if (hlo_calls(i, self.c)) { if (fill) l[n] = m_instr(i); n++; }
  }
  return m_list(n, l);
}
MEMBER(m_node) { (void)self; return e->n ? m_eval(v, e->args[0]) : m_unknown(); }
MEMBER(m_entry) { (void)v, (void)e; return m_comp_value(self.m->entry); }
MEMBER(m_count) { (void)v, (void)e; return m_number(self.m->ncomputations); }
MEMBER(m_instr_count) { (void)v, (void)e; return m_number(hlo_instr_count(self.m)); }
MEMBER(m_comps) {
  (void)e;
  m_value *l = HS_NEW_ARRAY(&v->a, m_value, self.m->ncomputations + 1);
  u32 n = 0;
  hlo_for_each_comp(c, self.m) l[n++] = m_comp_value(c);
  return m_list(n, l);
}
MEMBER(m_before) {   // ExecutesBefore(a, b) in the schedule
  m_value a = e->n == 2 ? m_eval(v, e->args[0]) : m_unknown(), b = e->n == 2 ? m_eval(v, e->args[1]) : m_unknown();
  if (a.kind != V_INSTR || b.kind != V_INSTR || a.i->parent != b.i->parent || !hlo_is_scheduled(self.m)) return m_unknown();
  for (const hlo_instr *i = a.i->next; i; i = i->next)
    if (i == b.i) return m_number(1);
  return m_number(0);
}
MEMBER(m_ok) { (void)v, (void)self, (void)e; return m_number(1); }
MEMBER(m_has_schedule) { (void)v, (void)e; return m_number(hlo_is_scheduled(self.m)); }
MEMBER(m_sequence) { m_value c = e->n ? m_eval(v, e->args[0]) : m_unknown(); return self.m && hlo_is_scheduled(self.m) && c.kind == V_COMP ? c : m_unknown(); }
MEMBER(m_nonfusion) {
  m_value *l = HS_NEW_ARRAY(&v->a, m_value, self.m->ncomputations + 1), t = e->n ? m_eval(v, e->args[0]) : m_list(0, NULL);
  u32 n = 0;
  hlo_for_each_comp(c, self.m) {
    bool in = t.n == 0;
    for (u32 k = 0; k < t.n; k++) in |= t.v[k].kind == V_STRING && hs_str_eq(hs_str_of(t.v[k].s), c->execution_thread.n ? c->execution_thread : hs_str_of("main"));
    if (in && !hlo_is_fusion_comp(c)) l[n++] = m_comp_value(c);
  }
  return m_list(n, l);
}
MEMBER(m_result) { (void)e; return m_shape_value(m_program(v, self.m).result); }
MEMBER(m_param_layout) { hlo_program_shape s = m_program(v, self.m); i64 k = m_arg(v, e, 0, 0); return k >= 0 && k < (i64)s.n ? m_shape_value(s.params[k]) : m_unknown(); }
MEMBER(m_print) {
  if (e->n) return m_unknown();
  hs_buf b = {0};
  hlo_print_options o = hlo_print_default();
  hlo_print_module(&b, self.m, &o);
  m_value r = m_str(v, (hs_str){b.p, b.n});
  hs_buf_free(&b);
  return r;
}
// input_output_alias_config(): ParameterHasAlias(n, index), OutputHasAlias(index), GetAliasedParameter(index).
static inline bool m_same_index(hlo_ints a, m_value l) {
  bool same = l.kind == V_LIST && l.n == a.n;
  for (u32 k = 0; same && k < a.n; k++) same = l.v[k].kind == V_NUMBER && (i64)l.v[k].number == a.v[k];
  return same;
}
MEMBER(m_alias) {
  const hlo_attr *a = hlo_attrs_find(self.m->attrs, HLO_ATTR_INPUT_OUTPUT_ALIAS);
  const hlo_aliases *l = a ? a->v.p : NULL;
  bool param = strcmp(e->name, "ParameterHasAlias") == 0, has = param || strcmp(e->name, "OutputHasAlias") == 0;
  if (e->n != (param ? 2u : 1u)) return m_unknown();
  m_value index = m_eval(v, e->args[e->n - 1]);
  i64 number = param ? m_arg(v, e, 0, -1) : -1;
  for (u32 k = 0; l && k < l->n; k++) {
    if (param ? l->v[k].param != number || !m_same_index(l->v[k].param_index, index) : !m_same_index(l->v[k].out_index, index)) continue;
    if (has) return m_number(1);
    m_value *pair = HS_NEW_ARRAY(&v->a, m_value, 2);
    pair[0] = m_number((double)l->v[k].param), pair[1] = m_number(l->v[k].must);
    return m_list(2, pair);
  }
  return has ? m_number(0) : m_unknown();
}

// ---- of shapes, layouts, lists, literals and the rest --------------------------------------------------------------------
#define SHAPE ((const hlo_shape *)self.p)
#define LAYOUT ((const hlo_layout *)self.p)
#define LITERAL ((const hlo_literal *)self.p)
MEMBER(s_tuple) { (void)v, (void)e; return m_number(hlo_shape_is_tuple(SHAPE)); }
MEMBER(s_array) { (void)v, (void)e; return m_number(hlo_shape_is_array(SHAPE)); }
MEMBER(s_token) { (void)v, (void)e; return m_number(SHAPE == hlo_shape_token(v->m->ctx)); }
MEMBER(s_type) { (void)v, (void)e; return m_number(SHAPE->dtype); }
MEMBER(s_rank) { (void)v, (void)e; return m_number(SHAPE->rank); }
MEMBER(s_dims) { m_value l = m_ints_value(v, (hlo_ints){SHAPE->rank, SHAPE->dims}); return e->n ? m_at(l, m_arg(v, e, 0, 0)) : l; }
MEMBER(s_elems) {
  m_value *l = HS_NEW_ARRAY(&v->a, m_value, SHAPE->nelems + 1);
  for (u32 k = 0; k < SHAPE->nelems; k++) l[k] = m_shape_value(SHAPE->elems[k]);
  return e->n ? m_at(m_list(SHAPE->nelems, l), m_arg(v, e, 0, 0)) : m_list(SHAPE->nelems, l);
}
MEMBER(s_layout) {
  (void)v, (void)e;
  const hlo_shape *s = m_array_of(SHAPE);
  return hlo_shape_is_array(s) ? m_layout_value(s->layout) : m_unknown();
}
MEMBER(s_has_layout) { (void)v, (void)e; return m_number(SHAPE->layout != NULL); }
MEMBER(s_dynamic) { i64 k = m_arg(v, e, 0, 0); return m_number(SHAPE->dynamic && k >= 0 && k < (i64)SHAPE->rank && SHAPE->dynamic[k]); }
MEMBER(l_order) { (void)e; return LAYOUT ? m_ints_value(v, (hlo_ints){LAYOUT->rank, LAYOUT->minor_to_major}) : m_unknown(); }
MEMBER(l_space) { (void)v, (void)e; return LAYOUT ? m_number((double)LAYOUT->memory_space) : m_unknown(); }
MEMBER(v_size) { (void)v, (void)e; return m_number(self.n); }
MEMBER(v_empty) { (void)v, (void)e; return m_number(self.n == 0); }
MEMBER(v_front) { (void)v, (void)e; return m_at(self, 0); }
MEMBER(v_back) { (void)v, (void)e; return m_at(self, (i64)self.n - 1); }
MEMBER(v_at) { return m_at(self, m_arg(v, e, 0, 0)); }
MEMBER(v_dimensions) { return e->n ? m_at(self, m_arg(v, e, 0, 0)) : self; }
MEMBER(v_alias_number) { (void)v, (void)e; return m_at(self, 0); }
MEMBER(v_alias_kind) { (void)v, (void)e; return m_at(self, 1); }
MEMBER(t_first) { (void)v, (void)e; return LITERAL->shape->elements ? m_number(hlo_literal_f64(LITERAL, 0)) : m_unknown(); }
MEMBER(t_get) {
  m_value x = e->n ? m_eval(v, e->args[0]) : m_list(0, NULL);
  i64 at = 0;
  if (x.kind != V_LIST || x.n != LITERAL->shape->rank) return m_unknown();
  for (u32 k = 0; k < x.n; k++) at = at * LITERAL->shape->dims[k] + (i64)x.v[k].number;
  return at < LITERAL->shape->elements ? m_number(hlo_dtype_is_float(LITERAL->shape->dtype) ? hlo_literal_f64(LITERAL, at) : (double)hlo_literal_i64(LITERAL, at)) : m_unknown();
}
MEMBER(d_low) { (void)v, (void)e; return m_number((double)(self.kind == V_PAD_DIM ? ((const hlo_pad_dim *)self.p)->low : ((const hlo_window_dim *)self.p)->pad_low)); }
MEMBER(d_high) { (void)v, (void)e; return m_number((double)(self.kind == V_PAD_DIM ? ((const hlo_pad_dim *)self.p)->high : ((const hlo_window_dim *)self.p)->pad_high)); }
MEMBER(d_interior) { (void)v, (void)e; return m_number((double)((const hlo_pad_dim *)self.p)->interior); }
MEMBER(d_size) { (void)v, (void)e; return m_number((double)((const hlo_window_dim *)self.p)->size); }
MEMBER(d_stride) { (void)v, (void)e; return m_number((double)((const hlo_window_dim *)self.p)->stride); }
static inline const hlo_frontend_entry *m_frontend_find(m_env *v, m_value self, const m_expr *e) {
  const hlo_frontend *f = hlo_attr_ptr(self.i, HLO_ATTR_FRONTEND_ATTRIBUTES);
  m_value key = e->n ? m_eval(v, e->args[0]) : m_unknown();
  for (u32 k = 0; f && key.kind == V_STRING && k < f->n; k++)
    if (hs_str_eq(f->v[k].key, hs_str_of(key.s))) return &f->v[k];
  return NULL;
}
MEMBER(a_at) { const hlo_frontend_entry *x = m_frontend_find(v, self, e); return x ? m_str(v, x->value) : m_text("(absent)"); }
MEMBER(a_contains) { return m_number(m_frontend_find(v, self, e) != NULL); }
MEMBER(a_size) { (void)v, (void)e; const hlo_frontend *f = hlo_attr_ptr(self.i, HLO_ATTR_FRONTEND_ATTRIBUTES); return m_number(f ? f->n : 0); }
MEMBER(o_text) { (void)e; return m_origin_text(v, self.i); }
static inline bool m_origin_fits(const hlo_origin_node *n, const hlo_shape *s) {
  if (!n || n->tuple != hlo_shape_is_tuple(s)) return false;
  bool fits = !n->tuple || n->nchildren == s->nelems;
  for (u32 k = 0; fits && n->tuple && k < n->nchildren; k++) fits = m_origin_fits(n->children[k], s->elems[k]);
  return fits;
}
MEMBER(o_fits) {
  const hlo_origin *o = hlo_attr_ptr(self.i, HLO_ATTR_ORIGIN);
  m_value s = e->n ? m_eval(v, e->args[0]) : m_unknown();
  return o && s.kind == V_SHAPE ? m_number(m_origin_fits(o->root, s.p)) : m_unknown();
}
MEMBER(p_op_name) { (void)e; const hlo_metadata *x = hlo_metadata_of(self.i); return x ? m_str(v, x->op_name) : m_text(""); }
MEMBER(p_op_type) { (void)e; const hlo_metadata *x = hlo_metadata_of(self.i); return x ? m_str(v, x->op_type) : m_text(""); }
MEMBER(p_dedup) { (void)e; const hlo_metadata *x = hlo_metadata_of(self.i); return x ? m_str(v, hlo_metadata_rest_of(x)->deduplicated_name) : m_text(""); }
MEMBER(p_source_file) { (void)e; const hlo_metadata *x = hlo_metadata_of(self.i); return x ? m_str(v, x->source_file) : m_text(""); }
MEMBER(p_source_line) { (void)v, (void)e; const hlo_metadata *x = hlo_metadata_of(self.i); return m_number(x ? x->source_line : 0); }
MEMBER(x_empty) { (void)v, (void)e; return m_number(!*self.s); }
#undef SHAPE
#undef LAYOUT
#undef LITERAL

typedef struct m_member { m_vkind of; const char *name; m_member_fn *fn; hlo_attr_id attr; } m_member;
static const m_member m_members[] = {
    {V_INSTR, "opcode", m_i_opcode, 0}, {V_INSTR, "name", m_i_name, 0}, {V_INSTR, "shape", m_i_shape, 0}, {V_INSTR, "operand", m_i_operand, 0},
    {V_INSTR, "mutable_operand", m_i_operand, 0}, {V_INSTR, "operands", m_i_operands, 0}, {V_INSTR, "operand_count", m_i_operand_count, 0},
    {V_INSTR, "users", m_i_users, 0}, {V_INSTR, "user_count", m_i_user_count, 0}, {V_INSTR, "parameter_number", m_i_param, 0}, {V_INSTR, "IsRoot", m_i_is_root, 0},
    {V_INSTR, "parent", m_i_parent, 0}, {V_INSTR, "slice_starts", m_i_slice, 0}, {V_INSTR, "slice_limits", m_i_slice, 0}, {V_INSTR, "slice_strides", m_i_slice, 0},
    {V_INSTR, "fused_expression_root", m_i_fused_root, 0}, {V_INSTR, "fused_instructions_computation", m_i_fused_comp, 0}, {V_INSTR, "fused_instruction_count", m_i_fused_count, 0},
    {V_INSTR, "called_computations", m_i_called, 0}, {V_INSTR, "branch_computations", m_i_called, 0}, {V_INSTR, "branch_computation", m_i_branch, 0},
    {V_INSTR, "true_computation", m_i_branch, 0}, {V_INSTR, "false_computation", m_i_branch1, 0}, {V_INSTR, "async_wrapped_instruction", m_i_wrapped, 0},
    {V_INSTR, "has_to_apply", m_i_has_to_apply, 0}, {V_INSTR, "while_init", m_i_operand, 0}, {V_INSTR, "literal", m_i_literal, 0}, {V_INSTR, "metadata", m_i_metadata, 0},
    {V_INSTR, "frontend_attributes", m_i_frontend, 0}, {V_INSTR, "has_frontend_attributes", m_i_has_frontend, 0}, {V_INSTR, "original_value", m_i_origin, 0},
    {V_INSTR, "control_predecessors", m_i_ctrl_preds, 0}, {V_INSTR, "control_successors", m_i_ctrl_succs, 0}, {V_INSTR, "HasControlDependencies", m_i_has_ctrl, 0},
    {V_INSTR, "has_sharding", m_i_has_sharding, 0}, {V_INSTR, "sharding_unique_device", m_i_device, 0}, {V_INSTR, "window", m_i_window, 0}, {V_INSTR, "padding_config", m_i_padding, 0},
    {V_INSTR, "backend_config", m_i_backend_config, 0}, {V_INSTR, "concatenate_dimension", m_i_concat_dim, 0}, {V_INSTR, "all_gather_dimension", m_i_concat_dim, 0},
    {V_INSTR, "scatter_dimension", m_i_concat_dim, 0}, {V_INSTR, "dot_dimension_numbers", m_self, 0}, {V_INSTR, "gather_dimension_numbers", m_self, 0},
    {V_INSTR, "scatter_dimension_numbers", m_self, 0}, {V_INSTR, "precision_config", m_self, 0},
    {V_INSTR, "dimensions", NULL, HLO_ATTR_DIMENSIONS}, {V_INSTR, "iota_dimension", NULL, HLO_ATTR_IOTA_DIMENSION}, {V_INSTR, "tuple_index", NULL, HLO_ATTR_INDEX},
    {V_INSTR, "custom_call_target", NULL, HLO_ATTR_CUSTOM_CALL_TARGET}, {V_INSTR, "fusion_kind", NULL, HLO_ATTR_KIND}, {V_INSTR, "to_apply", NULL, HLO_ATTR_TO_APPLY},
    {V_INSTR, "while_body", NULL, HLO_ATTR_BODY}, {V_INSTR, "while_condition", NULL, HLO_ATTR_CONDITION}, {V_INSTR, "select", NULL, HLO_ATTR_SELECT},
    {V_INSTR, "scatter", NULL, HLO_ATTR_SCATTER}, {V_INSTR, "comparison_direction", NULL, HLO_ATTR_DIRECTION}, {V_INSTR, "operand_precision", NULL, HLO_ATTR_OPERAND_PRECISION},
    {V_INSTR, "lhs_batch_dimensions", NULL, HLO_ATTR_LHS_BATCH_DIMS}, {V_INSTR, "rhs_batch_dimensions", NULL, HLO_ATTR_RHS_BATCH_DIMS},
    {V_INSTR, "lhs_contracting_dimensions", NULL, HLO_ATTR_LHS_CONTRACTING_DIMS}, {V_INSTR, "rhs_contracting_dimensions", NULL, HLO_ATTR_RHS_CONTRACTING_DIMS},
    {V_INSTR, "gather_slice_sizes", NULL, HLO_ATTR_SLICE_SIZES}, {V_INSTR, "dynamic_slice_sizes", NULL, HLO_ATTR_DYNAMIC_SLICE_SIZES},
    {V_INSTR, "operand_batching_dims", NULL, HLO_ATTR_OPERAND_BATCHING_DIMS}, {V_INSTR, "start_indices_batching_dims", NULL, HLO_ATTR_START_INDICES_BATCHING_DIMS},
    {V_INSTR, "offset_dims", NULL, HLO_ATTR_OFFSET_DIMS}, {V_INSTR, "collapsed_slice_dims", NULL, HLO_ATTR_COLLAPSED_SLICE_DIMS},
    {V_INSTR, "start_index_map", NULL, HLO_ATTR_START_INDEX_MAP}, {V_INSTR, "index_vector_dim", NULL, HLO_ATTR_INDEX_VECTOR_DIM},
    {V_INSTR, "update_window_dims", NULL, HLO_ATTR_UPDATE_WINDOW_DIMS}, {V_INSTR, "inserted_window_dims", NULL, HLO_ATTR_INSERTED_WINDOW_DIMS},
    {V_INSTR, "feature_group_count", NULL, HLO_ATTR_FEATURE_GROUP_COUNT}, {V_INSTR, "channel_id", NULL, HLO_ATTR_CHANNEL_ID},
    {V_INSTR, "is_stable", NULL, HLO_ATTR_IS_STABLE}, {V_INSTR, "unique_indices", NULL, HLO_ATTR_UNIQUE_INDICES}, {V_INSTR, "indices_are_sorted", NULL, HLO_ATTR_INDICES_ARE_SORTED},
    {V_COMP, "root_instruction", m_c_root, 0}, {V_COMP, "name", m_c_name, 0}, {V_COMP, "parameter_instruction", m_c_param, 0}, {V_COMP, "parameter_instructions", m_c_params, 0},
    {V_COMP, "num_parameters", m_c_nparams, 0}, {V_COMP, "instruction_count", m_c_count, 0}, {V_COMP, "size", m_c_count, 0}, {V_COMP, "instructions", m_c_instrs, 0},
    {V_COMP, "caller_callsites", m_c_callers, 0}, {V_COMP, "caller_instructions", m_c_callers, 0}, {V_MODULE, "GetNode", m_m_node, 0},
    {V_COMP, "execution_thread", m_c_thread, 0}, {V_COMP, "GetInstructionWithName", m_c_named, 0},
    {V_MODULE, "entry_computation", m_m_entry, 0}, {V_MODULE, "computation_count", m_m_count, 0}, {V_MODULE, "instruction_count", m_m_instr_count, 0},
    {V_MODULE, "computations", m_m_comps, 0}, {V_MODULE, "nodes", m_m_comps, 0}, {V_MODULE, "MakeComputationPostOrder", m_m_comps, 0}, {V_MODULE, "MakeNonfusionComputations", m_m_nonfusion, 0},
    {V_MODULE, "ExecutesBefore", m_m_before, 0}, {V_MODULE, "ok", m_m_ok, 0},
    {V_MODULE, "has_schedule", m_m_has_schedule, 0}, {V_MODULE, "schedule", m_self, 0}, {V_MODULE, "sequence", m_m_sequence, 0}, {V_MODULE, "result_shape", m_m_result, 0},
    {V_MODULE, "entry_computation_layout", m_self, 0}, {V_MODULE, "mutable_entry_computation_layout", m_self, 0}, {V_MODULE, "parameter_layout", m_m_param_layout, 0},
    {V_MODULE, "result_layout", m_m_result, 0}, {V_MODULE, "ToString", m_m_print, 0}, {V_MODULE, "input_output_alias_config", m_self, 0},
    {V_MODULE, "ParameterHasAlias", m_m_alias, 0}, {V_MODULE, "OutputHasAlias", m_m_alias, 0}, {V_MODULE, "GetAliasedParameter", m_m_alias, 0},
    {V_SHAPE, "shape", m_self, 0}, {V_SHAPE, "IsTuple", m_s_tuple, 0}, {V_SHAPE, "IsArray", m_s_array, 0}, {V_SHAPE, "IsToken", m_s_token, 0}, {V_SHAPE, "element_type", m_s_type, 0},
    {V_SHAPE, "rank", m_s_rank, 0}, {V_SHAPE, "dimensions", m_s_dims, 0}, {V_SHAPE, "tuple_shapes", m_s_elems, 0}, {V_SHAPE, "layout", m_s_layout, 0},
    {V_SHAPE, "has_layout", m_s_has_layout, 0}, {V_SHAPE, "is_dynamic_dimension", m_s_dynamic, 0},
    {V_LAYOUT, "minor_to_major", m_l_order, 0}, {V_LAYOUT, "memory_space", m_l_space, 0},
    {V_LIST, "size", m_v_size, 0}, {V_LIST, "empty", m_v_empty, 0}, {V_LIST, "front", m_v_front, 0}, {V_LIST, "begin", m_v_front, 0}, {V_LIST, "back", m_v_back, 0},
    {V_LIST, "[]", m_v_at, 0}, {V_LIST, "at", m_v_at, 0}, {V_LIST, "instructions", m_self, 0}, {V_LIST, "dimensions", m_v_dimensions, 0},
    {V_LIST, "parameter_number", m_v_alias_number, 0}, {V_LIST, "kind", m_v_alias_kind, 0},
    {V_LITERAL, "GetFirstElement", m_t_first, 0}, {V_LITERAL, "Get", m_t_get, 0},
    {V_WINDOW_DIM, "padding_low", m_d_low, 0}, {V_WINDOW_DIM, "padding_high", m_d_high, 0}, {V_WINDOW_DIM, "size", m_d_size, 0}, {V_WINDOW_DIM, "stride", m_d_stride, 0},
    {V_PAD_DIM, "edge_padding_low", m_d_low, 0}, {V_PAD_DIM, "edge_padding_high", m_d_high, 0}, {V_PAD_DIM, "interior_padding", m_d_interior, 0},
    {V_ATTRS, "map", m_self, 0}, {V_ATTRS, "at", m_a_at, 0}, {V_ATTRS, "contains", m_a_contains, 0}, {V_ATTRS, "size", m_a_size, 0},
    {V_ORIGIN, "ToString", m_o_text, 0}, {V_ORIGIN, "IsCompatibleWith", m_o_fits, 0},
    {V_META, "op_name", m_p_op_name, 0}, {V_META, "op_type", m_p_op_type, 0}, {V_META, "deduplicated_name", m_p_dedup, 0}, {V_META, "source_file", m_p_source_file, 0},
    {V_META, "source_line", m_p_source_line, 0}, {V_STRING, "empty", m_x_empty, 0},
};

static inline m_value m_eval_member(m_env *v, const m_expr *e) {
  m_value self = m_eval(v, e->on);
  if (self.kind == V_NULL && v->before && e->on->kind == E_CALL && strcmp(e->on->name, "inst") == 0) {   // removed: as it was
    m_env then = *v;
    then.m = v->before;
    self = m_eval(&then, e->on);
    v->a = then.a;
  }
  for (size_t k = 0; k < HS_COUNT(m_members); k++) {
    const m_member *x = &m_members[k];
    if (x->of == self.kind && strcmp(x->name, e->name) == 0) return x->fn ? x->fn(v, self, e) : m_attr_value(v, self.i, x->attr, e);
  }
  if (self.kind == V_JSON) {   // proto fields of a backend_config; 64-bit numbers are strings in JSON
    bool has = strncmp(e->name, "has_", 4) == 0;
    const char *inner = m_json(v, self.s, has ? e->name + 4 : e->name);
    if (has) return m_number(inner != NULL);
    if (!inner) return *self.s == '{' || !*self.s ? (m_value){.kind = V_JSON, .s = ""} : m_unknown();
    return *inner == '{' ? (m_value){.kind = V_JSON, .s = inner} : m_number(atof(inner));
  }
  return m_unknown();
}

// ---- functions ------------------------------------------------------------------------------------------------------------
typedef m_value m_function_fn(m_env *, const m_expr *);
#define FUNCTION(fn) static inline m_value m_f_##fn(m_env *v, const m_expr *e)
static inline m_value m_arg_value(m_env *v, const m_expr *e, u32 k) { return k < e->n ? m_eval(v, e->args[k]) : m_unknown(); }
static inline const char *m_arg_text(m_env *v, const m_expr *e, u32 k) { m_value x = m_arg_value(v, e, k); return x.kind == V_STRING ? x.s : NULL; }

FUNCTION(inst) { const char *s = m_arg_text(v, e, 0); return s ? m_instr(hlo_find_instr(v->m, s)) : m_unknown(); }
FUNCTION(comp) {
  const char *s = m_arg_text(v, e, e->n - 1);
  hlo_computation *c = s ? hlo_find_comp(v->m, s) : NULL;
  if (c) v->named = c;
  return s ? m_comp_value(c) : m_unknown();
}
FUNCTION(first) {
  hlo_opcode op = e->n ? m_kopcode(e->args[0]) : HLO_OP_INVALID;
  if (op == HLO_OP_INVALID) return m_unknown();
  m_value here = m_find(v, m_comp_value(v->m->entry), op, NULL), any = m_find(v, (m_value){.kind = V_MODULE, .m = v->m}, op, NULL);
  return here.n ? here.v[0] : any.n ? any.v[0] : m_instr(NULL);
}
FUNCTION(first_while) { (void)e; m_value l = m_find(v, (m_value){.kind = V_MODULE, .m = v->m}, HLO_WHILE, NULL); return l.n ? l.v[0] : m_instr(NULL); }
FUNCTION(old) {
  if (!v->before || v->old || e->n != 1) return m_unknown();
  m_env then = *v;
  then.m = v->before, then.old = true, then.nbound = 0;
  m_value x = m_eval(&then, e->args[0]);
  v->a = then.a;
  return x;
}
FUNCTION(same) { return m_arg_value(v, e, 0); }   // Cast<T>(x), vector<T>(x), ShapeLayout(x)
FUNCTION(find_all) {
  m_value where = m_arg_value(v, e, 0);
  return e->n == 2 && m_kopcode(e->args[1]) != HLO_OP_INVALID && (where.kind == V_COMP || where.kind == V_MODULE) ? m_find(v, where, m_kopcode(e->args[1]), NULL) : m_unknown();
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
  return e->n == 2 && m_kopcode(e->args[1]) != HLO_OP_INVALID && (where.kind == V_COMP || where.kind == V_MODULE) ? m_number(m_count(where, m_kopcode(e->args[1]))) : m_unknown();
}
FUNCTION(count_in_entry) { return e->n == 2 && m_kopcode(e->args[1]) != HLO_OP_INVALID ? m_number(m_count(m_comp_value(v->m->entry), m_kopcode(e->args[1])) > 0) : m_unknown(); }
FUNCTION(contains_op) {
  m_value where = m_arg_value(v, e, 0), ops = m_arg_value(v, e, 1);
  if (ops.kind != V_LIST || (where.kind != V_COMP && where.kind != V_MODULE)) return m_unknown();
  u32 n = 0;
  for (u32 k = 0; k < ops.n; k++) n += ops.v[k].kind == V_NUMBER ? m_count(where, (hlo_opcode)ops.v[k].number) : 0;
  return m_number(n > 0);
}
FUNCTION(algorithm);
FUNCTION(count_if) {   // the predicate that asks for an opcode, or a lambda
  m_value l = m_arg_value(v, e, 0);
  if (e->n == 2 && e->args[1]->kind == E_LAMBDA) return m_f_algorithm(v, e);
  const char *t = e->n == 2 && e->args[1]->kind == E_NAME && strcmp(m_tail(e->args[1]->name), "HloPredicateIsOp") == 0 ? e->args[1]->type : NULL;
  if (l.kind != V_LIST || !t || m_kname(t) == HLO_OP_INVALID) return m_unknown();
  u32 n = 0;
  for (u32 k = 0; k < l.n; k++) n += l.v[k].kind == V_INSTR && l.v[k].i->opcode == m_kname(t);
  return m_number(n);
}
FUNCTION(has_instr) {
  m_value c = m_arg_value(v, e, 0), i = m_arg_value(v, e, 1);
  return c.kind == V_COMP && (i.kind == V_INSTR || i.kind == V_NULL) ? m_number(i.kind == V_INSTR && i.i->parent == c.c && !i.i->dead) : m_unknown();
}
FUNCTION(position) {
  m_value l = m_arg_value(v, e, 0), x = m_arg_value(v, e, 1);
  for (u32 k = 0; l.kind == V_LIST && k < l.n; k++)
    if (x.kind == V_NUMBER && l.v[k].kind == V_NUMBER && l.v[k].number == x.number) return m_number(k);
  return m_unknown();
}
FUNCTION(layout_of) {
  m_value i = m_unknown();
  const char *s = m_arg_text(v, e, 1);
  if (s) i = m_instr(hlo_find_instr(v->m, s));
  return i.kind == V_INSTR && i.i->shape->layout ? m_ints_value(v, (hlo_ints){i.i->shape->rank, i.i->shape->layout->minor_to_major}) : m_unknown();
}
FUNCTION(subshape) {
  m_value s = m_arg_value(v, e, 0), at = m_arg_value(v, e, 1);
  const hlo_shape *x = s.kind == V_SHAPE ? s.p : NULL;
  if (at.kind == V_NUMBER) return x && at.number >= 0 && at.number < x->nelems ? m_shape_value(x->elems[(u32)at.number]) : m_unknown();
  for (u32 k = 0; x && at.kind == V_LIST && k < at.n; k++) x = at.v[k].number >= 0 && at.v[k].number < x->nelems ? x->elems[(u32)at.v[k].number] : NULL;
  return at.kind == V_LIST ? m_shape_value(x) : m_unknown();
}
FUNCTION(index_valid) { m_value s = m_arg_value(v, e, 0); return s.kind == V_SHAPE ? m_number(m_f_subshape(v, e).kind == V_SHAPE) : m_unknown(); }
FUNCTION(nelems) { m_value s = m_arg_value(v, e, 0); return s.kind == V_SHAPE ? m_number(((const hlo_shape *)s.p)->nelems) : m_unknown(); }
FUNCTION(make_shape) {
  if (e->n < 2 || m_dtype(e->args[0]) == HLO_DT_INVALID || e->args[1]->kind != E_LIST) return m_unknown();
  i64 dims[24], order[24];
  u32 n = e->args[1]->n;
  for (u32 k = 0; k < n; k++) dims[k] = m_arg(v, e->args[1], k, 0);
  const hlo_shape *s = hlo_shape_with_default_layout(v->m->ctx, hlo_shape_array(v->m->ctx, m_dtype(e->args[0]), n, dims));
  if (strcmp(m_tail(e->name), "MakeShapeWithDenseLayout") == 0) {
    if (e->n < 3 || e->args[2]->kind != E_LIST || e->args[2]->n != n) return m_unknown();
    for (u32 k = 0; k < n; k++) order[k] = m_arg(v, e->args[2], k, 0);
    hlo_layout l = *hlo_layout_default(v->m->ctx, n);
    l.minor_to_major = order;
    s = hlo_shape_with_layout(v->m->ctx, s, hlo_layout_intern(v->m->ctx, &l));
  }
  return m_shape_value(s);
}
FUNCTION(shape_variable) {   // Shape(X): a variable of the test, which case_setup.h may have given a layout
  m_value x = m_arg_value(v, e, 0);
  for (u32 k = 0; x.kind == V_SHAPE && k < v->nshapes; k++)
    if (v->shapes[k].shape == ((const hlo_shape *)x.p)->logical) return m_shape_value(hlo_shape_with_layout(v->m->ctx, x.p, v->shapes[k].layout));
  return x;
}
FUNCTION(module) { (void)e; return (m_value){.kind = V_MODULE, .m = v->m}; }
FUNCTION(make_tuple) {
  m_value l = m_arg_value(v, e, 0);
  if (l.kind != V_LIST) return m_unknown();
  const hlo_shape **s = HS_NEW_ARRAY(&v->a, const hlo_shape *, l.n + 1);
  for (u32 k = 0; k < l.n; k++) {
    if (l.v[k].kind != V_SHAPE) return m_unknown();
    s[k] = l.v[k].p;
  }
  return m_shape_value(hlo_shape_tuple(v->m->ctx, l.n, s));
}
FUNCTION(parse_shape) {
  const char *text = m_arg_text(v, e, 0);
  const hlo_shape *s = NULL;
  if (!text) return m_unknown();
  hs_status st = hlo_parse_shape(v->m->ctx, text, strlen(text), &s);
  return hs_ok(st) ? m_shape_value(hlo_shape_fill_layout(v->m->ctx, s)) : (hs_status_drop(st), m_unknown());
}
FUNCTION(make_layout) {
  m_value l = m_arg_value(v, e, 0);
  if (l.kind != V_LIST) return m_unknown();
  i64 order[HLO_MAX_RANK];
  for (u32 k = 0; k < l.n; k++) order[k] = (i64)l.v[k].number;
  hlo_layout x = *hlo_layout_default(v->m->ctx, l.n);
  x.minor_to_major = order;
  return m_layout_value(hlo_layout_intern(v->m->ctx, &x));
}
FUNCTION(shape_equal) {
  m_value a = m_arg_value(v, e, 0), b = m_arg_value(v, e, 1);
  if (a.kind != V_SHAPE || b.kind != V_SHAPE) return m_unknown();
  const hlo_shape *x = a.p, *y = b.p;
  const char *t = m_tail(e->name);
  if (strcmp(t, "SameDimensions") == 0) return m_number(hlo_shape_same_dims(x, y));
  return m_number(strcmp(t, "Compatible") == 0 ? x->logical == y->logical : hlo_shape_fill_layout(v->m->ctx, x) == hlo_shape_fill_layout(v->m->ctx, y));
}
FUNCTION(layout_equal) {
  m_value a = m_arg_value(v, e, 0), b = m_arg_value(v, e, 1);
  return a.kind == V_LAYOUT && b.kind == V_LAYOUT ? m_number(a.p == b.p) : m_unknown();
}
static inline bool m_has_layouts(const hlo_shape *s) {
  for (u32 k = 0; hlo_shape_is_tuple(s) && k < s->nelems; k++)
    if (!m_has_layouts(s->elems[k])) return false;
  return !hlo_shape_is_array(s) || s->layout;
}
FUNCTION(has_layout) { m_value s = m_arg_value(v, e, 0); return s.kind == V_SHAPE ? m_number(m_has_layouts(s.p)) : m_unknown(); }

static inline hlo_dtype m_cpp_type(const char *t) {
  static const struct { const char *cpp; hlo_dtype t; } types[] = {{"float", HLO_F32}, {"double", HLO_F64}, {"int32_t", HLO_S32}, {"int64_t", HLO_S64}, {"int", HLO_S32},
                                                                  {"uint32_t", HLO_U32}, {"uint64_t", HLO_U64}, {"bool", HLO_PRED}, {"int8_t", HLO_S8}, {"uint8_t", HLO_U8}, {"int16_t", HLO_S16},
                                                                  {"bfloat16", HLO_BF16}, {"half", HLO_F16}, {"Eigen::half", HLO_F16}, {"uint16_t", HLO_U16}};
  for (size_t k = 0; t && k < HS_COUNT(types); k++)
    if (strcmp(types[k].cpp, t) == 0) return types[k].t;
  return HLO_DT_INVALID;
}
typedef HS_VEC(double) m_doubles;
static inline void m_flatten(m_value x, u32 depth, i64 *dims, m_doubles *out) {
  if (x.kind != V_LIST) { hs_vec_push(out, x.number); return; }
  dims[depth] = x.n;
  for (u32 k = 0; k < x.n; k++) m_flatten(x.v[k], depth + 1, dims, out);
}
FUNCTION(literal) {   // LiteralUtil::CreateR2<float>({{1, 2}})
  const char *t = strstr(e->name, "CreateR");
  hlo_dtype type = m_cpp_type(e->type);
  if (!t || !isdigit((unsigned char)t[7]) || type == HLO_DT_INVALID || e->n != 1) return m_unknown();
  u32 rank = (u32)(t[7] - '0');
  i64 dims[16] = {0};
  m_doubles all = {0};
  m_flatten(m_eval(v, e->args[0]), 0, dims, &all);
  hlo_literal *l = NULL;
  hs_status s = hlo_literal_new(hlo_shape_with_default_layout(v->m->ctx, hlo_shape_array(v->m->ctx, type, rank, dims)), &l);
  m_value r = m_unknown();
  if (hs_ok(s) && (i64)all.n == l->shape->elements) {
    for (size_t k = 0; k < all.n; k++) hlo_literal_set_f64(l, (i64)k, all.v[k]);
    r = (m_value){.kind = V_LITERAL, .p = l};
  } else {
    hs_status_drop(s);
  }
  hs_vec_free(&all);
  return r;
}
FUNCTION(execute) {   // without arguments only
  m_value args = m_arg_value(v, e, 1);
  hlo_literal *out = NULL;
  if (args.kind != V_LIST || args.n) return m_unknown();
  hs_status s = hlo_eval_module(v->m, 0, NULL, NULL, &out);
  return hs_ok(s) ? (m_value){.kind = V_LITERAL, .p = out} : (hs_status_drop(s), m_unknown());
}
FUNCTION(near) {
  m_value a = m_arg_value(v, e, 0), b = m_arg_value(v, e, 1);
  if (a.kind != V_LITERAL || b.kind != V_LITERAL || e->n < 2) return m_unknown();
  double abs = e->n > 2 && e->args[2]->n ? e->args[2]->args[0]->number : 0;
  hs_status s = hlo_compare(a.p, b.p, (hlo_tolerance){abs, 0});
  bool ok = hs_ok(s);
  hs_status_drop(s);
  return m_number(ok);
}
FUNCTION(limit) {
  (void)v;
  const char *t = m_tail(e->name);
  hlo_dtype d = m_cpp_type(e->type);
  if (strcmp(t, "infinity") == 0) return m_number(INFINITY);
  if (d == HLO_S32 && (strcmp(t, "max") == 0 || strcmp(t, "min") == 0 || strcmp(t, "lowest") == 0)) return m_number(*t == 'm' && t[1] == 'a' ? INT32_MAX : INT32_MIN);
  if (d == HLO_S64 && strcmp(t, "max") == 0) return m_number((double)INT64_MAX);
  return m_unknown();
}
FUNCTION(arithmetic) {   // -x, x - y, x + y, x % y
  m_value x = m_arg_value(v, e, 0), y = m_arg_value(v, e, 1);
  if (x.kind != V_NUMBER || (e->n == 2 && y.kind != V_NUMBER)) return m_unknown();
  if (e->n == 1) return m_number(-x.number);
  if (*e->name == '%') return y.number ? m_number((double)((i64)x.number % (i64)y.number)) : m_unknown();
  return m_number(*e->name == '+' ? x.number + y.number : x.number - y.number);
}
// What `if` makes of a value: -1 when that is not known.
static inline int m_truth(m_value x) {
  if (x.kind == V_NULL) return 0;
  if (x.kind == V_INSTR || x.kind == V_COMP) return 1;
  return x.kind == V_NUMBER ? x.optional || x.number != 0 : -1;
}
FUNCTION(logic) {   // !x, x && y, x || y
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
  if (strncmp(body, "return", 6) != 0 || !end || strchr(body, ';') != end || v->nvars == HS_COUNT(v->vars)) return m_unknown();
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
  return m_number(strcmp(t, "c_any_of") == 0 ? n > 0 : strcmp(t, "c_all_of") == 0 ? n == l.n : strcmp(t, "c_none_of") == 0 ? n == 0 : n);
}
FUNCTION(order) {
  m_value x = m_arg_value(v, e, 0), y = m_arg_value(v, e, 1);
  if (x.kind != V_NUMBER || y.kind != V_NUMBER) return m_unknown();
  bool less = *e->name == '<', same = e->name[1] == '=';
  return m_number((less ? x.number < y.number : x.number > y.number) || (same && x.number == y.number));
}
// multiset(vector(X->fused_instruction_count()).begin(), ...): the opcodes inside the fusion X, gathered by the test's own loop.
FUNCTION(multiset) {
  const m_expr *x = e->n ? e->args[0] : NULL;
  if (!x || !x->on || strcmp(x->name, "begin") != 0 || !x->on->name || strcmp(x->on->name, "vector") != 0 || x->on->n != 1) return m_unknown();
  const m_expr *count = x->on->args[0];
  if (count->kind != E_CALL || !count->on || strcmp(count->name, "fused_instruction_count") != 0) return m_unknown();
  m_value f = m_eval(v, count->on);
  hlo_computation *c = f.kind == V_INSTR ? hlo_fusion_comp(f.i) : NULL;
  if (!c) return f.kind == V_INSTR ? (m_value){.kind = V_BAG} : m_unknown();
  m_value *l = HS_NEW_ARRAY(&v->a, m_value, c->ninstrs + 1);
  u32 n = 0;
  hlo_for_each_instr(i, c) l[n++] = m_number(i->opcode);
  return (m_value){.kind = V_BAG, .n = n, .v = l};
}
FUNCTION(ordering) { return m_arg_value(v, e, 0); }
FUNCTION(equals);

static const struct { const char *name; m_function_fn *fn; } m_functions[] = {
    {"inst", m_f_inst}, {"comp", m_f_comp}, {"FindEmbeddedBody", m_f_comp}, {"first", m_f_first}, {"FindFirstWhile", m_f_first_while}, {"old", m_f_old}, {"Cast", m_f_same},
    {"DynCast", m_f_same}, {"vector", m_f_same}, {"ShapeLayout", m_f_same}, {"FindInstructions", m_f_find_all}, {"FindInstruction", m_f_find}, {"hlo_query::FindInstruction", m_f_find},
    {"Count", m_f_count}, {"CountInstructions", m_f_count}, {"NumOfInstructions", m_f_count}, {"EntryHasStandaloneOp", m_f_count_in_entry},
    {"hlo_query::ContainsInstrWithOpcode", m_f_contains_op}, {"c_count_if", m_f_count_if}, {"c_find_if", m_f_algorithm}, {"c_any_of", m_f_algorithm}, {"c_all_of", m_f_algorithm}, {"c_none_of", m_f_algorithm}, {"HasInstruction", m_f_has_instr}, {"PositionInContainer", m_f_position},
    {"LayoutOf", m_f_layout_of}, {"ShapeUtil::GetSubshape", m_f_subshape}, {"ShapeUtil::GetTupleElementShape", m_f_subshape}, {"ShapeUtil::IndexIsValid", m_f_index_valid},
    {"ShapeUtil::TupleElementCount", m_f_nelems}, {"ShapeUtil::MakeShape", m_f_make_shape}, {"ShapeUtil::MakeValidatedShape", m_f_make_shape},
    {"ShapeUtil::MakeShapeWithDenseLayout", m_f_make_shape}, {"ShapeUtil::MakeTupleShape", m_f_make_tuple}, {"Shape", m_f_shape_variable}, {"ComputationLayout", m_f_module}, {"ParseShape", m_f_parse_shape}, {"LayoutUtil::MakeLayout", m_f_make_layout},
    {"ShapeUtil::Equal", m_f_shape_equal}, {"ShapeUtil::Compatible", m_f_shape_equal}, {"ShapeUtil::SameDimensions", m_f_shape_equal}, {"LayoutUtil::Equal", m_f_layout_equal},
    {"LayoutUtil::HasLayout", m_f_has_layout}, {"LiteralUtil::CreateR0", m_f_literal}, {"LiteralUtil::CreateR1", m_f_literal}, {"LiteralUtil::CreateR2", m_f_literal},
    {"Execute", m_f_execute}, {"LiteralTestUtil::Near", m_f_near}, {"multiset", m_f_multiset}, {"SequentialHloOrdering", m_f_ordering}, {"CallGraph::Build", m_f_ordering}, {"numeric_limits::infinity", m_f_limit},
    {"numeric_limits::max", m_f_limit}, {"numeric_limits::min", m_f_limit}, {"numeric_limits::lowest", m_f_limit}, {"-", m_f_arithmetic}, {"+", m_f_arithmetic}, {"%", m_f_arithmetic}, {"!", m_f_logic}, {"&&", m_f_logic}, {"||", m_f_logic},
    {"<", m_f_order}, {"<=", m_f_order}, {">", m_f_order}, {">=", m_f_order}, {"static_cast", m_f_same}, {"==", m_f_equals}, {"!=", m_f_equals},
};

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
    case E_REF: return e->on ? m_unknown() : m_eval_name(v, e);   // *&x
    default: return m_unknown();
  }
  if (e->on) return m_eval_member(v, e);
  for (size_t k = 0; k < HS_COUNT(m_functions); k++)
    if (strcmp(m_functions[k].name, e->name) == 0) return m_functions[k].fn(v, e);
  if (strncmp(e->name, "Count", 5) == 0 && e->n == 1) {   // CountCopies(m), CountCopies(*comp)
    char op[64];
    size_t n = strlen(e->name + 5);
    snprintf(op, sizeof op, "%s", strcmp(e->name + 5, "Copies") == 0 ? "Copy" : e->name + 5);
    if (n && n < sizeof op && op[n - 1] == 's') op[n - 1] = '\0';
    m_value where = m_eval(v, e->args[0]);
    if (m_opcode(op) != HLO_OP_INVALID && (where.kind == V_COMP || where.kind == V_MODULE)) return m_number(m_count(where, m_opcode(op)));
  }
  return m_unknown();
}

// ---- equality ---------------------------------------------------------------------------------------------------------------
typedef enum { M_NO, M_YES, M_UNKNOWN } m_answer;
static inline m_answer m_both(m_answer a, m_answer b) { return a == M_NO || b == M_NO ? M_NO : a == M_UNKNOWN || b == M_UNKNOWN ? M_UNKNOWN : M_YES; }
static inline m_answer m_yes(bool b) { return b ? M_YES : M_NO; }

// An instruction of the module before the pass stands for itself after it.
static inline const hlo_instr *m_now(const m_env *v, const hlo_instr *i) {
  return i && v->before && v->twin && i->parent->module == v->before ? v->twin[i->id] : i;
}

static inline m_answer m_same_text(m_env *v, const char *a, const char *b) {
  if (strcmp(a, b) == 0) return M_YES;
  if (strncmp(b, "HloModule", 9) != 0 || strncmp(a, "HloModule", 9) != 0) return M_NO;
  hlo_module *x = NULL, *y = NULL;   // modules: equal up to the names that a pass makes up
  hs_status s = hlo_parse(v->m->ctx, a, strlen(a), NULL, &x), t = hlo_parse(v->m->ctx, b, strlen(b), NULL, &y);
  m_answer r = hs_ok(s) && hs_ok(t) ? m_yes(hlo_fingerprint(x) == hlo_fingerprint(y)) : M_UNKNOWN;
  hs_status_drop(s);
  hs_status_drop(t);
  return r;
}

static inline m_answer m_equal(m_env *v, m_value a, m_value b) {
  if (a.kind == V_UNKNOWN || b.kind == V_UNKNOWN) return M_UNKNOWN;
  if (a.kind == V_NULL || b.kind == V_NULL) return m_yes(a.kind == b.kind);
  if (a.kind == V_BAG && b.kind == V_LIST) {   // numbers in any order
    if (a.n != b.n) return M_NO;
    for (u32 k = 0; k < a.n; k++) {
      u32 left = 0, right = 0;
      for (u32 j = 0; j < a.n; j++) left += a.v[j].number == a.v[k].number, right += b.v[j].number == a.v[k].number;
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
    case V_SHAPE: return m_yes(hlo_shape_fill_layout(v->m->ctx, a.p) == hlo_shape_fill_layout(v->m->ctx, b.p));
    case V_LAYOUT: return m_yes(a.p == b.p);
    case V_LIST: {
      if (a.n != b.n) return M_NO;
      m_answer all = M_YES;
      for (u32 k = 0; k < a.n; k++) all = m_both(all, m_equal(v, a.v[k], b.v[k]));
      return all;
    }
    default: return M_UNKNOWN;
  }
}

FUNCTION(equals) {
  if (e->n != 2) return m_unknown();
  m_answer a = m_equal(v, m_eval(v, e->args[0]), m_eval(v, e->args[1]));
  return a == M_UNKNOWN ? m_unknown() : m_number((a == M_YES) == (*e->name == '='));
}

#endif
