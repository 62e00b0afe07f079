// dense.c — constants: dense<..> of nested lists, of one value for all elements, of raw bytes in
// hexadecimal; dense_resource<name>, whose bytes stand behind the module.
//
// Numbers go straight into the literal's buffer. A number 0x.. for a floating-point element is its
// bit pattern. Raw bytes are little-endian in row-major order; booleans are one byte each, or one
// bit where older versions wrote them so; the length tells which. One element's bytes fill all.
#include "core/mlir/tree.h"

static int digit_of(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  c = (char)(c | 32);
  return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

// A number 0x.. at the cursor; false: there is none.
static bool read_hex(hlo_lex *L, u64 *out) {
  if (hlo_at(L, 0) != '0' || (hlo_at(L, 1) | 32) != 'x') return false;
  L->p += 2;
  for (*out = 0; L->p < L->end && digit_of(*L->p) >= 0; L->p++)
    *out = *out << 4 | (u64)digit_of(*L->p);
  return true;
}

static bool read_part(mlir_reader *R, hlo_dtype t, void *to) {
  char c = hlo_peek(RX);
  const char *at = RX->p;
  u64 bits;
  if (hlo_dtype_is_float(t)) {
    if (read_hex(RX, &bits)) return memcpy(to, &bits, hlo_dtype_storage(t)), true;
    size_t used = 0;
    double v = hlo_scan_double(RX->p, RX->end, &used);
    if (!used) return hlo_lex_error(RX, HS_E_LITERAL, at, "expects a number");
    RX->p += used;
    if (t == HLO_F32) *(float *)to = (float)v;
    else hlo_elem_from_f64(t, to, v);
    return true;
  }
  i64 v = 0;
  if (c == 't' || c == 'f') {
    hs_str w = mlir_word(RX);
    v = w.n == 4;
    if (w.n != 4 && w.n != 5) return hlo_lex_error(RX, HS_E_LITERAL, at, "expects a number");
    if (t != HLO_PRED)
      return hlo_lex_error(RX, HS_E_LITERAL, at, "a truth value among elements of %s",
                           hlo_dtype_text(t));
  } else if (read_hex(RX, &bits)) {
    v = (i64)bits;
  } else if (!hlo_int(RX, &v)) {
    return false;
  }
  if (t == HLO_PRED) *(u8 *)to = v != 0;
  else hlo_elem_from_i64(t, to, v);
  return true;
}

static bool read_element(mlir_reader *R, hlo_dtype t, u8 *to) {
  if (!hlo_dtype_is_complex(t)) return read_part(R, t, to);
  hlo_dtype part = hlo_dtype_real_part(t);
  return hlo_expect(RX, '(', "at the start of a complex number") && read_part(R, part, to) &&
         hlo_expect(RX, ',', "between the parts of a complex number") &&
         read_part(R, part, to + hlo_dtype_storage(part)) &&
         hlo_expect(RX, ')', "at the end of a complex number");
}

static void fill(hlo_literal *l, size_t size) {
  u8 *p = l->data;
  for (size_t k = size; k < l->bytes; k += size) memcpy(p + k, p, size);
}

// Nested lists: each bracket is a dimension, whose length must be the shape's.
static bool read_lists(mlir_reader *R, hlo_literal *l) {
  const hlo_shape *s = l->shape;
  size_t size = hlo_dtype_storage(s->dtype), at = 0;
  i64 counts[HLO_MAX_RANK + 1] = {0};
  u32 depth = 0;
  for (;;) {
    char c = hlo_peek(RX);
    const char *here = RX->p;
    if (c == '[') {
      RX->p++;
      if (depth >= s->rank)
        return hlo_lex_error(RX, HS_E_LITERAL, here,
                             "the constant has more dimensions than its type");
      counts[depth++] = 0;
      if (hlo_peek(RX) != ']') continue;
    } else {
      if (depth != s->rank || at + size > l->bytes)
        return hlo_lex_error(RX, HS_E_LITERAL, here, "the elements do not match the type");
      if (!read_element(R, s->dtype, (u8 *)l->data + at)) return false;
      at += size;
      if (!(at & 0xFFFF) && hs_interrupted()) return hlo_lex_status(RX, hs_stopped(), here);
      counts[depth - 1]++;
    }
    while (hlo_peek(RX) == ']') {
      if (!depth || counts[depth - 1] != s->dims[depth - 1])
        return hlo_lex_error(RX, HS_E_LITERAL, NULL,
                             "%lld elements in dimension %u, which has %lld",
                             depth ? (long long)counts[depth - 1] : 0, depth ? depth - 1 : 0,
                             depth ? (long long)s->dims[depth - 1] : 0);
      RX->p++;
      depth--;
      if (depth) counts[depth - 1]++;
    }
    if (!depth) break;
    if (!hlo_expect(RX, ',', "between the elements")) return false;
  }
  return at == l->bytes ||
         hlo_lex_error(RX, HS_E_LITERAL, NULL, "the elements do not match the type");
}

static bool read_raw(mlir_reader *R, const char *p, size_t digits, hlo_literal *l) {
  hlo_dtype t = l->shape->dtype;
  size_t size = hlo_dtype_storage(t), n = digits / 2, count = l->bytes / size;
  u8 *to = l->data;
  for (size_t k = 0; k < digits; k++)
    if (digit_of(p[k]) < 0) return hlo_lex_error(RX, HS_E_LITERAL, p + k, "no hexadecimal digit");
#define BYTE(k) ((u8)(digit_of(p[2 * (k)]) << 4 | digit_of(p[2 * (k) + 1])))
  bool packed = t == HLO_PRED && n != count && n == (count + 7) / 8;
  if (!packed && n != l->bytes && n != size)
    return hlo_lex_error(RX, HS_E_LITERAL, p, "%zu bytes for a constant of %zu", n, l->bytes);
  if (!l->bytes) return true;
  if (packed)
    for (size_t k = 0; k < count; k++) to[k] = BYTE(k / 8) >> (k % 8) & 1;
  else
    for (size_t k = 0; k < n; k++) to[k] = BYTE(k);
#undef BYTE
  if (t == HLO_PRED && !packed)
    for (size_t k = 0; k < n; k++) to[k] = to[k] != 0;
  if (!packed && n == size) fill(l, size);
  return true;
}

// The bytes of a constant as bytecode has them.
static bool read_blob(mlir_reader *R, const hs_str *blob, mlir_span name, hlo_literal *l) {
  hlo_dtype t = l->shape->dtype;
  size_t size = hlo_dtype_storage(t), count = l->bytes / size;
  u8 *to = l->data;
  bool packed = t == HLO_PRED && blob->n != count && blob->n == (count + 7) / 8;
  if (!packed && blob->n != l->bytes && blob->n != size)
    return hlo_lex_error(RX, HS_E_LITERAL, name.p, "%zu bytes for a constant of %zu", blob->n,
                         l->bytes);
  if (!l->bytes) return true;
  if (packed)
    for (size_t k = 0; k < count; k++) to[k] = (u8)blob->p[k / 8] >> (k % 8) & 1;
  else memcpy(to, blob->p, blob->n);
  if (t == HLO_PRED && !packed)
    for (size_t k = 0; k < blob->n; k++) to[k] = to[k] != 0;
  if (!packed && blob->n == size) fill(l, size);
  return true;
}

static bool read_resource(mlir_reader *R, mlir_span name, hlo_literal *l) {
  u32 n = 0;
  const hs_str *blob = mlir_names_find(&R->blobs, name, NULL);
  if (blob) return read_blob(R, blob, name, l);
  const char *p = mlir_names_find(&R->resources, name, &n);
  if (!p)
    return hlo_lex_error(RX, HS_E_NAME, name.p, "no resource '%.*s' stands behind the module",
                         (int)HS_MIN(name.n, 80u), name.p);
  // 4 bytes of alignment in front
  if (n < 10 || p[0] != '0' || p[1] != 'x')
    return hlo_lex_error(RX, HS_E_LITERAL, p, "expects \"0x\" and the bytes of the resource");
  return read_raw(R, p + 10, n - 10, l);
}

static bool read_value(mlir_reader *R, hlo_literal *l) {
  size_t size = hlo_dtype_storage(l->shape->dtype);
  bool resource = hlo_accept_text(RX, "dense_resource");
  bool dense = resource || hlo_accept_text(RX, "dense");
  if (dense && !hlo_expect(RX, '<', "after 'dense'")) return false;
  char c = hlo_peek(RX);
  bool ok;
  if (resource) {
    hs_str name = mlir_word(RX);
    if (!name.n && !mlir_string(RX, &name)) return false;
    ok = read_resource(R, name, l);
  } else if (c == '"') {
    const char *s = RX->p + 1, *stop = memchr(s, '"', (size_t)(RX->end - s));
    if (!stop || stop - s < 2 || s[0] != '0' || s[1] != 'x')
      return hlo_lex_error(RX, HS_E_LITERAL, NULL, "expects \"0x\" and bytes in hexadecimal");
    ok = read_raw(R, s + 2, (size_t)(stop - s - 2), l);
    RX->p = stop + 1;
  } else if (c == '>' && dense) {
    ok = l->bytes == 0 || hlo_lex_error(RX, HS_E_LITERAL, NULL, "a constant without elements");
  } else if (c == '[') {
    ok = read_lists(R, l);
  } else {
    u8 one[16];
    ok = read_element(R, l->shape->dtype, l->bytes ? l->data : one);
    if (ok && l->bytes) fill(l, size);
  }
  return ok && (!dense || hlo_expect(RX, '>', "at the end of the constant"));
}

bool mlir_dense(mlir_reader *R, mlir_span s, const hlo_shape *shape, hlo_literal **out) {
  s = mlir_unalias(R, s);
  *out = NULL;
  if (!hlo_shape_is_array(shape) || shape->dynamic)
    return hlo_lex_error(RX, HS_E_LITERAL, s.p, "a constant of a type that is no static array");
  if (!hlo_lex_status(RX, hlo_literal_new(shape, out), s.p)) return *out = NULL, false;
  mlir_place was = mlir_enter(R, s);
  bool ok = read_value(R, *out);
  mlir_leave(R, was);
  if (!ok) hlo_literal_unref(*out), *out = NULL;
  return ok;
}
