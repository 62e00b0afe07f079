// op.c — operations of a portable artifact from those of the tree.
//
// The newest version of an operation that the target has is taken; what a later one has more must
// be what it stands for when it is absent (vhlo.def), or the artifact is refused with the version
// that it needs. Operations of chlo are composites by their name, as XLA's exporters write them;
// the decomposition is declared and not spelled out, since readers of such a composite make the
// operation of it again.
#include "core/mlir/portable/portable.h"

#include <stdio.h>

typedef struct op_row {
  u32 since;
  const char *name, *attrs;
} op_row;
static const op_row ops[] = {
#define VHLO_OP(since, name, attrs) {since, name, attrs},
#include "core/mlir/vhlo.def"
#undef VHLO_OP
};
static const struct {
  const char *ops, *name, *keys;
} structs[] = {
#define VHLO_STRUCT(ops, name, mnemonic, keys) {ops, name, keys},
#include "core/mlir/vhlo.def"
#undef VHLO_STRUCT
};
static const struct {
  const char *names, *value;
} defaults[] = {
#define VHLO_DEFAULT(names, value) {names, value},
#include "core/mlir/vhlo.def"
#undef VHLO_DEFAULT
};
// What a later version allows operations.
static const struct {
  u32 since;
  const char *ops, *what;
} allowed[] = {
#define VHLO_ALLOWED(since, ops, what) {since, ops, what},
#include "core/mlir/vhlo.def"
#undef VHLO_ALLOWED
};

enum { HAS_ATTRS = 1, HAS_RESULTS = 2, HAS_OPERANDS = 4, HAS_REGIONS = 16, HAS_PROPERTIES = 64 };

enum { MOST_ATTRS = 32 };

static bool put_region(mlir_portable *, hs_buf *, mlir_region *, u32 first);

// The operation's name without its dialect.
static hs_str plain(const mlir_op *op) {
  const char *dot = memchr(op->name.p, '.', op->name.n);
  size_t skip = dot ? (size_t)(dot - op->name.p) + 1 : 0;
  return (hs_str){op->name.p + skip, op->name.n - skip};
}
static bool is_chlo(const mlir_op *op) { return op->name.n > 5 && !memcmp(op->name.p, "chlo.", 5); }

// The rows of an operation: the newest one, and the newest one of the target; NULL: there is none.
static const op_row *row_of(hs_str name, u32 version) {
  const op_row *best = NULL;
  for (size_t k = 0; k < HS_COUNT(ops); k++) {
    const char *end = strrchr(ops[k].name, '_');
    bool same = name.n == (size_t)(end - ops[k].name) && !memcmp(ops[k].name, name.p, name.n);
    if (same && ops[k].since <= version && (!best || ops[k].since >= best->since)) best = &ops[k];
  }
  return best;
}

// The first version that has the operation, with that attribute (empty: any).
static u32 since_of(hs_str name, hs_str attr) {
  u32 since = UINT32_MAX;
  for (size_t k = 0; k < HS_COUNT(ops); k++) {
    const char *end = strrchr(ops[k].name, '_');
    bool same = name.n == (size_t)(end - ops[k].name) && !memcmp(ops[k].name, name.p, name.n);
    if (same && (!attr.n || mlir_in_list(ops[k].attrs, attr))) since = HS_MIN(since, ops[k].since);
  }
  return since;
}

// ---- attributes ---------------------------------------------------------------------------------
// The place of a struct's key that is this attribute: "channel_handle.handle"; empty.
static const char *struct_key(hs_str op, hs_str attr, char *out, size_t size) {
  *out = 0;
  for (size_t k = 0; k < HS_COUNT(structs); k++) {
    if (!mlir_in_list(structs[k].ops, op)) continue;
    const char *list = structs[k].keys;
    for (hs_str w; (w = mlir_next_word(&list)).n;) {
      const char *equals = memchr(w.p, '=', w.n);
      hs_str key = {w.p, equals ? (size_t)(equals - w.p) : w.n};
      hs_str inner = equals ? (hs_str){equals + 1, (size_t)(w.p + w.n - equals - 1)} : w;
      if (hs_str_eq(key, attr))
        snprintf(out, size, "%s.%.*s", structs[k].name, (int)inner.n, inner.p);
    }
  }
  return out;
}

// [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f]: where a letter is in list k, or where the numbers are.
static bool conv_dims(mlir_portable *W, const mlir_op *op, hs_str name, u32 *out) {
  static const struct {
    const char *name;
    u32 list;
    char letter;  // 0: the numbers
  } rows[] = {
      {"input_batch_dimension", 0, 'b'},           {"input_feature_dimension", 0, 'f'},
      {"input_spatial_dimensions", 0, 0},          {"kernel_input_feature_dimension", 1, 'i'},
      {"kernel_output_feature_dimension", 1, 'o'}, {"kernel_spatial_dimensions", 1, 0},
      {"output_batch_dimension", 2, 'b'},          {"output_feature_dimension", 2, 'f'},
      {"output_spatial_dimensions", 2, 0}};
  mlir_span s;
  if (!mlir_get(W->R, &op->attrs, "dimension_numbers", &s)) return false;
  for (size_t r = 0; r < HS_COUNT(rows); r++) {
    if (!hs_str_eq(name, hs_str_of(rows[r].name))) continue;
    const char *p = s.p, *end = s.p + s.n;
    for (u32 k = 0; k <= rows[r].list; k++)
      while (p < end && *p++ != '[') {}
    i64 spatial[HLO_MAX_RANK], at = 0, found = -1, n = 0;
    for (; p < end && *p != ']'; p++) {
      if (*p == ',') at++;
      if (*p == rows[r].letter) found = at;
      if (*p >= '0' && *p <= '9' && *p - '0' < HLO_MAX_RANK)
        spatial[*p - '0'] = at, n = HS_MAX(n, *p - '0' + 1);
    }
    if (!rows[r].letter) return *out = mp_ints(W, 1, &n, spatial), true;
    char *text = hs_format("%lld", (long long)found);
    bool ok = mp_attr(W, hs_str_of(text), out);
    return hs_free(text), ok;
  }
  return false;
}

// Calls of the interface with typed arguments have a dictionary, if only an empty one.
static bool has_dict(mlir_portable *W, const mlir_op *op) {
  i64 api = 1;
  return mlir_get_int(W->R, op, "api_version", &api) && api == HLO_API_VERSION_TYPED_FFI;
}

// What the attribute stands for when the operation does not have it; false: it must.
static bool default_of(mlir_portable *W, const mlir_op *op, hs_str name, u32 *out) {
  if (hs_str_eq(name, HS_STR("backend_config")) && has_dict(W, op))
    return mp_attr(W, HS_STR("{}"), out);
  for (size_t k = 0; k < HS_COUNT(defaults); k++)
    if (mlir_in_list(defaults[k].names, name)) return mp_attr(W, hs_str_of(defaults[k].value), out);
  u32 rank = op->nops && op->ops[0]->shape ? op->ops[0]->shape->rank : 0;
  bool conv = mlir_in_list("convolution dynamic_conv", plain(op));
  i64 n = conv ? (i64)rank - 2 : rank, v[2 * HLO_MAX_RANK] = {0}, dims[2] = {n, 2};
  if (n < 0) n = 0;
  if (hs_str_eq(name, HS_STR("window_reversal"))) return *out = mp_falses(W, (u32)n), true;
  if (hs_str_eq(name, HS_STR("padding"))) return *out = mp_ints(W, 2, dims, v), true;
  if (!mlir_in_list("window_strides base_dilations window_dilations lhs_dilation rhs_dilation",
                    name))
    return false;
  for (i64 k = 0; k < n; k++) v[k] = 1;
  return *out = mp_ints(W, 1, &n, v), true;
}

// The value of an attribute as the text has it; *there: whether it has.
static bool value_of(mlir_portable *W, const mlir_op *op, hs_str name, u32 *out, bool *there) {
  char key[96];
  mlir_span s;
  hs_buf b = {0};
  *there = true;
  if (conv_dims(W, op, name, out)) return true;
  bool part = *struct_key(plain(op), name, key, sizeof key) != 0;
  if (!part) snprintf(key, sizeof key, "%.*s", (int)name.n, name.p);
  *there = mlir_get(W->R, &op->attrs, key, &s);
  if (!*there) return true;
  if (!s.n) return mp_attr(W, HS_STR("true"), out);
  if (hs_str_eq(name, HS_STR("api_version"))) hs_buf_puts(&b, "api ");
  else if (part && *s.p == '[') hs_buf_puts(&b, "ints ");
  if (!b.n) return mp_attr(W, s, out);
  hs_buf_put(&b, s.p, s.n);
  bool ok = mp_attr(W, (mlir_span){b.p, b.n}, out);
  return hs_buf_free(&b), ok;
}

static bool needs(mlir_portable *W, const mlir_op *op, const char *what, u32 since) {
  return mp_fail(W, "%.*s%s needs %u.%u", (int)HS_MIN(op->name.n, 80u), op->name.p, what,
                 since / 100, since % 100);
}

// The attributes that the row names.
static bool put_inherent(mlir_portable *W, const mlir_op *op, const op_row *row, mp_named *v,
                         u32 *n) {
  const op_row *newest = row_of(plain(op), UINT32_MAX);
  const char *list = newest->attrs;
  for (hs_str w; (w = mlir_next_word(&list)).n;) {
    u32 value, absent;
    bool there, old = mlir_in_list(row->attrs, w);
    if (!value_of(W, op, w, &value, &there)) return false;
    if (there && !old && (!default_of(W, op, w, &absent) || absent != value)) {
      char *what = hs_format(" with %.*s", (int)w.n, w.p);
      bool ok = needs(W, op, what, since_of(plain(op), w));
      return hs_free(what), ok;
    }
    if (!old) continue;
    if (!there && !default_of(W, op, w, &value))
      return W->R->lex.failed ||
             mp_fail(W, "%.*s without %.*s", (int)op->name.n, op->name.p, (int)w.n, w.p);
    v[(*n)++] = (mp_named){w, value};
  }
  // what an older version has more
  list = row->attrs;
  for (hs_str w; row != newest && (w = mlir_next_word(&list)).n;)
    if (!mlir_in_list(newest->attrs, w)) return needs(W, op, "", newest->since);
  return true;
}

// Those beside them: shardings, what the framework says.
static bool is_inherent(const mlir_op *op, const op_row *row, hs_str name) {
  if (mlir_in_list(row->attrs, name) || hs_str_eq(name, HS_STR("dimension_numbers"))) return true;
  const op_row *newest = row_of(plain(op), UINT32_MAX);
  if (mlir_in_list(newest->attrs, name)) return true;
  for (size_t k = 0; k < HS_COUNT(structs); k++)
    if (mlir_in_list(structs[k].ops, plain(op)) && hs_str_eq(name, hs_str_of(structs[k].name)))
      return true;
  return false;
}

static bool is_framework(hs_str name) { return name.n > 5 && !memcmp(name.p, "mhlo.", 5); }

// ---- operations ---------------------------------------------------------------------------------
// The head of an operation: its name, what it has, its location and attributes, the n first of
// which are its own.
static bool put_head(mlir_portable *W, hs_buf *b, const char *name, u32 has, mlir_span loc, u32 n,
                     u32 all, const mp_named *v) {
  hs_buf key = {0}, props = {0};
  u32 where, own = W->bytecode >= 5 ? n : 0;
  hs_buf_puts(&key, name);
  mp_varint(b, mp_entry(W, &W->ops, MP_VHLO, &key));
  if (!mp_location(W, loc, &where)) return false;
  has |= (all > own ? HAS_ATTRS : 0) | (own ? HAS_PROPERTIES : 0);
  hs_buf_putc(b, (char)has);
  mp_varint(b, where);
  if (all > own) mp_varint(b, mp_own_dict(W, all - own, v + own));
  if (!own) return true;
  for (u32 j = 0; j < own; j++) mp_varint(&props, v[j].value);
  mp_varint(b, mp_props(W, &props));
  return true;
}

// Values are numbered as they are made, from `first` on; *next is the number of the next one.
static bool put_values(mlir_portable *W, hs_buf *b, const mlir_op *op, u32 *next) {
  u32 t;
  if (op->nres) mp_varint(b, op->nres);
  for (u32 k = 0; k < op->nres; k++) {
    if (!mp_type(W, op->res[k].type, &t)) return false;
    mp_varint(b, t);
  }
  if (op->nops) mp_varint(b, op->nops);
  for (u32 k = 0; k < op->nops; k++) mp_varint(b, op->ops[k]->mark);
  for (u32 k = 0; k < op->nres; k++) op->res[k].mark = (*next)++;
  return true;
}

static bool same_signature(const mlir_op *a, const mlir_op *b) {
  if (!hs_str_eq(a->name, b->name) || a->nops != b->nops || a->nres != b->nres) return false;
  for (u32 k = 0; k < a->nops; k++)
    if (!hs_str_eq(a->ops[k]->type, b->ops[k]->type)) return false;
  for (u32 k = 0; k < a->nres; k++)
    if (!hs_str_eq(a->res[k].type, b->res[k].type)) return false;
  return true;
}

// The decomposition's name: its operation and the number of its signature.
static hs_str decomposition(mlir_portable *W, mlir_op *op) {
  size_t k = 0;
  while (k < W->chlo.n && !same_signature(W->chlo.v[k], op)) k++;
  if (k == W->chlo.n) hs_vec_push(&W->chlo, op);
  char *s = hs_format("%.*s.impl_%zu", (int)op->name.n, op->name.p, k);
  hs_str out = {hs_arena_strndup(&W->R->arena, s, strlen(s)), strlen(s)};
  return hs_free(s), out;
}

// name, composite_attributes, decomposition and version, in the order of the properties
static bool recomposed(mlir_portable *W, mlir_op *op, mp_named *v, u32 *n) {
  mlir_attr *a = HS_NEW_ARRAY(&W->R->arena, mlir_attr, op->attrs.n + 1);
  mlir_attrs own = {0, a};
  u32 k;
  if (op->nregions || memmem(op->name.p, op->name.n, "ragged_dot", 10))
    return mp_fail(W, "%.*s is not written", (int)op->name.n, op->name.p);
  for (k = 0; k < op->attrs.n; k++)
    if (!is_framework(op->attrs.v[k].name)) a[own.n++] = op->attrs.v[k];
  if (!mp_dict(W, &own, &k)) return false;
  v[(*n)++] = (mp_named){HS_STR("composite_attributes"), k};
  v[(*n)++] = (mp_named){HS_STR("decomposition"), mp_string_attr(W, decomposition(W, op))};
  v[(*n)++] = (mp_named){HS_STR("name"), mp_string_attr(W, op->name)};
  if (!mp_attr(W, HS_STR("1 : i32"), &k)) return false;
  v[(*n)++] = (mp_named){HS_STR("version"), k};
  return true;
}

// What the operations of a row of VHLO_ALLOWED do that older versions do not have.
static bool does(mlir_portable *W, const mlir_op *op, const char *what) {
  if (!strcmp(what, "several operands")) return op->nops > 1;
  if (!strcmp(what, "a dictionary")) return has_dict(W, op);
  if (!strcmp(what, "operands of two types"))
    return op->nops == 2 && op->ops[0]->shape && op->ops[1]->shape &&
           op->ops[0]->shape->dtype != op->ops[1]->shape->dtype;
  // sums of more bits than what is summed
  const mlir_region *r = op->nregions ? op->regions[op->nregions - 1] : NULL;
  const mlir_value *of = op->nops ? op->ops[0] : NULL;
  return r && r->nargs && of && of->shape && r->args[0].shape &&
         r->args[0].shape->dtype != of->shape->dtype;
}

static bool is_allowed(mlir_portable *W, const mlir_op *op) {
  mlir_span channel;
  if (mlir_get(W->R, &op->attrs, "channel_handle.handle", &channel) &&
      hs_str_eq(channel, HS_STR("0")))
    return mp_fail(W, "%.*s in channel 0, which stands for none", (int)op->name.n, op->name.p);
  for (size_t k = 0; k < HS_COUNT(allowed); k++) {
    if (W->version >= allowed[k].since || !mlir_in_list(allowed[k].ops, plain(op))) continue;
    if (!does(W, op, allowed[k].what)) continue;
    char *what = hs_format(" with %s", allowed[k].what);
    bool ok = needs(W, op, what, allowed[k].since);
    return hs_free(what), ok;
  }
  return true;
}

static bool put_op(mlir_portable *W, hs_buf *b, mlir_op *op, u32 *next) {
  if (hs_interrupted() && hs_ok(W->err)) W->err = hs_stopped();
  if (!hs_ok(W->err)) return false;
  mp_named *v = HS_NEW_ARRAY(&W->R->arena, mp_named, MOST_ATTRS + op->attrs.n);
  u32 own = 0;
  bool chlo = is_chlo(op);
  hs_str name = chlo ? HS_STR("composite") : plain(op);
  const op_row *newest = row_of(name, UINT32_MAX), *row = row_of(name, W->version);
  if (!newest) return mp_fail(W, "%.*s is not written", (int)HS_MIN(op->name.n, 80u), op->name.p);
  if (!row) return needs(W, op, "", since_of(name, (hs_str){0}));
  if (chlo ? !recomposed(W, op, v, &own) : !is_allowed(W, op) || !put_inherent(W, op, row, v, &own))
    return false;
  u32 all = own;
  for (u32 k = 0; k < op->attrs.n; k++) {
    const mlir_attr *a = &op->attrs.v[k];
    if (chlo ? !is_framework(a->name) : is_inherent(op, row, a->name)) continue;
    v[all].name = a->name;
    if (!mp_attr(W, a->value, &v[all++].value)) return false;
  }
  u32 has = (op->nres ? HAS_RESULTS : 0) | (op->nops ? HAS_OPERANDS : 0) |
            (op->nregions ? HAS_REGIONS : 0);
  if (!put_head(W, b, row->name, has, op->loc, own, all, v) || !put_values(W, b, op, next))
    return false;
  if (op->nregions) mp_varint(b, (u64)op->nregions << 1);
  return true;
}

// ---- regions ------------------------------------------------------------------------------------
// How many values are made in a region, those of its operations' regions apart.
static u32 count_values(const mlir_region *r) {
  u32 n = r->nargs;
  for (const mlir_op *op = r->first; op; op = op->next) n += op->nres;
  return n;
}

static bool put_args(mlir_portable *W, hs_buf *b, const mlir_region *r) {
  u32 t, where;
  mp_varint(b, r->nargs);
  for (u32 k = 0; k < r->nargs; k++) {
    if (!mp_type(W, r->args[k].type, &t) || !mp_location(W, r->args[k].loc, &where)) return false;
    mp_varint(b, W->bytecode >= 4 ? (u64)t << 1 | 1 : t);
    mp_varint(b, where);
  }
  if (W->bytecode >= 3) hs_buf_putc(b, 0);  // no orders of uses
  return true;
}

static bool put_region(mlir_portable *W, hs_buf *b, mlir_region *r, u32 first) {
  u32 next = first, nops = 0, inner = first + count_values(r);
  for (mlir_op *op = r->first; op; op = op->next) nops++;
  mp_varint(b, 1);  // block
  mp_varint(b, count_values(r));
  mp_varint(b, (u64)nops << 1 | (r->nargs > 0));
  for (u32 k = 0; k < r->nargs; k++) r->args[k].mark = next++;
  if (r->nargs && !put_args(W, b, r)) return false;
  for (mlir_op *op = r->first; op; op = op->next) {
    if (!put_op(W, b, op, &next)) return false;
    for (u32 k = 0; k < op->nregions; k++)
      if (!put_region(W, b, op->regions[k], inner)) return false;
  }
  return true;
}

// The region of a function or of the module, which sees nothing from outside: a section of its own.
static void put_isolated(mlir_portable *W, hs_buf *b, hs_buf *region) {
  enum { SECTION_IR = 4 };
  mp_varint(b, 1 << 1 | 1);
  if (W->bytecode >= 2) {
    hs_buf_putc(b, SECTION_IR);
    mp_varint(b, region->n);
  }
  hs_buf_put(b, region->p ? region->p : "", region->n);
  hs_buf_free(region);
}

// ---- functions and the module -------------------------------------------------------------------
// One dictionary each; an empty list when all are empty.
static bool dicts(mlir_portable *W, u32 n, const mlir_attrs *const *v, u32 *out) {
  u32 *k = HS_NEW_ARRAY(&W->R->arena, u32, n + 1), any = 0;
  for (u32 j = 0; j < n; j++) {
    any += v[j]->n;
    if (!mp_dict(W, v[j], &k[j])) return false;
  }
  return *out = mp_list(W, any ? n : 0, k), true;
}

static bool put_signature(mlir_portable *W, hs_buf *b, hs_str name, bool hidden, mlir_span loc,
                          u32 type, u32 args, u32 results) {
  mp_named v[] = {
      {HS_STR("arg_attrs"), args},
      {HS_STR("function_type"), type},
      {HS_STR("res_attrs"), results},
      {HS_STR("sym_name"), mp_string_attr(W, name)},
      {HS_STR("sym_visibility"), mp_string_attr(W, hidden ? HS_STR("private") : HS_STR("public"))}};
  return put_head(W, b, "func_v1", HAS_REGIONS, loc, HS_COUNT(v), HS_COUNT(v), v);
}

static bool put_func(mlir_portable *W, hs_buf *b, const mlir_func *f) {
  mlir_region *r = f->op->regions[0];
  const mlir_op *end = r->last;
  u32 most = HS_MAX(r->nargs, f->nresults), type, args, results;
  mlir_span *in = HS_NEW_ARRAY(&W->R->arena, mlir_span, most + 1),
            *out = HS_NEW_ARRAY(&W->R->arena, mlir_span, most + 1);
  const mlir_attrs **a = HS_NEW_ARRAY(&W->R->arena, const mlir_attrs *, most + 1);
  if (!end || end->nops != f->nresults)
    return mp_fail(W, "function @%.*s does not return its results", (int)f->name.n, f->name.p);
  for (u32 k = 0; k < r->nargs; k++) in[k] = r->args[k].type, a[k] = &r->args[k].attrs;
  if (!dicts(W, r->nargs, a, &args)) return false;
  for (u32 k = 0; k < f->nresults; k++) out[k] = end->ops[k]->type, a[k] = &f->results[k];
  if (!dicts(W, f->nresults, a, &results) ||
      !mp_function_type(W, r->nargs, in, f->nresults, out, &type) ||
      !put_signature(W, b, f->name, f->is_private, f->op->loc, type, args, results))
    return false;
  hs_buf body = {0};
  bool ok = put_region(W, &body, r, 0);
  put_isolated(W, b, &body);
  return ok;
}

// The decomposition of a composite, declared.
static bool put_declaration(mlir_portable *W, hs_buf *b, mlir_op *op) {
  u32 type, none = mp_list(W, 0, NULL), most = HS_MAX(op->nops, op->nres);
  mlir_span *in = HS_NEW_ARRAY(&W->R->arena, mlir_span, most + 1),
            *out = HS_NEW_ARRAY(&W->R->arena, mlir_span, most + 1);
  for (u32 k = 0; k < op->nops; k++) in[k] = op->ops[k]->type;
  for (u32 k = 0; k < op->nres; k++) out[k] = op->res[k].type;
  hs_buf body = {0};
  mp_varint(&body, 0);  // blocks
  bool ok = mp_function_type(W, op->nops, in, op->nres, out, &type) &&
            put_signature(W, b, decomposition(W, op), true, (mlir_span){0}, type, none, none);
  put_isolated(W, b, &body);
  return ok;
}

// An attribute of the module, which is MLIR's own: a number, or frontend attributes.
static bool module_attr(mlir_portable *W, mlir_span s, u32 *out) {
  mlir_reader *R = W->R;
  mlir_attrs dict = {0};
  i64 number;
  if (!s.n || *s.p != '{') {
    if (!mlir_int_of(R, s, &number)) return false;
    *out = mp_own_int(W, number);
    return true;
  }
  if (!mlir_dict_of(R, s, &dict)) return false;
  mp_named *v = HS_NEW_ARRAY(&R->arena, mp_named, dict.n + 1);
  for (u32 k = 0; k < dict.n; k++) {
    hs_str text;
    if (!mlir_string_of(R, dict.v[k].value, &text)) return false;
    v[k] = (mp_named){dict.v[k].name, mp_own_string(W, text)};
  }
  *out = mp_own_dict(W, dict.n, v);
  return true;
}

static bool put_module_head(mlir_portable *W, hs_buf *b) {
  mlir_reader *R = W->R;
  mp_named *v = HS_NEW_ARRAY(&R->arena, mp_named, R->module_attrs.n + 1);
  hs_buf key = {0}, props = {0};
  u32 n = 0, where, name = 0;
  bool properties = W->bytecode >= 5, known = R->module_name.n > 0;
  for (u32 k = 0; k < R->module_attrs.n; k++) {
    u32 value;
    if (!module_attr(W, R->module_attrs.v[k].value, &value)) return false;
    v[n++] = (mp_named){R->module_attrs.v[k].name, value};
  }
  if (known) name = mp_own_string(W, R->module_name);
  if (known && !properties) v[n++] = (mp_named){HS_STR("sym_name"), name};
  hs_buf_puts(&key, "module");
  mp_varint(b, mp_entry(W, &W->ops, MP_BUILTIN, &key));
  if (!mp_location(W, (mlir_span){0}, &where)) return false;
  hs_buf_putc(b, (char)(HAS_REGIONS | (n ? HAS_ATTRS : 0) | (properties ? HAS_PROPERTIES : 0)));
  mp_varint(b, where);
  if (n) mp_varint(b, mp_own_dict(W, n, v));
  if (!properties) return true;
  mp_varint(&props, known ? (u64)name << 1 | 1 : 0);
  mp_varint(&props, 0);  // no visibility
  mp_varint(b, mp_props(W, &props));
  return true;
}

bool mp_module(mlir_portable *W, hs_buf *ir) {
  mlir_reader *R = W->R;
  hs_buf body = {0}, functions = {0};
  mp_varint(ir, 1 << 1);  // operations
  bool ok = put_module_head(W, ir);
  for (size_t k = 0; ok && k < R->funcs.n; k++) ok = put_func(W, &functions, R->funcs.v[k]);
  for (size_t k = 0; ok && k < W->chlo.n; k++) ok = put_declaration(W, &functions, W->chlo.v[k]);
  mp_varint(&body, 1);  // block
  mp_varint(&body, 0);  // values
  mp_varint(&body, (R->funcs.n + W->chlo.n) << 1);
  hs_buf_put(&body, functions.p ? functions.p : "", functions.n);
  hs_buf_free(&functions);
  put_isolated(W, ir, &body);
  return ok;
}
