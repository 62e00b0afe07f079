// bytecode_attr.c — attributes of MLIR bytecode, as the text would have them, and locations.
//
// The rules of conversion read values of attributes from text. What they read as numbers are
// numbers here too: array<i64: 1, 2> for a list, dense<"0x.."> with the bytes for more dimensions.
// A constant's bytes are not written: they get a name, dense_resource<"#3">, under which dense.c
// finds them where they lie.
#include "core/mlir/bytecode.h"

#include "core/types/literal.h"

typedef enum kind {
  ARRAY,
  DICT,
  STRING,
  SYMBOL,
  TYPE,
  UNIT,
  INT,
  FLOAT,
  LOC_FIRST,
  LOC_FILE,
  LOC_FUSED,
  LOC_NAME,
  LOC_NONE,
  LOC_RANGE,
  RESOURCE,
  INTS,
  TENSOR,
  BOOL,
  ENUM,
  API,
  ALIAS,
  BOUNDS,
  ACCURACY,
  SUB_AXIS,
  AXIS,
  MESH_AXES,
  NAMES,
  MESH_AXIS,
  MESH,
  AXIS_REF,
  DIMENSION,
  SHARDING,
  SHARDINGS,
  TEXT,     // not encoded: its text
  FOREIGN,  // of a dialect that says nothing to HLO
} kind;

typedef struct row {
  const char *dialect;
  u32 number;
  kind kind;
  const char *text;
} row;

static const row rows[] = {
#define BUILTIN "builtin"
#define VHLO "vhlo"
#define SDY "sdy"
#define BC_ATTR(dialect, number, kind, text) {dialect, number, kind, text},
#include "core/mlir/bytecode.def"
#undef BC_ATTR
};

static const row *row_of(mlir_bc *B, const bc_entry *e, bc_at *c) {
  static const row text = {.kind = TEXT}, foreign = {.kind = FOREIGN};
  hs_str dialect = B->dialects[e->dialect];
  u64 number;
  *c = e->at;
  if (!e->custom) return &text;
  bool sdy = hs_str_eq(dialect, HS_STR(SDY));
  if (!sdy && !hs_str_eq(dialect, HS_STR(BUILTIN)) && !hs_str_eq(dialect, HS_STR(VHLO)))
    return &foreign;
  if (!bc_varint(B, c, &number)) return NULL;
  for (size_t k = 0; k < HS_COUNT(rows); k++)
    if (rows[k].number == number && hs_str_eq(dialect, hs_str_of(rows[k].dialect))) return &rows[k];
  if (sdy) return &foreign;  // rules of propagation
  bc_bad(B, e->at.p, "attribute %llu of dialect '%.*s' is not known", (unsigned long long)number,
         (int)HS_MIN(dialect.n, 40u), dialect.p);
  return NULL;
}

// ---- values -------------------------------------------------------------------------------------
static void put_quoted(hs_buf *out, hs_str s) {
  hs_buf_putc(out, '"');
  for (size_t k = 0; k < s.n; k++) {
    unsigned char c = (unsigned char)s.p[k];
    if (c == '"' || c == '\\' || c < 32 || c >= 127) hs_buf_printf(out, "\\%02X", c);
    else hs_buf_putc(out, (char)c);
  }
  hs_buf_putc(out, '"');
}

// A number of so many bits.
static bool read_bits(mlir_bc *B, bc_at *c, u32 bits, i64 *out) {
  u8 byte;
  u64 words;
  *out = 0;
  if (bits <= 8) {
    if (!bc_byte(B, c, &byte)) return false;
    return *out = byte, true;
  }
  if (bits > 64) {
    const char *at = c->p;
    if (!bc_varint(B, c, &words)) return false;
    return bc_bad(B, at, "a number of %u bits", bits);
  }
  return bc_signed(B, c, out);
}

// Digits at the end of i64, ui8, si32; 64 for index.
static u32 width_of(hs_str type) {
  u32 n = 0;
  for (size_t k = 0; k < type.n; k++)
    if (type.p[k] >= '0' && type.p[k] <= '9' && n < 1000) n = n * 10 + (u32)(type.p[k] - '0');
  return n ? n : 64;
}

static bool read_type(mlir_bc *B, bc_at *c, mlir_typed *out) {
  u32 k;
  *out = (mlir_typed){0};
  return bc_index(B, c, B->ntypes, "type", &k) && bc_type(B, k, out);
}

static bool read_int(mlir_bc *B, bc_at *c, mlir_typed *t, i64 *v) {
  *v = 0;
  if (!read_type(B, c, t)) return false;
  u32 bits = width_of(t->text);
  if (!read_bits(B, c, bits, v)) return false;
  bool is_signed = t->text.n && *t->text.p != 'u';
  if (bits < 64 && bits > 1) {
    u64 mask = ((u64)1 << bits) - 1, x = (u64)*v & mask;
    *v = is_signed && x >> (bits - 1) ? (i64)(x | ~mask) : (i64)x;
  }
  return true;
}

static bool put_int(mlir_bc *B, bc_at *c, hs_buf *out) {
  mlir_typed t;
  i64 v;
  if (!read_int(B, c, &t, &v)) return false;
  if (hs_str_eq(t.text, HS_STR("i1"))) return hs_buf_puts(out, v & 1 ? "true" : "false"), true;
  if (*t.text.p == 'u') hs_buf_printf(out, "%llu", (unsigned long long)v);
  else hs_buf_i64(out, v);
  hs_buf_printf(out, " : %.*s", (int)t.text.n, t.text.p);
  return true;
}

// As few digits as give the number back.
static void put_double(hs_buf *out, hlo_dtype d, double v) {
  size_t used, at = out->n;
  float back;
  int digits = d == HLO_F64 ? 17 : 6;
  do {
    out->n = at;
    hs_buf_printf(out, "%.*g", digits, v);
    back = (float)hlo_scan_double(out->p + at, out->p + out->n, &used);
  } while (digits++ < 9 && back != (float)v);
}

static bool put_float(mlir_bc *B, bc_at *c, hs_buf *out) {
  mlir_typed t;
  i64 bits;
  if (!read_type(B, c, &t)) return false;
  hlo_dtype d = mlir_dtype(t.text);
  if (d == HLO_DT_INVALID || !hlo_dtype_is_float(d))
    return bc_bad(B, c->p, "a number of type %.*s", (int)HS_MIN(t.text.n, 40u), t.text.p);
  if (!read_bits(B, c, (u32)hlo_dtype_bits(d), &bits)) return false;
  put_double(out, d, hlo_elem_to_f64(d, &bits));
  hs_buf_printf(out, " : %.*s", (int)t.text.n, t.text.p);
  return true;
}

static bool read_double(mlir_bc *B, bc_at *c, double *out) {
  i64 bits;
  *out = 0;
  if (!bc_signed(B, c, &bits)) return false;
  return memcpy(out, &bits, sizeof bits), true;
}

static bool put_signed_list(mlir_bc *B, bc_at *c, hs_buf *out) {
  u32 n;
  i64 v;
  if (!bc_count(B, c, &n)) return false;
  hs_buf_putc(out, '[');
  for (u32 k = 0; k < n; k++) {
    if (!bc_signed(B, c, &v)) return false;
    if (k) hs_buf_puts(out, ", ");
    hs_buf_i64(out, v);
  }
  return hs_buf_putc(out, ']'), true;
}

// ---- tensors ------------------------------------------------------------------------------------
// The integer k of a blob, which may hold one for all, or truth values as bits.
static i64 element(const hlo_shape *s, bc_at blob, i64 k) {
  size_t size = hlo_dtype_storage(s->dtype), n = (size_t)(blob.end - blob.p);
  bool packed =
      s->dtype == HLO_PRED && n != (size_t)s->elements && n == ((size_t)s->elements + 7) / 8;
  u64 v = 0;
  if (packed) return blob.p[k / 8] >> (k % 8) & 1;
  memcpy(&v, blob.p + (n == size ? 0 : (size_t)k * size), size);
  if (s->dtype == HLO_PRED) return v != 0;
  u32 bits = (u32)size * 8;
  if (bits < 64 && hlo_dtype_is_signed(s->dtype) && v >> (bits - 1)) v |= ~(((u64)1 << bits) - 1);
  return (i64)v;
}

// Whether the blob has the integers of the shape.
static bool is_ints(const hlo_shape *s, bc_at blob) {
  if (!s || !hlo_shape_is_array(s) || hlo_dtype_is_float(s->dtype) ||
      hlo_dtype_is_complex(s->dtype) || s->dynamic)
    return false;
  size_t size = hlo_dtype_storage(s->dtype), n = (size_t)(blob.end - blob.p);
  bool packed = s->dtype == HLO_PRED && n == ((size_t)s->elements + 7) / 8;
  return packed || n == size || (n % size == 0 && n / size == (size_t)s->elements);
}

static void put_hex(hs_buf *out, bc_at blob) {
  static const char digits[] = "0123456789ABCDEF";
  hs_buf_puts(out, "dense<\"0x");
  for (const char *p = blob.p; p < blob.end; p++) {
    hs_buf_putc(out, digits[(u8)*p >> 4]);
    hs_buf_putc(out, digits[*p & 15]);
  }
  hs_buf_puts(out, "\">");
}

enum { LIST_MOST = 1 << 16 };  // a longer list is written as bytes

static bool put_tensor(mlir_bc *B, const mlir_typed *t, bc_at blob, hs_buf *out, bc_style style) {
  const hlo_shape *s = t->shape;
  if (style == BC_VALUE) {
    hs_str *bytes = HS_NEW(&B->R->arena, hs_str);
    char *name = hs_format("#%u", B->nblobs++);
    *bytes = (hs_str){blob.p, (size_t)(blob.end - blob.p)};
    hs_str key = {hs_arena_strndup(&B->R->arena, name, strlen(name)), strlen(name)};
    hs_free(name);
    (void)mlir_names_add(&B->R->blobs, key, bytes, 1);
    hs_buf_printf(out, "dense_resource<\"%.*s\">", (int)key.n, key.p);
    return true;
  }
  if (s && s->rank == 1 && is_ints(s, blob) && s->elements <= LIST_MOST) {
    bool truth = s->dtype == HLO_PRED;
    if (style == BC_ATTR) hs_buf_puts(out, truth ? "array<i1" : "array<i64");
    else hs_buf_putc(out, '[');
    for (i64 k = 0; k < s->elements; k++) {
      hs_buf_puts(out, k ? ", " : style == BC_ATTR ? ": " : "");
      if (truth) hs_buf_puts(out, element(s, blob, k) ? "true" : "false");
      else hs_buf_i64(out, element(s, blob, k));
    }
    return hs_buf_putc(out, style == BC_ATTR ? '>' : ']'), true;
  }
  if (blob.p == blob.end) hs_buf_puts(out, "dense<>");
  else put_hex(out, blob);
  hs_buf_printf(out, " : %.*s", (int)t->text.n, t->text.p);
  return true;
}

static bool read_tensor(mlir_bc *B, bc_at *c, mlir_typed *t, bc_at *blob) {
  u64 n;
  *blob = *c;
  return read_type(B, c, t) && bc_varint(B, c, &n) && bc_bytes(B, c, n, blob);
}

// ---- text ---------------------------------------------------------------------------------------
static bool put_attr(mlir_bc *, hs_buf *, u32 index, bc_style);

static bool put_next(mlir_bc *B, bc_at *c, hs_buf *out) {
  u32 k;
  return bc_index(B, c, B->nattrs, "attribute", &k) && put_attr(B, out, k, BC_ATTR);
}

// A list of attributes.
static bool put_some(mlir_bc *B, bc_at *c, hs_buf *out, const char *open, const char *close) {
  u32 n;
  if (!bc_count(B, c, &n)) return false;
  hs_buf_puts(out, open);
  for (u32 k = 0; k < n; k++) {
    if (k) hs_buf_puts(out, ", ");
    if (!put_next(B, c, out)) return false;
  }
  return hs_buf_puts(out, close), true;
}

static bool put_dict(mlir_bc *B, u32 index, hs_buf *out) {
  u32 n;
  bc_pair *v;
  if (!bc_attr_dict(B, index, &n, &v)) return false;
  hs_buf_putc(out, '{');
  for (u32 k = 0; k < n; k++) {
    bool plain = v[k].name.n > 0;
    for (size_t j = 0; j < v[k].name.n; j++)
      plain &= hlo_is_ch(v[k].name.p[j], HLO_CH_IDENT) && v[k].name.p[j] != '-';
    if (k) hs_buf_puts(out, ", ");
    if (plain) hs_buf_put(out, v[k].name.p, v[k].name.n);
    else put_quoted(out, v[k].name);
    size_t before = out->n;
    hs_buf_puts(out, " = ");
    size_t value = out->n;
    if (!put_attr(B, out, v[k].value, BC_ATTR)) return false;
    if (out->n == value) out->n = before;  // a unit attribute
  }
  return hs_buf_putc(out, '}'), true;
}

static bool put_enum(mlir_bc *B, bc_at *c, const row *r, hs_buf *out) {
  const char *at = c->p;
  u64 v;
  if (!bc_varint(B, c, &v)) return false;
  const char *text = bc_enum_text(r->number, v);
  if (text) return hs_buf_printf(out, "#stablehlo<%s %s>", r->text, text), true;
  return bc_bad(B, at, "value %llu of %s is not known", (unsigned long long)v, r->text);
}

static bool put_alias(mlir_bc *B, bc_at *c, hs_buf *out) {
  i64 operand;
  hs_buf_puts(out, "#stablehlo.output_operand_alias<output_tuple_indices = ");
  if (!put_signed_list(B, c, out) || !bc_signed(B, c, &operand)) return false;
  hs_buf_printf(out, ", operand_index = %lld, operand_tuple_indices = ", (long long)operand);
  if (!put_signed_list(B, c, out)) return false;
  return hs_buf_putc(out, '>'), true;
}

static bool put_bounds(mlir_bc *B, bc_at *c, hs_buf *out) {
  u32 n;
  i64 v;
  if (!bc_count(B, c, &n)) return false;
  hs_buf_puts(out, "#stablehlo.bounds<");
  for (u32 k = 0; k < n; k++) {
    if (!bc_signed(B, c, &v)) return false;
    if (k) hs_buf_puts(out, ", ");
    if (v < 0) hs_buf_putc(out, '?');
    else hs_buf_i64(out, v);
  }
  return hs_buf_putc(out, '>'), true;
}

static bool put_accuracy(mlir_bc *B, bc_at *c, hs_buf *out) {
  double a, r;
  i64 ulps;
  if (!read_double(B, c, &a) || !read_double(B, c, &r) || !bc_signed(B, c, &ulps)) return false;
  hs_buf_printf(out,
                "#stablehlo.result_accuracy<atol = %.17g, rtol = %.17g, ulps = %lld, mode = ", a, r,
                (long long)ulps);
  if (!put_next(B, c, out)) return false;
  return hs_buf_putc(out, '>'), true;
}

// (pre)size of an axis that is split.
static bool put_sub_axis(mlir_bc *B, bc_at *c, hs_buf *out) {
  i64 before, size;
  if (!bc_signed(B, c, &before) || !bc_signed(B, c, &size)) return false;
  return hs_buf_printf(out, "(%lld)%lld", (long long)before, (long long)size), true;
}

static bool put_axis(mlir_bc *B, bc_at *c, hs_buf *out) {
  u64 split;
  hs_buf_puts(out, "#stablehlo.axis_ref<name = ");
  if (!put_next(B, c, out) || !bc_varint(B, c, &split)) return false;
  if (split) hs_buf_puts(out, ", sub_axis_info = ");
  if (split && !put_next(B, c, out)) return false;
  return hs_buf_putc(out, '>'), true;
}

static bool put_mesh_axes(mlir_bc *B, bc_at *c, hs_buf *out) {
  hs_buf_puts(out, "#stablehlo.replica_group_mesh_axes<mesh = @");
  if (!put_next(B, c, out)) return false;
  hs_buf_puts(out, ", axes = ");
  if (!put_next(B, c, out)) return false;
  return hs_buf_putc(out, '>'), true;
}

// ---- Shardy -------------------------------------------------------------------------------------
// "x"=2
static bool put_mesh_axis(mlir_bc *B, bc_at *c, hs_buf *out) {
  hs_str name;
  i64 size;
  if (!bc_string(B, c, &name) || !bc_signed(B, c, &size)) return false;
  put_quoted(out, name);
  return hs_buf_printf(out, "=%lld", (long long)size), true;
}

// #sdy.mesh<["x"=2], device_ids=[1, 0]>
static bool put_mesh(mlir_bc *B, bc_at *c, hs_buf *out) {
  if (!put_some(B, c, out, "#sdy.mesh<[", "]")) return false;
  hs_buf ids = {0};
  bool ok = put_signed_list(B, c, &ids);
  if (ok && ids.n > 2) hs_buf_printf(out, ", device_ids=%s", hs_buf_cstr(&ids));
  hs_buf_free(&ids);
  return hs_buf_putc(out, '>'), ok;
}

// "x", "x":(1)2
static bool put_axis_ref(mlir_bc *B, bc_at *c, hs_buf *out) {
  hs_str name;
  u64 part;
  const char *at = c->p;
  if (!bc_string(B, c, &name) || !bc_varint(B, c, &part)) return false;
  put_quoted(out, name);
  if (!(part & 1)) return true;
  hs_buf_putc(out, ':');
  if (part >> 1 >= B->nattrs) return bc_bad(B, at, "part of an axis that is no attribute");
  return put_attr(B, out, (u32)(part >> 1), BC_ATTR);
}

// {"x", ?}p1
static bool put_dimension(mlir_bc *B, bc_at *c, hs_buf *out) {
  u8 closed;
  if (!put_some(B, c, out, "{", "") || !bc_byte(B, c, &closed)) return false;
  if (!closed) hs_buf_puts(out, out->p[out->n - 1] == '{' ? "?" : ", ?");
  return hs_buf_putc(out, '}'), true;
}

// #sdy.sharding<@mesh, [{"x"}, {}], replicated={"y"}>, of values <..> only
static bool put_sharding(mlir_bc *B, bc_at *c, hs_buf *out, bc_style style) {
  hs_buf list = {0};
  hs_buf_puts(out, style == BC_STRUCT ? "<" : "#sdy.sharding<");
  bool ok = put_next(B, c, out) && put_some(B, c, out, ", [", "]") &&
            put_some(B, c, &list, ", replicated={", "}");
  if (ok && !strchr(hs_buf_cstr(&list), '"')) list.n = 0;
  if (ok) hs_buf_put(out, list.p ? list.p : "", list.n);
  list.n = 0;
  if (ok && c->p < c->end) ok = put_some(B, c, &list, ", unreduced={", "}");
  if (ok) hs_buf_put(out, list.p ? list.p : "", list.n);
  hs_buf_free(&list);
  return hs_buf_putc(out, '>'), ok;
}

// #sdy.sharding_per_value<[<..>, <..>]>, of a property [<..>, <..>] only
static bool put_shardings(mlir_bc *B, bc_at *c, hs_buf *out, bc_style style) {
  u32 n, k;
  if (!bc_count(B, c, &n)) return false;
  hs_buf_puts(out, style == BC_STRUCT ? "[" : "#sdy.sharding_per_value<[");
  while (n--) {
    if (out->p[out->n - 1] != '[') hs_buf_puts(out, ", ");
    if (!bc_index(B, c, B->nattrs, "attribute", &k) || !put_attr(B, out, k, BC_STRUCT))
      return false;
  }
  return hs_buf_puts(out, style == BC_STRUCT ? "]" : "]>"), true;
}

static bool put_string(mlir_bc *B, bc_at *c, hs_buf *out) {
  hs_str s;
  if (!bc_string(B, c, &s)) return false;
  return put_quoted(out, s), true;
}

// A symbol's name is a string attribute.
static bool put_symbol(mlir_bc *B, bc_at *c, hs_buf *out) {
  u32 k;
  hs_str name;
  if (!bc_index(B, c, B->nattrs, "attribute", &k) || !bc_attr_string(B, k, &name)) return false;
  bool plain = name.n > 0;
  for (size_t j = 0; j < name.n; j++) plain &= hlo_is_ch(name.p[j], HLO_CH_IDENT);
  hs_buf_putc(out, '@');
  if (plain) hs_buf_put(out, name.p, name.n);
  else put_quoted(out, name);
  return true;
}

static bool put_custom(mlir_bc *B, hs_buf *out, u32 index, bc_style style) {
  const bc_entry *e = &B->attrs[index];
  bc_at c, blob;
  const row *r = row_of(B, e, &c);
  mlir_typed t;
  u64 v;
  u32 k;
  if (!r) return false;
  switch (r->kind) {
  case ARRAY: return put_some(B, &c, out, "[", "]");
  case DICT: return put_dict(B, index, out);
  case STRING: return put_string(B, &c, out);
  case SYMBOL: return put_symbol(B, &c, out);
  case TYPE:
    if (!read_type(B, &c, &t)) return false;
    return hs_buf_put(out, t.text.p, t.text.n), true;
  case UNIT: return true;
  case INT: return put_int(B, &c, out);
  case FLOAT: return put_float(B, &c, out);
  case RESOURCE:
    if (!read_type(B, &c, &t) || !bc_index(B, &c, (u32)B->handles.n, "resource", &k)) return false;
    hs_buf_puts(out, "dense_resource<");
    put_quoted(out, B->handles.v[k]);
    return hs_buf_printf(out, "> : %.*s", (int)t.text.n, t.text.p), true;
  case INTS: {
    if (!read_type(B, &c, &t) || !bc_varint(B, &c, &v) || !bc_varint(B, &c, &v) ||
        !bc_bytes(B, &c, v, &blob))
      return false;
    hlo_dtype d = mlir_dtype(t.text);
    if (d == HLO_DT_INVALID) return bc_bad(B, e->at.p, "a list of a type that is not known");
    i64 n = (i64)((size_t)(blob.end - blob.p) / hlo_dtype_storage(d));
    t.shape = hlo_shape_array(B->R->ctx, d, 1, &n);
    return put_tensor(B, &t, blob, out, style);
  }
  case TENSOR: return read_tensor(B, &c, &t, &blob) && put_tensor(B, &t, blob, out, style);
  case BOOL:
    if (!bc_varint(B, &c, &v)) return false;
    return hs_buf_puts(out, v ? "true" : "false"), true;
  case ENUM: return put_enum(B, &c, r, out);
  case API:
    if (!bc_varint(B, &c, &v)) return false;
    return hs_buf_printf(out, "%llu : i32", (unsigned long long)v), true;
  case ALIAS: return put_alias(B, &c, out);
  case BOUNDS: return put_bounds(B, &c, out);
  case ACCURACY: return put_accuracy(B, &c, out);
  case SUB_AXIS: return put_sub_axis(B, &c, out);
  case AXIS: return put_axis(B, &c, out);
  case MESH_AXES: return put_mesh_axes(B, &c, out);
  case NAMES: return put_some(B, &c, out, "{", "}");
  case MESH_AXIS: return put_mesh_axis(B, &c, out);
  case MESH: return put_mesh(B, &c, out);
  case AXIS_REF: return put_axis_ref(B, &c, out);
  case DIMENSION: return put_dimension(B, &c, out);
  case SHARDING: return put_sharding(B, &c, out, style);
  case SHARDINGS: return put_shardings(B, &c, out, style);
  case FOREIGN: {
    hs_str dialect = B->dialects[e->dialect];
    return hs_buf_printf(out, "#%.*s.encoded", (int)HS_MIN(dialect.n, 80u), dialect.p), true;
  }
  case TEXT: hs_buf_put(out, c.p, strnlen(c.p, (size_t)(c.end - c.p))); return true;
  default: break;
  }
  return bc_bad(B, e->at.p, "a location where an attribute is expected");
}

static bool put_attr(mlir_bc *B, hs_buf *out, u32 index, bc_style style) {
  bc_entry *e = &B->attrs[index];
  hlo_lex *L = &B->R->lex;
  if (out->n > B->budget)
    return hlo_lex_error(L, HS_E_LIMIT, e->at.p, "an attribute of endless text");
  if (e->busy) return bc_bad(B, e->at.p, "attribute %u holds itself", index);
  if (!hlo_lex_enter(L)) return false;
  e->busy = true;
  bool ok = put_custom(B, out, index, style);
  e->busy = false;
  hlo_lex_leave(L);
  return ok;
}

bool bc_attr_text(mlir_bc *B, u32 index, bc_style style, mlir_span *out) {
  bc_entry *e = &B->attrs[index];
  hlo_lex *L = &B->R->lex;
  if (e->done && style == BC_ATTR) return *out = e->text, true;
  hs_buf text = {0};
  bool ok = put_attr(B, &text, index, style);
  B->written += text.n;
  if (ok && B->written > B->budget)
    ok = hlo_lex_error(L, HS_E_LIMIT, e->at.p, "types and attributes make too much text");
  if (ok) *out = (mlir_span){hs_arena_strndup(&B->R->arena, text.p ? text.p : "", text.n), text.n};
  hs_buf_free(&text);
  if (ok && style == BC_ATTR) {
    e->text = *out;
    e->done = true;
  }
  return ok;
}

// ---- parts --------------------------------------------------------------------------------------
static const row *want(mlir_bc *B, u32 index, kind k, const char *what, bc_at *c) {
  const row *r = row_of(B, &B->attrs[index], c);
  if (r && r->kind == k) return r;
  if (r) bc_bad(B, B->attrs[index].at.p, "an attribute that is no %s", what);
  return NULL;
}

bool bc_attr_string(mlir_bc *B, u32 index, hs_str *out) {
  bc_at c;
  *out = (hs_str){"", 0};
  return want(B, index, STRING, "string", &c) && bc_string(B, &c, out);
}

bool bc_attr_int(mlir_bc *B, u32 index, i64 *out) {
  bc_at c;
  mlir_typed t;
  *out = 0;
  return want(B, index, INT, "integer", &c) && read_int(B, &c, &t, out);
}

bool bc_attr_type(mlir_bc *B, u32 index, u32 *out) {
  bc_at c;
  *out = 0;
  return want(B, index, TYPE, "type", &c) && bc_index(B, &c, B->ntypes, "type", out);
}

bool bc_attr_ints(mlir_bc *B, u32 index, u32 *n, i64 **out) {
  bc_at c, blob;
  mlir_typed t;
  *n = 0;
  if (!want(B, index, TENSOR, "list of integers", &c) || !read_tensor(B, &c, &t, &blob))
    return false;
  if (!is_ints(t.shape, blob) || t.shape->elements > HLO_MAX_RANK * 4)
    return bc_bad(B, c.p, "a list of integers of a type that is none");
  *n = (u32)t.shape->elements;
  *out = HS_NEW_ARRAY(&B->R->arena, i64, *n + 1);
  for (u32 k = 0; k < *n; k++) (*out)[k] = element(t.shape, blob, k);
  return true;
}

bool bc_attr_list(mlir_bc *B, u32 index, u32 *n, u32 **out) {
  bc_at c;
  *n = 0;
  if (!want(B, index, ARRAY, "list", &c) || !bc_count(B, &c, n)) return false;
  *out = HS_NEW_ARRAY(&B->R->arena, u32, *n + 1);
  for (u32 k = 0; k < *n; k++)
    if (!bc_index(B, &c, B->nattrs, "attribute", &(*out)[k])) return false;
  return true;
}

bool bc_attr_dict(mlir_bc *B, u32 index, u32 *n, bc_pair **out) {
  bc_at c;
  *n = 0;
  if (!want(B, index, DICT, "dictionary", &c) || !bc_count(B, &c, n)) return false;
  *out = HS_NEW_ARRAY(&B->R->arena, bc_pair, *n + 1);
  for (u32 k = 0; k < *n; k++) {
    u32 name;
    if (!bc_index(B, &c, B->nattrs, "attribute", &name) ||
        !bc_attr_string(B, name, &(*out)[k].name) ||
        !bc_index(B, &c, B->nattrs, "attribute", &(*out)[k].value))
      return false;
  }
  return true;
}

// ---- locations ----------------------------------------------------------------------------------
// The first name and the first position: what loc.c would take from the text.
typedef struct where {
  hs_str name, file;
  u64 line, column;
} where;

static bool look(mlir_bc *B, u32 index, where *w, u32 depth) {
  bc_entry *e = &B->attrs[index];
  bc_at c;
  const row *r = row_of(B, e, &c);
  u32 k, n;
  if (!r) return false;
  if (depth > 512) return true;
  hs_str text;
  switch (r->kind) {
  case LOC_FIRST: return bc_index(B, &c, B->nattrs, "location", &k) && look(B, k, w, depth + 1);
  case LOC_FUSED:
    if (!bc_count(B, &c, &n)) return false;
    return !n || (bc_index(B, &c, B->nattrs, "location", &k) && look(B, k, w, depth + 1));
  case LOC_NAME:
    if (!bc_index(B, &c, B->nattrs, "attribute", &k) || !bc_attr_string(B, k, &text)) return false;
    if (!w->name.p) w->name = text;
    return bc_index(B, &c, B->nattrs, "location", &k) && look(B, k, w, depth + 1);
  case LOC_FILE:
  case LOC_RANGE: {
    u64 v[2] = {0, 0};
    n = 2;
    if (!bc_index(B, &c, B->nattrs, "attribute", &k) || !bc_attr_string(B, k, &text)) return false;
    if (r->kind == LOC_RANGE && !bc_count(B, &c, &n)) return false;
    for (k = 0; k < n && k < 2; k++)
      if (!bc_varint(B, &c, &v[k])) return false;
    if (!w->file.p) *w = (where){w->name, text, v[0], v[1]};
    return true;
  }
  default: return true;
  }
}

bool bc_loc(mlir_bc *B, u32 index, mlir_span *out) {
  bc_entry *e = &B->attrs[index];
  if (e->loc.p) return *out = e->loc, true;
  where w = {0};
  if (!look(B, index, &w, 0)) return false;
  hs_buf b = {0};
  hs_buf_puts(&b, "loc(");
  if (w.name.n) put_quoted(&b, w.name);
  if (w.file.n) {
    if (w.name.n) hs_buf_putc(&b, '(');
    put_quoted(&b, w.file);
    hs_buf_printf(&b, ":%llu:%llu", (unsigned long long)HS_MIN(w.line, INT32_MAX),
                  (unsigned long long)HS_MIN(w.column, INT32_MAX));
    if (w.name.n) hs_buf_putc(&b, ')');
  }
  hs_buf_putc(&b, ')');
  bool any = w.name.n || w.file.n;
  B->written += b.n;
  if (any) e->loc = (mlir_span){hs_arena_strndup(&B->R->arena, b.p, b.n), b.n};
  else e->loc = (mlir_span){"", 0};
  hs_buf_free(&b);
  if (B->written > B->budget)
    return hlo_lex_error(&B->R->lex, HS_E_LIMIT, e->at.p, "locations make too much text");
  return *out = e->loc, true;
}
