// arrays.c — opening files of arrays, and from their bytes to literals. See arrays.h.
#include "repl/formats/arrays.h"

#include <stdlib.h>

#include "repl/formats/files.h"

#define MAP_LEAST \
  ((size_t)1 << 20)          // smaller arrays are copied: cheaper than keeping a file mapped
#define STEP ((i64)1 << 20)  // elements between two polls for Ctrl-C

struct arrays {
  char *path;
  array_map *map;
  array_entries entries;
  size_t limit, room;  // bytes that may be unpacked, and how many of them are left
};

// ---- mappings -----------------------------------------------------------------------------------
array_map *array_map_ref(array_map *m) {
  __atomic_fetch_add(&m->refs, 1, __ATOMIC_RELAXED);
  return m;
}

void array_map_unref(array_map *m) {
  if (!m || __atomic_sub_fetch(&m->refs, 1, __ATOMIC_ACQ_REL) > 0) return;
  hs_view_drop(&m->of);
  hs_free(m);
}

static void unmap_literal(void *data, size_t bytes, void *arg) {
  (void)data, (void)bytes;
  array_map_unref(arg);
}

// ---- files --------------------------------------------------------------------------------------
hs_status arrays_open(const char *path, size_t limit, arrays **out) {
  *out = NULL;
  hs_view v;
  HS_TRY(hs_view_file(path, limit, true, &v));
  return arrays_of(v, path, limit, out);
}

hs_status arrays_of(hs_view take, const char *path, size_t limit, arrays **out) {
  *out = NULL;
  array_map *m = hs_calloc(1, sizeof *m);
  *m = (array_map){1, take};
  arrays *a = hs_calloc(1, sizeof *a);
  a->path = hs_strdup(path);
  a->map = m;
  a->limit = a->room = limit;
  hs_status s = HS_GOOD;
  const u8 *p = (const u8 *)m->of.p;
  size_t n = m->of.n;
  u64 head = 0;
  if (n >= 8) memcpy(&head, p, 8);
  if (n >= 6 && memcmp(p, "\x93NUMPY", 6) == 0) {
    array_entry e = {.name = hs_strdup(""), .ready = true};
    s = npy_parse(path, m, p, n, &e.raw);
    hs_vec_push(&a->entries, e);
  } else if (n >= 4 && (memcmp(p, "PK\3\4", 4) == 0 || memcmp(p, "PK\5\6", 4) == 0)) {
    s = zip_list(path, m, &a->entries);
  } else if (n >= 9 && p[8] == '{' && head >= 2) {
    s = safetensors_list(path, m, &a->entries);
  } else {
    s = hs_with_note(hs_fail(HS_E_FORMAT, "%s is no .npy, .npz or .safetensors file", path), "%s",
                     n ? "its first bytes match none of them" : "it is empty");
  }
  if (!hs_ok(s)) {
    arrays_close(a);
    return s;
  }
  *out = a;
  return HS_GOOD;
}

void arrays_close(arrays *a) {
  if (!a) return;
  for (size_t k = 0; k < a->entries.n; k++) {
    hs_free(a->entries.v[k].name);
    array_map_unref(a->entries.v[k].raw.map);
  }
  hs_vec_free(&a->entries);
  array_map_unref(a->map);
  hs_free(a->path);
  hs_free(a);
}

u32 arrays_count(const arrays *a) { return (u32)a->entries.n; }
const char *arrays_name(const arrays *a, u32 k) { return a->entries.v[k].name; }

bool arrays_find(const arrays *a, const char *name, u32 *k) {
  for (*k = 0; *k < a->entries.n; ++*k)
    if (strcmp(a->entries.v[*k].name, name) == 0) return true;
  return false;
}

// ---- from raw bytes to a literal ----------------------------------------------------------------
// Whether the shape of a file is the wanted one's several times over, as a whole array is beside
// the part of it that a device of a partitioned program has.
static bool whole_of(const array_raw *r, const hlo_shape *want, i64 *parts) {
  *parts = 1;
  bool multiple = r->rank == want->rank;
  for (u32 d = 0; multiple && d < r->rank; d++) {
    multiple = want->dims[d] > 0 && r->dims[d] % want->dims[d] == 0;
    if (multiple) *parts = hs_mul_sat_i64(*parts, r->dims[d] / want->dims[d]);
  }
  return multiple && *parts > 1;
}

static hs_status check_shape(const char *what, const array_raw *r, const hlo_shape *want) {
  if (hlo_shape_takes_sizes(want, r->rank, r->dims)) return HS_GOOD;
  hs_buf have = {0}, need = {0};
  for (u32 d = 0; d < r->rank; d++)
    hs_buf_printf(&have, d ? ",%lld" : "%lld", (long long)r->dims[d]);
  hlo_shape_print(&need, want, false);
  hs_status s = hs_fail(HS_E_INPUT, "%s: its shape [%s] is not that of %s", what,
                        have.n ? hs_buf_cstr(&have) : "", hs_buf_cstr(&need));
  i64 parts;
  if (whole_of(r, want, &parts))
    s = hs_with_note(s,
                     "it is %lld times as large: of a partitioned module give one device's part, "
                     "which all devices get; the module before partitioning takes whole arrays",
                     (long long)parts);
  hs_buf_free(&have);
  hs_buf_free(&need);
  return s;
}

// Types that NumPy cannot name come as raw bytes; they are taken as the wanted type when the width
// fits.
static bool unnamed(hlo_dtype t) {
  return t == HLO_BF16 || hlo_dtype_bits(t) < 8 ||
         (hlo_dtype_is_float(t) && hlo_dtype_storage(t) == 1);
}

static hs_status decide_type(const char *what, const array_raw *r, const hlo_shape *want,
                             array_options o, hlo_dtype *out) {
  hlo_dtype t = r->dtype;
  size_t width = r->item ? r->item : 1;
  if (o.as) {
    if (hlo_dtype_storage(o.as) != width)
      return hs_fail(HS_E_INPUT, "%s: elements of %zu bytes (%s) are not %s", what, width,
                     r->type_text, hlo_dtype_text(o.as));
    t = o.as;
  }
  if (!t && unnamed(want->dtype) && hlo_dtype_storage(want->dtype) == width) t = want->dtype;
  if (!t)
    return hs_with_note(hs_fail(HS_E_INPUT, "%s: holds raw elements (%s), the parameter is %s",
                                what, r->type_text, hlo_dtype_text(want->dtype)),
                        "--dtype=TYPE says what the bytes are");
  if (t != want->dtype && !o.cast)
    return hs_with_note(hs_fail(HS_E_INPUT, "%s: holds %s, the parameter is %s", what, r->type_text,
                                hlo_dtype_text(want->dtype)),
                        hlo_dtype_storage(want->dtype) == width && unnamed(want->dtype)
                            ? "--cast converts the values; --dtype=%s reads the same bytes as %s"
                            : "--cast converts the values",
                        hlo_dtype_text(want->dtype), hlo_dtype_text(want->dtype));
  *out = t;
  return HS_GOOD;
}

static void swap_bytes(u8 *p, size_t n) {
  for (size_t k = 0; k < n / 2; k++) {
    u8 t = p[k];
    p[k] = p[n - 1 - k];
    p[n - 1 - k] = t;
  }
}

// Element `at` of the file, in storage form of type t.
static void fetch(const array_raw *r, hlo_dtype t, i64 at, u8 out[16]) {
  size_t w = hlo_dtype_storage(t);
  if (r->bits) {
    u64 bit = (u64)at * r->bits;
    u32 v = 0;
    for (u32 k = 0; k < r->bits; k++)
      v |= (u32)(r->data[(bit + k) / 8] >> ((bit + k) % 8) & 1) << k;
    out[0] = (u8)v;
  } else {
    memcpy(out, r->data + (size_t)at * w, w);
    if (r->big_endian && hlo_dtype_is_complex(t))
      swap_bytes(out, w / 2), swap_bytes(out + w / 2, w / 2);
    else if (r->big_endian) swap_bytes(out, w);
  }
  if (t == HLO_PRED) out[0] = out[0] != 0;
  else if (hlo_dtype_bits(t) < 8) {
    u8 mask = (u8)((1u << hlo_dtype_bits(t)) - 1);
    out[0] &= mask;
    if (hlo_dtype_is_signed(t) && out[0] > mask / 2) out[0] = (u8)(out[0] | ~mask);
  }
}

static void cast(hlo_dtype from, const u8 *a, hlo_dtype to, void *b) {
  bool whole = hlo_dtype_is_integer(from) || from == HLO_PRED;
  if (hlo_dtype_is_complex(from) && hlo_dtype_is_complex(to)) {
    hlo_dtype f = hlo_dtype_real_part(from), t = hlo_dtype_real_part(to);
    hlo_elem_from_f64(t, b, hlo_elem_to_f64(f, a));
    hlo_elem_from_f64(t, (char *)b + hlo_dtype_storage(t),
                      hlo_elem_to_f64(f, a + hlo_dtype_storage(f)));
  } else if (whole && from != HLO_U64) {
    hlo_elem_from_i64(to, b, hlo_elem_to_i64(from, a));
  } else {
    hlo_elem_from_f64(to, b, hlo_elem_to_f64(from, a));
  }
}

// All elements, n of them, to `out` as values of a type.
static hs_status copy_out(const array_raw *r, hlo_dtype t, const array_options *o, i64 n,
                          hlo_dtype to, char *out) {
  size_t w = hlo_dtype_storage(to);
  bool plain = t == to && !r->bits && !r->big_endian && !r->fortran && t != HLO_PRED &&
               hlo_dtype_bits(t) >= 8;
  i64 from[HLO_MAX_RANK], index[HLO_MAX_RANK] = {0}, step = 1, at = 0;
  // strides of Fortran order
  for (u32 d = 0; d < r->rank; d++) from[d] = step, step *= r->dims[d];
  for (i64 k = 0; k < n;) {
    i64 end = HS_MIN(k + STEP, n);
    if (o->progress) o->progress(o->progress_arg, (double)k, (double)n);
    if (plain) {
      memcpy(out + (size_t)k * w, r->data + (size_t)k * w, (size_t)(end - k) * w);
      k = end;
    }
    for (; k < end; k++) {
      u8 e[16];
      fetch(r, t, r->fortran ? at : k, e);
      if (t == to) memcpy(out + (size_t)k * w, e, w);
      else cast(t, e, to, out + (size_t)k * w);
      for (u32 d = r->rank; r->fortran && d-- > 0;) {
        at += from[d];
        if (++index[d] < r->dims[d]) break;
        at -= from[d] * r->dims[d];
        index[d] = 0;
      }
    }
    HS_TRY(hs_poll());
  }
  if (o->progress) o->progress(o->progress_arg, (double)n, (double)n);
  return HS_GOOD;
}

// Fewer elements than dynamic dimensions have room for.
static hs_status to_part(const array_raw *r, const hlo_shape *want, hlo_dtype t,
                         const array_options *o, i64 n, hlo_literal **out) {
  size_t bytes = (size_t)n * hlo_dtype_storage(want->dtype);
  char *packed = hs_try_alloc(bytes + 1);
  if (!packed) return hs_fail(HS_E_NO_MEMORY, "no memory for %zu bytes", bytes);
  hs_status s = copy_out(r, t, o, n, want->dtype, packed);
  if (hs_ok(s)) s = hlo_literal_of_sizes(want, r->dims, packed, out);
  hs_free(packed);
  return s;
}

static hs_status to_literal(const char *what, const array_raw *r, const hlo_shape *want,
                            array_options o, hlo_literal **out) {
  HS_TRY(check_shape(what, r, want));
  hlo_dtype t = HLO_DT_INVALID;
  HS_TRY(decide_type(what, r, want, o, &t));
  i64 n = 1;
  for (u32 d = 0; d < r->rank; d++) n *= r->dims[d];  // within the bounds of want
  i64 need = n;
  bool fits = r->bits ? hs_mul_ok(need, r->bits, &need) && hs_add_ok(need, 7, &need)
                      : hs_mul_ok(need, (i64)r->item, &need);
  if (r->bits) need /= 8;
  if (!fits || (u64)need != r->bytes)
    return hs_fail(HS_E_INPUT, "%s: %zu bytes of elements, %lld expected", what, r->bytes,
                   (long long)need);
  size_t align = HS_MIN(hlo_dtype_storage(t), (size_t)8);
  if (want->dynamic && memcmp(r->dims, want->dims, want->rank * sizeof(i64)) != 0)
    return to_part(r, want, t, &o, n, out);
  if (t == want->dtype && !r->bits && !r->big_endian && !r->fortran && t != HLO_PRED &&
      hlo_dtype_bits(t) >= 8 && r->bytes >= MAP_LEAST && (uintptr_t)r->data % align == 0) {
    *out = hlo_literal_wrap(want, (void *)(uintptr_t)r->data, r->bytes, unmap_literal,
                            array_map_ref(r->map));
    return HS_GOOD;
  }
  hlo_literal *l;
  HS_TRY(hlo_literal_new(want, &l));
  hs_status s = copy_out(r, t, &o, n, want->dtype, l->data);
  if (!hs_ok(s)) {
    hlo_literal_unref(l);
    return s;
  }
  *out = l;
  return HS_GOOD;
}

hs_status arrays_read(arrays *a, u32 k, const hlo_shape *want, array_options o, hlo_literal **out) {
  *out = NULL;
  array_entry *e = &a->entries.v[k];
  if (!e->ready && e->method) {
    if (e->size > a->room) return hs_fail_load_limit(a->path, a->limit);
    HS_TRY(hs_check_unpacking(a->path, a->limit, e->packed, e->size));
    // entries may share their bytes
    HS_TRY(hs_check_unpacking(a->path, a->limit, a->map->of.n, a->limit - a->room + e->size));
  }
  if (!e->ready) HS_TRY(zip_entry(a->path, a->map, e));
  if (e->method) a->room -= HS_MIN(e->size, a->room), e->method = 0;
  char *what = *e->name ? hs_format("%s[%s]", a->path, e->name) : hs_strdup(a->path);
  hs_status s = hlo_shape_is_array(want)
                    ? to_literal(what, &e->raw, want, o, out)
                    : hs_fail(HS_E_INPUT, "%s: an array cannot be a tuple or token", what);
  hs_free(what);
  return s;
}

// ---- writing ------------------------------------------------------------------------------------
static bool ends(const char *path, const char *with) {
  size_t n = strlen(path), m = strlen(with);
  return n > m && strcmp(path + n - m, with) == 0;
}

bool arrays_is_file_name(const char *path) {
  return ends(path, ".npy") || ends(path, ".npz") || ends(path, ".safetensors");
}

typedef HS_VEC(array_item) leaves;

static void flatten(const char *name, const hlo_literal *v, leaves *out) {
  if (hlo_shape_is_tuple(v->shape)) {
    for (u32 k = 0; k < v->nchildren; k++) {
      char *child = hs_format("%s.%u", name, k);
      flatten(child, v->children[k], out);
      hs_free(child);
    }
  } else if (hlo_shape_is_array(v->shape)) {  // tokens carry nothing
    hs_vec_push(out, ((array_item){hs_strdup(name), v}));
  }
}

static hs_status put_npz(hs_buf *b, const leaves *all) {
  const char **names = hs_calloc(all->n + 1, sizeof *names);
  hs_buf *contents = hs_calloc(all->n + 1, sizeof *contents);
  hs_status s = HS_GOOD;
  for (size_t k = 0; k < all->n && hs_ok(s); k++) {
    names[k] = hs_format("%s.npy", all->v[k].name);
    s = npy_put(&contents[k], all->v[k].name, all->v[k].value);
  }
  if (hs_ok(s)) s = zip_write(b, (u32)all->n, names, contents);
  for (size_t k = 0; k < all->n; k++)
    hs_free((void *)(uintptr_t)names[k]), hs_buf_free(&contents[k]);
  hs_free(names);
  hs_free(contents);
  return s;
}

hs_status arrays_write(const char *path, u32 n, const array_item *items) {
  leaves all = {0};
  hs_buf b = {0};
  hs_status s = HS_GOOD;
  for (u32 k = 0; k < n; k++) flatten(items[k].name, items[k].value, &all);
  if (ends(path, ".npz")) s = put_npz(&b, &all);
  else if (ends(path, ".safetensors")) s = safetensors_put(&b, (u32)all.n, all.v);
  else if (all.n == 1) s = npy_put(&b, all.v[0].name, all.v[0].value);
  else
    s = hs_with_note(hs_fail(HS_E_INPUT, "%s: a .npy file holds one array, not %zu", path, all.n),
                     "name it .npz or .safetensors");
  if (hs_ok(s)) s = hs_write_file(path, b.p ? b.p : "", b.n, false);
  hs_buf_free(&b);
  for (size_t k = 0; k < all.n; k++) hs_free((void *)(uintptr_t)all.v[k].name);
  hs_vec_free(&all);
  return s;
}
