// rt_sort.c — sort and topk.
//
// The comparator is analysed when the program is prepared. When it compares the same function of
// one operand's two elements (directly, or through JAX's float form: zeros made +0, NaNs made one
// NaN, then total order), the elements become order-preserving unsigned keys, and sorting is a
// stable least-significant-digit radix sort of (key, index), or a merge sort of short lines. Any
// other comparator is interpreted (scalar.c) by a stable merge sort. Lines are sorted independently
// and in parallel.
#include <stdlib.h>

#include "backends/cpu/scalar.h"

typedef struct sorter {
  u32 n;  // operands
  hlo_dtype type[64];
  // extent and stride of the sorted dim; line l starts at l / inner * len * inner + l % inner
  i64 len, lines, inner;
  i32 key;  // operand that the key comes from; -1: comparator
  bool descending, canonical;
  cpu_scalar *cmp;
} sorter;

// ---- comparator analysis ------------------------------------------------------------------------

static bool const_is(const hlo_instr *i, double v) {
  if (i->opcode != HLO_CONSTANT || !hlo_shape_is_scalar(i->shape) || !hlo_constant_value(i)->data)
    return false;
  double x = hlo_literal_f64(hlo_constant_value(i), 0);
  return v != v ? x != x : x == v;
}

static bool is_compare(const hlo_instr *i, i64 dir, const hlo_instr *a) {
  return i->opcode == HLO_COMPARE && hlo_attr_int(i, HLO_ATTR_DIRECTION, -1) == dir &&
         hlo_operand(i, 0) == a;
}

// x as it is, or select(x != x, nan, select(x == 0, 0, x)): gives x.
static const hlo_instr *strip(const hlo_instr *i, bool *canonical) {
  *canonical = false;
  if (i->opcode != HLO_SELECT) return i;
  const hlo_instr *p = hlo_operand(i, 0), *nan = hlo_operand(i, 1), *in = hlo_operand(i, 2);
  if (in->opcode != HLO_SELECT || !const_is(nan, __builtin_nan(""))) return i;
  const hlo_instr *x = hlo_operand(in, 2), *q = hlo_operand(in, 0);
  if (!is_compare(p, HLO_DIRECTION_NE, x) || hlo_operand(p, 1) != x) return i;
  if (!is_compare(q, HLO_DIRECTION_EQ, x) || !const_is(hlo_operand(q, 1), 0) ||
      !const_is(hlo_operand(in, 1), 0))
    return i;
  *canonical = true;
  return x;
}

static void analyse(const hlo_computation *c, sorter *s) {
  s->key = -1;
  const hlo_instr *r = c->root;
  if (r->opcode != HLO_COMPARE) return;
  i64 dir = hlo_attr_int(r, HLO_ATTR_DIRECTION, -1);
  if (dir != HLO_DIRECTION_LT && dir != HLO_DIRECTION_GT) return;
  bool ca, cb;
  const hlo_instr *a = strip(hlo_operand(r, 0), &ca), *b = strip(hlo_operand(r, 1), &cb);
  if (a->opcode != HLO_PARAMETER || b->opcode != HLO_PARAMETER || ca != cb) return;
  i64 pa = hlo_param_number(a), pb = hlo_param_number(b);
  if (pa / 2 != pb / 2 || pa == pb || !cpu_has_order_key(a->shape->dtype)) return;
  bool total =
      hlo_attr_int(r, HLO_ATTR_COMPARE_TYPE, HLO_COMPARE_TYPE_FLOAT) == HLO_COMPARE_TYPE_TOTALORDER;
  s->key = (i32)(pa / 2);
  s->descending = (dir == HLO_DIRECTION_GT) != (pa > pb);
  s->canonical = ca || (hlo_dtype_is_float(a->shape->dtype) && !total);
}

bool cpu_sort_supports(const hlo_instr *i) {
  const hlo_computation *c = hlo_attr_comp(i, HLO_ATTR_TO_APPLY);
  if (!c || i->noperands == 0 || i->noperands > 64) return false;
  for (u32 k = 0; k < i->noperands; k++)
    if (hlo_operand(i, k)->shape->elements >= (i64)UINT32_MAX) return false;
  sorter s = {0};
  analyse(c, &s);
  return s.key >= 0 || cpu_scalar_ok(c);
}

// ---- radix and merge ----------------------------------------------------------------------------

enum { RADIX_MIN = 512, DIGIT = 11, BINS = 1 << DIGIT };
typedef struct item {
  u64 key;
  u32 index;
} item;

// a and t hold n items; the result is in a. Digits that are equal in all keys are skipped.
static void radix_sort(item *a, item *t, i64 n, int bits) {
  int digits = (bits + DIGIT - 1) / DIGIT;
  u32 *count = hs_calloc((size_t)digits * BINS, sizeof *count);
  for (i64 k = 0; k < n; k++)
    for (int d = 0; d < digits; d++)
      count[d * BINS + (int)(a[k].key >> (d * DIGIT) & (BINS - 1))]++;
  item *from = a, *to = t;
  for (int d = 0; d < digits; d++) {
    u32 *c = count + d * BINS, sum = 0;
    if (n && c[from[0].key >> (d * DIGIT) & (BINS - 1)] == (u32)n) continue;
    for (int k = 0; k < BINS; k++) {
      u32 x = c[k];
      c[k] = sum;
      sum += x;
    }
    for (i64 k = 0; k < n; k++) to[c[from[k].key >> (d * DIGIT) & (BINS - 1)]++] = from[k];
    item *x = from;
    from = to;
    to = x;
  }
  if (from != a) memcpy(a, from, (size_t)n * sizeof *a);
  hs_free(count);
}

// The same for keys of at most 32 bits: key and index share one word, which halves the traffic.
static void radix_sort_packed(u64 *a, u64 *t, i64 n, int bits) {
  int digits = (bits + DIGIT - 1) / DIGIT;
  u32 count[3][BINS];
  memset(count, 0, sizeof count);
  for (i64 k = 0; k < n; k++)
    for (int d = 0; d < digits; d++) count[d][a[k] >> (32 + d * DIGIT) & (BINS - 1)]++;
  u64 *from = a, *to = t;
  for (int d = 0; d < digits; d++) {
    u32 *c = count[d], sum = 0;
    int shift = 32 + d * DIGIT;
    if (n && c[from[0] >> shift & (BINS - 1)] == (u32)n) continue;
    for (int k = 0; k < BINS; k++) {
      u32 x = c[k];
      c[k] = sum;
      sum += x;
    }
    for (i64 k = 0; k < n; k++) to[c[from[k] >> shift & (BINS - 1)]++] = from[k];
    u64 *x = from;
    from = to;
    to = x;
  }
  if (from != a) memcpy(a, from, (size_t)n * sizeof *a);
}

static void insertion_packed(u64 *a, i64 n) {
  for (i64 k = 1; k < n; k++) {
    u64 x = a[k];
    i64 j = k;
    for (; j > 0 && a[j - 1] > x; j--) a[j] = a[j - 1];
    a[j] = x;
  }
}

static void merge_packed(u64 *a, u64 *t, i64 n) {
  enum { RUN = 16 };
  for (i64 k = 0; k < n; k += RUN) insertion_packed(a + k, HS_MIN(n - k, (i64)RUN));
  for (i64 w = RUN; w < n; w *= 2) {
    for (i64 lo = 0; lo < n; lo += 2 * w) {
      i64 mid = HS_MIN(lo + w, n), hi = HS_MIN(lo + 2 * w, n), x = lo, y = mid, z = lo;
      while (x < mid && y < hi) {
        bool r = a[y] < a[x];
        t[z++] = r ? a[y] : a[x];
        y += r;
        x += !r;
      }
      while (x < mid) t[z++] = a[x++];
      while (y < hi) t[z++] = a[y++];
    }
    memcpy(a, t, (size_t)n * sizeof *a);
  }
}

// Stable merge sort of indices under the comparator.
// step: bytes between elements of a line
typedef struct by_cmp {
  const sorter *s;
  char *const *line;
  size_t step[64];
} by_cmp;

static bool less(const by_cmp *c, u32 x, u32 y) {
  const void *p[128];
  for (u32 k = 0; k < c->s->n; k++) {
    p[2 * k] = c->line[k] + x * c->step[k];
    p[2 * k + 1] = c->line[k] + y * c->step[k];
  }
  u8 r = 0;
  void *out[] = {&r};
  cpu_scalar_run(c->s->cmp, p, out);
  return r;
}

static void merge_indices(const by_cmp *c, u32 *a, u32 *t, i64 n) {
  for (i64 w = 1; w < n; w *= 2) {
    for (i64 lo = 0; lo < n; lo += 2 * w) {
      i64 mid = HS_MIN(lo + w, n), hi = HS_MIN(lo + 2 * w, n), x = lo, y = mid, z = lo;
      while (x < mid && y < hi) {
        if (less(c, a[y], a[x])) t[z++] = a[y++];
        else t[z++] = a[x++];
      }
      while (x < mid) t[z++] = a[x++];
      while (y < hi) t[z++] = a[y++];
    }
    memcpy(a, t, (size_t)n * sizeof *a);
  }
}

// ---- one line -----------------------------------------------------------------------------------

static int key_bits(hlo_dtype t) { return HS_MAX(hlo_dtype_bits(t), 8); }

// The permutation that sorts a line, into perm; `space` holds 2 * len items.
static void sort_line(const sorter *s, char *const *line, u32 *perm, void *space) {
  i64 n = s->len;
  size_t e = s->key >= 0 ? hlo_dtype_storage(s->type[s->key]) : 0, step = e * (size_t)s->inner;
  if (s->key < 0) {
    by_cmp c = {.s = s, .line = line};
    for (u32 k = 0; k < s->n; k++) c.step[k] = hlo_dtype_storage(s->type[k]) * (size_t)s->inner;
    for (i64 k = 0; k < n; k++) perm[k] = (u32)k;
    merge_indices(&c, perm, space, n);
    return;
  }
  hlo_dtype kt = s->type[s->key];
  int bits = key_bits(kt);
  const char *p = line[s->key];
  u64 mask = s->descending ? (bits == 64 ? ~(u64)0 : ((u64)1 << bits) - 1) : 0;
  if (bits <= 32) {
    u64 *a = space;
    if (kt == HLO_F32)
      for (i64 k = 0; k < n; k++) {
        u32 b;
        memcpy(&b, p + (size_t)k * step, 4);
        if (s->canonical)
          b = (b & 0x7fffffffu) == 0 ? 0 : (b & 0x7fffffffu) > 0x7f800000u ? 0x7f800001u : b;
        b = b & 0x80000000u ? ~b : b | 0x80000000u;
        a[k] = (u64)(b ^ (u32)mask) << 32 | (u64)k;
      }
    else
      for (i64 k = 0; k < n; k++)
        a[k] = (cpu_order_key(kt, p + (size_t)k * step, s->canonical) ^ mask) << 32 | (u64)k;
    if (n < RADIX_MIN) merge_packed(a, a + n, n);
    else radix_sort_packed(a, a + n, n, bits);
    for (i64 k = 0; k < n; k++) perm[k] = (u32)a[k];
    return;
  }
  item *a = space;
  for (i64 k = 0; k < n; k++)
    a[k] = (item){cpu_order_key(kt, p + (size_t)k * step, s->canonical) ^ mask, (u32)k};
  radix_sort(a, a + n, n, bits);
  for (i64 k = 0; k < n; k++) perm[k] = a[k].index;
}

typedef struct sort_job {
  const sorter *s;
  void *const *bufs;
  i64 per;
  bool failed;  // set by any thread that had no memory for a line
} sort_job;

// Writes the permuted line; through a copy, so that operand and result may be the same array.
static void permute_line(const sorter *s, u32 k, const char *from, char *to, const u32 *perm,
                         char *tmp) {
  size_t e = hlo_dtype_storage(s->type[k]), step = e * (size_t)s->inner;
#define PERMUTE(T)                                                                             \
  {                                                                                            \
    T *t = (T *)(void *)tmp;                                                                   \
    for (i64 j = 0; j < s->len; j++) t[j] = *(const T *)(const void *)(from + perm[j] * step); \
    for (i64 j = 0; j < s->len; j++) *(T *)(void *)(to + (size_t)j * step) = t[j];             \
  }
  typedef struct {
    u64 v[2];
  } pair;
  switch (e) {
  case 1: PERMUTE(u8) break;
  case 2: PERMUTE(u16) break;
  case 4: PERMUTE(u32) break;
  case 8: PERMUTE(u64) break;
  default: PERMUTE(pair) break;
  }
#undef PERMUTE
}

static void sort_chunk(void *ctx, i64 chunk, u32 thread) {
  (void)thread;
  sort_job *j = ctx;
  const sorter *s = j->s;
  u32 *perm = hs_try_alloc(sizeof *perm * (size_t)s->len);
  char *tmp = hs_try_alloc(2 * sizeof(item) * (size_t)s->len), *line[64];
  if (!perm || !tmp) {
    __atomic_store_n(&j->failed, true, __ATOMIC_RELAXED);
    hs_free(tmp), hs_free(perm);
    return;
  }
  for (i64 l = chunk * j->per, end = HS_MIN(l + j->per, s->lines); l < end; l++) {
    size_t at = (size_t)(l / s->inner * s->len * s->inner + l % s->inner);
    for (u32 k = 0; k < s->n; k++)
      line[k] = (char *)j->bufs[k] + at * hlo_dtype_storage(s->type[k]);
    sort_line(s, line, perm, tmp);
    for (u32 k = 0; k < s->n; k++)
      permute_line(s, k, line[k], (char *)j->bufs[s->n + k] + at * hlo_dtype_storage(s->type[k]),
                   perm, tmp);
  }
  hs_free(tmp);
  hs_free(perm);
}

static hs_status run_sort(void *state, void *const *bufs, void *scratch) {
  (void)scratch;
  const sorter *s = state;
  if (s->len == 0 || s->lines == 0) return HS_GOOD;
  sort_job j = {s, bufs, HS_MAX((i64)1, 4096 / s->len), false};
  cpu_par_for(sort_chunk, &j, (s->lines + j.per - 1) / j.per);
  return j.failed ? hs_fail(HS_E_NO_MEMORY, "no memory to sort lines of %lld", (long long)s->len)
                  : HS_GOOD;
}

static void free_sort(void *state) {
  sorter *s = state;
  cpu_scalar_free(s->cmp);
  hs_free(s);
}

hs_status cpu_sort_prepare(const hlo_instr *i, cpu_rt *out) {
  const hlo_computation *c = hlo_attr_comp(i, HLO_ATTR_TO_APPLY);
  const hlo_shape *shape = hlo_operand(i, 0)->shape;
  hlo_ints dims = hlo_attr_ints(i, HLO_ATTR_DIMENSIONS);
  i64 d = dims.n ? dims.v[0] : (i64)shape->rank - 1;
  sorter *s = hs_calloc(1, sizeof *s);
  s->n = i->noperands;
  for (u32 k = 0; k < s->n; k++) s->type[k] = hlo_operand(i, k)->shape->dtype;
  s->len = shape->rank ? shape->dims[d] : 1;
  s->inner = 1;
  for (u32 k = (u32)d + 1; k < shape->rank; k++) s->inner *= shape->dims[k];
  s->lines = s->len ? shape->elements / s->len : 0;
  analyse(c, s);
  if (s->key < 0) s->cmp = cpu_scalar_compile(c);
  *out = (cpu_rt){.kind = s->key < 0           ? "sort (merge, comparator)"
                          : s->len < RADIX_MIN ? "sort (merge, keys)"
                                               : "sort (radix)",
                  .state = s,
                  .run = run_sort,
                  .release = free_sort,
                  .inplace = s->n < 32 ? (1u << s->n) - 1 : 0};
  return HS_GOOD;
}

// ---- topk ---------------------------------------------------------------------------------------

typedef struct topk {
  hlo_dtype type;
  i64 n, k, rows;
  bool largest;
} topk;

static bool topk_shape_ok(const hlo_instr *i) {
  return i->noperands == 1 && hlo_shape_is_tuple(i->shape) && i->shape->nelems == 2 &&
         i->shape->elems[1]->dtype == HLO_S32 && hlo_operand(i, 0)->shape->rank > 0 &&
         cpu_has_order_key(hlo_operand(i, 0)->shape->dtype);
}
bool cpu_topk_supports(const hlo_instr *i) { return topk_shape_ok(i); }

typedef struct topk_job {
  const topk *t;
  const char *in;
  char *values;
  i32 *indices;
  bool failed;  // set by any thread that had no memory for a row
} topk_job;

// Keeps the best k in order; a new element only moves in when it beats the last. Ties go to the
// lower index because later elements must be strictly better.
static void topk_row(void *ctx, i64 row, u32 thread) {
  (void)thread;
  topk_job *j = ctx;
  const topk *t = j->t;
  size_t e = hlo_dtype_storage(t->type);
  const char *in = j->in + (size_t)(row * t->n) * e;
  bool whole = t->k > 128;  // sort everything: descending keys, index order among equals
  item *best = hs_try_alloc(sizeof *best * (size_t)HS_MAX(t->k, (i64)1));
  item *all = whole ? hs_try_alloc(sizeof *all * 2 * (size_t)t->n) : NULL;
  i64 have = 0;
  if (!best || (whole && !all)) {
    __atomic_store_n(&j->failed, true, __ATOMIC_RELAXED);
    hs_free(all), hs_free(best);
    return;
  }
  if (whole) {
    for (i64 x = 0; x < t->n; x++) {
      u64 key = cpu_order_key(t->type, in + (size_t)x * e, false);
      all[x] = (item){t->largest ? ~key : key, (u32)x};
    }
    radix_sort(all, all + t->n, t->n, 64);
    memcpy(best, all, sizeof *best * (size_t)t->k);
    hs_free(all);
  } else
    for (i64 x = 0; x < t->n; x++) {
      u64 key = cpu_order_key(t->type, in + (size_t)x * e, false);
      if (!t->largest) key = ~key;
      if (have == t->k && (have == 0 || key <= best[have - 1].key)) continue;
      i64 p = have < t->k ? have++ : have - 1;
      for (; p > 0 && best[p - 1].key < key; p--) best[p] = best[p - 1];
      best[p] = (item){key, (u32)x};
    }
  for (i64 x = 0; x < t->k; x++) {
    memcpy(j->values + (size_t)(row * t->k + x) * e, in + best[x].index * e, e);
    j->indices[row * t->k + x] = (i32)best[x].index;
  }
  hs_free(best);
}

static hs_status run_topk(void *state, void *const *bufs, void *scratch) {
  (void)scratch;
  const topk *t = state;
  topk_job j = {t, bufs[0], bufs[1], bufs[2], false};
  if (t->n && t->k) cpu_par_for(topk_row, &j, t->rows);
  return j.failed ? hs_fail(HS_E_NO_MEMORY, "no memory for the best of %lld", (long long)t->n)
                  : HS_GOOD;
}

hs_status cpu_topk_prepare(const hlo_instr *i, cpu_rt *out) {
  const hlo_shape *s = hlo_operand(i, 0)->shape, *v = i->shape->elems[0];
  topk *t = hs_calloc(1, sizeof *t);
  *t = (topk){.type = s->dtype,
              .n = s->dims[s->rank - 1],
              .k = v->dims[v->rank - 1],
              .rows = 1,
              .largest = hlo_attr_int(i, HLO_ATTR_LARGEST, 1)};
  for (u32 k = 0; k + 1 < s->rank; k++) t->rows *= s->dims[k];
  *out = (cpu_rt){.kind = "topk", .state = t, .run = run_topk};
  return HS_GOOD;
}
