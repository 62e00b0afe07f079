// bytecode_type.c — types of MLIR bytecode, as the text would have them. A type is written once;
// then the text's reader interns its shape. Types and enumerations are looked up by the numbers of
// bytecode.def, as the reader has them, and by their text, as the writer of artifacts does.
#include "core/mlir/bytecode.h"

#include "core/types/literal.h"

// ---- the numbers of bytecode.def ----------------------------------------------------------------
#define BUILTIN "builtin"
#define VHLO "vhlo"
#define SDY "sdy"
static const bc_type_row types[] = {
#define BC_TYPE(dialect, number, kind, text) {dialect, number, BC_##kind, text},
#include "core/mlir/bytecode.def"
#undef BC_TYPE
};

// The attributes that have a mnemonic are the enumerations.
static const struct {
  u32 number;
  const char *mnemonic;
} enums[] = {
#define BC_ATTR(dialect, number, kind, text) {number, text},
#include "core/mlir/bytecode.def"
#undef BC_ATTR
};

static const struct {
  u32 number, value;
  const char *text;
} values[] = {
#define BC_ENUM(number, value, text) {number, value, text},
#include "core/mlir/bytecode.def"
#undef BC_ENUM
};

static const bc_type_row *type_numbered(hs_str dialect, u64 number) {
  for (size_t k = 0; k < HS_COUNT(types); k++)
    if (types[k].number == number && hs_str_eq(dialect, hs_str_of(types[k].dialect)))
      return &types[k];
  return NULL;
}

const bc_type_row *bc_type_named(hs_str dialect, hs_str text) {
  for (size_t k = 0; k < HS_COUNT(types); k++)
    if (types[k].kind == BC_WORD && hs_str_eq(text, hs_str_of(types[k].text)) &&
        hs_str_eq(dialect, hs_str_of(types[k].dialect)))
      return &types[k];
  return NULL;
}

const char *bc_enum_text(u32 number, u64 value) {
  for (size_t k = 0; k < HS_COUNT(values); k++)
    if (values[k].number == number && values[k].value == value) return values[k].text;
  return NULL;
}

bool bc_enum_named(hs_str mnemonic, hs_str text, u32 *number, u32 *value) {
  for (size_t k = 0; k < HS_COUNT(enums); k++) {
    if (!mnemonic.n || !hs_str_eq(mnemonic, hs_str_of(enums[k].mnemonic))) continue;
    *number = enums[k].number;
    for (size_t j = 0; j < HS_COUNT(values); j++)
      if (values[j].number == *number && hs_str_eq(text, hs_str_of(values[j].text)))
        return *value = values[j].value, true;
  }
  return false;
}

// ---- types --------------------------------------------------------------------------------------
static bool put_type(mlir_bc *, hs_buf *, u32 index);

static bool put_next(mlir_bc *B, bc_at *c, hs_buf *out) {
  u32 k;
  return bc_index(B, c, B->ntypes, "type", &k) && put_type(B, out, k);
}

static bool put_list(mlir_bc *B, bc_at *c, hs_buf *out) {
  u32 n;
  if (!bc_count(B, c, &n)) return false;
  for (u32 k = 0; k < n; k++) {
    if (k) hs_buf_puts(out, ", ");
    if (!put_next(B, c, out)) return false;
  }
  return true;
}

// "2x?x" and the element's type.
static bool put_dims(mlir_bc *B, bc_at *c, hs_buf *out) {
  u32 n;
  if (!bc_count(B, c, &n)) return false;
  for (u32 k = 0; k < n; k++) {
    i64 v;
    if (!bc_signed(B, c, &v)) return false;
    if (v < 0) hs_buf_putc(out, '?');
    else hs_buf_i64(out, v);
    hs_buf_putc(out, 'x');
  }
  return put_next(B, c, out);
}

static bool read_scale(mlir_bc *B, bc_at *c, double *out) {
  i64 bits;
  *out = 0;
  if (!bc_signed(B, c, &bits)) return false;
  return memcpy(out, &bits, sizeof bits), true;
}

// i8<-127:127>:f32 with what stands behind the storage's type.
static bool put_storage(mlir_bc *B, bc_at *c, hs_buf *out, hs_buf *expressed) {
  u64 flags;
  hs_buf storage = {0};
  bool ok = bc_varint(B, c, &flags) && put_next(B, c, &storage) && put_next(B, c, expressed);
  const char *bits = hs_buf_cstr(&storage);
  bits += strspn(bits, "usi");
  if (ok) hs_buf_printf(out, "%c%s", flags & 1 ? 'i' : 'u', bits);
  hs_buf_free(&storage);
  return ok;
}

static bool put_quantized(mlir_bc *B, bc_at *c, hs_buf *out, bool per_axis) {
  hs_buf expressed = {0};
  u64 axis = 0;
  i64 zero = 0, low = 0, high = 0;
  double scale = 0;
  hs_buf_puts(out, "!quant.uniform<");
  bool ok = put_storage(B, c, out, &expressed);
  if (per_axis) ok = ok && bc_varint(B, c, &axis);
  else ok = ok && read_scale(B, c, &scale) && bc_signed(B, c, &zero);
  ok = ok && bc_signed(B, c, &low) && bc_signed(B, c, &high);
  if (ok)
    hs_buf_printf(out, "<%lld:%lld>:%s", (long long)low, (long long)high, hs_buf_cstr(&expressed));
  hs_buf_free(&expressed);
  if (!ok) return false;
  if (!per_axis) return hs_buf_printf(out, ", %.17g:%lld>", scale, (long long)zero), true;
  u32 n, m;
  bc_at scales;
  hs_buf_printf(out, ":%llu, {", (unsigned long long)axis);
  if (!bc_count(B, c, &n)) return false;
  scales = *c;
  for (u32 k = 0; k < n; k++)
    if (!read_scale(B, c, &scale)) return false;
  const char *at = c->p;
  if (!bc_count(B, c, &m)) return false;
  if (m != n) return bc_bad(B, at, "%u scales and %u zero points", n, m);
  for (u32 k = 0; k < n; k++) {
    if (!read_scale(B, &scales, &scale) || !bc_signed(B, c, &zero)) return false;
    hs_buf_printf(out, "%s%.17g:%lld", k ? ", " : "", scale, (long long)zero);
  }
  return hs_buf_puts(out, "}>"), true;
}

static bool put_function(mlir_bc *B, bc_at *c, hs_buf *out) {
  hs_buf_putc(out, '(');
  if (!put_list(B, c, out)) return false;
  hs_buf_puts(out, ") -> (");
  if (!put_list(B, c, out)) return false;
  return hs_buf_putc(out, ')'), true;
}

static bool put_encoded(mlir_bc *B, bc_at *c, hs_buf *out) {
  u32 k;
  mlir_span s;
  if (!bc_index(B, c, B->nattrs, "attribute", &k)) return false;
  hs_buf_puts(out, "tensor<");
  if (!put_dims(B, c, out) || !bc_attr_text(B, k, BC_ATTR, &s)) return false;
  hs_buf_puts(out, ", ");
  hs_buf_put(out, s.p, s.n);
  return hs_buf_putc(out, '>'), true;
}

static const bc_type_row *row_of(mlir_bc *B, const bc_entry *e, bc_at *c) {
  hs_str dialect = B->dialects[e->dialect];
  u64 number;
  if (!bc_varint(B, c, &number)) return NULL;
  const bc_type_row *r = type_numbered(dialect, number);
  if (!r)
    bc_bad(B, e->at.p, "type %llu of dialect '%.*s' is not known", (unsigned long long)number,
           (int)HS_MIN(dialect.n, 40u), dialect.p);
  return r;
}

static bool put_custom(mlir_bc *B, hs_buf *out, const bc_entry *e) {
  static const char *const open[] = {
      [BC_COMPLEX] = "complex<",   [BC_TENSOR] = "tensor<", [BC_TUPLE] = "tuple<",
      [BC_UNRANKED] = "tensor<*x", [BC_BUFFER] = "memref<", [BC_FUTURE] = "!stablehlo.future<"};
  bc_at c = e->at;
  const bc_type_row *r = row_of(B, e, &c);
  u64 v;
  bool ok = true;
  if (!r) return false;
  switch (r->kind) {
  case BC_WORD: hs_buf_puts(out, r->text); return true;
  case BC_INTEGER:
    if (!bc_varint(B, &c, &v)) return false;
    hs_buf_printf(out, "%si%llu",
                  (v & 3) == 1   ? "s"
                  : (v & 3) == 2 ? "u"
                                 : "",
                  (unsigned long long)(v >> 2));
    return true;
  case BC_FUNCTION: return put_function(B, &c, out);
  case BC_ENCODED: return put_encoded(B, &c, out);
  case BC_QUANTIZED: return put_quantized(B, &c, out, false);
  case BC_PER_AXIS: return put_quantized(B, &c, out, true);
  default: break;
  }
  hs_buf_puts(out, open[r->kind]);
  if (r->kind == BC_TENSOR || r->kind == BC_BUFFER) ok = put_dims(B, &c, out);
  else if (r->kind == BC_TUPLE || r->kind == BC_FUTURE) ok = put_list(B, &c, out);
  else ok = put_next(B, &c, out);
  hs_buf_putc(out, '>');
  return ok;
}

// Types that hold each other are told by the text they make: it is limited.
static bool put_type(mlir_bc *B, hs_buf *out, u32 index) {
  bc_entry *e = &B->types[index];
  hlo_lex *L = &B->R->lex;
  if (out->n > B->budget) return hlo_lex_error(L, HS_E_LIMIT, e->at.p, "a type of endless text");
  if (e->done) return hs_buf_put(out, e->typed.text.p, e->typed.text.n), true;
  if (e->busy) return bc_bad(B, e->at.p, "type %u holds itself", index);
  if (!e->custom) {
    hs_buf_put(out, e->at.p, strnlen(e->at.p, (size_t)(e->at.end - e->at.p)));
    return true;
  }
  if (!hlo_lex_enter(L)) return false;
  e->busy = true;
  bool ok = put_custom(B, out, e);
  e->busy = false;
  hlo_lex_leave(L);
  return ok;
}

bool bc_type(mlir_bc *B, u32 index, mlir_typed *out) {
  bc_entry *e = &B->types[index];
  hlo_lex *L = &B->R->lex;
  if (e->done) return *out = e->typed, true;
  hs_buf text = {0};
  bool ok = put_type(B, &text, index);
  B->written += text.n;
  if (ok && B->written > B->budget)
    ok = hlo_lex_error(L, HS_E_LIMIT, e->at.p, "types and attributes make too much text");
  if (ok) {
    mlir_span s = {hs_arena_strndup(&B->R->arena, text.p ? text.p : "", text.n), text.n};
    e->typed = (mlir_typed){NULL, s};
    // a scalar outside of a tensor has no shape
    if (s.n && (*s.p == '!' || memchr(s.p, '<', s.n))) {
      mlir_place was = mlir_enter(B->R, s);
      ok = mlir_type(B->R, &e->typed.shape, &e->typed.text);
      mlir_leave(B->R, was);
    }
  }
  hs_buf_free(&text);
  e->done = ok;
  return *out = e->typed, ok;
}

bool bc_function_results(mlir_bc *B, u32 type, mlir_types *results) {
  const bc_entry *e = &B->types[type];
  bc_at c = e->at;
  u32 n, k;
  const bc_type_row *r = e->custom ? row_of(B, e, &c) : NULL;
  if (!r || r->kind != BC_FUNCTION)
    return bc_bad(B, e->at.p, "a function whose type is not a function's");
  if (!bc_count(B, &c, &n)) return false;
  while (n--)
    if (!bc_index(B, &c, B->ntypes, "type", &k)) return false;
  if (!bc_count(B, &c, &n)) return false;
  while (n--) {
    mlir_typed t;
    if (!bc_index(B, &c, B->ntypes, "type", &k) || !bc_type(B, k, &t)) return false;
    hs_vec_push(results, t);
  }
  return true;
}
