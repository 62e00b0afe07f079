// internal.h — what the files of tests/xla_cases share: expressions, values, the environment that
// terms are evaluated in, and the functions between the files. Users include cases.h.
#ifndef TESTS_XLA_CASES_INTERNAL_H
#define TESTS_XLA_CASES_INTERNAL_H

#include "core/eval/eval.h"
#include "core/text/text.h"
#include "tests/xla_cases/cases.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

typedef enum { E_CALL, E_NAME, E_NUMBER, E_STRING, E_LIST, E_REF, E_LAMBDA, E_BAD } xc_kind;
typedef struct xc_expr xc_expr;
struct xc_expr {
  xc_kind kind;
  // call, name, string, reference; "m::Add", "WithShape"; the body of a lambda
  const char *name;
  const char *key;  // of a named argument; its place says the same for most
  // template arguments, without <>; NULL when there are none; of a lambda: its (last) parameter
  const char *type;
  double number;
  bool is_float;
  u32 n;
  xc_expr *args[24];
  xc_expr *on;  // modifiers, members and '->': the expression they apply to
  bool arrow;
};

typedef enum xc_vkind {
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
} xc_vkind;
typedef struct xc_value xc_value;
struct xc_value {
  xc_vkind kind;
  double number;
  const char *s;  // string; JSON text
  hlo_instr *i;   // INSTR, ATTRS, META, ORIGIN
  hlo_computation *c;
  const hlo_module *m;
  // SHAPE, LAYOUT, LITERAL, SHARDING, window and padding dimensions
  const void *p;
  u32 n;
  const xc_value *v;  // LIST
  // NUMBER, STRING: of a std::optional, which is true because it has a value
  bool optional;
};

struct xc_env {
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
  // variables of the statements that are being run (stmts.c)
  struct {
    const char *name;
    xc_value x;
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
};

// ---- Expressions (cpp.c) -----------------------------------------------------------------------
const char *xc_closing(const char *p);
bool xc_is_word(char c);
xc_expr *xc_parse(hs_arena *a, const char *text);
const char *xc_tail(const char *name);

// ---- Values and names (values.c) ---------------------------------------------------------------
xc_answer xc_both(xc_answer a, xc_answer b);
xc_answer xc_yes(bool b);
xc_value xc_unknown(void);
xc_value xc_made(xc_env *v, hlo_literal *take);
xc_value xc_number(double x);
xc_value xc_text(const char *s);
xc_value xc_str(xc_env *v, hs_str s);
xc_value xc_instr(hlo_instr *i);
xc_value xc_comp_value(hlo_computation *c);
xc_value xc_shape_value(const hlo_shape *s);
const hlo_shape *xc_array_of(const hlo_shape *s);
xc_value xc_layout_value(const hlo_layout *l);
xc_value xc_list(u32 n, const xc_value *x);
xc_value xc_ints_value(xc_env *v, hlo_ints x);
xc_value xc_instrs_value(xc_env *v, u32 n, hlo_instr *const *i);
hlo_opcode xc_opcode(const char *camel);
hlo_opcode xc_kname(const char *name);
hlo_opcode xc_kopcode(const xc_expr *e);
hlo_dtype xc_dtype(const xc_expr *e);
int xc_direction(const char *name);
xc_value xc_eval_name(xc_env *v, const xc_expr *e);
u32 xc_users(const hlo_instr *i);
i64 xc_arg(xc_env *v, const xc_expr *e, u32 k, i64 absent);
xc_value xc_at(xc_value list, i64 k);
xc_value xc_attr_value(xc_env *v, const hlo_instr *i, hlo_attr_id id, const xc_expr *e);
hlo_program_shape xc_program(xc_env *v, const hlo_module *m);
const char *xc_json(xc_env *v, const char *text, const char *key);
xc_value xc_called_list(xc_env *v, const hlo_instr *i);
xc_value xc_instructions(xc_env *v, const hlo_computation *c);
u32 xc_count(xc_value where, hlo_opcode op);
xc_value xc_find(xc_env *v, xc_value where, hlo_opcode op, const char *name);
xc_value xc_origin_text(xc_env *v, const hlo_instr *i);

// ---- Members of instructions (members_instr.c) -------------------------------------------------
xc_value xc_groups_value(xc_env *v, const hlo_instr *i);
xc_value xc_pairs_value(xc_env *v, const hlo_instr *i);
xc_value xc_sharding_of_text(xc_env *v, const char *text);
xc_answer xc_same_sharding(xc_env *v, const hlo_sharding *a, const hlo_sharding *b);
const hlo_frontend_entry *xc_frontend_find(xc_env *v, xc_value self, const xc_expr *e);

// ---- Functions (functions_values.c, functions.c) -----------------------------------------------
xc_value xc_arg_value(xc_env *v, const xc_expr *e, u32 k);
const char *xc_arg_text(xc_env *v, const xc_expr *e, u32 k);
xc_value xc_evaluate(xc_env *v, const hlo_module *m, const xc_expr *args);
int xc_truth(xc_value x);
xc_value xc_apply(xc_env *v, const xc_expr *f, xc_value x);

// ---- Evaluation (eval.c) -----------------------------------------------------------------------
xc_value xc_member_of(xc_env *v, xc_value self, const xc_expr *e);
xc_value xc_eval(xc_env *v, const xc_expr *e);
const hlo_instr *xc_now(const xc_env *v, const hlo_instr *i);
xc_answer xc_equal(xc_env *v, xc_value a, xc_value b);

// ---- Patterns, expectations and statements (match.c, expect.c, stmts.c) ------------------------
xc_answer xc_match(xc_env *v, const xc_expr *p, hlo_instr *i);
xc_answer xc_satisfies(xc_env *v, xc_value x, const xc_expr *p);
xc_answer xc_check_assert(xc_env *v, const char *text);
xc_value xc_call_lambda(xc_env *v, const xc_expr *lambda, xc_value x);

// ---- Rows of the tables ----------------------------------------------------------------------
typedef xc_value xc_member_fn(xc_env *, xc_value self, const xc_expr *);
typedef xc_value xc_function_fn(xc_env *, const xc_expr *);
#define MEMBER(fn) xc_value xc_##fn(xc_env *v, xc_value self, const xc_expr *e)
#define FUNCTION(fn) xc_value xc_f_##fn(xc_env *v, const xc_expr *e)
#define MEMBER_OF(kind, name, fn) xc_member_fn xc_##fn;
#define ATTRIBUTE_OF(kind, name, attr)
#define FUNCTION_OF(name, fn) xc_function_fn xc_f_##fn;
#include "tests/xla_cases/functions.def"
#include "tests/xla_cases/members.def"
#undef MEMBER_OF
#undef ATTRIBUTE_OF
#undef FUNCTION_OF

#endif
