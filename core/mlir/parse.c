// parse.c — MLIR's text into a tree: operations in generic form, regions, values in scope,
// functions' frames, aliases. The pretty forms are parse_pretty.c's.
//
// A value is visible from its definition to the end of its region, in nested regions too, but not
// in other functions. Every region has one block: HLO has no branches between blocks.
#include "core/mlir/tree.h"

// ---- the tree -----------------------------------------------------------------------------------
mlir_op *mlir_new_op(mlir_reader *R, hs_str name, const char *at) {
  mlir_op *op = HS_NEW(&R->arena, mlir_op);
  op->name = name;
  op->at = at;
  op->parent = R->region;
  return op;
}

void mlir_append(mlir_region *r, mlir_op *op) {
  op->prev = r->last;
  if (r->last) r->last->next = op;
  else r->first = op;
  r->last = op;
}

mlir_region *mlir_new_region(mlir_reader *R, mlir_op *owner) {
  mlir_region *r = HS_NEW(&R->arena, mlir_region), **v;
  r->owner = owner;
  r->parent = owner ? owner->parent : NULL;
  r->depth = r->parent ? r->parent->depth + 1 : 0;
  if (!owner) return r;
  v = HS_NEW_ARRAY(&R->arena, mlir_region *, owner->nregions + 1);
  for (u32 k = 0; k < owner->nregions; k++) v[k] = owner->regions[k];
  v[owner->nregions++] = r;
  owner->regions = v;
  return r;
}

void mlir_set_args(mlir_reader *R, mlir_region *r, u32 n, const mlir_value *args) {
  r->nargs = n;
  r->args = HS_NEW_ARRAY(&R->arena, mlir_value, n);
  for (u32 k = 0; k < n; k++) {
    r->args[k] = args[k];
    r->args[k].region = r;
    r->args[k].index = k;
  }
}

void mlir_set_operands(mlir_reader *R, mlir_op *op, size_t from) {
  op->nops = (u32)(R->operands.n - from);
  op->ops = hs_arena_dup(&R->arena, R->operands.v + from, op->nops * sizeof(mlir_value *));
  R->operands.n = from;
}

void mlir_set_attrs(mlir_reader *R, mlir_attrs *to, size_t from) {
  u32 n = (u32)(R->attrs.n - from);
  mlir_attr *v = HS_NEW_ARRAY(&R->arena, mlir_attr, to->n + n);
  for (u32 k = 0; k < to->n; k++) v[k] = to->v[k];
  for (u32 k = 0; k < n; k++) v[to->n + k] = R->attrs.v[from + k];
  to->n += n;
  to->v = v;
  R->attrs.n = from;
}

void mlir_set_results(mlir_reader *R, mlir_op *op, u32 n, const mlir_typed *types) {
  op->nres = n;
  op->res = HS_NEW_ARRAY(&R->arena, mlir_value, n);
  for (u32 k = 0; k < n; k++)
    op->res[k] = (mlir_value){.shape = types[k].shape,
                              .type = types[k].text,
                              .def = op,
                              .region = op->parent,
                              .index = k};
}

// ---- values -------------------------------------------------------------------------------------
static bool value_name(mlir_reader *R, hs_str *out) {
  if (hlo_peek(RX) != '%') return hlo_lex_error(RX, HS_E_SYNTAX, NULL, "expects a value, %%NAME");
  const char *at = RX->p++;
  const char *s = RX->p;
  while (RX->p < RX->end && (hlo_is_ch(*RX->p, HLO_CH_IDENT) || *RX->p == '$')) {
    if (*RX->p == '-' && hlo_at(RX, 1) == '>') break;
    RX->p++;
  }
  *out = (hs_str){s, (size_t)(RX->p - s)};
  return out->n > 0 || hlo_lex_error(RX, HS_E_SYNTAX, at, "expects a name after '%%'");
}

bool mlir_declare(mlir_reader *R, const char *at, hs_str name, mlir_value *v, u32 count) {
  if (mlir_names_add(&R->values, name, v, count)) return true;
  return hlo_lex_error(RX, HS_E_REDEFINED, at, "value '%%%.*s' is defined twice",
                       (int)HS_MIN(name.n, 80u), name.p);
}

bool mlir_read_operand(mlir_reader *R, mlir_value **out) {
  hs_str name;
  hlo_skip(RX);
  const char *at = RX->p;
  if (!value_name(R, &name)) return false;
  u32 count = 0;
  mlir_value *v = mlir_names_find(&R->values, name, &count);
  i64 k = 0;
  bool picked = hlo_at(RX, 0) == '#';
  if (picked) RX->p++;
  if (picked && !hlo_int(RX, &k)) return false;
  if (!v)
    return hlo_lex_error(RX, HS_E_NAME, at, "value '%%%.*s' is not defined before its use",
                         (int)HS_MIN(name.n, 80u), name.p);
  if (k < 0 || k >= count)
    return hlo_lex_error(RX, HS_E_NAME, at, "'%%%.*s' stands for %u values",
                         (int)HS_MIN(name.n, 80u), name.p, count);
  *out = v + k;
  return true;
}

// ---- attributes and locations -------------------------------------------------------------------
bool mlir_read_dict(mlir_reader *R) {
  if (!hlo_expect(RX, '{', "at the start of the attributes")) return false;
  if (hlo_accept(RX, '}')) return true;
  do {
    mlir_attr a = {0};
    if (hlo_peek(RX) == '"') {
      if (!mlir_string(RX, &a.name)) return false;
    } else {
      a.name = mlir_word(RX);
      // words with '-' and a '@' inside stand in quotes elsewhere
      if (!a.name.n) return hlo_lex_error(RX, HS_E_SYNTAX, NULL, "expects an attribute's name");
    }
    a.value = (mlir_span){a.name.p, 0};
    if (hlo_accept(RX, '=') && !mlir_skip_value(RX, true, &a.value)) return false;
    hs_vec_push(&R->attrs, a);
  } while (hlo_accept(RX, ','));
  return hlo_expect(RX, '}', "at the end of the attributes");
}

bool mlir_read_loc(mlir_reader *R, mlir_span *out) {
  hlo_skip(RX);
  const char *at = RX->p;
  if (RX->end - at < 4 || memcmp(at, "loc(", 4) != 0) return true;
  RX->p += 3;
  if (!mlir_skip_balanced(RX)) return false;
  *out = (mlir_span){at, (size_t)(RX->p - at)};
  return true;
}

// ---- regions ------------------------------------------------------------------------------------
// (%a: T {..} loc(..), ...) behind its '('.
bool mlir_arguments(mlir_reader *R, mlir_region *r, bool attributes) {
  HS_VEC(mlir_value) args = {0};
  HS_VEC(hs_str) names = {0};
  HS_VEC(const char *) places = {0};
  bool ok = true;
  if (!hlo_accept(RX, ')')) {
    do {
      mlir_value v = {0};
      hs_str name = {0};
      mlir_typed t;
      hlo_skip(RX);
      const char *at = RX->p;
      // a declaration has types only
      bool named = hlo_peek(RX) == '%';
      ok = !named || (value_name(R, &name) && hlo_expect(RX, ':', "after an argument"));
      ok = ok && mlir_type(R, &t.shape, &t.text);
      if (!ok) break;
      v.shape = t.shape;
      v.type = t.text;
      if (attributes && hlo_peek(RX) == '{') {
        size_t from = R->attrs.n;
        ok = mlir_read_dict(R);
        mlir_set_attrs(R, &v.attrs, from);
      }
      ok = ok && mlir_read_loc(R, &v.loc);
      hs_vec_push(&args, v);
      hs_vec_push(&names, name);
      hs_vec_push(&places, at);
    } while (ok && hlo_accept(RX, ','));
    ok = ok && hlo_expect(RX, ')', "after the arguments");
  }
  if (ok) {
    mlir_set_args(R, r, (u32)args.n, args.v);
    for (u32 k = 0; ok && k < r->nargs; k++)
      if (names.v[k].n) ok = mlir_declare(R, places.v[k], names.v[k], &r->args[k], 1);
  }
  hs_vec_free(&args);
  hs_vec_free(&names);
  hs_vec_free(&places);
  return ok;
}

bool mlir_read_region(mlir_reader *R, mlir_region *r) {
  if (!hlo_expect(RX, '{', "at the start of a region") || !hlo_lex_enter(RX)) return false;
  mlir_region *outer = R->region;
  R->region = r;
  bool ok = true, blocks = false;
  while (ok && hlo_peek(RX) != '}') {
    if (hlo_peek(RX) == '^') {
      if (blocks || r->first)
        ok = hlo_lex_error(RX, HS_E_NO_HLO, NULL, "a region of several blocks has no form in HLO");
      blocks = true;
      RX->p++;
      (void)mlir_word(RX);
      if (ok && hlo_accept(RX, '(')) ok = mlir_arguments(R, r, false);
      ok = ok && hlo_expect(RX, ':', "after the block's arguments");
    } else if (RX->p >= RX->end) {
      ok = hlo_lex_error(RX, HS_E_SYNTAX, NULL, "the region is not closed");
    } else {
      ok = mlir_read_op(R);
    }
  }
  if (ok) RX->p++;
  R->region = outer;
  hlo_lex_leave(RX);
  return ok;
}

// ---- functions and modules in generic form ------------------------------------------------------
// True for the module around all others; its name is known before its functions are.
static bool begin_module(mlir_reader *R, const mlir_op *op) {
  if (R->module_name.n || R->funcs.n) return false;
  R->module_name = HS_STR("module");
  return mlir_get_string(R, &op->attrs, "sym_name", &R->module_name);
}
// Attributes that are no properties stand behind the functions.
static void end_module(mlir_reader *R, const mlir_op *op) {
  R->module_attrs = op->attrs;
  (void)mlir_get_string(R, &op->attrs, "sym_name", &R->module_name);
}

void mlir_set_func_results(mlir_reader *R, mlir_func *f, u32 n, const mlir_typed *types) {
  f->nresults = n;
  f->results = HS_NEW_ARRAY(&R->arena, mlir_attrs, n);
  f->result_shapes = HS_NEW_ARRAY(&R->arena, const hlo_shape *, n);
  for (u32 k = 0; k < n; k++) f->result_shapes[k] = types[k].shape;
}

// The results' types of the type "(T, T) -> (T)".
static bool result_types(mlir_reader *R, mlir_span type, mlir_func *f) {
  mlir_types in = {0}, out = {0};
  mlir_place was = mlir_enter(R, mlir_unalias(R, type));
  bool ok = mlir_type_list(R, &in);
  if (ok && !hlo_accept_text(RX, "->"))
    ok = hlo_lex_error(RX, HS_E_SYNTAX, NULL, "expects '->' in the function's type");
  ok = ok && mlir_type_list(R, &out);
  mlir_leave(R, was);
  mlir_set_func_results(R, f, (u32)out.n, out.v);
  hs_vec_free(&in);
  hs_vec_free(&out);
  return ok;
}

// Dictionaries "[{..}, {..}]", one for each argument or result; absent, or fewer: none of the rest.
static bool take_dicts(mlir_reader *R, const mlir_op *op, const char *name, u32 n,
                       mlir_attrs **to) {
  mlir_span s, *v;
  u32 count;
  if (!mlir_get(R, &op->attrs, name, &s)) return true;
  if (!mlir_array_of(R, s, &count, &v)) return false;
  for (u32 k = 0; k < count && k < n; k++)
    if (!mlir_dict_of(R, mlir_unalias(R, v[k]), to[k])) return false;
  return true;
}

bool mlir_add_func(mlir_reader *R, mlir_func *f, const char *at) {
  hs_vec_push(&R->funcs, f);
  return mlir_names_add(&R->func_names, f->name, f, 1) ||
         hlo_lex_error(RX, HS_E_REDEFINED, at, "function '@%.*s' is defined twice",
                       (int)HS_MIN(f->name.n, 80u), f->name.p);
}

// A function by its attributes. at: its type, for errors.
static bool take_func(mlir_reader *R, mlir_op *op, const char *at) {
  mlir_func *f = HS_NEW(&R->arena, mlir_func);
  mlir_span type;
  hs_str visibility = {0};
  f->op = op;
  if (op->nregions != 1 || !mlir_get_string(R, &op->attrs, "sym_name", &f->name) || !f->name.n ||
      !mlir_get(R, &op->attrs, "function_type", &type))
    return RX->failed
               ? false
               : hlo_lex_error(RX, HS_E_SYNTAX, at, "a function without a name, a type or a body");
  if (!mlir_get_string(R, &op->attrs, "sym_visibility", &visibility)) return false;
  f->is_private = visibility.n && !hs_str_eq(visibility, HS_STR("public"));
  if (!result_types(R, type, f)) return false;
  mlir_region *r = op->regions[0];
  mlir_attrs **to = HS_NEW_ARRAY(&R->arena, mlir_attrs *, HS_MAX(f->nresults, r->nargs) + 1);
  for (u32 k = 0; k < f->nresults; k++) to[k] = &f->results[k];
  if (!take_dicts(R, op, "res_attrs", f->nresults, to)) return false;
  for (u32 k = 0; k < r->nargs; k++) to[k] = &r->args[k].attrs;
  return take_dicts(R, op, "arg_attrs", r->nargs, to) && mlir_add_func(R, f, at);
}

// ---- operations ---------------------------------------------------------------------------------
// "name"(%a) <{..}> ({..}, {..}) {..} : (T) -> T behind the name.
static bool read_generic(mlir_reader *R, mlir_op *op) {
  size_t from = R->operands.n, attrs = R->attrs.n;
  if (!hlo_expect(RX, '(', "before the operands")) return false;
  if (!hlo_accept(RX, ')')) {
    do {
      mlir_value *v;
      if (!mlir_read_operand(R, &v)) return false;
      hs_vec_push(&R->operands, v);
    } while (hlo_accept(RX, ','));
    if (!hlo_expect(RX, ')', "after the operands")) return false;
  }
  mlir_set_operands(R, op, from);
  if (hlo_peek(RX) == '[')
    return hlo_lex_error(RX, HS_E_NO_HLO, NULL, "branches between blocks have no form in HLO");
  if (hlo_peek(RX) == '<' && hlo_at(RX, 1) == '{') {
    RX->p++;
    if (!mlir_read_dict(R) || !hlo_expect(RX, '>', "after the properties")) return false;
  }
  mlir_set_attrs(R, &op->attrs, attrs);
  bool top = op->row->form == MLIR_MODULE && begin_module(R, op);
  if (hlo_accept(RX, '(')) {
    do {
      size_t scope = R->values.v.n;
      mlir_region *r = mlir_new_region(R, op);
      if (op->row->form == MLIR_FUNC) r->parent = NULL, r->depth = 0;  // sees nothing around it
      if (!mlir_read_region(R, r)) return false;
      mlir_names_cut(&R->values, scope);
    } while (hlo_accept(RX, ','));
    if (!hlo_expect(RX, ')', "after the regions")) return false;
  }
  if (hlo_peek(RX) == '{') {
    if (!mlir_read_dict(R)) return false;
    mlir_set_attrs(R, &op->attrs, attrs);
  }
  mlir_types in = {0}, out = {0};
  const char *at = RX->p;
  bool ok = hlo_expect(RX, ':', "before the operation's type") && mlir_type_list(R, &in);
  if (ok && !hlo_accept_text(RX, "->"))
    ok = hlo_lex_error(RX, HS_E_SYNTAX, NULL, "expects '->' in the operation's type");
  ok = ok && mlir_type_list(R, &out);
  if (ok && in.n != op->nops)
    ok = hlo_lex_error(RX, HS_E_ARITY, at, "%u operands and the types of %zu", op->nops, in.n);
  for (u32 k = 0; ok && k < op->nops; k++)
    if (in.v[k].shape != op->ops[k]->shape)
      ok = hlo_lex_error(RX, HS_E_SHAPE, at, "operand %u is %.*s, not %.*s", k,
                         (int)HS_MIN(op->ops[k]->type.n, 80u), op->ops[k]->type.p,
                         (int)HS_MIN(in.v[k].text.n, 80u), in.v[k].text.p);
  if (ok) mlir_set_results(R, op, (u32)out.n, out.v);
  hs_vec_free(&in);
  hs_vec_free(&out);
  if (ok && top) end_module(R, op);
  return ok && (op->row->form != MLIR_FUNC || take_func(R, op, at));
}

typedef struct result {
  hs_str name;
  i64 count;
  const char *at;
} result;
typedef HS_VEC(result) results;

// %a:2, %b = ; none when there are no names.
static bool read_results(mlir_reader *R, results *out) {
  if (hlo_peek(RX) != '%') return true;
  do {
    result r = {.count = 1, .at = RX->p};
    if (!value_name(R, &r.name)) return false;
    if (hlo_accept(RX, ':') && !hlo_int(RX, &r.count)) return false;
    hs_vec_push(out, r);
  } while (hlo_accept(RX, ','));
  return hlo_expect(RX, '=', "after the results");
}

static bool bind_results(mlir_reader *R, const mlir_op *op, const results *names, const char *at) {
  i64 k = 0;
  for (size_t i = 0; i < names->n; i++) {
    const result *r = &names->v[i];
    if (r->count < 1 || r->count > (i64)op->nres - k)
      return hlo_lex_error(RX, HS_E_ARITY, r->at, "the operation has %u result%s", op->nres,
                           op->nres == 1 ? "" : "s");
    if (!mlir_declare(R, r->at, r->name, &op->res[k], (u32)r->count)) return false;
    k += r->count;
  }
  if (names->n && k != op->nres)
    return hlo_lex_error(RX, HS_E_ARITY, at, "the operation has %u results, %lld are named",
                         op->nres, (long long)k);
  return true;
}

bool mlir_find_op_row(mlir_reader *R, mlir_op *op, const char *at) {
  op->row = mlir_find_row(op->name);
  if (op->row) return true;
  char word[64];
  size_t n = HS_MIN(op->name.n, sizeof word - 1);
  memcpy(word, op->name.p, n);
  word[n] = 0;
  hlo_lex_error(RX, HS_E_OPCODE, at, "operation '%s' is not known", word);
  const char *near = mlir_nearest_row((hs_str){word, n});
  if (near) hlo_lex_note(RX, "did you mean %s?", near);
  return false;
}

static bool read_body(mlir_reader *R, mlir_op **out, const char *at) {
  bool generic = hlo_peek(RX) == '"';
  const char *name_at = RX->p;
  hs_str name;
  if (generic) {
    if (!mlir_string(RX, &name)) return false;
  } else {
    name = mlir_word(RX);
    if (!name.n) return hlo_lex_error(RX, HS_E_SYNTAX, NULL, "expects an operation");
    if (hs_str_eq(name, HS_STR("stablehlo.cross")))  // the one name with a '-'
      while (RX->p < RX->end && hlo_is_ch(*RX->p, HLO_CH_IDENT)) name.n++, RX->p++;
  }
  mlir_op *op = *out = mlir_new_op(R, name, name_at);
  (void)at;
  if (!mlir_find_op_row(R, op, name_at)) return false;
  return (generic ? read_generic(R, op) : mlir_read_pretty(R, op)) && mlir_read_loc(R, &op->loc);
}

bool mlir_read_op(mlir_reader *R) {
  if (hs_interrupted()) return hlo_lex_status(RX, hs_stopped(), NULL);
  results names = {0};
  hlo_skip(RX);
  const char *at = RX->p;
  mlir_op *op = NULL;
  bool ok = read_results(R, &names) && read_body(R, &op, at) && bind_results(R, op, &names, at);
  if (ok && op->row->form != MLIR_FUNC && op->row->form != MLIR_MODULE && R->region)
    mlir_append(R->region, op);
  hs_vec_free(&names);
  return ok;
}

// ---- the module ---------------------------------------------------------------------------------
// #loc1 = loc("x"), !t = tensor<..>
static bool read_alias(mlir_reader *R) {
  const char *at = RX->p++;
  hs_str w = mlir_word(RX);
  mlir_span *v = HS_NEW(&R->arena, mlir_span);
  hs_str name = {at, w.n + 1};
  if (!w.n || !hlo_expect(RX, '=', "after the alias"))
    return hlo_lex_error(RX, HS_E_SYNTAX, at, "expects NAME = VALUE after '%c'", *at);
  if (!mlir_skip_value(RX, true, v)) return false;
  return mlir_names_add(&R->aliases, name, v, 1) ||
         hlo_lex_error(RX, HS_E_REDEFINED, at, "alias '%.*s' is defined twice",
                       (int)HS_MIN(name.n, 80u), name.p);
}

// {-# dialect_resources: { builtin: { name: "0x.." } } #-}: every string there is a resource.
static bool read_resources(mlir_reader *R, bool want) {
  const char *stop = memmem(RX->p, (size_t)(RX->end - RX->p), "#-}", 3);
  if (!stop) return hlo_lex_error(RX, HS_E_SYNTAX, NULL, "'{-#' without '#-}'");
  mlir_place was = {stop + 3, RX->end};
  RX->p += 3;
  RX->end = stop;
  hs_str name = {0};
  bool ok = true;
  while (ok && want && hlo_peek(RX)) {
    if (hlo_peek(RX) == '"') {
      hs_str text;
      ok = mlir_string(RX, &text);
      if (ok && hlo_peek(RX) == ':') name = text;
      else if (ok && text.n < UINT32_MAX && name.n)
        (void)mlir_names_add(&R->resources, name, (void *)(uintptr_t)text.p, (u32)text.n);
      continue;
    }
    hs_str w = mlir_word(RX);
    if (w.n) name = w;
    else RX->p++;
  }
  mlir_leave(R, was);
  return ok;
}

// Aliases and resources may stand behind the module that uses them: they are read first, by lines.
static bool read_ahead(mlir_reader *R) {
  const char *begin = RX->p;
  for (const char *p = begin; p && p < RX->end;) {
    const char *next = memchr(p, '\n', (size_t)(RX->end - p));
    if (RX->many && RX->end - p >= 8 && !memcmp(p, HLO_SEPARATOR, 8)) break;
    RX->p = p;
    bool ok = true;
    if (*p == '#' || *p == '!') ok = read_alias(R);
    else if (RX->end - p > 2 && !memcmp(p, "{-#", 3)) {
      ok = read_resources(R, true);
      next = memchr(RX->p, '\n', (size_t)(RX->end - RX->p));  // its last line may be "#-}"
    }
    if (!ok) return false;
    p = next ? next + 1 : NULL;
  }
  return RX->p = begin, true;
}

bool mlir_read_module(mlir_reader *R) {
  if (!read_ahead(R)) return false;
  while (hlo_peek(RX)) {
    mlir_span s;
    hlo_skip(RX);
    if (*RX->p == '#' || *RX->p == '!') {
      RX->p++;
      (void)mlir_word(RX);
      if (!hlo_expect(RX, '=', "after the alias") || !mlir_skip_value(RX, true, &s)) return false;
    } else if (RX->end - RX->p > 2 && !memcmp(RX->p, "{-#", 3)) {
      if (!read_resources(R, false)) return false;
    } else if (!mlir_read_op(R)) {
      return false;
    }
  }
  return !RX->failed;
}
