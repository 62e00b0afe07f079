// attr.c — types, constants and attributes as StableHLO's text has them.
#include "core/mlir/print/print.h"

#include <ctype.h>
#include <math.h>

// ---- types --------------------------------------------------------------------------------------
static bool print_element(mlir_printer *P, const hlo_instr *i, hlo_dtype t) {
  const char *text = hlo_dtype_text(t);
  if (t == HLO_PRED) return hs_buf_puts(P->b, "i1"), true;
  if (hlo_dtype_is_complex(t)) {
    hs_buf_puts(P->b, t == HLO_C64 ? "complex<f32>" : "complex<f64>");
    return true;
  }
  if (hlo_dtype_is_integer(t)) {
    if (t == HLO_S1 || t == HLO_U1) return print_fail(P, i, "numbers of one bit");
    hs_buf_printf(P->b, "%s%s", *text == 'u' ? "ui" : "i", text + 1);
    return true;
  }
  if (!hlo_dtype_is_float(t)) return print_fail(P, i, "the type %s", text);
  // f8e4m3fn is f8E4M3FN
  bool narrow = strchr(text, 'e') != NULL;
  for (const char *p = text; *p; p++)
    hs_buf_putc(P->b, (char)(narrow && p > text ? toupper((unsigned char)*p) : *p));
  return true;
}

bool print_type(mlir_printer *P, const hlo_instr *i, const hlo_shape *s) {
  if (s->dtype == HLO_TOKEN) return hs_buf_puts(P->b, "!stablehlo.token"), true;
  if (hlo_shape_is_tuple(s)) {
    hs_buf_puts(P->b, "tuple<");
    for (u32 k = 0; k < s->nelems; k++) {
      if (k) hs_buf_puts(P->b, ", ");
      if (!print_type(P, i, s->elems[k])) return false;
    }
    hs_buf_putc(P->b, '>');
    return true;
  }
  if (!hlo_shape_is_array(s)) return print_fail(P, i, "the type %s", hlo_dtype_text(s->dtype));
  bool bounded = false;
  hs_buf_puts(P->b, "tensor<");
  for (u32 k = 0; k < s->rank; k++) {
    bool open = hlo_dim_is_dynamic(s, k);
    bounded |= open && s->dims[k] != HLO_UNBOUNDED;
    if (open || s->dims[k] == HLO_UNBOUNDED) hs_buf_puts(P->b, "?x");
    else hs_buf_printf(P->b, "%lldx", (long long)s->dims[k]);
  }
  if (!print_element(P, i, s->dtype)) return false;
  for (u32 k = 0; bounded && k < s->rank; k++) {
    hs_buf_puts(P->b, k ? ", " : ", #stablehlo.bounds<");
    if (s->dynamic[k] && s->dims[k] != HLO_UNBOUNDED)
      hs_buf_printf(P->b, "%lld", (long long)s->dims[k]);
    else hs_buf_putc(P->b, '?');
  }
  hs_buf_puts(P->b, bounded ? ">>" : ">");
  return true;
}

// ---- constants ----------------------------------------------------------------------------------
static void print_number(hs_buf *b, hlo_dtype t, const u8 *p) {
  if (t == HLO_PRED) {
    hs_buf_puts(b, *p ? "true" : "false");
  } else if (hlo_dtype_is_integer(t)) {
    i64 v = hlo_elem_to_i64(t, p);
    if (hlo_dtype_is_signed(t)) hs_buf_printf(b, "%lld", (long long)v);
    else hs_buf_printf(b, "%llu", (unsigned long long)v);
  } else if (hlo_dtype_is_complex(t)) {
    hlo_dtype part = hlo_dtype_real_part(t);
    hs_buf_putc(b, '(');
    print_number(b, part, p);
    hs_buf_puts(b, ", ");
    print_number(b, part, p + hlo_dtype_storage(part));
    hs_buf_putc(b, ')');
  } else {
    double v = hlo_elem_to_f64(t, p);
    size_t n = hlo_dtype_storage(t);
    u64 bits = 0;
    memcpy(&bits, p, n);
    // the bits where a decimal would not do
    if (isfinite(v)) hs_buf_printf(b, t == HLO_F64 ? "%.17e" : "%.9e", v);
    else hs_buf_printf(b, "0x%0*llX", (int)(2 * n), (unsigned long long)bits);
  }
}

bool print_literal(mlir_printer *P, const hlo_instr *i, const hlo_literal *l) {
  const hlo_shape *s = l->shape;
  enum { LISTED = 100 };
  if (!hlo_shape_is_array(s)) return print_fail(P, i, "a constant that is no array");
  if (l->elided) return print_fail(P, i, "a constant whose value was left out");
  size_t size = hlo_dtype_storage(s->dtype);
  const u8 *p = l->data;
  hs_buf_puts(P->b, "dense<");
  if (!s->elements) {
  } else if (hlo_literal_is_splat(l)) {
    print_number(P->b, s->dtype, p);
  } else if (s->elements > LISTED && s->dtype != HLO_PRED && !hlo_dtype_is_complex(s->dtype) &&
             (int)size * 8 == hlo_dtype_bits(s->dtype)) {
    static const char digits[] = "0123456789ABCDEF";
    hs_buf_puts(P->b, "\"0x");
    for (size_t k = 0; k < l->bytes; k++) {
      hs_buf_putc(P->b, digits[p[k] >> 4]);
      hs_buf_putc(P->b, digits[p[k] & 15]);
    }
    hs_buf_putc(P->b, '"');
  } else {
    for (i64 k = 0; k < s->elements; k++) {
      i64 inner = 1;
      u32 opens = 0, closes = 0;
      for (u32 d = s->rank; d-- > 0;) {
        inner *= s->dims[d];
        opens += k % inner == 0;
        closes += (k + 1) % inner == 0;
      }
      if (k) hs_buf_puts(P->b, ", ");
      while (opens--) hs_buf_putc(P->b, '[');
      print_number(P->b, s->dtype, p + (size_t)k * size);
      while (closes--) hs_buf_putc(P->b, ']');
    }
  }
  hs_buf_puts(P->b, "> : ");
  return print_type(P, i, s);
}

// ---- values of attributes -----------------------------------------------------------------------
void print_string(hs_buf *b, hs_str s) {
  hs_buf_putc(b, '"');
  for (size_t k = 0; k < s.n; k++) {
    u8 c = (u8)s.p[k];
    if (c < 32 || c > 126 || c == '"' || c == '\\') hs_buf_printf(b, "\\%02X", c);
    else hs_buf_putc(b, (char)c);
  }
  hs_buf_putc(b, '"');
}

void print_symbol(hs_buf *b, const char *name) {
  bool plain = isalpha((unsigned char)*name) || *name == '_';
  for (const char *p = name; *p; p++)
    plain &= isalnum((unsigned char)*p) || *p == '_' || *p == '.' || *p == '$';
  hs_buf_putc(b, '@');
  if (plain) hs_buf_puts(b, name);
  else print_string(b, hs_str_of(name));
}

void print_ints(hs_buf *b, const char *before, u32 n, const i64 *v, const char *after) {
  hs_buf_puts(b, before);
  for (u32 k = 0; k < n; k++) hs_buf_printf(b, "%s%lld", k ? ", " : "", (long long)v[k]);
  hs_buf_puts(b, after);
}

static void print_array(hs_buf *b, u32 n, const i64 *v) {
  print_ints(b, n ? "array<i64: " : "array<i64", n, v, ">");
}

void print_rows(hs_buf *b, u32 rows, u32 columns, const i64 *v) {
  hs_buf_puts(b, "dense<");
  for (u32 k = 0; k < rows && columns; k++)
    print_ints(b, k ? ", [" : "[[", columns, v + (size_t)k * columns, "]");
  hs_buf_printf(b, "%s> : tensor<%ux%uxi64>", rows && columns ? "]" : "", rows, columns);
}

void print_comma(hs_buf *b) {
  if (b->n) hs_buf_puts(b, ", ");
}

static const char *enum_name(hlo_attr_id id) {
  return id == HLO_ATTR_FFT_TYPE ? "fft_type" : id == HLO_ATTR_TRANSPOSE_A ? "transpose" : NULL;
}

static void print_precision(hs_buf *b, const hlo_ints *v) {
  hs_buf_putc(b, '[');
  for (u32 k = 0; k < v->n; k++) {
    const char *text = hlo_enum_text(HLO_AK_ENUM_PRECISION, v->v[k]);
    hs_buf_puts(b, k ? ", #stablehlo<precision " : "#stablehlo<precision ");
    for (const char *p = text ? text : "default"; *p; p++)
      hs_buf_putc(b, (char)toupper((unsigned char)*p));
    hs_buf_putc(b, '>');
  }
  hs_buf_putc(b, ']');
}

static bool print_value_of(mlir_printer *P, const hlo_instr *i, const mlir_row_attr *row,
                           const hlo_attr *a, bool in_struct, hs_buf *b) {
  const char *text;
  switch (row->how) {
  case MLIR_INT: hs_buf_printf(b, in_struct ? "%lld" : "%lld : i64", (long long)a->v.i); break;
  case MLIR_INT32: hs_buf_printf(b, "%lld : i32", (long long)a->v.i); break;
  case MLIR_BOOL: hs_buf_puts(b, a->v.i ? "true" : "false"); break;
  case MLIR_FLOAT: hs_buf_printf(b, "%.9e : f32", a->v.f); break;
  case MLIR_PRECISION: print_precision(b, &a->v.ints); break;
  case MLIR_DIM:
    if (a->v.ints.n != 1) return print_fail(P, i, "several %s", hlo_attr_text(row->id));
    hs_buf_printf(b, "%lld : i64", (long long)a->v.ints.v[0]);
    break;
  case MLIR_INTS:
    if (in_struct) print_ints(b, "[", a->v.ints.n, a->v.ints.v, "]");
    else print_array(b, a->v.ints.n, a->v.ints.v);
    break;
  case MLIR_ENUM:
    text = hlo_enum_text(hlo_attr_kind_of(row->id), a->v.i);
    hs_buf_printf(b, "#stablehlo<%s %s>", enum_name(row->id), text ? text : "");
    break;
  case MLIR_RNG_ENUM:
    text = hlo_enum_text(hlo_attr_kind_of(row->id), a->v.i);
    hs_buf_puts(b, "#stablehlo<rng_algorithm ");
    for (const char *p = text ? text + 4 : ""; *p; p++)
      hs_buf_putc(b, (char)toupper((unsigned char)*p));
    hs_buf_putc(b, '>');
    break;
  default: return print_fail(P, i, "%s", hlo_attr_text(row->id));
  }
  return true;
}

// The struct's mnemonic: of gather, scatter, ragged_dot.
static const char *struct_name(const hlo_instr *i) {
  return i->opcode == HLO_GATHER    ? "#stablehlo.gather"
         : i->opcode == HLO_SCATTER ? "#stablehlo.scatter"
                                    : "#chlo.ragged_dot";
}

bool print_row_attrs(mlir_printer *P, const hlo_instr *i, const mlir_row *row, hs_buf *b) {
  hs_str open = {0};
  for (const mlir_row_attr *r = row->attrs; r->how != MLIR_END; r++) {
    const hlo_attr *a = hlo_attr_get(i, r->id);
    const char *name = strrchr(r->names, '|');
    name = name ? name + 1 : r->names;
    const char *dot = strchr(name, '.');
    hlo_attr absent = {r->id, {0}};
    // what HLO leaves out and StableHLO wants
    bool wanted = r->how == MLIR_BOOL || r->id == HLO_ATTR_FEATURE_GROUP_COUNT ||
                  r->id == HLO_ATTR_BATCH_GROUP_COUNT;
    absent.v.i = r->how == MLIR_INT;
    if (open.n && (!dot || (size_t)(dot - name) != open.n)) hs_buf_putc(b, '>'), open.n = 0;
    if (!a && r->how == MLIR_INTS && !dot) absent.v.ints = (hlo_ints){0, NULL};
    else if (!a && !wanted) continue;
    if (dot && !open.n) {
      open = (hs_str){name, (size_t)(dot - name)};
      print_comma(b);
      hs_buf_printf(b, "%.*s = %s<", (int)open.n, open.p, struct_name(i));
    } else {
      print_comma(b);
    }
    hs_buf_printf(b, "%s = ", dot ? dot + 1 : name);
    if (!print_value_of(P, i, r, a ? a : &absent, dot != NULL, b)) return false;
  }
  if (open.n) hs_buf_putc(b, '>');
  return true;
}

void print_frontend(const hlo_frontend *f, bool any, hs_buf *b) {
  if (!f || !f->n) return;
  hs_buf_puts(b, any ? ", mhlo.frontend_attributes = {" : "mhlo.frontend_attributes = {");
  for (u32 k = 0; k < f->n; k++) {
    if (k) hs_buf_puts(b, ", ");
    print_string(b, f->v[k].key);
    hs_buf_puts(b, " = ");
    print_string(b, f->v[k].value);
  }
  hs_buf_putc(b, '}');
}

bool print_common(mlir_printer *P, const hlo_instr *i, hs_buf *b) {
  const hlo_attr *sharding = hlo_attr_get(i, HLO_ATTR_SHARDING);
  bool any = false;
  (void)P;
  if (sharding) {
    hs_buf text = {0};
    hlo_print_options o = hlo_print_short_parsable();
    hlo_print_attr_value(&text, i, sharding, &o);
    hs_buf_puts(b, "mhlo.sharding = ");
    print_string(b, (hs_str){text.p, text.n});
    hs_buf_free(&text);
    any = true;
  }
  if (i->opcode == HLO_PARAMETER && hlo_attr_get(i, HLO_ATTR_PARAMETER_REPLICATION)) {
    hlo_ints v = hlo_attr_ints(i, HLO_ATTR_PARAMETER_REPLICATION);
    hs_buf_puts(b, any ? ", mhlo.parameter_replication = [" : "mhlo.parameter_replication = [");
    for (u32 k = 0; k < v.n; k++)
      hs_buf_printf(b, "%s%s", k ? ", " : "", v.v[k] ? "true" : "false");
    hs_buf_putc(b, ']');
    any = true;
  }
  print_frontend(hlo_attr_ptr(i, HLO_ATTR_FRONTEND_ATTRIBUTES), any, b);
  return true;
}
