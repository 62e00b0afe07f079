// mem.c — the evaluator's buffers: accounting, recycling, in-place reuse and strided copies.
//
// Every array that an evaluation makes is charged to its account, which refuses beyond the limit
// and keeps freed large buffers for the next array of that size: fresh pages cost more than the
// arithmetic on them. The account lives until its last buffer is gone, since results outlive the
// evaluation.
#include <pthread.h>
#include "core/eval/library.h"
#include "core/eval/world.h"
#include "core/eval/fast.h"

enum { CACHED = 24, CACHE_MIN = 1 << 16 };
static const size_t cache_max = (size_t)1 << 29;

struct ev_account {
  pthread_mutex_t lock;
  i64 live, limit;  // bytes
  u32 users;        // buffers in use, plus one for the evaluation
  bool open;
  u32 ncached;
  size_t cached_bytes;
  struct {
    void *p;
    size_t n;
  } cached[CACHED];
};

ev_account *ev_account_new(i64 limit) {
  ev_account *a = hs_calloc(1, sizeof *a);
  pthread_mutex_init(&a->lock, NULL);
  a->limit = limit;
  a->users = 1;
  a->open = true;
  return a;
}

static void drop_user(ev_account *a) {  // called with the lock held; unlocks
  bool last = --a->users == 0;
  pthread_mutex_unlock(&a->lock);
  if (last) {
    pthread_mutex_destroy(&a->lock);
    hs_free(a);
  }
}

void ev_account_close(ev_account *a) {
  pthread_mutex_lock(&a->lock);
  a->open = false;
  for (u32 i = 0; i < a->ncached; i++) hs_free(a->cached[i].p);
  a->ncached = 0;
  drop_user(a);
}

static void release(void *data, size_t bytes, void *arg) {
  ev_account *a = arg;
  size_t n = bytes ? bytes : 1;
  void *victim = data;
  pthread_mutex_lock(&a->lock);
  a->live -= (i64)bytes;
  if (a->open && n >= CACHE_MIN && n <= cache_max / 4) {
    if (a->ncached == CACHED || a->cached_bytes + n > cache_max) {  // the oldest goes
      victim = a->ncached ? a->cached[0].p : NULL;
      if (a->ncached) {
        a->cached_bytes -= a->cached[0].n;
        memmove(a->cached, a->cached + 1, --a->ncached * sizeof a->cached[0]);
      }
    } else {
      victim = NULL;
    }
    a->cached[a->ncached].p = data;
    a->cached[a->ncached++].n = n;
    a->cached_bytes += n;
  }
  hs_free(victim);
  drop_user(a);
}

static void *take_cached(ev_account *a, size_t n) {
  u32 best = CACHED;
  for (u32 i = a->ncached; i-- > 0;)
    if (a->cached[i].n >= n && a->cached[i].n <= n + n / 8 &&
        (best == CACHED || a->cached[i].n < a->cached[best].n))
      best = i;
  if (best == CACHED) return NULL;
  void *p = a->cached[best].p;
  a->cached_bytes -= a->cached[best].n;
  memmove(a->cached + best, a->cached + best + 1, (--a->ncached - best) * sizeof a->cached[0]);
  return p;
}

static hs_status new_array(ev_account *a, const hlo_shape *s, hlo_literal **out) {
  i64 bytes = (i64)hlo_dtype_storage(s->dtype);
  for (u32 d = 0; d < s->rank; d++)
    if (s->dims[d] < 0 || !hs_mul_ok(bytes, s->dims[d], &bytes) || bytes > INT64_MAX / 4)
      return hs_fail(HS_E_LIMIT, "an array of this shape has no size in memory");
  pthread_mutex_lock(&a->lock);
  if (a->limit > 0 && a->live + bytes > a->limit) {
    i64 live = a->live;
    pthread_mutex_unlock(&a->lock);
    return hs_fail(HS_E_LIMIT,
                   "evaluation needs more than %lld bytes (%lld in use, %lld more asked for)",
                   (long long)a->limit, (long long)live, (long long)bytes);
  }
  void *p = bytes >= CACHE_MIN ? take_cached(a, (size_t)bytes) : NULL;
  if (!p) p = hs_try_alloc(bytes ? (size_t)bytes : 1);
  if (p) {
    a->live += bytes;
    a->users++;
  }
  pthread_mutex_unlock(&a->lock);
  if (!p) return hs_fail(HS_E_NO_MEMORY, "no memory for %lld bytes", (long long)bytes);
  *out = hlo_literal_wrap(s, p, (size_t)bytes, release, a);
  return HS_GOOD;
}

hs_status ev_new(ev *e, const hlo_shape *s, hlo_literal **out) {
  *out = NULL;
  if (hlo_shape_is_array(s)) {
    HS_TRY(new_array(e->account, s, out));
    // what is beyond the elements in use, a later size may call in use
    if (s->dynamic && (*out)->bytes) memset((*out)->data, 0, (*out)->bytes);
    return HS_GOOD;
  }
  if (!hlo_shape_is_tuple(s)) return hlo_literal_new(s, out);
  hlo_literal *t = hlo_literal_tuple(s, 0, NULL);
  hs_free(t->children);
  t->children = hs_calloc(s->nelems ? s->nelems : 1, sizeof *t->children);
  for (u32 i = 0; i < s->nelems; i++) {
    hs_status st = ev_new(e, s->elems[i], &t->children[i]);
    if (!hs_ok(st)) {
      hlo_literal_unref(t);
      return st;
    }
    t->nchildren++;
  }
  *out = t;
  return HS_GOOD;
}

bool ev_writable(const hlo_literal *l) {
  return __atomic_load_n(&l->refs, __ATOMIC_ACQUIRE) == 1 && l->data &&
         (l->unmap == NULL || l->unmap == release);
}

static void set_shape(hlo_literal *l, const hlo_shape *s) {
  if (!s->dynamic || l->shape->rank < s->rank) {  // not wanted, or made for fewer dimensions
    hs_free(l->dynamic_sizes);
    l->dynamic_sizes = NULL;
  }
  l->shape = s;
  if (!s->dynamic) return;
  if (!l->dynamic_sizes)
    l->dynamic_sizes = hs_calloc(s->rank ? s->rank : 1, sizeof *l->dynamic_sizes);
  for (u32 d = 0; d < s->rank; d++) l->dynamic_sizes[d] = (i32)HS_MIN(s->dims[d], INT32_MAX);
}

// The same, with the sizes that it has under a dynamic type of as many dimensions.
static void state_shape(hlo_literal *l, const hlo_shape *s) {
  if (s->dynamic && l->dynamic_sizes && l->shape->rank == s->rank) l->shape = s;
  else set_shape(l, s);
}

hs_status ev_reuse(ev *e, hlo_literal **op, const hlo_shape *s, hlo_literal **out) {
  if (*op && hlo_shape_is_array(s) && (*op)->shape->rank <= s->rank && ev_writable(*op) &&
      (*op)->bytes == (size_t)s->elements * hlo_dtype_storage(s->dtype)) {
    *out = *op;
    *op = NULL;
    state_shape(*out, s);
    return HS_GOOD;
  }
  return ev_new(e, s, out);
}

void ev_keep_sizes(hlo_literal *to, const hlo_literal *from) {
  if (!from->dynamic_sizes) return;
  u32 rank = from->shape->rank;
  if (!to->dynamic_sizes) to->dynamic_sizes = hs_calloc(rank + 1u, sizeof *to->dynamic_sizes);
  memcpy(to->dynamic_sizes, from->dynamic_sizes, rank * sizeof *to->dynamic_sizes);
}

hs_status ev_own(ev *e, hlo_literal **op, const hlo_shape *s, hlo_literal **out) {
  hlo_literal *from = *op;
  if (ev_writable(from)) {
    *op = NULL;
    *out = from;
    state_shape(from, s);
    return HS_GOOD;
  }
  HS_TRY(ev_new(e, s, out));
  memcpy((*out)->data, from->data, HS_MIN((*out)->bytes, from->bytes));
  if (s->dynamic) ev_keep_sizes(*out, from);
  return HS_GOOD;
}

static void unref_base(void *data, size_t bytes, void *arg) {
  (void)data;
  (void)bytes;
  hlo_literal_unref(arg);
}

// The same data with sizes of its own. Takes the reference.
static hlo_literal *view_of(hlo_literal *l, const hlo_shape *s) {
  bool same_dims = l->shape->rank == s->rank && l->dynamic_sizes && s->dynamic;
  // a loop may retag its state a million times: views do not pile up
  bool of_view = l->unmap == unref_base;
  hlo_literal *view = hlo_literal_wrap(s, l->data, l->bytes, unref_base,
                                       of_view ? hlo_literal_ref(l->unmap_arg) : l);
  if (same_dims && view->dynamic_sizes)
    memcpy(view->dynamic_sizes, l->dynamic_sizes, s->rank * sizeof(i32));
  if (of_view) hlo_literal_unref(l);
  return view;
}

hlo_literal *ev_retag(hlo_literal **op, const hlo_shape *s) {
  hlo_literal *l = *op;
  if (!hlo_shape_is_array(l->shape) || !l->data) {
    *op = NULL;
    return l;
  }
  *op = NULL;
  if (l->shape == s && (s->dynamic || !l->dynamic_sizes)) return l;
  if (ev_writable(l)) {
    state_shape(l, s);
    return l;
  }
  return view_of(l, s);
}

static void end_sizes(const hlo_shape *s, hlo_literal **l) {
  if (!hlo_shape_is_array(s) || !(*l)->dynamic_sizes) return;
  bool ends = false;
  for (u32 d = 0; d < s->rank; d++)
    ends |= !hlo_dim_is_dynamic(s, d) && (*l)->dynamic_sizes[d] < s->dims[d];
  if (ends && __atomic_load_n(&(*l)->refs, __ATOMIC_ACQUIRE) > 1) *l = view_of(*l, s);
  for (u32 d = 0; ends && (*l)->dynamic_sizes && d < s->rank; d++)
    if (!hlo_dim_is_dynamic(s, d)) (*l)->dynamic_sizes[d] = (i32)HS_MIN(s->dims[d], INT32_MAX);
}

void ev_end_sizes(const hlo_shape *s, hlo_literal **l) {
  if (!hlo_shape_is_tuple(s)) end_sizes(s, l);
  else if ((*l)->refs == 1)
    for (u32 k = 0; k < s->nelems && k < (*l)->nchildren; k++)
      if ((*l)->children[k]) end_sizes(s->elems[k], &(*l)->children[k]);
}

i64 ev_product(u32 n, const i64 *v) {
  i64 p = 1;
  for (u32 i = 0; i < n; i++) p *= v[i];
  return p;
}

bool ev_next(u32 rank, const i64 *dims, i64 *index) {
  for (u32 d = rank; d-- > 0;) {
    if (++index[d] < dims[d]) return true;
    index[d] = 0;
  }
  return false;
}

// ---- strided copies -----------------------------------------------------------------------------
#define EACH_SIZE(X) X(1, u8) X(2, u16) X(4, u32) X(8, u64) X(16, ev_u128)
typedef struct ev_u128 {
  u64 a, b;
} ev_u128;

void ev_fill(size_t size, void *dst, const void *value, i64 n) {
  switch (size) {
#define X(s, T)                           \
  case s: {                               \
    T v;                                  \
    memcpy(&v, value, s);                 \
    T *d = dst;                           \
    for (i64 i = 0; i < n; i++) d[i] = v; \
    break;                                \
  }
    EACH_SIZE(X)
#undef X
  default: break;
  }
}

// The innermost loop, and the two innermost for transposing accesses (blocked, so that both sides
// stay in cache).
#define X(s, T)                                                                             \
  static void line_##s(void *dst, i64 ds, const void *src, i64 ss, i64 n) {                 \
    T *d = dst;                                                                             \
    const T *p = src;                                                                       \
    if (ds == 1 && ss == 0) {                                                               \
      T v = *p;                                                                             \
      for (i64 i = 0; i < n; i++) d[i] = v;                                                 \
    } else if (ds == 1)                                                                     \
      for (i64 i = 0; i < n; i++) d[i] = p[i * ss];                                         \
    else                                                                                    \
      for (i64 i = 0; i < n; i++) d[i * ds] = p[i * ss];                                    \
  }                                                                                         \
  static void plane_##s(void *dst, i64 d0, i64 d1, const void *src, i64 s0, i64 s1, i64 n0, \
                        i64 n1) {                                                           \
    T *d = dst;                                                                             \
    const T *p = src;                                                                       \
    for (i64 i0 = 0; i0 < n0; i0 += 32)                                                     \
      for (i64 j0 = 0; j0 < n1; j0 += 32)                                                   \
        for (i64 i = i0, ie = HS_MIN(i0 + 32, n0); i < ie; i++)                             \
          for (i64 j = j0, je = HS_MIN(j0 + 32, n1); j < je; j++)                           \
            d[i * d0 + j * d1] = p[i * s0 + j * s1];                                        \
  }
EACH_SIZE(X)
#undef X

static void line(size_t size, char *dst, i64 ds, const char *src, i64 ss, i64 n) {
  if (ds == 1 && ss == 1) {
    memcpy(dst, src, (size_t)n * size);
    return;
  }
  switch (size) {
#define X(s, T) \
  case s: line_##s(dst, ds, src, ss, n); break;
    EACH_SIZE(X)
#undef X
  default: break;
  }
}

// Drops unit dimensions and joins neighbours that step alike on both sides; returns the new rank.
static u32 squeeze(u32 rank, const i64 *dims, const i64 *ds, const i64 *ss, i64 *n, i64 *d,
                   i64 *s) {
  u32 r = 0;
  for (u32 k = 0; k < rank; k++) {
    if (dims[k] == 1) continue;
    if (r && d[r - 1] == dims[k] * ds[k] && s[r - 1] == dims[k] * ss[k])
      n[r - 1] *= dims[k], d[r - 1] = ds[k], s[r - 1] = ss[k];
    else n[r] = dims[k], d[r] = ds[k], s[r++] = ss[k];
  }
  return r;
}

void ev_copy(size_t size, u32 rank, const i64 *dims, void *dst, const i64 *ds, const void *src,
             const i64 *ss) {
  i64 n[HLO_MAX_RANK], d[HLO_MAX_RANK], s[HLO_MAX_RANK], index[HLO_MAX_RANK] = {0};
  for (u32 k = 0; k < rank; k++)
    if (dims[k] == 0) return;
  u32 r = squeeze(rank, dims, ds, ss, n, d, s);
  if (r == 0) {
    memcpy(dst, src, size);
    return;
  }
  // A transpose: the source is dense along another dimension than the innermost one.
  u32 t = r - 1;
  if (r > 1 && s[r - 1] != 1 && s[r - 1] != 0)
    for (u32 k = 0; k + 1 < r; k++)
      if (s[k] == 1) t = k;
  i64 step = (i64)size;
  if (t != r - 1) {
    i64 d0 = d[t], s0 = s[t], n0 = n[t], d1 = d[r - 1], s1 = s[r - 1], n1 = n[r - 1];
    for (u32 k = t; k + 2 < r; k++) n[k] = n[k + 1], d[k] = d[k + 1], s[k] = s[k + 1];
    do {
      i64 od = 0, os = 0;
      for (u32 k = 0; k + 2 < r; k++) od += index[k] * d[k], os += index[k] * s[k];
      char *p = (char *)dst + od * step;
      const char *q = (const char *)src + os * step;
      switch (size) {
#define X(z, T) \
  case z: plane_##z(p, d0, d1, q, s0, s1, n0, n1); break;
        EACH_SIZE(X)
#undef X
      default: break;
      }
    } while (ev_next(r - 2, n, index));
    return;
  }
  do {
    i64 od = 0, os = 0;
    for (u32 k = 0; k + 1 < r; k++) od += index[k] * d[k], os += index[k] * s[k];
    line(size, (char *)dst + od * step, d[r - 1], (const char *)src + os * step, s[r - 1],
         n[r - 1]);
  } while (ev_next(r - 1, n, index));
}

// ---- shapes, errors, results of several parts ---------------------------------------------------
// Interning is for one thread at a time.
hs_status ev_shape(ev *e, hlo_dtype t, u32 rank, const i64 *dims, const hlo_shape **out) {
  HS_TRY(hlo_shape_check_limits(t, rank, dims));
  if (e->world) pthread_mutex_lock(&e->world->lock);
  *out = hlo_shape_array(e->ctx, t, rank, dims);
  if (e->world) pthread_mutex_unlock(&e->world->lock);
  return HS_GOOD;
}

const hlo_shape *ev_typed(ev *e, const hlo_shape *s, hlo_dtype t) {
  if (e->world) pthread_mutex_lock(&e->world->lock);
  const hlo_shape *r = hlo_shape_with_dtype(e->ctx, s, t);
  if (e->world) pthread_mutex_unlock(&e->world->lock);
  return r;
}

hs_status ev_unsupported(const hlo_instr *i, const char *why) {
  const char *op = hlo_op_text(i->opcode);
  return hs_fail_subject(HS_E_UNSUPPORTED, op, "unsupported: %s %s (%s)", op, why, i->name);
}

hs_status ev_pack_results(const hlo_instr *i, u32 n, hlo_literal *const *r, hlo_literal **out) {
  const hlo_shape *s = i->shape;
  if (!hlo_shape_is_tuple(s)) {
    for (u32 k = 1; k < n; k++) hlo_literal_unref(r[k]);
    *out = r[0];
    return HS_GOOD;
  }
  hlo_literal **part = hs_calloc(HS_MAX(s->nelems, n) + 1, sizeof *part);
  hs_status st = n <= s->nelems ? HS_GOOD : ev_unsupported(i, "with so few results");
  for (u32 k = 0; k < n; k++) part[k] = r[k];
  for (u32 k = n; k < s->nelems && hs_ok(st); k++) st = hlo_literal_new(s->elems[k], &part[k]);
  if (hs_ok(st)) *out = hlo_literal_tuple(s, s->nelems, part);
  else
    for (u32 k = 0; k < HS_MAX(s->nelems, n); k++) hlo_literal_unref(part[k]);
  hs_free(part);
  return st;
}

static bool has_stated_sizes(const hlo_shape *s, const hlo_literal *l) {
  if (hlo_shape_is_tuple(s)) {
    for (u32 k = 0; k < s->nelems; k++)
      if (l->children[k] && !has_stated_sizes(s->elems[k], l->children[k])) return false;
    return true;
  }
  if (!s->dynamic) return !l->dynamic_sizes;
  bool stated = l->dynamic_sizes && l->shape->logical == s->logical;
  for (u32 d = 0; stated && d < s->rank; d++)
    stated = s->dynamic[d] || l->dynamic_sizes[d] >= s->dims[d];
  return stated;
}

void ev_state_sizes(const hlo_shape *s, hlo_literal **l) {
  if (has_stated_sizes(s, *l)) return;
  if (hlo_shape_is_tuple(s)) {
    hlo_literal **part = hs_calloc(s->nelems + 1u, sizeof *part);
    for (u32 k = 0; k < s->nelems; k++) {
      part[k] = hlo_literal_ref((*l)->children[k]);
      if (part[k]) ev_state_sizes(s->elems[k], &part[k]);
    }
    hlo_literal_unref(*l);
    *l = hlo_literal_tuple(s, s->nelems, part);
    hs_free(part);
    return;
  }
  i32 used[HLO_MAX_RANK];
  bool sized = s->dynamic && (*l)->dynamic_sizes;
  if (sized) memcpy(used, (*l)->dynamic_sizes, s->rank * sizeof *used);
  *l = ev_retag(l, s);
  for (u32 d = 0; sized && (*l)->dynamic_sizes && d < s->rank; d++)
    (*l)->dynamic_sizes[d] = s->dynamic[d] ? used[d] : (i32)HS_MIN(s->dims[d], INT32_MAX);
}
