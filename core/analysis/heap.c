// heap.c — offsets by a simulation of a heap that knows the future. See heap.h.
//
// Invariant: two buffers whose live ranges meet never overlap in memory.
#include "core/analysis/heap.h"

#include <stdlib.h>

typedef struct sized {
  size_t bytes;
  u32 buffer;
} sized;
static int by_size(const void *a, const void *b) {
  const sized *x = a, *y = b;
  return x->bytes != y->bytes ? (x->bytes < y->bytes ? 1 : -1) : x->buffer < y->buffer ? -1 : 1;
}

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

bool hlo_heap_place(u32 n, hlo_heap_buffer *buffers, size_t most, size_t *total) {
  sized *order = hs_alloc(sizeof *order * ((size_t)n + 1));
  span *busy = hs_alloc(sizeof *busy * ((size_t)n + 1));
  u32 count = 0;
  bool fits = true;
  *total = 0;
  for (u32 k = 0; k < n; k++) {
    buffers[k].offset = 0;
    if (buffers[k].bytes) order[count++] = (sized){buffers[k].bytes, k};
  }
  if (count) qsort(order, count, sizeof *order, by_size);
  for (u32 done = 0; done < count && fits; done++) {
    hlo_heap_buffer *b = &buffers[order[done].buffer];
    b->offset = best_gap(buffers, order, done, b, busy);
    *total = HS_MAX(*total, b->offset + hlo_heap_align(b->bytes));
    fits = *total <= most && !hs_interrupted();
  }
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
