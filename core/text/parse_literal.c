// parse_literal.c — constants: nested braces are read straight into the literal's buffer, without
// recursion over dimensions. Extra commas between elements are skipped, as ParseDenseLiteral of
// XLA's hlo_parser.cc does.
// `{...}` makes an elided literal, or the one value there is of an array without elements.
#include "core/text/parse.h"

#include <float.h>
#include <stdio.h>
#include <math.h>

// ---- NaN with payload ---------------------------------------------------------------------------
static void store_nan(hlo_dtype t, void *p, bool neg, u64 payload) {
  int m = hlo_dtype_nan_payload(t);
  if (!m) {
    hlo_elem_from_f64(t, p, neg ? -NAN : NAN);
    return;
  }
  int bits = hlo_dtype_bits(t);
  u64 exponent = (((u64)1 << (bits - 1 - m)) - 1) << m;
  u64 v = (neg ? (u64)1 << (bits - 1) : 0) | exponent | (payload ? payload : (u64)1 << (m - 1));
  memcpy(p, &v, hlo_dtype_storage(t));
}

// nan, -nan, nan(0x1f) at the cursor.
static bool read_nan(hlo_parser *P, hlo_dtype t, void *p) {
  const char *at = LX->p;
  bool neg = *LX->p == '-';
  LX->p += 3 + neg;
  u64 payload = 0;
  if (hlo_at(LX, 0) == '(') {
    LX->p++;
    int digits = 0;
    if (hlo_at(LX, 0) == '0' && hlo_at(LX, 1) == 'x') LX->p += 2;
    for (;; LX->p++, digits++) {
      char c = hlo_at(LX, 0);
      int d = c >= '0' && c <= '9'   ? c - '0'
              : c >= 'a' && c <= 'f' ? c - 'a' + 10
              : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                     : -1;
      if (d < 0) break;
      if (payload < (u64)1 << 60) payload = payload * 16 + (u64)d;
    }
    if (!digits || hlo_at(LX, 0) != ')' || payload == 0 || payload >= (u64)1 << 52)
      return hlo_lex_error(LX, HS_E_TOKEN, at, "invalid NaN payload");
    LX->p++;
    int m = hlo_dtype_nan_payload(t);
    u64 limit = m ? ((u64)1 << m) - 1 : 0;
    if (payload > limit)
      return hlo_lex_error(
          LX, HS_E_LITERAL, at,
          "tries to set NaN payload 0x%llx to a literal in shape %s, but the range is out of range "
          "(0x%llx)",
          (unsigned long long)payload, hlo_dtype_text(t), (unsigned long long)limit);
  }
  store_nan(t, p, neg, payload);
  return true;
}

// ---- scalars ------------------------------------------------------------------------------------
static bool out_of_range(hlo_parser *P, const char *at, hlo_dtype t, hs_str number) {
  hs_buf upper = {0};
  for (const char *s = hlo_dtype_text(t); *s; s++)
    hs_buf_putc(&upper, *s >= 'a' && *s <= 'z' ? (char)(*s - 32) : *s);
  int bits = hlo_dtype_bits(t);
  hs_buf range = {0};
  if (hlo_dtype_is_signed(t))
    hs_buf_printf(&range, "[%lld, %lld]", -(long long)(((u64)1 << (bits - 1)) - 1) - 1,
                  (long long)(((u64)1 << (bits - 1)) - 1));
  else if (hlo_dtype_is_unsigned(t))
    hs_buf_printf(&range, "[0, %llu]", bits == 64 ? ~0ull : (1ull << bits) - 1);
  else hs_buf_printf(&range, "the finite values of %s", hlo_dtype_text(t));
  hlo_lex_error(LX, HS_E_LITERAL, at,
                "value %.*s is out of range for literal's primitive type %s, namely %s.",
                (int)HS_MIN(number.n, 60u), number.p, hs_buf_cstr(&upper), hs_buf_cstr(&range));
  hs_buf_free(&upper);
  hs_buf_free(&range);
  return false;
}

static bool read_integer(hlo_parser *P, hlo_dtype t, void *p) {
  const char *at = LX->p;
  i64 v;
  if (!hlo_int(LX, &v)) return false;
  hs_str text = {at, (size_t)(LX->p - at)};
  if (hlo_at(LX, 0) == '.' || hlo_at(LX, 0) == 'e' || hlo_at(LX, 0) == 'E')
    return hlo_lex_error(LX, HS_E_LITERAL, at, "expects integer");
  int bits = hlo_dtype_bits(t);
  if (hlo_dtype_is_signed(t)) {
    bool wrapped = v < 0 && *at != '-';
    if (wrapped || (bits < 64 && (v < -((i64)1 << (bits - 1)) || v >= (i64)1 << (bits - 1))))
      return out_of_range(P, at, t, text);
  } else if (bits < 64 && ((u64)v >> bits)) {
    return out_of_range(P, at, t, text);
  }
  // little endian; sub-byte types are kept sign-extended in one byte
  memcpy(p, &v, hlo_dtype_storage(t));
  return true;
}

// One real number into an element of float type t.
static bool read_float(hlo_parser *P, hlo_dtype t, void *p) {
  char c = hlo_peek(LX);
  const char *at = LX->p;
  bool neg = c == '-';
  if (hlo_at(LX, neg) == 'n' && LX->end - LX->p >= 3 + neg && memcmp(LX->p + neg, "nan", 3) == 0 &&
      !hlo_is_ch(hlo_at(LX, 3u + neg), HLO_CH_IDENT))
    return read_nan(P, t, p);
  double v;
  if (c == 't' || c == 'f') {
    i64 b;
    if (!hlo_bool(LX, &b)) return false;
    v = (double)b;
  } else if (c == 'i' || (neg && hlo_at(LX, 1) == 'i')) {
    if (!hlo_double(LX, &v)) return false;
  } else {
    const char *q = at + neg;
    while (q < LX->end && hlo_is_ch(*q, HLO_CH_DIGIT)) q++;
    bool integer = q > at + neg && (q == LX->end || (*q != '.' && *q != 'e' && *q != 'E'));
    if (integer) {
      i64 i;
      if (!hlo_int(LX, &i)) return false;
      // XLA loses this sign; its own printer writes it, so it is kept here
      v = i == 0 && neg ? -0.0 : (double)i;
    } else {
      if (!hlo_double(LX, &v)) return false;
      if (isinf(v))
        return hlo_lex_error(LX, HS_E_LITERAL, at,
                             "Constant is out of range for double (+/-%g) and so is unparsable.",
                             DBL_MAX);
    }
    if (t == HLO_F32) {
      float f = (float)v;
      memcpy(p, &f, 4);
      return isinf(f) ? out_of_range(P, at, t, (hs_str){at, (size_t)(LX->p - at)}) : true;
    }
    if (t != HLO_F64) {  // past the largest finite value plus half a step: not representable
      u64 raw = 0;
      hlo_elem_from_f64(t, &raw, v);
      double back = hlo_elem_to_f64(t, &raw);
      if (!isfinite(back)) return out_of_range(P, at, t, (hs_str){at, (size_t)(LX->p - at)});
    }
  }
  hlo_elem_from_f64(t, p, v);
  return true;
}

static bool read_complex(hlo_parser *P, hlo_dtype t, char *p) {
  hlo_dtype part = hlo_dtype_real_part(t);
  size_t size = hlo_dtype_storage(part);
  if (!hlo_expect(LX, '(', "in the complex literal") || !read_float(P, part, p) ||
      !hlo_expect(LX, ',', "in the complex literal") || !read_float(P, part, p + size) ||
      !hlo_expect(LX, ')', "in the complex literal"))
    return false;
  if (isnan(hlo_elem_to_f64(part, p))) memcpy(p + size, p, size);  // what XLA's reader does
  return true;
}

static bool read_scalar(hlo_parser *P, hlo_dtype t, char *p) {
  switch (hlo_dtypes[t].cls) {
  case HLO_CLASS_PRED: {
    i64 v;
    char c = hlo_peek(LX);
    if (c == 't' || c == 'f' ? !hlo_bool(LX, &v) : !hlo_int(LX, &v)) return false;
    *p = v != 0;
    return true;
  }
  case HLO_CLASS_SINT:
  case HLO_CLASS_UINT: {
    char c = hlo_peek(LX);
    i64 v;
    if (c != 't' && c != 'f') return read_integer(P, t, p);
    const char *at = LX->p;
    if (!hlo_bool(LX, &v)) return false;
    if (v && hlo_dtype_is_signed(t) && hlo_dtype_bits(t) == 1)
      return out_of_range(P, at, t, HS_STR("1"));
    memcpy(p, &v, hlo_dtype_storage(t));
    return true;
  }
  case HLO_CLASS_FLOAT: return read_float(P, t, p);
  case HLO_CLASS_COMPLEX: return read_complex(P, t, p);
  default: return hlo_lex_error(LX, HS_E_LITERAL, NULL, "a %s has no literal", hlo_dtype_text(t));
  }
}

// ---- arrays -------------------------------------------------------------------------------------
static void index_text(char *out, size_t cap, const i64 *seen, u32 n) {
  size_t k = 0;
  for (u32 i = 0; i < n && k + 24 < cap; i++)
    k += (size_t)snprintf(out + k, cap - k, "%s%lld", i ? "," : "", (long long)seen[i] - 1);
  out[k] = 0;
}

static bool open_brace(hlo_parser *P, const hlo_shape *s, u32 *level, i64 *seen) {
  char where[400];
  if (++*level > s->rank)
    return hlo_lex_error(LX, HS_E_LITERAL, NULL, "expects nested array in rank %u, but sees larger",
                         s->rank);
  if (*level > 1 && ++seen[*level - 2] > s->dims[*level - 2]) {
    index_text(where, sizeof where, seen, *level - 2);
    return hlo_lex_error(LX, HS_E_LITERAL, NULL,
                         "expects %lld elements in the [%s]th element, but sees more",
                         (long long)s->dims[*level - 2], where);
  }
  LX->p++;
  return true;
}

static bool close_brace(hlo_parser *P, const hlo_shape *s, u32 *level, i64 *seen) {
  char where[400];
  if (*level == 0) return hlo_lex_error(LX, HS_E_LITERAL, NULL, "unexpected '}' token");
  --*level;
  if (seen[*level] != s->dims[*level]) {
    index_text(where, sizeof where, seen, *level);
    return hlo_lex_error(LX, HS_E_LITERAL, NULL,
                         "expects %lld elements in the [%s]th element, but sees %lld",
                         (long long)s->dims[*level], where, (long long)seen[*level]);
  }
  seen[*level] = 0;
  LX->p++;
  return true;
}

static bool read_elements(hlo_parser *P, const hlo_shape *s, hlo_literal **lit) {
  i64 seen[HLO_MAX_RANK] = {0}, index = 0;
  u32 level = 0;
  size_t size = hlo_dtype_storage(s->dtype);
  char *data = (*lit)->data, spare[16];
  bool elided = false;
  do {
    char c = hlo_peek(LX);
    if (c == '{') {
      if (!open_brace(P, s, &level, seen)) return false;
    } else if (c == '}') {
      if (!close_brace(P, s, &level, seen)) return false;
    } else if (c == ',') {
      LX->p++;
    } else if (c == '.' && hlo_accept_text(LX, "...")) {
      if (level != 1)
        return hlo_lex_error(LX, HS_E_LITERAL, LX->p - 3,
                             "expects `...` at nest level 1, but sees it at nest level %u", level);
      seen[0] = s->dims[0];
      elided = true;
    } else if (c == 0) {
      return hlo_lex_error(LX, HS_E_LITERAL, NULL, "unexpected end of the text in a literal");
    } else {
      bool bare = s->rank > 0 && level == 0;  // f32[4] constant(2): sets element 0 only
      if (s->rank && !bare) {
        if (level != s->rank)
          return hlo_lex_error(LX, HS_E_LITERAL, NULL,
                               "expects nested array in rank %u, but sees %u", s->rank, level);
        if (++seen[s->rank - 1] > s->dims[s->rank - 1])
          return hlo_lex_error(LX, HS_E_LITERAL, NULL,
                               "expects %lld elements on the minor-most dimension, but sees more",
                               (long long)s->dims[s->rank - 1]);
      }
      char *to = index < s->elements ? data + (size_t)index * size : spare;
      if (!read_scalar(P, s->dtype, to)) return false;
      index++;
    }
  } while (level > 0);
  if (elided && s->elements) {
    hlo_literal_unref(*lit);
    *lit = hlo_literal_elided(s);
  }
  return true;
}

static bool read_tuple(hlo_parser *P, const hlo_shape *s, hlo_literal **out) {
  if (s->nelems && hlo_accept_text(LX, "{...}")) {  // as XLA prints it; its own parser refuses it
    *out = hlo_literal_elided(s);
    return true;
  }
  if (!hlo_expect(LX, '(', "in front of a tuple literal")) return false;
  hlo_literal **kids = hs_calloc(s->nelems + 1, sizeof *kids);
  u32 n = 0;
  bool ok = true;
  for (; ok && n < s->nelems; n++) {
    if (n && !hlo_expect(LX, ',', "between tuple elements")) {
      ok = false;
      break;
    }
    if (hlo_shape_follows(P) && hlo_peek(LX) != '(') {  // element written with its shape
      const char *at = LX->p;
      const hlo_shape *e = hlo_read_shape(P);
      ok = e &&
           (hlo_shape_compatible(e, s->elems[n]) ||
            hlo_lex_error(LX, HS_E_LITERAL, at, "the element's shape differs from the tuple's"));
    }
    ok = ok && hlo_read_literal(P, s->elems[n], &kids[n]);
    if (!ok) break;
  }
  ok = ok && hlo_expect(LX, ')', "at the end of the tuple literal");
  if (ok) {
    *out = hlo_literal_tuple(s, s->nelems, kids);
  } else {
    for (u32 i = 0; i < s->nelems; i++)
      if (kids[i]) hlo_literal_unref(kids[i]);
  }
  hs_free(kids);
  return ok;
}

// Every element takes at least one character, so that a huge shape with a short text is refused
// before memory is taken for it. The bare form (one number for a whole array) leaves zeros, which
// cost nothing until they are read.
static bool plausible(hlo_parser *P, const hlo_shape *s) {
  if (s->elements <= 1 << 16) return true;
  return *LX->p == '{' ? LX->end - LX->p >= s->elements : s->elements <= (i64)1 << 28;
}

bool hlo_read_literal(hlo_parser *P, const hlo_shape *s, hlo_literal **out) {
  *out = NULL;
  if (!hlo_lex_enter(LX)) return false;
  bool ok = true;
  const char *at = (hlo_skip(LX), LX->p);
  if (hlo_shape_is_tuple(s)) {
    ok = read_tuple(P, s, out);
  } else if (!hlo_shape_is_array(s)) {
    ok = hlo_lex_error(LX, HS_E_LITERAL, at, "a constant cannot be %s", hlo_dtype_text(s->dtype));
  } else {
    const char *q = at;  // {...} at once: nothing to allocate
    while (q < LX->end && (*q == '{' || hlo_is_ch(*q, HLO_CH_SPACE))) q++;
    bool dots = s->rank && LX->end - q >= 3 && memcmp(q, "...", 3) == 0;
    if (dots) {
      ok = hlo_expect(LX, '{', "in front of `...`");
      u32 level = 1;
      for (const char *b = LX->p; ok && b < q; b++) level += *b == '{';
      if (ok && hlo_peek(LX) == '{')
        ok = hlo_lex_error(LX, HS_E_LITERAL, q,
                           "expects `...` at nest level 1, but sees it at nest level %u", level);
      ok = ok && hlo_accept_text(LX, "...") && hlo_expect(LX, '}', "behind `...`");
      if (ok && s->elements) *out = hlo_literal_elided(s);
      else if (ok) ok = hlo_lex_status(LX, hlo_literal_new(s, out), at);
    } else if (!plausible(P, s)) {
      ok = hlo_lex_error(LX, HS_E_LITERAL, at,
                         "expects %lld elements, but the text is too short to hold them",
                         (long long)s->elements);
    } else {
      ok = hlo_lex_status(LX, hlo_literal_new(s, out), at) && read_elements(P, s, out);
    }
  }
  if (!ok && *out) hlo_literal_unref(*out), *out = NULL;
  hlo_lex_leave(LX);
  return ok;
}
