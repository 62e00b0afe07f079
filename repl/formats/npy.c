// npy.c — the .npy format: magic, version, a Python dictionary padded to 64 bytes, then the
// elements. See npy.h.
//
// Reading takes every version, byte order and both index orders. What NumPy has no name for arrives
// in several spellings: ml_dtypes' arrays as '<V2' or '|V1' (raw bytes), newer ones as '<f1' or by
// name ('bfloat16').
#include "repl/formats/npy.h"

#include <stdio.h>
#include <stdlib.h>

#include "repl/formats/files.h"

// NumPy's type string: kind and bytes. Raw bytes for what NumPy cannot name.
static void descr(hlo_dtype t, char out[16]) {
  int size = (int)hlo_dtype_storage(t);
  char kind = 'V';
  switch (hlo_dtypes[t].cls) {
  case HLO_CLASS_PRED: snprintf(out, 16, "|b1"); return;
  case HLO_CLASS_SINT: kind = hlo_dtype_bits(t) < 8 ? 'V' : 'i'; break;
  case HLO_CLASS_UINT: kind = hlo_dtype_bits(t) < 8 ? 'V' : 'u'; break;
  case HLO_CLASS_COMPLEX: kind = 'c'; break;
  case HLO_CLASS_FLOAT: kind = t == HLO_F16 || t == HLO_F32 || t == HLO_F64 ? 'f' : 'V'; break;
  case HLO_CLASS_OTHER: break;
  }
  snprintf(out, 16, "%c%c%d", size == 1 || kind == 'V' ? '|' : '<', kind, size);
}

hs_status npy_put(hs_buf *b, const char *what, const hlo_literal *v) {
  if (!hlo_shape_is_array(v->shape))
    return hs_fail(HS_E_UNSUPPORTED, "%s: only arrays are written as .npy", what);
  char type[16];
  descr(v->shape->dtype, type);
  hs_buf head = {0};
  hs_buf_printf(&head, "{'descr': '%s', 'fortran_order': False, 'shape': (", type);
  i64 sizes[HLO_MAX_RANK];
  hlo_literal_sizes(v, sizes);
  for (u32 k = 0; k < v->shape->rank; k++)
    hs_buf_printf(&head, "%lld,%s", (long long)sizes[k], k + 1 < v->shape->rank ? " " : "");
  hs_buf_puts(&head, "), }");
  while ((10 + head.n + 1) % 64) hs_buf_putc(&head, ' ');
  hs_buf_putc(&head, '\n');
  hs_buf_put(b, "\x93NUMPY\x01\x00", 8);
  hs_buf_putc(b, (char)(head.n & 0xFF));
  hs_buf_putc(b, (char)(head.n >> 8 & 0xFF));
  hs_buf_put(b, head.p, head.n);
  hlo_literal_put(b, v);
  hs_buf_free(&head);
  return HS_GOOD;
}

// ---- reading ------------------------------------------------------------------------------------
// The text after a key of the dictionary; NULL when the key is absent.
static const char *value_of(const char *head, const char *key) {
  char quoted[2][32];
  snprintf(quoted[0], sizeof quoted[0], "'%s'", key);
  snprintf(quoted[1], sizeof quoted[1], "\"%s\"", key);
  for (u32 k = 0; k < 2; k++) {
    const char *p = strstr(head, quoted[k]);
    if (!p) continue;
    p += strlen(quoted[k]);
    while (*p == ' ' || *p == ':') p++;
    return p;
  }
  return NULL;
}

// "bfloat16", "float8_e4m3fn", "int4": the names of ml_dtypes.
static hlo_dtype named_type(const char *name) {
  static const struct {
    const char *from, *to;
  } prefixes[] = {{"bfloat", "bf"}, {"float", "f"}, {"uint", "u"}, {"int", "s"}, {"complex", "c"}};
  char text[32];
  for (size_t k = 0; k < HS_COUNT(prefixes); k++) {
    size_t n = strlen(prefixes[k].from);
    if (strncmp(name, prefixes[k].from, n) != 0) continue;
    snprintf(text, sizeof text, "%s%s", prefixes[k].to, name + n);
    char *w = text;
    for (const char *r = text; *r; r++)
      if (*r != '_') *w++ = *r;
    *w = 0;
    for (hlo_dtype t = 1; t < HLO_DTYPE_COUNT; t++)
      if (hlo_dtype_is_array(t) && strcmp(hlo_dtype_text(t), text) == 0) return t;
  }
  return HLO_DT_INVALID;
}

static hs_status read_type(const char *what, const char *d, array_raw *r) {
  char quote = *d;
  if (quote != '\'' && quote != '"')
    return hs_with_note(hs_fail(HS_E_INPUT, "%s: holds records, not an array of numbers", what),
                        "its type is %.*s", (int)strcspn(d, "\n}"), d);
  size_t n = strcspn(d + 1, quote == '"' ? "\"" : "'");
  if (n >= sizeof r->type_text) return hs_fail(HS_E_INPUT, "%s: the .npy header is damaged", what);
  memcpy(r->type_text, d + 1, n);
  r->type_text[n] = 0;
  const char *t = r->type_text;
  if ((r->dtype = named_type(t))) {
    r->item = (u32)hlo_dtype_storage(r->dtype);
    return HS_GOOD;
  }
  r->big_endian = *t == '>';
  if (*t == '<' || *t == '>' || *t == '|' || *t == '=') t++;
  char kind = *t, *end;
  unsigned long size = *t ? strtoul(t + 1, &end, 10) : 0;
  if (kind == 'O') return hs_fail(HS_E_INPUT, "%s: holds Python objects, not numbers", what);
  if (!*t || *end || !size || size > 16)
    return hs_fail(HS_E_INPUT, "%s: an array of type %s is not understood", what, r->type_text);
  r->item = (u32)size;
  static const struct {
    char kind;
    u32 size;
    hlo_dtype type;
  } known[] = {{'b', 1, HLO_PRED}, {'i', 1, HLO_S8},   {'i', 2, HLO_S16}, {'i', 4, HLO_S32},
               {'i', 8, HLO_S64},  {'u', 1, HLO_U8},   {'u', 2, HLO_U16}, {'u', 4, HLO_U32},
               {'u', 8, HLO_U64},  {'f', 2, HLO_F16},  {'f', 4, HLO_F32}, {'f', 8, HLO_F64},
               {'c', 8, HLO_C64},  {'c', 16, HLO_C128}};
  for (size_t k = 0; k < HS_COUNT(known); k++)
    if (known[k].kind == kind && known[k].size == size) r->dtype = known[k].type;
  if (r->dtype || (kind == 'V' && size <= 2) || (kind == 'f' && size == 1)) return HS_GOOD;
  return hs_fail(HS_E_INPUT, "%s: an array of type %s is not understood", what, r->type_text);
}

static bool read_dims(const char *p, array_raw *r) {
  for (p++;;) {
    while (*p == ' ' || *p == ',') p++;
    if (*p < '0' || *p > '9') return *p == ')';
    char *end;
    long long v = strtoll(p, &end, 10);
    if (r->rank >= HLO_MAX_RANK || v < 0 || v == INT64_MAX) return false;
    r->dims[r->rank++] = v;
    p = *end == 'L' ? end + 1 : end;  // Python 2 wrote 3L
  }
}

static hs_status read_header(const char *what, const char *head, array_raw *r) {
  const char *d = value_of(head, "descr"), *order = value_of(head, "fortran_order"),
             *dims = value_of(head, "shape");
  if (!d || !order || !dims || *dims != '(')
    return hs_fail(HS_E_INPUT, "%s: the .npy header is damaged", what);
  HS_TRY(read_type(what, d, r));
  if (!read_dims(dims, r))
    return hs_fail(HS_E_INPUT, "%s: the shape in the .npy header is damaged", what);
  r->fortran = strncmp(order, "True", 4) == 0 && r->rank > 1;
  i64 bytes = (i64)r->item;
  for (u32 k = 0; k < r->rank; k++)
    if (!hs_mul_ok(bytes, r->dims[k], &bytes))
      return hs_fail(HS_E_LIMIT, "%s: the size of the array overflows", what);
  if ((u64)bytes != r->bytes)
    return hs_fail(HS_E_INPUT, "%s: %s: %zu bytes of elements, %lld expected", what,
                   (u64)bytes > r->bytes ? "is cut off" : "has more data than its header says",
                   r->bytes, (long long)bytes);
  return HS_GOOD;
}

hs_status npy_parse(const char *what, array_map *map, const u8 *p, size_t n, array_raw *r) {
  *r = (array_raw){0};
  if (n < 10 || memcmp(p, "\x93NUMPY", 6) != 0)
    return hs_fail(HS_E_INPUT, "%s: not a .npy file", what);
  size_t at = 10, len = p[8] | (size_t)p[9] << 8;
  if (p[6] >= 2) {
    if (n < 12) return hs_fail(HS_E_INPUT, "%s: the .npy header is cut off", what);
    len |= (size_t)p[10] << 16 | (size_t)p[11] << 24;
    at = 12;
  }
  if (p[6] < 1 || p[6] > 3)
    return hs_fail(HS_E_INPUT, "%s: version %u.%u of .npy is not known", what, p[6], p[7]);
  if (len > n - at) return hs_fail(HS_E_INPUT, "%s: the .npy header is cut off", what);
  if (len > 1 << 20) return hs_fail(HS_E_LIMIT, "%s: a header of %zu bytes", what, len);
  char *head = hs_alloc(len + 1);
  memcpy(head, p + at, len);
  head[len] = 0;
  r->data = p + at + len;
  r->bytes = n - at - len;
  hs_status s = read_header(what, head, r);
  hs_free(head);
  if (hs_ok(s)) r->map = array_map_ref(map);
  return s;
}

// ---- single files -------------------------------------------------------------------------------
static hs_status write_array(const char *path, const hlo_literal *v) {
  hs_buf b = {0};
  hs_status s = npy_put(&b, path, v);
  if (hs_ok(s)) s = hs_write_file(path, b.p, b.n, false);
  hs_buf_free(&b);
  return s;
}

hs_status repl_npy_write_tree(const char *prefix, const hlo_literal *v) {
  hs_status s = HS_GOOD;
  if (hlo_shape_is_tuple(v->shape)) {
    for (u32 k = 0; k < v->nchildren && hs_ok(s); k++) {
      char *child = hs_format("%s.%u", prefix, k);
      s = repl_npy_write_tree(child, v->children[k]);
      hs_free(child);
    }
    return s;
  }
  if (!hlo_shape_is_array(v->shape)) return HS_GOOD;  // tokens carry nothing
  char *path = hs_format("%s.npy", prefix);
  s = write_array(path, v);
  hs_free(path);
  return s;
}

static hs_status read_one(repl_folder *from, const char *name, const hlo_shape *want,
                          hlo_literal **out) {
  hs_view v;
  arrays *a;
  HS_TRY(repl_folder_read(from, name, &v));
  HS_TRY(arrays_of(v, name, from->limit, &a));
  hs_status s = arrays_count(a) == 1 ? arrays_read(a, 0, want, (array_options){0}, out)
                                     : hs_fail(HS_E_INPUT, "%s: holds %u arrays instead of one",
                                               name, arrays_count(a));
  arrays_close(a);
  return s;
}

hs_status repl_npy_read_tree(repl_folder *from, const char *prefix, const hlo_shape *want,
                             hlo_literal **out) {
  *out = NULL;
  HS_TRY(repl_folder_ask(from));  // shapes can have more leaves than anyone has files
  if (hlo_shape_is_array(want)) {
    char *name = hs_format("%s.npy", prefix);
    hs_status s = read_one(from, name, want, out);
    hs_free(name);
    return s;
  }
  if (!hlo_shape_is_tuple(want)) return hlo_literal_new(want, out);
  hlo_literal **kids = hs_calloc(want->nelems ? want->nelems : 1, sizeof *kids);
  hs_status s = HS_GOOD;
  for (u32 k = 0; k < want->nelems && hs_ok(s); k++) {
    char *child = hs_format("%s.%u", prefix, k);
    s = repl_npy_read_tree(from, child, want->elems[k], &kids[k]);
    hs_free(child);
  }
  if (hs_ok(s)) *out = hlo_literal_tuple(want, want->nelems, kids);
  else
    for (u32 k = 0; k < want->nelems; k++) hlo_literal_unref(kids[k]);
  hs_free(kids);
  return s;
}
