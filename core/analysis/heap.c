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

typedef struct span {
  size_t from, to;
} span;
static int by_offset(const void *a, const void *b) {
  const span *x = a, *y = b;
  return x->from != y->from ? (x->from < y->from ? -1 : 1) : 0;
}

// Smallest gap that fits among the placed buffers live at the same time.
static size_t best_gap(const hlo_heap_buffer *all, const sized *placed, u32 n,
                       const hlo_heap_buffer *b, span *busy) {
  u32 m = 0;
  for (u32 k = 0; k < n; k++) {
    const hlo_heap_buffer *o = &all[placed[k].buffer];
    if (o->first <= b->last && b->first <= o->last)
      busy[m++] = (span){o->offset, o->offset + hlo_heap_align(o->bytes)};
  }
  if (m) qsort(busy, m, sizeof *busy, by_offset);
  size_t at = 0, best = SIZE_MAX, best_size = SIZE_MAX, need = hlo_heap_align(b->bytes);
  for (u32 k = 0; k < m; k++) {
    if (busy[k].from >= at + need && busy[k].from - at < best_size) {
      best = at;
      best_size = busy[k].from - at;
    }
    at = HS_MAX(at, busy[k].to);
  }
  return best != SIZE_MAX ? best : at;
}

// The largest sum of those live at once, which there always is where one begins.
static size_t least_area(const hlo_heap_buffer *all, u32 n) {
  size_t most = 0;
  for (u32 k = 0; k < n; k++) {
    size_t sum = 0;
    for (u32 j = 0; j < n; j++)
      if (all[j].first <= all[k].first && all[k].first <= all[j].last)
        sum += hlo_heap_align(all[j].bytes);
    most = HS_MAX(most, sum);
  }
  return most;
}

// Places the buffers in the given order; false beyond `most`, or when interrupted.
static bool place_in(const sized *order, u32 count, hlo_heap_buffer *buffers, size_t most,
                     span *busy, size_t *total) {
  *total = 0;
  for (u32 done = 0; done < count; done++) {
    hlo_heap_buffer *b = &buffers[order[done].buffer];
    b->offset = best_gap(buffers, order, done, b, busy);
    *total = HS_MAX(*total, b->offset + hlo_heap_align(b->bytes));
    if (*total > most || hs_interrupted()) return false;
  }
  return true;
}

bool hlo_heap_place(u32 n, hlo_heap_buffer *buffers, size_t most, size_t *total) {
  sized *order = hs_alloc(sizeof *order * ((size_t)n + 1));
  span *busy = hs_alloc(sizeof *busy * ((size_t)n + 1));
  hlo_heap_buffer *tried = hs_alloc(sizeof *tried * ((size_t)n + 1));
  u32 count = 0;
  for (u32 k = 0; k < n; k++) {
    hlo_heap_buffer *b = &buffers[k];
    b->offset = 0;
    if (b->bytes) order[count++] = (sized){b->bytes, b->first, b->last, k};
    tried[k] = *b;
  }
  if (count) qsort(order, count, sizeof *order, orders[0]);
  bool fits = place_in(order, count, buffers, most, busy, total);
  size_t least = fits && n <= MOST_TRIED ? least_area(buffers, n) : SIZE_MAX;
  for (size_t k = 1; k < HS_COUNT(orders) && *total > least; k++) {
    size_t end;
    qsort(order, count, sizeof *order, orders[k]);
    if (!place_in(order, count, tried, *total - 1, busy, &end)) continue;
    *total = end;
    memcpy(buffers, tried, n * sizeof *tried);
  }
  hs_free(tried);
  hs_free(busy);
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
