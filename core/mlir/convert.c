// convert.c — from the tree to a module: regions and functions become computations, each function
// once, the attributes of @main's arguments and of the module those of HLO's module.
#include "core/mlir/rules.h"

#include "core/ir/load.h"

#include <stdlib.h>

// ---- the table ----------------------------------------------------------------------------------
#define E MLIR_F_EFFECT
#define N MLIR_F_NO_RESULT
#define C MLIR_F_COMMUTES
#define R_ALL MLIR_F_ALL_RESULTS
#define X MLIR_F_NOT_PRINTED
#define A(names, id, how) {names, HLO_ATTR_##id, MLIR_##how},
#define MLIR_UNWRAP(...) __VA_ARGS__
#define HLO_INVALID HLO_OP_INVALID
#define R R_ALL
static const mlir_row rows[] = {
#define MLIR_OP(name, op, rule, form, flags, attrs) \
  {name,                                            \
   HLO_##op,                                        \
   mlir_rule_##rule,                                \
   MLIR_##form,                                     \
   flags,                                           \
   (const mlir_row_attr[]){MLIR_UNWRAP attrs{NULL, HLO_ATTR_NONE, MLIR_END}}},
#include "core/mlir/ops.def"
#undef MLIR_OP
};
#undef R
#undef E
#undef X
#undef N
#undef C
#undef A

static int by_name(const void *key, const void *row) {
  const hs_str *s = key;
  const char *name = ((const mlir_row *)row)->name;
  int order = strncmp(s->p, name, s->n);
  return order ? order : name[s->n] ? -1 : 0;
}

// Operations of dialects that have no rows at all are read, and refused where they are converted.
static const mlir_row foreign = {
    "",        HLO_OP_INVALID, mlir_rule_foreign,
    MLIR_LIST, MLIR_F_EFFECT,  (const mlir_row_attr[]){{NULL, HLO_ATTR_NONE, MLIR_END}}};

static bool is_foreign(hs_str name) {
  const char *dot = memchr(name.p, '.', name.n);
  size_t n = dot ? (size_t)(dot + 1 - name.p) : 0;
  // of StableHLO's versioned dialect nothing is read as text
  if (!n || (n == 5 && !memcmp(name.p, "vhlo.", 5))) return false;
  for (size_t k = 0; k < HS_COUNT(rows); k++)
    if (!strncmp(rows[k].name, name.p, n)) return false;
  return true;
}

const mlir_row *mlir_find_row(hs_str name) {
  const mlir_row *row = bsearch(&name, rows, HS_COUNT(rows), sizeof *rows, by_name);
  return row || !is_foreign(name) ? row : &foreign;
}

const mlir_row *mlir_printed_row(hlo_opcode op) {
  for (size_t k = 0; k < HS_COUNT(rows); k++)
    if (rows[k].opcode == op && !(rows[k].flags & MLIR_F_NOT_PRINTED)) return &rows[k];
  return NULL;
}

const char *mlir_nearest_row(hs_str name) {
  const char *names[HS_COUNT(rows)];
  char word[64];
  for (size_t k = 0; k < HS_COUNT(rows); k++) names[k] = rows[k].name;
  size_t n = HS_MIN(name.n, sizeof word - 1);
  memcpy(word, name.p, n);
  word[n] = 0;
  return hs_nearest(word, names, HS_COUNT(rows));
}

// ---- captured values ----------------------------------------------------------------------------
static bool capture(mlir_reader *R, const mlir_region *of, mlir_region *r, mlir_values *out) {
  if (!hlo_lex_enter(RX)) return false;
  for (mlir_op *op = r->first; op; op = op->next) {
    if (!op->live) continue;
    for (u32 k = 0; k < op->nregions; k++)
      if (!capture(R, of, op->regions[k], out)) return false;
    for (u32 k = 0; k < op->nops; k++) {
      mlir_value *v = mlir_real(op->ops[k]);
      bool inside = !v->region || v->region->depth >= of->depth;
      bool made = mlir_is_constant(v) && !R->opt.as_written;
      if (inside || v->mark == R->serial || made) continue;
      v->mark = R->serial;
      hs_vec_push(out, v);
    }
  }
  hlo_lex_leave(RX);
  return true;
}
bool mlir_captured(mlir_reader *R, mlir_region *r, mlir_values *out) {
  return capture(R, r, r, out);
}

// ---- computations -------------------------------------------------------------------------------
// Rules take their operands for granted, as many as HLO's operation has. These become one tuple.
static bool has_operands(mlir_reader *R, const mlir_op *op) {
  hlo_opcode code = op->row->opcode;
  bool packs = code == HLO_WHILE || code == HLO_SEND || code == HLO_OUTFEED;
  if (code == HLO_OP_INVALID || packs || hlo_ops[code].arity <= (int)op->nops) return true;
  return mlir_fail(R, HS_E_SYNTAX, "%s has %u operands, not %u", op->row->name, hlo_op_least(code),
                   op->nops);
}

static bool convert_ops(mlir_reader *R, mlir_region *r, mlir_op **ret) {
  *ret = NULL;
  for (mlir_op *op = r->first; op; op = op->next) {
    if (hs_interrupted()) return hlo_lex_status(RX, hs_stopped(), op->at);
    if (op->row->rule == mlir_rule_none && op->row->flags & MLIR_F_NO_RESULT) {
      *ret = op;
      continue;
    }
    if (!op->live || (op->nres == 1 && op->res[0].same && !op->nregions)) continue;
    R->op = op;
    RX->now = op->at;
    R->meta = mlir_metadata(R, op->loc);
    bool ok = has_operands(R, op) && mlir_check_shapes(R, op) && op->row->rule(R, op);
    if (!ok && !RX->failed)  // rules leave it to this place
      mlir_fail(R, HS_E_SYNTAX, "an attribute of '%.*s' is missing or is not what it must be",
                (int)HS_MIN(op->name.n, 80u), op->name.p);
    if (RX->failed) return false;
  }
  R->op = *ret;
  R->meta = NULL;
  return true;
}

static hlo_instr *add_param(mlir_reader *R, u32 k, const hlo_shape *s, mlir_span loc) {
  char name[32];
  const hlo_metadata *m = mlir_metadata(R, loc);
  hlo_attr a[2] = {{HLO_ATTR_PARAMETER_NUMBER, {.i = k}}, {HLO_ATTR_METADATA, {.p = m}}};
  hs_buf b = {0};
  hs_buf_printf(&b, "Arg_%u", k);
  size_t n = HS_MIN(b.n, sizeof name);
  memcpy(name, b.p, n);
  hs_buf_free(&b);
  hs_str called = mlir_plain_name(R, m ? m->op_name : (hs_str){0}, (hs_str){name, n});
  return hlo_load_instr_(R->comp, HLO_PARAMETER, hlo_shape_fill_layout(R->ctx, s), 0, NULL, called,
                         m ? 2 : 1, a, true);
}

// The root: one value, or a tuple of any other number, what is handed on behind it. `loop`: the
// body, results for arguments of which it has not are left out.
static bool set_root(mlir_reader *R, const mlir_op *ret, const mlir_func *fn,
                     const mlir_region *loop, u32 nextra, hlo_instr *const *extra) {
  u32 n = 0;
  hlo_instr **v = HS_NEW_ARRAY(&R->arena, hlo_instr *, ret->nops + nextra + 1);
  for (u32 k = 0; k < ret->nops; k++) {
    if (loop && k < loop->nargs && loop->args[k].same) continue;
    mlir_span s;
    hlo_instr *i = mlir_operand(R, ret, k);
    // the metadata is the value's
    R->meta = i ? hlo_metadata_of(i) : NULL;
    if (i && fn && mlir_get(R, &fn->results[k], "sdy.sharding", &s))
      i = mlir_result_sharding(R, i, s);
    R->meta = NULL;
    if (!(v[n++] = i)) return false;
  }
  for (u32 k = 0; k < nextra; k++) v[n++] = extra[k];
  hlo_instr *root = n == 1 ? v[0] : mlir_tuple(R, n, v);
  if (root) hlo_set_root(R->comp, root);
  return root != NULL;
}

typedef struct frame {
  hlo_computation *comp;
  const mlir_op *op;
  const hlo_metadata *meta;
  size_t bound;
} frame;

static frame begin(mlir_reader *R, const char *name) {
  frame f = {R->comp, R->op, R->meta, R->bound.n};
  R->comp = hlo_add_computation(R->m, name);
  R->meta = NULL;
  return f;
}
static hlo_computation *end(mlir_reader *R, frame f, bool ok) {
  hlo_computation *made = R->comp;
  while (R->bound.n > f.bound) {
    mlir_binding b = hs_vec_pop(&R->bound);
    b.value->now = b.was;
  }
  R->comp = f.comp;
  R->op = f.op;
  R->meta = f.meta;
  return ok && !RX->failed ? made : NULL;
}

hlo_computation *mlir_build_region(mlir_reader *R, mlir_region *r, const mlir_values *captured,
                                   mlir_shape_of form) {
  if (!hlo_lex_enter(RX)) return NULL;
  frame f = begin(R, "region");
  u32 ncaptured = captured ? (u32)captured->n : 0, nstate = 0, n = r->nargs + ncaptured;
  mlir_value **all = HS_NEW_ARRAY(&R->arena, mlir_value *, HS_MAX(n, 1u));
  for (u32 k = 0; k < r->nargs; k++)
    if (!r->args[k].same) all[nstate++] = &r->args[k];
  for (u32 k = 0; k < ncaptured; k++) all[nstate + k] = captured->v[k];
  n = nstate + ncaptured;
  const hlo_shape **shapes = HS_NEW_ARRAY(&R->arena, const hlo_shape *, HS_MAX(n, 1u));
  hlo_instr **now = HS_NEW_ARRAY(&R->arena, hlo_instr *, HS_MAX(n, 1u)), *tuple = NULL;
  bool ok = true;
  for (u32 k = 0; k < n; k++) {
    shapes[k] = all[k]->shape;
    if (!shapes[k])
      ok = mlir_fail(R, HS_E_NO_HLO, "a region's argument has a type without a form in HLO");
  }
  if (ok && form != MLIR_PLAIN && n != 1)
    ok = (tuple = add_param(R, 0, hlo_shape_tuple(R->ctx, n, shapes), (mlir_span){0})) != NULL;
  for (u32 k = 0; ok && k < n; k++) {
    now[k] = tuple ? mlir_gte(R, tuple, k) : add_param(R, k, shapes[k], all[k]->loc);
    if ((ok = now[k] != NULL)) mlir_bind(R, all[k], now[k]);
  }
  mlir_op *ret = NULL;
  ok = ok && convert_ops(R, r, &ret);
  if (ok && !ret) ok = mlir_fail(R, HS_E_SYNTAX, "a region without a return");
  bool body = form == MLIR_LOOP_BODY;
  ok = ok && set_root(R, ret, NULL, body ? r : NULL, body ? ncaptured : 0, now + nstate);
  hlo_lex_leave(RX);
  return end(R, f, ok);
}

static mlir_func *entry_of(mlir_reader *R) {
  if (R->opt.entry) return mlir_names_find(&R->func_names, hs_str_of(R->opt.entry), NULL);
  mlir_func *f = mlir_names_find(&R->func_names, HS_STR("main"), NULL);
  for (size_t k = 0; !f && k < R->funcs.n; k++)
    if (!R->funcs.v[k]->is_private) f = R->funcs.v[k];
  return f ? f : R->funcs.n ? R->funcs.v[0] : NULL;
}

hlo_computation *mlir_build_func(mlir_reader *R, mlir_func *fn) {
  if (fn->comp) return fn->comp;
  if (fn->building || !fn->op->regions[0]->first) {
    mlir_fail(R, HS_E_NO_HLO, "function '@%.*s' %s", (int)HS_MIN(fn->name.n, 80u), fn->name.p,
              fn->building ? "calls itself" : "has no body");
    return NULL;
  }
  if (!hlo_lex_enter(RX)) return NULL;
  fn->building = true;
  mlir_region *r = fn->op->regions[0];
  hs_str plain = mlir_plain_name(R, fn->name, HS_STR("function"));
  char *name = hs_format("%.*s", (int)plain.n, plain.p);
  frame f = begin(R, name);
  mlir_names constants = R->constants;
  R->constants = (mlir_names){0};
  hs_free(name);
  R->op = fn->op;
  bool ok = (fn != entry_of(R) || mlir_state_sizes(R, fn)) && mlir_simplify(R, r);
  for (u32 k = 0; ok && k < r->nargs; k++) {
    if (!r->args[k].shape)
      ok = mlir_fail(R, HS_E_NO_HLO, "%.*s has no form in HLO", (int)HS_MIN(r->args[k].type.n, 80u),
                     r->args[k].type.p);
    hlo_instr *i = ok ? add_param(R, k, r->args[k].shape, r->args[k].loc) : NULL;
    if ((ok = i != NULL)) mlir_bind(R, &r->args[k], i);
  }
  mlir_op *ret = NULL;
  ok = ok && convert_ops(R, r, &ret);
  if (ok && (!ret || ret->nops != fn->nresults))
    ok = mlir_fail(R, HS_E_SYNTAX, "the function returns other values than its type says");
  for (u32 k = 0; ok && k < ret->nops; k++)
    if (!mlir_is_of_type(mlir_real(ret->ops[k])->shape, fn->result_shapes[k]))
      ok = mlir_fail(R, HS_E_SHAPE, "result %u is not of the function's type", k);
  ok = ok && set_root(R, ret, fn == entry_of(R) ? fn : NULL, NULL, 0, NULL);
  mlir_names_free(&R->constants);
  R->constants = constants;
  hlo_lex_leave(RX);
  fn->building = false;
  return fn->comp = end(R, f, ok);
}

// ---- the module ---------------------------------------------------------------------------------
static bool module_count(mlir_reader *R, const char *name, hlo_attr_id id) {
  mlir_span s;
  i64 n = 1;
  if (!mlir_get(R, &R->module_attrs, name, &s)) return true;
  if (!mlir_int_of(R, s, &n)) return false;
  if (n > 1) hlo_set_module_attr(R->m, (hlo_attr){id, {.i = n}});
  return true;
}

// tf.aliasing_output = K: result K may have the argument's buffer; jax.buffer_donor: any may.
static bool donations(mlir_reader *R, const mlir_func *f) {
  const mlir_region *r = f->op->regions[0];
  HS_VEC(hlo_alias_entry) alias = {0}, donors = {0};
  bool ok = true;
  for (u32 k = 0; ok && k < r->nargs; k++) {
    mlir_span s;
    if (mlir_get(R, &r->args[k].attrs, "tf.aliasing_output", &s)) {
      hlo_ints out = {0, NULL};
      ok = mlir_ints_of(R, s, &out, NULL);
      if (f->nresults == 1) out.n = 0;
      hs_vec_push(&alias, ((hlo_alias_entry){.out_index = out, .param = k}));
    } else if (mlir_get(R, &r->args[k].attrs, "jax.buffer_donor", &s)) {
      i64 yes = 0;
      ok = mlir_int_of(R, s, &yes);
      if (yes) hs_vec_push(&donors, ((hlo_alias_entry){.param = k}));
    }
  }
  hs_arena *a = &R->m->arena;
  for (int which = 0; ok && which < 2; which++) {
    u32 n = (u32)(which ? donors.n : alias.n);
    if (!n) continue;
    hlo_aliases *p = HS_NEW(a, hlo_aliases);
    *p = (hlo_aliases){n, hs_arena_dup(a, which ? donors.v : alias.v, n * sizeof *alias.v)};
    hlo_set_module_attr(
        R->m, (hlo_attr){which ? HLO_ATTR_BUFFER_DONOR : HLO_ATTR_INPUT_OUTPUT_ALIAS, {.p = p}});
  }
  hs_vec_free(&alias);
  hs_vec_free(&donors);
  return ok;
}

static bool argument_shardings(mlir_reader *R, const mlir_func *f) {
  const mlir_region *r = f->op->regions[0];
  R->op = f->op;
  for (u32 k = 0; k < r->nargs; k++) {
    hlo_attr a;
    if (mlir_sharding_of(R, &r->args[k].attrs, &a)) hlo_set_attr(f->comp->params[k], a);
    if (mlir_frontend_of(R, &r->args[k].attrs, &a)) hlo_set_attr(f->comp->params[k], a);
    mlir_span s;
    a = (hlo_attr){HLO_ATTR_PARAMETER_REPLICATION, {0}};
    if (mlir_get(R, &r->args[k].attrs, "mhlo.parameter_replication", &s) &&
        mlir_ints_of(R, s, &a.v.ints, NULL))
      hlo_set_attr(f->comp->params[k], a);
    if (RX->failed) return false;
  }
  return true;
}

// Shardings of all results: of the tuple, or of one that is taken out of a tuple.
static bool result_shardings(mlir_reader *R, const mlir_func *f) {
  hlo_computation *c = f->comp;
  const hlo_sharding **v = HS_NEW_ARRAY(&R->m->arena, const hlo_sharding *, f->nresults + 1);
  R->op = f->op;
  for (u32 k = 0; k < f->nresults; k++) {
    hlo_attr a;
    if (!mlir_sharding_of(R, &f->results[k], &a)) return !RX->failed;
    v[k] = a.v.p;
  }
  if (!f->nresults) return true;
  if (f->nresults > 1) {
    hlo_sharding *s = HS_NEW(&R->m->arena, hlo_sharding);
    *s = (hlo_sharding){.type = HLO_SH_TUPLE, .nchildren = f->nresults, .children = v};
    hlo_set_attr_ptr(c->root, HLO_ATTR_SHARDING, s);
    return true;
  }
  R->comp = c;
  hlo_instr *root = c->root, *t = mlir_tuple(R, 1, &root), *e = t ? mlir_gte(R, t, 0) : NULL;
  R->comp = NULL;
  if (!e) return false;
  hlo_set_attr_ptr(e, HLO_ATTR_SHARDING, v[0]);
  hlo_set_root(c, e);
  return true;
}

// What the module's frontend attributes say, and its meshes, which are operations here.
static bool module_frontend(mlir_reader *R) {
  hs_buf b = {0};
  hlo_attr a = {0};
  const hlo_frontend *f = NULL;
  R->op = NULL;
  if (mlir_frontend_of(R, &R->module_attrs, &a)) f = a.v.p;
  if (RX->failed) return false;
  mlir_meshes(R, &b);
  const hs_str key = HS_STR("xla.sdy.meshes");
  u32 n = 0;
  hlo_frontend_entry *e = HS_NEW_ARRAY(&R->arena, hlo_frontend_entry, f ? f->n + 1 : 1);
  for (u32 k = 0; f && k < f->n; k++)
    if (!b.n || !hs_str_eq(f->v[k].key, key)) e[n++] = f->v[k];
  if (b.n) e[n++] = (hlo_frontend_entry){key, {b.p, b.n}};
  if (n && mlir_frontend(R, n, e, &a)) hlo_set_module_attr(R->m, a);
  hs_buf_free(&b);
  return !RX->failed;
}

static bool set_signature(mlir_reader *R, const hlo_computation *c) {
  hlo_program_shape *p = HS_NEW(&R->m->arena, hlo_program_shape);
  const hlo_shape **params = HS_NEW_ARRAY(&R->m->arena, const hlo_shape *, HS_MAX(c->nparams, 1u));
  for (u32 k = 0; k < c->nparams; k++)
    params[k] = hlo_shape_with_default_layout(R->ctx, c->params[k]->shape);
  // results lie as the root computes them
  *p = (hlo_program_shape){c->nparams, params, hlo_shape_fill_layout(R->ctx, c->root->shape)};
  hlo_set_module_attr(R->m, (hlo_attr){HLO_ATTR_ENTRY_COMPUTATION_LAYOUT, {.p = p}});
  return true;
}

bool mlir_convert(mlir_reader *R) {
  mlir_func *f = entry_of(R);
  if (!f) return hlo_lex_error(RX, HS_E_SYNTAX, NULL, "the text holds no function");
  hs_str name = mlir_plain_name(R, R->module_name, (hs_str){0});
  if (name.n) R->m->name = hlo_intern(R->ctx, name.p, name.n);
  hlo_computation *c = mlir_build_func(R, f);
  if (!c) return false;
  hlo_set_entry(R->m, c);
  return module_count(R, "mhlo.num_replicas", HLO_ATTR_REPLICA_COUNT) &&
         module_count(R, "mhlo.num_partitions", HLO_ATTR_NUM_PARTITIONS) && donations(R, f) &&
         argument_shardings(R, f) && result_shardings(R, f) && module_frontend(R) &&
         set_signature(R, c);
}
