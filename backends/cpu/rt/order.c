// order.c — order: keys, radix sort, and the least or greatest few of a line (topk, and sorts of
// which only the beginning is read).
//
// Selection: keys that are among the best so far are collected, with their indices, until there are
// twice as many as wanted; then the best of them are kept, and the worst of those is what the next
// ones have to beat. In a line in no particular order few do. A long line is divided into fixed
// parts, whose best are then chosen among. When more than an eighth of a line is wanted it is
// sorted whole. Among equal keys the lower index is first, as in XLA.
#include "backends/cpu/rt/scalar.h"

enum {
  BINS = CPU_RADIX_BINS,
  BIN_GROUP = 16,  // that one task sorts
  LONG = 32768,    // records that are divided by their top digit
  SHORT = 64,      // that are merged or inserted
  RUN = 16,        // that are inserted before they are merged
};

// ---- keys ---------------------------------------------------------------------------------------

#define VECTORS __attribute__((target_clones("default", "avx2", "avx512f")))
VECTORS static void f32_keys(bool canonical, u32 flip, const char *p, i64 n, u32 *restrict out) {
  for (i64 k = 0; k < n; k++) {
    u32 b;
    memcpy(&b, p + 4 * k, 4);
    u32 m = b & 0x7fffffffu, one = m == 0 ? 0 : m > 0x7f800000u ? 0x7f800001u : b;
    b = canonical ? one : b;
    out[k] = (b ^ ((u32)((i32)b >> 31) | 0x80000000u)) ^ flip;
  }
}

void cpu_narrow_keys(hlo_dtype t, bool canonical, u32 flip, const char *p, size_t step, i64 n,
                     u32 *out) {
  u32 x = flip ^ (t == HLO_S32 ? 0x80000000u : 0);
  if (t == HLO_F32 && step == 4) f32_keys(canonical, flip, p, n, out);
  else if ((t == HLO_S32 || t == HLO_U32) && step == 4)
    for (i64 k = 0; k < n; k++) {
      u32 b;
      memcpy(&b, p + 4 * k, 4);
      out[k] = b ^ x;
    }
  else
    for (i64 k = 0; k < n; k++)
      out[k] = (u32)cpu_order_key(t, p + (size_t)k * step, canonical) ^ flip;
}

VECTORS static u32 least_of(const u32 *keys, i64 n) {
  u32 least = UINT32_MAX;
  for (i64 k = 0; k < n; k++) least = HS_MIN(least, keys[k]);
  return least;
}

// ---- radix sort ---------------------------------------------------------------------------------

typedef cpu_item item;

// One digit of a line: `parts` threads count their parts of it, then move them.
typedef struct digit {
  void *from, *to;
  i64 n, parts;
  int shift, low;  // of the digit, and of the keys
  u32 mask;
  u32 *count;      // [parts][BINS], then where each part's elements of each bin go
  const u32 *end;  // where bins end in all
} digit;

// From counts to places, bin by bin, part after part. False: all elements are in one bin.
static bool lay_out(digit *d) {
  u32 sum = 0;
  for (u32 b = 0; b <= d->mask; b++) {
    u32 before = sum;
    for (i64 p = 0; p < d->parts; p++) {
      u32 *c = &d->count[p * BINS + b], x = *c;
      *c = sum;
      sum += x;
    }
    if (sum - before == d->n) return false;
  }
  return true;
}

static void swap_sides(digit *d) {
  void *x = d->from;
  d->from = d->to;
  d->to = x;
}

// The largest bin holds more than one thread's share.
static bool lopsided(const digit *d) {
  u32 most = 0;
  for (u32 b = 0; b <= d->mask; b++) {
    u32 n = 0;
    for (i64 p = 0; p < d->parts; p++) n += d->count[p * BINS + b];
    most = HS_MAX(most, n);
  }
  return (i64)most > d->n / 2;
}

// Sorts n records by the bits [low, low + bits) of their keys, stably. a and t hold n records; the
// result is in a. `count`: room for one part, or for each thread's; then all threads take part.
//
// All records have the same bits above those, so that few are merged by all from `low` on: counting
// them would take as long as a few thousand. Long lines are first divided by their keys' top digit;
// what is in a bin then fits into a cache, and is sorted digit by digit, from the last one, by one
// thread. So is all of a shorter line; and by all threads what does not divide well.
#define DEFINE_RADIX(T, KEY)                                                                   \
  static void count_##T(void *ctx, i64 part, u32 thread) {                                     \
    (void)thread;                                                                              \
    const digit *d = ctx;                                                                      \
    const T *x = d->from;                                                                      \
    u32 *c = d->count + part * BINS;                                                           \
    memset(c, 0, (d->mask + 1) * sizeof *c);                                                   \
    for (i64 k = d->n * part / d->parts, end = d->n * (part + 1) / d->parts; k < end; k++)     \
      c[(u32)(KEY(x[k]) >> d->shift) & d->mask]++;                                             \
  }                                                                                            \
  static void move_##T(void *ctx, i64 part, u32 thread) {                                      \
    (void)thread;                                                                              \
    const digit *d = ctx;                                                                      \
    const T *x = d->from;                                                                      \
    T *y = d->to;                                                                              \
    u32 *c = d->count + part * BINS;                                                           \
    for (i64 k = d->n * part / d->parts, end = d->n * (part + 1) / d->parts; k < end; k++)     \
      y[c[(u32)(KEY(x[k]) >> d->shift) & d->mask]++] = x[k];                                   \
  }                                                                                            \
  /* from `from`, which is a or t, to a, in digits of `width` bits */                          \
  static void digits_##T(T *a, T *t, T *from, i64 n, int low, int bits, int width, u32 *count, \
                         i64 parts) {                                                          \
    digit d = {.from = from,                                                                   \
               .to = from == a ? t : a,                                                        \
               .n = n,                                                                         \
               .parts = parts,                                                                 \
               .count = count,                                                                 \
               .mask = ((u32)1 << width) - 1};                                                 \
    for (int done = 0; done < bits; done += width) {                                           \
      d.shift = low + done;                                                                    \
      if (bits - done < width) d.mask = ((u32)1 << (bits - done)) - 1;                         \
      if (parts == 1) count_##T(&d, 0, 0);                                                     \
      else cpu_par_for(count_##T, &d, parts);                                                  \
      if (!lay_out(&d)) continue;                                                              \
      if (parts == 1) move_##T(&d, 0, 0);                                                      \
      else cpu_par_for(move_##T, &d, parts);                                                   \
      swap_sides(&d);                                                                          \
    }                                                                                          \
    if (d.from != a) memcpy(a, d.from, (size_t)n * sizeof *a);                                 \
  }                                                                                            \
  /* from `from`, which may be a, to a */                                                      \
  static void insert_##T(T *a, const T *from, i64 n, int low) {                                \
    for (i64 k = 0; k < n; k++) {                                                              \
      T x = from[k];                                                                           \
      i64 j = k;                                                                               \
      for (; j > 0 && KEY(a[j - 1]) >> low > KEY(x) >> low; j--) a[j] = a[j - 1];              \
      a[j] = x;                                                                                \
    }                                                                                          \
  }                                                                                            \
  static void sort_bins_##T(void *ctx, i64 chunk, u32 thread) {                                \
    (void)thread;                                                                              \
    const digit *d = ctx;                                                                      \
    u32 count[256];                                                                            \
    int low = d->low, rest = d->shift - d->low, passes = (rest + 7) / 8 | 1;                   \
    for (i64 b = chunk * BIN_GROUP; b < (chunk + 1) * BIN_GROUP; b++) {                        \
      i64 lo = b ? d->end[b - 1] : 0, n = d->end[b] - lo;                                      \
      T *a = (T *)d->from + lo, *t = (T *)d->to + lo;                                          \
      if (n > SHORT) {                                                                         \
        digits_##T(a, t, t, n, low, rest, (rest + passes - 1) / passes, count, 1);             \
      } else {                                                                                 \
        insert_##T(a, t, n, low);                                                              \
      }                                                                                        \
    }                                                                                          \
  }                                                                                            \
  /* by all bits from `low` on */                                                              \
  static void merge_##T(T *a, T *t, i64 n, int low) {                                          \
    for (i64 k = 0; k < n; k += RUN) insert_##T(a + k, a + k, HS_MIN(n - k, (i64)RUN), low);   \
    for (i64 w = RUN; w < n; w *= 2) {                                                         \
      for (i64 lo = 0; lo < n; lo += 2 * w) {                                                  \
        i64 mid = HS_MIN(lo + w, n), hi = HS_MIN(lo + 2 * w, n), x = lo, y = mid, z = lo;      \
        while (x < mid && y < hi) {                                                            \
          bool r = KEY(a[y]) >> low < KEY(a[x]) >> low;                                        \
          t[z++] = r ? a[y] : a[x];                                                            \
          y += r;                                                                              \
          x += !r;                                                                             \
        }                                                                                      \
        while (x < mid) t[z++] = a[x++];                                                       \
        while (y < hi) t[z++] = a[y++];                                                        \
      }                                                                                        \
      memcpy(a, t, (size_t)n * sizeof *a);                                                     \
    }                                                                                          \
  }                                                                                            \
  void cpu_radix_##T(T *a, T *t, i64 n, int low, int bits, u32 *count, i64 parts) {            \
    if (n <= SHORT) {                                                                          \
      merge_##T(a, t, n, low);                                                                 \
      return;                                                                                  \
    }                                                                                          \
    if (n < LONG || bits < 24) {                                                               \
      digits_##T(a, t, a, n, low, bits, n < LONG ? 8 : 11, count, parts);                      \
      return;                                                                                  \
    }                                                                                          \
    u32 end[BINS];                                                                             \
    digit d = {.from = a,                                                                      \
               .to = t,                                                                        \
               .n = n,                                                                         \
               .parts = parts,                                                                 \
               .count = count,                                                                 \
               .mask = BINS - 1,                                                               \
               .shift = low + bits - 11,                                                       \
               .low = low,                                                                     \
               .end = end};                                                                    \
    if (parts == 1) count_##T(&d, 0, 0);                                                       \
    else cpu_par_for(count_##T, &d, parts);                                                    \
    if (lopsided(&d)) {                                                                        \
      digits_##T(a, t, a, n, low, bits, 11, count, parts);                                     \
      return;                                                                                  \
    }                                                                                          \
    (void)lay_out(&d);                                                                         \
    if (parts == 1) move_##T(&d, 0, 0);                                                        \
    else cpu_par_for(move_##T, &d, parts);                                                     \
    memcpy(end, count + (parts - 1) * BINS, sizeof end);                                       \
    if (parts == 1)                                                                            \
      for (i64 k = 0; k < BINS / BIN_GROUP; k++) sort_bins_##T(&d, k, 0);                      \
    else cpu_par_for(sort_bins_##T, &d, BINS / BIN_GROUP);                                     \
  }
#define ITSELF(x) (x)
#define ITS_KEY(x) ((x).key)
DEFINE_RADIX(u32, ITSELF)
DEFINE_RADIX(u64, ITSELF)
DEFINE_RADIX(item, ITS_KEY)

void cpu_sort_u64(u64 *a, u64 *t, i64 n, int low, int bits) {
  u32 count[BINS];
  cpu_radix_u64(a, t, n, low, bits, count, 1);
}

// ---- selection ----------------------------------------------------------------------------------

// Of n different numbers, puts the one that is the k-th of the sorted ones there, lesser ones
// before it (Hoare 1961; divided by Lomuto's loop, which has no branch to foretell). The pivot's
// place is scattered, so that no order that anybody is likely to sort is a bad one.
static void least_first(u64 *a, i64 n, i64 k) {
  i64 lo = 0, hi = n - 1;
  u64 seed = 0x9E3779B97F4A7C15u;
  while (lo < hi) {
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    i64 at = lo + (i64)((seed >> 33) % (u64)(hi - lo + 1)), w = lo;
    u64 pivot = a[at];
    a[at] = a[hi];
    for (i64 i = lo; i < hi; i++) {
      u64 x = a[i];
      a[i] = a[w];
      a[w] = x;
      w += x < pivot;
    }
    a[hi] = a[w];
    a[w] = pivot;
    if (k == w) return;
    if (k < w) hi = w - 1;
    else lo = w + 1;
  }
}

static u64 greatest(const u64 *a, i64 n) {
  u64 m = 0;
  for (i64 k = 0; k < n; k++) m = HS_MAX(m, a[k]);
  return m;
}

i64 cpu_least(hlo_dtype t, bool canonical, u32 flip, const char *line, size_t step, i64 lo, i64 hi,
              i64 k, u64 *best) {
  enum { BLOCK = 128 };
  i64 n = 0, room = 2 * k + CPU_LEAST_ROOM;
  u64 bound = ~(u64)0;  // what the next ones have to be less than
  for (i64 at = lo; at < hi; at += BLOCK) {
    u32 keys[BLOCK];
    i64 m = HS_MIN(hi - at, (i64)BLOCK);
    cpu_narrow_keys(t, canonical, flip, line + (size_t)at * step, step, m, keys);
    if (least_of(keys, m) > (u32)(bound >> 32)) continue;
    for (i64 j = 0; j < m; j++) {
      best[n] = (u64)keys[j] << 32 | (u64)(at + j);
      n += best[n] < bound;
    }
    if (n + BLOCK > room) {
      least_first(best, n, k - 1);
      n = k;
      bound = greatest(best, n);
    }
  }
  if (n > k) least_first(best, n, k - 1);
  n = HS_MIN(n, k);
  u64 *t2 = best + k;  // there is room for as many again
  cpu_sort_u64(best, t2, n, 0, 64);
  return n;
}

// ---- topk ---------------------------------------------------------------------------------------

typedef struct topk {
  hlo_dtype type;
  i64 n, k, rows;
  bool largest;
  i64 parts;  // of each row
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
  u64 *best;    // of each part: k of them, and how many
  bool failed;  // set by any thread that had no memory for a row
} topk_job;

static void put_best(const topk_job *j, i64 row, i64 place, u32 index) {
  const topk *t = j->t;
  size_t e = hlo_dtype_storage(t->type);
  memcpy(j->values + (size_t)(row * t->k + place) * e, j->in + (size_t)(row * t->n + index) * e, e);
  j->indices[row * t->k + place] = (i32)index;
}

enum { SHORT_ROWS = 128 };  // of a chunk
static bool is_wide(const topk *t) { return hlo_dtype_bits(t->type) > 32; }
static bool is_short(const topk *t) { return t->n <= SHORT && !is_wide(t); }

static u64 sorted_as(const topk *t, const char *in, i64 x) {
  u64 key = cpu_order_key(t->type, in + (size_t)x * hlo_dtype_storage(t->type), false);
  return (t->largest ? ~key : key) << 32 | (u64)x;
}

// A short row (experts, beams): without memory of its own, by key and index together.
static void sort_short(const topk_job *j, i64 row) {
  const topk *t = j->t;
  const char *in = j->in + (size_t)(row * t->n) * hlo_dtype_storage(t->type);
  u64 a[SHORT], b[SHORT];
  for (i64 x = 0; x < t->n; x++) a[x] = sorted_as(t, in, x);
  cpu_sort_u64(a, b, t->n, 0, 64);
  for (i64 x = 0; x < t->k; x++) put_best(j, row, x, (u32)a[x]);
}

// Keys of 64 bits, or most of a row: all sorted, by 32 bits of the key at a time.
static bool sort_whole(const topk_job *j, i64 row) {
  const topk *t = j->t;
  size_t e = hlo_dtype_storage(t->type), n = (size_t)t->n;
  const char *in = j->in + (size_t)row * n * e;
  bool wide = is_wide(t);
  u64 *a = hs_try_alloc(2 * n * sizeof *a), *keys = wide ? hs_try_alloc(n * sizeof *keys) : NULL;
  if (!a || (wide && !keys)) return hs_free(a), hs_free(keys), false;
  for (i64 x = 0; x < t->n; x++) {
    u64 key = cpu_order_key(t->type, in + (size_t)x * e, false);
    if (t->largest) key = ~key;
    a[x] = key << 32 | (u64)x;
    if (wide) keys[x] = key;
  }
  cpu_sort_u64(a, a + n, t->n, 32, 32);
  if (wide) {
    for (i64 x = 0; x < t->n; x++) a[x] = keys[(u32)a[x]] >> 32 << 32 | (u32)a[x];
    cpu_sort_u64(a, a + n, t->n, 32, 32);
  }
  for (i64 x = 0; x < t->k; x++) put_best(j, row, x, (u32)a[x]);
  hs_free(a), hs_free(keys);
  return true;
}

static void best_of_part(void *ctx, i64 chunk, u32 thread) {
  (void)thread;
  topk_job *j = ctx;
  const topk *t = j->t;
  i64 row = chunk / t->parts, part = chunk % t->parts;
  u64 *best = hs_try_alloc((size_t)(2 * t->k + CPU_LEAST_ROOM) * sizeof *best);
  if (!best) return __atomic_store_n(&j->failed, true, __ATOMIC_RELAXED);
  size_t e = hlo_dtype_storage(t->type);
  int bits = HS_MAX(hlo_dtype_bits(t->type), 8);
  u32 flip = t->largest ? (u32)(((u64)1 << bits) - 1) : 0;
  i64 n = cpu_least(t->type, false, flip, j->in + (size_t)(row * t->n) * e, e,
                    t->n * part / t->parts, t->n * (part + 1) / t->parts, t->k, best);
  u64 *mine = j->best ? j->best + chunk * (t->k + 1) : NULL;
  for (i64 x = 0; x < n; x++) {
    if (mine) mine[x + 1] = best[x];
    else put_best(j, row, x, (u32)best[x]);
  }
  if (mine) mine[0] = (u64)n;
  hs_free(best);
}

static void whole_row(void *ctx, i64 row, u32 thread) {
  (void)thread;
  topk_job *j = ctx;
  if (!sort_whole(j, row)) __atomic_store_n(&j->failed, true, __ATOMIC_RELAXED);
}

static void short_rows(void *ctx, i64 chunk, u32 thread) {
  (void)thread;
  const topk_job *j = ctx;
  i64 end = HS_MIN((chunk + 1) * SHORT_ROWS, j->t->rows);
  for (i64 row = chunk * SHORT_ROWS; row < end; row++) sort_short(j, row);
}

// The parts' best, next to each other and sorted.
static void join_parts(const topk_job *j, i64 row) {
  const topk *t = j->t;
  u64 *all = j->best + t->rows * t->parts * (t->k + 1);
  i64 n = 0;
  for (i64 p = 0; p < t->parts; p++) {
    const u64 *mine = j->best + (row * t->parts + p) * (t->k + 1);
    memcpy(all + n, mine + 1, (size_t)mine[0] * sizeof *all);
    n += (i64)mine[0];
  }
  if (n > t->k) least_first(all, n, t->k - 1);
  n = HS_MIN(n, t->k);
  cpu_sort_u64(all, all + t->parts * t->k, n, 0, 64);
  for (i64 x = 0; x < n; x++) put_best(j, row, x, (u32)all[x]);
}

static hs_status run_topk(void *state, void *const *bufs, void *scratch) {
  const topk *t = state;
  topk_job j = {t, bufs[0], bufs[1], bufs[2], t->parts > 1 ? scratch : NULL, false};
  if (!t->n || !t->k) return HS_GOOD;
  if (!t->parts && is_short(t))
    cpu_par_for(short_rows, &j, (t->rows + SHORT_ROWS - 1) / SHORT_ROWS);
  else if (!t->parts) cpu_par_for(whole_row, &j, t->rows);
  else {
    if (t->rows * t->n < 8192)
      for (i64 k = 0; k < t->rows * t->parts; k++) best_of_part(&j, k, 0);
    else cpu_par_for(best_of_part, &j, t->rows * t->parts);
    for (i64 r = 0; r < t->rows && t->parts > 1 && !j.failed; r++) join_parts(&j, r);
  }
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
  enum { PART = 32768, MOST_PARTS = 32, LEAST = 16 };
  bool few = hlo_dtype_bits(s->dtype) <= 32 && t->k <= t->n / 8 && t->n > LEAST;
  if (few) t->parts = 1;
  if (few && t->rows < 8 && t->k <= PART / 8)
    t->parts = HS_MAX((i64)1, HS_MIN(t->n / PART, (i64)MOST_PARTS));
  i64 scratch = (t->rows * t->parts * (t->k + 1) + 2 * t->parts * t->k) * (i64)sizeof(u64);
  *out = (cpu_rt){.kind = few           ? "topk (selection)"
                          : is_short(t) ? "topk (short)"
                                        : "topk (radix)",
                  .state = t,
                  .run = run_topk,
                  .scratch_bytes = t->parts > 1 ? scratch : 0};
  return HS_GOOD;
}
