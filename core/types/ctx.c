// ctx.c — interning of strings, layouts and shapes: three open-addressing tables over one arena.
// Interned things are never freed before the context; equality is pointer equality.
#include "core/types/ctx.h"

#include "core/base/file.h"

typedef struct {
  u64 hash;
  const char *s;
  size_t n;
} string_slot;
typedef struct {
  u64 hash;
  const void *p;
} ptr_slot;

typedef struct table {
  ptr_slot *slots;
  size_t cap, n;
} table;

struct hlo_ctx {
  hs_arena arena;
  hs_arena_pool pool;
  string_slot *strings;
  size_t string_cap, nstrings;
  table shapes, layouts;
  u32 next_serial;
  u64 dtypes;  // of arrays that were ever interned, a bit each
  bool empty;  // one of them had no elements
  size_t load_limit;
};

hlo_ctx *hlo_ctx_new(void) { return hs_calloc(1, sizeof(hlo_ctx)); }

void hlo_ctx_free(hlo_ctx *c) {
  if (!c) return;
  hs_arena_free(&c->arena);
  hs_arena_pool_free(&c->pool);
  hs_free(c->strings);
  hs_free(c->shapes.slots);
  hs_free(c->layouts.slots);
  hs_free(c);
}

bool hlo_ctx_has_dtype(const hlo_ctx *c, hlo_dtype t) { return c->dtypes >> t & 1; }
bool hlo_ctx_has_empty(const hlo_ctx *c) { return c->empty; }
_Static_assert(HLO_DTYPE_COUNT <= 64, "a bit for every type");

size_t hlo_ctx_load_limit(const hlo_ctx *c) {
  return c->load_limit ? c->load_limit : hs_load_limit_default();
}
void hlo_ctx_set_load_limit(hlo_ctx *c, size_t bytes) {
  // the default, set by hand, is a byte more: hs_check_unpacking tells them apart
  c->load_limit = bytes == hs_load_limit_default() ? bytes + 1 : bytes;
}

hs_arena *hlo_ctx_arena(hlo_ctx *c) { return &c->arena; }
hs_arena_pool *hlo_ctx_pool(hlo_ctx *c) { return &c->pool; }

static void grow_strings(hlo_ctx *c, size_t cap) {
  string_slot *fresh = hs_calloc(cap, sizeof *fresh);
  for (size_t k = 0; k < c->string_cap; k++) {
    if (!c->strings[k].s) continue;
    size_t at = c->strings[k].hash & (cap - 1);
    while (fresh[at].s) at = (at + 1) & (cap - 1);
    fresh[at] = c->strings[k];
  }
  hs_free(c->strings);
  c->strings = fresh;
  c->string_cap = cap;
}

const char *hlo_intern(hlo_ctx *c, const char *s, size_t n) {
  bool fresh;
  return hlo_intern_fresh(c, s, n, &fresh);
}

const char *hlo_intern_fresh(hlo_ctx *c, const char *s, size_t n, bool *fresh) {
  if (c->nstrings * 2 >= c->string_cap) grow_strings(c, c->string_cap ? c->string_cap * 2 : 1024);
  *fresh = false;
  u64 h = hs_hash_bytes(s, n, 1);
  size_t at = h & (c->string_cap - 1);
  for (; c->strings[at].s; at = (at + 1) & (c->string_cap - 1))
    if (c->strings[at].hash == h && c->strings[at].n == n && !memcmp(c->strings[at].s, s, n))
      return c->strings[at].s;
  c->strings[at] = (string_slot){h, hs_arena_strndup(&c->arena, s, n), n};
  c->nstrings++;
  *fresh = true;
  return c->strings[at].s;
}

const char *hlo_intern_str(hlo_ctx *c, const char *s) { return hlo_intern(c, s, strlen(s)); }

// The slot that holds an equal thing, or the empty slot where it belongs.
static ptr_slot *table_slot(table *t, u64 h, const void *key,
                            bool (*same)(const void *, const void *)) {
  if (t->n * 2 >= t->cap) {
    size_t cap = t->cap ? t->cap * 2 : 256;
    ptr_slot *fresh = hs_calloc(cap, sizeof *fresh);
    for (size_t k = 0; k < t->cap; k++) {
      if (!t->slots[k].p) continue;
      size_t at = t->slots[k].hash & (cap - 1);
      while (fresh[at].p) at = (at + 1) & (cap - 1);
      fresh[at] = t->slots[k];
    }
    hs_free(t->slots);
    t->slots = fresh;
    t->cap = cap;
  }
  size_t at = h & (t->cap - 1);
  while (t->slots[at].p && !(t->slots[at].hash == h && same(t->slots[at].p, key)))
    at = (at + 1) & (t->cap - 1);
  return &t->slots[at];
}

// ---- layouts ------------------------------------------------------------------------------------

static bool same_i64s(const i64 *a, const i64 *b, size_t n) {
  return n == 0 || !memcmp(a, b, n * sizeof *a);
}

static bool same_layout(const void *pa, const void *pb) {
  const hlo_layout *a = pa, *b = pb;
  if (a->rank != b->rank || a->ntiles != b->ntiles || a->nsplits != b->nsplits ||
      a->tail_alignment != b->tail_alignment || a->index_type != b->index_type ||
      a->pointer_type != b->pointer_type || a->element_bits != b->element_bits ||
      a->memory_space != b->memory_space || a->metadata_prefix != b->metadata_prefix ||
      !same_i64s(a->minor_to_major, b->minor_to_major, a->rank))
    return false;
  for (u32 k = 0; k < a->ntiles; k++)
    if (a->tiles[k].rank != b->tiles[k].rank ||
        !same_i64s(a->tiles[k].dims, b->tiles[k].dims, a->tiles[k].rank))
      return false;
  for (u32 k = 0; k < a->nsplits; k++)
    if (a->splits[k].dim != b->splits[k].dim || a->splits[k].n != b->splits[k].n ||
        !same_i64s(a->splits[k].indices, b->splits[k].indices, a->splits[k].n))
      return false;
  return true;
}

static u64 layout_hash(const hlo_layout *l) {
  u64 h = hs_hash_bytes(l->minor_to_major, l->rank * sizeof(i64), 7);
  for (u32 k = 0; k < l->ntiles; k++)
    h = hs_hash_bytes(l->tiles[k].dims, l->tiles[k].rank * sizeof(i64), h);
  for (u32 k = 0; k < l->nsplits; k++)
    h = hs_mix(hs_hash_bytes(l->splits[k].indices, l->splits[k].n * sizeof(i64), h),
               (u64)l->splits[k].dim);
  h = hs_mix(h, (u64)l->memory_space);
  h = hs_mix(h, (u64)l->element_bits);
  h = hs_mix(h, (u64)l->tail_alignment);
  h = hs_mix(h, (u64)l->metadata_prefix);
  return hs_mix(h, (u64)l->index_type * 64 + (u64)l->pointer_type);
}

const hlo_layout *hlo_layout_intern(hlo_ctx *c, const hlo_layout *want) {
  hlo_layout key = *want;
  if (key.tail_alignment == 0) key.tail_alignment = 1;
  u64 h = layout_hash(&key);
  ptr_slot *slot = table_slot(&c->layouts, h, &key, same_layout);
  if (slot->p) return slot->p;
  hlo_layout *l = hs_arena_dup(&c->arena, &key, sizeof key);
  l->minor_to_major = hs_arena_dup(&c->arena, key.minor_to_major, key.rank * sizeof(i64));
  if (key.ntiles) {
    hlo_tile *tiles = hs_arena_dup(&c->arena, key.tiles, key.ntiles * sizeof *tiles);
    for (u32 k = 0; k < key.ntiles; k++)
      tiles[k].dims = hs_arena_dup(&c->arena, tiles[k].dims, tiles[k].rank * sizeof(i64));
    l->tiles = tiles;
  }
  if (key.nsplits) {
    hlo_split *splits = hs_arena_dup(&c->arena, key.splits, key.nsplits * sizeof *splits);
    for (u32 k = 0; k < key.nsplits; k++)
      splits[k].indices = hs_arena_dup(&c->arena, splits[k].indices, splits[k].n * sizeof(i64));
    l->splits = splits;
  }
  slot->hash = h;
  slot->p = l;
  c->layouts.n++;
  return l;
}

const hlo_layout *hlo_layout_default(hlo_ctx *c, u32 rank) {
  i64 order[HLO_MAX_RANK];
  if (HS_NEVER(rank > HLO_MAX_RANK)) rank = HLO_MAX_RANK;
  for (u32 k = 0; k < rank; k++) order[k] = (i64)(rank - 1 - k);
  return hlo_layout_intern(
      c, &(hlo_layout){.rank = rank, .minor_to_major = order, .tail_alignment = 1});
}

// ---- shapes -------------------------------------------------------------------------------------

static bool any_dynamic(const bool *d, u32 n) {
  for (u32 k = 0; d && k < n; k++)
    if (d[k]) return true;
  return false;
}

static bool same_shape(const void *pa, const void *pb) {
  const hlo_shape *a = pa, *b = pb;
  if (a->dtype != b->dtype || a->rank != b->rank || a->nelems != b->nelems ||
      a->layout != b->layout)
    return false;
  if (!same_i64s(a->dims, b->dims, a->rank)) return false;
  if (!a->dynamic != !b->dynamic || (a->dynamic && memcmp(a->dynamic, b->dynamic, a->rank)))
    return false;
  return a->nelems == 0 || !memcmp(a->elems, b->elems, a->nelems * sizeof *a->elems);
}

// See hlo_shape_bytes.
static i64 bytes_of(const hlo_shape *s) {
  i64 total = 0;
  for (u32 k = 0; k < s->nelems; k++) total = hs_add_sat_i64(total, s->elems[k]->bytes);
  if (!hlo_shape_is_array(s)) return total;
  i64 bits = s->layout && s->layout->element_bits ? s->layout->element_bits
                                                  : (i64)hlo_dtype_storage(s->dtype) * 8;
  // Bits may not fit where bytes do: eight elements at a time, then the rest.
  i64 whole = hs_mul_sat_i64(s->elements / 8, bits), rest = hs_mul_sat_i64(s->elements % 8, bits);
  return hs_add_sat_i64(whole, rest / 8 + (rest % 8 != 0));
}

static bool is_laid_out(const hlo_shape *s) {
  if (hlo_shape_is_array(s)) return s->layout || s->rank == 0;
  for (u32 k = 0; k < s->nelems; k++)
    if (!s->elems[k]->laid_out) return false;
  return true;
}

_Static_assert(HLO_DTYPE_COUNT <= 64, "hlo_shape.types has a bit for each element type");

// See hlo_shape.starts.
static const u32 *starts_of(hlo_ctx *c, const hlo_shape *s) {
  if (!hlo_shape_is_tuple(s) || (s->depth == 1 && s->leaves == s->nelems) || !s->nelems)
    return NULL;
  u32 *starts = HS_NEW_ARRAY(&c->arena, u32, s->nelems);
  i64 at = 0;
  for (u32 k = 0; k < s->nelems; at = hs_add_sat_i64(at, s->elems[k++]->leaves))
    starts[k] = (u32)HS_MIN(at, (i64)UINT32_MAX);
  return starts;
}

static const hlo_shape *intern_shape(hlo_ctx *c, const hlo_shape *key) {
  u64 h = hs_mix(hs_hash_bytes(key->dims, key->rank * sizeof(i64), (u64)key->dtype),
                 (u64)(uintptr_t)key->layout);
  if (key->dynamic) h = hs_hash_bytes(key->dynamic, key->rank, h);
  if (key->nelems) h = hs_hash_bytes(key->elems, key->nelems * sizeof *key->elems, h);
  ptr_slot *slot = table_slot(&c->shapes, h, key, same_shape);
  if (slot->p) return slot->p;
  hlo_shape *s = hs_arena_dup(&c->arena, key, sizeof *key);
  slot->hash = h;
  slot->p = s;
  c->shapes.n++;
  static const i64 none[1];  // never NULL: a copy of no dimensions has a source
  s->dims = key->rank ? hs_arena_dup(&c->arena, key->dims, key->rank * sizeof(i64)) : none;
  if (key->dynamic) s->dynamic = hs_arena_dup(&c->arena, key->dynamic, key->rank);
  if (key->nelems) s->elems = hs_arena_dup(&c->arena, key->elems, key->nelems * sizeof *key->elems);
  s->serial = ++c->next_serial;
  s->elements = hlo_shape_is_array(s) ? 1 : 0;
  s->leaves = hlo_shape_is_tuple(s) ? 0 : 1;
  s->ends = hlo_shape_is_tuple(s) && s->nelems ? 0 : 1;
  s->depth = 0;
  s->types = hlo_shape_is_tuple(s) ? 0 : UINT64_C(1) << s->dtype;
  for (u32 k = 0; k < s->nelems && hlo_shape_is_tuple(s); k++) {
    s->leaves = hs_add_sat_i64(s->leaves, s->elems[k]->leaves);
    s->ends = hs_add_sat_i64(s->ends, s->elems[k]->ends);
    s->depth = HS_MAX(s->depth, s->elems[k]->depth + 1);
    s->types |= s->elems[k]->types;
  }
  s->starts = starts_of(c, s);
  s->varies = s->dynamic != NULL;
  for (u32 k = 0; k < s->nelems; k++) s->varies |= s->elems[k]->varies;
  for (u32 k = 0; k < s->rank; k++) {
    i64 d = s->dims[k] == HLO_UNBOUNDED ? 1 : s->dims[k];
    s->elements = hs_mul_sat_i64(s->elements, d);
  }
  s->bytes = bytes_of(s);
  s->laid_out = is_laid_out(s);
  if (hlo_shape_is_array(s)) c->dtypes |= 1ull << s->dtype, c->empty |= s->elements == 0;
  // The layout-free twin; it may move the table, so `slot` is not used any more.
  hlo_shape bare = *s;
  bare.layout = NULL;
  const hlo_shape **elems = NULL;
  bool differs = s->layout != NULL;
  if (s->nelems) {
    elems = hs_alloc(s->nelems * sizeof *elems);
    for (u32 k = 0; k < s->nelems; k++) {
      elems[k] = s->elems[k]->logical;
      differs |= elems[k] != s->elems[k];
    }
    bare.elems = elems;
  }
  s->logical = differs ? intern_shape(c, &bare) : s;
  hs_free(elems);
  // Stable across runs: depends on the content only.
  u64 stable = hs_hash_bytes(s->dims, s->rank * sizeof(i64), (u64)s->dtype * 77 + s->nelems);
  if (s->dynamic) stable = hs_hash_bytes(s->dynamic, s->rank, stable);
  if (s->layout) stable = hs_mix(stable, layout_hash(s->layout));
  for (u32 k = 0; k < s->nelems; k++) stable = hs_mix(stable, s->elems[k]->hash);
  s->hash = stable;
  return s;
}

const hlo_shape *hlo_shape_dynamic(hlo_ctx *c, hlo_dtype t, u32 rank, const i64 *dims,
                                   const bool *dynamic, const hlo_layout *layout) {
  return intern_shape(c, &(hlo_shape){.dtype = t,
                                      .rank = rank,
                                      .dims = dims,
                                      .dynamic = any_dynamic(dynamic, rank) ? dynamic : NULL,
                                      .layout = layout});
}

const hlo_shape *hlo_shape_array(hlo_ctx *c, hlo_dtype t, u32 rank, const i64 *dims) {
  return hlo_shape_dynamic(c, t, rank, dims, NULL, NULL);
}
const hlo_shape *hlo_shape_scalar(hlo_ctx *c, hlo_dtype t) {
  return hlo_shape_array(c, t, 0, NULL);
}
const hlo_shape *hlo_shape_token(hlo_ctx *c) { return hlo_shape_array(c, HLO_TOKEN, 0, NULL); }
const hlo_shape *hlo_shape_opaque(hlo_ctx *c) { return hlo_shape_array(c, HLO_OPAQUE, 0, NULL); }

const hlo_shape *hlo_shape_tuple(hlo_ctx *c, u32 n, const hlo_shape *const *elems) {
  return intern_shape(c, &(hlo_shape){.dtype = HLO_TUPLE_TYPE, .nelems = n, .elems = elems});
}

const hlo_shape *hlo_shape_buffer(hlo_ctx *c, const hlo_shape *content) {
  return intern_shape(c, &(hlo_shape){.dtype = HLO_BUFFER, .nelems = 1, .elems = &content});
}

const hlo_shape *hlo_shape_with_dtype(hlo_ctx *c, const hlo_shape *s, hlo_dtype t) {
  hlo_shape key = *s;
  key.dtype = t;
  return intern_shape(c, &key);
}

const hlo_shape *hlo_shape_with_layout(hlo_ctx *c, const hlo_shape *s, const hlo_layout *l) {
  hlo_shape key = *s;
  key.layout = l;
  return intern_shape(c, &key);
}

// Row-major layouts on every array of the shape; keep: only where there is none yet.
static const hlo_shape *set_default_layout(hlo_ctx *c, const hlo_shape *s, bool keep) {
  if (hlo_shape_is_array(s))
    return keep && s->layout ? s : hlo_shape_with_layout(c, s, hlo_layout_default(c, s->rank));
  if (!s->nelems) return s;
  const hlo_shape **elems = hs_alloc(s->nelems * sizeof *elems);
  for (u32 k = 0; k < s->nelems; k++) elems[k] = set_default_layout(c, s->elems[k], keep);
  hlo_shape key = *s;
  key.elems = elems;
  const hlo_shape *r = intern_shape(c, &key);
  hs_free(elems);
  return r;
}

const hlo_shape *hlo_shape_with_default_layout(hlo_ctx *c, const hlo_shape *s) {
  return set_default_layout(c, s, false);
}
const hlo_shape *hlo_shape_fill_layout(hlo_ctx *c, const hlo_shape *s) {
  return set_default_layout(c, s, true);
}
