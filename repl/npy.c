// npy.c — the .npy format: magic, version, a Python dictionary padded to 64 bytes, then the elements. See npy.h.
#include "repl/npy.h"

#include <stdio.h>
#include <stdlib.h>

#include "repl/out.h"

#define MOST_BYTES ((size_t)8 << 30)

// NumPy's type string: kind and bytes. Raw bytes for what NumPy cannot name.
static void descr(hlo_dtype t, char out[16]) {
  int size = (int)hlo_dtype_storage(t);
  char kind = 'V';
  switch (hlo_dtypes[t].cls) {
  case HLO_CLASS_PRED: snprintf(out, 16, "|b1"); return;
  case HLO_CLASS_SINT: kind = 'i'; break;
  case HLO_CLASS_UINT: kind = 'u'; break;
  case HLO_CLASS_COMPLEX: kind = 'c'; break;
  case HLO_CLASS_FLOAT: kind = t == HLO_F16 || t == HLO_F32 || t == HLO_F64 ? 'f' : 'V'; break;
  case HLO_CLASS_OTHER: break;
  }
  snprintf(out, 16, "%c%c%d", size == 1 || kind == 'V' ? '|' : '<', kind, size);
}

hs_status repl_npy_write(const char *path, const hlo_literal *v) {
  if (!hlo_shape_is_array(v->shape)) return hs_fail(HS_E_UNSUPPORTED, "%s: only arrays are written as .npy", path);
  char type[16];
  descr(v->shape->dtype, type);
  hs_buf head = {0}, file = {0};
  hs_buf_printf(&head, "{'descr': '%s', 'fortran_order': False, 'shape': (", type);
  for (u32 k = 0; k < v->shape->rank; k++) hs_buf_printf(&head, "%lld,%s", (long long)v->shape->dims[k], k + 1 < v->shape->rank ? " " : "");
  hs_buf_puts(&head, "), }");
  while ((10 + head.n + 1) % 64) hs_buf_putc(&head, ' ');
  hs_buf_putc(&head, '\n');
  hs_buf_put(&file, "\x93NUMPY\x01\x00", 8);
  hs_buf_putc(&file, (char)(head.n & 0xFF));
  hs_buf_putc(&file, (char)(head.n >> 8 & 0xFF));
  hs_buf_put(&file, head.p, head.n);
  if (v->bytes) hs_buf_put(&file, v->data, v->bytes);
  hs_status s = repl_write_file(path, file.p, file.n, false);
  hs_buf_free(&head);
  hs_buf_free(&file);
  return s;
}

static const char *value_of(const char *head, const char *key) {
  const char *p = strstr(head, key);
  if (!p) return NULL;
  p += strlen(key);
  while (*p == ' ' || *p == ':') p++;
  return p;
}

static hs_status check_header(const char *path, const char *head, const hlo_shape *want) {
  const char *d = value_of(head, "'descr'"), *order = value_of(head, "'fortran_order'"), *dims = value_of(head, "'shape'");
  if (!d || !order || !dims || *d != '\'' || *dims != '(') return hs_fail(HS_E_INPUT, "%s: the .npy header is damaged", path);
  char type[16];
  descr(want->dtype, type);
  size_t n = strcspn(d + 1, "'");
  // The byte order of one-byte types is written as '|', '<' or '='; types NumPy cannot name come in several spellings.
  bool raw = type[1] == 'V';
  bool same = n == strlen(type) && strncmp(d + 2, type + 1, n - 1) == 0 && d[1] != '>';
  bool same_size = n >= 3 && atoi(d + 3) == (int)hlo_dtype_storage(want->dtype) && d[1] != '>';
  if (!same && !(raw && same_size))
    return hs_fail(HS_E_INPUT, "%s: holds %.*s, the parameter is %s (%s)", path, (int)HS_MIN(n, (size_t)20), d + 1, hlo_dtype_text(want->dtype), type);
  if (strncmp(order, "False", 5) != 0 && want->rank > 1) return hs_fail(HS_E_INPUT, "%s: is in Fortran order", path);
  const char *p = dims + 1;
  u32 rank = 0;
  bool fits = true;
  for (;; rank++) {
    while (*p == ' ' || *p == ',') p++;
    if (*p < '0' || *p > '9') break;
    char *end;
    long long v = strtoll(p, &end, 10);
    if (rank >= want->rank || v != want->dims[rank]) fits = false;
    p = end;
  }
  if (fits && rank == want->rank && *p == ')') return HS_GOOD;
  hs_buf b = {0};
  hlo_shape_print(&b, want, false);
  hs_status s = hs_fail(HS_E_INPUT, "%s: its shape %.*s is not that of %s", path, (int)strcspn(dims, ")") + 1, dims, hs_buf_cstr(&b));
  hs_buf_free(&b);
  return s;
}

static hs_status parse_npy(const char *path, const hs_buf *f, const hlo_shape *want, hlo_literal **out) {
  if (f->n < 10 || memcmp(f->p, "\x93NUMPY", 6) != 0) return hs_fail(HS_E_INPUT, "%s: not a .npy file", path);
  const u8 *p = (const u8 *)f->p;
  size_t at = 10, n = p[8] | (size_t)p[9] << 8;
  if (p[6] >= 2) {
    if (f->n < 12) return hs_fail(HS_E_INPUT, "%s: the .npy header is damaged", path);
    n |= (size_t)p[10] << 16 | (size_t)p[11] << 24;
    at = 12;
  }
  if (n > f->n - at) return hs_fail(HS_E_INPUT, "%s: the .npy header is cut off", path);
  char *head = hs_alloc(n + 1);
  memcpy(head, f->p + at, n);
  head[n] = 0;
  hs_status s = check_header(path, head, want);
  hs_free(head);
  HS_TRY(s);
  hlo_literal *v;
  HS_TRY(hlo_literal_new(want, &v));
  if (f->n - at - n != v->bytes) {
    s = hs_fail(HS_E_INPUT, "%s: %zu bytes of elements, %zu expected", path, f->n - at - n, v->bytes);
    hlo_literal_unref(v);
    return s;
  }
  if (v->bytes) memcpy(v->data, f->p + at + n, v->bytes);
  if (want->dtype == HLO_PRED)
    for (size_t k = 0; k < v->bytes; k++) ((u8 *)v->data)[k] = ((u8 *)v->data)[k] != 0;
  *out = v;
  return HS_GOOD;
}

hs_status repl_npy_read(const char *path, const hlo_shape *want, hlo_literal **out) {
  *out = NULL;
  if (!hlo_shape_is_array(want)) return hs_fail(HS_E_INPUT, "%s: a .npy file holds an array, the parameter is a tuple or token", path);
  hs_buf f = {0};
  hs_status s = repl_read_file(path, MOST_BYTES, &f);
  if (hs_ok(s)) s = parse_npy(path, &f, want, out);
  hs_buf_free(&f);
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
  if (!hlo_shape_is_array(v->shape)) return HS_GOOD;   // tokens carry nothing
  char *path = hs_format("%s.npy", prefix);
  s = repl_npy_write(path, v);
  hs_free(path);
  return s;
}

hs_status repl_npy_read_tree(const char *prefix, const hlo_shape *want, hlo_literal **out) {
  *out = NULL;
  if (hlo_shape_is_array(want)) {
    char *path = hs_format("%s.npy", prefix);
    hs_status s = repl_npy_read(path, want, out);
    hs_free(path);
    return s;
  }
  if (!hlo_shape_is_tuple(want)) return hlo_literal_new(want, out);
  hlo_literal **kids = hs_calloc(want->nelems ? want->nelems : 1, sizeof *kids);
  hs_status s = HS_GOOD;
  for (u32 k = 0; k < want->nelems && hs_ok(s); k++) {
    char *child = hs_format("%s.%u", prefix, k);
    s = repl_npy_read_tree(child, want->elems[k], &kids[k]);
    hs_free(child);
  }
  if (hs_ok(s)) *out = hlo_literal_tuple(want, want->nelems, kids);
  else
    for (u32 k = 0; k < want->nelems; k++) hlo_literal_unref(kids[k]);
  hs_free(kids);
  return s;
}
