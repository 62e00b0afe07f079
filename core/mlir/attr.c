// attr.c — values of attributes, read from their spans when a rule asks. One reader serves every
// spelling of a value: array<i64: 1, 2>, dense<[1, 2]> : tensor<2xi64>, [1, 2] of the pretty forms.
#include "core/mlir/tree.h"

#include <stdlib.h>

mlir_place mlir_enter(mlir_reader *R, mlir_span s) {
  mlir_place was = {RX->p, RX->end};
  RX->p = s.p;
  RX->end = s.p + s.n;
  return was;
}
void mlir_leave(mlir_reader *R, mlir_place was) {
  RX->p = was.p;
  RX->end = was.end;
}

mlir_span mlir_unalias(mlir_reader *R, mlir_span s) {
  for (int hops = 0; hops < 64 && s.n > 1 && (s.p[0] == '#' || s.p[0] == '!'); hops++) {
    mlir_span *to = mlir_names_find(&R->aliases, s, NULL);
    if (!to) break;
    s = *to;
  }
  return s;
}

static const mlir_attr *find_attr(const mlir_attrs *a, const char *name, size_t n) {
  for (u32 k = 0; k < a->n; k++)
    if (a->v[k].name.n == n && memcmp(a->v[k].name.p, name, n) == 0) return &a->v[k];
  return NULL;
}

// The struct's text behind its '<' and before its '>': of #stablehlo.gather<..>, <..>.
static bool struct_of(mlir_reader *R, mlir_span s, mlir_span *out) {
  s = mlir_unalias(R, s);
  const char *open = memchr(s.p, '<', s.n);
  if (!open || s.p[s.n - 1] != '>') return false;
  *out = (mlir_span){open + 1, (size_t)(s.p + s.n - 2 - open)};
  return true;
}

// "name = value" in a struct.
static bool find_key(mlir_reader *R, mlir_span in, const char *name, size_t n, mlir_span *out) {
  mlir_place was = mlir_enter(R, in);
  bool found = false;
  while (!found && hlo_peek(RX)) {
    hs_str w = mlir_word(RX);
    mlir_span v;
    if (!w.n) break;
    if (hlo_accept(RX, '=')) {
      if (!mlir_skip_value(RX, true, &v)) break;
    } else {
      v = (mlir_span){w.p, 0};
    }
    found = w.n == n && memcmp(w.p, name, n) == 0;
    if (found) *out = v;
    else if (!hlo_accept(RX, ',')) break;
  }
  mlir_leave(R, was);
  return found;
}

bool mlir_get(mlir_reader *R, const mlir_attrs *a, const char *names, mlir_span *out) {
  for (const char *name = names;;) {
    size_t n = strcspn(name, "|"), key = 0;
    const mlir_attr *at = find_attr(a, name, n);
    // a name may hold dots of its own: mhlo.sharding
    while (!at && key < n) {
      key += strcspn(name + key, ".|");
      if (key >= n) break;
      const mlir_attr *outer = find_attr(a, name, key);
      mlir_span in;
      key++;
      if (outer && struct_of(R, outer->value, &in) && find_key(R, in, name + key, n - key, out))
        return true;
    }
    if (at) return *out = mlir_unalias(R, at->value), true;
    if (!name[n]) return false;
    name += n + 1;
  }
}

// ---- numbers ------------------------------------------------------------------------------------
typedef HS_VEC(i64) i64s;

static bool read_bool_or_int(mlir_reader *R, i64 *out) {
  char c = hlo_peek(RX);
  if (c == 't' || c == 'f') {
    hs_str w = mlir_word(RX);
    *out = w.n == 4;
    return w.n == 4 || w.n == 5 || hlo_lex_error(RX, HS_E_SYNTAX, w.p, "expects an integer");
  }
  if (c == '?') return RX->p++, *out = HLO_UNBOUNDED, true;
  return hlo_int(RX, out);
}

// Nested lists, flat.
static bool read_list(mlir_reader *R, i64s *v, u32 depth) {
  if (!hlo_accept(RX, '[')) {
    i64 x;
    if (!read_bool_or_int(R, &x)) return false;
    hs_vec_push(v, x);
    mlir_span type;
    return !hlo_accept(RX, ':') || mlir_skip_value(RX, false, &type);
  }
  if (depth > HLO_MAX_RANK) return hlo_lex_error(RX, HS_E_LIMIT, NULL, "lists nest too deep");
  if (hlo_accept(RX, ']')) return true;
  do
    if (!read_list(R, v, depth + 1)) return false;
  while (hlo_accept(RX, ','));
  return hlo_expect(RX, ']', "at the end of the list");
}

// dense<..> : type as integers, with the sizes of its dimensions.
static bool dense_ints(mlir_reader *R, mlir_span s, i64s *v, hlo_ints *dims) {
  const char *stop = s.p + s.n, *colon = stop;
  while (colon > s.p && *colon != ':') colon--;
  mlir_place was = mlir_enter(R, (mlir_span){colon + 1, (size_t)(stop - colon - 1)});
  const hlo_shape *shape = NULL;
  mlir_span text;
  hlo_literal *l = NULL;
  bool ok = mlir_type(R, &shape, &text);
  mlir_leave(R, was);
  if (!ok) return false;
  if (!shape || hlo_dtype_is_float(shape->dtype) || hlo_dtype_is_complex(shape->dtype))
    return hlo_lex_error(RX, HS_E_ATTR, s.p, "expects integers");
  if (!mlir_dense(R, s, shape, &l)) return false;
  for (i64 k = 0; k < shape->elements; k++) hs_vec_push(v, hlo_literal_i64(l, k));
  hlo_literal_unref(l);
  if (dims) *dims = (hlo_ints){shape->rank, shape->dims};
  return true;
}

bool mlir_ints_of(mlir_reader *R, mlir_span s, hlo_ints *out, hlo_ints *dims) {
  i64s v = {0};
  bool ok = true;
  s = mlir_unalias(R, s);
  if (s.n > 6 && memcmp(s.p, "dense<", 6) == 0) {
    ok = dense_ints(R, s, &v, dims);
  } else {
    mlir_place was = mlir_enter(R, s);
    if (s.n > 6 && memcmp(s.p, "array<", 6) == 0) {  // array<i64: 1, 2>
      RX->p += 6;
      RX->end--;
      (void)mlir_word(RX);
      if (hlo_accept(RX, ':')) do {
          i64 x;
          ok = read_bool_or_int(R, &x);
          if (ok) hs_vec_push(&v, x);
        } while (ok && hlo_accept(RX, ','));
    } else {
      ok = read_list(R, &v, 0);
    }
    if (ok && hlo_peek(RX)) ok = hlo_lex_error(RX, HS_E_SYNTAX, NULL, "unexpected text in a list");
    mlir_leave(R, was);
    if (dims) *dims = (hlo_ints){0, NULL};
  }
  if (ok)
    *out = (hlo_ints){
        (u32)v.n, hs_arena_dup(&R->m->arena, v.n ? v.v : &(i64){0}, HS_MAX(v.n, 1u) * sizeof *v.v)};
  hs_vec_free(&v);
  return ok;
}

bool mlir_int_of(mlir_reader *R, mlir_span s, i64 *out) {
  s = mlir_unalias(R, s);
  if (!s.n) return *out = 1, true;  // a unit attribute
  hlo_ints v;
  if (!mlir_ints_of(R, s, &v, NULL)) return false;
  if (v.n != 1) return hlo_lex_error(RX, HS_E_ATTR, s.p, "expects one integer");
  return *out = v.v[0], true;
}

bool mlir_float_of(mlir_reader *R, mlir_span s, double *out) {
  size_t used = 0;
  s = mlir_unalias(R, s);
  *out = hlo_scan_double(s.p, s.p + s.n, &used);
  return used > 0 || hlo_lex_error(RX, HS_E_ATTR, s.p, "expects a number");
}

bool mlir_string_of(mlir_reader *R, mlir_span s, hs_str *out) {
  s = mlir_unalias(R, s);
  mlir_place was = mlir_enter(R, s);
  bool ok = s.n && *s.p == '@' ? mlir_symbol(RX, out) : mlir_string(RX, out);
  mlir_leave(R, was);
  return ok;
}

hs_str mlir_enum_of(mlir_span s) {
  const char *stop = s.p + s.n;
  while (stop > s.p && (stop[-1] == '>' || stop[-1] == ' ')) stop--;
  const char *start = stop;
  while (start > s.p && !strchr(" <.#\t\n", start[-1])) start--;
  return (hs_str){start, (size_t)(stop - start)};
}

bool mlir_array_of(mlir_reader *R, mlir_span s, u32 *n, mlir_span **out) {
  HS_VEC(mlir_span) v = {0};
  s = mlir_unalias(R, s);
  mlir_place was = mlir_enter(R, s);
  bool ok = hlo_expect(RX, '[', "at the start of the list");
  if (ok && !hlo_accept(RX, ']')) {
    do {
      mlir_span e;
      ok = mlir_skip_value(RX, true, &e);
      if (ok) hs_vec_push(&v, mlir_unalias(R, e));
    } while (ok && hlo_accept(RX, ','));
    ok = ok && hlo_expect(RX, ']', "at the end of the list");
  }
  mlir_leave(R, was);
  *n = (u32)v.n;
  *out = v.n ? hs_arena_dup(&R->arena, v.v, v.n * sizeof *v.v) : NULL;
  hs_vec_free(&v);
  return ok;
}

bool mlir_dict_of(mlir_reader *R, mlir_span s, mlir_attrs *out) {
  s = mlir_unalias(R, s);
  mlir_place was = mlir_enter(R, s);
  size_t from = R->attrs.n;
  bool ok = mlir_read_dict(R);
  mlir_leave(R, was);
  mlir_set_attrs(R, out, from);
  return ok;
}

// ---- by name ------------------------------------------------------------------------------------
bool mlir_get_ints(mlir_reader *R, const mlir_op *op, const char *names, hlo_ints *out) {
  mlir_span s;
  return !mlir_get(R, &op->attrs, names, &s) || mlir_ints_of(R, s, out, NULL);
}
bool mlir_get_int(mlir_reader *R, const mlir_op *op, const char *names, i64 *out) {
  mlir_span s;
  return !mlir_get(R, &op->attrs, names, &s) || mlir_int_of(R, s, out);
}
bool mlir_get_string(mlir_reader *R, const mlir_attrs *a, const char *names, hs_str *out) {
  mlir_span s;
  return !mlir_get(R, a, names, &s) || mlir_string_of(R, s, out);
}
