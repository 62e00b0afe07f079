// parse_pretty.c — the pretty forms. Nearly all are a list of items in any order: operands, words
// (LT, SIGNED), symbols, "name = value", brackets behind an operand, a dictionary; then a colon and
// types. Words become attributes word0, word1; a bracket "ranges"; a symbol "callee"; a bare value
// "value".
#include "core/mlir/tree.h"

static void push_attr(mlir_reader *R, hs_str name, mlir_span value) {
  hs_vec_push(&R->attrs, ((mlir_attr){name, value}));
}

// Of a dialect without rows.
static bool is_foreign(const mlir_op *op) { return !*op->row->name; }

// ---- types --------------------------------------------------------------------------------------
// ": T", ": T1, T2", ": (T) -> T", ": T -> T". What is listed without an arrow are the operands'
// types, whose last is the result's, or the results' types.
static bool read_types(mlir_reader *R, mlir_op *op) {
  mlir_types in = {0}, out = {0};
  bool ok = true, arrow = false;
  bool colon = hlo_accept(RX, ':');
  if (colon) {
    ok = mlir_type_list(R, &in);
    while (ok && hlo_accept(RX, ',')) ok = mlir_type_list(R, &in);
  }
  if (ok && (colon || is_foreign(op)) && hlo_accept_text(RX, "->")) {
    arrow = true;
    ok = mlir_type_list(R, &out);
  }
  u32 flags = op->row->flags;
  if (ok && arrow) mlir_set_results(R, op, (u32)out.n, out.v);
  else if (ok && flags & MLIR_F_ALL_RESULTS) mlir_set_results(R, op, (u32)in.n, in.v);
  else if (ok && in.n && !(flags & MLIR_F_NO_RESULT)) mlir_set_results(R, op, 1, &in.v[in.n - 1]);
  hs_vec_free(&in);
  hs_vec_free(&out);
  return ok;
}

// ---- the list -----------------------------------------------------------------------------------
typedef struct list {
  u32 words;
  bool parens;
  // of dialects without rows: arguments of the region behind, "%i = %0", with their first values
  HS_VEC(hs_str) names;
  HS_VEC(mlir_value) args;
} list;

static bool read_argument(mlir_reader *R, list *l, bool *found) {
  mlir_value *v;
  const char *at = RX->p++;
  hs_str name = {RX->p, 0};
  while (RX->p < RX->end && (hlo_is_ch(*RX->p, HLO_CH_IDENT) || *RX->p == '$')) RX->p++, name.n++;
  *found = name.n && hlo_accept(RX, '=');
  if (!*found) return RX->p = at, true;
  if (!mlir_read_operand(R, &v)) return false;
  hs_vec_push(&R->operands, v);
  hs_vec_push(&l->names, name);
  hs_vec_push(&l->args, ((mlir_value){.shape = v->shape, .type = v->type}));
  return true;
}

static bool read_region_of(mlir_reader *R, mlir_op *op, const list *l) {
  size_t scope = R->values.v.n;
  mlir_region *r = mlir_new_region(R, op);
  bool ok = true;
  mlir_set_args(R, r, (u32)l->args.n, l->args.v);
  for (u32 k = 0; ok && k < r->nargs; k++)
    ok = mlir_declare(R, l->names.v[k].p, l->names.v[k], &r->args[k], 1);
  ok = ok && mlir_read_region(R, r);
  mlir_names_cut(&R->values, scope);
  return ok;
}

static bool read_item(mlir_reader *R, mlir_op *op, list *l, bool *end) {
  static const hs_str words[] = {{"word0", 5}, {"word1", 5}, {"word2", 5}};
  char c = hlo_peek(RX);
  mlir_span s;
  hs_str name;
  switch (c) {
  case '%': {
    mlir_value *v;
    bool found = false;
    if (is_foreign(op) && !read_argument(R, l, &found)) return false;
    if (found) return true;
    if (!mlir_read_operand(R, &v)) return false;
    hs_vec_push(&R->operands, v);
    if (hlo_peek(RX) != '[') return true;
    if (!mlir_skip_value(RX, false, &s)) return false;  // %a [0:4], %t[0]
    return push_attr(R, HS_STR("ranges"), s), true;
  }
  case '(':
    if (l->parens) return *end = true, true;
    l->parens = true;
    RX->p++;
    return true;
  case ')':
    if (!l->parens) return *end = true, true;
    l->parens = false;
    RX->p++;
    return true;
  case '@':
    hlo_skip(RX);
    name.p = RX->p;
    if (!mlir_skip_value(RX, false, &s)) return false;
    // @foo(%x): the bracket is not the symbol's
    push_attr(R, HS_STR("callee"), s);
    // @mesh = <..>
    return !hlo_accept(RX, '=') ||
           (mlir_skip_value(RX, false, &s) && (push_attr(R, HS_STR("mesh"), s), true));
  case '{': return mlir_read_dict(R);
  case '"':
  case '<':
  case '[': return mlir_skip_value(RX, false, &s) && (push_attr(R, HS_STR("value"), s), true);
  default: break;
  }
  hlo_skip(RX);
  const char *at = RX->p;
  name = mlir_word(RX);
  if (!name.n) return *end = true, true;
  if (hs_str_eq(name, HS_STR("loc")) && hlo_at(RX, 0) == '(') return RX->p = at, *end = true, true;
  if (hlo_accept(RX, '=')) return mlir_skip_value(RX, false, &s) && (push_attr(R, name, s), true);
  if (hlo_at(RX, 0) == '<' || (name.p[0] >= '0' && name.p[0] <= '9') || c == '-') {
    RX->p = at;  // dense<..>, 5
    return mlir_skip_value(RX, false, &s) && (push_attr(R, HS_STR("value"), s), true);
  }
  if (hs_str_eq(name, HS_STR("attributes"))) return true;
  if (l->words >= HS_COUNT(words))
    return hlo_lex_error(RX, HS_E_SYNTAX, at, "unexpected '%.*s' in %.*s", (int)HS_MIN(name.n, 40u),
                         name.p, (int)HS_MIN(op->name.n, 60u), op->name.p);
  push_attr(R, words[l->words++], name);
  return true;
}

// Up to the types. An item on a new line that begins another operation ends an operation without
// types (return).
static bool read_items(mlir_reader *R, mlir_op *op, list *l) {
  size_t operands = R->operands.n, attrs = R->attrs.n;
  bool end = false, comma = false;
  while (!end) {
    char c = hlo_peek(RX);
    if (!c || c == ':' || c == '}') break;
    // an item behind no comma on a line of its own is the next operation
    const char *before = RX->p;
    while (before > RX->begin && (before[-1] == ' ' || before[-1] == '\t')) before--;
    bool fresh = before > RX->begin && before[-1] == '\n';
    if (fresh && !comma && (op->row->flags & MLIR_F_NO_RESULT || is_foreign(op))) break;
    if (!read_item(R, op, l, &end)) return false;
    comma = hlo_accept(RX, ',');
  }
  mlir_set_operands(R, op, operands);
  mlir_set_attrs(R, &op->attrs, attrs);
  return true;
}

static bool read_list(mlir_reader *R, mlir_op *op) {
  list l = {0};
  bool ok = read_items(R, op, &l) && read_types(R, op);
  if (ok && l.args.n && hlo_peek(RX) == '{') ok = read_region_of(R, op, &l);
  hs_vec_free(&l.names);
  hs_vec_free(&l.args);
  return ok;
}

// ---- reduce, while ------------------------------------------------------------------------------
// applies stablehlo.add: a region of that one operation.
static bool make_reducer(mlir_reader *R, mlir_op *op, hs_str name, const char *at) {
  mlir_region *r = mlir_new_region(R, op), *outer = R->region;
  mlir_value args[2] = {{0}, {0}};
  if (op->nops != 2 || !op->ops[1]->shape)
    return hlo_lex_error(RX, HS_E_ARITY, at, "'applies' wants one input and its initial value");
  for (u32 k = 0; k < 2; k++) args[k].shape = op->ops[1]->shape, args[k].type = op->ops[1]->type;
  mlir_set_args(R, r, 2, args);
  R->region = r;
  mlir_op *apply = mlir_new_op(R, name, at), *ret = mlir_new_op(R, HS_STR("stablehlo.return"), at);
  R->region = outer;
  apply->row = mlir_find_row(name);
  ret->row = mlir_find_row(ret->name);
  if (!apply->row || apply->row->rule != ret->row->rule) {
    if (!apply->row || hlo_ops[apply->row->opcode].arity != 2)
      return hlo_lex_error(RX, HS_E_OPCODE, at, "'%.*s' reduces nothing", (int)HS_MIN(name.n, 60u),
                           name.p);
  }
  apply->nops = 2;
  apply->ops = HS_NEW_ARRAY(&R->arena, mlir_value *, 2);
  for (u32 k = 0; k < 2; k++) apply->ops[k] = &r->args[k];
  mlir_set_results(R, apply, 1, &(mlir_typed){args[0].shape, args[0].type});
  ret->nops = 1;
  ret->ops = HS_NEW_ARRAY(&R->arena, mlir_value *, 1);
  ret->ops[0] = &apply->res[0];
  mlir_append(r, apply);
  mlir_append(r, ret);
  return true;
}

// reducer(%a: T, %b: T) (%c: T, %d: T) { .. }: the arguments come in pairs, one for each input.
static bool read_reducer(mlir_reader *R, mlir_op *op) {
  mlir_region *r = mlir_new_region(R, op);
  HS_VEC(mlir_value) firsts = {0}, seconds = {0};
  HS_VEC(hs_str) names = {0};
  bool ok = true;
  mlir_region pair = {0};
  const char *at = RX->p;
  size_t scope = R->values.v.n;
  while (ok && hlo_accept(RX, '(')) {
    ok = mlir_arguments(R, &pair, false);
    if (ok && pair.nargs != 2)
      ok = hlo_lex_error(RX, HS_E_ARITY, at, "a reducer's arguments come in pairs");
    if (!ok) break;
    hs_vec_push(&firsts, pair.args[0]);
    hs_vec_push(&seconds, pair.args[1]);
    for (u32 k = 0; k < 2; k++) hs_vec_push(&names, R->values.v.v[R->values.v.n - 2 + k].text);
  }
  mlir_names_cut(&R->values, scope);
  u32 n = (u32)firsts.n;
  for (u32 k = 0; k < n; k++) hs_vec_push(&firsts, seconds.v[k]);
  mlir_set_args(R, r, 2 * n, firsts.v);
  for (u32 k = 0; ok && k < n; k++)
    ok = mlir_declare(R, at, names.v[2 * k], &r->args[k], 1) &&
         mlir_declare(R, at, names.v[2 * k + 1], &r->args[n + k], 1);
  (void)mlir_read_loc(R, &op->loc);
  ok = ok && mlir_read_region(R, r);
  mlir_names_cut(&R->values, scope);
  hs_vec_free(&firsts);
  hs_vec_free(&seconds);
  hs_vec_free(&names);
  return ok;
}

static bool read_reduce(mlir_reader *R, mlir_op *op) {
  size_t inputs = R->operands.n, attrs = R->attrs.n;
  HS_VEC(mlir_value *) inits = {0};
  bool ok = true;
  do {
    mlir_value *a, *b;
    ok = hlo_expect(RX, '(', "before an input of reduce") && mlir_read_operand(R, &a);
    if (ok && !hs_str_eq(mlir_word(RX), HS_STR("init")))
      ok = hlo_lex_error(RX, HS_E_SYNTAX, NULL, "expects 'init:' after an input of reduce");
    ok = ok && hlo_expect(RX, ':', "after 'init'") && mlir_read_operand(R, &b) &&
         hlo_expect(RX, ')', "after an initial value");
    if (!ok) break;
    hs_vec_push(&R->operands, a);
    hs_vec_push(&inits, b);
  } while (hlo_accept(RX, ','));
  for (size_t k = 0; k < inits.n; k++) hs_vec_push(&R->operands, inits.v[k]);
  hs_vec_free(&inits);
  if (!ok) return false;
  mlir_set_operands(R, op, inputs);
  hlo_skip(RX);
  const char *at = RX->p;
  hs_str word = mlir_word(RX), applies = {0};
  if (hs_str_eq(word, HS_STR("applies"))) {
    hlo_skip(RX);
    at = RX->p;
    applies = mlir_word(RX);
    word = mlir_word(RX);
  }
  mlir_span dims;
  if (!hs_str_eq(word, HS_STR("across")) || !hs_str_eq(mlir_word(RX), HS_STR("dimensions")) ||
      !hlo_expect(RX, '=', "after 'dimensions'"))
    return hlo_lex_error(RX, HS_E_SYNTAX, NULL, "expects 'across dimensions = [..]'");
  if (!mlir_skip_value(RX, false, &dims)) return false;
  push_attr(R, HS_STR("dimensions"), dims);
  if (hlo_peek(RX) == '{' && !mlir_read_dict(R)) return false;
  mlir_set_attrs(R, &op->attrs, attrs);
  if (!read_types(R, op)) return false;
  if (applies.n) return make_reducer(R, op, applies, at);
  (void)mlir_read_loc(R, &op->loc);
  if (!hs_str_eq(mlir_word(RX), HS_STR("reducer")))
    return hlo_lex_error(RX, HS_E_SYNTAX, NULL, "expects 'reducer'");
  return read_reducer(R, op);
}

static bool accept_word(mlir_reader *R, const char *want) {
  hlo_skip(RX);
  const char *at = RX->p;
  if (hs_str_eq(mlir_word(RX), hs_str_of(want))) return true;
  RX->p = at;
  return hlo_lex_error(RX, HS_E_SYNTAX, NULL, "expects '%s'", want);
}

// (%x = %a, ...) : types attributes {..} cond {..} do {..}
static bool read_while(mlir_reader *R, mlir_op *op) {
  size_t operands = R->operands.n, attrs = R->attrs.n;
  HS_VEC(hs_str) names = {0};
  HS_VEC(const char *) places = {0};
  HS_VEC(mlir_value) args = {0};
  mlir_types types = {0};
  bool ok = hlo_expect(RX, '(', "before the state of while");
  if (ok && !hlo_accept(RX, ')')) {
    do {
      mlir_value *v;
      hlo_skip(RX);
      const char *at = RX->p;
      ok = hlo_expect(RX, '%', "before a state's name");
      hs_str name = {RX->p, 0};
      while (RX->p < RX->end && (hlo_is_ch(*RX->p, HLO_CH_IDENT) || *RX->p == '$'))
        RX->p++, name.n++;
      ok = ok && hlo_expect(RX, '=', "after a state's name") && mlir_read_operand(R, &v);
      if (!ok) break;
      hs_vec_push(&R->operands, v);
      hs_vec_push(&names, name);
      hs_vec_push(&places, at);
      hs_vec_push(&args, ((mlir_value){.shape = v->shape, .type = v->type}));
    } while (hlo_accept(RX, ','));
    ok = ok && hlo_expect(RX, ')', "after the state of while");
  }
  mlir_set_operands(R, op, operands);
  if (ok && hlo_accept(RX, ':')) {
    do ok = mlir_type_list(R, &types);
    while (ok && hlo_accept(RX, ','));
  }
  if (ok && types.n != op->nops)
    ok = hlo_lex_error(RX, HS_E_ARITY, NULL, "%u values and %zu types", op->nops, types.n);
  if (ok) mlir_set_results(R, op, (u32)types.n, types.v);
  hlo_skip(RX);
  if (ok && RX->end - RX->p > 10 && !memcmp(RX->p, "attributes", 10)) {
    RX->p += 10;
    ok = mlir_read_dict(R);
  }
  mlir_set_attrs(R, &op->attrs, attrs);
  for (u32 k = 0; ok && k < 2; k++) {
    size_t scope = R->values.v.n;
    mlir_region *r = mlir_new_region(R, op);
    mlir_set_args(R, r, (u32)args.n, args.v);
    for (u32 j = 0; ok && j < r->nargs; j++)
      ok = mlir_declare(R, places.v[j], names.v[j], &r->args[j], 1);
    ok = ok && accept_word(R, k ? "do" : "cond") && mlir_read_region(R, r);
    mlir_names_cut(&R->values, scope);
  }
  hs_vec_free(&names);
  hs_vec_free(&places);
  hs_vec_free(&args);
  hs_vec_free(&types);
  return ok;
}

// ---- regions among the items --------------------------------------------------------------------
// (%a, %b), or (%x: T, ..): a region's arguments.
static bool read_group(mlir_reader *R, mlir_region **r, mlir_op *op, hs_buf *sizes) {
  const char *at = RX->p++;
  hlo_skip(RX);
  const char *p = RX->p;
  while (p < RX->end && *p != ':' && *p != ',' && *p != ')') p++;
  if (p < RX->end && *p == ':') {
    *r = mlir_new_region(R, op);
    return mlir_arguments(R, *r, false);
  }
  (void)at;
  size_t from = R->operands.n;
  while (hlo_peek(RX) != ')') {
    mlir_value *v;
    if (R->operands.n > from && !hlo_expect(RX, ',', "between the operands")) return false;
    if (!mlir_read_operand(R, &v)) return false;
    hs_vec_push(&R->operands, v);
  }
  RX->p++;
  hs_buf_printf(sizes, "%s%zu", sizes->n ? ", " : "[", R->operands.n - from);
  return true;
}

static bool read_regions(mlir_reader *R, mlir_op *op) {
  size_t operands = R->operands.n, attrs = R->attrs.n, scope = R->values.v.n;
  mlir_region *r = NULL;
  hs_buf sizes = {0};
  bool ok = true;
  for (char c; ok && (c = hlo_peek(RX)) && c != ':';) {
    if (c == '(') {
      ok = read_group(R, &r, op, &sizes);
    } else if (c == '{') {
      ok = mlir_read_region(R, r ? r : mlir_new_region(R, op));
      mlir_names_cut(&R->values, scope);
      r = NULL;
    } else if (c == ',') {
      RX->p++;
    } else {
      mlir_span s;
      hs_str name = mlir_word(RX);
      if (!name.n) ok = hlo_lex_error(RX, HS_E_SYNTAX, NULL, "expects an attribute or a region");
      else if (hlo_accept(RX, '='))
        ok = mlir_skip_value(RX, false, &s) && (push_attr(R, name, s), true);
    }
  }
  if (sizes.n) {
    hs_buf_putc(&sizes, ']');
    hs_str text = {hs_arena_strndup(&R->arena, sizes.p, sizes.n), sizes.n};
    push_attr(R, HS_STR("operandSegmentSizes"), text);
  }
  hs_buf_free(&sizes);
  mlir_set_operands(R, op, operands);
  mlir_set_attrs(R, &op->attrs, attrs);
  return ok && read_types(R, op);
}

// ---- functions and modules ----------------------------------------------------------------------
static bool accept_optional(mlir_reader *R, const char *want) {
  hlo_skip(RX);
  const char *at = RX->p;
  if (hs_str_eq(mlir_word(RX), hs_str_of(want))) return true;
  return RX->p = at, false;
}

// T, or (T {..}, T {..}): the results of a function with their attributes.
static bool read_func_results(mlir_reader *R, mlir_func *f) {
  mlir_types types = {0};
  HS_VEC(mlir_attrs) attrs = {0};
  bool many = hlo_accept(RX, '('), ok = true;
  if (!many || !hlo_accept(RX, ')')) {
    do {
      mlir_typed t;
      mlir_attrs a = {0};
      size_t from = R->attrs.n;
      ok = mlir_type(R, &t.shape, &t.text);
      if (ok && many && hlo_peek(RX) == '{') {
        ok = mlir_read_dict(R);
        mlir_set_attrs(R, &a, from);
      }
      mlir_span loc;
      ok = ok && mlir_read_loc(R, &loc);
      hs_vec_push(&types, t);
      hs_vec_push(&attrs, a);
    } while (ok && many && hlo_accept(RX, ','));
    ok = ok && (!many || hlo_expect(RX, ')', "after the results"));
  }
  mlir_set_func_results(R, f, (u32)types.n, types.v);
  for (u32 k = 0; k < attrs.n; k++) f->results[k] = attrs.v[k];
  hs_vec_free(&types);
  hs_vec_free(&attrs);
  return ok;
}

static bool read_func(mlir_reader *R, mlir_op *op) {
  mlir_func *f = HS_NEW(&R->arena, mlir_func);
  f->op = op;
  if (accept_optional(R, "private") || accept_optional(R, "nested")) f->is_private = true;
  else (void)accept_optional(R, "public");
  const char *at = RX->p;
  if (!mlir_symbol(RX, &f->name) || !hlo_expect(RX, '(', "before the arguments")) return false;
  mlir_names outer = R->values;
  R->values = (mlir_names){0};
  mlir_region *r = mlir_new_region(R, op);
  r->parent = NULL;
  r->depth = 0;
  bool ok = mlir_arguments(R, r, true);
  if (ok && hlo_accept_text(RX, "->")) ok = read_func_results(R, f);
  if (ok && accept_optional(R, "attributes")) {
    size_t from = R->attrs.n;
    ok = mlir_read_dict(R);
    mlir_set_attrs(R, &op->attrs, from);
  }
  if (ok && hlo_peek(RX) == '{') ok = mlir_read_region(R, r);
  mlir_names_free(&R->values);
  R->values = outer;
  return ok && mlir_add_func(R, f, at);
}

static bool read_module(mlir_reader *R, mlir_op *op) {
  mlir_region *r = mlir_new_region(R, op);
  hs_str name = HS_STR("module");
  bool top = !R->module_name.n && !R->funcs.n;
  if (hlo_peek(RX) == '@' && !mlir_symbol(RX, &name)) return false;
  if (accept_optional(R, "attributes")) {
    size_t from = R->attrs.n;
    if (!mlir_read_dict(R)) return false;
    mlir_set_attrs(R, &op->attrs, from);
  }
  if (top) {
    R->module_name = name;
    R->module_attrs = op->attrs;
  }
  return mlir_read_region(R, r);
}

bool mlir_read_pretty(mlir_reader *R, mlir_op *op) {
  switch (op->row->form) {
  case MLIR_FUNC: return read_func(R, op);
  case MLIR_MODULE: return read_module(R, op);
  case MLIR_WHILE: return read_while(R, op);
  case MLIR_REDUCE: return read_reduce(R, op);
  case MLIR_REGIONS: return read_regions(R, op);
  default: break;
  }
  size_t attrs = R->attrs.n;
  if (!read_list(R, op)) return false;
  // the checks of StableHLO's tests have their attributes last
  if (hlo_peek(RX) != '{') return true;
  if (!mlir_read_dict(R)) return false;
  mlir_set_attrs(R, &op->attrs, attrs);
  return true;
}
