// sort.c — sort, topk and the call of CUB's sort.
//
// A comparator of the form less(h(a), h(b)) or greater(h(a), h(b)), with the same h on either side,
// is not called at all: h runs once over the whole operand as a block program, its values become
// order-preserving 64-bit keys, and lines are sorted by a stable radix sort on them. Every other
// comparator is called from a merge sort, which stays in bounds and ends even when the comparator
// is no order. A sort that is not marked stable leaves equal elements where the introsort of
// libstdc++ would (Musser, 1997), since that is what XLA:CPU runs and what later positions show.
#include <stdlib.h>

#include "core/eval/library.h"
#include "core/ir/config.h"

typedef struct item {
  u64 key;
  u32 index;
} item;

// ---- keys ---------------------------------------------------------------------------------------
// NaNs come last, whatever the direction, unless the order is total.
static u64 key32(u32 b, bool total, bool descending) {
  if (!total && b << 1 > 0xff000000u) return UINT32_MAX;
  if (!total && b << 1 == 0) b = 0;  // -0 and 0 are equal
  b = b >> 31 ? ~b : b | 1u << 31;
  return descending ? ~b : b;
}
static u64 key64(u64 b, bool total, bool descending) {
  if (!total && b << 1 > 0x7ffull << 53) return UINT64_MAX;
  if (!total && b << 1 == 0) b = 0;
  b = b >> 63 ? ~b : b | 1ull << 63;
  return descending ? ~b : b;
}

static void keys_of(hlo_dtype t, bool total, bool descending, const void *values, i64 n,
                    u64 *keys) {
  size_t w = hlo_dtype_storage(t);
  for (i64 i = 0; i < n; i++) {
    const char *p = (const char *)values + (size_t)i * w;
    if (t == HLO_F64) {
      u64 b;
      memcpy(&b, p, sizeof b);
      keys[i] = key64(b, total, descending);
    } else if (hlo_dtype_is_float(t)) {
      float f;
      u32 b;
      if (t == HLO_F32) memcpy(&f, p, sizeof f);
      else hlo_floats_to_f32(t, p, &f, 1);
      memcpy(&b, &f, sizeof b);
      keys[i] = key32(b, total, descending);
    } else {
      u64 k = (u64)hlo_elem_to_i64(t, p) ^ (hlo_dtype_is_signed(t) ? 1ull << 63 : 0);
      keys[i] = descending ? ~k : k;
    }
  }
}

static void insertion_sort(item *a, i64 n) {
  for (i64 i = 1; i < n; i++) {
    item x = a[i];
    i64 j = i;
    for (; j > 0 && a[j - 1].key > x.key; j--) a[j] = a[j - 1];
    a[j] = x;
  }
}

// Least significant digit first, eight bits a pass, passes where all digits agree left out.
static void radix_sort(item *a, item *b, i64 n) {
  if (n <= 48) {
    insertion_sort(a, n);
    return;
  }
  i64 count[8][256];
  memset(count, 0, sizeof count);
  for (i64 i = 0; i < n; i++)
    for (int d = 0; d < 8; d++) count[d][a[i].key >> (8 * d) & 255]++;
  item *from = a, *to = b;
  for (int d = 0; d < 8 && !hs_interrupted(); d++) {
    i64 *c = count[d], sum = 0;
    if (c[from[0].key >> (8 * d) & 255] == n) continue;
    for (int v = 0; v < 256; v++) {
      i64 m = c[v];
      c[v] = sum;
      sum += m;
    }
    for (i64 i = 0; i < n; i++) to[c[from[i].key >> (8 * d) & 255]++] = from[i];
    item *t = from;
    from = to;
    to = t;
  }
  if (from != a) memcpy(a, from, (size_t)n * sizeof *a);
}

typedef struct order {
  bool keyed, descending, total, stable;
  u32 operand;
  u64 nan;  // the key of a NaN; 0: no key is one
  ev_apply key;
  ev_apply less;
} order;

static hs_status order_init(ev *e, const hlo_computation *c, order *o) {
  memset(o, 0, sizeof *o);
  const hlo_instr *r = c->root;
  if (r->opcode == HLO_COMPARE) {
    i64 dir = hlo_attr_int(r, HLO_ATTR_DIRECTION, 0);
    hlo_dtype t = hlo_operand(r, 0)->shape->dtype;
    o->total = hlo_attr_int(r, HLO_ATTR_COMPARE_TYPE, HLO_COMPARE_TYPE_FLOAT) ==
               HLO_COMPARE_TYPE_TOTALORDER;
    if (hlo_dtype_is_float(t) && !o->total) o->nan = t == HLO_F64 ? UINT64_MAX : UINT32_MAX;
    for (u32 k = 0; k + 1 < c->nparams && !hlo_dtype_is_complex(t) &&
                    (dir == HLO_DIRECTION_LT || dir == HLO_DIRECTION_GT);
         k += 2)
      for (u32 swap = 0; swap < 2 && !o->keyed; swap++) {
        u32 budget = 4096;
        if (!ev_same_expression(hlo_operand(r, 0), hlo_operand(r, 1), c->params[k + swap],
                                c->params[k + 1 - swap], &budget))
          continue;
        if (!ev_prog_key(e, c, hlo_operand(r, swap), (i64)k, &o->key)) continue;
        o->keyed = true;
        o->operand = k / 2;
        o->descending = (dir == HLO_DIRECTION_GT) != (swap == 1);
      }
  }
  return o->keyed ? HS_GOOD : ev_apply_init(e, c, &o->less);
}

static hs_status make_keys(const order *o, const hlo_literal *l, u64 *keys) {
  const hlo_shape *s = l->shape;
  size_t w = hlo_dtype_storage(s->dtype);
  double values[2 * EV_BLOCK];
  const void *in[HS_COUNT(o->key.in)] = {0};
  for (i64 i = 0; i < s->elements && !hs_interrupted(); i += EV_BLOCK) {
    i64 m = HS_MIN((i64)EV_BLOCK, s->elements - i);
    void *dst = values;
    in[2 * o->operand] = in[2 * o->operand + 1] = (const char *)l->data + (size_t)i * w;
    HS_TRY(ev_apply_run(&o->key, &dst, in, m));
    keys_of(o->key.out[0], o->total, o->descending, values, m, keys + i);
  }
  return hs_poll();
}

// ---- merge sort by comparator -------------------------------------------------------------------
// operand k's element j: data + j * step
typedef struct line {
  const char *data[64];
  size_t step[64];
  u32 n;
  const ev_apply *less;
} line;

static hs_status less(const line *l, u32 a, u32 b, bool *yes) {
  const void *in[128];
  u8 r = 0;
  void *out = &r;
  for (u32 k = 0; k < l->n; k++) {
    in[2 * k] = l->data[k] + (size_t)a * l->step[k];
    in[2 * k + 1] = l->data[k] + (size_t)b * l->step[k];
  }
  HS_TRY(ev_apply_run(l->less, &out, in, 1));
  *yes = r != 0;
  return HS_GOOD;
}

static hs_status merge_sort(const line *l, u32 *a, u32 *b, i64 n) {
  if (n < 2) return HS_GOOD;
  i64 h = n / 2, i = 0, j = h, k = 0;
  HS_TRY(merge_sort(l, a, b, h));
  HS_TRY(merge_sort(l, a + h, b, n - h));
  memcpy(b, a, (size_t)h * sizeof *a);
  while (i < h && j < n) {
    bool right;
    HS_TRY(less(l, a[j], b[i], &right));
    a[k++] = right ? a[j++] : b[i++];
  }
  while (i < h) a[k++] = b[i++];
  return hs_poll();
}

// ---- introsort, decision for decision that of libstdc++ -----------------------------------------
// items: compare their keys; else call
typedef struct intro {
  const line *l;
  const item *items;
  u32 *a;
  i64 n;
  hs_status st;
} intro;

static bool before(intro *s, u32 x, u32 y) {
  if (s->items) return s->items[x].key < s->items[y].key;
  bool yes = false;
  if (hs_ok(s->st)) s->st = less(s->l, x, y, &yes);
  return yes;
}
static void swap(u32 *a, i64 i, i64 j) {
  u32 t = a[i];
  a[i] = a[j];
  a[j] = t;
}

static void linear_insert(intro *s, i64 first, i64 last) {
  u32 v = s->a[last];
  i64 next = last - 1;
  while (next >= first && before(s, v, s->a[next])) s->a[last] = s->a[next], last = next--;
  s->a[last] = v;
}

static void insertion(intro *s, i64 first, i64 last) {
  for (i64 i = first + 1; i < last; i++) {
    if (!before(s, s->a[i], s->a[first])) {
      linear_insert(s, first, i);
      continue;
    }
    u32 v = s->a[i];
    memmove(s->a + first + 1, s->a + first, (size_t)(i - first) * sizeof v);
    s->a[first] = v;
  }
}

static void median_to_first(intro *s, i64 to, i64 a, i64 b, i64 c) {
  const u32 *v = s->a;
  i64 pick;
  if (before(s, v[a], v[b])) pick = before(s, v[b], v[c]) ? b : before(s, v[a], v[c]) ? c : a;
  else pick = before(s, v[a], v[c]) ? a : before(s, v[b], v[c]) ? c : b;
  swap(s->a, to, pick);
}

static i64 partition(intro *s, i64 first, i64 last) {
  i64 lo = first + 1, hi = last;
  // the bounds only matter for comparators that are no order
  for (;;) {
    while (lo < s->n - 1 && before(s, s->a[lo], s->a[first])) lo++;
    hi--;
    while (hi > 0 && before(s, s->a[first], s->a[hi])) hi--;
    if (!(lo < hi)) return lo;
    swap(s->a, lo++, hi);
  }
}

static void sift(intro *s, i64 first, i64 hole, i64 n, u32 v) {
  i64 top = hole, child = hole;
  while (child < (n - 1) / 2) {
    child = 2 * (child + 1);
    if (before(s, s->a[first + child], s->a[first + child - 1])) child--;
    s->a[first + hole] = s->a[first + child];
    hole = child;
  }
  if ((n & 1) == 0 && child == (n - 2) / 2) {
    child = 2 * (child + 1);
    s->a[first + hole] = s->a[first + child - 1];
    hole = child - 1;
  }
  for (i64 parent = (hole - 1) / 2; hole > top && before(s, s->a[first + parent], v);
       parent = (hole - 1) / 2) {
    s->a[first + hole] = s->a[first + parent];
    hole = parent;
  }
  s->a[first + hole] = v;
}

static void heap_sort(intro *s, i64 first, i64 last) {
  i64 n = last - first;
  for (i64 p = (n - 2) / 2; n >= 2 && p >= 0; p--) sift(s, first, p, n, s->a[first + p]);
  while (last - first > 1) {
    u32 v = s->a[--last];
    s->a[last] = s->a[first];
    sift(s, first, 0, last - first, v);
  }
}

static void intro_loop(intro *s, i64 first, i64 last, int depth) {
  while (last - first > 16 && hs_ok(s->st) && !hs_interrupted()) {
    if (depth-- == 0) {
      heap_sort(s, first, last);
      return;
    }
    median_to_first(s, first, first + 1, first + (last - first) / 2, last - 1);
    i64 cut = partition(s, first, last);
    if (cut > last) cut = last;
    intro_loop(s, cut, last, depth);
    last = cut;
  }
}

static hs_status intro_sort(intro *s, i64 n) {
  int depth = 0;
  for (i64 m = n; m > 1; m >>= 1) depth += 2;
  if (n < 2) return HS_GOOD;
  intro_loop(s, 0, n, depth);
  insertion(s, 0, HS_MIN(n, (i64)16));
  for (i64 i = 16; i < n && hs_ok(s->st) && !hs_interrupted(); i++) linear_insert(s, 0, i);
  if (hs_ok(s->st)) s->st = hs_poll();
  return s->st;
}

// ---- sort ---------------------------------------------------------------------------------------
typedef struct sorter {
  i64 n;
  u64 *keys;
  item *items, *spare;
  u32 *index, *index2;
} sorter;

static hs_status sorter_init(const order *o, i64 n, i64 elements, sorter *s) {
  *s = (sorter){.n = n};
  size_t m = (size_t)HS_MAX(n, 1);
  s->index = hs_try_alloc(m * sizeof *s->index);
  s->index2 = hs_try_alloc(m * sizeof *s->index2);
  if (o->keyed) {
    s->keys = hs_try_alloc((size_t)HS_MAX(elements, 1) * sizeof *s->keys);
    s->items = hs_try_alloc(m * sizeof *s->items);
    s->spare = hs_try_alloc(m * sizeof *s->spare);
  }
  bool good = s->index && s->index2 && (!o->keyed || (s->keys && s->items && s->spare));
  return good ? HS_GOOD : hs_fail(HS_E_NO_MEMORY, "no memory to sort lines of %lld", (long long)n);
}
static void sorter_free(sorter *s) {
  hs_free(s->keys);
  hs_free(s->items);
  hs_free(s->spare);
  hs_free(s->index);
  hs_free(s->index2);
}

// Whether nothing comes before anything: of NaNs and equal keys. Where there are other keys too, an
// order by "less than" is none, and NaNs may as well be last.
static bool all_equal(u64 nan, const item *a, i64 n) {
  u64 key = nan;
  for (i64 j = 0; j < n; j++) {
    if (a[j].key == nan || a[j].key == key) continue;
    if (key != nan) return false;
    key = a[j].key;
  }
  return true;
}

// Fills s->index with the order of the line that starts at element `base` and steps by `stride`.
static hs_status sort_line(const order *o, sorter *s, u32 nops, hlo_literal *const *ops, i64 base,
                           i64 stride, i64 n) {
  if (o->keyed) {
    for (i64 j = 0; j < n; j++) s->items[j] = (item){s->keys[base + j * stride], (u32)j};
    bool equal = o->nan && all_equal(o->nan, s->items, n);
    for (i64 j = 0; j < n && equal; j++) s->items[j].key = 0;
    if (!o->stable) {
      for (i64 j = 0; j < n; j++) s->index[j] = (u32)j;
      intro in = {.items = s->items, .a = s->index, .n = n, .st = HS_GOOD};
      return intro_sort(&in, n);
    }
    radix_sort(s->items, s->spare, n);
    for (i64 j = 0; j < n; j++) s->index[j] = s->items[j].index;
    return HS_GOOD;
  }
  line l = {.n = nops, .less = &o->less};
  for (u32 k = 0; k < nops; k++) {
    size_t w = hlo_dtype_storage(ops[k]->shape->dtype);
    l.data[k] = (const char *)ops[k]->data + (size_t)base * w;
    l.step[k] = (size_t)stride * w;
  }
  for (i64 j = 0; j < n; j++) s->index[j] = (u32)j;
  intro in = {.l = &l, .a = s->index, .n = n, .st = HS_GOOD};
  return o->stable ? merge_sort(&l, s->index, s->index2, n) : intro_sort(&in, n);
}

static void permute(size_t w, char *dst, const char *src, i64 stride, const u32 *index, i64 n) {
  switch (w) {
#define CASE(size, T)                                                      \
  case size: {                                                             \
    T *d = (T *)(void *)dst;                                               \
    const T *p = (const T *)(const void *)src;                             \
    for (i64 j = 0; j < n; j++) d[j * stride] = p[(i64)index[j] * stride]; \
    return;                                                                \
  }
    CASE(1, u8)
    CASE(2, u16)
    CASE(4, u32)
    CASE(8, u64)
#undef CASE
  default:
    for (i64 j = 0; j < n; j++)
      memcpy(dst + (size_t)(j * stride) * w, src + (size_t)((i64)index[j] * stride) * w, w);
  }
}

hs_status hlo_eval_sort(ev *e, const hlo_instr *i, hlo_literal **ops, hlo_literal **out) {
  const hlo_computation *c = hlo_attr_comp(i, HLO_ATTR_TO_APPLY);
  u32 nops = i->noperands;
  const hlo_shape *s = ops[0]->shape;
  i64 dim = hlo_attr_ints(i, HLO_ATTR_DIMENSIONS).v[0], index[HLO_MAX_RANK] = {0},
      strides[HLO_MAX_RANK], dims[HLO_MAX_RANK];
  if (!c || nops > 32 || c->nparams != 2 * nops || s->dims[dim] > INT32_MAX)
    return ev_unsupported(i, "with these operands");
  order o;
  sorter so = {0};
  hlo_literal *r[32] = {0};
  HS_TRY(order_init(e, c, &o));
  // Equal elements of a single array that is its own key cannot be told apart.
  bool plain = nops == 1 && o.keyed && hlo_operand(c->root, 0)->opcode == HLO_PARAMETER &&
               !hlo_dtype_is_float(s->dtype);
  o.stable = hlo_attr_int(i, HLO_ATTR_IS_STABLE, 0) != 0 || plain;
  hs_status st = sorter_init(&o, s->dims[dim], s->elements, &so);
  for (u32 k = 0; k < nops && hs_ok(st); k++)
    st = ev_new(e, hlo_shape_is_tuple(i->shape) ? i->shape->elems[k] : i->shape, &r[k]);
  if (hs_ok(st) && o.keyed && s->elements) st = make_keys(&o, ops[o.operand], so.keys);
  hlo_row_major_strides(s->rank, s->dims, strides);
  memcpy(dims, s->dims, s->rank * sizeof *dims);
  dims[dim] = 1;
  i64 n = ops[0]->dynamic_sizes ? ops[0]->dynamic_sizes[dim] : s->dims[dim];
  if (hs_ok(st) && s->elements) do {
      i64 base = 0;
      for (u32 d = 0; d < s->rank; d++) base += index[d] * strides[d];
      st = sort_line(&o, &so, nops, ops, base, strides[dim], n);
      // what is beyond the keys in use stays where it is: a value may be in use there
      for (i64 k = n; k < s->dims[dim]; k++) so.index[k] = (u32)k;
      for (u32 k = 0; k < nops && hs_ok(st); k++) {
        size_t w = hlo_dtype_storage(ops[k]->shape->dtype);
        permute(w, (char *)r[k]->data + (size_t)base * w,
                (const char *)ops[k]->data + (size_t)base * w, strides[dim], so.index,
                s->dims[dim]);
      }
      if (hs_ok(st)) st = hs_poll();
    } while (hs_ok(st) && ev_next(s->rank, dims, index));
  sorter_free(&so);
  if (!hs_ok(st)) {
    for (u32 k = 0; k < nops; k++) hlo_literal_unref(r[k]);
    return st;
  }
  for (u32 k = 0; k < nops; k++) {
    if (r[k]->dynamic_sizes && ops[k]->dynamic_sizes)
      memcpy(r[k]->dynamic_sizes, ops[k]->dynamic_sizes, s->rank * sizeof(i32));
    if (r[k]->dynamic_sizes) r[k]->dynamic_sizes[dim] = (i32)n;  // as many of each as keys
  }
  *out = hlo_shape_is_tuple(i->shape) ? hlo_literal_tuple(i->shape, nops, r) : r[0];
  return HS_GOOD;
}

// ---- topk: the first k of every last-dimension line, largest (or smallest) first, equal ones by
// position
hs_status hlo_eval_topk(ev *e, const hlo_instr *i, hlo_literal **ops, hlo_literal **out) {
  const hlo_shape *s = ops[0]->shape, *to = i->shape;
  if (!hlo_shape_is_tuple(to) || to->nelems != 2 || s->rank < 1 || to->elems[0]->rank != s->rank ||
      to->elems[1]->dtype != HLO_S32)
    return ev_unsupported(i, "with these results");
  i64 n = s->dims[s->rank - 1], k = to->elems[0]->dims[s->rank - 1],
      lines = n ? s->elements / n : 0;
  order o = {.keyed = true,
             .total = true,
             .stable = true,
             .descending = hlo_attr_int(i, HLO_ATTR_LARGEST, 1) != 0};
  sorter so = {0};
  hlo_literal *r[2] = {0};
  if (k > n || n > INT32_MAX) return ev_unsupported(i, "of more elements than there are");
  hs_status st = sorter_init(&o, n, s->elements, &so);
  for (u32 j = 0; j < 2 && hs_ok(st); j++) st = ev_new(e, to->elems[j], &r[j]);
  if (hs_ok(st)) keys_of(s->dtype, true, o.descending, ops[0]->data, s->elements, so.keys);
  size_t w = hlo_dtype_storage(s->dtype);
  for (i64 l = 0; l < lines && hs_ok(st); l++) {
    st = sort_line(&o, &so, 1, ops, l * n, 1, n);
    if (!hs_ok(st)) break;
    permute(w, (char *)r[0]->data + (size_t)(l * k) * w,
            (const char *)ops[0]->data + (size_t)(l * n) * w, 1, so.index, k);
    memcpy((i32 *)r[1]->data + l * k, so.index, (size_t)k * sizeof(i32));
    st = hs_poll();
  }
  sorter_free(&so);
  if (!hs_ok(st)) {
    hlo_literal_unref(r[0]);
    hlo_literal_unref(r[1]);
    return st;
  }
  for (u32 j = 0; j < 2; j++) ev_batch_sizes(s->rank - 1, ops[0], r[j]);
  *out = hlo_literal_tuple(to, 2, r);
  return HS_GOOD;
}

// ---- CUB: rows sorted by the bits of their keys, zeros of both signs alike, equal keys in order -
typedef struct sort_key {
  u64 key;
  i64 at;
} sort_key;
static int by_key(const void *a, const void *b) {
  const sort_key *x = a, *y = b;
  return x->key != y->key ? (x->key < y->key ? -1 : 1) : x->at < y->at ? -1 : x->at > y->at;
}
static u64 radix_key(hlo_dtype t, const void *p) {
  size_t w = hlo_dtype_storage(t);
  u64 bits = 0, top = (u64)1 << (8 * w - 1);
  memcpy(&bits, p, w);
  if (hlo_dtype_is_float(t))
    return bits == top ? top : bits & top ? ~bits & (top | (top - 1)) : bits | top;
  return hlo_dtype_is_signed(t) ? bits ^ top : bits;
}

hs_status ev_custom_cub_sort(ev *e, const hlo_instr *i, hlo_literal **ops, hlo_literal **out) {
  u32 n = i->noperands;
  const hlo_shape *s = n ? ops[0]->shape : NULL;
  if (n < 1 || n > 2 || !hlo_shape_is_tuple(i->shape) || i->shape->nelems < n || s->rank < 1 ||
      hlo_dtype_storage(s->dtype) > 8 || hlo_dtype_bits(s->dtype) < 8)
    return ev_unsupported(i, "with these operands");
  for (u32 k = 0; k < n; k++)
    if (ops[k]->shape->elements != s->elements ||
        i->shape->elems[k]->logical != ops[k]->shape->logical)
      return ev_unsupported(i, "with these operands");
  bool descending = hlo_config_number(i, NULL, "descending", 0) != 0;
  i64 row = s->dims[s->rank - 1], rows = row ? s->elements / row : 0;
  hlo_literal *r[2] = {NULL, NULL};
  hs_status st = HS_GOOD;
  sort_key *keys = hs_try_alloc((size_t)HS_MAX(row, 1) * sizeof *keys);
  if (!keys) st = hs_fail(HS_E_NO_MEMORY, "no memory to sort a row");
  for (u32 k = 0; k < n && hs_ok(st); k++) st = ev_new(e, ops[k]->shape, &r[k]);
  for (i64 q = 0; q < rows && hs_ok(st); q++) {
    size_t w = hlo_dtype_storage(s->dtype);
    for (i64 j = 0; j < row; j++) {
      u64 key = radix_key(s->dtype, (const char *)ops[0]->data + (size_t)(q * row + j) * w);
      keys[j] = (sort_key){descending ? ~key : key, j};
    }
    qsort(keys, (size_t)row, sizeof *keys, by_key);
    for (u32 k = 0; k < n; k++) {
      size_t wk = hlo_dtype_storage(ops[k]->shape->dtype);
      for (i64 j = 0; j < row; j++)
        memcpy((char *)r[k]->data + (size_t)(q * row + j) * wk,
               (const char *)ops[k]->data + (size_t)(q * row + keys[j].at) * wk, wk);
    }
    st = hs_poll();
  }
  hs_free(keys);
  if (hs_ok(st)) return ev_pack_results(i, n, r, out);
  for (u32 k = 0; k < n; k++) hlo_literal_unref(r[k]);
  return st;
}
