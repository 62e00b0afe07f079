// safetensors.c — .safetensors files: the length of a JSON header, the header (name -> dtype,
// shape, data_offsets), the data. The header is at most 100 MB, as in the reference implementation;
// tensors may not overlap or leave the file.
#include <stdio.h>
#include <stdlib.h>

#include "repl/formats/arrays.h"
#include "repl/formats/json.h"

#define HEADER_MOST ((u64)100 << 20)
#define VALUES_MOST ((size_t)4000000)

// The type of that name in the format; HLO_DT_INVALID when there is none.
static hlo_dtype type_named(const char *name) {
  for (hlo_dtype t = 1; *name && t < HLO_DTYPE_COUNT; t++)
    if (strcmp(hlo_dtypes[t].tensors, name) == 0) return t;
  return HLO_DT_INVALID;
}

static hs_status bad(const char *path, const char *name, const char *what) {
  return hs_fail(HS_E_INPUT, "%s[%s]: %s", path, name, what);
}

static hs_status read_tensor(const char *path, const repl_json *j, array_map *m, const u8 *data,
                             size_t size, array_raw *r) {
  const char *name = repl_json_key(j), *type = repl_json_get_str(j, "dtype");
  const repl_json *dims = repl_json_get(j, "shape"), *at = repl_json_get(j, "data_offsets");
  hlo_dtype t = type ? type_named(type) : HLO_DT_INVALID;
  if (!type) return bad(path, name, "has no dtype");
  if (!t) return hs_fail(HS_E_INPUT, "%s[%s]: the type %.40s is not known", path, name, type);
  i64 begin, end, bits = hlo_dtype_bits(t);
  if (repl_json_count(at) != 2 || !repl_json_whole(repl_json_at(at, 0), &begin) ||
      !repl_json_whole(repl_json_at(at, 1), &end))
    return bad(path, name, "has no data_offsets");
  if (begin < 0 || end < begin || (u64)end > size)
    return bad(path, name, "its data lie outside of the file (cut off?)");
  r->rank = repl_json_count(dims);
  if (!dims || r->rank > HLO_MAX_RANK) return bad(path, name, "has no shape");
  for (u32 k = 0; k < r->rank; k++)
    if (!repl_json_whole(repl_json_at(dims, k), &r->dims[k]) || r->dims[k] < 0 ||
        !hs_mul_ok(bits, r->dims[k], &bits))
      return bad(path, name, "its shape is damaged");
  if (bits % 8 || bits / 8 != end - begin)
    return hs_fail(HS_E_INPUT, "%s[%s]: %lld bytes of elements, %lld expected", path, name,
                   (long long)(end - begin), (long long)bits / 8);
  u32 width = (u32)hlo_dtype_bits(t);
  r->dtype = t;
  r->item = width >= 8 ? width / 8 : 0;
  r->bits = width < 8 ? width : 0;
  snprintf(r->type_text, sizeof r->type_text, "%s", type);
  r->data = data + begin;
  r->bytes = (size_t)(end - begin);
  r->map = array_map_ref(m);
  return HS_GOOD;
}

static int by_place(const void *a, const void *b) {
  const array_entry *const *x = a, *const *y = b;
  return ((*x)->raw.data > (*y)->raw.data) - ((*x)->raw.data < (*y)->raw.data);
}

static hs_status check_overlap(const char *path, const array_entries *all) {
  const array_entry **sorted = hs_calloc(all->n + 1, sizeof *sorted);
  u32 n = 0;
  for (size_t k = 0; k < all->n; k++)
    if (all->v[k].raw.bytes) sorted[n++] = &all->v[k];
  if (n) qsort(sorted, n, sizeof *sorted, by_place);
  hs_status s = HS_GOOD;
  for (u32 k = 1; k < n && hs_ok(s); k++)
    if (sorted[k - 1]->raw.data + sorted[k - 1]->raw.bytes > sorted[k]->raw.data)
      s = hs_fail(HS_E_INPUT, "%s: the tensors %s and %s overlap", path, sorted[k - 1]->name,
                  sorted[k]->name);
  hs_free(sorted);
  return s;
}

static int by_name(const void *a, const void *b) {
  const array_entry *x = *(const array_entry *const *)a, *y = *(const array_entry *const *)b;
  return strcmp(x->name, y->name);
}

static hs_status check_names(const char *path, const array_entries *all) {
  const array_entry **sorted = hs_calloc(all->n + 1, sizeof *sorted);
  for (size_t k = 0; k < all->n; k++) sorted[k] = &all->v[k];
  if (all->n) qsort(sorted, all->n, sizeof *sorted, by_name);
  hs_status s = HS_GOOD;
  for (size_t k = 1; k < all->n && hs_ok(s); k++)
    if (strcmp(sorted[k - 1]->name, sorted[k]->name) == 0)
      s = hs_fail(HS_E_INPUT, "%s: two tensors are called %s", path, sorted[k]->name);
  hs_free(sorted);
  return s;
}

// A tree of JSON takes a hundred bytes for a value of two: what would become gigabytes is counted
// first. A tensor is eight values or so.
static bool too_many_values(const char *p, size_t n) {
  size_t count = 0;
  for (size_t k = 0; k < n; k++) count += p[k] == ',' || p[k] == '[' || p[k] == '{';
  return count > VALUES_MOST;
}

hs_status safetensors_list(const char *path, array_map *m, array_entries *out) {
  u64 n;
  memcpy(&n, m->of.p, 8);
  if (!repl_json_built())
    return hs_fail(HS_E_NOT_BUILT, "%s: reading .safetensors needs cJSON, which this build lacks",
                   path);
  if (n > HEADER_MOST || n > m->of.n - 8)
    return hs_fail(HS_E_INPUT, "%s: the .safetensors header of %llu bytes is %s", path,
                   (unsigned long long)n, n > HEADER_MOST ? "too long" : "cut off");
  if (too_many_values(m->of.p + 8, (size_t)n))
    return hs_fail(HS_E_LIMIT, "%s: more than %zu values in the .safetensors header", path,
                   VALUES_MOST);
  repl_json *j = repl_json_parse(m->of.p + 8, (size_t)n);
  if (!j) return hs_fail(HS_E_INPUT, "%s: the .safetensors header is not JSON", path);
  hs_status s = HS_GOOD;
  for (const repl_json *t = repl_json_at(j, 0); t && hs_ok(s); t = repl_json_next(t)) {
    if (!repl_json_key(t) || strcmp(repl_json_key(t), "__metadata__") == 0) continue;
    array_entry e = {.name = hs_strdup(repl_json_key(t)), .ready = true};
    s = read_tensor(path, t, m, (const u8 *)m->of.p + 8 + n, m->of.n - 8 - (size_t)n, &e.raw);
    hs_vec_push(out, e);
  }
  repl_json_free(j);
  if (hs_ok(s)) s = check_names(path, out);
  return hs_ok(s) ? check_overlap(path, out) : s;
}

hs_status safetensors_put(hs_buf *b, u32 n, const array_item *items) {
  if (!repl_json_built())
    return hs_fail(HS_E_NOT_BUILT, "writing .safetensors needs cJSON, which this build lacks");
  repl_json *head = repl_json_root();
  size_t at = 0;
  hs_status s = HS_GOOD;
  for (u32 k = 0; k < n && hs_ok(s); k++) {
    const hlo_shape *shape = items[k].value->shape;
    const hlo_dtype_info *t = &hlo_dtypes[shape->dtype];
    if (!*t->tensors || t->bits < 8) {
      s = hs_with_note(hs_fail(HS_E_UNSUPPORTED, "%s: .safetensors has no type for %s",
                               items[k].name, hlo_dtype_text(shape->dtype)),
                       "an .npz file keeps it as raw bytes");
      break;
    }
    repl_json *j = repl_json_object(head, items[k].name), *dims;
    repl_json_str(j, "dtype", t->tensors);
    dims = repl_json_array(j, "shape");
    i64 sizes[HLO_MAX_RANK], count = hlo_literal_sizes(items[k].value, sizes);
    for (u32 d = 0; d < shape->rank; d++) repl_json_int(dims, NULL, sizes[d]);
    repl_json *place = repl_json_array(j, "data_offsets");
    repl_json_int(place, NULL, (i64)at);
    at += (size_t)count * hlo_dtype_storage(shape->dtype);
    repl_json_int(place, NULL, (i64)at);
  }
  hs_buf text = {0};
  if (hs_ok(s)) {
    repl_json_print(head, &text);
    while (text.n % 8) hs_buf_putc(&text, ' ');
    u64 size = text.n;
    hs_buf_put(b, (const char *)&size, 8);
    hs_buf_put(b, text.p, text.n);
    for (u32 k = 0; k < n; k++) hlo_literal_put(b, items[k].value);
  }
  hs_buf_free(&text);
  repl_json_free(head);
  return s;
}
