// base.c — allocation, arenas, text buffers, clock. An arena is a list of blocks that only grows;
// block sizes double up to a huge page or an eighth of the whole, so that a small module costs
// little and a large one few calls; who knows better says so (hs_arena_expect). Arenas hand their
// large blocks on to each other: every pass has a scratch arena, and memory fresh from the kernel
// costs more to clear than most passes take.
#include "core/base/base.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>

volatile sig_atomic_t hs_interrupted;

enum { HUGE_PAGE = 2 << 20 };

// Sizes the program itself chose: running out here leaves nothing sensible to do but say so and
// stop.
static void out_of_memory(size_t n) {
  fprintf(stderr, "hlosh: out of memory (%zu bytes)\n", n);
  _Exit(5);
}

void *hs_try_alloc(size_t n) { return malloc(n ? n : 1); }

void *hs_alloc(size_t n) {
  void *p = hs_try_alloc(n);
  if (!p) out_of_memory(n);
  return p;
}

void *hs_calloc(size_t n, size_t size) {
  void *p = calloc(n ? n : 1, size ? size : 1);
  if (!p) out_of_memory(n * size);
  return p;
}

void *hs_realloc(void *p, size_t n) {
  void *q = realloc(p, n ? n : 1);
  if (!q) out_of_memory(n);
  return q;
}

// Tables that are looked into at random: without huge pages each look would cost a walk through the
// page tables too.
void *hs_calloc_table(size_t n, size_t size) {
  void *p = NULL;
  if (n * size < 2 * HUGE_PAGE || posix_memalign(&p, HUGE_PAGE, n * size) != 0)
    return hs_calloc(n, size);
  (void)madvise(p, n * size, MADV_HUGEPAGE);
  return memset(p, 0, n * size);
}

void hs_free(void *p) { free(p); }

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

// Sixteen bytes a step, each step one multiplication (the scheme of wyhash); the last step takes
// the last sixteen bytes again, so that no tail is left. Called for n > 16.
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

// Mapped blocks that nobody holds, at most KEPT_MOST bytes of them, none above KEPT_ONE.
enum { KEPT_MOST = 512 << 20, KEPT_ONE = 32 << 20 };
static struct {
  pthread_mutex_t lock;
  struct hs_arena_block *first;
  size_t bytes;
} kept = {.lock = PTHREAD_MUTEX_INITIALIZER};

static struct hs_arena_block *take_kept(size_t cap) {
  struct hs_arena_block *b = NULL;
  pthread_mutex_lock(&kept.lock);
  struct hs_arena_block **best = NULL;
  for (struct hs_arena_block **at = &kept.first; *at; at = &(*at)->next)
    if ((*at)->cap >= cap && (*at)->cap / 4 <= cap && (!best || (*at)->cap < (*best)->cap))
      best = at;
  if (best) b = *best, *best = b->next, kept.bytes -= b->cap;
  pthread_mutex_unlock(&kept.lock);
  return b;
}

static bool keep(struct hs_arena_block *b) {
  pthread_mutex_lock(&kept.lock);
  bool room = b->cap <= KEPT_ONE && b->cap <= KEPT_MOST - kept.bytes;
  if (room) b->next = kept.first, kept.first = b, kept.bytes += b->cap;
  pthread_mutex_unlock(&kept.lock);
  return room;
}

// Large blocks come from the kernel: a page fault per 4 KiB would cost as much as reading the text
// that fills them.
static struct hs_arena_block *new_block(size_t cap, bool fresh) {
  struct hs_arena_block *b = NULL;
  if (cap >= HUGE_PAGE / 2) {
    if (!fresh && (b = take_kept(cap))) return b;
    size_t all = (cap + sizeof *b + HUGE_PAGE - 1) & ~(size_t)(HUGE_PAGE - 1);
    void *p = mmap(NULL, all, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p != MAP_FAILED) {
      (void)madvise(p, all, MADV_HUGEPAGE);
      b = p;
      b->cap = all - sizeof *b;
      b->mapped = true;
      return b;
    }
  }
  b = aligned_alloc(128, (sizeof *b + cap + 127) & ~(size_t)127);
  if (!b) out_of_memory(cap);
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
}

void hs_arena_expect(hs_arena *a, size_t n) {
  if ((size_t)(a->limit - a->at) < n) use_block(a, new_block(n, true));
}

void *hs_arena_more_(hs_arena *a, size_t n) {
  struct hs_arena_block *b = a->head;
  size_t most = HS_MAX(HUGE_PAGE - sizeof *b, a->given / 8),
         cap = b ? HS_MIN(b->cap * 2, most) : 4096;
  // a block made for one large object must not hide the room left in the current one
  if (b && n > cap / 2) {
    struct hs_arena_block *own = new_block(n, false);
    own->next = b->next;
    b->next = own;
    return own->data;
  }
  use_block(a, new_block(HS_MAX(cap, n), false));
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
    if (!b->mapped) hs_free(b);
    else if (!keep(b)) munmap(b, b->cap + sizeof *b);
  }
  *a = (hs_arena){0};
}

// ---- text buffer --------------------------------------------------------------------------------

static void buf_reserve(hs_buf *b, size_t more) {
  if (b->cap - b->n > more) return;
  size_t cap = b->cap ? b->cap * 2 : 128;
  while (cap - b->n <= more) cap *= 2;
  b->p = hs_realloc(b->p, cap);
  b->cap = cap;
}

void hs_buf_put(hs_buf *b, const char *s, size_t n) {
  buf_reserve(b, n);
  if (n) memcpy(b->p + b->n, s, n);
  b->n += n;
}

void hs_buf_puts(hs_buf *b, const char *s) { hs_buf_put(b, s, strlen(s)); }

void hs_buf_putc(hs_buf *b, char c) {
  buf_reserve(b, 1);
  b->p[b->n++] = c;
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
  } else if (n >= 0) {
    buf_reserve(b, (size_t)n + 1);
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
  buf_reserve(b, 1);
  b->p[b->n] = 0;
  return b->p;
}

u64 hs_now_ns(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (u64)t.tv_sec * 1000000000ull + (u64)t.tv_nsec;
}
