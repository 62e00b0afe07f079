// device.c — the memory that kernels may touch, and what running them needs, kept between
// launches.
#include "backends/gpu/emu/run.h"

#include <pthread.h>

typedef struct range {
  const u8 *p;
  size_t n;
} range;

struct emu_device {
  HS_VEC(range) ranges;  // by address
  pthread_mutex_t lock;  // of `runners`
  emu_runner *runners;   // free ones
  emu_condition_fn *on_condition;
  void *on_condition_arg;
};

emu_device *emu_device_new(void) {
  emu_device *d = hs_calloc(1, sizeof *d);
  (void)pthread_mutex_init(&d->lock, NULL);
  return d;
}

void emu_device_free(emu_device *d) {
  if (!d) return;
  while (d->runners) {
    emu_runner *r = d->runners;
    d->runners = r->next;
    emu_runner_free(r);
  }
  hs_vec_free(&d->ranges);
  (void)pthread_mutex_destroy(&d->lock);
  hs_free(d);
}

void emu_device_conditions(emu_device *d, emu_condition_fn *fn, void *arg) {
  d->on_condition = fn;
  d->on_condition_arg = arg;
}

bool emu_device_set_condition(const emu_device *d, u64 condition, u32 value) {
  return d->on_condition && d->on_condition(d->on_condition_arg, condition, value);
}

// How many ranges begin at or before p.
static size_t ranges_upto(const emu_device *d, const void *p) {
  size_t low = 0, high = d->ranges.n;
  while (low < high) {
    size_t mid = (low + high) / 2;
    if (d->ranges.v[mid].p <= (const u8 *)p) low = mid + 1;
    else high = mid;
  }
  return low;
}

void emu_device_add(emu_device *d, const void *p, size_t n) {
  size_t at = ranges_upto(d, p);
  hs_vec_push(&d->ranges, ((range){0}));
  range *r = d->ranges.v + at;
  memmove(r + 1, r, (d->ranges.n - 1 - at) * sizeof *r);
  *r = (range){p, n};
}

void emu_device_remove(emu_device *d, const void *p) {
  size_t at = ranges_upto(d, p);
  if (HS_NEVER(at == 0 || d->ranges.v[at - 1].p != p)) return;
  range *r = d->ranges.v + at - 1;
  memmove(r, r + 1, (d->ranges.n - at) * sizeof *r);
  d->ranges.n--;
}

bool emu_device_find(const emu_device *d, const void *p, const void **start, size_t *n) {
  size_t at = ranges_upto(d, p);
  if (at == 0) return false;
  const range *r = d->ranges.v + at - 1;
  *start = r->p;
  *n = r->n;
  return (size_t)((const u8 *)p - r->p) <= r->n;
}

// The range that an address near it was meant for: the one below within its own size (at least a
// page), else the one above within a page.
bool emu_device_near(const emu_device *d, const void *p, const void **start, size_t *n) {
  size_t at = ranges_upto(d, p);
  const range *below = at ? d->ranges.v + at - 1 : NULL;
  const range *above = at < d->ranges.n ? d->ranges.v + at : NULL;
  const range *r = NULL;
  if (below && (size_t)((const u8 *)p - below->p) <= below->n + HS_MAX(below->n, 4096)) r = below;
  else if (above && (size_t)(above->p - (const u8 *)p) <= 4096) r = above;
  if (!r) return false;
  *start = r->p;
  *n = r->n;
  return true;
}

emu_runner *emu_device_runner(emu_device *d) {
  (void)pthread_mutex_lock(&d->lock);
  emu_runner *r = d->runners;
  if (r) d->runners = r->next;
  (void)pthread_mutex_unlock(&d->lock);
  return r ? r : hs_calloc(1, sizeof *r);
}

void emu_device_give_back(emu_device *d, emu_runner *r) {
  (void)pthread_mutex_lock(&d->lock);
  r->next = d->runners;
  d->runners = r;
  (void)pthread_mutex_unlock(&d->lock);
}
