// apply.c — computations that an attribute names: to_apply=add, select=ge, condition=cond. One of
// the module is taken as it is, or copied for another element type; the name of an operation makes
// the computation that reduces, scatters or compares with it. See builder.h.
#include <stdio.h>

#include "core/eval/ops.h"
#include "core/verify/verify.h"
#include "repl/builder/builder.h"

// ---- names --------------------------------------------------------------------------------------
static const struct short_name {
  const char *name;
  hlo_opcode op;
  const char *attribute;
} short_names[] = {
#define FUNCTION(name, op, attribute) {name, HLO_##op, attribute},
#define KEY(name, attribute)
#include "repl/builder/names.def"
#undef FUNCTION
#undef KEY
};
static const struct key_name {
  const char *name, *attribute;
} key_names[] = {
#define FUNCTION(name, op, attribute)
#define KEY(name, attribute) {name, attribute},
#include "repl/builder/names.def"
#undef FUNCTION
#undef KEY
};

hlo_opcode build_function(hs_str name, const char **attribute) {
  for (size_t k = 0; k < HS_COUNT(short_names); k++) {
    if (!hs_str_eq(name, hs_str_of(short_names[k].name))) continue;
    if (attribute) *attribute = short_names[k].attribute;
    return short_names[k].op;
  }
  return hlo_op_find(name);
}

const char *build_key_name(const char *key) {
  for (size_t k = 0; k < HS_COUNT(key_names); k++)
    if (strcmp(key, key_names[k].name) == 0) return key_names[k].attribute;
  return key;
}

const char *build_nearest(const builder *b, const char *word) {
  HS_VEC(const char *) names = {0};
  for (size_t k = 0; k < HS_COUNT(short_names); k++) hs_vec_push(&names, short_names[k].name);
  for (int k = 1; k < HLO_OPCODE_COUNT; k++) hs_vec_push(&names, hlo_op_text((hlo_opcode)k));
  hlo_for_each_comp(c, b->m)
    if (names.n < 20000) hs_vec_push(&names, c->name);
  const char *near = hs_nearest(word, names.v, names.n);
  hs_vec_free(&names);
  return near;
}

// ---- computations made from an operation --------------------------------------------------------
// The types of the parameters: scalars of the first operand's element type, two of them; of a sort,
// two for each operand.
static u32 parameter_types(hlo_opcode op, const build_values *v, hlo_dtype *out, u32 most) {
  u32 n = 0;
  for (size_t k = 0; k < (op == HLO_SORT ? v->n : 1) && k < v->n; k++) {
    const hlo_shape *s = v->v[k].kind == BUILD_INSTR ? v->v[k].i->shape : NULL;
    if (!s || !hlo_shape_is_array(s) || n + 2 > most) return 0;
    out[n] = out[n + 1] = s->dtype;
    n += 2;
  }
  return n;
}

// Whether c is this operation on its first two parameters already.
static bool is_it(const hlo_computation *c, hlo_opcode op, i64 direction, u32 n,
                  const hlo_dtype *types) {
  const hlo_instr *r = c->root;
  if (c->nparams != n || c->ninstrs != n + 1 || !r || r->opcode != op || r->noperands != 2 ||
      hlo_is_fusion_comp(c) || c->execution_thread.n)
    return false;
  if (hlo_operand(r, 0) != c->params[0] || hlo_operand(r, 1) != c->params[1]) return false;
  if (op == HLO_COMPARE && (hlo_attr_int(r, HLO_ATTR_DIRECTION, -1) != direction ||
                            hlo_attr_get(r, HLO_ATTR_COMPARE_TYPE)))
    return false;
  for (u32 k = 0; k < n; k++)
    if (!hlo_shape_is_scalar(c->params[k]->shape) || c->params[k]->shape->dtype != types[k])
      return false;
  return true;
}

static hlo_computation *make(builder *b, const char *name, hlo_opcode op, i64 direction, u32 n,
                             const hlo_dtype *types) {
  hlo_for_each_comp(c, b->m)
    if (is_it(c, op, direction, n, types)) return c;
  hlo_computation *c = hlo_add_computation(b->m, name);
  hlo_instr *p[2] = {NULL, NULL};
  for (u32 k = 0; k < n; k++) {
    char *param = hs_format("%s.%c", c->name, 'a' + (int)(k % 26));
    hlo_instr *made = hlo_add_parameter(c, k, hlo_shape_scalar(b->m->ctx, types[k]), param);
    hs_free(param);
    if (k < 2) p[k] = made;
  }
  hlo_dtype result = op == HLO_COMPARE ? HLO_PRED : types[0];
  hlo_instr *root = hlo_add(c, op, hlo_shape_scalar(b->m->ctx, result), 2, p, NULL);
  if (op == HLO_COMPARE) hlo_set_attr_int(root, HLO_ATTR_DIRECTION, direction);
  hlo_set_root(c, root);
  return c;
}

// "direction=LT" -> HLO_DIRECTION_LT
static i64 direction_of(const char *attribute) {
  static const char *const texts[] = {
#define ENUM_BEGIN(name)
#define VALUE(enum_name, id, text) #enum_name "=" text,
#define ENUM_END(name)
#include "core/types/attr_enums.def"
#undef ENUM_BEGIN
#undef VALUE
#undef ENUM_END
  };
  i64 at = -1;
  for (size_t k = 0; k < HS_COUNT(texts); k++) {
    if (strncmp(texts[k], "DIRECTION=", 10) != 0) continue;
    at++;
    if (strcmp(texts[k] + 10, attribute + sizeof "direction=" - 1) == 0) return at;
  }
  return -1;
}

// ---- computations for another type --------------------------------------------------------------
hs_status build_literal_as(const builder *b, const hlo_instr *i, hlo_dtype to, hlo_literal **out) {
  const hlo_literal *from = hlo_constant_value(i);
  if (from->elided) {
    *out = hlo_literal_elided(hlo_shape_with_dtype(b->m->ctx, from->shape, to));
    return HS_GOOD;
  }
  HS_TRY(hlo_literal_new(hlo_shape_with_dtype(b->m->ctx, from->shape, to), out));
  ev_convert(from->shape->dtype, from->data, to, (*out)->data, from->shape->elements);
  return HS_GOOD;
}

// A copy of c where everything of the type `from` is of the type `to`.
static hs_status retyped(builder *b, const hlo_computation *c, hlo_dtype from, hlo_dtype to,
                         hlo_computation **out) {
  char *name = hs_format("%s.%s", c->name, hlo_dtype_text(to));
  hlo_computation *now = hlo_add_computation(b->m, name);
  hs_free(name);
  u32 ids = b->m->next_instr_id;
  hlo_instr **map = hs_arena_alloc(b->scratch, ids * sizeof *map);
  hlo_instr **order = hlo_post_order(c, b->scratch);
  for (u32 k = 0; k < c->ninstrs; k++) {
    const hlo_instr *i = order[k];
    const hlo_shape *shape =
        i->shape->dtype == from ? hlo_shape_with_dtype(b->m->ctx, i->shape, to) : i->shape;
    hlo_instr **ops = hs_arena_alloc(b->scratch, (i->noperands + 1) * sizeof *ops);
    for (u32 j = 0; j < i->noperands; j++) ops[j] = map[hlo_operand(i, j)->id];
    if (hlo_is(i, HLO_PARAMETER)) {
      map[i->id] = hlo_add_parameter(now, hlo_param_number(i), shape, i->name);
    } else if (hlo_is(i, HLO_CONSTANT) && shape != i->shape) {
      hlo_literal *value;
      HS_TRY(build_literal_as(b, i, to, &value));
      map[i->id] = hlo_add_constant(now, value, i->name);
    } else {
      map[i->id] = hlo_clone_instr(now, i, shape, i->noperands, ops);
    }
  }
  hlo_set_root(now, map[c->root->id]);
  *out = now;
  return hlo_verify_computation(now, NULL);
}

// The one type of all parameters, when they are scalars of one; else HLO_DT_INVALID.
static hlo_dtype scalar_type(const hlo_computation *c) {
  hlo_dtype t = c->nparams ? c->params[0]->shape->dtype : HLO_DT_INVALID;
  for (u32 k = 0; k < c->nparams; k++)
    if (!hlo_shape_is_scalar(c->params[k]->shape) || c->params[k]->shape->dtype != t)
      return HLO_DT_INVALID;
  return t;
}

// Operations that call a computation on scalars of their operands' type.
static bool on_elements(hlo_opcode op) {
  return op == HLO_REDUCE || op == HLO_REDUCE_WINDOW || op == HLO_SCATTER || op == HLO_MAP ||
         op == HLO_SELECT_AND_SCATTER || op == HLO_ALL_REDUCE || op == HLO_REDUCE_SCATTER ||
         op == HLO_ALL_REDUCE_START || op == HLO_SORT;
}

hs_status build_applied(builder *b, hlo_opcode op, const build_values *v, const build_key *key,
                        const char **out) {
  const char *name = key->value + (key->value[0] == '%'), *attribute = "";
  hlo_dtype types[64];
  u32 n = on_elements(op) ? parameter_types(op, v, types, HS_COUNT(types)) : 0;
  bool one = n == 2;
  hlo_computation *c = hlo_find_comp(b->m, name);
  hlo_dtype has = c ? scalar_type(c) : HLO_DT_INVALID;
  if (c && (!one || has == types[0] || has == HLO_DT_INVALID)) return *out = c->name, HS_GOOD;
  hlo_opcode as = build_function(hs_str_of(name), &attribute);
  bool binary = as != HLO_OP_INVALID && hlo_op_has(as, HLO_F_ELEMENTWISE) && hlo_op_takes(as, 2) &&
                hlo_ops[as].arity == 2 && (as != HLO_COMPARE || *attribute);
  if (binary && n) {
    c = make(b, name, as, as == HLO_COMPARE ? direction_of(attribute) : 0, n, types);
    return *out = c->name, HS_GOOD;
  }
  if (c) {
    // the copy may be there from before
    char *copy = hs_format("%s.%s", name, hlo_dtype_text(types[0]));
    hlo_computation *before = hlo_find_comp(b->m, copy);
    hs_free(copy);
    if (!before || scalar_type(before) != types[0])
      HS_TRY(build_at(b, retyped(b, c, has, types[0], &before), key->at));
    return *out = before->name, HS_GOOD;
  }
  HS_VEC(const char *) names = {0};
  hlo_for_each_comp(k, b->m)
    if (names.n < 20000) hs_vec_push(&names, k->name);
  const char *near = hs_nearest(name, names.v, names.n);
  hs_vec_free(&names);
  hs_status s = build_error(b, HS_E_NAME, key->at, "computation does not exist: %.100s", name);
  if (near) s = hs_with_note(s, "did you mean %s?", near);
  return hs_with_note(s, n ? "add, mul, max, min, and, or make one; reducer NAME(a, b) = ... and "
                             "comp NAME(...) { ... } define others"
                           : "comp NAME(...) { ... } defines one");
}
