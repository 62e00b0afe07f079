// types.c — types: tensors, tuples, tokens. What HLO has no type for (quantized elements, index,
// memref, functions) is read over and refused where it is used. A type's text is read once: modules
// repeat a few types everywhere.
#include "core/mlir/tree.h"

hlo_dtype mlir_dtype(hs_str w) {
  static const struct {
    const char *mlir;
    hlo_dtype type;
  } names[] = {
      {"i1", HLO_PRED},  {"index", HLO_S64}, {"i2", HLO_S2},    {"i4", HLO_S4},    {"i8", HLO_S8},
      {"i16", HLO_S16},  {"i32", HLO_S32},   {"i64", HLO_S64},  {"ui2", HLO_U2},   {"ui4", HLO_U4},
      {"ui8", HLO_U8},   {"ui16", HLO_U16},  {"ui32", HLO_U32}, {"ui64", HLO_U64}, {"si8", HLO_S8},
      {"si16", HLO_S16}, {"si32", HLO_S32},  {"si64", HLO_S64},
  };
  for (size_t k = 0; k < HS_COUNT(names); k++)
    if (hs_str_eq(w, hs_str_of(names[k].mlir))) return names[k].type;
  // f32, bf16, f8E4M3FN: HLO's name in other letters
  char low[24];
  if (w.n >= sizeof low || w.n < 2 || (w.p[0] != 'f' && w.p[0] != 'b')) return HLO_DT_INVALID;
  for (size_t k = 0; k < w.n; k++)
    low[k] = (char)(w.p[k] >= 'A' && w.p[k] <= 'Z' ? w.p[k] + 32 : w.p[k]);
  hlo_dtype t = hlo_dtype_find((hs_str){low, w.n});
  return t != HLO_DT_INVALID && hlo_dtype_is_float(t) ? t : HLO_DT_INVALID;
}

// Dimensions of "2x?x3x" up to the element type; letters of types never begin with a digit or '?'.
static bool read_dims(mlir_reader *R, u32 *rank, i64 *dims) {
  for (*rank = 0;;) {
    char c = hlo_peek(RX);
    i64 v = HLO_UNBOUNDED;
    if (c == '?') RX->p++;
    else if (c >= '0' && c <= '9') {
      // 0x3: a size of 0 and not a hexadecimal number, which hlo_int does not read
      if (!hlo_int(RX, &v)) return false;
    } else return true;
    if (*rank == HLO_MAX_RANK)
      return hlo_lex_error(RX, HS_E_LIMIT, NULL, "more than %d dimensions", HLO_MAX_RANK);
    dims[(*rank)++] = v;
    if (!hlo_expect(RX, 'x', "after a dimension")) return false;
  }
}

static bool read_element(mlir_reader *R, hlo_dtype *out) {
  *out = HLO_DT_INVALID;
  if (hlo_peek(RX) == '!') {  // !quant.uniform<..>
    mlir_span s;
    return mlir_skip_value(RX, false, &s);
  }
  const char *at = RX->p;
  hs_str w = mlir_word(RX);
  if (hs_str_eq(w, HS_STR("complex")) && hlo_accept(RX, '<')) {
    hlo_dtype part = mlir_dtype(mlir_word(RX));
    *out = part == HLO_F32 ? HLO_C64 : part == HLO_F64 ? HLO_C128 : HLO_DT_INVALID;
    return hlo_expect(RX, '>', "after the type of complex parts");
  }
  *out = mlir_dtype(w);
  if (*out == HLO_DT_INVALID && !hs_str_eq(w, HS_STR("none")))
    return hlo_lex_error(RX, HS_E_SYNTAX, at, "'%.*s' is no element type", (int)HS_MIN(w.n, 40u),
                         w.p);
  return true;
}

// #stablehlo.bounds<3, ?>, #stablehlo.type_extensions<bounds = [3, ?]>, or an attribute of another
// dialect, which says nothing to HLO
static bool read_encoding(mlir_reader *R, u32 rank, i64 *dims, bool *dynamic) {
  mlir_span s;
  hlo_skip(RX);
  const char *at = RX->p;
  if (!mlir_skip_value(RX, false, &s)) return false;
  s = mlir_unalias(R, s);
  const char *open = memmem(s.p, s.n, "bounds", 6), *stop = s.p + s.n;
  while (open && open < stop && *open != '<' && *open != '[') open++;
  if (!open || open == stop) return true;
  mlir_place was = mlir_enter(R, (mlir_span){open + 1, (size_t)(stop - open - 1)});
  bool ok = true;
  for (u32 k = 0; ok && hlo_peek(RX) != '>' && hlo_peek(RX) != ']'; k++) {
    i64 v = HLO_UNBOUNDED;
    if (k) ok = hlo_expect(RX, ',', "between bounds");
    if (ok && !hlo_accept(RX, '?')) ok = hlo_int(RX, &v);
    if (ok && k >= rank) ok = hlo_lex_error(RX, HS_E_SHAPE, at, "more bounds than dimensions");
    if (ok && v != HLO_UNBOUNDED) {
      if (dims[k] != HLO_UNBOUNDED)
        ok = hlo_lex_error(RX, HS_E_SHAPE, at, "dimension %u is static and has a bound", k);
      dims[k] = v;
      dynamic[k] = true;
    }
  }
  mlir_leave(R, was);
  return ok;
}

static bool read_tensor(mlir_reader *R, const hlo_shape **out) {
  i64 dims[HLO_MAX_RANK], sizes[HLO_MAX_RANK];
  bool dynamic[HLO_MAX_RANK] = {false}, any = false;
  u32 rank;
  hlo_dtype t;
  const char *at = RX->p;
  *out = NULL;
  if (!hlo_expect(RX, '<', "after 'tensor'")) return false;
  if (hlo_peek(RX) == '*') {  // unranked
    RX->p++;
    if (!hlo_expect(RX, 'x', "after '*'") || !read_element(R, &t)) return false;
    return hlo_expect(RX, '>', "at the end of the type");
  }
  if (!read_dims(R, &rank, dims) || !read_element(R, &t)) return false;
  if (hlo_accept(RX, ',') && !read_encoding(R, rank, dims, dynamic)) return false;
  if (!hlo_expect(RX, '>', "at the end of the type")) return false;
  if (t == HLO_DT_INVALID) return true;
  for (u32 k = 0; k < rank; k++) {
    dynamic[k] |= dims[k] == HLO_UNBOUNDED;
    any |= dynamic[k];
    sizes[k] = dims[k] == HLO_UNBOUNDED ? 1 : dims[k];
  }
  if (!hlo_lex_status(RX, hlo_shape_check_limits(t, rank, sizes), at)) return false;
  *out = hlo_shape_dynamic(R->ctx, t, rank, dims, any ? dynamic : NULL, NULL);
  return true;
}

static bool read_type(mlir_reader *R, const hlo_shape **out);

static bool read_tuple(mlir_reader *R, const hlo_shape **out) {
  HS_VEC(const hlo_shape *) parts = {0};
  const char *at = RX->p;
  bool ok = hlo_lex_enter(RX) && hlo_expect(RX, '<', "after 'tuple'"), known = true;
  while (ok && hlo_peek(RX) != '>') {
    const hlo_shape *s;
    if (parts.n) ok = hlo_expect(RX, ',', "between the types of a tuple");
    if (ok && (ok = read_type(R, &s))) {
      known &= s != NULL;
      hs_vec_push(&parts, s);
    }
  }
  if (ok) RX->p++;
  *out = NULL;
  if (ok && known) {
    const hlo_shape *s = hlo_shape_tuple(R->ctx, (u32)parts.n, parts.v);
    ok = hlo_lex_status(RX, hlo_shape_check_tuple(s), at);
    if (ok) *out = s;
  }
  hs_vec_free(&parts);
  hlo_lex_leave(RX);
  return ok;
}

static bool read_type(mlir_reader *R, const hlo_shape **out) {
  *out = NULL;
  char c = hlo_peek(RX);
  const char *at = RX->p;
  mlir_span s;
  if (c == '!') {
    if (!mlir_skip_value(RX, false, &s)) return false;
    s = mlir_unalias(R, s);
    if (s.n > 6 && memcmp(s.p + s.n - 6, ".token", 6) == 0) *out = hlo_shape_token(R->ctx);
    return true;
  }
  if (c == '(') return mlir_skip_value(RX, false, &s);  // a function type
  hs_str w = mlir_word(RX);
  if (hs_str_eq(w, HS_STR("tensor"))) return read_tensor(R, out);
  if (hs_str_eq(w, HS_STR("tuple"))) return read_tuple(R, out);
  if (!w.n) return hlo_lex_error(RX, HS_E_SYNTAX, at, "expects a type");
  if (hlo_at(RX, 0) == '<') return mlir_skip_balanced(RX);
  hlo_dtype t = mlir_dtype(w);
  if (t == HLO_DT_INVALID && !hs_str_eq(w, HS_STR("none")))
    return hlo_lex_error(RX, HS_E_SYNTAX, at, "'%.*s' is no type", (int)HS_MIN(w.n, 40u), w.p);
  return true;  // a scalar outside a tensor has no place in HLO
}

bool mlir_type(mlir_reader *R, const hlo_shape **shape, mlir_span *text) {
  hlo_skip(RX);
  const char *at = RX->p;
  if (!mlir_skip_value(RX, false, text)) return false;
  u32 known = 0;
  void *seen = mlir_names_find(&R->types, *text, &known);
  if (known) return *shape = seen, true;
  mlir_place was = mlir_enter(R, *text);
  bool ok = read_type(R, shape);
  if (ok && hlo_peek(RX)) ok = hlo_lex_error(RX, HS_E_SYNTAX, NULL, "unexpected text in a type");
  mlir_leave(R, was);
  if (ok) (void)mlir_names_add(&R->types, *text, (void *)(uintptr_t)*shape, 1);
  else RX->p = at;
  return ok;
}

bool mlir_type_list(mlir_reader *R, mlir_types *out) {
  mlir_typed t;
  bool many = hlo_accept(RX, '(');
  if (many && hlo_accept(RX, ')')) return true;
  do {
    if (!mlir_type(R, &t.shape, &t.text)) return false;
    hs_vec_push(out, t);
    mlir_span attrs;  // {jax.result_info = ..} of a function's result
    if (hlo_peek(RX) == '{' && many && !mlir_skip_value(RX, false, &attrs)) return false;
  } while (many && hlo_accept(RX, ','));
  return !many || hlo_expect(RX, ')', "after the types");
}
