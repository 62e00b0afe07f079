// attr.c — types and attributes of portable artifacts, from their text. A list of integers is a
// tensor there, a symbol a string, every dictionary VHLO's own; only what the module and the
// operations carry along beside their attributes stays MLIR's.
#include "core/mlir/bytecode.h"
#include "core/mlir/portable/portable.h"

#include "core/types/literal.h"

// Element types that came after version 0.9.
static const struct {
  u32 since;
  const char *text;
} newer[] = {
#define VHLO_TYPE(since, text) {since, text},
#include "core/mlir/vhlo.def"
#undef VHLO_TYPE
};

// Numbers of attributes and types in bytecode.def.
enum { OWN_DICT = 1, OWN_STRING = 2, OWN_INT = 8, OWN_FILE = 11, OWN_NAME = 14, OWN_NONE = 15 };
enum { OWN_INTEGER = 0 };
enum {
  V_ARRAY = 1,
  V_BOOL,
  V_DIRECTION,
  V_COMPARE,
  V_API,
  V_DICT,
  V_FFT,
  V_FLOAT,
  V_INT,
  V_ALIAS,
  V_PRECISION,
  V_ALGORITHM,
  V_DISTRIBUTION,
  V_STRING,
  V_TENSOR,
  V_TRANSPOSE,
  V_TYPE,
  V_BOUNDS,
  V_MODE,
  V_ACCURACY
};
enum { T_COMPLEX = 1, T_FUNCTION = 8, T_TENSOR = 20, T_ENCODED = 21, T_TUPLE = 23 };

static u32 attr(mlir_portable *W, u32 dialect, hs_buf *b) {
  return mp_entry(W, &W->attrs, dialect, b);
}
static u32 type(mlir_portable *W, hs_buf *b) { return mp_entry(W, &W->types, MP_VHLO, b); }

static bool begins(mlir_span s, const char *with) {
  size_t n = strlen(with);
  return s.n >= n && !memcmp(s.p, with, n);
}

static mlir_span trimmed(mlir_span s) {
  while (s.n && strchr(" \t\n\r", *s.p)) s.p++, s.n--;
  while (s.n && strchr(" \t\n\r", s.p[s.n - 1])) s.n--;
  return s;
}

static bool no_form(mlir_portable *W, const char *what, mlir_span s) {
  return mp_fail(W, "%s %.*s is not written in portable artifacts", what, (int)HS_MIN(s.n, 80u),
                 s.p);
}

// ---- types --------------------------------------------------------------------------------------
static bool word_type(mlir_portable *W, mlir_span s, u32 *out) {
  for (size_t k = 0; k < HS_COUNT(newer); k++)
    if (hs_str_eq(s, hs_str_of(newer[k].text)) && W->version < newer[k].since)
      return mp_fail(W, "the type %s came with %u.%u", newer[k].text, newer[k].since / 100,
                     newer[k].since % 100);
  const bc_type_row *r = bc_type_named(HS_STR("vhlo"), s);
  if (!r) return no_form(W, "the type", s);
  hs_buf b = {0};
  mp_varint(&b, r->number);
  return *out = type(W, &b), true;
}

// What stands between the first '<' and the last character.
static mlir_span inside(mlir_span s) {
  const char *open = memchr(s.p, '<', s.n);
  return open ? (mlir_span){open + 1, (size_t)(s.p + s.n - open - 2)} : (mlir_span){s.p, 0};
}

// <3, ?> as VHLO has it
static u32 bounds(mlir_portable *W, mlir_span s) {
  hs_buf b = {0}, list = {0};
  u32 n = 0;
  mlir_span in = inside(s);
  for (const char *p = in.p, *end = in.p + in.n; p < end; n++) {
    i64 v = 0;
    while (p < end && (*p == ' ' || *p == ',')) p++;
    bool open = p < end && *p == '?';
    for (; p < end && *p != ','; p++)
      if (*p >= '0' && *p <= '9') v = v * 10 + (*p - '0');
    mp_signed(&list, open ? INT64_MIN : v);
  }
  mp_varint(&b, V_BOUNDS);
  mp_varint(&b, n);
  hs_buf_put(&b, list.p ? list.p : "", list.n);
  hs_buf_free(&list);
  return attr(W, MP_VHLO, &b);
}

// 2x?xf32, #stablehlo.bounds<?, 3>
static bool tensor(mlir_portable *W, mlir_span s, u32 *out) {
  hs_buf b = {0}, dims = {0};
  const char *p = s.p, *end = s.p + s.n;
  u32 rank = 0, element;
  while (p < end && ((*p >= '0' && *p <= '9') || *p == '?')) {
    i64 v = 0;
    bool open = *p == '?';
    for (; p < end && *p != 'x'; p++) v = v * 10 + (*p - '0');
    mp_signed(&dims, open ? INT64_MIN : v);
    rank++;
    p++;
  }
  const char *comma = memchr(p, ',', (size_t)(end - p));
  bool ok = mp_type(W, (mlir_span){p, (size_t)((comma ? comma : end) - p)}, &element);
  mp_varint(&b, comma ? T_ENCODED : T_TENSOR);
  if (comma && ok) {
    mlir_span e = trimmed((mlir_span){comma + 1, (size_t)(end - comma - 1)});
    ok = begins(e, "#stablehlo.bounds<") || no_form(W, "the encoding", e);
    if (ok) mp_varint(&b, bounds(W, e));
  }
  mp_varint(&b, rank);
  hs_buf_put(&b, dims.p ? dims.p : "", dims.n);
  hs_buf_free(&dims);
  if (ok) mp_varint(&b, element);
  if (!ok) return hs_buf_free(&b), false;
  return *out = type(W, &b), true;
}

static bool tuple(mlir_portable *W, mlir_span s, u32 *out) {
  mlir_reader *R = W->R;
  hs_buf b = {0}, list = {0};
  u32 n = 0, k;
  mlir_place was = mlir_enter(R, s);
  bool ok = true;
  while (ok && hlo_peek(RX)) {
    mlir_span one;
    ok = (!n || hlo_expect(RX, ',', "between types")) && mlir_skip_value(RX, false, &one) &&
         mp_type(W, one, &k);
    if (ok) mp_varint(&list, k);
    n++;
  }
  mlir_leave(R, was);
  mp_varint(&b, T_TUPLE);
  mp_varint(&b, n);
  hs_buf_put(&b, list.p ? list.p : "", list.n);
  hs_buf_free(&list);
  if (!ok) return hs_buf_free(&b), false;
  return *out = type(W, &b), true;
}

bool mp_type(mlir_portable *W, mlir_span s, u32 *out) {
  s = trimmed(s);
  if (begins(s, "tensor<")) return tensor(W, inside(s), out);
  if (begins(s, "tuple<")) return tuple(W, inside(s), out);
  if (!begins(s, "complex<")) return word_type(W, s, out);
  hs_buf b = {0};
  u32 part;
  if (!mp_type(W, inside(s), &part)) return false;
  mp_varint(&b, T_COMPLEX);
  mp_varint(&b, part);
  return *out = type(W, &b), true;
}

static bool type_list(mlir_portable *W, hs_buf *b, u32 n, const mlir_span *v) {
  u32 k;
  mp_varint(b, n);
  for (u32 j = 0; j < n; j++) {
    if (!mp_type(W, v[j], &k)) return false;
    mp_varint(b, k);
  }
  return true;
}

bool mp_function_type(mlir_portable *W, u32 nin, const mlir_span *in, u32 nout,
                      const mlir_span *results, u32 *out) {
  hs_buf b = {0};
  mp_varint(&b, T_FUNCTION);
  if (!type_list(W, &b, nin, in) || !type_list(W, &b, nout, results)) return hs_buf_free(&b), false;
  u32 t = type(W, &b);
  mp_varint(&b, V_TYPE);
  mp_varint(&b, t);
  return *out = attr(W, MP_VHLO, &b), true;
}

// ---- values -------------------------------------------------------------------------------------
static u32 number_attr(mlir_portable *W, u32 number, u64 v) {
  hs_buf b = {0};
  mp_varint(&b, number);
  mp_varint(&b, v);
  return attr(W, MP_VHLO, &b);
}

u32 mp_string_attr(mlir_portable *W, hs_str s) { return number_attr(W, V_STRING, mp_string(W, s)); }

u32 mp_own_string(mlir_portable *W, hs_str s) {
  hs_buf b = {0};
  mp_varint(&b, OWN_STRING);
  mp_varint(&b, mp_string(W, s));
  return attr(W, MP_BUILTIN, &b);
}

u32 mp_list(mlir_portable *W, u32 n, const u32 *v) {
  hs_buf b = {0};
  mp_varint(&b, V_ARRAY);
  mp_varint(&b, n);
  for (u32 k = 0; k < n; k++) mp_varint(&b, v[k]);
  return attr(W, MP_VHLO, &b);
}

// A number of so many bits, without its sign.
static void put_bits(hs_buf *b, u32 bits, u64 v) {
  if (bits < 64) v &= ((u64)1 << bits) - 1;
  if (bits <= 8) hs_buf_putc(b, (char)v);
  else mp_signed(b, (i64)v);
}

// 1, 1 : i32, 1.5 : f32
static bool plain_number(mlir_portable *W, mlir_span s, u32 *out) {
  mlir_reader *R = W->R;
  const char *colon = memchr(s.p, ':', s.n);
  mlir_span v = trimmed((mlir_span){s.p, colon ? (size_t)(colon - s.p) : s.n});
  mlir_span t = HS_STR("i64");
  bool fraction = !memmem(v.p, v.n, "0x", 2) && (memchr(v.p, '.', v.n) || memchr(v.p, 'e', v.n));
  if (fraction) t = HS_STR("f64");
  if (colon) t = trimmed((mlir_span){colon + 1, (size_t)(s.p + s.n - colon - 1)});
  hlo_dtype d = mlir_dtype(t);
  u32 k;
  i64 bits = 0;
  if (d == HLO_DT_INVALID || hlo_dtype_is_complex(d)) return no_form(W, "the number", s);
  if (hlo_dtype_is_float(d)) {
    double x;
    if (!mlir_float_of(R, v, &x)) return false;
    hlo_elem_from_f64(d, &bits, x);
  } else if (!mlir_int_of(R, v, &bits)) {
    return false;
  }
  if (!mp_type(W, t, &k)) return false;
  hs_buf b = {0};
  mp_varint(&b, hlo_dtype_is_float(d) ? V_FLOAT : V_INT);
  mp_varint(&b, k);
  put_bits(&b, (u32)hlo_dtype_bits(d), (u64)bits);
  return *out = attr(W, MP_VHLO, &b), true;
}

// Elements in row-major order, of one value that value; truth values as bits.
static u32 put_tensor(mlir_portable *W, u32 t, hlo_dtype d, u64 n, const void *data) {
  size_t size = hlo_dtype_storage(d);
  const u8 *p = data;
  bool splat = n > 0;
  for (u64 k = 1; splat && k < n; k++) splat = !memcmp(p, p + k * size, size);
  hs_buf b = {0};
  mp_varint(&b, V_TENSOR);
  mp_varint(&b, t);
  if (d != HLO_PRED) {
    u64 bytes = (splat ? 1 : n) * size;
    mp_varint(&b, bytes);
    if (bytes) hs_buf_put(&b, data, bytes);
  } else if (splat) {
    mp_varint(&b, 1);
    hs_buf_putc(&b, *p ? (char)0xFF : 0);
  } else {
    mp_varint(&b, (n + 7) / 8);
    for (u64 k = 0; k < n; k += 8) {
      u32 bits = 0;
      for (u64 j = k; j < n && j < k + 8; j++) bits |= (u32)(p[j] != 0) << (j - k);
      hs_buf_putc(&b, (char)bits);
    }
  }
  return attr(W, MP_VHLO, &b);
}

// tensor<2x3xi64>
static u32 tensor_type(mlir_portable *W, u32 rank, const i64 *dims, const char *element) {
  hs_buf text = {0};
  u32 t = 0;
  hs_buf_puts(&text, "tensor<");
  for (u32 k = 0; k < rank; k++) hs_buf_printf(&text, "%lldx", (long long)dims[k]);
  hs_buf_printf(&text, "%s>", element);
  (void)mp_type(W, (mlir_span){text.p, text.n}, &t);
  hs_buf_free(&text);
  return t;
}

u32 mp_ints(mlir_portable *W, u32 rank, const i64 *dims, const i64 *v) {
  u64 n = 1;
  for (u32 k = 0; k < rank; k++) n *= (u64)dims[k];
  return put_tensor(W, tensor_type(W, rank, dims, "i64"), HLO_S64, n, v);
}

u32 mp_falses(mlir_portable *W, u32 n) {
  i64 dim = n;
  u8 *v = HS_NEW_ARRAY(&W->R->arena, u8, n + 1);
  return put_tensor(W, tensor_type(W, 1, &dim, "i1"), HLO_PRED, n, v);
}

// array<i64: 1, 2>, array<i1: true>, [1, 2] of a struct
static bool ints(mlir_portable *W, mlir_span s, bool truth, u32 *out) {
  hlo_ints v = {0, NULL};
  if (!mlir_ints_of(W->R, s, &v, NULL)) return false;
  i64 dim = v.n;
  if (!truth) return *out = mp_ints(W, 1, &dim, v.v), true;
  u8 *bits = HS_NEW_ARRAY(&W->R->arena, u8, v.n + 1);
  for (u32 k = 0; k < v.n; k++) bits[k] = v.v[k] != 0;
  return *out = put_tensor(W, tensor_type(W, 1, &dim, "i1"), HLO_PRED, v.n, bits), true;
}

// dense<..> : tensor<..>
static bool dense(mlir_portable *W, mlir_span s, u32 *out) {
  mlir_reader *R = W->R;
  mlir_span value, text = {0};
  const hlo_shape *shape = NULL;
  hlo_literal *l;
  u32 t;
  mlir_place was = mlir_enter(R, s);
  bool ok = mlir_skip_value(RX, false, &value) && hlo_expect(RX, ':', "before the type") &&
            mlir_type(R, &shape, &text);
  mlir_leave(R, was);
  if (!ok) return false;
  if (!shape) return no_form(W, "a constant of type", text);
  if (!mp_type(W, text, &t) || !mlir_dense(R, value, shape, &l)) return false;
  *out = put_tensor(W, t, shape->dtype, (u64)shape->elements, l->data);
  return hlo_literal_unref(l), true;
}

// #stablehlo<precision HIGH>
static bool enumeration(mlir_portable *W, mlir_span s, u32 *out) {
  mlir_span mnemonic = inside(s);
  u32 number, value;
  const char *blank = memchr(mnemonic.p, ' ', mnemonic.n);
  mnemonic.n = blank ? (size_t)(blank - mnemonic.p) : 0;
  if (!bc_enum_named(mnemonic, mlir_enum_of(s), &number, &value))
    return no_form(W, "the attribute", s);
  return *out = number_attr(W, number, value), true;
}

static void put_path(hs_buf *b, hlo_ints v) {
  mp_varint(b, v.n);
  for (u32 k = 0; k < v.n; k++) mp_signed(b, v.v[k]);
}

static bool alias(mlir_portable *W, mlir_span s, u32 *out) {
  mlir_reader *R = W->R;
  mlir_attr one = {HS_STR("a"), s};
  mlir_attrs of = {1, &one};
  mlir_span v[3];
  hlo_ints to = {0, NULL}, from = {0, NULL};
  i64 operand = 0;
  if (!mlir_get(R, &of, "a.output_tuple_indices", &v[0]) ||
      !mlir_get(R, &of, "a.operand_index", &v[1]) ||
      !mlir_get(R, &of, "a.operand_tuple_indices", &v[2]) || !mlir_ints_of(R, v[0], &to, NULL) ||
      !mlir_int_of(R, v[1], &operand) || !mlir_ints_of(R, v[2], &from, NULL))
    return no_form(W, "the attribute", s);
  hs_buf b = {0};
  mp_varint(&b, V_ALIAS);
  put_path(&b, to);
  mp_signed(&b, operand);
  put_path(&b, from);
  return *out = attr(W, MP_VHLO, &b), true;
}

static bool list(mlir_portable *W, mlir_span s, u32 *out) {
  u32 n;
  mlir_span *v;
  if (!mlir_array_of(W->R, s, &n, &v)) return false;
  u32 *k = HS_NEW_ARRAY(&W->R->arena, u32, n + 1);
  for (u32 j = 0; j < n; j++)
    if (!mp_attr(W, v[j], &k[j])) return false;
  return *out = mp_list(W, n, k), true;
}

bool mp_dict(mlir_portable *W, const mlir_attrs *a, u32 *out) {
  u32 *k = HS_NEW_ARRAY(&W->R->arena, u32, a->n + 1);
  for (u32 j = 0; j < a->n; j++)
    if (!mp_attr(W, a->v[j].value, &k[j])) return false;
  hs_buf b = {0};
  mp_varint(&b, V_DICT);
  mp_varint(&b, a->n);
  for (u32 j = 0; j < a->n; j++) {
    mp_varint(&b, mp_string_attr(W, a->v[j].name));
    mp_varint(&b, k[j]);
  }
  return *out = attr(W, MP_VHLO, &b), true;
}

static bool symbol(mlir_portable *W, mlir_span s, u32 *out) {
  mlir_reader *R = W->R;
  hs_str name;
  mlir_place was = mlir_enter(R, s);
  bool ok = mlir_symbol(RX, &name);
  mlir_leave(R, was);
  return ok && (*out = mp_string_attr(W, name), true);
}

// The version of a custom call's interface is a number in the text and an attribute of its own
// here: "api N".
static bool other(mlir_portable *W, mlir_span s, u32 *out) {
  i64 v;
  if (begins(s, "api ")) {
    s.p += 4, s.n -= 4;
    return mlir_int_of(W->R, s, &v) && (*out = number_attr(W, V_API, (u64)v), true);
  }
  if (hs_str_eq(s, HS_STR("true")) || hs_str_eq(s, HS_STR("false")))
    return *out = number_attr(W, V_BOOL, *s.p == 't'), true;
  if (hs_str_eq(s, HS_STR("default accuracy"))) {
    hs_buf b = {0};
    u32 mode = number_attr(W, V_MODE, 0);
    mp_varint(&b, V_ACCURACY);
    for (u32 k = 0; k < 3; k++) mp_signed(&b, 0);
    mp_varint(&b, mode);
    return *out = attr(W, MP_VHLO, &b), true;
  }
  u32 t;
  if (!mp_type(W, s, &t)) return false;
  return *out = number_attr(W, V_TYPE, t), true;
}

bool mp_attr(mlir_portable *W, mlir_span s, u32 *out) {
  mlir_reader *R = W->R;
  hs_str text;
  mlir_attrs dict = {0};
  s = trimmed(mlir_unalias(R, s));
  if (!s.n) return mp_fail(W, "an attribute without a value is not written");
  if (begins(s, "dense<")) return dense(W, s, out);
  if (begins(s, "array<i64")) return ints(W, s, false, out);
  if (begins(s, "array<i1")) return ints(W, s, true, out);
  if (begins(s, "#stablehlo<")) return enumeration(W, s, out);
  if (begins(s, "#stablehlo.output_operand_alias<")) return alias(W, s, out);
  if (begins(s, "ints [")) return ints(W, (mlir_span){s.p + 5, s.n - 5}, false, out);
  switch (*s.p) {
  case '"': return mlir_string_of(R, s, &text) && (*out = mp_string_attr(W, text), true);
  case '@': return symbol(W, s, out);
  case '{': return mlir_dict_of(R, s, &dict) && mp_dict(W, &dict, out);
  case '[': return list(W, s, out);
  default: break;
  }
  bool digit = (*s.p >= '0' && *s.p <= '9') || *s.p == '-';
  return digit ? plain_number(W, s, out) : other(W, s, out);
}

// ---- what stays MLIR's --------------------------------------------------------------------------
u32 mp_own_int(mlir_portable *W, i64 v) {
  hs_buf b = {0};
  mp_varint(&b, OWN_INTEGER);
  mp_varint(&b, 32u << 2);
  u32 t = mp_entry(W, &W->types, MP_BUILTIN, &b);
  mp_varint(&b, OWN_INT);
  mp_varint(&b, t);
  put_bits(&b, 32, (u64)v);
  return attr(W, MP_BUILTIN, &b);
}

u32 mp_own_dict(mlir_portable *W, u32 n, const mp_named *v) {
  hs_buf b = {0}, pairs = {0};
  for (u32 k = 0; k < n; k++) {
    mp_varint(&pairs, mp_own_string(W, v[k].name));
    mp_varint(&pairs, v[k].value);
  }
  mp_varint(&b, OWN_DICT);
  mp_varint(&b, n);
  hs_buf_put(&b, pairs.p ? pairs.p : "", pairs.n);
  hs_buf_free(&pairs);
  return attr(W, MP_BUILTIN, &b);
}

static u32 unknown(mlir_portable *W) {
  hs_buf b = {0};
  mp_varint(&b, OWN_NONE);
  return attr(W, MP_BUILTIN, &b);
}

// The name, around the position.
bool mp_location(mlir_portable *W, mlir_span s, u32 *out) {
  const hlo_metadata *m = mlir_metadata(W->R, s);
  hs_buf b = {0};
  *out = unknown(W);
  if (W->R->lex.failed) return false;
  if (m && m->source_file.n) {
    u32 file = mp_own_string(W, m->source_file);
    mp_varint(&b, OWN_FILE);
    mp_varint(&b, file);
    mp_varint(&b, (u64)HS_MAX(m->source_line, 0));
    mp_varint(&b, (u64)HS_MAX(m->source_column, 0));
    *out = attr(W, MP_BUILTIN, &b);
  }
  if (m && m->op_name.n) {
    u32 name = mp_own_string(W, m->op_name);
    mp_varint(&b, OWN_NAME);
    mp_varint(&b, name);
    mp_varint(&b, *out);
    *out = attr(W, MP_BUILTIN, &b);
  }
  return true;
}
