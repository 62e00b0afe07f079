// residency.c: stack distances (Mattson et al. 1970) over the addresses of a plan of memory.
//
// A cache that replaces what was used longest ago still holds what less was touched since than it
// is large. So the memory of the module (arguments, constants, results, and the area of the
// temporaries with the offsets that a backend's plan gives them) is kept as ranges, each with the
// time at which it was touched last, and the bytes that were touched since are its distance. A
// result written over a buffer that was read a moment ago is near, whoever's buffer that was.
//
// The ranges are in the order of their addresses, and the bytes of each time are a tree of sums
// (Fenwick 1994), so that neither a range nor a distance is searched for from end to end.
//
// A kernel goes through all of its arrays at the same time, from end to end. Its ranges are a group
// of equals: what was touched since an element of a group is, on average over its elements, half of
// the rest of the group, the groups after it, and half of what the kernel at hand touches.
//
// One run is gone through before the first question, because programs that are measured run again
// and again, and so do the bodies of loops. Between two calls of a computation that is called once
// in a run lies the rest of the run.
//
// Threads have caches of their own. Each range says whose the last accesses were: what all of them
// wrote has to be handed to one that reads it, once, and then lies both ways.
//
// Invariant: the ranges do not overlap, and none is empty.
#include "profiler/model/residency.h"

#include <stdlib.h>

#include "core/analysis/heap.h"

enum { MOST_BUFFERS = 3072, MOST_RANGES = 64 };
#define MOST_BYTES ((i64)1 << 61)
#define SHARED_BYTES 32768.0  // in caches it does not matter which thread has less

typedef struct span {
  i64 from, to;
} span;

typedef struct touched {
  span s;
  u32 group, rank;  // the kernel that touched it last, and which of its accesses did
  u32 by;           // prof_sharing, several: how it lies in the caches of the threads
} touched;

struct prof_residency {
  hs_arena arena;
  hlo_live live;
  i64 *offset, *inside;  // by buffer; by place in the schedule: of what its callees need
  i64 total;
  HS_VEC(touched) ranges;  // by address
  HS_VEC(i64) groups;      // bytes that are left of each
  HS_VEC(i64) sums;        // their tree: element k is of the k + 1 & -(k + 1) groups up to k
  HS_VEC(touched) parts;   // of the range at hand
};

// What a kernel touches: `bytes` of them are moved.
typedef struct moved {
  span s;
  double bytes;
  bool written;
} moved;

// ---- the plan -----------------------------------------------------------------------------------
// Gives each buffer its offset; false where they are too large to have one.
static bool place_buffers(prof_residency *r) {
  const hlo_live *l = &r->live;
  hlo_heap_buffer *heap = HS_NEW_ARRAY(&r->arena, hlo_heap_buffer, l->nbuffers + l->n + 1);
  i64 **to = HS_NEW_ARRAY(&r->arena, i64 *, l->nbuffers + l->n + 1);
  r->offset = HS_NEW_ARRAY(&r->arena, i64, l->nbuffers + 1);
  r->inside = HS_NEW_ARRAY(&r->arena, i64, l->n + 1);
  i64 end = 0;
  u32 n = 0;
  for (u32 b = 0; b < l->nbuffers; b++) {
    const hlo_live_buffer *x = &l->buffers[b];
    if (x->bytes > MOST_BYTES >> 6) return false;
    if (x->parameter || x->constant || x->output) {
      r->offset[b] = end;
      end = hs_add_sat_i64(end, (i64)hlo_heap_align((size_t)x->bytes));
    } else {
      to[n] = &r->offset[b];
      heap[n++] = (hlo_heap_buffer){(size_t)x->bytes, 0, (i32)x->first, (i32)x->last};
    }
  }
  for (u32 t = 0; t < l->n; t++) {
    if (!l->inside[t]) continue;
    to[n] = &r->inside[t];
    heap[n++] = (hlo_heap_buffer){(size_t)HS_MIN(l->inside[t], MOST_BYTES >> 6), 0, (i32)t, (i32)t};
  }
  size_t area;
  if (end > MOST_BYTES || !hlo_heap_place(n, heap, MOST_BYTES, &area)) return false;
  for (u32 k = 0; k < n; k++) *to[k] = end + (i64)heap[k].offset;
  r->total = end + (i64)area;
  return true;
}

// ---- what was touched ---------------------------------------------------------------------------
static i64 length(span s) { return s.to - s.from; }

static span common(span a, span b) {
  span c = {HS_MAX(a.from, b.from), HS_MIN(a.to, b.to)};
  return c.to > c.from ? c : (span){0};
}

static size_t lowest_bit(size_t k) { return k & -k; }

static void push_group(prof_residency *r, i64 bytes) {
  hs_vec_push(&r->groups, bytes);
  size_t at = r->groups.n;
  i64 sum = bytes;
  for (size_t k = 1; k < lowest_bit(at); k *= 2) sum += r->sums.v[at - k - 1];
  hs_vec_push(&r->sums, sum);
}

static void take_from_group(prof_residency *r, u32 group, i64 bytes) {
  r->groups.v[group] -= bytes;
  for (size_t k = group + 1; k <= r->sums.n; k += lowest_bit(k)) r->sums.v[k - 1] -= bytes;
}

// Bytes of the first n groups.
static i64 sum_of_groups(const prof_residency *r, size_t n) {
  i64 sum = 0;
  for (; n; n -= lowest_bit(n)) sum += r->sums.v[n - 1];
  return sum;
}

// The first range that ends behind an address.
static size_t find(const prof_residency *r, i64 address) {
  size_t low = 0, high = r->ranges.n;
  while (low < high) {
    size_t middle = low + (high - low) / 2;
    if (r->ranges.v[middle].s.to <= address) low = middle + 1;
    else high = middle;
  }
  return low;
}

// Puts m ranges where the range number k (old: 1) or none (0) is.
static void splice(prof_residency *r, size_t k, size_t old, size_t m, const touched *v) {
  for (size_t q = old; q < m; q++) hs_vec_push(&r->ranges, (touched){0});
  size_t behind = r->ranges.n - k - HS_MAX(old, m);
  memmove(&r->ranges.v[k + m], &r->ranges.v[k + old], behind * sizeof *v);
  if (m) memcpy(&r->ranges.v[k], v, m * sizeof *v);
  if (old > m) r->ranges.n -= old - m;
}

// Takes out what groups before `now` touched of a range.
static void cut(prof_residency *r, span s, u32 now) {
  for (size_t k = find(r, s.from); k < r->ranges.n && r->ranges.v[k].s.from < s.to;) {
    touched x = r->ranges.v[k], left[2];
    size_t m = 0;
    if (x.group == now) {
      k++;
      continue;
    }
    span c = common(x.s, s);
    take_from_group(r, x.group, length(c));
    if (x.s.from < c.from) left[m++] = (touched){{x.s.from, c.from}, x.group, x.rank, x.by};
    if (c.to < x.s.to) left[m++] = (touched){{c.to, x.s.to}, x.group, x.rank, x.by};
    splice(r, k, 1, m, left);
    k += m;
  }
}

static void put(prof_residency *r, touched new) {
  size_t k = find(r, new.s.from);
  touched *x = &r->ranges.v[k];
  if (k < r->ranges.n && x->s.from == new.s.from && x->s.to == new.s.to) {
    take_from_group(r, x->group, length(x->s));
    *x = new;
    return;
  }
  cut(r, new.s, new.group);
  splice(r, find(r, new.s.from), 0, 1, &new);
}

// How a range lies in the caches of the threads, all of it; what is only read stays there.
static u32 lies(const prof_residency *r, span s) {
  u32 by = ~0u;
  for (size_t k = find(r, s.from); k < r->ranges.n && r->ranges.v[k].s.from < s.to; k++)
    by &= r->ranges.v[k].by;
  return by + 1 ? by : 0;
}

static void touch(prof_residency *r, u32 n, const moved *a, u32 by) {
  u32 group = (u32)r->groups.n;
  i64 bytes = 0;
  for (u32 k = 0; k < n; k++) {
    // an array that is written over itself is two accesses of one range
    bool again = !length(a[k].s);
    for (u32 j = 0; j < k; j++) again |= a[j].s.from < a[k].s.to && a[k].s.from < a[j].s.to;
    if (again) {
      cut(r, a[k].s, group);
      continue;
    }
    put(r, (touched){a[k].s, group, k, by | (a[k].written ? 0 : lies(r, a[k].s))});
    bytes += length(a[k].s);
  }
  push_group(r, bytes);
}

// ---- accesses of an instruction -----------------------------------------------------------------
static u32 add_access(u32 n, moved *a, i64 from, i64 size, double bytes, bool written) {
  i64 part = (i64)HS_MIN((double)size, bytes);
  if (n == MOST_RANGES || part <= 0) return n;
  a[n] = (moved){{from, from + part}, bytes, written};
  return n + 1;
}

// The leaves of a value, which has so many bytes of the kernel's reads or writes in all.
static u32 add_value(const prof_residency *r, const hlo_instr *i, double bytes, bool written, u32 n,
                     moved *a) {
  const hlo_live *l = &r->live;
  u32 t = l->position[i->id];
  double all = (double)HS_MAX(hlo_shape_bytes(i->shape), 1);
  for (u32 k = l->first_leaf[t]; k < l->first_leaf[t + 1]; k++) {
    u32 b = l->leaf_buffer[k];
    i64 size = l->buffers[b].bytes;
    bool again = false;  // the same array as another operand: it is at hand
    for (u32 j = 0; j < n; j++) again |= !written && !a[j].written && a[j].s.from == r->offset[b];
    if (!again) n = add_access(n, a, r->offset[b], size, bytes * (double)size / all, written);
  }
  return n;
}

static u32 accesses_of(const prof_residency *r, const hlo_instr *i, double read, double written,
                       moved *a) {
  double all = 0;
  u32 n = 0, t = r->live.position[i->id];
  for (u32 k = 0; k < i->noperands; k++) all += (double)hlo_shape_bytes(hlo_operand(i, k)->shape);
  for (u32 k = 0; k < i->noperands && all > 0; k++) {
    const hlo_instr *o = hlo_operand(i, k);
    n = add_value(r, o, read * (double)hlo_shape_bytes(o->shape) / all, false, n, a);
  }
  n = add_value(r, i, written, true, n, a);
  i64 inside = r->live.inside[t];
  return add_access(n, a, r->inside[t], inside, (double)inside, true);
}

static int last_first(const void *a, const void *b) {
  const touched *x = a, *y = b;
  if (x->group != y->group) return x->group > y->group ? -1 : 1;
  if (x->rank != y->rank) return x->rank > y->rank ? -1 : 1;
  return x->s.from > y->s.from ? -1 : 1;
}

// The parts of a range that were touched at some time, the last touched first.
static void find_parts(prof_residency *r, span s) {
  enum { FEW = 16 };  // are put in order as they come
  r->parts.n = 0;
  for (size_t k = find(r, s.from); k < r->ranges.n && r->ranges.v[k].s.from < s.to; k++) {
    touched x = r->ranges.v[k];
    x.s = common(x.s, s);
    hs_vec_push(&r->parts, x);
    size_t q = r->parts.n - 1;
    for (; q && q < FEW && last_first(&x, &r->parts.v[q - 1]) < 0; q--)
      r->parts.v[q] = r->parts.v[q - 1];
    r->parts.v[q] = x;
  }
  if (r->parts.n > FEW) qsort(r->parts.v, r->parts.n, sizeof *r->parts.v, last_first);
}

// The bytes that were touched since a range, for each part of it that was touched at another time.
static u32 distances(prof_residency *r, const moved *a, double own, u32 by, double over, u32 most,
                     u32 n, prof_place *p) {
  double rate = a->bytes / (double)length(a->s);
  i64 left = length(a->s), all = sum_of_groups(r, r->groups.n);
  u32 first = n;
  find_parts(r, a->s);
  for (size_t k = 0; k < r->parts.n; k++) {
    const touched *x = &r->parts.v[k];
    i64 c = length(x->s);
    left -= c;
    double recent = (double)(all - sum_of_groups(r, x->group + 1u));
    double bytes = (double)c * rate, d = recent + ((double)r->groups.v[x->group] + own) / 2;
    // no other thread may keep what is written
    double handed = by == PROF_ACROSS || (a->written ? x->by != by : !(x->by & by));
    prof_place *last = n > first ? &p[n - 1] : NULL;
    if (last && (n == most || d < last->distance * 1.25)) {
      last->distance += (d - last->distance) * bytes / (last->bytes + bytes);
      last->handed += (handed - last->handed) * bytes / (last->bytes + bytes);
      last->over += (over - last->over) * bytes / (last->bytes + bytes);
      last->bytes += bytes;
    } else if (n < most) p[n++] = (prof_place){bytes, d, a->written, handed, over};
    else p[n - 1].bytes += bytes;
  }
  if (left <= 0) return n;
  double bytes = (double)left * rate;
  if (n < most) p[n++] = (prof_place){bytes, (double)r->total, a->written, 0, over};
  else p[n - 1].bytes += bytes;
  return n;
}

// The part of a range that accesses before it, of the same kernel, read.
static double read_part(const moved *a, u32 k) {
  i64 bytes = 0;
  for (u32 j = 0; j < k && a[k].written; j++)
    if (!a[j].written) bytes += length(common(a[k].s, a[j].s));
  return HS_MIN((double)bytes / (double)length(a[k].s), 1);
}

u32 prof_residency_touch(prof_residency *r, const hlo_instr *i, double read, double written,
                         prof_sharing by, u32 most, prof_place *p) {
  moved a[MOST_RANGES];
  u32 n = accesses_of(r, i, read, written, a), places = 0;
  double own = 0;
  for (u32 k = 0; k < n; k++) own += (double)length(a[k].s);
  for (u32 k = 0; k < n && most; k++) {
    // results last, and with room of their own
    u32 room = a[k].written ? most : most - 1;
    places = distances(r, &a[k], own, by, read_part(a, k), room, places, p);
  }
  touch(r, n, a, by);
  return places;
}

// ---- the module ---------------------------------------------------------------------------------
hs_status prof_residency_new(hlo_live_plan *plan, const hlo_computation *c, const hlo_cost *cost,
                             double between, const prof_device *d, prof_residency **out) {
  *out = NULL;
  prof_residency *r = hs_calloc(1, sizeof *r);
  hs_status s = hlo_live_plan_ranges(plan, c, &r->arena, &r->live);
  if (!hs_ok(s) || r->live.nbuffers > MOST_BUFFERS || !place_buffers(r)) {
    prof_residency_free(r);
    return hs_ok(s) ? hs_poll() : s;
  }
  for (u32 t = 0; t < r->live.n; t++) {
    const hlo_instr *i = r->live.order[t];
    if (hlo_op_has(i->opcode, HLO_F_FREE)) continue;
    double read = cost[i->id].bytes_read, written = cost[i->id].bytes_written;
    prof_sharing by = PROF_BY_ONE;
    if (d->threads > 1 && read + written >= SHARED_BYTES && !hlo_op_has(i->opcode, HLO_F_CONTROL)) {
      prof_work w;
      prof_count_work(i, &cost[i->id], &w);
      by = prof_cpu_sharing(&w, d);
    }
    prof_residency_touch(r, i, read, written, by, 0, NULL);
  }
  i64 other = (i64)HS_MIN(between, (double)MOST_BYTES);
  moved others = {{r->total, r->total + other}, between, true};
  if (other > 0) touch(r, 1, &others, 0);
  r->total += other;
  *out = r;
  return hs_poll();
}

void prof_residency_free(prof_residency *r) {
  if (!r) return;
  hs_vec_free(&r->ranges);
  hs_vec_free(&r->groups);
  hs_vec_free(&r->sums);
  hs_vec_free(&r->parts);
  hs_arena_free(&r->arena);
  hs_free(r);
}
