// base.c — growable arrays, arenas, pools of arena blocks, text buffers, the clock. See base.h;
// the heap below them is memory.c.
//
// An arena is a list of blocks that only grows. Block sizes double up to the larger of a huge page
// and an eighth of what the arena has, so that a small module costs little and a large one takes
// few calls; who knows the size in advance says so (hs_arena_expect). Blocks of half a huge page
// and more come from mmap, with huge pages where the kernel has them: a page fault per 4 KiB would
// cost as much as reading the text that fills the block.
#include "core/base/base.h"

#include <malloc.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>

_Thread_local hs_interrupt *hs_interrupt_;

void hs_stop_raise(hs_stop why) {
  sig_atomic_t none = HS_STOP_NONE;
  if (hs_interrupt_)
    __atomic_compare_exchange_n(hs_interrupt_, &none, (sig_atomic_t)why, false, __ATOMIC_RELAXED,
                                __ATOMIC_RELAXED);
}

enum { HUGE_PAGE = 2 << 20 };

void *hs_grow_(void *p, size_t *cap, size_t elem) {
  size_t next = *cap ? *cap * 2 : 8;
  p = hs_realloc(p, next * elem);
  *cap = next;
  return p;
}

void *hs_room_(void *p, size_t *cap, size_t n, size_t elem) {
  if (*cap >= n) return p;
  hs_free(p);
  *cap = HS_MAX(n, *cap * 2);
  return hs_alloc(*cap * elem);
}

void *hs_zeros_(void *p, size_t *cap, size_t n, size_t elem) {
  p = hs_room_(p, cap, n, elem);
  return n ? memset(p, 0, n * elem) : p;
}

char *hs_strdup(const char *s) {
  size_t n = strlen(s) + 1;
  return memcpy(hs_alloc(n), s, n);
}

char *hs_format(const char *fmt, ...) {
  va_list ap;
  va_start(ap, fmt);
  hs_buf b = {0};
  hs_buf_vprintf(&b, fmt, ap);
  va_end(ap);
  return (char *)(uintptr_t)hs_buf_cstr(&b);
}

// Sixteen bytes and one multiplication per step (the scheme of wyhash). The last step reads the
// last sixteen bytes, some of them a second time, so that no shorter rest is left. n > 16.
u64 hs_hash_long_(const u8 *p, size_t n, u64 seed) {
  const u8 *last = p + n - 16;
  u64 h = seed ^ n;
  for (; p < last; p += 16) h = hs_fold(hs_load64(p) ^ 0x9E3779B97F4A7C15ull, hs_load64(p + 8) ^ h);
  h = hs_fold(hs_load64(last) ^ 0x9E3779B97F4A7C15ull, hs_load64(last + 8) ^ h);
  return hs_fold(h ^ 0xE7037ED1A0B428DBull, n ^ 0xA0761D6478BD642Full);
}

// ---- arena --------------------------------------------------------------------------------------

struct hs_arena_block {
  struct hs_arena_block *next;
  size_t cap;
  bool mapped;  // straight from the kernel, in huge pages where it has them
  _Alignas(128) u8 data[];
};

// What a pool holds at most, and the largest block it takes.
enum { POOL_BYTES = 512 << 20, POOL_BLOCK = 32 << 20 };

// The smallest block of at least cap bytes, and of at most four times as many.
static struct hs_arena_block *pool_take(hs_arena_pool *pool, size_t cap) {
  struct hs_arena_block **best = NULL;
  for (struct hs_arena_block **at = &pool->first; *at; at = &(*at)->next)
    if ((*at)->cap >= cap && (*at)->cap / 4 <= cap && (!best || (*at)->cap < (*best)->cap))
      best = at;
  if (!best) return NULL;
  struct hs_arena_block *b = *best;
  *best = b->next;
  pool->bytes -= b->cap;
  return b;
}

static bool pool_keep(hs_arena_pool *pool, struct hs_arena_block *b) {
  if (hs_memory_tight() || b->cap > POOL_BLOCK || b->cap > POOL_BYTES - pool->bytes) return false;
  b->next = pool->first;
  pool->first = b;
  pool->bytes += b->cap;
  return true;
}

static void unmap(struct hs_arena_block *b) {
  size_t all = b->cap + sizeof *b;
  hs_memory_give(all);
  munmap(b, all);
}

void hs_arena_pool_free(hs_arena_pool *pool) {
  for (struct hs_arena_block *b = pool->first, *next; b; b = next) {
    next = b->next;
    unmap(b);
  }
  *pool = (hs_arena_pool){0};
}

// A block straight from the kernel; NULL when the limit or the kernel refuses.
static struct hs_arena_block *map_block(size_t cap) {
  size_t all = (cap + sizeof(struct hs_arena_block) + HUGE_PAGE - 1) & ~(size_t)(HUGE_PAGE - 1);
  if (!hs_memory_take(all)) return NULL;
  void *p = mmap(NULL, all, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (p == MAP_FAILED) return hs_memory_give(all), NULL;
  (void)madvise(p, all, MADV_HUGEPAGE);
  struct hs_arena_block *b = p;
  b->cap = all - sizeof *b;
  b->mapped = true;
  return b;
}

// Of `cap` bytes, or of at least `need` when there is not so much. pool: where to look first; NULL:
// nowhere.
static struct hs_arena_block *new_block(hs_arena_pool *pool, size_t cap, size_t need) {
  struct hs_arena_block *b = NULL;
  if (cap >= HUGE_PAGE / 2) {
    if (pool && (b = pool_take(pool, cap))) return b;
    if ((b = map_block(cap))) return b;
    cap = need;
  }
  b = hs_alloc_block_(sizeof *b + cap);
  b->cap = cap;
  b->mapped = false;
  return b;
}

static void use_block(hs_arena *a, struct hs_arena_block *b) {
  b->next = a->head;
  a->head = b;
  a->given += b->cap;
  a->at = b->data;
  a->limit = b->data + (b->cap & ~(size_t)15);
  HS_POISON(b->data, b->cap);
}

void hs_arena_expect(hs_arena *a, size_t n) {
  struct hs_arena_block *b = NULL;
  if ((size_t)(a->limit - a->at) >= n) return;
  if (n < HUGE_PAGE / 2 || (b = map_block(n))) use_block(a, b ? b : new_block(NULL, n, n));
}

void *hs_arena_more_(hs_arena *a, size_t n) {
  struct hs_arena_block *b = a->head;
  size_t most = HS_MAX(HUGE_PAGE - sizeof *b, a->given / 8);
  size_t cap = b ? HS_MIN(b->cap * 2, most) : 4096;
  // a block made for one large object goes behind the newest, which keeps its free bytes in use
  if (b && n > cap / 2) {
    struct hs_arena_block *own = new_block(a->pool, n, n);
    own->next = b->next;
    b->next = own;
    HS_POISON(own->data, own->cap);
    return own->data;
  }
  use_block(a, new_block(a->pool, HS_MAX(cap, n), n));
  a->at += n;
  return a->at - n;
}

size_t hs_arena_bytes(const hs_arena *a) {
  size_t n = 0;
  for (const struct hs_arena_block *b = a->head; b; b = b->next) n += sizeof *b + b->cap;
  return n;
}

void *hs_arena_dup(hs_arena *a, const void *p, size_t n) {
  void *q = hs_arena_alloc(a, n);
  if (n) memcpy(q, p, n);
  return q;
}

char *hs_arena_strndup(hs_arena *a, const char *s, size_t n) {
  char *q = hs_arena_alloc(a, n + 1);
  if (n) memcpy(q, s, n);
  q[n] = 0;
  return q;
}

void hs_arena_free(hs_arena *a) {
  for (struct hs_arena_block *b = a->head, *next; b; b = next) {
    next = b->next;
    HS_UNPOISON(b->data, b->cap);
    if (!b->mapped) hs_free(b);
    else if (!a->pool || !pool_keep(a->pool, b)) unmap(b);
  }
  *a = (hs_arena){.pool = a->pool};
}

// ---- text buffer --------------------------------------------------------------------------------

// Room for `more` bytes and a NUL. Up to BUF_SMALL it is always there; a text that has grown beyond
// may be refused: the text is cut here, nothing more is added, and the work is to stop.
enum { BUF_SMALL = 64 << 10 };
static bool buf_reserve(hs_buf *b, size_t more) {
  if (b->cap - b->n > more) return true;
  size_t cap = b->cap ? b->cap : 64, need;
  if (__builtin_add_overflow(b->n, more, &need) || need > SIZE_MAX / 4) need = SIZE_MAX / 4;
  do cap *= 2;
  while (cap - b->n <= more && cap <= need);
  char *p = cap <= BUF_SMALL ? hs_realloc(b->p, cap) : hs_try_realloc(b->p, cap);
  if (!p && b->cap < BUF_SMALL) b->p = hs_realloc(b->p, BUF_SMALL), b->cap = BUF_SMALL;
  if (!p) return hs_stop_raise(HS_STOP_MEMORY), b->cap - b->n > more;
  b->p = p;
  b->cap = cap;
  return true;
}

void hs_buf_put(hs_buf *b, const char *s, size_t n) {
  if (HS_UNLIKELY(!buf_reserve(b, n))) return;
  if (n) memcpy(b->p + b->n, s, n);
  b->n += n;
}

void hs_buf_puts(hs_buf *b, const char *s) { hs_buf_put(b, s, strlen(s)); }

void hs_buf_putc(hs_buf *b, char c) {
  if (HS_LIKELY(buf_reserve(b, 1))) b->p[b->n++] = c;
}

void hs_buf_i64(hs_buf *b, i64 v) {
  char digits[24];
  char *end = digits + sizeof digits, *p = end;
  u64 u = v < 0 ? 0 - (u64)v : (u64)v;
  do *--p = (char)('0' + u % 10);
  while (u /= 10);
  if (v < 0) *--p = '-';
  hs_buf_put(b, p, (size_t)(end - p));
}

void hs_buf_vprintf(hs_buf *b, const char *fmt, va_list ap) {
  va_list again;
  va_copy(again, ap);
  char small[256];
  int n = vsnprintf(small, sizeof small, fmt, ap);
  if (n >= 0 && (size_t)n < sizeof small) {
    hs_buf_put(b, small, (size_t)n);
  } else if (n >= 0 && buf_reserve(b, (size_t)n + 1)) {
    vsnprintf(b->p + b->n, (size_t)n + 1, fmt, again);
    b->n += (size_t)n;
  }
  va_end(again);
}

void hs_buf_printf(hs_buf *b, const char *fmt, ...) {
  va_list ap;
  va_start(ap, fmt);
  hs_buf_vprintf(b, fmt, ap);
  va_end(ap);
}

void hs_buf_free(hs_buf *b) {
  hs_free(b->p);
  *b = (hs_buf){0};
}

const char *hs_buf_cstr(hs_buf *b) {
  (void)buf_reserve(b, 0);
  b->p[b->n] = 0;
  return b->p;
}

u64 hs_now_ns(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (u64)t.tv_sec * 1000000000ull + (u64)t.tv_nsec;
}
