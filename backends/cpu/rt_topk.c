// rt_topk.c — the least or greatest few of each line: topk, and sorts of which only the beginning is
// read.
//
// Keys that are among the best so far are collected, with their indices, until there are twice as
// many as wanted; then the best of them are kept, and the worst of those is what the next ones have
// to beat. In a line in no particular order few do. A long line is divided into fixed parts, whose
// best are then chosen among. When more than an eighth of a line is wanted it is sorted whole.
// Among equal keys the lower index is first, as in XLA.
#include "backends/cpu/scalar.h"

// ---- selection ----------------------------------------------------------------------------------

// Of n different numbers, puts the one that is the k-th of the sorted ones there, lesser ones
// before it (Hoare 1961). The pivot's place is scattered, so that no order that anybody is likely to
// sort is a bad one.
static void least_first(u64 *a, i64 n, i64 k) {
  i64 lo = 0, hi = n - 1;
  u64 seed = 0x9E3779B97F4A7C15u;
  while (lo < hi) {
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    u64 pivot = a[lo + (i64)((seed >> 33) % (u64)(hi - lo + 1))];
    i64 i = lo, j = hi;
    while (i <= j) {
      while (a[i] < pivot) i++;
      while (a[j] > pivot) j--;
      if (i > j) break;
      u64 x = a[i];
      a[i++] = a[j];
      a[j--] = x;
    }
    if (k <= j) hi = j;
    else if (k >= i) lo = i;
    else return;
  }
}

static u64 greatest(const u64 *a, i64 n) {
  u64 m = 0;
  for (i64 k = 0; k < n; k++) m = HS_MAX(m, a[k]);
  return m;
}

i64 cpu_least(hlo_dtype t, bool canonical, u32 flip, const char *line, size_t step, i64 lo, i64 hi,
              i64 k, u64 *best) {
  enum { BLOCK = 64 };
  i64 n = 0, room = 2 * k + CPU_LEAST_ROOM;
  u64 bound = ~(u64)0;  // what the next ones have to be less than
  for (i64 at = lo; at < hi; at += BLOCK) {
    u32 keys[BLOCK], limit = (u32)(bound >> 32), hits = 0;
    i64 m = HS_MIN(hi - at, (i64)BLOCK);
    cpu_narrow_keys(t, canonical, flip, line + (size_t)at * step, step, m, keys);
    for (i64 j = 0; j < m; j++) hits += keys[j] <= limit;
    if (!hits) continue;
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

// Keys of 64 bits, or most of a row: all sorted, by 32 bits of the key at a time.
static bool sort_whole(const topk_job *j, i64 row) {
  const topk *t = j->t;
  size_t e = hlo_dtype_storage(t->type), n = (size_t)t->n;
  const char *in = j->in + (size_t)row * n * e;
  bool wide = hlo_dtype_bits(t->type) > 32;
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
  if (!t->parts) cpu_par_for(whole_row, &j, t->rows);
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
  enum { PART = 32768, MOST_PARTS = 32 };
  bool few = hlo_dtype_bits(s->dtype) <= 32 && t->k <= t->n / 8;
  if (few) t->parts = 1;
  if (few && t->rows < 8 && t->k <= PART / 8)
    t->parts = HS_MAX((i64)1, HS_MIN(t->n / PART, (i64)MOST_PARTS));
  i64 scratch = (t->rows * t->parts * (t->k + 1) + 2 * t->parts * t->k) * (i64)sizeof(u64);
  *out = (cpu_rt){.kind = few ? "topk (selection)" : "topk (radix)",
                  .state = t,
                  .run = run_topk,
                  .scratch_bytes = t->parts > 1 ? scratch : 0};
  return HS_GOOD;
}
