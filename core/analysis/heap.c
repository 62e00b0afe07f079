// heap.c — offsets by a simulation of a heap that knows the future. See heap.h.
//
// Invariant: two buffers whose live ranges meet never overlap in memory.
//
// Which order leaves the fewest holes depends on the program: where the first one leaves any, the
// others are tried as well, and the smallest area counts.
#include "core/analysis/heap.h"

#include <stdlib.h>

enum { MOST_TRIED = 1024 };  // buffers: above it the first order is taken

typedef struct sized {
  size_t bytes;
  i32 first, last;
  u32 buffer;
} sized;
#define GREATER_FIRST(x, y) \
  if ((x) != (y)) return (x) < (y) ? 1 : -1
static int by_size(const void *a, const void *b) {
  const sized *x = a, *y = b;
  GREATER_FIRST(x->bytes, y->bytes);
  return x->buffer < y->buffer ? -1 : 1;
}
static int by_life(const void *a, const void *b) {
  const sized *x = a, *y = b;
  i64 dx = (i64)x->last - x->first, dy = (i64)y->last - y->first;
  GREATER_FIRST(dx, dy);
  return by_size(a, b);
}
static int by_start(const void *a, const void *b) {
  const sized *x = a, *y = b;
  GREATER_FIRST(y->first, x->first);
  return by_size(a, b);
}
typedef int compare_fn(const void *, const void *);
static compare_fn *const orders[] = {by_size, by_life, by_start};

// A buffer that has its place. Those of one placement are kept in the order of their offsets.
typedef struct placed {
  size_t from, to;
  i32 first, last;
} placed;

// Smallest gap that fits among the placed buffers live at the same time.
static size_t best_gap(const placed *all, u32 n, const hlo_heap_buffer *b) {
  size_t at = 0, best = SIZE_MAX, best_size = SIZE_MAX, need = hlo_heap_align(b->bytes);
  for (u32 k = 0; k < n; k++) {
    if (all[k].first > b->last || b->first > all[k].last) continue;
    if (all[k].from >= at + need && all[k].from - at < best_size) {
      best = at;
      best_size = all[k].from - at;
    }
    at = HS_MAX(at, all[k].to);
  }
  return best != SIZE_MAX ? best : at;
}

static void insert(placed *all, u32 n, const hlo_heap_buffer *b) {
  u32 low = 0, high = n;
  while (low < high) {
    u32 middle = low + (high - low) / 2;
    if (all[middle].from <= b->offset) low = middle + 1;
    else high = middle;
  }
  memmove(&all[low + 1], &all[low], (n - low) * sizeof *all);
  all[low] = (placed){b->offset, b->offset + hlo_heap_align(b->bytes), b->first, b->last};
}

// The largest sum of those live at once.
static size_t least_area(const hlo_heap_buffer *all, u32 n) {
  i32 from = INT32_MAX, to = INT32_MIN;
  for (u32 k = 0; k < n; k++) {
    from = HS_MIN(from, all[k].first);
    to = HS_MAX(to, all[k].last);
  }
  if (from > to) return 0;
  size_t steps = (size_t)((i64)to - from) + 1, most = 0, sum = 0;
  size_t *delta = hs_calloc(steps + 1, sizeof *delta);  // wraps around where more end than begin
  for (u32 k = 0; k < n; k++) {
    if (all[k].first > all[k].last) continue;
    delta[all[k].first - from] += hlo_heap_align(all[k].bytes);
    delta[all[k].last - from + 1] -= hlo_heap_align(all[k].bytes);
  }
  for (size_t k = 0; k < steps; k++) {
    sum += delta[k];
    most = HS_MAX(most, sum);
  }
  hs_free(delta);
  return most;
}

// Places the buffers in the given order; false beyond `most`, or when interrupted.
static bool place_in(const sized *order, u32 count, hlo_heap_buffer *buffers, size_t most,
                     placed *done, size_t *total) {
  *total = 0;
  for (u32 k = 0; k < count; k++) {
    hlo_heap_buffer *b = &buffers[order[k].buffer];
    b->offset = best_gap(done, k, b);
    insert(done, k, b);
    *total = HS_MAX(*total, b->offset + hlo_heap_align(b->bytes));
    if (*total > most || hs_interrupted()) return false;
  }
  return true;
}

bool hlo_heap_place(u32 n, hlo_heap_buffer *buffers, size_t most, size_t *total) {
  sized *order = hs_alloc(sizeof *order * ((size_t)n + 1));
  placed *done = hs_alloc(sizeof *done * ((size_t)n + 1));
  hlo_heap_buffer *tried = hs_alloc(sizeof *tried * ((size_t)n + 1));
  u32 count = 0;
  for (u32 k = 0; k < n; k++) {
    hlo_heap_buffer *b = &buffers[k];
    b->offset = 0;
    if (b->bytes) order[count++] = (sized){b->bytes, b->first, b->last, k};
    tried[k] = *b;
  }
  if (count) qsort(order, count, sizeof *order, orders[0]);
  bool fits = place_in(order, count, buffers, most, done, total);
  size_t least = fits && n <= MOST_TRIED ? least_area(buffers, n) : SIZE_MAX;
  for (size_t k = 1; k < HS_COUNT(orders) && *total > least; k++) {
    size_t end;
    qsort(order, count, sizeof *order, orders[k]);
    if (!place_in(order, count, tried, *total - 1, done, &end)) continue;
    *total = end;
    memcpy(buffers, tried, n * sizeof *tried);
  }
  hs_free(tried);
  hs_free(done);
  hs_free(order);
  return fits;
}

size_t hlo_heap_live_peak(u32 n, const hlo_heap_buffer *buffers, u32 steps, u32 *at) {
  i64 *delta = hs_calloc((size_t)steps + 2, sizeof *delta), now = 0, peak = 0;
  if (at) *at = 0;
  for (u32 k = 0; k < n; k++) {
    const hlo_heap_buffer *b = &buffers[k];
    delta[HS_MAX(b->first, 0)] += (i64)hlo_heap_align(b->bytes);
    delta[HS_MAX(HS_MIN(b->last, (i32)steps - 1), 0) + 1] -= (i64)hlo_heap_align(b->bytes);
  }
  for (u32 k = 0; k < steps; k++) {
    now += delta[k];
    if (now <= peak) continue;
    peak = now;
    if (at) *at = k;
  }
  hs_free(delta);
  return (size_t)peak;
}
