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

// A buffer that has its place. Those of one placement are in the order of their offsets, in runs
// that are split when full, so that one more moves few. A run knows the parts of the schedule in
// which its buffers are live, a bit for each, and is skipped where the question is of others.
typedef struct placed {
  size_t from, to;
  i32 first, last;
} placed;
enum { MOST_IN_RUN = 32 };
typedef struct run {
  u64 live;
  u32 n;
  placed v[MOST_IN_RUN];
} run;
typedef struct placement {
  i32 start;  // of the schedule
  u32 shift;  // steps of a part, as a power of two
  u32 nruns, nused;
  run *room;   // where runs lie, and
  run **runs;  // their order
} placement;

static placement placement_new(const hlo_heap_buffer *all, u32 n) {
  i32 from = INT32_MAX, to = INT32_MIN;
  for (u32 k = 0; k < n; k++) {
    from = HS_MIN(from, HS_MIN(all[k].first, all[k].last));
    to = HS_MAX(to, HS_MAX(all[k].first, all[k].last));
  }
  placement p = {.start = from};
  while (from < to && ((i64)to - from) >> p.shift > 63) p.shift++;
  // a run that is split leaves two half full
  u32 most = n / (MOST_IN_RUN / 2) + 1;
  p.room = hs_alloc(most * sizeof *p.room);
  p.runs = hs_alloc(most * sizeof *p.runs);
  return p;
}

static void placement_free(placement *p) {
  hs_free(p->room);
  hs_free(p->runs);
}

static u64 parts_of(const placement *p, i32 first, i32 last) {
  i64 from = HS_MIN(first, last), to = HS_MAX(first, last);  // it may be live nowhere
  u64 low = (u64)(from - p->start) >> p->shift, high = (u64)(to - p->start) >> p->shift;
  return (UINT64_MAX >> (63 - high)) & (UINT64_MAX << low);
}

// Smallest gap that fits among the placed buffers live at the same time.
static size_t best_gap(const placement *p, const hlo_heap_buffer *b) {
  size_t at = 0, best = SIZE_MAX, best_size = SIZE_MAX, need = hlo_heap_align(b->bytes);
  u64 live = parts_of(p, b->first, b->last);
  for (u32 r = 0; r < p->nruns; r++) {
    const run *x = p->runs[r];
    if (!(x->live & live)) continue;
    for (const placed *o = x->v, *end = o + x->n; o < end; o++) {
      if (o->first > b->last || b->first > o->last) continue;
      if (o->from >= at + need && o->from - at < best_size) {
        best = at;
        best_size = o->from - at;
        if (best_size == need) return best;
      }
      at = HS_MAX(at, o->to);
    }
  }
  return best != SIZE_MAX ? best : at;
}

// Makes room for a run behind run number k, and moves the upper half of that one there.
static void split(placement *p, u32 k) {
  run *x = p->runs[k], *y = &p->room[p->nused++];
  memmove(&p->runs[k + 2], &p->runs[k + 1], (p->nruns - k - 1) * sizeof(run *));
  p->runs[k + 1] = y;
  p->nruns++;
  x->n = MOST_IN_RUN / 2;
  y->n = MOST_IN_RUN - x->n;
  memcpy(y->v, x->v + x->n, y->n * sizeof *y->v);
  for (u32 h = 0; h < 2; h++) {
    run *half = h ? y : x;
    half->live = 0;
    for (u32 q = 0; q < half->n; q++) half->live |= parts_of(p, half->v[q].first, half->v[q].last);
  }
}

static void insert(placement *p, const hlo_heap_buffer *b) {
  if (!p->nruns) {
    p->runs[p->nruns++] = &p->room[p->nused++];
    p->runs[0]->live = p->runs[0]->n = 0;
  }
  u32 k = p->nruns - 1;
  while (k && p->runs[k]->v[0].from > b->offset) k--;
  if (p->runs[k]->n == MOST_IN_RUN) {
    split(p, k);
    k += p->runs[k + 1]->v[0].from <= b->offset;
  }
  run *x = p->runs[k];
  u32 at = x->n;
  for (; at && x->v[at - 1].from > b->offset; at--) x->v[at] = x->v[at - 1];
  x->v[at] = (placed){b->offset, b->offset + hlo_heap_align(b->bytes), b->first, b->last};
  x->n++;
  x->live |= parts_of(p, b->first, b->last);
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
                     placement *done, size_t *total) {
  *total = 0;
  done->nruns = done->nused = 0;
  for (u32 k = 0; k < count; k++) {
    hlo_heap_buffer *b = &buffers[order[k].buffer];
    b->offset = best_gap(done, b);
    insert(done, b);
    *total = HS_MAX(*total, b->offset + hlo_heap_align(b->bytes));
    if (*total > most || hs_interrupted()) return false;
  }
  return true;
}

bool hlo_heap_place(u32 n, hlo_heap_buffer *buffers, size_t most, size_t *total) {
  sized *order = hs_alloc(sizeof *order * ((size_t)n + 1));
  placement done = placement_new(buffers, n);
  hlo_heap_buffer *tried = hs_alloc(sizeof *tried * ((size_t)n + 1));
  u32 count = 0;
  for (u32 k = 0; k < n; k++) {
    hlo_heap_buffer *b = &buffers[k];
    b->offset = 0;
    if (b->bytes) order[count++] = (sized){b->bytes, b->first, b->last, k};
    tried[k] = *b;
  }
  if (count) qsort(order, count, sizeof *order, orders[0]);
  bool fits = place_in(order, count, buffers, most, &done, total);
  size_t least = fits && n <= MOST_TRIED ? least_area(buffers, n) : SIZE_MAX;
  for (size_t k = 1; k < HS_COUNT(orders) && *total > least; k++) {
    size_t end;
    qsort(order, count, sizeof *order, orders[k]);
    if (!place_in(order, count, tried, *total - 1, &done, &end)) continue;
    *total = end;
    memcpy(buffers, tried, n * sizeof *tried);
  }
  hs_free(tried);
  placement_free(&done);
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
