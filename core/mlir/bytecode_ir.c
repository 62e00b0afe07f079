// bytecode_ir.c — operations of MLIR bytecode to the tree.
//
// Operations of VHLO are those of StableHLO with a version in their name and with structs taken
// apart: vhlo.def says which attributes an operation has and which of them the text has as one
// struct. Attributes that say nothing (an empty list, a channel 0) are left out as the text leaves
// them out. Values are numbered by region: those of a region follow those of the regions around it.
#include "core/mlir/bytecode.h"

#include <stdlib.h>

typedef struct op_row {
  const char *name;   // with its version
  const char *attrs;  // names, with blanks between
} op_row;
static const op_row ops[] = {
#define VHLO_OP(since, name, attrs) {name, attrs},
#include "core/mlir/vhlo.def"
#undef VHLO_OP
};

// Operations without versions, of other dialects.
typedef struct other_row {
  const char *dialect, *name, *attrs;
} other_row;
static const other_row others[] = {
#define VHLO_OTHER(dialect, name, attrs) {dialect, name, attrs},
#include "core/mlir/vhlo.def"
#undef VHLO_OTHER
};

// An attribute that the text has as a struct: of these operations, under this name.
typedef struct struct_row {
  const char *ops, *name, *mnemonic, *keys;
} struct_row;
static const struct_row structs[] = {
#define VHLO_STRUCT(ops, name, mnemonic, keys) {ops, name, mnemonic, keys},
#include "core/mlir/vhlo.def"
#undef VHLO_STRUCT
};

// What an operation has in the file, before it is one of the tree.
typedef struct raw_op {
  const char *at;
  const bc_name *name;
  hs_str plain;  // the name without its version
  u32 nattrs;
  bc_pair *attrs;
  u32 loc;
} raw_op;

enum {
  HAS_ATTRS = 1,
  HAS_RESULTS = 2,
  HAS_OPERANDS = 4,
  HAS_SUCCESSORS = 8,
  HAS_REGIONS = 16,
  HAS_USE_ORDERS = 32,
  HAS_PROPERTIES = 64,
};

static bool read_region(mlir_bc *, bc_at *, mlir_region *);

// ---- attributes ---------------------------------------------------------------------------------
static int by_name(const void *key, const void *row) {
  const hs_str *s = key;
  const char *name = ((const op_row *)row)->name;
  int order = strncmp(s->p, name, s->n);
  return order ? order : name[s->n] ? -1 : 0;
}

static bool dialect_is(const mlir_bc *B, const bc_name *n, const char *name) {
  return hs_str_eq(B->dialects[n->dialect], hs_str_of(name));
}

// The names of the operation's attributes; NULL: it is not known.
static const char *attrs_of(const mlir_bc *B, const bc_name *n) {
  if (dialect_is(B, n, "vhlo")) {
    const op_row *row = bsearch(&n->name, ops, HS_COUNT(ops), sizeof *ops, by_name);
    return row ? row->attrs : NULL;
  }
  for (size_t k = 0; k < HS_COUNT(others); k++)
    if (dialect_is(B, n, others[k].dialect) && hs_str_eq(n->name, hs_str_of(others[k].name)))
      return others[k].attrs;
  return NULL;
}

static bool unknown_op(mlir_bc *B, const raw_op *op) {
  hs_str dialect = B->dialects[op->name->dialect];
  bc_bad(B, op->at, "operation '%.*s.%.*s' is not known", (int)HS_MIN(dialect.n, 40u), dialect.p,
         (int)HS_MIN(op->name->name.n, 80u), op->name->name.p);
  if (!dialect_is(B, op->name, "vhlo"))
    hlo_lex_note(&B->R->lex,
                 "what is read is the portable form (VHLO): serialize_portable_artifact, "
                 "stablehlo-translate --serialize, jax.export");
  return false;
}

// The properties: one attribute each, in the order of the names.
static bool read_properties(mlir_bc *B, raw_op *op, u32 index) {
  bc_at c = B->props[index];
  bool module = hs_str_eq(op->plain, HS_STR("module"));
  const char *list = module ? "sym_name sym_visibility" : attrs_of(B, op->name);
  bc_pair *v = HS_NEW_ARRAY(&B->R->arena, bc_pair, op->nattrs + 32);
  u32 n = op->nattrs;
  for (u32 k = 0; k < n; k++) v[k] = op->attrs[k];
  for (hs_str w; (w = mlir_next_word(&list)).n;) {
    const char *at = c.p;
    u64 k;
    if (!bc_varint(B, &c, &k)) return false;
    bool there = !module || k & 1;
    if (module) k >>= 1;
    if (!there) continue;
    if (k >= B->nattrs)
      return bc_bad(B, at, "attribute %llu of %u", (unsigned long long)k, B->nattrs);
    v[n++] = (bc_pair){w, (u32)k};
  }
  op->nattrs = n;
  op->attrs = v;
  return true;
}

static const bc_pair *find(const raw_op *op, hs_str name) {
  for (u32 k = 0; k < op->nattrs; k++)
    if (hs_str_eq(op->attrs[k].name, name)) return &op->attrs[k];
  return NULL;
}

static void push_text(mlir_bc *B, const char *name, const hs_buf *b) {
  mlir_span s = {hs_arena_strndup(&B->R->arena, b->p, b->n), b->n};
  B->written += b->n;
  hs_vec_push(&B->R->attrs, ((mlir_attr){hs_str_of(name), s}));
}

static bool is_default(mlir_span s) {
  static const char *const texts[] = {"[]", "{}", "none", "false", "0 : i64", "array<i64>"};
  for (size_t k = 0; k < HS_COUNT(texts); k++)
    if (hs_str_eq(s, hs_str_of(texts[k]))) return true;
  return false;
}

// #stablehlo.gather<offset_dims = [2], ..>; no channel or algorithm when all of it says nothing.
static bool push_struct(mlir_bc *B, const raw_op *op, const struct_row *row) {
  hs_buf b = {0};
  bool ok = true, any = !mlir_in_list("channel_handle algorithm", hs_str_of(row->name));
  hs_buf_printf(&b, "#stablehlo.%s<", row->mnemonic);
  const char *list = row->keys;
  for (hs_str w; ok && (w = mlir_next_word(&list)).n;) {
    const char *equals = memchr(w.p, '=', w.n);
    hs_str key = equals ? (hs_str){w.p, (size_t)(equals - w.p)} : w;
    hs_str inner = equals ? (hs_str){equals + 1, (size_t)(w.p + w.n - equals - 1)} : w;
    const bc_pair *a = find(op, key);
    mlir_span s;
    if (!a) continue;
    ok = bc_attr_text(B, a->value, BC_STRUCT, &s);
    if (!ok) break;
    bool says = !is_default(s);
    if (hs_str_eq(s, HS_STR("none"))) continue;
    hs_buf_printf(&b, "%s%.*s = ", b.p[b.n - 1] == '<' ? "" : ", ", (int)inner.n, inner.p);
    hs_buf_put(&b, s.p, s.n);
    // a channel's type says nothing without a channel
    any |= says && !hs_str_eq(inner, HS_STR("type"));
  }
  hs_buf_putc(&b, '>');
  if (ok && any) push_text(B, row->name, &b);
  hs_buf_free(&b);
  return ok;
}

// "b, 0, f": letters at the batch's and feature's dimension, numbers at the spatial ones.
static bool put_dims(mlir_bc *B, const raw_op *op, hs_buf *out, const char *const names[3],
                     const char *letters) {
  i64 at[2], *spatial = NULL;
  u32 n = 0;
  for (u32 k = 0; k < 3; k++) {
    const bc_pair *a = find(op, hs_str_of(names[k]));
    if (!a) return bc_bad(B, op->at, "a convolution without %s", names[k]);
    if (!(k < 2 ? bc_attr_int(B, a->value, &at[k]) : bc_attr_ints(B, a->value, &n, &spatial)))
      return false;
  }
  hs_buf_putc(out, '[');
  for (i64 k = 0; k < (i64)n + 2; k++) {
    bool found = false;
    if (k) hs_buf_puts(out, ", ");
    for (u32 j = 0; j < 2 && !found; j++)
      if ((found = at[j] == k)) hs_buf_putc(out, letters[j]);
    for (u32 j = 0; j < n && !found; j++)
      if ((found = spatial[j] == k)) hs_buf_printf(out, "%u", j);
    if (!found)
      return bc_bad(B, op->at, "dimension %lld of a convolution has no use", (long long)k);
  }
  return hs_buf_putc(out, ']'), true;
}

static bool push_conv(mlir_bc *B, const raw_op *op) {
  static const char *const names[3][3] = {
      {"input_batch_dimension", "input_feature_dimension", "input_spatial_dimensions"},
      {"kernel_input_feature_dimension", "kernel_output_feature_dimension",
       "kernel_spatial_dimensions"},
      {"output_batch_dimension", "output_feature_dimension", "output_spatial_dimensions"}};
  hs_buf b = {0};
  hs_buf_puts(&b, "#stablehlo.conv<");
  bool ok = put_dims(B, op, &b, names[0], "bf");
  hs_buf_putc(&b, 'x');
  ok = ok && put_dims(B, op, &b, names[1], "io");
  hs_buf_puts(&b, "->");
  ok = ok && put_dims(B, op, &b, names[2], "bf");
  hs_buf_putc(&b, '>');
  if (ok) push_text(B, "dimension_numbers", &b);
  hs_buf_free(&b);
  return ok;
}

// Whether the attribute is part of a struct that the text has in its place.
static bool is_part(hs_str op, hs_str name, bool conv) {
  if (conv && name.n > 10 && (memmem(name.p, name.n, "_dimension", 10) != NULL)) return true;
  for (size_t k = 0; k < HS_COUNT(structs); k++) {
    if (!mlir_in_list(structs[k].ops, op)) continue;
    const char *list = structs[k].keys;
    for (hs_str w; (w = mlir_next_word(&list)).n;) {
      const char *equals = memchr(w.p, '=', w.n);
      if (hs_str_eq((hs_str){w.p, equals ? (size_t)(equals - w.p) : w.n}, name)) return true;
    }
  }
  return false;
}

// Lists that are empty when they were not given; of layouts, those of operands and results are
// given together.
static bool is_missing(mlir_bc *B, const raw_op *op, const bc_pair *a, mlir_span text) {
  static const char list[] =
      "backend_config called_computations operand_layouts result_layouts result_tilings "
      "output_operand_aliases precision_config layout source_target_pairs "
      "known_expanding_dimensions known_nonexpanding_dimensions";
  if (!is_default(text) || !mlir_in_list(list, a->name)) return false;
  if (!mlir_in_list("operand_layouts result_layouts", a->name)) return true;
  bool operands = *a->name.p == 'o';
  const bc_pair *other = find(op, operands ? HS_STR("result_layouts") : HS_STR("operand_layouts"));
  mlir_span s;
  return !other || !bc_attr_text(B, other->value, BC_ATTR, &s) || is_default(s);
}

// An attribute of a dialect that says nothing to HLO.
static bool is_encoded(mlir_span s) {
  return s.n > 9 && *s.p == '#' && !memcmp(s.p + s.n - 8, ".encoded", 8);
}

static bool push_attrs(mlir_bc *B, const raw_op *op) {
  bool vhlo = dialect_is(B, op->name, "vhlo");
  bool conv = vhlo && (hs_str_eq(op->plain, HS_STR("convolution")) ||
                       hs_str_eq(op->plain, HS_STR("dynamic_conv")));
  bool sdy = dialect_is(B, op->name, "sdy");
  bool constant = (vhlo || sdy) && hs_str_eq(op->plain, HS_STR("constant"));
  for (u32 k = 0; k < op->nattrs; k++) {
    const bc_pair *a = &op->attrs[k];
    mlir_span s;
    if (vhlo && is_part(op->plain, a->name, conv)) continue;
    bool value = constant && hs_str_eq(a->name, HS_STR("value"));
    bc_style style = value ? BC_VALUE : sdy ? BC_STRUCT : BC_ATTR;
    if (!bc_attr_text(B, a->value, style, &s)) return false;
    if ((vhlo && is_missing(B, op, a, s)) || is_encoded(s)) continue;
    hs_vec_push(&B->R->attrs, ((mlir_attr){a->name, s}));
  }
  for (size_t k = 0; vhlo && k < HS_COUNT(structs); k++)
    if (mlir_in_list(structs[k].ops, op->plain) && !push_struct(B, op, &structs[k])) return false;
  return !conv || push_conv(B, op);
}

// ---- values -------------------------------------------------------------------------------------
typedef struct region_values {
  size_t next, end;
} region_values;

static bool define(mlir_bc *B, region_values *r, mlir_value *v, u32 n, const char *at) {
  if (n > r->end - r->next) return bc_bad(B, at, "more values than the region says");
  for (u32 k = 0; k < n; k++) B->values.v[r->next++] = v + k;
  return true;
}

static bool read_operands(mlir_bc *B, bc_at *c, mlir_op *op) {
  u32 n, k;
  size_t from = B->R->operands.n;
  if (!bc_count(B, c, &n)) return false;
  while (n--) {
    const char *at = c->p;
    if (!bc_index(B, c, (u32)(B->values.n - B->scope), "value", &k)) return false;
    mlir_value *v = B->values.v[B->scope + k];
    if (!v)
      return hlo_lex_error(&B->R->lex, HS_E_NO_HLO, at, "a value that is used before it is made");
    hs_vec_push(&B->R->operands, v);
  }
  mlir_set_operands(B->R, op, from);
  return true;
}

// The order in which values' uses were listed: of no use here.
static bool skip_use_orders(mlir_bc *B, bc_at *c, u32 nvalues) {
  u64 n = 1, v;
  u32 count;
  if (nvalues > 1 && !bc_varint(B, c, &n)) return false;
  if (n > nvalues) return bc_bad(B, c->p, "orders of uses for more values than there are");
  while (n--) {
    if (nvalues > 1 && !bc_varint(B, c, &v)) return false;
    u64 flagged;
    const char *at = c->p;
    if (!bc_varint(B, c, &flagged)) return false;
    if (flagged >> 1 > (u64)(c->end - c->p)) return bc_bad(B, at, "an order of too many uses");
    count = (u32)(flagged >> 1);
    while (count--)
      if (!bc_varint(B, c, &v)) return false;
  }
  return true;
}

// ---- operations ---------------------------------------------------------------------------------
// The name, the properties and the attributes of an operation, and what it has (*mask).
static bool read_head(mlir_bc *B, bc_at *c, raw_op *op, u8 *mask) {
  u32 k;
  *op = (raw_op){.at = c->p};
  B->R->lex.now = c->p;
  if (!bc_index(B, c, B->nnames, "operation", &k)) return false;
  op->name = &B->names[k];
  hs_str name = op->name->name;
  bool vhlo = dialect_is(B, op->name, "vhlo");
  if (!attrs_of(B, op->name)) return unknown_op(B, op);
  op->plain = name;
  const char *version = vhlo ? memrchr(name.p, '_', name.n) : NULL;
  if (version) op->plain.n = (size_t)(version - name.p);
  if (!bc_byte(B, c, mask) || !bc_index(B, c, B->nattrs, "location", &op->loc)) return false;
  if (*mask & HAS_ATTRS &&
      (!bc_index(B, c, B->nattrs, "attribute", &k) || !bc_attr_dict(B, k, &op->nattrs, &op->attrs)))
    return false;
  if (!(*mask & HAS_PROPERTIES)) return true;
  if (!op->name->registered) {
    bc_pair *more;
    u32 n;
    if (!bc_index(B, c, B->nattrs, "attribute", &k) || !bc_attr_dict(B, k, &n, &more)) return false;
    bc_pair *all = HS_NEW_ARRAY(&B->R->arena, bc_pair, op->nattrs + n + 1);
    for (u32 j = 0; j < op->nattrs; j++) all[j] = op->attrs[j];
    for (u32 j = 0; j < n; j++) all[op->nattrs + j] = more[j];
    op->attrs = all;
    op->nattrs += n;
    return true;
  }
  return bc_index(B, c, B->nprops, "properties", &k) && read_properties(B, op, k);
}

static bool read_results(mlir_bc *B, bc_at *c, mlir_op *op) {
  u32 n, k;
  if (!bc_count(B, c, &n)) return false;
  mlir_typed *t = HS_NEW_ARRAY(&B->R->arena, mlir_typed, n + 1);
  for (u32 j = 0; j < n; j++)
    if (!bc_index(B, c, B->ntypes, "type", &k) || !bc_type(B, k, &t[j])) return false;
  mlir_set_results(B->R, op, n, t);
  return true;
}

// The name that an operation has in the text, in the arena.
static hs_str text_name(mlir_bc *B, const raw_op *op) {
  hs_str dialect = B->dialects[op->name->dialect];
  bool func = hs_str_eq(op->plain, HS_STR("func")) || hs_str_eq(op->plain, HS_STR("call"));
  if (dialect_is(B, op->name, "vhlo")) dialect = func ? HS_STR("func") : HS_STR("stablehlo");
  char *s = hs_format("%.*s.%.*s", (int)dialect.n, dialect.p, (int)HS_MIN(op->plain.n, 1000u),
                      op->plain.p);
  hs_str out = {hs_arena_strndup(&B->R->arena, s, strlen(s)), strlen(s)};
  hs_free(s);
  return out;
}

// A composite in chlo's name is the operation of that name, whose attributes it carries: portable
// artifacts have no other form for it.
static bool recompose(mlir_bc *B, raw_op *op, hs_str *name) {
  const bc_pair *a = find(op, HS_STR("name")), *attrs = find(op, HS_STR("composite_attributes"));
  hs_str text;
  if (!dialect_is(B, op->name, "vhlo") || !hs_str_eq(op->plain, HS_STR("composite")) || !a)
    return true;
  if (!bc_attr_string(B, a->value, &text)) return false;
  if (text.n < 5 || memcmp(text.p, "chlo.", 5) != 0 || !mlir_find_row(text)) return true;
  op->nattrs = 0;
  op->plain = *name = text;
  return !attrs || bc_attr_dict(B, attrs->value, &op->nattrs, &op->attrs);
}

// Regions, each by itself or in a section of their own when they see nothing from outside.
static bool read_regions(mlir_bc *B, bc_at *c, mlir_op *op) {
  const char *at = c->p;
  u64 flagged;
  u8 id;
  bc_at own;
  if (!bc_varint(B, c, &flagged)) return false;
  bool isolated = flagged & 1;
  if (flagged >> 1 > (u64)(c->end - c->p)) return bc_bad(B, at, "more regions than bytes");
  size_t scope = B->scope;
  if (isolated) B->scope = B->values.n;
  if (isolated && B->version >= 2) {
    if (!bc_section(B, c, &id, &own)) return false;
    if (id != BC_SECTION_IR) return bc_bad(B, at, "a region in a section of kind %d", id);
    c = &own;
  }
  for (u64 k = 0; k < flagged >> 1; k++) {
    mlir_region *r = mlir_new_region(B->R, op);
    if (op->row->form == MLIR_FUNC) {  // sees nothing from outside
      r->parent = NULL;
      r->depth = 0;
    }
    if (!read_region(B, c, r)) return false;
  }
  B->scope = scope;
  return true;
}

// ---- functions and modules ----------------------------------------------------------------------
static bool set_dict(mlir_bc *B, u32 index, mlir_attrs *out) {
  u32 n;
  bc_pair *v;
  size_t from = B->R->attrs.n;
  if (!bc_attr_dict(B, index, &n, &v)) return false;
  for (u32 k = 0; k < n; k++) {
    mlir_span s;
    if (!bc_attr_text(B, v[k].value, BC_ATTR, &s)) return false;
    if (!is_encoded(s)) hs_vec_push(&B->R->attrs, ((mlir_attr){v[k].name, s}));
  }
  mlir_set_attrs(B->R, out, from);
  return true;
}

// The attributes of arguments or of results: a list of dictionaries, or none.
static bool set_dicts(mlir_bc *B, const raw_op *raw, const char *name, u32 n, mlir_attrs **to) {
  const bc_pair *a = find(raw, hs_str_of(name));
  u32 count = 0, *v = NULL;
  if (!a || !bc_attr_list(B, a->value, &count, &v)) return !a;
  if (count && count != n) return bc_bad(B, raw->at, "%u of %s for %u values", count, name, n);
  for (u32 k = 0; k < count; k++)
    if (!set_dict(B, v[k], to[k])) return false;
  return true;
}

static bool finish_func(mlir_bc *B, const raw_op *raw, mlir_op *op) {
  mlir_reader *R = B->R;
  mlir_func *f = HS_NEW(&R->arena, mlir_func);
  const bc_pair *name = find(raw, HS_STR("sym_name")), *type = find(raw, HS_STR("function_type"));
  const bc_pair *seen = find(raw, HS_STR("sym_visibility"));
  hs_str visibility = {0};
  mlir_types results = {0};
  u32 k;
  if (!name || !type || op->nregions != 1)
    return bc_bad(B, raw->at, "a function without a name, a type or a body");
  f->op = op;
  if (!bc_attr_string(B, name->value, &f->name) || !bc_attr_type(B, type->value, &k) ||
      (seen && !bc_attr_string(B, seen->value, &visibility)))
    return false;
  f->is_private = visibility.n && !hs_str_eq(visibility, HS_STR("public"));
  bool ok = bc_function_results(B, k, &results);
  mlir_set_func_results(R, f, (u32)results.n, results.v);
  mlir_region *r = op->regions[0];
  mlir_attrs **to = HS_NEW_ARRAY(&R->arena, mlir_attrs *, HS_MAX(results.n, r->nargs) + 1);
  for (k = 0; k < f->nresults; k++) to[k] = &f->results[k];
  ok = ok && set_dicts(B, raw, "res_attrs", f->nresults, to);
  hs_vec_free(&results);
  for (k = 0; k < r->nargs; k++) to[k] = &r->args[k].attrs;
  // a declaration has no arguments to give them to
  ok = ok && (!r->first || set_dicts(B, raw, "arg_attrs", r->nargs, to));
  if (!ok) return false;
  hs_vec_push(&R->funcs, f);
  return mlir_names_add(&R->func_names, f->name, f, 1) ||
         bc_bad(B, raw->at, "function '@%.*s' is defined twice", (int)HS_MIN(f->name.n, 80u),
                f->name.p);
}

static bool begin_module(mlir_bc *B, const raw_op *raw) {
  mlir_reader *R = B->R;
  const bc_pair *name = find(raw, HS_STR("sym_name"));
  if (R->module_name.n || R->funcs.n) return true;
  R->module_name = HS_STR("module");
  if (name && !bc_attr_string(B, name->value, &R->module_name)) return false;
  size_t from = R->attrs.n;
  if (!push_attrs(B, raw)) return false;
  mlir_set_attrs(R, &R->module_attrs, from);
  return true;
}

// Between VHLO's types and others: the same value.
static bool is_cast(const mlir_bc *B, const raw_op *op) {
  return dialect_is(B, op->name, "builtin") &&
         hs_str_eq(op->plain, HS_STR("unrealized_conversion_cast"));
}

static bool read_cast(mlir_bc *B, bc_at *c, const raw_op *raw, u8 mask, region_values *values) {
  mlir_op *op = mlir_new_op(B->R, HS_STR("builtin.unrealized_conversion_cast"), raw->at);
  if (mask & HAS_RESULTS && !read_results(B, c, op)) return false;
  if (mask & HAS_OPERANDS && !read_operands(B, c, op)) return false;
  if (B->version >= 3 && mask & HAS_USE_ORDERS && !skip_use_orders(B, c, op->nres)) return false;
  if (mask & (HAS_REGIONS | HAS_SUCCESSORS) || op->nops != op->nres)
    return bc_bad(B, raw->at, "a cast that is not one of values");
  for (u32 k = 0; k < op->nres; k++)
    if (!define(B, values, op->ops[k], 1, raw->at)) return false;
  return true;
}

static bool read_op(mlir_bc *B, bc_at *c, region_values *values) {
  mlir_reader *R = B->R;
  raw_op raw;
  u8 mask;
  if (hs_interrupted()) return hlo_lex_status(&R->lex, hs_stopped(), c->p);
  if (!read_head(B, c, &raw, &mask)) return false;
  if (is_cast(B, &raw)) return read_cast(B, c, &raw, mask, values);
  hs_str name = text_name(B, &raw);
  if (!recompose(B, &raw, &name)) return false;
  mlir_op *op = mlir_new_op(R, name, raw.at);
  if (!mlir_find_op_row(R, op, raw.at) || !bc_loc(B, raw.loc, &op->loc)) return false;
  size_t from = R->attrs.n;
  bool func = op->row->form == MLIR_FUNC, module = op->row->form == MLIR_MODULE;
  if (module && !begin_module(B, &raw)) return false;
  if (!func && !module) {
    if (!push_attrs(B, &raw)) return false;
    mlir_set_attrs(R, &op->attrs, from);
  }
  if (mask & HAS_RESULTS && !read_results(B, c, op)) return false;
  if (mask & HAS_OPERANDS && !read_operands(B, c, op)) return false;
  if (mask & HAS_SUCCESSORS)
    return hlo_lex_error(&R->lex, HS_E_NO_HLO, raw.at,
                         "branches between blocks have no form in HLO");
  if (B->version >= 3 && mask & HAS_USE_ORDERS && !skip_use_orders(B, c, op->nres)) return false;
  if (mask & HAS_REGIONS && !read_regions(B, c, op)) return false;
  if (func && !finish_func(B, &raw, op)) return false;
  if (!define(B, values, op->res, op->nres, raw.at)) return false;
  if (!func && !module && R->region) mlir_append(R->region, op);
  return true;
}

// ---- regions ------------------------------------------------------------------------------------
static bool read_arguments(mlir_bc *B, bc_at *c, mlir_region *r, region_values *values) {
  u32 n, k;
  const char *at = c->p;
  if (!bc_count(B, c, &n)) return false;
  mlir_value *v = HS_NEW_ARRAY(&B->R->arena, mlir_value, n + 1);
  for (u32 j = 0; j < n; j++) {
    mlir_typed t;
    u64 flagged;
    bool has_loc = true;
    const char *here = c->p;
    if (!bc_varint(B, c, &flagged)) return false;
    if (B->version >= 4) {
      has_loc = flagged & 1;
      flagged >>= 1;
    }
    if (flagged >= B->ntypes) return bc_bad(B, here, "an argument of no type");
    if (!bc_type(B, (u32)flagged, &t)) return false;
    if (has_loc && (!bc_index(B, c, B->nattrs, "location", &k) || !bc_loc(B, k, &v[j].loc)))
      return false;
    v[j].shape = t.shape;
    v[j].type = t.text;
  }
  mlir_set_args(B->R, r, n, v);
  return define(B, values, r->args, n, at);
}

// What a block begins with; *nops: its operations.
static bool read_block(mlir_bc *B, bc_at *c, mlir_region *r, region_values *values, u64 *nops) {
  u64 flagged;
  u8 orders = 0;
  if (!bc_varint(B, c, &flagged)) return false;
  *nops = flagged >> 1;
  if (!(flagged & 1)) return true;
  if (!read_arguments(B, c, r, values)) return false;
  if (B->version >= 3 && !bc_byte(B, c, &orders)) return false;
  return !orders || skip_use_orders(B, c, r->nargs);
}

static bool read_ops(mlir_bc *B, bc_at *c, u64 n, region_values *values) {
  while (n--)
    if (!read_op(B, c, values)) return false;
  return true;
}

static bool read_region(mlir_bc *B, bc_at *c, mlir_region *r) {
  hlo_lex *L = &B->R->lex;
  const char *at = c->p;
  u64 blocks, nops;
  u32 nvalues;
  if (!bc_varint(B, c, &blocks)) return false;
  if (!blocks) return true;
  if (blocks > 1)
    return hlo_lex_error(L, HS_E_NO_HLO, at, "a region of several blocks has no form in HLO");
  if (!bc_count(B, c, &nvalues) || !hlo_lex_enter(L)) return false;
  size_t base = B->values.n;
  for (u32 k = 0; k < nvalues; k++) hs_vec_push(&B->values, (mlir_value *)NULL);
  region_values values = {base, B->values.n};
  mlir_region *outer = B->R->region;
  B->R->region = r;
  bool ok = read_block(B, c, r, &values, &nops) && read_ops(B, c, nops, &values);
  B->R->region = outer;
  B->values.n = base;
  hlo_lex_leave(L);
  return ok;
}

// The section is a block without values around the module.
bool bc_read_ir(mlir_bc *B, bc_at c) {
  u64 flagged;
  region_values none = {0, 0};
  if (!bc_varint(B, &c, &flagged)) return false;
  if (flagged & 1) return bc_bad(B, c.p, "a module with arguments");
  return read_ops(B, &c, flagged >> 1, &none);
}
